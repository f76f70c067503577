//! Review and merge: from a change set to files in the project and a commit.
//!
//! [`propose`] works out, three-way against the frozen base, what a merge would do to the project as
//! it is now, and writes it as a patch for review. [`apply`] does it, all or nothing, by an operation
//! log that a crash at any point resumes from. [`commit`] records exactly those paths in git without
//! running anything of the repository. Nothing follows a link, and nothing ever writes into `.git`
//! except git's own plumbing.

mod apply;
mod commit;
mod conflict;
pub mod diff3;
mod oplog;
mod patch;
mod plan;
#[cfg(test)]
mod tests;

pub use apply::{Applied, Authority, Outcome, apply};
pub use commit::{Author, CommitRequest, Committed, commit};
pub use conflict::{Conflict, ConflictKind, conflict_error};
pub use oplog::OperationDir;
pub use patch::unified;
pub use plan::{Binding, Input, Proposal, Proposed, propose};
