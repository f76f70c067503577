//! One rule, and when it matches a call. This module is the meaning of a policy; the index only
//! spares it work.

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_model::suggest;
use glasshouse_model::syscall::name;
use glasshouse_model::{Call, ChangeClass, Effect, PrincipalKind, Rate};

use crate::command::Seen;
use crate::network::{HostPattern, HttpPathPattern};
use crate::patterns::PathPatterns;
use crate::relation::glob_covers;

/// Most pairs of path patterns of one list that are compared; a remark is not worth more.
const MAX_COMPARED: usize = 4_096;

/// Every syscall that Glasshouse makes or will.
pub(crate) const KNOWN_SYSCALLS: &[&str] = &[
    name::FS_READ,
    name::FS_LIST,
    name::FS_EXISTS,
    name::FS_WRITE,
    name::FS_EDIT,
    name::FS_DELETE,
    name::SEARCH_GREP,
    name::SEARCH_GLOB,
    name::SHELL_RUN,
    name::TEST_RUN,
    name::GIT_DIFF,
    name::GIT_COMMIT,
    name::MODEL_CALL,
    name::NET_CONNECT,
    name::PLAN_COMPLETE,
    name::WORKFLOW_REQUEST_EXEMPTION,
    name::TOOLS_LOAD,
    name::UI_RENDER,
    name::UI_IMPORT,
    "ui.open",
    "ui.call",
    name::SANDBOX_MOUNT,
    name::POLICY_UPDATE,
    name::SESSION_SET_MODE,
    name::SESSION_FORK,
    name::SESSION_MERGE,
    name::SESSION_IMPORT,
    name::SESSION_CLOSE,
    name::SESSION_DELETE,
    name::MERGE_APPLY,
];

/// A name that no syscall can have.
pub(crate) struct NoSyscall {
    pub(crate) why: &'static str,
    /// What was probably meant.
    pub(crate) meant: Option<&'static str>,
}

/// Checks a name of a rule. What plugins and servers of tools bring has names of its own, in namespaces of
/// their own; in those of Glasshouse there is what there is, and nothing looks like one of its names.
pub(crate) fn check_syscall(name: &str) -> Result<(), NoSyscall> {
    if KNOWN_SYSCALLS.contains(&name) {
        return Ok(());
    }
    if name == name::WEB_FETCH {
        let why = "that is a tool; what it asks for is a connection";
        return Err(NoSyscall { why, meant: Some(name::NET_CONNECT) });
    }
    let meant = suggest::nearest(name, KNOWN_SYSCALLS.iter().copied());
    let space = |name: &str| name.split_once(['.', ':', '/']).map(|(space, _)| space.to_owned());
    let why = match space(name) {
        _ if meant.is_some() => "no syscall has this name",
        None => "a syscall has a namespace, such as `fs.write`",
        own if KNOWN_SYSCALLS.iter().any(|known| space(known) == own) => {
            "this namespace is of Glasshouse, and holds no such syscall"
        }
        Some(_) => return Ok(()),
    };
    Err(NoSyscall { why, meant })
}

/// A call that rules are asked about, and what one of them has read of it for the others.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) call: &'a Call,
    pub(crate) seen: &'a Seen,
}

#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) name: Box<str>,
    /// Which source it comes from, and where in it.
    pub(crate) source: usize,
    pub(crate) line: u64,
    pub(crate) column: u64,
    pub(crate) effect: Effect,
    pub(crate) reason: Option<Box<str>>,
    pub(crate) when: Conditions,
    pub(crate) excepts: Vec<Conditions>,
    pub(crate) demands: Demands,
    /// How many examples it carries.
    pub(crate) examples: usize,
}

/// Constraints as written; `decide` enforces what it can and hands on the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Demands {
    pub(crate) sandbox: Option<Box<str>>,
    /// Place in [`ISOLATION_LEVELS`].
    pub(crate) min_isolation: Option<usize>,
    pub(crate) token: bool,
    pub(crate) max_file_size_bytes: Option<u64>,
    pub(crate) max_duration_ms: Option<u64>,
    pub(crate) rate: Option<Rate>,
    pub(crate) interface: Interface,
}

/// What a rule demands of an interface that is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Interface {
    /// Place in [`UI_PROFILES`].
    pub(crate) profile: Option<usize>,
    pub(crate) limits: BTreeMap<String, u64>,
    pub(crate) hosts: Option<BTreeSet<String>>,
}

/// Templates that a rule can demand; the first is any sandbox.
pub(crate) const SANDBOXES: [&str; 3] = ["L2", "code-executor", "integration-test"];

/// Levels of isolation that a sandbox can have, the weakest first.
pub const ISOLATION_LEVELS: [&str; 4] = ["no-landlock", "no-layers", "no-cgroup", "full"];

/// Profiles of interfaces, the most careful first.
pub const UI_PROFILES: [&str; 4] = ["strict", "balanced", "trusted", "relaxed"];

/// Limits of a profile that a rule can lower.
pub const UI_LIMITS: [&str; 13] = [
    "max_actions_per_transition",
    "max_allowed_component_invocations",
    "max_allowed_execution_ms",
    "max_allowed_imports",
    "max_node_count",
    "max_plan_bytes",
    "max_props_per_node",
    "max_runtime_source_bytes",
    "max_source_import_specifiers",
    "max_state_bytes",
    "max_string_bytes",
    "max_transitions_per_plan",
    "max_tree_depth",
];

/// Conditions on different keys are joined by AND. In the order of [`Condition`], so that the same
/// conditions compare equal however they are written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Conditions(Vec<Condition>);

/// The condition of one key; its items are joined by OR, so an empty list never matches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Condition {
    Syscall(Vec<Box<str>>),
    Path(PathPatterns),
    State(Vec<Box<str>>),
    Caller(Vec<CallerPattern>),
    CallerTag(Vec<Box<str>>),
    Tenant(Vec<Box<str>>),
    Label(Vec<LabelPattern>),
    Method(Vec<Box<str>>),
    Plugin(Vec<Box<str>>),
    /// More bytes than this would be written.
    SizeOver(u64),
    Host(Vec<HostPattern>),
    Port(Vec<u16>),
    HttpPath(Vec<HttpPathPattern>),
    Change(Vec<ChangeClass>),
    Command(CommandPatterns),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallerPattern {
    pub(crate) kind: PrincipalKind,
    /// `None` is any principal of the kind.
    pub(crate) id: Option<Box<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LabelPattern {
    Exact(Box<str>),
    /// `mcp:*`
    Prefix(Box<str>),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CommandPatterns {
    pub(crate) prefixes: Vec<Vec<Box<str>>>,
    /// Where the rule allows: no words may follow.
    pub(crate) exact: bool,
    /// Matching more makes the decision stricter, so hidden commands count.
    pub(crate) wide: bool,
}

impl Rule {
    /// Whether the rule has a say: its conditions hold and no `except` lifts it.
    pub(crate) fn contributes(&self, asked: Asked<'_>) -> bool {
        self.when.match_call(asked) && self.means(asked.call) && !self.is_lifted(asked)
    }

    /// As [`Rule::contributes`] when the index has found the rule by syscall and path.
    pub(crate) fn contributes_found(&self, asked: Asked<'_>) -> bool {
        self.when.0.iter().all(|condition| match condition {
            Condition::Syscall(_) => true,
            Condition::Path(patterns) => !patterns.excludes(asked.call),
            other => other.holds(asked),
        }) && self.means(asked.call)
            && !self.is_lifted(asked)
    }

    /// A rule that names no host opens none: who allows calls in general does not mean the whole network.
    fn means(&self, call: &Call) -> bool {
        let opens = self.effect == Effect::Allow && call.syscall == name::NET_CONNECT;
        !opens || self.when.names_hosts()
    }

    pub(crate) fn is_lifted(&self, asked: Asked<'_>) -> bool {
        self.excepts.iter().any(|except| except.match_call(asked))
    }
}

impl Conditions {
    pub(crate) fn new(mut conditions: Vec<Condition>) -> Self {
        conditions.sort();
        Self(conditions)
    }

    pub(crate) fn match_call(&self, asked: Asked<'_>) -> bool {
        self.0.iter().all(|condition| condition.holds(asked))
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.0.iter()
    }

    /// Syscalls that the conditions name; `None` is every syscall.
    pub(crate) fn syscalls(&self) -> Option<&[Box<str>]> {
        self.0.iter().find_map(|condition| match condition {
            Condition::Syscall(names) => Some(names.as_slice()),
            _ => None,
        })
    }

    /// Patterns a path has to match; `None` when a path is not looked at.
    pub(crate) fn paths(&self) -> Option<&PathPatterns> {
        self.0.iter().find_map(|condition| match condition {
            Condition::Path(patterns) => Some(patterns),
            _ => None,
        })
    }

    /// The beginnings of commands that it names.
    pub(crate) fn commands(&self) -> Option<&[Vec<Box<str>>]> {
        self.0.iter().find_map(|condition| match condition {
            Condition::Command(commands) => Some(commands.prefixes.as_slice()),
            _ => None,
        })
    }

    /// Whether there is a condition on the host.
    pub(crate) fn names_hosts(&self) -> bool {
        self.0.iter().any(|condition| matches!(condition, Condition::Host(_)))
    }

    /// Hosts, when all of them are exact names.
    pub(crate) fn exact_hosts(&self) -> Option<Vec<&str>> {
        let hosts = self.0.iter().find_map(|condition| match condition {
            Condition::Host(hosts) => Some(hosts),
            _ => None,
        })?;
        hosts
            .iter()
            .map(|host| if let HostPattern::Exact(name) = host { Some(&**name) } else { None })
            .collect()
    }

    /// Whether both hold for the same calls, as far as they are written the same way.
    pub(crate) fn same_calls(&self, other: &Self) -> bool {
        // Width follows from where a condition stands, not from what was written.
        let written = |conditions: &Self| {
            let mut conditions = conditions.clone();
            for condition in &mut conditions.0 {
                if let Condition::Command(commands) = condition {
                    commands.wide = false;
                }
            }
            conditions
        };
        written(self) == written(other)
    }
}

impl Condition {
    /// The key in the file.
    pub(crate) const fn key(&self) -> &'static str {
        match self {
            Self::Syscall(_) => "syscall",
            Self::Path(_) => "path_glob",
            Self::State(_) => "state_machine_state",
            Self::Caller(_) => "caller",
            Self::CallerTag(_) => "caller_tag",
            Self::Tenant(_) => "tenant",
            Self::Label(_) => "label",
            Self::Method(_) => "method",
            Self::Plugin(_) => "plugin",
            Self::SizeOver(_) => "size_over",
            Self::Host(_) => "host",
            Self::Port(_) => "port",
            Self::HttpPath(_) => "http_path",
            Self::Change(_) => "change",
            Self::Command(commands) if commands.exact => "argv",
            Self::Command(_) => "argv_prefix",
        }
    }

    /// Whether nothing can match, because the list is empty, or takes away all that it names.
    pub(crate) fn is_dead(&self) -> bool {
        match self {
            Self::Syscall(list)
            | Self::State(list)
            | Self::CallerTag(list)
            | Self::Tenant(list)
            | Self::Method(list)
            | Self::Plugin(list) => list.is_empty(),
            Self::SizeOver(_) => false,
            Self::Path(PathPatterns { include, exclude, .. }) => {
                include.len() * exclude.len() <= MAX_COMPARED
                    && include.iter().all(|glob| exclude.iter().any(|away| glob_covers(away, glob)))
            }
            Self::Caller(list) => list.is_empty(),
            Self::Label(list) => list.is_empty(),
            Self::Host(list) => list.is_empty(),
            Self::Port(list) => list.is_empty(),
            Self::HttpPath(list) => list.is_empty(),
            Self::Change(list) => list.is_empty(),
            Self::Command(commands) => commands.prefixes.is_empty(),
        }
    }

    /// A condition on something that the call does not have does not hold.
    pub(crate) fn holds(&self, asked: Asked<'_>) -> bool {
        let call = asked.call;
        let caller = &call.caller;
        match self {
            Self::Syscall(names) => names.iter().any(|name| **name == *call.syscall),
            Self::Path(patterns) => patterns.includes(call) && !patterns.excludes(call),
            Self::State(states) => {
                call.state.as_deref().is_some_and(|now| states.iter().any(|s| **s == *now))
            }
            Self::Caller(patterns) => patterns.iter().any(|pattern| {
                pattern.kind == caller.kind
                    && pattern.id.as_deref().is_none_or(|id| id == caller.id)
            }),
            Self::CallerTag(tags) => tags.iter().any(|tag| caller.tags.contains(&**tag)),
            Self::Tenant(names) => names.iter().any(|name| **name == *caller.tenant.as_str()),
            Self::Label(labels) => labels.iter().any(|label| label.matches(call)),
            Self::Method(methods) => call
                .method
                .as_deref()
                .is_some_and(|used| methods.iter().any(|m| m.eq_ignore_ascii_case(used))),
            Self::Plugin(names) => {
                caller.kind == PrincipalKind::Plugin
                    && names.iter().any(|name| **name == *caller.id)
            }
            Self::SizeOver(most) => call.size_bytes.is_some_and(|size| size > *most),
            Self::Host(hosts) => call
                .host
                .as_deref()
                .is_some_and(|host| hosts.iter().any(|pattern| pattern.matches(host))),
            Self::Port(ports) => call.port.is_some_and(|port| ports.contains(&port)),
            Self::HttpPath(paths) => call
                .http_path
                .as_deref()
                .is_some_and(|path| paths.iter().any(|pattern| pattern.matches(path))),
            Self::Change(classes) => call.change.is_some_and(|class| classes.contains(&class)),
            Self::Command(commands) => commands.match_call(asked),
        }
    }
}

impl LabelPattern {
    pub(crate) fn parse(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some(prefix) => Self::Prefix(prefix.into()),
            None => Self::Exact(text.into()),
        }
    }

    fn matches(&self, call: &Call) -> bool {
        call.labels.iter().any(|label| self.holds(label))
    }

    pub(crate) fn holds(&self, label: &str) -> bool {
        match self {
            Self::Exact(exact) => **exact == *label,
            Self::Prefix(prefix) => label.starts_with(&**prefix),
        }
    }
}

impl CommandPatterns {
    fn match_call(&self, asked: Asked<'_>) -> bool {
        asked.call.argv.as_ref().is_some_and(|argv| {
            if self.wide {
                asked.seen.could_run(argv, &self.prefixes)
            } else {
                asked.seen.runs_only(argv, &self.prefixes, self.exact)
            }
        })
    }
}
