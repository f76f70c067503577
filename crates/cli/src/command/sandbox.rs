//! `glasshouse sandbox`: run, gc.

use std::io::Write;
use std::path::Path;

use glasshouse_kernel::codes;
use glasshouse_kernel::driver::{OneCommand, OneResult};
use glasshouse_model::Exit;
use glasshouse_sandbox::{CallList, Cancel, SandboxHost, Status, Stream, TemplateName};

use crate::args::{SandboxCommand, SandboxRun, TemplateArgument};
use crate::error::Error;
use crate::{home, input, output};

/// Runs the command.
pub(crate) fn run(command: SandboxCommand) -> Result<u8, Error> {
    match command {
        SandboxCommand::Run(run) => {
            check(&run)?;
            let calls = run.seccomp.as_deref().map(call_list).transpose()?;
            // What fails on our side must not look like the command's own status.
            execute(&run, calls).or_else(|fault| {
                crate::fail::tell(&fault, run.json);
                Ok(Exit::SandboxFailed.status())
            })
        }
        SandboxCommand::Gc { dry_run, json } => gc(dry_run, json),
    }
}

fn execute(run: &SandboxRun, calls: Option<CallList>) -> Result<u8, Error> {
    let kernel = home::kernel()?;
    let one = OneCommand {
        argv: run.argv.clone(),
        workspace: run.workspace.clone(),
        root: run.root.clone(),
        calls,
        template: match run.template {
            TemplateArgument::CodeExecutor => TemplateName::CodeExecutor,
            TemplateArgument::PolicySandbox => TemplateName::PolicySandbox,
            TemplateArgument::Script => TemplateName::Script,
        },
        timeout_ms: run.timeout,
        stdin: if run.stdin { read_stdin()? } else { Vec::new() },
        merge: run.merge,
    };
    let cancel = Cancel::new()?;
    stop_on_ctrl_c(&cancel)?;
    let json = run.json;
    let mut sink = |stream: Stream, bytes: &[u8]| {
        if json {
            return;
        }
        match stream {
            Stream::Stdout => output::bytes(bytes),
            Stream::Stderr => {
                let _ = std::io::stderr().lock().write_all(bytes);
            }
        }
    };
    let result = kernel.run_once(&one, &mut sink, &cancel)?;
    let status = exit_code(&result.run.status);
    if json {
        output::json_line(&serde_json::json!({
            "exit_code": status,
            "duration_us": result.run.duration_us,
            "isolation": result.isolation,
            "changes": result.changes,
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

/// Refuses what can be seen to be wrong before anything is done.
fn check(run: &SandboxRun) -> Result<(), Error> {
    if !run.allow_host.is_empty() {
        return Err(Error::new(codes::NETWORK_UNAVAILABLE, "--allow-host cannot be used").why(
            "the egress proxy is not built yet, and a sandbox never gets a network without it",
        ));
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

fn read_stdin() -> Result<Vec<u8>, Error> {
    input::bytes(Path::new("-"), input::MAX_STDIN_BYTES)
        .map_err(|error| error.fix("put the bytes into a file of the workspace"))
}

/// A runtime of its own for the signal: the first Ctrl-C ends the command, not us.
fn stop_on_ctrl_c(cancel: &Cancel) -> Result<(), Error> {
    let cancel = cancel.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::new(codes::TURN_FAILED, "the runtime does not start").why(e))?;
    std::thread::spawn(move || {
        if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            cancel.cancel();
        }
    });
    Ok(())
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

fn tell(result: &OneResult, run: &SandboxRun) {
    for change in &result.changes {
        output::note(&format!("{} {}", change.change, change.path));
    }
    match &result.run.status {
        Status::TimedOut => output::note("the command ran too long and was stopped"),
        Status::LimitExceeded(limit) => {
            output::note(&format!("the command exceeded a limit: {limit:?}"))
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
    if result.run.background_processes > 0 {
        output::note(&format!(
            "{} background processes were ended",
            result.run.background_processes
        ));
    }
}

fn gc(dry_run: bool, json: bool) -> Result<u8, Error> {
    let mut found = SandboxHost::gc(&home::data_dir()?, dry_run)?;
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
