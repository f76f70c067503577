//! Sessions and turns: started here, seen by commands, and the other way round.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Served, kinds};
use crate::harness::Place;

/// Two answers without calls.
const TALK: &str = "version: 1
steps:
  - emit: [ { text: \"Hello.\" } ]
  - emit: [ { text: \"Again.\" } ]
";

/// An answer that takes its time.
const SLOW: &str = "version: 1
steps:
  - emit: [ { call: { id: c1, tool: shell.run, args: { script: 'sleep 60' } } } ]
  - emit: [ { text: \"Done.\" } ]
";

#[test]
fn a_session_is_started_followed_and_carried_on() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let session = served.session(&project, TALK);
    let path = format!("/v1/sessions/{session}");
    assert_eq!(served.get(&path).expect(200).json()["state"], "new");
    let mut stream = served.events_of(&session);
    let turn = served.turn(&session, "say hello");
    let frames = stream.until("turn.completed");
    let started = frames.iter().find(|frame| frame.data["kind"] == "turn.started").unwrap();
    assert_eq!(started.id, Some(turn));
    assert!(frames.iter().map(|frame| frame.id.unwrap()).eq(1..=frames.len() as u64));
    // A second turn may be asked for as soon as the end of the first is seen.
    served.turn(&session, "again");
    let frames = stream.until("turn.completed");
    assert_eq!(kinds(&frames).last(), Some(&"turn.completed"));
    let shown = served.get(&path).json();
    assert_eq!((&shown["state"], &shown["task"]), (&json!("answered"), &json!("say hello")));
    // A command sees the same, and proves it.
    let listed = place.run(&["session", "list", "--json"]).expect_status(0).last();
    assert_eq!((&listed["session"], &listed["state"]), (&json!(session), &json!("answered")));
    place.run(&["session", "replay", &session]).expect_status(0);
    assert_eq!(served.post("/v1/audit/verify", &json!({})).json()["ok"], true);
    place.run(&["audit", "verify"]).expect_status(0);
}

/// The log has only the hashes of an archived session; every route that needs its events says where they are.
#[test]
fn an_archived_session_says_where_its_events_are() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let session = served.session(&project, TALK);
    served.turn(&session, "say hello");
    served.events_of(&session).until("turn.completed");
    let config = place.path("config/glasshouse/config.yaml");
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    std::fs::write(&config, "log: { retention_days: 0 }\n").unwrap();
    // The turn's thread has the branch until a moment after its end is seen.
    let deadline = Instant::now() + Duration::from_secs(30);
    let file = loop {
        let rotated = place.run(&["audit", "rotate", "--json"]).expect_status(0).last();
        if let Some(file) = rotated["archived"][0]["file"].as_str() {
            break file.to_owned();
        }
        assert!(Instant::now() < deadline, "{rotated}");
    };
    let check = |line: &str, body: Option<Value>| {
        let line = line.replacen("ID", &session, 1);
        let body = body.map(|body| body.to_string());
        let answer = served.send(&line, &[], body.as_deref());
        assert_eq!((answer.status, answer.code()), (410, "session_archived".to_owned()), "{line}");
        assert!(answer.json()["detail"].as_str().unwrap().contains(&file), "{line}: {answer:?}");
    };
    check("POST /v1/sessions/ID/turns", Some(json!({ "message": "again" })));
    check("GET /v1/sessions/ID/events", None);
    check("GET /v1/sessions/ID/events/stream", None);
    check("GET /v1/sessions/ID/costs", None);
    check("GET /v1/sessions/ID/diff", None);
    let shown = served.get(&format!("/v1/sessions/{session}")).json();
    assert_eq!((&shown["state"], &shown["archive"]), (&json!("archived"), &json!(file)));
}

#[test]
fn what_is_not_there_answers_as_the_contract_says() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let session = served.session(&project, TALK);
    let check = |line: &str, body: Option<Value>, status: u16, code: &str| {
        let body = body.map(|body| body.to_string());
        let answer = served.send(line, &[], body.as_deref());
        assert_eq!((answer.status, answer.code()), (status, code.to_owned()), "{line}");
    };
    let own = format!("/v1/sessions/{session}");
    for id in ["s_nothere00000", "S", "..%2f..", "%00", "s_8f2k"] {
        check(&format!("GET /v1/sessions/{id}"), None, 404, "session_not_found");
        check(&format!("GET /v1/sessions/{id}/events"), None, 404, "session_not_found");
        check(&format!("GET /v1/sessions/{id}/events/stream"), None, 404, "session_not_found");
        check(&format!("GET /v1/sessions/{id}/branches"), None, 404, "session_not_found");
        check(&format!("POST /v1/sessions/{id}/turns"), Some(json!({})), 404, "session_not_found");
    }
    check(&format!("GET {own}/events?branch=other"), None, 404, "branch_unknown");
    check(&format!("POST {own}/turns"), Some(json!({"branch": "other"})), 404, "branch_unknown");
    check(&format!("POST {own}/turns"), Some(json!({"message": " "})), 400, "request_invalid");
    check(&format!("POST {own}/turns/2/cancel"), None, 409, "turn_not_running");
    check(&format!("POST {own}/turns/x/cancel"), None, 409, "turn_not_running");
    check("GET /v1/approvals/b_x:1", None, 404, "approval_unknown");
    check("GET /v1/approvals/x", None, 404, "approval_unknown");
    check("DELETE /v1/grants/g_0", None, 404, "grant_not_found");
    check(&format!("GET /v1/blobs/sha256:{}", "0".repeat(64)), None, 404, "blob_not_found");
    check("GET /v1/blobs/x", None, 404, "blob_not_found");
    check("GET /v1/audit/proofs/b_x/1", None, 404, "branch_not_found");
}

#[test]
fn a_turn_is_cancelled_and_another_one_waits_for_nobody() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let session = served.session(&project, SLOW);
    let turns = format!("/v1/sessions/{session}/turns");
    let mut stream = served.events_of(&session);
    let turn = served.turn(&session, "sleep");
    stream.until("tool.started");
    let refused = served.post(&turns, &json!({ "message": "more" })).expect(409);
    assert_eq!(
        (refused.code().as_str(), &refused.json()["context"]["turn"]),
        ("turn_running", &json!(turn))
    );
    // The turn of another number is not it.
    assert_eq!(served.post(&format!("{turns}/{}/cancel", turn + 1), &json!({})).status, 409);
    served.post(&format!("{turns}/{turn}/cancel"), &json!({})).expect(202);
    let frames = stream.until("turn.cancelled");
    let ends = kinds(&frames).into_iter().filter(|kind| kind.starts_with("turn.")).count();
    assert_eq!(ends, 1, "{:?}", kinds(&frames));
    served.post(&turns, &json!({})).expect(202);
}

#[test]
fn a_turn_is_started_only_on_what_its_sender_knew() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let session = served.session(&project, TALK);
    let path = format!("POST /v1/sessions/{session}/turns");
    let branches = served.get(&format!("/v1/sessions/{session}/branches")).json();
    let hash = branches["branches"][0]["head_hash"].as_str().unwrap().to_owned();
    let tag = |tag: &str| served.send(&path, &[("if-match", tag)], Some("{\"message\":\"hello\"}"));
    assert_eq!(tag("\"0000\"").expect(412).code(), "precondition_failed");
    tag(&format!("\"{hash}\"")).expect(202);
    served.events_of(&session).until("turn.completed");
    assert_eq!(tag(&format!("\"{hash}\"")).expect(412).code(), "precondition_failed");
}

#[test]
fn what_has_not_changed_is_not_sent_again() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let session = served.session(&project, TALK);
    let check = |path: &str| {
        let line = format!("GET {path}");
        let first = served.send(&line, &[], None).expect(200);
        let tag = first.header("etag").unwrap().to_owned();
        let again = served.send(&line, &[("if-none-match", &tag)], None).expect(304);
        assert_eq!((again.body.len(), again.header("etag")), (0, Some(tag.as_str())));
        assert_eq!(served.send(&line, &[("if-none-match", "\"x\"")], None).status, 200);
        tag
    };
    let own = format!("/v1/sessions/{session}");
    let before = (check(&own), check(&format!("{own}/events")));
    served.turn(&session, "hello");
    served.events_of(&session).until("turn.completed");
    let after = (check(&own), check(&format!("{own}/events")));
    assert!(before.0 != after.0 && before.1 != after.1);
}

#[test]
fn lists_are_read_page_by_page_while_new_sessions_come() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let made: Vec<String> = (0..5).map(|_| served.session(&project, TALK)).collect();
    let mut seen = Vec::new();
    let mut path = "/v1/sessions?limit=2".to_owned();
    loop {
        let page = served.get(&path).expect(200).json();
        let sessions = page["sessions"].as_array().unwrap();
        assert!(sessions.len() <= 2);
        seen.extend(sessions.iter().map(|one| one["session"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/sessions?limit=2&cursor={next}");
        // What comes meanwhile is newer than the cursor and moves nothing.
        served.session(&project, TALK);
    }
    assert!(seen.iter().eq(made.iter().rev()), "{seen:?} {made:?}");
}

/// The failure: where one session was damaged the list of all was an error.
/// Now: it says `damaged` of that one.
#[test]
fn a_damaged_session_hides_no_other() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "version: 1\nsteps: [ { emit: [ { text: 'It prints one.' } ] } ]\n";
    place.scenario(&project, yaml).expect_status(0);
    place.scenario(&project, yaml).expect_status(0);
    let states = || {
        let served = Served::new(&place);
        let listed = served.get("/v1/sessions").expect(200).json();
        let states = listed["sessions"].as_array().unwrap().iter();
        let mut states: Vec<_> =
            states.map(|row| row["state"].as_str().unwrap().to_owned()).collect();
        states.sort();
        states
    };
    assert_eq!(states(), ["answered", "answered"]);
    place.damage_a_task();
    assert_eq!(states(), ["answered", "damaged"]);
}
