//! `kill -9` anywhere, then `session resume`: the story ends as if nothing had happened.

use std::time::Duration;

use glasshouse_model::{CallId, Event, Kind};

use crate::harness::{Place, assert_each_ended_once, count, git};

/// Rounds of each test; more of them with `GLASSHOUSE_SOAK=1`.
fn rounds() -> u32 {
    if std::env::var_os("GLASSHOUSE_SOAK").is_some() { 40 } else { 5 }
}

fn killed_when(what: &str, condition: impl Fn(&[Event]) -> bool) {
    for round in 0..rounds() {
        let place = Place::new();
        let dir = place.path("sample");
        let mut running =
            place.spawn(place.command(&["demo", "--json", "--dir", &dir.display().to_string()]));
        let session = place.wait_for(what, &condition);
        // Another moment of the same act each time.
        std::thread::sleep(Duration::from_micros(u64::from(round) * 700));
        running.kill_9();
        let resumed = place.run(&["session", "resume", session.as_str(), "--json"]);
        let (_, events) = place.events();
        assert_each_ended_once(&events);
        assert_eq!(count(&events, &Kind::CommitCreated), 1, "{what} {round}: {resumed:?}");
        // The kill may have come after the end; then there was nothing left to do.
        let done = resumed.status == Some(0);
        assert!(done, "{what} {round}: {resumed:?}");
        let verify = place.run(&["audit", "verify", "--json"]).expect_status(0);
        assert_eq!(verify.last()["ok"], true);
        let replay = ["session", "replay", session.as_str(), "--json"];
        assert_eq!(place.run(&replay).expect_status(0).last()["equal"], true);
        let paths = git(&dir, &["diff", "--name-only", "HEAD~1", "HEAD"]);
        assert_eq!(paths, "src/parse_config.sh\ntests/bad_input.sh\n");
        assert_eq!(git(&dir, &["status", "--porcelain"]), "");
        assert_eq!(git(&dir, &["rev-list", "--count", "HEAD"]).trim(), "2", "committed once");
    }
}

/// Whatever moment the program is killed at, its log opens, proves itself, and holds what was printed.
#[test]
fn e2e_a4_a_killed_program_loses_nothing_that_it_told() {
    const ROUNDS: u32 = 25;
    const SOAK_ROUNDS: u32 = 500;
    let is_soak = std::env::var_os("GLASSHOUSE_SOAK").is_some();
    let rounds = if is_soak { SOAK_ROUNDS } else { ROUNDS };
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: fs.read, args: { path: src/tool.sh } } } ]
  - emit: [ { text: done } ]
";
    let started = std::time::Instant::now();
    place.scenario(&project, yaml).expect_status(0);
    let whole = started.elapsed();
    let (mut told, mut killed) = (0, 0);
    for round in 0..rounds {
        let mut running = place.spawn(place.scenario_command(&project, yaml));
        // Moments spread over a little more than the whole run, in another order each time.
        let part = (round * 7) % rounds;
        std::thread::sleep(whole * 5 / 4 * part / rounds);
        running.kill_9();
        let verified = place.run(&["audit", "verify", "--json"]).expect_status(0);
        assert_eq!(verified.last()["ok"], true, "round {round}");
        let printed = std::fs::read_to_string(place.path("stdout")).unwrap();
        let last = printed.lines().last().and_then(|line| serde_json::from_str(line).ok());
        let end = last.filter(|last: &serde_json::Value| last["session"].is_string());
        let Some(end) = end else {
            killed += 1;
            continue;
        };
        let log = place.log();
        let branch = end["branch"].as_str().unwrap().parse().unwrap();
        assert_eq!(log.head(&branch).unwrap().seq, end["events"].as_u64().unwrap());
        told += 1;
    }
    assert!(told > 0 && killed > rounds / 4, "{told} told, {killed} killed of {rounds}");
}

/// One transaction has one time. A start is durable with the decision that allows it; what a command
/// did comes later, what a glance saw does not.
#[test]
fn e2e_law_3_a_call_starts_in_the_transaction_of_its_decision() {
    let place = Place::new();
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: look, tool: fs.read, args: { path: src/tool.sh } } } ]
  - emit: [ { call: { id: run, tool: shell.run, args: { argv: ['true'] } } } ]
  - emit: [ { text: done } ]
";
    place.scenario(&place.shell_project(), yaml).expect_status(0);
    let (_, events) = place.events();
    let check = |tool: &str, end_joins: bool| {
        let proposed = |e: &&Event| *e.kind() == Kind::ToolProposed && e.body["tool"] == tool;
        let call = CallId(events.iter().find(proposed).unwrap().seq()).to_string();
        let time = |kind: &Kind| {
            let of_call = |e: &&Event| e.kind() == kind && e.body["call"] == call.as_str();
            events.iter().find(of_call).unwrap().header.time_us
        };
        let started = time(&Kind::ToolStarted);
        assert_eq!(time(&Kind::PolicyDecided), started, "{tool}");
        assert_eq!(time(&Kind::ToolCompleted) == started, end_joins, "{tool}");
    };
    check("fs.read", true);
    check("shell.run", false);
}

fn requested_without_answer(events: &[Event], nth: usize) -> bool {
    count(events, &Kind::ModelRequested) >= nth
        && events.last().is_some_and(|event| *event.kind() == Kind::ModelRequested)
}

#[test]
fn e2e_law_3_kill_9_while_the_model_streams() {
    killed_when("a request", |events| requested_without_answer(events, 3));
}

#[test]
fn e2e_law_3_kill_9_while_a_command_runs() {
    killed_when("a sandboxed call", |events| {
        count(events, &Kind::ToolStarted) >= 6
            && events.last().is_some_and(|e| *e.kind() == Kind::ToolStarted)
    });
}

#[test]
fn e2e_law_3_kill_9_while_the_merge_is_written() {
    killed_when("the merge", |events| count(events, &Kind::MergeApproved) == 1);
}

#[test]
fn e2e_law_3_kill_9_while_it_commits() {
    killed_when("the commit", |events| count(events, &Kind::MergeApplied) == 1);
}
