//! `keys` and `tenants`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use glasshouse_model::TenantId;

use super::time_limit_ms;

/// `keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key; its text is shown once
    Create(NewKeyArguments),
    /// List the keys of a tenant, ended ones too
    List {
        #[command(flatten)]
        of: OfTenant,
    },
    /// Make a key in the place of another one
    Rotate {
        /// Id of the key
        key: String,
        /// How long the old one may still be used, for example 24h (default: not at all)
        #[arg(long, value_name = "TIME", value_parser = time_limit_ms)]
        grace: Option<u64>,
        /// How long the new one is good for, for example 90d (default: as long as the old one was)
        #[arg(long, value_name = "TIME", value_parser = time_limit_ms)]
        expires: Option<u64>,
        #[command(flatten)]
        of: OfTenant,
    },
    /// Take a key back
    Revoke {
        /// Id of the key
        key: String,
        #[command(flatten)]
        of: OfTenant,
    },
}

/// Whose keys, and how they are told.
#[derive(Debug, Clone, Args)]
pub(crate) struct OfTenant {
    /// Tenant (default: the installation itself)
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<TenantId>,
    /// Data as JSON lines on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// `keys create`.
#[derive(Debug, Args)]
pub(crate) struct NewKeyArguments {
    /// Role: viewer, operator, approver, auditor or admin; may be given more than once
    #[arg(long, value_name = "ROLE", required = true)]
    pub(crate) role: Vec<String>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// How long it is good for, for example 90d (default: until it is revoked)
    #[arg(long, value_name = "TIME", value_parser = time_limit_ms)]
    pub(crate) expires: Option<u64>,
    /// An agent uses it: it never answers a question, whatever its roles say
    #[arg(long)]
    pub(crate) agent: bool,
    #[command(flatten)]
    pub(crate) of: OfTenant,
}

/// `tenants`.
#[derive(Debug, Subcommand)]
pub(crate) enum TenantsCommand {
    /// Make a tenant: a log, keys and limits of its own
    Create(TenantArguments),
    /// List the tenants, disabled ones too
    List {
        /// Data as JSON lines on stdout
        #[arg(long)]
        json: bool,
    },
    /// Set what a tenant may do, and open one that was disabled; what is not given stays
    Update(TenantChange),
    /// Let nobody use a tenant any more; what it recorded stays
    Disable {
        /// Its name
        tenant: TenantId,
        /// Data as JSON on stdout
        #[arg(long)]
        json: bool,
    },
}

/// `tenants create` and `update`.
#[derive(Debug, Args)]
pub(crate) struct TenantArguments {
    /// Its name: lower-case letters, digits, `-` and `_`
    pub(crate) tenant: TenantId,
    /// The least careful profile under which its plans are shown
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// A limit, for example turns_per_day=100; may be given more than once
    #[arg(long, value_name = "NAME=N", value_parser = quota)]
    pub(crate) quota: Vec<(String, u64)>,
    /// A directory below which its projects lie; may be given more than once
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Vec<PathBuf>,
    /// A policy file whose rules are in force in all its projects, beside theirs
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Data as JSON on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tenants update`.
#[derive(Debug, Args)]
pub(crate) struct TenantChange {
    #[command(flatten)]
    pub(crate) terms: TenantArguments,
    /// What it has no more: profile, quotas, roots or policy; may be given more than once
    #[arg(long, value_name = "PART", value_enum)]
    pub(crate) clear: Vec<TenantPart>,
}

/// A part of what a tenant may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TenantPart {
    /// The least careful profile.
    Profile,
    /// All limits.
    Quotas,
    /// The directories of its projects.
    Roots,
    /// Its rules.
    Policy,
}

fn quota(text: &str) -> Result<(String, u64), String> {
    let parts = text.split_once('=').and_then(|(name, limit)| Some((name, limit.parse().ok()?)));
    let (name, limit) = parts.ok_or("it is a name, `=` and a whole number")?;
    Ok((name.to_owned(), limit))
}
