//! What is recorded of pinning, and of runs with pinned modules that are made again.

use std::time::{Duration, Instant};

use glasshouse_kernel::plans::{PinOptions, Pinning, Plans};
use glasshouse_kernel::{Cancel, Error};
use glasshouse_log::Log;
use glasshouse_model::{BranchId, Event, Kind};
use glasshouse_plan::ProfileName;
use serde_json::{Value, json};

use crate::harness::{Place, Ran};
use crate::modules::{AT, Cdn, Does, JS};

fn pin(plans: &mut Plans, plan: &Value) -> Result<Pinning, Error> {
    plans.pin(&plan.to_string(), ProfileName::Trusted, &PinOptions::default())
}

/// A plan that imports one module as `it`.
fn importing(module: &str, rest: &str) -> Value {
    json!({
        "specVersion": "runtime-plan/v1", "id": "pins", "version": 1,
        "capabilities": {"domWrite": true},
        "root": {"type": "text", "value": "own root"},
        "source": {
            "code": format!("import it from 'http://{AT}{module}'; {rest}"),
            "language": "tsx", "runtime": "renderify",
        },
    })
}

fn branch(log: &Log) -> BranchId {
    let place = log.cell("plans", "branch").unwrap().unwrap();
    let place: Value = serde_json::from_slice(&place.bytes).unwrap();
    serde_json::from_value(place["branch"].clone()).unwrap()
}

pub(crate) fn events(log: &Log) -> Vec<Event> {
    log.read(&branch(log), 1, 1_000).unwrap()
}

fn kinds(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| event.kind().to_string()).collect()
}

/// A decision is in the log before its connection is made, and a connection before the next decision: a
/// pinning that is killed at any moment leaves all that it sent.
#[test]
fn a_connection_of_a_pinning_is_recorded_before_it_is_made() {
    let (place, cdn) = (Place::new(), Cdn::start());
    cdn.serve(&format!("{AT}x@1.0.0/x.js"), "import './slow.js'; export default 1");
    cdn.set(&format!("{AT}x@1.0.0/slow.js"), Does::Sleep);
    let (plans, log) = cdn.plans(&place);
    let cancel = Cancel::new().unwrap();
    let mut plans = plans.until(&cancel);
    let plan = importing("x@1.0.0/x.js", "export default () => <p>{it}</p>");
    let pinning = std::thread::spawn(move || pin(&mut plans, &plan));
    let begun = Instant::now();
    let mut asked = Vec::new();
    while !asked.iter().any(|at: &String| at.ends_with("slow.js")) {
        assert!(begun.elapsed() < Duration::from_secs(30), "{asked:?}");
        std::thread::sleep(Duration::from_millis(5));
        asked.extend(cdn.asked());
    }
    // The second host has the request and has said nothing yet.
    let seen = kinds(&events(&log));
    assert_eq!(seen, ["policy.decided", "egress.connected", "policy.decided"]);
    cancel.cancel();
    assert_eq!(pinning.join().unwrap().unwrap_err().code(), "cancelled");
}

/// What cannot be recorded is not done.
#[test]
fn nothing_is_fetched_when_it_cannot_be_recorded() {
    let (place, cdn) = (Place::new(), Cdn::start());
    for name in ["x", "y", "z"] {
        cdn.serve(&format!("{AT}x@1.0.0/{name}.js"), "export default 1");
    }
    let (mut plans, log) = cdn.plans(&place);
    let plan =
        |name: &str| importing(&format!("x@1.0.0/{name}.js"), "export default () => <p>{it}</p>");
    pin(&mut plans, &plan("x")).unwrap();
    assert_eq!(cdn.asked().len(), 1, "the control");
    log.close_branch(&branch(&log)).unwrap();
    let error = pin(&mut plans, &plan("y")).unwrap_err();
    assert_eq!(cdn.asked(), Vec::<String>::new(), "{error}");
    assert_eq!(error.code(), "branch_read_only", "{error}");
}

/// Keys are in addresses more often than they should be; the host gets them, and the log does not.
#[test]
fn keys_in_addresses_of_modules_are_not_recorded() {
    let key = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    for (name, first, on) in [
        ("query", format!("x@1.0.0/x.js?token={key}"), None),
        ("path", format!("x@1.0.0/{key}/x.js"), None),
        ("redirect", "x@1.0.0/x.js".to_owned(), Some(format!("x@1.0.0/y.js?token={key}"))),
    ] {
        let (place, cdn) = (Place::new(), Cdn::start());
        if let Some(on) = &on {
            cdn.set(&format!("{AT}{first}"), Does::SendOn(format!("http://{AT}{on}")));
        }
        let last = on.as_ref().unwrap_or(&first);
        cdn.set(&format!("{AT}{last}"), Does::Serve(JS, b"export default 1".to_vec()));
        let (mut plans, log) = cdn.plans(&place);
        let pinned = pin(&mut plans, &importing(&first, "export default () => <p>{it}</p>"));
        let asked = cdn.asked();
        assert!(asked.iter().any(|at| at.contains(key)), "{name}, the control: {pinned:?}");
        let events = events(&log);
        let (told, connected) = (format!("{events:?}"), &Kind::EgressConnected);
        assert!(!told.contains(key), "{name}: {told}");
        assert!(told.contains("x@1.0.0"), "{name}: {told}");
        assert_eq!(
            events.iter().filter(|it| it.kind() == connected).count(),
            asked.len(),
            "{name}"
        );
    }
}

/// A module of the largest size is one; a byte more is told as what it is.
#[test]
fn the_limit_of_a_module_is_that_of_a_source() {
    const MOST: usize = 1 << 20;
    for (more, want) in [(0, None), (1, Some("it is larger than 1048576 bytes"))] {
        let (place, cdn) = (Place::new(), Cdn::start());
        let code = "export default 1;";
        let body = format!("{code}{}", " ".repeat(MOST + more - code.len()));
        cdn.set(&format!("{AT}x@1.0.0/x.js"), Does::Serve(JS, body.into_bytes()));
        let plan = importing("x@1.0.0/x.js", "export default () => <p>{it}</p>");
        let error = cdn.pin(&place, &plan, &PinOptions::default()).err().map(|e| e.to_string());
        match (&error, want) {
            (None, None) => {}
            (Some(error), Some(want)) => assert!(error.contains(want), "{error}"),
            _ => panic!("{more}: {error:?}"),
        }
    }
}

/// Shows a plan and answers its run, which the history knows also of one that failed.
pub(crate) fn run(place: &Place, text: &str) -> (Ran, String) {
    let file = place.path("plan.json");
    std::fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let ran = place.run(&["ui", "render-plan", &file, "--profile", "trusted", "--json"]);
    let history = place.run(&["ui", "history", "--json"]).expect_status(0).last();
    (ran, history["runs"][0]["run"].to_string())
}

pub(crate) fn replay(place: &Place, run: &str) -> Value {
    place.run(&["ui", "replay", run, "--json"]).last()
}

/// The cache of modules forgets; a replay says so, and neither that a run was different nor that it
/// was equal.
#[test]
fn a_replay_without_the_modules_of_its_run_is_none() {
    let at = format!("http://{AT}x@1.0.0/x.js");
    let of_components = |imports: Value, root: Value| {
        json!({
            "specVersion": "runtime-plan/v1", "id": "pins", "version": 1,
            "imports": imports, "root": root,
        })
    };
    let text = json!({"type": "text", "value": "own root"});
    for (name, plan, status) in [
        ("shown", importing("x@1.0.0/x.js", "export default () => <p>{it()}</p>"), 0),
        (
            "refused",
            importing(
                "x@1.0.0/x.js",
                "export default () => ({ type: 'element', tag: 'script', children: [{ type: 'text', value: it() }] })",
            ),
            3,
        ),
        ("component", of_components(json!([]), json!({"type": "component", "module": at})), 0),
        ("import", of_components(json!([at]), text), 0),
    ] {
        let (place, cdn) = (Place::new(), Cdn::start());
        cdn.serve(&format!("{AT}x@1.0.0/x.js"), "export default () => 'x'");
        let pinned = cdn.pin(&place, &plan, &PinOptions::default()).unwrap();
        let (ran, was) = run(&place, &pinned.text);
        assert_eq!(ran.status, Some(status), "{name}: {ran:?}");
        assert_eq!(replay(&place, &was)["equal"], true, "{name}, the control");
        std::fs::remove_dir_all(place.home().join("cache/modules")).unwrap();
        let replayed = replay(&place, &was);
        assert_eq!(replayed["error"]["code"], "plan_run_not_replayable", "{name}: {replayed}");
        assert!(replayed["error"]["fix"].as_str().unwrap().contains("ui pin"), "{name}");
        // A run that wanted for a module is equal only as long as it is not there.
        let (ran, failed) = run(&place, &pinned.text);
        let last = ran.last();
        let told = [&last["error"]["code"], &last["script"]["components"]["faults"][0]["code"]];
        assert!(told.contains(&&json!("script_module_unavailable")), "{name}: {ran:?}");
        assert_eq!(replay(&place, &failed)["equal"], true, "{name}");
        let locked = serde_json::from_str(&pinned.text).unwrap();
        cdn.pin(&place, &locked, &PinOptions::default()).unwrap();
        assert_eq!(replay(&place, &was)["equal"], true, "{name}");
        let replayed = replay(&place, &failed);
        assert_eq!(replayed["error"]["code"], "plan_run_not_replayable", "{name}: {replayed}");
    }
}

/// Code of a run that failed later saw a time; made again it sees the same.
#[test]
fn a_run_that_was_refused_after_its_code_is_made_again_with_its_clock() {
    let place = Place::new();
    let late = "Date.now() > 1000";
    for (name, made, status) in [
        ("rendering", format!("tag: {late} ? 'script' : 'p'"), 3),
        ("making", format!("tag: 'p', children: {late} ? ['no node'] : []"), 2),
    ] {
        let plan = json!({
            "specVersion": "runtime-plan/v1", "id": name, "version": 1,
            "capabilities": {"domWrite": true},
            "root": {"type": "text", "value": "own root"},
            "source": {
                "code": format!("export default () => ({{ type: 'element', {made} }})"),
                "language": "js", "runtime": "renderify",
            },
        });
        let (ran, was) = run(&place, &plan.to_string());
        assert_eq!(ran.status, Some(status), "{name}: {ran:?}");
        let events = events(&place.log());
        let refused = events.iter().rfind(|it| *it.kind() == Kind::PlanRefused).unwrap();
        let script = &refused.body["run"]["script"];
        assert!(script["now_ms"].as_i64().unwrap() > 1_000, "{script}");
        assert_eq!(script["effective"], "isolated-vm", "{script}");
        // It is known by its text.
        assert!(refused.body["run"]["given"]["blob"].is_string(), "{refused:?}");
        let replayed = replay(&place, &was);
        assert_eq!(replayed["equal"], true, "{name}: {replayed}");
    }
}
