//! Streams of this dialect, with every kind of part it has.

use serde_json::{Value, json};

use super::{operation, request_body};
use crate::wire::check::{Want, check, check_error, events};
use crate::{
    Carry, Dialect, Effort, Finish, Image, Message, ModelCall, ModelRequest, OutputFormat,
    ToolSpec, codes,
};

/// A frame with parts.
fn frame(parts: &[&str]) -> String {
    let parts = parts.join(",");
    format!(r#"{{"candidates":[{{"content":{{"role":"model","parts":[{parts}]}},"index":0}}]}}"#)
}

/// The frame that ends an answer.
fn last(reason: &str) -> String {
    format!(
        r#"{{"candidates":[{{"content":{{"parts":[]}},"finishReason":"{reason}","safetyRatings":[]}}],"usageMetadata":{{"promptTokenCount":30,"cachedContentTokenCount":20,"candidatesTokenCount":5,"thoughtsTokenCount":4,"totalTokenCount":39}},"modelVersion":"m","responseId":"r"}}"#
    )
}

const USAGE: [u64; 5] = [10, 20, 0, 9, 4];

fn check_frames(frames: &[String], want: &Want<'_>) {
    let frames: Vec<_> = frames.iter().map(String::as_str).collect();
    check(Dialect::Google, &events(&frames), want);
}

#[test]
fn words_with_every_end() {
    for (reason, finish) in [
        ("STOP", Finish::Stop),
        ("MAX_TOKENS", Finish::Length),
        ("SAFETY", Finish::ContentFilter),
        ("RECITATION", Finish::ContentFilter),
        ("PROHIBITED_CONTENT", Finish::ContentFilter),
    ] {
        let frames = [
            r#"{"usageMetadata":{"promptTokenCount":30,"totalTokenCount":30}}"#.to_owned(),
            frame(&[r#"{"text":"hm","thought":true}"#]),
            frame(&[r#"{"text":"Hel"}"#, r#"{"text":""}"#]),
            frame(&[r#"{"text":"lo ü"}"#]),
            last(reason),
        ];
        let want =
            Want { text: "Hello ü", reasoning: "hm", finish, usage: USAGE, ..Want::NOTHING };
        check_frames(&frames, &want);
    }
    // A prompt that is blocked has no candidates.
    let blocked =
        r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":3}}"#;
    let want = Want { finish: Finish::ContentFilter, usage: [3, 0, 0, 0, 0], ..Want::NOTHING };
    check_frames(&[blocked.to_owned()], &want);
}

#[test]
fn signatures_go_back_on_their_parts() {
    let call =
        r#"{"functionCall":{"name":"fs--read","args":{"path": "a"}},"thoughtSignature":"c2ln+/="}"#;
    let named = r#"{"functionCall":{"id":"f7","name":"fs--list","args":{}}}"#;
    let signed = r#"{"text":"so","thoughtSignature":"QUJD"}"#;
    let frames = [
        frame(&[r#"{"text":"I "}"#]),
        frame(&[r#"{"text":"read"}"#]),
        frame(&[signed]),
        // Parallel calls, one a frame; the reason is the same as for words.
        frame(&[call]),
        frame(&[named]),
        last("STOP"),
    ];
    let want = Want {
        text: "I readso",
        calls: &[("call_0", "fs.read", "{\"path\": \"a\"}"), ("f7", "fs.list", "{}")],
        finish: Finish::ToolCalls,
        usage: USAGE,
        carry: &[r#"["call_0","f7"]"#, r#"{"text":"I read"}"#, signed, call, named],
        ..Want::NOTHING
    };
    check_frames(&frames, &want);
}

#[test]
fn parts_of_every_other_kind() {
    let others = [
        r#"{"inlineData":{"mimeType":"image/png","data":"AAAA"}}"#,
        r#"{"executableCode":{"language":"PYTHON","code":"1"}}"#,
        r#"{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}}"#,
        r#"{"toolCall":{"toolType":"x"}}"#,
        r#"{"toolResponse":{"toolType":"x"}}"#,
    ];
    let mut frames: Vec<_> = others.iter().map(|part| frame(&[part])).collect();
    frames.push(frame(&[r#"{"text":"x"}"#]));
    frames.push(last("STOP"));
    let carry: Vec<_> = ["[]"].into_iter().chain(others).chain([r#"{"text":"x"}"#]).collect();
    check_frames(&frames, &Want { text: "x", usage: USAGE, carry: &carry, ..Want::NOTHING });
}

#[test]
fn arguments_that_arrive_path_by_path() {
    let frames = [
        frame(&[
            r#"{"functionCall":{"name":"fs--write","willContinue":true},"thoughtSignature":"c2ln"}"#,
        ]),
        frame(&[
            r#"{"functionCall":{"partialArgs":[{"jsonPath":"$.path","stringValue":"a.","willContinue":true}],"willContinue":true}}"#,
        ]),
        frame(&[
            r#"{"functionCall":{"partialArgs":[{"jsonPath":"$.path","stringValue":"rs"},{"jsonPath":"$.n","numberValue":2}],"willContinue":true}}"#,
        ]),
        frame(&[r#"{"functionCall":{}}"#]),
        last("STOP"),
    ];
    let want = Want {
        calls: &[("call_0", "fs.write", r#"{"n":2,"path":"a.rs"}"#)],
        finish: Finish::ToolCalls,
        usage: USAGE,
        carry: &[
            r#"["call_0"]"#,
            r#"{"functionCall":{"args":{"n":2,"path":"a.rs"},"name":"fs--write"},"thoughtSignature":"c2ln"}"#,
        ],
        ..Want::NOTHING
    };
    check_frames(&frames, &want);
}

#[test]
fn hostile_streams() {
    let check = |frames: &[String], code, words: &str| {
        let frames: Vec<_> = frames.iter().map(String::as_str).collect();
        check_error(Dialect::Google, &events(&frames), code, words);
    };
    let invalid = codes::PROVIDER_INVALID_RESPONSE;
    let one = |text: &str| vec![text.to_owned()];
    check(&one(&frame(&[r#"{"text":"x"}"#])), codes::STREAM_CUT, "without saying");
    check(&one("{\"candidates\":"), invalid, "chunk");
    check(
        &one(
            r#"{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"3s"}]}}"#,
        ),
        codes::RATE_LIMITED,
        "slow",
    );
    check(
        &one(r#"{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}"#),
        codes::OVERLOADED,
        "x",
    );
    check(&one(&last("MALFORMED_FUNCTION_CALL")), invalid, "MALFORMED_FUNCTION_CALL");
    check(&one(&last("REASON_OF_TOMORROW")), invalid, "REASON_OF_TOMORROW");
    check(&one(&frame(&[r#"{"functionCall":{}}"#])), invalid, "no tool name");
    let open = frame(&[r#"{"functionCall":{"name":"a","willContinue":true}}"#]);
    check(&[open.clone(), last("STOP")], invalid, "not whole");
    check(&[open.clone(), open.clone()], invalid, "inside another");
    let bad = frame(&[r#"{"functionCall":{"partialArgs":[{"jsonPath":"x","stringValue":""}]}}"#]);
    check(&[open, bad], invalid, "unreadable path");
    let many: Vec<_> = (0..129).map(|_| frame(&[r#"{"functionCall":{"name":"a"}}"#])).collect();
    check(&many, invalid, "more than 128");
}

fn body(request: &ModelRequest) -> (Value, String) {
    let text = String::from_utf8(request_body(request).unwrap()).unwrap();
    (serde_json::from_str(&text).unwrap(), text)
}

#[test]
fn the_whole_request() {
    let signed =
        r#"{"functionCall":{"name":"fs--read","args":{ "z":1.0 }},"thoughtSignature":"c2ln"}"#;
    let named = r#"{"functionCall":{"id":"f7","name":"fs--list","args":{}}}"#;
    let ids = r#"["call_0","f7"]"#;
    let carry = Carry {
        dialect: "google".to_owned(),
        model: "gemini-2.5-flash".to_owned(),
        blocks: [ids, signed, named].map(str::to_owned).to_vec(),
    };
    let call = |id: &str, tool: &str| ModelCall {
        id: id.to_owned(),
        tool: tool.to_owned(),
        arguments: "{\"z\":1.0}".to_owned(),
    };
    let result = |id: &str, status: &str| Message::ToolResult {
        id: id.to_owned(),
        content: "out".to_owned(),
        status: status.to_owned(),
    };
    let image = Image { media_type: "image/png".to_owned(), base64: "AAAA".to_owned() };
    let mut request = ModelRequest {
        model: "gemini-2.5-flash".to_owned(),
        system: "sys".to_owned(),
        messages: vec![
            Message::User { text: "go".to_owned(), images: vec![image] },
            Message::Assistant {
                text: String::new(),
                calls: vec![call("call_0", "fs.read"), call("f7", "fs.list")],
                carry: Some(carry),
            },
            result("call_0", "completed"),
            result("f7", "failed"),
        ],
        tools: vec![
            ToolSpec {
                name: "fs.read".to_owned(),
                description: "reads".to_owned(),
                parameters: json!({"type": "object", "properties": {"path": {"type": "string"}},
                    "additionalProperties": false}),
            },
            ToolSpec {
                name: "fs.list".to_owned(),
                description: "lists".to_owned(),
                parameters: json!({"type": "object"}),
            },
        ],
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
    assert!(text.contains(&format!("[{signed},{named}]")), "byte for byte: {text}");
    let expected = json!({
        "systemInstruction": {"parts": [{"text": "sys"}]},
        "generationConfig": {"maxOutputTokens": 64, "responseMimeType": "application/json",
            "responseSchema": {"type": "OBJECT"},
            "thinkingConfig": {"includeThoughts": true, "thinkingBudget": 1024}},
        "tools": [{"functionDeclarations": [
            {"name": "fs--read", "description": "reads", "parameters":
                {"type": "OBJECT", "properties": {"path": {"type": "STRING"}}}},
            {"name": "fs--list", "description": "lists"}]}],
        "contents": [
            {"role": "user", "parts": [
                {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}, {"text": "go"}]},
            {"role": "model", "parts": [
                serde_json::from_str::<Value>(signed).unwrap(),
                serde_json::from_str::<Value>(named).unwrap()]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "fs--read", "response": {"result": "out"}}},
                {"functionResponse": {"name": "fs--list", "response": {"error": "out"},
                    "id": "f7"}}]},
        ],
    });
    assert_eq!(value, expected);
    // Another model gets the calls without what was signed for this one.
    request.model = "gemini-3".to_owned();
    let (value, text) = body(&request);
    assert!(!text.contains("c2ln"), "{text}");
    assert_eq!(
        value["contents"][1]["parts"][0],
        json!({"functionCall": {"name": "fs--read", "args": {"z": 1.0}}})
    );
}

#[test]
fn the_model_is_in_the_path() {
    let check = |model: &str, expected: Option<&str>| {
        assert_eq!(operation(model).ok().as_deref(), expected, "{model}");
    };
    check("gemini-2.5-flash", Some("/models/gemini-2.5-flash:streamGenerateContent?alt=sse"));
    check("models/gemini-3", Some("/models/gemini-3:streamGenerateContent?alt=sse"));
    for bad in ["", "../x", "a/b", "a?key=b", "a:b", "a b", "a%2f"] {
        check(bad, None);
    }
}
