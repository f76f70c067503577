//! How a failure ends a command: four labelled lines for people, one JSON line for programs.

use std::path::Path;
use std::process::ExitCode;

use crate::error::Error;

use crate::output;
use glasshouse_kernel::codes;

/// Tells the failure and gives the exit status it leads to.
pub(crate) fn report(error: &Error, json: bool) -> ExitCode {
    tell(error, json);
    ExitCode::from(error.exit().status())
}

/// Tells the failure.
pub(crate) fn tell(error: &Error, json: bool) {
    let report = error.report();
    if json {
        output::json_line(&serde_json::json!({ "error": report }));
    } else {
        // It may name files and repeat what a model wrote.
        let note = |line: String| output::note(&output::visible(&line, true));
        note(format!("error: {} [{}]", report.what, report.code));
        if !report.why.is_empty() {
            note(format!("  why: {}", report.why));
        }
        note(format!("  fix: {}", report.fix));
        for (key, value) in &report.context {
            note(format!("  {key}: {value}"));
        }
    }
}

/// A command line that cannot be understood.
pub(crate) fn usage(error: &clap::Error) -> Error {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    Error::new(codes::USAGE, "the command line cannot be understood")
        .why(output::visible(first, false))
}

/// Data that did not reach its file.
pub(crate) fn output_lost() -> Error {
    Error::new(codes::OUTPUT_LOST, "not all data was written").why("writing to stdout failed")
}

/// A file or directory that could not be made.
pub(crate) fn not_created(path: &Path, cause: &std::io::Error) -> Error {
    let what = format!("cannot write {}", path.display());
    if cause.kind() == std::io::ErrorKind::AlreadyExists {
        return Error::new(codes::OUTPUT_EXISTS, what).why("something is there already");
    }
    Error::new(codes::OUTPUT_LOST, what).why(cause)
}
