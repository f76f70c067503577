//! `glasshouse ui plan` and `ui run`: a model makes the plan.

use std::path::PathBuf;

use glasshouse_kernel::plans::{Heard, Made, Plans, Plugins, Quota, Stages, prompted};
use glasshouse_kernel::{Kernel, codes};
use glasshouse_model::Exit;
use glasshouse_plan::Context;
use glasshouse_plan::intake::Kind;
use glasshouse_plan::stream::Stream;
use glasshouse_provider::{Cancel, Provider, Secret};
use serde_json::json;

use super::{SURFACE, fault, runs, show};
use crate::args::AskArguments;
use crate::command::task;
use crate::error::Error;
use crate::models::{self, Connected};
use crate::{home, input, output};

/// Name of the run whose previews are shown.
const RUN: u64 = 1;

/// Name of the model that a scenario plays.
const SCRIPTED: &str = "scripted";

/// What is done with the plan.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// It is printed.
    Print,
    /// It is rendered and registered.
    Run,
}

/// Who is asked.
struct Asked {
    here: PathBuf,
    provider: Box<dyn Provider>,
    model: String,
    secrets: Vec<(String, Secret)>,
}

impl Asked {
    /// The server that flags and configuration name, or a scenario.
    fn of(arguments: &AskArguments) -> Result<Self, Error> {
        if let Some(file) = &arguments.scenario {
            let bytes = input::bytes(file, input::MAX_SCENARIO_BYTES)?;
            let provider = Box::new(task::scripted(Some(&bytes))?);
            let (here, model) = (home::here()?, SCRIPTED.to_owned());
            return Ok(Self { here, provider, model, secrets: Vec::new() });
        }
        let (here, _, Connected { remote, secrets }) = models::configured(&arguments.model)?;
        let model = remote.model().to_owned();
        Ok(Self { here, provider: Box::new(remote), model, secrets })
    }
}

pub(super) fn run(arguments: &AskArguments, then: Then) -> Result<u8, Error> {
    if then == Then::Print && arguments.options.show.page {
        return Err(Error::new(codes::USAGE, "`ui plan` prints the plan, and no page of it")
            .fix("`glasshouse ui run PROMPT --page` shows it"));
    }
    let asked = Asked::of(arguments)?;
    let kernel = home::kernel()?;
    let plugins = runs::plugins(&kernel, &arguments.options.plugins)?;
    let made = made(&kernel, &asked, &plugins, arguments)?;
    let plans = || -> Result<Plans, Error> {
        Ok(kernel.plans(&asked.here, Quota::default())?.with_plugins(plugins.clone()))
    };
    let name = arguments.options.profile.name();
    let made = match made {
        Ok(made) => made,
        Err(error) => {
            // Without its record it still failed for this reason.
            let _ = plans().and_then(|mut plans| Ok(plans.turned_away(name, Err(&error))?));
            return Err(error.into());
        }
    };
    if made.repaired {
        output::note("the model's first plan was not usable; this is its second");
    }
    if !made.report.safe {
        plans()?.turned_away(name, Ok(&made))?;
        if arguments.options.show.json {
            output::json_line(&json!({"refused": made.report}));
        }
        return Ok(show::refuse(&made.report));
    }
    if made.kind == Kind::Text {
        output::note("the model answered without a plan; its text is shown instead");
    }
    let text = made.plan.to_string();
    match then {
        Then::Run => {
            let cancel = runs::stopped_by_ctrl_c()?;
            runs::render_in(
                plans()?.until(&cancel),
                (&text, false),
                &arguments.options,
                Stages::default(),
            )
        }
        Then::Print => {
            if arguments.options.show.json {
                output::json_line(&json!({"plan": made.plan, "repaired": made.repaired,
                    "text_only": made.kind == Kind::Text}));
            } else {
                output::data(&serde_json::to_string_pretty(&made.plan).unwrap_or(text));
            }
            Ok(Exit::Done.status())
        }
    }
}

/// Asks the model, and shows on the way what is heard of it. What it could not be asked for is an error;
/// what came of asking is an answer, whichever it is.
fn made(
    kernel: &Kernel,
    Asked { here, provider, model, secrets }: &Asked,
    plugins: &Plugins,
    arguments: &AskArguments,
) -> Result<Result<Made, glasshouse_kernel::Error>, Error> {
    let profile = arguments.options.profile.profile();
    let runtime = task::runtime()?;
    let cancel = Cancel::new();
    let switch = cancel.clone();
    runtime.spawn(task::on_ctrl_c(move || switch.cancel()));
    runtime.block_on(async {
        let mut questions = kernel.questions(here, &**provider, secrets)?;
        let context = Context::new(SURFACE).map_err(|error| fault(&error))?;
        let is_shown = arguments.options.show.json && arguments.preview;
        let mut preview = Stream::new(RUN, &profile, &context);
        let mut hear = |heard: Heard<'_>| match heard {
            Heard::Begins => preview = Stream::new(RUN, &profile, &context),
            Heard::Note(note) => output::note(note),
            Heard::Text(text) if is_shown => {
                preview.push(text.as_bytes());
                if let Some(frame) = preview.frame() {
                    output::json_line(&json!({"preview": frame}));
                }
            }
            Heard::Text(_) => {}
        };
        let asked = (arguments.prompt.as_str(), &profile, plugins);
        Ok(prompted(&mut questions, model, asked, &mut hear, &cancel).await)
    })
}
