//! What all dialects share: reading a body in pieces, adding an answer up, telling errors, names and
//! ids on the wire, and a conversation with its results sorted to their calls.

mod block;
#[cfg(test)]
pub(crate) mod check;
mod draft;
mod failure;
mod history;
mod name;
mod reader;
mod wrapper;

pub(crate) use block::Block;
pub(crate) use draft::{Draft, MAX_CALLS, Parts};
pub(crate) use failure::from_status;
pub(crate) use history::{Paired, Turn, arguments_object, turns, wire_tool_name};
pub(crate) use name::{from_wire, history_to_wire, to_wire};
pub(crate) use reader::{Fold, Reader, Sink, Trouble};
pub(crate) use wrapper::{is_wrapper, unwrap};
