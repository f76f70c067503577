//! `glasshouse ui render-plan`, `event`, `state`, `history`, `rollback`, `replay`, `clear-history`: plans
//! that are kept in the log.

use glasshouse_kernel::plans::{
    Expected, History, LANES, Plans, Plugin, Plugins, Quota, Run, ScriptPlugin, Stages, runs_code,
};
use glasshouse_kernel::{Cancel, Kernel, codes};
use glasshouse_model::body::{PlanCode, RunMode};
use glasshouse_model::{BranchId, Exit};
use glasshouse_plan::json::Document;
use glasshouse_plan::patch::Patch;
use glasshouse_plan::state::{Action, State};
use glasshouse_plan::{Event, Html, Limits, Plan, ProfileName, Report};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;

use super::show;
use super::{fault, markup};
use crate::args::{EventArguments, KeptOptions, RunOptions, ShowOptions};
use crate::command::task;
use crate::error::Error;
use crate::{home, output};

/// A run as data.
#[derive(Serialize)]
struct RunShown<'a> {
    run: u64,
    plan: &'a str,
    version: i64,
    revision: u64,
    handled: bool,
    #[serde(flatten)]
    html: &'a Html,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    actions: &'a [Action],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    patches: &'a [Patch],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    kept: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    dropped: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    script: Option<&'a PlanCode>,
}

/// The plans of this installation, shown under the policy of the project in the current directory.
pub(super) fn plans() -> Result<Plans, Error> {
    let here = home::here()?;
    Ok(home::kernel()?.plans(&here, Quota::default())?)
}

/// The same for a command that runs code: with plugins, and stopped by Ctrl-C, wherever the code runs.
pub(super) fn running_plans(files: &[PathBuf]) -> Result<Plans, Error> {
    let cancel = stopped_by_ctrl_c()?;
    let here = home::here()?;
    let kernel = home::kernel()?;
    let plugins = plugins(&kernel, files)?;
    Ok(kernel.plans(&here, Quota::default())?.with_plugins(plugins).until(&cancel))
}

/// A switch that Ctrl-C sets.
pub(super) fn stopped_by_ctrl_c() -> Result<Cancel, Error> {
    let cancel = Cancel::new()?;
    task::stopped_by_ctrl_c(&cancel)?;
    Ok(cancel)
}

/// Plugins in the order in which they were named.
pub(super) fn plugins(kernel: &Kernel, files: &[PathBuf]) -> Result<Plugins, Error> {
    let mut read: Vec<Arc<dyn Plugin>> = Vec::new();
    for file in files {
        read.push(Arc::new(ScriptPlugin::read(kernel.host()?, file)?));
    }
    Ok(Plugins::new(read)?)
}

/// `ui render-plan`: a plan that is refused is recorded, too.
pub(super) fn render(text: &str, keep_input: bool, options: &RunOptions) -> Result<u8, Error> {
    let mut took = Stages::default();
    let opened = took.of("open", || running_plans(&options.plugins));
    let plans = opened.map_err(|error| {
        let plan = show::parse(text, &options.profile.profile());
        unrecorded(error, plan.is_ok_and(|plan| runs_code(&plan)))
    })?;
    render_in(plans, (text, keep_input), options, took)
}

/// Renders in plans that are open.
pub(super) fn render_in(
    mut plans: Plans,
    (text, keep_input): (&str, bool),
    options: &RunOptions,
    took: Stages,
) -> Result<u8, Error> {
    match plans.show(text, RunMode::Plan, keep_input, options.profile.name()) {
        Ok(run) => Ok(tell(&run, options.show, took)),
        Err(error)
            if !options.show.json
                && (error.is(codes::PLAN_REFUSED) || error.is(codes::PLAN_UNREADABLE)) =>
        {
            // For a person: every fault with its place, and not the first one only.
            let profile = options.profile.profile();
            match show::parse(text, &profile) {
                Ok(plan) => {
                    refusal(&plan, &glasshouse_plan::check_to_run(&plan, &profile, LANES), error)
                }
                Err(unread) => Ok(show::unread(&unread)),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// The report of a refusal; what the profile alone accepts was refused by the policy's word on it.
fn refusal(plan: &Plan, report: &Report, error: glasshouse_kernel::Error) -> Result<u8, Error> {
    if report.safe { Err(error.into()) } else { Ok(show::refuse_plan(plan, report)) }
}

/// What cannot be decided and recorded is not shown; checking and rendering alone needs no log, running code does.
pub(super) fn unrecorded(error: Error, has_code: bool) -> Error {
    use glasshouse_log::codes::{LOG_READ_ONLY, STORAGE_FAILED};
    if !error.is(STORAGE_FAILED) && !error.is(LOG_READ_ONLY) {
        return error;
    }
    error.fix(if has_code {
        "make the data directory writable, or set GLASSHOUSE_HOME to one that is: this plan has code, and what runs is \
         recorded first, with `--no-register` too"
    } else {
        "make the data directory writable, or pass `--no-register` to only render"
    })
}

fn tell(run: &Run, options: ShowOptions, mut took: Stages) -> u8 {
    if !run.handled {
        output::note("the plan does nothing on this event: it has no transition of that name");
    }
    for path in &run.carried.dropped {
        output::note(&format!("not kept: {} has no place", output::visible(path, false)));
    }
    if let Some(code) = run.code.as_ref() {
        super::remark_on_code(code);
    }
    if options.json {
        output::json_line(&RunShown {
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
        });
    } else {
        markup(&run.plan, &run.html, options.page);
    }
    if options.timings {
        took.extend(&run.stages);
        show::tell_stages(&took);
    }
    Exit::Done.status()
}

/// `ui event`.
pub(super) fn event(arguments: &EventArguments) -> Result<u8, Error> {
    let mut took = Stages::default();
    let payload = members("payload", arguments.payload.as_deref())?;
    let input = members("input", arguments.input.as_deref())?;
    let event = Event::new(&arguments.event, payload).and_then(|event| match input {
        Some(input) => event.with_input(input),
        None => Ok(event),
    });
    let event = event.map_err(|error| fault(&error))?;
    let options = &arguments.options;
    let mut plans = took.of("open", || running_plans(&options.plugins))?;
    let expected =
        Expected { version: arguments.expect_version, revision: arguments.expect_revision };
    let name = profile_of(&mut plans, &arguments.plan, options)?;
    let run = plans.event(&arguments.plan, event, expected, name)?;
    Ok(tell(&run, options.show, took))
}

/// The profile that was asked for, or the one under which the plan was last shown.
fn profile_of(plans: &mut Plans, plan: &str, options: &KeptOptions) -> Result<ProfileName, Error> {
    match options.profile {
        Some(asked) => Ok(asked.name()),
        None => Ok(plans.profile_of(plan)?.unwrap_or(ProfileName::Strict)),
    }
}

/// Reads an object by the rules that hold for plans: no key twice, no number outside a double.
fn members(what: &str, text: Option<&str>) -> Result<Option<Map<String, Value>>, Error> {
    let invalid = |why: String| {
        Error::new(codes::USAGE, format!("the {what} cannot be read"))
            .why(why)
            .fix("write it as {\"name\": \"value\"}")
    };
    text.map(|text| {
        let document = Document::parse(text, &Limits::default());
        match document.map_err(|error| invalid(error.to_string()))?.root().to_value() {
            Value::Object(members) => Ok(members),
            _ => Err(invalid("it is no JSON object".to_owned())),
        }
    })
    .transpose()
}

/// `ui state`.
pub(super) fn state(plan: &str) -> Result<u8, Error> {
    let State { plan_id, plan_version, revision, values } = plans()?.state(plan)?;
    output::json_line(&json!({
        "plan": plan_id, "version": plan_version, "revision": revision, "state": values,
    }));
    Ok(Exit::Done.status())
}

/// `ui history`.
pub(super) fn history(runs: usize, as_json: bool) -> Result<u8, Error> {
    let mut plans = plans()?;
    // One more than is listed, to know whether there are more.
    let mut history = plans.history(runs.saturating_add(1))?;
    if history.runs.len() > runs {
        history.runs.truncate(runs);
        output::note(&format!("older runs than these {runs} are not listed: --runs lists more"));
    }
    if as_json {
        output::json_line(&history);
    } else {
        list(&history, plans.branch().map_or("-", BranchId::as_str));
    }
    Ok(Exit::Done.status())
}

fn list(history: &History, branch: &str) {
    if !history.plans.is_empty() {
        output::note("plans (* is shown)");
    }
    for plan in &history.plans {
        let id = output::visible(&plan.plan, false);
        for version in &plan.versions {
            let mark = if version.version == plan.current { "*" } else { " " };
            let (number, revision) = (version.version, version.revision);
            output::data(&format!("{mark} {id} {number}  revision {revision}  {}", version.text));
        }
    }
    if !history.runs.is_empty() {
        output::note(&format!("runs, the newest first; each is an event of the branch {branch}"));
    }
    for run in &history.runs {
        let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
        let mode = word(serde_json::to_value(run.mode).unwrap_or_default());
        let status = word(serde_json::to_value(run.status).unwrap_or_default());
        let plan = run.plan.as_deref().unwrap_or("(no plan came of it)");
        let version = run.version.map(|version| format!("@{version}")).unwrap_or_default();
        let event = run.event.as_deref().unwrap_or_default();
        let of = run.of.map(|of| format!("of {of}")).unwrap_or_default();
        let line = format!("{}  {mode} {status} {plan}{version} {event}{of}", run.run);
        output::data(output::visible(&line, false).trim_end());
    }
}

/// `ui rollback`.
pub(super) fn rollback(plan: &str, version: i64, options: &KeptOptions) -> Result<u8, Error> {
    let mut took = Stages::default();
    let mut plans = took.of("open", || running_plans(&options.plugins))?;
    let name = profile_of(&mut plans, plan, options)?;
    let run = plans.rollback(plan, version, name)?;
    Ok(tell(&run, options.show, took))
}

/// `ui replay`.
pub(super) fn replay(run: u64, as_json: bool) -> Result<u8, Error> {
    let replayed = running_plans(&[])?.replay(run)?;
    if as_json {
        output::json_line(&replayed);
    } else if replayed.equal {
        output::data("equal");
    } else {
        output::data(&format!("differs: {}", replayed.differences.join(", ")));
        if replayed.renderer_changed {
            output::note("the renderer is another version than the one of the run");
        }
    }
    Ok(if replayed.equal { Exit::Done } else { Exit::Mismatch }.status())
}

/// `ui clear-history`.
pub(super) fn clear_history(as_json: bool) -> Result<u8, Error> {
    let cleared = plans()?.clear_history()?;
    if as_json {
        output::json_line(&json!({
            "cleared": true, "plans": cleared.plans, "runs": cleared.runs, "kept_in_log": true,
        }));
    } else {
        output::data(&format!(
            "cleared {} and {}",
            output::counted(cleared.plans, "plan"),
            output::counted(cleared.runs, "run")
        ));
        output::note("the log keeps their events");
    }
    Ok(Exit::Done.status())
}
