//! Tests of the kernel's pure half: what follows from an event, what a state wants next.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failed step of a test is a failed test; skips are told on stderr"
)]

mod access;
mod context;
mod plans;
mod simulation;
mod turns;
mod workflow;
