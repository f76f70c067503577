//! The long checks, with a report that stays.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::needs::{self, Use};
use crate::place::{Place, Scratch};
use crate::process::{Doing, Failure, run};
use crate::{fuzz, models, mutants, sabotage, skips};

/// Tells ignored tests that they have hours, not seconds.
const SOAK_VARIABLE: &str = "GLASSHOUSE_SOAK";
/// Tests that CI runs a small share of, and that do more of the same with that variable.
const SCALED_TESTS: &str = "test(crash::) | test(a_rotation_that_is_cut_short) | test(no_request_breaks) \
     | test(hostile_plans_do_nothing) | test(random::corpus) | test(nothing_hides_a_command)";

/// How long each fuzzer runs.
const FUZZ_SECONDS: &str = "600";

type Part = fn(&Place, &Path) -> Result<(), Failure>;

/// `cargo xtask soak`: runs everything, then fails if anything failed.
pub(crate) fn command(place: &Place, arguments: &[String]) -> Result<(), Failure> {
    if let Some(argument) = arguments.first() {
        return Err(Failure::new(format!("`soak` takes no arguments, not `{argument}`")));
    }
    // What is missing is told here, a line each, and what could not run because of it at the end.
    needs::ensure(place, Use::Test)?;
    let scratch = Scratch::new("soak-skips")?;
    let log = scratch.path().join("log");
    let commit = crate::process::capture(place.git().args(["rev-parse", "HEAD"]))?;
    let mut report = format!("commit {commit}");
    let mut failed = Vec::new();
    let parts: [(&str, Part); 5] = [
        ("ignored tests", ignored_tests),
        ("scaled tests", scaled_tests),
        ("sabotage", |place, _| sabotage::command(place, &[])),
        ("mutants", |place, _| mutants::command(place, &[])),
        ("fuzz", |place, _| {
            fuzz::command(place, &["--seconds".to_owned(), FUZZ_SECONDS.to_owned()])
        }),
    ];
    for (name, part) in parts {
        let start = Instant::now();
        let outcome = part(place, &log);
        let verdict = match &outcome {
            Ok(()) => "ok".to_owned(),
            Err(failure) => format!("FAILED: {failure}"),
        };
        let seconds = start.elapsed().as_secs_f64();
        writeln!(report, "{name:14} {seconds:>9.1} s  {verdict}").doing("could not write")?;
        if outcome.is_err() {
            failed.push(name);
        }
    }
    let happened = skips::happened(&log)?;
    for (name, reason) in &happened {
        writeln!(report, "skipped: {name}: {reason}").doing("could not write")?;
    }
    let undeclared = skips::faults(place, &happened)?;
    for fault in &undeclared {
        writeln!(report, "FAILED: {fault}").doing("could not write")?;
    }
    if !undeclared.is_empty() {
        failed.push("skips");
    }
    let folder = place.target().join("soak");
    fs::create_dir_all(&folder).doing(format_args!("could not make {}", folder.display()))?;
    let path = folder.join("report.txt");
    fs::write(&path, &report).doing(format_args!("could not write {}", path.display()))?;
    print!("{report}");
    eprintln!("the report is in {}", path.display());
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(format!("{} failed", failed.join(", "))))
    }
}

fn scaled_tests(place: &Place, log: &Path) -> Result<(), Failure> {
    let mut command = place.cargo();
    command.args(["nextest", "run", "--workspace", "--profile", "soak", "--no-fail-fast"]);
    command.args(["-E", SCALED_TESTS]).envs(models::prepare_one(place, "schemathesis")?);
    run(command.env(SOAK_VARIABLE, "1").env(skips::LOG_VARIABLE, log))
}

fn ignored_tests(place: &Place, log: &Path) -> Result<(), Failure> {
    let mut command = place.cargo();
    command.args(["nextest", "run", "--workspace", "--profile", "soak"]);
    command.args(["--run-ignored", "only", "--no-tests", "pass", "--no-fail-fast"]);
    run(command.env(SOAK_VARIABLE, "1").env(skips::LOG_VARIABLE, log))
}
