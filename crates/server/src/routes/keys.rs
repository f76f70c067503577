//! Keys of a tenant: make, list, rotate, revoke. A key's text is in the answer that made it, and nowhere else.

use std::collections::BTreeMap;

use glasshouse_kernel::Kernel;
use glasshouse_kernel::driver::{IssuedKey, KeyRow, KeyTerms, Rotation};
use glasshouse_model::{PrincipalKind, TenantId};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ask::Ask;
use crate::page::{self, Order};
use crate::reply::Reply;
use crate::service::Service;
use crate::{Result, clock};

const US_PER_S: u64 = 1_000_000;

/// A key as it is shown: all but what it is compared with.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Key")]
pub(crate) struct View<'a> {
    key: &'a str,
    name: Option<&'a str>,
    roles: &'a [String],
    is_agent: bool,
    created_us: u64,
    expires_us: Option<u64>,
    revoked_us: Option<u64>,
    replaces: Option<&'a str>,
    is_live: bool,
    /// Only in the answer that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

fn view<'a>(row: &'a KeyRow, text: Option<&'a str>) -> View<'a> {
    View {
        key: &row.key,
        name: row.name.as_deref(),
        roles: &row.roles,
        is_agent: row.is_agent,
        created_us: row.created_us,
        expires_us: row.expires_us,
        revoked_us: row.revoked_us,
        replaces: row.replaces.as_deref(),
        is_live: row.is_live(clock::now_us()),
        text,
    }
}

fn made(issued: &IssuedKey) -> Reply {
    Reply::json(StatusCode::CREATED, &view(&issued.row, Some(&issued.text)))
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Keys")]
pub(crate) struct List<'a> {
    keys: Vec<View<'a>>,
    /// Cursor of the next page; `null` on the last one.
    next: Option<String>,
}

/// Keys, oldest first, ended ones too.
pub(crate) fn list(service: &Service, ask: &Ask) -> Result<Reply> {
    let query: page::Query = ask.query()?;
    let access = service.keys.access()?;
    let place = |row: &&KeyRow| (row.created_us, row.key.clone());
    let page = page::page(access.keys.values().collect(), &query.wanted(), Order::Rising, place)?;
    let keys = page.items.into_iter().map(|row| view(row, None)).collect();
    Ok(Reply::ok(&List { keys, next: page.next }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewKey")]
#[serde(deny_unknown_fields)]
pub(crate) struct Create {
    /// What it is for.
    name: Option<String>,
    /// `viewer`, `operator`, `approver`, `auditor`, `admin`.
    roles: Vec<String>,
    /// Whether an agent uses it, who never answers a question.
    #[serde(default)]
    is_agent: bool,
    /// How long it is good for; without it until it is revoked.
    lifetime_s: Option<u64>,
}

/// Makes a key.
pub(crate) fn create(service: &Service, ask: &Ask) -> Result<Reply> {
    create_in(&service.kernel, ask)
}

pub(super) fn create_in(kernel: &Kernel, ask: &Ask) -> Result<Reply> {
    let Create { name, roles, is_agent, lifetime_s } = ask.json()?;
    let lifetime_us = lifetime_s.map(|seconds| seconds.saturating_mul(US_PER_S));
    let terms = KeyTerms { name, roles, is_agent, lifetime_us };
    Ok(made(&kernel.create_key(&terms, ask.principal()?)?))
}

fn key(ask: &Ask) -> String {
    ask.parts.get("key").cloned().unwrap_or_default()
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "KeyRotation")]
#[serde(deny_unknown_fields)]
pub(crate) struct Rotate {
    /// How long the old one may still be used; without it not at all.
    #[serde(default)]
    grace_s: u64,
    /// How long the new one is good for; without it as long as the old one was when it was made.
    lifetime_s: Option<u64>,
}

/// Makes a key in the place of another one.
pub(crate) fn rotate(service: &Service, ask: &Ask) -> Result<Reply> {
    let Rotate { grace_s, lifetime_s } = ask.json_or_default()?;
    let rotation = Rotation { grace_us: grace_s.saturating_mul(US_PER_S) };
    let lifetime_us = lifetime_s.map(|seconds| seconds.saturating_mul(US_PER_S));
    let by = ask.principal()?;
    Ok(made(&service.kernel.rotate_key(&key(ask), rotation, lifetime_us, by)?))
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "KeyRevoked")]
pub(crate) struct Revoked {
    key: String,
    /// Whether it could be used until now.
    changed: bool,
}

/// Takes a key back. Doing it again changes nothing.
pub(crate) fn revoke(service: &Service, ask: &Ask) -> Result<Reply> {
    let key = key(ask);
    let changed = service.kernel.revoke_key(&key, ask.principal()?)?;
    Ok(Reply::ok(&Revoked { key, changed }))
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Whoami<'a> {
    tenant: &'a TenantId,
    #[serde(rename = "type")]
    kind: PrincipalKind,
    id: &'a str,
    /// Limits by the names of the quotas.
    quotas: &'a BTreeMap<String, u64>,
    /// The least careful profile under which the tenant's plans are shown.
    profile: Option<&'a str>,
}

/// Who asks, and what they may do.
pub(crate) fn whoami(_: &Service, ask: &Ask) -> Result<Reply> {
    let principal = ask.principal()?;
    Ok(Reply::ok(&Whoami {
        tenant: &principal.tenant,
        kind: principal.kind,
        id: &principal.id,
        quotas: &ask.tenant.quotas,
        profile: ask.tenant.profile.as_deref(),
    }))
}
