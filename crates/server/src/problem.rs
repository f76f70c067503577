//! Errors as RFC 9457 problems: the members of every error of the product, and a status code.

use std::collections::BTreeMap;

use glasshouse_model::error::ContextValue;
use glasshouse_model::{Exit, Fault};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Error;
use crate::reply::{Reply, json_bytes};

/// Media type of a problem.
pub(crate) const MEDIA_TYPE: &str = "application/problem+json";
/// What a type's name begins with.
const TYPE_PREFIX: &str = "urn:glasshouse:error:";
/// Context member from which `Retry-After` is made.
pub(crate) const RETRY_AFTER_S: &str = "retry_after_s";

/// The body of a problem.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct Problem {
    /// Names the code; it is not meant to be fetched.
    #[serde(rename = "type")]
    kind: String,
    title: String,
    status: u16,
    detail: String,
    code: String,
    what: String,
    why: String,
    fix: String,
    retryable: bool,
    context: BTreeMap<String, ContextValue>,
}

/// The status codes that do not follow from the exit status.
const STATUSES: &[(&str, StatusCode)] = &[
    ("request_invalid", StatusCode::BAD_REQUEST),
    ("unauthorized", StatusCode::UNAUTHORIZED),
    ("method_unknown", StatusCode::METHOD_NOT_ALLOWED),
    ("request_too_large", StatusCode::PAYLOAD_TOO_LARGE),
    ("request_too_slow", StatusCode::REQUEST_TIMEOUT),
    ("media_unsupported", StatusCode::UNSUPPORTED_MEDIA_TYPE),
    ("server_busy", StatusCode::TOO_MANY_REQUESTS),
    ("too_many_requests", StatusCode::TOO_MANY_REQUESTS),
    ("quota_exhausted", StatusCode::TOO_MANY_REQUESTS),
    ("identity_unavailable", StatusCode::SERVICE_UNAVAILABLE),
    ("headers_too_many", StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
    ("server_stopping", StatusCode::SERVICE_UNAVAILABLE),
    ("precondition_failed", StatusCode::PRECONDITION_FAILED),
    ("session_archived", StatusCode::GONE),
    ("plan_throttled", StatusCode::TOO_MANY_REQUESTS),
    ("steering_full", StatusCode::TOO_MANY_REQUESTS),
    ("log_busy", StatusCode::SERVICE_UNAVAILABLE),
    ("storage_full", StatusCode::INSUFFICIENT_STORAGE),
];

/// The status of a code. Every code of the project has one.
pub(crate) fn status(code: &str, exit: Exit) -> StatusCode {
    if let Some((_, status)) = STATUSES.iter().find(|(name, _)| *name == code) {
        return *status;
    }
    match exit {
        Exit::Usage => StatusCode::UNPROCESSABLE_ENTITY,
        Exit::Denied | Exit::NeedsApproval => StatusCode::FORBIDDEN,
        Exit::Mismatch | Exit::Unfinished | Exit::Conflict | Exit::Cancelled => {
            StatusCode::CONFLICT
        }
        Exit::NotFound => StatusCode::NOT_FOUND,
        Exit::NoIsolation => StatusCode::SERVICE_UNAVAILABLE,
        Exit::SandboxTimedOut => StatusCode::GATEWAY_TIMEOUT,
        Exit::Done | Exit::Internal | Exit::Storage | Exit::SandboxFailed => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

impl Problem {
    pub(crate) const fn status(&self) -> u16 {
        self.status
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// The error in a line.
    pub(crate) fn line(&self) -> String {
        format!("{}: {}", self.code, self.detail)
    }

    /// The body that tells an error.
    pub(crate) fn of(error: Error) -> Self {
        let fault = Fault::from(error);
        let status = status(fault.code().name, fault.code().exit).as_u16();
        let report = fault.report();
        let detail = match report.why.as_str() {
            "" => report.what.clone(),
            why => format!("{}: {why}", report.what),
        };
        Self {
            kind: format!("{TYPE_PREFIX}{}", report.code),
            title: report.code.replace('_', " "),
            status,
            detail,
            code: report.code,
            what: report.what,
            why: report.why,
            fix: report.fix,
            retryable: report.retryable,
            context: report.context,
        }
    }
}

impl From<Error> for Reply {
    fn from(error: Error) -> Self {
        let problem = Problem::of(error);
        let status = StatusCode::from_u16(problem.status).unwrap_or_default();
        let retry_after_s = problem.context.get(RETRY_AFTER_S).and_then(ContextValue::as_u64);
        let mut reply = Self::of_bytes(status, MEDIA_TYPE, json_bytes(&problem));
        if status.is_server_error() {
            reply = reply.told(problem);
        }
        if let Some(seconds) = retry_after_s {
            reply = reply.header("retry-after", &seconds.to_string());
        }
        if status == StatusCode::UNAUTHORIZED {
            reply = reply.header("www-authenticate", "Bearer realm=\"glasshouse\"");
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes;

    #[test]
    fn every_code_of_the_project_has_a_status_that_says_who_must_act() {
        let all = [
            codes::ALL,
            glasshouse_kernel::codes::ALL,
            glasshouse_log::codes::ALL,
            glasshouse_policy::codes::ALL,
            glasshouse_provider::codes::ALL,
        ];
        for code in all.into_iter().flatten() {
            let status = status(code.name, code.exit);
            assert!(status.is_client_error() || status.is_server_error(), "{}", code.name);
            let is_ours = matches!(code.exit, Exit::Internal | Exit::Storage | Exit::NoIsolation);
            let comes_back =
                matches!(code.name, "server_stopping" | "log_busy" | "identity_unavailable");
            assert_eq!(status.is_server_error(), is_ours || comes_back, "{} {status}", code.name);
        }
    }

    #[test]
    fn statuses_as_the_contract_has_them() {
        let check = |code: glasshouse_model::Code, expected: u16| {
            assert_eq!(status(code.name, code.exit).as_u16(), expected, "{}", code.name);
        };
        check(codes::UNAUTHORIZED, 401);
        check(codes::HOST_REFUSED, 403);
        check(codes::ROUTE_UNKNOWN, 404);
        check(codes::SERVER_BUSY, 429);
        check(glasshouse_kernel::codes::SESSION_NOT_FOUND, 404);
        check(glasshouse_kernel::codes::CONFIG_INVALID, 422);
        check(glasshouse_kernel::codes::APPROVAL_FORBIDDEN, 403);
        check(glasshouse_kernel::codes::APPROVAL_ANSWERED, 409);
        check(glasshouse_log::codes::SESSION_OWNED, 409);
        check(glasshouse_log::codes::STORAGE_FULL, 507);
        check(glasshouse_log::codes::LOG_CORRUPT, 500);
    }

    #[test]
    fn every_code_has_a_page() {
        let pages = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
        for code in codes::ALL {
            let page = std::fs::read_to_string(pages.join(format!("{}.md", code.name)));
            let page = page.unwrap_or_else(|e| panic!("{}: {e}", code.name));
            assert!(page.starts_with(&format!("# {}\n", code.name)), "{}", code.name);
        }
    }

    #[test]
    fn a_problem_has_the_members_of_every_error() {
        let error = Error::new(codes::SERVER_BUSY, "no").why("full").with(RETRY_AFTER_S, 3);
        let reply = Reply::from(error);
        assert_eq!(reply.status.as_u16(), 429);
        assert_eq!(reply.header_value("retry-after"), Some("3"));
        assert_eq!(reply.header_value("content-type"), Some(MEDIA_TYPE));
        let body: serde_json::Value = serde_json::from_slice(reply.whole()).unwrap();
        let expected = serde_json::json!({
            "type": "urn:glasshouse:error:server_busy", "title": "server busy", "status": 429,
            "detail": "no: full", "code": "server_busy", "what": "no", "why": "full",
            "fix": "retry after the time that is named", "retryable": true,
            "context": {"retry_after_s": 3},
        });
        assert_eq!(body, expected);
    }
}
