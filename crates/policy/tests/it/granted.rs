//! Which calls a grant is for, as it is offered and as a person writes it.

use std::sync::Arc;

use glasshouse_model::{Call, CanonicalPath, Effect};
use glasshouse_policy::{
    Extension, ExtensionError, ExtensionText, GrantRule, Opinion, Policy, Protected, Source,
    Standing, StandingRefusal,
};
use serde_json::{Value, json};

use crate::standing::{Now, id, terms, verdict};
use crate::support::{call, compile};

/// The failure: a grant for a path that no pattern could say was one for the whole host, and a query was in none.
#[test]
fn f4_a_granted_request_is_granted_with_its_path_and_query() {
    let rules =
        "capabilities:\n  - { name: ask, match: { syscall: net.connect }, action: require_review }";
    let policy = compile(rules).unwrap();
    let asked = |target: &str| {
        let (path, query) = target.split_once('?').map_or((target, None), |(p, q)| (p, Some(q)));
        let sketch = json!({ "syscall": "net.connect", "caller": "agent", "host": "a.test", "method": "GET",
            "port": 80, "http_path": path });
        Call { http_query: query.map(str::to_owned), ..call(&sketch.to_string()) }
    };
    let effect = |rule: &GrantRule, target: &str| {
        let call = asked(target);
        let grant = Standing::new(id(1), terms(&policy, rule.told(&call).matching)).unwrap();
        verdict(&policy, &call, &[grant], &Now::default()).decision.effect
    };
    let targets = [
        "/",
        "/a",
        "/a/",
        "/a?",
        "/a?q=weather",
        "/a?q=launch-code-7",
        "/a%20b",
        "/a b",
        "/a//b",
        "/a/b",
        "/a%2fb",
        "/a*",
        "/%61",
        "/upload",
        "/x?stolen=launch-code-7",
    ];
    for granted in targets {
        let rule = GrantRule::for_call(&asked(granted)).unwrap();
        for target in targets {
            let expected = if target == granted { Effect::Allow } else { Effect::RequireReview };
            assert_eq!(effect(&rule, target), expected, "{granted} {target}");
        }
        let told = rule.told(&asked(granted));
        assert_eq!(told.matching["http_target"], granted);
        assert_eq!((told.matches.len(), told.not_matches.len()), (1, 4), "{granted}");
    }
    // The control: who wants more says so, and is shown it.
    let wide = json!({ "syscall": "net.connect", "host": "a.test", "http_path": "/a*" });
    let wide = GrantRule::parse(&wide).unwrap();
    assert_eq!(effect(&wide, "/a?q=launch-code-7"), Effect::Allow);
    assert_eq!(effect(&wide, "/upload"), Effect::RequireReview);
    assert_eq!(
        wide.told(&asked("/a")).matches,
        [
            "net.connect GET a.test/a",
            "net.connect GET a.test/a?other",
            "net.connect DELETE a.test/a"
        ]
    );
    for wrong in [json!("a"), json!(1), json!(["/a"]), json!("")] {
        let rule = json!({ "syscall": "net.connect", "http_target": wrong });
        assert_eq!(GrantRule::parse(&rule).unwrap_err().code(), "grant_malformed");
    }
}

/// Of a key that stood twice the last one counted, and what was told of a rule without a syscall was about sealed bytes.
#[test]
fn a_rule_that_a_person_writes_is_read_strictly() {
    let check = |text: &str, expected: Option<(&str, &str)>| match (GrantRule::read(text), expected)
    {
        (Ok(_), None) => {}
        (Err(error), Some((code, words))) => {
            let report = error.report();
            assert_eq!(error.code(), code, "{text}");
            let told = format!("{} {} {}", report.what, report.why, report.fix);
            assert!(told.contains(words) && !told.contains("byte for byte"), "{told}");
        }
        (read, expected) => panic!("{text}: {read:?} for {expected:?}"),
    };
    check(r#"{"syscall":"fs.read","path_glob":"a"}"#, None);
    check(r#"{"syscall":"fs.read","syscall":"fs.write"}"#, Some(("policy_syntax", "stands twice")));
    check("{}", Some(("grant_malformed", "review show")));
    check("{", Some(("policy_syntax", "YAML")));
    check("[1]", Some(("policy_bad_value", "")));
    // A fault is told at its place in what was written, whatever stands before it.
    let misspelt = r#"{"syscall":"shell.run","argv_prefx":"ls"}"#;
    check(misspelt, Some(("policy_unknown_key", ":1:24: unknown key `argv_prefx`")));
    let behind = r#"{"cwd":"a","syscall":"shell.run","port":"80"}"#;
    check(behind, Some(("policy_bad_value", ":1:41: an unreadable port")));
    check(r#"{"cwd":"a","syscall":"shell.run","argv":"ls"}"#, None);
}

/// The failure: a grant for a listing of the top was one for every path.
#[test]
fn f4_a_granted_listing_of_the_top_is_granted_for_the_top() {
    let top = call("{ syscall: fs.list, caller: agent, path: . }");
    let rule = GrantRule::for_call(&top).unwrap();
    assert!(rule.matches(&top));
    for path in ["a", ".env", "a/b", "hidden/deep/x"] {
        assert!(!rule.matches(&top.clone().at(CanonicalPath::parse(path).unwrap())), "{path}");
    }
}

/// The failure: a grant for connections without a host was taken, and opened every host there is.
#[test]
fn what_no_rule_may_say_no_grant_says() {
    let check = |matching: Value, expected: Option<&str>| {
        let grant = GrantRule::parse(&matching).err().map(|error| error.code());
        assert_eq!(grant, expected, "{matching}");
        // A file that allows so is refused in the same words.
        let text = format!("capabilities:\n  - {{ name: a, action: allow, match: {matching} }}");
        let file = compile(&text).err().map(|error| error.code());
        assert_eq!(file, expected, "{matching}");
    };
    let bad = Some("policy_bad_value");
    check(json!({ "syscall": "net.connect" }), bad);
    check(json!({ "syscall": ["net.connect"] }), bad);
    check(json!({ "syscall": ["fs.read", "net.connect"] }), bad);
    check(json!({ "syscall": "net.connect", "caller": "agent", "port": 443 }), bad);
    check(json!({ "syscall": "net.connect", "http_path": "/v1/*" }), bad);
    check(json!({ "syscall": "net.connect", "host": "*" }), bad);
    check(json!({ "syscall": "net.connect", "host": "*.com" }), bad);
    check(json!({ "syscall": "net.connect", "host": ["a.test", "*.github.io"] }), bad);
    check(json!({ "syscall": "net.conect", "host": "a.test" }), bad);
    check(json!({ "syscall": "fs.read", "path_glob": "a**b" }), Some("policy_bad_glob"));
    check(json!({ "syscall": "fs.read", "path": "a" }), Some("policy_unknown_key"));
    // The control.
    check(json!({ "syscall": "net.connect", "host": "a.test" }), None);
    check(json!({ "syscall": ["fs.read", "net.connect"], "host": "*.a.test" }), None);
    check(json!({ "syscall": "fs.read" }), None);
    // Nor is one offered for a connection that names no host.
    let nowhere = call("{ syscall: net.connect, caller: agent, port: 80 }");
    assert_eq!(GrantRule::for_call(&nowhere).unwrap_err().code(), "policy_bad_value");
}

const WRITES: &str = "
capabilities:
  - { name: writes, match: { syscall: fs.write, path_glob: 'src/**' }, action: require_review }
  - { name: large, match: { syscall: fs.write, size_over: 1MiB }, action: require_review }
  - { name: huge, match: { syscall: fs.write, size_over: 9MiB }, action: require_review }
  - { name: tests, match: { syscall: fs.write, change: test }, action: require_review }
  - { name: late, match: { syscall: fs.write, state_machine_state: code_writing }, action: require_review }
  - { name: small, match: { syscall: fs.write, path_glob: 'gen/**' }, action: require_review, except: [{ size_over: 1KiB }] }
  - { name: any, match: { syscall: fs.write, path_glob: 'gen/**' }, action: require_review }
";

/// The grant that is offered for a call which rules of this policy ask about.
fn offered(policy: &Policy, asked: &Call) -> Standing {
    let decision = verdict(policy, asked, &[], &Now::default()).decision;
    assert_eq!(decision.effect, Effect::RequireReview, "{asked:?}");
    let rule = GrantRule::offered(asked, &decision).unwrap();
    assert!(rule.matches(asked));
    Standing::new(id(1), terms(policy, rule.told(asked).matching)).unwrap()
}

/// The failure: a grant that was given for a small write lifted the review of a rule about large ones.
#[test]
fn f4_a_grant_answers_the_rules_that_asked_and_no_others() {
    let policy = compile(WRITES).unwrap();
    let write = |terms: &str| call(&format!("{{ syscall: fs.write, caller: agent, {terms} }}"));
    let check = |granted: &str, later: &str, expected: Effect| {
        let grant = offered(&policy, &write(granted));
        let found = verdict(&policy, &write(later), &[grant], &Now::default());
        assert_eq!(found.decision.effect, expected, "{granted} then {later}");
    };
    let (yes, ask) = (Effect::Allow, Effect::RequireReview);
    let at = |rest: &str| format!("path: src/a, {rest}");
    for (granted, later, expected) in [
        ("size: 10", "size: 10", yes),
        ("size: 10", "size: 1000", yes),
        ("size: 10", "size: 2MiB", ask),
        ("size: 10", "size: 10MiB", ask),
        ("size: 2MiB", "size: 3MiB", yes),
        ("size: 2MiB", "size: 10", yes),
        ("size: 2MiB", "size: 10MiB", ask),
        ("size: 10MiB", "size: 2MiB", yes),
        ("change: source", "change: source", yes),
        ("change: source", "change: test", ask),
        ("change: source", "change: mixed", ask),
        ("change: test", "change: test", yes),
        ("change: test", "change: source", ask),
        ("size: 10", "size: 10, state: code_writing", ask),
        ("size: 10, state: code_writing", "size: 10", yes),
        ("size: 10, state: planning", "size: 10, state: test_writing", yes),
    ] {
        check(&at(granted), &at(later), expected);
    }
    // A rule about what is not large asks by itself, too.
    check("path: gen/a, size: 10KiB", "path: gen/a, size: 20KiB", yes);
    check("path: gen/a, size: 10KiB", "path: gen/a, size: 10", ask);
    check("path: gen/a, size: 10", "path: gen/a, size: 10KiB", yes);
    // The control: who leaves the rules out says that any may ask.
    let wide = json!({ "syscall": "fs.write", "path_glob": "src/**" });
    let wide = [Standing::new(id(1), terms(&policy, wide)).unwrap()];
    let large = write("path: src/a, size: 10MiB, change: test, state: code_writing");
    assert_eq!(verdict(&policy, &large, &wide, &Now::default()).decision.effect, yes);
}

#[test]
fn why_a_grant_does_not_answer_is_told() {
    let policy = compile(WRITES).unwrap();
    let small = call("{ syscall: fs.write, caller: agent, path: src/a, size: 10 }");
    let large = call("{ syscall: fs.write, caller: agent, path: src/a, size: 2MiB }");
    let grant = offered(&policy, &small);
    let rules = &grant.terms().rule.matching["asking_rule"];
    assert_eq!(*rules, json!(["writes (policy.yaml)"]));
    let found = verdict(&policy, &large, &[grant], &Now::default());
    assert_eq!(found.standing_refusals, [(id(1), StandingRefusal::OtherRule)]);
    let told = format!("{} was given where fewer rules asked", id(1));
    assert!(found.decision.reasons.contains(&told), "{:?}", found.decision.reasons);
    // A rule of the same name in another file is another rule.
    let other = WRITES.replace("name: large", "name: other");
    let sources = [
        Source::apart("policy.yaml", &other),
        Source::apart(
            "more.yaml",
            "capabilities:
  - { name: writes, match: { syscall: fs.write, size_over: 1MiB }, action: require_review }
  - { name: rest, match: {}, action: allow }",
        ),
    ];
    let policy = Policy::compile(&sources, &Protected::default()).unwrap();
    let grant = [offered(&policy, &small)];
    let effect = |call: &Call| verdict(&policy, call, &grant, &Now::default()).decision.effect;
    assert_eq!((effect(&small), effect(&large)), (Effect::Allow, Effect::RequireReview));
}

/// Asks about what is larger than 100 bytes.
struct Large;

impl Extension for Large {
    fn evaluate(
        &self,
        _: Option<&ExtensionText>,
        call: &Call,
    ) -> Result<Option<Opinion>, ExtensionError> {
        let review = Opinion { effect: Effect::RequireReview, reason: "large".to_owned() };
        Ok(call.size_bytes.is_some_and(|size| size > 100).then_some(review))
    }

    fn restart(&self, _: Option<&ExtensionText>) -> bool {
        false
    }
}

/// A program is one rule, whatever it asks for.
#[test]
fn a_grant_answers_a_program_that_asked() {
    let policy = compile(WRITES).unwrap().served_by(Arc::new(Large));
    let write = |size: u64| call(&format!("{{ syscall: fs.write, path: src/a, size: {size} }}"));
    let check = |granted: u64, later: u64, expected: Effect| {
        let grant = [offered(&policy, &write(granted))];
        let found = verdict(&policy, &write(later), &grant, &Now::default()).decision;
        assert_eq!(found.effect, expected, "{granted} then {later}");
    };
    check(10, 20, Effect::Allow);
    check(10, 200, Effect::RequireReview);
    check(200, 300, Effect::Allow);
    check(200, 10, Effect::Allow);
}

/// A derived grant answers no rule that the one above does not.
#[test]
fn a_derived_grant_answers_no_more_rules() {
    let policy = compile(WRITES).unwrap();
    let check = |parent: Option<Value>, child: Option<Value>, expected: bool| {
        let with = |rules: &Option<Value>| {
            let mut matching = json!({ "syscall": "fs.write" });
            if let Some(rules) = rules {
                matching["asking_rule"] = rules.clone();
            }
            terms(&policy, matching)
        };
        let above = Standing::new(id(1), with(&parent)).unwrap();
        let derived = above.attenuate(id(2), with(&child));
        assert_eq!(derived.is_ok(), expected, "{parent:?} {child:?}");
    };
    let rules = |names: &[&str]| Some(json!(names));
    check(None, None, true);
    check(None, rules(&["a"]), true);
    check(rules(&["a"]), None, false);
    check(rules(&["a"]), rules(&["a"]), true);
    check(rules(&["a", "b"]), rules(&["a"]), true);
    check(rules(&["a"]), rules(&["a", "b"]), false);
    for wrong in [json!("a"), json!(1), json!([1]), json!(null), json!({ "a": 1 })] {
        let rule = json!({ "syscall": "fs.write", "asking_rule": wrong });
        assert_eq!(GrantRule::parse(&rule).unwrap_err().code(), "grant_malformed", "{rule}");
    }
}

/// What the narrowest rule leaves out, any other call may differ in.
#[test]
fn a_grant_is_for_the_plugin_that_asked_and_for_no_path_outside() {
    let asked =
        |caller: &str| call(&format!("{{ syscall: fs.read, path: a, caller: '{caller}' }}"));
    let check = |granted: &str, caller: &str, expected: bool| {
        let rule = GrantRule::for_call(&asked(granted)).unwrap();
        assert_eq!(rule.matches(&asked(caller)), expected, "{granted} {caller}");
    };
    check("plugin:one", "plugin:one", true);
    check("plugin:one", "plugin:two", false);
    check("plugin:one", "agent:one", false);
    check("agent:one", "agent:two", true);
    let outside = call("{ syscall: sandbox.mount, caller: agent, host_path: /opt/tool }");
    assert_eq!(GrantRule::for_call(&outside).unwrap_err().code(), "grant_malformed");
    let inside = call("{ syscall: sandbox.mount, caller: agent }");
    assert!(GrantRule::for_call(&inside).unwrap().matches(&inside));
}
