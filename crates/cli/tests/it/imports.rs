//! Sessions that go from one data directory to another.

use crate::harness::{Place, Ran, count};

use glasshouse_model::Kind;

/// A session with a fork that was merged, files, and an answer of a person.
const LIVED: &str = "
version: 1
reviews: [ { tool: shell.run, answer: approve } ]
steps:
  - emit: [ { call: { id: plan, tool: plan.complete, args: { summary: s, steps: [a] } } } ]
  - emit: [ { call: { id: one, tool: fs.write, args: { path: tests/t_two.sh, content: \"true # one\\n\" } } } ]
  - emit: [ { call: { id: risky, tool: shell.run, args: { argv: [rm, -rf, /tmp/x] } } } ]
  - emit: [ { text: done } ]
  - emit: [ { text: done } ]
  - emit: [ { text: done } ]
  - emit: [ { call: { id: risky2, tool: shell.run, args: { argv: [rm, -rf, /tmp/x] } } } ]
  - emit: [ { text: done } ]
  - emit: [ { text: done } ]
  - emit: [ { text: done } ]
";

/// Runs the program of one place on the data directory `other`.
fn elsewhere(place: &Place, words: &[&str]) -> Ran {
    let mut command = place.command(words);
    command.env("GLASSHOUSE_HOME", place.path("elsewhere"));
    command.current_dir(place.path("project"));
    Ran::new(&command.output().unwrap())
}

#[test]
fn e2e_a_session_goes_elsewhere_and_comes_back_byte_for_byte() {
    let place = Place::new();
    let project = place.shell_project();
    place.scenario(&project, LIVED).expect_status(6);
    let (session, events) = place.events();
    let id = session.as_str();
    place.run(&["session", "fork", id, "--name", "side"]).expect_status(0);
    place.run(&["session", "fork", id, "--at", "9", "--name", "early"]).expect_status(0);
    place.run(&["session", "merge", id, "side"]).expect_status(0);
    let at = |name: &str| place.path(name).display().to_string();
    let (out, back, bare) = (at("out"), at("back"), at("bare"));
    let export = ["session", "export", id, "--json", "--out"];
    let written = place.run(&[&export[..], &[&out]].concat()).expect_status(0).last();
    assert!(written["blobs"].as_u64().unwrap() > 3, "{written}");
    let alone = place.run(&[&export[..], &[&bare, "--with-blobs=false"]].concat());
    assert_eq!(alone.expect_status(0).last()["blobs"], 0);
    for file in [&out, &bare] {
        place.run(&["session", "check-export", file]).expect_status(0);
    }
    let import = ["session", "import", &out, "--json"];
    let imported = elsewhere(&place, &import).expect_status(0).last();
    assert_eq!((&imported["is_new"], &imported["branches"]), (&true.into(), &3.into()));
    assert_eq!(imported["missing_blobs"], serde_json::json!([]));
    for key in ["events", "blobs", "digest"] {
        assert_eq!(imported[key], written[key], "{key}");
    }
    assert_eq!(elsewhere(&place, &import).expect_status(0).last()["is_new"], false);
    elsewhere(&place, &["session", "export", id, "--out", &back]).expect_status(0);
    assert_eq!(std::fs::read(&out).unwrap(), std::fs::read(&back).unwrap());
    elsewhere(&place, &["audit", "verify", "--json"]).expect_status(0);

    // It is read there, and replayed; no branch of it goes on.
    let show = ["session", "show", id, "--json"];
    assert_eq!(elsewhere(&place, &show).expect_status(0).stdout, place.run(&show).stdout);
    let file = ["session", "files", id, "tests/t_two.sh"];
    assert_eq!(elsewhere(&place, &file).expect_status(0).stdout, "true # one\n");
    elsewhere(&place, &["session", "replay", id, "--json"]).expect_status(0);
    let refused = |words: &[&str], status: i32, code: &str| {
        let ran = elsewhere(&place, &[words, &["--json"]].concat()).expect_status(status);
        assert_eq!(ran.last()["error"]["code"], code, "{words:?}");
    };
    refused(&["session", "resume", id, "on"], 8, "branch_read_only");
    refused(&["session", "merge", id, "early"], 8, "branch_read_only");

    // A fork goes on, without the answers of people: those in the log, and those of the scenario.
    elsewhere(&place, &["session", "fork", id, "--name", "here"]).expect_status(0);
    let resume = ["session", "resume", id, "on", "--branch", "here", "--json"];
    elsewhere(&place, &resume).expect_status(4);
    let log =
        glasshouse_log::Log::open(&place.path("elsewhere"), &glasshouse_model::TenantId::local());
    let log = log.unwrap();
    let rows = log.branches(&session).unwrap();
    let row = rows.iter().find(|row| row.name == "here").unwrap();
    let own = log.read(&row.branch, row.base().seq + 1, 10_000).unwrap();
    assert_eq!(count(&own, &Kind::ApprovalRequested), 1);
    assert_eq!(count(&own, &Kind::ToolStarted), 0, "nobody approved it here");
    let ours = own.iter().filter(|event| *event.kind() == Kind::PolicyDecided);
    assert!(ours.count() > 1 && events.len() > 10);
    drop(log);
    elsewhere(&place, &["session", "replay", id, "--branch", "here", "--json"]).expect_status(0);
    // The control: in its own log the same fork is approved by the scenario.
    place.run(&["session", "fork", id, "--name", "here"]).expect_status(0);
    place.run(&resume).expect_status(6);

    // What another log recorded does not choose where an agent works.
    let mut command = place.command(&resume);
    command
        .env("GLASSHOUSE_HOME", place.path("elsewhere"))
        .current_dir(place.path("config-none-such").parent().unwrap());
    let ran = Ran::new(&command.output().unwrap()).expect_status(2);
    assert_eq!(ran.last()["error"]["code"], "project_unreadable");
    elsewhere(&place, &["audit", "verify", "--json"]).expect_status(0);
}

/// The failure: a fork of an imported session was decided by the shipped policy and what the other log recorded; a policy that a
/// person here had accepted for the project did not count.
#[test]
fn e2e_a_policy_accepted_here_binds_a_fork_of_an_imported_session() {
    let read = "
version: 1
steps:
  - emit: [ { text: hello } ]
  - emit: [ { call: { id: a, tool: fs.read, args: { path: src/tool.sh } } } ]
  - emit: [ { text: done } ]
";
    let check = |denies: bool| {
        let place = Place::new();
        let project = place.shell_project();
        place.scenario(&project, read).expect_status(0);
        let (session, _) = place.events();
        let id = session.as_str();
        let out = place.path("out").display().to_string();
        place.run(&["session", "export", id, "--out", &out]).expect_status(0);
        let action = if denies { "deny" } else { "allow" };
        let rule = format!("{{ name: own, match: {{ syscall: fs.read }}, action: {action} }}");
        let shipped = place.run(&["policy", "show", "--shipped"]).expect_status(0).stdout;
        let text = format!("{}\n  - {rule}\n", shipped.trim_end());
        std::fs::write(project.join(".glasshouse/policy.yaml"), &text).unwrap();
        let digest = glasshouse_model::Digest::of(text.as_bytes()).to_string();
        elsewhere(&place, &["policy", "update", "--digest", &digest]).expect_status(0);
        elsewhere(&place, &["session", "import", &out]).expect_status(0);
        elsewhere(&place, &["session", "fork", id, "--name", "here"]).expect_status(0);
        elsewhere(&place, &["session", "resume", id, "on", "--branch", "here"]).expect_status(0);
        let shown = elsewhere(&place, &["session", "show", id, "--branch", "here", "--json"]);
        let lines = shown.stdout.lines().filter(|line| line.contains("\"tool.denied\""));
        assert_eq!(lines.count(), usize::from(denies), "{shown:?}");
    };
    check(true);
    check(false);
}

/// Without its blobs a session can be read but for what is missing, which is named and is no damage.
#[test]
fn e2e_an_export_without_blobs_is_imported_and_says_what_is_missing() {
    let place = Place::new();
    let project = place.shell_project();
    place.scenario(&project, LIVED).expect_status(6);
    let (session, _) = place.events();
    let id = session.as_str();
    let at = |name: &str| place.path(name).display().to_string();
    let (out, bare) = (at("out"), at("bare"));
    place.run(&["session", "export", id, "--out", &bare, "--with-blobs=false"]).expect_status(0);
    place.run(&["session", "export", id, "--out", &out]).expect_status(0);
    let imported = elsewhere(&place, &["session", "import", &bare, "--json"]).expect_status(0);
    let missing = imported.last()["missing_blobs"].as_array().unwrap().len();
    assert!(missing > 3, "{missing}");
    let verified = elsewhere(&place, &["audit", "verify", "--json"]).expect_status(0).last();
    assert_eq!(verified["missing_blobs"], missing);
    elsewhere(&place, &["session", "show", id]).expect_status(0);
    let file = ["session", "files", id, "tests/t_two.sh"];
    let refused = elsewhere(&place, &file).expect_status(10);
    assert!(refused.stderr.contains("no blob sha256:"), "{}", refused.stderr);
    let brought = elsewhere(&place, &["session", "import", &out]).expect_status(0);
    assert!(brought.stderr.contains("contents that were missing came"), "{}", brought.stderr);
    elsewhere(&place, &file).expect_status(0);
    let verified = elsewhere(&place, &["audit", "verify", "--json"]).expect_status(0).last();
    assert_eq!(verified["missing_blobs"], serde_json::Value::Null);
}

/// The failure that this keeps away: cells are made again from events, those of an imported session
/// included, so a stranger's acceptance of a policy became one of this machine.
#[test]
fn e2e_no_cell_is_made_again_from_what_was_imported() {
    let place = Place::new();
    let project = place.shell_project();
    let open = "capabilities: [{ name: everything, match: {}, action: allow }]\n";
    place.accept_policy(&project, open);
    let log = place.log();
    let accepts = |row: &glasshouse_log::SessionRow| {
        let events = log.read(&row.main, 1, 100).unwrap();
        events.iter().any(|event| *event.kind() == Kind::PolicyUpdated)
    };
    let session = log.sessions().unwrap().into_iter().find(accepts).unwrap().session;
    drop(log);
    let out = place.path("out").display().to_string();
    place.run(&["session", "export", session.as_str(), "--out", &out]).expect_status(0);
    elsewhere(&place, &["session", "import", &out]).expect_status(0);
    let check = ["audit", "check-state", "--json"];
    let cells = elsewhere(&place, &check).expect_status(0).last();
    assert_eq!(cells["cells"], serde_json::json!([]));
    // The control: in its own log the cell is made again from the same event.
    let log = place.log();
    let (key, _) = log.cells("policy.accepted", "", 9).unwrap().pop().unwrap();
    let (session, branch) = ("s_any".parse().unwrap(), "b_any".parse().unwrap());
    let new = glasshouse_log::NewBranch { session, branch, name: "main".into(), parent: None };
    log.create_branch(new.clone()).unwrap();
    let cell = glasshouse_log::CellWrite {
        space: "policy.accepted".into(),
        key,
        expected_version: None,
        bytes: None,
    };
    let event = glasshouse_model::Draft::new(Kind::Heartbeat, &1);
    let append = glasshouse_log::Append::new(new.session, new.branch, vec![event]);
    log.append(glasshouse_log::Append { cells: vec![cell], ..append }).unwrap();
    drop(log);
    let repaired = place.run(&check).expect_status(5).last();
    assert_eq!(repaired["cells"][0]["space"], "policy.accepted");
}

/// The failure that this keeps away: a file says that anything is allowed, and work on it would be decided so.
#[test]
fn e2e_the_policy_of_an_imported_session_opens_nothing() {
    let place = Place::new();
    let project = place.shell_project();
    let open = "capabilities: [{ name: everything, match: {}, action: allow }]\n";
    place.accept_policy(&project, open);
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: risky, tool: shell.run, args: { argv: [rm, -rf, /tmp/x] } } } ]
  - emit: [ { text: done } ]
  - emit: [ { call: { id: again, tool: shell.run, args: { argv: [rm, -rf, /tmp/x] } } } ]
  - emit: [ { text: done } ]
";
    place.scenario(&project, yaml).expect_status(0);
    let log = place.log();
    let session = log
        .sessions()
        .unwrap()
        .into_iter()
        .find(|row| log.read(&row.main, 1, 1).unwrap()[0].kind() == &Kind::SessionCreated);
    let session = session.unwrap().session;
    drop(log);
    let id = session.as_str();
    let out = place.path("out").display().to_string();
    place.run(&["session", "export", id, "--out", &out]).expect_status(0);
    elsewhere(&place, &["session", "import", &out, "--json"]).expect_status(0);
    let fork = ["session", "fork", id, "--name", "on"];
    let resume = ["session", "resume", id, "go on", "--branch", "on", "--json"];
    place.run(&fork).expect_status(0);
    place.run_in(&project, &resume).expect_status(0);
    elsewhere(&place, &fork).expect_status(0);
    elsewhere(&place, &resume).expect_status(4);
}
