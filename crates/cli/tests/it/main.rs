//! End-to-end tests: they drive the built program as a user would.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failed step of a test is a failed test; skips are told on stderr"
)]

mod asked;
mod attacks;
mod audit;
mod backends;
mod branches;
mod by_hand;
mod cancel;
mod carried_on;
mod cases;
mod code;
mod commands;
mod components;
mod constraints;
mod crash;
mod debts;
mod demo;
mod diagnostics;
mod egress;
mod endings;
mod examined;
mod exemptions;
mod extension;
mod grounds;
mod harness;
mod hooks;
mod imports;
mod inputs;
mod instants;
mod keepings;
mod leftovers;
mod levels;
mod listings;
mod live;
mod merges;
mod merging;
mod models;
mod modes;
mod modules;
mod odd_files;
mod paths;
mod people;
mod pins;
mod plans;
mod policy;
mod policy_past;
mod policy_tools;
mod python;
mod remarks;
mod replay;
mod repositories;
mod reviews;
#[path = "../../../../tests/support/skips.rs"]
mod skips;
mod taint;
mod time_limits;
mod told;
