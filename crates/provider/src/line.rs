//! What all requests to one endpoint share, whichever session makes them: how many may run at
//! once, how long the endpoint asked everyone to wait, and whether it is worth asking at all.

mod breaker;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

pub use breaker::{Breaker, OPEN_AFTER, OPEN_MS};

use crate::{Error, codes};

/// Most requests to one endpoint at once: enough for many sessions, below what accounts allow.
pub const MAX_PARALLEL: usize = 16;

/// The requests to one endpoint.
#[derive(Debug)]
pub struct Line {
    gate: Semaphore,
    breaker: Mutex<Breaker>,
    /// Times are counted from here, so that a clock that is set does not matter.
    since: Instant,
}

impl Line {
    /// A line on which `max_parallel` requests may run at once.
    #[must_use]
    pub fn new(max_parallel: usize) -> Self {
        Self {
            gate: Semaphore::new(max_parallel.max(1)),
            breaker: Mutex::default(),
            since: Instant::now(),
        }
    }

    /// Waits for a place, in the order of asking; then asks the breaker.
    pub(crate) async fn enter(&self, name: &str) -> Result<SemaphorePermit<'_>, Error> {
        let place = self.gate.acquire().await.expect("the gate is never closed");
        let mut breaker = self.breaker();
        let Err(wait_ms) = breaker.admit(self.now_ms()) else { return Ok(place) };
        let paused = Error::new(codes::PROVIDER_PAUSED, format!("{name} is not asked for now"))
            .with(crate::error::RETRY_AFTER_MS, wait_ms);
        // Its code alone: what somebody else's request failed with in detail is theirs.
        Err(match breaker.cause() {
            Some(cause) => {
                let name = cause.name;
                let why = format!("it failed with `{name}`; it is tried again in {wait_ms} ms");
                paused.why(why).fix(cause.fix)
            }
            None => paused.why(format!("it asked to wait; it is tried again in {wait_ms} ms")),
        })
    }

    /// Tells how a request ended that was tried and not cancelled.
    pub(crate) fn ended<T>(&self, result: &Result<T, Error>) {
        let now_ms = self.now_ms();
        match result {
            Ok(_) => self.breaker().succeeded(),
            Err(error) => self.breaker().failed(error, now_ms),
        }
    }

    fn breaker(&self) -> std::sync::MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::new(MAX_PARALLEL)
    }
}

/// The lines of a process, by endpoint.
#[derive(Debug, Clone, Default)]
pub struct Lines(Arc<Mutex<HashMap<String, Arc<Line>>>>);

impl Lines {
    /// The line to an endpoint; the same for everyone who asks by the same name.
    #[must_use]
    pub fn to(&self, endpoint: &str) -> Arc<Line> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(lines.entry(endpoint.to_owned()).or_default())
    }
}
