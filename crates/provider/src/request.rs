//! What a model is asked: a value, so that it can be recorded, compared and built again.

use std::fmt::Write as _;

use glasshouse_model::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Separates digests of requests from digests of everything else; the version grows with the form.
const DIGEST_TAG: &[u8] = b"glasshouse model request v1\0";

/// One request to a model. Equal values have equal digests on every machine and in every build.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
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
    /// The form that the answer's text must have; free text when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<OutputFormat>,
    /// How much a model that can think first should think; its own measure when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
}

/// A form for an answer: JSON that a schema describes. Servers hold a model to it as well as they
/// can, so what comes is checked like anything else a model wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputFormat {
    /// A name for it: letters, digits and `_`.
    pub name: String,
    /// JSON Schema of the answer.
    pub schema: Value,
    /// Whether the schema is within the subset that servers can enforce in full.
    pub strict: bool,
}

/// How much a model should think before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

impl Effort {
    /// The word that servers use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// A picture for the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub media_type: String,
    /// Its bytes in base64.
    pub base64: String,
}

/// What a provider wants back with the next request exactly as it sent it: signed thoughts,
/// encrypted reasoning, results of its own tools. Nothing here is read but by the dialect that
/// wrote it, and only for the model that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carry {
    /// The dialect that wrote it.
    pub dialect: String,
    /// The model whose answer it is.
    pub model: String,
    /// The answer's blocks in order, each JSON text.
    pub blocks: Vec<String>,
}

impl Carry {
    /// Whether it was written for a dialect and a model.
    pub(crate) fn is_for(&self, dialect: crate::Dialect, model: &str) -> bool {
        self.dialect == dialect.name() && self.model == model
    }
}

impl Image {
    /// The picture as a URL that holds it.
    pub(crate) fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.media_type, self.base64)
    }
}

/// One message of the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// What a person (or the kernel for them) said.
    User {
        /// The words.
        text: String,
        /// Pictures that go with them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Image>,
    },
    /// What the model answered.
    Assistant {
        /// The words; may be empty.
        text: String,
        /// The calls it asked for, in its order.
        calls: Vec<ModelCall>,
        /// What its provider wants back unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        carry: Option<Carry>,
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

impl Message {
    /// What a person said, without pictures.
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into(), images: Vec::new() }
    }
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
                Message::user("hi"),
                Message::Assistant {
                    text: String::new(),
                    calls: vec![ModelCall {
                        id: "t1".to_owned(),
                        tool: "fs.read".to_owned(),
                        arguments: "{\"path\": \"a\"}".to_owned(),
                    }],
                    carry: None,
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
            ..ModelRequest::default()
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
        let changes: [fn(&mut ModelRequest); 12] = [
            |r| r.model.push('x'),
            |r| r.system.push('x'),
            |r| r.messages[0] = Message::user("ho"),
            |r| {
                r.messages.pop();
            },
            |r| r.tools[0].name.push('x'),
            |r| r.tools[0].parameters["type"] = json!("array"),
            |r| r.max_output_tokens += 1,
            |r| r.ordinal += 1,
            |r| r.effort = Some(Effort::Low),
            |r| {
                let schema = json!({"type": "object"});
                r.format = Some(OutputFormat { name: "plan".to_owned(), schema, strict: false });
            },
            |r| {
                let image = Image { media_type: "image/png".to_owned(), base64: "AAAA".to_owned() };
                r.messages[0] = Message::User { text: "hi".to_owned(), images: vec![image] };
            },
            |r| {
                let Message::Assistant { carry, .. } = &mut r.messages[1] else { panic!() };
                *carry = Some(Carry {
                    dialect: "anthropic".to_owned(),
                    model: "m".to_owned(),
                    blocks: vec!["{}".to_owned()],
                });
            },
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut changed = request();
            change(&mut changed);
            assert_ne!(changed.digest(), request().digest(), "change {number}");
        }
    }
}
