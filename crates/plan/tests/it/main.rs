//! Integration tests of the plan crate, one binary.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod attacks;
mod browser;
mod changes;
mod chromium;
mod complaints;
mod conformance;
mod documents;
mod guides;
#[path = "../../../../tests/support/headless.rs"]
mod headless;
mod hostile;
mod made;
mod misspelt;
mod pages;
mod patches;
mod properties;
mod pure;
#[path = "../../../../tests/support/skips.rs"]
mod skips;
mod states;
mod streams;
mod targets;
mod tokens;
mod work;
