//! What follows from an event by logic alone, recorded in the same transaction as the event.

use glasshouse_model::body::{
    ApprovalRequested, ApprovalResolved, ApprovalSubject, BudgetCharged, CallEnd, CallStatus,
    CommitCreated, GrantRule, MergeAnswered, MergeFailed, MergeProposed, MessageReceived,
    ModeChanged, ModelCompleted, ModelFailed, Outcome, PolicyDecided, TestEvidence, ToolProposed,
    ToolStarted, TurnEnd, WorkflowTransitioned,
};
use glasshouse_model::syscall::name;
use glasshouse_model::{
    Actor, Call, CallId, Decision, Digest, Draft, Effect as PolicyEffect, Event, Kind, Layer, Mode,
    PrincipalKind, RuleTrace, Seq, State as Workflow, Usage,
};

use super::state::{asks_for_mode, total_tokens};
use super::{State, compaction, exemption, workflow};
use crate::codes;

/// Most calls of one answer; a model that writes more is looping.
const MAX_CALLS_PER_ANSWER: usize = 64;
/// Times a turn reminds the model that the work is not finished before it gives up.
const MAX_REMINDERS: u32 = 2;
/// Longest text shown to the person who is asked, in bytes.
/// Arguments are bounded below it, so a person sees all that an approval lets run.
const MAX_SHOWN_BYTES: usize = 320 * 1024;

/// The events that `event` implies. `state` has already folded it. The order is the order in which
/// they are appended; each is folded, and its own consequences asked for, before the next.
#[must_use]
pub fn consequences(state: &State, event: &Event) -> Vec<Draft> {
    // A body that cannot be read implies nothing; `State::unreadable` then stops the branch.
    let drafts = match event.kind() {
        Kind::MessageReceived => event.body_as::<MessageReceived>().map(|_| on_message(state)),
        Kind::ModelCompleted => event.body_as().map(|answer| on_answer(state, &answer)),
        Kind::ModelFailed => event.body_as().map(|failed| on_model_failed(state, &failed)),
        Kind::ToolProposed => event.body_as().map(|call| on_proposed(event.seq(), &call)),
        Kind::WorkflowExemptionDecided => event
            .body_as()
            .map(|decided| transition(workflow::on_exemption_decided(state, &decided))),
        Kind::PolicyDecided => event.body_as().map(|decided| on_decided(state, &decided)),
        Kind::ApprovalResolved => event.body_as().map(|resolved| on_resolved(state, &resolved)),
        Kind::ToolStarted => event.body_as().map(|started| on_started(state, &started)),
        Kind::TestEvidence => event
            .body_as()
            .map(|evidence: TestEvidence| transition(workflow::on_evidence(state, &evidence))),
        kind if kind.ends_call() => event.body_as().map(|end| on_call_ended(state, &end)),
        Kind::MergeProposed => event.body_as().map(|merge| on_merge_proposed(event.seq(), &merge)),
        Kind::MergeApproved => Ok(transition(workflow::on_merge_approved(state))),
        Kind::MergeRejected => event.body_as().map(|answer| on_merge_rejected(state, &answer)),
        Kind::MergeFailed => event.body_as().map(|failed| on_merge_failed(state, &failed)),
        Kind::CommitCreated => event.body_as().map(|commit| on_commit(state, &commit)),
        Kind::BranchForked => Ok(on_forked(state)),
        Kind::BranchMerged if state.has_files_of(event.seq()) => {
            Ok(transition(workflow::on_branch_merged(state)))
        }
        _ => Ok(Vec::new()),
    };
    let mut drafts = drafts.unwrap_or_default();
    for draft in &mut drafts {
        draft.cause.get_or_insert(event.seq());
        draft.labels.extend(event.header.labels.iter().cloned());
    }
    drafts
}

fn transition(body: Option<WorkflowTransitioned>) -> Vec<Draft> {
    body.iter().map(|body| Draft::new(Kind::WorkflowTransitioned, body)).collect()
}

/// The parent's turn goes on in the parent; what the fork saw of it ends here.
fn on_forked(state: &State) -> Vec<Draft> {
    let Some(turn) = state.turn else { return Vec::new() };
    let end = TurnEnd {
        turn,
        outcome: Outcome::Failed,
        code: Some(codes::INTERRUPTED.name.to_owned()),
        message: Some("the branch was forked while the turn ran".to_owned()),
        commit: None,
    };
    vec![Draft::new(Kind::TurnInterrupted, &end)]
}

fn turn_ends(
    state: &State,
    outcome: Outcome,
    code: Option<&str>,
    message: Option<String>,
) -> Vec<Draft> {
    let Some(turn) = state.turn else { return Vec::new() };
    let kind = match outcome {
        Outcome::Committed | Outcome::Answered | Outcome::Rejected => Kind::TurnCompleted,
        Outcome::Failed => Kind::TurnFailed,
        Outcome::Cancelled => Kind::TurnCancelled,
    };
    let commit = state.committed.as_ref().and_then(|commit| commit.commit.clone());
    let body = TurnEnd { turn, outcome, code: code.map(str::to_owned), message, commit };
    vec![Draft::new(kind, &body)]
}

/// Drafts that end the open turn as failed; used by the driver for faults that no event explains.
#[must_use]
pub(crate) fn turn_failed(state: &State, code: &str, message: &str) -> Vec<Draft> {
    turn_ends(state, Outcome::Failed, Some(code), Some(message.to_owned()))
}

/// Drafts that end the open turn as cancelled.
#[must_use]
pub(crate) fn turn_cancelled(state: &State) -> Vec<Draft> {
    turn_ends(state, Outcome::Cancelled, Some(codes::CANCELLED.name), None)
}

fn on_message(state: &State) -> Vec<Draft> {
    transition(workflow::on_message(state))
}

fn on_answer(state: &State, answer: &ModelCompleted) -> Vec<Draft> {
    let usage = Usage {
        tokens: total_tokens(answer),
        time_us: answer.duration_us,
        cost_micros: answer.cost_micros.unwrap_or(0),
        ..Usage::default()
    };
    let mut drafts = vec![charged(usage)];
    if answer.summary {
        drafts.extend(on_summary(state, answer));
        return drafts;
    }
    if answer.calls.len() > MAX_CALLS_PER_ANSWER {
        let message = format!(
            "{} calls in one answer; the limit is {MAX_CALLS_PER_ANSWER}",
            answer.calls.len()
        );
        drafts.extend(turn_failed(state, codes::TOO_MANY_CALLS.name, &message));
        return drafts;
    }
    for call in &answer.calls {
        let body = ToolProposed {
            id: call.id.clone(),
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
            masked: call.masked,
        };
        drafts.push(Draft::new(Kind::ToolProposed, &body).by(agent()));
    }
    if answer.calls.is_empty() {
        drafts.extend(on_rest(state, answer));
    }
    drafts
}

fn on_proposed(seq: Seq, call: &ToolProposed) -> Vec<Draft> {
    let body = exemption::requested(CallId(seq), &call.tool, &call.arguments);
    let asked = |body| Draft::new(Kind::WorkflowExemptionRequested, &body).by(agent());
    body.map(asked).into_iter().collect()
}

fn charged(usage: Usage) -> Draft {
    Draft::new(Kind::BudgetCharged, &BudgetCharged { usage, branch: None })
}

/// A summary came. One that says nothing would make the model forget instead of remember.
fn on_summary(state: &State, answer: &ModelCompleted) -> Vec<Draft> {
    let usable =
        !answer.text.trim().is_empty() && matches!(answer.finish.as_str(), "stop" | "length");
    match state.summarising.filter(|_| usable) {
        Some(cut) => {
            let body = compaction::compacted(state, cut, &answer.text);
            vec![Draft::new(Kind::ContextCompacted, &body)]
        }
        None => {
            let message = "the model gave no summary of the earlier conversation";
            turn_failed(state, codes::CONTEXT_FULL.name, message)
        }
    }
}

fn agent() -> Actor {
    Actor { kind: PrincipalKind::Agent, id: "agent".to_owned() }
}

/// The model made no call: the turn is over, or the work is not finished.
fn on_rest(state: &State, answer: &ModelCompleted) -> Vec<Draft> {
    if answer.finish != "stop" && answer.finish != "tool_calls" {
        let message = format!("the model's answer ended early: {}", answer.finish);
        return turn_failed(state, &format!("answer_{}", answer.finish), &message);
    }
    // A merge that is wanted ends the turn with it; `next` asks for it.
    if merge_wanted(state) { Vec::new() } else { rest(state) }
}

/// Whether everything is ready for the change set to be merged.
pub(crate) fn merge_wanted(state: &State) -> bool {
    // Debugging leaves probes behind: only what the agent asks to commit is put up.
    state.committed.is_none()
        && state.mode() != Mode::Debug
        && state.workflow() == Workflow::Reviewing
        && state.has_changes()
}

/// What ends a turn in which the model has nothing more to ask for, or reminds it of what is missing.
pub(crate) fn rest(state: &State) -> Vec<Draft> {
    if state.committed.is_some() {
        return turn_ends(state, Outcome::Committed, None, None);
    }
    if state.no_isolation {
        let message = "the last call that needed a sandbox did not run, because this machine does \
                       not give the isolation for one, and nothing was committed";
        return turn_failed(state, glasshouse_sandbox::codes::ISOLATION_UNAVAILABLE.name, message);
    }
    let leaves_probes = state.mode() == Mode::Debug;
    if leaves_probes || (!state.has_changes() && state.workflow() != Workflow::CodeWriting) {
        let mut drafts = transition(workflow::on_finished(state, "answered without a change"));
        drafts.extend(turn_ends(state, Outcome::Answered, None, None));
        return drafts;
    }
    if state.reminders < MAX_REMINDERS {
        let text = format!(
            "The work is not finished: the workflow is in {}. Missing: {}.",
            state.workflow(),
            workflow::missing(state)
        );
        return vec![Draft::new(Kind::MessageReceived, &MessageReceived { text })];
    }
    let message = format!(
        "the model stopped in {} with changes that are not validated; missing: {}",
        state.workflow(),
        workflow::missing(state)
    );
    turn_failed(state, codes::TASK_UNFINISHED.name, &message)
}

fn on_model_failed(state: &State, failed: &ModelFailed) -> Vec<Draft> {
    let usage = Usage { errors: 1, ..Usage::default() };
    let mut drafts = Vec::new();
    if failed.answered {
        drafts.push(charged(usage));
    }
    if failed.retry_in_ms.is_none() && failed.answered {
        drafts.extend(turn_failed(state, &failed.code, &failed.message));
    }
    drafts
}

/// A call that ends before it ran.
pub(crate) fn refused(call: CallId, status: CallStatus, code: &str, text: String) -> Draft {
    Draft::new(status.kind(), &refusal(call, status, code, text))
}

/// The same as a body.
pub(crate) fn refusal(call: CallId, status: CallStatus, code: &str, text: String) -> CallEnd {
    CallEnd {
        call,
        status,
        code: (status != CallStatus::Completed).then(|| code.to_owned()),
        exit_code: None,
        duration_us: 0,
        isolation: None,
        output: None,
        text,
        truncated: false,
        background_processes: 0,
        usage: None,
        withheld: None,
    }
}

fn on_decided(state: &State, decided: &PolicyDecided) -> Vec<Draft> {
    let Some(call) = decided.call else { return on_mode_decided(state, decided) };
    let Some(args_digest) = decided.args_digest else { return Vec::new() };
    let Some(record) = state.calls.get(&call).filter(|record| !record.is_ended()) else {
        return Vec::new();
    };
    match decided.decision.effect {
        PolicyEffect::Allow => Vec::new(),
        PolicyEffect::Deny => {
            let text = denial_text(state, decided);
            vec![refused(call, CallStatus::Denied, "policy_denied", text)]
        }
        PolicyEffect::RequireReview => {
            let Some((_, frozen)) = &state.frozen else {
                let text = "review is not possible before the workspace is frozen".to_owned();
                return vec![refused(call, CallStatus::Denied, "policy_denied", text)];
            };
            let request = ApprovalRequested {
                subject: ApprovalSubject::Call,
                call: Some(call),
                tool: record.proposed.tool.clone(),
                shown: shorten(&record.proposed.arguments),
                reasons: review_reasons(&decided.decision),
                args_digest,
                policy_version: decided.decision.policy_version,
                base: frozen.base,
                offer: offer(decided),
                merge: None,
            };
            vec![Draft::new(Kind::ApprovalRequested, &request)]
        }
    }
}

/// What follows from the decision whether the person who starts a session may have it in another mode.
fn on_mode_decided(state: &State, decided: &PolicyDecided) -> Vec<Draft> {
    let Some((to, call)) = decided.input.as_ref().and_then(wanted_mode) else { return Vec::new() };
    match decided.decision.effect {
        PolicyEffect::Deny => Vec::new(),
        PolicyEffect::Allow => vec![mode_changed(state, to)],
        PolicyEffect::RequireReview => {
            let request = ApprovalRequested {
                subject: ApprovalSubject::Call,
                call: None,
                tool: call.syscall.clone(),
                shown: to.to_string(),
                reasons: review_reasons(&decided.decision),
                args_digest: Digest::of(to.as_str().as_bytes()),
                policy_version: decided.decision.policy_version,
                base: Digest::ZERO,
                offer: None,
                merge: None,
            };
            vec![Draft::new(Kind::ApprovalRequested, &request)]
        }
    }
}

/// The mode that a person asks for.
fn wanted_mode(call: &Call) -> Option<(Mode, &Call)> {
    let asks = call.syscall == name::SESSION_SET_MODE && call.caller.kind == PrincipalKind::User;
    let word = call.argv.as_ref().filter(|_| asks)?.first()?;
    Some((word.parse().ok()?, call))
}

fn mode_changed(state: &State, to: Mode) -> Draft {
    Draft::new(Kind::SessionModeChanged, &ModeChanged { from: state.mode(), to })
}

/// The rule that a wider answer would grant. What a built-in rule asks for is looked at every time.
fn offer(decided: &PolicyDecided) -> Option<GrantRule> {
    let built_in = |rule: &RuleTrace| {
        rule.layer == Layer::BuiltIn && rule.action == PolicyEffect::RequireReview
    };
    let call = decided.input.as_ref().filter(|_| !decided.decision.rules.iter().any(built_in))?;
    Some(glasshouse_policy::GrantRule::offered(call, &decided.decision).ok()?.told(call))
}

/// Why a person is asked: the reasons of the rules that want it, or their names.
#[must_use]
pub(crate) fn review_reasons(decision: &Decision) -> Vec<String> {
    let asking = decision.rules.iter().filter(|rule| rule.action == PolicyEffect::RequireReview);
    asking.map(|rule| rule.reason.clone().unwrap_or_else(|| rule.name.clone())).collect()
}

fn denial_text(state: &State, decided: &PolicyDecided) -> String {
    let reasons = if decided.decision.reasons.is_empty() {
        "no rule allows it".to_owned()
    } else {
        decided.decision.reasons.join("; ")
    };
    let subject = decided.subject.as_deref().unwrap_or("");
    format!(
        "denied: {} {subject}: {reasons}. Workflow state: {}; writable: {}; next: {}.",
        decided.syscall,
        state.workflow(),
        workflow::writable(state),
        workflow::missing(state)
    )
}

fn shorten(text: &str) -> String {
    if text.len() <= MAX_SHOWN_BYTES {
        return text.to_owned();
    }
    let shown = &text[..text.floor_char_boundary(MAX_SHOWN_BYTES)];
    format!("{shown}… ({} bytes in all)", text.len())
}

fn on_resolved(state: &State, resolved: &ApprovalResolved) -> Vec<Draft> {
    // `apply` took the request out of the pending ones; find its subject by what waits for it.
    if let Some(merge) = &state.merge
        && merge.phase == super::MergePhase::InReview(Some(resolved.approval))
    {
        let body = MergeAnswered {
            merge: merge.seq,
            approver: resolved.approver.clone(),
            code: resolved.code.clone(),
        };
        let kind = if resolved.approved { Kind::MergeApproved } else { Kind::MergeRejected };
        return vec![Draft::new(kind, &body).by(resolved.approver.clone())];
    }
    if resolved.approved {
        let about = state.granted.get(&resolved.approval).map(|(request, _)| request);
        let to = about.filter(|request| asks_for_mode(request));
        let to = to.and_then(|request| request.shown.parse().ok());
        return to.map(|to| mode_changed(state, to)).into_iter().collect();
    }
    let waiting = state.open_calls.iter().find(|call| {
        state
            .calls
            .get(call)
            .is_some_and(|r| r.phase == super::CallPhase::InReview(resolved.approval))
    });
    let Some(call) = waiting else { return Vec::new() };
    let text = match resolved.code.as_str() {
        "no_approver" => {
            "denied: this call needs a person's approval and nobody is there to give it".to_owned()
        }
        "approval_expired" => "denied: the approval had expired before the call could run; call \
                               again to be asked again"
            .to_owned(),
        _ => format!("denied: {} rejected this call", resolved.approver.id),
    };
    vec![refused(*call, CallStatus::Denied, &resolved.code, text)]
}

fn on_started(state: &State, started: &ToolStarted) -> Vec<Draft> {
    let is_test_run =
        state.calls.get(&started.call).is_some_and(|r| r.proposed.tool == name::TEST_RUN);
    if is_test_run { transition(workflow::on_tests_started(state)) } else { Vec::new() }
}

fn on_call_ended(state: &State, end: &CallEnd) -> Vec<Draft> {
    let errors = u64::from(end.status == CallStatus::Failed);
    let usage = Usage { calls: 1, time_us: end.duration_us, errors, ..Usage::default() };
    let mut drafts = vec![charged(usage)];
    let tool = state.calls.get(&end.call).map(|record| record.proposed.tool.as_str());
    match tool {
        Some(name::PLAN_COMPLETE) if end.status == CallStatus::Completed => {
            drafts.extend(transition(workflow::on_plan_complete(state)));
        }
        Some(name::TEST_RUN) => drafts.extend(transition(workflow::on_tests_ended(state))),
        Some(name::WORKFLOW_REQUEST_EXEMPTION) => {
            let decided = exemption::decided(state, end);
            drafts.extend(decided.map(|body| Draft::new(Kind::WorkflowExemptionDecided, &body)));
        }
        _ => {}
    }
    drafts
}

fn on_merge_proposed(seq: Seq, merge: &MergeProposed) -> Vec<Draft> {
    if merge.review_reasons.is_empty() {
        let body = MergeAnswered {
            merge: seq,
            approver: Actor::kernel(),
            code: "auto_approved".to_owned(),
        };
        return vec![Draft::new(Kind::MergeApproved, &body)];
    }
    let shown = format!(
        "{}\n{} files, +{} -{} lines",
        merge.message,
        merge.changes.len(),
        merge.lines_added,
        merge.lines_removed
    );
    let request = ApprovalRequested {
        subject: ApprovalSubject::Merge,
        call: merge.call,
        tool: "merge".to_owned(),
        shown,
        reasons: merge.review_reasons.clone(),
        args_digest: merge.patch.blob,
        policy_version: merge.policy_version,
        base: merge.base,
        offer: None,
        merge: None,
    };
    vec![Draft::new(Kind::ApprovalRequested, &request)]
}

/// The `git.commit` call that is running, if the merge came from one.
fn commit_call(state: &State) -> Option<CallId> {
    state.open_calls.iter().copied().find(|call| {
        state.calls.get(call).is_some_and(|record| {
            record.proposed.tool == name::GIT_COMMIT && record.phase == super::CallPhase::Started
        })
    })
}

fn on_merge_rejected(state: &State, answer: &MergeAnswered) -> Vec<Draft> {
    let nobody = answer.code == "no_approver";
    let mut drafts = Vec::new();
    if let Some(call) = commit_call(state) {
        let text = if nobody {
            "the merge needs a person's approval and nobody is there to give it".to_owned()
        } else {
            format!("{} rejected the change set", answer.approver.id)
        };
        drafts.push(refused(call, CallStatus::Denied, &answer.code, text));
    }
    if nobody {
        let message = "the change set needs a person's approval and nobody is there to give it";
        drafts.extend(turn_failed(state, codes::NO_APPROVER.name, message));
    } else {
        drafts.extend(transition(workflow::on_merge_rejected(state)));
        drafts.extend(turn_ends(state, Outcome::Rejected, None, None));
    }
    drafts
}

fn on_merge_failed(state: &State, failed: &MergeFailed) -> Vec<Draft> {
    let mut drafts = transition(workflow::on_merge_failed(state));
    if let Some(call) = commit_call(state) {
        drafts.push(refused(call, CallStatus::Failed, &failed.code, failed.message.clone()));
    }
    drafts.extend(turn_failed(state, &failed.code, &failed.message));
    drafts
}

fn on_commit(state: &State, commit: &CommitCreated) -> Vec<Draft> {
    let mut drafts = transition(workflow::on_finished(state, "committed"));
    match commit_call(state) {
        Some(call) => {
            let text = match &commit.commit {
                Some(id) => format!("merged and committed as {id}"),
                None if commit.was_there => {
                    "merged; the last commit has all of it already, so there is none".to_owned()
                }
                None => {
                    "merged; the project is no git repository, so there is no commit".to_owned()
                }
            };
            drafts.push(refused(call, CallStatus::Completed, "", text));
        }
        None => drafts.extend(turn_ends(state, Outcome::Committed, None, None)),
    }
    drafts
}
