//! Whether an endpoint is worth asking: a pure machine over results and times.

use glasshouse_model::Code;

use crate::{Error, codes};

/// Failures in a row after which an endpoint is left alone.
pub const OPEN_AFTER: u32 = 5;
/// How long it is left alone, in milliseconds; then one request tries it.
pub const OPEN_MS: u64 = 15_000;
/// How long the one trying request keeps the others waiting when nothing is heard of it, in
/// milliseconds.
const TRIAL_MS: u64 = 30_000;

/// Errors of requests that no endpoint has seen.
const NOT_ASKED: [Code; 4] = [
    codes::PROVIDER_CANCELLED,
    codes::PROVIDER_CONFIG,
    codes::PROVIDER_INSECURE,
    codes::PROVIDER_PAUSED,
];

/// Closed while an endpoint answers, open while it is left alone.
///
/// ```
/// use glasshouse_provider::line::{Breaker, OPEN_AFTER, OPEN_MS};
/// use glasshouse_provider::{Error, codes};
/// let mut breaker = Breaker::default();
/// let down = Error::new(codes::OVERLOADED, "down");
/// for _ in 0..OPEN_AFTER {
///     assert_eq!(breaker.admit(0), Ok(()));
///     breaker.failed(&down, 0);
/// }
/// assert_eq!(breaker.admit(0), Err(OPEN_MS));
/// assert_eq!(breaker.admit(OPEN_MS), Ok(()));
/// ```
#[derive(Debug, Default)]
pub struct Breaker {
    /// Failures in a row.
    failures: u32,
    /// Until when nothing is asked.
    closed_until_ms: u64,
    /// Until when one request tries an endpoint that was left alone.
    trial_until_ms: u64,
    /// What the last of the failures was.
    cause: Option<Code>,
}

impl Breaker {
    /// Asks whether a request may be made now.
    ///
    /// # Errors
    /// How long to wait before asking again, in milliseconds.
    pub fn admit(&mut self, now_ms: u64) -> Result<(), u64> {
        if now_ms < self.closed_until_ms {
            return Err(self.closed_until_ms - now_ms);
        }
        if self.failures >= OPEN_AFTER {
            if now_ms < self.trial_until_ms {
                return Err(self.trial_until_ms - now_ms);
            }
            self.trial_until_ms = now_ms.saturating_add(TRIAL_MS);
        }
        Ok(())
    }

    /// A request was answered. A wait that was asked for meanwhile still holds.
    pub fn succeeded(&mut self) {
        self.failures = 0;
        self.trial_until_ms = 0;
        self.cause = None;
    }

    /// Why an endpoint is left alone: what the last failure was, when it said that it is in trouble.
    #[must_use]
    pub const fn cause(&self) -> Option<Code> {
        self.cause
    }

    /// A request failed. Only what says that the endpoint itself is in trouble counts; a wait that
    /// it asks for holds for everyone.
    pub fn failed(&mut self, error: &Error, now_ms: u64) {
        if let Some(wait_ms) = error.retry_after_ms().filter(|_| !error.is(codes::PROVIDER_PAUSED))
        {
            self.closed_until_ms = self.closed_until_ms.max(now_ms.saturating_add(wait_ms));
        }
        let in_trouble = [
            codes::OVERLOADED,
            codes::PROVIDER_FAILED,
            codes::PROVIDER_TIMEOUT,
            codes::PROVIDER_UNREACHABLE,
        ];
        if let Some(code) = in_trouble.into_iter().find(|code| error.is(*code)) {
            self.cause = Some(code);
            self.failures = self.failures.saturating_add(1);
            self.trial_until_ms = 0;
            if self.failures >= OPEN_AFTER {
                self.closed_until_ms = self.closed_until_ms.max(now_ms.saturating_add(OPEN_MS));
            }
        } else if !NOT_ASKED.iter().any(|code| error.is(*code)) {
            // It answers, if with a refusal.
            self.failures = 0;
            self.cause = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: Code) -> Error {
        Error::new(code, "it failed")
    }

    fn opened(at_ms: u64) -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..OPEN_AFTER {
            assert_eq!(breaker.admit(at_ms), Ok(()));
            breaker.failed(&error(codes::OVERLOADED), at_ms);
        }
        breaker
    }

    #[test]
    fn what_opens_it() {
        let check = |code: Code, opens: bool| {
            let mut breaker = Breaker::default();
            for _ in 0..OPEN_AFTER {
                breaker.failed(&error(code), 0);
            }
            assert_eq!(breaker.admit(0).is_err(), opens, "{}", code.name);
        };
        check(codes::OVERLOADED, true);
        check(codes::PROVIDER_FAILED, true);
        check(codes::PROVIDER_TIMEOUT, true);
        check(codes::PROVIDER_UNREACHABLE, true);
        check(codes::PROVIDER_AUTH, false);
        check(codes::RATE_LIMITED, false);
        check(codes::STREAM_CUT, false);
        check(codes::PROVIDER_CANCELLED, false);
        // What no endpoint has seen says nothing of it.
        for code in NOT_ASKED {
            let mut breaker = opened(0);
            breaker.failed(&error(code), 0);
            assert_eq!(breaker.admit(0), Err(OPEN_MS), "{}", code.name);
        }
        // An answer between failures starts the count again.
        let mut breaker = Breaker::default();
        for _ in 0..OPEN_AFTER {
            breaker.failed(&error(codes::OVERLOADED), 0);
            breaker.succeeded();
        }
        assert_eq!(breaker.admit(0), Ok(()));
    }

    #[test]
    fn one_request_tries_an_endpoint_that_was_left_alone() {
        let mut breaker = opened(1_000);
        assert_eq!(breaker.admit(1_000), Err(OPEN_MS));
        assert_eq!(breaker.admit(OPEN_MS), Err(1_000));
        assert_eq!(breaker.admit(1_000 + OPEN_MS), Ok(()));
        assert_eq!(breaker.admit(1_001 + OPEN_MS), Err(TRIAL_MS - 1), "the others wait");
        breaker.failed(&error(codes::OVERLOADED), 2_000 + OPEN_MS);
        assert_eq!(breaker.admit(2_000 + OPEN_MS), Err(OPEN_MS), "it failed again");
        assert_eq!(breaker.admit(2_000 + 2 * OPEN_MS), Ok(()));
        breaker.succeeded();
        assert_eq!(breaker.admit(2_000 + 2 * OPEN_MS), Ok(()));
        // A trial that was cancelled does not close the line for ever.
        let mut breaker = opened(0);
        assert_eq!(breaker.admit(OPEN_MS), Ok(()));
        breaker.failed(&error(codes::PROVIDER_CANCELLED), OPEN_MS);
        assert_eq!(breaker.admit(OPEN_MS + TRIAL_MS), Ok(()));
    }

    #[test]
    fn a_wait_that_was_asked_for_holds_for_everyone() {
        let mut breaker = Breaker::default();
        let limited = error(codes::RATE_LIMITED).with("retry_after_ms", 500);
        breaker.failed(&limited, 100);
        // One that was under way ends well.
        breaker.succeeded();
        assert_eq!(breaker.admit(100), Err(500));
        assert_eq!(breaker.admit(599), Err(1));
        assert_eq!(breaker.admit(600), Ok(()));
    }
}
