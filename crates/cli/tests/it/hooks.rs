//! Plugins in the pipeline of plans: their order, what they may change, and what stops them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use glasshouse_kernel::plans::{Hook, Plans, Plugin, Plugins, Quota};
use glasshouse_kernel::{Error, Kernel};
use glasshouse_model::body::RunMode;
use glasshouse_model::{Digest, Kind};
use glasshouse_plan::ProfileName;
use serde_json::{Value, json};

use crate::harness::{Place, Ran};

fn plan(place: &Place, source: Option<&str>) -> String {
    let mut plan = json!({
        "specVersion": "runtime-plan/v1", "id": "hooked", "version": 1,
        "root": {"type": "element", "tag": "p", "children": [{"type": "text", "value": "own"}]},
    });
    if let Some(code) = source {
        plan["source"] = json!({"code": code, "language": "tsx"});
    }
    let path = place.path("hooked.json");
    std::fs::write(&path, plan.to_string()).unwrap();
    path.display().to_string()
}

fn plugin(place: &Place, name: &str, code: &str) -> String {
    let path = place.path(name);
    std::fs::write(&path, code).unwrap();
    path.display().to_string()
}

fn show(place: &Place, plan: &str, plugins: &[&str]) -> Ran {
    let mut arguments = vec!["ui", "render-plan", plan, "--profile", "trusted"];
    plugins.iter().for_each(|plugin| arguments.extend(["--plugin", plugin]));
    place.run(&arguments)
}

/// The hooks of the last run, as they are recorded.
fn recorded(place: &Place) -> Vec<Value> {
    let (_, events) = place.events();
    let shown = [Kind::PlanRendered, Kind::PlanRefused];
    let last = events.iter().rfind(|event| shown.contains(event.kind())).unwrap();
    last.body["run"]["hooks"].as_array().cloned().unwrap_or_default()
}

#[test]
fn hooks_are_called_in_their_order_and_a_replay_needs_no_plugin() {
    let place = Place::new();
    let plan = plan(&place, Some("export default ({ state }) => <p>{'made'}</p>"));
    let add = |word: &str| {
        format!(
            "const add = (node) => ({{ ...node, children: [...node.children, {{ type: 'text', value: ' {word}' }}] }});
             export const beforePolicyCheck = ({{ payload }}) => ({{ ...payload, metadata: {{ tags: ['{word}'] }} }});
             export const afterPolicyCheck = () => undefined;
             export const beforeRuntime = ({{ payload }}) => payload;
             export const afterRuntime = ({{ payload }}) => ({{ ...payload, root: add(payload.root) }});
             export const beforeRender = ({{ payload, hookName }}) =>
                 ({{ ...payload, root: add({{ ...payload.root, props: {{ title: hookName }} }}) }});
             export const afterRender = ({{ payload }}) => payload;"
        )
    };
    let (first, second) = (plugin(&place, "a.ts", &add("a")), plugin(&place, "b.js", &add("b")));
    let ran = show(&place, &plan, &[&first, &second]).expect_status(0);
    assert_eq!(ran.stdout.trim_end(), "<p title=\"beforeRender\">made a b a b</p>", "{ran:?}");
    let names: Vec<String> = recorded(&place)
        .iter()
        .map(|it| format!("{}:{}", it["plugin"].as_str().unwrap(), it["hook"].as_str().unwrap()))
        .collect();
    let hooks = Hook::ALL.map(Hook::as_str);
    let want: Vec<String> = hooks[4..]
        .iter()
        .flat_map(|hook| [format!("a.ts:{hook}"), format!("b.js:{hook}")])
        .collect();
    assert_eq!(names, want);
    std::fs::remove_file(first).unwrap();
    let history = place.run(&["ui", "history", "--json"]).expect_status(0).last();
    let run = history["runs"][0]["run"].to_string();
    let replayed = place.run(&["ui", "replay", &run, "--json"]).last();
    assert_eq!(replayed["equal"], true, "{replayed}");
}

/// What a hook makes of a plan is a stranger's word, wherever it comes from.
#[test]
fn what_a_hook_changes_is_checked_again() {
    let bad = "{ type: 'element', tag: 'script', children: [] }";
    let good = "{ type: 'element', tag: 'b', children: [] }";
    for (hook, at) in [
        ("beforePolicyCheck", "root"),
        ("beforeRuntime", "plan.root"),
        ("afterRuntime", "root"),
        ("beforeRender", "root"),
    ] {
        let code = |node: &str| {
            let set = match at {
                "root" => format!("({{ ...payload, root: {node} }})"),
                _ => format!("({{ ...payload, plan: {{ ...payload.plan, root: {node} }} }})"),
            };
            format!("export const {hook} = ({{ payload }}) => {set}")
        };
        let place = Place::new();
        let plan = plan(&place, None);
        let control = show(&place, &plan, &[&plugin(&place, "good.js", &code(good))]);
        assert_eq!(control.expect_status(0).stdout.trim_end(), "<b></b>", "{hook}: the control");
        let ran = show(&place, &plan, &[&plugin(&place, "bad.js", &code(bad))]).expect_status(3);
        assert_eq!(ran.stdout, "", "{hook}");
        assert!(ran.stderr.contains("plan_tag_denied") || ran.stderr.contains("/root"), "{ran:?}");
    }
}

#[test]
fn a_hook_that_fails_ends_the_run() {
    for (name, code, want) in [
        (
            "throws",
            "export const beforeRender = () => { throw new Error('on purpose') }",
            "on purpose",
        ),
        ("endless", "export const beforeRender = () => { for (;;) {} }", "limit of time"),
        (
            "markup",
            "export const afterRender = () => '<script>alert(1)</script>'",
            "plan_hook_failed",
        ),
        ("root", "export const beforeRender = () => ({ root: 1 })", "plan_"),
        (
            "state",
            "export const beforeRuntime = ({ payload }) => ({ ...payload, state: { admin: true } })",
            "what it may only see",
        ),
        (
            "identity",
            "export const beforeRuntime = ({ payload }) => ({ ...payload, plan: { ...payload.plan, id: 'x' } })",
            "what it may only see",
        ),
        (
            "refuses",
            "export const afterPolicyCheck = () => ({ safe: false, issues: [{ message: 'not today' }] })",
            "not today",
        ),
        ("no hook", "export const other = 1", "none of the hooks"),
        (
            "reaches",
            "export const beforeRender = () => fetch('https://x.example')",
            "script_source_denied",
        ),
        ("no program", "export const beforeRender = (;", "script_source_invalid"),
        ("no root", "export const beforeRender = () => 'x'", "a node is an object"),
        ("no plan", "export const beforePolicyCheck = () => 'x'", "an object is expected"),
        ("no run", "export const beforeRuntime = () => 'x'", "what it may only see"),
        ("silent", "export const afterPolicyCheck = () => ({ safe: false })", "run without it"),
    ] {
        let place = Place::new();
        let plan = plan(&place, None);
        let begun = Instant::now();
        let ran = show(&place, &plan, &[&plugin(&place, "p.js", code)]);
        assert!(matches!(ran.status, Some(2 | 3)), "{name}: {ran:?}");
        assert_eq!(ran.stdout, "", "{name}");
        assert!(ran.stderr.contains(want), "{name}: {}", ran.stderr);
        // Whose fault it is: a plan has code of its own.
        assert!(ran.stderr.contains("p.js"), "{name}: {}", ran.stderr);
        assert!(begun.elapsed() < Duration::from_secs(20), "{name}");
    }
    // An unsafe plan stays unsafe, whoever says otherwise.
    let place = Place::new();
    let path = place.path("unsafe.json");
    let unsafe_plan = json!({"specVersion": "runtime-plan/v1", "id": "u", "version": 1,
        "root": {"type": "element", "tag": "script"}});
    std::fs::write(&path, unsafe_plan.to_string()).unwrap();
    let says = "export const afterPolicyCheck = () => ({ safe: true, issues: [], issue_count: 0 })";
    let ran = show(&place, &path.display().to_string(), &[&plugin(&place, "p.js", says)]);
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(3), ""));
}

/// What a model that answers a plan with this root comes to, by `ui run` or `ui plan`.
fn asked(place: &Place, command: &str, tag: &str, plugin: &str) -> Ran {
    let answer = json!({
        "specVersion": "runtime-plan/v1", "id": "asked", "version": 1,
        "root": {"type": "element", "tag": tag},
    });
    let step = json!({"emit": [{"text": answer.to_string()}]});
    let scenario = place.path("model.yaml");
    std::fs::write(&scenario, json!({"version": 1, "steps": [step, step]}).to_string()).unwrap();
    let project = place.path("project");
    std::fs::create_dir_all(&project).unwrap();
    let scenario = scenario.display().to_string();
    let arguments = ["ui", command, "a greeting", "--scenario", &scenario, "--plugin", plugin];
    place.run_in(&project, &arguments)
}

/// What plugins did for a prompt is recorded also where no plan came of it.
#[test]
fn calls_of_a_prompt_that_led_to_no_plan_are_recorded() {
    let adds = "export const beforeLLM = ({ payload }) => payload + ' please'";
    let throws = "export const afterLLM = () => { throw new Error('on purpose') }";
    for (command, tag, code, hook, want) in [
        ("run", "script", adds, "beforeLLM", "plan_refused"),
        ("plan", "script", adds, "beforeLLM", "plan_refused"),
        ("run", "p", throws, "afterLLM", "plan_hook_failed"),
        ("plan", "p", throws, "afterLLM", "plan_hook_failed"),
    ] {
        let place = Place::new();
        let ran = asked(&place, command, tag, &plugin(&place, "p.js", code));
        assert_ne!(ran.status, Some(0), "{ran:?}");
        let log = place.log();
        let rows = log.sessions().unwrap();
        let events = rows.iter().flat_map(|row| log.read(&row.main, 1, 1_000).unwrap());
        let refused: Vec<_> = events.filter(|it| *it.kind() == Kind::PlanRefused).collect();
        assert_eq!(refused.len(), 1, "{command} {want}: {ran:?}");
        let run = &refused[0].body["run"];
        assert_eq!((&run["code"], &run["mode"]), (&json!(want), &json!("prompt")), "{command}");
        assert_eq!(run["hooks"][0]["hook"], hook, "{command} {want}: {run}");
        if want == "plan_refused" {
            assert!(refused[0].body["issues"]["issues"][0]["code"].is_string(), "{refused:?}");
            let replayed = place.run(&["ui", "replay", &refused[0].seq().to_string(), "--json"]);
            assert_eq!(replayed.expect_status(0).last()["equal"], true, "{command}");
        }
    }
}

/// A plugin that lets another writer in, once, when the run is nearly done.
struct Racer(Mutex<Option<Plans>>);

impl Plugin for Racer {
    fn name(&self) -> &str {
        "racer"
    }

    fn digest(&self) -> Digest {
        Digest::of(b"racer")
    }

    fn wants(&self, hook: Hook) -> bool {
        matches!(hook, Hook::BeforeLlm | Hook::AfterRender)
    }

    fn call(&self, hook: Hook, _: Value) -> Result<Option<Value>, String> {
        let other = self.0.lock().unwrap().take_if(|_| hook == Hook::AfterRender);
        let cleared = other.map(|mut other| other.clear_history()).transpose();
        cleared.map(|_| None).map_err(|error| error.to_string())
    }
}

/// A run that is decided anew, because another one came first, still has what was before it.
#[test]
fn calls_before_a_run_that_lost_a_race_are_recorded() {
    let place = Place::new();
    let text = std::fs::read_to_string(plan(&place, None)).unwrap();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_glasshouse"));
    let kernel = Kernel::open(&place.home(), &program).unwrap();
    let open = || kernel.plans(&place.path("."), Quota::default()).unwrap();
    let racer = Racer(Mutex::new(Some(open())));
    let plugins = Plugins::new(vec![Arc::new(racer)]).unwrap();
    plugins.call(Hook::BeforeLlm, json!("a prompt")).unwrap();
    let mut plans = open().with_plugins(plugins);
    plans.show(&text, RunMode::Prompt, false, ProfileName::Strict).unwrap();
    let hooks = |place: &Place| -> Vec<Value> {
        recorded(place).iter().map(|call| call["hook"].clone()).collect()
    };
    assert_eq!(hooks(&place), ["beforeLLM", "afterRender"]);
    let cleared = place.events().1;
    assert_eq!(cleared.iter().filter(|it| *it.kind() == Kind::PlanHistoryCleared).count(), 1);
    // The next run has its own calls only.
    plans.show(&text, RunMode::Prompt, false, ProfileName::Strict).unwrap();
    assert_eq!(hooks(&place), ["afterRender"]);
}

/// A plugin whose first call comes back late.
struct Late(Hook, Mutex<Duration>);

impl Plugin for Late {
    fn name(&self) -> &str {
        "alike"
    }

    fn digest(&self) -> Digest {
        Digest::of(b"alike")
    }

    fn wants(&self, hook: Hook) -> bool {
        hook == self.0
    }

    fn call(&self, _: Hook, _: Value) -> Result<Option<Value>, String> {
        std::thread::sleep(std::mem::take(&mut *self.1.lock().unwrap()));
        Ok(None)
    }
}

/// One that is late is not called again before it has come back, and another of its name is.
#[test]
fn a_plugin_that_was_late_once_is_called_again() {
    let late = |hook, ms| Arc::new(Late(hook, Mutex::new(Duration::from_millis(ms))));
    let (slow, quick) = (late(Hook::BeforeRender, 4_000), late(Hook::AfterRender, 0));
    let plugins = Plugins::new(vec![slow, quick]).unwrap();
    let call = |hook| plugins.call(hook, json!(1)).map_err(|error| error.report().why);
    assert!(call(Hook::BeforeRender).unwrap_err().contains("took longer"));
    assert!(call(Hook::BeforeRender).unwrap_err().contains("has not come back"));
    assert_eq!(call(Hook::AfterRender), Ok(json!(1)));
    let begun = Instant::now();
    while call(Hook::BeforeRender).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it never counts as back");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A plugin of the program that embeds the kernel.
struct Native(fn(Value) -> Result<Option<Value>, String>);

impl Plugin for Native {
    fn name(&self) -> &str {
        "native"
    }

    fn digest(&self) -> Digest {
        Digest::of(b"native")
    }

    fn wants(&self, hook: Hook) -> bool {
        hook == Hook::BeforeRender
    }

    fn call(&self, _: Hook, payload: Value) -> Result<Option<Value>, String> {
        (self.0)(payload)
    }
}

#[test]
fn plugins_of_the_program_are_limited_as_well() {
    let shown = |does: fn(Value) -> Result<Option<Value>, String>| -> Result<String, Error> {
        let place = Place::new();
        let file = plan(&place, None);
        let program = PathBuf::from(env!("CARGO_BIN_EXE_glasshouse"));
        let kernel = Kernel::open(&place.home(), &program).unwrap();
        let plans = kernel.plans(&place.path("."), Quota::default()).unwrap();
        let mut plans = plans.with_plugins(Plugins::new(vec![Arc::new(Native(does))]).unwrap());
        let text = std::fs::read_to_string(file).unwrap();
        let run = plans.show(&text, RunMode::Plan, false, ProfileName::Strict)?;
        Ok(run.html.markup)
    };
    assert_eq!(shown(|_| Ok(None)).unwrap(), "<p>own</p>");
    let change = |mut payload: Value| {
        payload["root"] = json!({"type": "text", "value": "<changed>"});
        Ok(Some(payload))
    };
    assert_eq!(shown(change).unwrap(), "&lt;changed&gt;");
    for (name, does) in [
        ("says no", (|_| Err("no".to_owned())) as fn(Value) -> Result<Option<Value>, String>),
        ("panics", |_| panic!("on purpose")),
        ("sleeps", |_| {
            std::thread::sleep(Duration::from_secs(60));
            Ok(None)
        }),
    ] {
        assert_eq!(shown(does).unwrap_err().code(), "plan_hook_failed", "{name}");
    }
}

/// The four places before a plan is there; what a model answers is a plan that shows `own`.
fn prompted(place: &Place, prompt: &str, answers: usize, plugins: &[&str]) -> Ran {
    let answer = json!({
        "specVersion": "runtime-plan/v1", "id": "prompted", "version": 1,
        "root": {"type": "element", "tag": "p", "children": [{"type": "text", "value": "own"}]},
    });
    let step = json!({"expect": {"user_contains": prompt}, "emit": [{"text": answer.to_string()}]});
    let again = json!({"emit": [{"text": answer.to_string()}]});
    let steps: Vec<Value> = [step, again].into_iter().take(answers).collect();
    let scenario = place.path("model.yaml");
    std::fs::write(&scenario, json!({"version": 1, "steps": steps}).to_string()).unwrap();
    let project = place.path("project");
    std::fs::create_dir_all(&project).unwrap();
    let scenario = scenario.display().to_string();
    let mut arguments = vec!["ui", "run", "a greeting", "--scenario", &scenario];
    plugins.iter().for_each(|plugin| arguments.extend(["--plugin", plugin]));
    place.run_in(&project, &arguments)
}

const BEFORE_A_PLAN: [&str; 4] = ["beforeLLM", "afterLLM", "beforeCodeGen", "afterCodeGen"];

/// A plugin that puts a node in the place of the root, at one of these places.
fn puts(hook: &str, node: &str) -> String {
    let plan =
        format!("const put = (text) => JSON.stringify({{ ...JSON.parse(text), root: {node} }});");
    let does = match hook {
        "afterLLM" => "put(payload)".to_owned(),
        "beforeCodeGen" => "({ ...payload, text: put(payload.text) })".to_owned(),
        _ => format!("({{ ...payload, root: {node} }})"),
    };
    format!("{plan} export const {hook} = ({{ payload }}) => {does}")
}

#[test]
fn hooks_before_a_plan_are_called_in_their_order_and_recorded() {
    let place = Place::new();
    let add = |word: &str| {
        let rest: String = BEFORE_A_PLAN[1..]
            .iter()
            .map(|hook| format!("export const {hook} = ({{ payload }}) => payload;\n"))
            .collect();
        format!(
            "export const beforeLLM = ({{ payload, hookName }}) => payload + ' {word}' + hookName;\n{rest}"
        )
    };
    let (first, second) = (plugin(&place, "a.ts", &add("a")), plugin(&place, "b.js", &add("b")));
    let ran = prompted(&place, "a greeting abeforeLLM bbeforeLLM", 1, &[&first, &second]);
    assert_eq!(ran.expect_status(0).stdout.trim_end(), "<p>own</p>");
    let log = place.log();
    let events: Vec<_> = log
        .sessions()
        .unwrap()
        .iter()
        .flat_map(|row| log.read(&row.main, 1, 1_000).unwrap())
        .filter(|event| *event.kind() == Kind::PlanRendered)
        .collect();
    let hooks = events[0].body["run"]["hooks"].as_array().unwrap().clone();
    let names: Vec<String> = hooks
        .iter()
        .map(|it| format!("{}:{}", it["plugin"].as_str().unwrap(), it["hook"].as_str().unwrap()))
        .collect();
    let want: Vec<String> = BEFORE_A_PLAN
        .iter()
        .flat_map(|hook| [format!("a.ts:{hook}"), format!("b.js:{hook}")])
        .collect();
    assert_eq!(names, want);
    // The control: without plugins the model gets the prompt as it was written.
    let ran = prompted(&place, "a greeting abeforeLLM", 1, &[]);
    assert_eq!(ran.status, Some(6), "{ran:?}");
}

#[test]
fn what_a_hook_makes_of_an_answer_is_checked_like_an_answer() {
    for hook in &BEFORE_A_PLAN[1..] {
        let place = Place::new();
        let good = plugin(&place, "good.js", &puts(hook, "{ type: 'text', value: 'from a hook' }"));
        let ran = prompted(&place, "a greeting", 1, &[&good]).expect_status(0);
        assert_eq!(ran.stdout.trim_end(), "from a hook", "{hook}: the control");
        let bad = plugin(&place, "bad.js", &puts(hook, "{ type: 'element', tag: 'script' }"));
        // The model is asked once more, and the hook makes the same of that.
        let ran = prompted(&place, "a greeting", 2, &[&bad]).expect_status(3);
        assert_eq!(ran.stdout, "", "{hook}: {ran:?}");
        assert!(ran.stderr.contains("plan_tag_denied"), "{hook}: {ran:?}");
    }
}

#[test]
fn a_hook_before_a_plan_that_fails_ends_the_run() {
    for hook in BEFORE_A_PLAN {
        for (name, does, want) in [
            ("endless", "{ for (;;) {} }", "limit of time"),
            ("throws", "{ throw new Error('on purpose') }", "on purpose"),
            ("another form", "(7)", ""),
        ] {
            let place = Place::new();
            let code = format!("export const {hook} = () => {does}");
            let file = plugin(&place, "p.js", &code);
            let begun = Instant::now();
            let ran = prompted(&place, "a greeting", 2, &[&file]);
            assert!(begun.elapsed() < Duration::from_secs(20), "{hook} {name}");
            // What is no answer has no plan in it, and its text is shown as the text that it is.
            let is_text = name == "another form" && hook == "beforeCodeGen";
            if is_text {
                assert!(!ran.stdout.contains("own"), "{hook} {name}: {ran:?}");
                continue;
            }
            assert!(matches!(ran.status, Some(2 | 3)), "{hook} {name}: {ran:?}");
            assert_eq!(ran.stdout, "", "{hook} {name}");
            assert!(ran.stderr.contains(want), "{hook} {name}: {ran:?}");
        }
    }
}
