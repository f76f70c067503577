//! Developer commands: `cargo xtask help` lists them.
//!
//! Everything a contributor or CI runs is one of these commands, so that there is one vocabulary.
//! Only the standard library and `serde_json` are used: this crate compiles before anything else.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its only reader is a terminal")]

mod bench;
mod ci;
mod conformance;
mod demo;
mod fuzz;
mod hooks;
mod models;
mod mutants;
mod needs;
mod place;
mod process;
mod sabotage;
mod sdk;
mod skips;
mod soak;
mod suite;
mod tidy;
mod wasm;

use std::process::ExitCode;

use place::Place;
use process::Failure;

/// One developer command.
struct Command {
    name: &'static str,
    arguments: &'static str,
    about: &'static str,
    run: fn(&Place, &[String]) -> Result<(), Failure>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        arguments: "[NEXTEST ARGUMENTS]",
        about: "run every test; a skip that tests/skips.txt does not declare is a failure",
        run: suite::command,
    },
    Command {
        name: "tidy",
        arguments: "",
        about: "check the rules of the tree that no compiler knows",
        run: tidy::command,
    },
    Command {
        name: "ci",
        arguments: "",
        about: "everything a change must pass, timed step by step",
        run: ci::command,
    },
    Command {
        name: "demo",
        arguments: "[ARGUMENTS]",
        about: "build for release and run `glasshouse demo` in a home of its own",
        run: demo::command,
    },
    Command {
        name: "sabotage",
        arguments: "[NAME | --turn] [--no-control]",
        about: "break one layer on purpose and require the demo to notice",
        run: sabotage::command,
    },
    Command {
        name: "mutants",
        arguments: "[FILE]... [--reader] [--with TEXT]... [--every N]",
        about: "change one token of what the policy decides with, and require a test to fail",
        run: mutants::command,
    },
    Command {
        name: "fuzz",
        arguments: "[TARGET]... [--seconds N]",
        about: "look for inputs that break what holds for any input; needs a nightly toolchain",
        run: fuzz::command,
    },
    Command {
        name: "bench",
        arguments: "[CRATE]... [--short] [--gate]",
        about: "run the benchmarks and print each promise with its bound",
        run: bench::command,
    },
    Command {
        name: "conformance",
        arguments: "FILE [--verbose]",
        about: "run a file of plan cases; print each failing id and the counts",
        run: conformance::command,
    },
    Command {
        name: "wasm",
        arguments: "",
        about: "build plans for a browser, and compare what they show there with what they show here",
        run: wasm::command,
    },
    Command {
        name: "sdk",
        arguments: "[--check]",
        about: "write the client for TypeScript from the description of the API, or check it",
        run: sdk::command,
    },
    Command {
        name: "soak",
        arguments: "",
        about: "the long checks: ignored tests and scaled ones with GLASSHOUSE_SOAK=1, every sabotage, every mutant, every fuzzer",
        run: soak::command,
    },
    Command {
        name: "hooks",
        arguments: "[pre-commit | pre-push]",
        about: "install the git hooks of this clone, or do what one of them does",
        run: hooks::command,
    },
];

/// Exit status of a command line that names no command.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        eprint!("{}", help());
        return ExitCode::from(USAGE);
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        eprintln!("error: no developer command `{name}`\nhint: `cargo xtask help` lists them");
        return ExitCode::from(USAGE);
    };
    match Place::find().and_then(|place| (command.run)(&place, rest)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn help() -> String {
    let mut text = String::from("Developer commands of Glasshouse\n\n");
    for command in COMMANDS {
        let call = format!("cargo xtask {} {}", command.name, command.arguments);
        text.push_str(&format!("  {}\n      {}\n", call.trim_end(), command.about));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_command_once() {
        let text = help();
        for command in COMMANDS {
            let line = format!("cargo xtask {}", command.name);
            let count = text.lines().filter(|found| {
                found.trim() == line || found.trim().starts_with(&format!("{line} "))
            });
            assert_eq!(count.count(), 1, "{}", command.name);
        }
    }
}
