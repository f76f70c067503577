//! The program of the escape suite: one attempt at a time, on whatever it runs in.
//!
//! Exit status 0: it got what it wanted. 1: it was refused. 2: there is no such attempt. The
//! attempts that the doctor makes too are in the product; these are the others.
#![allow(clippy::print_stdout, missing_docs, reason = "a test program that talks to its runner")]

mod calls;
mod entries;
mod files;
mod network;
mod processes;
mod resources;

use std::io;

type Outcome = io::Result<()>;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.first() {
        Some(&glasshouse_sandbox::host::ARGUMENT) => {
            glasshouse_sandbox::host::main(&entries::ENTRIES)
        }
        Some(&"attempts") => std::process::exit(entries::attempts().into()),
        _ => {}
    }
    let Some((name, rest)) = arguments.split_first() else { std::process::exit(2) };
    let attempts = [files::attempt, network::attempt, processes::attempt, resources::attempt];
    let found = attempts.iter().find_map(|attempt| attempt(name, rest));
    let Some(outcome) = found.or_else(|| calls::attempt(name, rest)) else { std::process::exit(2) };
    match outcome {
        Ok(()) => println!("reached"),
        Err(error) => {
            println!("refused: {error}");
            std::process::exit(1);
        }
    }
}

/// The error of a call that answered a negative number.
fn checked(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn number<T: std::str::FromStr>(text: &str) -> io::Result<T> {
    text.parse().map_err(|_| refusal("that is no number"))
}

fn refusal(why: &str) -> io::Error {
    io::Error::other(why.to_owned())
}
