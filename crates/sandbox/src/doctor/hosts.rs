//! Hosts that are known to stand in the way, recognised by what their files say.
//!
//! Nothing here decides anything: whether a sandbox holds is measured. These tell why one cannot be
//! made, or is weaker than it could be, and what helps on this very kind of host.

use std::fs;
use std::path::Path;

use rustix::fs::Access;

use super::Probe;
use crate::host::{Obstacle, Parents};

/// Number of CAP_SYS_ADMIN.
const SYS_ADMIN: u32 = 21;
/// Largest of the files that are read.
const MAX_BYTES: usize = 1 << 20;

/// What a host says of itself.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// Ubuntu: user namespaces of programs without a profile have no rights.
    apparmor_restricts: bool,
    /// Debian's own switch.
    userns_clone_off: bool,
    /// The number of user namespaces is limited to none.
    userns_none: bool,
    /// Whether this process may mount as it is.
    is_privileged: bool,
    /// A system call filter is in force on us already.
    is_filtered: bool,
    /// The kind of container that this is.
    container: Option<&'static str>,
    /// Paths below `/proc` that something is mounted on, or how little of it is shown.
    proc_hidden: Option<String>,
    /// Why groups of ours get no limits.
    no_limits: Option<Obstacle>,
    /// Whether the kernel has Landlock in use.
    has_landlock: bool,
}

impl Facts {
    /// Reads them on this host.
    pub(super) fn read() -> Self {
        let may_write = |path: &Path| rustix::fs::access(path, Access::WRITE_OK).is_ok();
        Self::below(Path::new("/"), &may_write)
    }

    /// Reads them below a root, which may be a modelled one: `may_write` tells of a host's path what
    /// a file in the model cannot.
    fn below(root: &Path, may_write: &dyn Fn(&Path) -> bool) -> Self {
        let text = |path: &str| -> Option<String> {
            let bytes = fs::read(root.join(path)).ok()?;
            let end = bytes.len().min(MAX_BYTES);
            Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
        };
        let is = |path: &str, value: &str| text(path).is_some_and(|found| found.trim() == value);
        let status = text("proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim).unwrap_or("")
        };
        let effective = u64::from_str_radix(field("CapEff:"), 16).unwrap_or(0);
        let groups = text("proc/self/cgroup").unwrap_or_default();
        let mounts = text("proc/self/mountinfo").unwrap_or_default();
        let ours: Vec<i32> = field("Pid:").parse().into_iter().collect();
        Self {
            apparmor_restricts: is("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
            userns_clone_off: is("proc/sys/kernel/unprivileged_userns_clone", "0"),
            userns_none: is("proc/sys/user/max_user_namespaces", "0"),
            is_privileged: effective & (1 << SYS_ADMIN) != 0,
            is_filtered: field("Seccomp:") == "2",
            container: container(root, &groups),
            proc_hidden: proc_hidden(&mounts),
            no_limits: Parents::parse(&groups, &mounts).obstacle(root, &ours, may_write),
            has_landlock: text("sys/kernel/security/lsm")
                .is_none_or(|list| list.trim().split(',').any(|name| name == "landlock")),
        }
    }

    /// One probe for each thing that may stand in the way.
    pub(super) fn probes(&self) -> Vec<Probe> {
        let probe = |name: &str, claim: &str, failure: Option<(String, &str)>| {
            Probe::new(name, claim, failure)
        };
        vec![
            probe("host-namespaces", "this user may make user namespaces", self.namespaces()),
            probe("host-container", "no container around us is in the way", self.surrounded()),
            probe("host-proc", "a private /proc can be mounted", self.proc()),
            probe("host-cgroups", "our groups can be limited", self.cgroups()),
            probe("host-landlock", "the kernel has Landlock in use", self.landlock()),
        ]
    }

    fn namespaces(&self) -> Option<(String, &'static str)> {
        if self.is_privileged {
            return None;
        }
        let (found, remedy) = if self.apparmor_restricts {
            (
                "Ubuntu's AppArmor takes the rights of user namespaces away",
                "give glasshouse a profile with `userns,` in /etc/apparmor.d, or set \
                 kernel.apparmor_restrict_unprivileged_userns=0",
            )
        } else if self.userns_clone_off {
            (
                "user namespaces are switched off",
                "set kernel.unprivileged_userns_clone=1 in /etc/sysctl.d",
            )
        } else if self.userns_none {
            ("no user namespace may be made", "raise user.max_user_namespaces in /etc/sysctl.d")
        } else {
            return None;
        };
        Some((found.to_owned(), remedy))
    }

    fn surrounded(&self) -> Option<(String, &'static str)> {
        let kind = self.container.filter(|_| self.is_filtered && !self.is_privileged)?;
        let remedy = match kind {
            "Kubernetes" => {
                "give the pod `hostUsers: false`, seccompProfile Unconfined and procMount Unmasked, \
                 or run glasshouse on the node"
            }
            _ => {
                "start the container with `--security-opt seccomp=unconfined --security-opt \
                 apparmor=unconfined --security-opt systempaths=unconfined`"
            }
        };
        Some((format!("this is a {kind} container whose filter forbids namespaces"), remedy))
    }

    fn proc(&self) -> Option<(String, &'static str)> {
        let hidden = self.proc_hidden.as_ref()?;
        let remedy = match self.container {
            Some("Kubernetes") => "give the container `procMount: Unmasked`",
            Some(_) => "start the container with `--security-opt systempaths=unconfined`",
            None => "mount /proc without hidepid and subset",
        };
        Some((format!("/proc is not whole: {hidden}"), remedy))
    }

    fn cgroups(&self) -> Option<(String, &'static str)> {
        let (found, remedy) = match self.no_limits.as_ref()? {
            Obstacle::NotDelegated(missing) => (
                format!("not delegated: {}", missing.join(", ")),
                "start it as `systemd-run --user --scope -p Delegate=yes glasshouse`; for cpu also \
                 put `Delegate=cpu memory pids` into user@.service.d",
            ),
            Obstacle::NotOurs => (
                "the group belongs to somebody else, as that of a login session does".to_owned(),
                "start it as `systemd-run --user --scope -p Delegate=yes glasshouse`",
            ),
            Obstacle::Shared => (
                "other programs are in the same group".to_owned(),
                "start it in a group of its own: `systemd-run --scope -p Delegate=yes glasshouse`, \
                 with --user where you are not root",
            ),
        };
        Some((found, remedy))
    }

    fn landlock(&self) -> Option<(String, &'static str)> {
        (!self.has_landlock).then(|| {
            (
                "it is not in the list of security modules".to_owned(),
                "add `landlock` to the kernel's `lsm=` list",
            )
        })
    }
}

fn container(root: &Path, groups: &str) -> Option<&'static str> {
    let has = |path: &str| root.join(path).exists();
    let named = |word: &str| groups.contains(word);
    if has("var/run/secrets/kubernetes.io") || named("kubepods") {
        Some("Kubernetes")
    } else if has("run/.containerenv") || named("libpod") {
        Some("Podman")
    } else if has(".dockerenv") || named("/docker") {
        Some("Docker")
    } else if named("/lxc") {
        Some("LXC")
    } else {
        None
    }
}

/// The kernel lets nobody mount a `/proc` that shows more than the one that is there.
fn proc_hidden(mounts: &str) -> Option<String> {
    let mut over = Vec::new();
    for line in mounts.lines() {
        let (Some(point), Some((_, file_system))) =
            (line.split(' ').nth(4), line.split_once(" - "))
        else {
            continue;
        };
        let mut fields = file_system.split(' ');
        let (kind, options) = (fields.next().unwrap_or(""), fields.nth(1).unwrap_or(""));
        if point == "/proc" && kind == "proc" {
            let hides = |option: &&str| {
                option.strip_prefix("hidepid=").is_some_and(|value| !matches!(value, "0" | "off"))
                    || option.starts_with("subset=")
            };
            over.extend(options.split(',').find(hides).map(str::to_owned));
        } else if let Some(below) = point.strip_prefix("/proc/") {
            // A file system that belongs there hides nothing.
            if !matches!(kind, "binfmt_misc" | "autofs" | "nfsd") {
                over.push(format!("{below} is covered"));
            }
        }
    }
    (!over.is_empty()).then(|| over.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the hosts modelled below `tests/hosts` are told: the names of the claims that fail there,
    /// with a word of each remedy.
    #[test]
    fn hosts_are_recognised() {
        let check = |host: &str, expected: &[(&str, &str)]| {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hosts").join(host);
            assert!(root.is_dir(), "{host}");
            let writable = fs::read_to_string(root.join("writable")).unwrap_or_default();
            let may_write = |path: &Path| writable.lines().any(|below| path.starts_with(below));
            let probes = Facts::below(&root, &may_write).probes();
            let failed: Vec<_> = probes.iter().filter(|probe| !probe.held()).collect();
            let names: Vec<_> = failed.iter().map(|probe| &*probe.name).collect();
            let wanted: Vec<_> = expected.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, wanted, "{host}: {failed:#?}");
            for (probe, (_, word)) in failed.iter().zip(expected) {
                assert!(probe.remedy.contains(word), "{host}: {probe:?}");
            }
        };
        check("debian-root", &[("host-cgroups", "group of its own")]);
        check("debian-session-user", &[("host-cgroups", "--user --scope")]);
        check(
            "ubuntu-24.04-user",
            &[("host-namespaces", "apparmor_restrict"), ("host-cgroups", "Delegate=cpu")],
        );
        check("debian-switched-off", &[("host-namespaces", "unprivileged_userns_clone=1")]);
        check("hardened-user", &[("host-namespaces", "max_user_namespaces")]);
        check("fedora-user-scope", &[]);
        check(
            "docker-default",
            &[
                ("host-container", "seccomp=unconfined"),
                ("host-proc", "systempaths"),
                ("host-cgroups", "Delegate"),
            ],
        );
        check("docker-privileged", &[]);
        check(
            "kubernetes-pod",
            &[("host-container", "hostUsers"), ("host-proc", "procMount"), ("host-cgroups", "")],
        );
        check("hidden-proc", &[("host-proc", "hidepid"), ("host-landlock", "lsm=")]);
    }
}
