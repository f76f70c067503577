//! The end of sessions: closed, where everything can still be read; deleted, where every proof stays.

use std::path::Path;

use serde_json::{Value, json};

use crate::client::Served;
use crate::harness::Place;

const READ: &str = "version: 1
steps:
  - emit: [ { call: { id: a, tool: shell.run, args: { script: 'echo launch-code-7' } } } ]
  - emit: [ { text: \"It says launch-code-7.\" } ]
";

const SLOW: &str = "version: 1
steps:
  - emit: [ { call: { id: c1, tool: shell.run, args: { script: 'sleep 60' } } } ]
";

/// A session with one finished turn, and its events.
fn finished(served: &Served, project: &Path, message: &str) -> (String, Vec<Value>) {
    let session = served.session(project, READ);
    served.turn(&session, message);
    let frames = served.events_of(&session).until("turn.completed");
    (session, frames.into_iter().map(|frame| frame.data).collect())
}

/// The failure: see `e2e_the_last_sandbox_of_a_session_has_an_end_too`. A server gives a session up after each
/// turn, and stops turns when it is told to stop itself.
#[test]
fn e2e_a_server_tells_the_end_of_every_sandbox() {
    let place = Place::new();
    let project = place.shell_project();
    let mut served = Served::new(&place);
    let (ended, _) = finished(&served, &project, "read it");
    let running = served.session(&project, SLOW);
    served.turn(&running, "sleep");
    served.events_of(&running).until("tool.started");
    served.stop();
    let log = place.log();
    for row in log.sessions().unwrap() {
        let events = log.read(&row.main, 1, 100_000).unwrap();
        crate::harness::assert_each_sandbox_ended_once(&events);
        let made = crate::harness::count(&events, &glasshouse_model::Kind::SandboxCreated);
        let is_ours = [&ended, &running].contains(&&row.session.to_string());
        assert_eq!(made, usize::from(is_ours), "{}", row.session);
    }
}

fn delete(served: &Served, session: &str, query: &str) -> crate::client::Answer {
    served.send(&format!("DELETE /v1/sessions/{session}{query}"), &[], None)
}

#[test]
fn a_closed_session_is_read_and_proved_and_takes_no_turn() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let (session, events) = finished(&served, &project, "read it");
    let path = format!("/v1/sessions/{session}");
    let fork = json!({ "name": "try" });
    served.post(&format!("{path}/branches"), &fork).expect(201);
    let told = served.post(&format!("{path}/close"), &json!({})).expect(200).json();
    assert_eq!(told["changed"], true);
    assert_eq!(served.post(&format!("{path}/close"), &json!({})).json()["changed"], false);
    assert_eq!(served.get(&path).json()["state"], "closed");
    let rows = served.get(&format!("{path}/branches")).json();
    assert!(rows["branches"].as_array().unwrap().iter().all(|row| row["state"] == "closed"));
    let page = served.get(&format!("{path}/events?limit=1000")).json();
    let page = page["events"].as_array().unwrap();
    assert_eq!(page[..events.len()], events);
    assert_eq!(page.last().unwrap()["kind"], "session.closed");
    let refused = served.post(&format!("{path}/turns"), &json!({ "message": "more" }));
    assert_eq!((refused.status, refused.code().as_str()), (409, "branch_read_only"));
    let again = served.post(&format!("{path}/replay"), &json!({})).expect(200).json();
    assert_eq!(again["equal"], true, "{again}");
    place.run(&["audit", "verify"]).expect_status(0);
}

#[test]
fn a_deleted_session_says_nothing_any_more_and_proves_all_the_same() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let (session, events) = finished(&served, &project, "read launch-code-7");
    let (other, _) = finished(&served, &project, "another one");
    let blob = |session: &str| {
        let page = served.get(&format!("/v1/sessions/{session}/events?limit=1000")).json();
        let events = page["events"].as_array().unwrap().clone();
        let of = events.iter().find(|event| event["kind"] == "model.completed").unwrap().clone();
        of["body"]["raw"]["blob"].as_str().map(str::to_owned)
    };
    let (own, kept) = (blob(&session).unwrap(), blob(&other).unwrap());
    let told = loop {
        // The other turn's thread gives its branch back a moment after its last event.
        let answer = delete(&served, &session, "");
        if answer.code() != "session_owned" {
            break answer.expect(200).json();
        }
    };
    assert!(told["events"].as_u64().unwrap() >= events.len() as u64 - 1, "{told}");
    assert_eq!(delete(&served, &session, "").expect(200).json()["events"], 0);
    assert_eq!(served.get(&format!("/v1/sessions/{session}")).json()["state"], "deleted");
    let gone = served.get(&format!("/v1/sessions/{session}/events?limit=1000")).expect(410);
    assert_eq!(gone.code(), "session_archived");
    let row = place.log().branch(&events[0]["branch"].as_str().unwrap().parse().unwrap()).unwrap();
    let stored = place.log().read(&row.branch, 1, 1_000).unwrap();
    for (before, after) in events.iter().zip(&stored) {
        assert_eq!((&before["hash"], &after.body), (&json!(after.hash), &Value::Null));
    }
    // Nothing of it is on the disk: what both sessions name stays, for the other one.
    assert_ne!(own, kept);
    assert_eq!(served.get(&format!("/v1/blobs/{own}")).status, 404);
    assert_eq!(served.get(&format!("/v1/blobs/{kept}")).status, 200);
    assert!(!holds(&place.home(), b"read launch-code-7"));
    // The control: what was not deleted is there.
    assert!(holds(&place.home(), b"another one"));
    assert_eq!(served.post("/v1/audit/verify", &json!({})).json()["ok"], true);
    let branch = events[0]["branch"].as_str().unwrap();
    let proof = served.get(&format!("/v1/audit/proofs/{branch}/2")).expect(200).json();
    assert_eq!(proof["event"]["hash"], events[1]["hash"]);
    let turns = format!("/v1/sessions/{session}/turns");
    let refused = served.post(&turns, &json!({ "message": "more" })).expect(410);
    assert_eq!(refused.code(), "session_archived");
    place.run(&["session", "list"]).expect_status(0);
}

/// Two answers without calls.
const TALK: &str = "version: 1
steps:
  - emit: [ { text: \"It says launch-code-7.\" } ]
";

/// The commands do what the routes do, and leave the same events.
#[test]
fn commands_close_and_delete_as_the_routes_do() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let talk = || {
        let session = served.session(&project, TALK);
        served.turn(&session, "go");
        served.events_of(&session).until("turn.completed");
        session
    };
    // The turn's thread gives its branch back a moment after its last event.
    let run = |arguments: &[&str]| {
        let deadline = std::time::Instant::now() + crate::client::PATIENCE;
        loop {
            let ran = place.run(arguments);
            if !ran.stdout.contains("session_owned") || std::time::Instant::now() > deadline {
                return ran;
            }
        }
    };
    let (closed, by_route, deleted) = (talk(), talk(), talk());
    let close = |session: &str| run(&["session", "close", session, "--json"]);
    assert_eq!(close(&closed).expect_status(0).last()["changed"], true);
    assert_eq!(close(&closed).expect_status(0).last()["changed"], false);
    close("s_zzzzzzzzzz").expect_status(10);
    served.post(&format!("/v1/sessions/{by_route}/close"), &json!({})).expect(200);
    let kinds = |session: &str| {
        let page = served.get(&format!("/v1/sessions/{session}/events?limit=1000")).json();
        let events = page["events"].as_array().unwrap().clone();
        // What an answer said so far is told as often as its pieces come.
        let kinds = events.iter().map(|event| event["kind"].as_str().unwrap().to_owned());
        kinds.filter(|kind| kind != "model.partial").collect::<Vec<_>>()
    };
    assert_eq!(kinds(&closed), kinds(&by_route));
    assert_eq!(served.get(&format!("/v1/sessions/{closed}")).json()["state"], "closed");
    // Without the word for it nothing goes.
    let told = run(&["session", "delete", &deleted, "--json"]).expect_status(0).last();
    assert_eq!(told["deleted"], false);
    assert!(told["events"].as_u64().unwrap() > 3, "{told}");
    let words = format!("would erase: at most {} of the events", told["events"]);
    let told = run(&["session", "delete", &deleted]).expect_status(0);
    assert!(told.stdout.contains(&words), "{}", told.stdout);
    assert!(holds(&place.home(), b"launch-code-7"));
    served.get(&format!("/v1/sessions/{deleted}/events")).expect(200);
    let erase = || run(&["session", "delete", &deleted, "--yes", "--json"]).expect_status(0).last();
    let told = erase();
    assert_eq!(told["deleted"], true);
    assert!(told["events"].as_u64().unwrap() > 3, "{told}");
    assert_eq!(erase()["events"], 0);
    assert_eq!(served.get(&format!("/v1/sessions/{deleted}")).json()["state"], "deleted");
    assert_eq!(
        served.get(&format!("/v1/sessions/{deleted}/events")).expect(410).code(),
        "session_archived"
    );
    run(&["session", "delete", "s_zzzzzzzzzz"]).expect_status(10);
    place.run(&["audit", "verify"]).expect_status(0);
}

/// Whether a text is in a file of a directory. The log packs its bodies; a text without repetitions stands in them
/// as it is.
pub(crate) fn holds(directory: &Path, text: &[u8]) -> bool {
    std::fs::read_dir(directory).unwrap().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return holds(&path, text);
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        bytes.windows(text.len()).any(|part| part == text)
    })
}

#[test]
fn what_runs_or_was_never_started_is_not_ended() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let session = served.session(&project, SLOW);
    let path = format!("/v1/sessions/{session}");
    let turn = served.turn(&session, "sleep");
    let mut stream = served.events_of(&session);
    stream.until("tool.started");
    let check = |answer: crate::client::Answer, status: u16, code: &str| {
        assert_eq!((answer.status, answer.code()), (status, code.to_owned()), "{}", answer.text());
    };
    check(served.post(&format!("{path}/close"), &json!({})), 409, "turn_running");
    check(delete(&served, &session, ""), 409, "turn_running");
    // Blobs of another one cannot be told apart while this one runs; without them it can go.
    let other = served.session(&project, READ);
    check(delete(&served, &other, ""), 409, "session_owned");
    check(delete(&served, &other, "?keep_blobs=true"), 200, "");
    served.post(&format!("{path}/turns/{turn}/cancel"), &json!({})).expect(202);
    stream.until("turn.cancelled");
    check(served.post(&format!("{path}/close"), &json!({})), 200, "");
    check(delete(&served, "s_nothere00000", ""), 404, "session_not_found");
    // What others are folds over is no session that ends.
    place.run(&["keys", "create", "--role", "viewer"]).expect_status(0);
    for own in ["s_log", "s_access"] {
        check(delete(&served, own, ""), 400, "request_invalid");
        let path = format!("/v1/sessions/{own}/close");
        check(served.post(&path, &json!({})), 400, "request_invalid");
    }
    check(served.post("/v1/sessions/s_nothere00000/close", &json!({})), 404, "session_not_found");
}
