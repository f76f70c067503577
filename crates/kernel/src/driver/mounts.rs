//! What a sandbox gets besides its workspace: the toolchains that the project needs, each decided by
//! policy, a writable cache, and the environment that makes programs use them.

use std::path::{Path, PathBuf};

use glasshouse_model::body::PolicyDecided;
use glasshouse_model::syscall::name;
use glasshouse_model::{Call, Draft, Kind, Principal, PrincipalKind, TenantId};
use glasshouse_policy::Policy;
use glasshouse_sandbox::ReadOnlyMount;
use glasshouse_sandbox::toolchain::{self, Homes, Inside, ToolMount};
use glasshouse_sandbox::view;
use serde::Serialize;

use super::Kernel;
use super::demands::{Place, decide_uncounted};
use crate::Result;

/// Where a sandbox finds the branch's writable cache.
pub(super) const CACHE_TARGET: &str = "/cache";

/// A toolchain that a project needs and this user has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Toolchain {
    /// Its name in decisions.
    pub name: String,
    /// Directory outside.
    pub source: PathBuf,
    /// Where commands find it.
    pub target: PathBuf,
    /// Whether the policy of the project lets it be mounted.
    pub is_allowed: bool,
}

impl Kernel {
    /// What a sandbox on a project would have mounted to read, each as the project's policy decides it now.
    ///
    /// # Errors
    /// As [`Kernel::project_policy`]; the policy's load errors.
    pub fn toolchains(&self, project: &Path) -> Result<Vec<Toolchain>> {
        let policy = self.project_rules(project)?;
        let tools = tools_of(project);
        let (allowed, _) = permitted(&policy, self.log().tenant(), &tools);
        let told = tools.into_iter().map(|tool| Toolchain {
            is_allowed: allowed.contains(&tool),
            name: tool.name,
            source: tool.source,
            target: tool.target,
        });
        Ok(told.collect())
    }
}

/// Where a sandbox finds things.
fn inside() -> Inside {
    Inside {
        workspace: PathBuf::from(view::WORKSPACE_MOUNT),
        cache: PathBuf::from(CACHE_TARGET),
        tools: PathBuf::from("/opt/tools"),
    }
}

/// The toolchains that a project needs, where this user has them.
pub(super) fn tools_of(project: &Path) -> Vec<ToolMount> {
    let home =
        std::env::var_os("HOME").map_or_else(|| PathBuf::from("/nonexistent"), PathBuf::from);
    let homes = Homes::new(&home, |name| std::env::var_os(name).map(PathBuf::from));
    toolchain::detect(project, &homes, &inside())
}

/// Decides each mount; what is not allowed is not mounted. The second part are the decisions' events.
pub(super) fn permitted(
    policy: &Policy,
    tenant: &TenantId,
    tools: &[ToolMount],
) -> (Vec<ToolMount>, Vec<Draft>) {
    let mut drafts = Vec::new();
    let allowed = tools.iter().filter(|tool| {
        let kernel = Principal::new(PrincipalKind::Kernel, "kernel", tenant.clone());
        let mut call = Call::new(name::SANDBOX_MOUNT, kernel);
        call.host_path = Some(tool.source.display().to_string());
        let decision = decide_uncounted(policy, &call, Place::Kernel);
        let allowed = decision.is_allowed();
        let subject = Some(format!("{}: {}", tool.name, tool.source.display()));
        let body = PolicyDecided::new(None, call, subject, decision);
        drafts.push(Draft::new(Kind::PolicyDecided, &body));
        allowed
    });
    (allowed.cloned().collect(), drafts)
}

/// A toolchain as a mount.
pub(super) fn read_only(tool: &ToolMount) -> ReadOnlyMount {
    ReadOnlyMount { source: tool.source.clone(), target: tool.target.clone() }
}

/// The environment that makes programs use the toolchains and stay offline.
pub(super) fn environment(tools: &[ToolMount]) -> Vec<(String, String)> {
    toolchain::environment(tools, &inside()).into_iter().collect()
}
