//! What the kernel needs of whatever confines commands.
//!
//! The native backend is [`SandboxHost`]. Another one offers these two traits and nothing else: the kernel decides,
//! records and seals the same way whoever confines. Whoever runs entry functions of this very program (code of plans
//! and policies, [`Sandbox::enter`]) needs the native one by its type, and so does the doctor, which attacks it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use serde_json::Value;

use crate::egress::Egress;
use crate::{
    Cancel, Command, Level, Live, Result, RunResult, Sandbox, SandboxHost, SandboxSpec, Stream,
};

/// Makes confined places.
pub trait Backend: Send + Sync {
    /// Makes one and waits until it is confined as far as it will be. With `egress` its commands reach what the
    /// gate lets through, and nothing else; without it nobody.
    ///
    /// # Errors
    /// `sandbox_spec_invalid`, `sandbox_mount_refused`, `isolation_unavailable`, `sandbox_lost`,
    /// `sandbox_system`. Nothing is left behind, and nothing runs with less than is told.
    fn create(&self, spec: &SandboxSpec, egress: Option<Egress>) -> Result<Box<dyn Confined>>;

    /// Tells what an examination of this machine found: no place made from now on claims more.
    fn set_examined(&self, level: Option<Level>);

    /// Another one like it, when this one was lost.
    ///
    /// # Errors
    /// When it does not start.
    fn again(&self) -> Result<Arc<dyn Backend>>;
}

/// A confined place with a workspace, in which commands and file operations follow one another.
pub trait Confined: Send + Sync {
    /// What it proved to be, as events are stamped with it: `NAME:LEVEL`, the level one of [`Level`].
    fn isolation(&self) -> String;

    /// The facts behind it, for whoever reads the log.
    fn attested(&self) -> Value;

    /// The root of the workspace exactly as commands see it: what the kernel reads beneath it, resolving links
    /// itself, is what they read.
    fn root(&self) -> BorrowedFd<'_>;

    /// Runs a command to its end, as [`Sandbox::run_live`] does: output waits for `sink`, orders pause and resume,
    /// what it used is told, and no process and no connection of it is left.
    ///
    /// # Errors
    /// `sandbox_command_invalid`, `sandbox_lost`.
    fn run_live(
        &self,
        command: &Command,
        live: Live<'_>,
        sink: &mut dyn FnMut(Stream, &[u8]),
        cancel: &Cancel,
    ) -> Result<RunResult>;

    /// Creates or replaces a file in a directory that was opened beneath [`Confined::root`], as the commands' user.
    ///
    /// # Errors
    /// `sandbox_file_failed`, `sandbox_lost`.
    fn write_file(&self, parent: BorrowedFd<'_>, name: &str, bytes: &[u8], mode: u32)
    -> Result<()>;

    /// Makes a directory there.
    ///
    /// # Errors
    /// `sandbox_file_failed`, `sandbox_lost`.
    fn make_dir(&self, parent: BorrowedFd<'_>, name: &str, mode: u32) -> Result<()>;

    /// Ends everything in it and leaves nothing but the workspace's layers. Dropping it does the same.
    ///
    /// # Errors
    /// `sandbox_lost` when it had ended before.
    fn destroy(self: Box<Self>) -> Result<()>;
}

impl Backend for SandboxHost {
    fn create(&self, spec: &SandboxSpec, egress: Option<Egress>) -> Result<Box<dyn Confined>> {
        let made = match egress {
            Some(egress) => self.create_with_egress(spec, egress),
            None => Self::create(self, spec),
        };
        Ok(Box::new(made?))
    }

    fn set_examined(&self, level: Option<Level>) {
        Self::set_examined(self, level);
    }

    fn again(&self) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(Self::start(self.config().clone())?))
    }
}

impl Confined for Sandbox {
    fn isolation(&self) -> String {
        self.attestation().to_string()
    }

    fn attested(&self) -> Value {
        serde_json::to_value(self.attestation()).unwrap_or_default()
    }

    fn root(&self) -> BorrowedFd<'_> {
        Self::root(self)
    }

    fn run_live(
        &self,
        command: &Command,
        live: Live<'_>,
        sink: &mut dyn FnMut(Stream, &[u8]),
        cancel: &Cancel,
    ) -> Result<RunResult> {
        Self::run_live(self, command, live, sink, cancel)
    }

    fn write_file(
        &self,
        parent: BorrowedFd<'_>,
        name: &str,
        bytes: &[u8],
        mode: u32,
    ) -> Result<()> {
        Self::write_file(self, parent, name, bytes, mode)
    }

    fn make_dir(&self, parent: BorrowedFd<'_>, name: &str, mode: u32) -> Result<()> {
        Self::make_dir(self, parent, name, mode)
    }

    fn destroy(self: Box<Self>) -> Result<()> {
        Self::destroy(*self)
    }
}
