//! Rules that no policy file can change: they protect what decides, records and approves.

use glasshouse_model::syscall::name;
use glasshouse_model::{Call, CanonicalPath, Effect, PrincipalKind};

use crate::codes;
use crate::error::{Error, Result};
use crate::glob::Components;
use crate::limits::{MAX_BUILT_INS, MAX_FILE_NAME_BYTES};
use crate::reserved::{Reserved, fold, reserved};

/// What this installation has to protect besides the workspace's own directories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Protected {
    /// Absolute host paths that nobody may reach, not even to read: `$GLASSHOUSE_HOME` with log,
    /// keys and sockets. A directory above one of them is out of reach too, since opening it
    /// would open them.
    pub host_paths: Vec<String>,
    /// Absolute host paths that nobody may change: the running program's own files.
    pub program_paths: Vec<String>,
    /// Workspace paths of the product's own bootstrap and kernel when the workspace is a checkout
    /// of the product: changes there are reviewed. Empty everywhere else.
    pub own_sources: Vec<CanonicalPath>,
}

/// [`Protected`], ready to compare.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    host_paths: Vec<Vec<String>>,
    program_paths: Vec<Vec<String>>,
    own_sources: Vec<CanonicalPath>,
}

impl Guard {
    pub(crate) fn new(protected: &Protected) -> Result<Self> {
        let all = |paths: &[String]| -> Result<Vec<Vec<String>>> {
            paths
                .iter()
                .map(|path| match host_components(path) {
                    Some(components) if !components.is_empty() => Ok(components),
                    _ => Err(Error::new(codes::PROTECTED_PATH, format!("protected path `{path}`"))
                        .why("it is not absolute, is the root, or holds `..`")),
                })
                .collect()
        };
        Ok(Self {
            host_paths: all(&protected.host_paths)?,
            program_paths: all(&protected.program_paths)?,
            own_sources: protected.own_sources.clone(),
        })
    }
}

/// One built-in rule.
pub(crate) struct BuiltIn {
    pub(crate) name: &'static str,
    pub(crate) effect: Effect,
    pub(crate) reason: &'static str,
    pub(crate) applies: fn(&Guard, &Facts<'_>) -> bool,
}

/// What the built-in rules look at, found out once a call.
pub(crate) struct Facts<'a> {
    call: &'a Call,
    /// May change something.
    changes: bool,
    names_git: bool,
    names_glasshouse: bool,
    /// A component that no file can be called.
    name_too_long: bool,
    host_path: HostPath,
}

enum HostPath {
    Absent,
    /// Relative, with `..` or with control characters.
    Unreadable,
    Components(Vec<String>),
}

impl<'a> Facts<'a> {
    pub(crate) fn new(call: &'a Call) -> Self {
        let mut facts = Self {
            call,
            changes: !READ_ONLY.contains(&call.syscall.as_str()),
            names_git: false,
            names_glasshouse: false,
            name_too_long: false,
            host_path: match call.host_path.as_deref().map(host_components) {
                None => HostPath::Absent,
                Some(None) => HostPath::Unreadable,
                Some(Some(components)) => HostPath::Components(components),
            },
        };
        for component in call.path.iter().flat_map(Components::of) {
            facts.name_too_long |= component.len() > MAX_FILE_NAME_BYTES;
            match reserved(component) {
                None => {}
                Some(Reserved::Git) => facts.names_git = true,
                Some(Reserved::Glasshouse) => facts.names_glasshouse = true,
            }
        }
        facts
    }

    /// Whether the call's host path is a protected one, lies below or beside it, or above it.
    fn reaches(&self, protected: &[Vec<String>]) -> bool {
        let HostPath::Components(path) = &self.host_path else { return false };
        protected.iter().any(|guarded| {
            let shared = guarded.len().min(path.len());
            if guarded[..shared] == path[..shared] {
                return true;
            }
            let last = guarded.len() - 1;
            path.len() > last
                && guarded[..last] == path[..last]
                && path[last]
                    .strip_prefix(guarded[last].as_str())
                    .is_some_and(|rest| SIDECARS.contains(&rest))
        })
    }

    fn is_own(&self, guard: &Guard) -> bool {
        let Some(path) = &self.call.path else { return false };
        guard.own_sources.iter().any(|own| {
            let mut parts = path.components();
            own.components().all(|want| parts.next().is_some_and(|part| fold(part) == fold(want)))
        })
    }

    /// Changes policy, rights or approvals. Compared without case: a name that only looks
    /// different is not another right.
    fn governs(&self) -> bool {
        let name = self.call.syscall.as_bytes();
        [name::POLICY_UPDATE, "approval.", "grant."].iter().any(|prefix| {
            name.get(..prefix.len()).is_some_and(|n| n.eq_ignore_ascii_case(prefix.as_bytes()))
        })
    }

    /// Asks to work without a test that failed before.
    fn asks_for_exemption(&self) -> bool {
        self.call.syscall.eq_ignore_ascii_case(name::WORKFLOW_REQUEST_EXEMPTION)
    }

    const fn by_program(&self) -> bool {
        matches!(self.call.caller.kind, PrincipalKind::Agent | PrincipalKind::Plugin)
    }
}

/// All built-in rules. Their names and reasons are part of every policy version.
pub(crate) const BUILT_INS: &[BuiltIn] = &[
    BuiltIn {
        name: "protect-glasshouse",
        effect: Effect::Deny,
        reason: "`.glasshouse` holds the policy and its records; it changes only through \
                 policy.update",
        applies: |_, facts| facts.changes && facts.names_glasshouse,
    },
    BuiltIn {
        name: "protect-git",
        effect: Effect::Deny,
        reason: "`.git` holds hooks and configuration that run programs; history changes only \
                 through git.commit",
        applies: |_, facts| facts.changes && facts.names_git,
    },
    BuiltIn {
        name: "canonical-path",
        effect: Effect::Deny,
        reason: "a path has to be one that a file can have: no name in it above 255 bytes; and on \
                 the host absolute, without `..` and control characters",
        applies: |_, facts| facts.name_too_long || matches!(facts.host_path, HostPath::Unreadable),
    },
    BuiltIn {
        name: "protect-home",
        effect: Effect::Deny,
        reason: "log, keys and sockets of Glasshouse are out of reach, also by way of a directory \
                 above them",
        applies: |guard, facts| facts.reaches(&guard.host_paths),
    },
    BuiltIn {
        name: "protect-program",
        effect: Effect::Deny,
        reason: "the running program's own files do not change",
        // A mount is read-only.
        applies: |guard, facts| {
            facts.changes
                && facts.call.syscall != name::SANDBOX_MOUNT
                && facts.reaches(&guard.program_paths)
        },
    },
    BuiltIn {
        name: "review-own-sources",
        effect: Effect::RequireReview,
        reason: "this changes the bootstrap or the kernel of Glasshouse itself",
        applies: |guard, facts| facts.changes && facts.is_own(guard),
    },
    BuiltIn {
        name: "review-policy-update",
        effect: Effect::RequireReview,
        reason: "a policy changes only after a person has seen what changes",
        applies: |_, facts| facts.call.syscall == name::POLICY_UPDATE,
    },
    BuiltIn {
        name: "review-exemption",
        effect: Effect::RequireReview,
        reason: "a person decides what needs no failing test first",
        applies: |_, facts| facts.asks_for_exemption(),
    },
    BuiltIn {
        name: "agents-never-govern",
        effect: Effect::Deny,
        reason: "agents and plugins change no policy, approve nothing and issue no grants",
        applies: |_, facts| facts.by_program() && facts.governs(),
    },
    BuiltIn {
        name: "users-may-revoke",
        effect: Effect::Allow,
        reason: "taking a right back needs no right",
        applies: |_, facts| {
            facts.call.syscall == GRANT_REVOKE && facts.call.caller.kind == PrincipalKind::User
        },
    },
];

const _: () = assert!(BUILT_INS.len() <= MAX_BUILT_INS, "built-in rules fit in one head");

/// Takes a grant or an approval back.
const GRANT_REVOKE: &str = "grant.revoke";

/// Syscalls that only look. Every other name counts as changing something, so a new or foreign
/// syscall is covered before anybody thinks of it.
const READ_ONLY: [&str; 6] = [
    name::FS_READ,
    name::FS_LIST,
    name::FS_EXISTS,
    name::SEARCH_GREP,
    name::SEARCH_GLOB,
    name::GIT_DIFF,
];

/// Files that SQLite keeps beside a database.
const SIDECARS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Components of an absolute path, folded; `None` when it is not canonical enough to judge.
fn host_components(path: &str) -> Option<Vec<String>> {
    if !path.starts_with('/') || path.chars().any(char::is_control) {
        return None;
    }
    path.split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .map(|part| (part != "..").then(|| fold(part)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_mutates_counts_as_looking() {
        for mutating in name::MUTATING {
            assert!(!READ_ONLY.contains(&mutating), "{mutating}");
        }
    }
}
