//! What the server counts, for Prometheus. Labels are routes and classes of status: never ids, never texts.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hyper::StatusCode;

use crate::route::{ROUTES, Route};
use crate::telemetry::Histogram;

/// Classes of status, from 1xx on.
const CLASSES: usize = 5;

/// Counters of one route.
#[derive(Debug, Default)]
struct Counted {
    by_class: [AtomicU64; CLASSES],
    time: Mutex<Histogram>,
}

/// All counters.
#[derive(Debug)]
pub(crate) struct Metrics {
    routes: Vec<Counted>,
    refused: AtomicU64,
}

/// What is so at this moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) running_turns: usize,
    pub(crate) waiting_requests: usize,
    pub(crate) open_streams: usize,
    pub(crate) events: u64,
}

impl Metrics {
    /// All at zero.
    pub(crate) fn new() -> Self {
        let routes = ROUTES.iter().map(|_| Counted::default()).collect();
        Self { routes, refused: AtomicU64::new(0) }
    }

    /// A request was answered.
    pub(crate) fn answered(&self, route: &Route, status: StatusCode, took: Duration) {
        let at = ROUTES.iter().position(|one| std::ptr::eq(one, route));
        let Some(counted) = at.and_then(|at| self.routes.get(at)) else { return };
        let class = usize::from(status.as_u16() / 100).saturating_sub(1).min(CLASSES - 1);
        counted.by_class[class].fetch_add(1, Ordering::Relaxed);
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        counted.time.lock().unwrap_or_else(PoisonError::into_inner).take(us);
    }

    /// A request came no further than the gate.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The text that Prometheus reads.
    pub(crate) fn text(&self, now: Now) -> String {
        let mut text = String::new();
        let mut one = |name: &str, kind: &str, help: &str, rows: &[(String, String)]| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in rows {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let gauge = |value: usize| vec![(String::new(), value.to_string())];
        one("glasshouse_running_turns", "gauge", "Turns that run.", &gauge(now.running_turns));
        one(
            "glasshouse_waiting_requests",
            "gauge",
            "Requests that wait for a worker.",
            &gauge(now.waiting_requests),
        );
        one(
            "glasshouse_open_streams",
            "gauge",
            "Streams of events that are open.",
            &gauge(now.open_streams),
        );
        one(
            "glasshouse_log_events",
            "gauge",
            "Events of the log that a signed head covers.",
            &[(String::new(), now.events.to_string())],
        );
        let refused = self.refused.load(Ordering::Relaxed).to_string();
        one(
            "glasshouse_requests_refused_total",
            "counter",
            "Requests without token, for another host or from another site.",
            &[(String::new(), refused)],
        );
        let (mut counts, mut times) = (Vec::new(), String::new());
        for (route, counted) in ROUTES.iter().zip(&self.routes) {
            let label = format!("method=\"{}\",route=\"{}\"", route.method, route.path);
            let classes = counted.by_class.iter().map(|count| count.load(Ordering::Relaxed));
            for (class, count) in (1..).zip(classes).filter(|(_, count)| *count > 0) {
                counts.push((format!("{{{label},status=\"{class}xx\"}}"), count.to_string()));
            }
            let time = counted.time.lock().unwrap_or_else(PoisonError::into_inner);
            if !time.is_empty() {
                time.write(&mut times, "glasshouse_request_seconds", &format!("{label},"));
            }
        }
        one("glasshouse_requests_total", "counter", "Requests answered.", &counts);
        one("glasshouse_request_seconds", "histogram", "Time that answers took.", &[]);
        text.push_str(&times);
        text.push_str(&process());
        text
    }
}

/// What the system says of this process.
fn process() -> String {
    let mut text = String::new();
    let mut gauge = |name: &str, help: &str, value: Option<u64>| {
        if let Some(value) = value {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
        }
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let bytes = field("VmRSS:").map(|kib| kib * 1_024);
    gauge("process_resident_memory_bytes", "Memory that the process holds.", bytes);
    gauge("process_threads", "Threads of the process.", field("Threads:"));
    let open = std::fs::read_dir("/proc/self/fd").ok().map(|list| list.count() as u64);
    gauge("process_open_fds", "Descriptors that are open.", open);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_tells_what_was_counted_by_route() {
        let metrics = Metrics::new();
        let (route, ms) = (&ROUTES[3], Duration::from_millis(1_500));
        metrics.answered(route, StatusCode::OK, ms);
        metrics.answered(route, StatusCode::OK, ms);
        metrics.answered(route, StatusCode::BAD_REQUEST, ms);
        metrics.refused();
        let now = Now { running_turns: 3, waiting_requests: 0, open_streams: 2, events: 17 };
        let text = metrics.text(now);
        let label = format!("method=\"{}\",route=\"{}\"", route.method, route.path);
        for line in [
            "glasshouse_running_turns 3".to_owned(),
            "glasshouse_open_streams 2".to_owned(),
            "glasshouse_log_events 17".to_owned(),
            "glasshouse_requests_refused_total 1".to_owned(),
            format!("glasshouse_requests_total{{{label},status=\"2xx\"}} 2"),
            format!("glasshouse_requests_total{{{label},status=\"4xx\"}} 1"),
            format!("glasshouse_request_seconds_sum{{{label}}} 4.5"),
            format!("glasshouse_request_seconds_bucket{{{label},le=\"2.5\"}} 3"),
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
        // Each name is told once, with its type.
        let typed = text.lines().filter(|line| line.starts_with("# TYPE")).count();
        assert_eq!(typed, 10);
    }
}
