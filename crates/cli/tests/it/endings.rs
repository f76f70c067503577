//! However a session is left, every sandbox that it made has one end in the log.

use std::time::Duration;

use glasshouse_model::{Event, Kind};

use crate::harness::{COMMITS, Place, assert_each_sandbox_ended_once, count};

/// Leaves a turn that answers, and the sandbox with it.
const ANSWERS: &str = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: shell.run, args: { argv: [echo, one] } } } ]
  - emit: [ { text: done } ]
";
/// The model breaks down after a command.
const FAILS: &str = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: shell.run, args: { argv: [echo, one] } } } ]
";
/// A command that somebody has to end.
const WAITS: &str = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: shell.run, args: { argv: [sleep, '300'] } } } ]
  - emit: [ { text: done } ]
";

/// Codes with which sandboxes ended; empty where that was as it should be.
fn codes(events: &[Event]) -> Vec<&str> {
    events
        .iter()
        .filter(|event| *event.kind() == Kind::SandboxDestroyed)
        .map(|event| event.body["code"].as_str().unwrap_or_default())
        .collect()
}

/// The failure: what happened to a sandbox was told with the next call's events, so of the last one, which no
/// call followed, the log had no end: three were created, and two of them destroyed.
#[test]
fn e2e_the_last_sandbox_of_a_session_has_an_end_too() {
    let check = |scenario: &str, more: &[&str], outcome: &str, sandboxes: usize| {
        let place = Place::new();
        let project = place.shell_project();
        let ran = place.scenario_command(&project, scenario).args(more).output().unwrap();
        let told = crate::harness::Ran::new(&ran).last();
        assert_eq!(told["outcome"], outcome, "{told}");
        let (session, events) = place.events();
        assert_each_sandbox_ended_once(&events);
        assert_eq!(codes(&events), vec![""; sandboxes], "{outcome}");
        // What was said of the log is still true of it.
        assert_eq!(told["events"], events.last().unwrap().seq(), "{outcome}");
        assert_eq!(told["log_head"], events.last().unwrap().hash.to_string(), "{outcome}");
        place.run(&["audit", "verify"]).expect_status(0);
        place.run(&["session", "replay", session.as_str()]).expect_status(0);
    };
    check(COMMITS, &[], "committed", 3);
    check(ANSWERS, &[], "answered", 1);
    check(FAILS, &[], "failed", 1);
}

#[test]
fn e2e_a_sandbox_ends_in_the_log_when_its_turn_is_cancelled() {
    let place = Place::new();
    let project = place.shell_project();
    let mut running = place.spawn(place.scenario_command(&project, WAITS));
    place.wait_for("the command", |events| count(events, &Kind::ToolStarted) == 1);
    running.interrupt();
    assert_eq!(running.wait(Duration::from_secs(20)), Some(130));
    let (_, events) = place.events();
    assert_each_sandbox_ended_once(&events);
    assert_eq!(codes(&events), [""]);
}

/// A killed process tells nothing. Whoever opens, closes or sweeps what it left says once what became of it.
#[test]
fn e2e_a_sandbox_that_went_with_its_process_is_told_as_lost_once() {
    let check = |next: &[&str]| {
        let place = Place::new();
        let project = place.shell_project();
        let mut running = place.spawn(place.scenario_command(&project, WAITS));
        let session =
            place.wait_for("the command", |events| count(events, &Kind::ToolStarted) == 1);
        running.kill_9();
        assert_eq!(codes(&place.events().1), Vec::<&str>::new(), "the control: nothing is told");
        let next: Vec<&str> =
            next.iter().map(|word| if *word == "ID" { session.as_str() } else { *word }).collect();
        let mut then = place.spawn(place.command(&next));
        let lost = |events: &[Event]| count(events, &Kind::SandboxDestroyed) >= 1;
        place.wait_for("its end", lost);
        let created = |events: &[Event]| count(events, &Kind::SandboxCreated) >= 2;
        if next[1] == "resume" {
            // The command runs again, in a new one.
            place.wait_for("the command again", created);
            then.interrupt();
        }
        then.wait(Duration::from_secs(20));
        place.run(&["sandbox", "gc"]).expect_status(0);
        let (_, events) = place.events();
        assert_each_sandbox_ended_once(&events);
        assert_eq!(codes(&events)[0], "sandbox_lost", "{next:?}");
        assert_eq!(codes(&events).iter().filter(|code| !code.is_empty()).count(), 1, "{next:?}");
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_glasshouse"));
        let kernel = glasshouse_kernel::Kernel::open(&place.home(), program).unwrap();
        assert_eq!(kernel.sandboxes(Some(&session)).unwrap()[0].state, "gone");
        place.run(&["audit", "verify"]).expect_status(0);
    };
    check(&["session", "resume", "ID"]);
    check(&["session", "close", "ID"]);
}

/// The same of one command, which is no session that anybody could open again.
#[test]
fn e2e_a_sweep_tells_the_end_of_a_command_that_was_killed() {
    let place = Place::new();
    let mut running = place.spawn(place.command(&["sandbox", "run", "--", "sleep", "300"]));
    place.wait_for("the command", |events| count(events, &Kind::ToolStarted) == 1);
    running.kill_9();
    place.run(&["sandbox", "gc", "--dry-run"]).expect_status(0);
    assert_eq!(codes(&place.events().1), Vec::<&str>::new(), "a dry run tells nothing");
    for _ in 0..2 {
        place.run(&["sandbox", "gc"]).expect_status(0);
        let (_, events) = place.events();
        assert_each_sandbox_ended_once(&events);
        assert_eq!(codes(&events), ["sandbox_lost"]);
    }
    place.run(&["audit", "verify"]).expect_status(0);
}

/// What a command used is part of its end, also of one that is cut short, and is shown.
#[test]
fn e2e_what_a_command_used_is_recorded_with_its_end() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: shell.run, args: { script: 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; printf 12345; printf 123 >&2' } } } ]
  - emit: [ { call: { id: r, tool: fs.read, args: { path: src/tool.sh } } } ]
  - emit: [ { text: done } ]
";
    place.scenario(&project, yaml).expect_status(0);
    let (session, events) = place.events();
    let ends: Vec<_> = events.iter().filter(|event| event.kind().ends_call()).collect();
    let used = &ends[0].body["usage"];
    assert_eq!((&used["stdout_bytes"], &used["stderr_bytes"]), (&5.into(), &3.into()), "{used}");
    let above = |name: &str, least: u64| used[name].as_u64() >= Some(least);
    assert!(above("cpu_us", 1_000) && above("memory_peak_bytes", 100_000), "{used}");
    assert!(ends[1].body.get("usage").is_none(), "a read in this process runs no command");
    let shown = place.run(&["session", "show", session.as_str()]).expect_status(0).stdout;
    let line = shown.lines().find(|line| line.contains("tool.completed")).unwrap();
    assert!(line.contains("of processor") && line.contains("8 bytes written"), "{line}");
}
