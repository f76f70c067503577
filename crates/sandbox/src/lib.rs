//! Isolation: the host process, the native backend, workspaces, toolchains.
//!
//! Nothing here decides permission. The kernel decides, then asks this crate to act.

pub mod codes;
pub mod error;
pub mod toolchain;
pub mod view;
pub mod workspace;

pub use error::Error;
