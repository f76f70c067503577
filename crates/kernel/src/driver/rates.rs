//! How often calls are made that a rule allows only so often.

use std::collections::{BTreeMap, VecDeque};

use glasshouse_log::Log;
use glasshouse_model::body::PolicyDecided;
use glasshouse_model::syscall::name;
use glasshouse_model::{BranchId, Decision, Kind};
use glasshouse_policy::time_text;

use super::decide::denied_by_kernel;
use crate::Result;
use crate::session::RATE_LIMITED;

/// Most times that are kept for one rule; a rate above it is that.
const MAX_KEPT: usize = 10_000;

/// When calls were allowed, by the rules that limit how often.
#[derive(Debug, Default, Clone)]
pub(super) struct Rates {
    allowed_us: BTreeMap<String, VecDeque<u64>>,
}

impl Rates {
    /// As the branch's decisions say.
    pub(super) fn of(log: &Log, branch: &BranchId) -> Result<Self> {
        let mut rates = Self::default();
        for event in log.events(branch) {
            let event = event?;
            if *event.kind() == Kind::PolicyDecided
                && let Ok(decided) = event.body_as::<PolicyDecided>()
                && is_counted(&decided)
            {
                rates.note(&decided.decision, event.header.time_us);
            }
        }
        Ok(rates)
    }

    /// Counts an allowed act, or denies it where it would be one too many.
    pub(super) fn hold(&mut self, decision: Decision, now_us: u64) -> Decision {
        match self.broken(&decision, now_us) {
            Some(reason) => denied_by_kernel(decision, RATE_LIMITED, reason),
            None => {
                self.note(&decision, now_us);
                decision
            }
        }
    }

    fn note(&mut self, decision: &Decision, now_us: u64) {
        if !decision.is_allowed() {
            return;
        }
        for rule in decision.constraints.rates.keys() {
            let times = self.allowed_us.entry(rule.clone()).or_default();
            times.push_back(now_us);
            if times.len() > MAX_KEPT {
                times.pop_front();
            }
        }
    }

    /// Which rate one more call would break.
    fn broken(&self, decision: &Decision, now_us: u64) -> Option<String> {
        if !decision.is_allowed() {
            return None;
        }
        decision.constraints.rates.iter().find_map(|(rule, rate)| {
            let since_us = now_us.saturating_sub(rate.within_ms.saturating_mul(1_000));
            let times = self.allowed_us.get(rule)?;
            // A time that lies ahead was taken before the clock went back; it counts.
            let recent = times.iter().filter(|at| **at > since_us).count() as u64;
            let most = rate.calls.min(MAX_KEPT as u64);
            (recent >= most).then(|| {
                let often = glasshouse_policy::rate_text(*rate);
                // One more may be made once so many of the recent ones are as old as the time that is counted.
                let freed =
                    usize::try_from(most).ok().and_then(|most| times.iter().rev().nth(most - 1));
                let wait_us = freed.map_or(0, |at| at.saturating_sub(since_us));
                format!("rule `{rule}` allows it {often}; the next one in {}", wait_text(wait_us))
            })
        })
    }
}

/// A time to wait, in whole units that are not too short.
fn wait_text(wait_us: u64) -> String {
    let seconds = wait_us.div_ceil(1_000_000).max(1);
    let rounded = match seconds {
        0..=120 => seconds,
        121..=7_200 => seconds.div_ceil(60) * 60,
        _ => seconds.div_ceil(3_600) * 3_600,
    };
    time_text(rounded * 1_000)
}

/// Whether a decision counts: on a call that was proposed, and on a connection. What a call changes is
/// part of it.
fn is_counted(decided: &PolicyDecided) -> bool {
    decided.args_digest.is_some() || decided.syscall == name::NET_CONNECT
}

#[cfg(test)]
mod tests {
    use glasshouse_model::{Constraints, Digest, Effect, Rate};

    use super::*;

    #[test]
    fn a_rate_is_over_a_sliding_time() {
        let rate = Rate { calls: 2, within_ms: 10 };
        let decision = |effect| Decision {
            effect,
            rules: Vec::new(),
            reasons: Vec::new(),
            policy_version: Digest::ZERO,
            constraints: Constraints {
                rates: [("r".to_owned(), rate)].into(),
                ..Constraints::default()
            },
        };
        let (allow, deny) = (decision(Effect::Allow), decision(Effect::Deny));
        let mut rates = Rates::default();
        let mut check = |at_us: u64, broken: bool| {
            assert_eq!(rates.broken(&allow, at_us).is_some(), broken, "{at_us}");
            assert_eq!(rates.broken(&deny, at_us), None);
            if !broken {
                rates.note(&allow, at_us);
            }
            rates.note(&deny, at_us);
        };
        check(1_000, false);
        check(2_000, false);
        check(10_999, true);
        check(11_000, false);
        check(11_001, true);
        check(12_000, false);
        // A clock that goes back opens nothing.
        check(5_000, true);
        // When the next one may be made is told, and it may be made then.
        let told = |times_us: &[u64], now_us: u64| {
            let rate = Rate { calls: 2, within_ms: 3_600_000 };
            let mut hourly = allow.clone();
            hourly.constraints.rates = [("r".to_owned(), rate)].into();
            let mut rates = Rates::default();
            times_us.iter().for_each(|at_us| rates.note(&hourly, *at_us));
            rates.broken(&hourly, now_us).unwrap_or_default()
        };
        // In seconds after some moment.
        let moment_us = |seconds: u64| (10_000 + seconds) * 1_000_000;
        for (times, now, wait) in [
            ([0, 10], 20, "1 hour"),
            ([0, 10], 3_000, "10 minutes"),
            ([0, 10], 3_590, "10 seconds"),
            ([0, 10], 3_599, "1 second"),
        ] {
            let text = told(&times.map(moment_us), moment_us(now));
            assert!(text.ends_with(&format!("the next one in {wait}")), "{now}: {text}");
        }
        assert_eq!(told(&[0, 10].map(moment_us), moment_us(3_600)), "");
    }
}
