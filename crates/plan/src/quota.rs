//! Quotas: how much each tenant may run at once and a minute.
//!
//! Pure rules over a time that the caller gives; the host keeps the state and asks before it
//! registers or runs anything.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::codes;
use crate::error::Error;

/// Length of the window that executions are counted in.
pub const WINDOW_MS: u64 = 60_000;
/// Most tenants that are remembered; those that are idle for a window are forgotten first.
pub const MAX_TENANTS: usize = 10_000;
/// Tenant of a caller without a name.
pub const ANONYMOUS: &str = "anonymous";

/// What each tenant may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaPolicy {
    /// Executions that begin in one window.
    pub max_executions_per_minute: u32,
    /// Executions under way at the same time.
    pub max_concurrent_executions: u32,
}

impl Default for QuotaPolicy {
    fn default() -> Self {
        Self { max_executions_per_minute: 120, max_concurrent_executions: 4 }
    }
}

/// What one tenant has used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// When the window began; it begins with the first execution after the one before has ended.
    pub window_started_at_ms: u64,
    /// Executions that began in the window.
    pub executions_in_window: u32,
    /// Executions under way.
    pub concurrent_executions: u32,
}

/// The quotas of all tenants.
///
/// ```
/// use glasshouse_plan::quota::{Governor, QuotaPolicy};
/// let policy = QuotaPolicy { max_concurrent_executions: 1, ..QuotaPolicy::default() };
/// let mut governor = Governor::new(policy);
/// governor.acquire("acme", 0)?;
/// assert_eq!(governor.acquire("acme", 1).unwrap_err().code(), "plan_quota_exceeded");
/// governor.release("acme");
/// governor.acquire("acme", 2)?;
/// # Ok::<(), glasshouse_plan::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Governor {
    policy: QuotaPolicy,
    tenants: BTreeMap<String, Usage>,
}

impl Governor {
    /// Quotas with nothing used yet.
    #[must_use]
    pub fn new(policy: QuotaPolicy) -> Self {
        Self { policy, tenants: BTreeMap::new() }
    }

    /// Takes the right to begin one execution.
    ///
    /// # Errors
    ///
    /// `plan_quota_exceeded` with the limit and, where waiting helps, `retry_after_ms`.
    pub fn acquire(&mut self, tenant: &str, now_ms: u64) -> Result<(), Error> {
        self.forget_idle(now_ms);
        let name = name(tenant);
        let full = self.tenants.len() >= MAX_TENANTS;
        if full && !self.tenants.contains_key(name) {
            return Err(exceeded("tenants", MAX_TENANTS));
        }
        let usage = self.tenants.entry(name.to_owned()).or_insert(Usage {
            window_started_at_ms: now_ms,
            executions_in_window: 0,
            concurrent_executions: 0,
        });
        let age_ms = now_ms.saturating_sub(usage.window_started_at_ms);
        if age_ms >= WINDOW_MS {
            usage.window_started_at_ms = now_ms;
            usage.executions_in_window = 0;
        }
        if usage.concurrent_executions >= self.policy.max_concurrent_executions {
            let max = self.policy.max_concurrent_executions;
            return Err(exceeded("concurrent_executions", max as usize));
        }
        if usage.executions_in_window >= self.policy.max_executions_per_minute {
            let max = self.policy.max_executions_per_minute;
            let error = exceeded("executions_per_minute", max as usize);
            return Err(error.with("retry_after_ms", WINDOW_MS - age_ms.min(WINDOW_MS)));
        }
        usage.executions_in_window += 1;
        usage.concurrent_executions += 1;
        Ok(())
    }

    /// Gives the right back when the execution has ended; each one once.
    pub fn release(&mut self, tenant: &str) {
        if let Some(usage) = self.tenants.get_mut(name(tenant)) {
            usage.concurrent_executions = usage.concurrent_executions.saturating_sub(1);
        }
    }

    /// What each tenant has used, by name.
    pub fn usage(&self) -> impl Iterator<Item = (&str, &Usage)> {
        self.tenants.iter().map(|(name, usage)| (name.as_str(), usage))
    }

    fn forget_idle(&mut self, now_ms: u64) {
        if self.tenants.len() >= MAX_TENANTS {
            self.tenants.retain(|_, usage| {
                usage.concurrent_executions > 0
                    || now_ms.saturating_sub(usage.window_started_at_ms) < WINDOW_MS
            });
        }
    }
}

fn name(tenant: &str) -> &str {
    let tenant = tenant.trim();
    if tenant.is_empty() { ANONYMOUS } else { tenant }
}

fn exceeded(limit: &'static str, max: usize) -> Error {
    Error::new(codes::QUOTA_EXCEEDED, "the tenant has used up its quota")
        .why(format!("{limit}: limit {max}"))
        .with("limit", limit)
        .with("max", max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn governor(per_minute: u32, concurrent: u32) -> Governor {
        Governor::new(QuotaPolicy {
            max_executions_per_minute: per_minute,
            max_concurrent_executions: concurrent,
        })
    }

    #[test]
    fn concurrency_is_asked_before_the_rate_and_both_end() {
        let mut all = governor(3, 2);
        assert!(all.acquire("a", 0).is_ok());
        assert!(all.acquire(" a ", 0).is_ok());
        let error = all.acquire("a", 0).unwrap_err();
        assert_eq!(error.report().context["limit"], "concurrent_executions");
        assert!(all.acquire("b", 0).is_ok());
        all.release("a");
        assert!(all.acquire("a", WINDOW_MS - 1).is_ok());
        all.release("a");
        let error = all.acquire("a", WINDOW_MS - 1).unwrap_err();
        assert_eq!(error.report().context["retry_after_ms"], 1);
        assert!(all.acquire("a", WINDOW_MS).is_ok());
    }

    #[test]
    fn idle_tenants_are_forgotten() {
        let mut all = governor(1, 1);
        for number in 0..MAX_TENANTS {
            all.acquire(&number.to_string(), 0).unwrap();
        }
        assert!(all.acquire("one more", 0).is_err());
        (0..MAX_TENANTS).for_each(|number| all.release(&number.to_string()));
        assert!(all.acquire("one more", WINDOW_MS).is_ok());
        assert_eq!(all.usage().count(), 1);
    }
}
