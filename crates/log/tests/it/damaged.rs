//! Databases that are damaged as files, hold what no log has, lack blobs, or lie where nothing can
//! be written: what proving them says.

use std::fs;
use std::path::Path;

use glasshouse_log::{Append, Log, verify_home};
use glasshouse_model::{Digest, Draft, Kind, TenantId};
use serde_json::json;

use crate::support::{
    Fixture, Mount, blob_file, branch, fork, numbered, numbers, refusal, session, skipped, verdict,
};

/// Many pages of events in two branches.
fn large() -> Fixture {
    let mut fixture = Fixture::new();
    for n in 0..40 {
        let drafts = (0..10).map(|m| {
            let pad = format!("{:05}{}", n * 10 + m + 1, "x".repeat(300));
            Draft::new(Kind::Heartbeat, &json!({"n": n * 10 + m + 1, "pad": pad}))
        });
        let append = Append::new(session("s_1"), branch("b_main"), drafts.collect());
        fixture.log().append(append).unwrap();
    }
    fixture.log().create_branch(fork("b_fork", "b_main", 5)).unwrap();
    fixture.log().append(numbered("b_fork", 6)).unwrap();
    assert_eq!(fixture.verdict(), "ok 401");
    fixture
}

fn check(damage: impl Fn(&mut Vec<u8>), expected: &str) {
    let mut fixture = large();
    let path = fixture.path().join("log.db");
    let mut bytes = fs::read(&path).unwrap();
    damage(&mut bytes);
    fs::write(&path, bytes).unwrap();
    let verdict = fixture.verdict();
    assert!(verdict.starts_with(expected), "{verdict}, not {expected}");
}

/// The page that holds an event of the large log.
fn page_of(bytes: &[u8], n: u64) -> usize {
    let mark = format!("\"pad\":\"{n:05}");
    let at = bytes.windows(mark.len()).position(|part| part == mark.as_bytes()).unwrap();
    at / 4096
}

#[test]
fn a_damaged_file_is_a_finding_that_names_an_event() {
    let unreadable = "hash_mismatch b_main 1: expected a database that can be read";
    check(|bytes| bytes[..100].fill(7), unreadable);
    check(|bytes| bytes[..16].fill(0), unreadable);
    check(|bytes| bytes[..4096].fill(0xff), unreadable);
    check(|bytes| bytes[60..72].fill(9), unreadable);
    let page = |n| {
        move |bytes: &mut Vec<u8>| {
            let page = page_of(bytes, n);
            bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
        }
    };
    check(page(1), "hash_mismatch b_main 1: expected");
    check(page(200), "hash_mismatch b_main 1");
    check(|bytes| bytes.fill(0), "hash_mismatch - -: expected a database that can be read");
}

#[test]
fn a_file_that_was_cut_is_named_so() {
    let cut =
        |numerator: usize| move |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() * numerator / 10);
    // Where even the index of positions is cut, the branches' order is not known any more.
    check(cut(9), "truncated b_");
    check(cut(5), "truncated b_");
    check(cut(1), "truncated b_");
    check(|bytes| bytes.truncate(50), "truncated - -: expected a database that can be read");
    check(|bytes| bytes.truncate(bytes.len() - 1), "truncated ");
    check(Vec::clear, "missing_log - -: expected 401 events, found no log");
}

#[test]
fn what_no_log_has_is_named_and_nothing_is_written_beside_it() {
    let check = |statements: &str, expected: &str, refused: &str| {
        let mut fixture = Fixture::of_events(3);
        let key = Append { idempotency_key: Some("k".into()), ..numbered("b_main", 4) };
        let cell = glasshouse_log::CellWrite {
            space: "grant".into(),
            key: "g".into(),
            expected_version: None,
            bytes: Some(vec![1]),
        };
        fixture.log().append(Append { cells: vec![cell], ..key }).unwrap();
        drop(fixture.log().acquire_lease(&branch("b_main")).unwrap());
        assert_eq!(fixture.verdict(), "ok 4", "the control");
        fixture.database().execute_batch(statements).unwrap();
        let found = fixture.verdict();
        assert!(found.starts_with("hash_mismatch - -") && found.ends_with(expected), "{found}");
        let appended = fixture.open().append(numbered("b_main", 5));
        let code = appended.err().map_or("ok", |error| error.code());
        assert_eq!(code, refused, "{statements}");
    };
    let trigger = "CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM cell; END";
    check(trigger, "found trigger `t`", "log_corrupt");
    check("CREATE TABLE more (a)", "found table `more`", "log_corrupt");
    check("CREATE VIEW v AS SELECT 1", "found view `v`", "log_corrupt");
    check("CREATE INDEX i ON event (hash)", "found index `i`", "log_corrupt");
    check("DROP INDEX event_position", "found none", "log_corrupt");
    check("ALTER TABLE cell ADD COLUMN more TEXT", "found another", "log_corrupt");
    check("UPDATE cell SET version = 0 WHERE space = 'grant'", "version 0", "ok");
    let lease = "UPDATE cell SET bytes = x'00' WHERE space = 'log.lease'";
    check(lease, "found lease of b_main that cannot be read", "log_corrupt");
    check("UPDATE request SET head_seq = 3", "found request `k` of b_main", "ok");
    check(
        "PRAGMA foreign_keys = OFF; UPDATE request SET branch = 9",
        "found request `k` of no branch",
        "ok",
    );
}

/// A grant's counter set back would let the grant be used again.
#[test]
fn cells_are_as_the_newest_event_says() {
    let check = |statements: &str, expected: &str| {
        let mut fixture = Fixture::new();
        let write = |key: &str, bytes: Option<&[u8]>| glasshouse_log::CellWrite {
            space: "grant".into(),
            key: key.into(),
            expected_version: None,
            bytes: bytes.map(<[u8]>::to_vec),
        };
        for n in 1..=3 {
            let cells = vec![write("a", Some(&[n])), write("b", (n < 3).then_some(&[9]))];
            fixture.log().append(Append { cells, ..numbered("b_main", n.into()) }).unwrap();
        }
        drop(fixture.log().acquire_lease(&branch("b_main")).unwrap());
        assert_eq!(fixture.verdict(), "ok 3", "the control");
        fixture.database().execute_batch(statements).unwrap();
        let found = fixture.verdict();
        assert!(found.starts_with(expected), "{statements}: {found}");
    };
    let third = "hash_mismatch b_main 3: expected cell grant/a with version 3, sha256:";
    check("UPDATE cell SET bytes = x'01' WHERE key = 'a'", third);
    check("UPDATE cell SET version = 2, bytes = x'02' WHERE key = 'a'", third);
    check("UPDATE cell SET version = 4 WHERE key = 'a'", third);
    check("DELETE FROM cell WHERE key = 'a'", "hash_mismatch b_main 3: expected a cell with");
    let revived = "hash_mismatch b_main 3: expected cell grant/b with version 3, no bytes";
    check("UPDATE cell SET bytes = x'09' WHERE key = 'b'", revived);
    let more = "INSERT INTO cell VALUES ('grant', 'c', 1, x'01')";
    check(more, "hash_mismatch - -: expected cells that events name, found cell grant/c");
    let renamed = "UPDATE cell SET key = 'd' WHERE key = 'a'";
    check(renamed, "hash_mismatch b_main 3: expected a cell with");
}

#[test]
fn an_event_of_no_branch_is_named() {
    let mut fixture = Fixture::of_events(3);
    fixture.close();
    let statements = "UPDATE event SET place = place + (5 << 40) WHERE place = (1 << 40 | 3);
                      UPDATE branch SET head_seq = 2, head_hash = (
                          SELECT hash FROM event WHERE place = (1 << 40 | 2))";
    fixture.database().execute_batch(statements).unwrap();
    let found = fixture.verdict();
    assert!(found.starts_with("hash_mismatch - -: expected as many events"), "{found}");
}

#[test]
fn blobs_that_events_name_are_part_of_the_proof() {
    let check = |change: &dyn Fn(&Path), expected: &str| {
        let mut fixture = Fixture::of_events(1);
        let digest = fixture.log().put_blob(&[7; 5_000]).unwrap();
        let body = json!({"n": 2, "output": [{"blob": digest, "bytes": 5_000}]});
        let naming = vec![Draft::new(Kind::ToolCompleted, &body)];
        fixture.log().append(Append::new(session("s_1"), branch("b_main"), naming)).unwrap();
        fixture.append(3);
        assert_eq!(fixture.verdict(), "ok 3", "the control");
        change(&blob_file(fixture.path(), &digest));
        let found = fixture.verdict();
        let start = format!("hash_mismatch b_main 2: expected blob {digest}, found ");
        assert!(found.starts_with(&start) && found.contains(expected), "{found}");
    };
    check(&|path| fs::remove_file(path).unwrap(), "no such blob");
    check(&|path| fs::write(path, b"").unwrap(), "its file is cut");
    let other = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        let last = bytes.len() - 20;
        bytes[last] ^= 1;
        fs::write(path, bytes).unwrap();
    };
    check(&other, "could not read blob");
}

/// As an auditor has it: copied to a medium that cannot be written, and taken from a running
/// system with or without the side files of the database.
#[test]
fn a_home_that_cannot_be_written_can_be_proved_and_read() {
    let place = tempfile::tempdir().unwrap();
    let Some(mount) = Mount::new(place.path(), 8 << 20) else {
        skipped("a_home_that_cannot_be_written_can_be_proved_and_read", "mounting needs root");
        return;
    };
    let mut running = Fixture::of_events(3);
    running.log().sign_head().unwrap();
    let copy = |fixture: &Fixture, name: &str, skipped: &[&str]| {
        let to = place.path().join(name);
        for directory in ["", "heads", "keys", "blobs"] {
            fs::create_dir_all(to.join(directory)).unwrap();
            for entry in fs::read_dir(fixture.path().join(directory)).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name();
                if entry.path().is_file() && !skipped.iter().any(|skipped| name == *skipped) {
                    fs::copy(entry.path(), to.join(directory).join(name)).unwrap();
                }
            }
        }
    };
    copy(&running, "whole?#%41 x", &[]);
    copy(&running, "without-index", &["log.db-shm"]);
    running.close();
    copy(&running, "closed", &[]);
    copy(&running, "database-only", &["log.db-wal", "log.db-shm"]);
    mount.close_to_writing();
    for name in ["whole?#%41 x", "without-index", "closed", "database-only"] {
        let home = place.path().join(name);
        let found = verify_home(&home, &TenantId::local()).unwrap();
        assert_eq!(verdict(&found), "ok 3", "{name}");
        let log = Log::open_read_only(&home, &TenantId::local()).unwrap();
        assert_eq!(numbers(&log, "b_main"), [1, 2, 3], "{name}");
        assert_eq!(refusal(log.append(numbered("b_main", 4)), ""), "log_read_only");
        assert!(log.verify().unwrap().is_ok());
        assert_eq!(refusal(Log::open(&home, &TenantId::local()), ""), "storage_failed", "{name}");
    }
}

#[test]
fn reading_beside_a_writer_sees_what_it_stored() {
    let fixture = Fixture::of_events(3);
    let reader = Log::open_read_only(fixture.path(), &TenantId::local()).unwrap();
    fixture.append(4);
    assert_eq!(numbers(&reader, "b_main"), [1, 2, 3, 4]);
    let found = verify_home(fixture.path(), &TenantId::local()).unwrap();
    assert_eq!(verdict(&found), "ok 4");
}

/// SQLite goes on writing to files that are gone. The log does not acknowledge that.
#[test]
fn files_taken_away_while_the_log_runs_are_noticed() {
    let check = |change: &dyn Fn(&Path)| {
        let fixture = Fixture::of_events(3);
        change(fixture.path());
        for n in 4..6 {
            assert_eq!(refusal(fixture.log().append(numbered("b_main", n)), ""), "log_replaced");
        }
    };
    check(&|home| fs::remove_file(home.join("log.db")).unwrap());
    check(&|home| fs::remove_file(home.join("log.db-wal")).unwrap());
    check(&|home| {
        let mut other = Fixture::of_events(2);
        other.close();
        fs::copy(other.path().join("log.db"), home.join("new")).unwrap();
        fs::rename(home.join("new"), home.join("log.db")).unwrap();
    });
    check(&|home| fs::rename(home, home.with_extension("away")).unwrap());
}

/// The undefended control: SQLite itself says nothing, and what it stored is lost.
#[test]
fn sqlite_alone_loses_what_it_stores_in_a_file_that_is_gone() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("a.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    connection.execute_batch("CREATE TABLE t (n); INSERT INTO t VALUES (1)").unwrap();
    fs::remove_file(&path).unwrap();
    connection.execute_batch("INSERT INTO t VALUES (2)").unwrap();
    assert!(!path.exists());
}

#[test]
fn digests_outside_a_blob_member_are_not_taken_for_blobs() {
    let mut fixture = Fixture::new();
    let body = json!({"n": 1, "base": Digest::of(b"x"), "text": format!("\"blob\":\"{}\"", Digest::of(b"y"))});
    let event = vec![Draft::new(Kind::Heartbeat, &body)];
    fixture.log().append(Append::new(session("s_1"), branch("b_main"), event)).unwrap();
    assert_eq!(fixture.verdict(), "ok 1");
}
