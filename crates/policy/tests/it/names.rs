//! Names of rules: each of them is one to the eye.

use crate::support::compile;

/// A policy of one rule.
fn rule(text: &str) -> String {
    format!("capabilities:\n  - {text}\n")
}

/// Two names could look the same and be two rules: of other letters, with something that nobody sees, with
/// a blank behind. Decisions and logs name rules, so a person has to be able to tell one from another.
#[test]
fn regression_names_that_look_alike_are_refused() {
    let named = |name: &str| {
        compile(&rule(&format!(
            "{{ name: {}, match: {{}}, action: deny }}",
            serde_json::json!(name)
        )))
    };
    for name in ["no-writes", "No writes (2)", "a_b.c/d:e", "~"] {
        assert!(named(name).is_ok(), "{name}");
    }
    for (name, why) in [
        ("n\u{43e}-writes", "U+043E"),
        ("no-\u{200b}writes", "U+200B"),
        ("no-writes\u{202e}", "U+202E"),
        ("pru\u{308}fung", "U+0308"),
        ("pr\u{fc}fung", "U+00FC"),
        ("no\u{a0}writes", "U+00A0"),
        ("no\u{2010}writes", "U+2010"),
        ("no\twrites", "U+0009"),
        ("no-writes ", "blanks"),
        (" no-writes", "blanks"),
        ("no  writes", "blanks"),
    ] {
        let error = named(name).unwrap_err();
        assert_eq!(error.code(), "policy_bad_value", "{name:?}");
        assert!(error.report().why.contains(why), "{error}");
    }
    let twice = format!(
        "{}{}",
        rule("{ name: no-writes, match: {}, action: deny }"),
        "  - { name: No-Writes, match: {}, action: deny }\n"
    );
    assert_eq!(compile(&twice).unwrap_err().code(), "policy_duplicate_rule");
    let built_in = rule("{ name: Protect-Git, match: {}, action: deny }");
    assert_eq!(compile(&built_in).unwrap_err().code(), "policy_duplicate_rule");
    let group = compile("network_whitelist: { \"d\u{43e}cs\": [a.test] }").unwrap_err();
    assert_eq!(group.code(), "policy_bad_value");
}
