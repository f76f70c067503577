//! Running an allowed call: started in the log first, then done, then told.

mod evidence;
mod render;
mod settle;
mod withheld;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use glasshouse_log::{CellWrite, Log};
use glasshouse_model::body::{
    CallEnd, CallStatus, ChangedPath, CommandUsage, Coverage, ToolStarted, Withheld,
};
use glasshouse_model::{
    Call, CallId, CanonicalPath, Constraints, Draft, Fault, Kind, Principal, SessionId, State,
};
use glasshouse_policy::{Policy, time_text};
use glasshouse_sandbox::toolchain::Verdict;
use glasshouse_sandbox::view::{Intent, ResolvedPath};
use glasshouse_sandbox::workspace::Change;
use glasshouse_sandbox::{Command, Limit, RunResult, Status, Stream, TemplateName};
use glasshouse_tools::sanitise::{Masker, Strategy, model_text};
use glasshouse_tools::{Arguments, FetchLimits, Registry, Url, edit_text, read_tool};
use tokio::task::JoinSet;

use self::evidence::Heard;
use self::withheld::KeptBack;
use super::decide::now_us;
use super::demands::{Place, check_isolation, kept};
use super::fetch::{self, Outside};
use super::model::elapsed_us;
use super::network::Running;
use super::people::{Cancel, Notice, Observer};
use super::start::put;
use super::workbench::{NewCache, Workbench};
use super::{Session, TaskEnd, failed_call, in_place, lock};
use crate::session::WEB;
use crate::session::exemption::Confines;
use crate::{Error, Result, codes};

/// Longest text of a result that the model is told, in bytes; about 4,000 tokens.
const MAX_RESULT_BYTES: usize = 16 * 1024;
/// Longest run of a command when the call names none.
const DEFAULT_COMMAND_TIMEOUT_MS: u64 = 60_000;
/// Longest run of the tests when the call names none; the template's ceiling.
const DEFAULT_TEST_TIMEOUT_MS: u64 = 300_000;
/// Stands for the exit status of a run that was stopped before it had one.
const NO_EXIT_CODE: i32 = -1;
/// Code of a command that wrote more than its workspace or cache may hold.
const DISK_FULL: &str = "limit_exceeded_disk";
/// Most output of a command that is kept; beyond it the command is slowed, then stopped.
const MAX_OUTPUT_BYTES: u64 = 8 << 20;

/// An allowed call that has not started.
pub(super) struct Allowed {
    pub(super) id: CallId,
    pub(super) arguments: Arguments,
    /// The path that was decided on.
    pub(super) path: Option<CanonicalPath>,
    /// What was opened there, for a look.
    pub(super) opened: Option<ResolvedPath>,
    /// What the decision demands of the act.
    pub(super) constraints: Constraints,
    /// The events of the decision, recorded with the start.
    pub(super) drafts: Vec<Draft>,
    /// The cells that go with them.
    pub(super) cells: Vec<CellWrite>,
}

/// A running call: all that its task needs.
struct Execution {
    id: CallId,
    arguments: Arguments,
    path: Option<CanonicalPath>,
    opened: Option<ResolvedPath>,
    constraints: Constraints,
    state: String,
    /// What may be written, where strict work explores.
    confines: Option<Confines>,
    /// Taint of what comes of the call.
    labels: BTreeSet<String>,
    outside: Outside,
    session: SessionId,
    agent: Principal,
    isolation: String,
    policy: Arc<Policy>,
    masker: Arc<Masker>,
    registry: Arc<Registry>,
    observer: Arc<dyn Observer>,
    workbench: Arc<Mutex<Workbench>>,
    log: Log,
    cancel: Cancel,
    started: Instant,
}

/// Code of an end for its time.
const TIMED_OUT: &str = "timed_out";

/// How an act ended, before it is an event.
struct End {
    status: CallStatus,
    code: Option<String>,
    exit_code: Option<i32>,
    output: Vec<u8>,
    strategy: Strategy,
    background_processes: u32,
    usage: Option<CommandUsage>,
    /// What there is to say besides the output, such as what ended a command.
    remark: Option<String>,
    /// Of a look.
    withheld: Option<Withheld>,
    /// Of a test run.
    verdict: Option<Verdict>,
    /// Of a validating test run: see [`TestEvidence::earlier_exit_code`].
    earlier_exit_code: Option<i32>,
    /// Of a validating test run that left a report.
    coverage: Option<Coverage>,
}

impl End {
    fn done(text: impl Into<Vec<u8>>) -> Self {
        Self {
            status: CallStatus::Completed,
            code: None,
            exit_code: None,
            output: text.into(),
            strategy: Strategy::Head,
            background_processes: 0,
            usage: None,
            remark: None,
            withheld: None,
            verdict: None,
            earlier_exit_code: None,
            coverage: None,
        }
    }

    /// The exit status; of tests that did not pass never 0, whatever their runner exited with.
    fn proven_exit_code(&self) -> i32 {
        let passed = self.verdict.as_ref().is_some_and(|verdict| verdict.passed);
        self.exit_code.filter(|code| *code != 0 || passed).unwrap_or(NO_EXIT_CODE)
    }
}

impl Session {
    /// Records that a call is allowed and starts, and starts it.
    pub(super) async fn start_call(
        &mut self,
        tasks: &mut JoinSet<TaskEnd>,
        allowed: Allowed,
        cancel: &Cancel,
    ) -> Result<()> {
        let Allowed { id, arguments, path, opened, constraints, mut drafts, cells } = allowed;
        let started = Instant::now();
        let isolation = match self.isolation_of(&arguments, &constraints) {
            Ok(isolation) => isolation,
            Err(error) => {
                drafts.extend(lock(&self.workbench).take_events());
                drafts.push(failed_call(id, &error.into()));
                return self.recorder.record_with(drafts, cells).await;
            }
        };
        drafts.extend(lock(&self.workbench).take_events());
        if let Err(error) = check_isolation(&constraints, &isolation) {
            drafts.push(failed_call(id, &error.into()));
            return self.recorder.record_with(drafts, cells).await;
        }
        let body = ToolStarted { call: id, isolation: isolation.clone() };
        drafts.push(Draft::new(Kind::ToolStarted, &body).caused_by(id.0));
        if let Arguments::GitCommit { message } = &arguments {
            if message.trim().is_empty() || message.contains('\0') {
                let fault = Fault::new(codes::MESSAGE_INVALID, "the commit message cannot be used")
                    .why("it is blank or holds a NUL character");
                drafts.push(failed_call(id, &fault));
                return self.recorder.record_with(drafts, cells).await;
            }
            self.recorder.record_with(drafts, cells).await?;
            return self.propose_merge(Some((id, message.clone()))).await;
        }
        // A glance changes nothing and nobody learns of it before it is recorded, so it needs no
        // sync of its own before it.
        let is_glance = is_glance(&arguments) && cells.is_empty();
        if !is_glance {
            self.recorder.record_with(std::mem::take(&mut drafts), cells).await?;
        }
        let taint = self.state().taint.result(&arguments, path.as_ref().map(CanonicalPath::as_str));
        // The state is that after the start: a test run's start is a transition.
        let execution = Execution {
            id,
            path,
            opened,
            constraints,
            arguments,
            state: self.state().workflow().to_string(),
            confines: self.state().confines(),
            labels: taint,
            outside: self.outside.clone(),
            session: self.id().clone(),
            agent: self.agent(),
            isolation,
            policy: Arc::clone(&self.policy),
            masker: Arc::clone(&self.masker),
            registry: Arc::clone(&self.registry),
            observer: Arc::clone(self.recorder.observer()),
            workbench: Arc::clone(&self.workbench),
            log: self.recorder.log().clone(),
            cancel: cancel.clone(),
            started,
        };
        if is_glance {
            drafts.extend(in_place(|| execution.run()));
            return self.recorder.record(drafts).await;
        }
        tasks.spawn_blocking(move || execution.run());
        Ok(())
    }

    fn isolation_of(&self, arguments: &Arguments, demanded: &Constraints) -> Result<String> {
        if !is_sandboxed(arguments) {
            return Ok("in_process".to_owned());
        }
        in_place(|| {
            let mut bench = lock(&self.workbench);
            // A write runs no program: whatever sandbox is there will do.
            if runs_a_program(arguments) {
                bench.use_template(template_of(demanded));
            }
            bench.isolation()
        })
    }
}

impl Execution {
    /// Where the call acts.
    fn place(&self) -> Place<'_> {
        if !is_sandboxed(&self.arguments) {
            return Place::Kernel;
        }
        let has_network = runs_a_program(&self.arguments)
            && template_of(&self.constraints) == TemplateName::IntegrationTest;
        Place::Sandbox { has_network, isolation: Some(&self.isolation) }
    }
}

/// Whether a call runs a program or writes: those act in the branch's sandbox.
pub(super) const fn is_sandboxed(arguments: &Arguments) -> bool {
    matches!(
        arguments,
        Arguments::FsWrite { .. }
            | Arguments::FsEdit { .. }
            | Arguments::ShellRun { .. }
            | Arguments::TestRun { .. }
    )
}

/// Whether a call runs programs, which could use a network.
const fn runs_a_program(arguments: &Arguments) -> bool {
    matches!(arguments, Arguments::ShellRun { .. } | Arguments::TestRun { .. })
}

/// The template that a program runs in: one with a network only where a rule demands it.
fn template_of(demanded: &Constraints) -> TemplateName {
    match demanded.require_sandbox.as_deref() {
        Some("integration-test") => TemplateName::IntegrationTest,
        _ => TemplateName::CodeExecutor,
    }
}

/// Whether a call looks at one file or name in this process: over soon, whatever it meets.
const fn is_glance(arguments: &Arguments) -> bool {
    matches!(arguments, Arguments::FsRead { .. } | Arguments::FsExists { .. })
}

impl Execution {
    fn run(self) -> TaskEnd {
        let result = match &self.arguments {
            arguments if is_sandboxed(arguments) => self.mutate(),
            Arguments::PlanComplete { summary, steps } => {
                Ok(vec![self.end(&plan_text(summary, steps.as_deref()))])
            }
            Arguments::RequestExemption { affected_paths, .. } => {
                let paths = affected_paths.join(", ");
                let text =
                    format!("granted: these files may be changed now, and no others: {paths}");
                Ok(vec![self.end(&End::done(text))])
            }
            Arguments::ToolsLoad { names } => {
                Ok(vec![self.end(&End::done(self.registry.described(names)))])
            }
            Arguments::GitDiff {} => self.diff().map(|end| vec![self.end(&end)]),
            Arguments::UiRender { plan } => self.render(plan),
            Arguments::GitCommit { .. } => Ok(Vec::new()),
            Arguments::WebFetch { url } => self.fetch(url),
            _ => self.read().map(|end| vec![self.end(&end)]),
        };
        let result = self.in_time(result);
        let (mut drafts, reached) = {
            let mut bench = lock(&self.workbench);
            (bench.take_events(), bench.take_reached())
        };
        drafts
            .extend(result.unwrap_or_else(|error| vec![failed_call(self.id, &Fault::from(error))]));
        for draft in &mut drafts {
            draft.cause.get_or_insert(self.id.0);
            if reached {
                draft.labels.insert(WEB.to_owned());
            }
            draft.labels.extend(self.labels.iter().cloned());
        }
        drafts
    }

    /// Whether a rule allowed it for less time than has passed.
    fn is_over(&self) -> bool {
        let most_ms = self.constraints.max_duration_ms;
        most_ms.is_some_and(|most_ms| elapsed_us(self.started) > most_ms.saturating_mul(1_000))
    }

    /// What ran in this process, unless it took longer than a rule allows: then it was stopped, and nothing that it
    /// found is told. A command is ended by its sandbox.
    fn in_time(&self, result: Result<TaskEnd>) -> Result<TaskEnd> {
        let Some(most_ms) = self.constraints.max_duration_ms.filter(|_| self.is_over()) else {
            return result;
        };
        if is_sandboxed(&self.arguments) {
            return result;
        }
        let mut drafts = result.unwrap_or_default();
        // What went over the network did.
        let is_fetch = matches!(self.arguments, Arguments::WebFetch { .. });
        drafts.retain(|draft| is_fetch && !draft.kind.ends_call());
        let told = format!("it was stopped: a rule allows it {most_ms} ms (`max_duration`)");
        drafts.push(self.end(&End {
            status: CallStatus::TimedOut,
            code: Some(TIMED_OUT.to_owned()),
            ..End::done(told)
        }));
        Ok(drafts)
    }

    fn fetch(&self, url: &str) -> Result<TaskEnd> {
        let url = Url::parse(url)?;
        let mut limits = FetchLimits::default();
        if let Some(most_ms) = self.constraints.max_duration_ms {
            limits.total = limits.total.min(Duration::from_millis(most_ms));
        }
        let with = (&self.outside, &self.masker);
        let (mut drafts, page) = fetch::page(Some(self.id), &url, with, limits, &self.cancel);
        drafts.push(match page {
            Ok(page) => self.end(&End::done(fetch::told(&url, &page))),
            Err(no) => failed_call(self.id, &Fault::from(Error::from(no))),
        });
        Ok(drafts)
    }

    /// The event that an end becomes: masked, stored whole, cut for the model.
    fn end(&self, end: &End) -> Draft {
        let masked = self.masker.mask(&end.output);
        let text = model_text(&masked, MAX_RESULT_BYTES, end.strategy);
        match self.report(end, &masked) {
            Ok(body) => {
                let text_of_all = with_remark(text.text, end.remark.as_deref());
                let body = CallEnd { text: text_of_all, truncated: text.truncated, ..body };
                Draft::new(body.status.kind(), &body)
            }
            Err(error) => failed_call(self.id, &Fault::from(error)),
        }
    }

    /// The end of a call whose act was over when something else failed: what it did is told all the
    /// same, so that nothing a command leaves behind keeps its output out of the log.
    fn end_badly(&self, body: CallEnd, ran: Option<&End>) -> Draft {
        let did = ran.and_then(|end| self.report(end, &self.masker.mask(&end.output)).ok());
        let body = match did {
            Some(did) => CallEnd { status: body.status, code: body.code, text: body.text, ..did },
            None => body,
        };
        Draft::new(body.status.kind(), &body)
    }

    /// What an act did; for a model there is no text yet.
    fn report(&self, end: &End, output: &[u8]) -> Result<CallEnd> {
        Ok(CallEnd {
            call: self.id,
            status: end.status,
            code: end.code.clone(),
            exit_code: end.exit_code,
            duration_us: elapsed_us(self.started),
            isolation: Some(self.isolation.clone()),
            output: Some(put(&self.log, output)?),
            text: String::new(),
            truncated: false,
            background_processes: end.background_processes,
            usage: end.usage,
            withheld: end.withheld.clone(),
        })
    }

    fn read(&self) -> Result<End> {
        let view = lock(&self.workbench).shared_view()?;
        let kept_back = KeptBack::new(&self.masker);
        let permit = |syscall: &str, path: &CanonicalPath| {
            // What is left is passed over: nothing of it will be told.
            if self.is_over() {
                return false;
            }
            let mut call = Call::new(syscall, self.agent.clone()).at(path.clone());
            call.session = Some(self.session.clone());
            call.state = Some(self.state.clone());
            let request = glasshouse_policy::Request::new(&call, now_us());
            let decision = glasshouse_policy::decide(&self.policy, &request).decision;
            let decision = kept(decision, Place::Kernel);
            kept_back.hear(syscall, path, decision.is_allowed())
        };
        // What is read is what was opened for the decision, whatever has its name by now. Where
        // nothing was, another look tells the reason.
        let is_question = matches!(self.arguments, Arguments::FsExists { .. });
        let opened = self.opened.as_ref().filter(|opened| is_question || opened.exists());
        let output = read_tool(&view, &self.arguments, opened, &permit)?;
        let withheld = kept_back.told();
        Ok(End { strategy: Strategy::Head, withheld, ..End::done(output.bytes) })
    }

    fn diff(&self) -> Result<End> {
        let bench = lock(&self.workbench);
        let patch = super::merging::patch(&bench)?;
        Ok(End::done(if patch.is_empty() { "no changes".to_owned() } else { patch }))
    }

    fn act(&self, bench: &mut Workbench) -> Result<End> {
        match (&self.arguments, &self.path) {
            (Arguments::FsWrite { content, .. }, Some(path)) => {
                bench.write(path, content.as_bytes())?;
                Ok(End::done(format!("wrote {path} ({} lines)", content.lines().count())))
            }
            (Arguments::FsEdit { .. }, Some(path)) => {
                let new = edit_text(&bench.read_text(path)?, &self.arguments)?;
                bench.write(path, new.as_bytes())?;
                Ok(End::done(format!("edited {path}")))
            }
            (Arguments::ShellRun { cwd, timeout_ms, .. }, _) => {
                let argv = self.arguments.argv().unwrap_or_default();
                let timeout_ms = timeout_ms.unwrap_or(DEFAULT_COMMAND_TIMEOUT_MS);
                let cwd = match cwd {
                    Some(cwd) => bench.view()?.resolve(cwd, Intent::Directory)?.canonical().clone(),
                    None => CanonicalPath::root(),
                };
                self.command(bench, argv, cwd, timeout_ms, None)
            }
            (Arguments::TestRun { filter: Some(_), .. }, _) => {
                Err(Error::new(codes::FILTER_UNAVAILABLE, "the tests were not run")
                    .why("a part of the tests is no evidence for all of them"))
            }
            (Arguments::TestRun { timeout_ms, .. }, _) => {
                let timeout_ms = timeout_ms.unwrap_or(DEFAULT_TEST_TIMEOUT_MS);
                let earlier = match self.state == State::Validating.as_str() {
                    true => self.validate_earlier(bench, timeout_ms)?,
                    false => None,
                };
                let mut end = self.run_tests(bench, timeout_ms)?;
                if let Some(earlier) = earlier {
                    end.earlier_exit_code = Some(earlier.proven_exit_code());
                    end.usage = both(earlier.usage, end.usage);
                }
                Ok(end)
            }
            _ => Err(Error::new(codes::TURN_FAILED, "the call names no path")),
        }
    }

    fn run_tests(&self, bench: &mut Workbench, timeout_ms: u64) -> Result<End> {
        let argv = bench.test().argv.clone();
        let mut heard = Heard::default();
        let mut end =
            self.command(bench, argv, CanonicalPath::root(), timeout_ms, Some(&mut heard))?;
        evidence::judge(&mut end, bench.test(), &heard);
        if self.state == State::Validating.as_str() {
            evidence::measure(&mut end, bench);
        }
        Ok(end)
    }

    /// Before the tests are run on what would be merged: the tests as they were before, alone, on the
    /// sources as they are now. What the agent wrote as tests runs as a program beside the others and
    /// can do to them what it likes; here it is absent. Leaves everything as it was, in a new sandbox.
    fn validate_earlier(&self, bench: &mut Workbench, timeout_ms: u64) -> Result<Option<End>> {
        let Some(earlier) = bench.with_earlier_tests()? else {
            return bench.start_anew(NewCache::Empty).map(|()| None);
        };
        let sealed = bench.sealed()?.clone();
        bench.accept(earlier, None)?;
        let ran =
            bench.start_anew(NewCache::Empty).and_then(|()| self.run_tests(bench, timeout_ms));
        bench.accept(sealed, None)?;
        // The cache holds what the earlier tests built of the new sources, and nothing of new tests.
        bench.start_anew(NewCache::Kept)?;
        ran.map(Some)
    }

    fn command(
        &self,
        bench: &mut Workbench,
        argv: Vec<String>,
        cwd: CanonicalPath,
        timeout_ms: u64,
        mut heard: Option<&mut Heard>,
    ) -> Result<End> {
        let mut command = Command::new(argv);
        command.cwd = cwd;
        let most = self.constraints.max_duration_ms;
        command.timeout_ms = most.map_or(timeout_ms, |limit| timeout_ms.min(limit));
        command.output_limit_bytes = MAX_OUTPUT_BYTES;
        let mut output = Vec::new();
        let mut masked = self.masker.stream();
        let mut sink = |stream: Stream, bytes: &[u8]| {
            output.extend_from_slice(bytes);
            if let Some(heard) = &mut heard {
                heard.push(stream, bytes);
            }
            let shown = masked.push(bytes);
            if !shown.is_empty() {
                self.observer.notice(Notice::Output(self.id, &shown));
            }
        };
        let running = Running {
            call: self.id,
            state: Some(self.state.clone()),
            labels: self.labels.clone(),
            isolation: self.isolation.clone(),
        };
        let result = bench.run(running, &command, &mut sink, self.cancel.sandbox())?;
        let mut end = command_end(output, &result);
        if end.status == CallStatus::TimedOut {
            end.remark = Some(ended_in_time(command.timeout_ms, most));
        }
        Ok(end)
    }
}

/// What ended a command, and whose limit that is.
fn ended_in_time(limit_ms: u64, most_by_rules_ms: Option<u64>) -> String {
    let whose = match most_by_rules_ms {
        Some(most_ms) if most_ms <= limit_ms => "a rule that allows it says so by `max_duration`",
        _ => "that is the time limit of the call",
    };
    format!("[ended after {}: {whose}]", time_text(limit_ms))
}

fn with_remark(mut text: String, remark: Option<&str>) -> String {
    if let Some(remark) = remark {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(remark);
    }
    text
}

fn plan_text(summary: &str, steps: Option<&[String]>) -> End {
    let mut text = summary.to_owned();
    for (number, step) in steps.unwrap_or_default().iter().enumerate() {
        text.push_str(&format!("\n{}. {step}", number + 1));
    }
    End::done(text)
}

/// A change as events tell it.
pub(super) fn changed_path(change: &Change) -> ChangedPath {
    ChangedPath { path: change.path.to_string(), change: change.kind.as_str().to_owned() }
}

/// What a command used, as events tell it.
pub(super) const fn used_by(result: &RunResult) -> CommandUsage {
    CommandUsage {
        cpu_us: result.usage.cpu_us,
        memory_peak_bytes: result.usage.memory_peak_bytes,
        stdout_bytes: result.stdout_bytes,
        stderr_bytes: result.stderr_bytes,
    }
}

fn both(first: Option<CommandUsage>, second: Option<CommandUsage>) -> Option<CommandUsage> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first.then(second)),
        (one, other) => one.or(other),
    }
}

fn command_end(output: Vec<u8>, result: &RunResult) -> End {
    let mut end = End {
        strategy: Strategy::Middle,
        background_processes: result.background_processes,
        usage: Some(used_by(result)),
        ..End::done(output)
    };
    match &result.status {
        Status::Exited(code) => end.exit_code = Some(*code),
        // As a shell tells it.
        Status::Signaled(signal) => end.exit_code = Some(128 + signal),
        Status::TimedOut => {
            (end.status, end.code) = (CallStatus::TimedOut, Some(TIMED_OUT.to_owned()))
        }
        Status::Cancelled => {
            (end.status, end.code) = (CallStatus::Cancelled, Some("cancelled".to_owned()))
        }
        Status::LimitExceeded(limit) => {
            (end.status, end.code) =
                (CallStatus::Failed, Some(format!("limit_exceeded_{}", limit_word(*limit))));
        }
    }
    end
}

fn limit_word(limit: Limit) -> String {
    serde_json::to_value(limit).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}
