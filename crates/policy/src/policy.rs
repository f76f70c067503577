//! A compiled policy: immutable, shared between threads, named by a digest.

use std::collections::HashMap;
use std::sync::Arc;

use glasshouse_model::{Call, Digest, Effect, Layer};

use crate::builtin::{BUILT_INS, Guard, Protected};
use crate::codes;
use crate::error::{Error, Result};
use crate::extension::{Extension, ExtensionText, Serving};
use crate::glob::Glob;
use crate::index::Index;
use crate::limits::{MAX_PATTERNS, MAX_SOURCES, MAX_STARRED_CHARS};
use crate::network::HostPattern;
use crate::rule::{Conditions, Rule};
use crate::source::{self, Consent, Contents, SecretPattern, Source, Warning};

/// A policy that can decide.
///
/// ```
/// use glasshouse_policy::{Policy, Protected, Source};
/// let text = "capabilities:\n  - { name: reads, match: { sycall: fs.read }, action: allow }\n";
/// let error = Policy::compile(&[Source::new("p.yaml", text)], &Protected::default())
///     .unwrap_err();
/// assert_eq!(error.code(), "policy_unknown_key");
/// assert_eq!(error.report().fix, "did you mean `syscall`?");
/// assert_eq!(error.report().context["line"], 2);
/// ```
#[derive(Debug)]
pub struct Policy {
    pub(crate) rules: Vec<Rule>,
    pub(crate) index: Index,
    pub(crate) guard: Guard,
    pub(crate) version: Digest,
    sources: Vec<String>,
    /// Positions of the sources that must allow a call themselves.
    pub(crate) apart: Vec<usize>,
    /// Positions of the sources that open nothing.
    pub(crate) stricter: Vec<usize>,
    /// Positions of the sources that nobody writes here.
    given: Vec<usize>,
    groups: Vec<(usize, String, Vec<HostPattern>)>,
    secret_patterns: Vec<SecretPattern>,
    warnings: Vec<Warning>,
    extensions: Vec<ExtensionText>,
    serving: Option<Serving>,
}

/// How much more it takes to look for a command than to look at a rule, and bytes of a script that take as much as a
/// rule.
const COMMAND_EFFORT: usize = 20;
const BYTES_PER_EFFORT: usize = 1_024;

/// One rule of a policy, for lists and documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleInfo<'a> {
    /// Name.
    pub name: &'a str,
    /// Layer.
    pub layer: Layer,
    /// What it does when it matches.
    pub action: Effect,
    /// Its words.
    pub reason: Option<&'a str>,
    /// Source; `None` for a built-in.
    pub source: Option<&'a str>,
    /// Line in the source, from 1.
    pub line: Option<u64>,
}

impl Policy {
    /// Compiles sources into one policy. An empty list is a policy too: built-ins, and nothing
    /// allowed.
    ///
    /// # Errors
    /// Any of this crate's `policy_*` codes, with source, line and column where there is one.
    pub fn compile(sources: &[Source<'_>], protected: &Protected) -> Result<Self> {
        if sources.len() > MAX_SOURCES {
            return Err(limit("sources", sources.len(), MAX_SOURCES));
        }
        let mut policy = Self {
            rules: Vec::new(),
            index: Index::default(),
            guard: Guard::new(protected)?,
            version: version(sources, protected),
            sources: sources.iter().map(|source| source.name.to_owned()).collect(),
            apart: places(sources, |source| source.consent == Consent::Own),
            stricter: places(sources, |source| source.consent == Consent::Stricter),
            given: places(sources, |source| source.is_given),
            groups: Vec::new(),
            secret_patterns: Vec::new(),
            warnings: Vec::new(),
            extensions: Vec::new(),
            serving: None,
        };
        for (position, source) in sources.iter().enumerate() {
            let contents = source::read(source, position)?;
            check_size(&contents)?;
            policy.rules.extend(contents.rules);
            let groups = contents.groups.into_iter();
            policy.groups.extend(groups.map(|(name, hosts)| (position, name, hosts)));
            policy.secret_patterns.extend(contents.secret_patterns);
            policy.warnings.extend(contents.warnings);
            policy.extensions.extend(contents.extension);
        }
        policy.check_names()?;
        policy.index = Index::new(&policy.rules);
        Ok(policy)
    }

    /// How much a decision on a call may have to look at: rules, places in names that patterns are tried at, and
    /// commands that are looked for in that of the call.
    pub(crate) fn effort(&self, call: &Call) -> usize {
        let bytes: usize = call.argv.iter().flatten().map(String::len).sum();
        let sought = self.rules.iter().filter_map(|rule| rule.when.commands()).map(<[_]>::len);
        let sought = if call.argv.is_some() { sought.sum() } else { 0 };
        let commands = sought * (COMMAND_EFFORT + bytes / BYTES_PER_EFFORT);
        self.rules.len() + globs(&self.rules).map(Glob::effort).sum::<usize>() + commands
    }

    fn check_names(&self) -> Result<()> {
        // A name that differs in its capitals alone is taken for the same.
        let mut seen: HashMap<(Option<usize>, String), (&str, String)> = BUILT_INS
            .iter()
            .map(|rule| {
                let place = "a built-in rule".to_owned();
                ((None, rule.name.to_ascii_lowercase()), (rule.name, place))
            })
            .collect();
        // Sources that speak for themselves may use the same names: each is a whole policy.
        let is_apart = |source: usize| !self.is_joint(source);
        let (apart, joint): (Vec<_>, Vec<_>) =
            self.rules.iter().partition(|rule| is_apart(rule.source));
        for rule in joint.into_iter().chain(apart) {
            let voice = is_apart(rule.source).then_some(rule.source);
            let place = format!("the rule at {}:{}", self.sources[rule.source], rule.line);
            let name = rule.name.to_ascii_lowercase();
            // What opens nothing may be another text of one that is there.
            let beside = (!self.stricter.contains(&rule.source)).then(|| (None, name.clone()));
            let earlier = beside.and_then(|beside| seen.get(&beside).cloned());
            if let Some(first) = earlier.or(seen.insert((voice, name), (&rule.name, place))) {
                return Err(self.twice(rule, &first));
            }
        }
        Ok(())
    }

    fn twice(&self, rule: &Rule, (first, place): &(&str, String)) -> Error {
        let source = &self.sources[rule.source];
        let what = format!("{source}:{}:{}: rule `{}`", rule.line, rule.column, rule.name);
        let why = if *first == &*rule.name {
            format!("{place} has that name")
        } else {
            format!("{place} has the name `{first}`, and capitals do not count")
        };
        Error::new(codes::DUPLICATE_RULE, what)
            .why(why)
            .with("source", source.as_str())
            .with("line", rule.line)
            .with("column", rule.column)
            .with("rule", &*rule.name)
    }

    /// What loads but is odd: lists that never match, excepts that undo their rule, names that
    /// look misspelt.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Whether some rule allows only so many calls in some time.
    #[must_use]
    pub fn limits_rates(&self) -> bool {
        self.rules.iter().any(|rule| rule.demands.rate.is_some())
    }

    /// How many examples its rules carry; all of them hold, or it would not have loaded.
    #[must_use]
    pub fn example_count(&self) -> usize {
        self.rules.iter().map(|rule| rule.examples).sum()
    }

    /// Digest of everything that decides: built-ins, protected paths and sources.
    #[must_use]
    pub const fn version(&self) -> Digest {
        self.version
    }

    /// Whether what a source allows counts by itself.
    fn is_joint(&self, source: usize) -> bool {
        !self.apart.contains(&source) && !self.stricter.contains(&source)
    }

    /// Sources that wait for somebody to accept them.
    pub(crate) fn acceptable(&self) -> impl Iterator<Item = usize> {
        self.apart.iter().copied().filter(|source| !self.given.contains(source))
    }

    /// Sources that somebody wrote, where there are rules of the program beside them: each is all that its file says.
    pub(crate) fn whole_sources(&self) -> impl Iterator<Item = usize> {
        let all = if self.given.is_empty() { 0 } else { self.sources.len() };
        (0..all).filter(|source| !self.given.contains(source))
    }

    /// Whether somebody can take a rule out of its file.
    pub(crate) fn is_written(&self, rule: &Rule) -> bool {
        !self.given.contains(&rule.source)
    }

    /// Names of the sources that somebody wrote and that say nothing at all.
    pub fn silent_sources(&self) -> impl Iterator<Item = &str> {
        let says = |source: usize, name: &str| {
            self.extensions.iter().any(|text| text.position == source)
                || self.rules.iter().any(|rule| rule.source == source)
                || self.secret_patterns.iter().any(|pattern| pattern.source == name)
        };
        let sources = self.sources.iter().enumerate();
        let written = sources
            .filter(|(source, _)| !self.given.contains(source) && !self.stricter.contains(source));
        written.filter(move |(source, name)| !says(*source, name)).map(|(_, name)| name.as_str())
    }

    /// Names of the sources that nobody writes here.
    pub(crate) fn given_sources(&self) -> Vec<String> {
        self.given.iter().map(|source| self.sources[*source].clone()).collect()
    }

    /// Name of a source.
    pub(crate) fn source_name(&self, source: usize) -> &str {
        &self.sources[source]
    }

    /// All rules, built-ins first, then in the order of the sources.
    pub fn rules(&self) -> impl Iterator<Item = RuleInfo<'_>> {
        let built_ins = BUILT_INS.iter().map(|rule| RuleInfo {
            name: rule.name,
            layer: Layer::BuiltIn,
            action: rule.effect,
            reason: Some(rule.reason),
            source: None,
            line: None,
        });
        let rules = self.rules.iter().map(|rule| RuleInfo {
            name: &rule.name,
            layer: Layer::File,
            action: rule.effect,
            reason: rule.reason.as_deref(),
            source: Some(&self.sources[rule.source]),
            line: Some(rule.line),
        });
        built_ins.chain(rules)
    }

    /// What secrets look like, by every source: whoever masks more opens nothing, so no source has to
    /// consent to another's.
    #[must_use]
    pub fn secret_patterns(&self) -> &[SecretPattern] {
        &self.secret_patterns
    }

    /// The rules in TypeScript, at most one program a source, in the order of the sources.
    #[must_use]
    pub fn extensions(&self) -> &[ExtensionText] {
        &self.extensions
    }

    /// The same policy with what runs its rules in TypeScript: all of its programs. Without it a policy that has such rules
    /// denies what reaches them.
    #[must_use]
    pub fn served_by(self, extension: Arc<dyn Extension + Send + Sync>) -> Self {
        Self { serving: Some(Serving(extension)), ..self }
    }

    pub(crate) fn serving(&self) -> Option<&dyn Extension> {
        self.serving.as_ref().map(|serving| &*serving.0 as &dyn Extension)
    }

    /// Names of the `network_whitelist` groups.
    pub fn network_groups(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|(_, name, _)| name.as_str())
    }

    /// Whether a host belongs to a `network_whitelist` group; an unknown group holds no host.
    #[must_use]
    pub fn group_holds(&self, group: &str, host: &str) -> bool {
        let holds = |of: &dyn Fn(usize) -> bool| {
            self.groups
                .iter()
                .filter(|(source, name, _)| name == group && of(*source))
                .any(|(_, _, hosts)| hosts.iter().any(|pattern| pattern.matches(host)))
        };
        holds(&|source| self.is_joint(source))
            || (!self.apart.is_empty() && self.apart.iter().all(|one| holds(&|at| at == *one)))
    }
}

fn globs(rules: &[Rule]) -> impl Iterator<Item = &Glob> {
    rules
        .iter()
        .flat_map(|rule| rule.excepts.iter().chain([&rule.when]))
        .filter_map(Conditions::paths)
        .flat_map(|paths| paths.include.iter().chain(&paths.exclude))
}

/// What one source may hold beside the limits of its keys: what loads by itself loads beside others, too. A policy has
/// so many sources and each so much, so there is a limit to all of them together.
fn check_size(contents: &Contents) -> Result<()> {
    let patterns = globs(&contents.rules).count();
    if patterns > MAX_PATTERNS {
        return Err(limit("path patterns", patterns, MAX_PATTERNS));
    }
    let effort = globs(&contents.rules).map(Glob::effort).sum();
    if effort > MAX_STARRED_CHARS {
        let what = "characters in path patterns whose names hold a `*`";
        return Err(limit(what, effort, MAX_STARRED_CHARS));
    }
    Ok(())
}

/// Places of the sources that are of a kind.
fn places(sources: &[Source<'_>], is_of: impl Fn(&Source<'_>) -> bool) -> Vec<usize> {
    (0..sources.len()).filter(|at| is_of(&sources[*at])).collect()
}

fn limit(what: &str, found: usize, most: usize) -> Error {
    Error::new(codes::LIMIT, format!("too many {what} in a policy"))
        .why(format!("{found}, at most {most}"))
        .with("limit", most)
}

/// Hashes each part behind its length, so that no two policies share their bytes.
fn version(sources: &[Source<'_>], protected: &Protected) -> Digest {
    let mut parts: Vec<&[u8]> = vec![b"glasshouse policy 1"];
    for rule in BUILT_INS {
        parts.extend([rule.name.as_bytes(), rule.reason.as_bytes()]);
    }
    let groups = [&protected.host_paths, &protected.program_paths];
    for paths in groups {
        parts.push(b"protected");
        parts.extend(paths.iter().map(String::as_bytes));
    }
    parts.push(b"own sources");
    parts.extend(protected.own_sources.iter().map(|path| path.as_str().as_bytes()));
    for source in sources {
        let kind: &[u8] = match source.consent {
            Consent::Joint => b"source",
            Consent::Own => b"source apart",
            Consent::Stricter => b"source stricter",
        };
        parts.extend([kind, source.name.as_bytes(), source.text.as_bytes()]);
    }
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend((part.len() as u64).to_be_bytes());
        bytes.extend(part);
    }
    Digest::of(&bytes)
}
