//! A command that somebody is at: its input as it comes, its terminal, and orders while it runs.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::event::{EventfdFlags, eventfd};
use rustix::pipe::{PipeFlags, pipe_with};
use serde::{Deserialize, Serialize};

use crate::owner::guard;
use crate::{Error, Result, codes};

/// Size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Lines.
    pub rows: u16,
    /// Characters of a line.
    pub columns: u16,
}

/// What a running command is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Stand still: every process gets SIGTSTP and a second to come to a safe point, then all are
    /// stopped. Its time limit stands still as well, for [`Command::pause_limit_ms`](crate::Command::pause_limit_ms) at most; then
    /// the command ends as timed out.
    Pause,
    /// Go on: every process gets SIGCONT.
    Resume,
    /// Its terminal has another size.
    Resize(Window),
}

/// Gives orders to a running command from other threads. Clones share what waits.
#[derive(Debug, Clone)]
pub struct Orders(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    waiting: Mutex<Waiting>,
    wake: OwnedFd,
}

/// What was not obeyed yet. An order makes an earlier one of its kind void, so however many are given,
/// two wait at most.
#[derive(Debug, Default)]
struct Waiting {
    /// [`Order::Pause`] or [`Order::Resume`].
    standing: Option<Order>,
    window: Option<Window>,
}

impl Orders {
    /// No orders yet.
    ///
    /// # Errors
    /// `sandbox_system` when no descriptor is left.
    pub fn new() -> Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|errno| {
            Error::new(codes::SYSTEM, "cannot make a place for orders").why(errno)
        })?;
        Ok(Self(Arc::new(Inner { waiting: Mutex::default(), wake })))
    }

    /// Gives an order; it takes the place of one of its kind that still waits.
    pub fn give(&self, order: Order) {
        let mut waiting = guard(&self.0.waiting);
        match order {
            Order::Resize(window) => waiting.window = Some(window),
            Order::Pause | Order::Resume => waiting.standing = Some(order),
        }
        drop(waiting);
        // An eventfd write fails only when the counter is full, and then it is readable already.
        let _ = rustix::io::write(&self.0.wake, &1u64.to_ne_bytes());
    }

    /// Whether an order was not taken yet by the command that it is for.
    #[must_use]
    pub fn are_waiting(&self) -> bool {
        let waiting = guard(&self.0.waiting);
        waiting.standing.is_some() || waiting.window.is_some()
    }

    pub(crate) fn take(&self) -> impl Iterator<Item = Order> {
        let mut counter = [0; 8];
        let _ = rustix::io::read(&self.0.wake, &mut counter);
        let Waiting { standing, window } = std::mem::take(&mut *guard(&self.0.waiting));
        window.map(Order::Resize).into_iter().chain(standing)
    }
}

impl AsFd for Orders {
    /// Readable while an order waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.wake.as_fd()
    }
}

/// What a command has while it runs, besides what describes it. The default is nothing.
#[derive(Debug, Default)]
pub struct Live<'a> {
    /// Its standard input as it comes, in place of the command's own: the end of a pipe that
    /// [`input`] made. The descriptor itself is handed in, so nothing else is taken.
    pub input: Option<OwnedFd>,
    /// A terminal of its own, as its standard streams; all it writes is then standard output.
    pub terminal: Option<Window>,
    /// Orders while it runs.
    pub orders: Option<&'a Orders>,
}

/// A pipe for [`Live::input`], and where to write what the command is to read. Writing waits while
/// the command does not read; dropping the file is the end of the input.
///
/// # Errors
/// `sandbox_system` when no descriptor is left.
pub fn input() -> Result<(OwnedFd, File)> {
    let (end, start) = pipe_with(PipeFlags::CLOEXEC)
        .map_err(|errno| Error::new(codes::SYSTEM, "cannot make a pipe").why(errno))?;
    Ok((end, File::from(start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_that_nobody_obeys_do_not_pile_up() {
        let orders = Orders::new().unwrap();
        let window = |rows| Window { rows, columns: 80 };
        let check = |given: &[Order], expected: &[Order]| {
            given.iter().for_each(|order| orders.give(*order));
            assert_eq!(orders.are_waiting(), !given.is_empty());
            assert_eq!(orders.take().collect::<Vec<_>>(), expected, "{given:?}");
            assert_eq!(orders.take().count(), 0);
        };
        check(&[], &[]);
        check(&[Order::Pause, Order::Resume], &[Order::Resume]);
        check(&[Order::Resume, Order::Pause], &[Order::Pause]);
        let many: Vec<Order> = (0..10_000).map(|rows| Order::Resize(window(rows))).collect();
        check(&many, &[Order::Resize(window(9_999))]);
        check(&[Order::Pause, many[1], Order::Pause], &[many[1], Order::Pause]);
    }
}
