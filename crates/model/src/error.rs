//! Errors: one shape for programs (code), people (what, why, fix) and retry loops (retryable).
//!
//! Each crate has one opaque public error made by [`define_error!`](crate::define_error), and one
//! `codes` module that lists every [`Code`] it can answer. Every code has a page in `docs/errors/`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Process exit status that an error leads to. The numbers are a contract with scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// A fault of ours.
    Internal = 1,
    /// Usage or unreadable input.
    Usage = 2,
    /// Denied or refused by policy or profile.
    Denied = 3,
    /// Needs an approval and nobody is there to give it.
    NeedsApproval = 4,
    /// A verification found a mismatch.
    Mismatch = 5,
    /// The task or scenario was not finished.
    Unfinished = 6,
    /// Isolation is not available here.
    NoIsolation = 7,
    /// Conflict, stale input, or owned by another process.
    Conflict = 8,
    /// Storage is full, corrupt, or a sync failed.
    Storage = 9,
    /// Not found.
    NotFound = 10,
    /// `sandbox run` only: the command timed out.
    SandboxTimedOut = 124,
    /// `sandbox run` only: Glasshouse itself failed.
    SandboxFailed = 125,
    /// Cancelled by the user.
    Cancelled = 130,
}

impl Exit {
    /// The process exit status.
    #[must_use]
    pub const fn status(self) -> u8 {
        self as u8
    }
}

/// A stable error code with what never changes about it.
///
/// ```
/// use glasshouse_model::{Code, Exit};
/// const FULL: Code = Code::new("storage_full", Exit::Storage, true, "free disk space, then retry");
/// assert_eq!(FULL.name, "storage_full");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// Stable name: lower snake case.
    pub name: &'static str,
    /// Exit status a command ends with when this error ends it.
    pub exit: Exit,
    /// Whether the same request may succeed later without being changed.
    pub retryable: bool,
    /// What the reader can do about it; a [`Fault`] may carry a more precise one.
    pub fix: &'static str,
}

impl Code {
    /// Makes a code; used only for constants in a crate's `codes` module.
    #[must_use]
    pub const fn new(name: &'static str, exit: Exit, retryable: bool, fix: &'static str) -> Self {
        Self { name, exit, retryable, fix }
    }
}

/// The content of every error: what happened, why, what to do, and machine-readable context.
#[derive(Debug, Clone)]
pub struct Fault {
    code: Code,
    what: String,
    why: String,
    fix: Option<String>,
    context: BTreeMap<String, Value>,
}

impl Fault {
    /// Starts a fault: `what` names the thing that could not be done.
    #[must_use]
    pub fn new(code: Code, what: impl Into<String>) -> Self {
        Self { code, what: what.into(), why: String::new(), fix: None, context: BTreeMap::new() }
    }

    /// Adds the reason.
    #[must_use]
    pub fn why(mut self, why: impl fmt::Display) -> Self {
        self.why = why.to_string();
        self
    }

    /// Replaces the code's general advice by a more precise one.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Adds one machine-readable fact.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.context.insert(key.to_owned(), value.into());
        self
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// The shape that JSON output and HTTP problems carry.
    #[must_use]
    pub fn report(&self) -> Report {
        Report {
            code: self.code.name.to_owned(),
            what: self.what.clone(),
            why: self.why.clone(),
            fix: self.fix.clone().unwrap_or_else(|| self.code.fix.to_owned()),
            retryable: self.code.retryable,
            context: self.context.clone(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name, self.what)?;
        if !self.why.is_empty() {
            write!(f, " ({})", self.why)?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}

/// The serialised form of an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Stable code.
    pub code: String,
    /// What could not be done.
    pub what: String,
    /// Why.
    pub why: String,
    /// What to do about it.
    pub fix: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Machine-readable facts.
    pub context: BTreeMap<String, Value>,
}

/// Defines a crate's one public error: opaque, one word wide, convertible to a [`Fault`].
///
/// ```
/// mod codes {
///     use glasshouse_model::{Code, Exit};
///     pub const GONE: Code = Code::new("gone", Exit::NotFound, false, "check the id");
/// }
/// glasshouse_model::define_error!(
///     /// Why a lookup failed.
///     pub Error
/// );
/// let e = Error::new(codes::GONE, "no such thing").why("it was deleted").with("id", 7);
/// assert_eq!(e.code(), "gone");
/// assert!(!e.is_retryable());
/// assert_eq!(e.report().context["id"], 7);
/// ```
#[macro_export]
macro_rules! define_error {
    ($(#[$doc:meta])* pub $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name(Box<$crate::Fault>);

        impl $name {
            /// Starts an error: `what` names the thing that could not be done.
            #[must_use]
            pub fn new(code: $crate::Code, what: impl Into<String>) -> Self {
                Self(Box::new($crate::Fault::new(code, what)))
            }
            /// Adds the reason.
            #[must_use]
            pub fn why(self, why: impl std::fmt::Display) -> Self {
                Self(Box::new(self.0.why(why)))
            }
            /// Replaces the code's general advice by a more precise one.
            #[must_use]
            pub fn fix(self, fix: impl Into<String>) -> Self {
                Self(Box::new(self.0.fix(fix)))
            }
            /// Adds one machine-readable fact.
            #[must_use]
            pub fn with(self, key: &str, value: impl Into<$crate::error::ContextValue>) -> Self {
                Self(Box::new(self.0.with(key, value)))
            }
            /// The stable code.
            #[must_use]
            pub fn code(&self) -> &'static str {
                self.0.code().name
            }
            /// Whether the error has this code.
            #[must_use]
            pub fn is(&self, code: $crate::Code) -> bool {
                self.0.code().name == code.name
            }
            /// Whether the same request may succeed later.
            #[must_use]
            pub fn is_retryable(&self) -> bool {
                self.0.code().retryable
            }
            /// The exit status of a command that this error ends.
            #[must_use]
            pub fn exit(&self) -> $crate::Exit {
                self.0.code().exit
            }
            /// What, why, fix and context, serialisable.
            #[must_use]
            pub fn report(&self) -> $crate::Report {
                self.0.report()
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
        impl std::error::Error for $name {}
        impl From<$name> for $crate::Fault {
            fn from(error: $name) -> Self {
                *error.0
            }
        }
        impl From<$crate::Fault> for $name {
            fn from(fault: $crate::Fault) -> Self {
                Self(Box::new(fault))
            }
        }
    };
}

/// Makes a crate's error of the errors of crates below it; the fault stays as it is.
///
/// ```
/// # mod below { glasshouse_model::define_error!(/// Below.
/// pub Error); }
/// glasshouse_model::define_error!(
///     /// Above.
///     pub Error
/// );
/// glasshouse_model::convert_errors!(Error: below::Error);
/// ```
#[macro_export]
macro_rules! convert_errors {
    ($into:ident: $($from:path),+ $(,)?) => {$(
        impl From<$from> for $into {
            fn from(error: $from) -> Self {
                $crate::Fault::from(error).into()
            }
        }
    )+};
}

/// What an error's context may hold; named here so that the macro needs no path into `serde_json`.
pub type ContextValue = Value;
