//! Events: what happened on a surface, with data.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::codes;
use crate::error::Error;
use crate::size;

/// Longest event name and largest payload; a form with long answers stays far below.
pub const MAX_NAME_BYTES: usize = 256;
/// See [`MAX_NAME_BYTES`].
pub const MAX_PAYLOAD_BYTES: usize = 256 * 1024;
/// Deepest payload.
pub const MAX_PAYLOAD_DEPTH: usize = 32;

/// An event with a name and perhaps a payload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Event {
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Map<String, Value>>,
}

/// An event as it is written, before its limits are checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(rename = "type")]
    kind: String,
    payload: Option<Map<String, Value>>,
}

impl TryFrom<Written> for Event {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self, Error> {
        Self::new(&written.kind, written.payload)
    }
}

impl Event {
    /// Makes an event.
    ///
    /// # Errors
    ///
    /// `plan_state_event_invalid` for a blank or very long name, and for a payload that is too
    /// large or too deep.
    pub fn new(kind: &str, payload: Option<Map<String, Value>>) -> Result<Self, Error> {
        if kind.trim().is_empty() || kind.len() > MAX_NAME_BYTES {
            return Err(Error::new(codes::STATE_EVENT_INVALID, "the event has no usable name")
                .why(format!("1 to {MAX_NAME_BYTES} bytes")));
        }
        if let Some(payload) = &payload {
            let size = size::of_members(payload);
            if size.bytes > MAX_PAYLOAD_BYTES || size.depth > MAX_PAYLOAD_DEPTH {
                return Err(Error::new(codes::STATE_EVENT_INVALID, "the payload is too large")
                    .why(format!("limits {MAX_PAYLOAD_BYTES} bytes, {MAX_PAYLOAD_DEPTH} levels")));
            }
        }
        Ok(Self { kind: kind.to_owned(), payload })
    }

    /// The name.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The data.
    #[must_use]
    pub fn payload(&self) -> Option<&Map<String, Value>> {
        self.payload.as_ref()
    }
}
