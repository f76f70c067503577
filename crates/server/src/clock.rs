//! The time of day for what ends: it never goes back, so a clock that is set back revives nothing that had
//! ended while this process saw it.

use std::sync::atomic::{AtomicU64, Ordering};

static LATEST_US: AtomicU64 = AtomicU64::new(0);

/// Microseconds since 1970; no less than was told before.
pub(crate) fn now_us() -> u64 {
    latest(&LATEST_US, glasshouse_kernel::driver::now_us())
}

fn latest(known: &AtomicU64, now: u64) -> u64 {
    known.fetch_max(now, Ordering::Relaxed).max(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j7_a_clock_that_is_set_back_revives_nothing() {
        let known = AtomicU64::new(0);
        let check = |now: u64, expected: u64| assert_eq!(latest(&known, now), expected, "{now}");
        check(5_000, 5_000);
        check(3_000, 5_000);
        check(5_001, 5_001);
        check(0, 5_001);
    }
}
