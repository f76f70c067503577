//! What a person is told: names where they are known, the cause and not its consequence, and nothing that is not so.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use glasshouse_model::Kind;

use crate::harness::{COMMITS, Place, count, git};

/// A session as a person starts it, and what it wrote to them.
fn told(place: &Place, project: &Path, yaml: &str, status: i32) -> String {
    let file = place.path("scenario.yaml");
    std::fs::write(&file, yaml).unwrap();
    let scenario = ["do it", "--scenario", file.to_str().unwrap()];
    place.run_in(project, &scenario).expect_status(status).stderr
}

/// The failure: in a repository without a commit the whole task ran, and then each file was in conflict.
#[test]
fn e2e_a_repository_without_a_commit_is_refused_before_a_model_is_asked() {
    let place = Place::new();
    let project = place.shell_project();
    std::fs::remove_dir_all(project.join(".git")).unwrap();
    git(&project, &["init", "-q", "-b", "main"]);
    let said = told(&place, &project, COMMITS, 2);
    assert!(said.contains("[no_commit]") && said.contains("git commit"), "{said}");
    assert!(place.log().sessions().unwrap().is_empty());
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "first"]);
    let said = told(&place, &project, COMMITS, 0);
    assert!(said.contains("\ncommitted "), "{said}");
}

/// The failure: without a repository the last words were `committed`, and so was the state in the list.
#[test]
fn e2e_what_is_in_no_commit_is_not_called_committed() {
    let place = Place::new();
    let project = place.shell_project();
    std::fs::remove_dir_all(project.join(".git")).unwrap();
    let said = told(&place, &project, COMMITS, 0);
    assert!(said.contains("no commit was made: the project is no git repository"), "{said}");
    assert!(said.contains("\nmerged without a commit: "), "{said}");
    assert!(!said.contains("\ncommitted"), "{said}");
    let (session, _) = place.events();
    let list = place.run(&["session", "list"]).expect_status(0).stdout;
    assert!(list.contains("  merged  ") && !list.contains("committed"), "{list}");
    let shown = place.run(&["session", "show", session.as_str()]).expect_status(0).stdout;
    assert!(shown.contains("none: the project is no git repository"), "{shown}");
}

/// The failure: an error of this session named `ID` and `SEQ` where both are known.
#[test]
fn e2e_an_error_names_the_session_and_the_event() {
    let place = Place::new();
    let project = place.shell_project();
    let rule =
        "{ name: no-models, match: { syscall: model.call }, action: deny, reason: not today }";
    place.accept_rule(&project, rule);
    let said = told(&place, &project, COMMITS, 3);
    let (session, events) = place.events();
    let denied = events.iter().find(|event| {
        *event.kind() == Kind::PolicyDecided && event.body["syscall"] == "model.call"
    });
    let at = denied.unwrap().seq();
    assert!(said.contains(&format!("--session {session} --at {at}")), "{said}");
    let ids = session.as_str();
    let explained = ["policy", "explain", "--session", ids, "--at", &at.to_string()];
    assert!(place.run(&explained).stdout.contains("not today"));

    place.run(&["session", "delete", ids, "--yes"]).expect_status(0);
    let gone = place.run(&["session", "show", ids]).stderr;
    assert!(gone.contains("it was deleted") && !gone.contains("the archive that"), "{gone}");
}

/// The failure: the name of a directory that is not there was told as a lack of space.
#[test]
fn e2e_what_a_name_gets_wrong_is_no_failure_of_the_storage() {
    let place = Place::new();
    let project = place.shell_project();
    told(&place, &project, "version: 1\nsteps: [ { emit: [ { text: 'One.' } ] } ]\n", 0);
    let (session, _) = place.events();
    let id = session.as_str();
    let check = |arguments: &[&str], code: &str, words: &str| {
        let ran = place.run_in(&project, arguments).expect_status(2);
        assert!(ran.stderr.contains(&format!("[{code}]")), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(words), "{arguments:?}: {ran:?}");
    };
    let missing = "No such file or directory";
    check(&["session", "export", id, "--out", "nodir/x"], "usage", missing);
    check(&["session", "export", id, "--layout", "--out", "nodir/x"], "usage", missing);
    check(&["session", "files", id, "--out", "nodir/x"], "usage", missing);
    check(&["session", "export", id, "--out", "src/tool.sh/x"], "usage", "Not a directory");
    check(&["audit", "restore", "nofile"], "input_unreadable", missing);
    check(&["config", "set", "modle", "foo"], "config_invalid", "unknown field `modle`");
    check(&["config", "init"], "output_exists", "never overwrites");
    check(&["x", "--scenario", "tests/run.sh"], "scenario_invalid", "tests/run.sh");
}

/// The failure: a command whose reader had gone ran on into the limit of output, which was told as `Output`.
#[test]
fn e2e_a_command_that_nobody_reads_any_more_is_ended() {
    let place = Place::new();
    let mut command: Command = place.command(&["sandbox", "run", "--", "yes"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ended = crate::harness::Ran::new(&child.wait_with_output().unwrap());
    assert_eq!((line.as_str(), ended.status, ended.stderr.as_str()), ("y\n", Some(141), ""));
    let (_, events) = place.events();
    assert_eq!(count(&events, &Kind::ToolCancelled), 1);

    let ran = place.run(&["sandbox", "run", "--", "yes"]).expect_status(137);
    assert!(ran.stderr.contains("it wrote more than 64 MiB"), "{}", ran.stderr);
}

/// The failure: a pipe of the directory was left out of its copy in silence.
#[test]
fn e2e_what_a_copy_leaves_out_is_named() {
    let place = Place::new();
    let dir = place.path("work");
    std::fs::create_dir_all(dir.join("deep")).unwrap();
    std::fs::write(dir.join("file"), "").unwrap();
    let pipe = dir.join("deep/pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let run = |more: &[&str]| {
        let workspace = ["sandbox", "run", "--workspace", dir.to_str().unwrap()];
        place.run(&[&workspace[..], more, &["--", "ls"]].concat()).expect_status(0)
    };
    let ran = run(&[]);
    assert!(ran.stderr.contains("left out of the workspace: deep/pipe"), "{ran:?}");
    assert_eq!(run(&["--json"]).last()["left_out"], serde_json::json!(["deep/pipe"]));
}

/// The failure: a text that is no JSON was found to be `unsafe: 1 issue`.
#[test]
fn e2e_what_is_no_plan_was_not_found_unsafe() {
    let place = Place::new();
    let file = place.path("plan.json");
    std::fs::write(&file, "{").unwrap();
    let ran = place.run(&["ui", "check", file.to_str().unwrap()]).expect_status(2);
    assert!(ran.stderr.starts_with("the plan cannot be read\n"), "{ran:?}");
    assert!(ran.stderr.contains("plan_json_invalid"), "{ran:?}");
}
