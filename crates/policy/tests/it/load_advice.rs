//! What an error of a policy file advises.

use glasshouse_policy::{CallSketch, Suite, codes};

use crate::load_errors::{check, rule};
use crate::support::compile;

/// The failure: a key beside its place was to be corrected or removed, and to remove `path_glob` makes the rule
/// deny or allow everything.
/// Now: what belongs elsewhere says where, and words of habit are known.
#[test]
fn a_key_at_the_wrong_depth_says_where_it_belongs() {
    let told = |text: &str, line: u64, column: u64, fix: &str| {
        check(text, "policy_unknown_key", line, column, &[]);
        assert_eq!(compile(text).unwrap_err().report().fix, fix, "{text}");
    };
    for (key, fix) in [
        ("path_glob", "`path_glob` belongs in `match`"),
        ("syscall", "`syscall` belongs in `match`"),
        ("caller_tag", "`caller_tag` belongs in `match`"),
        ("rate", "`rate` belongs in `constraints`"),
        ("not_match", "`not_match` belongs in `examples`"),
        ("network_whitelist", "`network_whitelist` belongs at the top of the file"),
        ("path_globs", "did you mean `path_glob`? it belongs in `match`"),
        ("taint", "`label` belongs in `match`"),
        ("effect", "did you mean `action`?"),
        ("resaon", "did you mean `reason`?"),
        ("colour", "correct the key; a condition that is removed makes its rule match more"),
    ] {
        let text = rule(&format!("{{ name: a, match: {{}}, {key}: x, action: deny }}"));
        told(&text, 2, 27, fix);
    }
    let beside = "belongs in a rule, beside its `match`";
    told("name: a\n", 1, 1, &format!("`name` {beside}"));
    told("syscall: fs.read\n", 1, 1, "`syscall` belongs in `match`");
    told("rules: []\n", 1, 1, "did you mean `capabilities`?");
    for (key, fix) in [
        ("state", "did you mean `state_machine_state`?"),
        ("taint", "did you mean `label`?"),
        ("path", "did you mean `path_glob`?"),
        ("reason", &format!("`reason` {beside}")),
        ("max_file_size", "`max_file_size` belongs in `constraints`"),
    ] {
        told(&rule(&format!("{{ name: a, match: {{ {key}: x }}, action: deny }}")), 2, 25, fix);
    }
    for (word, meant) in [
        ("ask", "require_review"),
        ("review", "require_review"),
        ("block", "deny"),
        ("forbid", "deny"),
        ("permit", "allow"),
        ("alow", "allow"),
    ] {
        let text = rule(&format!("{{ name: a, match: {{}}, action: {word} }}"));
        check(&text, "policy_bad_value", 2, 35, &[&format!("did you mean `{meant}`?")]);
    }
}

/// The failure: `name: n` was `true or false`, and what was quoted for `rate: 20` failed again.
/// Now: the key is named, and the advice brings a value that loads.
#[test]
fn a_value_of_another_type_says_what_to_write() {
    let said = |text: &str| compile(text).expect_err(text).report();
    let words = "y, n, yes, no, on and off without quotes are true or false in YAML";
    for (text, column, key) in [
        ("{ name: n, match: {}, action: deny }", 13, "name"),
        ("{ name: a, match: { method: [no] }, action: deny }", 34, "method"),
        ("{ name: a, match: { tenant: on }, action: deny }", 33, "tenant"),
        ("{ name: a, match: { caller_tag: [x, yes] }, action: deny }", 41, "caller_tag"),
        ("{ name: a, match: { plugin: y }, action: deny }", 33, "plugin"),
    ] {
        let begin = format!("policy.yaml:2:{column}: {key} has the wrong form");
        check(&rule(text), "policy_bad_value", 2, column, &[&begin, "quote it", words]);
    }
    let number = said(&rule("{ name: 7, match: {}, action: deny }"));
    assert_eq!(number.fix, "quote it to make it a text", "the control: a number");
    compile(&rule("{ name: 'n', match: { method: ['no'] }, action: deny }")).unwrap();
    let limit = |constraint: &str| {
        rule(&format!("{{ name: a, match: {{}}, action: allow, constraints: {{ {constraint} }} }}"))
    };
    let rate = "write calls and a time, such as 20/h";
    let time = "write a whole number with ms, s, m, h or d, such as 30s";
    let size = "write a whole number with KiB, MiB, GiB, KB, MB or GB, or of bytes";
    for (constraint, column, fix) in [
        ("rate: 20", 63, rate),
        ("rate: '20'", 63, rate),
        ("rate: 0/h", 63, rate),
        ("max_duration: 30", 71, time),
        ("max_duration: 1.5", 71, time),
        ("max_duration: 1.5h", 71, time),
        ("max_file_size: 1.5MiB", 72, size),
        ("max_file_size: 0.5", 72, size),
    ] {
        let text = limit(constraint);
        check(&text, "policy_bad_unit", 2, column, &[]);
        assert_eq!(said(&text).fix, fix, "{constraint}");
    }
    assert!(said(&limit("max_file_size: 1.5MiB")).why.contains("no whole number"));
    for (constraint, column) in [("rate: no", 63), ("max_duration: [30s]", 71)] {
        check(&limit(constraint), "policy_bad_value", 2, column, &["expected", "such as"]);
    }
    for constraint in
        ["rate: 20/h", "max_duration: 30s", "max_file_size: 10", "max_file_size: 1MiB"]
    {
        compile(&limit(constraint)).expect("the control");
    }
}

/// The failure: an example that lacked the state failed, and nothing said what it lacked.
/// Now: the first condition that does not hold is named, with what the example has.
#[test]
fn a_failing_example_names_the_condition() {
    let said = |when: &str, example: &str, words: &str| {
        let text = rule(&format!(
            "{{ name: a, match: {{ {when} }}, action: deny, examples: {{ match: [{{ {example} }}] }} }}"
        ));
        let error = compile(&text).expect_err(&text).report();
        assert_eq!(error.code, "policy_example_failed");
        assert!(error.why.ends_with(&format!("and should: {words}")), "{}", error.why);
    };
    let lacks = |when: &str, example: &str, key: &str, own: &str| {
        said(when, example, &format!("`{key}` does not hold, it has no `{own}`"));
    };
    let x = "syscall: x.y";
    lacks("state_machine_state: idle", x, "state_machine_state", "state");
    lacks("path_glob: a", x, "path_glob", "path");
    lacks("label: web", x, "label", "label");
    lacks("caller_tag: trusted_write", x, "caller_tag", "caller_tag");
    lacks("host: a.test", x, "host", "host");
    lacks("port: 80", x, "port", "port");
    lacks("method: GET", x, "method", "method");
    lacks("http_path: /a", x, "http_path", "http_path");
    lacks("argv_prefix: rm", x, "argv_prefix", "argv");
    lacks("size_over: 1KiB", x, "size_over", "size");
    lacks("change: test", x, "change", "change");
    let is = |when: &str, example: &str, words: &str| {
        said(when, &format!("{x}, {example}"), words);
    };
    is("syscall: z.y", "path: a", "`syscall` does not hold, its `syscall` is `x.y`");
    is("caller: agent", "path: a", "`caller` does not hold, its `caller` is `user:someone`");
    is("plugin: a", "caller: 'plugin:b'", "`plugin` does not hold, its `caller` is `plugin:b`");
    is("tenant: a", "path: a", "`tenant` does not hold, its `tenant` is `local`");
    is("label: web", "label: [user, repo]", "`label` does not hold, its `label` is `repo, user`");
    is("size_over: 1KiB", "size: 1KiB", "`size_over` does not hold, its `size` is `1024`");
    is("argv: [[rm, a]]", "argv: ls a", "`argv` does not hold, its `argv` is `ls a`");
    let opens = rule(
        "{ name: a, match: {}, action: allow, examples: { match: [{ syscall: net.connect }] } }",
    );
    check(&opens, "policy_example_failed", 2, 62, &["without `host` allows no connection"]);
}

/// The failure: "write a value of the kind that is named" stood where no kind was named, also for a port in quotes.
/// Now: each fault of a value says what to write, and none has the words of the code for all.
#[test]
fn each_bad_value_says_what_to_write() {
    let general = ["policy_bad_value", "policy_missing_key"].map(|name| {
        let all = codes::ALL.iter().find(|code| code.name == name);
        all.expect("a code of this crate").fix
    });
    let advised = |text: &str, fix: &str| {
        let report = compile(text).expect_err(text).report();
        assert!(report.fix.contains(fix), "{text}: {}", report.fix);
        assert!(!general.contains(&report.fix.as_str()), "{text}");
    };
    let one = |rest: &str, fix: &str| advised(&rule(&format!("{{ name: a, {rest} }}")), fix);
    let matching = |when: &str, fix: &str| {
        one(&format!("match: {{ {when} }}, action: deny"), fix);
    };
    matching("syscall: 'fs.*'", "list the names: [fs.");
    matching("syscall: 'x.*'", "write one of fs.");
    matching("syscall: fs.frobnicate", "write one of fs.");
    matching("port: '443'", "write it without quotes: 443");
    matching("port: 0", "write a number, such as 443");
    matching("port: x", "write a number, such as 443");
    matching("state_machine_state: coding", "did you mean `code_writing`?");
    matching("state_machine_state: elsewhere", "write one of idle");
    matching("state_machine_state: [no]", "write one of idle");
    matching("change: all", "write one of test");
    matching("caller_tag: 'a*'", "write whole words");
    matching("caller_tag: { a: b }", "write a text or a list of texts");
    matching("method:", "write a text or a list of texts");
    matching("argv_prefix: ' '", "name a command");
    matching("host: 'https://a.test'", "write a name such as `example.org`");
    matching("http_path: a", "write `/exactly/this`");
    one("match: {}, action: no", "write one of allow, deny, require_review");
    one("match: {}, action: [deny]", "write one of allow, deny, require_review");
    one("match: {}, action: perhaps", "write one of allow, deny, require_review");
    one("match: x, action: deny", "write a map of keys and values");
    one("match: {}, action: deny, constraints: { rate: 1/h }", "remove `constraints`");
    one("match: {}, action: deny, except: [{}]", "write in it what lifts the rule");
    one("match: {}, action: deny, except: { path_glob: a }", "write a list");
    let demands = |demand: &str, fix: &str| {
        one(&format!("match: {{}}, action: allow, constraints: {{ {demand} }}"), fix);
    };
    demands("require_sandbox: 'a b'", "write one of L2, code-executor");
    demands("require_capability_token: 1", "write true or false");
    demands("min_isolation: most", "write one of ");
    demands("ui_limits: { max_node_count: x }", "write a number from 0");
    demands("ui_hosts: ['A b']", "write a name such as");
    demands("rate: [1]", "write calls and a time");
    advised("secret_patterns: { 'a b': x }", "name the secret by such letters");
    advised("secret_patterns: { a: 1 }", "quote it");
    advised("network_whitelist: { a: 'a.test:x' }", "`a.test:8443`");
    advised("capabilities: x", "write a list");
    // What is not there, and what stands too deep.
    one("match: {}", "add `action:` with allow, deny or require_review");
    one("action: deny", "add `match:` with conditions");
    advised(&rule("{ match: {}, action: deny }"), "add `name:`");
    one(
        "match: { syscall: x.y, action: deny }",
        "`action` of line 2 stands inside `match`: indent it",
    );
    one("match: {}, constraints: { action: deny }", "stands inside `constraints`");
}

/// The failure: a state `exploreing` and a label `wbe` in an example of what a rule does not match held, for another
/// reason than was meant; `path_glob` in an example had no advice.
/// Now: an example is read as strictly as a rule.
#[test]
fn an_example_is_read_as_a_rule_is() {
    let text = |example: &str| {
        rule(&format!(
            "{{ name: a, match: {{ syscall: x.y, state_machine_state: idle, label: web }}, action: deny, examples: {{ not_match: [{{ {example} }}] }} }}"
        ))
    };
    for (example, code, fix) in [
        ("syscall: x.y, state: exploreing", "policy_bad_value", "did you mean `exploring`?"),
        ("syscall: x.y, state: coding", "policy_bad_value", "did you mean `code_writing`?"),
        ("syscall: x.y, state: nowhere", "policy_bad_value", "write one of idle"),
        ("syscall: x.y, path_glob: a", "policy_unknown_key", "did you mean `path`?"),
        ("syscall: x.y, argv_prefix: a", "policy_unknown_key", "did you mean `argv`?"),
        ("syscall: x.y, size_over: 1KiB", "policy_unknown_key", "did you mean `size`?"),
        ("syscall: x.y, plugin: a", "policy_unknown_key", "did you mean `caller`?"),
        ("syscall: x.y, labels: web", "policy_unknown_key", "did you mean `label`?"),
        ("syscall: x.y, caller: nobody", "policy_bad_value", "write it as {"),
        ("path: a", "policy_bad_value", "write it as {"),
    ] {
        let report = compile(&text(example)).expect_err(example).report();
        assert_eq!(
            (report.code.as_str(), report.fix.contains(fix)),
            (code, true),
            "{example}: {report:?}"
        );
        assert_eq!(report.context["line"], 2, "{example}");
    }
    let warned = |example: &str| -> Vec<&'static str> {
        compile(&text(example)).unwrap().warnings().iter().map(|it| it.kind).collect()
    };
    assert_eq!(warned("syscall: x.y, state: idle, label: wbe"), ["unused_label"]);
    assert_eq!(warned("syscall: x.y, caller_tag: trusted_wriet"), ["unused_tag"]);
    for plain in ["label: repo", "label: 'mcp:a'", "caller_tag: trusted_write", "state: planning"] {
        assert_eq!(warned(&format!("syscall: x.y, {plain}")), <[&str; 0]>::default(), "{plain}");
    }
    // The control: a call on the command line and in a file of tests is read alike.
    let call = |json: &str| CallSketch::from_json(json).and_then(|it| it.check_names());
    for (json, fix) in [
        (r#"{"syscall":"fs.read","path_glob":"a"}"#, "did you mean `path`?"),
        (r#"{"syscall":"fs.read","pathh":"a"}"#, "did you mean `path`?"),
        (r#"{"syscall":"fs.read","state":"exploreing"}"#, "did you mean `exploring`?"),
    ] {
        let report = call(json).expect_err(json).report();
        assert_eq!((report.code.as_str(), report.fix.as_str()), ("call_malformed", fix));
    }
    let suite = |of: &str| {
        let tests = format!(
            "tests:\n  - {{ name: a, call: {{ syscall: fs.read, {of} }}, expect: deny }}\n"
        );
        Suite::read("t.yaml", &tests).expect_err(of).report()
    };
    for (of, fix) in [
        ("state: exploreing", "did you mean `exploring`?"),
        ("path_glob: a", "did you mean `path`?"),
    ] {
        let report = suite(of);
        assert_eq!((report.fix.as_str(), &report.context["line"]), (fix, &2.into()), "{report:?}");
    }
}
