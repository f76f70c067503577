//! The log's own session: what happened to the log itself, and which bodies of other sessions it
//! erased when they were archived.

use glasshouse_model::{BranchId, Draft, SessionId};

use crate::append::{Append, Appended};
use crate::branch::NewBranch;
use crate::codes;
use crate::error::Result;
use crate::log::Log;

const SESSION: &str = "s_log";
const BRANCH: &str = "b_log";
/// The session of keys and tenants, and its branch.
pub const ACCESS: (&str, &str) = ("s_access", "b_access");
/// Sessions with their branches that are looked up by name, in whatever log: none that comes from elsewhere has one.
const RESERVED: [(&str, &str); 2] = [(SESSION, BRANCH), ACCESS];

/// The session in which the log tells of itself. It is made when there is something to tell.
#[must_use]
pub fn own_session() -> SessionId {
    SESSION.parse().expect("a constant in the shape of an id")
}

pub(crate) fn own_branch() -> BranchId {
    BRANCH.parse().expect("a constant in the shape of an id")
}

/// Whether a session is the log's own, which may erase what others hold.
pub(crate) fn is_own(session: &SessionId) -> bool {
    session.as_str() == SESSION
}

/// Whether a session has the name of one that is looked up by it: none that comes from elsewhere may.
pub(crate) fn is_reserved_session(session: &SessionId) -> bool {
    RESERVED.iter().any(|(name, _)| session.as_str() == *name)
}

/// The same of a branch.
pub(crate) fn is_reserved_branch(branch: &BranchId) -> bool {
    RESERVED.iter().any(|(_, name)| branch.as_str() == *name)
}

impl Log {
    /// Says something of the log itself, in a session of its own. With a key it is said once.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn note(&self, draft: Draft, key: Option<String>) -> Result<Appended> {
        let branch = self.own_branch()?;
        let append = Append::new(own_session(), branch, vec![draft]);
        self.append(Append { idempotency_key: key, ..append })
    }

    /// The branch of the log's own session, made when it is missing.
    pub(crate) fn own_branch(&self) -> Result<BranchId> {
        let branch = own_branch();
        match self.branch(&branch) {
            Err(error) if error.is(codes::BRANCH_NOT_FOUND) => {}
            other => return other.map(|row| row.branch),
        }
        let (session, name) = (own_session(), "main".to_owned());
        let new = NewBranch { session, branch: branch.clone(), name, parent: None };
        match self.create_branch(new) {
            // Another process was first.
            Err(error) if !error.is(codes::BRANCH_EXISTS) => Err(error),
            _ => Ok(branch),
        }
    }
}
