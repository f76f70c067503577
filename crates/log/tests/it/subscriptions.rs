//! Following a branch: every event once and in order, whenever one begins, however slow one is.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use glasshouse_log::{Append, Follower, Log, Subscription};
use glasshouse_model::{Draft, Event, Kind, TenantId};
use serde_json::json;

use crate::child::Process;
use crate::support::{Fixture, branch, erase, fork, numbered, session};

const PATIENCE: Duration = Duration::from_secs(30);

/// Reads until so many events came.
fn read(subscription: &mut Subscription, events: usize) -> Vec<u64> {
    let mut seqs = Vec::new();
    while seqs.len() < events {
        let page = subscription.next_events(PATIENCE).unwrap();
        assert!(!page.is_empty(), "{} of {events} came", seqs.len());
        seqs.extend(page.iter().map(|event| event.seq()));
    }
    seqs
}

/// A hundred subscribers come while a producer emits a thousand events: each sees all of them.
#[test]
fn c1_who_subscribes_meanwhile_sees_every_event_once() {
    let fixture = Fixture::new();
    let begin = Arc::new(Barrier::new(101));
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..100_u64)
            .map(|n| {
                let (log, begin) = (fixture.log(), Arc::clone(&begin));
                scope.spawn(move || {
                    begin.wait();
                    // Each comes at another moment: when the log has about ten events a number.
                    while log.head(&branch("b_main")).unwrap().seq < n * 9 {
                        std::thread::yield_now();
                    }
                    read(&mut log.subscribe(&branch("b_main"), 1).unwrap(), 1_000)
                })
            })
            .collect();
        begin.wait();
        for n in 1..=1_000 {
            fixture.append(n);
        }
        for reader in readers {
            assert!(reader.join().unwrap().into_iter().eq(1..=1_000));
        }
    });
}

#[test]
fn a_cursor_goes_on_where_it_was_also_after_a_restart() {
    let mut fixture = Fixture::of_events(700);
    let mut first = fixture.log().subscribe(&branch("b_main"), 1).unwrap();
    let seen = read(&mut first, 1);
    let cursor = first.cursor();
    assert_eq!(cursor, u64::try_from(seen.len()).unwrap() + 1);
    drop(first);
    let mut again = fixture.open().subscribe(&branch("b_main"), cursor).unwrap();
    let rest = read(&mut again, 700 - seen.len());
    assert!(seen.into_iter().chain(rest).eq(1..=700));
    assert!(again.next_events(Duration::ZERO).unwrap().is_empty());
    fixture.append(701);
    assert_eq!(read(&mut again, 1), [701]);
}

#[test]
fn a_fork_is_followed_through_its_past() {
    let fixture = Fixture::of_events(5);
    fixture.log().create_branch(fork("b_fork", "b_main", 3)).unwrap();
    let mut followed = fixture.log().subscribe(&branch("b_fork"), 2).unwrap();
    fixture.log().append(numbered("b_fork", 9)).unwrap();
    assert_eq!(read(&mut followed, 3), [2, 3, 4]);
    let unknown = fixture.log().subscribe(&branch("b_none"), 1);
    assert_eq!(unknown.unwrap_err().code(), "branch_not_found");
}

#[test]
fn what_another_process_stores_is_seen_too() {
    let fixture = Fixture::new();
    let log = Log::open_read_only(fixture.path(), &TenantId::local()).unwrap();
    let mut followed = log.subscribe(&branch("b_main"), 1).unwrap();
    let mut other = Process::start("append 200", fixture.path());
    assert!(read(&mut followed, 200).into_iter().eq(1..=200));
    assert_eq!(other.report().as_deref(), Some("done"));
    other.wait();
}

#[test]
fn a_follower_hears_which_branches_took_events() {
    let fixture = Fixture::of_events(5);
    let mut follower = fixture.log().follow().unwrap();
    let heard = |follower: &mut Follower| -> Vec<(String, u64)> {
        let news = follower.next(Duration::ZERO).unwrap();
        news.into_iter().map(|(branch, seq)| (branch.to_string(), seq)).collect()
    };
    // What was there before is no news.
    assert_eq!(heard(&mut follower), []);
    fixture.log().create_branch(fork("b_fork", "b_main", 3)).unwrap();
    assert_eq!(heard(&mut follower), []);
    fixture.append(6);
    fixture.log().append(numbered("b_fork", 9)).unwrap();
    fixture.append(7);
    assert_eq!(heard(&mut follower), [("b_fork".to_owned(), 4), ("b_main".to_owned(), 7)]);
    assert_eq!(heard(&mut follower), []);
    // It is woken rather than asked: the wait ends long before its limit.
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || follower.next(PATIENCE).unwrap());
        fixture.append(8);
        assert_eq!(waiting.join().unwrap().get(&branch("b_main")), Some(&8));
    });
}

#[test]
fn a_line_says_what_the_event_says() {
    let fixture = Fixture::of_events(5);
    fixture.log().create_branch(fork("b_fork", "b_main", 3)).unwrap();
    fixture.log().append(numbered("b_fork", 9)).unwrap();
    fixture.log().erase(erase(&[("b_main", 2)], &[])).unwrap();
    for (name, from, limit, expected) in
        [("b_main", 1, 100, 6), ("b_main", 2, 3, 3), ("b_fork", 2, 100, 3), ("b_main", 9, 1, 0)]
    {
        let lines = fixture.log().lines(&branch(name), from, limit).unwrap();
        let events = fixture.log().read(&branch(name), from, limit).unwrap();
        assert_eq!((lines.len(), events.len()), (expected, expected), "{name} {from}");
        for ((seq, line), event) in lines.iter().zip(&events) {
            assert_eq!(*seq, event.seq());
            assert_eq!(serde_json::from_str::<Event>(line).unwrap(), *event);
        }
    }
}

/// A page of long events is cut by bytes: a reader's memory does not grow with what somebody wrote.
#[test]
fn a_page_of_lines_is_bounded_in_bytes() {
    let fixture = Fixture::of_events(0);
    let log = fixture.log();
    let long = "x".repeat(300_000);
    for _ in 0..24 {
        let draft = Draft::new(Kind::Heartbeat, &json!({ "n": 1, "text": long }));
        log.append(Append::new(session("s_1"), branch("b_main"), vec![draft])).unwrap();
    }
    let page = |from| {
        let lines = log.lines(&branch("b_main"), from, 512).unwrap();
        lines.iter().map(|(seq, _)| *seq).collect::<Vec<_>>()
    };
    assert_eq!(page(1), (1..=16).collect::<Vec<_>>());
    assert_eq!(page(17), (17..=24).collect::<Vec<_>>());
    assert!(page(25).is_empty());
    assert_eq!(log.lines(&branch("b_main"), 1, 3).unwrap().len(), 3);
}
