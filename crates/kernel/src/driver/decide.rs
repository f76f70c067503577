//! Deciding a call: arguments checked, paths resolved to what they really are, policy asked.

use glasshouse_log::{CellWrite, Log};
use glasshouse_model::body::{ApprovalResolved, GrantUsed, PolicyDecided, ToolProposed};
use glasshouse_model::syscall::name;
use glasshouse_model::{
    Actor, BranchId, Call, CallId, CanonicalPath, Decision, Digest, Draft, Effect, Fault, Kind,
    Layer, Principal, PrincipalKind, RuleTrace, Seq, TenantId,
};
use glasshouse_policy::{
    Approval, ApprovalUse, GrantId, GrantUse, Policy, Request, UseCounters, Verdict,
};
use glasshouse_sandbox::view::{Intent, ResolvedPath};
use glasshouse_tools::sanitise::Masker;
use glasshouse_tools::{Arguments, parse_arguments};
use tokio::task::JoinSet;

use super::execute::{Allowed, is_sandboxed};
use super::people::{Answer, Cancel, ReviewItem};
use super::{Session, TaskEnd, failed_call, in_place, lock};
use crate::session::{CallPhase, SANDBOX_DEMANDED, WORKSPACE_BOUNDARY};
use crate::{Error, Result, codes};

/// How long an approval is good for.
const APPROVAL_LIFETIME_US: u64 = 10 * 60 * 1_000_000;

/// Wall-clock time in microseconds since 1970.
#[must_use]
pub fn now_us() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |age| u64::try_from(age.as_micros()).unwrap_or(u64::MAX))
}

/// An allowing rule may demand a sandbox. Where the call would run in another one or in none, it is
/// denied: a demand is never met by something weaker.
fn in_demanded_sandbox(mut decision: Decision, arguments: &Arguments) -> Decision {
    let Some(wanted) = decision.constraints.require_sandbox.clone() else { return decision };
    let met = is_sandboxed(arguments) && matches!(wanted.as_str(), "L2" | "code-executor");
    if decision.is_allowed() && !met {
        let reason =
            format!("a rule demands the sandbox `{wanted}`, which this call would not run in");
        decision.effect = Effect::Deny;
        decision.rules.push(kernel_rule(SANDBOX_DEMANDED, &reason));
        decision.reasons.push(reason);
    }
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

/// A call as an event may keep it. Its arguments were masked when they were proposed; the paths and
/// names that it meets may hold a secret of their own.
pub(super) fn masked(masker: &Masker, mut call: Call) -> Call {
    let mask = |text: &mut String| *text = masker.mask_str(text);
    call.path = call.path.and_then(|path| match masker.mask_str(path.as_str()) {
        same if same == path.as_str() => Some(path),
        masked => CanonicalPath::parse(&masked).ok(),
    });
    call.argv.iter_mut().flatten().for_each(mask);
    call.host_path.iter_mut().for_each(mask);
    call
}

/// The event that a person's answer becomes.
pub(super) fn resolution(item: &ReviewItem, answer: Answer, approver: Actor) -> Vec<Draft> {
    // Whoever implements `Reviewer`, an agent or a plugin never approves.
    let may_approve = approver.kind == PrincipalKind::User;
    let (approved, code) = match answer {
        Answer::Approve if may_approve => (true, "approved"),
        Answer::Approve | Answer::Reject => (false, "rejected"),
        Answer::Nobody => (false, "no_approver"),
    };
    let body = ApprovalResolved {
        approval: item.approval,
        approved,
        approver: approver.clone(),
        code: code.to_owned(),
        expires_us: now_us().saturating_add(APPROVAL_LIFETIME_US),
    };
    vec![Draft::new(Kind::ApprovalResolved, &body).by(approver).caused_by(item.approval)]
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
        Principal::new(PrincipalKind::Agent, "agent", TenantId::local())
    }

    /// Asks the policy, presenting an approval if there is one.
    pub(super) fn decide(&self, call: &Call, approval: Option<(CallId, &Approval)>) -> Verdict {
        let counters = Counters(self.recorder.log());
        let mut request = Request::new(call, now_us());
        request.counters = &counters;
        // The tree the act starts from: void where nothing is frozen, so no approval fits.
        let base = self.state().frozen.as_ref().map_or(Digest::ZERO, |(_, frozen)| frozen.base);
        request.approval = approval.map(|(id, approval)| ApprovalUse {
            approval,
            branch: self.branch(),
            call: id,
            base_tree: &base,
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
        let (decision, uses): (_, Vec<GrantUse>) = match outside {
            Some(reason) => (boundary_denial(&self.policy, &reason), Vec::new()),
            None => {
                let verdict = self.decide(&call, approval.as_ref().map(|approval| (id, approval)));
                (
                    verdict.decision,
                    verdict.grant_use.into_iter().chain(verdict.approval_use).collect(),
                )
            }
        };
        let decision = in_demanded_sandbox(decision, &arguments);
        let (is_allowed, constraints) = (decision.is_allowed(), decision.constraints.clone());
        let mut drafts = Vec::new();
        for used in &uses {
            let body = GrantUsed { grant: used.id.to_string(), counter: used.counter };
            drafts.push(Draft::new(Kind::GrantUsed, &body).caused_by(id.0));
        }
        let input = masked(&self.masker, call.clone());
        let body = PolicyDecided::new(Some(id), input, subject(&call), decision);
        drafts.push(Draft::new(Kind::PolicyDecided, &body).caused_by(id.0));
        let cells = uses.iter().map(counter_cell).collect();
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
        call.path = call.argv.is_none().then(|| target.canonical().clone());
        if let Some(written) = written {
            call.size_bytes = Some(written.size_bytes);
            call.change = Some(written.class);
        }
        let opened = (!is_sandboxed(arguments)).then_some(target);
        Ok(Described { call, opened, outside: None })
    }

    /// Taint of everything the model has seen.
    fn context_labels(&self) -> std::collections::BTreeSet<String> {
        let labels =
            if self.state().calls.is_empty() { &["user"][..] } else { &["repo", "user"][..] };
        labels.iter().map(|label| (*label).to_owned()).collect()
    }

    /// The one-use approval that a person gave for this call.
    fn approval(&self, id: CallId, approval: glasshouse_model::Seq) -> Option<Approval> {
        let (request, resolved) = self.state().granted.get(&approval)?;
        Some(Approval {
            id: grant_id(self.branch(), approval),
            session: self.id().clone(),
            branch: self.branch().clone(),
            call: id,
            args_digest: request.args_digest,
            policy_version: request.policy_version,
            approver: Principal::new(
                resolved.approver.kind,
                &resolved.approver.id,
                TenantId::local(),
            ),
            base_tree: request.base,
            expires_us: resolved.expires_us,
        })
    }
}

/// Cell space of the use counters of grants.
const GRANT_SPACE: &str = "grant_uses";

/// The name of an approval as a grant: derived from where it was asked for, so that a replay and a
/// second process find the same counter.
fn grant_id(branch: &BranchId, approval: Seq) -> GrantId {
    let digest = Digest::of(format!("glasshouse/approval/{branch}/{approval}").as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&digest.as_bytes()[..16]);
    GrantId::from_random(id)
}

/// Use counters as the log keeps them.
struct Counters<'a>(&'a Log);

impl UseCounters for Counters<'_> {
    fn stored(&self, id: GrantId) -> u64 {
        match self.0.cell(GRANT_SPACE, &id.to_string()) {
            Ok(None) => 0,
            Ok(Some(cell)) => <[u8; 8]>::try_from(cell.bytes.as_slice())
                .map_or(glasshouse_policy::REVOKED, u64::from_be_bytes),
            Err(_) => glasshouse_policy::REVOKED,
        }
    }
}

/// Space and bytes of the cell of a grant that was used so often.
pub(super) fn use_counter(counter: u64) -> (String, Vec<u8>) {
    (GRANT_SPACE.to_owned(), counter.to_be_bytes().to_vec())
}

/// The counter that must be stored together with the event of a use.
fn counter_cell(used: &GrantUse) -> CellWrite {
    let (space, bytes) = use_counter(used.counter);
    CellWrite {
        space,
        key: used.id.to_string(),
        // Approvals are used once: a counter that is there already makes this use void.
        expected_version: (used.stored == 0).then_some(0),
        bytes: Some(bytes),
    }
}

/// What a call is about, for people.
fn subject(call: &Call) -> Option<String> {
    let argv = call.argv.as_ref().map(|argv| argv.join(" "));
    let path = call.path.as_ref().map(ToString::to_string);
    match call.syscall.as_str() {
        name::SHELL_RUN | name::TEST_RUN => argv,
        _ => path.or(argv),
    }
}
