//! Running an allowed call: started in the log first, then done, then told.

mod evidence;
mod render;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use glasshouse_log::{CellWrite, Log};
use glasshouse_model::body::{
    BlobRef, CallEnd, CallStatus, ChangedPath, PolicyDecided, TestEvidence, ToolStarted,
    WorkspaceRolledBack, WorkspaceSealed,
};
use glasshouse_model::syscall::name;
use glasshouse_model::{
    Call, CallId, CanonicalPath, ChangeClass, Constraints, Draft, Effect, Fault, Kind, Principal,
    SessionId, State,
};
use glasshouse_policy::Policy;
use glasshouse_sandbox::toolchain::Verdict;
use glasshouse_sandbox::view::{Intent, ResolvedPath};
use glasshouse_sandbox::workspace::{Change, Seal, SealManifest};
use glasshouse_sandbox::{Command, Level, Limit, RunResult, Status, Stream, TemplateName};
use glasshouse_tools::sanitise::{Masker, Strategy, model_text};
use glasshouse_tools::{Arguments, Registry, Url, edit_text, read_tool};
use tokio::task::JoinSet;

use self::evidence::Heard;
use super::decide::{decide_uncounted, masked, now_us};
use super::fetch::{self, Outside};
use super::model::elapsed_us;
use super::network::Running;
use super::people::{Cancel, Notice, Observer};
use super::start::put;
use super::workbench::{NewCache, Workbench, Write, manifest_bytes};
use super::{Session, TaskEnd, failed_call, in_place, lock};
use crate::classify::is_lock_file;
use crate::session::{WEB, refused};
use crate::{Error, Result, codes};

/// Longest text of a result that the model is told, in bytes; about 4,000 tokens.
const MAX_RESULT_BYTES: usize = 16 * 1024;
/// Longest run of a command when the call names none.
const DEFAULT_COMMAND_TIMEOUT_MS: u64 = 60_000;
/// Longest run of the tests when the call names none; the template's ceiling.
const DEFAULT_TEST_TIMEOUT_MS: u64 = 300_000;
/// Most paths that one call may change: more is no edit, and each is decided and stored.
const MAX_CHANGED_PATHS: usize = 50_000;
/// Most changed paths that an event names; the manifest has all of them.
const MAX_NAMED_PATHS: usize = 200;
/// Most allowed paths of one kind that get an event each; beyond it they share one.
const MAX_SINGLE_DECISIONS: usize = 64;
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

/// How an act ended, before it is an event.
struct End {
    status: CallStatus,
    code: Option<String>,
    exit_code: Option<i32>,
    output: Vec<u8>,
    strategy: Strategy,
    background_processes: u32,
    /// Of a test run.
    verdict: Option<Verdict>,
    /// Of a validating test run: see [`TestEvidence::earlier_exit_code`].
    earlier_exit_code: Option<i32>,
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
            verdict: None,
            earlier_exit_code: None,
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
        let named = path.as_ref().map(CanonicalPath::as_str);
        let labels = self.state().taint.result(&arguments, named);
        // The state is that after the start: a test run's start is a transition.
        let execution = Execution {
            id,
            path,
            opened,
            constraints,
            arguments,
            state: self.state().workflow().to_string(),
            labels,
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
pub(super) const fn runs_a_program(arguments: &Arguments) -> bool {
    matches!(arguments, Arguments::ShellRun { .. } | Arguments::TestRun { .. })
}

/// Refuses to act with less isolation than a rule demands.
pub(super) fn check_isolation(demanded: &Constraints, reached: &str) -> Result<()> {
    let Some(wanted) = demanded.min_isolation.as_deref() else { return Ok(()) };
    let level = |word: &str| Level::ALL.into_iter().find(|level| level.to_string() == word);
    let (_, found) = reached.split_once(':').unwrap_or(("", reached));
    // What is no level, such as `in_process`, is no isolation.
    match (level(wanted), level(found)) {
        (Some(wanted), Some(found)) if found >= wanted => Ok(()),
        _ => Err(Error::new(codes::ISOLATION_TOO_WEAK, "the call may not run here")
            .why(format!("a rule demands the isolation `{wanted}`; it would be `{reached}`"))),
    }
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
                Ok(vec![self.end(plan_text(summary, steps.as_deref()))])
            }
            Arguments::ToolsLoad { names } => {
                Ok(vec![self.end(End::done(self.registry.described(names)))])
            }
            Arguments::GitDiff {} => self.diff().map(|end| vec![self.end(end)]),
            Arguments::UiRender { plan } => self.render(plan),
            Arguments::GitCommit { .. } => Ok(Vec::new()),
            Arguments::WebFetch { url } => self.fetch(url),
            _ => self.read().map(|end| vec![self.end(end)]),
        };
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

    fn fetch(&self, url: &str) -> Result<TaskEnd> {
        let url = Url::parse(url)?;
        let (mut drafts, page) =
            fetch::page(self.id, &url, (&self.outside, &self.masker), &self.cancel);
        drafts.push(match page {
            Ok(page) => self.end(End::done(fetch::told(&url, &page))),
            Err(error) => failed_call(self.id, &Fault::from(error)),
        });
        Ok(drafts)
    }

    /// The event that an end becomes: masked, stored whole, cut for the model.
    fn end(&self, end: End) -> Draft {
        let masked = self.masker.mask(&end.output);
        let text = model_text(&masked, MAX_RESULT_BYTES, end.strategy);
        let output = match put(&self.log, &masked) {
            Ok(output) => output,
            Err(error) => return failed_call(self.id, &Fault::from(error)),
        };
        let kind = end.status.kind();
        let body = CallEnd {
            call: self.id,
            status: end.status,
            code: end.code,
            exit_code: end.exit_code,
            duration_us: elapsed_us(self.started),
            isolation: Some(self.isolation.clone()),
            output: Some(output),
            text: text.text,
            truncated: text.truncated,
            background_processes: end.background_processes,
        };
        Draft::new(kind, &body)
    }

    fn read(&self) -> Result<End> {
        let view = lock(&self.workbench).shared_view()?;
        let permit = |syscall: &str, path: &CanonicalPath| {
            let mut call = Call::new(syscall, self.agent.clone()).at(path.clone());
            call.session = Some(self.session.clone());
            call.state = Some(self.state.clone());
            let request = glasshouse_policy::Request::new(&call, now_us());
            glasshouse_policy::decide(&self.policy, &request).decision.is_allowed()
        };
        // What is read is what was opened for the decision, whatever has its name by now. Where
        // nothing was, another look tells the reason.
        let is_question = matches!(self.arguments, Arguments::FsExists { .. });
        let opened = self.opened.as_ref().filter(|opened| is_question || opened.exists());
        let output = read_tool(&view, &self.arguments, opened, &permit)?;
        Ok(End { strategy: Strategy::Head, ..End::done(output.bytes) })
    }

    fn diff(&self) -> Result<End> {
        let bench = lock(&self.workbench);
        let patch = super::merging::patch(&bench)?;
        Ok(End::done(if patch.is_empty() { "no changes".to_owned() } else { patch }))
    }

    /// A call that may change files: acted, sealed, every changed path decided, kept or taken back.
    /// Whatever goes wrong after the act takes everything back: nothing stays that was not judged.
    fn mutate(&self) -> Result<TaskEnd> {
        let mut bench = lock(&self.workbench);
        let acted = self.act(&mut bench);
        let settled = match acted {
            // It ended somewhere in the middle: what it left is the work of no whole command.
            Err(error) if error.is(glasshouse_sandbox::codes::SANDBOX_LOST) => Err(error),
            acted => self.settle(&mut bench, acted),
        };
        settled.or_else(|error| {
            let before = bench.sealed()?.clone();
            bench.take_back(&error)?;
            let mut drafts = bench.take_events();
            drafts.push(self.taken_back(self.seal_blob(&before)?, error.code(), None));
            drafts.push(failed_call(self.id, &Fault::from(error)));
            Ok(drafts)
        })
    }

    fn settle(&self, bench: &mut Workbench, acted: Result<End>) -> Result<TaskEnd> {
        let before = bench.sealed()?.clone();
        if let Ok(end) = &acted
            && end.code.as_deref() == Some(DISK_FULL)
        {
            // What filled the disk is stored nowhere else.
            bench.empty()?;
            let mut drafts = bench.take_events();
            drafts.push(self.taken_back(self.seal_blob(&before)?, DISK_FULL, None));
            drafts.extend(acted.map(|end| self.end(end)));
            return Ok(drafts);
        }
        let mut seal = bench.seal()?;
        if seal.changed.len() > MAX_CHANGED_PATHS {
            return Err(Error::new(codes::CHANGE_DENIED, "one call changed too many paths")
                .why(format!("{} changed; the limit is {MAX_CHANGED_PATHS}", seal.changed.len())));
        }
        let writes = bench.writes(&before, &seal.manifest, &seal.changed)?;
        let (mut drafts, mut refused) = self.judge(&writes, bench.has_reached())?;
        seal = self.spare_lock_files(bench, &before, seal, &mut refused, &mut drafts)?;
        if let Some(refused_change) = refused.into_iter().next() {
            bench.rollback()?;
            drafts.extend(bench.take_events());
            drafts.extend(self.rolled_back(&before, refused_change)?);
            return Ok(drafts);
        }
        let told = bench.tell(&seal.manifest)?;
        let (tests_changed, sources_changed) = (told.tests_changed, told.sources_changed);
        let body = WorkspaceSealed {
            call: self.id,
            manifest: told.manifest.clone(),
            changed: seal.changed.iter().take(MAX_NAMED_PATHS).map(changed_path).collect(),
            changed_total: seal.changed.len() as u64,
            tests_changed,
            sources_changed,
        };
        drafts.push(Draft::new(Kind::WorkspaceSealed, &body));
        if matches!(self.arguments, Arguments::TestRun { .. })
            && let Ok(end) = &acted
            && end.status == CallStatus::Completed
        {
            let digests = bench.content_digests(&seal.manifest)?;
            let verdict = end.verdict.as_ref();
            let body = TestEvidence {
                call: self.id,
                passed: verdict.is_some_and(|verdict| verdict.passed),
                ran: verdict.is_some_and(|verdict| verdict.ran),
                exit_code: end.exit_code.unwrap_or(NO_EXIT_CODE),
                tests: digests.0,
                sources: digests.1,
                tests_changed,
                sources_changed,
                earlier_exit_code: end.earlier_exit_code,
            };
            drafts.push(Draft::new(Kind::TestEvidence, &body));
        }
        bench.accept(seal.manifest, Some(told))?;
        drafts.push(match acted {
            Ok(end) => self.end(end),
            Err(error) => failed_call(self.id, &Fault::from(error)),
        });
        Ok(drafts)
    }

    /// What a test run does to a lock file says nothing about the tests, and is no edit of the agent: it
    /// alone goes back, and the run counts.
    fn spare_lock_files(
        &self,
        bench: &mut Workbench,
        before: &SealManifest,
        seal: Seal,
        refused: &mut Vec<RefusedChange>,
        drafts: &mut Vec<Draft>,
    ) -> Result<Seal> {
        if !matches!(self.arguments, Arguments::TestRun { .. })
            || refused.is_empty()
            || !refused.iter().all(|change| is_lock_file(&change.at))
        {
            return Ok(seal);
        }
        let paths: Vec<_> = refused.iter().map(|change| change.at.clone()).collect();
        let seal = bench.put_back(before, seal, &paths)?;
        drafts.extend(bench.take_events());
        let to = self.seal_blob(&seal.manifest)?;
        let back = |change| self.taken_back(to.clone(), "lock_file_put_back", Some(change));
        drafts.extend(refused.drain(..).map(back));
        Ok(seal)
    }

    /// The event that changes of this call went back.
    fn taken_back(&self, to: Option<BlobRef>, code: &str, change: Option<RefusedChange>) -> Draft {
        let (path, rules) = change.map_or((None, Vec::new()), |c| (Some(c.path), c.rules));
        let code = code.to_owned();
        let body = WorkspaceRolledBack { call: Some(self.id), to, code, path, rules };
        Draft::new(Kind::WorkspaceRolledBack, &body)
    }

    fn seal_blob(&self, state: &SealManifest) -> Result<Option<BlobRef>> {
        if state.is_unchanged() {
            return Ok(None);
        }
        Ok(Some(put(&self.log, &manifest_bytes(state)?)?))
    }

    /// Decides every changed path as a write. The second part are the changes that may not stay.
    /// Many allowed paths of one kind are told by one event with the list beside it.
    fn judge(&self, writes: &[Write], reached: bool) -> Result<(Vec<Draft>, Vec<RefusedChange>)> {
        let mut drafts = Vec::new();
        let mut refused = Vec::new();
        let mut allowed: BTreeMap<(&str, ChangeClass), Vec<PolicyDecided>> = BTreeMap::new();
        for write in writes {
            // The file that the call itself names was decided on before it was written.
            if self.path.as_ref() == Some(&write.path) {
                continue;
            }
            let syscall = if write.gone { name::FS_DELETE } else { name::FS_WRITE };
            let mut call = Call::new(syscall, self.agent.clone()).at(write.path.clone());
            call.session = Some(self.session.clone());
            call.state = Some(self.state.clone());
            call.size_bytes = write.size_bytes;
            call.change = Some(write.class);
            call.labels.clone_from(&self.labels);
            if reached {
                call.labels.insert(WEB.to_owned());
            }
            let decision = decide_uncounted(&self.policy, &call);
            let may_stay = decision.effect == Effect::Allow;
            if !may_stay {
                refused.push(RefusedChange {
                    at: write.path.clone(),
                    path: self.masker.mask_str(write.path.as_str()),
                    rules: decision.rules.iter().map(|rule| rule.name.clone()).collect(),
                    reasons: decision.reasons.join("; "),
                    needs_review: decision.effect == Effect::RequireReview,
                });
            }
            let subject = Some(self.masker.mask_str(write.path.as_str()));
            let input = masked(&self.masker, call);
            let body = PolicyDecided::new(Some(self.id), input, subject, decision);
            if may_stay {
                allowed.entry((syscall, write.class)).or_default().push(body);
            } else if drafts.len() < MAX_NAMED_PATHS {
                drafts.push(Draft::new(Kind::PolicyDecided, &body));
            }
        }
        for bodies in allowed.into_values() {
            drafts.extend(self.told(bodies)?);
        }
        Ok((drafts, refused))
    }

    fn told(&self, bodies: Vec<PolicyDecided>) -> Result<Vec<Draft>> {
        if bodies.len() <= MAX_SINGLE_DECISIONS {
            return Ok(bodies.iter().map(|body| Draft::new(Kind::PolicyDecided, body)).collect());
        }
        let paths: Vec<_> = bodies.iter().filter_map(|body| body.subject.as_deref()).collect();
        let list = put(&self.log, paths.join("\n").as_bytes())?;
        let count = bodies.len();
        let Some(mut body) = bodies.into_iter().next() else { return Ok(Vec::new()) };
        body.input = None;
        body.subject = Some(format!("{count} paths, listed in {}", list.blob));
        Ok(vec![Draft::new(Kind::PolicyDecided, &body)])
    }

    fn rolled_back(&self, before: &SealManifest, change: RefusedChange) -> Result<Vec<Draft>> {
        let to = self.seal_blob(before)?;
        let code = codes::CHANGE_DENIED.name;
        let text = if change.needs_review {
            format!(
                "rolled back: the command changed `{}`, which needs a review: {}. Change that file with fs.write, \
                 which asks for it.",
                change.path, change.reasons
            )
        } else {
            format!("rolled back: the command changed `{}`: {}", change.path, change.reasons)
        };
        let rolled = self.taken_back(to, code, Some(change));
        Ok(vec![rolled, refused(self.id, CallStatus::Denied, code, text)])
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
                let end = self.run_tests(bench, timeout_ms)?;
                Ok(End { earlier_exit_code: earlier, ..end })
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
        Ok(end)
    }

    /// Before the tests are run on what would be merged: the tests as they were before, alone, on the
    /// sources as they are now. What the agent wrote as tests runs as a program beside the others and
    /// can do to them what it likes; here it is absent. Leaves everything as it was, in a new sandbox.
    fn validate_earlier(&self, bench: &mut Workbench, timeout_ms: u64) -> Result<Option<i32>> {
        let Some(earlier) = bench.with_earlier_tests()? else {
            return bench.start_anew(NewCache::Empty).map(|()| None);
        };
        let sealed = bench.sealed()?.clone();
        bench.accept(earlier, None)?;
        let ran = bench
            .start_anew(NewCache::Empty)
            .and_then(|()| self.run_tests(bench, timeout_ms))
            .map(|end| end.proven_exit_code());
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
        let running =
            Running { call: self.id, state: Some(self.state.clone()), labels: self.labels.clone() };
        let result = bench.run(running, &command, &mut sink, self.cancel.sandbox())?;
        Ok(command_end(output, &result))
    }
}

/// A change that may not stay.
struct RefusedChange {
    at: CanonicalPath,
    /// As it may be told.
    path: String,
    rules: Vec<String>,
    reasons: String,
    needs_review: bool,
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

fn command_end(output: Vec<u8>, result: &RunResult) -> End {
    let mut end = End {
        strategy: Strategy::Middle,
        background_processes: result.background_processes,
        ..End::done(output)
    };
    match &result.status {
        Status::Exited(code) => end.exit_code = Some(*code),
        // As a shell tells it.
        Status::Signaled(signal) => end.exit_code = Some(128 + signal),
        Status::TimedOut => {
            (end.status, end.code) = (CallStatus::TimedOut, Some("timed_out".to_owned()))
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
