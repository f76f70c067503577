//! What lies in a home, and who may read it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use glasshouse_log::Log;
use glasshouse_model::TenantId;

use crate::support::{Fixture, erase, numbered, numbers, refusal};

#[test]
fn nobody_else_may_look_into_a_home() {
    let mut fixture = Fixture::of_events(1);
    fixture.log().put_blob(b"content").unwrap();
    fixture.log().sign_head().unwrap();
    let mut directories = vec![fixture.path().to_owned()];
    let mut seen = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            let path = entry.path();
            if path.is_dir() {
                assert_eq!(mode, 0o700, "{}", path.display());
                directories.push(path);
            } else {
                assert_eq!(mode, 0o600, "{}", path.display());
                seen.push(path.file_name().unwrap().to_string_lossy().into_owned());
            }
        }
    }
    for name in ["log.db", "log.db-wal", "latest.note", "head.ed25519", "head.pub"] {
        assert!(seen.iter().any(|seen| seen == name), "{name} is missing of {seen:?}");
    }
    fixture.close();
    let left = fixture.path().join("log.db-wal").metadata().map_or(0, |file| file.len());
    assert_eq!(left, 0, "a closed log is one file");
}

#[test]
fn the_secret_key_is_not_in_what_people_see() {
    let fixture = Fixture::of_events(1);
    let secret = fs::read_to_string(fixture.path().join("keys/head.ed25519")).unwrap();
    // PRIVATE+KEY+<name>+<id>+<base64>, and base64 may hold a plus itself.
    let secret = secret.trim_end().splitn(5, '+').nth(4).unwrap();
    assert_eq!(secret.len(), 44, "the whole secret");
    let signed = fixture.log().sign_head().unwrap();
    let shown = format!("{:?} {signed:?} {:?}", fixture.log(), fixture.log().public_key());
    assert!(!shown.contains(secret));
    assert!(shown.contains("glasshouse/local/"));
}

#[test]
fn a_signed_head_follows_by_itself() {
    let fixture = Fixture::of_events(3);
    let note = fixture.path().join("heads/latest.note");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let text = fs::read_to_string(&note).unwrap();
        if text.lines().nth(1) == Some("3") {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{text}");
        std::thread::yield_now();
    }
}

/// A home behind a link is the home itself, for each of two processes and for whoever looks after it.
#[test]
fn a_home_behind_a_link_is_the_same_home() {
    let mut fixture = Fixture::of_events(2);
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link");
    std::os::unix::fs::symlink(fixture.path(), &link).unwrap();
    let tenant = TenantId::local();
    let linked = Log::open(&link, &tenant).unwrap();
    linked.append(numbered("b_main", 3)).unwrap();
    fixture.append(4);
    assert_eq!(numbers(&linked, "b_main"), [1, 2, 3, 4]);
    let backup = linked.back_up().unwrap();
    linked.erase(erase(&[("b_main", 2)], &[])).unwrap();
    assert!(!backup.exists(), "the copies of the one are those of the other");
    let backup = linked.back_up().unwrap();
    assert_eq!(refusal(glasshouse_log::restore(&link, &tenant, &backup, true), ""), "log_busy");
    drop(linked);
    assert_eq!(fixture.verdict(), "ok 5 erased 1+0");
    let restored = glasshouse_log::restore(&link, &tenant, &backup, false).unwrap();
    assert_eq!((restored.events, restored.lost_events), (5, 0));
    assert_eq!(fixture.verdict(), "ok 5 erased 1+0");
    // A link that leads nowhere is no home to be made.
    let nowhere = elsewhere.path().join("nowhere");
    std::os::unix::fs::symlink(elsewhere.path().join("gone"), &nowhere).unwrap();
    assert_eq!(refusal(Log::open(&nowhere, &tenant), ""), "storage_failed");
}
