//! A branch as server-sent events: what is stored, then what comes, in one answer of any length.
//!
//! Nothing is read that the client has not asked for by taking what came before it, so a slow one is behind,
//! misses nothing and costs two pages of memory, each bounded in events and in bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use glasshouse_log::Log;
use glasshouse_model::{BranchId, Event, Seq};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::problem::Problem;
use crate::reply::{Reply, json_bytes};
use crate::tide::Tide;
use crate::{Error, Result, codes};

/// Events of one read.
const PAGE_EVENTS: usize = 256;
/// Reads for streams that are made at a time; requests have threads of their own.
const READERS: usize = 4;
/// Silence after which a comment says that the connection lives. Below what proxies allow.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);
/// What a client waits before it connects again, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// Makes streams.
#[derive(Debug)]
pub(crate) struct Streams {
    log: Log,
    tide: Tide,
    readers: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
    open: AtomicUsize,
}

impl Streams {
    /// Of a log, until told to stop.
    ///
    /// # Errors
    /// As [`Tide::new`].
    pub(crate) fn new(log: &Log, stopping: watch::Receiver<bool>) -> Result<Self> {
        let (log, tide) = (log.clone(), Tide::new(log)?);
        let (readers, open) = (Arc::new(Semaphore::new(READERS)), AtomicUsize::new(0));
        Ok(Self { log, tide, readers, stopping, open })
    }

    /// The body of an answer that follows a branch.
    pub(crate) fn body(self: &Arc<Self>, branch: BranchId, from: Seq) -> Body {
        // One chunk waits for the client, one is being read: that is all a slow client holds.
        let (chunks, taken) = mpsc::channel(1);
        let streams = Arc::clone(self);
        tokio::spawn(async move {
            let _open = streams.enter();
            streams.run(branch, from, chunks).await;
        });
        body_of(taken)
    }

    /// Counts one stream for as long as the answer lives.
    pub(crate) fn enter(self: &Arc<Self>) -> Entered {
        self.open.fetch_add(1, Ordering::Relaxed);
        Entered(Arc::clone(self))
    }

    /// Whether the server stops.
    pub(crate) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.clone()
    }

    /// Hears of a branch's events from now on.
    pub(crate) fn watch(&self, branch: &BranchId) -> watch::Receiver<Seq> {
        self.tide.watch(branch)
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    async fn run(&self, branch: BranchId, from: Seq, chunks: mpsc::Sender<Bytes>) {
        let mut stopping = self.stopping.clone();
        // Before the first read: what is stored meanwhile is told.
        let mut news = self.tide.watch(&branch);
        let mut next = from;
        let first = Bytes::from(format!("retry: {RETRY_MS}\n\n"));
        if chunks.send(first).await.is_err() {
            return;
        }
        while !*stopping.borrow() {
            news.borrow_and_update();
            let chunk = match self.read(&branch, next).await {
                Ok((chunk, after)) if after > next => {
                    next = after;
                    chunk
                }
                Ok(_) => tokio::select! {
                    _ = stopping.changed() => return,
                    () = chunks.closed() => return,
                    changed = tokio::time::timeout(HEARTBEAT, news.changed()) => match changed {
                        Ok(_) => continue,
                        Err(_) => Bytes::from_static(b": alive\n\n"),
                    },
                },
                Err(error) => {
                    // The last thing that it says; where to go on is the client's to know.
                    let _ = chunks.send(problem(error)).await;
                    return;
                }
            };
            tokio::select! {
                _ = stopping.changed() => return,
                sent = chunks.send(chunk) => if sent.is_err() { return },
            }
        }
    }

    /// The next events as text, and the sequence after them.
    async fn read(&self, branch: &BranchId, next: Seq) -> Result<(Bytes, Seq)> {
        let branch = branch.clone();
        self.reading(move |log| {
            let lines = log.lines(&branch, next, PAGE_EVENTS)?;
            let after = lines.last().map_or(next, |(seq, _)| seq + 1);
            Ok((Bytes::from(frames(&lines)), after))
        })
        .await
    }

    /// Events of a branch from a sequence on.
    pub(crate) async fn events(
        &self,
        branch: &BranchId,
        next: Seq,
        most: usize,
    ) -> Result<Vec<Event>> {
        let branch = branch.clone();
        self.reading(move |log| Ok(log.read(&branch, next, most)?)).await
    }

    /// Reads on a thread that may wait.
    async fn reading<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Log) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let slot = Arc::clone(&self.readers).acquire_owned().await;
        let slot = slot.map_err(|e| Error::new(codes::SERVER_FAILED, "the server ended").why(e))?;
        let log = self.log.clone();
        let read = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            read(&log)
        });
        read.await.map_err(|e| Error::new(codes::SERVER_FAILED, "a read broke down").why(e))?
    }
}

/// One open stream.
pub(crate) struct Entered(Arc<Streams>);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A body that gives what a channel gives.
pub(crate) fn body_of(taken: mpsc::Receiver<Bytes>) -> Body {
    Body::new(StreamBody::new(futures(taken)))
}

/// A receiver as the stream that a body is made of.
fn futures(
    mut taken: mpsc::Receiver<Bytes>,
) -> impl futures_util::Stream<Item = Result<Frame<Bytes>, std::convert::Infallible>> {
    futures_util::stream::poll_fn(move |context| {
        taken.poll_recv(context).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    })
}

/// Events as frames: the number is what a client sends back to go on after it.
fn frames(lines: &[(Seq, String)]) -> String {
    let bytes: usize = lines.iter().map(|(_, line)| line.len() + 32).sum();
    let mut text = String::with_capacity(bytes);
    for (seq, line) in lines {
        text.push_str("id: ");
        text.push_str(&seq.to_string());
        text.push('\n');
        // White space of somebody else's JSON may hold line ends; a reader puts them together again.
        for part in line.split(['\n', '\r']) {
            text.push_str("data: ");
            text.push_str(part);
            text.push('\n');
        }
        text.push('\n');
    }
    text
}

fn problem(error: Error) -> Bytes {
    let json = String::from_utf8(json_bytes(&Problem::of(error))).unwrap_or_default();
    Bytes::from(format!("event: problem\ndata: {json}\n\n"))
}

/// The headers of a stream: nothing on the way keeps it, joins it or holds it back.
pub(crate) fn with_headers(reply: Reply) -> Reply {
    reply
        .header("content-type", "text/event-stream")
        .header("cache-control", "no-cache")
        .header("x-accel-buffering", "no")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_frame_whatever_its_body_holds() {
        let check = |lines: &[(Seq, &str)], expected: &str| {
            let lines: Vec<_> =
                lines.iter().map(|(seq, line)| (*seq, (*line).to_owned())).collect();
            assert_eq!(frames(&lines), expected);
        };
        check(&[], "");
        check(&[(7, "{}")], "id: 7\ndata: {}\n\n");
        check(&[(7, "{}"), (8, "[]")], "id: 7\ndata: {}\n\nid: 8\ndata: []\n\n");
        check(&[(1, "{\n}")], "id: 1\ndata: {\ndata: }\n\n");
        check(&[(1, "{\r\n}")], "id: 1\ndata: {\ndata: \ndata: }\n\n");
    }
}
