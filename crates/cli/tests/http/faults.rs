//! What an operator is told: each answer that is a fault of ours is a line on standard error, and tells nothing else.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::client::Served;
use crate::harness::Place;

const TALK: &str = "version: 1\nsteps:\n  - emit: [ { text: \"A sentence of one's own.\" } ]\n";

/// What the server said on standard error, but for what it says to people when it starts.
pub(crate) fn lines(place: &Place) -> Vec<Value> {
    let said = std::fs::read_to_string(place.path("serve.stderr")).unwrap();
    said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The file of a directory whose name ends so.
fn file_of(directory: &Path, end: &str) -> Option<PathBuf> {
    std::fs::read_dir(directory).ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        let is_it = path.is_file() && path.to_string_lossy().replace('/', "").ends_with(end);
        if is_it { Some(path) } else { file_of(&path, end) }
    })
}

/// The failure: the documents sent an operator to standard error, where nothing was ever written.
/// Each fault is a line with the request's name, which its client has as a header, and with its cause; what a client
/// sent is not in it. What is the client's affair writes none.
#[test]
fn a_fault_of_ours_is_told_to_the_operator() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let session = served.session(&project, TALK);
    served.turn(&session, "go");
    let events = served.events_of(&session).until_end();
    let said = events.iter().find(|frame| frame.data["kind"] == "model.completed").unwrap();
    let digest = said.data["body"]["raw"]["blob"].as_str().unwrap().to_owned();
    let path = format!("/v1/blobs/{digest}");
    served.get(&path).expect(200);
    served.get("/v1/sessions/s_zzzzzzzz").expect(404);
    served.send("POST /v1/sessions", &[], Some("{")).expect(400);
    assert_eq!(lines(&place), Vec::<Value>::new());

    let file = file_of(&place.home(), digest.trim_start_matches("sha256:")).unwrap();
    std::fs::write(&file, b"other bytes").unwrap();
    let answer = served.get(&format!("{path}?q=marmalade")).expect(500);
    let found = lines(&place);
    let [line] = found.as_slice() else { panic!("{found:?}") };
    let mut line = line.clone();
    let cause = line["cause"].take();
    assert!(line["time_us"].take().as_u64() > Some(0));
    assert_eq!(
        line,
        json!({
            "level": "error", "time_us": null, "request": answer.header("x-request-id").unwrap(),
            "method": "GET", "route": "/v1/blobs/{digest}", "status": 500, "code": "blob_corrupt",
            "cause": null,
        })
    );
    assert_eq!(cause, answer.json()["detail"]);
    let said = std::fs::read_to_string(place.path("serve.stderr")).unwrap();
    assert!(!said.contains("marmalade") && !said.contains(&served.token), "{said}");
}
