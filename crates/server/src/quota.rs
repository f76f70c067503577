//! What a tenant may use. Each count is of the log, or of what is so at this moment.

use std::sync::atomic::{AtomicUsize, Ordering};

use glasshouse_kernel::driver::TenantRow;
use glasshouse_model::body::{QuotaUsed, Throttled};
use glasshouse_model::{Draft, Kind};

use crate::problem::RETRY_AFTER_S;
use crate::service::Service;
use crate::tally::{DAY_US, Day};
use crate::{Error, Result, clock, codes};

/// When there may be room again for what ends by itself, in seconds.
const SOON_S: u64 = 5;
/// When somebody may have deleted something, in seconds.
const LATER_S: u64 = 600;
const US_PER_S: u64 = 1_000_000;

/// A quota that is used up.
#[derive(Debug)]
pub(crate) struct Exhausted(QuotaUsed);

impl Exhausted {
    pub(crate) fn new(quota: &str, limit: u64, used: u64, retry_after_s: u64) -> Self {
        Self(QuotaUsed { quota: quota.to_owned(), limit, used, retry_after_s })
    }

    /// Which one.
    pub(crate) fn quota(&self) -> &str {
        &self.0.quota
    }

    /// What tells the log.
    pub(crate) fn draft(&self) -> Draft {
        Draft::new(Kind::QuotaThrottled, &Throttled::Request(self.0.clone()))
    }
}

impl From<Exhausted> for Error {
    fn from(Exhausted(used): Exhausted) -> Self {
        Self::new(codes::QUOTA_EXHAUSTED, format!("the tenant's quota {} is used up", used.quota))
            .why(format!("{} of {} are in use", used.used, used.limit))
            .with("quota", used.quota.as_str())
            .with("limit", used.limit)
            .with(RETRY_AFTER_S, used.retry_after_s)
    }
}

/// Counts one who is about to use something, for as long as it lives.
pub(crate) struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    /// Counts one more; the number is of those before it.
    pub(crate) fn new(count: &'a AtomicUsize) -> (Self, u64) {
        let before = count.fetch_add(1, Ordering::SeqCst);
        (Self(count), before as u64)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What of a day counts.
type CountOfDay = fn(&Day) -> u64;

/// Whether a tenant may begin something that costs. `before` are those about to begin as well.
///
/// # Errors
/// What reading the log answers. The quota that is used up comes as a value.
pub(crate) fn check(
    service: &Service,
    tenant: &TenantRow,
    before: u64,
) -> Result<Option<Exhausted>> {
    let of = |name: &str| tenant.quotas.get(name).copied();
    let daily: [(&str, CountOfDay); 3] = [
        ("turns_per_day", |day| day.turns),
        ("tokens_per_day", |day| {
            day.total.tokens.values().fold(0, |sum, some| some.saturating_add(sum))
        }),
        ("cost_micros_per_day", |day| day.total.cost_micros),
    ];
    if daily.iter().any(|(name, _)| of(name).is_some()) {
        let today = service.tally.today()?;
        for (name, count) in daily {
            // What is about to begin is no token yet, but a turn.
            let begun = if name == "turns_per_day" { before } else { 0 };
            let used = count(&today).saturating_add(begun);
            if let Some(limit) = of(name).filter(|limit| used >= *limit) {
                return Ok(Some(Exhausted::new(name, limit, used, until_midnight_s())));
            }
        }
    }
    let running = service.desk.running() as u64;
    if let Some(limit) = of("running_turns").filter(|limit| running >= *limit) {
        return Ok(Some(Exhausted::new("running_turns", limit, running, SOON_S)));
    }
    if let Some(limit) = of("stored_bytes") {
        let used = service.kernel.log().disk_bytes()?;
        if used >= limit {
            return Ok(Some(Exhausted::new("stored_bytes", limit, used, LATER_S)));
        }
    }
    Ok(None)
}

/// Whether a tenant may have one more of what is so now.
pub(crate) fn check_now(
    tenant: &TenantRow,
    name: &str,
    used: u64,
) -> std::result::Result<(), Exhausted> {
    match tenant.quotas.get(name) {
        Some(limit) if used >= *limit => Err(Exhausted::new(name, *limit, used, SOON_S)),
        _ => Ok(()),
    }
}

fn until_midnight_s() -> u64 {
    let now = clock::now_us();
    (DAY_US - now % DAY_US).div_ceil(US_PER_S)
}
