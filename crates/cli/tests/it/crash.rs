//! `kill -9` anywhere, then `session resume`: the story ends as if nothing had happened.

use std::time::Duration;

use glasshouse_model::{Event, Kind};

use crate::harness::{Place, assert_each_ended_once, count, git};

/// Rounds of each test; more of them with `GLASSHOUSE_SOAK=1`.
fn rounds() -> u32 {
    if std::env::var_os("GLASSHOUSE_SOAK").is_some() { 40 } else { 10 }
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
