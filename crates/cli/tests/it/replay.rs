//! Replay is offline and exact, and tells what differs.

use std::sync::Arc;

use glasshouse_kernel::driver::protected;
use glasshouse_kernel::session::Replay;
use glasshouse_model::body::SessionCreated;
use glasshouse_model::{Event, Kind};
use glasshouse_policy::{Policy, Source};
use serde_json::{Value, json};

use crate::code::{plan, show};
use crate::harness::Place;

/// The demo's session: denials, reviews, a rollback, a retry, evidence, a merge.
fn demo() -> (Place, String, Vec<Event>) {
    let place = Place::new();
    let dir = place.path("sample").display().to_string();
    place.run(&["demo", "--json", "--dir", &dir]).expect_status(0);
    let (session, events) = place.events();
    (place, session.to_string(), events)
}

/// B5: twenty replays, one digest, and nothing is added to the log.
#[test]
fn e2e_law_7_b5_twenty_replays_are_one() {
    let (place, session, events) = demo();
    std::fs::remove_dir_all(place.path("sample")).unwrap();
    let replay = || place.run(&["session", "replay", &session, "--json"]).expect_status(0).last();
    let first = replay();
    assert_eq!(first["equal"], true);
    assert_eq!(first["events"], events.len());
    let requests = events.iter().filter(|event| *event.kind() == Kind::ModelRequested).count();
    assert_eq!(first["model_requests"], requests);
    for _ in 1..20 {
        assert_eq!(replay(), first);
    }
    assert_eq!(place.events().1.len(), events.len());
    let part = place.run(&["session", "replay", &session, "--to", "20", "--json"]).last();
    assert_eq!(part["events"], 20);
    place.run(&["session", "replay", &session, "--branch", "b_none"]).expect_status(10);
    place.run(&["session", "replay", "s_none"]).expect_status(10);
}

/// The policy that the session was started with.
fn policy_of(place: &Place, events: &[Event]) -> Policy {
    let created: SessionCreated = events[0].body_as().unwrap();
    let log = place.log();
    let texts = created.policy.iter().map(|source| {
        let text = log.blob(&source.text.blob).unwrap();
        (source.name.clone(), String::from_utf8(text).unwrap())
    });
    let texts: Vec<_> = texts.collect();
    let sources: Vec<_> = texts.iter().map(|(name, text)| Source::new(name, text)).collect();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_glasshouse"));
    Policy::compile(&sources, &protected(&place.home(), program)).unwrap()
}

/// Whatever is changed in the code or in the record, the first event that shows it is named.
#[test]
fn law_7_the_first_difference_is_named() {
    let (place, _, events) = demo();
    let policy = Arc::new(policy_of(&place, &events));
    let registry = glasshouse_tools::Registry::builtin();
    let told = glasshouse_kernel::driver::tools_told(&registry);
    let check = |change: &dyn Fn(&mut Vec<Event>), tools: usize, expected: Option<(Kind, &str)>| {
        let mut events = events.clone();
        change(&mut events);
        let mut replay = Replay::new(&told[..tools], Some(Arc::clone(&policy)));
        let found = events.iter().find_map(|event| replay.step(event).err());
        let found = found.map(|found| (found.kind, found.what));
        assert_eq!(found, expected.map(|(kind, what)| (kind.as_str().to_owned(), what)));
    };
    let find = |events: &[Event], kind: &Kind, nth: usize| {
        let all = events.iter().enumerate().filter(|(_, event)| event.kind() == kind);
        all.map(|(at, _)| at).nth(nth).unwrap()
    };
    check(&|_| {}, told.len(), None);
    // The prompt's code changed: a tool less is told of.
    check(&|_| {}, told.len() - 1, Some((Kind::ModelRequested, "model_request")));
    // An answer was changed: the next request would have been another.
    let answer = |events: &mut Vec<Event>| {
        let at = find(events, &Kind::ModelCompleted, 0);
        events[at].body["text"] = "something else".into();
    };
    check(&answer, told.len(), Some((Kind::ModelRequested, "model_request")));
    // A transition that nothing implies, and one that is missing.
    let jump = |events: &mut Vec<Event>| {
        let at = find(events, &Kind::WorkflowTransitioned, 1);
        events[at].body["to"] = "committing".into();
    };
    check(&jump, told.len(), Some((Kind::WorkflowTransitioned, "implied_event")));
    let extra = |events: &mut Vec<Event>| {
        let from = find(events, &Kind::WorkflowTransitioned, 1);
        let copy = events[from].clone();
        let at = find(events, &Kind::ModelRequested, 1);
        events.insert(at, copy);
    };
    check(&extra, told.len(), Some((Kind::WorkflowTransitioned, "unexplained_event")));
    let lost = |events: &mut Vec<Event>| {
        events.remove(find(events, &Kind::BudgetCharged, 0));
    };
    let next = find(&events, &Kind::BudgetCharged, 0) + 1;
    check(&lost, told.len(), Some((events[next].kind().clone(), "implied_event")));
    // A decision that these rules do not make of this call.
    let opened = |events: &mut Vec<Event>| {
        let at = events.iter().position(|event| {
            *event.kind() == Kind::PolicyDecided && event.body["decision"] == "deny"
        });
        events[at.unwrap()].body["input"]["state"] = "exploring".into();
    };
    check(&opened, told.len(), Some((Kind::PolicyDecided, "decision")));
    // A call that runs without having been allowed.
    let unasked = |events: &mut Vec<Event>| {
        let from = find(events, &Kind::ToolStarted, 0);
        let copy = events[from].clone();
        let at = find(events, &Kind::ToolStarted, 1);
        events.insert(at, copy);
    };
    check(&unasked, told.len(), Some((Kind::ToolStarted, "unexplained_event")));
}

/// The failure: a run close to its limit was told to differ when it was made again on a busy machine, and so was one that had
/// reached it. A replay had the time of the run. Now: it has ten times that, and what ended at its time is not replayable.
#[test]
fn e2e_law_7_a_run_does_not_differ_for_the_time_that_it_took() {
    let place = Place::new();
    let spin = |steps: u64| {
        format!(
            "let n = 0; for (let at = 0; at < {steps}; at += 1) n += at; export default 'made ' + n"
        )
    };
    let shown = |steps: u64| {
        let source = json!({"code": spin(steps), "language": "js"});
        let asked = json!({"capabilities": {"maxExecutionMs": 200}});
        show(&place, &plan(&place, &format!("spin-{steps}"), &source, &asked), "trusted")
            .expect_status(0)
            .last()
    };
    // As many steps as fit at all: the last run that still made something.
    let mut steps = 500_000;
    let mut made = Value::Null;
    loop {
        let run = shown(steps);
        if run["script"]["limit"] == "time" {
            let late = place.run(&["ui", "replay", &run["run"].to_string(), "--json"]);
            let is_equal = late.status == Some(0) && late.last()["equal"] == true;
            assert!(is_equal || late.stdout.contains("plan_run_not_replayable"), "{late:?}");
            break;
        }
        (made, steps) = (run, steps * 5 / 4);
    }
    for _ in 0..4 {
        let replayed = place.run(&["ui", "replay", &made["run"].to_string(), "--json"]);
        assert_eq!(replayed.expect_status(0).last()["equal"], true);
    }
}

/// The failure: seven replays of a run that loops ran at once, where of seven runs four do. A replay took no place. Now: as many
/// replays are under way as runs may be, and the others are told so.
#[test]
fn e2e_replays_have_places_as_runs_have() {
    let place = Place::new();
    let source = json!({"code": "for (;;); export default 1", "language": "js"});
    let asked = json!({"capabilities": {"maxExecutionMs": 2000}});
    let run =
        show(&place, &plan(&place, "loop", &source, &asked), "trusted").expect_status(0).last();
    let run = run["run"].to_string();
    let ends: Vec<Option<i32>> = std::thread::scope(|scope| {
        let replays: Vec<_> = (0..7)
            .map(|_| scope.spawn(|| place.run(&["ui", "replay", &run, "--json"]).status))
            .collect();
        replays.into_iter().map(|replay| replay.join().unwrap()).collect()
    });
    let throttled = ends.iter().filter(|end| **end == Some(8)).count();
    assert!((1..=6).contains(&throttled), "{ends:?}");
    place.run(&["ui", "replay", &run, "--json"]).expect_status(0);
}
