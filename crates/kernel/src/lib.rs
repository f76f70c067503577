//! The kernel: sessions, turns, the workflow, review and merge. It composes the other crates.
//!
//! Two halves, kept apart on purpose:
//!
//! - **What should happen** is pure: [`session::State`] is a fold over events,
//!   [`session::consequences`] are the events that an event implies, [`session::next`] are the
//!   effects that a state wants. No clock, no randomness, no I/O, so a log can be replayed.
//! - **Making it happen** is the [driver]: it runs effects, turns results into events, and appends
//!   them (with their consequences, in one transaction) before anything that depends on them.
#![forbid(unsafe_code)]

pub mod classify;
pub mod codes;
pub mod config;
pub mod coverage;
pub mod driver;
pub mod error;
pub mod extension;
mod functions;
pub mod merge;
pub mod plans;
pub mod session;

/// Functions of the program that sandboxes run; whoever starts [`glasshouse_sandbox::host::main`] for
/// this kernel hands them to it.
pub static ENTRIES: [glasshouse_sandbox::Entry; 1] = [glasshouse_script::ENTRY];

pub use config::Config;
pub use driver::{
    Answer, Cancel, Elsewhere, Kernel, NewSession, NoReviewer, Notice, Observer, ReviewItem,
    Reviewer, Session, TurnReport, Wider,
};
pub use error::{Error, Result};
