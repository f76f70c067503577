//! A full disk: a typed refusal, nothing half-stored, reading goes on, and so does writing once
//! there is space.

use std::fs;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use glasshouse_log::{Append, Keeping, Log};
use glasshouse_model::{Draft, Kind, TenantId};
use serde_json::json;

use crate::disk::Disk;
use crate::support::{
    Fixture, ManualClock, Mount, branch, clocked, numbered, numbers, refusal, root, session,
    skipped,
};

#[test]
fn a2_a_full_disk_refuses_and_recovers() {
    let disk = Disk::new();
    let fixture = Fixture::with(disk.options());
    fixture.append(1);
    for round in 2..5 {
        disk.set_full(true);
        for _ in 0..3 {
            let error = fixture.log().append(numbered("b_main", 99)).unwrap_err();
            assert_eq!((error.code(), error.is_retryable()), ("storage_full", true));
            assert_eq!(error.exit().status(), 9);
        }
        let shown = numbers(fixture.log(), "b_main");
        assert_eq!(shown, (1..round).collect::<Vec<u64>>(), "reading goes on, nothing partial");
        disk.set_full(false);
        assert_eq!(fixture.append(round).head.seq, round);
        assert!(fixture.log().verify().unwrap().is_ok());
    }
}

#[test]
fn a2_a_really_full_file_system_refuses_and_recovers() {
    let directory = tempfile::tempdir().unwrap();
    let Some(mount) = Mount::new(directory.path(), 8 << 20) else {
        skipped("a2_a_really_full_file_system_refuses_and_recovers", "mounting a tmpfs needs root");
        return;
    };
    let ballast = directory.path().join("ballast");
    fs::write(&ballast, vec![1; 4 << 20]).unwrap();
    let home = directory.path().join("home");
    let log = Log::open(&home, &TenantId::local()).unwrap();
    log.create_branch(root("s_1", "b_main")).unwrap();
    let large = |n: u64| {
        let body = json!({"n": n, "pad": "x".repeat(50_000)});
        let event = Draft::new(Kind::Heartbeat, &body);
        Append::new(session("s_1"), branch("b_main"), vec![event])
    };
    let mut stored = 0;
    let error = loop {
        match log.append(large(stored + 1)) {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((error.code(), error.exit().status()), ("storage_full", 9));
    assert!(stored > 10, "{stored}");
    assert_eq!(numbers(&log, "b_main"), (1..=stored).collect::<Vec<u64>>());
    assert_eq!(refusal(log.put_blob(&noise(6 << 20)), ""), "storage_full");
    // Opened again, it reads; what is in the write-ahead log has no room in the database.
    let second = Log::open(&home, &TenantId::local()).unwrap();
    assert_eq!(numbers(&second, "b_main"), (1..=stored).collect::<Vec<u64>>());
    assert_eq!(refusal(second.append(large(0)), ""), "storage_full");
    fs::remove_file(&ballast).unwrap();
    assert_eq!(log.append(large(stored + 1)).unwrap().head.seq, stored + 1);
    log.sign_head().unwrap();
    assert!(log.verify().unwrap().is_ok());
    assert_eq!(second.append(large(stored + 2)).unwrap().head.seq, stored + 2, "so does it");
    drop((log, second));
    let log = Log::open(&home, &TenantId::local()).unwrap();
    assert_eq!(numbers(&log, "b_main"), (1..=stored + 2).collect::<Vec<u64>>());
    drop(log);
    drop(mount);
}

/// A full disk stops a backup and a rotation; nothing is lost, and no part of either is left to fill it
/// more.
#[test]
fn a2_a_full_disk_stops_a_backup_and_a_rotation() {
    let directory = tempfile::tempdir().unwrap();
    let Some(mount) = Mount::new(directory.path(), 16 << 20) else {
        skipped("a2_a_full_disk_stops_a_backup_and_a_rotation", "mounting a tmpfs needs root");
        return;
    };
    let clock = Arc::new(ManualClock::default());
    let home = directory.path().join("home");
    let log = Log::open_with(&home, &TenantId::local(), clocked(&clock)).unwrap();
    log.create_branch(root("s_1", "b_main")).unwrap();
    for n in 1..=40 {
        let body = json!({"n": n, "pad": "x".repeat(50_000)});
        let event = Draft::new(Kind::Heartbeat, &body);
        log.append(Append::new(session("s_1"), branch("b_main"), vec![event])).unwrap();
    }
    let first = log.back_up().unwrap();
    // All but some hundred kilobytes: enough for a lease, not for a copy of two megabytes.
    let mut ballast = fs::File::create(directory.path().join("ballast")).unwrap();
    let mut bytes = 0;
    while let Ok(written) = ballast.write(&[1; 4_096]) {
        bytes += written as u64;
    }
    ballast.set_len(bytes - (600 << 10)).unwrap();
    clock.now_us.store(365 * 24 * 3_600 * 1_000_000, Ordering::SeqCst);
    let keeping = Keeping::default();
    let rotate = || log.rotate(&keeping, false, &mut |_| Ok(true));
    let files = |name: &str| {
        let days = fs::read_dir(home.join(name)).into_iter().flatten();
        let paths = days.flat_map(|entry| {
            let path = entry.unwrap().path();
            match fs::read_dir(&path) {
                Ok(inside) => inside.map(|entry| entry.unwrap().path()).collect(),
                Err(_) => vec![path],
            }
        });
        paths.collect::<Vec<_>>()
    };
    for _ in 0..2 {
        assert_eq!(refusal(log.back_up(), ""), "storage_full");
        assert_eq!(refusal(rotate(), ""), "storage_full");
        assert_eq!(files("backups"), std::slice::from_ref(&first));
        assert_eq!(files("archive"), Vec::<std::path::PathBuf>::new());
        assert_eq!(numbers(&log, "b_main").len(), 40);
    }
    ballast.set_len(0).unwrap();
    log.back_up().unwrap();
    assert_eq!(rotate().unwrap().archived.len(), 1);
    log.sign_head().unwrap();
    assert!(log.verify().unwrap().is_ok());
    drop(log);
    drop(mount);
}

/// Bytes that do not compress.
fn noise(length: u64) -> Vec<u8> {
    let mut state = 1_u64;
    (0..length)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[0]
        })
        .collect()
}
