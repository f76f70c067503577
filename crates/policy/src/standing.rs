//! Standing grants: a person's yes to more than one act, by a rule of its own.
//!
//! A standing grant turns review into allow, like an approval, for the calls that its rule matches, in
//! the turn, session or workspace that it is bound to. It lifts no denial and no review that a built-in
//! rule asks for. It is void as soon as the policy is another, as the call derives from something that
//! the approver's did not, and as anything it was derived from is void.

use std::collections::BTreeSet;
use std::fmt;

use glasshouse_model::body::{GrantRule as Told, GrantScope, StandingTerms};
use glasshouse_model::{
    BranchId, Call, CanonicalPath, ChangeClass, Decision, Digest, Effect, Layer, PrincipalKind,
    RuleTrace, Seq,
};
use serde_json::{Map, Value};

use crate::codes;
use crate::command::Seen;
use crate::error::{Error, Result};
use crate::grant::{GrantId, GrantUse, REVOKED, UseCounters};
use crate::limits::{MAX_GRANT_DEPTH, MAX_SOURCE_BYTES, MAX_TOLD_GRANTS};
use crate::rule::{Asked, Condition, Conditions};
use crate::source::conditions;
use crate::write::match_for;
use crate::yaml::{Kind, Reader};

/// Labels of the user's own words and project: every call derives from them sooner or later.
const OWN_LABELS: [&str; 2] = ["user", "repo"];
/// Most examples of each kind that a person is shown.
const MAX_SHOWN: usize = 2;
/// The same of connections, which differ in more places.
const MAX_SHOWN_CONNECTIONS: usize = 4;

/// Which calls a grant is for: the `match` of a rule that allows.
#[derive(Debug, Clone)]
pub struct GrantRule {
    matching: Value,
    conditions: Conditions,
    /// Directory that a command runs in; `./check` is another program in each. None is the top.
    cwd: Option<CanonicalPath>,
    /// Path and query of a request, byte for byte: what stands in either is what leaves. None looks at neither.
    target: Option<String>,
    /// Rules whose review it answers, as [`asking`] names them; what another rule asks for was not seen. None is any.
    asked_by: Option<BTreeSet<String>>,
}

impl GrantRule {
    /// The narrowest rule for a call: the same act on the same thing, in any state of the workflow. What no
    /// condition of a policy can say, such as a query, has a key of its own here.
    ///
    /// # Errors
    /// `grant_malformed` for a call that no rule can name.
    pub fn for_call(call: &Call) -> Result<Self> {
        Self::parse(&Value::Object(narrowest(call)?))
    }

    /// The same for the rules that asked about the call, and no others: a rule about what no key of a grant says, such
    /// as the size of what is written, asks about the next call by itself.
    ///
    /// # Errors
    /// As [`GrantRule::for_call`].
    pub fn offered(call: &Call, decision: &Decision) -> Result<Self> {
        let mut matching = narrowest(call)?;
        matching.insert(ASKED_BY.to_owned(), asking(&decision.rules).collect());
        Self::parse(&Value::Object(matching))
    }

    /// Reads the text of a rule that a person wrote: JSON, in which no key stands twice.
    ///
    /// # Errors
    /// `policy_syntax` for what is no such text; what [`GrantRule::parse`] answers.
    pub fn read(text: &str) -> Result<Value> {
        let reader = Reader { source: "the rule of a grant" };
        let mut node = reader.parse(text)?;
        let matching = node.to_json();
        // Faults are told with their places in what was written.
        if let Kind::Map(entries) = &mut node.kind {
            entries.retain(|(key, _)| ![CWD, TARGET, ASKED_BY].contains(&key.text.as_str()));
        }
        conditions::of_rule(&reader, &node, Effect::Allow)?;
        Self::parse(&matching).map(|_| matching)
    }

    /// Checks a rule that a person wrote.
    ///
    /// # Errors
    /// The load errors of a policy's `match`; `grant_malformed` when it names no syscall.
    pub fn parse(matching: &Value) -> Result<Self> {
        let reader = Reader { source: "the rule of a grant" };
        let text = matching.to_string();
        if text.len() > MAX_SOURCE_BYTES {
            return Err(malformed("it is too long"));
        }
        let mut rest = matching.clone();
        let cwd = rest.as_object_mut().and_then(|keys| keys.remove(CWD));
        let cwd = cwd.map(|cwd| match cwd.as_str().map(CanonicalPath::parse) {
            Some(Ok(cwd)) => Ok(cwd),
            _ => Err(malformed("`cwd` is no directory of the workspace")),
        });
        let cwd = cwd.transpose()?.filter(|cwd| *cwd != CanonicalPath::root());
        let target = match rest.as_object_mut().and_then(|keys| keys.remove(TARGET)) {
            None => None,
            Some(Value::String(target)) if target.starts_with('/') => Some(target),
            Some(_) => return Err(malformed("`http_target` is no path with or without a query")),
        };
        let asked_by = rest.as_object_mut().and_then(|keys| keys.remove(ASKED_BY));
        let asked_by = asked_by.map(serde_json::from_value).transpose();
        let asked_by = asked_by.map_err(|_| malformed("`asking_rule` is no list of rules"))?;
        let node = reader.parse(&rest.to_string())?;
        let conditions = conditions::of_rule(&reader, &node, Effect::Allow)?;
        if conditions.syscalls().is_none_or(<[_]>::is_empty) {
            return Err(malformed("it names no syscall"));
        }
        Ok(Self { matching: matching.clone(), conditions, cwd, target, asked_by })
    }

    /// Whether a call is one of those.
    #[must_use]
    pub fn matches(&self, call: &Call) -> bool {
        call.cwd == self.cwd
            && (self.target.is_none() || self.target == target(call))
            && self.conditions.match_call(Asked { call, seen: &Seen::default() })
    }

    /// Whether it answers each of these rules.
    fn answers(&self, rules: &[String]) -> bool {
        self.asked_by.as_ref().is_none_or(|own| rules.iter().all(|rule| own.contains(rule)))
    }

    /// Whether this matches everything that another does.
    fn covers(&self, other: &Self) -> bool {
        let answers = |own: &BTreeSet<String>| {
            other.asked_by.as_ref().is_some_and(|theirs| theirs.is_subset(own))
        };
        self.cwd == other.cwd
            && (self.target.is_none() || self.target == other.target)
            && self.asked_by.as_ref().is_none_or(answers)
            && self.conditions.cover(&other.conditions)
    }

    /// The rule as a person is shown it: with calls that it matches, and near ones that it does not.
    #[must_use]
    pub fn told(&self, call: &Call) -> Told {
        let mut told =
            Told { matching: self.matching.clone(), matches: Vec::new(), not_matches: Vec::new() };
        let most = if call.host.is_some() { MAX_SHOWN_CONNECTIONS } else { MAX_SHOWN };
        for near in self.near(call) {
            let list = if self.matches(&near) { &mut told.matches } else { &mut told.not_matches };
            let text = subject(&near);
            if list.len() < most && !list.contains(&text) {
                list.push(text);
            }
        }
        told
    }

    /// The call, and calls that a person might take for the same.
    fn near(&self, call: &Call) -> Vec<Call> {
        let mut near = vec![call.clone()];
        let mut add = |change: &dyn Fn(&mut Call)| {
            let mut other = call.clone();
            change(&mut other);
            near.push(other);
        };
        if let Some(argv) = &call.argv {
            let line = line(argv);
            // Of programs that are named by where they are it is the nearest.
            if argv.first().is_some_and(|program| program.contains('/')) {
                let elsewhere = CanonicalPath::parse("elsewhere").ok();
                add(&|c| c.cwd = elsewhere.clone());
            }
            let script = |text: String| ["sh".to_owned(), "-c".to_owned(), text].to_vec();
            add(&|c| c.argv = Some(script(format!("{line} 2>&1"))));
            add(&|c| c.argv = Some([argv.as_slice(), &["more".to_owned()]].concat()));
            for prefix in self.prefixes() {
                add(&|c| c.argv = Some([prefix.as_slice(), &["other".to_owned()]].concat()));
                // Without its one word nothing is left that anybody could run.
                if let Some((_, shorter)) =
                    prefix.split_last().filter(|(_, words)| !words.is_empty())
                {
                    add(&|c| c.argv = Some(shorter.to_vec()));
                }
            }
            add(&|c| c.argv = Some(script(format!("A=1 {line}"))));
            add(&|c| c.argv = Some([&["env".to_owned()], argv.as_slice()].concat()));
        }
        if let Some(change) = call.change {
            let is_source = change == ChangeClass::Source;
            let other = if is_source { ChangeClass::Test } else { ChangeClass::Source };
            add(&|c| c.change = Some(other));
        }
        if let Some(path) = &call.path {
            let beside = |name: &str| {
                let (dir, _) = path.as_str().rsplit_once('/').unwrap_or(("", ""));
                CanonicalPath::parse(&format!("{dir}/{name}"))
                    .or_else(|_| CanonicalPath::parse(name))
            };
            for other in [beside("other"), CanonicalPath::parse("elsewhere/file")] {
                add(&|c| c.path = other.as_ref().ok().cloned());
            }
        }
        if call.host.is_some() {
            if call.http_path.is_some() {
                add(&|c| (c.http_path, c.http_query) = (Some("/other".to_owned()), None));
                add(&|c| c.http_query = Some("other".to_owned()));
            }
            add(&|c| c.host = Some("other.example".to_owned()));
            add(&|c| c.method = Some("DELETE".to_owned()));
        }
        near
    }

    fn prefixes(&self) -> Vec<Vec<String>> {
        let commands = self.conditions.iter().filter_map(|condition| match condition {
            Condition::Command(commands) => Some(&commands.prefixes),
            _ => None,
        });
        let words = commands.flatten().map(|words| words.iter().map(|w| w.to_string()).collect());
        words.collect()
    }
}

/// The keys of the narrowest rule for a call.
fn narrowest(call: &Call) -> Result<Map<String, Value>> {
    // No key names it, so a rule without it would be one for every path of the machine.
    if call.host_path.is_some() {
        return Err(malformed("no rule can name a path outside the workspace"));
    }
    let mut matching = match_for(call);
    matching.remove("state_machine_state");
    if call.caller.kind == PrincipalKind::Plugin {
        matching.insert("plugin".to_owned(), call.caller.id.as_str().into());
    }
    if let Some(cwd) = &call.cwd {
        matching.insert(CWD.to_owned(), cwd.as_str().into());
    }
    if let Some(target) = target(call) {
        matching.remove("http_path");
        matching.insert(TARGET.to_owned(), target.into());
    }
    Ok(matching)
}

/// The rules that ask for review, each with the file that it is in.
pub(crate) fn asking(rules: &[RuleTrace]) -> impl Iterator<Item = String> {
    let by_rule = |trace: &&RuleTrace| matches!(trace.layer, Layer::File | Layer::Extension);
    let asks = |trace: &&RuleTrace| trace.action == Effect::RequireReview;
    rules.iter().filter(by_rule).filter(asks).map(|trace| match &trace.source {
        Some(source) => format!("{} ({source})", trace.name),
        None => trace.name.clone(),
    })
}

/// What a request asks its host for, as it is sent.
fn target(call: &Call) -> Option<String> {
    let path = call.http_path.as_ref()?;
    Some(call.http_query.as_ref().map_or_else(|| path.clone(), |query| format!("{path}?{query}")))
}

/// Words as a shell would be given them.
fn line(argv: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    let quoted = |word: &String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    argv.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// What a call is about, for people.
fn subject(call: &Call) -> String {
    if let Some(argv) = &call.argv {
        let line = line(argv);
        return match &call.cwd {
            Some(cwd) => format!("{line} (in {cwd})"),
            None => line,
        };
    }
    let place = call.host.as_ref().map(|host| {
        let method = call.method.as_deref().unwrap_or_default();
        format!("{method} {host}{}", target(call).unwrap_or_default())
    });
    let path = call.path.as_ref().map(ToString::to_string);
    let about = path.or(place).unwrap_or_default();
    let what = call.change.map_or_else(String::new, |change| format!(" ({})", change.as_str()));
    format!("{} {about}{what}", call.syscall).trim().to_owned()
}

/// A standing grant.
#[derive(Debug, Clone)]
pub struct Standing {
    id: GrantId,
    terms: StandingTerms,
    rule: GrantRule,
    parent: Option<GrantId>,
}

/// Key of a rule's directory, beside those of a policy's `match`.
const CWD: &str = "cwd";
/// Key of a request's path and query.
const TARGET: &str = "http_target";
/// Key of the rules that are answered.
const ASKED_BY: &str = "asking_rule";

fn malformed(why: &str) -> Error {
    Error::new(codes::GRANT_MALFORMED, "a standing grant")
        .why(why)
        .fix("write a rule as `glasshouse review show` prints it: {\"syscall\":\"fs.read\",\"path_glob\":\"docs/**\"}")
}

impl Standing {
    /// Makes a grant of recorded terms.
    ///
    /// # Errors
    /// `grant_malformed` for terms that bind to nothing or were given by no person; the load errors of
    /// its rule.
    pub fn new(id: GrantId, terms: StandingTerms) -> Result<Self> {
        let bound = match terms.scope {
            GrantScope::Call => false,
            GrantScope::Turn => terms.branch.is_some() && terms.turn.is_some(),
            GrantScope::Session => terms.branch.is_some(),
            GrantScope::Workspace => terms.workspace.is_some(),
        };
        if !bound {
            return Err(malformed("it is bound to no turn, session or workspace"));
        }
        if terms.approver.kind != PrincipalKind::User {
            return Err(malformed("only a person gives one"));
        }
        if terms.max_uses.is_some_and(|uses| uses == 0 || uses == REVOKED) {
            return Err(malformed("there is at least one use, and a finite number"));
        }
        let rule = GrantRule::parse(&terms.rule.matching)?;
        let parent = terms.parent.as_deref().map(str::parse).transpose()?;
        Ok(Self { id, terms, rule, parent })
    }

    /// Its name.
    #[must_use]
    pub const fn id(&self) -> GrantId {
        self.id
    }

    /// What it permits.
    #[must_use]
    pub const fn terms(&self) -> &StandingTerms {
        &self.terms
    }

    /// Derives a narrower grant: of fewer calls, in no wider scope, for no longer. It ends with this
    /// one, and its uses count here too.
    ///
    /// # Errors
    /// `grant_wider` naming the first term that this grant does not have; `grant_malformed`.
    pub fn attenuate(&self, id: GrantId, terms: StandingTerms) -> Result<Self> {
        let parent = &self.terms;
        let terms = StandingTerms { parent: Some(self.id.to_string()), ..terms };
        let child = Self::new(id, terms)?;
        let narrow = &child.terms;
        let same = |of: bool, theirs: bool| of || !theirs;
        let kept = [
            (narrow.scope <= parent.scope, "scope"),
            (narrow.tenant == parent.tenant, "tenant"),
            (same(narrow.branch == parent.branch, parent.branch.is_some()), "branch"),
            (same(narrow.turn == parent.turn, parent.turn.is_some()), "turn"),
            (same(narrow.workspace == parent.workspace, parent.workspace.is_some()), "workspace"),
            (
                same(narrow.repository == parent.repository, parent.repository.is_some()),
                "repository",
            ),
            (self.rule.covers(&child.rule), "rule"),
            (narrow.labels.is_subset(&parent.labels), "labels"),
            (narrow.policy_version == parent.policy_version, "policy_version"),
            (narrow.expires_us <= parent.expires_us, "expires_us"),
            (
                parent.max_uses.is_none_or(|most| narrow.max_uses.is_some_and(|n| n <= most)),
                "max_uses",
            ),
        ];
        match kept.into_iter().find(|(holds, _)| !holds) {
            None => Ok(child),
            Some((_, term)) => Err(Error::new(codes::GRANT_WIDER, "a grant cannot be derived")
                .why(format!("its `{term}` is wider than that of {}", self.id))
                .with("term", term)),
        }
    }
}

/// The standing grants at hand, and where the call is made.
#[derive(Debug, Clone, Copy)]
pub struct StandingUse<'a> {
    /// Grants, in any order; those they were derived from among them.
    pub grants: &'a [Standing],
    /// Branch on which the call runs.
    pub branch: &'a BranchId,
    /// Turn that it belongs to.
    pub turn: Option<Seq>,
    /// Directory of the project.
    pub workspace: &'a str,
    /// The repository in it, as [`StandingTerms::repository`] names it.
    pub repository: Option<&'a str>,
}

/// Why a standing grant for this very call did not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandingRefusal {
    /// It had expired when the evaluation began.
    Expired,
    /// It, or one it was derived from, was revoked.
    Revoked,
    /// It is used up.
    UsedUp,
    /// It was given under another policy.
    OtherPolicy,
    /// The call derives from something that the approved one did not.
    MoreTaint,
    /// A rule asks that did not ask when it was given.
    OtherRule,
    /// One that it was derived from is gone.
    Orphaned,
}

impl fmt::Display for StandingRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "has expired",
            Self::Revoked => "was revoked",
            Self::UsedUp => "is used up",
            Self::OtherPolicy => "was given under another policy",
            Self::MoreTaint => "was given for calls that derive from less",
            Self::OtherRule => "was given where fewer rules asked",
            Self::Orphaned => "was derived from one that is gone",
        })
    }
}

/// A call that waits for a person, as a grant is held against it.
#[derive(Clone, Copy)]
pub(crate) struct AskedFor<'a> {
    pub(crate) call: &'a Call,
    /// The rules that ask, as [`asking`] names them.
    pub(crate) rules: &'a [String],
    pub(crate) now_us: u64,
    pub(crate) policy_version: &'a Digest,
    pub(crate) counters: &'a dyn UseCounters,
}

/// What came of the grants at hand.
#[derive(Debug, Default)]
pub(crate) struct Found<'a> {
    /// The grant that allows, and the uses to store.
    pub(crate) used: Option<(&'a Standing, Vec<GrantUse>)>,
    /// Those for this call that do not count.
    pub(crate) refused: Vec<(GrantId, StandingRefusal)>,
    /// Those of them that say why the call is asked for.
    pub(crate) told: Vec<(GrantId, StandingRefusal)>,
}

/// Of what does not count, what a person who is asked has a use for: a grant that lives and is for less,
/// one that ends with this call, and the last of those that ended before their time. A workspace keeps
/// each grant that it ever had, and a list of the dead hides what is asked.
fn worth_telling(
    refused: &[(&Standing, StandingRefusal)],
    now_us: u64,
) -> Vec<(GrantId, StandingRefusal)> {
    let is_new = |refusal: &StandingRefusal| {
        let is_less = matches!(refusal, StandingRefusal::MoreTaint | StandingRefusal::OtherRule);
        is_less || *refusal == StandingRefusal::Expired
    };
    let new = refused.iter().filter(|(_, refusal)| is_new(refusal)).take(MAX_TOLD_GRANTS);
    let dead = refused
        .iter()
        .filter(|(grant, refusal)| !is_new(refusal) && now_us < grant.terms.expires_us)
        .max_by_key(|(grant, _)| grant.terms.expires_us);
    new.chain(dead).map(|(grant, refusal)| (grant.id, *refusal)).collect()
}

impl<'a> StandingUse<'a> {
    /// The first grant, by name, that allows a call which these rules ask about.
    pub(crate) fn find(&self, asked: &AskedFor<'_>) -> Found<'a> {
        let mut grants: Vec<&Standing> =
            self.grants.iter().filter(|grant| self.is_for(grant, asked.call)).collect();
        grants.sort_by_key(|grant| grant.id);
        let (mut used, mut refused) = (None, Vec::new());
        for grant in grants {
            match self.check(grant, asked) {
                Ok(uses) => {
                    used = Some((grant, uses));
                    break;
                }
                Err(refusal) => refused.push((grant, refusal)),
            }
        }
        let told = worth_telling(&refused, asked.now_us);
        let refused = refused.into_iter().map(|(grant, refusal)| (grant.id, refusal)).collect();
        Found { used, refused, told }
    }

    fn is_for(&self, grant: &Standing, call: &Call) -> bool {
        let terms = &grant.terms;
        terms.tenant == call.caller.tenant
            && terms.branch.as_ref().is_none_or(|branch| branch == self.branch)
            && terms.turn.is_none_or(|turn| Some(turn) == self.turn)
            && terms.workspace.as_deref().is_none_or(|dir| dir == self.workspace)
            && terms.repository.as_deref().is_none_or(|one| Some(one) == self.repository)
            && grant.rule.matches(call)
    }

    fn check(
        &self,
        grant: &Standing,
        asked: &AskedFor<'_>,
    ) -> std::result::Result<Vec<GrantUse>, StandingRefusal> {
        let AskedFor { call, rules, now_us, policy_version, counters } = *asked;
        let mut uses = Vec::new();
        let mut next = Some(grant);
        while let Some(one) = next {
            let terms = &one.terms;
            let stored = counters.stored(one.id);
            // A revoked one stays so, whatever else is true of it.
            if stored == REVOKED {
                return Err(StandingRefusal::Revoked);
            }
            if now_us >= terms.expires_us {
                return Err(StandingRefusal::Expired);
            }
            if terms.policy_version != *policy_version {
                return Err(StandingRefusal::OtherPolicy);
            }
            if terms.max_uses.is_some_and(|most| stored >= most) {
                return Err(StandingRefusal::UsedUp);
            }
            if !one.rule.answers(rules) {
                return Err(StandingRefusal::OtherRule);
            }
            let foreign = |label: &&String| !OWN_LABELS.contains(&label.as_str());
            if !call.labels.iter().filter(foreign).all(|label| terms.labels.contains(label)) {
                return Err(StandingRefusal::MoreTaint);
            }
            uses.push(GrantUse { id: one.id, stored, counter: stored + 1 });
            next = match one.parent {
                None => None,
                Some(_) if uses.len() >= MAX_GRANT_DEPTH => return Err(StandingRefusal::Orphaned),
                Some(parent) => {
                    let parent = self.grants.iter().find(|grant| grant.id == parent);
                    Some(parent.ok_or(StandingRefusal::Orphaned)?)
                }
            };
        }
        Ok(uses)
    }
}
