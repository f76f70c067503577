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
    /// Whether a summary of the conversation is asked for.
    #[serde(default, skip_serializing_if = "is_false")]
    pub summary: bool,
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
    /// What the model thought aloud, as far as its provider shows it, secrets masked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// Calls, in order.
    pub calls: Vec<WrittenCall>,
    /// Why it ended: `stop`, `tool_calls`, `length`, `refusal`, `content_filter`, `paused`.
    pub finish: String,
    /// Tokens by kind.
    pub tokens: BTreeMap<String, u64>,
    /// Every byte of the response body.
    pub raw: BlobRef,
    /// Wall time in microseconds.
    pub duration_us: u64,
    /// What the provider wants back unchanged: signed thoughts, encrypted reasoning. Absent when an
    /// answer has none, and when a secret stood in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carry: Option<Carry>,
    /// What it cost in micro-units of the price file's currency; absent when no price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
    /// Whether it is the summary of a conversation, and no part of one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub summary: bool,
}

/// What a provider wants back with the next request exactly as it sent it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Carry {
    /// The dialect that wrote it.
    pub dialect: String,
    /// The model whose answer it is.
    pub model: String,
    /// The answer's blocks in order, each JSON text.
    pub blocks: Vec<String>,
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
    /// The model that the next try asks instead, from the session's fallback models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_model: Option<String>,
    /// Whether the provider answered at all (so that a script moves on to its next step).
    pub answered: bool,
}

/// `model.partial`: what had arrived since the one before when the stream stopped or 2 s had passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelPartial {
    /// Which answer it belongs to.
    pub ordinal: u64,
    /// More of the text.
    pub text: String,
    /// More of what the model thinks aloud.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
}
