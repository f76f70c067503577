//! The host's files through layers of the sandbox's own.
//!
//! A mount of a directory shares more than the files' content: locks, leases and watches belong to
//! a file, pipes and sockets are the same pipes and sockets, whether or not the mount may be
//! written. So a sandbox does not get the host's directories but an overlay of each without a place
//! for changes: the content is the host's, and everything else is the sandbox's own.

use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, fstat, mkdirat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_string,
    fsmount, fsopen, open_tree,
};

use super::rootfs::{READ_ONLY, ROOT_SIZE, attach, clone_of, place_of, set, tmpfs};
use crate::wire::{Context as _, Failure};

/// Something to mount, and where it belongs below the place that was asked for.
pub(super) type Trees = Vec<(PathBuf, OwnedFd)>;

/// Makes layers in this process's mount namespace.
pub(super) struct Layering {
    /// An overlay without a place for changes needs two layers; this one has nothing.
    empty: OwnedFd,
    mounts: Vec<PathBuf>,
    complete: bool,
    files: u32,
}

impl Layering {
    pub(super) fn new() -> Result<Self, Failure> {
        let flags = MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NODEV;
        let empty = tmpfs(ROOT_SIZE, "0555", flags)?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").during("list the mounts")?;
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        let mounts = points.map(|point| PathBuf::from(unescaped(point))).collect();
        Ok(Self { empty, mounts, complete: true, files: 0 })
    }

    /// Gives the layer of nothing a place in the scratch space, with which it ends.
    pub(super) fn settle(&self, scratch: &OwnedFd) -> Result<(), Failure> {
        mkdirat(scratch, "empty", Mode::from_raw_mode(0o700)).during("make a layer's place")?;
        attach(scratch.as_fd(), "empty", &self.empty)
    }

    /// Whether every directory so far got a layer of its own.
    pub(super) fn are_complete(&self) -> bool {
        self.complete
    }

    /// Something of the host to read, with all that is mounted below it. Files need a mounted
    /// `scratch` space. Where the kernel refuses a layer, the host's own is mounted.
    pub(super) fn read_only(&mut self, path: &Path, scratch: &OwnedFd) -> Result<Trees, Failure> {
        let place = place_of(path)?;
        let stat = fstat(&place).step(|| format!("mount {}", path.display()))?;
        if !FileType::from_raw_mode(stat.st_mode).is_dir() {
            let tree = match self.file(path, scratch) {
                Ok(tree) => tree,
                Err(_) => self.shared(path, &place)?,
            };
            return Ok(vec![(PathBuf::new(), tree)]);
        }
        self.directories(path, &[&place])
    }

    /// Directories of the host one over the other, the first on top, with all that is mounted
    /// below `path`, the last of them.
    pub(super) fn directories(
        &mut self,
        path: &Path,
        places: &[&OwnedFd],
    ) -> Result<Trees, Failure> {
        let made = self.overlay(places).and_then(|tree| {
            let mut trees = vec![(PathBuf::new(), tree)];
            for below in self.below(path) {
                let place = place_of(&path.join(&below)).map_err(|_| Errno::INVAL)?;
                // A file that is mounted alone is rare, and is mounted so here, too.
                if !FileType::from_raw_mode(fstat(&place)?.st_mode).is_dir() {
                    return Err(Errno::NOTDIR);
                }
                let tree = self.overlay(&[&place])?;
                trees.push((below, tree));
            }
            Ok(trees)
        });
        let trees = match (made, places) {
            (Ok(trees), _) => trees,
            (Err(_), [place]) => vec![(PathBuf::new(), self.shared(path, place)?)],
            (Err(errno), _) => return Err(errno).step(|| format!("mount {}", path.display())),
        };
        for (_, tree) in &trees {
            set(tree.as_fd(), READ_ONLY, None, path)?;
        }
        Ok(trees)
    }

    fn overlay(&self, places: &[&OwnedFd]) -> Result<OwnedFd, Errno> {
        // Descriptors, so that what was opened is what is mounted, and the list of mounts inside
        // shows no path of the host.
        let layers = places.iter().copied().chain([&self.empty]);
        let layers: Vec<String> =
            layers.map(|place| format!("/proc/self/fd/{}", place.as_raw_fd())).collect();
        let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_set_string(&context, "source", "host")?;
        fsconfig_set_string(&context, "lowerdir", layers.join(":"))?;
        for (option, value) in [("index", "off"), ("metacopy", "off"), ("redirect_dir", "nofollow")]
        {
            fsconfig_set_string(&context, option, value)?;
        }
        fsconfig_create(&context)?;
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_RDONLY)
    }

    /// A single file, out of a layer of its directory.
    fn file(&mut self, path: &Path, scratch: &OwnedFd) -> Result<OwnedFd, Errno> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::INVAL);
        };
        let parent = place_of(parent).map_err(|_| Errno::INVAL)?;
        let layer = self.overlay(&[&parent])?;
        // Only what is attached can be split on every kernel.
        let at = format!("file{}", self.files);
        self.files += 1;
        mkdirat(scratch, &at, Mode::from_raw_mode(0o700))?;
        attach(scratch.as_fd(), &at, &layer).map_err(|_| Errno::INVAL)?;
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
        let tree = open_tree(scratch, Path::new(&at).join(name), flags)?;
        set(tree.as_fd(), READ_ONLY, None, path).map_err(|_| Errno::INVAL)?;
        Ok(tree)
    }

    /// The host's own mounts, where no layer can be made.
    fn shared(&mut self, path: &Path, place: &OwnedFd) -> Result<OwnedFd, Failure> {
        self.complete = false;
        let tree = clone_of(place, OpenTreeFlags::AT_RECURSIVE);
        let tree = tree.step(|| format!("mount {}", path.display()))?;
        set(tree.as_fd(), READ_ONLY, None, path)?;
        Ok(tree)
    }

    /// What is mounted below a path, outer before inner.
    fn below(&self, path: &Path) -> Vec<PathBuf> {
        let below = self.mounts.iter().filter_map(|point| point.strip_prefix(path).ok());
        let mut below: Vec<PathBuf> =
            below.filter(|below| !below.as_os_str().is_empty()).map(Path::to_owned).collect();
        below.sort();
        below.dedup();
        below
    }
}

/// A path as the list of mounts writes it: blanks and backslashes by their octal number.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (written, meant)| text.replace(written, meant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_below_is_found_by_whole_names() {
        let empty: OwnedFd = fs::File::open("/dev/null").unwrap().into();
        let mounts = ["/", "/usr", "/usr/local", "/usr/local/a b", "/usr2", "/usr/local"];
        let mounts = mounts.map(PathBuf::from).into();
        let layers = Layering { empty, mounts, complete: true, files: 0 };
        let check = |path: &str, expected: &[&str]| {
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(layers.below(Path::new(path)), expected, "{path}");
        };
        check("/usr", &["local", "local/a b"]);
        check("/usr/local", &["a b"]);
        check("/usr2", &[]);
        check("/opt", &[]);
        assert_eq!(unescaped("/usr/a\\040b\\134c"), "/usr/a b\\c");
    }
}
