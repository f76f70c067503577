//! Writes into a directory that an attacker keeps swapping for a link.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glasshouse_sandbox::workspace::beneath::{Found, Root, WriteHow};
use rustix::fs::{AtFlags, CWD, RenameFlags};

use super::util::{file, path};

/// Enough tries that an unprotected writer escapes many times.
const TRIES: usize = 2_000;

/// Longest wait for the first of them that meets what it is to be tried on.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `act` while another thread exchanges `ws/d` with a link to `outside` as fast as it can.
fn raced(act: impl FnOnce(&Path)) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let (ws, outside) = (dir.path().join("ws"), dir.path().join("outside"));
    std::fs::create_dir_all(ws.join("d")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    symlink(&outside, ws.join("link")).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let (a, b) = (ws.join("d"), ws.join("link"));
                rustix::fs::renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).unwrap();
            }
        });
        act(&ws);
        stop.store(true, Ordering::Relaxed);
    });
    std::fs::read_dir(&outside).unwrap().count()
}

#[test]
fn a_racer_that_swaps_a_directory_for_a_link_never_gets_a_write_out() {
    let mut written = 0;
    let escaped = raced(|ws| {
        let root = Root::open(ws).unwrap();
        // On a busy machine the racer may sleep while the link is in place.
        let started = Instant::now();
        let goes_on = |number: usize, written: usize| {
            number < TRIES || (written == 0 && started.elapsed() < PATIENCE)
        };
        for number in 0.. {
            if !goes_on(number, written) {
                break;
            }
            let name = format!("f{number}");
            let Ok((holder, _)) = root.make_holder(&path(&format!("d/{name}")), None) else {
                continue;
            };
            let how = WriteHow::default();
            root.write_new(&holder, &name, &file("x"), b"x", how).unwrap();
            rustix::fs::unlinkat(&holder, name.as_str(), AtFlags::empty()).unwrap();
            written += 1;
        }
    });
    assert_eq!(escaped, 0);
    assert!(written > 0, "no write met the directory, so nothing was tried");
    // The control: the same writes by name.
    let escaped = raced(|ws| {
        let started = Instant::now();
        let none_yet = || std::fs::read_dir(ws.join("../outside")).unwrap().next().is_none();
        for number in 0.. {
            if number >= TRIES && (started.elapsed() >= PATIENCE || !none_yet()) {
                break;
            }
            let _ = std::fs::write(ws.join(format!("d/f{number}")), "x");
        }
    });
    assert!(escaped > 0, "the racer is too slow to prove anything");
}

#[test]
fn a_dangling_link_creates_nothing_outside() {
    let dir = tempfile::tempdir().unwrap();
    let ws = dir.path().join("ws");
    std::fs::create_dir(&ws).unwrap();
    let target = dir.path().join("new");
    symlink(&target, ws.join("d")).unwrap();
    let root = Root::open(&ws).unwrap();
    let holder = root.holder(&path("d")).unwrap();
    assert!(root.write_new(&holder, "d", &file("x"), b"x", WriteHow::default()).is_err());
    assert_eq!(root.make_holder(&path("d/x"), None).unwrap_err().code(), "path_outside_workspace");
    assert!(!target.exists());
    // The control.
    std::fs::write(ws.join("d"), "x").unwrap();
    assert!(target.exists());
}

#[test]
fn what_is_found() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), "x").unwrap();
    std::fs::create_dir(dir.path().join("d")).unwrap();
    symlink("d", dir.path().join("l")).unwrap();
    let root = Root::open(dir.path()).unwrap();
    let check = |name: &str, expected: Found| {
        assert_eq!(root.find(&path(name)).unwrap(), expected, "{name}")
    };
    check("f", Found::Entry(file("x")));
    check("d", Found::Directory);
    check("d/none", Found::Absent);
    check("none/none", Found::Absent);
    check("l/x", Found::BehindLink);
    check("l/x/y", Found::BehindLink);
    check("f/x", Found::BehindFile);
    check("f/x/y", Found::BehindFile);
}
