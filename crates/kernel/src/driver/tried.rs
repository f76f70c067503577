//! Calls that a person makes up to see what policy says of them. Nothing of them is done or recorded.

use std::path::Path;

use glasshouse_model::body::TestSetup;
use glasshouse_model::syscall::name;
use glasshouse_model::{Call, CanonicalPath, Decision, Exit, State};
use glasshouse_policy::{CallSketch, Consent, Explanation, Policy, Request};
use glasshouse_sandbox::view::{Intent, View};

use super::decide::{boundary_denial, fitting, now_us};
use super::rules::PolicyText;
use super::{Kernel, test_setup};
use crate::session::exemption::Wanted;
use crate::{Config, Error, Result, codes};

/// A made-up call, its path looked up where it would be made.
pub enum Tried {
    /// The path is in the workspace.
    Inside {
        /// The call.
        call: Box<Call>,
        /// Why the workflow refuses it, whatever the rules say.
        misfit: Option<String>,
    },
    /// It is not, and why.
    Outside(String),
}

impl Tried {
    /// Resolves the path of a call as a session in `root` would: links followed, nothing outside.
    /// `config` is asked for where what the project's tests are makes a difference.
    ///
    /// # Errors
    /// `usage` for a workflow state that is none; `project_unreadable`; what the path is refused for; what
    /// reading the configuration answers.
    pub fn new<E: From<Error>>(
        mut sketch: CallSketch,
        root: &Path,
        config: impl FnOnce() -> std::result::Result<Config, E>,
    ) -> std::result::Result<Self, E> {
        let state = sketch.state_machine_state.as_deref().map(workflow_state).transpose()?;
        if let Some(text) = sketch.path.take() {
            match resolved(&text, root)? {
                Ok(path) => sketch.path = Some(path),
                Err(outside) => return Ok(Self::Outside(outside)),
            }
        }
        let call = Box::new(sketch.into_call().map_err(Error::from)?);
        let misfit = if call.syscall == name::WORKFLOW_REQUEST_EXEMPTION {
            let setup = test_setup_or_none(root, &config()?)?;
            let paths = call.path.iter().map(CanonicalPath::as_str).collect();
            Wanted { workflow: state, category: None, paths }.misfit(&setup.test_globs)
        } else {
            None
        };
        Ok(Self::Inside { call, misfit })
    }

    /// What a policy decides.
    #[must_use]
    pub fn decide(&self, policy: &Policy) -> Decision {
        match self {
            Self::Inside { call, misfit } => {
                let request = Request::new(call, now_us());
                fitting(glasshouse_policy::decide(policy, &request).decision, misfit.as_ref())
            }
            Self::Outside(reason) => boundary_denial(policy, reason),
        }
    }

    /// The same, and what would have made it another decision.
    #[must_use]
    pub fn explain(&self, policy: &Policy) -> Explanation {
        match self {
            Self::Inside { call, misfit: None } => {
                glasshouse_policy::explain(policy, &Request::new(call, now_us()))
            }
            // Neither rules nor what they look at change a denial of the kernel's.
            Self::Inside { .. } | Self::Outside(_) => Explanation {
                decision: self.decide(policy),
                nearly: Vec::new(),
                other_call: Vec::new(),
                other_rules: None,
                untried: false,
            },
        }
    }
}

fn workflow_state(text: &str) -> Result<State> {
    text.parse::<State>().map_err(|why| {
        let states: Vec<_> = State::ALL.iter().map(ToString::to_string).collect();
        Error::new(codes::USAGE, format!("`{text}` is no workflow state"))
            .why(why)
            .fix(format!("use one of {}", states.join(", ")))
    })
}

/// The path that a text means in a project, or why it means none.
fn resolved(text: &str, root: &Path) -> Result<std::result::Result<String, String>> {
    let root = std::fs::File::open(root).map_err(|e| {
        Error::new(codes::PROJECT_UNREADABLE, "cannot open the project's directory").why(e)
    })?;
    match View::new(root.into())?.resolve(text, Intent::Any) {
        Ok(resolved) => Ok(Ok(resolved.canonical().to_string())),
        Err(error) if error.exit() == Exit::Denied => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
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
        let test = test_setup_or_none(project, config)?;
        self.compile(&self.policy_texts(project, &test)?)
    }
}

/// How a project tests itself. Where that cannot be told no session could start, but a call can still be
/// explained.
///
/// # Errors
/// As [`test_setup`], less `tests_unknown`.
pub fn test_setup_or_none(project: &Path, config: &Config) -> Result<TestSetup> {
    match test_setup(project, config) {
        Err(error) if error.is(codes::TESTS_UNKNOWN) => {}
        known => return known,
    }
    Ok(TestSetup {
        argv: Vec::new(),
        kind: String::new(),
        test_globs: Vec::new(),
        source_globs: Vec::new(),
        coverage: None,
    })
}
