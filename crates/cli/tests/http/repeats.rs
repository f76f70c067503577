//! A request that is sent again, because its answer was lost, is done once; one with a condition only while that holds.

use serde_json::{Value, json};

use crate::client::{Answer, Served};
use crate::harness::Place;
use crate::strangers::{described, house};

const TALK: &str = "version: 1
steps:
  - emit: [ { text: \"Hello.\" } ]
  - emit: [ { text: \"Again.\" } ]
";

fn keyed(served: &Served, path: &str, key: &str, body: &Value) -> Answer {
    served.send(&format!("POST {path}"), &[("idempotency-key", key)], Some(&body.to_string()))
}

fn count(served: &Served, session: &str, kind: &str) -> usize {
    let page = served.get(&format!("/v1/sessions/{session}/events?limit=1000")).json();
    page["events"].as_array().unwrap().iter().filter(|event| event["kind"] == kind).count()
}

/// Where a request is done as often as it is sent, its name is refused and nothing is done.
#[test]
fn a_key_that_would_be_ignored_is_refused() {
    let place = Place::new();
    let served = Served::new(&place);
    let key = json!({ "roles": ["viewer"] });
    for (path, body) in [
        ("/v1/keys", key.clone()),
        ("/v1/plans", json!({ "plan": "{}" })),
        ("/v1/plans/clear", json!({})),
        ("/v1/audit/verify", json!({})),
    ] {
        let refused = keyed(&served, path, "k1", &body).expect(400);
        assert_eq!(refused.code(), "request_invalid", "{path}");
    }
    let keys = || served.get("/v1/keys").json()["keys"].as_array().unwrap().len();
    assert_eq!(keys(), 0);
    served.post("/v1/keys", &key).expect(201);
    assert_eq!(keys(), 1, "the control");
}

#[test]
fn a_session_is_started_once_for_one_key() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let body = json!({ "project": project, "provider": "scripted", "scenario": TALK });
    let first = keyed(&served, "/v1/sessions", "k1", &body).expect(201);
    assert_eq!(first.header("idempotency-replayed"), None);
    let again = keyed(&served, "/v1/sessions", "k1", &body).expect(201);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.json()["session"], first.json()["session"]);
    let other = json!({ "project": project, "provider": "scripted", "scenario": "steps: []" });
    assert_eq!(keyed(&served, "/v1/sessions", "k1", &other).expect(409).code(), "key_reused");
    // The control: without a key, or with another one, there are two.
    keyed(&served, "/v1/sessions", "k2", &body).expect(201);
    served.post("/v1/sessions", &body).expect(201);
    let listed = served.get("/v1/sessions").json()["sessions"].as_array().unwrap().len();
    assert_eq!(listed, 3);
    for key in ["", &"k".repeat(129), "k\u{e9}"] {
        assert_eq!(keyed(&served, "/v1/sessions", key, &body).code(), "request_invalid", "{key}");
    }
}

#[test]
fn eight_clients_with_one_key_start_one_session_and_one_turn() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let all = |path: &str, body: &Value| -> Vec<Value> {
        std::thread::scope(|scope| {
            let sent: Vec<_> =
                (0..8).map(|_| scope.spawn(|| keyed(&served, path, "same", body))).collect();
            let answers = sent.into_iter().map(|one| one.join().unwrap());
            answers.map(|answer| answer.json()).collect()
        })
    };
    let body = json!({ "project": project, "provider": "scripted", "scenario": TALK });
    let started = all("/v1/sessions", &body);
    let session = started[0]["session"].as_str().unwrap();
    assert!(started.iter().all(|one| one["session"] == session), "{started:?}");
    let path = format!("/v1/sessions/{session}/turns");
    let turns = all(&path, &json!({ "message": "hello" }));
    assert!(turns[0]["turn"].is_u64() && turns.iter().all(|one| *one == turns[0]), "{turns:?}");
    served.events_of(session).until("turn.completed");
    assert_eq!(count(&served, session, "turn.started"), 1);
}

/// The answer of the first one never came: the server was killed after it had begun.
#[test]
fn a_turn_is_started_once_also_when_the_server_was_killed() {
    let place = Place::new();
    let project = place.shell_project();
    let mut served = Served::new(&place);
    let session = served.session(&project, TALK);
    let path = format!("/v1/sessions/{session}/turns");
    let body = json!({ "message": "hello" });
    let turn = keyed(&served, &path, "t1", &body).expect(202).json()["turn"].clone();
    served.events_of(&session).until("turn.completed");
    served.kill();
    let served = Served::new(&place);
    let again = keyed(&served, &path, "t1", &body).expect(202);
    assert_eq!(
        (again.header("idempotency-replayed"), &again.json()["turn"]),
        (Some("true"), &turn)
    );
    assert_eq!(count(&served, &session, "turn.started"), 1);
    let other = keyed(&served, &path, "t1", &json!({ "message": "else" })).expect(409);
    assert_eq!(other.code(), "key_reused");
    // Another branch is another place.
    let fork = json!({ "name": "try" });
    served.post(&format!("/v1/sessions/{session}/branches"), &fork).expect(201);
    keyed(&served, &path, "t2", &json!({ "message": "more", "branch": "try" })).expect(202);
}

/// The failure: `If-Match` on a DELETE was not looked at, so what had changed since it was read was deleted all the same.
/// Every request of the description that changes something holds to it, or refuses it; and where what is changed has an
/// entity tag it holds to it.
#[test]
fn a_condition_is_held_to_or_refused_in_sandboxes() {
    let place = Place::new();
    let served = Served::new(&place);
    let document = described(&served);
    let world = house(&place, &served);
    let takes = |path: &str, method: &str, header: &str| {
        let told = &document["paths"][path][method]["parameters"];
        told.as_array().is_some_and(|all| all.iter().any(|one| one["name"] == header))
    };
    let mut held = Vec::new();
    for call in world.calls() {
        let (method, path) = call.route.split_once(' ').unwrap();
        let method = method.to_lowercase();
        if method == "get" {
            continue;
        }
        let holds = takes(path, &method, "If-Match");
        let is_same = ["put", "delete"].contains(&method.as_str());
        assert!(holds || !is_same || !takes(path, "get", "If-None-Match"), "{}", call.route);
        let body = call.body.as_ref().map(Value::to_string);
        // A tenant of this name comes to be by one of these requests.
        if path.starts_with("/v1/tenants/{tenant}") && holds {
            let made = json!({ "tenant": "house-made", "roots": [] });
            served.post("/v1/tenants", &made);
        }
        let refused = served.send(&call.line, &[("if-match", "\"stale\"")], body.as_deref());
        let expected = match holds {
            true => (412, "precondition_failed"),
            false => (400, "request_invalid"),
        };
        assert_eq!((refused.status, &*refused.code()), expected, "{}", call.line);
        held.extend(holds.then_some(call.route));
    }
    held.sort_unstable();
    assert_eq!(
        held,
        [
            "DELETE /v1/sessions/{session}",
            "DELETE /v1/tenants/{tenant}",
            "POST /v1/sessions/{session}/turns",
            "PUT /v1/tenants/{tenant}",
        ]
    );
}

/// What was known is still so, or comes to be so again.
#[test]
fn a_condition_is_for_one_version_of_what_it_names() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let conditioned =
        |line: &str, tag: &str, body: Option<&str>| served.send(line, &[("if-match", tag)], body);
    let tag = |path: &str| served.get(path).expect(200).header("etag").unwrap().to_owned();
    let session = served.session(&project, TALK);
    let path = format!("/v1/sessions/{session}");
    let line = format!("DELETE {path}?keep_blobs=true");
    let known = tag(&path);
    served.turn(&session, "hello");
    served.events_of(&session).until("turn.completed");
    assert_eq!(conditioned(&line, &known, None).expect(412).code(), "precondition_failed");
    assert_ne!(served.get(&path).json()["state"], "deleted");
    conditioned(&line, &tag(&path), None).expect(200);
    assert_eq!(served.get(&path).json()["state"], "deleted");
    // The terms of a tenant come to be what they were, and are told anew.
    let (path, terms) = ("/v1/tenants/acme", |turns: u64| {
        json!({ "quotas": { "turns_per_day": turns } }).to_string()
    });
    let made = json!({ "tenant": "acme", "roots": [], "quotas": { "turns_per_day": 1 } });
    served.post("/v1/tenants", &made).expect(201);
    let known = tag(path);
    for turns in [2, 1] {
        served.send(&format!("PUT {path}"), &[], Some(&terms(turns))).expect(200);
    }
    for line in [format!("PUT {path}"), format!("DELETE {path}")] {
        let body = line.starts_with("PUT").then(|| terms(3));
        assert_eq!(conditioned(&line, &known, body.as_deref()).status, 412, "{line}");
    }
    conditioned(&format!("DELETE {path}"), &tag(path), None).expect(200);
    assert_eq!(served.get(path).json()["is_disabled"], true);
}
