//! Code of plans in runs: which lane runs it, with which time and chance, and what is recorded.
//!
//! What code makes takes the place of the plan's root and is then checked and rendered like any plan.
//! Code that fails leaves the plan's own root, which was checked as well, and the record says why. A
//! plan whose source may not run, or that asks for a lane that is not here, is refused.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use glasshouse_log::Log;
use glasshouse_model::body::PlanCode;
use glasshouse_plan::json::Json;
use glasshouse_plan::state::{State, StateLimits};
use glasshouse_plan::{Event, Issue, Limits, Plan, Profile};
use glasshouse_sandbox::{HostConfig, SandboxHost};
use glasshouse_script::{
    DEFAULT_EXPORT, Diagnostic, Engine, Finding, GraphLimits, Language, Makes, Program, Ran,
    Runtime, Source, Task, Worker,
};
use serde_json::{Value, json};

use super::hooks::{Hooks, Plugins};
use super::modules::{Lock, ModuleCache, Pinned};
use super::of_plan;
use super::work::Means;
use crate::driver::{Cancel, now_us, tell_what_was_examined};
use crate::{Error, Result, codes};

/// The lane that runs code on a server: a process of its own, in a sandbox without a network.
const LANE: &str = "isolated-vm";
/// All lanes of this host.
pub const LANES: &[&str] = &[LANE];
/// Time of code that asks for none.
const DEFAULT_TIME_MS: u64 = 1_500;

/// Runs code of plans; its host begins with the first plan that carries some.
#[derive(Debug)]
pub struct Coder {
    config: HostConfig,
    /// Says what was found when this machine was examined.
    log: Option<Log>,
    engine: Engine,
    host: OnceLock<SandboxHost>,
    /// How many workers wait for plans.
    ready: AtomicUsize,
    cache: ModuleCache,
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
pub struct Coded {
    /// The plan to show.
    pub plan: Plan,
    /// What is recorded; nothing when there was no code.
    pub record: Option<PlanCode>,
}

/// Whether a module of a plan's source is there to be run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Preflight {
    /// Its address.
    pub address: String,
    /// What it is.
    pub kind: &'static str,
    /// From the plan to it.
    pub chain: Vec<String>,
}

impl Coder {
    /// Code runs in sandboxes of this host, which is started when there is some.
    #[must_use]
    pub fn new(config: HostConfig) -> Self {
        let (host, ready) = (OnceLock::new(), AtomicUsize::new(0));
        let cache = ModuleCache::of(&config.home);
        Self { config, log: None, engine: Engine::new(), host, ready, cache }
    }

    /// With the log that says what was found when this machine was examined.
    pub(crate) fn told_by(self, log: &Log) -> Self {
        Self { log: Some(log.clone()), ..self }
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

    pub(super) const fn cache(&self) -> &ModuleCache {
        &self.cache
    }

    pub(super) fn worker(&self) -> Result<Worker<'_>> {
        Ok(self.engine.worker(self.host()?)?)
    }

    /// What is wrong with the source of a plan, and which modules it would run with. Nothing is run and
    /// nothing is fetched.
    ///
    /// # Errors
    /// Those of the sandbox: what cannot be compiled in one is not compiled.
    pub fn inspect(&self, plan: &Plan, profile: &Profile) -> Result<(Vec<Preflight>, Vec<Issue>)> {
        let lock = Lock::of(plan);
        let Some(asked) = source(plan, &lock.places) else { return Ok(Default::default()) };
        let cancel = glasshouse_sandbox::Cancel::new()?;
        let worker = self.worker()?;
        let library = Pinned { lock: &lock, cache: &self.cache };
        let finding = Finding {
            library: &library,
            manifest: &lock.places,
            limits: graph_limits(plan, profile),
            runtime: asked.runtime,
        };
        let graph = worker
            .compile(&asked, &cancel)
            .and_then(|program| worker.graph(program.wants(), &finding, &cancel));
        match graph {
            Ok(graph) => {
                let found = graph.nodes.into_iter().map(|node| Preflight {
                    address: node.found.address,
                    kind: node.found.kind.as_str(),
                    chain: node.chain,
                });
                Ok((found.collect(), Vec::new()))
            }
            Err(error) => Ok((Vec::new(), issues(error)?)),
        }
    }

    /// Runs the code of a plan that is not kept, with its initial state.
    ///
    /// # Errors
    /// As a run of a plan that is kept.
    pub fn show(&self, plan: &Plan, profile: &Profile, cancel: &Cancel) -> Result<Option<Coded>> {
        let state = State::initial(plan, &StateLimits::default()).map_err(|e| of_plan(&e))?;
        let (moment, none) = (Moment::at(now_us()), Plugins::default());
        let (hooks, ran) = (Hooks::Live(&none), RefCell::default());
        let means = Means { coder: self, cancel, moment, profile, hooks, ran };
        self.run(plan, (&state, None), &means)
    }

    fn host(&self) -> Result<&SandboxHost> {
        let host = match self.host.get() {
            Some(host) => host,
            None => {
                let host = SandboxHost::start(self.config.clone())?;
                self.host.get_or_init(|| host)
            }
        };
        if let Some(log) = &self.log {
            tell_what_was_examined(log, host)?;
        }
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
            or_default: true,
            makes: Makes::Node,
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
        let lock = Lock::of(plan);
        let Some(source) = self::source(plan, &lock.places) else { return Ok(None) };
        let ran = self.ran(plan, (&source, &lock), &task, means)?;
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
            export_missing: ran.by_default,
            error: None,
        };
        let made: Option<Value> = match ran.node {
            Ok(node) => Some(node),
            Err(error) => {
                record.error = Some(serde_json::to_value(error.report()).unwrap_or_default());
                None
            }
        };
        means.ran.replace(Some(record.clone()));
        let plan = plan.after_code(made.as_ref(), &profile.limits()).map_err(told)?;
        Ok(Some(Coded { plan, record: Some(record) }))
    }

    /// Runs a source with the modules that the plan locks.
    fn ran(
        &self,
        plan: &Plan,
        (source, lock): (&Source<'_>, &Lock),
        task: &Task,
        means: &Means<'_>,
    ) -> Result<Ran> {
        let stop = means.cancel.sandbox();
        let ended = |error| stopped(means.cancel, error);
        let worker = self.worker()?;
        let program = worker.compile(source, stop).map_err(ended)?;
        let linked;
        let whole = if program.wants().is_empty() {
            &*program
        } else {
            let limits = graph_limits(plan, means.profile);
            linked = self.linked(&worker, &program, lock, (source, limits, stop)).map_err(ended)?;
            &linked
        };
        let ran = worker.run(whole, task, stop).map_err(ended)?;
        // A plan's own root is not what was asked for, so a run that was stopped shows nothing.
        match ran.node {
            Err(error) if ran.receipt.killed == Some("cancelled") => Err(ended(error)),
            node => Ok(Ran { node, ..ran }),
        }
    }

    /// A program with all its modules, from the cache.
    fn linked(
        &self,
        worker: &Worker<'_>,
        program: &Program,
        lock: &Lock,
        (source, limits, stop): (&Source<'_>, GraphLimits, &glasshouse_sandbox::Cancel),
    ) -> glasshouse_script::Result<Program> {
        let finding = Finding {
            library: &Pinned { lock, cache: &self.cache },
            manifest: &lock.places,
            limits,
            runtime: source.runtime,
        };
        Ok(program.with(&worker.graph(program.wants(), &finding, stop)?))
    }
}

/// The source of a plan, for the compiler.
pub(super) fn source<'p>(
    plan: &'p Plan,
    places: &'p BTreeMap<String, String>,
) -> Option<Source<'p>> {
    let source = plan.source()?;
    let text = |key: &str| source.get(key).and_then(Json::as_text);
    Some(Source {
        code: text("code").unwrap_or_default(),
        language: text("language").and_then(Language::parse).unwrap_or(Language::Js),
        runtime: text("runtime").and_then(Runtime::parse).unwrap_or(Runtime::Renderify),
        manifest: places,
    })
}

/// How much a plan may load: what it asks for, within what the profile allows.
pub(super) fn graph_limits(plan: &Plan, profile: &Profile) -> GraphLimits {
    let defaults = GraphLimits::default();
    let asked = plan.capabilities().and_then(|asked| asked.get("maxImports"));
    let asked = asked.and_then(|asked| asked.to_value().as_f64());
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of modules; what is beyond the range becomes its end"
    )]
    let asked = asked.map_or(defaults.modules, |asked| asked as usize);
    GraphLimits { modules: asked.min(profile.max_allowed_imports), ..defaults }
}

/// What is wrong with a source, as a report of the plan tells it.
///
/// # Errors
/// The same error when it says nothing about the source.
fn issues(error: glasshouse_script::Error) -> Result<Vec<Issue>> {
    let report = error.report();
    let known = |name: &str| glasshouse_script::codes::ALL.iter().find(|code| code.name == name);
    let Some(code) = known(report.code.as_ref()) else { return Err(error.into()) };
    let found: Vec<Diagnostic> = report
        .context
        .get("diagnostics")
        .and_then(|found| serde_json::from_value(found.clone()).ok())
        .unwrap_or_default();
    let at = |code: &'static str, message: String, fix: String| Issue {
        code,
        pointer: "/source/code".to_owned(),
        message,
        fix,
    };
    if found.is_empty() {
        let message = match report.why.is_empty() {
            true => report.what,
            false => format!("{}: {}", report.what, report.why),
        };
        return Ok(vec![at(code.name, message, report.fix)]);
    }
    let told = found.into_iter().map(|it| {
        let code = known(&it.code).map_or(code.name, |code| code.name);
        at(code, format!("{}:{}: {}", it.line, it.column, it.message), it.fix)
    });
    Ok(told.collect())
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
