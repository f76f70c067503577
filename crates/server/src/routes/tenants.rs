//! Tenants of the server. Only an admin of the installation itself sees them.

use std::collections::BTreeMap;
use std::sync::Arc;

use glasshouse_kernel::codes;
use glasshouse_kernel::driver::{NewTenant, TenantRow};
use glasshouse_model::{Digest, TenantId};
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::keys;
use crate::ask::Ask;
use crate::page::{self, Order};
use crate::reply::{Reply, json_bytes};
use crate::service::Service;
use crate::{Error, Result};

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Tenants")]
pub(crate) struct List<'a> {
    tenants: Vec<&'a TenantRow>,
    /// Cursor of the next page; `null` on the last one.
    next: Option<String>,
}

/// Tenants by name, disabled ones too.
pub(crate) fn list(service: &Service, ask: &Ask) -> Result<Reply> {
    let query: page::Query = ask.query()?;
    let access = service.keys.access()?;
    let place = |row: &&TenantRow| (0, row.tenant.to_string());
    let page =
        page::page(access.tenants.values().collect(), &query.wanted(), Order::Rising, place)?;
    Ok(Reply::ok(&List { tenants: page.items, next: page.next }))
}

/// One tenant. Its entity tag says what its terms are.
pub(crate) fn show(service: &Service, ask: &Ask) -> Result<Reply> {
    let name = tenant(ask)?;
    let access = service.keys.access()?;
    let row = access.tenants.get(&name).ok_or_else(|| no_tenant(name.as_str()))?;
    Ok(Reply::ok(row).tagged(&tag_of(row), ask.if_none_match()))
}

/// The entity tag of a tenant as it is. Terms that come again have another one: their event is part of it.
fn tag_of(row: &TenantRow) -> String {
    Digest::of(&json_bytes(row)).hex()
}

fn no_tenant(text: &str) -> Error {
    Error::new(codes::TENANT_NOT_FOUND, format!("there is no tenant {text}"))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewTenant")]
#[serde(deny_unknown_fields)]
pub(crate) struct Create {
    /// Its name: lower-case letters, digits, `-` and `_`.
    tenant: TenantId,
    /// The least careful profile under which its plans are shown.
    profile: Option<String>,
    /// Limits by the names of the quotas.
    #[serde(default)]
    quotas: BTreeMap<String, u64>,
    /// Directories below which its projects lie; absolute paths.
    #[serde(default)]
    roots: Vec<String>,
    /// Rules that are in force in all its projects, beside theirs: the text of a policy file.
    policy: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "TenantTerms")]
#[serde(deny_unknown_fields)]
pub(crate) struct Terms {
    /// The least careful profile under which its plans are shown.
    profile: Option<String>,
    /// Limits by the names of the quotas.
    #[serde(default)]
    quotas: BTreeMap<String, u64>,
    /// Directories below which its projects lie; absolute paths.
    #[serde(default)]
    roots: Vec<String>,
    /// Rules that are in force in all its projects, beside theirs: the text of a policy file.
    policy: Option<String>,
}

impl From<Terms> for NewTenant {
    fn from(Terms { profile, quotas, roots, policy }: Terms) -> Self {
        Self { profile, quotas, roots, policy }
    }
}

/// Makes a tenant.
pub(crate) fn create(service: &Service, ask: &Ask) -> Result<Reply> {
    let Create { tenant, profile, quotas, roots, policy } = ask.json()?;
    let new = NewTenant { profile, quotas, roots, policy };
    let row = service.kernel.create_tenant(&tenant, &new, ask.principal()?)?;
    let place = format!("/v1/tenants/{tenant}");
    Ok(Reply::json(StatusCode::CREATED, &row).header("location", &place))
}

fn tenant(ask: &Ask) -> Result<TenantId> {
    ask.part("tenant", no_tenant)
}

/// Changes what a tenant may do. Of two who write at a time one is refused, where both say what they knew.
pub(crate) fn update(service: &Service, ask: &Ask) -> Result<Reply> {
    let new = NewTenant::from(ask.json::<Terms>()?);
    let changed = |row: Option<&TenantRow>| -> Result<NewTenant> {
        ask.check_match(&row.map(tag_of).unwrap_or_default())?;
        Ok(new.clone())
    };
    let row = service.kernel.change_tenant(&tenant(ask)?, changed, ask.principal()?)?;
    Ok(Reply::ok(&row).tagged(&tag_of(&row), None))
}

/// Lets nobody use a tenant any more. What it recorded stays.
pub(crate) fn disable(service: &Service, ask: &Ask) -> Result<Reply> {
    let may = |row: &TenantRow| ask.check_match(&tag_of(row));
    let row = service.kernel.disable_tenant(&tenant(ask)?, may, ask.principal()?)?;
    Ok(Reply::ok(&row).tagged(&tag_of(&row), None))
}

/// Makes a key of a tenant: its first one.
pub(crate) fn create_key(_: &Service, ask: &Ask) -> Result<Reply> {
    let tenant = tenant(ask)?;
    let found = match &ask.shared {
        Some(shared) => shared.tenant(&tenant)?,
        None => None,
    };
    let (service, _) = found.ok_or_else(|| no_tenant(tenant.as_str()))?;
    keys::create_in(&Arc::clone(&service.kernel), ask)
}
