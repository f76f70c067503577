//! Explanations: each counterfactual is decided here again, by hand.

use glasshouse_model::Effect;
use glasshouse_policy::{Explanation, Request, explain, explanation_text};

use crate::support::{call, compile, effect};

const RULES: &str = "
capabilities:
  - { name: docs, match: { syscall: fs.write, path_glob: 'docs/**' }, action: allow }
  - { name: tests, match: { syscall: fs.write, path_glob: 'tests/**', state_machine_state: test_writing }, action: allow }
  - { name: web, match: { syscall: fs.write, label: web }, action: deny }
  - { name: slow, match: { syscall: fs.write, path_glob: 'docs/law/**' }, action: require_review, except: [{ caller_tag: trusted_write }] }
  - { name: hosts, match: { syscall: net.connect, host: '*.example.org', method: GET }, action: allow }
  - { name: small, match: { syscall: fs.edit, path_glob: '**' }, action: allow, constraints: { max_file_size: 1KiB } }
";

fn explained(rules: &str, sketch: &str) -> Explanation {
    explain(&compile(rules).unwrap(), &Request::new(&call(sketch), 0))
}

/// The first change of a call, as `key=value`, and the answer after it.
fn first_change(sketch: &str) -> (String, Option<Effect>) {
    let why = explained(RULES, sketch);
    match why.other_call.first() {
        None => (String::new(), None),
        Some(change) => {
            let set: Vec<String> =
                change.set.iter().map(|edit| format!("{}={}", edit.key, edit.to)).collect();
            (set.join(" "), Some(change.decision))
        }
    }
}

#[test]
fn the_least_change_of_a_call() {
    let check = |sketch: &str, change: &str, then: Effect| {
        assert_eq!(first_change(sketch), (change.to_owned(), Some(then)), "{sketch}");
    };
    let allow = Effect::Allow;
    check("{ syscall: fs.write, path: docs/a, label: web }", "label=without web", allow);
    check("{ syscall: fs.write, path: tests/a }", "state_machine_state=test_writing", allow);
    check("{ syscall: fs.write, path: docs/law/a }", "caller_tag=trusted_write", allow);
    check("{ syscall: fs.write, path: src/a }", "path=docs/any", allow);
    check("{ syscall: fs.edit, path: a, size: 2048 }", "size=1024", allow);
    check("{ syscall: net.connect, host: a.example.org, method: PUT }", "method=GET", allow);
    check("{ syscall: fs.write, path: docs/a }", "path=other", Effect::Deny);
    // Two things at once, where one is not enough.
    check(
        "{ syscall: fs.write, path: tests/a, label: web }",
        "label=without web state_machine_state=test_writing",
        allow,
    );
    check(
        "{ syscall: net.connect, host: b.test, method: PUT }",
        "method=GET host=any.example.org",
        allow,
    );
    // Nothing about the call would help.
    assert_eq!(first_change("{ syscall: x.y }"), (String::new(), None));
}

#[test]
fn the_least_change_of_the_rules() {
    let check = |sketch: &str, without: &[&str], with: bool, then: Effect| {
        let change = explained(RULES, sketch).other_rules.unwrap();
        assert_eq!(change.without, without, "{sketch}");
        assert_eq!((change.with.is_some(), change.decision), (with, then), "{sketch}");
        let Some(rule) = change.with else { return };
        // The proposed rule does it, beside the others without those that deny.
        let rest = RULES
            .lines()
            .filter(|line| !without.iter().any(|name| line.contains(&format!("name: {name},"))));
        let text = format!("{}\n  {rule}\n", rest.collect::<Vec<_>>().join("\n"));
        assert_eq!(effect(&compile(&text).unwrap(), sketch), then, "{text}");
        // And for no other path.
        let other = sketch.replace("src/a", "src/b");
        if other != sketch {
            assert_eq!(effect(&compile(&text).unwrap(), &other), Effect::Deny, "{text}");
        }
    };
    check("{ syscall: fs.write, path: docs/a, label: web }", &["web"], false, Effect::Allow);
    check("{ syscall: fs.write, path: docs/law/a }", &["slow"], false, Effect::Allow);
    check("{ syscall: fs.write, path: src/a }", &[], true, Effect::Allow);
    check("{ syscall: fs.write, path: src/a, label: web }", &["web"], true, Effect::Allow);
    check("{ syscall: fs.write, path: docs/a }", &["docs"], false, Effect::Deny);
    check("{ syscall: shell.run, argv: [sh, -c, 'a \"b\"'] }", &[], true, Effect::Allow);
    check("{ syscall: fs.write, path: 'src/[a]*' }", &[], true, Effect::Allow);
    // A built-in rule denies: no file can change that.
    let why = explained(RULES, "{ syscall: fs.write, path: .git/config }");
    assert_eq!(why.other_rules, None);
    assert!(explanation_text(&why).contains("no rule of a file can change this"));
}

#[test]
fn rules_that_nearly_spoke() {
    let near = |sketch: &str| -> Vec<(String, &'static str)> {
        let near = explained(RULES, sketch).nearly.into_iter();
        near.map(|near| (near.rule, near.key)).collect()
    };
    let check = |sketch: &str, expected: &[(&str, &'static str)]| {
        let expected: Vec<_> =
            expected.iter().map(|(rule, key)| ((*rule).to_owned(), *key)).collect();
        assert_eq!(near(sketch), expected, "{sketch}");
    };
    check(
        "{ syscall: fs.write, path: tests/a }",
        &[
            ("docs", "path_glob"),
            ("tests", "state_machine_state"),
            ("web", "label"),
            ("slow", "path_glob"),
        ],
    );
    check(
        "{ syscall: fs.write, path: docs/law/a, caller_tag: trusted_write }",
        &[("web", "label"), ("slow", "except")],
    );
}

#[test]
fn an_explanation_reads_as_sentences() {
    let why = explained(RULES, "{ syscall: fs.write, path: tests/a, label: web }");
    let text = explanation_text(&why);
    for line in [
        "denied\n  deny    web (policy.yaml:5)\n",
        "  nearly  tests (policy.yaml:4), which would allow, is silent: `state_machine_state` does not hold\n",
        "  it would be allowed without the label web and with state_machine_state test_writing\n",
        "  it would be allowed without web and with the rule\n    - {",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

/// A policy as large as one may be is explained in a moment.
#[test]
fn ten_thousand_rules_are_explained() {
    let mut text = String::from("capabilities:\n");
    for n in 0..10_000 {
        text.push_str(&format!(
            "  - {{ name: r{n}, match: {{ syscall: fs.write, path_glob: 'd{n}/**' }}, action: allow }}\n"
        ));
    }
    let why = explained(&text, "{ syscall: fs.write, path: src/a }");
    assert_eq!(why.decision.effect, Effect::Deny);
    assert_eq!(why.other_call[0].decision, Effect::Allow);
}
