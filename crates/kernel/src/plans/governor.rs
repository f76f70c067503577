//! The governor: how many runs a tenant may begin a minute, and have under way at once.
//!
//! What is used is a cell of the tenant's log, changed by compare-and-set, so it holds for all
//! processes and outlives each of them. A run that dies gives its place back when it expires.

use std::collections::BTreeMap;

use glasshouse_log::{CellWrite, Log};
use serde::{Deserialize, Serialize};

use super::tenant;
use crate::{Error, Result, codes};

const SPACE: &str = "plans.governor";
/// Length of the window that runs are counted in.
const WINDOW_US: u64 = 60 * 1_000_000;
/// How long a run may take before its place is given to another; far above the longest rendering.
const RUN_TTL_US: u64 = 60 * 1_000_000;
/// What a tenant may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Runs that begin in one minute.
    pub runs_per_minute: u32,
    /// Runs under way at once.
    pub concurrent: u32,
}

impl Default for Quota {
    /// Two a second for a minute, and four at once: more than a person clicks, less than a loop does.
    fn default() -> Self {
        Self { runs_per_minute: 120, concurrent: 4 }
    }
}

/// What a tenant has used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// When the window began, microseconds since 1970.
    pub window_started_us: u64,
    /// Runs that began in it.
    pub runs_in_window: u32,
    /// Runs under way, with the time at which each gives its place back by itself.
    pub running: BTreeMap<String, u64>,
}

/// The right to one run.
pub(super) struct Ticket(String);

pub(super) struct Governor {
    log: Log,
    quota: Quota,
}

impl Governor {
    pub(super) fn new(log: Log, quota: Quota) -> Self {
        Self { log, quota }
    }

    fn key(&self) -> String {
        tenant(&self.log).as_str().to_owned()
    }

    /// What is used now, and the version of the cell; 0 when there is none.
    fn read(&self, now_us: u64) -> Result<(Usage, u64)> {
        let Some(cell) = self.log.cell(SPACE, &self.key())? else {
            return Ok((Usage::default(), 0));
        };
        // A cell that cannot be read allows nothing.
        let mut usage: Usage = serde_json::from_slice(&cell.bytes).map_err(|e| {
            Error::new(codes::LOG_UNREADABLE, "the quota of the tenant cannot be read").why(e)
        })?;
        usage.running.retain(|_, expires_us| *expires_us > now_us);
        Ok((usage, cell.version))
    }

    pub(super) fn usage(&self, now_us: u64) -> Result<Usage> {
        Ok(self.read(now_us)?.0)
    }

    /// The right to one run and the change of the cell that takes it, for the transaction that
    /// begins the run; the inner error says why there is none now.
    pub(super) fn reserve(&self, now_us: u64) -> Result<Result<(Ticket, CellWrite), Error>> {
        let name: String =
            crate::driver::random()?.iter().map(|byte| format!("{byte:02x}")).collect();
        let (mut usage, version) = self.read(now_us)?;
        if let Err(throttled) = take(&mut usage, self.quota, now_us, &name) {
            return Ok(Err(throttled));
        }
        let write = self.write(&usage, version)?;
        Ok(Ok((Ticket(name), write)))
    }

    /// The change that gives a right back; it belongs into the transaction that ends the run.
    pub(super) fn release(&self, ticket: &Ticket) -> Result<CellWrite> {
        let (mut usage, version) = self.read(super::now_us())?;
        usage.running.remove(&ticket.0);
        self.write(&usage, version)
    }

    fn write(&self, usage: &Usage, version: u64) -> Result<CellWrite> {
        let bytes = serde_json::to_vec(usage)
            .map_err(|e| Error::new(codes::LOG_UNREADABLE, "a quota cannot be written").why(e))?;
        Ok(CellWrite {
            space: SPACE.to_owned(),
            key: self.key(),
            expected_version: Some(version),
            bytes: Some(bytes),
        })
    }
}

/// Counts one run, if the quota has room for it.
fn take(usage: &mut Usage, quota: Quota, now_us: u64, name: &str) -> Result<(), Error> {
    let age_us = now_us.saturating_sub(usage.window_started_us);
    if age_us >= WINDOW_US {
        usage.window_started_us = now_us;
        usage.runs_in_window = 0;
    }
    if usage.running.len() >= quota.concurrent as usize {
        return Err(throttled("concurrent", quota.concurrent as usize));
    }
    if usage.runs_in_window >= quota.runs_per_minute {
        let left_ms = (WINDOW_US - age_us.min(WINDOW_US)) / 1_000;
        let error = throttled("runs_per_minute", quota.runs_per_minute as usize);
        return Err(error.with("retry_after_ms", left_ms));
    }
    usage.runs_in_window += 1;
    usage.running.insert(name.to_owned(), now_us.saturating_add(RUN_TTL_US));
    Ok(())
}

fn throttled(limit: &str, max: usize) -> Error {
    Error::new(codes::PLAN_THROTTLED, "the run did not begin")
        .why(format!("the tenant has used up its quota: {limit}, limit {max}"))
        .with("limit", limit)
        .with("max", max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_counts_by_window_and_by_runs_under_way() {
        let quota = Quota { runs_per_minute: 3, concurrent: 2 };
        let mut usage = Usage::default();
        let mut check = |now_us: u64, ends: Option<&str>, name: &str, limit: Option<&str>| {
            ends.map(|name| usage.running.remove(name));
            let result = take(&mut usage, quota, now_us, name);
            let found = result.err().map(|error| error.report().context["limit"].clone());
            assert_eq!(found, limit.map(Into::into), "{name} at {now_us}");
        };
        let start = WINDOW_US;
        check(start, None, "a", None);
        check(start, None, "b", None);
        check(start, None, "c", Some("concurrent"));
        check(start + 1, Some("a"), "c", None);
        check(start + 2, Some("b"), "d", Some("runs_per_minute"));
        check(start + WINDOW_US - 1, None, "d", Some("runs_per_minute"));
        check(start + WINDOW_US, None, "d", None);
    }
}
