//! What the log does, told to whoever measures it. Nobody listens unless somebody says so, and then nothing more
//! is told than what was done, where, and how long it took.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use glasshouse_model::{BranchId, Seq};

use crate::error::Result;

/// Something that the log did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// `append` or `read`.
    pub name: &'static str,
    /// Branch.
    pub branch: BranchId,
    /// First sequence that was stored or asked for; 0 where nothing was stored.
    pub seq: Seq,
    /// How many events.
    pub events: u64,
    /// How long it took.
    pub took: Duration,
    /// Code of the error that it ended with.
    pub code: Option<&'static str>,
}

/// Hears of what `append`, `merge`, `read` and `lines` do, on the thread that does it: it must be quick, and may not use the log.
pub trait Observer: Send + Sync {
    /// Something was done.
    fn done(&self, operation: Operation);
}

/// Who hears of it.
#[derive(Default)]
pub(crate) struct Observed(OnceLock<Arc<dyn Observer>>);

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Observed({})", self.0.get().is_some())
    }
}

impl Observed {
    /// Has somebody hear of it; false when somebody does already.
    pub(crate) fn by(&self, observer: Arc<dyn Observer>) -> bool {
        self.0.set(observer).is_ok()
    }

    /// Does something, and tells of it. `counted` says what was done: the first sequence, and how many events.
    pub(crate) fn during<T>(
        &self,
        (name, branch): (&'static str, &BranchId),
        act: impl FnOnce() -> Result<T>,
        counted: impl FnOnce(&T) -> (Seq, u64),
    ) -> Result<T> {
        let Some(observer) = self.0.get() else { return act() };
        let began = Instant::now();
        let done = act();
        let took = began.elapsed();
        let ((seq, events), code) = match &done {
            Ok(done) => (counted(done), None),
            Err(error) => ((0, 0), Some(error.code())),
        };
        observer.done(Operation { name, branch: branch.clone(), seq, events, took, code });
        done
    }
}
