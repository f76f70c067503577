//! What compatible servers want back with an answer that made calls: the thinking that led to
//! them, and what they attached to each call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Carry, Dialect, ModelCall};

/// The one block of a carry of this dialect.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    /// The thinking; empty when there was none.
    pub(super) thought: String,
    /// The calls' ids.
    pub(super) ids: Vec<String>,
    /// What goes back with each call.
    pub(super) extras: Vec<Option<Value>>,
}

/// The carry of an answer. Without calls nothing goes back: servers that want thoughts back want
/// them while their calls are answered, and older ones refuse them otherwise.
pub(super) fn of(thought: &str, calls: &[ModelCall], extras: Vec<Option<Value>>) -> Option<Carry> {
    if calls.is_empty() || (thought.is_empty() && extras.iter().all(Option::is_none)) {
        return None;
    }
    let ids = calls.iter().map(|call| call.id.clone()).collect();
    let kept = Kept { thought: thought.to_owned(), ids, extras };
    let blocks = vec![serde_json::to_string(&kept).ok()?];
    Some(Carry { dialect: Dialect::Chat.name().to_owned(), model: String::new(), blocks })
}

/// Reads a carry of this dialect.
pub(super) fn read(carry: &Carry) -> Option<Kept> {
    serde_json::from_str(carry.blocks.first()?).ok()
}
