//! A cgroup leaf with a process in it that clones first processes there.
//!
//! Moving a process into a cgroup of version 1 stops every fork on the machine for a grace period
//! of the kernel, milliseconds when it is busy. A clone is born where its maker is, so one process
//! moves once, and every sandbox that uses the leaf after that costs nobody anything. The clone is
//! a child of the host process, not of its maker: who makes it cannot take it down.

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use glasshouse_ipc::Channel;
use rustix::process::{Signal, pidfd_send_signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::cgroup::Group;
use super::rootfs::Base;
use super::{Programs, init, sys};
use crate::attest::Privilege;
use crate::template::Template;
use crate::wire::{Context as _, Failure};

/// How long a clone may take; the first also waits for the move into the leaf.
const CLONE_LIMIT: Duration = Duration::from_secs(10);

/// What the inhabitant is told.
#[derive(Debug, Serialize, Deserialize)]
enum Ask {
    /// One clone; the descriptor is its end of a channel.
    Clone,
    /// The last clone has ended: let go of its mounts. Answered when they are gone.
    Forget,
}

/// The leaf and its inhabitant.
pub(super) struct Nest {
    group: Group,
    keeper: i32,
    pidfd: OwnedFd,
    channel: Channel,
    /// Whether mounts of an ended first process may still be there.
    holds_mounts: bool,
    /// The layer that took the changes of that process.
    upper: Option<PathBuf>,
}

/// A first process that waits for its order on `link`.
pub(super) struct Hatched {
    pub(super) pidfd: OwnedFd,
    pub(super) link: Channel,
}

impl Nest {
    /// Puts a process into the groups.
    pub(super) fn make(group: Group, base: &Base, programs: &Programs) -> Result<Self, Failure> {
        let (channel, theirs) = pair()?;
        match sys::clone3(0, group.unified(), sys::Parent::Caller) {
            Ok(sys::Forked::Child) => keep(&group, base, programs, theirs),
            Ok(sys::Forked::Parent((keeper, pidfd))) => {
                Ok(Self { group, keeper, pidfd, channel, holds_mounts: false, upper: None })
            }
            Err(errno) => {
                group.remove();
                Err(errno).during("start a process")
            }
        }
    }

    /// Makes a first process in this leaf.
    pub(super) fn hatch(&mut self) -> Result<Hatched, Failure> {
        let killed = |_: glasshouse_ipc::Error| Failure::killed("start a sandbox");
        self.settle();
        let (link, theirs) = pair()?;
        let theirs = OwnedFd::from(theirs);
        self.channel.send(&Ask::Clone, &[theirs.as_fd()]).map_err(killed)?;
        let answer = self.channel.receive_within::<Result<(), Failure>>(CLONE_LIMIT);
        let mut answer = answer.map_err(killed)?;
        answer.message?;
        let pidfd = answer.descriptors.pop();
        let pidfd = pidfd.ok_or_else(|| Failure::new("receive the first process"))?;
        Ok(Hatched { pidfd, link })
    }

    /// Has the mounts of an ended first process taken down, while nobody waits for that but whoever needs its
    /// layer.
    pub(super) fn forget(&mut self, upper: Option<PathBuf>) {
        // A process that is gone has let go of everything.
        self.holds_mounts = self.channel.send(&Ask::Forget, &[]).is_ok();
        self.upper = upper;
    }

    /// Waits until nothing lies over a layer any more: what two overlays do with one is undefined.
    pub(super) fn release(&mut self, upper: &Path) {
        if self.upper.as_deref() == Some(upper) {
            self.settle();
        }
    }

    fn settle(&mut self) {
        if std::mem::take(&mut self.holds_mounts) {
            // No answer comes from a process that is gone, and has let go of everything.
            let _ = self.channel.receive_within::<Result<(), Failure>>(CLONE_LIMIT);
        }
        self.upper = None;
    }

    /// As [`Group::limit`].
    pub(super) fn limit(&self, template: &Template) -> bool {
        self.group.limit(template)
    }

    /// Whether only its own process is left, so that another sandbox can have it.
    pub(super) fn is_free(&self) -> bool {
        self.group.holds_only(self.keeper)
    }

    /// Ends its process and removes the groups.
    pub(super) fn remove(&self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        let _ = sys::collect(&self.pidfd);
        self.group.remove();
    }
}

fn pair() -> Result<(Channel, Channel), Failure> {
    Channel::pair().map_err(|error| Failure::new(error.to_string()))
}

/// The inhabitant: moves in, then clones on demand until the host process is gone.
fn keep(group: &Group, base: &Base, programs: &Programs, mut channel: Channel) -> ! {
    let settled = set_parent_process_death_signal(Some(Signal::KILL))
        .during("bind to the host process")
        .and_then(|()| group.join().during("join the cgroup"));
    let mut open = group.descriptors();
    open.push(channel.as_fd().as_raw_fd());
    open.extend(base.idmap.iter().map(|idmap| idmap.as_raw_fd()));
    sys::close_all_but(&mut open);
    let mut namespaces = libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS;
    if base.privilege == Privilege::Rootless {
        namespaces |= libc::CLONE_NEWUSER;
    }
    let mut mounts: Option<File> = None;
    loop {
        let Ok(Some(received)) = channel.receive::<Ask>() else { sys::exit_now(0) };
        if matches!(received.message, Ask::Forget) {
            drop(mounts.take());
            if channel.send(&Ok::<(), Failure>(()), &[]).is_err() {
                sys::exit_now(1);
            }
            continue;
        }
        let cloned = settled.clone().and_then(|()| {
            sys::clone3(namespaces, None, sys::Parent::OfCaller).during("make namespaces")
        });
        let sent = match cloned {
            Ok(sys::Forked::Child) => {
                let host = received.one_descriptor().ok().map(|(_, socket)| socket);
                match host.map(Channel::from_descriptor) {
                    Some(Ok(host)) => init::run(init::Start { base, programs, group, host }),
                    _ => sys::exit_now(1),
                }
            }
            Ok(sys::Forked::Parent((pid, pidfd))) => {
                // The end of the last process of a mount namespace waits until all of its mounts are
                // gone, and whoever waits for the process waits for that. Held here, they outlast it
                // until somebody has time. Where it cannot be opened all is as slow as it was.
                mounts = File::open(format!("/proc/{pid}/ns/mnt")).ok();
                channel.send(&Ok::<(), Failure>(()), &[pidfd.as_fd()])
            }
            Err(failure) => channel.send(&Err::<(), Failure>(failure), &[]),
        };
        if sent.is_err() {
            sys::exit_now(1);
        }
    }
}
