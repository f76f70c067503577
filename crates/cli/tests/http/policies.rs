//! Policy over HTTP, sandboxes, and what was used.

use glasshouse_model::Digest;
use serde_json::json;

use crate::client::Served;
use crate::harness::Place;

#[test]
fn a_policy_is_shown_tried_proposed_and_approved() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let shown = served.get(&format!("/v1/policy?project={}", project.display())).expect(200).json();
    assert_eq!(shown["project_policy"], json!(null));
    assert!(shown["rules"].as_array().unwrap().iter().any(|rule| rule["name"] == "read-workspace"));
    let write = |path: &str| json!({ "syscall": "fs.write", "path": path, "caller": "agent" });
    let check = |path: &str, expected: &str| {
        let body = json!({ "project": project, "call": write(path) });
        let answer = served.post("/v1/policy/check", &body).expect(200).json();
        assert_eq!(answer["decision"], expected, "{answer}");
        // A command says the same.
        let call = write(path).to_string();
        let ran = place.run_in(&project, &["policy", "check", "--call", &call, "--json"]);
        assert_eq!(ran.last()["decision"], expected);
    };
    check("src/tool.sh", "deny");
    check(".git/config", "deny");
    check("../outside", "deny");
    let open = "version: 1\ncapabilities:\n  - { name: all, match: { syscall: fs.write, path_glob: '**' }, action: allow }\n";
    let body = json!({ "project": project, "call": write("src/tool.sh"), "policy": open });
    assert_eq!(served.post("/v1/policy/check", &body).json()["decision"], "allow");
    let why = served.post("/v1/policy/explain", &body).expect(200).json();
    assert!(why["nearly"].is_array() && why["decision"] == "allow", "{why}");
    let wrong = json!({ "project": project, "call": { "sycall": "fs.write" } });
    assert_eq!(served.post("/v1/policy/check", &wrong).code(), "call_malformed");
    // A body has one reading, and is an object.
    let twice = r#"{"syscall":"fs.write","path":"a","path":".git/config"}"#;
    for body in [
        format!(r#"{{"project":{},"call":{twice}}}"#, json!(project)),
        format!(r#"[{},{{"syscall":"fs.read"}}]"#, json!(project)),
    ] {
        for route in ["POST /v1/policy/check", "POST /v1/policy/explain"] {
            let answer = served.send(route, &[], Some(&body));
            assert_eq!((answer.status, answer.code().as_str()), (400, "request_invalid"), "{body}");
        }
    }
    // What nests too deeply is told in words of ours; what nests less is read.
    for (depth, status) in [(200, 400), (20, 422)] {
        let rule = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let call = format!(r#"{{"syscall":"fs.write","path":{rule}}}"#);
        let body = format!(r#"{{"project":{},"call":{call}}}"#, json!(project));
        let answer = served.send("POST /v1/policy/check", &[], Some(&body));
        assert_eq!(answer.status, status, "{depth}");
        let text = answer.text();
        assert!(!text.contains("recursion"), "{text}");
        assert_eq!(text.contains("it nests too deeply"), status == 400, "{text}");
    }
    // Proposing changes nothing; approving wants the digest of what was read.
    let proposal = json!({ "project": project, "policy": open });
    let proposed = served.post("/v1/policy/propose", &proposal).expect(200).json();
    assert_eq!((&proposed["accepted"], &proposed["breaking"]), (&json!(false), &json!(0)));
    check("src/tool.sh", "deny");
    let approve = |digest: &str| {
        let body = json!({ "project": project, "policy": open, "digest": digest });
        served.post("/v1/policy/approve", &body)
    };
    let other = format!("sha256:{}", "0".repeat(64));
    assert_eq!(approve(&other).code(), "policy_changed");
    let digest = proposed["digest"].as_str().unwrap();
    assert_eq!(approve(digest).expect(200).json()["changed"], true);
    assert_eq!(approve(digest).expect(200).json()["changed"], false);
    let shown = served.get(&format!("/v1/policy?project={}", project.display())).expect(200).json();
    assert_eq!(shown["project_policy"]["accepted"], true);
}

/// The failure: of people who accepted different texts at once, the file of one could be in place and the acceptance of
/// another the last: no file of an accepted text was there. Now: there is one order of both, over HTTP, by commands of
/// other processes, and of both together.
#[test]
fn who_accepts_at_once_does_so_one_behind_the_other() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let shipped = place.run(&["policy", "show", "--shipped"]).expect_status(0).stdout;
    let by_http = |text: &str| {
        let digest = Digest::of(text.as_bytes());
        let body = json!({ "project": project, "policy": text, "digest": digest });
        served.post("/v1/policy/approve", &body).expect(200);
    };
    let by_command = |text: &str, n: usize| {
        let file = place.path(&format!("candidate-{n}.yaml"));
        std::fs::write(&file, text).unwrap();
        let (file, digest) = (file.display().to_string(), Digest::of(text.as_bytes()).to_string());
        let ran = place.run_in(&project, &["policy", "update", &file, "--digest", &digest]);
        ran.expect_status(0);
    };
    for round in 0..4 {
        let texts: Vec<_> =
            (0..8).map(|n| format!("{shipped}\n# text {n} of round {round}\n")).collect();
        std::thread::scope(|scope| {
            for (n, text) in texts.iter().enumerate() {
                let (by_http, by_command) = (&by_http, &by_command);
                scope.spawn(move || if n < 5 { by_http(text) } else { by_command(text, n) });
            }
        });
        let shown = served.get(&format!("/v1/policy?project={}", project.display())).expect(200);
        let own = shown.json()["project_policy"].clone();
        assert_eq!(own["accepted"], true, "round {round}: {own}");
        let file = std::fs::read(project.join(".glasshouse/policy.yaml")).unwrap();
        assert_eq!(own["digest"], json!(Digest::of(&file)), "round {round}");
        assert!(texts.iter().any(|text| text.as_bytes() == file), "round {round}");
    }
    place.run(&["audit", "verify"]).expect_status(0);
    place.run(&["audit", "check-state"]).expect_status(0);
}

/// The failure: a file that somebody changed while it was being accepted was accepted as it had been, beside another one.
#[test]
fn a_file_that_was_changed_since_it_was_read_is_not_accepted() {
    let place = Place::new();
    let project = place.shell_project();
    let shipped = place.run(&["policy", "show", "--shipped"]).expect_status(0).stdout;
    let file = project.join(".glasshouse/policy.yaml");
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_glasshouse"));
    let kernel = glasshouse_kernel::Kernel::open(&place.home(), program).unwrap();
    std::fs::write(&file, &shipped).unwrap();
    let read = kernel.project_policy(&project).unwrap().unwrap();
    let check = |now: Option<&str>, expected: Option<&str>| {
        match now {
            Some(text) => std::fs::write(&file, text).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let accepted = kernel.accept_policy(&read, &kernel.person());
        let code = accepted.as_ref().err().map(|error| error.code());
        assert_eq!(code, expected, "{now:?}");
        let is_accepted = kernel.project_policy(&project).unwrap().is_some_and(|own| own.accepted);
        assert_eq!(is_accepted, expected.is_none(), "{now:?}");
    };
    check(Some("capabilities: []\n"), Some("policy_changed"));
    check(None, Some("policy_changed"));
    check(Some(&shipped), None);
}

/// A server that makes no sandbox still takes away what earlier processes left.
#[test]
fn a_server_sweeps_when_it_starts() {
    let place = Place::new();
    let left = place.home().join("run/b_unknown");
    std::fs::create_dir_all(&left).unwrap();
    let _served = Served::new(&place);
    let begun = std::time::Instant::now();
    while left.exists() {
        assert!(begun.elapsed() < crate::client::PATIENCE, "it was not removed");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

const RUN: &str = "version: 1
steps:
  - emit: [ { call: { id: a, tool: shell.run, args: { script: 'sleep 3' } } } ]
  - emit: [ { text: done } ]
";

#[test]
fn sandboxes_are_listed_while_they_run_and_usage_is_counted() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    assert_eq!(served.get("/v1/sandboxes").expect(200).json()["sandboxes"], json!([]));
    assert_eq!(served.get("/v1/usage").expect(200).json()["days"], json!([]));
    let session = served.session(&project, RUN);
    let mut stream = served.events_of(&session);
    served.turn(&session, "go");
    stream.until("tool.started");
    let running = served.get("/v1/sandboxes").expect(200).json();
    let first = &running["sandboxes"][0];
    assert_eq!(
        (&first["session"], &first["state"]),
        (&json!(session), &json!("live")),
        "{running}"
    );
    let path = format!("/v1/sandboxes/{}", first["sandbox"].as_str().unwrap());
    assert_eq!(served.get(&path).expect(200).json()["template"], first["template"]);
    stream.until("turn.completed");
    let ended = served.get(&format!("/v1/sandboxes?session={session}")).expect(200).json();
    assert_eq!(ended["sandboxes"].as_array().unwrap().len(), 1, "{ended}");
    assert_eq!(served.get("/v1/sandboxes/none").expect(404).code(), "sandbox_not_found");
    // Its process has let go of it, but the session may go on in it.
    assert_eq!(ended["sandboxes"][0]["state"], "live", "{ended}");
    let swept = served.post("/v1/sandboxes/sweep", &json!({ "dry_run": true })).expect(200).json();
    assert_eq!(swept["dry_run"], true);
    let usage = served.get("/v1/usage?days=1").expect(200).json();
    assert_eq!((&usage["days"][0]["turns"], &usage["total"]["answers"]), (&json!(1), &json!(2)));
    assert!(usage["stored_bytes"].as_u64().unwrap() > 0, "{usage}");
    assert_eq!(served.get("/v1/usage?days=32").status, 400);
}
