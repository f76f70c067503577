//! The file system of a sandbox: an almost empty root, the host's `/usr` to read, the overlay
//! workspace, and temporary places. Built from scratch, so nothing has to be hidden.
//!
//! Most of it is the same for every sandbox and is built ahead, while nobody waits for it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Uid, chownat, fstat, mkdirat, openat,
    openat2, symlinkat,
};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, FsPickFlags, MountAttrFlags, MountFlags, MountPropagationFlags,
    MoveMountFlags, OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_reconfigure,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, fspick, mount, mount_change,
    move_mount, open_tree, unmount,
};

use rustix::thread::{CapabilitySets, capabilities, set_capabilities};

use super::layer::Layering;
use super::system::System;
use super::{confine, sys};
use crate::attest::Privilege;
use crate::spec::{HOME, WORKSPACE};
use crate::wire::{Context as _, Failure, Order};

/// Size of a file system that holds directories and links only.
pub(super) const ROOT_SIZE: &str = "1m";

/// Temporary files are memory. Full, they may take this part of the limit, so that processes can
/// still run: the kernel would find nothing else to kill than the first process.
const SCRATCH_SHARE: u64 = 2;

/// As [`SCRATCH_SHARE`], for shared memory.
const SHARED_MEMORY_SHARE: u64 = 8;

/// Files of the host's `/dev` that exist inside; none reaches hardware.
const DEVICES: [&str; 6] = ["full", "null", "random", "tty", "urandom", "zero"];

/// What login shells run first, or at their end, below the home directory.
const PROFILES: [&str; 4] = [".bash_login", ".bash_logout", ".bash_profile", ".profile"];

/// Places commands may change, besides writable mounts.
pub(crate) const WRITABLE: [&str; 4] = [WORKSPACE, HOME, "/tmp", "/dev"];

pub(super) const READ_ONLY: u64 =
    libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
const PLAIN: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// What every sandbox of this host process shares.
pub(crate) struct Base {
    pub(crate) privilege: Privilege,
    /// Directory of prepared `/etc` files.
    pub(crate) etc: PathBuf,
    /// What an unpacked image's own `/etc` and `/var` are completed by.
    pub(crate) image: PathBuf,
    /// Empty directory to build roots on; each sandbox does so in its own mount namespace.
    pub(crate) mountpoint: PathBuf,
    /// As `mountpoint`, for what a root is built from.
    pub(crate) scratch: PathBuf,
    /// User and group that own the layers.
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// User namespace that maps the layers' owner to the host user of commands; root only.
    pub(crate) idmap: Option<OwnedFd>,
}

/// A root that lacks only what an order names.
pub(crate) struct Prepared {
    root: Root,
    layers: Layering,
    /// What most orders take for the system.
    system: System,
    /// The file system behind temporary places, and that of `/dev`: without their final sizes.
    scratch: OwnedFd,
    devices: OwnedFd,
}

/// Builds the root, as far as it is the same for all, in this process's new mount namespace.
pub(crate) fn prepare(base: &Base) -> Result<Prepared, Failure> {
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
        .during("detach mounts from the host")?;
    let mut layers = Layering::new()?;
    let system = System::of_host(base, &mut layers)?;
    let root = Root::make(&base.mountpoint)?;
    root.skeleton()?;
    // Attached where the host's files are: it disappears with them. Each unmount would cost a
    // grace period of the kernel, milliseconds on a busy machine, and so does the end of a mount
    // that never had a place.
    let scratch = scratch(base)?;
    layers.settle(&scratch)?;
    root.temporary(base, &scratch, "tmp", "tmp", 0o1777)?;
    root.temporary(base, &scratch, "home", "home/agent", 0o755)?;
    let devices = root.devices(base)?;
    super::proc::mount(&root.root)?;
    root.close_profiles()?;
    Ok(Prepared { root, layers, system, scratch, devices })
}

impl Prepared {
    /// Completes the root for an order and enters it. Answers whether everything of the host is
    /// seen through layers.
    pub(crate) fn enter(self, base: &Base, order: &Order) -> Result<bool, Failure> {
        let Self { root, mut layers, system, scratch, devices } = self;
        let system = match &order.root {
            Some(image) => System::of_image(base, &mut layers, image)?,
            None => system,
        };
        system.install(&root)?;
        let memory_bytes = order.template.memory_bytes;
        resize(&scratch, order.template.disk_bytes.min(memory_bytes / SCRATCH_SHARE))?;
        resize(&devices, memory_bytes / SHARED_MEMORY_SHARE)?;
        match &order.overlay {
            Some(dirs) => root.workspace(base, &Layers::open(base, dirs)?, &scratch)?,
            None => root.temporary(base, &scratch, "work", "workspace", 0o755)?,
        }
        let mut places = Vec::new();
        for mount in &order.mounts {
            let trees = layers.read_only(&mount.source, &scratch)?.into_iter();
            places.extend(trees.map(|(below, tree)| (mount.target.join(below), tree)));
        }
        for cache in &order.caches {
            places.push((cache.target.clone(), own(base, &cache.source)?));
        }
        // Outer places first: a mount over the place of another would hide it.
        places.sort_by_key(|(target, _)| target.components().count());
        places.iter().try_for_each(|(target, tree)| root.attach_host(target, tree))?;
        root.become_root(base)?;
        Ok(layers.are_complete())
    }
}

/// A device of the host as a mount, for where nodes cannot be made.
fn host_device(path: &Path) -> Result<OwnedFd, Failure> {
    let tree = clone_tree(path, OpenTreeFlags::empty())?;
    // Devices can be written all the same; their times and modes cannot.
    let flags = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;
    set(tree.as_fd(), flags, None, path)?;
    Ok(tree)
}

/// Directories of `/etc` that hold nothing secret and that programs need: which alternative is
/// installed, and whom to trust.
pub(crate) const PUBLIC_ETC: [&str; 4] =
    ["/etc/alternatives", "/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust"];

/// A directory of Glasshouse's own whose owner inside is the commands' user. What is mounted below
/// it is no part of it: this very root may be.
fn own(base: &Base, path: &Path) -> Result<OwnedFd, Failure> {
    let tree = clone_tree(path, OpenTreeFlags::empty())?;
    set(tree.as_fd(), PLAIN, base.idmap.as_ref(), path)?;
    Ok(tree)
}

/// Clones the mounts at a path without following any symbolic link.
fn clone_tree(path: &Path, extent: OpenTreeFlags) -> Result<OwnedFd, Failure> {
    clone_of(&place_of(path)?, extent).step(|| format!("mount {}", path.display()))
}

/// Opens a path of the host in which no component may be a link.
pub(super) fn place_of(path: &Path) -> Result<OwnedFd, Failure> {
    openat2(
        CWD,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
    .step(|| format!("mount {}", path.display()))
}

/// Clones the mounts at an opened place.
pub(super) fn clone_of(place: &OwnedFd, extent: OpenTreeFlags) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(place, "", flags | extent)
}

pub(super) fn set(
    tree: BorrowedFd<'_>,
    flags: u64,
    idmap: Option<&OwnedFd>,
    path: &Path,
) -> Result<(), Failure> {
    sys::mount_setattr(tree, true, flags, idmap.map(AsFd::as_fd))
        .step(|| format!("restrict the mount of {}", path.display()))
}

/// Overlay layers as detached mounts whose owner is the commands' user.
struct Layers {
    lowers: Vec<OwnedFd>,
    /// One mount that holds both changing directories, and where they are in it.
    top: OwnedFd,
    upper: PathBuf,
    work: PathBuf,
}

impl Layers {
    fn open(base: &Base, dirs: &crate::spec::OverlayDirs) -> Result<Self, Failure> {
        let lowers = dirs.lowers.iter().map(|path| own(base, path)).collect::<Result<_, _>>()?;
        // The overlay demands that both are reached through the same mount.
        let shared: PathBuf = dirs
            .upper
            .components()
            .zip(dirs.work.components())
            .take_while(|(a, b)| a == b)
            .map(|(a, _)| a)
            .collect();
        let below = |path: &Path| -> Result<PathBuf, Failure> {
            let below = path.strip_prefix(&shared).map_err(|_| Failure::new("relate layers"))?;
            if below.as_os_str().is_empty() {
                return Err(Failure::new("tell upper and work layer apart"));
            }
            Ok(below.to_owned())
        };
        Ok(Self {
            lowers,
            upper: below(&dirs.upper)?,
            work: below(&dirs.work)?,
            top: own(base, &shared)?,
        })
    }
}

/// The root under construction.
pub(super) struct Root {
    pub(super) root: OwnedFd,
}

impl Root {
    fn make(mountpoint: &Path) -> Result<Self, Failure> {
        let tree = tmpfs(ROOT_SIZE, "0755", MountAttrFlags::MOUNT_ATTR_NOSUID)?;
        move_mount(&tree, "", CWD, mountpoint, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
            .during("attach the root")?;
        Ok(Self { root: tree })
    }

    fn skeleton(&self) -> Result<(), Failure> {
        for path in ["etc", "proc", "dev", "tmp", "run", "var", "home", "home/agent", "workspace"] {
            self.directory(path)?;
        }
        symlinkat("../tmp", &self.root, "var/tmp").during("link /var/tmp")
    }

    fn directory(&self, path: &str) -> Result<(), Failure> {
        mkdirat(&self.root, path, Mode::from_raw_mode(0o755)).step(|| format!("make /{path}"))
    }

    /// A temporary place, `/tmp` for instance: part of the scratch space, so that all of them share
    /// one size limit.
    fn temporary(
        &self,
        base: &Base,
        scratch: &OwnedFd,
        name: &str,
        target: &str,
        mode: u32,
    ) -> Result<(), Failure> {
        mkdirat(scratch, name, Mode::from_raw_mode(0o700)).during("make a scratch place")?;
        rustix::fs::chmodat(scratch, name, Mode::from_raw_mode(mode), AtFlags::empty())
            .during("open a scratch place")?;
        give_away(base, scratch.as_fd(), name)?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let part = open_tree(scratch, name, flags).during("split the scratch space")?;
        attach(self.root.as_fd(), target, &part)
    }

    /// Puts nothing where a login shell looks for what to run first. A rule that allows `sh -lc 'make test'` by
    /// what it runs would run what an earlier command wrote there.
    fn close_profiles(&self) -> Result<(), Failure> {
        for name in PROFILES {
            let path = format!("{}/{name}", HOME.trim_start_matches('/'));
            self.file(&path)?;
            super::proc::cover(&self.root, &path)?;
        }
        Ok(())
    }

    /// Mounts the overlay from layers that are attached in the scratch space, out of sight.
    fn workspace(&self, base: &Base, layers: &Layers, scratch: &OwnedFd) -> Result<(), Failure> {
        let place = |name: &str| {
            mkdirat(scratch, name, Mode::from_raw_mode(0o700)).during("make a layer's place")
        };
        place("top")?;
        attach(scratch.as_fd(), "top", &layers.top)?;
        let mut lowerdir = Vec::new();
        for (index, tree) in layers.lowers.iter().enumerate() {
            let name = index.to_string();
            place(&name)?;
            attach(scratch.as_fd(), &name, tree)?;
            lowerdir.push(name);
        }
        let escape = |path: &Path| {
            let text = path.to_string_lossy();
            text.replace('\\', "\\\\").replace(',', "\\,").replace(':', "\\:")
        };
        // Volatile: what a command syncs is not forced to disk, and the end of a sandbox does not
        // sync the host's whole file system. What must survive a power loss is sealed by the
        // owner, who also decides after one whether the layer can be trusted.
        let mut options = format!(
            "lowerdir={},upperdir=top/{},workdir=top/{},\
             index=off,metacopy=off,redirect_dir=nofollow,volatile",
            lowerdir.join(":"),
            escape(&layers.upper),
            escape(&layers.work)
        );
        if base.privilege == Privilege::Rootless {
            options.push_str(",userxattr");
        }
        let options = std::ffi::CString::new(options)
            .map_err(|_| Failure::new("name the workspace layers"))?;
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        let target = base.mountpoint.join("workspace");
        // Layer names are relative, so their number is not bounded by long paths.
        rustix::process::chdir(&base.scratch).during("enter the scratch space")?;
        let mounted =
            as_owner(base, || mount("workspace", &target, "overlay", flags, options.as_c_str()));
        mounted.during("mount the workspace layers")
    }

    /// `/dev`, of which shared memory is a part. Nodes of our own share neither times nor watches
    /// with the host's; where none can be made, the host's are mounted.
    fn devices(&self, base: &Base) -> Result<OwnedFd, Failure> {
        let tree = tmpfs(
            ROOT_SIZE,
            "0755",
            MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC,
        )?;
        attach(self.root.as_fd(), "dev", &tree)?;
        for name in DEVICES {
            let path = format!("dev/{name}");
            let theirs = Path::new("/").join(&path);
            if !theirs.exists() {
                continue;
            }
            if base.privilege == Privilege::Root && self.node(&path, &theirs).is_ok() {
                continue;
            }
            self.file(&path)?;
            attach(self.root.as_fd(), &path, &host_device(&theirs)?)?;
        }
        for (name, target) in [
            ("fd", "/proc/self/fd"),
            ("stdin", "/proc/self/fd/0"),
            ("stdout", "/proc/self/fd/1"),
            ("stderr", "/proc/self/fd/2"),
            ("ptmx", "pts/ptmx"),
        ] {
            symlinkat(target, &self.root, format!("dev/{name}")).during("link a device")?;
        }
        self.directory("dev/shm")?;
        rustix::fs::chmodat(&self.root, "dev/shm", Mode::from_raw_mode(0o1777), AtFlags::empty())
            .during("open /dev/shm")?;
        let shared = openat(&self.root, "dev/shm", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .during("open /dev/shm")?;
        let shared = clone_of(&shared, OpenTreeFlags::empty()).during("make shared memory")?;
        self.directory("dev/pts")?;
        let terminals = fsopen("devpts", FsOpenFlags::FSOPEN_CLOEXEC).during("make terminals")?;
        fsconfig_set_flag(&terminals, "newinstance").during("make terminals")?;
        fsconfig_set_string(&terminals, "ptmxmode", "0666").during("make terminals")?;
        fsconfig_set_string(&terminals, "mode", "0620").during("make terminals")?;
        fsconfig_create(&terminals).during("make terminals")?;
        let terminals = fsmount(
            &terminals,
            FsMountFlags::FSMOUNT_CLOEXEC,
            MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC,
        )
        .during("make terminals")?;
        attach(self.root.as_fd(), "dev/pts", &terminals)?;
        attach(self.root.as_fd(), "dev/shm", &shared)?;
        // Nothing else in it changes, also where its owner is the commands' user.
        sys::mount_setattr(tree.as_fd(), false, libc::MOUNT_ATTR_RDONLY, None)
            .during("close /dev")?;
        Ok(tree)
    }

    /// Makes a device node like another.
    fn node(&self, path: &str, like: &Path) -> Result<(), Errno> {
        let device = rustix::fs::stat(like)?.st_rdev;
        let all = Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(&self.root, path, FileType::CharacterDevice, all, device)?;
        rustix::fs::chmodat(&self.root, path, all, AtFlags::empty())?;
        // A file system of a container may hold nodes that do not open.
        openat(&self.root, path, OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())
            .map(drop)
            .or_else(|errno| match errno {
                // Nobody has a terminal here.
                Errno::NXIO => Ok(()),
                other => {
                    let _ = rustix::fs::unlinkat(&self.root, path, AtFlags::empty());
                    Err(other)
                }
            })
    }

    fn file(&self, path: &str) -> Result<(), Failure> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        openat(&self.root, path, flags, Mode::from_raw_mode(0o444))
            .map(drop)
            .step(|| format!("make /{path}"))
    }

    /// Mounts a host tree, making the place for it. No component may be a link: the workspace's
    /// content is not ours to trust.
    pub(super) fn attach_host(&self, target: &Path, tree: &OwnedFd) -> Result<(), Failure> {
        let step = || format!("make the mount point {}", target.display());
        let is_directory =
            fstat(tree).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir());
        let mut parts: Vec<_> = target
            .components()
            .filter_map(|part| match part {
                Component::Normal(name) => Some(name),
                _ => None,
            })
            .collect();
        let last = parts.pop().ok_or_else(|| Failure::new(step()))?;
        let into = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = rustix::io::fcntl_dupfd_cloexec(&self.root, 3).step(step)?;
        for part in parts {
            ignore_existing(mkdirat(&at, part, Mode::from_raw_mode(0o755))).step(step)?;
            at = openat(&at, part, into, Mode::empty()).step(step)?;
        }
        if is_directory {
            ignore_existing(mkdirat(&at, last, Mode::from_raw_mode(0o755))).step(step)?;
        } else {
            let create = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let made = openat(&at, last, create, Mode::from_raw_mode(0o444)).map(drop);
            ignore_existing(made).step(step)?;
        }
        move_mount(tree, "", &at, last, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
            .step(|| format!("mount at {}", target.display()))
    }

    /// Makes it the root of this process and lets go of the host's.
    fn become_root(&self, base: &Base) -> Result<(), Failure> {
        rustix::process::chdir(&base.mountpoint).during("enter the root")?;
        rustix::process::pivot_root(".", ".").during("change the root")?;
        unmount(".", UnmountFlags::DETACH).during("let go of the host's files")?;
        rustix::process::chdir("/").during("enter the root")?;
        sys::mount_setattr(self.root.as_fd(), false, READ_ONLY, None).during("seal the root")
    }
}

pub(super) fn attach(place: BorrowedFd<'_>, path: &str, tree: &OwnedFd) -> Result<(), Failure> {
    move_mount(tree, "", place, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .step(|| format!("mount at /{path}"))
}

/// The file system behind temporary places, attached so that it can be split on every kernel.
fn scratch(base: &Base) -> Result<OwnedFd, Failure> {
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let tree = tmpfs(ROOT_SIZE, "0755", flags)?;
    move_mount(&tree, "", CWD, &base.scratch, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
        .during("attach the scratch space")?;
    Ok(tree)
}

fn ignore_existing(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        // A read-only file system answers before it looks; opening tells whether it exists.
        Err(Errno::EXIST | Errno::ROFS) => Ok(()),
        other => other,
    }
}

fn give_away(base: &Base, root: BorrowedFd<'_>, path: &str) -> Result<(), Failure> {
    if base.privilege == Privilege::Rootless {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(confine::HOST_ID), Gid::from_raw(confine::HOST_ID));
    chownat(root, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
        .step(|| format!("give away /{path}"))
}

/// Acts with the identity of the layers' owner. The overlay goes on using it for its own files,
/// and through the shifted mounts no other identity exists, root's included.
fn as_owner<T>(base: &Base, act: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    if base.privilege == Privilege::Rootless {
        return act();
    }
    sys::file_identity(confine::HOST_ID, confine::HOST_ID);
    // That took root's rights over files away; the overlay needs them to copy files up.
    let raised = capabilities(None).and_then(|held| {
        set_capabilities(None, CapabilitySets { effective: held.permitted, ..held })
    });
    let outcome = raised.and_then(|()| act());
    sys::file_identity(0, 0);
    outcome
}

pub(super) fn tmpfs(size: &str, mode: &str, flags: MountAttrFlags) -> Result<OwnedFd, Failure> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).during("make a temporary place")?;
    fsconfig_set_string(&context, "size", size).during("limit a temporary place")?;
    fsconfig_set_string(&context, "mode", mode).during("limit a temporary place")?;
    fsconfig_create(&context).during("make a temporary place")?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags).during("make a temporary place")
}

/// Gives a temporary file system the size that an order allows.
fn resize(tree: &OwnedFd, bytes: u64) -> Result<(), Failure> {
    let flags = FsPickFlags::FSPICK_EMPTY_PATH | FsPickFlags::FSPICK_CLOEXEC;
    let context = fspick(tree, "", flags).during("limit a temporary place")?;
    fsconfig_set_string(&context, "size", bytes.to_string()).during("limit a temporary place")?;
    fsconfig_reconfigure(&context).during("limit a temporary place")
}
