//! Rights that outlive what they were given for: sessions that are carried on under another policy, and grants of
//! another repository in the same directory.

use std::path::Path;
use std::time::Duration;

use glasshouse_model::body::SessionResumed;
use glasshouse_model::{Event, Kind};

use crate::harness::{Place, Running};
use crate::reviews::{events, pending, start};

const PATIENCE: Duration = Duration::from_secs(60);
const READ: &str = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: fs.read, args: { path: ask1.txt } } } ]
  - emit: [ { text: done } ]
  - emit: [ { call: { id: b, tool: fs.read, args: { path: ask1.txt } } } ]
  - emit: [ { text: done } ]
";

fn project(place: &Place) -> std::path::PathBuf {
    let project = place.shell_project();
    std::fs::write(project.join("ask1.txt"), "secret\n").unwrap();
    accept(place, &project, "require_review");
    project
}

fn accept(place: &Place, project: &Path, action: &str) {
    place.accept_rule(
        project,
        &format!("{{ name: asks, match: {{ syscall: fs.read, path_glob: 'ask*.txt' }}, action: {action}, reason: mine }}"),
    );
}

fn ends(events: &[Event]) -> Vec<&str> {
    let kinds = [Kind::ToolCompleted, Kind::ToolDenied];
    let ends = events.iter().filter(|event| kinds.contains(event.kind()));
    ends.map(|event| event.kind().as_str()).collect()
}

/// The failure: a call was approved, a policy accepted that denies it, and the session that was carried on made the
/// call. `policy check` said denied.
#[test]
fn what_was_approved_is_decided_by_the_policy_accepted_since() {
    let check = |since: Option<&str>, expected: &str, status: i32| {
        let place = Place::new();
        let project = project(&place);
        let mut running = start(&place, &project, READ);
        let asked = pending(&place, 1).remove(0);
        running.kill_9();
        let name = asked.approval.to_string();
        place.run(&["review", "approve", &name]).expect_status(0);
        if let Some(action) = since {
            accept(&place, &project, action);
        }
        let session = asked.session.to_string();
        let resumed = place.run(&["session", "resume", &session, "--no-approver"]);
        let resumed = resumed.expect_status(status);
        let told = resumed.stderr.contains("another policy was accepted since");
        assert_eq!(told, since.is_some(), "{resumed:?}");
        let events = events(&place);
        assert_eq!(ends(&events), [expected], "{since:?}");
        let resumption = events.iter().find(|event| *event.kind() == Kind::SessionResumed).unwrap();
        let resumption: SessionResumed = resumption.body_as().unwrap();
        assert_eq!(resumption.policy.is_empty(), since.is_none());
        place.run(&["session", "replay", &session]).expect_status(0);
        place.run(&["audit", "verify"]).expect_status(0);
    };
    check(None, "tool.completed", 0);
    check(Some("deny"), "tool.denied", 0);
    // Nothing opens that the session was not started with: it is asked for again, and nobody is there.
    check(Some("allow"), "tool.denied", 4);
}

/// The same with a grant for the session, which a list called live.
#[test]
fn what_was_granted_is_decided_by_the_policy_accepted_since() {
    let check = |since: Option<&str>, second: &str, state: &str| {
        let place = Place::new();
        let project = project(&place);
        let mut running: Running = start(&place, &project, READ);
        let asked = pending(&place, 1).remove(0);
        let name = asked.approval.to_string();
        place.run(&["review", "approve", &name, "--scope", "session"]).expect_status(0);
        assert_eq!(running.wait(PATIENCE), Some(0));
        if let Some(action) = since {
            accept(&place, &project, action);
        }
        let row = place.run(&["grants", "list", "--all", "--json"]).expect_status(0).last();
        assert_eq!(row["state"], state, "{row}");
        let session = asked.session.to_string();
        place.run(&["session", "resume", &session, "again", "--no-approver"]);
        assert_eq!(ends(&events(&place)), ["tool.completed", second], "{since:?}");
        let row = place.run(&["grants", "list", "--all", "--json"]).expect_status(0).last();
        assert_eq!(row["state"], state, "{row}");
        place.run(&["session", "replay", &session]).expect_status(0);
    };
    check(None, "tool.completed", "live");
    check(Some("deny"), "tool.denied", "policy_changed");
    check(Some("require_review"), "tool.completed", "live");
}

/// The failure: the repository was removed, another one made in its directory with the same policy, and what had been
/// granted for the workspace ran there unasked.
#[test]
fn another_repository_in_the_directory_inherits_no_grant() {
    let check = |replaced: bool, expected: &str, state: &str| {
        let place = Place::new();
        let project = project(&place);
        let mut running = start(&place, &project, READ);
        let name = pending(&place, 1).remove(0).approval.to_string();
        place.run(&["review", "approve", &name, "--scope", "workspace"]).expect_status(0);
        assert_eq!(running.wait(PATIENCE), Some(0));
        if replaced {
            let aside = place.path("aside");
            std::fs::rename(&project, &aside).unwrap();
            let copied =
                std::process::Command::new("cp").arg("-r").args([&aside, &project]).status();
            assert!(copied.unwrap().success());
        }
        let row = place.run(&["grants", "list", "--all", "--json"]).expect_status(0).last();
        assert_eq!(row["state"], state, "{row}");
        let session = place.scenario(&project, READ).last()["session"].as_str().unwrap().to_owned();
        let log = place.log();
        let rows = log.sessions().unwrap();
        let row = rows.iter().find(|row| row.session.as_str() == session).unwrap();
        let events = log.read(&row.main, 1, 100_000).unwrap();
        assert_eq!(ends(&events), [expected], "replaced: {replaced}");
    };
    check(false, "tool.completed", "live");
    check(true, "tool.denied", "repository_changed");
}

/// A file that reads, with rules in TypeScript that deny the read of one file.
fn with_program(place: &Place, denied: &str, more: &str) -> String {
    let shipped = place.run(&["policy", "show", "--shipped"]).expect_status(0).stdout;
    format!(
        "{}\n{more}extension: |\n  export function evaluate(call) {{\n    if (call.path === '{denied}')\n      \
         return {{ effect: 'deny', reason: 'not {denied}' }};\n  }}\n",
        shipped.trim_end()
    )
}

fn patterns(name: &str, count: usize) -> String {
    let lines = (0..count).map(|n| format!("  {name}-{n}: '{name}{n}_[a-z]{{8}}'\n"));
    format!("secret_patterns:\n{}", lines.collect::<String>())
}

/// Three turns, each reading both files.
const READS: &str = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: fs.read, args: { path: src/a } } }, { call: { id: b, tool: fs.read, args: { path: src/b } } } ]
  - emit: [ { text: done } ]
  - emit: [ { call: { id: c, tool: fs.read, args: { path: src/a } } }, { call: { id: d, tool: fs.read, args: { path: src/b } } } ]
  - emit: [ { text: done } ]
";

/// The failure: limits of one file were counted over the file that a session was started with and the one accepted since,
/// so the session, its forks and its work were stuck after a policy with other rules in TypeScript was accepted. Now: each
/// file keeps them by itself, all programs are heard, and what either denies is denied.
#[test]
fn a_session_is_carried_on_beside_another_file_with_a_program() {
    let check =
        |before: &str, since: Option<&str>, expected: [&str; 2], [one, other]: [&str; 2]| {
            let place = Place::new();
            let project = place.shell_project();
            for name in ["a", "b"] {
                std::fs::write(project.join("src").join(name), "text\n").unwrap();
            }
            place.accept_policy(&project, &with_program(&place, before, one));
            let ran = place.scenario(&project, READS).expect_status(0).last();
            let id = ran["session"].as_str().unwrap().to_owned();
            let fork = ["session", "fork", &id, "--name", "beside"];
            if let Some(since) = since {
                place.accept_policy(&project, &with_program(&place, since, other));
            }
            place.run(&fork).expect_status(0);
            let log = place.log();
            let rows = log.branches(&id.parse().unwrap()).unwrap();
            for (row, more) in rows.iter().zip([&[][..], &["--branch", "beside"]]) {
                let resume = ["session", "resume", &id, "again", "--json"];
                place.run(&[&resume[..], more].concat()).expect_status(0);
                let events = log.read(&row.branch, 1, 100_000).unwrap();
                let found = ends(&events);
                assert_eq!(found[found.len() - 2..], expected, "{before} {since:?} {more:?}");
                let replay = ["session", "replay", &id, "--json"];
                let replay = place.run(&[&replay[..], more].concat()).expect_status(0).last();
                assert_eq!(replay["equal"], true, "{replay}");
            }
            place.run(&["audit", "verify"]).expect_status(0);
        };
    let (open, denied) = ("tool.completed", "tool.denied");
    check("src/a", Some("src/b"), [denied, denied], ["", ""]);
    check("src/a", Some("src/c"), [denied, open], ["", ""]);
    check("src/c", Some("src/b"), [open, denied], ["", ""]);
    // The same program in a file that differs in something else is asked once for both.
    check("src/a", Some("src/a"), [denied, open], ["", "# more\n"]);
    // Patterns for secrets, as many as one file may have.
    let (mine, others) = (patterns("mine", 40), patterns("other", 40));
    check("src/c", Some("src/b"), [open, denied], [&mine, &others]);
    // The control.
    check("src/a", None, [denied, open], ["", ""]);
}

/// The failure: what an agent had written was merged after a policy was accepted that denies it: the merge is another call.
/// Now a denial of the change itself binds the merge of what was written before.
#[test]
fn what_was_written_before_is_merged_under_the_policy_accepted_since() {
    const WRITES: &str = "
version: 1
steps:
  - emit: [ { call: { id: p, tool: plan.complete, args: { summary: look } } } ]
  - emit: [ { call: { id: w, tool: fs.write, args: { path: src/new.sh, content: 'echo new' } } } ]
  - emit: [ { call: { id: t, tool: test.run, args: {} } } ]
  - emit: [ { call: { id: c, tool: git.commit, args: { message: new } } } ]
  - emit: [ { text: done } ]
  - emit: [ { call: { id: u, tool: test.run, args: {} } } ]
  - emit: [ { call: { id: d, tool: git.commit, args: { message: new } } } ]
  - emit: [ { text: done } ]
";
    let check = |conditions: &str, more: &str, is_denied: bool| {
        let place = Place::new();
        let project = place.shell_project();
        let file = place.path("writes.yaml").display().to_string();
        std::fs::write(&file, WRITES).unwrap();
        let start = ["do it", "--mode", "explore", "--scenario", &file];
        // Nobody is there who would look at the merge.
        place.run_in(&project, &start).expect_status(4);
        let session = place.events().0.to_string();
        let rule = format!("{{ name: closed, match: {{ {conditions} }}, action: deny{more} }}");
        place.accept_rule(&project, &rule);
        let resumed =
            place.run_in(&project, &["session", "resume", &session, "commit it", "--json"]);
        let told = format!("{}{}", resumed.stdout, resumed.stderr);
        assert_eq!(
            told.contains("`src/new.sh` may not be merged"),
            is_denied,
            "{conditions}{more}: {resumed:?}"
        );
        assert_eq!(told.contains("no_approver"), !is_denied, "{conditions}{more}: {resumed:?}");
        place.run(&["session", "replay", &session]).expect_status(0);
    };
    let writes = "syscall: fs.write, path_glob: 'src/**'";
    check(writes, "", true);
    check("syscall: fs.write, path_glob: 'docs/**'", "", false);
    // The controls: what is denied in some states only was not when it was written.
    check(writes, ", except: [{ state_machine_state: exploring }]", false);
    check(&format!("{writes}, state_machine_state: [reviewing, committing]"), "", false);
}
