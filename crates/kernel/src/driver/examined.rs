//! What the last examination of this machine found: an event, and a cell that is its index.
//!
//! It lowers what every later sandbox claims, so it is in the log like whatever else rights depend on: a
//! cell that was bettered is found by a verification, and made again from the events.

use glasshouse_log::{CellWrite, Log};
use glasshouse_model::body::SandboxExamined;
use glasshouse_model::{Draft, Kind};
use glasshouse_sandbox::{Backend, DoctorReport, Examination, Level};

use super::Kernel;
use super::journal::Journal;
use crate::{Error, Result, codes};

/// Cells that say what was found last. An index over the `sandbox.examined` events.
pub(super) const SPACE: &str = "sandbox.examined";
/// The only one: a data directory is one machine's.
const KEY: &str = "host";

impl Kernel {
    /// Keeps what an examination of this machine found for every sandbox to come.
    ///
    /// # Errors
    /// The log's errors.
    pub fn record_examination(&self, report: &DoctorReport) -> Result<()> {
        let Some(Examination { level, boot, failed }) = Examination::of(report) else {
            return Ok(());
        };
        let body = SandboxExamined { level: level.to_string(), boot, failed };
        let (space, key, bytes) = cell(&body)?;
        let cell = CellWrite { space, key, expected_version: None, bytes: Some(bytes) };
        let told = Draft::new(Kind::SandboxExamined, &body);
        Journal::open(self)?.append_with(vec![told], vec![cell])?;
        self.log.sign_head()?;
        Ok(())
    }
}

/// The cell that an event makes, by space and key.
pub(super) fn cell(body: &SandboxExamined) -> Result<(String, String, Vec<u8>)> {
    let bytes = serde_json::to_vec(body).map_err(|e| {
        Error::new(codes::LOG_UNREADABLE, "what was examined cannot be written").why(e)
    })?;
    Ok((SPACE.to_owned(), KEY.to_owned(), bytes))
}

/// Tells a backend what was found last. What cannot be read refuses.
pub(crate) fn tell(log: &Log, backend: &dyn Backend) -> Result<()> {
    let cell = log.cell(SPACE, KEY)?;
    let level = cell.and_then(|cell| match serde_json::from_slice::<Examination>(&cell.bytes) {
        Ok(found) => found.level_now(),
        Err(_) => Some(Level::Refused),
    });
    backend.set_examined(level);
    Ok(())
}
