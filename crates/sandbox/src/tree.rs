//! Walking and removing directory trees that commands made, whatever is in them.
//!
//! A command can nest directories until no path names the innermost, fill one with any number of
//! entries, take its own rights away, and use names that are no text. So nothing here makes a path:
//! each directory is opened by one name relative to the one above it, without following a link. The
//! number of open descriptors does not grow with the depth, and nothing recurses.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode};
use rustix::io::Errno;

/// Descriptors of one descent: far below the usual limit of 1024 of a process, and more than most
/// trees are deep.
const MAX_OPEN: usize = 32;
/// Most names that are held of one directory while it is emptied.
const BATCH: usize = 4096;
/// Bytes in a unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The way from a directory down to where a walk is, with what the walk keeps of each level.
///
/// Only the lowest levels are open. The way up is `..`, taken only when it is the directory that the
/// walk came from: somebody may move directories meanwhile.
#[derive(Debug)]
pub(crate) struct Descent<T> {
    levels: Vec<Level<T>>,
    /// What its owner must be permitted in a directory; given where it was taken away.
    rights: RawMode,
}

#[derive(Debug)]
struct Level<T> {
    name: CString,
    identity: (u64, u64),
    fd: Option<OwnedFd>,
    kept: T,
}

/// A level that a walk came back from.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) name: CString,
    /// Whether the walk is now in the directory that held it: not when it was the first, and not when
    /// it was moved meanwhile.
    pub(crate) in_holder: bool,
}

impl<T> Descent<T> {
    /// Starts in an opened directory.
    pub(crate) fn new(start: OwnedFd, rights: RawMode, kept: T) -> Result<Self, Errno> {
        let identity = identity(&start)?;
        let level = Level { name: CString::default(), identity, fd: Some(start), kept };
        Ok(Self { levels: vec![level], rights })
    }

    /// The directory where the walk is, and what it keeps of it; none when the first was left.
    pub(crate) fn here(&mut self) -> Option<(&OwnedFd, &mut T)> {
        let level = self.levels.last_mut()?;
        Some((level.fd.as_ref().expect("the lowest level is open"), &mut level.kept))
    }

    /// Levels below the first.
    pub(crate) fn depth(&self) -> usize {
        self.levels.len().saturating_sub(1)
    }

    /// Goes down into the directory `name`.
    pub(crate) fn enter(&mut self, name: &CStr, kept: T) -> Result<(), Errno> {
        let rights = self.rights;
        let (here, _) = self.here().ok_or(Errno::NOENT)?;
        let fd = open_child(here, name, DIRECTORY, rights)?;
        let level = Level { name: name.to_owned(), identity: identity(&fd)?, fd: Some(fd), kept };
        self.levels.push(level);
        self.close_above(self.levels.len() - 1);
        Ok(())
    }

    /// Goes up again; none when the walk is over.
    pub(crate) fn leave(&mut self) -> Option<Left> {
        let left = self.levels.pop()?;
        let depth = self.levels.len();
        if let (Some(above), Some(below)) = (self.levels.last_mut(), &left.fd)
            && above.fd.is_none()
        {
            let up = rustix::fs::openat(below, "..", DIRECTORY, Mode::empty()).ok();
            above.fd = up.filter(|fd| identity(fd) == Ok(above.identity));
            if above.fd.is_none() {
                self.find_again();
            }
        }
        Some(Left { name: left.name, in_holder: depth > 0 && self.levels.len() == depth })
    }

    /// Goes down from the first level as far as the levels are where they were, and forgets the rest.
    fn find_again(&mut self) {
        for at in 1..self.levels.len() {
            let holder = self.levels[at - 1].fd.as_ref().expect("just opened, or the first");
            let (name, known) = (&self.levels[at].name, self.levels[at].identity);
            let found = rustix::fs::openat(holder, name, DIRECTORY, Mode::empty()).ok();
            let Some(found) = found.filter(|fd| identity(fd) == Ok(known)) else {
                self.levels.truncate(at);
                return;
            };
            self.levels[at].fd = Some(found);
            self.close_above(at);
        }
    }

    /// Keeps the first level and the lowest ones down to `at` open.
    fn close_above(&mut self, at: usize) {
        if let Some(far) = (at + 1).checked_sub(MAX_OPEN).filter(|far| *far > 0) {
            self.levels[far].fd = None;
        }
    }
}

/// Opens something in a directory. When its owner's `rights` were taken away, gives them back,
/// through a descriptor, so that nothing swapped in by name is changed.
pub(crate) fn open_child(
    holder: &OwnedFd,
    name: &CStr,
    flags: OFlags,
    rights: RawMode,
) -> Result<OwnedFd, Errno> {
    match rustix::fs::openat(holder, name, flags, Mode::empty()) {
        Ok(fd) => {
            // One that may be listed is not yet one whose entries may be reached. Root may anyway.
            let mode = rustix::fs::fstat(&fd)?.st_mode;
            let lacks = FileType::from_raw_mode(mode) == FileType::Directory
                && mode & rights != rights
                && !rustix::process::geteuid().is_root();
            if lacks {
                rustix::fs::fchmod(&fd, Mode::from_raw_mode((mode & 0o7777) | rights))?;
            }
            return Ok(fd);
        }
        Err(Errno::ACCESS) => {}
        Err(e) => return Err(e),
    }
    let handle = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(holder, name, handle, Mode::empty())?;
    let mode = rustix::fs::fstat(&fd)?.st_mode;
    if !matches!(FileType::from_raw_mode(mode), FileType::Directory | FileType::RegularFile) {
        return Err(Errno::ACCESS);
    }
    let mode = Mode::from_raw_mode((mode & 0o7777) | rights);
    rustix::fs::chmod(format!("/proc/self/fd/{}", fd.as_raw_fd()), mode)?;
    rustix::fs::openat(holder, name, flags, Mode::empty())
}

/// The names in a directory, at most `limit`.
pub(crate) fn names(fd: &OwnedFd, limit: usize) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for item in Dir::read_from(fd)? {
        let name = item?.file_name().to_owned();
        if names.len() == limit {
            break;
        }
        if !matches!(name.as_bytes(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

fn identity(fd: &OwnedFd) -> Result<(u64, u64), Errno> {
    let stat = rustix::fs::fstat(fd)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Opens a directory as [`open_child`] does.
pub(crate) fn open(path: &Path, rights: RawMode) -> Result<OwnedFd, Errno> {
    let (holder, name) = (path.parent(), path.file_name());
    let holder = holder.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The way to it is the caller's own; links in it are followed, the last name's is not.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let holder = rustix::fs::openat(CWD, holder, flags, Mode::empty())?;
    let name = name.ok_or(Errno::INVAL)?.as_encoded_bytes();
    open_child(&holder, &CString::new(name).map_err(|_| Errno::INVAL)?, DIRECTORY, rights)
}

/// What is left to do in a directory that is being emptied.
#[derive(Debug, Default)]
struct Emptying {
    directories: Vec<CString>,
    /// Whether nothing is left once `directories` are gone.
    seen_whole: bool,
}

/// Removes a directory tree of any depth and size, also where it was made unreadable to its owner: an
/// overlay does that to its work directory, and commands may do it to anything. Follows no link.
///
/// # Errors
/// `NotFound` when there is none; what the system answers otherwise. What vanishes meanwhile is no
/// error.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let mut way = Descent::new(open(path, 0o700)?, 0o700, Emptying::default())?;
    while let Some((here, left)) = way.here() {
        if let Some(name) = left.directories.pop() {
            match way.enter(&name, Emptying::default()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(e) => return Err(e.into()),
            }
        } else if !left.seen_whole {
            *left = remove_files(here)?;
        } else if let Some(gone) = way.leave()
            && gone.in_holder
            && let Some((holder, _)) = way.here()
        {
            match rustix::fs::unlinkat(holder, &gone.name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
    std::fs::remove_dir(path)
}

/// Removes what is no directory among the first names of a directory; answers the others.
fn remove_files(fd: &OwnedFd) -> Result<Emptying, Errno> {
    let names = names(fd, BATCH)?;
    let mut left = Emptying { directories: Vec::new(), seen_whole: names.len() < BATCH };
    for name in names {
        match rustix::fs::unlinkat(fd, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR) => left.directories.push(name),
            Err(e) => return Err(e),
        }
    }
    Ok(left)
}

/// The least that a name counts for: an empty file has no blocks, and uses up what a file system has of
/// files.
pub(crate) const ENTRY_BYTES: u64 = 4096;

/// Bytes on disk below a directory; links are counted, not followed. What vanishes while walking takes
/// no space. A directory that its owner may not read is made readable: it would hide what it holds.
pub(crate) fn used_bytes(path: &Path) -> u64 {
    let start = open(path, 0o500).and_then(|fd| Descent::new(fd, 0o500, None));
    let Ok(mut way) = start else { return 0 };
    let mut total = 0_u64;
    while let Some((here, directories)) = way.here() {
        let directories = directories.get_or_insert_with(|| {
            let (bytes, directories) = used_in(here);
            total = total.saturating_add(bytes);
            directories
        });
        match directories.pop() {
            None => drop(way.leave()),
            // One that cannot be entered is gone.
            Some(name) => drop(way.enter(&name, None)),
        }
    }
    total
}

/// Bytes on disk of the entries of one directory, and the directories among them.
fn used_in(fd: &OwnedFd) -> (u64, Vec<CString>) {
    let (mut total, mut directories) = (0_u64, Vec::new());
    for item in Dir::read_from(fd).into_iter().flatten().flatten() {
        let name = item.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let Ok(stat) = rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let bytes = u64::try_from(stat.st_blocks).unwrap_or(0) * BLOCK_BYTES;
        total = total.saturating_add(bytes.max(ENTRY_BYTES));
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            directories.push(name.to_owned());
        }
    }
    (total, directories)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn root(path: &Path) -> OwnedFd {
        rustix::fs::open(path, DIRECTORY, Mode::empty()).unwrap()
    }

    /// Makes nested directories below `dir`, each with a file of so many bytes.
    fn nest(dir: &Path, name: &CStr, depth: usize, bytes: &[u8]) {
        let mut fd = root(dir);
        for _ in 0..depth {
            rustix::fs::mkdirat(&fd, name, Mode::from_raw_mode(0o755)).unwrap();
            fd = rustix::fs::openat(&fd, name, DIRECTORY, Mode::empty()).unwrap();
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&fd, c"file", flags, Mode::from_raw_mode(0o644));
            rustix::io::write(file.unwrap(), bytes).unwrap();
        }
    }

    /// The failure: paths were made of the names, so a tree deeper than the longest path could be
    /// neither removed nor counted. Now: each step is one name, whatever the depth and the name.
    #[test]
    fn a_tree_that_no_path_reaches_is_counted_and_removed() {
        let check = |name: &CStr, depth: usize| {
            let home = tempfile::tempdir().unwrap();
            let tree = home.path().join("tree");
            fs::create_dir(&tree).unwrap();
            nest(&tree, name, depth, &[1; 4096]);
            assert!(used_bytes(&tree) >= depth as u64 * 4096, "{name:?} {depth}");
            remove_tree(&tree).unwrap();
            assert!(!tree.exists());
        };
        check(c"d", 3);
        // Deeper than a process usually has descriptors, longer than any path.
        check(&CString::new([b'n'; 255]).unwrap(), 1500);
        check(c"\xff\xfe", MAX_OPEN * 3);
        check(&CString::new("\u{1f600}\n\"").unwrap(), MAX_OPEN);
    }

    #[test]
    fn a_descent_holds_few_descriptors_and_comes_back_the_same_way() {
        let home = tempfile::tempdir().unwrap();
        nest(home.path(), c"d", 300, b"");
        let mut way = Descent::new(root(home.path()), 0o700, 0).unwrap();
        let open = |way: &Descent<_>| way.levels.iter().filter(|level| level.fd.is_some()).count();
        for depth in 1..=300 {
            way.enter(c"d", depth).unwrap();
            assert!(open(&way) <= MAX_OPEN, "{depth}");
        }
        for depth in (0..300).rev() {
            assert!(way.leave().unwrap().in_holder);
            assert!(open(&way) <= MAX_OPEN, "{depth}");
            assert_eq!((way.depth(), *way.here().unwrap().1), (depth, depth));
        }
        assert!(!way.leave().unwrap().in_holder);
        assert!(way.here().is_none() && way.leave().is_none());
    }

    /// The failure: `..` of a directory that was moved elsewhere leads out of the tree.
    /// Now: the walk goes on above the place from where it was moved.
    #[test]
    fn a_directory_moved_away_leads_a_walk_nowhere() {
        let home = tempfile::tempdir().unwrap();
        let (tree, outside) = (home.path().join("tree"), home.path().join("outside"));
        fs::create_dir(&tree).unwrap();
        fs::create_dir(&outside).unwrap();
        nest(&tree, c"d", 100, b"");
        for moved in [1, 5, 60, 99] {
            let mut way = Descent::new(root(&tree), 0o700, ()).unwrap();
            (0..100).for_each(|_| way.enter(c"d", ()).unwrap());
            let from: std::path::PathBuf = std::iter::repeat_n("d", moved).collect();
            fs::rename(tree.join(&from), outside.join("d")).unwrap();
            let outer = identity(&root(&outside)).unwrap();
            while let Some((here, ())) = way.here() {
                assert_ne!(identity(here).unwrap(), outer);
                way.leave();
            }
            fs::rename(outside.join("d"), tree.join(&from)).unwrap();
        }
    }

    #[test]
    fn a_directory_of_many_entries_is_emptied_in_parts() {
        let home = tempfile::tempdir().unwrap();
        let tree = home.path().join("tree");
        fs::create_dir(&tree).unwrap();
        let fd = root(&tree);
        for index in 0..100_000_u32 {
            let name = CString::new(format!("{index}").into_bytes()).unwrap();
            let mode = Mode::from_raw_mode(0o755);
            match index % 50 {
                0 => rustix::fs::mkdirat(&fd, &name, mode).unwrap(),
                1 => rustix::fs::symlinkat("/", &fd, &name).unwrap(),
                _ => rustix::fs::mknodat(&fd, &name, FileType::Fifo, mode, 0).unwrap(),
            }
        }
        fs::write(tree.join(std::ffi::OsStr::from_bytes(b"\xc3\x28")), "x").unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
    }

    #[test]
    fn only_a_directory_is_a_tree() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::create_dir(at("kept")).unwrap();
        std::os::unix::fs::symlink("kept", at("link")).unwrap();
        fs::write(at("file"), "x").unwrap();
        assert_eq!(remove_tree(&at("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        remove_tree(&at("link")).unwrap_err();
        remove_tree(&at("file")).unwrap_err();
        assert!(at("kept").is_dir() && at("link").is_symlink() && at("file").is_file());
        assert_eq!((used_bytes(&at("none")), used_bytes(&at("link"))), (0, 0));
    }

    /// An ordinary user must count and get rid of what a command made unreadable; root would not notice.
    #[test]
    fn directories_without_rights_are_counted_and_removed_by_an_ordinary_user() {
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let tree = home.path().join("tree");
        let outside = home.path().join("outside");
        let act = || {
            fs::create_dir_all(tree.join("locked/deep")).unwrap();
            fs::create_dir(&outside).unwrap();
            fs::write(tree.join("locked/deep/file"), vec![1; 1 << 20]).unwrap();
            std::os::unix::fs::symlink(&outside, tree.join("locked/link")).unwrap();
            for (path, mode) in [("locked/deep", 0o000), ("locked", 0o500), ("", 0o555)] {
                fs::set_permissions(tree.join(path), fs::Permissions::from_mode(mode)).unwrap();
            }
            let plain = fs::remove_dir_all(&tree).is_err();
            assert!(used_bytes(&tree) >= 1 << 20);
            remove_tree(&tree).unwrap();
            plain
        };
        let refused = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                if rustix::process::geteuid().is_root() {
                    let nobody = rustix::process::Uid::from_raw(65_534);
                    // Of this thread alone.
                    rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
                }
                act()
            });
            worker.join().unwrap()
        });
        assert!(refused, "plain removal works, so this proves nothing");
        assert!(!tree.exists() && outside.is_dir());
    }
}
