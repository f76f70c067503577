//! Chunks become a message, as the client's own reader makes it: for a page that shows a conversation from its
//! beginning.

use serde_json::{Map, Value, json};

/// A message that is being put together.
#[derive(Debug)]
pub(crate) struct Message {
    id: String,
    metadata: Map<String, Value>,
    parts: Vec<Value>,
}

impl Message {
    /// An empty one of the assistant.
    pub(crate) fn new(id: String) -> Self {
        Self { id, metadata: Map::new(), parts: Vec::new() }
    }

    /// What a user said.
    pub(crate) fn of_user(id: &str, text: &str) -> Value {
        json!({ "id": id, "role": "user", "parts": [ { "type": "text", "text": text } ] })
    }

    /// The whole.
    pub(crate) fn finish(self) -> Value {
        let Self { id, metadata, parts } = self;
        json!({ "id": id, "role": "assistant", "metadata": metadata, "parts": parts })
    }

    /// Takes a chunk in.
    pub(crate) fn apply(&mut self, chunk: &Value) {
        if let Some(more) = chunk["messageMetadata"].as_object() {
            self.metadata.extend(more.clone());
        }
        let kind = chunk["type"].as_str().unwrap_or_default();
        match kind {
            "start-step" => self.parts.push(json!({ "type": "step-start" })),
            "reset-step" => self.reset_step(),
            "text-start" => {
                self.parts.push(json!({ "type": "text", "text": "", "state": "streaming" }))
            }
            "reasoning-start" => self.parts.push(json!({
                "type": "reasoning", "id": chunk["id"], "text": "", "state": "streaming",
            })),
            "text-delta" => self.words("text", |part| append(part, &chunk["delta"])),
            "reasoning-delta" => self.words("reasoning", |part| append(part, &chunk["delta"])),
            "text-end" => self.words("text", |part| end(part, chunk)),
            "reasoning-end" => self.words("reasoning", |part| end(part, chunk)),
            "source-url" => self.parts.push(chunk.clone()),
            "tool-input-available" | "tool-input-error" => self.call(chunk),
            _ if kind.starts_with("tool-") => self.change(kind, chunk),
            _ if kind.starts_with("data-") => self.data(chunk),
            _ => {}
        }
    }

    fn reset_step(&mut self) {
        let is_start = |part: &Value| part["type"] == "step-start";
        if let Some(at) = self.parts.iter().rposition(is_start) {
            self.parts.truncate(at + 1);
        }
    }

    /// The words that are being said; there is one of each kind at a time.
    fn words(&mut self, kind: &str, change: impl FnOnce(&mut Value)) {
        let is_it = |part: &&mut Value| part["type"] == kind && part["state"] == "streaming";
        if let Some(part) = self.parts.iter_mut().rev().find(is_it) {
            change(part);
        }
    }

    fn call(&mut self, chunk: &Value) {
        let mut part = json!({
            "type": "dynamic-tool", "toolName": chunk["toolName"],
            "toolCallId": chunk["toolCallId"], "state": "input-available",
            "input": chunk["input"],
        });
        if chunk["type"] == "tool-input-error" {
            part["state"] = "output-error".into();
            part["errorText"] = chunk["errorText"].clone();
        }
        self.parts.push(part);
    }

    fn change(&mut self, kind: &str, chunk: &Value) {
        let is_it = |part: &&mut Value| match kind {
            "tool-approval-response" => part["approval"]["id"] == chunk["approvalId"],
            _ => part["type"] == "dynamic-tool" && part["toolCallId"] == chunk["toolCallId"],
        };
        let Some(part) = self.parts.iter_mut().rev().find(is_it) else { return };
        match kind {
            "tool-approval-request" => {
                part["state"] = "approval-requested".into();
                part["approval"] = json!({ "id": chunk["approvalId"] });
            }
            "tool-approval-response" => {
                part["state"] = "approval-responded".into();
                part["approval"]["approved"] = chunk["approved"].clone();
            }
            "tool-output-available" => {
                part["state"] = "output-available".into();
                part["output"] = chunk["output"].clone();
            }
            "tool-output-error" => {
                part["state"] = "output-error".into();
                part["errorText"] = chunk["errorText"].clone();
            }
            "tool-output-denied" => part["state"] = "output-denied".into(),
            _ => {}
        }
    }

    fn data(&mut self, chunk: &Value) {
        let is_it = |part: &&mut Value| part["type"] == chunk["type"] && part["id"] == chunk["id"];
        match self.parts.iter_mut().find(is_it) {
            Some(part) => part["data"] = chunk["data"].clone(),
            None => self.parts.push(chunk.clone()),
        }
    }
}

fn append(part: &mut Value, delta: &Value) {
    let text = part["text"].as_str().unwrap_or_default();
    part["text"] = format!("{text}{}", delta.as_str().unwrap_or_default()).into();
}

fn end(part: &mut Value, chunk: &Value) {
    part["state"] = "done".into();
    if let Some(mark) = chunk.get("providerMetadata") {
        part["providerMetadata"] = mark.clone();
    }
}
