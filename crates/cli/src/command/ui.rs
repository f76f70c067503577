//! `glasshouse ui`: check, probe and stream plans; what is kept of them is in `runs`.

mod ask;
mod pin;
mod playground;
mod runs;
mod show;
mod stream;

use std::path::Path;

use glasshouse_kernel::codes;
use glasshouse_kernel::plans::{Coder, told_of_code};
use glasshouse_model::Exit;
use glasshouse_model::body::PlanCode;
use glasshouse_plan::{Html, Issue, Profile, ProfileName};
use glasshouse_sandbox::HostConfig;

use crate::args::{ProfileArgument, RunOptions, UiCommand};
use crate::error::Error;
use crate::{home, input, output};

/// Name of the surface that ids are prefixed with.
const SURFACE: &str = "plan";

impl ProfileArgument {
    fn name(self) -> ProfileName {
        match self {
            Self::Strict => ProfileName::Strict,
            Self::Balanced => ProfileName::Balanced,
            Self::Trusted => ProfileName::Trusted,
            Self::Relaxed => ProfileName::Relaxed,
        }
    }

    fn profile(self) -> Profile {
        Profile::named(self.name())
    }
}

/// Runs the command.
pub(crate) fn run(command: UiCommand) -> Result<u8, Error> {
    match command {
        UiCommand::Check { file, profile, json, timings } => {
            show::check(&read(&file)?, &profile.profile(), json, timings)
        }
        UiCommand::ProbePlan { file, profile, json } => {
            show::probe(&read(&file)?, &profile.profile(), json)
        }
        UiCommand::Pin(arguments) => pin::run(&arguments),
        UiCommand::Bundle { file, profile, .. } => show::bundle(&read(&file)?, &profile.profile()),
        UiCommand::Plan(arguments) => ask::run(&arguments, ask::Then::Print),
        UiCommand::Run(arguments) => ask::run(&arguments, ask::Then::Run),
        UiCommand::Stream(arguments) => stream::run(&arguments),
        UiCommand::RenderPlan(arguments) => {
            let text = read(&arguments.file)?;
            if arguments.no_register {
                let RunOptions { profile, show, .. } = arguments.options;
                show::render(&text, profile.name(), show)
            } else {
                runs::render(&text, arguments.keep_input, &arguments.options)
            }
        }
        UiCommand::Event(arguments) => runs::event(&arguments),
        UiCommand::State { plan, .. } => runs::state(&plan),
        UiCommand::History { runs, json } => runs::history(runs, json),
        UiCommand::Rollback { plan, version, options } => runs::rollback(&plan, version, &options),
        UiCommand::Replay { run, json } => runs::replay(run, json),
        UiCommand::Playground(arguments) => playground::run(&arguments),
        UiCommand::ClearHistory { json } => runs::clear_history(json),
    }
}

/// Compiles and runs code of plans that are not kept.
fn coder() -> Result<Coder, Error> {
    let config = HostConfig { program: home::program()?, home: home::data_dir()? };
    Ok(Coder::new(config, None))
}

fn tell(report: &glasshouse_plan::Report) {
    let count = report.issue_count;
    tell_under(&format!("unsafe: {count} issue{}", if count == 1 { "" } else { "s" }), report);
}

/// What is wrong with a plan, below a line that says what follows from it.
fn tell_under(head: &str, report: &glasshouse_plan::Report) {
    output::note(head);
    for issue in &report.issues {
        output::note(&format!("  {}", line(issue)));
        output::note(&format!("    fix: {}", issue.fix));
    }
    if let more @ 1.. = report.issue_count.saturating_sub(report.issues.len()) {
        output::note(&format!("  {more} more of these kinds are counted, and not listed"));
    }
}

/// A rendered plan on stdout, as a fragment or as a page.
fn markup(title: &str, html: &Html, page: bool) {
    if page {
        output::markup(&glasshouse_plan::render_page(title, html));
    } else {
        output::markup(&html.markup);
    }
    remark(&html.notes);
}

/// Remarks about what is harmless and not shown.
fn remark(notes: &[Issue]) {
    for note in notes {
        output::note(&line(note));
        output::note(&format!("  fix: {}", note.fix));
    }
}

/// Remarks about a run of a plan's code.
fn remark_on_code(code: &PlanCode) {
    for told in told_of_code(code) {
        // What code throws is its own text.
        output::note(&output::visible(&told, false));
    }
}

fn line(issue: &Issue) -> String {
    let place = if issue.pointer.is_empty() { "the plan" } else { &issue.pointer };
    output::visible(&format!("{} at {place}: {}", issue.code, issue.message), false)
}

/// The error of `plan`, which knows no other crate, in the shape that commands tell.
fn fault(error: &glasshouse_plan::Error) -> Error {
    let report = error.report();
    let code = if error.exit_status() == Exit::Usage.status() {
        codes::PLAN_UNREADABLE
    } else {
        codes::PLAN_REFUSED
    };
    let told =
        Error::new(code, report.what).why(report.why).fix(report.fix).with("code", report.code);
    report.context.into_iter().fold(told, |error, (key, value)| error.with(&key, value))
}

fn read(file: &Path) -> Result<String, Error> {
    input::text(file, input::MAX_PLAN_BYTES)
}
