//! What a person says while a turn runs. It is stored when it is said, whoever runs the branch, and becomes a
//! message of the branch before the next request to the model; what came too late for the turn begins the
//! next one.

use std::sync::Arc;

use glasshouse_log::{CellWrite, Log};
use glasshouse_model::body::MessageReceived;
use glasshouse_model::{Actor, BranchId, Draft, Kind, Principal, Seq, SessionId};
use glasshouse_tools::sanitise::Masker;
use serde::{Deserialize, Serialize};

use super::journal;
use super::{Kernel, Session};
use crate::session::ModelPhase;
use crate::{Error, Result, codes};

/// Cells of messages that a branch has not taken yet, by branch.
pub(super) const SPACE: &str = "turn.steering";
/// Most messages that wait for one branch.
const MAX_WAITING: usize = 16;

/// Content of a cell.
#[derive(Serialize, Deserialize)]
struct Waiting {
    messages: Vec<Said>,
}

#[derive(Serialize, Deserialize)]
struct Said {
    text: String,
    by: Actor,
}

/// Takes messages for a branch that somebody runs.
#[derive(Clone)]
pub struct Steering {
    log: Log,
    masker: Arc<Masker>,
    session: SessionId,
    branch: BranchId,
}

impl Steering {
    /// Says something to the turn that runs. Stored when it returns.
    ///
    /// # Errors
    /// `steering_full` when too many messages wait already; the log's errors.
    pub fn say(&self, kernel: &Kernel, text: &str, by: &Principal) -> Result<Seq> {
        let text = self.masker.mask_str(text);
        let journal = journal::Journal::beside(kernel, &self.session)?;
        let body = MessageReceived { text: text.clone() };
        loop {
            let (version, mut waiting) = read(&self.log, &self.branch)?;
            if waiting.messages.len() >= MAX_WAITING {
                let what = format!("{} takes no more messages now", self.branch);
                return Err(Error::new(codes::STEERING_FULL, what)
                    .why(format!("{MAX_WAITING} wait for its next step in {}", self.session)));
            }
            waiting.messages.push(Said { text: text.clone(), by: by.actor() });
            let cell = cell(&self.branch, version, Some(&waiting))?;
            let draft = Draft::new(Kind::MessageReceived, &body).by(by.actor()).label("user");
            match journal.append_with(vec![draft], vec![cell]) {
                // Somebody else spoke, or the turn listened, at the same time.
                Err(error) if error.is(glasshouse_log::codes::CELL_CONFLICT) => {}
                appended => return appended,
            }
        }
    }
}

impl Session {
    /// A handle through which the running turn can be told something.
    #[must_use]
    pub fn steering(&self) -> Steering {
        let (log, masker) = (self.recorder.log().clone(), Arc::clone(&self.masker));
        let (session, branch) = (self.id().clone(), self.branch().clone());
        Steering { log, masker, session, branch }
    }

    /// Makes messages of what was said since, between two steps: an answer and what it calls for come first.
    pub(super) async fn take_steering(&mut self) -> Result<()> {
        let state = self.state();
        let is_between = state.model != ModelPhase::Requested
            && state.open_calls.is_empty()
            && state.merge.is_none()
            && state.turn.is_some();
        if !is_between {
            return Ok(());
        }
        loop {
            let (version, waiting) = read(self.recorder.log(), self.branch())?;
            if waiting.messages.is_empty() {
                return Ok(());
            }
            let messages = waiting.messages.into_iter().map(|Said { text, by }| {
                Draft::new(Kind::MessageReceived, &MessageReceived { text }).by(by).label("user")
            });
            let taken = cell(self.branch(), version, None)?;
            match self.recorder.record_with(messages.collect(), vec![taken]).await {
                Err(error) if error.is(glasshouse_log::codes::CELL_CONFLICT) => {}
                recorded => return recorded,
            }
        }
    }
}

/// What waits for a branch, and the version of its cell.
fn read(log: &Log, branch: &BranchId) -> Result<(u64, Waiting)> {
    let Some(cell) = log.cell(SPACE, branch.as_str())? else {
        return Ok((0, Waiting { messages: Vec::new() }));
    };
    let waiting = serde_json::from_slice(&cell.bytes)
        .map_err(|e| Error::new(codes::LOG_UNREADABLE, "what was said cannot be read").why(e))?;
    Ok((cell.version, waiting))
}

fn cell(branch: &BranchId, version: u64, waiting: Option<&Waiting>) -> Result<CellWrite> {
    let bytes = waiting.map(serde_json::to_vec).transpose();
    let bytes = bytes
        .map_err(|e| Error::new(codes::TURN_FAILED, "what was said cannot be written").why(e))?;
    let (space, key) = (SPACE.to_owned(), branch.as_str().to_owned());
    Ok(CellWrite { space, key, expected_version: Some(version), bytes })
}
