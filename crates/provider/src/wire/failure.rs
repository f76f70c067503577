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
    ("api_key_invalid", codes::PROVIDER_AUTH),
    ("authentication_error", codes::PROVIDER_AUTH),
    ("billing_error", codes::QUOTA),
    ("billing_hard_limit_reached", codes::QUOTA),
    ("content_filter", codes::CONTENT_FILTER),
    ("content_policy_violation", codes::CONTENT_FILTER),
    ("context_length_exceeded", codes::CONTEXT_OVERFLOW),
    ("deadline_exceeded", codes::PROVIDER_TIMEOUT),
    ("engine_overloaded", codes::OVERLOADED),
    ("exceed_context_size_error", codes::CONTEXT_OVERFLOW),
    ("insufficient_quota", codes::QUOTA),
    ("invalid_api_key", codes::PROVIDER_AUTH),
    ("invalid_argument", codes::PROVIDER_INVALID_REQUEST),
    ("invalid_encrypted_content", codes::REASONING_REFUSED),
    ("invalid_prompt", codes::PROVIDER_INVALID_REQUEST),
    ("invalid_request_error", codes::PROVIDER_INVALID_REQUEST),
    ("model_not_found", codes::PROVIDER_NOT_FOUND),
    ("not_found", codes::PROVIDER_NOT_FOUND),
    ("not_found_error", codes::PROVIDER_NOT_FOUND),
    ("overloaded", codes::OVERLOADED),
    ("overloaded_error", codes::OVERLOADED),
    ("permission_denied", codes::PROVIDER_PERMISSION),
    ("permission_error", codes::PROVIDER_PERMISSION),
    ("rate_limit_error", codes::RATE_LIMITED),
    ("rate_limit_exceeded", codes::RATE_LIMITED),
    ("request_timeout", codes::PROVIDER_TIMEOUT),
    ("request_too_large", codes::CONTEXT_OVERFLOW),
    ("resource_exhausted", codes::RATE_LIMITED),
    ("server_overloaded", codes::OVERLOADED),
    ("service_unavailable", codes::OVERLOADED),
    ("timeout_error", codes::PROVIDER_TIMEOUT),
    ("unauthenticated", codes::PROVIDER_AUTH),
    ("unavailable", codes::OVERLOADED),
];

/// Phrases with which servers without error codes say that the context window is too small.
const OVERFLOW_PHRASES: &[&str] =
    &["context length", "context window", "context size", "maximum context"];

/// Pairs of phrases with which servers say that a thought that was sent back is not as they signed it.
const THOUGHT_PHRASES: &[(&str, &str)] = &[
    ("thinking", "cannot be modified"),
    ("thinking", "signature"),
    ("thought_signature", ""),
    ("thought signature", ""),
    ("encrypted content", "could not be verified"),
];

/// The parts of an error body that matter.
struct Words {
    message: String,
    /// `code` and `type`, lower case.
    labels: Vec<String>,
    /// A status that the body itself names.
    status: Option<u16>,
    /// A wait that the body asks for.
    retry_after_ms: Option<u64>,
}

impl Words {
    /// Reads `{"error": {..}}`, `{"error": ".."}`, `{..}`, `{"detail": ..}`, a list of one of
    /// these, or plain text.
    fn of(body: &Value) -> Self {
        let body = body.get(0).unwrap_or(body);
        let inner = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let message = ["message", "detail"].iter().find_map(|key| inner.get(key)).unwrap_or(inner);
        let details = inner.get("details").and_then(Value::as_array);
        let details = details.map_or(&[][..], Vec::as_slice);
        // A reason in the details is more exact than the class that stands outside.
        let reasons = details.iter().filter_map(|detail| detail.get("reason")?.as_str());
        let labels = reasons
            .chain(["code", "type", "status"].iter().filter_map(|key| inner.get(key)?.as_str()))
            .map(str::to_ascii_lowercase)
            .collect();
        let retry_after_ms =
            details.iter().find_map(|detail| duration_ms(detail.get("retryDelay")?.as_str()?));
        let status = ["code", "status"]
            .iter()
            .filter_map(|key| inner.get(key)?.as_u64())
            .find_map(|number| u16::try_from(number).ok().filter(|n| (400..600).contains(n)));
        Self { message: text(message), labels, status, retry_after_ms }
    }

    fn known(&self) -> Option<Code> {
        self.labels
            .iter()
            .find_map(|label| WORDS.iter().find(|(word, _)| word == label).map(|(_, code)| *code))
    }

    fn speaks_of_thoughts(&self) -> bool {
        let message = self.message.to_lowercase();
        THOUGHT_PHRASES.iter().any(|(one, other)| message.contains(one) && message.contains(other))
    }

    fn speaks_of_overflow(&self) -> bool {
        let message = self.message.to_lowercase();
        OVERFLOW_PHRASES.iter().any(|phrase| message.contains(phrase))
    }
}

/// Reads `34s` or `0.847655010s`, rounded up to milliseconds.
fn duration_ms(text: &str) -> Option<u64> {
    let seconds = text.strip_suffix('s')?;
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = format!("{fraction:0<3}");
    let (milliseconds, rest) = digits.split_at(3);
    let round_up = u64::from(rest.bytes().any(|byte| byte != b'0'));
    let whole_ms = whole.parse::<u64>().ok()?.checked_mul(1000)?;
    whole_ms.checked_add(milliseconds.parse::<u64>().ok()? + round_up)
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
pub(crate) fn in_stream(peer: &Peer, body: &Value) -> Error {
    let words = Words::of(body);
    let code = match words.status {
        Some(status) => code_of(status, &words),
        None => match words.known() {
            Some(codes::PROVIDER_INVALID_REQUEST) if words.speaks_of_overflow() => {
                codes::CONTEXT_OVERFLOW
            }
            Some(codes::PROVIDER_INVALID_REQUEST) if words.speaks_of_thoughts() => {
                codes::REASONING_REFUSED
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
        403 => refined(&[codes::PROVIDER_AUTH], codes::PROVIDER_PERMISSION),
        404 => codes::PROVIDER_NOT_FOUND,
        408 | 504 => codes::PROVIDER_TIMEOUT,
        413 => codes::CONTEXT_OVERFLOW,
        429 => refined(&[codes::QUOTA], codes::RATE_LIMITED),
        503 | 529 => codes::OVERLOADED,
        400..=499 => {
            let by_word = refined(
                &[
                    codes::CONTEXT_OVERFLOW,
                    codes::CONTENT_FILTER,
                    codes::PROVIDER_NOT_FOUND,
                    codes::PROVIDER_AUTH,
                    codes::REASONING_REFUSED,
                ],
                codes::PROVIDER_INVALID_REQUEST,
            );
            match by_word {
                codes::PROVIDER_INVALID_REQUEST if words.speaks_of_thoughts() => {
                    codes::REASONING_REFUSED
                }
                codes::PROVIDER_INVALID_REQUEST if words.speaks_of_overflow() => {
                    codes::CONTEXT_OVERFLOW
                }
                by_word => by_word,
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
    match retry_after_ms.or(words.retry_after_ms) {
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
        check(
            400,
            r#"[{"error":{"code":400,"status":"INVALID_ARGUMENT",
                "details":[{"reason":"API_KEY_INVALID"}]}}]"#,
            codes::PROVIDER_AUTH,
        );
        check(429, r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}"#, codes::RATE_LIMITED);
        check(503, r#"{"error":{"code":503,"status":"UNAVAILABLE"}}"#, codes::OVERLOADED);
        check(
            400,
            r#"{"error":{"type":"invalid_request_error","message":"messages.1: `thinking` blocks in
                the latest assistant message cannot be modified"}}"#,
            codes::REASONING_REFUSED,
        );
        check(400, r#"{"error":{"code":"invalid_encrypted_content"}}"#, codes::REASONING_REFUSED);
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

    /// The failure: a server that is busy calls the request invalid, and nobody tries again.
    #[test]
    fn g7_a_429_is_a_limit_whatever_the_body_says() {
        let body = br#"{"error":{"type":"invalid_request_error","code":"invalid_request_error"}}"#;
        let error = from_status(&peer(), 429, Some(2_000), body);
        assert!(error.is(codes::RATE_LIMITED));
        assert_eq!(crate::retry::next_delay_ms(&error, 1, 0, 60_000), Some(2_000));
    }

    #[test]
    fn a_wait_in_the_body() {
        let check = |delay: &str, expected: Option<u64>| {
            let body = format!(
                r#"{{"error":{{"code":429,"details":[{{"@type":"x"}},
                    {{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"{delay}"}}]}}}}"#
            );
            let error = from_status(&peer(), 429, None, body.as_bytes());
            assert_eq!(error.retry_after_ms(), expected, "{delay}");
        };
        check("34s", Some(34_000));
        check("0.847655010s", Some(848));
        check("1.5s", Some(1_500));
        check("2.s", Some(2_000));
        check("-1s", None);
        check("soon", None);
        check("99999999999999999999s", None);
        // A header is nearer to the server that asks.
        let body = br#"{"error":{"details":[{"retryDelay":"9s"}]}}"#;
        assert_eq!(from_status(&peer(), 429, Some(50), body).retry_after_ms(), Some(50));
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
