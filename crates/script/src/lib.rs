//! Code of plans: TypeScript and JSX become JavaScript, JavaScript runs where it cannot hurt, and
//! what comes back is data.
//!
//! The seams:
//!
//! - [`compile`] is pure: a text in, a [`Module`] or its faults by line and column out. It reads no
//!   file, loads no module and evaluates nothing. The checks it makes on the tree are a gate that
//!   helps authors; they are no boundary.
//! - Whether a plan may carry code at all, and which lane runs it, is not decided here: profiles are
//!   the plan crate's, the choice of a lane is the kernel's, decisions are the policy's. This crate
//!   offers one lane, a process of its own in a sandbox.
//! - What code returns is JSON. The caller treats it as it treats a model's: the same parser,
//!   checker and renderer.

#![forbid(unsafe_code)]

pub mod codes;
pub mod compile;
pub mod error;

mod cache;
mod vendor;

pub use cache::Compiler;
pub use compile::{COMPILER, Diagnostic, Language, Module, Runtime, Source, carried, compile};
pub use error::{Error, Result};
