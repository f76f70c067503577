//! Taking bodies and contents out of the log for good, as a person asks for it.

use std::collections::BTreeSet;

use glasshouse_log::{Appended, BranchState, Erase, Lease, MAX_ERASED, codes as log_codes};
use glasshouse_model::body::MessageReceived;
use glasshouse_model::syscall::name;
use glasshouse_model::{BranchId, Digest, Kind, Seq, SessionId};

use super::Kernel;
use super::cells::decides_later;
use super::journal::Journal;
use crate::{Error, Result};

/// What is to go from a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erasure {
    /// The session.
    pub session: SessionId,
    /// Branch by id or name, as whose events these count; the main one when none is named.
    pub branch: Option<String>,
    /// First and last sequence of events whose bodies go.
    pub events: Vec<(Seq, Seq)>,
    /// Contents that go, whoever names them.
    pub blobs: Vec<Digest>,
    /// Why; it is never erased.
    pub reason: String,
}

/// What an erasure is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erasing {
    /// Each event by the branch that stores it, its kind, and whether its body is there.
    pub events: Vec<(BranchId, Seq, Kind, bool)>,
    erase: Erase,
}

impl Kernel {
    /// Looks up what an erasure would take away; nothing changes.
    ///
    /// # Errors
    /// `session_not_found`, `branch_unknown`, `session_archived`, `fork_out_of_range` for an event that the
    /// branch does not have, `append_invalid` when nothing or too much is named, or an error of the log.
    pub fn plan_erasure(&self, erasure: Erasure) -> Result<Erasing> {
        let Erasure { session, branch, events: ranges, blobs, reason } = erasure;
        let row = self.branch(&session, branch.as_deref())?;
        let mut events = Vec::new();
        for (from, upto) in ranges {
            let count = upto.saturating_sub(from).saturating_add(1);
            let beyond = || {
                Error::new(
                    log_codes::FORK_OUT_OF_RANGE,
                    format!("{} has no such events", row.branch),
                )
                .why(format!("it has events 1 to {}, not {from} to {upto}", row.head.seq))
                .with("head", row.head.seq)
            };
            if from == 0 || from > upto || upto > row.head.seq {
                return Err(beyond());
            }
            let limit = usize::try_from(count).unwrap_or(usize::MAX).min(MAX_ERASED + 1);
            if events.len() > MAX_ERASED {
                break;
            }
            for event in self.log.read(&row.branch, from, limit)? {
                let is_whole = !event.body.is_null();
                let kind = event.kind().clone();
                if decides_later(&kind) {
                    let what = format!("event {} cannot be erased", event.seq());
                    return Err(Error::new(log_codes::APPEND_INVALID, what)
                        .why(format!("`{kind}` says who may do what: without it that would change"))
                        .fix("leave it out; revoke the key or the grant, or update the policy"));
                }
                events.push((event.header.branch.clone(), event.seq(), kind, is_whole));
            }
        }
        let places = events.iter().map(|(branch, seq, ..)| (branch.clone(), *seq)).collect();
        // What says so stands in the session, so that an export proves itself.
        let branch = match row.state {
            BranchState::Open => row.branch,
            _ => self.main_branch(&session)?,
        };
        let erase = Erase {
            session,
            branch,
            events: places,
            blobs,
            reason,
            actor: self.person().actor(),
            epoch: None,
        };
        erase.check()?;
        Ok(Erasing { events, erase })
    }

    /// Erases what was looked up: bodies and contents go, headers, hashes and proofs stay; of a message also what somebody
    /// said to a turn in the same words. Policy decides on it as on deleting the session.
    ///
    /// # Errors
    /// `policy_denied`; `session_owned` while somebody works on a branch that has one of the events, `append_invalid` for an
    /// event by which others are proved, or an error of the log.
    pub fn erase(&self, erasing: Erasing) -> Result<Appended> {
        let mut erase = erasing.erase;
        // Whoever works there has in memory what goes here, and would send it to a model again.
        let mut leases = Vec::new();
        for row in self.log.branches(&erase.session)? {
            if row.branch == erase.branch || row.why_ended().is_none() {
                leases.push(self.log.acquire_lease(&row.branch)?);
            }
            if row.branch == erase.branch {
                erase.epoch = leases.last().map(Lease::epoch);
            }
        }
        let created = self.how_it_began(&self.main_branch(&erase.session)?)?;
        let (session, created) = (&erase.session, created.as_ref());
        let decided = self.decide_ending(name::SESSION_DELETE, session, created, &self.person())?;
        Journal::open(self)?.append(vec![decided])?;
        let (said, session, actor) =
            (self.said_in(&erase.events)?, erase.session.clone(), erase.actor.clone());
        let appended = self.log.erase(erase)?;
        self.forget_said(&session, &said, &actor)?;
        Ok(appended)
    }

    /// The words of the messages among events.
    fn said_in(&self, events: &[(BranchId, Seq)]) -> Result<BTreeSet<String>> {
        let mut said = BTreeSet::new();
        for (branch, seq) in events {
            let event = self.log.read(branch, *seq, 1)?.pop();
            let message = event.filter(|event| *event.kind() == Kind::MessageReceived);
            let message = message.and_then(|event| event.body_as::<MessageReceived>().ok());
            said.extend(message.map(|message| message.text));
        }
        Ok(said)
    }
}
