//! The strict workflow moves on evidence of the kernel alone.

use glasshouse_model::{Budget, State as Workflow};

use crate::simulation::Simulation;

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
enum Step {
    Plan,
    /// Seal: tests changed, sources changed.
    Seal(bool, bool),
    /// Test run: really ran, passed.
    Tests(bool, bool),
    /// An answer that only claims something.
    Claim(&'static str),
}
use Step::{Claim, Plan, Seal, Tests};

fn check(steps: &[Step], expected: Workflow) {
    let mut sim = Simulation::new(Budget::default());
    assert_eq!(sim.workflow(), Workflow::Planning, "a message starts the planning");
    for (number, step) in steps.iter().enumerate() {
        match step {
            Plan => {
                sim.call("plan.complete", r#"{"summary":"x"}"#);
            }
            Seal(tests, sources) => sim.seal(&format!("seal {number}"), *tests, *sources),
            Tests(ran, passed) => sim.test_run(*ran, *passed),
            Claim(text) => {
                sim.answer(text, &[]);
            }
        }
    }
    assert_eq!(sim.workflow(), expected, "{steps:?}");
}

#[test]
fn law_4_only_evidence_opens_the_next_state() {
    use Workflow::{CodeWriting, Planning, Reviewing, TestWriting};
    check(&[], Planning);
    check(&[Claim("All tests were written and fail.")], Workflow::Idle);
    check(&[Plan], TestWriting);
    // No red, no code.
    // Nothing was changed, so a claim ends the turn as an answer.
    check(&[Plan, Claim("The test fails as expected.")], Workflow::Idle);
    check(&[Plan, Tests(true, false)], TestWriting);
    check(&[Plan, Seal(true, false), Tests(true, true)], TestWriting);
    check(&[Plan, Seal(true, false), Tests(false, false)], TestWriting);
    check(&[Plan, Seal(false, true), Tests(true, false)], TestWriting);
    check(&[Plan, Seal(true, false), Tests(true, false)], CodeWriting);
    // No green on changed code, no review.
    let red = [Plan, Seal(true, false), Tests(true, false)];
    let after_red = |more: &[Step]| [&red[..], more].concat();
    check(&after_red(&[Tests(true, true)]), CodeWriting);
    check(&after_red(&[Seal(true, true), Tests(true, false)]), CodeWriting);
    check(&after_red(&[Seal(true, true), Tests(false, true)]), CodeWriting);
    check(&after_red(&[Seal(true, true), Tests(true, true)]), Reviewing);
    // Another cycle starts at its beginning.
    check(&after_red(&[Plan]), TestWriting);
    check(&after_red(&[Seal(true, true), Tests(true, true), Plan]), TestWriting);
}
