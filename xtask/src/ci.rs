//! Everything a change must pass, in the order that fails soonest.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::place::Place;
use crate::process::{Doing, Failure, run};
use crate::{bench, demo, sabotage, sdk, suite, tidy, wasm};

/// A run on two cores stays below this; a slower one says so, because it is the first to be skipped.
const TIME_BUDGET: Duration = Duration::from_secs(40 * 60);

/// Benchmarks gate nothing and need a release build of every crate: they are left out of a run that took this
/// long without them, as one does that builds everything anew.
const BENCH_LIMIT: Duration = Duration::from_secs(25 * 60);

/// Builds of many clones pile up in the cache. A run leaves about 4 GB; past three times that the
/// cache starts anew.
const CACHE_CEILING_BYTES: u64 = 12 << 30;

/// One named part of a run.
struct Step {
    name: &'static str,
    /// A step that builds on the one named here does not start when that one failed.
    after: Option<&'static str>,
    run: fn(&Place) -> Result<(), Failure>,
}

const BENCHMARKS: &str = "benchmarks";

const STEPS: &[Step] = &[
    Step { name: "format", after: None, run: format },
    Step { name: "tidy", after: None, run: |place| tidy::command(place, &[]) },
    Step { name: "clippy", after: None, run: clippy },
    Step { name: "documentation", after: None, run: documentation },
    Step { name: "tests", after: Some("clippy"), run: |place| suite::command(place, &[]) },
    Step {
        name: "client",
        after: Some("tests"),
        run: |place| sdk::command(place, &["--check".to_owned()]),
    },
    Step { name: "demo", after: Some("clippy"), run: demo::require },
    Step { name: "sabotage", after: Some("demo"), run: sabotage_turn },
    Step { name: "wasm", after: Some("clippy"), run: |place| wasm::command(place, &[]) },
    Step { name: BENCHMARKS, after: Some("clippy"), run: bench_short },
];

/// `cargo xtask ci`.
pub(crate) fn command(place: &Place, arguments: &[String]) -> Result<(), Failure> {
    if let Some(argument) = arguments.first() {
        return Err(Failure::new(format!("`ci` takes no arguments, not `{argument}`")));
    }
    bound_cache(place)?;
    let start = Instant::now();
    let rows = STEPS.iter().fold(Vec::new(), |mut rows, step| {
        if step.name == BENCHMARKS && start.elapsed() > BENCH_LIMIT {
            let minutes = BENCH_LIMIT.as_secs() / 60;
            println!("skipped: {BENCHMARKS}: the rest took more than {minutes} minutes");
            return rows;
        }
        let row = perform(step, &rows, place);
        rows.push(row);
        rows
    });
    println!();
    for row in &rows {
        println!("{:14} {:>8.1} s  {}", row.name, row.took.as_secs_f64(), row.verdict());
    }
    println!("{:14} {:>8.1} s", "total", start.elapsed().as_secs_f64());
    if start.elapsed() > TIME_BUDGET {
        eprintln!("warning: over the budget of {} minutes", TIME_BUDGET.as_secs() / 60);
    }
    let failed: Vec<_> = rows.iter().filter(|row| row.outcome.is_err()).map(|r| r.name).collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(format!("{} failed", failed.join(", "))))
    }
}

/// How a step went.
struct Row {
    name: &'static str,
    took: Duration,
    outcome: Result<(), Failure>,
}

impl Row {
    fn verdict(&self) -> String {
        match &self.outcome {
            Ok(()) => "ok".to_owned(),
            Err(failure) => {
                format!("FAILED: {}", failure.to_string().lines().next().unwrap_or_default())
            }
        }
    }
}

fn perform(step: &Step, before: &[Row], place: &Place) -> Row {
    let blocked = before.iter().find(|row| Some(row.name) == step.after && row.outcome.is_err());
    if let Some(row) = blocked {
        let failure = Failure::new(format!("not run, because {} failed", row.name));
        return Row { name: step.name, took: Duration::ZERO, outcome: Err(failure) };
    }
    eprintln!("\n== {}", step.name);
    let start = Instant::now();
    let outcome = (step.run)(place);
    if let Err(failure) = &outcome {
        eprintln!("error: {failure}");
    }
    Row { name: step.name, took: start.elapsed(), outcome }
}

fn format(place: &Place) -> Result<(), Failure> {
    run(place.cargo().args(["fmt", "--all", "--check"]))
}

fn clippy(place: &Place) -> Result<(), Failure> {
    let mut command = place.cargo();
    command.args(["clippy", "--workspace", "--all-targets", "--locked"]);
    run(command.args(["--", "-D", "warnings"]))
}

fn documentation(place: &Place) -> Result<(), Failure> {
    let mut command = place.cargo();
    run(command.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}

/// The demo step before is the control.
fn sabotage_turn(place: &Place) -> Result<(), Failure> {
    sabotage::command(place, &["--turn".to_owned(), "--no-control".to_owned()])
}

/// Shown, not gated: the machines that run this are shared, and few samples judge nothing.
fn bench_short(place: &Place) -> Result<(), Failure> {
    bench::command(place, &["--short".to_owned()])
}

fn bound_cache(place: &Place) -> Result<(), Failure> {
    let cache = place.cache()?;
    if cache.is_dir() && bytes_below(&cache)? > CACHE_CEILING_BYTES {
        eprintln!("note: {} is full and starts anew", cache.display());
        let sabotage = cache.join("sabotage");
        if sabotage.is_dir() {
            std::fs::remove_dir_all(&sabotage).doing("could not empty the cache")?;
        }
        run(place.cargo().arg("clean"))?;
    }
    Ok(())
}

fn bytes_below(folder: &Path) -> Result<u64, Failure> {
    let name = folder.display();
    let mut total = 0;
    for entry in std::fs::read_dir(folder).doing(format_args!("could not list {name}"))? {
        let entry = entry.doing(format_args!("could not list {name}"))?;
        let metadata = entry.metadata().doing(format_args!("could not look into {name}"))?;
        total += if metadata.is_dir() { bytes_below(&entry.path())? } else { metadata.len() };
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_waits_only_for_steps_before_it() {
        for (index, step) in STEPS.iter().enumerate() {
            let known = |name| STEPS[..index].iter().any(|earlier| earlier.name == name);
            assert!(step.after.is_none_or(known), "{}", step.name);
        }
    }

    #[test]
    fn a_step_does_not_start_when_what_it_needs_failed() {
        let place = Place::find().expect("a repository");
        let before = |outcome| [Row { name: "first", took: Duration::ZERO, outcome }];
        let step = |after| Step { name: "second", after, run: |_| Ok(()) };
        let failed = || Err(Failure::new("broken"));
        assert!(perform(&step(Some("first")), &before(failed()), &place).outcome.is_err());
        assert!(perform(&step(Some("first")), &before(Ok(())), &place).outcome.is_ok());
        assert!(perform(&step(None), &before(failed()), &place).outcome.is_ok());
    }
}
