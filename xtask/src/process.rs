//! Running other programs: shown before they start, and never left without an answer.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often a child with a time limit is asked whether it has ended.
const POLL: Duration = Duration::from_millis(20);

/// Why a developer command failed, in words for the person who ran it.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Adds what was being done to an error of the standard library.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl fmt::Display) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> Doing<T> for Result<T, E> {
    fn doing(self, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure(format!("{what}: {error}")))
    }
}

/// The command as a person would type it.
fn shown(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    if let Some((_, name)) = text.rsplit_once('/') {
        text = name.to_owned();
    }
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// Runs a command with our streams; fails unless it exits with 0.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let name = shown(command);
    eprintln!("$ {name}");
    let status = command.status().doing(format_args!("could not start `{name}`"))?;
    success(&name, status)
}

/// Runs a command quietly and returns its standard output; fails unless it exits with 0.
pub(crate) fn capture(command: &mut Command) -> Result<String, Failure> {
    let name = shown(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .doing(format_args!("could not start `{name}`"))?;
    success(&name, output.status)?;
    String::from_utf8(output.stdout).doing(format_args!("`{name}` wrote bytes that are not text"))
}

/// Which stream of a child is read.
#[derive(Clone, Copy)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Runs a command, passes one of its streams through line by line, and returns that stream's text
/// with the exit status, whatever it is.
pub(crate) fn tee(command: &mut Command, stream: Stream) -> Result<(ExitStatus, String), Failure> {
    let name = shown(command);
    eprintln!("$ {name}");
    match stream {
        Stream::Stdout => command.stdout(Stdio::piped()),
        Stream::Stderr => command.stderr(Stdio::piped()),
    };
    let mut child = command.spawn().doing(format_args!("could not start `{name}`"))?;
    let mut text = String::new();
    let mut copy = |line: Result<String, std::io::Error>| -> Result<(), Failure> {
        let line = line.doing(format_args!("`{name}` wrote bytes that are not text"))?;
        match stream {
            Stream::Stdout => println!("{line}"),
            Stream::Stderr => eprintln!("{line}"),
        }
        text.push_str(&line);
        text.push('\n');
        Ok(())
    };
    if let Some(pipe) = child.stdout.take() {
        BufReader::new(pipe).lines().try_for_each(&mut copy)?;
    } else if let Some(pipe) = child.stderr.take() {
        BufReader::new(pipe).lines().try_for_each(&mut copy)?;
    }
    let status = child.wait().doing(format_args!("lost track of `{name}`"))?;
    Ok((status, text))
}

/// Runs a command and kills it at the limit; `None` means that it was killed.
pub(crate) fn status_within(
    command: &mut Command,
    limit: Duration,
) -> Result<Option<ExitStatus>, Failure> {
    let name = shown(command);
    eprintln!("$ {name}");
    let start = Instant::now();
    let mut child = command.spawn().doing(format_args!("could not start `{name}`"))?;
    loop {
        if let Some(status) = child.try_wait().doing(format_args!("lost track of `{name}`"))? {
            return Ok(Some(status));
        }
        if start.elapsed() >= limit {
            child.kill().doing(format_args!("could not stop `{name}`"))?;
            child.wait().doing(format_args!("lost track of `{name}`"))?;
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

/// Whether a program answers when it is called with these arguments.
pub(crate) fn answers(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Turns a bad exit into a failure that names the command.
pub(crate) fn success(name: &str, status: ExitStatus) -> Result<(), Failure> {
    if status.success() { Ok(()) } else { Err(Failure(format!("`{name}` ended with {status}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_bad_exit_names_the_command() {
        let failure = run(&mut shell("exit 3")).expect_err("exit 3 is a failure");
        assert!(failure.to_string().contains("sh -c exit 3"), "{failure}");
    }

    #[test]
    fn tee_returns_the_stream_and_the_status() {
        let (status, text) =
            tee(&mut shell("echo one >&2; echo two >&2; exit 4"), Stream::Stderr).expect("runs");
        assert_eq!((status.code(), text.as_str()), (Some(4), "one\ntwo\n"));
    }

    #[test]
    fn a_command_is_killed_at_its_limit_and_not_before() {
        let limit = Duration::from_millis(50);
        assert!(status_within(&mut shell("exec sleep 60"), limit).expect("starts").is_none());
        let status = status_within(&mut shell("exit 7"), Duration::from_secs(60)).expect("starts");
        assert_eq!(status.and_then(|status| status.code()), Some(7));
    }
}
