//! Forks: a line of its own that begins at any event of a branch.
//!
//! A fork is one row and its first events in one transaction, also while the parent's turn runs. It
//! takes over the conversation and the sealed files; not the answers of people, and no merge that is
//! under way. Its workspace is made when it is first worked on.

use glasshouse_log::{BranchRow, NewBranch};
use glasshouse_model::body::{BranchForked, BudgetCharged, PolicyDecided};
use glasshouse_model::each_once;
use glasshouse_model::syscall::name;
use glasshouse_model::{BranchId, Call, Draft, Effect, Kind, Principal, Seq, SessionId};

use super::journal::Journal;
use super::recorder::{expand, fold_to};
use super::start::random;
use super::{Kernel, Session};
use crate::session::State;
use crate::{Error, Result, codes};

/// Where a fork begins, and what it is called.
#[derive(Debug, Clone)]
pub struct NewFork {
    /// The session.
    pub session: SessionId,
    /// The branch to leave, by id or name; the main one when absent.
    pub branch: Option<String>,
    /// The last event that both share; the newest when absent.
    pub at: Option<Seq>,
    /// A name, unique in the session; one is made up when absent.
    pub name: Option<String>,
    /// Why, for the log.
    pub reason: Option<String>,
    /// Who forks; the person at this machine when absent.
    pub by: Option<Principal>,
}

/// A fork that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forked {
    /// Its branch.
    pub branch: BranchId,
    /// Its name.
    pub name: String,
    /// The branch that it left.
    pub parent: BranchId,
    /// The last event that both share.
    pub at: Seq,
    /// Its newest event.
    pub head: Seq,
}

impl Kernel {
    /// Forks a branch, as whoever asks for it and under the shipped policy, which the session's own
    /// may only make stricter.
    ///
    /// # Errors
    /// `session_not_found`, `branch_unknown`, `fork_out_of_range` with the head, `branch_exists` for a
    /// name that is taken, `policy_denied`, or an error of the log.
    pub fn fork(&self, new: &NewFork) -> Result<Forked> {
        self.check_agents(&self.branch(&new.session, None)?)?;
        let parent = self.branch(&new.session, new.branch.as_deref())?;
        let at = new.at.unwrap_or(parent.head.seq);
        let mut state = fold_to(&self.log, &parent.branch, at)?;
        let by = self.who(new.by.as_ref());
        let decided = self.decide_fork((&new.session, &parent.branch, at), &state, by.clone())?;
        let branch = BranchId::from_random(random()?);
        let name = match &new.name {
            Some(name) => name.clone(),
            None => format!("fork-{}", self.log.branches(&new.session)?.len()),
        };
        let shared = match at {
            0 => None,
            _ => self.log.records(&parent.branch, at, 1)?.first().map(|record| record.hash),
        };
        let body = BranchForked {
            parent: parent.branch.clone(),
            at_seq: at,
            // The log refuses a fork after an event that is not there.
            at_hash: shared.unwrap_or(glasshouse_model::Digest::ZERO),
            name: name.clone(),
            reason: new.reason.clone(),
        };
        let first = vec![decided, Draft::new(Kind::BranchForked, &body).by(by.actor())];
        let drafts = expand(&mut state, (self.log.tenant(), &new.session, &branch), first)?;
        let row = NewBranch {
            session: new.session.clone(),
            branch: branch.clone(),
            name: name.clone(),
            parent: Some((parent.branch.clone(), at)),
        };
        let appended = self.log.create_branch_with(row, drafts)?;
        self.log.sign_head()?;
        Ok(Forked { branch, name, parent: parent.branch, at, head: appended.head.seq })
    }

    fn decide_fork(
        &self,
        (session, parent, at): (&SessionId, &BranchId, Seq),
        state: &State,
        by: Principal,
    ) -> Result<Draft> {
        let mut call = Call::new(name::SESSION_FORK, by);
        call.session = Some(session.clone());
        let decision = self.decide_branching(state.created.as_ref(), &call)?;
        let (effect, reasons) = (decision.effect, decision.reasons.clone());
        let subject = Some(format!("{parent} at {at}"));
        let decided =
            Draft::new(Kind::PolicyDecided, &PolicyDecided::new(None, call, subject, decision));
        if effect == Effect::Allow {
            return Ok(decided);
        }
        let journal = Journal::open(self)?;
        let seq = journal.append(vec![decided])?;
        Err(journal.denied(seq, format!("{parent} may not be forked"), each_once(&reasons)))
    }

    /// Refuses a session that was archived: the log has only the hashes of its events.
    ///
    /// # Errors
    /// `session_archived`, with the file that has the events, or an error of the log.
    pub fn check_kept(&self, session: &SessionId) -> Result<()> {
        let Some(archive) = self.log.archive_of(session)? else { return Ok(()) };
        let file = self.home.join("archive").join(archive.file);
        if self.log.is_forgotten(session)? && !file.exists() {
            let what = format!("session {session} is gone");
            return Err(Error::new(glasshouse_log::codes::SESSION_ARCHIVED, what)
                .why("it was deleted, or its archive was when the log was full")
                .fix(
                    "nothing brings back what it said; `glasshouse audit verify` still proves it",
                ));
        }
        let what = format!("session {session} was archived");
        let error = Error::new(glasshouse_log::codes::SESSION_ARCHIVED, what);
        Err(if file.exists() {
            error.why(format!("its {} events are in {}", archive.events, file.display()))
        } else {
            error
                .why("its archive was deleted when the log was full")
                .fix("nothing brings back what it said; `glasshouse audit verify` still proves it")
        })
    }

    /// The branch of a session that has this id or name; the main one when none is named.
    ///
    /// # Errors
    /// `session_not_found`, `session_archived`, `branch_unknown`, or an error of the log.
    pub fn branch(&self, session: &SessionId, word: Option<&str>) -> Result<BranchRow> {
        self.check_kept(session)?;
        self.stored_branch(session, word)
    }

    /// The same of a session whose events may be elsewhere, or gone.
    pub(super) fn stored_branch(
        &self,
        session: &SessionId,
        word: Option<&str>,
    ) -> Result<BranchRow> {
        let rows = self.log.branches(session)?;
        let Some(main) = rows.iter().find(|row| row.fork.is_none()) else {
            return Err(Error::new(
                codes::SESSION_NOT_FOUND,
                format!("there is no session {session}"),
            ));
        };
        let Some(word) = word else { return Ok(main.clone()) };
        // Ids first: a name may look like one.
        let found = rows.iter().find(|row| row.branch.as_str() == word);
        let found = found.or_else(|| rows.iter().find(|row| row.name == word));
        found.cloned().ok_or_else(|| {
            Error::new(codes::BRANCH_UNKNOWN, format!("session {session} has no branch `{word}`"))
        })
    }
}

impl Session {
    /// Records what the session's other branches have spent since this one was told; true when that
    /// is news. The budget is the session's, whichever branch spends it.
    pub(super) async fn learn_spending(&mut self) -> Result<bool> {
        let rows = self.recorder.log().branches(self.id())?;
        let mut drafts = Vec::new();
        for row in rows.iter().filter(|row| row.branch != *self.branch()) {
            let usage = self.recorder.log().project::<State>(&row.branch)?.usage;
            let known = self.state().elsewhere.get(&row.branch).copied().unwrap_or_default();
            if usage != known {
                let branch = Some(row.branch.clone());
                drafts.push(Draft::new(Kind::BudgetCharged, &BudgetCharged { usage, branch }));
            }
        }
        let news = !drafts.is_empty();
        if news {
            self.recorder.record(drafts).await?;
        }
        Ok(news)
    }
}
