//! Giving up every right, in the order in which that is still possible.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, BorrowedFd};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, LandlockStatus,
    PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::fs::{Mode, OFlags, openat};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, getrlimit, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, Gid, Uid, capabilities, clear_ambient_capability_set,
    set_capabilities, set_keep_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

use super::sys;
use crate::attest::Privilege;
use crate::template::{Profile, Template};
use crate::wire::{Context as _, Failure};

/// Host user that commands run as when root builds the sandbox: above every real account, in the
/// range customarily set aside for containers.
pub(crate) const HOST_ID: u32 = 100_000;

/// The same user as seen inside.
pub(crate) const INSIDE_ID: u32 = 1000;

/// Most open files of a command: enough for a build, and within every usual hard limit.
const MAX_OPEN_FILES: u64 = 4096;

/// Memory that cannot be swapped: the usual default, needed by programs that hold keys.
const MAX_LOCKED_BYTES: u64 = 64 << 10;

/// Maps one user and group of this user namespace's parent to the agent's.
pub(crate) fn map_ids(proc: BorrowedFd<'_>, uid: u32, gid: u32) -> Result<(), Failure> {
    let write = |name: &str, text: String| -> Result<(), Failure> {
        let file =
            openat(proc, format!("self/{name}"), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
                .step(|| format!("open {name}"))?;
        File::from(file).write_all(text.as_bytes()).step(|| format!("write {name}"))
    };
    write("setgroups", "deny".into())?;
    write("uid_map", format!("{INSIDE_ID} {uid} 1"))?;
    write("gid_map", format!("{INSIDE_ID} {gid} 1"))
}

/// Becomes an unprivileged host user inside its own user namespace. Built by root, so the mounts
/// and the network belong to a namespace in which this process has no rights at all.
pub(crate) fn leave_root(proc: BorrowedFd<'_>) -> Result<(), Failure> {
    set_thread_groups(&[]).during("drop groups")?;
    // The namespace is made by the new user but with root's right to make one, so that hosts
    // which forbid it to ordinary users do not get in the way.
    set_keep_capabilities(true).during("keep capabilities")?;
    let (gid, uid) = (Gid::from_raw(HOST_ID), Uid::from_raw(HOST_ID));
    set_thread_res_gid(gid, gid, gid).during("change group")?;
    set_thread_res_uid(uid, uid, uid).during("change user")?;
    let held = capabilities(None).during("read capabilities")?;
    set_capabilities(None, CapabilitySets { effective: held.permitted, ..held })
        .during("raise capabilities")?;
    sys::unshare(libc::CLONE_NEWUSER).during("make a user namespace")?;
    // Changing user made the process unreadable to itself; the maps must be written once.
    set_dumpable_behavior(DumpableBehavior::Dumpable).during("become dumpable")?;
    map_ids(proc, HOST_ID, HOST_ID)
}

/// Gives up capabilities and new privileges for good, and dies with the parent.
pub(crate) fn drop_privileges() -> Result<(), Failure> {
    for number in 0..u64::BITS {
        if !sys::drop_bounding(number) {
            break;
        }
    }
    clear_ambient_capability_set().during("clear ambient capabilities")?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .during("drop capabilities")?;
    set_keep_capabilities(false).during("forget capabilities")?;
    set_no_new_privs(true).during("refuse new privileges")?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).during("become unreadable")?;
    // After the change of user, which clears it.
    set_parent_process_death_signal(Some(Signal::KILL)).during("bind to the host process")
}

/// Sets the limits of each process. With cgroups they only complete the shared limits.
pub(crate) fn limit(template: &Template, has_memory: bool, has_pids: bool) -> Result<(), Failure> {
    let mut limits = vec![
        (Resource::Core, 0),
        (Resource::Nofile, MAX_OPEN_FILES),
        (Resource::Memlock, MAX_LOCKED_BYTES),
        (Resource::Fsize, template.disk_bytes),
        (Resource::Rtprio, 0),
    ];
    if !has_memory {
        limits.push((Resource::Data, template.memory_bytes));
    }
    if !has_pids {
        limits.push((Resource::Nproc, u64::from(template.max_pids) + 1));
    }
    for (resource, wanted) in limits {
        // A hard limit can only be lowered.
        let value = Some(getrlimit(resource).maximum.map_or(wanted, |hard| hard.min(wanted)));
        setrlimit(resource, Rlimit { current: value, maximum: value })
            .step(|| format!("limit {resource:?}"))?;
    }
    Ok(())
}

/// Restricts this process and its descendants with Landlock as far as the kernel can; answers the
/// version in force, 0 for none. `writable` are the places a command may change.
pub(crate) fn landlock(profile: Profile, writable: &[&str]) -> Result<u32, Failure> {
    let newest = ABI::V7;
    let build = || -> Result<_, landlock::RulesetError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(newest))?
            .scope(Scope::AbstractUnixSocket | Scope::Signal)?;
        if profile == Profile::Strict {
            // With nothing allowed below; other profiles use their own empty loopback, and ports
            // cannot be named as a range.
            ruleset = ruleset.handle_access(AccessNet::from_all(newest))?;
        }
        let mut ruleset = ruleset.create()?;
        let read = AccessFs::from_read(newest);
        let open = |path: &str| PathFd::new(path);
        if let Ok(root) = open("/") {
            ruleset = ruleset.add_rule(PathBeneath::new(root, read))?;
        }
        for path in writable {
            if let Ok(place) = open(path) {
                let access = if is_directory(place.as_fd()) {
                    AccessFs::from_all(newest)
                } else {
                    AccessFs::from_file(newest)
                };
                ruleset = ruleset.add_rule(PathBeneath::new(place, access))?;
            }
        }
        ruleset.restrict_self()
    };
    let status =
        build().map_err(|error| Failure::new(format!("restrict with Landlock: {error}")))?;
    Ok(match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => 0,
        (_, LandlockStatus::Available { effective_abi, kernel_abi }) => {
            kernel_abi.and_then(|abi| u32::try_from(abi).ok()).unwrap_or(effective_abi as u32)
        }
        _ => 0,
    })
}

fn is_directory(path: BorrowedFd<'_>) -> bool {
    rustix::fs::fstat(path)
        .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir())
}

/// How a sandbox can be built by this process.
pub(crate) fn privilege() -> Privilege {
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::SETUID | CapabilitySet::SETGID;
    let held = capabilities(None).is_ok_and(|sets| sets.effective.contains(needed));
    if held && is_first_user_namespace() { Privilege::Root } else { Privilege::Rootless }
}

/// Whether every user id of the machine is one here. Root of another user namespace has rights over
/// what is made in it, however many ids it was given, but may not shift the owners of the host's
/// file systems, so it builds as an ordinary user does.
fn is_first_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}
