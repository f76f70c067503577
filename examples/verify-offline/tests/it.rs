//! The program on proofs of a real log, whole and changed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

use std::fs;
use std::path::Path;
use std::process::Command;

use glasshouse_log::{Append, Erase, Log, NewBranch};
use glasshouse_model::{BranchId, Draft, Kind, SessionId, TenantId};

struct Proofs {
    dir: tempfile::TempDir,
    key: String,
    hash: String,
}

fn proofs() -> Proofs {
    let home = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(home.path(), &TenantId::local()).unwrap();
    let (session, branch): (SessionId, BranchId) = ("s_1".parse().unwrap(), "b_1".parse().unwrap());
    let name = "main".to_owned();
    let new = NewBranch { session: session.clone(), branch: branch.clone(), name, parent: None };
    log.create_branch(new).unwrap();
    let append = |from: u64, upto: u64| {
        let drafts =
            (from..=upto).map(|n| Draft::new(Kind::Heartbeat, &format!("event {n} \u{e9}")));
        log.append(Append::new(session.clone(), branch.clone(), drafts.collect())).unwrap();
    };
    append(1, 5);
    let old = log.sign_head().unwrap();
    append(6, 11);
    log.sign_head().unwrap();
    let write = |name: &str, text: String| fs::write(dir.path().join(name), text).unwrap();
    let proof = log.prove(&branch, 7).unwrap();
    write("old.note", old.note.clone());
    write("head.json", serde_json::to_string(&old).unwrap());
    write("event.json", serde_json::to_string(&proof).unwrap());
    write("event.tlog-proof", proof.to_text());
    write(
        "growth.json",
        serde_json::to_string(&log.check_extension(&old.note, None).unwrap()).unwrap(),
    );
    let erase = Erase {
        session: session.clone(),
        branch: branch.clone(),
        events: vec![(branch.clone(), 7)],
        blobs: Vec::new(),
        reason: "law".to_owned(),
        actor: glasshouse_model::Actor::kernel(),
        epoch: None,
    };
    log.erase(erase).unwrap();
    write("erased.json", serde_json::to_string(&log.prove(&branch, 7).unwrap()).unwrap());
    Proofs { dir, key: log.public_key().unwrap().to_string(), hash: proof.event.hash.to_string() }
}

fn run(key: &str, file: &Path, leaf: &str) -> (Option<i32>, String) {
    let argument = format!("{}{leaf}", file.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_verify-offline"));
    let output = command.arg(key).arg(argument).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn whole_proofs_hold() {
    let proofs = proofs();
    let check = |name: &str, leaf: &str, expected: &str| {
        let (status, text) = run(&proofs.key, &proofs.dir.path().join(name), leaf);
        assert_eq!(status, Some(0), "{name}: {text}");
        assert!(text.trim_end().ends_with(expected), "{text}");
    };
    check("old.note", "", "head of 5 events");
    check("head.json", "", "head of 5 events");
    check("event.json", "", "event 7 of b_1 is number 6 of 11");
    check("event.tlog-proof", &format!("@{}", proofs.hash), "the event is number 6 of 11");
    check("growth.json", "", "11 events extend 5");
    check("erased.json", "", "event 7 of b_1 is number 6 of 11, its body erased");
}

#[test]
fn changed_proofs_do_not_hold() {
    let proofs = proofs();
    let check = |name: &str, from: &str, to: &str, expected: i32| {
        let path = proofs.dir.path().join(name);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{name} holds {from}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let leaf =
            if name.ends_with("proof") { format!("@{}", proofs.hash) } else { String::new() };
        let (status, said) = run(&proofs.key, &path, &leaf);
        fs::write(&path, text).unwrap();
        assert_eq!(status, Some(expected), "{name} with {to}: {said}");
    };
    check("old.note", "\n5\n", "\n6\n", 1);
    check("event.json", "event 7", "event 8", 1);
    check("event.json", "heartbeat", "heartbeas", 1);
    check("event.json", "\"seq\":7,", "\"seq\":8,", 1);
    check("event.json", "\"index\":6", "\"index\":7", 1);
    check("event.json", "\"index\":6", "\"index\":99", 1);
    check("event.json", "\"salt\":\"", "\"salt\":\"00", 1);
    check("event.json", "\\n11\\n", "\\n12\\n", 1);
    check("event.json", "\"path\":[\"", "\"path\":[\"?", 2);
    check("event.tlog-proof", "index 6", "index 5", 1);
    check("growth.json", "\\n5\\n", "\\n4\\n", 1);
    check(
        "growth.json",
        "\"path\":[",
        "\"path\":[\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\",",
        1,
    );
    check("erased.json", "\"salt\":null", "\"salt\":\"00\"", 2);
    let other = proofs.key.replacen("glasshouse", "greenhouse", 1);
    assert_eq!(run(&other, &proofs.dir.path().join("old.note"), "").0, Some(2), "no such key");
    let key = self::proofs().key;
    assert_eq!(run(&key, &proofs.dir.path().join("old.note"), "").0, Some(1), "another log's key");
}
