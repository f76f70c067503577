//! Tenants of the server. Only an admin of the installation itself sees them.

use std::collections::BTreeMap;
use std::sync::Arc;

use glasshouse_kernel::codes;
use glasshouse_kernel::driver::{NewTenant, TenantRow};
use glasshouse_model::TenantId;
use hyper::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::keys;
use crate::ask::Ask;
use crate::reply::Reply;
use crate::service::Service;
use crate::{Error, Result};

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Tenants")]
pub(crate) struct List<'a> {
    tenants: Vec<&'a TenantRow>,
}

/// Every tenant, disabled ones too.
pub(crate) fn list(service: &Service, _: &Ask) -> Result<Reply> {
    let access = service.keys.access()?;
    Ok(Reply::ok(&List { tenants: access.tenants.values().collect() }))
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
    ask.part("tenant", |text| {
        Error::new(codes::TENANT_NOT_FOUND, format!("there is no tenant {text}"))
    })
}

/// Changes what a tenant may do.
pub(crate) fn update(service: &Service, ask: &Ask) -> Result<Reply> {
    let new = NewTenant::from(ask.json::<Terms>()?);
    let changed = |_: Option<&TenantRow>| new.clone();
    Ok(Reply::ok(&service.kernel.update_tenant(&tenant(ask)?, changed, ask.principal()?)?))
}

/// Lets nobody use a tenant any more. What it recorded stays.
pub(crate) fn disable(service: &Service, ask: &Ask) -> Result<Reply> {
    Ok(Reply::ok(&service.kernel.disable_tenant(&tenant(ask)?, ask.principal()?)?))
}

/// Makes a key of a tenant: its first one.
pub(crate) fn create_key(_: &Service, ask: &Ask) -> Result<Reply> {
    let tenant = tenant(ask)?;
    let found = match &ask.shared {
        Some(shared) => shared.tenant(&tenant)?,
        None => None,
    };
    let missing = || Error::new(codes::TENANT_NOT_FOUND, format!("there is no tenant {tenant}"));
    let (service, _) = found.ok_or_else(missing)?;
    keys::create_in(&Arc::clone(&service.kernel), ask)
}
