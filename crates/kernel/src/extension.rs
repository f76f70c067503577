//! Rules of a policy in TypeScript: the policy's last layer, served by the engine of plans.
//!
//! A file exports `evaluate(call)`. It runs as foreign code does, in a sandbox without files, network or
//! clock, so what it answers depends on the call alone. It answers nothing, or
//! `{ effect: "allow" | "deny" | "require_review", reason: "..." }`; anything else, an error, a timeout
//! and a crash deny the call. After a crash the sandbox is made again, once; a second crash soon after
//! disables the extension, which denies every call that reaches it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use glasshouse_model::{Call, Effect, Principal, PrincipalKind, TenantId};
use glasshouse_policy::{Extension, ExtensionError, ExtensionText, Opinion};
use glasshouse_sandbox::SandboxHost;
use glasshouse_script::{Language, Limit, Limits, Ran, Worker};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::driver::{in_place, lock};
use crate::functions::Functions;
use crate::{Error, Result, codes};

/// Longest evaluation of one call.
pub const EVALUATION_MS: u64 = 100;
/// A second crash within this time disables the extension.
const CRASH_WINDOW: Duration = Duration::from_secs(30);
/// Most bytes of a reason.
const MAX_REASON_BYTES: usize = 4 << 10;
/// The export that is asked.
const EVALUATE: &str = "evaluate";
/// Name of the call that an extension is tried with before it serves.
const WARM_UP: &str = "policy.warm_up";

/// A running extension.
pub struct ScriptExtension {
    running: Mutex<Running>,
    functions: Functions,
}

struct Running {
    /// None until it is made, again after a crash.
    worker: Option<Worker<'static>>,
    crashed: Option<Instant>,
    disabled: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "`{ effect, reason }`")]
struct Answer {
    effect: Effect,
    reason: String,
}

impl ScriptExtension {
    /// Compiles a file of rules and asks it once, so that the first real call finds everything ready.
    ///
    /// # Errors
    /// The compiler's, with line and column; `policy_extension_failed` when it cannot answer the call that
    /// it is tried with; those of the sandbox: without one there is no extension.
    pub fn start(host: Arc<SandboxHost>, code: &str, language: Language) -> Result<Self> {
        let (functions, worker) = Functions::compile(host, code, language)?;
        if !functions.exports(EVALUATE) {
            return Err(failed(format!("it exports no function `{EVALUATE}`")));
        }
        let running = Running { worker: Some(worker), crashed: None, disabled: false };
        let extension = Self { running: Mutex::new(running), functions };
        let kernel = Principal::new(PrincipalKind::Kernel, "kernel", TenantId::local());
        let call = Call::new(WARM_UP, kernel);
        // Whatever it thinks of that call: what counts is that it thinks.
        extension.ask(&call, 50 * EVALUATION_MS).map_err(not_tried)?;
        Ok(extension)
    }

    /// Whether it crashed too often to be asked again.
    #[must_use]
    pub fn is_disabled(&self) -> bool {
        lock(&self.running).disabled
    }

    fn ask(&self, call: &Call, time_ms: u64) -> Result<Option<Opinion>, ExtensionError> {
        let crashed = |why: &dyn std::fmt::Display| ExtensionError::Crashed(why.to_string());
        let mut running = lock(&self.running);
        if running.disabled {
            return Err(ExtensionError::Disabled { within: CRASH_WINDOW });
        }
        if running.worker.is_none() {
            running.worker = Some(self.functions.worker().map_err(|e| crashed(&e))?);
        }
        let Some(worker) = &running.worker else { return Err(crashed(&"it is not running")) };
        let limits = Limits {
            time_ms,
            memory_bytes: 32 << 20,
            jobs: 10_000,
            output_bytes: 4 * MAX_REASON_BYTES,
        };
        let ran = self.functions.call(worker, EVALUATE, json!(call), limits);
        let ran = ran.map_err(|e| crashed(&e))?;
        opinion(ran, time_ms)
    }

    /// What it says of a call.
    ///
    /// # Errors
    /// Why it says nothing.
    pub fn evaluate(&self, call: &Call) -> Result<Option<Opinion>, ExtensionError> {
        in_place(|| self.ask(call, EVALUATION_MS))
    }

    /// Has the next call make it again, after a crash. Answers whether it will be asked again.
    pub fn restart(&self) -> bool {
        let mut running = lock(&self.running);
        let now = Instant::now();
        let again = running.crashed.is_some_and(|at| now.duration_since(at) < CRASH_WINDOW);
        running.disabled |= again;
        running.crashed = Some(now);
        // The next call makes another one, so nobody waits here.
        running.worker = None;
        !running.disabled
    }
}

/// Why a program could not answer the call that it is tried with.
fn not_tried(error: ExtensionError) -> Error {
    let fix = match error {
        ExtensionError::TimedOut { .. } => "let `evaluate` come to an end for each call",
        ExtensionError::Failed(_) => {
            "answer nothing or `{ effect, reason }` for each call; a call has no member that it has nothing for: write \
             `call.path?.endsWith(\".sql\")`"
        }
        ExtensionError::Crashed(_) | ExtensionError::Disabled { .. } => {
            "let `evaluate` hold less at a time"
        }
    };
    failed(format!(
        "{error}; it is tried with a call that has `syscall` and `caller` and no other member"
    ))
    .fix(fix)
}

fn failed(why: impl std::fmt::Display) -> Error {
    Error::new(codes::POLICY_EXTENSION_FAILED, "the rules in TypeScript cannot be used").why(why)
}

/// An error about the program of a policy as one about the policy: in which file it is, and where in it.
pub(crate) fn of_policy(error: Error, text: &ExtensionText) -> Error {
    let of_script = glasshouse_script::codes::ALL.iter().find(|code| code.name == error.code());
    if of_script.is_none() && !error.is(codes::POLICY_EXTENSION_FAILED) {
        return error;
    }
    let report = error.report();
    let why = [report.what.as_str(), report.why.as_str()].join(": ");
    let (why, first) = with_places(why.trim_end_matches([':', ' ']), text);
    let place = match first {
        Some((line, column)) => format!("{}:{line}:{column}", text.source),
        None => format!("{}:{}", text.source, text.line),
    };
    let what = format!("{place}: the rules in TypeScript");
    let fix = of_script.map_or_else(|| report.fix.clone(), |code| fix_of(code.name).to_owned());
    let mut told = Error::new(codes::POLICY_EXTENSION_FAILED, what)
        .why(why)
        .fix(fix)
        .with("source", text.source.as_str())
        .with("line", first.map_or(text.line, |(line, _)| line));
    for (key, value) in &report.context {
        let value = if key == "diagnostics" { placed(value.clone(), text) } else { value.clone() };
        told = told.with(key, value);
    }
    told
}

/// What to do about a fault of a program that is no plan.
fn fix_of(code: &str) -> &'static str {
    use glasshouse_script::codes as script;
    match code {
        code if code == script::SOURCE_INVALID.name => "correct the program at the place named",
        code if code == script::SOURCE_DENIED.name => {
            "decide by the call alone: rules reach no network, file, clock or chance"
        }
        code if code == script::NAME_UNKNOWN.name => "define the name in the program",
        code if code == script::MODULE_UNAVAILABLE.name => "write the program without imports",
        _ => codes::POLICY_EXTENSION_FAILED.fix,
    }
}

/// A text with the places of the program as places of the file, and the first of these.
fn with_places(text: &str, program: &ExtensionText) -> (String, Option<(u64, u64)>) {
    const LINE: &str = "line ";
    const COLUMN: &str = ", column ";
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (mut told, mut rest, mut first) = (String::new(), text, None);
    while let Some(at) = rest.find(LINE) {
        let (before, behind) = rest.split_at(at + LINE.len());
        told.push_str(before);
        rest = behind;
        let (line, after) = rest.split_at(digits(rest));
        let Some(after) = after.strip_prefix(COLUMN) else { continue };
        let (column, after) = after.split_at(digits(after));
        let numbers = line.parse().ok().zip(column.parse().ok());
        let place = numbers.and_then(|(line, column)| program.place(line, column));
        let Some((line, column)) = place else { continue };
        told.push_str(&format!("{line}{COLUMN}{column}"));
        (rest, first) = (after, first.or(place));
    }
    told.push_str(rest);
    (told, first)
}

/// Diagnostics with places of the file, and what to do about each.
fn placed(mut diagnostics: Value, program: &ExtensionText) -> Value {
    for found in diagnostics.as_array_mut().into_iter().flatten() {
        let number = |key: &str| found[key].as_u64().unwrap_or_default();
        if let Some((line, column)) = program.place(number("line"), number("column")) {
            (found["line"], found["column"]) = (json!(line), json!(column));
        }
        if let Some(fix) = found["code"].as_str().map(fix_of) {
            found["fix"] = json!(fix);
        }
    }
    diagnostics
}

/// What a run says.
fn opinion(ran: Ran, limit_ms: u64) -> Result<Option<Opinion>, ExtensionError> {
    let receipt = ran.receipt;
    let value = match ran.node {
        Ok(value) => value,
        Err(_) if receipt.limit == Some(Limit::Time) => {
            return Err(ExtensionError::TimedOut { limit_ms });
        }
        Err(error) if receipt.limit == Some(Limit::Memory) || receipt.killed.is_some() => {
            return Err(ExtensionError::Crashed(error.to_string()));
        }
        Err(_) if receipt.limit == Some(Limit::Output) => {
            let most = 4 * MAX_REASON_BYTES;
            let why = format!("its answer is larger than {most} bytes");
            return Err(ExtensionError::Failed(why));
        }
        Err(error) => return Err(ExtensionError::Failed(error.to_string())),
    };
    if value.is_null() {
        return Ok(None);
    }
    let answer: Answer = serde_json::from_value(value)
        .map_err(|why| ExtensionError::Failed(format!("its answer is no opinion: {why}")))?;
    let mut reason = answer.reason;
    reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
    Ok(Some(Opinion { effect: answer.effect, reason }))
}

/// One program that stands for all texts, as in a policy that has one.
impl Extension for ScriptExtension {
    fn evaluate(
        &self,
        _: Option<&ExtensionText>,
        call: &Call,
    ) -> Result<Option<Opinion>, ExtensionError> {
        self.evaluate(call)
    }

    fn restart(&self, _: Option<&ExtensionText>) -> bool {
        self.restart()
    }
}

/// The programs of a policy, each with its text: what two sources carry is one program.
#[derive(Default)]
pub struct Programs(Vec<(String, ScriptExtension)>);

impl Programs {
    /// Whether a text runs.
    #[must_use]
    pub fn runs(&self, code: &str) -> bool {
        self.of(code).is_some()
    }

    /// Adds the program of a text.
    pub fn add(&mut self, code: &str, program: ScriptExtension) {
        self.0.push((code.to_owned(), program));
    }

    fn of(&self, code: &str) -> Option<&ScriptExtension> {
        self.0.iter().find(|(text, _)| text == code).map(|(_, program)| program)
    }
}

impl Extension for Programs {
    fn evaluate(
        &self,
        text: Option<&ExtensionText>,
        call: &Call,
    ) -> Result<Option<Opinion>, ExtensionError> {
        let program = text.and_then(|text| self.of(&text.code));
        let program =
            program.ok_or_else(|| ExtensionError::Failed("it was not started".to_owned()))?;
        program.evaluate(call)
    }

    fn restart(&self, text: Option<&ExtensionText>) -> bool {
        text.and_then(|text| self.of(&text.code)).is_some_and(ScriptExtension::restart)
    }
}
