//! The `glasshouse` command.
#![forbid(unsafe_code)]

mod args;
mod command;
mod error;
mod event_line;
mod fail;
mod help;
mod home;
mod input;
mod models;
mod output;
mod review;
mod show;
mod slip;
mod whole;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches;
use clap::error::ErrorKind;

use args::Arguments;

fn main() -> ExitCode {
    // The sandbox host is this same program. It must stay single-threaded and must not read
    // arguments, environment or files that others control, so it branches off before anything else.
    if std::env::args_os().nth(1).is_some_and(|arg| arg == "__sandboxd") {
        glasshouse_sandbox::host::main(&glasshouse_kernel::ENTRIES);
    }
    let words = help::asked(std::env::args_os());
    let parsed = help::command().try_get_matches_from(&words);
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return not_understood(&words, &error),
    };
    let json = arguments.json();
    match command::run(arguments) {
        Ok(0) if output::lost_data() => fail::report(&fail::output_lost(), json),
        Ok(status) => ExitCode::from(status),
        Err(fault) => fail::report(&fault, json),
    }
}

/// What clap ends with: a page that was asked for, or a command line that is none.
fn not_understood(words: &[OsString], error: &clap::Error) -> ExitCode {
    let words: Vec<_> = words.iter().skip(1).map(|word| word.to_string_lossy().into()).collect();
    let json = slip::up_to_argv(&words).iter().any(|word| word == "--json");
    let is_page = !error.use_stderr()
        || (error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand && !json);
    if is_page {
        let _ = error.print();
        return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    }
    fail::report(&slip::usage(&words, error), json)
}
