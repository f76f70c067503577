//! Whether the repository can take a commit now, and the lock that keeps it so.
//!
//! Everything is looked at before the first file is written. Git's own commands take `index.lock`
//! while they work, for an instant as a rule, so a held lock is waited for, within a bound. A commit
//! of ours holds the same lock from before it reads the last commit until the index knows it.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use glasshouse_sandbox::workspace::git::Git;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use crate::codes;
use crate::{Error, Result};

/// What git leaves in its directory while it is in the middle of something.
const IN_PROGRESS: &[&str] = &[
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_START",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
];
/// Longest wait for a lock of git: a commit or a status of a large repository takes a second or two.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// Time between two looks at a lock.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// Checks that a commit to `branch` (or to a detached `HEAD`) could be made now.
///
/// # Errors
/// `repository_busy` in the middle of a merge, rebase, cherry-pick, revert or bisect, or when a lock
/// stays held; `git_failed`.
pub(super) fn expect_free(git: &Git, branch: Option<&str>) -> Result<()> {
    let directory = git.directory()?;
    expect_at_rest(&directory)?;
    let mut locks = vec![directory.join("index.lock"), directory.join("HEAD.lock")];
    if let Some(branch) = branch {
        let args = ["rev-parse", "--path-format=absolute", "--git-path", branch];
        let place = git.expect_ok("rev-parse", git.run(&args, b"", &[])?)?.line();
        locks.push(PathBuf::from(format!("{place}.lock")));
    }
    let deadline = Instant::now() + LOCK_PATIENCE;
    for lock in locks {
        while lock.symlink_metadata().is_ok() {
            wait(deadline, || held(&lock))?;
        }
    }
    Ok(())
}

/// Checks that git is not in the middle of an operation of several steps.
///
/// # Errors
/// `repository_busy`.
pub(super) fn expect_at_rest(directory: &Path) -> Result<()> {
    match IN_PROGRESS.iter().find(|name| directory.join(name).symlink_metadata().is_ok()) {
        None => Ok(()),
        Some(name) => Err(busy(format!("a git operation is in progress ({name})"))),
    }
}

/// Sleeps once, or tells what is held when patience is at its end.
pub(super) fn wait(deadline: Instant, why: impl FnOnce() -> Error) -> Result<()> {
    if Instant::now() >= deadline {
        return Err(why());
    }
    std::thread::sleep(LOCK_POLL);
    Ok(())
}

/// The end of patience from now.
pub(super) fn deadline() -> Instant {
    Instant::now() + LOCK_PATIENCE
}

pub(super) fn busy(why: String) -> Error {
    Error::new(codes::REPOSITORY_BUSY, "the repository cannot take a commit now").why(why)
}

fn held(lock: &Path) -> Error {
    busy(format!("`{}` is held by another program", lock.display())).fix(
        "wait until the other git command ends; if none runs, remove the lock file, then retry",
    )
}

/// The index's lock, held. It is given up by [`IndexLock::release`] alone, so that a crash leaves it
/// for the retry, which knows it by its mark.
#[derive(Debug)]
pub(super) struct IndexLock(PathBuf);

impl IndexLock {
    /// Takes the lock in git's directory by giving `marked`, a file whose content is `mark`, its name;
    /// or finds it taken by an earlier try with the same mark.
    ///
    /// # Errors
    /// `repository_busy` when it stays held, or cannot be made.
    pub(super) fn take(directory: &Path, marked: &Path, mark: &str) -> Result<Self> {
        let lock = directory.join("index.lock");
        let deadline = deadline();
        loop {
            // One act, so that a crash never leaves a lock without its mark.
            match rustix::fs::renameat_with(CWD, marked, CWD, &lock, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(Self(lock)),
                Err(Errno::EXIST) if is_marked(&lock, mark) => return Ok(Self(lock)),
                Err(Errno::EXIST) => wait(deadline, || held(&lock))?,
                Err(e) => return Err(busy(format!("cannot make `{}`: {e}", lock.display()))),
            }
        }
    }

    /// Gives it up.
    pub(super) fn release(self) {
        // If it cannot be removed, the next command of git says so, with the file's name.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Whether the lock is one that a try with this mark left. A link or a device is nobody's.
fn is_marked(lock: &Path, mark: &str) -> bool {
    let Ok(meta) = lock.symlink_metadata() else { return false };
    let mut text = Vec::new();
    meta.is_file()
        && meta.len() == mark.len() as u64
        && File::open(lock).and_then(|mut file| file.read_to_end(&mut text)).is_ok()
        && text == mark.as_bytes()
}
