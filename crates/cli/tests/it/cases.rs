//! Cases that users of agent runtimes reported; each test is named after its case.

use std::time::{Duration, Instant};

use glasshouse_model::Kind;

use crate::harness::{Place, assert_each_ended_once, count, statuses};

/// A7: a session must not be lost when the process dies right after it was acknowledged.
#[test]
fn e2e_a7_a_killed_session_is_listed_interrupted_and_resumes() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - delay_ms: 3000
    expect: { user_contains: do it }
    emit: [ { text: 'It prints one.' } ]
";
    let mut running = place.spawn(place.scenario_command(&project, yaml));
    let session = place.wait_for("the request", |events| count(events, &Kind::ModelRequested) == 1);
    running.kill_9();
    let list = place.run(&["session", "list", "--json"]).expect_status(0).last();
    assert_eq!(list["session"], session.as_str());
    assert_eq!(list["state"], "interrupted");
    assert_eq!(list["task"], "do it");
    let resumed = place.run(&["session", "resume", session.as_str(), "--json"]).expect_status(0);
    assert_eq!(resumed.last()["outcome"], "answered");
    assert_each_ended_once(&place.events().1);
}

/// D10: a background child that holds the pipe must not hold the call.
#[test]
fn e2e_d10_a_background_child_does_not_hold_the_call() {
    let place = Place::new();
    let started = Instant::now();
    let ran =
        place.run(&["sandbox", "run", "--json", "--", "sh", "-c", "setsid sleep 300 & echo hi"]);
    let took = started.elapsed();
    assert_eq!(ran.last()["exit_code"], 0, "{ran:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");

    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: shell.run, args: { script: 'setsid sleep 300 & echo hi' } } } ]
  - expect: { results: { a: completed }, result_contains: { a: [hi, '1 background processes were ended'] } }
    emit: [ { text: done } ]
";
    place.scenario(&project, yaml).expect_status(0);
    let (_, events) = place.events();
    let end = events
        .iter()
        .find(|event| *event.kind() == Kind::ToolCompleted && event.body["exit_code"] == 0);
    assert_eq!(end.unwrap().body["background_processes"], 1);
}

/// D11: after a timeout nothing of the command goes on.
#[test]
fn e2e_d11_a_timeout_ends_every_descendant() {
    let place = Place::new();
    let project = place.shell_project();
    let script = "trap \"\" TERM; echo begun; (trap \"\" TERM; sleep 3; echo late > tests/sentinel) & sleep 60";
    let yaml = format!(
        "
version: 1
steps:
  - emit: [ {{ call: {{ id: plan, tool: plan.complete, args: {{ summary: x }} }} }} ]
  - emit: [ {{ call: {{ id: a, tool: shell.run, args: {{ timeout_ms: 1000, script: '{script}' }} }} }} ]
  - expect: {{ results: {{ a: timed_out }}, result_contains: {{ a: begun }} }}
    emit: [ {{ call: {{ id: wait, tool: shell.run, args: {{ script: 'sleep 4; ls tests' }} }} }} ]
  - expect: {{ results: {{ wait: completed }}, result_lacks: {{ wait: sentinel }} }}
    emit: [ {{ text: done }} ]
"
    );
    place.scenario(&project, &yaml).expect_status(0);
    let (_, events) = place.events();
    let end = events.iter().find(|event| *event.kind() == Kind::ToolTimedOut).unwrap();
    assert!(end.body["duration_us"].as_u64().unwrap() < 3_000_000, "{}", end.body);
}

/// F10: a run that nobody attends never waits for an answer.
#[test]
fn e2e_f10_without_an_approver_the_call_is_denied_at_once() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: risky, tool: shell.run, args: { argv: [rm, -rf, /tmp/x] } } } ]
  - expect: { results: { risky: denied }, result_contains: { risky: no_approver } }
    emit: [ { text: 'I could not do it.' } ]
";
    let started = Instant::now();
    place.scenario(&project, yaml).expect_status(4);
    assert!(started.elapsed() < Duration::from_secs(10));
    let (_, events) = place.events();
    let asked = events.iter().find(|event| *event.kind() == Kind::ApprovalRequested).unwrap();
    let denied = events.iter().find(|event| *event.kind() == Kind::ToolDenied).unwrap();
    assert_eq!(denied.body["code"], "no_approver");
    assert!(denied.header.time_us - asked.header.time_us < 1_000_000);
}

/// G3: arguments that cannot be read are never guessed.
#[test]
fn e2e_g3_bad_arguments_are_not_run() {
    for text in ["{\"path\":\"a", "", "[]", "{\"path\":\"a\"}{\"path\":\"b\"}"] {
        let place = Place::new();
        let project = place.shell_project();
        let yaml = format!(
            "
version: 1
steps:
  - emit: [ {{ call: {{ id: bad, tool: fs.read, args_text: {text:?} }} }} ]
  - expect: {{ results: {{ bad: failed }}, result_contains: {{ bad: invalid_arguments }} }}
    emit: [ {{ text: done }} ]
"
        );
        place.scenario(&project, &yaml).expect_status(0);
        let (_, events) = place.events();
        assert_eq!(count(&events, &Kind::ToolStarted), 0, "{text:?}");
        assert_eq!(statuses(&events), [("bad".to_owned(), "failed".to_owned())]);
    }
}

/// H1: output that ends inside a character neither panics nor is lost.
#[test]
fn e2e_h1_output_cut_inside_a_character() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: shell.run, args: { script: 'head -c 16383 /dev/zero | tr \"\\0\" a; printf \"\\342\\224\\200\"; head -c 20000 /dev/zero | tr \"\\0\" b' } } } ]
  - expect: { results: { a: completed } }
    emit: [ { text: done } ]
";
    place.scenario(&project, yaml).expect_status(0);
    let (_, events) = place.events();
    let end = events.iter().find(|event| *event.kind() == Kind::ToolCompleted).unwrap();
    assert_eq!(end.body["truncated"], true);
    assert_eq!(end.body["output"]["bytes"], 16_383 + 3 + 20_000);
    let whole =
        place.log().blob(&end.body["output"]["blob"].as_str().unwrap().parse().unwrap()).unwrap();
    assert_eq!(whole.len(), 16_383 + 3 + 20_000);
}

/// I3: a merge never undoes what the user did meanwhile, and an overlapping edit is a conflict.
#[test]
fn e2e_i3_files_that_came_meanwhile_stay() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: plan, tool: plan.complete, args: { summary: print two } } } ]
  - emit:
      - { call: { id: t, tool: fs.write, args: { path: tests/t_two.sh, content: \"sh src/tool.sh | grep -q two\\n\" } } }
      - { call: { id: red, tool: test.run, args: {} } }
  - delay_ms: 1500
    emit:
      - { call: { id: w, tool: fs.write, args: { path: src/two.sh, content: \"echo two\\n\" } } }
      - { call: { id: e, tool: fs.edit, args: { path: src/tool.sh, old: \"echo one\\n\", new: \"echo one\\nsh src/two.sh\\n\" } } }
      - { call: { id: green, tool: test.run, args: {} } }
  - emit: [ { call: { id: c, tool: git.commit, args: { message: print two } } } ]
  - expect: { results: { c: completed } }
    emit: [ { text: done } ]
";
    let mut running = place.spawn(place.scenario_command(&project, yaml));
    place.wait_for("the red test", |events| count(events, &Kind::TestEvidence) == 1);
    std::fs::write(project.join("NEW.md"), "mine\n").unwrap();
    crate::harness::git(&project, &["add", "NEW.md"]);
    crate::harness::git(&project, &["commit", "-q", "-m", "meanwhile"]);
    assert_eq!(running.wait(Duration::from_secs(30)), Some(0));
    assert_eq!(std::fs::read_to_string(project.join("NEW.md")).unwrap(), "mine\n");
    let files = crate::harness::git(&project, &["ls-tree", "-r", "--name-only", "HEAD"]);
    assert!(files.contains("NEW.md") && files.contains("src/two.sh"), "{files}");
}
