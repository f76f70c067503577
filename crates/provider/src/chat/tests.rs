//! Streams of this dialect, with every difference that compatible servers are known for.

use crate::wire::check::{self, Read, Want, deltas_add_up, events};
use crate::{Dialect, Finish, codes};

fn read(pieces: &[&[u8]]) -> Read {
    check::read(Dialect::Chat, pieces)
}

/// What a stream should be read as.
struct Expected<'a> {
    text: &'a str,
    /// `(id, tool, arguments)`.
    calls: &'a [(&'a str, &'a str, &'a str)],
    finish: Finish,
    /// `(whole input, output)`.
    tokens: (u64, u64),
}

fn check(chunks: &[&str], expected: &Expected<'_>) {
    check_body(&events(chunks), expected);
}

fn check_body(body: &str, expected: &Expected<'_>) {
    let (completion, _) = read(&[body.as_bytes()]).unwrap_or_else(|e| panic!("{e}\n{body}"));
    let usage = completion.usage;
    assert_eq!((usage.total() - usage.output, usage.output), expected.tokens, "{body}");
    let want = Want {
        text: expected.text,
        reasoning: &completion.reasoning,
        calls: expected.calls,
        finish: expected.finish,
        usage: [
            usage.input_uncached,
            usage.cache_read,
            usage.cache_write,
            usage.output,
            usage.reasoning,
        ],
        carry: &[],
    };
    check::check(Dialect::Chat, body, &want);
}

fn check_error(chunks: &[&str], code: glasshouse_model::Code, words: &str) {
    check::check_error(Dialect::Chat, &events(chunks), code, words);
}

const TEXT: &str = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"}}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const CALLS_END: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}"#;
const DONE_MARK: &str = "[DONE]";

#[test]
fn text_with_every_kind_of_end() {
    let hello = |finish, tokens| Expected { text: "Hello ü", calls: &[], finish, tokens };
    let more = r#"{"choices":[{"index":0,"delta":{"content":"lo ü"}}]}"#;
    check(&[TEXT, more, STOP, USAGE, DONE_MARK], &hello(Finish::Stop, (9, 4)));
    check(&[TEXT, more, STOP, DONE_MARK], &hello(Finish::Stop, (0, 0)));
    check(&[TEXT, more, STOP], &hello(Finish::Stop, (0, 0)));
    // The reason stays null to the end, and only the mark or the last report ends the answer.
    check(&[TEXT, more, DONE_MARK], &hello(Finish::Stop, (0, 0)));
    check(&[TEXT, more, USAGE], &hello(Finish::Stop, (9, 4)));
    // The reason is an empty text until it is known.
    let empty_reason = r#"{"choices":[{"delta":{"content":"lo ü"},"finish_reason":""}]}"#;
    check(&[TEXT, empty_reason, STOP, DONE_MARK], &hello(Finish::Stop, (0, 0)));
    for (reason, finish) in [
        ("length", Finish::Length),
        ("max_tokens", Finish::Length),
        ("content_filter", Finish::ContentFilter),
        ("refusal", Finish::Refusal),
        ("end_turn", Finish::Stop),
        ("eos", Finish::Stop),
    ] {
        let end = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#);
        check(&[TEXT, more, &end, DONE_MARK], &hello(finish, (0, 0)));
    }
}

#[test]
fn oddities_around_text() {
    let hello = Expected { text: "Hel", calls: &[], finish: Finish::Stop, tokens: (9, 4) };
    // Filter results first, a keep-alive object, nulls, other choices, thinking.
    check(
        &[
            r#"{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}"#,
            r#"{"choices":null,"usage":null,"error":null}"#,
            r#"{"choices":[{"index":0,"delta":{"content":null,"tool_calls":null,"refusal":null}}]}"#,
            r#"{"choices":[{"index":0,"delta":null}]}"#,
            r#"{"choices":[{"index":1,"delta":{"content":"other"},"finish_reason":"length"}]}"#,
            r#"{"choices":[{"index":0,"delta":{"reasoning_content":"hm","reasoning":"hm"}}]}"#,
            TEXT,
            STOP,
            USAGE,
            DONE_MARK,
        ],
        &hello,
    );
    // A usage report in every chunk: the last one counts.
    check(
        &[
            r#"{"choices":[{"delta":{"content":"He"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}"#,
            r#"{"choices":[{"delta":{"content":"l"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":4}}"#,
        ],
        &hello,
    );
    // Content as parts, of which only text counts.
    check(
        &[
            r#"{"choices":[{"delta":{"content":[{"type":"thinking","text":"hm"},{"type":"text","text":"Hel"}]}}]}"#,
            STOP,
            USAGE,
        ],
        &hello,
    );
    let body = events(&[TEXT, STOP, USAGE, DONE_MARK]);
    check_body(&body.replace('\n', "\r\n"), &hello);
    check_body(&body.replace('\n', "\r"), &hello);
    check_body(&format!("\u{feff}{body}"), &hello);
    check_body(&format!(": thinking\n\n\n{body}"), &hello);
    check_body(&body.replace("data: ", "event: chunk\nid: 1\ndata:"), &hello);
    check_body(body.trim_end(), &hello);
    check_body(&format!("{body}data: not json after the end\n\n"), &hello);
}

#[test]
fn a_refusal_is_its_own_end() {
    let refusal = r#"{"choices":[{"delta":{"refusal":"I will not."}}]}"#;
    let expected =
        Expected { text: "I will not.", calls: &[], finish: Finish::Refusal, tokens: (0, 0) };
    check(&[refusal, STOP, DONE_MARK], &expected);
    let (completion, _) = read(&[events(&[refusal, STOP]).as_bytes()]).unwrap();
    let error = completion.refused().unwrap();
    assert!(error.is(codes::REFUSAL) && error.to_string().contains("I will not."));
    let (stopped, _) = read(&[events(&[TEXT, STOP]).as_bytes()]).unwrap();
    assert!(stopped.refused().is_none());
}

/// A chunk with pieces of calls.
fn pieces(list: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{"tool_calls":[{list}]}}}}]}}"#)
}

fn check_calls(lists: &[&str], calls: &[(&str, &str, &str)]) {
    let mut chunks: Vec<_> = lists.iter().map(|list| pieces(list)).collect();
    chunks.push(CALLS_END.to_owned());
    chunks.push(DONE_MARK.to_owned());
    let chunks: Vec<_> = chunks.iter().map(String::as_str).collect();
    check(&chunks, &Expected { text: "", calls, finish: Finish::ToolCalls, tokens: (0, 0) });
}

#[test]
fn calls_as_the_protocol_has_them() {
    check_calls(
        &[
            r#"{"index":0,"id":"c1","type":"function","function":{"name":"fs--read","arguments":""}}"#,
            r#"{"index":0,"function":{"arguments":"{\"path\":"}}"#,
            r#"{"index":0,"function":{"arguments":" \"ü\"}"}}"#,
        ],
        &[("c1", "fs.read", "{\"path\": \"ü\"}")],
    );
    // Two calls whose pieces alternate.
    check_calls(
        &[
            r#"{"index":0,"id":"c1","function":{"name":"a","arguments":""}}"#,
            r#"{"index":1,"id":"c2","function":{"name":"b","arguments":""}}"#,
            r#"{"index":0,"function":{"arguments":"{}"}}"#,
            r#"{"index":1,"function":{"arguments":"{\"x\":1}"}}"#,
        ],
        &[("c1", "a", "{}"), ("c2", "b", "{\"x\":1}")],
    );
    check_calls(
        &[
            r#"{"index":0,"id":"c1","function":{"name":"a","arguments":"{}"}},{"index":1,"id":"c2","function":{"name":"a","arguments":"{}"}}"#,
        ],
        &[("c1", "a", "{}"), ("c2", "a", "{}")],
    );
}

#[test]
fn calls_as_compatible_servers_have_them() {
    // Always number 0, told apart by id.
    check_calls(
        &[
            r#"{"index":0,"id":"c1","function":{"name":"a","arguments":"{}"}}"#,
            r#"{"index":0,"id":"c2","function":{"name":"a","arguments":"{\"x\""}}"#,
            r#"{"index":0,"function":{"arguments":":1}"}}"#,
        ],
        &[("c1", "a", "{}"), ("c2", "a", "{\"x\":1}")],
    );
    // No number, told apart by id, id repeated.
    check_calls(
        &[
            r#"{"id":"c1","function":{"name":"a","arguments":"{"}}"#,
            r#"{"id":"c1","function":{"arguments":"}"}}"#,
            r#"{"id":"c2","function":{"name":"b","arguments":"{}"}}"#,
        ],
        &[("c1", "a", "{}"), ("c2", "b", "{}")],
    );
    // Neither number nor id.
    check_calls(
        &[
            r#"{"function":{"name":"a","arguments":"{}"}}"#,
            r#"{"function":{"name":"b","arguments":"{\"x\""}}"#,
            r#"{"function":{"arguments":":1}"}}"#,
            r#"{"id":"","function":{"name":"b","arguments":"{\"x\":2}"}}"#,
        ],
        &[("call_0", "a", "{}"), ("call_1", "b", "{\"x\":1}"), ("call_2", "b", "{\"x\":2}")],
    );
    check_calls(
        &[r#"{"function":{"name":"a","arguments":""}},{"function":{"name":"a","arguments":""}}"#],
        &[("call_0", "a", ""), ("call_1", "a", "")],
    );
    // The name in every piece, with and without number.
    check_calls(
        &[
            r#"{"index":0,"id":"c1","function":{"name":"a","arguments":"{\"x\""}}"#,
            r#"{"index":0,"id":"c1","function":{"name":"a","arguments":":\"}\""}}"#,
            r#"{"index":0,"id":"c1","function":{"name":"a","arguments":"}"}}"#,
        ],
        &[("c1", "a", "{\"x\":\"}\"}")],
    );
    check_calls(
        &[
            r#"{"function":{"name":"a","arguments":"{\"x\""}}"#,
            r#"{"function":{"name":"a","arguments":":1}"}}"#,
            r#"{"function":{"name":"a","arguments":""}}"#,
        ],
        &[("call_0", "a", "{\"x\":1}")],
    );
    // Arguments as an object, kept as written; null; a name after the arguments.
    check_calls(
        &[r#"{"index":0,"id":"c1","function":{"name":"a","arguments":{"z": 1.0, "a":[ ]}}}"#],
        &[("c1", "a", r#"{"z": 1.0, "a":[ ]}"#)],
    );
    check_calls(
        &[r#"{"index":0,"id":"c1","function":{"name":"a","arguments":null}}"#],
        &[("c1", "a", "")],
    );
    check_calls(
        &[
            r#"{"index":0,"id":"c1","function":{"arguments":"{}"}}"#,
            r#"{"index":0,"function":{"name":"a"}}"#,
        ],
        &[("c1", "a", "{}")],
    );
    // One id for two calls, and an id that the minted one would have had.
    check_calls(
        &[
            r#"{"index":0,"id":"x","function":{"name":"a","arguments":"{}"}}"#,
            r#"{"index":1,"id":"x","function":{"name":"b","arguments":"{}"}}"#,
        ],
        &[("x", "a", "{}"), ("call_1", "b", "{}")],
    );
    check_calls(
        &[
            r#"{"index":0,"id":"call_1","function":{"name":"a","arguments":"{}"}}"#,
            r#"{"index":1,"function":{"name":"b","arguments":"{}"}}"#,
        ],
        &[("call_1", "a", "{}"), ("call_2", "b", "{}")],
    );
}

#[test]
fn arguments_are_passed_on_unread() {
    for arguments in ["{\"path\":\"a", "", "[]", "{\"a\":1}{\"b\":2}", "null", "\0"] {
        let text = serde_json::to_string(arguments).unwrap();
        let list =
            format!(r#"{{"index":0,"id":"c1","function":{{"name":"a","arguments":{text}}}}}"#);
        check_calls(&[&list], &[("c1", "a", arguments)]);
    }
}

#[test]
fn stop_with_calls_means_calls() {
    let call = pieces(r#"{"index":0,"id":"c1","function":{"name":"a","arguments":"{}"}}"#);
    let calls = &[("c1", "a", "{}")][..];
    let expected = Expected { text: "Hel", calls, finish: Finish::ToolCalls, tokens: (0, 0) };
    check(&[TEXT, &call, STOP, DONE_MARK], &expected);
    check(&[TEXT, &call, DONE_MARK], &expected);
}

#[test]
fn an_answer_that_was_stopped_runs_nothing() {
    let call = pieces(r#"{"index":0,"id":"c1","function":{"name":"a","arguments":""}}"#);
    for (reason, finish) in [
        ("length", Finish::Length),
        ("content_filter", Finish::ContentFilter),
        ("refusal", Finish::Refusal),
    ] {
        let end = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#);
        let expected = Expected { text: "Hel", calls: &[], finish, tokens: (0, 0) };
        check(&[TEXT, &call, &end, DONE_MARK], &expected);
    }
}

#[test]
fn a_body_that_does_not_stream() {
    let whole = r#"{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"Hel",
        "tool_calls":[{"id":"c1","type":"function","function":{"name":"fs--read","arguments":"{}"}}]},
        "finish_reason":"tool_calls"}],"usage":{"prompt_tokens":9,"completion_tokens":4}}"#;
    let calls = &[("c1", "fs.read", "{}")][..];
    let expected = Expected { text: "Hel", calls, finish: Finish::ToolCalls, tokens: (9, 4) };
    check_body(whole, &expected);
    check_body(&format!("\u{feff} \r\n{whole}\n"), &expected);
}

#[test]
fn answers_that_cannot_be_used() {
    let invalid = codes::PROVIDER_INVALID_RESPONSE;
    check_error(&["<html>"], invalid, "<html>");
    check_error(&["{\"choices\":7}", STOP], invalid, "choices");
    check_error(&["[1]", STOP], invalid, "chunk");
    check_error(&[TEXT, r#"{"choices":[{"finish_reason":"abort"}]}"#], invalid, "abort");
    check_error(&[TEXT, CALLS_END], invalid, "holds none");
    let nameless = pieces(r#"{"index":0,"id":"c1","function":{"arguments":"{}"}}"#);
    check_error(&[&nameless, CALLS_END], invalid, "call 0 has no tool name");
    let many: Vec<_> = (0..129)
        .map(|n| format!(r#"{{"index":{n},"id":"c{n}","function":{{"name":"a"}}}}"#))
        .collect();
    check_error(&[&pieces(&many.join(",")), CALLS_END], invalid, "more than 128 calls");
    assert!(read(&[b"data: \xff\n\n"]).unwrap_err().is(invalid));
    assert!(read(&[b"{\"a\":\"\xff\"}"]).unwrap_err().is(invalid));
}

#[test]
fn errors_inside_a_stream_are_errors() {
    let overloaded = r#"{"error":{"message":"try later","type":"overloaded_error"}}"#;
    check_error(&[TEXT, overloaded, STOP, DONE_MARK], codes::OVERLOADED, "try later");
    check_error(&[overloaded], codes::OVERLOADED, "try later");
    let limited = r#"{"choices":[],"error":{"message":"slow","code":429}}"#;
    check_error(&[TEXT, limited], codes::RATE_LIMITED, "slow");
    check_error(&[r#"{"error":"out of memory"}"#], codes::PROVIDER_FAILED, "out of memory");
    let named = "event: error\ndata: {\"message\":\"x\",\"type\":\"rate_limit_error\"}\n\n";
    assert!(read(&[named.as_bytes()]).unwrap_err().is(codes::RATE_LIMITED));
    let words = "event: error\ndata: the worker died\n\n";
    assert!(read(&[words.as_bytes()]).unwrap_err().is(codes::PROVIDER_FAILED));
    let body = br#"{"error":{"message":"x","code":"context_length_exceeded"}}"#;
    assert!(read(&[body]).unwrap_err().is(codes::CONTEXT_OVERFLOW));
}

#[test]
fn thoughts_and_extras_are_kept_for_the_way_back() {
    let chunks = [
        r#"{"choices":[{"delta":{"reasoning_content":"h"}}]}"#,
        r#"{"choices":[{"delta":{"reasoning_content":"m"}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","extra_content":{"google":{"thought_signature":"c2ln"}},"function":{"name":"a","arguments":"{}"}}]}}]}"#,
        CALLS_END,
        DONE_MARK,
    ];
    let want = Want {
        reasoning: "hm",
        calls: &[("c1", "a", "{}")],
        finish: Finish::ToolCalls,
        carry: &[
            r#"{"thought":"hm","ids":["c1"],"extras":[{"google":{"thought_signature":"c2ln"}}]}"#,
        ],
        ..Want::NOTHING
    };
    check::check(Dialect::Chat, &events(&chunks), &want);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_are_an_answer_or_an_error(
        start in proptest::sample::select(vec!["", "{", "data: {", "data: {\"choices\":["]),
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60),
        size in 1usize..9,
    ) {
        let body = [start.as_bytes(), &bytes].concat();
        let pieces: Vec<_> = body.chunks(size).collect();
        let key = |read: Read| read.map_err(|error| error.code());
        proptest::prop_assert_eq!(key(read(&pieces)), key(read(&[&body])));
    }

    #[test]
    fn pieces_of_any_size_and_any_junk_read_the_same(
        picks in proptest::collection::vec(0usize..14, 0..12),
        size in 1usize..40,
    ) {
        let parts = [
            TEXT, STOP, CALLS_END, USAGE, DONE_MARK, "{}", "[", "{\"choices\":[{}]}",
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"a","arguments":"{"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"x","function":{"name":"b"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"x"}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{}]}}]}"#,
            r#"{"error":"e"}"#,
        ];
        let body = events(&picks.iter().map(|pick| parts[*pick]).collect::<Vec<_>>());
        let pieces: Vec<_> = body.as_bytes().chunks(size).collect();
        let key = |read: Read| read.map_err(|error| error.to_string());
        let whole = key(read(&[body.as_bytes()]));
        if let Ok((completion, deltas)) = &whole {
            deltas_add_up(completion, deltas);
            let mut ids: Vec<_> = completion.calls.iter().map(|call| &call.id).collect();
            ids.sort();
            ids.dedup();
            proptest::prop_assert_eq!(ids.len(), completion.calls.len());
        }
        proptest::prop_assert_eq!(key(read(&pieces)), whole);
    }
}
