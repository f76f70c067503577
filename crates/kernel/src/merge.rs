//! Review and merge: from a change set to files in the project and a commit.
//!
//! [`propose`] works out, three-way against the frozen base, what a merge would do to the project as
//! it is now, and writes it as a patch for review. [`apply`] does it, all or nothing, by an operation
//! log that a crash at any point resumes from and any failure goes back by. [`commit`] brings the same
//! edits onto the last commit without running anything of the repository; what it cannot commit it
//! takes back. [`join_trees`] does the same for two branches of a session, without a project. Nothing follows a link. In `.git` everything is written by git's own plumbing, but for
//! the index's lock and the finished index that takes the old one's place under it.

mod apply;
mod busy;
mod commit;
mod conflict;
pub mod diff3;
mod edits;
mod oplog;
mod patch;
mod place;
mod plan;
mod repository;
mod stored;
#[cfg(test)]
mod tests;
mod three_way;
mod trees;

pub use apply::{Applied, Authority, Outcome, apply};
pub use commit::{Author, CommitRequest, Committed, commit};
pub use conflict::{Conflict, ConflictKind, conflict_error};
pub use oplog::OperationDir;
pub use patch::{Version, unified};
pub use plan::{Binding, Input, Proposal, Proposed, propose};
pub use trees::{JoinedTrees, Origin, Tree, join_trees};
