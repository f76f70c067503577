//! A message as a stream: what is stored of it, then what comes, until it is over or asks a person.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use glasshouse_model::{BranchId, Seq};
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::PAGE_EVENTS;
use super::live::Said;
use super::teller::{Phase, Teller};
use crate::Result;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::Route;
use crate::stream::{HEARTBEAT, Streams};

/// The last frame of a stream.
const DONE: &str = "data: [DONE]\n\n";

/// A message that a client follows.
#[derive(Debug)]
pub(crate) struct Follow {
    pub(crate) branch: BranchId,
    pub(crate) teller: Teller,
    /// Sequence of the first event that is told.
    pub(crate) next: Seq,
    /// What is told before it.
    pub(crate) first: Vec<Value>,
    /// What its answers say before it is stored, if its turn runs here.
    pub(crate) said: Option<watch::Receiver<Said>>,
    /// Questions that were just answered: none of them ends the stream.
    pub(crate) answered: Vec<Seq>,
}

impl Follow {
    /// The body of the answer.
    pub(crate) fn body(self, streams: &Arc<Streams>, route: &'static Route) -> Body {
        let (chunks, taken) = mpsc::channel(1);
        let streams = Arc::clone(streams);
        tokio::spawn(async move {
            let _open = streams.enter();
            if let Err(error) = self.run(&streams, &chunks).await {
                let problem = Problem::of(error);
                streams.faults().tell(&problem, Some(route));
                let text = problem.line();
                let _ = chunks
                    .send(frames(&[serde_json::json!({ "type": "error", "errorText": text })]))
                    .await;
            }
        });
        crate::stream::body_of(taken)
    }

    /// Ends early when the client leaves; the turn goes on.
    async fn run(mut self, streams: &Arc<Streams>, chunks: &mpsc::Sender<Bytes>) -> Result<()> {
        let mut stopping = streams.stopping();
        let mut news = streams.watch(&self.branch);
        let mut waiting = std::mem::take(&mut self.first);
        while !*stopping.borrow() {
            news.borrow_and_update();
            let events = streams.events(&self.branch, self.next, PAGE_EVENTS).await?;
            for event in &events {
                waiting.extend(self.teller.tell(event));
                self.next = event.seq() + 1;
            }
            let is_at_head = events.len() < PAGE_EVENTS;
            let is_at_rest = match self.teller.phase() {
                Phase::Running => false,
                Phase::Asking => self.teller.waits_beside(&self.answered),
                Phase::Over => true,
            };
            let is_over = is_at_head && is_at_rest || self.teller.is_closed();
            if is_over {
                waiting.extend(self.teller.ending());
            } else if is_at_head {
                waiting.extend(self.hear());
            }
            if !waiting.is_empty() {
                let frames = frames(&std::mem::take(&mut waiting));
                tokio::select! {
                    _ = stopping.changed() => return Ok(()),
                    sent = chunks.send(frames) => if sent.is_err() { return Ok(()) },
                }
            }
            if is_over {
                let _ = chunks.send(Bytes::from_static(DONE.as_bytes())).await;
                return Ok(());
            }
            if !is_at_head {
                continue;
            }
            tokio::select! {
                _ = stopping.changed() => return Ok(()),
                () = chunks.closed() => return Ok(()),
                _ = news.changed() => {}
                () = changed(self.said.as_mut()) => {}
                () = tokio::time::sleep(HEARTBEAT) => {
                    if chunks.send(Bytes::from_static(b": alive\n\n")).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn hear(&mut self) -> Vec<Value> {
        let Some(said) = &mut self.said else { return Vec::new() };
        let said = said.borrow_and_update();
        self.teller.hear(&said)
    }
}

/// Waits until more was said; for ever where nobody speaks any more.
async fn changed(said: Option<&mut watch::Receiver<Said>>) {
    if let Some(said) = said
        && said.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

fn frames(chunks: &[Value]) -> Bytes {
    let mut text = String::new();
    for chunk in chunks {
        text.push_str("data: ");
        text.push_str(&chunk.to_string());
        text.push_str("\n\n");
    }
    Bytes::from(text)
}

/// The headers of a message's stream.
pub(crate) fn with_headers(reply: Reply) -> Reply {
    crate::stream::with_headers(reply).header("x-vercel-ai-ui-message-stream", "v1")
}
