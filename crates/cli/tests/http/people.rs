//! Questions that a turn asks are answered by requests, and bound to what was asked.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::client::{Served, Stream, kinds};
use crate::harness::Place;

/// Asks a person about each read of `ask*.txt`.
const ASKED: &str = "{ name: ask-reads, match: { syscall: fs.read, path_glob: 'ask*.txt' }, action: require_review, reason: ask first }";

/// A project whose accepted policy asks a person about each read of `ask*.txt`.
fn asking_project(place: &Place) -> PathBuf {
    let project = place.shell_project();
    std::fs::write(project.join("ask1.txt"), "secret\n").unwrap();
    place.accept_rule(&project, ASKED);
    project
}

fn question(status: &str) -> String {
    format!(
        "version: 1
steps:
  - emit: [ {{ call: {{ id: a, tool: fs.read, args: {{ path: ask1.txt }} }} }} ]
  - expect: {{ results: {{ a: {status} }} }}
    emit: [ {{ text: done }} ]
"
    )
}

/// Starts a turn and waits for its question.
fn ask(served: &Served, project: &std::path::Path, status: &str) -> (String, Stream, Value) {
    let session = served.session(project, &question(status));
    let mut stream = served.events_of(&session);
    served.turn(&session, "read it");
    stream.until("approval.requested");
    let listed = served.get("/v1/approvals").expect(200).json();
    let mine = listed["approvals"].as_array().unwrap().iter().find(|one| one["session"] == session);
    let mine = mine.unwrap().clone();
    (session, stream, mine)
}

/// F6, F8: an answer is for exactly what was asked; whatever else is sent changes nothing.
#[test]
fn f6_an_answer_counts_only_for_what_was_asked() {
    let place = Place::new();
    let project = asking_project(&place);
    let served = Served::new(&place);
    let (_, mut stream, asked) = ask(&served, &project, "completed");
    let name = asked["approval"].as_str().unwrap();
    let digest = asked["args_digest"].as_str().unwrap();
    let path = format!("/v1/approvals/{name}");
    let refused = |path: &str, body: Value, status: u16, code: &str| {
        let answer = served.post(path, &body);
        assert_eq!((answer.status, answer.code()), (status, code.to_owned()), "{body}");
    };
    let other = format!("sha256:{}", "0".repeat(64));
    let (branch, seq) = name.split_once(':').unwrap();
    let forged = format!("/v1/approvals/{branch}:{}", seq.parse::<u64>().unwrap() + 1);
    let yes = json!({ "approved": true, "digest": digest });
    refused(&path, json!({ "approved": true, "digest": other }), 409, "approval_mismatch");
    refused(&path, json!({ "approved": true }), 400, "request_invalid");
    refused(
        &path,
        json!({ "approved": true, "digest": digest, "max_uses": 3 }),
        400,
        "request_invalid",
    );
    refused(&forged, yes.clone(), 404, "approval_unknown");
    let shown = served.get(&path).expect(200).json();
    assert_eq!((&shown["answered"], &shown["tool"]), (&json!(false), &json!("fs.read")));
    // The control: the real answer lets the call run.
    assert_eq!(served.post(&path, &yes).expect(200).json()["running"], true);
    let frames = stream.until("turn.completed");
    assert!(kinds(&frames).contains(&"tool.completed"), "{:?}", kinds(&frames));
    refused(&path, yes, 404, "approval_unknown");
}

#[test]
fn a_no_ends_the_call_and_a_wider_yes_is_a_right_that_can_be_taken_back() {
    let place = Place::new();
    let project = asking_project(&place);
    let served = Served::new(&place);
    let (_, mut stream, asked) = ask(&served, &project, "denied");
    let answer = |asked: &Value, more: Value| {
        let mut body = json!({ "digest": asked["args_digest"] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let path = format!("/v1/approvals/{}", asked["approval"].as_str().unwrap());
        served.post(&path, &body).expect(200)
    };
    answer(&asked, json!({ "approved": false }));
    stream.until("tool.denied");
    stream.until("turn.completed");
    assert_eq!(served.get("/v1/grants").json()["grants"], json!([]));
    let (session, mut stream, asked) = ask(&served, &project, "completed");
    answer(&asked, json!({ "approved": true, "scope": "session", "lifetime_ms": 600_000 }));
    stream.until("turn.completed");
    let grants = served.get("/v1/grants").json();
    let grant = &grants["grants"][0];
    assert_eq!((&grant["session"], &grant["scope"]), (&json!(session), &json!("session")));
    let path = format!("DELETE /v1/grants/{}", grant["grant"].as_str().unwrap());
    for changed in [true, false] {
        let told = served.send(&path, &[], None).expect(200).json();
        assert_eq!(told["changed"], changed);
    }
    assert_eq!(served.get("/v1/grants").json()["grants"], json!([]));
    assert_eq!(served.get("/v1/grants?all=true").json()["grants"][0]["state"], "revoked");
}
