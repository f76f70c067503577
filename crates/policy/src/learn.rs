//! The least policy that decides recorded calls as they were decided.
//!
//! Every call that was allowed or asked for gets the narrowest rule that matches it; calls that differ only
//! in a path or a command share one. What was denied gets none. Where a rule would match a denied call as
//! well, because the two differ only in taint or size, a stricter rule tells them apart. A look at the top
//! directory needs a rule for all that is below; what the look kept back stays denied, and where that is not
//! known the rule is for the top alone. A rule demands what was demanded of its calls. What no rule can name, such as
//! a command with an empty word or one that held a secret, gets none and is told.

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_model::syscall::name;
use glasshouse_model::{Call, Constraints, Effect, Rate};
use serde_json::{Map, Value, json};

use crate::builtin::Protected;
use crate::codes;
use crate::decide::{Request, decide};
use crate::error::{Error, Result};
use crate::limits::{MAX_LEARNED, MAX_LIST_ITEMS};
use crate::policy::Policy;
use crate::source::Source;
use crate::write::{is_masked, match_for, name_part};

/// Keys whose values may be listed together in one rule.
const LISTED: [&str; 2] = ["path_glob", "argv"];

/// What recorded looks found and did not tell, because it was not allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptBack {
    /// Calls that ask for it, each as the look asked.
    pub calls: Vec<Call>,
    /// Whether that is all of it. If not, no rule is learned for what is below a directory.
    pub is_all: bool,
}

/// A call, and what was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The call.
    pub call: Call,
    /// What was decided.
    pub effect: Effect,
    /// What was demanded of it.
    pub constraints: Constraints,
}

impl Recorded {
    /// A call of which nothing was demanded.
    #[must_use]
    pub fn new(call: Call, effect: Effect) -> Self {
        Self { call, effect, constraints: Constraints::default() }
    }

    /// Whether some rule can be for this call and not for calls in general.
    fn can_be_named(&self) -> bool {
        if is_masked(&self.call) {
            return false;
        }
        let rule = json!({ "match": match_for(&self.call), "action": self.effect });
        let text = file_of(&[rule]);
        Policy::compile(&[Source::new("one", &text)], &Protected::default())
            .is_ok_and(|policy| effect_of(&policy, &self.call) == self.effect)
    }
}

/// A policy that was learned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// The file.
    pub text: String,
    /// Rules in it.
    pub rules: usize,
    /// Which of the calls, by their places, are decided differently: equal calls that were not decided
    /// equally, or that no condition can tell apart. What was kept back has the places behind them.
    pub unequal: Vec<usize>,
    /// Which of the calls, by their places, no rule can name; they are denied.
    pub unnamed: Vec<usize>,
}

impl Learned {
    /// The policy of this file and of those that decide with it.
    fn compile(&self, beside: &[Source<'_>], protected: &Protected) -> Result<Policy> {
        let mut sources = beside.to_vec();
        sources.push(Source::new("learned.yaml", &self.text));
        Policy::compile(&sources, protected)
    }
}

/// The name of a rule, by its place.
fn name_of(at: usize, rule: &Value) -> String {
    let syscall = rule["match"]["syscall"].as_str().unwrap_or_default();
    format!("learned-{}-{}", at + 1, name_part(syscall))
}

/// The file of these rules. JSON is YAML, and quotes whatever YAML would read; but YAML holds less as it stands.
fn file_of(rules: &[Value]) -> String {
    if rules.is_empty() {
        return "version: 1\n".to_owned();
    }
    let mut text = String::from("version: 1\ncapabilities:\n");
    for (at, rule) in rules.iter().enumerate() {
        let mut named = Map::new();
        named.insert("name".to_owned(), json!(name_of(at, rule)));
        named.extend(rule.as_object().cloned().unwrap_or_default());
        text.push_str("  - ");
        for c in Value::Object(named).to_string().chars() {
            match c {
                '\u{7f}'..='\u{9f}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => {
                    text.push_str(&format!("\\u{:04x}", u32::from(c)));
                }
                plain => text.push(plain),
            }
        }
        text.push('\n');
    }
    text
}

/// Learns from calls and what the rules said to them. `beside` are sources that decide together with
/// the new one, such as the workflow's.
///
/// ```
/// use glasshouse_model::Effect;
/// use glasshouse_policy::{CallSketch, KeptBack, Protected, Recorded, learn};
/// let decided = |path: &str, effect| {
///     let sketch = format!(r#"{{"syscall":"fs.read","path":"{path}"}}"#);
///     let call = CallSketch::from_json(&sketch).and_then(CallSketch::into_call).unwrap();
///     Recorded::new(call, effect)
/// };
/// let decided =
///     [decided("a", Effect::Allow), decided("b", Effect::Allow), decided("c", Effect::Deny)];
/// let learned = learn(&decided, &KeptBack::default(), &[], &Protected::default()).unwrap();
/// assert_eq!((learned.rules, learned.unequal.len()), (1, 0));
/// assert!(learned.text.contains(r#"["/a","/b"]"#));
/// ```
///
/// # Errors
/// The load errors of `beside`; `policy_limit` when it would take more rules than a policy has, or the calls
/// are more than can be learned from.
pub fn learn(
    recorded: &[Recorded],
    kept_back: &KeptBack,
    beside: &[Source<'_>],
    protected: &Protected,
) -> Result<Learned> {
    let denied = kept_back.calls.iter().map(|call| Recorded::new(call.clone(), Effect::Deny));
    let decided: Vec<_> = recorded.iter().cloned().chain(denied).collect();
    if decided.len() > MAX_LEARNED {
        return Err(Error::new(codes::LIMIT, "no policy can be learned from so many calls")
            .why(format!("there are {}", decided.len()))
            .with("limit", MAX_LEARNED));
    }
    let alone = Policy::compile(beside, protected)?;
    let unnamed = unnamed(&decided, recorded.len(), &alone);
    // What is kept back and cannot be named cannot be kept denied beside a rule for all.
    let is_all = kept_back.is_all && unnamed.last().is_none_or(|last| *last < recorded.len());
    let past = Past { decided: &decided, kept_back_from: recorded.len(), beside, protected };
    let is_wanted = |at: &usize| {
        let it = &decided[*at];
        it.effect != Effect::Deny && !unnamed.contains(at) && !says_the_same(&alone, it)
    };
    let wanted: Vec<_> = (0..recorded.len())
        .filter(is_wanted)
        .map(|at| without_those_of(&alone, &decided[at]))
        .collect();
    let rules = together(wanted.iter(), is_all);
    let mut learned = past.write(&rules)?;
    // Stricter rules for what is decided too mildly, then exceptions from what is too strict.
    let mut stricter = rules;
    let named = learned.unequal.iter().copied().filter(|at| !unnamed.contains(at));
    let (unequal, kept): (Vec<usize>, Vec<usize>) = named.partition(|at| *at < recorded.len());
    stricter.extend(unequal.into_iter().filter_map(|at| tell_apart(at, &decided)));
    stricter.extend(together(kept.into_iter().map(|at| &decided[at]), false));
    for _ in 0..2 {
        if learned.unequal.is_empty() {
            break;
        }
        // What does not load is no help.
        let Ok(tried) = past.write(&stricter) else { break };
        past.lift(&mut stricter, &tried)?;
        if tried.unequal.len() < learned.unequal.len() {
            learned = tried;
        }
    }
    // What cannot be kept denied beside a rule for all is not reached by one.
    if learned.unequal.iter().any(|at| *at >= recorded.len()) && is_all {
        let less = KeptBack { is_all: false, ..kept_back.clone() };
        return learn(recorded, &less, beside, protected);
    }
    learned.unnamed = unnamed.into_iter().filter(|at| *at < recorded.len()).collect();
    Ok(learned)
}

/// The places of what should have a rule and can have none; a kept back call should have one that denies.
fn unnamed(decided: &[Recorded], kept_back_from: usize, alone: &Policy) -> BTreeSet<usize> {
    let mut known: BTreeMap<(String, Effect), bool> = BTreeMap::new();
    let is_unnamed = |at: &usize| {
        let it = &decided[*at];
        let is_wanted = match it.effect {
            Effect::Deny => *at >= kept_back_from,
            _ => !says_the_same(alone, it),
        };
        let key = || (Value::Object(match_for(&it.call)).to_string(), it.effect);
        is_wanted && !*known.entry(key()).or_insert_with(|| it.can_be_named())
    };
    (0..decided.len()).filter(is_unnamed).collect()
}

/// Whether what decides beside what is learned says all of it already.
fn says_the_same(alone: &Policy, it: &Recorded) -> bool {
    let decision = decide(alone, &Request::new(&it.call, 0)).decision;
    decision.effect == it.effect && decision.constraints == it.constraints
}

/// Rates that rules beside count need no rule of their own.
fn without_those_of(alone: &Policy, it: &Recorded) -> Recorded {
    let mut it = it.clone();
    if !it.constraints.rates.is_empty() {
        let theirs = decide(alone, &Request::new(&it.call, 0)).decision.constraints.rates;
        it.constraints.rates.retain(|rule, rate| theirs.get(rule) != Some(rate));
    }
    it
}

/// What is learned from, and what decides beside what is learned.
struct Past<'a> {
    decided: &'a [Recorded],
    /// Where among them begins what was kept back.
    kept_back_from: usize,
    beside: &'a [Source<'a>],
    protected: &'a Protected,
}

impl Past<'_> {
    /// Adds an exception to each rule that was learned and decides a call too strictly: for calls that have
    /// what this one has and the rule does not speak of.
    fn lift(&self, rules: &mut [Value], tried: &Learned) -> Result<()> {
        let policy = tried.compile(self.beside, self.protected)?;
        // Whether something kept back would be asked for or denied makes no difference.
        let lifted = tried.unequal.iter().filter(|at| **at < self.kept_back_from);
        for Recorded { call, effect, .. } in lifted.map(|at| &self.decided[*at]) {
            let decision = decide(&policy, &Request::new(call, 0)).decision;
            for trace in decision.rules.iter().filter(|trace| trace.action > *effect) {
                let own = |at: &usize| trace.name == name_of(*at, &rules[*at]);
                let Some(at) = (0..rules.len()).find(own) else { continue };
                let mut more = match_for(call);
                let matching = rules[at]["match"].as_object();
                more.retain(|key, _| matching.is_some_and(|keys| !keys.contains_key(key)));
                let Some(rule) = rules[at].as_object_mut().filter(|_| !more.is_empty()) else {
                    continue;
                };
                let excepts = rule.entry("except").or_insert_with(|| json!([]));
                if let Value::Array(excepts) = excepts
                    && excepts.len() < crate::limits::MAX_EXCEPTS
                    && !excepts.contains(&Value::Object(more.clone()))
                {
                    excepts.push(Value::Object(more));
                }
            }
        }
        Ok(())
    }

    /// The file of these rules, and what it decides differently.
    fn write(&self, rules: &[Value]) -> Result<Learned> {
        let mut learned = Learned {
            text: file_of(rules),
            rules: rules.len(),
            unequal: Vec::new(),
            unnamed: Vec::new(),
        };
        let policy = learned.compile(self.beside, self.protected)?;
        let differs = |(at, it): (usize, &Recorded)| {
            let now = effect_of(&policy, &it.call);
            let is_kept = at >= self.kept_back_from && now != Effect::Allow;
            (now != it.effect && !is_kept).then_some(at)
        };
        learned.unequal = self.decided.iter().enumerate().filter_map(differs).collect();
        Ok(learned)
    }
}

fn effect_of(policy: &Policy, call: &Call) -> Effect {
    decide(policy, &Request::new(call, 0)).decision.effect
}

/// The conditions that calls share with what is demanded of them, and the values of the listed key.
struct Group<'a> {
    key: &'static str,
    rest: Map<String, Value>,
    of: &'a Recorded,
    values: Vec<Value>,
}

/// One rule for calls that differ in nothing but a listed key. What counts together shares a rule, as far as one
/// rule can be for it.
fn together<'a>(calls: impl Iterator<Item = &'a Recorded>, with_all_below: bool) -> Vec<Value> {
    let mut groups: BTreeMap<(String, Effect, String), Group<'_>> = BTreeMap::new();
    for it in calls {
        let mut rest = match_for(&it.call);
        if with_all_below && looks_below(&it.call) {
            rest.insert("path_glob".to_owned(), json!("**"));
        }
        let listed = LISTED.iter().find_map(|key| rest.remove(*key).map(|value| (*key, value)));
        let (key, values) = match listed {
            Some(("argv", Value::Array(one))) => ("argv", one),
            // What is taken away from one path is not to be taken away from others.
            Some((key, value @ Value::Array(_))) => {
                rest.insert(key.to_owned(), value);
                ("", Vec::new())
            }
            Some((key, value)) => (key, vec![value]),
            None => ("", Vec::new()),
        };
        let demands = json!(it.constraints).to_string();
        let name = (format!("{key} {}", Value::Object(rest.clone())), it.effect, demands);
        let new = || Group { key, rest, of: it, values: Vec::new() };
        let group = groups.entry(name).or_insert_with(new);
        for value in values {
            if !group.values.contains(&value) {
                group.values.push(value);
            }
        }
    }
    groups.values().flat_map(Group::rules).collect()
}

impl Group<'_> {
    fn rules(&self) -> Vec<Value> {
        let parts: Vec<Option<&[Value]>> = match self.values.as_slice() {
            [] => vec![None],
            values => values.chunks(MAX_LIST_ITEMS).map(Some).collect(),
        };
        let mut rules = Vec::new();
        for part in parts {
            let mut matching = self.rest.clone();
            matching.extend(part.map(|part| (self.key.to_owned(), json!(part))));
            for demands in demands(self.of) {
                let mut rule = json!({ "match": matching, "action": self.of.effect });
                if !demands.is_empty() {
                    rule["constraints"] = Value::Object(demands);
                }
                rules.push(rule);
            }
        }
        rules
    }
}

/// What was demanded of a call, as rules demand it: one rule has one rate, so each further rate is of another one.
fn demands(it: &Recorded) -> Vec<Map<String, Value>> {
    let Constraints {
        require_sandbox,
        min_isolation,
        max_file_size_bytes,
        max_duration_ms,
        rates,
        ui_profile,
        ui_limits,
        ui_hosts,
    } = &it.constraints;
    let mut all = Map::new();
    let mut add = |key: &str, value: Option<Value>| {
        all.extend(value.map(|value| (key.to_owned(), value)));
    };
    // A rule that denies demands nothing.
    if it.effect != Effect::Deny {
        add("require_sandbox", require_sandbox.as_ref().map(|name| json!(name)));
        add("min_isolation", min_isolation.as_ref().map(|level| json!(level)));
        add("max_file_size", max_file_size_bytes.map(|bytes| json!(bytes)));
        add("max_duration", max_duration_ms.map(|time_ms| json!(format!("{time_ms}ms"))));
        add("ui_profile", ui_profile.as_ref().map(|name| json!(name)));
        add("ui_limits", (!ui_limits.is_empty()).then(|| json!(ui_limits)));
        add("ui_hosts", ui_hosts.as_ref().map(|hosts| json!(hosts)));
    }
    let mut rates = rates.values().filter(|_| it.effect != Effect::Deny).map(rate_of);
    all.extend(rates.next());
    [all].into_iter().chain(rates.map(|rate| Map::from_iter([rate]))).collect()
}

fn rate_of(rate: &Rate) -> (String, Value) {
    ("rate".to_owned(), json!(format!("{}/{}ms", rate.calls, rate.within_ms)))
}

/// Whether a call looks at the top directory and tells of what is below it.
fn looks_below(call: &Call) -> bool {
    let looks = [name::FS_LIST, name::SEARCH_GREP, name::SEARCH_GLOB];
    looks.contains(&call.syscall.as_str()) && call.path.as_ref().is_some_and(|path| path.is_root())
}

/// A stricter rule for a call that is decided too mildly, silent for the calls it would else catch.
fn tell_apart(at: usize, decided: &[Recorded]) -> Option<Value> {
    let Recorded { call, effect, .. } = &decided[at];
    let mut matching = match_for(call);
    let is_caught =
        |it: &&Recorded| it.effect < *effect && match_for(&it.call) == matching && it.call != *call;
    let (mut excepts, mut left) = (Vec::new(), Vec::new());
    for Recorded { call: other, .. } in decided.iter().filter(is_caught) {
        let labels: Vec<_> = other.labels.difference(&call.labels).collect();
        match labels.first() {
            Some(label) => excepts.push(json!({ "label": label })),
            None => left.push(other),
        }
    }
    if !left.is_empty() {
        let label =
            call.labels.iter().find(|label| !left.iter().any(|o| o.labels.contains(*label)));
        let largest = left.iter().filter_map(|other| other.size_bytes).max();
        match (label, call.size_bytes, largest) {
            (Some(label), ..) => {
                matching.insert("label".to_owned(), json!(label));
            }
            (None, Some(size), Some(largest)) if size > largest => {
                matching.insert("size_over".to_owned(), json!(largest));
            }
            _ => return None,
        }
    }
    excepts.dedup();
    excepts.truncate(crate::limits::MAX_EXCEPTS);
    Some(match excepts.as_slice() {
        [] => json!({ "match": matching, "action": effect }),
        excepts => json!({ "match": matching, "action": effect, "except": excepts }),
    })
}
