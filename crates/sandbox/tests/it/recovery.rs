//! Whoever dies, sandboxes die with it, and what remains is found and removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glasshouse_sandbox::{Cancel, HostConfig, SandboxHost, codes};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::*;

/// Processes anywhere on this machine with this argument.
fn processes(argument: &str) -> usize {
    let has = |path: &Path| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|part| part == argument.as_bytes())
    };
    fs::read_dir("/proc").unwrap().filter(|entry| has(&entry.as_ref().unwrap().path())).count()
}

#[track_caller]
fn eventually(what: &str, done: impl Fn() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(5), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill(pid: u32) {
    // It may have ended meanwhile.
    let _ = kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL);
}

#[test]
fn sandboxes_die_with_their_host_process() {
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    let marker = format!("600{}", std::process::id());
    let killed = std::cell::Cell::new(false);
    let mut sink = |_, _: &[u8]| {
        if !killed.replace(true) {
            eventually("the command runs", || processes(&marker) > 0);
            kill(home.host.pid());
        }
    };
    let command = sh(&format!("echo started; exec sleep {marker}"));
    let error = sandbox.run(&command, &mut sink, &Cancel::new().unwrap()).unwrap_err();
    assert!(error.is(codes::SANDBOX_LOST), "{error}");
    eventually("the command ends", || processes(&marker) == 0);
    let error = home.host.create(&home.spec("s2")).unwrap_err();
    assert!(error.is(codes::SANDBOX_LOST), "{error}");

    // The killed process has been collected by nobody yet; its record names what it left.
    let named = SandboxHost::gc(home.directory.path(), true).unwrap();
    assert!(!named.is_empty());
    let removed = SandboxHost::gc(home.directory.path(), false).unwrap();
    assert_eq!(named, removed);
    assert!(removed.iter().all(|path| !path.exists()), "{removed:?}");
    if is_root() {
        assert!(removed.iter().any(|path| path.starts_with("/sys/fs/cgroup")), "{removed:?}");
    }
    assert!(SandboxHost::gc(home.directory.path(), false).unwrap().is_empty());
}

#[test]
fn a_clean_end_leaves_nothing() {
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    let dropped = home.sandbox("s2");
    shell(&sandbox, "true").ok();
    sandbox.destroy().unwrap();
    drop(dropped);
    let again = home.sandbox("s1");
    let Home { directory, host } = home;
    drop((again, host));
    let left: Vec<_> = fs::read_dir(directory.path().join("run")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The failure: a group that was busy when its host process ended, or when what a dead one left was
/// removed, lost its record, and stayed until the machine was started again.
#[test]
fn a_group_that_stays_busy_is_found_by_a_later_sweep() {
    if !is_root() {
        return; // An ordinary user has no groups here.
    }
    for is_killed in [false, true] {
        let home = Home::new();
        let sandbox = home.sandbox("s1");
        let prefix = group_prefix(home.host.pid());
        let busy = groups(&prefix).pop().unwrap();
        // Nobody but its maker removes a child, and a group with children is busy.
        fs::create_dir(busy.join("child")).unwrap();
        if is_killed {
            kill(home.host.pid());
        }
        let Home { directory, host } = home;
        drop((sandbox, host));
        assert_eq!(groups(&prefix), std::slice::from_ref(&busy), "killed: {is_killed}");
        assert_eq!(SandboxHost::gc(directory.path(), true).unwrap()[0], busy);
        assert_eq!(SandboxHost::gc(directory.path(), false).unwrap(), [""; 0].map(PathBuf::from));
        fs::remove_dir(busy.join("child")).unwrap();
        assert_eq!(SandboxHost::gc(directory.path(), false).unwrap()[0], busy);
        assert!(groups(&prefix).is_empty());
        assert!(entries(&directory.path().join("run")).is_empty());
    }
}

#[test]
fn dropping_an_ended_sandbox_spares_its_namesake() {
    let home = Home::new();
    let spec = home.spec("s1");
    let first = home.host.create(&spec).unwrap();
    // Its first process ends by itself as far as the host process knows.
    first_processes(home.host.pid()).into_iter().for_each(kill);
    let second = loop {
        match home.host.create(&spec) {
            Ok(second) => break second,
            // The id is still in use, or the killed one was a spare just being handed the order.
            Err(error) => {
                let expected = error.is(codes::SPEC_INVALID) || error.is(codes::SANDBOX_LOST);
                assert!(expected, "{error}");
            }
        }
    };
    drop(first);
    assert_eq!(shell(&second, "echo alive").ok(), "alive\n");
}

/// The failure: sandboxes whose first processes were killed before they had their order, by whoever is
/// short of memory, were told as a machine that cannot isolate.
#[test]
fn a_sandbox_that_is_killed_while_it_starts_can_be_asked_for_again() {
    let home = Home::new();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                first_processes(home.host.pid()).into_iter().for_each(kill);
            }
        });
        let refused = (0..500).find_map(|n| {
            let error = home.host.create(&home.spec(&format!("s{n}"))).err()?;
            let is_late = error.to_string().contains("ended unexpectedly");
            (!is_late).then_some(error)
        });
        is_over.store(true, Ordering::Relaxed);
        let refused = refused.expect("none was killed before it had its order");
        assert!(refused.is(codes::SANDBOX_LOST), "{refused}");
    });
    // Those that were killed last may be spare ones, which are met one by one.
    let again = (0..50).find_map(|n| home.host.create(&home.spec(&format!("last{n}"))).ok());
    assert_eq!(shell(&again.expect("one that lives"), "echo alive").ok(), "alive\n");
}

/// What a host process started: first processes, also spare ones, and their makers.
fn first_processes(host: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{host}/task/{host}/children")).unwrap();
    children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

/// Not a test: the owner that `sandboxes_die_with_their_owner` kills.
#[test]
#[ignore = "run by another test"]
fn owner() {
    let Ok(marker) = std::env::var("GLASSHOUSE_TEST_MARKER") else { return };
    let home = Home::new();
    let sandbox = home.sandbox("s1");
    shell(&sandbox, &format!("setsid sleep {marker} & sleep {marker}"));
}

#[test]
fn sandboxes_die_with_their_owner() {
    let marker = format!("700{}", std::process::id());
    let homes = tempfile::tempdir().unwrap();
    let mut owner = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "recovery::owner"])
        .env("GLASSHOUSE_TEST_MARKER", &marker)
        .env("TMPDIR", homes.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the commands run", || processes(&marker) >= 2);
    kill(owner.id());
    owner.wait().unwrap();
    eventually("the commands end", || processes(&marker) == 0);
    // The host process notices and cleans up by itself.
    let home = fs::read_dir(homes.path()).unwrap().next().unwrap().unwrap().path();
    eventually("the host process cleans up", || {
        fs::read_dir(home.join("run")).unwrap().next().is_none()
    });
}

#[test]
fn a_program_that_is_no_host_process_is_an_error_in_time() {
    let home = tempfile::tempdir().unwrap();
    let start = |program: &str| {
        let config = HostConfig { program: program.into(), home: home.path().to_owned() };
        SandboxHost::start(config).unwrap_err()
    };
    assert!(start("/bin/true").is(codes::SANDBOX_LOST));
    assert!(start("/nonexistent/program").is(codes::SYSTEM));
    assert!(start("relative/program").is(codes::SPEC_INVALID));
}
