//! Turns: what a state wants next, and that every call and turn ends once.

use glasshouse_kernel::codes;
use glasshouse_kernel::session::{CallPhase, Effect, VOID_APPROVALS};
use glasshouse_model::body::{
    ApprovalResolved, CallEnd, CallStatus, CommitCreated, GrantScope, MergeApplied, MergeFailed,
    MergeProposed, MessageReceived, ModelCompleted, ModelFailed, Outcome, TurnEnd, TurnStarted,
    WrittenCall,
};
use glasshouse_model::{
    Actor, Budget, CallId, Digest, Draft, Effect as PolicyEffect, Kind, PrincipalKind,
    State as Workflow,
};

use crate::simulation::{Simulation, blob};

#[test]
fn a_question_is_answered_without_a_merge() {
    let mut sim = Simulation::new(Budget::default());
    assert_eq!(sim.next(), [Effect::RequestModel { attempt: 1, delay_ms: 0 }]);
    sim.answer("It parses configuration.", &[]);
    assert_eq!(sim.state.outcome(), Some(Outcome::Answered));
    assert_eq!(sim.next(), []);
}

/// The failure: a session killed while its second turn froze the project was resumed on the workspace of
/// the first turn, below what that one had committed since.
/// Now: work that begins has no base until one is frozen for it, and finished work needs none.
#[test]
fn new_work_begins_without_the_old_base() {
    let mut sim = Simulation::new(Budget::default());
    assert!(!sim.state.base_is_stale());
    sim.answer("It parses configuration.", &[]);
    assert!(sim.state.base_is_stale());
    sim.append(Draft::new(Kind::TurnStarted, &TurnStarted::default()));
    let user = Actor { kind: PrincipalKind::User, id: "local".to_owned() };
    let message = MessageReceived { text: "and now?".to_owned() };
    sim.append(Draft::new(Kind::MessageReceived, &message).by(user));
    assert_eq!(sim.state.frozen, None);
    assert!(sim.state.base_is_stale(), "a resumed session freezes anew");
}

#[test]
fn reads_run_side_by_side_and_writes_wait_for_each_other() {
    let check = |calls: &[(&str, &str)], expected: &[usize]| {
        let mut sim = Simulation::new(Budget::default());
        let ids = sim.answer("", calls);
        let wanted: Vec<_> = expected.iter().map(|at| Effect::Decide(ids[*at])).collect();
        assert_eq!(sim.next(), wanted, "{calls:?}");
    };
    let read_a = ("fs.read", r#"{"path":"a"}"#);
    let read_b = ("fs.read", r#"{"path":"b"}"#);
    let write_a = ("fs.write", r#"{"path":"a","content":""}"#);
    let write_b = ("fs.write", r#"{"path":"b","content":""}"#);
    let shell = ("shell.run", r#"{"argv":["true"]}"#);
    let plan = ("plan.complete", r#"{"summary":"x"}"#);
    check(&[read_a, read_b], &[0, 1]);
    check(&[read_a, write_a], &[0]);
    check(&[write_a, read_a, read_b], &[0, 2]);
    check(&[write_a, write_a], &[0]);
    check(&[shell, read_a], &[0]);
    check(&[read_a, shell, read_b], &[0]);
    // A plan may change what the next call is allowed to do, so that one is decided afterwards.
    check(&[plan, write_b], &[0]);
}

#[test]
fn denied_and_reviewed_calls_end_once() {
    let check =
        |effect: PolicyEffect, answer: Option<(bool, &str)>, expected: Option<CallStatus>| {
            let mut sim = Simulation::new(Budget::default());
            let call = sim.answer("", &[("fs.write", r#"{"path":"a","content":""}"#)])[0];
            sim.decide(call, effect);
            if let Some((approved, code)) = answer {
                let approval = sim.last_seq(&Kind::ApprovalRequested);
                assert_eq!(sim.next(), [Effect::AskApproval(approval)]);
                let body = ApprovalResolved {
                    approval,
                    approved,
                    approver: Actor { kind: PrincipalKind::User, id: "ada".to_owned() },
                    code: code.to_owned(),
                    expires_us: 1,
                    scope: glasshouse_model::body::GrantScope::Call,
                };
                sim.append(Draft::new(Kind::ApprovalResolved, &body));
                // A second answer to the same question changes nothing.
                sim.append(Draft::new(Kind::ApprovalResolved, &body));
            }
            let ended = match &sim.state.calls[&call].phase {
                CallPhase::Ended(end) => Some(end.status),
                _ => None,
            };
            assert_eq!(ended, expected, "{effect:?} {answer:?}");
            let ends = sim.events.iter().filter(|event| event.kind().ends_call()).count();
            assert_eq!(ends, usize::from(expected.is_some()));
            if expected.is_none() && answer.is_some() {
                assert_eq!(sim.next(), [Effect::Decide(call)], "an approved call is decided again");
            }
        };
    check(PolicyEffect::Allow, None, None);
    check(PolicyEffect::Deny, None, Some(CallStatus::Denied));
    check(PolicyEffect::RequireReview, Some((true, "approved")), None);
    check(PolicyEffect::RequireReview, Some((false, "rejected")), Some(CallStatus::Denied));
    check(PolicyEffect::RequireReview, Some((false, "no_approver")), Some(CallStatus::Denied));
}

/// What becomes of a merge that a model asked for and a person must answer.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// Approved, written and committed.
    Committed,
    /// Approved, and the project changed under it.
    Failed,
    /// Answered with no, by this code.
    Refused(&'static str),
}

/// A session in review whose `git.commit` proposed a merge that a person must answer.
fn commit_in_review() -> (Simulation, CallId) {
    let mut sim = Simulation::new(Budget::default());
    sim.call("plan.complete", r#"{"summary":"x"}"#);
    sim.seal("tests", true, false);
    sim.test_run(true, false);
    sim.seal("code", true, true);
    sim.test_run(true, true);
    assert_eq!(sim.workflow(), Workflow::Reviewing);
    let call = sim.answer("", &[("git.commit", r#"{"message":"x"}"#)])[0];
    sim.decide(call, PolicyEffect::Allow);
    sim.start(call);
    let body = MergeProposed {
        call: Some(call),
        message: "x".to_owned(),
        base: Digest::of(b"base"),
        patch: blob("patch"),
        manifest: blob("code"),
        changes: Vec::new(),
        lines_added: 1,
        lines_removed: 0,
        review_reasons: vec!["a test lost lines".to_owned()],
        binding: serde_json::json!({}),
        policy_version: Digest::of(b"policy"),
        evidence: Some(sim.last_seq(&Kind::TestEvidence)),
    };
    sim.append(Draft::new(Kind::MergeProposed, &body));
    (sim, call)
}

/// The failure: a commit whose merge a person had approved was written, and its call stayed open for ever.
/// The call ended only where the criteria of the merge had answered.
/// Now: whatever becomes of a merge ends the call that asked for it, once.
#[test]
fn law_3_a_commit_whose_merge_a_person_answers_ends_once() {
    let check = |fate: Fate, expected: CallStatus| {
        let (mut sim, call) = commit_in_review();
        let approval = sim.last_seq(&Kind::ApprovalRequested);
        let merge = sim.last_seq(&Kind::MergeProposed);
        assert_eq!(sim.next(), [Effect::AskApproval(approval)], "{fate:?}");
        let answer = ApprovalResolved {
            approval,
            approved: !matches!(fate, Fate::Refused(_)),
            approver: Actor { kind: PrincipalKind::User, id: "ada".to_owned() },
            code: if let Fate::Refused(code) = fate { code } else { "approved" }.to_owned(),
            expires_us: 1,
            scope: GrantScope::Call,
        };
        sim.append(Draft::new(Kind::ApprovalResolved, &answer));
        let after_answer = sim.next();
        // A second answer to the same question changes nothing.
        sim.append(Draft::new(Kind::ApprovalResolved, &answer));
        assert_eq!(sim.next(), after_answer, "{fate:?}");
        if !matches!(fate, Fate::Refused(_)) {
            assert_eq!(after_answer, [Effect::ApplyMerge(merge)], "{fate:?}");
        }
        match fate {
            Fate::Committed => {
                sim.append(Draft::new(Kind::MergeApplied, &MergeApplied { merge, files: 2 }));
                assert_eq!(sim.next(), [Effect::Commit(merge)]);
                let commit = Some("0123abc".to_owned());
                let body =
                    CommitCreated { merge, commit, was_there: false, subject: "x".to_owned() };
                sim.append(Draft::new(Kind::CommitCreated, &body));
            }
            Fate::Failed => {
                let (code, message) = ("merge_conflict".to_owned(), "changed".to_owned());
                sim.append(Draft::new(Kind::MergeFailed, &MergeFailed { merge, code, message }));
            }
            Fate::Refused(_) => {}
        }
        let CallPhase::Ended(end) = &sim.state.calls[&call].phase else {
            panic!("{fate:?}: the call is open: {:?}", sim.state.calls[&call].phase);
        };
        assert_eq!(end.status, expected, "{fate:?}");
        assert!(sim.state.open_calls.is_empty(), "{fate:?}");
        let is_end = |event: &&glasshouse_model::Event| {
            event.kind().ends_call() && event.body_as::<CallEnd>().is_ok_and(|end| end.call == call)
        };
        assert_eq!(sim.events.iter().filter(is_end).count(), 1, "{fate:?}");
    };
    check(Fate::Committed, CallStatus::Completed);
    check(Fate::Failed, CallStatus::Failed);
    check(Fate::Refused("rejected"), CallStatus::Denied);
    check(Fate::Refused("no_approver"), CallStatus::Denied);
}

/// An approval may have been used in events that a restore gave up: it is asked for again.
#[test]
fn answers_of_people_do_not_count_after_a_restore() {
    let check = |what: &str, is_void: bool| {
        let mut sim = Simulation::new(Budget::default());
        let call = sim.answer("", &[("fs.write", r#"{"path":"a","content":""}"#)])[0];
        sim.decide(call, PolicyEffect::RequireReview);
        let approval = sim.last_seq(&Kind::ApprovalRequested);
        let body = ApprovalResolved {
            approval,
            approved: true,
            approver: Actor { kind: PrincipalKind::User, id: "ada".to_owned() },
            code: "approved".to_owned(),
            expires_us: 1,
            scope: GrantScope::Call,
        };
        sim.append(Draft::new(Kind::ApprovalResolved, &body));
        assert_eq!(sim.state.calls[&call].phase, CallPhase::Approved(approval), "the control");
        let said = serde_json::json!({ "what": what });
        sim.append(Draft::new(Kind::LogRecovered, &said));
        assert_eq!(sim.next(), [Effect::Decide(call)]);
        assert_eq!(sim.state.calls[&call].phase != CallPhase::Approved(approval), is_void);
        assert_eq!(sim.state.granted.is_empty(), is_void, "{what}");
        if is_void {
            sim.append(Draft::new(Kind::ApprovalResolved, &body));
            assert!(sim.state.granted.is_empty(), "the old answer is no answer any more");
        }
    };
    check(VOID_APPROVALS, true);
    check("snapshot of a session", false);
}

#[test]
fn an_interrupted_call_is_run_again_and_ends_once() {
    let mut sim = Simulation::new(Budget::default());
    let call = sim.answer("", &[("shell.run", r#"{"argv":["true"]}"#)])[0];
    sim.decide(call, PolicyEffect::Allow);
    sim.start(call);
    let turn = sim.state.turn.unwrap();
    let end = TurnEnd { turn, outcome: Outcome::Failed, code: None, message: None, commit: None };
    sim.append(Draft::new(Kind::TurnInterrupted, &end));
    assert_eq!(sim.next(), [], "nothing happens without a turn");
    sim.append(Draft::new(
        Kind::TurnStarted,
        &glasshouse_model::body::TurnStarted { continues: Some(turn), request: None },
    ));
    assert_eq!(sim.next(), [Effect::Decide(call)]);
    sim.decide(call, PolicyEffect::Allow);
    sim.start(call);
    sim.end(call, CallStatus::Completed);
    assert_eq!(sim.count(&Kind::ToolCompleted), 1);
    assert_eq!(sim.next(), [Effect::RequestModel { attempt: 1, delay_ms: 0 }]);
}

#[test]
fn law_10_a_used_up_budget_stops_before_the_next_act() {
    let budget = Budget { calls: Some(1), ..Budget::default() };
    let mut sim = Simulation::new(budget);
    let calls = sim.answer(
        "",
        &[("fs.read", r#"{"path":"a"}"#), ("fs.write", r#"{"path":"b","content":""}"#)],
    );
    sim.decide(calls[0], PolicyEffect::Allow);
    sim.start(calls[0]);
    sim.end(calls[0], CallStatus::Completed);
    let [Effect::Record(drafts)] = &sim.next()[..] else { panic!("{:?}", sim.next()) };
    for draft in drafts.clone() {
        sim.append(draft);
    }
    assert_eq!(sim.state.last_turn.as_ref().unwrap().code.as_deref(), Some("budget_exhausted"));
    assert_eq!(sim.count(&Kind::ToolCancelled), 1);
    assert_eq!(sim.count(&Kind::BudgetExhausted), 1);
    assert_eq!(sim.next(), []);
}

#[test]
fn failed_requests_are_tried_again_or_end_the_turn() {
    let check = |retry_in_ms: Option<u64>, answered: bool, expected: &[Effect], ended: bool| {
        let mut sim = Simulation::new(Budget::default());
        let body = ModelFailed {
            ordinal: 0,
            attempt: 1,
            code: "rate_limited".to_owned(),
            message: "slow down".to_owned(),
            retry_in_ms,
            next_model: None,
            answered,
        };
        sim.append(Draft::new(Kind::ModelFailed, &body));
        assert_eq!(sim.next(), expected, "{retry_in_ms:?} {answered}");
        assert_eq!(sim.state.turn.is_none(), ended);
        assert_eq!(sim.state.ordinal, u64::from(answered));
    };
    check(Some(50), true, &[Effect::RequestModel { attempt: 2, delay_ms: 50 }], false);
    check(None, true, &[], true);
}

#[test]
fn a_model_that_stops_early_is_reminded_and_then_given_up() {
    let mut sim = Simulation::new(Budget::default());
    sim.call("plan.complete", r#"{"summary":"x"}"#);
    sim.seal("tests", true, false);
    for round in 1..=3 {
        sim.answer("I am done.", &[]);
        let reminders =
            sim.events.iter().filter(|e| *e.kind() == Kind::MessageReceived).count() - 1;
        assert_eq!(reminders, round.min(2));
    }
    assert_eq!(sim.state.last_turn.as_ref().unwrap().code.as_deref(), Some("task_unfinished"));
}

/// A code that ends a turn is told to a person, who looks it up.
fn assert_known(code: &str) {
    assert!(codes::named(code).is_some(), "{code} is no code");
    let page = format!("{}/../../docs/errors/{code}.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{page}: {e}"));
    assert!(text.starts_with(&format!("# {code}\n")), "{page}");
}

#[test]
fn answers_that_cannot_be_acted_on_end_the_turn_with_a_known_code() {
    let check = |finish: &str, calls: usize, expected: &str| {
        let mut sim = Simulation::new(Budget::default());
        let call = |n: usize| WrittenCall {
            masked: false,
            id: format!("t{n}"),
            tool: "fs.read".to_owned(),
            arguments: r#"{"path":"a"}"#.to_owned(),
        };
        let body = ModelCompleted {
            ordinal: 0,
            text: "half".to_owned(),
            reasoning: String::new(),
            calls: (0..calls).map(call).collect(),
            finish: finish.to_owned(),
            tokens: [("output".to_owned(), 10)].into(),
            raw: blob("raw"),
            duration_us: 5,
            carry: None,
            cost_micros: None,
            summary: false,
        };
        sim.append(Draft::new(Kind::ModelCompleted, &body));
        let code = sim.state.last_turn.as_ref().and_then(|end| end.code.as_deref());
        assert_eq!(code, Some(expected), "{finish}");
        assert_known(expected);
    };
    check("length", 0, "answer_length");
    check("refusal", 0, "answer_refusal");
    check("paused", 0, "answer_paused");
    check("content_filter", 0, "answer_content_filter");
    check("tool_calls", 1000, "too_many_calls");
    // The others are checked where they come from; each has its page too.
    [codes::TASK_UNFINISHED, codes::NO_APPROVER, codes::BUDGET_EXHAUSTED, codes::STUCK]
        .into_iter()
        .chain([codes::INTERRUPTED, codes::CANCELLED, codes::POLICY_DENIED, codes::TURN_FAILED])
        .chain(glasshouse_provider::codes::ALL.iter().copied())
        .chain([glasshouse_sandbox::codes::ISOLATION_UNAVAILABLE])
        .for_each(|code| assert_known(code.name));
}

/// The failure: each command of a session was refused for want of isolation, and the session ended as
/// if the question had been answered.
#[test]
fn a_turn_whose_last_command_had_no_isolation_is_no_answer() {
    let end = |call, code: Option<&str>| CallEnd {
        call,
        status: if code.is_some() { CallStatus::Failed } else { CallStatus::Completed },
        code: code.map(str::to_owned),
        exit_code: None,
        duration_us: 1,
        isolation: None,
        output: None,
        text: String::new(),
        truncated: false,
        background_processes: 0,
        usage: None,
        withheld: None,
    };
    let check = |calls: &[Option<&str>], outcome: Outcome, code: Option<&str>| {
        let mut sim = Simulation::new(Budget::default());
        for failure in calls {
            let call = sim.answer("", &[("shell.run", r#"{"argv":["true"]}"#)])[0];
            if failure.is_none() {
                sim.start(call);
            }
            let body = end(call, *failure);
            sim.append(Draft::new(body.status.kind(), &body));
        }
        sim.answer("It works.", &[]);
        let last = sim.state.last_turn.clone().unwrap();
        assert_eq!((last.outcome, last.code.as_deref()), (outcome, code), "{calls:?}");
    };
    let none = Some("isolation_unavailable");
    check(&[None], Outcome::Answered, None);
    check(&[none], Outcome::Failed, none);
    check(&[None, none], Outcome::Failed, none);
    check(&[none, None], Outcome::Answered, None);
    check(&[Some("invalid_arguments")], Outcome::Answered, None);
}
