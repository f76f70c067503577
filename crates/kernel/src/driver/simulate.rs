//! Trying a policy on the past: what would have been decided differently.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::path::Path;

use glasshouse_log::SessionRow;
use glasshouse_model::body::{CallEnd, PolicyDecided, SessionCreated, Withheld};
use glasshouse_model::{Call, CallId, Effect, Kind, Layer, Seq, SessionId};
use glasshouse_policy::{Consent, KeptBack, Learned, Policy, Request, Source};
use schemars::JsonSchema;
use serde::Serialize;

use super::Kernel;
use super::rules::{PolicyText, TENANT_POLICY, WORKFLOW_POLICY, of_session, protected};
use super::start::canonical_project;
use crate::session::decided_by_kernel;
use crate::{Error, Result, codes};
use glasshouse_policy::limits::MAX_LEARNED;

/// One decision that would have been another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ChangedDecision")]
pub struct Changed {
    /// Session.
    pub session: SessionId,
    /// Sequence of the decision.
    pub seq: Seq,
    /// Syscall.
    pub syscall: String,
    /// What it was about, for people.
    pub subject: Option<String>,
    /// What was decided by rules.
    pub was: Effect,
    /// What the candidate decides.
    pub now: Effect,
    /// Whether what was allowed would be denied.
    pub breaking: bool,
    /// The candidate's reasons.
    pub reasons: Vec<String>,
}

/// What a candidate would have changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Simulation {
    /// Decisions made again.
    pub decisions: u64,
    /// Those that come out differently, newest first.
    pub changed: Vec<Changed>,
}

/// Which recorded decisions are made again.
#[derive(Debug, Clone, Copy)]
pub enum Past<'a> {
    /// The newest of all.
    All,
    /// All of one session.
    Session(&'a SessionId),
    /// The newest of the sessions of agents in one directory: no other project's file decided those.
    Project(&'a Path),
}

impl Kernel {
    /// Decides again, under `candidate` in the place of the policy file, what was decided: all of one
    /// session, or the `last` decisions. What a person approved counts as what the rules said
    /// before. What a look kept back is decided again with it: that was a denial too. Nothing is recorded.
    ///
    /// # Errors
    /// `session_not_found`, `project_unreadable`, the candidate's load errors, the log's errors.
    pub fn simulate(
        &self,
        candidate: &PolicyText,
        past: Past<'_>,
        last: usize,
    ) -> Result<Simulation> {
        let (session, project) = match past {
            Past::All => (None, None),
            Past::Session(session) => (Some(session), None),
            Past::Project(project) => (None, Some(canonical_project(project)?)),
        };
        let project = project.map(|project| project.display().to_string());
        let mut rows = self.log.sessions()?;
        rows.retain(|row| session.is_none_or(|id| *id == row.session));
        if let (Some(id), true) = (session, rows.is_empty()) {
            return Err(Error::new(codes::SESSION_NOT_FOUND, format!("there is no session {id}")));
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.created_us));
        let last = if session.is_some() { usize::MAX } else { last };
        let mut simulation = Simulation::default();
        let mut compiled = BTreeMap::new();
        for row in rows {
            let left = last.saturating_sub(usize::try_from(simulation.decisions).unwrap_or(last));
            if left == 0 {
                break;
            }
            let of = (&row, project.as_deref());
            self.simulate_one(of, candidate, left, &mut compiled, &mut simulation)?;
        }
        Ok(simulation)
    }

    fn simulate_one(
        &self,
        (row, project): (&SessionRow, Option<&str>),
        candidate: &PolicyText,
        left: usize,
        compiled: &mut BTreeMap<String, Policy>,
        simulation: &mut Simulation,
    ) -> Result<()> {
        let Some(decided) = self.decided_in(row, project, left)? else { return Ok(()) };
        let Decided { beside, decided, withheld } = decided;
        let key = beside.iter().map(|text| text.text.as_str()).collect::<Vec<_>>().join("\0");
        if !compiled.contains_key(&key) {
            let mut texts = beside;
            texts.push(PolicyText { consent: Consent::Joint, ..candidate.clone() });
            compiled.insert(key.clone(), self.compile(&texts)?);
        }
        let policy = &compiled[&key];
        for (seq, decided) in decided.into_iter().rev() {
            let Some(input) = &decided.input else { continue };
            simulation.decisions += 1;
            let now = glasshouse_policy::decide(policy, &Request::new(input, 0)).decision;
            let was = by_rules(&decided);
            let kept_back = kept_back(&decided, &withheld);
            simulation.decisions += kept_back.len() as u64;
            simulation.changed.extend(opened(policy, kept_back, (&row.session, seq)));
            if was != now.effect {
                simulation.changed.push(Changed {
                    session: row.session.clone(),
                    seq,
                    syscall: decided.syscall,
                    subject: decided.subject,
                    was,
                    now: now.effect,
                    breaking: was == Effect::Allow && now.effect == Effect::Deny,
                    reasons: now.reasons,
                });
            }
        }
        Ok(())
    }

    /// What was decided in a session. `None` for what no session can be read from, and for one of another project than is
    /// asked for.
    fn decided_in(
        &self,
        row: &SessionRow,
        project: Option<&str>,
        left: usize,
    ) -> Result<Option<Decided>> {
        let mut beside = Vec::new();
        let (mut decided, mut withheld) = (VecDeque::new(), BTreeMap::new());
        for event in self.log.events(&row.main) {
            let event = event?;
            match event.kind() {
                kind if project.is_some() && event.seq() == 1 && *kind != Kind::SessionCreated => {
                    return Ok(None);
                }
                Kind::SessionCreated => {
                    let Ok(created) = event.body_as::<SessionCreated>() else { return Ok(None) };
                    if project.is_some_and(|project| created.project != project) {
                        return Ok(None);
                    }
                    let texts = of_session(self, &created.policy)?;
                    beside = texts;
                    beside.retain(|text| [WORKFLOW_POLICY, TENANT_POLICY].contains(&&*text.name));
                }
                Kind::PolicyDecided => {
                    let Ok(body) = event.body_as::<PolicyDecided>() else { continue };
                    if body.input.is_some() && !decided_by_kernel(&body.decision) {
                        decided.push_back((event.seq(), body));
                    }
                    if decided.len() > left
                        && let Some((_, gone)) = decided.pop_front()
                    {
                        gone.call.map(|call| withheld.remove(&call));
                    }
                }
                Kind::ToolCompleted => {
                    let Ok(body) = event.body_as::<CallEnd>() else { continue };
                    withheld.extend(told_of(body));
                }
                _ => {}
            }
        }
        Ok(Some(Decided { beside, decided, withheld }))
    }

    /// The least policy that would have decided a session's calls as they were decided, in the place of
    /// its policy file.
    ///
    /// # Errors
    /// `session_not_found`; `policy_limit`; the log's errors.
    pub fn learn(&self, session: &SessionId) -> Result<Learned> {
        let row = self.log.sessions()?.into_iter().find(|row| row.session == *session);
        let unknown =
            || Error::new(codes::SESSION_NOT_FOUND, format!("there is no session {session}"));
        let row = row.ok_or_else(unknown)?;
        let Decided { beside, decided, withheld } =
            self.decided_in(&row, None, MAX_LEARNED + 1)?.ok_or_else(unknown)?;
        let mut seen = HashSet::new();
        let kept_back = decided.iter().flat_map(|(_, decided)| kept_back(decided, &withheld));
        let kept_back = KeptBack {
            calls: kept_back.filter(|call| seen.insert(key(call))).collect(),
            is_all: withheld.values().all(|kept| kept.left_out == 0),
        };
        let calls: Vec<_> = decided
            .into_iter()
            .filter_map(|(_, decided)| Some((decided.input.clone()?, by_rules(&decided))))
            .collect();
        let beside: Vec<_> =
            beside.iter().map(|text| Source::new(&text.name, &text.text)).collect();
        Ok(glasshouse_policy::learn(
            &calls,
            &kept_back,
            &beside,
            &protected(&self.outer, &self.program),
        )?)
    }
}

/// What was decided in a session.
struct Decided {
    /// The rules that no candidate takes the place of, the workflow's and the tenant's.
    beside: Vec<PolicyText>,
    /// The newest decisions that rules alone made, with all that they were made on.
    decided: VecDeque<(Seq, PolicyDecided)>,
    /// What looks kept back, by their calls.
    withheld: BTreeMap<CallId, Withheld>,
}

/// What a look kept back. Of one that was recorded without names only its last line tells that something was.
fn told_of(end: CallEnd) -> Option<(CallId, Withheld)> {
    let nameless = || {
        let note = end.text.trim_end().rsplit('\n').next().unwrap_or_default();
        let is_told = note.starts_with('[') && note.contains("withheld by policy");
        is_told.then_some(Withheld { entries: Vec::new(), left_out: 1 })
    };
    let withheld = end.withheld.clone().or_else(nameless)?;
    Some((end.call, withheld))
}

/// The calls that asked for what a look kept back.
fn kept_back(decided: &PolicyDecided, withheld: &BTreeMap<CallId, Withheld>) -> Vec<Call> {
    let Some(look) = decided.input.as_ref().filter(|_| decided.decision.is_allowed()) else {
        return Vec::new();
    };
    let kept = decided.call.and_then(|call| withheld.get(&call));
    let entries = kept.into_iter().flat_map(|kept| &kept.entries);
    let asked = entries.map(|entry| Call {
        session: look.session.clone(),
        state: look.state.clone(),
        ..Call::new(&entry.syscall, look.caller.clone()).at(entry.path.clone())
    });
    asked.collect()
}

/// What makes two of those the same.
fn key(call: &Call) -> (String, Option<String>, Option<String>) {
    let path = call.path.as_ref().map(ToString::to_string);
    (call.syscall.clone(), path, call.state.clone())
}

/// Those of what was kept back that a candidate would show.
fn opened<'a>(
    policy: &'a Policy,
    kept_back: Vec<Call>,
    (session, seq): (&'a SessionId, Seq),
) -> impl Iterator<Item = Changed> + 'a {
    kept_back.into_iter().filter_map(move |call| {
        let now = glasshouse_policy::decide(policy, &Request::new(&call, 0)).decision;
        now.is_allowed().then(|| Changed {
            session: session.clone(),
            seq,
            subject: call.path.as_ref().map(ToString::to_string),
            syscall: call.syscall,
            was: Effect::Deny,
            now: now.effect,
            breaking: false,
            reasons: now.reasons,
        })
    })
}

/// What the rules said, whoever approved it then.
fn by_rules(decided: &PolicyDecided) -> Effect {
    let approved = decided.decision.rules.iter().any(|rule| rule.layer == Layer::Grant);
    if approved && decided.decision.effect == Effect::Allow {
        Effect::RequireReview
    } else {
        decided.decision.effect
    }
}
