//! Calls that a person makes up to see what policy says of them. Nothing of them is done or recorded.

use std::path::Path;

use glasshouse_model::body::TestSetup;
use glasshouse_model::syscall::name;
use glasshouse_model::{
    Call, CanonicalPath, ChangeClass, Decision, Exit, PrincipalKind, RuleTrace, State,
};
use glasshouse_policy::{CallSketch, Consent, Explanation, Policy, Protected, Request};
use glasshouse_sandbox::view::{Intent, ResolvedPath, View};
use glasshouse_sandbox::workspace::ignored_now;

use super::decide::{boundary_denial, fitting, now_us};
use super::demands::Way;
use super::joining::decide_beside;
use super::rules::{PolicyText, TENANT_POLICY, WORKFLOW_POLICY, compile, shipped, workflow};
use super::simulate::OF_PEOPLE;
use super::start::canonical_project;
use super::workbench::content;
use super::{Kernel, test_setup};
use crate::classify::{Classifier, Contents};
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
        /// Whether what is written would decide what the write changes: taken for a source.
        by_content: bool,
    },
    /// It is not, and why.
    Outside(String),
}

impl Tried {
    /// Resolves the path of a call as a session in `root` would: links followed, nothing outside. What a
    /// session finds out by itself is found out in the same way where the call leaves it out: whether a write
    /// changes a test, a source or what the repository ignores, and which command runs the tests.
    /// `config` is asked for where what the project's tests are makes a difference.
    ///
    /// # Errors
    /// `call_malformed`; `usage` for a workflow state that is none; `project_unreadable`; what the path is refused for; what
    /// reading the configuration answers.
    pub fn new<E: From<Error>>(
        mut sketch: CallSketch,
        root: &Path,
        config: impl FnOnce() -> std::result::Result<Config, E>,
    ) -> std::result::Result<Self, E> {
        sketch.check_names().map_err(Error::from)?;
        let setup = || Ok(test_setup_or_none(root, &config()?)?);
        if let Some(text) = sketch.path.take() {
            match resolved(&text, root)? {
                Ok(path) => sketch.path = Some(path.canonical().to_string()),
                Err(outside) => return Ok(Self::Outside(outside)),
            }
        }
        Self::resolved(sketch.into_call().map_err(Error::from)?, root, setup)
    }

    /// The same for a call that is one already.
    ///
    /// # Errors
    /// As [`Tried::new`].
    pub fn of_call(mut call: Call, root: &Path, setup: &TestSetup) -> Result<Self> {
        if let Some(path) = call.path.take() {
            match resolved(path.as_str(), root)? {
                Ok(path) => call.path = Some(path.canonical().clone()),
                Err(outside) => return Ok(Self::Outside(outside)),
            }
        }
        Self::resolved(call, root, || Ok::<_, Error>(setup.clone()))
    }

    fn resolved<E: From<Error>>(
        mut call: Call,
        root: &Path,
        setup: impl FnOnce() -> std::result::Result<TestSetup, E>,
    ) -> std::result::Result<Self, E> {
        let state = call.state.as_deref().map(workflow_state).transpose()?;
        let (mut misfit, mut by_content) = (None, false);
        match call.syscall.as_str() {
            name::WORKFLOW_REQUEST_EXEMPTION => {
                let paths = call.path.iter().map(CanonicalPath::as_str).collect();
                let wanted = Wanted { workflow: state, category: None, paths };
                misfit = wanted.misfit(&setup()?.test_globs);
            }
            name::TEST_RUN if call.argv.is_none() => {
                call.argv = Some(setup()?.argv).filter(|argv| !argv.is_empty());
            }
            name::FS_WRITE | name::FS_EDIT | name::FS_DELETE if call.change.is_none() => {
                if let Some(path) = &call.path {
                    let is_gone = call.syscall == name::FS_DELETE;
                    let (class, told) = class_of(path, is_gone, root, &setup()?)?;
                    (call.change, by_content) = (Some(class), !told);
                }
            }
            _ => {}
        }
        Ok(Self::Inside { call: Box::new(call), misfit, by_content })
    }

    /// What was supposed about the call, in words for people.
    #[must_use]
    pub fn supposed(&self) -> Option<String> {
        let Self::Inside { call, by_content: true, .. } = self else { return None };
        Some(format!(
            "what is written to {} decides whether it changes a test, a source or both; it is taken for a \
             source. Give `change` to try another.",
            call.path.as_ref().map_or("", CanonicalPath::as_str)
        ))
    }

    /// What a policy decides.
    #[must_use]
    pub fn decide(&self, policy: &Policy) -> Decision {
        match self {
            Self::Inside { call, .. } if is_of_people(call) => of_people(policy, call),
            Self::Inside { call, misfit, .. } => {
                let request = Request::new(call, now_us());
                let decision = glasshouse_policy::decide(policy, &request).decision;
                fitting(held(decision, call), misfit.as_ref())
            }
            Self::Outside(reason) => boundary_denial(policy, reason),
        }
    }

    /// The same, and what would have made it another decision.
    #[must_use]
    pub fn explain(&self, policy: &Policy) -> Explanation {
        match self {
            Self::Inside { call, misfit: None, .. } => {
                let explained = glasshouse_policy::explain(policy, &Request::new(call, now_us()));
                let held = match is_of_people(call) {
                    true => of_people(policy, call),
                    false => held(explained.decision.clone(), call),
                };
                if held.effect == explained.decision.effect {
                    Explanation { decision: held, ..explained }
                } else {
                    denied_behind(held)
                }
            }
            Self::Inside { .. } | Self::Outside(_) => denied_behind(self.decide(policy)),
        }
    }
}

/// A decision as the kernel lets it stand. A fetch and a connection of a command are one syscall, and what a rule demands
/// is not kept in the same way where they run: where the two get different answers, the other one is told as well.
fn held(decision: Decision, call: &Call) -> Decision {
    let mut held = Way::of_call(call).hold(decision.clone(), call, None);
    if call.syscall == name::NET_CONNECT && call.caller.kind == PrincipalKind::Agent {
        let fetch = Way::Tool.hold(decision, call, None);
        if fetch.effect != held.effect {
            let why = if fetch.is_allowed() { String::new() } else { fetch.reasons.join("; ") };
            let (command, fetch) = (held.effect.as_str(), fetch.effect.as_str());
            held.reasons.push(format!(
                "`{command}` is for a command in a sandbox; `web.fetch`, which runs in none, gets `{fetch}`{}{why}",
                if why.is_empty() { "" } else { ": " }
            ));
        }
    }
    held
}

/// Whether a call is one of a person that the policy file has no part in allowing.
fn is_of_people(call: &Call) -> bool {
    call.caller.kind == PrincipalKind::User && OF_PEOPLE.contains(&call.syscall.as_str())
}

/// The decision on such a call: the shipped file's, where the policy does not say itself what is stricter.
fn of_people(policy: &Policy, call: &Call) -> Decision {
    match compile(&[shipped(Consent::Joint)], &Protected::default()) {
        Ok(shipped) => {
            let theirs = decide_beside(&shipped, std::slice::from_ref(policy), call);
            // What is of no project yet, its file has no say in; a tenant's has.
            let is_before = [name::SESSION_IMPORT, name::POLICY_UPDATE].contains(&&*call.syscall);
            let is_of_tenant = |rule: &RuleTrace| {
                rule.source.as_deref() == Some(TENANT_POLICY) && rule.action == theirs.effect
            };
            match is_before && !theirs.rules.iter().any(is_of_tenant) {
                true => decide_beside(&shipped, &[], call),
                false => theirs,
            }
        }
        // It always loads; without it nothing is opened.
        Err(_) => glasshouse_policy::decide(policy, &Request::new(call, now_us())).decision,
    }
}

/// What there is to say of a denial by the kernel: what would change the answer of the rules changes nothing.
pub(super) const fn denied_behind(decision: Decision) -> Explanation {
    Explanation {
        decision,
        nearly: Vec::new(),
        other_call: Vec::new(),
        other_rules: None,
        untried: false,
        given: Vec::new(),
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
fn resolved(text: &str, root: &Path) -> Result<std::result::Result<ResolvedPath, String>> {
    let root = std::fs::File::open(root).map_err(|e| {
        Error::new(codes::PROJECT_UNREADABLE, "cannot open the project's directory").why(e)
    })?;
    match View::new(root.into())?.resolve(text, Intent::Any) {
        Ok(resolved) => Ok(Ok(resolved)),
        Err(error) if error.exit() == Exit::Denied => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// What a write changes, as the classifier of a session tells it, and whether that is certain: in Rust
/// the content decides, and of what would be written there is none yet.
fn class_of(
    path: &CanonicalPath,
    is_gone: bool,
    root: &Path,
    setup: &TestSetup,
) -> Result<(ChangeClass, bool)> {
    let classifier = Classifier::new(&setup.test_globs)?;
    // In a repository that git cannot read no session could start, but a call can still be explained.
    let is_ignored = || ignored_now(root, [path]).is_ok_and(|ignored| ignored.contains(path));
    let ignored = !classifier.is_test_path(path) && is_ignored();
    let by_path = classifier.is_test_path(path) || ignored || !Classifier::needs_content(path);
    if !by_path && !is_gone {
        return Ok((ChangeClass::Source, false));
    }
    let old = match resolved(path.as_str(), root)? {
        Ok(file) if !by_path => content(&file)?,
        _ => None,
    };
    let contents = Contents { old: old.as_deref(), new: None };
    Ok((classifier.classify(path, ignored, &contents), true))
}

impl Kernel {
    /// The policy of a session that would start in a project; `text` is tried in the place of its policy file, as if
    /// it were accepted.
    ///
    /// # Errors
    /// As [`Kernel::policy_texts`]; the load errors.
    pub fn policy_in(
        &self,
        project: &Path,
        config: &Config,
        text: Option<String>,
    ) -> Result<Policy> {
        let test = test_setup_or_none(project, config)?;
        let Some(text) = text else { return self.compile(&self.policy_texts(project, &test)?) };
        self.grounds.check_own(&canonical_project(project)?)?;
        let mut texts = candidate_texts(&test, "candidate", text);
        texts.extend(self.tenant_text());
        self.compile(&texts)
    }
}

/// The texts of a session that would start where `text` was the accepted policy file.
#[must_use]
pub fn candidate_texts(test: &TestSetup, name: &str, text: String) -> Vec<PolicyText> {
    // A file may have the name of rules that nobody wrote.
    let is_taken = [WORKFLOW_POLICY, TENANT_POLICY].contains(&name);
    let name = if is_taken { format!("./{name}") } else { name.to_owned() };
    vec![workflow(test), PolicyText { name, text, consent: Consent::Joint }]
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

#[cfg(test)]
mod tests {
    use glasshouse_model::{Effect, Principal, TenantId};

    use super::*;

    /// The failure: a rule with `require_sandbox` for a host was told to allow, and denied each `web.fetch`.
    #[test]
    fn a_connection_is_told_for_a_command_and_for_a_fetch() {
        let check = |demand: &str, expected: Effect, fetch: Option<&str>| {
            let text = format!(
                "capabilities: [{{ name: docs, match: {{ syscall: net.connect, host: docs.example.org }}, \
                 action: allow, constraints: {{ {demand} }} }}]"
            );
            let text = PolicyText { name: "p".to_owned(), text, consent: Consent::Joint };
            let policy = compile(&[text], &Protected::default()).unwrap();
            let agent = Principal::new(PrincipalKind::Agent, "agent", TenantId::local());
            let mut call = Call::new(name::NET_CONNECT, agent);
            (call.host, call.port) = (Some("docs.example.org".to_owned()), Some(443));
            let tried = Tried::Inside { call: Box::new(call), misfit: None, by_content: false };
            for decision in [tried.decide(&policy), tried.explain(&policy).decision] {
                assert_eq!(decision.effect, expected, "{demand}: {decision:?}");
                let told = decision.reasons.iter().find(|why| why.contains("`web.fetch`"));
                assert_eq!(told.is_some(), fetch.is_some(), "{demand}: {decision:?}");
                let is_one = told.is_none_or(|why| why.contains(fetch.unwrap_or_default()));
                assert!(is_one, "{demand}: {decision:?}");
            }
        };
        check("require_sandbox: L2", Effect::Allow, Some("gets `deny`: a rule demands"));
        check("min_isolation: full", Effect::Allow, Some("gets `deny`: a rule demands"));
        check("max_duration: 5s", Effect::Deny, Some("gets `allow`"));
        // The control: both get one answer.
        check("rate: 5/h", Effect::Allow, None);
        check("require_sandbox: mine", Effect::Deny, None);
    }

    /// What is of no project yet is decided beside its file; a tenant's rules are heard all the same.
    #[test]
    fn what_is_tried_of_a_person_s_acts_is_what_is_done() {
        let check = |file: &str, syscall: &str, expected: Effect| {
            let deny = format!(
                "capabilities: [{{ name: own, match: {{ syscall: {syscall} }}, action: deny }}]"
            );
            let of = |name: &str, text: &str| PolicyText {
                name: name.to_owned(),
                text: text.to_owned(),
                consent: Consent::Joint,
            };
            let beside = of(".glasshouse/policy.yaml", "capabilities: []");
            let texts = [of(file, &deny), beside];
            let texts = if file == TENANT_POLICY { &texts[..] } else { &texts[..1] };
            let policy = compile(texts, &Protected::default()).unwrap();
            let user = Principal::new(PrincipalKind::User, "ada", TenantId::local());
            let call = Call::new(syscall, user);
            assert!(is_of_people(&call), "{syscall}");
            assert_eq!(of_people(&policy, &call).effect, expected, "{syscall} by {file}");
        };
        let project = ".glasshouse/policy.yaml";
        for syscall in [name::SESSION_FORK, name::SESSION_CLOSE, name::SESSION_DELETE] {
            check(project, syscall, Effect::Deny);
            check(TENANT_POLICY, syscall, Effect::Deny);
        }
        for syscall in [name::SESSION_IMPORT, name::POLICY_UPDATE] {
            let policy = compile(&[shipped(Consent::Joint)], &Protected::default()).unwrap();
            let user = Principal::new(PrincipalKind::User, "ada", TenantId::local());
            let alone = decide_beside(&policy, &[], &Call::new(syscall, user)).effect;
            assert_ne!(alone, Effect::Deny, "the control");
            check(project, syscall, alone);
            check(TENANT_POLICY, syscall, Effect::Deny);
        }
    }
}
