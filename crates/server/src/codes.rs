//! Every error code of this crate. Each has a page in `docs/errors/`.

use glasshouse_model::{Code, Exit};

/// A request that cannot be understood.
pub const REQUEST_INVALID: Code =
    Code::new("request_invalid", Exit::Usage, false, "correct the named part of the request");
/// No valid token.
pub const UNAUTHORIZED: Code = Code::new(
    "unauthorized",
    Exit::Denied,
    false,
    "send `Authorization: Bearer TOKEN` with a key, or on this machine with the token of the server's file",
);
/// A request for another host.
pub const HOST_REFUSED: Code = Code::new(
    "host_refused",
    Exit::Denied,
    false,
    "use the address that `glasshouse serve` printed",
);
/// A request that a page of another site made.
pub const ORIGIN_REFUSED: Code = Code::new(
    "origin_refused",
    Exit::Denied,
    false,
    "make the request from the server's own pages, or without a browser",
);
/// A path that the server does not have.
pub const ROUTE_UNKNOWN: Code =
    Code::new("route_unknown", Exit::NotFound, false, "look the path up in the API's reference");
/// A method that the path does not have.
pub const METHOD_UNKNOWN: Code =
    Code::new("method_unknown", Exit::Usage, false, "use a method that `Allow` names");
/// A body over its limit.
pub const REQUEST_TOO_LARGE: Code =
    Code::new("request_too_large", Exit::Usage, false, "send less; the limit is named");
/// A body that did not come in time.
pub const REQUEST_TOO_SLOW: Code =
    Code::new("request_too_slow", Exit::Usage, true, "send the whole body at once");
/// A body that is no JSON.
pub const MEDIA_UNSUPPORTED: Code = Code::new(
    "media_unsupported",
    Exit::Usage,
    false,
    "send JSON with `Content-Type: application/json`",
);
/// More work than the server takes at a time.
pub const SERVER_BUSY: Code =
    Code::new("server_busy", Exit::Conflict, true, "retry after the time that is named");
/// The server is about to end.
pub const SERVER_STOPPING: Code =
    Code::new("server_stopping", Exit::Conflict, true, "retry once it is started again");
/// A turn while another one runs on the branch.
pub const TURN_RUNNING: Code = Code::new(
    "turn_running",
    Exit::Conflict,
    true,
    "wait for its end in the event stream, or cancel it",
);
/// A turn of a session that waits for an answer about its mode.
pub const MODE_UNDECIDED: Code = Code::new(
    "mode_undecided",
    Exit::Conflict,
    true,
    "answer the named approval, then start the turn",
);
/// A route that the caller's roles do not open.
pub const ROLE_FORBIDDEN: Code = Code::new(
    "role_forbidden",
    Exit::Denied,
    false,
    "use a key with one of the named roles; an admin of the tenant makes one",
);
/// Something that only whoever runs the server chooses.
pub const TENANT_RESTRICTED: Code = Code::new(
    "tenant_restricted",
    Exit::Denied,
    false,
    "leave the named part out, or ask whoever runs the server to allow it",
);
/// More requests than the caller may send in this time.
pub const TOO_MANY_REQUESTS: Code =
    Code::new("too_many_requests", Exit::Conflict, true, "retry after the time that is named");
/// A quota of the tenant that is used up.
pub const QUOTA_EXHAUSTED: Code = Code::new(
    "quota_exhausted",
    Exit::Conflict,
    true,
    "retry after the time that is named, or ask whoever runs the server for more",
);
/// An identity provider that does not answer.
pub const IDENTITY_UNAVAILABLE: Code = Code::new(
    "identity_unavailable",
    Exit::Conflict,
    true,
    "retry later; whoever runs the server looks whether the identity provider answers",
);
/// Settings of the server that cannot be used.
pub const SERVER_CONFIG_INVALID: Code = Code::new(
    "server_config_invalid",
    Exit::Usage,
    false,
    "correct the named key of the server's settings",
);
/// A certificate or key that cannot be used.
pub const TLS_UNUSABLE: Code = Code::new(
    "tls_unusable",
    Exit::Usage,
    false,
    "name a certificate chain and its key in PEM; nobody else may read the key",
);
/// More headers than a request may have.
pub const HEADERS_TOO_MANY: Code =
    Code::new("headers_too_many", Exit::Usage, false, "send fewer headers; the limit is named");
/// A cancellation of what does not run.
pub const TURN_NOT_RUNNING: Code = Code::new(
    "turn_not_running",
    Exit::Conflict,
    false,
    "look at the session's events: its turn is over",
);
/// A cursor behind the end of the branch.
pub const CURSOR_AHEAD: Code =
    Code::new("cursor_ahead", Exit::Conflict, false, "read the branch again from its first event");
/// What the client knows is no longer so.
pub const PRECONDITION_FAILED: Code = Code::new(
    "precondition_failed",
    Exit::Conflict,
    false,
    "read the resource again and decide on what it is now",
);
/// One idempotency key for two different requests.
pub const KEY_REUSED: Code =
    Code::new("key_reused", Exit::Conflict, false, "use a new Idempotency-Key for a new request");
/// An address that cannot be listened on.
pub const LISTEN_FAILED: Code =
    Code::new("listen_failed", Exit::Usage, false, "pass a free address with --listen");
/// An address that others can reach.
pub const LISTEN_INSECURE: Code = Code::new(
    "listen_insecure",
    Exit::Denied,
    false,
    "listen on a loopback address, or set a certificate and make a key; `--insecure-plaintext` only where something else encrypts",
);
/// A token file that cannot be trusted.
pub const TOKEN_UNUSABLE: Code = Code::new(
    "token_unusable",
    Exit::Denied,
    false,
    "remove the named file; `glasshouse serve` makes a new one",
);
/// A collector of spans that cannot be one.
pub const TELEMETRY_INVALID: Code = Code::new(
    "telemetry_invalid",
    Exit::Usage,
    false,
    "set OTEL_EXPORTER_OTLP_ENDPOINT to http://HOST:PORT of a collector, or unset it",
);
/// A fault of ours.
pub const SERVER_FAILED: Code = Code::new(
    "server_failed",
    Exit::Internal,
    false,
    "report it with what the server wrote to stderr",
);

/// All of them.
pub const ALL: &[Code] = &[
    REQUEST_INVALID,
    UNAUTHORIZED,
    HOST_REFUSED,
    ORIGIN_REFUSED,
    ROUTE_UNKNOWN,
    METHOD_UNKNOWN,
    REQUEST_TOO_LARGE,
    REQUEST_TOO_SLOW,
    MEDIA_UNSUPPORTED,
    SERVER_BUSY,
    SERVER_STOPPING,
    TURN_RUNNING,
    TURN_NOT_RUNNING,
    MODE_UNDECIDED,
    ROLE_FORBIDDEN,
    TENANT_RESTRICTED,
    TOO_MANY_REQUESTS,
    QUOTA_EXHAUSTED,
    IDENTITY_UNAVAILABLE,
    SERVER_CONFIG_INVALID,
    TLS_UNUSABLE,
    HEADERS_TOO_MANY,
    CURSOR_AHEAD,
    PRECONDITION_FAILED,
    KEY_REUSED,
    LISTEN_FAILED,
    LISTEN_INSECURE,
    TOKEN_UNUSABLE,
    TELEMETRY_INVALID,
    SERVER_FAILED,
];
