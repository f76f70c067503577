//! JSON Pointers (RFC 6901): `/a~1b/0` names member `a/b`, then element 0.

use std::fmt;

use crate::codes;
use crate::error::Error;
use crate::path;

/// Longest pointer and most tokens; deeper places do not exist in a plan.
const MAX_BYTES: usize = 4096;

/// A place in a document. The empty pointer is the whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Pointer(Vec<String>);

impl Pointer {
    /// Reads a pointer as it is written.
    ///
    /// # Errors
    ///
    /// `plan_line_invalid` unless it is empty or begins with a slash and escapes as the RFC says;
    /// `plan_path_unsafe` when a token, also behind escapes, reaches a prototype in a script.
    ///
    /// ```
    /// use glasshouse_plan::change::Pointer;
    /// assert_eq!(Pointer::parse("/m~0n//~01")?.tokens(), ["m~n", "", "~1"]);
    /// assert!(Pointer::parse("/a/__proto__/b").is_err());
    /// # Ok::<(), glasshouse_plan::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, Error> {
        let invalid = |why: &str| {
            Error::new(codes::LINE_INVALID, "a pointer cannot be read").why(why).at(text)
        };
        if text.is_empty() {
            return Ok(Self::default());
        }
        if text.len() > MAX_BYTES {
            return Err(Error::new(codes::LINE_INVALID, "a pointer is too long"));
        }
        let rest = text.strip_prefix('/').ok_or_else(|| invalid("it begins with a slash"))?;
        let mut tokens = Vec::new();
        for token in rest.split('/') {
            let escapes = token.matches('~').count();
            let known = token.matches("~0").count() + token.matches("~1").count();
            if escapes != known {
                return Err(invalid("a tilde is followed by 0 or 1"));
            }
            let token = token.replace("~1", "/").replace("~0", "~");
            if path::reaches_prototype(&token) {
                return Err(
                    Error::new(codes::PATH_UNSAFE, "a pointer reaches a prototype").at(text)
                );
            }
            tokens.push(token);
        }
        Ok(Self(tokens))
    }

    /// The tokens, unescaped.
    #[must_use]
    pub fn tokens(&self) -> &[String] {
        &self.0
    }

    /// The pointer to a member or an element.
    #[must_use]
    pub fn join(&self, token: &str) -> Self {
        let mut tokens = self.0.clone();
        tokens.push(token.to_owned());
        Self(tokens)
    }

    pub(crate) fn split_last(&self) -> Option<(Self, &str)> {
        let (last, parent) = self.0.split_last()?;
        Some((Self(parent.to_vec()), last))
    }

    /// The first tokens.
    pub(crate) fn first(&self, len: usize) -> Self {
        Self(self.0[..len].to_vec())
    }

    /// Whether the place is strictly inside another.
    pub(super) fn is_inside(&self, other: &Self) -> bool {
        self.0.len() > other.0.len() && self.0.starts_with(&other.0)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|token| write!(f, "/{}", token.replace('~', "~0").replace('/', "~1")))
    }
}
