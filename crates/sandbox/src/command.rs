//! One command in a live sandbox: what to run, how it ended, how to stop it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use glasshouse_model::CanonicalPath;
use rustix::event::{EventfdFlags, eventfd};
use serde::{Deserialize, Serialize};

use crate::{Error, Result, codes};

/// A command. No shell is involved unless `argv` names one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments; a program without `/` is looked up in the command's `PATH`.
    pub argv: Vec<String>,
    /// Environment on top of the sandbox's.
    pub env: Vec<(String, String)>,
    /// Working directory inside the workspace.
    pub cwd: CanonicalPath,
    /// Everything the command can read from standard input.
    pub stdin: Vec<u8>,
    /// Longest run; 0 means the template's limit, which also bounds any larger value.
    pub timeout_ms: u64,
    /// Longest time that it may stand still by [`Order::Pause`](crate::Order::Pause), each time: a
    /// command that nobody resumes holds its memory. 0 means [`Command::PAUSE_LIMIT_MS`], which
    /// also bounds any larger value.
    pub pause_limit_ms: u64,
    /// Most bytes of both streams together; one more ends the command.
    pub output_limit_bytes: u64,
}

impl Command {
    /// Default of [`Command::output_limit_bytes`]: room for a verbose build.
    pub const OUTPUT_LIMIT_BYTES: u64 = 64 << 20;

    /// Longest pause: a break, not a night.
    pub const PAUSE_LIMIT_MS: u64 = 3_600_000;

    /// A command in the workspace root with no input and the template's time.
    pub fn new<T: Into<String>>(argv: impl IntoIterator<Item = T>) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            env: Vec::new(),
            cwd: CanonicalPath::root(),
            stdin: Vec::new(),
            timeout_ms: 0,
            pause_limit_ms: 0,
            output_limit_bytes: Self::OUTPUT_LIMIT_BYTES,
        }
    }
}

/// Which stream bytes came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A limit that a command reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Processes and threads.
    Pids,
    /// Memory: the kernel killed a process.
    Memory,
    /// Bytes on disk.
    Disk,
    /// Output bytes.
    Output,
}

/// How a command ended. Whatever the answer, none of its processes is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// By itself, with this code. 127: no such program; 126: it cannot be executed.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// Stopped at its time limit.
    TimedOut,
    /// Stopped by [`Cancel`].
    Cancelled,
    /// It hit this limit, even if it then ended by itself.
    LimitExceeded(Limit),
}

/// What a command consumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time of all its processes.
    pub cpu_us: u64,
    /// Peak memory of the sandbox while it ran; without cgroups of its largest process.
    pub memory_peak_bytes: u64,
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunResult {
    /// How it ended.
    pub status: Status,
    /// Bytes it wrote to standard output.
    pub stdout_bytes: u64,
    /// Bytes it wrote to standard error.
    pub stderr_bytes: u64,
    /// Processes that outlived the command and were killed.
    pub background_processes: u32,
    /// Consumption.
    pub usage: Usage,
    /// From start to end, measured inside.
    pub duration_us: u64,
    /// How much of it every process stood still, by order.
    pub paused_us: u64,
}

/// Stops a running command from another thread. Clones share one flag, which stays set.
#[derive(Debug, Clone)]
pub struct Cancel(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    set: AtomicBool,
    wake: OwnedFd,
}

impl Cancel {
    /// A flag that is not set.
    ///
    /// # Errors
    /// `sandbox_system` when no descriptor is left.
    pub fn new() -> Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| Error::new(codes::SYSTEM, "cannot make a cancel flag").why(errno))?;
        Ok(Self(Arc::new(Inner { set: AtomicBool::new(false), wake })))
    }

    /// Sets the flag and wakes every waiter.
    pub fn cancel(&self) {
        self.0.set.store(true, Ordering::Release);
        // An eventfd write fails only when the counter is full, and then it is readable already.
        let _ = rustix::io::write(&self.0.wake, &1u64.to_ne_bytes());
    }

    /// Whether the flag is set.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.set.load(Ordering::Acquire)
    }
}

impl AsFd for Cancel {
    /// Readable from the moment the flag is set.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }
}
