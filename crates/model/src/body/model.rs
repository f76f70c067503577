//! Bodies of events about requests to models and their answers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BlobRef, is_false};
use crate::Digest;

/// `model.requested`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelRequested {
    /// How many requests of this branch were answered (or refused) before this one.
    pub ordinal: u64,
    /// 1 for the first try of this answer.
    pub attempt: u32,
    /// Digest of the canonical request.
    pub request: Digest,
    /// Provider name.
    pub provider: String,
    /// Model name.
    pub model: String,
}

/// One call as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WrittenCall {
    /// The model's own id for the call.
    pub id: String,
    /// Tool name.
    pub tool: String,
    /// Arguments as written, secrets masked.
    pub arguments: String,
    /// Whether a secret in them was masked.
    #[serde(default, skip_serializing_if = "is_false")]
    pub masked: bool,
}

/// `model.completed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelCompleted {
    /// Which answer this is.
    pub ordinal: u64,
    /// Text of the answer.
    pub text: String,
    /// Calls, in order.
    pub calls: Vec<WrittenCall>,
    /// Why it ended: `stop`, `tool_calls`, `length`, `refusal`, `content_filter`.
    pub finish: String,
    /// Tokens by kind.
    pub tokens: BTreeMap<String, u64>,
    /// Every byte of the response body.
    pub raw: BlobRef,
    /// Wall time in microseconds.
    pub duration_us: u64,
}

/// `model.failed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelFailed {
    /// Which answer was wanted.
    pub ordinal: u64,
    /// Which try failed.
    pub attempt: u32,
    /// Error code.
    pub code: String,
    /// Explanation.
    pub message: String,
    /// Wait before the next try; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<u64>,
    /// Whether the provider answered at all (so that a script moves on to its next step).
    pub answered: bool,
}

/// `model.partial`: text that had arrived when the stream stopped or 2 s had passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelPartial {
    /// Which answer it belongs to.
    pub ordinal: u64,
    /// All text so far.
    pub text: String,
}
