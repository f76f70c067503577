//! Writes a step's answer as the stream a server would send.

use serde_json::{Value, json};

use super::file::{Failure, Say, Step, StepFinish};
use crate::ModelRequest;
use crate::wire;

/// Characters of text or arguments in one event: small, so that every answer takes several.
const PIECE_CHARS: usize = 16;

/// Bytes that count as one token when a step does not say how many were used.
const BYTES_PER_TOKEN: usize = 4;

/// The response body. A step that is cut has no end mark, so it can never read as whole.
pub(super) fn stream(step: &Step, request: &ModelRequest) -> Vec<u8> {
    let mut body = Vec::new();
    let mut first = true;
    let mut said_bytes = 0;
    let mut calls = 0;
    for say in &step.says {
        match say {
            Say::Text(text) => {
                said_bytes += text.len();
                let field = if step.finish == StepFinish::Refusal { "refusal" } else { "content" };
                for piece in pieces(text) {
                    push_delta(&mut body, &mut first, json!({field: piece}));
                }
            }
            Say::Reasoning(text) => {
                said_bytes += text.len();
                for piece in pieces(text) {
                    push_delta(&mut body, &mut first, json!({"reasoning_content": piece}));
                }
            }
            Say::Call { id, wire_name, arguments } => {
                said_bytes += arguments.len();
                push_delta(
                    &mut body,
                    &mut first,
                    json!({"tool_calls": [{"index": calls, "id": id, "type": "function",
                        "function": {"name": wire_name, "arguments": ""}}]}),
                );
                for piece in pieces(arguments) {
                    push_delta(
                        &mut body,
                        &mut first,
                        json!({"tool_calls": [{"index": calls, "function": {"arguments": piece}}]}),
                    );
                }
                calls += 1;
            }
        }
    }
    match step.failure {
        Some(Failure::Cut { after_bytes }) => body.truncate(after_bytes),
        Some(Failure::InStream { after_bytes, status }) => {
            body.truncate(after_bytes);
            // The error takes the place of the next whole event.
            let whole = body.windows(2).rposition(|pair| pair == b"\n\n").map_or(0, |at| at + 2);
            body.truncate(whole);
            push_event(&mut body, &error_body(status).to_string());
        }
        Some(Failure::Status { .. }) => {}
        None => {
            let finish = match step.finish {
                StepFinish::Natural | StepFinish::Refusal if calls > 0 => "tool_calls",
                StepFinish::Natural | StepFinish::Refusal => "stop",
                StepFinish::Length => "length",
                StepFinish::ContentFilter => "content_filter",
            };
            push_choice(&mut body, &json!({}), Value::from(finish));
            push_event(&mut body, &usage(step, request, said_bytes).to_string());
            push_event(&mut body, "[DONE]");
        }
    }
    body
}

/// The JSON body of an error answer.
pub(super) fn error_body(status: u16) -> Value {
    json!({"error": {"message": "the scenario says so", "type": "scripted", "code": status}})
}

/// The tool's name on the wire, or why it has none.
pub(super) fn wire_name(tool: &str) -> Result<String, String> {
    wire::to_wire(tool)
}

fn usage(step: &Step, request: &ModelRequest, said_bytes: usize) -> Value {
    let estimate = |bytes: usize| (bytes / BYTES_PER_TOKEN + 1) as u64;
    let usage = step.usage.unwrap_or_default();
    let input = usage.input.unwrap_or_else(|| estimate(request.canonical_bytes().len()));
    let output = usage.output.unwrap_or_else(|| estimate(said_bytes));
    json!({"choices": [], "usage": {
        "prompt_tokens": input,
        "completion_tokens": output,
        "total_tokens": input.saturating_add(output),
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }})
}

fn push_delta(body: &mut Vec<u8>, first: &mut bool, mut delta: Value) {
    if std::mem::take(first) {
        delta["role"] = Value::from("assistant");
    }
    push_choice(body, &delta, Value::Null);
}

fn push_choice(body: &mut Vec<u8>, delta: &Value, finish: Value) {
    let choice = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    push_event(body, &choice.to_string());
}

fn push_event(body: &mut Vec<u8>, data: &str) {
    body.extend_from_slice(b"data: ");
    body.extend_from_slice(data.as_bytes());
    body.extend_from_slice(b"\n\n");
}

/// Cuts text into pieces of [`PIECE_CHARS`] characters.
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        if text.is_empty() {
            return None;
        }
        let end = text.char_indices().nth(PIECE_CHARS).map_or(text.len(), |(at, _)| at);
        let (piece, rest) = text.split_at(end);
        text = rest;
        Some(piece)
    })
}
