//! The release build and its demo, judged by what the process itself says.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use serde_json::Value;

use crate::place::{Place, Scratch, cargo, without};
use crate::process::{Doing, Failure, run, status_within};

/// A demo takes seconds; ten times the slowest machine seen is a hang.
const LIMIT: Duration = Duration::from_secs(300);

/// Exit status of a Rust program whose main thread panicked.
const PANICKED: i32 = 101;

/// `cargo xtask demo`: the demo as a person sees it, in a home that is thrown away.
pub(crate) fn command(place: &Place, arguments: &[String]) -> Result<(), Failure> {
    let binary = build(place.root(), &place.target())?;
    let home = Scratch::new("demo")?;
    run(glasshouse(&binary, &home).arg("demo").args(arguments))
}

/// Runs the release build's demo once and requires that it committed and verified.
pub(crate) fn require(place: &Place) -> Result<(), Failure> {
    let binary = build(place.root(), &place.target())?;
    match attempt(&binary)? {
        Verdict::Done => Ok(()),
        other => Err(Failure::new(format!("the demo {other}"))),
    }
}

/// Builds the command for release from a source tree and answers where it is.
pub(crate) fn build(tree: &Path, target: &Path) -> Result<PathBuf, Failure> {
    let mut command = cargo(tree);
    command.args(["build", "--release", "--locked", "--package", "glasshouse-cli"]);
    run(command.env("CARGO_TARGET_DIR", target))?;
    Ok(target.join("release/glasshouse"))
}

/// What a run of the demo showed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It committed its change and its log verified.
    Done,
    /// It ended with an error it can name.
    Noticed(String),
    /// It hung, crashed, or said that all is well without proof.
    Broken(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("committed and verified"),
            Self::Noticed(why) => write!(f, "refused: {why}"),
            Self::Broken(why) => write!(f, "broke: {why}"),
        }
    }
}

/// Runs `demo --json` in a fresh home.
pub(crate) fn attempt(binary: &Path) -> Result<Verdict, Failure> {
    let home = Scratch::new("demo")?;
    let output = home.path().join("stdout");
    let mut command = glasshouse(binary, &home);
    command.args(["demo", "--json"]);
    command.stdout(File::create(&output).doing("could not keep the demo's output")?);
    let status = status_within(&mut command, LIMIT)?;
    let text = std::fs::read_to_string(&output).doing("could not read the demo's output")?;
    Ok(judge(status, &text))
}

/// The command with a home of its own and nothing of the caller's Glasshouse settings.
fn glasshouse(binary: &Path, home: &Scratch) -> Command {
    let mut command = Command::new(binary);
    without(&mut command, |name| name.starts_with("GLASSHOUSE_"));
    command.env("GLASSHOUSE_HOME", home.path().join("home"));
    command
}

/// Exit status and last line must agree; a demo that ends well without an outcome proves nothing.
fn judge(status: Option<ExitStatus>, stdout: &str) -> Verdict {
    let Some(status) = status else {
        return Verdict::Broken(format!("no end within {} seconds", LIMIT.as_secs()));
    };
    let last: Value = stdout
        .lines()
        .next_back()
        .and_then(|line| serde_json::from_str(line).ok())
        .unwrap_or_default();
    match status.code() {
        Some(0) if last["outcome"] == "committed" && last["verify"] == "ok" => Verdict::Done,
        Some(0) => Verdict::Broken(format!("exit 0, but its last line is {last}")),
        Some(PANICKED) => Verdict::Broken("a panic instead of an error".to_owned()),
        Some(code) => {
            let detail = [&last["error"]["code"], &last["error"]["what"], &last["outcome"]]
                .into_iter()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join(": ");
            Verdict::Noticed(format!("exit {code} {detail}").trim_end().to_owned())
        }
        None => Verdict::Broken(format!("ended with {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    const GOOD: &str = "{\"message\":{}}\n{\"outcome\":\"committed\",\"verify\":\"ok\"}\n";

    #[test]
    fn only_a_committed_and_verified_end_is_done() {
        let exit = |code: i32| Some(ExitStatus::from_raw(code << 8));
        let killed = Some(ExitStatus::from_raw(9));
        let noticed = "exit 5 hash_mismatch: the log differs";
        for (status, stdout, expected) in [
            (exit(0), GOOD, "Done"),
            (exit(0), "", "Broken"),
            (exit(0), "{\"outcome\":\"failed\",\"verify\":\"ok\"}\n", "Broken"),
            (exit(0), "{\"outcome\":\"committed\"}\n", "Broken"),
            (exit(101), GOOD, "Broken"),
            (killed, GOOD, "Broken"),
            (None, GOOD, "Broken"),
            (exit(6), GOOD, "Noticed"),
            (exit(2), "not json", "Noticed"),
            (
                exit(5),
                "{\"error\":{\"code\":\"hash_mismatch\",\"what\":\"the log differs\"}}\n",
                noticed,
            ),
        ] {
            let verdict = format!("{:?}", judge(status, stdout));
            assert!(verdict.contains(expected), "{status:?} {stdout}: {verdict}");
        }
    }
}
