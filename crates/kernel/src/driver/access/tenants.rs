//! Tenants: made, given other terms, disabled. Only the installation's own log tells of them.

use std::collections::BTreeMap;

use glasshouse_model::body::TenantEvent;
use glasshouse_model::{Draft, Kind, Principal, Seq, TenantId};
use glasshouse_plan::ProfileName;
use glasshouse_policy::Consent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ATTEMPTS;
use crate::driver::Kernel;
use crate::driver::place::real_path;
use crate::driver::rules::{of_tenant, shipped};
use crate::{Error, Result, codes};

/// The quotas that a tenant may have.
const QUOTAS: [&str; 8] = [
    "requests_per_minute",
    "turns_per_day",
    "tokens_per_day",
    "cost_micros_per_day",
    "running_turns",
    "queued_requests",
    "open_streams",
    "stored_bytes",
];
/// Longest policy of a tenant: each is held in memory.
const MAX_POLICY_BYTES: usize = 16 << 10;
/// Most directories of a tenant.
const MAX_ROOTS: usize = 64;

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Tenant")]
pub struct TenantRow {
    /// Its name.
    pub tenant: TenantId,
    /// The least careful profile under which its plans are shown.
    pub profile: Option<String>,
    /// Limits by the names of the quotas.
    pub quotas: BTreeMap<String, u64>,
    /// Directories below which its projects lie.
    pub roots: Vec<String>,
    /// Rules that are in force in all its projects, beside theirs: the text of a policy file.
    pub policy: Option<String>,
    /// Whether nobody may use it.
    pub is_disabled: bool,
    /// When it was made, microseconds since 1970.
    pub created_us: u64,
    /// Sequence of the event that says so, in the session `s_access`; 0 while none does.
    pub changed_seq: Seq,
}

/// What a tenant may do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTenant {
    /// The least careful profile under which its plans are shown.
    pub profile: Option<String>,
    /// Limits by the names of the quotas.
    pub quotas: BTreeMap<String, u64>,
    /// Directories below which its projects lie.
    pub roots: Vec<String>,
    /// Rules that are in force in all its projects, beside theirs: the text of a policy file.
    pub policy: Option<String>,
}

impl NewTenant {
    /// These terms with those that others give in the place of all of a kind.
    #[must_use]
    pub fn changed_by(self, given: Self) -> Self {
        let or =
            |kept: Vec<String>, given: Vec<String>| if given.is_empty() { kept } else { given };
        Self {
            profile: given.profile.or(self.profile),
            quotas: if given.quotas.is_empty() { self.quotas } else { given.quotas },
            roots: or(self.roots, given.roots),
            policy: given.policy.or(self.policy),
        }
    }
}

impl Kernel {
    /// Makes a tenant known. Only the installation's own log tells of tenants.
    ///
    /// # Errors
    /// `tenant_exists`, `tenant_invalid`; the log's errors.
    pub fn create_tenant(
        &self,
        tenant: &TenantId,
        new: &NewTenant,
        by: &Principal,
    ) -> Result<TenantRow> {
        let access = self.access()?;
        if *tenant == TenantId::local() || access.tenants.contains_key(tenant) {
            return Err(Error::new(codes::TENANT_EXISTS, format!("tenant {tenant} is there")));
        }
        self.tell_tenant(Kind::TenantCreated, tenant, new, access.head, by)
    }

    /// Changes what a tenant may do to what `changed` makes of its terms as they are; one that was disabled may be
    /// used again. Where something else was changed meanwhile, `changed` is asked again: of two changes none is
    /// undone. The installation itself has no terms before its first ones.
    ///
    /// # Errors
    /// `tenant_not_found`, `tenant_invalid`; the log's errors.
    pub fn update_tenant(
        &self,
        tenant: &TenantId,
        changed: impl Fn(Option<&TenantRow>) -> NewTenant,
        by: &Principal,
    ) -> Result<TenantRow> {
        self.change_tenant(tenant, |row| Ok::<_, Error>(changed(row)), by)
    }

    /// As [`Kernel::update_tenant`], where `changed` may refuse the terms as they are.
    ///
    /// # Errors
    /// As [`Kernel::update_tenant`]; as `changed`.
    pub fn change_tenant<E: From<Error>>(
        &self,
        tenant: &TenantId,
        changed: impl Fn(Option<&TenantRow>) -> std::result::Result<NewTenant, E>,
        by: &Principal,
    ) -> std::result::Result<TenantRow, E> {
        self.tell_changed(Kind::TenantUpdated, tenant, changed, by)
    }

    /// Tells of a tenant's terms, which follow from what they are, until nobody else told of any in between.
    fn tell_changed<E: From<Error>>(
        &self,
        kind: Kind,
        tenant: &TenantId,
        changed: impl Fn(Option<&TenantRow>) -> std::result::Result<NewTenant, E>,
        by: &Principal,
    ) -> std::result::Result<TenantRow, E> {
        for _ in 0..ATTEMPTS {
            let access = self.access()?;
            let row = access.tenants.get(tenant);
            if *tenant != TenantId::local() && row.is_none() {
                return Err(no_tenant(tenant).into());
            }
            match self.tell_tenant(kind.clone(), tenant, &changed(row)?, access.head, by) {
                Err(error) if error.is(glasshouse_log::codes::HEAD_CONFLICT) => {}
                told => return Ok(told?),
            }
        }
        Err(Error::new(codes::TURN_FAILED, "the tenant's terms could not be told of").into())
    }

    /// Lets nobody use a tenant any more, unless `may` refuses it as it is; what it recorded stays.
    ///
    /// # Errors
    /// `tenant_not_found`; the log's errors; as `may`.
    pub fn disable_tenant<E: From<Error>>(
        &self,
        tenant: &TenantId,
        may: impl Fn(&TenantRow) -> std::result::Result<(), E>,
        by: &Principal,
    ) -> std::result::Result<TenantRow, E> {
        if *tenant == TenantId::local() {
            return Err(no_tenant(tenant).into());
        }
        let same = |row: Option<&TenantRow>| {
            let row = row.ok_or_else(|| no_tenant(tenant))?;
            may(row)?;
            Ok(NewTenant {
                profile: row.profile.clone(),
                quotas: row.quotas.clone(),
                roots: row.roots.clone(),
                policy: row.policy.clone(),
            })
        };
        self.tell_changed(Kind::TenantDisabled, tenant, same, by)
    }

    fn tell_tenant(
        &self,
        kind: Kind,
        tenant: &TenantId,
        new: &NewTenant,
        head: Seq,
        by: &Principal,
    ) -> Result<TenantRow> {
        if *self.log.tenant() != TenantId::local() {
            return Err(no_tenant(tenant));
        }
        if *tenant == TenantId::local() && new.policy.is_some() {
            return Err(Error::new(
                codes::TENANT_INVALID,
                "the installation has no rules of its own",
            )
            .why("they would be in force for other tenants alone")
            .fix("put them into the policy of each project, or make a tenant"));
        }
        // Its terms stay what they are: a directory that is gone by now keeps nobody from disabling it.
        let roots = match kind {
            Kind::TenantDisabled => new.roots.clone(),
            _ => self.check_tenant(new)?,
        };
        let body = TenantEvent {
            tenant: tenant.clone(),
            profile: new.profile.clone(),
            quotas: new.quotas.clone(),
            roots,
            policy: new.policy.clone(),
        };
        // Of two that make it at a time one does.
        self.tell_access(vec![Draft::new(kind, &body).by(by.actor())], Some(head))?;
        self.access()?.tenants.remove(tenant).ok_or_else(|| no_tenant(tenant))
    }

    /// The directories of a tenant, without links; none may hold the log, or lie beside it.
    fn check_tenant(&self, new: &NewTenant) -> Result<Vec<String>> {
        let refuse =
            |why: String| Error::new(codes::TENANT_INVALID, "no such tenant can be").why(why);
        if let Some(profile) = &new.profile {
            profile.parse::<ProfileName>().map_err(|why| refuse(why.to_string()))?;
        }
        if let Some(name) = new.quotas.keys().find(|name| !QUOTAS.contains(&name.as_str())) {
            return Err(refuse(format!("`{name}` is no quota; there are {}", QUOTAS.join(", "))));
        }
        if let Some(policy) = &new.policy {
            if policy.len() > MAX_POLICY_BYTES {
                let bytes = policy.len();
                return Err(refuse(format!(
                    "its policy has {bytes} bytes, at most {MAX_POLICY_BYTES}"
                )));
            }
            // What cannot be used is told by its line.
            self.compile(&[shipped(Consent::Joint), of_tenant(policy.clone())])?;
        }
        if new.roots.len() > MAX_ROOTS {
            return Err(refuse(format!("{} directories, at most {MAX_ROOTS}", new.roots.len())));
        }
        let mut roots = Vec::new();
        for root in &new.roots {
            let path = std::path::Path::new(root);
            if !path.is_absolute() || !path.is_dir() {
                return Err(refuse(format!("{root} is no directory with an absolute path")));
            }
            let path = real_path(path);
            self.keep_apart(&path)?;
            roots.push(path.display().to_string());
        }
        Ok(roots)
    }
}

fn no_tenant(tenant: &TenantId) -> Error {
    Error::new(codes::TENANT_NOT_FOUND, format!("there is no tenant {tenant}"))
}
