//! Time as an input, so that tests and simulations decide what time it is.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the log reads the time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Wall-clock microseconds since 1970. May step backwards; only stamps events.
    fn now_us(&self) -> u64;

    /// Microseconds since the machine started, suspension included. Never steps backwards, so
    /// leases expire by it.
    fn uptime_us(&self) -> u64;
}

/// The clocks of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_us(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    fn uptime_us(&self) -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let micros = u64::try_from(time.tv_nsec / 1_000).unwrap_or(0);
        seconds.saturating_mul(1_000_000).saturating_add(micros)
    }
}
