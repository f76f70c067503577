//! Bodies of events about voice.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BlobRef;

/// `voice.started`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VoiceStarted {
    /// Id of the conversation, unique in its session.
    pub voice: String,
    /// What hears and speaks, for instance `local`.
    pub adapter: String,
    /// Samples a second.
    pub sample_rate_hz: u32,
    /// Channels.
    pub channels: u8,
}

/// `voice.input`, `voice.output`: a piece of sound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VoiceChunk {
    /// Id of the conversation.
    pub voice: String,
    /// Number of the piece, from 0, for each direction.
    pub index: u64,
    /// Form of the sound, for instance `pcm_s16le`.
    pub format: String,
    /// The sound, where it is kept; else only its length is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sound: Option<BlobRef>,
    /// Length in bytes.
    pub bytes: u64,
}

/// `voice.transcribed`, `voice.interrupted`: what was said, as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VoiceText {
    /// Id of the conversation.
    pub voice: String,
    /// Who spoke: `user` or `agent`.
    pub speaker: String,
    /// The words; of an interrupted answer those that were heard.
    pub text: String,
    /// Where in the sound the text ends, in milliseconds.
    pub end_ms: u64,
}

/// `voice.stopped`, `voice.failed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VoiceEnd {
    /// Id of the conversation.
    pub voice: String,
    /// Why: a word, or an error code.
    pub reason: String,
}
