//! Decisions: allow, deny or require review, with the rules and reasons that made them.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Digest;

/// What a decision says.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Go ahead.
    Allow,
    /// Ask a person first.
    RequireReview,
    /// No.
    Deny,
}

impl Effect {
    /// The word that events and policy files use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::RequireReview => "require_review",
            Self::Deny => "deny",
        }
    }
}

/// Which layer a rule comes from.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Built into Glasshouse; immutable.
    BuiltIn,
    /// A sealed grant (capability token).
    Grant,
    /// A policy file.
    File,
    /// An extension program.
    Extension,
    /// No rule allowed it.
    Default,
}

/// One rule's part in a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleTrace {
    /// Rule name.
    pub name: String,
    /// Layer.
    pub layer: Layer,
    /// Policy file the rule is in; the workflow's generated rules have one of their own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub source: Option<String>,
    /// Line in the policy file, from 1.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line: Option<u64>,
    /// What the rule contributed.
    pub action: Effect,
    /// The rule's own words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// What an allowing rule demands of the act.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Constraints {
    /// Sandbox template that must be used.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub require_sandbox: Option<String>,
    /// Least isolation that the act may run with: `no-landlock`, `no-layers`, `no-cgroup` or `full`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub min_isolation: Option<String>,
    /// Largest file that may be written, in bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_file_size_bytes: Option<u64>,
    /// Longest run, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_duration_ms: Option<u64>,
    /// How often calls that a rule allows may be made, by the rule's name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub rates: BTreeMap<String, Rate>,
    /// Least careful profile that an interface is shown under.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ui_profile: Option<String>,
    /// Limits of that profile that are lower than its own, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub ui_limits: BTreeMap<String, u64>,
    /// The only hosts that an interface may name, of those that its profile lists.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ui_hosts: Option<BTreeSet<String>>,
}

/// So many calls in so much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rate {
    /// Most calls.
    pub calls: u64,
    /// Within this time, in milliseconds.
    pub within_ms: u64,
}

/// The answer to a [`Call`](crate::Call).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decision {
    /// The answer.
    #[serde(rename = "decision")]
    pub effect: Effect,
    /// Every rule that contributed, in layer order then by name; independent of file order.
    pub rules: Vec<RuleTrace>,
    /// Every reason, in the order of `rules`.
    pub reasons: Vec<String>,
    /// Digest of the policy that decided.
    pub policy_version: Digest,
    /// What must hold while acting; the tightest of every allowing rule.
    #[serde(skip_serializing_if = "is_unconstrained", default)]
    pub constraints: Constraints,
}

pub(crate) fn is_unconstrained(constraints: &Constraints) -> bool {
    *constraints == Constraints::default()
}

impl Decision {
    /// Whether the act may go ahead now.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        matches!(self.effect, Effect::Allow)
    }

    /// Its reasons in one text, each once: several rules may give the same.
    ///
    /// ```
    /// # use glasshouse_model::{Decision, Digest, Effect};
    /// let reasons = ["frozen", "not yours", "frozen"].map(str::to_owned).to_vec();
    /// let decision = Decision {
    ///     effect: Effect::Deny, rules: vec![], reasons, policy_version: Digest::ZERO, constraints: Default::default(),
    /// };
    /// assert_eq!(decision.why(), "frozen; not yours");
    /// ```
    #[must_use]
    pub fn why(&self) -> String {
        each_once(&self.reasons)
    }
}

/// Reasons in one text, each once.
#[must_use]
pub fn each_once(reasons: &[String]) -> String {
    let mut told: Vec<&str> = Vec::new();
    for reason in reasons {
        if !told.contains(&reason.as_str()) {
            told.push(reason);
        }
    }
    told.join("; ")
}
