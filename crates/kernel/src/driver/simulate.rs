//! Trying a policy on the past: what would have been decided differently.

use std::collections::BTreeMap;
use std::path::Path;

use glasshouse_log::SessionRow;
use glasshouse_model::syscall::name;
use glasshouse_model::{BranchId, Call, Decision, Effect, Seq, SessionId};
use glasshouse_policy::{Consent, Policy, Request};
use schemars::JsonSchema;
use serde::Serialize;

use super::Kernel;
use super::demands::Way;
use super::joining::decide_beside;
use super::rates::Rates;
use super::recorded::{Decided, Line, Recorded};
use super::rules::{PolicyText, shipped};
use super::start::canonical_project;
use crate::{Error, Result, codes};

/// One decision that would have been another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ChangedDecision")]
pub struct Changed {
    /// Session.
    pub session: SessionId,
    /// Branch of the decision.
    pub branch: BranchId,
    /// Sequence of the decision.
    pub seq: Seq,
    /// Syscall.
    pub syscall: String,
    /// What it was about, for people.
    pub subject: Option<String>,
    /// What was decided by rules and by what they demand.
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
    /// How many decisions were not made again, by the reason: the kernel's rule that denied them whatever a policy
    /// says (`workspace-boundary`, `exemption-scope`, `coverage-debt`), or `many-paths` where one event tells of many
    /// paths.
    pub left_out: BTreeMap<String, u64>,
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

/// Acts of people on sessions and policies, which the shipped policy decides.
pub(super) const OF_PEOPLE: [&str; 6] = [
    name::SESSION_FORK,
    name::SESSION_MERGE,
    name::SESSION_CLOSE,
    name::SESSION_DELETE,
    name::SESSION_IMPORT,
    name::POLICY_UPDATE,
];

/// Whether a decision is one on an act of a person that the policy file has no part in allowing.
pub(super) fn is_of_people(decided: &Decided) -> bool {
    OF_PEOPLE.contains(&decided.body.syscall.as_str()) && decided.body.call.is_none()
}

/// A decision that was looked at again.
struct Again {
    time_us: u64,
    seq: Seq,
    /// Why it could not be made again, or how many it stands for and which of them differ.
    made: std::result::Result<(u64, Vec<Changed>), &'static str>,
}

impl Kernel {
    /// Decides again, under `candidate` in the place of the policy file, what was decided: all of one
    /// session, or the `last` decisions that this log recorded itself; on all branches, what they share once. What a person approved counts as what
    /// the rules said before, and so does what the kernel denied for a demand of a rule: how often, in which
    /// sandbox, how isolated. What a look kept back is decided again with it: that was a denial too. Nothing is recorded.
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
            return Err(session_not_found(id));
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.last_us));
        let last = if session.is_some() { usize::MAX } else { last };
        let mut trial = Trial::new(self, candidate);
        let (mut again, mut oldest_us) = (Vec::new(), None);
        for row in rows {
            // All that is left of the past is older.
            if oldest_us.is_some_and(|oldest_us| oldest_us > row.last_us) {
                break;
            }
            let Some(mut recorded) = self.recorded_in(&row, project.as_deref())? else { continue };
            // What another log decided is tried where it is asked for by its name.
            if session.is_none() {
                recorded.leave_out_imported();
            }
            again.extend(trial.again(&row, recorded, last)?);
            oldest_us = newest(&mut again, last);
        }
        Ok(summed(again))
    }
}

pub(super) fn session_not_found(session: &SessionId) -> Error {
    Error::new(codes::SESSION_NOT_FOUND, format!("there is no session {session}"))
}

/// Keeps the newest that could be made again, and what could not that lies among them. Answers the time of the
/// oldest when these are all that are wanted.
fn newest(again: &mut Vec<Again>, last: usize) -> Option<u64> {
    again.sort_by_key(|it| std::cmp::Reverse((it.time_us, it.seq)));
    let mut made = 0;
    again.retain(|it| {
        let is_kept = made < last;
        made += usize::from(it.made.is_ok());
        is_kept
    });
    if made < last { None } else { again.last().map(|it| it.time_us) }
}

fn summed(again: Vec<Again>) -> Simulation {
    let mut simulation = Simulation::default();
    for it in again {
        match it.made {
            Ok((decisions, changed)) => {
                simulation.decisions += decisions;
                simulation.changed.extend(changed);
            }
            Err(why) => *simulation.left_out.entry(why.to_owned()).or_default() += 1,
        }
    }
    simulation
}

/// A candidate, ready to decide beside the rules of any session.
struct Trial<'a> {
    kernel: &'a Kernel,
    candidate: &'a PolicyText,
    /// With the rules of a session that it takes the place of nothing of, by their texts.
    compiled: BTreeMap<String, Policy>,
    /// The shipped policy, and what may be stricter beside it.
    of_people: Option<(Policy, Vec<Policy>)>,
}

impl<'a> Trial<'a> {
    const fn new(kernel: &'a Kernel, candidate: &'a PolicyText) -> Self {
        Self { kernel, candidate, compiled: BTreeMap::new(), of_people: None }
    }

    /// Decides again what is newest of a session. All that was counted is decided where the candidate counts.
    fn again(&mut self, row: &SessionRow, recorded: Recorded, last: usize) -> Result<Vec<Again>> {
        let Recorded { beside, lines } = recorded;
        let lead = beside.iter().map(|text| text.text.as_str()).collect::<Vec<_>>().join("\0");
        if !self.compiled.contains_key(&lead) {
            let mut texts = beside;
            texts.push(PolicyText { consent: Consent::Joint, ..self.candidate.clone() });
            self.compiled.insert(lead.clone(), self.kernel.compile(&texts)?);
        }
        let decided = lines.iter().filter(|line| line.counts).flat_map(|line| &line.decided);
        let decided = decided.filter(|it| it.not_again().is_none());
        let mut times: Vec<_> = decided.map(|it| it.time_us).collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        let since_us = times.get(last.saturating_sub(1)).copied().unwrap_or(0);
        let mut again = Vec::new();
        // Of each line: when it allowed what some rule counts.
        let mut allowed: Vec<Vec<Counted>> = Vec::new();
        for line in &lines {
            let mut rates = shared(&lines, line, &allowed);
            let mut own = Vec::new();
            for decided in &line.decided {
                let is_wanted = line.counts && decided.time_us >= since_us;
                if !is_wanted && !self.compiled[&lead].limits_rates() {
                    continue;
                }
                let made = match decided.not_again() {
                    Some(why) => Err(why),
                    None => {
                        let now = self.decide(&lead, decided, &mut rates)?;
                        if !now.constraints.rates.is_empty() {
                            own.push((decided.seq, decided.time_us, counted(&now, decided)));
                        }
                        let place = (&row.session, &line.branch);
                        Ok(compared(&self.compiled[&lead], place, decided, now))
                    }
                };
                if is_wanted {
                    again.push(Again { time_us: decided.time_us, seq: decided.seq, made });
                }
            }
            allowed.push(own);
        }
        Ok(again)
    }

    /// What the candidate and the kernel make of a recorded call.
    fn decide(&mut self, lead: &str, decided: &Decided, rates: &mut Rates) -> Result<Decision> {
        let Some(call) = &decided.body.input else { return Ok(decided.body.decision.clone()) };
        if is_of_people(decided) {
            let (shipped, own) = self.of_people()?;
            return Ok(decide_beside(shipped, own, call));
        }
        let way = Way::of_decided(&decided.body);
        let now = glasshouse_policy::decide(&self.compiled[lead], &Request::new(call, 0)).decision;
        // What a person let pass then is held to the demands as well.
        let effect = now.effect;
        let held = counted(&now, decided);
        let held = way.hold(held, call, decided.reached(&now.constraints));
        let held = if way == Way::Uncounted { held } else { rates.hold(held, decided.time_us) };
        Ok(match held.effect {
            Effect::Deny => held,
            _ => Decision { effect, ..now },
        })
    }

    fn of_people(&mut self) -> Result<(&Policy, &[Policy])> {
        if self.of_people.is_none() {
            let kernel = self.kernel;
            let own = kernel.tenant_text().into_iter().chain([self.candidate.clone()]);
            let own = own.map(|text| kernel.compile(&[text])).collect::<Result<Vec<_>>>()?;
            self.of_people = Some((kernel.compile(&[shipped(Consent::Joint)])?, own));
        }
        let (shipped, own) = self.of_people.as_ref().expect("it was put there above");
        Ok((shipped, own))
    }
}

/// A decision that counts for some rate, with its sequence and its time in microseconds.
type Counted = (Seq, u64, Decision);

/// What a branch shares with those that it left counts on it too.
fn shared(lines: &[Line], line: &Line, allowed: &[Vec<Counted>]) -> Rates {
    let mut parts = Vec::new();
    let mut left = line.left;
    while let Some((parent, upto)) = left {
        parts.push(allowed[parent].iter().filter(move |(seq, ..)| *seq <= upto));
        left = lines[parent].left.map(|(place, seq)| (place, seq.min(upto)));
    }
    let mut rates = Rates::default();
    for (_, time_us, decision) in parts.into_iter().rev().flatten() {
        rates.hold(decision.clone(), *time_us);
    }
    rates
}

/// A decision with the approval that the recorded one had.
fn counted(now: &Decision, decided: &Decided) -> Decision {
    let is_let_pass = now.effect == Effect::RequireReview && decided.is_approved();
    let effect = if is_let_pass { Effect::Allow } else { now.effect };
    Decision { effect, ..now.clone() }
}

/// How many decisions a recorded one stands for, and which of them are others now.
fn compared(
    policy: &Policy,
    (session, branch): (&SessionId, &BranchId),
    decided: &Decided,
    now: Decision,
) -> (u64, Vec<Changed>) {
    let was = decided.was();
    let kept_back = decided.kept_back();
    let decisions = 1 + kept_back.len() as u64;
    let changed = |syscall: String, subject, was, now: Decision| Changed {
        session: session.clone(),
        branch: branch.clone(),
        seq: decided.seq,
        syscall,
        subject,
        was,
        now: now.effect,
        breaking: was == Effect::Allow && now.effect == Effect::Deny,
        reasons: now.reasons,
    };
    let mut all = Vec::new();
    // Those of what was kept back that a candidate would show.
    for call in kept_back {
        let now = decide(policy, &call);
        if now.is_allowed() {
            let subject = call.path.as_ref().map(ToString::to_string);
            all.push(changed(call.syscall, subject, Effect::Deny, now));
        }
    }
    if was != now.effect {
        let (syscall, subject) = (decided.body.syscall.clone(), decided.body.subject.clone());
        all.push(changed(syscall, subject, was, now));
    }
    (decisions, all)
}

fn decide(policy: &Policy, call: &Call) -> Decision {
    glasshouse_policy::decide(policy, &Request::new(call, 0)).decision
}
