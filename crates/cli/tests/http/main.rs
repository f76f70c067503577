//! The server, as other programs meet it: the built program on loopback, and a client on a socket.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    dead_code,
    reason = "a failed step of a test is a failed test; the harness is shared with other tests"
)]

mod chat;
mod client;
mod frame;
mod fuzz;
#[path = "../it/harness.rs"]
mod harness;
mod insight;
mod load;
mod operations;
mod pages;
mod people;
mod repeats;
mod sessions;
mod streams;
mod views;
