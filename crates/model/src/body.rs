//! Bodies of the events that the kernel writes and folds, one type for each shape.
//!
//! Several kinds share a shape (the five ends of a call share [`CallEnd`]). A reader ignores fields
//! that it does not know, so a later version may add some; none is ever renamed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Actor, BranchId, Budget, Call, CallId, Decision, Digest, Kind, Mode, Seq, State, Usage,
};

/// Spares the common case a field.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Bytes kept outside the event, by digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// Digest under which the bytes are stored.
    pub blob: Digest,
    /// Length in bytes.
    pub bytes: u64,
}

/// How a project tests itself, and which of its files are tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestSetup {
    /// Command and arguments that run every test.
    pub argv: Vec<String>,
    /// What was detected or configured: `cargo`, `npm`, `pytest`, `go`, `shell`, `configured`.
    pub kind: String,
    /// Globs of test files.
    pub test_globs: Vec<String>,
    /// Globs of source files.
    pub source_globs: Vec<String>,
}

/// `session.created`: everything the session was started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCreated {
    /// Workflow mode.
    pub mode: Mode,
    /// Absolute path of the project directory.
    pub project: String,
    /// Provider name.
    pub provider: String,
    /// Model name.
    pub model: String,
    /// Server of an OpenAI-compatible provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Whether the user, not the project, named the server: only then it gets the user's key.
    #[serde(default)]
    pub own_server: bool,
    /// Scenario file of the scripted provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<BlobRef>,
    /// Limits.
    pub budget: Budget,
    /// How the project tests itself.
    pub test: TestSetup,
    /// Policy files in force besides the built-ins: name and content.
    pub policy: Vec<PolicySource>,
    /// Most changed lines that are merged without a person.
    pub max_auto_merge_lines: u64,
    /// Version of the program.
    pub program_version: String,
}

/// One policy text in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicySource {
    /// Name shown in explanations.
    pub name: String,
    /// The text.
    pub text: BlobRef,
    /// Whether it has to allow each call itself, because nobody accepted it yet or beside such a one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub apart: bool,
}

/// `policy.proposed`, `policy.updated`: the policy of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChange {
    /// Absolute path of the project directory.
    pub project: String,
    /// Digest of the text that was accepted before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Digest>,
    /// The text.
    pub text: BlobRef,
}

/// `session.resumed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionResumed {
    /// Fencing epoch of the new owner.
    pub epoch: u64,
    /// State the earlier owner left: `interrupted` or `at_rest`.
    pub found: String,
}

/// `message.received`: a text for the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageReceived {
    /// The text.
    pub text: String,
}

/// `turn.started`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStarted {
    /// Sequence of the turn that this one carries on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<Seq>,
}

/// How a turn came to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The change set was merged and committed.
    Committed,
    /// The model answered; nothing was changed.
    Answered,
    /// A person rejected the change set.
    Rejected,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

/// `turn.completed`, `.failed`, `.cancelled`, `.interrupted`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// Sequence of `turn.started`.
    pub turn: Seq,
    /// How it came to rest.
    pub outcome: Outcome,
    /// Error code of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Explanation of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Commit made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// `model.requested`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRequested {
    /// How many requests of this branch were answered (or refused) before this one.
    pub ordinal: u64,
    /// 1 for the first try of this answer.
    pub attempt: u32,
    /// Digest of the canonical request.
    pub request: Digest,
    /// Provider name.
    pub provider: String,
    /// Model name.
    pub model: String,
}

/// One call as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenCall {
    /// The model's own id for the call.
    pub id: String,
    /// Tool name.
    pub tool: String,
    /// Arguments as written, secrets masked.
    pub arguments: String,
    /// Whether a secret in them was masked.
    #[serde(default, skip_serializing_if = "is_false")]
    pub masked: bool,
}

/// `model.completed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelCompleted {
    /// Which answer this is.
    pub ordinal: u64,
    /// Text of the answer.
    pub text: String,
    /// Calls, in order.
    pub calls: Vec<WrittenCall>,
    /// Why it ended: `stop`, `tool_calls`, `length`, `refusal`, `content_filter`.
    pub finish: String,
    /// Tokens by kind.
    pub tokens: BTreeMap<String, u64>,
    /// Every byte of the response body.
    pub raw: BlobRef,
    /// Wall time in microseconds.
    pub duration_us: u64,
}

/// `model.failed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFailed {
    /// Which answer was wanted.
    pub ordinal: u64,
    /// Which try failed.
    pub attempt: u32,
    /// Error code.
    pub code: String,
    /// Explanation.
    pub message: String,
    /// Wait before the next try; absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_in_ms: Option<u64>,
    /// Whether the provider answered at all (so that a script moves on to its next step).
    pub answered: bool,
}

/// `model.partial`: text that had arrived when the stream stopped or 2 s had passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelPartial {
    /// Which answer it belongs to.
    pub ordinal: u64,
    /// All text so far.
    pub text: String,
}

/// `tool.proposed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolProposed {
    /// The model's own id.
    pub id: String,
    /// Tool name.
    pub tool: String,
    /// Arguments as written, secrets masked.
    pub arguments: String,
    /// Whether a secret in them was masked.
    #[serde(default, skip_serializing_if = "is_false")]
    pub masked: bool,
}

/// `policy.decided`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyDecided {
    /// The tool call it belongs to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// Syscall.
    pub syscall: String,
    /// What it is about, for people: a path, a command, a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Workflow state in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Digest of the arguments decided on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args_digest: Option<Digest>,
    /// Everything that was decided on, secrets masked: what it takes to explain the decision, to make it
    /// again and to try another policy on it. Absent where one event tells of many paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Call>,
    /// The answer.
    #[serde(flatten)]
    pub decision: Decision,
}

impl PolicyDecided {
    /// A decision on a call; `id` is the tool call that it belongs to.
    #[must_use]
    pub fn new(
        id: Option<CallId>,
        input: Call,
        subject: Option<String>,
        decision: Decision,
    ) -> Self {
        Self {
            call: id,
            syscall: input.syscall.clone(),
            subject,
            state: input.state.clone(),
            args_digest: input.args_digest,
            input: Some(input),
            decision,
        }
    }
}

/// What an approval is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalSubject {
    /// A tool call.
    Call,
    /// A merge into the project.
    Merge,
    /// A policy that is to be in force.
    Policy,
}

/// `approval.requested`. Its sequence names the approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequested {
    /// Call or merge.
    pub subject: ApprovalSubject,
    /// The call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// Tool name, or `merge`.
    pub tool: String,
    /// What the person is shown.
    pub shown: String,
    /// Why it needs a person.
    pub reasons: Vec<String>,
    /// Digest of the arguments (or of the patch) that the approval is bound to.
    pub args_digest: Digest,
    /// Policy that asked.
    pub policy_version: Digest,
    /// Digest of the frozen base.
    pub base: Digest,
}

/// `approval.resolved`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalResolved {
    /// Sequence of `approval.requested`.
    pub approval: Seq,
    /// Whether it was granted.
    pub approved: bool,
    /// Who answered; `kernel` when nobody was there.
    pub approver: Actor,
    /// `approved`, `rejected`, `no_approver`.
    pub code: String,
    /// Last moment at which an approved act may start, in microseconds since 1970.
    pub expires_us: u64,
}

/// `grant.used`: the counter is stored in the same transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantUsed {
    /// Grant id.
    pub grant: String,
    /// Counter after the use.
    pub counter: u64,
}

/// `tool.started`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolStarted {
    /// The call.
    pub call: CallId,
    /// Isolation it runs under: `in_process` or for example `native:full`.
    pub isolation: String,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// It ran to its end.
    Completed,
    /// It could not be done.
    Failed,
    /// Policy, the workflow or a person said no.
    Denied,
    /// It was cancelled.
    Cancelled,
    /// It ran longer than allowed.
    TimedOut,
}

impl CallStatus {
    /// The kind of event that tells it.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Completed => Kind::ToolCompleted,
            Self::Failed => Kind::ToolFailed,
            Self::Denied => Kind::ToolDenied,
            Self::Cancelled => Kind::ToolCancelled,
            Self::TimedOut => Kind::ToolTimedOut,
        }
    }

    /// The word that models and scenarios see.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
        }
    }
}

/// `tool.completed`, `.failed`, `.denied`, `.cancelled`, `.timed_out`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallEnd {
    /// The call.
    pub call: CallId,
    /// How it ended.
    pub status: CallStatus,
    /// Error code when it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Exit status of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Wall time from proposal's start of execution to the end, in microseconds.
    pub duration_us: u64,
    /// Isolation it ran under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    /// All output, masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<BlobRef>,
    /// What the model is told, cut and cleaned.
    pub text: String,
    /// Whether `text` is shorter than the output.
    #[serde(default)]
    pub truncated: bool,
    /// Processes that the command left behind and that were killed.
    #[serde(default)]
    pub background_processes: u32,
}

/// `workspace.frozen`: the base that every change is measured against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceFrozen {
    /// Digest of the base's manifest.
    pub base: Digest,
    /// Files in it.
    pub files: u64,
    /// Commit the project was at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_commit: Option<String>,
}

/// One changed path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedPath {
    /// Path.
    pub path: String,
    /// `added`, `modified`, `deleted`, `renamed`, `mode`, `symlink`, `special`.
    pub change: String,
}

/// `workspace.sealed`: the state of the workspace after a call that may have changed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceSealed {
    /// The call.
    pub call: CallId,
    /// Manifest of everything that differs from the base.
    pub manifest: BlobRef,
    /// What this call changed; a long list is cut.
    pub changed: Vec<ChangedPath>,
    /// How many paths it changed.
    #[serde(default)]
    pub changed_total: u64,
    /// Whether anything differs from the base in test files.
    pub tests_changed: bool,
    /// Whether anything differs from the base in other files.
    pub sources_changed: bool,
}

/// `workspace.rolled_back`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceRolledBack {
    /// The call whose changes went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// Manifest that the workspace went back to; absent for the frozen base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<BlobRef>,
    /// Why: an error code.
    pub code: String,
    /// Path that was not allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Rules that denied it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
}

/// `test.evidence`: a test run that the kernel itself made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestEvidence {
    /// The call.
    pub call: CallId,
    /// Whether every test passed.
    pub passed: bool,
    /// Whether the runner really ran (it was found, and neither timed out nor was killed).
    pub ran: bool,
    /// Exit status.
    pub exit_code: i32,
    /// Digest over every test file's path, mode and content.
    pub tests: Digest,
    /// Digest over every other file's path, mode and content.
    pub sources: Digest,
    /// Whether tests differ from the base.
    pub tests_changed: bool,
    /// Whether other files differ from the base.
    pub sources_changed: bool,
    /// Exit status of the tests as they were before the session, run on the sources as they are now.
    /// Absent when no test file was there or none was touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier_exit_code: Option<i32>,
}

/// `workflow.transitioned`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowTransitioned {
    /// State left.
    pub from: State,
    /// State entered.
    pub to: State,
    /// What the guard saw.
    pub because: String,
}

/// `merge.proposed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeProposed {
    /// The `git.commit` call that asked, if a model did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// Commit message.
    pub message: String,
    /// Digest of the frozen base.
    pub base: Digest,
    /// Unified diff.
    pub patch: BlobRef,
    /// Manifest that is merged.
    pub manifest: BlobRef,
    /// What changes.
    pub changes: Vec<ChangedPath>,
    /// Added lines.
    pub lines_added: u64,
    /// Removed lines.
    pub lines_removed: u64,
    /// Why a person must look at it; empty when the criteria are met.
    pub review_reasons: Vec<String>,
    /// What an approval binds to: base, patch, and what the project held at each path.
    pub binding: Value,
    /// Policy that decided on its paths.
    pub policy_version: Digest,
    /// Evidence that the tests pass on exactly this content.
    pub evidence: Option<Seq>,
}

/// `merge.approved`, `merge.rejected`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeAnswered {
    /// Sequence of `merge.proposed`.
    pub merge: Seq,
    /// Who answered; the kernel when the criteria were met.
    pub approver: Actor,
    /// `auto_approved`, `approved`, `rejected`, `no_approver`.
    pub code: String,
}

/// `merge.applied`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeApplied {
    /// Sequence of `merge.proposed`.
    pub merge: Seq,
    /// Files written or removed in the project.
    pub files: u64,
}

/// `merge.failed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeFailed {
    /// Sequence of `merge.proposed`.
    pub merge: Seq,
    /// Error code.
    pub code: String,
    /// Explanation.
    pub message: String,
}

/// `commit.created`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitCreated {
    /// Sequence of `merge.proposed`.
    pub merge: Seq,
    /// Commit id; absent when the project is no git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// First line of the message.
    pub subject: String,
}

/// `plan.rendered`, `plan.refused`: of a call of an agent, or of a run that the registry records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Error code of a run that did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// How long it took, in microseconds.
    pub duration_us: u64,
}

/// `plan.registered`: a version that never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanEvent {
    /// Plan id.
    pub plan: String,
    /// Version that was shown when it happened.
    pub version: i64,
    /// The event: `type` and perhaps `payload`.
    pub event: Value,
}

/// `plan.state_changed`: the whole state after a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRolledBack {
    /// Plan id.
    pub plan: String,
    /// Version that was current.
    pub from: i64,
    /// Version that is current now.
    pub to: i64,
}

/// `plan.history_cleared`: plans, states and runs before it are shown no more. The log keeps them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanHistoryCleared {
    /// How many plans there were.
    pub plans: u64,
    /// How many runs.
    pub runs: u64,
}

/// `sandbox.created`, `.failed`, `.destroyed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxEvent {
    /// Sandbox id.
    pub sandbox: String,
    /// Template.
    pub template: String,
    /// Isolation level reached, for example `native:full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    /// Error code of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What was measured from inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attestation: Option<Value>,
}

/// `budget.charged`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetCharged {
    /// What this act cost.
    pub usage: Usage,
}

/// `budget.exhausted`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetExhausted {
    /// `tokens`, `time`, `cost`, `calls` or `errors`.
    pub item: String,
}

/// How a branch was merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MergeStrategy {
    /// The target had not moved since the branches parted: it takes over the source's state.
    FastForward,
    /// Both had moved; `resolved` holds what came of it.
    ThreeWay,
}

/// `branch.merged`: an event with two parents, the event before it and the source's head. The
/// source takes no more events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchMerged {
    /// The branch that ends.
    pub source: BranchId,
    /// Sequence of its last event.
    pub source_seq: Seq,
    /// Hash of its last event: the second parent.
    pub source_hash: Digest,
    /// Sequence of the last event that both branches share.
    pub base_seq: Seq,
    /// How.
    pub strategy: MergeStrategy,
    /// The values that were decided on, by the key of the state that they are for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resolved: BTreeMap<String, Value>,
}

/// The name of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRef {
    /// The branch that stores it.
    pub branch: BranchId,
    /// Its sequence.
    pub seq: Seq,
}

/// `log.erased`: bodies and blobs that are gone for good, and why. The headers and hashes of the
/// events stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogErased {
    /// Events without a body from now on.
    pub events: Vec<EventRef>,
    /// Digests of blobs that were deleted.
    pub blobs: Vec<Digest>,
    /// Why.
    pub reason: String,
}
