//! What an operator is told of answers that are a fault of ours: one line of JSON for each, with the request's name,
//! which its client has as a header, the tenant, the route's pattern and the error's code. The error's own words may
//! name files of a tenant: they are a line of their own, for who asks for such.

use std::sync::Arc;

use glasshouse_model::TenantId;
use serde::Serialize;

use crate::clock::now_us;
use crate::problem::Problem;
use crate::route::Route;

/// Header with the name of a request that failed by a fault of ours.
pub(crate) const REQUEST_ID: &str = "x-request-id";
/// Least status that is a fault of ours.
const FIRST: u16 = 500;
/// Most bytes of a cause.
const MAX_CAUSE_BYTES: usize = 2_000;

/// Whoever runs the server, as far as it tells them anything by itself.
pub trait Operator: Send + Sync {
    /// Takes one line, an object of JSON.
    fn fault(&self, line: &str);

    /// Takes the cause of a fault, an object of JSON, which may name a tenant's files. Nobody hears of it unless they
    /// say how.
    fn cause(&self, _line: &str) {}
}

/// Nobody.
impl Operator for () {
    fn fault(&self, _: &str) {}
}

/// One line.
#[derive(Serialize)]
struct Line<'a> {
    level: &'static str,
    time_us: u64,
    request: &'a str,
    tenant: Option<&'a TenantId>,
    method: Option<&'a str>,
    route: Option<&'a str>,
    status: u16,
    code: &'a str,
}

/// Its cause, in the words that its client was told.
#[derive(Serialize)]
struct Cause<'a> {
    level: &'static str,
    time_us: u64,
    request: &'a str,
    cause: &'a str,
}

/// Tells the operator.
#[derive(Clone)]
pub(crate) struct Faults {
    operator: Arc<dyn Operator>,
    /// Whose they are; nobody's before it is known who asks.
    tenant: Option<TenantId>,
}

impl Faults {
    pub(crate) fn new(operator: Arc<dyn Operator>) -> Self {
        Self { operator, tenant: None }
    }

    /// Those of a tenant.
    pub(crate) fn of(&self, tenant: &TenantId) -> Self {
        Self { tenant: Some(tenant.clone()), ..self.clone() }
    }

    /// Tells of a problem that is a fault of ours, and names it; nothing for any other.
    pub(crate) fn tell(&self, problem: &Problem, route: Option<&Route>) -> Option<String> {
        if problem.status() < FIRST {
            return None;
        }
        let (name, time_us) = (name(), now_us());
        let line = Line {
            level: "error",
            time_us,
            request: &name,
            tenant: self.tenant.as_ref(),
            method: route.map(|route| route.method.as_str()),
            route: route.map(|route| route.path),
            status: problem.status(),
            code: problem.code(),
        };
        self.operator.fault(&serde_json::to_string(&line).unwrap_or_default());
        let cause = shortened(problem.detail());
        let cause = Cause { level: "debug", time_us, request: &name, cause };
        self.operator.cause(&serde_json::to_string(&cause).unwrap_or_default());
        Some(name)
    }
}

impl std::fmt::Debug for Faults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Faults")
    }
}

/// A name that says nothing. Without chance there is none: the line is told all the same.
fn name() -> String {
    let mut bytes = [0; 8];
    let _ = getrandom::fill(&mut bytes);
    format!("{:016x}", u64::from_be_bytes(bytes))
}

fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_CAUSE_BYTES)]
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;
    use crate::route::ROUTES;
    use crate::{Error, codes};

    #[derive(Default)]
    struct Kept(Mutex<Vec<String>>);

    impl Operator for Kept {
        fn fault(&self, line: &str) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
        }

        fn cause(&self, line: &str) {
            self.fault(line);
        }
    }

    #[test]
    fn a_fault_of_ours_is_one_line_and_any_other_is_none() {
        let check = |error: Error, expected: Option<(u16, &str, &str)>| {
            let kept = Arc::new(Kept::default());
            let route = ROUTES.iter().find(|route| route.path == "/v1/blobs/{digest}");
            let faults = Faults::new(Arc::clone(&kept) as Arc<dyn Operator>);
            let name = faults.of(&TenantId::local()).tell(&Problem::of(error), route);
            let lines = kept.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let Some((status, code, cause)) = expected else {
                assert_eq!((name, lines), (None, Vec::new()));
                return;
            };
            let lines: Vec<serde_json::Value> = lines
                .iter()
                .map(|line| {
                    assert!(!line.contains('\n'));
                    let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
                    assert!(line["time_us"].take().as_u64() > Some(0));
                    line
                })
                .collect();
            // What may name a file is in the second one alone.
            let name = name.unwrap();
            let told = serde_json::json!({
                "level": "error", "time_us": null, "request": name, "tenant": "local",
                "method": "GET", "route": "/v1/blobs/{digest}", "status": status, "code": code,
            });
            let why = serde_json::json!({
                "level": "debug", "time_us": null, "request": name, "cause": cause,
            });
            assert_eq!(lines, [told, why]);
        };
        check(
            Error::new(codes::SERVER_FAILED, "it broke").why("line\nend"),
            Some((500, "server_failed", "it broke: line\nend")),
        );
        check(
            Error::new(glasshouse_log::codes::STORAGE_FULL, "no room"),
            Some((507, "storage_full", "no room")),
        );
        let long = format!("{}ä", "a".repeat(MAX_CAUSE_BYTES - 1));
        check(
            Error::new(codes::SERVER_STOPPING, long),
            Some((503, "server_stopping", &"a".repeat(MAX_CAUSE_BYTES - 1))),
        );
        check(Error::new(codes::SERVER_BUSY, "later"), None);
        check(Error::new(codes::ROUTE_UNKNOWN, "nothing"), None);
    }
}
