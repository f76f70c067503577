//! The server, as other programs meet it: the built program on loopback, and a client on a socket.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    dead_code,
    reason = "a failed step of a test is a failed test; the harness is shared with other tests"
)]

mod access;
mod answers;
mod audit;
mod chat;
mod client;
mod endings;
mod faults;
mod frame;
mod fuzz;
mod grounds;
#[path = "../it/harness.rs"]
mod harness;
#[path = "../../../../tests/support/headless.rs"]
mod headless;
mod identity;
mod insight;
mod limits;
mod lists;
mod load;
mod network;
mod operations;
mod pages;
mod people;
mod plans;
mod policies;
mod quotas;
mod repeats;
mod sdk;
mod sessions;
#[path = "../../../../tests/support/skips.rs"]
mod skips;
mod steering;
mod strangers;
mod streams;
mod views;
mod world;
