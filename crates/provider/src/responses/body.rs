//! Writes a request the way the dialect wants it. The server keeps nothing (`store: false`), so
//! the whole conversation travels, with the reasoning that the model wants back encrypted in it.

use serde::Serialize;
use serde_json::{Value, json};

use crate::wire::{Block, Turn, arguments_object, history_to_wire, turns, wire_tool_name};
use crate::{Carry, Dialect, Error, Image, ModelRequest};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    input: Vec<Block>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    max_output_tokens: u32,
    store: bool,
    stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Value>,
}

/// The JSON body of a streaming request.
///
/// # Errors
/// `provider_invalid_request` when a tool's name has no wire form.
pub(crate) fn request_body(request: &ModelRequest) -> Result<Vec<u8>, Error> {
    let tool = |tool: &crate::ToolSpec| {
        Ok(json!({
            "type": "function",
            "name": wire_tool_name(&tool.name)?,
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": false,
        }))
    };
    let reasons = request.effort.is_some() || is_reasoning_model(&request.model);
    let body = Body {
        model: &request.model,
        instructions: &request.system,
        input: input(request),
        tools: request.tools.iter().map(tool).collect::<Result<_, Error>>()?,
        max_output_tokens: request.max_output_tokens,
        store: false,
        stream: true,
        // A model that does not reason refuses the wish for its reasoning.
        include: if reasons { vec!["reasoning.encrypted_content"] } else { Vec::new() },
        reasoning: request
            .effort
            .map(|effort| json!({"effort": effort.as_str(), "summary": "auto"})),
        text: request.format.as_ref().map(|format| {
            json!({"format": {
                "type": "json_schema",
                "name": format.name,
                "schema": format.schema,
                "strict": format.strict,
            }})
        }),
    };
    Ok(serde_json::to_vec(&body).expect("strings, numbers and JSON values serialise"))
}

/// Whether a model reasons, by its name: the `o` and `gpt-5` families.
fn is_reasoning_model(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let numbered_o = name.strip_prefix('o').is_some_and(|rest| rest.starts_with(char::is_numeric));
    numbered_o || name.starts_with("gpt-5") || name.contains("codex")
}

fn input(request: &ModelRequest) -> Vec<Block> {
    let carried = |kept: &Carry| {
        let ours = kept.is_for(Dialect::Responses, &request.model);
        ours.then(|| kept.blocks.iter().filter_map(|block| call_of(block)).map(|c| c.0).collect())
    };
    let mut input = Vec::new();
    for turn in turns(&request.messages, &carried) {
        match turn {
            Turn::User { text, images } => input.push(user(text, images)),
            Turn::Assistant { text, calls, carry } => {
                let custom: Vec<String> = carry
                    .iter()
                    .flat_map(|carry| carry.blocks.iter().filter_map(|block| call_of(block)))
                    .filter_map(|(id, custom)| custom.then_some(id))
                    .collect();
                match carry {
                    Some(carry) => {
                        input.extend(carry.blocks.iter().filter_map(|block| Block::kept(block)));
                    }
                    None => {
                        if !text.is_empty() {
                            input.push(Block::Made(json!({"role": "assistant",
                                "content": [{"type": "output_text", "text": text}]})));
                        }
                        input.extend(calls.iter().map(|paired| {
                            Block::Made(json!({
                                "type": "function_call",
                                "call_id": paired.id,
                                "name": history_to_wire(&paired.call.tool),
                                "arguments": arguments_object(&paired.call.arguments),
                            }))
                        }));
                    }
                }
                input.extend(calls.iter().map(|paired| {
                    let kind = if custom.contains(&paired.id) {
                        "custom_tool_call_output"
                    } else {
                        "function_call_output"
                    };
                    Block::Made(json!({"type": kind, "call_id": paired.id,
                        "output": paired.marked_content()}))
                }));
            }
        }
    }
    input
}

fn user(text: &str, images: &[Image]) -> Block {
    let mut parts = vec![json!({"type": "input_text", "text": text})];
    parts.extend(
        images.iter().map(|image| json!({"type": "input_image", "image_url": image.data_url()})),
    );
    Block::Made(json!({"role": "user", "content": parts}))
}

/// Id of the call that an item is, and whether it is a custom one.
fn call_of(block: &str) -> Option<(String, bool)> {
    let item: Value = serde_json::from_str(block).ok()?;
    let custom = match item.get("type")?.as_str()? {
        "function_call" => false,
        "custom_tool_call" => true,
        _ => return None,
    };
    Some((item.get("call_id")?.as_str()?.to_owned(), custom))
}
