//! The commands, one module each.

mod access;
mod audit;
mod browser;
mod config;
mod demo;
mod doctor;
mod notify;
mod policy;
mod provider;
pub(crate) mod review;
mod sandbox;
mod serve;
mod session;
pub(crate) mod task;
mod ui;

use clap::CommandFactory;
use glasshouse_kernel::codes;
use glasshouse_model::Exit;

use crate::args::{Arguments, Command};
use crate::error::Error;
use crate::{help, slip};

/// Runs the command and gives the exit status.
pub(crate) fn run(arguments: Arguments) -> Result<u8, Error> {
    let Some(command) = arguments.command else {
        return match arguments.task.task {
            Some(task) => {
                check_is_task(&task)?;
                task::run(&task, &arguments.task.options)
            }
            None => {
                let _ = help::command().print_help();
                Ok(Exit::Usage.status())
            }
        };
    };
    match command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Keys(command) => access::keys(command),
        Command::Tenants(command) => access::tenants(command),
        Command::Sandbox(command) => sandbox::run(command),
        Command::Session(command) => session::run(command),
        Command::Review(command) => review::run(command),
        Command::Grants(command) => review::grants(command),
        Command::Policy(command) => policy::run(command),
        Command::Provider(command) => provider::run(&command),
        Command::Audit(command) => audit::run(command),
        Command::Ui(command) => ui::run(command),
        Command::Doctor { json } => doctor::run(json),
        Command::Config(command) => config::run(command),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "glasshouse", &mut script);
            crate::output::bytes(&script);
            Ok(Exit::Done.status())
        }
    }
}

/// Refuses what is no task but a slip: a model would be paid for it.
fn check_is_task(task: &str) -> Result<(), Error> {
    if task.trim().is_empty() {
        return Err(Error::new(codes::USAGE, "the task is empty")
            .fix("say what to do, for example: glasshouse \"make the tests pass\""));
    }
    slip::one_word(task.trim()).map_or(Ok(()), Err)
}
