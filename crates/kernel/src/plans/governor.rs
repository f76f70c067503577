//! The governor: how many runs a tenant may begin a minute, and have under way at once.
//!
//! What is used is a cell of the tenant's log, changed by compare-and-set, so it holds for all
//! processes and outlives each of them. The rules are `plan`'s.

use glasshouse_log::{CellWrite, Log};
use glasshouse_plan::quota::{Quota, Usage};

use super::tenant;
use crate::{Error, Result, codes};

const SPACE: &str = "plans.governor";

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
        usage.expire(now_us);
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
        if let Err(error) = usage.take(self.quota, &name, now_us) {
            return Ok(Err(throttled(&error)));
        }
        let write = self.write(&usage, version)?;
        Ok(Ok((Ticket(name), write)))
    }

    /// The change that gives a right back; it belongs into the transaction that ends the run.
    pub(super) fn release(&self, ticket: &Ticket) -> Result<CellWrite> {
        let (mut usage, version) = self.read(super::now_us())?;
        usage.give_back(&ticket.0);
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

fn throttled(error: &glasshouse_plan::Error) -> Error {
    let report = error.report();
    let told = Error::new(codes::PLAN_THROTTLED, "the run did not begin")
        .why(format!("{}: {}", report.what, report.why));
    report.context.into_iter().fold(told, |error, (key, value)| error.with(&key, value))
}
