//! Functions of this program that run inside a sandbox instead of a command.
//!
//! An interpreter in the program needs no file of the sandbox, so it gets none: its process is a copy
//! of the first process that keeps three descriptors and may compute, read and write them, and end.
//! It opens nothing, connects to nothing, starts nothing and makes no memory executable.

use std::sync::OnceLock;

/// A function, and the name by which [`Sandbox::enter`](crate::Sandbox::enter) finds it.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it does: reads standard input, writes standard output, answers an exit code. It runs
    /// on the only thread of its process, and nothing of the owner is in its memory.
    pub run: fn() -> u8,
}

/// One run of an entry function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Name of the function.
    pub entry: String,
    /// Everything that it can read.
    pub input: Vec<u8>,
    /// Longest run; 0 means the template's limit, which also bounds any larger value. It is killed
    /// then, whatever it does.
    pub timeout_ms: u64,
    /// Most bytes that it may write.
    pub output_limit_bytes: u64,
}

static ENTRIES: OnceLock<&'static [Entry]> = OnceLock::new();

/// Makes functions known in this process and those that are cloned from it.
pub(crate) fn register(entries: &'static [Entry]) {
    // The first call of the process is its only one.
    let _ = ENTRIES.set(entries);
}

pub(crate) fn find(name: &str) -> Option<Entry> {
    ENTRIES.get()?.iter().find(|entry| entry.name == name).copied()
}
