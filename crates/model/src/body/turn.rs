//! Bodies of events about the course of a turn, and about the process that runs it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BlobRef, is_false};
use crate::{Actor, CallId, DebtLevel, Digest, ExemptionCategory, Mode, Seq};

/// `kernel.started`, `kernel.stopped`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelProcess {
    /// Version of the program.
    pub program_version: String,
    /// Process id.
    pub pid: u32,
    /// Why it stopped, in a word; absent at its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `session.closed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionClosed {
    /// Why: `done`, `given_up`, `expired`.
    pub reason: String,
}

/// `session.mode_changed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModeChanged {
    /// Mode before.
    pub from: Mode,
    /// Mode from now on.
    pub to: Mode,
}

/// `phase.entered`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseEntered {
    /// `sense`, `estimate`, `gate`, `execute`, `commit`, `reflect`, `heartbeat`.
    pub phase: String,
}

/// `state.estimated`: how the agent is doing, each value in thousandths from 0 to 1000.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateEstimated {
    /// Operating mode that follows from the values.
    pub mode: String,
    /// Values by name, for instance `progress` and `uncertainty`.
    pub values_permille: BTreeMap<String, u32>,
}

/// `breaker.opened`, `breaker.closed`: whether something that failed too often is still tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Breaker {
    /// What it protects, for instance `model:openai` or `tool:test.run`.
    pub name: String,
    /// Failures in a row.
    pub failures: u64,
    /// When it is tried again, microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at_us: Option<u64>,
}

/// `checkpoint.created`: a state that a fold of this branch must come to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointCreated {
    /// Sequence of the last event folded.
    pub at_seq: Seq,
    /// Name and version of the fold.
    pub projection: String,
    /// Digest of the state.
    pub state: Digest,
}

/// `heartbeat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Heartbeat {
    /// What is going on, in a line.
    pub summary: String,
}

/// `context.compacted`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextCompacted {
    /// Sequences of the first and last event that the summary stands for.
    pub from_seq: Seq,
    /// See `from_seq`.
    pub to_seq: Seq,
    /// How many entries of the conversation, from its beginning, it stands for.
    pub entries: u64,
    /// The summary.
    pub summary: String,
    /// Tokens before and after.
    pub tokens_before: u64,
    /// See `tokens_before`.
    pub tokens_after: u64,
}

/// `context.pinned`: what compaction carries over byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextPinned {
    /// What it is, in a word.
    pub name: String,
    /// The text; empty to take the pin away.
    pub text: String,
}

/// `observation.extracted`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObservationExtracted {
    /// The observation.
    pub text: String,
    /// Events that it is drawn from.
    pub sources: Vec<Seq>,
}

/// `soul.updated`: what an agent knows of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SoulUpdated {
    /// Digest of the text before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Digest>,
    /// The text.
    pub text: BlobRef,
}

/// `workflow.exemption_requested`: work that should need no failing test first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExemptionRequested {
    /// The call that asks.
    pub call: CallId,
    /// What kind of work it is.
    pub category: ExemptionCategory,
    /// Paths that it is about.
    pub paths: Vec<String>,
    /// Why.
    pub reason: String,
}

/// `workflow.exemption_decided`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExemptionDecided {
    /// Sequence of `workflow.exemption_requested`.
    pub request: Seq,
    /// Whether it holds.
    pub granted: bool,
    /// Who granted it: a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approver: Option<Actor>,
    /// Until when, microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_us: Option<u64>,
}

/// Lines of sources that the tests of a project can run, and those that they ran, as a report of the
/// test run says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// The report, in the workspace.
    pub report: String,
    /// Lines that can run.
    pub lines: u64,
    /// Lines that ran.
    pub covered_lines: u64,
}

/// `debt.updated`: coverage that a project's explored work owes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DebtUpdated {
    /// Canonical directory of the project.
    pub project: String,
    /// Whether this only tells what other sessions left; nothing changed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub carried: bool,
    /// Coverage of the last commit, in thousandths.
    pub coverage_permille: u32,
    /// What strict work reached before, in thousandths.
    pub baseline_permille: u32,
    /// Lines that tests have to run for the coverage to be back.
    pub owed_lines: u64,
    /// What follows.
    pub level: DebtLevel,
    /// What was so before; absent when nothing was known of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<DebtBefore>,
}

/// How a project's debt stood before an update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DebtBefore {
    /// See [`DebtUpdated::baseline_permille`].
    pub baseline_permille: u32,
    /// See [`DebtUpdated::level`].
    pub level: DebtLevel,
}
