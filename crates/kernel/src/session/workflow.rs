//! The strict workflow: which transitions there are and what their guards look at.
//!
//! Guards look only at evidence that the kernel produced itself: what a seal contains and how a
//! test run of the kernel ended. What a model claims moves nothing but the plan.
//!
//! ```text
//! idle -> planning -> test_writing -> code_writing -> validating -> reviewing -> committing -> idle
//!            message     plan.complete     a new test     code changed,    all        approved
//!                                          fails (red)    tests run        pass
//! ```
//!
//! `plan.complete` in `code_writing` or `reviewing` goes back to `test_writing`: another cycle, with
//! the same guards ahead of it. A rejected merge goes back to `code_writing`.

use glasshouse_model::State as Workflow;
use glasshouse_model::body::{TestEvidence, WorkflowTransitioned};

use super::State;

fn to(from: Workflow, to: Workflow, because: impl Into<String>) -> Option<WorkflowTransitioned> {
    (from != to).then(|| WorkflowTransitioned { from, to, because: because.into() })
}

/// A message arrived.
#[must_use]
pub fn on_message(state: &State) -> Option<WorkflowTransitioned> {
    match state.workflow() {
        Workflow::Idle => to(Workflow::Idle, Workflow::Planning, "a message arrived"),
        _ => None,
    }
}

/// The model said that its plan is complete.
#[must_use]
pub fn on_plan_complete(state: &State) -> Option<WorkflowTransitioned> {
    match state.workflow() {
        from @ (Workflow::Planning | Workflow::CodeWriting | Workflow::Reviewing) => {
            to(from, Workflow::TestWriting, "plan.complete")
        }
        _ => None,
    }
}

/// A test run starts.
#[must_use]
pub fn on_tests_started(state: &State) -> Option<WorkflowTransitioned> {
    let code_changed = state.seal.as_ref().is_some_and(|seal| seal.sources_changed);
    match state.workflow() {
        Workflow::CodeWriting if code_changed => {
            to(Workflow::CodeWriting, Workflow::Validating, "the code changed and its tests run")
        }
        _ => None,
    }
}

/// A test run ended with evidence; `state` already holds it.
#[must_use]
pub fn on_evidence(state: &State, evidence: &TestEvidence) -> Option<WorkflowTransitioned> {
    match state.workflow() {
        Workflow::TestWriting if state.red.is_some() => to(
            Workflow::TestWriting,
            Workflow::CodeWriting,
            format!("a new test was run and failed (exit {})", evidence.exit_code),
        ),
        Workflow::Validating if evidence.passed && evidence.ran => {
            to(Workflow::Validating, Workflow::Reviewing, "all tests pass")
        }
        Workflow::Validating => to(
            Workflow::Validating,
            Workflow::CodeWriting,
            format!("the tests do not pass (exit {})", evidence.exit_code),
        ),
        _ => None,
    }
}

/// A test run ended, with or without evidence.
#[must_use]
pub fn on_tests_ended(state: &State) -> Option<WorkflowTransitioned> {
    match state.workflow() {
        Workflow::Validating => {
            to(Workflow::Validating, Workflow::CodeWriting, "the test run brought no evidence")
        }
        _ => None,
    }
}

/// Another branch's files came in. They are no evidence: what this branch had proved of its own files is
/// proved anew on these, and work that came to a branch at rest begins with a plan.
#[must_use]
pub fn on_branch_merged(state: &State) -> Option<WorkflowTransitioned> {
    match state.workflow() {
        Workflow::Idle => to(Workflow::Idle, Workflow::Planning, "another branch was merged"),
        from @ (Workflow::Validating | Workflow::Reviewing | Workflow::Committing) => {
            to(from, Workflow::CodeWriting, "another branch was merged and changed the files")
        }
        _ => None,
    }
}

/// A merge was approved.
#[must_use]
pub fn on_merge_approved(state: &State) -> Option<WorkflowTransitioned> {
    to(state.workflow(), Workflow::Committing, "the merge was approved")
}

/// A merge was rejected by a person.
#[must_use]
pub fn on_merge_rejected(state: &State) -> Option<WorkflowTransitioned> {
    to(state.workflow(), Workflow::CodeWriting, "the merge was rejected")
}

/// A merge failed after it was approved.
#[must_use]
pub fn on_merge_failed(state: &State) -> Option<WorkflowTransitioned> {
    to(state.workflow(), Workflow::Reviewing, "the merge failed")
}

/// The work is committed, or the turn ended without any change.
#[must_use]
pub fn on_finished(state: &State, because: &str) -> Option<WorkflowTransitioned> {
    to(state.workflow(), Workflow::Idle, because)
}

/// What is missing before the next state, in words for a model.
#[must_use]
pub fn missing(state: &State) -> &'static str {
    match state.workflow() {
        Workflow::Idle => "a message from the user",
        Workflow::Planning => {
            "call plan.complete when you know what to do; nothing can be written before"
        }
        Workflow::TestWriting => {
            "write or change a test, then call test.run: source can be written once a new test was seen failing"
        }
        Workflow::CodeWriting => {
            "change the source, then call test.run: the change is reviewed once every test passes"
        }
        Workflow::Validating => "the test run to end",
        Workflow::Reviewing => {
            "call git.commit with a message; the change set is reviewed, merged and committed"
        }
        Workflow::Committing => "the merge to end",
        Workflow::Exploring | Workflow::RetroactiveTesting => {
            "this state belongs to a mode that is not in force"
        }
    }
}

/// Paths that may be written now, in words for a model.
#[must_use]
pub fn writable(state: &State) -> &'static str {
    match state.workflow() {
        Workflow::TestWriting => "test files only",
        Workflow::CodeWriting => "source files only; tests are read-only",
        _ => "nothing",
    }
}
