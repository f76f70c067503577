//! Everything once more as an ordinary user, for whom the sandbox is built quite differently.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

use crate::escapes;
use crate::support::*;

/// An id that owns nothing on any machine.
const ORDINARY: u32 = 54_321;

#[test]
fn the_suite_holds_for_an_ordinary_user() {
    if !is_root() {
        return; // This is the second run.
    }
    // The build directory may be out of an ordinary user's reach.
    let reach = tempfile::tempdir().unwrap();
    fs::set_permissions(reach.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let tests = reach.path().join("tests");
    let host = reach.path().join("host");
    fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
    fs::copy(program(), &host).unwrap();
    let probe_copy = reach.path().join("probe");
    fs::copy(probe(), &probe_copy).unwrap();
    let attempts = reach.path().join("attempts");
    fs::create_dir(&attempts).unwrap();
    for entry in fs::read_dir(escapes::directory()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), attempts.join(entry.file_name())).unwrap();
        }
    }
    let own = reach.path().join("own");
    fs::create_dir(&own).unwrap();
    chown(&own, Some(ORDINARY), Some(ORDINARY)).unwrap();
    let id = ORDINARY.to_string();
    let output = Command::new("setpriv")
        .args(["--reuid", &id, "--regid", &id, "--clear-groups", "--inh-caps=-all"])
        .arg(&tests)
        .args(["--test-threads", "2", "--nocapture"])
        .env(PROGRAM, &host)
        .env(PROBE, &probe_copy)
        .env(escapes::ATTEMPTS, &attempts)
        .env("TMPDIR", &own)
        .env("HOME", &own)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    let table: Vec<&str> = text.lines().filter(|line| line.starts_with("escape ")).collect();
    assert!(!table.is_empty(), "the escape suite did not run");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("escapes-rootless.txt");
    fs::write(path, table.join("\n")).unwrap();
    for line in errors.lines().filter_map(|line| line.strip_prefix("skipped: ")) {
        skipped("rootless", line);
    }
    assert!(text.contains("test basics::what_is_enforced_is_read_back ... ok"), "{text}");
}
