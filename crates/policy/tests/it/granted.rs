//! Which calls a grant is for, as it is offered and as a person writes it.

use glasshouse_model::{Call, CanonicalPath, Effect};
use glasshouse_policy::{GrantRule, Standing};
use serde_json::json;

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
