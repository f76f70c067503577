//! How often somebody may ask: the generic cell rate algorithm, one time for each who asks, so that the time
//! after which there is room again is known exactly.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most who are remembered; those who may ask at once are forgotten first.
const MAX_KNOWN: usize = 100_000;
const MINUTE: Duration = Duration::from_secs(60);

/// So many a minute, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) per_minute: u64,
    pub(crate) at_once: u64,
}

impl Rate {
    /// So many a minute; a tenth of them at once.
    pub(crate) const fn per_minute(per_minute: u64) -> Self {
        Self { per_minute, at_once: per_minute / 10 + 1 }
    }

    fn interval(self) -> Duration {
        MINUTE / u32::try_from(self.per_minute.max(1)).unwrap_or(u32::MAX)
    }

    fn tolerance(self) -> Duration {
        self.interval() * u32::try_from(self.at_once.saturating_sub(1)).unwrap_or(u32::MAX)
    }
}

/// Remembers when each may ask again.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    /// The time at which what each asked for would be through at an even pace.
    through: Mutex<HashMap<String, Instant>>,
}

impl Throttle {
    /// Counts a request.
    ///
    /// # Errors
    /// How long it is until one is let through.
    pub(crate) fn take(&self, who: &str, rate: Rate) -> Result<(), Duration> {
        self.take_at(who, rate, Instant::now())
    }

    fn take_at(&self, who: &str, rate: Rate, now: Instant) -> Result<(), Duration> {
        let mut through = self.through.lock().unwrap_or_else(PoisonError::into_inner);
        if through.len() >= MAX_KNOWN {
            through.retain(|_, through| *through > now);
            // So many at a time are no people; nobody is forgotten for them.
            if through.len() >= MAX_KNOWN && !through.contains_key(who) {
                return Err(rate.interval());
            }
        }
        let next = through.get(who).copied().unwrap_or(now).max(now);
        room(next, rate, now)?;
        through.insert(who.to_owned(), next + rate.interval());
        Ok(())
    }
}

fn room(through: Instant, rate: Rate, now: Instant) -> Result<(), Duration> {
    let ahead = through.saturating_duration_since(now);
    match ahead.checked_sub(rate.tolerance()) {
        Some(wait) if !wait.is_zero() => Err(wait),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_wait_is_the_time_until_there_is_room() {
        let throttle = Throttle::default();
        let (rate, start) = (Rate { per_minute: 60, at_once: 3 }, Instant::now());
        let check = |who: &str, after_ms: u64, expected_ms: Option<u64>| {
            let now = start + Duration::from_millis(after_ms);
            let taken = throttle.take_at(who, rate, now).err();
            assert_eq!(taken, expected_ms.map(Duration::from_millis), "{who} {after_ms}");
        };
        check("ada", 0, None);
        check("ada", 0, None);
        check("ada", 0, None);
        check("ada", 0, Some(1_000));
        check("ada", 400, Some(600));
        // Another one has a time of their own.
        check("bob", 400, None);
        check("ada", 1_000, None);
        check("ada", 1_000, Some(1_000));
        check("ada", 60_000, None);
    }

    #[test]
    fn who_is_known_is_counted_also_when_nobody_else_can_be() {
        let throttle = Throttle::default();
        let (rate, now) = (Rate { per_minute: 60, at_once: 3 }, Instant::now());
        for one in 0..MAX_KNOWN {
            throttle.take_at(&one.to_string(), rate, now).unwrap();
        }
        let taken = |who: &str| throttle.take_at(who, rate, now).is_ok();
        assert_eq!([taken("0"), taken("0"), taken("0")], [true, true, false]);
        assert!(!taken("stranger"));
        // The control: another one who is known has a time of their own.
        assert!(taken("1"));
    }
}
