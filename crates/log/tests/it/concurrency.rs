//! Many writers at once: threads, processes, and groups in which some appends fail.

use std::collections::HashSet;
use std::sync::Barrier;

use glasshouse_log::{Append, Log};
use glasshouse_model::TenantId;

use crate::child::Process;
use crate::support::{Fixture, branch, draft, numbered, root, session};

#[test]
fn a11_sixty_four_writers_make_one_chain() {
    let mut fixture = Fixture::new();
    std::thread::scope(|scope| {
        for writer in 0..64_u64 {
            let log = fixture.log();
            scope.spawn(move || {
                for n in 0..100 {
                    log.append(numbered("b_main", writer * 100 + n)).unwrap();
                }
            });
        }
    });
    let stats = fixture.log().stats();
    assert_eq!(stats.events, 6_400);
    assert!(stats.commits < 1_600, "groups share syncs: {stats:?}");
    let events: Vec<_> = fixture.log().events(&branch("b_main")).map(Result::unwrap).collect();
    assert!(events.iter().map(|event| event.seq()).eq(1..=6_400));
    let prevs: HashSet<_> = events.iter().map(|event| event.prev).collect();
    assert_eq!(prevs.len(), 6_400, "each event follows another");
    let mut numbers: Vec<_> = events.iter().map(|e| e.body["n"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..6_400), "each append is there once");
    assert_eq!(fixture.verdict(), "ok 6400");
}

/// Writers that all expect the same head meet in one group: one of them is right each time, and
/// the failures of the others do not touch it.
#[test]
fn a_failed_append_does_not_fail_its_group() {
    const WRITERS: u64 = 16;
    const ROUNDS: u64 = 20;
    let mut fixture = Fixture::new();
    let barrier = Barrier::new(16);
    let write = || {
        let mut stored = 0;
        for head in 0..ROUNDS {
            barrier.wait();
            let expected_head = Some(head);
            match fixture.log().append(Append { expected_head, ..numbered("b_main", head) }) {
                Ok(_) => stored += 1,
                Err(error) => assert_eq!(error.code(), "head_conflict"),
            }
            barrier.wait();
        }
        stored
    };
    let stored: u64 = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert_eq!(stored, ROUNDS);
    assert_eq!(fixture.verdict(), format!("ok {ROUNDS}"));
}

#[test]
fn processes_share_a_log() {
    let mut fixture = Fixture::new();
    let mut other = Process::start("append 200", fixture.path());
    std::thread::scope(|scope| {
        let log = fixture.log();
        let writer = scope.spawn(|| {
            for n in 0..200 {
                log.append(numbered("b_main", n)).unwrap();
            }
        });
        let second = Log::open(fixture.path(), &TenantId::local()).unwrap();
        while !writer.is_finished() {
            let verification = second.verify().unwrap();
            assert!(verification.is_ok(), "a log that grows proves itself: {verification:?}");
        }
    });
    assert_eq!(other.report().as_deref(), Some("done"));
    other.wait();
    assert_eq!(fixture.log().head(&branch("b_main")).unwrap().seq, 400);
    assert_eq!(fixture.verdict(), "ok 400");
}

#[test]
fn branches_of_many_sessions_grow_side_by_side() {
    let mut fixture = Fixture::new();
    for n in 2..=9 {
        fixture.log().create_branch(root(&format!("s_{n}"), &format!("b_{n}"))).unwrap();
    }
    std::thread::scope(|scope| {
        for n in 2..=9 {
            let log = fixture.log();
            scope.spawn(move || {
                for size in 1..=20 {
                    let drafts = (0..size).map(draft).collect();
                    let (session, branch) = (session(&format!("s_{n}")), branch(&format!("b_{n}")));
                    log.append(Append::new(session, branch, drafts)).unwrap();
                }
            });
        }
    });
    assert_eq!(fixture.verdict(), format!("ok {}", 8 * 210));
}
