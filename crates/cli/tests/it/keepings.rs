//! A log over the years: where old sessions go, and what a restore takes back.

use std::fs;
use std::path::Path;

use glasshouse_log::{Append, NewBranch};
use glasshouse_model::{Draft, Event, Header, Kind};
use serde_json::{Value, json};

use crate::harness::{Place, count};

const ANSWER: &str = "
version: 1
steps:
  - emit: [ { text: 'It prints one.' } ]
";

#[test]
fn e2e_old_sessions_move_to_archives() {
    let place = Place::new();
    let project = place.shell_project();
    place.scenario(&project, ANSWER).expect_status(0);
    let (session, events) = place.events();
    let rotate = |arguments: &[&str]| -> Value {
        place.run(&[&["audit", "rotate", "--json"], arguments].concat()).expect_status(0).last()
    };
    assert_eq!(rotate(&[])["archived"], serde_json::json!([]), "ninety days are not over");

    let config = place.path("config/glasshouse/config.yaml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, "log: { retention_days: 0 }\n").unwrap();
    let planned = rotate(&["--dry-run"]);
    assert_eq!(planned["archived"][0]["session"], session.as_str());
    assert!(!place.home().join("archive").exists());
    let done = rotate(&[]);
    let file = place.home().join("archive").join(done["archived"][0]["file"].as_str().unwrap());
    let proved = place.run(&["session", "check-export", file.to_str().unwrap(), "--json"]);
    assert_eq!(proved.expect_status(0).last()["events"], events.len());

    let table = place.run(&["session", "list"]).expect_status(0);
    assert!(
        !table.stdout.contains(session.as_str()) && table.stderr.contains("--all"),
        "{table:?}"
    );
    let all = place.run(&["session", "list", "--all"]).expect_status(0).stdout;
    assert!(all.contains("archived"), "{all}");
    let shown = place.run(&["session", "show", session.as_str()]).expect_status(8);
    assert!(shown.stderr.contains(file.to_str().unwrap()), "{shown:?}");
    let verified = place.run(&["audit", "verify", "--json"]).expect_status(0).last();
    assert_eq!(verified["erased_events"], events.len());
    assert_eq!(rotate(&[])["archived"], serde_json::json!([]), "once");
    // The next session starts as any other, and nothing old is in its way.
    place.scenario(&project, ANSWER).expect_status(0);
    place.run(&["audit", "check-state"]).expect_status(0);
}

/// Somebody's repository does not say how long the log of all projects is kept.
#[test]
fn e2e_a_project_cannot_shorten_the_log() {
    let place = Place::new();
    let project = place.shell_project();
    fs::create_dir_all(project.join(".glasshouse")).unwrap();
    fs::write(project.join(".glasshouse/config.yaml"), "log: { retention_days: 0 }\n").unwrap();
    let refused = place.scenario(&project, ANSWER).expect_status(2);
    assert_eq!(refused.last()["error"]["code"], "config_invalid");
    let set = place.run_in(&project, &["config", "set", "log.retention_days", "0"]);
    assert!(set.expect_status(2).stderr.contains("user's to say"));
}

/// What a person approved once is good for one use, and a backup does not know whether it was used.
#[test]
fn e2e_law_3_an_approval_is_not_used_again_after_a_restore() {
    let place = Place::new();
    let project = place.shell_project();
    let yaml = "
version: 1
steps:
  - emit: [ { call: { id: a, tool: shell.run, args: { script: 'rm -rf nothing' } } } ]
  - expect: { results: { a: completed } }
    emit: [ { text: done } ]
reviews: [ { tool: shell.run, answer: approve } ]
";
    place.scenario(&project, yaml).expect_status(0);
    let (session, events) = place.events();
    let answered = events.iter().position(|event| *event.kind() == Kind::ApprovalResolved).unwrap();
    fs::rename(place.home(), place.path("whole")).unwrap();
    let asked = |loses: bool| {
        interrupt(&place, &events[..=answered], loses);
        let resumed = place.run(&["session", "resume", session.as_str(), "--json"]);
        let branch = resumed.expect_status(0).last()["branch"].as_str().unwrap().parse().unwrap();
        let log = place.log();
        let events: Vec<_> = log.events(&branch).map(Result::unwrap).collect();
        (count(&events, &Kind::ApprovalRequested), count(&events, &Kind::LogRecovered))
    };
    assert_eq!(asked(false), (1, 0), "the control: the answer is used");
    assert_eq!(asked(true), (2, 1), "it is asked for again");
}

/// Makes the home as it was when a session had these events: by going on from there, or by a restore of a
/// backup of then.
fn interrupt(place: &Place, events: &[Event], restores: bool) {
    let _ = fs::remove_dir_all(place.home());
    let log = place.log();
    for directory in ["blobs", "cache"] {
        copy(&place.path("whole").join(directory), &place.home().join(directory));
    }
    let header = &events[0].header;
    let (session, branch) = (header.session.clone(), header.branch.clone());
    let name = "main".to_owned();
    let new = NewBranch { session: session.clone(), branch: branch.clone(), name, parent: None };
    log.create_branch(new).unwrap();
    let append = |draft: Draft| {
        log.append(Append::new(session.clone(), branch.clone(), vec![draft])).unwrap();
    };
    for event in events {
        let Header { kind, actor, cause, trace, labels, .. } = event.header.clone();
        append(Draft { kind, actor, cause, trace, labels, body: event.body.clone() });
    }
    log.back_up().unwrap();
    if restores {
        append(Draft::new(Kind::Heartbeat, &serde_json::json!({})));
    }
    drop(log);
    if restores {
        place.run(&["audit", "restore", "--accept-loss"]).expect_status(0);
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            let _ = fs::copy(entry.path(), target);
        }
    }
}

/// What a person wants gone is in no file any more, who wanted it is told, and every proof holds.
#[test]
fn e2e_what_is_erased_is_gone_and_proofs_hold() {
    const SECRET: &str = "plumtreepassword";
    let place = Place::new();
    let project = place.shell_project();
    let file = place.path("scenario.yaml");
    fs::write(&file, ANSWER).unwrap();
    let file = file.to_str().unwrap();
    let task = format!("use {SECRET} to log in");
    place.run_in(&project, &[&task, "--scenario", file, "--json"]).expect_status(0);
    let (session, events) = place.events();
    let id = session.as_str();
    let holds = |event: &&Event| event.body.to_string().contains(SECRET);
    let holding: Vec<_> = events.iter().filter(holds).map(Event::seq).collect();
    assert!(!holding.is_empty() && !files_with(&place.home(), SECRET).is_empty(), "the control");
    let names: Vec<_> = holding.iter().map(|seq| format!("--event={seq}")).collect();
    let erase = |more: &[&str]| {
        let mut arguments = vec!["session", "erase", id, "--reason", "it was pasted", "--json"];
        arguments.extend(names.iter().map(String::as_str).chain(more.iter().copied()));
        place.run(&arguments)
    };
    let before = place.run(&["audit", "verify", "--json"]).expect_status(0).last();
    let branch = &events[0].header.branch;
    let proof = place.run(&["audit", "prove", branch.as_str(), "1"]).expect_status(0).stdout;

    // Looking changes nothing.
    let planned = erase(&[]).expect_status(0).last();
    assert_eq!(
        (&planned["erased"], planned["events"].as_array().unwrap().len()),
        (&json!(false), names.len())
    );
    assert_eq!(place.run(&["audit", "verify", "--json"]).expect_status(0).last(), before);
    let done = erase(&["--yes"]).expect_status(0).last();
    assert_eq!(done["erased"], true);
    assert_eq!(files_with(&place.home(), SECRET), Vec::<std::path::PathBuf>::new());
    let after = place.run(&["audit", "verify", "--json"]).expect_status(0).last();
    assert_eq!(after["erased_events"], names.len());
    let told =
        place.run(&["audit", "log", "--kind", "log.erased", "--json"]).expect_status(0).last();
    assert_eq!(
        (&told["actor"]["id"], &told["body"]["reason"]),
        (&json!("local"), &json!("it was pasted"))
    );
    place.run(&["session", "show", id]).expect_status(0);
    place.run(&["session", "list"]).expect_status(0);
    let again = place.run(&["audit", "prove", branch.as_str(), "1"]).expect_status(0).stdout;
    assert_eq!(again.lines().next(), proof.lines().next(), "the same event");
    let out = place.path("out.jsonl");
    place.run(&["session", "export", id, "--out", out.to_str().unwrap()]).expect_status(0);
    place.run(&["session", "check-export", out.to_str().unwrap()]).expect_status(0);

    let check = |more: &[&str], status: i32, code: &str| {
        let fixed = ["session", "erase", id, "--reason", "x", "--yes", "--json"];
        let ran = place.run(&[&fixed, more].concat()).expect_status(status);
        assert_eq!(ran.last()["error"]["code"], code, "{more:?}");
    };
    check(&[], 2, "append_invalid");
    check(&["--event", "0"], 2, "fork_out_of_range");
    check(&["--event", "1-99999"], 2, "fork_out_of_range");
    check(&["--event", "9-1"], 2, "usage");
    check(&["--event", "1", "--branch", "none"], 10, "branch_unknown");
    let now = place.log().read(branch, 1, 1_000).unwrap();
    let telling = now.iter().find(|event| *event.kind() == Kind::LogErased).unwrap().seq();
    check(&["--event", &telling.to_string()], 2, "append_invalid");
}

/// Files below a directory that hold a text.
fn files_with(directory: &Path, text: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if fs::read(&path)
            .is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text.as_bytes()))
        {
            found.push(path);
        }
    }
    found
}
