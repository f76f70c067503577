//! Runs conformance cases: `conformance FILE [DEVIATIONS]`.
//!
//! A case is `{id, area, input: {op, ..}, expected}`. Each failing id is printed, then one line with
//! the counts; the status is 1 if any case failed. `cargo xtask conformance` calls this program.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its only reader is a terminal")]

// The tests include the same file, so both find its modules beside it.
#[path = "suite.rs"]
mod suite;

use std::process::ExitCode;

use suite::Outcome;

fn main() -> ExitCode {
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
    let outcome = read(&file).and_then(|text| suite::run(&text, &deviations));
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
