//! Files of tests, and the published schema.

use glasshouse_policy::{Suite, policy_schema};

use crate::support::compile;

const RULES: &str = "
capabilities:
  - { name: docs, match: { syscall: fs.write, path_glob: 'docs/**' }, action: allow }
  - { name: law, match: { syscall: fs.write, path_glob: 'docs/law/**' }, action: require_review }
";

#[test]
fn a_test_passes_by_decision_and_by_rules() {
    let check = |test: &str, passed: bool| {
        let text = format!("version: 1\ntests:\n  - {{ name: t, {test} }}\n");
        let suite = Suite::read("t.yaml", &text).unwrap();
        let tested = suite.run(&compile(RULES).unwrap());
        assert_eq!((tested[0].passed, tested[0].line), (passed, 3), "{tested:?}");
    };
    check("call: { syscall: fs.write, path: docs/a }, expect: allow", true);
    check("call: { syscall: fs.write, path: docs/a }, expect: deny", false);
    check("call: { syscall: fs.write, path: docs/law/a }, expect: require_review", true);
    check(
        "call: { syscall: fs.write, path: docs/law/a }, expect: require_review, rules: law",
        true,
    );
    check("call: { syscall: fs.write, path: docs/a }, expect: allow, rules: [docs, law]", false);
    check("call: { syscall: fs.write, path: a }, expect: deny, rules: default-deny", true);
}

#[test]
fn a_file_of_tests_is_read_strictly() {
    let check = |text: &str, code: &str| {
        assert_eq!(Suite::read("t.yaml", text).unwrap_err().code(), code, "{text}");
    };
    check("{}", "policy_missing_key");
    check("test: []", "policy_unknown_key");
    check("tests: [{ name: a, call: { syscall: x }, expects: deny }]", "policy_unknown_key");
    check("tests: [{ name: a, call: { syscall: x } }]", "policy_missing_key");
    check("tests: [{ name: a, call: { sycall: x }, expect: deny }]", "policy_unknown_key");
    check(
        "tests: [{ name: a, call: { syscall: x, path: ../a }, expect: deny }]",
        "policy_bad_value",
    );
    check("tests: [{ name: a, call: { syscall: x }, expect: denied }]", "policy_bad_value");
    check("tests: {", "policy_syntax");
}

/// The published schema is the one that the program prints. `GLASSHOUSE_REWRITE_GOLDEN=1` writes it anew.
#[test]
fn the_published_schema_is_current() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/policy.schema.json");
    let text = format!("{}\n", serde_json::to_string_pretty(&policy_schema()).unwrap());
    if std::env::var_os("GLASSHOUSE_REWRITE_GOLDEN").is_some() {
        std::fs::write(file, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), text);
}
