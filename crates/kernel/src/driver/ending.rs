//! Ending sessions: closed for good, with everything that it said kept; or deleted, with every proof kept.

use glasshouse_log::{Append, BranchRow, Forget, Forgotten, Lease, SessionRow};
use glasshouse_model::body::{Outcome, PolicyDecided, SessionClosed, SessionCreated, TurnEnd};
use glasshouse_model::each_once;
use glasshouse_model::syscall::name;
use glasshouse_model::{BranchId, Call, Digest, Draft, Effect, Kind, Principal, SessionId};

use super::cells::decides_later;
use super::journal::Journal;
use super::recorder::expand;
use super::{Kernel, boxes};
use crate::{Error, Result, codes};

/// What is to go when a session is deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Whether the blobs that only it names stay.
    pub keep_blobs: bool,
    /// Hash of its first branch's newest event, as whoever deletes it knows it; whatever it is when absent.
    pub head: Option<Digest>,
}

/// Why a session was closed, in a word.
const DONE: &str = "done";

impl Kernel {
    /// Ends every branch of a session: it can be read, replayed and proved, and takes no turn any more. A turn
    /// whose process is gone is `interrupted` first. False when nothing was left to be ended.
    ///
    /// # Errors
    /// `session_not_found`, also for what is no session of an agent; `session_owned` while a process works on it;
    /// `policy_denied`; the log's errors.
    pub fn close_session(&self, session: &SessionId, by: &Principal) -> Result<bool> {
        self.close_at(session, None, by)
    }

    /// As [`Kernel::close_session`]; only at a head, where one is named: `head_conflict` at another one.
    fn close_at(&self, session: &SessionId, head: Option<Digest>, by: &Principal) -> Result<bool> {
        let main = self.branch(session, None)?;
        self.check_agents(&main)?;
        let open: Vec<BranchRow> = self
            .log
            .branches(session)?
            .into_iter()
            .filter(|row| row.why_ended().is_none())
            .collect();
        if open.is_empty() {
            return Ok(false);
        }
        let state = self.state_of(&main.branch)?;
        let created = state.created.as_ref();
        let decided = self.decide_ending(name::SESSION_CLOSE, session, created, by)?;
        let mut leases = Vec::new();
        for row in &open {
            leases.push(self.log.acquire_lease(&row.branch)?);
        }
        // Under the leases: from here on nobody moves it.
        if let Some(head) = head
            && self.log.head(&main.branch)?.hash != head
        {
            let code = glasshouse_log::codes::HEAD_CONFLICT;
            return Err(Error::new(code, format!("{} has moved on", main.branch)));
        }
        let mut decided = Some(decided);
        for (row, lease) in open.iter().zip(&leases) {
            let mut drafts: Vec<Draft> = decided.take().into_iter().collect();
            if row.branch == main.branch {
                let body = SessionClosed { reason: DONE.to_owned() };
                drafts.push(Draft::new(Kind::SessionClosed, &body).by(by.actor()));
            }
            self.end_branch(row, lease, drafts)?;
        }
        self.log.sign_head()?;
        Ok(true)
    }

    /// Refuses what is no session of an agent: keys and tenants, policies that were accepted, plans and what the
    /// log says of itself are looked up long after, and go on.
    pub(super) fn check_agents(&self, main: &BranchRow) -> Result<()> {
        let first = self.log.read(&main.branch, 1, 1)?;
        let first = first.first().map(|event| event.kind().clone());
        if main.is_imported || matches!(first, Some(Kind::SessionCreated | Kind::ToolProposed)) {
            return Ok(());
        }
        let what = format!("session {} was never started", main.session);
        Err(Error::new(codes::SESSION_NOT_FOUND, what)
            .why("what a person did outside agents' sessions stays"))
    }

    /// Whether somebody closed a session.
    pub(super) fn is_closed(&self, row: &SessionRow) -> Result<bool> {
        let main = self.log.branch(&row.main)?;
        if main.why_ended().is_none() {
            return Ok(false);
        }
        let last = self.log.read(&row.main, main.head.seq, 1)?;
        Ok(last.first().is_some_and(|event| *event.kind() == Kind::SessionClosed))
    }

    /// Tells a branch's last events, and ends it.
    fn end_branch(&self, row: &BranchRow, lease: &Lease, last: Vec<Draft>) -> Result<()> {
        let mut state = self.state_of(&row.branch)?;
        let mut drafts: Vec<Draft> = boxes::lost(&state).into_iter().collect();
        if let Some(turn) = state.turn {
            let end = TurnEnd {
                turn,
                outcome: Outcome::Failed,
                code: Some(codes::INTERRUPTED.name.to_owned()),
                message: Some("the session was closed".to_owned()),
                commit: None,
            };
            drafts.push(Draft::new(Kind::TurnInterrupted, &end));
        }
        drafts.extend(last);
        if !drafts.is_empty() {
            let place = (self.log.tenant(), &row.session, &row.branch);
            let events = expand(&mut state, place, drafts)?;
            let append = Append::new(row.session.clone(), row.branch.clone(), events);
            self.log.append(Append { epoch: Some(lease.epoch()), ..append })?;
        }
        Ok(self.log.close_branch(&row.branch)?)
    }

    /// Deletes a session: the bodies of its events and of what was said and asked about it elsewhere, and the blobs that
    /// only it names unless those are to stay.
    /// Headers and hashes stay, and so does every proof; so do the grants that it gave. Doing it again changes
    /// nothing.
    ///
    /// # Errors
    /// `session_not_found`, also for what is no session of an agent; `session_owned` while a process works on it,
    /// or on any where blobs are to go; `head_conflict` where it has moved on; `policy_denied`; the log's errors.
    pub fn delete_session(
        &self,
        session: &SessionId,
        by: &Principal,
        deletion: &Deletion,
    ) -> Result<Forgotten> {
        let main = self.stored_branch(session, None)?;
        if self.log.is_forgotten(session)? {
            return Ok(Forgotten::default());
        }
        self.check_agents(&main)?;
        let created = self.how_it_began(&main.branch)?;
        let decided = self.decide_ending(name::SESSION_DELETE, session, created.as_ref(), by)?;
        match self.close_at(session, deletion.head, by) {
            Err(error) if cannot_be_read(&error) => {}
            closed => drop(closed?),
        }
        Journal::open(self)?.append_with(vec![decided], self.nothing_waits(session)?)?;
        let actor = by.actor();
        // First, so that who tries again after a crash finds it; and no more can come, since every branch has ended.
        let beside = self.forget_beside(session, &actor)?;
        let mut forgotten = self.log.forget(&Forget {
            session: session.clone(),
            reason: format!("session {session} was deleted by {}:{}", kind_word(by), actor.id),
            actor: by.actor(),
            keep_blobs: deletion.keep_blobs,
            is_kept: &decides_later,
        })?;
        forgotten.events += beside.events;
        forgotten.kept += beside.kept;
        self.log.sign_head()?;
        // Its workspaces; what cannot be removed now the next sweep removes.
        let _ = self.sweep(false);
        Ok(forgotten)
    }

    /// What decides on a session's deletion. What cannot be read any more can still be deleted, by the shipped policy.
    pub(super) fn how_it_began(&self, main: &BranchId) -> Result<Option<SessionCreated>> {
        let first = match self.log.read(main, 1, 1) {
            Err(error) if cannot_be_read(&Error::from(error.clone())) => return Ok(None),
            first => first?,
        };
        let created = first.first().filter(|event| *event.kind() == Kind::SessionCreated);
        Ok(created.and_then(|event| event.body_as().ok()))
    }

    /// Decides; a refusal is recorded in a session of its own.
    pub(super) fn decide_ending(
        &self,
        syscall: &str,
        session: &SessionId,
        created: Option<&SessionCreated>,
        by: &Principal,
    ) -> Result<Draft> {
        let mut call = Call::new(syscall, by.clone());
        call.session = Some(session.clone());
        let decision = self.decide_branching(created, &call)?;
        let (effect, reasons) = (decision.effect, decision.reasons.clone());
        let body = PolicyDecided::new(None, call, Some(session.to_string()), decision);
        let decided = Draft::new(Kind::PolicyDecided, &body).by(by.actor());
        if effect == Effect::Allow {
            return Ok(decided);
        }
        let journal = Journal::open(self)?;
        let seq = journal.append(vec![decided])?;
        let what = format!("session {session} may not be ended");
        Err(journal.denied(seq, what, each_once(&reasons)))
    }
}

fn cannot_be_read(error: &Error) -> bool {
    error.is(glasshouse_log::codes::LOG_CORRUPT)
        || error.is(glasshouse_log::codes::SESSION_ARCHIVED)
}

fn kind_word(by: &Principal) -> String {
    let word = serde_json::to_value(by.kind).unwrap_or_default();
    word.as_str().unwrap_or_default().to_owned()
}
