//! Code of plans in runs: which lane runs it, with which time and chance, and what is recorded.
//!
//! What code makes takes the place of the plan's root and is then checked and rendered like any plan.
//! Code that fails leaves the plan's own root, which was checked as well, and the record says why. A
//! plan whose source may not run, or that asks for a lane that is not here, is refused.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use glasshouse_log::Log;
use glasshouse_model::body::PlanCode;
use glasshouse_plan::state::State;
use glasshouse_plan::{Event, Limits, Plan, Profile};
use glasshouse_sandbox::{HostConfig, SandboxHost};
use glasshouse_script::{Engine, Language, Ran, Runtime, Source, Task, worker};
use serde_json::{Value, json};

use super::of_plan;
use super::work::Means;
use crate::driver::{Cancel, tell_what_was_examined};
use crate::{Error, Result, codes};

/// The lane that runs code on a server: a process of its own, in a sandbox without a network.
const LANE: &str = "isolated-vm";
/// All lanes of this host.
pub const LANES: &[&str] = &[LANE];
/// Time of code that asks for none.
const DEFAULT_TIME_MS: u64 = 1_500;
/// The export that is shown when a source names none, or one that it has not.
const DEFAULT_EXPORT: &str = "default";

/// Runs code of plans; its host begins with the first plan that carries some.
#[derive(Debug)]
pub(crate) struct Coder {
    config: HostConfig,
    /// Says what was found when this machine was examined.
    log: Log,
    engine: Engine,
    host: OnceLock<SandboxHost>,
    /// How many workers wait for plans.
    ready: AtomicUsize,
}

/// Time and chance as code sees them. They are in the record, so a replay has the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) now_ms: i64,
    pub(super) seed: u32,
}

impl Moment {
    /// A moment of the clock.
    pub(super) fn at(now_us: u64) -> Self {
        let [.., a, b, c, d] = now_us.to_be_bytes();
        let seed = u32::from_be_bytes([a, b, c, d]);
        Self { now_ms: i64::try_from(now_us / 1_000).unwrap_or(i64::MAX), seed }
    }

    /// That of a run that is made again.
    pub(super) fn of(code: &PlanCode) -> Self {
        Self { now_ms: code.now_ms, seed: code.seed }
    }
}

/// A plan whose code has run.
pub(super) struct Coded {
    /// The plan to show.
    pub(super) plan: Plan,
    /// What is recorded; nothing when there was no code.
    pub(super) record: Option<PlanCode>,
}

impl Coder {
    pub(crate) fn new(config: HostConfig, log: Log) -> Self {
        let (host, ready) = (OnceLock::new(), AtomicUsize::new(0));
        Self { config, log, engine: Engine::new(), host, ready }
    }

    pub(crate) fn keep_ready(&self, count: usize) {
        self.ready.store(count, Ordering::Relaxed);
    }

    /// Makes workers for the next plans, where code ran already: nobody waits for it.
    pub(super) fn refill(self: &Arc<Self>) {
        let count = self.ready.load(Ordering::Relaxed);
        if self.engine.prepared() >= count || self.host.get().is_none() {
            return;
        }
        let coder = Arc::clone(self);
        // Where no thread or no sandbox can be had, the next plan makes its own, or says why not.
        let _ = std::thread::Builder::new().name("workers".to_owned()).spawn(move || {
            if let Some(host) = coder.host.get() {
                drop(coder.engine.prepare(host, count));
            }
        });
    }

    fn host(&self) -> Result<&SandboxHost> {
        let host = match self.host.get() {
            Some(host) => host,
            None => {
                let host = SandboxHost::start(self.config.clone())?;
                self.host.get_or_init(|| host)
            }
        };
        tell_what_was_examined(&self.log, host)?;
        Ok(host)
    }

    /// Runs the code of a plan that may be shown here; `None` for one that has none and asks for no
    /// lane.
    pub(super) fn run(
        &self,
        plan: &Plan,
        (state, event): (&State, Option<&Event>),
        means: &Means<'_>,
    ) -> Result<Option<Coded>> {
        let Means { profile, moment, .. } = *means;
        let told = |error: glasshouse_plan::Error| of_plan(&error);
        let Some(source) = plan.source() else {
            if plan.lane() == glasshouse_plan::LANE_WITHOUT_CODE {
                return Ok(None);
            }
            // There is nothing to run, so every lane of this host will do.
            let plan = plan.after_code(None, &Limits::default()).map_err(told)?;
            return Ok(Some(Coded { plan, record: None }));
        };
        let text = |key: &str| source.get(key).and_then(glasshouse_plan::json::Json::as_text);
        let task = Task {
            export: text("exportName").unwrap_or(DEFAULT_EXPORT).to_owned(),
            runtime: text("runtime").and_then(Runtime::parse).unwrap_or(Runtime::Renderify),
            input: json!({
                "context": {"userId": "anonymous", "variables": {}},
                "state": state.values,
                "event": event,
            }),
            now_ms: moment.now_ms,
            seed: moment.seed,
            limits: limits(plan, profile),
        };
        let manifest = plan.manifest().into_iter().flatten();
        let manifest = worker::manifest(
            manifest.filter_map(|(name, entry)| Some((name, entry.get("resolvedUrl")?.as_text()?))),
        );
        let source = Source {
            code: text("code").unwrap_or_default(),
            language: text("language").and_then(Language::parse).unwrap_or(Language::Js),
            runtime: task.runtime,
            manifest: &manifest,
        };
        let (ran, export_missing) = self.ran(&source, task, means.cancel)?;
        let mut record = PlanCode {
            requested: plan.lane().to_owned(),
            effective: LANE.to_owned(),
            isolation: ran.receipt.isolation,
            compiler: ran.receipt.compiler.to_owned(),
            engine: ran.receipt.engine.to_owned(),
            module: ran.receipt.module,
            now_ms: moment.now_ms,
            seed: moment.seed,
            duration_us: ran.receipt.duration_us,
            cpu_us: ran.receipt.cpu_us,
            limit: ran.receipt.limit.map(|limit| limit.as_str().to_owned()),
            killed: ran.receipt.killed.map(str::to_owned),
            export_missing,
            error: None,
        };
        let made: Option<Value> = match ran.node {
            Ok(node) => Some(node),
            Err(error) => {
                record.error = Some(serde_json::to_value(error.report()).unwrap_or_default());
                None
            }
        };
        let plan = plan.after_code(made.as_ref(), &profile.limits()).map_err(told)?;
        Ok(Some(Coded { plan, record: Some(record) }))
    }

    /// Runs what the source exports under the name, or else its default.
    fn ran(&self, source: &Source<'_>, mut task: Task, cancel: &Cancel) -> Result<(Ran, bool)> {
        let stop = cancel.sandbox();
        let ended = |error| stopped(cancel, error);
        let worker = self.engine.worker(self.host()?)?;
        let program = worker.compile(source, stop).map_err(ended)?;
        let mut ran = worker.run(&program, &task, stop).map_err(ended)?;
        let missing = |ran: &Ran| {
            ran.node.as_ref().is_err_and(|error| error.is(glasshouse_script::codes::EXPORT_MISSING))
        };
        let export_missing = task.export != DEFAULT_EXPORT && missing(&ran);
        if export_missing {
            DEFAULT_EXPORT.clone_into(&mut task.export);
            let worker = self.engine.worker(self.host()?)?;
            ran = worker.run(&program, &task, stop).map_err(ended)?;
        }
        // A plan's own root is not what was asked for, so a run that was stopped shows nothing.
        match ran.node {
            Err(error) if ran.receipt.killed == Some("cancelled") => Err(stopped(cancel, error)),
            node => Ok((Ran { node, ..ran }, export_missing)),
        }
    }
}

/// What a run that was stopped ends with; any other error is itself.
fn stopped(cancel: &Cancel, error: glasshouse_script::Error) -> Error {
    if cancel.is_cancelled() {
        return Error::new(codes::CANCELLED, "the plan's code was stopped")
            .fix("run the command again; nothing was registered");
    }
    error.into()
}

/// What the plan asks for, within what the profile allows.
fn limits(plan: &Plan, profile: &Profile) -> glasshouse_script::Limits {
    let asked = plan.capabilities().and_then(|asked| asked.get("maxExecutionMs"));
    let asked = asked.and_then(|asked| asked.to_value().as_f64());
    let most = profile.max_allowed_execution_ms;
    let defaults = glasshouse_script::Limits::default();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "clamped to the range of a profile"
    )]
    let time_ms = asked
        .map_or(DEFAULT_TIME_MS.min(most as u64), |asked| asked.clamp(1.0, most as f64) as u64);
    glasshouse_script::Limits { time_ms, ..defaults }
}

/// What to tell of code that made nothing.
#[must_use]
pub fn told(code: &PlanCode) -> Option<String> {
    let error = code.error.as_ref()?;
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
    Some(format!("{}: {}: {}", text("code"), text("what"), text("why")))
}
