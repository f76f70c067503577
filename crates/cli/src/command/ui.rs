//! `glasshouse ui`: check, probe and stream plans; what is kept of them is in `runs`.

mod runs;
mod show;
mod stream;

use std::io::Read;
use std::path::Path;

use glasshouse_kernel::codes;
use glasshouse_plan::{Profile, ProfileName};

use crate::args::{ProfileArgument, RunOptions, UiCommand};
use crate::error::Error;
use crate::output;

/// Name of the surface that ids are prefixed with.
const SURFACE: &str = "plan";
/// Largest plan file that is read at all, in bytes; the profile's own limit is lower.
const MAX_FILE_BYTES: u64 = 16 << 20;

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
        UiCommand::Stream(arguments) => stream::run(&arguments),
        UiCommand::RenderPlan(arguments) => {
            let text = read(&arguments.file)?;
            let RunOptions { profile, json, timings } = arguments.options;
            if arguments.no_register {
                show::render(&text, &profile.profile(), json, timings)
            } else {
                runs::render(&text, arguments.keep_input, &arguments.options)
            }
        }
        UiCommand::Event(arguments) => runs::event(&arguments),
        UiCommand::State { plan, .. } => runs::state(&plan),
        UiCommand::History { runs, json } => runs::history(runs, json),
        UiCommand::Rollback { plan, version, options } => runs::rollback(&plan, version, &options),
        UiCommand::Replay { run, json } => runs::replay(run, json),
        UiCommand::ClearHistory { json } => runs::clear_history(json),
    }
}

fn tell(report: &glasshouse_plan::Report) {
    output::note(&format!("unsafe: {} issues", report.issue_count));
    for issue in &report.issues {
        output::note(&format!("  {} at {}: {}", issue.code, issue.pointer, issue.message));
        output::note(&format!("    fix: {}", issue.fix));
    }
}

/// The error of `plan`, which knows no other crate, in the shape that commands tell.
fn fault(error: &glasshouse_plan::Error) -> Error {
    let report = error.report();
    let told = Error::new(codes::PLAN_REFUSED, report.what)
        .why(report.why)
        .fix(report.fix)
        .with("code", report.code);
    report.context.into_iter().fold(told, |error, (key, value)| error.with(&key, value))
}

/// Opens a file, or stdin, to be read as it comes.
fn open(file: &Path) -> Result<Box<dyn Read>, Error> {
    if file == Path::new("-") {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    match std::fs::File::open(file) {
        Ok(file) => Ok(Box::new(file)),
        Err(e) => {
            let what = format!("cannot read {}", file.display());
            Err(Error::new(codes::CONFIG_INVALID, what).why(e))
        }
    }
}

fn read(file: &Path) -> Result<String, Error> {
    let fail = |why: String| {
        Error::new(codes::CONFIG_INVALID, format!("cannot read {}", file.display())).why(why)
    };
    let mut text = String::new();
    let bytes = if file == Path::new("-") {
        std::io::stdin().lock().take(MAX_FILE_BYTES + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(file)
            .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
    };
    match bytes {
        Err(e) => Err(fail(e.to_string())),
        Ok(bytes) if bytes as u64 > MAX_FILE_BYTES => {
            Err(fail(format!("it is larger than {MAX_FILE_BYTES} bytes")))
        }
        Ok(_) => Ok(text),
    }
}
