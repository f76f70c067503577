//! Sessions that ended long ago leave the log: where they go, and what says so.

use std::fs;

use serde_json::Value;

use crate::harness::Place;

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
