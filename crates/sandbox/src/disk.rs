//! Watches how much a command adds to the workspace and to its caches, since file systems rarely have
//! a quota.
//!
//! Counting costs a walk, so it is done only when the file system has lost enough space, or enough files,
//! for the limit to be within reach. What is free is everybody's: others' writes can cause a walk in
//! vain, never a wrong verdict. Files that have no name any more are found where they are held: in the processes of
//! the sandbox.

use std::collections::HashSet;
use std::fs;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::tree::{ENTRY_BYTES, used_bytes};

/// Bytes in a unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// A walk may take this share of the time between walks.
const WALK_SHARE: u32 = 10;

/// A directory that a sandbox may fill, and how far.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    /// Device that files of it show inside the sandbox; the overlay's for the workspace.
    pub(crate) device: u64,
    pub(crate) limit_bytes: u64,
}

/// The watch of a sandbox's commands on one place.
#[derive(Debug)]
pub(crate) struct DiskWatch {
    place: Place,
    /// The most that was free since the place was last known to be within its limit: what is freed
    /// elsewhere meanwhile hides nothing that is added here.
    free: Free,
    /// How much space may vanish from then on before it is counted again.
    slack_bytes: u64,
    next: Instant,
}

impl DiskWatch {
    /// Time between looks at the free space: a fast disk takes a few hundred MiB meanwhile.
    pub(crate) const INTERVAL: Duration = Duration::from_millis(100);

    pub(crate) fn new(place: Place) -> Self {
        Self {
            free: Free::of(&place.dir).unwrap_or(Free::ALL),
            // The first look counts what is there.
            slack_bytes: 0,
            place,
            next: Instant::now() + Self::INTERVAL,
        }
    }

    /// Whether the place is larger than its limit. Cheap; call it as often as convenient. `init` is the
    /// sandbox's first process.
    pub(crate) fn exceeded(&mut self, init: impl AsFd) -> bool {
        Instant::now() >= self.next && self.exceeds(init)
    }

    /// The same now, whenever the last look was: for a command that is over.
    pub(crate) fn exceeds(&mut self, init: impl AsFd) -> bool {
        let now = Instant::now();
        self.next = now + Self::INTERVAL;
        let Place { dir, device, limit_bytes } = &self.place;
        let free_now = Free::of(dir).unwrap_or(Free::NONE);
        self.free.raise(&free_now);
        if free_now.lost_since(&self.free) < self.slack_bytes {
            return false;
        }
        let nameless = process_of(init).map_or(0, |init| nameless(init, *device));
        let used = used_bytes(dir).saturating_add(nameless);
        self.next += now.elapsed() * WALK_SHARE;
        self.free = free_now;
        self.slack_bytes = limit_bytes.saturating_sub(used) / 2;
        used > *limit_bytes
    }
}

/// The process that a descriptor stands for; none when it is over.
fn process_of(pidfd: impl AsFd) -> Option<u32> {
    let info = format!("/proc/self/fdinfo/{}", pidfd.as_fd().as_raw_fd());
    let info = fs::read_to_string(info).ok()?;
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    pid.trim().parse().ok().filter(|pid| *pid > 0)
}

/// Bytes on disk of files on a device that have no name and that a process or one below it holds, open
/// or mapped. What ends while it is looked at holds nothing.
fn nameless(init: u32, device: u64) -> u64 {
    let (mut total, mut seen) = (0_u64, HashSet::new());
    for pid in family(init) {
        for held in ["fd", "map_files"] {
            let entries = fs::read_dir(format!("/proc/{pid}/{held}"));
            for entry in entries.into_iter().flatten().flatten() {
                // Followed: it is the held file itself, whatever its name leads to now.
                let Ok(file) = fs::metadata(entry.path()) else { continue };
                let nameless = file.is_file() && file.nlink() == 0 && file.dev() == device;
                if nameless && seen.insert(file.ino()) {
                    total = total.saturating_add(file.blocks() * BLOCK_BYTES);
                }
            }
        }
    }
    total
}

/// A process and all that descend from it. Inside a sandbox everything descends from the first one.
fn family(init: u32) -> Vec<u32> {
    let mut family = vec![init];
    let mut at = 0;
    while let Some(pid) = family.get(at).copied() {
        at += 1;
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        for thread in threads.into_iter().flatten().flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            family.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    family
}

/// What is left of a file system.
#[derive(Debug)]
struct Free {
    bytes: u64,
    /// Files that can still be made; none where the file system has no such number, as btrfs.
    files: Option<u64>,
}

impl Free {
    const ALL: Self = Self { bytes: u64::MAX, files: Some(u64::MAX) };
    const NONE: Self = Self { bytes: 0, files: Some(0) };

    fn of(path: &Path) -> Option<Self> {
        let stat = rustix::fs::statvfs(path).ok()?;
        let bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
        Some(Self { bytes, files: (stat.f_files > 0).then_some(stat.f_favail) })
    }

    /// The larger of each.
    fn raise(&mut self, now: &Self) {
        self.bytes = self.bytes.max(now.bytes);
        self.files = self.files.max(now.files);
    }

    /// How much less it is than before, in bytes as they are counted. Where files are not counted that
    /// can be any number.
    fn lost_since(&self, before: &Self) -> u64 {
        let (Some(now), Some(then)) = (self.files, before.files) else { return u64::MAX };
        let files = then.saturating_sub(now);
        before.bytes.saturating_sub(self.bytes).max(files.saturating_mul(ENTRY_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(place: Place, lost_bytes: u64) -> bool {
        let me = rustix::process::getpid();
        let me = rustix::process::pidfd_open(me, rustix::process::PidfdFlags::empty()).unwrap();
        let mut watch = DiskWatch::new(place);
        (watch.next, watch.slack_bytes) = (Instant::now(), watch.place.limit_bytes / 8);
        watch.free.bytes = Free::of(&watch.place.dir).unwrap().bytes + lost_bytes;
        watch.exceeded(&me)
    }

    fn place(dir: &Path, limit_bytes: u64) -> Place {
        Place { dir: dir.to_owned(), device: dir.metadata().unwrap().dev(), limit_bytes }
    }

    #[test]
    fn a_layer_is_over_its_limit_when_it_really_is() {
        let upper = tempfile::tempdir().unwrap();
        let look =
            |limit_bytes: u64, lost_bytes: u64| watch(place(upper.path(), limit_bytes), lost_bytes);
        fs::create_dir(upper.path().join("deep")).unwrap();
        fs::write(upper.path().join("deep/file"), vec![1; 1 << 20]).unwrap();
        std::os::unix::fs::symlink("/", upper.path().join("everything")).unwrap();
        assert!(look(64 << 10, 1 << 40));
        assert!(!look(64 << 10, 0), "no space was lost, so nothing is counted");
        assert!(!look(8 << 20, 1 << 40), "others wrote");
    }

    /// The failure: each command's watch began anew, so that each could add what no look within an eighth of
    /// the limit would count, and all of them together any number.
    #[test]
    fn what_earlier_commands_left_counts() {
        let upper = tempfile::tempdir().unwrap();
        fs::write(upper.path().join("file"), vec![1; 1 << 20]).unwrap();
        let me = rustix::process::getpid();
        let me = rustix::process::pidfd_open(me, rustix::process::PidfdFlags::empty()).unwrap();
        let mut watch = DiskWatch::new(place(upper.path(), 64 << 10));
        assert!(watch.exceeds(&me), "the first look of a sandbox counts");
        watch = DiskWatch::new(place(upper.path(), 8 << 20));
        assert!(!watch.exceeds(&me));
        assert!(watch.slack_bytes < 4 << 20);
    }

    /// The failure: files without content take no space, so a command could use up all that a file system
    /// has of files, whatever its limit.
    #[test]
    fn files_without_content_count() {
        let upper = tempfile::tempdir().unwrap();
        for number in 0..65 {
            fs::write(upper.path().join(number.to_string()), "").unwrap();
        }
        let me = rustix::process::getpid();
        let me = rustix::process::pidfd_open(me, rustix::process::PidfdFlags::empty()).unwrap();
        let look = |entries: u64, lost_files: u64| {
            let place = place(upper.path(), entries * ENTRY_BYTES);
            let files = Free::of(upper.path()).unwrap().files.map(|files| files + lost_files);
            let slack_bytes = place.limit_bytes / 8;
            let (next, free) = (Instant::now(), Free { bytes: 0, files });
            let mut watch = DiskWatch { place, free, slack_bytes, next };
            watch.exceeded(&me)
        };
        assert!(look(64, 1 << 20));
        assert!(!look(1024, 1 << 20), "others made files");
    }

    /// The failure: what was free at first was compared with for ever, so a command that had its own cache
    /// deleted, or waited for others to delete, could add as much again unseen; and where nothing
    /// could be asked, nothing was ever counted.
    #[test]
    fn what_is_freed_or_unknown_hides_nothing() {
        let at = |bytes: u64, files: Option<u64>| Free { bytes, files };
        let check = |steps: &[Free], lost: u64| {
            let mut most = at(100, Some(0));
            steps.iter().for_each(|now| most.raise(now));
            assert_eq!(steps.last().unwrap().lost_since(&most), lost);
        };
        check(&[at(60, Some(0))], 40);
        check(&[at(500, Some(0)), at(460, Some(0))], 40);
        check(&[at(500, Some(9)), at(500, Some(7))], 2 * ENTRY_BYTES);
        check(&[at(100, None)], u64::MAX);
        assert_eq!(Free::NONE.lost_since(&Free::ALL), u64::MAX);
    }

    /// The failure: a file that is deleted while it is open takes space that no walk finds, so a command
    /// could fill the disk whatever its limit.
    /// Now: it is counted where it is held, once, however many descriptors there are.
    #[test]
    fn files_without_a_name_count() {
        let upper = tempfile::tempdir().unwrap();
        let path = upper.path().join("file");
        fs::write(&path, vec![1; 1 << 20]).unwrap();
        let held = fs::File::open(&path).unwrap();
        let _again = held.try_clone().unwrap();
        fs::remove_file(&path).unwrap();
        let me = std::process::id();
        assert!(watch(place(upper.path(), 64 << 10), 1 << 40));
        assert!(used_bytes(upper.path()) < 64 << 10, "no walk finds it");
        let once = nameless(me, upper.path().metadata().unwrap().dev());
        assert!((1 << 20..2 << 20).contains(&once), "{once}");
        assert!(!watch(Place { device: 0, ..place(upper.path(), 64 << 10) }, 1 << 40));
        // In a child, its parent is looked from.
        let mut child = std::process::Command::new("sleep").arg("60").stdin(held).spawn().unwrap();
        assert!(family(me).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
