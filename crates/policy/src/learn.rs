//! The least policy that decides recorded calls as they were decided.
//!
//! Every call that was allowed or asked for gets the narrowest rule that matches it; calls that differ only
//! in a path or a command share one. What was denied gets none. Where a rule would match a denied call as
//! well, because the two differ only in taint or size, a stricter rule tells them apart. A look at the top
//! directory needs a rule for all that is below; what the look kept back stays denied, and where that is not
//! known the rule is for the top alone.

use std::collections::BTreeMap;

use glasshouse_model::syscall::name;
use glasshouse_model::{Call, Effect};
use serde_json::{Map, Value, json};

use crate::builtin::Protected;
use crate::codes;
use crate::decide::{Request, decide};
use crate::error::{Error, Result};
use crate::limits::{MAX_LEARNED, MAX_LIST_ITEMS};
use crate::policy::Policy;
use crate::source::Source;
use crate::write::{match_for, name_part};

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

/// Learns from calls and what the rules said to them. `beside` are sources that decide together with
/// the new one, such as the workflow's.
///
/// ```
/// use glasshouse_model::Effect;
/// use glasshouse_policy::{CallSketch, KeptBack, Protected, learn};
/// let call = |path: &str| {
///     let sketch = format!(r#"{{"syscall":"fs.read","path":"{path}"}}"#);
///     CallSketch::from_json(&sketch).and_then(CallSketch::into_call).unwrap()
/// };
/// let decided =
///     [(call("a"), Effect::Allow), (call("b"), Effect::Allow), (call("c"), Effect::Deny)];
/// let learned = learn(&decided, &KeptBack::default(), &[], &Protected::default()).unwrap();
/// assert_eq!((learned.rules, learned.unequal.len()), (1, 0));
/// assert!(learned.text.contains(r#"["/a","/b"]"#));
/// ```
///
/// # Errors
/// The load errors of `beside`; `policy_limit` when it would take more rules than a policy has, or the calls
/// are more than can be learned from.
pub fn learn(
    recorded: &[(Call, Effect)],
    kept_back: &KeptBack,
    beside: &[Source<'_>],
    protected: &Protected,
) -> Result<Learned> {
    let denied = kept_back.calls.iter().map(|call| (call.clone(), Effect::Deny));
    let decided: Vec<_> = recorded.iter().cloned().chain(denied).collect();
    if decided.len() > MAX_LEARNED {
        return Err(Error::new(codes::LIMIT, "no policy can be learned from so many calls")
            .why(format!("there are {}", decided.len()))
            .with("limit", MAX_LEARNED));
    }
    let past = Past { decided: &decided, kept_back_from: recorded.len(), beside, protected };
    let alone = Policy::compile(beside, protected)?;
    let wanted = recorded
        .iter()
        .filter(|(call, effect)| !opens_every_host(call, *effect))
        .filter(|(call, effect)| *effect != Effect::Deny && effect_of(&alone, call) != *effect);
    let rules = together(wanted, kept_back.is_all);
    let mut learned = past.write(&rules)?;
    // Stricter rules for what is decided too mildly, then exceptions from what is too strict.
    let mut stricter = rules;
    let (unequal, kept): (Vec<usize>, Vec<usize>) =
        learned.unequal.iter().partition(|at| **at < recorded.len());
    stricter.extend(unequal.into_iter().filter_map(|at| tell_apart(at, &decided)));
    stricter.extend(together(kept.into_iter().map(|at| &decided[at]), false));
    for _ in 0..2 {
        if learned.unequal.is_empty() {
            break;
        }
        let tried = past.write(&stricter)?;
        past.lift(&mut stricter, &tried)?;
        if tried.unequal.len() < learned.unequal.len() {
            learned = tried;
        }
    }
    // What cannot be kept denied beside a rule for all is not reached by one.
    match learned.unequal.iter().any(|at| *at >= recorded.len()) && kept_back.is_all {
        true => {
            learn(recorded, &KeptBack { is_all: false, ..kept_back.clone() }, beside, protected)
        }
        false => Ok(learned),
    }
}

/// What is learned from, and what decides beside what is learned.
struct Past<'a> {
    decided: &'a [(Call, Effect)],
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
        for (call, effect) in lifted.map(|at| &self.decided[*at]) {
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
        let mut text = String::from("version: 1\ncapabilities:\n");
        for (at, rule) in rules.iter().enumerate() {
            let mut named = Map::new();
            named.insert("name".to_owned(), json!(name_of(at, rule)));
            named.extend(rule.as_object().cloned().unwrap_or_default());
            // JSON is YAML, and quotes whatever YAML would read.
            text.push_str(&format!("  - {}\n", Value::Object(named)));
        }
        if rules.is_empty() {
            text = "version: 1\n".to_owned();
        }
        let mut learned = Learned { text, rules: rules.len(), unequal: Vec::new() };
        let policy = learned.compile(self.beside, self.protected)?;
        let differs = |(at, (call, effect)): (usize, &(Call, Effect))| {
            let now = effect_of(&policy, call);
            let is_kept = at >= self.kept_back_from && now != Effect::Allow;
            (now != *effect && !is_kept).then_some(at)
        };
        learned.unequal = self.decided.iter().enumerate().filter_map(differs).collect();
        Ok(learned)
    }
}

fn effect_of(policy: &Policy, call: &Call) -> Effect {
    decide(policy, &Request::new(call, 0)).decision.effect
}

/// The conditions that calls share, and the values of the listed key.
type Group = (Map<String, Value>, Vec<Value>);

/// One rule for calls that differ in nothing but a listed key.
fn together<'a>(
    calls: impl Iterator<Item = &'a (Call, Effect)>,
    with_all_below: bool,
) -> Vec<Value> {
    let mut groups: BTreeMap<(String, Effect), Group> = BTreeMap::new();
    for (call, effect) in calls {
        let mut rest = match_for(call);
        if with_all_below && looks_below(call) {
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
        let name = (format!("{key} {}", Value::Object(rest.clone())), *effect);
        let group = groups.entry(name).or_insert_with(|| (rest, Vec::new()));
        for value in values {
            if !group.1.contains(&value) {
                group.1.push(value);
            }
        }
    }
    let mut rules = Vec::new();
    for ((name, effect), (rest, values)) in groups {
        let key = name.split(' ').next().unwrap_or_default();
        if values.is_empty() {
            rules.push(json!({ "match": rest, "action": effect }));
        }
        for part in values.chunks(MAX_LIST_ITEMS) {
            let mut matching = rest.clone();
            matching.insert(key.to_owned(), json!(part));
            rules.push(json!({ "match": matching, "action": effect }));
        }
    }
    rules
}

/// Whether a call looks at the top directory and tells of what is below it.
fn looks_below(call: &Call) -> bool {
    let looks = [name::FS_LIST, name::SEARCH_GREP, name::SEARCH_GLOB];
    looks.contains(&call.syscall.as_str()) && call.path.as_ref().is_some_and(|path| path.is_root())
}

/// Whether a rule for a call would open every host there is: such a rule does not load.
fn opens_every_host(call: &Call, effect: Effect) -> bool {
    effect == Effect::Allow && call.syscall == name::NET_CONNECT && call.host.is_none()
}

/// A stricter rule for a call that is decided too mildly, silent for the calls it would else catch.
fn tell_apart(at: usize, decided: &[(Call, Effect)]) -> Option<Value> {
    let (call, effect) = &decided[at];
    if opens_every_host(call, *effect) {
        return None;
    }
    let mut matching = match_for(call);
    let caught = decided
        .iter()
        .filter(|(other, milder)| milder < effect && match_for(other) == matching && other != call);
    let (mut excepts, mut left) = (Vec::new(), Vec::new());
    for (other, _) in caught {
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
