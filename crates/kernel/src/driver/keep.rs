//! Moving old sessions from the log to archives.

use std::time::Duration;

use glasshouse_log::{Keeping, Log, Rotated, SessionRow};
use glasshouse_model::Kind;

use super::Kernel;
use crate::Result;
use crate::session::State;

/// Time between two rotations that nobody asked for.
const ROTATE_EVERY: Duration = Duration::from_secs(24 * 3600);
/// File whose time says when the last one was.
const STAMP: &str = "rotated";

impl Kernel {
    /// With other limits for what is kept.
    #[must_use]
    pub fn with_keeping(mut self, keeping: Keeping) -> Self {
        self.keeping = keeping;
        self
    }

    /// Archives old sessions that have ended, and makes room where the log is full; with `dry_run` only
    /// names what would be archived.
    ///
    /// # Errors
    /// The log's errors.
    pub fn rotate(&self, dry_run: bool) -> Result<Rotated> {
        Ok(rotate(&self.log, &self.keeping, dry_run)?)
    }

    /// Rotates on a thread of its own, unless that was done in the last day. The end of the process may
    /// cut it off at any place; the next one goes on.
    pub(super) fn rotate_aside(&self) {
        let stamp = self.home.join("run").join(STAMP);
        let age = stamp.metadata().and_then(|meta| meta.modified()).ok();
        if age.and_then(|time| time.elapsed().ok()).is_some_and(|age| age < ROTATE_EVERY) {
            return;
        }
        let (log, keeping) = (self.log.clone(), self.keeping);
        std::thread::spawn(move || {
            // First, so that of two processes that start at once only one rotates.
            if std::fs::write(&stamp, b"").is_ok() {
                // What cannot be archived stays, and `audit rotate` says why.
                let _ = rotate(&log, &keeping, false);
            }
        });
    }
}

fn rotate(log: &Log, keeping: &Keeping, dry_run: bool) -> glasshouse_log::Result<Rotated> {
    log.rotate(keeping, dry_run, &mut |row| is_ended(log, row))
}

/// Whether a session is over and nothing else is a fold over its events: acceptances of policies,
/// standing grants and plans are looked up long after.
fn is_ended(log: &Log, row: &SessionRow) -> glasshouse_log::Result<bool> {
    let first = log.read(&row.main, 1, 1)?;
    let first = first.first().map(|event| event.kind().clone());
    if !matches!(first, Some(Kind::SessionCreated | Kind::ToolProposed)) {
        return Ok(false);
    }
    for branch in log.branches(&row.session)? {
        let mut state = State::default();
        for event in log.events(&branch.branch) {
            let event = event?;
            if is_looked_up(event.kind()) {
                return Ok(false);
            }
            state.apply(&event);
        }
        if state.turn.is_some() || state.unreadable.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_looked_up(kind: &Kind) -> bool {
    let is_standing =
        matches!(kind, Kind::PolicyProposed | Kind::PolicyUpdated | Kind::GrantIssued);
    is_standing || kind.as_str().starts_with("plan.")
}
