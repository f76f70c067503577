//! Streams of this dialect, with every event and block type it has.

use serde_json::{Value, json};

use super::request_body;
use crate::wire::check::{Want, check, check_error, events};
use crate::{
    Carry, Dialect, Effort, Finish, Image, Message, ModelCall, ModelRequest, OutputFormat,
    ToolSpec, codes,
};

const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":27,"output_tokens":1}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;
const PING: &str = r#"{"type":"ping"}"#;

fn ended(reason: &str) -> String {
    format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{{"output_tokens":47}}}}"#
    )
}

fn begins(index: u64, block: &str) -> String {
    format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
}

fn grows(index: u64, delta: &str) -> String {
    format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#)
}

fn ends(index: u64) -> String {
    format!(r#"{{"type":"content_block_stop","index":{index}}}"#)
}

const USAGE: [u64; 5] = [27, 0, 0, 47, 0];

fn check_events(chunks: &[String], want: &Want<'_>) {
    let chunks: Vec<_> = chunks.iter().map(String::as_str).collect();
    check(Dialect::Anthropic, &events(&chunks), want);
}

/// A text block.
fn says(index: u64, words: &[&str]) -> Vec<String> {
    let mut chunks = vec![begins(index, r#"{"type":"text","text":""}"#)];
    chunks.extend(
        words.iter().map(|w| grows(index, &format!(r#"{{"type":"text_delta","text":"{w}"}}"#))),
    );
    chunks.push(ends(index));
    chunks
}

/// A call whose arguments come in pieces.
fn calls(index: u64, id: &str, pieces: &[&str]) -> Vec<String> {
    let start = format!(r#"{{"type":"tool_use","id":"{id}","name":"fs--read","input":{{}}}}"#);
    let mut chunks = vec![begins(index, &start)];
    chunks.extend(pieces.iter().map(|piece| {
        let piece = Value::from(*piece);
        grows(index, &format!(r#"{{"type":"input_json_delta","partial_json":{piece}}}"#))
    }));
    chunks.push(ends(index));
    chunks
}

fn message(parts: &[Vec<String>], reason: &str) -> Vec<String> {
    let mut chunks = vec![START.to_owned(), PING.to_owned()];
    chunks.extend(parts.concat());
    chunks.push(ended(reason));
    chunks.push(STOP.to_owned());
    chunks
}

#[test]
fn words_with_every_end() {
    for (reason, finish) in [
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("max_tokens", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("refusal", Finish::Refusal),
        ("pause_turn", Finish::Paused),
    ] {
        let chunks = message(&[says(0, &["Hel", "lo ü"])], reason);
        check_events(&chunks, &Want { text: "Hello ü", finish, usage: USAGE, ..Want::NOTHING });
    }
}

/// The failure: input counted twice when the delta repeats it, or not raised when it grows.
#[test]
fn g4_cumulative_usage_is_not_added() {
    let check = |start: &str, delta: &str, usage: [u64; 5]| {
        let start = format!(r#"{{"type":"message_start","message":{{"id":"m","usage":{start}}}}}"#);
        let end = format!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}},"usage":{delta}}}"#
        );
        let chunks = [vec![start], says(0, &["x"]), vec![end, STOP.to_owned()]].concat();
        check_events(&chunks, &Want { text: "x", usage, ..Want::NOTHING });
    };
    check(
        r#"{"input_tokens":27,"output_tokens":1}"#,
        r#"{"input_tokens":27,"output_tokens":47}"#,
        USAGE,
    );
    check(r#"{"input_tokens":27,"output_tokens":1}"#, r#"{"output_tokens":47}"#, USAGE);
    check(
        r#"{"input_tokens":43,"output_tokens":1}"#,
        r#"{"input_tokens":61,"output_tokens":9}"#,
        [61, 0, 0, 9, 0],
    );
    // Cached tokens are apart from the input's.
    check(
        r#"{"input_tokens":10,"cache_read_input_tokens":90,"cache_creation_input_tokens":7,"output_tokens":1}"#,
        r#"{"output_tokens":5}"#,
        [10, 90, 7, 5, 0],
    );
}

/// The failure: thinking blanked while its signature stays, after which every request is refused.
#[test]
fn g1_blocks_come_back_in_order_and_unchanged() {
    let thinking = |index: u64, text: &str, signature: &str| {
        vec![
            begins(index, r#"{"type":"thinking","thinking":"","signature":""}"#),
            grows(index, &format!(r#"{{"type":"thinking_delta","thinking":"{text}"}}"#)),
            grows(index, r#"{"type":"thinking_delta","thinking":" ü"}"#),
            grows(index, &format!(r#"{{"type":"signature_delta","signature":"{signature}"}}"#)),
            ends(index),
        ]
    };
    let redacted = r#"{"type":"redacted_thinking","data":"EmwK+/=","n":1.50}"#;
    let parts = [
        thinking(0, "first", "c2ln+/="),
        calls(1, "toolu_1", &["{\"path\":", " \"a\"}"]),
        thinking(2, "second", "QUJD"),
        calls(3, "toolu_2", &[""]),
        vec![begins(4, redacted), ends(4)],
        says(5, &["done"]),
    ];
    let want = Want {
        text: "done",
        reasoning: "first üsecond ü",
        calls: &[("toolu_1", "fs.read", "{\"path\": \"a\"}"), ("toolu_2", "fs.read", "{}")],
        finish: Finish::ToolCalls,
        usage: USAGE,
        carry: &[
            r#"{"signature":"c2ln+/=","thinking":"first ü","type":"thinking"}"#,
            r#"{"id":"toolu_1","name":"fs--read","type":"tool_use","input":{"path": "a"}}"#,
            r#"{"signature":"QUJD","thinking":"second ü","type":"thinking"}"#,
            r#"{"type":"tool_use","id":"toolu_2","name":"fs--read","input":{}}"#,
            redacted,
            r#"{"text":"done","type":"text"}"#,
        ],
    };
    check_events(&message(&parts, "tool_use"), &want);
}

#[test]
fn blocks_of_the_provider_itself_are_kept() {
    let search = r#"{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}"#;
    let found = r#"{"type":"web_search_tool_result","tool_use_id":"srv_1","content":[{"n":1.0}]}"#;
    let parts = [
        vec![
            begins(0, search),
            grows(0, r#"{"type":"input_json_delta","partial_json":"{\"query\": \"x\"}"}"#),
            ends(0),
        ],
        vec![begins(1, found), ends(1)],
        vec![
            begins(2, r#"{"type":"mcp_tool_use","id":"m1","name":"n","input":{"a": 1}}"#),
            ends(2),
        ],
        vec![
            begins(3, r#"{"type":"text","text":""}"#),
            grows(3, r#"{"type":"text_delta","text":"It is x."}"#),
            grows(3, r#"{"type":"citations_delta","citation":{"url":"u"}}"#),
            ends(3),
        ],
        vec![
            begins(4, r#"{"type":"compaction","content":""}"#),
            grows(4, r#"{"type":"compaction_delta","content":"so far"}"#),
            ends(4),
        ],
        vec![begins(5, r#"{"type":"fallback","model":"other"}"#), ends(5)],
    ];
    let want = Want {
        text: "It is x.",
        usage: USAGE,
        carry: &[
            r#"{"id":"srv_1","name":"web_search","type":"server_tool_use","input":{"query": "x"}}"#,
            found,
            r#"{"type":"mcp_tool_use","id":"m1","name":"n","input":{"a": 1}}"#,
            r#"{"citations":[{"url":"u"}],"text":"It is x.","type":"text"}"#,
            r#"{"content":"so far","type":"compaction"}"#,
            r#"{"type":"fallback","model":"other"}"#,
        ],
        ..Want::NOTHING
    };
    check_events(&message(&parts, "end_turn"), &want);
    // What cannot be put back together does not go back.
    let unknown = [
        vec![
            begins(0, r#"{"type":"thinking","thinking":""}"#),
            grows(0, r#"{"type":"delta_of_tomorrow","x":1}"#),
            ends(0),
        ],
        says(1, &["x"]),
    ];
    let want = Want { text: "x", usage: USAGE, ..Want::NOTHING };
    check_events(&message(&unknown, "end_turn"), &want);
}

#[test]
fn parallel_calls_and_empty_arguments() {
    let want = |calls| Want { calls, finish: Finish::ToolCalls, usage: USAGE, ..Want::NOTHING };
    check_events(
        &message(
            &[calls(0, "a", &["", "{\"x\":1}"]), calls(1, "b", &[]), calls(2, "a", &["[]"])],
            "tool_use",
        ),
        &want(&[
            ("a", "fs.read", "{\"x\":1}"),
            ("b", "fs.read", "{}"),
            ("call_2", "fs.read", "[]"),
        ]),
    );
    // Gateways give the whole arguments with the start.
    let whole = r#"{"type":"tool_use","id":"a","name":"fs--read","input":{"x":1}}"#;
    check_events(
        &message(&[vec![begins(0, whole), ends(0)]], "tool_use"),
        &want(&[("a", "fs.read", "{\"x\":1}")]),
    );
}

#[test]
fn an_answer_in_a_form_is_text() {
    let start = r#"{"type":"tool_use","id":"f","name":"answer-in-form","input":{}}"#;
    let form = vec![
        begins(0, start),
        grows(0, r#"{"type":"input_json_delta","partial_json":"{\"a\":"}"#),
        grows(0, r#"{"type":"input_json_delta","partial_json":" 1}"}"#),
        ends(0),
    ];
    let want = Want { text: "{\"a\": 1}", usage: USAGE, ..Want::NOTHING };
    check_events(&message(&[form], "tool_use"), &want);
}

#[test]
fn duplicate_and_spliced_starts() {
    let mut twice = message(&[says(0, &["x"])], "end_turn");
    twice.insert(3, START.to_owned());
    let want = Want { text: "x", usage: USAGE, ..Want::NOTHING };
    check_events(&twice, &want);
    let other = START.replace("msg_1", "msg_2").replace("27", "30");
    let mut before = message(&[says(0, &["x"])], "end_turn");
    before.insert(1, other.clone());
    check_events(&before, &Want { usage: [30, 0, 0, 47, 0], ..want });
    let mut inside = message(&[says(0, &["x"])], "end_turn");
    inside.insert(4, other);
    let inside: Vec<_> = inside.iter().map(String::as_str).collect();
    let invalid = codes::PROVIDER_INVALID_RESPONSE;
    check_error(Dialect::Anthropic, &events(&inside), invalid, "a second message");
}

#[test]
fn a_body_that_does_not_stream() {
    let thinking = r#"{"type":"thinking","thinking":"hm","signature":"c2ln"}"#;
    let call = r#"{"type":"tool_use","id":"a","name":"fs--read","input":{"x": 1}}"#;
    let body = format!(
        r#"{{"id":"msg_1","type":"message","content":[{thinking},{call}],"stop_reason":"tool_use","usage":{{"input_tokens":27,"output_tokens":47}}}}"#
    );
    let want = Want {
        reasoning: "hm",
        calls: &[("a", "fs.read", "{\"x\":1}")],
        finish: Finish::ToolCalls,
        usage: USAGE,
        carry: &[thinking, call],
        ..Want::NOTHING
    };
    check(Dialect::Anthropic, &body, &want);
}

#[test]
fn hostile_streams() {
    let check = |chunks: &[String], code, words: &str| {
        let chunks: Vec<_> = chunks.iter().map(String::as_str).collect();
        check_error(Dialect::Anthropic, &events(&chunks), code, words);
    };
    let invalid = codes::PROVIDER_INVALID_RESPONSE;
    let one = |text: &str| vec![text.to_owned()];
    check(&one(START), codes::STREAM_CUT, "without saying");
    check(&one("{\"type\":\"pi"), invalid, "chunk");
    let busy = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    check(&[START.to_owned(), busy.to_owned()], codes::OVERLOADED, "Overloaded");
    check(&one(busy), codes::OVERLOADED, "Overloaded");
    check(&one(r#"{"error":{"message":"no"}}"#), codes::PROVIDER_FAILED, "no");
    check(&one(&grows(0, r#"{"type":"text_delta","text":"x"}"#)), invalid, "not open");
    check(&one(&ends(0)), invalid, "not open");
    let block = begins(0, r#"{"type":"text","text":""}"#);
    check(&[block.clone(), block.clone()], invalid, "begins twice");
    check(&[block.clone(), ends(0), ends(0)], invalid, "not open");
    check(&[block.clone(), ends(0), block.clone()], invalid, "begins twice");
    check(&one(&begins(0, "{}")), invalid, "no type");
    check(&one(&begins(0, r#"{"type":"tool_use","id":"a"}"#)), invalid, "no tool name");
    check(&[block, ended("end_turn"), STOP.to_owned()], invalid, "not whole");
    check(&message(&[], "whatever"), invalid, "whatever");
    check(&message(&[says(0, &["x"])], "tool_use"), invalid, "holds none");
    check(&[START.to_owned(), STOP.to_owned()], invalid, "without saying");
    let many: Vec<_> = (0..129).flat_map(|n| calls(n, "", &["{}"])).collect();
    check(&many, invalid, "more than 128");
}

fn body(request: &ModelRequest) -> (Value, String) {
    let text = String::from_utf8(request_body(request).unwrap()).unwrap();
    (serde_json::from_str(&text).unwrap(), text)
}

fn call(id: &str) -> ModelCall {
    ModelCall { id: id.to_owned(), tool: "fs.read".to_owned(), arguments: "{\"z\":1.0}".to_owned() }
}

fn result(id: &str, status: &str) -> Message {
    Message::ToolResult { id: id.to_owned(), content: "out".to_owned(), status: status.to_owned() }
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
                text: "I read.".to_owned(),
                calls: vec![call("a"), call("b")],
                carry: None,
            },
            result("b", "failed"),
            result("a", "completed"),
            Message::user("and then?"),
        ],
        tools: vec![ToolSpec {
            name: "fs.read".to_owned(),
            description: "reads".to_owned(),
            parameters: json!({"type": "object"}),
        }],
        max_output_tokens: 4096,
        effort: Some(Effort::High),
        ..ModelRequest::default()
    };
    let (value, text) = body(&request);
    assert!(text.contains("\"input\":{\"z\":1.0}"), "arguments as written: {text}");
    let result = |id: &str, is_error: bool| json!({"type": "tool_result", "tool_use_id": id, "content": "out", "is_error": is_error});
    let used =
        |id: &str| json!({"type": "tool_use", "id": id, "name": "fs--read", "input": {"z": 1.0}});
    let expected = json!({
        "model": "m", "max_tokens": 4096, "stream": true,
        "system": [{"type": "text", "text": "sys", "cache_control": {"type": "ephemeral"}}],
        "thinking": {"type": "enabled", "budget_tokens": 3072},
        "tools": [{"name": "fs--read", "description": "reads", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                    "data": "AAAA"}},
                {"type": "text", "text": "go"}]},
            {"role": "assistant",
                "content": [{"type": "text", "text": "I read."}, used("a"), used("b")]},
            {"role": "user", "content": [result("a", false), result("b", true),
                {"type": "text", "text": "and then?"}]},
        ],
    });
    assert_eq!(value, expected);
}

#[test]
fn what_is_signed_goes_back_as_it_came() {
    let blocks = [
        r#"{"type":"thinking", "thinking":"hm","signature":"c2ln","n":1.50}"#,
        r#"{"type":"tool_use","id":"a","name":"fs--read","input":{ "z":1.0 }}"#,
    ];
    let carry = Carry {
        dialect: "anthropic".to_owned(),
        model: "m".to_owned(),
        blocks: blocks.iter().map(|block| (*block).to_owned()).collect(),
    };
    let asked = |carry: Option<Carry>, calls: Vec<ModelCall>| ModelRequest {
        model: "m".to_owned(),
        messages: vec![
            Message::user("go"),
            Message::Assistant { text: String::new(), calls, carry },
            result("a", "completed"),
        ],
        max_output_tokens: 4096,
        effort: Some(Effort::Low),
        ..ModelRequest::default()
    };
    let (value, text) = body(&asked(Some(carry.clone()), vec![call("a")]));
    assert!(text.contains(&format!("[{},{}]", blocks[0], blocks[1])), "{text}");
    assert_eq!(value["messages"][2]["content"][0]["tool_use_id"], "a");
    assert_eq!(value["thinking"]["type"], "enabled");
    // Calls that differ from those in the blocks: the blocks would leave one unanswered.
    for calls in [vec![], vec![call("b")], vec![call("a"), call("b")]] {
        let in_a_turn = !calls.is_empty();
        let (value, text) = body(&asked(Some(carry.clone()), calls));
        assert!(!text.contains("c2ln"), "{text}");
        assert_eq!(value.get("thinking").is_none(), in_a_turn, "{text}");
    }
    // Thinking cannot begin in the middle of a turn.
    assert!(body(&asked(None, vec![call("a")])).0.get("thinking").is_none());
}

#[test]
fn a_form_is_a_forced_call() {
    let request = ModelRequest {
        model: "m".to_owned(),
        messages: vec![Message::user("go")],
        max_output_tokens: 4096,
        effort: Some(Effort::Low),
        format: Some(OutputFormat {
            name: "plan".to_owned(),
            schema: json!({"type": "object"}),
            strict: true,
        }),
        ..ModelRequest::default()
    };
    let (value, _) = body(&request);
    assert_eq!(value["tool_choice"], json!({"type": "tool", "name": "answer-in-form"}));
    assert_eq!(value["tools"][0]["input_schema"], json!({"type": "object"}));
    assert!(value.get("thinking").is_none());
}
