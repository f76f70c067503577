//! `glasshouse policy`: check, show, simulate, update.

use std::path::{Path, PathBuf};

use glasshouse_kernel::driver::{
    PROJECT_POLICY, PolicyText, boundary_denial, compile, now_us, policy_texts, project_policy,
    protected, test_setup,
};
use glasshouse_kernel::{Config, Reviewer, codes};
use glasshouse_model::body::TestSetup;
use glasshouse_model::{Call, Digest, Effect, Exit, SessionId, State};
use glasshouse_policy::{CallSketch, Consent, Policy, Request, Source};
use glasshouse_sandbox::view::{Intent, View};

use crate::args::PolicyCommand;
use crate::error::Error;
use crate::review::{Terminal, ask};
use crate::{home, input, output};

/// Runs the command.
pub(crate) fn run(command: PolicyCommand) -> Result<u8, Error> {
    match command {
        PolicyCommand::Check { policy, call, state, json } => check(policy, &call, state, json),
        PolicyCommand::Show { shipped, json } => show(shipped, json),
        PolicyCommand::Simulate { file, session, last, json } => {
            simulate(&file, session.as_ref(), last, json)
        }
        PolicyCommand::Update { digest, json } => update(digest, json),
    }
}

fn check(
    file: Option<PathBuf>,
    call: &str,
    state: Option<String>,
    json: bool,
) -> Result<u8, Error> {
    let here = current_dir()?;
    let policy = load(file.as_deref(), &here)?;
    for warning in policy.warnings() {
        output::note(&format!("warning: {}:{}: {}", warning.source, warning.line, warning.message));
    }
    let mut sketch = CallSketch::from_json(call)?;
    sketch.state_machine_state = state.or(sketch.state_machine_state);
    if let Some(state) = &sketch.state_machine_state {
        state.parse::<State>().map_err(|why| {
            let states: Vec<_> = State::ALL.iter().map(ToString::to_string).collect();
            Error::new(codes::USAGE, format!("`{state}` is no workflow state"))
                .why(why)
                .fix(format!("use one of {}", states.join(", ")))
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
    let Some(file) = file else { return Ok(compile(&texts(here)?, &protected)?) };
    let text = input::text(file, input::MAX_POLICY_BYTES)?;
    Ok(Policy::compile(&[Source::new(&file.display().to_string(), &text)], &protected)?)
}

/// The texts of a session that would start here.
fn texts(here: &Path) -> Result<Vec<PolicyText>, Error> {
    let config = home::config(Config::default(), here)?;
    let test = match test_setup(here, &config) {
        Ok(test) => test,
        // No session could start here, but a call can still be explained.
        Err(error) if error.is(codes::TESTS_UNKNOWN) => no_tests(),
        Err(error) => return Err(error.into()),
    };
    // Where nothing was ever recorded nothing was accepted, and looking must not begin a log.
    let own = if home::data_dir()?.join("log.db").exists() {
        home::kernel()?.project_policy(here)?
    } else {
        project_policy(here)?
    };
    if own.as_ref().is_some_and(|own| !own.accepted) {
        output::note(NOT_ACCEPTED);
    }
    Ok(policy_texts(&test, own.as_ref()))
}

/// What an unaccepted policy file of a project means.
pub(crate) const NOT_ACCEPTED: &str = "note: .glasshouse/policy.yaml was not accepted on this machine: it can forbid, but allows nothing \
     beyond the shipped policy. `glasshouse policy update` shows it and asks.";

fn show(shipped: bool, json: bool) -> Result<u8, Error> {
    if shipped {
        output::bytes(glasshouse_policy::default_source().as_bytes());
        return Ok(Exit::Done.status());
    }
    let policy = load(None, &current_dir()?)?;
    for rule in policy.rules() {
        if json {
            output::json_line(&serde_json::json!({
                "name": rule.name, "layer": rule.layer, "action": rule.action,
                "source": rule.source, "line": rule.line, "reason": rule.reason,
            }));
            continue;
        }
        let place = match (rule.source, rule.line) {
            (Some(source), Some(line)) => format!("{source}:{line}"),
            _ => "built in".to_owned(),
        };
        let action = serde_json::to_value(rule.action).unwrap_or_default();
        output::data(&output::visible(
            &format!(
                "{:<14} {} ({place}){}",
                action.as_str().unwrap_or_default(),
                rule.name,
                rule.reason.map(|reason| format!(": {reason}")).unwrap_or_default()
            ),
            false,
        ));
    }
    Ok(Exit::Done.status())
}

fn simulate(
    file: &Path,
    session: Option<&SessionId>,
    last: usize,
    json: bool,
) -> Result<u8, Error> {
    let candidate = PolicyText {
        name: file.display().to_string(),
        text: input::text(file, input::MAX_POLICY_BYTES)?,
        consent: Consent::Joint,
    };
    let kernel = home::kernel()?;
    let simulation = kernel.simulate(&candidate, session, last)?;
    let breaking = simulation.changed.iter().filter(|change| change.breaking).count();
    for change in &simulation.changed {
        if json {
            output::json_line(change);
            continue;
        }
        let words = |effect: Effect| serde_json::to_value(effect).unwrap_or_default();
        let subject = change.subject.as_deref().unwrap_or_default();
        let line = format!(
            "{} {}: {} {subject}: {} -> {}{}: {}",
            change.session,
            change.seq,
            change.syscall,
            words(change.was).as_str().unwrap_or_default(),
            words(change.now).as_str().unwrap_or_default(),
            if change.breaking { " [BREAKING]" } else { "" },
            change.reasons.join("; "),
        );
        output::data(&output::visible(&line, false));
    }
    let (decisions, changed) = (simulation.decisions, simulation.changed.len());
    if json {
        output::json_line(&serde_json::json!({
            "decisions": decisions, "changed": changed, "breaking": breaking,
        }));
    } else {
        output::note(&format!("{decisions} decisions, {changed} differ, {breaking} breaking"));
    }
    Ok(Exit::Done.status())
}

fn update(digest: Option<Digest>, json: bool) -> Result<u8, Error> {
    let kernel = home::kernel()?;
    let here = current_dir()?;
    let own = kernel.project_policy(&here)?.ok_or_else(|| {
        Error::new(codes::POLICY_NOT_FOUND, format!("{PROJECT_POLICY} is not there"))
            .why("a project without a policy file uses the shipped policy")
    })?;
    let tell = |changed: bool| {
        if json {
            output::json_line(&serde_json::json!({ "accepted": own.digest, "changed": changed }));
        } else if changed {
            output::note("accepted: it is in force for every session that starts here from now on");
        } else {
            output::note("this file is accepted already");
        }
        Ok(Exit::Done.status())
    };
    if own.accepted {
        return tell(false);
    }
    let approver = Terminal.approver();
    match digest {
        Some(digest) if digest == own.digest => {}
        Some(digest) => {
            return Err(Error::new(codes::POLICY_CHANGED, "the policy was not accepted")
                .why(format!("the file has the digest {}, not {digest}", own.digest)));
        }
        None if !Terminal::is_there() => {
            return Err(Error::new(codes::APPROVAL_NEEDED, "nobody is there to accept the policy")
                .why("this is no terminal")
                .fix(format!("read the file, then pass --digest {}", own.digest)));
        }
        None => {
            output::note(&format!("{} ({}):", here.join(PROJECT_POLICY).display(), own.digest));
            for line in own.text.lines() {
                output::note(&format!("  | {}", output::visible(line, false)));
            }
            match ask("Let this file decide instead of the shipped policy? [y/n] ") {
                Some(true) => {}
                Some(false) => {
                    return Err(Error::new(
                        codes::APPROVAL_REJECTED,
                        "the policy was not accepted",
                    )
                    .why("the answer was no"));
                }
                None => {
                    return Err(Error::new(codes::APPROVAL_NEEDED, "the policy was not accepted")
                        .why("the terminal was closed without an answer"));
                }
            }
        }
    }
    kernel.accept_policy(&own, &approver)?;
    tell(true)
}

fn current_dir() -> Result<PathBuf, Error> {
    std::env::current_dir().map_err(|e| {
        Error::new(codes::PROJECT_UNREADABLE, "the current directory is unknown").why(e)
    })
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
