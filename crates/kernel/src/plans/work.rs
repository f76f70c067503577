//! The work of one run: a function of what is known before it and of what is asked. It appends
//! nothing, so a replay does exactly the same.

use std::cell::RefCell;

use glasshouse_log::Log;
use glasshouse_model::body::{
    BlobRef, PlanCode, PlanEvent, PlanRegistered, PlanRolledBack, PlanRun, PlanShown,
    PlanStateChanged, RunMode, RunStatus,
};
use glasshouse_model::{Digest, Draft, Exit, Kind};
use glasshouse_plan::patch::{Live, Patch};
use glasshouse_plan::state::{Action, Host, State, StateLimits, apply};
use glasshouse_plan::{
    Context, Event, Html, Limits, Plan, Profile, Report, check_to_run, parse, render,
};
use glasshouse_tools::sanitise::Masker;
use serde_json::{Map, Value, json};

use super::carry::{Carried, carry};
use super::code::{Coded, Coder, LANES, Moment};
use super::fold::{Fold, Version};
use super::hooks::{Hook, Hooks};
use super::stages::Stages;
use super::{Expected, of_plan, refused};
use crate::driver::Cancel;
use crate::{Error, Result, codes};

/// Name of the surface that ids are prefixed with.
const SURFACE: &str = "plan";
/// States up to this many bytes are in the event itself; larger ones are blobs.
const MAX_STATE_IN_EVENT_BYTES: usize = 64 << 10;

/// What is asked.
pub(super) enum Ask {
    Show { text: String, mode: RunMode, keep_input: bool },
    Event { plan: String, event: Event, expected: Expected },
    Rollback { plan: String, version: i64 },
}

impl Ask {
    /// What a run asked, from its record.
    pub(super) fn of(log: &Log, shown: &PlanShown, run: &PlanRun) -> Result<Self> {
        let not_replayable = |why: &str| {
            Error::new(codes::PLAN_RUN_NOT_REPLAYABLE, "the run cannot be made again").why(why)
        };
        if run.status == RunStatus::Throttled {
            return Err(not_replayable("it never began"));
        }
        if run.code.as_deref() == Some(codes::PLAN_CONFLICT.name) {
            return Err(not_replayable("it was meant for another version or revision"));
        }
        if run.code.as_deref() == Some(codes::CANCELLED.name) {
            return Err(not_replayable("it was stopped before it led to anything"));
        }
        let plan = || shown.plan.clone().ok_or_else(|| not_replayable("it names no plan"));
        match run.mode {
            RunMode::Prompt | RunMode::Plan => {
                let given = run.given.as_ref();
                let given = given.ok_or_else(|| not_replayable("its text is not kept"))?;
                let text = String::from_utf8_lossy(&log.blob(&given.blob)?).into_owned();
                Ok(Self::Show { text, mode: run.mode, keep_input: run.keep_input })
            }
            RunMode::Event => {
                let event = run.event.clone().ok_or_else(|| not_replayable("it has no event"))?;
                let event = serde_json::from_value(event)
                    .map_err(|e| not_replayable(&format!("its event cannot be read: {e}")))?;
                Ok(Self::Event { plan: plan()?, event, expected: Expected::default() })
            }
            RunMode::Rollback => {
                let version = run.version.ok_or_else(|| not_replayable("it names no version"))?;
                Ok(Self::Rollback { plan: plan()?, version })
            }
            RunMode::Replay => {
                Err(not_replayable("it is a replay itself; replay the run it names"))
            }
        }
    }

    pub(super) fn plan(&self) -> Option<&str> {
        match self {
            Self::Show { .. } => None,
            Self::Event { plan, .. } | Self::Rollback { plan, .. } => Some(plan),
        }
    }

    pub(super) const fn mode(&self) -> RunMode {
        match self {
            Self::Show { mode, .. } => *mode,
            Self::Event { .. } => RunMode::Event,
            Self::Rollback { .. } => RunMode::Rollback,
        }
    }

    pub(super) const fn version(&self) -> Option<i64> {
        match self {
            Self::Rollback { version, .. } => Some(*version),
            _ => None,
        }
    }

    pub(super) const fn keeps_input(&self) -> bool {
        matches!(self, Self::Show { keep_input: true, .. })
    }

    pub(super) fn event(&self) -> Option<Value> {
        match self {
            Self::Event { event, .. } => serde_json::to_value(event).ok(),
            _ => None,
        }
    }
}

/// What a run is done with.
pub(super) struct Means<'a> {
    pub(super) coder: &'a Coder,
    pub(super) cancel: &'a Cancel,
    pub(super) moment: Moment,
    pub(super) profile: &'a Profile,
    /// Hides secrets in what is recorded of code.
    pub(super) masker: &'a Masker,
    pub(super) hooks: Hooks<'a>,
    /// How many times its time code gets: a replay on a slower machine must not end where the run did not.
    pub(super) patience: u64,
    /// How code ran, as soon as it has.
    pub(super) ran: RefCell<Option<PlanCode>>,
}

/// What a run leads to.
pub(super) struct Work {
    pub(super) plan: String,
    /// Digest of the stored text.
    pub(super) text: Digest,
    pub(super) state: State,
    pub(super) html: Html,
    pub(super) patches: Vec<Patch>,
    pub(super) handled: bool,
    pub(super) actions: Vec<Action>,
    pub(super) carried: Carried,
    /// How the plan's code ran.
    pub(super) code: Option<PlanCode>,
    pub(super) drafts: Vec<Draft>,
    /// The text as it was given.
    pub(super) blobs: Vec<BlobRef>,
}

impl Work {
    pub(super) fn state_digest(&self) -> Digest {
        Digest::of(&serde_json::to_vec(&self.state).unwrap_or_default())
    }

    pub(super) fn markup_digest(&self) -> Digest {
        Digest::of(self.html.markup.as_bytes())
    }
}

/// Why a run led to nothing.
pub(super) struct Failure {
    pub(super) error: Error,
    pub(super) report: Option<Box<Report>>,
    pub(super) given: Option<BlobRef>,
    /// How the plan's code ran, when it failed only later.
    pub(super) code: Option<Box<PlanCode>>,
}

impl Failure {
    pub(super) fn new(error: Error) -> Self {
        Self { error, report: None, given: None, code: None }
    }

    /// A plan that may not be shown.
    fn unsafe_plan(report: Report, given: Option<BlobRef>) -> Self {
        let error = refused(&report);
        Self { report: Some(Box::new(report)), given, ..Self::new(error) }
    }
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error.into())
    }
}

/// The events of a run and the version they lead to, before anything is rendered.
struct Step {
    plan: Plan,
    text: Digest,
    state: State,
    before: Option<State>,
    handled: bool,
    actions: Vec<Action>,
    carried: Carried,
    drafts: Vec<Draft>,
    blobs: Vec<BlobRef>,
}

/// Does what is asked.
pub(super) fn work(
    fold: &Fold,
    log: &Log,
    ask: &Ask,
    means: &Means<'_>,
    stages: &mut Stages,
) -> Result<Work, Failure> {
    // The time and the chance that code saw belong to a run that failed later as well.
    led_to(fold, log, ask, means, stages)
        .map_err(|failure| Failure { code: means.ran.take().map(Box::new), ..failure })
}

fn led_to(
    fold: &Fold,
    log: &Log,
    ask: &Ask,
    means: &Means<'_>,
    stages: &mut Stages,
) -> Result<Work, Failure> {
    let profile = means.profile;
    let step = match ask {
        Ask::Show { text, keep_input, .. } => show(fold, log, (text, *keep_input), means, stages)?,
        Ask::Event { plan, event, expected } => {
            stages.of("step", || happen(fold, log, (plan, event, *expected), profile))?
        }
        Ask::Rollback { plan, version } => {
            stages.of("step", || roll_back(fold, log, (plan, *version), profile))?
        }
    };
    let first = || step.blobs.first().cloned();
    let failed = |error: Error| Failure { given: first(), ..error.into() };
    let event = match ask {
        Ask::Event { event, .. } => Some(event),
        _ => None,
    };
    let runnable = means.before_run(&step, event, stages)?;
    let running = runnable.as_ref().unwrap_or(&step.plan);
    let told = |error: glasshouse_plan::Error| failed(of_plan(&error));
    let run = || means.coder.run(running, (&step.state, event), means);
    let may_run = running.source().is_some() || running.manifest().is_some();
    let ran = if may_run { stages.of("code", run) } else { run() };
    let (coded, code) = match ran.map_err(failed)? {
        Some(Coded { plan, record }) => (Some(plan), record),
        None => (None, None),
    };
    let coded = means.after_run(coded.as_ref().unwrap_or(running)).map_err(failed)?.or(coded);
    let plan = coded.as_ref().unwrap_or(running);
    let surface = Context::new(SURFACE).map_err(told)?;
    let context = match event {
        Some(event) => surface.clone().event(event),
        None => surface.clone(),
    };
    let shown = context.clone().state(&step.state);
    let html = stages.of("render", || render(plan, profile, &shown)).map_err(told)?;
    means.seen(Hook::AfterRender, || Value::from(html.markup.as_str())).map_err(failed)?;
    let mut patches = Vec::new();
    // What code makes of a state is no change of one tree; a view takes the whole markup.
    if let Some(before) = step.before.as_ref().filter(|_| code.is_none()) {
        let old = surface.state(before);
        let changes = || -> Result<Vec<Patch>, glasshouse_plan::Error> {
            let mut live = Live::new(plan.clone(), profile, &old)?;
            let new = context.state(&step.state);
            let patches = live.update(&new)?;
            // Which event led to what is shown is not known here.
            if live.reads_event() { live.anew(&new) } else { Ok(patches) }
        };
        patches = stages.of("patch", changes).map_err(told)?;
    }
    Ok(Work {
        plan: step.plan.id().to_owned(),
        text: step.text,
        state: step.state,
        html,
        patches,
        handled: step.handled,
        actions: step.actions,
        carried: step.carried,
        code,
        drafts: step.drafts,
        blobs: step.blobs,
    })
}

impl Means<'_> {
    /// Checks the plan of a step, and what hooks make of it. Answers another plan to run, if they made one.
    fn before_run(
        &self,
        step: &Step,
        event: Option<&Event>,
        stages: &mut Stages,
    ) -> Result<Option<Plan>, Failure> {
        let given = || step.blobs.first().cloned();
        let failed = |error: Error| Failure { given: given(), ..error.into() };
        let mut checked = |plan: &Plan| {
            let report = stages.of("check", || check_to_run(plan, self.profile, LANES));
            if report.safe { Ok(report) } else { Err(Failure::unsafe_plan(report, given())) }
        };
        let report = checked(&step.plan)?;
        let payload = || serde_json::to_value(&report).unwrap_or_default();
        // What is safe stays so unless a plugin says otherwise; nobody makes an unsafe plan safe.
        if let Some(answer) = self.hooks.call(Hook::AfterPolicyCheck, payload).map_err(failed)? {
            let why = answer["issues"][0]["message"].as_str().unwrap_or("a plugin refuses it");
            if answer["safe"] != true {
                let who = self.hooks.who(Hook::AfterPolicyCheck);
                let error = Error::new(codes::PLAN_REFUSED, "the plan is not shown")
                    .why(format!("{who}: {why}"))
                    .fix("mend what the plugin names, or run without it");
                return Err(failed(error));
            }
        }
        let payload = || json!({"plan": step.plan.json().to_value(), "state": step.state.values, "event": event});
        let answer = self.hooks.call(Hook::BeforeRuntime, payload).map_err(failed)?;
        let Some(answer) = answer else { return Ok(None) };
        let asked = payload();
        if answer["state"] != asked["state"] || answer["event"] != asked["event"] {
            let why = "state and event of a run are what the log says";
            let error =
                Error::new(codes::PLAN_HOOK_FAILED, "a plugin changed what it may only see");
            return Err(failed(self.hooks.named(Hook::BeforeRuntime, error.why(why))));
        }
        let plan = parse(&answer["plan"].to_string(), &self.profile.limits());
        let blamed = |error| failed(self.hooks.blame(Hook::BeforeRuntime, of_plan(&error)));
        let plan = plan.map_err(blamed)?;
        if (plan.id(), plan.version()) != (step.plan.id(), step.plan.version()) {
            let why = "it is another plan, or another version";
            let error =
                Error::new(codes::PLAN_HOOK_FAILED, "a plugin changed what it may only see");
            return Err(failed(self.hooks.named(Hook::BeforeRuntime, error.why(why))));
        }
        checked(&plan)?;
        Ok(Some(plan))
    }

    /// What hooks make of a root before it is rendered; rendering checks it.
    fn after_run(&self, plan: &Plan) -> Result<Option<Plan>> {
        let mut made: Option<Plan> = None;
        for hook in [Hook::AfterRuntime, Hook::BeforeRender] {
            let now = made.as_ref().unwrap_or(plan);
            let payload = || json!({"planId": now.id(), "root": now.json().to_value()["root"]});
            let Some(answer) = self.hooks.call(hook, payload)? else { continue };
            let next = now.with_root(&answer["root"], &self.profile.limits());
            made = Some(next.map_err(|error| self.hooks.blame(hook, of_plan(&error)))?);
        }
        Ok(made)
    }

    /// A failure for what a hook answered.
    fn blamed(&self, hook: Hook, failure: Failure) -> Failure {
        Failure { error: self.hooks.blame(hook, failure.error), ..failure }
    }

    /// Shows hooks what they may not change.
    fn seen(&self, hook: Hook, payload: impl FnOnce() -> Value) -> Result<()> {
        match self.hooks.call(hook, payload)? {
            None => Ok(()),
            Some(_) => {
                let error = Error::new(codes::PLAN_HOOK_FAILED, "a plugin changed markup")
                    .why("markup is written by the renderer alone")
                    .fix("change the root in beforeRender");
                Err(self.hooks.named(hook, error))
            }
        }
    }
}

pub(super) fn put(log: &Log, bytes: &[u8]) -> Result<BlobRef> {
    Ok(BlobRef { blob: log.put_blob(bytes)?, bytes: bytes.len() as u64 })
}

/// A plan's text with this version, members in their order; without a version, none.
fn text_of(plan: &Plan, version: Option<i64>) -> Result<String> {
    let unwritable =
        |e: serde_json::Error| Error::new(codes::PLAN_UNREADABLE, "the plan cannot be kept").why(e);
    let mut text = String::from("{");
    for (key, value) in plan.json().as_object().into_iter().flatten() {
        let value = match (key, version) {
            ("version", None) => continue,
            ("version", Some(version)) => version.to_string(),
            _ => serde_json::to_string(&value).map_err(unwritable)?,
        };
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&serde_json::to_string(key).map_err(unwritable)?);
        text.push(':');
        text.push_str(&value);
    }
    text.push('}');
    Ok(text)
}

fn show(
    fold: &Fold,
    log: &Log,
    (text, keep_input): (&str, bool),
    means: &Means<'_>,
    stages: &mut Stages,
) -> Result<Step, Failure> {
    let profile = means.profile;
    let given = stages.of("keep", || put(log, text.as_bytes()))?;
    let failed = |error: &glasshouse_plan::Error| Failure {
        given: Some(given.clone()),
        ..Failure::new(of_plan(error))
    };
    let unread = |error: glasshouse_plan::Error| match error.exit_status() == Exit::Denied.status()
    {
        // A text beyond the sizes of the profile is refused as any other plan is.
        true => Failure::unsafe_plan(Report::of(&error), Some(given.clone())),
        false => failed(&error),
    };
    let plan = stages.of("parse", || parse(text, &profile.limits())).map_err(unread)?;
    let plan = match means.hooks.call(Hook::BeforePolicyCheck, || plan.json().to_value())? {
        Some(changed) => parse(&changed.to_string(), &profile.limits())
            .map_err(|error| means.blamed(Hook::BeforePolicyCheck, unread(error)))?,
        None => plan,
    };
    let report = stages.of("check", || check_to_run(&plan, profile, LANES));
    if !report.safe {
        return Err(Failure::unsafe_plan(report, Some(given)));
    }
    let id = plan.id().to_owned();
    let content = Digest::of(text_of(&plan, None)?.as_bytes());
    let current = fold.current(&id).ok();
    if let Some(known) = fold.with_content(&id, &content) {
        let mut back = Back { state: known.state(log)?, ..Back::default() };
        if let Some(current) = current.filter(|current| current.version != known.version) {
            back.go(log, current, &id, keep_input)?;
        }
        let Back { state, drafts, carried } = back;
        let step = Step::of(known, (log, profile), state, drafts, vec![given])?;
        return Ok(Step { carried, ..step });
    }
    let version = fold.free_version(&id, plan.version());
    let stored = text_of(&plan, Some(version))?;
    // As it is kept it may be longer than as it was written.
    let plan = stages.of("parse", || parse(&stored, &profile.limits())).map_err(unread)?;
    let mut state =
        State::initial(&plan, &StateLimits::default()).map_err(|error| failed(&error))?;
    let mut carried = Carried::default();
    if keep_input && let Some(current) = current {
        carried = carry_from(current, log, &mut state)?;
    }
    let stored = stages.of("keep", || put(log, stored.as_bytes()))?;
    let text = stored.blob;
    let body = PlanRegistered { plan: id, version, text: stored, content };
    let registered = Draft::new(Kind::PlanRegistered, &body);
    let drafts = vec![registered, state_changed(log, &state, &carried)?];
    Ok(Step {
        plan,
        text,
        state,
        before: None,
        handled: true,
        actions: Vec::new(),
        carried,
        drafts,
        blobs: vec![given],
    })
}

fn happen(
    fold: &Fold,
    log: &Log,
    (plan, event, expected): (&str, &Event, Expected),
    profile: &Profile,
) -> Result<Step, Failure> {
    let told = |error: glasshouse_plan::Error| Failure::new(of_plan(&error));
    let current = fold.current(plan)?;
    if let Some(version) = expected.version.filter(|version| *version != current.version) {
        let moved = Error::new(codes::PLAN_CONFLICT, "the plan has moved on");
        let why = format!("expected version {version}, version {} is shown", current.version);
        return Err(moved.why(why).with("expected", version).with("found", current.version).into());
    }
    let before = current.state(log)?;
    if let Some(revision) = expected.revision {
        before.expect_revision(revision).map_err(told)?;
    }
    let parsed = current.plan(log, &profile.limits())?;
    let host = Host { user_id: "anonymous", variables: &Map::new() };
    let applied = apply(&before, &parsed, event, &host, &StateLimits::default()).map_err(told)?;
    let body = PlanEvent {
        plan: plan.to_owned(),
        version: current.version,
        event: serde_json::to_value(event).unwrap_or_default(),
    };
    let mut drafts = vec![Draft::new(Kind::PlanEvent, &body)];
    if applied.handled {
        drafts.push(state_changed(log, &applied.state, &Carried::default())?);
    }
    let mut step = Step::of(current, (log, profile), applied.state, drafts, Vec::new())?;
    step.before = Some(before);
    step.handled = applied.handled;
    step.actions = applied.actions;
    Ok(step)
}

fn roll_back(
    fold: &Fold,
    log: &Log,
    (plan, version): (&str, i64),
    profile: &Profile,
) -> Result<Step, Failure> {
    let current = fold.current(plan)?;
    let target = fold.version(plan, version)?;
    let mut back = Back { state: target.state(log)?, ..Back::default() };
    if target.version != current.version {
        back.go(log, current, plan, true)?;
    }
    let Back { state, drafts, carried } = back;
    let step = Step::of(target, (log, profile), state, drafts, Vec::new())?;
    Ok(Step { carried, ..step })
}

/// The way back to an earlier version.
#[derive(Default)]
struct Back {
    /// The state of that version.
    state: State,
    drafts: Vec<Draft>,
    carried: Carried,
}

impl Back {
    fn go(&mut self, log: &Log, from: &Version, plan: &str, keep_input: bool) -> Result<()> {
        let to = self.state.plan_version;
        let body = PlanRolledBack { plan: plan.to_owned(), from: from.version, to };
        self.drafts.push(Draft::new(Kind::PlanRolledBack, &body));
        if keep_input {
            self.carried = carry_from(from, log, &mut self.state)?;
        }
        if !self.carried.kept.is_empty() || !self.carried.dropped.is_empty() {
            self.state.revision += 1;
            self.drafts.push(state_changed(log, &self.state, &self.carried)?);
        }
        Ok(())
    }
}

/// Brings what was entered into a version over into the state of another.
fn carry_from(version: &Version, log: &Log, state: &mut State) -> Result<Carried> {
    let initial = initial(&version.plan(log, &Limits::default())?);
    Ok(carry(&version.state(log)?, &initial, state))
}

impl Step {
    fn of(
        version: &Version,
        (log, profile): (&Log, &Profile),
        state: State,
        drafts: Vec<Draft>,
        blobs: Vec<BlobRef>,
    ) -> Result<Self> {
        Ok(Self {
            plan: version.plan(log, &profile.limits())?,
            text: version.text.blob,
            state,
            before: None,
            handled: true,
            actions: Vec::new(),
            carried: Carried::default(),
            drafts,
            blobs,
        })
    }
}

fn initial(plan: &Plan) -> Map<String, Value> {
    match plan.initial_state().map(glasshouse_plan::json::Json::to_value) {
        Some(Value::Object(values)) => values,
        _ => Map::new(),
    }
}

fn state_changed(log: &Log, state: &State, carried: &Carried) -> Result<Draft> {
    let bytes = serde_json::to_vec(&state.values)
        .map_err(|e| Error::new(codes::PLAN_UNREADABLE, "the state cannot be kept").why(e))?;
    let small = bytes.len() <= MAX_STATE_IN_EVENT_BYTES;
    let body = PlanStateChanged {
        plan: state.plan_id.clone(),
        version: state.plan_version,
        revision: state.revision,
        values: small.then(|| Value::Object(state.values.clone())),
        stored: if small { None } else { Some(put(log, &bytes)?) },
        kept: carried.kept.clone(),
        dropped: carried.dropped.clone(),
    };
    Ok(Draft::new(Kind::PlanStateChanged, &body))
}
