//! The same attempts as from outside, beside the engine itself: no gate stands before it here.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

#[path = "../../tests/attempts/ends.rs"]
mod ends;
#[path = "../../tests/attempts/forging.rs"]
mod forging;
#[path = "../../tests/attempts/reach.rs"]
mod reach;

use reach::{ENGINE_ONLY, Goal, LEFT, REACH};

fn ungated(code: &str) -> String {
    ended(code, 20_000)
}

/// What a module makes that nobody looked at before: a text of it, or why there is none.
fn ended(code: &str, time_ms: u64) -> String {
    let mut modules = bytecode(BTreeMap::from([(SOURCE, code)])).unwrap();
    modules.extend(carry(&[vendor::START.to_owned()]).1);
    let work = Work {
        runtime: compile::Runtime::Renderify,
        export: "default".to_owned(),
        or_default: false,
        makes: Makes::Node,
        input: json!({}),
        now_ms: 1_790_000_000_000,
        seed: 7,
        time_ms,
        memory_bytes: 64 << 20,
        jobs: 100_000,
        output_bytes: 2 << 20,
    };
    match answer(Order::Run(Box::new(work)), modules).0 {
        Reply::Made(node, _) if node["type"] == "text" && node.as_object().unwrap().len() == 2 => {
            node["value"].as_str().unwrap().to_owned()
        }
        Reply::Made(node, _) => node.to_string(),
        Reply::Failed(Failed::NoNode(_)) => "script_output_invalid".to_owned(),
        Reply::Failed(Failed::Threw(..)) => "script_failed".to_owned(),
        other => format!("{other:?}"),
    }
}

fn module(body: &str) -> String {
    format!(
        "const SECRET = '/etc/passwd', SECRET_MODULE = 'file:///etc/passwd', SINK = 'http://127.0.0.1:9', SINK_PORT = 9;
         const need = v => {{ if (v === undefined || v === null || v === false) throw new Error('nothing'); return v }};
         export default async () => {{ try {{ return 'got ' + await (async () => {{ {body} }})() }}
           catch (e) {{ return 'no ' + (e?.message ?? e) }} }}"
    )
}

/// The failure: a module of others computed the name of the program's own and set the clock of the run. Names were looked at when they
/// are written down only. Now: what is of use to the program only is found by the program only.
#[test]
fn modules_of_the_programs_own_are_found_by_no_other() {
    for name in [vendor::START, vendor::PREACT, vendor::MOUNT] {
        let code = format!(
            "const name = '{name}'; export default () => import(name).then((it) => {{ it.start?.(5, 5); return 'got ' + Date.now() }}, () => 'no')"
        );
        assert_eq!(ungated(&code), "no", "{name}");
    }
    let code =
        "const name = 'plan:' + 'source'; export default () => import(name).then(() => 'got')";
    assert_eq!(ungated(code), "got", "the control");
}

#[test]
fn nothing_is_reached_without_a_gate() {
    let reached = REACH.iter().chain(ENGINE_ONLY).filter_map(|(goal, name, body)| {
        let first = ungated(&module(body));
        let refused = match goal {
            Goal::Chance => first == ungated(&module(body)),
            _ => first.starts_with("no "),
        };
        (!refused).then(|| format!("{goal:?} {name}: {first}"))
    });
    assert_eq!(reached.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn nothing_is_left_without_a_gate() {
    for (name, poison, probe) in LEFT {
        // It is done, so there is something that could be left.
        let both = format!("{poison}; {probe}");
        assert!(ungated(&module(&both)).starts_with("got "), "{name}");
        let found = ungated(&module(probe));
        assert!(found.starts_with("no "), "{name}: {found}");
    }
}

#[test]
fn what_comes_back_is_data_without_a_gate() {
    let node = |text: &str| serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
    let other = forging::FORGING.iter().filter_map(|(name, exported, want)| {
        let found = ungated(&format!("export default {exported}"));
        let same = node(&found).is_some_and(|found| node(want) == Some(found));
        (found != *want && !same).then(|| format!("{name}: {found}"))
    });
    assert_eq!(other.collect::<Vec<_>>(), [""; 0]);
}

/// What the gate would have stopped asks the engine for its time like anything else; if it did not,
/// this test would not end.
#[test]
fn loops_and_bombs_end_without_a_gate() {
    for (name, body) in ends::LOOPS.iter().chain(ends::BOMBS) {
        if ends::is_gated(body) {
            let said = ended(&format!("export default async () => {{ {body} }}"), 100);
            assert!(said.starts_with("Failed") || said.starts_with("script_"), "{name}: {said}");
        }
    }
}
