//! Signals while a command runs in a sandbox: what would end us ends the command instead, so that its
//! end is recorded and its terminal given back. What would stop us pauses it first: a command that runs
//! on behind a stopped program would surprise whoever stopped it.

use std::time::{Duration, Instant};

use glasshouse_kernel::codes;
use glasshouse_model::Exit;
use glasshouse_sandbox::{Cancel, Order, Orders};
use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use super::terminal::window;
use crate::error::Error;

/// How long the command's side has to take an order before we stop all the same.
const ORDER_LIMIT: Duration = Duration::from_millis(500);

/// How long after the first signal to end the next one ends this program itself.
const PATIENCE: Duration = Duration::from_secs(2);

/// Obeys signals on a thread of its own; the runtime is for nothing else. With a terminal of the
/// command's own a window's size is passed on; there Ctrl-Z is a key like any other.
pub(super) fn obey(cancel: &Cancel, orders: &Orders, has_terminal: bool) -> Result<(), Error> {
    let fail =
        |e: std::io::Error| Error::new(codes::TURN_FAILED, "signals cannot be watched").why(e);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fail)?;
    let watch = |kind| {
        let _inside = runtime.enter();
        signal(kind).map_err(fail)
    };
    let (mut interrupt, mut terminate) =
        (watch(SignalKind::interrupt())?, watch(SignalKind::terminate())?);
    let (mut hangup, mut resized) =
        (watch(SignalKind::hangup())?, watch(SignalKind::window_change())?);
    let (mut stop, mut go_on) = (
        watch(SignalKind::from_raw(Signal::TSTP.as_raw()))?,
        watch(SignalKind::from_raw(Signal::CONT.as_raw()))?,
    );
    let (cancel, orders) = (cancel.clone(), orders.clone());
    std::thread::spawn(move || {
        runtime.block_on(async {
            let mut since = None;
            loop {
                tokio::select! {
                    Some(()) = interrupt.recv() => end(&cancel, &mut since),
                    Some(()) = terminate.recv() => end(&cancel, &mut since),
                    Some(()) = hangup.recv() => end(&cancel, &mut since),
                    Some(()) = resized.recv(), if has_terminal => {
                        orders.give(Order::Resize(window()));
                    }
                    Some(()) = stop.recv() => stand_still(&orders).await,
                    Some(()) = go_on.recv() => orders.give(Order::Resume),
                    else => break,
                }
            }
        });
    });
    Ok(())
}

/// Ends the command. Whoever says so again after a while is not made to wait for an end that does not
/// come, as when git waits for a pipe that stands where it expects a file.
fn end(cancel: &Cancel, since: &mut Option<Instant>) {
    cancel.cancel();
    if since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
        std::process::exit(i32::from(Exit::Cancelled.status()));
    }
}

/// Pauses the command, then stops this program as the signal would have.
async fn stand_still(orders: &Orders) {
    orders.give(Order::Pause);
    let taken = async {
        while orders.are_waiting() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    // A command that takes no orders any more is at its end.
    let _ = tokio::time::timeout(ORDER_LIMIT, taken).await;
    // One may always signal oneself.
    let _ = kill_process(getpid(), Signal::STOP);
}
