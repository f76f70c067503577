//! Whatever a request changes, an event names who sent it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use glasshouse_log::Log;
use glasshouse_model::BranchId;
use serde_json::{Value, json};

use crate::client::{PATIENCE, Served};
use crate::harness::Place;
use crate::strangers::described;
use crate::world::{As, World, check_covered, key, project_of, settled};

/// Routes that change nothing though they take a body, and why.
const LOOKS: [(&str, &str); 7] = [
    ("POST /v1/policy/check", "decides, and records nothing"),
    ("POST /v1/policy/explain", "decides, and records nothing"),
    ("POST /v1/policy/propose", "tells what accepting would change"),
    ("POST /v1/policy/simulate", "decides again what was decided"),
    ("POST /v1/plans/probe", "looks at a plan that is not kept"),
    ("POST /v1/plans/runs/{run}/replay", "makes a run again beside it"),
    ("POST /v1/audit/verify", "reads the log"),
];
/// Makes a branch again beside it.
const REPLAY: &str = "POST /v1/sessions/{session}/replay";

/// The log of a tenant of the server.
fn log_of(place: &Place, tenant: &str) -> Log {
    let home = place.home().join("tenants").join(tenant);
    Log::open(&home, &tenant.parse().unwrap()).unwrap()
}

/// The newest event of each branch.
fn heads(log: &Log) -> BTreeMap<BranchId, u64> {
    let sessions = log.sessions().unwrap();
    let rows = sessions.iter().flat_map(|session| log.branches(&session.session).unwrap());
    rows.map(|row| (row.branch, row.head.seq)).collect()
}

fn news(log: &Log, before: &BTreeMap<BranchId, u64>) -> Vec<Value> {
    let branches = heads(log).into_iter().filter(|(branch, head)| before.get(branch) != Some(head));
    let events = branches.flat_map(|(branch, _)| {
        let from = before.get(&branch).map_or(1, |head| head + 1);
        // What was deleted in the meantime tells nothing any more.
        log.read(&branch, from, 10_000).unwrap_or_default()
    });
    events.map(|event| serde_json::to_value(&event).unwrap()).collect()
}

/// The failure: what ended sandboxes left was removed, plans were cleared and turns were stopped by nobody's name.
/// Every route of the description that changes something is asked with a key, and an event of the log names it.
#[test]
fn every_change_names_who_made_it_in_sandboxes() {
    let place = Place::new();
    let served = Served::new(&place);
    project_of(&place, "house");
    let client = As { served: &served, key: key(&place, "local", &["admin"], &[]) };
    let id = client.key.split('.').nth(2).unwrap().to_owned();
    let world = World::new(&place, &client, ("house", "xylophone"), 0);
    let calls = world.calls();
    check_covered(&described(&served), &calls);
    let mut log = place.log();
    let mut asked = 0;
    for call in &calls {
        let is_look = LOOKS.iter().any(|(route, _)| *route == call.route) || call.route == REPLAY;
        if call.route.starts_with("GET ") || is_look {
            continue;
        }
        let mut call = call.clone();
        match call.route {
            "POST /v1/sessions/{session}/branches/{branch}/merge" | "POST /v1/sandboxes/sweep" => {
                call.body = Some(json!({}));
            }
            // The one of the world is accepted already.
            "POST /v1/policy/approve" => call.body = Some(world.another_policy(&client)),
            // Its log is the tenant's own.
            "POST /v1/tenants/{tenant}/keys" => log = log_of(&place, "house-made"),
            _ => log = place.log(),
        }
        let before = heads(&log);
        let answer = settled(&client, &call);
        assert!((200..300).contains(&answer.status), "{}: {}", call.line, answer.text());
        let deadline = Instant::now() + PATIENCE;
        let names = |event: &Value| event.to_string().contains(&id);
        while !news(&log, &before).iter().any(names) {
            let found = news(&log, &before);
            assert!(Instant::now() < deadline, "{} names nobody: {found:#?}", call.line);
            std::thread::sleep(Duration::from_millis(20));
        }
        asked += 1;
    }
    assert!(asked > 25, "{asked}");
    // Who was there is told for what leaves no event of its own.
    let access = client.get("/v1/sessions/s_access/events?limit=1000").expect(200).json();
    let told = access["events"].as_array().unwrap().iter();
    let told = told.filter(|event| event["kind"] == "policy.decided");
    let subjects: Vec<&str> =
        told.map(|event| event["body"]["subject"].as_str().unwrap()).collect();
    assert_eq!(subjects, ["POST /v1/sandboxes/sweep"]);
}
