//! Profiles: what a plan may ask for and show, in four named strengths.

use std::fmt;
use std::str::FromStr;

use regex_lite::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::codes;
use crate::error::Error;
use crate::guard::LANES;
use crate::host::{self, Remote};
use crate::limits::{Limits, MAX_BYTES, MAX_STRING_BYTES};
use crate::module;
use crate::plan::SPEC_VERSION;
use crate::rules::property::MAX_PROPERTIES;

/// Largest program that one banned pattern may become.
const MAX_PATTERN_BYTES: usize = 64 * 1024;

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
    /// Patterns that source may not match, read without case by an engine that takes linear time.
    /// They are a hint to authors; isolation is the boundary, not this list.
    pub source_banned_pattern_strings: Vec<String>,
    /// Longest plan text, in bytes.
    pub max_plan_bytes: usize,
    /// Longest single string, in bytes.
    pub max_string_bytes: usize,
    /// Most properties of one element.
    pub max_props_per_node: usize,
    /// Largest state, in approximate bytes.
    pub max_state_bytes: usize,
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
    plan_bytes: usize,
    string_bytes: usize,
    props: usize,
    state_bytes: usize,
}

const BLOCKED: &[&str] = &["script", "iframe", "object", "embed", "link", "meta"];
const MODULES: &[&str] = &["/", "npm:"];
const KIB: usize = 1024;

/// Patterns of every profile that looks at source; the most careful one adds those behind them.
const BANS: &[&str] = &[
    r"\beval\s*\(",
    r"\bnew\s+Function\b",
    r"\bfetch\s*\(",
    r"\bXMLHttpRequest\b",
    r"\bWebSocket\b",
    r"\bimportScripts\b",
    r"\bdocument\s*\.\s*cookie\b",
    r"\blocalStorage\b",
    r"\bsessionStorage\b",
    r"\bchild_process\b",
    r"\bindexedDB\b",
    r"\bnavigator\s*\.\s*sendBeacon\b",
    r"\bprocess\s*\.\s*env\b",
];

/// Whether a pattern is one of those that say which names code may not use, and not one of a profile alone.
pub(crate) fn is_of_every_profile(pattern: &str) -> bool {
    BANS.contains(&pattern)
}

const COMMON_BANS: &[&str] = BANS.split_at(10).0;

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
    bans: BANS,
    plan_bytes: 512 * KIB,
    string_bytes: 192 * KIB,
    props: 32,
    state_bytes: 64 * KIB,
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
    plan_bytes: 1024 * KIB,
    string_bytes: 256 * KIB,
    props: 64,
    state_bytes: 256 * KIB,
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
    plan_bytes: 2048 * KIB,
    string_bytes: 512 * KIB,
    props: 128,
    state_bytes: 512 * KIB,
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
    bans: &[r"\bchild_process\b"],
    plan_bytes: MAX_BYTES,
    string_bytes: MAX_STRING_BYTES,
    props: MAX_PROPERTIES,
    state_bytes: 1024 * KIB,
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
            source_banned_pattern_strings: owned(column.bans),
            max_plan_bytes: column.plan_bytes,
            max_string_bytes: column.string_bytes,
            max_props_per_node: column.props,
            max_state_bytes: column.state_bytes,
        }
    }

    /// This profile with other values for the fields that `overrides` names, in this spelling or in
    /// camel case (`maxNodeCount`). A list replaces the list there was.
    ///
    /// # Errors
    ///
    /// `plan_profile_invalid` for an unknown field, a value of another type and a pattern that is
    /// not a regular expression of linear time; then nothing is taken over.
    ///
    /// ```
    /// use glasshouse_plan::{Profile, ProfileName};
    /// let overrides = serde_json::json!({"max_node_count": 20, "allowedNetworkHosts": []});
    /// let profile = Profile::named(ProfileName::Strict).with_overrides(&overrides)?;
    /// assert_eq!(profile.max_node_count, 20);
    /// # Ok::<(), glasshouse_plan::Error>(())
    /// ```
    pub fn with_overrides(&self, overrides: &Value) -> Result<Self, Error> {
        let invalid = |why: String| Error::new(codes::PROFILE_INVALID, "no such profile").why(why);
        let Some(overrides) = overrides.as_object() else {
            return Err(invalid("overrides are an object".to_owned()));
        };
        let mut fields = serde_json::to_value(self).map_err(|error| invalid(error.to_string()))?;
        for (name, value) in overrides {
            fields[snake(name)] = value.clone();
        }
        let profile: Self =
            serde_json::from_value(fields).map_err(|error| invalid(error.to_string()))?;
        profile.banned_patterns()?;
        Ok(profile)
    }

    /// The stricter of two profiles in every field: the smaller limits, the shorter lists, what
    /// either of them demands. What both accept alone is accepted; nothing else is.
    #[must_use]
    pub fn tightened_by(&self, other: &Self) -> Self {
        let both = |ours: &[String], theirs: &[String]| -> Vec<String> {
            ours.iter().filter(|item| theirs.contains(item)).cloned().collect()
        };
        let either = |ours: &[String], theirs: &[String]| -> Vec<String> {
            let more = theirs.iter().filter(|item| !ours.contains(item));
            ours.iter().chain(more).cloned().collect()
        };
        Self {
            blocked_tags: either(&self.blocked_tags, &other.blocked_tags),
            max_tree_depth: self.max_tree_depth.min(other.max_tree_depth),
            max_node_count: self.max_node_count.min(other.max_node_count),
            allow_inline_event_handlers: self.allow_inline_event_handlers
                && other.allow_inline_event_handlers,
            allowed_modules: both(&self.allowed_modules, &other.allowed_modules),
            allowed_network_hosts: both(&self.allowed_network_hosts, &other.allowed_network_hosts),
            allow_arbitrary_network: self.allow_arbitrary_network && other.allow_arbitrary_network,
            allowed_execution_profiles: both(
                &self.allowed_execution_profiles,
                &other.allowed_execution_profiles,
            ),
            max_transitions_per_plan: self
                .max_transitions_per_plan
                .min(other.max_transitions_per_plan),
            max_actions_per_transition: self
                .max_actions_per_transition
                .min(other.max_actions_per_transition),
            max_allowed_imports: self.max_allowed_imports.min(other.max_allowed_imports),
            max_allowed_execution_ms: self
                .max_allowed_execution_ms
                .min(other.max_allowed_execution_ms),
            max_allowed_component_invocations: self
                .max_allowed_component_invocations
                .min(other.max_allowed_component_invocations),
            allow_runtime_source_modules: self.allow_runtime_source_modules
                && other.allow_runtime_source_modules,
            allow_preact_source_runtime: self.allow_preact_source_runtime
                && other.allow_preact_source_runtime,
            max_runtime_source_bytes: self
                .max_runtime_source_bytes
                .min(other.max_runtime_source_bytes),
            supported_spec_versions: both(
                &self.supported_spec_versions,
                &other.supported_spec_versions,
            ),
            require_spec_version: self.require_spec_version || other.require_spec_version,
            require_module_manifest_for_bare_specifiers: self
                .require_module_manifest_for_bare_specifiers
                || other.require_module_manifest_for_bare_specifiers,
            require_module_integrity: self.require_module_integrity
                || other.require_module_integrity,
            allow_dynamic_source_imports: self.allow_dynamic_source_imports
                && other.allow_dynamic_source_imports,
            max_source_import_specifiers: self
                .max_source_import_specifiers
                .min(other.max_source_import_specifiers),
            source_banned_pattern_strings: either(
                &self.source_banned_pattern_strings,
                &other.source_banned_pattern_strings,
            ),
            max_plan_bytes: self.max_plan_bytes.min(other.max_plan_bytes),
            max_string_bytes: self.max_string_bytes.min(other.max_string_bytes),
            max_props_per_node: self.max_props_per_node.min(other.max_props_per_node),
            max_state_bytes: self.max_state_bytes.min(other.max_state_bytes),
        }
    }

    /// The limits that hold while a plan for this profile is read, so that a plan it would refuse
    /// for its size is never held.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            bytes: self.max_plan_bytes,
            string_bytes: self.max_string_bytes,
            nodes: self.max_node_count,
            ..Limits::default()
        }
    }

    /// The patterns that source may not match.
    pub(crate) fn banned_patterns(&self) -> Result<Vec<Regex>, Error> {
        let compile = |pattern: &String| {
            regex_lite::RegexBuilder::new(pattern)
                .case_insensitive(true)
                .size_limit(MAX_PATTERN_BYTES)
                .build()
                .map_err(|error| {
                    Error::new(codes::PROFILE_INVALID, "a banned pattern cannot be read")
                        .why(format!("{pattern:?}: {error}"))
                })
        };
        self.source_banned_pattern_strings.iter().map(compile).collect()
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
        self.specifier_faults(specifier).is_empty()
    }

    /// What is wrong with a module specifier: that it steps upward, that it is not on the list.
    pub(crate) fn specifier_faults(&self, specifier: &str) -> Vec<&'static str> {
        let mut faults = Vec::new();
        if climbs(specifier) {
            faults.push("the specifier steps upward");
        }
        if module::is_own_source(specifier) {
            return faults;
        }
        if let Some(remote) = host::absolute(specifier.trim()) {
            if !self.allow_arbitrary_network && !self.allows_remote(&remote) {
                faults.push("the host of the module is not allowed");
            }
        } else if !self.lists(specifier) {
            faults.push(unlisted(specifier));
        }
        faults
    }

    fn lists(&self, specifier: &str) -> bool {
        // Two slashes name a host, and so does what a browser reads as two slashes.
        let hidden_host = specifier.starts_with("//") || specifier.contains('\\');
        let listed = |prefix: &String| !prefix.is_empty() && specifier.starts_with(prefix.as_str());
        let listed = self.allowed_modules.iter().any(listed) && !hidden_host;
        listed
            || (!self.require_module_manifest_for_bare_specifiers
                && module::is_package_name(specifier)
                && !climbs(specifier)
                && !module::is_builtin(specifier))
    }
}

/// Why a module that is not listed is not: what no list can mend is told as such.
fn unlisted(specifier: &str) -> &'static str {
    if module::is_builtin(specifier) {
        "this module belongs to a server's runtime, and code in a plan has none"
    } else if specifier.starts_with('.') {
        "a plan has no files beside it: what it needs stands in its source, or at an address"
    } else {
        "neither the profile nor the plan's manifest lists this module"
    }
}

/// `maxNodeCount` as `max_node_count`.
fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for character in name.chars() {
        if character.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(character.to_ascii_lowercase());
    }
    out
}

/// Whether a specifier steps upward, also behind one or two percent escapes.
fn climbs(specifier: &str) -> bool {
    let lower = specifier.to_ascii_lowercase();
    let once = lower.replace("%25", "%").replace("%2e", ".");
    let twice = once.replace("%25", "%").replace("%2e", ".");
    [lower, once, twice].iter().any(|text| text.contains(".."))
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
