//! Bodies of events about rights, the network, plugins, tenants and their keys.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Actor, BranchId, CallId, Digest, Seq, TenantId};

/// `grant.issued`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GrantIssued {
    /// Id of the grant.
    pub grant: String,
    /// `one_use`, `standing` or `sealed`.
    pub lifetime: String,
    /// Whom it is for.
    pub holder: Actor,
    /// Syscalls that it allows.
    pub operations: Vec<String>,
    /// What it is limited to, in the words of a policy match.
    pub scope: String,
    /// Most uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_uses: Option<u64>,
    /// When it ends, microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_us: Option<u64>,
    /// All that a standing grant is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<StandingTerms>,
}

/// How far a person's yes reaches.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum GrantScope {
    /// This call, once.
    #[default]
    Call,
    /// Calls like it, to the end of the turn.
    Turn,
    /// Calls like it on this branch of the session.
    Session,
    /// Calls like it in this project, in every session.
    Workspace,
}

impl GrantScope {
    /// Whether it is the one that every approval has.
    #[must_use]
    pub fn is_call(&self) -> bool {
        *self == Self::Call
    }
}

/// Which calls a grant is for, as a person is shown it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GrantRule {
    /// The `match` of a rule.
    pub matching: Value,
    /// Calls that it matches.
    #[serde(default)]
    pub matches: Vec<String>,
    /// Calls near to them that it does not match.
    #[serde(default)]
    pub not_matches: Vec<String>,
}

/// What a standing grant permits, and what it is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StandingTerms {
    /// How far it reaches.
    pub scope: GrantScope,
    /// Tenant of the callers.
    pub tenant: TenantId,
    /// Branch, for a turn or a session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchId>,
    /// Turn, for a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<Seq>,
    /// Directory of the project, for a workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Which repository that was, for a workspace: another one in the same directory is another project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Which calls.
    pub rule: GrantRule,
    /// What the approved call derived from; a call that derives from more is another one.
    #[serde(default)]
    pub labels: BTreeSet<String>,
    /// Policy under which it was given.
    pub policy_version: Digest,
    /// The person who gave it.
    pub approver: Actor,
    /// Most uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_uses: Option<u64>,
    /// First moment at which it is void, microseconds since 1970.
    pub expires_us: u64,
    /// Grant that it was derived from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

/// `grant.expired`, `grant.revoked`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GrantEnded {
    /// Id of the grant.
    pub grant: String,
    /// Why it was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `egress.connected`, `egress.denied`: one connection, or one request, of a sandbox to the outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Egress {
    /// The call that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    /// Host, lower case, without a final dot.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Method of the request, `CONNECT` for a tunnel.
    pub method: String,
    /// Path without its query; absent for a tunnel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Address that was dialled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Why it was denied: an error code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Bytes to the outside.
    #[serde(default)]
    pub sent_bytes: u64,
    /// Bytes from there.
    #[serde(default)]
    pub received_bytes: u64,
    /// How long it lasted.
    #[serde(default)]
    pub duration_us: u64,
}

/// `plugin.*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginEvent {
    /// Name of the plugin.
    pub plugin: String,
    /// Its version.
    pub version: String,
    /// Digest of its manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Digest>,
    /// Why it was rejected or disabled: an error code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// `tenant.*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TenantEvent {
    /// The tenant.
    pub tenant: TenantId,
    /// Policy profile in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// What it may use, by the names of its quotas; what is not named is not limited.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quotas: BTreeMap<String, u64>,
    /// Directories below which its projects lie.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<String>,
    /// Rules that are in force in all its projects, beside theirs: the text of a policy file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

/// `quota.throttled` of a request that a tenant's quota refused. The first of a minute is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaUsed {
    /// Which quota.
    pub quota: String,
    /// Its limit.
    pub limit: u64,
    /// What was in use.
    pub used: u64,
    /// Seconds after which there is room again.
    pub retry_after_s: u64,
}

/// `quota.throttled`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Throttled {
    /// A run of a plan that never began.
    Plan(Box<super::PlanShown>),
    /// A request.
    Request(QuotaUsed),
}

/// `key.*`: a right to use the server. The secret itself is nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyEvent {
    /// Id of the key.
    pub key: String,
    /// Roles that it has.
    pub roles: Vec<String>,
    /// When it ends, microseconds since 1970. Of a key that was revoked: until when it may still be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_us: Option<u64>,
    /// What it is for, in the words of whoever made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Digest of the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Whether an agent uses it, who never answers a question.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub is_agent: bool,
    /// The key in whose place it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
}
