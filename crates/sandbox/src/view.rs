//! Read-only access to a workspace, from inside the kernel process, through one root descriptor.
//!
//! A [`View`] sees exactly what a sandbox sees, because the descriptor is the merged root that the
//! sandbox handed over. Everything below it was written by an agent and is hostile: links may point
//! anywhere, directories may be swapped for links between two system calls, a name may be a pipe
//! that blocks its reader for ever.
//!
//! Two rules make that safe. First, text becomes a path once, in [`View::resolve`], and the answer
//! is a [`ResolvedPath`]: the path that policy decides on and the descriptor that the act goes
//! through, made in one step that the kernel's `openat2` checks and never separable afterwards.
//! Second, the path that policy sees is the real one: links inside the workspace are followed
//! *before* the decision, so a rule about `secrets/**` cannot be walked around by a link to it.
//!
//! Hard links are not a way out: making one needs the file to be visible to its maker, and all
//! that a sandbox sees is its workspace. A hard link is an ordinary file and is treated as one.

mod resolve;
mod walk;

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use glasshouse_model::CanonicalPath;
use rustix::fs::{FileType, OFlags, ResolveFlags};

use crate::codes;
use crate::error::{Error, Result};

pub use walk::{
    Entry, Listing, MAX_DIRECTORY_ENTRIES, MAX_WALK_DEPTH, MAX_WALK_ENTRIES, WalkSummary,
};

/// Where a sandbox sees its workspace. Models write this prefix, and links made inside a sandbox
/// hold it, so it means the root of the view in both places.
pub const WORKSPACE_MOUNT: &str = "/workspace";

/// Most links followed for one path; the number that Linux itself uses.
pub const MAX_LINKS: usize = 40;

/// How often a path that changes under the resolver is tried before giving up. A racing writer
/// wins each round with a probability near one half, so sixteen rounds lose an honest path rarely.
pub const MAX_ATTEMPTS: usize = 16;

/// What a path is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Read a regular file that is there.
    Read,
    /// Create or replace a regular file; its directories may be missing, a link may not stand in
    /// its place.
    Create,
    /// Read a directory that is there.
    Directory,
    /// Whatever is there, or nothing.
    Any,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link; only a walk shows one, resolving follows it.
    Link,
    /// A pipe, a socket or a device.
    Special,
    /// Nothing.
    Absent,
}

impl Kind {
    fn of(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Link,
            _ => Self::Special,
        }
    }
}

/// A workspace as one root descriptor.
///
/// ```
/// use glasshouse_sandbox::view::{Intent, View};
///
/// let dir = tempfile::tempdir().unwrap();
/// std::fs::write(dir.path().join("a.txt"), "hello").unwrap();
/// let view = View::new(std::fs::File::open(dir.path()).unwrap().into()).unwrap();
///
/// let path = view.resolve("/workspace/./a.txt", Intent::Read).unwrap();
/// assert_eq!(path.canonical().as_str(), "a.txt");
/// assert_eq!(path.read(100).unwrap().bytes, b"hello");
/// assert_eq!(view.resolve("../x", Intent::Any).unwrap_err().code(), "path_outside_workspace");
/// ```
#[derive(Debug)]
pub struct View {
    root: OwnedFd,
}

impl View {
    /// Wraps the descriptor of a workspace's root directory.
    ///
    /// # Errors
    /// `not_a_directory` if it is something else; `isolation_unavailable` if the system has no
    /// `openat2` (before Linux 5.6), because nothing weaker is safe.
    pub fn new(root: OwnedFd) -> Result<Self> {
        let stat = rustix::fs::fstat(&root).map_err(|errno| unreadable(".", errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            return Err(Error::new(codes::NOT_A_DIRECTORY, "the workspace root is no directory"));
        }
        let view = Self { root };
        view.open_beneath(".", OFlags::PATH).map_err(|errno| {
            Error::new(codes::ISOLATION_UNAVAILABLE, "the workspace cannot be opened safely")
                .why(format!("openat2 answered: {errno}"))
                .fix("run on Linux 5.6 or later, without a filter that blocks openat2")
        })?;
        Ok(view)
    }

    /// Turns a text into a path inside the workspace and opens what it names.
    ///
    /// The text is canonicalised first (a leading `/workspace` means the root), then links are
    /// followed inside the workspace, then the real path is opened with all links forbidden. The
    /// answer's [`canonical`](ResolvedPath::canonical) is that real path.
    ///
    /// # Errors
    /// `path_invalid`, `path_outside_workspace`, `path_not_found` (never for [`Intent::Any`] and
    /// [`Intent::Create`]), `not_a_directory`, `is_a_directory`, `special_file`, `link_refused`,
    /// `link_loop`, `path_changed`, `workspace_unreadable`.
    pub fn resolve(&self, text: &str, intent: Intent) -> Result<ResolvedPath> {
        resolve::resolve(self, &lexical(text)?, intent)
    }

    /// Visits everything below a directory in sorted order, parents before children, links shown
    /// but never followed, `.git` left out; `visit` answers `false` to stop.
    ///
    /// # Errors
    /// `not_a_directory` unless `from` is a directory; `workspace_unreadable` if `from` itself
    /// cannot be read (an unreadable directory further down is counted in the summary).
    pub fn walk(
        &self,
        from: &ResolvedPath,
        visit: &mut dyn FnMut(&Entry<'_>) -> bool,
    ) -> Result<WalkSummary> {
        walk::walk(from, MAX_WALK_DEPTH, visit)
    }

    /// The entries of a directory, or of everything below it, sorted, at most `limit` of them.
    ///
    /// # Errors
    /// As [`View::walk`].
    pub fn list(&self, of: &ResolvedPath, recursive: bool, limit: usize) -> Result<Listing> {
        walk::list(of, if recursive { MAX_WALK_DEPTH } else { 1 }, limit)
    }

    /// Opens a link-free path beneath the root; the one call that everything else rests on.
    fn open_beneath(&self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        rustix::fs::openat2(
            &self.root,
            path,
            flags | OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS,
        )
    }
}

/// A path inside a workspace together with what was opened there.
///
/// Only [`View::resolve`] makes one, so the path that was decided on and the file that is acted on
/// cannot come apart: whoever swaps the name afterwards changes a name nobody looks at any more.
#[derive(Debug)]
pub struct ResolvedPath {
    canonical: CanonicalPath,
    target: Target,
}

#[derive(Debug)]
enum Target {
    File(File),
    Directory(OwnedFd),
    Place { directory: OwnedFd, missing: Vec<String>, name: String, existing: Option<File> },
    Absent,
}

/// The bytes of a file, as far as they were wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileBytes {
    /// From the file's start, at most as many as asked for.
    pub bytes: Vec<u8>,
    /// Size of the whole file when it was read.
    pub total_bytes: u64,
}

impl FileBytes {
    /// Whether the file goes on behind these bytes.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.total_bytes > self.bytes.len() as u64
    }
}

impl ResolvedPath {
    /// The real path, all links followed: what policy decides on.
    #[must_use]
    pub fn canonical(&self) -> &CanonicalPath {
        &self.canonical
    }

    /// What is there.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match &self.target {
            Target::File(_) | Target::Place { existing: Some(_), .. } => Kind::File,
            Target::Directory(_) => Kind::Directory,
            Target::Place { existing: None, .. } | Target::Absent => Kind::Absent,
        }
    }

    /// Whether anything is there.
    #[must_use]
    pub fn exists(&self) -> bool {
        self.kind() != Kind::Absent
    }

    /// The opened file or directory; `None` where nothing is.
    #[must_use]
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.target {
            Target::File(file) | Target::Place { existing: Some(file), .. } => Some(file.as_fd()),
            Target::Directory(fd) => Some(fd.as_fd()),
            Target::Place { existing: None, .. } | Target::Absent => None,
        }
    }

    /// For [`Intent::Create`]: the deepest directory that is there, the directories to make below
    /// it, and the file's name. `None` for other intents.
    #[must_use]
    pub fn place(&self) -> Option<Place<'_>> {
        match &self.target {
            Target::Place { directory, missing, name, .. } => {
                Some(Place { directory: directory.as_fd(), missing_parents: missing, name })
            }
            _ => None,
        }
    }

    /// Reads the file from its start, at most `max_bytes`; may be repeated.
    ///
    /// # Errors
    /// `path_not_found` or `is_a_directory` if no file is there, `workspace_unreadable` if the
    /// system refuses.
    pub fn read(&self, max_bytes: usize) -> Result<FileBytes> {
        match &self.target {
            Target::File(file) | Target::Place { existing: Some(file), .. } => {
                read_file(file, max_bytes).map_err(|error| unreadable(&self.canonical, error))
            }
            Target::Directory(_) => Err(is_a_directory(&self.canonical)),
            Target::Place { existing: None, .. } | Target::Absent => {
                Err(not_found(&self.canonical))
            }
        }
    }
}

/// Where a file is to be created; see [`ResolvedPath::place`].
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Deepest directory of the path that is there.
    pub directory: BorrowedFd<'a>,
    /// Names of the directories to make below it, outermost first.
    pub missing_parents: &'a [String],
    /// Name of the file in the last of them.
    pub name: &'a str,
}

/// The lexical half: which workspace path a text means.
fn lexical(text: &str) -> Result<CanonicalPath> {
    use glasshouse_model::path::PathError;

    let relative = strip_mount(text).unwrap_or(text);
    CanonicalPath::parse(relative).map_err(|error| {
        let (code, what) = match error {
            PathError::Absolute | PathError::Outside => {
                (codes::PATH_OUTSIDE, "the path is not inside the workspace")
            }
            PathError::Empty | PathError::Control | PathError::TooLong => {
                (codes::PATH_INVALID, "the text is no usable path")
            }
        };
        Error::new(code, what).why(error).with("path", text)
    })
}

/// The part of an absolute path below the workspace's mount point; `.` for the mount point itself.
fn strip_mount(text: &str) -> Option<&str> {
    match text.strip_prefix(WORKSPACE_MOUNT)? {
        "" => Some("."),
        rest => rest.strip_prefix('/').map(|rest| match rest.trim_start_matches('/') {
            "" => ".",
            rest => rest,
        }),
    }
}

fn read_file(file: &File, max_bytes: usize) -> std::io::Result<FileBytes> {
    let total_bytes = file.metadata()?.len();
    let wanted = usize::try_from(total_bytes).unwrap_or(usize::MAX).min(max_bytes);
    let mut bytes = vec![0; wanted];
    let mut filled = 0;
    while filled < wanted {
        match file.read_at(&mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    // A file that shrank while it was read ends where its bytes ended.
    let total_bytes = if filled < wanted { filled as u64 } else { total_bytes };
    Ok(FileBytes { bytes, total_bytes })
}

fn not_found(path: impl ToString) -> Error {
    let path = path.to_string();
    Error::new(codes::PATH_NOT_FOUND, format!("nothing is at `{path}`")).with("path", path)
}

fn is_a_directory(path: impl ToString) -> Error {
    let path = path.to_string();
    Error::new(codes::IS_A_DIRECTORY, format!("`{path}` is a directory")).with("path", path)
}

fn not_a_directory(path: impl ToString) -> Error {
    let path = path.to_string();
    Error::new(codes::NOT_A_DIRECTORY, format!("`{path}` is no directory")).with("path", path)
}

fn special_file(path: impl ToString) -> Error {
    let path = path.to_string();
    Error::new(codes::SPECIAL_FILE, format!("`{path}` is a pipe, a socket or a device"))
        .why("opening it could block or reach outside the workspace")
        .with("path", path)
}

fn unreadable(path: impl ToString, error: impl Into<std::io::Error>) -> Error {
    let path = path.to_string();
    Error::new(codes::WORKSPACE_UNREADABLE, format!("`{path}` cannot be read"))
        .why(error.into())
        .with("path", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_workspace_paths() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let path = lexical(text);
            let seen = path.as_ref().map(CanonicalPath::as_str).map_err(Error::code);
            assert_eq!(seen, expected, "{text:?}");
        };
        check("a", Ok("a"));
        check("/workspace", Ok("."));
        check("/workspace/", Ok("."));
        check("/workspace//a/./b", Ok("a/b"));
        check("/workspace/../etc/passwd", Err("path_outside_workspace"));
        check("/workspaces/a", Err("path_outside_workspace"));
        check("/etc/passwd", Err("path_outside_workspace"));
        check("//workspace/a", Err("path_outside_workspace"));
        check("../a", Err("path_outside_workspace"));
        check("a/../../b", Err("path_outside_workspace"));
        check("", Err("path_invalid"));
        check("a\0b", Err("path_invalid"));
        check("a\u{1b}[31m", Err("path_invalid"));
    }
}
