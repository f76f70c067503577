//! Writes a request the way the dialect wants it.

use serde_json::{Value, json};

use super::carry;
use crate::wire::{Paired, Turn, arguments_object, history_to_wire, turns, wire_tool_name};
use crate::{Carry, Dialect, Error, Image, ModelRequest};

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
    let carried = |kept: &Carry| {
        let ours = kept.is_for(Dialect::Chat, &request.model);
        ours.then(|| carry::read(kept).map(|kept| kept.ids)).flatten()
    };
    for turn in turns(&request.messages, &carried) {
        match turn {
            Turn::User { text, images } => messages.push(user(text, images)),
            Turn::Assistant { text, calls, carry } => {
                messages.push(assistant(text, &calls, carry));
                messages.extend(calls.iter().map(result));
            }
        }
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
        body["tools"] = tools(request)?;
    }
    if let Some(format) = &request.format {
        body["response_format"] = json!({"type": "json_schema", "json_schema": {
            "name": format.name, "schema": format.schema, "strict": format.strict,
        }});
    }
    if let Some(effort) = request.effort {
        body["reasoning_effort"] = effort.as_str().into();
    }
    Ok(body.to_string().into_bytes())
}

/// The tools as this dialect, and Ollama's own, have them.
pub(crate) fn tools(request: &ModelRequest) -> Result<Value, Error> {
    let tool = |tool: &crate::ToolSpec| {
        Ok(json!({"type": "function", "function": {
            "name": wire_tool_name(&tool.name)?,
            "description": tool.description,
            "parameters": tool.parameters,
        }}))
    };
    request.tools.iter().map(tool).collect()
}

fn user(text: &str, images: &[Image]) -> Value {
    if images.is_empty() {
        return json!({"role": "user", "content": text});
    }
    let mut parts = vec![json!({"type": "text", "text": text})];
    parts.extend(
        images.iter().map(|i| json!({"type": "image_url", "image_url": {"url": i.data_url()}})),
    );
    json!({"role": "user", "content": parts})
}

fn result(paired: &Paired<'_>) -> Value {
    json!({"role": "tool", "tool_call_id": paired.id, "content": paired.marked_content()})
}

fn assistant(text: &str, calls: &[Paired<'_>], carry: Option<&Carry>) -> Value {
    if calls.is_empty() {
        return json!({"role": "assistant", "content": text});
    }
    let content = if text.is_empty() { Value::Null } else { Value::from(text) };
    let kept = carry.and_then(carry::read);
    let calls: Vec<_> = calls
        .iter()
        .enumerate()
        .map(|(number, paired)| {
            let mut call = json!({"id": paired.id, "type": "function", "function": {
                "name": history_to_wire(&paired.call.tool),
                "arguments": arguments_object(&paired.call.arguments),
            }});
            let extra = kept.as_ref().and_then(|kept| kept.extras.get(number)?.clone());
            if let Some(extra) = extra {
                call["extra_content"] = extra;
            }
            call
        })
        .collect();
    let mut message = json!({"role": "assistant", "content": content, "tool_calls": calls});
    if let Some(kept) = kept.filter(|kept| !kept.thought.is_empty()) {
        message["reasoning_content"] = kept.thought.into();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Message, ModelCall, OutputFormat, ToolSpec, codes};

    fn request(messages: Vec<Message>) -> ModelRequest {
        ModelRequest {
            model: "m".to_owned(),
            system: "sys".to_owned(),
            messages,
            tools: Vec::new(),
            max_output_tokens: 64,
            ..ModelRequest::default()
        }
    }

    fn call(id: &str, tool: &str, arguments: &str) -> ModelCall {
        ModelCall { id: id.to_owned(), tool: tool.to_owned(), arguments: arguments.to_owned() }
    }

    fn asks(text: &str, calls: Vec<ModelCall>) -> Message {
        Message::Assistant { text: text.to_owned(), calls, carry: None }
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
            Message::user("go"),
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
        let asked = asks("", vec![call("t1", "a", "{}")]);
        let body = body(&request(vec![asked, result("t1", "no such file", "failed")]));
        assert_eq!(body["messages"][2]["content"], "[failed] no such file");
    }

    #[test]
    fn pictures_a_form_and_an_effort() {
        let image = Image { media_type: "image/png".to_owned(), base64: "AAAA".to_owned() };
        let mut request =
            request(vec![Message::User { text: "see".to_owned(), images: vec![image] }]);
        let schema = json!({"type": "object"});
        request.format = Some(OutputFormat { name: "plan".to_owned(), schema, strict: true });
        request.effort = Some(crate::Effort::High);
        let body = body(&request);
        assert_eq!(
            body["messages"][1]["content"],
            json!([{"type": "text", "text": "see"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}])
        );
        assert_eq!(
            body["response_format"],
            json!({"type": "json_schema", "json_schema":
                {"name": "plan", "schema": {"type": "object"}, "strict": true}})
        );
        assert_eq!(body["reasoning_effort"], "high");
    }

    #[test]
    fn thoughts_and_extras_go_back_with_their_calls_to_their_model() {
        let calls = vec![call("t1", "a", "{}")];
        let extra = json!({"google": {"thought_signature": "c2ln"}});
        let mut kept = carry::of("hm", &calls, vec![Some(extra.clone())]).unwrap();
        let send = |kept: &Carry, model: &str| {
            let message = Message::Assistant {
                text: String::new(),
                calls: calls.clone(),
                carry: Some(kept.clone()),
            };
            let mut request = request(vec![message]);
            request.model = model.to_owned();
            body(&request)["messages"][1].clone()
        };
        kept.model = "m".to_owned();
        let sent = send(&kept, "m");
        assert_eq!(sent["reasoning_content"], "hm");
        assert_eq!(sent["tool_calls"][0]["extra_content"], extra);
        let sent = send(&kept, "another");
        assert!(sent.get("reasoning_content").is_none());
        assert!(sent["tool_calls"][0].get("extra_content").is_none());
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
