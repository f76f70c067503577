//! Loss of power at every sync, and disks that fail to sync.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use glasshouse_log::Log;
use glasshouse_model::TenantId;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::disk::{Disk, Files, Survives};
use crate::support::{Fixture, branch, numbered, numbers, refusal, root};

/// What is on the disk at one moment: the database as far as it was synced, the other files (which
/// are always replaced whole and synced), and how many events had been acknowledged.
struct Moment {
    files: Files,
    others: BTreeMap<PathBuf, Vec<u8>>,
    acknowledged: u64,
}

fn small_files(home: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for directory in ["keys", "heads"] {
        for entry in fs::read_dir(home.join(directory)).into_iter().flatten() {
            let path = entry.unwrap().path();
            if let Ok(bytes) = fs::read(&path) {
                files.insert(path.strip_prefix(home).unwrap().to_owned(), bytes);
            }
        }
    }
    files
}

/// Makes a home as a loss of power leaves it.
fn leave(home: &Path, moment: &Moment, survives: Survives) -> tempfile::TempDir {
    let left = tempfile::tempdir().unwrap();
    for directory in ["keys", "heads"] {
        fs::create_dir(left.path().join(directory)).unwrap();
    }
    for (path, bytes) in &moment.others {
        fs::write(left.path().join(path), bytes).unwrap();
    }
    for (path, content) in &moment.files {
        let name = path.strip_prefix(home).unwrap();
        fs::write(left.path().join(name), content.after_power_loss(survives)).unwrap();
    }
    left
}

#[test]
fn a7_power_may_go_at_any_sync() {
    let disk = Disk::new();
    let home = tempfile::tempdir().unwrap();
    let acknowledged = Arc::new(AtomicU64::new(0));
    let moments = Arc::new(Mutex::new(Vec::new()));
    disk.observe_syncs({
        let (home, acknowledged) = (home.path().to_owned(), Arc::clone(&acknowledged));
        let moments = Arc::clone(&moments);
        move |files| {
            moments.lock().unwrap().push(Moment {
                files: files.clone(),
                others: small_files(&home),
                acknowledged: acknowledged.load(Ordering::SeqCst),
            });
        }
    });
    // Twice, so that creation, appends, the last checkpoint and reopening are all interrupted.
    for opening in 0..2 {
        let log = Log::open_with(home.path(), &TenantId::local(), disk.options()).unwrap();
        if opening == 0 {
            log.create_branch(root("s_1", "b_main")).unwrap();
        }
        for _ in 0..8 {
            let seq = acknowledged.load(Ordering::SeqCst) + 1;
            log.append(numbered("b_main", seq)).unwrap();
            acknowledged.store(seq, Ordering::SeqCst);
        }
    }
    let moments = moments.lock().unwrap();
    assert!(moments.len() > 20, "each append syncs: {}", moments.len());
    for (n, moment) in moments.iter().enumerate() {
        for survives in Survives::ALL {
            let left = leave(home.path(), moment, survives);
            let log = Log::open(left.path(), &TenantId::local())
                .unwrap_or_else(|error| panic!("sync {n}, {survives:?}: {error}"));
            let head = log.head(&branch("b_main")).map_or(0, |head| head.seq);
            let acknowledged = moment.acknowledged;
            assert!(
                (acknowledged..=acknowledged + 1).contains(&head),
                "sync {n}, {survives:?}: {acknowledged} acknowledged, {head} there"
            );
            assert!(log.verify().unwrap().is_ok(), "sync {n}, {survives:?}");
        }
    }
}

#[test]
fn each_append_alone_is_one_sync() {
    let disk = Disk::new();
    let fixture = Fixture::with(disk.options());
    fixture.append(1);
    let before = disk.syncs();
    for n in 0..50 {
        fixture.append(n);
    }
    assert_eq!(disk.syncs() - before, 50);
}

#[test]
fn a_failed_sync_ends_writing_until_the_log_is_opened_again() {
    let disk = Disk::new();
    let mut fixture = Fixture::with(disk.options());
    fixture.append(1);
    disk.set_failing_to_sync(true);
    assert_eq!(refusal(fixture.log().append(numbered("b_main", 2)), ""), "log_failed");
    disk.set_failing_to_sync(false);
    assert_eq!(refusal(fixture.log().append(numbered("b_main", 3)), ""), "log_failed", "for good");
    let read = fixture.log().read(&branch("b_main"), 1, 10).unwrap();
    assert_eq!(read.len(), 1, "reading goes on");
    fixture.close();
    // What the failed sync left may be there or not, as long as it stays so.
    let log = Log::open_with(fixture.path(), &TenantId::local(), disk.options()).unwrap();
    let head = log.head(&branch("b_main")).unwrap().seq;
    assert!((1..=2).contains(&head), "{head}");
    log.append(numbered("b_main", 4)).unwrap();
    let moment =
        Moment { files: disk.files(), others: small_files(fixture.path()), acknowledged: head + 1 };
    let left = leave(fixture.path(), &moment, Survives::Nothing);
    let log = Log::open(left.path(), &TenantId::local()).unwrap();
    assert_eq!(log.head(&branch("b_main")).unwrap().seq, moment.acknowledged);
    assert_eq!(numbers(&log, "b_main").last(), Some(&4));
    assert!(log.verify().unwrap().is_ok());
}

/// The undefended control of the test above: SQLite alone, opened again after a failed sync, builds
/// on pages that are only in memory, and an acknowledged row is gone after the loss of power.
#[test]
fn the_failed_sync_would_lose_an_acknowledged_row_without_the_log() {
    let disk = Disk::new();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("log.db");
    fs::write(&path, "").unwrap();
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let connection = Connection::open_with_flags_and_vfs(&path, flags, disk.name()).unwrap();
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        connection.pragma_update(None, "journal_mode", "wal").unwrap();
        connection.pragma_update(None, "synchronous", "full").unwrap();
        connection
    };
    let first = open();
    first.execute_batch("CREATE TABLE t (n INTEGER); INSERT INTO t VALUES (1)").unwrap();
    disk.set_failing_to_sync(true);
    assert!(first.execute_batch("INSERT INTO t VALUES (2)").is_err());
    disk.set_failing_to_sync(false);
    drop(first);
    open().execute_batch("INSERT INTO t VALUES (3)").unwrap();

    let moment = Moment { files: disk.files(), others: BTreeMap::new(), acknowledged: 0 };
    let left = leave(home.path(), &moment, Survives::Nothing);
    let rows: i64 = Connection::open(left.path().join("log.db"))
        .and_then(|left| left.query_row("SELECT count(*) FROM t WHERE n = 3", [], |row| row.get(0)))
        .unwrap();
    assert_eq!(rows, 0, "the acknowledged row is lost");
}
