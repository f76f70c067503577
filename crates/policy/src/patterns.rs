//! Lists of path patterns: some to match, less those written with a leading `!`.

use glasshouse_model::{Call, CanonicalPath};

use crate::codes;
use crate::error::{Error, Result};
use crate::glob::{Components, Glob};

/// Patterns as in `path_glob` of a policy file; whatever else names paths by patterns uses the same.
///
/// ```
/// use glasshouse_model::CanonicalPath;
/// use glasshouse_policy::PathPatterns;
/// let tests = PathPatterns::parse(["tests/**", "*_test.py", "!tests/data/**"]).unwrap();
/// let matches = |path: &str| tests.matches(&CanonicalPath::parse(path).unwrap());
/// assert!(matches("tests/a.sh") && matches("src/deep/x_test.py"));
/// assert!(!matches("tests/data/a.json") && !matches("src/a.py"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathPatterns {
    pub(crate) include: Vec<Glob>,
    pub(crate) exclude: Vec<Glob>,
}

impl PathPatterns {
    /// Compiles a list of patterns.
    ///
    /// # Errors
    /// `policy_bad_glob` for a pattern that is malformed or could never match, and for a list of
    /// nothing but patterns with `!`.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let mut patterns = Self::default();
        let fail = |what: String, why: &str| Error::new(codes::BAD_GLOB, what).why(why);
        for text in texts {
            patterns.add(text).map_err(|why| fail(format!("pattern `{text}`"), &why))?;
        }
        patterns.settle().map_err(|why| fail("only patterns with `!`".to_owned(), why))?;
        Ok(patterns)
    }

    /// Whether a path is one of them.
    #[must_use]
    pub fn matches(&self, path: &CanonicalPath) -> bool {
        any_matches(&self.include, path) && !any_matches(&self.exclude, path)
    }

    pub(crate) fn add(&mut self, text: &str) -> std::result::Result<(), String> {
        let (list, pattern) = match text.strip_prefix('!') {
            Some(pattern) => (&mut self.exclude, pattern),
            None => (&mut self.include, text),
        };
        list.extend(Glob::parse(pattern)?);
        Ok(())
    }

    /// Brings the patterns into an order of their own, so that equal lists compare equal.
    pub(crate) fn settle(&mut self) -> std::result::Result<(), &'static str> {
        if self.include.is_empty() && !self.exclude.is_empty() {
            return Err("they take away from other patterns, and there are none");
        }
        for list in [&mut self.include, &mut self.exclude] {
            list.sort();
            list.dedup();
        }
        Ok(())
    }

    pub(crate) fn includes(&self, call: &Call) -> bool {
        call.path.as_ref().is_some_and(|path| any_matches(&self.include, path))
    }

    pub(crate) fn excludes(&self, call: &Call) -> bool {
        call.path.as_ref().is_some_and(|path| any_matches(&self.exclude, path))
    }
}

fn any_matches(globs: &[Glob], path: &CanonicalPath) -> bool {
    let path = Components::of(path);
    globs.iter().any(|glob| glob.matches(path))
}
