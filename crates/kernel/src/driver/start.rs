//! Starting a session, taking one over, freezing what it works on.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use glasshouse_log::{Log, NewBranch};
use glasshouse_model::body::{
    BlobRef, LogRecovered, NamedRequest, Outcome, PolicySource, SessionCreated, SessionResumed,
    TestSetup, TurnEnd, WorkspaceFrozen, WorkspaceRolledBack,
};
use glasshouse_model::{BranchId, Draft, Kind, Mode, Principal, PrincipalKind, SessionId};
use glasshouse_policy::Policy;
use glasshouse_provider::{Provider, Secret, TokenUsage};
use glasshouse_sandbox::toolchain;
use glasshouse_sandbox::workspace::git::Git;
use glasshouse_tools::Registry;

use super::network::{Network, to_the_turn};
use super::people::{Observer, Reviewer};
use super::place::is_within;
use super::rates::Rates;
use super::recorder::Recorder;
use super::workbench::Workbench;
use super::{Kernel, Session, boxes, debt, lock, rules};
use crate::config::{Config, DEFAULT_MAX_AUTO_MERGE_LINES};
use crate::session::VOID_APPROVALS;
use crate::{Error, Result, codes};

/// What a new session needs.
pub struct NewSession {
    /// Project directory.
    pub project: PathBuf,
    /// Configuration that applies.
    pub config: Config,
    /// The model.
    pub provider: Arc<dyn Provider>,
    /// Who approves.
    pub reviewer: Arc<dyn Reviewer>,
    /// Who watches.
    pub observer: Arc<dyn Observer>,
    /// Scenario of a scripted provider; kept in the log so that the session can be resumed.
    pub scenario: Option<Vec<u8>>,
    /// Whether the user, not the project, named the model's server.
    pub own_server: bool,
    /// Values that must never be stored, by name.
    pub secrets: Vec<(String, Secret)>,
    /// The id it gets, and the request that asks for it, where its sender named it.
    pub request: Option<(SessionId, NamedRequest)>,
    /// Who starts it; the person at this machine when absent.
    pub by: Option<Principal>,
}

/// Who takes part, and what must never be stored.
struct People {
    provider: Arc<dyn Provider>,
    reviewer: Arc<dyn Reviewer>,
    secrets: Vec<(String, Secret)>,
}

impl Kernel {
    /// Starts a session: recorded before it returns. Where another mode than strict needs an answer, it
    /// waits for that.
    ///
    /// # Errors
    /// `branch_exists` for an id that is taken; `project_unreadable`, `no_commit`, `tests_unknown`, the policy's load errors, the
    /// log's errors.
    pub async fn start(&self, new: NewSession) -> Result<Session> {
        let mut session = self.found(new).await?;
        session.await_mode().await?;
        Ok(session)
    }

    /// The same without waiting: a question about the mode stays open, and whoever resumes the session next
    /// waits for its answer.
    ///
    /// # Errors
    /// As [`Kernel::start`].
    pub async fn found(&self, new: NewSession) -> Result<Session> {
        let mode = new.config.mode.unwrap_or(Mode::Strict);
        let by = self.who(new.by.as_ref());
        let project = canonical_project(&new.project)?;
        self.keep_apart(&project)?;
        self.grounds.check(&project)?;
        check_has_commit(&project)?;
        let test = test_setup(&project, &new.config)?;
        let texts = self.policy_texts(&project, &test)?;
        let policy = self.compile(&texts)?;
        // Until its lease says so.
        let naming = self.log.naming()?;
        let scenario = new.scenario.as_ref().map(|bytes| put(&self.log, bytes)).transpose()?;
        let body = SessionCreated {
            // Another mode is asked for below, and has to be allowed.
            mode: Mode::Strict,
            project: project.display().to_string(),
            provider: new.config.provider.clone().unwrap_or_else(|| new.provider.name().to_owned()),
            model: new.config.model.clone().unwrap_or_else(|| new.provider.name().to_owned()),
            base_url: new.config.base_url.clone(),
            own_server: new.own_server,
            scenario,
            budget: new.config.budget()?,
            test,
            policy: rules::recorded(self, &texts)?,
            max_auto_merge_lines: new
                .config
                .merge
                .max_auto_lines
                .unwrap_or(DEFAULT_MAX_AUTO_MERGE_LINES),
            settings: new.config.settings()?,
            program_version: env!("CARGO_PKG_VERSION").to_owned(),
            request: new.request.as_ref().map(|(_, request)| request.clone()),
        };
        check_prices(&body, new.provider.as_ref())?;
        let session = match new.request {
            Some((session, _)) => session,
            None => SessionId::from_random(random()?),
        };
        let branch = BranchId::from_random(random()?);
        self.log.create_branch(NewBranch {
            session: session.clone(),
            branch: branch.clone(),
            name: "main".to_owned(),
            parent: None,
        })?;
        let lease = self.log.acquire_lease(&branch)?;
        drop(naming);
        let recorder = Recorder::open(
            self.log.clone(),
            session,
            branch,
            lease.epoch(),
            Arc::clone(&new.observer),
        )?;
        let people =
            People { provider: new.provider, reviewer: new.reviewer, secrets: new.secrets };
        let mut session = self.session(recorder, lease, policy, people, &body)?;
        let created = Draft::new(Kind::SessionCreated, &body).by(by.actor());
        let mut first = vec![created];
        first.extend(debt::carried(&self.log, &body.project)?);
        session.recorder.record(first).await?;
        if mode != Mode::Strict {
            session.ask_for_mode(mode, by).await?;
        }
        Ok(session)
    }

    /// Takes over a branch of a session, the main one unless told, that rests, was cancelled, or whose owner is gone. Whatever was under way
    /// is closed once: the turn is `interrupted`, the workspace goes back to its last seal.
    ///
    /// # Errors
    /// `session_not_found`; `session_owned` while another process runs it; the log's errors.
    pub async fn resume(
        &self,
        id: &SessionId,
        branch: Option<BranchId>,
        provider: Arc<dyn Provider>,
        reviewer: Arc<dyn Reviewer>,
        observer: Arc<dyn Observer>,
        secrets: Vec<(String, Secret)>,
    ) -> Result<Session> {
        let branch = branch.map_or_else(|| self.main_branch(id), Ok)?;
        let lease = self.log.acquire_lease(&branch)?;
        let recorder =
            Recorder::open(self.log.clone(), id.clone(), branch, lease.epoch(), observer)?;
        let created = recorder.state().created.clone().ok_or_else(|| {
            Error::new(codes::SESSION_NOT_FOUND, format!("session {id} was never started"))
        })?;
        let is_imported = self.is_imported(id)?;
        let (policy, since) = if is_imported {
            (self.policy_of(&created, is_imported)?, Vec::new())
        } else {
            let texts = rules::carried_on(self, &created)?;
            let in_force = recorder.state().policy_in_force();
            let is_same = texts.iter().map(rules::source_of).eq(in_force.iter().cloned());
            let since = if is_same { Vec::new() } else { rules::recorded(self, &texts)? };
            (self.compile_to_look(&texts)?, since)
        };
        let policy = self.serve(policy)?;
        let epoch = lease.epoch();
        let mut session = self.session(
            recorder,
            lease,
            policy,
            People { provider, reviewer, secrets },
            &created,
        )?;
        session.is_imported = is_imported;
        session.recover(epoch, since).await?;
        session.await_mode().await?;
        Ok(session)
    }

    fn session(
        &self,
        recorder: Recorder,
        lease: glasshouse_log::Lease,
        policy: Policy,
        people: People,
        created: &SessionCreated,
    ) -> Result<Session> {
        let People { provider, reviewer, secrets } = people;
        let masker = Arc::new(self.masker(&policy, &secrets)?);
        let policy = Arc::new(policy);
        let (sink, said) = to_the_turn();
        let agent = Principal::new(PrincipalKind::Agent, "agent", self.log.tenant().clone());
        let rates = match policy.limits_rates() {
            true => Rates::of(&self.log, recorder.branch())?,
            false => Rates::default(),
        };
        let rates = Arc::new(Mutex::new(rates));
        let network = Network::new(
            (Arc::clone(&policy), Arc::clone(&masker), Arc::clone(&rates)),
            (agent, recorder.session().clone()),
            self.network.clone(),
            sink,
        );
        let rules = Arc::clone(&policy);
        let workbench = Workbench::new(self, recorder.branch(), created, rules, network)?;
        Ok(Session {
            rates,
            recorder,
            lease,
            policy,
            provider,
            reviewer,
            registry: Arc::new(Registry::builtin()),
            masker,
            workbench: Arc::new(Mutex::new(workbench)),
            said,
            partial: Arc::default(),
            model_failure: Arc::default(),
            answer_by: None,
            is_imported: false,
            outside: self.outside.through(&self.network)?,
        })
    }

    /// Refuses a workspace that would show the log and its keys, or that lies among them.
    pub(super) fn keep_apart(&self, project: &Path) -> Result<()> {
        let shows = is_within(&self.outer, project).unwrap_or(true);
        let lies_among = is_within(project, &self.outer).unwrap_or(true);
        let is_sample = || is_within(project, &self.outer.join("demo")).unwrap_or(false);
        if shows || (lies_among && !is_sample()) {
            return Err(Error::new(
                codes::PROJECT_UNREADABLE,
                format!("cannot work on {}", project.display()),
            )
            .why("the data directory with the log and its keys lies inside it, or it inside that")
            .fix(
                "work on a directory of its own, or set GLASSHOUSE_HOME to one outside the project",
            ));
        }
        Ok(())
    }
}

impl Session {
    /// Closes what the earlier owner left open, and tells by what it is decided from here on.
    async fn recover(&mut self, epoch: u64, policy: Vec<PolicySource>) -> Result<()> {
        let turn = self.state().turn;
        let found = if turn.is_some() { "interrupted" } else { "at_rest" };
        let resumed = SessionResumed { epoch, found: found.to_owned(), policy };
        let mut drafts = vec![Draft::new(Kind::SessionResumed, &resumed)];
        drafts.extend(boxes::lost(self.state()));
        drafts.extend(self.void_after_restore()?);
        if let Some(turn) = turn {
            let end = TurnEnd {
                turn,
                outcome: Outcome::Failed,
                code: Some(codes::INTERRUPTED.name.to_owned()),
                message: Some("the process that ran the turn ended".to_owned()),
                commit: None,
            };
            drafts.push(Draft::new(Kind::TurnInterrupted, &end));
        }
        let stale = self.state().base_is_stale();
        if let Some(frozen) = self.state().frozen.clone().filter(|_| !stale) {
            let seal = self.state().seal.as_ref().map(|seal| seal.manifest.clone());
            let workbench = Arc::clone(&self.workbench);
            let log = self.recorder.log().clone();
            let to = seal.clone();
            let changed = tokio::task::spawn_blocking(move || {
                let manifest = to.map(|blob| log.blob(&blob.blob)).transpose()?;
                lock(&workbench).reopen(frozen.0, &frozen.1, manifest.as_deref())
            })
            .await
            .map_err(|e| {
                Error::new(codes::TURN_FAILED, "reopening the workspace failed").why(e)
            })??;
            if changed {
                let body = WorkspaceRolledBack {
                    call: None,
                    to: seal,
                    code: "interrupted".to_owned(),
                    path: None,
                    rules: Vec::new(),
                };
                drafts.push(Draft::new(Kind::WorkspaceRolledBack, &body));
            }
        }
        self.recorder.record(drafts).await
    }

    /// Takes back every answer of a person when events were given up since: it may have been used in
    /// them, and each is good for one use.
    fn void_after_restore(&self) -> Result<Option<Draft>> {
        let branch = self.recorder.branch();
        if !self.recorder.log().is_restored_since(branch)? {
            return Ok(None);
        }
        let body = LogRecovered {
            what: VOID_APPROVALS.to_owned(),
            branch: Some(branch.clone()),
            seq: None,
            expected: None,
            found: None,
            detail: Some(
                "later events were given up, and approvals may have been used there".into(),
            ),
        };
        Ok(Some(Draft::new(Kind::LogRecovered, &body)))
    }

    /// Freezes the project at the start of a turn.
    pub(super) async fn freeze_if(&mut self, stale: bool) -> Result<()> {
        if !stale {
            return Ok(());
        }
        // The sequence of the event that will record it names the workspace's directory.
        let seq = self.state().head + 1;
        let workbench = Arc::clone(&self.workbench);
        let frozen =
            tokio::task::spawn_blocking(move || lock(&workbench).freeze(seq)).await.map_err(
                |e| Error::new(codes::TURN_FAILED, "freezing the workspace failed").why(e),
            )??;
        let body = WorkspaceFrozen {
            base: frozen.base,
            files: frozen.files,
            head_commit: frozen.head_commit,
        };
        self.recorder.record(vec![Draft::new(Kind::WorkspaceFrozen, &body)]).await
    }
}

/// A limit that cannot be watched is no limit.
fn check_prices(body: &SessionCreated, provider: &dyn Provider) -> Result<()> {
    let unpriced = |model: &&String| provider.cost_micros(model, &TokenUsage::default()).is_none();
    let mut models = std::iter::once(&body.model).chain(&body.settings.fallback_models);
    match models.find(unpriced) {
        Some(model) if body.budget.cost_micros.is_some() => {
            Err(Error::new(codes::PRICE_UNKNOWN, "the session's budget has a cost")
                .why(format!("no price is known for the model `{model}`")))
        }
        _ => Ok(()),
    }
}

/// Bytes for a new id, or a new secret.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|e| Error::new(codes::TURN_FAILED, "the system gives no random bytes").why(e))?;
    Ok(bytes)
}

pub(super) fn put(log: &Log, bytes: &[u8]) -> Result<BlobRef> {
    Ok(BlobRef { blob: log.put_blob(bytes)?, bytes: bytes.len() as u64 })
}

pub(super) fn canonical_project(dir: &Path) -> Result<PathBuf> {
    let fail = |why: String| {
        Error::new(codes::PROJECT_UNREADABLE, format!("cannot work on {}", dir.display())).why(why)
    };
    let project = dir.canonicalize().map_err(|e| fail(e.to_string()))?;
    if project.is_dir() { Ok(project) } else { Err(fail("it is no directory".to_owned())) }
}

/// Refuses a repository with files and without a commit: what changes one of these could not be committed, and
/// that would be found only when all work is done. New files alone can be a first commit.
fn check_has_commit(project: &Path) -> Result<()> {
    // What is wrong with the repository itself is told when it is frozen.
    let Ok(Some(git)) = Git::discover(project) else { return Ok(()) };
    if git.head()?.1.is_some() {
        return Ok(());
    }
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = git.run(&args, b"", &[])?.stdout;
    // What Glasshouse reads there is no work of the project's.
    let is_work = |name: &[u8]| !name.is_empty() && !name.starts_with(b".glasshouse/");
    if !listed.split(|byte| *byte == 0).any(is_work) {
        return Ok(());
    }
    Err(Error::new(codes::NO_COMMIT, format!("cannot work on {}", project.display()))
        .why("it is a git repository without any commit, and work is committed on top of one"))
}

/// How the project tests itself: configured, else detected.
///
/// # Errors
/// `tests_unknown` when nothing is configured and nothing is detected.
pub fn test_setup(project: &Path, config: &Config) -> Result<TestSetup> {
    let detected = toolchain::test_command(project, config.test.command.as_deref());
    let detected = detected.ok_or_else(|| {
        Error::new(codes::TESTS_UNKNOWN, "cannot tell how this project runs its tests")
            .why("none of cargo, npm, pytest, go, Maven, make or shell tests was recognised")
    })?;
    Ok(TestSetup {
        argv: detected.argv,
        kind: serde_json::to_value(detected.kind)
            .ok()
            .and_then(|kind| kind.as_str().map(str::to_owned))
            .unwrap_or_default(),
        test_globs: config.test.globs.clone().unwrap_or(detected.test_globs),
        source_globs: config.source.globs.clone().unwrap_or(detected.source_globs),
        coverage: config.test.coverage.clone(),
    })
}
