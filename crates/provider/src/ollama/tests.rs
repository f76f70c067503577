//! Streams of this dialect.

use serde_json::{Value, json};

use super::request_body;
use crate::wire::check::{Want, check, check_error};
use crate::{
    Dialect, Effort, Finish, Image, Message, ModelCall, ModelRequest, OutputFormat, codes,
};

fn lines(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

const HEL: &str =
    r#"{"model":"m","created_at":"t","message":{"role":"assistant","content":"Hel"},"done":false}"#;
const LO: &str = r#"{"model":"m","message":{"role":"assistant","content":"lo ü"},"done":false}"#;
const CALL: &str = r#"{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"fs--read","arguments":{"path": "a"}}},{"function":{"name":"a","arguments":"{}"}}]},"done":false}"#;

fn done(reason: &str) -> String {
    format!(
        r#"{{"model":"m","message":{{"role":"assistant","content":""}},"done":true,"done_reason":"{reason}","total_duration":5,"prompt_eval_count":9,"eval_count":4}}"#
    )
}

#[test]
fn answers() {
    let stop = done("stop");
    let want = Want { text: "Hello ü", usage: [9, 0, 0, 4, 0], ..Want::NOTHING };
    check(Dialect::Ollama, &lines(&[HEL, LO, &stop]), &want);
    check(Dialect::Ollama, &lines(&[HEL, LO, &stop]).replace('\n', "\r\n"), &want);
    check(Dialect::Ollama, lines(&[HEL, LO, &stop]).trim_end(), &want);
    check(
        Dialect::Ollama,
        &lines(&[HEL, LO, &done("length")]),
        &Want { finish: Finish::Length, ..want },
    );
    let thinks = r#"{"message":{"content":"","thinking":"hm"},"done":false}"#;
    let want = Want {
        text: "Hel",
        reasoning: "hm",
        calls: &[("call_0", "fs.read", "{\"path\": \"a\"}"), ("call_1", "a", "{}")],
        finish: Finish::ToolCalls,
        usage: [9, 0, 0, 4, 0],
        ..Want::NOTHING
    };
    check(Dialect::Ollama, &lines(&[thinks, HEL, CALL, &stop]), &want);
    // All in one line, from a server that was asked not to stream.
    let whole = r#"{"message":{"content":"Hi"},"done":true,"done_reason":"stop"}"#;
    check(Dialect::Ollama, whole, &Want { text: "Hi", ..Want::NOTHING });
}

#[test]
fn hostile_streams() {
    let check = |body: &[&str], code, words: &str| {
        check_error(Dialect::Ollama, &lines(body), code, words);
    };
    let invalid = codes::PROVIDER_INVALID_RESPONSE;
    check(&[HEL], codes::STREAM_CUT, "without saying");
    check(&["{\"message\":"], invalid, "chunk");
    check(&["<html>", &done("stop")], invalid, "chunk");
    check(&[HEL, r#"{"error":"model ran out of memory"}"#], codes::PROVIDER_FAILED, "memory");
    check(&[&done("load")], invalid, "load");
    check(&[r#"{"message":{"tool_calls":[{"function":{}}]}}"#], invalid, "name");
    check(&[r#"{"message":{"tool_calls":[{"function":{"name":""}}]}}"#], invalid, "no tool name");
    let many = vec![CALL; 65];
    check(&many, invalid, "more than 128");
}

#[test]
fn the_whole_request() {
    let image = Image { media_type: "image/png".to_owned(), base64: "AAAA".to_owned() };
    let request = ModelRequest {
        model: "m".to_owned(),
        system: "sys".to_owned(),
        messages: vec![
            Message::User { text: "go".to_owned(), images: vec![image] },
            Message::Assistant {
                text: "so".to_owned(),
                calls: vec![ModelCall {
                    id: "call_0".to_owned(),
                    tool: "fs.read".to_owned(),
                    arguments: "{\"z\":1.0}".to_owned(),
                }],
                carry: None,
            },
            Message::ToolResult {
                id: "call_0".to_owned(),
                content: "out".to_owned(),
                status: "completed".to_owned(),
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
    let text = String::from_utf8(request_body(&request).unwrap()).unwrap();
    assert!(text.contains("\"arguments\":{\"z\":1.0}"), "{text}");
    let expected = json!({
        "model": "m", "stream": true, "think": true, "format": {"type": "object"},
        "options": {"num_predict": 64},
        "messages": [
            {"role": "system", "content": "sys"},
            {"role": "user", "content": "go", "images": ["AAAA"]},
            {"role": "assistant", "content": "so",
                "tool_calls": [{"function": {"name": "fs--read", "arguments": {"z": 1.0}}}]},
            {"role": "tool", "content": "out", "tool_name": "fs--read"},
        ],
    });
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
}
