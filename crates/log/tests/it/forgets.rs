//! Deleting a session takes its bodies and what only it names, and nothing that another one needs.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use glasshouse_log::{Append, Forget, Forgotten, Keeping, Log, SessionRow};
use glasshouse_model::{Actor, Digest, Draft, Kind};
use serde_json::json;

use crate::support::{
    Fixture, ManualClock, blob_file, branch, clocked, manifest_of, refusal, root, session,
};

const A_YEAR_US: u64 = 366 * 24 * 3_600 * 1_000_000;

/// A session with one event that names blobs.
fn naming(log: &Log, n: u64, blobs: &[Digest]) {
    let (session_id, branch_id) = (format!("s_{n}"), format!("b_{n}"));
    log.create_branch(root(&session_id, &branch_id)).unwrap();
    let of: Vec<_> = blobs.iter().map(|blob| json!({ "blob": blob })).collect();
    let draft = Draft::new(Kind::Heartbeat, &json!({ "n": n, "of": of }));
    log.append(Append::new(session(&session_id), branch(&branch_id), vec![draft])).unwrap();
}

fn forget(log: &Log, n: u64, keep_blobs: bool) -> glasshouse_log::Result<Forgotten> {
    log.forget(&Forget {
        session: session(&format!("s_{n}")),
        reason: "asked for".to_owned(),
        actor: Actor::kernel(),
        keep_blobs,
        is_kept: &|_| false,
    })
}

/// The failure: who counts what models used in a day read it from their answers, so it was gone with them.
/// The mend: an erasure keeps it, without a word of the answers; so it is found whatever erased them, and in
/// however many parts.
#[test]
fn an_erasure_keeps_what_answers_used() {
    let fixture = Fixture::new();
    let log = fixture.log();
    log.create_branch(root("s_31", "b_31")).unwrap();
    let raw = json!({ "blob": Digest::of(b"raw"), "bytes": 3 });
    // Requests and answers in turn, so that the first part ends between two of them.
    let drafts: Vec<_> = std::iter::once(Draft::new(Kind::Heartbeat, &json!({}))).chain((0..520).flat_map(|n: u64| {
        [
            Draft::new(
                Kind::ModelRequested,
                &json!({ "ordinal": n, "attempt": 1, "request": Digest::ZERO, "provider": "p", "model": "m".repeat(200) }),
            ),
            Draft::new(
                Kind::ModelCompleted,
                &json!({ "ordinal": n, "text": "launch-code-7", "calls": [], "finish": "stop", "tokens": { "input": n, "output": 1 }, "raw": raw, "duration_us": 1, "cost_micros": n }),
            ),
        ]
    }))
    .collect();
    for part in drafts.chunks(1_000) {
        log.append(Append::new(session("s_31"), branch("b_31"), part.to_vec())).unwrap();
    }
    forget(log, 31, true).unwrap();
    let mut found = Vec::new();
    for record in log.records(&branch("b_31"), 1, 9_999).unwrap() {
        let said = log.erasure(record.erased_by().unwrap()).unwrap().unwrap();
        assert!(!serde_json::to_string(&said).unwrap().contains("launch-code-7"));
        found.extend(said.spent.into_iter().filter(|spent| spent.seq == record.seq));
    }
    assert_eq!(found.len(), 520);
    for (n, spent) in (0..).zip(&found) {
        assert_eq!((spent.seq, spent.cost_micros), (2 * n + 3, Some(n)));
        assert_eq!(
            spent.tokens.iter().map(|(k, n)| (k.as_str(), *n)).collect::<Vec<_>>(),
            [("input", n), ("output", 1)]
        );
    }
    // Long names are cut. Only where the request went with the part before is nothing known of it.
    let unnamed: Vec<_> = found.iter().filter(|spent| spent.model.is_none()).collect();
    assert_eq!(unnamed.iter().map(|spent| spent.seq).collect::<Vec<_>>(), [1_025]);
    assert!(found.iter().filter_map(|spent| spent.model.as_ref()).all(|name| name.len() == 128));
    assert_eq!(log.erasure(0).unwrap(), None, "the control: no erasure stands there");
}

/// What is left of two sessions' blobs: own, shared, and the other's.
struct Two {
    fixture: Fixture,
    own: Digest,
    shared: Digest,
    others: Digest,
}

impl Two {
    fn new() -> Self {
        Self::of(Fixture::new())
    }

    fn of(fixture: Fixture) -> Self {
        let log = fixture.log();
        let [own, shared, others] =
            [&b"own"[..], b"shared", b"others"].map(|bytes| log.put_blob(bytes).unwrap());
        naming(log, 11, &[own, shared]);
        naming(log, 12, &[shared, others]);
        Self { fixture, own, shared, others }
    }

    fn left(&self) -> [bool; 3] {
        [self.own, self.shared, self.others]
            .map(|digest| blob_file(self.fixture.path(), &digest).exists())
    }
}

#[test]
fn what_another_session_names_stays() {
    let two = Two::new();
    let log = two.fixture.log();
    let done = forget(log, 11, false).unwrap();
    assert_eq!((done.events, done.blobs), (1, 1));
    assert_eq!(two.left(), [false, true, true]);
    assert_eq!(forget(log, 11, false).unwrap(), Forgotten::default(), "again");
    assert!(log.is_forgotten(&session("s_11")).unwrap());
    forget(log, 12, true).unwrap();
    assert_eq!(two.left(), [false, true, true], "blobs were to stay");
}

/// A blob that is here already is stored by naming it: between the one and the other a deletion found that
/// nobody names it, and took it. It waits for nobody; it refuses.
#[test]
fn nothing_goes_while_somebody_is_about_to_name_it() {
    let two = Two::new();
    let log = two.fixture.log();
    let about_to = log.naming().unwrap();
    assert_eq!(refusal(forget(log, 11, false), ""), "session_owned");
    assert_eq!(two.left(), [true; 3]);
    assert_eq!(log.put_blob(b"own").unwrap(), two.own);
    naming(log, 13, &[two.own]);
    drop(about_to);
    assert_eq!(forget(log, 11, false).unwrap().blobs, 0);
    assert_eq!(two.left(), [true; 3]);
}

/// What cannot be read is still somebody's: it was left on the disk for ever by a deletion that found it
/// damaged, and a session with it could not be deleted.
#[test]
fn a_damaged_blob_goes_as_well() {
    let two = Two::new();
    fs::write(blob_file(two.fixture.path(), &two.own), b"damaged").unwrap();
    assert_eq!(forget(two.fixture.log(), 11, false).unwrap().blobs, 1);
    assert_eq!(two.left(), [false, true, true]);
}

/// Archived sessions name their blobs in the archive, from the moment that it is written: a rotation that was cut
/// short has some bodies here and some there. One that was moved away names what nobody knows.
#[test]
fn an_archive_keeps_what_it_names() {
    let clock = Arc::new(ManualClock::default());
    let two = Two::of(Fixture::with(clocked(&clock)));
    let log = two.fixture.log();
    clock.now_us.fetch_add(A_YEAR_US, Ordering::SeqCst);
    let is_twelve = &mut |row: &SessionRow| Ok(row.session == session("s_12"));
    let rotated = log.rotate(&Keeping::default(), false, is_twelve).unwrap();
    let archive = two.fixture.path().join("archive").join(&rotated.archived[0].file);
    // As it was before the last of its bodies were gone.
    let cell = log.cell("log.archive", "s_12").unwrap().unwrap();
    let text = String::from_utf8(cell.bytes).unwrap();
    assert!(text.contains("erased"), "{text}");
    let bytes = text.replace("erased", "written").into_bytes();
    let change = "UPDATE cell SET bytes = ?1 WHERE space = 'log.archive' AND key = 's_12'";
    assert_eq!(two.fixture.database().execute(change, [bytes]).unwrap(), 1);

    let aside = two.fixture.path().join("aside.jsonl");
    fs::rename(&archive, &aside).unwrap();
    assert_eq!(refusal(forget(log, 11, false), ""), "storage_failed");
    assert_eq!(two.left(), [true; 3]);
    fs::rename(&aside, &archive).unwrap();
    forget(log, 11, false).unwrap();
    assert_eq!(two.left(), [false, true, true]);
}

#[test]
fn files_of_a_manifest_go_with_it() {
    let fixture = Fixture::new();
    let log = fixture.log();
    let file = log.put_blob(b"a file").unwrap();
    let manifest = log.put_blob(manifest_of(&[file]).as_bytes()).unwrap();
    log.create_branch(root("s_14", "b_14")).unwrap();
    let sealed = Draft::new(Kind::Heartbeat, &json!({ "manifest": { "blob": manifest } }));
    log.append(Append::new(session("s_14"), branch("b_14"), vec![sealed])).unwrap();
    assert_eq!(forget(log, 14, false).unwrap().blobs, 2);
    assert!(!blob_file(fixture.path(), &file).exists());
}
