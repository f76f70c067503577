//! Policies that are learned from looks: what a look kept back stays denied.

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_model::{Call, Constraints, Effect, Rate};
use glasshouse_policy::{KeptBack, Protected, Recorded, Request, decide, learn};

use crate::support::{call, compile};

const LOOKS: [&str; 3] = ["fs.list", "search.glob", "search.grep"];

fn asked(syscall: &str, path: &str) -> Call {
    call(&format!("{{ syscall: {syscall}, caller: agent, state: planning, path: '{path}' }}"))
}

fn allowed(call: Call) -> Recorded {
    Recorded::new(call, Effect::Allow)
}

/// The failure: three looks at the top directory, whose answers said that entries were withheld, became rules
/// for every path, and the policy that had withheld them was replaced by one that does not.
#[test]
fn what_a_look_kept_back_stays_denied() {
    let kept_back = [".env", "hidden", "hidden/a.txt", "odd [name]*"];
    let shown = ["src", "src/a.rs", "README.md", "hidden2/a.txt"];
    let check = |is_all: bool, names: &[&str], below: Effect| {
        let decided: Vec<_> = LOOKS.map(|look| allowed(asked(look, "."))).into();
        let calls = LOOKS.iter().flat_map(|look| names.iter().map(|path| asked(look, path)));
        let kept_back = KeptBack { calls: calls.collect(), is_all };
        let learned = learn(&decided, &kept_back, &[], &Protected::default()).unwrap();
        assert_eq!(learned.unequal, Vec::<usize>::new(), "{}", learned.text);
        let policy = compile(&learned.text).unwrap();
        let effect = |look: &str, path: &str| {
            decide(&policy, &Request::new(&asked(look, path), 0)).decision.effect
        };
        for look in LOOKS {
            assert_eq!(effect(look, "."), Effect::Allow, "{}", learned.text);
            for path in names {
                assert_eq!(effect(look, path), Effect::Deny, "{look} {path}: {}", learned.text);
            }
            for path in shown {
                assert_eq!(effect(look, path), below, "{look} {path}: {}", learned.text);
            }
        }
    };
    check(true, &kept_back, Effect::Allow);
    // The control: nothing was kept back, and all is told.
    check(true, &[], Effect::Allow);
    // What is not known in full opens nothing below the directory.
    check(false, &kept_back, Effect::Deny);
    check(false, &[], Effect::Deny);
}

/// A connection whose path no pattern could say became a rule for its host.
#[test]
fn what_is_learned_of_a_request_is_its_path() {
    let asked = |path: &str| {
        call(&format!(
            "{{ syscall: net.connect, caller: agent, host: a.test, port: 80, method: GET, http_path: '{path}' }}"
        ))
    };
    for path in ["/a", "/a%20b", "/a//b", "/a*", "/%25", "/"] {
        let decided = [allowed(asked(path))];
        let learned = learn(&decided, &KeptBack::default(), &[], &Protected::default()).unwrap();
        assert_eq!(learned.unequal, Vec::<usize>::new(), "{}", learned.text);
        let policy = compile(&learned.text).unwrap();
        let other = decide(&policy, &Request::new(&asked("/upload"), 0)).decision.effect;
        assert_eq!(other, Effect::Deny, "{path}: {}", learned.text);
    }
}

/// The failure: what was allowed so often, of such a size or in such a sandbox was learned as allowed without that.
/// Now: a rule demands what was demanded of its calls.
#[test]
fn what_is_learned_demands_what_was_demanded() {
    let rate = |name: &str, calls| (name.to_owned(), Rate { calls, within_ms: 3_600_000 });
    let cases = [
        Constraints::default(),
        Constraints { rates: [rate("a (p.yaml)", 2)].into(), ..Constraints::default() },
        Constraints {
            rates: [rate("a (p.yaml)", 2), rate("b (p.yaml)", 9)].into(),
            max_duration_ms: Some(1_500),
            ..Constraints::default()
        },
        Constraints { max_file_size_bytes: Some(1_001), ..Constraints::default() },
        Constraints {
            require_sandbox: Some("code-executor".to_owned()),
            min_isolation: Some("no-cgroup".to_owned()),
            ..Constraints::default()
        },
        Constraints {
            ui_profile: Some("balanced".to_owned()),
            ui_limits: [("max_node_count".to_owned(), 7)].into(),
            ui_hosts: Some(["cdn.example.org".to_owned()].into()),
            ..Constraints::default()
        },
    ];
    for constraints in cases {
        for effect in [Effect::Allow, Effect::RequireReview] {
            let one = |path: &str| Recorded {
                constraints: constraints.clone(),
                ..Recorded::new(asked("fs.read", path), effect)
            };
            let plain = Recorded::new(asked("fs.read", "plain"), effect);
            let denied = Recorded::new(asked("fs.read", "denied"), Effect::Deny);
            let decided = [one("a"), one("b"), plain, denied];
            let learned =
                learn(&decided, &KeptBack::default(), &[], &Protected::default()).unwrap();
            assert_eq!(learned.unequal, Vec::<usize>::new(), "{}", learned.text);
            let policy = compile(&learned.text).unwrap();
            for it in &decided {
                let now = decide(&policy, &Request::new(&it.call, 0)).decision;
                assert_eq!(now.effect, it.effect, "{}", learned.text);
                let rates = |of: &Constraints| {
                    let rates = of.rates.values().map(|rate| (rate.calls, rate.within_ms));
                    rates.collect::<BTreeSet<_>>()
                };
                assert_eq!(rates(&now.constraints), rates(&it.constraints), "{}", learned.text);
                let without =
                    |of: &Constraints| Constraints { rates: BTreeMap::new(), ..of.clone() };
                assert_eq!(without(&now.constraints), without(&it.constraints), "{}", learned.text);
            }
        }
    }
}

/// The failure: one call that no rule can name, an empty word or a long path, and nothing was learned.
#[test]
fn what_no_rule_can_name_is_left_out_and_the_rest_is_learned() {
    let run = |word: &str| {
        let mut call = asked("shell.run", ".");
        (call.path, call.argv) = (None, Some(vec!["echo".to_owned(), word.to_owned()]));
        call
    };
    let long = format!("{}/{}/{}", "a".repeat(200), "b".repeat(200), "c".repeat(200));
    let check = |call: Call, is_named: bool| {
        let decided = [allowed(run("plain")), allowed(call.clone()), allowed(run("other"))];
        let learned = learn(&decided, &KeptBack::default(), &[], &Protected::default()).unwrap();
        let policy = compile(&learned.text).unwrap();
        let effects = decided.map(|it| decide(&policy, &Request::new(&it.call, 0)).decision.effect);
        let its = if is_named { Effect::Allow } else { Effect::Deny };
        assert_eq!(effects, [Effect::Allow, its, Effect::Allow], "{call:?}: {}", learned.text);
        let unnamed = if is_named { vec![] } else { vec![1] };
        assert_eq!((&learned.unnamed, &learned.unequal), (&unnamed, &unnamed), "{call:?}");
        // What was kept back and cannot be kept denied is not reached by a rule for all.
        let kept_back = KeptBack { calls: vec![Call { argv: None, ..call }], is_all: true };
        let look = [allowed(asked("fs.list", "."))];
        learn(&look, &kept_back, &[], &Protected::default()).unwrap();
    };
    check(run(""), false);
    check(asked("fs.read", &long), false);
    // What was masked is not what was asked for: a rule for it would never match.
    for masked in ["[secret:token]", "console.log('[secret:a.b-c_1]')", "k=[secret:a] [secret:b]"] {
        check(run(masked), false);
    }
    check(asked("fs.read", "keys/[secret:token].pem"), false);
    for plain in ["[secret:", "[secret:]", "[secret:a b]", "[secret] ]", "secret:a]"] {
        check(run(plain), true);
    }
    for word in
        ["\u{7f}", "\u{85}", "\u{fffe}", "\u{ffff}", "\u{feff}", "a\nb", "\"'\\", "ü", "\u{1}"]
    {
        let policy = compile(&format!(
            "capabilities: [{{ name: a, match: {{ argv: [[echo, {}]] }}, action: allow }}]",
            escaped(word)
        ));
        check(run(word), policy.is_ok());
    }
    check(run("control"), true);
    check(asked("fs.read", &long[..400]), true);
}

/// A text as YAML that holds no odd character.
fn escaped(word: &str) -> String {
    let chars = word.chars().map(|c| format!("\\u{:04x}", u32::from(c)));
    format!("\"{}\"", chars.collect::<String>())
}
