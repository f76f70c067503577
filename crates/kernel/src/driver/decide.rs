//! Deciding a call: arguments checked, paths resolved to what they really are, policy asked.

use std::path::Path;

use glasshouse_log::CellWrite;
use glasshouse_model::body::{CallStatus, GrantUsed, PolicyDecided, ToolProposed};
use glasshouse_model::syscall::name;
use glasshouse_model::{
    Call, CallId, CanonicalPath, ChangeClass, Decision, Digest, Draft, Effect, Fault, Kind, Layer,
    Principal, PrincipalKind, RuleTrace,
};
use glasshouse_policy::{
    Approval, ApprovalRefusal, ApprovalUse, GrantUse, Heard, Policy, Request, StandingRefusal,
    StandingUse, Verdict,
};
use glasshouse_sandbox::view::{Intent, ResolvedPath};
use glasshouse_tools::sanitise::Masker;
use glasshouse_tools::{Arguments, Url, parse_arguments};
use tokio::task::JoinSet;

use super::demands::of_tool;
use super::execute::{Allowed, is_sandboxed};
use super::grants::{self, Counters, approval_grant};
use super::people::Cancel;
use super::{Session, TaskEnd, failed_call, in_place, lock};
use crate::session::exemption::{self, Confines};
use crate::session::{CallPhase, EXEMPTION_SCOPE, WORKSPACE_BOUNDARY, refused};
use crate::{Error, Result, codes};

/// Wall-clock time in microseconds since 1970.
#[must_use]
pub fn now_us() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |age| u64::try_from(age.as_micros()).unwrap_or(u64::MAX))
}

/// In strict mode files are explored under an exemption only: those that it names, while it lasts. What the
/// repository ignores is no part of any change.
pub(super) fn confined(decision: Decision, call: &Call, confines: Option<&Confines>) -> Decision {
    let writes = [name::FS_WRITE, name::FS_EDIT, name::FS_DELETE].contains(&call.syscall.as_str());
    let Some(confines) = confines else { return decision };
    if !writes || call.change == Some(ChangeClass::Ignored) {
        return decision;
    }
    match confines.refusal(call.path.as_ref(), now_us()) {
        Some(reason) => denied_by_kernel(decision, EXEMPTION_SCOPE, reason),
        None => decision,
    }
}

/// A request for an exemption that nobody can grant is denied, whoever is asked.
pub(super) fn fitting(decision: Decision, misfit: Option<&String>) -> Decision {
    match misfit {
        Some(reason) => denied_by_kernel(decision, EXEMPTION_SCOPE, reason.clone()),
        None => decision,
    }
}

pub(super) fn denied_by_kernel(mut decision: Decision, name: &str, reason: String) -> Decision {
    // The words of what is overruled did not bring the denial about; the rules are told all the same.
    if decision.effect != Effect::Deny {
        decision.reasons.clear();
    }
    decision.effect = Effect::Deny;
    decision.rules.push(kernel_rule(name, &reason));
    decision.reasons.push(reason);
    decision
}

/// A denial by the kernel itself, told like one of a rule.
fn kernel_rule(name: &str, reason: &str) -> RuleTrace {
    RuleTrace {
        source: None,
        name: name.to_owned(),
        layer: Layer::BuiltIn,
        line: None,
        action: Effect::Deny,
        reason: Some(reason.to_owned()),
    }
}

/// The denial of a path that is not in the workspace: no rule can allow it.
#[must_use]
pub fn boundary_denial(policy: &Policy, reason: &str) -> Decision {
    Decision {
        effect: Effect::Deny,
        rules: vec![kernel_rule(WORKSPACE_BOUNDARY, reason)],
        reasons: vec![reason.to_owned()],
        policy_version: policy.version(),
        constraints: glasshouse_model::Constraints::default(),
    }
}

/// A decision as an event may keep it. The arguments of its call were masked when they were proposed; the
/// paths and names that it meets may hold a secret of their own, and rules in TypeScript say what they like,
/// also what they saw.
pub(crate) fn masked(masker: &Masker, mut decided: PolicyDecided) -> PolicyDecided {
    let mask = |text: &mut String| *text = masker.mask_str(text);
    if let Some(call) = &mut decided.input {
        call.path = call.path.take().and_then(|path| match masker.mask_str(path.as_str()) {
            same if same == path.as_str() => Some(path),
            masked => CanonicalPath::parse(&masked).ok(),
        });
        call.argv.iter_mut().flatten().for_each(mask);
        let places =
            [&mut call.host_path, &mut call.host, &mut call.http_path, &mut call.http_query];
        places.into_iter().flatten().for_each(mask);
    }
    decided.subject.iter_mut().for_each(mask);
    let Decision { reasons, rules, .. } = &mut decided.decision;
    reasons.iter_mut().for_each(mask);
    rules.iter_mut().filter_map(|rule| rule.reason.as_mut()).for_each(mask);
    decided
}

/// A call on its way to the policy.
struct Described {
    call: Call,
    /// What a look looks at, opened at the path that is decided on. An act that may end the sandbox
    /// holds nothing of it open.
    opened: Option<ResolvedPath>,
    /// Why a path cannot be inside the workspace.
    outside: Option<String>,
}

impl Session {
    /// The principal in whose name the model acts.
    pub(super) fn agent(&self) -> Principal {
        Principal::new(PrincipalKind::Agent, "agent", self.recorder.log().tenant().clone())
    }

    /// Asks the policy, presenting an approval if there is one and the standing grants that fit. What the
    /// verdict uses up has to be stored by the counters.
    fn decide(
        &self,
        call: &Call,
        approval: Option<(CallId, &Approval)>,
        counters: &Counters<'_>,
    ) -> Verdict {
        let mut request = Request::new(call, now_us());
        request.counters = counters;
        // The tree the act starts from: void where nothing is frozen, so no approval fits.
        let base = self.state().frozen.as_ref().map_or(Digest::ZERO, |(_, frozen)| frozen.base);
        request.approval = approval.map(|(id, approval)| ApprovalUse {
            approval,
            branch: self.branch(),
            call: id,
            base_tree: &base,
        });
        let verdict = glasshouse_policy::decide(&self.policy, &request);
        if verdict.decision.effect != Effect::RequireReview {
            return verdict;
        }
        // A log that cannot be read grants nothing.
        let grants = grants::standing(self.recorder.log()).unwrap_or_default();
        // Asked once a decision: what it said stays said.
        let heard = Heard::in_decision(&verdict.decision);
        request.extension = Some(&heard);
        let project = self.state().created.as_ref().map_or("", |created| &created.project);
        // Few grants are for one, and to tell which it is means to look at files.
        let is_asked = grants.iter().any(|grant| grant.terms().repository.is_some());
        let repository = is_asked.then(|| in_place(|| grants::repository(Path::new(project))));
        request.standing = Some(StandingUse {
            grants: &grants,
            branch: self.branch(),
            turn: self.state().turn,
            workspace: project,
            repository: repository.as_ref().and_then(Option::as_deref),
        });
        glasshouse_policy::decide(&self.policy, &request)
    }

    /// Why a file may not be written: a secret in it would enter the workspace and the log, and a
    /// mask in its place would be a file that nobody asked for.
    fn secret_to_write(&self, proposed: &ToolProposed, arguments: &Arguments) -> Option<Fault> {
        let texts: &[&str] = match arguments {
            Arguments::FsWrite { path, content } => &[path, content],
            Arguments::FsEdit { path, new, .. } => &[path, new],
            _ => return None,
        };
        let holds = |text: &&str| self.masker.mask_str(text) != **text;
        (proposed.masked || texts.iter().any(holds)).then(|| {
            Fault::new(codes::SECRET_IN_ARGUMENTS, "the file was not written")
                .why("its content holds a secret, or what looks like an access token")
        })
    }

    /// Checks, resolves and decides a proposed call; records what came of it. An allowed call starts
    /// at once: decision and start are one transaction, so one sync stands before the act.
    pub(super) async fn decide_call(
        &mut self,
        tasks: &mut JoinSet<TaskEnd>,
        id: CallId,
        cancel: &Cancel,
    ) -> Result<()> {
        let Some(record) = self.state().calls.get(&id).cloned() else { return Ok(()) };
        let tool = record.proposed.tool.clone();
        let arguments = match parse_arguments(&tool, &record.proposed.arguments) {
            Ok(arguments) => arguments,
            Err(error) => return self.recorder.record(vec![failed_call(id, &error.into())]).await,
        };
        if let Some(fault) = self.secret_to_write(&record.proposed, &arguments) {
            return self.recorder.record(vec![failed_call(id, &fault)]).await;
        }
        // A tool whose arguments parse is in the registry.
        let syscall = self.registry.lookup(&tool).map_or("unknown", |tool| tool.syscall);
        let Described { call, opened, outside } = match self.describe(syscall, &arguments) {
            Ok(described) => described,
            Err(error) => return self.recorder.record(vec![failed_call(id, &error.into())]).await,
        };
        let approval = match record.phase {
            CallPhase::Approved(approval) => self.approval(id, approval),
            _ => None,
        };
        let counters = Counters::new(self.recorder.log());
        let verdict = match outside {
            Some(reason) => Err(boundary_denial(&self.policy, &reason)),
            None => {
                let approval = approval.as_ref().map(|approval| (id, approval));
                Ok(self.decide(&call, approval, &counters))
            }
        };
        let decision = match &verdict {
            Err(decision) => decision.clone(),
            Ok(verdict) => verdict.decision.clone(),
        };
        let decision = of_tool(decision, syscall, None);
        let decision = match exemption::misfit(self.state(), &arguments) {
            Some(reason) => fitting(decision, Some(&reason)),
            None => confined(decision, &call, self.state().confines().as_ref()),
        };
        let decision = lock(&self.rates).hold(decision, now_us());
        let (is_allowed, constraints) = (decision.is_allowed(), decision.constraints.clone());
        let (mut drafts, cells) = match &verdict {
            Err(_) => (Vec::new(), Vec::new()),
            Ok(verdict) => rights(id, (verdict, is_allowed), approval.as_ref(), &counters),
        };
        let body = PolicyDecided::new(Some(id), call.clone(), subject(&call), decision);
        let body = masked(&self.masker, body);
        drafts.push(Draft::new(Kind::PolicyDecided, &body).caused_by(id.0));
        if !is_allowed {
            return self.recorder.record_with(drafts, cells).await;
        }
        let path = call.path;
        let allowed = Allowed { id, arguments, path, opened, constraints, drafts, cells };
        self.start_call(tasks, allowed, cancel).await
    }

    /// Resolves what a call names and puts the call as policy sees it.
    fn describe(&self, syscall: &str, arguments: &Arguments) -> Result<Described> {
        let mut call = Call::new(syscall, self.agent());
        call.session = Some(self.id().clone());
        call.state = Some(self.state().workflow().to_string());
        call.args_digest = Some(arguments.digest());
        call.labels = self.context_labels();
        call.argv = match arguments {
            Arguments::TestRun { .. } => {
                self.state().created.as_ref().map(|created| created.test.argv.clone())
            }
            _ => arguments.argv(),
        };
        if let Arguments::WebFetch { url } = arguments {
            let url = Url::parse(url)?;
            call.host = Some(url.host().to_owned());
            call.port = Some(url.port());
            call.http_path = Some(url.path().to_owned());
            call.http_query = url.query().map(str::to_owned);
            call.method = Some("GET".to_owned());
        }
        let Some((text, intent)) = arguments.target() else {
            return Ok(Described { call, opened: None, outside: None });
        };
        // Whether something may be looked at is decided also where nothing is.
        let intent = if intent == Intent::Create { Intent::Create } else { Intent::Any };
        let looked = in_place(|| {
            let mut bench = lock(&self.workbench);
            let target = bench.view()?.resolve(text, intent)?;
            let written = match intent {
                Intent::Create => Some(bench.written(&target, arguments)?),
                _ => None,
            };
            Ok::<_, Error>((target, written))
        });
        let (target, written) = match looked {
            Ok(looked) => looked,
            Err(error) if error.exit() == glasshouse_model::Exit::Denied => {
                return Ok(Described { call, opened: None, outside: Some(error.to_string()) });
            }
            Err(error) => return Err(error),
        };
        // A command's directory is no subject of a rule about paths; what it changes is.
        let place = target.canonical().clone();
        match call.argv {
            Some(_) => call.cwd = Some(place).filter(|place| *place != CanonicalPath::root()),
            None => call.path = Some(place),
        }
        if let Some(written) = written {
            call.size_bytes = Some(written.size_bytes);
            call.change = Some(written.class);
        }
        let opened = (!is_sandboxed(arguments)).then_some(target);
        Ok(Described { call, opened, outside: None })
    }

    /// Taint of everything the model has seen.
    pub(super) fn context_labels(&self) -> std::collections::BTreeSet<String> {
        self.state().taint.context()
    }

    /// The one-use approval that a person gave for this call.
    fn approval(&self, id: CallId, approval: glasshouse_model::Seq) -> Option<Approval> {
        let (request, resolved) = self.state().granted.get(&approval)?;
        Some(Approval {
            id: approval_grant(self.branch(), approval),
            session: self.id().clone(),
            branch: self.branch().clone(),
            call: id,
            args_digest: request.args_digest,
            policy_version: request.policy_version,
            approver: Principal::new(
                resolved.approver.kind,
                &resolved.approver.id,
                self.recorder.log().tenant().clone(),
            ),
            base_tree: request.base,
            expires_us: resolved.expires_us,
        })
    }
}

/// Every counter that an allowed call uses up.
fn uses(verdict: &Verdict) -> impl Iterator<Item = &GrantUse> {
    verdict.grant_use.iter().chain(&verdict.approval_use).chain(&verdict.standing_uses)
}

/// What a decision did to the rights it was made with: events, and the cells that go with them.
fn rights(
    id: CallId,
    (verdict, is_allowed): (&Verdict, bool),
    approval: Option<&Approval>,
    counters: &Counters<'_>,
) -> (Vec<Draft>, Vec<CellWrite>) {
    let (mut drafts, mut cells) = (Vec::new(), Vec::new());
    // An act that does not happen uses nothing up.
    for used in uses(verdict).filter(|_| is_allowed) {
        let body = GrantUsed { grant: used.id.to_string(), counter: used.counter };
        drafts.push(Draft::new(Kind::GrantUsed, &body).caused_by(id.0));
        cells.push(counters.cell(used));
    }
    for (draft, cell) in ended(verdict, approval, counters) {
        drafts.push(draft.caused_by(id.0));
        cells.push(cell);
    }
    if verdict.approval_refusals.contains(&ApprovalRefusal::Expired) {
        let text = "denied: the approval had expired before the call could run; call \
                    again to be asked again";
        let code = codes::APPROVAL_EXPIRED.name;
        drafts.push(refused(id, CallStatus::Denied, code, text.to_owned()));
    }
    (drafts, cells)
}

/// Grants that this decision found over, ended for good.
fn ended(
    verdict: &Verdict,
    approval: Option<&Approval>,
    counters: &Counters<'_>,
) -> Vec<(Draft, CellWrite)> {
    let standing = verdict.standing_refusals.iter();
    let expired = standing.filter(|(_, why)| *why == StandingRefusal::Expired).map(|(id, _)| *id);
    let approval = approval
        .filter(|_| verdict.approval_refusals.contains(&ApprovalRefusal::Expired))
        .map(|approval| approval.id);
    expired.chain(approval).map(|id| counters.expire(id)).collect()
}

/// What a call is about, for people.
fn subject(call: &Call) -> Option<String> {
    let argv = call.argv.as_ref().map(|argv| argv.join(" "));
    let path = call.path.as_ref().map(ToString::to_string);
    match call.syscall.as_str() {
        name::SHELL_RUN | name::TEST_RUN => argv,
        name::NET_CONNECT => call.host.clone(),
        _ => path.or(argv),
    }
}
