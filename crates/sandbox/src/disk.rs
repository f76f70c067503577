//! Watches how much a command adds to the workspace, since file systems rarely have a quota.
//!
//! Counting a layer costs a walk, so it is done only when the file system has lost enough space
//! for the limit to be within reach. The free space is everybody's: others' writes can cause a
//! walk in vain, never a wrong verdict.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes in a unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// A walk may take this share of the time between walks.
const WALK_SHARE: u32 = 10;

/// The watch of one command.
pub(crate) struct DiskWatch {
    upper: PathBuf,
    limit_bytes: u64,
    /// Free space when the layer was last known to be within its limit.
    free_bytes: u64,
    /// How much space may vanish from then on before it is counted again.
    slack_bytes: u64,
    next: Instant,
}

impl DiskWatch {
    /// Time between looks at the free space: a fast disk takes a few hundred MiB meanwhile.
    pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

    pub(crate) fn new(upper: &Path, limit_bytes: u64) -> Self {
        Self {
            free_bytes: free(upper),
            slack_bytes: limit_bytes / 8,
            limit_bytes,
            upper: upper.to_owned(),
            next: Instant::now() + Self::INTERVAL,
        }
    }

    /// Whether the layer is larger than its limit. Cheap; call it as often as convenient.
    pub(crate) fn exceeded(&mut self) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        self.next = now + Self::INTERVAL;
        let free_now = free(&self.upper);
        if self.free_bytes.saturating_sub(free_now) < self.slack_bytes {
            return false;
        }
        let used = used(&self.upper);
        self.next += now.elapsed() * WALK_SHARE;
        self.free_bytes = free_now;
        self.slack_bytes = self.limit_bytes.saturating_sub(used) / 2;
        used > self.limit_bytes
    }
}

fn free(path: &Path) -> u64 {
    rustix::fs::statvfs(path).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Bytes on disk below a directory; links are counted, not followed. What vanishes while walking
/// takes no space.
fn used(path: &Path) -> u64 {
    let mut total = 0;
    let mut open = vec![path.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            total += metadata.blocks() * BLOCK_BYTES;
            if metadata.is_dir() {
                open.push(entry.path());
            }
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_over_its_limit_when_it_really_is() {
        let upper = tempfile::tempdir().unwrap();
        let look = |limit_bytes: u64, lost_bytes: u64| {
            let mut watch = DiskWatch::new(upper.path(), limit_bytes);
            watch.next = Instant::now();
            watch.free_bytes = free(upper.path()) + lost_bytes;
            watch.exceeded()
        };
        fs::create_dir(upper.path().join("deep")).unwrap();
        fs::write(upper.path().join("deep/file"), vec![1; 1 << 20]).unwrap();
        std::os::unix::fs::symlink("/", upper.path().join("everything")).unwrap();
        assert!(look(64 << 10, 1 << 40));
        assert!(!look(64 << 10, 0), "no space was lost, so nothing is counted");
        assert!(!look(8 << 20, 1 << 40), "others wrote");
    }
}
