//! Servers that mean no good, in every dialect: whatever they send, the request ends in a typed error
//! within its limits, and nothing of the answer is run.

use std::time::{Duration, Instant};

use glasshouse_model::Code;
use glasshouse_provider::{Completion, Dialect, Error, Finish, Provider, Remote, Timeouts, codes};

use crate::server::{Act, STREAM_HEAD, Server, chunk, http, streamed};
use crate::{ask, request};

fn remote(server: &Server, dialect: Dialect, timeouts: Timeouts) -> Remote {
    Remote::builder(dialect, server.base_url(), "m", None).timeouts(timeouts).build().unwrap()
}

async fn answer(dialect: Dialect, acts: Vec<Act>, timeouts: Timeouts) -> Result<Completion, Error> {
    let server = Server::start(acts).await;
    ask(&remote(&server, dialect, timeouts), &request("hi")).await.0
}

/// A document as the dialect frames it.
fn framed(dialect: Dialect, document: &str) -> String {
    match dialect {
        Dialect::Ollama => format!("{document}\n"),
        _ => format!("data: {document}\n\n"),
    }
}

/// More of an answer's words.
fn words(dialect: Dialect, text: &str) -> String {
    let document = match dialect {
        Dialect::Chat => format!(r#"{{"choices":[{{"delta":{{"content":"{text}"}}}}]}}"#),
        Dialect::Responses => format!(
            r#"{{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"{text}"}}"#
        ),
        Dialect::Anthropic => format!(
            r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#
        ),
        Dialect::Google => {
            format!(r#"{{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}]}}}}]}}"#)
        }
        Dialect::Ollama => format!(r#"{{"message":{{"content":"{text}"}}}}"#),
    };
    framed(dialect, &document)
}

/// What comes before the words.
fn beginning(dialect: Dialect) -> String {
    match dialect {
        Dialect::Anthropic => [
            r#"{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        ]
        .map(|document| framed(dialect, document))
        .concat(),
        _ => String::new(),
    }
}

async fn check(dialect: Dialect, body: &str, code: Code) {
    let acts = vec![Act::Send(streamed(body, 4 << 10))];
    let error = answer(dialect, acts, Timeouts::default()).await.unwrap_err();
    assert!(error.is(code), "{dialect:?}: {error}\n{}", &body[..body.len().min(300)]);
}

#[tokio::test]
async fn an_error_inside_a_success_is_an_error() {
    let error = |dialect: Dialect| match dialect {
        Dialect::Responses | Dialect::Anthropic => {
            r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#
        }
        Dialect::Google => r#"{"error":{"code":503,"status":"UNAVAILABLE","message":"busy"}}"#,
        _ => r#"{"error":{"type":"overloaded_error","message":"busy"}}"#,
    };
    for dialect in Dialect::ALL {
        let sent = framed(dialect, error(dialect));
        check(dialect, &sent, codes::OVERLOADED).await;
        let late = [beginning(dialect), words(dialect, "half an"), sent].concat();
        check(dialect, &late, codes::OVERLOADED).await;
    }
}

#[tokio::test]
async fn documents_that_are_none_are_an_error() {
    let deep = "[".repeat(100_000);
    let deep_object = "{\"a\":".repeat(100_000);
    for dialect in Dialect::ALL {
        for document in ["{", "{\"choices\":[", "nothing", "\u{0}", &deep, &deep_object] {
            let body = [beginning(dialect), framed(dialect, document)].concat();
            check(dialect, &body, codes::PROVIDER_INVALID_RESPONSE).await;
        }
    }
}

#[tokio::test]
async fn an_answer_without_end_is_stopped_by_its_size() {
    for dialect in Dialect::ALL {
        let piece = chunk(&words(dialect, &"x".repeat(1 << 20)));
        let piece: &'static str = Box::leak(piece.into_boxed_str());
        let start = format!("{STREAM_HEAD}{}", chunk(&format!("{}\n", beginning(dialect))));
        let acts =
            vec![Act::Send(start.into_bytes()), Act::Trickle(piece.as_bytes(), Duration::ZERO)];
        let error = answer(dialect, acts, Timeouts::default()).await.unwrap_err();
        assert!(error.is(codes::PROVIDER_RESPONSE_TOO_LARGE), "{dialect:?}: {error}");
    }
}

/// Each piece comes in time; the whole never does.
#[tokio::test]
async fn what_drips_is_stopped_by_the_clock() {
    let quick = Timeouts { connect_ms: 5_000, first_byte_ms: 400, idle_ms: 300, total_ms: 600 };
    let drip = Duration::from_millis(20);
    let started = Instant::now();
    for dialect in Dialect::ALL {
        // Head lines, one by one, for ever.
        let slow_head =
            vec![Act::Send(b"HTTP/1.1 200 OK\r\n".to_vec()), Act::Trickle(b"x: y\r\n", drip)];
        let word: &'static str = Box::leak(chunk(&words(dialect, "x")).into_boxed_str());
        let slow_words = vec![
            Act::Send(
                format!("{STREAM_HEAD}{}", chunk(&format!("{}\n", beginning(dialect)))).into(),
            ),
            Act::Trickle(word.as_bytes(), drip),
        ];
        let slow_reason = vec![
            Act::Send(b"HTTP/1.1 500 No\r\nconnection: close\r\n\r\n".to_vec()),
            Act::Trickle(b"x", drip),
        ];
        for acts in [slow_head, slow_words, slow_reason] {
            let error = answer(dialect, acts, quick).await.unwrap_err();
            assert!(error.is(codes::PROVIDER_TIMEOUT), "{dialect:?}: {error}");
        }
    }
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[tokio::test]
async fn heads_that_lead_elsewhere_or_pack_the_body_are_refused() {
    for dialect in Dialect::ALL {
        let check = async |answer_bytes: Vec<u8>, code: Code| {
            let server = Server::answering(answer_bytes).await;
            let asked = ask(&remote(&server, dialect, Timeouts::default()), &request("hi")).await;
            let error = asked.0.unwrap_err();
            assert!(error.is(code), "{dialect:?}: {error}");
            assert_eq!(server.requests().len(), 1, "{dialect:?}: it was followed");
        };
        // A redirect to the very server that redirects: whoever follows never comes back.
        check(http("307 Again", "location: /v1\r\n", ""), codes::PROVIDER_REDIRECTED).await;
        // A bomb is never unpacked, whatever its packing is called.
        let bomb = "\u{1f}\u{8b}".repeat(1_000);
        for packing in ["gzip", "br", "deflate, gzip", "zstd"] {
            let headers = format!("content-encoding: {packing}\r\n");
            check(http("200 OK", &headers, &bomb), codes::PROVIDER_INVALID_RESPONSE).await;
        }
    }
}

/// Ends in a row, words after the end, an end without a beginning: one answer or an error, and no call
/// runs that was not whole before its first end.
#[tokio::test]
async fn ends_in_the_wrong_place_run_nothing_more() {
    let call = |n: u32| {
        format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":{n},"id":"c{n}","function":{{"name":"fs--read","arguments":"{{}}"}}}}]}}}}]}}"#
        )
    };
    let (first, second) = (call(0), call(1));
    let end = r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#;
    let body = |documents: &[&str]| -> String {
        documents.iter().map(|document| framed(Dialect::Chat, document)).collect()
    };
    let runs = async |documents: &[&str]| {
        let acts = vec![Act::Send(streamed(&body(documents), 50))];
        let answer = answer(Dialect::Chat, acts, Timeouts::default()).await.ok()?;
        assert!(answer.finish == Finish::ToolCalls || answer.calls.is_empty());
        Some(answer.calls.len())
    };
    assert_eq!(runs(&[&first, end, "[DONE]"]).await, Some(1), "the control");
    assert_eq!(runs(&[&first, end, end, "[DONE]"]).await, Some(1));
    assert_eq!(runs(&[&first, end, "[DONE]", &second, end, "[DONE]"]).await, Some(1));
    assert_eq!(runs(&["[DONE]", &first, end]).await.unwrap_or(0), 0);
}

/// Absurd counts neither overflow nor make an answer free.
#[tokio::test]
async fn absurd_counts_cost_no_less_than_everything() {
    let prices = "models: { m: { input: 1000000, cache_read: 999999, cache_write: 1000000, output: 1000000 } }";
    let prices = glasshouse_provider::Prices::parse(prices, "prices").unwrap();
    let end = r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}"#;
    for count in ["18446744073709551615", "1e30", "-5", "\"many\"", "1.5", "null"] {
        let usage = format!(
            r#"{{"choices":[],"usage":{{"prompt_tokens":{count},"completion_tokens":{count},"prompt_tokens_details":{{"cached_tokens":{count}}}}}}}"#
        );
        let body: String = [end, &usage, "[DONE]"].map(|d| framed(Dialect::Chat, d)).concat();
        let acts = vec![Act::Send(streamed(&body, 64))];
        let Ok(answer) = answer(Dialect::Chat, acts, Timeouts::default()).await else { continue };
        let total = answer.usage.total();
        let cost = prices.cost_micros("m", &answer.usage).unwrap();
        assert!(total == 0 || cost >= total, "{count}: {:?} costs {cost}", answer.usage);
        let server = Server::start(Vec::new()).await;
        assert!(
            remote(&server, Dialect::Chat, Timeouts::default())
                .cost_micros("m", &answer.usage)
                .is_none()
        );
    }
}
