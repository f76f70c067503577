//! The conformance cases, in `tests/cases`: what another implementation of the contract answers,
//! and in `tests/deviations.json` where and why this product answers otherwise.

#[path = "../../examples/conformance/suite.rs"]
mod suite;

const DEVIATIONS: &str = include_str!("../deviations.json");

fn check(area: &str, cases: &str, least: usize) {
    let outcome = suite::run(cases, DEVIATIONS, None).unwrap();
    let failed: Vec<String> = outcome
        .failed
        .iter()
        .map(|case| format!("{}: got {}, want {}", case.id, case.got, case.want))
        .collect();
    assert!(failed.is_empty(), "{area}:\n{}", failed.join("\n"));
    assert!(outcome.passed >= least, "{area}: only {} cases", outcome.passed);
}

macro_rules! areas {
    ($($name:ident: $least:literal;)*) => {$(
        #[test]
        fn $name() {
            let cases = include_str!(concat!("../cases/", stringify!($name), ".json"));
            check(stringify!($name), cases, $least);
        }
    )*};
}

areas! {
    guard: 270;
    path: 200;
    interpolation: 50;
    state: 60;
    early: 7;
    normalize: 100;
    policy: 1000;
    render: 700;
    execute: 50;
    modules: 90;
    codegen: 40;
    misc: 4;
}

/// Without the records the same cases fail, so each of them is compared.
#[test]
fn without_deviations_the_differences_are_failures() {
    let with = suite::run(include_str!("../cases/render.json"), DEVIATIONS, None).unwrap();
    let without = suite::run(include_str!("../cases/render.json"), "{}", None).unwrap();
    let explained: usize = with.by_rule.values().sum();
    assert!(explained > 20);
    assert_eq!(without.failed.len(), explained);
}

/// A rule that explains no case may be a rule nobody needs.
#[test]
fn every_deviation_explains_a_case() {
    let files = [
        include_str!("../cases/path.json"),
        include_str!("../cases/interpolation.json"),
        include_str!("../cases/state.json"),
        include_str!("../cases/early.json"),
        include_str!("../cases/policy.json"),
        include_str!("../cases/render.json"),
        include_str!("../cases/execute.json"),
    ];
    let records: serde_json::Value = serde_json::from_str(DEVIATIONS).unwrap();
    let mut idle = Vec::new();
    for kind in ["stricter", "rules"] {
        for name in records[kind].as_object().unwrap().keys() {
            let mut fewer = records.clone();
            fewer[kind].as_object_mut().unwrap().remove(name);
            let fewer = fewer.to_string();
            let fails = |file: &&str| !suite::run(file, &fewer, None).unwrap().failed.is_empty();
            if !files.iter().any(fails) {
                idle.push(name.clone());
            }
        }
    }
    assert!(idle.is_empty(), "{idle:?}");
}

#[test]
fn a_broken_file_is_an_error_and_a_broken_case_a_failure() {
    assert!(suite::run("{}", "{}", None).is_err());
    assert!(
        suite::run("[]", "{\"rules\": {\"x\": {\"cites\": \"\", \"why\": \"\"}}}", None).is_err()
    );
    let outcome =
        suite::run("[{\"id\": \"a\",}, {\"id\": \"b\", \"input\": {\"op\": \"new\"}}]", "{}", None);
    let outcome = outcome.unwrap();
    assert_eq!((outcome.failed.len(), outcome.skipped.len()), (1, 1));
}
