//! The cases of the format in which code runs, with the engine.

#![allow(dead_code, reason = "the runner of all cases uses the rest")]

#[path = "../../../plan/examples/conformance/suite.rs"]
mod suite;

#[path = "../../examples/conformance/coder.rs"]
mod coder;

const CASES: &str = include_str!("../../../plan/tests/cases/execute.json");
const DEVIATIONS: &str = include_str!("../../../plan/tests/deviations.json");

#[test]
fn every_case_of_execution_is_run_and_holds() {
    let place = coder::Place::start(env!("CARGO_BIN_EXE_glasshouse-scriptd").into()).unwrap();
    let code = |plan: &_, input| place.code(plan, input);
    let outcome = suite::run(CASES, DEVIATIONS, Some(&code)).unwrap();
    let failed: Vec<String> = outcome
        .failed
        .iter()
        .map(|case| format!("{}: got {}, want {}", case.id, case.got, case.want))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(outcome.skipped.is_empty(), "{:?}", outcome.skipped);
    let without = suite::run(CASES, DEVIATIONS, None).unwrap();
    let left_out: usize = without.skipped.values().sum();
    assert!(left_out >= 5 && outcome.passed == without.passed + left_out);
}
