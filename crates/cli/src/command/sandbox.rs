//! `glasshouse sandbox`: run, gc.

mod signals;
mod terminal;

use std::io::Write;
use std::path::Path;

use glasshouse_kernel::codes;
use glasshouse_kernel::driver::{Hands, OneCommand, OneResult};
use glasshouse_kernel::{Answer, NoReviewer, ReviewItem, Reviewer};
use glasshouse_model::{Actor, CanonicalPath, Exit};
use glasshouse_sandbox::egress::AllowList;
use glasshouse_sandbox::{
    CallList, Cancel, Limit, Live, Orders, SandboxHost, Status, Stream, TemplateName,
};

use crate::args::{SandboxCommand, SandboxRun, TemplateArgument};
use crate::error::Error;
use crate::review::Terminal;
use crate::{home, input, output};

use self::terminal::RawTerminal;

/// What a shell says of a program that wrote to a closed pipe: 128 and the number of the signal.
const STATUS_OF_A_CLOSED_PIPE: u8 = 141;

/// Runs the command.
pub(crate) fn run(command: SandboxCommand) -> Result<u8, Error> {
    match command {
        SandboxCommand::Run(run) => {
            check(&run)?;
            let calls = run.seccomp.as_deref().map(call_list).transpose()?;
            execute(&run, calls).or_else(|fault| {
                crate::fail::tell(&fault, run.json);
                Ok(status_of(fault.exit()).status())
            })
        }
        SandboxCommand::Gc { dry_run, json } => gc(dry_run, json),
    }
}

/// The status of what failed before or after the command: as everywhere for what the command line or the
/// project got wrong; what the sandbox itself could not do must not look like the command's own status.
const fn status_of(exit: Exit) -> Exit {
    match exit {
        Exit::Usage
        | Exit::Denied
        | Exit::NeedsApproval
        | Exit::Conflict
        | Exit::NotFound
        | Exit::Cancelled => exit,
        _ => Exit::SandboxFailed,
    }
}

/// What the kernel is asked to run.
fn one_command(run: &SandboxRun, calls: Option<CallList>) -> Result<OneCommand, Error> {
    Ok(OneCommand {
        argv: run.argv.clone(),
        workspace: run.workspace.clone(),
        root: run.root.clone(),
        calls,
        template: match run.template {
            TemplateArgument::CodeExecutor if run.allow_host.is_empty() => {
                TemplateName::CodeExecutor
            }
            TemplateArgument::CodeExecutor | TemplateArgument::IntegrationTest => {
                TemplateName::IntegrationTest
            }
            TemplateArgument::PolicySandbox => TemplateName::PolicySandbox,
            TemplateArgument::Script => TemplateName::Script,
        },
        allow_hosts: run.allow_host.clone(),
        timeout_ms: run.timeout,
        env: environment(run)?,
        cwd: directory(run)?,
        merge: run.merge,
    })
}

fn execute(run: &SandboxRun, calls: Option<CallList>) -> Result<u8, Error> {
    let kernel = home::kernel()?;
    let one = one_command(run, calls)?;
    let (cancel, orders) = (Cancel::new()?, Orders::new()?);
    signals::obey(&cancel, &orders, run.tty)?;
    // As it was when this goes out of scope, however the command ends.
    let terminal = if run.tty { Some(RawTerminal::take()?) } else { None };
    let live = Live {
        input: if run.stdin || run.tty { Some(terminal::forward_input()?) } else { None },
        terminal: terminal.as_ref().map(|_| terminal::window()),
        orders: Some(&orders),
    };
    let json = run.json;
    let mut is_unread = false;
    let mut sink = |stream: Stream, bytes: &[u8]| {
        if json {
            return;
        }
        match stream {
            Stream::Stdout => {
                if !output::bytes(bytes) && !is_unread {
                    // Nobody reads what it goes on to say: that ends a command, as in a pipe of a shell.
                    is_unread = true;
                    cancel.cancel();
                }
            }
            Stream::Stderr => {
                let _ = std::io::stderr().lock().write_all(bytes);
            }
        }
    };
    let reviewer = reviewer(run);
    let hands = Hands { live, sink: &mut sink, cancel: &cancel, reviewer: &*reviewer };
    let result = kernel.run_once(&one, hands);
    drop(terminal);
    let result = result?;
    if is_unread && result.run.status == Status::Cancelled {
        return Ok(STATUS_OF_A_CLOSED_PIPE);
    }
    let status = exit_code(&result.run.status);
    if json {
        output::json_line(&serde_json::json!({
            "exit_code": status,
            "duration_us": result.run.duration_us,
            "isolation": result.isolation,
            "usage": result.run.usage,
            "background_processes": result.run.background_processes,
            "changes": result.changes,
            "left_out": result.left_out,
            "connections": result.connections,
            "stdout_blob": result.stdout.blob,
            "stderr_blob": result.stderr.blob,
            "merged": result.merged.is_some(),
            "reason": reason(&result.run.status),
        }));
    } else {
        tell(&result, run);
    }
    Ok(status)
}

/// Who is asked about a merge that a rule wants looked at.
fn reviewer(run: &SandboxRun) -> Box<dyn Reviewer> {
    if run.yes {
        Box::new(InAdvance)
    } else if Terminal::is_there() && !run.stdin && !run.tty {
        Box::new(Terminal)
    } else {
        Box::new(NoReviewer)
    }
}

/// Agrees to whatever the command changed: the person said so before.
struct InAdvance;

impl Reviewer for InAdvance {
    fn approver(&self) -> Actor {
        Terminal.approver()
    }

    fn review(&self, _: &ReviewItem) -> Answer {
        Answer::Approve
    }

    fn is_in_advance(&self) -> bool {
        true
    }
}

/// Refuses what can be seen to be wrong before anything is done.
fn check(run: &SandboxRun) -> Result<(), Error> {
    let hosts = AllowList::parse(run.allow_host.iter().map(String::as_str))?;
    let has_network =
        matches!(run.template, TemplateArgument::CodeExecutor | TemplateArgument::IntegrationTest);
    if hosts.entries().next().is_some() && !has_network {
        return Err(Error::new(codes::NETWORK_UNAVAILABLE, "--allow-host cannot be used")
            .why("sandboxes of this template have no network")
            .fix("leave --template out, or write --template integration-test"));
    }
    if run.tty {
        terminal::check()?;
    }
    if run.backend != "native" {
        return Err(Error::new(codes::USAGE, format!("there is no backend `{}`", run.backend))
            .why("only native is built")
            .fix("leave --backend out"));
    }
    for (dir, use_of_it) in [(&run.workspace, "workspace"), (&run.root, "root")] {
        if let Some(dir) = dir.as_ref().filter(|dir| !dir.is_dir()) {
            let what = format!("cannot use {} as the {use_of_it}", dir.display());
            return Err(Error::new(codes::PROJECT_UNREADABLE, what).why("it is no directory"));
        }
    }
    Ok(())
}

/// Largest file of system calls: there are a few hundred names.
const MAX_CALLS_BYTES: u64 = 64 << 10;

fn call_list(file: &Path) -> Result<CallList, Error> {
    let text = input::text(file, MAX_CALLS_BYTES)?;
    Ok(CallList::parse(&text).map_err(|error| error.with("file", file.display().to_string()))?)
}

/// Variables as the flags name them.
fn environment(run: &SandboxRun) -> Result<Vec<(String, String)>, Error> {
    let mut env: Vec<(String, String)> = Vec::new();
    if run.tty
        && let Ok(term) = std::env::var("TERM")
    {
        env.push(("TERM".to_owned(), term));
    }
    for text in &run.env {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => (
                text.as_str(),
                std::env::var(text).map_err(|why| {
                    Error::new(codes::USAGE, format!("--env {text} has no value"))
                        .why(why)
                        .fix(format!("write --env {text}=VALUE, or export {text} first"))
                })?,
            ),
        };
        env.push((name.to_owned(), value));
    }
    Ok(env)
}

fn directory(run: &SandboxRun) -> Result<CanonicalPath, Error> {
    run.cwd.as_deref().map_or(Ok(CanonicalPath::root()), |text| {
        CanonicalPath::parse(text).map_err(|why| {
            Error::new(codes::USAGE, format!("--cwd {text} is no directory of the workspace"))
                .why(why)
                .fix("name it relative to the workspace, without `..`")
        })
    })
}

fn exit_code(status: &Status) -> u8 {
    match status {
        Status::Exited(code) => u8::try_from(*code).unwrap_or(u8::MAX),
        Status::Signaled(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        Status::TimedOut => Exit::SandboxTimedOut.status(),
        Status::Cancelled => Exit::Cancelled.status(),
        Status::LimitExceeded(_) => 137,
    }
}

/// Why a command did not come to its own end.
const fn reason(status: &Status) -> Option<&'static str> {
    match status {
        Status::Exited(_) => None,
        Status::Signaled(_) => Some("signal"),
        Status::TimedOut => Some("timed_out"),
        Status::Cancelled => Some("cancelled"),
        Status::LimitExceeded(_) => Some("limit"),
    }
}

/// Which limit a command met.
const fn exceeded(limit: Limit) -> &'static str {
    match limit {
        Limit::Memory => "it needs more memory than the template allows",
        Limit::Pids => "it makes more processes than the template allows",
        Limit::Disk => "it writes more to disk than the template allows",
        Limit::Output => "it wrote more than 64 MiB to stdout or stderr",
    }
}

fn tell(result: &OneResult, run: &SandboxRun) {
    for refused in result.connections.iter().filter(|connection| connection.address.is_none()) {
        let code = refused.code.as_deref().unwrap_or_default();
        output::note(&format!(
            "refused: {} {}:{} ({code})",
            refused.method, refused.host, refused.port
        ));
    }
    for path in &result.left_out {
        output::note(&format!("left out of the workspace: {path} is no file, directory or link"));
    }
    for change in &result.changes {
        output::note(&format!("{} {}", change.change, change.path));
    }
    match &result.run.status {
        Status::TimedOut => output::note("the command ran too long and was stopped"),
        Status::LimitExceeded(limit) => {
            output::note(&format!("the command was ended: {}", exceeded(*limit)))
        }
        _ => {}
    }
    match (result.merged, &run.workspace) {
        (Some(files), Some(dir)) => {
            output::note(&format!("merged {files} files into {}", dir.display()));
        }
        (None, Some(dir)) if run.merge => output::note(&format!(
            "nothing was merged into {}: only what a command finished with status 0 is",
            dir.display()
        )),
        _ => {}
    }
    // Whatever ended the command ended these with it.
    if matches!(result.run.status, Status::Exited(_)) {
        match result.run.background_processes {
            0 => {}
            1 => output::note("1 process that it left running was ended"),
            more => output::note(&format!("{more} processes that it left running were ended")),
        }
    }
}

fn gc(dry_run: bool, json: bool) -> Result<u8, Error> {
    let mut found = SandboxHost::gc(&home::data_dir()?, dry_run)?;
    found.extend(SandboxHost::gc_groups(dry_run));
    found.extend(home::kernel()?.sweep(dry_run)?);
    let verb = if dry_run { "would remove" } else { "removed" };
    if json {
        output::json_line(&serde_json::json!({ "dry_run": dry_run, "leftovers": found }));
    } else {
        for leftover in &found {
            output::data(&format!("{verb} {}", leftover.display()));
        }
        output::note(&format!("{} left behind by dead processes and ended sessions", found.len()));
    }
    Ok(Exit::Done.status())
}
