//! Quotas: how many runs of plans a tenant may begin a minute, and have under way at once.
//!
//! Pure rules over a time that the caller gives; the host keeps what is used, one value for each
//! tenant, and asks before it registers or runs anything.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::codes;
use crate::error::Error;

/// Length of the window that runs are counted in.
pub const WINDOW_US: u64 = 60 * 1_000_000;
/// How long a run may take before its place is given to another; far above the longest rendering.
pub const RUN_TTL_US: u64 = 60 * 1_000_000;

/// What a tenant may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Runs that begin in one window.
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
///
/// ```
/// use glasshouse_plan::quota::{Quota, Usage};
/// let quota = Quota { concurrent: 1, ..Quota::default() };
/// let mut usage = Usage::default();
/// usage.take(quota, "first", 0)?;
/// assert_eq!(usage.take(quota, "second", 1).unwrap_err().code(), "plan_quota_exceeded");
/// usage.give_back("first");
/// usage.take(quota, "second", 2)?;
/// # Ok::<(), glasshouse_plan::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// When the window began, in microseconds; it begins with the first run after the one before ended.
    pub window_started_us: u64,
    /// Runs that began in it.
    pub runs_in_window: u32,
    /// Runs under way, with the time at which each gives its place back by itself.
    pub running: BTreeMap<String, u64>,
}

impl Usage {
    /// Counts one run, if the quota has room for it. `run` is a name of its own for it.
    ///
    /// # Errors
    /// `plan_quota_exceeded` with the limit and, where waiting helps, `retry_after_ms`.
    pub fn take(&mut self, quota: Quota, run: &str, now_us: u64) -> Result<(), Error> {
        self.expire(now_us);
        // A window that begins later than a clock that was set back a little could tell was counted by
        // another time.
        let is_ahead = self.window_started_us > now_us.saturating_add(WINDOW_US);
        let age_us = now_us.saturating_sub(self.window_started_us);
        if age_us >= WINDOW_US || is_ahead {
            self.window_started_us = now_us;
            self.runs_in_window = 0;
        }
        if self.running.len() >= quota.concurrent as usize {
            let next_us = self.running.values().min().copied().unwrap_or(now_us);
            let left_ms = next_us.saturating_sub(now_us).div_ceil(1_000);
            return Err(exceeded("concurrent", quota.concurrent).with("retry_after_ms", left_ms));
        }
        if self.runs_in_window >= quota.runs_per_minute {
            let end_us = self.window_started_us.saturating_add(WINDOW_US);
            let left_ms = end_us.saturating_sub(now_us).div_ceil(1_000);
            let error = exceeded("runs_per_minute", quota.runs_per_minute);
            return Err(error.with("retry_after_ms", left_ms));
        }
        self.runs_in_window += 1;
        self.running.insert(run.to_owned(), now_us.saturating_add(RUN_TTL_US));
        Ok(())
    }

    /// Gives the place of a run back when it has ended.
    pub fn give_back(&mut self, run: &str) {
        self.running.remove(run);
    }

    /// Gives the places of runs back that never said they ended. One that would hold its place longer
    /// than any run may was counted by a clock that was ahead.
    pub fn expire(&mut self, now_us: u64) {
        let latest_us = now_us.saturating_add(2 * RUN_TTL_US);
        self.running.retain(|_, expires_us| *expires_us > now_us && *expires_us <= latest_us);
    }
}

fn exceeded(limit: &'static str, max: u32) -> Error {
    Error::new(codes::QUOTA_EXCEEDED, "the tenant has used up its quota")
        .why(format!("{limit}: limit {max}"))
        .with("limit", limit)
        .with("max", max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_counted_by_window_and_by_those_under_way() {
        let quota = Quota { runs_per_minute: 3, concurrent: 2 };
        let mut usage = Usage::default();
        let mut check = |now_us: u64, ends: Option<&str>, name: &str, limit: Option<&str>| {
            ends.into_iter().for_each(|name| usage.give_back(name));
            let result = usage.take(quota, name, now_us);
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

    /// The clock was an hour ahead while plans ran, and was then set right: windows and places from
    /// the future counted on, so for an hour the tenant was refused. What no clock of now can have
    /// counted does not count.
    #[test]
    fn a_clock_that_was_ahead_locks_nobody_out() {
        const HOUR_US: u64 = 3_600_000_000;
        let quota = Quota { runs_per_minute: 2, concurrent: 2 };
        for ahead_us in [2 * WINDOW_US + 1, HOUR_US, 1_000 * HOUR_US] {
            let now_us = 5 * HOUR_US;
            let mut usage = Usage::default();
            usage.take(quota, "a", now_us + ahead_us).unwrap();
            usage.take(quota, "b", now_us + ahead_us).unwrap();
            assert!(usage.take(quota, "c", now_us + ahead_us).is_err(), "the control: it is full");
            usage.take(quota, "c", now_us).unwrap();
            usage.take(quota, "d", now_us).unwrap();
            let error = usage.take(quota, "e", now_us).unwrap_err();
            assert_eq!(error.report().context["retry_after_ms"], 60_000, "full again, by now");
        }
        // A step of a second back opens nothing and locks nobody out for longer than the second.
        let mut usage = Usage::default();
        usage.take(quota, "a", HOUR_US).unwrap();
        usage.take(quota, "b", HOUR_US).unwrap();
        usage.give_back("a");
        usage.give_back("b");
        let error = usage.take(quota, "c", HOUR_US - 1_000_000).unwrap_err();
        assert_eq!(error.report().context["retry_after_ms"], 61_000);
    }

    #[test]
    fn a_run_that_dies_gives_its_place_back_and_a_full_window_says_when() {
        let quota = Quota { runs_per_minute: 2, concurrent: 1 };
        let mut usage = Usage::default();
        usage.take(quota, "dies", WINDOW_US).unwrap();
        assert!(usage.take(quota, "next", WINDOW_US + RUN_TTL_US - 1).is_err());
        usage.take(quota, "next", WINDOW_US + RUN_TTL_US).unwrap();
        usage.give_back("next");
        let start = WINDOW_US + RUN_TTL_US;
        usage.take(quota, "last", start + 1).unwrap();
        usage.give_back("last");
        let error = usage.take(quota, "more", start + WINDOW_US - 1).unwrap_err();
        assert_eq!(error.report().context["retry_after_ms"], 1);
    }
}
