//! A turn as people watch it: tool lines with end-to-end times, decisions, test results, the diff.

use std::collections::BTreeMap;
use std::sync::Mutex;

use glasshouse_kernel::{Notice, Observer};
use glasshouse_log::Log;
use glasshouse_model::body::{
    ApprovalRequested, ApprovalResolved, CallEnd, CallStatus, CommitCreated, MergeAnswered,
    MergeProposed, ModelCompleted, ModelFailed, PlanShown, PolicyDecided, SandboxEvent,
    TestEvidence, ToolProposed, TurnEnd, WorkflowTransitioned, WorkspaceFrozen,
    WorkspaceRolledBack, WorkspaceSealed,
};
use glasshouse_model::{BranchId, CallId, Effect, Event, Kind, Seq, each_once};

use crate::command::review::{lasting, question_lines};
use crate::command::task::Approver;
use crate::event_line::rule_names;
use crate::output::{self, Style, styled};
use crate::review::Terminal;

/// Most lines of a diff that are shown.
const MAX_DIFF_LINES: usize = 120;
/// Most lines of a command's output that are shown when it ends.
const MAX_OUTPUT_LINES: usize = 12;
/// Longest line shown, in characters.
const MAX_LINE_CHARS: usize = 140;

/// Shows a turn on stderr and, with `--json`, messages and what is to be answered elsewhere on stdout.
pub(crate) struct Show {
    log: Log,
    json: bool,
    /// Who answers questions.
    approver: Approver,
    state: Mutex<Live>,
}

#[derive(Default)]
struct Live {
    calls: BTreeMap<CallId, (ToolProposed, u64)>,
    streaming: bool,
}

impl Show {
    /// A watcher that reads what events refer to from `log`.
    pub(crate) fn new(log: Log, json: bool, approver: Approver) -> Self {
        Self { log, json, approver, state: Mutex::default() }
    }

    fn event(&self, event: &Event) {
        let mut live = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if std::mem::take(&mut live.streaming) {
            output::note("");
        }
        // A body of a later version that cannot be read is simply not shown.
        let _ = self.show(event, &mut live);
    }

    fn show(&self, event: &Event, live: &mut Live) -> Result<(), serde_json::Error> {
        match event.kind() {
            Kind::ModelCompleted => self.message(&event.body_as()?),
            Kind::ToolProposed => {
                live.calls.insert(CallId(event.seq()), (event.body_as()?, event.header.time_us));
            }
            kind if kind.ends_call() => {
                let end: CallEnd = event.body_as()?;
                if let Some((proposed, since)) = live.calls.remove(&end.call) {
                    call_line(&proposed, &end, event.header.time_us.saturating_sub(since));
                }
            }
            // Whoever answers elsewhere has to know what, and under which name.
            Kind::ApprovalRequested if self.json => {
                if matches!(self.approver, Approver::Elsewhere(_)) {
                    let request: ApprovalRequested = event.body_as()?;
                    self.question(&request, &event.header.branch, event.seq());
                    question_as_data(&request, &event.header.branch, event.seq());
                }
            }
            _ if self.json => {}
            Kind::WorkspaceFrozen => {
                let frozen: WorkspaceFrozen = event.body_as()?;
                dim(&format!(
                    "workspace frozen: {} files, base {}",
                    frozen.files,
                    short(&frozen.base.to_string())
                ));
            }
            Kind::SandboxCreated => {
                let sandbox: SandboxEvent = event.body_as()?;
                let level = sandbox.isolation.unwrap_or_default();
                dim(&format!("sandbox {} created: {level}", sandbox.template));
            }
            Kind::PolicyDecided => decision_line(&event.body_as()?),
            Kind::WorkflowTransitioned => {
                let moved: WorkflowTransitioned = event.body_as()?;
                output::note(&format!("-- {} -> {}: {}", moved.from, moved.to, moved.because));
            }
            Kind::TestEvidence => evidence_line(&event.body_as()?),
            Kind::WorkspaceSealed => sealed_line(&event.body_as()?),
            Kind::WorkspaceRolledBack => rolled_back_line(&event.body_as()?),
            Kind::ModelFailed => model_failed_line(&event.body_as()?),
            Kind::ApprovalRequested => {
                self.question(&event.body_as()?, &event.header.branch, event.seq());
            }
            Kind::ApprovalResolved => {
                let resolved: ApprovalResolved = event.body_as()?;
                output::note(&format!("review: {} by {}", resolved.code, resolved.approver.id));
            }
            Kind::MergeProposed => self.diff(&event.body_as()?),
            Kind::MergeApproved => {
                let answer: MergeAnswered = event.body_as()?;
                output::note(&styled(
                    &format!("merge {} by {}", answer.code, answer.approver.id),
                    Style::Good,
                ));
            }
            Kind::MergeApplied => output::note("merged into the project"),
            Kind::CommitCreated => commit_line(&event.body_as()?),
            Kind::PlanRendered => {
                let shown: PlanShown = event.body_as()?;
                dim(&format!("report rendered under profile {}", shown.profile));
            }
            Kind::TurnInterrupted => interrupted_line(&event.body_as()?),
            _ => {}
        }
        Ok(())
    }

    /// What waits for a person. At the terminal the question follows with all that it asks; whoever answers
    /// elsewhere reads it here.
    fn question(&self, request: &ApprovalRequested, branch: &BranchId, seq: Seq) {
        let line = format!("review wanted: {}: {}", request.tool, each_once(&request.reasons));
        output::note(&styled(&output::visible(&line, false), Style::Warn));
        match self.approver {
            Approver::Elsewhere(limit) => {
                // The change set of a merge was shown when it was proposed.
                question_lines(request, None).iter().for_each(|line| output::note(line));
                output::note(&format!("  to answer within {}, from any terminal:", lasting(limit)));
                output::note(&format!("    glasshouse review approve {branch}:{seq}"));
                output::note(&format!("    glasshouse review reject {branch}:{seq}"));
            }
            Approver::Here if Terminal::is_there() => {
                dim(&format!("from another terminal: glasshouse review show {branch}:{seq}"));
            }
            Approver::Here | Approver::Nobody => {}
        }
    }

    fn message(&self, message: &ModelCompleted) {
        if self.json && !message.text.is_empty() && !message.summary {
            output::json_line(&serde_json::json!({ "message": { "text": message.text } }));
        }
    }

    fn diff(&self, merge: &MergeProposed) {
        output::note(&format!(
            "change set: {} files, +{} -{} lines",
            merge.changes.len(),
            merge.lines_added,
            merge.lines_removed
        ));
        let Ok(patch) = self.log.blob(&merge.patch.blob) else { return };
        let patch = String::from_utf8_lossy(&patch);
        // Digests of whole files say nothing to a person.
        let lines = || patch.lines().filter(|line| !line.starts_with("index "));
        for line in lines().take(MAX_DIFF_LINES) {
            let style = match line.as_bytes().first() {
                Some(b'+') => Some(Style::Good),
                Some(b'-') => Some(Style::Bad),
                Some(b'@') => Some(Style::Dim),
                _ => None,
            };
            let line = format!("    {}", clip(line));
            output::note(&style.map_or_else(|| line.clone(), |style| styled(&line, style)));
        }
        let more = lines().count().saturating_sub(MAX_DIFF_LINES);
        if more > 0 {
            dim(&format!("    … {more} more lines"));
        }
    }
}

impl Observer for Show {
    fn notice(&self, notice: Notice<'_>) {
        match notice {
            Notice::Event(event) => self.event(event),
            Notice::Text(text) if !self.json => {
                let mut live = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                live.streaming = true;
                output::note_text(&output::visible(text, true));
            }
            Notice::Text(_) | Notice::Reasoning(_) | Notice::Output(..) => {}
        }
    }
}

fn dim(line: &str) {
    output::note(&styled(line, Style::Dim));
}

fn short(digest: &str) -> &str {
    digest.get(..19).unwrap_or(digest)
}

/// Text from outside, made safe for a terminal and cut to a line.
pub(crate) fn clip(text: &str) -> String {
    let mut out: String =
        text.chars().take(MAX_LINE_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(MAX_LINE_CHARS).is_some() {
        out.push('…');
    }
    out
}

/// What waits for a person, for the program that reads what is said.
fn question_as_data(request: &ApprovalRequested, branch: &BranchId, seq: Seq) {
    output::json_line(&serde_json::json!({ "review": {
        "approval": format!("{branch}:{seq}"), "tool": request.tool, "reasons": request.reasons,
        "shown": request.shown, "digest": request.args_digest,
    }}));
}

/// A time for people.
pub(crate) fn millis(us: u64) -> String {
    format!("{}.{:01} ms", us / 1000, us % 1000 / 100)
}

fn call_line(proposed: &ToolProposed, end: &CallEnd, took_us: u64) {
    let (mark, style) = match end.status {
        CallStatus::Completed => ("ok", Style::Good),
        CallStatus::Denied => ("denied", Style::Warn),
        CallStatus::Failed | CallStatus::TimedOut | CallStatus::Cancelled => {
            (end.status.as_str(), Style::Bad)
        }
    };
    let isolation = end.isolation.as_deref().unwrap_or("-");
    let exit = end.exit_code.map_or_else(String::new, |code| format!(" exit {code}"));
    let subject = subject(proposed);
    output::note(&styled(
        &format!("{mark:>9} {} {subject}{exit}  {}  [{isolation}]", proposed.tool, millis(took_us)),
        style,
    ));
    let shows_output = end.exit_code.is_some() || end.status != CallStatus::Completed;
    if shows_output {
        for line in end.text.lines().take(MAX_OUTPUT_LINES) {
            dim(&format!("          | {}", clip(line)));
        }
    }
}

/// What a call is about: its path or command.
pub(crate) fn subject(proposed: &ToolProposed) -> String {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(&proposed.arguments) else {
        return String::new();
    };
    let text = ["path", "script", "message", "pattern", "summary"]
        .iter()
        .find_map(|key| value[*key].as_str());
    let argv = value["argv"].as_array().map(|argv| {
        argv.iter().filter_map(serde_json::Value::as_str).collect::<Vec<_>>().join(" ")
    });
    clip(&text.map(str::to_owned).or(argv).unwrap_or_default())
}

fn decision_line(decided: &PolicyDecided) {
    if decided.call.is_none() && decided.decision.effect == Effect::Allow {
        return;
    }
    let rules = rule_names(&decided.decision);
    let subject = clip(decided.subject.as_deref().unwrap_or(""));
    let (word, style) = match decided.decision.effect {
        Effect::Allow => ("allow", Style::Dim),
        Effect::Deny => ("deny", Style::Warn),
        Effect::RequireReview => ("review", Style::Warn),
    };
    output::note(&styled(
        &format!("   policy {word} {} {subject} ({rules})", decided.syscall),
        style,
    ));
}

fn evidence_line(evidence: &TestEvidence) {
    let (text, style) = match (evidence.ran, evidence.passed) {
        (true, true) => ("the tests pass".to_owned(), Style::Good),
        (true, false) => (format!("the tests fail (exit {})", evidence.exit_code), Style::Bad),
        (false, _) => ("the test runner did not run".to_owned(), Style::Bad),
    };
    output::note(&styled(&format!("    {text}"), style));
}

fn sealed_line(sealed: &WorkspaceSealed) {
    for changed in &sealed.changed {
        dim(&format!("   sealed {} {}", changed.change, clip(&changed.path)));
    }
}

fn rolled_back_line(rolled: &WorkspaceRolledBack) {
    let path = rolled.path.as_deref().unwrap_or("");
    output::note(&styled(
        &format!("   rolled back to the last seal: {} {}", clip(path), rolled.rules.join(", ")),
        Style::Warn,
    ));
}

fn model_failed_line(failed: &ModelFailed) {
    let then = failed.retry_in_ms.map_or_else(String::new, |ms| format!("; next try in {ms} ms"));
    // An error of a crate below is recorded with its code in front. Of one that repeats the code is enough.
    let why = match failed.attempt {
        1 => failed.message.trim_start_matches(failed.code.as_str()).to_owned(),
        _ => String::new(),
    };
    output::note(&styled(&format!("    model {}{}{then}", failed.code, clip(&why)), Style::Warn));
}

fn commit_line(commit: &CommitCreated) {
    let line = match &commit.commit {
        Some(id) => format!("committed {}: {}", id.get(..12).unwrap_or(id), clip(&commit.subject)),
        None => format!("no commit was made: {}", commit.why_none()),
    };
    output::note(&styled(&line, Style::Good));
}

/// The end of an earlier turn; that of the turn which is watched is told after it.
fn interrupted_line(end: &TurnEnd) {
    let message = end.message.as_deref().unwrap_or("the turn did not come to its end");
    output::note(&styled(&format!("earlier turn interrupted: {}", clip(message)), Style::Warn));
}
