//! Who asks.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Actor, TenantId};

/// What kind of principal asks.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PrincipalKind {
    /// A person.
    User,
    /// A model acting in a session. Never approves anything.
    Agent,
    /// A plugin.
    Plugin,
    /// Glasshouse itself.
    Kernel,
}

/// Who asks for a syscall, always with a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Principal {
    /// Kind.
    #[serde(rename = "type")]
    pub kind: PrincipalKind,
    /// Name within its kind, for example `user:ada` is kind user, id `ada`.
    pub id: String,
    /// Tenant.
    pub tenant: TenantId,
    /// Capability tags on the identity (`core_plugin`, `trusted_write`, `third_party`, ...).
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
}

impl Principal {
    /// Makes a principal without tags.
    #[must_use]
    pub fn new(kind: PrincipalKind, id: &str, tenant: TenantId) -> Self {
        Self { kind, id: id.to_owned(), tenant, tags: BTreeSet::new() }
    }

    /// The form in which events name it.
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor { kind: self.kind, id: self.id.clone() }
    }
}
