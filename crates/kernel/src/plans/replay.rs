//! `ui replay`: a run is made again from what stood before it, and bytes are compared.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Instant;

use glasshouse_model::body::{PlanCode, PlanRun, RunMode, RunStatus};
use glasshouse_model::{Digest, Kind, Seq};
use glasshouse_plan::ProfileName;
use rustix::fs::{Mode, OFlags};
use schemars::JsonSchema;
use serde::Serialize;

use super::code::Moment;
use super::fold::{self, Fold};
use super::governor;
use super::hooks::Hooks;
use super::work::{self, Ask, Failure, Means, Work};
use super::{Body, Chosen, Plans, RENDERER, Stages};
use crate::{Error, Result, codes};

/// What a replay found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "PlanReplay")]
pub struct Replayed {
    /// The run of the replay itself.
    pub run: Seq,
    /// The run that was made again.
    pub of: Seq,
    /// Whether everything is as it was.
    pub equal: bool,
    /// What differs: `status`, `code`, `version`, `text`, `state`, `markup`, `profile`.
    pub differences: Vec<&'static str>,
    /// Whether the renderer is another version than the one of the run.
    pub renderer_changed: bool,
}

impl Plans {
    /// Makes a run again from what stood before it, and compares. Nothing is registered and no state
    /// changes; that it was done is recorded.
    ///
    /// # Errors
    /// `plan_run_not_found`; `plan_run_not_replayable` for one that never began, whose modules are not here, or whose code was
    /// ended at its time; `plan_throttled` while as many are under way as runs may be; the log's errors.
    pub fn replay(&mut self, run: Seq) -> Result<Replayed> {
        let begun = Instant::now();
        let home = self.known()?.ok_or_else(|| fold::no_run(run))?;
        let shown = fold::run_at(&self.log, &home.branch, run)?;
        let (Some(was), Ok(name)) = (&shown.run, shown.profile.parse::<ProfileName>()) else {
            return Err(fold::no_run(run));
        };
        let concurrent = self.governor.concurrent();
        let place = place(self.coder.home(), concurrent).map_err(|error| {
            Error::new(codes::PLAN_THROTTLED, "the replay did not begin").why(error)
        })?;
        let _place = place.ok_or_else(|| governor::no_place(concurrent))?;
        let _naming = self.log.naming()?;
        let ask = Ask::of(&self.log, &shown, was)?;
        let mut before = Fold::default();
        before.follow(&self.log, &home.branch, was.first - 1)?;
        let chosen = Chosen::new(name, &was.constraints)?;
        let means = Means {
            coder: &self.coder,
            cancel: &self.cancel,
            moment: was.script.as_ref().map_or(Moment::at(0), Moment::of),
            profile: &chosen.profile,
            masker: &self.masker,
            hooks: Hooks::recorded(&self.log, &was.hooks),
            patience: if is_late(was.script.as_ref()) { 1 } else { PATIENCE },
            ran: RefCell::default(),
        };
        // What the policy denied is not run here either.
        let again = match was.code.as_deref() == Some(codes::POLICY_DENIED.name) {
            true => Err(Failure::new(super::denied("as it was"))),
            false => work::work(&before, &self.log, &ask, &means, &mut Stages::default()),
        };
        let compared = compare(was, &again, chosen.digest());
        let mut body = Body(shown.clone());
        if let Some(run_body) = &mut body.0.run {
            *run_body = PlanRun {
                mode: RunMode::Replay,
                first: self.fold.head() + 1,
                of: Some(run),
                renderer: RENDERER.to_owned(),
                ..run_body.clone()
            };
        }
        match &compared {
            Ok(found) if found.is_empty() => body.end(RunStatus::Succeeded, None, begun),
            Ok(_) => body.end(RunStatus::Failed, None, begun),
            Err(error) => body.end(RunStatus::Failed, Some(error.code()), begun),
        }
        let seq = self.append_again(&home, &body.draft(Kind::PlanRendered))?;
        let differences = compared?;
        Ok(Replayed {
            run: seq,
            of: run,
            equal: differences.is_empty(),
            differences,
            renderer_changed: was.renderer != RENDERER,
        })
    }
}

/// A place for a replay, until it is dropped; nothing while as many as this are under way in the
/// installation. The system gives the places of processes that were killed back.
fn place(home: &Path, concurrent: u32) -> std::io::Result<Option<File>> {
    let places = home.join("cache/replays");
    std::fs::create_dir_all(&places)?;
    for number in 0..concurrent {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let place = File::from(rustix::fs::open(places.join(number.to_string()), flags, mode)?);
        match place.try_lock() {
            Ok(()) => return Ok(Some(place)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(None)
}

/// How many times the time of a run that did not use it up a replay has.
const PATIENCE: u64 = 10;

/// Whether code was ended at its time, which is another step of it each time.
fn is_late(script: Option<&PlanCode>) -> bool {
    script.is_some_and(|script| script.limit.as_deref() == Some("time"))
}

const GONE: &str = glasshouse_script::codes::MODULE_UNAVAILABLE.name;

/// The modules that were not here for a run: of its components and imports by name, and an empty name for the
/// one that ended it.
fn gone<'r>(code: Option<&str>, script: Option<&'r PlanCode>) -> BTreeSet<&'r str> {
    let components = script.and_then(|script| script.components.as_ref());
    let faults = components.into_iter().flat_map(|it| &it.faults);
    let mut gone: BTreeSet<&str> =
        faults.filter(|fault| fault.code == GONE).map(|fault| fault.module.as_str()).collect();
    if code == Some(GONE) {
        gone.insert("");
    }
    gone
}

/// What differs between a run and the same run made again.
///
/// # Errors
/// `plan_run_not_replayable` when a module was there for one of them only: modules are in a cache, which
/// forgets, and not in the log. Also when code was ended at its time and something differs.
fn compare(
    was: &PlanRun,
    again: &Result<Work, Failure>,
    profile: Digest,
) -> Result<Vec<&'static str>> {
    let code = again.as_ref().err().map(|failure| failure.error.code());
    let was_code = was.code.as_deref();
    let script = match again {
        Ok(work) => work.code.as_ref(),
        Err(failure) => failure.code.as_deref(),
    };
    let (missing, was_missing) = (gone(code, script), gone(was_code, was.script.as_ref()));
    if missing != was_missing {
        let failed = again.as_ref().err().filter(|_| code == Some(GONE));
        let why = match (failed, missing.difference(&was_missing).next()) {
            (Some(failure), _) => {
                let report = failure.error.report();
                format!("{}: {}", report.what, report.why)
            }
            (None, Some(name)) => format!("the module {name} is not here"),
            (None, None) => "a module was not here then, and is now".to_owned(),
        };
        return Err(Error::new(codes::PLAN_RUN_NOT_REPLAYABLE, "the run cannot be made again")
            .why(why)
            .fix("`glasshouse ui pin PLAN` fetches what the plan locks; then replay again"));
    }
    let succeeded = was.status == RunStatus::Succeeded;
    let mut differences = Vec::new();
    if again.is_ok() != succeeded {
        differences.push("status");
    } else if !succeeded && code != was_code {
        differences.push("code");
    }
    if was.profile_digest != Some(profile) {
        differences.push("profile");
    }
    if let Ok(work) = again
        && succeeded
    {
        for (name, differs) in [
            ("version", was.version != Some(work.state.plan_version)),
            ("text", was.text != Some(work.text)),
            ("state", was.state != Some(work.state_digest())),
            ("markup", was.markup != Some(work.markup_digest())),
        ] {
            if differs {
                differences.push(name);
            }
        }
    }
    if !differences.is_empty() && (is_late(was.script.as_ref()) || is_late(script)) {
        return Err(Error::new(codes::PLAN_RUN_NOT_REPLAYABLE, "the run cannot be made again")
            .why("time: its code was ended at its limit, which is another step of it each time")
            .fix(
                "let the plan do less in one run, or ask for more in `capabilities.maxExecutionMs`",
            ));
    }
    Ok(differences)
}
