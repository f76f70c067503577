//! Isolation: the host process, the native backend, workspaces, toolchains.
//!
//! Nothing here decides permission. The kernel decides, then asks this crate to act.

pub mod attest;
pub mod backend;
pub mod codes;
pub mod command;
pub mod doctor;
pub mod egress;
pub mod entry;
pub mod error;
pub mod host;
pub mod live;
pub mod owner;
pub mod sandbox;
pub mod spec;
pub mod system_calls;
pub mod template;
pub mod toolchain;
pub mod view;
pub mod workspace;

mod disk;
mod leftovers;
mod pump;
mod tree;
mod wire;

pub use attest::{Attestation, CgroupFacts, Level, Privilege};
pub use backend::{Backend, Confined};
pub use command::{Cancel, Command, Limit, RunResult, Status, Stream, Usage};
pub use doctor::{BackendReport, DoctorReport, Examination, Probe, doctor};
pub use entry::{Entry, Task};
pub use error::{Error, Result};
pub use live::{Live, Order, Orders, Window};
pub use owner::{HostConfig, SandboxHost};
pub use sandbox::Sandbox;
pub use spec::{OverlayDirs, ReadOnlyMount, SandboxSpec, WritableMount};
pub use system_calls::CallList;
pub use template::{Network, Profile, Template, TemplateName};
pub use tree::remove_tree;
