//! Code of plans in runs: which lane runs it, with which time and chance, and what is recorded.
//!
//! What code makes takes the place of the plan's root and is then checked and rendered like any plan.
//! Code that fails leaves the plan's own root, which was checked as well, and the record says why. A
//! plan whose source may not run, or that asks for a lane that is not here, is refused.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use glasshouse_log::Log;
use glasshouse_model::TenantId;
use glasshouse_model::body::PlanCode;
use glasshouse_plan::json::Json;
use glasshouse_plan::state::{State, StateLimits};
use glasshouse_plan::{Event, Limits, Plan, Probe, Profile};
use glasshouse_sandbox::{HostConfig, SandboxHost};
use glasshouse_script::{
    DEFAULT_EXPORT, Engine, Finding, GraphLimits, Language, Makes, Program, Ran, Receipt, Runtime,
    Source, Stores, Task, Worker,
};
use glasshouse_tools::sanitise::Masker;
use serde_json::{Value, json};

use super::bounds::{self, graph_limits, limits_of_run};
use super::components;
use super::hooks::{Hooks, Plugins};
use super::inspect::{Inspected, issues, remarks};
use super::modules::{Lock, ModuleCache, Pinned};
use super::of_plan;
use super::work::Means;
use crate::driver::{Cancel, now_us, tell_what_was_examined};
use crate::{Error, Result, codes};

/// The lane that runs code on a server: a process of its own, in a sandbox without a network.
const LANE: &str = "isolated-vm";
/// All lanes of this host.
pub const LANES: &[&str] = &[LANE];
/// Lanes that `web/lanes/` has.
pub(super) const LANES_OF_BROWSERS: &[&str] = &[WORKER_OF_BROWSERS, "sandbox-iframe"];
/// The one of them without a page.
const WORKER_OF_BROWSERS: &str = "sandbox-worker";

/// Runs code of plans; its host begins with the first plan that carries some.
#[derive(Debug)]
pub struct Coder {
    config: HostConfig,
    /// Says what was found when this machine was examined.
    machine: Option<Log>,
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

/// Code of a plan for a browser.
#[derive(Debug, Clone, serde::Serialize)]
pub struct LaneCode {
    /// The lane that the plan asks for.
    pub requested: String,
    /// The body of a function of `exports`, with all modules.
    pub code: String,
    /// What it is run with.
    pub task: Value,
    /// What it may use.
    pub limits: Value,
    /// Whether it is shown with `mount` and stays alive, as components of Preact do.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
}

/// What a plan needs and whether it can be had here.
#[derive(Debug, serde::Serialize)]
pub struct Probed {
    /// What is read off the plan.
    #[serde(flatten)]
    pub probe: Probe,
    /// The modules that its code would run with, where it has code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modules: Option<Vec<Preflight>>,
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
    /// Code runs in sandboxes of this host, which is started when there is some. `machine` is the installation's
    /// log, which says what was found when this machine was examined; without one it is the log in the home of the
    /// host, if anything was ever recorded there.
    #[must_use]
    pub fn new(config: HostConfig, machine: Option<&Log>) -> Self {
        let (host, ready) = (OnceLock::new(), AtomicUsize::new(0));
        let (cache, machine) = (ModuleCache::of(&config.home), machine.cloned());
        Self { config, machine, engine: Engine::new(), host, ready, cache }
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

    /// Where the host keeps what is its own.
    pub(super) fn home(&self) -> &Path {
        &self.config.home
    }

    pub(super) const fn cache(&self) -> &ModuleCache {
        &self.cache
    }

    pub(super) fn worker(&self) -> Result<Worker<'_>> {
        Ok(self.engine.worker(self.host()?)?)
    }

    /// Probes a plan, its code compiled and its modules found; nothing is run and nothing is fetched.
    ///
    /// # Errors
    /// As [`Coder::inspect`].
    pub fn probe(
        &self,
        plan: &Plan,
        profile: &Profile,
        cancel: &glasshouse_sandbox::Cancel,
    ) -> Result<Probed> {
        let mut probe = glasshouse_plan::probe_to_run(plan, profile, LANES);
        let mut modules = plan.source().is_some().then(Vec::new);
        if probe.report.safe {
            let found = self.inspect(plan, profile, cancel)?;
            if !found.modules.is_empty() {
                modules = Some(found.modules.clone());
            }
            found.tell(&mut probe.report);
            probe.ok &= probe.report.safe;
        }
        Ok(Probed { probe, modules })
    }

    /// What is wrong with the source of a plan, and which modules it would run with, also those of its imports
    /// and components that it locks. Nothing is run and nothing is fetched.
    ///
    /// # Errors
    /// Those of the sandbox: what cannot be compiled in one is not compiled.
    pub fn inspect(
        &self,
        plan: &Plan,
        profile: &Profile,
        cancel: &glasshouse_sandbox::Cancel,
    ) -> Result<Inspected> {
        let lock = Lock::of(plan);
        let asked = source(plan, &lock.places);
        let named = components::addresses(plan, &lock, profile);
        if asked.is_none() && named.is_empty() {
            return Ok(Inspected::default());
        }
        let worker = self.worker()?;
        let notes = RefCell::default();
        let library = Pinned { lock: &lock, cache: &self.cache };
        let finding = Finding {
            library: &library,
            manifest: &lock.places,
            limits: graph_limits(plan, profile),
            runtime: asked.as_ref().map_or(Runtime::Renderify, |asked| asked.runtime),
        };
        let graph = || {
            let mut roots = match &asked {
                Some(asked) => {
                    let program = worker.compile(asked, cancel)?;
                    notes.replace(remarks(plan, program.module()));
                    program.wants().to_vec()
                }
                None => Vec::new(),
            };
            roots.extend(named);
            worker.graph(&roots, &finding, cancel)
        };
        match graph() {
            Ok(graph) => {
                let found = graph.nodes.into_iter().map(|node| Preflight {
                    address: node.found.address,
                    kind: node.found.kind.as_str(),
                    chain: node.chain,
                });
                let (modules, issues) = (found.collect(), Vec::new());
                Ok(Inspected { modules, issues, notes: notes.into_inner() })
            }
            Err(error) => Ok(Inspected { issues: issues(error)?, ..Inspected::default() }),
        }
    }

    /// Runs the code of a plan that is not kept, with its initial state.
    ///
    /// # Errors
    /// As a run of a plan that is kept.
    pub(super) fn show(
        &self,
        plan: &Plan,
        profile: &Profile,
        (cancel, masker): (&Cancel, &Masker),
    ) -> Result<Option<Coded>> {
        let state = State::initial(plan, &StateLimits::default()).map_err(|e| of_plan(&e))?;
        let (moment, none) = (Moment::at(now_us()), Plugins::default());
        let (hooks, ran) = (Hooks::Live(&none), RefCell::default());
        let patience = 1;
        let means = Means { coder: self, cancel, moment, profile, masker, hooks, patience, ran };
        self.run(plan, (&state, None), &means)
    }

    /// The code of a plan as `run` or `mount` of `web/lanes/host.js` takes it, with the plan's initial state. Nothing of
    /// it is run here.
    ///
    /// # Errors
    /// `plan_refused` when the profile refuses the plan, when it has no source, when it has imports or components,
    /// or when its lane is none of a browser's; those of the compiler and of modules.
    pub fn bundle(&self, plan: &Plan, profile: &Profile) -> Result<LaneCode> {
        let refused = |why: &str| {
            Error::new(codes::PLAN_REFUSED, "the plan's code does not run in a browser").why(why)
        };
        let report = glasshouse_plan::check_to_run(plan, profile, LANES_OF_BROWSERS);
        if !report.safe {
            return Err(super::refused(&report));
        }
        let lock = Lock::of(plan);
        let asked = source(plan, &lock.places).ok_or_else(|| refused("it has no source"))?;
        if plan.imports().next().is_some() || !plan.component_modules().is_empty() {
            return Err(refused("its imports and components run on a server"));
        }
        let live = asked.runtime == Runtime::Preact;
        if live && plan.lane() == WORKER_OF_BROWSERS {
            return Err(refused("a worker has no page for components of Preact"));
        }
        let writes = plan.capabilities().and_then(|asked| asked.get("domWrite"));
        if live && writes.is_some_and(|writes| writes.to_value() == false) {
            return Err(refused("it stays alive in a page, and `capabilities.domWrite` is false"));
        }
        let cancel = glasshouse_sandbox::Cancel::new()?;
        let worker = self.worker()?;
        let program = worker.compile(&asked, &cancel)?;
        let limits = graph_limits(plan, profile);
        let whole = self.linked(&worker, &program, &lock, (&asked, limits, &cancel))?;
        let state = State::initial(plan, &StateLimits::default()).map_err(|e| of_plan(&e))?;
        let (moment, limits) = (Moment::at(now_us()), bounds::limits(plan, profile));
        let export = plan.source().and_then(|source| source.get("exportName")?.as_text());
        Ok(LaneCode {
            requested: plan.lane().to_owned(),
            code: match live {
                true => worker.bundle_alive(&whole, &cancel)?,
                false => worker.bundle(&whole, &cancel)?,
            },
            live,
            task: json!({
                "export": export.unwrap_or(DEFAULT_EXPORT), "input": input(&state, None),
                "now_ms": moment.now_ms, "seed": moment.seed,
            }),
            limits: json!({"time_ms": limits.time_ms, "output_bytes": limits.output_bytes}),
        })
    }

    fn host(&self) -> Result<&SandboxHost> {
        let host = match self.host.get() {
            Some(host) => host,
            None => {
                let host = SandboxHost::start(self.config.clone())?;
                self.host.get_or_init(|| host)
            }
        };
        if let Some(log) = &self.machine {
            tell_what_was_examined(log, host)?;
            return Ok(host);
        }
        match Log::open_read_only(&self.config.home, &TenantId::local()) {
            Err(error) if error.is(glasshouse_log::codes::NOTHING_RECORDED) => {}
            log => tell_what_was_examined(&log?, host)?,
        }
        Ok(host)
    }

    /// Runs the code of a plan that may be shown here, and the modules that it names beside; `None` for one
    /// that has none and asks for no lane.
    pub(super) fn run(
        &self,
        plan: &Plan,
        (state, event): (&State, Option<&Event>),
        means: &Means<'_>,
    ) -> Result<Option<Coded>> {
        let coded = self.run_source(plan, (state, event), means)?;
        let record = coded.as_ref().and_then(|coded| coded.record.as_ref());
        let spent = Duration::from_micros(record.map_or(0, |record| record.duration_us));
        let running = coded.as_ref().map_or(plan, |coded| &coded.plan);
        let called = self.components(running, (state, event), means, spent)?;
        let Some(called) = called else { return Ok(coded) };
        let receipt = called.receipt.clone();
        let mut record = match coded.as_ref().and_then(|coded| coded.record.clone()) {
            Some(mut record) => {
                record.duration_us += receipt.duration_us;
                record.cpu_us += receipt.cpu_us;
                record.limit = record.limit.or(receipt.limit.map(|it| it.as_str().to_owned()));
                record.killed = record.killed.or(receipt.killed.map(str::to_owned));
                record
            }
            None => recorded(plan, receipt, means.moment),
        };
        record.components = Some(called.record.clone());
        // Before what they made is looked at: what ran is told of a run that fails for it, too.
        means.ran.replace(Some(record.clone()));
        let plan = called.shown(running, means.profile)?;
        Ok(Some(Coded { plan, record: Some(record) }))
    }

    /// Runs the source of a plan.
    fn run_source(
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
            input: input(state, event),
            now_ms: moment.now_ms,
            seed: moment.seed,
            limits: limits_of_run(plan, means),
        };
        let lock = Lock::of(plan);
        let Some(source) = self::source(plan, &lock.places) else { return Ok(None) };
        let ran = self.ran(plan, (&source, &lock), &task, means)?;
        let mut record = recorded(plan, ran.receipt, moment);
        record.export_missing = ran.by_default;
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

/// What code of a plan is called with.
fn input(state: &State, event: Option<&Event>) -> Value {
    json!({
        "context": {"userId": "anonymous", "variables": {}}, "state": state.values, "event": event,
    })
}

/// How code of a plan ran.
fn recorded(plan: &Plan, receipt: Receipt, moment: Moment) -> PlanCode {
    PlanCode {
        requested: plan.lane().to_owned(),
        effective: LANE.to_owned(),
        isolation: receipt.isolation,
        compiler: receipt.compiler.to_owned(),
        engine: receipt.engine.to_owned(),
        module: receipt.module,
        now_ms: moment.now_ms,
        seed: moment.seed,
        duration_us: receipt.duration_us,
        cpu_us: receipt.cpu_us,
        limit: receipt.limit.map(|limit| limit.as_str().to_owned()),
        killed: receipt.killed.map(str::to_owned),
        export_missing: false,
        storage_in_memory: receipt.storage_in_memory,
        error: None,
        components: None,
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
        stores: stores(plan),
    })
}

/// The storage that a plan asks for. It is in memory, so no profile has to allow it; a profile that refuses the
/// names refuses the source.
fn stores(plan: &Plan) -> Stores {
    let asked = plan.capabilities().and_then(|asked| asked.get("storage"));
    Stores::of(asked.and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_text))
}

/// What a run that was stopped ends with; any other error is itself.
pub(super) fn stopped(cancel: &Cancel, error: glasshouse_script::Error) -> Error {
    if cancel.is_cancelled() {
        return Error::new(codes::CANCELLED, "the plan's code was stopped")
            .fix("run the command again; nothing was registered");
    }
    error.into()
}

/// What to tell of a run of code besides what it made.
#[must_use]
pub fn told(code: &PlanCode) -> Vec<String> {
    let mut told = Vec::new();
    if code.export_missing {
        told.push("the source has no such export; its default is shown".to_owned());
    }
    if code.storage_in_memory {
        told.push("what the plan's code keeps in storage is not durable: it is in memory, and each run begins with none".to_owned());
    }
    told.extend(made_nothing(code));
    told.extend(
        code.error
            .as_ref()
            .and_then(|error| Some(format!("  fix: {}", error.get("fix")?.as_str()?))),
    );
    told
}

/// What to tell of code, or of components, that made nothing.
fn made_nothing(code: &PlanCode) -> Option<String> {
    if let Some(error) = &code.error {
        let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let parts = [text("code"), text("what"), text("why")];
        let why: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let why = why.join(": ");
        let crashed = if code.killed.as_deref() == Some("crashed") { " (crashed)" } else { "" };
        return Some(format!(
            "the plan's code made nothing{crashed}, so its own root is shown: {why}"
        ));
    }
    let components = code.components.as_ref()?;
    let first = components.faults.first()?;
    let more = match components.fault_count {
        0 | 1 => String::new(),
        count => format!(" (and {} more)", count - 1),
    };
    let name = if first.module.is_empty() { "all of them" } else { &first.module };
    let why = format!("{}: {name}: {}{more}", first.code, first.why);
    Some(format!("what a module of the plan was to make is not shown: {why}"))
}
