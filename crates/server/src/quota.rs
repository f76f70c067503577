//! What a tenant may use. Each count is of the log, or of what is so at this moment.

use glasshouse_kernel::driver::TenantRow;
use glasshouse_model::body::{QuotaUsed, Throttled};
use glasshouse_model::{Draft, Kind};

use crate::ask::Ask;
use crate::desk::Ahead;
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

    /// What tells the caller.
    pub(crate) fn error(&self) -> Error {
        let QuotaUsed { quota, limit, used, retry_after_s } = &self.0;
        Error::new(codes::QUOTA_EXHAUSTED, format!("the tenant's quota {quota} is used up"))
            .why(format!("{used} of {limit} are in use"))
            .with("quota", quota.as_str())
            .with("limit", *limit)
            .with(RETRY_AFTER_S, *retry_after_s)
    }

    /// What tells the log.
    pub(crate) fn draft(&self) -> Draft {
        Draft::new(Kind::QuotaThrottled, &Throttled::Request(self.0.clone()))
    }
}

impl From<Exhausted> for Error {
    fn from(exhausted: Exhausted) -> Self {
        exhausted.error()
    }
}

/// What of a day counts.
type CountOfDay = fn(&Day) -> u64;

/// Refuses what a tenant has no room for; asked where it is known that something begins.
///
/// # Errors
/// `quota_exhausted`, of which the tenant's log is told; what reading the log answers.
pub(crate) fn check_room(service: &Service, ask: &Ask, ahead: Ahead) -> Result<()> {
    match check(service, &ask.tenant, ahead)? {
        Some(exhausted) => Err(ask.exhausted(exhausted)),
        None => Ok(()),
    }
}

/// Whether a tenant may begin something that costs, beside what goes on ahead of it.
///
/// # Errors
/// What reading the log answers. The quota that is used up comes as a value.
pub(crate) fn check(
    service: &Service,
    tenant: &TenantRow,
    ahead: Ahead,
) -> Result<Option<Exhausted>> {
    // First what costs nothing to look at: who is refused holds a place for as short as can be.
    if let Err(exhausted) = check_now(tenant, "running_turns", ahead.running as u64) {
        return Ok(Some(exhausted));
    }
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
            let begun = if name == "turns_per_day" { ahead.starting as u64 } else { 0 };
            let stored = count(&today);
            let used = stored.saturating_add(begun);
            if let Some(limit) = of(name).filter(|limit| used >= *limit) {
                // One that is about to begin may yet be refused.
                let wait_s = if stored >= limit { until_midnight_s() } else { SOON_S };
                return Ok(Some(Exhausted::new(name, limit, used, wait_s)));
            }
        }
    }
    stored(service, tenant)
}

/// Refuses to store anything more where there is no room.
///
/// # Errors
/// As [`check_room`].
pub(crate) fn check_stored(service: &Service, ask: &Ask) -> Result<()> {
    match stored(service, &ask.tenant)? {
        Some(exhausted) => Err(ask.exhausted(exhausted)),
        None => Ok(()),
    }
}

fn stored(service: &Service, tenant: &TenantRow) -> Result<Option<Exhausted>> {
    const NAME: &str = "stored_bytes";
    let Some(limit) = tenant.quotas.get(NAME).copied() else { return Ok(None) };
    let used = service.kernel.log().disk_bytes()?;
    Ok((used >= limit).then(|| Exhausted::new(NAME, limit, used, LATER_S)))
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
