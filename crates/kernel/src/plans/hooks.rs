//! Hooks of the pipeline: what plugins see of a plan on its way, and what they may change.
//!
//! A hook gets a payload and answers another, or nothing. What it answers is never trusted more than what a
//! model wrote: a changed plan is read, checked and rendered like any other. A hook that fails, takes too
//! long or changes what it may only see ends the run. Every call of a run, also of one that led to no plan,
//! is recorded with what it answered, so a replay needs no plugin.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use glasshouse_log::Log;
use glasshouse_model::Digest;
use glasshouse_model::body::{BlobRef, PlanHook};
use glasshouse_sandbox::SandboxHost;
use glasshouse_script::{Language, Limits, Worker};
use serde_json::{Value, json};

use crate::driver::lock;
use crate::functions::Functions;
use crate::{Error, Result, codes};

/// Longest call of one hook.
pub const HOOK_MS: u64 = 1_000;
/// Most plugins of one pipeline.
const MAX_PLUGINS: usize = 16;
/// Most bytes that a hook may answer.
const MAX_ANSWER_BYTES: usize = 2 << 20;

/// A place in the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// The prompt, before a model gets it.
    BeforeLlm,
    /// The model's answer.
    AfterLlm,
    /// Prompt and answer, before a plan is made of them.
    BeforeCodeGen,
    /// The plan that was made.
    AfterCodeGen,
    /// The plan, before it is checked.
    BeforePolicyCheck,
    /// What the check says.
    AfterPolicyCheck,
    /// Plan, state and event, before code runs.
    BeforeRuntime,
    /// The root that is there when code has run.
    AfterRuntime,
    /// The root, before it is rendered.
    BeforeRender,
    /// The markup.
    AfterRender,
}

impl Hook {
    /// All, in the order in which they are called.
    pub const ALL: [Self; 10] = [
        Self::BeforeLlm,
        Self::AfterLlm,
        Self::BeforeCodeGen,
        Self::AfterCodeGen,
        Self::BeforePolicyCheck,
        Self::AfterPolicyCheck,
        Self::BeforeRuntime,
        Self::AfterRuntime,
        Self::BeforeRender,
        Self::AfterRender,
    ];

    /// Its name, which is also the name of the function in a plugin's file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BeforeLlm => "beforeLLM",
            Self::AfterLlm => "afterLLM",
            Self::BeforeCodeGen => "beforeCodeGen",
            Self::AfterCodeGen => "afterCodeGen",
            Self::BeforePolicyCheck => "beforePolicyCheck",
            Self::AfterPolicyCheck => "afterPolicyCheck",
            Self::BeforeRuntime => "beforeRuntime",
            Self::AfterRuntime => "afterRuntime",
            Self::BeforeRender => "beforeRender",
            Self::AfterRender => "afterRender",
        }
    }
}

/// What takes part in the pipeline.
pub trait Plugin: Send + Sync {
    /// Its name, for records and errors.
    fn name(&self) -> &str;

    /// Digest of what it is: the same digest does the same.
    fn digest(&self) -> Digest;

    /// Whether it has something to do at a place.
    fn wants(&self, hook: Hook) -> bool;

    /// Answers another payload, or nothing to leave it as it is.
    ///
    /// # Errors
    /// Words for the person who reads why the run ended.
    fn call(&self, hook: Hook, payload: Value) -> std::result::Result<Option<Value>, String>;
}

/// The plugins of a pipeline in their order, and what they did in the run under way.
#[derive(Clone, Default)]
pub struct Plugins {
    plugins: Vec<Arc<dyn Plugin>>,
    /// Places of those that did not come back in time and are still running.
    late: Arc<Mutex<Vec<usize>>>,
    called: Arc<Mutex<Vec<Called>>>,
}

/// One call as it is kept until the run is recorded.
#[derive(Clone)]
struct Called {
    record: PlanHook,
    answer: Option<Value>,
}

impl Plugins {
    /// Plugins in the order in which they are called.
    ///
    /// # Errors
    /// `plan_hook_failed` for more than sixteen.
    pub fn new(plugins: Vec<Arc<dyn Plugin>>) -> Result<Self> {
        if plugins.len() > MAX_PLUGINS {
            return Err(failed(format!("{} plugins, at most {MAX_PLUGINS}", plugins.len())));
        }
        Ok(Self { plugins, ..Self::default() })
    }

    /// Hands a payload from one plugin to the next.
    ///
    /// # Errors
    /// `plan_hook_failed` when one fails or takes too long.
    pub fn call(&self, hook: Hook, mut payload: Value) -> Result<Value> {
        let wanting = self.plugins.iter().enumerate().filter(|(_, plugin)| plugin.wants(hook));
        for (place, plugin) in wanting {
            let begun = Instant::now();
            let answer = self.timed((place, plugin), hook, payload.clone());
            let mut record = PlanHook {
                plugin: plugin.name().to_owned(),
                digest: plugin.digest(),
                hook: hook.as_str().to_owned(),
                answer: None,
                error: answer.as_ref().err().cloned(),
                duration_us: u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX),
            };
            let answer = answer.map(|answer| answer.filter(|answer| *answer != payload));
            if let Some(error) = &mut record.error {
                error.truncate(error.floor_char_boundary(1 << 10));
            }
            let kept = answer.as_ref().ok().cloned().flatten();
            lock(&self.called).push(Called { record, answer: kept });
            let told = |why| failed(format!("{} of {}: {why}", hook.as_str(), plugin.name()));
            if let Some(changed) = answer.map_err(told)? {
                payload = changed;
            }
        }
        Ok(payload)
    }

    fn timed(
        &self,
        (place, plugin): (usize, &Arc<dyn Plugin>),
        hook: Hook,
        payload: Value,
    ) -> std::result::Result<Option<Value>, String> {
        if lock(&self.late).contains(&place) {
            return Err("an earlier call of it has not come back".to_owned());
        }
        let (told, answer) = sync_channel(1);
        let (own, all) = (Arc::clone(plugin), Arc::clone(&self.late));
        std::thread::spawn(move || {
            let made = catch_unwind(AssertUnwindSafe(|| own.call(hook, payload)));
            let mut late = lock(&all);
            // Nobody waits any more: it has come back late, and may be called again.
            if told.send(made.unwrap_or_else(|_| Err("it panicked".to_owned()))).is_err() {
                late.retain(|other| *other != place);
            }
        });
        answer.recv_timeout(Duration::from_millis(2 * HOOK_MS)).unwrap_or_else(|_| {
            let mut late = lock(&self.late);
            // It may have come while this waited for the others.
            answer.try_recv().unwrap_or_else(|_| {
                late.push(place);
                drop(answer);
                Err(format!("it took longer than {} ms", 2 * HOOK_MS))
            })
        })
    }

    /// How many calls there were: the mark of a run that may begin again.
    pub(super) fn mark(&self) -> usize {
        lock(&self.called).len()
    }

    /// Forgets the calls since a mark.
    pub(super) fn back_to(&self, mark: usize) {
        lock(&self.called).truncate(mark);
    }

    /// The calls so far, with what they answered as blobs. They stay until they are forgotten: what tells
    /// of them may have to be appended again.
    pub(super) fn called(&self, log: &Log) -> Result<Vec<PlanHook>> {
        let called = lock(&self.called).clone();
        let keep = |called: Called| {
            let answer = called.answer.map(|answer| {
                let bytes = serde_json::to_vec(&answer).unwrap_or_default();
                Ok::<_, Error>(BlobRef { blob: log.put_blob(&bytes)?, bytes: bytes.len() as u64 })
            });
            Ok(PlanHook { answer: answer.transpose()?, ..called.record })
        };
        called.into_iter().map(keep).collect()
    }
}

fn failed(why: String) -> Error {
    Error::new(codes::PLAN_HOOK_FAILED, "a plugin ended the run").why(why)
}

/// A fault of a plugin's file, told as one: a plan has code of its own.
fn of_file(name: &str, error: glasshouse_script::Error) -> Error {
    let is_denied = error.is(glasshouse_script::codes::SOURCE_DENIED);
    let error = Error::from(error);
    let why = error.report().why;
    let why = if why.is_empty() { why } else { format!(": {why}") };
    let error = error.why(format!("this is the plugin {name}, and no code of the plan{why}"));
    match is_denied {
        true => error.fix("take it out of the plugin: a hook has its payload, and answers another"),
        false => error,
    }
}

/// What happens at the places of a pipeline.
pub(super) enum Hooks<'h> {
    /// Plugins are called.
    Live(&'h Plugins),
    /// What they answered once is answered again.
    Recorded { log: &'h Log, calls: RefCell<std::collections::VecDeque<PlanHook>> },
}

impl<'h> Hooks<'h> {
    pub(super) fn recorded(log: &'h Log, calls: &[PlanHook]) -> Self {
        Self::Recorded { log, calls: RefCell::new(calls.iter().cloned().collect()) }
    }

    /// The plugin that answered last at a place, as `beforeRender of p.ts`.
    pub(super) fn who(&self, hook: Hook) -> String {
        let plugins = match self {
            Self::Live(plugins) => plugins,
            Self::Recorded { .. } => return hook.as_str().to_owned(),
        };
        let called = lock(&plugins.called);
        let mut last = called.iter().rev().filter(|it| it.record.hook == hook.as_str());
        match last.find(|it| it.answer.is_some()) {
            Some(it) => format!("{} of {}", hook.as_str(), it.record.plugin),
            None => hook.as_str().to_owned(),
        }
    }

    /// What is wrong with an answer, with the plugin whose answer it is.
    pub(super) fn named(&self, hook: Hook, error: Error) -> Error {
        let report = error.report();
        let why = if report.why.is_empty() { report.what } else { report.why };
        error.why(format!("{} answered it: {why}", self.who(hook)))
    }

    /// The same of an answer that is no plan: the plan itself is not what is to correct.
    pub(super) fn blame(&self, hook: Hook, error: Error) -> Error {
        self.named(hook, error).fix("correct the plugin, or run without it")
    }

    pub(super) fn call(
        &self,
        hook: Hook,
        payload: impl FnOnce() -> Value,
    ) -> Result<Option<Value>> {
        match self {
            Self::Live(plugins) => {
                if !plugins.plugins.iter().any(|plugin| plugin.wants(hook)) {
                    return Ok(None);
                }
                let payload = payload();
                let answer = plugins.call(hook, payload.clone())?;
                Ok((answer != payload).then_some(answer))
            }
            Self::Recorded { log, calls } => {
                let mut last = None;
                let mut calls = calls.borrow_mut();
                // What was before the run, such as the model's part, is not made again.
                let of = |name: &str| Hook::ALL.iter().position(|hook| hook.as_str() == name);
                let here = Hook::ALL.iter().position(|known| *known == hook);
                while calls.front().is_some_and(|next| of(&next.hook) <= here) {
                    let Some(call) = calls.pop_front().filter(|it| it.hook == hook.as_str()) else {
                        continue;
                    };
                    if let Some(why) = call.error {
                        return Err(failed(why));
                    }
                    last = call.answer.or(last);
                }
                let Some(answer) = last else { return Ok(None) };
                let bytes = log.blob(&answer.blob)?;
                let answer = serde_json::from_slice(&bytes).map_err(|e| {
                    Error::new(codes::LOG_UNREADABLE, "what a hook answered cannot be read").why(e)
                })?;
                Ok(Some(answer))
            }
        }
    }
}

/// A plugin in JavaScript or TypeScript: a file that exports functions with the names of hooks. Each
/// is called with `{ payload, hookName }` in a sandbox, where it has what code of a plan has.
pub struct ScriptPlugin {
    name: String,
    worker: Mutex<Worker<'static>>,
    functions: Functions,
}

impl ScriptPlugin {
    /// Compiles a plugin.
    ///
    /// # Errors
    /// The compiler's, with line and column; `plan_hook_failed` for a file that exports no hook; those
    /// of the sandbox.
    pub fn load(
        host: Arc<SandboxHost>,
        name: &str,
        code: &str,
        language: Language,
    ) -> Result<Self> {
        let (functions, worker) =
            Functions::compile(host, code, language).map_err(|error| of_file(name, error))?;
        if !Hook::ALL.iter().any(|hook| functions.exports(hook.as_str())) {
            return Err(failed(format!("{name} exports none of the hooks")));
        }
        Ok(Self { name: name.to_owned(), worker: Mutex::new(worker), functions })
    }

    /// Reads a plugin from a file; the end of its name says in which language it is.
    ///
    /// # Errors
    /// `input_unreadable`; as [`ScriptPlugin::load`].
    pub fn read(host: Arc<SandboxHost>, path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let code = std::fs::read_to_string(path).map_err(|error| {
            let what = format!("cannot read {}", path.display());
            Error::new(codes::INPUT_UNREADABLE, what).why(error)
        })?;
        let language = path.extension().and_then(|end| Language::parse(end.to_str()?));
        Self::load(host, &name, &code, language.unwrap_or(Language::Ts))
    }
}

impl Plugin for ScriptPlugin {
    fn name(&self) -> &str {
        &self.name
    }

    fn digest(&self) -> Digest {
        self.functions.digest()
    }

    fn wants(&self, hook: Hook) -> bool {
        self.functions.exports(hook.as_str())
    }

    fn call(&self, hook: Hook, payload: Value) -> std::result::Result<Option<Value>, String> {
        let limits =
            Limits { time_ms: HOOK_MS, output_bytes: MAX_ANSWER_BYTES, ..Limits::default() };
        let input = json!({"payload": payload, "hookName": hook.as_str()});
        let ran = self.functions.call(&lock(&self.worker), hook.as_str(), input, limits);
        let answer = ran.and_then(|ran| ran.node).map_err(|error| error.to_string())?;
        Ok(Some(answer).filter(|answer| !answer.is_null()))
    }
}
