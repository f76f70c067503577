//! Bodies of events about plans and their runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{BlobRef, is_false};
use crate::decision::is_unconstrained;
use crate::{CallId, Constraints, Digest, Seq};

/// `plan.rendered`, `plan.refused`: of a call of an agent, or of a run that the registry records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanShown {
    /// The call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<PlanRun>,
    /// Plan id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Profile applied.
    pub profile: String,
    /// HTML document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<BlobRef>,
    /// Issues of a refused plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issues: Option<Value>,
}

/// What made a run of a plan begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunMode {
    /// A model wrote the plan.
    Prompt,
    /// Somebody gave the plan.
    Plan,
    /// Something happened on the plan's surface.
    Event,
    /// An earlier version is shown again.
    Rollback,
    /// An earlier run is made again and compared.
    Replay,
}

/// How a run of a plan ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The plan was shown.
    Succeeded,
    /// Policy or profile refused it.
    Rejected,
    /// The tenant had used up its quota.
    Throttled,
    /// Something else went wrong.
    Failed,
}

/// One run of a plan: what was asked, and digests of what came of it, so that it can be made again.
/// `plan.rendered` when it succeeded, `quota.throttled` when it never began, `plan.refused` otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanRun {
    /// What made it begin.
    pub mode: RunMode,
    /// How it ended.
    pub status: RunStatus,
    /// Sequence of the run's first event; everything before it is what the run saw.
    pub first: Seq,
    /// Version of the plan that was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// The plan as it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<BlobRef>,
    /// Whether what was entered went over into a new version.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keep_input: bool,
    /// The event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Value>,
    /// The run that was made again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Seq>,
    /// Digest of the profile's fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_digest: Option<Digest>,
    /// What the decision demanded of the profile.
    #[serde(default, skip_serializing_if = "is_unconstrained")]
    pub constraints: Constraints,
    /// Version of the renderer.
    pub renderer: String,
    /// Digest of the plan's stored text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Digest>,
    /// Digest of the state that was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Digest>,
    /// Digest of the markup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub markup: Option<Digest>,
    /// How the plan's code ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<PlanCode>,
    /// What plugins did in it, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<PlanHook>,
    /// Error code of a run that did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// How long it took, in microseconds.
    pub duration_us: u64,
}

/// One call of a plugin in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanHook {
    /// The plugin.
    pub plugin: String,
    /// Digest of what it is.
    pub digest: Digest,
    /// Where in the pipeline.
    pub hook: String,
    /// What it answered, when it changed something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<BlobRef>,
    /// Why it failed, which ended the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long it took, in microseconds.
    pub duration_us: u64,
}

/// How code of a plan ran: what it takes to run it again, where it ran, and what ended it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanCode {
    /// The lane that the plan asked for.
    pub requested: String,
    /// The lane that ran it.
    pub effective: String,
    /// How isolated it really was.
    pub isolation: String,
    /// What compiled it.
    pub compiler: String,
    /// What ran it.
    pub engine: String,
    /// Digest of the compiled module.
    pub module: String,
    /// The time that it saw, in milliseconds since 1970.
    pub now_ms: i64,
    /// Where chance began.
    pub seed: u32,
    /// How long it ran, in microseconds.
    pub duration_us: u64,
    /// Processor time, in microseconds.
    pub cpu_us: u64,
    /// The limit that it reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Why its process was killed, when it did not end by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed: Option<String>,
    /// Whether the default was run, because the export that was asked for is not there.
    #[serde(default, skip_serializing_if = "is_false")]
    pub export_missing: bool,
    /// Whether it used storage, which was in memory and ended with the run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub storage_in_memory: bool,
    /// Why it made nothing; the plan's own root was shown then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    /// What came of the modules that its imports and component nodes name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub components: Option<PlanComponents>,
}

/// Component nodes and imports of a plan, as they were run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanComponents {
    /// Components that were called.
    pub called: u64,
    /// Digest of what called them.
    pub module: String,
    /// Modules and components of which nothing came; such a component's children are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<PlanComponentFault>,
    /// How many there were, also those that are not listed.
    #[serde(default)]
    pub fault_count: u64,
}

/// Why nothing came of a module or of a component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanComponentFault {
    /// The module as the plan names it; empty when it is about all.
    pub module: String,
    /// The export that was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<String>,
    /// The error's code.
    pub code: String,
    /// Its words.
    pub why: String,
}

/// `plan.registered`: a version that never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanRegistered {
    /// Plan id.
    pub plan: String,
    /// Its version; another one than the text was given with when that was taken.
    pub version: i64,
    /// The plan's text with this version.
    pub text: BlobRef,
    /// Digest of the plan without its version: the same content is one version.
    pub content: Digest,
}

/// `plan.event`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanEvent {
    /// Plan id.
    pub plan: String,
    /// Version that was shown when it happened.
    pub version: i64,
    /// The event: `type` and perhaps `payload`.
    pub event: Value,
}

/// `plan.state_changed`: the whole state after a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanStateChanged {
    /// Plan id.
    pub plan: String,
    /// Version that the state belongs to.
    pub version: i64,
    /// Steps so far.
    pub revision: u64,
    /// The values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Value>,
    /// The values, when they are too large for an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<BlobRef>,
    /// Paths of what came over from another version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Paths of what had no place in this version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
}

/// `plan.rolled_back`: another version is the current one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanRolledBack {
    /// Plan id.
    pub plan: String,
    /// Version that was current.
    pub from: i64,
    /// Version that is current now.
    pub to: i64,
}

/// `plan.history_cleared`: plans, states and runs before it are shown no more. The log keeps them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanHistoryCleared {
    /// How many plans there were.
    pub plans: u64,
    /// How many runs.
    pub runs: u64,
}

/// `plan.previewed`: how far a plan was shown while it still arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanPreviewed {
    /// Bytes that had arrived.
    pub bytes: u64,
    /// Nodes that were shown.
    pub nodes: u64,
    /// Digest of the HTML shown.
    pub markup: Digest,
}
