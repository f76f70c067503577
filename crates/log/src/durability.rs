//! When an event must be durable, by its kind.
//!
//! Everything that decides, permits, acts or ends is synced before its append returns. What merely
//! observes may wait a moment, so that many observations share a sync.

use std::time::Duration;

use glasshouse_model::Kind;

use crate::append::Append;
use crate::codes;
use crate::error::{Error, Result};

/// Longest wait of what somebody may be looking at.
const SHOWN: Duration = Duration::from_millis(100);
/// Longest wait of what is only counted or looked up later.
const COUNTED: Duration = Duration::from_millis(500);

/// When an event is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Before its append returns.
    Committed,
    /// At most so long after its append: a loss of power may take it back until then, and nobody has
    /// seen it.
    Grouped(Duration),
}

/// How long an event of a kind may wait. A kind that is not named here is security's, unknown ones
/// included.
#[must_use]
pub const fn durability(kind: &Kind) -> Durability {
    match kind {
        Kind::ModelPartial | Kind::PlanPreviewed => Durability::Grouped(SHOWN),
        Kind::Heartbeat | Kind::StateEstimated | Kind::ObservationExtracted => {
            Durability::Grouped(COUNTED)
        }
        _ => Durability::Committed,
    }
}

/// How long all of an append may wait.
///
/// # Errors
/// `kind_needs_commit`.
pub(crate) fn longest_wait(append: &Append) -> Result<Duration> {
    let refused = |why: String| {
        Err(Error::new(codes::KIND_NEEDS_COMMIT, "could not append with others later").why(why))
    };
    if !append.cells.is_empty() {
        return refused("it changes cells, which permit and count".to_owned());
    }
    let mut longest = COUNTED;
    for draft in &append.events {
        match durability(&draft.kind) {
            Durability::Grouped(delay) => longest = longest.min(delay),
            Durability::Committed => {
                return refused(format!("an event {} is stored at once", draft.kind));
            }
        }
    }
    Ok(longest)
}
