//! What would have had to be different for another decision.
//!
//! Nothing here guesses: values to try come from what the rules ask for, and each answer was decided
//! like any call. An answer names the fewest changes that are enough.

mod trial;

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_model::{Call, CanonicalPath, ChangeClass, Decision, Effect, PrincipalKind};
use schemars::JsonSchema;
use serde::Serialize;

use self::trial::Trial;
use crate::command::base_name;
use crate::decide::{Request, Supposed, SupposedRule};
use crate::glob::{Components, Glob, Segment, Token};
use crate::limits::MAX_EXPLAINED;
use crate::network::HostPattern;
use crate::policy::Policy;
use crate::rule::{Asked, Condition, LabelPattern, Rule};
use crate::source::odd_words::is_odd;
use crate::write::new_rule_for;

/// Fewest values that are tried, however long one decision takes.
const MIN_TRIED: usize = 8;
/// Most values that are tried, so that a policy of any size is explained in a moment.
const MAX_EDITS: usize = 512;
/// Most values of which pairs are tried.
const MAX_PAIRED: usize = 64;
/// Most answers of one kind: more is no help.
const MAX_ANSWERS: usize = 5;
/// Most rules that nearly spoke.
const MAX_NEAR: usize = 5;
/// Keys of changes that lead away from what was asked about.
const STATE: &str = "state_machine_state";
const PATH: &str = "path";
const ARGV: &str = "argv";

/// A decision, and what would have made it another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Explanation {
    /// The decision.
    #[serde(flatten)]
    pub decision: Decision,
    /// Rules that would have spoken if one thing about the call were different.
    pub nearly: Vec<Near>,
    /// The least changes of the call after which the answer is another; each is enough.
    pub other_call: Vec<CallChange>,
    /// The least change of the rules after which the answer is another. `None` where no rule that
    /// somebody writes changes it: a built-in rule, the workflow or a program decides.
    pub other_rules: Option<RuleChange>,
    /// Whether other calls were left out because the rules in TypeScript would have to be asked about
    /// them: they are not asked about what was recorded, not for long, and not after a fault.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untried: bool,
    /// Sources that nobody writes here, which the sentences tell apart from the others.
    #[serde(skip)]
    pub given: Vec<String>,
}

/// A rule that one condition kept silent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "NearRule")]
pub struct Near {
    /// Rule.
    pub rule: String,
    /// Policy file it is in.
    pub source: String,
    /// Line in it, from 1.
    pub line: u64,
    /// What it would have contributed.
    pub action: Effect,
    /// The key that does not hold: of `match`, or `except` when an item of that lifts the rule.
    pub key: &'static str,
}

/// Changes of a call that are enough together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CallChange {
    /// What to change.
    pub set: Vec<Edit>,
    /// The answer then.
    pub decision: Effect,
}

impl CallChange {
    /// Whether the call would do something else: to another file, or by another command.
    pub(crate) fn is_another_act(&self) -> bool {
        self.set.iter().any(|edit| [PATH, ARGV].contains(&edit.key))
    }
}

/// One value of a call that would be different.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Edit {
    /// Key as in `match`.
    pub key: &'static str,
    /// What it would be; `without NAME` for a tag or label that would be absent, a JSON list for words with blanks.
    pub to: String,
}

/// A change of the rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RuleChange {
    /// The file that would have to be accepted, so that it decides alone where each of several has
    /// to allow now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
    /// Rules that would have to be silent: all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
    /// The narrowest rule that would have to be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
    /// The answer then.
    pub decision: Effect,
}

/// Decides and explains.
///
/// ```
/// use glasshouse_policy::{CallSketch, Policy, Protected, Request, Source, explain};
/// let text = "
/// capabilities:
///   - { name: docs, match: { syscall: fs.write, path_glob: 'docs/**' }, action: allow }
///   - { name: web, match: { syscall: fs.write, label: web }, action: deny }
/// ";
/// let policy = Policy::compile(&[Source::new("p.yaml", text)], &Protected::default()).unwrap();
/// let call = CallSketch::from_json(r#"{"syscall":"fs.write","path":"docs/a","label":"web"}"#)
///     .and_then(CallSketch::into_call)
///     .unwrap();
/// let why = explain(&policy, &Request::new(&call, 0));
/// assert_eq!(why.other_call[0].set[0].to, "without web");
/// assert_eq!(why.other_rules.unwrap().without, ["web"]);
/// ```
#[must_use]
pub fn explain(policy: &Policy, request: &Request<'_>) -> Explanation {
    let trial = Trial::new(policy, request);
    let decision = trial.decision();
    Explanation {
        nearly: nearly(policy, Asked { call: request.call, seen: trial.seen() }, decision.effect),
        other_call: other_call(policy, &trial, decision.effect),
        other_rules: other_rules(policy, &trial, &decision),
        untried: trial.left_out(),
        given: policy.given_sources(),
        decision,
    }
}

fn nearly(policy: &Policy, asked: Asked<'_>, now: Effect) -> Vec<Near> {
    let near = policy.rules.iter().filter_map(|rule| {
        let mut unmet = rule.when.iter().filter(|condition| !condition.holds(asked));
        let key = match (unmet.next(), unmet.next()) {
            // Another syscall is another act.
            (Some(Condition::Syscall(_)), None) | (Some(_), Some(_)) => return None,
            (Some(one), None) => one.key(),
            (None, _) if rule.is_lifted(asked) => "except",
            (None, _) => return None,
        };
        Some((rule, key))
    });
    let mut near: Vec<_> = near.collect();
    // What says something else than the answer comes first, then what somebody can change; what another
    // state of the workflow would bring comes last.
    near.sort_by_key(|(rule, key)| {
        let is_moved = *key == STATE && asked.call.state.is_some();
        (is_moved, rule.effect == now, !policy.is_written(rule))
    });
    let told = near.into_iter().take(MAX_NEAR).map(|(rule, key)| Near {
        rule: rule.name.to_string(),
        source: policy.source_name(rule.source).to_owned(),
        line: rule.line,
        action: rule.effect,
        key,
    });
    told.collect()
}

fn other_call(policy: &Policy, trial: &Trial<'_>, now: Effect) -> Vec<CallChange> {
    let mut edits = edits(policy, trial.call());
    let most = (MAX_EXPLAINED / policy.effort(trial.call()).max(1)).max(MIN_TRIED);
    edits.truncate(most.min(MAX_EDITS));
    let change = |edits: &[&Value]| {
        let mut call = trial.call().clone();
        for edit in edits {
            edit.apply(&mut call);
        }
        let decision = trial.of_call(&call)?;
        let set = edits.iter().map(|edit| edit.told()).collect();
        (decision != now).then_some(CallChange { set, decision })
    };
    let mut found: Vec<CallChange> = edits.iter().filter_map(|edit| change(&[edit])).collect();
    if !found.iter().any(|one| one.decision == wanted(now)) {
        // Of so many there are at most half as many pairs as the square.
        let few = &edits[..edits.len().min(MAX_PAIRED).min(most.isqrt())];
        let pairs = few.iter().enumerate().flat_map(|(at, one)| {
            let others = few[at + 1..].iter().filter(|other| other.rank() != one.rank());
            others.filter_map(|other| change(&[one, other])).collect::<Vec<_>>()
        });
        found.extend(pairs.filter(|pair| pair.decision == wanted(now)));
    }
    // Another file is another act: naming one is of use where it brings what is wanted.
    let moves = |one: &CallChange| one.set.iter().any(|edit| edit.key == PATH);
    found.retain(|one| one.decision == wanted(now) || !moves(one));
    // The same name elsewhere says more than a made-up one.
    let name = trial.call().path.as_ref().and_then(CanonicalPath::file_name);
    let is_same = |edit: &Edit| edit.key == PATH && edit.to.rsplit('/').next() == name;
    if found.iter().any(|one| one.set.iter().any(is_same)) {
        found.retain(|one| !moves(one) || one.set.iter().any(is_same));
    }
    varied(found, now, trial.call())
}

/// The most useful answers: those that bring what is most likely wanted, with the fewest changes, in the state that
/// the call was given; of each key one before a second of any.
fn varied(found: Vec<CallChange>, now: Effect, call: &Call) -> Vec<CallChange> {
    let mut seen: BTreeMap<(bool, Vec<&'static str>), usize> = BTreeMap::new();
    let mut ranked: Vec<_> = found
        .into_iter()
        .map(|one| {
            let keys: Vec<_> = one.set.iter().map(|edit| edit.key).collect();
            let is_moved = call.state.is_some() && keys.contains(&STATE);
            let is_other = one.decision != wanted(now);
            let before = seen.entry((is_other, keys)).or_default();
            *before += 1;
            ((is_other, one.set.len(), is_moved, *before), one)
        })
        .collect();
    // That another state would do is said once.
    ranked.retain(|((_, _, is_moved, before), _)| !is_moved || *before == 1);
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().take(MAX_ANSWERS).map(|(_, one)| one).collect()
}

/// The answer that a person who asks for another one most likely wants.
const fn wanted(now: Effect) -> Effect {
    match now {
        Effect::Deny | Effect::RequireReview => Effect::Allow,
        Effect::Allow => Effect::Deny,
    }
}

/// Each change is tried before it is told, the smallest first; the first that brings what is most likely
/// wanted, or else any other answer.
fn other_rules(policy: &Policy, trial: &Trial<'_>, now: &Decision) -> Option<RuleChange> {
    let silent = deciding(policy, now);
    let call = trial.call();
    let new = |action| new_rule_for(call, action, &policy.rules, trial.seen());
    let actions: Vec<Effect> = [Effect::Allow, Effect::Deny]
        .into_iter()
        .filter(|action| *action != now.effect && new(*action).is_some())
        .collect();
    let changes = changes(policy, &silent, &actions);
    let tried: Vec<(&Supposed<'_>, Effect)> = changes
        .iter()
        .filter_map(|change| Some((change, trial.under(change)?)))
        .filter(|(_, decision)| *decision != now.effect)
        .collect();
    let best = tried.iter().find(|(_, decision)| *decision == wanted(now.effect));
    let (change, decision) = best.or_else(|| tried.first())?;
    Some(RuleChange {
        accepted: change.alone.map(|source| policy.source_name(source).to_owned()),
        without: change.without.iter().map(|id| policy.rules[*id].name.to_string()).collect(),
        with: change.rule.and_then(|(_, action)| new(action)),
        decision: *decision,
    })
}

/// What could be different about the rules, a new one with each of `actions` among it. Accepting comes last: it
/// lets a whole file decide.
fn changes<'a>(policy: &Policy, silent: &'a [usize], actions: &[Effect]) -> Vec<Supposed<'a>> {
    let voices = [None].into_iter().chain(policy.acceptable().map(Some));
    let mut changes = Vec::new();
    for alone in voices {
        let mut places: Vec<SupposedRule> = match alone {
            Some(source) => vec![SupposedRule::Of(source)],
            None => policy.acceptable().map(SupposedRule::Of).collect(),
        };
        if places.is_empty() {
            places.push(SupposedRule::Joint);
        }
        let with = |action: &Effect| places.iter().map(|place| Some((*place, *action))).collect();
        let rules: Vec<Vec<_>> = actions.iter().map(with).collect();
        for rule in [None].into_iter().chain(rules.into_iter().flatten()) {
            changes.push(Supposed { without: &[], alone, rule });
            changes.push(Supposed { without: silent, alone, rule });
        }
    }
    changes
}

/// The rules behind an answer that somebody can take out of a file.
fn deciding(policy: &Policy, now: &Decision) -> Vec<usize> {
    let speaks = |rule: &Rule| {
        let place = (Some(policy.source_name(rule.source)), Some(rule.line));
        now.rules.iter().any(|trace| {
            trace.action == now.effect
                && *trace.name == *rule.name
                && (trace.source.as_deref(), trace.line) == place
        })
    };
    let rules = policy.rules.iter().enumerate();
    rules.filter(|(_, rule)| policy.is_written(rule) && speaks(rule)).map(|(id, _)| id).collect()
}

/// A value that a call could have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    WithoutLabel(String),
    State(String),
    Change(ChangeClass),
    Size(u64),
    Tag(String),
    WithoutTag(String),
    Caller(PrincipalKind, Option<String>),
    Method(String),
    HttpPath(String),
    Port(u16),
    Host(String),
    Path(CanonicalPath),
    Argv(Vec<String>),
    Label(String),
}

impl Value {
    /// Values of one rank take each other's place.
    const fn rank(&self) -> u8 {
        match self {
            Self::WithoutLabel(_) => 0,
            Self::State(_) => 1,
            Self::Change(_) => 2,
            Self::Size(_) => 3,
            Self::Tag(_) => 4,
            Self::WithoutTag(_) => 5,
            Self::Caller(..) => 6,
            Self::Method(_) => 7,
            Self::HttpPath(_) => 8,
            Self::Port(_) => 9,
            Self::Host(_) => 10,
            Self::Argv(_) => 11,
            Self::Label(_) => 12,
            // Another file is seldom what somebody wants to hear of first.
            Self::Path(_) => 13,
        }
    }

    fn apply(&self, call: &mut Call) {
        match self.clone() {
            Self::WithoutLabel(label) => {
                call.labels.remove(&label);
            }
            Self::State(state) => call.state = Some(state),
            Self::Change(class) => call.change = Some(class),
            Self::Size(size) => call.size_bytes = Some(size),
            Self::Tag(tag) => {
                call.caller.tags.insert(tag);
            }
            Self::WithoutTag(tag) => {
                call.caller.tags.remove(&tag);
            }
            Self::Caller(kind, id) => {
                call.caller.kind = kind;
                if let Some(id) = id {
                    call.caller.id = id;
                }
            }
            Self::Method(method) => call.method = Some(method),
            Self::HttpPath(path) => call.http_path = Some(path),
            Self::Port(port) => call.port = Some(port),
            Self::Host(host) => call.host = Some(host),
            Self::Path(path) => call.path = Some(path),
            Self::Argv(argv) => call.argv = Some(argv),
            Self::Label(label) => {
                call.labels.insert(label);
            }
        }
    }

    fn told(&self) -> Edit {
        let (key, to) = match self {
            Self::WithoutLabel(label) => ("label", format!("without {label}")),
            Self::State(state) => (STATE, state.clone()),
            Self::Change(class) => ("change", class.as_str().to_owned()),
            Self::Size(size) => ("size", size.to_string()),
            Self::Tag(tag) => ("caller_tag", tag.clone()),
            Self::WithoutTag(tag) => ("caller_tag", format!("without {tag}")),
            Self::Caller(kind, id) => {
                let kind = crate::sketch::caller_word(*kind);
                let name = id.as_ref().map(|id| format!(":{id}")).unwrap_or_default();
                ("caller", format!("{kind}{name}"))
            }
            Self::Method(method) => ("method", method.clone()),
            Self::HttpPath(path) => ("http_path", path.clone()),
            Self::Port(port) => ("port", port.to_string()),
            Self::Host(host) => ("host", host.clone()),
            Self::Path(path) => (PATH, path.to_string()),
            Self::Argv(argv) => (ARGV, words_told(argv)),
            Self::Label(label) => ("label", label.clone()),
        };
        Edit { key, to }
    }
}

/// The words of a command as a call gives them: one text where cutting it at blanks brings the words back, and
/// else a list in JSON.
fn words_told(argv: &[String]) -> String {
    let text = argv.join(" ");
    let is_cut_back = text.split_whitespace().eq(argv.iter().map(String::as_str));
    match is_cut_back && !text.starts_with('[') {
        true => text,
        false => serde_json::json!(argv).to_string(),
    }
}

/// Every value worth trying: what some rule on this syscall asks for and the call does not have, and
/// the labels and tags it has.
fn edits(policy: &Policy, call: &Call) -> Vec<Value> {
    let mut values: BTreeSet<Value> = BTreeSet::new();
    values.extend(call.labels.iter().cloned().map(Value::WithoutLabel));
    values.extend(call.caller.tags.iter().cloned().map(Value::WithoutTag));
    let about_it = |rule: &&Rule| {
        rule.when.syscalls().is_none_or(|names| names.iter().any(|name| **name == *call.syscall))
    };
    for rule in policy.rules.iter().filter(about_it) {
        for condition in rule.when.iter().chain(rule.excepts.iter().flat_map(|e| e.iter())) {
            add_values(condition, call, &mut values);
        }
        if let Some(most) = rule.demands.max_file_size_bytes
            && call.size_bytes.is_some_and(|size| size > most)
        {
            values.insert(Value::Size(most));
        }
        // A value that no rule knows is what keeps a restrictive rule silent.
        if rule.effect != Effect::Allow && rule.when.paths().is_some() && call.path.is_some() {
            let name = call.path.as_ref().and_then(CanonicalPath::file_name);
            values.extend(CanonicalPath::parse(name.unwrap_or("other")).ok().map(Value::Path));
        }
    }
    let mut values: Vec<Value> = values.into_iter().filter(|value| value.differs(call)).collect();
    values.sort_by_key(Value::rank);
    values
}

impl Value {
    fn differs(&self, call: &Call) -> bool {
        let mut other = call.clone();
        self.apply(&mut other);
        other != *call
    }
}

fn add_values(condition: &Condition, call: &Call, values: &mut BTreeSet<Value>) {
    let texts = |list: &[Box<str>], make: fn(String) -> Value| {
        list.iter().map(|text| make(text.to_string())).collect::<Vec<_>>()
    };
    match condition {
        // Another syscall is another act, another tenant another world.
        Condition::Syscall(_) | Condition::Tenant(_) => {}
        Condition::State(list) => values.extend(texts(list, Value::State)),
        Condition::CallerTag(list) => values.extend(texts(list, Value::Tag)),
        Condition::Method(list) => values.extend(texts(list, Value::Method)),
        Condition::HttpPath(list) => {
            values.extend(list.iter().map(|pattern| Value::HttpPath(pattern.example().to_owned())))
        }
        Condition::Port(list) => values.extend(list.iter().map(|port| Value::Port(*port))),
        Condition::Plugin(list) => values.extend(
            list.iter().map(|name| Value::Caller(PrincipalKind::Plugin, Some(name.to_string()))),
        ),
        Condition::SizeOver(most) if call.size_bytes.is_some() => {
            values.extend([Value::Size(*most), Value::Size(most.saturating_add(1))]);
        }
        Condition::SizeOver(_) => {}
        Condition::Caller(list) => values.extend(
            list.iter()
                .map(|caller| Value::Caller(caller.kind, caller.id.as_deref().map(str::to_owned))),
        ),
        Condition::Label(list) => values.extend(list.iter().map(|label| match label {
            LabelPattern::Exact(label) => Value::Label(label.to_string()),
            LabelPattern::Prefix(prefix) => Value::Label(format!("{prefix}any")),
        })),
        Condition::Host(list) if call.host.is_some() => {
            values.extend(list.iter().filter_map(|host| match host {
                HostPattern::Any => None,
                HostPattern::Exact(name) => Some(Value::Host(name.to_string())),
                HostPattern::Below(suffix) => Some(Value::Host(format!("any{suffix}"))),
            }));
        }
        Condition::Change(list) => values.extend(list.iter().map(|class| Value::Change(*class))),
        Condition::Path(patterns) => {
            let Some(path) = &call.path else { return };
            let near = |glob: &Glob| [example_like(glob, path), example(glob)];
            values.extend(patterns.include.iter().flat_map(near).flatten().map(Value::Path));
        }
        Condition::Command(commands) => {
            let Some(program) = call.argv.as_ref().and_then(|argv| argv.first()) else { return };
            // Another program is another act, and what no command has is nothing to propose.
            let is_near = |words: &&Vec<Box<str>>| {
                let own = words.first().is_some_and(|word| base_name(word) == base_name(program));
                own && !is_odd(words)
            };
            let near = commands.prefixes.iter().filter(is_near);
            values.extend(
                near.map(|words| Value::Argv(words.iter().map(|word| word.to_string()).collect())),
            );
        }
        Condition::Host(_) => {}
    }
}

/// A path that a pattern matches, of the name that another path has.
fn example_like(glob: &Glob, path: &CanonicalPath) -> Option<CanonicalPath> {
    let example = example(glob)?;
    let name = path.file_name()?;
    let parent = example.as_str().rsplit_once('/').map(|(parent, _)| format!("{parent}/"));
    let like = CanonicalPath::parse(&format!("{}{name}", parent.unwrap_or_default())).ok()?;
    (like != *path && glob.matches(Components::of(&like))).then_some(like)
}

/// A path that a pattern matches.
pub(crate) fn example(glob: &Glob) -> Option<CanonicalPath> {
    let parts: Vec<String> = glob
        .segments()
        .iter()
        .filter_map(|segment| match segment {
            Segment::Literal(name) => Some(name.to_string()),
            Segment::Any => Some("any".to_owned()),
            Segment::Extension(extension) => Some(format!("any.{extension}")),
            Segment::Pattern(tokens) => tokens.iter().map(token_example).collect(),
            Segment::AnyDepth => None,
        })
        .collect();
    CanonicalPath::parse(&parts.join("/")).ok()
}

fn token_example(token: &Token) -> Option<String> {
    match token {
        Token::Char(c) => Some(c.to_string()),
        Token::One => Some("a".to_owned()),
        // Nothing would do as well, but nobody calls a file `-lock.json`.
        Token::Many => Some("any".to_owned()),
        Token::Class { negated: false, ranges } => ranges.first().map(|(low, _)| low.to_string()),
        Token::Class { negated: true, ranges } => ('a'..='z')
            .find(|c| !ranges.iter().any(|(low, high)| (low..=high).contains(&c)))
            .map(|c| c.to_string()),
    }
}
