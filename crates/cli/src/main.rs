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
mod whole;

use std::process::ExitCode;

use clap::FromArgMatches;

use args::Arguments;

fn main() -> ExitCode {
    // The sandbox host is this same program. It must stay single-threaded and must not read
    // arguments, environment or files that others control, so it branches off before anything else.
    if std::env::args_os().nth(1).is_some_and(|arg| arg == "__sandboxd") {
        glasshouse_sandbox::host::main(&glasshouse_kernel::ENTRIES);
    }
    let parsed = help::command().try_get_matches();
    let arguments = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            let word = std::env::args_os().nth(1).filter(|_| error.use_stderr());
            if let Some(name) = word.as_deref().and_then(|word| help::meant(word.to_str()?)) {
                output::note(&format!("hint: did you mean `glasshouse {name}`?"));
            }
            let wants_json = std::env::args_os().any(|argument| argument == "--json");
            if wants_json && error.use_stderr() {
                fail::tell(&fail::usage(&error), true);
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let json = arguments.json();
    match command::run(arguments) {
        Ok(0) if output::lost_data() => fail::report(&fail::output_lost(), json),
        Ok(status) => ExitCode::from(status),
        Err(fault) => fail::report(&fault, json),
    }
}
