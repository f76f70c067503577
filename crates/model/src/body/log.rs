//! Bodies of events about the log itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{BranchId, Digest, Seq};

/// `branch.forked`: the first event of a fork, beside the decision that allowed it. The fork has its
/// own workspace and state from here on; no approval of the past is one here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchForked {
    /// The branch it left.
    pub parent: BranchId,
    /// Sequence of the last event that both share.
    pub at_seq: Seq,
    /// Hash of that event.
    pub at_hash: Digest,
    /// Its name.
    pub name: String,
    /// Why, in the words of whoever forked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a branch was merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeStrategy {
    /// The target had not moved since the branches parted: it takes over the source's state.
    FastForward,
    /// Both had moved; `resolved` holds what came of it.
    ThreeWay,
}

/// `branch.merged`: an event with two parents, the event before it and the source's head. The
/// source takes no more events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchMerged {
    /// The branch that ends.
    pub source: BranchId,
    /// Sequence of its last event.
    pub source_seq: Seq,
    /// Hash of its last event: the second parent.
    pub source_hash: Digest,
    /// Sequence of the last event that both branches share.
    pub base_seq: Seq,
    /// How.
    pub strategy: MergeStrategy,
    /// The values that were decided on, by the key of the state that they are for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resolved: BTreeMap<String, Value>,
}

/// The name of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRef {
    /// The branch that stores it.
    pub branch: BranchId,
    /// Its sequence.
    pub seq: Seq,
}

/// `log.erased`: bodies and blobs that are gone for good, and why. The headers and hashes of the
/// events stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogErased {
    /// Events without a body from now on.
    pub events: Vec<EventRef>,
    /// Digests of blobs that were deleted.
    pub blobs: Vec<Digest>,
    /// Why.
    pub reason: String,
}
