//! Integration tests: the crate as its callers see it.
#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod approvals;
mod attacks;
mod consent;
mod differential;
mod documents;
mod explaining;
mod extension;
mod granted;
mod grants;
mod learning;
mod linting;
mod load_advice;
mod load_errors;
mod names;
mod odd_words;
mod random;
mod schema;
mod shipped;
mod spellings;
mod standing;
mod suites;
mod support;
mod targets;
mod yaml_errors;
