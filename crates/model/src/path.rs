//! Workspace paths as policy sees them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest canonical path in bytes (Linux `PATH_MAX` less the terminator).
pub const MAX_PATH_BYTES: usize = 4095;
/// Most components of a canonical path.
pub const MAX_PATH_COMPONENTS: usize = 256;

/// A path relative to the workspace root with no `.`, `..`, empty component, NUL or leading slash;
/// `.` alone names the root. A path that leaves the workspace cannot be expressed.
///
/// This is the lexical half of path safety: [`CanonicalPath::parse`] never touches the disk. The
/// sandbox pairs it with an opened descriptor (`ResolvedPath`) before anything acts on it.
///
/// ```
/// use glasshouse_model::CanonicalPath;
/// assert_eq!(CanonicalPath::parse("./src//a/../b.rs").unwrap().as_str(), "src/b.rs");
/// assert!(CanonicalPath::parse("../x").is_err());
/// assert!(CanonicalPath::parse("/etc/passwd").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CanonicalPath(Box<str>);

/// Why a text is no workspace path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// Empty text.
    Empty,
    /// An absolute path.
    Absolute,
    /// `..` climbs above the workspace root.
    Outside,
    /// A NUL byte or another control character.
    Control,
    /// Longer than [`MAX_PATH_BYTES`] or deeper than [`MAX_PATH_COMPONENTS`].
    TooLong,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the path is empty",
            Self::Absolute => "the path is absolute; paths are relative to the workspace",
            Self::Outside => "the path climbs out of the workspace",
            Self::Control => "the path holds a control character",
            Self::TooLong => "the path is too long or too deep",
        })
    }
}

impl std::error::Error for PathError {}

text_schema!(
    CanonicalPath,
    "CanonicalPath",
    "^[^/].*$",
    "A workspace path without `.`, `..`, doubled or leading slashes."
);

impl CanonicalPath {
    /// Canonicalises a workspace-relative path by its text alone.
    ///
    /// # Errors
    /// Says which rule the text breaks; see [`PathError`].
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.is_empty() {
            return Err(PathError::Empty);
        }
        if text.len() > MAX_PATH_BYTES {
            return Err(PathError::TooLong);
        }
        if text.starts_with('/') {
            return Err(PathError::Absolute);
        }
        if text.chars().any(char::is_control) {
            return Err(PathError::Control);
        }
        let mut parts: Vec<&str> = Vec::new();
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop().ok_or(PathError::Outside)?;
                }
                name => parts.push(name),
            }
            if parts.len() > MAX_PATH_COMPONENTS {
                return Err(PathError::TooLong);
            }
        }
        Ok(if parts.is_empty() { Self::root() } else { Self(parts.join("/").into()) })
    }

    /// The workspace root.
    #[must_use]
    pub fn root() -> Self {
        Self(".".into())
    }

    /// Whether this is the workspace root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        &*self.0 == "."
    }

    /// The text, without leading `./`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The components from the root; none for the root itself.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|part| *part != ".")
    }

    /// The last component; `None` for the root.
    #[must_use]
    pub fn file_name(&self) -> Option<&str> {
        self.components().last()
    }

    /// The directory that holds it; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        Some(self.0.rsplit_once('/').map_or_else(Self::root, |(dir, _)| Self(dir.into())))
    }

    /// A path below this one.
    ///
    /// # Errors
    /// As [`CanonicalPath::parse`]; `..` in `rest` may not climb above the workspace root.
    pub fn join(&self, rest: &str) -> Result<Self, PathError> {
        Self::parse(&format!("{}/{rest}", self.0))
    }
}

impl fmt::Display for CanonicalPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Ordered and hashed as its text, so a map keyed by paths answers text ranges ("all below `src/`").
impl std::borrow::Borrow<str> for CanonicalPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for CanonicalPath {
    type Error = PathError;

    fn try_from(text: String) -> Result<Self, PathError> {
        Self::parse(&text)
    }
}

impl From<CanonicalPath> for String {
    fn from(path: CanonicalPath) -> Self {
        path.0.into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn canonical_forms() {
        let check = |text: &str, expected: Result<&str, PathError>| {
            let parsed = CanonicalPath::parse(text);
            assert_eq!(
                parsed.as_ref().map(CanonicalPath::as_str).map_err(|e| *e),
                expected,
                "{text:?}"
            );
        };
        check("a", Ok("a"));
        check("./a//b/", Ok("a/b"));
        check("a/..", Ok("."));
        check("a/../b/./c", Ok("b/c"));
        check("...", Ok("..."));
        check("", Err(PathError::Empty));
        check("/a", Err(PathError::Absolute));
        check("//a", Err(PathError::Absolute));
        check("..", Err(PathError::Outside));
        check("a/../../b", Err(PathError::Outside));
        check("a\0b", Err(PathError::Control));
        check("a\nb", Err(PathError::Control));
        check(&"a/".repeat(257), Err(PathError::TooLong));
        check(&"a".repeat(4096), Err(PathError::TooLong));
    }

    #[test]
    fn parents_and_names() {
        let path = CanonicalPath::parse("a/b/c").unwrap();
        assert_eq!(path.parent().unwrap().as_str(), "a/b");
        assert_eq!(path.file_name(), Some("c"));
        assert_eq!(CanonicalPath::parse("a").unwrap().parent().unwrap(), CanonicalPath::root());
        assert!(CanonicalPath::root().parent().is_none());
        assert!(path.join("../../../../x").is_err());
        assert_eq!(CanonicalPath::root().join("x").unwrap().as_str(), "x");
    }

    proptest! {
        #[test]
        fn parsing_is_idempotent_and_stays_inside(text in "[a-c./]{1,24}") {
            if let Ok(path) = CanonicalPath::parse(&text) {
                prop_assert_eq!(CanonicalPath::parse(path.as_str()).unwrap(), path.clone());
                prop_assert!(path.components().all(|part| part != ".." && !part.is_empty()));
                prop_assert!(!path.as_str().starts_with('/'));
            }
        }
    }
}
