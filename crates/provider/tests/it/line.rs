//! What requests to one endpoint share, against a real server on the loopback interface.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glasshouse_provider::line::{Lines, MAX_PARALLEL, OPEN_AFTER};
use glasshouse_provider::{
    Cancel, Dialect, ModelRequest, Prices, Provider, Remote, Timeouts, TokenUsage, codes,
};

use crate::server::{Act, STREAM_HEAD, Server, chunk, http};
use crate::{ask, request};

const DIALECTS: [(Dialect, &str, &str); 5] = [
    (Dialect::Chat, "/v1/chat/completions", "authorization: Bearer sk-test"),
    (Dialect::Responses, "/v1/responses", "authorization: Bearer sk-test"),
    (Dialect::Anthropic, "/v1/messages", "x-api-key: sk-test"),
    (
        Dialect::Google,
        "/v1/models/test-model:streamGenerateContent?alt=sse",
        "x-goog-api-key: sk-test",
    ),
    (Dialect::Ollama, "/v1/api/chat", "authorization: Bearer sk-test"),
];

fn remote(server: &Server, dialect: Dialect, lines: &Lines) -> Remote {
    let key = glasshouse_provider::Secret::new("sk-test".to_owned()).unwrap();
    Remote::builder(dialect, server.base_url(), "m", key).lines(lines).build().unwrap()
}

#[tokio::test]
async fn every_dialect_asks_its_own_place_with_its_own_key() {
    for (dialect, path, key) in DIALECTS {
        let server = Server::answering(http("400 No", "", r#"{"error":{"message":"no"}}"#)).await;
        let provider = remote(&server, dialect, &Lines::default());
        let error = ask(&provider, &request("hi")).await.0.unwrap_err();
        assert!(error.is(codes::PROVIDER_INVALID_REQUEST), "{error}");
        let sent = &server.requests()[0];
        assert!(sent.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{sent}");
        assert!(sent.to_lowercase().contains(&key.to_lowercase()), "{dialect:?}: {sent}");
        assert_eq!(sent.matches("sk-test").count(), 1, "{dialect:?}: {sent}");
        assert_eq!(sent.contains("anthropic-version: 2023-06-01"), dialect == Dialect::Anthropic);
    }
}

#[tokio::test]
async fn cancelling_closes_the_connection_within_200_ms_in_every_dialect() {
    let first: [(Dialect, &str); 5] = [
        (Dialect::Chat, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n"),
        (
            Dialect::Responses,
            "data: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"x\"}\n\n",
        ),
        (Dialect::Anthropic, "data: {\"type\":\"ping\"}\n\n"),
        (Dialect::Google, "data: {\"candidates\":[]}\n\n"),
        (Dialect::Ollama, "{\"message\":{\"content\":\"x\"}}\n"),
    ];
    for (dialect, first) in first {
        let start = format!("{STREAM_HEAD}{}", chunk(first));
        let server = Server::start(vec![Act::Send(start.into_bytes()), Act::Hang]).await;
        let provider = remote(&server, dialect, &Lines::default());
        let cancel = Cancel::new();
        let switch = cancel.clone();
        let asked = request("hi");
        let mut sink = |_| {};
        let cancelled_at = async {
            server.asked().await;
            let at = Instant::now();
            switch.cancel();
            server.gone().await;
            at.elapsed()
        };
        let (answer, closed_after) =
            tokio::join!(provider.stream(&asked, &mut sink, &cancel), cancelled_at);
        assert!(answer.unwrap_err().is(codes::PROVIDER_CANCELLED));
        assert!(closed_after < Duration::from_millis(200), "{dialect:?}: {closed_after:?}");
    }
}

#[tokio::test]
async fn sessions_share_what_they_learn_of_an_endpoint() {
    let server = Server::answering(http("503 Busy", "", "")).await;
    let lines = Lines::default();
    let (one, other) =
        (remote(&server, Dialect::Chat, &lines), remote(&server, Dialect::Anthropic, &lines));
    for _ in 0..OPEN_AFTER {
        assert!(ask(&one, &request("hi")).await.0.unwrap_err().is(codes::OVERLOADED));
    }
    let paused = ask(&other, &request("hi")).await.0.unwrap_err();
    assert!(paused.is(codes::PROVIDER_PAUSED), "{paused}");
    assert!(paused.retry_after_ms().is_some_and(|wait_ms| wait_ms > 10_000), "{paused:?}");
    assert!(paused.to_string().contains("it failed with `overloaded`"), "{paused}");
    assert_eq!(server.requests().len(), OPEN_AFTER as usize, "nothing more was sent");
    // The control: who shares nothing goes on asking.
    let alone = remote(&server, Dialect::Chat, &Lines::default());
    assert!(ask(&alone, &request("hi")).await.0.unwrap_err().is(codes::OVERLOADED));
}

#[tokio::test]
async fn a_wait_that_one_session_is_told_holds_for_all() {
    let server = Server::answering(http("429 Slow", "retry-after: 60\r\n", "")).await;
    let lines = Lines::default();
    let (one, other) =
        (remote(&server, Dialect::Chat, &lines), remote(&server, Dialect::Chat, &lines));
    assert!(ask(&one, &request("hi")).await.0.unwrap_err().is(codes::RATE_LIMITED));
    let paused = ask(&other, &request("hi")).await.0.unwrap_err();
    assert!(paused.is(codes::PROVIDER_PAUSED), "{paused}");
    assert!(paused.retry_after_ms().is_some_and(|wait_ms| wait_ms > 55_000), "{paused:?}");
    assert_eq!(server.requests().len(), 1);
}

/// How long a request that may go on takes at most to reach the server, on a busy machine.
const ARRIVAL: Duration = Duration::from_secs(10);
/// How long a request that waits is watched.
const WAITING: Duration = Duration::from_millis(300);

#[tokio::test]
async fn the_gate_bounds_requests_at_once_and_a_cancelled_one_gives_its_place_back() {
    let server = Server::start(vec![Act::Hang]).await;
    let lines = Lines::default();
    let ask = |lines: &Lines| {
        let (provider, cancel) = (remote(&server, Dialect::Chat, lines), Cancel::new());
        let switch = cancel.clone();
        let task = tokio::spawn(async move {
            let asked = request("hi");
            provider.stream(&asked, &mut |_| {}, &cancel).await
        });
        (task, switch)
    };
    let arrives = |times: usize, within: Duration| {
        let server = &server;
        async move { tokio::time::timeout(within, server.asked_times(times)).await.is_ok() }
    };
    let mut held: Vec<_> = (0..MAX_PARALLEL).map(|_| ask(&lines)).collect();
    assert!(arrives(MAX_PARALLEL, ARRIVAL).await, "all places are taken");
    held.push(ask(&lines));
    assert!(!arrives(MAX_PARALLEL + 1, WAITING).await, "one more waits for a place");
    // The control: whoever shares nothing is let through.
    held.push(ask(&Lines::default()));
    assert!(arrives(MAX_PARALLEL + 1, ARRIVAL).await, "the server would take more");
    held[0].1.cancel();
    assert!(arrives(MAX_PARALLEL + 2, ARRIVAL).await, "the place was given back");
    for (task, switch) in held {
        switch.cancel();
        assert!(task.await.unwrap().unwrap_err().is(codes::PROVIDER_CANCELLED));
    }
}

/// The failures: what is wrong with a request, or time that it waits for its turn, counts as a failure
/// of the endpoint, or as its recovery.
#[tokio::test]
async fn what_was_never_sent_says_nothing_of_the_endpoint() {
    let server = Server::answering(http("503 Busy", "", "")).await;
    let lines = Lines::default();
    let provider = remote(&server, Dialect::Google, &lines);
    // No path can be made of this name.
    let unusable = ModelRequest { model: "../../admin?x".to_owned(), ..request("hi") };
    for times in 1..=OPEN_AFTER as usize {
        assert!(ask(&provider, &request("hi")).await.0.unwrap_err().is(codes::OVERLOADED));
        let error = ask(&provider, &unusable).await.0.unwrap_err();
        assert!(!error.is(codes::OVERLOADED), "{error}");
        assert_eq!(server.requests().len(), times, "it was never sent");
    }
    let paused = ask(&provider, &request("hi")).await.0.unwrap_err();
    assert!(paused.is(codes::PROVIDER_PAUSED), "{paused}");
    // Others hold every place until the time of those that wait is up.
    let server = Server::start(vec![Act::Hang]).await;
    let brief = Timeouts { total_ms: 200, ..Timeouts::default() };
    let lines = Lines::default();
    let holder = remote(&server, Dialect::Chat, &lines);
    let waiter = Remote::builder(Dialect::Chat, server.base_url(), "m", None)
        .lines(&lines)
        .timeouts(brief)
        .build()
        .unwrap();
    let (holder, cancel) = (Arc::new(holder), Cancel::new());
    let held: Vec<_> = (0..MAX_PARALLEL)
        .map(|_| {
            let (holder, cancel) = (Arc::clone(&holder), cancel.clone());
            tokio::spawn(async move { holder.stream(&request("hi"), &mut |_| {}, &cancel).await })
        })
        .collect();
    server.asked_times(MAX_PARALLEL).await;
    for _ in 0..OPEN_AFTER {
        let error = ask(&waiter, &request("hi")).await.0.unwrap_err();
        assert!(error.is(codes::PROVIDER_TIMEOUT), "{error}");
    }
    cancel.cancel();
    for task in held {
        assert!(task.await.unwrap().is_err());
    }
    // The endpoint is asked, and this one's time is up with the server.
    let error = ask(&waiter, &request("hi")).await.0.unwrap_err();
    assert!(error.is(codes::PROVIDER_TIMEOUT), "{error}");
    assert_eq!(server.requests().len(), MAX_PARALLEL + 1);
}

#[tokio::test]
async fn prices_are_asked_by_the_model_that_answered() {
    let server = Server::answering(http("200 OK", "", "")).await;
    let prices = Prices::parse("models: { m: { input: 1, output: 2 } }", "prices").unwrap();
    let provider = Remote::builder(Dialect::Chat, server.base_url(), "m", None)
        .prices(Arc::new(prices))
        .build()
        .unwrap();
    let usage = TokenUsage { input_uncached: 10, output: 5, ..TokenUsage::default() };
    assert_eq!(provider.cost_micros("m", &usage), Some(20));
    assert_eq!(provider.cost_micros("another", &usage), None);
}
