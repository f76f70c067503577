//! Plans: generated interfaces that are checked, shown and kept.

use std::path::{Path, PathBuf};

use glasshouse_kernel::Cancel;
use glasshouse_kernel::codes;
use glasshouse_kernel::plans::{Expected, History, PlanHistory, Plans, Quota, Run, told_of_code};
use glasshouse_model::body::{PlanCode, RunMode};
use glasshouse_model::{Principal, Seq};
use glasshouse_plan::patch::Patch;
use glasshouse_plan::state::Action;
use glasshouse_plan::{Event, Html, Profile, ProfileName, Report};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::ask::{Ask, invalid};
use crate::page::{self, MOST, Order, Wanted};
use crate::reply::Reply;
use crate::service::Service;
use crate::{Error, Result, shapes};

/// Runs of a history unless the client says.
const RUNS: usize = 50;
/// Most of them.
const MAX_RUNS: usize = 1_000;

/// A run as data.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PlanRun")]
pub(crate) struct View<'a> {
    /// Its name.
    run: Seq,
    plan: &'a str,
    version: i64,
    revision: u64,
    /// Whether the plan has a transition for the event.
    handled: bool,
    #[serde(flatten)]
    #[schemars(with = "shapes::Html")]
    html: &'a Html,
    /// What was done to the state.
    #[schemars(with = "Vec<shapes::Action>")]
    actions: &'a [Action],
    /// What an event changes in a view that showed the state before.
    #[schemars(with = "Vec<shapes::Patch>")]
    patches: &'a [Patch],
    /// Values that were entered and came over from another version; JSON Pointers.
    kept: &'a [String],
    /// Those that have no place in it.
    dropped: &'a [String],
    /// How the plan's code ran: asked-for and effective lane, isolation, limit, why it was killed, its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    script: Option<&'a PlanCode>,
    /// What to tell a person of it besides what it made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remarks: Vec<String>,
}

pub(super) fn view(status: StatusCode, run: &Run) -> Reply {
    let body = View {
        run: run.seq,
        plan: &run.plan,
        version: run.version,
        revision: run.state.revision,
        handled: run.handled,
        html: &run.html,
        actions: &run.actions,
        patches: &run.patches,
        kept: &run.carried.kept,
        dropped: &run.carried.dropped,
        script: run.code.as_ref(),
        remarks: run.code.as_ref().map(told_of_code).unwrap_or_default(),
    };
    Reply::json(status, &body)
}

/// The plans under the policy of a project; under the shipped one where none is named.
fn plans(service: &Service, ask: &Ask, project: Option<PathBuf>) -> Result<Plans> {
    let project = project.map(|project| ask.project(project)).transpose()?;
    let until = service.stopped_when(ask.leaving.clone().left())?;
    let project = project.unwrap_or_else(|| service.home.clone());
    plans_in(service, ask.principal()?, &project, &until)
}

/// The same for a directory that the caller may name, until a switch is set.
pub(super) fn plans_in(
    service: &Service,
    by: &Principal,
    project: &Path,
    until: &Cancel,
) -> Result<Plans> {
    Ok(service.kernel.plans(project, Quota::default())?.until(until).by(by.clone()))
}

fn plan_id(ask: &Ask) -> Result<String> {
    ask.part("plan", |text| Error::new(codes::PLAN_NOT_FOUND, format!("there is no plan {text}")))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewPlan")]
#[serde(deny_unknown_fields)]
pub(crate) struct Show {
    /// The plan's text.
    plan: String,
    #[schemars(with = "Option<String>")]
    profile: Option<ProfileName>,
    /// Whether what was entered into the version shown before goes over.
    #[serde(default)]
    keep_input: bool,
    project: Option<PathBuf>,
}

/// Shows a plan and registers it.
pub(crate) fn show(service: &Service, ask: &Ask) -> Result<Reply> {
    let Show { plan, profile, keep_input, project } = ask.json()?;
    let profile = ask.profile(profile.unwrap_or(ProfileName::Strict))?;
    let run = plans(service, ask, project)?.show(&plan, RunMode::Plan, keep_input, profile)?;
    Ok(view(StatusCode::CREATED, &run))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "PlanEvent")]
#[serde(deny_unknown_fields)]
pub(crate) struct Happened {
    event: String,
    payload: Option<Map<String, Value>>,
    input: Option<Map<String, Value>>,
    #[schemars(with = "Option<String>")]
    profile: Option<ProfileName>,
    expect_version: Option<i64>,
    expect_revision: Option<u64>,
    project: Option<PathBuf>,
}

/// Handles an event on the version that is shown.
pub(crate) fn event(service: &Service, ask: &Ask) -> Result<Reply> {
    let plan = plan_id(ask)?;
    let asked: Happened = ask.json()?;
    let event = Event::new(&asked.event, asked.payload).and_then(|event| match asked.input {
        Some(input) => event.with_input(input),
        None => Ok(event),
    });
    let event = event.map_err(|error| invalid("the event cannot be used").why(error))?;
    let mut plans = plans(service, ask, asked.project)?;
    let profile = ask.profile(profile_of(&mut plans, &plan, asked.profile)?)?;
    let expected = Expected { version: asked.expect_version, revision: asked.expect_revision };
    Ok(view(StatusCode::OK, &plans.event(&plan, event, expected, profile)?))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "PlanRollback")]
#[serde(deny_unknown_fields)]
pub(crate) struct Rollback {
    version: i64,
    #[schemars(with = "Option<String>")]
    profile: Option<ProfileName>,
    project: Option<PathBuf>,
}

/// Shows an earlier version again.
pub(crate) fn rollback(service: &Service, ask: &Ask) -> Result<Reply> {
    let plan = plan_id(ask)?;
    let Rollback { version, profile, project } = ask.json()?;
    let mut plans = plans(service, ask, project)?;
    let profile = ask.profile(profile_of(&mut plans, &plan, profile)?)?;
    Ok(view(StatusCode::OK, &plans.rollback(&plan, version, profile)?))
}

/// The profile that was asked for, or the one under which the plan was last shown.
fn profile_of(plans: &mut Plans, plan: &str, asked: Option<ProfileName>) -> Result<ProfileName> {
    match asked {
        Some(asked) => Ok(asked),
        None => Ok(plans.profile_of(plan)?.unwrap_or(ProfileName::Strict)),
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "PlanProbe")]
#[serde(deny_unknown_fields)]
pub(crate) struct ToProbe {
    /// The plan's text.
    plan: String,
    #[schemars(with = "Option<String>")]
    profile: Option<ProfileName>,
}

/// What a plan needs and whether it can be had. That it is refused is an answer, not an error.
pub(crate) fn probe(service: &Service, ask: &Ask) -> Result<Reply> {
    let ToProbe { plan, profile } = ask.json()?;
    let profile = Profile::named(ask.profile(profile.unwrap_or(ProfileName::Strict))?);
    Ok(match glasshouse_plan::parse(&plan, &profile.limits()) {
        Ok(plan) => {
            let until = service.stopped_when(ask.leaving.clone().left())?;
            Reply::ok(&service.kernel.probe_plan(&plan, &profile, &until)?)
        }
        Err(error) => {
            let report = Report::of(&error);
            Reply::ok(&json!({
                "ok": false, "safe": false, "issues": report.issues,
                "issue_count": report.issue_count, "dependencies": [],
            }))
        }
    })
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PlansCleared")]
pub(crate) struct Cleared {
    /// True.
    cleared: bool,
    /// How many plans there were.
    plans: u64,
    /// How many runs.
    runs: u64,
}

/// Lists plans and runs no more; the log keeps their events.
pub(crate) fn clear(service: &Service, ask: &Ask) -> Result<Reply> {
    let cleared = plans(service, ask, None)?.clear_history()?;
    Ok(Reply::ok(&Cleared { cleared: true, plans: cleared.plans, runs: cleared.runs }))
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PlanState")]
pub(crate) struct Shown {
    plan: String,
    version: i64,
    /// Steps so far.
    revision: u64,
    state: Map<String, Value>,
}

/// The state that is shown.
pub(crate) fn state(service: &Service, ask: &Ask) -> Result<Reply> {
    let state = plans(service, ask, None)?.state(&plan_id(ask)?)?;
    Ok(Reply::ok(&Shown {
        plan: state.plan_id,
        version: state.plan_version,
        revision: state.revision,
        state: state.values,
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "PlansQuery")]
#[serde(deny_unknown_fields)]
pub(crate) struct Listed {
    /// How many of the newest runs are told.
    #[schemars(range(max = MAX_RUNS))]
    runs: Option<usize>,
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
    /// Most items of the page.
    #[schemars(range(min = 1, max = MOST))]
    limit: Option<usize>,
}

/// Plans and the newest runs.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Plans")]
pub(crate) struct List {
    #[serde(flatten)]
    history: History,
    /// Cursor of the next page; `null` on the last one.
    next: Option<String>,
}

/// Every plan with its versions, and the newest runs.
pub(crate) fn history(service: &Service, ask: &Ask) -> Result<Reply> {
    let Listed { runs, cursor, limit } = ask.query()?;
    let runs = runs.unwrap_or(RUNS);
    if runs > MAX_RUNS {
        return Err(invalid("the history cannot be told").why(format!("`runs` is 0 to {MAX_RUNS}")));
    }
    let mut history = plans(service, ask, None)?.history(runs)?;
    let wanted = Wanted { cursor: cursor.as_deref(), limit };
    let place = |one: &PlanHistory| (0, one.plan.clone());
    let page = page::page(history.plans, &wanted, Order::Rising, place)?;
    history.plans = page.items;
    history.plans.iter_mut().for_each(|plan| plan.keep_newest(MOST));
    Ok(Reply::ok(&List { history, next: page.next }))
}

/// Makes a run again and compares.
pub(crate) fn replay(service: &Service, ask: &Ask) -> Result<Reply> {
    let run: Seq = ask.part("run", |text| {
        Error::new(codes::PLAN_RUN_NOT_FOUND, format!("there is no run {text}"))
    })?;
    Ok(Reply::ok(&plans(service, ask, None)?.replay(run)?))
}
