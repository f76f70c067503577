//! The policy of a project: its texts, and who accepted them.
//!
//! A policy file in a repository is content of somebody else until a person at this machine has
//! accepted exactly these bytes for exactly this directory. Before that it is obeyed where it is
//! stricter than the shipped policy, and opens nothing; afterwards it takes the shipped file's place.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use glasshouse_model::Digest;
use glasshouse_model::body::{BlobRef, PolicySource, SessionCreated, TestSetup};
use glasshouse_policy::limits::MAX_SOURCE_BYTES;
use glasshouse_policy::{Consent, Policy, Protected, Source};
use glasshouse_sandbox::SandboxHost;
use glasshouse_script::Language;
use serde::{Deserialize, Serialize};

use super::place::real_path;
use super::simulate::{Past, Simulation};
use super::start::{canonical_project, put};
use super::{Kernel, masks};
use crate::config::project_text;
use crate::extension::{self, Programs, ScriptExtension};
use crate::{Error, Result, codes};

/// Policy file of a project, below its root.
pub const PROJECT_POLICY: &str = ".glasshouse/policy.yaml";
/// Name of the shipped policy in explanations.
const SHIPPED_POLICY: &str = "default.yaml";
/// Name in explanations of the project's policy that was accepted after a session had begun.
pub const ACCEPTED_SINCE: &str = ".glasshouse/policy.yaml (accepted since)";
/// Name of a tenant's policy in explanations.
pub(super) const TENANT_POLICY: &str = "tenant.yaml";
/// Name in explanations of the tenant's policy that was told after a session had begun.
const TENANT_SINCE: &str = "tenant.yaml (told since)";
/// Name of the workflow's generated rules in explanations.
pub const WORKFLOW_POLICY: &str = "workflow.yaml";
/// How many recorded decisions an update is tried on.
const LAST_DECISIONS: usize = 100;
/// Largest policy file in bytes.
const MAX_POLICY_BYTES: u64 = MAX_SOURCE_BYTES as u64;
/// Cells that say which policy of a project a person accepted last. An index over the
/// `policy.updated` events.
pub(super) const ACCEPTED_SPACE: &str = "policy.accepted";

/// One policy text in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyText {
    /// Name in explanations.
    pub name: String,
    /// The text.
    pub text: String,
    /// Whether it has to allow each call itself.
    pub consent: Consent,
}

impl PolicyText {
    pub(super) fn new(name: &str, text: String, consent: Consent) -> Self {
        Self { name: name.to_owned(), text, consent }
    }
}

/// The policy file that a project brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectPolicy {
    /// Canonical directory of the project.
    pub project: PathBuf,
    /// The text.
    pub text: String,
    /// Digest of the text: what a person accepts.
    pub digest: Digest,
    /// Whether a person accepted this text for this directory.
    pub accepted: bool,
    /// Whether the text is not there yet: accepting it puts it into the project.
    pub is_new: bool,
}

/// What accepting a policy would change.
#[derive(Debug, Clone)]
pub struct PolicyReview {
    /// The file that would be in force.
    pub policy: ProjectPolicy,
    /// The text in force, and its name: the one accepted before, else the shipped one.
    pub before: PolicyText,
    /// The difference as a unified diff; empty when the texts are equal.
    pub diff: String,
    /// Recorded decisions that would come out differently, of the newest hundred of the project.
    pub simulation: Simulation,
}

/// Most breaking changes that a plain yes accepts.
const MAX_BREAKING: usize = 5;

impl PolicyReview {
    /// How many recorded decisions would be denials and were allowed.
    #[must_use]
    pub fn breaking(&self) -> usize {
        self.simulation.changed.iter().filter(|change| change.breaking).count()
    }

    /// What has to be typed to accept it, where a yes is not enough.
    #[must_use]
    pub fn phrase(&self) -> Option<String> {
        let breaking = self.breaking();
        (breaking > MAX_BREAKING).then(|| format!("accept {breaking} breaking changes"))
    }
}

/// Content of a cell in [`ACCEPTED_SPACE`].
#[derive(Serialize, Deserialize)]
pub(super) struct Accepted {
    pub(super) project: String,
    pub(super) digest: Digest,
}

impl Kernel {
    /// The policy file of a project, and whether it was accepted.
    ///
    /// # Errors
    /// `config_invalid` when there is something that is no readable policy file;
    /// `project_inside` where the policy of another directory decides; `project_unreadable`; the log's errors.
    pub fn project_policy(&self, project: &Path) -> Result<Option<ProjectPolicy>> {
        self.grounds.check_own(&canonical_project(project)?)?;
        let Some(mut policy) = project_policy(project)? else { return Ok(None) };
        policy.accepted = self.accepted_policy(&policy.project)? == Some(policy.digest);
        Ok(Some(policy))
    }

    /// The policy that was accepted for a project whose file is not there any more: the shipped one decides there.
    ///
    /// # Errors
    /// As [`Kernel::project_policy`].
    pub fn missing_policy(&self, project: &Path) -> Result<Option<Digest>> {
        match project_policy(project)? {
            Some(_) => Ok(None),
            None => self.accepted_policy(project),
        }
    }

    /// The policy that was accepted for a project last, whatever its file holds now.
    ///
    /// # Errors
    /// As [`Kernel::project_policy`].
    pub fn accepted_policy(&self, project: &Path) -> Result<Option<Digest>> {
        Ok(self.accepted(&canonical_project(project)?)?.map(|last| last.digest))
    }

    /// What accepting a policy for a project would change: the file that is there, or `candidate` in its
    /// place.
    ///
    /// # Errors
    /// `policy_not_found` when there is neither; the load errors; what reading the log answers.
    pub fn review_policy(&self, project: &Path, candidate: Option<String>) -> Result<PolicyReview> {
        let own = self.project_policy(project)?;
        let policy = match (candidate, own) {
            (Some(text), own) => {
                let digest = Digest::of(text.as_bytes());
                let same = own.is_some_and(|own| own.digest == digest);
                let project = canonical_project(project)?;
                let accepted = same && self.accepted_policy(&project)? == Some(digest);
                ProjectPolicy { project, text, digest, accepted, is_new: !same }
            }
            (None, Some(own)) => own,
            (None, None) => {
                return Err(Error::new(
                    codes::POLICY_NOT_FOUND,
                    format!("{PROJECT_POLICY} is not there"),
                )
                .why("a project without a policy file uses the shipped policy"));
            }
        };
        let text = PolicyText::new(PROJECT_POLICY, policy.text.clone(), Consent::Joint);
        self.compile(std::slice::from_ref(&text))?;
        let before = match self.accepted(&policy.project)? {
            None => shipped(Consent::Joint),
            Some(last) => {
                let bytes = self.log.blob(&last.digest)?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                PolicyText::new(PROJECT_POLICY, text, Consent::Joint)
            }
        };
        let diff = similar::TextDiff::from_lines(before.text.as_str(), policy.text.as_str())
            .unified_diff()
            .header(&before.name, PROJECT_POLICY)
            .to_string();
        let past = Past::Project(&policy.project);
        let simulation = self.simulate(&text, past, LAST_DECISIONS)?;
        Ok(PolicyReview { policy, before, diff, simulation })
    }

    /// The texts that decide in a project: the workflow's rules, and the shipped file, or the
    /// project's once it is accepted, or both of which each must allow.
    ///
    /// # Errors
    /// As [`Kernel::project_policy`].
    pub fn policy_texts(&self, project: &Path, test: &TestSetup) -> Result<Vec<PolicyText>> {
        let mut texts = policy_texts(test, self.project_policy(project)?.as_ref());
        texts.extend(self.tenant_text());
        Ok(texts)
    }

    /// The policy that decides in a project outside a session's workflow.
    ///
    /// # Errors
    /// As [`Kernel::project_policy`]; the load errors.
    pub(super) fn project_rules(&self, project: &Path) -> Result<Policy> {
        let mut texts = project_texts(self.project_policy(project)?.as_ref());
        texts.extend(self.tenant_text());
        self.compile(&texts)
    }

    /// Puts the rules of whoever runs the server for this tenant in force, beside those of each project: what they
    /// deny or ask about counts always, and what they allow as if the project's own file did. A session that was
    /// started before keeps those of then, and these bind its later turns and open nothing in them.
    pub fn set_tenant_policy(&self, policy: Option<&str>) {
        let is_same = |known: &Option<String>| known.as_deref() == policy;
        if !is_same(&self.tenant_policy.read().unwrap_or_else(PoisonError::into_inner)) {
            let mut known = self.tenant_policy.write().unwrap_or_else(PoisonError::into_inner);
            *known = policy.map(str::to_owned);
        }
    }

    pub(super) fn tenant_text(&self) -> Option<PolicyText> {
        let known = self.tenant_policy.read().unwrap_or_else(PoisonError::into_inner);
        known.clone().map(of_tenant)
    }

    pub(super) fn accepted(&self, project: &Path) -> Result<Option<Accepted>> {
        let cell = self.log.cell(ACCEPTED_SPACE, &cell_key(project))?;
        // A cell that cannot be read accepts nothing.
        Ok(cell.and_then(|cell| serde_json::from_slice::<Accepted>(&cell.bytes).ok()))
    }

    /// The policy of these texts, ready to decide.
    pub(super) fn compile(&self, texts: &[PolicyText]) -> Result<Policy> {
        self.serve(self.compile_to_look(texts)?)
    }

    /// The policy of these texts without what runs its rules in TypeScript: for what makes a recorded
    /// decision again, and hears what those rules said then.
    pub(super) fn compile_to_look(&self, texts: &[PolicyText]) -> Result<Policy> {
        compile(texts, &protected(&self.outer, &self.program))
    }

    pub(super) fn serve(&self, policy: Policy) -> Result<Policy> {
        served(policy, || self.host())
    }
}

/// The policy file of a project as it stands, accepted by nobody.
///
/// # Errors
/// As [`Kernel::project_policy`].
pub fn project_policy(project: &Path) -> Result<Option<ProjectPolicy>> {
    let project = canonical_project(project)?;
    let Some(text) = project_text(&project, PROJECT_POLICY, MAX_POLICY_BYTES)? else {
        return Ok(None);
    };
    let digest = Digest::of(text.as_bytes());
    Ok(Some(ProjectPolicy { project, text, digest, accepted: false, is_new: false }))
}

/// See [`Kernel::policy_texts`].
#[must_use]
pub fn policy_texts(test: &TestSetup, own: Option<&ProjectPolicy>) -> Vec<PolicyText> {
    let mut texts = vec![workflow(test)];
    texts.extend(project_texts(own));
    texts
}

/// The rules that the workflow brings into every session.
pub(super) fn workflow(test: &TestSetup) -> PolicyText {
    let text = glasshouse_policy::workflow_source(&test.test_globs, &test.source_globs);
    PolicyText::new(WORKFLOW_POLICY, text, Consent::Joint)
}

/// The texts that decide outside a session's workflow.
pub(super) fn project_texts(own: Option<&ProjectPolicy>) -> Vec<PolicyText> {
    let project =
        |own: &ProjectPolicy, consent| PolicyText::new(PROJECT_POLICY, own.text.clone(), consent);
    match own {
        None => vec![shipped(Consent::Joint)],
        Some(own) if own.accepted => vec![project(own, Consent::Joint)],
        Some(own) => vec![shipped(Consent::Own), project(own, Consent::Own)],
    }
}

/// A tenant's policy.
pub(super) fn of_tenant(text: String) -> PolicyText {
    PolicyText::new(TENANT_POLICY, text, Consent::Joint)
}

/// The shipped policy.
pub(super) fn shipped(consent: Consent) -> PolicyText {
    PolicyText::new(SHIPPED_POLICY, glasshouse_policy::default_source().to_owned(), consent)
}

/// Compiles texts under what no rule may open.
///
/// # Errors
/// The policy's load errors; `invalid_pattern` for a secret pattern that cannot be used.
pub fn compile(texts: &[PolicyText], protected: &Protected) -> Result<Policy> {
    let sources: Vec<_> = texts
        .iter()
        .map(|text| Source {
            name: &text.name,
            text: &text.text,
            consent: text.consent,
            // A file of these names that somebody wrote is tried alone.
            is_given: texts.len() > 1
                && ([WORKFLOW_POLICY, TENANT_POLICY, TENANT_SINCE].contains(&&*text.name)
                    || (text.name == SHIPPED_POLICY && text.consent == Consent::Own)),
        })
        .collect();
    let policy = Policy::compile(&sources, protected)?;
    masks::check_patterns(&policy)?;
    Ok(policy)
}

/// Starts what runs a policy's rules in TypeScript, where it has some.
///
/// # Errors
/// `policy_extension_failed` with the place in the policy; the errors of the sandbox: rules that cannot
/// be asked are no reason to go on without them.
pub fn served(policy: Policy, host: impl FnOnce() -> Result<Arc<SandboxHost>>) -> Result<Policy> {
    if policy.extensions().is_empty() {
        return Ok(policy);
    }
    let host = host()?;
    let mut programs = Programs::default();
    for text in policy.extensions() {
        if !programs.runs(&text.code) {
            let started = ScriptExtension::start(Arc::clone(&host), &text.code, Language::Ts);
            programs.add(&text.code, started.map_err(|error| extension::of_policy(error, text))?);
        }
    }
    Ok(policy.served_by(Arc::new(programs)))
}

/// What no rule may open: the data directory and the program's own file, without links, as the sources
/// of mounts are named.
#[must_use]
pub fn protected(home: &Path, program: &Path) -> Protected {
    Protected {
        host_paths: vec![real_path(home).display().to_string()],
        program_paths: vec![real_path(program).display().to_string()],
        ..Protected::default()
    }
}

/// As the texts of a session are recorded.
pub(super) fn recorded(kernel: &Kernel, texts: &[PolicyText]) -> Result<Vec<PolicySource>> {
    texts
        .iter()
        .map(|text| {
            put(&kernel.log, text.text.as_bytes())?;
            Ok(source_of(text))
        })
        .collect()
}

/// A text as it is recorded.
pub(super) fn source_of(text: &PolicyText) -> PolicySource {
    PolicySource {
        name: text.name.clone(),
        text: BlobRef { blob: Digest::of(text.text.as_bytes()), bytes: text.text.len() as u64 },
        apart: text.consent == Consent::Own,
        stricter: text.consent == Consent::Stricter,
    }
}

/// The texts that a session was started with.
pub(super) fn of_session(kernel: &Kernel, recorded: &[PolicySource]) -> Result<Vec<PolicyText>> {
    recorded
        .iter()
        .map(|source| {
            let text = kernel.log.blob(&source.text.blob)?;
            let text = String::from_utf8_lossy(&text).into_owned();
            let consent = match (source.stricter, source.apart) {
                (true, _) => Consent::Stricter,
                (false, true) => Consent::Own,
                (false, false) => Consent::Joint,
            };
            Ok(PolicyText::new(&source.name, text, consent))
        })
        .collect()
}

/// What decides in a session that is carried on: what it was started with; where a person accepted another file for the
/// project since, that file too, and then each of them has to allow a call itself; and where the tenant has other rules
/// since, what they deny, ask and demand. So nothing that was denied since happens, and nothing opens that the session
/// was not started with. The policy is another one then, and no grant or approval of before counts.
pub(super) fn carried_on(kernel: &Kernel, created: &SessionCreated) -> Result<Vec<PolicyText>> {
    let mut texts = of_session(kernel, &created.policy)?;
    let since = accepted_since(kernel, created)?;
    if since.is_some() {
        for text in &mut texts {
            if ![WORKFLOW_POLICY, TENANT_POLICY].contains(&&*text.name) {
                text.consent = Consent::Own;
            }
        }
    }
    texts.extend(of_session(kernel, since.as_slice())?);
    let is_known = |now: &PolicyText| {
        texts.iter().any(|then| then.name == TENANT_POLICY && then.text == now.text)
    };
    let told = kernel.tenant_text().filter(|now| !is_known(now));
    texts.extend(told.map(|now| PolicyText::new(TENANT_SINCE, now.text, Consent::Stricter)));
    Ok(texts)
}

/// The file that a person accepted for a session's project since it was started, if it is another one.
fn accepted_since(kernel: &Kernel, created: &SessionCreated) -> Result<Option<PolicySource>> {
    let Some(last) = kernel.accepted(Path::new(&created.project))? else { return Ok(None) };
    let is_there =
        |source: &PolicySource| source.name == PROJECT_POLICY && source.text.blob == last.digest;
    if created.policy.iter().any(is_there) {
        return Ok(None);
    }
    let bytes = kernel.log.blob(&last.digest)?.len() as u64;
    let text = BlobRef { blob: last.digest, bytes };
    Ok(Some(PolicySource { name: ACCEPTED_SINCE.to_owned(), text, apart: true, stricter: false }))
}

/// The policy files of a session's project: what it was started with, and what was accepted since.
pub(super) fn project_texts_of(
    kernel: &Kernel,
    created: &SessionCreated,
) -> Result<Vec<PolicyText>> {
    let started = created.policy.iter().filter(|source| source.name == PROJECT_POLICY).cloned();
    let own: Vec<_> = started.chain(accepted_since(kernel, created)?).collect();
    let own = of_session(kernel, &own)?.into_iter();
    Ok(own.map(|text| PolicyText { consent: Consent::Joint, ..text }).collect())
}

/// The texts that decide in a session which another log recorded. What it recorded as the workflow's rules
/// and the shipped ones may be anything, so both are made anew; what else it recorded has to allow each call
/// as well, and so has what a person here accepted for the project.
pub(super) fn of_stranger(kernel: &Kernel, created: &SessionCreated) -> Result<Vec<PolicyText>> {
    let ours = [workflow(&created.test), shipped(Consent::Own)];
    let theirs = of_session(kernel, &created.policy)?.into_iter();
    let theirs = theirs.filter(|text| ![WORKFLOW_POLICY, SHIPPED_POLICY].contains(&&*text.name));
    let theirs = theirs.map(|text| PolicyText { consent: Consent::Own, ..text });
    let accepted: Vec<_> = accepted_since(kernel, created)?.into_iter().collect();
    let accepted = of_session(kernel, &accepted)?;
    Ok(ours.into_iter().chain(theirs).chain(accepted).collect())
}

/// Paths can be longer than a key may be.
pub(super) fn cell_key(project: &Path) -> String {
    Digest::of(project.as_os_str().as_encoded_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use glasshouse_model::syscall::name;
    use glasshouse_model::{Call, Principal, PrincipalKind, TenantId};

    use super::*;

    /// The failure: a data directory named through a link was protected under that name alone, while
    /// sources of mounts are named without links: a mount of it was decided as any other directory's.
    /// Now: it is out of reach however it was named, and so are the directories above and below it.
    #[test]
    fn the_data_directory_is_out_of_reach_however_it_was_named() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(at.join("state/home")).unwrap();
        std::fs::create_dir(at.join("other")).unwrap();
        std::os::unix::fs::symlink("state", at.join("link")).unwrap();
        let is_refused = |home: &str, source: &str| {
            let guarded = protected(&at.join(home), Path::new("/usr/bin/glasshouse"));
            let policy = compile(&[shipped(Consent::Joint)], &guarded).unwrap();
            let kernel = Principal::new(PrincipalKind::Kernel, "kernel", TenantId::local());
            let mut call = Call::new(name::SANDBOX_MOUNT, kernel);
            call.host_path = Some(at.join(source).display().to_string());
            !glasshouse_policy::decide(&policy, &glasshouse_policy::Request::new(&call, 1))
                .decision
                .is_allowed()
        };
        // The last one does not exist yet.
        for home in ["state/home", "link/home", "link/later"] {
            let real = home.replace("link", "state");
            for source in [real.as_str(), "state", &format!("{real}/keys")] {
                assert!(is_refused(home, source), "{source} for {home}");
            }
            assert!(!is_refused(home, "other"), "{home}");
        }
    }
}
