//! What a finished test run proves.
//!
//! An exit status alone does not tell a test that failed from a runner that never started, and a
//! failing test opens the sources for writing. So a run counts only as far as its runner, as it tells
//! of itself, really ran. What a program under test writes can make a run count for less, and where
//! an exit status says failure, for no more than a failing test of its own would.

use super::TestKind;

/// Exit statuses of a shell that found no program, or could not execute it.
const NOT_EXECUTED: [i32; 2] = [126, 127];
/// What Python says, after its own path, where the module to run is missing.
const NO_PYTEST: &str = ": No module named pytest";
/// What npm says, after `npm error` or `npm ERR!`, when it ran no script.
const NPM_REFUSALS: [&str; 3] = ["missing script", "code enoent", "code ejsonparse"];
/// What cargo says once it got as far as to compile tests.
const CARGO_RAN: [&str; 4] =
    ["error: could not compile", "error: test failed", "error: doctest failed", "test result: "];

/// What a finished test run proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the runner really ran tests, or failed to build them.
    pub ran: bool,
    /// Whether every test passed; never without `ran`.
    pub passed: bool,
    /// What is missing, in words for whoever reads the output; none when the exit status says it all.
    pub why: Option<String>,
}

/// Judges a run by the command, its exit status and everything it wrote. A configured command is
/// judged by the runner it names; of one that names none only the exit status is known.
///
/// ```
/// use glasshouse_sandbox::toolchain::{TestKind, verdict};
/// let argv = ["python3", "-m", "pytest"].map(str::to_owned);
/// let found = verdict(TestKind::Pytest, &argv, 1, "/usr/bin/python3: No module named pytest\n");
/// assert!(!found.ran && !found.passed);
/// ```
#[must_use]
pub fn verdict(kind: TestKind, argv: &[String], exit_code: i32, output: &str) -> Verdict {
    let output = plain(output);
    if let Some(why) = not_started(exit_code, &output, argv) {
        return Verdict { ran: false, passed: false, why: Some(why) };
    }
    let doubt = match runner(kind, argv) {
        TestKind::Pytest => pytest(exit_code, &output),
        TestKind::Cargo => cargo(exit_code, &output),
        TestKind::Npm => npm(exit_code, &output),
        TestKind::Go => go(exit_code, &output),
        TestKind::Maven => maven(exit_code, &output),
        TestKind::Make => make(exit_code, &output),
        TestKind::Shell | TestKind::Configured => None,
    };
    match doubt {
        Some(why) => Verdict { ran: false, passed: false, why: Some(why) },
        None => Verdict { ran: true, passed: exit_code == 0, why: None },
    }
}

/// The runner of a configured command, as far as its words tell.
fn runner(kind: TestKind, argv: &[String]) -> TestKind {
    if kind != TestKind::Configured {
        return kind;
    }
    let words: Vec<_> =
        argv.iter().map(|word| word.rsplit('/').next().unwrap_or_default()).collect();
    match words.as_slice() {
        ["cargo", rest @ ..] if rest.contains(&"test") || rest.contains(&"t") => TestKind::Cargo,
        ["go", "test", ..] => TestKind::Go,
        ["mvn" | "mvnw", rest @ ..]
            if rest.iter().any(|word| matches!(*word, "test" | "verify")) =>
        {
            TestKind::Maven
        }
        ["npm", ..] => TestKind::Npm,
        ["make" | "gmake", ..] => TestKind::Make,
        ["pytest" | "py.test", ..] => TestKind::Pytest,
        [python, rest @ ..] if python.starts_with("python") => {
            let runs_pytest = rest.windows(2).any(|pair| matches!(pair, ["-m", "pytest"]));
            if runs_pytest { TestKind::Pytest } else { TestKind::Configured }
        }
        ["uv" | "poetry" | "pipenv" | "hatch", "run", rest @ ..] if rest.contains(&"pytest") => {
            TestKind::Pytest
        }
        _ => TestKind::Configured,
    }
}

/// What keeps any runner from starting.
fn not_started(exit_code: i32, output: &str, argv: &[String]) -> Option<String> {
    if exit_code == 0 {
        return None;
    }
    // Python's own line, with its path in front; a test that fails to import it says it otherwise.
    let python = output.lines().find_map(|line| {
        let program = line.trim_end().strip_suffix(NO_PYTEST)?;
        (!program.is_empty() && !program.contains(char::is_whitespace)).then_some(program)
    });
    if let Some(program) = python {
        return Some(format!(
            "pytest is not installed for {program}: install it in the project's `.venv`, or \
             configure `test.command`"
        ));
    }
    let program = argv.first().map_or("the program", String::as_str);
    match exit_code {
        127 => Some(format!("`{program}`, or a program it needs, is not installed")),
        126 => Some(format!("`{program}`, or a program it needs, cannot be executed")),
        _ => None,
    }
}

/// Maven exits with 1 for everything. It really ran tests when it counts them, and tests that do not
/// compile are failing tests; what it could not resolve, or a project it could not read, are neither.
fn maven(exit_code: i32, output: &str) -> Option<String> {
    let has = |text: &str| output.contains(text);
    if has("Tests run: ") || (exit_code != 0 && has("COMPILATION ERROR")) {
        return None;
    }
    let why = if has("Could not resolve") || has("Cannot access") {
        "Maven could not resolve what the project needs: have it in ~/.m2/repository"
    } else if exit_code == 0 {
        "Maven ran no tests"
    } else {
        "Maven ended before it ran tests"
    };
    Some(why.to_owned())
}

/// 0 and 1 are its verdicts. A test that imports what is yet to be written stops the collection, as
/// one that does not compile stops cargo: it fails. Every other status says that nothing was run.
fn pytest(exit_code: i32, output: &str) -> Option<String> {
    let why = match exit_code {
        0 | 1 => return None,
        2 if output.lines().any(collection_failed) => return None,
        2 => "pytest was interrupted, or could not collect the tests",
        3 => "pytest failed internally",
        4 => "pytest does not understand its command line or its configuration",
        5 => "pytest found no tests",
        _ => "pytest ended without a verdict",
    };
    Some(why.to_owned())
}

/// `1 error during collection`, as pytest sums it up.
fn collection_failed(line: &str) -> bool {
    line.starts_with("!!!")
        && (line.contains("error during coll") || line.contains("errors during coll"))
}

/// Tests that do not compile are failing tests; without a toolchain or a dependency there are none.
fn cargo(exit_code: i32, output: &str) -> Option<String> {
    let count = |wanted: fn(&str) -> bool| output.lines().filter(|line| wanted(line)).count();
    if exit_code != 0 {
        let ran = CARGO_RAN.iter().any(|told| output.contains(told));
        return (!ran).then(|| {
            "cargo did not get as far as to compile the tests: a toolchain, a dependency or the \
             manifest is missing or not usable"
                .to_owned()
        });
    }
    let programs = count(|line| line.trim_start().starts_with("Running ") && line.ends_with(')'));
    let begun = count(|line| {
        let number = line.strip_prefix("running ").and_then(|rest| rest.split(' ').next());
        number.is_some_and(|number| number.parse::<u64>().is_ok())
            && (line.ends_with(" test") || line.ends_with(" tests"))
    });
    let passed = count(|line| line.starts_with("test result: ok"));
    let expected = programs.max(begun);
    (passed < expected).then(|| {
        format!(
            "of {expected} test programs {passed} told that their tests passed: one ended early, for \
             example by a call of `exit`, or has a harness of its own that prints no `test result: ok`"
        )
    })
}

fn npm(exit_code: i32, output: &str) -> Option<String> {
    if exit_code == 0 {
        return None;
    }
    output.lines().find_map(|line| {
        let line = line.trim();
        let lower = line.to_lowercase();
        let refused = ["npm error ", "npm err! "]
            .iter()
            .filter_map(|start| lower.strip_prefix(start))
            .any(|told| NPM_REFUSALS.iter().any(|refusal| told.starts_with(refusal)));
        (refused || names_missing_program(line))
            .then(|| format!("npm ran no test: {line}; are the dependencies installed?"))
    })
}

/// A build failure of the tests is reported as `FAIL`, like a failing test.
fn go(exit_code: i32, output: &str) -> Option<String> {
    let told = ["FAIL", "--- FAIL", "panic: ", "{\"Time\"", "{\"Action\"", "{\"ImportPath\""];
    let ran = output.lines().any(|line| told.iter().any(|start| line.starts_with(start)));
    (exit_code != 0 && !ran)
        .then(|| "go did not get as far as to build the tests; its output says why".to_owned())
}

/// Make answers 2 whatever happened; its last words tell what a recipe ended with.
fn make(exit_code: i32, output: &str) -> Option<String> {
    if exit_code == 0 {
        return None;
    }
    output.lines().find_map(|line| {
        let told = line.trim_end().strip_prefix("make").filter(|told| told.contains(": *** "))?;
        let missing = NOT_EXECUTED.iter().any(|code| told.ends_with(&format!("Error {code}")));
        let no_rule = told.contains("No rule to make target") || told.contains("No targets");
        (missing || no_rule).then(|| format!("make ran no test: {}", line.trim()))
    })
}

/// A shell's complaint that a command does not exist.
fn names_missing_program(line: &str) -> bool {
    let shell = ["sh: ", "bash: ", "/bin/sh: "].iter().any(|start| line.starts_with(start));
    shell && (line.ends_with(": not found") || line.ends_with(": command not found"))
}

/// Text without colours and other escape sequences.
fn plain(output: &str) -> String {
    let mut text = String::with_capacity(output.len());
    let mut rest = output;
    while let Some(at) = rest.find("\u{1b}[") {
        text.push_str(&rest[..at]);
        let sequence = &rest[at + 2..];
        let end = sequence.find(|c: char| ('@'..='~').contains(&c));
        rest = end.map_or("", |end| &sequence[end + 1..]);
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ran`/`passed` as two letters, `-` for neither.
    #[track_caller]
    fn check(kind: TestKind, argv: &str, exit_code: i32, output: &str, expected: &str) {
        let argv: Vec<_> = argv.split(' ').map(str::to_owned).collect();
        let found = verdict(kind, &argv, exit_code, output);
        let shown = match (found.ran, found.passed) {
            (true, true) => "green",
            (true, false) => "red",
            (false, false) => "nothing",
            (false, true) => "impossible",
        };
        assert_eq!(shown, expected, "{argv:?} {exit_code} {output:?}: {found:?}");
        assert_eq!(found.why.is_some(), expected == "nothing", "{found:?}");
    }

    /// Without pytest `python3 -m pytest` exits 1, as a failing test does.
    /// Taken for one it opened the sources for writing, with no test ever run.
    /// Only what the runner says of itself makes a run count, runner by runner.
    #[test]
    fn a_runner_that_did_not_start_is_no_failing_test() {
        let pytest = |code, output, expected| {
            for (kind, argv) in [
                (TestKind::Pytest, "python3 -m pytest -q"),
                (TestKind::Configured, "/w/.venv/bin/python3.12 -m pytest"),
                (TestKind::Configured, "pytest -x"),
                (TestKind::Configured, "uv run pytest"),
            ] {
                check(kind, argv, code, output, expected);
            }
        };
        pytest(0, "1 passed\n", "green");
        pytest(1, "1 failed\n", "red");
        pytest(1, "E   ModuleNotFoundError: No module named 'pytest'\n1 failed\n", "red");
        let collecting = "!!!!! Interrupted: 1 error during collection !!!!!\n1 error in 0.05s\n";
        pytest(2, collecting, "red");
        pytest(1, "/w/.venv/bin/python3: No module named pytest\n", "nothing");
        for code in [2, 3, 4, 5, 126, 127, 139, -1] {
            pytest(code, "", "nothing");
        }
        let cargo =
            |code, output, expected| check(TestKind::Cargo, "cargo test", code, output, expected);
        cargo(101, "error[E0425]: x\nerror: could not compile `a` (lib test)\n", "red");
        cargo(101, "test result: FAILED. 0 passed\nerror: test failed, to rerun pass\n", "red");
        cargo(101, "error: no matching package named `serde` found\n", "nothing");
        cargo(1, "error: toolchain 'nightly' is not installed\n", "nothing");
        cargo(127, "cargo: not found\n", "nothing");
        check(TestKind::Configured, "cargo +stable test", 101, "error: x\n", "nothing");
        check(TestKind::Configured, "cargo nextest run", 100, "", "red");
        let npm = |code, output, expected| check(TestKind::Npm, "npm test", code, output, expected);
        npm(1, "not ok 1 - a\n", "red");
        npm(1, "npm error Missing script: \"test\"\n", "nothing");
        npm(1, "npm ERR! missing script: test\n", "nothing");
        npm(254, "npm error code ENOENT\n", "nothing");
        npm(1, "sh: 1: jest: not found\n", "nothing");
        npm(127, "", "nothing");
        npm(1, "AssertionError: file not found\n", "red");
        let go =
            |code, output, expected| check(TestKind::Go, "go test ./...", code, output, expected);
        go(0, "ok  \ta\t0.1s\n", "green");
        go(1, "--- FAIL: TestA\nFAIL\n", "red");
        go(1, "./a_test.go:3: undefined: b\nFAIL\ta [build failed]\n", "red");
        go(1, "go: go.mod requires go >= 9\n", "nothing");
        go(127, "", "nothing");
        let make =
            |code, output, expected| check(TestKind::Make, "make test", code, output, expected);
        make(2, "make: *** [Makefile:2: test] Error 1\n", "red");
        make(2, "make: *** [Makefile:2: test] Error 127\n", "nothing");
        make(2, "make: *** No rule to make target 'test'.  Stop.\n", "nothing");
        make(2, "/usr/bin/python3: No module named pytest\nmake: *** [test] Error 1\n", "nothing");
        check(TestKind::Shell, "sh -c x", 1, "FAILED tests/a.sh\n", "red");
        check(TestKind::Shell, "sh -c x", 127, "", "nothing");
        check(TestKind::Configured, "./check", 126, "", "nothing");
        check(TestKind::Configured, "./check", 3, "", "red");
        check(TestKind::Configured, "./check", 0, "", "green");
    }

    /// A source that calls `exit(0)` ends the test program before any test can fail.
    /// Cargo then exits 0 as if all had passed.
    /// Every program that begins must tell its result, or the run proves nothing.
    #[test]
    fn a_cargo_test_program_that_ends_early_is_not_green() {
        let running = "     Running unittests src/lib.rs (target/debug/deps/a-1)\n";
        let result = "\nrunning 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed\n";
        let doc = "   Doc-tests a\n\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed\n";
        let check =
            |output: String, expected| check(TestKind::Cargo, "cargo test", 0, &output, expected);
        check(format!("{running}{result}{doc}"), "green");
        check(format!("{running}{running}{result}"), "nothing");
        check(format!("{running}{doc}{running}"), "nothing");
        check("\nrunning 2 tests\n".to_owned(), "nothing");
        check(format!("\nrunning 2 tests\n{result}"), "nothing");
        // With `--quiet` only the tests' own lines are left.
        check(result.to_owned(), "green");
        let coloured = running.replace("Running", "\u{1b}[1m\u{1b}[32mRunning\u{1b}[0m");
        check(format!("{coloured}{coloured}{result}"), "nothing");
    }
}
