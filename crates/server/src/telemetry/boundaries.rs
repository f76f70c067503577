//! Spans of what has no event: requests, and what the log's store did. They wait here for the thread that sends.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use glasshouse_log::{Observer, Operation};
use glasshouse_model::{BranchId, Digest, Seq};
use serde_json::json;

use super::spans::{Span, attribute, nanos};
use crate::clock::now_us;

/// In front of what ids are made of.
const TAG: &[u8] = b"glasshouse/boundary-span/v1\0";
/// Most that wait for the thread; the oldest go.
const MAX_WAITING: usize = 4_096;
/// Reads that are told of: there are many, and only slow ones say something.
const SLOW_READ: Duration = Duration::from_millis(5);
/// Kinds of spans.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
/// Status of a span that failed.
const ERROR: u8 = 2;
/// Name of the thread that sends; its own reads are not told of.
pub(super) const SENDER: &str = "telemetry";

/// What waits to be told.
#[derive(Debug, Default)]
pub(super) struct Boundaries {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    spans: VecDeque<Span>,
    operations: VecDeque<(u64, Operation)>,
    dropped: u64,
}

/// A request that was answered.
#[derive(Debug)]
pub(crate) struct Answered<'a> {
    pub(crate) method: &'a str,
    /// Its path as the table has it: no id.
    pub(crate) route: &'static str,
    pub(crate) status: u16,
    pub(crate) took: Duration,
    /// The trace that the client began, as <https://www.w3.org/TR/trace-context/> has it.
    pub(crate) traceparent: Option<&'a str>,
}

impl Boundaries {
    fn push(&self, add: impl FnOnce(&mut Waiting)) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        add(&mut waiting);
        if waiting.spans.len() > MAX_WAITING {
            waiting.spans.pop_front();
            waiting.dropped += 1;
        }
        if waiting.operations.len() > MAX_WAITING {
            waiting.operations.pop_front();
            waiting.dropped += 1;
        }
    }

    /// Takes a request in.
    pub(super) fn answered(&self, answered: &Answered<'_>) {
        if let Some(span) = answered.span(now_us()) {
            self.push(|waiting| waiting.spans.push_back(span));
        }
    }

    /// Takes out what waits, as spans, and how many were dropped since the last time. `turn` says in which turn of
    /// its branch a sequence is.
    pub(super) fn take(
        &self,
        turn: impl Fn(&BranchId, Seq) -> Option<(String, String)>,
    ) -> (Vec<Span>, u64) {
        let taken =
            std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        let mut spans: Vec<Span> = taken.spans.into();
        let told = taken.operations.iter();
        spans.extend(
            told.map(|(ended_us, one)| span_of(one, *ended_us, turn(&one.branch, one.seq))),
        );
        (spans, taken.dropped)
    }
}

impl Observer for Boundaries {
    fn done(&self, operation: Operation) {
        let is_quick_read = operation.name == "read" && operation.took < SLOW_READ;
        if is_quick_read || std::thread::current().name() == Some(SENDER) {
            return;
        }
        self.push(|waiting| waiting.operations.push_back((now_us(), operation)));
    }
}

/// A span of the store. One in a turn belongs to it.
fn span_of(operation: &Operation, ended_us: u64, turn: Option<(String, String)>) -> Span {
    let Operation { name, branch, seq, events, took, code } = operation;
    let parts: [&[u8]; 5] = [
        TAG,
        name.as_bytes(),
        branch.as_str().as_bytes(),
        &seq.to_be_bytes(),
        &ended_us.to_be_bytes(),
    ];
    let id = Digest::of_parts(&parts).hex();
    let mut span = json!({
        "traceId": id[..32], "spanId": id[32..48], "name": format!("log {name}"),
        "kind": INTERNAL, "startTimeUnixNano": began(ended_us, *took),
        "endTimeUnixNano": nanos(ended_us), "events": [],
        "attributes": [
            attribute("db.operation.name", *name),
            attribute("glasshouse.branch", branch.to_string()),
            attribute("glasshouse.seq", *seq),
            attribute("glasshouse.events", *events),
        ],
    });
    if let Some((trace, parent)) = turn {
        (span["traceId"], span["parentSpanId"]) = (trace.into(), parent.into());
    }
    if let Some(code) = code {
        span["status"] = json!({ "code": ERROR, "message": code });
    }
    span
}

/// When something began that ended, in nanoseconds.
fn began(ended_us: u64, took: Duration) -> String {
    let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    nanos(ended_us.saturating_sub(took_us))
}

impl Answered<'_> {
    /// The span; `None` where there is no randomness for its ids.
    fn span(&self, ended_us: u64) -> Option<Span> {
        let mut random = [0_u8; 24];
        getrandom::fill(&mut random).ok()?;
        let id = Digest::of(&random).hex();
        let mut span = json!({
            "traceId": id[..32], "spanId": id[32..48],
            "name": format!("{} {}", self.method, self.route), "kind": SERVER,
            "startTimeUnixNano": began(ended_us, self.took), "endTimeUnixNano": nanos(ended_us),
            "events": [],
            "attributes": [
                attribute("http.request.method", self.method),
                attribute("http.route", self.route),
                attribute("http.response.status_code", self.status),
            ],
        });
        if let Some((trace, parent)) = self.traceparent.and_then(parsed) {
            (span["traceId"], span["parentSpanId"]) = (trace.into(), parent.into());
        }
        if self.status >= 500 {
            span["status"] = json!({ "code": ERROR, "message": self.status.to_string() });
        }
        Some(span)
    }
}

/// Trace and parent of a `traceparent`.
fn parsed(text: &str) -> Option<(&str, &str)> {
    let mut parts = text.split('-');
    let (version, trace, parent, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, length: usize| {
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        text.len() == length && text.bytes().all(hex) && text.bytes().any(|byte| byte != b'0')
    };
    let is_whole = version == "00" && parts.next().is_none() && flags.len() == 2;
    (is_whole && is_hex(trace, 32) && is_hex(parent, 16)).then_some((trace, parent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_a_client_began_goes_on_and_no_other() {
        let check =
            |text: &str, expected: bool| assert_eq!(parsed(text).is_some(), expected, "{text}");
        check("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", true);
        check("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", false);
        check("00-00000000000000000000000000000000-b7ad6b7169203331-01", false);
        check("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", false);
        check("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", false);
        check("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x", false);
        check("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", false);
        check("", false);
    }

    #[test]
    fn a_request_is_told_without_anything_that_it_said() {
        let answered = Answered {
            method: "GET",
            route: "/v1/sessions/{session}",
            status: 503,
            took: Duration::from_micros(2_000),
            traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        };
        let span = answered.span(10_000).unwrap();
        assert_eq!(span["name"], "GET /v1/sessions/{session}");
        assert_eq!(
            (&span["traceId"], &span["parentSpanId"]),
            (&json!("0af7651916cd43dd8448eb211c80319c"), &json!("b7ad6b7169203331"))
        );
        assert_eq!(
            (&span["startTimeUnixNano"], &span["endTimeUnixNano"], &span["status"]["code"]),
            (&json!("8000000"), &json!("10000000"), &json!(2))
        );
    }

    #[test]
    fn an_append_belongs_to_its_turn_and_what_waits_is_bounded() {
        let boundaries = Boundaries::default();
        let operation = |name, took_ms| Operation {
            name,
            branch: "b_one".parse().unwrap(),
            seq: 7,
            events: 2,
            took: Duration::from_millis(took_ms),
            code: None,
        };
        boundaries.done(operation("append", 1));
        boundaries.done(operation("read", 1));
        boundaries.done(operation("read", 6));
        let turn = |_: &BranchId, seq: Seq| Some((format!("trace{seq}"), "parent".to_owned()));
        let (spans, dropped) = boundaries.take(turn);
        let names: Vec<_> = spans.iter().map(|span| &span["name"]).collect();
        assert_eq!((names, dropped), (vec![&json!("log append"), &json!("log read")], 0));
        assert_eq!(
            (&spans[0]["traceId"], &spans[0]["parentSpanId"]),
            (&json!("trace7"), &json!("parent"))
        );
        for _ in 0..MAX_WAITING + 3 {
            boundaries.done(operation("append", 1));
        }
        let (spans, dropped) = boundaries.take(|_, _| None);
        assert_eq!((spans.len(), dropped), (MAX_WAITING, 3));
    }
}
