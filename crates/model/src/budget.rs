//! Budgets: how much a session may spend, and what it has spent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was spent. All additions saturate, so a total can never wrap to a small number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Usage {
    /// Model tokens, input and output.
    pub tokens: u64,
    /// Active time in microseconds.
    pub time_us: u64,
    /// Money in micro-units of the price file's currency.
    pub cost_micros: u64,
    /// Tool calls.
    pub calls: u64,
    /// Failed model requests and failed calls.
    pub errors: u64,
}

impl Usage {
    /// Adds, saturating.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            time_us: self.time_us.saturating_add(other.time_us),
            cost_micros: self.cost_micros.saturating_add(other.cost_micros),
            calls: self.calls.saturating_add(other.calls),
            errors: self.errors.saturating_add(other.errors),
        }
    }
}

/// Limits on [`Usage`]; `None` is no limit for that item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Budget {
    /// Most tokens.
    pub tokens: Option<u64>,
    /// Longest active time in microseconds.
    pub time_us: Option<u64>,
    /// Most money in micro-units.
    pub cost_micros: Option<u64>,
    /// Most tool calls.
    pub calls: Option<u64>,
    /// Most errors.
    pub errors: Option<u64>,
}

impl Default for Budget {
    /// Generous for one task, finite for a loop: 2 million tokens, 2 hours, 500 calls, 50 errors.
    fn default() -> Self {
        Self {
            tokens: Some(2_000_000),
            time_us: Some(2 * 3600 * 1_000_000),
            cost_micros: None,
            calls: Some(500),
            errors: Some(50),
        }
    }
}

impl Budget {
    /// Names the first item of which nothing is left, if any. Checked before each act.
    ///
    /// ```
    /// use glasshouse_model::{Budget, Usage};
    /// let budget = Budget { calls: Some(2), ..Budget::default() };
    /// assert_eq!(budget.exhausted(&Usage { calls: 1, ..Usage::default() }), None);
    /// assert_eq!(budget.exhausted(&Usage { calls: 2, ..Usage::default() }), Some("calls"));
    /// ```
    #[must_use]
    pub fn exhausted(&self, used: &Usage) -> Option<&'static str> {
        [
            ("tokens", self.tokens, used.tokens),
            ("time", self.time_us, used.time_us),
            ("cost", self.cost_micros, used.cost_micros),
            ("calls", self.calls, used.calls),
            ("errors", self.errors, used.errors),
        ]
        .into_iter()
        .find_map(|(name, limit, spent)| limit.is_some_and(|limit| spent >= limit).then_some(name))
    }
}
