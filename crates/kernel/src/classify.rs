//! What a change is: a test, a source, both at once, or nothing the repository keeps.

use glasshouse_model::{CanonicalPath, ChangeClass};
use glasshouse_sandbox::toolchain::{RustChange, rust_change, rust_tests_kept};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::{Error, Result, codes};

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
    tests: GlobSet,
}

impl Classifier {
    /// Compiles the globs of test files.
    ///
    /// # Errors
    /// `config_invalid` for a malformed glob.
    pub fn new(test_globs: &[String]) -> Result<Self> {
        let fail = |glob: &str, e: globset::Error| {
            Error::new(codes::CONFIG_INVALID, format!("cannot use the test glob `{glob}`")).why(e)
        };
        let mut set = GlobSetBuilder::new();
        for glob in test_globs {
            if glob.starts_with('!') {
                return Err(Error::new(
                    codes::CONFIG_INVALID,
                    format!("cannot use the test glob `{glob}`"),
                )
                .why("a list of test globs has no exclusions"));
            }
            let compiled = GlobBuilder::new(glob).literal_separator(true).build();
            set.add(compiled.map_err(|e| fail(glob, e))?);
        }
        let tests = set.build().map_err(|e| fail("(all)", e))?;
        Ok(Self { tests })
    }

    /// Whether a path alone makes a file a test.
    #[must_use]
    pub fn is_test_path(&self, path: &CanonicalPath) -> bool {
        self.tests.is_match(path.as_str())
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
                _ => false,
            }
    }
}
