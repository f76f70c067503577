//! Events: what happened on a surface, with the data that the plan gives it and with what a person
//! had entered there. The two are kept apart: nothing that is typed can pass for the plan's own data.

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

/// Members of an input, and what they may hold.
const INPUT_MEMBERS: [&str; 4] = ["value", "checked", "key", "fields"];
/// Most fields of one form.
const MAX_FIELDS: usize = 1_000;

/// An event with a name and perhaps a payload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Event {
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Map<String, Value>>,
}

/// An event as it is written, before its limits are checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(rename = "type")]
    kind: String,
    payload: Option<Map<String, Value>>,
    input: Option<Map<String, Value>>,
}

impl TryFrom<Written> for Event {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self, Error> {
        let event = Self::new(&written.kind, written.payload)?;
        match written.input {
            Some(input) => event.with_input(input),
            None => Ok(event),
        }
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
        Ok(Self { kind: kind.to_owned(), payload, input: None })
    }

    /// The event with what a person had entered where it happened: `value` and `checked` of the
    /// element, the `key` that was pressed, and the `fields` of its form by name. A value is a text, a
    /// number, true or false, or a list of texts.
    ///
    /// ```
    /// use glasshouse_plan::Event;
    /// let input = serde_json::json!({"value": "Ada", "fields": {"mail": "ada@example.org"}});
    /// let event = Event::new("save", None)?.with_input(input.as_object().unwrap().clone())?;
    /// assert_eq!(event.input().unwrap()["value"], "Ada");
    /// # Ok::<(), glasshouse_plan::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `plan_state_event_invalid` for another member, another kind of value, and for an input that is
    /// too large.
    pub fn with_input(mut self, input: Map<String, Value>) -> Result<Self, Error> {
        let invalid = |why: String| {
            Error::new(codes::STATE_EVENT_INVALID, "the input of the event cannot be used").why(why)
        };
        if size::of_members(&input).bytes > MAX_PAYLOAD_BYTES {
            return Err(invalid(format!("at most {MAX_PAYLOAD_BYTES} bytes")));
        }
        for (member, value) in &input {
            let usable = match member.as_str() {
                "value" => is_entered(value),
                "checked" => value.is_boolean(),
                "key" => value.is_string(),
                "fields" => value.as_object().is_some_and(|fields| {
                    fields.len() <= MAX_FIELDS && fields.values().all(is_entered)
                }),
                _ => {
                    let known = INPUT_MEMBERS.join(", ");
                    return Err(invalid(format!("{member:?} is not one of {known}")));
                }
            };
            if !usable {
                return Err(invalid(format!("{member:?} holds another kind of value")));
            }
        }
        self.input = Some(input);
        Ok(self)
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

    /// What a person had entered.
    #[must_use]
    pub fn input(&self) -> Option<&Map<String, Value>> {
        self.input.as_ref()
    }
}

/// What a field can hold.
fn is_entered(value: &Value) -> bool {
    match value {
        Value::String(_) | Value::Number(_) | Value::Bool(_) => true,
        Value::Array(items) => items.len() <= MAX_FIELDS && items.iter().all(Value::is_string),
        Value::Null | Value::Object(_) => false,
    }
}
