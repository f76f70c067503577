//! Why something was decided: a recorded decision, made again under its own policy, with what would
//! have made it another, and where its taint came from.

use glasshouse_model::body::{ApprovalRequested, CallEnd, CallStatus, PolicyDecided, ToolProposed};
use glasshouse_model::{BranchId, Effect, Event, Kind, Seq};
use glasshouse_policy::{Explanation, Heard, Request, explain};
use schemars::JsonSchema;
use serde::Serialize;

use super::Kernel;
use super::recorder::fold_to;
use super::rules::of_session;
use super::tried::denied_behind;
use crate::session::State;
use crate::{Error, Result, codes};

/// Longest subject of an origin, in characters.
const MAX_SUBJECT_CHARS: usize = 120;

/// A recorded decision, explained.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "ExplainedDecision")]
pub struct Explained {
    /// Branch.
    pub branch: BranchId,
    /// Sequence of the decision.
    pub seq: Seq,
    /// Syscall.
    pub syscall: String,
    /// What it was about.
    pub subject: Option<String>,
    /// The decision as it was recorded, and what would have changed it.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// Where each label of the call came from.
    pub origins: Vec<Origin>,
    /// Where the call was denied that this decision did not deny: by an answer, for its isolation, or for what it
    /// changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied_later: Option<DeniedLater>,
    /// Whether the policy that decided is in the record. Without it there is only the decision, and nothing of what would
    /// have changed it.
    pub policy_recorded: bool,
}

/// The end of a call that was denied after it was decided on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeniedLater {
    /// Sequence of the event.
    pub seq: Seq,
    /// Why, as a code.
    pub code: Option<String>,
    /// Why, in words.
    pub why: String,
}

/// The event that brought a label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Origin {
    /// Label.
    pub label: String,
    /// Branch of the event.
    pub branch: BranchId,
    /// Its sequence.
    pub seq: Seq,
    /// Its kind.
    pub kind: String,
    /// What it was, for people.
    pub subject: String,
}

impl Kernel {
    /// Explains the decision that is, or that belongs to the call proposed by, an event; of a question for a person and of
    /// the end of a call, that of the call.
    ///
    /// # Errors
    /// `event_not_decided` when there is no decision; what reading the log answers.
    pub fn explain_decision(&self, branch: &BranchId, at: Seq) -> Result<Explained> {
        let (event, decided) = self.decision_at(branch, at)?;
        let Some(input) = decided.input.clone() else {
            return Err(none(branch, at).why("one event tells of many paths; name another one"));
        };
        let state = fold_to(&self.log, branch, event.seq().saturating_sub(1))?;
        let texts = match &state.created {
            Some(_) => of_session(self, state.policy_in_force())?,
            None => vec![super::rules::shipped(glasshouse_policy::Consent::Joint)],
        };
        let policy = self.compile_to_look(&texts)?;
        let heard = Heard::in_decision(&decided.decision);
        let request =
            Request { extension: Some(&heard), ..Request::new(&input, event.header.time_us) };
        // What a person ran by hand in a project names the policy by its digest alone.
        let policy_recorded =
            state.created.is_some() || policy.version() == decided.decision.policy_version;
        let denied_later = self.denied_later(branch, &event, &decided)?;
        let was = decided.decision.effect;
        let explained = policy_recorded.then(|| explain(&policy, &request));
        // Where the rules let it pass that was denied, the kernel denied it.
        let explained =
            explained.filter(|made| made.decision.effect == Effect::Deny || was != Effect::Deny);
        let explanation = match explained {
            Some(made) => Explanation { decision: decided.decision, ..made },
            None => denied_behind(decided.decision),
        };
        let mut origins = Vec::new();
        for label in &input.labels {
            if let Some(seq) = state.taint.origin(label) {
                origins.push(self.origin(branch, &state, label, seq)?);
            }
        }
        Ok(Explained {
            branch: branch.clone(),
            seq: event.seq(),
            syscall: decided.syscall,
            subject: decided.subject,
            explanation,
            origins,
            denied_later,
            policy_recorded,
        })
    }

    /// Where a call was denied whose own decision let it pass, or asked.
    fn denied_later(
        &self,
        branch: &BranchId,
        event: &Event,
        decided: &PolicyDecided,
    ) -> Result<Option<DeniedLater>> {
        let is_own = decided.args_digest.is_some() && decided.decision.effect != Effect::Deny;
        let Some(call) = decided.call.filter(|_| is_own) else { return Ok(None) };
        for later in self.log.events_from(branch, event.seq()) {
            let later = later?;
            if !later.kind().ends_call() {
                continue;
            }
            let Some(end) = later.body_as::<CallEnd>().ok().filter(|end| end.call == call) else {
                continue;
            };
            let is_denied = end.status == CallStatus::Denied;
            return Ok(is_denied.then(|| DeniedLater {
                seq: later.seq(),
                code: end.code,
                why: end.text,
            }));
        }
        Ok(None)
    }

    fn decision_at(&self, branch: &BranchId, at: Seq) -> Result<(Event, PolicyDecided)> {
        let mut last = None;
        for event in self.log.events_from(branch, at) {
            let event = event?;
            // The number that a list of reviews shows.
            if event.seq() == at
                && let Some(call) = event.body_as::<ApprovalRequested>().ok().and_then(|it| it.call)
                && *event.kind() == Kind::ApprovalRequested
                && call.0 < at
            {
                return self.decision_at(branch, call.0);
            }
            // The end of a call: what was decided on the call.
            if event.seq() == at
                && event.kind().ends_call()
                && let Some(end) = event.body_as::<CallEnd>().ok().filter(|end| end.call.0 < at)
            {
                return self.decision_at(branch, end.call.0);
            }
            if event.seq() == at
                && !matches!(event.kind(), Kind::PolicyDecided | Kind::ToolProposed)
            {
                return Err(none(branch, at).why(format!("it is {}", event.kind())));
            }
            if *event.kind() != Kind::PolicyDecided {
                continue;
            }
            let Ok(decided) = event.body_as::<PolicyDecided>() else { continue };
            if event.seq() == at {
                return Ok((event, decided));
            }
            // Of a call: its own decision, not that of a path that it changed.
            let is_own = decided.call.is_some_and(|call| call.0 == at);
            if is_own && decided.args_digest.is_some() {
                last = Some((event, decided));
                break;
            }
        }
        last.ok_or_else(|| none(branch, at).why("nothing was decided on it"))
    }

    fn origin(&self, branch: &BranchId, state: &State, label: &str, seq: Seq) -> Result<Origin> {
        let events = self.log.read(branch, seq, 1)?;
        let (kind, subject) = match events.first() {
            None => (String::new(), String::new()),
            Some(event) => (event.kind().to_string(), subject(state, event)),
        };
        Ok(Origin { label: label.to_owned(), branch: branch.clone(), seq, kind, subject })
    }
}

fn none(branch: &BranchId, at: Seq) -> Error {
    Error::new(codes::EVENT_NOT_DECIDED, format!("event {at} of {branch} is no decision"))
}

/// What an event was: of a call its tool and arguments.
fn subject(state: &State, event: &Event) -> String {
    let call = event.body_as::<CallEnd>().ok().and_then(|end| state.calls.get(&end.call));
    let text = match call.map(|record| &record.proposed) {
        Some(ToolProposed { tool, arguments, .. }) => format!("{tool} {arguments}"),
        None => event.body["text"].as_str().unwrap_or_default().to_owned(),
    };
    text.chars().take(MAX_SUBJECT_CHARS).collect()
}
