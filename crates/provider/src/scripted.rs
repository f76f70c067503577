//! A provider that answers from a scenario file.
//!
//! Each step says what the request must hold and what the model answers. The answer is written as
//! a Chat Completions stream and read by the same reader as a server's, so a scenario exercises
//! everything but the network; an unmet expectation is an error, so a scenario also proves what
//! the rest of the system really sent.

mod expect;
mod file;
mod render;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::peer::{self, Peer};
use crate::wire::{self, Reader};
use crate::{
    Cancel, Completion, Delta, Dialect, Error, Message, ModelRequest, Prices, Provider, TokenUsage,
    codes,
};
use file::{Failure, Step};

/// A parsed scenario.
///
/// ```
/// use glasshouse_provider::Scripted;
/// let scenario = Scripted::parse("
/// version: 1
/// steps:
///   - expect: { user_contains: hello }
///     emit: [ { text: Hi. } ]
/// ", "greeting").unwrap();
/// assert!(scenario.reviews().is_empty());
/// let wrong = Scripted::parse("steps: [ { emits: [] } ]", "typo").unwrap_err();
/// assert!(wrong.to_string().contains("did you mean `emit`"));
/// ```
#[derive(Debug)]
pub struct Scripted {
    name: String,
    peer: Peer,
    steps: Vec<Step>,
    reviews: Vec<ScriptedReview>,
    tasks: Vec<String>,
    prices: Arc<Prices>,
}

/// How the scenario's user answers one kind of review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptedReview {
    /// Tool whose calls it answers.
    pub tool: String,
    /// The answer.
    pub answer: ReviewAnswer,
}

/// A scripted answer to a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewAnswer {
    /// Let it run.
    Approve,
    /// Do not.
    Reject,
}

impl Scripted {
    /// Reads a scenario; `name` is how messages call it, usually the file's name.
    ///
    /// # Errors
    /// `scenario_invalid` with the line and, for a misspelt key, what was probably meant.
    pub fn parse(yaml: &str, name: &str) -> Result<Self, Error> {
        let file = file::parse(yaml, name)?;
        Ok(Self {
            name: format!("scripted {name}"),
            peer: Peer::new(format!("scenario `{name}`"), None),
            steps: file.steps,
            reviews: file.reviews,
            tasks: file.tasks,
            prices: Arc::default(),
        })
    }

    /// Sets what tokens cost.
    #[must_use]
    pub fn with_prices(mut self, prices: Arc<Prices>) -> Self {
        self.prices = prices;
        self
    }

    /// How the scenario's user answers reviews; the first entry for a tool counts.
    #[must_use]
    pub fn reviews(&self) -> &[ScriptedReview] {
        &self.reviews
    }

    /// The tasks that the scenario's user gives, in order; empty when the caller brings its own.
    #[must_use]
    pub fn tasks(&self) -> &[String] {
        &self.tasks
    }

    /// How many requests it answers.
    #[must_use]
    pub fn step_count(&self) -> usize {
        self.steps.len()
    }

    /// The step that answers a request, when its expectations are met.
    fn step_for(&self, request: &ModelRequest) -> Result<&Step, Error> {
        let mismatch = |what: String| Error::new(codes::SCENARIO_MISMATCH, what);
        let number = request.ordinal.saturating_add(1);
        let step = usize::try_from(request.ordinal).ok().and_then(|index| self.steps.get(index));
        let Some(step) = step else {
            return Err(mismatch(format!("{} has no step {number}", self.peer.name()))
                .why(format!(
                    "it ends after step {}; the request's last message is {}",
                    self.steps.len(),
                    describe_last(request),
                ))
                .with("step", number));
        };
        let unmet = step.expect.unmet(request);
        if unmet.is_empty() {
            return Ok(step);
        }
        Err(mismatch(format!(
            "step {number} (line {}) of {} expects what the request does not hold",
            step.line,
            self.peer.name(),
        ))
        .why(unmet.join("; "))
        .with("step", number)
        .with("line", step.line))
    }

    async fn answer(
        &self,
        request: &ModelRequest,
        sink: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Completion, Error> {
        let step = self.step_for(request)?;
        tokio::time::sleep(Duration::from_millis(step.delay_ms)).await;
        if let Some(Failure::Status { status, retry_after_ms }) = step.failure {
            let body = render::error_body(status);
            let body = body.to_string();
            return Err(wire::from_status(&self.peer, status, retry_after_ms, body.as_bytes()));
        }
        let mut answer = Reader::new(Dialect::Chat, &request.model, self.peer.clone());
        for piece in render::stream(step, request).chunks(step.chunk_bytes) {
            answer.push(piece, sink)?;
            // A server's pieces arrive one by one too: others run, and a cancel is seen, between.
            tokio::task::yield_now().await;
        }
        answer.finish(sink)
    }
}

fn describe_last(request: &ModelRequest) -> String {
    match request.messages.last() {
        None => "absent".to_owned(),
        Some(Message::User { text, .. }) => format!("the user's `{}`", peer::excerpt(text)),
        Some(Message::Assistant { text, .. }) => format!("the model's `{}`", peer::excerpt(text)),
        Some(Message::ToolResult { id, status, content }) => {
            format!("the result of `{id}`, {status}: `{}`", peer::excerpt(content))
        }
    }
}

impl Provider for Scripted {
    fn name(&self) -> &str {
        &self.name
    }

    fn cost_micros(&self, model: &str, usage: &TokenUsage) -> Option<u64> {
        self.prices.cost_micros(model, usage)
    }

    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut (dyn FnMut(Delta) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Completion, Error>> {
        Box::pin(cancel.or_cancelled(&self.name, self.answer(request, sink)))
    }
}
