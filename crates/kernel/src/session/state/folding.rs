//! How each event changes the state of a branch.

use glasshouse_model::body::{
    ApprovalRequested, ApprovalResolved, ApprovalSubject, BranchForked, BranchMerged,
    BudgetCharged, CallEnd, ContextCompacted, ContextPinned, LogRecovered, MergeAnswered,
    MergeApplied, MergedWorkspace, MessageReceived, ModeChanged, ModelCompleted, ModelFailed,
    ModelRequested, PolicyDecided, SandboxEvent, SessionResumed, TestEvidence, ToolProposed,
    ToolStarted, TurnEnd, TurnStarted, WorkflowTransitioned, WorkspaceFrozen, WorkspaceRolledBack,
    WorkspaceSealed,
};
use glasshouse_model::{
    BranchId, CallId, Effect as PolicyEffect, Event, Kind, PrincipalKind, Seq, State as Workflow,
};

use super::{
    CallPhase, CallRecord, EvidenceRecord, Item, MergePhase, MergeRecord, ModelPhase, SealRecord,
    State, Summary, VOID_APPROVALS, input_tokens, total_tokens,
};
use crate::session::{compaction, repetition, schemas};

/// A sandbox without what was measured in it.
fn unmeasured(made: SandboxEvent) -> SandboxEvent {
    SandboxEvent { attestation: None, ..made }
}

impl State {
    /// Folds one event. Unknown kinds change nothing but the head.
    pub fn apply(&mut self, event: &Event) {
        self.head = event.seq();
        if self.try_apply(event).is_err() {
            self.unreadable.get_or_insert(event.seq());
        }
    }

    fn try_apply(&mut self, event: &Event) -> Result<(), serde_json::Error> {
        let seq = event.seq();
        self.taint.apply(event)?;
        match event.kind() {
            Kind::SessionCreated => self.created = Some(event.body_as()?),
            Kind::SessionResumed => {
                let SessionResumed { policy, .. } = event.body_as()?;
                if !policy.is_empty() {
                    self.policy = policy;
                }
            }
            Kind::SessionModeChanged => self.mode = Some(event.body_as::<ModeChanged>()?.to),
            Kind::ContextPinned => self.pinned(event.body_as()?),
            Kind::ContextCompacted => self.compacted(event.body_as()?),
            Kind::MessageReceived => self.message(event.body_as::<MessageReceived>()?, event),
            Kind::TurnStarted => {
                self.turn = Some(seq);
                self.last_turn = None;
                let TurnStarted { continues, request } = event.body_as()?;
                if let Some(request) = request {
                    self.requests.insert(request.key, (seq, request.digest));
                }
                // A turn that carries on another one keeps what that one achieved.
                if continues.is_none() {
                    self.committed = None;
                    self.no_isolation = false;
                }
                self.reminders = 0;
                self.no_approver = false;
                self.fallback = None;
                self.failures.clear();
            }
            kind if kind.ends_turn() => self.turn_ended(event.body_as()?, kind),
            Kind::ModelRequested => self.requested(&event.body_as()?),
            Kind::ModelCompleted => self.answered(seq, event.body_as()?),
            Kind::ModelFailed => self.model_failed(&event.body_as()?),
            Kind::ToolProposed => self.proposed(CallId(seq), event.body_as()?),
            Kind::PolicyDecided => self.decided(&event.body_as()?),
            Kind::ToolStarted => self.tool_started(event.body_as()?),
            kind if kind.ends_call() => self.call_ended(event.body_as()?),
            _ => return self.try_apply_work(event),
        }
        Ok(())
    }

    /// The rest: approvals, workspaces, merges, budgets.
    fn try_apply_work(&mut self, event: &Event) -> Result<(), serde_json::Error> {
        let seq = event.seq();
        match event.kind() {
            Kind::ApprovalRequested => self.approval_requested(seq, event.body_as()?),
            Kind::ApprovalResolved => self.approval_resolved(event.body_as()?),
            Kind::BranchForked => {
                let forked = event.body_as::<BranchForked>()?;
                self.forked(forked.parent);
            }
            Kind::LogRecovered if event.body_as::<LogRecovered>()?.what == VOID_APPROVALS => {
                self.void_answers();
            }
            Kind::WorkspaceFrozen => {
                self.frozen = Some((seq, event.body_as::<WorkspaceFrozen>()?));
                self.seal = None;
                self.evidence = None;
                self.red = None;
            }
            Kind::BranchMerged => self.merged(seq, event.body_as()?)?,
            Kind::WorkspaceSealed => {
                let WorkspaceSealed { manifest, tests_changed, sources_changed, .. } =
                    event.body_as()?;
                self.seal = Some(SealRecord { manifest, tests_changed, sources_changed });
                // What failed before may work now.
                self.failures.clear();
            }
            Kind::WorkspaceRolledBack => {
                event.body_as::<WorkspaceRolledBack>()?;
            }
            Kind::WorkflowExemptionRequested => self.exemption_requested(seq, event.body_as()?),
            Kind::WorkflowExemptionDecided => self.exemption_decided(&event.body_as()?),
            Kind::DebtUpdated => self.debt = Some(event.body_as()?),
            Kind::TestEvidence => self.test_evidence(seq, event.body_as()?),
            Kind::WorkflowTransitioned => {
                self.transitioned(&event.body_as()?, event.header.cause);
            }
            Kind::MergeProposed => {
                let proposed = event.body_as()?;
                self.merge = Some(MergeRecord { seq, proposed, phase: MergePhase::InReview(None) });
            }
            Kind::MergeApproved => {
                self.merge_phase(event.body_as::<MergeAnswered>()?.merge, MergePhase::Approved)
            }
            Kind::MergeApplied => {
                self.merge_phase(event.body_as::<MergeApplied>()?.merge, MergePhase::Applied)
            }
            Kind::MergeRejected | Kind::MergeFailed => self.merge = None,
            Kind::CommitCreated => {
                self.committed = Some(event.body_as()?);
                self.merge = None;
            }
            Kind::EgressConnected => {
                event.body_as::<glasshouse_model::body::Egress>()?;
            }
            Kind::BudgetCharged => self.charged(event.body_as()?),
            // One whose body was erased is forgotten; nothing else rests on it.
            Kind::SandboxCreated => self.sandbox = event.body_as().ok().map(unmeasured),
            Kind::SandboxDestroyed => self.sandbox = None,
            _ => {}
        }
        Ok(())
    }

    /// What a fork does not take over: answers of people, the parent's sandbox, and what the parent had
    /// spent, which stays the parent's.
    fn forked(&mut self, parent: BranchId) {
        let spent = std::mem::take(&mut self.usage);
        self.elsewhere.insert(parent, spent);
        self.sandbox = None;
        self.void_answers();
    }

    /// What a fork does not take over, and what does not count after a restore: answers of people, given
    /// or waited for, and a merge under way. A call that was approved is decided, and asked for, again.
    fn void_answers(&mut self) {
        self.pending_approvals.clear();
        self.granted.clear();
        self.end_exemption();
        self.merge = None;
        for call in &self.open_calls {
            if let Some(record) = self.calls.get_mut(call) {
                record.phase = CallPhase::Proposed;
            }
        }
    }

    /// What crosses in a merge: see [`MERGE_KINDS`](super::MERGE_KINDS). What was said comes as a
    /// message after it.
    fn merged(&mut self, seq: Seq, merged: BranchMerged) -> Result<(), serde_json::Error> {
        let BranchMerged { source, mut resolved, .. } = merged;
        if let Some(usage) = resolved.remove("usage") {
            // What this branch knew of the source's spending, or learns of it, is the same sum.
            self.elsewhere.insert(source, serde_json::from_value(usage)?);
        }
        let Some(workspace) = resolved.remove("workspace") else { return Ok(()) };
        let MergedWorkspace { frozen, manifest, tests_changed, sources_changed, .. } =
            serde_json::from_value(workspace)?;
        if self.frozen.as_ref().is_none_or(|(_, own)| own.base != frozen.base) {
            // It was seen on other files.
            self.evidence = None;
            self.red = None;
        }
        self.frozen = Some((seq, frozen));
        self.seal =
            manifest.map(|manifest| SealRecord { manifest, tests_changed, sources_changed });
        Ok(())
    }

    fn message(&mut self, message: MessageReceived, event: &Event) {
        if event.header.actor.kind == PrincipalKind::Kernel {
            self.reminders += 1;
        } else {
            self.last_user_message = Some(self.conversation.len());
        }
        self.enter(event.seq(), Item::Message(message.text));
    }

    fn turn_ended(&mut self, end: TurnEnd, kind: &Kind) {
        self.turn = None;
        self.last_turn = Some(end);
        self.model = ModelPhase::Idle;
        self.summarising = None;
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

    fn charged(&mut self, charged: BudgetCharged) {
        match charged.branch {
            None => self.usage = self.usage.plus(charged.usage),
            Some(branch) => {
                self.elsewhere.insert(branch, charged.usage);
            }
        }
    }

    fn pinned(&mut self, pin: ContextPinned) {
        if pin.text.is_empty() {
            self.pins.remove(&pin.name);
        } else {
            self.pins.insert(pin.name, pin.text);
        }
    }

    fn requested(&mut self, requested: &ModelRequested) {
        self.summarising = match compaction::want(self) {
            compaction::Want::Cut(cut) if requested.summary => Some(cut),
            _ => None,
        };
        self.model = ModelPhase::Requested;
    }

    fn enter(&mut self, seq: Seq, item: Item) {
        self.conversation.push(item);
        self.conversation_seqs.push(seq);
    }

    fn answered(&mut self, seq: Seq, answer: ModelCompleted) {
        self.model = ModelPhase::Idle;
        self.ordinal = answer.ordinal + 1;
        if answer.summary {
            return;
        }
        let (input, tokens) = (input_tokens(&answer), total_tokens(&answer));
        let ModelCompleted { text, carry, .. } = answer;
        self.enter(seq, Item::Answer { text, calls: Vec::new(), carry });
        self.measured = (input > 0).then_some((tokens, self.conversation.len()));
    }

    fn compacted(&mut self, compacted: ContextCompacted) {
        let entries = usize::try_from(compacted.entries).unwrap_or(usize::MAX);
        let at = self.conversation.len();
        self.summary = Some(Summary { text: compacted.summary, entries: entries.min(at), at });
        self.summarising = None;
        self.measured = None;
        self.overflowed = false;
    }

    fn model_failed(&mut self, failed: &ModelFailed) {
        if failed.answered {
            self.ordinal = failed.ordinal + 1;
        }
        if failed.code == glasshouse_provider::codes::REASONING_REFUSED.name {
            // The next try goes without what was refused; so do all after it.
            for item in &mut self.conversation {
                if let Item::Answer { carry, .. } = item {
                    *carry = None;
                }
            }
        }
        let overflow = failed.code == glasshouse_provider::codes::CONTEXT_OVERFLOW.name;
        self.overflowed |= overflow && failed.retry_in_ms.is_some();
        if let Some(next) = &failed.next_model {
            self.fallback = Some(next.clone());
        }
        self.model = match failed.retry_in_ms {
            // Another model is tried as often as the first.
            Some(delay_ms) if failed.next_model.is_some() => {
                ModelPhase::Retrying { attempt: 1, delay_ms }
            }
            Some(delay_ms) => ModelPhase::Retrying { attempt: failed.attempt + 1, delay_ms },
            None => ModelPhase::Idle,
        };
    }

    fn proposed(&mut self, call: CallId, proposed: ToolProposed) {
        if let Some(Item::Answer { calls, .. }) = self.conversation.last_mut() {
            calls.push(call);
        }
        self.calls.insert(call, CallRecord { proposed, phase: CallPhase::Proposed, failures: 0 });
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
        if let (Some(call), Some(input)) = (decided.call, &decided.input)
            && decided.args_digest.is_some()
            && decided.decision.effect == PolicyEffect::RequireReview
        {
            self.reviewed.insert(call, input.clone());
        }
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
            self.reviewed.remove(&call);
            if let Some(record) = self.calls.get_mut(&call) {
                schemas::note_loaded(&mut self.loaded_tools, &record.proposed, end.status);
                record.failures =
                    repetition::count(&mut self.failures, &record.proposed, end.status);
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
            // A call whose merge is approved runs on; only a call that was asked for itself is decided again.
            if let (ApprovalSubject::Call, Some(call)) = (request.subject, request.call) {
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

    fn transitioned(&mut self, transition: &WorkflowTransitioned, cause: Option<Seq>) {
        let is_merged_work = cause.is_some_and(|cause| self.has_files_of(cause));
        if transition.from == Workflow::Idle && !is_merged_work {
            // New work begins, on a base that is still to be frozen.
            self.frozen = None;
            self.seal = None;
            self.evidence = None;
        }
        self.workflow = Some(transition.to);
        if transition.to == Workflow::TestWriting {
            self.red = None;
            self.end_exemption();
        }
        if [transition.from, transition.to].contains(&Workflow::Idle) {
            self.exemption = None;
        }
    }

    fn merge_phase(&mut self, seq: Seq, phase: MergePhase) {
        if let Some(merge) = &mut self.merge
            && merge.seq == seq
        {
            merge.phase = phase;
        }
    }
}
