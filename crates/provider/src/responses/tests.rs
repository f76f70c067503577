//! Streams of this dialect, with every event type it has.

use serde_json::{Value, json};

use super::request_body;
use crate::wire::check::{Want, check, check_error, events};
use crate::{
    Carry, Dialect, Effort, Finish, Image, Message, ModelCall, ModelRequest, OutputFormat,
    ToolSpec, codes,
};

const CREATED: &str = r#"{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[]}}"#;
const IN_PROGRESS: &str = r#"{"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_1","status":"in_progress"}}"#;
const REASONING: &str = r#"{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"hm ü"}],"encrypted_content":"gAAA+/=","x":1.50}"#;
const COMPLETED: &str = r#"{"type":"response.completed","response":{"id":"resp_1","status":"completed","usage":{"input_tokens":30,"input_tokens_details":{"cached_tokens":20},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":39}}}"#;
const USAGE: [u64; 5] = [10, 20, 0, 9, 4];

fn check_events(chunks: &[&str], want: &Want<'_>) {
    check(Dialect::Responses, &events(chunks), want);
}

fn done(index: u64, item: &str) -> String {
    format!(r#"{{"type":"response.output_item.done","output_index":{index},"item":{item}}}"#)
}

const MESSAGE: &str = r#"{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Hello","annotations":[]}]}"#;

#[test]
fn words_with_every_event_around_them() {
    let chunks = [
        CREATED,
        IN_PROGRESS,
        r#"{"type":"response.queued","response":{}}"#,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"msg_1","type":"message","content":[]}}"#,
        r#"{"type":"response.content_part.added","item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":""}}"#,
        r#"{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"Hel","obfuscation":"xK2"}"#,
        r#"{"type":"response.output_text.annotation.added","output_index":0,"annotation":{}}"#,
        r#"{"type":"response.output_text.delta","item_id":"rotated","output_index":0,"content_index":0,"delta":"lo","obfuscation":"q"}"#,
        r#"{"type":"response.output_text.done","output_index":0,"text":"Hello"}"#,
        r#"{"type":"response.content_part.done","output_index":0,"part":{"type":"output_text","text":"Hello"}}"#,
        &done(0, MESSAGE),
        r#"{"type":"response.some_event_of_tomorrow","output_index":7}"#,
        COMPLETED,
    ];
    let want = Want { text: "Hello", usage: USAGE, ..Want::NOTHING };
    check_events(&chunks, &want);
    let with_mark: Vec<_> = chunks.iter().copied().chain(["[DONE]"]).collect();
    check_events(&with_mark, &want);
    let named: String = chunks
        .iter()
        .map(|chunk| {
            let kind = serde_json::from_str::<Value>(chunk).unwrap()["type"].clone();
            format!("event: {}\r\ndata: {chunk}\r\n\r\n", kind.as_str().unwrap())
        })
        .collect();
    check(Dialect::Responses, &named, &want);
    // Without deltas the items speak; without items, the response at the end does.
    check_events(&[&done(0, MESSAGE), COMPLETED], &want);
    let whole = COMPLETED.replace(r#""usage""#, &format!(r#""output":[{MESSAGE}],"usage""#));
    check_events(&[&whole], &want);
}

#[test]
fn reasoning_goes_back_byte_for_byte_before_its_call() {
    let call = r#"{"id":"fc_1","type":"function_call","status":"completed","call_id":"call_a","name":"fs--read","arguments":"{\"path\": \"ü\"}"}"#;
    let chunks = [
        CREATED,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}"#,
        r#"{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":0}"#,
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"hm "}"#,
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"ü"}"#,
        r#"{"type":"response.reasoning_summary_text.done","output_index":0,"text":"hm ü"}"#,
        r#"{"type":"response.reasoning_summary_part.done","output_index":0}"#,
        &done(0, REASONING),
        r#"{"type":"response.output_item.added","output_index":1,"item":{"id":"fc_1","type":"function_call","call_id":"call_a","name":"fs--read","arguments":""}}"#,
        r#"{"type":"response.function_call_arguments.delta","item_id":"fc_rotated","output_index":1,"delta":"{\"path\":"}"#,
        r#"{"type":"response.function_call_arguments.delta","item_id":"fc_again","output_index":1,"delta":" \"ü\"}"}"#,
        r#"{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{\"path\": \"ü\"}"}"#,
        &done(1, call),
        COMPLETED,
    ];
    let want = Want {
        reasoning: "hm ü",
        calls: &[("call_a", "fs.read", "{\"path\": \"ü\"}")],
        finish: Finish::ToolCalls,
        usage: USAGE,
        carry: &[REASONING, call],
        ..Want::NOTHING
    };
    check_events(&chunks, &want);
}

#[test]
fn calls_of_every_kind() {
    let call = |index: u64, id: &str, arguments: &str| {
        let arguments = Value::from(arguments);
        done(
            index,
            &format!(
                r#"{{"type":"function_call","call_id":"{id}","name":"a","arguments":{arguments}}}"#
            ),
        )
    };
    let want = |calls| Want { calls, finish: Finish::ToolCalls, usage: USAGE, ..Want::NOTHING };
    check_events(
        &[&call(0, "c1", "{}"), &call(1, "c2", "{\"x\":1}"), COMPLETED],
        &want(&[("c1", "a", "{}"), ("c2", "a", "{\"x\":1}")]),
    );
    check_events(
        &[&call(0, "c1", "{}"), &call(1, "c1", "[]"), &call(2, "", ""), COMPLETED],
        &want(&[("c1", "a", "{}"), ("call_1", "a", "[]"), ("call_2", "a", "")]),
    );
    // One call around several.
    let wrapper = r#"{"type":"function_call","call_id":"w","name":"multi_tool_use.parallel","arguments":"{\"tool_uses\":[{\"recipient_name\":\"functions.fs--read\",\"parameters\":{\"path\":\"a\"}},{\"recipient_name\":\"functions.fs--list\",\"parameters\":{}}]}"}"#;
    check_events(
        &[&done(0, REASONING), &done(1, wrapper), COMPLETED],
        &want(&[("w_0", "fs.read", "{\"path\":\"a\"}"), ("w_1", "fs.list", "{}")]),
    );
    // A custom tool has text for arguments, and wants its result in a form of its own.
    let custom = r#"{"type":"custom_tool_call","call_id":"c1","name":"a","input":"x = 1"}"#;
    check_events(
        &[
            r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"custom_tool_call","call_id":"c1","name":"a","input":""}}"#,
            r#"{"type":"response.custom_tool_call_input.delta","output_index":0,"delta":"x ="}"#,
            r#"{"type":"response.custom_tool_call_input.done","output_index":0,"input":"x = 1"}"#,
            &done(0, custom),
            COMPLETED,
        ],
        &Want { carry: &[custom], ..want(&[("c1", "a", "x = 1")]) },
    );
    // The provider's own tools are no calls.
    let search = r#"{"type":"web_search_call","id":"ws_1","status":"completed"}"#;
    let want = Want { usage: USAGE, text: "Hello", carry: &[search, MESSAGE], ..Want::NOTHING };
    check_events(&[&done(0, search), &done(1, MESSAGE), COMPLETED], &want);
}

#[test]
fn ends_that_are_no_success() {
    let text = r#"{"type":"response.output_text.delta","output_index":0,"delta":"Hel"}"#;
    let refusal = r#"{"type":"response.refusal.delta","output_index":0,"delta":"No."}"#;
    let ended = |reason: &str| {
        format!(
            r#"{{"type":"response.incomplete","response":{{"status":"incomplete","incomplete_details":{{"reason":"{reason}"}}}}}}"#
        )
    };
    let cut = |finish| Want { text: "Hel", finish, ..Want::NOTHING };
    check_events(&[text, &ended("max_output_tokens")], &cut(Finish::Length));
    check_events(&[text, &ended("content_filter")], &cut(Finish::ContentFilter));
    check_events(
        &[refusal, COMPLETED],
        &Want { text: "No.", finish: Finish::Refusal, usage: USAGE, ..Want::NOTHING },
    );
    // A call that the limit cut is no call, and its reasoning does not go back alone.
    let begun = r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c","name":"a","arguments":"{\"pa"}}"#;
    check_events(
        &[text, &done(2, REASONING), begun, &ended("max_output_tokens")],
        &cut(Finish::Length),
    );
}

#[test]
fn hostile_streams() {
    let check = |chunks: &[&str], code, words: &str| {
        check_error(Dialect::Responses, &events(chunks), code, words);
    };
    let invalid = codes::PROVIDER_INVALID_RESPONSE;
    check(&[CREATED], codes::STREAM_CUT, "without saying");
    check(&["{\"type\":"], invalid, "chunk");
    check(&["{}"], invalid, "without a type");
    check(&[r#"{"error":{"message":"busy","code":429}}"#], codes::RATE_LIMITED, "busy");
    check(
        &[r#"{"type":"error","code":"rate_limit_exceeded","message":"slow","param":null}"#],
        codes::RATE_LIMITED,
        "slow",
    );
    check(
        &[r#"{"type":"error","error":{"type":"server_error","message":"down"}}"#],
        codes::PROVIDER_FAILED,
        "down",
    );
    check(
        &[
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"oh"}}}"#,
        ],
        codes::PROVIDER_FAILED,
        "oh",
    );
    check(&[r#"{"type":"response.failed"}"#], codes::PROVIDER_FAILED, "without a reason");
    check(
        &[r#"{"type":"response.completed","response":{"status":"cancelled"}}"#],
        invalid,
        "cancelled",
    );
    let begun = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"a"}}"#;
    let more = r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{"}"#;
    check(&[more], invalid, "no open call");
    check(&[begun, begun], invalid, "begins twice");
    check(&[begun, more, COMPLETED], invalid, "not whole");
    let item = done(0, r#"{"type":"function_call","call_id":"c","name":"a","arguments":"{}"}"#);
    check(&[&item, &item], invalid, "ends twice");
    check(&[begun, &item, more], invalid, "no open call");
    let nameless = done(0, r#"{"type":"function_call","call_id":"c","arguments":"{}"}"#);
    check(&[&nameless], invalid, "no tool name");
    let patch = done(0, r#"{"type":"apply_patch_call","call_id":"c"}"#);
    check(&[&patch], invalid, "apply_patch_call");
    let many: Vec<_> = (0..129)
        .map(|n| done(n, r#"{"type":"function_call","name":"a","arguments":"{}"}"#))
        .collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    check(&many, invalid, "more than 128");
}

/// What the server calls the whole arguments counts, not the pieces.
#[test]
fn the_whole_item_has_the_last_word() {
    let chunks = [
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"a"}}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"x\":1"}"#,
        &done(0, r#"{"type":"function_call","call_id":"c","name":"a","arguments":"{\"x\":2}"}"#),
        COMPLETED,
    ];
    let body = events(&chunks);
    let (completion, _) = crate::wire::check::read(Dialect::Responses, &[body.as_bytes()]).unwrap();
    assert_eq!(completion.calls[0].arguments, "{\"x\":2}");
}

fn body(request: &ModelRequest) -> (Value, String) {
    let text = String::from_utf8(request_body(request).unwrap()).unwrap();
    (serde_json::from_str(&text).unwrap(), text)
}

#[test]
fn the_whole_request() {
    let call = r#"{"id":"fc_1","type":"function_call","call_id":"c1","name":"fs--read","arguments":"{}", "z":1.0}"#;
    let carry = Carry {
        dialect: "responses".to_owned(),
        model: "gpt-5-mini".to_owned(),
        blocks: vec![REASONING.to_owned(), call.to_owned()],
    };
    let calls = vec![ModelCall {
        id: "c1".to_owned(),
        tool: "fs.read".to_owned(),
        arguments: "{}".to_owned(),
    }];
    let image = Image { media_type: "image/png".to_owned(), base64: "AAAA".to_owned() };
    let mut request = ModelRequest {
        model: "gpt-5-mini".to_owned(),
        system: "sys".to_owned(),
        messages: vec![
            Message::User { text: "go".to_owned(), images: vec![image] },
            Message::Assistant { text: String::new(), calls, carry: Some(carry) },
            Message::ToolResult {
                id: "c1".to_owned(),
                content: "gone".to_owned(),
                status: "failed".to_owned(),
            },
        ],
        tools: vec![ToolSpec {
            name: "fs.read".to_owned(),
            description: "reads".to_owned(),
            parameters: json!({"type": "object"}),
        }],
        max_output_tokens: 64,
        effort: Some(Effort::Low),
        format: Some(OutputFormat {
            name: "plan".to_owned(),
            schema: json!({"type": "object"}),
            strict: true,
        }),
        ..ModelRequest::default()
    };
    let (value, text) = body(&request);
    assert!(text.contains(&format!("{REASONING},{call}")), "byte for byte: {text}");
    let expected = json!({
        "model": "gpt-5-mini", "instructions": "sys", "max_output_tokens": 64,
        "store": false, "stream": true, "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"format": {"type": "json_schema", "name": "plan", "schema": {"type": "object"},
            "strict": true}},
        "tools": [{"type": "function", "name": "fs--read", "description": "reads",
            "parameters": {"type": "object"}, "strict": false}],
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "go"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]},
            serde_json::from_str::<Value>(REASONING).unwrap(),
            serde_json::from_str::<Value>(call).unwrap(),
            {"type": "function_call_output", "call_id": "c1", "output": "[failed] gone"},
        ],
    });
    assert_eq!(value, expected);
    // Another model gets the same conversation in words.
    request.model = "gpt-4o".to_owned();
    request.effort = None;
    let (value, text) = body(&request);
    assert!(!text.contains("encrypted_content"), "{text}");
    assert_eq!(
        value["input"][1],
        json!({"type": "function_call", "call_id": "c1", "name": "fs--read", "arguments": "{}"})
    );
}
