//! Code of plans over HTTP: what it is told to have done, and when it ends.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Served;
use crate::harness::{Place, below};

/// How long code has to begin, and to end, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
const ENDLESS: &str = "export default () => { for (;;) {} }";

/// A plan with code that may run for half a minute.
fn plan(id: &str, code: &str) -> String {
    json!({
        "specVersion": "runtime-plan/v1", "id": id, "version": 1,
        "capabilities": {"maxExecutionMs": 30_000, "storage": ["localStorage"]},
        "root": {"type": "text", "value": "own root"},
        "source": {"language": "tsx", "runtime": "renderify", "code": code},
    })
    .to_string()
}

fn show(id: &str, code: &str) -> Value {
    json!({ "plan": plan(id, code), "profile": "trusted" })
}

/// Asks for a plan whose code does not end by itself, and waits until it works.
fn begin(served: &Served) -> TcpStream {
    let mut stream = served.connect();
    let before: BTreeMap<u32, u64> = below(served.pid()).into_iter().collect();
    let asked = show("endless", ENDLESS).to_string();
    stream.write_all(served.text("POST /v1/plans", &[], Some(&asked)).as_bytes()).unwrap();
    let works = |(process, hundredths): &(u32, u64)| {
        *hundredths > before.get(process).copied().unwrap_or_default() + 20
    };
    until("the code begins", || below(served.pid()).iter().any(works));
    stream
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// One server runs the code of many plans, each in a place of its own, and ends what runs when it is told to stop.
#[test]
fn a_server_that_is_told_to_stop_ends_code_of_plans() {
    let place = Place::new();
    let mut served = Served::new(&place);
    let leak =
        "export default () => { const was = Array.left; Array.left = 'left'; return String(was) }";
    for id in ["a", "b", "c", "d"] {
        let shown = served.post("/v1/plans", &show(id, leak)).expect(201).json();
        assert_eq!(shown["markup"], "undefined", "{id}");
    }
    let mut stream = begin(&served);
    let told = Instant::now();
    assert_eq!(served.stop(), Some(0));
    assert!(told.elapsed() < Duration::from_secs(10), "{:?}", told.elapsed());
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("cancelled"), "{answer}");
    let history = place.run(&["ui", "history", "--json"]).expect_status(0).last();
    assert_eq!(history["runs"][0]["status"], "failed", "{history}");
}

/// Code runs for somebody: it ends with the client that asked for it, and not at its own limit of half a minute.
#[test]
fn code_ends_with_the_client_that_asked_for_it() {
    let place = Place::new();
    let served = Served::new(&place);
    drop(begin(&served));
    let runs = || served.get("/v1/plans").expect(200).json()["runs"].clone();
    until("the run ends", || !runs().as_array().unwrap().is_empty());
    let run = runs()[0].clone();
    assert_eq!((&run["status"], &run["code"]), (&json!("failed"), &json!("cancelled")), "{run}");
}

/// A client is told in which lane code ran, what ended it, and what a person should know of it.
#[test]
fn a_client_is_told_how_code_ran() {
    let place = Place::new();
    let served = Served::new(&place);
    let check = |id: &str, code: &str, markup: &str, script: Value, remark: &str| {
        let shown = served.post("/v1/plans", &show(id, code)).expect(201).json();
        assert_eq!(shown["markup"], markup, "{shown}");
        assert_eq!(shown["script"]["requested"], "standard", "{shown}");
        assert_eq!(shown["script"]["effective"], "isolated-vm", "{shown}");
        for (key, value) in script.as_object().unwrap() {
            assert_eq!(&shown["script"][key], value, "{key}: {shown}");
        }
        let remarks = shown["remarks"].as_array().cloned().unwrap_or_default();
        let told: Vec<&str> = remarks.iter().filter_map(Value::as_str).collect();
        assert_eq!(told.is_empty(), remark.is_empty(), "{shown}");
        assert!(told.concat().contains(remark), "{shown}");
    };
    check("good", "export default 'made'", "made", json!({"limit": null, "error": null}), "");
    check(
        "throws",
        "export default () => { throw new Error('no') }",
        "own root",
        json!({"limit": null}),
        "script_failed",
    );
    check(
        "bomb",
        "export default () => { const a = []; for (;;) a.push(new Array(1000).fill(1)) }",
        "own root",
        json!({"limit": "memory"}),
        "script_limit",
    );
    check(
        "stores",
        "localStorage.a = 'x'; export default localStorage.a",
        "x",
        json!({"storage_in_memory": true}),
        "not durable",
    );
    let own = json!({"plan": plan("none", "").replace("\"source\"", "\"metadata\""), "profile": "trusted"});
    let shown = served.post("/v1/plans", &own).expect(201).json();
    assert_eq!((&shown["script"], &shown["remarks"]), (&Value::Null, &Value::Null), "{shown}");
}

/// A probe says of a plan with code what showing it would say.
#[test]
fn a_probe_compiles_the_code_that_this_server_would_run() {
    let place = Place::new();
    let served = Served::new(&place);
    let check = |code: &str, profile: &str, ok: bool, first: Value, modules: Value| {
        let asked = json!({ "plan": plan("probed", code), "profile": profile });
        let probed = served.post("/v1/plans/probe", &asked).expect(200).json();
        assert_eq!(probed["ok"], ok, "{probed}");
        assert_eq!(probed["issues"].get(0).map_or(Value::Null, |it| it["code"].clone()), first);
        assert_eq!(probed["modules"], modules, "{probed}");
    };
    check("export default 1", "trusted", true, Value::Null, json!([]));
    check("export default <Missing/>", "trusted", false, json!("script_name_unknown"), json!([]));
    check("export default <p>", "trusted", false, json!("script_source_invalid"), json!([]));
    check("export default 1", "strict", false, json!("plan_capability_denied"), json!([]));
}
