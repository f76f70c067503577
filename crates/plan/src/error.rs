//! The crate's one error: a stable code, and what, why and fix for a person.
//!
//! This crate stands alone (it also runs in a browser), so it carries its own small error type with
//! the same members as every other error of the product.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// A stable code with the advice that always holds for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// Stable name: lower snake case, documented in `docs/errors/<name>.md`.
    pub name: &'static str,
    /// Exit status of a command that this error ends: 2 unreadable input, 3 refused, 8 conflict.
    pub exit_status: u8,
    /// What the reader can do about it.
    pub fix: &'static str,
}

impl Code {
    pub(crate) const fn new(name: &'static str, exit_status: u8, fix: &'static str) -> Self {
        Self { name, exit_status, fix }
    }
}

/// Why a plan could not be read, checked, rendered or stepped.
///
/// ```
/// let error = glasshouse_plan::parse("[1,", &Default::default()).unwrap_err();
/// assert_eq!(error.code(), "plan_json_invalid");
/// assert_eq!(error.exit_status(), 2);
/// ```
#[derive(Debug, Clone)]
pub struct Error(Box<Content>);

#[derive(Debug, Clone)]
struct Content {
    code: Code,
    what: String,
    why: String,
    pointer: String,
    context: BTreeMap<&'static str, Value>,
}

impl Error {
    pub(crate) fn new(code: Code, what: impl Into<String>) -> Self {
        Self(Box::new(Content {
            code,
            what: what.into(),
            why: String::new(),
            pointer: String::new(),
            context: BTreeMap::new(),
        }))
    }

    pub(crate) fn why(mut self, why: impl fmt::Display) -> Self {
        self.0.why = why.to_string();
        self
    }

    pub(crate) fn at(mut self, pointer: impl Into<String>) -> Self {
        self.0.pointer = pointer.into();
        self
    }

    pub(crate) fn with(mut self, key: &'static str, value: impl Into<Value>) -> Self {
        self.0.context.insert(key, value.into());
        self
    }

    /// The same of a root that nobody wrote: it has a maker, and no lines that anybody could look at.
    pub(crate) fn made_by(mut self, maker: &str) -> Self {
        self.0.what = format!("what {maker} made is refused: {}", self.0.what);
        self.0.context.retain(|key, _| !["line", "column"].contains(key));
        self
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.0.code.name
    }

    /// Whether the error has this code.
    #[must_use]
    pub fn is(&self, code: Code) -> bool {
        self.0.code == code
    }

    /// Exit status of a command that this error ends.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        self.0.code.exit_status
    }

    /// JSON Pointer of the place in the plan; empty for the whole document.
    #[must_use]
    pub fn pointer(&self) -> &str {
        &self.0.pointer
    }

    /// What, why and fix in the serialised form that every error of the product has.
    #[must_use]
    pub fn report(&self) -> ErrorReport {
        let content = &self.0;
        let mut context: BTreeMap<String, Value> =
            content.context.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        if !content.pointer.is_empty() {
            context.insert("pointer".to_owned(), content.pointer.clone().into());
        }
        ErrorReport {
            code: content.code.name,
            what: content.what.clone(),
            why: content.why.clone(),
            fix: content.code.fix.to_owned(),
            retryable: false,
            context,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.code.name, self.0.what)?;
        if self.0.why.is_empty() { Ok(()) } else { write!(f, " ({})", self.0.why) }
    }
}

impl std::error::Error for Error {}

/// The serialised form of an [`Error`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ErrorReport {
    /// Stable code.
    pub code: &'static str,
    /// What could not be done.
    pub what: String,
    /// Why.
    pub why: String,
    /// What to do about it.
    pub fix: String,
    /// Always false: the same plan gives the same answer.
    pub retryable: bool,
    /// Machine-readable facts; a refused plan carries its `issues` here.
    pub context: BTreeMap<String, Value>,
}
