//! `glasshouse policy`: check.

use std::path::{Path, PathBuf};

use glasshouse_kernel::driver::{boundary_denial, now_us, policy_texts, protected, test_setup};
use glasshouse_kernel::{Config, codes};
use glasshouse_model::body::TestSetup;
use glasshouse_model::{Call, Effect, Exit, State};
use glasshouse_policy::{CallSketch, Policy, Request, Source};
use glasshouse_sandbox::view::{Intent, View};

use crate::args::PolicyCommand;
use crate::error::Error;
use crate::{home, output};

/// Runs the command.
pub(crate) fn run(command: PolicyCommand) -> Result<u8, Error> {
    match command {
        PolicyCommand::Check { policy, call, state, json } => check(policy, &call, state, json),
    }
}

fn check(
    file: Option<PathBuf>,
    call: &str,
    state: Option<String>,
    json: bool,
) -> Result<u8, Error> {
    let here = std::env::current_dir().map_err(|e| {
        Error::new(codes::PROJECT_UNREADABLE, "the current directory is unknown").why(e)
    })?;
    let policy = load(file.as_deref(), &here)?;
    for warning in policy.warnings() {
        output::note(&format!("warning: {}:{}: {}", warning.source, warning.line, warning.message));
    }
    let mut sketch = CallSketch::from_json(call)?;
    sketch.state_machine_state = state.or(sketch.state_machine_state);
    if let Some(state) = &sketch.state_machine_state {
        state.parse::<State>().map_err(|why| {
            Error::new(codes::CONFIG_INVALID, format!("`{state}` is no workflow state")).why(why)
        })?;
    }
    let decision = match inside(sketch, &here)? {
        Inside::Yes(call) => {
            glasshouse_policy::decide(&policy, &Request::new(&call, now_us())).decision
        }
        Inside::No(reason) => boundary_denial(&policy, &reason),
    };
    if json {
        output::json_line(&decision);
    } else {
        output::data(&output::visible(&glasshouse_policy::explain_text(&decision), true));
    }
    Ok(match decision.effect {
        Effect::Allow => Exit::Done,
        Effect::Deny => Exit::Denied,
        Effect::RequireReview => Exit::NeedsApproval,
    }
    .status())
}

/// `--policy F` is that file alone (with the built-ins); otherwise what a session here would use.
fn load(file: Option<&Path>, here: &Path) -> Result<Policy, Error> {
    let protected = protected(&home::data_dir()?, &home::program()?);
    let texts = match file {
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(|e| {
                Error::new(codes::CONFIG_INVALID, format!("cannot read {}", file.display())).why(e)
            })?;
            vec![(file.display().to_string(), text)]
        }
        None => {
            let config = home::config(Config::default(), here)?;
            match test_setup(here, &config) {
                Ok(test) => policy_texts(here, &test)?,
                // No session could start here, but a call can still be explained.
                Err(error) if error.is(codes::TESTS_UNKNOWN) => policy_texts(here, &no_tests())?,
                Err(error) => return Err(error.into()),
            }
        }
    };
    let sources: Vec<_> = texts.iter().map(|(name, text)| Source { name, text }).collect();
    Ok(Policy::compile(&sources, &protected)?)
}

fn no_tests() -> TestSetup {
    TestSetup {
        argv: Vec::new(),
        kind: String::new(),
        test_globs: Vec::new(),
        source_globs: Vec::new(),
    }
}

/// A call whose path is in this directory, or why it is not.
enum Inside {
    Yes(Box<Call>),
    No(String),
}

/// Resolves the path as a session in this directory would: links followed, nothing outside.
fn inside(mut sketch: CallSketch, here: &Path) -> Result<Inside, Error> {
    let root = std::fs::File::open(here).map_err(|e| {
        Error::new(codes::PROJECT_UNREADABLE, "cannot open the current directory").why(e)
    })?;
    if let Some(text) = sketch.path.take() {
        match View::new(root.into())?.resolve(&text, Intent::Any) {
            Ok(resolved) => sketch.path = Some(resolved.canonical().to_string()),
            Err(error) if error.exit() == Exit::Denied => return Ok(Inside::No(error.to_string())),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Inside::Yes(Box::new(sketch.into_call()?)))
}
