//! Rules of a policy in TypeScript: what they answer, and what becomes of those that do not.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use glasshouse_kernel::extension::{EVALUATION_MS, ScriptExtension};
use glasshouse_model::{Call, Effect, RuleTrace};
use glasshouse_policy::{
    CallSketch, Extension as _, ExtensionError, GrantId, GrantTerms, Policy, Protected, Request,
    SealedGrant, SealingKey, Source, TokenUse, decide,
};
use glasshouse_sandbox::{HostConfig, SandboxHost};
use glasshouse_script::Language;
use serde_json::{Value, json};

const CASES: &str = include_str!("../../../policy/tests/cases/normative.yaml");

struct Rules {
    host: Arc<SandboxHost>,
    _home: tempfile::TempDir,
}

impl Rules {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let program = PathBuf::from(env!("CARGO_BIN_EXE_glasshouse"));
        let config = HostConfig { program, home: home.path().to_owned() };
        Self { host: Arc::new(SandboxHost::start(config).unwrap()), _home: home }
    }

    fn start(&self, code: &str) -> Result<ScriptExtension, String> {
        let started = ScriptExtension::start(Arc::clone(&self.host), code, Language::Ts);
        started.map_err(|error| format!("{}: {error}", error.code()))
    }
}

/// A file of rules that does this for every call but the one that it is tried with.
fn rules(does: &str) -> String {
    format!(
        "type Call = {{ syscall: string; path?: string }};
         export function evaluate(call: Call) {{ if (call.syscall === 'policy.warm_up') return; {does} }}"
    )
}

fn call(syscall: &str, path: &str) -> Call {
    let sketch: CallSketch =
        serde_json::from_value(json!({"syscall": syscall, "path": path})).unwrap();
    sketch.into_call().unwrap()
}

#[test]
fn rules_answer_by_the_call_and_nothing_else() {
    let all = Rules::new();
    let check = |does: &str, want: Result<Option<(Effect, &str)>, &str>| {
        let extension = all.start(&rules(does)).unwrap();
        let found = extension.evaluate(&call("fs.write", "src/a.rs"));
        let found = found.map(|found| found.map(|it| (it.effect, it.reason)));
        match (&found, &want) {
            (Ok(found), Ok(want)) => {
                let found = found.as_ref().map(|(effect, reason)| (*effect, reason.as_str()));
                assert_eq!(found, *want, "{does}");
            }
            (Err(error), Err(part)) => {
                assert!(matches!(error, ExtensionError::Failed(_)), "{does}: {error}");
                assert!(error.to_string().contains(part), "{does}: {error}");
            }
            _ => panic!("{does}: {found:?}"),
        }
    };
    check("", Ok(None));
    check("return null", Ok(None));
    check("return { effect: 'deny', reason: call.path }", Ok(Some((Effect::Deny, "src/a.rs"))));
    check(
        "return { effect: 'allow', reason: call.syscall }",
        Ok(Some((Effect::Allow, "fs.write"))),
    );
    check(
        "return { effect: 'require_review', reason: String(Date.now()) }",
        Ok(Some((Effect::RequireReview, "0"))),
    );
    for (does, part) in [
        ("return true", "no opinion"),
        ("return { effect: 'pass', reason: '' }", "no opinion"),
        ("return { effect: 'allow' }", "no opinion"),
        ("return { effect: 'allow', reason: '', more: 1 }", "no opinion"),
        ("throw new Error('on purpose')", "on purpose"),
        ("return new Promise(() => {})", "never settles"),
    ] {
        check(does, Err(part));
    }
}

#[test]
fn rules_that_cannot_serve_do_not_begin() {
    let all = Rules::new();
    for (code, want) in [
        ("export default () => null", "policy_extension_failed"),
        ("export const evaluate = 1; throw new Error('x')", "policy_extension_failed"),
        ("export function evaluate() { for (;;) {} }", "policy_extension_failed"),
        ("export function evaluate(", "script_source_invalid"),
        ("export const evaluate = () => eval('1')", "script_source_denied"),
        ("import fs from 'node:fs'; export const evaluate = () => fs", "script_module_unavailable"),
    ] {
        let error = all.start(code).err().unwrap();
        assert!(error.starts_with(want), "{code}: {error}");
    }
}

#[test]
fn a_call_that_takes_too_long_is_denied_in_time() {
    let extension = Rules::new();
    let extension = extension.start(&rules("for (;;) {}")).unwrap();
    for _ in 0..3 {
        let begun = Instant::now();
        let error = extension.evaluate(&call("fs.read", "a")).unwrap_err();
        assert_eq!(error, ExtensionError::TimedOut { limit_ms: EVALUATION_MS });
        assert!(begun.elapsed().as_millis() < 1_000, "{:?}", begun.elapsed());
    }
    assert!(!extension.is_disabled());
}

const CRASH: &str = "const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1))";

#[test]
fn after_a_second_crash_everything_is_denied() {
    let all = Rules::new();
    let does = format!(
        "if (call.path === 'crash') {{ {CRASH} }} return {{ effect: 'allow', reason: 'x' }}"
    );
    let extension = all.start(&rules(&does)).unwrap();
    // On a busy machine a call may also be late, which is no crash.
    let asked = |path: &str| {
        let call = call("fs.read", path);
        let answers = (0..200).map(|_| extension.evaluate(&call));
        answers.into_iter().find(|it| !matches!(it, Err(ExtensionError::TimedOut { .. }))).unwrap()
    };
    for _ in 0..2 {
        assert!(asked("fine").unwrap().is_some());
        assert!(matches!(asked("crash"), Err(ExtensionError::Crashed(_))));
        // As the policy does after a crash.
        extension.restart();
    }
    assert!(extension.is_disabled());
    let policy = compile(&["{ name: all, match: { syscall: fs.read }, action: allow }".to_owned()]);
    let call = call("fs.read", "fine");
    let request = Request { extension: Some(&extension), ..Request::new(&call, 0) };
    assert_eq!(decide(&policy, &request).decision.effect, Effect::Deny);
    let without = Request::new(&call, 0);
    assert_eq!(decide(&policy, &without).decision.effect, Effect::Allow, "the control");
}

fn compile(rules: &[String]) -> Policy {
    let mut text = String::from("version: 1\ncapabilities:\n");
    for rule in rules {
        text.push_str("  -\n");
        rule.lines().for_each(|line| text.push_str(&format!("    {line}\n")));
    }
    Policy::compile(&[Source::new("case", &text)], &Protected::default()).unwrap()
}

/// What the rules of a case answer, in TypeScript.
fn answer(word: &str) -> String {
    match word {
        "pass" => String::new(),
        "crash" => CRASH.to_owned(),
        effect => format!("return {{ effect: '{effect}', reason: 'the spy says so' }}"),
    }
}

/// The normative cases with real rules. Case 18 takes the built-in rules away, which only the policy
/// crate can; it has no extension.
#[test]
fn the_normative_cases_hold_with_rules_in_typescript() {
    let all = Rules::new();
    let cases: Vec<Value> = serde_saphyr::from_str(CASES).unwrap();
    let key = SealingKey::from_bytes(&[7; 32]);
    let mut asked = 0;
    for case in cases.iter().filter(|case| case["built_ins"].is_null()) {
        let label = format!("case {}: {}", case["id"], case["title"]);
        let of = |value: &Value| value.as_str().unwrap().to_owned();
        let rules: Vec<String> = case["rules"].as_array().unwrap().iter().map(of).collect();
        let policy = compile(&rules);
        let sketch: CallSketch = serde_json::from_value(case["call"].clone()).unwrap();
        let call = sketch.into_call().unwrap();
        let number = |value: &Value, or: u64| value.as_u64().unwrap_or(or);
        let token = &case["token"];
        let grant = token.is_object().then(|| {
            let terms = GrantTerms {
                id: GrantId::from_random([1; 16]),
                sandbox: token["sandbox"].as_str().unwrap_or("sb-1").to_owned(),
                syscall: "fs.write".to_owned(),
                path_glob: Some("**".to_owned()),
                max_uses: number(&token["max_uses"], 1),
                expires_us: number(&token["expires_us"], 30_000_000),
                policy_version: policy.version(),
                ancestors: Vec::new(),
            };
            SealedGrant::seal(&key, terms).unwrap()
        });
        let uses = number(&token["uses"], 0);
        let counters = |_: GrantId| uses;
        let extension = case["extension"].as_str();
        asked += usize::from(extension.is_some());
        let extension = extension.map(|word| all.start(&self::rules(&answer(word))).unwrap());
        let request = Request {
            token: grant.as_ref().map(|grant| TokenUse { grant, counter: uses + 1 }),
            counters: &counters,
            extension: extension.as_ref().map(|it| it as &dyn glasshouse_policy::Extension),
            ..Request::new(&call, number(&case["now_us"], 0))
        };
        let decision = decide(&policy, &request).decision;
        let name = |rule: &RuleTrace| Value::from(rule.name.as_str());
        let names: Vec<Value> = decision.rules.iter().map(name).collect();
        assert_eq!(json!(decision.effect), case["expect"]["effect"], "{label}: {decision:?}");
        assert_eq!(json!(names), case["expect"]["rules"], "{label}");
        if !case["expect"]["reasons"].is_null() {
            assert_eq!(json!(decision.reasons), case["expect"]["reasons"], "{label}");
        }
    }
    assert!(asked >= 6, "{asked}");
}
