//! A policy that a session teaches: the least that would have decided its calls as they were decided.

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_model::{BranchId, Effect, Seq, SessionId};
use glasshouse_policy::{Consent, KeptBack, Source};

use super::Kernel;
use super::recorded::{Decided, Recorded, once};
use super::rules::{PolicyText, protected};
use super::simulate::{Changed, Past, is_of_people, session_not_found};
use crate::Result;
use crate::session::RATE_LIMITED;

/// A policy that was learned from a session.
#[derive(Debug, Clone)]
pub struct Learned {
    /// The file.
    pub text: String,
    /// Rules in it.
    pub rules: usize,
    /// What it decides differently, other than what no rule can name: it was tried on the session.
    pub unequal: Vec<Changed>,
    /// How many decisions nothing was learned from, by the reason: those of a trial, and `no-rule-can-name`.
    pub left_out: BTreeMap<String, u64>,
}

/// Why an allowed call gets no rule.
const UNNAMED: &str = "no-rule-can-name";

impl Kernel {
    /// The least policy that would have decided a session's calls as they were decided, in the place of
    /// its policy file; on all of its branches.
    ///
    /// # Errors
    /// `session_not_found`; `policy_limit`; the log's errors.
    pub fn learn(&self, session: &SessionId) -> Result<Learned> {
        let row = self.log.sessions()?.into_iter().find(|row| row.session == *session);
        let unknown = || session_not_found(session);
        let row = row.ok_or_else(unknown)?;
        let recorded = self.recorded_in(&row, None)?.ok_or_else(unknown)?;
        let first = self.learn_from(session, &recorded, &BTreeSet::new())?;
        // What only came too often gets a rule where it would be open without one, so that it is counted.
        let open: BTreeSet<_> =
            first.unequal.iter().map(|it| (it.branch.clone(), it.seq)).collect();
        let is_open = |(branch, it): &(&BranchId, &Decided)| {
            came_too_often(it) && open.contains(&((*branch).clone(), it.seq))
        };
        if !recorded.decided().any(|it| is_open(&it)) {
            return Ok(first);
        }
        let second = self.learn_from(session, &recorded, &open)?;
        Ok(if second.unequal.len() < first.unequal.len() { second } else { first })
    }

    /// Learns from what was decided by rules, and from `counted` where a rate denied it.
    fn learn_from(
        &self,
        session: &SessionId,
        recorded: &Recorded,
        counted: &BTreeSet<(BranchId, Seq)>,
    ) -> Result<Learned> {
        let kept_back = KeptBack {
            calls: once(recorded.decided().flat_map(|(_, it)| it.kept_back())),
            is_all: recorded
                .decided()
                .all(|(_, it)| it.withheld.as_ref().is_none_or(|it| it.left_out == 0)),
        };
        let is_taught = |(branch, it): &(&BranchId, &Decided)| {
            teaches(it) && (!came_too_often(it) || counted.contains(&((*branch).clone(), it.seq)))
        };
        let taught: Vec<_> = recorded.decided().filter(is_taught).collect();
        let calls: Vec<_> = taught.iter().filter_map(|(_, it)| by_rules(it)).collect();
        let beside: Vec<_> = recorded
            .beside
            .iter()
            .map(|text| Source { consent: text.consent, ..Source::new(&text.name, &text.text) })
            .collect();
        let protected = protected(&self.outer, &self.program);
        let learned = glasshouse_policy::learn(&calls, &kept_back, &beside, &protected)?;
        // How often and how isolated is no matter of rules alone.
        let text = PolicyText {
            name: "learned.yaml".to_owned(),
            text: learned.text,
            consent: Consent::Joint,
        };
        let trial = self.simulate(&text, Past::Session(session), usize::MAX)?;
        let (mut unequal, mut left_out) = (trial.changed, trial.left_out);
        let unnamed: Vec<_> = learned.unnamed.iter().map(|at| taught[*at]).collect();
        unequal.retain(|it| {
            !unnamed.iter().any(|(branch, of)| it.branch == **branch && it.seq == of.seq)
        });
        if !unnamed.is_empty() {
            left_out.insert(UNNAMED.to_owned(), unnamed.len() as u64);
        }
        Ok(Learned { text: text.text, rules: learned.rules, unequal, left_out })
    }
}

/// Whether rules are learned from a decision.
fn teaches(decided: &Decided) -> bool {
    decided.not_again().is_none() && !is_of_people(decided)
}

/// Whether the rules let a call pass, and only their rate denied it.
fn came_too_often(decided: &Decided) -> bool {
    decided.denied_by(&[RATE_LIMITED]).is_some()
}

/// A decision as the rules made it, which say nothing of how often.
fn by_rules(decided: &Decided) -> Option<glasshouse_policy::Recorded> {
    let effect = match (came_too_often(decided), decided.is_approved()) {
        (true, true) => Effect::RequireReview,
        (true, false) => Effect::Allow,
        (false, _) => decided.was(),
    };
    let call = decided.body.input.clone()?;
    let constraints = match effect {
        Effect::Deny => glasshouse_model::Constraints::default(),
        _ => decided.body.decision.constraints.clone(),
    };
    Some(glasshouse_policy::Recorded { call, effect, constraints })
}
