//! What waits for the writing thread, and how long: the whole of group commit but the storing.
//!
//! Jobs are taken in the order in which they came. One that is urgent takes everything before it
//! along; patient ones wait for company, each at most its own delay.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::sync::{Condvar, Mutex, MutexGuard, lock, now, wait, wait_until};

/// Most jobs that are taken at once: bounds how long the first of them waits for the others.
const MAX_GROUP: usize = 256;
/// Jobs that may wait; more make their callers wait instead of memory grow.
const MAX_WAITING: usize = 1024;
/// Patient jobs that are company enough.
const MAX_PATIENT: usize = 100;

/// Jobs on their way from many threads to one.
pub(crate) struct Queue<J> {
    state: Mutex<State<J>>,
    arrived: Condvar,
    taken: Condvar,
}

struct State<J> {
    /// Each with the moment until which it may wait; `None` for an urgent one.
    jobs: VecDeque<(J, Option<Instant>)>,
    urgent: usize,
    /// Nothing comes any more.
    is_closed: bool,
    /// Nobody takes any more.
    is_abandoned: bool,
}

/// What was taken.
pub(crate) enum Taken<J> {
    /// In the order in which they came; at least one.
    Jobs(Vec<J>),
    /// Nothing came for as long as the taker waits.
    Nothing,
    /// Nothing will come.
    Closed,
}

/// When what waits is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Now,
    At(Instant),
    Never,
}

impl<J> State<J> {
    fn due(&self, now: Instant) -> Due {
        if self.jobs.is_empty() {
            return Due::Never;
        }
        if self.urgent > 0 || self.is_closed || self.jobs.len() >= MAX_PATIENT {
            return Due::Now;
        }
        match self.jobs.iter().filter_map(|(_, until)| *until).min() {
            Some(until) if until > now => Due::At(until),
            _ => Due::Now,
        }
    }

    fn take(&mut self) -> Vec<J> {
        let count = self.jobs.len().min(MAX_GROUP);
        let taken: Vec<_> = self.jobs.drain(..count).collect();
        self.urgent -= taken.iter().filter(|(_, until)| until.is_none()).count();
        taken.into_iter().map(|(job, _)| job).collect()
    }
}

impl<J> Queue<J> {
    pub(crate) fn new() -> Self {
        let jobs = VecDeque::new();
        let state = State { jobs, urgent: 0, is_closed: false, is_abandoned: false };
        Self { state: Mutex::new(state), arrived: Condvar::new(), taken: Condvar::new() }
    }

    /// Adds a job that may wait for company at most `delay`, an urgent one not at all. Waits while too
    /// many are there. False when nobody takes jobs any more; the job is gone then.
    pub(crate) fn push(&self, job: J, delay: Option<Duration>) -> bool {
        let until = delay.map(|delay| now() + delay);
        let mut state = self.lock();
        while state.jobs.len() >= MAX_WAITING && !state.is_abandoned {
            state = wait(&self.taken, state);
        }
        if state.is_abandoned {
            return false;
        }
        state.urgent += usize::from(until.is_none());
        state.jobs.push_back((job, until));
        drop(state);
        self.arrived.notify_one();
        true
    }

    /// Waits for jobs that are due, at most `longest` while there are none at all.
    pub(crate) fn take(&self, longest: Duration) -> Taken<J> {
        let give_up = now() + longest;
        let mut state = self.lock();
        loop {
            let moment = now();
            let until = match state.due(moment) {
                Due::Now => break,
                Due::At(until) => until,
                Due::Never if state.is_closed => return Taken::Closed,
                Due::Never if moment >= give_up => return Taken::Nothing,
                Due::Never => give_up,
            };
            state = wait_until(&self.arrived, state, until);
        }
        let jobs = state.take();
        drop(state);
        self.taken.notify_all();
        Taken::Jobs(jobs)
    }

    /// Says that nothing more comes: what waits is due.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_one();
    }

    /// Says that nobody takes any more, and drops what waits.
    pub(crate) fn abandon(&self) {
        let mut state = self.lock();
        state.is_abandoned = true;
        let dropped = std::mem::take(&mut state.jobs);
        state.urgent = 0;
        drop(state);
        self.taken.notify_all();
        drop(dropped);
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_when() {
        let start = now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let check = |waiting: &[Option<u64>], is_closed: bool, expected: Due| {
            let jobs = waiting.iter().map(|until| ((), until.map(at))).collect();
            let urgent = waiting.iter().filter(|until| until.is_none()).count();
            let state = State { jobs, urgent, is_closed, is_abandoned: false };
            assert_eq!(state.due(at(50)), expected, "{waiting:?}");
        };
        check(&[], false, Due::Never);
        check(&[], true, Due::Never);
        check(&[None], false, Due::Now);
        check(&[Some(100)], false, Due::At(at(100)));
        check(&[Some(100)], true, Due::Now);
        check(&[Some(500), Some(100)], false, Due::At(at(100)));
        check(&[Some(500), Some(50)], false, Due::Now);
        check(&[Some(500), None], false, Due::Now);
        check(&[Some(500); MAX_PATIENT - 1], false, Due::At(at(500)));
        check(&[Some(500); MAX_PATIENT], false, Due::Now);
    }

    #[test]
    fn jobs_keep_their_order_and_a_group_its_size() {
        let queue = Queue::new();
        for n in 0..MAX_GROUP + 10 {
            assert!(queue.push(n, (n % 2 == 0).then_some(Duration::from_secs(60))));
        }
        queue.close();
        let mut taken = Vec::new();
        loop {
            match queue.take(Duration::ZERO) {
                Taken::Jobs(jobs) => {
                    assert!(jobs.len() <= MAX_GROUP);
                    taken.extend(jobs);
                }
                Taken::Nothing => panic!("it is closed"),
                Taken::Closed => break,
            }
        }
        assert!(taken.into_iter().eq(0..MAX_GROUP + 10));
    }

    #[test]
    fn whoever_is_left_alone_learns_it() {
        let queue = Queue::new();
        assert!(matches!(queue.take(Duration::ZERO), Taken::<u8>::Nothing));
        assert!(queue.push(1, None));
        queue.abandon();
        assert!(!queue.push(2, None));
    }
}
