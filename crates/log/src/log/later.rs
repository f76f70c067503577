//! Appends that share a sync with others, and who hears that events were stored.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use super::{Inner, Log};
use crate::append::{Append, Appended};
use crate::codes;
use crate::durability::longest_wait;
use crate::error::{Error, Result};
use crate::signer::{Alarm, Signer};
use crate::subscription::Bell;

impl Log {
    /// Stores an append of events that merely observe, together with others: within the time that
    /// [`durability`](crate::durability) gives its kinds, or as soon as a hundred wait or anything is
    /// appended that may not wait. Appends keep their order, whichever way they came. Sequences
    /// are given when it is stored, and nobody sees it before.
    ///
    /// The answer may be waited for or dropped; the append is stored either way.
    ///
    /// # Errors
    /// `kind_needs_commit` for an event of any other kind; a limit's error; `log_corrupt` when the
    /// branch does not prove itself. What else refuses it, [`Later::wait`] tells.
    pub fn append_later(&self, append: Append) -> Result<Later> {
        let delay = longest_wait(&append)?;
        self.prove_to_write(&append.branch)?;
        let (answer, answered) = sync_channel(1);
        let teller = self.inner.teller.clone();
        let stored = move |outcome: Result<Appended>| {
            if outcome.is_ok() {
                teller.tell();
            }
            // Whoever does not wait needs no answer.
            let _ = answer.send(outcome);
        };
        self.inner.store.append_later(append, delay, Box::new(stored))?;
        Ok(Later { answered })
    }

    /// Stores what waits for others; durable when it returns. Closing the log does it too.
    ///
    /// # Errors
    /// Why nothing may be written, or a storage error.
    pub fn flush(&self) -> Result<()> {
        self.inner.may_write()?;
        self.inner.store.flush()
    }
}

/// An append on its way; see [`Log::append_later`].
#[must_use = "what refuses the append is told to nobody else; drop it to say that this does not matter"]
pub struct Later {
    answered: Receiver<Result<Appended>>,
}

impl Later {
    /// Waits until the append is durable.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub fn wait(self) -> Result<Appended> {
        let answer = self.answered.recv();
        answer.map_err(|_| {
            Error::new(codes::LOG_FAILED, "the log has stopped writing")
                .why("a fault in the program ended a group before it was answered")
        })?
    }
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Later")
    }
}

/// Tells those who wait for events, and the one who signs heads, that some were stored. Holds no
/// store: what waits in the store holds this.
#[derive(Clone)]
pub(super) struct Teller {
    bell: Arc<Bell>,
    alarm: Option<Arc<Alarm>>,
}

impl Teller {
    pub(super) fn new(signer: Option<&Signer>) -> Self {
        Self { bell: Arc::default(), alarm: signer.map(Signer::alarm) }
    }

    pub(super) fn bell(&self) -> &Bell {
        &self.bell
    }

    pub(super) fn tell(&self) {
        self.bell.ring();
        if let Some(alarm) = &self.alarm {
            alarm.wake();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Before the signer ends, so that the last head covers it. What fails here was not acknowledged.
        let _ = self.store.flush();
    }
}
