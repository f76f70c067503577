//! Sandboxes come and go by the thousand, die by accident, and lose their host process: nothing of
//! them may stay.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
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
}

#[allow(clippy::print_stderr, reason = "the numbers are what a soak is read for")]
fn come_and_go(count: usize) {
    let home = tempfile::tempdir().unwrap();
    // Started once before anything is counted: threads and tables of the first use stay.
    generation(home.path(), AT_ONCE, 1, &Tally::default());
    let (descriptors, mounts, memory) = (descriptors(), own_mounts(), memory_kib("self"));
    let tally = Tally::default();
    let started = Instant::now();
    let mut hosts = Vec::new();
    let mut peak_host_kib = 0;
    for (number, _) in (0..count).step_by(GENERATION).enumerate() {
        let size = GENERATION.min(count - number * GENERATION);
        let seed = u64::try_from(number).unwrap() + 2;
        let host = generation(home.path(), size, seed, &tally);
        peak_host_kib = peak_host_kib.max(host.memory_kib);
        hosts.extend([host.pid, kill_an_owner(home.path(), &mut Dice(seed))]);
    }
    // What the last, killed host process left is found by the next one's start.
    drop(start(home.path()));
    let seconds = started.elapsed().as_secs_f64();
    eventually_none("processes", || hosts.iter().flat_map(|host| children(*host)).collect());
    eventually_none("groups", || hosts.iter().flat_map(|host| groups(*host)).collect());
    eventually_none("files", || entries(&home.path().join("run")));
    eventually_none("leftovers", || SandboxHost::gc(home.path(), true).unwrap());
    assert_eq!(self::descriptors(), descriptors, "descriptors");
    assert_eq!(own_mounts(), mounts, "mounts");
    let grown = memory_kib("self").saturating_sub(memory);
    assert!(grown < MEMORY_SLACK_KIB, "this process grew by {grown} KiB");
    let (clean, lost) = (tally.clean.into_inner(), tally.lost.into_inner());
    assert_eq!(clean + lost, count);
    let least = count * LEAST_LOST / 100;
    assert!(lost >= least, "only {lost} of {count} were lost, so this proves little");
    eprintln!(
        "soak: {count} sandboxes in {seconds:.1} s, {clean} ended well, {lost} lost; {killed} host \
         processes and {killed} owners with up to {AT_ONCE} sandboxes killed; grown by {grown} KiB, host \
         process at most {peak_host_kib} KiB",
        killed = hosts.len() / 2,
    );
}

struct Ended {
    pid: u32,
    memory_kib: u64,
}

fn start(home: &Path) -> SandboxHost {
    SandboxHost::start(HostConfig { program: program(), home: home.to_owned() }).unwrap()
}

/// So many sandboxes from one host process, which is killed at the end under those that live.
fn generation(home: &Path, size: usize, seed: u64, tally: &Tally) -> Ended {
    let host = start(home);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for worker in 0..AT_ONCE {
            let (host, next) = (&host, &next);
            scope.spawn(move || {
                let mut dice = Dice(seed << 8 | u64::try_from(worker).unwrap());
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= size {
                        break;
                    }
                    one(home, host, &format!("s{number}"), tally, &mut dice);
                }
            });
        }
    });
    let living: Vec<_> = (0..4).map(|n| spec(home, &format!("last{n}"))).collect();
    let living: Vec<_> = living.iter().filter_map(|spec| host.create(spec).ok()).collect();
    let memory_kib = memory_kib(&host.pid().to_string());
    let pid = host.pid();
    kill(pid);
    drop((living, host));
    Ended { pid, memory_kib }
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

/// Kills an owner at a random moment of its work; answers its host process, which ends by itself.
fn kill_an_owner(home: &Path, dice: &mut Dice) -> u32 {
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
    std::thread::sleep(Duration::from_millis(dice.next() % 50));
    kill(owner.id());
    owner.wait().unwrap();
    // Its host process notices and cleans up after itself.
    eventually_none("files of a killed owner's host process", || entries(&home.join("run")));
    let _ = glasshouse_sandbox::remove_tree(&home.join("work"));
    host
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
            let victims = first_processes(host.pid());
            if shots > 0 && of(&tally.lost) <= of(&tally.clean) && !victims.is_empty() {
                shots -= 1;
                let at = usize::try_from(dice.next()).unwrap() % victims.len();
                kill(victims[at]);
            }
        };
        let script = "(setsid sleep 300 &) ; echo x > file; echo running; sleep 0.02";
        sandbox.run(&sh(script), &mut sink, &Cancel::new().unwrap())?;
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

/// Groups anywhere that carry the host process's number.
fn groups(host: u32) -> Vec<PathBuf> {
    let prefix = format!("glasshouse-{host}-");
    // Numbers come again: one that lives is another test's.
    let lives = |name: &str| {
        let started = name[prefix.len()..].split('-').next().unwrap_or_default().to_owned();
        let stat = fs::read_to_string(format!("/proc/{host}/stat")).unwrap_or_default();
        // After the name, which may hold anything but ends with the last bracket.
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        fields.split(' ').nth(19) == Some(&*started)
    };
    let mut found = Vec::new();
    let mut queue = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = queue.pop() {
        for path in entries(&directory).into_iter().filter(|path| path.is_dir()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with(&prefix) && !lives(&name) {
                found.push(path.clone());
            }
            if !path.is_symlink() {
                queue.push(path);
            }
        }
    }
    found
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn descriptors() -> usize {
    entries(Path::new("/proc/self/fd")).len()
}

fn own_mounts() -> usize {
    fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count()
}

fn memory_kib(pid: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
    field.trim().trim_end_matches(" kB").trim().parse().unwrap_or(0)
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
