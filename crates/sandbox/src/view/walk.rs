//! Bounded, deterministic walks that never follow a link.
//!
//! A directory is opened by one name relative to its parent's descriptor, so a walk cannot leave
//! the tree it started in, whatever is renamed under it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use glasshouse_model::CanonicalPath;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use super::{
    FileBytes, Kind, ResolvedPath, Target, is_a_directory, not_a_directory, read_file,
    special_file, unreadable,
};
use crate::error::Result;

/// Deepest level below the start; each level holds one descriptor open.
pub const MAX_WALK_DEPTH: usize = 64;
/// Most entries one walk visits: a large monorepo fits, a bomb of tiny files does not.
pub const MAX_WALK_ENTRIES: usize = 200_000;
/// Most entries of one directory. A larger one is left out as a whole and counted, because a part
/// of it would depend on the order in which the file system happens to list it.
pub const MAX_DIRECTORY_ENTRIES: usize = 50_000;

/// The directory that version control keeps for itself: large, not the user's text, and never part
/// of a change set.
const VERSION_CONTROL: &str = ".git";

/// One entry that a walk visits.
#[derive(Debug)]
pub struct Entry<'a> {
    path: CanonicalPath,
    kind: Kind,
    directory: BorrowedFd<'a>,
}

impl Entry<'_> {
    /// Its path from the workspace root.
    #[must_use]
    pub fn path(&self) -> &CanonicalPath {
        &self.path
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Reads a regular file from its start, at most `max_bytes`.
    ///
    /// # Errors
    /// `special_file` or `is_a_directory` if it is no regular file (any more),
    /// `workspace_unreadable` if the system refuses.
    pub fn read(&self, max_bytes: usize) -> Result<FileBytes> {
        match self.kind {
            Kind::File => {}
            Kind::Directory => return Err(is_a_directory(&self.path)),
            Kind::Link | Kind::Special | Kind::Absent => return Err(special_file(&self.path)),
        }
        let name = self.path.file_name().unwrap_or(".");
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let fd = open_at(self.directory, name, flags).map_err(|e| unreadable(&self.path, e))?;
        let file = File::from(fd);
        let metadata = file.metadata().map_err(|error| unreadable(&self.path, error))?;
        if !metadata.is_file() {
            return Err(special_file(&self.path));
        }
        read_file(&file, max_bytes).map_err(|error| unreadable(&self.path, error))
    }
}

/// What a walk could not show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WalkSummary {
    /// The walk ended at [`MAX_WALK_ENTRIES`].
    pub truncated: bool,
    /// Directories left out: too deep, too many entries, unreadable, or gone meanwhile.
    pub skipped_directories: usize,
    /// Names that are not UTF-8 or hold control characters; no path can name them.
    pub unnameable: usize,
}

/// The entries of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Paths from the workspace root and what they are, sorted by component.
    pub entries: Vec<(CanonicalPath, Kind)>,
    /// There were more than the limit.
    pub truncated: bool,
    /// What the walk could not show.
    pub summary: WalkSummary,
}

pub(super) fn list(of: &ResolvedPath, depth: usize, limit: usize) -> Result<Listing> {
    let mut entries = Vec::new();
    let mut more = false;
    let summary = walk(of, depth, &mut |entry| {
        more = entries.len() == limit;
        if !more {
            entries.push((entry.path.clone(), entry.kind));
        }
        !more
    })?;
    Ok(Listing { entries, truncated: more || summary.truncated, summary })
}

/// One directory on the way down: its descriptor and the names still to visit, last first.
struct Level {
    fd: OwnedFd,
    path: CanonicalPath,
    names: Vec<(String, Kind)>,
}

pub(super) fn walk(
    from: &ResolvedPath,
    depth: usize,
    visit: &mut dyn FnMut(&Entry<'_>) -> bool,
) -> Result<WalkSummary> {
    let Target::Directory(start) = &from.target else {
        return Err(not_a_directory(&from.canonical));
    };
    let mut summary = WalkSummary::default();
    let opened = open_directory(start.as_fd(), ".")
        .and_then(|fd| names_of(&fd, &mut summary).map(|names| (fd, names)))
        .map_err(|errno| unreadable(&from.canonical, errno))?;
    let Some(names) = opened.1 else {
        summary.skipped_directories += 1;
        return Ok(summary);
    };
    let mut levels = vec![Level { fd: opened.0, path: from.canonical.clone(), names }];
    let mut visited = 0;
    while let Some(level) = levels.last_mut() {
        let Some((name, kind)) = level.names.pop() else {
            levels.pop();
            continue;
        };
        if visited == MAX_WALK_ENTRIES {
            summary.truncated = true;
            break;
        }
        visited += 1;
        let Ok(path) = level.path.join(&name) else {
            summary.unnameable += 1;
            continue;
        };
        let entry = Entry { path, kind, directory: level.fd.as_fd() };
        if !visit(&entry) {
            break;
        }
        if kind != Kind::Directory || depth == 1 {
            continue;
        }
        let path = entry.path;
        let below = if levels.len() < depth { descend(&levels, &name, &mut summary) } else { None };
        match below {
            Some((fd, names)) => levels.push(Level { fd, path, names }),
            None => summary.skipped_directories += 1,
        }
    }
    Ok(summary)
}

fn descend(
    levels: &[Level],
    name: &str,
    summary: &mut WalkSummary,
) -> Option<(OwnedFd, Vec<(String, Kind)>)> {
    let fd = open_directory(levels.last()?.fd.as_fd(), name).ok()?;
    let names = names_of(&fd, summary).ok()??;
    Some((fd, names))
}

/// The names of a directory in reverse byte order; `None` if there are too many.
fn names_of(
    fd: &OwnedFd,
    summary: &mut WalkSummary,
) -> rustix::io::Result<Option<Vec<(String, Kind)>>> {
    let mut names = Vec::new();
    let mut seen = 0;
    for entry in Dir::read_from(fd)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else {
            summary.unnameable += 1;
            continue;
        };
        if matches!(name, "." | ".." | VERSION_CONTROL) {
            continue;
        }
        seen += 1;
        if seen > MAX_DIRECTORY_ENTRIES {
            return Ok(None);
        }
        if name.chars().any(char::is_control) {
            summary.unnameable += 1;
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => Kind::of(FileType::from_raw_mode(stat.st_mode)),
                Err(_) => continue,
            },
            known => Kind::of(known),
        };
        names.push((name.to_owned(), kind));
    }
    names.sort_unstable_by(|a, b| b.0.cmp(&a.0));
    Ok(Some(names))
}

fn open_directory(base: BorrowedFd<'_>, name: &str) -> rustix::io::Result<OwnedFd> {
    open_at(base, name, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Opens one name without following it; a name holds no `/`, so nothing outside can be reached.
fn open_at(base: BorrowedFd<'_>, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(base, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}
