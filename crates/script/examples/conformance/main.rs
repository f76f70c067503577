//! Runs conformance cases: `conformance FILE [DEVIATIONS]`.
//!
//! A case is `{id, area, input: {op, ..}, expected}`. Each failing id is printed, then one line with
//! the counts; the status is 1 if any case failed. `cargo xtask conformance` calls this program.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its only reader is a terminal")]

mod coder;
// The cases and what answers them are the plan crate's; only running code needs an engine.
#[path = "../../../plan/examples/conformance/suite.rs"]
mod suite;

use std::process::ExitCode;

use suite::Outcome;

static ENTRIES: [glasshouse_sandbox::Entry; 1] = [glasshouse_script::ENTRY];

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(glasshouse_sandbox::host::ARGUMENT) {
        glasshouse_sandbox::host::main(&ENTRIES)
    }
    let mut arguments = std::env::args().skip(1);
    let Some(file) = arguments.next() else {
        eprintln!("usage: conformance FILE [DEVIATIONS]");
        return ExitCode::from(2);
    };
    let deviations = arguments.next();
    let verbose = arguments.next().is_some();
    let read = |path: &str| {
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))
    };
    let deviations = match deviations.as_deref().map(read) {
        Some(Ok(text)) => text,
        None => "{}".to_owned(),
        Some(Err(error)) => return fail(&error),
    };
    let place =
        std::env::current_exe().map_err(|error| error.to_string()).and_then(coder::Place::start);
    let place = match place {
        Ok(place) => place,
        Err(error) => return fail(&error),
    };
    let code = |plan: &_, input| place.code(plan, input);
    let outcome = read(&file).and_then(|text| suite::run(&text, &deviations, Some(&code)));
    let Outcome { passed, failed, skipped, by_rule } = match outcome {
        Ok(outcome) => outcome,
        Err(error) => return fail(&error),
    };
    for failure in &failed {
        println!("{}", failure.id);
        if verbose {
            eprintln!("  got  {}\n  want {}", failure.got, failure.want);
        }
    }
    for (reason, count) in &skipped {
        eprintln!("skipped: {count}: {reason}");
    }
    for (rule, count) in &by_rule {
        eprintln!("deviation: {count}: {rule}");
    }
    let skipped: usize = skipped.values().sum();
    println!("{passed} passed, {} failed, {skipped} skipped", failed.len());
    ExitCode::from(u8::from(!failed.is_empty()))
}

fn fail(error: &str) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(2)
}
