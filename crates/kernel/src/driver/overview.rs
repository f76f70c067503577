//! Sessions as lists show them: what a person needs to find one again.

use glasshouse_log::SessionRow;
use glasshouse_model::body::MessageReceived;
use glasshouse_model::{BranchId, Digest, Event, Kind, Seq, SessionId, State as Workflow, Usage};
use serde::Serialize;

use super::Kernel;
use crate::Result;

/// First events among which a session's task is looked for.
const FIRST_EVENTS: usize = 16;
/// Longest task in a list, in characters.
const MAX_TASK_CHARS: usize = 72;

/// A session in a list.
#[derive(Debug, Clone, Serialize)]
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
    /// `running`, `interrupted`, `new`, how its last turn ended, `closed`, `archived` or `deleted`.
    pub state: String,
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
    /// Spent so far on the branch.
    pub usage: Usage,
    /// File with its events, once they are archived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
}

impl Kernel {
    /// How a session's first branch stands.
    ///
    /// # Errors
    /// What reading the log answers.
    pub fn overview(&self, row: &SessionRow) -> Result<Overview> {
        let head = self.log.head(&row.main)?;
        let mut view = Overview {
            session: row.session.clone(),
            branch: row.main.clone(),
            created_us: row.created_us,
            events: row.events,
            head: head.hash,
            state: "archived".to_owned(),
            workflow: None,
            task: String::new(),
            project: None,
            provider: None,
            model: None,
            usage: Usage::default(),
            archive: None,
        };
        if self.log.is_forgotten(&row.session)? {
            view.state = "deleted".to_owned();
            return Ok(view);
        }
        if let Some(archive) = self.log.archive_of(&row.session)? {
            view.archive = Some(archive.file);
            return Ok(view);
        }
        let state = match self.state_of(&row.main) {
            // One damaged session hides no other.
            Err(error) if error.is(glasshouse_log::codes::LOG_CORRUPT) => {
                view.state = "damaged".to_owned();
                return Ok(view);
            }
            state => state?,
        };
        let first = self.log.read(&row.main, 1, FIRST_EVENTS)?;
        view.events = state.head;
        view.state = match (&state.turn, state.outcome()) {
            (Some(_), _) if self.log.is_owned(&row.main)? => "running".to_owned(),
            (Some(_), _) => "interrupted".to_owned(),
            (None, Some(outcome)) => {
                let word = serde_json::to_value(outcome).unwrap_or_default();
                word.as_str().unwrap_or_default().to_owned()
            }
            (None, None) => "new".to_owned(),
        };
        if self.is_closed(row)? {
            view.state = "closed".to_owned();
        }
        view.workflow = Some(state.workflow());
        view.task = task_of(&first);
        view.usage = state.usage;
        if let Some(created) = state.created {
            view.project = Some(created.project);
            view.provider = Some(created.provider);
            view.model = Some(created.model);
        }
        Ok(view)
    }
}

/// The first line that a person wrote, without what a terminal obeys.
fn task_of(events: &[Event]) -> String {
    let message = events.iter().find(|event| *event.kind() == Kind::MessageReceived);
    let text =
        message.and_then(|event| event.body_as::<MessageReceived>().ok()).map(|body| body.text);
    let text = text.unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(MAX_TASK_CHARS).collect()
}
