//! The OpenAI-compatible provider against servers that behave well and badly.

use std::time::{Duration, Instant};

use glasshouse_model::Code;
use glasshouse_provider::{
    Cancel, Completion, Dialect, Error, Finish, ModelCall, Provider, Remote, Secret, Timeouts,
    ToolSpec, codes, parse_completion,
};
use serde_json::{Value, json};

use crate::server::{Act, STREAM_HEAD, Server, chunk, http, streamed};
use crate::{ask, request};

const KEY: &str = "sk-test-5f0c2d7e";

/// A text, a call and a usage report.
const BODY: &str = concat!(
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"Grüße\"}}]}\n\n",
    ": still here\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",",
    "\"function\":{\"name\":\"fs--read\",\"arguments\":\"\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,",
    "\"function\":{\"arguments\":\"{\\\"path\\\":\\\"a\\\"}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4}}\n\n",
    "data: [DONE]\n\n",
);

/// Short enough for a test, long enough for a busy machine.
fn quick() -> Timeouts {
    Timeouts { connect_ms: 5_000, first_byte_ms: 900, idle_ms: 300, total_ms: 10_000 }
}

fn provider(server: &Server, timeouts: Timeouts) -> Remote {
    let key = Secret::new(KEY.to_owned()).unwrap();
    Remote::builder(Dialect::Chat, server.base_url(), "test-model", key)
        .timeouts(timeouts)
        .build()
        .unwrap()
}

async fn answer_of(server: &Server) -> Result<Completion, Error> {
    ask(&provider(server, Timeouts::default()), &request("hi")).await.0
}

async fn check_error(answer: impl Into<Vec<u8>>, code: Code, words: &str) -> Error {
    let error = answer_of(&Server::answering(answer).await).await.unwrap_err();
    assert_eq!(error.code(), code.name, "{error}");
    assert!(error.to_string().contains(words), "{error} lacks {words:?}");
    error
}

#[tokio::test]
async fn a_whole_exchange() {
    let server = Server::answering(streamed(BODY, 11)).await;
    let provider = provider(&server, Timeouts::default());
    let mut asked = request("read a");
    asked.tools = vec![ToolSpec {
        name: "fs.read".to_owned(),
        description: "reads".to_owned(),
        parameters: json!({"type": "object"}),
    }];
    let (answer, deltas) = ask(&provider, &asked).await;
    let answer = answer.unwrap();
    assert_eq!(answer.text, "Grüße");
    assert_eq!(answer.finish, Finish::ToolCalls);
    let call = ModelCall {
        id: "c1".to_owned(),
        tool: "fs.read".to_owned(),
        arguments: "{\"path\":\"a\"}".to_owned(),
    };
    assert_eq!(answer.calls, [call]);
    assert_eq!(answer.usage.total(), 13);
    assert_eq!(answer.raw, BODY.as_bytes());
    assert_eq!(parse_completion(Dialect::Chat, "test-model", &answer.raw).unwrap(), answer);
    assert_eq!(deltas.len(), 4);

    let requests = server.requests();
    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    let head = head.to_ascii_lowercase();
    assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{head}");
    for line in [
        format!("host: {}", server.address),
        format!("authorization: bearer {KEY}"),
        "accept-encoding: identity".to_owned(),
        "content-type: application/json".to_owned(),
    ] {
        assert!(head.lines().any(|have| have == line), "{line}: {head}");
    }
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["tools"][0]["function"]["name"], "fs--read");
    assert_eq!(body["stream"], true);
}

#[tokio::test]
async fn every_way_to_send_the_same_body() {
    let event_stream = "content-type: text/event-stream; charset=utf-8\r\n";
    let until_close = format!("HTTP/1.1 200 OK\r\n{event_stream}connection: close\r\n\r\n{BODY}");
    let expected = parse_completion(Dialect::Chat, "test-model", BODY.as_bytes()).unwrap();
    for answer in [
        streamed(BODY, 1),
        streamed(BODY, 1000),
        http("200 OK", event_stream, BODY),
        http("200 OK", "", BODY),
        http("200 OK", "content-encoding: identity\r\n", BODY),
        until_close.clone().into_bytes(),
        until_close.replace("HTTP/1.1", "HTTP/1.0").into_bytes(),
    ] {
        let shown = String::from_utf8_lossy(&answer[..40]).into_owned();
        let got = answer_of(&Server::answering(answer).await).await;
        assert_eq!(got.unwrap(), expected, "{shown}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream() {
    let body = r#"{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}"#;
    let server =
        Server::answering(http("200 OK", "content-type: application/json\r\n", body)).await;
    assert_eq!(answer_of(&server).await.unwrap().text, "Hi");
}

#[tokio::test]
async fn no_key_sends_no_authorization() {
    let server = Server::answering(streamed(BODY, 100)).await;
    let provider = Remote::builder(Dialect::Chat, server.base_url(), "m", None).build().unwrap();
    ask(&provider, &request("hi")).await.0.unwrap();
    assert!(!server.requests()[0].to_ascii_lowercase().contains("authorization"));
}

#[tokio::test]
async fn statuses_and_waits() {
    let reason = r#"{"error":{"message":"because","type":"invalid_request_error"}}"#;
    let check = async |status: &str, headers: &str, code: Code, wait_ms: Option<u64>| {
        let error = check_error(http(status, headers, reason), code, "because").await;
        assert_eq!(error.retry_after_ms(), wait_ms, "{status}");
    };
    check("400 Bad Request", "", codes::PROVIDER_INVALID_REQUEST, None).await;
    check("401 Unauthorized", "", codes::PROVIDER_AUTH, None).await;
    check("403 Forbidden", "", codes::PROVIDER_PERMISSION, None).await;
    check("404 Not Found", "", codes::PROVIDER_NOT_FOUND, None).await;
    check("429 Too Many Requests", "retry-after: 3\r\n", codes::RATE_LIMITED, Some(3_000)).await;
    check("429 Too Many Requests", "retry-after-ms: 70\r\n", codes::RATE_LIMITED, Some(70)).await;
    let dates = "date: Sun, 06 Nov 1994 08:49:30 GMT\r\n\
                 retry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    check("503 Service Unavailable", dates, codes::OVERLOADED, Some(7_000)).await;
    check("500 Internal Server Error", "", codes::PROVIDER_FAILED, None).await;
    check("529 Overloaded", "", codes::OVERLOADED, None).await;
    check_error(http("204 No Content", "", ""), codes::PROVIDER_INVALID_RESPONSE, "204").await;
}

#[tokio::test]
async fn an_error_body_that_breaks_off_or_floods_keeps_its_status() {
    let cut = "HTTP/1.1 429 Too Many\r\ncontent-length: 5000\r\n\r\nslow";
    check_error(cut, codes::RATE_LIMITED, "slow").await;
    let flood = vec![
        Act::Send(b"HTTP/1.1 500 No\r\nconnection: close\r\n\r\n".to_vec()),
        Act::Trickle(&[b'x'; 4096], Duration::ZERO),
    ];
    let server = Server::start(flood).await;
    let error = answer_of(&server).await.unwrap_err();
    assert!(error.is(codes::PROVIDER_FAILED));
    assert!(error.to_string().len() < 1_000);
    server.gone().await;
}

#[tokio::test]
async fn answers_of_the_wrong_form_are_refused() {
    let invalid = codes::PROVIDER_INVALID_RESPONSE;
    check_error(http("200 OK", "content-type: text/html\r\n", BODY), invalid, "text/html").await;
    check_error(http("200 OK", "content-encoding: gzip\r\n", BODY), invalid, "gzip").await;
    check_error(http("200 OK", "", "data: \u{1}\n\n"), invalid, "chunk").await;
    check_error("SSH-2.0-OpenSSH\r\n\r\n", codes::PROVIDER_UNREACHABLE, "before the answer").await;
    let head = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(200 << 10));
    check_error(head, codes::PROVIDER_UNREACHABLE, "before the answer").await;
    check_error("", codes::PROVIDER_UNREACHABLE, "before the answer").await;
}

#[tokio::test]
async fn an_error_inside_the_stream() {
    let body = format!(
        "{}data: {{\"error\":{{\"message\":\"busy\",\"type\":\"overloaded_error\"}}}}\n\n",
        &BODY[..BODY.find(": still").unwrap()]
    );
    check_error(streamed(&body, 50), codes::OVERLOADED, "busy").await;
}

#[tokio::test]
async fn a_cut_stream_gives_no_part_of_a_call() {
    let inside_the_arguments = BODY.find("path").unwrap();
    let part = &BODY[..inside_the_arguments];
    let announced = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{part}", BODY.len());
    let chunked = format!("{STREAM_HEAD}{}", chunk(part));
    let inside_a_chunk = format!("{STREAM_HEAD}ffff\r\n{part}");
    let until_close = format!("HTTP/1.0 200 OK\r\n\r\n{part}");
    for answer in [announced, chunked, inside_a_chunk, until_close] {
        check_error(answer, codes::STREAM_CUT, "broke off").await;
    }
    // The end mark came, but HTTP says that more was to follow.
    let before_done = &BODY[..BODY.find("data: [DONE]").unwrap()];
    let chunked = format!("{STREAM_HEAD}{}", chunk(before_done));
    check_error(chunked, codes::STREAM_CUT, "broke off").await;
}

#[tokio::test]
async fn an_endless_line_is_refused() {
    let start = format!("{STREAM_HEAD}{}", chunk("data: "));
    let piece: &'static str = Box::leak(chunk(&"x".repeat(256 << 10)).into_boxed_str());
    let acts = vec![Act::Send(start.into_bytes()), Act::Trickle(piece.as_bytes(), Duration::ZERO)];
    let server = Server::start(acts).await;
    let error = answer_of(&server).await.unwrap_err();
    assert!(error.is(codes::PROVIDER_RESPONSE_TOO_LARGE), "{error}");
    server.gone().await;
}

#[tokio::test]
async fn silence_ends_in_a_timeout() {
    let check = async |acts: Vec<Act>, timeouts: Timeouts, words: &str| {
        let server = Server::start(acts).await;
        let started = Instant::now();
        let error = ask(&provider(&server, timeouts), &request("hi")).await.0.unwrap_err();
        assert!(error.is(codes::PROVIDER_TIMEOUT), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        server.gone().await;
    };
    let head = Act::Send(STREAM_HEAD.as_bytes().to_vec());
    let comment = Act::Send(chunk(": hello\n").into_bytes());
    check(vec![Act::Hang], quick(), "no answer").await;
    check(vec![head.clone(), Act::Hang], quick(), "no answer").await;
    check(vec![head.clone(), comment, Act::Hang], quick(), "nothing more").await;
    // A server that keeps the line warm for ever is bounded by the whole.
    let trickle = Act::Trickle(b"2\r\n:\n\r\n", Duration::from_millis(20));
    check(vec![head, trickle], Timeouts { idle_ms: 5_000, total_ms: 400, ..quick() }, "not whole")
        .await;
}

#[tokio::test]
async fn a_connection_kept_open_after_the_end_mark_does_not_matter() {
    let answer = format!("{STREAM_HEAD}{}", chunk(BODY));
    let server = Server::start(vec![Act::Send(answer.into_bytes()), Act::Hang]).await;
    let started = Instant::now();
    let answer = answer_of(&server).await.unwrap();
    assert_eq!(answer, parse_completion(Dialect::Chat, "test-model", BODY.as_bytes()).unwrap());
    assert!(started.elapsed() < Duration::from_secs(5));
    server.gone().await;
}

#[tokio::test]
async fn nobody_listens() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://{address}/v1");
    let provider = Remote::builder(Dialect::Chat, url, "m", None).build().unwrap();
    let error = ask(&provider, &request("hi")).await.0.unwrap_err();
    assert!(error.is(codes::PROVIDER_UNREACHABLE) && error.is_retryable(), "{error}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}

/// How soon a cancelled request must have closed its connection.
const CANCEL_LIMIT: Duration = Duration::from_millis(200);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelling_closes_the_connection() {
    let comment = Act::Send(format!("{STREAM_HEAD}{}", chunk(": hello\n\n")).into_bytes());
    for acts in [vec![Act::Hang], vec![comment, Act::Hang]] {
        let server = Server::start(acts).await;
        let provider = provider(&server, Timeouts::default());
        let cancel = Cancel::new();
        let remote = cancel.clone();
        let asking = tokio::spawn(async move {
            let mut sink = |_| {};
            provider.stream(&request("hi"), &mut sink, &cancel).await.unwrap_err()
        });
        server.asked().await;
        let started = Instant::now();
        remote.cancel();
        let error = asking.await.unwrap();
        server.gone().await;
        assert!(started.elapsed() < CANCEL_LIMIT, "{:?}", started.elapsed());
        assert!(error.is(codes::PROVIDER_CANCELLED), "{error}");
        assert!(!error.is_retryable());
    }
}

#[tokio::test]
async fn dropping_the_future_closes_the_connection() {
    let server = Server::start(vec![Act::Hang]).await;
    let provider = provider(&server, Timeouts::default());
    let (request, cancel) = (request("hi"), Cancel::new());
    let mut sink = |_| {};
    tokio::select! {
        _ = provider.stream(&request, &mut sink, &cancel) => panic!("there is no answer"),
        () = server.asked() => {}
    }
    let started = Instant::now();
    server.gone().await;
    assert!(started.elapsed() < CANCEL_LIMIT, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_request_cancelled_before_it_began_is_not_sent() {
    let server = Server::answering(streamed(BODY, 100)).await;
    let (request, cancel) = (request("hi"), Cancel::new());
    cancel.cancel();
    let mut sink = |_| {};
    let provider = provider(&server, Timeouts::default());
    let error = provider.stream(&request, &mut sink, &cancel).await.unwrap_err();
    assert!(error.is(codes::PROVIDER_CANCELLED));
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_redirect_does_not_get_the_key() {
    let trap = Server::answering(streamed(BODY, 100)).await;
    let location = format!("location: {}?token=abc\r\n", trap.base_url());
    for status in ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let error = check_error(http(status, &location, ""), codes::PROVIDER_REDIRECTED, "").await;
        assert!(error.to_string().contains(&trap.base_url()), "{error}");
        assert!(!error.to_string().contains("token"), "{error}");
    }
    assert!(trap.requests().is_empty());
    // The control: whoever follows by hand hands the key over.
    answer_of(&trap).await.unwrap();
    assert!(trap.requests()[0].contains(KEY));
}

#[tokio::test]
async fn a_key_that_a_server_echoes_is_not_repeated() {
    let says = format!("wrong key {KEY}, was {KEY}");
    let in_json = format!(r#"{{"error":{{"message":"{says}"}}}}"#);
    let in_stream = format!("data: {in_json}\n\n");
    let garbage = format!("data: {says}\n\n");
    let echoes = [
        http("401 Unauthorized", "", &in_json),
        http("401 Unauthorized", "", &says),
        http("500 No", "", &format!("{}{says}", "x".repeat(280))),
        http("302 Found", &format!("location: http://a/{KEY}\r\n"), ""),
        http("200 OK", &format!("content-type: text/{KEY}\r\n"), ""),
        http("200 OK", &format!("content-encoding: {KEY}\r\n"), ""),
        http("200 OK", "", &in_stream),
        http("200 OK", "", &garbage),
        http("200 OK", "", &in_json),
    ];
    for echo in echoes {
        let server = Server::answering(echo.clone()).await;
        let error = answer_of(&server).await.unwrap_err();
        let everything = format!("{error} {error:?} {:?}", error.report());
        assert!(!everything.contains(&KEY[..7]), "{everything}");
        // The control: the echo does reach the message of whoever has another key.
        let url = server.base_url();
        let other = Remote::builder(Dialect::Chat, url, "m", None).build().unwrap();
        let error = ask(&other, &request("hi")).await.0.unwrap_err();
        assert!(error.to_string().contains(&KEY[..7]), "{error}");
    }
}

#[tokio::test]
async fn debug_output_holds_no_key() {
    let server = Server::start(vec![]).await;
    let provider = provider(&server, quick());
    let key = Secret::new(KEY.to_owned()).unwrap();
    let builder = Remote::builder(Dialect::Chat, server.base_url(), "m", key.clone());
    for text in [format!("{provider:?}"), format!("{builder:?}"), format!("{key:?}")] {
        assert!(!text.contains(KEY), "{text}");
    }
}

#[test]
fn set_ups_that_are_refused() {
    let check = |url: &str, code: Code| {
        let error = Remote::builder(Dialect::Chat, url, "m", None).build().unwrap_err();
        assert_eq!(error.code(), code.name, "{url}");
    };
    check("api.example.com", codes::PROVIDER_CONFIG);
    check("http://198.51.100.7/v1", codes::PROVIDER_INSECURE);
    check("http://[2001:db8::1]:8080/v1", codes::PROVIDER_INSECURE);
    for url in ["https://198.51.100.7/v1", "http://192.168.0.9/v1", "http://models.test/v1"] {
        Remote::builder(Dialect::Chat, url, "m", None).build().unwrap();
    }
    Remote::builder(Dialect::Chat, "http://198.51.100.7/v1", "m", None)
        .allow_public_plain_http(true)
        .build()
        .unwrap();
    for pem in
        ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"]
    {
        let error = Remote::builder(Dialect::Chat, "https://a.test/v1", "m", None)
            .trust_pem(pem)
            .build()
            .unwrap_err();
        assert!(error.is(codes::PROVIDER_CONFIG), "{pem}");
    }
}
