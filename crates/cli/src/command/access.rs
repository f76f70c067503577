//! `glasshouse keys` and `glasshouse tenants`: who may use the server.

use glasshouse_kernel::Kernel;
use glasshouse_kernel::driver::{
    IssuedKey, KeyRow, KeyTerms, NewTenant, Rotation, TenantRow, now_us,
};
use glasshouse_model::{Exit, TenantId};

use crate::args::{
    KeysCommand, NewKeyArguments, OfTenant, TenantArguments, TenantChange, TenantPart,
    TenantsCommand,
};
use crate::error::Error;
use crate::event_line::date;
use crate::{home, output};

const US_PER_MS: u64 = 1_000;

/// Runs `keys`.
pub(crate) fn keys(command: KeysCommand) -> Result<u8, Error> {
    match command {
        KeysCommand::Create(NewKeyArguments { role, name, expires, agent, of }) => {
            let kernel = kernel(&of)?;
            let lifetime_us = expires.map(|ms| ms.saturating_mul(US_PER_MS));
            let terms = KeyTerms { name, roles: role, is_agent: agent, lifetime_us };
            Ok(made(&kernel.create_key(&terms, &kernel.person())?, of.json))
        }
        KeysCommand::List { of } => {
            for row in kernel(&of)?.access()?.keys.values() {
                show_key(row, of.json);
            }
            Ok(Exit::Done.status())
        }
        KeysCommand::Rotate { key, grace, expires, of } => {
            let kernel = kernel(&of)?;
            let rotation = Rotation { grace_us: grace.unwrap_or(0).saturating_mul(US_PER_MS) };
            let lifetime_us = expires.map(|ms| ms.saturating_mul(US_PER_MS));
            let by = kernel.person();
            Ok(made(&kernel.rotate_key(&key, rotation, lifetime_us, &by)?, of.json))
        }
        KeysCommand::Revoke { key, of } => {
            let kernel = kernel(&of)?;
            let changed = kernel.revoke_key(&key, &kernel.person())?;
            if of.json {
                output::json_line(&serde_json::json!({ "key": key, "changed": changed }));
            } else {
                output::note(if changed { "revoked" } else { "it had ended already" });
            }
            Ok(Exit::Done.status())
        }
    }
}

/// The log of a tenant that is known.
fn kernel(of: &OfTenant) -> Result<Kernel, Error> {
    let Some(tenant) = of.tenant.as_ref().filter(|tenant| **tenant != TenantId::local()) else {
        return home::kernel();
    };
    if !home::kernel()?.access()?.tenants.contains_key(tenant) {
        let what = format!("there is no tenant {tenant}");
        return Err(Error::new(glasshouse_kernel::codes::TENANT_NOT_FOUND, what));
    }
    home::kernel_of(tenant, &home::tenant_home(tenant)?)
}

fn made(issued: &IssuedKey, json: bool) -> u8 {
    if json {
        output::json_line(&serde_json::json!({
            "key": issued.row.key, "roles": issued.row.roles,
            "expires_us": issued.row.expires_us, "text": issued.text,
        }));
    } else {
        output::data(&issued.text);
        output::note("this is shown once: nothing here can show it again");
    }
    Exit::Done.status()
}

fn show_key(row: &KeyRow, json: bool) {
    let is_live = row.is_live(now_us());
    if json {
        output::json_line(&serde_json::json!({
            "key": row.key, "name": row.name, "roles": row.roles, "is_agent": row.is_agent,
            "created_us": row.created_us, "expires_us": row.expires_us,
            "revoked_us": row.revoked_us, "replaces": row.replaces, "is_live": is_live,
        }));
        return;
    }
    let state = if is_live { "live" } else { "ended" };
    let (roles, name) = (row.roles.join(","), row.name.as_deref().unwrap_or_default());
    let agent = if row.is_agent { " (agent)" } else { "" };
    let end = row.expires_us.filter(|_| is_live);
    let end = end.map(|end| format!("  until {}", date(end))).unwrap_or_default();
    let line = format!("{:<18} {state:<6} {roles}{agent}  {name}{end}", row.key);
    output::data(&output::visible(line.trim_end(), false));
}

/// Runs `tenants`.
pub(crate) fn tenants(command: TenantsCommand) -> Result<u8, Error> {
    let kernel = home::kernel()?;
    let by = kernel.person();
    match command {
        TenantsCommand::Create(arguments) => {
            let (tenant, new, json) = terms(arguments)?;
            show_tenant(&kernel.create_tenant(&tenant, &new, &by)?, json);
        }
        TenantsCommand::Update(TenantChange { terms: given, clear }) => {
            let (tenant, new, json) = terms(given)?;
            let changed = |old: Option<&TenantRow>| {
                old.map_or_else(NewTenant::default, |row| kept(row, &clear)).changed_by(new.clone())
            };
            show_tenant(&kernel.update_tenant(&tenant, changed, &by)?, json);
        }
        TenantsCommand::Disable { tenant, json } => {
            let may = |_: &_| Ok::<(), glasshouse_kernel::Error>(());
            show_tenant(&kernel.disable_tenant(&tenant, may, &by)?, json);
        }
        TenantsCommand::List { json } => {
            kernel.access()?.tenants.values().for_each(|row| show_tenant(row, json));
        }
    }
    Ok(Exit::Done.status())
}

fn terms(arguments: TenantArguments) -> Result<(TenantId, NewTenant, bool), Error> {
    let TenantArguments { tenant, profile, quota, root, policy, json } = arguments;
    let roots = root.iter().map(|root| root.display().to_string()).collect();
    let policy = policy.as_deref().map(read_policy).transpose()?;
    let quotas = quota.into_iter().collect();
    Ok((tenant, NewTenant { profile, quotas, roots, policy }, json))
}

/// What a tenant has and keeps.
fn kept(row: &TenantRow, clear: &[TenantPart]) -> NewTenant {
    let keeps = |part| !clear.contains(&part);
    let mut kept = NewTenant::default();
    if keeps(TenantPart::Profile) {
        kept.profile.clone_from(&row.profile);
    }
    if keeps(TenantPart::Quotas) {
        kept.quotas.clone_from(&row.quotas);
    }
    if keeps(TenantPart::Roots) {
        kept.roots.clone_from(&row.roots);
    }
    if keeps(TenantPart::Policy) {
        kept.policy.clone_from(&row.policy);
    }
    kept
}

fn show_tenant(row: &TenantRow, json: bool) {
    if json {
        output::json_line(row);
        return;
    }
    let state = if row.is_disabled { "disabled" } else { "open" };
    let quotas = row.quotas.iter().map(|(name, limit)| format!("{name}={limit}"));
    let profile = row.profile.iter().map(|profile| format!("profile={profile}"));
    let policy = row.policy.iter().map(|_| "with rules of its own".to_owned());
    let terms: Vec<_> =
        profile.chain(quotas).chain(row.roots.iter().cloned()).chain(policy).collect();
    let line = format!("{:<16} {state:<8} {}", row.tenant, terms.join(" "));
    output::data(&output::visible(line.trim_end(), false));
}

fn read_policy(file: &std::path::Path) -> Result<String, Error> {
    crate::input::text(file, crate::input::MAX_POLICY_BYTES)
}
