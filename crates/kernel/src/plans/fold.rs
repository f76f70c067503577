//! The fold: what the events of the branch say about plans. Nothing else is kept anywhere.

use std::collections::{BTreeMap, VecDeque};

use glasshouse_log::Log;
use glasshouse_model::body::{
    BlobRef, PlanRegistered, PlanRolledBack, PlanShown, PlanStateChanged, RunMode, RunStatus,
};
use glasshouse_model::{BranchId, Digest, Event, Kind, Seq};
use glasshouse_plan::registry::free_version;
use glasshouse_plan::state::State;
use glasshouse_plan::{Limits, ProfileName};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{PlanHistory, of_plan};
use crate::{Error, Result, codes};

/// Most runs that a fold holds; older ones are found in the log by their name.
const MAX_RUNS: usize = 1_000;

/// One version of a plan.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "PlanVersion")]
pub struct VersionRecord {
    /// Its number.
    pub version: i64,
    /// Digest of its text.
    pub text: Digest,
    /// Digest of the plan without its version.
    pub content: Digest,
    /// Steps of its state so far.
    pub revision: u64,
    /// When it was registered, microseconds since 1970.
    pub registered_us: u64,
}

/// One run.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "PlanRunRecord")]
pub struct RunRecord {
    /// Its name.
    pub run: Seq,
    /// What made it begin.
    pub mode: RunMode,
    /// How it ended.
    pub status: RunStatus,
    /// Plan id.
    pub plan: Option<String>,
    /// Version.
    pub version: Option<i64>,
    /// Name of the event.
    pub event: Option<String>,
    /// The run that it made again.
    pub of: Option<Seq>,
    /// Error code.
    pub code: Option<String>,
    /// When it ended, microseconds since 1970.
    pub ended_us: u64,
    /// How long it took, in microseconds.
    pub duration_us: u64,
}

/// Values of a state, in the event or beside it.
#[derive(Debug, Clone)]
enum Values {
    Here(Map<String, Value>),
    Stored(BlobRef),
}

#[derive(Debug, Clone)]
pub(super) struct Version {
    plan: String,
    pub(super) version: i64,
    pub(super) text: BlobRef,
    pub(super) content: Digest,
    registered_us: u64,
    revision: u64,
    values: Option<Values>,
}

#[derive(Debug, Default)]
struct Versions {
    current: i64,
    /// Name of the profile under which the plan was last shown.
    profile: Option<String>,
    by_number: BTreeMap<i64, Version>,
    /// The last event that made another version or state of it.
    changed: Seq,
}

/// What is known at one place of the branch.
#[derive(Debug, Default)]
pub(super) struct Fold {
    head: Seq,
    /// The event that cleared the history last.
    cleared: Seq,
    plans: BTreeMap<String, Versions>,
    runs: VecDeque<RunRecord>,
    run_count: u64,
}

fn unreadable(event: &Event, why: impl std::fmt::Display) -> Error {
    Error::new(codes::LOG_UNREADABLE, format!("event {} cannot be read", event.seq())).why(why)
}

impl Fold {
    /// Goes on to an event, or to the head.
    pub(super) fn follow(&mut self, log: &Log, branch: &BranchId, upto: Seq) -> Result<()> {
        if self.head >= upto {
            return Ok(());
        }
        for event in log.events_from(branch, self.head + 1) {
            let event = event?;
            if event.seq() > upto {
                break;
            }
            self.apply(&event)?;
        }
        Ok(())
    }

    pub(super) const fn head(&self) -> Seq {
        self.head
    }

    pub(super) fn apply(&mut self, event: &Event) -> Result<()> {
        let fail = |error: serde_json::Error| unreadable(event, error);
        match event.kind() {
            Kind::PlanRegistered => {
                let body: PlanRegistered = event.body_as().map_err(fail)?;
                let versions = self.plans.entry(body.plan.clone()).or_default();
                (versions.current, versions.changed) = (body.version, event.seq());
                versions.by_number.insert(
                    body.version,
                    Version {
                        plan: body.plan,
                        version: body.version,
                        text: body.text,
                        content: body.content,
                        registered_us: event.header.time_us,
                        revision: 0,
                        values: None,
                    },
                );
            }
            Kind::PlanRolledBack => {
                let body: PlanRolledBack = event.body_as().map_err(fail)?;
                if let Some(versions) = self.plans.get_mut(&body.plan) {
                    (versions.current, versions.changed) = (body.to, event.seq());
                }
            }
            Kind::PlanStateChanged => {
                let body: PlanStateChanged = event.body_as().map_err(fail)?;
                let version = self.plans.get_mut(&body.plan).and_then(|versions| {
                    versions.changed = event.seq();
                    versions.by_number.get_mut(&body.version)
                });
                if let Some(version) = version {
                    version.revision = body.revision;
                    version.values = match (body.values, body.stored) {
                        (Some(Value::Object(values)), _) => Some(Values::Here(values)),
                        (_, Some(blob)) => Some(Values::Stored(blob)),
                        _ => return Err(unreadable(event, "it holds no state")),
                    };
                }
            }
            Kind::PlanRendered | Kind::PlanRefused | Kind::QuotaThrottled => {
                let body: PlanShown = event.body_as().map_err(fail)?;
                self.run(event, body);
            }
            Kind::PlanHistoryCleared => {
                *self = Self { cleared: event.seq(), ..Self::default() };
            }
            _ => {}
        }
        self.head = event.seq();
        Ok(())
    }

    fn run(&mut self, event: &Event, body: PlanShown) {
        let Some(run) = body.run else { return };
        self.run_count += 1;
        if run.status == RunStatus::Succeeded && run.mode != RunMode::Replay {
            let shown = body.plan.as_ref().and_then(|plan| self.plans.get_mut(plan));
            if let Some(versions) = shown {
                versions.profile = Some(body.profile.clone());
            }
        }
        if self.runs.len() == MAX_RUNS {
            self.runs.pop_back();
        }
        let kind = run.event.as_ref().and_then(|event| event.get("type")).and_then(Value::as_str);
        self.runs.push_front(RunRecord {
            run: event.seq(),
            mode: run.mode,
            status: run.status,
            plan: body.plan,
            version: run.version,
            event: kind.map(str::to_owned),
            of: run.of,
            code: run.code,
            ended_us: event.header.time_us,
            duration_us: run.duration_us,
        });
    }

    /// Whether versions or states of a plan, or of any, are others than they were at a place.
    pub(super) fn has_changed(&self, plan: Option<&str>, since: Seq) -> bool {
        let mut plans = self.plans.iter().filter(|(id, _)| plan.is_none_or(|plan| plan == *id));
        self.cleared > since || plans.any(|(_, versions)| versions.changed > since)
    }

    /// The version of a plan that is shown.
    pub(super) fn current(&self, plan: &str) -> Result<&Version> {
        let versions = self.plans.get(plan).ok_or_else(|| no_plan(plan))?;
        versions.by_number.get(&versions.current).ok_or_else(|| no_plan(plan))
    }

    pub(super) fn profile_of(&self, plan: &str) -> Option<ProfileName> {
        self.plans.get(plan)?.profile.as_ref()?.parse().ok()
    }

    pub(super) fn version(&self, plan: &str, version: i64) -> Result<&Version> {
        let versions = self.plans.get(plan).ok_or_else(|| no_plan(plan))?;
        versions.by_number.get(&version).ok_or_else(|| {
            let known: Vec<i64> = versions.by_number.keys().copied().collect();
            Error::new(codes::PLAN_NOT_FOUND, format!("the plan {plan:?} has no version {version}"))
                .why(format!("it has {known:?}"))
                .with("versions", known)
        })
    }

    /// The version that holds this content already.
    pub(super) fn with_content(&self, plan: &str, content: &Digest) -> Option<&Version> {
        self.plans.get(plan)?.by_number.values().find(|version| version.content == *content)
    }

    /// The number that new content gets.
    pub(super) fn free_version(&self, plan: &str, asked: i64) -> i64 {
        self.plans.get(plan).map_or(asked, |versions| free_version(&versions.by_number, asked))
    }

    pub(super) fn plans(&self) -> Vec<PlanHistory> {
        let version = |version: &Version| VersionRecord {
            version: version.version,
            text: version.text.blob,
            content: version.content,
            revision: version.revision,
            registered_us: version.registered_us,
        };
        self.plans
            .iter()
            .map(|(plan, versions)| PlanHistory {
                plan: plan.clone(),
                current: versions.current,
                older_versions: 0,
                versions: versions.by_number.values().map(version).collect(),
            })
            .collect()
    }

    pub(super) fn runs(&self, most: usize) -> Vec<RunRecord> {
        self.runs.iter().take(most).cloned().collect()
    }

    pub(super) fn counts(&self) -> (u64, u64) {
        (self.plans.len() as u64, self.run_count)
    }
}

impl Version {
    /// The plan as it is stored, if it is within limits: a profile may accept less than the one that it
    /// was registered under.
    pub(super) fn plan(&self, log: &Log, limits: &Limits) -> Result<glasshouse_plan::Plan> {
        let bytes = log.blob(&self.text.blob)?;
        let text = String::from_utf8_lossy(&bytes);
        glasshouse_plan::parse(&text, limits).map_err(|error| of_plan(&error))
    }

    /// Its state as it is now.
    pub(super) fn state(&self, log: &Log) -> Result<State> {
        let values = match &self.values {
            Some(Values::Here(values)) => values.clone(),
            Some(Values::Stored(blob)) => serde_json::from_slice(&log.blob(&blob.blob)?)
                .map_err(|e| Error::new(codes::LOG_UNREADABLE, "a state cannot be read").why(e))?,
            None => Map::new(),
        };
        Ok(State {
            plan_id: self.plan.clone(),
            plan_version: self.version,
            revision: self.revision,
            values,
        })
    }
}

fn no_plan(plan: &str) -> Error {
    Error::new(codes::PLAN_NOT_FOUND, format!("there is no plan {plan:?}"))
}

pub(super) fn no_run(run: Seq) -> Error {
    Error::new(codes::PLAN_RUN_NOT_FOUND, format!("there is no run {run}"))
}

/// The record of a run, wherever in the log it is.
pub(super) fn run_at(log: &Log, branch: &BranchId, run: Seq) -> Result<PlanShown> {
    let events = if run == 0 { Vec::new() } else { log.read(branch, run, 1)? };
    let event = events.first().filter(|event| event.seq() == run).ok_or_else(|| no_run(run))?;
    match event.kind() {
        Kind::PlanRendered | Kind::PlanRefused | Kind::QuotaThrottled => {
            event.body_as().map_err(|error| unreadable(event, error))
        }
        _ => Err(no_run(run)),
    }
}
