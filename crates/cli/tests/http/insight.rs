//! What a session did, cost and would do again; branches, plans, proofs; what the server tells of itself.

use serde_json::{Value, json};

use crate::client::Served;
use crate::harness::Place;

const READ: &str = "version: 1
steps:
  - emit: [ { call: { id: a, tool: fs.read, args: { path: src/tool.sh } } } ]
  - emit: [ { text: \"It prints one.\" } ]
  - emit: [ { text: \"Again.\" } ]
";

/// A session with one finished turn.
fn read_session(place: &Place, served: &Served) -> (String, Vec<Value>) {
    let project = place.shell_project();
    let session = served.session(&project, READ);
    served.turn(&session, "read it");
    let frames = served.events_of(&session).until("turn.completed");
    (session, frames.into_iter().map(|frame| frame.data).collect())
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> &'a Value {
    events.iter().find(|event| event["kind"] == kind).unwrap()
}

#[test]
fn a_session_is_explained_replayed_and_priced() {
    let place = Place::new();
    let served = Served::new(&place);
    let (session, events) = read_session(&place, &served);
    let path = format!("/v1/sessions/{session}");
    let costs = served.get(&format!("{path}/costs")).expect(200).json();
    assert_eq!(
        (&costs["total"]["answers"], &costs["branches"][0]["name"]),
        (&json!(2), &json!("main"))
    );
    let again = served.post(&format!("{path}/replay"), &json!({})).expect(200).json();
    assert_eq!((&again["equal"], &again["model_requests"]), (&json!(true), &json!(2)));
    let call = of_kind(&events, "tool.proposed")["seq"].as_u64().unwrap();
    let why = served.get(&format!("{path}/events/{call}/explanation")).expect(200).json();
    assert_eq!((&why["syscall"], &why["decision"]), (&json!("fs.read"), &json!("allow")));
    let none = served.get(&format!("{path}/events/1/explanation")).expect(404);
    assert_eq!(none.code(), "event_not_decided");
    let strict = "version: 1\ncapabilities:\n  - { name: none, match: { syscall: fs.read }, action: deny, reason: not today }\n";
    let body = json!({ "policy": strict, "session": session });
    let tried = served.post("/v1/policy/simulate", &body).expect(200).json();
    let changed = tried["changed"].as_array().unwrap();
    assert!(
        changed.iter().any(|one| one["syscall"] == "fs.read" && one["breaking"] == true),
        "{tried}"
    );
    let wrong = served.post("/v1/policy/simulate", &json!({ "policy": "x: 1" })).expect(422);
    assert!(wrong.code().starts_with("policy_"), "{}", wrong.code());
}

#[test]
fn blobs_and_proofs_are_given_as_they_are_stored() {
    let place = Place::new();
    let served = Served::new(&place);
    let (session, events) = read_session(&place, &served);
    let raw =
        of_kind(&events, "model.completed")["body"]["raw"]["blob"].as_str().unwrap().to_owned();
    let blob = served.get(&format!("/v1/blobs/{raw}")).expect(200);
    assert_eq!(glasshouse_model::Digest::of(&blob.body).to_string(), raw);
    assert_eq!(blob.header("content-disposition"), Some("attachment"));
    assert_eq!(served.post("/v1/audit/verify", &json!({})).expect(200).json()["ok"], true);
    let head = served.get("/v1/audit/checkpoint").expect(200).json();
    let file = place.path("head.json");
    std::fs::write(&file, head.to_string()).unwrap();
    place.run(&["audit", "check", &file.display().to_string()]).expect_status(0);
    let branch = events[0]["branch"].as_str().unwrap();
    let proof = served.get(&format!("/v1/audit/proofs/{branch}/1")).expect(200).json();
    assert_eq!(proof["event"]["hash"], events[0]["hash"], "{proof}");
    // A page holds the same bytes as the stream and the command.
    let page = served.get(&format!("/v1/sessions/{session}/events?from=2&limit=3")).json();
    assert_eq!(page["events"].as_array().unwrap(), &events[1..4]);
    assert_eq!(page["next"], 5);
}

#[test]
fn branches_are_forked_compared_and_merged() {
    let place = Place::new();
    let served = Served::new(&place);
    let (session, events) = read_session(&place, &served);
    let path = format!("/v1/sessions/{session}");
    let fork = json!({ "name": "try", "reason": "another way" });
    let made = served.post(&format!("{path}/branches"), &fork).expect(201).json();
    assert_eq!((&made["name"], &made["fork_seq"]), (&json!("try"), &json!(events.len())));
    assert_eq!(served.post(&format!("{path}/branches"), &fork).expect(409).code(), "branch_exists");
    let far = json!({ "at": 10_000 });
    assert_eq!(served.post(&format!("{path}/branches"), &far).code(), "fork_out_of_range");
    let diff = served.get(&format!("{path}/diff?with=try")).expect(200).json();
    assert_eq!((&diff["shared"], &diff["changes"]), (&json!(events.len()), &json!([])));
    let message = json!({ "message": "again", "branch": "try" });
    served.post(&format!("{path}/turns"), &message).expect(202);
    served
        .follow(&format!("{path}/events/stream?branch=try&from={}", events.len() + 1), &[])
        .until("turn.completed");
    let merge = format!("{path}/branches/try/merge");
    let planned = served.post(&merge, &json!({ "dry_run": true })).expect(200).json();
    assert_eq!(planned["conflicts"], json!([]));
    // The turn's last event is there a moment before its thread gives the branch back.
    let merged = loop {
        let answer = served.post(&merge, &json!({}));
        if answer.code() != "session_owned" {
            break answer.expect(200).json();
        }
    };
    assert_eq!(merged["source"], made["branch"]);
    let rows = served.get(&format!("{path}/branches")).json();
    let states: Vec<_> =
        rows["branches"].as_array().unwrap().iter().map(|row| &row["state"]).collect();
    assert_eq!(states, [&json!("open"), &json!("merged")]);
}

#[test]
fn a_plan_is_shown_stepped_rolled_back_and_replayed() {
    let place = Place::new();
    let served = Served::new(&place);
    let plan = |title: &str| {
        json!({
            "specVersion": "runtime-plan/v1", "id": "counter", "version": 1,
            "state": {"initial": {"count": 0}, "transitions": {
                "add": [{"type": "increment", "path": "count"}]}},
            "root": {"type": "element", "tag": "p", "children": [
                {"type": "text", "value": format!("{title} {{{{state.count}}}}")}]},
        })
        .to_string()
    };
    let first = served.post("/v1/plans", &json!({ "plan": plan("one") })).expect(201).json();
    assert_eq!((&first["version"], &first["markup"]), (&json!(1), &json!("<p>one 0</p>")));
    let add = json!({ "event": "add", "expect_revision": 0 });
    let event = served.post("/v1/plans/counter/events", &add).expect(200).json();
    assert_eq!((&event["revision"], &event["patches"][0]["value"]), (&json!(1), &json!("one 1")));
    let stale = served.post("/v1/plans/counter/events", &add).expect(409);
    assert_eq!(stale.code(), "plan_conflict");
    assert_eq!(served.get("/v1/plans/counter/state").expect(200).json()["state"]["count"], 1);
    served.post("/v1/plans", &json!({ "plan": plan("two") })).expect(201);
    let back =
        served.post("/v1/plans/counter/rollback", &json!({ "version": 1 })).expect(200).json();
    assert_eq!(back["markup"], "<p>one 1</p>");
    let history = served.get("/v1/plans?runs=10").expect(200).json();
    assert_eq!(history["plans"][0]["versions"].as_array().unwrap().len(), 2);
    let run = event["run"].as_u64().unwrap();
    let again = served.post(&format!("/v1/plans/runs/{run}/replay"), &json!({})).expect(200).json();
    assert_eq!(again["equal"], true);
    let bad = plan("one").replace("\"p\"", "\"script\"");
    let refused = served.post("/v1/plans", &json!({ "plan": bad })).expect(403);
    assert_eq!(refused.code(), "plan_refused");
    assert_eq!(served.get("/v1/plans/none/state").expect(404).code(), "plan_not_found");
}

#[test]
fn what_it_tells_of_itself_names_no_session() {
    let place = Place::new();
    let served = Served::new(&place);
    let (session, _) = read_session(&place, &served);
    served.raw(&format!("GET /v1/sessions HTTP/1.1\r\nhost: {}\r\n\r\n", served.address));
    let metrics = served.get("/v1/metrics").expect(200);
    let text = metrics.text();
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    for line in [
        "glasshouse_requests_total{method=\"POST\",route=\"/v1/sessions\",status=\"2xx\"} 1",
        "glasshouse_requests_refused_total 1",
        "glasshouse_waiting_requests 0",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}\n{text}");
    }
    assert!(!text.contains(&session) && !text.contains(&served.token));
    // The description needs no token.
    let bare = format!("GET /openapi.json HTTP/1.1\r\nhost: {}\r\n\r\n", served.address);
    let document = served.raw(&bare).expect(200).json();
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/v1/sessions/{session}/turns"]["post"].is_object());
}
