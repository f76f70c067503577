//! The owner's side: workers, and what is kept between them.
//!
//! A worker is a sandbox for code of one origin: of one plan, which is used for one run and then never again,
//! or of one plugin or policy, each call of which is a process of its own. What goes from one worker to
//! the next is only bytecode of modules that the program carries, made in a process that
//! saw no foreign code, and bytecode of a source, which only runs of that same source get.

mod wrong;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glasshouse_sandbox::{
    Cancel, Limit as SandboxLimit, RunResult, Sandbox, SandboxHost, SandboxSpec, Status, Stream,
    Task as Entering, TemplateName,
};
use serde::Serialize;
use serde_json::Value;

use crate::compile::{COMPILER, Module, Runtime, Source};
use crate::engine::{ENGINE, ENTRY, SOURCE};
use crate::graph::{Found, Graph};
use crate::wire::{Bytecode, Failed, Limit, Makes, Order, Reply, Work, decode, encode};
use crate::{Error, Result, cache, codes, vendor};
pub use wrong::no_export;
use wrong::{
    error_of_runtime, faulty, judged, limited, nonsense, reached, refused, threw, unanswered,
    unavailable,
};

/// How much later than its own limit a process is killed: time for the engine to say so itself.
const GRACE_MS: u64 = 25;
/// Longest compilation.
const COMPILE_MS: u64 = 5_000;
/// Most bytes of a reply: nodes are longer than the text they were read from.
const REPLY_BYTES: u64 = 32 << 20;

/// What a process answered; nothing when it did not end by itself.
type Answer = (Reply, Vec<Bytecode>);
/// A carried module with its bytecode.
type Needed = (&'static str, Arc<Vec<u8>>);

/// Everything a run may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Time from start to answer.
    pub time_ms: u64,
    /// Memory of the engine.
    pub memory_bytes: usize,
    /// Steps of promises.
    pub jobs: u64,
    /// What the code may make, as text.
    pub output_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time_ms: 1_500, memory_bytes: 64 << 20, jobs: 100_000, output_bytes: 2 << 20 }
    }
}

/// What code is run with. Equal tasks make equal nodes: time and chance are in here.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Task {
    /// The export that is run.
    pub export: String,
    /// Whether the default is run where that export is not there.
    pub or_default: bool,
    /// What the code is asked for.
    pub makes: Makes,
    /// What markup stands for.
    pub runtime: Runtime,
    /// What the export is called with.
    pub input: Value,
    /// The time that code sees, in milliseconds since 1970.
    pub now_ms: i64,
    /// Where chance begins.
    pub seed: u32,
    /// What it may use.
    pub limits: Limits,
}

/// A compiled source with its bytecode.
#[derive(Debug)]
pub struct Program {
    module: Module,
    bytecode: Vec<u8>,
    /// Modules that it needs and the program carries.
    needs: Vec<&'static str>,
    /// Addresses of those that it needs besides.
    wants: Vec<String>,
    /// The modules of its graph with the addresses that imports name them by.
    linked: Vec<(String, Arc<Program>)>,
}

impl Program {
    /// The module as text.
    #[must_use]
    pub const fn module(&self) -> &Module {
        &self.module
    }

    /// Addresses of what it imports and the program does not carry.
    #[must_use]
    pub fn wants(&self) -> &[String] {
        &self.wants
    }

    /// An address of what it imports that was not found yet.
    pub(crate) fn missing(&self) -> Option<&str> {
        let linked = |address: &str| self.linked.iter().any(|(name, _)| name == address);
        self.wants.iter().map(String::as_str).find(|address| !linked(address))
    }

    /// The modules of its graph: addresses and texts.
    pub(crate) fn linked(&self) -> impl Iterator<Item = (&str, &str)> {
        self.linked.iter().map(|(address, it)| (address.as_str(), it.module.code.as_str()))
    }

    /// Modules that it needs and the program carries.
    pub(crate) fn needs(&self) -> &[&'static str] {
        &self.needs
    }

    /// How much of memory it is, nearly.
    fn bytes(&self) -> usize {
        let names = self.module.named.iter().map(|(name, address)| name.len() + address.len());
        let (code, origins) = (self.module.code.len(), self.module.origins.bytes());
        code + origins + self.bytecode.len() + names.sum::<usize>()
    }

    /// The program with the modules of a graph, which began at what it wants.
    #[must_use]
    pub fn with(&self, graph: &Graph) -> Self {
        let mut needs = self.needs.clone();
        needs.extend(&graph.carried);
        let linked = graph.nodes.iter().map(|node| (node.asked.clone(), Arc::clone(&node.program)));
        Self {
            module: self.module.clone(),
            bytecode: self.bytecode.clone(),
            needs,
            wants: self.wants.clone(),
            linked: linked.collect(),
        }
    }
}

/// How a run went, also one that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Receipt {
    /// How isolated it really was: the level that was read back from inside.
    pub isolation: String,
    /// What compiled.
    pub compiler: &'static str,
    /// What ran.
    pub engine: &'static str,
    /// Digest of the module.
    pub module: String,
    /// From start to end.
    pub duration_us: u64,
    /// Processor time.
    pub cpu_us: u64,
    /// The limit that it reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Why the process was killed, when it did not end by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub killed: Option<&'static str>,
    /// Whether it used storage, which was in memory and is gone.
    pub storage_in_memory: bool,
}

/// A run and its result.
#[derive(Debug)]
pub struct Ran {
    /// How it went.
    pub receipt: Receipt,
    /// The node or the value that code made.
    pub node: Result<Value>,
    /// Whether the default made it, because the export that was asked for is not there.
    pub by_default: bool,
}

/// What is kept between workers.
#[derive(Debug, Default)]
pub struct Engine {
    programs: cache::Kept<Program>,
    carried: Mutex<HashMap<&'static str, Arc<Vec<u8>>>>,
    /// Sandboxes in which nothing ran yet.
    ready: Mutex<Vec<Sandbox>>,
}

/// One sandbox, for the code of one plan.
#[derive(Debug)]
pub struct Worker<'e> {
    engine: &'e Engine,
    sandbox: Sandbox,
}

impl Engine {
    /// Nothing kept yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes workers ahead of need, until this many wait. Each serves one plan, whoever's it is, and is gone
    /// then: nothing that a plan leaves is there for the next.
    ///
    /// # Errors
    /// As [`Engine::worker`].
    pub fn prepare(&self, host: &SandboxHost, count: usize) -> Result<()> {
        while self.prepared() < count {
            let sandbox = sandbox(host)?;
            self.ready().push(sandbox);
        }
        Ok(())
    }

    /// How many workers wait.
    #[must_use]
    pub fn prepared(&self) -> usize {
        self.ready().len()
    }

    fn ready(&self) -> MutexGuard<'_, Vec<Sandbox>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a worker that waits, or makes one. The host's program must know [`ENTRY`].
    ///
    /// # Errors
    /// Those of the sandbox; `isolation_unavailable` when there cannot be one. Code never runs
    /// without.
    pub fn worker(&self, host: &SandboxHost) -> Result<Worker<'_>> {
        let waiting = self.ready().pop();
        let sandbox = waiting.map_or_else(|| sandbox(host), Ok)?;
        Ok(Worker { engine: self, sandbox })
    }
}

/// A new sandbox for code.
fn sandbox(host: &SandboxHost) -> Result<Sandbox> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let id = format!("script-{}-{number}", std::process::id());
    Ok(host.create(&SandboxSpec::new(id, TemplateName::Script.template()))?)
}

impl Worker<'_> {
    /// The program of a source, compiled here unless it is known.
    ///
    /// # Errors
    /// `script_source_invalid`, `script_source_denied`, `script_name_unknown` and
    /// `script_module_unavailable` with all faults in the context; `script_limit` when compiling took
    /// too much; the sandbox's errors.
    pub fn compile(&self, source: &Source<'_>, cancel: &Cancel) -> Result<Arc<Program>> {
        let key = cache::key(source);
        if let Some(program) = self.engine.programs.known(&key) {
            return Ok(program);
        }
        let order = Order::Compile {
            code: source.code.to_owned(),
            language: source.language,
            runtime: source.runtime,
            manifest: source.manifest.clone(),
            stores: source.stores,
        };
        let (ran, reply) = self.ask(&order, &[], COMPILE_MS, REPLY_BYTES, cancel)?;
        match reply {
            Some((Reply::Compiled(module), made)) => {
                let program = Arc::new(program(SOURCE, module, made)?);
                self.engine.programs.keep(key, &program, program.bytes());
                Ok(program)
            }
            Some((Reply::Faulty(faults), _)) => Err(faulty(&faults)),
            Some((Reply::Failed(failed), _)) => Err(refused(failed)),
            Some(_) => Err(nonsense()),
            // A source can be such that reading it needs more than there is.
            None => Err(match limit_of(ran.status) {
                Some(limit) => limited(limit),
                None => Error::new(codes::SOURCE_INVALID, "the source cannot be compiled")
                    .why("it is nested too deeply for the compiler"),
            }),
        }
    }

    /// The program of a module of others.
    pub(crate) fn compile_module(
        &self,
        found: &Found,
        manifest: &BTreeMap<String, String>,
        cancel: &Cancel,
    ) -> Result<Arc<Program>> {
        let key = cache::module_key(found, manifest);
        if let Some(program) = self.engine.programs.known(&key) {
            return Ok(program);
        }
        let order = Order::Module {
            address: found.address.clone(),
            kind: found.kind,
            manifest: manifest.clone(),
        };
        let given = [(found.address.as_str(), found.bytes.as_slice())];
        let (ran, reply) = self.ask(&order, &given, COMPILE_MS, REPLY_BYTES, cancel)?;
        match reply {
            Some((Reply::Compiled(module), made)) => {
                let program = Arc::new(program(&found.address, module, made)?);
                self.engine.programs.keep(key, &program, program.bytes());
                Ok(program)
            }
            Some((Reply::Faulty(faults), _)) => Err(faulty(&faults)),
            Some((Reply::Failed(failed), _)) => Err(refused(failed)),
            Some(_) => Err(nonsense()),
            None => Err(match limit_of(ran.status) {
                Some(limit) => limited(limit),
                None => Error::new(codes::SOURCE_INVALID, "the module cannot be compiled"),
            }),
        }
    }

    /// Runs a program and ends the worker.
    ///
    /// # Errors
    /// Those of the sandbox. What the code did wrong is in [`Ran::node`]: `script_failed`,
    /// `script_output_invalid`, `script_limit`.
    pub fn run(self, program: &Program, task: &Task, cancel: &Cancel) -> Result<Ran> {
        self.call(program, task, cancel)
    }

    /// Runs a program and keeps the worker for more code of the same origin. Each call is a process of
    /// its own, made before any code ran, so nothing stays from one to the next.
    ///
    /// # Errors
    /// As [`Worker::run`].
    pub fn call(&self, program: &Program, task: &Task, cancel: &Cancel) -> Result<Ran> {
        if let Some(missing) = program.missing() {
            return Err(unavailable(missing));
        }
        let modules = self.modules(program, task, cancel)?;
        let mut given: Vec<(&str, &[u8])> = vec![(SOURCE, &program.bytecode)];
        given.extend(program.linked.iter().map(|(name, it)| (name.as_str(), &it.bytecode[..])));
        given.extend(modules.iter().map(|(address, code)| (*address, code.as_slice())));
        let order = Order::Run(Box::new(Work {
            runtime: task.runtime,
            export: task.export.clone(),
            or_default: task.or_default,
            makes: task.makes,
            input: task.input.clone(),
            now_ms: task.now_ms,
            seed: task.seed,
            time_ms: task.limits.time_ms,
            memory_bytes: task.limits.memory_bytes,
            jobs: task.limits.jobs,
            output_bytes: task.limits.output_bytes,
        }));
        let time_ms = task.limits.time_ms + GRACE_MS;
        let (ran, reply) = self.ask(&order, &given, time_ms, REPLY_BYTES, cancel)?;
        let mut receipt = Receipt {
            isolation: format!("native:{}", self.sandbox.attestation().level()),
            compiler: COMPILER,
            engine: ENGINE,
            module: program.module.digest.clone(),
            duration_us: ran.duration_us,
            cpu_us: ran.usage.cpu_us,
            limit: limit_of(ran.status),
            killed: killed(ran.status),
            storage_in_memory: program.needs.contains(&vendor::STORAGE),
        };
        let mut by_default = false;
        let node = match reply {
            Some((Reply::Made(node, default), _)) => {
                by_default = default;
                Ok(node)
            }
            Some((Reply::Failed(failed), _)) => {
                let failed = judged(failed, ran.usage.memory_peak_bytes, task.limits.memory_bytes);
                match failed {
                    Failed::Limit(limit) => {
                        receipt.limit = Some(limit);
                        Err(reached(limit, &task.limits))
                    }
                    Failed::Threw(why, Some((line, byte))) => {
                        Err(threw(why, program.module.origins.of(line, byte)))
                    }
                    Failed::NoExport(name) => Err(no_export(&name, &program.module.exports)),
                    other => Err(refused(other)),
                }
            }
            Some(_) => Err(nonsense()),
            None => Err(unanswered(receipt.limit, ran.status, &task.limits)),
        };
        let is_whole = receipt.killed.is_none();
        let node = node.map_err(|error| match is_whole {
            true => error_of_runtime(error, program, task),
            false => error,
        });
        Ok(Ran { receipt, node, by_default })
    }

    /// Bytecode of what a program needs, made in a process that sees nothing else.
    fn modules(&self, program: &Program, task: &Task, cancel: &Cancel) -> Result<Vec<Needed>> {
        let mut wanted = program.needs.clone();
        wanted.push(vendor::START);
        if task.makes == Makes::Node && task.runtime == Runtime::Preact {
            wanted.push(vendor::PREACT);
        }
        let wanted = vendor::closure(&wanted);
        let known = || self.engine.carried.lock().unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<String> = wanted
            .iter()
            .filter(|address| !known().contains_key(*address))
            .map(|address| (*address).to_owned())
            .collect();
        if !missing.is_empty() {
            let order = Order::Carry { addresses: missing };
            match self.ask(&order, &[], COMPILE_MS, REPLY_BYTES, cancel)?.1 {
                Some((Reply::Carried, made)) => {
                    for (address, code) in made {
                        if let Some(carried) = vendor::carried(&address) {
                            known().insert(carried.address, Arc::new(code));
                        }
                    }
                }
                Some((Reply::Failed(failed), _)) => return Err(refused(failed)),
                _ => return Err(nonsense()),
            }
        }
        let found = wanted
            .into_iter()
            .map(|address| Some((address, Arc::clone(known().get(address)?))))
            .collect::<Option<Vec<_>>>();
        found.ok_or_else(nonsense)
    }

    /// What a process of the compiler's answers to an order that brings no modules.
    pub(crate) fn answer(&self, order: &Order, cancel: &Cancel) -> Result<Option<Reply>> {
        let (_, reply) = self.ask(order, &[], COMPILE_MS, REPLY_BYTES, cancel)?;
        Ok(reply.map(|(reply, _)| reply))
    }

    fn ask(
        &self,
        order: &Order,
        modules: &[(&str, &[u8])],
        timeout_ms: u64,
        output_limit_bytes: u64,
        cancel: &Cancel,
    ) -> Result<(RunResult, Option<Answer>)> {
        let task = Entering {
            entry: ENTRY.name.to_owned(),
            input: encode(order, modules),
            timeout_ms,
            output_limit_bytes,
        };
        let mut out = Vec::new();
        let mut sink = |stream, bytes: &[u8]| {
            if stream == Stream::Stdout {
                out.extend_from_slice(bytes);
            }
        };
        let ran = self.sandbox.enter(&task, &mut sink, cancel)?;
        let reply = if ran.status == Status::Exited(0) { decode(&out) } else { None };
        Ok((ran, reply))
    }
}

/// A compiled module with what belongs to it.
fn program(at: &str, module: Module, made: Vec<Bytecode>) -> Result<Program> {
    let [(address, bytecode)] = <[Bytecode; 1]>::try_from(made).map_err(|_| nonsense())?;
    if address != at {
        return Err(nonsense());
    }
    let (mut needs, mut wants) = (Vec::new(), Vec::new());
    for import in &module.imports {
        let carried = vendor::carried(import).filter(|_| !vendor::is_inner(import));
        match carried {
            Some(carried) => needs.push(carried.address),
            None => wants.push(import.clone()),
        }
    }
    Ok(Program { module, bytecode, needs, wants, linked: Vec::new() })
}

const fn limit_of(status: Status) -> Option<Limit> {
    match status {
        Status::TimedOut => Some(Limit::Time),
        Status::LimitExceeded(SandboxLimit::Memory) => Some(Limit::Memory),
        Status::LimitExceeded(SandboxLimit::Output) => Some(Limit::Output),
        _ => None,
    }
}

const fn killed(status: Status) -> Option<&'static str> {
    match status {
        Status::Exited(_) => None,
        Status::Signaled(_) => Some("crashed"),
        Status::TimedOut => Some("deadline"),
        Status::Cancelled => Some("cancelled"),
        Status::LimitExceeded(_) => Some("limit"),
    }
}
