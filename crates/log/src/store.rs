//! What a store must do. The log above it owns everything that must be equal for all stores:
//! walking forks, checking the chain, leases, signed heads.

use std::path::Path;
use std::time::Duration;

use glasshouse_model::{BranchId, Digest, Draft, Seq, SessionId};

use crate::append::{Append, Appended, Cell, CellWrite, Head};
use crate::branch::{BranchRow, NewBranch, Segment, SessionRow};
use crate::cells::StoredCell;
use crate::error::Result;
use crate::import::ImportedBranch;
use crate::record::Record;

/// The end of a branch by merging: recorded in the same transaction as the event that merges it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    /// The branch that ends.
    pub source: BranchId,
    /// Its head as the merge saw it; another head refuses the merge with `head_conflict`.
    pub source_head: Head,
    /// The epoch of the source's lease, when whoever merges holds it.
    pub source_epoch: Option<u64>,
}

/// The tenant's tree: how many events it covers, its root and its newest event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeHead {
    /// Number of events.
    pub size: u64,
    /// Root over their hashes in commit order.
    pub root: Digest,
    /// Branch and head of the newest event; `None` when there is none.
    pub newest: Option<(BranchId, Head)>,
}

/// Hears what became of an append, on the thread that stored it: it must be quick, and the store must
/// not end with it.
pub type Stored = Box<dyn FnOnce(Result<Appended>) + Send>;

/// A place where events are kept. Every method blocks; a write that returned `Ok` survives the
/// loss of power.
///
/// Stores give out rows as they are stored, also damaged ones: checking is the caller's part.
pub trait Store: Send + Sync {
    /// Creates a branch with its first own events, as one transaction.
    ///
    /// # Errors
    /// `branch_exists`, `branch_not_found` (the parent), `fork_out_of_range`, `fork_too_deep`, a
    /// limit's error, or a storage error.
    fn create_branch(&self, new: &NewBranch, events: Vec<Draft>) -> Result<Appended>;

    /// Stores an append as one transaction and gives its events their places.
    ///
    /// # Errors
    /// `branch_not_found`, `branch_read_only`, `head_conflict`, `cell_conflict`, `lease_lost`,
    /// `session_owned`, a limit's error, or a storage error.
    fn append(&self, append: Append, merge: Option<Merge>) -> Result<Appended>;

    /// Stores an append as [`Store::append`] does, but may wait `delay` for others that share its sync.
    /// Appends are stored in the order in which they came, whichever way.
    ///
    /// # Errors
    /// A limit's error, or that nothing is stored any more. All else `stored` hears.
    fn append_later(&self, append: Append, delay: Duration, stored: Stored) -> Result<()>;

    /// Stores what waits for others; durable when it returns.
    ///
    /// # Errors
    /// A storage error.
    fn flush(&self) -> Result<()>;

    /// Stores an append of one event that says what is erased, and with it empties the bodies of
    /// events and remembers the blobs that are to be deleted. Events that are erased stay so.
    ///
    /// # Errors
    /// As [`Store::append`]; `event_not_found`; `append_invalid` for an event that records an
    /// erasure.
    fn erase(
        &self,
        append: Append,
        events: Vec<(BranchId, Seq)>,
        blobs: Vec<Digest>,
    ) -> Result<Appended>;

    /// Stores the branches of a session that another log recorded, their events with the hashes that they
    /// have, and in a new session an append that tells of it, as one transaction. What was imported takes
    /// no more events.
    ///
    /// # Errors
    /// `session_exists`, `branch_exists`, and as [`Store::append`].
    fn import(
        &self,
        branches: Vec<ImportedBranch>,
        told: &NewBranch,
        append: Append,
    ) -> Result<Appended>;

    /// Ends a branch without merging it; a branch that has ended stays as it is.
    ///
    /// # Errors
    /// `branch_not_found` or a storage error.
    fn close_branch(&self, branch: &BranchId) -> Result<()>;

    /// Changes cells without events, those of the log's own spaces included.
    ///
    /// # Errors
    /// `cell_conflict` or a storage error.
    fn write_cells(&self, writes: Vec<CellWrite>) -> Result<()>;

    /// One cell; `None` when it does not exist.
    ///
    /// # Errors
    /// A storage error.
    fn cell(&self, space: &str, key: &str) -> Result<Option<Cell>>;

    /// The cells of a space by key, after `after`, at most `limit`.
    ///
    /// # Errors
    /// A storage error.
    fn cells(&self, space: &str, after: &str, limit: usize) -> Result<Vec<(String, Cell)>>;

    /// Every cell after one, by space and key, also deleted ones and those of the log's own spaces,
    /// at most `limit`.
    ///
    /// # Errors
    /// A storage error.
    fn stored_cells(&self, after: (&str, &str), limit: usize) -> Result<Vec<StoredCell>>;

    /// One branch.
    ///
    /// # Errors
    /// `branch_not_found` or a storage error.
    fn branch(&self, branch: &BranchId) -> Result<BranchRow>;

    /// The branches of one session, or all, in the order of their creation.
    ///
    /// # Errors
    /// A storage error.
    fn branches(&self, session: Option<&SessionId>) -> Result<Vec<BranchRow>>;

    /// Every session, the newest first.
    ///
    /// # Errors
    /// A storage error.
    fn sessions(&self) -> Result<Vec<SessionRow>>;

    /// The ancestors whose events a branch shares, oldest first, without the branch itself.
    ///
    /// # Errors
    /// A storage error.
    fn ancestors(&self, branch: &BranchId) -> Result<Vec<Segment>>;

    /// Rows that the branch itself stores, by sequence, from `from` to `upto`, at most `limit`.
    ///
    /// # Errors
    /// A storage error.
    fn rows(&self, branch: &BranchId, from: Seq, upto: Seq, limit: usize) -> Result<Vec<Record>>;

    /// Position, owner, sequence and hash of events in commit order from a position on.
    ///
    /// # Errors
    /// A storage error.
    fn leaves(&self, from_position: u64, limit: usize) -> Result<Vec<Leaf>>;

    /// Where an event was committed, as far as that is known without the event itself.
    ///
    /// # Errors
    /// A storage error.
    fn position(&self, branch: &BranchId, seq: Seq) -> Result<Option<u64>>;

    /// The tree.
    ///
    /// # Errors
    /// `log_corrupt` when its stored form cannot be read, or a storage error.
    fn tree(&self) -> Result<TreeHead>;

    /// What in the store itself is not as a log has it, the first of it: foreign tables, views or
    /// triggers; when `is_thorough`, also damage beside the events.
    ///
    /// # Errors
    /// A storage error.
    fn flaw(&self, is_thorough: bool) -> Result<Option<Flaw>>;

    /// Writes all that is stored, as of one moment, into an empty file.
    ///
    /// # Errors
    /// `storage_full`, or another storage error.
    fn copy_to(&self, file: &Path) -> Result<()>;

    /// Bytes that are in use, without what erased events left free.
    ///
    /// # Errors
    /// A storage error.
    fn bytes(&self) -> Result<u64>;

    /// What was written through this handle.
    fn stats(&self) -> Stats;
}

/// Something in a store that no log has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

/// Work done since the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Transactions; each is one sync.
    pub commits: u64,
    /// Events stored.
    pub events: u64,
    /// Time that callers waited for the disk, in nanoseconds: commits of groups, and the
    /// syncs of blobs and their directories. Heads are signed beside them and not counted.
    pub sync_ns: u64,
}

/// One event as the tree sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaf {
    /// Position in commit order, from 0.
    pub position: u64,
    /// The branch that stores the event.
    pub branch: BranchId,
    /// Its sequence there.
    pub seq: Seq,
    /// Its hash.
    pub hash: Digest,
}
