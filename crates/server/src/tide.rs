//! Wakes those who follow branches: one thread hears of everything that is stored, so that a thousand idle
//! streams cost a thousand small places in memory and no thread.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use glasshouse_log::Log;
use glasshouse_model::{BranchId, Seq};
use tokio::sync::watch;

use crate::{Error, Result, codes};

/// How often the thread looks whether anybody is left who wants to hear.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Wait after a read that failed.
const PAUSE: Duration = Duration::from_millis(200);

/// Who waits for which branch.
#[derive(Debug, Default)]
struct Waiters(Mutex<HashMap<BranchId, watch::Sender<Seq>>>);

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, HashMap<BranchId, watch::Sender<Seq>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells of new events by branch.
#[derive(Debug)]
pub(crate) struct Tide {
    waiters: Arc<Waiters>,
}

impl Tide {
    /// Starts to listen.
    ///
    /// # Errors
    /// An error of the log; `server_failed` when there is no thread for it.
    pub(crate) fn new(log: &Log) -> Result<Self> {
        let mut follower = log.follow()?;
        let waiters = Arc::<Waiters>::default();
        let heard: Weak<Waiters> = Arc::downgrade(&waiters);
        let listen = move || {
            while let Some(waiters) = heard.upgrade() {
                // Nobody is kept alive while nothing happens.
                drop(waiters);
                let Ok(news) = follower.next(LOOK_EVERY) else {
                    std::thread::sleep(PAUSE);
                    continue;
                };
                let Some(waiters) = heard.upgrade() else { return };
                let mut waiters = waiters.lock();
                for (branch, seq) in news {
                    if let Some(waiter) = waiters.get(&branch)
                        && waiter.send(seq).is_err()
                    {
                        waiters.remove(&branch);
                    }
                }
            }
        };
        std::thread::Builder::new().name("tide".to_owned()).spawn(listen).map_err(|e| {
            Error::new(codes::SERVER_FAILED, "no thread is left for streams").why(e)
        })?;
        Ok(Self { waiters })
    }

    /// Hears of a branch's events from now on.
    pub(crate) fn watch(&self, branch: &BranchId) -> watch::Receiver<Seq> {
        let mut waiters = self.waiters.lock();
        if let Some(waiter) = waiters.get(branch) {
            return waiter.subscribe();
        }
        // The places of those who left go when there are twice as many as are used.
        if waiters.len() == waiters.capacity() {
            waiters.retain(|_, waiter| waiter.receiver_count() > 0);
        }
        let (sender, receiver) = watch::channel(0);
        waiters.insert(branch.clone(), sender);
        receiver
    }
}
