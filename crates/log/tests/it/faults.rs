//! One call to the disk fails, each in turn, a write in three ways: whatever is done then ends with an answer or an error that
//! has a code, and what was answered is there when the log is opened again on a disk that works.

use std::collections::BTreeMap;

use glasshouse_log::{Append, Log, Result};
use glasshouse_model::{Digest, Draft, Kind, Seq, TenantId};
use serde_json::json;

use crate::disk::{Disk, Fault, Survives};
use crate::support::{branch, erase, fork, merge, root, session, verdict};

/// Heads that callers were told of, by branch.
type Told = BTreeMap<&'static str, (Seq, Digest)>;

/// Everything a log does, once. Errors are noted and the rest goes on, as callers would.
fn work(home: &std::path::Path, disk: &Disk, told: &mut Told) -> Vec<&'static str> {
    let mut codes = Vec::new();
    for _ in 0..2 {
        let log = match Log::open_with(home, &TenantId::local(), disk.options()) {
            Ok(log) => log,
            Err(error) => {
                codes.push(error.code());
                continue;
            }
        };
        let mut note =
            |id: &'static str, outcome: Result<Option<glasshouse_log::Head>>| match outcome {
                Ok(Some(head)) => drop(told.insert(id, (head.seq, head.hash))),
                Ok(None) => {}
                Err(error) => codes.push(error.code()),
            };
        let append = |id: &str, bytes: usize| {
            let body = json!({ "pad": "x".repeat(bytes) });
            let events = vec![Draft::new(Kind::Heartbeat, &body); 3];
            Append::new(session("s_1"), branch(id), events)
        };
        note("b_main", log.create_branch(root("s_1", "b_main")).map(|()| None));
        for bytes in [10, 9_000, 10] {
            note("b_main", log.append(append("b_main", bytes)).map(|done| Some(done.head)));
        }
        note("b_fork", log.create_branch(fork("b_fork", "b_main", 2)).map(|()| None));
        note("b_fork", log.append(append("b_fork", 500)).map(|done| Some(done.head)));
        note("b_main", log.read(&branch("b_main"), 1, 100).map(|_| None));
        note("b_main", log.sign_head().map(|_| None));
        note("b_main", log.erase(erase(&[("b_main", 2)], &[])).map(|done| Some(done.head)));
        let heads = log
            .head(&branch("b_main"))
            .and_then(|main| log.head(&branch("b_fork")).map(|source| (main.seq, source)));
        if let Ok((target_head, source_head)) = heads {
            let merge = merge("b_fork", source_head, "b_main", target_head);
            note("b_main", log.merge(merge).map(|done| Some(done.head)));
        }
    }
    codes
}

/// Codes that a fault of the disk may have, and those that follow from an operation that did not come.
const EXPECTED: [&str; 12] = [
    "storage_failed",
    "storage_full",
    "log_failed",
    "log_busy",
    "log_corrupt",
    "log_format_unknown",
    "branch_exists",
    "branch_not_found",
    "branch_read_only",
    "fork_out_of_range",
    "event_not_found",
    "append_invalid",
];

/// Whether what was answered is there when the power goes now: only what the disk really has.
fn survives(home: &std::path::Path, disk: &Disk, told: &Told) -> std::result::Result<(), String> {
    let left = tempfile::tempdir().unwrap();
    for directory in ["keys", "heads"] {
        std::fs::create_dir(left.path().join(directory)).unwrap();
        for entry in std::fs::read_dir(home.join(directory)).into_iter().flatten() {
            let path = entry.unwrap().path();
            let to = left.path().join(directory).join(path.file_name().unwrap());
            std::fs::copy(&path, to).unwrap();
        }
    }
    for (path, content) in disk.files() {
        let bytes = content.after_power_loss(Survives::Nothing);
        std::fs::write(left.path().join(path.file_name().unwrap()), bytes).unwrap();
    }
    let log = Log::open(left.path(), &TenantId::local()).map_err(|error| error.to_string())?;
    for (id, (seq, hash)) in told {
        let records = log.records(&branch(id), *seq, 1).map_err(|error| error.to_string())?;
        if records.first().map(|record| record.hash) != Some(*hash) {
            return Err(format!("event {seq} of {id} was answered and is not there"));
        }
    }
    match log.verify() {
        Ok(found) if found.is_ok() => Ok(()),
        Ok(found) => Err(verdict(&found)),
        Err(error) => Err(error.to_string()),
    }
}

/// Lets every `step`th call fail in each way; answers how many runs there
/// were, and how many met their fault: threads may take the calls in another order.
fn each(step: u64) -> (u64, u64) {
    let (disk, home) = (Disk::new(), tempfile::tempdir().unwrap());
    let mut told = Told::new();
    // The second opening finds what the first made.
    let usual = work(home.path(), &disk, &mut told);
    let is_usual =
        |code: &&str| ["branch_exists", "branch_read_only", "append_invalid"].contains(code);
    assert!(usual.iter().all(is_usual), "without a fault: {usual:?}");
    let calls = disk.calls();
    assert!(calls > 100, "{calls} calls");
    let (mut runs, mut met) = (0, 0);
    for fault in [Fault::Io, Fault::Full, Fault::Short] {
        for call in (0..calls).step_by(usize::try_from(step).unwrap()) {
            let (disk, home) = (Disk::new(), tempfile::tempdir().unwrap());
            disk.fail_call(call, fault);
            runs += 1;
            let mut told = Told::new();
            let codes = work(home.path(), &disk, &mut told);
            met += u64::from(disk.has_failed());
            let wrong = codes.iter().find(|code| !EXPECTED.contains(code));
            assert_eq!(wrong, None, "{fault:?} at call {call}");
            if let Err(why) = survives(home.path(), &disk, &told) {
                panic!("{fault:?} at call {call}, then without power: {why}");
            }
            let log = Log::open(home.path(), &TenantId::local());
            let log = log.unwrap_or_else(|error| panic!("{fault:?} at call {call}: {error}"));
            for (id, (seq, hash)) in &told {
                let records = log.records(&branch(id), *seq, 1).unwrap();
                let found = records.first().map(|record| record.hash);
                assert_eq!(found, Some(*hash), "{fault:?} at call {call}: event {seq} of {id}");
            }
            let verified = log.verify().unwrap();
            assert!(verified.is_ok(), "{fault:?} at call {call}: {}", verdict(&verified));
        }
    }
    (runs, met)
}

/// The undefended control: a log that does not hear of a failed sync loses what it answered, and these
/// checks see it.
#[test]
fn a2_a_failed_sync_that_nobody_heard_of_is_found() {
    let (disk, home) = (Disk::new(), tempfile::tempdir().unwrap());
    work(home.path(), &disk, &mut Told::new());
    let syncs = disk.syncs();
    let is_lost = |sync: &u64| {
        let (disk, home) = (Disk::new(), tempfile::tempdir().unwrap());
        disk.fail_sync_unheard(*sync);
        let mut told = Told::new();
        work(home.path(), &disk, &mut told);
        survives(home.path(), &disk, &told).is_err()
    };
    let lost = (0..syncs).filter(is_lost).count();
    assert!(lost > 0, "none of {syncs} syncs");
}

#[test]
fn a2_any_call_to_the_disk_may_fail() {
    let (runs, met) = each(17);
    assert!(met * 10 >= runs * 9, "{met} of {runs}");
}

#[test]
#[ignore = "runs for minutes; `cargo xtask soak` runs it"]
fn a2_every_call_to_the_disk_fails_once() {
    let (runs, met) = each(1);
    assert!(met * 10 >= runs * 9, "{met} of {runs}");
}
/// SQLite answered that it has a write-ahead log although a read had failed and it had none; the next
/// append was stored, and refused with the advice to put files back that nobody had taken.
#[test]
fn a_log_without_its_write_ahead_log_does_not_open() {
    let is_refused = |call: &u64| {
        let (disk, home) = (Disk::new(), tempfile::tempdir().unwrap());
        disk.fail_call(*call, Fault::Io);
        match Log::open_with(home.path(), &TenantId::local(), disk.options()) {
            Ok(log) => {
                log.create_branch(root("s_1", "b_main")).unwrap();
                false
            }
            Err(error) => {
                assert_eq!(error.code(), "storage_failed", "call {call}");
                true
            }
        }
    };
    let refused: Vec<_> = (0..12).filter(is_refused).collect();
    assert!(refused.contains(&3), "{refused:?}");
}
