//! Following a branch: from any sequence, through everything that is stored, and on as it comes.
//!
//! The log itself is what a subscription reads, never a channel beside it. So there is no moment
//! between replaying and listening in which an event could be lost or seen twice, and a slow reader
//! is behind but misses nothing and holds nobody up.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use glasshouse_model::{BranchId, Event, Seq};

use crate::chain::PAGE;
use crate::error::Result;
use crate::log::Log;

/// How often a subscription looks for events that other processes stored; those of this process
/// wake it.
const POLL_EVERY: Duration = Duration::from_millis(200);
/// Events of which a follower hears at a time.
const FOLLOWED_AT_ONCE: usize = 4_096;

/// Tells waiting subscriptions that something was stored. Costs nothing while nobody waits.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    state: Mutex<Rung>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Rung {
    times: u64,
    listeners: usize,
}

impl Bell {
    /// Wakes everyone who waits.
    pub(crate) fn ring(&self) {
        let mut state = self.lock();
        state.times += 1;
        if state.listeners > 0 {
            self.changed.notify_all();
        }
    }

    fn rung(&self) -> u64 {
        self.lock().times
    }

    /// Waits until it rings after `heard`, at most so long.
    fn wait(&self, heard: u64, longest: Duration) {
        let mut state = self.lock();
        state.listeners += 1;
        let waited = self.changed.wait_timeout_while(state, longest, |rung| rung.times == heard);
        waited.unwrap_or_else(PoisonError::into_inner).0.listeners -= 1;
    }

    fn lock(&self) -> MutexGuard<'_, Rung> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows one branch; see [`Log::subscribe`].
pub struct Subscription {
    log: Log,
    branch: BranchId,
    next: Seq,
}

impl Subscription {
    pub(crate) const fn new(log: Log, branch: BranchId, next: Seq) -> Self {
        Self { log, branch, next }
    }

    /// Sequence of the event that comes next: where to go on after a break.
    #[must_use]
    pub const fn cursor(&self) -> Seq {
        self.next
    }

    /// The next events in order, some hundreds at a time; waits for one, at most so long. Empty
    /// when none came.
    ///
    /// # Errors
    /// As [`Log::read`]. The cursor stays, so the same call may be made again.
    pub fn next_events(&mut self, longest: Duration) -> Result<Vec<Event>> {
        let deadline = Instant::now() + longest;
        loop {
            // Looked at before reading: what is stored meanwhile rings again.
            let heard = self.log.bell().rung();
            let events = self.log.read(&self.branch, self.next, PAGE)?;
            if let Some(last) = events.last() {
                self.next = last.seq() + 1;
                return Ok(events);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(events);
            }
            self.log.bell().wait(heard, left.min(POLL_EVERY));
        }
    }
}

/// Hears which branches took events; see [`Log::follow`].
pub struct Follower {
    log: Log,
    position: u64,
}

impl Follower {
    pub(crate) const fn new(log: Log, position: u64) -> Self {
        Self { log, position }
    }

    /// The branches that took events since the last call, each with its newest sequence; waits for one,
    /// at most so long. Empty when none did. A fork's past is its parent's: only events of its own count.
    ///
    /// # Errors
    /// A storage error. What was not told is told by the next call.
    pub fn next(&mut self, longest: Duration) -> Result<BTreeMap<BranchId, Seq>> {
        let deadline = Instant::now() + longest;
        loop {
            // Looked at before reading: what is stored meanwhile rings again.
            let heard = self.log.bell().rung();
            let leaves = self.log.leaves(self.position, FOLLOWED_AT_ONCE)?;
            if let Some(last) = leaves.last() {
                self.position = last.position + 1;
                return Ok(leaves.into_iter().map(|leaf| (leaf.branch, leaf.seq)).collect());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(BTreeMap::new());
            }
            self.log.bell().wait(heard, left.min(POLL_EVERY));
        }
    }
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Follower(from {})", self.position)
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscription({} from {})", self.branch, self.next)
    }
}
