//! Clients that end their sending side once they have asked, as `nc -N` does, and wait for the answer.
//!
//! What is read of them is what is read of a client that left; only writing tells the two apart. So the end of what a
//! client sends is an end at once while nothing is being answered, and else when nothing could be written for some time.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Body as _, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::count::{Count, Counted};

/// How long an answer may let a client wait that sends no more. What a client that left asked for goes on as long, where
/// it ends with its client.
const LINGER: Duration = Duration::from_secs(5);

/// A body that is counted until its end is taken. One that goes on is not counted: whoever follows something for as long
/// as it lasts counts as gone when it sends no more, so that it takes no place of its next try.
pub(crate) fn until_told(body: Body, answer: Counted) -> Body {
    match body.size_hint().exact() {
        Some(_) => Body::new(Told { inner: body, _answer: answer }),
        None => body,
    }
}

struct Told {
    inner: Body,
    _answer: Counted,
}

impl hyper::body::Body for Told {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A connection whose client may end its sending side first.
pub(crate) struct Lingering<T> {
    inner: T,
    /// The answers that it is giving.
    answering: Count,
    /// Begins when the client sends no more, and anew with each write.
    ended: Option<Pin<Box<Sleep>>>,
}

impl<T> Lingering<T> {
    pub(crate) const fn new(inner: T, answering: Count) -> Self {
        Self { inner, answering, ended: None }
    }

    fn wrote(&mut self, written: Poll<Result<usize>>) -> Poll<Result<usize>> {
        if let (Some(ended), Poll::Ready(Ok(1..))) = (&mut self.ended, &written) {
            ended.as_mut().reset(Instant::now() + LINGER);
        }
        written
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Lingering<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        if self.ended.is_none() {
            let left = into.remaining();
            ready!(Pin::new(&mut self.inner).poll_read(context, into))?;
            if left == 0 || into.remaining() < left {
                return Poll::Ready(Ok(()));
            }
            self.ended = Some(Box::pin(sleep(LINGER)));
        }
        let is_answering = self.answering.now() > 0;
        match &mut self.ended {
            Some(ended) if is_answering => ended.as_mut().poll(context).map(Ok),
            _ => Poll::Ready(Ok(())),
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Lingering<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(context, parts);
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
