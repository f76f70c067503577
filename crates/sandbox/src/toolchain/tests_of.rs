//! How a repository tests itself.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{hint, is_plain_file, is_real_directory};

/// Files that say "this is Python".
pub(super) const PYTHON_MARKS: &[&str] =
    &["pyproject.toml", "setup.py", "setup.cfg", "pytest.ini", "tox.ini", "requirements.txt"];
/// Runs every shell test, also after one failed, and fails if one did.
const SHELL_TESTS: &str = "status=0; for test in tests/*.sh; do \
    if sh \"$test\"; then echo \"ok $test\"; else echo \"FAILED $test\"; status=1; fi; \
    done; exit $status";
/// What `npm init` writes where no test is.
const NPM_PLACEHOLDER: &str = "no test specified";

/// What kind of repository a plan was made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestKind {
    /// `cargo test`.
    Cargo,
    /// `go test`.
    Go,
    /// `mvn test`.
    Maven,
    /// The `test` script of `package.json`.
    Npm,
    /// `pytest`.
    Pytest,
    /// The `test` target of a makefile.
    Make,
    /// Each `tests/*.sh`.
    Shell,
    /// The project's configuration names the command.
    Configured,
}

/// How to run the tests, and which files are tests and which sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestPlan {
    /// Command and arguments, run at the workspace's root.
    pub argv: Vec<String>,
    /// What was detected.
    pub kind: TestKind,
    /// Globs of tests. A path that matches these is a test even when it matches a source glob.
    pub test_globs: Vec<String>,
    /// Globs of sources.
    pub source_globs: Vec<String>,
}

/// Detects how a repository tests itself; `configured` is the command of the project's configuration,
/// which wins. None when nothing is known: the caller must ask for configuration, not guess.
///
/// ```
/// use glasshouse_sandbox::toolchain::{TestKind, test_command};
/// let dir = std::env::temp_dir();
/// let plan = test_command(&dir, Some(&["./check".to_owned()])).unwrap();
/// assert_eq!((plan.kind, plan.argv), (TestKind::Configured, vec!["./check".to_owned()]));
/// ```
#[must_use]
pub fn test_command(repo: &Path, configured: Option<&[String]>) -> Option<TestPlan> {
    let detected = kind_of(repo);
    if let Some(argv) = configured.filter(|argv| !argv.is_empty()) {
        let (test_globs, source_globs) = globs(detected.unwrap_or(TestKind::Configured));
        return Some(TestPlan {
            argv: argv.to_vec(),
            kind: TestKind::Configured,
            test_globs,
            source_globs,
        });
    }
    let kind = detected?;
    let argv: &[&str] = match kind {
        TestKind::Cargo => &["cargo", "test", "--offline", "--no-fail-fast"],
        TestKind::Go => &["go", "test", "./..."],
        TestKind::Maven => &["mvn", "-B", "-o", "-fae", "test"],
        TestKind::Npm => &["npm", "test", "--silent"],
        TestKind::Pytest => &["python3", "-m", "pytest", "-q"],
        TestKind::Make => &["make", "test"],
        TestKind::Shell | TestKind::Configured => &["sh", "-c", SHELL_TESTS],
    };
    let (test_globs, source_globs) = globs(kind);
    Some(TestPlan {
        argv: argv.iter().map(|&arg| arg.to_owned()).collect(),
        kind,
        test_globs,
        source_globs,
    })
}

fn kind_of(repo: &Path) -> Option<TestKind> {
    let has = |name: &str| is_plain_file(&repo.join(name));
    if has("Cargo.toml") {
        return Some(TestKind::Cargo);
    }
    if has("go.mod") {
        return Some(TestKind::Go);
    }
    if has("pom.xml") {
        return Some(TestKind::Maven);
    }
    if npm_has_tests(repo) {
        return Some(TestKind::Npm);
    }
    if PYTHON_MARKS.iter().any(|mark| has(mark)) || has_python_tests(repo) {
        return Some(TestKind::Pytest);
    }
    let is_target = |line: &str| {
        line.strip_prefix("test").is_some_and(|rest| {
            let rest = rest.trim_start();
            rest.starts_with(':') && !rest.starts_with(":=")
        })
    };
    let makefile =
        ["Makefile", "makefile", "GNUmakefile"].into_iter().find_map(|name| hint(&repo.join(name)));
    if makefile.is_some_and(|text| text.lines().any(is_target)) {
        return Some(TestKind::Make);
    }
    names(&repo.join("tests")).iter().any(|name| name.ends_with(".sh")).then_some(TestKind::Shell)
}

fn npm_has_tests(repo: &Path) -> bool {
    let Some(text) = hint(&repo.join("package.json")) else { return false };
    let package: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    package["scripts"]["test"]
        .as_str()
        .is_some_and(|script| !script.trim().is_empty() && !script.contains(NPM_PLACEHOLDER))
}

fn has_python_tests(repo: &Path) -> bool {
    let is_test = |name: &String| name.starts_with("test_") && name.ends_with(".py");
    ["tests", "."].into_iter().any(|dir| names(&repo.join(dir)).iter().any(is_test))
}

fn names(dir: &Path) -> Vec<String> {
    if !is_real_directory(dir) {
        return Vec::new();
    }
    let Ok(items) = std::fs::read_dir(dir) else { return Vec::new() };
    items.filter_map(|item| item.ok()?.file_name().into_string().ok()).collect()
}

fn globs(kind: TestKind) -> (Vec<String>, Vec<String>) {
    let (tests, sources): (&[&str], &[&str]) = match kind {
        TestKind::Cargo => (
            &["tests/**", "**/tests/**", "src/**/tests.rs", "**/src/**/tests.rs"],
            &["src/**", "**/src/**", "build.rs", "**/build.rs"],
        ),
        TestKind::Go => (&["**/*_test.go", "**/testdata/**"], &["**/*.go"]),
        TestKind::Maven => (&["src/test/**", "**/src/test/**"], &["src/main/**", "**/src/main/**"]),
        TestKind::Npm => (
            &["test/**", "tests/**", "**/__tests__/**", "**/*.test.*", "**/*.spec.*"],
            &[
                "src/**", "lib/**", "**/*.js", "**/*.mjs", "**/*.cjs", "**/*.ts", "**/*.tsx",
                "**/*.jsx",
            ],
        ),
        TestKind::Pytest => (
            &["tests/**", "test/**", "**/test_*.py", "**/*_test.py", "**/conftest.py"],
            &["src/**", "**/*.py"],
        ),
        TestKind::Make | TestKind::Shell | TestKind::Configured => (
            &["tests/**", "test/**", "**/*_test.*", "**/*.test.*"],
            &["src/**", "lib/**", "bin/**", "*.sh"],
        ),
    };
    let owned = |list: &[&str]| list.iter().map(|&glob| glob.to_owned()).collect();
    (owned(tests), owned(sources))
}
