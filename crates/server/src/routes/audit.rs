//! Proofs: of the whole log, of its newest head, of one event.

use glasshouse_log::SignedHead;
use glasshouse_model::{BranchId, Seq};
use schemars::JsonSchema;
use serde::Serialize;

use crate::ask::Ask;
use crate::reply::Reply;
use crate::service::Service;
use crate::{Error, Result};

/// Verifies the log. That something does not prove itself is an answer, not an error.
pub(crate) fn verify(service: &Service, _: &Ask) -> Result<Reply> {
    let tenant = service.kernel.log().tenant();
    Ok(Reply::ok(&glasshouse_log::verify_home(&service.home, tenant)?))
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Checkpoint {
    #[serde(flatten)]
    head: SignedHead,
    /// The log's verifier key.
    key: String,
}

/// Signs a head of everything that is stored.
pub(crate) fn checkpoint(service: &Service, _: &Ask) -> Result<Reply> {
    let log = service.kernel.log();
    let head = log.sign_head()?;
    Ok(Reply::ok(&Checkpoint { head, key: log.public_key()?.to_string() }))
}

/// Proves that an event is in the log. A branch of a session that the caller may not see is no branch.
pub(crate) fn prove(service: &Service, ask: &Ask) -> Result<Reply> {
    let missing = |text: &str| {
        Error::new(glasshouse_log::codes::EVENT_NOT_FOUND, format!("there is no event {text}"))
    };
    let no_branch = |text: &str| {
        Error::new(glasshouse_log::codes::BRANCH_NOT_FOUND, format!("no branch {text}"))
    };
    let branch: BranchId = ask.part("branch", no_branch)?;
    let seq: Seq = ask.part("seq", missing)?;
    let log = service.kernel.log();
    let session = log.branch(&branch)?.session;
    ask.check_session(&session).map_err(|_| no_branch(branch.as_str()))?;
    Ok(Reply::ok(&log.prove(&branch, seq)?))
}
