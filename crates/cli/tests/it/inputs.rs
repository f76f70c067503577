//! What a person types and names: refused early, with the right code, and never read without end.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use glasshouse_model::body::PolicyDecided;
use glasshouse_model::{Effect, Event, Kind};

use crate::harness::{Place, count};

#[test]
fn e2e_arguments_that_cannot_be_used_end_with_status_2() {
    let place = Place::new();
    let check = |arguments: &[&str], code: &str, words: &str| {
        let ran = place.run(arguments).expect_status(2);
        let error = ran.last()["error"].clone();
        assert_eq!(error["code"], code, "{arguments:?}: {error}");
        assert!(error.to_string().contains(words), "{arguments:?}: {error}");
        assert!(!error["fix"].as_str().unwrap().contains("named key"), "{arguments:?}: {error}");
    };
    let run = ["sandbox", "run", "--json"];
    let with = |more: &[&'static str]| {
        let all = run.iter().chain(more).chain(&["--", "true"]);
        all.copied().collect::<Vec<&str>>()
    };
    check(&with(&["--timeout", "5"]), "usage", "--timeout");
    check(&with(&["--timeout", "0s"]), "usage", "zero");
    check(&with(&["--merge"]), "usage", "required");
    check(&with(&["--backend", "moon"]), "usage", "moon");
    check(&with(&["--workspace", "/no/such/place"]), "project_unreadable", "no directory");
    let script = ["--template", "script", "--allow-host", "example.org"];
    check(&with(&script), "network_unavailable", "integration-test");
    check(&with(&["--allow-host", "*.com"]), "egress_invalid", "top-level");
    check(&with(&["--allow-host", "http://a.example"]), "egress_invalid", "host name");
    check(&with(&["--allow-host", "127.0.0.1"]), "egress_invalid", "public Internet");
    check(&["audit", "log", "--kind", "nosuch", "--json"], "usage", "no such kind");
    check(&["audit", "blob", "12", "--json"], "usage", "");
    let call = r#"{"syscall":"fs.read","path":"a"}"#;
    check(&["policy", "check", "--json", "--state", "flying", "--call", call], "usage", "planning");
}

/// The failure: of what the command line got wrong a part ended `sandbox run` with 125, as its own failures do.
#[test]
fn e2e_sandbox_run_ends_with_125_only_for_its_own_failures() {
    let place = Place::new();
    place.log();
    let around = place.path("");
    let around = around.to_str().unwrap();
    let check = |place: &Place, more: &[&str], status: i32, code: &str, words: &str| {
        let ran = place.run(&[&["sandbox", "run"][..], more, &["--", "true"]].concat());
        assert_eq!(ran.status, Some(status), "{more:?}: {ran:?}");
        for text in [format!("[{code}]").as_str(), words, "\n  why: ", "\n  fix: "] {
            assert!(ran.stderr.contains(text), "{more:?}: {ran:?}");
        }
    };
    check(&place, &["--workspace", "nowhere"], 2, "project_unreadable", "it is no directory");
    check(&place, &["--workspace", around], 2, "project_unreadable", "a directory of its own");
    check(&place, &["--root", around], 2, "project_unreadable", "a directory of its own");
    check(&place, &["-e", "NOT_SET_AT_ALL"], 2, "usage", "write --env NOT_SET_AT_ALL=VALUE");
    check(&place, &["--cwd", "../x"], 2, "usage", "relative to the workspace");
    check(&place, &["--timeout", "2"], 2, "usage", "has no unit");
    check(&place, &["--tty"], 2, "usage", "--tty");
    let place = Place::new();
    std::fs::write(place.home(), "no directory").unwrap();
    check(&place, &[], 125, "storage_failed", "");
}

/// A file without an end, without a writer or without a text is refused, whatever it is named for.
#[test]
fn e2e_inputs_are_regular_files_of_a_limited_size() {
    let place = Place::new();
    let project = place.shell_project();
    let path = |name: &str| place.path(name).display().to_string();
    let pipe = path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let large = path("large");
    std::fs::File::create(&large).unwrap().set_len(1 << 30).unwrap();
    let directory = path("");
    let call = r#"{"syscall":"fs.read","path":"a"}"#;
    let inputs: [(&str, &str); 5] = [
        ("/dev/zero", "no regular file"),
        (&pipe, "no regular file"),
        (&directory, "no regular file"),
        (&large, "the limit is"),
        ("/no/such/file", "No such file"),
    ];
    for (file, words) in inputs {
        let commands: [&[&str]; 7] = [
            &["x", "--provider", "scripted", "--scenario", file, "--json"],
            &["policy", "check", "--json", "--policy", file, "--call", call],
            &["policy", "simulate", file, "--json"],
            &["ui", "check", file, "--json"],
            &["ui", "stream", file, "--json"],
            &["ui", "render-plan", file, "--json"],
            &["audit", "check", file, "--json"],
        ];
        for arguments in commands {
            // A log to look into, where a command looks for one first.
            place.log();
            let mut command = place.command(arguments);
            command.current_dir(&project);
            let mut running = place.spawn(command);
            assert_eq!(running.wait(Duration::from_secs(10)), Some(2), "{arguments:?}");
            let told = std::fs::read_to_string(place.path("stdout")).unwrap();
            assert!(told.contains("input_unreadable"), "{arguments:?}: {told}");
            assert!(told.contains(words), "{arguments:?}: {told}");
        }
    }
}

#[test]
fn e2e_sandbox_run_tells_what_it_merged() {
    let place = Place::new();
    let dir = place.path("work");
    std::fs::create_dir_all(&dir).unwrap();
    let workspace = dir.display().to_string();
    let check = |script: &str, status: i32, json: (bool, Option<&str>), words: &str| {
        for form in [None, Some("--json")] {
            let mut arguments = vec!["sandbox", "run", "--merge", "--timeout", "1s"];
            arguments.extend(["--workspace", &workspace]);
            arguments.extend(form);
            arguments.extend(["--", "sh", "-c", script]);
            let ran = place.run(&arguments).expect_status(status);
            if form.is_some() {
                let last = ran.last();
                assert_eq!(
                    (last["merged"].as_bool(), last["reason"].as_str()),
                    (Some(json.0), json.1)
                );
            } else {
                assert!(ran.stderr.contains(words), "{script}: {ran:?}");
            }
        }
    };
    check("echo 1 > a", 0, (true, None), "merged 1 files into");
    assert_eq!(std::fs::read_to_string(dir.join("a")).unwrap(), "1\n");
    check("echo 2 > a; exit 3", 3, (false, None), "nothing was merged");
    check("echo 2 > a; sleep 60", 124, (false, Some("timed_out")), "nothing was merged");
    assert_eq!(std::fs::read_to_string(dir.join("a")).unwrap(), "1\n");
}

/// The failure: a refused merge ended the finished call a second time, as failed.
#[test]
fn e2e_a_refused_merge_does_not_end_the_call_again() {
    let place = Place::new();
    let dir = place.path("work");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o755)).unwrap();
    let workspace = dir.display().to_string();
    let script = "mkdir .glasshouse; echo x > .glasshouse/policy.yaml";
    let run = ["sandbox", "run", "--merge", "--workspace", &workspace, "--", "sh", "-c", script];
    let ran = place.run(&run).expect_status(3);
    assert!(ran.stderr.contains("policy_denied"), "{ran:?}");
    let (session, events) = place.events();
    let is_denial = |event: &&Event| {
        let decided = event.body_as::<PolicyDecided>();
        decided.is_ok_and(|decided| decided.decision.effect == Effect::Deny)
    };
    let denied = events.iter().find(is_denial).unwrap().seq();
    let explain = format!("policy explain --session {session} --at {denied}");
    assert!(ran.stderr.contains(&explain), "{explain}: {ran:?}");
    crate::harness::assert_each_ended_once(&events);
    assert_eq!(count(&events, &Kind::MergeFailed), 1);
}

/// The failure: a command's changes to how the project is built went in although a rule wanted a
/// person to look; the log said that one had agreed, to a number of files.
#[test]
fn e2e_a_merge_of_one_command_is_looked_at_where_a_rule_wants_it() {
    let check = |script: &str, yes: &[&str], answer: Option<&str>, merged: bool| {
        let place = Place::new();
        let dir = place.path("work");
        std::fs::create_dir_all(&dir).unwrap();
        for name in ["Makefile", "a"] {
            std::fs::write(dir.join(name), "all:\n").unwrap();
        }
        let workspace = dir.display().to_string();
        let mut run = vec!["sandbox", "run", "--json", "--workspace", &workspace, "--merge"];
        run.extend(yes);
        run.extend(["--", "sh", "-c", script]);
        let ran = place.run(&run);
        assert_eq!(ran.status == Some(0), merged, "{script}: {ran:?}");
        let (_, events) = place.events();
        let of = |kind: &Kind| events.iter().find(|e| e.kind() == kind).map(|e| e.body.clone());
        let asked = of(&Kind::ApprovalRequested);
        let resolved = of(&Kind::ApprovalResolved).map(|body| body["code"].clone());
        assert_eq!(resolved, answer.map(serde_json::Value::from), "{script}");
        let wanted = if merged { Kind::MergeApplied } else { Kind::MergeFailed };
        assert_eq!(count(&events, &wanted), 1, "{script}");
        let Some(asked) = asked else { return };
        // What was shown is in the log, word for word.
        let shown = asked["args_digest"].as_str().unwrap();
        let diff = place.run(&["audit", "blob", shown]).expect_status(0).stdout;
        assert!(diff.contains("+evil"), "{script}: {diff}");
    };
    check("echo more >> a", &[], None, true);
    check("echo evil: >> Makefile", &[], Some("no_approver"), false);
    check("echo evil: >> Makefile", &["--yes"], Some("approved_in_advance"), true);
    check("rm a", &[], None, true);
}

#[test]
fn e2e_audit_blob_prints_the_bytes() {
    let place = Place::new();
    let script = "printf 'a\\000\\377b'";
    let ran = place.run(&["sandbox", "run", "--json", "--", "sh", "-c", script]).expect_status(0);
    let digest = ran.last()["stdout_blob"].as_str().unwrap().to_owned();
    let output = place.command(&["audit", "blob", &digest]).output().unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(0), &b"a\0\xffb"[..]));
    let unknown = format!("sha256:{}", "0".repeat(64));
    let ran = place.run(&["audit", "blob", &unknown]).expect_status(10);
    assert!(ran.stderr.contains("blob_not_found"), "{ran:?}");
}
