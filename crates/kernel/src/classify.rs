//! What a change is: a test, a source, both at once, or nothing the repository keeps.

use std::collections::BTreeSet;

use glasshouse_model::{CanonicalPath, ChangeClass};
use glasshouse_policy::PathPatterns;
use glasshouse_sandbox::toolchain::{RustChange, rust_change, rust_tests_kept};

use crate::Result;

/// Names of the files in which package managers pin versions. They write them anew, or for the first
/// time, whenever a build or a test run resolves dependencies.
const LOCK_FILES: &[&str] = &[
    "Cargo.lock",
    "Gemfile.lock",
    "Pipfile.lock",
    "bun.lock",
    "composer.lock",
    "deno.lock",
    "go.sum",
    "gradle.lockfile",
    "npm-shrinkwrap.json",
    "package-lock.json",
    "pdm.lock",
    "pnpm-lock.yaml",
    "poetry.lock",
    "uv.lock",
    "yarn.lock",
];

/// Whether a path is a lock file of a package manager.
#[must_use]
pub fn is_lock_file(path: &CanonicalPath) -> bool {
    path.file_name().is_some_and(|name| LOCK_FILES.contains(&name))
}

/// A file before and after; `None` where there is none.
#[derive(Debug, Clone, Copy)]
pub struct Contents<'a> {
    /// Before.
    pub old: Option<&'a [u8]>,
    /// After.
    pub new: Option<&'a [u8]>,
}

/// Tells tests from sources by a project's globs and, in Rust, by content.
#[derive(Debug, Clone)]
pub struct Classifier {
    tests: PathPatterns,
}

impl Classifier {
    /// Compiles the globs of test files, which read as in a policy file.
    ///
    /// # Errors
    /// `policy_bad_glob` for a malformed glob.
    pub fn new(test_globs: &[String]) -> Result<Self> {
        Ok(Self { tests: PathPatterns::parse(test_globs.iter().map(String::as_str))? })
    }

    /// Whether a path alone makes a file a test.
    #[must_use]
    pub fn is_test_path(&self, path: &CanonicalPath) -> bool {
        self.tests.matches(path)
    }

    /// Whether content can matter for a path.
    #[must_use]
    pub fn needs_content(path: &CanonicalPath) -> bool {
        path.as_str().ends_with(".rs")
    }

    /// Classifies a change. Whatever cannot be read with certainty is a source.
    #[must_use]
    pub fn classify(
        &self,
        path: &CanonicalPath,
        ignored: bool,
        contents: &Contents<'_>,
    ) -> ChangeClass {
        if self.is_test_path(path) {
            return ChangeClass::Test;
        }
        if ignored {
            return ChangeClass::Ignored;
        }
        let text = |bytes: Option<&[u8]>| {
            bytes.map_or(Some(String::new()), |b| String::from_utf8(b.to_vec()).ok())
        };
        match (text(contents.old), text(contents.new)) {
            (Some(old), Some(new)) if Self::needs_content(path) => match rust_change(&old, &new) {
                RustChange::TestsOnly => ChangeClass::Test,
                RustChange::Both => ChangeClass::Mixed,
                RustChange::CodeOnly => ChangeClass::Source,
            },
            _ => ChangeClass::Source,
        }
    }

    /// Whether a change takes lines out of tests that were there: what then passes is not what was
    /// asked for before. `lines_removed` is the change's own count.
    #[must_use]
    pub fn weakens(
        &self,
        path: &CanonicalPath,
        lines_removed: u64,
        contents: &Contents<'_>,
    ) -> bool {
        if self.is_test_path(path) {
            return lines_removed > 0;
        }
        let (Some(old), Some(new)) = (contents.old, contents.new) else { return false };
        Self::needs_content(path)
            && match (std::str::from_utf8(old), std::str::from_utf8(new)) {
                (Ok(old), Ok(new)) => !rust_tests_kept(old, new),
                // What cannot be read keeps nothing.
                _ => true,
            }
    }
}

/// Names of the files that running the tests runs: words of the test command, of the recipes of a
/// makefile's `test` and `check`, and of the scripts of a `package.json`. Other words are among them;
/// they name no file.
#[must_use]
pub fn runner_names(argv: &[String], makefile: &str, package_json: &str) -> BTreeSet<String> {
    let mut text = argv.join("\n");
    let mut in_recipe = false;
    for line in makefile.lines() {
        if !line.starts_with(['\t', ' ', '#']) {
            let target = line.split(':').next().unwrap_or_default();
            in_recipe = target.split_whitespace().any(|name| matches!(name, "test" | "check"));
        }
        if in_recipe {
            text.push('\n');
            text.push_str(line);
        }
    }
    if let Ok(package) = serde_json::from_str::<serde_json::Value>(package_json)
        && let Some(scripts) = package["scripts"].as_object()
    {
        for script in scripts.values().filter_map(serde_json::Value::as_str) {
            text.push('\n');
            text.push_str(script);
        }
    }
    text.split(|c: char| !(c.is_alphanumeric() || "._-/".contains(c)))
        .map(|word| word.trim_start_matches("./").to_owned())
        .filter(|word| !word.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test globs are read by the workflow's rules and by the kernel; both must see the same files.
    #[test]
    fn globs_read_as_in_a_policy() {
        let globs = ["tests/**", "*_test.py", "!tests/data/**"].map(str::to_owned);
        let classifier = Classifier::new(&globs).unwrap();
        let check = |path: &str, expected: bool| {
            assert_eq!(
                classifier.is_test_path(&CanonicalPath::parse(path).unwrap()),
                expected,
                "{path}"
            );
        };
        check("tests/a", true);
        check("deep/down/x_test.py", true);
        check("tests/data/a.json", false);
        check("src/a.py", false);
        assert_eq!(Classifier::new(&["[".to_owned()]).unwrap_err().code(), "policy_bad_glob");
        assert!(Classifier::new(&["!a".to_owned()]).is_err());
        assert!(!Classifier::new(&[]).unwrap().is_test_path(&CanonicalPath::parse("a").unwrap()));
    }

    #[test]
    fn files_that_run_the_tests() {
        let check = |argv: &[&str], makefile: &str, package: &str, file: &str, expected: bool| {
            let argv: Vec<_> = argv.iter().map(|word| (*word).to_owned()).collect();
            let names = runner_names(&argv, makefile, package);
            assert_eq!(names.contains(file), expected, "{file}: {names:?}");
        };
        check(&["sh", "tests/run.sh"], "", "", "tests/run.sh", true);
        check(&["sh", "-c", "cd x && ./run.sh"], "", "", "run.sh", true);
        let makefile =
            "all: main.c\n\tcc main.c\ntest: all\n\tsh run_tests.sh\nclean:\n\trm x.sh\n";
        check(&["make", "test"], makefile, "", "run_tests.sh", true);
        check(&["make", "test"], makefile, "", "main.c", false);
        check(&["make", "test"], makefile, "", "x.sh", false);
        let package = r#"{"main": "lib.js", "scripts": {"test": "node scripts/run-tests.js"}}"#;
        check(&["npm", "test"], "", package, "scripts/run-tests.js", true);
        check(&["npm", "test"], "", package, "lib.js", false);
        check(&["npm", "test"], "", "{", "lib.js", false);
    }

    #[test]
    fn weakened_tests() {
        let classifier = Classifier::new(&["tests/**".to_owned()]).unwrap();
        let check = |path: &str, removed: u64, old: &str, new: &str, expected: bool| {
            let contents = Contents { old: Some(old.as_bytes()), new: Some(new.as_bytes()) };
            let weakens =
                classifier.weakens(&CanonicalPath::parse(path).unwrap(), removed, &contents);
            assert_eq!(weakens, expected, "{path}: {old} -> {new}");
        };
        check("tests/a", 0, "", "", false);
        check("tests/a", 1, "", "", true);
        check("src/a.py", 5, "x", "", false);
        let test = "#[cfg(test)] mod t { fn a() { assert!(f()) } }";
        check("src/a.rs", 1, test, "fn f() {}", true);
        check("src/a.rs", 1, test, &format!("fn f() {{}} {test}"), false);
        let bytes = Contents { old: Some(test.as_bytes()), new: Some(b"\xff") };
        assert!(classifier.weakens(&CanonicalPath::parse("src/a.rs").unwrap(), 1, &bytes));
    }
}
