//! The state of a session branch: a fold over its events.

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_log::Projection;
use glasshouse_model::body::{
    ApprovalRequested, ApprovalResolved, ApprovalSubject, BlobRef, BranchForked, BudgetCharged,
    CallEnd, CommitCreated, Egress, MergeAnswered, MergeProposed, MessageReceived, ModelCompleted,
    ModelFailed, ModelRequested, Outcome, PolicyDecided, SessionCreated, TestEvidence,
    ToolProposed, ToolStarted, TurnEnd, TurnStarted, WorkflowTransitioned, WorkspaceFrozen,
    WorkspaceRolledBack, WorkspaceSealed,
};
use glasshouse_model::{
    CallId, Effect as PolicyEffect, Event, Kind, PrincipalKind, Seq, State as Workflow, Usage,
};
use serde::{Deserialize, Serialize};

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
    /// Sequence of the last event folded.
    pub head: Seq,
    /// Workflow state.
    pub workflow: Option<Workflow>,
    /// Open turn: sequence of its `turn.started`.
    pub turn: Option<Seq>,
    /// How the last turn ended.
    pub last_turn: Option<TurnEnd>,
    /// Conversation, oldest first.
    pub conversation: Vec<Item>,
    /// Every call of the branch.
    pub calls: BTreeMap<CallId, CallRecord>,
    /// Calls that are not over.
    pub open_calls: BTreeSet<CallId>,
    /// Exchange with the model.
    pub model: ModelPhase,
    /// How many requests were answered or refused.
    pub ordinal: u64,
    /// Spent so far.
    pub usage: Usage,
    /// Frozen base in force and the sequence of its event.
    pub frozen: Option<(Seq, WorkspaceFrozen)>,
    /// Latest seal, if anything differs from the base.
    pub seal: Option<WorkspaceSealed>,
    /// Latest test run.
    pub evidence: Option<EvidenceRecord>,
    /// A run that failed while tests were written: the right to write code.
    pub red: Option<Seq>,
    /// Approvals asked for and not answered.
    pub pending_approvals: BTreeMap<Seq, ApprovalRequested>,
    /// Approvals that were granted, by the sequence of the request.
    pub granted: BTreeMap<Seq, (ApprovalRequested, ApprovalResolved)>,
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
    /// Taint of what the branch has taken in besides its user's and its repository's words: `web` once
    /// a command reached the network.
    pub taint: BTreeSet<String>,
    /// Set when a body could not be read; the branch then refuses new turns.
    pub unreadable: Option<Seq>,
}

impl Projection for State {
    const NAME: &'static str = "session";
    /// Goes up with every change of what folding does or of the state's shape.
    const VERSION: u32 = 2;

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

    /// Folds one event. Unknown kinds change nothing but the head.
    pub fn apply(&mut self, event: &Event) {
        self.head = event.seq();
        if self.try_apply(event).is_err() {
            self.unreadable.get_or_insert(event.seq());
        }
    }

    fn try_apply(&mut self, event: &Event) -> Result<(), serde_json::Error> {
        let seq = event.seq();
        match event.kind() {
            Kind::SessionCreated => self.created = Some(event.body_as()?),
            Kind::MessageReceived => self.message(event.body_as::<MessageReceived>()?, event),
            Kind::TurnStarted => {
                self.turn = Some(seq);
                self.last_turn = None;
                // A turn that carries on another one keeps what that one achieved.
                if event.body_as::<TurnStarted>()?.continues.is_none() {
                    self.committed = None;
                    self.no_isolation = false;
                }
                self.reminders = 0;
                self.no_approver = false;
            }
            kind if kind.ends_turn() => self.turn_ended(event.body_as()?, kind),
            Kind::ModelRequested => {
                event.body_as::<ModelRequested>()?;
                self.model = ModelPhase::Requested;
            }
            Kind::ModelCompleted => self.answered(event.body_as()?),
            Kind::ModelFailed => self.model_failed(&event.body_as()?),
            Kind::ToolProposed => self.proposed(CallId(seq), event.body_as()?),
            Kind::PolicyDecided => self.decided(&event.body_as()?),
            Kind::ToolStarted => self.tool_started(event.body_as()?),
            kind if kind.ends_call() => self.call_ended(event.body_as()?),
            Kind::ApprovalRequested => self.approval_requested(seq, event.body_as()?),
            Kind::ApprovalResolved => self.approval_resolved(event.body_as()?),
            Kind::BranchForked => {
                event.body_as::<BranchForked>()?;
                self.forked();
            }
            Kind::WorkspaceFrozen => {
                self.frozen = Some((seq, event.body_as::<WorkspaceFrozen>()?));
                self.seal = None;
                self.evidence = None;
                self.red = None;
            }
            Kind::WorkspaceSealed => self.seal = Some(event.body_as()?),
            Kind::WorkspaceRolledBack => {
                event.body_as::<WorkspaceRolledBack>()?;
            }
            Kind::TestEvidence => self.test_evidence(seq, event.body_as()?),
            Kind::WorkflowTransitioned => self.transitioned(&event.body_as()?),
            Kind::MergeProposed => {
                let proposed = event.body_as()?;
                self.merge = Some(MergeRecord { seq, proposed, phase: MergePhase::InReview(None) });
            }
            Kind::MergeApproved => {
                self.merge_phase(event.body_as::<MergeAnswered>()?.merge, MergePhase::Approved)
            }
            Kind::MergeApplied => {
                let merge = event.body_as::<glasshouse_model::body::MergeApplied>()?.merge;
                self.merge_phase(merge, MergePhase::Applied);
            }
            Kind::MergeRejected | Kind::MergeFailed => self.merge = None,
            Kind::CommitCreated => {
                self.committed = Some(event.body_as()?);
                self.merge = None;
            }
            Kind::EgressConnected => self.reached(event)?,
            Kind::BudgetCharged => {
                self.usage = self.usage.plus(event.body_as::<BudgetCharged>()?.usage)
            }
            _ => {}
        }
        Ok(())
    }

    fn reached(&mut self, event: &Event) -> Result<(), serde_json::Error> {
        event.body_as::<Egress>()?;
        self.taint.extend(event.header.labels.iter().cloned());
        Ok(())
    }

    /// What a fork does not take over: answers of people, given or waited for, and a merge under way
    /// of its parent. A call that was approved is decided, and asked for, again.
    fn forked(&mut self) {
        self.pending_approvals.clear();
        self.granted.clear();
        self.merge = None;
        for call in &self.open_calls {
            if let Some(record) = self.calls.get_mut(call) {
                record.phase = CallPhase::Proposed;
            }
        }
    }

    fn message(&mut self, message: MessageReceived, event: &Event) {
        if event.header.actor.kind == PrincipalKind::Kernel {
            self.reminders += 1;
        }
        self.conversation.push(Item::Message(message.text));
    }

    fn turn_ended(&mut self, end: TurnEnd, kind: &Kind) {
        self.turn = None;
        self.last_turn = Some(end);
        self.model = ModelPhase::Idle;
        if *kind == Kind::TurnInterrupted {
            // Whatever was under way left no trace that counts: sandboxed changes go back to the
            // last seal, so an open call is decided and run again.
            // A commit whose merge is under way is not started anew: the merge is carried on.
            let merging = self.merge.is_some();
            for call in &self.open_calls {
                if let Some(record) = self.calls.get_mut(call)
                    && matches!(record.phase, CallPhase::Started | CallPhase::Allowed)
                    && !(merging
                        && record.proposed.tool == glasshouse_model::syscall::name::GIT_COMMIT)
                {
                    record.phase = CallPhase::Proposed;
                }
            }
        }
    }

    fn answered(&mut self, answer: ModelCompleted) {
        self.model = ModelPhase::Idle;
        self.ordinal = answer.ordinal + 1;
        self.conversation.push(Item::Answer { text: answer.text, calls: Vec::new() });
    }

    fn model_failed(&mut self, failed: &ModelFailed) {
        if failed.answered {
            self.ordinal = failed.ordinal + 1;
        }
        self.model = match failed.retry_in_ms {
            Some(delay_ms) => ModelPhase::Retrying { attempt: failed.attempt + 1, delay_ms },
            None => ModelPhase::Idle,
        };
    }

    fn proposed(&mut self, call: CallId, proposed: ToolProposed) {
        if let Some(Item::Answer { calls, .. }) = self.conversation.last_mut() {
            calls.push(call);
        }
        self.calls.insert(call, CallRecord { proposed, phase: CallPhase::Proposed });
        self.open_calls.insert(call);
    }

    fn phase(&mut self, call: CallId, phase: CallPhase) {
        if let Some(record) = self.calls.get_mut(&call)
            && !record.is_ended()
        {
            record.phase = phase;
        }
    }

    fn decided(&mut self, decided: &PolicyDecided) {
        // Denials and reviews have consequences of their own in the same transaction.
        if let Some(call) = decided.call
            && decided.args_digest.is_some()
            && decided.decision.effect == PolicyEffect::Allow
        {
            self.phase(call, CallPhase::Allowed);
        }
    }

    fn tool_started(&mut self, started: ToolStarted) {
        self.phase(started.call, CallPhase::Started);
        if started.isolation != "in_process" {
            self.no_isolation = false;
            self.isolation = Some(started.isolation);
        }
    }

    fn call_ended(&mut self, end: CallEnd) {
        let call = end.call;
        if self.open_calls.remove(&call) {
            if let Some(record) = self.calls.get_mut(&call)
                && record.proposed.tool == glasshouse_model::syscall::name::PLAN_COMPLETE
                && end.status == glasshouse_model::body::CallStatus::Completed
            {
                self.plan_summary = Some(end.text.clone());
            }
            if end.code.as_deref() == Some("no_approver") {
                self.no_approver = true;
            }
            if end.code.as_deref() == Some(glasshouse_sandbox::codes::ISOLATION_UNAVAILABLE.name) {
                self.no_isolation = true;
            }
            self.phase(call, CallPhase::Ended(Box::new(end)));
        }
    }

    fn approval_requested(&mut self, seq: Seq, request: ApprovalRequested) {
        match (request.subject, request.call) {
            (ApprovalSubject::Call, Some(call)) => self.phase(call, CallPhase::InReview(seq)),
            (ApprovalSubject::Merge, _) => {
                if let Some(merge) = &mut self.merge {
                    merge.phase = MergePhase::InReview(Some(seq));
                }
            }
            (ApprovalSubject::Call, None) | (ApprovalSubject::Policy, _) => {}
        }
        self.pending_approvals.insert(seq, request);
    }

    fn approval_resolved(&mut self, resolved: ApprovalResolved) {
        let Some(request) = self.pending_approvals.remove(&resolved.approval) else { return };
        if resolved.code == "no_approver" {
            self.no_approver = true;
        }
        if resolved.approved {
            if let Some(call) = request.call {
                self.phase(call, CallPhase::Approved(resolved.approval));
            }
            self.granted.insert(resolved.approval, (request, resolved));
        }
    }

    fn test_evidence(&mut self, seq: Seq, evidence: TestEvidence) {
        if self.workflow() == Workflow::TestWriting {
            self.red = (evidence.ran && !evidence.passed && evidence.tests_changed).then_some(seq);
        }
        let seal = self.seal.as_ref().map(|seal| seal.manifest.clone());
        self.evidence = Some(EvidenceRecord { seq, evidence, seal });
    }

    fn transitioned(&mut self, transition: &WorkflowTransitioned) {
        if transition.from == Workflow::Idle {
            // New work begins, on a base that is still to be frozen.
            self.frozen = None;
            self.seal = None;
            self.evidence = None;
        }
        self.workflow = Some(transition.to);
        if transition.to == Workflow::TestWriting {
            self.red = None;
        }
    }

    fn merge_phase(&mut self, seq: Seq, phase: MergePhase) {
        if let Some(merge) = &mut self.merge
            && merge.seq == seq
        {
            merge.phase = phase;
        }
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

#[cfg(test)]
mod tests {
    use glasshouse_model::Digest;

    use super::*;

    /// A snapshot of another shape must have another version: when this fails, raise
    /// `Projection::VERSION` and put the new digest here.
    #[test]
    fn the_saved_shape_belongs_to_its_version() {
        let saved = State::default().save().unwrap();
        let shape = (State::VERSION, Digest::of(&saved).hex()[..16].to_owned());
        assert_eq!(
            shape,
            (2, "b439238c946349b8".to_owned()),
            "{}",
            String::from_utf8_lossy(&saved)
        );
        assert_eq!(State::load(&saved).unwrap().save().unwrap(), saved);
    }
}
