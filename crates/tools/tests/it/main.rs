//! Integration tests of the tools crate, one module per subject.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod arguments;
mod documents;
mod masking;
mod model_text;
mod read_tools;
mod schemas;
