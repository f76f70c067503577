//! Reading an overlay's upper directory: what it shows, hides and replaces of the base.
//!
//! The upper holds what changed, so a walk costs what the changes cost. A character device 0/0 hides
//! the base's entry of that name; a directory marked opaque hides what the base has below it. Which
//! attribute is such a mark depends on the mount ([`Marks`]): an agent can set `user` attributes in an
//! overlay that keeps its marks in `trusted`, and they mean nothing there. Moved directories and
//! metadata-only copies are mount options that are off here; their marks are refused, since a layer
//! that has them does not mean what this walk would say.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use glasshouse_model::{CanonicalPath, Digest};
use rustix::fs::{AtFlags, FileType, Mode, RawMode, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::beneath::{READ, Root, failed, io_failed, is_executable, special};
use super::freeze::{FrozenBase, canonical};
use super::{BlobStore, Entry, MAX_FILES, MAX_TOTAL_BYTES, Manifest, SealManifest};
use crate::codes;
use crate::error::{Error, Result};
use crate::tree::{Descent, names, open_child};

/// Rights of an owner that an agent may have taken away, of a directory and of a file.
pub(super) const TO_ENTER: RawMode = 0o500;
const TO_READ: RawMode = 0o400;
/// Rights of an owner that no state records, so that taking them away is no change that anybody decided: a seal gives
/// them back, and what a command made unreadable or unwritable is so for that command alone.
const OF_DIRECTORY: RawMode = 0o700;
const OF_FILE: RawMode = 0o600;
/// A file changed this shortly before it was read may change again within the same tick of the file
/// system's clock, so its digest is not remembered. Ticks are at most 10 ms.
const SETTLE_NS: i128 = 50_000_000;
/// Most remembered digests; beyond it the memory starts afresh.
const MAX_REMEMBERED: usize = MAX_FILES;

/// Where the overlay keeps its marks: decided by how the backend mounts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Marks {
    /// `trusted.overlay.*`: mounted by root in the first user namespace.
    Trusted,
    /// `user.overlay.*`: mounted with `userxattr`, as inside a user namespace. The overlay hides these
    /// from whoever works in it.
    User,
}

impl Marks {
    /// Mount options that make the layer mean what a seal reads from it.
    #[must_use]
    pub const fn mount_options(self) -> &'static str {
        match self {
            Self::Trusted => "redirect_dir=off,metacopy=off",
            // This mode allows no other redirection, and `off` is refused as a contradiction.
            Self::User => "userxattr,redirect_dir=nofollow,metacopy=off",
        }
    }

    const fn space(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::User => "user",
        }
    }
}

/// Digests of files that have not changed since they were read, by what `stat` says of them.
#[derive(Debug, Default)]
pub(super) struct Memory(HashMap<Identity, Remembered>);

#[derive(Debug, Clone, Copy)]
struct Remembered {
    digest: Digest,
    /// Whether the blob store has it; what equals the base is not stored.
    stored: bool,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Identity {
    inode: u64,
    size_bytes: i64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    #[allow(clippy::cast_possible_wrap, reason = "only compared for equality")]
    fn of(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino,
            size_bytes: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
        }
    }
}

/// Walks an upper directory and stores each changed file's content before it is named.
///
/// # Errors
/// `workspace_damaged` for marks that are not possible here, `workspace_too_large`,
/// `path_unrepresentable`, `workspace_io`, and what the blob store answers.
pub(super) fn scan(
    dir: &Path,
    marks: Marks,
    base: &FrozenBase,
    blobs: &dyn BlobStore,
    memory: &mut Memory,
) -> Result<Scanned> {
    if memory.0.len() > MAX_REMEMBERED {
        memory.0.clear();
    }
    let seen = rustix::fs::stat(dir)
        .map_err(|e| failed("cannot look at", &dir.display().to_string(), e))?;
    let root = &Root::reclaim(dir, TO_ENTER)?;
    let mut walk = Walk {
        root,
        marks,
        blobs,
        base: &base.manifest,
        memory,
        shown: BTreeMap::new(),
        hidden: BTreeSet::new(),
        dirs: Vec::new(),
        bytes: 0,
        gave_back: seen.st_mode & OF_DIRECTORY != OF_DIRECTORY,
    };
    let top = root
        .directory(".")
        .map_err(|e| root.error("cannot read the layer", &CanonicalPath::root(), e))?;
    walk.whole(top)?;
    let gave_back = walk.gave_back;
    Ok(Scanned { manifest: walk.finish(base.digest), gave_back })
}

/// What a layer shows.
pub(super) struct Scanned {
    pub(super) manifest: SealManifest,
    /// Whether an owner got rights back.
    pub(super) gave_back: bool,
}

struct Walk<'a> {
    root: &'a Root,
    marks: Marks,
    blobs: &'a dyn BlobStore,
    base: &'a Manifest,
    memory: &'a mut Memory,
    /// Files, links and special files of the upper.
    shown: BTreeMap<CanonicalPath, Entry>,
    /// Base paths that the upper hides; some may be shown again.
    hidden: BTreeSet<CanonicalPath>,
    /// Directories of the upper.
    dirs: Vec<CanonicalPath>,
    bytes: u64,
    gave_back: bool,
}

/// What is left to look at in a directory.
struct Listed {
    at: Option<CanonicalPath>,
    names: Vec<CString>,
}

impl Walk<'_> {
    /// Walks the layer. What lies deeper than canonical paths may be, or under a longer name, is refused
    /// by [`canonical`] before it is entered.
    fn whole(&mut self, top: OwnedFd) -> Result<()> {
        let root = CanonicalPath::root();
        let names = self.directory(&top, &root)?;
        let mut way = Descent::new(top, TO_ENTER, Listed { at: None, names })
            .map_err(|e| self.root.error("cannot read", &root, e))?;
        while let Some((here, listed)) = way.here() {
            let Some(name) = listed.names.pop() else {
                let inside = way.depth() > 0;
                if way.leave().is_some_and(|left| inside && !left.in_holder) {
                    return Err(damaged(&root, "it changed while it was read"));
                }
                continue;
            };
            let path = canonical(listed.at.as_ref(), name.to_bytes())?;
            if self.child(here, &path)? {
                let listed = Listed { at: Some(path.clone()), names: Vec::new() };
                way.enter(&name, listed).map_err(|e| self.root.error("cannot read", &path, e))?;
                if let Some((here, listed)) = way.here() {
                    listed.names = self.directory(here, &path)?;
                }
                self.dirs.push(path);
            }
        }
        Ok(())
    }

    /// What a directory's marks say, and the names in it.
    fn directory(&mut self, fd: &OwnedFd, here: &CanonicalPath) -> Result<Vec<CString>> {
        let fail = |e| self.root.error("cannot read", here, e);
        give_back(fd, OF_DIRECTORY).map_err(fail)?;
        if mark(fd, self.marks, "redirect").map_err(fail)?.is_some() {
            return Err(damaged(here, "the directory was moved inside the layer"));
        }
        // Value `x` says that the directory may hold whiteouts made of attributes, which only
        // layer-building tools write.
        match mark(fd, self.marks, "opaque").map_err(fail)?.as_deref() {
            None => {}
            Some(b"y") => self.hide_below(here),
            Some(_) => return Err(damaged(here, "an opaque mark of an unknown kind")),
        }
        let names =
            names(fd, MAX_FILES + 1).map_err(|e| self.root.error("cannot read", here, e))?;
        if names.len() > MAX_FILES {
            return Err(too_large(format!("more than {MAX_FILES} changed files")));
        }
        Ok(names)
    }

    /// Takes one entry. True for a directory that is to be entered.
    fn child(&mut self, holder: &OwnedFd, path: &CanonicalPath) -> Result<bool> {
        let name = path.file_name().expect("a child has a name");
        let fail = |e| self.root.error("cannot read", path, e);
        let stat = rustix::fs::statat(holder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(fail)?;
        let entry = match FileType::from_raw_mode(stat.st_mode) {
            FileType::CharacterDevice if stat.st_rdev == 0 => {
                self.hide(path);
                return Ok(false);
            }
            FileType::Directory => {
                // Seen before it is entered, which gives an ordinary owner some back already.
                self.gave_back |= stat.st_mode & OF_DIRECTORY != OF_DIRECTORY;
                if let Some(entry) = self.base.get(path.as_str())
                    && *entry != Entry::Dir
                {
                    self.hidden.insert(path.clone());
                }
                return Ok(true);
            }
            FileType::RegularFile => self.file(holder, name, path, &stat)?,
            FileType::Symlink => {
                Entry::Symlink { target: self.root.read_link(holder, name, path)? }
            }
            other => Entry::Special { what: special(other) },
        };
        self.hide(path);
        self.shown.insert(path.clone(), entry);
        if self.shown.len() > MAX_FILES {
            return Err(too_large(format!("more than {MAX_FILES} changed files")));
        }
        Ok(false)
    }

    fn file(
        &mut self,
        holder: &OwnedFd,
        name: &str,
        path: &CanonicalPath,
        stat: &Stat,
    ) -> Result<Entry> {
        let size_bytes = u64::try_from(stat.st_size).unwrap_or(0);
        self.bytes = self.bytes.saturating_add(size_bytes);
        if self.bytes > MAX_TOTAL_BYTES {
            return Err(too_large(format!("more than {MAX_TOTAL_BYTES} changed bytes")));
        }
        let in_base = self.base.get(path.as_str());
        if let Some(known) = self.memory.0.get(&Identity::of(stat)) {
            let executable = is_executable(stat);
            let entry = Entry::File { executable, digest: known.digest, size_bytes };
            if known.stored || in_base == Some(&entry) {
                return Ok(entry);
            }
        }
        let fail = |e| self.root.error("cannot read", path, e);
        let started_ns = now_ns();
        let file = CString::new(name).map_err(|_| fail(Errno::INVAL))?;
        let fd = open_child(holder, &file, READ, TO_READ).map_err(fail)?;
        self.gave_back |= stat.st_mode & OF_FILE != OF_FILE;
        give_back(&fd, OF_FILE).map_err(fail)?;
        if mark(&fd, self.marks, "metacopy").map_err(fail)?.is_some() {
            return Err(damaged(path, "the layer holds only the file's metadata"));
        }
        let watched = fd.try_clone().map_err(|e| io_failed("cannot read", path.as_str(), &e))?;
        let (entry, bytes, before) = self.root.read_opened(fd, path)?;
        let Entry::File { digest, .. } = entry else { return Ok(entry) };
        let stored = in_base != Some(&entry);
        if stored && self.blobs.put(&bytes)? != digest {
            return Err(damaged(path, "the blob store answered another digest"));
        }
        let after = rustix::fs::fstat(&watched).map_err(fail)?;
        let changed_ns =
            i128::from(after.st_ctime) * 1_000_000_000 + i128::from(after.st_ctime_nsec);
        let identity = Identity::of(&after);
        if identity == Identity::of(&before) && changed_ns + SETTLE_NS < started_ns {
            self.memory.0.insert(identity, Remembered { digest, stored });
        }
        Ok(entry)
    }

    /// The base's entry at `path`, and all below it, is not seen through the upper.
    fn hide(&mut self, path: &CanonicalPath) {
        if self.base.get(path.as_str()).is_some() {
            self.hidden.insert(path.clone());
        }
        self.hide_below(path);
    }

    fn hide_below(&mut self, path: &CanonicalPath) {
        self.hidden.extend(self.base.below(path).map(|(path, _)| path.clone()));
    }

    fn finish(self, base_digest: Digest) -> SealManifest {
        let mut seal = SealManifest::unchanged(base_digest);
        seal.removed = self.hidden;
        for (path, entry) in self.shown {
            seal.removed.remove(&path);
            if self.base.get(path.as_str()) != Some(&entry) {
                seal.entries.insert(path, entry);
            }
        }
        // Deepest first: a directory that only holds an empty directory is implied by it.
        let mut dirs = self.dirs;
        dirs.sort_by(|a, b| b.cmp(a));
        for dir in dirs {
            if self.base.get(dir.as_str()) == Some(&Entry::Dir) {
                seal.removed.remove(&dir);
            } else if !seal.occupies(self.base, &dir) {
                seal.removed.remove(&dir);
                seal.entries.insert(dir, Entry::Dir);
            }
        }
        seal
    }
}

/// Gives an owner rights back, through a descriptor, so that nothing swapped in by name is changed.
fn give_back(fd: &OwnedFd, rights: RawMode) -> Result<(), Errno> {
    let mode = rustix::fs::fstat(fd)?.st_mode;
    if mode & rights == rights {
        return Ok(());
    }
    rustix::fs::fchmod(fd, Mode::from_raw_mode((mode & 0o7777) | rights))
}

/// An overlay attribute; a value longer than any we know is answered empty.
fn mark(fd: &OwnedFd, marks: Marks, name: &str) -> Result<Option<Vec<u8>>, Errno> {
    let mut value = [0_u8; 64];
    match rustix::fs::fgetxattr(fd, format!("{}.overlay.{name}", marks.space()), &mut value) {
        Ok(length) => Ok(Some(value[..length.min(value.len())].to_vec())),
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(Errno::RANGE) => Ok(Some(Vec::new())),
        Err(e) => Err(e),
    }
}

fn now_ns() -> i128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i128::try_from(now.as_nanos()).unwrap_or(i128::MAX)
}

fn too_large(why: String) -> Error {
    Error::new(codes::WORKSPACE_TOO_LARGE, "cannot seal the workspace").why(why)
}

fn damaged(path: &CanonicalPath, why: &str) -> Error {
    Error::new(codes::WORKSPACE_DAMAGED, format!("cannot seal `{path}`"))
        .why(why)
        .with("path", path.as_str())
}
