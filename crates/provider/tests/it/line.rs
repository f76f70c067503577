//! What requests to one endpoint share, against a real server on the loopback interface.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glasshouse_provider::line::{Lines, MAX_PARALLEL, OPEN_AFTER};
use glasshouse_provider::{Cancel, Dialect, Prices, Provider, Remote, TokenUsage, codes};

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

#[tokio::test]
async fn the_gate_bounds_requests_at_once_and_a_cancelled_one_gives_its_place_back() {
    let server = Server::start(vec![Act::Hang]).await;
    let lines = Lines::default();
    let cancel = Cancel::new();
    let provider = Arc::new(remote(&server, Dialect::Chat, &lines));
    let ask_until_cancelled = || {
        let (provider, cancel) = (Arc::clone(&provider), cancel.clone());
        tokio::spawn(async move {
            let asked = request("hi");
            provider.stream(&asked, &mut |_| {}, &cancel).await
        })
    };
    let held: Vec<_> = (0..MAX_PARALLEL).map(|_| ask_until_cancelled()).collect();
    server.asked().await;
    // All places are taken, so this one cannot have reached the server when its own time is up.
    let waiting = Cancel::new();
    let asked = request("hi");
    let mut sink = |_| {};
    let late = tokio::time::timeout(
        Duration::from_millis(300),
        provider.stream(&asked, &mut sink, &waiting),
    );
    assert!(late.await.is_err(), "it waits for a place");
    cancel.cancel();
    for task in held {
        assert!(task.await.unwrap().unwrap_err().is(codes::PROVIDER_CANCELLED));
    }
    let quick = Cancel::new();
    let switch = quick.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        switch.cancel();
    });
    let answer = provider.stream(&asked, &mut sink, &quick).await;
    assert!(answer.unwrap_err().is(codes::PROVIDER_CANCELLED));
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
