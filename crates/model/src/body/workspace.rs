//! Bodies of events about workspaces, tests, the workflow, merges.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{BlobRef, Coverage, is_false};
use crate::{Actor, CallId, Digest, Seq, State};

/// `workspace.frozen`: the base that every change is measured against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedPath {
    /// Path.
    pub path: String,
    /// `added`, `modified`, `deleted`, `renamed`, `mode`, `symlink`, `special`.
    pub change: String,
}

/// `workspace.sealed`: the state of the workspace after a call that may have changed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// What the sources' lines had of the run, where it left a report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Coverage>,
}

/// `workflow.transitioned`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkflowTransitioned {
    /// State left.
    pub from: State,
    /// State entered.
    pub to: State,
    /// What the guard saw.
    pub because: String,
}

/// `merge.proposed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MergeAnswered {
    /// Sequence of `merge.proposed`.
    pub merge: Seq,
    /// Who answered; the kernel when the criteria were met.
    pub approver: Actor,
    /// `auto_approved`, `approved`, `rejected`, `no_approver`.
    pub code: String,
}

/// `merge.applied`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MergeApplied {
    /// Sequence of `merge.proposed`.
    pub merge: Seq,
    /// Files written or removed in the project.
    pub files: u64,
}

/// `merge.failed`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MergeFailed {
    /// Sequence of `merge.proposed`.
    pub merge: Seq,
    /// Error code.
    pub code: String,
    /// Explanation.
    pub message: String,
}

/// `commit.created`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommitCreated {
    /// Sequence of `merge.proposed`.
    pub merge: Seq,
    /// Commit id; absent when there is nothing to commit, or no git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Whether the project's last commit had all of it already.
    #[serde(default, skip_serializing_if = "is_false")]
    pub was_there: bool,
    /// First line of the message.
    pub subject: String,
}

impl CommitCreated {
    /// Why there is no commit, for people.
    #[must_use]
    pub const fn why_none(&self) -> &'static str {
        if self.was_there {
            "the last commit has all of it already"
        } else {
            "the project is no git repository"
        }
    }
}
