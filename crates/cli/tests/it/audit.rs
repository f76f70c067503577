//! `audit`: what it says of a home that is whole, empty, robbed, damaged or closed to writing.

use std::fs;
use std::path::Path;

use crate::harness::Place;

const STORY: &str = "
steps:
  - emit: [ { text: \"Nothing to do.\" } ]
";

/// A place with one finished session.
fn place() -> Place {
    let place = Place::new();
    let project = place.shell_project();
    let ran = place.scenario(&project, STORY);
    assert!(place.home().join("log.db").exists(), "{ran:?}");
    place
}

#[test]
fn e2e_audit_of_nothing_says_so() {
    let place = Place::new();
    for command in [["audit", "verify", "--json"], ["audit", "log", "--json"]] {
        let ran = place.run(&command).expect_status(10);
        assert_eq!(ran.last()["error"]["code"], "nothing_recorded", "{ran:?}");
    }
    assert!(!place.home().exists(), "auditing makes nothing");
}

#[test]
fn e2e_a_log_that_was_taken_away_is_not_replaced() {
    let place = place();
    let sound = place.run(&["audit", "verify", "--json"]).expect_status(0).last();
    assert_eq!(sound["ok"], true, "the control: {sound}");
    for (also, expected) in [("run", 5), ("heads", 5), ("keys", 5)] {
        for name in ["log.db", "log.db-wal", "log.db-shm"] {
            let _ = fs::remove_file(place.home().join(name));
        }
        let _ = fs::remove_dir_all(place.home().join(also));
        let listed = place.run(&["session", "list", "--json"]).expect_status(9);
        assert_eq!(listed.last()["error"]["code"], "missing_log");
        let found = place.run(&["audit", "verify", "--json"]).expect_status(expected).last();
        assert_eq!((&found["ok"], &found["kind"]), (&false.into(), &"missing_log".into()));
    }
}

#[test]
fn e2e_a_damaged_database_is_a_finding() {
    let check = |damage: &dyn Fn(&mut Vec<u8>), kind: &str| {
        let place = place();
        let path = place.home().join("log.db");
        let mut bytes = fs::read(&path).unwrap();
        damage(&mut bytes);
        fs::write(&path, bytes).unwrap();
        let found = place.run(&["audit", "verify", "--json"]).expect_status(5).last();
        assert_eq!((&found["ok"], &found["kind"]), (&false.into(), &kind.into()), "{found}");
        assert!(found["branch"].is_string() && found["seq"].is_u64(), "{found}");
    };
    check(&|bytes| bytes[..100].fill(9), "hash_mismatch");
    check(&|bytes| bytes[4096..8192].fill(9), "hash_mismatch");
    check(&|bytes| bytes.truncate(bytes.len() / 2), "truncated");
}

#[test]
fn e2e_a_home_closed_to_writing_is_audited() {
    let place = place();
    close(&place.home());
    let sound = place.run(&["audit", "verify", "--json"]).expect_status(0).last();
    assert_eq!(sound["ok"], true, "{sound}");
    let events = place.run(&["audit", "log", "--json"]).expect_status(0);
    assert!(events.stdout.lines().count() > 3, "{events:?}");
}

#[test]
fn e2e_a_head_kept_elsewhere_and_a_proof_of_an_event() {
    let place = place();
    let head = place.run(&["audit", "checkpoint"]).expect_status(0).stdout;
    let kept = place.path("kept.note");
    fs::write(&kept, &head).unwrap();
    let json = place.run(&["audit", "checkpoint", "--json"]).expect_status(0).last();
    assert_eq!(json["note"], head.as_str());
    assert!(json["key"].is_string() && json["size"].is_u64(), "{json}");
    let (kept, branch) = (kept.display().to_string(), &json["newest"]["branch"]);
    let branch = branch.as_str().unwrap();

    let proof = place.run(&["audit", "prove", branch, "1", "--json"]).expect_status(0).last();
    assert_eq!((&proof["seq"], &proof["index"]), (&1.into(), &0.into()));
    let text = place.run(&["audit", "prove", branch, "1"]).expect_status(0).stdout;
    assert!(text.starts_with("c2sp.org/tlog-proof@v1\nindex 0\n"), "{text}");
    let none = place.run(&["audit", "prove", branch, "9999", "--json"]).expect_status(10).last();
    assert_eq!(none["error"]["code"], "event_not_found");

    place.scenario(&place.path("project"), STORY);
    let grown = place.run(&["audit", "check", &kept, "--json"]).expect_status(0).last();
    assert_eq!((&grown["ok"], &grown["old_size"]), (&true.into(), &json["size"]));
    assert!(grown["new_size"].as_u64() > grown["old_size"].as_u64(), "{grown}");
    let told = place.run(&["audit", "check", &kept]).expect_status(0).stdout;
    assert!(told.starts_with("ok: the log of "), "{told}");

    let changed = place.path("changed.note");
    fs::write(&changed, head.replacen("\n", "x\n", 1)).unwrap();
    let changed = changed.display().to_string();
    let found = place.run(&["audit", "check", &changed, "--json"]).expect_status(5).last();
    assert_eq!(found["kind"], "bad_signature");
    let absent = place.run(&["audit", "check", "/nowhere", "--json"]).expect_status(2).last();
    assert_eq!(absent["error"]["code"], "input_unreadable");
}

/// Takes the right to write from everyone but root, whom it does not bind.
fn close(directory: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            close(&entry.path());
        } else {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o400)).unwrap();
        }
    }
    fs::set_permissions(directory, fs::Permissions::from_mode(0o500)).unwrap();
}

/// A session's end leaves a backup; a log that is lost comes back with all that it holds.
#[test]
fn e2e_a_lost_log_comes_back_from_its_backup() {
    let place = Place::new();
    let project = place.shell_project();
    let hello = "version: 1\nsteps: [ { emit: [ { text: hi } ] } ]\n";
    place.scenario(&project, hello).expect_status(0);
    let run = |arguments: &[&str]| place.run(&[&["audit"], arguments].concat());
    let listed = run(&["restore", "--list"]).expect_status(0).stdout;
    assert_eq!(listed.lines().count(), 1, "{listed}");
    let made = run(&["backup", "--json"]).expect_status(0).last();
    let made = made["backup"].as_str().unwrap().to_owned();
    let events = run(&["verify", "--json"]).expect_status(0).last()["events"].clone();
    std::fs::remove_file(place.home().join("log.db")).unwrap();
    run(&["verify", "--json"]).expect_status(5);
    let restored = run(&["restore", "--json"]).expect_status(0).last();
    assert_eq!(restored["events"], events);
    assert_eq!(restored["lost_events"], 0);
    assert_eq!(run(&["verify", "--json"]).expect_status(0).last()["events"], events);
    // Later events are not given up by accident.
    place.scenario(&project, hello).expect_status(0);
    let refused = run(&["restore", &made, "--json"]).expect_status(8).last();
    assert_eq!(refused["error"]["code"], "restore_loses_events");
    let restored = run(&["restore", &made, "--accept-loss", "--json"]).expect_status(0).last();
    assert!(restored["lost_events"].as_u64().unwrap() > 0, "{restored}");
    run(&["verify", "--json"]).expect_status(0);
    let said = run(&["log", "--kind", "log.recovered", "--json"]).expect_status(0).stdout;
    assert_eq!(said.lines().count(), 1, "{said}");
    run(&["restore", "/none.db", "--json"]).expect_status(2);
}

/// What is kept to spare time is never the truth: lost, it is made again; wrong, it is found.
#[test]
fn e2e_law_2_snapshots_are_only_a_cache() {
    let place = Place::new();
    let dir = place.path("sample").display().to_string();
    place.run(&["demo", "--json", "--dir", &dir]).expect_status(0);
    let list = || place.run(&["session", "list", "--json"]).expect_status(0).stdout;
    let first = list();
    let snapshots = place.home().join("cache/snapshots");
    let kept = snapshot_files(&snapshots);
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(list(), first);
    std::fs::remove_dir_all(&snapshots).unwrap();
    assert_eq!(list(), first);
    let check = || place.run(&["audit", "check-state", "--json"]);
    assert_eq!(check().expect_status(0).last()["ok"], true);
    let file = snapshot_files(&snapshots).pop().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let (label, state) = text.split_once('\n').unwrap();
    let mut label: serde_json::Value = serde_json::from_str(label).unwrap();
    let state = state.replacen("\"committed\"", "\"answered\"", 1);
    label["digest"] = glasshouse_model::Digest::of(state.as_bytes()).to_string().into();
    std::fs::write(&file, format!("{label}\n{state}")).unwrap();
    assert_ne!(list(), first, "the control");
    assert_eq!(check().expect_status(5).last()["repaired"].as_array().unwrap().len(), 1);
    assert_eq!(
        place.run(&["session", "list", "--json"]).expect_status(0).stdout.lines().last(),
        first.lines().last()
    );
    let said = place.run(&["audit", "log", "--kind", "log.recovered", "--json"]).stdout;
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(check().expect_status(0).last()["ok"], true);
}

/// A cell that says something else than the events, for whatever reason, is found and made again.
#[test]
fn e2e_law_2_cells_are_only_an_index() {
    let place = Place::new();
    let project = place.shell_project();
    let text = "capabilities: [{ name: all, match: {}, action: allow }]\n";
    place.accept_policy(&project, text);
    let check = || place.run(&["audit", "check-state", "--json"]);
    assert_eq!(check().expect_status(0).last()["cells"], serde_json::json!([]));

    let space = "policy.accepted";
    let log = place.log();
    let (key, made) = log.cells(space, "", 9).unwrap().pop().unwrap();
    let session = log.sessions().unwrap().remove(0);
    let changed = glasshouse_log::CellWrite {
        space: space.to_owned(),
        key: key.clone(),
        expected_version: None,
        bytes: Some(b"{}".to_vec()),
    };
    let event =
        glasshouse_model::Draft::new(glasshouse_model::Kind::Heartbeat, &serde_json::json!({}));
    let append = glasshouse_log::Append {
        cells: vec![changed],
        ..glasshouse_log::Append::new(session.session, session.main, vec![event])
    };
    log.append(append).unwrap();
    drop(log);
    assert_eq!(check().expect_status(5).last()["cells"][0]["key"], key.as_str());
    assert_eq!(place.log().cell(space, &key).unwrap().unwrap().bytes, made.bytes);
    assert_eq!(check().expect_status(0).last()["ok"], true);
    let said = place.run(&["audit", "log", "--kind", "log.recovered", "--json"]).stdout;
    assert_eq!(said.lines().count(), 1, "{said}");
    place.run(&["audit", "verify"]).expect_status(0);
}

/// Cells that no event made: a right goes, and a count that cannot be read is made again.
#[test]
fn e2e_law_2_a_right_that_no_event_gave_is_none() {
    let place = Place::new();
    let project = place.shell_project();
    let text = "capabilities: [{ name: all, match: {}, action: allow }]\n";
    place.accept_policy(&project, text);
    let check = || place.run(&["audit", "check-state", "--json"]);
    let space = "policy.accepted";
    let log = place.log();
    let (key, made) = log.cells(space, "", 9).unwrap().pop().unwrap();
    let rows = log.sessions().unwrap();
    let row = rows.iter().find(|row| row.session.as_str() != "s_log").unwrap();
    let cell = |space: &str, key: &str| glasshouse_log::CellWrite {
        space: space.to_owned(),
        key: key.to_owned(),
        expected_version: None,
        bytes: Some(b"{}".to_vec()),
    };
    let added = [("grants", "g"), ("plans.governor", "local"), (space, "other")];
    let event = glasshouse_model::Draft::new(glasshouse_model::Kind::Heartbeat, &1);
    let append = glasshouse_log::Append {
        cells: added.map(|(space, key)| cell(space, key)).to_vec(),
        ..glasshouse_log::Append::new(row.session.clone(), row.main.clone(), vec![event])
    };
    log.append(append).unwrap();
    drop(log);
    let found = check().expect_status(5).last();
    let mut found: Vec<_> = found["cells"].as_array().unwrap().clone();
    found.sort_by_key(|cell| cell["space"].to_string());
    let found =
        found.iter().map(|cell| (cell["space"].as_str().unwrap(), cell["key"].as_str().unwrap()));
    assert_eq!(found.collect::<Vec<_>>(), added);
    let log = place.log();
    assert_eq!(log.cell("grants", "g").unwrap(), None);
    assert_eq!(log.cell(space, "other").unwrap(), None);
    assert_eq!(
        log.cell(space, &key).unwrap().unwrap().bytes,
        made.bytes,
        "what was accepted stays"
    );
    drop(log);
    assert_eq!(check().expect_status(0).last()["ok"], true);
    place.run(&["audit", "verify"]).expect_status(0);
}

fn snapshot_files(root: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = |dir: &std::path::Path| -> Vec<_> {
        let entries = std::fs::read_dir(dir).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let folds = entries(root).into_iter().flat_map(|fold| entries(&fold));
    folds.flat_map(|branch| entries(&branch)).collect()
}
