//! What went wrong with code, as errors: what, why and what helps.

use glasshouse_sandbox::Status;

use super::{Program, Task};
use crate::compile::{Diagnostic, Faults, Runtime};
use crate::engine::RAW;
use crate::wire::{Failed, Limit, Makes};
use crate::worker::Limits;
use crate::{Error, codes};

pub(super) fn unavailable(address: &str) -> Error {
    Error::new(codes::MODULE_UNAVAILABLE, format!("the module {address} is not here"))
        .why("it was not found before the code was to run")
}

/// What a source lacks that was asked for, with the names that it exports.
#[must_use]
pub fn no_export(asked: &str, exports: &[String]) -> Error {
    let others: Vec<String> =
        exports.iter().filter(|it| *it != "*").map(|it| format!("`{it}`")).collect();
    let (why, fix) = match others.as_slice() {
        [] => (
            "it exports nothing".to_owned(),
            "write `export default` in front of what is shown".to_owned(),
        ),
        [first, ..] => (
            format!("it exports {}", others.join(", ")),
            format!(
                "write `export default` in front of what is shown, or name an export, such as {first}, in `source.exportName`"
            ),
        ),
    };
    Error::new(codes::EXPORT_MISSING, format!("the source exports no `{asked}`")).why(why).fix(fix)
}

/// What a process ended with that gave no answer.
pub(super) fn unanswered(limit: Option<Limit>, status: Status, limits: &Limits) -> Error {
    match (limit, status) {
        (Some(limit), _) => reached(limit, limits),
        (None, Status::Cancelled) => {
            Error::new(codes::FAILED, "the code was stopped").why("it was cancelled")
        }
        (None, Status::Signaled(signal)) => {
            Error::new(codes::FAILED, "the engine crashed under the code")
                .why(format!("its process ended by signal {signal}"))
                .fix("nest calls and iterators less deeply")
        }
        (None, status) => Error::new(codes::FAILED, "the engine ended under the code")
            .why(format!("its process ended with {status:?}")),
    }
}

/// Hooks and components of Preact fail in words of its own where nobody renders them.
pub(super) fn error_of_runtime(error: Error, program: &Program, task: &Task) -> Error {
    let is_of_preact = task.makes == Makes::Node
        && task.runtime == Runtime::Renderify
        && program.needs.iter().any(|address| address.contains("npm:preact@"));
    if is_of_preact && (error.is(codes::FAILED) || error.is(codes::OUTPUT_INVALID)) {
        return error.fix(
            "write `\"runtime\": \"preact\"`: hooks and components of Preact do nothing under `renderify`",
        );
    }
    error
}

pub(super) fn faulty(faults: &Faults) -> Error {
    let first: Option<&Diagnostic> = faults.diagnostics.first();
    let code = first.and_then(|first| codes::ALL.iter().find(|code| code.name == first.code));
    let code = code.copied().unwrap_or(codes::SOURCE_INVALID);
    let what = match first {
        Some(first) => {
            format!("line {}, column {}: {}", first.line, first.column, first.message)
        }
        None => "the source has faults".to_owned(),
    };
    let diagnostics = serde_json::to_value(&faults.diagnostics).unwrap_or_default();
    let error = Error::new(code, what);
    let error = match first {
        Some(first) => error.fix(first.fix.clone()),
        None => error,
    };
    error
        .with("diagnostics", diagnostics)
        .with("diagnostic_count", faults.count)
        .with("unknown_names", faults.unknown_names())
}

/// Whether code that says that memory was refused had used it up, by what was measured from outside.
/// A refusal can come at half of the limit, when what grows is copied.
pub(super) fn judged(failed: Failed, peak_bytes: u64, limit_bytes: usize) -> Failed {
    match failed {
        Failed::MaybeMemory(..) if peak_bytes >= limit_bytes as u64 / 2 => {
            Failed::Limit(Limit::Memory)
        }
        Failed::MaybeMemory(why, place) => Failed::Threw(why, place),
        other => other,
    }
}

pub(super) fn refused(failed: Failed) -> Error {
    match failed {
        Failed::Threw(why, _) | Failed::MaybeMemory(why, _) => threw(why, None),
        Failed::NoExport(name) => no_export(&name, &[]),
        Failed::NoNode(why) => {
            let is_raw = why.starts_with(RAW);
            let error = Error::new(codes::OUTPUT_INVALID, "the code made no part of a plan");
            let error = error.why(why);
            if is_raw {
                error.fix("write elements instead of `dangerouslySetInnerHTML`")
            } else {
                error
            }
        }
        Failed::Limit(limit) => limited(limit),
        Failed::Refused(why) => {
            Error::new(codes::SOURCE_INVALID, "the engine does not take the source").why(why)
        }
    }
}

/// What code threw, with the place in its source.
pub(super) fn threw(why: String, place: Option<(u32, u32)>) -> Error {
    let Some((line, column)) = place else {
        return Error::new(codes::FAILED, "the code failed").why(why);
    };
    Error::new(codes::FAILED, format!("the code failed at line {line}, column {column}"))
        .why(why)
        .fix(format!("correct the code at line {line}, or what it is called with"))
        .with("line", line)
        .with("column", column)
}

/// The limit of a run, with its value and how to stay within it.
pub(super) fn reached(limit: Limit, limits: &Limits) -> Error {
    const MIB: usize = 1 << 20;
    let Limits { time_ms, memory_bytes, jobs, output_bytes } = *limits;
    let (value, fix) = match limit {
        Limit::Time => (
            format!("{time_ms} ms"),
            "do less in one run, or ask for more time in `capabilities.maxExecutionMs`, within what the profile allows",
        ),
        Limit::Memory => (format!("{} MiB", memory_bytes / MIB), "hold less at a time"),
        Limit::Jobs => (format!("{jobs} steps of promises"), "wait for fewer promises in one run"),
        Limit::Output => {
            (format!("{} MiB of text", output_bytes / MIB), "make fewer or shorter nodes")
        }
    };
    let name = limit.as_str();
    let what = format!("the code reached its limit of {name}, {value}");
    Error::new(codes::LIMIT, what).fix(fix).with("limit", name)
}

pub(super) fn limited(limit: Limit) -> Error {
    let limit = limit.as_str();
    Error::new(codes::LIMIT, format!("the code reached its limit of {limit}")).with("limit", limit)
}

/// The program on the other side is ours, so this means that foreign code got at its output.
pub(super) fn nonsense() -> Error {
    Error::new(codes::FAILED, "the engine answered nonsense")
}
