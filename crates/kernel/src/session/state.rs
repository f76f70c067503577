//! The state of a session branch: what a fold over its events knows. How each event changes it is in
//! `state/folding`.

mod folding;

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_log::Projection;
use glasshouse_model::body::{
    ApprovalRequested, ApprovalResolved, ApprovalSubject, BlobRef, CallEnd, Carry, CommitCreated,
    DebtUpdated, ExemptionRequested, MergeProposed, ModelCompleted, Outcome, PolicySource,
    SandboxEvent, SessionCreated, TestEvidence, ToolProposed, TurnEnd, WorkspaceFrozen,
};
use glasshouse_model::{
    BranchId, Call, CallId, Digest, Event, Mode, Seq, State as Workflow, Usage,
};
use serde::{Deserialize, Serialize};

use super::exemption::Exemption;
use super::repetition::Failures;
use super::taint::Taint;

/// One entry of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Item {
    /// A text for the model, by a person or by the kernel.
    Message(String),
    /// An answer of the model and the calls it made.
    Answer {
        /// Text.
        text: String,
        /// Calls, in order; details are in [`State::calls`].
        calls: Vec<CallId>,
        /// What the provider wants back unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        carry: Option<Carry>,
    },
}

/// Where the exchange with the model stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModelPhase {
    /// No request is under way. `attempt` and `delay_ms` describe the next one.
    #[default]
    Idle,
    /// The last try failed and another follows.
    Retrying {
        /// Number of the next try, from 2.
        attempt: u32,
        /// Wait before it.
        delay_ms: u64,
    },
    /// A request is under way.
    Requested,
}

/// What a `log.recovered` event in a session is about that takes answers of people back.
pub const VOID_APPROVALS: &str = "approvals";

/// Where a call stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallPhase {
    /// Written by the model, not yet decided.
    Proposed,
    /// Waits for the person asked in the approval of this sequence.
    InReview(Seq),
    /// A person approved it; it is decided again before it runs.
    Approved(Seq),
    /// Allowed, not yet started.
    Allowed,
    /// Running.
    Started,
    /// Over.
    Ended(Box<CallEnd>),
}

/// A call and all that is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRecord {
    /// As the model wrote it.
    pub proposed: ToolProposed,
    /// Where it stands.
    pub phase: CallPhase,
    /// How often this call, with these arguments, had failed when it ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The summary that stands for the beginning of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Text.
    pub text: String,
    /// How many entries it stands for.
    pub entries: usize,
    /// How many entries there were when it was made.
    pub at: usize,
}

impl CallRecord {
    /// Whether it is over.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        matches!(self.phase, CallPhase::Ended(_))
    }
}

/// Where a merge stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MergePhase {
    /// Waits for the person asked in the approval of this sequence.
    InReview(Option<Seq>),
    /// May be applied.
    Approved,
    /// In the project, not yet committed.
    Applied,
}

/// A merge under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeRecord {
    /// Sequence of `merge.proposed`.
    pub seq: Seq,
    /// What is merged.
    pub proposed: MergeProposed,
    /// Where it stands.
    pub phase: MergePhase,
}

/// What differs from the frozen base.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealRecord {
    /// Manifest of it.
    pub manifest: BlobRef,
    /// Whether anything differs in test files.
    pub tests_changed: bool,
    /// Whether anything differs in other files.
    pub sources_changed: bool,
}

/// The latest test run of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceRecord {
    /// Sequence of `test.evidence`.
    pub seq: Seq,
    /// What it says.
    pub evidence: TestEvidence,
    /// Seal in force when the tests ran.
    pub seal: Option<BlobRef>,
}

/// A session branch, folded from its events.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct State {
    /// What the session was started with.
    pub created: Option<SessionCreated>,
    /// What decides in the place of the policy that it was started with, since a resumption said so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy: Vec<PolicySource>,
    /// Sequence of the last event folded.
    pub head: Seq,
    /// Mode in force, once it is another than strict.
    pub mode: Option<Mode>,
    /// Workflow state.
    pub workflow: Option<Workflow>,
    /// Open turn: sequence of its `turn.started`.
    pub turn: Option<Seq>,
    /// How the last turn ended.
    pub last_turn: Option<TurnEnd>,
    /// Conversation, oldest first.
    pub conversation: Vec<Item>,
    /// Sequences of the events that the entries of the conversation came with.
    pub conversation_seqs: Vec<Seq>,
    /// The last message that a person wrote: its place in the conversation.
    pub last_user_message: Option<usize>,
    /// What stands for the beginning of the conversation.
    pub summary: Option<Summary>,
    /// The cut of the summary that is being asked for.
    pub summarising: Option<usize>,
    /// Tokens of the last answer and its request, and how many entries it covers.
    pub measured: Option<(u64, usize)>,
    /// Whether the model said that the conversation is too long for it.
    pub overflowed: bool,
    /// Texts that go with every request, by name.
    pub pins: BTreeMap<String, String>,
    /// Tools whose schemas the model loaded, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loaded_tools: Vec<String>,
    /// How often each call failed since anything changed.
    pub(super) failures: Failures,
    /// Every call of the branch.
    pub calls: BTreeMap<CallId, CallRecord>,
    /// Calls that are not over.
    pub open_calls: BTreeSet<CallId>,
    /// Exchange with the model.
    pub model: ModelPhase,
    /// The fallback model that answers instead of the session's own for the rest of the turn.
    pub fallback: Option<String>,
    /// How many requests were answered or refused.
    pub ordinal: u64,
    /// Spent so far on this branch.
    pub usage: Usage,
    /// Spent so far on the session's other branches, as far as this one was told.
    pub elsewhere: BTreeMap<BranchId, Usage>,
    /// Frozen base in force and the sequence of the event that put it in force.
    pub frozen: Option<(Seq, WorkspaceFrozen)>,
    /// Latest seal, if anything differs from the base.
    pub seal: Option<SealRecord>,
    /// Latest test run.
    pub evidence: Option<EvidenceRecord>,
    /// A run that failed while tests were written: the right to write code.
    pub red: Option<Seq>,
    /// Approvals asked for and not answered.
    pub pending_approvals: BTreeMap<Seq, ApprovalRequested>,
    /// Calls for which a person was asked, as they were decided on.
    pub reviewed: BTreeMap<CallId, Call>,
    /// Approvals that were granted, by the sequence of the request.
    pub granted: BTreeMap<Seq, (ApprovalRequested, ApprovalResolved)>,
    /// Requests for an exemption that are not decided, by their calls.
    pub exemption_requests: BTreeMap<CallId, (Seq, ExemptionRequested)>,
    /// Exemption of the work under way.
    pub exemption: Option<Exemption>,
    /// Coverage that the project owes, as far as this branch was told.
    pub debt: Option<DebtUpdated>,
    /// Merge under way.
    pub merge: Option<MergeRecord>,
    /// Summary given with `plan.complete`.
    pub plan_summary: Option<String>,
    /// Commit made in the open turn.
    pub committed: Option<CommitCreated>,
    /// Times the kernel told the model in this turn that the work is not finished.
    pub reminders: u32,
    /// Whether an approval of this turn found nobody to give it.
    pub no_approver: bool,
    /// Whether the latest call that needed a sandbox did not run for want of isolation. A turn that
    /// carries on another one still stands where that one stood.
    pub no_isolation: bool,
    /// Isolation of the latest sandboxed call.
    pub isolation: Option<String>,
    /// The sandbox that was made last, until its end is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxEvent>,
    /// What the branch derives from.
    pub taint: Taint,
    /// Turns that named requests started, by the names, and the digests of the requests.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, (Seq, Digest)>,
    /// Set when a body could not be read; the branch then refuses new turns.
    pub unreadable: Option<Seq>,
}

impl Projection for State {
    const NAME: &'static str = "session";
    /// Goes up with every change of what folding does or of the state's shape.
    const VERSION: u32 = 5;

    fn apply(&mut self, event: &Event) {
        Self::apply(self, event);
    }

    fn save(&self) -> Option<Vec<u8>> {
        // A branch that cannot be folded is told so each time, by the event that cannot.
        if self.unreadable.is_some() { None } else { serde_json::to_vec(self).ok() }
    }

    fn load(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

impl State {
    /// Folds events from the first one.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Self {
        let mut state = Self::default();
        for event in events {
            state.apply(event);
        }
        state
    }

    /// The workflow state, idle before the first message.
    #[must_use]
    pub fn workflow(&self) -> Workflow {
        self.workflow.unwrap_or(Workflow::Idle)
    }

    /// The texts that decide now: those of the start, or of a resumption since.
    #[must_use]
    pub fn policy_in_force(&self) -> &[PolicySource] {
        let started = || self.created.as_ref().map_or(&[][..], |created| &created.policy);
        if self.policy.is_empty() { started() } else { &self.policy }
    }

    /// How strictly the branch works.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode.unwrap_or(Mode::Strict)
    }

    /// The open question whether the session may work in another mode, asked before its first turn.
    #[must_use]
    pub fn mode_question(&self) -> Option<Seq> {
        let before_turns = self.turn.is_none() && self.last_turn.is_none();
        let mut pending = self.pending_approvals.iter().filter(|_| before_turns);
        pending.find(|(_, request)| asks_for_mode(request)).map(|(seq, _)| *seq)
    }

    /// Whether the files in force are those that the merge of this sequence brought.
    #[must_use]
    pub fn has_files_of(&self, merge: Seq) -> bool {
        self.frozen.as_ref().is_some_and(|(seq, _)| *seq == merge)
    }

    /// How many entries of the conversation the summary stands for.
    #[must_use]
    pub fn summarised(&self) -> usize {
        self.summary.as_ref().map_or(0, |summary| summary.entries)
    }

    /// What the whole session has spent, as far as this branch was told.
    #[must_use]
    pub fn spent(&self) -> Usage {
        self.elsewhere.values().fold(self.usage, |sum, usage| sum.plus(*usage))
    }

    /// Whether the tests passed on exactly the content that is sealed now.
    #[must_use]
    pub fn green(&self) -> Option<&EvidenceRecord> {
        let seal = self.seal.as_ref().map(|seal| &seal.manifest);
        self.evidence.as_ref().filter(|record| {
            record.evidence.passed && record.evidence.ran && record.seal.as_ref() == seal
        })
    }

    /// Whether the workspace differs from its base.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.seal.as_ref().is_some_and(|seal| seal.tests_changed || seal.sources_changed)
    }

    /// Whether no work goes on in the frozen workspace, if there is one: the next turn freezes anew, and
    /// nothing needs the old one any more.
    #[must_use]
    pub fn base_is_stale(&self) -> bool {
        self.frozen.is_none() || (self.workflow() == Workflow::Idle && self.open_calls.is_empty())
    }

    /// Outcome of the last turn, if it is over.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.last_turn.as_ref().map(|end| end.outcome)
    }
}

/// Whether an approval is about the mode of the session, not about a call of the model.
pub(super) fn asks_for_mode(request: &ApprovalRequested) -> bool {
    request.subject == ApprovalSubject::Call
        && request.call.is_none()
        && request.tool == glasshouse_model::syscall::name::SESSION_SET_MODE
}

/// Every token of an answer and its request.
pub(super) fn total_tokens(answer: &ModelCompleted) -> u64 {
    input_tokens(answer).saturating_add(answer.tokens.get("output").copied().unwrap_or(0))
}

fn input_tokens(answer: &ModelCompleted) -> u64 {
    ["input_uncached", "cache_read", "cache_write"]
        .iter()
        .filter_map(|kind| answer.tokens.get(*kind))
        .fold(0_u64, |sum, tokens| sum.saturating_add(*tokens))
}

#[cfg(test)]
mod tests {
    use glasshouse_model::Kind;

    use super::*;

    /// A snapshot of another shape must have another version: when this fails, raise
    /// `Projection::VERSION` and put the new digest here.
    #[test]
    fn the_saved_shape_belongs_to_its_version() {
        let saved = State::default().save().unwrap();
        let shape = (State::VERSION, Digest::of(&saved).hex()[..16].to_owned());
        assert_eq!(
            shape,
            (5, "26f5d6f99b562118".to_owned()),
            "{}",
            String::from_utf8_lossy(&saved)
        );
        assert_eq!(State::load(&saved).unwrap().save().unwrap(), saved);
    }

    fn event(seq: Seq, kind: Kind, cause: Option<Seq>, body: serde_json::Value) -> Event {
        serde_json::from_value(serde_json::json!({
            "v": 1, "tenant": "local", "session": "s_1", "branch": "b_1", "seq": seq, "time_us": 1,
            "kind": kind, "actor": { "type": "user", "id": "local" }, "cause": cause, "body": body,
            "body_hash": Digest::ZERO, "prev": Digest::ZERO, "hash": Digest::ZERO,
        }))
        .unwrap()
    }

    fn merged(base: &str, usage: u64) -> serde_json::Value {
        serde_json::json!({
            "source": "b_2", "source_seq": 9, "source_hash": Digest::of(b"9"), "base_seq": 1,
            "strategy": "three_way",
            "resolved": {
                "usage": { "tokens": usage, "calls": 1 },
                "workspace": {
                    "frozen": { "base": Digest::of(base.as_bytes()), "files": 3 },
                    "manifest": { "blob": Digest::of(b"manifest"), "bytes": 8 },
                    "changed": [], "changed_total": 0, "tests_changed": true, "sources_changed": true,
                },
            },
        })
    }

    fn moved(from: &str, to: &str) -> serde_json::Value {
        serde_json::json!({ "from": from, "to": to, "because": "b" })
    }

    /// Files and spending cross; a branch at rest keeps them when its work begins, and what was seen on
    /// other files is evidence no more.
    #[test]
    fn a_merge_brings_what_the_table_says_and_the_same_state_each_time() {
        let events = [
            event(1, Kind::BranchMerged, None, merged("base", 7)),
            event(2, Kind::WorkflowTransitioned, Some(1), moved("idle", "planning")),
        ];
        let state = State::fold(&events);
        assert!(state.has_files_of(1) && state.has_changes() && state.unreadable.is_none());
        let spent = state.spent();
        assert_eq!((spent.tokens, spent.calls, state.usage.tokens), (7, 1, 0));
        assert_eq!(super::super::consequences(&State::fold(&events[..1]), &events[0]).len(), 1);
        let digest = Digest::of(&state.save().unwrap()).hex();
        assert_eq!(&digest[..16], "7ca6ff36a94a98e3");

        // Any other transition out of rest begins on files that are still to be frozen.
        let anew = event(2, Kind::WorkflowTransitioned, Some(7), moved("idle", "planning"));
        assert!(State::fold([&events[0], &anew]).frozen.is_none());

        let check = |base: &str, keeps: bool| {
            let mut state = State::fold(&events);
            state.red = Some(2);
            state.workflow = Some(Workflow::Reviewing);
            let again = event(3, Kind::BranchMerged, None, merged(base, 8));
            state.apply(&again);
            assert_eq!((state.red.is_some(), state.spent().tokens), (keeps, 8), "{base}");
            let implied = super::super::consequences(&state, &again);
            assert_eq!(implied[0].body["to"], "code_writing");
            assert!(state.green().is_none());
        };
        check("base", true);
        check("other", false);
    }
}
