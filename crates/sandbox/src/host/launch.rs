//! From a request to a running program: everything that can fail early is done before the fork.

use std::ffi::{CStr, CString};
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::ioctl_tiocsctty;

use super::init::open_directory;
use super::seccomp::{self, Filters};
use super::sys::{self, Texts};
use crate::entry::Entry;
use crate::spec::WORKSPACE;
use crate::wire::{Failure, Launch};

/// As shells answer it.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

/// Searched when a command has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// An entry function ready to start.
pub(super) struct Entering {
    pub(super) entry: Entry,
    pub(super) streams: [OwnedFd; 3],
}

impl Entering {
    /// Runs the function in the process just forked and ends with it.
    pub(super) fn run(&self) -> ! {
        sys::default_signals();
        let placed = (0..).zip(&self.streams).try_for_each(|(at, s)| sys::place(s.as_fd(), at));
        let alone = placed.and_then(|()| rustix::process::setsid().map(drop));
        if alone.is_err() {
            sys::exit_now(NOT_EXECUTABLE);
        }
        sys::close_all_but(&mut []);
        if seccomp::confine_entry().is_err() {
            sys::exit_now(NOT_EXECUTABLE);
        }
        let code = (self.entry.run)();
        // The end is at once, so nothing else writes what is still held back.
        let flushed = std::io::stdout().flush();
        sys::exit_now(if flushed.is_ok() { i32::from(code) } else { NOT_EXECUTABLE })
    }
}

/// A command ready to start.
pub(super) struct Prepared {
    argv: Texts,
    env: Texts,
    candidates: Vec<CString>,
    directory: OwnedFd,
    streams: [OwnedFd; 3],
    /// Whether the streams are a terminal, which becomes that of the command's session.
    on_terminal: bool,
}

impl Prepared {
    pub(super) fn new(launch: &Launch, streams: [OwnedFd; 3]) -> Result<Self, Failure> {
        let text = |text: &str| {
            CString::new(text).map_err(|_| Failure::new("pass a text with a NUL byte"))
        };
        let program = launch.argv.first().ok_or_else(|| Failure::new("run an empty command"))?;
        let path = launch.env.iter().rev().find(|(name, _)| name == "PATH");
        let candidates = if program.contains('/') {
            vec![text(program)?]
        } else {
            path.map_or(DEFAULT_PATH, |(_, value)| value.as_str())
                .split(':')
                .filter(|directory| directory.starts_with('/'))
                .map(|directory| text(&format!("{directory}/{program}")))
                .collect::<Result<_, _>>()?
        };
        let env = launch.env.iter().map(|(name, value)| text(&format!("{name}={value}")));
        Ok(Self {
            argv: Texts::new(
                launch.argv.iter().map(|argument| text(argument)).collect::<Result<_, _>>()?,
            ),
            env: Texts::new(env.collect::<Result<_, _>>()?),
            candidates,
            directory: open_directory(&format!("{WORKSPACE}/{}", launch.cwd))?,
            streams,
            on_terminal: launch.terminal.is_some(),
        })
    }

    /// In the new process: becomes the program, or says why not and ends. Its memory is still that
    /// of the first process, so it leaves nothing changed or taken there.
    pub(super) fn become_program(&self, filters: &Filters) -> ! {
        sys::default_signals();
        let placed = (0..).zip(&self.streams).try_for_each(|(at, s)| sys::place(s.as_fd(), at));
        let entered = placed.and_then(|()| rustix::process::fchdir(&self.directory));
        // A session of its own: no terminal of anybody else can be reached or signalled.
        let alone = entered.and_then(|()| rustix::process::setsid()).and_then(|_| {
            let own = self.on_terminal.then(|| ioctl_tiocsctty(&self.streams[0]));
            own.unwrap_or(Ok(()))
        });
        if alone.is_err() || filters.confine_command().is_err() {
            sys::exit_now(NOT_EXECUTABLE);
        }
        debug_assert!(self.directory.as_raw_fd() > 2);
        sys::close_all_but(&mut []);
        let mut reason = Errno::NOENT;
        for candidate in &self.candidates {
            match sys::exec(candidate, &self.argv, &self.env) {
                Errno::NOENT | Errno::NOTDIR => {}
                errno => {
                    reason = errno;
                    break;
                }
            }
        }
        self.explain(reason)
    }

    fn explain(&self, reason: Errno) -> ! {
        // The first process keeps its memory, so all that is allocated here is given back.
        let code = {
            let name = self.argv.first().map(CStr::to_string_lossy).unwrap_or_default();
            let (why, code) = match reason {
                Errno::NOENT => ("not found".to_owned(), NOT_FOUND),
                errno => (format!("cannot execute: {errno}"), NOT_EXECUTABLE),
            };
            let line = format!("glasshouse: {name}: {why}\n");
            // SAFETY: descriptor 2 was placed above and is open.
            let stderr = unsafe { std::os::fd::BorrowedFd::borrow_raw(2) };
            let _ = rustix::io::write(stderr, line.as_bytes());
            code
        };
        sys::exit_now(code)
    }
}
