//! What is really enforced: read back from inside a sandbox, judged outside.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{CallList, Template};

/// How much of the isolation holds, from most to least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Nothing may run.
    Refused,
    /// Everything but Landlock (and perhaps layers and cgroups).
    NoLandlock,
    /// Everything but layers of its own over the host's directories (and perhaps cgroups): locks,
    /// watches, pipes and sockets there are shared with the host.
    NoLayers,
    /// Everything but cgroup limits.
    NoCgroup,
    /// Every layer.
    Full,
}

impl Level {
    /// Every level, from least.
    pub const ALL: [Self; 5] =
        [Self::Refused, Self::NoLandlock, Self::NoLayers, Self::NoCgroup, Self::Full];
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "refused",
            Self::NoLandlock => "no-landlock",
            Self::NoLayers => "no-layers",
            Self::NoCgroup => "no-cgroup",
            Self::Full => "full",
        })
    }
}

/// Limits as the cgroup files say them; absent where no controller could be used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupFacts {
    /// Memory limit.
    pub memory_bytes: Option<u64>,
    /// Process limit, the sandbox's own two processes included.
    pub pids: Option<u64>,
    /// Processor limit.
    pub cpu_millis: Option<u64>,
    /// Whether the group can be killed as one.
    pub kill: bool,
}

/// Who the sandbox is to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Privilege {
    /// Built by root, then given away to an unprivileged host user.
    Root,
    /// Built and run by an ordinary user.
    Rootless,
}

/// What the first process of a sandbox read about itself after it was confined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attestation {
    /// How it was built.
    pub privilege: Privilege,
    /// `NoNewPrivs` of `/proc/self/status`.
    pub no_new_privs: bool,
    /// `Seccomp` of `/proc/self/status`; 2 is a filter.
    pub seccomp_mode: u32,
    /// Installed filters.
    pub seccomp_filters: u32,
    /// Capability sets (`CapInh`, `CapPrm`, `CapEff`, `CapBnd`, `CapAmb`) that are not empty.
    pub capabilities_left: Vec<String>,
    /// Namespace inode numbers by kind.
    pub namespaces: BTreeMap<String, u64>,
    /// Kinds of namespace that the process outside shares; must be empty.
    pub namespaces_shared: Vec<String>,
    /// `uid_map` as seen inside.
    pub uid_map: String,
    /// Landlock version in force; 0 without Landlock.
    pub landlock_abi: u32,
    /// Whether everything of the host is seen through layers of the sandbox's own, which share
    /// neither locks nor watches, pipes nor sockets with it.
    #[serde(default)]
    pub layered: bool,
    /// Cgroup limits.
    pub cgroup: CgroupFacts,
    /// System calls in force instead of those of the template's profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<CallList>,
    /// What was asked for.
    pub requested: Template,
    /// The level that the last examination of this host reached, where it found less than is read
    /// back here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examined: Option<Level>,
}

/// Processes of ours in every sandbox's cgroup: its first process and the one that cloned it.
pub(crate) const OWN_PROCESSES: u64 = 2;

/// Namespaces that every sandbox must own.
pub(crate) const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

impl Attestation {
    /// The level reached.
    #[must_use]
    pub fn level(&self) -> Level {
        self.read_back().min(self.examined.unwrap_or(Level::Full))
    }

    fn read_back(&self) -> Level {
        if self.missing().is_some() {
            return Level::Refused;
        }
        if self.landlock_abi == 0 {
            return Level::NoLandlock;
        }
        if !self.layered {
            return Level::NoLayers;
        }
        let wanted = &self.requested;
        let held = self.cgroup.memory_bytes.is_some_and(|found| found <= wanted.memory_bytes)
            && self
                .cgroup
                .pids
                .is_some_and(|found| found <= u64::from(wanted.max_pids) + OWN_PROCESSES)
            && self.cgroup.cpu_millis.is_some_and(|found| found <= u64::from(wanted.cpu_millis));
        if held { Level::Full } else { Level::NoCgroup }
    }

    /// The first indispensable layer that does not hold.
    #[must_use]
    pub fn missing(&self) -> Option<&'static str> {
        let owned = NAMESPACES.iter().all(|kind| self.namespaces.contains_key(*kind));
        if !self.no_new_privs {
            Some("no_new_privs")
        } else if self.seccomp_mode != 2 {
            Some("seccomp")
        } else if !self.capabilities_left.is_empty() {
            Some("capabilities")
        } else if !owned || !self.namespaces_shared.is_empty() {
            Some("namespaces")
        } else if self.examined == Some(Level::Refused) {
            Some("what an examination attacked (`glasshouse doctor` tells)")
        } else {
            None
        }
    }
}

impl fmt::Display for Attestation {
    /// The form stamped on events: `native:full`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "native:{}", self.level())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TemplateName;

    #[test]
    fn the_level_is_what_the_facts_say() {
        let template = TemplateName::CodeExecutor.template();
        let full = Attestation {
            privilege: Privilege::Root,
            no_new_privs: true,
            seccomp_mode: 2,
            seccomp_filters: 2,
            capabilities_left: vec![],
            namespaces: NAMESPACES.iter().map(|kind| ((*kind).to_owned(), 1)).collect(),
            namespaces_shared: vec![],
            uid_map: "1000 100000 1".into(),
            landlock_abi: 7,
            layered: true,
            cgroup: CgroupFacts {
                memory_bytes: Some(template.memory_bytes),
                pids: Some(102),
                cpu_millis: Some(1000),
                kill: true,
            },
            calls: None,
            requested: template,
            examined: None,
        };
        let check = |change: &dyn Fn(&mut Attestation), expected: &str| {
            let mut found = full.clone();
            change(&mut found);
            assert_eq!(found.to_string(), expected);
        };
        check(&|_| {}, "native:full");
        check(&|a| a.examined = Some(Level::NoCgroup), "native:no-cgroup");
        check(&|a| a.examined = Some(Level::Refused), "native:refused");
        check(&|a| a.cgroup.memory_bytes = None, "native:no-cgroup");
        check(&|a| a.cgroup.memory_bytes = Some(u64::MAX), "native:no-cgroup");
        check(&|a| a.cgroup.pids = Some(103), "native:no-cgroup");
        check(&|a| a.cgroup.cpu_millis = None, "native:no-cgroup");
        check(&|a| a.layered = false, "native:no-layers");
        check(&|a| (a.layered, a.cgroup.pids) = (false, None), "native:no-layers");
        check(&|a| (a.layered, a.landlock_abi) = (false, 0), "native:no-landlock");
        check(&|a| a.landlock_abi = 0, "native:no-landlock");
        check(&|a| a.no_new_privs = false, "native:refused");
        check(&|a| a.seccomp_mode = 0, "native:refused");
        check(&|a| a.capabilities_left = vec!["CapEff".into()], "native:refused");
        check(&|a| a.namespaces_shared = vec!["net".into()], "native:refused");
        check(&|a| a.namespaces.clear(), "native:refused");
    }
}
