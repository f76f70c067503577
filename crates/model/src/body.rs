//! Bodies of the events that the kernel writes and folds, one type for each shape.
//!
//! Several kinds share a shape (the five ends of a call share [`CallEnd`]). A reader ignores fields
//! that it does not know, so a later version may add some; none is ever renamed.

mod call;
mod contents;
mod grant;
mod kinds;
mod log;
mod model;
mod plan;
mod session;
mod turn;
mod voice;
mod workspace;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Digest;

pub use call::{
    ApprovalAnswered, ApprovalRequested, ApprovalResolved, ApprovalSubject, CallEnd, CallStatus,
    CommandUsage, FileMutated, GrantUsed, MergeAsked, PolicyDecided, SandboxEvent, SandboxExamined,
    ToolProposed, ToolStarted, Withheld, WithheldEntry,
};
pub use contents::{NamedBlob, named_blobs, sealed_files};
pub use grant::{
    Egress, GrantEnded, GrantIssued, GrantRule, GrantScope, KeyEvent, PluginEvent, QuotaUsed,
    StandingTerms, TenantEvent, Throttled,
};
pub use kinds::{check, schema};
pub use log::{
    BranchForked, BranchMerged, EventRange, EventRef, LogArchiveDeleted, LogChainBroken, LogErased,
    LogHeadSigned, LogQuarantined, LogRecovered, LogStorage, MergeSide, MergeStrategy,
    MergedWorkspace, Spent, TakenPath,
};
pub use model::{Carry, ModelCompleted, ModelFailed, ModelPartial, ModelRequested, WrittenCall};
pub use plan::{
    PlanCode, PlanComponentFault, PlanComponents, PlanEvent, PlanHistoryCleared, PlanHook,
    PlanPreviewed, PlanRegistered, PlanRolledBack, PlanRun, PlanShown, PlanStateChanged, RunMode,
    RunStatus,
};
pub use session::{
    BudgetCharged, BudgetExhausted, MessageReceived, ModelSettings, NamedRequest, Outcome,
    PolicyChange, PolicySource, SessionCreated, SessionImported, SessionResumed, TestSetup,
    TurnEnd, TurnStarted,
};
pub use turn::{
    Breaker, CheckpointCreated, ContextCompacted, ContextPinned, Coverage, DebtBefore, DebtUpdated,
    ExemptionDecided, ExemptionRequested, Heartbeat, KernelProcess, ModeChanged,
    ObservationExtracted, PhaseEntered, SessionClosed, SoulUpdated, StateEstimated,
};
pub use voice::{VoiceChunk, VoiceEnd, VoiceStarted, VoiceText};
pub use workspace::{
    ChangedPath, CommitCreated, MergeAnswered, MergeApplied, MergeFailed, MergeProposed,
    TestEvidence, WorkflowTransitioned, WorkspaceFrozen, WorkspaceRolledBack, WorkspaceSealed,
};

/// Spares the common case a field.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Bytes kept outside the event, by digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlobRef {
    /// Digest under which the bytes are stored.
    pub blob: Digest,
    /// Length in bytes.
    pub bytes: u64,
}
