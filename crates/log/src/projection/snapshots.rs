//! Snapshots as files: `<root>/<fold>-<version>/<branch>/<sequence>.snapshot`.
//!
//! Any of them may be missing, cut, damaged or made by somebody else at any time; whoever reads one
//! compares what it names. Nothing is synced and no failure matters, because all of it can be folded
//! again.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use glasshouse_model::{BranchId, Digest, Seq};
use serde::{Deserialize, Serialize};

use crate::append::Head;
use crate::error::{Error, Result};
use crate::home::{self, FileLock};

/// Largest snapshot; a larger state is folded from further back each time.
const MAX_SNAPSHOT_BYTES: usize = 4 << 20;
/// Longest first line of a snapshot.
const MAX_LABEL_BYTES: u64 = 1_024;
/// Snapshots of one fold that are kept for a branch.
const KEPT_PER_BRANCH: usize = 2;
/// What all snapshots together may take, looked at after so many writes of a process and once an hour.
const LIMITS: Limits = Limits { files: 50_000, bytes: 256 << 20 };
/// Writes of a process after which the limits are looked at.
const WRITES_BETWEEN_LOOKS: u64 = 256;
/// Time after which the next process to write looks at the limits.
const LOOK_EVERY: Duration = Duration::from_secs(3_600);
/// File whose time says when somebody last looked.
const STAMP: &str = "looked";
/// File that whoever folds locks with others, and whoever removes what was found wrong locks alone.
const LOCK: &str = "lock";
/// File that is locked alone before [`LOCK`] is: who comes meanwhile stands back, so that however many fold,
/// whoever wants to be alone will be.
const GATE: &str = "gate";
const SUFFIX: &str = ".snapshot";

#[derive(Debug, Clone, Copy)]
struct Limits {
    files: usize,
    bytes: u64,
}

/// What a snapshot says of itself, in its first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Label {
    seq: Seq,
    hash: Digest,
    digest: Digest,
}

impl Label {
    /// Whether it was made at this event.
    pub(super) fn stands_at(&self, at: Head) -> bool {
        (self.seq, self.hash) == (at.seq, at.hash)
    }
}

/// A file that is a snapshot by its name.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) seq: Seq,
    path: PathBuf,
}

impl Kept {
    /// Its label and its bytes, if they are whole.
    pub(super) fn read(&self) -> Option<(Label, Vec<u8>)> {
        let limit = u64::try_from(MAX_SNAPSHOT_BYTES).ok()? + MAX_LABEL_BYTES;
        let meta = self.path.symlink_metadata().ok()?;
        if !meta.is_file() || meta.len() > limit {
            return None;
        }
        let mut text = fs::read(&self.path).ok()?;
        let end = memchr::memchr(b'\n', &text)?;
        let label: Label = serde_json::from_slice(&text[..end]).ok()?;
        let bytes = text.split_off(end + 1);
        (Digest::of(&bytes) == label.digest).then_some((label, bytes))
    }

    pub(super) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The right to remove snapshots while nobody keeps any.
pub(crate) struct Alone {
    _lock: FileLock,
    _gate: FileLock,
}

/// Where snapshots are kept.
#[derive(Debug)]
pub(crate) struct Snapshots {
    root: PathBuf,
    writes: AtomicU64,
}

impl Snapshots {
    pub(crate) const fn new(root: PathBuf) -> Self {
        Self { root, writes: AtomicU64::new(0) }
    }

    /// Held from before a snapshot is read until what was folded from it is kept. `None` while snapshots
    /// are removed: what is folded meanwhile may come from one of them, and is not kept.
    pub(super) fn share(&self) -> Option<FileLock> {
        home::create_directories(&self.root).ok()?;
        let _gate = FileLock::try_share(&self.root.join(GATE)).ok()??;
        FileLock::try_share(&self.root.join(LOCK)).ok()?
    }

    /// Held while snapshots are removed. What was folded from them before is kept by then, and found.
    ///
    /// # Errors
    /// A storage error: then nobody knows what is folded meanwhile.
    pub(crate) fn alone(&self) -> Result<Alone> {
        home::create_directories(&self.root)?;
        let gate = FileLock::acquire(&self.root.join(GATE))?;
        let lock = FileLock::acquire(&self.root.join(LOCK))?;
        Ok(Alone { _lock: lock, _gate: gate })
    }

    /// The snapshots of a branch, the oldest first.
    pub(super) fn of(&self, fold: &str, branch: &BranchId) -> Vec<Kept> {
        let entries = fs::read_dir(self.directory(fold, branch)).into_iter().flatten();
        let kept = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let seq = entry.file_name().to_str()?.strip_suffix(SUFFIX)?.parse().ok()?;
            Some(Kept { seq, path: entry.path() })
        });
        let mut kept: Vec<_> = kept.collect();
        kept.sort_unstable_by_key(|kept| kept.seq);
        kept
    }

    /// Removes the snapshots that any fold has of a branch.
    pub(crate) fn forget(&self, branch: &BranchId) -> Result<()> {
        for fold in entries(&self.root) {
            let directory = fold.join(branch.as_str());
            match fs::remove_dir_all(&directory) {
                Err(cause)
                    if !matches!(
                        cause.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                    ) =>
                {
                    return Err(Error::file("remove", &directory, &cause));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Writes a snapshot, and removes what is above a limit then.
    pub(super) fn keep(&self, fold: &str, branch: &BranchId, at: Head, bytes: &[u8]) {
        let directory = self.directory(fold, branch);
        if bytes.len() > MAX_SNAPSHOT_BYTES || home::create_directories(&directory).is_err() {
            return;
        }
        let label = Label { seq: at.seq, hash: at.hash, digest: Digest::of(bytes) };
        let Ok(mut text) = serde_json::to_vec(&label) else { return };
        text.push(b'\n');
        text.extend_from_slice(bytes);
        let path = directory.join(format!("{:020}{SUFFIX}", at.seq));
        if home::write_unsynced(&path, &text).is_err() {
            return;
        }
        let kept = self.of(fold, branch);
        kept.iter().rev().skip(KEPT_PER_BRANCH).for_each(Kept::remove);
        if self.is_time_to_look() {
            self.trim(LIMITS);
        }
    }

    fn directory(&self, fold: &str, branch: &BranchId) -> PathBuf {
        self.root.join(fold).join(branch.as_str())
    }

    fn is_time_to_look(&self) -> bool {
        let writes = self.writes.fetch_add(1, Ordering::Relaxed);
        let stamp = self.root.join(STAMP);
        let is_due = match writes {
            0 => age(&stamp).is_none_or(|age| age >= LOOK_EVERY),
            _ => writes.is_multiple_of(WRITES_BETWEEN_LOOKS),
        };
        // First, so that of two processes only one looks.
        is_due && fs::write(&stamp, b"").is_ok()
    }

    /// Removes the snapshots that were written longest ago until a quarter of each limit is free, if
    /// one is exceeded, and what processes that were killed left behind.
    fn trim(&self, limits: Limits) {
        let mut files = Vec::new();
        let mut directories = BTreeSet::new();
        for directory in entries(&self.root).iter().flat_map(|fold| entries(fold)) {
            for path in entries(&directory) {
                let Ok(meta) = path.symlink_metadata() else { continue };
                let written = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                // What counts is the room on the disk, which is given in units of 512.
                files.push((written, meta.len().max(meta.blocks() * 512), path));
            }
            directories.insert(directory);
        }
        let mut left = (files.len(), files.iter().map(|(_, bytes, _)| bytes).sum::<u64>());
        let is_above = |(count, bytes): (usize, u64), quarters: u64| {
            count as u64 * 4 > limits.files as u64 * quarters || bytes * 4 > limits.bytes * quarters
        };
        let is_full = is_above(left, 4);
        files.sort_unstable();
        for (_, bytes, path) in files {
            let is_litter = path.extension().is_none_or(|end| end != &SUFFIX[1..])
                && age(&path).is_some_and(|age| age >= LOOK_EVERY);
            if is_litter || (is_full && is_above(left, 3)) {
                let _ = fs::remove_file(path);
                left = (left.0 - 1, left.1 - bytes);
            }
        }
        for directory in directories {
            // Only an empty one can be removed like this.
            let _ = fs::remove_dir(directory);
        }
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// How long ago a file was written; `None` when it is not there or of a time to come.
fn age(path: &Path) -> Option<Duration> {
    path.metadata().and_then(|meta| meta.modified()).ok()?.elapsed().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Snapshots of branches `b_0` to `b_9`, the first written longest ago, each of one block.
    fn ten() -> (tempfile::TempDir, Snapshots) {
        let dir = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::new(dir.path().to_owned());
        for n in 0..10 {
            let at = Head { seq: 1, hash: Digest::ZERO };
            snapshots.keep("sum-1", &branch(n), at, b"state");
            let written = SystemTime::now() - Duration::from_secs(1_000 - n);
            let file = fs::File::open(&snapshots.of("sum-1", &branch(n))[0].path).unwrap();
            file.set_modified(written).unwrap();
        }
        (dir, snapshots)
    }

    fn branch(n: u64) -> BranchId {
        format!("b_{n}").parse().unwrap()
    }

    #[test]
    fn all_snapshots_together_are_bounded_and_the_oldest_go() {
        let block = {
            let (_dir, snapshots) = ten();
            let meta = snapshots.of("sum-1", &branch(0))[0].path.metadata().unwrap();
            meta.len().max(meta.blocks() * 512)
        };
        let check = |files: usize, bytes: u64, expected: std::ops::Range<u64>| {
            let (dir, snapshots) = ten();
            snapshots.trim(Limits { files, bytes });
            let left = (0..10).filter(|n| !snapshots.of("sum-1", &branch(*n)).is_empty());
            assert_eq!(left.collect::<Vec<_>>(), expected.clone().collect::<Vec<_>>());
            let directories = entries(&dir.path().join("sum-1")).len() as u64;
            assert_eq!(directories, expected.end - expected.start, "no empty ones stay");
        };
        check(10, u64::MAX / 4, 0..10);
        check(9, u64::MAX / 4, 4..10);
        check(4, u64::MAX / 4, 7..10);
        check(100, block * 10, 0..10);
        check(100, block * 8, 4..10);
        check(0, 0, 10..10);
    }

    #[test]
    fn what_a_killed_process_left_goes_after_a_while() {
        let (dir, snapshots) = ten();
        let left = dir.path().join("sum-1/b_0/00000000000000000002.77-0.tmp");
        fs::write(&left, b"half").unwrap();
        snapshots.trim(LIMITS);
        assert!(left.exists(), "it may still be written");
        let file = fs::File::open(&left).unwrap();
        file.set_modified(SystemTime::now() - LOOK_EVERY).unwrap();
        snapshots.trim(LIMITS);
        assert!(!left.exists());
        assert_eq!(snapshots.of("sum-1", &branch(0)).len(), 1);
    }

    #[test]
    fn the_limits_are_looked_at_by_the_first_write_of_an_hour_and_by_many_of_one_process() {
        let dir = tempfile::tempdir().unwrap();
        let looks = |snapshots: &Snapshots, writes: u64| {
            (0..writes).filter(|_| snapshots.is_time_to_look()).count()
        };
        let first = Snapshots::new(dir.path().to_owned());
        assert_eq!(looks(&first, 1), 1);
        assert_eq!(looks(&first, WRITES_BETWEEN_LOOKS), 1);
        let second = Snapshots::new(dir.path().to_owned());
        assert_eq!(looks(&second, 1), 0, "somebody has just looked");
        let stamp = fs::File::open(dir.path().join(STAMP)).unwrap();
        stamp.set_modified(SystemTime::now() - LOOK_EVERY).unwrap();
        let third = Snapshots::new(dir.path().to_owned());
        assert_eq!(looks(&third, 1), 1);
    }
}
