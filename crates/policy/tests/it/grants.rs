//! Sealed grants: sealing, opening, use, and every way in which one does not count.

use glasshouse_model::{Call, Digest, Effect};
use glasshouse_policy::limits::MAX_GRANT_FIELD_BYTES;
use glasshouse_policy::{
    GrantId, GrantTerms, GrantUse, NoCounters, Policy, REVOKED, Request, SealedGrant, SealingKey,
    TokenRefusal, TokenUse, UseCounters, Verdict, decide,
};
use proptest::prelude::*;

use crate::support::{call, compile};

/// A policy under which only a grant helps.
const DENY_WRITES: &str =
    "capabilities: [{ name: no-writes, match: { syscall: fs.write }, action: deny }]";

fn key() -> SealingKey {
    SealingKey::from_bytes(&[7; 32])
}

fn terms(policy: &Policy) -> GrantTerms {
    GrantTerms {
        id: GrantId::from_random([5; 16]),
        sandbox: "sb-1".to_owned(),
        syscall: "fs.write".to_owned(),
        path_glob: Some("src/**".to_owned()),
        max_uses: 3,
        expires_us: 1_000,
        policy_version: policy.version(),
        ancestors: Vec::new(),
    }
}

fn use_grant(
    policy: &Policy,
    grant: &SealedGrant,
    call: &Call,
    (now_us, counter): (u64, u64),
    counters: &dyn UseCounters,
) -> Verdict {
    let token = Some(TokenUse { grant, counter });
    decide(policy, &Request { token, counters, ..Request::new(call, now_us) })
}

const WRITE: &str = "{ syscall: fs.write, path: src/a, sandbox: sb-1 }";

#[test]
fn each_binding_is_checked() {
    let policy = compile(DENY_WRITES).unwrap();
    let check =
        |change: fn(&mut GrantTerms), sketch: &str, time: (u64, u64), stored: u64, expected| {
            let mut terms = terms(&policy);
            change(&mut terms);
            let grant = SealedGrant::seal(&key(), terms).unwrap();
            let counters = |_: GrantId| stored;
            let verdict = use_grant(&policy, &grant, &call(sketch), time, &counters);
            assert_eq!(verdict.token_refusal, expected, "{sketch} {time:?} {stored}");
            let allowed = expected.is_none();
            assert_eq!(verdict.decision.effect == Effect::Allow, allowed);
            assert_eq!(verdict.grant_use.is_some(), allowed);
            if !allowed {
                // A grant that does not count changes nothing: full evaluation.
                assert_eq!(
                    verdict.decision,
                    decide(&policy, &Request::new(&call(sketch), time.0)).decision
                );
            }
        };
    let same = |_: &mut GrantTerms| {};
    check(same, WRITE, (999, 1), 0, None);
    check(same, WRITE, (999, 3), 2, None);
    check(same, WRITE, (999, 3), 0, None);
    check(|t| t.path_glob = None, WRITE, (0, 1), 0, None);
    check(same, WRITE, (1_000, 1), 0, Some(TokenRefusal::Expired));
    check(same, WRITE, (u64::MAX, 1), 0, Some(TokenRefusal::Expired));
    check(|t| t.policy_version = Digest::ZERO, WRITE, (0, 1), 0, Some(TokenRefusal::OtherPolicy));
    check(same, WRITE, (0, 1), 1, Some(TokenRefusal::Replayed));
    check(same, WRITE, (0, 1), 2, Some(TokenRefusal::Replayed));
    check(same, WRITE, (0, 0), 0, Some(TokenRefusal::Replayed));
    check(same, WRITE, (0, 3), REVOKED, Some(TokenRefusal::Replayed));
    check(same, WRITE, (0, REVOKED), REVOKED, Some(TokenRefusal::Replayed));
    check(same, WRITE, (0, 4), 3, Some(TokenRefusal::UsedUp));
    check(same, WRITE, (0, u64::MAX), 0, Some(TokenRefusal::UsedUp));
    check(|t| t.sandbox = "sb-2".into(), WRITE, (0, 1), 0, Some(TokenRefusal::OtherSandbox));
    check(same, "{ syscall: fs.write, path: src/a }", (0, 1), 0, Some(TokenRefusal::OtherSandbox));
    check(
        same,
        "{ syscall: fs.delete, path: src/a, sandbox: sb-1 }",
        (0, 1),
        0,
        Some(TokenRefusal::OtherSyscall),
    );
    check(
        same,
        "{ syscall: fs.write, path: lib/a, sandbox: sb-1 }",
        (0, 1),
        0,
        Some(TokenRefusal::OtherPath),
    );
    check(same, "{ syscall: fs.write, sandbox: sb-1 }", (0, 1), 0, Some(TokenRefusal::OtherPath));
    // Any alternative of a pattern will do.
    check(|t| t.path_glob = Some("{lib,src}/**".into()), WRITE, (0, 1), 0, None);
}

#[test]
fn a_use_is_committed_once() {
    let policy = compile(DENY_WRITES).unwrap();
    let grant = SealedGrant::seal(&key(), terms(&policy)).unwrap();
    let call = call(WRITE);
    // The store of the caller: it writes what each decision hands over.
    let stored = std::cell::Cell::new(0);
    let counters = |_: GrantId| stored.get();
    let mut allowed = 0;
    for counter in [1, 1, 2, 1, 3, 3, 4] {
        let verdict = use_grant(&policy, &grant, &call, (0, counter), &counters);
        if let Some(GrantUse { id, stored: before, counter }) = verdict.grant_use {
            assert_eq!((id, before), (grant.terms().id, stored.get()));
            stored.set(counter);
            allowed += 1;
        }
    }
    assert_eq!(allowed, 3, "as often as the terms say, whatever was repeated");
    // Control: without stored counters in the caller's hands nothing is allowed at all.
    let lost = use_grant(&policy, &grant, &call, (0, 1), &NoCounters);
    assert_eq!(lost.token_refusal, Some(TokenRefusal::Replayed));
}

#[test]
fn a_built_in_review_is_kept_and_uses_nothing_up() {
    let policy = compile("").unwrap();
    let mut terms = terms(&policy);
    terms.syscall = "policy.update".into();
    terms.path_glob = None;
    let grant = SealedGrant::seal(&key(), terms).unwrap();
    let call = call("{ syscall: policy.update, sandbox: sb-1 }");
    let verdict = use_grant(&policy, &grant, &call, (0, 1), &|_: GrantId| 0);
    assert_eq!(verdict.decision.effect, Effect::RequireReview);
    assert_eq!(verdict.grant_use, None);
}

#[test]
fn only_sealed_bytes_open() {
    let policy = compile("").unwrap();
    let grant = SealedGrant::seal(&key(), terms(&policy)).unwrap();
    let bytes = grant.to_bytes();
    assert_eq!(SealedGrant::open(&key(), &bytes).unwrap().terms(), grant.terms());
    let forged = |bytes: &[u8]| SealedGrant::open(&key(), bytes).unwrap_err().code().to_owned();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            assert_eq!(forged(&changed), "grant_forged", "byte {at}");
        }
    }
    for length in 0..bytes.len() {
        assert_eq!(forged(&bytes[..length]), "grant_forged");
    }
    assert_eq!(forged(&[bytes.as_slice(), &[0]].concat()), "grant_forged");
    let other = SealingKey::from_bytes(&[8; 32]);
    assert_eq!(SealedGrant::open(&other, &bytes).unwrap_err().code(), "grant_forged");
}

#[test]
fn terms_that_make_no_sense_are_not_sealed() {
    let policy = compile("").unwrap();
    let check = |change: fn(&mut GrantTerms)| {
        let mut terms = terms(&policy);
        change(&mut terms);
        assert_eq!(SealedGrant::seal(&key(), terms).unwrap_err().code(), "grant_malformed");
    };
    check(|t| t.max_uses = 0);
    check(|t| t.max_uses = REVOKED);
    check(|t| t.sandbox = String::new());
    check(|t| t.syscall = "x".repeat(300));
    check(|t| t.path_glob = Some("../x".into()));
    check(|t| t.path_glob = Some(String::new()));
    // The longest text that is one still is.
    let mut long = terms(&policy);
    long.syscall = "x".repeat(MAX_GRANT_FIELD_BYTES);
    SealedGrant::seal(&key(), long.clone()).unwrap();
    long.syscall.push('x');
    SealedGrant::seal(&key(), long).unwrap_err();
}

#[test]
fn neither_key_nor_tag_prints() {
    let policy = compile("").unwrap();
    let grant = SealedGrant::seal(&key(), terms(&policy)).unwrap();
    assert_eq!(format!("{:?}", key()), "SealingKey(..)");
    let bytes = grant.to_bytes();
    let tag = format!("{:?}", &bytes[bytes.len() - 32..]);
    assert!(!format!("{grant:?}").contains(tag.trim_matches(['[', ']'])));
    assert_eq!(grant.terms().id.to_string(), format!("g_{}", "05".repeat(16)));
    let upper = format!("g_{}", "0A".repeat(16));
    let signed = format!("g_+{}", "05".repeat(16).split_off(1));
    for bad in ["g_05", "", "x_05050505050505050505050505050505", &upper, &signed] {
        assert_eq!(bad.parse::<GrantId>().unwrap_err().code(), "grant_malformed", "{bad}");
    }
    assert_eq!(grant.terms().id.to_string().parse::<GrantId>().unwrap(), grant.terms().id);
}

proptest! {
    #![proptest_config(crate::support::cases(128))]

    #[test]
    fn terms_survive_the_bytes(
        id in any::<[u8; 16]>(),
        sandbox in "[a-z0-9-]{1,40}",
        syscall in "[a-z.]{1,40}",
        glob in proptest::option::of("[a-z]{1,8}(/[a-z*]{1,8}){0,3}"),
        max_uses in 1..u64::MAX,
        expires_us in any::<u64>(),
        policy in any::<[u8; 32]>(),
        above in proptest::collection::vec(any::<[u8; 16]>(), 0..=8),
    ) {
        let ancestors = above.into_iter().map(GrantId::from_random).collect();
        let policy_version = Digest::from_bytes(policy);
        let id = GrantId::from_random(id);
        let terms = GrantTerms { id, sandbox, syscall, path_glob: glob, max_uses, expires_us, policy_version, ancestors };
        // `**` inside a name is refused; every other pattern of this shape is sealed.
        if let Ok(grant) = SealedGrant::seal(&key(), terms.clone()) {
            let opened = SealedGrant::open(&key(), &grant.to_bytes()).unwrap();
            prop_assert_eq!(opened.terms(), &terms);
        } else {
            prop_assert!(terms.path_glob.is_some_and(|glob| glob.contains("**")));
        }
    }

    #[test]
    fn arbitrary_bytes_never_open(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(SealedGrant::open(&key(), &bytes).is_err());
    }
}
