//! Runs `tests/cases/normative.yaml`: each case end to end, under every order of its rules.
//!
//! Inside the crate because one case takes the built-in rules away, which nobody else can.

use std::cell::{Cell, RefCell};

use glasshouse_model::{Call, Decision, Effect, RuleTrace};
use serde::Deserialize;

use crate::builtin::{BUILT_INS, BuiltIn};
use crate::decide::decide_under;
use crate::{
    CallSketch, Extension, ExtensionError, ExtensionText, GrantId, GrantTerms, Opinion, Policy,
    Protected, Request, SealedGrant, SealingKey, Source, TokenUse, Verdict,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: u32,
    group: String,
    title: String,
    rules: Vec<String>,
    call: CallSketch,
    built_ins: Option<NoBuiltIns>,
    token: Option<Token>,
    extension: Option<Answer>,
    #[serde(default)]
    now_us: u64,
    clock_moves_to_us: Option<u64>,
    expect: Expect,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum NoBuiltIns {
    None,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Token {
    #[serde(default = "token_sandbox")]
    sandbox: String,
    #[serde(default = "token_expiry")]
    expires_us: u64,
    #[serde(default = "token_max_uses")]
    max_uses: u64,
    #[serde(default)]
    uses: u64,
}

fn token_sandbox() -> String {
    "sb-1".to_owned()
}

const fn token_expiry() -> u64 {
    30_000_000
}

const fn token_max_uses() -> u64 {
    1
}

#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Allow,
    Deny,
    Pass,
    Crash,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    effect: Effect,
    rules: Vec<String>,
    reasons: Option<Vec<String>>,
    calls: Option<u32>,
    #[serde(default)]
    restarts: u32,
    #[serde(default)]
    warnings: usize,
    #[serde(default)]
    uses: u64,
    refusal: Option<String>,
}

/// An extension that counts what happens to it.
struct Spy {
    answer: Answer,
    calls: Cell<u32>,
    restarts: RefCell<u32>,
}

impl Extension for Spy {
    fn evaluate(
        &self,
        _: Option<&ExtensionText>,
        _: &Call,
    ) -> Result<Option<Opinion>, ExtensionError> {
        self.calls.set(self.calls.get() + 1);
        let opinion = |effect| Ok(Some(Opinion { effect, reason: "the spy says so".to_owned() }));
        match self.answer {
            Answer::Allow => opinion(Effect::Allow),
            Answer::Deny => opinion(Effect::Deny),
            Answer::Pass => Ok(None),
            Answer::Crash => Err(ExtensionError::Crashed("exit status 134".to_owned())),
        }
    }

    fn restart(&self, _: Option<&ExtensionText>) -> bool {
        *self.restarts.borrow_mut() += 1;
        true
    }
}

fn cases() -> Vec<Case> {
    serde_saphyr::from_str(include_str!("../tests/cases/normative.yaml")).unwrap()
}

fn compile(rules: &[String]) -> Policy {
    let mut text = String::from("version: 1\ncapabilities:\n");
    for rule in rules {
        text.push_str("  -\n");
        for line in rule.lines() {
            text.push_str(&format!("    {line}\n"));
        }
    }
    Policy::compile(&[Source::new("case", &text)], &Protected::default()).unwrap()
}

/// Every order of the items.
fn orders(items: &[String]) -> Vec<Vec<String>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (at, first) in items.iter().enumerate() {
        let rest: Vec<String> =
            items.iter().enumerate().filter(|(n, _)| *n != at).map(|(_, i)| i.clone()).collect();
        for mut order in orders(&rest) {
            order.insert(0, first.clone());
            all.push(order);
        }
    }
    all
}

/// The decision without what differs between orders by its nature: lines and the file's digest.
fn essence(decision: &Decision) -> (Effect, Vec<RuleTrace>, Vec<String>) {
    let rules =
        decision.rules.iter().cloned().map(|rule| RuleTrace { source: None, line: None, ..rule });
    (decision.effect, rules.collect(), decision.reasons.clone())
}

struct Run {
    verdict: Verdict,
    calls: u32,
    restarts: u32,
    clock_us: u64,
    warnings: usize,
}

fn run(case: &Case, rules: &[String], built_ins: &[BuiltIn], now_us: u64) -> Run {
    let policy = compile(rules);
    let call = case.call.clone().into_call().unwrap();
    let key = SealingKey::from_bytes(&[7; 32]);
    let grant = case.token.as_ref().map(|token| {
        let terms = GrantTerms {
            id: GrantId::from_random([1; 16]),
            sandbox: token.sandbox.clone(),
            syscall: "fs.write".to_owned(),
            path_glob: Some("**".to_owned()),
            max_uses: token.max_uses,
            expires_us: token.expires_us,
            policy_version: policy.version(),
            ancestors: Vec::new(),
        };
        SealedGrant::seal(&key, terms).unwrap()
    });
    let uses = case.token.as_ref().map_or(0, |token| token.uses);
    // The clock runs on while the engine looks up the counter.
    let clock_us = Cell::new(now_us);
    let counters = |_: GrantId| {
        clock_us.set(case.clock_moves_to_us.unwrap_or(now_us));
        uses
    };
    let spy = Spy {
        answer: case.extension.unwrap_or(Answer::Pass),
        calls: Cell::new(0),
        restarts: RefCell::new(0),
    };
    let request = Request {
        token: grant.as_ref().map(|grant| TokenUse { grant, counter: uses + 1 }),
        counters: &counters,
        extension: case.extension.map(|_| &spy as &dyn Extension),
        ..Request::new(&call, clock_us.get())
    };
    let verdict = decide_under(built_ins, &policy, &request);
    let restarts = *spy.restarts.borrow();
    Run {
        verdict,
        calls: spy.calls.get(),
        restarts,
        clock_us: clock_us.get(),
        warnings: policy.warnings().len(),
    }
}

const fn built_ins(case: &Case) -> &'static [BuiltIn] {
    match case.built_ins {
        Some(NoBuiltIns::None) => &[],
        None => BUILT_INS,
    }
}

fn check(case: &Case, rules: &[String]) -> Decision {
    let label = format!("case {} ({}): {}", case.id, case.group, case.title);
    let expect = &case.expect;
    let run = run(case, rules, built_ins(case), case.now_us);
    let decision = run.verdict.decision;
    assert_eq!(decision.effect, expect.effect, "{label}\n{decision:?}");
    let names: Vec<&str> = decision.rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names, expect.rules, "{label}");
    if let Some(reasons) = &expect.reasons {
        assert_eq!(&decision.reasons, reasons, "{label}");
    }
    if let Some(calls) = expect.calls {
        assert_eq!(run.calls, calls, "{label}: calls of the extension");
    }
    assert_eq!(run.restarts, expect.restarts, "{label}: restarts of the extension");
    assert_eq!(run.warnings, expect.warnings, "{label}: warnings");
    assert_eq!(
        run.verdict.grant_use.map_or(0, |used| used.counter),
        expect.uses,
        "{label}: counter to commit"
    );
    let refusal = run.verdict.token_refusal.map(|refusal| format!("{refusal:?}"));
    assert_eq!(refusal, expect.refusal, "{label}: refusal of the token");
    decision
}

#[test]
fn the_26_cases_hold_under_every_order_of_rules() {
    let cases = cases();
    let ids: Vec<u32> = cases.iter().map(|case| case.id).collect();
    assert_eq!(ids, (1..=26).collect::<Vec<_>>());
    for case in &cases {
        let reference = essence(&check(case, &case.rules));
        for order in orders(&case.rules) {
            assert_eq!(essence(&check(case, &order)), reference, "case {}", case.id);
        }
    }
}

#[test]
fn case_18_is_denied_as_soon_as_there_are_built_ins() {
    let cases = cases();
    let case = &cases[17];
    let guarded = run(case, &case.rules, BUILT_INS, 0);
    assert_eq!(guarded.verdict.decision.effect, Effect::Deny);
}

#[test]
fn case_22_moves_the_clock_past_the_expiry_while_it_decides() {
    let cases = cases();
    let case = &cases[21];
    let expires_us = case.token.as_ref().unwrap().expires_us;
    let during = run(case, &case.rules, BUILT_INS, case.now_us);
    assert!(during.clock_us > expires_us, "the clock really moved");
    assert_eq!(during.verdict.decision.effect, Effect::Allow);
    // An evaluation that starts at the moved clock sees an expired grant.
    let after = run(case, &case.rules, BUILT_INS, during.clock_us);
    assert_eq!(after.verdict.decision.effect, Effect::Deny);
}
