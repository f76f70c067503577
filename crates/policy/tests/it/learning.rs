//! Policies that are learned from looks: what a look kept back stays denied.

use glasshouse_model::{Call, Effect};
use glasshouse_policy::{KeptBack, Protected, Request, decide, learn};

use crate::support::{call, compile};

const LOOKS: [&str; 3] = ["fs.list", "search.glob", "search.grep"];

fn asked(syscall: &str, path: &str) -> Call {
    call(&format!("{{ syscall: {syscall}, caller: agent, state: planning, path: '{path}' }}"))
}

/// The failure: three looks at the top directory, whose answers said that entries were withheld, became rules
/// for every path, and the policy that had withheld them was replaced by one that does not.
#[test]
fn what_a_look_kept_back_stays_denied() {
    let kept_back = [".env", "hidden", "hidden/a.txt", "odd [name]*"];
    let shown = ["src", "src/a.rs", "README.md", "hidden2/a.txt"];
    let check = |is_all: bool, names: &[&str], below: Effect| {
        let decided: Vec<_> = LOOKS.map(|look| (asked(look, "."), Effect::Allow)).into();
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
        let decided = [(asked(path), Effect::Allow)];
        let learned = learn(&decided, &KeptBack::default(), &[], &Protected::default()).unwrap();
        assert_eq!(learned.unequal, Vec::<usize>::new(), "{}", learned.text);
        let policy = compile(&learned.text).unwrap();
        let other = decide(&policy, &Request::new(&asked("/upload"), 0)).decision.effect;
        assert_eq!(other, Effect::Deny, "{path}: {}", learned.text);
    }
}
