//! Exemptions: files that a person lets be changed without a failing test first.

use glasshouse_model::{Event, Kind};
use serde_json::Value;

use crate::harness::{Place, Ran, assert_each_ended_once, count, git, statuses};

const ASKS: &str = "
version: 1
steps:
  - emit: [ { call: { id: ask, tool: workflow.request_exemption, args: { category: documentation, affected_paths: [README.md], reason: a typo } } } ]
  - expect: { results: { ask: ASKED } }
    emit:
      - { call: { id: other, tool: fs.write, args: { path: NOTES.md, content: 'notes' } } }
      - { call: { id: source, tool: fs.write, args: { path: src/extra.sh, content: 'echo more' } } }
      - { call: { id: named, tool: fs.write, args: { path: README.md, content: 'Read me.' } } }
  - expect: { results: { other: denied, source: denied, named: WRITTEN } }
";
const ENDS: &str = "    emit: [ { text: done } ]\n";
const YES: &str = "reviews: [ { tool: workflow.request_exemption, answer: approve }, { tool: merge, answer: approve } ]\n";

fn asks(asked: &str, written: &str, rest: &[&str]) -> String {
    ASKS.replace("ASKED", asked).replace("WRITTEN", written) + &rest.concat()
}

fn all<'a>(events: &'a [Event], kind: &Kind) -> Vec<&'a Value> {
    events.iter().filter(|event| event.kind() == kind).map(|event| &event.body).collect()
}

fn states(events: &[Event]) -> Vec<&str> {
    let moved = all(events, &Kind::WorkflowTransitioned);
    moved.into_iter().map(|body| body["to"].as_str().unwrap()).collect()
}

/// Only the named file is written, also by a command; a person sees the change set, and the commit says what
/// it is. A replay comes to the same.
#[test]
fn e2e_an_exemption_lets_the_named_files_be_written_and_no_other() {
    let place = Place::new();
    let works = "    emit: [ { call: { id: run, tool: shell.run, args: { script: 'echo a >> README.md; echo b > OTHER.md' } } } ]
  - expect: { results: { run: denied } }
    emit: [ { call: { id: again, tool: shell.run, args: { script: 'echo a >> README.md' } } } ]
  - expect: { results: { again: completed } }
    emit: [ { call: { id: test, tool: test.run, args: {} } } ]
  - expect: { results: { test: completed } }
    emit: [ { call: { id: commit, tool: git.commit, args: { message: \"Read me\\n\\nGlasshouse-Verified: yes\" } } } ]
  - expect: { results: { commit: completed } }
";
    let project = place.shell_project();
    let ran = place.scenario(&project, &asks("completed", "completed", &[works, ENDS, YES]));
    assert_eq!(ran.last()["outcome"], "committed", "{ran:?}");
    let (session, events) = place.events();
    assert_each_ended_once(&events);
    let expected = ["planning", "exploring", "validating", "reviewing", "committing", "idle"];
    assert_eq!(states(&events), expected);
    let requested = all(&events, &Kind::WorkflowExemptionRequested);
    assert_eq!(requested[0]["paths"], serde_json::json!(["README.md"]));
    let decided = all(&events, &Kind::WorkflowExemptionDecided);
    assert_eq!((decided.len(), &decided[0]["granted"]), (1, &true.into()));
    assert_eq!(decided[0]["approver"]["type"], "user");
    let reasons = all(&events, &Kind::MergeProposed)[0]["review_reasons"].to_string();
    assert!(reasons.contains("exempt from tests first, as documentation"), "{reasons}");
    let message = git(&project, &["log", "-1", "--format=%B"]);
    assert_eq!(message.trim(), "Read me\n\nGlasshouse-Verified: exempt");
    assert_eq!(std::fs::read_to_string(project.join("README.md")).unwrap(), "Read me.a\n");
    assert!(!project.join("NOTES.md").exists() && !project.join("OTHER.md").exists());
    place.run(&["session", "replay", session.as_str()]).expect_status(0);
    let shown = place.run(&["session", "show", session.as_str()]).expect_status(0).stdout;
    assert!(shown.contains("documentation for README.md: a typo"), "{shown}");
    assert!(shown.contains("granted by scenario"), "{shown}");
}

/// Whatever a policy allows, a person answers; what a policy denies, nobody is asked.
#[test]
fn e2e_nothing_but_a_person_grants_an_exemption() {
    let check = |rule: &str, reviews: &str, questions: usize, code: &str| {
        let place = Place::new();
        let project = place.shell_project();
        place.accept_rule(&project, rule);
        let yaml = asks("denied", "denied", &[ENDS, reviews]);
        let ran = place.scenario(&project, &yaml);
        let (session, events) = place.events();
        let end = all(&events, &Kind::ToolDenied)[0];
        assert_eq!(end["code"], code, "{ran:?}");
        assert_eq!(count(&events, &Kind::ApprovalRequested), questions, "{ran:?}");
        let decided = all(&events, &Kind::WorkflowExemptionDecided);
        assert_eq!((decided.len(), &decided[0]["granted"]), (1, &false.into()));
        assert!(!states(&events).contains(&"exploring"));
        place.run(&["session", "replay", session.as_str()]).expect_status(0);
    };
    let allows =
        "{ name: asked-for, match: { syscall: workflow.request_exemption }, action: allow }";
    let denies = "{ name: never, match: { syscall: workflow.request_exemption, argv_prefix: documentation }, action: deny }";
    check(allows, "", 1, "no_approver");
    check(
        allows,
        "reviews: [ { tool: workflow.request_exemption, answer: reject } ]\n",
        1,
        "rejected",
    );
    check(denies, YES, 0, "policy_denied");
}

/// What does not fit its category is denied before anybody is asked, whoever would say yes.
#[test]
fn e2e_what_is_no_document_is_not_asked_for() {
    let check = |from: &str, to: &str, why: &str| {
        let place = Place::new();
        let yaml = asks("denied", "denied", &[ENDS, YES]).replace(from, to);
        let ran: Ran = place.scenario(&place.shell_project(), &yaml);
        let (_, events) = place.events();
        assert_eq!(count(&events, &Kind::ApprovalRequested), 0, "{ran:?}");
        let text = all(&events, &Kind::ToolDenied)[0]["text"].to_string();
        assert!(text.contains(why), "{text}");
    };
    check(
        "affected_paths: [README.md]",
        "affected_paths: [README.md, src/tool.sh]",
        "`src/tool.sh` is no documentation",
    );
    check("affected_paths: [README.md]", "affected_paths: [tests/a.txt]", "is a test");
    check("category: documentation", "category: asset_update", "is no asset_update");
}

/// A second exemption stands in the place of the first, and work that was exempt stays so in the next cycle.
#[test]
fn e2e_asked_twice_the_second_counts_and_the_mark_stays() {
    let place = Place::new();
    let again = "    emit: [ { call: { id: twice, tool: workflow.request_exemption, args: { category: documentation, affected_paths: [NOTES.md], reason: more } } } ]
  - expect: { results: { twice: completed } }
    emit:
      - { call: { id: first, tool: fs.write, args: { path: README.md, content: 'Read me again.' } } }
      - { call: { id: second, tool: fs.write, args: { path: NOTES.md, content: 'Notes.' } } }
  - expect: { results: { first: denied, second: completed } }
    emit: [ { call: { id: plan, tool: plan.complete, args: { summary: say more } } } ]
  - expect: { results: { plan: completed } }
    emit:
      - { call: { id: late, tool: fs.write, args: { path: NOTES.md, content: 'Late.' } } }
      - { call: { id: new, tool: fs.write, args: { path: tests/t_more.sh, content: 'sh src/more.sh' } } }
  - expect: { results: { late: denied, new: completed } }
    emit: [ { call: { id: red, tool: test.run, args: {} } } ]
  - emit: [ { call: { id: code, tool: fs.write, args: { path: src/more.sh, content: 'true' } } } ]
  - emit: [ { call: { id: green, tool: test.run, args: {} } } ]
  - expect: { results: { code: completed } }
";
    let project = place.shell_project();
    let ran = place.scenario(&project, &asks("completed", "completed", &[again, ENDS, YES]));
    let (session, events) = place.events();
    assert_eq!(ran.last()["outcome"], "committed", "{ran:?} {:?}", statuses(&events));
    let proposed = all(&events, &Kind::MergeProposed)[0];
    assert!(proposed["review_reasons"].to_string().contains("exempt"), "{proposed}");
    assert!(proposed["message"].as_str().unwrap().ends_with("Glasshouse-Verified: exempt"));
    place.run(&["session", "replay", session.as_str()]).expect_status(0);
}
