//! Approvals turn review into allow, once, for exactly the act that was approved.

use glasshouse_model::{
    BranchId, Call, CallId, Digest, Effect, Principal, PrincipalKind, TenantId,
};
use glasshouse_policy::{
    Approval, ApprovalRefusal, ApprovalUse, GrantId, GrantRule, Policy, Request, Standing,
    StandingUse, Verdict, decide,
};

use crate::standing;
use crate::support::{call, compile};

const REVIEW: &str = "
capabilities:
  - { name: look, match: { syscall: shell.run }, action: require_review, reason: commands are seen }
  - { name: never, match: { argv_prefix: rm }, action: deny }
";

fn shell(argv: &str) -> Call {
    let mut call = call(&format!("{{ syscall: shell.run, caller: agent, argv: {argv} }}"));
    call.session = Some("s_1".parse().unwrap());
    call.args_digest = Some(Digest::of(argv.as_bytes()));
    call
}

fn approval(policy: &Policy, argv: &str) -> Approval {
    Approval {
        id: GrantId::from_random([1; 16]),
        session: "s_1".parse().unwrap(),
        branch: "b_1".parse().unwrap(),
        call: CallId(14),
        args_digest: Digest::of(argv.as_bytes()),
        policy_version: policy.version(),
        approver: Principal::new(PrincipalKind::User, "ada", TenantId::local()),
        base_tree: Digest::of(b"tree"),
        expires_us: 1_000,
    }
}

fn run(policy: &Policy, approval: &Approval, call: &Call, now_us: u64, stored: u64) -> Verdict {
    let branch: BranchId = "b_1".parse().unwrap();
    let base = Digest::of(b"tree");
    let presented = ApprovalUse { approval, branch: &branch, call: CallId(14), base_tree: &base };
    let counters = |_: GrantId| stored;
    let request =
        Request { approval: Some(presented), counters: &counters, ..Request::new(call, now_us) };
    decide(policy, &request)
}

#[test]
fn a_valid_approval_allows_once() {
    let policy = compile(REVIEW).unwrap();
    let call = shell("ls");
    assert_eq!(decide(&policy, &Request::new(&call, 0)).decision.effect, Effect::RequireReview);
    let verdict = run(&policy, &approval(&policy, "ls"), &call, 0, 0);
    assert_eq!(verdict.decision.effect, Effect::Allow);
    let used = verdict.approval_use.unwrap();
    assert_eq!((used.stored, used.counter), (0, 1));
    assert!(verdict.decision.reasons[0].contains("given by ada"), "{:?}", verdict.decision.reasons);
    let again = run(&policy, &approval(&policy, "ls"), &call, 0, used.counter);
    assert_eq!(again.decision.effect, Effect::RequireReview);
    assert_eq!(again.approval_refusals, [ApprovalRefusal::Used]);
}

/// A refused approval asks in the name of no rule, so a grant that answers the rules still counts.
#[test]
fn a_grant_counts_beside_an_approval_that_does_not() {
    let policy = compile(REVIEW).unwrap();
    let call = shell("ls");
    let asked = decide(&policy, &Request::new(&call, 0)).decision;
    let matching = GrantRule::offered(&call, &asked).unwrap().told(&call).matching;
    let grants = [Standing::new(standing::id(1), standing::terms(&policy, matching)).unwrap()];
    let branch = BranchId::from_random([1; 8]);
    let approval = Approval { expires_us: 1, ..approval(&policy, "ls") };
    let base = Digest::of(b"tree");
    let check = |grants: &[Standing], expected: Effect| {
        let counters = |_: GrantId| 0;
        let mut request = Request { counters: &counters, ..Request::new(&call, 2) };
        request.approval = Some(ApprovalUse {
            approval: &approval,
            branch: &branch,
            call: CallId(14),
            base_tree: &base,
        });
        request.standing = Some(StandingUse {
            grants,
            branch: &branch,
            turn: None,
            workspace: "/p",
            repository: None,
        });
        let found = decide(&policy, &request);
        assert!(!found.approval_refusals.is_empty() && found.approval_use.is_none());
        assert_eq!(found.decision.effect, expected);
    };
    check(&grants, Effect::Allow);
    check(&[], Effect::RequireReview);
}

#[test]
fn each_binding_is_checked_and_named() {
    let policy = compile(REVIEW).unwrap();
    let check = |change: fn(&mut Approval), expected: ApprovalRefusal| {
        let mut approval = approval(&policy, "ls");
        change(&mut approval);
        let verdict = run(&policy, &approval, &shell("ls"), 999, 0);
        assert_eq!(verdict.decision.effect, Effect::RequireReview, "{expected:?}");
        assert_eq!(verdict.approval_refusals, [expected]);
        assert_eq!(verdict.approval_use, None);
        let reasons = verdict.decision.reasons;
        assert!(reasons.contains(&expected.to_string()), "{reasons:?}");
        assert!(reasons.contains(&"commands are seen".to_owned()), "{reasons:?}");
        let told = verdict.decision.rules.iter().find(|rule| rule.name == "approval").unwrap();
        assert_eq!(told.action, Effect::RequireReview, "it let nothing pass");
    };
    check(|a| a.approver.kind = PrincipalKind::Agent, ApprovalRefusal::NotAPerson);
    check(|a| a.approver.kind = PrincipalKind::Plugin, ApprovalRefusal::NotAPerson);
    check(|a| a.approver.kind = PrincipalKind::Kernel, ApprovalRefusal::NotAPerson);
    check(|a| a.approver.tenant = "other".parse().unwrap(), ApprovalRefusal::OtherTenant);
    check(|a| a.session = "s_2".parse().unwrap(), ApprovalRefusal::OtherSession);
    check(|a| a.branch = "b_2".parse().unwrap(), ApprovalRefusal::OtherBranch);
    check(|a| a.call = CallId(15), ApprovalRefusal::OtherCall);
    check(|a| a.args_digest = Digest::ZERO, ApprovalRefusal::OtherArguments);
    check(|a| a.policy_version = Digest::ZERO, ApprovalRefusal::OtherPolicy);
    check(|a| a.base_tree = Digest::ZERO, ApprovalRefusal::OtherBase);
    check(|a| a.expires_us = 999, ApprovalRefusal::Expired);
}

#[test]
fn what_the_call_lacks_binds_nothing() {
    let policy = compile(REVIEW).unwrap();
    let mut call = shell("ls");
    call.session = None;
    call.args_digest = None;
    let verdict = run(&policy, &approval(&policy, "ls"), &call, 0, 0);
    assert_eq!(
        verdict.approval_refusals,
        [ApprovalRefusal::OtherSession, ApprovalRefusal::OtherArguments]
    );
}

#[test]
fn an_approval_opens_no_denial_and_is_not_used_up_by_it() {
    let policy = compile(REVIEW).unwrap();
    let denied = run(&policy, &approval(&policy, "rm x"), &shell("rm x"), 0, 0);
    assert_eq!(denied.decision.effect, Effect::Deny);
    assert_eq!((denied.approval_use, denied.approval_refusals.len()), (None, 0));
    // What nobody mentions is denied, and no approval was asked for.
    let mut unknown = shell("ls");
    unknown.syscall = "quantum.entangle".to_owned();
    let verdict = run(&policy, &approval(&policy, "ls"), &unknown, 0, 0);
    assert_eq!(verdict.decision.effect, Effect::Deny);
}

#[test]
fn an_approval_is_not_used_up_when_none_was_needed() {
    let policy =
        compile("capabilities: [{ name: a, match: { syscall: shell.run }, action: allow }]")
            .unwrap();
    let verdict = run(&policy, &approval(&policy, "ls"), &shell("ls"), 0, 0);
    assert_eq!(verdict.decision.effect, Effect::Allow);
    assert_eq!(verdict.approval_use, None);
}
