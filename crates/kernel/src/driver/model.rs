//! Asking the model: decided, recorded, then sent; masked before anything of it is kept.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use glasshouse_log::Log;
use glasshouse_model::body::{ModelCompleted, ModelFailed, ModelRequested, PolicyDecided};
use glasshouse_model::syscall::name;
use glasshouse_model::{Actor, Call, Draft, Kind, PrincipalKind};
use glasshouse_provider::codes as provider_codes;
use glasshouse_provider::{Completion, Delta, ModelRequest, Provider, ToolSpec, retry};
use glasshouse_tools::Registry;
use glasshouse_tools::sanitise::Masker;
use tokio::task::JoinSet;

use super::answer::Keeper;
use super::demands::{Place, decide_uncounted};
use super::people::{Cancel, Notice, Observer};
use super::{Session, TaskEnd, lock};
use crate::Result;
use crate::session::{State, is_summary_wanted, model_request, turn_failed};

/// Time after which no new try of a model begins. A try that is under way has limits of its own.
const ANSWER_DEADLINE_MS: u64 = 10 * 60 * 1000;

/// What of an answer has arrived and is not in the log yet, secrets masked.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    pub(super) text: String,
    pub(super) reasoning: String,
}

/// All that the task needs; it owns no part of the session.
struct Ask {
    provider: Arc<dyn Provider>,
    request: ModelRequest,
    attempt: u32,
    delay_ms: u64,
    cancel: Cancel,
    masker: Arc<Masker>,
    observer: Arc<dyn Observer>,
    partial: Arc<Mutex<Arrived>>,
    /// What an earlier try of the same request failed with.
    failure: Arc<Mutex<Option<(String, String)>>>,
    /// Whether a summary is asked for, which is no message to anyone.
    summary: bool,
    /// The model to ask when this one does not answer.
    next_model: Option<String>,
    /// Whether a conversation that is too long can be shortened.
    may_summarise: bool,
    /// Until when an answer must have come, with all tries.
    answer_by: Instant,
    log: Log,
    labels: BTreeSet<String>,
}

impl Session {
    pub(super) async fn request_model(
        &mut self,
        tasks: &mut JoinSet<TaskEnd>,
        attempt: u32,
        delay_ms: u64,
        cancel: &Cancel,
    ) -> Result<()> {
        let tools = tools_told(&self.registry);
        let request = model_request(self.state(), &tools);
        let summary = is_summary_wanted(self.state());
        let mut call = Call::new(name::MODEL_CALL, self.agent());
        call.session = Some(self.id().clone());
        call.state = Some(self.state().workflow().to_string());
        call.labels = self.context_labels();
        let decision = decide_uncounted(&self.policy, &call, Place::Kernel);
        let allowed = decision.is_allowed();
        let reasons = decision.why();
        let body = PolicyDecided::new(None, call, Some(request.model.clone()), decision);
        let mut drafts = vec![Draft::new(Kind::PolicyDecided, &body)];
        if allowed {
            let body = ModelRequested {
                ordinal: request.ordinal,
                attempt,
                request: request.digest(),
                provider: self.provider.name().to_owned(),
                model: request.model.clone(),
                summary,
            };
            drafts.push(Draft::new(Kind::ModelRequested, &body));
        } else {
            drafts.extend(turn_failed(
                self.state(),
                "policy_denied",
                &format!("model.call: {reasons}"),
            ));
        }
        // What follows a failure is read from the state before the request.
        let next_model = next_model(self.state(), &request.model);
        let may_summarise = may_summarise(self.state());
        self.recorder.record(drafts).await?;
        let answer_by = self.answer_by(&request.model, attempt);
        if allowed {
            *lock(&self.partial) = Arrived::default();
            if attempt <= 1 {
                *lock(&self.model_failure) = None;
            }
            let ask = Ask {
                provider: Arc::clone(&self.provider),
                request,
                attempt,
                delay_ms,
                cancel: cancel.clone(),
                masker: Arc::clone(&self.masker),
                observer: Arc::clone(self.recorder.observer()),
                partial: Arc::clone(&self.partial),
                failure: Arc::clone(&self.model_failure),
                summary,
                next_model,
                may_summarise,
                answer_by,
                log: self.recorder.log().clone(),
                labels: self.context_labels(),
            };
            tasks.spawn(ask.run());
        }
        Ok(())
    }

    /// Until when a model must have answered: its own time, counted from its first try in this process.
    fn answer_by(&mut self, model: &str, attempt: u32) -> Instant {
        match &self.answer_by {
            Some((asked, until)) if attempt > 1 && asked == model => *until,
            _ => {
                let until = Instant::now() + Duration::from_millis(ANSWER_DEADLINE_MS);
                self.answer_by = Some((model.to_owned(), until));
                until
            }
        }
    }
}

impl Ask {
    async fn run(self) -> TaskEnd {
        tokio::select! {
            () = self.cancel.cancelled() => return vec![self.cancelled()],
            () = tokio::time::sleep(Duration::from_millis(self.delay_ms)) => {}
        }
        let started = Instant::now();
        let (mut text, mut reasoning) = (self.masker.stream(), self.masker.stream());
        let mut sink = |delta: Delta| match delta {
            Delta::Text(more) => self.show(&text.push(more.as_bytes())),
            Delta::Reasoning(more) => self.show_reasoning(&reasoning.push(more.as_bytes())),
            _ => {}
        };
        let answer = self.provider.stream(&self.request, &mut sink, self.cancel.provider()).await;
        self.show_reasoning(&reasoning.finish());
        self.show(&text.finish());
        match answer {
            Ok(completion) => {
                // What the model says derives from all that it was told.
                let mut answer = self.completed(completion, started);
                answer.labels.extend(self.labels.iter().cloned());
                vec![answer]
            }
            Err(_) if self.cancel.is_cancelled() => vec![self.cancelled()],
            Err(error) => vec![self.failed(&error)],
        }
    }

    fn show(&self, bytes: &[u8]) {
        if !bytes.is_empty() && !self.summary {
            let text = String::from_utf8_lossy(bytes);
            lock(&self.partial).text.push_str(&text);
            self.observer.notice(Notice::Text(&text));
        }
    }

    fn show_reasoning(&self, bytes: &[u8]) {
        if !bytes.is_empty() && !self.summary {
            let text = String::from_utf8_lossy(bytes);
            lock(&self.partial).reasoning.push_str(&text);
            self.observer.notice(Notice::Reasoning(&text));
        }
    }

    fn completed(&self, completion: Completion, started: Instant) -> Draft {
        let cost_micros = self.provider.cost_micros(&self.request.model, &completion.usage);
        let keeper = Keeper { masker: &self.masker, log: &self.log };
        match keeper.completed(completion, self.request.ordinal, elapsed_us(started)) {
            Ok(body) => {
                let body = ModelCompleted { cost_micros, summary: self.summary, ..body };
                let agent = Actor { kind: PrincipalKind::Agent, id: "agent".to_owned() };
                Draft::new(Kind::ModelCompleted, &body).by(agent)
            }
            Err(error) => self.failure(error.code(), &error.to_string(), Next::Nothing, true),
        }
    }

    fn failed(&self, error: &glasshouse_provider::Error) -> Draft {
        let message = self.masker.mask_str(&error.to_string());
        if error.is(provider_codes::CONTEXT_OVERFLOW) && self.may_summarise {
            return self.failure(error.code(), &message, Next::Again { wait_ms: 0 }, true);
        }
        let mut random = [0; 8];
        // Jitter only spreads load; without entropy the plain delay does.
        let _ = getrandom::fill(&mut random);
        let left = self.answer_by.saturating_duration_since(Instant::now());
        let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        let wait = retry::next_delay_ms(error, self.attempt, u64::from_le_bytes(random), left_ms);
        let next = match (wait, &self.next_model) {
            (Some(wait_ms), _) => Next::Again { wait_ms },
            (None, Some(model)) if retry::another_may_answer(error) => Next::Ask(model.clone()),
            (None, _) => Next::Nothing,
        };
        let is_last = matches!(next, Next::Nothing);
        let earlier = &mut *lock(&self.failure);
        let (code, message) = cause((error.code(), message), is_last, earlier);
        self.failure(&code, &message, next, true)
    }

    fn cancelled(&self) -> Draft {
        self.failure("cancelled", "the turn was cancelled", Next::Nothing, false)
    }

    fn failure(&self, code: &str, message: &str, next: Next, answered: bool) -> Draft {
        let (retry_in_ms, next_model) = match next {
            Next::Nothing => (None, None),
            Next::Again { wait_ms } => (Some(wait_ms), None),
            Next::Ask(model) => (Some(0), Some(model)),
        };
        let body = ModelFailed {
            ordinal: self.request.ordinal,
            attempt: self.attempt,
            code: code.to_owned(),
            message: message.to_owned(),
            retry_in_ms,
            next_model,
            answered,
        };
        Draft::new(Kind::ModelFailed, &body)
    }
}

/// What a request is told to have failed with: in the end its own failure, not that the server was left alone
/// because of it. Code and message.
fn cause(
    (code, message): (&str, String),
    is_last: bool,
    earlier: &mut Option<(String, String)>,
) -> (String, String) {
    let now = (code.to_owned(), message);
    if code != provider_codes::PROVIDER_PAUSED.name {
        *earlier = Some(now.clone());
        return now;
    }
    earlier.clone().filter(|_| is_last).unwrap_or(now)
}

/// What follows a request that failed.
enum Next {
    Nothing,
    /// The same request after a wait.
    Again {
        wait_ms: u64,
    },
    /// Another model.
    Ask(String),
}

/// The fallback model after the one that is asked now.
fn next_model(state: &State, now: &str) -> Option<String> {
    let created = state.created.as_ref()?;
    let mut models = std::iter::once(&created.model).chain(&created.settings.fallback_models);
    models.find(|model| *model == now)?;
    models.next().cloned()
}

/// Whether a summary could shorten the conversation: there is something to summarise that no
/// summary stands for yet.
fn may_summarise(state: &State) -> bool {
    !state.overflowed
        && !is_summary_wanted(state)
        && state.conversation.len() > state.summarised() + 1
        && state.summary.as_ref().is_none_or(|summary| summary.at < state.conversation.len())
}

/// The tools that a model is told of.
#[must_use]
pub fn tools_told(registry: &Registry) -> Vec<ToolSpec> {
    let spec = |tool: glasshouse_tools::ToolSpec| ToolSpec {
        name: tool.name,
        description: tool.description,
        parameters: tool.parameters,
    };
    registry.specs(&|_| true).into_iter().map(spec).collect()
}

/// Microseconds since `started`.
pub(super) fn elapsed_us(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The failure: after five refused connections the line to the server was closed, and all that the end of the
    /// turn told was that it was not asked.
    #[test]
    fn the_last_failure_tells_what_the_server_did() {
        let check = |failures: &[(&str, bool)], expected: &[&str]| {
            let mut earlier = None;
            let told = failures.iter().map(|(code, is_last)| {
                cause((code, format!("{code} it was")), *is_last, &mut earlier)
            });
            let told: Vec<_> = told.collect();
            assert!(told.iter().all(|(code, text)| text.starts_with(code.as_str())), "{told:?}");
            let codes: Vec<_> = told.iter().map(|(code, _)| code.as_str()).collect();
            assert_eq!(codes, expected);
        };
        let (refused, paused) = ("provider_unreachable", "provider_paused");
        check(&[(refused, false), (paused, true)], &[refused, refused]);
        check(&[(refused, false), (paused, false), (paused, true)], &[refused, paused, refused]);
        check(&[(paused, true)], &[paused]);
        check(&[(refused, false), ("overloaded", true)], &[refused, "overloaded"]);
    }
}
