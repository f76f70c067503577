//! Profiles: what a plan may ask for and show, in four named strengths.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::guard::LANES;
use crate::host::{self, Remote};
use crate::plan::SPEC_VERSION;

/// Name of a profile, from the most careful to the least.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ProfileName {
    /// For plans nobody has looked at, and for many tenants: small, integrity required.
    Strict,
    /// The default: interactive plans without code.
    #[default]
    Balanced,
    /// For plans from an author who is known: code may run in isolation.
    Trusted,
    /// For development: large plans, links to any host.
    Relaxed,
}

impl ProfileName {
    /// All profiles, the most careful first.
    pub const ALL: [Self; 4] = [Self::Strict, Self::Balanced, Self::Trusted, Self::Relaxed];

    /// The name as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Balanced => "balanced",
            Self::Trusted => "trusted",
            Self::Relaxed => "relaxed",
        }
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name is not one of the four profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownProfile;

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the profile is strict, balanced, trusted or relaxed")
    }
}

impl std::error::Error for UnknownProfile {}

impl FromStr for ProfileName {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        Self::ALL.into_iter().find(|name| name.as_str() == text).ok_or(UnknownProfile)
    }
}

/// What a plan may ask for and show.
///
/// Start from a named profile and tighten fields; a list replaces the list it had, and an empty
/// list allows nothing.
///
/// ```
/// use glasshouse_plan::{Profile, ProfileName};
/// let tenant = Profile { max_node_count: 100, ..Profile::named(ProfileName::Strict) };
/// assert_eq!(tenant.max_tree_depth, 8);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Tags refused in addition to everything that is not in the table of elements.
    pub blocked_tags: Vec<String>,
    /// Deepest node; the root has depth 0.
    pub max_tree_depth: usize,
    /// Most nodes.
    pub max_node_count: usize,
    /// Accept a plan with handler attributes. They are still never shown.
    pub allow_inline_event_handlers: bool,
    /// Prefixes of module specifiers.
    pub allowed_modules: Vec<String>,
    /// Hosts: `host`, `host:port`, or `*.host` for the names below it.
    pub allowed_network_hosts: Vec<String>,
    /// Accept links, modules and requests to any host. Images still need a listed one.
    pub allow_arbitrary_network: bool,
    /// Lanes a plan may name.
    pub allowed_execution_profiles: Vec<String>,
    /// Most events with transitions.
    pub max_transitions_per_plan: usize,
    /// Most actions of one event.
    pub max_actions_per_transition: usize,
    /// Most imports, and most entries of the manifest.
    pub max_allowed_imports: usize,
    /// Longest run a plan may ask for, in milliseconds.
    pub max_allowed_execution_ms: usize,
    /// Most component invocations a plan may ask for.
    pub max_allowed_component_invocations: usize,
    /// Accept plans with source.
    pub allow_runtime_source_modules: bool,
    /// Accept source that renders with Preact.
    pub allow_preact_source_runtime: bool,
    /// Longest source, in bytes of UTF-8.
    pub max_runtime_source_bytes: usize,
    /// Specification versions.
    pub supported_spec_versions: Vec<String>,
    /// A plan must name its specification version.
    pub require_spec_version: bool,
    /// A bare module name needs an entry in the manifest.
    pub require_module_manifest_for_bare_specifiers: bool,
    /// Remote modules need integrity values.
    pub require_module_integrity: bool,
    /// Accept computed imports in source.
    pub allow_dynamic_source_imports: bool,
    /// Most imports of a source.
    pub max_source_import_specifiers: usize,
    /// Names that source may not use; the engine that runs source applies them, as a hint to
    /// authors. Isolation is the boundary, not this list.
    pub source_bans: Vec<String>,
}

/// The four columns of the table, for fields that differ.
struct Column {
    blocked_tags: &'static [&'static str],
    depth: usize,
    nodes: usize,
    hosts: &'static [&'static str],
    modules: &'static [&'static str],
    transitions: usize,
    actions: usize,
    imports: usize,
    execution_ms: usize,
    invocations: usize,
    source_bytes: usize,
    source_imports: usize,
    bans: &'static [&'static str],
}

const BLOCKED: &[&str] = &["script", "iframe", "object", "embed", "link", "meta"];
const MODULES: &[&str] = &["/", "npm:"];
const COMMON_BANS: &[&str] = &[
    "eval",
    "Function",
    "fetch",
    "XMLHttpRequest",
    "WebSocket",
    "importScripts",
    "document.cookie",
    "localStorage",
    "sessionStorage",
    "child_process",
];

const STRICT: Column = Column {
    blocked_tags: BLOCKED,
    depth: 8,
    nodes: 250,
    hosts: &["ga.jspm.io", "cdn.jspm.io"],
    modules: MODULES,
    transitions: 40,
    actions: 20,
    imports: 80,
    execution_ms: 5_000,
    invocations: 120,
    source_bytes: 20_000,
    source_imports: 30,
    bans: &[
        "eval",
        "Function",
        "fetch",
        "XMLHttpRequest",
        "WebSocket",
        "importScripts",
        "document.cookie",
        "localStorage",
        "sessionStorage",
        "child_process",
        "indexedDB",
        "navigator.sendBeacon",
        "process.env",
    ],
};

const BALANCED: Column = Column {
    depth: 12,
    nodes: 500,
    transitions: 100,
    actions: 50,
    imports: 200,
    execution_ms: 15_000,
    invocations: 500,
    source_bytes: 80_000,
    source_imports: 120,
    bans: COMMON_BANS,
    ..STRICT
};

const TRUSTED: Column = Column {
    depth: 16,
    nodes: 1_000,
    hosts: &["ga.jspm.io", "cdn.jspm.io", "esm.sh"],
    transitions: 150,
    actions: 75,
    imports: 400,
    execution_ms: 30_000,
    invocations: 1_000,
    source_bytes: 120_000,
    source_imports: 180,
    ..BALANCED
};

const RELAXED: Column = Column {
    blocked_tags: &["script", "iframe", "object", "embed"],
    depth: 24,
    nodes: 2_000,
    hosts: &["ga.jspm.io", "cdn.jspm.io", "esm.sh", "unpkg.com"],
    modules: &["/", "npm:", "https://ga.jspm.io/", "https://cdn.jspm.io/"],
    transitions: 400,
    actions: 150,
    imports: 1_000,
    execution_ms: 60_000,
    invocations: 4_000,
    source_bytes: 200_000,
    source_imports: 500,
    bans: &["child_process"],
};

fn owned(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

impl Profile {
    /// The profile with this name.
    #[must_use]
    pub fn named(name: ProfileName) -> Self {
        let column = match name {
            ProfileName::Strict => &STRICT,
            ProfileName::Balanced => &BALANCED,
            ProfileName::Trusted => &TRUSTED,
            ProfileName::Relaxed => &RELAXED,
        };
        let relaxed = name == ProfileName::Relaxed;
        let code = name >= ProfileName::Trusted;
        Self {
            blocked_tags: owned(column.blocked_tags),
            max_tree_depth: column.depth,
            max_node_count: column.nodes,
            allow_inline_event_handlers: relaxed,
            allowed_modules: owned(column.modules),
            allowed_network_hosts: owned(column.hosts),
            allow_arbitrary_network: relaxed,
            allowed_execution_profiles: owned(&LANES),
            max_transitions_per_plan: column.transitions,
            max_actions_per_transition: column.actions,
            max_allowed_imports: column.imports,
            max_allowed_execution_ms: column.execution_ms,
            max_allowed_component_invocations: column.invocations,
            allow_runtime_source_modules: code,
            allow_preact_source_runtime: code,
            max_runtime_source_bytes: column.source_bytes,
            supported_spec_versions: owned(&[SPEC_VERSION]),
            require_spec_version: !relaxed,
            require_module_manifest_for_bare_specifiers: !relaxed,
            require_module_integrity: name == ProfileName::Strict,
            allow_dynamic_source_imports: relaxed,
            max_source_import_specifiers: column.source_imports,
            source_bans: owned(column.bans),
        }
    }

    /// Whether an absolute `http` or `https` address is on the list of hosts.
    #[must_use]
    pub fn allows_address(&self, address: &str) -> bool {
        host::absolute(address).is_some_and(|remote| self.allows_remote(&remote))
    }

    pub(crate) fn allows_remote(&self, remote: &Remote) -> bool {
        host::allows(&self.allowed_network_hosts, remote)
    }

    /// Whether a module specifier is one that this profile lets a plan name. A bare name needs no
    /// prefix where the profile asks for no manifest.
    #[must_use]
    pub fn allows_specifier(&self, specifier: &str) -> bool {
        let specifier = specifier.trim();
        if specifier.is_empty() || climbs(specifier) {
            return false;
        }
        if let Some(remote) = host::absolute(specifier) {
            return self.allow_arbitrary_network || self.allows_remote(&remote);
        }
        if self.allowed_modules.iter().any(|prefix| {
            !prefix.is_empty()
                && specifier.starts_with(prefix.as_str())
                && !specifier.starts_with("//")
        }) {
            return true;
        }
        is_bare(specifier)
            && !specifier.contains(':')
            && !self.require_module_manifest_for_bare_specifiers
    }
}

/// Whether a specifier names a package, not a place.
pub(crate) fn is_bare(specifier: &str) -> bool {
    let specifier = specifier.trim();
    let scheme = specifier.contains(':') && !specifier.starts_with("npm:");
    !scheme && !specifier.starts_with(['/', '.', '\\'])
}

/// Whether a specifier steps upward, also behind one or two percent escapes.
fn climbs(specifier: &str) -> bool {
    let lower = specifier.to_ascii_lowercase();
    let once = lower.replace("%25", "%").replace("%2e", ".");
    let twice = once.replace("%25", "%").replace("%2e", ".");
    [lower, once, twice].iter().any(|text| text.contains("..") || text.contains('\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifiers() {
        use ProfileName::{Balanced, Relaxed};
        for (name, specifier, want) in [
            (Balanced, "npm:lodash-es", true),
            (Balanced, "/any/path.js", true),
            (Balanced, "lodash-es", false),
            (Relaxed, "lodash-es", true),
            (Relaxed, "file:///x", false),
            (Relaxed, "data:text/javascript,1", false),
            (Relaxed, "../x.js", false),
            (Relaxed, "/a/%2e%2e/x.js", false),
            (Relaxed, "/a/%252e%252e/x.js", false),
            (Relaxed, "//evil.example/x.js", false),
            (Relaxed, "https://evil.example/x.js", true),
            (Balanced, "https://esm.sh/x", false),
            (Balanced, "https://ga.jspm.io/x", true),
            (Balanced, "https://ga.jspm.io.evil.example/x", false),
            (Balanced, "", false),
        ] {
            let profile = Profile::named(name);
            assert_eq!(profile.allows_specifier(specifier), want, "{name} {specifier}");
        }
        let none = Profile { allowed_modules: Vec::new(), ..Profile::named(Balanced) };
        assert!(!none.allows_specifier("npm:x"), "an empty list allows nothing");
    }

    #[test]
    fn each_profile_allows_what_the_one_before_allows() {
        let profiles = ProfileName::ALL.map(Profile::named);
        for pair in profiles.windows(2) {
            assert!(pair[0].max_node_count < pair[1].max_node_count);
            assert!(pair[0].max_tree_depth < pair[1].max_tree_depth);
            let hosts = &pair[1].allowed_network_hosts;
            assert!(pair[0].allowed_network_hosts.iter().all(|host| hosts.contains(host)));
        }
    }
}
