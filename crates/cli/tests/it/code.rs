//! Code in plans, end to end: what a person sees, and what the log keeps.

use std::time::{Duration, Instant};

use glasshouse_model::Kind;
use serde_json::{Value, json};

use crate::harness::{Place, Ran, below, count};

/// Writes a plan whose source is this, under the specification and a manifest for what is carried.
pub(crate) fn plan(place: &Place, id: &str, source: &Value, more: &Value) -> String {
    let preact = "https://ga.jspm.io/npm:preact@10.28.3/";
    let mut plan = json!({
        "specVersion": "runtime-plan/v1", "id": id, "version": 1,
        "capabilities": {"domWrite": true},
        "moduleManifest": {
            "preact": {"resolvedUrl": format!("{preact}dist/preact.module.js"), "version": "10.28.3"},
            "preact/hooks":
                {"resolvedUrl": format!("{preact}hooks/dist/hooks.module.js"), "version": "10.28.3"},
        },
        "root": {"type": "text", "value": "own root"},
        "source": source,
    });
    for (key, value) in more.as_object().unwrap() {
        plan[key] = value.clone();
    }
    let path = place.path(&format!("{id}.json"));
    std::fs::write(&path, plan.to_string()).unwrap();
    path.display().to_string()
}

pub(crate) fn show(place: &Place, plan: &str, profile: &str) -> Ran {
    place.run(&["ui", "render-plan", plan, "--profile", profile, "--json"])
}

/// The counter of the format's reference.
fn counter() -> Value {
    json!({
        "code": "import { useState } from 'preact/hooks';\nexport default function Counter() {\n  \
            const [count, setCount] = useState(0);\n  \
            return <button onClick={() => setCount(c => c+1)}>Count: {count}</button>;\n}",
        "language": "tsx", "runtime": "preact",
    })
}

#[test]
fn e2e_the_counter_of_the_reference_renders_under_trusted_and_only_there() {
    let place = Place::new();
    let plan = plan(&place, "counter", &counter(), &json!({}));
    let run = show(&place, &plan, "trusted").expect_status(0).last();
    assert_eq!(run["markup"], "<button>Count: 0</button>", "{run}");
    let script = &run["script"];
    assert_eq!(
        (&script["requested"], &script["effective"]),
        (&json!("standard"), &json!("isolated-vm"))
    );
    assert!(script["isolation"].as_str().unwrap().starts_with("native:"), "{script}");
    for profile in ["strict", "balanced"] {
        let refused = place.run(&["ui", "render-plan", &plan, "--profile", profile]);
        let refused = refused.expect_status(3);
        assert_eq!(refused.stdout, "", "{profile}");
        assert!(refused.stderr.contains("plan_source_denied"), "{refused:?}");
    }
    let replayed = place.run(&["ui", "replay", &run["run"].to_string(), "--json"]);
    assert_eq!(replayed.expect_status(0).last()["equal"], true);
    place.run(&["audit", "verify", "--json"]).expect_status(0);
}

/// The complete example of the reference under the profile that runs code: as it is, and with the counter of the same page as its
/// source.
#[test]
fn e2e_the_complete_example_of_the_reference_runs_under_trusted() {
    let place = Place::new();
    let guide = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/plans");
    let example = guide.join("complete.json").display().to_string();
    let shown = show(&place, &example, "trusted").expect_status(0).last();
    assert!(shown["markup"].as_str().unwrap().contains("Count: 0"), "{shown}");
    let event = ["ui", "event", "analytics-dashboard", "increment", "--json"];
    let shown = place.run(&event).expect_status(0).last();
    assert!(shown["markup"].as_str().unwrap().contains("Count: 1"), "{shown}");
    let mut whole: Value =
        serde_json::from_str(&std::fs::read_to_string(example).unwrap()).unwrap();
    whole["id"] = json!("analytics-counter");
    whole["source"] = counter();
    let preact = "https://ga.jspm.io/npm:preact@10.28.3/hooks/dist/hooks.module.js";
    whole["moduleManifest"]["preact/hooks"] = json!({"resolvedUrl": preact, "version": "10.28.3"});
    let file = place.path("whole.json");
    std::fs::write(&file, whole.to_string()).unwrap();
    let file = file.display().to_string();
    let shown = show(&place, &file, "trusted").expect_status(0).last();
    assert_eq!(shown["markup"], "<button>Count: 0</button>", "{shown}");
    assert_eq!(shown["script"]["effective"], "isolated-vm", "{shown}");
    for profile in ["balanced", "strict"] {
        let ran = show(&place, &file, profile).expect_status(3);
        assert!(ran.stdout.contains("plan_source_denied"), "{profile}: {ran:?}");
        assert!(!ran.stdout.contains("Count: 0"), "{profile}: {ran:?}");
    }
}

/// The failure: what code threw reached the terminal as it was, with what a terminal obeys in it.
/// Now: it is one line of text.
#[test]
fn e2e_what_code_throws_cannot_write_to_the_terminal() {
    let place = Place::new();
    let thrown = r#"export default () => { throw "\u001b]0;title\u0007\u001b[2J\nforged line" }"#;
    let source = json!({ "code": thrown, "language": "js", "runtime": "renderify" });
    let plan = plan(&place, "throws", &source, &json!({}));
    let ran = place.run(&["ui", "render-plan", &plan, "--profile", "trusted"]).expect_status(0);
    assert_eq!(ran.stdout, "own root\n");
    assert!(ran.stderr.contains("forged line"), "the control: {ran:?}");
    assert!(!ran.stderr.contains(|c: char| c.is_control() && c != '\n'), "{ran:?}");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{ran:?}");
    assert!(lines[1].starts_with("  fix: "), "{ran:?}");
}

#[test]
fn e2e_code_sees_the_state_and_an_event_runs_it_again() {
    let place = Place::new();
    let source = json!({
        "code": "export default ({ state, event }) => <p onClick='add'>{state.n} {event ? event.type : 'first'} \
            {Math.random()} {Date.now()}</p>",
        "language": "tsx",
    });
    let state = json!({"state": {"initial": {"n": 1},
        "transitions": {"add": [{"type": "increment", "path": "n"}]}}});
    let plan = plan(&place, "state", &source, &state);
    let first = show(&place, &plan, "trusted").expect_status(0).last();
    assert!(first["markup"].as_str().unwrap().contains(">1 first "), "{first}");
    let second = place.run(&["ui", "event", "state", "add", "--json"]).expect_status(0).last();
    assert!(second["markup"].as_str().unwrap().contains(">2 add "), "{second}");
    for run in [&first, &second] {
        let replayed = place.run(&["ui", "replay", &run["run"].to_string(), "--json"]);
        assert_eq!(replayed.expect_status(0).last()["equal"], true);
    }
}

#[test]
fn e2e_what_code_makes_is_checked_like_any_plan() {
    let place = Place::new();
    for (id, code, want) in [
        ("tag", "export default () => <script>alert(1)</script>", "plan_tag_denied"),
        ("frame", "export default () => <iframe src='https://x.example'/>", "plan_tag_denied"),
        ("url", "export default () => <a href='javascript:alert(1)'>x</a>", "plan_url_denied"),
        ("handler", "export default () => <p onclick='alert(1)'>x</p>", "plan_"),
        (
            "style",
            "export default () => <p style='background: url(https://x.example)'>x</p>",
            "plan_style_denied",
        ),
        (
            "deep",
            "export default () => { let n = <i/>; for (let d = 0; d < 20; d += 1) n = <b>{n}</b>; return n }",
            "plan_too_deep",
        ),
        ("long", "export default () => <p>{'x'.repeat(600000)}</p>", "plan_too_large"),
        (
            "many",
            "export default () => <div>{Array.from({length: 2000}, () => <p>a</p>)}</div>",
            "plan_too_large",
        ),
    ] {
        for runtime in ["renderify", "preact"] {
            let source = json!({"code": code, "language": "tsx", "runtime": runtime});
            let plan = plan(&place, id, &source, &json!({}));
            let refused = place.run(&["ui", "render-plan", &plan, "--profile", "trusted"]);
            let refused = refused.expect_status(3);
            assert_eq!(refused.stdout, "", "{id} {runtime}");
            assert!(refused.stderr.contains(want), "{id} {runtime}: {}", refused.stderr);
            // Whose it is, and no place in a text that nobody wrote.
            assert!(refused.stderr.contains("the plan's code made"), "{id}: {}", refused.stderr);
            assert!(!refused.stderr.contains("  line: "), "{id}: {}", refused.stderr);
        }
    }
}

/// The failure: code put the state into an image's address, and a browser sent it to a listed host, with no click. What code made
/// was not taken for what is filled in. Now: such an address is left out with a remark, in both runtimes and in a page.
#[test]
fn e2e_what_code_reads_does_not_leave_by_an_address_that_it_makes() {
    let place = Place::new();
    let state = json!({"state": {"initial": {"note": "{{state.secret}}", "secret": "SECRET"}, "transitions":
        {"save": [{"type": "set", "path": "note", "value": {"$from": "event.payload.note"}}]}}});
    for runtime in ["renderify", "preact"] {
        let code = "export default ({ state }) => <p title={state.note}>{state.note}
            <img alt='' src={'https://ga.jspm.io/npm:x/?q=' + encodeURIComponent(state.note)}/>
            <img alt='' src='https://ga.jspm.io/npm:x/logo.png'/></p>";
        let source = json!({"code": code, "language": "tsx", "runtime": runtime});
        let file = plan(&place, runtime, &source, &state);
        let shown = show(&place, &file, "trusted").expect_status(0).last();
        // What it shows of the state is no template either.
        assert!(!shown["markup"].as_str().unwrap().contains("SECRET"), "{runtime}: {shown}");
        let event = ["ui", "event", runtime, "save", r#"{"note":"my password"}"#, "--json"];
        let shown = place.run(&event).expect_status(0).last();
        let markup = shown["markup"].as_str().unwrap();
        assert!(markup.contains("logo.png") && !markup.contains("?q="), "{runtime}: {markup}");
        assert!(shown["notes"].to_string().contains("plan_url_denied"), "{runtime}: {shown}");
        let page = place.run(&["ui", "render-plan", &file, "--profile", "trusted", "--page"]);
        assert!(!page.expect_status(0).stdout.contains("?q="), "{runtime}");
    }
}

/// The failure: `...reached its limit of time: ` and `exports no default: ` ended in a colon with nothing behind it. An empty reason was
/// written like any other. Now: there is none.
#[test]
fn e2e_what_is_told_of_code_ends_in_words() {
    let place = Place::new();
    let asked = json!({"capabilities": {"maxExecutionMs": 100}});
    for (code, want) in [
        ("for (;;); export default 1", "limit of time, 100 ms"),
        ("export const other = 1", "exports no `default`"),
        (
            "export default () => {\n throw new Error('on purpose') }",
            "at line 2, column 12: Error: on purpose",
        ),
    ] {
        let file = plan(&place, "told", &json!({"code": code, "language": "js"}), &asked);
        let ran = place.run(&["ui", "render-plan", &file, "--profile", "trusted"]).expect_status(0);
        let line = ran.stderr.lines().find(|line| line.contains(want));
        let line = line.unwrap_or_else(|| panic!("{code}: {ran:?}"));
        assert!(!line.trim_end().ends_with(':'), "{line:?}");
        assert!(ran.stderr.contains("\n  fix: "), "{ran:?}");
    }
}

#[test]
fn e2e_a_source_that_may_not_run_is_refused_and_nothing_is_shown() {
    let place = Place::new();
    for (id, code, lane, want) in [
        ("syntax", "export default <p>", "isolated-vm", "script_source_invalid"),
        ("reach", "export default () => document.title", "isolated-vm", "script_source_denied"),
        ("name", "export default () => <Missing/>", "isolated-vm", "script_name_unknown"),
        ("worker", "export default 1", "sandbox-worker", "plan_lane_unavailable"),
        ("iframe", "export default 1", "sandbox-iframe", "plan_lane_unavailable"),
        ("realm", "export default 1", "sandbox-shadowrealm", "plan_lane_unavailable"),
    ] {
        let source = json!({"code": code, "language": "tsx"});
        let lane = json!({"capabilities": {"executionProfile": lane}});
        let plan = plan(&place, id, &source, &lane);
        let refused = place.run(&["ui", "render-plan", &plan, "--profile", "trusted"]);
        assert!(matches!(refused.status, Some(2 | 3)), "{id}: {refused:?}");
        assert_eq!(refused.stdout, "", "{id}");
        assert!(refused.stderr.contains(want), "{id}: {}", refused.stderr);
    }
}

/// The cases of the baseline in which code runs, by their names there.
#[test]
fn e2e_code_does_what_the_baseline_says() {
    let place = Place::new();
    for (id, source, more, markup, note) in [
        ("exec-source-number", json!({"code": "export default 42"}), json!({}), "42", ""),
        (
            "exec-source-null-falls-back-to-root",
            json!({"code": "export default () => null"}),
            json!({"root": {"type": "text", "value": "root"}}),
            "root",
            "script_output_invalid",
        ),
        (
            "exec-source-throws-falls-back",
            json!({"code": "export default () => { throw new Error('x') }"}),
            json!({"root": {"type": "text", "value": "root"}}),
            "root",
            "script_failed",
        ),
        (
            "exec-source-missing-export",
            json!({"code": "export default 'd'", "exportName": "Other"}),
            json!({}),
            "d",
            "its default is shown",
        ),
        (
            "exec-source-output-is-interpolated",
            json!({"code": "export default '{{state.n}}'"}),
            json!({"state": {"initial": {"n": 9}}}),
            "9",
            "",
        ),
        (
            "g1-endless",
            json!({"code": "export default () => { for (;;) {} }"}),
            json!({"capabilities": {"maxExecutionMs": 100}}),
            "own root",
            "script_limit",
        ),
    ] {
        let mut source = source;
        source["language"] = json!("js");
        let plan = plan(&place, id, &source, &more);
        let ran = place.run(&["ui", "render-plan", &plan, "--profile", "trusted"]).expect_status(0);
        assert_eq!(ran.stdout.trim_end(), markup, "{id}");
        assert!(
            ran.stderr.contains(note) && ran.stderr.is_empty() == note.is_empty(),
            "{id}: {ran:?}"
        );
    }
}

/// A plan whose code never looks up.
fn endless(place: &Place) -> String {
    let code = "export default () => { const s = 'a'.repeat(3e7); let n = 0; for (;;) n += s.indexOf('b') }";
    let source = json!({ "code": code, "language": "js", "runtime": "renderify" });
    plan(place, "endless", &source, &json!({"capabilities": {"maxExecutionMs": 30_000}}))
}

/// Presses Ctrl-C when the code of a plan is under way. The command ends as a stopped one, nothing of it is
/// left, and what it told comes back.
fn interrupted(place: &Place, arguments: &[&str]) -> String {
    let mut running = place.spawn(place.command(arguments));
    let begun = Instant::now();
    // The code is under way when a process below has worked for a while.
    while !below(running.id()).iter().any(|(_, hundredths)| *hundredths > 20) {
        assert!(begun.elapsed() < Duration::from_secs(20), "the code never began");
        std::thread::sleep(Duration::from_millis(20));
    }
    let processes = below(running.id());
    let pressed = Instant::now();
    running.interrupt();
    assert_eq!(running.wait(Duration::from_secs(10)), Some(130), "{arguments:?}");
    assert!(pressed.elapsed() < Duration::from_secs(5), "{:?}", pressed.elapsed());
    for (process, _) in processes {
        assert!(!std::path::Path::new(&format!("/proc/{process}")).exists(), "{process} is left");
    }
    let told = std::fs::read_to_string(place.path("stdout")).unwrap();
    assert!(told.contains("\"code\":\"cancelled\""), "{arguments:?}: {told}");
    told
}

/// Ctrl-C reaches code that never looks up: its process is killed, nothing is shown, and the record says that
/// the run was stopped.
#[test]
fn e2e_ctrl_c_ends_a_plan_whose_code_does_not() {
    let place = Place::new();
    let file = endless(&place);
    let told = interrupted(&place, &["ui", "render-plan", &file, "--profile", "trusted", "--json"]);
    assert!(!told.contains("own root"), "{told}");
    let (_, events) = place.events();
    assert_eq!(count(&events, &Kind::PlanRefused), 1);
    assert_eq!(count(&events, &Kind::PlanRegistered), 0);
    let refused = events.iter().find(|event| *event.kind() == Kind::PlanRefused).unwrap();
    assert_eq!(refused.body["run"]["code"], "cancelled", "{:?}", refused.body);
    // The place in the quota is free again, and the next plan runs.
    let quick = json!({ "code": "export default 'x'", "language": "js" });
    let quick = plan(&place, "quick", &quick, &json!({}));
    assert_eq!(show(&place, &quick, "trusted").expect_status(0).last()["markup"], "x");
    let history = place.run(&["ui", "history", "--json"]).expect_status(0).last();
    assert_eq!(history["usage"]["running"], json!({}), "{history}");
}

/// The same where other code takes part, and where nothing is recorded.
#[test]
fn e2e_ctrl_c_ends_code_beside_plugins_and_in_a_stream() {
    let place = Place::new();
    let file = endless(&place);
    let plugin = place.path("plugin.ts");
    std::fs::write(&plugin, "export const beforeRuntime = ({ payload }) => payload;").unwrap();
    let plugin = plugin.display().to_string();
    let render =
        ["ui", "render-plan", &file, "--profile", "trusted", "--plugin", &plugin, "--json"];
    let told = interrupted(&place, &render);
    assert!(!told.contains("own root"), "{told}");
    let (_, events) = place.events();
    let refused = events.iter().find(|event| *event.kind() == Kind::PlanRefused).unwrap();
    assert_eq!(refused.body["run"]["code"], "cancelled", "{:?}", refused.body);
    assert_eq!(refused.body["run"]["hooks"][0]["hook"], "beforeRuntime", "{:?}", refused.body);
    interrupted(&place, &["ui", "stream", &file, "--profile", "trusted", "--json"]);
    // Of a stream the decision is recorded, and nothing else.
    let now = place.events().1;
    assert_eq!(now.len(), events.len() + 1);
    assert_eq!(
        (now.last().unwrap().kind(), &now.last().unwrap().body["subject"]),
        (&Kind::PolicyDecided, &json!("endless"))
    );
}

/// The failure: what compiles markup in a page needs `unsafe-eval`. Here it is compiled before there is a
/// page, and the page allows no script at all.
#[test]
fn e2e_d4_a_page_of_compiled_markup_allows_no_script() {
    let place = Place::new();
    let plan = plan(&place, "page", &counter(), &json!({}));
    let ran = place.run(&["ui", "render-plan", &plan, "--profile", "trusted", "--page"]);
    let page = ran.expect_status(0).stdout;
    assert!(page.contains("Count: 0"), "{page}");
    assert!(page.contains("default-src 'none'"), "{page}");
    for word in ["<script", "unsafe-eval", "script-src", "useState"] {
        assert!(!page.contains(word), "{word}: {page}");
    }
}

#[test]
fn e2e_a_check_compiles_and_tells_lines_and_columns() {
    let place = Place::new();
    for (code, want) in [
        ("export default () =>\n  <p>{missing}</p>", "2:7: `missing` is neither defined"),
        ("export default <p>", "1:"),
        ("export default () => eval('1')", "1:22: `eval` makes code out of text"),
    ] {
        let source = json!({"code": code, "language": "tsx"});
        let plan = plan(&place, "faulty", &source, &json!({}));
        // The profile's own words come first where they find the same.
        let report = place.run(&["ui", "check", &plan, "--profile", "relaxed", "--json"]);
        let report = report.expect_status(3).last();
        let message = report["issues"][0]["message"].as_str().unwrap();
        assert!(message.starts_with(want), "{code}: {report}");
        assert_eq!(report["issues"][0]["pointer"], "/source/code");
    }
    let good = plan(&place, "good", &counter(), &json!({}));
    let report = place.run(&["ui", "check", &good, "--profile", "trusted", "--json"]);
    assert_eq!(report.expect_status(0).last()["safe"], true);
    let probed = place.run(&["ui", "probe-plan", &good, "--profile", "trusted", "--json"]);
    let probed = probed.expect_status(0).last();
    assert_eq!((&probed["ok"], &probed["modules"]), (&json!(true), &json!([])), "{probed}");
}

#[test]
fn e2e_a_streamed_plan_with_source_ends_with_what_its_code_makes() {
    let place = Place::new();
    for (name, code, status, markup) in [
        ("made", "export default () => <b>made</b>", 0, "<b>made</b>"),
        ("throws", "export default () => { throw new Error('x') }", 0, "own root"),
        ("faulty", "export default () => <b>", 3, ""),
        ("hostile", "export default () => <script>1</script>", 3, ""),
    ] {
        let source = json!({"code": code, "language": "tsx"});
        let plan = plan(&place, name, &source, &json!({}));
        let ran = place.run(&["ui", "stream", &plan, "--profile", "trusted"]);
        assert_eq!((ran.status, ran.stdout.trim_end()), (Some(status), markup), "{name}: {ran:?}");
        let ran = place.run(&["ui", "stream", &plan, "--profile", "trusted", "--json"]);
        let last = ran.last();
        assert_eq!(last["end"], if status == 0 { "complete" } else { "refused" }, "{name}: {last}");
        assert_eq!(last["script"]["effective"].is_string(), status == 0, "{name}: {last}");
    }
}

/// Writes a plan for a browser.
fn bundled(place: &Place, plan: &Value) -> Ran {
    let file = place.path("bundled.json");
    std::fs::write(&file, plan.to_string()).unwrap();
    place.run(&["ui", "bundle", &file.display().to_string(), "--profile", "trusted", "--json"])
}

fn for_a_browser(lane: &str, runtime: &str, code: &str) -> Value {
    json!({"specVersion": "runtime-plan/v1", "id": "b", "version": 1,
        "capabilities": {"executionProfile": lane, "maxExecutionMs": 700},
        "state": {"initial": {"n": 2}}, "root": {"type": "text", "value": "own"},
        "moduleManifest": {"preact/hooks": {"resolvedUrl":
            "https://ga.jspm.io/npm:preact@10.28.3/hooks/dist/hooks.module.js"}},
        "source": {"language": "tsx", "runtime": runtime, "code": code}})
}

/// A source that makes its nodes once, and a component of Preact that goes on.
const ONCE: &str = "export default ({ state }) => <b>{state.n}</b>";
const COUNTER: &str = "import { useState } from 'preact/hooks'; export default () => {
    const [n, set] = useState(0); return <button onClick={() => set(n + 1)}>{n}</button> }";

/// What a browser's lane runs is written here, whole: it imports nothing and makes no code out of text.
#[test]
fn e2e_a_source_is_written_for_a_browser() {
    let place = Place::new();
    for lane in ["standard", "sandbox-worker", "sandbox-iframe"] {
        let told = bundled(&place, &for_a_browser(lane, "renderify", ONCE)).expect_status(0).last();
        assert_eq!(told["requested"], lane, "{told}");
        assert_eq!(told["task"]["input"]["state"]["n"], 2, "{told}");
        assert_eq!(told["limits"]["time_ms"], 700, "{told}");
        let text = told["code"].as_str().unwrap();
        let is_module = |line: &str| line.starts_with("import ") || line.starts_with("export ");
        assert!(!text.lines().any(is_module), "{text}");
        assert!(!text.contains("eval(") && !text.contains("new Function"), "{text}");
    }
    // Components of Preact stay alive in a frame, with what makes them.
    for (lane, runtime, live) in [
        ("standard", "preact", true),
        ("sandbox-iframe", "preact", true),
        ("standard", "renderify", false),
    ] {
        let code = if live { COUNTER } else { ONCE };
        let told = bundled(&place, &for_a_browser(lane, runtime, code)).expect_status(0).last();
        assert_eq!(told["live"].as_bool().unwrap_or(false), live, "{told}");
        assert_eq!(
            told["code"].as_str().unwrap().contains("stay(exports, \"glasshouse:mount\")"),
            live
        );
    }
}

/// What a browser could not run is refused where it would be written, with what would have to change.
#[test]
fn e2e_what_a_browser_cannot_run_is_not_written_for_it() {
    let place = Place::new();
    let at = "https://ga.jspm.io/npm:x@1.0.0";
    let with = |key: &str, value: Value| {
        let mut plan = for_a_browser("standard", "renderify", ONCE);
        plan[key] = value;
        plan
    };
    let mut still = for_a_browser("standard", "preact", COUNTER);
    still["capabilities"]["domWrite"] = json!(false);
    for (name, plan, want) in [
        (
            "a server's lane",
            for_a_browser("isolated-vm", "renderify", ONCE),
            "plan_lane_unavailable",
        ),
        ("Preact", for_a_browser("sandbox-worker", "preact", ONCE), "a worker has no page"),
        ("no page", still, "`capabilities.domWrite` is false"),
        (
            "a fault",
            for_a_browser("standard", "renderify", "export default ("),
            "script_source_invalid",
        ),
        (
            "a module",
            for_a_browser(
                "standard",
                "renderify",
                "import x from 'https://ga.jspm.io/npm:x@1.0.0'; export default x",
            ),
            "script_module_unlocked",
        ),
        (
            "await",
            for_a_browser("standard", "renderify", "const x = await 'x'; export default x"),
            "awaits outside of functions",
        ),
        ("imports", with("imports", json!([at])), "imports and components run on a server"),
        (
            "components",
            with("root", json!({"type": "component", "module": at})),
            "imports and components run on a server",
        ),
    ] {
        let ran = bundled(&place, &plan);
        assert!(matches!(ran.status, Some(2 | 3)), "{name}: {ran:?}");
        assert!(ran.last()["error"]["code"].is_string(), "{name}");
        assert!(ran.stdout.contains(want), "{name}: {ran:?}");
    }
}

/// A word is a name where the language says so: text, comments and names of the code's own are none, under a
/// profile that bans the names, too.
#[test]
fn e2e_g2_words_are_no_names() {
    let place = Place::new();
    let check = |language: &str, code: &str, want: Result<&str, &str>| {
        let plan = plan(&place, "words", &json!({"code": code, "language": language}), &json!({}));
        let also: &[&str] = if want.is_ok() { &["pin"] } else { &[] };
        for command in ["render-plan", "check"].iter().chain(also) {
            let ran = place.run(&["ui", command, &plan, "--profile", "trusted"]);
            let status = ran.status;
            match want {
                Ok(made) if *command == "render-plan" => {
                    assert_eq!((status, ran.stdout.trim_end()), (Some(0), made), "{code}: {ran:?}");
                }
                Ok(_) => assert_eq!(status, Some(0), "{command} {code}: {ran:?}"),
                Err(refused) => {
                    assert_eq!(status, Some(3), "{command} {code}: {ran:?}");
                    let told = format!("{}{}", ran.stdout, ran.stderr);
                    assert!(told.contains(refused), "{command} {code}: {ran:?}");
                }
            }
        }
    };
    check(
        "tsx",
        "export default <p>a WebSocket explained: eval(x)</p>",
        Ok("<p>a WebSocket explained: eval(x)</p>"),
    );
    check("tsx", "// never call eval(x)\nexport default <p>x</p>", Ok("<p>x</p>"));
    check("js", "const fetch = () => 'mine'; export default () => fetch()", Ok("mine"));
    check(
        "js",
        "/* new Function */ export default 'document.cookie, localStorage'",
        Ok("document.cookie, localStorage"),
    );
    check(
        "tsx",
        "export default <p>{new WebSocket('wss://x')}</p>",
        Err("`WebSocket` reaches the network"),
    );
    check("js", "export default () => eval('1')", Err("`eval` makes code out of text"));
    check("js", "export default () => localStorage.a", Err("script_source_denied"));
}
