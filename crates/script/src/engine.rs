//! The engine's process: reads one order, does it, writes one reply, ends.
//!
//! It runs in a sandbox as an entry function, so all it has is three descriptors and memory. What
//! it reads may be hostile source, what it runs is hostile code; if either breaks the engine, this
//! process is what is broken. Source is compiled in one process and run in another: where code runs,
//! no text becomes code, because the context is made without the part that would do it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use glasshouse_sandbox::Entry;
use rquickjs::context::intrinsic;
use rquickjs::loader::{ImportAttributes, Loader, Resolver};
use rquickjs::module::{Declared, WriteOptions};
use rquickjs::promise::PromiseState;
use rquickjs::{
    CatchResultExt, CaughtError, Context, Ctx, Function, Module, Object, Promise, Runtime, Value,
};

use crate::compile::{self, Source};
use crate::wire::{Bytecode, Failed, Limit, Makes, Order, Reply, Work, decode, encode};
use crate::{html, output, vendor};

/// What runs modules, by name and version; recorded with every run.
pub const ENGINE: &str = "quickjs-ng, rquickjs 0.14.0";

/// The entry function of a program that hosts sandboxes for this crate.
pub const ENTRY: Entry = Entry { name: "script", run: main };

/// The export that is run when nothing else is asked for.
pub const DEFAULT_EXPORT: &str = "default";

/// Where a plan's own module is.
pub(crate) const SOURCE: &str = "plan:source";

/// Stack of the engine's own: well below what the process has.
const STACK_BYTES: usize = 1 << 20;
/// Memory for compiling the largest source.
const COMPILE_BYTES: usize = 64 << 20;
/// What the reason begins with when markup cannot be read: only what code puts in as text can be such.
pub(crate) const RAW: &str =
    "markup that stands in `dangerouslySetInnerHTML` is not written as a renderer does";
/// Longest message of an error that code threw.
const MAX_MESSAGE_BYTES: usize = 2 << 10;

/// What code finds in the engine. There is no `Eval`: neither `eval` nor any constructor of
/// functions makes code out of text, and no clock but the one that is replaced at the start.
type Intrinsics = (
    intrinsic::Date,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
);

fn main() -> u8 {
    let mut given = Vec::new();
    if std::io::stdin().read_to_end(&mut given).is_err() {
        return 2;
    }
    let Some((order, modules)) = decode::<Order>(&given) else { return 2 };
    drop(given);
    let (reply, made) = answer(order, modules);
    let made: Vec<(&str, &[u8])> = made.iter().map(|(a, code)| (a.as_str(), &code[..])).collect();
    let bytes = encode(&reply, &made);
    u8::from(std::io::stdout().write_all(&bytes).is_err())
}

/// Does what is ordered.
pub(crate) fn answer(order: Order, modules: Vec<Bytecode>) -> (Reply, Vec<Bytecode>) {
    match order {
        Order::Carry { addresses } => carry(&addresses),
        Order::Compile { code, language, runtime, manifest, stores } => {
            let source = Source { code: &code, language, runtime, manifest: &manifest, stores };
            compiled(SOURCE, compile::compile(&source))
        }
        Order::Module { address, kind, manifest } => {
            let bytes = modules.first().map(|(_, bytes)| bytes.as_slice()).unwrap_or_default();
            compiled(&address, compile::foreign((&address, kind), bytes, &manifest))
        }
        Order::Bodies { codes } => {
            let bodies: Result<Vec<_>, _> = codes.iter().map(|code| compile::body(code)).collect();
            let refused = |why: &str| Reply::Failed(Failed::Refused(why.to_owned()));
            (bodies.map_or_else(refused, Reply::Bodies), Vec::new())
        }
        Order::Run(work) => {
            let reply = match run(&work, modules) {
                Ok((made, by_default)) => Reply::Made(made, by_default),
                Err(failed) => Reply::Failed(failed),
            };
            (reply, Vec::new())
        }
    }
}

fn compiled(
    address: &str,
    module: Result<compile::Module, compile::Faults>,
) -> (Reply, Vec<Bytecode>) {
    match module {
        Ok(module) => match bytecode(BTreeMap::from([(address, module.code.as_str())])) {
            Ok(made) => (Reply::Compiled(module), made),
            Err(why) => (Reply::Failed(Failed::Refused(why)), Vec::new()),
        },
        Err(faults) => (Reply::Faulty(faults), Vec::new()),
    }
}

fn carry(addresses: &[String]) -> (Reply, Vec<Bytecode>) {
    let compiled: Vec<(&str, String)> = addresses
        .iter()
        .filter_map(|address| Some((address.as_str(), compile::carried(address)?.code)))
        .collect();
    let texts = compiled.iter().map(|(address, code)| (*address, code.as_str())).collect();
    match bytecode(texts) {
        Ok(made) => (Reply::Carried, made),
        Err(why) => (Reply::Failed(Failed::Refused(why)), Vec::new()),
    }
}

/// Compiles modules for the engine. What they import stays a name: it is found when they run.
fn bytecode(texts: BTreeMap<&str, &str>) -> Result<Vec<Bytecode>, String> {
    let failed = |error: rquickjs::Error| error.to_string();
    let runtime = Runtime::new().map_err(failed)?;
    runtime.set_memory_limit(COMPILE_BYTES);
    runtime.set_max_stack_size(STACK_BYTES);
    runtime.set_loader(Names, Nothing);
    let context = Context::full(&runtime).map_err(failed)?;
    context.with(|ctx| {
        let compile = |(address, text): (&str, &str)| {
            let module = Module::declare(ctx.clone(), address, text)
                .catch(&ctx)
                .map_err(|caught| message(&caught))?;
            let options = WriteOptions { strip_source: true, ..WriteOptions::default() };
            Ok((address.to_owned(), module.write(options).map_err(failed)?))
        };
        texts.into_iter().map(compile).collect()
    })
}

/// Addresses are names already.
struct Names;

impl Resolver for Names {
    fn resolve<'js>(
        &mut self,
        _: &Ctx<'js>,
        base: &str,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<String> {
        // What is of use to the program only is no module of a plan's, also where a name is computed.
        let is_ours = base.is_empty() || base.starts_with(vendor::SCHEME);
        if vendor::is_inner(name) && !is_ours {
            return Err(rquickjs::Error::new_resolving(base, name));
        }
        Ok(name.to_owned())
    }
}

/// While modules are compiled each is alone; an import of it gets an empty module of that name.
struct Nothing;

impl Loader for Nothing {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<Module<'js, Declared>> {
        Module::declare(ctx.clone(), name, "")
    }
}

/// The modules of a run.
struct Modules(&'static BTreeMap<String, Vec<u8>>);

impl Loader for Modules {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> rquickjs::Result<Module<'js, Declared>> {
        let code = self.0.get(name).ok_or_else(|| rquickjs::Error::new_loading(name))?;
        load(ctx, code)
    }
}

#[expect(unsafe_code, reason = "the engine reads bytecode only through this")]
fn load<'js>(ctx: &Ctx<'js>, code: &'static [u8]) -> rquickjs::Result<Module<'js, Declared>> {
    // SAFETY: the bytes were written by `Module::write` of this same engine, in a process like this
    // one that had not run any of the code, and they live as long as the process. A forged one
    // would break this process, which holds nothing but its own order.
    unsafe { Module::load(ctx.clone(), code) }
}

fn run(work: &Work, modules: Vec<Bytecode>) -> Result<(serde_json::Value, bool), Failed> {
    let internal = |error: rquickjs::Error| Failed::Refused(error.to_string());
    let deadline = Instant::now() + Duration::from_millis(work.time_ms);
    let runtime = Runtime::new().map_err(internal)?;
    runtime.set_memory_limit(work.memory_bytes);
    runtime.set_max_stack_size(STACK_BYTES);
    // A courtesy: what really ends code that goes on is the end of its process.
    runtime.set_interrupt_handler(Some(Box::new(move || Instant::now() >= deadline)));
    // The engine keeps references into bytecode, and the process ends with the run.
    let modules: &'static BTreeMap<_, _> = Box::leak(Box::new(modules.into_iter().collect()));
    runtime.set_loader(Names, Modules(modules));
    let context = Context::custom::<Intrinsics>(&runtime).map_err(internal)?;
    let run = Run { work, deadline, jobs: Cell::new(0) };
    let (made, by_default) = context.with(|ctx| run.text(&ctx))?;
    Ok((run.value(&made)?, by_default))
}

struct Run<'w> {
    work: &'w Work,
    deadline: Instant,
    /// Steps of promises so far: the limit is the run's, not that of one promise.
    jobs: Cell<u64>,
}

/// What code made, before it is a node.
enum Made {
    Json(String),
    Html(String),
}

impl Run<'_> {
    fn text<'js>(&self, ctx: &Ctx<'js>) -> Result<(Made, bool), Failed> {
        let work = self.work;
        let start = self.import(ctx, vendor::START)?;
        let begin: Function<'js> = self.caught(ctx, start.get("start"))?;
        self.caught(ctx, begin.call::<_, ()>((work.now_ms, work.seed)))?;
        let awaited: Function<'js> = self.caught(ctx, start.get("awaited"))?;
        // Ours comes first, so that what it takes from the engine is still the engine's.
        let render = match (work.makes, work.runtime) {
            (Makes::Node, compile::Runtime::Preact) => Some(self.import(ctx, vendor::PREACT)?),
            _ => None,
        };
        let module = self.import(ctx, SOURCE)?;
        let (exported, by_default) = self.exported(ctx, &module)?;
        let input = serde_json::to_string(&work.input).unwrap_or_default();
        let input = self.caught(ctx, ctx.json_parse(input))?;
        if let Some(render) = render {
            let render: Function<'js> = self.caught(ctx, render.get("render"))?;
            let whole: Function<'js> = self.caught(ctx, start.get("whole"))?;
            let html: Value<'js> = self.caught(ctx, render.call((exported, input)))?;
            let html = self.caught(ctx, whole.call((html,)))?;
            return Ok((Made::Html(html), by_default));
        }
        let made = match exported.as_function() {
            Some(function) => self.caught(ctx, function.call((input,)))?,
            // Rules and plugins are asked; what is no function would be silent each time.
            None if work.makes == Makes::Data => {
                return Err(Failed::NoNode(format!("`{}` is no function", work.export)));
            }
            None => exported,
        };
        // Whatever has a `then` is waited for, as an `await` in code would.
        let made = self.caught(ctx, awaited.call((made,)))?;
        let made = self.settled(ctx, made)?;
        let is_silent = made.is_undefined() || made.is_null();
        let text = self.caught(ctx, ctx.json_stringify(made))?;
        let text = text.map(|text| self.caught(ctx, text.to_string())).transpose()?;
        let text = text.map(output::whole);
        match (text.filter(|text| text != "null"), work.makes) {
            (Some(text), _) => Ok((Made::Json(text), by_default)),
            // A function of rules or of a plugin that says nothing leaves everything as it is; what it says
            // and nobody can read is no silence.
            (None, Makes::Data) if is_silent => Ok((Made::Json("null".to_owned()), by_default)),
            (None, Makes::Data) => Err(Failed::NoNode("what came back is no data".to_owned())),
            (None, Makes::Node) if is_silent => Err(Failed::NoNode("nothing came back".to_owned())),
            (None, Makes::Node) => Err(Failed::NoNode("what came back is no data".to_owned())),
        }
    }

    /// The export that is asked for or, where that may be, the default.
    fn exported<'js>(
        &self,
        ctx: &Ctx<'js>,
        module: &Object<'js>,
    ) -> Result<(Value<'js>, bool), Failed> {
        let asked = self.work.export.as_str();
        let exported: Value<'js> = self.caught(ctx, module.get(asked))?;
        if !exported.is_undefined() {
            return Ok((exported, false));
        }
        if self.work.or_default && asked != DEFAULT_EXPORT {
            let exported: Value<'js> = self.caught(ctx, module.get(DEFAULT_EXPORT))?;
            if !exported.is_undefined() {
                return Ok((exported, true));
            }
        }
        Err(Failed::NoExport(asked.to_owned()))
    }

    fn value(&self, made: &Made) -> Result<serde_json::Value, Failed> {
        let (Made::Html(text) | Made::Json(text)) = made;
        if text.len() > self.work.output_bytes {
            return Err(Failed::Limit(Limit::Output));
        }
        let node = match made {
            Made::Json(text) if self.work.makes == Makes::Data => {
                serde_json::from_str(text).map_err(|e| e.to_string())
            }
            // The renderer writes what our reader takes; what is put in as text need not look so.
            Made::Html(text) => {
                html::nodes(text).map_err(|why| format!("{RAW}: {why}")).and_then(output::fragment)
            }
            Made::Json(text) => {
                serde_json::from_str(text).map_err(|e| e.to_string()).and_then(output::node)
            }
        };
        node.map_err(Failed::NoNode)
    }

    fn import<'js>(&self, ctx: &Ctx<'js>, address: &str) -> Result<Object<'js>, Failed> {
        let promise: Promise<'js> = self.caught(ctx, Module::import(ctx, address))?;
        let namespace = self.settled(ctx, promise.into_value())?;
        namespace.into_object().ok_or_else(|| Failed::Refused(format!("{address} is no module")))
    }

    /// What a promise comes to; any other value is itself.
    fn settled<'js>(&self, ctx: &Ctx<'js>, value: Value<'js>) -> Result<Value<'js>, Failed> {
        let Some(promise) = value.as_promise().cloned() else { return Ok(value) };
        while promise.state() == PromiseState::Pending {
            self.jobs.set(self.jobs.get() + 1);
            if self.jobs.get() > self.work.jobs {
                return Err(Failed::Limit(Limit::Jobs));
            }
            // Steps may be too short for the engine to ask.
            if Instant::now() >= self.deadline {
                return Err(Failed::Limit(Limit::Time));
            }
            if !ctx.execute_pending_job() && promise.state() == PromiseState::Pending {
                return Err(Failed::Threw("a promise never settles".to_owned(), None));
            }
        }
        match promise.result::<Value<'js>>() {
            Some(result) => self.caught(ctx, result),
            None => Err(Failed::Threw("a promise never settles".to_owned(), None)),
        }
    }

    fn caught<'js, T>(&self, ctx: &Ctx<'js>, result: rquickjs::Result<T>) -> Result<T, Failed> {
        result.catch(ctx).map_err(|caught| self.failed(&caught))
    }

    fn failed(&self, caught: &CaughtError<'_>) -> Failed {
        let text = message(caught);
        // Reading what was thrown may run code, too, so the clock comes after it.
        if Instant::now() >= self.deadline {
            return Failed::Limit(Limit::Time);
        }
        match caught {
            CaughtError::Error(rquickjs::Error::Allocation) => Failed::Limit(Limit::Memory),
            // When there is no memory for an error either, the engine throws nothing at all.
            CaughtError::Value(value) if value.is_null() => Failed::MaybeMemory(text, None),
            _ if text.contains("out of memory") => Failed::MaybeMemory(text, place(caught)),
            _ => Failed::Threw(text, place(caught)),
        }
    }
}

/// Where in the plan's module an error was made: the innermost of its calls there, as the engine wrote it down. Code can
/// write there what it likes; it misleads only who wrote it.
fn place(caught: &CaughtError<'_>) -> Option<(u32, u32)> {
    let CaughtError::Exception(thrown) = caught else { return None };
    let calls = thrown.stack()?;
    let (_, after) = calls.split_once(SOURCE)?;
    let mut numbers = after.strip_prefix(':')?.split(|c: char| !c.is_ascii_digit());
    let (line, column) = (numbers.next()?.parse().ok()?, numbers.next()?.parse::<u32>().ok()?);
    Some((line, column.checked_sub(1)?))
}

/// What an error says, in one text of bounded length.
fn message(caught: &CaughtError<'_>) -> String {
    let text = match caught {
        CaughtError::Error(error) => error.to_string(),
        CaughtError::Exception(thrown) => {
            // Whatever code put there: reading it must not fail again.
            let name: String = thrown.as_object().get("name").unwrap_or_default();
            let said = thrown.message().unwrap_or_default();
            if name.is_empty() { said } else { format!("{name}: {said}") }
        }
        CaughtError::Value(value) => match value.as_string().map(rquickjs::String::to_string) {
            Some(Ok(text)) => text,
            _ => format!("a value of type {} was thrown", value.type_name()),
        },
    };
    let end = text.floor_char_boundary(MAX_MESSAGE_BYTES.min(text.len()));
    text[..end].to_owned()
}

#[cfg(test)]
mod tests;
