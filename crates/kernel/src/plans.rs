//! Plans of a tenant: versions, states and runs, all of them folds over one branch of the log.
//!
//! A version never changes; its text is a blob. Which version is shown is a pointer. A run (show an
//! answer, handle an event, roll back) begins with one transaction, in which it is decided and counted,
//! and ends with one that holds digests of what it led to, so [`Plans::replay`] can make it again from
//! what stood before it and compare bytes.

mod aside;
mod bounds;
mod carry;
mod chosen;
mod code;
mod components;
mod fold;
mod governor;
mod hooks;
mod inspect;
mod modules;
mod pin;
mod plain;
mod prompt;
mod replay;
mod stages;
mod work;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use glasshouse_log::{Append, CellWrite, Log, NewBranch};
use glasshouse_model::body::{
    PlanCode, PlanHistoryCleared, PlanHook, PlanRun, PlanShown, PolicyDecided, RunMode, RunStatus,
};
use glasshouse_model::syscall::name;
use glasshouse_model::{
    BranchId, Call, Constraints, Draft, Effect, Kind, Principal, Seq, SessionId, TenantId,
};
use glasshouse_plan::patch::Patch;
use glasshouse_plan::state::{Action, State};
use glasshouse_plan::{Event, Html, Profile, ProfileName, Report};
use glasshouse_policy::Policy;
use glasshouse_tools::sanitise::Masker;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::driver::{Cancel, Outside, Place, decide_uncounted, now_us};
use crate::{Error, Result, codes};

pub use aside::runs_code;
pub use carry::Carried;
pub(crate) use chosen::Chosen;
pub use code::{Coded, Coder, LANES, LaneCode, Preflight, Probed, told as told_of_code};
pub use fold::{RunRecord, VersionRecord};
pub use glasshouse_plan::quota::{Quota, Usage};
pub use hooks::{HOOK_MS, Hook, Plugin, Plugins, ScriptPlugin};
pub use pin::{PinOptions, PinnedModule, Pinning};
pub(crate) use plain::plainly;
pub use prompt::{Hear, Heard, Made, prompted};
pub use replay::Replayed;
pub use stages::Stages;

use aside::in_turn;
use code::Moment;
use fold::Fold;
use governor::{Governor, Ticket};
pub(crate) use governor::{Runs, SPACE as QUOTAS, expected as expected_quota};
use hooks::Hooks;
use work::{Ask, Failure, Means, Work};

/// Version of what turns a plan into markup; a replay that differs under another one says so.
const RENDERER: &str = env!("CARGO_PKG_VERSION");
/// Cell that names the branch.
pub(crate) const SPACE: &str = "plans";
const BRANCH_KEY: &str = "branch";
/// Name of the branch of the plans.
pub(crate) const BRANCH_NAME: &str = "plans";
/// How often a run is decided anew because another one came first. Each attempt lets one other
/// through, so this many writers at once all get their turn.
const ATTEMPTS: usize = 500;

/// What a decision demands of a run, or why there is none.
type Decided = Result<Constraints, String>;

/// Where the events are.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Home {
    session: SessionId,
    branch: BranchId,
}

impl Home {
    /// The branch of the plans of a log, if anything was ever done with one.
    fn known(log: &Log) -> Result<Option<Self>> {
        let Some(cell) = log.cell(SPACE, BRANCH_KEY)? else { return Ok(None) };
        serde_json::from_slice(&cell.bytes).map(Some).map_err(|e| {
            Error::new(codes::LOG_UNREADABLE, "the place of the plans cannot be read").why(e)
        })
    }

    /// A new branch, and the cell that names it.
    fn new(log: &Log) -> Result<(Self, CellWrite)> {
        let home = Self {
            session: SessionId::from_random(crate::driver::random()?),
            branch: BranchId::from_random(crate::driver::random()?),
        };
        log.create_branch(NewBranch {
            session: home.session.clone(),
            branch: home.branch.clone(),
            name: BRANCH_NAME.to_owned(),
            parent: None,
        })?;
        let ((space, key), bytes) = place_cell(&home.session, &home.branch)?;
        Ok((home, CellWrite { space, key, expected_version: Some(0), bytes: Some(bytes) }))
    }
}

/// Name, and bytes, of the cell that says where the plans are.
pub(crate) fn place_cell(
    session: &SessionId,
    branch: &BranchId,
) -> Result<((String, String), Vec<u8>)> {
    let home = Home { session: session.clone(), branch: branch.clone() };
    let bytes = serde_json::to_vec(&home)
        .map_err(|e| Error::new(codes::LOG_UNREADABLE, "a place cannot be written").why(e))?;
    Ok(((SPACE.to_owned(), BRANCH_KEY.to_owned()), bytes))
}

/// The plans of a tenant.
pub struct Plans {
    log: Log,
    home: Option<Home>,
    policy: Policy,
    user: Principal,
    governor: Governor,
    coder: Arc<Coder>,
    cancel: Cancel,
    outside: Outside,
    masker: Arc<Masker>,
    plugins: Plugins,
    fold: Fold,
}

/// What an event was meant for; another one is shown: `plan_conflict`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expected {
    /// The version that is shown.
    pub version: Option<i64>,
    /// The revision of its state.
    pub revision: Option<u64>,
}

/// What a run led to.
#[derive(Debug)]
pub struct Run {
    /// Sequence by which the run is named.
    pub seq: Seq,
    /// Plan id.
    pub plan: String,
    /// Version that is shown.
    pub version: i64,
    /// The state that is shown.
    pub state: State,
    /// The page.
    pub html: Html,
    /// What an event changes in a view that showed the state before.
    pub patches: Vec<Patch>,
    /// Whether the plan has a transition for the event.
    pub handled: bool,
    /// What was done to the state.
    pub actions: Vec<Action>,
    /// What came over from another version, and what did not.
    pub carried: Carried,
    /// How the plan's code ran, if it has any.
    pub code: Option<PlanCode>,
    /// Where the time went.
    pub stages: Stages,
}

/// Everything that is kept, for a person to look at.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "PlansHistory")]
pub struct History {
    /// Plans in order of their ids.
    pub plans: Vec<PlanHistory>,
    /// The newest runs, the newest first.
    pub runs: Vec<RunRecord>,
    /// What the tenant has used of its quota.
    #[schemars(with = "UsageSchema")]
    pub usage: Usage,
}

/// The schema of [`Usage`], whose crate knows of none.
#[derive(JsonSchema)]
#[schemars(rename = "PlanUsage")]
#[expect(dead_code, reason = "only its schema is used")]
struct UsageSchema {
    /// When the window began, in microseconds.
    window_started_us: u64,
    /// Runs that began in it.
    runs_in_window: u32,
    /// Runs under way, with the time at which each gives its place back by itself.
    running: std::collections::BTreeMap<String, u64>,
}

/// One plan.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PlanHistory {
    /// Its id.
    pub plan: String,
    /// The version that is shown.
    pub current: i64,
    /// Its versions in order.
    pub versions: Vec<VersionRecord>,
    /// How many older ones are left out.
    pub older_versions: usize,
}

impl PlanHistory {
    /// Leaves out all but the newest versions.
    pub fn keep_newest(&mut self, most: usize) {
        let older = self.versions.len().saturating_sub(most);
        self.versions.drain(..older);
        self.older_versions += older;
    }
}

impl Plans {
    pub(crate) fn open(
        log: &Log,
        policy: Policy,
        user: Principal,
        (quota, coder): (Quota, Arc<Coder>),
        (outside, masker): (Outside, Arc<Masker>),
    ) -> Result<Self> {
        let governor = Governor::new(log.clone(), quota);
        let (log, fold) = (log.clone(), Fold::default());
        let (cancel, plugins) = (Cancel::new()?, Plugins::default());
        Ok(Self {
            log,
            home: None,
            policy,
            user,
            governor,
            coder,
            cancel,
            outside,
            masker,
            plugins,
            fold,
        })
    }

    /// Names the switch that stops runs: the process that runs a plan's code is killed, and the run ends
    /// as `cancelled`.
    #[must_use]
    pub fn until(self, cancel: &Cancel) -> Self {
        Self { cancel: cancel.clone(), ..self }
    }

    /// For somebody else than the person at this machine.
    #[must_use]
    pub fn by(self, user: Principal) -> Self {
        Self { user, ..self }
    }

    /// The same with plugins, which see every plan on its way.
    #[must_use]
    pub fn with_plugins(self, plugins: Plugins) -> Self {
        Self { plugins, ..self }
    }

    /// Brings the fold to the head of the log.
    fn sync(&mut self) -> Result<()> {
        if self.home.is_none() {
            self.home = Home::known(&self.log)?;
        }
        let Some(home) = &self.home else { return Ok(()) };
        self.fold.follow(&self.log, &home.branch, Seq::MAX)
    }

    /// The branch of the plans; a new one comes with the cell that names it, which belongs into the
    /// transaction of its first event.
    fn place(&mut self) -> Result<(Home, Option<CellWrite>)> {
        self.sync()?;
        if let Some(home) = &self.home {
            return Ok((home.clone(), None));
        }
        let (home, cell) = Home::new(&self.log)?;
        Ok((home, Some(cell)))
    }

    /// The branch of the plans, if anything was ever done with one.
    fn known(&mut self) -> Result<Option<Home>> {
        self.sync()?;
        Ok(self.home.clone())
    }

    /// Shows a plan and registers it: the same content is the same version, other content under a
    /// version that is taken gets the next one. With `keep_input`, what was entered into the version
    /// shown before goes over where the new one has the same paths.
    ///
    /// # Errors
    /// `plan_throttled` before anything is registered; `plan_refused`, `plan_unreadable`,
    /// `policy_denied`; the log's errors.
    pub fn show(
        &mut self,
        text: &str,
        mode: RunMode,
        keep_input: bool,
        profile: ProfileName,
    ) -> Result<Run> {
        let ask = Ask::Show { text: text.to_owned(), mode, keep_input };
        self.run(&ask, profile)
    }

    /// Handles an event on the version of a plan that is shown. Events are handled one after the
    /// other, whoever sends them.
    ///
    /// # Errors
    /// As [`Plans::show`]; `plan_not_found`; `plan_conflict` when something else is shown than was
    /// expected.
    pub fn event(
        &mut self,
        plan: &str,
        event: Event,
        expected: Expected,
        profile: ProfileName,
    ) -> Result<Run> {
        let ask = Ask::Event { plan: plan.to_owned(), event, expected };
        self.run(&ask, profile)
    }

    /// The branch with the runs, once there were any.
    #[must_use]
    pub fn branch(&self) -> Option<&BranchId> {
        self.home.as_ref().map(|home| &home.branch)
    }

    /// The profile under which a plan was last shown; `None` when it never was.
    ///
    /// # Errors
    /// The log's errors.
    pub fn profile_of(&mut self, plan: &str) -> Result<Option<ProfileName>> {
        self.sync()?;
        Ok(self.fold.profile_of(plan))
    }

    /// Shows an earlier version again: the pointer moves, nothing is registered. The version has the
    /// state it had, and what was entered since goes over where it has the same paths.
    ///
    /// # Errors
    /// As [`Plans::event`].
    pub fn rollback(&mut self, plan: &str, version: i64, profile: ProfileName) -> Result<Run> {
        self.run(&Ask::Rollback { plan: plan.to_owned(), version }, profile)
    }

    fn run(&mut self, ask: &Ask, asked: ProfileName) -> Result<Run> {
        let begun = Instant::now();
        let mut stages = Stages::default();
        let (home, ticket, decided) = stages.of("decide", || self.begin(ask, asked, begun))?;
        // Texts and states are stored before the event that names them.
        let _naming = self.log.naming()?;
        let unconstrained = Constraints::default();
        let chosen = Chosen::new(asked, decided.as_ref().unwrap_or(&unconstrained))?;
        let moment = Moment::at(now_us());
        let mark = self.plugins.mark();
        let mut worked: Option<(Seq, Worked)> = None;
        for _ in 0..ATTEMPTS {
            stages.of("history", || self.sync())?;
            let (seen, done) = match worked.take() {
                // Who came first did nothing that this run looked at, so its code need not run again.
                Some((seen, done)) if !self.fold.has_changed(plan_of(ask, &done), seen) => {
                    (seen, done)
                }
                _ => {
                    self.plugins.back_to(mark);
                    let done = match &decided {
                        Ok(_) => self.work(ask, moment, &chosen.profile, &mut stages),
                        Err(why) => Err(Failure::new(denied(why))),
                    };
                    (self.fold.head(), done)
                }
            };
            let release = self.governor.release(&ticket)?;
            match stages.of("record", || self.record(&home, ask, &chosen, &done, release, begun)) {
                Err(error) if is_race(&error) => worked = Some((seen, done)),
                recorded => {
                    self.coder.refill();
                    return Run::of(recorded?, done, stages);
                }
            }
        }
        // What holds the place of this run expires by itself.
        Err(Error::new(codes::PLAN_CONFLICT, "the run did not get its turn")
            .why(format!("others came first {ATTEMPTS} times")))
    }

    fn work(&self, ask: &Ask, moment: Moment, profile: &Profile, stages: &mut Stages) -> Worked {
        let means = Means {
            coder: &self.coder,
            cancel: &self.cancel,
            moment,
            profile,
            masker: &self.masker,
            hooks: Hooks::Live(&self.plugins),
            patience: 1,
            ran: RefCell::default(),
        };
        work::work(&self.fold, &self.log, ask, &means, stages)
    }

    /// Takes the right to one run and records the policy's decision in one transaction. Answers what
    /// the decision demands, or its reasons when it does not allow the run.
    fn begin(
        &mut self,
        ask: &Ask,
        asked: ProfileName,
        begun: Instant,
    ) -> Result<(Home, Ticket, Decided)> {
        let log = self.log.clone();
        in_turn(&log, || {
            let (home, cell) = self.place()?;
            let (event, decided, reserved) = match self.governor.reserve(now_us())? {
                Ok((ticket, write)) => {
                    let (event, decided) = self.decide(Some(&home), ask.plan());
                    (event, decided, Ok((ticket, write)))
                }
                Err(throttled) => {
                    let unconstrained = Constraints::default();
                    let mut body = self.body(ask, &Chosen::new(asked, &unconstrained)?, &[]);
                    body.end(RunStatus::Throttled, Some(codes::PLAN_THROTTLED.name), begun);
                    (body.draft(Kind::QuotaThrottled), Ok(unconstrained), Err(throttled))
                }
            };
            let made = cell.is_some().then(|| home.branch.clone());
            let mut cells: Vec<CellWrite> = cell.into_iter().collect();
            cells.extend(reserved.as_ref().ok().map(|(_, write)| write.clone()));
            let append = Append {
                cells,
                ..Append::new(home.session.clone(), home.branch.clone(), vec![event])
            };
            let appended = self.log.append(append).map_err(Error::from);
            let begun = appended.and_then(|_| Ok((home, reserved?.0, decided)));
            Ok((made, begun))
        })
    }

    /// Asks the policy whether a plan may be shown, and how.
    fn decide(&self, home: Option<&Home>, plan: Option<&str>) -> (Draft, Decided) {
        let mut call = Call::new(name::UI_RENDER, self.user.clone());
        call.session = home.map(|home| home.session.clone());
        let decision = decide_uncounted(&self.policy, &call, Place::Kernel);
        let decided = match decision.effect {
            Effect::Allow => Ok(decision.constraints.clone()),
            Effect::Deny | Effect::RequireReview => Err(decision.why()),
        };
        let body = PolicyDecided::new(None, call, plan.map(str::to_owned), decision);
        (Draft::new(Kind::PolicyDecided, &body), decided)
    }

    /// Appends what a run led to; answers its name.
    fn record(
        &mut self,
        home: &Home,
        ask: &Ask,
        chosen: &Chosen,
        done: &Worked,
        release: CellWrite,
        begun: Instant,
    ) -> Result<Seq> {
        let drafts = match done {
            Ok(work) => {
                let mut body = self.body(ask, chosen, &work.blobs);
                body.led_to(work);
                body.called(self.plugins.called(&self.log)?);
                body.end(RunStatus::Succeeded, None, begun);
                let mut drafts = work.drafts.clone();
                drafts.push(body.draft(Kind::PlanRendered));
                drafts
            }
            Err(Failure { error, report, given, code }) => {
                let mut body = self.body(ask, chosen, given.as_slice());
                let rejected = report.is_some()
                    || error.is(codes::POLICY_DENIED)
                    || error.is(codes::PLAN_REFUSED)
                    || error.is(codes::PLAN_HOOK_FAILED);
                let status = if rejected { RunStatus::Rejected } else { RunStatus::Failed };
                body.called(self.plugins.called(&self.log)?);
                body.ran(code.as_deref().cloned());
                body.0.issues =
                    report.as_ref().and_then(|report| serde_json::to_value(report).ok());
                body.end(status, Some(error.code()), begun);
                vec![body.draft(Kind::PlanRefused)]
            }
        };
        let seq = self.append(home, drafts, vec![release])?;
        self.plugins.back_to(0);
        Ok(seq)
    }

    /// Appends at the head that the fold has seen, and follows.
    fn append(&mut self, home: &Home, events: Vec<Draft>, cells: Vec<CellWrite>) -> Result<Seq> {
        let append = Append {
            expected_head: Some(self.fold.head()),
            cells,
            ..Append::new(home.session.clone(), home.branch.clone(), events)
        };
        let appended = self.log.append(append)?;
        for event in &appended.events {
            self.fold.apply(event)?;
        }
        Ok(appended.head.seq)
    }

    fn body(&self, ask: &Ask, chosen: &Chosen, given: &[glasshouse_model::body::BlobRef]) -> Body {
        Body(PlanShown {
            call: None,
            plan: ask.plan().map(str::to_owned),
            profile: chosen.name.to_string(),
            html: None,
            issues: None,
            run: Some(PlanRun {
                mode: ask.mode(),
                status: RunStatus::Failed,
                first: self.fold.head() + 1,
                version: ask.version(),
                given: given.first().cloned(),
                keep_input: ask.keeps_input(),
                event: ask.event(),
                of: None,
                profile_digest: Some(chosen.digest()),
                constraints: chosen.constraints.clone(),
                renderer: RENDERER.to_owned(),
                text: None,
                state: None,
                markup: None,
                script: None,
                hooks: Vec::new(),
                code: None,
                duration_us: 0,
            }),
        })
    }

    /// Appends one event that depends on nothing before it.
    fn append_again(&mut self, home: &Home, draft: &Draft) -> Result<Seq> {
        let log = self.log.clone();
        in_turn(&log, || {
            self.sync()?;
            Ok((None, self.append(home, vec![draft.clone()], Vec::new())))
        })
    }

    /// The state of the version of a plan that is shown.
    ///
    /// # Errors
    /// `plan_not_found`; the log's errors.
    pub fn state(&mut self, plan: &str) -> Result<State> {
        self.sync()?;
        self.fold.current(plan)?.state(&self.log)
    }

    /// Plans with their versions, and the newest `runs` runs.
    ///
    /// # Errors
    /// The log's errors.
    pub fn history(&mut self, runs: usize) -> Result<History> {
        self.sync()?;
        Ok(History {
            plans: self.fold.plans(),
            runs: self.fold.runs(runs),
            usage: self.governor.usage(now_us())?,
        })
    }

    /// Shows plans, states and runs no more; the log keeps them, and quotas go on.
    ///
    /// # Errors
    /// The log's errors.
    pub fn clear_history(&mut self) -> Result<PlanHistoryCleared> {
        let home = self.known()?;
        let (plans, runs) = self.fold.counts();
        let body = PlanHistoryCleared { plans, runs };
        let Some(home) = home else { return Ok(body) };
        self.append_again(
            &home,
            &Draft::new(Kind::PlanHistoryCleared, &body).by(self.user.actor()),
        )?;
        Ok(body)
    }
}

/// What the work of a run came to.
type Worked = std::result::Result<Work, Failure>;

/// The plan that a run looked at; `None` where that is not known.
fn plan_of<'a>(ask: &'a Ask, done: &'a Worked) -> Option<&'a str> {
    ask.plan().or_else(|| done.as_ref().ok().map(|work| work.plan.as_str()))
}

impl Run {
    fn of(seq: Seq, done: Worked, stages: Stages) -> Result<Self> {
        let work = done.map_err(|failure| failure.error)?;
        Ok(Self {
            seq,
            plan: work.plan,
            version: work.state.plan_version,
            state: work.state,
            html: work.html,
            patches: work.patches,
            handled: work.handled,
            actions: work.actions,
            carried: work.carried,
            code: work.code,
            stages,
        })
    }
}

/// Whether an append lost against another writer.
fn is_race(error: &Error) -> bool {
    error.is(glasshouse_log::codes::HEAD_CONFLICT) || error.is(glasshouse_log::codes::CELL_CONFLICT)
}

fn denied(why: &str) -> Error {
    Error::new(codes::POLICY_DENIED, "the plan may not be shown").why(why)
}

/// The record of a run while it is made.
struct Body(PlanShown);

impl Body {
    fn end(&mut self, status: RunStatus, code: Option<&str>, begun: Instant) {
        if let Some(run) = &mut self.0.run {
            run.status = status;
            run.code = code.map(str::to_owned);
            run.duration_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        }
    }

    fn led_to(&mut self, work: &Work) {
        self.0.plan = Some(work.plan.clone());
        if let Some(run) = &mut self.0.run {
            run.version = Some(work.state.plan_version);
            run.text = Some(work.text);
            run.state = Some(work.state_digest());
            run.markup = Some(work.markup_digest());
            run.script = work.code.clone();
        }
    }

    fn ran(&mut self, code: Option<PlanCode>) {
        if let Some(run) = &mut self.0.run {
            run.script = code;
        }
    }

    fn called(&mut self, hooks: Vec<PlanHook>) {
        if let Some(run) = &mut self.0.run {
            run.hooks = hooks;
        }
    }

    fn draft(&self, kind: Kind) -> Draft {
        Draft::new(kind, &self.0)
    }
}

/// The report of a refused plan in an error.
fn refused(report: &Report) -> Error {
    let first = report.issues.first();
    Error::new(codes::PLAN_REFUSED, "the plan is not shown")
        .why(first.map(|issue| format!("{}: {}", issue.pointer, issue.message)).unwrap_or_default())
        .with("issue_count", report.issue_count)
        .with("issues", serde_json::to_value(&report.issues).unwrap_or_default())
}

/// What the plan crate, which knows no other, answers, in the shape of the kernel.
fn of_plan(error: &glasshouse_plan::Error) -> Error {
    let code = match error.exit_status() {
        2 => codes::PLAN_UNREADABLE,
        8 => codes::PLAN_CONFLICT,
        _ => codes::PLAN_REFUSED,
    };
    let report = error.report();
    let mut told = Error::new(code, report.what).why(report.why).fix(report.fix);
    told = told.with("code", report.code);
    for (key, value) in report.context {
        told = told.with(&key, value);
    }
    told
}

/// The tenant whose log this is.
fn tenant(log: &Log) -> &TenantId {
    log.tenant()
}
