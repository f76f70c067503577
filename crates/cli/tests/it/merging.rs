//! Merging a branch of a session into another: what crosses, what does not, and what is refused.

use std::path::Path;
use std::time::Duration;

use glasshouse_kernel::session::State;
use glasshouse_model::{Event, Kind, SessionId};
use serde_json::Value;

use crate::harness::{Place, assert_each_ended_once, count};

/// Two turns that write tests and say so until they are given up: the second one, run on each branch
/// anew, runs `script` and the tests.
fn two_turns(script: &str) -> String {
    let steps = serde_json::json!([
        { "emit": [ { "call": { "id": "plan", "tool": "plan.complete", "args": { "summary": "s", "steps": ["a"] } } } ] },
        { "emit": [ { "call": { "id": "base", "tool": "fs.write", "args": { "path": "tests/t_base.sh", "content": "true\n" } } } ] },
        { "emit": [ { "text": "one" } ] },
        { "emit": [ { "text": "two" } ] },
        { "emit": [ { "text": "three" } ] },
        { "emit": [ { "call": { "id": "more", "tool": "shell.run", "args": { "script": script } } } ] },
        { "emit": [ { "call": { "id": "tests", "tool": "test.run", "args": {} } } ] },
        { "emit": [ { "text": "four" } ] },
        { "emit": [ { "text": "five" } ] },
        { "emit": [ { "text": "six" } ] },
    ]);
    serde_json::json!({ "version": 1, "steps": steps }).to_string()
}

/// Writes a file that no other run of it names.
const OWN_FILE: &str =
    "n=$(od -An -N6 -tx1 /dev/urandom | tr -d ' \\n'); echo false > tests/t_$n.sh";
/// Writes one file with content that no other run of it writes.
const SAME_FILE: &str = "od -An -N6 -tx1 /dev/urandom | sed 's/^/true #/' > tests/t_same.sh";

/// A session after its first turn, at rest in `test_writing` with one file.
struct Merging {
    place: Place,
    session: SessionId,
}

impl Merging {
    fn new(script: &str) -> Self {
        let place = Place::new();
        let project = place.shell_project();
        place.scenario(&project, &two_turns(script)).expect_status(6);
        let session = place.events().0;
        Self { place, session }
    }

    fn run(&self, words: &[&str]) -> crate::harness::Ran {
        let (command, rest) = words.split_first().unwrap();
        self.place.run(&[&["session", command, self.session.as_str()], rest].concat())
    }

    /// Forks the main branch and runs the second turn there.
    fn fork(&self, name: &str) {
        self.run(&["fork", "--name", name]).expect_status(0);
        self.run(&["resume", "more", "--branch", name, "--json"]).expect_status(6);
    }

    fn merge(&self, words: &[&str]) -> crate::harness::Ran {
        self.run(&[&["merge"], words, &["--json"]].concat())
    }

    fn events(&self, name: &str) -> Vec<Event> {
        let log = self.place.log();
        let rows = log.branches(&self.session).unwrap();
        let row = rows.iter().find(|row| row.name == name).expect("the branch");
        log.read(&row.branch, 1, 10_000).unwrap()
    }

    fn state(&self, name: &str) -> State {
        State::fold(&self.events(name))
    }

    fn files(&self, name: &str) -> Vec<String> {
        let listed = self.run(&["files", "--branch", name, "--json"]).expect_status(0).stdout;
        listed
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["path"].as_str().unwrap().to_owned()
            })
            .filter(|path| path.starts_with("tests/t_") && path != "tests/t_one.sh")
            .collect()
    }

    fn text(&self, name: &str, path: &str) -> String {
        self.run(&["files", path, "--branch", name]).expect_status(0).stdout
    }

    fn assert_sound(&self) {
        for row in self.place.log().branches(&self.session).unwrap() {
            let replay = self.run(&["replay", "--branch", &row.name, "--json"]);
            assert_eq!(replay.expect_status(0).last()["equal"], true, "{}", row.name);
            assert_each_ended_once(&self.events(&row.name));
        }
        self.place.run(&["audit", "verify", "--json"]).expect_status(0);
    }
}

/// B6: the branch that was merged takes no more events; it can be read and forked.
#[test]
fn e2e_b6_a_merge_brings_the_files_and_ends_the_source() {
    let m = Merging::new(OWN_FILE);
    m.fork("side");
    let before = m.state("main");
    let side = m.state("side");
    assert_eq!(side.workflow().to_string(), "code_writing", "its tests were seen failing");
    let preview = m.merge(&["side", "--dry-run"]).expect_status(0).last();
    assert_eq!((&preview["strategy"], &preview["head"]), (&"fast_forward".into(), &Value::Null));
    assert_eq!(m.files("main"), ["tests/t_base.sh"], "nothing was changed");
    let done = m.merge(&["side"]).expect_status(0).last();
    assert_eq!(done["changed"], preview["changed"]);
    assert_eq!(m.files("main"), m.files("side"));
    assert_eq!(m.files("main").len(), 2);

    // What crosses is what the table says.
    let events = m.events("main");
    let merged = events.iter().find(|event| *event.kind() == Kind::BranchMerged).unwrap();
    assert_eq!(merged.header.actor.id, "local");
    assert!(merged.header.labels.contains("repo"), "{:?}", merged.header.labels);
    let after = m.state("main");
    let both = before.usage.calls + side.usage.calls;
    assert_eq!(after.spent().calls, both, "what was spent there counts here");
    assert_eq!(after.usage, before.usage, "and is not spent twice");
    assert_eq!(after.workflow(), before.workflow(), "no evidence of another branch moves it");
    assert_eq!((after.red, after.evidence.is_some()), (before.red, before.evidence.is_some()));
    assert_eq!((after.calls.len(), after.ordinal), (before.calls.len(), before.ordinal));
    assert_eq!(after.conversation.len(), before.conversation.len() + 1);

    // The source is at its end.
    let resumed = m.run(&["resume", "on", "--branch", "side", "--json"]).expect_status(8);
    assert_eq!(resumed.last()["error"]["code"], "branch_read_only");
    let again = m.merge(&["side"]).expect_status(8);
    assert_eq!(again.last()["error"]["code"], "branch_read_only");
    m.run(&["fork", "--branch", "side", "--name", "late"]).expect_status(0);

    // The next turn works on what was merged.
    m.run(&["resume", "again", "--json"]).expect_status(6);
    assert_eq!(m.files("main").len(), 3);
    m.assert_sound();
}

#[test]
fn e2e_branches_that_both_moved_come_together_path_by_path() {
    let m = Merging::new(OWN_FILE);
    m.fork("left");
    m.fork("right");
    m.merge(&["left"]).expect_status(0);
    let target = m.run(&["merge", "right", "--into", "main", "--json"]).expect_status(0).last();
    assert_eq!(target["strategy"], "three_way");
    let mut both = [m.files("left"), m.files("right")].concat();
    both.sort();
    both.dedup();
    assert_eq!(m.files("main"), both);
    assert_eq!(both.len(), 3);
    let spent = |name: &str| m.state(name).usage.calls;
    let first = m.state("main").calls.len() as u64;
    assert_eq!(spent("main") - first, (spent("left") - first) + (spent("right") - first));
    m.assert_sound();
}

#[test]
fn e2e_what_does_not_go_together_changes_nothing_until_a_side_is_taken() {
    let m = Merging::new(SAME_FILE);
    m.fork("left");
    m.fork("right");
    m.merge(&["left"]).expect_status(0);
    let (before, path) = (m.events("main"), "tests/t_same.sh");
    let left = m.text("left", path);
    let preview = m.merge(&["right", "--dry-run"]).expect_status(8).last();
    assert_eq!(preview["conflicts"][0]["path"], path);
    let told = m.merge(&["right"]).expect_status(8).last();
    assert_eq!(told["error"]["code"], "merge_conflict");
    let context = &told["error"]["context"];
    assert_eq!(
        (&context["conflicts"], &context["keys"]),
        (&preview["conflicts"], &Value::from(Vec::<Value>::new()))
    );
    assert_eq!(m.events("main"), before, "nothing was changed");
    let check = |words: &[&str], status: i32, code: &str| {
        let ran = m.merge(&[&["right"], words].concat()).expect_status(status);
        assert_eq!(ran.last()["error"]["code"], code, "{words:?}");
    };
    check(&["--take", "source", "tests/t_base.sh"], 2, "usage");
    check(&["--take", "both"], 2, "usage");
    check(&["--take", "source", "../x"], 2, "usage");
    assert_eq!(m.text("main", path), left);
    let taken = m.merge(&["right", "--take", "source", path]).expect_status(0).last();
    assert_eq!(taken["taken"], serde_json::json!([{ "path": path, "side": "source" }]));
    assert_eq!(m.text("main", path), m.text("right", path));
    assert_ne!(m.text("main", path), left);
    let events = m.events("main");
    let merged = events.iter().rfind(|event| *event.kind() == Kind::BranchMerged).unwrap();
    assert_eq!(merged.body["resolved"]["workspace"]["taken"], taken["taken"], "recorded, with");
    assert_eq!(merged.header.actor.id, "local");
    m.assert_sound();
}

/// A branch at rest takes over the files with their base, and begins with a plan.
#[test]
fn e2e_a_branch_whose_work_is_done_takes_over_that_of_another() {
    let yaml = "
version: 1
steps:
  - emit: [ { text: hi } ]
  - emit: [ { call: { id: plan, tool: plan.complete, args: { summary: s, steps: [a] } } } ]
  - emit: [ { call: { id: one, tool: fs.write, args: { path: tests/t_two.sh, content: \"true\\n\" } } } ]
  - emit: [ { text: done } ]
  - emit: [ { text: done } ]
  - emit: [ { text: done } ]
";
    let place = Place::new();
    let project = place.shell_project();
    place.scenario(&project, yaml).expect_status(0);
    let session = place.events().0;
    let m = Merging { place, session };
    m.run(&["fork", "--name", "side"]).expect_status(0);
    m.run(&["resume", "more", "--branch", "side", "--json"]).expect_status(6);
    m.merge(&["side"]).expect_status(0);
    assert_eq!(m.state("main").workflow().to_string(), "planning");
    assert_eq!(m.text("main", "tests/t_two.sh"), "true\n");
    let events = m.events("main");
    let last: Vec<_> = events.iter().rev().take(4).map(|e| e.kind().as_str()).collect();
    let expected = ["message.received", "workflow.transitioned", "branch.merged", "policy.decided"];
    assert_eq!(last, expected);
    m.run(&["resume", "go on", "--json"]);
    assert_eq!(m.text("main", "tests/t_two.sh"), "true\n", "no new base was frozen");
    m.assert_sound();
}

#[test]
fn e2e_a_branch_at_work_is_not_merged() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - delay_ms: 60000
    emit: [ { text: 'It prints one.' } ]
";
    let mut running = place.spawn(place.scenario_command(&project, yaml));
    let session = place.wait_for("the request", |events| count(events, &Kind::ModelRequested) == 1);
    let id = session.as_str();
    place.run(&["session", "fork", id, "--at", "3"]).expect_status(0);
    let check = |words: &[&str], code: &str| {
        let ran = place.run(&[&["session", "merge", id], words, &["--json"]].concat());
        assert_eq!(ran.expect_status(8).last()["error"]["code"], code, "{words:?}");
    };
    check(&["fork-1"], "session_owned");
    check(&["main", "--into", "fork-1"], "session_owned");
    running.kill_9();
    let _ = running.wait(Duration::from_secs(5));
    // Nobody works on it, but the turn is not over.
    check(&["fork-1"], "turn_open");
    check(&["main", "--into", "fork-1"], "turn_open");
}

/// The shipped policy with one more rule.
fn policy_with(place: &Place, project: &Path, syscall: &str, action: &str) {
    let shipped = place.run(&["policy", "show", "--shipped"]).expect_status(0).stdout;
    let rule = format!(
        "capabilities:\n  - name: own-rule\n    match: {{ syscall: {syscall} }}\n    action: {action}\n    reason: branches are kept apart here\n"
    );
    let text = shipped.replacen("capabilities:\n", &rule, 1);
    std::fs::write(project.join(".glasshouse/policy.yaml"), text).unwrap();
}

#[test]
fn e2e_a_policy_can_refuse_forks_and_merges_and_the_refusal_is_recorded() {
    let hello = "version: 1\nsteps: [ { emit: [ { text: hi } ] } ]\n";
    let check = |syscall: &str, action: &str, expected: (&str, &str)| {
        let place = Place::new();
        let project = place.shell_project();
        policy_with(&place, &project, syscall, action);
        place.scenario(&project, hello).expect_status(0);
        let (session, before) = place.events();
        let id = session.as_str();
        let code = |words: &[&str]| {
            let ran = place.run(&[&["session"], words, &["--json"]].concat());
            ran.last()["error"]["code"].as_str().unwrap_or("done").to_owned()
        };
        let forked = code(&["fork", id]);
        let merged = if forked == "done" { code(&["merge", id, "fork-1"]) } else { String::new() };
        assert_eq!((forked.as_str(), merged.as_str()), expected, "{syscall} {action}");
        let log = place.log();
        if expected != ("done", "done") {
            assert_eq!(
                log.read(&log.sessions().unwrap().last().unwrap().main, 1, 10_000).unwrap(),
                before
            );
            // The newest session is the record of the refusal.
            let record = log.sessions().unwrap().remove(0);
            let said = log.read(&record.main, 1, 9).unwrap().remove(0);
            assert_eq!(
                (said.kind(), &said.body["syscall"]),
                (&Kind::PolicyDecided, &syscall.into())
            );
            assert_ne!(said.body["decision"], "allow");
        }
        drop(log);
        place.run(&["audit", "verify", "--json"]).expect_status(0);
    };
    check("session.fork", "deny", ("policy_denied", ""));
    check("session.merge", "deny", ("done", "policy_denied"));
    check("session.merge", "require_review", ("done", "approval_needed"));
    // The control.
    check("fs.exists", "deny", ("done", "done"));
}

/// The failure: a person accepted a policy that denies forks, and a session that had begun before was forked, closed and
/// deleted as before.
#[test]
fn e2e_a_policy_accepted_since_binds_what_is_done_with_a_session() {
    let hello = "version: 1\nsteps: [ { emit: [ { text: hi } ] } ]\n";
    let check = |rule: &str, words: &[&str], status: i32| {
        let place = Place::new();
        let project = place.shell_project();
        place.scenario(&project, hello).expect_status(0);
        let (session, _) = place.events();
        place.accept_rule(&project, rule);
        let ran = place.run(&[&["session", words[0], session.as_str()], &words[1..]].concat());
        ran.expect_status(status);
    };
    // What is tried is what is done: a file that says nothing of it denies nothing.
    let tried = |rule: &str, syscall: &str| {
        let place = Place::new();
        let project = place.shell_project();
        place.accept_policy(&project, &format!("capabilities: [{rule}]\n"));
        let call = format!(r#"{{"syscall":"session.{syscall}","caller":"user"}}"#);
        place.run_in(&project, &["policy", "check", "--call", &call]).status
    };
    for words in [&["fork"][..], &["close"], &["delete", "--yes"]] {
        let syscall = words[0];
        let rule = |syscall: &str| {
            format!("{{ name: own, match: {{ syscall: session.{syscall} }}, action: deny }}")
        };
        check(&rule(syscall), words, 3);
        assert_eq!(tried(&rule(syscall), syscall), Some(3));
        // The failure: a demand that is not kept there was taken for no word of the file's.
        let demand = format!(
            "{{ name: own, match: {{ syscall: session.{syscall} }}, action: allow, constraints: {{ rate: 1/h }} }}"
        );
        check(&demand, words, 3);
        assert_eq!(tried(&demand, syscall), Some(3));
        // The control.
        check(&rule("merge"), words, 0);
        assert_eq!(tried(&rule("merge"), syscall), Some(0));
    }
}

#[test]
fn e2e_what_cannot_be_merged_is_refused_with_the_reason() {
    let m = Merging::new(OWN_FILE);
    m.run(&["fork", "--name", "side"]).expect_status(0);
    let check = |words: &[&str], status: i32, code: &str| {
        let ran = m.merge(words).expect_status(status);
        assert_eq!(ran.last()["error"]["code"], code, "{words:?}");
    };
    check(&["none"], 10, "branch_unknown");
    check(&["side", "--into", "none"], 10, "branch_unknown");
    check(&["main"], 2, "nothing_to_merge");
    check(&["main", "--into", "side"], 2, "nothing_to_merge");
    let stranger = m.place.run(&["session", "merge", "s_none", "side", "--json"]).expect_status(10);
    assert_eq!(stranger.last()["error"]["code"], "session_not_found");
    assert_eq!(count(&m.events("main"), &Kind::BranchMerged), 0);
}
