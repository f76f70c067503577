//! Standing grants: what they cover, what ends them, and that a derived one is narrower.

use std::collections::BTreeMap;

use glasshouse_model::body::{GrantRule as Told, GrantScope, StandingTerms};
use glasshouse_model::{Actor, BranchId, Call, CanonicalPath, Effect, PrincipalKind, TenantId};
use glasshouse_policy::{
    GrantId, GrantRule, GrantTerms, Policy, REVOKED, Request, SealedGrant, SealingKey, Standing,
    StandingRefusal, StandingUse, TokenUse, Verdict, decide,
};
use serde_json::{Value, json};

use crate::support::{call, compile};

const RULES: &str = "
capabilities:
  - { name: run, match: { syscall: shell.run }, action: allow }
  - { name: ask, match: { syscall: shell.run }, action: require_review }
  - { name: never, match: { syscall: shell.run, argv_prefix: rm }, action: deny }
  - { name: writes, match: { syscall: fs.write, path_glob: '**' }, action: require_review }
";
const GH: &str = "{ syscall: shell.run, caller: agent, argv: gh run view 1 }";

pub(crate) fn id(n: u8) -> GrantId {
    GrantId::from_random([n; 16])
}

fn branch(n: u8) -> BranchId {
    BranchId::from_random([n; 8])
}

pub(crate) fn terms(policy: &Policy, matching: Value) -> StandingTerms {
    StandingTerms {
        scope: GrantScope::Session,
        tenant: TenantId::local(),
        branch: Some(branch(1)),
        turn: None,
        workspace: None,
        repository: None,
        rule: Told { matching, matches: Vec::new(), not_matches: Vec::new() },
        labels: ["user".to_owned()].into(),
        policy_version: policy.version(),
        approver: Actor { kind: PrincipalKind::User, id: "ada".to_owned() },
        max_uses: None,
        expires_us: 100,
        parent: None,
    }
}

fn gh() -> Value {
    json!({ "syscall": "shell.run", "caller": "agent", "argv_prefix": [["gh", "run", "view"]] })
}

/// Where and when a call is made.
pub(crate) struct Now {
    branch: u8,
    turn: Option<u64>,
    workspace: &'static str,
    repository: Option<&'static str>,
    at_us: u64,
    counters: BTreeMap<GrantId, u64>,
}

impl Default for Now {
    fn default() -> Self {
        Self {
            branch: 1,
            turn: Some(7),
            workspace: "/p",
            repository: Some("r"),
            at_us: 1,
            counters: BTreeMap::new(),
        }
    }
}

pub(crate) fn verdict(policy: &Policy, call: &Call, grants: &[Standing], now: &Now) -> Verdict {
    let counters = |id: GrantId| now.counters.get(&id).copied().unwrap_or(0);
    let branch = branch(now.branch);
    let mut request = Request::new(call, now.at_us);
    request.counters = &counters;
    request.standing = Some(StandingUse {
        grants,
        branch: &branch,
        turn: now.turn,
        workspace: now.workspace,
        repository: now.repository,
    });
    decide(policy, &request)
}

/// F4: an approval that reaches further than one call sticks to calls that are the same act, however
/// a shell is put around them, and to no others.
#[test]
fn f4_a_granted_command_is_not_asked_for_again() {
    let policy = compile(RULES).unwrap();
    let grant = Standing::new(id(1), terms(&policy, gh())).unwrap();
    let check = |argv: Value, expected: Effect| {
        let call =
            call(&json!({ "syscall": "shell.run", "caller": "agent", "argv": argv }).to_string());
        let with = verdict(&policy, &call, std::slice::from_ref(&grant), &Now::default());
        assert_eq!(with.decision.effect, expected, "{argv}: {:?}", with.decision);
        // The control: without the grant a person is asked, or it is denied anyway.
        let without = verdict(&policy, &call, &[], &Now::default()).decision.effect;
        assert!(without >= Effect::RequireReview, "{argv}");
    };
    check(json!("gh run view 1"), Effect::Allow);
    check(json!(["sh", "-c", "gh run view 1"]), Effect::Allow);
    check(json!(["sh", "-lc", "gh run view 1"]), Effect::Allow);
    check(json!(["sh", "-c", "gh run view 3 2>&1 > out"]), Effect::Allow);
    check(json!(["sh", "-c", "GH_HOST=x gh run view 2"]), Effect::RequireReview);
    check(json!("gh run list"), Effect::RequireReview);
    check(json!("env gh run view 1"), Effect::RequireReview);
    check(json!(["sh", "-c", "gh run view 1; curl a.test"]), Effect::RequireReview);
    // A denial is lifted by nobody.
    check(json!(["sh", "-c", "gh run view 1; rm x"]), Effect::Deny);
}

/// The failure: a person agreed to `./check.sh` in one directory, and the next call ran the program of that
/// name in another.
#[test]
fn f4_a_granted_command_is_granted_in_its_directory() {
    let policy = compile(RULES).unwrap();
    let place = |cwd: &str| Some(CanonicalPath::parse(cwd).unwrap());
    let asked = |cwd: Option<CanonicalPath>| {
        let sketch = json!({ "syscall": "shell.run", "caller": "agent", "argv": "gh run view 1" });
        Call { cwd, ..call(&sketch.to_string()) }
    };
    let check = |granted: Option<CanonicalPath>, cwd: Option<CanonicalPath>, expected: Effect| {
        let rule = GrantRule::for_call(&asked(granted)).unwrap();
        let call = asked(cwd);
        let grant = Standing::new(id(1), terms(&policy, rule.told(&call).matching)).unwrap();
        let with = verdict(&policy, &call, &[grant], &Now::default());
        assert_eq!(with.decision.effect, expected, "{:?}", call.cwd);
    };
    check(None, None, Effect::Allow);
    check(None, place("sub"), Effect::RequireReview);
    check(place("sub"), place("sub"), Effect::Allow);
    check(place("sub"), None, Effect::RequireReview);
    check(place("sub"), place("sub/deep"), Effect::RequireReview);
    // What a person writes by hand is held to the same.
    let rule = |cwd: Value| {
        let wide = json!({ "syscall": "shell.run", "argv_prefix": [["gh"]], "cwd": cwd });
        GrantRule::parse(&wide).map(|rule| rule.matches(&asked(place("sub"))))
    };
    assert_eq!(rule(json!("sub")).ok(), Some(true));
    assert_eq!(rule(json!(".")).ok(), Some(false));
    for wrong in [json!("../x"), json!(1), json!(["sub"])] {
        assert_eq!(rule(wrong).unwrap_err().code(), "grant_malformed");
    }
}

/// F5: what was granted is shown as the exact rule with examples of both kinds, each of them true.
#[test]
fn f5_the_rule_is_shown_with_examples_of_both_kinds() {
    let check = |sketch: &str, matches: &[&str], not_matches: &[&str]| {
        let told = GrantRule::for_call(&call(sketch)).unwrap().told(&call(sketch));
        assert_eq!(
            (told.matches, told.not_matches),
            (
                matches.iter().map(|s| (*s).to_owned()).collect(),
                not_matches.iter().map(|s| (*s).to_owned()).collect(),
            ),
            "{sketch}"
        );
    };
    check(
        GH,
        &["gh run view 1", "sh -c 'gh run view 1 2>&1'"],
        &["gh run view 1 more", "gh run view 1 other"],
    );
    // The words of a script stay one word.
    check(
        "{ syscall: shell.run, argv: [sh, -c, './a | b'] }",
        &["sh -c './a | b'", r"sh -c 'sh -c '\''./a | b'\'' 2>&1'"],
        &["sh -c './a | b' more", "sh -c './a | b' other"],
    );
    check(
        "{ syscall: shell.run, caller: agent, argv: ./check.sh }",
        &["./check.sh", "sh -c './check.sh 2>&1'"],
        &["./check.sh (in elsewhere)", "./check.sh more"],
    );
    check(
        "{ syscall: fs.write, caller: agent, path: src/a.rs }",
        &["fs.write src/a.rs"],
        &["fs.write src/other", "fs.write elsewhere/file"],
    );
    check(
        "{ syscall: fs.write, caller: agent, path: src/a.rs, change: source }",
        &["fs.write src/a.rs (source)"],
        &["fs.write src/a.rs (test)", "fs.write src/other (source)"],
    );
    check(
        "{ syscall: fs.write, caller: agent, path: src/a.rs, change: mixed }",
        &["fs.write src/a.rs (mixed)"],
        &["fs.write src/a.rs (source)", "fs.write src/other (mixed)"],
    );
    check(
        "{ syscall: net.connect, host: a.test, method: GET, http_path: /x }",
        &["net.connect GET a.test/x"],
        &[
            "net.connect GET a.test/other",
            "net.connect GET a.test/x?other",
            "net.connect GET other.example/x",
            "net.connect DELETE a.test/x",
        ],
    );
    check(
        "{ syscall: fs.list, caller: agent, path: . }",
        &["fs.list ."],
        &["fs.list other", "fs.list elsewhere/file"],
    );
}

#[test]
fn f5_a_rule_of_a_person_s_own_is_shown_with_what_is_near_it() {
    let wide = GrantRule::parse(&gh()).unwrap().told(&call(GH));
    assert_eq!(wide.matches, ["gh run view 1", "sh -c 'gh run view 1 2>&1'"]);
    assert_eq!(wide.not_matches, ["gh run", "sh -c 'A=1 gh run view 1'"]);
    // The failure: of a prefix of one word an empty command was told as one that it does not match.
    for (prefix, first) in [("chmod", "sh -c 'A=1 chmod +x a'"), ("chmod +x", "chmod")] {
        let rule = json!({ "syscall": "shell.run", "argv_prefix": prefix });
        let told = GrantRule::parse(&rule)
            .unwrap()
            .told(&call("{ syscall: shell.run, caller: agent, argv: chmod +x a }"));
        assert_eq!(told.not_matches[0], first, "{prefix}");
        let all = told.matches.iter().chain(&told.not_matches);
        assert!(all.into_iter().all(|text| !text.trim().is_empty()), "{prefix}: {told:?}");
    }
    for bad in [
        json!({}),
        json!({ "sycall": "x" }),
        json!({ "path_glob": "**" }),
        json!({ "syscall": [] }),
    ] {
        assert!(GrantRule::parse(&bad).is_err(), "{bad}");
    }
}

#[test]
fn each_binding_ends_it() {
    let policy = compile(RULES).unwrap();
    let check = |change: &dyn Fn(&mut StandingTerms, &mut Now),
                 expected: Option<StandingRefusal>| {
        let (mut terms, mut now) = (terms(&policy, gh()), Now::default());
        change(&mut terms, &mut now);
        let grant = Standing::new(id(1), terms).unwrap();
        let got = verdict(&policy, &call(GH), &[grant], &now);
        assert_eq!(got.decision.effect, Effect::RequireReview);
        assert!(got.standing_uses.is_empty());
        assert_eq!(got.standing_refusals.first().map(|(_, refusal)| *refusal), expected);
        // What does not count lets nothing pass: it is told as a reason to ask.
        let told = got.decision.rules.iter().filter(|rule| rule.name == "standing-grant");
        let told: Vec<_> = told.map(|rule| rule.action).collect();
        assert_eq!(told, vec![Effect::RequireReview; usize::from(expected.is_some())]);
    };
    check(&|_, now| now.at_us = 100, Some(StandingRefusal::Expired));
    check(
        &|t, _| t.policy_version = glasshouse_model::Digest::ZERO,
        Some(StandingRefusal::OtherPolicy),
    );
    check(
        &|_, now| {
            now.counters.insert(id(1), REVOKED);
        },
        Some(StandingRefusal::Revoked),
    );
    check(
        &|t, now| {
            t.max_uses = Some(2);
            now.counters.insert(id(1), 2);
        },
        Some(StandingRefusal::UsedUp),
    );
    check(
        &|t, _| t.rule.matching["asking_rule"] = json!(["other (policy.yaml)"]),
        Some(StandingRefusal::OtherRule),
    );
    check(&|t, _| t.parent = Some(id(9).to_string()), Some(StandingRefusal::Orphaned));
    // A loop of parents ends, too.
    check(&|t, _| t.parent = Some(id(1).to_string()), Some(StandingRefusal::Orphaned));
    // Somewhere else it is no grant for this call at all.
    check(&|_, now| now.branch = 2, None);
    check(&|t, _| t.tenant = "other".parse().unwrap(), None);
    check(
        &|t, _| {
            t.scope = GrantScope::Turn;
            t.turn = Some(8);
        },
        None,
    );
    check(
        &|t, _| {
            t.scope = GrantScope::Workspace;
            t.workspace = Some("/q".to_owned());
        },
        None,
    );
}

#[test]
fn a_use_is_counted_above_the_stored_one() {
    let policy = compile(RULES).unwrap();
    let grant = Standing::new(id(1), StandingTerms { max_uses: Some(3), ..terms(&policy, gh()) });
    let now = Now { counters: [(id(1), 2)].into(), ..Now::default() };
    let got = verdict(&policy, &call(GH), &[grant.unwrap()], &now);
    assert_eq!(got.decision.effect, Effect::Allow);
    let used = got.standing_uses[0];
    assert_eq!((used.id, used.stored, used.counter), (id(1), 2, 3));
}

/// A workspace keeps each grant that it ever had: of those that ended before their time the last is told, until its time would
/// be over, too.
#[test]
fn a_dead_grant_is_told_while_it_would_have_lived() {
    let policy = compile(RULES).unwrap();
    let check = |at_us: u64, told: &[u8]| {
        let ended = |n: u8, expires_us: u64| {
            Standing::new(id(n), StandingTerms { expires_us, ..terms(&policy, gh()) }).unwrap()
        };
        let grants = [ended(1, 50), ended(2, 70), ended(3, 60)];
        let counters = [1, 2, 3].map(|n| (id(n), REVOKED)).into();
        let now = Now { at_us, counters, ..Now::default() };
        let got = verdict(&policy, &call(GH), &grants, &now);
        assert_eq!(got.standing_refusals.len(), 3);
        let reasons = got.decision.rules.iter().filter(|rule| rule.name == "standing-grant");
        let reasons: Vec<_> = reasons.filter_map(|rule| rule.reason.clone()).collect();
        let expected: Vec<_> = told.iter().map(|n| format!("{} was revoked", id(*n))).collect();
        assert_eq!(reasons, expected, "{at_us}");
    };
    check(40, &[2]);
    check(69, &[2]);
    check(70, &[]);
}

/// A page from the web talks the agent into what was granted before it was read: another call.
#[test]
fn a_call_that_derives_from_more_is_asked_for_again() {
    let policy = compile(RULES).unwrap();
    let grant = Standing::new(id(1), terms(&policy, gh())).unwrap();
    let effect = |labels: &[&str]| {
        let mut call = call(GH);
        call.labels = labels.iter().map(|label| (*label).to_owned()).collect();
        verdict(&policy, &call, std::slice::from_ref(&grant), &Now::default()).decision.effect
    };
    assert_eq!(effect(&["user"]), Effect::Allow);
    assert_eq!(effect(&["user", "repo"]), Effect::Allow);
    assert_eq!(effect(&["user", "web"]), Effect::RequireReview);
}

/// A grant for a workspace is bound to no branch; one for a turn ends with it.
#[test]
fn each_scope_reaches_where_it_says() {
    let policy = compile(RULES).unwrap();
    let check = |scope, is_there: &dyn Fn(&mut Now), expected: Effect| {
        let terms = StandingTerms {
            scope,
            branch: (scope != GrantScope::Workspace).then(|| branch(1)),
            turn: (scope == GrantScope::Turn).then_some(7),
            workspace: (scope == GrantScope::Workspace).then(|| "/p".to_owned()),
            repository: (scope == GrantScope::Workspace).then(|| "r".to_owned()),
            ..terms(&policy, gh())
        };
        let grant = Standing::new(id(1), terms).unwrap();
        let mut now = Now::default();
        is_there(&mut now);
        let got = verdict(&policy, &call(GH), &[grant], &now);
        assert_eq!(got.decision.effect, expected, "{scope:?}");
    };
    for scope in [GrantScope::Turn, GrantScope::Session, GrantScope::Workspace] {
        check(scope, &|_| (), Effect::Allow);
    }
    check(GrantScope::Turn, &|now| now.turn = Some(8), Effect::RequireReview);
    check(GrantScope::Turn, &|now| now.turn = None, Effect::RequireReview);
    check(GrantScope::Session, &|now| now.turn = Some(8), Effect::Allow);
    check(GrantScope::Session, &|now| now.branch = 2, Effect::RequireReview);
    check(GrantScope::Session, &|now| now.workspace = "/q", Effect::Allow);
    check(GrantScope::Workspace, &|now| now.branch = 2, Effect::Allow);
    check(GrantScope::Workspace, &|now| now.workspace = "/q", Effect::RequireReview);
    // The failure: another repository in the same directory inherited what was granted for the one before.
    check(GrantScope::Workspace, &|now| now.repository = Some("s"), Effect::RequireReview);
    check(GrantScope::Workspace, &|now| now.repository = None, Effect::RequireReview);
    check(GrantScope::Session, &|now| now.repository = Some("s"), Effect::Allow);
}

/// A built-in rule that allows is no reason to ask a person: what a file's rule asks for is granted there as
/// anywhere.
#[test]
fn a_built_in_permission_keeps_no_grant_from_counting() {
    let rule =
        "capabilities: [{ name: a, match: { syscall: grant.revoke }, action: require_review }]";
    let policy = compile(rule).unwrap();
    let grant = Standing::new(id(1), terms(&policy, json!({ "syscall": "grant.revoke" }))).unwrap();
    let revoke = call("{ syscall: grant.revoke, caller: user }");
    let effect =
        |grants: &[Standing]| verdict(&policy, &revoke, grants, &Now::default()).decision.effect;
    assert_eq!((effect(&[]), effect(&[grant])), (Effect::RequireReview, Effect::Allow));
}

/// What a built-in rule wants a person for is never granted in advance.
#[test]
fn no_standing_grant_answers_a_built_in_review() {
    let policy =
        compile("capabilities: [{ name: a, match: { syscall: policy.update }, action: allow }]")
            .unwrap();
    let matching = json!({ "syscall": "policy.update" });
    let grant = Standing::new(id(1), terms(&policy, matching)).unwrap();
    let got = verdict(
        &policy,
        &call("{ syscall: policy.update, caller: user }"),
        &[grant],
        &Now::default(),
    );
    assert_eq!(got.decision.effect, Effect::RequireReview);
}

#[test]
fn terms_that_no_person_could_give_are_refused() {
    let policy = compile(RULES).unwrap();
    let check = |change: &dyn Fn(&mut StandingTerms)| {
        let mut terms = terms(&policy, gh());
        change(&mut terms);
        assert_eq!(Standing::new(id(1), terms).unwrap_err().code(), "grant_malformed");
    };
    check(&|t| t.approver.kind = PrincipalKind::Agent);
    check(&|t| t.approver.kind = PrincipalKind::Plugin);
    check(&|t| t.approver.kind = PrincipalKind::Kernel);
    check(&|t| t.scope = GrantScope::Call);
    check(&|t| t.branch = None);
    check(&|t| t.scope = GrantScope::Turn);
    check(&|t| t.scope = GrantScope::Workspace);
    check(&|t| t.max_uses = Some(0));
    check(&|t| t.parent = Some("g_1".to_owned()));
}

#[test]
fn a_derived_grant_is_narrower_in_every_term() {
    let policy = compile(RULES).unwrap();
    let parent = StandingTerms { max_uses: Some(5), ..terms(&policy, gh()) };
    let parent = Standing::new(id(1), parent).unwrap();
    let narrow = |change: &dyn Fn(&mut StandingTerms)| {
        let mut terms = StandingTerms { max_uses: Some(2), ..terms(&policy, gh()) };
        terms.rule.matching = json!({ "syscall": "shell.run", "caller": "agent", "argv": [["gh", "run", "view", "1"]] });
        change(&mut terms);
        parent.attenuate(id(2), terms)
    };
    narrow(&|_| ()).unwrap();
    let check = |change: &dyn Fn(&mut StandingTerms), term: &str| {
        let error = narrow(change).unwrap_err();
        assert_eq!((error.code(), &error.report().context["term"]), ("grant_wider", &json!(term)));
    };
    check(
        &|t| {
            t.scope = GrantScope::Workspace;
            t.workspace = Some("/p".to_owned());
        },
        "scope",
    );
    check(&|t| t.tenant = "other".parse().unwrap(), "tenant");
    check(&|t| t.branch = Some(branch(2)), "branch");
    check(
        &|t| {
            t.rule.matching =
                json!({ "syscall": "shell.run", "argv_prefix": [["gh", "run", "view"]] })
        },
        "rule",
    );
    check(
        &|t| {
            t.rule.matching =
                json!({ "syscall": "shell.run", "caller": "agent", "argv_prefix": [["gh"]] })
        },
        "rule",
    );
    check(
        &|t| {
            t.labels.insert("web".to_owned());
        },
        "labels",
    );
    check(&|t| t.policy_version = glasshouse_model::Digest::ZERO, "policy_version");
    check(&|t| t.expires_us = 101, "expires_us");
    check(&|t| t.max_uses = Some(6), "max_uses");
    check(&|t| t.max_uses = None, "max_uses");
    narrow(&|t| t.max_uses = Some(5)).unwrap();
}

/// A grant that is bound to a turn or a workspace derives only what is bound to the same; one that is not
/// derives either.
#[test]
fn a_derived_grant_keeps_what_the_parent_is_bound_to() {
    let policy = compile(RULES).unwrap();
    let whole = || StandingTerms {
        scope: GrantScope::Workspace,
        workspace: Some("/p".to_owned()),
        ..terms(&policy, gh())
    };
    let check = |parent: &dyn Fn(&mut StandingTerms),
                 child: &dyn Fn(&mut StandingTerms),
                 wider: Option<&str>| {
        let (mut above, mut below) = (whole(), whole());
        parent(&mut above);
        child(&mut below);
        let derived = Standing::new(id(1), above).unwrap().attenuate(id(2), below);
        let term = derived.err().map(|error| error.report().context["term"].clone());
        assert_eq!(term, wider.map(|term| json!(term)));
    };
    let turn = |n: u64| {
        move |t: &mut StandingTerms| {
            t.scope = GrantScope::Turn;
            t.turn = Some(n);
        }
    };
    check(&|_| (), &|_| (), None);
    check(&|_| (), &turn(7), None);
    check(&turn(7), &turn(7), None);
    check(&turn(7), &turn(8), Some("turn"));
    let at = |dir: &'static str| move |t: &mut StandingTerms| t.workspace = Some(dir.to_owned());
    check(&at("/p"), &at("/q"), Some("workspace"));
    let session = |t: &mut StandingTerms| {
        t.scope = GrantScope::Session;
        t.workspace = None;
    };
    check(&session, &session, None);
    check(&session, &|t| t.scope = GrantScope::Session, None);
    check(&|_| (), &session, Some("workspace"));
    let of = |name: &'static str| move |t: &mut StandingTerms| t.repository = Some(name.to_owned());
    check(&of("r1"), &of("r1"), None);
    check(&|_| (), &of("r1"), None);
    check(&of("r1"), &of("r2"), Some("repository"));
    check(&of("r1"), &|_| (), Some("repository"));
    let to = |target: Option<&'static str>| {
        move |t: &mut StandingTerms| {
            t.rule.matching = json!({ "syscall": "net.connect", "host": "a.test" });
            if let Some(target) = target {
                t.rule.matching["http_target"] = target.into();
            }
        }
    };
    check(&to(Some("/x?y=1")), &to(Some("/x?y=1")), None);
    check(&to(None), &to(Some("/x")), None);
    check(&to(Some("/x")), &to(Some("/x?y=1")), Some("rule"));
    check(&to(Some("/x")), &to(None), Some("rule"));
    // Any number of uses is fewer than without end.
    check(&|_| (), &|t| t.max_uses = Some(9), None);
}

/// Most grants of which one is derived from the next, as the documentation says.
const MAX_GRANT_DEPTH: u8 = 8;

/// Uses of a derived grant count at both, and it ends with its parent.
#[test]
fn a_derived_grant_ends_with_its_parent() {
    let policy = compile(RULES).unwrap();
    let other = |matching: Value| Told { matching, matches: vec![], not_matches: vec![] };
    // The parent is for something else, so that only the derived one answers.
    let terms = StandingTerms { max_uses: Some(5), ..terms(&policy, gh()) };
    let parent = StandingTerms { rule: other(json!({ "syscall": "x.y" })), ..terms.clone() };
    let child = StandingTerms { parent: Some(id(1).to_string()), ..terms };
    let grants = [Standing::new(id(1), parent).unwrap(), Standing::new(id(3), child).unwrap()];
    let check = |grants: &[Standing], counters: &[(GrantId, u64)], expected: &[GrantId]| {
        let now = Now { counters: counters.iter().copied().collect(), ..Now::default() };
        let got = verdict(&policy, &call(GH), grants, &now);
        let ids: Vec<_> = got.standing_uses.iter().map(|used| used.id).collect();
        assert_eq!(ids, expected, "{counters:?}");
        let effect = if expected.is_empty() { Effect::RequireReview } else { Effect::Allow };
        assert_eq!(got.decision.effect, effect);
    };
    check(&grants, &[], &[id(3), id(1)]);
    check(&grants, &[(id(1), 4)], &[id(3), id(1)]);
    check(&grants, &[(id(1), 5)], &[]);
    check(&grants, &[(id(1), REVOKED)], &[]);
    check(&grants, &[(id(3), REVOKED)], &[]);
    check(&grants[1..], &[], &[]);
}

/// A chain is followed as far as one may be derived and no further: a stored one that is longer, or that leads back
/// to itself, grants nothing.
#[test]
fn a_chain_of_derived_grants_has_a_limit() {
    let policy = compile(RULES).unwrap();
    let other =
        Told { matching: json!({ "syscall": "x.y" }), matches: vec![], not_matches: vec![] };
    let check = |count: u8, parent_of_first: Option<u8>, expected: usize| {
        let grants: Vec<Standing> = (1..=count)
            .map(|at| {
                let above = if at == 1 { parent_of_first } else { Some(at - 1) };
                let mut terms = terms(&policy, gh());
                // Only the last one answers the call.
                if at < count {
                    terms.rule = other.clone();
                }
                terms.parent = above.map(|above| id(above).to_string());
                Standing::new(id(at), terms).unwrap()
            })
            .collect();
        let got = verdict(&policy, &call(GH), &grants, &Now::default());
        assert_eq!(got.standing_uses.len(), expected, "{count} {parent_of_first:?}");
    };
    check(1, None, 1);
    check(MAX_GRANT_DEPTH, None, usize::from(MAX_GRANT_DEPTH));
    check(MAX_GRANT_DEPTH + 1, None, 0);
    check(2, Some(2), 0);
    check(3, Some(3), 0);
}

#[test]
fn a_sealed_grant_splits_into_narrower_ones() {
    let policy = compile("capabilities: []").unwrap();
    let key = SealingKey::from_bytes(&[7; 32]);
    let terms = |n: u8| GrantTerms {
        id: id(n),
        sandbox: "sb-1".to_owned(),
        syscall: "fs.write".to_owned(),
        path_glob: Some("src/**".to_owned()),
        max_uses: 5,
        expires_us: 100,
        policy_version: policy.version(),
        ancestors: Vec::new(),
    };
    let parent = SealedGrant::seal(&key, terms(1)).unwrap();
    let split = |change: &dyn Fn(&mut GrantTerms), stored: u64| {
        let mut narrow =
            GrantTerms { max_uses: 2, path_glob: Some("src/a/**".to_owned()), ..terms(2) };
        change(&mut narrow);
        parent.split(&key, narrow, stored)
    };
    let (child, used) = split(&|_| (), 1).unwrap();
    assert_eq!((used.id, used.stored, used.counter), (id(1), 1, 3));
    let check = |change: &dyn Fn(&mut GrantTerms), stored: u64, term: &str| {
        let error = split(change, stored).unwrap_err();
        assert_eq!((error.code(), &error.report().context["term"]), ("grant_wider", &json!(term)));
    };
    check(&|t| t.id = id(1), 0, "id");
    check(&|t| t.syscall = "fs.read".to_owned(), 0, "syscall");
    check(&|t| t.path_glob = None, 0, "path_glob");
    check(&|t| t.path_glob = Some("**".to_owned()), 0, "path_glob");
    check(&|t| t.path_glob = Some("{src/a,lib}/**".to_owned()), 0, "path_glob");
    check(&|t| t.expires_us = 101, 0, "expires_us");
    check(&|t| t.max_uses = 6, 0, "max_uses");
    check(&|_| (), 4, "max_uses");
    check(&|_| (), REVOKED, "max_uses");

    // The seal holds every grant above, and with any of them it ends.
    let narrow =
        |n: u8| GrantTerms { max_uses: 1, path_glob: Some("src/a/**".to_owned()), ..terms(n) };
    let (grandchild, _) = child.split(&key, narrow(3), 0).unwrap();
    let grandchild = SealedGrant::open(&key, &grandchild.to_bytes()).unwrap();
    assert_eq!(grandchild.terms().ancestors, [id(1), id(2)]);
    let call = call("{ syscall: fs.write, path: src/a/x, sandbox: sb-1 }");
    let check = |grant: &SealedGrant, revoked: Option<u8>, expected: Effect| {
        let counters = |of: GrantId| if Some(of) == revoked.map(id) { REVOKED } else { 0 };
        let mut request = Request::new(&call, 1);
        request.counters = &counters;
        request.token = Some(TokenUse { grant, counter: 1 });
        assert_eq!(decide(&policy, &request).decision.effect, expected, "{revoked:?}");
    };
    check(&child, None, Effect::Allow);
    check(&child, Some(1), Effect::Deny);
    check(&child, Some(3), Effect::Allow);
    check(&grandchild, None, Effect::Allow);
    check(&grandchild, Some(1), Effect::Deny);
    check(&grandchild, Some(2), Effect::Deny);

    // No grant is its own ancestor, and there are only so many above one.
    let own = child.split(&key, narrow(1), 0).unwrap_err();
    assert_eq!(own.report().context["term"], "id");
    let mut last = parent;
    let deepest = (10..=u8::MAX).find_map(|n| match last.split(&key, narrow(n), 0) {
        Ok((next, _)) => {
            last = next;
            None
        }
        Err(error) => Some((n - 10, error.code().to_owned())),
    });
    assert_eq!(deepest, Some((8, "grant_malformed".to_owned())));
}

/// Each part of a narrower pattern lies in any part of the wider one.
#[test]
fn a_sealed_grant_of_several_places_splits_into_several() {
    let key = SealingKey::from_bytes(&[7; 32]);
    let terms = |n: u8, glob: &str| GrantTerms {
        id: id(n),
        sandbox: "sb-1".to_owned(),
        syscall: "fs.write".to_owned(),
        path_glob: Some(glob.to_owned()),
        max_uses: 1,
        expires_us: 100,
        policy_version: glasshouse_model::Digest::ZERO,
        ancestors: Vec::new(),
    };
    let wide = SealedGrant::seal(&key, terms(1, "{src,lib}/**")).unwrap();
    wide.split(&key, terms(2, "{lib/a,src/a}/**"), 0).unwrap();
    wide.split(&key, terms(3, "{lib/a,doc}/**"), 0).unwrap_err();
}
