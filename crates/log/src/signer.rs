//! Signs heads by itself while events arrive.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::checkpoint::SignedHead;
use crate::codes;
use crate::error::{Error, Result};
use crate::heads::Heads;
use crate::keys::HeadKey;
use crate::store::Store;

/// While events arrive, a head is signed at least this often.
const SIGN_EVERY: Duration = Duration::from_secs(1);

/// Handle of the signing thread. Dropping it signs what is unsigned and ends the thread.
pub(crate) struct Signer {
    shared: Arc<Signing>,
    thread: Option<JoinHandle<()>>,
}

struct Signing {
    store: Arc<dyn Store>,
    heads: Arc<Heads>,
    key: HeadKey,
    alarm: Arc<Alarm>,
}

/// Tells the signing thread that there is something to sign. Holds no store, so whoever stores may
/// hold it.
#[derive(Default)]
pub(crate) struct Alarm {
    state: Mutex<SignerState>,
    changed: Condvar,
}

#[derive(Default)]
struct SignerState {
    has_unsigned: bool,
    is_stopping: bool,
}

impl Signer {
    /// Starts the thread.
    pub(crate) fn start(store: Arc<dyn Store>, heads: Arc<Heads>, key: HeadKey) -> Result<Self> {
        let shared = Arc::new(Signing { store, heads, key, alarm: Arc::default() });
        let signing = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("log-heads".to_owned())
            .spawn(move || signing.run())
            .map_err(|cause| {
                Error::new(codes::STORAGE_FAILED, "could not open the log").why(cause)
            })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// What says that events were stored.
    pub(crate) fn alarm(&self) -> Arc<Alarm> {
        Arc::clone(&self.shared.alarm)
    }

    /// Signs now.
    pub(crate) fn sign(&self) -> Result<SignedHead> {
        self.shared.sign()
    }
}

impl Drop for Signer {
    fn drop(&mut self) {
        self.shared.alarm.lock().is_stopping = true;
        self.shared.alarm.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic there loses no more than the newest signature.
            let _ = thread.join();
        }
    }
}

impl Alarm {
    /// Says that events were stored.
    pub(crate) fn wake(&self) {
        let mut state = self.lock();
        if !state.has_unsigned {
            state.has_unsigned = true;
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, SignerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Signing {
    fn run(&self) {
        let alarm = &self.alarm;
        let mut state = alarm.lock();
        loop {
            while !state.has_unsigned && !state.is_stopping {
                state = alarm.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if !state.has_unsigned {
                return;
            }
            state.has_unsigned = false;
            let is_last = state.is_stopping;
            drop(state);
            let is_signed = self.sign().is_ok();
            state = alarm.lock();
            if is_last {
                return;
            }
            // A full disk is tried again: the next head vouches for this one's events too.
            state.has_unsigned |= !is_signed;
            state = alarm
                .changed
                .wait_timeout_while(state, SIGN_EVERY, |state| !state.is_stopping)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn sign(&self) -> Result<SignedHead> {
        let head = SignedHead::sign(self.store.tree()?, &self.key);
        self.heads.publish(&head, self.key.public())?;
        Ok(head)
    }
}
