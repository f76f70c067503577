//! Writes a request the way the dialect wants it.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::name::{history_to_wire, to_wire};
use crate::{Error, Message, ModelCall, ModelRequest, codes};

/// The name of the field that bounds the output; newer and older servers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputLimit {
    /// What compatible servers know.
    MaxTokens,
    /// What OpenAI's own models insist on.
    MaxCompletionTokens,
}

/// The JSON body of a streaming request.
///
/// # Errors
/// `provider_invalid_request` when a tool's name has no wire form.
pub(crate) fn request_body(request: &ModelRequest, limit: OutputLimit) -> Result<Vec<u8>, Error> {
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        messages.push(json!({"role": "system", "content": request.system}));
    }
    let mut ids = WireIds::default();
    for message in &request.messages {
        messages.push(match message {
            Message::User { text } => json!({"role": "user", "content": text}),
            Message::Assistant { text, calls } => assistant(text, calls, &mut ids),
            Message::ToolResult { id, content, status } => json!({
                "role": "tool",
                "tool_call_id": ids.answered(id),
                "content": if status == "completed" {
                    content.clone()
                } else {
                    format!("[{status}] {content}")
                },
            }),
        });
    }
    let limit = match limit {
        OutputLimit::MaxTokens => "max_tokens",
        OutputLimit::MaxCompletionTokens => "max_completion_tokens",
    };
    let mut body = json!({
        "model": request.model,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
        limit: request.max_output_tokens,
    });
    if !request.tools.is_empty() {
        let tools: Result<Vec<Value>, Error> = request
            .tools
            .iter()
            .map(|tool| {
                Ok(json!({"type": "function", "function": {
                    "name": wire_name(&tool.name)?,
                    "description": tool.description,
                    "parameters": tool.parameters,
                }}))
            })
            .collect();
        body["tools"] = Value::Array(tools?);
    }
    Ok(body.to_string().into_bytes())
}

fn assistant(text: &str, calls: &[ModelCall], ids: &mut WireIds) -> Value {
    if calls.is_empty() {
        return json!({"role": "assistant", "content": text});
    }
    let content = if text.is_empty() { Value::Null } else { Value::from(text) };
    let calls: Vec<_> = calls
        .iter()
        .map(|call| {
            json!({"id": ids.asked(&call.id), "type": "function", "function": {
                "name": history_to_wire(&call.tool),
                "arguments": arguments_to_wire(&call.arguments),
            }})
        })
        .collect();
    json!({"role": "assistant", "content": content, "tool_calls": calls})
}

fn wire_name(tool: &str) -> Result<String, Error> {
    to_wire(tool).map_err(|why| {
        Error::new(codes::PROVIDER_INVALID_REQUEST, "the request cannot be written").why(why)
    })
}

/// The arguments of an earlier call. Many servers parse them to fill a template and fail on text
/// that is no JSON object, so such text goes back as a string inside one.
fn arguments_to_wire(arguments: &str) -> String {
    match serde_json::from_str::<serde_json::Map<String, Value>>(arguments) {
        Ok(_) => arguments.to_owned(),
        Err(_) if arguments.trim().is_empty() => "{}".to_owned(),
        Err(_) => json!({"not_a_json_object": arguments}).to_string(),
    }
}

/// Keeps call ids unique over the whole conversation. Servers that mint ids start again with each
/// answer, and other servers refuse a conversation in which an id comes twice.
#[derive(Default)]
struct WireIds {
    used: HashSet<String>,
    latest: HashMap<String, String>,
}

impl WireIds {
    /// The wire id of a call.
    fn asked(&mut self, id: &str) -> String {
        let again = (2u64..).map(|number| format!("{id}_{number}"));
        let wire = std::iter::once(id.to_owned())
            .chain(again)
            .find(|wire| !self.used.contains(wire))
            .expect("fewer ids are used than there are numbers");
        self.used.insert(wire.clone());
        self.latest.insert(id.to_owned(), wire.clone());
        wire
    }

    /// The wire id under which the latest call with this id was sent.
    fn answered(&self, id: &str) -> String {
        self.latest.get(id).map_or(id, String::as_str).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ToolSpec;

    fn request(messages: Vec<Message>) -> ModelRequest {
        ModelRequest {
            model: "m".to_owned(),
            system: "sys".to_owned(),
            messages,
            tools: Vec::new(),
            max_output_tokens: 64,
            ordinal: 0,
        }
    }

    fn call(id: &str, tool: &str, arguments: &str) -> ModelCall {
        ModelCall { id: id.to_owned(), tool: tool.to_owned(), arguments: arguments.to_owned() }
    }

    fn asks(text: &str, calls: Vec<ModelCall>) -> Message {
        Message::Assistant { text: text.to_owned(), calls }
    }

    fn result(id: &str, content: &str, status: &str) -> Message {
        Message::ToolResult {
            id: id.to_owned(),
            content: content.to_owned(),
            status: status.to_owned(),
        }
    }

    fn body(request: &ModelRequest) -> Value {
        serde_json::from_slice(&request_body(request, OutputLimit::MaxTokens).unwrap()).unwrap()
    }

    #[test]
    fn the_whole_body() {
        let mut request = request(vec![
            Message::User { text: "go".to_owned() },
            asks("", vec![call("t1", "fs.read", "{\"path\": \"a\"}")]),
            result("t1", "text", "completed"),
            asks("done", vec![]),
        ]);
        request.tools = vec![ToolSpec {
            name: "fs.read".to_owned(),
            description: "reads".to_owned(),
            parameters: json!({"type": "object"}),
        }];
        assert_eq!(
            body(&request),
            json!({
                "model": "m",
                "messages": [
                    {"role": "system", "content": "sys"},
                    {"role": "user", "content": "go"},
                    {"role": "assistant", "content": null, "tool_calls": [{"id": "t1",
                        "type": "function",
                        "function": {"name": "fs--read", "arguments": "{\"path\": \"a\"}"}}]},
                    {"role": "tool", "tool_call_id": "t1", "content": "text"},
                    {"role": "assistant", "content": "done"},
                ],
                "tools": [{"type": "function", "function": {
                    "name": "fs--read", "description": "reads", "parameters": {"type": "object"}}}],
                "stream": true,
                "stream_options": {"include_usage": true},
                "max_tokens": 64,
            })
        );
        let newer = request_body(&request, OutputLimit::MaxCompletionTokens).unwrap();
        let newer: Value = serde_json::from_slice(&newer).unwrap();
        assert_eq!(newer["max_completion_tokens"], 64);
        assert!(newer.get("max_tokens").is_none());
    }

    #[test]
    fn arguments_go_back_as_a_json_object() {
        let check = |arguments: &str, expected: &str| {
            let body = body(&request(vec![asks("x", vec![call("t1", "a", arguments)])]));
            let sent = &body["messages"][1]["tool_calls"][0]["function"]["arguments"];
            assert_eq!(sent, expected, "{arguments:?}");
        };
        check("{\"b\":1, \"a\":2}", "{\"b\":1, \"a\":2}");
        check("", "{}");
        check("{\"path\":\"a", r#"{"not_a_json_object":"{\"path\":\"a"}"#);
        check("[]", r#"{"not_a_json_object":"[]"}"#);
        check("{\"a\":1}{\"b\":2}", r#"{"not_a_json_object":"{\"a\":1}{\"b\":2}"}"#);
    }

    #[test]
    fn a_result_that_is_no_success_says_so() {
        let body = body(&request(vec![result("t1", "no such file", "failed")]));
        assert_eq!(body["messages"][1]["content"], "[failed] no such file");
    }

    #[test]
    fn ids_that_come_again_are_told_apart() {
        let body = body(&request(vec![
            asks("", vec![call("call_0", "a", "{}"), call("call_1", "a", "{}")]),
            result("call_0", "first", "completed"),
            result("call_1", "second", "completed"),
            asks("", vec![call("call_0", "a", "{}")]),
            result("call_0", "third", "completed"),
        ]));
        let messages = body["messages"].as_array().unwrap();
        let ids: Vec<_> = messages
            .iter()
            .flat_map(|message| match message.get("tool_calls") {
                Some(calls) => calls.as_array().unwrap().iter().map(|c| &c["id"]).collect(),
                None => message.get("tool_call_id").into_iter().collect::<Vec<_>>(),
            })
            .collect();
        assert_eq!(ids, ["call_0", "call_1", "call_0", "call_1", "call_0_2", "call_0_2"]);
    }

    #[test]
    fn names_that_cannot_be_sent() {
        let mut offered = request(vec![]);
        offered.tools = vec![ToolSpec {
            name: "no/slash".to_owned(),
            description: String::new(),
            parameters: json!({}),
        }];
        let error = request_body(&offered, OutputLimit::MaxTokens).unwrap_err();
        assert!(error.is(codes::PROVIDER_INVALID_REQUEST));
        assert!(error.to_string().contains("`no/slash`"), "{error}");

        // What a model made up earlier must not make the conversation unsendable.
        let made_up = body(&request(vec![asks("", vec![call("t1", "no/slash at--all", "{}")])]));
        let name = &made_up["messages"][1]["tool_calls"][0]["function"]["name"];
        assert_eq!(name, "no_slash_at--all");
    }
}
