//! Forks: they begin at any event, share what lies before, and take over no person's word.

use std::time::Duration;

use glasshouse_log::Log;
use glasshouse_model::{Event, Kind, SessionId};

use crate::harness::{Place, assert_each_ended_once, count, statuses};

/// A session that writes a test twice and then says so.
const TWO_WRITES: &str = "
version: 1
steps:
  - emit: [ { call: { id: plan, tool: plan.complete, args: { summary: s, steps: [a] } } } ]
  - emit: [ { call: { id: one, tool: fs.write, args: { path: tests/t_two.sh, content: \"true # one\\n\" } } } ]
  - emit: [ { call: { id: two, tool: fs.write, args: { path: tests/t_two.sh, content: \"true # two\\n\" } } } ]
  - emit: [ { text: done } ]
  - emit: [ { text: done } ]
  - emit: [ { text: done } ]
";

/// A session that only says something.
const HELLO: &str = "version: 1\nsteps: [ { emit: [ { text: hi } ] } ]\n";

fn own_events(log: &Log, session: &SessionId, name: &str) -> Vec<Event> {
    let rows = log.branches(session).unwrap();
    let row = rows.iter().find(|row| row.name == name).expect("the branch");
    log.read(&row.branch, row.base().seq + 1, 10_000).unwrap()
}

fn whole(log: &Log, session: &SessionId, name: &str) -> Vec<Event> {
    let rows = log.branches(session).unwrap();
    let row = rows.iter().find(|row| row.name == name).expect("the branch");
    log.read(&row.branch, 1, 10_000).unwrap()
}

fn nth(events: &[Event], kind: &Kind, n: usize) -> u64 {
    events.iter().filter(|event| event.kind() == kind).nth(n).expect("the event").seq()
}

#[test]
fn e2e_a_fork_has_the_files_of_its_event_and_goes_its_own_way() {
    let place = Place::new();
    let project = place.shell_project();
    place.scenario(&project, TWO_WRITES);
    let (session, main) = place.events();
    let id = session.as_str();
    let seals = count(&main, &Kind::WorkspaceSealed);
    assert!(seals >= 2, "{seals}");
    // The end of the first write: the newest event that knows of the first text only.
    let first_seal = nth(&main, &Kind::WorkspaceSealed, seals - 2);
    let at = main.iter().find(|e| e.seq() > first_seal && e.kind().ends_call()).unwrap().seq();
    let run = |arguments: &[&str]| place.run(arguments);
    let forked = run(&["session", "fork", id, "--at", &at.to_string(), "--json"]).expect_status(0);
    assert_eq!(forked.last()["at"], at);
    assert_eq!(forked.last()["name"], "fork-1");
    let text = |branch: &str| {
        run(&["session", "files", id, "tests/t_two.sh", "--branch", branch]).expect_status(0).stdout
    };
    assert_eq!(text("fork-1"), "true # one\n");
    assert_eq!(text("main"), "true # two\n");
    let then = run(&["session", "files", id, "tests/t_two.sh", "--at", &at.to_string()]);
    assert_eq!(then.expect_status(0).stdout, "true # one\n");

    let names = ["session", "diff", id, "--branch", "fork-1", "--with", "main", "--names"];
    let told = run(&names).expect_status(0).stdout;
    assert_eq!(told, "modified  tests/t_two.sh\n", "names alone");
    let patch = run(&["session", "diff", id, "--branch", "fork-1", "--with", "main"]);
    let patch = patch.expect_status(0).stdout;
    assert!(patch.contains("-true # one\n+true # two"), "{patch}");

    // It goes on from there, on files of its own, with the same answers of the model.
    run(&["session", "resume", id, "--branch", "fork-1", "--json"]);
    assert_eq!(text("fork-1"), "true # two\n");
    let same = run(&names).expect_status(0);
    assert!(same.stderr.contains("no file differs"), "{same:?}");
    assert_eq!(place.events().1.len(), main.len(), "the main branch is as it was");

    let branches = run(&["session", "show", id, "--branches"]).expect_status(0).stdout;
    assert!(branches.lines().nth(1).is_some_and(|l| l.starts_with("  b_")), "{branches}");
    let out = place.path("out");
    run(&["session", "files", id, "--out", out.to_str().unwrap()]).expect_status(0);
    assert_eq!(std::fs::read_to_string(out.join("tests/t_two.sh")).unwrap(), "true # two\n");
    let again = run(&["session", "files", id, "--out", out.to_str().unwrap(), "--json"]);
    assert_eq!(again.expect_status(2).last()["error"]["code"], "output_exists");
    for branch in ["main", "fork-1"] {
        let replay = run(&["session", "replay", id, "--branch", branch, "--json"]);
        assert_eq!(replay.expect_status(0).last()["equal"], true, "{branch}");
    }
    run(&["audit", "verify", "--json"]).expect_status(0);
    assert_each_ended_once(&whole(&place.log(), &session, "fork-1"));
}

/// B2: an answer of a person before the fork is not one in the fork.
#[test]
fn e2e_b2_a_fork_asks_again() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
reviews: [ { tool: shell.run, answer: approve } ]
steps:
  - emit: [ { call: { id: risky, tool: shell.run, args: { argv: [rm, -rf, /tmp/x] } } } ]
  - emit: [ { text: done } ]
";
    place.scenario(&project, yaml).expect_status(0);
    let (session, main) = place.events();
    let id = session.as_str();
    let points = [
        nth(&main, &Kind::ToolProposed, 0),
        nth(&main, &Kind::ApprovalRequested, 0),
        nth(&main, &Kind::ApprovalResolved, 0),
        nth(&main, &Kind::ToolStarted, 0),
    ];
    for (n, at) in (1..).zip(points) {
        let name = format!("fork-{n}");
        place.run(&["session", "fork", id, "--at", &at.to_string()]).expect_status(0);
        let go_on = ["session", "resume", id, "--branch", &name, "--no-approver", "--json"];
        place.run(&go_on).expect_status(4);
        let own = own_events(&place.log(), &session, &name);
        assert_eq!(count(&own, &Kind::ApprovalRequested), 1, "at {at}");
        assert_eq!(count(&own, &Kind::ToolStarted), 0, "at {at}");
        let replay = ["session", "replay", id, "--branch", &name, "--json"];
        assert_eq!(place.run(&replay).expect_status(0).last()["equal"], true, "at {at}");
    }
    // What is told to a person names the branch as well: the session alone is its first one.
    place.run(&["session", "fork", id, "--at", &points[0].to_string(), "--name", "told"]);
    let told = ["session", "resume", id, "--branch", "told", "--no-approver"];
    let told = place.run(&told).expect_status(4);
    let way_on = format!("session resume {id} --branch b_");
    assert!(told.stderr.contains(&way_on), "{told:?}");
    // The control: with someone who approves, the same fork runs the call.
    place.run(&["session", "fork", id, "--at", &points[1].to_string(), "--name", "yes"]);
    place.run(&["session", "resume", id, "--branch", "yes", "--json"]).expect_status(0);
    assert_eq!(count(&own_events(&place.log(), &session, "yes"), &Kind::ToolCompleted), 1);
    assert_eq!(place.events().1, main, "the main branch is as it was");
}

/// B4: a fork of a running turn ends it there and only there, and both go on at the same time.
#[test]
fn e2e_b4_a_running_turn_can_be_forked() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - delay_ms: 5000
    emit: [ { text: 'It prints one.' } ]
";
    let mut running = place.spawn(place.scenario_command(&project, yaml));
    let session = place.wait_for("the request", |events| count(events, &Kind::ModelRequested) == 1);
    let id = session.as_str();
    place.run(&["session", "fork", id]).expect_status(0);
    let own = own_events(&place.log(), &session, "fork-1");
    let kinds: Vec<_> = own.iter().map(|event| event.kind().as_str()).collect();
    assert_eq!(kinds, ["policy.decided", "branch.forked", "turn.interrupted"]);
    let resumed = place.run(&["session", "resume", id, "--branch", "fork-1", "--json"]);
    assert_eq!(resumed.expect_status(0).last()["outcome"], "answered");
    assert_eq!(running.wait(Duration::from_secs(30)), Some(0));
    for name in ["main", "fork-1"] {
        let events = whole(&place.log(), &session, name);
        assert_each_ended_once(&events);
        let replay = ["session", "replay", id, "--branch", name, "--json"];
        assert_eq!(place.run(&replay).expect_status(0).last()["equal"], true, "{name}");
    }
}

/// A fork may begin after any event whatever, also between an event and what it implies.
#[test]
fn e2e_every_event_can_be_forked_and_gone_on_from() {
    let place = Place::new();
    let project = place.shell_project();
    place.scenario(&project, TWO_WRITES);
    let (session, main) = place.events();
    let kernel_step = main.len() / 12 + 1;
    for at in (1..=main.len()).step_by(kernel_step) {
        let name = format!("at-{at}");
        let at = at.to_string();
        let fork = ["session", "fork", session.as_str(), "--at", &at, "--name", &name];
        place.run(&fork).expect_status(0);
        let resume = ["session", "resume", session.as_str(), "say it", "--branch", &name, "--json"];
        let resumed = place.run(&resume);
        assert!(matches!(resumed.status, Some(0 | 6)), "{at}: {resumed:?}");
        assert_each_ended_once(&whole(&place.log(), &session, &name));
        let replay = ["session", "replay", session.as_str(), "--branch", &name, "--json"];
        assert_eq!(place.run(&replay).expect_status(0).last()["equal"], true, "{at}");
    }
    place.run(&["audit", "verify", "--json"]).expect_status(0);
}

#[test]
fn e2e_what_cannot_be_forked_is_refused_with_the_reason() {
    let place = Place::new();
    let project = place.shell_project();
    place.scenario(&project, HELLO).expect_status(0);
    let (session, main) = place.events();
    let id = session.as_str();
    place.run(&["session", "fork", id, "--name", "taken"]).expect_status(0);
    let head = main.len();
    let check = |arguments: &[&str], code: &str, status: i32| {
        let ran = place.run(&[&["session"], arguments, &["--json"]].concat());
        let ran = ran.expect_status(status);
        assert_eq!(ran.last()["error"]["code"], code, "{arguments:?}");
        ran.last()["error"]["context"].clone()
    };
    let beyond = (head + 1).to_string();
    assert_eq!(check(&["fork", id, "--at", &beyond], "fork_out_of_range", 2)["head"], head);
    check(&["fork", id, "--at", "0"], "fork_out_of_range", 2);
    check(&["fork", id, "--name", "taken"], "branch_exists", 8);
    check(&["fork", id, "--name", ""], "append_invalid", 2);
    check(&["fork", id, "--branch", "none"], "branch_unknown", 10);
    check(&["fork", "s_none"], "session_not_found", 10);
    check(&["files", id, "--at", "1"], "no_workspace", 10);
    check(&["files", id, "--at", &beyond], "fork_out_of_range", 2);
    check(&["resume", id, "--branch", "none"], "branch_unknown", 10);
    check(&["show", id, "--branch", "none"], "branch_unknown", 10);
    check(&["export", "s_none", "--out", "x"], "session_not_found", 10);
    assert_eq!(place.log().branches(&session).unwrap().len(), 2);
}

#[test]
fn e2e_an_export_proves_itself() {
    let place = Place::new();
    let project = place.shell_project();
    place.scenario(&project, HELLO).expect_status(0);
    let (session, main) = place.events();
    place.run(&["session", "fork", session.as_str(), "--at", "5"]).expect_status(0);
    // Of the fork, but before it left the main branch.
    let early = ["session", "fork", session.as_str(), "--branch", "fork-1", "--at", "2"];
    place.run(&early).expect_status(0);
    let file = place.path("session.jsonl");
    let path = file.to_str().unwrap();
    let export = ["session", "export", session.as_str(), "--out", path, "--json"];
    let written = place.run(&export).expect_status(0).last();
    assert!(written["events"].as_u64().unwrap() > main.len() as u64);
    assert_eq!(place.run(&["session", "check-export", path, "--json"]).last(), written);
    let piped = place.run(&["session", "export", session.as_str()]).expect_status(0).stdout;
    assert_eq!(piped, std::fs::read_to_string(&file).unwrap());
    let again = place.run(&export).expect_status(2).last();
    assert_eq!(again["error"]["code"], "output_exists");
    assert_eq!(piped, std::fs::read_to_string(&file).unwrap(), "nothing is replaced");
    // A reader that has seen enough is no failure.
    let mut child = place.command(&["session", "export", session.as_str()]);
    let mut child = child.stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    std::fs::write(&file, piped.replacen("\\\"hi\\\"", "\\\"ho\\\"", 1)).unwrap();
    let bad = place.run(&["session", "check-export", path, "--json"]).expect_status(5);
    assert_eq!(bad.last()["error"]["code"], "export_invalid");
}

/// `show --json` gives the bodies as they were stored, and `--own` numbers a fork's own events from 1.
#[test]
fn e2e_events_are_shown_as_they_were_stored() {
    let place = Place::new();
    let project = place.shell_project();
    place.scenario(&project, HELLO).expect_status(0);
    let (session, _) = place.events();
    place.run(&["session", "fork", session.as_str(), "--at", "3"]).expect_status(0);
    let log = place.log();
    for row in log.branches(&session).unwrap() {
        let show = ["session", "show", session.as_str(), "--branch", &row.name, "--json"];
        let shown = place.run(&show).expect_status(0).stdout;
        let records = log.records(&row.branch, 1, 10_000).unwrap();
        assert_eq!(shown.lines().count(), records.len());
        for (line, record) in shown.lines().zip(&records) {
            let body = String::from_utf8(record.body.clone()).unwrap();
            assert!(line.contains(&format!("\"body\":{body},\"body_hash\"")), "{line}");
            let event: Event = serde_json::from_str(line).unwrap();
            assert_eq!((event.seq(), event.hash), (record.seq, record.hash));
        }
        let own = place.run(&[&show[..], &["--own"]].concat()).expect_status(0).stdout;
        let own: Vec<Event> = own.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let numbers: Vec<_> = own.iter().map(Event::seq).collect();
        let length = row.head.seq - row.base().seq;
        assert_eq!(numbers, (1..=length).collect::<Vec<_>>(), "{}", row.name);
        let text = place.run(&[&show[..5], &["--own"]].concat()).expect_status(0).stdout;
        assert_eq!(text.lines().count() as u64, length + 2);
    }
}

/// A file with the same content elsewhere was renamed.
#[test]
fn e2e_a_renamed_file_is_one_difference() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: plan, tool: plan.complete, args: { summary: s, steps: [a] } } } ]
  - emit: [ { call: { id: one, tool: fs.write, args: { path: tests/t_two.sh, content: \"true # two\\n\" } } } ]
  - emit: [ { call: { id: move, tool: shell.run, args: { script: mv tests/t_two.sh tests/t_three.sh } } } ]
  - emit: [ { text: done } ]
  - emit: [ { text: done } ]
  - emit: [ { text: done } ]
";
    place.scenario(&project, yaml);
    let (session, events) = place.events();
    let from = nth(&events, &Kind::WorkspaceSealed, 0).to_string();
    assert!(
        place.run(&["session", "files", session.as_str(), "--at", &from]).stdout.contains("t_two")
    );
    let diff = ["session", "diff", session.as_str(), "--from", &from];
    let names = place.run(&[&diff[..], &["--names"]].concat()).expect_status(0).stdout;
    assert_eq!(names, "renamed   tests/t_three.sh  from tests/t_two.sh\n");
    let told = place.run(&[&diff[..], &["--json"]].concat()).expect_status(0).last();
    assert_eq!((&told["change"], &told["from"]), (&"renamed".into(), &"tests/t_two.sh".into()));
    assert!(told["patch"].as_str().unwrap().contains("rename from tests/t_two.sh"), "{told}");
}

/// B1: a call that ended before a process died is not made again, whatever waited behind it.
#[test]
fn e2e_b1_what_was_done_before_the_pause_is_not_done_again() {
    let yaml = "
version: 1
reviews: [ { tool: shell.run, answer: approve } ]
steps:
  - emit: [ { call: { id: plan, tool: plan.complete, args: { summary: s, steps: [a] } } } ]
  - emit:
      - { call: { id: line, tool: shell.run, args: { script: 'echo line >> tests/t_lines.sh' } } }
      - { call: { id: risky, tool: shell.run, args: { argv: [rm, -rf, /tmp/x] } } }
  - emit: [ { text: done } ]
  - emit: [ { text: done } ]
  - emit: [ { text: done } ]
";
    for _ in 0..5 {
        let place = Place::new();
        let project = place.shell_project();
        let mut running = place.spawn(place.scenario_command(&project, yaml));
        let session =
            place.wait_for("the question", |events| count(events, &Kind::ApprovalRequested) == 1);
        running.kill_9();
        place.run(&["session", "resume", session.as_str(), "--json"]);
        let file = ["session", "files", session.as_str(), "tests/t_lines.sh"];
        assert_eq!(place.run(&file).expect_status(0).stdout, "line\n");
        assert_each_ended_once(&place.events().1);
    }
}

/// A13: a tool finds no log to change: from a command it is not there, a path to it is denied, whether
/// it would be read, appended to, replaced or deleted.
#[test]
fn e2e_a13_the_log_is_out_of_reach_of_tools() {
    let place = Place::new();
    let project = place.shell_project();
    let home = place.home().display().to_string();
    let script = format!(
        "cat {home}/log.db; echo x >> {home}/log.db; mv {home}/log.db {home}/x; rm -r {home}; \
         test -e {home} || echo it is absent"
    );
    // By a path and through a link that a command leaves: in process, where the kernel itself acts.
    let link = format!("ln -s {home} tests/link; ln -s {home}/log.db tests/log");
    let call = |id: &str, tool: &str, args: serde_json::Value| serde_json::json!({ "emit": [ { "call": { "id": id, "tool": tool, "args": args } } ] });
    let edit = |path: &str| serde_json::json!({ "path": path, "old": "SQLite", "new": "x" });
    let write = |path: &str| serde_json::json!({ "path": path, "content": "x" });
    let path = |path: &str| serde_json::json!({ "path": path });
    let yaml = serde_json::json!({ "version": 1, "steps": [
        call("command", "shell.run", serde_json::json!({ "script": script })),
        call("plan", "plan.complete", serde_json::json!({ "summary": "s", "steps": ["a"] })),
        call("read", "fs.read", path("../home/log.db")),
        call("append", "fs.edit", edit("../home/log.db")),
        call("rename", "fs.write", write("../home/log.db")),
        call("delete", "fs.delete", path("../home/log.db")),
        call("link", "shell.run", serde_json::json!({ "script": link })),
        call("read_link", "fs.read", path("tests/link/log.db")),
        call("append_link", "fs.edit", edit("tests/link/log.db")),
        call("rename_link", "fs.write", write("tests/log")),
        call("delete_link", "fs.delete", path("tests/link/log.db")),
        { "emit": [ { "text": "done" } ] },
        { "emit": [ { "text": "done" } ] },
        { "emit": [ { "text": "done" } ] },
    ], "reviews": [ { "tool": "shell.run", "answer": "approve" } ] });
    place.scenario(&project, &yaml.to_string());
    let (_, events) = place.events();
    let ends: Vec<_> = events.iter().filter(|event| event.kind().ends_call()).collect();
    assert!(ends[0].body["text"].as_str().unwrap().contains("it is absent"), "{:?}", ends[0].body);
    let acts = statuses(&events);
    let acts: Vec<_> =
        acts.iter().filter(|(id, _)| !["command", "plan", "link"].contains(&id.as_str())).collect();
    assert_eq!(acts.len(), 8);
    for (id, status) in acts {
        // No tool deletes yet; a link that leads out may be refused before any rule is asked.
        let may_fail = id.ends_with("_link") || id.starts_with("delete");
        assert!(status == "denied" || (status == "failed" && may_fail), "{id}: {status}");
    }
    let denied =
        |event: &&Event| *event.kind() == Kind::PolicyDecided && event.body["decision"] == "deny";
    assert!(events.iter().filter(denied).count() >= 3);
    place.run(&["audit", "verify", "--json"]).expect_status(0);
    // The control: the same script outside finds the log.
    let copy = place.path("copy");
    std::fs::create_dir(&copy).unwrap();
    std::fs::copy(place.home().join("log.db"), copy.join("log.db")).unwrap();
    let script = script.replace(&home, copy.to_str().unwrap());
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(output.stdout.len() > 1_000 && !copy.exists(), "the control");
}
