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

/// The failure: a tab was told in the line before it, and each fault had the advice about anchors and aliases.
/// Now: each kind has its own place and its own advice.
#[test]
fn each_fault_of_syntax_has_its_own_place_and_advice() {
    let told = |text: &str, line: u64, column: u64, fix: &str| {
        check(text, "policy_syntax", line, column, &[]);
        assert_eq!(compile(text).unwrap_err().report().fix, fix, "{text}");
    };
    let tab = |text: &str, line: u64, column: u64| {
        told(text, line, column, "indent with spaces");
        assert_eq!(compile(text).unwrap_err().report().why, "a tab in the indentation");
        compile(&text.replace('\t', "    ")).expect("the control: spaces in its place");
    };
    tab("version: 1\ncapabilities:\n  - name: a\n\tmatch: {}\n    action: deny\n", 4, 1);
    tab("capabilities:\n\t- { name: a, match: {}, action: deny }\n", 2, 1);
    tab("capabilities:\n  - name: a\n    match:\n    \tsyscall: x.y\n    action: deny\n", 4, 5);
    tab("capabilities:\n  - { name: a, match: {},\n\taction: deny }\n", 3, 1);
    tab("capabilities:\n  - name: 'a'\n\tmatch: {}\n    action: deny\n", 3, 1);
    tab("capabilities:\n  - name: a # b\n\tmatch: {}\n    action: deny\n", 3, 1);
    tab("capabilities: [\n\t{ name: a, match: {}, action: deny }\n]\n", 2, 1);
    // A tab in a quoted text, behind a colon and in an empty line is no fault.
    compile(
        "capabilities:\n  - name:\ta\n    reason: 'b\n\tc'\n\t\n    match: {}\n    action: deny\n",
    )
    .unwrap();
    let rule = |reason: &str| {
        format!(
            "capabilities:\n  - name: a\n    match: {{}}\n    action: deny\n    reason: {reason}\n"
        )
    };
    for (reason, column, fix) in [
        ("note: x", 17, "quote the text"),
        ("a b: c: d", 16, "quote the text"),
        ("\"x", 13, "close the quote, or remove it"),
        ("'x", 13, "close the quote, or remove it"),
        ("'it's'", 17, "write a quote inside single quotes twice ('it''s'), or use double quotes"),
        ("\"a\"b\"", 16, "write a quote inside double quotes as \\\", or use single quotes"),
        ("@x", 13, "quote a text that begins so"),
        ("`x`", 13, "quote a text that begins so"),
        ("%x", 13, "quote a text that begins so"),
        ("[a", 13, "close the bracket; quote a text that begins with one"),
        ("a\n    actoin", 5, "write a colon and a blank behind the key"),
        (
            "\"a\\q\"",
            13,
            "write a backslash inside double quotes as \\\\, or use single quotes, in which it is itself",
        ),
    ] {
        told(&rule(reason), if reason.contains('\n') { 6 } else { 5 }, column, fix);
    }
    told("capabilities:\n  - { name: a, reason: note: x, match: {} }\n", 2, 28, "quote the text");
    let alike = "indent the key like the others of its map";
    told("capabilities:\n  - name: a\n      match: {}\n", 3, 12, alike);
    told("version: 1\n\nversion: 1\n", 3, 1, "remove one of the two; the first is in line 1");
    told(
        "capabilities:\n  - name: a\n    match:\n      host: a.test\n      port: 1\n      host: b.test\n",
        6,
        7,
        "remove one of the two; the first is in line 4",
    );
    // The control: what anchors and their like were told is told of them.
    let marks = "correct the YAML at the place named; tags, anchors, aliases and merge keys are not accepted";
    told("capabilities: &x []\n", 1, 15, marks);
    told("version: 1\n---\nversion: 1\n", 2, 1, marks);
    told("capabilities:\n  - <<: { name: a }\n", 2, 5, marks);
    compile(&rule("'note: x'")).unwrap();
    compile(&rule("it's a:b")).unwrap();
}
