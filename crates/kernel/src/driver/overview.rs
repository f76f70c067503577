//! Sessions as lists show them: what a person needs to find one again.

use glasshouse_log::SessionRow;
use glasshouse_model::body::Outcome;
use glasshouse_model::{BranchId, Digest, Kind, Mode, Seq, SessionId, State as Workflow};
use schemars::JsonSchema;
use serde::Serialize;

use super::Kernel;
use crate::Result;
use crate::session::Listing;

/// A session in a list.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "Session")]
pub struct Overview {
    /// Session.
    pub session: SessionId,
    /// Its first branch.
    pub branch: BranchId,
    /// When it was created, microseconds since 1970.
    pub created_us: u64,
    /// Sequence of its newest event.
    pub events: Seq,
    /// Hash of that event.
    pub head: Digest,
    /// `running`, `interrupted`, `new`, how its last turn ended, `closed`, `archived`, `deleted`, or `damaged`.
    pub state: String,
    /// How strictly it works; like all that follows, of a session that can be read here.
    pub mode: Option<Mode>,
    /// Workflow state.
    pub workflow: Option<Workflow>,
    /// First line of the first message.
    pub task: String,
    /// Project directory.
    pub project: Option<String>,
    /// Provider name.
    pub provider: Option<String>,
    /// Model name.
    pub model: Option<String>,
    /// File with its events, once they are archived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
}

impl Kernel {
    /// How a session's first branch stands. One that is archived or damaged is told of as well, so that it
    /// hides no other.
    ///
    /// # Errors
    /// What reading the log answers.
    pub fn overview(&self, row: &SessionRow) -> Result<Overview> {
        let archive = self.log.archive_of(&row.session)?.map(|archive| archive.file);
        let listing = match &archive {
            Some(_) => None,
            None => self.readable_listing(row)?,
        };
        let state = match &listing {
            _ if self.log.is_forgotten(&row.session)? => "deleted".to_owned(),
            Some(_) if self.is_closed(row)? => "closed".to_owned(),
            Some(listing) => self.word_for(row, listing)?,
            None if archive.is_some() => "archived".to_owned(),
            None => "damaged".to_owned(),
        };
        let (mode, workflow) = listing.as_ref().map(|one| (one.mode(), one.workflow())).unzip();
        let listing = listing.unwrap_or_else(|| Listing { head: row.events, ..Listing::default() });
        Ok(Overview {
            session: row.session.clone(),
            branch: row.main.clone(),
            created_us: row.created_us,
            events: listing.head,
            head: self.log.head(&row.main)?.hash,
            state,
            mode,
            workflow,
            task: listing.task.unwrap_or_default(),
            project: listing.project,
            provider: listing.provider,
            model: listing.model,
            archive,
        })
    }

    /// Whether a session is an agent's, and no record of what a person did outside them: an answer, a question, a plan, a
    /// policy. Of what cannot be read nobody knows, so it counts as one.
    ///
    /// # Errors
    /// What reading the log answers.
    pub fn is_agents(&self, row: &SessionRow) -> Result<bool> {
        match self.log.read(&row.main, 1, 1) {
            Err(error) if error.is(glasshouse_log::codes::LOG_CORRUPT) => Ok(true),
            first => Ok(first?.first().is_some_and(|event| *event.kind() == Kind::SessionCreated)),
        }
    }

    fn readable_listing(&self, row: &SessionRow) -> Result<Option<Listing>> {
        match self.log.project(&row.main) {
            Err(error) if error.is(glasshouse_log::codes::LOG_CORRUPT) => Ok(None),
            listing => Ok(Some(listing?)),
        }
    }

    fn word_for(&self, row: &SessionRow, listing: &Listing) -> Result<String> {
        if listing.is_open {
            let is_owned = self.log.is_owned(&row.main)?;
            return Ok(if is_owned { "running" } else { "interrupted" }.to_owned());
        }
        let Some(outcome) = listing.outcome else { return Ok("new".to_owned()) };
        // The project is no git repository, or its last commit had all of it already.
        if outcome == Outcome::Committed && !listing.has_commit {
            return Ok("merged".to_owned());
        }
        let word = serde_json::to_value(outcome).unwrap_or_default();
        Ok(word.as_str().unwrap_or_default().to_owned())
    }
}
