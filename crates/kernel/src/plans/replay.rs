//! `ui replay`: a run is made again from what stood before it, and bytes are compared.

use std::time::Instant;

use glasshouse_model::Kind;
use glasshouse_model::Seq;
use glasshouse_model::body::{PlanRun, RunMode, RunStatus};
use glasshouse_plan::ProfileName;
use serde::Serialize;

use super::code::Moment;
use super::fold::{self, Fold};
use super::hooks::Hooks;
use super::work::{self, Ask, Means};
use super::{Body, Chosen, Plans, RENDERER, Stages};
use crate::{Result, codes};

/// What a replay found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// The run of the replay itself.
    pub run: Seq,
    /// The run that was made again.
    pub of: Seq,
    /// Whether everything is as it was.
    pub equal: bool,
    /// What differs: `status`, `version`, `text`, `state`, `markup`, `profile`.
    pub differences: Vec<&'static str>,
    /// Whether the renderer is another version than the one of the run.
    pub renderer_changed: bool,
}

impl Plans {
    /// Makes a run again from what stood before it, and compares. Nothing is registered and no state
    /// changes; that it was done is recorded.
    ///
    /// # Errors
    /// `plan_run_not_found`; `plan_run_not_replayable` for one that never began; the log's errors.
    pub fn replay(&mut self, run: Seq) -> Result<Replayed> {
        let begun = Instant::now();
        let home = self.known()?.ok_or_else(|| fold::no_run(run))?;
        let shown = fold::run_at(&self.log, &home.branch, run)?;
        let (Some(was), Ok(name)) = (&shown.run, shown.profile.parse::<ProfileName>()) else {
            return Err(fold::no_run(run));
        };
        let ask = Ask::of(&self.log, &shown, was)?;
        let mut before = Fold::default();
        before.follow(&self.log, &home.branch, was.first - 1)?;
        let chosen = Chosen::new(name, &was.constraints)?;
        let mut differences = Vec::new();
        let moment = was.script.as_ref().map_or(Moment::at(0), Moment::of);
        let means = Means {
            coder: &self.coder,
            cancel: &self.cancel,
            moment,
            profile: &chosen.profile,
            hooks: Hooks::recorded(&self.log, &was.hooks),
        };
        let again = work::work(&before, &self.log, &ask, &means, &mut Stages::default());
        let succeeded = was.status == RunStatus::Succeeded;
        if again.is_ok() != succeeded && was.code.as_deref() != Some(codes::POLICY_DENIED.name) {
            differences.push("status");
        }
        if was.profile_digest != Some(chosen.digest()) {
            differences.push("profile");
        }
        if let Ok(work) = &again
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
        let status = if differences.is_empty() { RunStatus::Succeeded } else { RunStatus::Failed };
        body.end(status, None, begun);
        let seq = self.append_again(&home, &body.draft(Kind::PlanRendered))?;
        Ok(Replayed {
            run: seq,
            of: run,
            equal: differences.is_empty(),
            differences,
            renderer_changed: was.renderer != RENDERER,
        })
    }
}
