//! Bodies of events about rights, the network, plugins, tenants and their keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Actor, CallId, Digest, TenantId};

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
}

/// `key.*`: a right to use the server. The secret itself is nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyEvent {
    /// Id of the key.
    pub key: String,
    /// Roles that it has.
    pub roles: Vec<String>,
    /// When it ends, microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_us: Option<u64>,
}
