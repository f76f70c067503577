//! Old sessions move to archives, and a full log makes room: nothing is lost on the way, wherever it
//! is cut short.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use glasshouse_log::{
    Append, Clock, ExportBlobs, Keeping, LEASE_TTL_US, Log, Options, Rotated, backups,
    check_export, own_session,
};
use glasshouse_model::{Digest, Draft, Kind, TenantId};
use serde_json::{Value, json};

use crate::disk::{Disk, Fault};
use crate::support::{
    Fixture, ManualClock, branch, clocked, erase, fork, merge, root, session, verdict,
};

const DAY_US: u64 = 24 * 3_600 * 1_000_000;
/// 2026-09-21 14:13:20.
const START_US: u64 = 1_790_000_000_000_000;

fn clock() -> Arc<ManualClock> {
    let clock = Arc::new(ManualClock::default());
    clock.now_us.store(START_US, Ordering::SeqCst);
    clock
}

/// So many events of so many bytes on a new branch of its own session.
fn add_session(log: &Log, n: u64, events: u64, bytes: usize) {
    log.create_branch(root(&format!("s_{n}"), &format!("b_{n}"))).unwrap();
    for first in (0..events).step_by(500) {
        let drafts = (first..events.min(first + 500)).map(|m| {
            let pad = "x".repeat(bytes);
            Draft::new(Kind::MessageReceived, &json!({"n": n, "m": m, "pad": pad}))
        });
        let (session, branch) = (session(&format!("s_{n}")), branch(&format!("b_{n}")));
        log.append(Append::new(session, branch, drafts.collect())).unwrap();
    }
}

fn rotate(log: &Log, max_bytes: u64) -> Rotated {
    let keeping = Keeping { max_bytes, ..Keeping::default() };
    log.rotate(&keeping, false, &mut |_| Ok(true)).unwrap()
}

fn files(rotated: &Rotated) -> Vec<&str> {
    rotated.archived.iter().map(|archive| archive.file.as_str()).collect()
}

/// Kinds and bodies of the log's own session.
fn told(log: &Log) -> Vec<(Kind, Value)> {
    let Some(own) = log.branches(&own_session()).unwrap().pop() else { return Vec::new() };
    let events = log.events(&own.branch).map(Result::unwrap);
    events.map(|event| (event.kind().clone(), event.body)).collect()
}

#[test]
fn old_sessions_move_to_archives_and_every_proof_stays() {
    let clock = clock();
    let mut fixture = Fixture::with(clocked(&clock));
    let log = fixture.log();
    // A session with a fork that was merged and one that was not, and 2,500 events.
    add_session(log, 2, 2_500, 10);
    for (id, at) in [("b_left", 7), ("b_merged", 2_500)] {
        let new = glasshouse_log::NewBranch { session: session("s_2"), ..fork(id, "b_2", at) };
        let events = vec![Draft::new(Kind::MessageReceived, &json!({"n": id}))];
        log.create_branch_with(new, events).unwrap();
    }
    let source = log.head(&branch("b_merged")).unwrap();
    let joined = glasshouse_log::MergeBranch {
        session: session("s_2"),
        ..merge("b_merged", source, "b_2", 2_500)
    };
    log.merge(joined).unwrap();
    let head = log.head(&branch("b_2")).unwrap();
    clock.now_us.fetch_add(40 * DAY_US, Ordering::SeqCst);
    add_session(log, 3, 3, 10);
    log.back_up().unwrap();
    let proof = log.prove(&branch("b_2"), 9).unwrap();
    let mut exported = Vec::new();
    log.export_session(&session("s_2"), ExportBlobs::None, &mut exported).unwrap();

    assert_eq!(files(&rotate(log, u64::MAX)), Vec::<&str>::new(), "nothing is old");
    clock.now_us.fetch_add(51 * DAY_US, Ordering::SeqCst);
    let planned = log.rotate(&Keeping::default(), true, &mut |_| Ok(true)).unwrap();
    assert_eq!(files(&planned), ["2026-09-21/s_2.jsonl"]);
    assert!(!fixture.path().join("archive").exists(), "a dry run changes nothing");
    assert_eq!(log.branch(&branch("b_2")).unwrap().state.as_str(), "open");

    let done = rotate(log, u64::MAX);
    assert_eq!(files(&done), files(&planned));
    assert_eq!(done.archived[0].events, 2_503);
    let archive = fs::read(fixture.path().join("archive/2026-09-21/s_2.jsonl")).unwrap();
    assert_eq!(check_export(archive.as_slice()).unwrap().events, 2_503);
    let events = |bytes: &[u8]| {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let events = text.lines().filter(|line| line.starts_with("{\"event\"")).map(str::to_owned);
        events.collect::<Vec<_>>()
    };
    assert_eq!(events(&archive), events(&exported), "byte for byte");
    // Bodies are gone but for the merge, which proves its source; headers, hashes and proofs stay.
    let left = log.records(&branch("b_2"), 1, 9_999).unwrap();
    let whole: Vec<_> = left.iter().filter(|r| r.erased_by().is_none()).map(|r| r.seq).collect();
    assert_eq!(whole, [2_501]);
    assert_eq!(log.head(&branch("b_2")).unwrap(), head);
    let again = log.prove(&branch("b_2"), 9).unwrap();
    assert_eq!((again.index, again.event.hash), (proof.index, proof.event.hash));
    assert_eq!(log.branch(&branch("b_left")).unwrap().state.as_str(), "closed");
    assert_eq!(log.archive_of(&session("s_2")).unwrap().as_ref(), Some(&done.archived[0]));
    assert_eq!(log.archive_of(&session("s_3")).unwrap(), None);
    // 2,502 bodies took three events that say so, each small.
    let said: Vec<_> = told(log).into_iter().filter(|(kind, _)| *kind == Kind::LogErased).collect();
    assert_eq!(said.len(), 3);
    assert!(said.iter().all(|(_, body)| body.to_string().len() < 400), "{said:?}");
    assert_eq!(said[0].1["reason"], "archived as 2026-09-21/s_2.jsonl");
    // A new backup holds what the log holds now.
    assert_eq!(backups(fixture.path()).unwrap(), [done.backup.unwrap()]);
    assert_eq!(files(&rotate(log, u64::MAX)), Vec::<&str>::new(), "once is enough");
    assert!(verdict(&log.verify().unwrap()).ends_with("erased 2502+0"));
    let before = fixture.verdict();
    fixture.open();
    assert_eq!(fixture.verdict(), before);
}

#[test]
fn what_is_in_use_stays() {
    let clock = clock();
    let fixture = Fixture::with(clocked(&clock));
    let log = fixture.log();
    for n in 2..=5 {
        add_session(log, n, 3, 10);
    }
    clock.now_us.fetch_add(91 * DAY_US, Ordering::SeqCst);
    let lease = log.acquire_lease(&branch("b_3")).unwrap();
    let done = log
        .rotate(&Keeping::default(), false, &mut |row| {
            if row.session == session("s_5") {
                // Somebody goes on with it while this is decided.
                let event = Draft::new(Kind::MessageReceived, &json!({}));
                log.append(Append::new(session("s_5"), branch("b_5"), vec![event])).unwrap();
            }
            Ok(row.session != session("s_4"))
        })
        .unwrap();
    assert_eq!(files(&done), ["2026-09-21/s_2.jsonl"]);
    let left: Vec<_> = done.left.iter().map(|left| (left.session.as_str(), &*left.why)).collect();
    assert_eq!(
        left,
        [
            ("s_3", "a process works on b_3"),
            ("s_4", "it has not ended, or is kept for what it decided"),
            ("s_5", "somebody went on with it"),
        ]
    );
    drop(lease);
    // The log's own session is old as well by then, and stays.
    clock.now_us.fetch_add(91 * DAY_US, Ordering::SeqCst);
    let rest = ["2026-09-21/s_3.jsonl", "2026-09-21/s_4.jsonl", "2026-12-21/s_5.jsonl"];
    assert_eq!(files(&rotate(log, u64::MAX)), rest);
    assert!(log.verify().unwrap().is_ok());
}

/// One damaged session keeps no other in the log.
#[test]
fn a_damaged_session_stays_and_the_others_go() {
    let clock = clock();
    let mut fixture = Fixture::with(clocked(&clock));
    add_session(fixture.log(), 2, 3, 10);
    add_session(fixture.log(), 3, 3, 10);
    fixture.close();
    fixture
        .database()
        .execute("UPDATE event SET body = x'7b7d' WHERE place = (2 << 40 | 2)", [])
        .unwrap();
    clock.now_us.fetch_add(91 * DAY_US, Ordering::SeqCst);
    let log = Log::open_with(fixture.path(), &TenantId::local(), clocked(&clock)).unwrap();
    let done = rotate(&log, u64::MAX);
    assert_eq!(files(&done), ["2026-09-21/s_3.jsonl"]);
    assert!(done.left[0].why.contains("event 2 of b_2"), "{:?}", done.left);
}

#[test]
fn a_full_log_warns_once_for_each_crossing_and_deletes_the_oldest_archives() {
    let clock = clock();
    let fixture = Fixture::with(clocked(&clock));
    let log = fixture.log();
    for n in 2..=4 {
        clock.now_us.store(START_US + n * DAY_US, Ordering::SeqCst);
        add_session(log, n, 100, 4_000);
    }
    clock.now_us.fetch_add(91 * DAY_US, Ordering::SeqCst);
    let used = rotate(log, u64::MAX).usage.bytes;
    let archive_bytes = |n: u64| {
        let archive = log.archive_of(&session(&format!("s_{n}"))).unwrap().unwrap();
        let path = fixture.path().join("archive").join(&archive.file);
        assert_eq!(path.metadata().unwrap().len(), archive.bytes);
        archive.bytes
    };
    assert!(archive_bytes(2) > 400_000 && used > 3 * archive_bytes(2));
    let kinds = || {
        let kinds = told(log).into_iter().filter(|(kind, _)| *kind != Kind::LogErased);
        kinds.map(|(kind, body)| format!("{kind} {}", body["percent"])).collect::<Vec<_>>()
    };
    // Roomy limits, so that the pages which telling takes move nothing over an edge.
    let limit = |percent: u64| used * 100 / percent;
    assert_eq!(rotate(log, limit(50)).deleted.len(), 0);
    assert_eq!(kinds(), Vec::<String>::new());
    for _ in 0..3 {
        rotate(log, limit(85));
    }
    assert_eq!(kinds().len(), 1, "{:?}", kinds());
    for _ in 0..3 {
        rotate(log, limit(97));
    }
    assert_eq!(kinds().len(), 2, "{:?}", kinds());
    assert!(kinds()[0].starts_with("log.storage_warning 8"), "{:?}", kinds());
    assert!(kinds()[1].starts_with("log.storage_critical 9"), "{:?}", kinds());
    // Crossed again after it was left.
    rotate(log, limit(50));
    rotate(log, limit(97));
    assert_eq!(kinds().len(), 4, "{:?}", kinds());
    // Over the limit: the oldest go until there is room, the newest stays.
    let done = rotate(log, used - archive_bytes(2));
    assert_eq!(done.deleted[0], "2026-09-23/s_2.jsonl");
    assert!(!fixture.path().join("archive/2026-09-23").exists());
    assert!(fixture.path().join("archive/2026-09-25/s_4.jsonl").exists());
    assert!(done.usage.bytes <= done.usage.limit_bytes);
    let deleted = told(log).into_iter().filter(|(kind, _)| *kind == Kind::LogArchiveDeleted);
    let deleted: Vec<_> = deleted.map(|(_, body)| body["archive"].clone()).collect();
    assert_eq!(json!(deleted), json!(done.deleted));
    assert!(log.archive_of(&session("s_2")).unwrap().is_some(), "it is known that it was");
    assert!(log.verify().unwrap().is_ok());
}

/// Every body that was recorded, by branch and sequence.
type Bodies = BTreeMap<(String, u64), String>;

fn bodies_in_log(log: &Log) -> Bodies {
    let mut bodies = Bodies::new();
    for row in log.sessions().unwrap() {
        for record in log.records(&row.main, 1, 99_999).unwrap() {
            if record.erased_by().is_none() {
                let body = String::from_utf8(record.body).unwrap();
                bodies.insert((row.main.to_string(), record.seq), body);
            }
        }
    }
    bodies
}

fn bodies_in_archives(home: &Path) -> Bodies {
    let mut bodies = Bodies::new();
    for day in fs::read_dir(home.join("archive")).into_iter().flatten() {
        for entry in fs::read_dir(day.unwrap().path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|ending| ending != "jsonl") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            check_export(text.as_bytes()).unwrap();
            for line in text.lines() {
                let line: Value = serde_json::from_str(line).unwrap();
                if let (Some(branch), Some(body)) =
                    (line["event"]["branch"].as_str(), line["event"]["body"].as_str())
                {
                    let seq = line["event"]["seq"].as_u64().unwrap();
                    bodies.insert((branch.to_owned(), seq), body.to_owned());
                }
            }
        }
    }
    bodies
}

/// The disk fails at each call in turn; what was recorded is in the log or in an archive that proves
/// itself, and the next rotation finishes.
#[test]
fn a_rotation_that_is_cut_short_anywhere_loses_nothing() {
    let attempt = |fail_at: Option<u64>| {
        let (disk, clock) = (Disk::new(), clock());
        let open = |home: &Path| {
            let options = Options { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..disk.options() };
            Log::open_with(home, &TenantId::local(), options)
        };
        let home = tempfile::tempdir().unwrap();
        let log = open(home.path()).unwrap();
        add_session(&log, 2, 1_100, 20);
        add_session(&log, 3, 3, 20);
        let recorded = bodies_in_log(&log);
        assert_eq!(recorded.len(), 1_103);
        clock.now_us.fetch_add(91 * DAY_US, Ordering::SeqCst);
        let before = disk.calls();
        if let Some(call) = fail_at {
            disk.fail_call(before + call, Fault::Io);
        }
        let keeping = Keeping::default();
        let done = log.rotate(&keeping, false, &mut |_| Ok(true)).is_ok();
        let calls = disk.calls() - before;
        drop(log);
        let log = open(home.path()).unwrap();
        let mut kept = bodies_in_log(&log);
        kept.extend(bodies_in_archives(home.path()));
        for (place, body) in &recorded {
            assert_eq!(kept.get(place), Some(body), "call {fail_at:?}: {place:?}");
        }
        assert!(log.verify().unwrap().is_ok(), "call {fail_at:?}");
        // A lease that could not be given back ends by itself; here its owner still lives.
        clock.uptime_us.fetch_add(2 * LEASE_TTL_US, Ordering::SeqCst);
        let again = rotate(&log, u64::MAX);
        let archived = bodies_in_archives(home.path());
        let is_archived =
            |(place, body): (&(String, u64), &String)| archived.get(place) == Some(body);
        assert!(recorded.iter().all(is_archived), "call {fail_at:?}: {again:?}");
        for n in 2..=3 {
            let archive = log.archive_of(&session(&format!("s_{n}"))).unwrap();
            assert!(archive.is_some(), "call {fail_at:?}: session {n}");
        }
        assert!(log.verify().unwrap().is_ok(), "call {fail_at:?}");
        (calls, done)
    };
    let (calls, done) = attempt(None);
    assert!(done && calls > 100, "{calls} calls");
    // Each attempt makes a log of a thousand events anew; a soak makes many of them.
    let samples = if std::env::var_os("GLASSHOUSE_SOAK").is_some() { 120 } else { 16 };
    let step = usize::try_from(calls / samples).unwrap().max(1);
    let failed = (0..calls).step_by(step).filter(|call| !attempt(Some(*call)).1).count();
    assert!(failed > 8, "{failed} of {samples} were cut short");
}

/// The undefended control: a copy that is not proved before bodies are erased loses them.
#[test]
fn an_archive_that_is_damaged_before_the_bodies_go_is_written_again() {
    let clock = clock();
    let fixture = Fixture::with(clocked(&clock));
    let log = fixture.log();
    add_session(log, 2, 5, 20);
    let recorded = bodies_in_log(log);
    clock.now_us.fetch_add(91 * DAY_US, Ordering::SeqCst);
    let path = fixture.path().join("archive/2026-09-21/s_2.jsonl");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "{\"export\":").unwrap();
    fs::write(path.with_extension("jsonl.tmp"), "left by one that was killed").unwrap();
    rotate(log, u64::MAX);
    assert_eq!(bodies_in_archives(fixture.path()), recorded);
    let keeping = Keeping { retention: Duration::ZERO, ..Keeping::default() };
    assert!(log.rotate(&keeping, false, &mut |_| Ok(true)).unwrap().left.is_empty());
}

/// Bodies of every branch, forks included.
fn all_bodies_in_log(log: &Log) -> Bodies {
    let mut bodies = Bodies::new();
    for row in log.sessions().unwrap().iter().flat_map(|row| log.branches(&row.session).unwrap()) {
        let own = row.base().seq + 1;
        for record in log.records(&row.branch, own, 99_999).unwrap() {
            if record.erased_by().is_none() {
                let body = String::from_utf8(record.body).unwrap();
                bodies.insert((row.branch.to_string(), record.seq), body);
            }
        }
    }
    bodies
}

/// The failure that this keeps away: an archive is written, the rotation is cut off, somebody forks the
/// session, and the next rotation erases the fork, which is in no archive.
#[test]
fn a_fork_between_two_steps_of_a_rotation_loses_nothing() {
    let attempt = |fail_at: Option<u64>| {
        let (disk, clock) = (Disk::new(), clock());
        let open = |home: &Path| {
            let options = Options { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..disk.options() };
            Log::open_with(home, &TenantId::local(), options).unwrap()
        };
        let home = tempfile::tempdir().unwrap();
        let log = open(home.path());
        add_session(&log, 2, 5, 20);
        clock.now_us.fetch_add(91 * DAY_US, Ordering::SeqCst);
        let before = disk.calls();
        if let Some(call) = fail_at {
            disk.fail_call(before + call, Fault::Io);
        }
        let _ = log.rotate(&Keeping::default(), false, &mut |_| Ok(true));
        let calls = disk.calls() - before;
        drop(log);
        let log = open(home.path());
        let new = glasshouse_log::NewBranch { session: session("s_2"), ..fork("b_f", "b_2", 5) };
        let events = vec![Draft::new(Kind::MessageReceived, &json!({"n": "forked"}))];
        let forked = log.create_branch_with(new, events).map_err(|error| error.code());
        let recorded = all_bodies_in_log(&log);
        clock.now_us.fetch_add(91 * DAY_US, Ordering::SeqCst);
        clock.uptime_us.fetch_add(2 * LEASE_TTL_US, Ordering::SeqCst);
        rotate(&log, u64::MAX);
        let mut kept = all_bodies_in_log(&log);
        kept.extend(bodies_in_archives(home.path()));
        for (place, body) in &recorded {
            assert_eq!(kept.get(place), Some(body), "call {fail_at:?}: {place:?}");
        }
        assert!(log.verify().unwrap().is_ok(), "call {fail_at:?}");
        (calls, forked.err())
    };
    let (calls, refused) = attempt(None);
    assert_eq!(refused, Some("session_archived"));
    let step = usize::try_from(calls / 30).unwrap().max(1);
    let ends: Vec<_> = (0..calls).step_by(step).map(|call| attempt(Some(call)).1).collect();
    let forked = ends.iter().filter(|refused| refused.is_none()).count();
    assert!(forked > 3 && forked < ends.len() - 3, "{forked} of {}", ends.len());
}

/// Copies that killed processes left hold what was erased as well as those that were finished.
#[test]
fn an_erasure_takes_along_what_killed_processes_left() {
    let fixture = Fixture::of_events(3);
    let log = fixture.log();
    let blob = log.put_blob(b"secret").unwrap().hex();
    let at = |name: &str| fixture.path().join(name);
    let (shard, rest) = blob.split_at(2);
    let gone = [
        at("backups/4194304999.tmp"),
        at("log.db.restoring"),
        at("log.db.restoring-wal"),
        at(&format!("blobs/{shard}/{rest}.4194304999-0.tmp")),
        at("cache/snapshots/session-1/b_main/00000000000000000003.snapshot"),
        at("cache/snapshots/sum-9/b_fork/00000000000000000002.snapshot"),
    ];
    // Who lives still writes; another blob and another session's snapshot are not meant.
    let kept = [
        at(&format!("blobs/{shard}/{rest}.{}-0.tmp", std::process::id())),
        at(&format!("blobs/{shard}/other.4194304999-0.tmp")),
        at("cache/snapshots/session-1/b_2/00000000000000000003.snapshot"),
    ];
    log.create_branch(fork("b_fork", "b_main", 2)).unwrap();
    add_session(log, 2, 1, 1);
    for file in gone.iter().chain(&kept) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "secret").unwrap();
    }
    log.erase(erase(&[("b_main", 2)], &[Digest::of(b"secret")])).unwrap();
    let there = |files: &[std::path::PathBuf]| files.iter().filter(|file| file.exists()).count();
    assert_eq!((there(&gone), there(&kept)), (0, kept.len()));
    assert!(log.verify().unwrap().is_ok());
}

/// The archive is the only place where the bodies are; headers in the log tell whether it is what left.
#[test]
fn an_archive_that_was_changed_by_hand_is_found_and_one_that_is_gone_is_named() {
    let clock = clock();
    let mut fixture = Fixture::with(clocked(&clock));
    add_session(fixture.log(), 2, 5, 20);
    add_session(fixture.log(), 3, 5, 20);
    clock.now_us.fetch_add(91 * DAY_US, Ordering::SeqCst);
    rotate(fixture.log(), u64::MAX);
    fixture.close();
    let at = |n: u64| fixture.home.path().join(format!("archive/2026-09-21/s_{n}.jsonl"));
    let (file, other) = (at(2), at(3));
    let whole = fs::read_to_string(&file).unwrap();
    let verify = || {
        let found = glasshouse_log::verify_home(fixture.home.path(), &TenantId::local()).unwrap();
        match found {
            glasshouse_log::Verification::Sound(sound) => {
                format!("ok, missing {:?}", sound.missing_archives)
            }
            broken => verdict(&broken),
        }
    };
    assert_eq!(verify(), "ok, missing []");
    let check = |text: &str, expected: &str| {
        fs::write(&file, text).unwrap();
        let found = verify();
        let begin = "hash_mismatch - -: expected archive 2026-09-21/s_2.jsonl, found ";
        let why = found.strip_prefix(begin).unwrap_or_else(|| panic!("{found}"));
        assert!(why.contains(expected), "{why}");
    };
    check(&whole.replace("xxx", "xyx"), "line 3 of the export is bad");
    check(&whole[..whole.len() - 1], "the export is cut");
    check("", "line 1");
    // Whole in itself, with hashes made anew or of another session.
    let pad = "x".repeat(20);
    let forged = crate::exports::forged(&whole, &pad, &"y".repeat(20));
    check_export(forged.as_bytes()).unwrap();
    check(&forged, "it holds other events of b_2 than the log had");
    check(&fs::read_to_string(&other).unwrap(), "it holds other events of b_2");
    fs::remove_file(&file).unwrap();
    assert_eq!(verify(), "ok, missing [\"2026-09-21/s_2.jsonl\"]");
    // What the log deleted itself is not missing; a cell that names a file elsewhere is not followed.
    fs::write(&file, whole).unwrap();
    assert_eq!(rotate(fixture.open(), 1).deleted.len(), 0, "that would make no room");
    let elsewhere = fixture.home.path().join("elsewhere");
    fs::write(&elsewhere, "kept").unwrap();
    fixture.close();
    let change = "UPDATE cell SET bytes = CAST(replace(bytes, '2026-09-21/s_2.jsonl', '../elsewhere') AS BLOB) \
                  WHERE space = 'log.archive' AND key = 's_2'";
    assert_eq!(fixture.database().execute(change, []).unwrap(), 1);
    let keeping = Keeping { max_bytes: 1, ..Keeping::default() };
    let refused = fixture.open().rotate(&keeping, false, &mut |_| Ok(true)).unwrap_err();
    assert_eq!(refused.code(), "log_corrupt");
    assert!(elsewhere.exists());
}

/// Blobs count, and no archive goes for them where that makes no room.
#[test]
fn blobs_count_and_cost_no_archive_that_would_not_make_room() {
    let clock = clock();
    let fixture = Fixture::with(clocked(&clock));
    let log = fixture.log();
    add_session(log, 2, 100, 4_000);
    clock.now_us.fetch_add(91 * DAY_US, Ordering::SeqCst);
    let before = rotate(log, u64::MAX).usage;
    assert_eq!(before.blob_bytes, 0);
    let noise: Vec<u8> =
        (0..20_000_u32).flat_map(|n| *Digest::of(&n.to_le_bytes()).as_bytes()).collect();
    log.put_blob(&noise).unwrap();
    let usage = rotate(log, u64::MAX).usage;
    assert_eq!(usage.blob_bytes, noise.len() as u64 + 13);
    assert!(usage.bytes >= before.bytes + usage.blob_bytes);
    let archive = log.archive_of(&session("s_2")).unwrap().unwrap();
    // Without the archive it would still be over.
    let done = rotate(log, usage.bytes - archive.bytes - 50_000);
    assert_eq!((done.deleted.len(), done.usage.percent > 100), (0, true));
    let kinds: Vec<_> = told(log).into_iter().map(|(kind, _)| kind).collect();
    assert!(kinds.contains(&Kind::LogStorageCritical), "{kinds:?}");
    // Without it there is room.
    let done = rotate(log, usage.bytes - archive.bytes + 50_000);
    assert_eq!(done.deleted, [archive.file]);
}

/// Forks and a rotation at once: each fork is refused or is whole in the log or in the archive.
#[test]
fn forks_that_race_with_a_rotation_lose_nothing() {
    for round in 0..8_u64 {
        let clock = clock();
        let fixture = Fixture::with(clocked(&clock));
        let log = fixture.log();
        add_session(log, 2, 300, 20);
        clock.now_us.fetch_add(91 * DAY_US, Ordering::SeqCst);
        let mut recorded = all_bodies_in_log(log);
        let other = Log::open_with(fixture.path(), &TenantId::local(), clocked(&clock)).unwrap();
        std::thread::scope(|scope| {
            let forking = scope.spawn(|| {
                let mut forked = Vec::new();
                for n in 0..25 {
                    let id = format!("b_f{n}");
                    let new = fork(&id, "b_2", 1 + (n + round) % 300);
                    let new = glasshouse_log::NewBranch { session: session("s_2"), ..new };
                    let events = vec![Draft::new(Kind::MessageReceived, &json!({"forked": n}))];
                    match other.create_branch_with(new, events) {
                        Ok(made) => forked.push((id, made.head.seq, json!({"forked": n}))),
                        Err(error) => {
                            assert_eq!(error.code(), "session_archived");
                            break;
                        }
                    }
                }
                forked
            });
            // Until one gets through between two forks.
            loop {
                let done = rotate(log, u64::MAX);
                if !done.archived.is_empty() {
                    break;
                }
                clock.now_us.fetch_add(91 * DAY_US, Ordering::SeqCst);
            }
            let forked = forking.join().unwrap().into_iter();
            recorded.extend(forked.map(|(id, seq, body)| ((id, seq), body.to_string())));
        });
        let mut kept = all_bodies_in_log(log);
        kept.extend(bodies_in_archives(fixture.path()));
        for (place, body) in &recorded {
            assert_eq!(kept.get(place), Some(body), "round {round}: {place:?}");
        }
        assert!(log.verify().unwrap().is_ok());
    }
}
