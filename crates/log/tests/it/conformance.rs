//! What every store does alike. A new store joins by one line in [`each`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use glasshouse_log::{
    Append, BranchState, CellWrite, Consistency, Erase, Head, Log, MergeBranch, NewBranch,
};
use glasshouse_model::body::{BranchMerged, MergeStrategy};
use glasshouse_model::{Actor, Draft, Kind, TenantId};
use serde_json::{Value, json};

use crate::support::{
    self, ManualClock, branch, clocked, draft, fork, numbered, numbers, refusal, root, session,
    verdict,
};

/// Runs a check on a new log of each kind, with the session `s_1` and its branch `b_main`. At the
/// end the log proves itself.
fn each(check: impl Fn(&Log, &ManualClock)) {
    let home = tempfile::tempdir().unwrap();
    for name in ["sqlite", "memory"] {
        let clock = Arc::new(ManualClock::default());
        let log = match name {
            "memory" => Log::in_memory(&TenantId::local(), Arc::clone(&clock) as _),
            _ => Log::open_with(home.path(), &TenantId::local(), clocked(&clock)),
        };
        let log = log.unwrap();
        log.create_branch(root("s_1", "b_main")).unwrap();
        check(&log, &clock);
        log.sign_head().unwrap();
        let found = log.verify().unwrap();
        assert!(found.is_ok(), "{name}: {}", verdict(&found));
    }
}

fn append(log: &Log, branch_id: &str, numbers: std::ops::RangeInclusive<u64>) -> Head {
    numbers.fold(Head::EMPTY, |_, n| log.append(numbered(branch_id, n)).unwrap().head)
}

fn merge(source: &str, source_head: Head, target: &str, target_head: u64) -> MergeBranch {
    MergeBranch {
        resolved: BTreeMap::from([("plan".to_owned(), json!("theirs"))]),
        ..support::merge(source, source_head, target, target_head)
    }
}

#[test]
fn events_read_back_as_they_were_answered() {
    each(|log, clock| {
        clock.now_us.store(7, Ordering::SeqCst);
        let drafts = vec![draft(1), Draft::new(Kind::ToolProposed, &json!({"a": "\u{1f980}"}))];
        let answered = log.append(Append::new(session("s_1"), branch("b_main"), drafts)).unwrap();
        assert_eq!(log.read(&branch("b_main"), 1, 9).unwrap(), answered.events);
        assert_eq!((answered.head.seq, answered.replayed), (2, false));
        assert_eq!(answered.events[1].header.time_us, 7);
        assert_eq!(answered.events[1].prev, answered.events[0].hash);
        assert_eq!(log.head(&branch("b_main")).unwrap(), answered.head);
        assert_eq!(log.read(&branch("b_main"), 2, 9).unwrap().len(), 1);
        assert_eq!(log.read(&branch("b_main"), 3, 9).unwrap().len(), 0);
    });
}

#[test]
fn the_same_key_is_the_same_request() {
    each(|log, _| {
        let keyed = |branch_id: &str, n| Append {
            idempotency_key: Some("k".into()),
            ..numbered(branch_id, n)
        };
        let first = log.append(keyed("b_main", 1)).unwrap();
        append(log, "b_main", 2..=2);
        let again = log.append(keyed("b_main", 99)).unwrap();
        assert!(again.replayed);
        assert_eq!((again.events, again.head), (first.events, first.head));
        log.create_branch(fork("b_fork", "b_main", 2)).unwrap();
        assert!(!log.append(keyed("b_fork", 3)).unwrap().replayed, "another branch");
        assert_eq!(log.append(keyed("b_fork", 9)).unwrap().events[0].body, json!({"n": 3}));
        log.close_branch(&branch("b_fork")).unwrap();
        assert!(log.append(keyed("b_fork", 9)).unwrap().replayed, "also of a branch that ended");
        assert_eq!(numbers(log, "b_main"), [1, 2]);
    });
}

#[test]
fn an_expected_head_that_moved_names_the_actual_one() {
    each(|log, _| {
        let head = append(log, "b_main", 1..=3);
        let stale = Append { expected_head: Some(2), ..numbered("b_main", 9) };
        let error = log.append(stale).unwrap_err().report();
        assert_eq!(error.code, "head_conflict");
        assert_eq!(
            (&error.context["head"], &error.context["expected_head"]),
            (&json!(3), &json!(2))
        );
        assert_eq!(error.context["hash"], json!(head.hash.to_string()));
        log.append(Append { expected_head: Some(3), ..numbered("b_main", 4) }).unwrap();
        assert_eq!(numbers(log, "b_main"), [1, 2, 3, 4]);
    });
}

#[test]
fn a_fork_shares_the_past_and_goes_its_own_way() {
    each(|log, _| {
        append(log, "b_main", 1..=5);
        log.create_branch(fork("b_a", "b_main", 3)).unwrap();
        append(log, "b_a", 40..=41);
        log.create_branch(fork("b_b", "b_a", 4)).unwrap();
        append(log, "b_b", 50..=50);
        log.create_branch(fork("b_c", "b_b", 2)).unwrap();
        assert_eq!(numbers(log, "b_main"), [1, 2, 3, 4, 5]);
        assert_eq!(numbers(log, "b_a"), [1, 2, 3, 40, 41]);
        assert_eq!(numbers(log, "b_b"), [1, 2, 3, 40, 50]);
        assert_eq!(numbers(log, "b_c"), [1, 2]);
        let own = |id: &str, from| -> Vec<(u64, Value)> {
            let own = log.read_own(&branch(id), from, 9).unwrap();
            own.into_iter().map(|(seq, event)| (seq, event.body["n"].clone())).collect()
        };
        assert_eq!(own("b_a", 1), [(1, json!(40)), (2, json!(41))], "a view that begins at 1");
        assert_eq!(own("b_a", 2), [(2, json!(41))]);
        assert_eq!(own("b_b", 0), [(1, json!(50))]);
        assert_eq!(own("b_c", 1), []);
        assert_eq!(own("b_main", 4), [(4, json!(4)), (5, json!(5))]);
        let row = log.branch(&branch("b_a")).unwrap();
        assert_eq!((row.base().seq, row.state), (3, BranchState::Open));
        let branches = log.branches(&session("s_1")).unwrap();
        let ids: Vec<_> = branches.iter().map(|row| row.branch.as_str()).collect();
        assert_eq!(ids, ["b_main", "b_a", "b_b", "b_c"]);
    });
}

#[test]
fn b6_forks_stay_within_their_parent() {
    each(|log, _| {
        append(log, "b_main", 1..=3);
        let check = |new: NewBranch, expected: &str| {
            assert_eq!(refusal(log.create_branch(new), "head"), expected);
        };
        check(fork("b_a", "b_main", 4), "fork_out_of_range head=3");
        check(fork("b_a", "b_main", 0), "fork_out_of_range head=3");
        check(fork("b_a", "b_none", 1), "branch_not_found");
        check(fork("b_main", "b_main", 1), "branch_exists");
        check(NewBranch { name: "main".into(), ..fork("b_a", "b_main", 1) }, "branch_exists");
        check(NewBranch { name: String::new(), ..fork("b_a", "b_main", 1) }, "append_invalid");
        let stranger = NewBranch { session: session("s_2"), ..fork("b_a", "b_main", 1) };
        check(stranger, "branch_not_found");
        check(NewBranch { name: "second".into(), ..root("s_1", "b_a") }, "branch_exists");
        assert_eq!(log.branches(&session("s_1")).unwrap().len(), 1, "nothing was made");
    });
}

#[test]
fn b6_a_merge_is_one_event_with_two_parents_and_ends_its_source() {
    each(|log, _| {
        let before = append(log, "b_main", 1..=2);
        log.create_branch(fork("b_a", "b_main", 2)).unwrap();
        let seen = append(log, "b_a", 3..=3);
        let moved = append(log, "b_a", 4..=4);
        let refused = |merge: MergeBranch, expected: &str| {
            assert_eq!(refusal(log.merge(merge), "head"), expected);
            assert_eq!(numbers(log, "b_main"), [1, 2], "a refused merge leaves no event");
        };
        refused(merge("b_a", seen, "b_main", 2), "head_conflict head=4");
        refused(merge("b_a", moved, "b_main", 1), "head_conflict head=2");
        refused(merge("b_main", before, "b_main", 2), "append_invalid");
        refused(merge("b_main", before, "b_a", 4), "append_invalid");
        log.create_branch(root("s_2", "b_other")).unwrap();
        let other = Append::new(session("s_2"), branch("b_other"), vec![draft(1)]);
        let other = log.append(other).unwrap().head;
        refused(merge("b_other", other, "b_main", 2), "append_invalid");

        let twice = Draft::new(Kind::BranchMerged, &json!({}));
        refused(
            MergeBranch { events: vec![twice], ..merge("b_a", moved, "b_main", 2) },
            "append_invalid",
        );

        let keyed = MergeBranch {
            strategy: MergeStrategy::FastForward,
            idempotency_key: Some("m".into()),
            before: vec![draft(8)],
            events: vec![draft(9)],
            labels: BTreeSet::from(["web".to_owned()]),
            ..merge("b_a", moved, "b_main", 2)
        };
        let merged = log.merge(keyed.clone()).unwrap();
        assert_eq!((merged.events.len(), merged.events[0].prev), (3, before.hash));
        let event = &merged.events[1];
        assert_eq!((event.prev, event.kind()), (merged.events[0].hash, &Kind::BranchMerged));
        assert_eq!(event.header.labels, BTreeSet::from(["web".to_owned()]));
        let said: BranchMerged = event.body_as().unwrap();
        assert_eq!((said.source_hash, said.source_seq, said.base_seq), (moved.hash, 4, 2));
        assert_eq!(said.resolved["plan"], "theirs");
        assert_eq!(merged.head.seq, 5, "what allowed it and what follows are part of it");
        assert!(log.merge(keyed).unwrap().replayed);

        assert_eq!(log.branch(&branch("b_a")).unwrap().state, BranchState::Merged);
        let ended = log.append(numbered("b_a", 5)).unwrap_err().report();
        assert_eq!(ended.code, "branch_read_only");
        assert!(ended.what.contains("b_a") && ended.why.contains("merged"), "{ended:?}");
        assert!(ended.fix.contains("fork"), "{ended:?}");
        assert_eq!(refusal(log.merge(merge("b_a", moved, "b_main", 5)), ""), "branch_read_only");
        log.create_branch(fork("b_b", "b_a", 4)).unwrap();
        append(log, "b_b", 6..=6);
        assert_eq!(numbers(log, "b_b"), [1, 2, 3, 4, 6], "reading and forking go on");
        log.close_branch(&branch("b_b")).unwrap();
        assert_eq!(refusal(log.append(numbered("b_b", 7)), ""), "branch_read_only");
    });
}

#[test]
fn a_fast_forward_is_refused_once_the_target_has_moved() {
    each(|log, _| {
        append(log, "b_main", 1..=2);
        log.create_branch(fork("b_a", "b_main", 2)).unwrap();
        let source = append(log, "b_a", 3..=3);
        append(log, "b_main", 4..=4);
        let fast = MergeBranch {
            strategy: MergeStrategy::FastForward,
            ..merge("b_a", source, "b_main", 3)
        };
        assert_eq!(refusal(log.merge(fast), ""), "append_invalid");
        log.merge(merge("b_a", source, "b_main", 3)).unwrap();
        let erase = Erase {
            session: session("s_1"),
            branch: branch("b_main"),
            events: vec![(branch("b_main"), 4)],
            blobs: Vec::new(),
            reason: "test".into(),
            actor: Actor::kernel(),
            epoch: None,
        };
        assert_eq!(refusal(log.erase(erase), ""), "append_invalid", "it proves the branch's end");
    });
}

#[test]
fn cells_change_with_a_merge_or_neither_does() {
    each(|log, _| {
        append(log, "b_main", 1..=2);
        log.create_branch(fork("b_a", "b_main", 2)).unwrap();
        let source = append(log, "b_a", 3..=3);
        let write = |expected_version, bytes: Option<&[u8]>| CellWrite {
            space: "asked".into(),
            key: "a".into(),
            expected_version: Some(expected_version),
            bytes: bytes.map(<[u8]>::to_vec),
        };
        log.append(Append { cells: vec![write(0, Some(b"open"))], ..numbered("b_main", 4) })
            .unwrap();
        let asked = |version| MergeBranch {
            cells: vec![write(version, None)],
            ..merge("b_a", source, "b_main", 3)
        };
        assert_eq!(refusal(log.merge(asked(7)), ""), "cell_conflict");
        assert_eq!(numbers(log, "b_main"), [1, 2, 4], "nothing is merged");
        log.append(numbered("b_a", 5)).unwrap();
        assert!(log.cell("asked", "a").unwrap().is_some());
        let source = log.branch(&branch("b_a")).unwrap().head;
        log.merge(MergeBranch { source_head: source, ..asked(1) }).unwrap();
        assert!(log.cell("asked", "a").unwrap().is_none(), "both are stored");
    });
}

#[test]
fn cells_change_with_their_events_or_not_at_all() {
    each(|log, _| {
        let write = |key: &str, expected_version, bytes: Option<&[u8]>| CellWrite {
            space: "grant".into(),
            key: key.into(),
            expected_version,
            bytes: bytes.map(<[u8]>::to_vec),
        };
        let check = |cells: Vec<CellWrite>, code: Option<&str>, a: Option<(u64, &[u8])>| {
            let outcome = log.append(Append { cells, ..numbered("b_main", 1) });
            assert_eq!(outcome.err().map(|error| error.code()), code);
            let cell = log.cell("grant", "a").unwrap();
            assert_eq!(cell.as_ref().map(|cell| (cell.version, cell.bytes.as_slice())), a);
        };
        let conflict = Some("cell_conflict");
        check(vec![write("a", Some(1), Some(b"x"))], conflict, None);
        check(vec![write("a", Some(0), Some(b"x"))], None, Some((1, b"x")));
        let two = vec![write("a", Some(1), Some(b"y")), write("b", Some(7), None)];
        check(two, conflict, Some((1, b"x")));
        check(vec![write("a", Some(1), Some(b"y"))], None, Some((2, b"y")));
        check(vec![write("a", Some(2), None)], None, None);
        check(vec![write("a", Some(2), Some(b"old"))], conflict, None);
        check(vec![write("a", Some(0), Some(b"new"))], None, Some((4, b"new")));
        let listed = log.cells("grant", "", 10).unwrap();
        assert_eq!(listed.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["a"]);
        assert_eq!(log.cells("grant", "a", 10).unwrap().len(), 0);
        assert_eq!(log.head(&branch("b_main")).unwrap().seq, 4, "one event per success");
        let alone =
            Append { cells: vec![write("a", None, None)], events: vec![], ..numbered("b_main", 1) };
        assert_eq!(refusal(log.append(alone), ""), "append_invalid");
    });
}

#[test]
fn a14_leases_keep_late_writers_out() {
    each(|log, clock| {
        let first = log.acquire_lease(&branch("b_main")).unwrap();
        assert_eq!(refusal(log.append(numbered("b_main", 1)), ""), "session_owned");
        assert_eq!(refusal(log.acquire_lease(&branch("b_main")), ""), "session_owned");
        let by = |epoch| Append { epoch: Some(epoch), ..numbered("b_main", 1) };
        log.append(by(first.epoch())).unwrap();
        clock.uptime_us.store(glasshouse_log::LEASE_TTL_US, Ordering::SeqCst);
        let second = log.acquire_lease(&branch("b_main")).unwrap();
        assert!(second.epoch() > first.epoch());
        assert_eq!(refusal(log.append(by(first.epoch())), ""), "lease_lost");
        log.append(by(second.epoch())).unwrap();
        second.release().unwrap();
        log.append(numbered("b_main", 1)).unwrap();
    });
}

#[test]
fn blobs_heads_and_proofs_hold() {
    each(|log, _| {
        let digest = log.put_blob(b"content").unwrap();
        assert_eq!(log.blob(&digest).unwrap(), b"content");
        let naming = vec![Draft::new(Kind::Heartbeat, &json!({"n": 1, "blob": digest}))];
        log.append(Append::new(session("s_1"), branch("b_main"), naming)).unwrap();
        let old = log.sign_head().unwrap();
        append(log, "b_main", 2..=6);
        assert_eq!(log.prove(&branch("b_main"), 5).unwrap().index, 4);
        let found = log.check_extension(&old.note, None).unwrap();
        assert!(matches!(found, Consistency::Extends(found) if found.new_size == 6));
        let erase = Erase {
            session: session("s_1"),
            branch: branch("b_main"),
            events: vec![(branch("b_main"), 1)],
            blobs: vec![digest],
            reason: "test".into(),
            actor: Actor::kernel(),
            epoch: None,
        };
        log.erase(erase).unwrap();
        assert_eq!(refusal(log.blob(&digest), ""), "blob_not_found");
        assert_eq!(log.read(&branch("b_main"), 1, 1).unwrap()[0].body, Value::Null);
        assert!(log.check_extension(&old.note, None).unwrap().is_ok());
    });
}

#[test]
fn sessions_list_newest_first_with_their_counts() {
    each(|log, clock| {
        clock.now_us.store(10, Ordering::SeqCst);
        log.create_branch(root("s_2", "b_two")).unwrap();
        append(log, "b_main", 1..=2);
        log.create_branch(fork("b_fork", "b_main", 1)).unwrap();
        clock.now_us.store(20, Ordering::SeqCst);
        append(log, "b_fork", 3..=3);
        let rows = log.sessions().unwrap();
        let found: Vec<_> = rows
            .iter()
            .map(|row| (row.session.as_str(), row.created_us, row.last_us, row.events))
            .collect();
        assert_eq!(found, [("s_2", 10, 10, 0), ("s_1", 0, 20, 3)]);
    });
}
