//! Replaying a branch: what the kernel made of its inputs is made again and must come out the same.
//!
//! Inputs are in the log: messages, answers of the model, decisions, results, times. Everything else
//! follows from them: each model request, each workflow transition, each charge and each end that one
//! event implies for the next. Nothing here reaches a provider, a network, a clock or a file, so a
//! difference means that the code changed, or that the log holds something no kernel would write.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use glasshouse_model::body::{
    BranchMerged, BudgetCharged, DebtUpdated, ModelRequested, PolicyDecided, ToolStarted,
};
use glasshouse_model::syscall::name;
use glasshouse_model::{Decision, Digest, Draft, Event, Kind, Layer, RuleTrace, Seq};
use glasshouse_policy::{Heard, Policy, Request};
use glasshouse_provider::ToolSpec;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::{CallPhase, Effect, State, consequences, debt, is_summary_wanted, model_request, next};

/// Name under which the kernel denies a path that is not in the workspace.
pub(crate) const WORKSPACE_BOUNDARY: &str = "workspace-boundary";
/// Name under which the kernel denies a call that would not run in the sandbox that a rule demands.
pub(crate) const SANDBOX_DEMANDED: &str = "sandbox-demanded";
/// Name under which the kernel denies a call that comes too soon after others.
pub(crate) const RATE_LIMITED: &str = "rate-limited";
/// Name under which the kernel denies a call that would not be isolated as a rule demands, where that is known before.
/// What is known once the sandbox is made, a session records as the end of a call.
pub(crate) const ISOLATION_TOO_WEAK: &str = "isolation-too-weak";

/// Name under which the kernel denies what no exemption covers, and an exemption that nobody may grant.
pub(crate) const EXEMPTION_SCOPE: &str = "exemption-scope";
/// Name under which the kernel denies to explore while coverage is owed.
pub(crate) const COVERAGE_DEBT: &str = "coverage-debt";

/// A branch that came out the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Replayed")]
pub struct Replayed {
    /// Digest of all that was made again: requests, events and the state at the end. Equal for every
    /// replay of the same events by the same code.
    pub digest: Digest,
    /// Events replayed.
    pub events: u64,
    /// Model requests that were made again and were equal.
    pub model_requests: u64,
}

/// The first thing that came out differently.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ReplayDifference")]
pub struct Difference {
    /// Sequence of the event.
    pub seq: Seq,
    /// Kind of the recorded event.
    pub kind: String,
    /// What differs: `model_request`, `decision`, `merge`, `implied_event`, `unexplained_event`,
    /// `unreadable_event`.
    pub what: &'static str,
    /// What the kernel makes of the events before.
    pub expected: Value,
    /// What is recorded.
    pub found: Value,
}

/// A replay under way.
pub struct Replay<'a> {
    tools: &'a [ToolSpec],
    policy: Option<Arc<Policy>>,
    state: State,
    /// What must come next, before any further input.
    implied: VecDeque<Draft>,
    /// Whether a kernel wrote the branch: the record of a command that a person ran has no turns.
    has_turns: bool,
    /// What the next merge must have brought, where it was made again.
    merged: Option<BTreeMap<String, Value>>,
    /// Digest over everything made so far.
    made: Digest,
    model_requests: u64,
}

impl<'a> Replay<'a> {
    /// Starts before the first event. `tools` are the tools that the model is told of; `policy` is that
    /// of the session, without which decisions are inputs like any other.
    #[must_use]
    pub fn new(tools: &'a [ToolSpec], policy: Option<Arc<Policy>>) -> Self {
        Self {
            tools,
            policy,
            state: State::default(),
            implied: VecDeque::new(),
            has_turns: false,
            merged: None,
            made: Digest::ZERO,
            model_requests: 0,
        }
    }

    /// Decides by another policy from here on.
    pub fn decide_by(&mut self, policy: Option<Arc<Policy>>) {
        self.policy = policy;
    }

    /// Says what the next event, a merge, must have brought besides files: made again from the branches
    /// as they were.
    pub fn expect_merge(&mut self, resolved: BTreeMap<String, Value>) {
        self.merged = Some(resolved);
    }

    /// Takes the next event of the branch.
    ///
    /// # Errors
    /// The difference, if there is one; the replay is over then.
    pub fn step(&mut self, event: &Event) -> Result<(), Difference> {
        self.has_turns |= *event.kind() == Kind::SessionCreated;
        if self.has_turns {
            self.check(event)?;
        }
        self.state.apply(event);
        if self.state.unreadable.is_some() {
            return Err(difference(event, "unreadable_event", Value::Null, event.body.clone()));
        }
        if self.has_turns {
            for draft in consequences(&self.state, event).into_iter().rev() {
                self.implied.push_front(draft);
            }
        }
        self.add(&event.hash);
        Ok(())
    }

    /// Ends the replay.
    #[must_use]
    pub fn finish(mut self) -> Replayed {
        let state = Digest::of(format!("{:?}", self.state).as_bytes());
        self.add(&state);
        Replayed { digest: self.made, events: self.state.head, model_requests: self.model_requests }
    }

    fn add(&mut self, digest: &Digest) {
        self.made = Digest::of_parts(&[self.made.as_bytes(), digest.as_bytes()]);
    }

    fn check(&mut self, event: &Event) -> Result<(), Difference> {
        if self.begins_fork(event) {
            // A fork may begin between an event and what that implied on the parent.
            self.implied.clear();
            return Ok(());
        }
        if let Some(draft) = self.implied.pop_front() {
            let same = draft.kind == *event.kind()
                && is_as_recorded(&draft.body, &event.body)
                && draft.cause == event.header.cause;
            let expected = json!({ "kind": draft.kind, "cause": draft.cause, "body": draft.body });
            let found = json!({
                "kind": event.kind(), "cause": event.header.cause, "body": event.body,
            });
            return if same {
                Ok(())
            } else {
                Err(difference(event, "implied_event", expected, found))
            };
        }
        let wanted = next(&self.state);
        // Events that a state wants recorded come whole.
        let recorded = wanted.iter().find_map(|effect| match effect {
            Effect::Record(drafts) => drafts
                .split_first()
                .filter(|(first, _)| first.kind == *event.kind() && first.body == event.body)
                .map(|(_, rest)| rest),
            _ => None,
        });
        if let Some(rest) = recorded {
            self.implied.extend(rest.iter().cloned());
            return Ok(());
        }
        let explained = match event.kind() {
            Kind::ModelRequested => return self.check_request(event, &wanted),
            Kind::PolicyDecided => return self.check_decision(event),
            Kind::BranchMerged => return self.check_merge(event),
            Kind::ToolStarted => event.body_as::<ToolStarted>().is_ok_and(|started| {
                let record = self.state.calls.get(&started.call);
                record.is_some_and(|record| record.phase == CallPhase::Allowed)
            }),
            Kind::MergeApplied => {
                wanted.iter().any(|effect| matches!(effect, Effect::ApplyMerge(_)))
            }
            Kind::CommitCreated => wanted.iter().any(|effect| matches!(effect, Effect::Commit(_))),
            // Only events that imply them can bring these.
            Kind::WorkflowTransitioned
            | Kind::ToolProposed
            | Kind::ContextCompacted
            | Kind::WorkflowExemptionRequested
            | Kind::WorkflowExemptionDecided
            | Kind::SessionModeChanged => false,
            Kind::DebtUpdated => self.is_debt_of_the_commit(event),
            // What another branch spent is news from outside.
            Kind::BudgetCharged => {
                event.body_as::<BudgetCharged>().is_ok_and(|charged| charged.branch.is_some())
            }
            _ => true,
        };
        if explained {
            return Ok(());
        }
        let expected = Value::from(wanted.iter().map(|e| format!("{e:?}")).collect::<Vec<_>>());
        Err(difference(event, "unexplained_event", expected, event.body.clone()))
    }

    /// Whether an event is one that only whoever forks a branch records: no consequence of another.
    fn begins_fork(&self, event: &Event) -> bool {
        match event.kind() {
            Kind::BranchForked => true,
            Kind::PolicyDecided => event.body_as::<PolicyDecided>().is_ok_and(|decided| {
                decided.call.is_none()
                    && decided.input.is_some_and(|call| call.syscall == name::SESSION_FORK)
            }),
            _ => false,
        }
    }

    /// Decides again what was decided by rules alone; what an approval added is that person's word.
    fn check_decision(&self, event: &Event) -> Result<(), Difference> {
        let (Some(policy), Ok(recorded)) = (&self.policy, event.body_as::<PolicyDecided>()) else {
            return Ok(());
        };
        let by_grant = |rule: &RuleTrace| rule.layer == Layer::Grant;
        if decided_by_kernel(&recorded.decision) || recorded.decision.rules.iter().any(by_grant) {
            return Ok(());
        }
        let Some(input) = recorded.input else { return Ok(()) };
        if recorded.call.is_none() && input.syscall == name::SESSION_MERGE {
            // A person's act beside the session's own; other rules decide it as well.
            return Ok(());
        }
        let heard = Heard::in_decision(&recorded.decision);
        let request = Request { extension: Some(&heard), ..Request::new(&input, 0) };
        let mut again = glasshouse_policy::decide(policy, &request).decision;
        // Which host paths are protected is a matter of the machine, and so is this digest.
        again.policy_version = recorded.decision.policy_version;
        if again == recorded.decision {
            return Ok(());
        }
        let expected = serde_json::to_value(again).unwrap_or_default();
        Err(difference(event, "decision", expected, event.body.clone()))
    }

    /// A merge brings what came of both branches, and only to a branch at rest.
    fn check_merge(&mut self, event: &Event) -> Result<(), Difference> {
        let expected = self.merged.take();
        let found = event.body_as::<BranchMerged>().map(|merged| merged.resolved);
        let mut found = found.unwrap_or_default();
        // Files are made again by whoever has them.
        found.remove("workspace");
        if self.state.turn.is_some() || expected.as_ref().is_some_and(|made| *made != found) {
            let expected = json!({ "turn": null, "resolved": expected });
            let found = json!({ "turn": self.state.turn, "resolved": found });
            return Err(difference(event, "merge", expected, found));
        }
        Ok(())
    }

    /// Whether a debt follows from what was known before and from the tests' report; what other sessions
    /// left is news from outside.
    fn is_debt_of_the_commit(&self, event: &Event) -> bool {
        let Ok(debt) = event.body_as::<DebtUpdated>() else { return false };
        let made = || {
            let coverage = self.state.coverage()?;
            debt::after_commit(&debt.project, debt.before.clone(), coverage, self.state.work())
        };
        debt.carried || made().is_some_and(|made| made == debt)
    }

    fn check_request(&mut self, event: &Event, wanted: &[Effect]) -> Result<(), Difference> {
        let request = model_request(&self.state, self.tools);
        let attempt = wanted.iter().find_map(|effect| match effect {
            Effect::RequestModel { attempt, .. } => Some(*attempt),
            _ => None,
        });
        let digest = request.digest();
        let same = event.body_as::<ModelRequested>().is_ok_and(|recorded| {
            recorded.request == digest
                && recorded.ordinal == request.ordinal
                && recorded.model == request.model
                && recorded.summary == is_summary_wanted(&self.state)
                && Some(recorded.attempt) == attempt
        });
        if !same {
            let expected = json!({
                "ordinal": request.ordinal, "attempt": attempt, "request": digest,
                "model": request.model,
            });
            return Err(difference(event, "model_request", expected, event.body.clone()));
        }
        self.add(&digest);
        self.model_requests += 1;
        Ok(())
    }
}

/// Every name under which the kernel denies.
const KERNEL_RULES: [&str; 6] = [
    WORKSPACE_BOUNDARY,
    SANDBOX_DEMANDED,
    ISOLATION_TOO_WEAK,
    RATE_LIMITED,
    EXEMPTION_SCOPE,
    COVERAGE_DEBT,
];

/// Whether what is implied now is what was recorded. Offers of before name no `asking_rule`: what a wider answer would have
/// allowed then was offered by another program, and is compared no further.
fn is_as_recorded(made: &Value, found: &Value) -> bool {
    let rule = |body: &Value| body.pointer("/offer/matching").cloned();
    let is_of_before =
        rule(found).is_some_and(|rule| rule.is_object() && rule.get("asking_rule").is_none());
    if !is_of_before || rule(made).is_none() {
        return made == found;
    }
    let without = |body: &Value| {
        let mut body = body.clone();
        body.as_object_mut().map(|fields| fields.remove("offer"));
        body
    };
    without(made) == without(found)
}

/// Whether a decision was not policy's alone.
pub(crate) fn decided_by_kernel(decision: &Decision) -> bool {
    decision.rules.iter().any(|rule| {
        // A rule of a file may have any name.
        rule.layer == Layer::BuiltIn && KERNEL_RULES.contains(&rule.name.as_str())
    })
}

fn difference(event: &Event, what: &'static str, expected: Value, found: Value) -> Difference {
    Difference { seq: event.seq(), kind: event.kind().as_str().to_owned(), what, expected, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seq: Seq, kind: Kind, body: Value) -> Event {
        serde_json::from_value(json!({
            "v": 1, "tenant": "local", "session": "s_1", "branch": "b_1", "seq": seq, "time_us": 1,
            "kind": kind, "actor": { "type": "user", "id": "local" }, "body": body,
            "body_hash": Digest::ZERO, "prev": Digest::ZERO, "hash": Digest::ZERO,
        }))
        .unwrap()
    }

    /// What a merge says that another branch had spent is made again from that branch.
    /// The failure: an offer names the rules that it answers now, and every session of before in which a person was asked
    /// came out differently.
    #[test]
    fn an_offer_of_before_is_compared_no_further() {
        let asked = |reason: &str, matching: Value| json!({ "reasons": [reason], "offer": { "matching": matching, "matches": [] } });
        let of_before = json!({ "syscall": "shell.run" });
        let now = json!({ "syscall": "shell.run", "asking_rule": ["a"] });
        let other = json!({ "syscall": "shell.run", "asking_rule": ["b"] });
        let none = json!({ "reasons": ["x"] });
        for (made, found, expected) in [
            (asked("x", now.clone()), asked("x", now.clone()), true),
            (asked("x", now.clone()), asked("x", of_before.clone()), true),
            (asked("x", now.clone()), asked("y", of_before.clone()), false),
            (asked("x", now.clone()), asked("x", other), false),
            (asked("x", now.clone()), none.clone(), false),
            (none.clone(), asked("x", of_before), false),
            (none.clone(), none, true),
        ] {
            assert_eq!(is_as_recorded(&made, &found), expected, "{made} {found}");
        }
    }

    #[test]
    fn law_7_a_merge_brings_what_came_of_both_branches() {
        let created = json!({
            "mode": "strict", "project": "/p", "provider": "x", "model": "m", "budget": {},
            "test": { "argv": [], "kind": "shell", "test_globs": [], "source_globs": [] },
            "policy": [], "max_auto_merge_lines": 1, "program_version": "1",
        });
        let merged = json!({
            "source": "b_2", "source_seq": 9, "source_hash": Digest::ZERO, "base_seq": 1,
            "strategy": "fast_forward", "resolved": { "usage": { "tokens": 7 } },
        });
        let started = event(2, Kind::TurnStarted, json!({}));
        let check = |before: &[&Event], made: Option<Value>, expected: Option<&str>| {
            let mut replay = Replay::new(&[], None);
            replay.step(&event(1, Kind::SessionCreated, created.clone())).unwrap();
            before.iter().for_each(|event| replay.step(event).unwrap());
            if let Some(made) = &made {
                replay.expect_merge(BTreeMap::from([("usage".to_owned(), made.clone())]));
            }
            let found = replay.step(&event(3, Kind::BranchMerged, merged.clone())).err();
            assert_eq!(found.map(|found| found.what), expected, "{made:?}");
        };
        check(&[], None, None);
        check(&[], Some(json!({ "tokens": 7 })), None);
        check(&[], Some(json!({ "tokens": 8 })), Some("merge"));
        check(&[&started], Some(json!({ "tokens": 7 })), Some("merge"));
    }
}
