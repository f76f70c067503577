//! The event store: the log that is the only truth.
//!
//! A tenant's log holds sessions; a session holds branches; a branch holds events, each chained by
//! hash to the one before it. What an append stores is synced before it returns. The events of all
//! branches, in the order of their commits, are the leaves of one Merkle tree whose signed heads
//! are kept outside the database, so a log that was changed, cut, reordered or taken away is found
//! out. `docs/format.md` describes every byte.
//!
//! Invariants:
//! - Bytes are stored and hashed as they were written; reading never re-serialises them.
//! - Whatever is read was proved against the hash before it.
//! - A failed commit or sync ends writing until the log is opened again.
#![forbid(unsafe_code)]

mod append;
mod audit;
mod backup;
mod blobs;
mod branch;
mod care;
mod cells;
mod chain;
mod checkpoint;
mod clock;
pub mod codes;
mod durability;
mod erase;
mod error;
mod export;
mod founding;
mod heads;
mod home;
mod import;
mod keeping;
mod keys;
mod lease;
mod log;
mod memory;
mod merge;
mod observe;
mod own;
mod owner;
mod projection;
mod proof;
mod record;
mod restore;
mod rules;
mod signer;
mod sqlite;
mod store;
mod subscription;
mod tree;
mod verify;

pub use append::{
    Append, Appended, Cell, CellWrite, Head, MAX_CELL_BYTES, MAX_CELLS_PER_APPEND,
    MAX_EVENTS_PER_APPEND, MAX_KEY_BYTES,
};
pub use audit::verify_home;
pub use backup::KEPT_BACKUPS;
pub use blobs::MAX_BLOB_BYTES;
pub use branch::{
    BranchRow, BranchState, Fork, MAX_BRANCH_NAME_BYTES, MAX_FORK_DEPTH, NewBranch, Segment,
    SessionRow,
};
pub use cells::StoredCell;
pub use checkpoint::SignedHead;
pub use clock::{Clock, SystemClock};
pub use durability::{Durability, durability};
pub use erase::{Erase, MAX_ERASED, MAX_REASON_BYTES};
pub use error::{Error, Result};
pub use export::{ExportBlobs, Exported, MAX_EXPORT_LINE_BYTES, check_export};
pub use import::{Imported, ImportedBranch, MAX_IMPORT_BYTES, NewImport};
pub use keeping::{
    Archive, Forget, Forgotten, Keeping, Left, MAX_LOG_BYTES, RETENTION_DAYS, Rotated, Usage,
};
pub use keys::PublicKey;
pub use lease::{LEASE_TTL_US, Lease};
pub use log::{Events, HeldLog, Later, Log, Naming, Options};
pub use merge::MergeBranch;
pub use observe::{Observer, Operation};
pub use own::{ACCESS, own_session};
pub use projection::{Deviation, Projection};
pub use proof::{
    Consistency, EventProof, Extension, ProvedEvent, proves_consistency, proves_inclusion,
};
pub use record::Record;
pub use restore::{Restored, backups, restore};
pub use store::{Flaw, Leaf, Merge, Stats, Store, Stored, TreeHead};
pub use subscription::{Follower, Subscription};
pub use verify::{Broken, Sound, Verification};
