//! Bodies of events about sessions, messages and turns.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BlobRef, is_false};
use crate::{BranchId, Budget, Digest, Mode, Seq, SessionId, Usage};

/// How a project tests itself, and which of its files are tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestSetup {
    /// Command and arguments that run every test.
    pub argv: Vec<String>,
    /// What was detected or configured: `cargo`, `npm`, `pytest`, `go`, `shell`, `configured`.
    pub kind: String,
    /// Globs of test files.
    pub test_globs: Vec<String>,
    /// Globs of source files.
    pub source_globs: Vec<String>,
    /// Report of coverage that a run leaves in the workspace, where the project names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<String>,
}

/// `session.created`: everything the session was started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// How the model is asked.
    #[serde(default, skip_serializing_if = "ModelSettings::is_default")]
    pub settings: ModelSettings,
    /// Version of the program.
    pub program_version: String,
    /// The request that started it, where its sender named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<NamedRequest>,
}

/// A request that its sender named, so that a repeated one is done once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamedRequest {
    /// The sender's name for it.
    pub key: String,
    /// Digest of what was asked: the same name with another digest is another request.
    pub digest: Digest,
}

/// How a session asks its model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ModelSettings {
    /// Models of the same provider to ask, in order, when the session's own does not answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fallback_models: Vec<String>,
    /// Tokens that the model can read at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_tokens: Option<u64>,
    /// Tokens that schemas of tools may take in a request; above it they are loaded by a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_tokens: Option<u64>,
    /// How much it thinks before it answers: `low`, `medium` or `high`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
}

impl ModelSettings {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// One policy text in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PolicySource {
    /// Name shown in explanations.
    pub name: String,
    /// The text.
    pub text: BlobRef,
    /// Whether it has to allow each call itself, because nobody accepted it yet or beside such a one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub apart: bool,
    /// Whether what it allows counts for nothing, because the session was started before it was told.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stricter: bool,
}

/// `policy.proposed`, `policy.updated`: the policy of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionResumed {
    /// Fencing epoch of the new owner.
    pub epoch: u64,
    /// State the earlier owner left: `interrupted` or `at_rest`.
    pub found: String,
    /// What decides from here on, where that is not what decided before: a person accepted another policy for the
    /// project since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy: Vec<PolicySource>,
}

/// `session.imported`: a session that another log recorded was taken in. It is there to be read and forked;
/// nothing in it gives a right here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionImported {
    /// The session.
    pub imported: SessionId,
    /// Its branches.
    pub branches: u64,
    /// Its events.
    pub events: u64,
    /// Blobs that came with it.
    pub blobs: u64,
    /// Digest of the export's lines but the last.
    pub digest: Digest,
    /// A list, one digest a line, of the blobs that its events name, that did not come with it and that were
    /// not here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<BlobRef>,
}

/// `message.received`: a text for the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageReceived {
    /// The text.
    pub text: String,
}

/// `turn.started`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnStarted {
    /// Sequence of the turn that this one carries on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<Seq>,
    /// The request that started it, where its sender named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<NamedRequest>,
}

/// How a turn came to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// `budget.charged`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetCharged {
    /// What this act cost; of another branch, all that it has spent.
    pub usage: Usage,
    /// The other branch of the session; absent when this one spent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchId>,
}

/// `budget.exhausted`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetExhausted {
    /// `tokens`, `time`, `cost`, `calls` or `errors`.
    pub item: String,
}
