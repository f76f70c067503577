//! Plans that a model makes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use glasshouse_kernel::Config;
use glasshouse_kernel::codes;
use glasshouse_kernel::plans::{Heard, Made, Plans, Plugins, prompted};
use glasshouse_model::Principal;
use glasshouse_model::body::RunMode;
use glasshouse_plan::intake::Kind;
use glasshouse_plan::stream::Stream;
use glasshouse_plan::{Context, Profile, ProfileName};
use glasshouse_provider::Cancel;
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::plans::{plans_in, view};
use crate::ask::{Ask, Leaving, invalid};
use crate::models::Connected;
use crate::problem::Problem;
use crate::quota::check_room;
use crate::reply::{Reply, json_bytes};
use crate::route::Route;
use crate::service::Service;
use crate::{Error, Result};

/// Longest prompt in bytes.
const MAX_PROMPT_BYTES: usize = 32 << 10;
/// Name of the run whose previews are shown.
const RUN: u64 = 1;
/// Name of the surface that ids are prefixed with.
const SURFACE: &str = "plan";
/// Lines that wait for a slow client; a model is not held back by one, its previews are left out.
const MAX_LINES: usize = 256;
/// How long the last line waits for a slow client.
const LAST_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(rename = "PlanPrompt")]
#[serde(deny_unknown_fields)]
pub(crate) struct Prompt {
    /// What the interface is for.
    prompt: String,
    provider: Option<String>,
    model: Option<String>,
    base_url: Option<String>,
    /// Scenario of the scripted provider.
    scenario: Option<String>,
    #[schemars(with = "Option<String>")]
    profile: Option<ProfileName>,
    project: Option<PathBuf>,
}

/// Asks for a plan; `hear` is told of it while it comes. The question, which costs money, is stopped when `left`
/// says that nobody waits for it, and when the server stops.
fn make(
    service: &Service,
    (asked, by): (&Prompt, &Principal),
    hear: &mut glasshouse_kernel::plans::Hear<'_>,
    left: impl Future<Output = ()>,
) -> Result<Made> {
    if asked.prompt.trim().is_empty() || asked.prompt.len() > MAX_PROMPT_BYTES {
        return Err(invalid("the prompt cannot be used")
            .why(format!("it is 1 to {MAX_PROMPT_BYTES} bytes of words")));
    }
    let project = asked.project.clone().unwrap_or_else(|| service.home.clone());
    let Prompt { provider, model, base_url, .. } = asked.clone();
    let config = Config { provider, model, base_url, ..Config::default() };
    let Connected { provider, secrets, model } =
        service.desk.connect(config, &project, asked.scenario.as_deref())?;
    let questions = service.kernel.questions(&project, &*provider, &secrets)?;
    let mut questions = questions.by(by.clone());
    let name = asked.profile.unwrap_or(ProfileName::Strict);
    let profile = Profile::named(name);
    let plugins = Plugins::default();
    let task = (asked.prompt.as_str(), &profile, &plugins);
    let cancel = Cancel::new();
    let made = service.desk.block_on(async {
        let making = prompted(&mut questions, &model, task, hear, &cancel);
        let mut making = std::pin::pin!(making);
        tokio::select! {
            made = &mut making => return made,
            () = left => {}
            () = service.ending.cancelled() => {}
        }
        cancel.cancel();
        // Its end is recorded like any other.
        making.await
    });
    drop(questions);
    accepted(|| plans_in(service, by, &project, &service.ending), name, made)
}

/// What a model made, where it may be shown. A question that led to no such plan is recorded as one.
fn accepted(
    plans: impl FnOnce() -> Result<Plans>,
    profile: ProfileName,
    made: glasshouse_kernel::Result<Made>,
) -> Result<Made> {
    let made = match made {
        Ok(made) => made,
        Err(error) => {
            // Without its record it still failed for this reason.
            let _ = plans().and_then(|mut plans| Ok(plans.turned_away(profile, Err(&error))?));
            return Err(error.into());
        }
    };
    if made.report.safe {
        return Ok(made);
    }
    plans()?.turned_away(profile, Ok(&made))?;
    let first = made.report.issues.first();
    let why = first.map(|issue| format!("{} at {}", issue.message, issue.pointer));
    Err(Error::new(codes::PLAN_REFUSED, "the model's plan is refused")
        .why(why.unwrap_or_default())
        .with("issues", made.report.issue_count))
}

/// Shows what a model made.
fn show(
    service: &Service,
    (asked, by): (&Prompt, &Principal),
    made: &Made,
    left: impl Future<Output = ()> + Send + 'static,
) -> Result<Reply> {
    let profile = asked.profile.unwrap_or(ProfileName::Strict);
    let text = made.plan.to_string();
    let project = asked.project.clone().unwrap_or_else(|| service.home.clone());
    let until = service.stopped_when(left)?;
    let run =
        plans_in(service, by, &project, &until)?.show(&text, RunMode::Prompt, false, profile)?;
    Ok(view(StatusCode::CREATED, &run))
}

/// What is asked for, within what the caller's tenant may ask for.
fn asked(ask: &Ask) -> Result<Prompt> {
    let asked: Prompt = ask.json()?;
    if asked.base_url.is_some() {
        ask.check_host("base_url")?;
    }
    let project = asked.project.clone().map(|project| ask.project(project)).transpose()?;
    let profile = Some(ask.profile(asked.profile.unwrap_or(ProfileName::Strict))?);
    Ok(Prompt { project, profile, ..asked })
}

/// Makes, shows and registers a plan.
pub(crate) fn whole(service: &Service, ask: &Ask) -> Result<Reply> {
    let asked = (&asked(ask)?, ask.principal()?);
    let _running = service.desk.take_question(|ahead| check_room(service, ask, ahead))?;
    let made = make(service, asked, &mut |_| {}, ask.leaving.clone().left())?;
    show(service, asked, &made, ask.leaving.clone().left())
}

/// The same, told while it happens.
pub(crate) fn stream(service: &Service, ask: &Ask) -> Result<Reply> {
    let (asked, by) = (asked(ask)?, ask.principal()?.clone());
    let running = service.desk.take_question(|ahead| check_room(service, ask, ahead))?;
    let (lines, taken) = mpsc::channel(MAX_LINES);
    let service = service.share()?;
    let route = ask.route;
    let tell = move || {
        let _running = running;
        told(&service, (&asked, &by), route, &lines);
    };
    std::thread::Builder::new()
        .name("prompt".to_owned())
        .spawn(tell)
        .map_err(|e| Error::new(crate::codes::SERVER_FAILED, "no thread is left").why(e))?;
    Ok(Reply::lines(taken))
}

fn told(
    service: &Arc<Service>,
    asked: (&Prompt, &Principal),
    route: &'static Route,
    lines: &mpsc::Sender<Bytes>,
) {
    let line = |value: &Value| Bytes::from([json_bytes(value), b"\n".to_vec()].concat());
    let profile = Profile::named(asked.0.profile.unwrap_or(ProfileName::Strict));
    let Ok(context) = Context::new(SURFACE) else { return };
    let mut preview = Stream::new(RUN, &profile, &context);
    let mut hear = |heard: Heard<'_>| {
        let told = match heard {
            Heard::Begins => {
                preview = Stream::new(RUN, &profile, &context);
                json!({ "type": "begins" })
            }
            Heard::Note(note) => json!({ "type": "note", "note": note }),
            Heard::Text(text) => {
                preview.push(text.as_bytes());
                let Some(frame) = preview.frame() else { return };
                json!({ "type": "preview", "frame": frame })
            }
        };
        let _ = lines.try_send(line(&told));
    };
    let made = make(service, asked, &mut hear, lines.closed());
    let last = made.and_then(|made| {
        // Whoever waits for the client's leave holds its answer open, so it waits no longer than the code runs.
        let ((running, done), waited_for) = (Leaving::new(), lines.clone());
        let left = async move {
            tokio::select! {
                () = waited_for.closed() => {}
                () = done.left() => {}
            }
        };
        let reply = show(service, asked, &made, left);
        drop(running);
        let reply = reply?;
        let run: Value = serde_json::from_slice(reply.whole()).unwrap_or_default();
        let is_text = made.kind == Kind::Text;
        Ok(json!({
            "type": "done", "plan": made.plan, "repaired": made.repaired, "text_only": is_text,
            "run": run,
        }))
    });
    let last = last.unwrap_or_else(|error| {
        let problem = Problem::of(error);
        service.faults.tell(&problem, Some(route));
        json!({ "type": "error", "problem": problem })
    });
    // A client that takes nothing holds no thread for long.
    let sent = lines.send_timeout(line(&last), LAST_WITHIN);
    service.desk.block_on(async {
        tokio::select! {
            _ = sent => {}
            () = service.ending.cancelled() => {}
        }
    });
}
