//! Cancellation: one flag that a caller sets and a running request waits on.

use std::sync::Arc;

use tokio::sync::watch;

use crate::{Error, codes};

/// Stops a request. Clones share the flag; once set it stays set.
///
/// ```
/// let cancel = glasshouse_provider::Cancel::new();
/// let other_hand = cancel.clone();
/// other_hand.cancel();
/// assert!(cancel.is_cancelled());
/// ```
#[derive(Debug, Clone)]
pub struct Cancel(Arc<watch::Sender<bool>>);

impl Cancel {
    /// A flag that is not set.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Sets the flag and wakes everyone who waits on it.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// Whether the flag is set.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the flag is set.
    pub async fn cancelled(&self) {
        // `self` holds a sender, so the channel cannot close while this waits.
        let _ = self.0.subscribe().wait_for(|set| *set).await;
    }

    /// Waits for an answer, but not longer than until the flag is set; what was asked is dropped then.
    pub(crate) async fn or_cancelled<T>(
        &self,
        name: &str,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::select! {
            biased;
            () = self.cancelled() => {
                Err(Error::new(
                    codes::PROVIDER_CANCELLED,
                    format!("the request to {name} was cancelled"),
                ))
            }
            answer = answer => answer,
        }
    }
}

impl Default for Cancel {
    fn default() -> Self {
        Self::new()
    }
}
