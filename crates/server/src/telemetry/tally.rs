//! Counters that follow from events. Labels are words of ours, names of tools and of models; never ids, never texts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use glasshouse_model::body::{
    ApprovalRequested, ApprovalResolved, CallEnd, ModelCompleted, ModelFailed, ModelRequested,
    Outcome, PolicyDecided, ToolProposed, TurnEnd,
};
use glasshouse_model::{BranchId, CallId, Event, Kind, Seq};

/// Most values of a label; what comes later counts as `other`.
const MAX_VALUES: usize = 64;
/// Most calls and requests whose end is waited for.
const MAX_OPEN: usize = 10_000;
/// Upper bounds of durations in milliseconds.
const BOUNDS_MS: [u64; 12] = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 10_000, 60_000, 600_000];

/// Durations by bucket.
#[derive(Debug, Default, Clone)]
pub(crate) struct Histogram {
    buckets: [u64; BOUNDS_MS.len()],
    count: u64,
    sum_us: u64,
}

impl Histogram {
    /// Whether nothing was taken in.
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes a duration in.
    pub(crate) fn take(&mut self, us: u64) {
        for (bucket, bound_ms) in self.buckets.iter_mut().zip(BOUNDS_MS) {
            *bucket += u64::from(us <= bound_ms * 1_000);
        }
        self.count += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    /// Writes its lines; `labels` end with a comma where there are some.
    pub(crate) fn write(&self, text: &mut String, name: &str, labels: &str) {
        for (count, bound_ms) in self.buckets.iter().zip(BOUNDS_MS) {
            let bound = seconds(bound_ms * 1_000);
            let _ = writeln!(text, "{name}_bucket{{{labels}le=\"{bound}\"}} {count}");
        }
        let _ = writeln!(text, "{name}_bucket{{{labels}le=\"+Inf\"}} {}", self.count);
        let alone = labels.trim_end_matches(',');
        let alone = if alone.is_empty() { String::new() } else { format!("{{{alone}}}") };
        let _ = writeln!(text, "{name}_sum{alone} {}", seconds(self.sum_us));
        let _ = writeln!(text, "{name}_count{alone} {}", self.count);
    }
}

/// Microseconds as seconds.
fn seconds(us: u64) -> String {
    let text = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: BTreeMap<(&'static str, String), u64>,
    turns: Histogram,
    models: BTreeMap<String, Histogram>,
    tools: BTreeMap<String, Histogram>,
    began: BTreeMap<(BranchId, Seq), (u64, String)>,
    /// Questions, each with the events behind which there is nothing to answer any more.
    asked: BTreeMap<(BranchId, Seq), Vec<(BranchId, Seq)>>,
    spans: (u64, u64),
}

impl Tally {
    /// Takes an event in. One that cannot be read is not counted.
    pub(crate) fn take(&mut self, event: &Event) {
        let _ = self.try_take(event);
    }

    fn try_take(&mut self, event: &Event) -> Result<(), serde_json::Error> {
        let at = (event.header.branch.clone(), event.seq());
        let now_us = event.header.time_us;
        self.asked
            .retain(|_, ends| !ends.iter().any(|(branch, seq)| *branch == at.0 && at.1 > *seq));
        match event.kind() {
            Kind::TurnStarted => self.begin(at, now_us, String::new()),
            kind if kind.ends_turn() => {
                let body: TurnEnd = event.body_as()?;
                if let Some((began_us, _)) = self.began.remove(&(at.0, body.turn)) {
                    self.turns.take(now_us.saturating_sub(began_us));
                }
                let outcome = match (kind, body.outcome) {
                    (Kind::TurnInterrupted, _) => "interrupted",
                    (_, Outcome::Committed) => "committed",
                    (_, Outcome::Answered) => "answered",
                    (_, Outcome::Rejected) => "rejected",
                    (_, Outcome::Failed) => "failed",
                    (_, Outcome::Cancelled) => "cancelled",
                };
                self.count("glasshouse_turns_total", &[("outcome", outcome)], 1);
            }
            Kind::ModelRequested => {
                let body: ModelRequested = event.body_as()?;
                self.begin((at.0, u64::MAX - body.ordinal), now_us, label(&body.model));
            }
            Kind::ModelCompleted => self.answered(at.0, now_us, &event.body_as()?),
            Kind::ModelFailed => {
                let body: ModelFailed = event.body_as()?;
                self.began.remove(&(at.0, u64::MAX - body.ordinal));
                let code = label(&body.code);
                self.count("glasshouse_model_failures_total", &[("code", &code)], 1);
            }
            Kind::ToolProposed => {
                let body: ToolProposed = event.body_as()?;
                self.begin(at, now_us, label(&body.tool));
            }
            Kind::PolicyDecided => {
                let body: PolicyDecided = event.body_as()?;
                let effect = body.decision.effect.as_str();
                self.count("glasshouse_decisions_total", &[("decision", effect)], 1);
            }
            Kind::ApprovalRequested if self.asked.len() < MAX_OPEN => {
                let merge = event.body_as::<ApprovalRequested>()?.merge;
                let ends = merge
                    .map(|one| vec![(one.source, one.source_seq), (one.target, one.target_seq)]);
                self.asked.insert(at, ends.unwrap_or_default());
            }
            Kind::ApprovalResolved => {
                let body: ApprovalResolved = event.body_as()?;
                self.asked.remove(&(at.0, body.approval));
                let answer = if body.approved { "approved" } else { "rejected" };
                self.count("glasshouse_approvals_total", &[("answer", answer)], 1);
            }
            Kind::EgressConnected => {
                self.count("glasshouse_egress_total", &[("answer", "connected")], 1)
            }
            Kind::EgressDenied => self.count("glasshouse_egress_total", &[("answer", "denied")], 1),
            Kind::CommitCreated => self.count("glasshouse_commits_total", &[], 1),
            kind if kind.ends_call() => self.call_ended(at.0, &event.body_as()?),
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, at: (BranchId, Seq), now_us: u64, name: String) {
        if self.began.len() < MAX_OPEN {
            self.began.insert(at, (now_us, name));
        }
    }

    fn answered(&mut self, branch: BranchId, now_us: u64, body: &ModelCompleted) {
        let began = self.began.remove(&(branch, u64::MAX - body.ordinal));
        let (began_us, model) = began.unwrap_or((now_us, "unknown".to_owned()));
        let model = known(&self.models, model);
        self.models.entry(model.clone()).or_default().take(now_us.saturating_sub(began_us));
        for (kind, tokens) in &body.tokens {
            let labels = [("model", model.as_str()), ("kind", kind.as_str())];
            self.count("glasshouse_tokens_total", &labels, *tokens);
        }
        if let Some(micros) = body.cost_micros {
            self.count("glasshouse_cost_micros_total", &[("model", &model)], micros);
        }
    }

    fn call_ended(&mut self, branch: BranchId, body: &CallEnd) {
        let CallId(seq) = body.call;
        let began = self.began.remove(&(branch, seq));
        let tool = known(&self.tools, began.map_or("unknown".to_owned(), |(_, tool)| tool));
        self.tools.entry(tool.clone()).or_default().take(body.duration_us);
        let labels = [("tool", tool.as_str()), ("status", body.status.as_str())];
        self.count("glasshouse_calls_total", &labels, 1);
    }

    fn count(&mut self, name: &'static str, labels: &[(&str, &str)], by: u64) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let count = self.counts.entry((name, labels)).or_default();
        *count = count.saturating_add(by);
    }

    /// Counts spans that were sent, and those that could not be.
    pub(crate) const fn spans(&mut self, sent: u64, dropped: u64) {
        self.spans.0 += sent;
        self.spans.1 += dropped;
    }

    /// The text that Prometheus reads.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let typed = |text: &mut String, name: &str, kind: &str, help: &str| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        };
        for (name, help) in COUNTERS {
            typed(&mut text, name, "counter", help);
            for ((_, labels), count) in self.counts.iter().filter(|((one, _), _)| one == name) {
                let _ = writeln!(text, "{name}{labels} {count}");
            }
        }
        typed(
            &mut text,
            "glasshouse_open_approvals",
            "gauge",
            "Questions that wait for a person, of those asked since the start.",
        );
        let _ = writeln!(text, "glasshouse_open_approvals {}", self.asked.len());
        for (name, count) in [("sent", self.spans.0), ("dropped", self.spans.1)] {
            let name = format!("glasshouse_spans_{name}_total");
            typed(&mut text, &name, "counter", "Spans for OpenTelemetry.");
            let _ = writeln!(text, "{name} {count}");
        }
        typed(
            &mut text,
            "glasshouse_turn_seconds",
            "histogram",
            "Time from a turn's start to its end.",
        );
        self.turns.write(&mut text, "glasshouse_turn_seconds", "");
        typed(
            &mut text,
            "glasshouse_model_seconds",
            "histogram",
            "Time from a request to its answer.",
        );
        for (model, histogram) in &self.models {
            histogram.write(&mut text, "glasshouse_model_seconds", &format!("model=\"{model}\","));
        }
        typed(&mut text, "glasshouse_call_seconds", "histogram", "Time that calls ran.");
        for (tool, histogram) in &self.tools {
            histogram.write(&mut text, "glasshouse_call_seconds", &format!("tool=\"{tool}\","));
        }
        text
    }
}

/// Counters and what they count.
const COUNTERS: &[(&str, &str)] = &[
    ("glasshouse_turns_total", "Turns that ended."),
    ("glasshouse_model_failures_total", "Requests to models that failed."),
    ("glasshouse_tokens_total", "Tokens by kind."),
    (
        "glasshouse_cost_micros_total",
        "Cost of answers in micro-units of the price file's currency.",
    ),
    ("glasshouse_calls_total", "Calls that ended."),
    ("glasshouse_decisions_total", "Decisions of policies."),
    ("glasshouse_approvals_total", "Questions that were answered."),
    ("glasshouse_egress_total", "Connections of sandboxes."),
    ("glasshouse_commits_total", "Change sets that were committed."),
];

/// A value that may be a label: short, and of harmless characters.
fn label(text: &str) -> String {
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | '/');
    let text: String = text.chars().take(64).map(|c| if is_fine(c) { c } else { '_' }).collect();
    if text.is_empty() { "unknown".to_owned() } else { text }
}

fn known(values: &BTreeMap<String, Histogram>, value: String) -> String {
    if values.len() < MAX_VALUES || values.contains_key(&value) {
        value
    } else {
        "other".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_the_buckets_that_hold_them() {
        let mut histogram = Histogram::default();
        [4_000, 5_000, 2_000_000, 700_000_000].into_iter().for_each(|us| histogram.take(us));
        let mut text = String::new();
        histogram.write(&mut text, "x", "a=\"b\",");
        for line in [
            "x_bucket{a=\"b\",le=\"0.005\"} 2",
            "x_bucket{a=\"b\",le=\"1\"} 2",
            "x_bucket{a=\"b\",le=\"2.5\"} 3",
            "x_bucket{a=\"b\",le=\"600\"} 3",
            "x_bucket{a=\"b\",le=\"+Inf\"} 4",
            "x_sum{a=\"b\"} 702.009",
            "x_count{a=\"b\"} 4",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
    }

    #[test]
    fn labels_cannot_be_made_to_say_anything_or_to_grow_without_end() {
        let check = |text: &str, expected: &str| assert_eq!(label(text), expected);
        check("fs.read", "fs.read");
        check("a\"} 1\nb", "a_}_1_b".replace('}', "_").as_str());
        check("", "unknown");
        check(&"x".repeat(100), &"x".repeat(64));
        let mut tally = Tally::default();
        for n in 0..2 * MAX_VALUES {
            let model = known(&tally.models, format!("m{n}"));
            tally.models.entry(model).or_default().take(1);
        }
        assert_eq!(tally.models.len(), MAX_VALUES + 1);
        assert!(tally.models.contains_key("other"));
    }
}
