//! Every error code of this crate. Each has a page in `docs/errors/`.

use glasshouse_model::{Code, Exit};

/// The adapter was set up with something it cannot use (address, key bytes, certificates).
pub const PROVIDER_CONFIG: Code = Code::new(
    "provider_config",
    Exit::Usage,
    false,
    "correct the provider's base URL, key or certificate file",
);
/// The environment variable that should hold the key is not set.
pub const PROVIDER_KEY_MISSING: Code = Code::new(
    "provider_key_missing",
    Exit::Usage,
    false,
    "set the variable to the provider's API key and start again",
);
/// A key would have travelled unencrypted to a public address.
pub const PROVIDER_INSECURE: Code = Code::new(
    "provider_insecure",
    Exit::Denied,
    false,
    "use https://, or a server on this machine or a private network",
);
/// The server did not accept the key (401).
pub const PROVIDER_AUTH: Code = Code::new(
    "provider_auth",
    Exit::Unfinished,
    false,
    "check that the API key is the right one for this server and still valid",
);
/// The key may not do this (403).
pub const PROVIDER_PERMISSION: Code = Code::new(
    "provider_permission",
    Exit::Unfinished,
    false,
    "use a key or project that may use this model",
);
/// The server knows no such endpoint or model (404).
pub const PROVIDER_NOT_FOUND: Code = Code::new(
    "provider_not_found",
    Exit::Unfinished,
    false,
    "check the base URL (it usually ends in /v1) and the model's name",
);
/// The server refused the request's content (400 and its like).
pub const PROVIDER_INVALID_REQUEST: Code = Code::new(
    "provider_invalid_request",
    Exit::Unfinished,
    false,
    "read the server's reason; the same request will fail again",
);
/// The request does not fit the model's context window.
pub const CONTEXT_OVERFLOW: Code = Code::new(
    "context_overflow",
    Exit::Unfinished,
    false,
    "shorten the conversation or use a model with a larger context window",
);
/// Too many requests for now (429).
pub const RATE_LIMITED: Code = Code::new(
    "rate_limited",
    Exit::Unfinished,
    true,
    "wait as long as the server asks, then send the same request",
);
/// The account has nothing left to spend.
pub const QUOTA: Code = Code::new(
    "quota",
    Exit::Unfinished,
    false,
    "add credit to the account or raise its limit at the provider",
);
/// The server has too much to do (503, 529).
pub const OVERLOADED: Code =
    Code::new("overloaded", Exit::Unfinished, true, "wait, then send the same request");
/// Nothing came in time.
pub const PROVIDER_TIMEOUT: Code = Code::new(
    "provider_timeout",
    Exit::Unfinished,
    true,
    "send the request again; for a slow local model raise the provider's time limits",
);
/// No connection could be made or it broke before an answer began.
pub const PROVIDER_UNREACHABLE: Code = Code::new(
    "provider_unreachable",
    Exit::Unfinished,
    true,
    "start the server, or correct the base URL or the network; `glasshouse provider test` tries it",
);
/// The server's certificate is not trusted.
pub const PROVIDER_UNTRUSTED: Code = Code::new(
    "provider_untrusted",
    Exit::Unfinished,
    false,
    "check the base URL; for a private authority give its certificate to the provider",
);
/// The server answered with a redirect, which is never followed.
pub const PROVIDER_REDIRECTED: Code = Code::new(
    "provider_redirected",
    Exit::Unfinished,
    false,
    "set the base URL to the address the server really answers at",
);
/// The server failed (500 and its like).
pub const PROVIDER_FAILED: Code = Code::new(
    "provider_failed",
    Exit::Unfinished,
    true,
    "send the request again; if it goes on, look at the server's status page or log",
);
/// The answer is not what the protocol allows.
pub const PROVIDER_INVALID_RESPONSE: Code = Code::new(
    "provider_invalid_response",
    Exit::Unfinished,
    true,
    "check that the base URL is an endpoint of the dialect that is set; if it is, send the request again",
);
/// The answer is larger than the limits allow.
pub const PROVIDER_RESPONSE_TOO_LARGE: Code = Code::new(
    "provider_response_too_large",
    Exit::Unfinished,
    false,
    "lower the output limit or ask for less at once",
);
/// The answer stopped before its end.
pub const STREAM_CUT: Code = Code::new(
    "stream_cut",
    Exit::Unfinished,
    true,
    "send the request again; nothing of the broken answer was run",
);
/// The server failed or asked to wait a moment ago, so it was not asked.
pub const PROVIDER_PAUSED: Code = Code::new(
    "provider_paused",
    Exit::Unfinished,
    true,
    "wait as long as it says; if it goes on, look at the server's status page or log",
);
/// A price file cannot be used.
pub const PRICES_INVALID: Code =
    Code::new("prices_invalid", Exit::Usage, false, "correct the price file where the reason says");
/// The server does not take its own reasoning back as it was sent.
pub const REASONING_REFUSED: Code = Code::new(
    "reasoning_refused",
    Exit::Unfinished,
    true,
    "nothing: the request is sent once more without the earlier reasoning",
);
/// A filter of the provider stopped the request or the answer.
pub const CONTENT_FILTER: Code = Code::new(
    "content_filter",
    Exit::Unfinished,
    false,
    "change the request so that the provider's filter accepts it",
);
/// The model declined.
pub const REFUSAL: Code =
    Code::new("refusal", Exit::Unfinished, false, "read the model's words and ask differently");
/// The caller cancelled the request.
pub const PROVIDER_CANCELLED: Code =
    Code::new("provider_cancelled", Exit::Cancelled, false, "start again when you want the answer");
/// A scenario file cannot be used.
pub const SCENARIO_INVALID: Code = Code::new(
    "scenario_invalid",
    Exit::Usage,
    false,
    "correct the scenario file at the line the reason names",
);
/// A scenario expected something else than what was sent.
pub const SCENARIO_MISMATCH: Code = Code::new(
    "scenario_mismatch",
    Exit::Unfinished,
    false,
    "compare the expectation with what was really sent; one of the two is wrong",
);

/// Every code.
pub const ALL: &[Code] = &[
    PROVIDER_CONFIG,
    PROVIDER_KEY_MISSING,
    PROVIDER_INSECURE,
    PROVIDER_AUTH,
    PROVIDER_PERMISSION,
    PROVIDER_NOT_FOUND,
    PROVIDER_INVALID_REQUEST,
    CONTEXT_OVERFLOW,
    RATE_LIMITED,
    QUOTA,
    OVERLOADED,
    PROVIDER_TIMEOUT,
    PROVIDER_UNREACHABLE,
    PROVIDER_UNTRUSTED,
    PROVIDER_REDIRECTED,
    PROVIDER_FAILED,
    PROVIDER_INVALID_RESPONSE,
    PROVIDER_RESPONSE_TOO_LARGE,
    STREAM_CUT,
    PROVIDER_PAUSED,
    PRICES_INVALID,
    REASONING_REFUSED,
    CONTENT_FILTER,
    REFUSAL,
    PROVIDER_CANCELLED,
    SCENARIO_INVALID,
    SCENARIO_MISMATCH,
];
