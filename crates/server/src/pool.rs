//! The one bridge between connections, which never wait, and the kernel, which does.
//!
//! A bounded number of jobs run at a time, each on a thread of its own; a bounded number wait. One more is
//! refused at once, with the time after which the queue will have moved on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::count::Count;
use crate::problem::RETRY_AFTER_S;
use crate::{Error, Result, codes};

/// Longest time that a refused client is told to wait.
const MAX_RETRY_AFTER_S: u64 = 60;
/// Part of a new measurement in the mean, as a shift: an eighth.
const MEAN_SHIFT: u32 = 3;

/// Runs what blocks.
#[derive(Debug)]
pub(crate) struct Pool {
    slots: Arc<Semaphore>,
    workers: usize,
    max_waiting: usize,
    waiting: Count,
    meter: Arc<Meter>,
}

/// How long a job takes, as a mean that forgets.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    mean_us: AtomicU64,
}

impl Meter {
    /// Takes a measurement in.
    pub(crate) fn took(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).min(u64::MAX >> MEAN_SHIFT);
        let mean = self.mean_us.load(Ordering::Relaxed);
        // A lost race loses one measurement.
        let next = mean - (mean >> MEAN_SHIFT) + (us >> MEAN_SHIFT);
        self.mean_us.store(if mean == 0 { us } else { next }, Ordering::Relaxed);
    }

    /// The error of whoever finds `before` jobs before theirs, of which `at_once` run together.
    pub(crate) fn busy(&self, before: usize, at_once: usize) -> Error {
        let mean_us = self.mean_us.load(Ordering::Relaxed);
        let rounds = u64::try_from(before / at_once.max(1)).unwrap_or(u64::MAX).saturating_add(1);
        let seconds = mean_us.saturating_mul(rounds).div_ceil(1_000_000);
        Error::new(codes::SERVER_BUSY, "the server has too much to do")
            .why(format!("{before} requests are before this one"))
            .with(RETRY_AFTER_S, seconds.clamp(1, MAX_RETRY_AFTER_S))
    }
}

impl Pool {
    /// A pool in which `workers` jobs run and `max_waiting` more wait.
    pub(crate) fn new(workers: usize, max_waiting: usize) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(workers)),
            workers,
            max_waiting,
            waiting: Count::default(),
            meter: Arc::default(),
        }
    }

    /// The error of whoever finds so many before them.
    pub(crate) fn busy(&self, before: usize) -> Error {
        self.meter.busy(before, self.workers)
    }

    /// How many jobs wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.now()
    }

    /// Runs a job. One that has begun goes on to its end, also when nobody waits for it any more.
    ///
    /// # Errors
    /// `server_busy` when the queue is full; `server_failed` when the job broke down.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let waiting = self.waiting.one();
        let before = waiting.before();
        if before >= self.max_waiting.saturating_add(self.slots.available_permits()) {
            return Err(self.meter.busy(before.saturating_add(self.workers), self.workers));
        }
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        let slot = slot.map_err(|e| Error::new(codes::SERVER_FAILED, "the server ended").why(e))?;
        drop(waiting);
        let meter = Arc::clone(&self.meter);
        let job = tokio::task::spawn_blocking(move || {
            let (_slot, began) = (slot, Instant::now());
            let done = job();
            meter.took(began.elapsed());
            done
        });
        job.await.map_err(|e| Error::new(codes::SERVER_FAILED, "a request broke down").why(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_wait_follows_from_what_is_before_and_how_long_it_takes() {
        let check = |took_ms: &[u64], before: usize, expected: u64| {
            let meter = Meter::default();
            took_ms.iter().for_each(|ms| meter.took(Duration::from_millis(*ms)));
            let report = meter.busy(before, 4).report();
            assert_eq!(report.context[RETRY_AFTER_S], expected, "{took_ms:?} {before}");
        };
        check(&[], 10, 1);
        check(&[1], 10, 1);
        check(&[1_000], 3, 1);
        check(&[1_000], 4, 2);
        check(&[1_000], 40, 11);
        check(&[1_000, 9_000], 3, 2);
        check(&[60_000], 400, 60);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn one_too_many_is_refused_and_none_that_was_taken_is_lost() {
        let pool = Arc::new(Pool::new(2, 3));
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let gate = Arc::new(std::sync::Mutex::new(gate));
        let spawn = || {
            let (pool, gate) = (Arc::clone(&pool), Arc::clone(&gate));
            tokio::spawn(async move { pool.run(move || gate.lock().unwrap().recv().is_ok()).await })
        };
        let mut taken = Vec::new();
        for _ in 0..5 {
            taken.push(spawn());
            // Each is in its place before the next one comes.
            let before = taken.len();
            while 2 - pool.slots.available_permits() + pool.waiting() < before {
                tokio::task::yield_now().await;
            }
        }
        let refused = spawn().await.unwrap().unwrap_err();
        assert_eq!(refused.code(), "server_busy");
        for _ in 0..5 {
            open.send(()).unwrap();
        }
        for job in taken {
            assert!(job.await.unwrap().unwrap());
        }
        let broken: Result<()> = pool.run(|| panic!("it breaks down")).await;
        assert_eq!(broken.unwrap_err().code(), "server_failed");
        assert!(pool.run(|| true).await.unwrap());
    }
}
