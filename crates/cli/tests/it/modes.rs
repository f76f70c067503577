//! Explore and debug: writing without a failing test, once whoever starts the session was allowed to.

use glasshouse_model::{Event, Kind};
use serde_json::Value;

use crate::harness::{Place, Ran, assert_each_ended_once, count, git, statuses};

/// A model that changes a source at once, and must hear STATUS.
const AT_ONCE: &str = "
version: 1
steps:
  - emit: [ { call: { id: plan, tool: plan.complete, args: { summary: say more } } } ]
  - expect: { results: { plan: completed } }
    emit: [ { call: { id: write, tool: fs.write, args: { path: src/extra.sh, content: 'echo more' } } } ]
  - expect: { results: { write: STATUS } }
";
const ENDS: &str = "    emit: [ { text: done } ]\n";
const TESTS: &str = "    emit: [ { call: { id: test, tool: test.run, args: {} } } ]
  - expect: { results: { test: completed } }
";
const COMMITS: &str = "    emit: [ { call: { id: commit, tool: git.commit, args: { message: \"Say more\\n\\nGlasshouse-Verified: yes\" } } } ]
  - expect: { results: { commit: COMMIT } }
    emit: [ { text: done } ]
";

fn at_once(status: &str, rest: &[&str]) -> String {
    AT_ONCE.replace("STATUS", status) + &rest.concat()
}

fn approve(tool: &str, answer: &str) -> String {
    format!("reviews: [ {{ tool: {tool}, answer: {answer} }} ]\n")
}

fn run(place: &Place, yaml: &str, mode: &str) -> Ran {
    let project = place.shell_project();
    let mut command = place.scenario_command(&project, yaml);
    Ran::new(&command.args(["--mode", mode]).output().unwrap())
}

fn states(events: &[Event]) -> Vec<&str> {
    let moved = events.iter().filter(|event| *event.kind() == Kind::WorkflowTransitioned);
    moved.map(|event| event.body["to"].as_str().unwrap()).collect()
}

fn body<'a>(events: &'a [Event], kind: &Kind) -> &'a Value {
    &events.iter().find(|event| event.kind() == kind).unwrap().body
}

/// Exploring writes without a failing test, a person sees it though it is small and its tests pass, and
/// the commit says what it is whatever the agent claimed. In strict mode the same write is denied: the
/// control.
#[test]
fn e2e_explore_writes_without_a_test_and_the_commit_says_so() {
    let place = Place::new();
    let commits = COMMITS.replace("COMMIT", "completed");
    let yaml = at_once("completed", &[TESTS, &commits, &approve("merge", "approve")]);
    let ran = run(&place, &yaml, "explore").expect_status(0);
    assert_eq!(ran.last()["outcome"], "committed", "{ran:?}");
    let (session, events) = place.events();
    assert_each_ended_once(&events);
    let reasons = body(&events, &Kind::MergeProposed)["review_reasons"].to_string();
    assert!(reasons.contains("explored"), "{reasons}");
    assert_eq!(body(&events, &Kind::SessionModeChanged)["to"], "explore");
    let expected = ["planning", "exploring", "validating", "reviewing", "committing", "idle"];
    assert_eq!(states(&events), expected);
    let message = git(&place.path("project"), &["log", "-1", "--format=%B"]);
    assert_eq!(message.trim(), "Say more\n\nGlasshouse-Verified: no");
    place.run(&["session", "replay", session.as_str()]).expect_status(0);

    let place = Place::new();
    let ran = run(&place, &at_once("denied", &[ENDS]), "strict");
    assert_eq!(count(&place.events().1, &Kind::ToolDenied), 1, "{ran:?}");
}

/// What was explored is merged by a person or not at all.
#[test]
fn e2e_what_was_explored_is_merged_by_a_person_alone() {
    let check = |reviews: &str, code: &str, status: i32| {
        let place = Place::new();
        let commits = COMMITS.replace("COMMIT", "denied");
        let yaml = at_once("completed", &[TESTS, &commits, reviews]);
        run(&place, &yaml, "explore").expect_status(status);
        let (_, events) = place.events();
        assert_eq!(body(&events, &Kind::MergeRejected)["code"], code);
        assert_eq!(count(&events, &Kind::MergeApplied), 0);
        assert!(!place.path("project/src/extra.sh").exists());
    };
    check("", "no_approver", 4);
    check(&approve("merge", "reject"), "rejected", 3);
}

/// A test that fails sends the work back to exploring, where it goes on.
#[test]
fn e2e_explored_code_must_pass_the_tests_that_are_there() {
    let place = Place::new();
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: plan, tool: plan.complete, args: { summary: break it } } } ]
  - emit: [ { call: { id: break, tool: fs.write, args: { path: src/tool.sh, content: 'echo two' } } } ]
  - emit: [ { call: { id: red, tool: test.run, args: {} } } ]
  - emit: [ { call: { id: early, tool: git.commit, args: { message: no } } } ]
  - expect: { results: { early: denied } }
    emit: [ { call: { id: mend, tool: fs.write, args: { path: src/tool.sh, content: 'echo one; echo two' } } } ]
  - expect: { results: { mend: completed } }
    emit: [ { call: { id: green, tool: test.run, args: {} } } ]
  - emit: [ { text: done } ]
reviews: [ { tool: merge, answer: approve } ]
";
    let ran = run(&place, yaml, "explore").expect_status(0);
    assert_eq!(ran.last()["outcome"], "committed", "{ran:?}");
    let expected = ["planning", "exploring", "validating", "exploring", "validating", "reviewing"];
    assert_eq!(states(&place.events().1)[..6], expected);
}

/// Tests that are added afterwards: only tests are written then, and all of them must pass.
#[test]
fn e2e_tests_can_be_added_to_what_was_explored() {
    let place = Place::new();
    let adds = "    emit: [ { call: { id: again, tool: plan.complete, args: { summary: its test } } } ]
  - expect: { results: { again: completed } }
    emit: [ { call: { id: source, tool: fs.write, args: { path: src/more.sh, content: 'echo' } } } ]
  - expect: { results: { source: denied } }
    emit: [ { call: { id: added, tool: fs.write, args: { path: tests/t_extra.sh, content: '[ \"$(sh src/extra.sh)\" = more ]' } } } ]
  - expect: { results: { added: completed } }
    emit: [ { call: { id: all, tool: test.run, args: {} } } ]
  - expect: { results: { all: completed } }
";
    let commits = COMMITS.replace("COMMIT", "completed");
    let yaml = at_once("completed", &[TESTS, adds, &commits, &approve("merge", "approve")]);
    let ran = run(&place, &yaml, "explore").expect_status(0);
    assert_eq!(ran.last()["outcome"], "committed", "{ran:?}");
    let (session, events) = place.events();
    let expected = ["reviewing", "retroactive_testing", "validating", "reviewing", "committing"];
    assert_eq!(states(&events)[3..8], expected);
    assert!(place.path("project/tests/t_extra.sh").exists());
    place.run(&["session", "replay", session.as_str()]).expect_status(0);
}

/// Debug is a person's word; without it the session works strictly, and says so.
#[test]
fn e2e_debug_is_asked_for_and_falls_back_to_strict() {
    let check = |status: &str, reviews: &str, code: &str, changed: usize| {
        let place = Place::new();
        let ran = run(&place, &at_once(status, &[ENDS, reviews]), "debug");
        let (session, events) = place.events();
        assert_eq!(body(&events, &Kind::ApprovalResolved)["code"], code, "{ran:?}");
        assert_eq!(count(&events, &Kind::SessionModeChanged), changed);
        assert_eq!(ran.stderr.contains("not allowed here"), changed == 0, "{ran:?}");
        assert!(statuses(&events).contains(&("write".to_owned(), status.to_owned())));
        place.run(&["session", "replay", session.as_str()]).expect_status(0);
    };
    check("denied", "", "no_approver", 0);
    check("denied", &approve("session.set_mode", "reject"), "rejected", 0);
    check("completed", &approve("session.set_mode", "approve"), "approved", 1);
}

/// Debugging leaves probes behind: they stay out of the project unless the agent commits and a person
/// agrees.
#[test]
fn e2e_debug_ends_without_merging_its_probes() {
    let place = Place::new();
    let yes = approve("session.set_mode", "approve");
    let ran = run(&place, &at_once("completed", &[TESTS, ENDS, &yes]), "debug").expect_status(0);
    assert_eq!(ran.last()["outcome"], "answered", "{ran:?}");
    let (_, events) = place.events();
    assert_eq!(count(&events, &Kind::MergeProposed), 0);
    assert!(!place.path("project/src/extra.sh").exists());
}

/// A repository may ask for more strictness than its user, never for less.
#[test]
fn e2e_a_repository_does_not_choose_a_looser_mode() {
    let check = |mode: &str, status: i32| {
        let place = Place::new();
        let project = place.shell_project();
        let file = project.join(".glasshouse/config.yaml");
        let config = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{config}mode: {mode}\n")).unwrap();
        let yaml = at_once("denied", &[ENDS]);
        let ran = place.scenario(&project, &yaml);
        assert_eq!(ran.status, Some(status), "{mode}: {ran:?}");
    };
    check("explore", 2);
    check("strict", 0);
}

/// A starter policy in force does what its name says.
#[test]
fn e2e_the_starter_policies_work_in_their_modes() {
    let check = |mode: &str, yaml: &str, outcome: &str| {
        let place = Place::new();
        let project = place.shell_project();
        let starter = format!("{}/../../examples/policies/{mode}.yaml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(starter).unwrap();
        std::fs::write(project.join(".glasshouse/policy.yaml"), &text).unwrap();
        let digest = glasshouse_model::Digest::of(text.as_bytes()).to_string();
        place.run_in(&project, &["policy", "update", "--digest", &digest]).expect_status(0);
        let mut command = place.scenario_command(&project, yaml);
        let ran = Ran::new(&command.args(["--mode", mode]).output().unwrap());
        assert_eq!(ran.last()["outcome"], outcome, "{mode}: {ran:?}");
    };
    let commits = COMMITS.replace("COMMIT", "completed");
    let explores = at_once("completed", &[TESTS, &commits, &approve("merge", "approve")]);
    check("explore", &explores, "committed");
    // What debugging wrote is never merged under this policy, not by a person's yes either.
    let denied = COMMITS.replace("COMMIT", "denied");
    let answers = "reviews: [ { tool: session.set_mode, answer: approve }, { tool: merge, answer: approve } ]\n";
    check("debug", &at_once("completed", &[TESTS, &denied, answers]), "answered");
}
