//! Who stores: callers that have something to store queue up, and the first of them leads. It takes
//! what has arrived, stores it for everybody, and hands over to the first of those that came
//! meanwhile. A caller that is alone waits for nobody and wakes nobody. A job may also be left for
//! whoever leads next: its caller goes on at once.
//!
//! The queue knows nothing of what is stored; it promises that at most one caller leads, that jobs
//! are taken in their order (one that was left before what its caller enters later), that every caller returns, and that the lead is never lost while
//! somebody waits.

use std::collections::VecDeque;
use std::sync::PoisonError;

use super::sync::{
    Arc, AtomicU8, Condvar, Mutex, MutexGuard, Ordering, Thread, current, park, yield_now,
};

/// Callers that may wait for the lead; more wait for room, so that memory does not grow.
const CAPACITY: usize = 1024;
/// How often a leader lets others run when fewer have come than shared the group before: those that
/// were answered last are just about to come again, and a sync shared is a sync saved.
const YIELDS: u32 = 4;

const WAITS: u8 = 0;
const LEADS: u8 = 1;
const IS_SERVED: u8 = 2;

/// Jobs on their way.
pub(crate) struct Queue<J> {
    inner: Mutex<Inner<J>>,
    room: Condvar,
}

struct Inner<J> {
    entries: VecDeque<Entry<J>>,
    /// Jobs that nobody waits beside. Who leaves one is told how many there are, and stores them itself when
    /// they are many: beyond that each thread adds one at most before it waits like everybody.
    left: Vec<J>,
    is_led: bool,
    is_closed: bool,
    /// Jobs in the last group.
    last_group: usize,
    /// Callers that wait for room.
    outside: usize,
}

/// A job that was taken. Dropping it lets its caller go on.
pub(crate) struct Entry<J> {
    /// `None` for a caller that wants the lead to itself.
    job: Option<J>,
    /// `None` for a job that was left.
    turn: Option<Arc<Turn>>,
}

/// Where a caller stands.
struct Turn {
    phase: AtomicU8,
    thread: Thread,
}

impl Turn {
    fn set(&self, phase: u8) {
        self.phase.store(phase, Ordering::Release);
        self.thread.unpark();
    }
}

impl<J> Entry<J> {
    /// Whether there is something to store.
    pub(crate) const fn has_job(&self) -> bool {
        self.job.is_some()
    }

    /// Takes the job out.
    pub(crate) fn take(&mut self) -> Option<J> {
        self.job.take()
    }
}

impl<J> Drop for Entry<J> {
    fn drop(&mut self) {
        drop(self.job.take());
        if let Some(turn) = &self.turn {
            turn.set(IS_SERVED);
        }
    }
}

/// The lead. Dropping it hands it to the next caller; in a panic it closes the queue.
pub(crate) struct Lead<'q, J> {
    queue: &'q Queue<J>,
}

impl<J> Queue<J> {
    pub(crate) fn new() -> Self {
        let inner = Inner {
            entries: VecDeque::new(),
            left: Vec::new(),
            is_led: false,
            is_closed: false,
            last_group: 0,
            outside: 0,
        };
        Self { inner: Mutex::new(inner), room: Condvar::new() }
    }

    /// Queues a job. Answers the lead when the caller has to store, its own job first; nothing once
    /// another caller has taken the job and dropped it, or when the queue is closed.
    pub(crate) fn enter(&self, job: J) -> Option<Lead<'_, J>> {
        self.wait(Some(job))
    }

    /// How many callers wait or lead, and how many jobs were left.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.entries.len() + usize::from(inner.is_led), inner.left.len())
    }

    /// Waits for the lead without a job; nobody else takes this turn.
    pub(crate) fn lead(&self) -> Option<Lead<'_, J>> {
        self.wait(None)
    }

    /// Leaves a job for whoever leads next. Answers how many were left so; nothing when the queue is
    /// closed, and the job is gone then.
    pub(crate) fn leave(&self, job: J) -> Option<usize> {
        let mut inner = self.lock();
        if inner.is_closed {
            return None;
        }
        inner.left.push(job);
        Some(inner.left.len())
    }

    fn wait(&self, job: Option<J>) -> Option<Lead<'_, J>> {
        let turn = Arc::new(Turn { phase: AtomicU8::new(WAITS), thread: current() });
        let mut inner = self.lock();
        while inner.entries.len() >= CAPACITY && !inner.is_closed {
            inner.outside += 1;
            inner = self.room.wait(inner).unwrap_or_else(PoisonError::into_inner);
            inner.outside -= 1;
        }
        if inner.is_closed {
            return None;
        }
        inner.entries.push_back(Entry { job, turn: Some(Arc::clone(&turn)) });
        if !inner.is_led {
            // Nobody leads, so nobody waited: this entry is the first.
            inner.is_led = true;
            return Some(Lead { queue: self });
        }
        drop(inner);
        loop {
            match turn.phase.load(Ordering::Acquire) {
                LEADS => return Some(Lead { queue: self }),
                IS_SERVED => return None,
                _ => park(),
            }
        }
    }

    /// Lets nobody in any more, and everybody who waits go with nothing.
    fn close(&self) {
        let mut inner = self.lock();
        inner.is_closed = true;
        let waiting = std::mem::take(&mut inner.entries);
        let left = std::mem::take(&mut inner.left);
        drop(inner);
        self.room.notify_all();
        drop((waiting, left));
    }

    fn lock(&self) -> MutexGuard<'_, Inner<J>> {
        // Nothing here panics while it holds the lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J> Lead<'_, J> {
    /// Takes what was left, and then what has arrived, of that at most `max`; the leader's own turn is
    /// the first. A caller that wants the lead to itself stays in its place, and so does everybody
    /// behind it.
    pub(crate) fn take(&self, max: usize) -> Vec<Entry<J>> {
        let mut inner = self.queue.lock();
        for _ in 0..YIELDS {
            if inner.entries.len() >= inner.last_group.min(max) {
                break;
            }
            drop(inner);
            yield_now();
            inner = self.queue.lock();
        }
        let others = inner.entries.iter().skip(1).take_while(|entry| entry.job.is_some()).count();
        let count = (others + 1).min(max).min(inner.entries.len());
        inner.last_group = count;
        let left = std::mem::take(&mut inner.left);
        let mut taken: Vec<_> =
            left.into_iter().map(|job| Entry { job: Some(job), turn: None }).collect();
        taken.extend(inner.entries.drain(..count));
        if inner.outside > 0 {
            self.queue.room.notify_all();
        }
        taken
    }
}

impl<J> Drop for Lead<'_, J> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What the group left behind is unknown; the callers learn that there is no answer.
            self.queue.close();
            return;
        }
        let mut inner = self.queue.lock();
        match inner.entries.front() {
            // Only callers stand here, and each has a turn.
            Some(Entry { turn: Some(next), .. }) => next.set(LEADS),
            _ => inner.is_led = false,
        }
    }
}
