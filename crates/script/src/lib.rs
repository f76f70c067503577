//! Code of plans: TypeScript and JSX become JavaScript, JavaScript runs where it cannot hurt, and
//! what comes back is data.
//!
//! The seams:
//!
//! - [`compile()`] is pure: a text in, a [`Module`] or its faults by line and column out. It reads no
//!   file, loads no module and evaluates nothing. The checks it makes on the tree are a gate that
//!   helps authors; they are no boundary, and what a plan brings is compiled by a worker.
//! - A [`Worker`] is a sandbox for the code of one plan. It compiles, in one process, and runs, in
//!   another, where no text can become code; it answers data and a [`Receipt`].
//! - A [`Library`] has the modules that a source imports; [`Worker::graph`] finds and compiles all of
//!   them before anything runs. The crate fetches nothing.
//! - Whether a plan may carry code at all, and which lane runs it, is not decided here: profiles are
//!   the plan crate's, the choice of a lane is the kernel's, decisions are the policy's. This crate
//!   offers one lane, a process of its own in a sandbox.
//! - What code returns is JSON. The caller treats it as it treats a model's: the same parser,
//!   checker and renderer.

#![deny(unsafe_code)]

pub mod codes;
pub mod compile;
pub mod error;
pub mod graph;
pub mod worker;

mod bundle;
mod cache;
mod engine;
mod html;
mod integrity;
mod output;
mod vendor;
mod wire;

pub use bundle::NODE_JS;
pub use compile::{
    COMPILER, Diagnostic, Kind, Language, Module, Runtime, Source, Stores, carried, compile,
};
pub use engine::{DEFAULT_EXPORT, ENGINE, ENTRY};
pub use error::{Error, Result};
pub use graph::{Finding, Found, Graph, GraphLimits, Library};
pub use integrity::Integrity;
pub use vendor::is_carried;
pub use wire::{Limit, Makes};
pub use worker::{Engine, Limits, Program, Ran, Receipt, Task, Worker, no_export};
