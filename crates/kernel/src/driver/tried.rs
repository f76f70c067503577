//! Calls that a person makes up to see what policy says of them. Nothing of them is done or recorded.

use std::path::Path;

use glasshouse_model::body::TestSetup;
use glasshouse_model::{Call, Decision, Exit, State};
use glasshouse_policy::{CallSketch, Consent, Explanation, Policy, Request};
use glasshouse_sandbox::view::{Intent, View};

use super::decide::{boundary_denial, now_us};
use super::rules::PolicyText;
use super::{Kernel, test_setup};
use crate::{Config, Error, Result, codes};

/// A made-up call, its path looked up where it would be made.
pub enum Tried {
    /// The path is in the workspace.
    Inside(Box<Call>),
    /// It is not, and why.
    Outside(String),
}

impl Tried {
    /// Resolves the path of a call as a session in `root` would: links followed, nothing outside.
    ///
    /// # Errors
    /// `usage` for a workflow state that is none; `project_unreadable`; what the path is refused for.
    pub fn new(mut sketch: CallSketch, root: &Path) -> Result<Self> {
        if let Some(state) = &sketch.state_machine_state {
            state.parse::<State>().map_err(|why| {
                let states: Vec<_> = State::ALL.iter().map(ToString::to_string).collect();
                Error::new(codes::USAGE, format!("`{state}` is no workflow state"))
                    .why(why)
                    .fix(format!("use one of {}", states.join(", ")))
            })?;
        }
        let root = std::fs::File::open(root).map_err(|e| {
            Error::new(codes::PROJECT_UNREADABLE, "cannot open the project's directory").why(e)
        })?;
        if let Some(text) = sketch.path.take() {
            match View::new(root.into())?.resolve(&text, Intent::Any) {
                Ok(resolved) => sketch.path = Some(resolved.canonical().to_string()),
                Err(error) if error.exit() == Exit::Denied => {
                    return Ok(Self::Outside(error.to_string()));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self::Inside(Box::new(sketch.into_call()?)))
    }

    /// What a policy decides.
    #[must_use]
    pub fn decide(&self, policy: &Policy) -> Decision {
        match self {
            Self::Inside(call) => {
                glasshouse_policy::decide(policy, &Request::new(call, now_us())).decision
            }
            Self::Outside(reason) => boundary_denial(policy, reason),
        }
    }

    /// The same, and what would have made it another decision.
    #[must_use]
    pub fn explain(&self, policy: &Policy) -> Explanation {
        match self {
            Self::Inside(call) => glasshouse_policy::explain(policy, &Request::new(call, now_us())),
            Self::Outside(reason) => Explanation {
                decision: boundary_denial(policy, reason),
                nearly: Vec::new(),
                other_call: Vec::new(),
                other_rules: None,
            },
        }
    }
}

impl Kernel {
    /// The policy of a session that would start in a project; `text` is tried alone, in its place.
    ///
    /// # Errors
    /// As [`Kernel::policy_texts`]; the load errors.
    pub fn policy_in(
        &self,
        project: &Path,
        config: &Config,
        text: Option<String>,
    ) -> Result<Policy> {
        if let Some(text) = text {
            let name = "candidate".to_owned();
            return self.compile(&[PolicyText { name, text, consent: Consent::Joint }]);
        }
        let test = match test_setup(project, config) {
            Ok(test) => test,
            // No session could start here, but a call can still be explained.
            Err(error) if error.is(codes::TESTS_UNKNOWN) => no_tests(),
            Err(error) => return Err(error),
        };
        self.compile(&self.policy_texts(project, &test)?)
    }
}

/// A project that cannot be tested.
#[must_use]
pub fn no_tests() -> TestSetup {
    TestSetup {
        argv: Vec::new(),
        kind: String::new(),
        test_globs: Vec::new(),
        source_globs: Vec::new(),
        coverage: None,
    }
}
