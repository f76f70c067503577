//! `glasshouse "task"`: a session on the user's own repository.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use glasshouse_kernel::driver::ACCEPTED_SINCE;
use glasshouse_kernel::session::State;
use glasshouse_kernel::{
    Cancel, Config, Elsewhere, Kernel, NewSession, NoReviewer, Reviewer, Session, TurnReport, codes,
};
use glasshouse_model::body::{Outcome, PolicyDecided, SessionCreated};
use glasshouse_model::{BranchId, Effect, Event, Exit, Kind, SessionId};
use glasshouse_provider::{Provider, Scripted, Secret};

use crate::args::SessionOptions;
use crate::error::Error;
use crate::home::Settings;
use crate::review::{Scenario, Terminal};
use crate::show::Show;
use crate::{home, input, models, output};

/// Starts a session and runs one turn.
pub(crate) fn run(task: &str, options: &SessionOptions) -> Result<u8, Error> {
    let project = match &options.project {
        Some(dir) => dir.clone(),
        None => home::here()?,
    };
    let mut flags = Config { mode: options.mode, ..models::flags(&options.model) };
    if options.scenario.is_some() {
        // A scenario is only of use to the provider that plays it.
        flags.provider.get_or_insert_with(|| "scripted".to_owned());
    }
    let Settings { config, own_server } = home::settings(flags, &project)?;
    let scenario = options.scenario.as_deref();
    let scenario = scenario.map(read_scenario).transpose()?;
    let kernel = home::kernel()?;
    Work {
        kernel,
        project,
        config,
        own_server,
        scenario,
        json: options.json,
        approver: Approver::of(options.no_approver, options.wait_for_review),
    }
    .run(task)
}

/// Reads a scenario; what is wrong with it is told by the name of its file, which the log does not keep.
fn read_scenario(file: &Path) -> Result<Vec<u8>, Error> {
    let bytes = input::bytes(file, input::MAX_SCENARIO_BYTES)?;
    if let Ok(text) = std::str::from_utf8(&bytes) {
        Scripted::parse(text, &file.display().to_string())?;
    }
    Ok(bytes)
}

/// All that one task needs.
pub(crate) struct Work {
    pub(crate) kernel: Kernel,
    pub(crate) project: PathBuf,
    pub(crate) config: Config,
    /// Whether the user named the model's server; only then does it get the user's key.
    pub(crate) own_server: bool,
    pub(crate) scenario: Option<Vec<u8>>,
    pub(crate) json: bool,
    pub(crate) approver: Approver,
}

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approver {
    /// The person at the terminal, or the scenario's script; without them nobody.
    Here,
    /// Whoever answers in another process, within this time.
    Elsewhere(Duration),
    /// Nobody.
    Nobody,
}

impl Approver {
    /// As the flags say.
    pub(crate) fn of(nobody: bool, wait_ms: Option<u64>) -> Self {
        match (nobody, wait_ms) {
            (true, _) => Self::Nobody,
            (false, Some(wait_ms)) => Self::Elsewhere(Duration::from_millis(wait_ms)),
            (false, None) => Self::Here,
        }
    }

    fn reviewer(self, here: impl FnOnce() -> Option<Arc<dyn Reviewer>>) -> Arc<dyn Reviewer> {
        let nobody = || Arc::new(NoReviewer) as Arc<dyn Reviewer>;
        match self {
            Self::Here => here().unwrap_or_else(nobody),
            Self::Elsewhere(limit) => Arc::new(Elsewhere { limit }),
            Self::Nobody => nobody(),
        }
    }
}

impl Work {
    /// Runs the task and tells its outcome.
    pub(crate) fn run(self, task: &str) -> Result<u8, Error> {
        self.run_then(task, |_| Ok(()))
    }

    /// The same with something to check before the outcome is told.
    pub(crate) fn run_then(
        self,
        task: &str,
        then: impl FnOnce(&Finished<'_>) -> Result<(), Error>,
    ) -> Result<u8, Error> {
        let people = people(
            self.config.provider.as_deref(),
            self.config.base_url.as_deref(),
            self.config.model.as_deref(),
            self.scenario.as_deref(),
            Rights { own_server: self.own_server, scripted_answers: true, approver: self.approver },
        )?;
        let wanted = self.config.mode;
        let new = NewSession {
            project: self.project,
            config: self.config,
            provider: people.provider,
            reviewer: people.reviewer,
            observer: Arc::new(Show::new(self.kernel.log().clone(), self.json, self.approver)),
            scenario: self.scenario,
            own_server: self.own_server,
            secrets: people.secrets,
            request: None,
            by: None,
        };
        super::policy::tell_missing(&self.kernel, &new.project)?;
        let project = new.project.clone();
        let runtime = runtime()?;
        let mut session = runtime.block_on(self.kernel.start(new))?;
        // As it was recorded: the file may have changed since.
        let created = session.state().created.as_ref();
        if created.is_some_and(|created| created.policy.iter().any(|source| source.apart)) {
            output::note(super::policy::not_in_force(Some(&self.kernel), &project)?);
        }
        let mode = session.state().mode();
        if let Some(wanted) = wanted.filter(|wanted| *wanted != mode) {
            output::note(&format!(
                "the mode {wanted} was not allowed here; this session works in {mode} mode"
            ));
        }
        if !self.json {
            output::note(&format!(
                "glasshouse {} · {mode} · session {}",
                env!("CARGO_PKG_VERSION"),
                session.id()
            ));
        }
        let report = drive(&runtime, &mut session, Some(task))?;
        let (id, branch) = put_away(session);
        then(&Finished { kernel: &self.kernel, branch: &branch, report: &report })?;
        tell(&self.kernel, &id, &branch, &report, self.json)
    }
}

/// A turn that came to rest.
pub(crate) struct Finished<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) branch: &'a BranchId,
    pub(crate) report: &'a TurnReport,
}

/// Carries on a session.
pub(crate) fn resume(
    kernel: &Kernel,
    created: &SessionCreated,
    (id, branch): (&glasshouse_model::SessionId, BranchId),
    message: Option<&str>,
    Told { approver, json }: Told,
) -> Result<u8, Error> {
    let scenario =
        created.scenario.as_ref().map(|blob| kernel.log().blob(&blob.blob)).transpose()?;
    // A file of somebody else says neither who gets the user's key, nor who approves, nor where to work.
    let is_foreign = kernel.is_imported(id)?;
    if is_foreign {
        check_is_here(&created.project)?;
    }
    let rights = Rights {
        own_server: created.own_server && !is_foreign,
        scripted_answers: !is_foreign,
        approver,
    };
    let people = people(
        Some(&created.provider),
        created.base_url.as_deref(),
        Some(&created.model),
        scenario.as_deref(),
        rights,
    )?;
    let runtime = runtime()?;
    let observer = Arc::new(Show::new(kernel.log().clone(), json, approver));
    let mut session = runtime.block_on(kernel.resume(
        id,
        Some(branch),
        people.provider,
        people.reviewer,
        observer,
        people.secrets,
    ))?;
    if session.state().policy_in_force().iter().any(|source| source.name == ACCEPTED_SINCE) {
        output::note(
            "another policy was accepted since this session began: it decides beside the session's own, and \
             each must allow; what was approved and granted before does not count",
        );
    }
    let report = drive(&runtime, &mut session, message)?;
    let (id, branch) = put_away(session);
    tell(kernel, &id, &branch, &report, json)
}

/// Ends what a session holds, which is told in the log: what is said of the log after that stays true.
fn put_away(session: Session) -> (SessionId, BranchId) {
    (session.id().clone(), session.branch().clone())
}

/// Lets work go on only where the user stands.
fn check_is_here(project: &str) -> Result<(), Error> {
    let here = std::env::current_dir().and_then(|dir| dir.canonicalize());
    let is_here = here.is_ok_and(|here| here == std::path::Path::new(project));
    if is_here {
        return Ok(());
    }
    let what = format!("this session was imported, and its project is {project}");
    Err(Error::new(codes::PROJECT_UNREADABLE, what)
        .why("what another log recorded does not choose the directory that an agent sees")
        .fix("run the command in that directory, if the session is to go on there"))
}

/// Whom a resumed turn may ask, and how it is told.
pub(crate) struct Told {
    pub(crate) approver: Approver,
    pub(crate) json: bool,
}

/// What a session may use of the user's.
struct Rights {
    own_server: bool,
    /// Whether a scenario may answer in the place of a person.
    scripted_answers: bool,
    approver: Approver,
}

struct People {
    provider: Arc<dyn Provider>,
    reviewer: Arc<dyn Reviewer>,
    secrets: Vec<(String, Secret)>,
}

fn people(
    provider: Option<&str>,
    base_url: Option<&str>,
    model: Option<&str>,
    scenario: Option<&[u8]>,
    Rights { own_server, scripted_answers, approver }: Rights,
) -> Result<People, Error> {
    match provider {
        Some("scripted") => {
            let scripted = scripted(scenario)?;
            let script = scripted.reviews().to_vec();
            let reviewer = approver.reviewer(|| {
                // A file that answers no question leaves them to the person.
                let answers = scripted_answers && !(script.is_empty() && Terminal::is_there());
                if answers { Some(Arc::new(Scenario::new(script))) } else { present() }
            });
            Ok(People { provider: Arc::new(scripted), reviewer, secrets: Vec::new() })
        }
        Some(name) => {
            let known = models::known(name)?;
            let models::Connected { remote, secrets } =
                models::connect(&known, base_url, model, own_server)?;
            let reviewer = approver.reviewer(present);
            Ok(People { provider: Arc::new(remote), reviewer, secrets })
        }
        None => Err(models::none_set()),
    }
}

/// The model that a scenario plays.
pub(super) fn scripted(scenario: Option<&[u8]>) -> Result<Scripted, Error> {
    let bytes = scenario.ok_or_else(|| {
        Error::new(codes::CONFIG_INVALID, "no scenario was given")
            .why("the scripted provider plays a model from a file")
            .fix("pass --scenario FILE")
    })?;
    let text = std::str::from_utf8(bytes)
        .map_err(|e| Error::new(codes::INPUT_UNREADABLE, "the scenario is no UTF-8 text").why(e))?;
    Ok(Scripted::parse(text, "scenario")?.with_prices(home::prices()?))
}

/// The person at the terminal, if there is one.
fn present() -> Option<Arc<dyn Reviewer>> {
    Terminal::is_there().then(|| Arc::new(Terminal) as Arc<dyn Reviewer>)
}

/// The runtime; its end does not wait for a thread that asks a person who is not answering.
pub(super) struct Engine(Option<tokio::runtime::Runtime>);

impl std::ops::Deref for Engine {
    type Target = tokio::runtime::Runtime;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().expect("it is taken only when it is dropped")
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

pub(super) fn runtime() -> Result<Engine, Error> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map(|runtime| Engine(Some(runtime)))
        .map_err(|e| Error::new(codes::TURN_FAILED, "the runtime does not start").why(e))
}

/// Runs a turn; the first Ctrl-C stops it and leaves a session that can be resumed, the second ends
/// the process (the log is safe at every moment).
fn drive(
    runtime: &tokio::runtime::Runtime,
    session: &mut Session,
    message: Option<&str>,
) -> Result<TurnReport, Error> {
    let cancel = Cancel::new()?;
    let switch = cancel.clone();
    runtime.spawn(on_ctrl_c(move || switch.cancel()));
    Ok(runtime.block_on(session.turn(message, &cancel))?)
}

/// The same for a command that has no runtime: the signal is heard on a thread of its own.
pub(super) fn stopped_by_ctrl_c(cancel: &Cancel) -> Result<(), Error> {
    let fail = |e: std::io::Error| Error::new(codes::TURN_FAILED, "signals cannot be heard").why(e);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(fail)?;
    let cancel = cancel.clone();
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(on_ctrl_c(move || cancel.cancel())))
        .map_err(fail)?;
    Ok(())
}

/// Stops at the first Ctrl-C, in order, and ends the program at the second.
pub(super) async fn on_ctrl_c(stop: impl Fn() + Send) {
    let mut is_stopping = false;
    while tokio::signal::ctrl_c().await.is_ok() {
        if is_stopping {
            std::process::exit(i32::from(Exit::Cancelled.status()));
        }
        is_stopping = true;
        output::note("stopping; press Ctrl-C again to end at once");
        stop();
    }
}

/// Tells the outcome of a turn that came to its end earlier.
pub(crate) fn tell_finished(
    kernel: &Kernel,
    session: &SessionId,
    branch: &BranchId,
    state: &State,
    json: bool,
) -> Result<u8, Error> {
    let report = TurnReport::of(state)?;
    tell(kernel, session, branch, &report, json)
}

/// Verifies the log and tells the outcome.
fn tell(
    kernel: &Kernel,
    session: &SessionId,
    branch: &BranchId,
    report: &TurnReport,
    json: bool,
) -> Result<u8, Error> {
    let verification = kernel.log().verify()?;
    let verify = if verification.is_ok() { "ok" } else { "failed" };
    let head = kernel.log().head(branch)?;
    let status = exit_status(report, verification.is_ok());
    let resumed = resumed(kernel, session, branch);
    if let Some(fault) = fault(report, (session, &resumed), || denied_at(kernel, branch)) {
        crate::fail::tell(&fault, json);
    }
    if json {
        output::json_line(&serde_json::json!({
            "outcome": report.outcome,
            "session": session,
            "branch": branch,
            "commit": report.end.commit,
            "events": head.seq,
            "log_head": head.hash,
            "verify": verify,
            "isolation": report.isolation,
        }));
    } else {
        output::note(&format!(
            "{}: {} events, log {verify}, head {}, isolation {}",
            outcome(report),
            head.seq,
            head.hash,
            report.isolation.as_deref().unwrap_or("not used"),
        ));
        if !matches!(report.outcome, Outcome::Committed | Outcome::Answered) {
            output::note(&format!("carry on with: glasshouse session resume {resumed}"));
        }
    }
    Ok(status)
}

/// What names a branch to `session resume`: a session alone is its first one.
fn resumed(kernel: &Kernel, session: &SessionId, branch: &BranchId) -> String {
    match kernel.branch(session, None) {
        Ok(first) if first.branch == *branch => session.to_string(),
        _ => format!("{session} --branch {branch}"),
    }
}

/// How a turn ended, for people: what is committed says so only where there is a commit.
fn outcome(report: &TurnReport) -> String {
    let word = serde_json::to_value(report.outcome).unwrap_or_default();
    let word = word.as_str().unwrap_or_default();
    match (report.outcome, &report.end.commit) {
        (_, Some(commit)) => format!("{word} {commit}"),
        (Outcome::Committed, None) => "merged without a commit".to_owned(),
        (_, None) => word.to_owned(),
    }
}

/// Sequence of the last decision that denied something.
fn denied_at(kernel: &Kernel, branch: &BranchId) -> Option<u64> {
    let denied = |event: &Event| {
        let decided = event.body_as::<PolicyDecided>();
        decided.is_ok_and(|decided| decided.decision.effect == Effect::Deny)
    };
    let events = kernel.log().events(branch).filter_map(std::result::Result::ok);
    let decided = events.filter(|event| *event.kind() == Kind::PolicyDecided);
    decided.filter(denied).last().map(|event| event.seq())
}

/// Why a turn did not do its task, in the shape of every error; `None` when it did or was cancelled.
fn fault(
    report: &TurnReport,
    (session, resumed): (&SessionId, &str),
    denied_at: impl FnOnce() -> Option<u64>,
) -> Option<Error> {
    let nobody = "a call needed a person's approval, and nobody gave it";
    let (name, message) = match (report.outcome, &report.end.code, &report.end.message) {
        (Outcome::Answered, ..) if report.no_approver => (codes::NO_APPROVER.name, nobody),
        (Outcome::Committed | Outcome::Answered | Outcome::Cancelled, ..) => return None,
        (Outcome::Rejected, ..) => {
            (codes::APPROVAL_REJECTED.name, "the person who was asked rejected the change set")
        }
        (Outcome::Failed, Some(code), message) => {
            (code.as_str(), message.as_deref().unwrap_or("no reason was recorded"))
        }
        (Outcome::Failed, None, _) => (codes::TURN_FAILED.name, "no reason was recorded"),
    };
    // An error of a crate below is recorded as it prints itself, with its code in front.
    let doubled = format!("{name}: ");
    let why = message.strip_prefix(doubled.as_str()).unwrap_or(message);
    let code = codes::named(name).unwrap_or(codes::TURN_FAILED);
    let mut fix = format!("{}; `glasshouse session show {session}` tells what happened", code.fix);
    // What a code says to everybody has names where this session has ids.
    fix = fix.replace("session resume`", &format!("session resume {resumed}`"));
    fix = fix.replace("session resume ID", &format!("session resume {resumed}"));
    fix = fix.replace("--session ID", &format!("--session {session}"));
    if fix.contains("--at SEQ")
        && let Some(seq) = denied_at()
    {
        fix = fix.replace("--at SEQ", &format!("--at {seq}"));
    }
    let fault = Error::new(code, "the task was not finished")
        .why(output::visible(why, true))
        .fix(fix)
        .with("session", session.to_string());
    Some(if code.name == name { fault } else { fault.with("code", name) })
}

/// Whether a turn ended for what a provider reports, a scenario that is not met among it.
fn is_of_model(code: &str) -> bool {
    glasshouse_provider::codes::ALL.iter().any(|known| known.name == code)
}

fn exit_status(report: &TurnReport, verified: bool) -> u8 {
    if !verified {
        return Exit::Mismatch.status();
    }
    let exit = match (report.outcome, report.end.code.as_deref()) {
        (Outcome::Committed, _) => Exit::Done,
        (_, Some("no_approver")) => Exit::NeedsApproval,
        (Outcome::Answered, _) if report.no_approver => Exit::NeedsApproval,
        (Outcome::Answered, _) => Exit::Done,
        (Outcome::Rejected, _) => Exit::Denied,
        (Outcome::Cancelled, _) => Exit::Cancelled,
        (
            Outcome::Failed,
            Some("merge_conflict" | "head_moved" | "stale_review" | "repository_busy"),
        ) => Exit::Conflict,
        (Outcome::Failed, Some("storage_full" | "log_failed" | "merge_incomplete")) => {
            Exit::Storage
        }
        (Outcome::Failed, Some("isolation_unavailable")) => Exit::NoIsolation,
        (Outcome::Failed, Some("policy_denied")) => Exit::Denied,
        // What the model's side reports ended the turn, whoever was not there before.
        (Outcome::Failed, Some(code)) if is_of_model(code) => Exit::Unfinished,
        (Outcome::Failed, _) if report.no_approver => Exit::NeedsApproval,
        (Outcome::Failed, _) => Exit::Unfinished,
    };
    exit.status()
}
