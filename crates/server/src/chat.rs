//! A turn in the words of the AI SDK (<https://ai-sdk.dev>): events become chunks of a UI message stream, versions 6
//! and 7.
//!
//! A message is a turn with the turns that carried it on. Its chunks are a fold over their events from the first
//! one (`teller`), so a client that comes again gets the same chunks and builds the same message. What an
//! answer has said so far is shown before it is in the log (`live`); the fold goes on from there.

mod follow;
mod live;
mod message;
mod teller;

use glasshouse_kernel::Kernel;
use glasshouse_model::body::TurnStarted;
use glasshouse_model::{BranchId, Kind, Seq};

pub(crate) use follow::{Follow, with_headers};
pub(crate) use live::{Live, Speaker};
pub(crate) use message::Message;
pub(crate) use teller::{Phase, Protocol, Teller};

use crate::{Error, Result};

/// Events of one read.
const PAGE_EVENTS: usize = 256;
/// Most turns of one message.
const MAX_CHAIN: usize = 1_000;

/// The first turn of the message that a turn belongs to.
///
/// # Errors
/// What reading the log answers.
pub(crate) fn first_turn(kernel: &Kernel, branch: &BranchId, turn: Seq) -> Result<Seq> {
    let mut first = turn;
    for _ in 0..MAX_CHAIN {
        match started(kernel, branch, first)? {
            Some(TurnStarted { continues: Some(before), .. }) if before < first => first = before,
            _ => break,
        }
    }
    Ok(first)
}

/// The body of a turn's first event, if there is such a turn.
pub(crate) fn started(
    kernel: &Kernel,
    branch: &BranchId,
    turn: Seq,
) -> Result<Option<TurnStarted>> {
    let events = kernel.log().read(branch, turn, 1)?;
    let event = events.first().filter(|event| event.seq() == turn);
    Ok(event.filter(|event| *event.kind() == Kind::TurnStarted).map(|event| {
        // One that was erased carries nothing on.
        event.body_as().unwrap_or_default()
    }))
}

/// Folds a message's events that are stored, from one on, and hands each state to `look` until that has seen enough.
///
/// # Errors
/// What reading the log answers.
pub(crate) fn fold(
    kernel: &Kernel,
    branch: &BranchId,
    teller: &mut Teller,
    mut look: impl FnMut(&Teller, Seq, Vec<serde_json::Value>) -> bool,
) -> Result<()> {
    let mut next = teller.first();
    loop {
        let events = kernel.log().read(branch, next, PAGE_EVENTS)?;
        let Some(last) = events.last().map(glasshouse_model::Event::seq) else { return Ok(()) };
        for event in &events {
            let chunks = teller.tell(event);
            if look(teller, event.seq(), chunks) || teller.is_closed() {
                return Ok(());
            }
        }
        next = last + 1;
    }
}

/// A chat that cannot be used.
pub(crate) fn unusable(why: impl Into<String>) -> Error {
    crate::ask::invalid("the chat cannot be used").why(why.into())
}
