//! The half that acts: runs the effects that a state wants and turns what happens into events.
//!
//! One loop per turn. It alone appends; tasks that talk to the model, run a command or ask a person
//! give back event drafts. Nothing that depends on an event starts before the event is durable.

mod accepting;
mod access;
mod answer;
mod approvals;
mod ask;
mod beside;
mod boxes;
mod branching;
mod cells;
mod debt;
mod decide;
mod demands;
mod ending;
mod erasing;
mod examined;
mod execute;
mod explain;
mod fetch;
mod grants;
mod grounds;
mod imports;
mod joining;
mod journal;
mod keep;
mod learned;
mod masks;
mod merging;
mod mode;
mod model;
mod mounts;
mod network;
mod once;
mod overview;
mod past;
mod people;
mod pins;
mod place;
mod rates;
mod recorded;
mod recorder;
mod rules;
mod search;
mod settled;
mod simulate;
mod start;
mod steering;
mod sweep;
mod tried;
mod turning;
mod views;
mod workbench;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use glasshouse_log::{Deviation, Keeping, Lease, Log};
use glasshouse_model::body::{
    BranchMerged, CallEnd, CallStatus, LogRecovered, Outcome, SessionCreated, SessionResumed,
    TurnEnd,
};
use glasshouse_model::{BranchId, CallId, Draft, Event, Fault, Kind, Seq, SessionId, TenantId};
use glasshouse_plan::{Plan, Profile};
use glasshouse_policy::Policy;
use glasshouse_provider::Provider;
use glasshouse_sandbox::{Backend, HostConfig, SandboxHost};
use glasshouse_tools::Registry;
use glasshouse_tools::sanitise::Masker;
use tokio::sync::mpsc;

pub use access::{
    Access, IssuedKey, KEY_PREFIX, KeyRow, KeyTerms, NewTenant, ROLES, Rotation, TenantRow,
    access_branch, access_of, access_session,
};
pub use approvals::{ApprovalName, PendingApproval};
pub use ask::Questions;
pub use boxes::SandboxRow;
pub use branching::{Forked, NewFork};
pub use cells::RepairedCell;
pub(crate) use decide::masked;
pub use decide::{boundary_denial, now_us};
pub(crate) use demands::{Place, decide_uncounted};
pub use ending::Deletion;
pub use erasing::{Erasing, Erasure};
pub(crate) use examined::tell as tell_what_was_examined;
pub use explain::{DeniedLater, Explained, Origin};
pub use fetch::Outside;
pub(crate) use fetch::{NoPage, page};
pub use grants::{GrantRow, GrantState};
pub use grounds::check_project;
pub use joining::{Merging, NewMerge};
pub use learned::Learned;
pub use model::tools_told;
pub use mounts::Toolchain;
pub use network::{Credential, NetworkSettings};
pub use once::{Hands, OneCommand, OneResult};
pub use overview::Overview;
pub use past::PastFiles;
pub use people::{
    Answer, Cancel, Elsewhere, NoReviewer, Notice, Observer, ReviewItem, Reviewer, Wider, Withdrawn,
};
pub use place::real_path;
pub use rules::{
    ACCEPTED_SINCE, PROJECT_POLICY, PolicyReview, PolicyText, ProjectPolicy, WORKFLOW_POLICY,
    compile, policy_texts, project_policy, protected, served,
};
pub use search::{Find, Found, Search, SearchPlace};
pub use simulate::{Changed, Past, Simulation};
pub(crate) use start::random;
pub use start::{NewSession, test_setup};
pub use steering::Steering;
pub use tried::{Tried, candidate_texts, test_setup_or_none};
pub use views::DOCUMENTS;

use crate::plans::{Coder, Plans, Probed, Quota};
use crate::session::{Difference, Listing, Replay, Replayed, State, join};
use crate::session::{recorded, refusal};
use crate::{Error, Result, codes};
use model::Arrived;
use network::Said;
use recorder::Recorder;
use workbench::Workbench;

/// Most repairs that one append tells of.
const MAX_SAID: usize = 100;

/// An installation: the log, and the sandbox host once something needs it.
pub struct Kernel {
    log: Log,
    home: PathBuf,
    /// The data directory of the installation, around the homes of its tenants.
    outer: PathBuf,
    /// The log that says what was found when this machine was examined: the installation's.
    machine: Log,
    program: PathBuf,
    network: NetworkSettings,
    host: OnceLock<Arc<SandboxHost>>,
    /// What confines agents' commands, where it is not the host above.
    backend: Option<Arc<dyn Backend>>,
    /// What runs code of plans, and keeps what it compiled.
    coder: Arc<Coder>,
    keeping: Keeping,
    sweeping: sweep::Sweeping,
    outside: Outside,
    /// Held while a question about a merge is looked for and left.
    asking: Mutex<()>,
    /// Rules of whoever runs the server for this tenant.
    tenant_policy: RwLock<Option<String>>,
    /// Where projects may lie.
    grounds: grounds::Grounds,
}

impl Kernel {
    /// Opens the installation at `home`. `program` is the `glasshouse` binary itself; it is run
    /// again as the sandbox host, so it comes from the builder and never from the environment.
    ///
    /// # Errors
    /// When the log cannot be opened.
    pub fn open(home: &Path, program: &Path) -> Result<Self> {
        Self::open_of(home, program, &TenantId::local())
    }

    /// Opens the installation of a tenant, which has a home of its own.
    ///
    /// # Errors
    /// When the log cannot be opened; `tenant_mismatch` for the home of another one.
    pub fn open_of(home: &Path, program: &Path, tenant: &TenantId) -> Result<Self> {
        let log = Log::open(home, tenant)?;
        // One spelling, whatever links a process comes through: it stands in records and policies that
        // other processes compare with theirs.
        let home = real_path(home);
        let (network, host) = (NetworkSettings::default(), OnceLock::new());
        let (program, keeping, outside) =
            (real_path(program), Keeping::default(), Outside::default());
        let (outer, machine) = (home.clone(), log.clone());
        let config = HostConfig { program: program.clone(), home: home.clone() };
        let coder = Arc::new(Coder::new(config, Some(&log)));
        let tenant_policy = RwLock::default();
        let grounds = grounds::Grounds::beside(&outer);
        Ok(Self {
            log,
            home,
            outer,
            machine,
            program,
            network,
            host,
            backend: None,
            coder,
            keeping,
            sweeping: sweep::Sweeping::default(),
            outside,
            asking: Mutex::default(),
            tenant_policy,
            grounds,
        })
    }

    /// Keeps this many places ready for code of plans, once a plan had some: for a process that stays.
    #[must_use]
    pub fn with_prepared_code(self, count: usize) -> Self {
        self.coder.keep_ready(count);
        self
    }

    /// Reaches the network in another way than the host's own.
    #[must_use]
    pub fn with_outside(self, outside: Outside) -> Self {
        Self { outside, ..self }
    }

    /// Names the data directory that the tenant's home lies in: all of it is out of reach, as the home is, and
    /// what was found there when this machine was examined counts for the tenant too. Comes before
    /// [`Kernel::with_prepared_code`], which is of the places for code that this begins anew.
    ///
    /// # Errors
    /// When the installation's log cannot be read.
    pub fn within(mut self, outer: &Path) -> Result<Self> {
        self.outer = real_path(outer);
        self.grounds.set_data(&self.outer);
        self.machine = Log::open_read_only(&self.outer, &TenantId::local())?;
        self.coder = Arc::new(Coder::new(self.host_config(), Some(&self.machine)));
        Ok(self)
    }

    /// Sets how sandboxes that have a network reach it.
    #[must_use]
    pub fn with_network(mut self, network: NetworkSettings) -> Self {
        self.network = network;
        self
    }

    /// The log.
    #[must_use]
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// The sandbox host, started (and swept of what a dead one left) at first use.
    ///
    /// # Errors
    /// `isolation_unavailable` and others of the sandbox.
    pub fn host(&self) -> Result<Arc<SandboxHost>> {
        if let Some(host) = self.host.get() {
            return Ok(Arc::clone(host));
        }
        let host = Arc::new(SandboxHost::start(self.host_config())?);
        examined::tell(&self.machine, &*host)?;
        self.keep_swept();
        self.rotate_aside();
        // A log that takes nothing says so to whatever comes next.
        let _ = self.end_interrupted_questions();
        Ok(Arc::clone(self.host.get_or_init(|| host)))
    }

    /// Has commands confined by something else than the native backend, which goes on running code of plans and
    /// policies.
    #[must_use]
    pub fn with_backend(self, backend: Arc<dyn Backend>) -> Self {
        Self { backend: Some(backend), ..self }
    }

    /// What confines commands.
    pub(crate) fn backend(&self) -> Result<Arc<dyn Backend>> {
        match &self.backend {
            Some(backend) => {
                self.keep_swept();
                Ok(Arc::clone(backend))
            }
            None => Ok(self.host()?),
        }
    }

    /// The plans of this installation's tenant, with what it may use. The policy of the project that
    /// they are shown for decides, as it does in a session.
    ///
    /// # Errors
    /// As [`Kernel::project_policy`]; the policy's load errors.
    pub fn plans(&self, project: &Path, quota: Quota) -> Result<Plans> {
        let policy = self.project_rules(project)?;
        let outside = self.outside.through(&self.network)?;
        let with = (quota, Arc::clone(&self.coder));
        let masker = Arc::new(self.masker(&policy, &[])?);
        Plans::open(&self.log, policy, self.person(), with, (outside, masker))
    }

    /// Probes a plan as [`Coder::probe`] does, until a switch is set.
    ///
    /// # Errors
    /// Those of the sandbox.
    pub fn probe_plan(&self, plan: &Plan, profile: &Profile, until: &Cancel) -> Result<Probed> {
        self.coder.probe(plan, profile, until.sandbox())
    }

    fn host_config(&self) -> HostConfig {
        HostConfig { program: self.program.clone(), home: self.home.clone() }
    }

    /// Folds the main branch of a session.
    ///
    /// # Errors
    /// `session_not_found`, or what reading the log answers.
    pub fn state(&self, session: &SessionId) -> Result<State> {
        self.state_of(&self.main_branch(session)?)
    }

    /// Folds a branch, from a snapshot where there is one: to be looked at. What acts on a branch folds
    /// it from its first event.
    ///
    /// # Errors
    /// What reading the log answers.
    pub fn state_of(&self, branch: &BranchId) -> Result<State> {
        recorder::readable(branch, self.log.project(branch)?)
    }

    /// Folds a branch from its first event: for what acts on it.
    ///
    /// # Errors
    /// What reading the log answers.
    pub fn state_to_act_on(&self, branch: &BranchId) -> Result<State> {
        recorder::fold(&self.log, branch)
    }

    /// Compares the snapshots of every branch with fresh folds, repairs those that differ, and says so in
    /// an event. Answers how many branches were compared and what was found.
    ///
    /// # Errors
    /// What reading the log answers, or a storage error.
    pub fn check_states(&self) -> Result<(u64, Vec<Deviation>)> {
        let (mut compared, mut found) = (0, Vec::new());
        for session in self.log.sessions()? {
            for row in self.log.branches(&session.session)? {
                compared += 1;
                let whole = self.log.check_projection::<State>(&row.branch)?;
                let listed = self.log.check_projection::<Listing>(&row.branch)?;
                found.extend(whole.into_iter().map(|found| ("snapshot of a session", found)));
                found.extend(listed.into_iter().map(|found| ("snapshot of a list", found)));
            }
        }
        let said = found.iter().map(|(what, deviation)| {
            let body = LogRecovered {
                what: (*what).to_owned(),
                branch: Some(deviation.branch.clone()),
                seq: Some(deviation.seq),
                expected: Some(deviation.expected),
                found: Some(deviation.found),
                detail: None,
            };
            Draft::new(Kind::LogRecovered, &body)
        });
        let said: Vec<_> = said.collect();
        if !said.is_empty() {
            let journal = journal::Journal::open(self)?;
            for part in said.chunks(MAX_SAID) {
                journal.append(part.to_vec())?;
            }
            self.log.sign_head()?;
        }
        Ok((compared, found.into_iter().map(|(_, deviation)| deviation).collect()))
    }

    /// Makes again what the kernel made of a branch's inputs, up to `to`, with nothing but the log.
    ///
    /// # Errors
    /// What reading the log answers. That something came out differently is an answer, not an error.
    pub fn replay(
        &self,
        branch: &BranchId,
        to: Option<Seq>,
    ) -> Result<std::result::Result<Replayed, Difference>> {
        let tools = model::tools_told(&Registry::builtin());
        let first = self.log.read(branch, 1, 1)?;
        let created = first.first().and_then(|event| event.body_as::<SessionCreated>().ok());
        let policy = |is_imported| {
            let policy = created.as_ref().map(|created| self.policy_of(created, is_imported));
            Ok::<_, Error>(policy.transpose()?.map(Arc::new))
        };
        let rows = match first.first() {
            Some(event) => self.log.branches(&event.header.session)?,
            None => Vec::new(),
        };
        let imported: BTreeSet<_> =
            rows.iter().filter(|row| row.is_imported).map(|row| &row.branch).collect();
        let (recorded, mut ours) = (policy(false)?, policy(!imported.is_empty())?);
        let mut replay = Replay::new(&tools, recorded);
        for event in self.log.events(branch) {
            let event = event?;
            if !imported.contains(&event.header.branch) {
                replay.decide_by(ours.clone());
            }
            if to.is_some_and(|to| event.seq() > to) {
                break;
            }
            if *event.kind() == Kind::BranchMerged
                && let Some(resolved) = self.merged_again(branch, &event)?
            {
                replay.expect_merge(resolved);
            }
            if let Err(difference) = replay.step(&event) {
                return Ok(Err(difference));
            }
            ours = self.policy_since(&event)?.or(ours);
        }
        Ok(Ok(replay.finish()))
    }

    /// The policy that decides from a resumption on, where it is another than before.
    fn policy_since(&self, event: &Event) -> Result<Option<Arc<Policy>>> {
        if *event.kind() != Kind::SessionResumed {
            return Ok(None);
        }
        let resumed = event.body_as::<SessionResumed>().ok();
        let Some(resumed) = resumed.filter(|resumed| !resumed.policy.is_empty()) else {
            return Ok(None);
        };
        let texts = rules::of_session(self, &resumed.policy)?;
        Ok(Some(Arc::new(self.compile_to_look(&texts)?)))
    }

    /// What a merge must have brought besides files; `None` when a branch cannot be folded any more,
    /// because an event of it was erased.
    fn merged_again(
        &self,
        branch: &BranchId,
        event: &glasshouse_model::Event,
    ) -> Result<Option<std::collections::BTreeMap<String, serde_json::Value>>> {
        let Ok(merged) = event.body_as::<BranchMerged>() else { return Ok(None) };
        let fold = |branch, to| match recorder::fold_to(&self.log, branch, to) {
            Err(error) if error.is(codes::LOG_UNREADABLE) => Ok(None),
            state => state.map(Some),
        };
        let base = fold(branch, merged.base_seq)?;
        let target = fold(branch, event.seq() - 1)?;
        let source = fold(&merged.source, merged.source_seq)?;
        let (Some(base), Some(target), Some(source)) = (base, target, source) else {
            return Ok(None);
        };
        let resolved = join(&base, &target, &source).and_then(|joined| recorded(&joined));
        Ok(resolved.ok())
    }

    /// The main branch of a session.
    ///
    /// # Errors
    /// As [`Kernel::branch`].
    pub fn main_branch(&self, session: &SessionId) -> Result<BranchId> {
        self.branch(session, None).map(|row| row.branch)
    }
}

/// How a turn ended, for the caller.
#[derive(Debug, Clone)]
pub struct TurnReport {
    /// How it ended.
    pub outcome: Outcome,
    /// Details of the end.
    pub end: TurnEnd,
    /// Whether an approval was needed and nobody was there to give it.
    pub no_approver: bool,
    /// Isolation of the last sandboxed call.
    pub isolation: Option<String>,
}

impl TurnReport {
    /// How the last turn of a session ended.
    ///
    /// # Errors
    /// `turn_failed` when none has.
    pub fn of(state: &State) -> Result<Self> {
        let end = state.last_turn.clone().ok_or_else(|| {
            Error::new(codes::TURN_FAILED, "the turn did not end").why("no end is in the log")
        })?;
        Ok(Self {
            outcome: end.outcome,
            end,
            no_approver: state.no_approver,
            isolation: state.isolation.clone(),
        })
    }
}

/// A session that this process owns (it holds the lease).
pub struct Session {
    recorder: Recorder,
    lease: Lease,
    policy: Arc<Policy>,
    provider: Arc<dyn Provider>,
    reviewer: Arc<dyn Reviewer>,
    registry: Arc<Registry>,
    masker: Arc<Masker>,
    workbench: Arc<Mutex<Workbench>>,
    /// What the network of a running command has to say.
    said: mpsc::Receiver<Said>,
    partial: Arc<Mutex<Arrived>>,
    /// Code and message of what the request that is tried now failed with, when it was really sent.
    model_failure: Arc<Mutex<Option<(String, String)>>>,
    /// Until when the answer that is asked for must have come.
    answer_by: Option<(String, std::time::Instant)>,
    /// Whether it is a fork of a session that another log recorded.
    is_imported: bool,
    outside: Outside,
    /// Shared with the network of the sandbox: connections count too.
    rates: Arc<Mutex<rates::Rates>>,
}

/// What a task gives back.
type TaskEnd = Vec<Draft>;

impl Drop for Session {
    /// Ends the sandbox and tells of it: however a session is left, each sandbox that it made has an end in
    /// the log. A process that is killed leaves that to whoever opens or sweeps the branch next.
    fn drop(&mut self) {
        // Nothing refers to the workspace of finished work; what it held is in the log.
        let is_finished = self.state().turn.is_none() && self.state().base_is_stale();
        let told = in_place(|| {
            let mut bench = lock(&self.workbench);
            if is_finished {
                bench.clear();
            }
            bench.end_live(None);
            bench.take_events()
        });
        let last = boxes::last_told(self.state().sandbox.as_ref(), told);
        // Nobody is left to hear of an error. A log that takes nothing, or a branch that is another process's
        // by now, is told of the end when it is opened next.
        if !last.is_empty() && self.recorder.append(last, Vec::new()).is_ok() {
            let _ = self.recorder.log().sign_head();
        }
    }
}

impl Session {
    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        self.recorder.session()
    }

    /// Its branch.
    #[must_use]
    pub fn branch(&self) -> &BranchId {
        self.recorder.branch()
    }

    /// The state after the last event.
    #[must_use]
    pub fn state(&self) -> &State {
        self.recorder.state()
    }
}

/// Does what the turn waits for anyway on its own thread: handing it to another one and back takes
/// longer than a short act. Other tasks of the runtime are moved away where there are threads for them.
pub(crate) fn in_place<T>(act: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(act),
        _ => act(),
    }
}

/// Takes a lock; a thread that panicked while holding it left data that the log will correct.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What a failed act tells the model and the log.
fn failed_call(call: CallId, fault: &Fault) -> Draft {
    let body = failure(call, fault);
    Draft::new(body.status.kind(), &body)
}

/// The same as a body.
fn failure(call: CallId, fault: &Fault) -> CallEnd {
    let report = fault.report();
    let status = match fault.code().exit {
        glasshouse_model::Exit::Denied => CallStatus::Denied,
        _ => CallStatus::Failed,
    };
    let text = if report.why.is_empty() {
        format!("{}. {}", report.what, report.fix)
    } else {
        format!("{}: {}. {}", report.what, report.why, report.fix)
    };
    refusal(call, status, &report.code, text)
}

/// Name of a merge's operation in its log: the sequence of the event that asked for it.
fn operation_id(seq: Seq) -> String {
    format!("merge-{seq}")
}
