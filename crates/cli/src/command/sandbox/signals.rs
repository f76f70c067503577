//! Signals while a command runs in a sandbox: what would end us ends the command instead, so that its
//! end is recorded and its terminal given back.

use glasshouse_kernel::codes;
use glasshouse_sandbox::{Cancel, Order, Orders};
use tokio::signal::unix::{SignalKind, signal};

use super::terminal::window;
use crate::error::Error;

/// Obeys signals on a thread of its own; the runtime is for nothing else.
pub(super) fn obey(cancel: &Cancel, orders: Option<&Orders>) -> Result<(), Error> {
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
    let (cancel, orders) = (cancel.clone(), orders.cloned());
    std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    Some(()) = interrupt.recv() => cancel.cancel(),
                    Some(()) = terminate.recv() => cancel.cancel(),
                    Some(()) = hangup.recv() => cancel.cancel(),
                    Some(()) = resized.recv() => {
                        orders.iter().for_each(|orders| orders.give(Order::Resize(window())));
                    }
                    else => break,
                }
            }
        });
    });
    Ok(())
}
