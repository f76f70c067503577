//! Policy: what is in force, what it would say, and accepting another one.

use std::path::{Path, PathBuf};

use glasshouse_kernel::driver::{Changed, PolicyReview, Tried};
use glasshouse_kernel::{Config, codes};
use glasshouse_model::Digest;
use glasshouse_policy::{CallSketch, Policy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ask::Ask;
use crate::reply::Reply;
use crate::service::Service;
use crate::{Error, Result};

/// The policy of a session that would start in a project.
fn policy_in(service: &Service, project: &Path, text: Option<String>) -> Result<Policy> {
    let settings = service.desk.settings(Config::default(), project)?;
    Ok(service.kernel.policy_in(project, &settings.config, text)?)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "PolicyQuery")]
#[serde(deny_unknown_fields)]
pub(crate) struct Shown {
    /// Directory of a project.
    project: PathBuf,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PolicyRule")]
struct Rule<'a> {
    name: &'a str,
    layer: glasshouse_model::Layer,
    action: glasshouse_model::Effect,
    source: Option<&'a str>,
    line: Option<u64>,
    reason: Option<&'a str>,
}

/// The policy file of a project.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ProjectPolicy")]
struct Own {
    digest: Digest,
    /// Whether a person accepted this text for this directory.
    accepted: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PolicyInForce")]
pub(crate) struct InForce<'a> {
    policy_version: Digest,
    /// The file that the project brings, if there is one.
    project_policy: Option<Own>,
    rules: Vec<Rule<'a>>,
}

/// The rules that would decide in a project.
pub(crate) fn show(service: &Service, ask: &Ask) -> Result<Reply> {
    let project = ask.project(ask.query::<Shown>()?.project)?;
    let policy = policy_in(service, &project, None)?;
    let own = service.kernel.project_policy(&project)?;
    let rules = policy.rules().map(|rule| Rule {
        name: rule.name,
        layer: rule.layer,
        action: rule.action,
        source: rule.source,
        line: rule.line,
        reason: rule.reason,
    });
    Ok(Reply::ok(&InForce {
        policy_version: policy.version(),
        project_policy: own.map(|own| Own { digest: own.digest, accepted: own.accepted }),
        rules: rules.collect(),
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "PolicyCall")]
#[serde(deny_unknown_fields)]
pub(crate) struct Made {
    /// Directory of a project; the call is made there.
    project: PathBuf,
    /// The call in short form, as in examples of rules: `syscall`, `path`, `argv`, `host`, …
    call: serde_json::Map<String, Value>,
    /// The text of a policy file, tried in the place of the project's.
    policy: Option<String>,
}

fn tried(service: &Service, ask: &Ask) -> Result<(Tried, Policy)> {
    let Made { project, call, policy } = ask.json()?;
    let project = ask.project(project)?;
    let sketch = CallSketch::from_json(&Value::Object(call).to_string())?;
    let policy = policy_in(service, &project, policy)?;
    let config =
        || Ok::<_, crate::Error>(service.desk.settings(Config::default(), &project)?.config);
    Ok((Tried::new(sketch, &project, config)?, policy))
}

/// What would decide a call.
pub(crate) fn check(service: &Service, ask: &Ask) -> Result<Reply> {
    let (call, policy) = tried(service, ask)?;
    Ok(Reply::ok(&call.decide(&policy)))
}

/// The same, and what would have made it another decision.
pub(crate) fn explain(service: &Service, ask: &Ask) -> Result<Reply> {
    let (call, policy) = tried(service, ask)?;
    Ok(Reply::ok(&call.explain(&policy)))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "PolicyProposal")]
#[serde(deny_unknown_fields)]
pub(crate) struct Proposed {
    /// Directory of the project.
    project: PathBuf,
    /// The text of a policy file; without it the file that is there is meant.
    policy: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PolicyReview")]
pub(crate) struct Review<'a> {
    /// Directory of the project.
    project: &'a Path,
    /// What is accepted.
    digest: Digest,
    /// Whether it is already.
    accepted: bool,
    /// Unified; empty when nothing differs.
    diff: &'a str,
    /// Recorded decisions that were made again.
    decisions: u64,
    /// Those that come out differently.
    changed: &'a [Changed],
    /// How many of those were allowed and would be denied.
    breaking: usize,
    /// What has to be sent as `confirm`, where a yes is not enough.
    confirm: Option<String>,
}

/// What accepting a policy would change. Nothing is recorded before it is approved.
pub(crate) fn propose(service: &Service, ask: &Ask) -> Result<Reply> {
    let Proposed { project, policy } = ask.json()?;
    let review = service.kernel.review_policy(&ask.project(project)?, policy)?;
    Ok(Reply::ok(&Review {
        project: &review.policy.project,
        digest: review.policy.digest,
        accepted: review.policy.accepted,
        diff: &review.diff,
        decisions: review.simulation.decisions,
        changed: &review.simulation.changed,
        breaking: review.breaking(),
        confirm: review.phrase(),
    }))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "PolicyApproval")]
#[serde(deny_unknown_fields)]
pub(crate) struct Approved {
    /// Directory of the project.
    project: PathBuf,
    /// The text of a policy file; without it the file that is there is meant.
    policy: Option<String>,
    /// Digest of the text that was read.
    digest: Digest,
    /// What the proposal asks for where a yes is not enough.
    confirm: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PolicyAccepted")]
pub(crate) struct Accepted {
    /// Digest of the text.
    accepted: Digest,
    /// Whether it was not accepted until now.
    changed: bool,
    /// Recorded decisions that were allowed and would be denied.
    breaking: usize,
}

/// Accepts a policy: exactly the text that was read, for exactly this project.
pub(crate) fn approve(service: &Service, ask: &Ask) -> Result<Reply> {
    let Approved { project, policy, digest, confirm } = ask.json()?;
    let review = service.kernel.review_policy(&ask.project(project)?, policy)?;
    check_read(&review, digest, confirm.as_deref())?;
    let own = &review.policy;
    let changed = !own.accepted;
    if changed {
        service.kernel.accept_policy(own, ask.principal()?)?;
    }
    Ok(Reply::ok(&Accepted { accepted: own.digest, changed, breaking: review.breaking() }))
}

fn check_read(review: &PolicyReview, digest: Digest, confirm: Option<&str>) -> Result<()> {
    if digest != review.policy.digest {
        let why = format!("it has the digest {}, not {digest}", review.policy.digest);
        return Err(Error::new(codes::POLICY_CHANGED, "the policy was not accepted").why(why));
    }
    match review.phrase() {
        Some(phrase) if confirm != Some(&phrase) => {
            Err(Error::new(codes::APPROVAL_NEEDED, "the policy was not accepted")
                .why("it would deny what was allowed in many decisions")
                .fix(format!("send `confirm` with the text `{phrase}`")))
        }
        _ => Ok(()),
    }
}
