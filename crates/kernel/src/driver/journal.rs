//! A session of its own for something that a person does outside any agent's session.

use glasshouse_log::{Append, CellWrite, Lease, Log, NewBranch};
use glasshouse_model::{BranchId, Draft, Principal, PrincipalKind, Seq, SessionId};

use super::start::random;
use super::{Kernel, beside};
use crate::{Error, Result, codes};

/// Where the events of one such act go.
pub(super) struct Journal<'a> {
    kernel: &'a Kernel,
    pub(super) session: SessionId,
    pub(super) branch: BranchId,
    /// The agent's session that it is about, and goes with.
    about: Option<SessionId>,
    /// Held where others have to see that somebody works on it.
    lease: Option<Lease>,
}

impl<'a> Journal<'a> {
    pub(super) fn open(kernel: &'a Kernel) -> Result<Self> {
        let (session, branch) =
            (SessionId::from_random(random()?), BranchId::from_random(random()?));
        kernel.log.create_branch(NewBranch {
            session: session.clone(),
            branch: branch.clone(),
            name: "main".to_owned(),
            parent: None,
        })?;
        Ok(Self { kernel, session, branch, about: None, lease: None })
    }

    /// One that holds words of an agent's session: whoever deletes that deletes this.
    pub(super) fn beside(kernel: &'a Kernel, session: &SessionId) -> Result<Self> {
        Ok(Self { about: Some(session.clone()), ..Self::open(kernel)? })
    }

    /// One that an earlier process opened.
    pub(super) const fn of(kernel: &'a Kernel, session: SessionId, branch: BranchId) -> Self {
        Self { kernel, session, branch, about: None, lease: None }
    }

    /// Takes the right to write to it, for as long as it lives.
    ///
    /// # Errors
    /// `session_owned` while another process has it.
    pub(super) fn owned(mut self) -> Result<Self> {
        self.lease = Some(self.kernel.log.acquire_lease(&self.branch)?);
        Ok(self)
    }

    /// The log that it is in.
    pub(super) const fn log(&self) -> &Log {
        &self.kernel.log
    }

    /// The error of what the policy denied by the event `seq` of this branch.
    pub(super) fn denied(
        &self,
        seq: Seq,
        what: impl Into<String>,
        why: impl std::fmt::Display,
    ) -> Error {
        let session = &self.session;
        Error::new(codes::POLICY_DENIED, what)
            .why(why)
            .fix(format!("`glasshouse policy explain --session {session} --at {seq}` says more"))
            .with("session", session.as_str())
            .with("seq", seq)
    }

    /// Appends events; answers the sequence of the last.
    pub(super) fn append(&self, events: Vec<Draft>) -> Result<Seq> {
        self.append_with(events, Vec::new())
    }

    /// The same with cells that change in the same transaction.
    pub(super) fn append_with(&self, events: Vec<Draft>, mut cells: Vec<CellWrite>) -> Result<Seq> {
        cells.extend(self.about.as_ref().map(|session| beside::link(session, &self.session)));
        let appended = self.kernel.log.append(Append {
            session: self.session.clone(),
            branch: self.branch.clone(),
            events,
            expected_head: None,
            idempotency_key: None,
            epoch: self.lease.as_ref().map(Lease::epoch),
            cells,
        })?;
        Ok(appended.head.seq)
    }
}

impl Kernel {
    /// The person at this machine, of the log's tenant.
    #[must_use]
    pub fn person(&self) -> Principal {
        Principal::new(PrincipalKind::User, "local", self.log.tenant().clone())
    }

    /// Who asked, or the person at this machine.
    pub(super) fn who(&self, by: Option<&Principal>) -> Principal {
        by.cloned().unwrap_or_else(|| self.person())
    }
}
