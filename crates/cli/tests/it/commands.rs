//! Commands whose output is a contract.

use glasshouse_model::Kind;

use crate::harness::{Place, count, skipped};

#[test]
fn e2e_sandbox_run_passes_status_streams_and_changes_nothing() {
    let check = |argv: &[&str], status: i32, stdout: &str| {
        let place = Place::new();
        let mut arguments = vec!["sandbox", "run", "--"];
        arguments.extend(argv);
        let ran = place.run(&arguments).expect_status(status);
        assert_eq!(ran.stdout, stdout, "{argv:?}: {}", ran.stderr);
    };
    check(&["echo", "hello"], 0, "hello\n");
    check(&["sh", "-c", "exit 7"], 7, "");
    check(&["/no/such/program"], 127, "");
    check(&["/etc/passwd"], 126, "");

    let place = Place::new();
    let dir = place.path("work");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("a"), "1\n").unwrap();
    let workspace = dir.display().to_string();
    let run = [
        "sandbox",
        "run",
        "--json",
        "--workspace",
        &workspace,
        "--",
        "sh",
        "-c",
        "echo 2 > a; echo 3 > b",
    ];
    let last = place.run(&run).expect_status(0).last();
    assert_eq!(last["exit_code"], 0);
    assert_eq!(
        last["changes"],
        serde_json::json!([
            { "path": "a", "change": "modified" }, { "path": "b", "change": "added" }
        ])
    );
    assert_eq!(std::fs::read_to_string(dir.join("a")).unwrap(), "1\n");
    assert!(!dir.join("b").exists());

    let asked = ["sandbox", "run", "--json", "--allow-host", "a.example", "--", "true"];
    assert_eq!(place.run(&asked).expect_status(0).last()["connections"], serde_json::json!([]));
}

#[test]
fn e2e_sandbox_run_takes_system_calls_from_a_checked_file() {
    let place = Place::new();
    let file = place.path("calls.yaml");
    let (file, child) = (file.to_str().unwrap(), "(exit 0) && echo child");
    let run = |text: &str| {
        std::fs::write(file, text).unwrap();
        place.run(&["sandbox", "run", "--json", "--seccomp", file, "--", "sh", "-c", child])
    };
    assert_ne!(run("base: strict\n").last()["exit_code"], 0);
    assert_eq!(run("base: strict\nallow: [clone, fork, vfork, wait4]\n").last()["exit_code"], 0);
    let check = |text: &str, says: &str| {
        let refused = run(text).expect_status(2).last();
        assert_eq!(refused["error"]["code"], "sandbox_calls_invalid", "{refused}");
        assert!(refused.to_string().contains(says), "{text}: {refused}");
    };
    check("base: strict\nallow: [wait5]\n", "did you mean `wait4`?");
    check("base: strict\nallow: [mount]\n", "cannot be allowed");
    check("allow: [wait4]\n", "base");
    // The record says what was in force.
    let place = Place::new();
    let file = place.path("calls.yaml");
    std::fs::write(&file, "base: strict\n").unwrap();
    place.run(&["sandbox", "run", "--seccomp", file.to_str().unwrap(), "--", "true"]);
    let (_, events) = place.events();
    let proposed = events.iter().find(|event| *event.kind() == Kind::ToolProposed).unwrap();
    let proposed: serde_json::Value = proposed.body_as().unwrap();
    assert!(proposed.to_string().contains("strict"), "{proposed}");

    let missing = place.run(&["sandbox", "run", "--json", "--root", "/no/image", "--", "true"]);
    assert_eq!(missing.last()["error"]["code"], "project_unreadable");
    // The system that a command sees is a mount like any other: decided, and never the keys.
    let home = place.home();
    let above = home.parent().unwrap();
    for root in [home.as_path(), above] {
        let refused = place.run(&[
            "sandbox",
            "run",
            "--json",
            "--root",
            root.to_str().unwrap(),
            "--",
            "true",
        ]);
        assert_eq!(refused.last()["error"]["code"], "project_unreadable", "{}", root.display());
    }
    let empty = place.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let empty = empty.to_str().unwrap();
    // No host program is left under an image that has none.
    place.run(&["sandbox", "run", "--root", empty, "--", "/bin/true"]).expect_status(127);
    let (_, events) = place.events();
    let mounted = events.iter().filter(|event| *event.kind() == Kind::PolicyDecided).any(|event| {
        let body: serde_json::Value = event.body_as().unwrap();
        body["syscall"] == "sandbox.mount" && body["input"]["host_path"] == empty
    });
    assert!(mounted, "the root was not decided");
}

#[test]
fn e2e_sandbox_run_uses_the_programs_of_an_image() {
    let busybox = std::path::Path::new("/bin/busybox");
    if !busybox.exists() {
        return skipped("e2e_sandbox_run_uses_the_programs_of_an_image", "no static busybox");
    }
    let place = Place::new();
    let image = place.path("image");
    std::fs::create_dir_all(image.join("bin")).unwrap();
    std::fs::create_dir_all(image.join("etc")).unwrap();
    std::fs::copy(busybox, image.join("bin/busybox")).unwrap();
    std::os::unix::fs::symlink("busybox", image.join("bin/sh")).unwrap();
    std::fs::write(image.join("etc/motd"), "of the image\n").unwrap();
    let image = image.to_str().unwrap();
    let script = "busybox cat /etc/motd; busybox ls /bin; busybox touch /bin/x || exit 3";
    let ran = place.run(&["sandbox", "run", "--root", image, "--", "sh", "-c", script]);
    assert_eq!(ran.expect_status(3).stdout, "of the image\nbusybox\nsh\n");
    let own = place.run(&["sandbox", "run", "--", "sh", "-c", "cat /etc/motd"]);
    assert_ne!(own.stdout, "of the image\n", "the control");
}

#[test]
fn e2e_policy_check_follows_the_contract() {
    let place = Place::new();
    let dir = place.path("work");
    std::fs::create_dir_all(dir.join("src")).unwrap();
    std::fs::write(
        dir.join("p.yaml"),
        "capabilities:\n  - name: tests-first\n    match: { syscall: fs.write, path_glob: [\"tests/**\"] }\n    \
         action: allow\n  - name: docker\n    match: { syscall: fs.write, path_glob: [Dockerfile] }\n    \
         action: require_review\n    reason: how it is built\n",
    )
    .unwrap();
    std::os::unix::fs::symlink("../.git", dir.join("src/innocent")).unwrap();
    std::fs::create_dir_all(dir.join(".git")).unwrap();
    let check = |call: &str, status: i32, decision: &str, words: &str| {
        let ran = place
            .run_in(&dir, &["policy", "check", "--policy", "p.yaml", "--json", "--call", call]);
        assert_eq!(ran.status, Some(status), "{call}: {ran:?}");
        let last = ran.last();
        assert_eq!(last["decision"], decision, "{call}");
        assert!(last["policy_version"].as_str().unwrap().starts_with("sha256:"));
        assert!(last.to_string().contains(words), "{call}: {last}");
    };
    check(r#"{"syscall":"fs.write","path":"tests/a"}"#, 0, "allow", "tests-first");
    check(r#"{"syscall":"fs.write","path":"./tests//a"}"#, 0, "allow", "tests-first");
    check(r#"{"syscall":"fs.write","path":"src/a"}"#, 3, "deny", "");
    check(r#"{"syscall":"fs.write","path":"Dockerfile"}"#, 4, "require_review", "how it is built");
    check(r#"{"syscall":"fs.write","path":"tests/../../x"}"#, 3, "deny", "workspace-boundary");
    check(r#"{"syscall":"fs.write","path":".glasshouse/policy.yaml"}"#, 3, "deny", "");
    check(r#"{"syscall":"fs.write","path":"src/innocent/config"}"#, 3, "deny", ".git");
    check(r#"{"syscall":"tool.unknown"}"#, 3, "deny", "");

    let broken = place.run_in(
        &dir,
        &["policy", "check", "--json", "--policy", "p.yaml", "--call", r#"{"sycall":"x"}"#],
    );
    assert_eq!(broken.status, Some(2), "{broken:?}");
    assert!(broken.last()["error"]["fix"].as_str().is_some());
}

#[test]
fn e2e_ui_commands_refuse_unsafe_plans_with_status_3() {
    let place = Place::new();
    let plan = |tag: &str| {
        let file = place.path(&format!("{tag}.json"));
        let text = format!(
            r#"{{"specVersion":"runtime-plan/v1","id":"p","version":1,"root":{{"type":"element","tag":"{tag}","children":[{{"type":"text","value":"<x>"}}]}}}}"#
        );
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    };
    let good = place.run(&["ui", "render-plan", &plan("p")]).expect_status(0);
    assert_eq!(good.stdout, "<p>&lt;x&gt;</p>\n");
    let bad = place.run(&["ui", "render-plan", &plan("script")]).expect_status(3);
    assert_eq!(bad.stdout, "");
    assert!(bad.stderr.contains("script"), "{bad:?}");
    let checked = place.run(&["ui", "check", &plan("script"), "--json"]).expect_status(3).last();
    assert_eq!(checked["safe"], false);
    assert!(checked["issue_count"].as_u64().unwrap() >= 1);
    let told = place.run(&["ui", "render-plan", &plan("script"), "--json"]).expect_status(3).last();
    assert_eq!(told["error"]["context"]["issues"][0]["code"], "plan_tag_denied");
    let timed = place.run(&["ui", "render-plan", &plan("p"), "--timings"]).expect_status(0);
    let stages: Vec<&str> = timed.stderr.lines().filter_map(|it| it.split(' ').next()).collect();
    let all = ["open", "decide", "history", "keep", "parse", "check", "render", "record"];
    assert_eq!(stages, all, "{timed:?}");
    let probed = place.run(&["ui", "probe-plan", &plan("p"), "--json"]).expect_status(0).last();
    assert_eq!((&probed["ok"], &probed["dependencies"]), (&true.into(), &serde_json::json!([])));
    place.run(&["ui", "probe-plan", &plan("script"), "--json"]).expect_status(3);
    place.run(&["ui", "check", &place.path("none").display().to_string()]).expect_status(2);
}

#[test]
fn e2e_errors_say_what_why_and_fix() {
    let place = Place::new();
    let check = |arguments: &[&str], status: i32, code: &str| {
        let ran = place.run(arguments);
        assert_eq!(ran.status, Some(status), "{arguments:?}: {ran:?}");
        let error = ran.last()["error"].clone();
        assert_eq!(error["code"], code, "{arguments:?}");
        for key in ["what", "why", "fix", "retryable", "context"] {
            assert!(!error[key].is_null(), "{arguments:?}: {key}");
        }
    };
    check(&["session", "show", "s_none", "--json"], 10, "session_not_found");
    check(&["session", "resume", "s_none", "--json"], 10, "session_not_found");
    check(&["x", "--provider", "nobody", "--json"], 2, "config_invalid");
    check(&["x", "--json"], 2, "config_invalid");
    check(&["x", "--mode", "explore", "--provider", "scripted", "--json"], 2, "config_invalid");
    check(&["", "--json"], 2, "usage");
    check(&[" \n", "--json"], 2, "usage");
    check(&["sesion", "--json"], 2, "usage");
    check(&["polcy", "--json"], 2, "usage");
    check(&["fix sesion", "--json"], 2, "config_invalid");
    check(&["hi", "--json"], 2, "config_invalid");
    check(&["config", "get", "nothing", "--json"], 2, "config_invalid");
    check(&["session", "show", "nonsense", "--json"], 2, "usage");
    check(&["audit", "log", "--nope", "--json"], 2, "usage");
}

#[test]
fn e2e_data_that_is_lost_on_its_way_out_is_an_error() {
    let place = Place::new();
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let lost = place.command(&["completions", "bash"]).stdout(full()).status().unwrap();
    let lost_json = place.command(&["config", "get"]).stdout(full()).status().unwrap();
    assert_eq!((lost.code(), lost_json.code()), (Some(9), Some(9)));
}

#[test]
fn e2e_config_round_trips_and_keeps_comments() {
    let place = Place::new();
    let dir = place.path("work");
    std::fs::create_dir_all(&dir).unwrap();
    place.run_in(&dir, &["config", "init"]).expect_status(0);
    place.run_in(&dir, &["config", "init"]).expect_status(2);
    place.run_in(&dir, &["config", "set", "model", "some-model"]).expect_status(0);
    let got = place.run_in(&dir, &["config", "get", "model"]).expect_status(0);
    assert_eq!(got.stdout, "some-model\n");
    let text = std::fs::read_to_string(dir.join(".glasshouse/config.yaml")).unwrap();
    assert!(text.contains("# Glasshouse configuration"), "{text}");
    place.run_in(&dir, &["config", "set", "modell", "x"]).expect_status(2);
    place.run_in(&dir, &["config", "set", "budget.time", "5"]).expect_status(2);
    place.run_in(&dir, &["config", "set", "model.part", "5"]).expect_status(2);
}

#[test]
fn e2e_completions_and_help_name_only_what_is_built() {
    let place = Place::new();
    let script = place.run(&["completions", "bash"]).expect_status(0);
    assert!(script.stdout.contains("glasshouse"), "{}", script.stdout);
    let help = place.run(&["--help"]).expect_status(0).stdout;
    for built in [
        "demo", "serve", "sandbox", "session", "review", "grants", "policy", "audit", "ui",
        "doctor", "config",
    ] {
        assert!(help.contains(built), "{built}");
    }
    for later in ["worker", "plugin", "__sandboxd"] {
        assert!(!help.contains(later), "{later}");
    }
}

#[test]
fn e2e_doctor_reports_levels_by_measurement() {
    let place = Place::new();
    let ran = place.run(&["doctor", "--json"]).expect_status(0);
    let report = ran.last();
    assert_ne!(report["level"], "refused");
    let probes = report["backends"][0]["probes"].as_array().unwrap();
    assert!(probes.len() >= 8, "{report}");
    for probe in probes {
        for key in ["name", "claim", "result"] {
            assert!(probe[key].is_string(), "{probe}");
        }
    }
    let secret = probes.iter().find(|probe| probe["name"] == "read-secret").unwrap();
    assert_eq!(secret["control"], "reached");
    let dns = probes.iter().find(|probe| probe["name"] == "dns").unwrap();
    let told = place.run(&["doctor"]).expect_status(0).stdout;
    assert!(told.contains("; no control: it would ask somebody on the Internet)"), "{told}");
    assert!(dns["control"].as_str().unwrap().starts_with("none: "));
}

/// What commands on a project read of this machine is shown, as the project's policy decides it.
#[test]
fn e2e_doctor_shows_the_toolchains_of_the_project_it_stands_in() {
    let place = Place::new();
    let project = place.shell_project();
    let check = |expected: &[bool]| {
        let report = place.run_in(&project, &["doctor", "--json"]).expect_status(0).last();
        let told = report["toolchains"].as_array().unwrap();
        let ours = told.iter().filter(|tool| tool["name"] == "node-modules");
        let allowed: Vec<_> = ours.map(|tool| tool["is_allowed"].as_bool().unwrap()).collect();
        assert_eq!(allowed, expected, "{report}");
        let lines = place.run_in(&project, &["doctor"]).expect_status(0).stdout;
        assert_eq!(lines.contains("denied by the policy: not mounted"), expected == [false]);
    };
    check(&[]);
    std::fs::write(project.join("package.json"), r#"{"name":"a"}"#).unwrap();
    std::fs::create_dir(project.join("node_modules")).unwrap();
    check(&[true]);
    place.accept_rule(&project, "{ name: none, match: { syscall: sandbox.mount }, action: deny }");
    check(&[false]);
}

#[test]
fn e2e_sandbox_run_passes_its_input_when_asked() {
    let place = Place::new();
    let check = |arguments: &[&str], input: &[u8], expected: &str| {
        let file = place.path("input");
        std::fs::write(&file, input).unwrap();
        let mut command = place.command(arguments);
        command.stdin(std::fs::File::open(&file).unwrap());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{arguments:?}");
    };
    check(&["sandbox", "run", "-i", "--", "cat"], b"hello\n", "hello");
    check(&["sandbox", "run", "--stdin", "--", "wc", "-c"], &[0; 3 << 20], "3145728");
    check(&["sandbox", "run", "-i", "--", "cat"], b"", "");
    // Unasked, a command reads nothing of what may be the rest of a script.
    check(&["sandbox", "run", "--", "cat"], b"hello\n", "");
}

#[test]
fn e2e_a_finished_session_is_told_again_and_a_running_one_is_called_so() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - delay_ms: 3000
    emit: [ { text: 'It prints one.' } ]
";
    let mut running = place.spawn(place.scenario_command(&project, yaml));
    let session = place.wait_for("the request", |events| count(events, &Kind::ModelRequested) == 1);
    let listed = place.run(&["session", "list", "--json"]).expect_status(0).last();
    assert_eq!(listed["state"], "running");
    assert_eq!(running.wait(std::time::Duration::from_secs(30)), Some(0));
    let before = place.events().1.len();
    let again = place.run(&["session", "resume", session.as_str(), "--json"]).expect_status(0);
    assert_eq!(again.last()["outcome"], "answered");
    assert!(again.stderr.contains("nothing to carry on"), "{again:?}");
    assert_eq!(place.events().1.len(), before);
}
