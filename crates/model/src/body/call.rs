//! Bodies of events about calls: proposed, decided, approved, run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{BlobRef, GrantRule, GrantScope, TakenPath, is_false};
use crate::{
    Actor, BranchId, Call, CallId, CanonicalPath, Decision, Digest, Kind, Principal, Seq,
    SessionId, TenantId,
};

/// `tool.proposed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// The rule that the approval would be extended by, for a wider scope than the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer: Option<GrantRule>,
    /// The merge of branches that an answer makes, where it is asked for in a session of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<MergeAsked>,
}

/// A merge of branches that waits for a person. It is made between just these events of both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MergeAsked {
    /// Session of both branches.
    pub session: SessionId,
    /// The branch that ends.
    pub source: BranchId,
    /// Its newest event.
    pub source_seq: Seq,
    /// The branch that goes on.
    pub target: BranchId,
    /// Its newest event.
    pub target_seq: Seq,
    /// Whose version of paths that do not go together is taken; an empty path stands for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub take: Vec<TakenPath>,
    /// Who merges.
    pub by: Principal,
}

/// `approval.answered`: a person answered in another process than the one that asks. The owner of the
/// branch takes it over as `approval.resolved`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalAnswered {
    /// Branch that asks.
    pub branch: BranchId,
    /// Sequence of its `approval.requested`.
    pub approval: Seq,
    /// Digest of what the person was shown.
    pub args_digest: Digest,
    /// The answer.
    pub approved: bool,
    /// Who answered.
    pub approver: Actor,
    /// Tenant of that person.
    pub tenant: TenantId,
    /// How far the answer reaches.
    #[serde(default, skip_serializing_if = "GrantScope::is_call")]
    pub scope: GrantScope,
    /// The rule, for a wider scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<GrantRule>,
    /// How long a wider answer holds, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_us: Option<u64>,
    /// Most uses of a wider answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_uses: Option<u64>,
    /// When, microseconds since 1970.
    pub answered_us: u64,
}

/// `approval.resolved`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// How far the answer reaches.
    #[serde(default, skip_serializing_if = "GrantScope::is_call")]
    pub scope: GrantScope,
}

/// `grant.used`: the counter is stored in the same transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GrantUsed {
    /// Grant id.
    pub grant: String,
    /// Counter after the use.
    pub counter: u64,
}

/// `tool.started`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolStarted {
    /// The call.
    pub call: CallId,
    /// Isolation it runs under: `in_process` or for example `native:full`.
    pub isolation: String,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// What its commands used; absent for a call that ran none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<CommandUsage>,
    /// What a look found and did not tell, because the policy does not allow it; absent when that was nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
}

/// Entries that a look left out because the policy does not allow them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Withheld {
    /// Entries, each with the syscall that was not allowed for it.
    pub entries: Vec<WithheldEntry>,
    /// How many more there were than stand here.
    #[serde(default)]
    pub left_out: u64,
}

/// One entry that was left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct WithheldEntry {
    /// What was asked about it: `fs.list`, `fs.read`, ...
    pub syscall: String,
    /// Where it is.
    pub path: CanonicalPath,
}

/// What the commands of a call used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandUsage {
    /// Processor time of all processes, in microseconds.
    pub cpu_us: u64,
    /// Peak memory of the sandbox; without limits for all processes together, of the largest process.
    pub memory_peak_bytes: u64,
    /// Bytes written to standard output.
    pub stdout_bytes: u64,
    /// Bytes written to standard error.
    pub stderr_bytes: u64,
}

impl CommandUsage {
    /// Of two commands, one after the other.
    #[must_use]
    pub const fn then(self, next: Self) -> Self {
        let memory = if self.memory_peak_bytes > next.memory_peak_bytes { self } else { next };
        Self {
            cpu_us: self.cpu_us.saturating_add(next.cpu_us),
            memory_peak_bytes: memory.memory_peak_bytes,
            stdout_bytes: self.stdout_bytes.saturating_add(next.stdout_bytes),
            stderr_bytes: self.stderr_bytes.saturating_add(next.stderr_bytes),
        }
    }
}

/// `sandbox.created`, `.failed`, `.destroyed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxEvent {
    /// Sandbox id.
    pub sandbox: String,
    /// Template.
    pub template: String,
    /// Isolation level reached, for example `native:full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    /// Error code of a failure; of an end `sandbox_lost`, where it went with its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What was measured from inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attestation: Option<Value>,
}

/// `sandbox.examined`: what attacks on a sandbox of this machine found. Until another says better, no
/// sandbox claims more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxExamined {
    /// The level reached by measurement, for example `full`.
    pub level: String,
    /// The start of the machine that was examined.
    pub boot: String,
    /// Claims that did not hold.
    #[serde(default)]
    pub failed: Vec<String>,
}

/// `file.mutated`: one path that a tool changed, where no seal tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileMutated {
    /// Path.
    pub path: String,
    /// As in `workspace.sealed`.
    pub change: String,
    /// Digest of the content afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Digest>,
}
