//! What an opening looks after: bytes that a crash left behind are set aside, damage among the newest
//! events is told, and neither keeps the log from working.

use std::fs;
use std::path::Path;

use glasshouse_log::{Log, Verification, own_session, verify_home};
use glasshouse_model::{Event, Kind, TenantId};

use crate::support::{Fixture, branch, erase, numbers, refusal, root, verdict};

/// A home as a crash leaves it: the files of one that is open.
fn crashed(events: u64) -> tempfile::TempDir {
    let fixture = Fixture::of_events(events);
    fixture.log().sign_head().unwrap();
    let left = tempfile::tempdir().unwrap();
    for directory in ["", "heads", "keys"] {
        fs::create_dir_all(left.path().join(directory)).unwrap();
        for entry in fs::read_dir(fixture.path().join(directory)).unwrap().map(Result::unwrap) {
            let to = left.path().join(directory).join(entry.file_name());
            if entry.path().is_file() && !entry.path().ends_with("log.db-shm") {
                fs::copy(entry.path(), to).unwrap();
            }
        }
    }
    left
}

fn told(log: &Log) -> Vec<Event> {
    let Some(own) = log.branches(&own_session()).unwrap().pop() else { return Vec::new() };
    log.events(&own.branch).map(Result::unwrap).collect()
}

fn quarantined(home: &Path) -> Vec<String> {
    match verify_home(home, &TenantId::local()).unwrap() {
        Verification::Sound(sound) => sound.quarantined,
        Verification::Broken(broken) => panic!("{broken:?}"),
    }
}

#[test]
fn a_write_that_was_cut_short_is_set_aside_and_told() {
    let check = |tail: &dyn Fn(&[u8]) -> Vec<u8>, bytes: Option<u64>| {
        let home = crashed(3);
        let wal = home.path().join("log.db-wal");
        let whole = fs::read(&wal).unwrap();
        fs::write(&wal, [whole.clone(), tail(&whole)].concat()).unwrap();
        let log = Log::open(home.path(), &TenantId::local()).unwrap();
        assert_eq!(numbers(&log, "b_main"), [1, 2, 3], "nothing that was acknowledged is gone");
        let events = told(&log);
        let said: Vec<_> = events.iter().map(|event| event.body["bytes"].as_u64()).collect();
        assert_eq!(said, bytes.map(Some).into_iter().collect::<Vec<_>>());
        drop(log);
        let files = quarantined(home.path());
        assert_eq!(files.len(), said.len());
        if let (Some(event), Some(file)) = (events.first(), files.first()) {
            assert_eq!(*event.kind(), Kind::LogQuarantined);
            assert_eq!(event.body["file"], file.as_str());
            assert_eq!(fs::read(home.path().join(file)).unwrap(), tail(&whole));
        }
        drop(Log::open(home.path(), &TenantId::local()).unwrap());
        assert_eq!(quarantined(home.path()), files, "once");
    };
    check(&|_| Vec::new(), None);
    // The frame that ends a transaction, damaged or in part.
    let frame = 24 + 4_096;
    check(&|wal| wal[wal.len() - frame..].to_vec(), Some(4_120));
    check(&|wal| wal[wal.len() - frame..wal.len() - 100].to_vec(), Some(4_020));
    // The beginning of a transaction, as every process leaves it that is killed while it writes.
    let begun = |wal: &[u8]| {
        let mut begun = wal[wal.len() - frame..].to_vec();
        begun[4..8].fill(0);
        begun
    };
    check(&begun, None);
    check(&|wal| begun(wal)[..1_000].to_vec(), None);
    // The same with more behind it, which no killed process leaves.
    check(&|wal| [begun(wal), begun(wal)].concat(), Some(8_240));
    // What stands there from before the write-ahead log was begun anew is no loss.
    let older = |wal: &[u8]| {
        let mut old = wal[wal.len() - frame..].to_vec();
        old[8] ^= 1;
        old
    };
    check(&older, None);
}

/// What was acknowledged and is damaged there is missed by the signed head; the bytes are kept.
#[test]
fn a_damaged_write_ahead_log_is_set_aside_and_the_loss_is_named() {
    let home = crashed(5);
    let wal = home.path().join("log.db-wal");
    let mut bytes = fs::read(&wal).unwrap();
    let last = bytes.len() - 9;
    bytes[last] ^= 1;
    fs::write(&wal, bytes).unwrap();
    let log = Log::open(home.path(), &TenantId::local()).unwrap();
    assert_eq!(
        refusal(log.create_branch(root("s_2", "b_2")), "kind"),
        "log_corrupt kind=\"truncated\""
    );
    drop(log);
    let found = verify_home(home.path(), &TenantId::local()).unwrap();
    assert!(verdict(&found).starts_with("truncated b_main 5"), "{}", verdict(&found));
    assert_eq!(fs::read_dir(home.path().join("quarantine")).unwrap().count(), 1);
}

#[test]
fn an_erasure_takes_what_was_set_aside_along() {
    let home = crashed(3);
    let wal = home.path().join("log.db-wal");
    let whole = fs::read(&wal).unwrap();
    fs::write(&wal, [&whole[..], &whole[whole.len() - 4_120..]].concat()).unwrap();
    let log = Log::open(home.path(), &TenantId::local()).unwrap();
    assert_eq!(fs::read_dir(home.path().join("quarantine")).unwrap().count(), 1);
    log.erase(erase(&[("b_main", 2)], &[])).unwrap();
    assert!(!home.path().join("quarantine").exists());
}

#[test]
fn damage_among_the_newest_events_is_told_once_at_an_opening() {
    let mut fixture = Fixture::of_events(9);
    fixture.log().create_branch(root("s_2", "b_other")).unwrap();
    fixture.close();
    let change = "UPDATE event SET body = x'7b7d' WHERE place IN (1 << 40 | 7, 1 << 40 | 8)";
    fixture.database().execute(change, []).unwrap();
    for _ in 0..2 {
        let events = told(fixture.open());
        let named: Vec<_> =
            events.iter().map(|event| (event.kind().clone(), event.body["seq"].clone())).collect();
        assert_eq!(named, [(Kind::LogChainBroken, 7.into())]);
    }
    // The branch is closed to writing, the rest of the log is not.
    let log = fixture.log();
    let append = log.append(crate::support::numbered("b_main", 10));
    assert_eq!(refusal(append, "seq"), "log_corrupt seq=7");
    log.create_branch(crate::support::fork("b_fork", "b_main", 6)).unwrap();
    log.append(crate::support::numbered("b_fork", 7)).unwrap();
    assert_eq!(log.read(&branch("b_fork"), 7, 1).unwrap().len(), 1);
}
