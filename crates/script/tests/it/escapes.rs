//! Attempts to get out of the engine, each once as a source of a plan goes: through the gate, the compiler and a
//! sandbox. What the gate refuses here is tried again without a gate beside the engine itself. Every
//! kind of attempt has a control in which it succeeds: the same text in Node.js, which takes nothing away.

use std::time::{Duration, Instant};

use glasshouse_sandbox::Cancel;
use glasshouse_script::{Language, Limit, Limits, Runtime, Source, Task, codes};
use serde_json::Value;

use crate::node::{self, Bait};
use crate::skips::skipped;
use crate::support::{engine, host, task};

#[path = "../attempts/ends.rs"]
mod ends;
#[path = "../attempts/forging.rs"]
mod forging;
#[path = "../attempts/reach.rs"]
mod reach;
#[path = "../attempts/reading.rs"]
mod reading;

use ends::{BOMBS, LOOPS};
use forging::FORGING;
use reach::{ENGINE_ONLY, Goal, LEFT, REACH};
use reading::READING;

/// Time of a run that does not end by itself.
const TIME_MS: u64 = 100;
/// By how much its end may be late.
const LATE_US: u64 = 100_000;
/// How often an end that was late is looked at again: a busy machine is late once, code that gets away
/// is late every time.
const TRIES: usize = 6;

/// How a source ends: an error code, a text that it makes, or another node as JSON.
fn end(code: &str, language: Language, task: &Task) -> (String, glasshouse_script::Receipt) {
    let worker = engine().worker(host()).unwrap();
    let cancel = Cancel::new().unwrap();
    let manifest = Default::default();
    let source = Source::new(code, language, task.runtime, &manifest);
    let program = match worker.compile(&source, &cancel) {
        Ok(program) => program,
        Err(error) => return (error.code().to_owned(), Default::default()),
    };
    let ran = match worker.run(&program, task, &cancel) {
        // A module that it imports is nowhere, so nothing was run.
        Err(error) if error.is(codes::MODULE_UNAVAILABLE) => {
            return (error.code().to_owned(), Default::default());
        }
        ran => ran.unwrap(),
    };
    let said = match ran.node {
        Ok(node) if node["type"] == "text" && node.as_object().unwrap().len() == 2 => {
            node["value"].as_str().unwrap().to_owned()
        }
        Ok(node) => node.to_string(),
        Err(error) => error.code().to_owned(),
    };
    (said, ran.receipt)
}

fn said(code: &str) -> String {
    end(code, Language::Js, &task(Runtime::Renderify)).0
}

#[test]
fn nothing_is_reached() {
    let bait = Bait::new();
    let mut at_the_gate = 0;
    for (goal, name, body) in REACH.iter().chain(ENGINE_ONLY) {
        let code = node::module(body, &bait);
        let first = said(&code);
        match goal {
            Goal::Chance => assert_eq!(first, said(&code), "{name}"),
            _ => assert!(!first.starts_with("got "), "{goal:?} {name}: {first}"),
        }
        at_the_gate += usize::from(first.starts_with("script_"));
    }
    assert_eq!(bait.hits(), 0);
    // The gate stops most of them; all are tried behind it, too, and here some must get that far.
    assert!(at_the_gate < REACH.len() + ENGINE_ONLY.len() - 10, "{at_the_gate}");
}

#[test]
fn every_attempt_reaches_its_goal_where_nothing_is_taken_away() {
    let name = "escapes::every_attempt_reaches_its_goal_where_nothing_is_taken_away";
    let bait = Bait::new();
    let bodies: Vec<(&str, &str)> = REACH.iter().map(|(_, name, body)| (*name, *body)).collect();
    let Some(first) = node::reached(&bodies, &bait, ("Asia/Tokyo", "de_DE.UTF-8")) else {
        return skipped(name, node::NONE);
    };
    let second = node::reached(&bodies, &bait, ("America/New_York", "en_US.UTF-8")).unwrap();
    let failed = REACH.iter().filter(|(goal, name, _)| {
        let same = *goal == Goal::Chance && first[*name] == second[*name];
        !first[*name].starts_with("got ") || same
    });
    let failed: Vec<String> =
        failed.map(|(_, name, _)| format!("{name}: {}", first[*name])).collect();
    assert_eq!(failed, [""; 0]);
    assert!(bait.hits() >= 4, "{}", bait.hits());
}

#[test]
fn one_run_leaves_nothing_for_another() {
    let bait = Bait::new();
    for (name, poison, probe) in LEFT {
        said(&node::module(&format!("{poison}; return 1"), &bait));
        let found = said(&node::module(probe, &bait));
        assert!(!found.starts_with("got "), "{name}: {found}");
    }
}

#[test]
fn one_run_leaves_everything_where_runs_share_an_engine() {
    let name = "escapes::one_run_leaves_everything_where_runs_share_an_engine";
    let Some(found) = node::left(LEFT) else { return skipped(name, node::NONE) };
    let failed = LEFT.iter().filter(|(name, ..)| !found[*name].starts_with("got "));
    let failed: Vec<String> =
        failed.map(|(name, ..)| format!("{name}: {}", found[*name])).collect();
    assert_eq!(failed, [""; 0]);
}

#[test]
fn what_comes_back_is_data() {
    let other = FORGING.iter().filter_map(|(name, exported, want)| {
        let found = said(&format!("export default {exported}"));
        // The gate refuses what names prototypes; behind it the answer is as the table says.
        let refused = found == "script_source_denied";
        (!refused && !same(&found, want)).then(|| format!("{name}: {found}"))
    });
    assert_eq!(other.collect::<Vec<_>>(), [""; 0]);
}

/// Two texts, or two nodes whose members stand in any order.
fn same(found: &str, want: &str) -> bool {
    let node = |text: &str| serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
    found == want || node(found).is_some_and(|found| node(want) == Some(found))
}

#[test]
fn what_is_read_is_what_would_run() {
    let other = READING.iter().filter_map(|(name, code, want)| {
        let found = end(code, Language::Tsx, &task(Runtime::Renderify)).0;
        (!same(&found, want)).then(|| format!("{name}: {found}"))
    });
    assert_eq!(other.collect::<Vec<_>>(), [""; 0]);
}

/// The control of the table: a search for words, which is what others have instead of a reader, lets
/// many of the same sources pass and refuses some that do nothing.
#[test]
fn a_search_for_words_would_see_something_else() {
    let finds = |code: &str| {
        ["eval(", "new Function", "fetch(", "process.", "require(", "child_process"]
            .iter()
            .any(|word| code.contains(word))
    };
    let refused = |want: &str| want.starts_with("script_");
    let missed = READING.iter().filter(|(_, code, want)| refused(want) && !finds(code)).count();
    let wronged = READING.iter().filter(|(_, code, want)| !refused(want) && finds(code)).count();
    assert!(missed >= 15 && wronged >= 2, "{missed} {wronged}");
}

/// Runs what does not end, until an end was in time.
fn check_ends(attempts: &[(&str, &str)]) {
    let limits = Limits { time_ms: TIME_MS, ..Limits::default() };
    let short = Task { limits, ..task(Runtime::Renderify) };
    let mut bad = Vec::new();
    for (name, body) in attempts {
        let code = format!("export default async () => {{ {body} }}");
        let mut least = u64::MAX;
        for _ in 0..TRIES {
            let (end, receipt) = end(&code, Language::Js, &short);
            if end == "script_source_denied" && ends::is_gated(body) {
                // It is tried beside the engine.
                least = 0;
                break;
            }
            if receipt.killed == Some("crashed") || end == "script_source_denied" {
                bad.push(format!("{name}: {end} {:?}", receipt.killed));
            }
            least = least.min(receipt.duration_us.saturating_sub(TIME_MS * 1_000));
            if least <= LATE_US {
                break;
            }
        }
        if least > LATE_US {
            bad.push(format!("{name}: {least} us late"));
        }
    }
    assert_eq!(bad, [""; 0]);
}

#[test]
fn loops_end_in_time() {
    check_ends(&LOOPS[..LOOPS.len() / 2]);
}

#[test]
fn more_loops_end_in_time() {
    check_ends(&LOOPS[LOOPS.len() / 2..]);
}

#[test]
fn bombs_end_in_time() {
    check_ends(BOMBS);
}

/// The control: each kind goes on for at least three times as long where nobody stops it.
#[test]
fn loops_and_bombs_go_on_where_nobody_ends_them() {
    let name = "escapes::loops_and_bombs_go_on_where_nobody_ends_them";
    for want in [
        "while",
        "promises",
        "getter",
        "comparator",
        "expression-nested",
        "search-in-text",
        "last-index-of-length",
        "big-product",
        "awaits-of-thenables",
    ] {
        let body = LOOPS.iter().find(|(name, _)| *name == want).unwrap().1;
        let Some(mut running) = node::start(body) else { return skipped(name, node::NONE) };
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(3 * (TIME_MS + LATE_US / 1_000)) {
            assert!(running.is_running(), "{want} ended by itself");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    for want in ["array", "map", "closures", "pending-promises"] {
        let body = BOMBS.iter().find(|(name, _)| *name == want).unwrap().1;
        let mut running = node::start(body).unwrap();
        let begun = Instant::now();
        while running.memory_bytes() < 2 * Limits::default().memory_bytes as u64 {
            assert!(running.is_running() && begun.elapsed() < Duration::from_secs(20), "{want}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What is said of a run that was ended is what ended it.
#[test]
fn what_ended_a_run_is_told() {
    for (name, limit, killed) in [
        ("while", Limit::Time, None),
        ("search-in-text", Limit::Time, Some("deadline")),
        ("awaits", Limit::Time, None),
    ] {
        let body = LOOPS.iter().find(|(known, _)| *known == name).unwrap().1;
        let code = format!("export default async () => {{ {body} }}");
        let limits = Limits { time_ms: TIME_MS, jobs: u64::MAX, ..Limits::default() };
        let task = Task { limits, ..task(Runtime::Renderify) };
        let (end, receipt) = end(&code, Language::Js, &task);
        assert_eq!((end.as_str(), receipt.limit), ("script_limit", Some(limit)), "{name}");
        // A process that was late to say so itself was killed: both are the same limit.
        assert!(
            receipt.killed == killed || receipt.killed == Some("deadline"),
            "{name}: {receipt:?}"
        );
    }
}
