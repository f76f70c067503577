//! Replay is offline and exact, and tells what differs.

use glasshouse_kernel::driver::protected;
use glasshouse_kernel::session::Replay;
use glasshouse_model::body::SessionCreated;
use glasshouse_model::{Event, Kind};
use glasshouse_policy::{Policy, Source};

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
    let policy = policy_of(&place, &events);
    let registry = glasshouse_tools::Registry::builtin();
    let told = glasshouse_kernel::driver::tools_told(&registry);
    let check = |change: &dyn Fn(&mut Vec<Event>), tools: usize, expected: Option<(Kind, &str)>| {
        let mut events = events.clone();
        change(&mut events);
        let mut replay = Replay::new(&told[..tools], Some(&policy));
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
