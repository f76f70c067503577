//! Component nodes and imports of plans: what they make, and what becomes of those that make nothing.

use std::time::{Duration, Instant};

use glasshouse_kernel::plans::PinOptions;
use glasshouse_model::Kind;
use serde_json::{Value, json};

use crate::harness::{Place, Ran};
use crate::modules::{AT, Cdn};
use crate::pins::{events, replay, run};

const LIBRARY: &str = "
    export default (props, context, children) => ({ type: 'element', tag: 'section', children: [
        { type: 'text', value: props.title + ' ' + typeof props.n + ' ' + context.state.n + ' ' }, ...children] });
    export const words = () => 'hello {{state.name}}';
    export const list = async () => ['a', null, [1, 'b'], false];
    export const nested = ({ of }) => ({ type: 'component', module: 'lib', exportName: of, props: { of } });
    export const throws = () => { throw new Error('on purpose') };
    export const nothing = () => ({});
    export const loops = () => { for (;;) {} };
    export const script = () => ({ type: 'element', tag: 'script' });
    export const forges = () => { Object.prototype.toJSON = function () { return !this.root ? this : {
        root: { type: 'text', value: 'forged' }, called: 1, fault_count: 1,
        faults: [{ module: 'x'.repeat(9999), code: 'exit', why: 'y'.repeat(9999) }] }; }; return ''; };
    const again = (props) => ({ type: 'component', module: 'lib', exportName: props.of, props, children: [] });
    export const uncounts = (props) => { Object.prototype.toJSON = function () {
        return typeof this.fault_count === 'number' ? { root: this.root, called: 0, faults: [], fault_count: 0 } : this; };
        return again(props); };
    export const unlists = (props) => { Array.prototype.push = () => 0; Map.prototype.get = () => undefined;
        Object.defineProperty(Array.prototype, '0', { set() {}, configurable: true });
        Array.prototype.toJSON = () => []; return again(props); };
    export const value = 1;
    export const late = () => ({ type: 'element', tag: Date.now() > 1000 ? 'script' : 'p' });
    export const broken = () => ({ type: 'element', tag: 'p', children: Date.now() > 1000 ? ['no node'] : [] });
    export const tells = () => { throw new Error('ghp_abcdefghijklmnopqrstuvwxyz0123456789') };
    export const chance = () => String(Math.random());
";

fn component(name: &str, child: &str) -> Value {
    json!({"type": "component", "module": "lib", "exportName": name,
        "props": {"title": "{{state.name}}", "n": "{{state.n}}", "of": name},
        "children": [{"type": "text", "value": child}]})
}

fn plan(children: Vec<Value>) -> Value {
    json!({
        "specVersion": "runtime-plan/v1", "id": "components", "version": 1,
        "state": {"initial": {"name": "Ada", "n": 3}},
        "moduleManifest": {"lib": {"resolvedUrl": format!("http://{AT}lib@1.0.0/c.js")}},
        "root": {"type": "element", "tag": "div", "children": children},
    })
}

/// A place with a library in its cache.
struct Shown {
    place: Place,
    cdn: Cdn,
}

impl Shown {
    fn new() -> Self {
        let (place, cdn) = (Place::new(), Cdn::start());
        cdn.serve(&format!("{AT}lib@1.0.0/c.js"), LIBRARY);
        cdn.serve(&format!("{AT}bad@1.0.0/c.js"), "throw new Error('not today')");
        Self { place, cdn }
    }

    fn run(&self, text: &str, more: &[&str]) -> Ran {
        self.run_as("trusted", text, more)
    }

    fn run_as(&self, profile: &str, text: &str, more: &[&str]) -> Ran {
        let file = self.place.path("components.json");
        std::fs::write(&file, text).unwrap();
        let file = file.display().to_string();
        let arguments = ["ui", "render-plan", &file, "--profile", profile];
        self.place.run(&[&arguments[..], more].concat())
    }

    fn pinned(&self, plan: &Value, more: &[&str]) -> Ran {
        let pinned = self.cdn.pin(&self.place, plan, &PinOptions::default()).unwrap();
        self.run(&pinned.text, more)
    }
}

#[test]
fn e2e_what_components_make_takes_their_place() {
    let all = Shown::new();
    let check = |name: &str, want: &str| {
        let ran = all.pinned(&plan(vec![component(name, "in {{state.name}}")]), &[]);
        assert_eq!(ran.stdout.trim_end(), format!("<div>{want}</div>"), "{name}: {ran:?}");
        assert_eq!(ran.status, Some(0), "{ran:?}");
    };
    check("default", "<section>Ada number 3 in Ada</section>");
    check("words", "hello Ada");
    check(
        "list",
        "<div data-plan-renderify-fragment=\"\">a<div data-plan-renderify-fragment=\"\">1b</div></div>",
    );
    // A component in a component gets what that one made.
    let inner = component("words", "");
    let mut outer = component("default", "");
    outer["children"] = json!([inner]);
    let ran = all.pinned(&plan(vec![outer]), &[]);
    assert_eq!(ran.stdout.trim_end(), "<div><section>Ada number 3 hello Ada</section></div>");
    // What one makes may hold another.
    let made = json!({"type": "component", "module": "lib", "exportName": "nested", "props": {"of": "words"}});
    let ran = all.pinned(&plan(vec![made]), &[]);
    assert_eq!(ran.stdout.trim_end(), "<div>hello Ada</div>", "{ran:?}");
    // Beside a source, in what that makes.
    let mut plan = plan(vec![]);
    // What code will make is not known when it is pinned.
    plan["imports"] = json!(["lib"]);
    plan["source"] = json!({"language": "js", "code":
        "export default () => ({ type: 'component', module: 'lib', exportName: 'words' })"});
    let ran = all.pinned(&plan, &["--json"]).expect_status(0).last();
    assert_eq!(ran["markup"], "hello Ada", "{ran}");
    assert_eq!(ran["script"]["components"]["called"], 1, "{ran}");
}

#[test]
fn e2e_a_component_that_fails_leaves_its_children_and_the_others() {
    let all = Shown::new();
    for (name, code, why) in [
        ("throws", "script_failed", "on purpose"),
        ("nothing", "script_output_invalid", "no node"),
        ("value", "script_export_missing", "no function"),
        ("missing", "script_export_missing", "no function"),
        ("nested", "plan_component_limit", "8 times"),
    ] {
        let plan = plan(vec![component(name, "child"), component("words", "")]);
        let ran = all.pinned(&plan, &["--json"]).expect_status(0);
        let shown = ran.last();
        let markup = shown["markup"].as_str().unwrap();
        assert!(markup.contains("data-glasshouse-missing-module=\"lib\""), "{name}: {markup}");
        assert!(markup.ends_with("hello Ada</div>"), "{name}: {markup}");
        assert!(name == "nested" || markup.contains(">child<"), "{name}: {markup}");
        let faults = &shown["script"]["components"]["faults"];
        assert_eq!(faults[0]["code"], code, "{name}: {shown}");
        assert!(faults[0]["why"].as_str().unwrap().contains(why), "{name}: {faults}");
        assert!(ran.stderr.contains(code), "{name}: {ran:?}");
    }
}

#[test]
fn e2e_components_are_counted_timed_and_checked() {
    let all = Shown::new();
    let mut few = plan((0..5).map(|_| component("words", "-")).collect());
    few["capabilities"] = json!({"maxComponentInvocations": 2});
    let shown = all.pinned(&few, &["--json"]).expect_status(0).last();
    assert_eq!(shown["script"]["components"]["called"], 2, "{shown}");
    assert_eq!(shown["script"]["components"]["fault_count"], 3, "{shown}");
    let markup = shown["markup"].as_str().unwrap();
    assert!(markup.starts_with("<div>hello Adahello Ada<div"), "{markup}");

    let begun = Instant::now();
    let mut endless = plan(vec![component("loops", "child")]);
    endless["capabilities"] = json!({"maxExecutionMs": 300});
    let shown = all.pinned(&endless, &["--json"]).expect_status(0).last();
    assert_eq!(shown["script"]["limit"], "time", "{shown}");
    assert!(shown["markup"].as_str().unwrap().contains(">child<"), "{shown}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());

    // What it says of itself is bounded data, too.
    let shown =
        all.pinned(&plan(vec![component("forges", "")]), &["--json"]).expect_status(0).last();
    assert_eq!(shown["markup"], "<div></div>", "{shown}");
    assert_eq!(shown["script"]["components"]["fault_count"], 0, "{shown}");

    // What a component makes is a stranger's word, like what a model writes.
    let ran = all.pinned(&plan(vec![component("script", "")]), &[]).expect_status(3);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("script"), "{ran:?}");
}

/// The failure: a component changed how objects become text, and the record said that nothing was called, so that its limit was none. What
/// calls components counted beside them, in the same realm. Now: calls are counted outside of it, and the answer is of objects that
/// have no prototype.
#[test]
fn e2e_a_component_does_not_forge_the_record_of_its_run() {
    let all = Shown::new();
    let nested = |name: &str| json!({"type": "component", "module": "lib", "exportName": name, "props": {"of": name}});
    for (name, called, limited) in [("uncounts", 4, true), ("unlists", 3, false)] {
        let mut plan = plan((0..3).map(|_| nested(name)).collect());
        plan["capabilities"] = json!({"maxComponentInvocations": 4});
        let shown = all.pinned(&plan, &["--json"]).expect_status(0).last();
        let told = &shown["script"]["components"];
        assert_eq!(told["called"], called, "{name}: {shown}");
        let is_limited = told["faults"][0]["code"] == "plan_component_limit";
        assert_eq!(is_limited, limited, "{name}: {shown}");
    }
    // A text of the state that a component shows is no template.
    let mut shows = plan(vec![
        json!({"type": "component", "module": "lib", "exportName": "words",
        "props": {"title": "{{state.name}}"}}),
        json!({"type": "text", "value": " {{state.n}}"}),
    ]);
    shows["state"] = json!({"initial": {"name": "{{state.secret}}", "secret": "SECRET", "n": 3}});
    let shown = all.pinned(&shows, &["--json"]).expect_status(0).last();
    assert_eq!(shown["markup"], "<div>hello {{state.secret}} 3</div>", "{shown}");
}

#[test]
fn e2e_imports_are_run_where_they_are_locked() {
    let all = Shown::new();
    let with = |imports: Value| {
        let mut plan = plan(vec![json!({"type": "text", "value": "own"})]);
        plan["imports"] = imports;
        plan
    };
    let (good, bad) = (format!("http://{AT}lib@1.0.0/c.js"), format!("http://{AT}bad@1.0.0/c.js"));
    let shown = all.pinned(&with(json!([good])), &["--json"]).expect_status(0).last();
    assert_eq!(shown["markup"], "<div>own</div>");
    assert_eq!(shown["notes"], json!([]), "{shown}");
    assert_eq!(shown["script"]["components"]["fault_count"], 0, "{shown}");
    let shown = all.pinned(&with(json!([bad, good])), &["--json"]).expect_status(0).last();
    let faults = &shown["script"]["components"]["faults"];
    assert_eq!((&faults[0]["module"], &faults[0]["code"]), (&json!(bad), &json!("script_failed")));
    assert!(faults[0]["why"].as_str().unwrap().contains("not today"), "{faults}");
    // What is not locked is named and not run, and nothing is started for it.
    let shown = all.run(&with(json!([good])).to_string(), &["--json"]).expect_status(0).last();
    assert_eq!(shown["script"], Value::Null, "{shown}");
    assert_eq!(shown["notes"][0]["code"], "plan_import_unresolved", "{shown}");
    let unlocked = plan(vec![component("words", "child")]);
    let shown = all.run(&unlocked.to_string(), &["--json"]).expect_status(0).last();
    assert_eq!(shown["script"], Value::Null, "{shown}");
    assert!(shown["markup"].as_str().unwrap().contains(">child<"), "{shown}");
    // Locked, and not here: of the others nothing is lost.
    let pinned =
        all.cdn.pin(&all.place, &with(json!([bad, good])), &PinOptions::default()).unwrap();
    let mut both = with(json!([bad, good]));
    both["root"] = component("words", "child");
    let both = all.cdn.pin(&all.place, &both, &PinOptions::default()).unwrap();
    let elsewhere = Shown::new();
    let shown = elsewhere.run(&pinned.text, &["--json"]).expect_status(0).last();
    let faults = &shown["script"]["components"]["faults"];
    assert_eq!(faults[0]["code"], "script_module_unavailable", "{shown}");
    elsewhere.cdn.pin(&elsewhere.place, &with(json!([good])), &PinOptions::default()).unwrap();
    let shown = elsewhere.run(&both.text, &["--json"]).expect_status(0).last();
    let components = &shown["script"]["components"];
    assert_eq!(shown["markup"], "hello Ada", "{shown}");
    assert_eq!(components["fault_count"], 1, "{shown}");
    assert_eq!(components["faults"][0]["module"], bad, "{shown}");
    assert_eq!(components["faults"][0]["code"], "script_module_unavailable", "{shown}");
}

/// A module of a plan is as much code as its source: what is locked is not run for that.
#[test]
fn e2e_modules_run_only_where_a_profile_accepts_code() {
    let all = Shown::new();
    let mut plan = plan(vec![component("words", "child")]);
    plan["imports"] = json!([format!("http://{AT}lib@1.0.0/c.js")]);
    let pinned = all.cdn.pin(&all.place, &plan, &PinOptions::default()).unwrap();
    let text = pinned.text.replace("http://", "https://");
    for (profile, runs) in
        [("strict", false), ("balanced", false), ("trusted", true), ("relaxed", true)]
    {
        for more in [&["--json"][..], &["--json", "--no-register"]] {
            let shown = all.run_as(profile, &text, more).expect_status(0).last();
            // Only what is registered has a record.
            let is_recorded = runs && more.len() == 1;
            let markup = shown["markup"].as_str().unwrap();
            assert_eq!(markup.contains("hello Ada"), runs, "{profile}: {shown}");
            assert_eq!(markup.contains(">child<"), !runs, "{profile}: {shown}");
            assert_eq!(shown["script"].is_null(), !is_recorded, "{profile}: {shown}");
            for code in ["plan_import_unresolved", "plan_component_unresolved"] {
                let noted = shown["notes"].to_string().contains(code);
                assert_eq!(noted, !runs, "{profile}: {code}: {shown}");
            }
        }
    }
}

/// Whoever tells a fault, the record has room for so much of it, and for no secret.
#[test]
fn e2e_faults_of_components_are_cut_and_masked() {
    const KEY: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let all = Shown::new();
    let shown = all.pinned(&plan(vec![component("tells", "")]), &["--json"]).expect_status(0);
    let told = shown.last()["script"]["components"]["faults"].to_string();
    assert!(told.contains("script_failed") && !told.contains(KEY), "{told}");
    // What the kernel tells itself.
    let path = format!("{AT}lib@1.0.0/{KEY}/{}.js", "x".repeat(600));
    all.cdn.serve(&path, LIBRARY);
    let mut plan = plan(vec![json!({"type": "component", "module": format!("http://{path}")})]);
    plan["moduleManifest"] = json!({});
    let pinned = all.cdn.pin(&all.place, &plan, &PinOptions::default()).unwrap();
    std::fs::remove_dir_all(all.place.home().join("cache/modules")).unwrap();
    let shown = all.run(&pinned.text, &["--json"]).expect_status(0).last();
    let faults = &shown["script"]["components"]["faults"];
    assert_eq!(faults[0]["code"], "script_module_unavailable", "{shown}");
    for key in ["module", "why"] {
        let text = faults[0][key].as_str().unwrap();
        assert!(text.len() <= 512 && text.contains("lib@1.0.0"), "{key}: {text}");
        assert!(!text.contains(KEY), "{key}: {text}");
    }
}

/// What ran is told also of a run that fails for what it made, and is made again with its clock.
#[test]
fn e2e_law_7_a_run_that_fails_after_its_components_is_replayed() {
    let all = Shown::new();
    let source = |name: &str| {
        json!({"language": "js", "code":
            format!("export default () => ({{ type: 'component', module: 'lib', exportName: '{name}' }})")})
    };
    for (name, status) in [("late", 3), ("broken", 2)] {
        for has_source in [false, true] {
            let mut plan = plan(vec![component(name, "")]);
            if has_source {
                plan["source"] = source(name);
                plan["imports"] = json!(["lib"]);
            }
            let pinned = all.cdn.pin(&all.place, &plan, &PinOptions::default()).unwrap();
            let (ran, was) = run(&all.place, &pinned.text);
            assert_eq!(ran.status, Some(status), "{name} {has_source}: {ran:?}");
            let events = events(&all.place.log());
            let refused = events.iter().rfind(|it| *it.kind() == Kind::PlanRefused).unwrap();
            let script = &refused.body["run"]["script"];
            assert_eq!(script["components"]["called"], 1, "{name} {has_source}: {refused:?}");
            let replayed = replay(&all.place, &was);
            assert_eq!(replayed["equal"], true, "{name} {has_source}: {replayed}");
        }
    }
}

#[test]
fn e2e_law_7_components_are_replayed() {
    let all = Shown::new();
    let plan = plan(vec![component("chance", ""), component("throws", "child")]);
    let shown = all.pinned(&plan, &["--json"]).expect_status(0).last();
    let run = shown["run"].to_string();
    let replayed = all.place.run(&["ui", "replay", &run, "--json"]).expect_status(0).last();
    assert_eq!(replayed["equal"], true, "{replayed}");
    // Without a record the same modules run.
    let markup = |ran: Ran| ran.expect_status(0).stdout.replace(char::is_numeric, "");
    let pinned = all.cdn.pin(&all.place, &plan, &PinOptions::default()).unwrap();
    let bare = all.run(&pinned.text, &["--no-register"]);
    assert!(bare.stderr.contains("on purpose"), "{bare:?}");
    assert_eq!(markup(bare), markup(all.run(&pinned.text, &[])));
}
