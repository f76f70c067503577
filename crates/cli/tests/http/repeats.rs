//! A request that is sent again, because its answer was lost, is done once.

use serde_json::{Value, json};

use crate::client::{Answer, Served};
use crate::harness::Place;

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
