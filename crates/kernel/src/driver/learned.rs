//! A policy that a session teaches: the least that would have decided its calls as they were decided.

use std::collections::BTreeMap;

use glasshouse_model::{Effect, SessionId};
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
        let Recorded { beside, lines } = self.recorded_in(&row, None)?.ok_or_else(unknown)?;
        let decided =
            || lines.iter().flat_map(|line| line.decided.iter().map(move |it| (&line.branch, it)));
        let kept_back = KeptBack {
            calls: once(decided().flat_map(|(_, it)| it.kept_back())),
            is_all: decided().all(|(_, it)| it.withheld.as_ref().is_none_or(|it| it.left_out == 0)),
        };
        let taught: Vec<_> = decided().filter(|(_, it)| teaches(it)).collect();
        let calls: Vec<_> = taught.iter().filter_map(|(_, it)| recorded(it)).collect();
        let beside: Vec<_> =
            beside.iter().map(|text| Source::new(&text.name, &text.text)).collect();
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

/// Whether rules are learned from a decision. What came too often says nothing about the call.
fn teaches(decided: &Decided) -> bool {
    decided.not_again().is_none()
        && !is_of_people(decided)
        && decided.denied_by(&[RATE_LIMITED]).is_none()
}

fn recorded(decided: &Decided) -> Option<glasshouse_policy::Recorded> {
    let (call, effect) = (decided.body.input.clone()?, decided.was());
    let constraints = match effect {
        Effect::Deny => glasshouse_model::Constraints::default(),
        _ => decided.body.decision.constraints.clone(),
    };
    Some(glasshouse_policy::Recorded { call, effect, constraints })
}
