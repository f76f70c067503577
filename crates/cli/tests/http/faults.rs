//! What an operator is told: each answer that is a fault of ours is a line on standard error, and tells nothing else.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::client::Served;
use crate::harness::Place;
use crate::world::{As, key, tenant};

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
/// Each fault is a line with the request's name, which its client has as a header, and what a client sent is not in it.
/// What is the client's affair writes none.
/// The failure: a line had the error's own words, which name files of the tenant. They are for who asks for them.
#[test]
fn a_fault_of_ours_is_told_to_the_operator() {
    let check = |arguments: &[&str], causes: usize| {
        let place = Place::new();
        tenant(&place, "acme", &[]);
        let served = Served::with(&place, arguments);
        let admin = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
        let session = admin.session(&place.path("acme").join("project"), TALK);
        admin.turn(&session, "go", "turn.completed");
        let events = admin.get(&format!("/v1/sessions/{session}/events")).json();
        let events = events["events"].as_array().unwrap();
        let said = events.iter().find(|event| event["kind"] == "model.completed").unwrap();
        let digest = said["body"]["raw"]["blob"].as_str().unwrap().to_owned();
        let path = format!("/v1/blobs/{digest}");
        admin.get(&path).expect(200);
        admin.get("/v1/sessions/s_zzzzzzzz").expect(404);
        served.send("POST /v1/sessions", &[], Some("{")).expect(400);
        assert_eq!(lines(&place), Vec::<Value>::new());

        let file = file_of(&place.home(), digest.trim_start_matches("sha256:")).unwrap();
        std::fs::write(&file, b"other bytes").unwrap();
        let answer = admin.get(&format!("{path}?q=marmalade")).expect(500);
        let mut found = lines(&place);
        found.iter_mut().for_each(|line| assert!(line["time_us"].take().as_u64() > Some(0)));
        let request = answer.header("x-request-id").unwrap();
        let told = json!({
            "level": "error", "time_us": null, "request": request, "tenant": "acme",
            "method": "GET", "route": "/v1/blobs/{digest}", "status": 500, "code": "blob_corrupt",
        });
        let cause = json!({
            "level": "debug", "time_us": null, "request": request,
            "cause": answer.json()["detail"],
        });
        assert_eq!(found, [vec![told], vec![cause; causes]].concat());
        let said = std::fs::read_to_string(place.path("serve.stderr")).unwrap();
        let hidden = ["marmalade", &admin.key, &served.token];
        assert!(hidden.iter().all(|hidden| !said.contains(hidden)), "{said}");
    };
    check(&[], 0);
    check(&["--debug"], 1);
}
