//! Who may write to a branch: one owner at a time, told apart by an epoch that only grows. Branches
//! own their workspace and state, so forks of one session may have different owners.
//!
//! The lease is a cell of the log, so taking it over and refusing the late writes of the owner
//! before are decided in the same order as everything else that is stored.

use std::fmt;
use std::sync::Arc;

use glasshouse_model::{BranchId, Digest};
use serde::{Deserialize, Serialize};

use crate::append::{Cell, CellWrite};
use crate::clock::Clock;
use crate::codes;
use crate::error::{Error, Result};
use crate::owner::Owner;
use crate::store::Store;

/// Space of lease cells; the key is the branch.
pub(crate) const SPACE: &str = "log.lease";
/// A lease that is not renewed for this long may be taken over, unless its owner is gone before:
/// then at once. Owners renew at a third of it.
pub const LEASE_TTL_US: u64 = 45_000_000;
/// How often taking a lease is tried when another process changes it at the same time.
const ATTEMPTS: u32 = 4;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    epoch: u64,
    owner: Owner,
    /// Tells two leases of one process apart.
    holder: Digest,
    /// By the clock that counts from the start of the machine.
    expires_uptime_us: u64,
    is_released: bool,
}

impl Stored {
    fn parse(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes)
            .map_err(|cause| Error::new(codes::LOG_CORRUPT, "a lease cannot be read").why(cause))
    }

    /// Whether nobody holds the lease any more.
    fn is_free(&self, here: &Owner, uptime_us: u64) -> bool {
        self.is_released || uptime_us >= self.expires_uptime_us || self.owner.is_gone(here)
    }
}

/// What a branch's lease demands of an append.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fence {
    /// The branch was never leased.
    Open,
    /// It was, and the last owner gave it back.
    Released { epoch: u64 },
    /// It is, or its owner ended without giving it back.
    Held { epoch: u64 },
}

impl Fence {
    pub(crate) fn of_cell(bytes: Option<Vec<u8>>) -> Result<Self> {
        let Some(bytes) = bytes else { return Ok(Self::Open) };
        let Stored { epoch, is_released, .. } = Stored::parse(&bytes)?;
        Ok(if is_released { Self::Released { epoch } } else { Self::Held { epoch } })
    }

    /// Lets the current owner pass, and everyone while there is none.
    pub(crate) fn check(&self, branch: &BranchId, epoch: Option<u64>) -> Result<()> {
        match (self, epoch) {
            (Self::Open | Self::Released { .. }, None) => Ok(()),
            (Self::Held { epoch: current }, Some(epoch)) if epoch == *current => Ok(()),
            (Self::Held { epoch: current }, None) => {
                Err(owned(branch, *current).why("the append names no lease"))
            }
            (Self::Held { epoch: current } | Self::Released { epoch: current }, Some(epoch)) => {
                Err(lost(branch, epoch).with("generation", *current))
            }
            (Self::Open, Some(epoch)) => Err(lost(branch, epoch)),
        }
    }
}

/// The right to write to a branch. Appends carry its epoch; [`Lease::renew`] keeps it beyond
/// [`LEASE_TTL_US`]; dropping it gives it back.
pub struct Lease {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    owner: Owner,
    branch: BranchId,
    epoch: u64,
    holder: Digest,
    is_released: bool,
}

impl Lease {
    /// Takes the lease of a branch that nobody holds.
    pub(crate) fn acquire(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        owner: Owner,
        branch: &BranchId,
    ) -> Result<Self> {
        let mut lease = Self {
            store,
            clock,
            owner,
            branch: branch.clone(),
            epoch: 0,
            holder: new_holder()?,
            is_released: true,
        };
        for _ in 0..ATTEMPTS {
            let cell = lease.store.cell(SPACE, branch.as_str())?;
            let current = cell.as_ref().map(|cell| Stored::parse(&cell.bytes)).transpose()?;
            if let Some(current) = &current
                && !current.is_free(&lease.owner, lease.clock.uptime_us())
            {
                return Err(lease.owned_by(current));
            }
            lease.epoch = current.map_or(0, |current| current.epoch) + 1;
            match lease.write(cell.as_ref(), false) {
                Ok(()) => {
                    lease.is_released = false;
                    return Ok(lease);
                }
                Err(error) if error.is(codes::CELL_CONFLICT) => {}
                Err(error) => return Err(error),
            }
        }
        Err(owned(branch, lease.epoch).why("others are taking it at this moment"))
    }

    /// Whether somebody holds the lease of a branch now.
    pub(crate) fn is_held(
        store: &dyn Store,
        clock: &dyn Clock,
        here: &Owner,
        branch: &BranchId,
    ) -> Result<bool> {
        let cell = store.cell(SPACE, branch.as_str())?;
        let current = cell.map(|cell| Stored::parse(&cell.bytes)).transpose()?;
        Ok(current.is_some_and(|current| !current.is_free(here, clock.uptime_us())))
    }

    /// The branch.
    #[must_use]
    pub const fn branch(&self) -> &BranchId {
        &self.branch
    }

    /// The fencing epoch: larger than that of every earlier owner.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Keeps the lease for another [`LEASE_TTL_US`].
    ///
    /// # Errors
    /// `lease_lost` when another owner has taken over, or a storage error.
    pub fn renew(&self) -> Result<()> {
        self.change(false)
    }

    /// Gives the lease back, so that the next owner need not wait.
    ///
    /// # Errors
    /// `lease_lost` when another owner has taken over, or a storage error.
    pub fn release(mut self) -> Result<()> {
        self.is_released = true;
        self.change(true)
    }

    fn change(&self, is_released: bool) -> Result<()> {
        let cell = self.store.cell(SPACE, self.branch.as_str())?;
        let current = cell.as_ref().map(|cell| Stored::parse(&cell.bytes)).transpose()?;
        let is_ours = current.is_some_and(|current| {
            current.epoch == self.epoch && current.holder == self.holder && !current.is_released
        });
        if !is_ours {
            return Err(lost(&self.branch, self.epoch));
        }
        self.write(cell.as_ref(), is_released).map_err(|error| {
            if error.is(codes::CELL_CONFLICT) { lost(&self.branch, self.epoch) } else { error }
        })
    }

    fn write(&self, over: Option<&Cell>, is_released: bool) -> Result<()> {
        let stored = Stored {
            epoch: self.epoch,
            owner: self.owner.clone(),
            holder: self.holder,
            expires_uptime_us: self.clock.uptime_us().saturating_add(LEASE_TTL_US),
            is_released,
        };
        let bytes = serde_json::to_vec(&stored).expect("a lease is plain data");
        self.store.write_cells(vec![CellWrite {
            space: SPACE.to_owned(),
            key: self.branch.as_str().to_owned(),
            expected_version: Some(over.map_or(0, |cell| cell.version)),
            bytes: Some(bytes),
        }])
    }

    fn owned_by(&self, current: &Stored) -> Error {
        let left_us = current.expires_uptime_us.saturating_sub(self.clock.uptime_us());
        owned(&self.branch, current.epoch)
            .why(format!("process {} holds it", current.owner.pid))
            .with("pid", current.owner.pid)
            .with("expires_in_ms", left_us / 1_000)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.is_released {
            // Best effort: an owner that cannot say goodbye is waited for.
            let _ = self.change(true);
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({}, epoch {})", self.branch, self.epoch)
    }
}

fn new_holder() -> Result<Digest> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|cause| {
        Error::new(codes::STORAGE_FAILED, "could not take a lease")
            .why(format!("the operating system gave no random bytes: {cause}"))
    })?;
    Ok(Digest::from_bytes(bytes))
}

fn owned(branch: &BranchId, generation: u64) -> Error {
    Error::new(codes::SESSION_OWNED, format!("branch {branch} is owned by another process"))
        .with("generation", generation)
}

fn lost(branch: &BranchId, epoch: u64) -> Error {
    Error::new(codes::LEASE_LOST, format!("the lease on branch {branch} is lost"))
        .why(format!("epoch {epoch} is not that of its owner"))
        .with("epoch", epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_current_owner_passes_the_fence() {
        let branch = "b_1".parse().unwrap();
        let check = |fence: Fence, epoch: Option<u64>, expected: Option<&str>| {
            let found = fence.check(&branch, epoch).err().map(|error| error.code());
            assert_eq!(found, expected, "{fence:?} {epoch:?}");
        };
        let (held, released) = (|| Fence::Held { epoch: 3 }, || Fence::Released { epoch: 3 });
        check(Fence::Open, None, None);
        check(Fence::Open, Some(1), Some("lease_lost"));
        check(held(), Some(3), None);
        check(held(), Some(2), Some("lease_lost"));
        check(held(), Some(4), Some("lease_lost"));
        check(held(), None, Some("session_owned"));
        check(released(), None, None);
        check(released(), Some(3), Some("lease_lost"));
    }
}
