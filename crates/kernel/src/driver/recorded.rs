//! What was decided in a session, on all of its branches: what another policy is tried on, and learned from.

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_log::{BranchRow, SessionRow};
use glasshouse_model::body::{
    CallEnd, CallStatus, PolicyDecided, SessionCreated, ToolStarted, Withheld,
};
use glasshouse_model::{BranchId, Call, CallId, Constraints, Effect, Event, Kind, Layer, Seq};
use glasshouse_policy::{Consent, ISOLATION_LEVELS};

use super::Kernel;
use super::demands::IN_PROCESS;
use super::rules::{PolicyText, TENANT_POLICY, WORKFLOW_POLICY, of_session, workflow};
use crate::session::{COVERAGE_DEBT, EXEMPTION_SCOPE, WORKSPACE_BOUNDARY};
use crate::{Result, codes};

/// What was decided in a session.
pub(super) struct Recorded {
    /// The rules that no candidate takes the place of, the workflow's and the tenant's.
    pub(super) beside: Vec<PolicyText>,
    /// Its branches, each behind the one that it left.
    pub(super) lines: Vec<Line>,
}

/// What a branch has of its own.
pub(super) struct Line {
    pub(super) branch: BranchId,
    /// The place among the lines of the branch that it left, and the last event that both share.
    pub(super) left: Option<(usize, Seq)>,
    /// Whether another log recorded it.
    is_imported: bool,
    /// Whether what was decided on it is looked at, and not only counted for the branches that left it.
    pub(super) counts: bool,
    pub(super) decided: Vec<Decided>,
}

impl Recorded {
    /// All decisions, each with its branch.
    pub(super) fn decided(&self) -> impl Iterator<Item = (&BranchId, &Decided)> {
        self.lines.iter().flat_map(|line| line.decided.iter().map(move |it| (&line.branch, it)))
    }

    /// Looks only at what this log recorded itself.
    pub(super) fn leave_out_imported(&mut self) {
        for line in &mut self.lines {
            line.counts = !line.is_imported;
        }
    }
}

/// A decision, and what became of the call.
pub(super) struct Decided {
    pub(super) seq: Seq,
    pub(super) time_us: u64,
    pub(super) body: PolicyDecided,
    /// What the call found and did not tell.
    pub(super) withheld: Option<Withheld>,
    /// The isolation that the call had.
    pub(super) isolation: Option<String>,
    /// Whether a rule demanded more isolation than there was.
    pub(super) is_too_weak: bool,
}

impl Kernel {
    /// What was decided in a session. `None` for what no session can be read from, and for one of another project
    /// than is asked for.
    pub(super) fn recorded_in(
        &self,
        row: &SessionRow,
        project: Option<&str>,
    ) -> Result<Option<Recorded>> {
        let mut recorded = Recorded { beside: Vec::new(), lines: Vec::new() };
        let rows = self.log.branches(&row.session)?;
        let mut left: Vec<&BranchRow> = rows.iter().collect();
        while !left.is_empty() {
            let before = left.len();
            let mut later = Vec::new();
            for branch in left {
                let places = recorded.lines.iter().map(|line| &line.branch).enumerate();
                let parent = branch.fork.as_ref().map(|fork| {
                    let place = places.clone().find(|(_, id)| **id == fork.parent);
                    place.map(|(place, _)| (place, fork.seq))
                });
                match parent {
                    Some(None) => later.push(branch),
                    known => {
                        let known = known.flatten();
                        if !self.read_line(&mut recorded, (branch, known), project)? {
                            return Ok(None);
                        }
                    }
                }
            }
            // A branch of nothing is a log's fault that `audit verify` names.
            if later.len() == before {
                break;
            }
            left = later;
        }
        Ok(Some(recorded))
    }

    /// The rules of a session that no candidate takes the place of. What another log recorded as the workflow's may be
    /// anything, so that is made anew; what it calls a tenant's opens nothing.
    fn rules_beside(&self, created: &SessionCreated, is_imported: bool) -> Result<Vec<PolicyText>> {
        let stays = |text: &PolicyText| [WORKFLOW_POLICY, TENANT_POLICY].contains(&&*text.name);
        let recorded = of_session(self, &created.policy)?.into_iter().filter(stays);
        if !is_imported {
            return Ok(recorded.collect());
        }
        let theirs = recorded.filter(|text| text.name != WORKFLOW_POLICY);
        let theirs = theirs.map(|text| PolicyText { consent: Consent::Stricter, ..text });
        Ok([workflow(&created.test)].into_iter().chain(theirs).collect())
    }

    /// Reads what a branch has of its own. False where the session is not one to read.
    fn read_line(
        &self,
        recorded: &mut Recorded,
        (branch, left): (&BranchRow, Option<(usize, Seq)>),
        project: Option<&str>,
    ) -> Result<bool> {
        let is_imported = branch.is_imported;
        let name = branch.branch.clone();
        let mut line = Line { branch: name, left, is_imported, counts: true, decided: Vec::new() };
        let (mut ends, mut started) = (BTreeMap::new(), BTreeMap::new());
        let first = left.map_or(1, |(_, shared)| shared + 1);
        for event in self.log.events_from(&branch.branch, first) {
            let event = event?;
            let is_created = *event.kind() == Kind::SessionCreated;
            if project.is_some() && event.seq() == 1 && !is_created {
                return Ok(false);
            }
            match event.kind() {
                Kind::SessionCreated => {
                    let Ok(created) = event.body_as::<SessionCreated>() else { return Ok(false) };
                    if project.is_some_and(|project| created.project != project) {
                        return Ok(false);
                    }
                    recorded.beside = self.rules_beside(&created, branch.is_imported)?;
                }
                Kind::PolicyDecided => line.decided.extend(Decided::of(&event)),
                Kind::ToolStarted => {
                    if let Ok(body) = event.body_as::<ToolStarted>() {
                        started.insert(body.call, body.isolation);
                    }
                }
                kind if kind.ends_call() => {
                    if let Ok(body) = event.body_as::<CallEnd>() {
                        ends.insert(body.call, body);
                    }
                }
                _ => {}
            }
        }
        for decided in &mut line.decided {
            decided.learn_end(&ends, &started);
        }
        recorded.lines.push(line);
        Ok(true)
    }
}

impl Decided {
    fn of(event: &Event) -> Option<Self> {
        let body = event.body_as::<PolicyDecided>().ok()?;
        let (seq, time_us) = (event.seq(), event.header.time_us);
        let (withheld, isolation, is_too_weak) = (None, None, false);
        Some(Self { seq, time_us, body, withheld, isolation, is_too_weak })
    }

    /// Notes what became of the call: of its own decision, not of that on a path that it changed.
    fn learn_end(&mut self, ends: &BTreeMap<CallId, CallEnd>, started: &BTreeMap<CallId, String>) {
        let Some(call) = self.body.call.filter(|_| self.body.args_digest.is_some()) else { return };
        self.isolation = started.get(&call).cloned();
        let Some(end) = ends.get(&call).filter(|_| self.body.decision.is_allowed()) else { return };
        self.withheld = told_of(end);
        self.is_too_weak = end.code.as_deref() == Some(codes::ISOLATION_TOO_WEAK.name);
    }

    /// What the rules said, whoever approved it then, and what the kernel made of that.
    pub(super) fn was(&self) -> Effect {
        match self.body.decision.effect {
            _ if self.is_too_weak => Effect::Deny,
            Effect::Allow if self.is_approved() => Effect::RequireReview,
            effect => effect,
        }
    }

    /// The isolation that the call had, as far as that tells whether a demand is met. Of one that was refused it is
    /// known that there was less than was demanded.
    pub(super) fn reached(&self, demanded: &Constraints) -> Option<&str> {
        let place = |of: &Constraints| {
            let wanted = of.min_isolation.as_deref();
            ISOLATION_LEVELS.iter().position(|level| Some(*level) == wanted)
        };
        let is_refused =
            self.is_too_weak && place(demanded) >= place(&self.body.decision.constraints);
        if is_refused { Some(IN_PROCESS) } else { self.isolation.as_deref() }
    }

    /// Whether a person let it pass that the rules asked for.
    pub(super) fn is_approved(&self) -> bool {
        let is_given = |layer, action| layer == Layer::Grant && action == Effect::Allow;
        self.body.decision.rules.iter().any(|rule| is_given(rule.layer, rule.action))
    }

    /// The kernel's rule among given ones that denied it.
    pub(super) fn denied_by<'a>(&self, names: &[&'a str]) -> Option<&'a str> {
        let rules = &self.body.decision.rules;
        // A rule of a file may have any name.
        let is_one =
            |name: &&str| rules.iter().any(|it| it.layer == Layer::BuiltIn && it.name == **name);
        names.iter().copied().find(is_one)
    }

    /// Why no policy can be tried on it.
    pub(super) fn not_again(&self) -> Option<&'static str> {
        let fixed = [WORKSPACE_BOUNDARY, EXEMPTION_SCOPE, COVERAGE_DEBT];
        match self.body.input {
            None => Some(MANY_PATHS),
            Some(_) => self.denied_by(&fixed),
        }
    }

    /// The calls that asked for what a look kept back.
    pub(super) fn kept_back(&self) -> Vec<Call> {
        let Some(look) = self.body.input.as_ref().filter(|_| self.body.decision.is_allowed())
        else {
            return Vec::new();
        };
        let entries = self.withheld.iter().flat_map(|kept| &kept.entries);
        let asked = entries.map(|entry| Call {
            session: look.session.clone(),
            state: look.state.clone(),
            ..Call::new(&entry.syscall, look.caller.clone()).at(entry.path.clone())
        });
        asked.collect()
    }
}

/// Why a decision is left out: one event tells of many paths, and not of all that was decided on.
const MANY_PATHS: &str = "many-paths";

/// What a look kept back. Of one that was recorded without names only its last line tells that something was.
fn told_of(end: &CallEnd) -> Option<Withheld> {
    if end.status != CallStatus::Completed {
        return None;
    }
    let nameless = || {
        let note = end.text.trim_end().rsplit('\n').next().unwrap_or_default();
        let is_told = note.starts_with('[') && note.contains("withheld by policy");
        is_told.then_some(Withheld { entries: Vec::new(), left_out: 1 })
    };
    end.withheld.clone().or_else(nameless)
}

/// What makes two calls the same.
pub(super) fn key(call: &Call) -> (String, Option<String>, Option<String>) {
    let path = call.path.as_ref().map(ToString::to_string);
    (call.syscall.clone(), path, call.state.clone())
}

/// Each call once.
pub(super) fn once(calls: impl Iterator<Item = Call>) -> Vec<Call> {
    let mut seen = BTreeSet::new();
    calls.filter(|call| seen.insert(key(call))).collect()
}

#[cfg(test)]
mod tests {
    use glasshouse_model::{Decision, Digest, Principal, PrincipalKind, TenantId};

    use super::*;

    /// A command that was refused for its isolation would be refused again by whoever demands as much; what less
    /// would have been enough is not known.
    #[test]
    fn what_was_refused_for_its_isolation_reaches_no_more_later() {
        let demanding = |level: Option<&str>| Constraints {
            min_isolation: level.map(str::to_owned),
            ..Constraints::default()
        };
        let check = |is_too_weak: bool, wanted: Option<&str>, expected: Option<&str>| {
            let caller = Principal::new(PrincipalKind::Agent, "agent", TenantId::local());
            let decision = Decision {
                effect: Effect::Allow,
                rules: Vec::new(),
                reasons: Vec::new(),
                policy_version: Digest::ZERO,
                constraints: demanding(Some("no-cgroup")),
            };
            let call = Call::new("shell.run", caller);
            let decided = Decided {
                seq: 2,
                time_us: 1,
                body: PolicyDecided::new(Some(CallId(1)), call, None, decision),
                withheld: None,
                isolation: (!is_too_weak).then(|| "native:full".to_owned()),
                is_too_weak,
            };
            let was = if is_too_weak { Effect::Deny } else { Effect::Allow };
            assert_eq!(decided.was(), was);
            assert_eq!(decided.reached(&demanding(wanted)), expected, "{wanted:?}");
        };
        check(true, Some("full"), Some(IN_PROCESS));
        check(true, Some("no-cgroup"), Some(IN_PROCESS));
        check(true, Some("no-landlock"), None);
        check(true, None, None);
        check(false, Some("full"), Some("native:full"));
    }
}
