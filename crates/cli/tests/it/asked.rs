//! What plans with code ask for, and what becomes of it: storage, timers, hosts, lanes, forms and links.

use serde_json::{Value, json};

use crate::code::{plan, show};
use crate::harness::Place;

/// Storage of browsers that a plan asks for is in memory and bounded, which is said; what it does not ask for is
/// refused where it is named, with its place, and no exception at start-up.
#[test]
fn e2e_h7_storage_is_in_memory_and_refused_where_it_is_not_asked_for() {
    let place = Place::new();
    let code = "const kept = localStorage.getItem('a');\nlocalStorage.setItem('a', 'b');
        let end = ''; try { localStorage.setItem('b', 'x'.repeat(6e6)) } catch (error) { end = error.name }
        localStorage.removeItem('a'); export default () => [kept, end, localStorage.length].join(' ')";
    let source = json!({"code": code, "language": "js"});
    let asked = json!({"capabilities": {"storage": ["localStorage"]}});
    let asking = plan(&place, "storage", &source, &asked);
    for _ in 0..2 {
        let ran = place.run(&["ui", "render-plan", &asking, "--profile", "relaxed", "--json"]);
        let run = ran.expect_status(0).last();
        assert_eq!(run["markup"], " QuotaExceededError 0", "{run}");
        assert_eq!(run["script"]["storage_in_memory"], true, "{run}");
    }
    let told = place.run(&["ui", "render-plan", &asking, "--profile", "relaxed"]).expect_status(0);
    assert!(told.stderr.contains("not durable"), "{told:?}");
    for profile in ["strict", "balanced"] {
        let refused = place.run(&["ui", "render-plan", &asking, "--profile", profile]);
        assert!(refused.expect_status(3).stderr.contains("plan_source_denied"), "{profile}");
    }
    let file = plan(&place, "storage", &source, &json!({}));
    let checked = place.run(&["ui", "check", &file, "--profile", "relaxed", "--json"]);
    let report = checked.expect_status(3).last();
    assert_eq!(report["issues"][0]["code"], "script_source_denied", "{report}");
    let message =
        "1:14: `localStorage` keeps data, and `capabilities.storage` of the plan does not name it";
    assert_eq!(report["issues"][0]["message"], message, "{report}");
}

/// What no lane grants is told where it is asked for, with the reason, and where code reaches for it.
#[test]
fn e2e_timers_and_hosts_are_granted_in_no_lane_and_that_is_told() {
    let place = Place::new();
    let asking = json!({"timers": true, "networkHosts": ["ga.jspm.io"]});
    for (asked, count) in [(asking.clone(), 2), (json!({"timers": false, "networkHosts": []}), 0)] {
        let source = json!({"code": "export default 'ran'", "language": "js"});
        let file = plan(&place, "asking", &source, &json!({"capabilities": asked}));
        let ran = place.run(&["ui", "render-plan", &file, "--profile", "trusted"]).expect_status(0);
        assert_eq!(ran.stdout.trim_end(), "ran");
        assert_eq!(ran.stderr.matches("plan_capability_ungranted").count(), count, "{ran:?}");
        let report = place.run(&["ui", "check", &file, "--profile", "trusted", "--json"]);
        let report = report.expect_status(0).last();
        let notes = report["notes"].as_array().map_or(0, Vec::len);
        assert_eq!((&report["safe"], notes), (&json!(true), count), "{report}");
        if count > 0 {
            let pointers = [&report["notes"][0]["pointer"], &report["notes"][1]["pointer"]];
            assert_eq!(pointers, ["/capabilities/timers", "/capabilities/networkHosts"]);
            for why in ["its clock stands", "nothing that it reads can leave"] {
                assert!(ran.stderr.contains(why), "{ran:?}");
            }
        }
    }
    for (code, want) in [
        (
            "export default () => setTimeout(() => 1, 9)",
            "`setTimeout` sets a timer, which no lane grants",
        ),
        (
            "export default () => requestAnimationFrame(() => 1)",
            "waits for a moment, which no lane grants",
        ),
        ("export default () => fetch('https://ga.jspm.io')", "`fetch` reaches the network"),
    ] {
        let source = json!({"code": code, "language": "js"});
        let file = plan(&place, "reaching", &source, &json!({"capabilities": asking}));
        let ran = place.run(&["ui", "render-plan", &file, "--profile", "trusted"]).expect_status(3);
        assert_eq!(ran.stdout, "", "{code}");
        assert!(ran.stderr.contains(want), "{code}: {ran:?}");
    }
}

/// Nothing that asks for less isolation is filtered in silence, and nothing is run instead.
#[test]
fn e2e_h8_less_isolation_is_refused_and_not_filtered() {
    let place = Place::new();
    let source = json!({"code": "export default 'ran'", "language": "js"});
    for lane in ["allow-scripts allow-same-origin", "none", "", "Isolated-VM", "sandbox-iframe"] {
        let asked = json!({"capabilities": {"executionProfile": lane}});
        let plan = plan(&place, "lane", &source, &asked);
        let ran = place.run(&["ui", "render-plan", &plan, "--profile", "relaxed"]);
        assert!(matches!(ran.status, Some(2 | 3)), "{lane}: {ran:?}");
        assert_eq!(ran.stdout, "", "{lane}");
    }
    let control = plan(&place, "lane", &source, &json!({}));
    let ran = place.run(&["ui", "render-plan", &control, "--profile", "relaxed"]).expect_status(0);
    assert_eq!(ran.stdout.trim_end(), "ran");
}

/// What a tight sandbox must still do: a form, a link and a chart, in each profile that accepts them.
#[test]
fn e2e_h9_forms_links_and_charts_work_in_each_profile() {
    let place = Place::new();
    let text = |value: &str| json!({"type": "text", "value": value});
    let node = |tag: &str, props: Value, children: Value| json!({"type": "element", "tag": tag, "props": props, "children": children});
    let link = node("a", json!({"href": "https://ga.jspm.io/x"}), json!([text("more")]));
    let button = node("button", json!({"type": "submit"}), json!([text("Send")]));
    let form = node("form", json!({"onSubmit": "save"}), json!([button]));
    let root = node("div", json!({}), json!([form, link]));
    for profile in ["strict", "balanced", "trusted", "relaxed"] {
        let file = place.path("form.json");
        let whole =
            json!({"specVersion": "runtime-plan/v1", "id": "form", "version": 1, "root": root});
        std::fs::write(&file, whole.to_string()).unwrap();
        let shown = show(&place, &file.display().to_string(), profile).expect_status(0).last();
        let markup = shown["markup"].as_str().unwrap();
        assert!(markup.contains("data-glasshouse-event-submit"), "{profile}: {markup}");
        assert!(markup.contains("href=\"https://ga.jspm.io/x\""), "{profile}: {markup}");
        assert!(!markup.contains("action="), "{profile}: {markup}");
    }
    let chart = json!({"language": "tsx", "runtime": "preact", "code":
        "const data = [3, 1, 2];
         export default () => <svg viewBox='0 0 30 30'>{data.map((n, at) =>
            <rect x={at * 10} y={30 - n * 10} width={8} height={n * 10}/>)}</svg>"});
    for (profile, works) in
        [("strict", false), ("balanced", false), ("trusted", true), ("relaxed", true)]
    {
        let plan = plan(&place, "chart", &chart, &json!({}));
        let ran = show(&place, &plan, profile);
        assert_eq!(ran.status == Some(0), works, "{profile}: {ran:?}");
        assert_eq!(ran.stdout.matches("<rect").count(), if works { 3 } else { 0 }, "{profile}");
    }
}
