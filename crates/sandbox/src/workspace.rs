//! Workspaces: the frozen base, the layer above it that an agent writes, and its history.
//!
//! A session never works on the live project. [`freeze()`] copies the project once into a read-only
//! cache, named by the digest of its content; a [`Workspace`] is an empty overlay layer above that
//! copy. After each mutating call [`Workspace::seal`] records what the layer changed, contents first,
//! so that every past state can be restored ([`Workspace::rollback`]) or written elsewhere
//! ([`materialise`]). [`Workspace::change_set`] is what a review looks at and a merge applies.
//!
//! Nothing here mounts: the backend mounts what [`Workspace::overlay_dirs`] names. All access to
//! directories that an agent or a user may write goes through [`beneath::Root`], which follows no link.

pub mod beneath;
pub mod change;
pub mod freeze;
pub mod git;
mod hold;
pub mod lines;
pub mod manifest;
mod restore;
pub mod seal;
pub mod sweep;
mod upper;

pub use change::{Change, ChangeKind, ChangeSet, Content, differences};
pub use freeze::{FrozenBase, GitState, Owner, freeze, ignored_now, recall};
pub use hold::Hold;
pub use manifest::{Entry, Manifest, SealManifest, SpecialKind};
pub use restore::materialise;
pub use seal::{Seal, Workspace};
pub use sweep::{Keep, sweep_bases};
pub use upper::Marks;

use glasshouse_model::Digest;

use crate::error::Result;

/// Largest single file of a base or a seal, in bytes. A file is held in memory while it is stored.
pub const MAX_FILE_BYTES: u64 = 256 << 20;
/// Most files of a base or an upper layer: about the largest repositories people check out whole.
pub const MAX_FILES: usize = 400_000;
/// Most bytes of a base or an upper layer.
pub const MAX_TOTAL_BYTES: u64 = 16 << 30;
/// Most files of a directory that is not a git repository: without ignore rules a start in the wrong
/// place (a home directory) would otherwise copy a whole disk.
pub const MAX_PLAIN_FILES: usize = 20_000;
/// Most bytes of a directory that is not a git repository.
pub const MAX_PLAIN_BYTES: u64 = 1 << 30;

/// Where file contents are kept, named by their digest. The kernel implements it on the log.
pub trait BlobStore {
    /// Stores bytes durably and answers their digest; storing twice is no error.
    ///
    /// # Errors
    /// When the bytes are not stored.
    fn put(&self, bytes: &[u8]) -> Result<Digest>;

    /// The bytes of a digest.
    ///
    /// # Errors
    /// When they are not there or are not what the digest says.
    fn get(&self, digest: &Digest) -> Result<Vec<u8>>;
}
