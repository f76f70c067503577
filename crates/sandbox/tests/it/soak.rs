//! Sandboxes come and go by the thousand, die by accident, and lose their host process: nothing of
//! them may stay.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use glasshouse_sandbox::{Cancel, HostConfig, SandboxHost, SandboxSpec, TemplateName, codes};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::*;

/// Sandboxes of the whole soak, and of the part that every run of the tests makes.
const WHOLE: usize = 2000;
const PART: usize = WHOLE / 20;

/// How many there are at one time.
const AT_ONCE: usize = 16;

/// After so many, the host process is killed under those that live, and then an owner is.
const GENERATION: usize = 100;

/// The least part of all that is lost, in percent; half is aimed at.
const LEAST_LOST: usize = 40;

/// How many an owner has when it is killed: they are short-lived, and on a busy machine seldom many.
const FEW: usize = 3;

/// Where an owner that is killed works.
const OWNER_HOME: &str = "GLASSHOUSE_TEST_SOAK_HOME";

/// How long the kernel may take to finish what was killed.
const SETTLE: Duration = Duration::from_secs(10);

/// Growth of this process over all generations that is no leak.
const MEMORY_SLACK_KIB: u64 = 8 << 10;

/// Growth of a host process, from a quarter of its sandboxes to all of them, that is no leak.
const HOST_SLACK_KIB: u64 = 512;

#[test]
fn a_hundred_sandboxes_leave_nothing() {
    if !is_root() {
        // The second run shares its process with other tests, and this one counts what it holds.
        return skipped("a_hundred_sandboxes_leave_nothing", "not alone in its process");
    }
    come_and_go(PART);
}

#[test]
#[ignore = "minutes; `cargo xtask soak` runs it"]
fn two_thousand_sandboxes_leave_nothing() {
    come_and_go(WHOLE);
}

/// What happened.
#[derive(Default)]
struct Tally {
    clean: AtomicUsize,
    lost: AtomicUsize,
    /// Whether a look at the processes found those of a command: a look that finds none proves nothing.
    seen: AtomicUsize,
}

#[allow(clippy::print_stderr, reason = "the numbers are what a soak is read for")]
fn come_and_go(count: usize) {
    let home = tempfile::tempdir().unwrap();
    // Started once before anything is counted: threads and tables of the first use stay.
    std::os::unix::fs::symlink(program(), host_program(home.path())).unwrap();
    generation(home.path(), AT_ONCE, 1, &Tally::default());
    let (descriptors, mounts, memory) = (descriptors(), own_mounts(), memory_kib("self", "VmRSS:"));
    let tally = Tally::default();
    let started = Instant::now();
    let mut hosts = Vec::new();
    let (mut namespaces_seen, mut host_grown_kib) = (0, 0);
    for (number, _) in (0..count).step_by(GENERATION).enumerate() {
        let size = GENERATION.min(count - number * GENERATION);
        let seed = u64::try_from(number).unwrap() + 2;
        let host = generation(home.path(), size, seed, &tally);
        host_grown_kib = host_grown_kib.max(host.grown_kib);
        namespaces_seen = namespaces_seen.max(host.namespaces);
        hosts.extend([host.groups, kill_an_owner(home.path(), &mut Dice(seed))]);
    }
    // What the last, killed host process left is found by the next one's start.
    drop(start(home.path()));
    let seconds = started.elapsed().as_secs_f64();
    eventually_none("processes", || processes(home.path()));
    assert!(tally.seen.load(Ordering::Relaxed) > 0, "no command was ever seen");
    // A namespace lives as long as a process is in it, a descriptor holds it or it is mounted: of
    // other processes' descriptors none is left with them, and this one's are counted below.
    eventually_none("namespaces", || namespaces(&processes(home.path())).into_iter().collect());
    assert!(namespaces_seen > AT_ONCE, "only {namespaces_seen} namespaces were ever seen");
    swept(home.path());
    eventually_none("groups", || hosts.iter().flat_map(|prefix| groups(prefix)).collect());
    eventually_none("files", || entries(&home.path().join("run")));
    assert_eq!(self::descriptors(), descriptors, "descriptors");
    assert_eq!(own_mounts(), mounts, "mounts");
    let grown = memory_kib("self", "VmRSS:").saturating_sub(memory);
    assert!(grown < MEMORY_SLACK_KIB, "this process grew by {grown} KiB");
    assert!(host_grown_kib < HOST_SLACK_KIB, "a host process grew by {host_grown_kib} KiB");
    let (clean, lost) = (tally.clean.into_inner(), tally.lost.into_inner());
    assert_eq!(clean + lost, count);
    let least = count * LEAST_LOST / 100;
    assert!(lost >= least, "only {lost} of {count} were lost, so this proves little");
    eprintln!(
        "soak: {count} sandboxes in {seconds:.1} s, {clean} ended well, {lost} lost; {killed} host \
         processes and {killed} owners with up to {AT_ONCE} sandboxes killed; {namespaces_seen} namespaces \
         at one time; grown by {grown} KiB, a host process by at most {host_grown_kib} KiB",
        killed = hosts.len() / 2,
    );
}

struct Ended {
    /// What the names of its groups start with.
    groups: String,
    /// How much its own memory grew, once it was at work.
    grown_kib: u64,
    /// How many there were when it was killed.
    namespaces: usize,
}

fn start(home: &Path) -> SandboxHost {
    SandboxHost::start(HostConfig { program: host_program(home), home: home.to_owned() }).unwrap()
}

/// The host program by a name that no other test's processes have.
fn host_program(home: &Path) -> PathBuf {
    home.join("host-program")
}

/// How long what a command leaves behind sleeps: an argument that no other process of this machine has.
fn marker(home: &Path) -> String {
    format!("300.{}", home.metadata().unwrap().ino())
}

/// Has what dead host processes left removed, until nothing is.
fn swept(home: &Path) {
    eventually_none("leftovers", || {
        SandboxHost::gc(home, false).unwrap();
        SandboxHost::gc(home, true).unwrap()
    });
}

/// So many sandboxes from one host process, which is killed at the end under those that live.
fn generation(home: &Path, size: usize, seed: u64, tally: &Tally) -> Ended {
    let host = start(home);
    let next = AtomicUsize::new(0);
    let own_kib = || memory_kib(&host.pid().to_string(), "RssAnon:");
    let warm_kib = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for worker in 0..AT_ONCE {
            let (host, next) = (&host, &next);
            let (own_kib, warm_kib) = (&own_kib, &warm_kib);
            scope.spawn(move || {
                let mut dice = Dice(seed << 8 | u64::try_from(worker).unwrap());
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= size {
                        break;
                    }
                    if number == size / 4 {
                        warm_kib.store(own_kib(), Ordering::Relaxed);
                    }
                    one(home, host, &format!("s{number}"), tally, &mut dice);
                }
            });
        }
    });
    let living: Vec<_> = (0..4).map(|n| spec(home, &format!("last{n}"))).collect();
    let living: Vec<_> = living.iter().filter_map(|spec| host.create(spec).ok()).collect();
    let ended = Ended {
        groups: group_prefix(host.pid()),
        grown_kib: own_kib().saturating_sub(warm_kib.into_inner()),
        namespaces: namespaces(&processes(home)).len(),
    };
    kill(host.pid());
    drop((living, host));
    ended
}

/// Not a test: the owner that a soak kills.
#[test]
#[ignore = "run by another test"]
fn owner() {
    let Some(home) = std::env::var_os(OWNER_HOME).map(PathBuf::from) else { return };
    let (host, tally) = (start(&home), Tally::default());
    std::thread::scope(|scope| {
        for worker in 0..AT_ONCE {
            let (home, host, tally) = (&home, &host, &tally);
            scope.spawn(move || {
                let mut dice = Dice(u64::try_from(worker).unwrap());
                for number in 0_u64.. {
                    one(home, host, &format!("owner{worker}-{number}"), tally, &mut dice);
                }
            });
        }
    });
}

/// Kills an owner at a random moment of its work; answers what the names of its groups start with. Its
/// host process ends by itself.
fn kill_an_owner(home: &Path, dice: &mut Dice) -> String {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "soak::owner"])
        .env(OWNER_HOME, home)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    let host = loop {
        let host = children(owner.id()).first().copied();
        if let Some(host) = host.filter(|host| first_processes(*host).len() >= FEW) {
            break host;
        }
        assert!(started.elapsed() < 3 * SETTLE, "the owner makes no sandboxes");
        std::thread::sleep(Duration::from_millis(2));
    };
    let groups = group_prefix(host);
    std::thread::sleep(Duration::from_millis(dice.next() % 50));
    kill(owner.id());
    owner.wait().unwrap();
    // Its host process notices and cleans up after itself; what is still busy then is swept.
    eventually_none("files of a killed owner's host process", || {
        SandboxHost::gc(home, false).unwrap();
        entries(&home.join("run"))
    });
    let _ = glasshouse_sandbox::remove_tree(&home.join("work"));
    groups
}

fn spec(home: &Path, name: &str) -> SandboxSpec {
    let mut spec = SandboxSpec::new(name, TemplateName::CodeExecutor.template());
    spec.overlay = Some(layers(&home.join("work").join(name)));
    spec
}

/// One sandbox to its end.
///
/// While fewer than half were lost it kills somebody's first process: its own, another's, or one that
/// waits for its order or dies already, which is why the share is steered and not thrown for.
fn one(home: &Path, host: &SandboxHost, name: &str, tally: &Tally, dice: &mut Dice) {
    let made = host.create(&spec(home, name));
    let outcome = made.and_then(|sandbox| {
        let mut shots = 1;
        let mut sink = |_, _: &[u8]| {
            let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
            if of(&tally.seen) == 0 {
                let found = with_argument(&marker(home)).len();
                tally.seen.fetch_add(found, Ordering::Relaxed);
            }
            let victims = first_processes(host.pid());
            if shots > 0 && of(&tally.lost) <= of(&tally.clean) && !victims.is_empty() {
                shots -= 1;
                let at = usize::try_from(dice.next()).unwrap() % victims.len();
                kill(victims[at]);
            }
        };
        let asleep = marker(home);
        let script = format!("(setsid sleep {asleep} &) ; echo x > file; echo running; sleep 0.02");
        sandbox.run(&sh(&script), &mut sink, &Cancel::new().unwrap())?;
        if dice.flip() { sandbox.destroy() } else { Ok(()) }
    });
    let _ = glasshouse_sandbox::remove_tree(&home.join("work").join(name));
    let count = match outcome {
        Ok(()) => &tally.clean,
        Err(error) => {
            assert!(error.is(codes::SANDBOX_LOST), "{error}");
            &tally.lost
        }
    };
    count.fetch_add(1, Ordering::Relaxed);
}

/// The same numbers every time.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        // Knuth's multiplier; the upper half is random enough to choose by.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.0 >> 33
    }
    fn flip(&mut self) -> bool {
        self.next().is_multiple_of(2)
    }
}

fn kill(pid: u32) {
    // It may have ended meanwhile.
    let _ = kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL);
}

fn children(pid: u32) -> Vec<u32> {
    let threads = entries(Path::new(&format!("/proc/{pid}/task")));
    let children = threads.iter().map(|thread| fs::read_to_string(thread.join("children")));
    let children: Vec<String> = children.filter_map(Result::ok).collect();
    children
        .iter()
        .flat_map(|text| text.split_whitespace())
        .map(|pid| pid.parse().unwrap())
        .collect()
}

/// Those children of a host process that have a process namespace of their own.
fn first_processes(host: u32) -> Vec<u32> {
    let is_first = |pid: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        numbers.is_some_and(|numbers| numbers.split_whitespace().count() > 1)
    };
    children(host).into_iter().filter(is_first).collect()
}

/// Processes anywhere on this machine that have this argument, or are called so.
fn with_argument(argument: &str) -> Vec<u32> {
    let has = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|part| part == argument.as_bytes())
    };
    numbered(Path::new("/proc")).into_iter().filter(has).collect()
}

/// Processes that came of a soak: host processes and what they cloned, commands, and whatever else still
/// sees a mount of its layers.
fn processes(home: &Path) -> Vec<u32> {
    let sees_layers = |pid: &u32| {
        let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        mounts.contains(&home.join("work").display().to_string())
    };
    let mut found = with_argument(&marker(home));
    found.extend(with_argument(&host_program(home).display().to_string()));
    found.extend(numbered(Path::new("/proc")).into_iter().filter(sees_layers));
    found
}

/// The namespaces of processes that this one is not in.
fn namespaces(processes: &[u32]) -> BTreeSet<PathBuf> {
    let of = |pid: &str| -> BTreeSet<PathBuf> {
        let links = entries(Path::new(&format!("/proc/{pid}/ns")));
        links.iter().filter_map(|link| fs::read_link(link).ok()).collect()
    };
    let own = of("self");
    processes.iter().flat_map(|pid| of(&pid.to_string())).filter(|ns| !own.contains(ns)).collect()
}

fn numbered(directory: &Path) -> Vec<u32> {
    let names = entries(directory);
    names.iter().filter_map(|path| path.file_name()?.to_str()?.parse().ok()).collect()
}

fn descriptors() -> usize {
    entries(Path::new("/proc/self/fd")).len()
}

fn own_mounts() -> usize {
    fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count()
}

fn memory_kib(pid: &str, kind: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = status.lines().find_map(|line| line.strip_prefix(kind)).unwrap();
    field.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

#[track_caller]
fn eventually_none<T: std::fmt::Debug>(what: &str, left: impl Fn() -> Vec<T>) {
    let started = Instant::now();
    loop {
        let left = left();
        if left.is_empty() {
            return;
        }
        assert!(started.elapsed() < SETTLE, "{what} are left: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
