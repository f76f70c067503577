//! Who runs it, who owns a session, who approves.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use glasshouse_model::Kind;
use serde_json::json;

use crate::harness::{Place, assert_each_ended_once, count, skipped};
use crate::repositories::{calls, says, serve};

/// An ordinary user without any right of root plays the whole story.
#[test]
fn e2e_demo_as_an_ordinary_user() {
    const USER: u32 = 65_534;
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if !root {
        // Whoever runs the tests is an ordinary user, so every other test shows it.
        return;
    }
    let place = Place::new();
    let home = place.path("ordinary");
    std::fs::create_dir_all(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(USER), Some(USER)).unwrap();
    std::fs::set_permissions(place.path(""), PermissionsExt::from_mode(0o755)).unwrap();
    let program = place.path("glasshouse");
    std::fs::copy(env!("CARGO_BIN_EXE_glasshouse"), &program).unwrap();
    let output = Command::new("setpriv")
        .args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups", "--"])
        .arg(&program)
        .args(["demo", "--json"])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", &home)
        .current_dir(&home)
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(7) || stdout.contains("isolation_unavailable") {
        skipped("e2e_demo_as_an_ordinary_user", "unprivileged user namespaces are switched off");
        return;
    }
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let last: serde_json::Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["outcome"], "committed");
    assert!(last["isolation"].as_str().unwrap().starts_with("native:"), "{last}");
}

/// A14: a session has one owner; a second process is told so and changes nothing.
#[test]
fn e2e_a14_a_running_session_cannot_be_taken_over() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - delay_ms: 4000
    emit: [ { text: 'It prints one.' } ]
";
    let mut running = place.spawn(place.scenario_command(&project, yaml));
    let session = place.wait_for("the request", |events| count(events, &Kind::ModelRequested) == 1);
    let second = place.run(&["session", "resume", session.as_str(), "--json"]).expect_status(8);
    assert_eq!(second.last()["error"]["code"], "session_owned");
    assert_eq!(running.wait(Duration::from_secs(30)), Some(0));
    assert_each_ended_once(&place.events().1);
}

/// A person at a terminal is asked, sees what for, and the answer counts once; by a scenario that answers
/// nothing itself as by a model.
#[test]
fn e2e_review_in_the_terminal() {
    let risky = json!({ "argv": ["rm", "-rf", "/tmp/x"] });
    let scenario = format!(
        "version: 1\nsteps:\n  - emit: [ {{ call: {{ id: a, tool: shell.run, args: {risky} }} }} ]\n  \
         - emit: [ {{ text: Done. }} ]\n"
    );
    let check = |is_played: bool, answer: &str, expected: &str| {
        let place = Place::new();
        let project = place.shell_project();
        let (url, _requests) = serve(vec![calls(&[("shell.run", risky.clone())]), says("Done.")]);
        let file = place.path("scenario.yaml");
        std::fs::write(&file, &scenario).unwrap();
        let program = env!("CARGO_BIN_EXE_glasshouse");
        let model = match is_played {
            true => format!("--scenario '{}'", file.display()),
            false => format!("--provider openai-compatible --base-url {url} --model m"),
        };
        let mut child = Command::new("script")
            .args(["-qec", &format!("'{program}' 'clean up' {model}"), "/dev/null"])
            .current_dir(&project)
            .env("GLASSHOUSE_HOME", place.home())
            .env("XDG_CONFIG_HOME", place.path("config"))
            .env_remove("OPENAI_API_KEY")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Whoever answers has seen the question: what is typed before it is not taken for an answer.
        let mut shown = String::new();
        let mut terminal = child.stdout.take().unwrap();
        let mut letter = [0];
        while !shown.ends_with("Approve this once? [y/n]") {
            assert_eq!(terminal.read(&mut letter).unwrap(), 1, "it ended without asking: {shown}");
            shown.push(char::from(letter[0]));
        }
        child.stdin.as_mut().unwrap().write_all(answer.as_bytes()).unwrap();
        terminal.read_to_end(&mut Vec::new()).unwrap();
        child.wait().unwrap();
        let (_, events) = place.events();
        let resolved = events.iter().find(|e| *e.kind() == Kind::ApprovalResolved).unwrap();
        assert_eq!(resolved.body["code"], expected, "{shown}");
        assert_eq!(resolved.body["approver"], json!({ "type": "user", "id": "local" }));
        assert_each_ended_once(&events);
    };
    check(false, "y\n", "approved");
    check(false, "n\n", "rejected");
    check(false, "what\ny\n", "approved");
    check(true, "y\n", "approved");
    check(true, "n\n", "rejected");
}

/// What a session says last: the whole reason, the code once, and what to do with this session.
#[test]
fn e2e_the_last_words_of_a_failed_session() {
    let long = "x".repeat(190);
    let place = Place::new();
    let project = place.shell_project();
    let yaml = format!(
        "
version: 1
steps:
  - emit: [ {{ call: {{ id: a, tool: fs.read, args: {{ path: src/tool.sh }} }} }} ]
  - expect: {{ result_contains: {{ a: ['{long}'] }} }}
    emit: [ {{ text: done }} ]
"
    );
    let ran = place.scenario(&project, &yaml).expect_status(6);
    let told: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (session, _) = place.events();
    let error = &told[told.len() - 2]["error"];
    assert_eq!(error["code"], "scenario_mismatch");
    let why = error["why"].as_str().unwrap();
    assert!(why.contains(&long) && !why.contains("scenario_mismatch"), "{why}");
    assert!(error["fix"].as_str().unwrap().contains(session.as_str()), "{error}");
    assert_eq!(ran.last()["outcome"], "failed");

    let mut command = place.scenario_command(&project, &yaml);
    command.env("GLASSHOUSE_HOME", place.path("other"));
    let arguments: Vec<_> =
        command.get_args().filter(|it| *it != "--json").map(ToOwned::to_owned).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_glasshouse"))
        .args(arguments)
        .current_dir(&project)
        .env("GLASSHOUSE_HOME", place.path("other"))
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert_eq!(shown.matches("scenario_mismatch").count(), 1 + 1, "{shown}");
    assert!(shown.contains(&long) && shown.contains("  fix: "), "{shown}");
}

/// A machine that gives no isolation is no place where a question was answered.
#[test]
fn e2e_a_session_without_isolation_ends_with_status_7() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: shell.run, args: { argv: ['true'] } } } ]
  - expect: { result_contains: { a: [isolation_unavailable] } }
    emit: [ { text: 'It works.' } ]
";
    let inner = place.scenario_command(&project, yaml);
    // In this namespace no other can be made, so there is nothing to isolate a command with.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces || exit 99; exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script, "sh"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .current_dir(&project)
        .env("GLASSHOUSE_HOME", place.home())
        .env("XDG_CONFIG_HOME", place.path("config"))
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    if !matches!(output.status.code(), Some(code) if code != 99 && !shown.is_empty()) {
        let reason = "no user namespace without the right to make others";
        return skipped("e2e_a_session_without_isolation_ends_with_status_7", reason);
    }
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let last: serde_json::Value = serde_json::from_str(shown.lines().last().unwrap()).unwrap();
    assert_eq!((&last["outcome"], &last["isolation"]), (&"failed".into(), &json!(null)));
    assert!(shown.contains(r#""code":"isolation_unavailable""#), "{shown}");
}
