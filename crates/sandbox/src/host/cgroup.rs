//! Cgroup leaves under the caller's own groups: version 1, version 2 and both at once.
//!
//! Groups of other programs are never touched: a leaf is only made below the group this process
//! is in, and only names with our prefix are removed.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::attest::{CgroupFacts, OWN_PROCESSES};
use crate::template::Template;

/// Length of a processor quota period; the kernel's own default.
const CPU_PERIOD_US: u64 = 100_000;

/// How long an emptied group may stay busy: the kernel finishes exits asynchronously.
const REMOVE_LIMIT: Duration = Duration::from_millis(500);

/// Controllers that carry a limit.
const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpu"];

/// Where leaves can be made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Parents {
    /// Version 1: controller and our own group's directory.
    v1: Vec<(&'static str, PathBuf)>,
    /// Version 2: our own group's directory.
    v2: Option<PathBuf>,
}

impl Parents {
    /// Finds this process's own groups.
    pub(crate) fn find() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut found = Self::parse(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
        let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
        let ours = [i32::try_from(std::process::id()).unwrap_or(0), parent.unwrap_or(0)];
        if found.v1.is_empty() {
            found.v2 = found.v2.map(|own| delegate(own, &ours));
        }
        found
    }

    /// The groups that the text of `/proc/self/cgroup` names, at the places of `/proc/self/mountinfo`.
    pub(crate) fn parse(membership: &str, mountinfo: &str) -> Self {
        let mut found = Self::default();
        for line in membership.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if controllers.is_empty() {
                found.v2 = directory(mountinfo, "cgroup2", None, Some(path));
                continue;
            }
            for name in CONTROLLERS {
                if controllers.split(',').any(|controller| controller == name) {
                    let at = directory(mountinfo, "cgroup", Some(name), Some(path));
                    found.v1.extend(at.map(|at| (name, at)));
                }
            }
        }
        found
    }

    /// Why leaves here get no limits, as far as files below `root` say; `ours` are the numbers of
    /// our own processes. Groups of version 1 have no such conditions.
    pub(crate) fn obstacle(
        &self,
        root: &Path,
        ours: &[i32],
        may_write: &dyn Fn(&Path) -> bool,
    ) -> Option<Obstacle> {
        if !self.v1.is_empty() {
            return None;
        }
        let Some(own) = self.v2.as_ref().map(|own| home_of(own)) else {
            return Some(Obstacle::NotDelegated(CONTROLLERS.to_vec()));
        };
        let read = |name: &str| {
            let below = own.strip_prefix("/").unwrap_or(own).join(name);
            fs::read_to_string(root.join(below)).unwrap_or_default()
        };
        let lacks = |list: String| -> Vec<&'static str> {
            let has = |name: &&str| list.split_whitespace().any(|found| found == *name);
            CONTROLLERS.into_iter().filter(|name| !has(name)).collect()
        };
        let missing = lacks(read("cgroup.controllers"));
        if !missing.is_empty() {
            return Some(Obstacle::NotDelegated(missing));
        }
        let is_enabled = lacks(read("cgroup.subtree_control")).is_empty();
        let needed = ["", "cgroup.procs", "cgroup.subtree_control"].map(|name| own.join(name));
        if !needed.iter().take(if is_enabled { 1 } else { needed.len() }).all(|at| may_write(at)) {
            return Some(Obstacle::NotOurs);
        }
        let members = read("cgroup.procs");
        let is_foreign = |pid: &str| pid.parse().is_ok_and(|pid| !ours.contains(&pid));
        (!is_enabled && members.lines().any(is_foreign)).then_some(Obstacle::Shared)
    }

    /// Where the hierarchies that leaves are made in are mounted: `mountinfo` is the text of
    /// `/proc/self/mountinfo`.
    pub(crate) fn hierarchies(mountinfo: &str) -> Vec<PathBuf> {
        let v1 = CONTROLLERS.map(|name| directory(mountinfo, "cgroup", Some(name), None));
        v1.into_iter().chain([directory(mountinfo, "cgroup2", None, None)]).flatten().collect()
    }

    /// Directories in which leaves are made.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        self.v1.iter().map(|(_, path)| path.clone()).chain(self.v2.clone()).collect()
    }

    /// Makes a leaf in every hierarchy that allows it, without limits yet.
    pub(crate) fn make(&self, name: &str) -> Group {
        let mut group = Group::default();
        for (controller, parent) in &self.v1 {
            let leaf = parent.join(name);
            if fs::create_dir(&leaf).is_err() {
                continue;
            }
            match OpenOptions::new().write(true).open(leaf.join("cgroup.procs")) {
                Ok(join) => {
                    group.join.push(join);
                    group.gauge_v1(controller, &leaf);
                    group.leaves.push((controller, leaf));
                }
                // Not ours to use; an empty directory is easily given back.
                Err(_) => drop(fs::remove_dir(&leaf)),
            }
        }
        if let Some(parent) = &self.v2 {
            group.add_v2(&parent.join(name));
        }
        group
    }
}

/// Why the leaves of a group of version 2 get no limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// These controllers were not handed to the group.
    NotDelegated(Vec<&'static str>),
    /// Somebody else decides what the group hands on, as with the scope of a login session.
    NotOurs,
    /// Foreign processes are in the group, and those are never moved.
    Shared,
}

/// The group that leaves belong below: not the one that an earlier host process moved us to.
fn home_of(own: &Path) -> &Path {
    let moved = own.file_name().is_some_and(|name| name == OWNERS);
    own.parent().filter(|_| moved).unwrap_or(own)
}

/// Where this program's own processes are moved to, because a group of version 2 that hands
/// controllers to its children may have no process itself.
const OWNERS: &str = "glasshouse-owner";

/// Makes controllers available to leaves of `own`, if the group holds nothing but processes of
/// `ours`: foreign ones are never moved. Answers where leaves belong. When it cannot be done the
/// leaves have no limits, which their facts say.
fn delegate(own: PathBuf, ours: &[i32]) -> PathBuf {
    let home = home_of(&own);
    if home != own {
        // An earlier host process of this owner has done it.
        return home.to_owned();
    }
    let read = |name: &str| fs::read_to_string(own.join(name)).unwrap_or_default();
    let available = read("cgroup.controllers");
    let enabled = read("cgroup.subtree_control");
    let missing: Vec<&str> = CONTROLLERS
        .into_iter()
        .filter(|name| available.split_whitespace().any(|found| found == *name))
        .filter(|name| !enabled.split_whitespace().any(|found| found == *name))
        .collect();
    let members: Vec<i32> = read("cgroup.procs").lines().filter_map(|p| p.parse().ok()).collect();
    if missing.is_empty() || !members.iter().all(|pid| ours.contains(pid)) {
        return own;
    }
    let owners = own.join(OWNERS);
    let moved = match fs::create_dir(&owners) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => members
            .iter()
            .try_for_each(|pid| fs::write(owners.join("cgroup.procs"), pid.to_string())),
    };
    if moved.is_ok() {
        let wanted: Vec<String> = missing.iter().map(|name| format!("+{name}")).collect();
        let _ = fs::write(own.join("cgroup.subtree_control"), wanted.join(" "));
    }
    own
}

/// The directory of the group `path`, or without one of all that the mount shows.
fn directory(
    mountinfo: &str,
    kind: &str,
    controller: Option<&str>,
    path: Option<&str>,
) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?, mount.next()?);
        let mut file_system = file_system.split(' ');
        let named = file_system.next()? == kind
            && controller.is_none_or(|wanted| {
                file_system.nth(1).is_some_and(|o| o.split(',').any(|option| option == wanted))
            });
        // With a cgroup namespace the mount may show only part of the hierarchy.
        let below = Path::new(path.unwrap_or(root)).strip_prefix(root).ok()?;
        named.then(|| Path::new(point).join(below))
    })
}

fn limit_v1(controller: &str, leaf: &Path, template: &Template) -> io::Result<()> {
    match controller {
        "memory" => {
            let limit = template.memory_bytes.to_string();
            // Absent when the kernel does not account swap; then there is none to limit.
            let with_swap = leaf.join("memory.memsw.limit_in_bytes");
            let counts_swap = with_swap.exists();
            if counts_swap {
                // It may never be the smaller of both, so a raise has to begin here; when the
                // limit is being lowered this fails and is made good below.
                let _ = fs::write(&with_swap, &limit);
            }
            fs::write(leaf.join("memory.limit_in_bytes"), &limit)?;
            if counts_swap { fs::write(with_swap, limit) } else { Ok(()) }
        }
        "pids" => fs::write(leaf.join("pids.max"), pids(template)),
        _ => {
            fs::write(leaf.join("cpu.cfs_period_us"), CPU_PERIOD_US.to_string())?;
            fs::write(leaf.join("cpu.cfs_quota_us"), quota(template).to_string())
        }
    }
}

fn limit_v2(leaf: &Path, template: &Template) {
    // Each may be missing: a controller has to be delegated to us. The facts tell.
    let _ = fs::write(leaf.join("memory.max"), template.memory_bytes.to_string());
    let _ = fs::write(leaf.join("memory.swap.max"), "0");
    let _ = fs::write(leaf.join("pids.max"), pids(template));
    let _ = fs::write(leaf.join("cpu.max"), format!("{} {CPU_PERIOD_US}", quota(template)));
}

fn pids(template: &Template) -> String {
    (u64::from(template.max_pids) + OWN_PROCESSES).to_string()
}

fn quota(template: &Template) -> u64 {
    u64::from(template.cpu_millis) * CPU_PERIOD_US / 1000
}

/// The groups of one sandbox, with their gauges open so that they can be read from inside.
#[derive(Debug, Default)]
pub(crate) struct Group {
    leaves: Vec<(&'static str, PathBuf)>,
    join: Vec<File>,
    unified: Option<(PathBuf, OwnedFd)>,
    memory_limit: Option<File>,
    pids_limit: Option<File>,
    cpu_quota: Option<File>,
    out_of_memory: Option<File>,
    pids_events: Option<File>,
    memory_peak: Option<File>,
    kill: bool,
}

impl Group {
    fn gauge_v1(&mut self, controller: &str, leaf: &Path) {
        let open = |name: &str| File::open(leaf.join(name)).ok();
        match controller {
            "memory" => {
                self.memory_limit = open("memory.limit_in_bytes");
                self.out_of_memory = open("memory.oom_control");
                self.memory_peak = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open(leaf.join("memory.max_usage_in_bytes"))
                    .ok();
            }
            "pids" => {
                self.pids_limit = open("pids.max");
                self.pids_events = open("pids.events");
            }
            _ => self.cpu_quota = open("cpu.cfs_quota_us"),
        }
    }

    fn add_v2(&mut self, leaf: &Path) {
        if fs::create_dir(leaf).is_err() {
            return;
        }
        let Ok(directory) = File::open(leaf) else {
            let _ = fs::remove_dir(leaf);
            return;
        };
        self.gauge_v2(leaf);
        self.unified = Some((leaf.to_owned(), directory.into()));
    }

    fn gauge_v2(&mut self, leaf: &Path) {
        let open = |name: &str| File::open(leaf.join(name)).ok();
        // A hierarchy of version 1 that already carries a limit keeps it.
        self.memory_limit = self.memory_limit.take().or_else(|| open("memory.max"));
        self.out_of_memory = self.out_of_memory.take().or_else(|| open("memory.events"));
        self.memory_peak = self.memory_peak.take().or_else(|| open("memory.peak"));
        self.pids_limit = self.pids_limit.take().or_else(|| open("pids.max"));
        self.pids_events = self.pids_events.take().or_else(|| open("pids.events"));
        self.cpu_quota = self.cpu_quota.take().or_else(|| open("cpu.max"));
        self.kill = leaf.join("cgroup.kill").exists();
    }

    /// Sets the limits; false when a group that had them before could not be changed. What cannot
    /// be limited at all is visible in [`Group::facts`], which reads the files back.
    pub(crate) fn limit(&self, template: &Template) -> bool {
        if let Some((leaf, _)) = &self.unified {
            limit_v2(leaf, template);
        }
        let mut leaves = self.leaves.iter();
        leaves.all(|(controller, leaf)| limit_v1(controller, leaf, template).is_ok())
    }

    /// Whether this process is the only one in it.
    pub(crate) fn holds_only(&self, pid: i32) -> bool {
        let alone = |leaf: &Path| {
            fs::read_to_string(leaf.join("cgroup.procs"))
                .is_ok_and(|members| members.trim() == pid.to_string())
        };
        self.paths().all(alone)
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        let v1 = self.leaves.iter().map(|(_, leaf)| leaf.as_path());
        v1.chain(self.unified.as_ref().map(|(leaf, _)| leaf.as_path()))
    }

    /// The group of version 2 that a new process starts in.
    pub(crate) fn unified(&self) -> Option<BorrowedFd<'_>> {
        self.unified.as_ref().map(|(_, directory)| directory.as_fd())
    }

    /// Moves the calling process into every group of version 1.
    pub(crate) fn join(&self) -> io::Result<()> {
        self.join.iter().try_for_each(|procs| procs.write_all_at(b"0", 0))
    }

    /// The descriptors that the first process still needs.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        let gauges = [
            &self.memory_limit,
            &self.pids_limit,
            &self.cpu_quota,
            &self.out_of_memory,
            &self.pids_events,
            &self.memory_peak,
        ];
        gauges.into_iter().flatten().map(AsRawFd::as_raw_fd).collect()
    }

    /// What the files say now.
    pub(crate) fn facts(&self) -> CgroupFacts {
        let number = |file: &Option<File>| first_number(&read(file.as_ref()?)?);
        CgroupFacts {
            memory_bytes: number(&self.memory_limit),
            pids: number(&self.pids_limit),
            cpu_millis: self.cpu_quota.as_ref().and_then(|file| {
                // Version 1: microseconds a period; version 2: the same and the period.
                first_number(&read(file)?).map(|quota| quota * 1000 / CPU_PERIOD_US)
            }),
            kill: self.kill,
        }
    }

    /// How often the kernel killed for memory, and refused a process.
    pub(crate) fn counters(&self) -> Counters {
        let count = |file: &Option<File>, key: &str| {
            let text = file.as_ref().and_then(read).unwrap_or_default();
            text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok()).unwrap_or(0)
        };
        Counters {
            memory_kills: count(&self.out_of_memory, "oom_kill "),
            pids_refused: count(&self.pids_events, "max "),
        }
    }

    /// Starts a new peak measurement where the kernel can.
    pub(crate) fn reset_peak(&self) {
        if let Some(file) = &self.memory_peak {
            let _ = file.write_all_at(b"0", 0);
        }
    }

    /// Most memory since the last reset.
    pub(crate) fn peak_bytes(&self) -> Option<u64> {
        first_number(&read(self.memory_peak.as_ref()?)?)
    }

    /// Kills everything in the group and removes it. A leaf that stays busy is found again when the host
    /// process ends, and after that by the next sweep.
    pub(crate) fn remove(&self) {
        let _ = remove_leaves(self.paths().map(Path::to_owned).collect());
    }
}

/// Counters that tell whether a limit was hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) memory_kills: u64,
    pub(crate) pids_refused: u64,
}

/// Kills what is in leaves of ours and removes them; answers those that stay.
pub(crate) fn remove_leaves(leaves: Vec<PathBuf>) -> Vec<PathBuf> {
    // They are emptied by the same exits, so they share the wait.
    let until = Instant::now() + REMOVE_LIMIT;
    leaves.into_iter().filter(|leaf| !remove_leaf(leaf, until)).collect()
}

/// True when it is gone.
fn remove_leaf(leaf: &Path, until: Instant) -> bool {
    loop {
        match fs::remove_dir(leaf) {
            Ok(()) => return true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            // Time empties a group; it gives nobody a right.
            Err(error) if error.kind() != io::ErrorKind::ResourceBusy => return false,
            Err(_) => {}
        }
        if fs::write(leaf.join("cgroup.kill"), "1").is_err() {
            kill_members(leaf);
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Version 1 cannot kill a group, so each member is held by a pidfd, checked to be still a
/// member, then killed: a number that was reused in between is not.
fn kill_members(leaf: &Path) {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    let members = || -> Vec<i32> {
        let text = fs::read_to_string(leaf.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    for pid in members() {
        let Some(Ok(pidfd)) = Pid::from_raw(pid).map(|pid| pidfd_open(pid, PidfdFlags::empty()))
        else {
            continue;
        };
        if members().contains(&pid) {
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
        }
    }
}

fn read(file: &File) -> Option<String> {
    // Gauge files are one short block; reading at 0 makes the kernel produce fresh text.
    let mut buffer = [0; 512];
    let length = file.read_at(&mut buffer, 0).ok()?;
    Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TemplateName;

    const MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 /pod /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw";

    #[test]
    fn our_own_groups_are_found_in_every_layout() {
        let check = |membership: &str, v1: &[(&'static str, &str)], v2: Option<&str>| {
            let found = Parents::parse(membership, MOUNTS);
            let v1: Vec<_> = v1.iter().map(|(name, path)| (*name, PathBuf::from(path))).collect();
            assert_eq!(found, Parents { v1, v2: v2.map(PathBuf::from) }, "{membership}");
        };
        check("", &[], None);
        check("0::/user/a", &[], Some("/sys/fs/cgroup/unified/user/a"));
        check("4:memory:/a", &[("memory", "/sys/fs/cgroup/memory/a")], None);
        check("1:cpu,cpuacct:/", &[("cpu", "/sys/fs/cgroup/cpu")], None);
        check("8:pids:/pod/x", &[("pids", "/sys/fs/cgroup/pids/x")], None);
        check("8:pids:/elsewhere", &[], None);
        check("7:blkio:/\n0::/", &[], Some("/sys/fs/cgroup/unified"));
        let hierarchies = Parents::hierarchies(MOUNTS);
        let expected =
            ["memory", "pids", "cpu", "unified"].map(|name| format!("/sys/fs/cgroup/{name}"));
        assert_eq!(hierarchies, expected.map(PathBuf::from));
        assert_eq!(Parents::hierarchies(""), Vec::<PathBuf>::new());
    }

    #[test]
    fn version_2_limits_are_written_and_read_back() {
        // A directory stands in for the file system: what is checked is which file gets what.
        let parent = tempfile::tempdir().unwrap();
        let parents = Parents { v1: vec![], v2: Some(parent.path().to_owned()) };
        let group = parents.make("leaf");
        assert!(group.limit(&TemplateName::AiProvider.template()));
        let text = |name: &str| fs::read_to_string(parent.path().join("leaf").join(name)).unwrap();
        assert_eq!(text("memory.max"), (256u64 << 20).to_string());
        assert_eq!(text("memory.swap.max"), "0");
        assert_eq!(text("pids.max"), "12");
        assert_eq!(text("cpu.max"), "50000 100000");
        // The file system has these files from the start; here they had to be made first.
        let mut group = Group::default();
        fs::rename(parent.path().join("leaf"), parent.path().join("ready")).unwrap();
        group.gauge_v2(&parent.path().join("ready"));
        let expected = CgroupFacts {
            memory_bytes: Some(256 << 20),
            pids: Some(12),
            cpu_millis: Some(500),
            kill: false,
        };
        assert_eq!(group.facts(), expected);
    }

    #[test]
    fn controllers_are_delegated_only_when_nobody_else_is_in_the_group() {
        let check = |members: &str, controllers: &str, expected: &str| {
            let own = tempfile::tempdir().unwrap();
            let file = |name: &str| own.path().join(name);
            fs::write(file("cgroup.controllers"), controllers).unwrap();
            fs::write(file("cgroup.subtree_control"), "").unwrap();
            fs::write(file("cgroup.procs"), members).unwrap();
            assert_eq!(delegate(own.path().to_owned(), &[10, 11]), own.path());
            assert_eq!(fs::read_to_string(file("cgroup.subtree_control")).unwrap(), expected);
            assert_eq!(file(OWNERS).exists(), !expected.is_empty());
            assert_eq!(delegate(file(OWNERS), &[10, 11]), own.path());
        };
        check("10\n11\n", "cpuset cpu io memory pids\n", "+memory +pids +cpu");
        check("10\n11\n", "memory\n", "+memory");
        check("10\n11\n12\n", "cpu memory pids\n", "");
        check("10\n", "\n", "");
    }

    #[test]
    fn no_delegation_is_no_limit_and_no_error() {
        let parents = Parents { v1: vec![("memory", "/proc/none".into())], v2: None };
        let group = parents.make("leaf");
        assert!(group.limit(&TemplateName::Script.template()));
        assert_eq!(group.facts(), CgroupFacts::default());
        group.join().unwrap();
    }
}
