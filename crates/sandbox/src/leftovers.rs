//! What a host process that died without cleaning up left behind, found by recorded identity.
//!
//! A living host process holds its directory by a lock, which ends with it and is seen from everywhere:
//! numbers and start times mean other things in another container that shares the data directory.
//! A record in it names the process by number, start time and boot, so a reused number is never taken
//! for it, and the prefix of every cgroup it made. It goes last: a group that is still busy is found
//! by it the next time. Processes need no record: they end with the host process by the kernel's
//! doing, and those in a group are killed with the group.
//!
//! A record goes with its directory when somebody removes that. The groups without one are known by
//! their names, which hold the same identity; of them only what nobody can be using is taken.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::Access;
use serde::{Deserialize, Serialize};

use crate::host::{Parents, remove_leaves};
use crate::tree::remove_tree;
use crate::workspace::Hold;

const RECORD: &str = "host.json";
/// What the name of every host process's directory starts with.
const DIRECTORY: &str = "host-";
/// What the name of every group of ours starts with.
const GROUP: &str = "glasshouse-";
/// How long a group may be empty and yet in use: a process enters it as soon as it is made, and stays.
const EMPTY_LIMIT: Duration = Duration::from_secs(60);
/// Most groups that are looked at, of whomever.
const MAX_GROUPS: usize = 1 << 16;

/// Identity of a host process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pid: u32,
    start_ticks: u64,
    boot_id: String,
    /// What the name of each of its cgroups starts with.
    pub(crate) prefix: String,
    /// Directories in which it makes cgroups.
    cgroup_parents: Vec<PathBuf>,
}

impl Record {
    pub(crate) fn of_this_process(cgroup_parents: Vec<PathBuf>) -> Option<Self> {
        let pid = std::process::id();
        let (start_ticks, boot_id) = (start_ticks(pid)?, boot_id()?);
        let prefix = format!("{GROUP}{pid}-{start_ticks}-");
        Some(Self { pid, start_ticks, boot_id, prefix, cgroup_parents })
    }

    /// Where such a process keeps what it needs, below the run directory.
    pub(crate) fn directory(&self, run_dir: &Path) -> PathBuf {
        run_dir.join(format!("{DIRECTORY}{}-{}", self.pid, self.start_ticks))
    }

    pub(crate) fn write(&self, directory: &Path) -> io::Result<()> {
        // Written beside and renamed, so that a sweep never reads half a record.
        let unfinished = directory.join("host.json.new");
        fs::write(&unfinished, serde_json::to_vec(self)?)?;
        fs::rename(unfinished, directory.join(RECORD))
    }

    fn is_alive(&self) -> bool {
        boot_id().as_ref() == Some(&self.boot_id) && start_ticks(self.pid) == Some(self.start_ticks)
    }
}

/// Name of this start of the machine.
pub(crate) fn boot_id() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}

fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name may contain anything, so fields are counted after its closing bracket.
    let (_, fields) = stat.rsplit_once(')')?;
    let state = fields.split_whitespace().next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// Removes what dead host processes left below `run_dir`; with `dry_run` only names it.
pub(crate) fn sweep(run_dir: &Path, dry_run: bool) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(run_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let directory = entry?.path();
        let named = directory.file_name().and_then(|name| name.to_str());
        if !named.is_some_and(|name| name.starts_with(DIRECTORY)) {
            continue;
        }
        // Whoever makes the directory holds it before anything is in it, so one without a record was left
        // by a process that was killed at its start.
        let Ok(Some(_alone)) = Hold::alone(&directory) else { continue };
        let text = fs::read(directory.join(RECORD)).unwrap_or_default();
        if let Ok(record) = serde_json::from_slice::<Record>(&text) {
            if record.is_alive() {
                continue;
            }
            let leaves = record.leaves();
            let stay = if dry_run { Vec::new() } else { remove_leaves(leaves.clone()) };
            found.extend(leaves.into_iter().filter(|leaf| !stay.contains(leaf)));
            if !stay.is_empty() {
                continue;
            }
        }
        if !dry_run {
            remove_tree(&directory)?;
        }
        found.push(directory);
    }
    Ok(found)
}

/// Removes groups of dead host processes that no record names; with `dry_run` only names them.
pub(crate) fn sweep_unrecorded(dry_run: bool) -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    sweep_hierarchies(Parents::hierarchies(&mounts), EMPTY_LIMIT, dry_run)
}

fn sweep_hierarchies(roots: Vec<PathBuf>, empty_limit: Duration, dry_run: bool) -> Vec<PathBuf> {
    let (mut found, mut looked) = (Vec::new(), 0);
    let mut waiting = roots;
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if looked == MAX_GROUPS || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            looked += 1;
            let path = entry.path();
            match owner_of(&path) {
                Some((pid, ticks)) if start_ticks(pid) != Some(ticks) => {
                    if is_unused(&path, empty_limit) && (dry_run || fs::remove_dir(&path).is_ok()) {
                        found.push(path);
                    }
                }
                Some(_) => {}
                None => waiting.push(path),
            }
        }
    }
    found.sort();
    // Two controllers may share a hierarchy.
    found.dedup();
    found
}

/// Number and start time of the host process that made a group.
fn owner_of(group: &Path) -> Option<(u32, u64)> {
    let mut parts = group.file_name()?.to_str()?.strip_prefix(GROUP)?.split('-');
    let owner = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let _nest: u64 = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some(owner)
}

/// Whether nothing can be in use in a group, whoever made it: its owner may live where this process
/// cannot see it, as in another container. Nothing in it is killed, and the kernel refuses to remove
/// it if a process enters meanwhile.
fn is_unused(group: &Path, empty_limit: Duration) -> bool {
    let is_empty = fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|all| all.is_empty());
    let made = group.metadata().and_then(|meta| meta.modified()).ok();
    let is_old = made.and_then(|made| made.elapsed().ok()).is_some_and(|age| age >= empty_limit);
    let may_remove =
        group.parent().is_some_and(|at| rustix::fs::access(at, Access::WRITE_OK).is_ok());
    is_empty && is_old && may_remove
}

impl Record {
    /// Its groups that are there.
    pub(crate) fn leaves(&self) -> Vec<PathBuf> {
        let ours = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            // A record that was tampered with must not point at foreign groups.
            self.prefix.starts_with(GROUP)
                && name.is_some_and(|name| name.starts_with(&self.prefix))
        };
        let children = |parent: &PathBuf| {
            fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path())
        };
        self.cgroup_parents.iter().flat_map(children).filter(ours).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_dead_process_left_is_removed() {
        let check = |change: &dyn Fn(&mut Record), swept: bool| {
            let run = tempfile::tempdir().unwrap();
            let groups = tempfile::tempdir().unwrap();
            let mut record = Record::of_this_process(vec![groups.path().to_owned()]).unwrap();
            let leaf = groups.path().join(format!("{}s1", record.prefix));
            let foreign = groups.path().join("foreign");
            fs::create_dir(&leaf).unwrap();
            fs::create_dir(&foreign).unwrap();
            change(&mut record);
            let directory = run.path().join("host-1");
            fs::create_dir(&directory).unwrap();
            record.write(&directory).unwrap();
            let named = sweep(run.path(), true).unwrap();
            assert!(leaf.exists() && directory.exists(), "a dry run removes nothing");
            let removed = sweep(run.path(), false).unwrap();
            assert_eq!(named, removed);
            assert_eq!(removed, if swept { vec![leaf.clone(), directory] } else { vec![] });
            assert_eq!(leaf.exists(), !swept);
            assert!(foreign.exists());
        };
        check(&|_| {}, false);
        check(&|record| record.start_ticks += 1, true);
        check(&|record| record.boot_id = "another boot".into(), true);
        check(&|record| record.pid = u32::MAX, true);
    }

    /// The failure: a process was looked up by its number, which means another one, or none, in another
    /// container with the same data directory: what lives there was swept, its sandboxes killed.
    #[test]
    fn what_is_held_lives_wherever_its_process_is() {
        let run = tempfile::tempdir().unwrap();
        let mut record = Record::of_this_process(Vec::new()).unwrap();
        record.start_ticks += 1;
        let directory = record.directory(run.path());
        let held = Hold::take(&directory).unwrap();
        record.write(&directory).unwrap();
        assert_eq!(sweep(run.path(), false).unwrap(), Vec::<PathBuf>::new());
        drop(held);
        assert_eq!(sweep(run.path(), false).unwrap(), [directory]);
    }

    /// The failure: what a host process left that was killed before it had written its record stayed for
    /// good.
    #[test]
    fn a_directory_without_a_record_goes_unless_somebody_holds_it() {
        let run = tempfile::tempdir().unwrap();
        let directory = run.path().join("host-1-1");
        let held = Hold::take(&directory).unwrap();
        fs::create_dir(directory.join("etc")).unwrap();
        assert_eq!(sweep(run.path(), false).unwrap(), Vec::<PathBuf>::new());
        drop(held);
        assert_eq!(sweep(run.path(), true).unwrap(), vec![directory.clone()]);
        assert_eq!(sweep(run.path(), false).unwrap(), [directory]);
    }

    /// The failure: a group that was still busy lost its record, and stayed for good.
    #[test]
    fn a_record_stays_as_long_as_a_group_does() {
        let run = tempfile::tempdir().unwrap();
        let groups = tempfile::tempdir().unwrap();
        let mut record = Record::of_this_process(vec![groups.path().to_owned()]).unwrap();
        let [busy, idle] = ["1", "2"].map(|n| groups.path().join(format!("{}{n}", record.prefix)));
        // What keeps a directory from being removed here stands in for a process that does not end.
        fs::create_dir_all(busy.join("child")).unwrap();
        fs::create_dir(&idle).unwrap();
        record.start_ticks += 1;
        let directory = run.path().join("host-1");
        fs::create_dir(&directory).unwrap();
        record.write(&directory).unwrap();
        assert_eq!(sweep(run.path(), false).unwrap(), [idle]);
        assert_eq!(sweep(run.path(), false).unwrap(), Vec::<PathBuf>::new());
        assert!(busy.exists() && directory.exists());
        fs::remove_dir(busy.join("child")).unwrap();
        assert_eq!(sweep(run.path(), false).unwrap(), [busy, directory.clone()]);
        assert!(!directory.exists());
    }

    #[test]
    fn of_groups_without_a_record_only_what_nobody_can_use_is_taken() {
        let (pid, ticks) = (std::process::id(), start_ticks(std::process::id()).unwrap());
        let check = |name: &str, members: &str, empty_limit: Duration, taken: bool| {
            let root = tempfile::tempdir().unwrap();
            // The file system has this file in every group, and removes it with the group.
            let group = root.path().join("user").join(name);
            fs::create_dir_all(&group).unwrap();
            fs::write(group.join("cgroup.procs"), members).unwrap();
            let named = sweep_hierarchies(vec![root.path().to_owned()], empty_limit, true);
            assert_eq!(named, if taken { vec![group] } else { vec![] }, "{name} {members}");
        };
        let dead = format!("glasshouse-{pid}-{}-1", ticks + 1);
        check(&dead, "", Duration::ZERO, true);
        check(&dead, "1\n", Duration::ZERO, false);
        check(&dead, "", EMPTY_LIMIT, false);
        check(&format!("glasshouse-{pid}-{ticks}-1"), "", Duration::ZERO, false);
        for foreign in ["glasshouse-owner", "glasshouse-1-2", "glasshouse-1-2-3-4", "other-1-2-3"] {
            check(foreign, "", Duration::ZERO, false);
        }
    }

    #[test]
    fn a_missing_directory_is_clean() {
        assert!(sweep(Path::new("/nonexistent/run"), false).unwrap().is_empty());
    }
}
