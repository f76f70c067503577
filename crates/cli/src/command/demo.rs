//! `glasshouse demo`: the whole story on a bundled repository, with no key and no network.
//!
//! Only the model is played from a script. The command itself checks the end of the story: that the
//! commit is in the repository, holds what was reviewed and nothing else, that its tests pass, and
//! that the log proves the whole story.

mod proof;

use std::path::{Path, PathBuf};
use std::process::Command;

use glasshouse_kernel::{Config, codes};
use glasshouse_model::body::{Outcome, PlanShown};
use glasshouse_model::{Exit, Kind, Mode};

use crate::args::DemoArguments;
use crate::error::Error;
use crate::{home, output};

use super::task::{Approver, Finished, Work};

const TASK: &str = "handle bad input in parse_config";
const SCENARIO: &str = include_str!("../../demo/scenario.yaml");

/// The sample repository: path, content.
const FILES: &[(&str, &str)] = &[
    ("README.md", include_str!("../../../../examples/sample-repo/README.md")),
    ("src/parse_config.sh", include_str!("../../../../examples/sample-repo/src/parse_config.sh")),
    ("tests/run.sh", include_str!("../../../../examples/sample-repo/tests/run.sh")),
    ("tests/comments.sh", include_str!("../../../../examples/sample-repo/tests/comments.sh")),
    ("tests/values.sh", include_str!("../../../../examples/sample-repo/tests/values.sh")),
    (
        ".glasshouse/config.yaml",
        include_str!("../../../../examples/sample-repo/.glasshouse/config.yaml"),
    ),
];

/// Runs the command.
pub(crate) fn run(arguments: &DemoArguments) -> Result<u8, Error> {
    let kernel = home::kernel()?;
    let dir = match &arguments.dir {
        Some(dir) => dir.clone(),
        None => fresh_dir(&home::data_dir()?.join("demo"))?,
    };
    lay_out(&dir)?;
    if !arguments.json {
        output::note(&format!("sample repository: {}", dir.display()));
        output::note(&format!("task: {TASK}\n"));
    }
    let flags = Config {
        mode: Some(Mode::Strict),
        provider: Some("scripted".to_owned()),
        ..Config::default()
    };
    let work = Work {
        config: home::config(flags, &dir)?,
        own_server: false,
        kernel,
        project: dir.clone(),
        scenario: Some(SCENARIO.as_bytes().to_vec()),
        json: arguments.json,
        approver: Approver::Here,
    };
    work.run_then(TASK, |finished| epilogue(&dir, finished, arguments.json))
}

/// What must be true at the end of the story.
fn epilogue(dir: &Path, finished: &Finished<'_>, json: bool) -> Result<(), Error> {
    let broken = |what: &str, why: String| Error::new(codes::DEMO_BROKEN, what).why(why);
    match finished.report.outcome {
        Outcome::Committed => {}
        // Elsewhere an answer without a change is a good end; of this story it is none.
        Outcome::Answered => {
            let why = "the model came to rest before it".to_owned();
            return Err(broken("the story ended without a commit", why));
        }
        // These tell their own reason.
        Outcome::Rejected | Outcome::Failed | Outcome::Cancelled => return Ok(()),
    }
    let head = git(dir, &["rev-parse", "HEAD"])?;
    if finished.report.end.commit.as_deref() != Some(head.trim()) {
        return Err(broken("the commit is not the repository's head", head));
    }
    let paths = git(dir, &["diff", "--name-only", "HEAD~1", "HEAD"])?;
    if paths.lines().collect::<Vec<_>>() != ["src/parse_config.sh", "tests/bad_input.sh"] {
        return Err(broken("the commit holds other paths than the change set", paths));
    }
    let status = git(dir, &["status", "--porcelain"])?;
    if !status.is_empty() {
        return Err(broken("the project differs from the commit", status));
    }
    let tests = Command::new("sh").arg("tests/run.sh").current_dir(dir).output();
    if !tests.is_ok_and(|output| output.status.success()) {
        return Err(broken(
            "the tests do not pass in the repository",
            "tests/run.sh failed".to_owned(),
        ));
    }
    proof::check(finished, &home::data_dir()?)?;
    let html = write_report(dir, finished)?;
    if json {
        output::note(&format!("report: {}", html.display()));
    } else {
        output::data(&format!("report: {}", html.display()));
    }
    Ok(())
}

/// Puts the agent's report beside the repository.
fn write_report(dir: &Path, finished: &Finished<'_>) -> Result<PathBuf, Error> {
    let missing =
        || Error::new(codes::DEMO_BROKEN, "there is no report").why("no plan was rendered");
    let events = finished.kernel.log().events(finished.branch).collect::<Result<Vec<_>, _>>()?;
    let shown = events
        .iter()
        .rev()
        .find(|event| *event.kind() == Kind::PlanRendered)
        .ok_or_else(missing)?;
    let html =
        shown.body_as::<PlanShown>().ok().and_then(|shown| shown.html).ok_or_else(missing)?;
    let bytes = finished.kernel.log().blob(&html.blob)?;
    let file = dir.with_extension("report.html");
    std::fs::write(&file, bytes)
        .map_err(|e| Error::new(codes::DEMO_BROKEN, "cannot write the report").why(e))?;
    Ok(file)
}

/// A new directory `1`, `2`, … below `parent`.
fn fresh_dir(parent: &Path) -> Result<PathBuf, Error> {
    let fail = |e: std::io::Error| {
        Error::new(
            codes::PROJECT_UNREADABLE,
            format!("cannot make a directory in {}", parent.display()),
        )
        .why(e)
    };
    std::fs::create_dir_all(parent).map_err(fail)?;
    for number in 1_u32.. {
        match std::fs::create_dir(parent.join(number.to_string())) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(fail(e)),
            Ok(()) => return Ok(parent.join(number.to_string())),
        }
    }
    Err(fail(std::io::ErrorKind::AlreadyExists.into()))
}

/// Writes the sample repository and its first commit.
fn lay_out(dir: &Path) -> Result<(), Error> {
    let fail = |path: &Path, why: String| {
        Error::new(codes::PROJECT_UNREADABLE, format!("cannot write {}", path.display())).why(why)
    };
    std::fs::create_dir_all(dir).map_err(|e| fail(dir, e.to_string()))?;
    let occupied = std::fs::read_dir(dir).map_err(|e| fail(dir, e.to_string()))?.next().is_some();
    if occupied {
        return Err(fail(dir, "it is not empty".to_owned()).fix("name an empty or a new directory"));
    }
    for (path, content) in FILES {
        let file = dir.join(path);
        let parent = file.parent().unwrap_or(dir);
        std::fs::create_dir_all(parent).map_err(|e| fail(parent, e.to_string()))?;
        std::fs::write(&file, content).map_err(|e| fail(&file, e.to_string()))?;
    }
    git(dir, &["init", "-q", "-b", "main"])?;
    git(dir, &["add", "-A"])?;
    git(dir, &["commit", "-q", "-m", "A small configuration parser"])?;
    Ok(())
}

/// Runs git as nobody in particular, without the user's configuration.
fn git(dir: &Path, arguments: &[&str]) -> Result<String, Error> {
    let fail = |why: String| {
        Error::new(codes::DEMO_BROKEN, format!("`git {}` failed", arguments.join(" "))).why(why)
    };
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=Glasshouse demo",
            "-c",
            "user.email=demo@localhost",
            "-c",
            "commit.gpgsign=false",
        ])
        .args(arguments)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .output()
        .map_err(|e| fail(format!("git does not start: {e}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(fail(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        .with("status", Exit::Internal.status()))
}
