//! What a model is asked: a value, so that it can be recorded, compared and built again.

use std::fmt::Write as _;

use glasshouse_model::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Separates digests of requests from digests of everything else; the version grows with the form.
const DIGEST_TAG: &[u8] = b"glasshouse model request v1\0";

/// One request to a model. Equal values have equal digests on every machine and in every build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// Model name as the server knows it.
    pub model: String,
    /// System prompt.
    pub system: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// What the model may call.
    pub tools: Vec<ToolSpec>,
    /// Most tokens the answer may have.
    pub max_output_tokens: u32,
    /// How many requests of this branch got an answer or an error before this one; the scripted
    /// provider answers with the step of this number.
    pub ordinal: u64,
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// What a person (or the kernel for them) said.
    User {
        /// The words.
        text: String,
    },
    /// What the model answered.
    Assistant {
        /// The words; may be empty.
        text: String,
        /// The calls it asked for, in its order.
        calls: Vec<ModelCall>,
    },
    /// What became of one call.
    ToolResult {
        /// The call's id as the model wrote it.
        id: String,
        /// What the model gets to read.
        content: String,
        /// `completed`, `failed`, `denied`, `cancelled` or `timed_out`.
        status: String,
    },
}

/// A call as the model asked for it; nothing about it has been checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCall {
    /// Unique within its completion. The model's own id, or `call_<n>` when it gave none.
    pub id: String,
    /// Tool name, for example `fs.write`.
    pub tool: String,
    /// The arguments exactly as the model wrote them: meant to be a JSON object, maybe not JSON.
    pub arguments: String,
}

/// What the model is told about one tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name, for example `fs.write`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

impl ModelRequest {
    /// The bytes that the digest covers: JSON without white space, members sorted by name at every
    /// depth, whatever order a schema's members came in.
    #[must_use]
    pub fn canonical_bytes(&self) -> Vec<u8> {
        let value = serde_json::to_value(self).expect("strings, numbers and JSON values serialise");
        let mut out = String::new();
        write_canonical(&value, &mut out);
        out.into_bytes()
    }

    /// Digest of the whole request; replay recomputes it and compares.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of_parts(&[DIGEST_TAG, &self.canonical_bytes()])
    }
}

/// Writes JSON with sorted members. Does not rely on the map type's own order, which another
/// crate in the same build could change.
pub(crate) fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| name.as_str());
            out.push('{');
            for (position, (name, member)) in members.into_iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                let _ = write!(out, "{}:", Value::from(name.as_str()));
                write_canonical(member, out);
            }
            out.push('}');
        }
        scalar => {
            let _ = write!(out, "{scalar}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request() -> ModelRequest {
        ModelRequest {
            model: "m".to_owned(),
            system: "be brief".to_owned(),
            messages: vec![
                Message::User { text: "hi".to_owned() },
                Message::Assistant {
                    text: String::new(),
                    calls: vec![ModelCall {
                        id: "t1".to_owned(),
                        tool: "fs.read".to_owned(),
                        arguments: "{\"path\": \"a\"}".to_owned(),
                    }],
                },
                Message::ToolResult {
                    id: "t1".to_owned(),
                    content: "x\ny".to_owned(),
                    status: "completed".to_owned(),
                },
            ],
            tools: vec![ToolSpec {
                name: "fs.read".to_owned(),
                description: "reads".to_owned(),
                parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
            }],
            max_output_tokens: 100,
            ordinal: 1,
        }
    }

    #[test]
    fn the_canonical_form_is_fixed() {
        let text = String::from_utf8(request().canonical_bytes()).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"max_output_tokens":100,"messages":[{"role":"user","text":"hi"},"#,
                r#"{"calls":[{"arguments":"{\"path\": \"a\"}","id":"t1","tool":"fs.read"}],"#,
                r#""role":"assistant","text":""},"#,
                r#"{"content":"x\ny","id":"t1","role":"tool_result","status":"completed"}],"#,
                r#""model":"m","ordinal":1,"system":"be brief","tools":[{"description":"reads","#,
                r#""name":"fs.read","parameters":{"properties":{"path":{"type":"string"}},"#,
                r#""type":"object"}}]}"#,
            )
        );
    }

    #[test]
    fn a_request_read_back_has_the_same_digest() {
        let request = request();
        let back: ModelRequest = serde_json::from_slice(&request.canonical_bytes()).unwrap();
        assert_eq!(back, request);
        assert_eq!(back.digest(), request.digest());
    }

    #[test]
    fn every_part_changes_the_digest() {
        let changes: [fn(&mut ModelRequest); 8] = [
            |r| r.model.push('x'),
            |r| r.system.push('x'),
            |r| r.messages[0] = Message::User { text: "ho".to_owned() },
            |r| {
                r.messages.pop();
            },
            |r| r.tools[0].name.push('x'),
            |r| r.tools[0].parameters["type"] = json!("array"),
            |r| r.max_output_tokens += 1,
            |r| r.ordinal += 1,
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut changed = request();
            change(&mut changed);
            assert_ne!(changed.digest(), request().digest(), "change {number}");
        }
    }
}
