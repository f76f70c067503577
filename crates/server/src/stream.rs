//! A branch as server-sent events: what is stored, then what comes, in one answer of any length.
//!
//! Nothing is read that the client has not asked for by taking what came before it, so a slow one is behind,
//! misses nothing and costs two pages of memory, each bounded in events and in bytes.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use glasshouse_log::Log;
use glasshouse_model::{BranchId, Event, Seq};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::count::{Count, Counted};
use crate::faults::Faults;
use crate::problem::Problem;
use crate::reply::{Reply, json_bytes};
use crate::route::Route;
use crate::tide::Tide;
use crate::{Error, Result, codes};

/// Events of one read.
const PAGE_EVENTS: usize = 256;
/// Reads for streams that are made at a time; requests have threads of their own.
const READERS: usize = 4;
/// Silence after which a comment says that the connection lives. Below what proxies allow.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);
/// How long the last frame waits for a slow client.
const LAST_WITHIN: Duration = Duration::from_secs(1);
/// What a client waits before it connects again, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// Makes streams.
#[derive(Debug)]
pub(crate) struct Streams {
    log: Log,
    tide: Tide,
    readers: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
    open: Count,
    faults: Faults,
}

impl Streams {
    /// Of a log, until told to stop.
    ///
    /// # Errors
    /// As [`Tide::new`].
    pub(crate) fn new(log: &Log, stopping: watch::Receiver<bool>, faults: Faults) -> Result<Self> {
        let (log, tide) = (log.clone(), Tide::new(log)?);
        let (readers, open) = (Arc::new(Semaphore::new(READERS)), Count::default());
        Ok(Self { log, tide, readers, stopping, open, faults })
    }

    /// The body of an answer that follows a branch.
    pub(crate) fn body(
        self: &Arc<Self>,
        (branch, from): (BranchId, Seq),
        route: &'static Route,
    ) -> Body {
        // One chunk waits for the client, one is being read: that is all a slow client holds.
        let (chunks, taken) = mpsc::channel(1);
        let streams = Arc::clone(self);
        tokio::spawn(async move {
            let _open = streams.enter();
            if let Err(error) = streams.run(branch, from, &chunks).await {
                // The last thing that it says; where to go on is the client's to know.
                let problem = Problem::of(error);
                if problem.code() != codes::SERVER_STOPPING.name {
                    streams.faults.tell(&problem, Some(route));
                }
                let _ = chunks.send_timeout(frame_of(&problem), LAST_WITHIN).await;
            }
        });
        body_of(taken)
    }

    /// Counts one stream for as long as the answer lives.
    pub(crate) fn enter(&self) -> Counted {
        self.open.one()
    }

    /// Whom faults of ours are told.
    pub(crate) const fn faults(&self) -> &Faults {
        &self.faults
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
        self.open.now()
    }

    /// Ends with an error where the server ends it, and without one where the client does.
    async fn run(&self, branch: BranchId, from: Seq, chunks: &mpsc::Sender<Bytes>) -> Result<()> {
        let mut stopping = self.stopping.clone();
        // Before the first read: what is stored meanwhile is told.
        let mut news = self.tide.watch(&branch);
        let mut next = from;
        let first = Bytes::from(format!("retry: {RETRY_MS}\n\n"));
        if chunks.send(first).await.is_err() {
            return Ok(());
        }
        while !*stopping.borrow() {
            news.borrow_and_update();
            let chunk = match self.read(&branch, next).await? {
                (chunk, after) if after > next => {
                    next = after;
                    chunk
                }
                _ => tokio::select! {
                    _ = stopping.changed() => break,
                    () = chunks.closed() => return Ok(()),
                    changed = tokio::time::timeout(HEARTBEAT, news.changed()) => match changed {
                        Ok(_) => continue,
                        Err(_) => Bytes::from_static(b": alive\n\n"),
                    },
                },
            };
            tokio::select! {
                _ = stopping.changed() => break,
                sent = chunks.send(chunk) => if sent.is_err() { return Ok(()) },
            }
        }
        Err(Error::new(codes::SERVER_STOPPING, "the stream ends with the server")
            .fix("connect again after the last event that came"))
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
        let has_ends = [b'\n', b'\r'].iter().any(|end| line.as_bytes().contains(end));
        let mut data = |part: &str| {
            text.push_str("data: ");
            text.push_str(part);
            text.push('\n');
        };
        if has_ends {
            line.split(['\n', '\r']).for_each(data)
        } else {
            data(line)
        }
        text.push('\n');
    }
    text
}

fn frame_of(problem: &Problem) -> Bytes {
    let json = String::from_utf8(json_bytes(problem)).unwrap_or_default();
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

    /// C8: while nothing happens a comment comes before anything on the way takes the connection for dead. The clock is
    /// moved on, so the test waits for nothing.
    #[tokio::test(start_paused = true)]
    async fn c8_a_silent_stream_says_that_it_lives() {
        use glasshouse_log::{Append, NewBranch};
        use glasshouse_model::{Draft, Kind, SessionId, TenantId};
        use http_body_util::BodyExt as _;

        let home = tempfile::tempdir().unwrap();
        let log = Log::open(home.path(), &TenantId::local()).unwrap();
        let session: SessionId = "s_line".parse().unwrap();
        let branch: BranchId = "b_line".parse().unwrap();
        let new = NewBranch {
            session: session.clone(),
            branch: branch.clone(),
            name: "main".to_owned(),
            parent: None,
        };
        log.create_branch(new).unwrap();
        let event = Draft::new(Kind::Heartbeat, &serde_json::json!({}));
        log.append(Append::new(session, branch.clone(), vec![event])).unwrap();
        let (stop, stopping) = watch::channel(false);
        let faults = Faults::new(Arc::new(()));
        let streams = Arc::new(Streams::new(&log, stopping, faults).unwrap());
        let mut body = streams.body((branch, 1), &crate::route::ROUTES[0]);
        let mut next = async || {
            let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
            (tokio::time::Instant::now(), String::from_utf8(frame.to_vec()).unwrap())
        };
        assert_eq!(next().await.1, "retry: 1000\n\n");
        let (mut before, told) = next().await;
        assert!(told.starts_with("id: 1\n"), "{told}");
        for _ in 0..3 {
            let (now, told) = next().await;
            assert_eq!(told, ": alive\n\n");
            let waited = now - before;
            assert!((HEARTBEAT..HEARTBEAT + LAST_WITHIN).contains(&waited), "{waited:?}");
            before = now;
        }
        assert!(HEARTBEAT <= Duration::from_secs(15));
        stop.send(true).unwrap();
        let (_, told) = next().await;
        assert!(told.starts_with("event: problem\ndata: ") && told.contains("server_stopping"));
    }

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
