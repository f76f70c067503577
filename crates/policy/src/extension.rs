//! The last layer: a program that decides what rules can not express.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use glasshouse_model::{Call, Decision, Effect, Layer, RuleTrace};

/// Rules in TypeScript that a source of a policy carries. Whoever compiles the policy also has them run
/// ([`Policy::served_by`](crate::Policy::served_by)); until then nothing that reaches them is allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionText {
    /// The program.
    pub code: String,
    /// Source it is in.
    pub source: String,
    /// Line of the source at which the program begins, from 1.
    pub line: u64,
    /// Position of the source.
    pub(crate) position: usize,
}

/// What runs the rules in TypeScript of a policy.
#[derive(Clone)]
pub(crate) struct Serving(pub(crate) Arc<dyn Extension + Send + Sync>);

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Serving")
    }
}

/// What an extension says about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opinion {
    /// Its effect.
    pub effect: Effect,
    /// Its words; they go into the decision.
    pub reason: String,
}

/// Why an extension gave no opinion. Each one denies: the rule that was not asked might have been
/// a deny rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtensionError {
    /// The program ended, or was never running.
    Crashed(String),
    /// No answer within the limit for one evaluation.
    TimedOut {
        /// The limit that passed.
        limit_ms: u64,
    },
    /// It answered something that is no opinion, or reported an error.
    Failed(String),
    /// It crashed twice within a time, and is not asked any more.
    Disabled {
        /// That time.
        within: Duration,
    },
}

impl fmt::Display for ExtensionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crashed(detail) => write!(f, "the policy extension crashed: {detail}"),
            Self::TimedOut { limit_ms } => {
                write!(f, "the policy extension did not answer within {limit_ms} ms")
            }
            Self::Failed(detail) => write!(f, "the policy extension failed: {detail}"),
            Self::Disabled { within } => {
                let seconds = within.as_secs();
                write!(f, "the policy extension is disabled: it crashed twice within {seconds} s")
            }
        }
    }
}

impl std::error::Error for ExtensionError {}

/// A running extension program, as the policy sees it. The host owns process, socket and limits.
pub trait Extension {
    /// Asks for an opinion; `None` abstains. `program` is the text of the policy that is asked, `None` where
    /// what is asked stands in no source. Called never after a built-in or a rule denied or a sealed grant
    /// decided. Programs do not hear one another: each is asked, whatever the others said.
    ///
    /// # Errors
    /// Any error denies the call.
    fn evaluate(
        &self,
        program: Option<&ExtensionText>,
        call: &Call,
    ) -> Result<Option<Opinion>, ExtensionError>;

    /// Told once after [`ExtensionError::Crashed`], so that the host starts the program again. It
    /// returns at once and does not change the decision in hand; how often a crashing program is
    /// restarted is the host's limit. Answers whether the program will be asked again.
    fn restart(&self, program: Option<&ExtensionText>) -> bool;

    /// Whether it can be asked about any call, and not only about the one that it was made for.
    fn knows_other_calls(&self) -> bool {
        true
    }
}

/// What each extension said when a decision was made: whoever makes the decision again hears the same. A
/// program that was late once need not be late again, so what it said is as much an input as the call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard(Vec<RuleTrace>);

impl Heard {
    /// From the decision.
    #[must_use]
    pub fn in_decision(decision: &Decision) -> Self {
        let told = decision.rules.iter().filter(|rule| rule.layer == Layer::Extension);
        Self(told.cloned().collect())
    }
}

impl Extension for Heard {
    fn evaluate(
        &self,
        program: Option<&ExtensionText>,
        _: &Call,
    ) -> Result<Option<Opinion>, ExtensionError> {
        let source = program.map(|program| program.source.as_str());
        let told = self.0.iter().find(|trace| trace.source.as_deref() == source);
        Ok(told.map(|trace| Opinion {
            effect: trace.action,
            reason: trace.reason.clone().unwrap_or_default(),
        }))
    }

    fn restart(&self, _: Option<&ExtensionText>) -> bool {
        true
    }

    fn knows_other_calls(&self) -> bool {
        false
    }
}
