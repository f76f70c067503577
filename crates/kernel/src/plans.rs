//! Plans of a tenant: versions, states and runs, all of them folds over one branch of the log.
//!
//! A version never changes; its text is a blob. Which version is shown is a pointer. A run (show an
//! answer, handle an event, roll back) begins with one transaction, in which it is decided and counted,
//! and ends with one that holds digests of what it led to, so [`Plans::replay`] can make it again from
//! what stood before it and compare bytes.

mod carry;
mod chosen;
mod code;
mod fold;
mod governor;
mod hooks;
mod modules;
mod pin;
mod plain;
mod prompt;
mod stages;
mod work;

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
use glasshouse_plan::{Event, Html, ProfileName, Report};
use glasshouse_policy::Policy;
use serde::{Deserialize, Serialize};

use crate::driver::{Cancel, Outside, decide_uncounted, now_us};
use crate::{Error, Result, codes};

pub use carry::Carried;
pub(crate) use chosen::Chosen;
pub use code::{Coded, Coder, LANES, Preflight, told as told_of_code};
pub use fold::{RunRecord, VersionRecord};
pub use glasshouse_plan::quota::{Quota, Usage};
pub use hooks::{HOOK_MS, Hook, Plugin, Plugins, ScriptPlugin};
pub use pin::{PinOptions, PinnedModule, Pinning};
pub use prompt::{Hear, Heard, Made, prompted};
pub use stages::Stages;

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

/// What a replay found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// The run of the replay itself.
    pub run: Seq,
    /// The run that was made again.
    pub of: Seq,
    /// Whether everything is as it was.
    pub equal: bool,
    /// What differs: `status`, `version`, `text`, `state`, `markup`, `profile`.
    pub differences: Vec<&'static str>,
    /// Whether the renderer is another version than the one of the run.
    pub renderer_changed: bool,
}

/// Everything that is kept, for a person to look at.
#[derive(Debug, Clone, Serialize)]
pub struct History {
    /// Plans in order of their ids.
    pub plans: Vec<PlanHistory>,
    /// The newest runs, the newest first.
    pub runs: Vec<RunRecord>,
    /// What the tenant has used of its quota.
    pub usage: Usage,
}

/// One plan.
#[derive(Debug, Clone, Serialize)]
pub struct PlanHistory {
    /// Its id.
    pub plan: String,
    /// The version that is shown.
    pub current: i64,
    /// Its versions in order.
    pub versions: Vec<VersionRecord>,
}

impl Plans {
    pub(crate) fn open(
        log: &Log,
        policy: Policy,
        user: Principal,
        (quota, coder): (Quota, Arc<Coder>),
        outside: Outside,
    ) -> Result<Self> {
        let governor = Governor::new(log.clone(), quota);
        let (log, fold) = (log.clone(), Fold::default());
        let (cancel, plugins) = (Cancel::new()?, Plugins::default());
        Ok(Self { log, home: None, policy, user, governor, coder, cancel, outside, plugins, fold })
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
            let Some(cell) = self.log.cell(SPACE, BRANCH_KEY)? else { return Ok(()) };
            let home = serde_json::from_slice(&cell.bytes).map_err(|e| {
                Error::new(codes::LOG_UNREADABLE, "the place of the plans cannot be read").why(e)
            })?;
            self.home = Some(home);
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
        let home = Home {
            session: SessionId::from_random(crate::driver::random()?),
            branch: BranchId::from_random(crate::driver::random()?),
        };
        self.log.create_branch(NewBranch {
            session: home.session.clone(),
            branch: home.branch.clone(),
            name: BRANCH_NAME.to_owned(),
            parent: None,
        })?;
        let ((space, key), bytes) = place_cell(&home.session, &home.branch)?;
        let cell = CellWrite { space, key, expected_version: Some(0), bytes: Some(bytes) };
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
        let unconstrained = Constraints::default();
        let chosen = Chosen::new(asked, decided.as_ref().unwrap_or(&unconstrained))?;
        let moment = Moment::at(now_us());
        let mark = self.plugins.mark();
        for _ in 0..ATTEMPTS {
            self.plugins.back_to(mark);
            stages.of("history", || self.sync())?;
            let done = match &decided {
                Ok(_) => {
                    let means = Means {
                        coder: &self.coder,
                        cancel: &self.cancel,
                        moment,
                        profile: &chosen.profile,
                        hooks: Hooks::Live(&self.plugins),
                    };
                    work::work(&self.fold, &self.log, ask, &means, &mut stages)
                }
                Err(why) => Err(Failure::new(denied(why))),
            };
            let release = self.governor.release(&ticket)?;
            match stages.of("record", || self.record(&home, ask, &chosen, done, release, begun)) {
                Err(error) if is_race(&error) => {}
                result => {
                    self.coder.refill();
                    return result.map(|run| Run { stages, ..run });
                }
            }
        }
        // What holds the place of this run expires by itself.
        Err(Error::new(codes::PLAN_CONFLICT, "the run did not get its turn")
            .why(format!("others came first {ATTEMPTS} times")))
    }

    /// Takes the right to one run and records the policy's decision in one transaction. Answers what
    /// the decision demands, or its reasons when it does not allow the run.
    fn begin(
        &mut self,
        ask: &Ask,
        asked: ProfileName,
        begun: Instant,
    ) -> Result<(Home, Ticket, Decided)> {
        for _ in 0..ATTEMPTS {
            let (home, cell) = self.place()?;
            let (event, decided, reserved) = match self.governor.reserve(now_us())? {
                Ok((ticket, write)) => {
                    let (event, decided) = self.decide(&home, ask);
                    (event, decided, Ok((ticket, write)))
                }
                Err(throttled) => {
                    let unconstrained = Constraints::default();
                    let mut body = self.body(ask, &Chosen::new(asked, &unconstrained)?, &[]);
                    body.end(RunStatus::Throttled, Some(codes::PLAN_THROTTLED.name), begun);
                    (body.draft(Kind::QuotaThrottled), Ok(unconstrained), Err(throttled))
                }
            };
            let mut cells: Vec<CellWrite> = cell.into_iter().collect();
            let is_new = !cells.is_empty();
            cells.extend(reserved.as_ref().ok().map(|(_, write)| write.clone()));
            let append = Append {
                cells,
                ..Append::new(home.session.clone(), home.branch.clone(), vec![event])
            };
            match self.log.append(append) {
                Ok(_) => return reserved.map(|(ticket, _)| (home, ticket, decided)),
                Err(error) if error.is(glasshouse_log::codes::CELL_CONFLICT) => {
                    if is_new {
                        // Somebody else was first; their branch is the one.
                        self.log.close_branch(&home.branch)?;
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::new(codes::PLAN_CONFLICT, "the run did not get its turn"))
    }

    /// Asks the policy whether a plan may be shown, and how.
    fn decide(&self, home: &Home, ask: &Ask) -> (Draft, Decided) {
        let mut call = Call::new(name::UI_RENDER, self.user.clone());
        call.session = Some(home.session.clone());
        let decision = decide_uncounted(&self.policy, &call);
        let decided = match decision.effect {
            Effect::Allow => Ok(decision.constraints.clone()),
            Effect::Deny | Effect::RequireReview => Err(decision.reasons.join("; ")),
        };
        let body = PolicyDecided::new(None, call, ask.plan().map(str::to_owned), decision);
        (Draft::new(Kind::PolicyDecided, &body), decided)
    }

    fn record(
        &mut self,
        home: &Home,
        ask: &Ask,
        chosen: &Chosen,
        done: Result<Work, Failure>,
        release: CellWrite,
        begun: Instant,
    ) -> Result<Run> {
        match done {
            Ok(work) => {
                let mut body = self.body(ask, chosen, &work.blobs);
                body.led_to(&work);
                body.called(self.plugins.take(&self.log)?);
                body.end(RunStatus::Succeeded, None, begun);
                let mut drafts = work.drafts;
                drafts.push(body.draft(Kind::PlanRendered));
                let seq = self.append(home, drafts, vec![release])?;
                Ok(Run {
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
                    stages: Stages::default(),
                })
            }
            Err(Failure { error, report, given }) => {
                let mut body = self.body(ask, chosen, given.as_slice());
                let rejected = report.is_some()
                    || error.is(codes::POLICY_DENIED)
                    || error.is(codes::PLAN_REFUSED)
                    || error.is(codes::PLAN_HOOK_FAILED);
                let status = if rejected { RunStatus::Rejected } else { RunStatus::Failed };
                body.called(self.plugins.take(&self.log)?);
                body.0.issues = report.and_then(|report| serde_json::to_value(report).ok());
                body.end(status, Some(error.code()), begun);
                let refused = body.draft(Kind::PlanRefused);
                self.append(home, vec![refused], vec![release])?;
                Err(error)
            }
        }
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

    /// Makes a run again from what stood before it, and compares. Nothing is registered and no state
    /// changes; that it was done is recorded.
    ///
    /// # Errors
    /// `plan_run_not_found`; `plan_run_not_replayable` for one that never began; the log's errors.
    pub fn replay(&mut self, run: Seq) -> Result<Replayed> {
        let begun = Instant::now();
        let home = self.known()?.ok_or_else(|| fold::no_run(run))?;
        let shown = fold::run_at(&self.log, &home.branch, run)?;
        let (Some(was), Ok(name)) = (&shown.run, shown.profile.parse::<ProfileName>()) else {
            return Err(fold::no_run(run));
        };
        let ask = Ask::of(&self.log, &shown, was)?;
        let mut before = Fold::default();
        before.follow(&self.log, &home.branch, was.first - 1)?;
        let chosen = Chosen::new(name, &was.constraints)?;
        let mut differences = Vec::new();
        let moment = was.script.as_ref().map_or(Moment::at(0), Moment::of);
        let means = Means {
            coder: &self.coder,
            cancel: &self.cancel,
            moment,
            profile: &chosen.profile,
            hooks: Hooks::recorded(&self.log, &was.hooks),
        };
        let again = work::work(&before, &self.log, &ask, &means, &mut Stages::default());
        let succeeded = was.status == RunStatus::Succeeded;
        if again.is_ok() != succeeded && was.code.as_deref() != Some(codes::POLICY_DENIED.name) {
            differences.push("status");
        }
        if was.profile_digest != Some(chosen.digest()) {
            differences.push("profile");
        }
        if let Ok(work) = &again
            && succeeded
        {
            for (name, differs) in [
                ("version", was.version != Some(work.state.plan_version)),
                ("text", was.text != Some(work.text)),
                ("state", was.state != Some(work.state_digest())),
                ("markup", was.markup != Some(work.markup_digest())),
            ] {
                if differs {
                    differences.push(name);
                }
            }
        }
        let mut body = Body(shown.clone());
        if let Some(run_body) = &mut body.0.run {
            *run_body = PlanRun {
                mode: RunMode::Replay,
                first: self.fold.head() + 1,
                of: Some(run),
                renderer: RENDERER.to_owned(),
                ..run_body.clone()
            };
        }
        let status = if differences.is_empty() { RunStatus::Succeeded } else { RunStatus::Failed };
        body.end(status, None, begun);
        let seq = self.append_again(&home, &body.draft(Kind::PlanRendered))?;
        Ok(Replayed {
            run: seq,
            of: run,
            equal: differences.is_empty(),
            differences,
            renderer_changed: was.renderer != RENDERER,
        })
    }

    /// Fetches every module that a plan leads to and writes their digests into it. The connections are
    /// decided and recorded; the plan is not registered and nothing of it is run.
    ///
    /// # Errors
    /// `plan_unreadable`, `plan_refused` for a plan that the profile does not accept in what modules do not
    /// change; those of the modules, such as `script_module_unavailable`; the log's errors.
    pub fn pin(
        &mut self,
        text: &str,
        profile: ProfileName,
        options: &PinOptions,
    ) -> Result<Pinning> {
        let profile = glasshouse_plan::Profile::named(profile);
        let plan = glasshouse_plan::parse(text, &profile.limits()).map_err(|e| of_plan(&e))?;
        let (place, cell) = self.place()?;
        let pinner = pin::Pinner {
            coder: &self.coder,
            policy: &self.policy,
            user: &self.user,
            outside: &self.outside,
            profile: &profile,
            options,
        };
        let (events, pinned) = pinner.pin(&plan);
        if !events.is_empty() {
            let append = Append {
                cells: cell.into_iter().collect(),
                ..Append::new(place.session, place.branch, events)
            };
            self.log.append(append)?;
        }
        pinned
    }

    /// Appends one event that depends on nothing before it.
    fn append_again(&mut self, home: &Home, draft: &Draft) -> Result<Seq> {
        for _ in 0..ATTEMPTS {
            self.sync()?;
            match self.append(home, vec![draft.clone()], Vec::new()) {
                Err(error) if is_race(&error) => {}
                result => return result,
            }
        }
        Err(Error::new(codes::PLAN_CONFLICT, "the record did not get its turn"))
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
        self.append_again(&home, &Draft::new(Kind::PlanHistoryCleared, &body))?;
        Ok(body)
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
