//! The last layer: a program that decides what rules can not express.

use std::fmt;

use glasshouse_model::{Call, Effect};

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
}

impl fmt::Display for ExtensionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crashed(detail) => write!(f, "the policy extension crashed: {detail}"),
            Self::TimedOut { limit_ms } => {
                write!(f, "the policy extension did not answer within {limit_ms} ms")
            }
            Self::Failed(detail) => write!(f, "the policy extension failed: {detail}"),
        }
    }
}

impl std::error::Error for ExtensionError {}

/// A running extension program, as the policy sees it. The host owns process, socket and limits.
pub trait Extension {
    /// Asks for an opinion; `None` abstains. Called at most once a decision, and never after a
    /// built-in or a rule denied or a sealed grant decided.
    ///
    /// # Errors
    /// Any error denies the call.
    fn evaluate(&self, call: &Call) -> Result<Option<Opinion>, ExtensionError>;

    /// Told once after [`ExtensionError::Crashed`], so that the host starts the program again. It
    /// returns at once and does not change the decision in hand; how often a crashing program is
    /// restarted is the host's limit.
    fn restart(&self);
}
