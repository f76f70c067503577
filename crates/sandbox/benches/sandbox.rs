//! What isolation costs: medians of interleaved pairs in one run, against the same program started
//! raw. Prints one line a promise; a miss is told there, `cargo xtask bench --gate` fails on it.
//!
//! `cargo bench -p glasshouse-sandbox [-- PAIRS]`
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use glasshouse_sandbox::{
    Cancel, Command, HostConfig, OverlayDirs, Sandbox, SandboxHost, SandboxSpec, Status,
    TemplateName,
};

const PROGRAM: &std::ffi::CStr = c"/usr/bin/true";

/// Pairs unless told otherwise: enough for a steady median in seconds.
const PAIRS: usize = 500;

fn main() {
    let pairs = std::env::args().skip(1).find_map(|text| text.parse().ok()).unwrap_or(PAIRS);
    let home = tempfile::tempdir().unwrap();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_glasshouse-sandboxd"));
    let config = HostConfig { program, home: home.path().to_owned() };
    let host = SandboxHost::start(config).unwrap();
    let mut spec = SandboxSpec::new("bench", TemplateName::CodeExecutor.template());
    spec.overlay = Some(layers(home.path()));
    let live = host.create(&spec).unwrap();
    println!("level {}, {pairs} pairs, program {PROGRAM:?}", live.attestation());

    let (floor, inside) = interleaved(pairs, raw, || run(&live));
    report("command in a live sandbox", &floor, &inside, Bound::Added(500.0));
    live.destroy().unwrap();
    let (raw, whole) = interleaved(pairs, self::raw, || {
        let sandbox = host.create(&spec).unwrap();
        run(&sandbox);
        sandbox.destroy().unwrap();
    });
    report("create, run, destroy", &raw, &whole, Bound::Ratio(5.0));
    // The kernel takes namespaces down behind the scenes, which slows the raw start beside it:
    // the ratio to an undisturbed one belongs to an honest answer.
    println!(
        "  undisturbed raw start {:.0} us: ratio {:.2}",
        micros(&floor, 0.5),
        micros(&whole, 0.5) / micros(&floor, 0.5)
    );
    report("new sandbox, added", &raw, &whole, Bound::Added(3000.0));
    bubblewrap(pairs, &host, &spec);
    overlay(pairs, &host, &spec);
    at_once(&host, home.path());
}

/// What the workspace's overlay adds to a sandbox: the same one with a plain temporary workspace.
fn overlay(pairs: usize, host: &SandboxHost, spec: &SandboxSpec) {
    let plain = SandboxSpec { overlay: None, ..spec.clone() };
    let whole = |spec: &SandboxSpec| host.create(spec).unwrap().destroy().unwrap();
    let (without, with) = interleaved(pairs, || whole(&plain), || whole(spec));
    report("overlay of a new sandbox, added", &without, &with, Bound::Added(1000.0));
}

/// Owners that make sandboxes at a time, and how many each makes.
const OWNERS: usize = 20;
const EACH: usize = 25;

/// How many sandboxes a second are made, used and destroyed when many want one at once.
fn at_once(host: &SandboxHost, home: &Path) {
    let places: Vec<PathBuf> =
        (0..OWNERS).map(|owner| home.join(format!("owner{owner}"))).collect();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for (owner, place) in places.iter().enumerate() {
            scope.spawn(move || {
                fs::create_dir(place).unwrap();
                let template = TemplateName::CodeExecutor.template();
                let mut spec = SandboxSpec::new(format!("owner{owner}"), template);
                spec.overlay = Some(layers(place));
                for _ in 0..EACH {
                    let sandbox = host.create(&spec).unwrap();
                    run(&sandbox);
                    sandbox.destroy().unwrap();
                }
            });
        }
    });
    #[allow(clippy::cast_precision_loss, reason = "hundreds")]
    let rate = (OWNERS * EACH) as f64 / started.elapsed().as_secs_f64();
    let ok = if rate >= 20.0 { "ok" } else { "MISSED" };
    println!("{OWNERS} at once: {rate:.0} sandboxes a second; bound 20: {ok}");
}

fn layers(home: &Path) -> OverlayDirs {
    let dirs = OverlayDirs {
        lowers: vec![home.join("base")],
        upper: home.join("upper"),
        work: home.join("work"),
    };
    for path in [&dirs.lowers[0], &dirs.upper, &dirs.work] {
        fs::create_dir(path).unwrap();
    }
    dirs
}

fn run(sandbox: &Sandbox) {
    let command = Command::new([PROGRAM.to_str().unwrap()]);
    let result = sandbox.run(&command, &mut |_, _| {}, &Cancel::new().unwrap()).unwrap();
    assert_eq!(result.status, Status::Exited(0));
}

/// The floor: clone3, exec, wait.
fn raw() {
    let mut pidfd = -1;
    // SAFETY: integers only; zero means "not used".
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = u64::try_from(libc::CLONE_PIDFD).unwrap();
    args.pidfd = (&raw mut pidfd).expose_provenance() as u64;
    args.exit_signal = u64::try_from(libc::SIGCHLD).unwrap();
    // SAFETY: without shared memory this behaves as fork; the child only executes or exits.
    let pid =
        unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    if pid == 0 {
        let argv = [PROGRAM.as_ptr(), std::ptr::null()];
        let env = [std::ptr::null()];
        // SAFETY: both arrays end with null; a failed exec ends the child.
        unsafe {
            libc::execve(PROGRAM.as_ptr(), argv.as_ptr(), env.as_ptr());
            libc::_exit(127);
        }
    }
    // SAFETY: the kernel just made it for us.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    let id = rustix::process::WaitId::PidFd(std::os::fd::AsFd::as_fd(&pidfd));
    assert!(pidfd.as_raw_fd() > 0);
    let ended = rustix::process::waitid(id, rustix::process::WaitIdOptions::EXITED).unwrap();
    assert_eq!(ended.unwrap().exit_status(), Some(0));
}

/// Times of two acts taken in turn, so that whatever else the machine does hits both.
fn interleaved(
    pairs: usize,
    mut first: impl FnMut(),
    mut second: impl FnMut(),
) -> (Vec<Duration>, Vec<Duration>) {
    let time = |act: &mut dyn FnMut()| {
        let started = Instant::now();
        act();
        started.elapsed()
    };
    for _ in 0..pairs / 20 {
        first();
        second();
    }
    (0..pairs).map(|_| (time(&mut first), time(&mut second))).unzip()
}

/// The time below which `part` of all are, in microseconds.
fn micros(times: &[Duration], part: f64) -> f64 {
    let mut sorted: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
    sorted.sort_by(f64::total_cmp);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let index = ((sorted.len() - 1) as f64 * part) as usize;
    sorted[index]
}

enum Bound {
    /// Microseconds more than the first.
    Added(f64),
    /// Times the first.
    Ratio(f64),
}

fn report(name: &str, first: &[Duration], second: &[Duration], bound: Bound) -> bool {
    let (a, b) = (micros(first, 0.5), micros(second, 0.5));
    let (ok, wanted) = match bound {
        Bound::Added(limit) => (b - a <= limit, format!("raw + {limit:.0} us")),
        Bound::Ratio(limit) => (b / a <= limit, format!("raw x {limit}")),
    };
    println!(
        "{name}: {b:.0} us, first {a:.0} us, ratio {:.2}, added {:.0} us, p99 {:.0} us, min {:.0} us; bound {wanted}: {}",
        b / a,
        b - a,
        micros(second, 0.99),
        micros(second, 0.0),
        if ok { "ok" } else { "MISSED" }
    );
    ok
}

fn bubblewrap(pairs: usize, host: &SandboxHost, spec: &SandboxSpec) -> bool {
    let bwrap = || {
        let status = std::process::Command::new("bwrap")
            .args(["--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib"])
            .args(["--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev"])
            .arg(PROGRAM.to_str().unwrap())
            .status();
        status.is_ok_and(|status| status.success())
    };
    if !bwrap() {
        println!("faster than bubblewrap: unproved, bwrap does not run here");
        return true;
    }
    let (theirs, ours) = interleaved(
        pairs,
        || assert!(bwrap()),
        || {
            let sandbox = host.create(spec).unwrap();
            run(&sandbox);
            sandbox.destroy().unwrap();
        },
    );
    report("create, run, destroy against bubblewrap", &theirs, &ours, Bound::Ratio(1.0))
}
