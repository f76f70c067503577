//! Asking the model: decided, recorded, then sent; masked before anything of it is kept.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use glasshouse_log::Log;
use glasshouse_model::body::{
    BlobRef, ModelCompleted, ModelFailed, ModelRequested, PolicyDecided, WrittenCall,
};
use glasshouse_model::syscall::name;
use glasshouse_model::{Actor, Call, Draft, Kind, PrincipalKind};
use glasshouse_provider::{Completion, Delta, Finish, ModelRequest, Provider, ToolSpec, retry};
use glasshouse_tools::Registry;
use glasshouse_tools::sanitise::Masker;
use tokio::task::JoinSet;

use super::people::{Cancel, Notice, Observer};
use super::{Session, TaskEnd, lock};
use crate::Result;
use crate::session::{model_request, turn_failed};

/// Longest that one answer may take with all its tries.
const ANSWER_DEADLINE_MS: u64 = 10 * 60 * 1000;

/// What is kept of a raw answer that held a secret.
const WITHHELD: &[u8] = b"[withheld: the answer held a masked secret]";
/// Most bytes of one call's arguments that an event holds; a larger file is written in parts.
const MAX_INLINE_ARGUMENTS_BYTES: usize = 256 * 1024;

/// Arguments that fit an event; others become a text that no tool accepts and that says why.
fn bounded(arguments: String) -> String {
    if arguments.len() <= MAX_INLINE_ARGUMENTS_BYTES {
        return arguments;
    }
    format!("\"{} bytes of arguments; the limit is {MAX_INLINE_ARGUMENTS_BYTES}\"", arguments.len())
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
    partial: Arc<Mutex<String>>,
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
        let mut call = Call::new(name::MODEL_CALL, self.agent());
        call.session = Some(self.id().clone());
        call.state = Some(self.state().workflow().to_string());
        call.labels = self.context_labels();
        let decision = self.decide(&call, None).decision;
        let allowed = decision.is_allowed();
        let reasons = decision.reasons.join("; ");
        let body = PolicyDecided::new(None, call, Some(request.model.clone()), decision);
        let mut drafts = vec![Draft::new(Kind::PolicyDecided, &body)];
        if allowed {
            let body = ModelRequested {
                ordinal: request.ordinal,
                attempt,
                request: request.digest(),
                provider: self.provider.name().to_owned(),
                model: request.model.clone(),
            };
            drafts.push(Draft::new(Kind::ModelRequested, &body));
        } else {
            drafts.extend(turn_failed(
                self.state(),
                "policy_denied",
                &format!("model.call: {reasons}"),
            ));
        }
        self.recorder.record(drafts).await?;
        if allowed {
            lock(&self.partial).clear();
            let ask = Ask {
                provider: Arc::clone(&self.provider),
                request,
                attempt,
                delay_ms,
                cancel: cancel.clone(),
                masker: Arc::clone(&self.masker),
                observer: Arc::clone(self.recorder.observer()),
                partial: Arc::clone(&self.partial),
                log: self.recorder.log().clone(),
                labels: self.context_labels(),
            };
            tasks.spawn(ask.run());
        }
        Ok(())
    }
}

impl Ask {
    async fn run(self) -> TaskEnd {
        tokio::select! {
            () = self.cancel.cancelled() => return vec![self.cancelled()],
            () = tokio::time::sleep(Duration::from_millis(self.delay_ms)) => {}
        }
        let started = Instant::now();
        let mut masked = self.masker.stream();
        let show = |bytes: Vec<u8>| {
            if !bytes.is_empty() {
                let text = String::from_utf8_lossy(&bytes);
                lock(&self.partial).push_str(&text);
                self.observer.notice(Notice::Text(&text));
            }
        };
        let mut sink = |delta: Delta| {
            if let Delta::Text(text) = delta {
                show(masked.push(text.as_bytes()));
            }
        };
        let answer = self.provider.stream(&self.request, &mut sink, self.cancel.provider()).await;
        show(masked.finish());
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

    fn completed(&self, completion: Completion, started: Instant) -> Draft {
        // A secret that arrives in pieces or escaped is whole only in the decoded text.
        let raw = if self.holds_secret(&completion) {
            WITHHELD.to_vec()
        } else {
            self.masker.mask(&completion.raw)
        };
        let bytes = raw.len() as u64;
        let blob = match self.log.put_blob(&raw) {
            Ok(blob) => blob,
            Err(error) => return self.failure(error.code(), &error.to_string(), None, true),
        };
        let calls = completion.calls.into_iter().map(|call| {
            let arguments = self.mask_arguments(&call.arguments);
            WrittenCall {
                id: self.masker.mask_str(&call.id),
                tool: self.masker.mask_str(&call.tool),
                masked: arguments != call.arguments,
                arguments: bounded(arguments),
            }
        });
        let usage = completion.usage;
        let tokens = [
            ("input_uncached", usage.input_uncached),
            ("cache_read", usage.cache_read),
            ("cache_write", usage.cache_write),
            ("output", usage.output),
            ("reasoning", usage.reasoning),
        ];
        let tokens: BTreeMap<String, u64> = tokens
            .into_iter()
            .filter(|(_, n)| *n > 0)
            .map(|(kind, n)| (kind.to_owned(), n))
            .collect();
        let body = ModelCompleted {
            ordinal: self.request.ordinal,
            text: self.masker.mask_str(&completion.text),
            calls: calls.collect(),
            finish: finish_word(completion.finish).to_owned(),
            tokens,
            raw: BlobRef { blob, bytes },
            duration_us: elapsed_us(started),
        };
        let agent = Actor { kind: PrincipalKind::Agent, id: "agent".to_owned() };
        Draft::new(Kind::ModelCompleted, &body).by(agent)
    }

    /// Masks arguments in the form they were written, and in the text they stand for: escapes can
    /// hide a secret from the one, but not from the other.
    fn mask_arguments(&self, written: &str) -> String {
        let masked = self.masker.mask_str(written);
        let Ok(mut value) = serde_json::from_str::<serde_json::Value>(&masked) else {
            return masked;
        };
        if mask_texts(&self.masker, &mut value) { value.to_string() } else { masked }
    }

    fn holds_secret(&self, completion: &Completion) -> bool {
        let masked = |text: &str| self.masker.mask_str(text) != text;
        masked(&completion.text)
            || completion.calls.iter().any(|call| {
                self.mask_arguments(&call.arguments) != call.arguments || masked(&call.tool)
            })
    }

    fn failed(&self, error: &glasshouse_provider::Error) -> Draft {
        let mut random = [0; 8];
        // Jitter only spreads load; without entropy the plain delay does.
        let _ = getrandom::fill(&mut random);
        let retry = retry::next_delay_ms(
            error,
            self.attempt,
            u64::from_le_bytes(random),
            ANSWER_DEADLINE_MS,
        );
        self.failure(error.code(), &self.masker.mask_str(&error.to_string()), retry, true)
    }

    fn cancelled(&self) -> Draft {
        self.failure("cancelled", "the turn was cancelled", None, false)
    }

    fn failure(
        &self,
        code: &str,
        message: &str,
        retry_in_ms: Option<u64>,
        answered: bool,
    ) -> Draft {
        let body = ModelFailed {
            ordinal: self.request.ordinal,
            attempt: self.attempt,
            code: code.to_owned(),
            message: message.to_owned(),
            retry_in_ms,
            answered,
        };
        Draft::new(Kind::ModelFailed, &body)
    }
}

const fn finish_word(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::ToolCalls => "tool_calls",
        Finish::Length => "length",
        Finish::Refusal => "refusal",
        Finish::ContentFilter => "content_filter",
    }
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

/// Masks every text of a value, keys included; true when one was changed.
fn mask_texts(masker: &Masker, value: &mut serde_json::Value) -> bool {
    use serde_json::Value;
    let mask = |text: &mut String| {
        let masked = masker.mask_str(text);
        let changed = masked != *text;
        *text = masked;
        changed
    };
    match value {
        Value::String(text) => mask(text),
        Value::Array(items) => {
            let mut any = false;
            for item in items {
                any |= mask_texts(masker, item);
            }
            any
        }
        Value::Object(fields) => {
            let mut any = false;
            *fields = std::mem::take(fields)
                .into_iter()
                .map(|(mut key, mut value)| {
                    any |= mask(&mut key) | mask_texts(masker, &mut value);
                    (key, value)
                })
                .collect();
            any
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
