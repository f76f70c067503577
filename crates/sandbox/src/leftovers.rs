//! What a host process that died without cleaning up left behind, found by recorded identity.
//!
//! A record names the process by number, start time and boot, so a reused number is never taken
//! for it, and the prefix of every cgroup it made. Processes need no record: they end with the
//! host process by the kernel's doing, and those in a group are killed with the group.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::host::remove_leaf;
use crate::tree::remove_tree;

const RECORD: &str = "host.json";

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
        let prefix = format!("glasshouse-{pid}-{start_ticks}-");
        Some(Self { pid, start_ticks, boot_id, prefix, cgroup_parents })
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
        if !named.is_some_and(|name| name.starts_with("host-")) {
            continue;
        }
        let Ok(text) = fs::read(directory.join(RECORD)) else {
            // Another host process may just be starting; its record follows at once. A directory
            // that never gets one holds nothing but copies of public files.
            continue;
        };
        let Ok(record) = serde_json::from_slice::<Record>(&text) else {
            continue;
        };
        if record.is_alive() {
            continue;
        }
        for leaf in record.leaves() {
            if dry_run || remove_leaf(&leaf) {
                found.push(leaf);
            }
        }
        if !dry_run {
            remove_tree(&directory)?;
        }
        found.push(directory);
    }
    Ok(found)
}

impl Record {
    fn leaves(&self) -> Vec<PathBuf> {
        let ours = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            // A record that was tampered with must not point at foreign groups.
            self.prefix.starts_with("glasshouse-")
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

    #[test]
    fn a_missing_directory_is_clean() {
        assert!(sweep(Path::new("/nonexistent/run"), false).unwrap().is_empty());
    }
}
