//! Integration tests of code in plans: one binary, one module per subject.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod chromium;
mod conformance;
mod escapes;
#[path = "../../../../tests/support/headless.rs"]
mod headless;
mod limits;
mod node;
mod renders;
mod sink;
#[path = "../../../../tests/support/skips.rs"]
mod skips;
mod support;
