//! `glasshouse policy`: check, explain, lint, test, show, simulate, update.

mod show;
mod test;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use glasshouse_kernel::driver::{
    Changed, Kernel, PROJECT_POLICY, Past, PolicyReview, PolicyText, Tried, WORKFLOW_POLICY,
    candidate_texts, check_project, compile, policy_texts, project_policy, protected, served,
    test_setup_or_none,
};
use glasshouse_kernel::{Config, codes};
use glasshouse_model::{Digest, Effect, Exit, Seq, SessionId, each_once};
use glasshouse_policy::{CallSketch, Consent, Finding, Level, Policy, Warning};
use glasshouse_sandbox::{HostConfig, SandboxHost};

use crate::args::{CallArguments, ExplainArguments, PolicyCommand};
use crate::error::Error;
use crate::output::counted;
use crate::review::{Terminal, ask, ask_phrase};
use crate::{home, input, output};

use self::show::show;
use self::test::test;

/// Runs the command.
pub(crate) fn run(command: PolicyCommand) -> Result<u8, Error> {
    match command {
        PolicyCommand::Check(arguments) => check(&arguments),
        PolicyCommand::Explain { call, json } => explain(call, json),
        PolicyCommand::Lint { file, json } => lint(file.as_deref(), json),
        PolicyCommand::Test { file, policy, json } => {
            test(file.as_deref(), policy.as_deref(), json)
        }
        PolicyCommand::Schema => {
            let schema = glasshouse_policy::policy_schema();
            output::data(&serde_json::to_string_pretty(&schema).unwrap_or_default());
            Ok(Exit::Done.status())
        }
        PolicyCommand::Show { shipped, json } => show(shipped, json),
        PolicyCommand::Simulate { file, session, last, json } => {
            simulate(&file, session.as_ref(), last, json)
        }
        PolicyCommand::Learn { session, out, json } => learn(&session, out.as_deref(), json),
        PolicyCommand::Update { file, digest, confirm, json } => {
            update(file.as_deref(), digest, confirm.as_deref(), json)
        }
    }
}

fn check(arguments: &CallArguments) -> Result<u8, Error> {
    let here = home::here()?;
    let policy = load_to_decide(arguments.policy.as_deref(), &here)?;
    tell_warnings(&policy);
    let decision = tried(arguments, &here)?.decide(&policy);
    if arguments.json {
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

/// What a file that loads says and its author can hardly have meant.
fn tell_warnings(policy: &Policy) {
    let empty = policy
        .silent_sources()
        .map(|source| format!("{source}:1: the file holds no rule, so it allows nothing"));
    let warnings =
        policy.warnings().iter().map(|Warning { source, line, message, fix, .. }| {
            format!("{source}:{line}: {message}; fix: {fix}")
        });
    for text in empty.chain(warnings) {
        output::note(&output::visible(&format!("warning: {text}"), false));
    }
}

/// The call of the command line.
fn tried(arguments: &CallArguments, here: &Path) -> Result<Tried, Error> {
    let mut sketch = CallSketch::from_json(&arguments.call)?;
    if let Some((named, own)) = arguments.state.as_ref().zip(sketch.state_machine_state.as_ref())
        && named != own
    {
        let text = format!("note: `--state {named}` counts, and not the state `{own}` of the call");
        output::note(&output::visible(&text, false));
    }
    sketch.state_machine_state = arguments.state.clone().or(sketch.state_machine_state);
    if sketch.caller.is_none() {
        output::note(
            "note: the call names no `caller`, so it is one of a user; a model's is one of `agent`",
        );
    }
    let tried = Tried::new(sketch, here, || home::config(Config::default(), here))?;
    if let Some(supposed) = tried.supposed() {
        output::note(&format!("note: {}", output::visible(&supposed, false)));
    }
    Ok(tried)
}

fn explain(arguments: ExplainArguments, json: bool) -> Result<u8, Error> {
    let ExplainArguments { policy, call, state, session, at, branch } = arguments;
    if let (Some(session), Some(at)) = (session, at) {
        return explain_recorded(&session, branch.as_deref(), at, json);
    }
    let here = home::here()?;
    let policy_in_force = load_to_decide(policy.as_deref(), &here)?;
    let arguments = CallArguments { policy, call: call.unwrap_or_default(), state, json };
    let explanation = tried(&arguments, &here)?.explain(&policy_in_force);
    if json {
        output::json_line(&explanation);
    } else {
        let text = glasshouse_policy::explanation_text(&explanation);
        output::data(&output::visible(text.trim_end(), true));
    }
    Ok(Exit::Done.status())
}

fn explain_recorded(
    session: &SessionId,
    branch: Option<&str>,
    at: Seq,
    json: bool,
) -> Result<u8, Error> {
    let kernel = home::kernel()?;
    let branch = kernel.branch(session, branch)?.branch;
    let explained = kernel.explain_decision(&branch, at)?;
    if json {
        output::json_line(&explained);
        return Ok(Exit::Done.status());
    }
    let subject = explained.subject.as_deref().unwrap_or_default();
    let mut text = format!("event {}: {} {subject}: ", explained.seq, explained.syscall);
    if explained.policy_recorded {
        text.push_str(&glasshouse_policy::explanation_text(&explained.explanation));
    } else {
        text.push_str(&glasshouse_policy::explain_text(&explained.explanation.decision));
        text.push_str("  the record has no more of the policy than its digest: `glasshouse policy explain --call` in the project says what would change it\n");
    }
    if let Some(denied) = &explained.denied_later {
        let code = denied.code.as_deref().unwrap_or("denied");
        let why = denied.why.trim_end().replace('\n', " ");
        text.push_str(&format!(
            "  the call was denied all the same, at event {} ({code}): {why}\n",
            denied.seq
        ));
    }
    for origin in &explained.origins {
        text.push_str(&format!(
            "  label   {} from event {} ({}): {}\n",
            origin.label,
            origin.seq,
            origin.kind,
            origin.subject.replace('\n', " "),
        ));
    }
    output::data(&output::visible(text.trim_end(), true));
    Ok(Exit::Done.status())
}

fn lint(file: Option<&Path>, json: bool) -> Result<u8, Error> {
    let here = home::here()?;
    let policy = match file {
        Some(file) => alone(file)?,
        None => load(None, &here, AsAccepted(false))?,
    };
    if !has_file(file, &here) && !json {
        output::note(
            "note: the shipped policy was looked at: there is no .glasshouse/policy.yaml here",
        );
    }
    let mut findings = glasshouse_policy::lint(&policy);
    // What the program itself wrote is not the reader's to mend.
    findings.retain(|finding| file.is_some() || finding.source != WORKFLOW_POLICY);
    let warnings = findings.iter().filter(|finding| finding.level == Level::Warning).count();
    for finding in &findings {
        if json {
            output::json_line(finding);
            continue;
        }
        let level = if finding.level == Level::Warning { "warning" } else { "advice" };
        let Finding { source, line, rule, message, fix, kind, .. } = finding;
        let text = format!("{source}:{line}: {level}: `{rule}`: {message} [{kind}]; fix: {fix}");
        output::data(&output::visible(&text, false));
    }
    let advice = findings.len() - warnings;
    if json {
        output::json_line(&serde_json::json!({ "warnings": warnings, "advice": advice }));
    } else {
        let advice = match advice {
            1 => "1 piece of advice".to_owned(),
            advice => format!("{advice} pieces of advice"),
        };
        output::note(&format!("{}, {advice}", counted(warnings, "warning")));
    }
    Ok(if warnings == 0 { Exit::Done } else { Exit::Mismatch }.status())
}

/// Whether there is a policy file to look at: one that was named, or the project's.
fn has_file(named: Option<&Path>, here: &Path) -> bool {
    named.is_some() || input::is_there(&here.join(PROJECT_POLICY))
}

/// Why an allowed call gets no rule, as `learn` of the kernel says it.
const UNNAMED: &str = "no-rule-can-name";

/// Whether the project's file counts as accepted, whoever has or has not accepted it.
#[derive(Clone, Copy)]
struct AsAccepted(bool);

/// What a session here would use; with `--policy F` as if F were its policy file, accepted.
fn load(file: Option<&Path>, here: &Path, accepted: AsAccepted) -> Result<Policy, Error> {
    check_project(here, &home::data_dir()?)?;
    let protected = protected(&home::data_dir()?, &home::program()?);
    let Some(file) = file else { return Ok(compile(&texts(here, accepted)?, &protected)?) };
    let text = input::text(file, input::MAX_POLICY_BYTES)?;
    let test = test_setup_or_none(here, &home::config(Config::default(), here)?)?;
    let name = file.display().to_string();
    Ok(compile(&candidate_texts(&test, &name, text), &protected)?)
}

/// One file by itself, with the built-ins.
fn alone(file: &Path) -> Result<Policy, Error> {
    named(&file.display().to_string(), &input::text(file, input::MAX_POLICY_BYTES)?)
}

/// The same with what runs its rules in TypeScript.
fn load_to_decide(file: Option<&Path>, here: &Path) -> Result<Policy, Error> {
    to_decide(load(file, here, AsAccepted(false))?)
}

fn to_decide(policy: Policy) -> Result<Policy, Error> {
    let config = HostConfig { program: home::program()?, home: home::data_dir()? };
    Ok(served(policy, || Ok(Arc::new(SandboxHost::start(config)?)))?)
}

/// The texts of a session that would start here.
fn texts(here: &Path, accepted: AsAccepted) -> Result<Vec<PolicyText>, Error> {
    let config = home::config(Config::default(), here)?;
    let test = test_setup_or_none(here, &config)?;
    // Where nothing was ever recorded nothing was accepted, and looking must not begin a log.
    let kernel = home::data_dir()?.join("log.db").exists().then(home::kernel).transpose()?;
    let mut own = match &kernel {
        Some(kernel) => {
            tell_missing(kernel, here)?;
            kernel.project_policy(here)?
        }
        None => project_policy(here)?,
    };
    if let Some(own) = own.as_mut().filter(|own| !own.accepted) {
        own.accepted = accepted.0;
        if !own.accepted {
            output::note(not_in_force(kernel.as_ref(), here)?);
        }
    }
    Ok(policy_texts(&test, own.as_ref()))
}

/// Says that a file which was accepted here is gone.
pub(crate) fn tell_missing(kernel: &Kernel, here: &Path) -> Result<(), Error> {
    if let Some(digest) = kernel.missing_policy(here)? {
        output::note(&format!(
            "note: {PROJECT_POLICY} was accepted here and is not there any more: the shipped policy decides. \
             `glasshouse audit blob {digest} > {PROJECT_POLICY}` brings it back."
        ));
    }
    Ok(())
}

/// What the policy file of a project means that nobody has accepted as it stands.
pub(crate) fn not_in_force(kernel: Option<&Kernel>, here: &Path) -> Result<&'static str, Error> {
    let before = kernel.map(|kernel| kernel.accepted_policy(here)).transpose()?.flatten();
    Ok(if before.is_some() { CHANGED } else { NOT_ACCEPTED })
}

const NOT_ACCEPTED: &str = "note: .glasshouse/policy.yaml was not accepted on this machine: it can forbid, but allows nothing \
     beyond the shipped policy. `glasshouse policy update` shows it and asks.";
const CHANGED: &str = "note: .glasshouse/policy.yaml was changed since it was accepted: it can forbid, but allows nothing \
     beyond the shipped policy. `glasshouse policy update` shows what changed and asks.";

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
    let here = home::here()?;
    let past = session.map_or(Past::Project(&here), Past::Session);
    let simulation = kernel.simulate(&candidate, past, last)?;
    let breaking = simulation.changed.iter().filter(|change| change.breaking).count();
    for change in &simulation.changed {
        if json {
            output::json_line(change);
            continue;
        }
        output::data(&change_line(change));
    }
    let (decisions, changed) = (simulation.decisions, simulation.changed.len());
    if json {
        output::json_line(&serde_json::json!({
            "decisions": decisions, "changed": changed, "breaking": breaking,
            "left_out": simulation.left_out,
        }));
    } else {
        let of = match session {
            Some(session) => format!("of the session {session}"),
            None => {
                format!("of sessions in {}", output::visible(&here.display().to_string(), false))
            }
        };
        let decisions = counted(decisions, "decision");
        output::note(&format!("{decisions} {of}, {changed} differ, {breaking} breaking"));
        tell_left_out(&simulation.left_out);
    }
    Ok(Exit::Done.status())
}

fn learn(session: &SessionId, out: Option<&Path>, json: bool) -> Result<u8, Error> {
    let learned = home::kernel()?.learn(session)?;
    if let Some(out) = out {
        std::fs::write(out, &learned.text).map_err(|e| {
            Error::new(codes::INPUT_UNREADABLE, format!("cannot write {}", out.display())).why(e)
        })?;
    }
    let (unequal, left_out) = (learned.unequal.len(), &learned.left_out);
    if json {
        output::json_line(&serde_json::json!({
            "rules": learned.rules, "unequal": unequal, "left_out": left_out,
            "policy": learned.text,
        }));
    } else if out.is_none() {
        output::bytes(learned.text.as_bytes());
    }
    if unequal > 0 {
        output::note(&format!(
            "warning: {unequal} decisions are not told apart by what rules look at, or are counted otherwise; they come out \
             differently:"
        ));
        for change in &learned.unequal {
            output::note(&format!("  {}", change_line(change)));
        }
    }
    tell_left_out(left_out);
    let is_whole = unequal == 0 && !left_out.contains_key(UNNAMED);
    Ok(if is_whole { Exit::Done } else { Exit::Mismatch }.status())
}

/// Says which decisions were not made again, and why.
fn tell_left_out(left_out: &BTreeMap<String, u64>) {
    for (why, decisions) in left_out {
        let words = match why.as_str() {
            "many-paths" => "one event tells of many paths that a command changed".to_owned(),
            UNNAMED => "no rule can name the call; what is learned denies it".to_owned(),
            rule => format!("the kernel denied it as `{rule}`, whatever a policy says"),
        };
        output::note(&format!("left out: {}: {words}", counted(*decisions, "decision")));
    }
}

fn update(
    file: Option<&Path>,
    digest: Option<Digest>,
    confirm: Option<&str>,
    json: bool,
) -> Result<u8, Error> {
    let (kernel, here) = (home::kernel()?, home::here()?);
    tell_missing(&kernel, &here)?;
    let candidate = file.map(|file| input::text(file, input::MAX_POLICY_BYTES)).transpose()?;
    // The kernel takes a candidate for the project's file; what is wrong with it stands where it was read.
    let name = file.map_or_else(|| PROJECT_POLICY.to_owned(), |file| file.display().to_string());
    if let Some(text) = &candidate {
        to_decide(named(&name, text)?)?;
    }
    let review = kernel.review_policy(&here, candidate)?;
    let own = &review.policy;
    let tell = |changed: bool| {
        if json {
            output::json_line(&serde_json::json!({
                "accepted": own.digest, "changed": changed, "breaking": review.breaking(),
                "phrase": review.phrase(),
            }));
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
    warn_of(&named(&name, &own.text)?);
    show_review(&review, json);
    match digest {
        Some(digest) if digest == own.digest => {
            let phrase = review.phrase();
            if let Some(phrase) = phrase.filter(|phrase| Some(phrase.as_str()) != confirm) {
                let file = file.unwrap_or(Path::new(PROJECT_POLICY)).display();
                let breaking = review.breaking();
                let why = format!(
                    "it would deny what was allowed in {breaking} of the newest {} decisions of sessions in {}",
                    review.simulation.decisions,
                    own.project.display(),
                );
                return Err(with_needs(not_accepted(why), &review).fix(format!(
                    "`glasshouse policy simulate {file}` lists them; then pass --confirm '{phrase}'"
                )));
            }
        }
        Some(digest) => {
            let error = Error::new(codes::POLICY_CHANGED, "the policy was not accepted")
                .why(format!("the file has the digest {}, not {digest}", own.digest));
            return Err(with_needs(error, &review));
        }
        None if !Terminal::is_there() => {
            let error = Error::new(codes::APPROVAL_NEEDED, "nobody is there to accept the policy")
                .why("this is no terminal")
                .fix(fix_by_flags(&review));
            return Err(with_needs(error, &review));
        }
        None => ask_to_accept(&review)?,
    }
    kernel.accept_policy(own, &kernel.person())?;
    tell(true)
}

/// What to pass where nobody can be asked: all of it at once.
fn fix_by_flags(review: &PolicyReview) -> String {
    let digest = review.policy.digest;
    let phrase =
        review.phrase().map(|phrase| format!(" --confirm '{phrase}': it denies what was allowed"));
    format!("read the file, then pass --digest {digest}{}", phrase.unwrap_or_default())
}

/// A text as the only source, told of by a name.
fn named(name: &str, text: &str) -> Result<Policy, Error> {
    let text = PolicyText { name: name.to_owned(), text: text.to_owned(), consent: Consent::Joint };
    Ok(compile(&[text], &protected(&home::data_dir()?, &home::program()?))?)
}

/// What has to be passed to accept a file, for programs.
fn with_needs(error: Error, review: &PolicyReview) -> Error {
    let error = error
        .with("digest", review.policy.digest.to_string())
        .with("breaking", review.breaking() as u64);
    match review.phrase() {
        Some(phrase) => error.with("phrase", phrase),
        None => error,
    }
}

/// Shows what accepting a file changes.
fn show_review(review: &PolicyReview, json: bool) {
    let own = &review.policy;
    let simulation = &review.simulation;
    if json {
        output::json_line(&serde_json::json!({
            "digest": own.digest, "breaking": review.breaking(), "phrase": review.phrase(),
            "diff": review.diff, "decisions": simulation.decisions, "differ": simulation.changed,
            "left_out": simulation.left_out,
        }));
        return;
    }
    output::note(&format!("{} ({}):", own.project.join(PROJECT_POLICY).display(), own.digest));
    for line in review.diff.lines() {
        output::note(&format!("  | {}", output::visible(line, false)));
    }
    for change in &simulation.changed {
        output::note(&format!("  {}", change_line(change)));
    }
    let (decisions, changed) = (simulation.decisions, simulation.changed.len());
    let place = output::visible(&own.project.display().to_string(), false);
    output::note(&format!(
        "{changed} of the newest {decisions} decisions of sessions in {place} would be others"
    ));
    tell_left_out(&simulation.left_out);
}

/// What a file says that its author can hardly have meant, told before anybody accepts it.
fn warn_of(policy: &Policy) {
    let findings = glasshouse_policy::lint(policy);
    for Finding { source, line, rule, message, .. } in
        findings.iter().filter(|finding| finding.level == Level::Warning)
    {
        let text = format!("warning: {source}:{line}: `{rule}`: {message}");
        output::note(&output::visible(&text, false));
    }
}

fn not_accepted(why: impl std::fmt::Display) -> Error {
    Error::new(codes::APPROVAL_NEEDED, "the policy was not accepted").why(why)
}

/// Asks, after what changes was shown.
fn ask_to_accept(review: &PolicyReview) -> Result<(), Error> {
    let rejected = || {
        Error::new(codes::APPROVAL_REJECTED, "the policy was not accepted").why("the answer was no")
    };
    if let Some(phrase) = review.phrase() {
        let question = format!("Type `{phrase}` to let this file decide: ");
        return if ask_phrase(&question, &phrase) { Ok(()) } else { Err(rejected()) };
    }
    match ask("Let this file decide from now on? [y/n] ") {
        Some(true) => Ok(()),
        Some(false) => Err(rejected()),
        None => Err(not_accepted("the terminal was closed without an answer")),
    }
}

/// One decision that comes out differently.
fn change_line(change: &Changed) -> String {
    let line = format!(
        "{} {} {}: {} {}: {} -> {}{}: {}",
        change.session,
        change.branch,
        change.seq,
        change.syscall,
        change.subject.as_deref().unwrap_or_default(),
        change.was.as_str(),
        change.now.as_str(),
        if change.breaking { " [BREAKING]" } else { "" },
        each_once(&change.reasons),
    );
    output::visible(&line, false)
}
