//! What one exchange has moved, and when it last moved anything.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Denial;

/// As seen from the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Sent,
    Received,
}

/// Counts of one exchange; its two directions run on one thread.
pub(crate) struct Meter {
    limit_bytes: u64,
    sent: Cell<u64>,
    received: Cell<u64>,
    started: Instant,
    last: Cell<Instant>,
}

impl Meter {
    pub(crate) fn new(limit_bytes: u64) -> Self {
        let now = Instant::now();
        Self {
            limit_bytes,
            sent: Cell::new(0),
            received: Cell::new(0),
            started: now,
            last: Cell::new(now),
        }
    }

    /// Counts bytes before they are written.
    ///
    /// # Errors
    /// [`Denial::Limit`] when both directions together would be beyond the limit.
    pub(crate) fn add(&self, direction: Direction, bytes: usize) -> Result<(), Denial> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let total = self.sent.get().saturating_add(self.received.get()).saturating_add(bytes);
        if total > self.limit_bytes {
            return Err(Denial::Limit);
        }
        let counter = match direction {
            Direction::Sent => &self.sent,
            Direction::Received => &self.received,
        };
        counter.set(counter.get() + bytes);
        Ok(())
    }

    /// Notes that something arrived where it was to go.
    pub(crate) fn moved(&self) {
        self.last.set(Instant::now());
    }

    /// Ends when nothing moved for so long, in either direction.
    pub(crate) async fn idle(&self, limit: Duration) -> Denial {
        loop {
            let until = self.last.get() + limit;
            if Instant::now() >= until {
                return Denial::TimedOut;
            }
            sleep_until(until).await;
        }
    }

    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent.get()
    }

    pub(crate) fn received_bytes(&self) -> u64 {
        self.received.get()
    }

    pub(crate) fn duration_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}
