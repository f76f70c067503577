//! The pure half: what a session is, what follows from an event, and what to do next.

mod compaction;
mod consequences;
mod context;
pub mod debt;
mod effects;
pub mod exemption;
mod join;
mod ledger;
mod listing;
mod repetition;
mod replay;
mod schemas;
mod state;
mod taint;
mod views;
pub mod workflow;

pub use consequences::consequences;
pub(crate) use consequences::{refusal, refused, review_reasons, turn_cancelled, turn_failed};
pub use context::{is_summary_wanted, model_request};
pub use effects::{Effect, next};
pub(crate) use join::recorded;
pub use join::{Joined, MERGE_KINDS, MergeKind, join};
pub use ledger::{Charge, Ledger, Total};
pub use listing::Listing;
pub(crate) use replay::{
    COVERAGE_DEBT, EXEMPTION_SCOPE, ISOLATION_TOO_WEAK, RATE_LIMITED, SANDBOX_DEMANDED,
    WORKSPACE_BOUNDARY, decided_by_kernel,
};
pub use replay::{Difference, Replay, Replayed};
pub use state::{
    CallPhase, CallRecord, Item, MergePhase, MergeRecord, ModelPhase, SealRecord, State, Summary,
    VOID_APPROVALS,
};
pub use taint::{Origins, REPO, Taint, USER, WEB};
pub use views::{Observation, Views};
