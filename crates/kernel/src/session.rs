//! The pure half: what a session is, what follows from an event, and what to do next.

mod consequences;
mod context;
mod effects;
mod replay;
mod state;
mod taint;
pub mod workflow;

pub use consequences::consequences;
pub(crate) use consequences::{refused, review_reasons, turn_cancelled, turn_failed};
pub use context::model_request;
pub use effects::{Effect, next};
pub use replay::{Difference, Replay, Replayed};
pub(crate) use replay::{RATE_LIMITED, SANDBOX_DEMANDED, WORKSPACE_BOUNDARY, decided_by_kernel};
pub use state::{CallPhase, CallRecord, Item, MergePhase, MergeRecord, ModelPhase, State};
pub use taint::{Origins, REPO, Taint, USER, WEB};
