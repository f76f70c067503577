//! Taking in a session that another log exported.
//!
//! Nothing that comes in gives a right. Its branches take no events; a fork of one drops the answers of
//! people as every fork does, and is worked on under the shipped policy and the recorded one, of which each
//! must allow a call, without the user's key for a server that the file names, and with a person before
//! every merge.

use std::fs::File;

use glasshouse_log::{Imported, NewBranch, NewImport};
use glasshouse_model::body::{PolicyDecided, SessionCreated};
use glasshouse_model::each_once;
use glasshouse_model::syscall::name;
use glasshouse_model::{Actor, BranchId, Call, Draft, Effect, Kind, PrincipalKind, SessionId};
use glasshouse_policy::Policy;

use super::Kernel;
use super::journal::Journal;
use super::rules;
use super::start::random;
use crate::Result;

impl Kernel {
    /// Imports a session, as the person at this machine and under the shipped policy.
    ///
    /// # Errors
    /// `policy_denied`; `export_invalid`, `session_exists`, `branch_exists`, `tenant_mismatch`,
    /// `import_too_large`, or another error of the log.
    pub fn import(&self, file: &mut File) -> Result<Imported> {
        let call = Call::new(name::SESSION_IMPORT, self.person());
        let decision = self.decide_branching(None, &call)?;
        let (effect, reasons) = (decision.effect, decision.reasons.clone());
        let decided = PolicyDecided::new(None, call, None, decision);
        let decided = Draft::new(Kind::PolicyDecided, &decided);
        if effect != Effect::Allow {
            let journal = Journal::open(self)?;
            let seq = journal.append(vec![decided])?;
            return Err(journal.denied(seq, "no session may be imported", each_once(&reasons)));
        }
        let new = NewImport {
            told: NewBranch {
                session: SessionId::from_random(random()?),
                branch: BranchId::from_random(random()?),
                name: "main".to_owned(),
                parent: None,
            },
            before: vec![decided.clone()],
            actor: Actor { kind: PrincipalKind::User, id: "local".to_owned() },
        };
        let imported = self.log.import_session(file, new)?;
        if !imported.is_new {
            Journal::open(self)?.append(vec![decided])?;
        }
        self.log.sign_head()?;
        Ok(imported)
    }

    /// Whether a session came from another log.
    ///
    /// # Errors
    /// An error of the log.
    pub fn is_imported(&self, session: &SessionId) -> Result<bool> {
        Ok(self.log.branches(session)?.first().is_some_and(|main| main.is_imported))
    }

    /// The policy that a session was started with, as it decides here; nothing runs its rules in TypeScript.
    pub(super) fn policy_of(&self, created: &SessionCreated, is_imported: bool) -> Result<Policy> {
        let texts = if is_imported {
            rules::of_stranger(self, created)?
        } else {
            rules::of_session(self, &created.policy)?
        };
        self.compile_to_look(&texts)
    }
}
