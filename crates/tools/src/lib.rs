//! Tools: what a model may ask for, and what it gets to see of the answer.
//!
//! A request passes here three times. [`parse_arguments`] turns the model's text into typed
//! [`Arguments`] or refuses it; nothing is guessed and nothing is filled in. After policy has
//! decided, [`read_tool`] answers the read-only tools in process and [`edit_text`] computes an
//! edit; everything that writes or runs goes to the sandbox and is not done here. Last,
//! [`sanitise`] masks secrets out of the result before anything stores it, and makes the text that
//! the model reads.
//!
//! Nothing here decides permission and nothing here opens a path: files are reached only through
//! [`glasshouse_sandbox::view`].
#![forbid(unsafe_code)]

mod access;
mod arguments;
pub mod codes;
mod edit;
mod error;
mod fetch;
mod read;
mod registry;
pub mod sanitise;

pub use access::{Access, Reach};
pub use arguments::{
    Arguments, MAX_ARGUMENTS_BYTES, MAX_PATTERN_CHARS, MAX_TIMEOUT_MS, REPLACED, parse_arguments,
};
pub use edit::{MAX_EDIT_RESULT_BYTES, edit_text};
pub use error::{Error, Result};
pub use fetch::{FetchLimits, MAX_PAGE_BYTES, Page, Url, fetch, fetch_within};
pub use read::{
    MAX_FILE_BYTES, MAX_GREP_MATCHES, MAX_GREP_TOTAL_BYTES, MAX_LINE_BYTES, MAX_LIST_ENTRIES,
    MAX_OUTPUT_BYTES, Output, Permit, read_tool,
};
pub use registry::{Registry, Tool, ToolSpec};
