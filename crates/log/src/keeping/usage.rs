//! How full the log is, and who was told.

use glasshouse_model::body::LogStorage;
use glasshouse_model::{Draft, Kind};
use serde::{Deserialize, Serialize};

use super::Keeping;
use super::archive::{self, Archives};
use crate::append::CellWrite;
use crate::codes;
use crate::error::{Error, Result};
use crate::log::Log;

/// Percent of the limit above which a warning is due.
const WARNING_PERCENT: u64 = 80;
/// Percent of the limit above which it is critical.
const CRITICAL_PERCENT: u64 = 95;
/// The cell that remembers what was told.
const SPACE: &str = "log.keeping";
const KEY: &str = "told";

/// What events, archives and blobs take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Bytes in use.
    pub bytes: u64,
    /// Bytes that may be used.
    pub limit_bytes: u64,
    /// `bytes` of `limit_bytes`, rounded down.
    pub percent: u64,
    /// Those of `bytes` that are blobs, which no rotation removes.
    pub blob_bytes: u64,
}

impl Usage {
    fn new(bytes: u64, limit_bytes: u64) -> Self {
        let percent = u128::from(bytes) * 100 / u128::from(limit_bytes.max(1));
        let percent = u64::try_from(percent).unwrap_or(u64::MAX);
        Self { bytes, limit_bytes, percent, blob_bytes: 0 }
    }

    /// If so many bytes less were in use.
    pub(super) fn without(&self, bytes: u64) -> Self {
        Self::new(self.bytes.saturating_sub(bytes), self.limit_bytes)
    }

    pub(super) const fn is_over(&self) -> bool {
        self.bytes > self.limit_bytes
    }

    fn is_above(&self, percent: u64) -> bool {
        u128::from(self.bytes) * 100 > u128::from(self.limit_bytes) * u128::from(percent)
    }

    fn level(&self) -> Level {
        if self.is_above(CRITICAL_PERCENT) {
            Level::Critical
        } else if self.is_above(WARNING_PERCENT) {
            Level::Warning
        } else {
            Level::Quiet
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    #[default]
    Quiet,
    Warning,
    Critical,
}

/// The level that was told last, and how often one was told: an event of each crossing has a key of
/// its own, so that a crash between the event and this cell does not make it told twice.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Told {
    level: Level,
    crossings: u64,
}

pub(super) fn now(
    log: &Log,
    archives: &Archives,
    blob_bytes: u64,
    keeping: &Keeping,
) -> Result<Usage> {
    let bytes = log.stored_bytes()? + archives.bytes(&archive::all(log)?) + blob_bytes;
    Ok(Usage { blob_bytes, ..Usage::new(bytes, keeping.max_bytes) })
}

/// Says each level that was crossed upwards, once.
pub(super) fn tell(log: &Log, usage: Usage) -> Result<()> {
    let mut told = told(log)?;
    for (level, kind) in
        [(Level::Warning, Kind::LogStorageWarning), (Level::Critical, Kind::LogStorageCritical)]
    {
        if told.level >= level || usage.level() < level {
            continue;
        }
        let Usage { bytes, limit_bytes, percent, .. } = usage;
        let draft = Draft::new(kind, &LogStorage { bytes, limit_bytes, percent });
        let crossings = told.crossings + 1;
        log.note(draft, Some(format!("storage crossing {crossings}")))?;
        told = Told { level, crossings };
        remember(log, &told)?;
    }
    Ok(())
}

/// Notes that a level was left downwards, so that crossing it again is told again.
pub(super) fn settle(log: &Log, usage: Usage) -> Result<()> {
    let told = told(log)?;
    if usage.level() < told.level {
        remember(log, &Told { level: usage.level(), ..told })?;
    }
    Ok(())
}

fn told(log: &Log) -> Result<Told> {
    let cell = log.cell(SPACE, KEY)?;
    Ok(cell.and_then(|cell| serde_json::from_slice(&cell.bytes).ok()).unwrap_or_default())
}

fn remember(log: &Log, told: &Told) -> Result<()> {
    let bytes = serde_json::to_vec(told).map_err(|cause| {
        Error::new(codes::STORAGE_FAILED, "could not record how full the log is").why(cause)
    })?;
    log.write_own_cell(CellWrite {
        space: SPACE.to_owned(),
        key: KEY.to_owned(),
        expected_version: None,
        bytes: Some(bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_begin_above_their_percent() {
        let check = |bytes: u64, level: Level, percent: u64, is_over: bool| {
            let usage = Usage::new(bytes, 1_000);
            assert_eq!((usage.level(), usage.percent, usage.is_over()), (level, percent, is_over));
        };
        check(0, Level::Quiet, 0, false);
        check(800, Level::Quiet, 80, false);
        check(801, Level::Warning, 80, false);
        check(950, Level::Warning, 95, false);
        check(951, Level::Critical, 95, false);
        check(1_000, Level::Critical, 100, false);
        check(1_001, Level::Critical, 100, true);
        assert!(Usage::new(1, 0).is_over());
    }
}
