//! Writes a request the way the dialect wants it.

use serde::Serialize;
use serde_json::{Value, json};

use crate::wire::{Block, Paired, Turn, arguments_object, history_to_wire, turns};
use crate::{Error, ModelRequest, chat};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Block>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<bool>,
    options: Value,
    stream: bool,
}

/// The JSON body of a streaming request.
///
/// # Errors
/// `provider_invalid_request` when a tool's name has no wire form.
pub(crate) fn request_body(request: &ModelRequest) -> Result<Vec<u8>, Error> {
    let mut messages: Vec<Block> = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        messages.push(json!({"role": "system", "content": request.system}).into());
    }
    for turn in turns(&request.messages, &|_| None) {
        match turn {
            Turn::User { text, images } => {
                let mut message = json!({"role": "user", "content": text});
                if !images.is_empty() {
                    message["images"] = images.iter().map(|i| i.base64.as_str()).collect();
                }
                messages.push(message.into());
            }
            Turn::Assistant { text, calls, .. } => {
                messages.push(assistant(text, &calls));
                messages.extend(calls.iter().map(|paired| {
                    Block::Made(json!({"role": "tool", "content": paired.marked_content(),
                        "tool_name": history_to_wire(&paired.call.tool)}))
                }));
            }
        }
    }
    let tools = (!request.tools.is_empty()).then(|| chat::tools(request)).transpose()?;
    let body = Body {
        model: &request.model,
        messages,
        tools,
        format: request.format.as_ref().map(|format| &format.schema),
        think: request.effort.map(|_| true),
        options: json!({"num_predict": request.max_output_tokens}),
        stream: true,
    };
    Ok(serde_json::to_vec(&body).expect("strings, numbers and JSON values serialise"))
}

/// An answer; arguments are an object here, not text.
fn assistant(text: &str, calls: &[Paired<'_>]) -> Block {
    if calls.is_empty() {
        return json!({"role": "assistant", "content": text}).into();
    }
    let calls: Vec<String> = calls
        .iter()
        .map(|paired| {
            let name = Value::from(history_to_wire(&paired.call.tool));
            let arguments = arguments_object(&paired.call.arguments);
            format!("{{\"function\":{{\"name\":{name},\"arguments\":{arguments}}}}}")
        })
        .collect();
    let members = [("role", &Value::from("assistant")), ("content", &Value::from(text))];
    Block::with_raw(&members, "tool_calls", &format!("[{}]", calls.join(",")))
}
