//! The host process: a single-threaded copy of the program, with an empty environment, from which
//! every sandbox is cloned.
//!
//! A multi-threaded process cannot fork safely, and what it holds (keys, sockets, the log) must
//! not be in the memory of a sandbox's first process. So the program starts itself once more with
//! nothing but a socket; the clone of *that* becomes the first process without executing anything.
//! When the owner ends, the socket closes and the host process ends every sandbox.

mod cgroup;
mod confine;
mod etc;
mod init;
mod launch;
mod layer;
mod nest;
pub(crate) mod probe;
mod proc;
mod rootfs;
pub(crate) mod seccomp;
mod sys;
mod system;
mod watch;

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use glasshouse_ipc::{Channel, Received, handshake};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};

pub(crate) use self::cgroup::{Obstacle, Parents, remove_leaves};
use self::nest::{Hatched, Nest};
use self::rootfs::Base;
use self::seccomp::Filters;
pub(crate) use self::sys::end_with_parent;
use crate::attest::Privilege;
use crate::entry::{self, Entry};
use crate::leftovers::Record;
use crate::template::Profile;
use crate::wire::{Context as _, Failure, FromHost, Order, PROTOCOL, SERVICE, ToHost};
use crate::workspace::Hold;

/// First argument with which the program enters this module.
pub const ARGUMENT: &str = "__sandboxd";

/// Runs the host process on the socket at standard input; called by the program when its first
/// argument is [`ARGUMENT`]. With a second argument `probe` it runs one attack of the doctor's
/// instead and exits with its result. `entries` are what sandboxes can run of the program itself.
pub fn main(entries: &'static [Entry]) -> ! {
    entry::register(entries);
    let mut arguments = std::env::args().skip(2);
    if arguments.next().as_deref() == Some("probe") {
        let arguments: Vec<String> = arguments.collect();
        std::process::exit(probe::main(&arguments));
    }
    sys::end_on_panic();
    std::process::exit(i32::from(serve().is_err()))
}

fn serve() -> Result<(), Failure> {
    let socket = sys::inherited_socket().during("take the socket")?;
    sys::close_all_but(&mut [socket.as_raw_fd()]);
    let null = fs::File::options().read(true).write(true).open("/dev/null").during("open null")?;
    (0..3).try_for_each(|at| sys::place(null.as_fd(), at)).during("replace standard streams")?;
    drop(null);
    rustix::process::umask(Mode::from_raw_mode(0o022));
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .during("become unreadable")?;

    let refused = |error: glasshouse_ipc::Error| Failure::new(error.to_string());
    let mut channel = Channel::from_descriptor(socket).map_err(refused)?;
    let uid = rustix::process::getuid().as_raw();
    handshake::answer(&mut channel, SERVICE, PROTOCOL, uid).map_err(refused)?;
    let Some(Received { message: ToHost::Start { run_dir }, .. }) =
        channel.receive().map_err(refused)?
    else {
        return Err(Failure::new("hear where to work"));
    };
    match Host::prepare(&run_dir) {
        Ok(mut host) => {
            channel.send(&FromHost::Done, &[]).map_err(refused)?;
            host.serve(&mut channel);
            host.end();
            Ok(())
        }
        Err(failure) => channel.send(&FromHost::Failed(failure), &[]).map_err(refused),
    }
}

/// A sandbox in use.
struct Live {
    id: String,
    /// The layer that takes its changes.
    upper: Option<PathBuf>,
    first: First,
}

/// The filters of every profile.
type Programs = HashMap<Profile, Filters>;

/// A first process and where it lives.
struct First {
    pidfd: OwnedFd,
    nest: Nest,
    /// Brings it the order; it ends when this closes.
    link: Channel,
}

struct Host {
    directory: PathBuf,
    /// Tells every sweep that this process lives.
    _held: Hold,
    base: Base,
    parents: Parents,
    record: Record,
    /// How many nests were ever made; names are not reused.
    nests: u64,
    programs: Programs,
    live: HashMap<u64, Live>,
    /// Started ahead and waiting for its order. Used for one sandbox, then never again.
    spare: Option<First>,
    /// Nests whose sandboxes are gone.
    free: Vec<Nest>,
}

/// Most free nests that are kept: as many as a busy owner has sandboxes come and go at a time.
const MAX_FREE_NESTS: usize = 4;
/// How often a first process is started for one order.
const STARTS: u32 = 3;

impl Host {
    fn prepare(run_dir: &Path) -> Result<Self, Failure> {
        let parents = Parents::find();
        let record = Record::of_this_process(parents.directories())
            .ok_or_else(|| Failure::new("identify the host process"))?;
        let directory = record.directory(run_dir);
        let held = Hold::take(&directory).map_err(|error| Failure::new(error.to_string()))?;
        let [etc, image, mountpoint, scratch] =
            ["etc", "image", "root", "scratch"].map(|name| directory.join(name));
        for path in [&mountpoint, &scratch] {
            fs::create_dir_all(path).during("make the host directory")?;
        }
        etc::prepare(&etc).during("prepare /etc")?;
        etc::complete(&image).during("prepare /etc")?;
        record.write(&directory).during("record the host process")?;
        let privilege = confine::privilege();
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        let idmap = match privilege {
            Privilege::Root => Some(shifted_namespace(uid, gid)?),
            Privilege::Rootless => None,
        };
        Ok(Self {
            base: Base { privilege, etc, image, mountpoint, scratch, idmap, uid, gid },
            parents,
            record,
            nests: 0,
            programs: [Profile::Strict, Profile::Standard, Profile::StandardNet]
                .map(|profile| (profile, Filters::assemble(profile)))
                .into(),
            live: HashMap::new(),
            spare: None,
            free: Vec::new(),
            directory,
            _held: held,
        })
    }

    fn serve(&mut self, channel: &mut Channel) {
        loop {
            if self.spare.is_none() {
                // If this fails now it is tried again, and explained, when it is needed.
                self.spare = self.start().ok();
            }
            let tickets: Vec<u64> = self.live.keys().copied().collect();
            let mut fds = vec![PollFd::new(&*channel, PollFlags::IN)];
            fds.extend(
                self.live.values().map(|live| PollFd::new(&live.first.pidfd, PollFlags::IN)),
            );
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let asked = !fds[0].revents().is_empty();
            let ended: Vec<bool> = fds[1..].iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            for (ticket, _) in tickets.into_iter().zip(ended).filter(|(_, ended)| *ended) {
                let left = self.collect(ticket);
                left.into_iter().for_each(|left| self.vacate(left));
            }
            if asked {
                match channel.receive::<ToHost>() {
                    Ok(Some(Received { message, descriptors })) => {
                        if self.answer(channel, message, descriptors).is_err() {
                            return;
                        }
                    }
                    Ok(None) | Err(_) => return,
                }
            }
        }
    }

    fn answer(
        &mut self,
        channel: &Channel,
        message: ToHost,
        mut descriptors: Vec<OwnedFd>,
    ) -> glasshouse_ipc::Result<()> {
        match message {
            ToHost::Create(order) => {
                let made = match (descriptors.pop(), descriptors.is_empty()) {
                    (Some(socket), true) => self.create(&order, &socket),
                    _ => Err(Failure::new("take the sandbox's socket")),
                };
                match made {
                    Ok(()) => {
                        let live =
                            self.live.get(&order.ticket).map(|live| live.first.pidfd.as_fd());
                        channel.send(&FromHost::Created, &live.into_iter().collect::<Vec<_>>())
                    }
                    Err(failure) => channel.send(&FromHost::Failed(failure), &[]),
                }
            }
            ToHost::Reap { ticket } => {
                let left = self.collect(ticket);
                // Whoever asked need not wait for the rest.
                let sent = channel.send(&FromHost::Done, &[]);
                left.into_iter().for_each(|left| self.vacate(left));
                sent
            }
            ToHost::Start { .. } => {
                channel.send(&FromHost::Failed(Failure::new("start twice")), &[])
            }
        }
    }

    fn create(&mut self, order: &Order, socket: &OwnedFd) -> Result<(), Failure> {
        if self.live.values().any(|live| live.id == order.id) {
            return Err(Failure {
                step: format!("use the id {} twice", order.id),
                errno: libc::EEXIST,
            });
        }
        if let Some(overlay) = &order.overlay {
            self.free.iter_mut().for_each(|nest| nest.release(&overlay.upper));
        }
        let handed = |first: &First| first.link.send(order, &[socket.as_fd()]);
        if let Some(spare) = self.spare.take() {
            if spare.nest.limit(&order.template) && handed(&spare).is_ok() {
                self.live.insert(order.ticket, Live::of(order, spare));
                return Ok(());
            }
            // It died, or its group will not take these limits: begin with a new one.
            spare.end();
            spare.nest.remove();
        }
        self.free.drain(..).for_each(|nest| nest.remove());
        let mut starts = STARTS;
        loop {
            starts -= 1;
            let first = self.start()?;
            first.nest.limit(&order.template);
            if handed(&first).is_ok() {
                self.live.insert(order.ticket, Live::of(order, first));
                return Ok(());
            }
            // Killed before it had its order, by whoever is short of memory, say: it did nothing yet.
            first.end();
            first.nest.remove();
            if starts == 0 {
                return Err(Failure::killed("give a sandbox its order"));
            }
        }
    }

    /// Starts a first process that waits for its order.
    fn start(&mut self) -> Result<First, Failure> {
        let mut nest = match self.free.pop() {
            Some(nest) => nest,
            None => {
                self.nests += 1;
                let group = self.parents.make(&format!("{}{}", self.record.prefix, self.nests));
                Nest::make(group, &self.base, &self.programs)?
            }
        };
        match nest.hatch() {
            Ok(Hatched { pidfd, link }) => Ok(First { pidfd, nest, link }),
            Err(failure) => {
                nest.remove();
                Err(failure)
            }
        }
    }

    /// Ends a sandbox if it still runs and collects it; what it lived in is left. Idempotent.
    fn collect(&mut self, ticket: u64) -> Option<(Nest, Option<PathBuf>)> {
        let Live { first, upper, .. } = self.live.remove(&ticket)?;
        first.end();
        Some((first.nest, upper))
    }

    /// Takes back what an ended sandbox lived in.
    fn vacate(&mut self, (mut nest, upper): (Nest, Option<PathBuf>)) {
        if self.free.len() < MAX_FREE_NESTS && nest.is_free() {
            nest.forget(upper);
            self.free.push(nest);
        } else {
            nest.remove();
        }
    }

    fn end(&mut self) {
        let firsts: Vec<First> =
            self.live.drain().map(|(_, live)| live.first).chain(self.spare.take()).collect();
        for first in &firsts {
            let _ = pidfd_send_signal(&first.pidfd, Signal::KILL);
        }
        for first in &firsts {
            first.end();
            first.nest.remove();
        }
        self.free.iter().for_each(Nest::remove);
        // Leaves that stay, also those of nests that ended long ago, are found by the record as soon as this
        // process is gone.
        if remove_leaves(self.record.leaves()).is_empty() {
            let _ = crate::tree::remove_tree(&self.directory);
        }
    }
}

impl Live {
    fn of(order: &Order, first: First) -> Self {
        let upper = order.overlay.as_ref().map(|overlay| overlay.upper.clone());
        Self { id: order.id.clone(), upper, first }
    }
}

impl First {
    /// Kills it, and with it everything in its PID namespace, and collects it.
    fn end(&self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        let _ = sys::collect(&self.pidfd);
    }
}

/// A user namespace that exists only to say: files of `uid` on disk belong to the commands' host
/// user. So layers need neither copying nor a change of owner.
fn shifted_namespace(uid: u32, gid: u32) -> Result<OwnedFd, Failure> {
    let (pid, pidfd) = match sys::clone3(libc::CLONE_NEWUSER, None, sys::Parent::Caller)
        .during("make an id map")?
    {
        sys::Forked::Child => {
            let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
            loop {
                std::thread::park();
            }
        }
        sys::Forked::Parent(child) => child,
    };
    let mapped = || -> Result<OwnedFd, Failure> {
        for (name, id) in [("uid_map", uid), ("gid_map", gid)] {
            fs::File::options()
                .write(true)
                .open(format!("/proc/{pid}/{name}"))
                // The kernel takes a map in one write only.
                .and_then(|mut file| {
                    file.write_all(format!("{id} {} 1", confine::HOST_ID).as_bytes())
                })
                .during("write the id map")?;
        }
        Ok(fs::File::open(format!("/proc/{pid}/ns/user")).during("open the id map")?.into())
    };
    let namespace = mapped();
    let _ = pidfd_send_signal(&pidfd, Signal::KILL);
    sys::collect(&pidfd).during("collect the id map's process")?;
    namespace
}

/// Identity of a namespace of this process.
pub(crate) fn namespace_inode(kind: &str) -> Option<u64> {
    let link = fs::read_link(Path::new("/proc/self/ns").join(kind)).ok()?;
    let text = link.to_str()?;
    text.split_once('[')?.1.strip_suffix(']')?.parse().ok()
}
