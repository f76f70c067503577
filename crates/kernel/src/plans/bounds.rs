//! How much code of a plan may use: what the plan asks for, within what its profile allows.

use glasshouse_plan::{Plan, Profile};
use glasshouse_script::{GraphLimits, Limits};

use super::work::Means;

/// Time of code that asks for none.
const DEFAULT_TIME_MS: u64 = 1_500;

/// How much a plan may load: what it asks for, within what the profile allows.
pub(super) fn graph_limits(plan: &Plan, profile: &Profile) -> GraphLimits {
    let defaults = GraphLimits::default();
    let asked = plan.capabilities().and_then(|asked| asked.get("maxImports"));
    let asked = asked.and_then(|asked| asked.to_value().as_f64());
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of modules; what is beyond the range becomes its end"
    )]
    let asked = asked.map_or(defaults.modules, |asked| asked as usize);
    GraphLimits { modules: asked.min(profile.max_allowed_imports), ..defaults }
}

/// What the plan asks for, within what the profile allows.
pub(super) fn limits(plan: &Plan, profile: &Profile) -> Limits {
    let asked = plan.capabilities().and_then(|asked| asked.get("maxExecutionMs"));
    let asked = asked.and_then(|asked| asked.to_value().as_f64());
    let most = profile.max_allowed_execution_ms;
    let defaults = Limits::default();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "clamped to the range of a profile"
    )]
    let time_ms = asked
        .map_or(DEFAULT_TIME_MS.min(most as u64), |asked| asked.clamp(1.0, most as f64) as u64);
    Limits { time_ms, ..defaults }
}

/// The same, for a run that may be a replay.
pub(super) fn limits_of_run(plan: &Plan, means: &Means<'_>) -> Limits {
    let limits = limits(plan, means.profile);
    Limits { time_ms: limits.time_ms.saturating_mul(means.patience), ..limits }
}
