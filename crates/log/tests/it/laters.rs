//! Appends that wait for others: what they share, what takes them along, and what they never do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use glasshouse_log::{Append, CellWrite, Durability, Log, durability};
use glasshouse_model::{Draft, Kind, TenantId};
use serde_json::json;

use crate::disk::{Disk, Survives};
use crate::support::{Fixture, branch, numbered, numbers, refusal, root, session, verdict};

fn of_kind(kind: Kind) -> Append {
    Append::new(session("s_1"), branch("b_main"), vec![Draft::new(kind, &json!({"n": 0}))])
}

#[test]
fn only_what_observes_may_wait() {
    let fixture = Fixture::new();
    let check = |kind: Kind, expected_ms: Option<u64>| {
        let delay = match durability(&kind) {
            Durability::Committed => None,
            Durability::Grouped(delay) => Some(u64::try_from(delay.as_millis()).unwrap()),
        };
        assert_eq!(delay, expected_ms, "{kind}");
        let outcome = fixture.log().append_later(of_kind(kind.clone()));
        match expected_ms {
            Some(_) => drop(outcome.unwrap().wait().unwrap()),
            None => assert_eq!(refusal(outcome, ""), "kind_needs_commit", "{kind}"),
        }
    };
    check(Kind::Heartbeat, Some(500));
    check(Kind::StateEstimated, Some(500));
    check(Kind::ObservationExtracted, Some(500));
    check(Kind::ModelPartial, Some(100));
    check(Kind::PlanPreviewed, Some(100));
    for kind in [
        Kind::PolicyDecided,
        Kind::PolicyUpdated,
        Kind::GrantIssued,
        Kind::GrantUsed,
        Kind::GrantRevoked,
        Kind::ApprovalRequested,
        Kind::ApprovalResolved,
        Kind::ToolStarted,
        Kind::ToolCompleted,
        Kind::ToolDenied,
        Kind::ModelRequested,
        Kind::ModelCompleted,
        Kind::MergeApproved,
        Kind::MergeApplied,
        Kind::CommitCreated,
        Kind::SessionCreated,
        Kind::SessionModeChanged,
        Kind::TurnCompleted,
        Kind::WorkflowTransitioned,
        Kind::TestEvidence,
        Kind::LogErased,
        Kind::KeyRevoked,
        "some.future_kind".parse().unwrap(),
    ] {
        check(kind, None);
    }
    let both = vec![Draft::new(Kind::Heartbeat, &1), Draft::new(Kind::ToolStarted, &1)];
    let both = Append::new(session("s_1"), branch("b_main"), both);
    assert_eq!(refusal(fixture.log().append_later(both), ""), "kind_needs_commit");
    let cell = CellWrite {
        space: "grant".into(),
        key: "g".into(),
        expected_version: None,
        bytes: Some(vec![1]),
    };
    let counting = Append { cells: vec![cell], ..of_kind(Kind::Heartbeat) };
    assert_eq!(refusal(fixture.log().append_later(counting), ""), "kind_needs_commit");
    assert_eq!(fixture.log().head(&branch("b_main")).unwrap().seq, 5, "nothing refused is there");
}

/// An append that may not wait takes the others along, before it and with its own sync.
#[test]
fn what_waits_shares_the_sync_of_what_does_not() {
    let disk = Disk::new();
    let fixture = Fixture::with(disk.options());
    fixture.append(0);
    // While a group is being stored, what comes makes up the next one, however slow the machine is.
    let (entered, is_in) = sync_channel(0);
    let (release, released) = sync_channel(0);
    let first = Arc::new(AtomicU64::new(1));
    disk.observe_syncs(move |_| {
        if first.swap(0, Ordering::SeqCst) == 1 {
            entered.send(()).unwrap();
            released.recv().unwrap();
        }
    });
    std::thread::scope(|scope| {
        let blocking = scope.spawn(|| fixture.append(1));
        is_in.recv().unwrap();
        let before = disk.syncs();
        let laters: Vec<_> =
            (2..=9).map(|n| fixture.log().append_later(numbered("b_main", n)).unwrap()).collect();
        let urgent = scope.spawn(|| fixture.append(10));
        release.send(()).unwrap();
        blocking.join().unwrap();
        let last = urgent.join().unwrap().head.seq;
        for later in laters {
            assert!(later.wait().unwrap().head.seq <= 10);
        }
        assert_eq!(last, 11);
        // The blocked one's sync was counted before or after it ran; the nine share one.
        assert!(disk.syncs() - before <= 2, "{} syncs", disk.syncs() - before);
    });
    assert_eq!(numbers(fixture.log(), "b_main"), (0..=10).collect::<Vec<u64>>());
}

#[test]
fn a_hundred_that_wait_are_company_enough() {
    let fixture = Fixture::of_events(1);
    let before = fixture.log().stats();
    let later = |n| fixture.log().append_later(numbered("b_main", n)).unwrap();
    let all: Vec<_> = (2..=201).map(later).collect();
    for later in all {
        later.wait().unwrap();
    }
    let commits = fixture.log().stats().commits - before.commits;
    assert!(commits <= 20, "200 appends took {commits} syncs");
    assert_eq!(numbers(fixture.log(), "b_main"), (1..=201).collect::<Vec<u64>>());
}

#[test]
fn what_nobody_waits_for_is_stored_too() {
    let check = |end: &dyn Fn(&mut Fixture)| {
        let mut fixture = Fixture::of_events(1);
        for n in 2..=4 {
            drop(fixture.log().append_later(numbered("b_main", n)).unwrap());
        }
        end(&mut fixture);
        let read = Log::open_read_only(fixture.path(), &TenantId::local()).unwrap();
        assert_eq!(numbers(&read, "b_main"), [1, 2, 3, 4]);
        drop(read);
        // With a head that covers it.
        fixture.close();
        let read = Log::open_read_only(fixture.path(), &TenantId::local()).unwrap();
        assert_eq!(read.signed_head().unwrap().tree.size, 4);
        assert_eq!(verdict(&read.verify().unwrap()), "ok 4");
    };
    check(&|fixture| fixture.log().flush().unwrap());
    check(&Fixture::close);
    check(&|fixture| {
        let mut subscription = fixture.log().subscribe(&branch("b_main"), 2).unwrap();
        while subscription.cursor() < 5 {
            assert!(!subscription.next_events(Duration::from_secs(60)).unwrap().is_empty());
        }
    });
    let memory = Log::in_memory(&TenantId::local(), Arc::new(glasshouse_log::SystemClock)).unwrap();
    memory.create_branch(root("s_1", "b_main")).unwrap();
    assert_eq!(memory.append_later(numbered("b_main", 1)).unwrap().wait().unwrap().head.seq, 1);
    memory.flush().unwrap();
}

/// Whatever was seen is on the disk.
#[test]
fn nobody_sees_what_a_loss_of_power_would_take_back() {
    let disk = Disk::new();
    let fixture = Fixture::with(disk.options());
    for n in 1..=200 {
        if n % 7 == 0 {
            fixture.append(n);
        } else {
            drop(fixture.log().append_later(numbered("b_main", n)).unwrap());
        }
        if n % 20 != 0 {
            continue;
        }
        let seen = fixture.log().head(&branch("b_main")).unwrap();
        let left = tempfile::tempdir().unwrap();
        for (path, content) in disk.files() {
            let bytes = content.after_power_loss(Survives::Nothing);
            std::fs::write(left.path().join(path.file_name().unwrap()), bytes).unwrap();
        }
        let left = Log::open_read_only(left.path(), &TenantId::local()).unwrap();
        let records = left.records(&branch("b_main"), seen.seq, 1).unwrap();
        assert_eq!(records.first().map(|record| record.hash), Some(seen.hash), "event {seen:?}");
    }
}

/// A refusal reaches whoever waits, and only them.
#[test]
fn one_that_is_refused_does_not_hold_up_the_others() {
    let fixture = Fixture::of_events(1);
    let wrong = Append { expected_head: Some(9), ..numbered("b_main", 8) };
    let wrong = fixture.log().append_later(wrong).unwrap();
    let right = fixture.log().append_later(numbered("b_main", 2)).unwrap();
    assert_eq!(refusal(wrong.wait(), ""), "head_conflict");
    assert_eq!(right.wait().unwrap().head.seq, 2);
}
