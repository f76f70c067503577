//! Rules of a policy in TypeScript: what they answer, and what becomes of those that do not.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use glasshouse_kernel::extension::{EVALUATION_MS, ScriptExtension};
use glasshouse_model::body::PolicyDecided;
use glasshouse_model::{Call, Effect, Event, Kind, RuleTrace};
use glasshouse_policy::{
    CallSketch, ExtensionError, GrantId, GrantTerms, Policy, Protected, Request, SealedGrant,
    SealingKey, Source, TokenUse, decide,
};
use glasshouse_sandbox::{HostConfig, SandboxHost};
use glasshouse_script::Language;
use serde_json::{Value, json};

use crate::harness::{Place, Ran};

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
        // The failure: what JSON has no word for was taken for silence, and a rule of the file allowed.
        ("return () => ({ effect: 'deny', reason: '' })", "no data"),
        ("return Symbol('deny')", "no data"),
        ("return NaN", "no data"),
        ("return { toJSON: () => undefined }", "no data"),
        ("return { toJSON: () => null }", "no data"),
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
        ("export const evaluate = null", "policy_extension_failed"),
        ("export const evaluate = { effect: 'deny' }", "policy_extension_failed"),
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
    for crash in 0..2 {
        assert!(asked("fine").unwrap().is_some());
        assert!(matches!(asked("crash"), Err(ExtensionError::Crashed(_))));
        // As the policy does after a crash.
        let again = extension.restart();
        assert_eq!(again, crash == 0);
    }
    assert!(extension.is_disabled());
    let answer = extension.evaluate(&call("fs.read", "fine")).unwrap_err();
    assert!(matches!(answer, ExtensionError::Disabled { .. }), "{answer}");
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

fn without_a_built_in(mut case: Value) -> Value {
    case["call"]["path"] = json!("docs/config");
    case["extension"] = json!("pass");
    case
}

/// What the rules of a case answer, in TypeScript.
fn answer(word: &str) -> String {
    match word {
        "pass" => String::new(),
        "crash" => CRASH.to_owned(),
        effect => format!("return {{ effect: '{effect}', reason: 'the spy says so' }}"),
    }
}

/// The normative cases with real rules. Case 18 takes the built-in rules away, which only the policy crate
/// can: here it has a path that no built-in rule names, and rules that abstain.
#[test]
fn the_normative_cases_hold_with_rules_in_typescript() {
    let all = Rules::new();
    let cases: Vec<Value> = serde_saphyr::from_str(CASES).unwrap();
    let key = SealingKey::from_bytes(&[7; 32]);
    let mut asked = 0;
    assert_eq!(cases.len(), 26);
    for case in cases {
        let case = match case["built_ins"].is_null() {
            true => case,
            false => without_a_built_in(case),
        };
        let label = format!("case {}: {}", case["id"], case["title"]);
        let of = |value: &Value| value.as_str().unwrap().to_owned();
        let rules: Vec<String> = case["rules"].as_array().unwrap().iter().map(of).collect();
        let extension = case["extension"].as_str();
        asked += usize::from(extension.is_some());
        let extension = extension.map(|word| all.start(&self::rules(&answer(word))).unwrap());
        let policy = compile(&rules);
        let policy = match extension {
            Some(extension) => policy.served_by(Arc::new(extension)),
            None => policy,
        };
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
        let request = Request {
            token: grant.as_ref().map(|grant| TokenUse { grant, counter: uses + 1 }),
            counters: &counters,
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
    assert!(asked >= 7, "{asked}");
}

/// The program as a policy file carries it.
fn carried(code: &str) -> String {
    let lines: Vec<_> = code.lines().map(|line| format!("  {line}\n")).collect();
    format!("extension: |\n{}", lines.concat())
}

/// The failure: what a person does with branches asked the rules in TypeScript, and went on whatever they said: only
/// rules that stand in the file counted.
#[test]
fn e2e_rules_in_typescript_decide_on_branches_too() {
    for (does, status) in [
        ("", 0),
        ("if (call.syscall === 'session.fork') return { effect: 'deny', reason: 'no' };", 3),
        ("if (call.syscall === 'session.fork') throw new Error('on purpose');", 3),
    ] {
        let place = Place::new();
        let project = place.shell_project();
        let model =
            "capabilities: [{ name: model, match: { syscall: model.call }, action: allow }]\n";
        let policy = format!("{model}{}", carried(&rules(does)));
        std::fs::write(project.join(".glasshouse/policy.yaml"), policy).unwrap();
        place.scenario(&project, "version: 1\nsteps:\n  - emit: [ { text: Hello. } ]\n");
        let (session, events) = place.events();
        let at = events.len().to_string();
        let ran = place.run_in(&project, &["session", "fork", session.as_str(), "--at", &at]);
        assert_eq!(ran.status, Some(status), "{does}: {ran:?}");
    }
}

#[test]
fn e2e_a_policy_file_carries_rules_in_typescript() {
    let place = Place::new();
    let project = place.shell_project();
    let write = |name: &str, text: &str| std::fs::write(project.join(name), text).unwrap();
    let allow = "capabilities: [{ name: reads, match: { syscall: fs.read }, action: allow }]\n";
    let does = "if (call.path?.endsWith('.sql')) return { effect: 'require_review', reason: 'the schema' };
        if (call.path === 'loop') for (;;) {}
        if (call.path === 'throw') throw new Error('on purpose');";
    write("p.yaml", &format!("{allow}{}", carried(&rules(does))));
    let check = |file: &str, path: &str| {
        let call = json!({"syscall": "fs.read", "path": path}).to_string();
        let arguments = ["policy", "check", "--policy", file, "--call", &call, "--json"];
        place.run_in(&project, &arguments)
    };
    let reasons = |ran: &Ran| ran.last()["reasons"].to_string();
    let allowed = check("p.yaml", "a").expect_status(0).last();
    assert_eq!(allowed["rules"].as_array().unwrap().len(), 1, "{allowed}");
    let review = check("p.yaml", "a.sql").expect_status(4).last();
    assert_eq!(review["rules"][1]["layer"], "extension", "{review}");
    assert_eq!(
        (&review["rules"][1]["source"], &review["rules"][1]["line"]),
        (&json!("p.yaml"), &json!(3))
    );
    let late = check("p.yaml", "loop").expect_status(3);
    assert!(reasons(&late).contains("did not answer within 100 ms"), "{late:?}");
    let threw = check("p.yaml", "throw").expect_status(3);
    assert!(reasons(&threw).contains("on purpose"), "{threw:?}");

    // Its own tests are decided with it.
    write(
        "t.yaml",
        "tests: [{ name: a, call: { syscall: fs.read, path: x.sql }, expect: require_review, rules: extension }]\n",
    );
    let tested = ["policy", "test", "t.yaml", "--policy", "p.yaml", "--json"];
    assert_eq!(place.run_in(&project, &tested).expect_status(0).last()["passed"], 1);
}

/// The failure: each fault of the program had one advice, and its line was that of the program, to be added by hand.
#[test]
fn e2e_a_fault_of_the_program_is_told_with_its_place_in_the_file() {
    let place = Place::new();
    let project = place.shell_project();
    let write = |name: &str, text: &str| std::fs::write(project.join(name), text).unwrap();
    let allow = "capabilities: [{ name: reads, match: { syscall: fs.read }, action: allow }]\n";
    let check = |file: &str, path: &str| {
        let call = json!({"syscall": "fs.read", "path": path}).to_string();
        let arguments = ["policy", "check", "--policy", file, "--call", &call, "--json"];
        place.run_in(&project, &arguments)
    };
    // A program that cannot be had is the end of the policy, not of its rules alone.
    let throws =
        "export function evaluate(call) {\n  return call.host.endsWith('x') ? null : null;\n}";
    for (code, line, why, fix) in [
        ("export function evaluate(", 4, "line 4, column 3", "correct the program"),
        ("export default () => null", 3, "exports no function `evaluate`", "export a function"),
        ("\n\nexport const evaluate = () => fetch('x')", 5, "line 5, column 33", "no network"),
        (
            "import x from 'node:fs'; export const evaluate = () => x",
            3,
            "node:fs",
            "without imports",
        ),
        (throws, 4, "`syscall` and `caller` and no other member", "call.path?.endsWith"),
        (
            "export const evaluate = () => 'deny'",
            3,
            "expected `{ effect, reason }`",
            "answer nothing",
        ),
        ("export const evaluate = () => { for (;;) {} }", 3, "did not answer", "come to an end"),
    ] {
        write("q.yaml", &format!("{allow}{}", carried(code)));
        let failed = check("q.yaml", "a").expect_status(2).last();
        let error = &failed["error"];
        assert_eq!(error["code"], "policy_extension_failed", "{failed}");
        assert!(error.to_string().contains(why), "{why}: {failed}");
        assert_eq!(error["context"]["line"], line, "{failed}");
        assert!(
            error["what"].as_str().unwrap().starts_with(&format!("q.yaml:{line}:")),
            "{failed}"
        );
        assert!(error["fix"].as_str().unwrap().contains(fix), "{fix}: {failed}");
        let lines = error["context"]["diagnostics"].as_array().into_iter().flatten();
        assert!(lines.into_iter().all(|found| found["line"] == line), "{failed}");
    }
    // Where the program does not stand in the file line by line, places are those of the program.
    write(
        "q.yaml",
        &format!("{allow}extension: \"\\n\\nexport const evaluate = () => fetch('x')\"\n"),
    );
    let failed = check("q.yaml", "a").expect_status(2).last();
    assert!(failed["error"].to_string().contains("line 3, column 31"), "{failed}");
    let big = "export const evaluate = (call) => call.path && ({ effect: 'deny', reason: 'x'.repeat(100000) })";
    write("q.yaml", &format!("{allow}{}", carried(big)));
    let denied = check("q.yaml", "a").expect_status(3);
    let reasons = denied.last()["reasons"].to_string();
    assert!(reasons.contains("its answer is larger than 16384 bytes"), "{reasons}");
    write("q.yaml", allow);
    check("q.yaml", "a").expect_status(0);
}

/// The events of the session that a task's output names.
fn events_of(place: &Place, ran: &Ran) -> Vec<Event> {
    let log = place.log();
    let session = ran.last()["session"].as_str().unwrap().to_owned();
    let rows = log.sessions().unwrap();
    let row = rows.iter().find(|row| row.session.as_str() == session).unwrap();
    log.read(&row.main, 1, 100_000).unwrap()
}

/// What was decided on reads, with the reasons; nothing when the machine was too busy for an answer in
/// time that was not to be late.
fn decided(events: &[Event], late_ones: usize) -> Option<Vec<(Effect, String)>> {
    let decided = events.iter().filter(|event| *event.kind() == Kind::PolicyDecided);
    let decided: Vec<PolicyDecided> = decided.map(|event| event.body_as().unwrap()).collect();
    let is_late = |it: &&PolicyDecided| it.decision.reasons.join("").contains("did not answer");
    if decided.iter().filter(is_late).count() > late_ones {
        return None;
    }
    let reads = decided.into_iter().filter(|it| it.syscall == "fs.read");
    Some(reads.map(|it| (it.decision.effect, it.decision.reasons.join("; "))).collect())
}

fn reads(paths: &[&str]) -> String {
    let calls = paths.iter().enumerate().map(|(at, path)| {
        format!("      - {{ call: {{ id: r{at}, tool: fs.read, args: {{ path: {path} }} }} }}\n")
    });
    format!(
        "version: 1\nsteps:\n  - emit:\n{}  - emit: [ {{ text: done }} ]\n",
        calls.collect::<String>()
    )
}

/// Runs one turn that reads these paths under the shipped policy and a program; again where the machine
/// was too busy.
fn session(does: &str, paths: &[&str], late_ones: usize) -> (Place, Ran, Vec<(Effect, String)>) {
    for _ in 0..10 {
        let place = Place::new();
        let project = place.shell_project();
        let shipped = place.run(&["policy", "show", "--shipped"]).expect_status(0).stdout;
        place.accept_policy(&project, &format!("{shipped}\n{}", carried(&rules(does))));
        let ran = place.scenario(&project, &reads(paths));
        if let Some(decided) = decided(&events_of(&place, &ran), late_ones) {
            return (place, ran, decided);
        }
    }
    panic!("no answer in time, ten times");
}

#[test]
fn e2e_a_session_asks_its_rules_in_typescript() {
    let does = "if (call.path === 'src/tool.sh') return { effect: 'deny', reason: 'not that one' };
        if (call.path === 'src/late') for (;;) {}";
    let (place, ran, found) = session(does, &["src/tool.sh", "tests/run.sh", "src/late"], 1);
    let effects: Vec<_> = found.iter().map(|(effect, _)| *effect).collect();
    assert_eq!(effects, [Effect::Deny, Effect::Allow, Effect::Deny], "{found:?}");
    assert!(found[0].1.ends_with("not that one"), "{found:?}");
    assert!(found[2].1.contains("did not answer within 100 ms"), "{found:?}");
    let events = events_of(&place, &ran);
    let denied = events.iter().filter(|event| *event.kind() == Kind::ToolDenied).count();
    assert_eq!(denied, 2);
    // What it said is in the record, so a replay needs no program, and nobody else's luck.
    let id = ran.last()["session"].as_str().unwrap().to_owned();
    let replay = place.run(&["session", "replay", &id, "--json"]).expect_status(0).last();
    assert_eq!(replay["equal"], true);
    let at = events.iter().find(|event| *event.kind() == Kind::ToolDenied).unwrap();
    let call = at.body["call"].as_str().unwrap().trim_start_matches('c').to_owned();
    let explain = ["policy", "explain", "--session", &id, "--at", &call, "--json"];
    let explained = place.run(&explain).expect_status(0).last();
    assert!(explained["reasons"].to_string().contains("not that one"), "{explained}");
}

#[test]
fn e2e_a_session_tells_of_each_crash_and_denies_after_the_second() {
    // Its memory is soon used up: on a busy machine much work would be late, which is no crash.
    let crash = "const some = new Uint8Array(20 << 20).fill(1), more = new Uint8Array(20 << 20).fill(1); return some + more";
    let does = format!("if (call.path === 'src/crash') {{ {crash} }}");
    let (_place, ran, found) = session(&does, &["src/crash", "src/crash", "tests/run.sh"], 0);
    let want = ["it is started again", "crashed: ", "is disabled: it crashed twice within 30 s"];
    for ((effect, reason), want) in found.iter().zip(want) {
        assert_eq!(*effect, Effect::Deny, "{found:?}");
        assert!(reason.contains(want), "{want}: {found:?}");
    }
    assert!(found[1].1.ends_with("it is disabled"), "{found:?}");
    // What the model is asked for is a call, too.
    assert_ne!(ran.status, Some(0));
}

#[test]
fn e2e_a_session_does_not_start_without_its_rules_in_typescript() {
    let place = Place::new();
    let project = place.shell_project();
    let text = format!("capabilities: []\n{}", carried("export default 1"));
    std::fs::write(project.join(".glasshouse/policy.yaml"), &text).unwrap();
    // A stranger's file: it opens nothing, and what it forbids cannot be known.
    let ran = place.scenario(&project, &reads(&["tests/run.sh"])).expect_status(2);
    assert_eq!(ran.last()["error"]["code"], "policy_extension_failed");
    let digest = glasshouse_model::Digest::of(text.as_bytes()).to_string();
    let update = ["policy", "update", "--digest", &digest, "--json"];
    let refused = place.run_in(&project, &update).expect_status(2).last();
    assert_eq!(refused["error"]["code"], "policy_extension_failed");
    // The control: the same file without the program.
    std::fs::write(project.join(".glasshouse/policy.yaml"), "capabilities: []\n").unwrap();
    let ran = place.scenario(&project, &reads(&["tests/run.sh"]));
    assert_ne!(ran.last()["error"]["code"], "policy_extension_failed");
}
