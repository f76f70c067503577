//! `glasshouse ui render-plan`, `event`, `state`, `history`, `rollback`, `replay`, `clear-history`: plans
//! that are kept in the log.

use glasshouse_kernel::codes;
use glasshouse_kernel::plans::{History, Plans, Quota, Run};
use glasshouse_model::Exit;
use glasshouse_model::body::RunMode;
use glasshouse_plan::patch::Patch;
use glasshouse_plan::state::{Action, State};
use glasshouse_plan::{Event, Html, Report};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::fault;
use super::show::{self, Timings};
use crate::args::{EventArguments, RunOptions};
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
}

/// The plans of this installation, shown under the policy of the project in the current directory.
fn plans() -> Result<Plans, Error> {
    let here = std::env::current_dir().map_err(|e| {
        Error::new(codes::PROJECT_UNREADABLE, "the current directory is unknown").why(e)
    })?;
    Ok(home::kernel()?.plans(&here, Quota::default())?)
}

/// `ui render-plan`: a plan that is refused is recorded, too.
pub(super) fn render(text: &str, keep_input: bool, options: &RunOptions) -> Result<u8, Error> {
    let mut took = Timings::default();
    let mut plans = took.of("open", plans).map_err(unrecorded)?;
    match plans.show(text, RunMode::Plan, keep_input, options.profile.name()) {
        Ok(run) => Ok(tell(&run, options, took)),
        Err(error)
            if !options.json
                && (error.is(codes::PLAN_REFUSED) || error.is(codes::PLAN_UNREADABLE)) =>
        {
            // For a person: every fault with its place, and not the first one only.
            let profile = options.profile.profile();
            match show::parse(text, &profile) {
                Ok(plan) => refusal(glasshouse_plan::check(&plan, &profile), error),
                Err(report) => refusal(report, error),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// The report of a refusal; what the profile alone accepts was refused by the policy's word on it.
fn refusal(report: Report, error: glasshouse_kernel::Error) -> Result<u8, Error> {
    if report.safe { Err(error.into()) } else { Ok(show::refuse(&report)) }
}

/// What cannot be decided and recorded is not shown; checking and rendering alone needs no log.
fn unrecorded(error: Error) -> Error {
    use glasshouse_log::codes::{LOG_READ_ONLY, STORAGE_FAILED};
    if error.is(STORAGE_FAILED) || error.is(LOG_READ_ONLY) {
        return error
            .fix("make the data directory writable, or pass `--no-register` to only render");
    }
    error
}

fn tell(run: &Run, options: &RunOptions, mut took: Timings) -> u8 {
    if !run.handled {
        output::note("the plan does nothing on this event");
    }
    for path in &run.carried.dropped {
        output::note(&format!("not kept: {} has no place", output::visible(path, false)));
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
        });
    } else {
        output::data(&run.html.markup);
        for note in &run.html.notes {
            output::note(&format!("{} at {}: {}", note.code, note.pointer, note.message));
        }
    }
    if options.timings {
        took.extend(&run.stages);
        took.tell();
    }
    Exit::Done.status()
}

/// `ui event`.
pub(super) fn event(arguments: &EventArguments) -> Result<u8, Error> {
    let mut took = Timings::default();
    let payload = members("payload", arguments.payload.as_deref())?;
    let input = members("input", arguments.input.as_deref())?;
    let event = Event::new(&arguments.event, payload).and_then(|event| match input {
        Some(input) => event.with_input(input),
        None => Ok(event),
    });
    let event = event.map_err(|error| fault(&error))?;
    let mut plans = took.of("open", plans)?;
    let name = arguments.options.profile.name();
    let revision = arguments.expect_revision;
    let run = plans.event(&arguments.plan, event, revision, name)?;
    Ok(tell(&run, &arguments.options, took))
}

fn members(what: &str, text: Option<&str>) -> Result<Option<Map<String, Value>>, Error> {
    text.map(|text| match serde_json::from_str(text) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err(Error::new(codes::USAGE, format!("the {what} cannot be read"))
            .why("it is no JSON object")
            .fix("write it as {\"name\": \"value\"}")),
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
    let history = plans()?.history(runs)?;
    if as_json {
        output::json_line(&history);
    } else {
        list(&history);
    }
    Ok(Exit::Done.status())
}

fn list(history: &History) {
    for plan in &history.plans {
        let id = output::visible(&plan.plan, false);
        for version in &plan.versions {
            let mark = if version.version == plan.current { "*" } else { " " };
            let (number, revision) = (version.version, version.revision);
            output::data(&format!("{mark} {id} {number}  revision {revision}  {}", version.text));
        }
    }
    for run in &history.runs {
        let word = |value: Value| value.as_str().unwrap_or_default().to_owned();
        let mode = word(serde_json::to_value(run.mode).unwrap_or_default());
        let status = word(serde_json::to_value(run.status).unwrap_or_default());
        let plan = run.plan.as_deref().unwrap_or("-");
        let version = run.version.map(|version| format!("@{version}")).unwrap_or_default();
        let event = run.event.as_deref().unwrap_or_default();
        let of = run.of.map(|of| format!("of {of}")).unwrap_or_default();
        let line = format!("{}  {mode} {status} {plan}{version} {event}{of}", run.run);
        output::data(output::visible(&line, false).trim_end());
    }
}

/// `ui rollback`.
pub(super) fn rollback(plan: &str, version: i64, options: &RunOptions) -> Result<u8, Error> {
    let mut took = Timings::default();
    let mut plans = took.of("open", plans)?;
    let name = options.profile.name();
    let run = plans.rollback(plan, version, name)?;
    Ok(tell(&run, options, took))
}

/// `ui replay`.
pub(super) fn replay(run: u64, as_json: bool) -> Result<u8, Error> {
    let replayed = plans()?.replay(run)?;
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
        output::data(&format!("cleared {} plans and {} runs", cleared.plans, cleared.runs));
        output::note("the log keeps their events");
    }
    Ok(Exit::Done.status())
}
