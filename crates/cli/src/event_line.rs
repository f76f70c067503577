//! An event as one line for a person: what happened, to what, with which result.

use std::collections::BTreeMap;

use glasshouse_kernel::session::debt::told;
use glasshouse_model::body::{
    ApprovalRequested, ApprovalResolved, BudgetCharged, CallEnd, CommandUsage, CommitCreated,
    DebtUpdated, ExemptionDecided, ExemptionRequested, MergeAnswered, MergeFailed, MergeProposed,
    MessageReceived, ModeChanged, ModelCompleted, ModelFailed, PolicyDecided, SessionCreated,
    TestEvidence, ToolProposed, ToolStarted, TurnEnd, WorkflowTransitioned, WorkspaceFrozen,
    WorkspaceSealed,
};
use glasshouse_model::{CallId, Decision, Event, Kind, each_once};
use serde_json::Value;

use crate::show::{clip, millis, subject};

/// Names of a body's facts that say nothing to a person in passing: ids, digests, long texts.
const MACHINE_FACTS: [&str; 5] = ["call", "attestation", "input", "args_digest", "policy_version"];

/// Writes the events of one branch, in order: the end of a call is told with what the call was.
#[derive(Default)]
pub(crate) struct Lines {
    calls: BTreeMap<CallId, String>,
}

impl Lines {
    /// The line of the next event.
    pub(crate) fn line(&mut self, event: &Event) -> String {
        // A body of a later version that cannot be read still has its facts.
        let what = self.what(event).unwrap_or_else(|_| facts(&event.body));
        let line = format!("{:>5}  {:<22} {}", event.seq(), event.kind().as_str(), clip(&what));
        line.trim_end().to_owned()
    }

    fn what(&mut self, event: &Event) -> Result<String, serde_json::Error> {
        match event.kind() {
            Kind::ToolProposed => {
                let it: ToolProposed = event.body_as()?;
                let call = format!("{} {}", it.tool, subject(&it)).trim_end().to_owned();
                self.calls.insert(CallId(event.seq()), call.clone());
                Ok(call)
            }
            Kind::ToolStarted => {
                let it: ToolStarted = event.body_as()?;
                Ok(format!("{}, isolation {}", self.call(it.call), it.isolation))
            }
            kind if kind.ends_call() => Ok(self.call_end(&event.body_as()?)),
            _ => conversation(event),
        }
    }

    fn call(&self, id: CallId) -> String {
        self.calls.get(&id).cloned().unwrap_or_else(|| id.to_string())
    }

    fn call_end(&self, end: &CallEnd) -> String {
        let code = end.code.as_ref().map_or_else(String::new, |code| format!(" {code}"));
        let exit = end.exit_code.map_or_else(String::new, |code| format!(" exit {code}"));
        let used = end.usage.as_ref().map_or_else(String::new, used);
        let took = millis(end.duration_us);
        let result = format!("{}{code}{exit}, {took}{used}", end.status.as_str());
        format!("{result}: {}", self.call(end.call))
    }
}

/// What a command used, in words.
pub(crate) fn used(it: &CommandUsage) -> String {
    let memory = it.memory_peak_bytes.div_ceil(1 << 20);
    let written = it.stdout_bytes.saturating_add(it.stderr_bytes);
    format!(", {} of processor, {memory} MiB, {written} bytes written", millis(it.cpu_us))
}

/// What the user, the model and the rules said and did.
fn conversation(event: &Event) -> Result<String, serde_json::Error> {
    Ok(match event.kind() {
        Kind::SessionCreated => {
            let it: SessionCreated = event.body_as()?;
            format!("{} {} on {}", it.provider, it.model, it.project)
        }
        Kind::MessageReceived => event.body_as::<MessageReceived>()?.text,
        Kind::ModelCompleted => answer(&event.body_as()?),
        Kind::ModelFailed => {
            let it: ModelFailed = event.body_as()?;
            with_code(&it.code, &it.message)
        }
        Kind::PolicyDecided => decided(&event.body_as()?),
        Kind::ApprovalRequested => {
            let it: ApprovalRequested = event.body_as()?;
            format!("{}: {}", it.tool, each_once(&it.reasons))
        }
        Kind::ApprovalResolved => {
            let it: ApprovalResolved = event.body_as()?;
            format!("{} by {}", it.code, it.approver.id)
        }
        Kind::SessionModeChanged => {
            let it: ModeChanged = event.body_as()?;
            format!("{} -> {}", it.from, it.to)
        }
        Kind::WorkflowTransitioned => {
            let it: WorkflowTransitioned = event.body_as()?;
            format!("{} -> {}: {}", it.from, it.to, it.because)
        }
        Kind::BudgetCharged => {
            let spent = event.body_as::<BudgetCharged>()?.usage;
            let cost = match spent.cost_micros {
                0 => String::new(),
                micros => format!(", cost {}", money(micros)),
            };
            let (calls, time) = (calls(spent.calls), millis(spent.time_us));
            format!("{calls}, {} tokens, {time}{cost}", spent.tokens)
        }
        kind if kind.ends_turn() => turn_end(&event.body_as()?),
        _ => change(event)?,
    })
}

/// What became of the files.
fn change(event: &Event) -> Result<String, serde_json::Error> {
    Ok(match event.kind() {
        Kind::WorkspaceFrozen => format!("{} files", event.body_as::<WorkspaceFrozen>()?.files),
        Kind::WorkspaceSealed => sealed(&event.body_as()?),
        Kind::TestEvidence => {
            let it: TestEvidence = event.body_as()?;
            let result = match (it.ran, it.passed) {
                (true, true) => "the tests pass",
                (true, false) => "the tests fail",
                (false, _) => "the test runner did not run",
            };
            let coverage = it.coverage.map_or_else(String::new, |it| {
                format!(", {} of {} source lines covered", it.covered_lines, it.lines)
            });
            format!("{result}, exit {}{coverage}", it.exit_code)
        }
        Kind::WorkflowExemptionRequested => {
            let it: ExemptionRequested = event.body_as()?;
            format!("{} for {}: {}", it.category, it.paths.join(", "), it.reason)
        }
        Kind::WorkflowExemptionDecided => {
            let it: ExemptionDecided = event.body_as()?;
            match it.approver.filter(|_| it.granted) {
                Some(approver) => format!("granted by {}", approver.id),
                None => "not granted".to_owned(),
            }
        }
        Kind::DebtUpdated => {
            let it: DebtUpdated = event.body_as()?;
            format!("{}: {}", it.level, told(&it))
        }
        Kind::MergeProposed => {
            let it: MergeProposed = event.body_as()?;
            let (files, added, removed) = (it.changes.len(), it.lines_added, it.lines_removed);
            format!("{files} files, +{added} -{removed} lines")
        }
        Kind::MergeApproved | Kind::MergeRejected => {
            let it: MergeAnswered = event.body_as()?;
            format!("{} by {}", it.code, it.approver.id)
        }
        Kind::MergeFailed => {
            let it: MergeFailed = event.body_as()?;
            with_code(&it.code, &it.message)
        }
        Kind::CommitCreated => {
            let it: CommitCreated = event.body_as()?;
            match &it.commit {
                Some(id) => format!("{} {}", cut(id), it.subject),
                None => format!("none: {}", it.why_none()),
            }
        }
        _ => facts(&event.body),
    })
}

fn answer(it: &ModelCompleted) -> String {
    let calls =
        if it.calls.is_empty() { "no calls".to_owned() } else { calls(it.calls.len() as u64) };
    format!("{calls}, {}: {}", millis(it.duration_us), it.text)
        .trim_end_matches([':', ' '])
        .to_owned()
}

/// Millionths as a decimal number.
pub(crate) fn money(micros: u64) -> String {
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

fn calls(count: u64) -> String {
    if count == 1 { "1 call".to_owned() } else { format!("{count} calls") }
}

fn decided(it: &PolicyDecided) -> String {
    let subject = it.subject.as_deref().unwrap_or_default();
    let effect = it.decision.effect.as_str();
    format!("{effect} {} {subject} ({})", it.syscall, rule_names(&it.decision))
}

/// The rules that spoke, each name once: the shipped file and a copy of it have rules of the same names.
pub(crate) fn rule_names(decision: &Decision) -> String {
    let mut names: Vec<&str> = Vec::new();
    for rule in &decision.rules {
        if !names.contains(&rule.name.as_str()) {
            names.push(&rule.name);
        }
    }
    names.join(", ")
}

fn sealed(it: &WorkspaceSealed) -> String {
    let paths: Vec<_> = it.changed.iter().map(|it| format!("{} {}", it.change, it.path)).collect();
    if paths.is_empty() { "nothing changed".to_owned() } else { paths.join(", ") }
}

fn turn_end(it: &TurnEnd) -> String {
    let outcome = serde_json::to_value(it.outcome).unwrap_or_default();
    let outcome = outcome.as_str().unwrap_or_default().to_owned();
    match (&it.code, &it.message, &it.commit) {
        (Some(code), Some(message), _) => format!("{outcome}: {}", with_code(code, message)),
        (_, _, Some(commit)) => format!("{outcome} {}", cut(commit)),
        _ => outcome,
    }
}

/// A message behind its code, which it may begin with already.
fn with_code(code: &str, message: &str) -> String {
    if message.starts_with(code) { message.to_owned() } else { format!("{code}: {message}") }
}

fn cut(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// The plain facts of a body that has no words of its own here.
fn facts(body: &Value) -> String {
    let Some(fields) = body.as_object() else { return String::new() };
    let plain = |(name, value): (&String, &Value)| {
        if MACHINE_FACTS.contains(&name.as_str()) {
            return None;
        }
        let name = name.replace('_', " ");
        match value {
            Value::String(text) if text.starts_with("sha256:") => None,
            Value::String(text) => Some(format!("{name} {text}")),
            Value::Number(number) => Some(format!("{name} {number}")),
            Value::Bool(flag) => Some(format!("{name} {}", if *flag { "yes" } else { "no" })),
            Value::Object(parts) => {
                let count = parts.values().filter(|part| part.is_number()).count();
                (count > 0).then(|| format!("{name} {}", facts(value)))
            }
            Value::Null | Value::Array(_) => None,
        }
    };
    fields.iter().filter_map(plain).collect::<Vec<_>>().join(", ")
}

/// A moment as `YYYY-MM-DD hh:mm`, in UTC.
pub(crate) fn date(time_us: u64) -> String {
    let minutes = time_us / 60_000_000;
    let (hour, minute) = (minutes / 60 % 24, minutes % 60);
    // Counted from 1 March of the year 0, so that a leap day ends its year.
    let days = minutes / 1440 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
}

#[cfg(test)]
mod tests {
    use super::{date, facts};

    #[test]
    fn moments_are_dates() {
        let check = |seconds: u64, expected: &str| {
            assert_eq!(date(seconds * 1_000_000), expected);
        };
        check(0, "1970-01-01 00:00");
        check(951_782_399, "2000-02-28 23:59");
        check(951_782_400, "2000-02-29 00:00");
        check(951_868_800, "2000-03-01 00:00");
        check(1_709_164_800, "2024-02-29 00:00");
        check(4_107_542_399, "2100-02-28 23:59");
        check(4_107_542_400, "2100-03-01 00:00");
    }

    #[test]
    fn a_body_without_words_is_told_by_its_plain_facts() {
        let check = |body: &str, expected: &str| {
            assert_eq!(facts(&serde_json::from_str(body).unwrap()), expected, "{body}");
        };
        check(r#"{"files":3,"merge":7}"#, "files 3, merge 7");
        check(r#"{"usage":{"calls":1,"errors":0}}"#, "usage calls 1, errors 0");
        check(r#"{"blob":"sha256:00","call":"c1","own":true,"list":[1]}"#, "own yes");
        check("null", "");
    }
}
