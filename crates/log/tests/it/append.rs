//! Appending: what is stored, what is refused, and that refusals leave nothing behind.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use glasshouse_log::{Append, Log};
use glasshouse_model::{Actor, Draft, Kind, PrincipalKind, TenantId};
use serde_json::{Value, json};

use crate::support::{
    Fixture, ManualClock, branch, clocked, draft, numbered, numbers, records, refusal, session,
};

#[test]
fn events_read_back_as_they_were_returned() {
    let mut fixture = Fixture::new();
    let mut first = numbered("b_main", 1);
    first.events.push(
        Draft::new(Kind::ToolProposed, &json!({"tool": "fs.read", "path": "ä/\u{1f980}"}))
            .by(Actor { kind: PrincipalKind::Agent, id: "agent".into() })
            .caused_by(1)
            .label("web"),
    );
    let appended = fixture.log().append(first).unwrap();
    assert_eq!((appended.head.seq, appended.replayed), (2, false));
    assert_eq!(appended.events[1].prev, appended.events[0].hash);
    let log = fixture.open();
    assert_eq!(log.read(&branch("b_main"), 1, 10).unwrap(), appended.events);
    assert_eq!(log.read(&branch("b_main"), 2, 10).unwrap(), appended.events[1..]);
    assert_eq!(log.read(&branch("b_main"), 3, 10).unwrap(), []);
    assert_eq!(log.head(&branch("b_main")).unwrap(), appended.head);
}

#[test]
fn unknown_kinds_and_odd_bodies_keep_their_bytes() {
    let mut fixture = Fixture::new();
    let body: Value = serde_json::from_str(r#"{"z":1e2,"a":[18446744073709551615,-0.0]}"#).unwrap();
    let mut event = draft(0);
    (event.kind, event.body) = ("later.happened".parse().unwrap(), body.clone());
    let append = Append::new(session("s_1"), branch("b_main"), vec![event]);
    fixture.log().append(append).unwrap();
    let before = records(fixture.log(), "b_main");
    assert_eq!(before[0].body, serde_json::to_vec(&body).unwrap());
    let log = fixture.open();
    assert_eq!(records(log, "b_main"), before);
    let event = &log.read(&branch("b_main"), 1, 1).unwrap()[0];
    assert_eq!((event.kind().as_str(), &event.body), ("later.happened", &body));
}

#[test]
fn stored_times_keep_every_digit() {
    let clock = Arc::new(ManualClock::default());
    let mut fixture = Fixture::with(clocked(&clock));
    for n in 0..100 {
        clock.now_us.store(1_790_000_000_000_000 + n * 7_919, Ordering::SeqCst);
        let drafts = (0..100).map(draft).collect();
        let append = Append::new(session("s_1"), branch("b_main"), drafts);
        fixture.log().append(append).unwrap();
    }
    assert_eq!(fixture.verdict(), "ok 10000");
    let last = fixture.open().read(&branch("b_main"), 10_000, 1).unwrap().remove(0);
    assert_eq!(last.header.time_us, 1_790_000_000_000_000 + 99 * 7_919);
}

#[test]
fn a_writer_that_looked_too_early_is_told_the_head() {
    let fixture = Fixture::of_events(3);
    let at = |expected| Append { expected_head: Some(expected), ..numbered("b_main", 4) };
    assert_eq!(refusal(fixture.log().append(at(2)), "head"), "head_conflict head=3");
    assert_eq!(refusal(fixture.log().append(at(4)), "head"), "head_conflict head=3");
    assert_eq!(fixture.log().append(at(3)).unwrap().head.seq, 4);
}

#[test]
fn a_key_names_one_request_of_its_branch() {
    let mut fixture = Fixture::of_events(2);
    let keyed = |branch: &str, n| Append {
        idempotency_key: Some("k".into()),
        expected_head: Some(2),
        ..numbered(branch, n)
    };
    let first = fixture.log().append(keyed("b_main", 3)).unwrap();
    fixture.append(4);
    for log in [fixture.log().clone(), fixture.open().clone()] {
        let again = log.append(keyed("b_main", 99)).unwrap();
        assert!(again.replayed);
        assert_eq!((again.events, again.head), (first.events.clone(), first.head));
    }
    assert_eq!(numbers(fixture.log(), "b_main"), [1, 2, 3, 4]);
    fixture.log().create_branch(crate::support::fork("b_fork", "b_main", 2)).unwrap();
    assert!(!fixture.log().append(keyed("b_fork", 5)).unwrap().replayed, "another branch");
}

#[test]
fn each_wrong_request_has_its_code() {
    let fixture = Fixture::of_events(1);
    let check = |append: Append, expected: &str| {
        let error = fixture.log().append(append).unwrap_err();
        assert_eq!(error.code(), expected);
    };
    check(numbered("b_none", 1), "branch_not_found");
    check(Append { session: session("s_2"), ..numbered("b_main", 1) }, "branch_not_found");
    check(Append { events: vec![], ..numbered("b_main", 1) }, "append_invalid");
    check(Append { epoch: Some(1), ..numbered("b_main", 1) }, "lease_lost");
    let mut large = numbered("b_main", 1);
    large.events[0].body = "x".repeat(1 << 20).into();
    check(large, "body_too_large");
    assert_eq!(numbers(fixture.log(), "b_main"), [1]);
}

#[test]
fn a_home_belongs_to_one_tenant_and_one_format() {
    let mut fixture = Fixture::of_events(1);
    fixture.close();
    let other = "other".parse::<TenantId>().unwrap();
    assert_eq!(refusal(Log::open(fixture.path(), &other), ""), "tenant_mismatch");
    fixture.database().execute_batch("PRAGMA user_version = 3").unwrap();
    let opened = Log::open(fixture.path(), &TenantId::local());
    assert_eq!(refusal(opened, "format"), "log_format_unknown format=3");
}
