//! Ctrl-C leaves a session that can be resumed.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use glasshouse_model::Kind;

use crate::harness::{Place, assert_each_ended_once, count, statuses};

#[test]
fn e2e_cancel_in_the_middle_of_a_command() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: slow, tool: shell.run, args: { script: 'echo begun; sleep 300' } } } ]
  - expect: { results: { slow: cancelled } }
    emit: [ { text: 'It was stopped.' } ]
";
    let mut running = place.spawn(place.scenario_command(&project, yaml));
    let session = place.wait_for("the command", |events| count(events, &Kind::ToolStarted) == 1);
    let pressed = Instant::now();
    running.interrupt();
    assert_eq!(running.wait(Duration::from_secs(10)), Some(130));
    assert!(pressed.elapsed() < Duration::from_secs(5), "{:?}", pressed.elapsed());
    let (_, events) = place.events();
    assert_each_ended_once(&events);
    assert_eq!(statuses(&events), [("slow".to_owned(), "cancelled".to_owned())]);
    assert_eq!(count(&events, &Kind::TurnCancelled), 1);

    let resumed = place.run(&["session", "resume", session.as_str(), "--json"]).expect_status(0);
    assert_eq!(resumed.last()["outcome"], "answered");
    assert_each_ended_once(&place.events().1);
}

/// A key at a terminal reaches every process of the foreground group, not the program alone.
#[test]
fn e2e_cancel_by_the_key_at_a_terminal() {
    let place = Place::new();
    let project = place.shell_project();
    let scenario = place.path("scenario.yaml");
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: slow, tool: shell.run, args: { script: 'echo begun; sleep 300' } } } ]
  - expect: { results: { slow: cancelled } }
    emit: [ { text: 'It was stopped.' } ]
";
    std::fs::write(&scenario, yaml).unwrap();
    let line = format!(
        "'{}' 'do it' --provider scripted --scenario '{}'",
        env!("CARGO_BIN_EXE_glasshouse"),
        scenario.display()
    );
    let mut child = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .current_dir(&project)
        .env("GLASSHOUSE_HOME", place.home())
        .env("XDG_CONFIG_HOME", place.path("config"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let session = place.wait_for("the command", |events| count(events, &Kind::ToolStarted) == 1);
    child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    let output = child.wait_with_output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{shown}");
    let (_, events) = place.events();
    assert_each_ended_once(&events);
    assert_eq!(statuses(&events), [("slow".to_owned(), "cancelled".to_owned())], "{shown}");
    assert_eq!(count(&events, &Kind::TurnCancelled), 1, "{shown}");

    let resumed = place.run(&["session", "resume", session.as_str(), "--json"]).expect_status(0);
    assert_eq!(resumed.last()["outcome"], "answered");
}
