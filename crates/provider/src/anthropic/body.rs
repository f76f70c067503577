//! Writes a request the way the dialect wants it: roles in turn, results first in the message after
//! their calls, blocks with signatures exactly as they came.

use serde::Serialize;
use serde_json::{Value, json};

use super::FORM_TOOL;
use crate::wire::{Block, Paired, Turn, arguments_object, history_to_wire, turns, wire_tool_name};
use crate::{Carry, Dialect, Effort, Error, Image, ModelRequest};

/// Least tokens that the answer itself gets beside the thinking.
const MIN_ANSWER_TOKENS: u32 = 1024;
/// Least tokens of thinking that the server accepts.
const MIN_THINKING_TOKENS: u32 = 1024;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Value>,
    messages: Vec<Spoken>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
    stream: bool,
}

#[derive(Serialize)]
struct Spoken {
    role: &'static str,
    content: Vec<Block>,
}

/// The JSON body of a streaming request.
///
/// # Errors
/// `provider_invalid_request` when a tool's name has no wire form.
pub(crate) fn request_body(request: &ModelRequest) -> Result<Vec<u8>, Error> {
    let tool = |tool: &crate::ToolSpec| {
        Ok(json!({
            "name": wire_tool_name(&tool.name)?,
            "description": tool.description,
            "input_schema": tool.parameters,
        }))
    };
    let mut tools = request.tools.iter().map(tool).collect::<Result<Vec<_>, Error>>()?;
    let form = request.format.as_ref().map(|format| {
        json!({"name": FORM_TOOL, "description": "Gives the whole answer.",
            "input_schema": format.schema})
    });
    // A forced call and thinking exclude each other.
    let tool_choice = form.as_ref().map(|_| json!({"type": "tool", "name": FORM_TOOL}));
    let (messages, all_thought) = messages(request);
    let thinking = request.effort.filter(|_| form.is_none() && all_thought);
    tools.extend(form);
    let body = Body {
        model: &request.model,
        max_tokens: request.max_output_tokens,
        system: system(&request.system),
        messages,
        tools,
        tool_choice,
        thinking: thinking.and_then(|effort| thinking_of(effort, request.max_output_tokens)),
        stream: true,
    };
    Ok(serde_json::to_vec(&body).expect("strings, numbers and JSON values serialise"))
}

/// The system prompt, marked so that the server caches it with the tools before it.
fn system(text: &str) -> Vec<Value> {
    if text.is_empty() {
        return Vec::new();
    }
    vec![json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}})]
}

/// How many tokens the thinking may take; `None` when the answer leaves no room for any.
fn thinking_of(effort: Effort, max_output_tokens: u32) -> Option<Value> {
    let wanted = match effort {
        Effort::Low => 2_048,
        Effort::Medium => 8_192,
        Effort::High => 24_576,
    };
    let room = max_output_tokens.saturating_sub(MIN_ANSWER_TOKENS);
    let budget = wanted.min(room);
    (budget >= MIN_THINKING_TOKENS).then(|| json!({"type": "enabled", "budget_tokens": budget}))
}

/// The messages, and whether each answer whose calls still wait for the end of their turn brings
/// its thinking: the server refuses thinking that begins in the middle of a turn.
fn messages(request: &ModelRequest) -> (Vec<Spoken>, bool) {
    let carried = |kept: &Carry| {
        let ours = kept.is_for(Dialect::Anthropic, &request.model);
        ours.then(|| kept.blocks.iter().filter_map(|block| id_of_call(block)).collect())
    };
    let mut messages: Vec<Spoken> = Vec::new();
    let mut all_thought = true;
    for turn in turns(&request.messages, &carried) {
        match turn {
            Turn::User { text, images } => {
                all_thought = true;
                add(&mut messages, "user", user(text, images));
            }
            Turn::Assistant { text, calls, carry } => {
                let blocks = match carry {
                    Some(carry) => carry.blocks.iter().filter_map(|b| Block::kept(b)).collect(),
                    None => assistant(text, &calls),
                };
                all_thought &= calls.is_empty() || carry.is_some();
                add(&mut messages, "assistant", blocks);
                add(&mut messages, "user", calls.iter().map(result).collect());
            }
        }
    }
    (messages, all_thought)
}

/// Adds blocks to the last message when it has the same role: roles must alternate.
fn add(messages: &mut Vec<Spoken>, role: &'static str, content: Vec<Block>) {
    if content.is_empty() {
        return;
    }
    match messages.last_mut().filter(|last| last.role == role) {
        Some(last) => last.content.extend(content),
        None => messages.push(Spoken { role, content }),
    }
}

fn user(text: &str, images: &[Image]) -> Vec<Block> {
    let mut blocks: Vec<Block> = images
        .iter()
        .map(|image| {
            json!({"type": "image", "source": {"type": "base64",
                "media_type": image.media_type, "data": image.base64}})
            .into()
        })
        .collect();
    // A text block must not be empty.
    if !text.is_empty() {
        blocks.push(json!({"type": "text", "text": text}).into());
    }
    blocks
}

fn assistant(text: &str, calls: &[Paired<'_>]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    if !text.trim().is_empty() {
        blocks.push(json!({"type": "text", "text": text}).into());
    }
    blocks.extend(calls.iter().map(|paired| {
        let members = [
            ("type", &Value::from("tool_use")),
            ("id", &Value::from(paired.id.as_str())),
            ("name", &Value::from(history_to_wire(&paired.call.tool))),
        ];
        Block::with_raw(&members, "input", &arguments_object(&paired.call.arguments))
    }));
    blocks
}

fn result(paired: &Paired<'_>) -> Block {
    json!({"type": "tool_result", "tool_use_id": paired.id, "content": paired.content,
        "is_error": paired.is_error})
    .into()
}

fn id_of_call(block: &str) -> Option<String> {
    let block: Value = serde_json::from_str(block).ok()?;
    let is_call = block.get("type")? == "tool_use";
    block.get("id")?.as_str().filter(|_| is_call).map(str::to_owned)
}
