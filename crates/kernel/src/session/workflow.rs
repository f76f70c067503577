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
//! An exemption that a person granted lets strict work go from where it is to `exploring`, where only the
//! files that it names may be written, and from there to review like what is explored.
//!
//! In strict mode `plan.complete` in `code_writing`, `exploring` or `reviewing` goes back to `test_writing`: another cycle, with
//! the same guards ahead of it. A rejected merge goes back to where the work was written.

use std::borrow::Cow;

use glasshouse_model::body::{ExemptionDecided, TestEvidence, WorkflowTransitioned};
use glasshouse_model::{Mode, State as Workflow};

use super::State;

fn to(from: Workflow, to: Workflow, because: impl Into<String>) -> Option<WorkflowTransitioned> {
    (from != to).then(|| WorkflowTransitioned { from, to, because: because.into() })
}

/// Whether the work is strict and all of it exempt: no test was seen failing that permits sources.
fn is_exempt(state: &State) -> bool {
    state.mode() == Mode::Strict && state.exemption.is_some() && state.red.is_none()
}

/// Where work is written in the mode in force.
fn writing(state: &State) -> Workflow {
    match state.mode() {
        Mode::Strict if is_exempt(state) => Workflow::Exploring,
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
        (
            Mode::Strict,
            Workflow::Planning | Workflow::CodeWriting | Workflow::Exploring | Workflow::Reviewing,
        ) => Workflow::TestWriting,
        (Mode::Explore | Mode::Debug, Workflow::Planning) => Workflow::Exploring,
        (Mode::Explore | Mode::Debug, Workflow::Reviewing) => Workflow::RetroactiveTesting,
        _ => return None,
    };
    to(state.workflow(), next, "plan.complete")
}

/// A request for an exemption was decided; `state` already holds what came of it.
#[must_use]
pub fn on_exemption_decided(
    state: &State,
    decided: &ExemptionDecided,
) -> Option<WorkflowTransitioned> {
    let exemption = state.exemption.as_ref().filter(|_| decided.granted)?;
    to(state.workflow(), Workflow::Exploring, format!("exempt: {}", exemption.category))
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
        Workflow::Validating
            if (state.mode() != Mode::Strict || is_exempt(state)) && had_none(state, evidence) =>
        {
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
pub fn writable(state: &State) -> Cow<'static, str> {
    if let Some(confines) = state.confines() {
        let paths: Vec<_> = confines.paths.iter().map(ToString::to_string).collect();
        return format!("only what is exempt, while it is: {}", paths.join(", ")).into();
    }
    let words = match state.workflow() {
        Workflow::TestWriting | Workflow::RetroactiveTesting => "test files only",
        Workflow::CodeWriting => "source files only; tests are read-only",
        Workflow::Exploring => "every file that the policy allows",
        _ => "nothing",
    };
    words.into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use glasshouse_model::{CallId, Digest, ExemptionCategory};

    use super::*;
    use crate::session::SealRecord;
    use crate::session::exemption::Exemption;

    /// Letters for the states.
    const STATES: &[(char, Workflow)] = &[
        ('i', Workflow::Idle),
        ('p', Workflow::Planning),
        ('t', Workflow::TestWriting),
        ('c', Workflow::CodeWriting),
        ('v', Workflow::Validating),
        ('r', Workflow::Reviewing),
        ('k', Workflow::Committing),
        ('e', Workflow::Exploring),
        ('a', Workflow::RetroactiveTesting),
    ];

    /// What may happen, in the order of the table's columns.
    #[derive(Debug, Clone, Copy)]
    enum Happens {
        Message,
        Plan,
        Exempt,
        /// Tests start; sources, or tests alone, are changed.
        Start(bool),
        /// A run ended: it ran, it passed, with this status.
        Ran(bool, bool, i32),
        NoEvidence,
        Rejected,
        Merged,
    }
    const COLUMNS: [Happens; 12] = [
        Happens::Message,
        Happens::Plan,
        Happens::Exempt,
        Happens::Start(true),
        Happens::Start(false),
        Happens::Ran(true, true, 0),
        Happens::Ran(true, false, 1),
        Happens::Ran(false, false, 0),
        Happens::Ran(false, false, 127),
        Happens::NoEvidence,
        Happens::Rejected,
        Happens::Merged,
    ];

    fn moved(mut state: State, happens: Happens) -> Option<WorkflowTransitioned> {
        match happens {
            Happens::Message => on_message(&state),
            Happens::Plan => on_plan_complete(&state),
            Happens::Exempt => {
                let granted = state.exemption.is_some();
                let (approver, expires_us) = (None, None);
                let decided = ExemptionDecided { request: 1, granted, approver, expires_us };
                on_exemption_decided(&state, &decided)
            }
            Happens::Start(sources_changed) => {
                let blob = glasshouse_model::body::BlobRef { blob: Digest::ZERO, bytes: 0 };
                state.seal =
                    Some(SealRecord { manifest: blob, tests_changed: true, sources_changed });
                on_tests_started(&state)
            }
            Happens::Ran(ran, passed, exit_code) => {
                let evidence = TestEvidence {
                    call: CallId(1),
                    passed,
                    ran,
                    exit_code,
                    tests: Digest::ZERO,
                    sources: Digest::ZERO,
                    tests_changed: true,
                    sources_changed: true,
                    earlier_exit_code: None,
                    coverage: None,
                };
                // What folding makes of a test that fails while tests are written.
                if state.workflow() == Workflow::TestWriting && ran && !passed {
                    state.red = Some(1);
                }
                on_evidence(&state, &evidence)
            }
            Happens::NoEvidence => on_tests_ended(&state),
            Happens::Rejected => on_merge_rejected(&state),
            Happens::Merged => on_branch_merged(&state),
        }
    }

    /// Every column of nine rows, each of one state.
    fn check(mode: Mode, exempt: bool, red: bool, rows: [&str; 9]) {
        for row in rows {
            let (from, row) = row.split_once(": ").unwrap();
            let from = STATES.iter().find(|(letter, _)| from.starts_with(*letter)).unwrap().1;
            let exemption = exempt.then(|| Exemption {
                request: 1,
                category: ExemptionCategory::Documentation,
                paths: BTreeSet::new(),
                expires_us: 1,
            });
            let state = State {
                mode: Some(mode),
                workflow: Some(from),
                exemption,
                red: red.then_some(1),
                ..State::default()
            };
            let found: String = COLUMNS
                .into_iter()
                .map(|happens| match moved(state.clone(), happens) {
                    None => "-".to_owned(),
                    Some(moved) => {
                        assert_eq!(moved.from, from);
                        let to = STATES.iter().find(|(_, state)| *state == moved.to).unwrap();
                        to.0.to_string()
                    }
                })
                .collect::<Vec<_>>()
                .join(" ");
            assert_eq!(found, row, "{mode} exempt {exempt} red {red} in {from}");
        }
    }

    /// Every state and every happening: the letter of the next state, `-` where nothing moves.
    #[test]
    fn every_state_moves_as_the_table_says() {
        // Columns: message, plan, exempt; tests start on sources, on tests; they pass, fail, there are none,
        // the runner is missing, no evidence; merge rejected, branch merged.
        let strict = [
            "idle: p - - - - - - - - - c p",
            "planning: - t - - - - - - - - c -",
            "test_writing: - - - - - - c - - - c -",
            "code_writing: - t - v - - - - - - - -",
            "validating: - - - - - r c c c c c c",
            "reviewing: - t - - - - - - - - c c",
            "k committing: - - - - - - - - - - c c",
            "exploring: - t - v v - - - - - c -",
            "a retroactive: - - - v v - - - - - c -",
        ];
        check(Mode::Strict, false, false, strict);
        let explored = [
            "idle: p - - - - - - - - - e p",
            "planning: - e - - - - - - - - e -",
            "test_writing: - - - - - - c - - - e -",
            "code_writing: - - - v - - - - - - e -",
            "validating: - - - - - r e r e e e e",
            "reviewing: - a - - - - - - - - e e",
            "k committing: - - - - - - - - - - e e",
            "exploring: - - - v v - - - - - - -",
            "a retroactive: - - - v v - - - - - e -",
        ];
        check(Mode::Explore, false, false, explored);
        check(Mode::Debug, false, false, explored);
        // Exempt work without a test that failed goes back to exploring; it never comes to sources.
        let exempt = [
            "idle: p - e - - - - - - - e p",
            "planning: - t e - - - - - - - e -",
            "test_writing: - - e - - - c - - - e -",
            "code_writing: - t e v - - - - - - e -",
            "validating: - - e - - r e r e e e e",
            "reviewing: - t e - - - - - - - e e",
            "k committing: - - e - - - - - - - e e",
            "exploring: - t - v v - - - - - - -",
            "a retroactive: - - e v v - - - - - e -",
        ];
        check(Mode::Strict, true, false, exempt);
        // Once a new test failed, sources are written as ever, and a project without tests proves nothing.
        let red = [
            "idle: p - e - - - - - - - c p",
            "planning: - t e - - - - - - - c -",
            "test_writing: - - e - - c c c c - c -",
            "code_writing: - t e v - - - - - - - -",
            "validating: - - e - - r c c c c c c",
            "reviewing: - t e - - - - - - - c c",
            "k committing: - - e - - - - - - - c c",
            "exploring: - t - v v - - - - - c -",
            "a retroactive: - - e v v - - - - - c -",
        ];
        check(Mode::Strict, true, true, red);
    }

    /// What a model is told it may write is what it may.
    #[test]
    fn what_is_writable_is_told() {
        let check = |mode: Mode, workflow: Workflow, told: &str| {
            let state = State { mode: Some(mode), workflow: Some(workflow), ..State::default() };
            assert!(writable(&state).contains(told), "{mode} {workflow}: {}", writable(&state));
        };
        check(Mode::Strict, Workflow::TestWriting, "test files only");
        check(Mode::Strict, Workflow::CodeWriting, "source files only");
        check(Mode::Strict, Workflow::Planning, "nothing");
        check(Mode::Strict, Workflow::Exploring, "only what is exempt");
        check(Mode::Explore, Workflow::Exploring, "every file that the policy allows");
        check(Mode::Explore, Workflow::RetroactiveTesting, "test files only");
    }
}
