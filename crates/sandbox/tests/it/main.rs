//! Integration tests of the sandbox: one binary, one module per subject.
//!
//! As root every module of the backend runs twice: `rootless` starts this binary again as an
//! ordinary user.
#![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

mod basics;
mod commands;
mod documented;
mod egress;
mod entries;
mod escapes;
mod examination;
mod files;
mod limits;
mod live;
mod profiles;
mod programs;
mod published;
mod recovery;
mod rootless;
#[path = "../../../../tests/support/skips.rs"]
mod skips;
mod soak;
mod support;
mod view;
mod view_attacks;
mod workspace;
