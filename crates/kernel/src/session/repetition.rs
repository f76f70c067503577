//! Calls that fail in the same way again and again.

use std::collections::BTreeMap;

use glasshouse_model::Digest;
use glasshouse_model::body::{CallStatus, ToolProposed};

/// Failures of one call after which the model is warned.
pub(super) const WARN_AT: u32 = 3;
/// Failures of one call after which the turn ends.
pub(super) const STOP_AT: u32 = 5;

/// How often each call failed since anything changed; a call is its tool and its arguments.
pub(super) type Failures = BTreeMap<Digest, u32>;

/// Counts an end; answers how often this very call has failed now.
pub(super) fn count(failures: &mut Failures, call: &ToolProposed, status: CallStatus) -> u32 {
    let key = key(call);
    match status {
        CallStatus::Failed | CallStatus::Denied | CallStatus::TimedOut => {
            let count = failures.entry(key).or_default();
            *count = count.saturating_add(1);
            *count
        }
        CallStatus::Completed | CallStatus::Cancelled => {
            failures.remove(&key);
            0
        }
    }
}

/// How often a call has failed.
pub(super) fn failures(failures: &Failures, call: &ToolProposed) -> u32 {
    failures.get(&key(call)).copied().unwrap_or(0)
}

/// Arguments that differ only in white space or in the order of members are the same.
fn key(call: &ToolProposed) -> Digest {
    let arguments = serde_json::from_str::<serde_json::Value>(&call.arguments);
    let arguments = arguments.map_or_else(|_| call.arguments.clone(), |value| value.to_string());
    Digest::of_parts(&[call.tool.as_bytes(), b"\0", arguments.as_bytes()])
}
