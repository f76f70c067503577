//! The first process of a sandbox: confines itself, then serves its owner until either side ends.
//!
//! It is a clone of the host process that never executes a program, so no file inside can stand
//! in for it, and it is unreadable to everything inside.

use std::fs::File;
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use glasshouse_ipc::{Channel, Received};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, open, openat, renameat, unlinkat};
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::cgroup::Group;
use super::launch::{Entering, Prepared};
use super::rootfs::{self, Base};
use super::seccomp::Filters;
use super::watch::{Due, Watch};
use super::{Programs, confine, sys};
use crate::attest::{Attestation, NAMESPACES, Privilege};
use crate::command::{Limit, Status};
use crate::egress::PROXY_ADDRESS;
use crate::entry;
use crate::live::Window;
use crate::spec::WORKSPACE;
use crate::wire::{Context as _, Ended, Failure, FromInit, Launch, Order, Stop, ToInit};

/// What a first process starts with.
pub(crate) struct Start<'a> {
    pub(crate) base: &'a Base,
    pub(crate) programs: &'a Programs,
    pub(crate) group: &'a Group,
    /// Brings the order; closed when the host process ends.
    pub(crate) host: Channel,
}

/// What the first process works with; it lives as long as the process.
struct Parts<'a> {
    base: &'a Base,
    order: &'a Order,
    filters: &'a Filters,
    group: &'a Group,
    /// To the owner.
    channel: Channel,
    /// To the host process, which says nothing more.
    host: Channel,
}

/// Becomes a first process: does what every sandbox needs, waits for an order, and serves whom it
/// is for. Never returns into the host process's code.
pub(crate) fn run(mut start: Start<'_>) -> ! {
    let settled = settle(&start);
    let Ok(Some(received)) = start.host.receive::<Order>() else { sys::exit_now(0) };
    let Ok((order, socket)) = received.one_descriptor() else { sys::exit_now(1) };
    let custom = order.calls.as_ref().map(Filters::custom);
    let filters = custom.as_ref().or_else(|| start.programs.get(&order.template.seccomp));
    let (Ok(channel), Some(filters)) = (Channel::from_descriptor(socket), filters) else {
        sys::exit_now(1)
    };
    let Start { base, group, host, .. } = start;
    let parts = Parts { base, order: &order, filters, group, channel, host };
    match settled.and_then(|settled| confine(&parts, settled)) {
        Ok(Confined { attestation, root, signal, listener }) => {
            let ready = FromInit::Ready(Box::new(attestation));
            let mut given = vec![root.as_fd()];
            given.extend(listener.as_ref().map(AsFd::as_fd));
            if parts.channel.send(&ready, &given).is_ok() {
                drop((root, listener));
                let Ok(processors) = sys::Processors::of_this_process() else { sys::exit_now(1) };
                Init { parts, signal, stack: sys::Stack::new(), processors }.serve();
            }
        }
        Err(failure) => drop(parts.channel.send(&FromInit::Failed(failure), &[])),
    }
    sys::exit_now(1)
}

/// What is done before the order is known.
struct Settled {
    /// The host's, to be used once more.
    proc: OwnedFd,
    root: rootfs::Prepared,
}

/// Everything that does not depend on the order.
fn settle(start: &Start<'_>) -> Result<Settled, Failure> {
    let Start { base, group, host, .. } = start;
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .during("bind to the host process")?;
    let mut keep = group.descriptors();
    keep.push(host.as_fd().as_raw_fd());
    keep.extend(base.idmap.as_ref().map(AsRawFd::as_raw_fd));
    sys::close_all_but(&mut keep);

    let proc = open("/proc", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .during("open /proc")?;
    if base.privilege == Privilege::Rootless {
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)
            .during("become dumpable")?;
        confine::map_ids(proc.as_fd(), base.uid, base.gid)?;
    }
    release_shared_memory(proc.as_fd());
    sys::unshare(libc::CLONE_NEWCGROUP).during("make a cgroup namespace")?;
    sys::loopback_up().during("bring up the loopback interface")?;
    rustix::system::sethostname(b"glasshouse").during("set the host name")?;
    Ok(Settled { proc, root: rootfs::prepare(base)? })
}

/// A first process without rights.
struct Confined {
    /// What holds.
    attestation: Attestation,
    /// The workspace root.
    root: OwnedFd,
    /// Tells of ended children.
    signal: OwnedFd,
    /// Where the owner's proxy accepts, if there is one.
    listener: Option<TcpListener>,
}

/// Completes the root and gives up every right.
fn confine(parts: &Parts<'_>, settled: Settled) -> Result<Confined, Failure> {
    let Parts { base, order, group, .. } = parts;
    let Settled { proc, root } = settled;
    // On this network's own loopback. The owner accepts, so nothing in here forwards anything, and
    // the port is taken before a command could take it.
    let listener = order.proxied.then(|| TcpListener::bind(PROXY_ADDRESS)).transpose();
    let listener = listener.during("listen for the egress proxy")?;
    let layered = root.enter(base, order)?;
    if base.privilege == Privilege::Root {
        confine::leave_root(proc.as_fd())?;
    }
    drop(proc);
    confine::drop_privileges()?;
    let held = group.facts();
    confine::limit(&order.template, held.memory_bytes.is_some(), held.pids.is_some())?;
    let caches: Vec<_> = order.caches.iter().filter_map(|cache| cache.target.to_str()).collect();
    let writable: Vec<&str> = rootfs::WRITABLE.into_iter().chain(caches).collect();
    let landlock_abi = confine::landlock(order.template.seccomp, &writable)?;
    parts.filters.confine_init()?;
    let root = open(WORKSPACE, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .during("open the workspace")?;
    let signal = sys::child_signal().during("watch for ended processes")?;
    Ok(Confined { attestation: attest(parts, landlock_abi, layered)?, root, signal, listener })
}

/// Makes System V shared memory end with its last user, or a command could leave memory behind
/// that no kill frees. Only root may; rootless, it is freed with the sandbox.
fn release_shared_memory(proc: BorrowedFd<'_>) {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    if let Ok(switch) = openat(proc, "sys/kernel/shm_rmid_forced", flags, Mode::empty()) {
        let _ = rustix::io::write(&switch, b"1");
    }
}

/// Reads back what is enforced.
fn attest(parts: &Parts<'_>, landlock_abi: u32, layered: bool) -> Result<Attestation, Failure> {
    let status = std::fs::read_to_string("/proc/self/status").during("read our status")?;
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    };
    let number = |name: &str| field(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    let sets = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    let is_empty =
        |set: &&str| field(set).is_some_and(|text| u64::from_str_radix(text, 16) == Ok(0));
    let namespaces = NAMESPACES
        .iter()
        .filter_map(|kind| Some(((*kind).to_owned(), super::namespace_inode(kind)?)))
        .collect();
    Ok(Attestation {
        privilege: parts.base.privilege,
        no_new_privs: number("NoNewPrivs") == 1,
        seccomp_mode: number("Seccomp"),
        seccomp_filters: number("Seccomp_filters"),
        capabilities_left: sets.iter().filter(|set| !is_empty(set)).map(|s| (*s).into()).collect(),
        namespaces,
        namespaces_shared: Vec::new(),
        uid_map: std::fs::read_to_string("/proc/self/uid_map")
            .during("read our user map")?
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
        landlock_abi,
        layered,
        cgroup: parts.group.facts(),
        calls: parts.order.calls.clone(),
        requested: parts.order.template.clone(),
        examined: None,
    })
}

struct Init<'a> {
    parts: Parts<'a>,
    signal: OwnedFd,
    stack: sys::Stack,
    /// What every command starts with, whatever the last one did to this process.
    processors: sys::Processors,
}

/// What woke the first process.
struct Woken {
    message: bool,
    child: bool,
}

impl Init<'_> {
    fn serve(&mut self) -> ! {
        loop {
            let woken = self.wait(None);
            if woken.child {
                // Nothing runs between commands; whatever was left is collected.
                while let Ok(Some(_)) = sys::reap(false) {}
            }
            if !woken.message {
                continue;
            }
            let Some(Received { message, descriptors }) = self.receive() else {
                continue;
            };
            let answer = match message {
                ToInit::Run(launch) => self.run(&launch, descriptors).map(FromInit::Ended),
                ToInit::Enter { entry, timeout_ms } => {
                    self.enter(&entry, timeout_ms, descriptors).map(FromInit::Ended)
                }
                ToInit::Stop(_) | ToInit::Pause | ToInit::Resume => continue,
                ToInit::Write { name, mode } => write(&name, mode, &descriptors),
                ToInit::Remove { name } => remove(&name, &descriptors),
                ToInit::MakeDir { name, mode } => make_dir(&name, mode, &descriptors),
            };
            if self.parts.channel.send(&answer.unwrap_or_else(FromInit::Failed), &[]).is_err() {
                sys::exit_now(0);
            }
        }
    }

    /// Waits for a message, an ended child, or the deadline. Ends with the owner or the host.
    fn wait(&self, deadline: Option<Instant>) -> Woken {
        let timeout = deadline.map(|at| {
            let left = at.saturating_duration_since(Instant::now());
            Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 })
        });
        let mut fds = [
            PollFd::new(&self.parts.channel, PollFlags::IN),
            PollFd::new(&self.parts.host, PollFlags::IN),
            PollFd::new(&self.signal, PollFlags::IN),
        ];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => sys::exit_now(1),
        }
        if !fds[1].revents().is_empty() {
            sys::exit_now(0);
        }
        let child = !fds[2].revents().is_empty();
        if child {
            let mut drained = [0u8; 512];
            let _ = rustix::io::read(&self.signal, &mut drained);
        }
        Woken { message: !fds[0].revents().is_empty(), child }
    }

    /// A message the owner sent. A frame that makes no sense is answered by ending: the owner is
    /// the same program, so it means that something is badly wrong.
    fn receive(&mut self) -> Option<Received<ToInit>> {
        match self.parts.channel.receive() {
            Ok(Some(received)) => Some(received),
            Ok(None) | Err(_) => sys::exit_now(0),
        }
    }

    fn run(&mut self, launch: &Launch, streams: Vec<OwnedFd>) -> Result<Ended, Failure> {
        let streams = match launch.terminal {
            Some(window) => self.terminal(window)?,
            None => three(streams)?,
        };
        let prepared = Prepared::new(launch, streams)?;
        let limit = Duration::from_millis(launch.timeout_ms);
        let pause_limit = Duration::from_millis(launch.pause_limit_ms);
        let watch = |started| Watch::program(started, limit, pause_limit);
        self.watched(watch, |init| {
            let start = (&prepared, init.parts.filters, &init.processors);
            let main = sys::start(&mut init.stack, &start, |(program, filters, processors)| {
                processors.take();
                program.become_program(filters)
            });
            drop(prepared);
            main
        })
    }

    /// Runs a function of this program in a copy of this process.
    fn enter(
        &mut self,
        name: &str,
        timeout_ms: u64,
        streams: Vec<OwnedFd>,
    ) -> Result<Ended, Failure> {
        let entry = entry::find(name).ok_or_else(|| Failure::new(format!("enter `{name}`")))?;
        let entering = Entering { entry, streams: three(streams)? };
        let watch = |started| Watch::function(started, Duration::from_millis(timeout_ms));
        self.watched(watch, |init| {
            init.processors.take();
            sys::fork(&entering, Entering::run)
        })
    }

    /// Begins a process and watches it to its end.
    fn watched(
        &mut self,
        watch: impl FnOnce(Instant) -> Watch,
        begin: impl FnOnce(&mut Self) -> rustix::io::Result<i32>,
    ) -> Result<Ended, Failure> {
        let before = self.parts.group.counters();
        self.parts.group.reset_peak();
        let started = Instant::now();
        let main = begin(self).during("start a process")?;
        let mut watch = watch(started);
        let mut tally = Tally::default();
        let ended = self.supervise(main, &mut watch, &mut tally);
        let status = match ended {
            Some(status) => status,
            None => Status::TimedOut,
        };
        let background_processes = end_all(main, &mut tally);
        let after = self.parts.group.counters();
        let status = if after.memory_kills > before.memory_kills {
            Status::LimitExceeded(Limit::Memory)
        } else if after.pids_refused > before.pids_refused {
            Status::LimitExceeded(Limit::Pids)
        } else {
            status
        };
        Ok(Ended {
            status,
            background_processes,
            cpu_us: tally.cpu_us,
            memory_peak_bytes: self.parts.group.peak_bytes().unwrap_or(tally.peak_bytes),
            duration_us: micros(started.elapsed()),
            paused_us: micros(watch.stood_still(Instant::now())),
        })
    }

    /// Makes a terminal in the sandbox's own `/dev/pts`, hands its other side to the owner, and
    /// answers this side as three standard streams.
    fn terminal(&self, window: Window) -> Result<[OwnedFd; 3], Failure> {
        let make = |step: &str| format!("make a terminal: {step}");
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .step(|| make("open"))?;
        unlockpt(&master).step(|| make("unlock"))?;
        let size =
            Winsize { ws_row: window.rows, ws_col: window.columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).step(|| make("set its size"))?;
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        // By the master itself: no name is looked up that a command could have put there.
        let slave = ioctl_tiocgptpeer(&master, flags).step(|| make("open its other side"))?;
        let again = || rustix::io::fcntl_dupfd_cloexec(&slave, 3).step(|| make("duplicate"));
        let (out, err) = (again()?, again()?);
        self.parts
            .channel
            .send(&FromInit::Terminal, &[master.as_fd()])
            .map_err(|_| Failure::new("hand a terminal out"))?;
        Ok([slave, out, err])
    }

    /// Waits for the end of the main process; `None` at the deadline.
    fn supervise(&mut self, main: i32, watch: &mut Watch, tally: &mut Tally) -> Option<Status> {
        loop {
            let woken = self.wait(Some(watch.until()));
            if woken.child {
                while let Ok(Some(reaped)) = sys::reap(false) {
                    tally.add(&reaped);
                    if reaped.pid == main {
                        return Some(status_of(reaped.status));
                    }
                }
            }
            if woken.message {
                match self.receive()?.message {
                    ToInit::Stop(why) => {
                        return Some(match why {
                            Stop::Cancelled => Status::Cancelled,
                            Stop::Output => Status::LimitExceeded(Limit::Output),
                            Stop::Disk => Status::LimitExceeded(Limit::Disk),
                        });
                    }
                    ToInit::Pause => perform(watch.warn(Instant::now())),
                    ToInit::Resume => perform(watch.go_on(Instant::now())),
                    // One command at a time is the owner's promise.
                    _ => sys::exit_now(1),
                }
            }
            let due = watch.due(Instant::now());
            if due == Due::Over {
                return None;
            }
            perform(due);
        }
    }
}

fn perform(due: Due) {
    if let Due::Signal(signal) = due {
        sys::signal_all_others(signal);
    }
}

fn three(streams: Vec<OwnedFd>) -> Result<[OwnedFd; 3], Failure> {
    streams.try_into().map_err(|_| Failure::new("take three standard streams"))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// What the processes of one command used.
#[derive(Default)]
struct Tally {
    cpu_us: u64,
    peak_bytes: u64,
}

impl Tally {
    fn add(&mut self, reaped: &sys::Reaped) {
        self.cpu_us += reaped.cpu_us;
        self.peak_bytes = self.peak_bytes.max(reaped.peak_bytes);
    }
}

/// Ends every process but this one; answers how many were still running besides the main one.
fn end_all(main: i32, tally: &mut Tally) -> u32 {
    // What has already ended is no background process.
    while let Ok(Some(reaped)) = sys::reap(false) {
        tally.add(&reaped);
    }
    sys::signal_all_others(libc::SIGKILL);
    let mut background = 0;
    while let Ok(Some(reaped)) = sys::reap(true) {
        tally.add(&reaped);
        let killed =
            libc::WIFSIGNALED(reaped.status) && libc::WTERMSIG(reaped.status) == libc::SIGKILL;
        background += u32::from(killed && reaped.pid != main);
    }
    background
}

fn status_of(raw: i32) -> Status {
    if libc::WIFSIGNALED(raw) {
        Status::Signaled(libc::WTERMSIG(raw))
    } else {
        Status::Exited(libc::WEXITSTATUS(raw))
    }
}

/// Name of a file while it is being written. One at a time, so one name is enough; it is removed
/// first in case a command made something by that name.
const UNFINISHED: &str = ".glasshouse-unfinished";

fn write(name: &str, mode: u32, descriptors: &[OwnedFd]) -> Result<FromInit, Failure> {
    let [parent, content] = descriptors else {
        return Err(Failure::new("take a directory and a content"));
    };
    let _ = unlinkat(parent, UNFINISHED, AtFlags::empty());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(parent, UNFINISHED, flags, Mode::from_raw_mode(0o600)).during("create")?;
    let finish = || -> Result<(), Failure> {
        let mut target = File::from(rustix::io::fcntl_dupfd_cloexec(&file, 3).during("write")?);
        let mut source = File::from(rustix::io::fcntl_dupfd_cloexec(content, 3).during("write")?);
        std::io::copy(&mut source, &mut target).during("write")?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o777)).during("set the mode of")?;
        renameat(parent, UNFINISHED, parent, name).during("replace")
    };
    finish().inspect_err(|_| {
        let _ = unlinkat(parent, UNFINISHED, AtFlags::empty());
    })?;
    Ok(FromInit::Done)
}

fn remove(name: &str, descriptors: &[OwnedFd]) -> Result<FromInit, Failure> {
    let [parent] = descriptors else {
        return Err(Failure::new("take a directory"));
    };
    unlinkat(parent, name, AtFlags::empty()).during("remove")?;
    Ok(FromInit::Done)
}

fn make_dir(name: &str, mode: u32, descriptors: &[OwnedFd]) -> Result<FromInit, Failure> {
    let [parent] = descriptors else {
        return Err(Failure::new("take a directory"));
    };
    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(mode & 0o777)).during("make")?;
    Ok(FromInit::Done)
}

/// The working directory of a command.
pub(super) fn open_directory(path: &str) -> Result<OwnedFd, Failure> {
    openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .step(|| format!("enter the directory {path}"))
}
