//! What YAML has and a policy may not, told in words of ours.

use crate::load_errors::check;
use crate::support::compile;

/// What the library says to whoever programs with it is no help to whoever writes a file.
#[test]
fn no_words_of_the_library_are_told() {
    let texts = [
        "~: x",
        "? [a]\n: b",
        "? {a: b}\n: c",
        "a: {<<: {b: c}}",
        "[1, 2",
        "a: 'x",
        "\ta: b",
        "a: b: c",
        "{a: b, a: c}",
        "a: \"\\q\"",
        "%YAML 9.9\n---\na: b",
        "---\na\n---\nb",
        "a: 0x",
        "a: 1e999999",
        "a: .nan",
        "? \n: x",
    ];
    let deep = format!("a: {}", "[".repeat(40));
    for text in texts.into_iter().chain([deep.as_str()]) {
        let Err(error) = compile(text) else { continue };
        let report = error.report();
        let told = format!("{} {} {}", report.what, report.why, report.fix);
        for word in [
            "Option<",
            "Rust",
            "serde",
            "string scalar",
            "configured",
            "recursion",
            "String",
            "deserializ",
        ] {
            assert!(!told.contains(word), "{text:?}: {told}");
        }
    }
}

/// The failure: a number that is none was told to be a merge key.
#[test]
fn each_fault_is_told_as_what_it_is() {
    let check = |text: &str, why: &str| {
        let error = compile(text).unwrap_err();
        assert_eq!(error.code(), "policy_syntax", "{text}");
        assert!(error.report().why.contains(why), "{text}: {}", error.report().why);
    };
    for number in [".nan", ".NaN", ".inf", "-.inf", "+.INF", "1e999999"] {
        check(&format!("version: {number}"), "a number without a value");
        check(
            &format!("capabilities: [{{ name: r, match: {{ size_over: {number} }} }}]"),
            "a number without a value",
        );
    }
    check("a: {<<: {b: c}}", "a merge key");
    check("{a: b, a: c}", "stands twice");
    // The control: what is no number is a text.
    for text in ["nan", "inf", "'.nan'"] {
        assert_ne!(
            compile(&format!("version: {text}")).unwrap_err().code(),
            "policy_syntax",
            "{text}"
        );
    }
}

/// The failure: `action: !!binary YWxsb3c=` allowed, `!deny allow` too, and neither looks so to who accepts the file.
#[test]
fn no_value_has_a_tag() {
    let tag = "a tag (`!`): quote a text that begins so";
    let refused = |text: &str, line: u64, column: u64| {
        check(text, "policy_syntax", line, column, &[]);
        assert_eq!(compile(text).unwrap_err().report().why, tag, "{text}");
    };
    let rule =
        |action: &str| format!("capabilities:\n  - {{ name: r, match: {{}}, action: {action} }}\n");
    for action in [
        "!!binary YWxsb3c=",
        "!deny allow",
        "!!str allow",
        "! allow",
        "!<tag:x,1:y> allow",
        "!!null ''",
    ] {
        refused(&rule(action), 2, 35);
    }
    refused(
        "capabilities:\n  - { name: r, match: !!set { syscall: fs.read }, action: allow }\n",
        2,
        23,
    );
    refused("capabilities:\n  - { !x name: r, match: {}, action: allow }\n", 2, 7);
    refused("capabilities: !include other.yaml\n", 1, 15);
    refused("capabilities: !!seq []\n", 1, 15);
    refused("!!map\nversion: 1\n", 1, 1);
    refused("extension: !!str |\n  export function evaluate() {}\n", 1, 12);
    refused("secret_patterns: { a: !!binary eHh4 }\n", 1, 23);
    // The control: the same words as texts.
    compile(&rule("deny, reason: '!!binary YWxsb3c='")).unwrap();
    compile(&rule("deny, reason: is !important")).unwrap();
}

/// What the YAML reader says of itself is no help to whoever wrote the file: options of a library, names of
/// its types. The error tells what stands there.
#[test]
fn regression_yaml_errors_are_in_words_of_ours() {
    let check = |text: &str, line: u64, column: u64, why: &str| {
        check(text, "policy_syntax", line, column, &[]);
        assert_eq!(compile(text).unwrap_err().report().why, why);
    };
    let twice = "the key `action` stands twice in one map";
    check("capabilities:\n  - name: a\n    action: deny\n    action: allow\n", 4, 5, twice);
    check("version: 1\nversion: 1\n", 2, 1, "the key `version` stands twice in one map");
    let anchor = "an anchor (`&`): quote a text that begins so";
    check("capabilities: &x []\n", 1, 15, anchor);
    check("capabilities: &a\n  - { name: r, match: {}, action: deny }\n", 1, 15, anchor);
    check("version: 1\ncapabilities: *x\n", 2, 15, "an alias (`*`): quote a text that begins so");
}
