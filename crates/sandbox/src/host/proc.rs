//! The `/proc` of a sandbox: its own processes, read-only, and of the machine only what programs
//! need. Whatever else this kernel shows there is covered, also what a later one will invent.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create, fsmount, fsopen,
    open_tree,
};

use super::rootfs::{READ_ONLY, attach};
use super::sys;
use crate::wire::{Context as _, Failure};

/// What stays besides processes: processors, memory, load, and what belongs to the sandbox's own
/// namespaces. Runtimes read these at start.
const SHOWN: [&str; 13] = [
    "cpuinfo",
    "filesystems",
    "loadavg",
    "meminfo",
    "mounts",
    "net",
    "self",
    "stat",
    "sys",
    "sysvipc",
    "thread-self",
    "uptime",
    "version",
];

/// Mounts it at `/proc` of a root that has `/dev/null`.
pub(super) fn mount(root: &OwnedFd) -> Result<(), Failure> {
    let proc = fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC).during("make /proc")?;
    fsconfig_create(&proc).during("make /proc")?;
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC
        | MountAttrFlags::MOUNT_ATTR_RDONLY;
    let proc = fsmount(&proc, FsMountFlags::FSMOUNT_CLOEXEC, flags).during("make /proc")?;
    attach(root.as_fd(), "proc", &proc)?;
    hidden(root)?.iter().try_for_each(|name| cover(root, &format!("proc/{name}")))
}

/// Names of what is neither a process nor shown.
fn hidden(root: &OwnedFd) -> Result<Vec<String>, Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(root, "proc", flags, Mode::empty()).during("list /proc")?;
    let mut names = Vec::new();
    for entry in Dir::new(directory).during("list /proc")? {
        let entry = entry.during("list /proc")?;
        let name = entry.file_name().to_string_lossy();
        let is_process = name.bytes().all(|byte| byte.is_ascii_digit());
        if !is_process && !name.starts_with('.') && !SHOWN.contains(&&*name) {
            names.push(name.into_owned());
        }
    }
    Ok(names)
}

/// Lays nothing over something.
pub(super) fn cover(root: &OwnedFd, path: &str) -> Result<(), Failure> {
    let Ok(stat) = statat(root, path, AtFlags::SYMLINK_NOFOLLOW) else {
        // It has gone again, with a driver.
        return Ok(());
    };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let nothing = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            let empty = open_tree(root, "run", flags).during("cover /proc")?;
            sys::mount_setattr(empty.as_fd(), false, READ_ONLY, None).during("cover /proc")?;
            empty
        }
        FileType::RegularFile => open_tree(root, "dev/null", flags).during("cover /proc")?,
        // A link leads to something that is covered or shown itself.
        _ => return Ok(()),
    };
    attach(root.as_fd(), path, &nothing)
}
