//! Integration tests of code in plans: one binary, one module per subject.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod chromium;
mod conformance;
mod escapes;
mod limits;
mod node;
mod renders;
mod support;
