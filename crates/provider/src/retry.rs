//! When to ask again: a pure policy. The kernel keeps the attempts and the clock as events and
//! hands in the randomness, so a replayed session waits for the same moments.

use glasshouse_model::Report;

use crate::error::RETRY_AFTER_MS;
use crate::{Error, codes};

/// Most requests for one answer, the first included: with these delays about a minute of trying.
pub const MAX_ATTEMPTS: u32 = 6;
/// Most requests for one answer when answers arrive broken. A request that was answered costs
/// money, and an answer that breaks twice in the same way will break again.
pub const MAX_ATTEMPTS_BROKEN: u32 = 2;
/// Delay before the second request, before jitter, in milliseconds.
pub const BASE_DELAY_MS: u64 = 500;
/// Longest delay of our own, before jitter, in milliseconds.
pub const MAX_DELAY_MS: u64 = 30_000;
/// Longest wait a server may ask for, in milliseconds; a longer one is not a retry but a reason to
/// stop and tell the user.
pub const MAX_RETRY_AFTER_MS: u64 = 300_000;

/// What the policy needs to know of an error; made from an [`Error`] or its recorded [`Report`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    retryable: bool,
    broken_answer: bool,
    retry_after_ms: Option<u64>,
}

impl From<&Report> for Failure {
    fn from(report: &Report) -> Self {
        let broken = [
            codes::STREAM_CUT.name,
            codes::PROVIDER_INVALID_RESPONSE.name,
            codes::REASONING_REFUSED.name,
        ];
        Self {
            retryable: report.retryable,
            broken_answer: broken.contains(&report.code.as_str()),
            retry_after_ms: report.context.get(RETRY_AFTER_MS).and_then(|value| value.as_u64()),
        }
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self::from(&error.report())
    }
}

/// Whether another model of the provider may answer where one failed for good: not when the request,
/// the key or the answer's content is what was wrong.
#[must_use]
pub fn another_may_answer(error: &Error) -> bool {
    [
        codes::OVERLOADED,
        codes::RATE_LIMITED,
        codes::QUOTA,
        codes::PROVIDER_FAILED,
        codes::PROVIDER_INVALID_RESPONSE,
        codes::PROVIDER_NOT_FOUND,
        codes::PROVIDER_PAUSED,
        codes::PROVIDER_PERMISSION,
        codes::PROVIDER_UNREACHABLE,
        codes::PROVIDER_TIMEOUT,
        codes::STREAM_CUT,
    ]
    .iter()
    .any(|code| error.is(*code))
}

/// How long to wait before the next request, in milliseconds; `None` to give up.
///
/// `attempt` is how many requests have failed so far, this one included (so 1 after the first).
/// `random` is any number; it spreads the delay over its upper half, or, when the server named a
/// wait, over a quarter above it: never below what the server asked. `remaining_ms` is the time
/// left until the caller's deadline; a wait that would reach it is not begun.
///
/// ```
/// use glasshouse_provider::{Error, codes, retry::next_delay_ms};
/// let busy = Error::new(codes::RATE_LIMITED, "busy").with("retry_after_ms", 2000);
/// assert_eq!(next_delay_ms(&busy, 1, 0, 60_000), Some(2000));
/// assert_eq!(next_delay_ms(&busy, 1, 0, 1_000), None);
/// assert_eq!(next_delay_ms(&Error::new(codes::QUOTA, "no credit"), 1, 0, 60_000), None);
/// ```
#[must_use]
pub fn next_delay_ms(
    error: impl Into<Failure>,
    attempt: u32,
    random: u64,
    remaining_ms: u64,
) -> Option<u64> {
    let failure = error.into();
    let most = if failure.broken_answer { MAX_ATTEMPTS_BROKEN } else { MAX_ATTEMPTS };
    if !failure.retryable || attempt >= most {
        return None;
    }
    let doublings = attempt.saturating_sub(1).min(u64::BITS - 1);
    let full_ms = BASE_DELAY_MS.saturating_mul(1 << doublings).min(MAX_DELAY_MS);
    let (least_ms, spread_ms) = match failure.retry_after_ms {
        Some(asked_ms) if asked_ms > MAX_RETRY_AFTER_MS => return None,
        // Who says "at once" time and again, for instance because its clock is wrong, is not believed
        // twice.
        Some(asked_ms) if attempt <= 1 || asked_ms >= full_ms / 2 => (asked_ms, asked_ms / 4),
        _ => (full_ms / 2, full_ms - full_ms / 2),
    };
    let delay_ms = least_ms + random % (spread_ms + 1);
    (delay_ms < remaining_ms).then_some(delay_ms)
}

#[cfg(test)]
mod tests {
    use glasshouse_model::Code;
    use proptest::prelude::*;

    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    fn error(code: Code) -> Error {
        Error::new(code, "it failed")
    }

    #[test]
    fn delays_grow_and_end() {
        let check = |code: Code, attempt: u32, expected: Option<(u64, u64)>| {
            let least = next_delay_ms(&error(code), attempt, 0, HOUR_MS);
            // The spread of every delay here divides into `delay + 1` values.
            let most = expected
                .and_then(|(low, high)| next_delay_ms(&error(code), attempt, high - low, HOUR_MS));
            assert_eq!(least.zip(most), expected, "{} after {attempt}", code.name);
        };
        check(codes::OVERLOADED, 1, Some((250, 500)));
        check(codes::OVERLOADED, 2, Some((500, 1_000)));
        check(codes::OVERLOADED, 5, Some((4_000, 8_000)));
        check(codes::OVERLOADED, 6, None);
        check(codes::STREAM_CUT, 1, Some((250, 500)));
        check(codes::STREAM_CUT, 2, None);
        check(codes::PROVIDER_INVALID_RESPONSE, 2, None);
        check(codes::PROVIDER_AUTH, 1, None);
        check(codes::SCENARIO_MISMATCH, 1, None);
    }

    #[test]
    fn a_wait_the_server_asks_for_is_kept() {
        let check = |asked_ms: u64, random: u64, remaining_ms: u64, expected: Option<u64>| {
            let error = error(codes::RATE_LIMITED).with("retry_after_ms", asked_ms);
            assert_eq!(next_delay_ms(&error, 1, random, remaining_ms), expected);
        };
        check(0, 7, HOUR_MS, Some(0));
        check(50, 0, HOUR_MS, Some(50));
        check(1_000, 250, HOUR_MS, Some(1_250));
        check(1_000, 251, HOUR_MS, Some(1_000));
        check(1_000, 0, 1_000, None);
        check(1_000, 0, 1_001, Some(1_000));
        check(MAX_RETRY_AFTER_MS, 0, HOUR_MS, Some(MAX_RETRY_AFTER_MS));
        check(MAX_RETRY_AFTER_MS + 1, 0, HOUR_MS, None);
    }

    #[test]
    fn a_server_that_says_at_once_is_not_believed_twice() {
        let check = |asked_ms: u64, attempt: u32, expected: Option<u64>| {
            let error = error(codes::RATE_LIMITED).with("retry_after_ms", asked_ms);
            assert_eq!(
                next_delay_ms(&error, attempt, 0, HOUR_MS),
                expected,
                "{asked_ms} {attempt}"
            );
        };
        check(0, 1, Some(0));
        check(0, 2, Some(500));
        check(0, 5, Some(4_000));
        check(50, 3, Some(1_000));
        check(9_000, 5, Some(9_000));
        check(0, 6, None);
    }

    proptest! {
        #[test]
        fn delays_stay_in_bounds(
            asked_ms in prop::option::of(any::<u64>()),
            attempt in any::<u32>(),
            random in any::<u64>(),
            remaining_ms in any::<u64>(),
        ) {
            let mut error = error(codes::RATE_LIMITED);
            if let Some(asked_ms) = asked_ms {
                error = error.with("retry_after_ms", asked_ms);
            }
            if let Some(delay_ms) = next_delay_ms(&error, attempt, random, remaining_ms) {
                prop_assert!(delay_ms < remaining_ms);
                prop_assert!(delay_ms >= asked_ms.unwrap_or(0));
                prop_assert!(delay_ms <= MAX_DELAY_MS.max(MAX_RETRY_AFTER_MS / 4 * 5));
                prop_assert_eq!(
                    Some(delay_ms),
                    next_delay_ms(&error.report(), attempt, random, remaining_ms)
                );
            }
        }
    }
}
