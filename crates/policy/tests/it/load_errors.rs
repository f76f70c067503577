//! What does not load, and how the error says so.

use glasshouse_policy::{Policy, Protected, Source, codes, limits};

use crate::support::{ALLOW_ALL, compile, compile_with};

/// Expects an error of a code at a place, with the words in its report.
pub(crate) fn check(text: &str, code: &str, line: u64, column: u64, words: &[&str]) {
    let error = compile(text).expect_err(text);
    let report = error.report();
    let all = format!("{} {} {}", report.what, report.why, report.fix);
    assert_eq!(report.code, code, "{all}");
    assert_eq!(report.context["source"], "policy.yaml", "{all}");
    assert_eq!(
        (&report.context["line"], &report.context["column"]),
        (&line.into(), &column.into()),
        "{all}"
    );
    for word in words {
        assert!(all.contains(word), "`{word}` is not in: {all}");
    }
}

/// A policy of one rule, whose text begins in line 2, column 5.
pub(crate) fn rule(text: &str) -> String {
    format!("capabilities:\n  - {text}\n")
}

#[test]
fn unknown_keys_name_place_and_suggestion() {
    check(
        "capabilites: []",
        "policy_unknown_key",
        1,
        1,
        &["`capabilites`", "did you mean `capabilities`?"],
    );
    check(
        "version: 1\nrules: []",
        "policy_unknown_key",
        2,
        1,
        &["known keys are version, capabilities", "did you mean `capabilities`?"],
    );
    check(
        &rule("{ name: a, mach: {}, action: allow }"),
        "policy_unknown_key",
        2,
        16,
        &["did you mean `match`?"],
    );
    check(
        &rule("{ name: a, match: { sycall: fs.read }, action: allow }"),
        "policy_unknown_key",
        2,
        25,
        &["`sycall`", "did you mean `syscall`?"],
    );
    check(
        &rule("{ name: a, match: {}, action: deny, except: [{ path-glob: x }] }"),
        "policy_unknown_key",
        2,
        52,
        &["did you mean `path_glob`?"],
    );
    check(
        &rule("{ name: a, match: {}, action: allow, constraints: { max_file_sze: 1 } }"),
        "policy_unknown_key",
        2,
        57,
        &["did you mean `max_file_size`?"],
    );
    check(
        &rule("{ name: a, match: {}, action: allow, examples: { matches: [] } }"),
        "policy_unknown_key",
        2,
        54,
        &["`match`"],
    );
}

/// Values that nothing has load no rule: it would never match, and nobody would be told.
#[test]
fn values_that_nothing_has() {
    check(
        &rule("{ name: a, match: {}, action: review }"),
        "policy_bad_value",
        2,
        35,
        &["did you mean `require_review`?"],
    );
    check(
        &rule("{ name: a, match: { caller: 'plugin:*' }, action: deny }"),
        "policy_bad_value",
        2,
        33,
        &["wildcard", "the kind alone"],
    );
    for (key, column) in [("tenant", 33), ("plugin", 33), ("method", 33), ("caller_tag", 37)] {
        for value in ["'a '", "'GET,POST'", "'a b'"] {
            let text = rule(&format!("{{ name: a, match: {{ {key}: {value} }}, action: deny }}"));
            check(&text, "policy_bad_value", 2, column, &["a blank or a comma", "as a list"]);
        }
    }
}

#[test]
fn missing_keys_and_wrong_values() {
    check(&rule("{ match: {}, action: allow }"), "policy_missing_key", 2, 5, &["`name`"]);
    check(&rule("{ name: a, action: allow }"), "policy_missing_key", 2, 5, &["`match`"]);
    check(&rule("{ name: a, match: {} }"), "policy_missing_key", 2, 5, &["`action`"]);
    check(
        &rule("{ name: a, match: {}, action: alow }"),
        "policy_bad_value",
        2,
        35,
        &["did you mean `allow`?"],
    );
    check(
        &rule("{ name: a, match: [], action: allow }"),
        "policy_bad_value",
        2,
        23,
        &["a map", "found a list"],
    );
    check(&rule("{ name: 7, match: {}, action: allow }"), "policy_bad_value", 2, 13, &["quote it"]);
    check(
        &rule("{ name: '', match: {}, action: allow }"),
        "policy_bad_value",
        2,
        13,
        &["empty text"],
    );
    check(
        &rule("{ name: a, match: { tenant: true }, action: allow }"),
        "policy_bad_value",
        2,
        33,
        &["quote it"],
    );
    check(
        &rule("{ name: a, match: { state_machine_state: test_writting }, action: deny }"),
        "policy_bad_value",
        2,
        46,
        &["did you mean `test_writing`?"],
    );
    check(
        &rule("{ name: a, match: { caller: agnet }, action: deny }"),
        "policy_bad_value",
        2,
        33,
        &["did you mean `agent`?"],
    );
    check(
        &rule("{ name: a, match: { caller: 'plugin:' }, action: deny }"),
        "policy_bad_value",
        2,
        33,
        &["empty name"],
    );
    check(
        &rule("{ name: a, match: { syscall: 'fs.*' }, action: deny }"),
        "policy_bad_value",
        2,
        34,
        &["compared exactly"],
    );
    check(
        &rule("{ name: a, match: { tenant: 'a*' }, action: deny }"),
        "policy_bad_value",
        2,
        33,
        &["wildcard"],
    );
    check(
        &rule("{ name: a, match: { host: 'https://a.org' }, action: deny }"),
        "policy_bad_value",
        2,
        31,
        &["without scheme"],
    );
    check(
        &rule("{ name: a, match: { port: 70000 }, action: deny }"),
        "policy_bad_value",
        2,
        31,
        &["from 1 to 65535"],
    );
    check(
        &rule("{ name: a, match: { http_path: 'x' }, action: deny }"),
        "policy_bad_value",
        2,
        36,
        &["begins with `/`"],
    );
    check(
        &rule("{ name: a, match: { argv_prefix: '  ' }, action: deny }"),
        "policy_bad_value",
        2,
        38,
        &["every command"],
    );
    check(
        &rule("{ name: a, match: {}, action: deny, except: [{}] }"),
        "policy_bad_value",
        2,
        50,
        &["every call"],
    );
    check(
        &rule("{ name: a, match: {}, action: deny, constraints: { max_file_size: 1 } }"),
        "policy_bad_value",
        2,
        54,
        &["denies"],
    );
    check(
        &rule("{ name: a, match: {}, action: allow, constraints: { require_sandbox: '../x' } }"),
        "policy_bad_value",
        2,
        74,
        &["template"],
    );
    check(
        &rule(
            "{ name: a, match: {}, action: allow, constraints: { require_capability_token: 'yes' } }",
        ),
        "policy_bad_value",
        2,
        83,
        &["true or false"],
    );
    check("version: 2\n", "policy_version_unsupported", 1, 10, &["version 1"]);
    check("version: '1'\n", "policy_version_unsupported", 1, 10, &[]);
    check("network_whitelist: { docs: ['a b'] }", "policy_bad_value", 1, 29, &["`a b`"]);
}

#[test]
fn demands_on_interfaces() {
    check(
        &rule("{ name: a, match: {}, action: allow, constraints: { ui_profile: careful } }"),
        "policy_bad_value",
        2,
        69,
        &["balanced"],
    );
    check(
        &rule(
            "{ name: a, match: {}, action: allow, constraints: { ui_limits: { max_nodes: 1 } } }",
        ),
        "policy_unknown_key",
        2,
        70,
        &["max_node_count"],
    );
    check(
        &rule("{ name: a, match: {}, action: allow, constraints: { ui_hosts: ['https://x/'] } }"),
        "policy_bad_value",
        2,
        68,
        &["no host"],
    );
}

#[test]
fn units_and_patterns() {
    check(
        &rule("{ name: a, match: {}, action: allow, constraints: { max_file_size: 10Kib } }"),
        "policy_bad_unit",
        2,
        72,
        &["`Kib`", "KiB"],
    );
    check(
        &rule("{ name: a, match: {}, action: allow, constraints: { max_duration: 30 } }"),
        "policy_bad_unit",
        2,
        71,
        &["no unit"],
    );
    for (pattern, word) in [
        ("./src", "`.` never matches"),
        ("a/../b", "`..` never matches"),
        ("a//b", "empty path component"),
        ("src/**x", "stands alone"),
        ("[a", "never closed"),
        ("{a,b", "never closed"),
        ("!src", "only patterns with `!`"),
    ] {
        let text =
            rule(&format!("{{ name: a, match: {{ path_glob: '{pattern}' }}, action: deny }}"));
        check(&text, "policy_bad_glob", 2, 36, &[word]);
    }
}

#[test]
fn broken_yaml() {
    check("capabilities: [", "policy_syntax", 1, 15, &["unclosed"]);
    check("version: 1\nversion: 1\n", "policy_syntax", 2, 1, &["version"]);
    for text in [
        "a: &x 1\nb: *x\n",
        "capabilities: &x []\n",
        "capabilities:\n  - <<: { name: a }\n",
        "version: 1\n---\nversion: 1\n",
    ] {
        assert_eq!(compile(text).expect_err(text).code(), "policy_syntax", "{text}");
    }
    let deep = "[".repeat(200) + &"]".repeat(200);
    assert_eq!(compile(&deep).unwrap_err().code(), "policy_syntax");
    assert_eq!(compile("just text").unwrap_err().code(), "policy_bad_value");
    for empty in ["", "# nothing\n", "version: 1\n", "capabilities:\n", "network_whitelist:\n"] {
        assert!(compile(empty).is_ok(), "{empty:?}");
    }
}

#[test]
fn failing_examples_refuse_the_file() {
    check(
        &rule(
            "{ name: a, match: { path_glob: 'a/**' }, action: allow, examples: { match: [{ syscall: x, path: b/c }] } }",
        ),
        "policy_example_failed",
        2,
        81,
        &["`a`", "does not match it, and should: `path_glob` does not hold, its `path` is `b/c`"],
    );
    check(
        &rule(
            "{ name: a, match: { path_glob: 'a/**' }, action: allow, examples: { not_match: [{ syscall: x, path: a/c }] } }",
        ),
        "policy_example_failed",
        2,
        85,
        &["and should not"],
    );
    // All of a rule are told at once.
    check(
        "capabilities:\n- name: a\n  match: { path_glob: 'a/**' }\n  action: allow\n  examples:\n    match:\n    - { syscall: x, path: b/c }\n    - { syscall: x, path: a/b }\n    - { syscall: x, path: c/c }\n    not_match: [{ syscall: x, path: a/c }]\n",
        "policy_example_failed",
        7,
        7,
        &["its `path` is `b/c`; nor do its examples at lines 9, 10 hold"],
    );
    // An example sees the excepts too.
    check(
        &rule(
            "{ name: a, match: {}, action: deny, except: [{ caller: kernel }], examples: { match: [{ syscall: x, caller: kernel }] } }",
        ),
        "policy_example_failed",
        2,
        91,
        &["item 1 of `except` lifts it"],
    );
    check(
        &rule("{ name: a, match: {}, action: deny, examples: { match: [{ sycall: x }] } }"),
        "policy_unknown_key",
        2,
        63,
        &["sycall", "did you mean `syscall`?"],
    );
    check(
        &rule(
            "{ name: a, match: {}, action: deny, examples: { match: [{ syscall: x, path: ../a }] } }",
        ),
        "policy_bad_value",
        2,
        61,
        &["climbs out"],
    );
}

#[test]
fn names_are_unique_over_all_sources() {
    let twice = "capabilities:\n  - { name: a, match: {}, action: deny }\n  - { name: a, match: {}, action: deny }\n";
    assert_eq!(compile(twice).unwrap_err().code(), "policy_duplicate_rule");
    let built_in = rule("{ name: protect-git, match: {}, action: allow }");
    assert_eq!(compile(&built_in).unwrap_err().code(), "policy_duplicate_rule");
    let sources = [Source::new("one", ALLOW_ALL), Source::new("two", ALLOW_ALL)];
    let error = Policy::compile(&sources, &Protected::default()).unwrap_err();
    assert_eq!(error.code(), "policy_duplicate_rule");
    assert_eq!(error.report().why, "the rule at one:3 has that name");
    assert!(error.report().what.starts_with("two:3:5: rule"), "{}", error.report().what);
    let two = |first: &str, second: &str| {
        let rule = |name: &str| format!("  - {{ name: {name}, match: {{}}, action: deny }}\n");
        format!("capabilities:\n{}{}", rule(first), rule(second))
    };
    let place = "the rule at policy.yaml:2 has";
    for (second, line, why) in [
        ("a", 3, format!("{place} that name")),
        ("A", 3, format!("{place} the name `a`, and capitals do not count")),
        ("protect-git", 3, "a built-in rule has that name".to_owned()),
        (
            "Protect-Git",
            3,
            "a built-in rule has the name `protect-git`, and capitals do not count".to_owned(),
        ),
    ] {
        let text = two("a", second);
        check(&text, "policy_duplicate_rule", line, 5, &[]);
        assert_eq!(compile(&text).unwrap_err().report().why, why, "{second}");
    }
    compile(&two("a", "b")).expect("the control");
}

#[test]
fn limits_hold() {
    let check = |text: &str| {
        assert_eq!(compile(text).unwrap_err().code(), "policy_limit", "{} bytes", text.len());
    };
    check(&"#".repeat(limits::MAX_SOURCE_BYTES + 1));
    let list = |n: usize| (0..n).map(|n| format!("x{n}")).collect::<Vec<_>>().join(",");
    let items = limits::MAX_LIST_ITEMS + 1;
    check(&rule(&format!("{{ name: a, match: {{ label: [{}] }}, action: deny }}", list(items))));
    check(&rule(&format!(
        "{{ name: {}, match: {{}}, action: deny }}",
        "n".repeat(limits::MAX_NAME_BYTES + 1)
    )));
    check(&rule(&format!(
        "{{ name: a, reason: {}, match: {{}}, action: deny }}",
        "n".repeat(limits::MAX_REASON_BYTES + 1)
    )));
    let excepts = "{ caller: user },".repeat(limits::MAX_EXCEPTS + 1);
    check(&rule(&format!("{{ name: a, match: {{}}, action: deny, except: [{excepts}] }}")));
    let examples = "{ syscall: x },".repeat(limits::MAX_EXAMPLES + 1);
    check(&rule(&format!(
        "{{ name: a, match: {{}}, action: deny, examples: {{ match: [{examples}] }} }}"
    )));
    let mut many = String::from("capabilities:\n");
    for n in 0..=limits::MAX_RULES {
        many.push_str(&format!("- {{name: r{n}, match: {{}}, action: deny}}\n"));
    }
    check(&many);
    let group = list(limits::MAX_LIST_ITEMS);
    let mut patterns = String::from("capabilities:\n");
    for n in 0..=limits::MAX_PATTERNS / limits::MAX_LIST_ITEMS {
        patterns.push_str(&format!(
            "- {{name: r{n}, match: {{path_glob: [{group}]}}, action: deny}}\n"
        ));
    }
    check(&patterns);
    // A file of patterns like these took seconds for each decision.
    let starred = |more: usize| {
        let count = limits::MAX_STARRED_CHARS / 500 + more;
        let globs = (0..count).map(|n| format!("'*{}{n:05}*'", "a".repeat(493)));
        let globs = globs.collect::<Vec<_>>().join(", ");
        format!("capabilities: [{{ name: a, match: {{ path_glob: [{globs}] }}, action: deny }}]\n")
    };
    assert!(compile(&starred(0)).is_ok());
    check(&starred(1));
    let sources = vec![Source::new("s", ""); limits::MAX_SOURCES + 1];
    let error = Policy::compile(&sources, &Protected::default()).unwrap_err();
    assert!(error.is(codes::LIMIT));
}

#[test]
fn protected_paths_have_to_be_absolute() {
    for path in ["", "/", "home", "/a/../b", "./a", "/a\0"] {
        for protected in [
            Protected { host_paths: vec![path.into()], ..Protected::default() },
            Protected { program_paths: vec![path.into()], ..Protected::default() },
        ] {
            let error = compile_with("", &protected).expect_err(path);
            assert_eq!(error.code(), "policy_protected_path", "{path:?}");
        }
    }
}

/// A rule about a syscall that is none would never speak, and whoever wrote it would not know. Names of
/// tools that others bring are theirs.
#[test]
fn a_rule_names_a_syscall_that_there_can_be() {
    let check = |name: &str, meant: Option<&str>| {
        let text =
            rule(&format!("{{ name: a, match: {{ syscall: [fs.read, {name}] }}, action: deny }}"));
        let error = compile(&text).unwrap_err().report();
        assert_eq!(error.code, "policy_bad_value", "{name}");
        assert_eq!((&error.context["line"], &error.context["column"]), (&2.into(), &44.into()));
        let suggestion = error.context.get("suggestion").and_then(|word| word.as_str());
        assert_eq!(suggestion, meant, "{name}: {error:?}");
    };
    check("fs.wirte", Some("fs.write"));
    check("fs.writes", Some("fs.write"));
    check("ffs.write", Some("fs.write"));
    check("FS.write", Some("fs.write"));
    check("fs:write", Some("fs.write"));
    check("web.fetch", Some("net.connect"));
    check("workflow.request_exemptions", Some("workflow.request_exemption"));
    // Nothing near, in a namespace of ours or in none.
    check("fs.chmod_everything", None);
    check("policy.replace_it_all", None);
    check("anything", None);
    for name in
        ["mcp.weather", "mcp:tickets/read", "linter/check", "deploy.run", "x.y", "grant.issue"]
    {
        compile(&rule(&format!("{{ name: a, match: {{ syscall: {name} }}, action: deny }}")))
            .unwrap();
    }
}

#[test]
fn warnings_say_what_is_odd() {
    let check = |text: &str, words: &[&str]| {
        let policy = compile(&rule(text)).unwrap();
        let found: Vec<&str> = policy.warnings().iter().map(|w| w.message.as_str()).collect();
        assert_eq!(found.len(), words.len(), "{found:?}");
        for (message, word) in found.iter().zip(words) {
            assert!(message.contains(word), "{message}");
        }
    };
    check("{ name: a, match: { path_glob: [] }, action: allow }", &["`path_glob` matches nothing"]);
    for (globs, says) in [
        ("['src/*', '!src/*']", true),
        ("['src/*', 'src/a', '!src/**']", true),
        ("['src/**', '!src/*']", false),
        ("['src/*', 'docs/*', '!src/*']", false),
    ] {
        let text = format!("{{ name: a, match: {{ path_glob: {globs} }}, action: deny }}");
        let words: &[&str] = if says { &["`path_glob` matches nothing"] } else { &[] };
        check(&text, words);
    }
    check("{ name: a, match: { label: [], host: [] }, action: deny }", &["label", "host"]);
    check(
        "{ name: a, match: { syscall: x.y }, action: deny, except: [{ host: [] }] }",
        &["lifts nothing"],
    );
    check(
        "{ name: a, match: { argv_prefix: rm }, action: deny, except: [{ argv_prefix: [rm] }] }",
        &["identical"],
    );
    check("{ name: a, match: {}, action: allow }", &["every call"]);
    let sandbox = |name: &str| {
        format!(
            "{{ name: a, match: {{ syscall: shell.run }}, action: allow, constraints: {{ require_sandbox: {name} }} }}"
        )
    };
    check(&sandbox("L3"), &["nothing runs in a sandbox `L3`"]);
    for name in ["L2", "code-executor", "integration-test"] {
        check(&sandbox(name), &[]);
    }
    check("{ name: a, match: { syscall: mcp.weather }, action: deny }", &[]);
}

#[test]
fn the_version_changes_with_everything_that_decides() {
    let version = |sources: &[(&str, &str)], protected: &Protected| {
        let sources: Vec<Source<'_>> =
            sources.iter().map(|(name, text)| Source::new(name, text)).collect();
        Policy::compile(&sources, protected).unwrap().version()
    };
    let none = Protected::default();
    let home = Protected { host_paths: vec!["/h".into()], ..Protected::default() };
    let program = Protected { program_paths: vec!["/h".into()], ..Protected::default() };
    let all = [
        version(&[], &none),
        version(&[], &home),
        version(&[], &program),
        version(&[("a", "")], &none),
        version(&[("a", ""), ("b", "")], &none),
        version(&[("a", "version: 1")], &none),
        version(&[("ab", "")], &none),
        version(&[("a", ALLOW_ALL)], &none),
    ];
    for (n, left) in all.iter().enumerate() {
        assert!(all[n + 1..].iter().all(|right| right != left), "{n}");
    }
    assert_eq!(version(&[("a", ALLOW_ALL)], &none), all[7]);
}

/// The failure: `*.com` in a list of hosts opened every host below it, and `*` the world.
#[test]
fn hosts_that_belong_to_anybody_are_not_opened() {
    for host in ["*", "*.com", "*.co.uk", "*.github.io", "*.0.0.1"] {
        let host = format!("'{host}'");
        check(
            &format!("network_whitelist: {{ all: [{host}] }}"),
            "policy_bad_value",
            1,
            28,
            &["opens too much"],
        );
        check(
            &rule(&format!("{{ name: a, match: {{ host: {host} }}, action: allow }}")),
            "policy_bad_value",
            2,
            31,
            &["opens too much"],
        );
        // Where matching more is stricter it is what one means.
        let deny = rule(&format!("{{ name: a, match: {{ host: {host} }}, action: deny }}"));
        compile(&deny).unwrap();
        check(
            &rule(&format!(
                "{{ name: a, match: {{ port: 1 }}, action: deny, except: [{{ host: {host} }}] }}"
            )),
            "policy_bad_value",
            2,
            67,
            &["opens too much"],
        );
    }
    check(
        &rule("{ name: a, match: { syscall: net.connect, port: 443 }, action: allow }"),
        "policy_bad_value",
        2,
        23,
        &["every host", "network_whitelist"],
    );
    for port in ["0", "65536", "x", "", "+1"] {
        check(
            &format!("network_whitelist: {{ all: ['a.test:{port}'] }}"),
            "policy_bad_value",
            1,
            28,
            &["from 1 to 65535"],
        );
    }
}

#[test]
fn secret_patterns_are_named_and_bounded() {
    let bad = "policy_bad_value";
    check("secret_patterns: []", bad, 1, 18, &["a map"]);
    check("secret_patterns: { 'a b': 'x{3}' }", bad, 1, 27, &["letters"]);
    check(&format!("secret_patterns: {{ {}: 'x{{3}}' }}", "n".repeat(65)), bad, 1, 87, &["64"]);
    check("secret_patterns: { a: [x] }", bad, 1, 23, &["a text"]);
    let long = "x".repeat(limits::MAX_SECRET_PATTERN_BYTES + 1);
    check(&format!("secret_patterns: {{ a: {long} }}"), "policy_limit", 1, 23, &["513", "512"]);
    let many: Vec<_> = (0..=limits::MAX_SECRET_PATTERNS).map(|n| format!("p{n}: x")).collect();
    let many = format!("secret_patterns: {{ {} }}", many.join(", "));
    check(&many, "policy_limit", 1, 18, &["65", "64"]);
    let found = compile("secret_patterns: { acme: 'acme_[a-z]{8}' }").unwrap();
    let [one] = found.secret_patterns() else { panic!("{:?}", found.secret_patterns()) };
    assert_eq!((one.name.as_str(), one.pattern.as_str(), one.line), ("acme", "acme_[a-z]{8}", 1));
}
