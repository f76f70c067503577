//! What a person says to a turn that runs, and questions that hold nobody up.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{PATIENCE, Served, kinds};
use crate::harness::Place;

const TWO_STEPS: &str = "version: 1
steps:
  - emit: [ { call: { id: c1, tool: shell.run, args: { script: 'sleep 2' } } } ]
  - expect: { user_contains: 'in French' }
    emit: [ { text: \"Bonjour.\" } ]
";

#[test]
fn a_running_turn_hears_what_is_said_before_its_next_step() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let session = served.session(&project, TWO_STEPS);
    let mut stream = served.events_of(&session);
    let turn = served.turn(&session, "say hello");
    stream.until("tool.started");
    let steer = |turn: u64, message: &str| {
        let path = format!("/v1/sessions/{session}/turns/{turn}/steer");
        served.post(&path, &json!({ "message": message }))
    };
    assert_eq!(steer(turn, " ").expect(400).code(), "request_invalid");
    assert_eq!(steer(turn + 1, "no").expect(409).code(), "turn_not_running");
    steer(turn, "in French").expect(202);
    let frames = stream.until("turn.completed");
    let said = frames.iter().position(|frame| frame.data["kind"] == "message.received").unwrap();
    let over = frames.iter().position(|frame| frame.data["kind"] == "tool.completed").unwrap();
    assert!(over < said, "{:?}", kinds(&frames));
    assert_eq!(frames[said].data["body"]["text"], "in French");
    assert_eq!(steer(turn, "too late").expect(409).code(), "turn_not_running");
    // The same bytes come out again without the server.
    place.run(&["session", "replay", &session]).expect_status(0);
    place.run(&["audit", "verify"]).expect_status(0);
}

/// The failure: what a person said to a running turn is stored in a session of its own when it is said, and stayed there
/// and in the search when the session was deleted, or when the message that it became was erased.
#[test]
fn what_was_said_to_a_turn_goes_when_its_session_or_its_message_goes() {
    const SAID: &str = "in French, zebra-7 to you";
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let steered = || {
        let session = served.session(&project, TWO_STEPS);
        let mut stream = served.events_of(&session);
        let turn = served.turn(&session, "say hello");
        stream.until("tool.started");
        let path = format!("/v1/sessions/{session}/turns/{turn}/steer");
        served.post(&path, &json!({ "message": SAID })).expect(202);
        let frames = stream.until("turn.completed");
        let said = frames.iter().find(|frame| frame.data["kind"] == "message.received").unwrap();
        (session, said.data["seq"].to_string())
    };
    let places = || {
        let found = served.get("/v1/search?q=zebra-7").expect(200).json();
        let finds = found["finds"].as_array().unwrap().iter();
        finds.map(|find| find["session"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let ((deleted, _), (erased, message)) = (steered(), steered());
    // The control: each stands in the session and beside it.
    assert_eq!(places().len(), 4);
    let path = format!("DELETE /v1/sessions/{deleted}?keep_blobs=true");
    let erase = ["session", "erase", &erased, "--event", &message, "--reason", "a secret", "--yes"];
    // A turn's thread gives its branch back a moment after its last event.
    eventually(|| served.send(&path, &[], None).status == 200);
    assert_eq!(places().len(), 2);
    eventually(|| place.run(&erase).status == Some(0));
    assert_eq!(places(), Vec::<String>::new());
    drop(served);
    place.run(&["audit", "verify"]).expect_status(0);
}

fn eventually(is_done: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_done() {
        assert!(Instant::now() < deadline, "it never came about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Asks a person about each read of `ask*.txt`.
const ASKED: &str = "{ name: ask-reads, match: { syscall: fs.read, path_glob: 'ask*.txt' }, action: require_review, reason: ask first }";
const QUESTION: &str = "version: 1
steps:
  - emit: [ { call: { id: a, tool: fs.read, args: { path: ask1.txt } } } ]
  - emit: [ { text: done } ]
";

/// More open questions than there are threads for requests: none of them waits on a thread, and a read answers
/// at once. The failure: each question parked a thread of the runtime's.
#[test]
fn f11_as_many_open_questions_as_threads_hold_up_no_request() {
    const QUESTIONS: usize = 20;
    let place = Place::new();
    let project = place.shell_project();
    std::fs::write(project.join("ask1.txt"), "secret\n").unwrap();
    place.accept_rule(&project, ASKED);
    let served = Served::new(&place);
    let sessions: Vec<String> =
        (0..QUESTIONS).map(|_| served.session(&project, QUESTION)).collect();
    for session in &sessions {
        served.turn(session, "read it");
        served.events_of(session).until("approval.requested");
    }
    assert_eq!(
        served.get("/v1/approvals").json()["approvals"].as_array().unwrap().len(),
        QUESTIONS
    );
    let began = std::time::Instant::now();
    served.get("/v1/sessions?limit=1").expect(200);
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    // A thread for each turn, and none for each question beside it.
    let threads = || std::fs::read_dir(format!("/proc/{}/task", served.pid())).unwrap();
    let named = |name: &str| {
        let names =
            threads().flatten().map(|task| std::fs::read_to_string(task.path().join("comm")));
        names.filter(|found| found.as_ref().is_ok_and(|found| found.trim() == name)).count()
    };
    assert_eq!(named("turn"), QUESTIONS);
    // The last question is answered like the first.
    for session in sessions.iter().rev() {
        let listed = served.get("/v1/approvals").json();
        let asked = listed["approvals"].as_array().unwrap().iter();
        let asked = asked.clone().find(|one| one["session"] == *session).unwrap();
        let path = format!("/v1/approvals/{}", asked["approval"].as_str().unwrap());
        served
            .post(&path, &json!({ "approved": true, "digest": asked["args_digest"] }))
            .expect(200);
    }
    for session in &sessions {
        served.events_of(session).until("turn.completed");
    }
}

/// The failure: a yes that came right after somebody had stopped the turn was answered as one that counts, of a turn that
/// runs on, and the turn ended without it. The mend: what a stopped turn asked is asked no more.
#[test]
fn nobody_says_yes_to_a_turn_that_was_stopped() {
    let place = Place::new();
    let project = place.shell_project();
    std::fs::write(project.join("ask1.txt"), "secret\n").unwrap();
    place.accept_rule(&project, ASKED);
    let served = Served::new(&place);
    let sessions: Vec<(String, u64)> = (0..6)
        .map(|_| {
            let session = served.session(&project, QUESTION);
            let turn = served.turn(&session, "read it");
            served.events_of(&session).until("approval.requested");
            (session, turn)
        })
        .collect();
    let listed = served.get("/v1/approvals").json()["approvals"].as_array().unwrap().clone();
    let yes = |session: &str| {
        let asked = listed.iter().find(|one| one["session"] == session).unwrap();
        let path = format!("/v1/approvals/{}", asked["approval"].as_str().unwrap());
        served.post(&path, &json!({ "approved": true, "digest": asked["args_digest"] }))
    };
    let ((control, _), stopped) = sessions.split_last().unwrap();
    for (session, turn) in stopped {
        served.post(&format!("/v1/sessions/{session}/turns/{turn}/cancel"), &json!({})).expect(202);
        assert_eq!(yes(session).expect(404).code(), "approval_unknown");
    }
    yes(control).expect(200);
    served.events_of(control).until("turn.completed");
}

/// A mode that a person has to agree to: neither the request that starts the session nor the one that would
/// start a turn is held until they do.
#[test]
fn a_question_about_the_mode_holds_no_request() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let scenario = "version: 1\nsteps: [ { emit: [ { text: done } ] } ]\n";
    let body = json!({
        "project": project, "provider": "scripted", "scenario": scenario, "mode": "debug",
    });
    let began = std::time::Instant::now();
    let session = served.post("/v1/sessions", &body).expect(201).json()["session"].clone();
    let session = session.as_str().unwrap();
    let turns = format!("/v1/sessions/{session}/turns");
    let refused = served.post(&turns, &json!({ "message": "go" })).expect(409);
    assert_eq!(refused.code(), "mode_undecided");
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
    let name = refused.json()["context"]["approval"].as_str().unwrap().to_owned();
    let asked = served.get(&format!("/v1/approvals/{name}")).expect(200).json();
    let yes = json!({ "approved": true, "digest": asked["args_digest"] });
    served.post(&format!("/v1/approvals/{name}"), &yes).expect(200);
    served.post(&turns, &json!({ "message": "go" })).expect(202);
    let frames = served.events_of(session).until("turn.completed");
    assert!(kinds(&frames).contains(&"session.mode_changed"), "{:?}", kinds(&frames));
}
