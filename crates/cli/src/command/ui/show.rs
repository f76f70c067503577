//! One plan, looked at once: whether it is safe, what it needs, how it looks.

use glasshouse_kernel::plans::{LANES, Stages, runs_code};
use glasshouse_model::Exit;
use glasshouse_plan::{Context, Dependency, Plan, Profile, ProfileName, Report};
use serde_json::json;

use super::{SURFACE, fault, markup, remark, runs, tell, tell_under};
use crate::args::ShowOptions;
use crate::error::Error;
use crate::output;

/// Tells what each stage took.
pub(super) fn tell_stages(took: &Stages) {
    for (stage, spent) in took.iter() {
        output::note(&format!("{stage:8} {:>8} us", spent.as_micros()));
    }
}

/// `ui check`.
pub(super) fn check(text: &str, profile: &Profile, json: bool, timings: bool) -> Result<u8, Error> {
    let mut took = Stages::default();
    let (report, status) = match took.of("parse", || parse(text, profile)) {
        Ok(plan) => {
            let check = || glasshouse_plan::check_to_run(&plan, profile, LANES);
            let mut report = took.of("check", check);
            if report.safe {
                took.of("compile", || inspect(&plan, profile, &mut report))?;
            }
            let status = status(report.safe);
            (report, status)
        }
        Err(error) if json => (Report::of(&error), error.exit_status()),
        Err(error) => return Ok(unread(&error)),
    };
    if json {
        output::json_line(&report);
    } else if report.safe {
        output::data("safe");
        remark(&report.notes);
    } else {
        tell(&report);
    }
    if timings {
        tell_stages(&took);
    }
    Ok(status)
}

/// Adds what is wrong with the source of a plan.
pub(super) fn inspect(plan: &Plan, profile: &Profile, report: &mut Report) -> Result<(), Error> {
    let cancel = glasshouse_sandbox::Cancel::new()?;
    super::coder()?.inspect(plan, profile, &cancel)?.tell(report);
    Ok(())
}

/// `ui render-plan`.
pub(super) fn render(text: &str, asked: ProfileName, options: ShowOptions) -> Result<u8, Error> {
    let profile = &Profile::named(asked);
    let ShowOptions { page, json, timings } = options;
    let mut took = Stages::default();
    let parsed = took.of("parse", || glasshouse_plan::parse(text, &profile.limits()));
    let plan = match parsed {
        Ok(plan) => plan,
        Err(error) if json => return Err(fault(&error)),
        Err(error) => return Ok(unread(&error)),
    };
    let report = took.of("check", || glasshouse_plan::check_to_run(&plan, profile, LANES));
    if !report.safe && !json {
        return Ok(refuse_plan(&plan, &report));
    }
    let context = Context::new(SURFACE).map_err(|error| fault(&error))?;
    let coded = match report.safe && runs_code(&plan) {
        true => took.of("code", || -> Result<_, Error> {
            let plans = runs::running_plans(&[]).map_err(|error| runs::unrecorded(error, true))?;
            Ok(plans.run_aside(&plan, asked)?)
        })?,
        false => None,
    };
    if let Some(code) = coded.as_ref().and_then(|it| it.record.as_ref()) {
        super::remark_on_code(code);
    }
    let shown = coded.as_ref().map_or(&plan, |coded| &coded.plan);
    let html = took
        .of("render", || glasshouse_plan::render(shown, profile, &context))
        .map_err(|error| fault(&error))?;
    if json {
        output::json_line(&html);
    } else {
        markup(plan.id(), &html, page);
    }
    if timings {
        tell_stages(&took);
    }
    Ok(Exit::Done.status())
}

/// `ui bundle`.
pub(super) fn bundle(text: &str, profile: &Profile) -> Result<u8, Error> {
    let plan = parse(text, profile).map_err(|error| fault(&error))?;
    output::json_line(&super::coder()?.bundle(&plan, profile)?);
    Ok(Exit::Done.status())
}

/// `ui probe-plan`.
pub(super) fn probe(text: &str, profile: &Profile, json: bool) -> Result<u8, Error> {
    let plan = match parse(text, profile) {
        Ok(plan) => plan,
        Err(error) if json => {
            let report = Report::of(&error);
            output::json_line(&json!({"ok": false, "safe": false, "issues": report.issues,
                "issue_count": report.issue_count, "dependencies": []}));
            return Ok(error.exit_status());
        }
        Err(error) => return Ok(unread(&error)),
    };
    let cancel = glasshouse_sandbox::Cancel::new()?;
    let probed = super::coder()?.probe(&plan, profile, &cancel)?;
    let probe = &probed.probe;
    if json {
        output::json_line(&probed);
        return Ok(status(probe.ok));
    }
    if probe.report.safe {
        remark(&probe.report.notes);
    } else {
        tell(&probe.report);
    }
    for module in &probe.dependencies {
        output::data(&output::visible(&line(module), false));
    }
    for module in probed.modules.iter().flatten() {
        let line = format!("{}  {}", module.chain.join(" > "), module.kind);
        output::data(&output::visible(&line, false));
    }
    output::data(if probe.ok { "ok" } else { "not ok" });
    Ok(status(probe.ok))
}

fn line(module: &Dependency) -> String {
    let place = module.resolved.as_deref().or(module.message.as_deref()).unwrap_or_default();
    format!("{}  tier {}  {place}", module.specifier, module.tier)
}

/// Reads a plan within what the profile accepts.
pub(super) fn parse(text: &str, profile: &Profile) -> Result<Plan, glasshouse_plan::Error> {
    glasshouse_plan::parse(text, &profile.limits())
}

/// Tells why a text is no plan that can be read here.
pub(super) fn unread(error: &glasshouse_plan::Error) -> u8 {
    let report = Report::of(error);
    // What is not even read was not found to be unsafe.
    if error.exit_status() == Exit::Usage.status() {
        tell_under("the plan cannot be read", &report);
    } else {
        tell(&report);
    }
    error.exit_status()
}

/// Tells why a plan is refused, and what it says itself for that case.
pub(super) fn refuse_plan(plan: &Plan, report: &Report) -> u8 {
    if let Some(fallback) = plan.fallback() {
        output::note(&format!("fallback: {}", output::visible(fallback, false)));
    }
    refuse(report)
}

pub(super) fn refuse(report: &Report) -> u8 {
    tell(report);
    Exit::Denied.status()
}

fn status(good: bool) -> u8 {
    if good { Exit::Done } else { Exit::Denied }.status()
}
