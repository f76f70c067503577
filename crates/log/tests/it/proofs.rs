//! Proofs for others, signed heads that extend one another, and erasing that keeps both.

use std::fs;

use glasshouse_log::{Consistency, Log};
use glasshouse_model::{Draft, Kind, TenantId};
use serde_json::{Value, json};

use crate::support::{Fixture, branch, erase, fork, numbered, refusal};

#[test]
fn every_event_is_proved_against_a_signed_head() {
    let fixture = Fixture::of_events(9);
    let log = fixture.log();
    log.create_branch(fork("b_fork", "b_main", 4)).unwrap();
    log.append(numbered("b_fork", 5)).unwrap();
    for seq in 1..=9 {
        let proof = log.prove(&branch("b_main"), seq).unwrap();
        assert_eq!((proof.index, proof.seq), (seq - 1, seq));
        assert!(
            proof.to_text().starts_with(&format!("c2sp.org/tlog-proof@v1\nindex {}\n", seq - 1))
        );
        assert!(proof.to_text().ends_with(&proof.checkpoint));
    }
    let shared = log.prove(&branch("b_fork"), 4).unwrap();
    assert_eq!((shared.branch.as_str(), shared.index), ("b_main", 3), "who stores it is named");
    let own = log.prove(&branch("b_fork"), 5).unwrap();
    assert_eq!((own.index, own.event.body.as_deref()), (9, Some("{\"n\":5}")));
    for seq in [0, 10, u64::MAX] {
        assert_eq!(refusal(log.prove(&branch("b_main"), seq), ""), "event_not_found");
    }
    assert_eq!(refusal(log.prove(&branch("b_none"), 1), ""), "branch_not_found");
}

#[test]
fn a_reader_proves_what_a_head_covers_and_no_more() {
    let mut fixture = Fixture::of_events(2);
    fixture.log().sign_head().unwrap();
    let note = fs::read(fixture.path().join("heads/latest.note")).unwrap();
    fixture.append(3);
    fixture.close();
    fs::write(fixture.path().join("heads/latest.note"), note).unwrap();
    let reader = Log::open_read_only(fixture.path(), &TenantId::local()).unwrap();
    assert_eq!(reader.prove(&branch("b_main"), 2).unwrap().index, 1);
    assert_eq!(refusal(reader.prove(&branch("b_main"), 3), ""), "head_not_signed");
}

#[test]
fn heads_extend_one_another_or_the_difference_is_named() {
    let fixture = Fixture::of_events(3);
    let old = fixture.log().sign_head().unwrap().note;
    for n in 4..=7 {
        fixture.append(n);
    }
    let new = fixture.log().sign_head().unwrap().note;
    let check = |log: &Log, old: &str, new: Option<&str>| match log.check_extension(old, new) {
        Ok(Consistency::Extends(found)) => {
            format!("{} -> {} by {}", found.old_size, found.new_size, found.path.len())
        }
        Ok(Consistency::Broken(broken)) => broken.kind.to_owned(),
        Err(error) => panic!("{error}"),
    };
    let log = fixture.log();
    assert_eq!(check(log, &old, Some(&new)), "3 -> 7 by 4");
    assert_eq!(check(log, &old, None), "3 -> 7 by 4");
    assert_eq!(check(log, &old, Some(&old)), "3 -> 3 by 0");
    assert_eq!(check(log, &new, Some(&old)), "truncated");
    assert_eq!(check(log, &old.replace("\n3\n", "\n2\n"), None), "bad_signature");
    let stranger = Fixture::of_events(3);
    assert_eq!(check(stranger.log(), &old, None), "bad_signature");
}

#[test]
fn erasing_keeps_every_proof_and_no_byte() {
    let mut fixture = Fixture::of_events(2);
    let mark = "a-word-that-occurs-once";
    let digest = fixture.log().put_blob(mark.as_bytes()).unwrap();
    let mut third = numbered("b_main", 3);
    third.events = vec![Draft::new(
        Kind::MessageReceived,
        &json!({"n": 3, "text": mark, "output": {"blob": digest, "bytes": 23}}),
    )];
    fixture.log().append(third).unwrap();
    fixture.append(4);
    let old = fixture.log().sign_head().unwrap().note;
    let before = fixture.log().prove(&branch("b_main"), 3).unwrap();
    let holds = |fixture: &Fixture| {
        ["log.db", "log.db-wal"].iter().any(|name| {
            let bytes = fs::read(fixture.path().join(name)).unwrap_or_default();
            bytes.windows(mark.len()).any(|part| part == mark.as_bytes())
        })
    };
    assert!(holds(&fixture), "the control");
    let appended = fixture.log().erase(erase(&[("b_main", 3)], &[digest])).unwrap();
    assert_eq!((appended.head.seq, appended.events[0].kind()), (5, &Kind::LogErased));
    assert!(!holds(&fixture), "neither the database nor its write-ahead log holds it");
    assert_eq!(refusal(fixture.log().blob(&digest), ""), "blob_not_found");

    let log = fixture.open();
    let events = log.read(&branch("b_main"), 1, 10).unwrap();
    assert_eq!(events[2].body, Value::Null);
    assert_eq!((events[2].kind(), events[2].hash), (&Kind::MessageReceived, before.event.hash));
    let after = log.prove(&branch("b_main"), 3).unwrap();
    assert_eq!((&after.event.header, &after.event.body), (&before.event.header, &None));
    assert!(log.check_extension(&old, None).unwrap().is_ok(), "old heads still hold");
    assert_eq!(fixture.verdict(), "ok 5 erased 1+1");

    let log = fixture.open();
    log.erase(erase(&[("b_main", 3)], &[])).unwrap();
    assert_eq!(refusal(log.erase(erase(&[("b_main", 5)], &[])), ""), "append_invalid");
    assert_eq!(refusal(log.erase(erase(&[("b_main", 70)], &[])), ""), "event_not_found");
    assert_eq!(refusal(log.erase(erase(&[], &[])), ""), "append_invalid");
    assert_eq!(log.head(&branch("b_main")).unwrap().seq, 6, "a refusal leaves no event");
    assert_eq!(log.put_blob(mark.as_bytes()).unwrap(), digest, "the same content may come again");
    assert_eq!(fixture.verdict(), "ok 6 erased 1+0");
}

#[test]
fn what_is_gone_without_an_event_is_named() {
    let check = |statements: &str, expected: &str| {
        let mut fixture = Fixture::of_events(5);
        fixture.log().erase(erase(&[("b_main", 2)], &[])).unwrap();
        assert_eq!(fixture.verdict(), "ok 6 erased 1+0", "the control");
        fixture.database().execute_batch(statements).unwrap();
        assert_eq!(fixture.verdict(), expected, "{statements}");
        let log = fixture.open();
        assert!(log.read(&branch("b_main"), 1, 9).is_err(), "{statements}");
        assert_eq!(refusal(log.append(numbered("b_main", 9)), ""), "log_corrupt");
    };
    let set = |seq: u64, salt: &str| {
        format!("UPDATE event SET salt = {salt}, body = x'' WHERE place = (1 << 40 | {seq})")
    };
    let taken = |seq: u64| {
        format!(
            "hash_mismatch b_main {seq}: expected hash, found a body that was taken away without a \
             record"
        )
    };
    check(&set(3, "x'0000000000000005'"), &taken(3));
    check(&set(4, "x'0000000000000001'"), &taken(4));
    check(&set(2, "x'00000000000000ff'"), &taken(2));
    check(&set(6, "x'0000000000000005'"), &taken(2));
}

#[test]
fn an_erasure_that_was_cut_short_is_finished_by_the_next_opening() {
    let mut fixture = Fixture::of_events(1);
    let digest = fixture.log().put_blob(b"content").unwrap();
    fixture.close();
    let insert = format!("INSERT INTO cell VALUES ('log.erasing', '{}', 1, x'')", digest.hex());
    fixture.database().execute_batch(&insert).unwrap();
    assert_eq!(refusal(fixture.open().blob(&digest), ""), "blob_not_found");
    fixture.close();
    let left: i64 = fixture
        .database()
        .query_row("SELECT count(*) FROM cell WHERE bytes IS NOT NULL", [], |row| row.get(0))
        .unwrap();
    assert_eq!(left, 0);
}

#[test]
fn an_erased_event_stays_numbered() {
    let fixture = Fixture::of_events(3);
    fixture.log().create_branch(fork("b_fork", "b_main", 3)).unwrap();
    fixture.log().append(numbered("b_fork", 4)).unwrap();
    fixture.log().erase(erase(&[("b_main", 1), ("b_fork", 4)], &[])).unwrap();
    let seqs: Vec<_> =
        fixture.log().events(&branch("b_fork")).map(|event| event.unwrap().seq()).collect();
    assert_eq!(seqs, [1, 2, 3, 4]);
}
