//! Whether anything happens on a connection. One on which nothing does is ended: its client asks for nothing, or takes
//! nothing of what it asked for.
//!
//! While the server owes something (an answer is being made, a stream has nothing to tell) its client is waited for by
//! nobody, and the connection stays.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Longest that a client may ask for nothing and take nothing.
pub(crate) const STILL_WITHIN: Duration = Duration::from_secs(120);
/// Most bytes that say nothing but that the connection lives: signs of HTTP/2, encrypted or not.
const MAX_SIGN_BYTES: usize = 128;

/// The pulse of one connection.
#[derive(Debug)]
pub(crate) struct Pulse {
    began: Instant,
    /// When something last happened, in milliseconds since it began.
    moved_ms: AtomicU64,
    /// Answers that wait for the server.
    owed: AtomicUsize,
}

/// Something that the server owes, until it is dropped.
pub(crate) struct Owed(Arc<Pulse>);

impl Pulse {
    pub(crate) fn new() -> Arc<Self> {
        let (moved_ms, owed) = (AtomicU64::new(0), AtomicUsize::new(0));
        Arc::new(Self { began: Instant::now(), moved_ms, owed })
    }

    fn moved(&self) {
        let now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.moved_ms.store(now_ms, Ordering::SeqCst);
    }

    /// Counts something that the server owes.
    pub(crate) fn owe(self: &Arc<Self>) -> Owed {
        self.owed.fetch_add(1, Ordering::SeqCst);
        Owed(Arc::clone(self))
    }

    /// Comes to its end when nothing happened for too long.
    pub(crate) async fn still(&self) {
        loop {
            let since = self.began + Duration::from_millis(self.moved_ms.load(Ordering::SeqCst));
            let left = STILL_WITHIN.saturating_sub(since.elapsed());
            let is_owed = self.owed.load(Ordering::SeqCst) > 0;
            if left.is_zero() && !is_owed {
                return;
            }
            // What is owed counts from when it was given.
            tokio::time::sleep(if is_owed { STILL_WITHIN } else { left }).await;
        }
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        // In this order: nobody sees that nothing is owed before the time is the new one.
        self.0.moved();
        self.0.owed.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A body that tells whether it waits for the server or for its reader.
pub(crate) struct Felt {
    inner: Body,
    pulse: Arc<Pulse>,
    owed: Option<Owed>,
}

/// Lets a pulse feel a body.
pub(crate) fn felt(body: Body, pulse: &Arc<Pulse>) -> Body {
    Body::new(Felt { inner: body, pulse: Arc::clone(pulse), owed: None })
}

impl hyper::body::Body for Felt {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if polled.is_ready() {
            self.owed = None;
            self.pulse.moved();
        } else if self.owed.is_none() {
            self.owed = Some(self.pulse.owe());
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A stream that lets a pulse feel what a client takes.
pub(crate) struct Touched<S> {
    inner: S,
    pulse: Arc<Pulse>,
}

impl<S> Touched<S> {
    pub(crate) fn new(inner: S, pulse: &Arc<Pulse>) -> Self {
        Self { inner, pulse: Arc::clone(pulse) }
    }

    fn taken(&self, written: &Poll<std::io::Result<usize>>) {
        if matches!(written, Poll::Ready(Ok(bytes)) if *bytes > MAX_SIGN_BYTES) {
            self.pulse.moved();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Touched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Touched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.taken(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, bytes);
        self.taken(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
