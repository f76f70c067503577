//! The whole test suite: unit and integration tests by nextest, then the documentation examples.

use std::time::{Duration, Instant};

use crate::models;
use crate::needs::{self, Use};
use crate::place::{Place, Scratch};
use crate::process::{Failure, Stream, tee};
use crate::skips;

/// `cargo xtask test`: arguments go to nextest, and then the documentation examples are left out,
/// because arguments choose tests by names that examples do not have.
pub(crate) fn command(place: &Place, arguments: &[String]) -> Result<(), Failure> {
    needs::ensure(place, Use::Test)?;
    let start = Instant::now();
    let scratch = Scratch::new("skips")?;
    let log = scratch.path().join("log");

    let mut nextest = place.cargo();
    nextest.args(["nextest", "run", "--no-fail-fast"]).args(arguments);
    // Beside a named package, cargo would still take the whole workspace.
    let names_package = |argument: &String| {
        argument.starts_with("-p") || argument.split('=').next() == Some("--package")
    };
    if !arguments.iter().any(names_package) {
        nextest.arg("--workspace");
    }
    nextest.env(skips::LOG_VARIABLE, &log);
    nextest.envs(models::prepare(place, arguments)?);
    let (nextest_status, report) = tee(&mut nextest, Stream::Stderr)?;
    let mut counts = report.lines().rev().find_map(nextest_counts).unwrap_or_default();

    let mut doc_status = None;
    if arguments.is_empty() {
        let mut examples = place.cargo();
        examples.args(["test", "--doc", "--workspace", "--no-fail-fast"]);
        examples.env(skips::LOG_VARIABLE, &log);
        let (status, report) = tee(&mut examples, Stream::Stdout)?;
        report.lines().filter_map(libtest_counts).for_each(|more| counts.add(more));
        doc_status = Some(status);
    }

    let happened = skips::happened(&log)?;
    for (name, reason) in &happened {
        eprintln!("skipped: {name}: {reason}");
    }
    counts.set_aside(happened.len());
    println!("{}", counts.summary(start.elapsed()));

    let mut faults = Vec::new();
    if !nextest_status.success() {
        faults.push("tests failed".to_owned());
    }
    if doc_status.is_some_and(|status| !status.success()) {
        faults.push("documentation examples failed".to_owned());
    }
    faults.extend(skips::faults(place, &happened)?);
    if faults.is_empty() { Ok(()) } else { Err(Failure::new(faults.join("\n       "))) }
}

/// How many tests ended how.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Counts {
    fn add(&mut self, more: Self) {
        self.passed += more.passed;
        self.failed += more.failed;
        self.skipped += more.skipped;
    }

    /// Counts tests that passed only because they returned early as skipped.
    fn set_aside(&mut self, count: usize) {
        let count = count.min(self.passed);
        self.passed -= count;
        self.skipped += count;
    }

    fn summary(self, took: Duration) -> String {
        let run = self.passed + self.failed;
        let failed =
            if self.failed == 0 { String::new() } else { format!(", {} failed", self.failed) };
        format!(
            "     Summary [{:8.3}s] {run} tests run: {} passed{failed}, {} skipped",
            took.as_secs_f64(),
            self.passed,
            self.skipped
        )
    }
}

/// Reads nextest's closing line: `Summary [ 1.2s] 9/10 tests run: 8 passed (1 slow), 1 failed, 2
/// skipped`.
fn nextest_counts(line: &str) -> Option<Counts> {
    let (_, list) = line.trim_start().strip_prefix("Summary [")?.split_once("run: ")?;
    let mut counts = Counts::default();
    for part in without_parentheses(list).split(", ") {
        let mut words = part.split_whitespace();
        let count: usize = words.next()?.parse().ok()?;
        match (words.next()?, words.next()) {
            ("passed", None) => counts.passed += count,
            ("skipped", None) => counts.skipped += count,
            // `failed`, `timed out`, `exec failed`: each is a test that did not pass.
            _ => counts.failed += count,
        }
    }
    Some(counts)
}

fn without_parentheses(text: &str) -> String {
    let mut depth = 0_usize;
    let kept = text.chars().filter(|&c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    });
    kept.collect()
}

/// Reads the closing line of a libtest run: `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
fn libtest_counts(line: &str) -> Option<Counts> {
    let (_, list) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut counts = Counts::default();
    for part in list.split("; ") {
        let (count, word) = part.split_once(' ')?;
        match word {
            "passed" => counts.passed = count.parse().ok()?,
            "failed" => counts.failed = count.parse().ok()?,
            "ignored" => counts.skipped = count.parse().ok()?,
            _ => {}
        }
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn counts(passed: usize, failed: usize, skipped: usize) -> Option<Counts> {
        Some(Counts { passed, failed, skipped })
    }

    #[test]
    fn closing_lines_are_read() {
        for (line, expected) in [
            ("     Summary [   0.012s] 5 tests run: 5 passed, 0 skipped", counts(5, 0, 0)),
            (
                "     Summary [  31.500s] 1 test run: 1 passed (1 slow, 1 leaky), 2 skipped",
                counts(1, 0, 2),
            ),
            (
                "Summary [ 1.0s] 9/12 tests run: 6 passed, 1 failed, 2 timed out, 3 skipped",
                counts(6, 3, 3),
            ),
            ("        PASS [   0.005s] crate test_name", None),
            ("error: test run failed", None),
        ] {
            assert_eq!(nextest_counts(line), expected, "{line}");
        }
        for (line, expected) in [
            (
                "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; \
                 finished in 0.2s",
                counts(3, 0, 1),
            ),
            ("test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured", counts(1, 2, 0)),
            ("running 3 tests", None),
        ] {
            assert_eq!(libtest_counts(line), expected, "{line}");
        }
    }

    #[test]
    fn a_test_that_skipped_is_not_counted_as_passed() {
        let mut all = Counts { passed: 10, failed: 1, skipped: 0 };
        all.set_aside(2);
        let line = all.summary(Duration::from_millis(1500));
        assert_eq!(line, "     Summary [   1.500s] 9 tests run: 8 passed, 1 failed, 2 skipped");
    }
}
