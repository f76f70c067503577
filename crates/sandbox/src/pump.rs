//! What runs between a command and its owner: output to a sink, input to a terminal, orders, limits.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{Winsize, tcsetwinsize};

use crate::command::{Cancel, Limit, RunResult, Status, Stream, Usage};
use crate::disk::DiskWatch;
use crate::live::{Order, Orders, Window};
use crate::owner::{Half, explain, lost};
use crate::sandbox::{invalid, system};
use crate::wire::{Ended, FromInit, PAUSE_WARNING, Stop, ToInit};
use crate::{Error, Result, codes};

/// How much later than a command's own limit its end is taken for granted no more, and the whole
/// sandbox is killed from outside.
const GRACE: Duration = Duration::from_secs(1);

/// How long a command that was told to end may take before the whole sandbox is killed from outside.
const END_LIMIT: Duration = Duration::from_secs(10);

/// What is read from a pipe at once: its default capacity.
const CHUNK_BYTES: usize = 64 << 10;

/// What is taken of a terminal's input at once.
const INPUT_BYTES: usize = 4 << 10;

/// The character that ends a terminal's input.
const END_OF_INPUT: u8 = 4;

const STREAMS: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

/// The owner's side of a command's terminal.
pub(crate) struct Terminal {
    /// The same terminal as the first of the pipes; writing never waits.
    pub(crate) master: File,
    pub(crate) input: Option<File>,
    /// Read, not yet written.
    pub(crate) pending: Vec<u8>,
}

impl Terminal {
    pub(crate) fn resize(&self, window: Window) -> Result<()> {
        let size =
            Winsize { ws_row: window.rows, ws_col: window.columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.master, size).map_err(|errno| system("resize a terminal", &errno.into()))
    }

    /// Takes input; its end is typed, as a person would.
    fn read(&mut self) -> Result<()> {
        let Some(input) = &mut self.input else { return Ok(()) };
        let mut piece = [0; INPUT_BYTES];
        match input.read(&mut piece) {
            Ok(0) => {
                self.pending.push(END_OF_INPUT);
                self.input = None;
            }
            Ok(read) => self.pending.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(system("read a command's input", &error)),
        }
        Ok(())
    }

    /// Writes what the terminal takes now.
    fn write(&mut self) {
        match self.master.write(&self.pending) {
            Ok(written) => drop(self.pending.drain(..written)),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // Nobody reads it any more.
            Err(_) => {
                self.pending.clear();
                self.input = None;
            }
        }
    }
}

/// Moves what a running command writes and reads until it ends.
pub(crate) struct Pump<'a> {
    half: &'a mut Half,
    pipes: [Option<File>; 2],
    terminal: Option<Terminal>,
    orders: Option<&'a Orders>,
    bytes: [u64; 2],
    bounds: Bounds<'a>,
    /// When the sandbox is killed; while the command stands still the end of its pause counts instead.
    deadline: Instant,
    /// Since when the command was told to stand still.
    paused: Option<Instant>,
    /// Whether the end was asked for already.
    stopped: bool,
    /// Whether the output limit was reached; nothing is read any more.
    full: bool,
    buffer: Vec<u8>,
}

/// What a pump connects.
pub(crate) struct Ends<'a> {
    pub(crate) pipes: [Option<File>; 2],
    pub(crate) terminal: Option<Terminal>,
    pub(crate) orders: Option<&'a Orders>,
}

/// What a command may use.
pub(crate) struct Bounds<'a> {
    pub(crate) output_bytes: u64,
    pub(crate) timeout: Duration,
    pub(crate) pause_limit: Duration,
    pub(crate) disk: &'a mut [DiskWatch],
}

/// What is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    Message,
    Cancelled,
    Ordered,
    Output(usize),
    Input,
    Room,
}

impl<'a> Pump<'a> {
    pub(crate) fn new(half: &'a mut Half, ends: Ends<'a>, bounds: Bounds<'a>) -> Self {
        Self {
            half,
            pipes: ends.pipes,
            terminal: ends.terminal,
            orders: ends.orders,
            bytes: [0, 0],
            deadline: Instant::now() + bounds.timeout + GRACE,
            bounds,
            paused: None,
            stopped: false,
            full: false,
            buffer: vec![0; CHUNK_BYTES],
        }
    }

    pub(crate) fn run(
        mut self,
        sink: &mut dyn FnMut(Stream, &[u8]),
        cancel: &Cancel,
    ) -> Result<RunResult> {
        loop {
            let ready = self.wait(cancel)?;
            for what in &ready {
                match what {
                    Ready::Output(index) => drop(self.pass_on(*index, sink)?),
                    Ready::Cancelled if !self.stopped => self.stop(Stop::Cancelled)?,
                    Ready::Ordered => self.obey()?,
                    Ready::Input => self.terminal.as_mut().map_or(Ok(()), Terminal::read)?,
                    Ready::Room => self.terminal.iter_mut().for_each(Terminal::write),
                    Ready::Cancelled | Ready::Message => {}
                }
            }
            let init = &self.half.pidfd;
            if !self.stopped && self.bounds.disk.iter_mut().any(|watch| watch.exceeded(init)) {
                self.stop(Stop::Disk)?;
            }
            if ready.contains(&Ready::Message) {
                return self.ended(sink);
            }
            if Instant::now() >= self.last_moment() {
                // The limit inside did not hold; the whole sandbox goes.
                self.half.end()?;
                return Err(Error::new(codes::SANDBOX_LOST, "the sandbox did not stop a command")
                    .why("its time limit passed; the sandbox was killed"));
            }
        }
    }

    /// When the first process must have ended the command by itself.
    fn last_moment(&self) -> Instant {
        match self.paused {
            None => self.deadline,
            // The first process warns before it counts.
            Some(since) => since + PAUSE_WARNING + self.bounds.pause_limit + GRACE,
        }
    }

    fn ended(mut self, sink: &mut dyn FnMut(Stream, &[u8])) -> Result<RunResult> {
        let message = self.half.channel.receive().map_err(|error| lost(&error))?;
        match message.map(|received| received.message) {
            Some(FromInit::Ended(mut ended)) => {
                // What was written since the last look counts, too.
                let init = &self.half.pidfd;
                if !self.stopped && self.bounds.disk.iter_mut().any(|watch| watch.exceeds(init)) {
                    ended.status = Status::LimitExceeded(Limit::Disk);
                }
                self.drain(sink)?;
                Ok(self.result(&ended))
            }
            Some(FromInit::Failed(failure)) => Err(match failure.errno {
                libc::EAGAIN | libc::ENOMEM => explain(&failure),
                errno => invalid(
                    &format!("cannot {}", failure.step),
                    &std::io::Error::from_raw_os_error(errno).to_string(),
                ),
            }),
            _ => Err(Error::new(codes::SANDBOX_LOST, "the sandbox ended under a command")),
        }
    }

    fn wait(&self, cancel: &Cancel) -> Result<Vec<Ready>> {
        let mut left = self.last_moment().saturating_duration_since(Instant::now());
        if !self.bounds.disk.is_empty() {
            left = left.min(DiskWatch::INTERVAL);
        }
        let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
        let mut watched = vec![(Ready::Message, PollFd::new(&self.half.channel, PollFlags::IN))];
        if !self.stopped {
            watched.push((Ready::Cancelled, PollFd::new(cancel, PollFlags::IN)));
        }
        if let Some(orders) = self.orders {
            watched.push((Ready::Ordered, PollFd::new(orders, PollFlags::IN)));
        }
        for (index, pipe) in self.pipes.iter().enumerate().filter(|_| !self.full) {
            let read = |pipe| (Ready::Output(index), PollFd::new(pipe, PollFlags::IN));
            watched.extend(pipe.as_ref().map(read));
        }
        if let Some(terminal) = &self.terminal {
            // One thing after the other: what was read is written before more is read.
            match &terminal.input {
                _ if !terminal.pending.is_empty() => {
                    watched.push((Ready::Room, PollFd::new(&terminal.master, PollFlags::OUT)));
                }
                Some(input) => watched.push((Ready::Input, PollFd::new(input, PollFlags::IN))),
                None => {}
            }
        }
        let (kinds, mut fds): (Vec<_>, Vec<_>) = watched.into_iter().unzip();
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(errno) => return Err(system("wait for a command", &errno.into())),
        }
        let ready = kinds.into_iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|(kind, _)| kind).collect())
    }

    fn obey(&mut self) -> Result<()> {
        let Some(orders) = self.orders else { return Ok(()) };
        for order in orders.take() {
            match order {
                Order::Resize(window) => {
                    self.terminal.as_ref().map_or(Ok(()), |terminal| terminal.resize(window))?;
                }
                // What ends does not stand still any more.
                Order::Pause | Order::Resume if self.stopped => {}
                Order::Pause if self.paused.is_none() => {
                    self.paused = Some(Instant::now());
                    self.send(&ToInit::Pause)?;
                }
                Order::Resume => {
                    if let Some(since) = self.paused.take() {
                        self.deadline += since.elapsed();
                        self.send(&ToInit::Resume)?;
                    }
                }
                Order::Pause => {}
            }
        }
        Ok(())
    }

    /// Reads once and passes on what fits the limit; false when there was nothing.
    fn pass_on(&mut self, index: usize, sink: &mut dyn FnMut(Stream, &[u8])) -> Result<bool> {
        let Some(pipe) = &mut self.pipes[index] else { return Ok(false) };
        let read = match pipe.read(&mut self.buffer) {
            Ok(0) => {
                self.pipes[index] = None;
                return Ok(false);
            }
            Ok(read) => read,
            Err(error) => match (error.kind(), error.raw_os_error()) {
                (ErrorKind::Interrupted, _) => return Ok(true),
                (ErrorKind::WouldBlock, _) => return Ok(false),
                // Nobody has the terminal open any more.
                (_, Some(libc::EIO)) if self.terminal.is_some() => {
                    self.pipes[index] = None;
                    return Ok(false);
                }
                _ => return Err(system("read a command's output", &error)),
            },
        };
        let before = self.bytes[0] + self.bytes[1];
        let room = self.bounds.output_bytes.saturating_sub(before);
        let kept = usize::try_from(room).unwrap_or(usize::MAX).min(read);
        if kept > 0 {
            sink(STREAMS[index], &self.buffer[..kept]);
        }
        self.bytes[index] += u64::try_from(read).unwrap_or(u64::MAX);
        self.full |= kept < read;
        if self.full && !self.stopped {
            self.stop(Stop::Output)?;
        }
        Ok(true)
    }

    fn stop(&mut self, why: Stop) -> Result<()> {
        self.stopped = true;
        // Also one that stands still ends now, and its end is waited for like any other.
        self.paused = None;
        self.deadline = self.deadline.min(Instant::now() + END_LIMIT);
        self.send(&ToInit::Stop(why))
    }

    fn send(&mut self, message: &ToInit) -> Result<()> {
        self.half.channel.send(message, &[]).map_err(|error| lost(&error))
    }

    /// Every writer is gone, so what is left in the pipes is finite and ends.
    fn drain(&mut self, sink: &mut dyn FnMut(Stream, &[u8])) -> Result<()> {
        self.stopped = true;
        for index in 0..self.pipes.len() {
            while !self.full && self.pass_on(index, sink)? {}
        }
        Ok(())
    }

    fn result(&self, ended: &Ended) -> RunResult {
        RunResult {
            status: ended.status,
            stdout_bytes: self.bytes[0],
            stderr_bytes: self.bytes[1],
            background_processes: ended.background_processes,
            usage: Usage { cpu_us: ended.cpu_us, memory_peak_bytes: ended.memory_peak_bytes },
            duration_us: ended.duration_us,
            paused_us: ended.paused_us,
        }
    }
}
