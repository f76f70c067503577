//! Writes a request the way the dialect wants it.

use serde::Serialize;
use serde_json::{Value, json};

use super::schema::openapi;
use crate::wire::{Block, Paired, Turn, arguments_object, history_to_wire, turns, wire_tool_name};
use crate::{Carry, Dialect, Effort, Error, Image, ModelRequest, codes};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Value>,
    contents: Vec<Content>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    generation_config: Value,
}

#[derive(Serialize)]
struct Content {
    role: &'static str,
    parts: Vec<Block>,
}

/// The path of the request below the base URL, which names the model.
///
/// # Errors
/// `provider_invalid_request` for a name that would change the path.
pub(crate) fn operation(model: &str) -> Result<String, Error> {
    let name = model.strip_prefix("models/").unwrap_or(model);
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(allowed) {
        return Err(Error::new(codes::PROVIDER_INVALID_REQUEST, "the request cannot be written")
            .why("the model's name may hold only ASCII letters, digits, `-`, `_` and `.`"));
    }
    Ok(format!("/models/{name}:streamGenerateContent?alt=sse"))
}

/// The JSON body of a request.
///
/// # Errors
/// `provider_invalid_request` when a tool's name has no wire form.
pub(crate) fn request_body(request: &ModelRequest) -> Result<Vec<u8>, Error> {
    let declaration = |tool: &crate::ToolSpec| {
        let mut made =
            json!({"name": wire_tool_name(&tool.name)?, "description": tool.description});
        let parameters = openapi(&tool.parameters);
        // An object without properties is refused.
        if parameters
            .get("properties")
            .is_some_and(|p| p.as_object().is_some_and(|p| !p.is_empty()))
        {
            made["parameters"] = parameters;
        }
        Ok(made)
    };
    let tools = request.tools.iter().map(declaration).collect::<Result<Vec<_>, Error>>()?;
    let body = Body {
        system_instruction: (!request.system.is_empty())
            .then(|| json!({"parts": [{"text": request.system}]})),
        contents: contents(request),
        tools: if tools.is_empty() {
            Vec::new()
        } else {
            vec![json!({"functionDeclarations": tools})]
        },
        generation_config: generation(request),
    };
    Ok(serde_json::to_vec(&body).expect("strings, numbers and JSON values serialise"))
}

fn generation(request: &ModelRequest) -> Value {
    let mut config = json!({"maxOutputTokens": request.max_output_tokens});
    if let Some(format) = &request.format {
        config["responseMimeType"] = "application/json".into();
        config["responseSchema"] = openapi(&format.schema);
    }
    if let Some(effort) = request.effort {
        let budget = match effort {
            Effort::Low => 1_024,
            Effort::Medium => 8_192,
            Effort::High => 24_576,
        };
        config["thinkingConfig"] = json!({"includeThoughts": true, "thinkingBudget": budget});
    }
    config
}

fn contents(request: &ModelRequest) -> Vec<Content> {
    // A call that came without an id is known here by one of our own, which the parts do not have.
    let carried = |kept: &Carry| {
        kept.is_for(Dialect::Google, &request.model)
            .then(|| kept.blocks.first().and_then(|ids| serde_json::from_str(ids).ok()))
            .flatten()
    };
    let mut contents: Vec<Content> = Vec::new();
    for turn in turns(&request.messages, &carried) {
        match turn {
            Turn::User { text, images } => add(&mut contents, "user", user(text, images)),
            Turn::Assistant { text, calls, carry } => {
                let parts: Vec<Block> = match carry {
                    Some(carry) => {
                        carry.blocks.iter().skip(1).filter_map(|b| Block::kept(b)).collect()
                    }
                    None => model(text, &calls),
                };
                let named: Vec<String> = carry
                    .iter()
                    .flat_map(|carry| carry.blocks.iter().skip(1))
                    .filter_map(|part| id_of_call(part))
                    .collect();
                add(&mut contents, "model", parts);
                add(&mut contents, "user", calls.iter().map(|c| result(c, &named)).collect());
            }
        }
    }
    contents
}

fn add(contents: &mut Vec<Content>, role: &'static str, parts: Vec<Block>) {
    if parts.is_empty() {
        return;
    }
    match contents.last_mut().filter(|last| last.role == role) {
        Some(last) => last.parts.extend(parts),
        None => contents.push(Content { role, parts }),
    }
}

fn user(text: &str, images: &[Image]) -> Vec<Block> {
    let image = |image: &Image| {
        json!({"inlineData": {"mimeType": image.media_type, "data": image.base64}}).into()
    };
    let mut parts: Vec<Block> = images.iter().map(image).collect();
    parts.push(json!({"text": text}).into());
    parts
}

fn model(text: &str, calls: &[Paired<'_>]) -> Vec<Block> {
    let mut parts: Vec<Block> = Vec::new();
    if !text.is_empty() {
        parts.push(json!({"text": text}).into());
    }
    parts.extend(calls.iter().map(|paired| {
        let name = Value::from(history_to_wire(&paired.call.tool));
        let arguments = arguments_object(&paired.call.arguments);
        let call = format!("{{\"name\":{name},\"args\":{arguments}}}");
        Block::with_raw(&[], "functionCall", &call)
    }));
    parts
}

/// A result belongs to its call by order, and by id when the call came with one.
fn result(paired: &Paired<'_>, named: &[String]) -> Block {
    let key = if paired.is_error { "error" } else { "result" };
    let mut response = json!({
        "name": history_to_wire(&paired.call.tool),
        "response": {key: paired.content},
    });
    if named.contains(&paired.id) {
        response["id"] = paired.id.as_str().into();
    }
    json!({"functionResponse": response}).into()
}

fn id_of_call(part: &str) -> Option<String> {
    let part: Value = serde_json::from_str(part).ok()?;
    part.get("functionCall")?.get("id")?.as_str().map(str::to_owned)
}
