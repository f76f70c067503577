//! What somebody with the files can do to a log, and what proving it says.

use std::fs;

use glasshouse_log::{Append, Log, verify_home};
use glasshouse_model::event::{SALT_BYTES, body_hash, event_hash};
use glasshouse_model::{Digest, Draft, Header, Kind, TenantId};
use rusqlite::Connection;
use serde_json::json;

use crate::support::{
    Fixture, blob_file, branch, draft, erase, fork, manifest_of, numbered, numbers, refusal, root,
    session, verdict,
};

/// The key of event `seq` of the first branch in the database.
fn place(seq: i64) -> i64 {
    (1 << 40) | seq
}

fn check(events: u64, statements: &str, expected: &str) {
    let mut fixture = Fixture::of_events(events);
    assert_eq!(fixture.verdict(), format!("ok {events}"), "the control");
    fixture.database().execute_batch(statements).unwrap();
    assert_eq!(fixture.verdict(), expected, "{statements}");
}

#[test]
fn changed_events_are_named() {
    let set = |seq, change: &str| format!("UPDATE event SET {change} WHERE place = {}", place(seq));
    let text = |column: &str, from: &str, to: &str| {
        format!("{column} = CAST(replace(CAST({column} AS TEXT), '{from}', '{to}') AS BLOB)")
    };
    let bad = "hash_mismatch b_main 3: expected hash, found hash";
    check(10, &set(3, &text("body", "3", "4")), bad);
    check(10, &set(3, &text("header", "heartbeat", "heartbeas")), bad);
    check(10, &set(3, &text("header", "\"seq\":3", "\"seq\":4")), bad);
    check(10, &set(3, &text("header", "b_main", "b_mair")), bad);
    check(10, &set(3, "hash = zeroblob(32)"), bad);
    check(10, &set(3, "salt = zeroblob(16)"), bad);
    let saltless = "hash_mismatch b_main 3: expected hash, found a body without its salt";
    check(10, &set(3, "salt = x''"), saltless);
    let short = "hash_mismatch b_main 3: expected an event that can be read, found a damaged row";
    check(10, &set(3, "hash = x'00'"), short);
    let head = "hash_mismatch b_main 10: expected hash, found hash";
    check(10, "UPDATE branch SET head_hash = zeroblob(32)", head);
    let edge = "UPDATE tree SET edge = zeroblob(64)";
    check(10, edge, "hash_mismatch - -: expected hash, found hash");
}

#[test]
fn a8_cut_events_are_named() {
    let delete = |from| format!("DELETE FROM event WHERE place >= {};", place(from));
    check(5, &delete(4), "truncated b_main 4: expected 5, found 3");
    check(5, &delete(1), "truncated b_main 1: expected 5, found 0");
    let middle = format!("DELETE FROM event WHERE place = {}", place(3));
    check(5, &middle, "truncated b_main 3: expected 5, found 2");
}

#[test]
fn moved_events_are_named() {
    let swap = |columns: &str| {
        format!(
            "CREATE TEMP TABLE a AS SELECT * FROM event WHERE place = {three};
             CREATE TEMP TABLE b AS SELECT * FROM event WHERE place = {four};
             UPDATE event SET position = -1 WHERE place = {three};
             UPDATE event SET ({columns}) = (SELECT {columns} FROM a) WHERE place = {four};
             UPDATE event SET ({columns}) = (SELECT {columns} FROM b) WHERE place = {three};",
            three = place(3),
            four = place(4)
        )
    };
    let whole = swap("position, hash, header, salt, body");
    check(6, &whole, "reordered b_main 3: expected b_main/3, found b_main/4");
    let commits = "reordered b_main 4: expected position 4 or later, found position 2";
    check(6, &swap("position"), commits);
}

#[test]
fn an_event_put_beside_the_tree_is_named() {
    let insert = format!(
        "INSERT INTO event SELECT {}, 5, hash, header, salt, body FROM event WHERE place = {}",
        place(6),
        place(5)
    );
    check(5, &insert, "reordered b_main 6: expected 5, found 6");
}

#[test]
fn a_branch_with_another_past_is_named() {
    let check = |statements: &str, expected: &str| {
        let mut fixture = Fixture::of_events(4);
        fixture.log().create_branch(fork("b_fork", "b_main", 3)).unwrap();
        fixture.log().append(numbered("b_fork", 4)).unwrap();
        assert_eq!(fixture.verdict(), "ok 5", "the control");
        fixture.database().execute_batch(statements).unwrap();
        let verdict = fixture.verdict();
        assert!(verdict.starts_with(expected), "{verdict}");
    };
    check("UPDATE lineage SET upto_seq = 2", "reordered b_fork 4");
    check("INSERT INTO lineage VALUES (1, 1, 2)", "reordered b_main 1");
    let orphan = "PRAGMA foreign_keys = OFF; INSERT INTO lineage VALUES (7, 1, 2)";
    check(orphan, "hash_mismatch - -: expected lineage of branches that exist");
    let other_fork = "UPDATE branch SET fork_hash = zeroblob(32) WHERE number = 2";
    check(other_fork, "hash_mismatch b_fork 4: expected hash, found hash");
}

/// No hash covers the row of a branch; the event that made the fork says what stood in it.
#[test]
fn a_fork_is_as_its_event_says() {
    let check = |is_told: bool, expected: &str| {
        let mut fixture = Fixture::of_events(4);
        let at_hash = fixture.log().read(&branch("b_main"), 3, 1).unwrap()[0].hash;
        let body = glasshouse_model::body::BranchForked {
            parent: branch("b_main"),
            at_seq: 3,
            at_hash,
            name: "b_fork".into(),
            reason: None,
        };
        let said = glasshouse_model::Draft::new(glasshouse_model::Kind::BranchForked, &body);
        let first = vec![if is_told { said } else { draft(4) }];
        fixture.log().create_branch_with(fork("b_fork", "b_main", 3), first).unwrap();
        assert_eq!(fixture.verdict(), "ok 5", "the control");
        let rename = "UPDATE branch SET name = 'other' WHERE number = 2";
        fixture.database().execute_batch(rename).unwrap();
        let verdict = fixture.verdict();
        assert!(verdict.starts_with(expected), "{verdict}");
    };
    check(true, "hash_mismatch b_fork 4: expected a fork of b_main at 3");
    check(false, "ok 5");
}

/// An old copy of the database is put back. Only the signed head outside tells.
#[test]
fn an_older_copy_of_the_log_is_found_out() {
    let mut fixture = Fixture::of_events(3);
    fixture.close();
    let old = fs::read(fixture.path().join("log.db")).unwrap();
    let old_note = fs::read(fixture.path().join("heads/latest.note")).unwrap();
    fixture.open();
    fixture.append(4);
    fixture.append(5);
    fixture.close();
    fs::write(fixture.path().join("log.db"), old).unwrap();
    assert_eq!(fixture.verdict(), "truncated b_main 4: expected 5, found 3");
    let log = fixture.open();
    assert_eq!(numbers(log, "b_main"), [1, 2, 3], "reading goes on");
    let append = log.append(numbered("b_main", 6));
    assert_eq!(refusal(append, "kind"), "log_corrupt kind=\"truncated\"");
    assert_eq!(refusal(log.sign_head(), "seq"), "log_corrupt seq=4", "it is not signed over");
    assert_eq!(fixture.verdict(), "truncated b_main 4: expected 5, found 3");

    // The control without the defence: the old copy alone proves itself.
    fs::write(fixture.path().join("heads/latest.note"), old_note).unwrap();
    for size in [4, 5] {
        let _ = fs::remove_file(fixture.path().join(format!("heads/{size:020}.note")));
    }
    assert_eq!(fixture.verdict(), "ok 3");
}

/// Rewrites event `from` and everything after it as the log itself would have written it.
fn rewrite_past(database: &Connection, from: u64) {
    let mut statement =
        database.prepare("SELECT place, header, salt FROM event ORDER BY place").unwrap();
    let rows: Vec<(i64, Vec<u8>, [u8; SALT_BYTES])> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let (mut prev, mut leaves) = (Digest::ZERO, Vec::new());
    for (place, mut bytes, salt) in rows {
        let mut header: Header = serde_json::from_slice(&bytes).unwrap();
        if header.seq == from {
            let body = br#"{"n":666}"#.as_slice();
            header.body_hash = body_hash(&salt, body);
            bytes = serde_json::to_vec(&header).unwrap();
            let update = "UPDATE event SET body = ?2 WHERE place = ?1";
            database.execute(update, (place, body)).unwrap();
        }
        prev = event_hash(&prev, &bytes);
        leaves.push(prev);
        let update = "UPDATE event SET header = ?2, hash = ?3 WHERE place = ?1";
        database.execute(update, (place, bytes, prev.as_bytes().as_slice())).unwrap();
    }
    let hash = prev.as_bytes().as_slice();
    let edge = right_edge(&leaves);
    database.execute("UPDATE tree SET edge = ?1, hash = ?2", (edge, hash)).unwrap();
    database.execute("UPDATE branch SET head_hash = ?1", [hash]).unwrap();
}

/// Perfect subtrees of RFC 6962, largest first, made the slow way.
fn right_edge(leaves: &[Digest]) -> Vec<u8> {
    fn root(leaves: &[Digest]) -> Digest {
        if let [leaf] = leaves {
            return Digest::of_parts(&[&[0], leaf.as_bytes()]);
        }
        let (left, right) = leaves.split_at(leaves.len() / 2);
        Digest::of_parts(&[&[1], root(left).as_bytes(), root(right).as_bytes()])
    }
    let (mut rest, mut edge) = (leaves, Vec::new());
    while !rest.is_empty() {
        let (peak, after) = rest.split_at(1 << rest.len().ilog2());
        edge.extend(root(peak).as_bytes());
        rest = after;
    }
    edge
}

#[test]
fn a_past_rewritten_without_fault_is_narrowed_down_by_the_signed_heads() {
    let mut fixture = Fixture::new();
    for n in 1..=9 {
        fixture.append(n);
        if n % 3 == 0 {
            fixture.log().sign_head().unwrap();
        }
    }
    fixture.close();
    rewrite_past(&fixture.database(), 8);
    let log = fixture.open();
    let fooled = numbers(log, "b_main");
    assert_eq!(fooled, [1, 2, 3, 4, 5, 6, 7, 666, 9], "the chain alone is fooled");
    let verdict = fixture.verdict();
    assert!(verdict.starts_with("hash_mismatch b_main "), "{verdict}");
    let seq: u64 = verdict.split([' ', ':']).nth(2).unwrap().parse().unwrap();
    assert!((7..=8).contains(&seq), "1 to 6 are vouched for: {verdict}");
}

/// Whoever takes the database away, and with it any of the files that vouch for it, does not get
/// a new log.
#[test]
fn a9_a_missing_log_is_no_new_log() {
    let check = |also: &[&str], expected: &str| {
        let mut fixture = Fixture::of_events(5);
        fixture.log().put_blob(b"content").unwrap();
        fixture.close();
        let remove = |name: &str| {
            let path = fixture.path().join(name);
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        };
        for name in ["log.db", "log.db-wal", "log.db-shm"].iter().chain(also) {
            remove(name);
        }
        let open = || Log::open(fixture.path(), &TenantId::local());
        assert_eq!(refusal(open(), ""), "missing_log", "without {also:?}");
        let read_only = Log::open_read_only(fixture.path(), &TenantId::local());
        assert_eq!(refusal(read_only, ""), "missing_log", "without {also:?}");
        let fix = open().unwrap_err().report().fix.clone();
        assert!(fix.contains("move the whole data directory away"), "{fix}");
        for database in [None, Some("")] {
            if let Some(text) = database {
                fs::write(fixture.path().join("log.db"), text).unwrap();
            }
            assert_eq!(refusal(open(), ""), "missing_log", "an empty file is no log");
            let found = verify_home(fixture.path(), &TenantId::local()).unwrap();
            assert_eq!(
                verdict(&found),
                format!("missing_log - -: expected {expected}, found no log")
            );
        }
    };
    check(&[], "5 events");
    check(&["blobs"], "5 events");
    check(&["keys/head.pub", "keys/head.ed25519"], "the log of heads/latest.note");
    check(&["heads"], "the log of keys/head.ed25519");
    check(&["heads", "blobs", "keys/head.ed25519"], "the log of keys/head.pub");
    let shard =
        format!("the log of blobs/{}", &glasshouse_model::Digest::of(b"content").hex()[..2]);
    check(&["heads", "keys"], &shard);
}

/// A log without events in the place of the old one: the public key says that it had a head.
#[test]
fn an_empty_log_put_in_place_of_another_is_found_out() {
    let check = |also: &[&str], refused: &str, expected: &str| {
        let mut fixture = Fixture::of_events(5);
        fixture.log().put_blob(b"content").unwrap();
        fixture.close();
        let other = tempfile::tempdir().unwrap();
        drop(Log::open(other.path(), &TenantId::local()).unwrap());
        fs::copy(other.path().join("log.db"), fixture.path().join("log.db")).unwrap();
        for name in also {
            let path = fixture.path().join(name);
            fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)).unwrap();
        }
        let log = fixture.open();
        assert_eq!(refusal(log.create_branch(root("s_9", "b_9")), ""), refused, "without {also:?}");
        let verdict = fixture.verdict();
        assert!(verdict.starts_with(expected), "{verdict}");
    };
    check(&[], "log_corrupt", "truncated b_main 1: expected 5, found 0");
    check(&["heads"], "log_corrupt", "bad_signature");
    check(&["heads", "keys/head.pub"], "head_key_invalid", "bad_signature");
    check(&["heads", "keys"], "head_key_invalid", "bad_signature");
}

#[test]
fn a_home_that_never_had_a_log_has_nothing_to_prove() {
    let nothing = tempfile::tempdir().unwrap();
    let check = |home: &std::path::Path| {
        let refused = verify_home(home, &TenantId::local()).unwrap_err();
        assert_eq!((refused.code(), refused.exit().status()), ("nothing_recorded", 10));
        let refused = Log::open_read_only(home, &TenantId::local());
        assert_eq!(refusal(refused, ""), "nothing_recorded");
    };
    check(nothing.path());
    check(&nothing.path().join("nowhere"));
    assert_eq!(fs::read_dir(nothing.path()).unwrap().count(), 0, "proving makes nothing");
    for directory in ["keys", "heads", "blobs", "run"] {
        fs::create_dir(nothing.path().join(directory)).unwrap();
    }
    check(nothing.path());
    drop(Log::open(nothing.path(), &TenantId::local()).unwrap());
    let found = verify_home(nothing.path(), &TenantId::local()).unwrap();
    assert_eq!(verdict(&found), "ok 0", "a log without events proves itself");
}

#[test]
fn heads_count_only_with_the_signature_of_the_log() {
    let check = |change: &dyn Fn(&Fixture), expected: &str| {
        let mut fixture = Fixture::of_events(3);
        fixture.close();
        change(&fixture);
        let verdict = fixture.verdict();
        assert!(verdict.starts_with("bad_signature - -"), "{verdict}");
        assert!(verdict.contains(expected), "{verdict}");
        let log = fixture.open();
        let refused = log.append(numbered("b_main", 4)).unwrap_err();
        assert!(["log_corrupt", "head_key_invalid"].contains(&refused.code()), "{refused}");
        assert_eq!(numbers(log, "b_main"), [1, 2, 3], "reading goes on");
    };
    let latest = |fixture: &Fixture| fixture.path().join("heads/latest.note");
    check(&|fixture| fs::remove_file(latest(fixture)).unwrap(), "no signed head");
    check(&|fixture| fs::write(latest(fixture), "").unwrap(), "no signed note");
    let other_size = |fixture: &Fixture| {
        let note = fs::read_to_string(latest(fixture)).unwrap();
        fs::write(latest(fixture), note.replacen("\n3\n", "\n2\n", 1)).unwrap();
    };
    check(&other_size, "no signature");
    let other_log = |fixture: &Fixture| {
        let mut other = Fixture::of_events(3);
        other.close();
        fs::copy(latest(&other), latest(fixture)).unwrap();
    };
    check(&other_log, "no signature");
    let public = |fixture: &Fixture| fixture.path().join("keys/head.pub");
    let other_key = |fixture: &Fixture| {
        fs::copy(public(&Fixture::new()), public(fixture)).unwrap();
    };
    check(&other_key, "no signature");
    check(&|fixture| fs::remove_file(public(fixture)).unwrap(), "head_key_invalid");
}

#[test]
fn a_lost_secret_key_leaves_a_log_that_reads_and_proves() {
    let mut fixture = Fixture::of_events(3);
    fixture.close();
    fs::remove_file(fixture.path().join("keys/head.ed25519")).unwrap();
    assert_eq!(fixture.verdict(), "ok 3");
    let log = fixture.open();
    assert_eq!(refusal(log.append(numbered("b_main", 4)), ""), "head_key_invalid");
    assert_eq!(numbers(log, "b_main"), [1, 2, 3]);
}

/// One flipped bit in the file itself, in the third of ten events.
#[test]
fn a3_a_bad_event_closes_its_branch_and_nothing_else() {
    let mut fixture = Fixture::of_events(2);
    let mark = "a-mark-that-occurs-once";
    let mut third = numbered("b_main", 3);
    third.events[0].body = serde_json::json!({"n": 3, "mark": mark});
    fixture.log().append(third).unwrap();
    for n in 4..=10 {
        fixture.append(n);
    }
    fixture.log().create_branch(root("s_2", "b_other")).unwrap();
    fixture.close();
    let database = fixture.path().join("log.db");
    let mut bytes = fs::read(&database).unwrap();
    let at = bytes.windows(mark.len()).position(|part| part == mark.as_bytes()).unwrap();
    bytes[at] ^= 1;
    fs::write(&database, bytes).unwrap();

    assert_eq!(fixture.verdict(), "hash_mismatch b_main 3: expected hash, found hash");
    let log = fixture.open();
    let main = branch("b_main");
    assert_eq!(log.read(&main, 1, 2).unwrap().len(), 2, "reads before it work");
    assert_eq!(refusal(log.read(&main, 1, 3), "seq"), "log_corrupt seq=3");
    let mut events = log.events(&main);
    assert_eq!(events.by_ref().take(2).filter(Result::is_ok).count(), 2);
    assert_eq!(refusal(events.next().unwrap(), "kind"), "log_corrupt kind=\"hash_mismatch\"");
    assert!(events.next().is_none());
    assert_eq!(refusal(log.append(numbered("b_main", 11)), "seq"), "log_corrupt seq=3");
    assert_eq!(refusal(log.create_branch(fork("b_late", "b_main", 3)), "seq"), "log_corrupt seq=3");
    log.create_branch(fork("b_fork", "b_main", 2)).unwrap();
    log.append(numbered("b_fork", 3)).unwrap();
    assert_eq!(numbers(log, "b_fork"), [1, 2, 3]);
    let other = Append::new(session("s_2"), branch("b_other"), vec![draft(1)]);
    log.append(other).unwrap();
}

/// The failure: a file that a seal's manifest names could be changed or lost, and the log was told to prove
/// itself; and a text that somebody entered into an interface could name a content that never was.
/// Now: what a manifest names is read as well, and what somebody else wrote names nothing.
#[test]
fn what_a_manifest_names_is_proved_and_what_a_person_enters_names_nothing() {
    let check = |change: &dyn Fn(&Fixture, Digest), expected: &str| {
        let mut fixture = Fixture::of_events(2);
        let log = fixture.log();
        let file = log.put_blob(b"a file").unwrap();
        let manifest = log.put_blob(manifest_of(&[file]).as_bytes()).unwrap();
        let sealed =
            Draft::new(Kind::WorkspaceSealed, &json!({ "manifest": { "blob": manifest } }));
        let entered = json!({ "event": { "payload": { "blob": Digest::of(b"never") } } });
        let entered = Draft::new(Kind::PlanEvent, &entered);
        log.append(Append::new(session("s_1"), branch("b_main"), vec![sealed, entered])).unwrap();
        assert_eq!(fixture.verdict(), "ok 4", "the control");
        fixture.open();
        change(&fixture, file);
        let found = fixture.verdict();
        assert!(found.starts_with(expected), "{found}");
    };
    let changed = |fixture: &Fixture, file: Digest| {
        let path = blob_file(fixture.path(), &file);
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(path, bytes).unwrap();
    };
    check(&changed, "hash_mismatch b_main 3: expected blob");
    let gone = |fixture: &Fixture, file: Digest| {
        fs::remove_file(blob_file(fixture.path(), &file)).unwrap();
    };
    check(&gone, "hash_mismatch b_main 3: expected blob");
    let erased = |fixture: &Fixture, file: Digest| {
        fixture.log().erase(erase(&[], &[file])).unwrap();
    };
    check(&erased, "ok 5 erased 0+1");
}
