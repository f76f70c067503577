//! From a lexical path to an opened one.
//!
//! The common path has no link in it and costs one `openat2`. Where the kernel reports a link, the
//! path is walked component by component and the links are resolved by hand, to learn the real
//! path; that answer is only a proposal, and is opened again from the root with links forbidden.
//! Whatever moved in between makes that second opening fail, and the resolution starts over.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use glasshouse_model::CanonicalPath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{
    Intent, Kind, MAX_ATTEMPTS, MAX_LINKS, ResolvedPath, Target, View, is_a_directory,
    not_a_directory, not_found, special_file, strip_mount, unreadable,
};
use crate::codes;
use crate::error::{Error, Result};

/// Flags that open a regular file for reading and can neither block on a pipe nor adopt a terminal.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
/// Flags that open a directory so that it can be listed.
const LIST: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Why one attempt did not end in an answer.
enum Failed {
    /// Something moved; look again.
    Moved,
    /// This is the answer.
    Final(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

/// A path without links: the real one, split where the file system ends.
struct Real {
    /// The whole path, existing part and missing part.
    canonical: CanonicalPath,
    /// Its existing part.
    existing: CanonicalPath,
    /// Names behind the existing part; empty if everything is there.
    missing: Vec<String>,
}

pub(super) fn resolve(view: &View, path: &CanonicalPath, intent: Intent) -> Result<ResolvedPath> {
    for _ in 0..MAX_ATTEMPTS {
        let outcome = match intent {
            Intent::Create => place(view, path),
            Intent::Read | Intent::Directory | Intent::Any => target(view, path, intent),
        };
        match outcome {
            Ok(resolved) => return Ok(resolved),
            Err(Failed::Final(error)) => return Err(error),
            Err(Failed::Moved) => {}
        }
    }
    Err(Error::new(codes::PATH_CHANGED, format!("`{path}` keeps changing"))
        .why(format!("it was replaced during each of {MAX_ATTEMPTS} attempts to open it"))
        .with("path", path.as_str()))
}

/// Resolves a path that is to be looked at.
fn target(view: &View, path: &CanonicalPath, intent: Intent) -> Result<ResolvedPath, Failed> {
    if let Some(resolved) = open_real(view, path, intent)? {
        return Ok(resolved);
    }
    let real = follow(view, path)?;
    if !real.missing.is_empty() {
        return match intent {
            Intent::Any => Ok(ResolvedPath { canonical: real.canonical, target: Target::Absent }),
            _ => Err(missing(view, &real, path).into()),
        };
    }
    open_real(view, &real.canonical, intent)?.ok_or(Failed::Moved)
}

/// Opens a path that should hold no link; `None` if it holds one or is not there.
fn open_real(
    view: &View,
    path: &CanonicalPath,
    intent: Intent,
) -> Result<Option<ResolvedPath>, Failed> {
    let Some(found) = open_checked(view, path, OFlags::PATH)? else { return Ok(None) };
    let target = match (kind_of(&found, path)?, intent) {
        (Kind::Directory, Intent::Read) => return Err(is_a_directory(path).into()),
        (Kind::File, Intent::Directory) => return Err(not_a_directory(path).into()),
        (Kind::Directory, _) => {
            Target::Directory(open_checked(view, path, LIST)?.ok_or(Failed::Moved)?)
        }
        (Kind::File, _) => {
            let file = open_checked(view, path, READ)?.ok_or(Failed::Moved)?;
            if kind_of(&file, path)? != Kind::File {
                return Err(Failed::Moved);
            }
            Target::File(File::from(file))
        }
        (Kind::Link | Kind::Absent, _) => return Err(Failed::Moved),
        (Kind::Special, _) => return Err(special_file(path).into()),
    };
    Ok(Some(ResolvedPath { canonical: path.clone(), target }))
}

/// Resolves the place of a file that is to be created or replaced.
fn place(view: &View, path: &CanonicalPath) -> Result<ResolvedPath, Failed> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(is_a_directory(path).into());
    };
    let real = match open_checked(view, &parent, OFlags::PATH | OFlags::DIRECTORY)? {
        Some(_) => Real { canonical: parent.clone(), existing: parent, missing: Vec::new() },
        None => follow(view, &parent)?,
    };
    let directory = open_checked(view, &real.existing, OFlags::PATH)?.ok_or(Failed::Moved)?;
    if kind_of(&directory, &real.existing)? != Kind::Directory {
        return Err(not_a_directory(&real.existing).into());
    }
    let canonical = real.canonical.join(name).map_err(|error| {
        Error::new(codes::PATH_INVALID, "the real path is no usable path").why(error)
    })?;
    let existing = match real.missing.is_empty() {
        true => replaced(directory.as_fd(), name, &canonical)?,
        false => None,
    };
    Ok(ResolvedPath {
        canonical,
        target: Target::Place { directory, missing: real.missing, name: name.to_owned(), existing },
    })
}

/// Opens the file that would be replaced, if there is one.
fn replaced(
    directory: BorrowedFd<'_>,
    name: &str,
    path: &CanonicalPath,
) -> Result<Option<File>, Failed> {
    let found = match open_component(directory, name, OFlags::PATH) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(unreadable(path, errno).into()),
    };
    match kind_of(&found, path)? {
        Kind::File => {}
        Kind::Directory => return Err(is_a_directory(path).into()),
        Kind::Special => return Err(special_file(path).into()),
        Kind::Absent => return Err(Failed::Moved),
        Kind::Link => {
            let target = link_target(&found, path)?;
            return Err(Error::new(codes::LINK_REFUSED, format!("`{path}` is a symbolic link"))
                .why("a file written through a link lands where the link points")
                .with("path", path.as_str())
                .with("link_target", target)
                .into());
        }
    }
    let file = match open_component(directory, name, READ) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Err(Failed::Moved),
        Err(errno) => return Err(unreadable(path, errno).into()),
    };
    match kind_of(&file, path)? {
        Kind::File => Ok(Some(File::from(file))),
        _ => Err(Failed::Moved),
    }
}

/// Walks a path from the root, resolving links by hand, and tells the real path.
fn follow(view: &View, path: &CanonicalPath) -> Result<Real, Failed> {
    let mut links = 0;
    let mut pending: Vec<String> = reversed(path.as_str());
    let mut done: Vec<(String, OwnedFd)> = Vec::new();
    while let Some(part) = pending.pop() {
        if part == ".." {
            // Only a link's text can hold `..`; it climbs from where the link really is.
            done.pop().ok_or_else(|| outside(path))?;
            continue;
        }
        let base = done.last().map_or_else(|| view.root.as_fd(), |(_, fd)| fd.as_fd());
        let found = match open_component(base, &part, OFlags::PATH) {
            Ok(found) => found,
            Err(Errno::NOENT | Errno::NOTDIR) => return ended(&done, part, pending, path),
            Err(errno) => return Err(unreadable(path, errno).into()),
        };
        if kind_of(&found, path)? != Kind::Link {
            done.push((part, found));
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Error::new(codes::LINK_LOOP, format!("`{path}` has too many links"))
                .why(format!("more than {MAX_LINKS} were followed"))
                .with("path", path.as_str())
                .into());
        }
        let text = link_target(&found, path)?;
        if text.starts_with('/') {
            let inside = strip_mount(&text).ok_or_else(|| outside(path))?;
            done.clear();
            pending.extend(reversed(inside));
        } else {
            pending.extend(reversed(&text));
        }
    }
    let canonical = joined(&done, &[], path)?;
    Ok(Real { existing: canonical.clone(), canonical, missing: Vec::new() })
}

/// The answer of [`follow`] where nothing is at `part`, so what is behind it counts by its text.
fn ended(
    done: &[(String, OwnedFd)],
    part: String,
    mut pending: Vec<String>,
    path: &CanonicalPath,
) -> Result<Real, Failed> {
    pending.push(part);
    pending.reverse();
    if pending.iter().any(|part| part == "..") {
        // A link climbs out of a directory that is not there; the system would not find it either.
        return Err(not_found(path).into());
    }
    Ok(Real {
        canonical: joined(done, &pending, path)?,
        existing: joined(done, &[], path)?,
        missing: pending,
    })
}

/// Tells whether a missing path fails because its parent is a file.
fn missing(view: &View, real: &Real, asked: &CanonicalPath) -> Error {
    match view.open_beneath(real.existing.as_str(), OFlags::PATH).map(|fd| kind_of(&fd, asked)) {
        Ok(Ok(Kind::File | Kind::Special)) => not_a_directory(&real.existing),
        _ => not_found(&real.canonical),
    }
}

fn reversed(text: &str) -> Vec<String> {
    let parts = text.split('/').filter(|part| !part.is_empty() && *part != ".");
    parts.rev().map(str::to_owned).collect()
}

fn joined(
    done: &[(String, OwnedFd)],
    rest: &[String],
    asked: &CanonicalPath,
) -> Result<CanonicalPath> {
    let names: Vec<&str> =
        done.iter().map(|(name, _)| name.as_str()).chain(rest.iter().map(String::as_str)).collect();
    if names.is_empty() {
        return Ok(CanonicalPath::root());
    }
    CanonicalPath::parse(&names.join("/")).map_err(|error| {
        Error::new(codes::PATH_INVALID, "the real path is no usable path")
            .why(error)
            .with("path", asked.as_str())
    })
}

/// Opens a path from the root with links forbidden; `None` if a link is in it or nothing is there.
fn open_checked(
    view: &View,
    path: &CanonicalPath,
    flags: OFlags,
) -> Result<Option<OwnedFd>, Failed> {
    match view.open_beneath(path.as_str(), flags) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::LOOP | Errno::NOENT | Errno::NOTDIR) => Ok(None),
        // The system saw a rename on its way and could not vouch for the result; or a regular file
        // became a socket or a pipe between two calls.
        Err(Errno::AGAIN | Errno::NXIO) => Err(Failed::Moved),
        Err(errno) => Err(unreadable(path, errno).into()),
    }
}

/// Opens one name in a directory, a link as itself.
fn open_component(base: BorrowedFd<'_>, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat2(
        base,
        name,
        flags | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
    )
}

fn kind_of(fd: &OwnedFd, path: &CanonicalPath) -> Result<Kind> {
    let stat =
        rustix::fs::statat(fd, "", AtFlags::EMPTY_PATH).map_err(|errno| unreadable(path, errno))?;
    Ok(Kind::of(FileType::from_raw_mode(stat.st_mode)))
}

/// Reads the link that was opened, not the one that may stand there by now.
fn link_target(link: &OwnedFd, path: &CanonicalPath) -> Result<String> {
    let text =
        rustix::fs::readlinkat(link, "", Vec::new()).map_err(|errno| unreadable(path, errno))?;
    text.into_string().map_err(|_| {
        Error::new(codes::PATH_INVALID, format!("`{path}` goes through an unusable link"))
            .why("the link's text is not UTF-8")
            .with("path", path.as_str())
    })
}

fn outside(path: &CanonicalPath) -> Error {
    Error::new(codes::PATH_OUTSIDE, format!("`{path}` leads out of the workspace"))
        .why("a symbolic link on the way points outside")
        .with("path", path.as_str())
}
