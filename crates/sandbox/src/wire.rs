//! Messages between the process that owns sandboxes, the host process, and a sandbox's first
//! process.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::CallList;
use crate::attest::Attestation;
use crate::command::Status;
use crate::live::Window;
use crate::spec::{OverlayDirs, ReadOnlyMount, WritableMount};
use crate::template::Template;

/// Name of the protocol in the handshake.
pub(crate) const SERVICE: &str = "sandbox";
/// Version of the protocol in the handshake.
pub(crate) const PROTOCOL: u32 = 1;

/// To the host process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToHost {
    /// First message: where to work.
    Start { run_dir: PathBuf },
    /// Make a sandbox; its socket is the one descriptor.
    Create(Box<Order>),
    /// The sandbox's first process ended: collect it and remove its groups.
    Reap { ticket: u64 },
}

/// What the host process makes a sandbox from.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Names this sandbox to the host process; never used twice, unlike ids.
    pub(crate) ticket: u64,
    pub(crate) id: String,
    pub(crate) template: Template,
    pub(crate) root: Option<PathBuf>,
    pub(crate) calls: Option<CallList>,
    pub(crate) overlay: Option<OverlayDirs>,
    pub(crate) mounts: Vec<ReadOnlyMount>,
    pub(crate) caches: Vec<WritableMount>,
    /// Whether a socket for the egress proxy is to be made.
    pub(crate) proxied: bool,
}

/// From the host process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromHost {
    /// Ready to work, or the sandbox is collected.
    Done,
    /// The sandbox's first process started; its pidfd is the one descriptor.
    Created,
    /// It did not work.
    Failed(Failure),
}

/// A failed step, plain enough to cross a socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// What was attempted.
    pub(crate) step: String,
    /// Operating system error; 0 when it was not a system call that failed.
    pub(crate) errno: i32,
}

impl Failure {
    pub(crate) fn new(step: impl Into<String>) -> Self {
        Self { step: step.into(), errno: 0 }
    }

    /// The process that should have done it was killed by somebody else; another one may live.
    pub(crate) fn killed(step: &str) -> Self {
        Self { step: step.to_owned(), errno: libc::ESRCH }
    }
}

/// Attaches the attempted step to a system call's result.
pub(crate) trait Context<T> {
    fn step(self, step: impl FnOnce() -> String) -> Result<T, Failure>;
    fn during(self, step: &str) -> Result<T, Failure>
    where
        Self: Sized,
    {
        self.step(|| step.to_owned())
    }
}

impl<T> Context<T> for Result<T, rustix::io::Errno> {
    fn step(self, step: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|errno| Failure { step: step(), errno: errno.raw_os_error() })
    }
}

impl<T> Context<T> for std::io::Result<T> {
    fn step(self, step: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure { step: step(), errno: error.raw_os_error().unwrap_or(0) })
    }
}

/// To a sandbox's first process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToInit {
    /// Run a command; descriptors: standard input, output, error, or none for a terminal.
    Run(Launch),
    /// Run an entry function of the program; descriptors: standard input, output, error.
    Enter { entry: String, timeout_ms: u64 },
    /// Stop the running command; ignored when none runs.
    Stop(Stop),
    /// Stop every process of the running command, after a warning.
    Pause,
    /// Let them go on.
    Resume,
    /// Replace a file in the directory that is the first descriptor by the bytes of the second.
    Write { name: String, mode: u32 },
    /// Remove a file from the directory that is the descriptor.
    Remove { name: String },
    /// Make a directory in the directory that is the descriptor.
    MakeDir { name: String, mode: u32 },
}

/// A command as the first process needs it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Launch {
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: String,
    pub(crate) timeout_ms: u64,
    pub(crate) pause_limit_ms: u64,
    /// Size of the terminal that its standard streams are; without one they are the descriptors.
    pub(crate) terminal: Option<Window>,
}

/// How long the processes of a command have to come to a safe point before they are stopped.
pub(crate) const PAUSE_WARNING: Duration = Duration::from_secs(1);

/// Why a running command is stopped from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stop {
    /// Cancelled.
    Cancelled,
    /// Too much output.
    Output,
    /// Too much written to the workspace.
    Disk,
}

/// From a sandbox's first process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum FromInit {
    /// Confined; descriptors: the workspace root, and the listening socket of a proxied sandbox.
    Ready(Box<Attestation>),
    /// The terminal of the command that starts; its other side is the descriptor.
    Terminal,
    /// A command ended and nothing of it is left.
    Ended(Ended),
    /// A file operation is done.
    Done,
    /// It did not work.
    Failed(Failure),
}

/// The end of a command.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) status: Status,
    pub(crate) background_processes: u32,
    pub(crate) cpu_us: u64,
    pub(crate) memory_peak_bytes: u64,
    pub(crate) duration_us: u64,
    pub(crate) paused_us: u64,
}
