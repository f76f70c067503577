//! Bodies of events about the log itself.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{BlobRef, ChangedPath, WorkspaceFrozen};
use crate::{BranchId, Digest, Seq};

/// `branch.forked`: the first event of a fork, beside the decision that allowed it. The fork has its
/// own workspace and state from here on; no approval of the past is one here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MergeStrategy {
    /// The target had not moved since the branches parted: nothing of the source could conflict.
    FastForward,
    /// Both had moved.
    ThreeWay,
}

/// One of the two branches of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MergeSide {
    /// The branch that ends.
    Source,
    /// The branch that goes on.
    Target,
}

/// A path of which a person took one branch's version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TakenPath {
    /// The path.
    pub path: String,
    /// Whose version.
    pub side: MergeSide,
}

/// `workspace` among the values of a `branch.merged`: the files that the target has from there on. Absent
/// where the merge changed none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MergedWorkspace {
    /// The base that they are measured against.
    pub frozen: WorkspaceFrozen,
    /// Manifest of everything that differs from the base; absent when nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<BlobRef>,
    /// What the merge changed in the target; a long list is cut.
    pub changed: Vec<ChangedPath>,
    /// How many paths it changed.
    pub changed_total: u64,
    /// Whether anything differs from the base in test files.
    pub tests_changed: bool,
    /// Whether anything differs from the base in other files.
    pub sources_changed: bool,
    /// Paths that both branches had changed, and whose version was taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<TakenPath>,
}

/// `branch.merged`: an event with two parents, the event before it and the source's head. The
/// source takes no more events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// The values that came of it, by the key of the state that they are for: `usage`, what the source
    /// had spent since `base_seq`; `workspace`, as [`MergedWorkspace`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resolved: BTreeMap<String, Value>,
}

/// The name of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventRef {
    /// The branch that stores it.
    pub branch: BranchId,
    /// Its sequence.
    pub seq: Seq,
}

/// Events of a branch that follow one another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventRange {
    /// The branch that stores them.
    pub branch: BranchId,
    /// Sequence of the first.
    pub from: Seq,
    /// Sequence of the last.
    pub upto: Seq,
}

/// `log.erased`: bodies and blobs that are gone for good, and why. The headers and hashes of the
/// events stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogErased {
    /// Events without a body from now on.
    pub events: Vec<EventRef>,
    /// The same of events that follow one another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<EventRange>,
    /// Digests of blobs that were deleted.
    pub blobs: Vec<Digest>,
    /// What the answers of models among the events had used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spent: Vec<Spent>,
    /// Why.
    pub reason: String,
}

/// What an answer of a model used, and no word of it: it was used, whatever of the answer is erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spent {
    /// The branch that stores the answer.
    pub branch: BranchId,
    /// Its sequence.
    pub seq: Seq,
    /// The model; absent where its request was erased before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tokens by kind.
    pub tokens: BTreeMap<String, u64>,
    /// As in `model.completed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// As in `model.completed`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub summary: bool,
}

/// `log.recovered`: something that did not agree with the events was made again, or given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogRecovered {
    /// What: the name of an index or a projection, `events` after a restore, `approvals` where answers of
    /// people no longer count, since they may have been used in events that were given up.
    pub what: String,
    /// Branch, where it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchId>,
    /// Sequence up to which it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    /// What the events say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Digest>,
    /// What was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Digest>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// `log.quarantined`: bytes that are no log were set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogQuarantined {
    /// Where they are now.
    pub file: String,
    /// How many.
    pub bytes: u64,
    /// Why.
    pub reason: String,
}

/// `log.storage_warning`, `log.storage_critical`: how full the log's share of the disk is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogStorage {
    /// Bytes in use.
    pub bytes: u64,
    /// Bytes that may be used.
    pub limit_bytes: u64,
    /// `bytes` of `limit_bytes`, rounded down.
    pub percent: u64,
}

/// `log.archive_deleted`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogArchiveDeleted {
    /// File name of the archive.
    pub archive: String,
    /// Its length.
    pub bytes: u64,
    /// Digest of its lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

/// `log.head_signed`: a head that was given to somebody outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogHeadSigned {
    /// Events that it covers.
    pub events: u64,
    /// Root of the tree over them.
    pub root: Digest,
}

/// `log.chain_broken`: damage that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogChainBroken {
    /// As `audit verify` names it: `hash_mismatch`, `truncated`, ...
    pub kind: String,
    /// Branch of the first bad event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchId>,
    /// Its sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
}
