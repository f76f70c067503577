//! The workflow: which transitions there are and what their guards look at.
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
//! Explore and debug write without a failing test. What they bring is always seen by a person, who may
//! want tests first, and its commit says that it is unverified:
//!
//! ```text
//! planning -> exploring -> validating -> reviewing -> committing -> idle
//!        plan.complete  changed,     all pass, | ^    approved
//!                       tests run    or none   v | tests changed, and all pass
//!                                     retroactive_testing
//! ```
//!
//! In strict mode `plan.complete` in `code_writing` or `reviewing` goes back to `test_writing`: another cycle, with
//! the same guards ahead of it. A rejected merge goes back to where the work was written.

use glasshouse_model::body::{TestEvidence, WorkflowTransitioned};
use glasshouse_model::{Mode, State as Workflow};

use super::State;

fn to(from: Workflow, to: Workflow, because: impl Into<String>) -> Option<WorkflowTransitioned> {
    (from != to).then(|| WorkflowTransitioned { from, to, because: because.into() })
}

/// Where work is written in the mode in force.
fn writing(state: &State) -> Workflow {
    match state.mode() {
        Mode::Strict => Workflow::CodeWriting,
        Mode::Explore | Mode::Debug => Workflow::Exploring,
    }
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
    let next = match (state.mode(), state.workflow()) {
        (Mode::Strict, Workflow::Planning | Workflow::CodeWriting | Workflow::Reviewing) => {
            Workflow::TestWriting
        }
        (Mode::Explore | Mode::Debug, Workflow::Planning) => Workflow::Exploring,
        (Mode::Explore | Mode::Debug, Workflow::Reviewing) => Workflow::RetroactiveTesting,
        _ => return None,
    };
    to(state.workflow(), next, "plan.complete")
}

/// A test run starts.
#[must_use]
pub fn on_tests_started(state: &State) -> Option<WorkflowTransitioned> {
    let seal = state.seal.as_ref();
    let code_changed = seal.is_some_and(|seal| seal.sources_changed);
    let tests_changed = seal.is_some_and(|seal| seal.tests_changed);
    match state.workflow() {
        Workflow::CodeWriting if code_changed => {
            to(Workflow::CodeWriting, Workflow::Validating, "the code changed and its tests run")
        }
        Workflow::Exploring if code_changed || tests_changed => {
            to(Workflow::Exploring, Workflow::Validating, "something changed and the tests run")
        }
        from @ Workflow::RetroactiveTesting if tests_changed => {
            to(from, Workflow::Validating, "tests were added and run")
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
        Workflow::Validating if state.mode() != Mode::Strict && had_none(state, evidence) => {
            to(Workflow::Validating, Workflow::Reviewing, "there are no tests")
        }
        Workflow::Validating => to(
            Workflow::Validating,
            writing(state),
            format!("the tests do not pass (exit {})", evidence.exit_code),
        ),
        _ => None,
    }
}

/// Whether a runner ended well and found nothing to run.
fn had_none(state: &State, evidence: &TestEvidence) -> bool {
    /// How pytest says it.
    const NO_TESTS_COLLECTED: i32 = 5;
    let is_pytest = state.created.as_ref().is_some_and(|created| created.test.kind == "pytest");
    let code = evidence.exit_code;
    !evidence.ran && (code == 0 || (is_pytest && code == NO_TESTS_COLLECTED))
}

/// A test run ended, with or without evidence.
#[must_use]
pub fn on_tests_ended(state: &State) -> Option<WorkflowTransitioned> {
    match state.workflow() {
        Workflow::Validating => {
            to(Workflow::Validating, writing(state), "the test run brought no evidence")
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
            to(from, writing(state), "another branch was merged and changed the files")
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
    to(state.workflow(), writing(state), "the merge was rejected")
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
        Workflow::Exploring => {
            "change what you need, then call test.run: the change is reviewed once every test passes"
        }
        Workflow::RetroactiveTesting => {
            "write tests for what was explored, then call test.run until every test passes"
        }
    }
}

/// Paths that may be written now, in words for a model.
#[must_use]
pub fn writable(state: &State) -> &'static str {
    match state.workflow() {
        Workflow::TestWriting | Workflow::RetroactiveTesting => "test files only",
        Workflow::CodeWriting => "source files only; tests are read-only",
        Workflow::Exploring => "every file that the policy allows",
        _ => "nothing",
    }
}
