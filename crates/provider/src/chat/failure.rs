//! What an error answer means.
//!
//! The HTTP status decides; words in the body only refine it within what the status allows,
//! because servers put misleading types beside a right status (a 429 typed as an invalid request).

use glasshouse_model::Code;
use serde_json::Value;

use crate::error::RETRY_AFTER_MS;
use crate::peer::Peer;
use crate::{Error, codes};

/// Words that servers use as an error's `code` or `type`, with what they mean.
const WORDS: &[(&str, Code)] = &[
    ("authentication_error", codes::PROVIDER_AUTH),
    ("billing_hard_limit_reached", codes::QUOTA),
    ("content_filter", codes::CONTENT_FILTER),
    ("content_policy_violation", codes::CONTENT_FILTER),
    ("context_length_exceeded", codes::CONTEXT_OVERFLOW),
    ("engine_overloaded", codes::OVERLOADED),
    ("exceed_context_size_error", codes::CONTEXT_OVERFLOW),
    ("insufficient_quota", codes::QUOTA),
    ("invalid_api_key", codes::PROVIDER_AUTH),
    ("invalid_request_error", codes::PROVIDER_INVALID_REQUEST),
    ("model_not_found", codes::PROVIDER_NOT_FOUND),
    ("not_found_error", codes::PROVIDER_NOT_FOUND),
    ("overloaded", codes::OVERLOADED),
    ("overloaded_error", codes::OVERLOADED),
    ("permission_error", codes::PROVIDER_PERMISSION),
    ("rate_limit_error", codes::RATE_LIMITED),
    ("rate_limit_exceeded", codes::RATE_LIMITED),
    ("request_timeout", codes::PROVIDER_TIMEOUT),
    ("service_unavailable", codes::OVERLOADED),
];

/// Phrases with which servers without error codes say that the context window is too small.
const OVERFLOW_PHRASES: &[&str] =
    &["context length", "context window", "context size", "maximum context"];

/// The parts of an error body that matter.
struct Words {
    message: String,
    /// `code` and `type`, lower case.
    labels: Vec<String>,
    /// A status that the body itself names.
    status: Option<u16>,
}

impl Words {
    /// Reads `{"error": {..}}`, `{"error": ".."}`, `{..}`, `{"detail": ..}` or plain text.
    fn of(body: &Value) -> Self {
        let inner = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let message = ["message", "detail"].iter().find_map(|key| inner.get(key)).unwrap_or(inner);
        let labels = ["code", "type"]
            .iter()
            .filter_map(|key| inner.get(key)?.as_str())
            .map(str::to_ascii_lowercase)
            .collect();
        let status = ["code", "status"]
            .iter()
            .filter_map(|key| inner.get(key)?.as_u64())
            .find_map(|number| u16::try_from(number).ok().filter(|n| (400..600).contains(n)));
        Self { message: text(message), labels, status }
    }

    fn known(&self) -> Option<Code> {
        self.labels
            .iter()
            .find_map(|label| WORDS.iter().find(|(word, _)| word == label).map(|(_, code)| *code))
    }

    fn speaks_of_overflow(&self) -> bool {
        let message = self.message.to_lowercase();
        OVERFLOW_PHRASES.iter().any(|phrase| message.contains(phrase))
    }
}

/// The error of an HTTP answer other than success.
pub(crate) fn from_status(
    peer: &Peer,
    status: u16,
    retry_after_ms: Option<u64>,
    body: &[u8],
) -> Error {
    let text = String::from_utf8_lossy(body);
    let body = serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text.as_ref()));
    let words = Words::of(&body);
    build(peer, code_of(status, &words), Some(status), retry_after_ms, &words)
}

/// The error that a stream carries after it began with success.
pub(super) fn in_stream(peer: &Peer, body: &Value) -> Error {
    let words = Words::of(body);
    let code = match words.status {
        Some(status) => code_of(status, &words),
        None => match words.known() {
            Some(codes::PROVIDER_INVALID_REQUEST) if words.speaks_of_overflow() => {
                codes::CONTEXT_OVERFLOW
            }
            Some(code) => code,
            None => codes::PROVIDER_FAILED,
        },
    };
    build(peer, code, words.status, None, &words)
}

fn code_of(status: u16, words: &Words) -> Code {
    let refined = |allowed: &[Code], otherwise: Code| {
        words.known().filter(|code| allowed.contains(code)).unwrap_or(otherwise)
    };
    match status {
        300..=399 => codes::PROVIDER_REDIRECTED,
        401 => codes::PROVIDER_AUTH,
        402 => codes::QUOTA,
        403 => codes::PROVIDER_PERMISSION,
        404 => codes::PROVIDER_NOT_FOUND,
        408 | 504 => codes::PROVIDER_TIMEOUT,
        413 => codes::CONTEXT_OVERFLOW,
        429 => refined(&[codes::QUOTA], codes::RATE_LIMITED),
        503 | 529 => codes::OVERLOADED,
        400..=499 => {
            let by_word = refined(
                &[codes::CONTEXT_OVERFLOW, codes::CONTENT_FILTER, codes::PROVIDER_NOT_FOUND],
                codes::PROVIDER_INVALID_REQUEST,
            );
            if by_word == codes::PROVIDER_INVALID_REQUEST && words.speaks_of_overflow() {
                codes::CONTEXT_OVERFLOW
            } else {
                by_word
            }
        }
        500..=599 => codes::PROVIDER_FAILED,
        _ => codes::PROVIDER_INVALID_RESPONSE,
    }
}

fn build(
    peer: &Peer,
    code: Code,
    status: Option<u16>,
    retry_after_ms: Option<u64>,
    words: &Words,
) -> Error {
    let message = peer.quote(&words.message);
    let mut error = Error::new(code, format!("{} answered with an error", peer.name()));
    error = match status {
        Some(status) => error.why(format!("HTTP {status}: {message}")).with("status", status),
        None => error.why(message),
    };
    match retry_after_ms {
        Some(delay_ms) => error.with(RETRY_AFTER_MS, delay_ms),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> Peer {
        Peer::new("the server", None)
    }

    #[test]
    fn the_status_wins_and_words_refine() {
        let check = |status: u16, body: &str, expected: Code| {
            let error = from_status(&peer(), status, None, body.as_bytes());
            assert_eq!(error.code(), expected.name, "{status} {body}");
            assert_eq!(error.report().context["status"], status);
        };
        check(400, "", codes::PROVIDER_INVALID_REQUEST);
        check(400, r#"{"error":{"code":"context_length_exceeded"}}"#, codes::CONTEXT_OVERFLOW);
        check(
            400,
            r#"{"error":{"message":"prompt exceeds the maximum context length of 4096"}}"#,
            codes::CONTEXT_OVERFLOW,
        );
        check(400, r#"{"error":{"type":"exceed_context_size_error"}}"#, codes::CONTEXT_OVERFLOW);
        check(400, r#"{"error":{"code":"content_filter"}}"#, codes::CONTENT_FILTER);
        check(400, r#"{"error":{"code":"model_not_found"}}"#, codes::PROVIDER_NOT_FOUND);
        check(400, r#"{"error":{"code":"rate_limit_exceeded"}}"#, codes::PROVIDER_INVALID_REQUEST);
        check(422, r#"{"detail":[{"msg":"field required"}]}"#, codes::PROVIDER_INVALID_REQUEST);
        check(401, r#"{"error":{"type":"server_error"}}"#, codes::PROVIDER_AUTH);
        check(402, "", codes::QUOTA);
        check(403, "<html>no</html>", codes::PROVIDER_PERMISSION);
        check(404, r#"{"error":"model 'x' not found"}"#, codes::PROVIDER_NOT_FOUND);
        check(408, "", codes::PROVIDER_TIMEOUT);
        check(413, "", codes::CONTEXT_OVERFLOW);
        check(429, r#"{"error":{"type":"invalid_request_error"}}"#, codes::RATE_LIMITED);
        check(429, r#"{"error":{"code":"insufficient_quota"}}"#, codes::QUOTA);
        check(429, "slow down", codes::RATE_LIMITED);
        check(418, "", codes::PROVIDER_INVALID_REQUEST);
        check(500, r#"{"error":{"type":"invalid_request_error"}}"#, codes::PROVIDER_FAILED);
        check(502, "", codes::PROVIDER_FAILED);
        check(503, "", codes::OVERLOADED);
        check(504, "", codes::PROVIDER_TIMEOUT);
        check(529, "", codes::OVERLOADED);
        check(302, "", codes::PROVIDER_REDIRECTED);
        check(103, "", codes::PROVIDER_INVALID_RESPONSE);
    }

    #[test]
    fn errors_inside_a_stream() {
        let check = |body: &str, expected: Code| {
            let error = in_stream(&peer(), &serde_json::from_str(body).unwrap());
            assert_eq!(error.code(), expected.name, "{body}");
        };
        check(r#"{"message":"try later","type":"overloaded_error"}"#, codes::OVERLOADED);
        check(r#"{"error":{"message":"x","code":"rate_limit_exceeded"}}"#, codes::RATE_LIMITED);
        check(r#"{"message":"x","code":429,"type":"invalid_request_error"}"#, codes::RATE_LIMITED);
        check(r#"{"message":"x","code":502}"#, codes::PROVIDER_FAILED);
        check(r#"{"message":"x","type":"server_error"}"#, codes::PROVIDER_FAILED);
        check(
            r#"{"message":"the context window is full","type":"invalid_request_error"}"#,
            codes::CONTEXT_OVERFLOW,
        );
        check(r#""CUDA out of memory""#, codes::PROVIDER_FAILED);
    }

    #[test]
    fn the_wait_and_the_reason_are_kept() {
        let body = br#"{"error":{"message":"Too many requests"}}"#;
        let error = from_status(&peer(), 429, Some(1500), body);
        assert_eq!(error.retry_after_ms(), Some(1500));
        assert_eq!(
            error.to_string(),
            "rate_limited: the server answered with an error (HTTP 429: Too many requests)"
        );
        let html = from_status(&peer(), 500, None, "<html>é\u{7}".repeat(1000).as_bytes());
        assert!(html.report().why.chars().count() < 400);
        assert_eq!(html.retry_after_ms(), None);
    }
}
