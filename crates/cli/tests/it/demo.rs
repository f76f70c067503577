//! The bundled story, as the README promises it.

use glasshouse_model::Kind;

use crate::harness::{Place, assert_each_ended_once, count, git};

#[test]
fn e2e_demo_tells_the_whole_story() {
    let place = Place::new();
    let dir = place.path("sample");
    let ran = place.run(&["demo", "--json", "--dir", &dir.display().to_string()]).expect_status(0);
    let last = ran.last();
    assert_eq!(last["outcome"], "committed", "{ran:?}");
    assert_eq!(last["verify"], "ok");
    assert!(last["isolation"].as_str().unwrap().starts_with("native:"), "{last}");
    assert_eq!(last["commit"].as_str().unwrap(), git(&dir, &["rev-parse", "HEAD"]).trim());

    let (_, events) = place.events();
    assert_each_ended_once(&events);
    for (kind, at_least) in [
        (Kind::ToolDenied, 4),
        (Kind::WorkspaceRolledBack, 1),
        (Kind::ApprovalResolved, 1),
        (Kind::ModelFailed, 1),
        (Kind::PlanRendered, 1),
        (Kind::CommitCreated, 1),
    ] {
        assert!(count(&events, &kind) >= at_least, "{kind}: {}", count(&events, &kind));
    }
    // Law 9: the secret is in no event and in no blob that the model or a person is shown.
    let log = place.log();
    for event in &events {
        let text = serde_json::to_string(event).unwrap();
        assert!(!text.contains("ghp_0123456789"), "{text}");
        if let Ok(digest) = event.body["output"]["blob"].as_str().unwrap_or("").parse() {
            let bytes = log.blob(&digest).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains("ghp_0123456789"));
        }
    }
    let verify = place.run(&["audit", "verify", "--json"]).expect_status(0);
    assert_eq!(verify.last()["ok"], true);
}

#[test]
fn e2e_demo_shows_people_what_happens() {
    let place = Place::new();
    let ran = place.run(&["demo"]).expect_status(0);
    for words in [
        "idle -> planning",
        "policy deny fs.write src/parse_config.sh (workflow-frozen)",
        "rolled back to the last seal: src/parse_config.sh",
        "tests fail (exit 1)",
        "model rate_limited: ",
        "; next try in",
        "review: approved by scenario",
        "+        *) refuse 'expected key=value' ;;",
        "committed",
        "log ok",
    ] {
        assert!(ran.stderr.contains(words), "`{words}` is missing:\n{}", ran.stderr);
    }
    let report = ran.stdout.lines().find_map(|line| line.strip_prefix("report: ")).unwrap();
    let html = std::fs::read_to_string(report).unwrap();
    assert!(html.contains("3 tests pass, 2 files changed."), "{html}");
}
