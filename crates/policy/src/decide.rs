//! The decision: built-ins, sealed grant, rules, extension, in that order.
//!
//! Deny ends the evaluation at its layer, review beats allow, and what nobody allows is denied.
//! Within a layer every rule is heard, so neither the result nor the trace depends on the order
//! in which rules were written.

use glasshouse_model::{Call, Constraints, Decision, Digest, Effect, Layer, RuleTrace};

use crate::approval::{ApprovalRefusal, ApprovalUse};
use crate::builtin::{BUILT_INS, BuiltIn, Facts};
use crate::command::Seen;
use crate::extension::{Extension, ExtensionError, ExtensionText, Opinion};
use crate::grant::{GrantId, GrantUse, NoCounters, TokenRefusal, TokenUse, UseCounters};
use crate::policy::Policy;
use crate::rule::{Asked, Demands, ISOLATION_LEVELS, Interface, Rule, UI_PROFILES};
use crate::standing::{AskedFor, StandingRefusal, StandingUse, asking};

/// What is to be decided, and with what rights.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The call.
    pub call: &'a Call,
    /// The one time of the whole evaluation, in microseconds.
    pub now_us: u64,
    /// Sealed grant presented with the call.
    pub token: Option<TokenUse<'a>>,
    /// Approval presented with the call.
    pub approval: Option<ApprovalUse<'a>>,
    /// Standing grants that may be for it.
    pub standing: Option<StandingUse<'a>>,
    /// Stored use counters of grants and approvals.
    pub counters: &'a dyn UseCounters,
    /// What is asked in the place of what serves the policy's programs.
    pub extension: Option<&'a dyn Extension>,
}

impl<'a> Request<'a> {
    /// A request without grant, approval and extension.
    #[must_use]
    pub fn new(call: &'a Call, now_us: u64) -> Self {
        Self {
            call,
            now_us,
            token: None,
            approval: None,
            standing: None,
            counters: &NoCounters,
            extension: None,
        }
    }
}

/// A decision and what the caller has to commit with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The decision, as the event records it.
    pub decision: Decision,
    /// Counter of the sealed grant that allowed the call, to be stored in the same transaction as
    /// the event. If storing fails, the decision is void.
    pub grant_use: Option<GrantUse>,
    /// The same for the approval that allowed it.
    pub approval_use: Option<GrantUse>,
    /// The same for the standing grant that allowed it, and for those that one was derived from.
    pub standing_uses: Vec<GrantUse>,
    /// Why a presented grant did not count.
    pub token_refusal: Option<TokenRefusal>,
    /// Why a presented approval did not count; each is also a reason of the decision.
    pub approval_refusals: Vec<ApprovalRefusal>,
    /// Standing grants for this call that did not count; the newest are also reasons of the decision.
    pub standing_refusals: Vec<(GrantId, StandingRefusal)>,
}

/// Decides a request. Never fails: what can not be established is denied.
///
/// ```
/// use glasshouse_model::Effect;
/// use glasshouse_policy::{CallSketch, Policy, Protected, Request, Source, decide};
/// let text = "
/// capabilities:
///   - { name: reads, match: { syscall: fs.read, path_glob: 'src/**' }, action: allow }
/// ";
/// let policy = Policy::compile(&[Source::new("p.yaml", text)], &Protected::default()).unwrap();
/// let effect = |call: &str| {
///     let call = CallSketch::from_json(call).and_then(CallSketch::into_call).unwrap();
///     decide(&policy, &Request::new(&call, 0)).decision.effect
/// };
/// assert_eq!(effect(r#"{"syscall":"fs.read","path":"src/a"}"#), Effect::Allow);
/// assert_eq!(effect(r#"{"syscall":"fs.write","path":"src/a"}"#), Effect::Deny);
/// ```
#[must_use]
pub fn decide(policy: &Policy, request: &Request<'_>) -> Verdict {
    decide_under(BUILT_INS, policy, request)
}

/// As [`decide`], under given built-ins; tests show with it what each built-in is for.
pub(crate) fn decide_under(
    built_ins: &[BuiltIn],
    policy: &Policy,
    request: &Request<'_>,
) -> Verdict {
    decide_with(built_ins, policy, request, &Supposed::default(), &Seen::default())
}

/// Rules as they are not: what a decision is compared with to explain it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Supposed<'a> {
    /// Rules that are not there.
    pub(crate) without: &'a [usize],
    /// The one source, of those with a consent of their own, that decides as a joint one; the others
    /// of them are not there.
    pub(crate) alone: Option<usize>,
    /// One more rule, and what it says of the call.
    pub(crate) rule: Option<(SupposedRule, Effect)>,
}

/// Where a supposed rule stands.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SupposedRule {
    /// In some joint source.
    Joint,
    /// In this source, which has a consent of its own.
    Of(usize),
}

impl Supposed<'_> {
    /// The sources that have a consent of their own.
    fn apart(self, policy: &Policy) -> &[usize] {
        if self.alone.is_some() { &[] } else { &policy.apart }
    }

    fn is_gone(self, policy: &Policy, source: usize) -> bool {
        self.alone.is_some_and(|alone| alone != source) && policy.apart.contains(&source)
    }
}

/// As [`decide`], under other rules; `seen` is of the same command.
pub(crate) fn decide_supposing(
    policy: &Policy,
    request: &Request<'_>,
    supposed: &Supposed<'_>,
    seen: &Seen,
) -> Verdict {
    decide_with(BUILT_INS, policy, request, supposed, seen)
}

fn decide_with(
    built_ins: &[BuiltIn],
    policy: &Policy,
    request: &Request<'_>,
    supposed: &Supposed<'_>,
    seen: &Seen,
) -> Verdict {
    let mut ledger =
        Ledger { apart: supposed.apart(policy), stricter: &policy.stricter, ..Ledger::default() };
    let facts = Facts::new(request.call);
    for rule in built_ins {
        if (rule.applies)(&policy.guard, &facts) {
            ledger.add(Layer::BuiltIn, rule.name, rule.effect, Some(rule.reason.to_owned()));
        }
    }
    if ledger.denied {
        return ledger.verdict(policy, request, None);
    }
    let token = request
        .token
        .map(|token| token.check(request.call, request.now_us, &policy.version, request.counters));
    if let Some(Ok(used)) = token {
        let reason = Some(used.id.to_string());
        ledger.add(Layer::Grant, "sealed-grant", Effect::Allow, reason);
        ledger.grant_use = Some(used);
        return ledger.verdict(policy, request, None);
    }
    let asked = Asked { call: request.call, seen };
    for id in policy.index.candidates(request.call) {
        let rule = &policy.rules[id];
        let is_gone = supposed.is_gone(policy, rule.source) || supposed.without.contains(&id);
        if !is_gone && rule.contributes_found(asked) {
            ledger.add_rule(policy, rule, request.call);
        }
    }
    if let Some((place, action)) = supposed.rule {
        ledger.add_supposed(place, action);
    }
    ledger.check_sandbox();
    if !ledger.denied {
        ledger.ask_extensions(policy, request, supposed);
    }
    ledger.check_consent(policy, request.call);
    ledger.verdict(policy, request, token.and_then(Result::err))
}

/// What was contributed so far.
#[derive(Default)]
struct Ledger<'a> {
    /// Sources that have a consent of their own.
    apart: &'a [usize],
    /// Sources that open nothing.
    stricter: &'a [usize],
    traces: Vec<RuleTrace>,
    denied: bool,
    review: bool,
    /// Whether one of those asks for review of what something else lets pass.
    asked: bool,
    /// Whether a built-in rule asks for review, which no standing grant answers.
    built_in_review: bool,
    allowed: bool,
    /// Whether anything but a source with a consent of its own let the call pass.
    joint: bool,
    /// Sources with a consent of their own that let the call pass.
    consents: Vec<usize>,
    constraints: Constraints,
    /// Templates demanded, to notice when they differ.
    sandboxes: Vec<Box<str>>,
    /// Place of the strongest isolation demanded.
    min_isolation: Option<usize>,
    /// Place of the most careful profile demanded.
    ui_profile: Option<usize>,
    grant_use: Option<GrantUse>,
    approval_use: Option<GrantUse>,
    standing_uses: Vec<GrantUse>,
}

/// Template name that any sandbox satisfies.
const ANY_SANDBOX: &str = "L2";
/// Name of a program in traces.
const EXTENSION: &str = "extension";

impl Ledger<'_> {
    fn add(&mut self, layer: Layer, name: &str, action: Effect, reason: Option<String>) {
        self.hear(action);
        self.joint |= action != Effect::Deny;
        self.built_in_review |= layer == Layer::BuiltIn && action == Effect::RequireReview;
        let name = name.to_owned();
        self.traces.push(RuleTrace { name, layer, source: None, line: None, action, reason });
    }

    const fn hear(&mut self, action: Effect) {
        match action {
            Effect::Allow => self.allowed = true,
            Effect::RequireReview => self.review = true,
            Effect::Deny => self.denied = true,
        }
    }

    /// Adds a rule of a file. A rule whose constraint the call already breaks denies instead.
    fn add_rule(&mut self, policy: &Policy, rule: &Rule, call: &Call) {
        let (action, reason) = match broken(&rule.demands, call) {
            Some(why) => (Effect::Deny, Some(why)),
            None => (rule.effect, rule.reason.as_deref().map(str::to_owned)),
        };
        if self.consent(rule.source, action) {
            self.traces.push(RuleTrace {
                name: rule.name.to_string(),
                layer: Layer::File,
                source: Some(policy.source_name(rule.source).to_owned()),
                line: Some(rule.line),
                action,
                reason,
            });
        }
        let demands = &rule.demands;
        tighten(&mut self.constraints.max_file_size_bytes, demands.max_file_size_bytes);
        tighten(&mut self.constraints.max_duration_ms, demands.max_duration_ms);
        self.sandboxes.extend(demands.sandbox.clone());
        self.min_isolation = self.min_isolation.max(demands.min_isolation);
        self.constraints.min_isolation =
            self.min_isolation.and_then(|at| ISOLATION_LEVELS.get(at)).map(|at| (*at).to_owned());
        if let Some(rate) = demands.rate {
            // Two files may use one name for two rules; each has a count of its own.
            let name = format!("{} ({})", rule.name, policy.source_name(rule.source));
            self.constraints.rates.insert(name, rate);
        }
        self.tighten_interface(&demands.interface);
    }

    /// Notes what a source says of the call, and whether it let it pass. Answers whether that counts.
    fn consent(&mut self, source: usize, action: Effect) -> bool {
        if self.stricter.contains(&source) {
            self.denied |= action == Effect::Deny;
            self.asked |= action == Effect::RequireReview;
            return action != Effect::Allow;
        }
        self.hear(action);
        if self.apart.contains(&source) {
            self.consents.push(source);
        } else {
            self.joint |= action != Effect::Deny;
        }
        true
    }

    /// Adds a rule that is in no file.
    fn add_supposed(&mut self, place: SupposedRule, action: Effect) {
        match place {
            SupposedRule::Joint => self.add(Layer::File, "supposed", action, None),
            SupposedRule::Of(source) => {
                self.consent(source, action);
            }
        }
    }

    /// The most careful profile, the lowest limits, the hosts that every rule lists.
    fn tighten_interface(&mut self, demands: &Interface) {
        if let Some(place) = demands.profile {
            let place = self.ui_profile.map_or(place, |other| other.min(place));
            self.ui_profile = Some(place);
            self.constraints.ui_profile = UI_PROFILES.get(place).map(|name| (*name).to_owned());
        }
        for (name, most) in &demands.limits {
            let limit = self.constraints.ui_limits.entry(name.clone()).or_insert(*most);
            *limit = (*limit).min(*most);
        }
        if let Some(hosts) = &demands.hosts {
            let both = match &self.constraints.ui_hosts {
                None => hosts.clone(),
                Some(others) => others.intersection(hosts).cloned().collect(),
            };
            self.constraints.ui_hosts = Some(both);
        }
    }

    /// What one source allows, another whose consent is needed may not know of.
    fn check_consent(&mut self, policy: &Policy, call: &Call) {
        self.review |= self.asked && self.allowed;
        if self.joint || self.denied || self.consents.is_empty() {
            return;
        }
        for source in self.apart {
            if !self.consents.contains(source) {
                let name = policy.source_name(*source);
                let reason = format!("no rule of {name} allows `{}` here", call.syscall);
                self.add(Layer::Default, "default-deny", Effect::Deny, Some(reason));
            }
        }
    }

    /// One act runs in one sandbox: rules that demand different ones can not all be obeyed.
    fn check_sandbox(&mut self) {
        self.sandboxes.sort();
        self.sandboxes.dedup();
        if self.sandboxes.len() > 1 {
            self.sandboxes.retain(|name| **name != *ANY_SANDBOX);
        }
        match self.sandboxes.as_slice() {
            [] => {}
            [one] => self.constraints.require_sandbox = Some(one.to_string()),
            several => {
                let reason = format!("rules demand different sandboxes: {}", several.join(", "));
                self.add(Layer::File, "require_sandbox", Effect::Deny, Some(reason));
            }
        }
    }

    /// Asks each program. None hears what another said, so their order decides nothing.
    fn ask_extensions(&mut self, policy: &Policy, request: &Request<'_>, supposed: &Supposed<'_>) {
        let serving = request.extension.or_else(|| policy.serving());
        let texts = policy.extensions();
        if let (true, Some(extension)) = (texts.is_empty(), serving) {
            if let Some(said) = opinion(extension, None, request.call) {
                self.add(Layer::Extension, EXTENSION, said.effect, Some(said.reason));
            }
            return;
        }
        // A text that two sources carry is one program: it crashes once, and counts for both. Silence is asked for again: a
        // record tells what was said by source, and leaves out what did not count.
        let mut heard: Vec<(&str, Opinion)> = Vec::new();
        for text in texts.iter().filter(|text| !supposed.is_gone(policy, text.position)) {
            let before = heard.iter().find(|(code, _)| *code == text.code);
            let said = match (before, serving) {
                (Some((_, said)), _) => Some(said.clone()),
                (None, Some(extension)) => opinion(extension, Some(text), request.call),
                // The rule that nobody can ask might have been a deny rule.
                (None, None) => Some(Opinion {
                    effect: Effect::Deny,
                    reason: "the policy has rules in TypeScript, and nothing runs them".to_owned(),
                }),
            };
            let Some(said) = said else { continue };
            heard.push((&text.code, said.clone()));
            self.add_opinion(text, said);
        }
    }

    fn add_opinion(&mut self, text: &ExtensionText, said: Opinion) {
        if self.consent(text.position, said.effect) {
            self.traces.push(RuleTrace {
                name: EXTENSION.to_owned(),
                layer: Layer::Extension,
                source: Some(text.source.clone()),
                line: Some(text.line),
                action: said.effect,
                reason: Some(said.reason),
            });
        }
    }

    /// Lets a valid approval turn review into allow; says why an invalid one does not.
    fn apply_approval(&mut self, request: &Request<'_>, version: &Digest) -> Vec<ApprovalRefusal> {
        let Some(presented) = request.approval.filter(|_| self.review && !self.denied) else {
            return Vec::new();
        };
        match presented.check(request.call, request.now_us, version, request.counters) {
            Ok(used) => {
                let reason = format!("{} given by {}", used.id, presented.approval.approver.id);
                self.add(Layer::Grant, "approval", Effect::Allow, Some(reason));
                self.review = false;
                self.approval_use = Some(used);
                Vec::new()
            }
            Err(refusals) => {
                let words: Vec<String> = refusals.iter().map(ToString::to_string).collect();
                let reason = Some(words.join("; "));
                self.add(Layer::Grant, "approval", Effect::RequireReview, reason);
                refusals
            }
        }
    }

    /// Lets a standing grant turn the review of a file's rule into allow.
    fn apply_standing(
        &mut self,
        request: &Request<'_>,
        version: &Digest,
    ) -> Vec<(GrantId, StandingRefusal)> {
        let open = self.review && !self.denied && !self.built_in_review;
        let Some(standing) = request.standing.filter(|_| open) else { return Vec::new() };
        let rules: Vec<String> = asking(&self.traces).collect();
        let found = standing.find(&AskedFor {
            call: request.call,
            rules: &rules,
            now_us: request.now_us,
            policy_version: version,
            counters: request.counters,
        });
        if let Some((grant, uses)) = found.used {
            let terms = grant.terms();
            let reason = format!("{} given by {}", grant.id(), terms.approver.id);
            self.add(Layer::Grant, "standing-grant", Effect::Allow, Some(reason));
            self.review = false;
            self.standing_uses = uses;
        } else {
            for (id, refusal) in &found.told {
                let reason = format!("{id} {refusal}");
                self.add(Layer::Grant, "standing-grant", Effect::RequireReview, Some(reason));
            }
        }
        found.refused
    }

    fn verdict(
        mut self,
        policy: &Policy,
        request: &Request<'_>,
        token_refusal: Option<TokenRefusal>,
    ) -> Verdict {
        let approval_refusals = self.apply_approval(request, &policy.version);
        let standing_refusals = self.apply_standing(request, &policy.version);
        let effect = match (self.denied, self.review, self.allowed) {
            (true, ..) => Effect::Deny,
            (false, true, _) => Effect::RequireReview,
            (false, false, true) => Effect::Allow,
            (false, false, false) => {
                let reason = format!("no rule allows `{}` here", request.call.syscall);
                self.add(Layer::Default, "default-deny", Effect::Deny, Some(reason));
                Effect::Deny
            }
        };
        // An act that does not happen uses nothing up.
        let (grant_use, approval_use, standing_uses) = match effect {
            Effect::Allow => (self.grant_use, self.approval_use, self.standing_uses),
            Effect::RequireReview | Effect::Deny => (None, None, Vec::new()),
        };
        if effect == Effect::Deny {
            self.constraints = Constraints::default();
        }
        // Names are unique within a source, so this order is that of no file.
        self.traces
            .sort_by(|a, b| (a.layer, &a.name, &a.source).cmp(&(b.layer, &b.name, &b.source)));
        // What was overruled did not bring this about; the traces tell it all the same.
        let decisive = self.traces.iter().filter(|trace| trace.action == effect);
        let reasons = decisive.filter_map(reason).collect();
        let decision = Decision {
            effect,
            rules: self.traces,
            reasons,
            policy_version: policy.version,
            constraints: self.constraints,
        };
        Verdict {
            decision,
            grant_use,
            approval_use,
            standing_uses,
            token_refusal,
            approval_refusals,
            standing_refusals,
        }
    }
}

/// What an extension says; one that cannot say anything denies.
fn opinion(
    extension: &dyn Extension,
    program: Option<&ExtensionText>,
    call: &Call,
) -> Option<Opinion> {
    let error = match extension.evaluate(program, call) {
        Ok(said) => return said,
        Err(error) => error,
    };
    let mut reason = error.to_string();
    if matches!(error, ExtensionError::Crashed(_)) {
        let then =
            if extension.restart(program) { "it is started again" } else { "it is disabled" };
        reason = format!("{reason}; {then}");
    }
    Some(Opinion { effect: Effect::Deny, reason })
}

/// A rule's own words; a rule that stops the call without any is at least named.
fn reason(trace: &RuleTrace) -> Option<String> {
    match (&trace.reason, trace.action) {
        (Some(reason), _) => Some(reason.clone()),
        (None, Effect::Allow) => None,
        (None, Effect::RequireReview) => Some(format!("rule `{}` asks for review", trace.name)),
        (None, Effect::Deny) => Some(format!("rule `{}` denies", trace.name)),
    }
}

/// Which demand the call breaks, as far as it can be seen before the act.
fn broken(demands: &Demands, call: &Call) -> Option<String> {
    // A valid grant is decided before any rule is read, so here there is none.
    if demands.token {
        return Some("this needs a valid sealed grant, and none was presented".to_owned());
    }
    match (demands.max_file_size_bytes, call.size_bytes) {
        (Some(most), Some(size)) if size > most => {
            Some(format!("{size} bytes would be written, at most {most} are allowed"))
        }
        _ => None,
    }
}

fn tighten(limit: &mut Option<u64>, demand: Option<u64>) {
    *limit = match (*limit, demand) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
}
