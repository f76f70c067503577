//! Where the git directory of a repository is. `.git` is a name that nothing of a project is written to; a git directory
//! of another name in the work tree would be files like all others, and what runs from it, as hooks do, too.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use glasshouse_sandbox::workspace::git::is_git_directory;

use crate::driver::place::is_within;
use crate::{Error, Result, codes};

/// Most bytes of a file that names a directory.
const MAX_POINTER_BYTES: u64 = 64 << 10;
/// Most links on the way to a directory, as the system counts them.
const MAX_LINKS: usize = 40;

/// Whether a directory is the top of a repository's work tree, of which `.git` is to be trusted: it belongs to
/// `owner` or the system, and is no link.
pub(super) fn is_top(dir: &Path, owner: u32) -> bool {
    named(dir, owner).is_some_and(|git_dir| is_git_directory(&git_dir))
}

/// What `.git` in a directory is or points to.
fn named(dir: &Path, owner: u32) -> Option<PathBuf> {
    let git = dir.join(".git");
    let found = git.symlink_metadata().ok()?;
    if found.is_symlink() || (found.uid() != owner && found.uid() != 0) {
        return None;
    }
    if found.is_dir() { Some(git) } else { Some(dir.join(pointer(&git, b"gitdir: ")?)) }
}

/// The path in a file that names a directory, as git reads it.
fn pointer(file: &Path, prefix: &[u8]) -> Option<PathBuf> {
    if !file.symlink_metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file).ok()?;
    opened.take(MAX_POINTER_BYTES).read_to_end(&mut bytes).ok()?;
    let mut path = bytes.strip_prefix(prefix)?;
    while let [rest @ .., b'\n' | b'\r'] = path {
        path = rest;
    }
    (!path.is_empty()).then(|| PathBuf::from(OsString::from_vec(path.to_vec())))
}

/// Checks that the way to the git directory of a project's repository, and to the one that it shares with other work
/// trees, leads over nothing in the work tree but `.git`.
///
/// # Errors
/// `git_directory_exposed`.
pub(super) fn check(project: &Path, owner: u32) -> Result<()> {
    let top = project.ancestors().find(|dir| named(dir, owner).is_some());
    let Some((tree, git_dir)) = top.and_then(|dir| Some((dir, named(dir, owner)?))) else {
        return Ok(());
    };
    let way = Way { tree };
    let exposed = way.exposed(tree, &git_dir).or_else(|| {
        let git_dir = git_dir.canonicalize().ok()?;
        way.exposed(&git_dir, &pointer(&git_dir.join("commondir"), b"")?)
    });
    match exposed {
        None => Ok(()),
        Some(at) => Err(told(tree, &at)),
    }
}

fn told(tree: &Path, at: &Path) -> Error {
    let shown = at.strip_prefix(tree).unwrap_or(at).display();
    Error::new(codes::GIT_DIRECTORY_EXPOSED, format!("cannot work on {}", tree.display()))
        .why(format!(
            "its git directory lies at, or is reached by, `{shown}` in its work tree: whatever is written there could \
             run as a hook"
        ))
        .fix(
            "move it: `git init --separate-git-dir=DIR` with a new DIR outside the work tree, or put it in the place \
             of the file `.git`",
        )
}

/// The ways that lead to a git directory from a work tree.
struct Way<'a> {
    tree: &'a Path,
}

impl Way<'_> {
    /// The first name in the work tree, `.git` and what is in it aside, that is looked up on the way to `target`
    /// from the directory `start`, which leads through no link.
    fn exposed(&self, start: &Path, target: &Path) -> Option<PathBuf> {
        let (mut at, mut links) = (start.to_owned(), 0);
        let mut waiting: VecDeque<OsString> = parts(target);
        while let Some(part) = waiting.pop_front() {
            match Path::new(&part).components().next() {
                Some(Component::RootDir) => at = PathBuf::from("/"),
                Some(Component::ParentDir) => drop(at.pop()),
                Some(Component::Normal(name)) => {
                    let next = at.join(name);
                    if self.is_open(&at, name) {
                        return Some(next);
                    }
                    match next.read_link() {
                        Ok(_) if links == MAX_LINKS => return Some(next),
                        Ok(link) => {
                            links += 1;
                            parts(&link)
                                .into_iter()
                                .rev()
                                .for_each(|part| waiting.push_front(part));
                        }
                        Err(_) => at = next,
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Whether a session on the work tree may write what a name in a directory stands for.
    fn is_open(&self, dir: &Path, name: &OsStr) -> bool {
        let below = |outer: &Path| is_within(dir, outer).unwrap_or(false);
        let is_top = || is_within(self.tree, dir).unwrap_or(false);
        below(self.tree) && !below(&self.tree.join(".git")) && !(name == ".git" && is_top())
    }
}

fn parts(path: &Path) -> VecDeque<OsString> {
    path.components().map(|part| part.as_os_str().to_owned()).collect()
}
