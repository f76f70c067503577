//! A session of its own for something that a person does outside any agent's session.

use glasshouse_log::{Append, CellWrite, NewBranch};
use glasshouse_model::{BranchId, Draft, Principal, PrincipalKind, Seq, SessionId, TenantId};

use super::Kernel;
use super::start::random;
use crate::Result;

/// Where the events of one such act go.
pub(super) struct Journal<'a> {
    kernel: &'a Kernel,
    pub(super) session: SessionId,
    pub(super) branch: BranchId,
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
        Ok(Self { kernel, session, branch })
    }

    /// Appends events; answers the sequence of the last.
    pub(super) fn append(&self, events: Vec<Draft>) -> Result<Seq> {
        self.append_with(events, Vec::new())
    }

    /// The same with cells that change in the same transaction.
    pub(super) fn append_with(&self, events: Vec<Draft>, cells: Vec<CellWrite>) -> Result<Seq> {
        let appended = self.kernel.log.append(Append {
            session: self.session.clone(),
            branch: self.branch.clone(),
            events,
            expected_head: None,
            idempotency_key: None,
            epoch: None,
            cells,
        })?;
        Ok(appended.head.seq)
    }
}

/// The person at this machine.
pub(super) fn local_user() -> Principal {
    Principal::new(PrincipalKind::User, "local", TenantId::local())
}
