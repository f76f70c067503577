//! Access to a directory that others may be changing: nothing outside it is ever reached.
//!
//! Every path is resolved by the kernel beneath one opened directory with links refused
//! (`openat2`), so a directory swapped for a link between a check and a write makes the write fail
//! instead of escaping. There is no fallback: a kernel without `openat2` gets an error.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use glasshouse_model::{CanonicalPath, Digest};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RawMode, ResolveFlags, Stat, Uid};
use rustix::io::Errno;

use super::{Entry, MAX_FILE_BYTES, Owner, SpecialKind};
use crate::codes;
use crate::error::{Error, Result};

/// How often a lookup that raced with a rename elsewhere is repeated before it is an error.
const MAX_LOOKUP_RETRIES: usize = 128;

pub(crate) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// NONBLOCK: a pipe put in place between look and open must not hang the reader.
pub(crate) const READ: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// What is at a path of a [`Root`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Absent,
    /// A file, link or special file; a link is not followed.
    Entry(Entry),
    /// A directory.
    Directory,
    /// A component above it is a symbolic link.
    BehindLink,
    /// A component above it is a file.
    BehindFile,
}

/// An opened directory. Paths given to it cannot leave it.
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    name: String,
}

impl Root {
    /// Opens a directory; links in `path` itself are followed, it is the caller's own path.
    ///
    /// # Errors
    /// `workspace_io`.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| failed("cannot open the directory", &name, e))?;
        Ok(Self { fd, name })
    }

    /// Opens a directory of our own that a command may have made unreadable to its owner, who gets these
    /// rights back.
    ///
    /// # Errors
    /// `workspace_io`.
    pub(crate) fn reclaim(path: &Path, rights: RawMode) -> Result<Self> {
        let name = path.display().to_string();
        let fd = crate::tree::open(path, rights)
            .map_err(|e| failed("cannot open the directory", &name, e))?;
        Ok(Self { fd, name })
    }

    /// The directory's own descriptor.
    #[must_use]
    pub fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// Who owns the directory itself.
    ///
    /// # Errors
    /// `workspace_io`.
    pub fn owner(&self) -> Result<Owner> {
        let stat =
            rustix::fs::fstat(&self.fd).map_err(|e| failed("cannot look at", &self.name, e))?;
        Ok(Owner { uid: stat.st_uid, gid: stat.st_gid })
    }

    /// Opens the directory at `dir`; the raw error number tells absent from blocked.
    pub(crate) fn directory(&self, dir: &str) -> Result<OwnedFd, Errno> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..MAX_LOOKUP_RETRIES {
            // Without NOFOLLOW: it would answer ENOTDIR for a link, which then looks like a file.
            let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
            match rustix::fs::openat2(&self.fd, dir, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other,
            }
        }
        Err(Errno::AGAIN)
    }

    fn parent(&self, path: &CanonicalPath) -> Result<OwnedFd, Errno> {
        self.directory(path.parent().ok_or(Errno::INVAL)?.as_str())
    }

    /// The directory that holds `path`, opened, for acts on the last component.
    ///
    /// # Errors
    /// `path_outside_workspace` when a component is a link, `workspace_io` otherwise.
    pub fn holder(&self, path: &CanonicalPath) -> Result<OwnedFd> {
        self.parent(path).map_err(|e| self.error("cannot open the directory of", path, e))
    }

    /// As [`Root::holder`], after making the missing directories (mode 755, given `owner` if any).
    /// Answers also the directories it made, outermost first.
    ///
    /// # Errors
    /// As [`Root::holder`].
    pub fn make_holder(
        &self,
        path: &CanonicalPath,
        owner: Option<Owner>,
    ) -> Result<(OwnedFd, Vec<CanonicalPath>)> {
        let fail = |e| self.error("cannot make the directory of", path, e);
        let mut missing = Vec::new();
        let mut at = path.parent().ok_or_else(|| fail(Errno::INVAL))?;
        let mut fd = loop {
            match self.directory(at.as_str()) {
                Ok(fd) => break fd,
                Err(Errno::NOENT) => {
                    let parent = at.parent().ok_or_else(|| fail(Errno::NOENT))?;
                    missing.push(std::mem::replace(&mut at, parent));
                }
                Err(e) => return Err(fail(e)),
            }
        };
        missing.reverse();
        for dir in &missing {
            let name = dir.file_name().expect("the root is never missing");
            match rustix::fs::mkdirat(&fd, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(e) => return Err(fail(e)),
            }
            let child = rustix::fs::openat(&fd, name, DIRECTORY, Mode::empty()).map_err(fail)?;
            // The umask may have taken bits away.
            rustix::fs::fchmod(&child, Mode::from_raw_mode(0o755)).map_err(fail)?;
            give(&child, owner).map_err(fail)?;
            fd = child;
        }
        Ok((fd, missing))
    }

    /// What is at a path, with a file's content hashed.
    ///
    /// # Errors
    /// `workspace_io`, `workspace_too_large`, `path_unrepresentable` for a link text that is not UTF-8.
    pub fn find(&self, path: &CanonicalPath) -> Result<Found> {
        Ok(self.find_with_bytes(path)?.0)
    }

    /// As [`Root::find`], with the bytes when it is a regular file.
    ///
    /// # Errors
    /// As [`Root::find`].
    pub fn find_with_bytes(&self, path: &CanonicalPath) -> Result<(Found, Option<Vec<u8>>)> {
        let Some(name) = path.file_name() else { return Ok((Found::Directory, None)) };
        match self.parent(path) {
            Ok(holder) => self.find_in(&holder, name, path),
            Err(Errno::NOENT) => Ok((Found::Absent, None)),
            Err(Errno::LOOP | Errno::XDEV) => Ok((Found::BehindLink, None)),
            Err(Errno::NOTDIR) => Ok((Found::BehindFile, None)),
            Err(e) => Err(self.error("cannot look at", path, e)),
        }
    }

    /// The bytes of a regular file of at most `max_bytes`; none where there is nothing.
    ///
    /// # Errors
    /// `path_outside_workspace` when a component is a link, `workspace_too_large`, `workspace_io`, also for
    /// what is no regular file.
    pub fn read_small(&self, path: &CanonicalPath, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        let fail = |e| self.error("cannot read", path, e);
        let opened = self.parent(path).and_then(|holder| {
            let name = path.file_name().unwrap_or(".");
            rustix::fs::openat(&holder, name, READ, Mode::empty())
        });
        let fd = match opened {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened.map_err(fail)?,
        };
        let stat = rustix::fs::fstat(&fd).map_err(fail)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Error::new(codes::WORKSPACE_IO, format!("cannot read `{path}`"))
                .why("it is no regular file"));
        }
        let mut bytes = Vec::new();
        std::fs::File::from(fd)
            .take(max_bytes + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| io_failed("cannot read", &self.describe(path), &e))?;
        if bytes.len() as u64 > max_bytes {
            let bytes = u64::try_from(stat.st_size).unwrap_or(0).max(bytes.len() as u64);
            return Err(Error::new(codes::WORKSPACE_TOO_LARGE, format!("cannot read `{path}`"))
                .why(format!("it has {bytes} bytes; the limit is {max_bytes}")));
        }
        Ok(Some(bytes))
    }

    /// What `name` in the opened directory `holder` is; `path` is only for messages.
    ///
    /// # Errors
    /// As [`Root::find`].
    pub fn find_in(
        &self,
        holder: &OwnedFd,
        name: &str,
        path: &CanonicalPath,
    ) -> Result<(Found, Option<Vec<u8>>)> {
        let stat = match rustix::fs::statat(holder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok((Found::Absent, None)),
            Err(e) => return Err(self.error("cannot look at", path, e)),
        };
        let entry = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => return Ok((Found::Directory, None)),
            FileType::RegularFile => {
                let (entry, bytes) = self.read_file(holder, name, path)?;
                return Ok((Found::Entry(entry), Some(bytes)));
            }
            FileType::Symlink => Entry::Symlink { target: self.read_link(holder, name, path)? },
            other => Entry::Special { what: special(other) },
        };
        Ok((Found::Entry(entry), None))
    }

    pub(crate) fn read_link(
        &self,
        holder: impl AsFd,
        name: &str,
        path: &CanonicalPath,
    ) -> Result<String> {
        let target = rustix::fs::readlinkat(holder, name, Vec::new())
            .map_err(|e| self.error("cannot read the link", path, e))?;
        target.into_string().map_err(|_| {
            Error::new(codes::PATH_UNREPRESENTABLE, format!("cannot record the link `{path}`"))
                .why("the text of the link is not UTF-8")
        })
    }

    fn read_file(
        &self,
        holder: impl AsFd,
        name: &str,
        path: &CanonicalPath,
    ) -> Result<(Entry, Vec<u8>)> {
        let fd = rustix::fs::openat(holder, name, READ, Mode::empty())
            .map_err(|e| self.error("cannot read", path, e))?;
        let (entry, bytes, _) = self.read_opened(fd, path)?;
        Ok((entry, bytes))
    }

    /// Reads an opened regular file whole; the answered `stat` is from before the read.
    pub(crate) fn read_opened(
        &self,
        fd: OwnedFd,
        path: &CanonicalPath,
    ) -> Result<(Entry, Vec<u8>, Stat)> {
        let fail = |e| self.error("cannot read", path, e);
        let stat = rustix::fs::fstat(&fd).map_err(fail)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(fail(Errno::AGAIN));
        }
        let size_bytes = u64::try_from(stat.st_size).unwrap_or(0).min(MAX_FILE_BYTES);
        let mut bytes = Vec::with_capacity(usize::try_from(size_bytes).unwrap_or(0));
        std::fs::File::from(fd)
            .take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| io_failed("cannot read", &self.describe(path), &e))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(Error::new(codes::WORKSPACE_TOO_LARGE, format!("cannot take `{path}`"))
                .why(format!("a file may have at most {MAX_FILE_BYTES} bytes"))
                .with("path", path.as_str()));
        }
        let entry = Entry::File {
            executable: is_executable(&stat),
            digest: Digest::of(&bytes),
            size_bytes: bytes.len() as u64,
        };
        Ok((entry, bytes, stat))
    }

    /// Writes a new file or link as `name` in `holder`; `name` must not exist. `sync` makes a file's
    /// bytes durable before it returns.
    ///
    /// # Errors
    /// `workspace_io`.
    pub fn write_new(
        &self,
        holder: &OwnedFd,
        name: &str,
        entry: &Entry,
        bytes: &[u8],
        how: WriteHow,
    ) -> Result<()> {
        let fail = |e| failed("cannot write", &format!("{}/.../{name}", self.name), e);
        match entry {
            Entry::File { executable, .. } => {
                let flags = OFlags::WRONLY
                    | OFlags::CREATE
                    | OFlags::EXCL
                    | OFlags::NOFOLLOW
                    | OFlags::CLOEXEC;
                let usual = if *executable { 0o755 } else { 0o644 };
                let mode = Mode::from_raw_mode(how.file_mode.unwrap_or(usual));
                let fd = rustix::fs::openat(holder, name, flags, mode).map_err(fail)?;
                rustix::fs::fchmod(&fd, mode).map_err(fail)?;
                give(&fd, how.owner).map_err(fail)?;
                let mut file = std::fs::File::from(fd);
                file.write_all(bytes)
                    .and_then(|()| if how.sync { file.sync_all() } else { Ok(()) })
                    .map_err(|e| io_failed("cannot write", name, &e))
            }
            Entry::Symlink { target } => {
                rustix::fs::symlinkat(target.as_str(), holder, name).map_err(fail)?;
                give_at(holder, name, how.owner).map_err(fail)
            }
            Entry::Dir => {
                let mode = Mode::from_raw_mode(0o755);
                rustix::fs::mkdirat(holder, name, mode).map_err(fail)?;
                let fd =
                    rustix::fs::openat(holder, name, DIRECTORY, Mode::empty()).map_err(fail)?;
                rustix::fs::fchmod(&fd, mode).map_err(fail)?;
                give(&fd, how.owner).map_err(fail)
            }
            Entry::Special { .. } => Err(fail(Errno::INVAL)),
        }
    }

    /// An error about a path of this directory. A blocked lookup is an attempt to leave it.
    #[must_use]
    pub fn error(&self, what: &str, path: &CanonicalPath, errno: Errno) -> Error {
        if matches!(errno, Errno::LOOP | Errno::XDEV) {
            return Error::new(codes::PATH_OUTSIDE, format!("{what} `{path}`"))
                .why("a part of the path is a symbolic link")
                .with("path", path.as_str());
        }
        failed(what, &self.describe(path), errno)
    }

    fn describe(&self, path: &CanonicalPath) -> String {
        format!("{}/{path}", self.name)
    }
}

/// How [`Root::write_new`] writes.
#[derive(Debug, Clone, Copy, Default)]
pub struct WriteHow {
    /// Owner of what is written; the process's own when none.
    pub owner: Option<Owner>,
    /// Whether a file's bytes are made durable.
    pub sync: bool,
    /// Permission bits of a file; 755 or 644 when none.
    pub file_mode: Option<u32>,
}

/// Which special kind a file type that is neither file, directory nor link is.
pub(crate) fn special(kind: FileType) -> SpecialKind {
    match kind {
        FileType::Fifo => SpecialKind::Fifo,
        FileType::Socket => SpecialKind::Socket,
        _ => SpecialKind::Device,
    }
}

/// Whether the owner may execute it, the one bit of a mode that a tree records.
pub(crate) fn is_executable(stat: &Stat) -> bool {
    stat.st_mode & 0o100 != 0
}

fn give(fd: &OwnedFd, owner: Option<Owner>) -> Result<(), Errno> {
    let Some(owner) = owner else { return Ok(()) };
    rustix::fs::fchown(fd, Some(Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid)))
}

pub(crate) fn give_at(holder: &OwnedFd, name: &str, owner: Option<Owner>) -> Result<(), Errno> {
    let Some(owner) = owner else { return Ok(()) };
    let (uid, gid) = (Some(Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid)));
    rustix::fs::chownat(holder, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
}

pub(crate) fn failed(what: &str, path: &str, errno: Errno) -> Error {
    io_failed(what, path, &errno.into())
}

pub(crate) fn io_failed(what: &str, path: &str, error: &std::io::Error) -> Error {
    let failed = Error::new(codes::WORKSPACE_IO, format!("{what} `{path}`"));
    let failed = failed.why(error).with("path", path);
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => failed.fix(format!(
            "give yourself the rights to `{path}`, or work on a directory without it; what git ignores is not copied"
        )),
        _ => failed,
    }
}
