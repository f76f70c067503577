//! Who decides: the policy file of a repository before and after a person accepted it.

use glasshouse_model::{Digest, Kind};

use crate::harness::{Place, count};

const ALLOW_ALL: &str = "capabilities: [{ name: everything, match: {}, action: allow }]\n";

/// A session in which the agent runs a command that the shipped policy sends to a person.
fn scenario(status: &str) -> String {
    format!(
        "
version: 1
steps:
  - emit: [ {{ call: {{ id: a, tool: shell.run, args: {{ script: 'rm -rf nothing' }} }} }} ]
  - expect: {{ results: {{ a: {status} }} }}
    emit: [ {{ text: done }} ]
"
    )
}

/// A cloned repository brought a policy that allows everything, and the agent obeyed it.
/// The file took the place of the shipped policy without anybody having seen it.
/// Now it can only forbid until a person accepted exactly these bytes for this directory.
#[test]
fn e2e_a_cloned_policy_opens_nothing_until_it_is_accepted() {
    let place = Place::new();
    let project = place.shell_project();
    std::fs::write(project.join(".glasshouse/policy.yaml"), ALLOW_ALL).unwrap();
    let before = place.scenario(&project, &scenario("denied"));
    assert!(before.stderr.contains("was not accepted"), "{before:?}");
    before.expect_status(4);

    let unseen = place.run_in(&project, &["policy", "update", "--json"]).expect_status(4).last();
    assert_eq!(unseen["error"]["code"], "approval_needed");
    let fix = unseen["error"]["fix"].as_str().unwrap();
    let digest = fix.split_once("--digest ").unwrap().1;
    let zero = format!("sha256:{}", "0".repeat(64));
    let update =
        |digest: &str| place.run_in(&project, &["policy", "update", "--json", "--digest", digest]);
    assert_eq!(update(&zero).expect_status(8).last()["error"]["code"], "policy_changed");
    assert_eq!(update(digest).expect_status(0).last()["changed"], true);
    assert_eq!(update(digest).expect_status(0).last()["changed"], false);

    // The control: the same file, now accepted, allows the command.
    let after = place.scenario(&project, &scenario("completed")).expect_status(0);
    assert!(!after.stderr.contains("was not accepted"), "{after:?}");

    // A byte more, or another directory, and nobody has accepted it.
    std::fs::write(project.join(".glasshouse/policy.yaml"), format!("{ALLOW_ALL}\n")).unwrap();
    place.scenario(&project, &scenario("denied")).expect_status(4);
    let copy = place.path("copy");
    std::fs::create_dir_all(copy.join(".glasshouse")).unwrap();
    std::fs::write(copy.join(".glasshouse/policy.yaml"), ALLOW_ALL).unwrap();
    let call = r#"{"syscall":"net.connect","host":"a.test"}"#;
    place.run_in(&copy, &["policy", "check", "--call", call]).expect_status(3);
    place.run(&["audit", "verify"]).expect_status(0);
}

#[test]
fn e2e_accepting_a_policy_is_in_the_log_with_what_was_seen() {
    let place = Place::new();
    let project = place.shell_project();
    let accept = |text: &str| {
        std::fs::write(project.join(".glasshouse/policy.yaml"), text).unwrap();
        let digest = glasshouse_model::Digest::of(text.as_bytes()).to_string();
        place.run_in(&project, &["policy", "update", "--digest", &digest]).expect_status(0);
        digest
    };
    let first = accept(ALLOW_ALL);
    let (_, events) = place.events();
    for kind in [Kind::PolicyProposed, Kind::PolicyDecided, Kind::ApprovalRequested] {
        assert_eq!(count(&events, &kind), 1, "{kind:?}");
    }
    let updated = events.iter().find(|event| *event.kind() == Kind::PolicyUpdated).unwrap();
    assert_eq!(updated.body["text"]["blob"], first.as_str());
    assert!(updated.body["previous"].is_null());
    accept("capabilities: []\n");
    let log = place.run(&["audit", "log", "--kind", "policy.updated", "--json"]).last();
    assert_eq!(log["body"]["previous"], first.as_str());
    // As large as a policy may be, which is more than one event holds.
    accept(&format!("capabilities: []\n#{}\n", "\"".repeat((1 << 20) - 64)));
    // A file that does not load is accepted by nobody.
    let broken = "capabilities: [{ name: x }]\n";
    std::fs::write(project.join(".glasshouse/policy.yaml"), broken).unwrap();
    let digest = glasshouse_model::Digest::of(broken.as_bytes()).to_string();
    place.run_in(&project, &["policy", "update", "--digest", &digest]).expect_status(2);
    place.run_in(&place.path(""), &["policy", "update"]).expect_status(10);
}

#[test]
fn e2e_policy_show_prints_what_decides_here() {
    let place = Place::new();
    let project = place.shell_project();
    let shipped = place.run_in(&project, &["policy", "show", "--shipped"]).expect_status(0);
    std::fs::write(project.join(".glasshouse/policy.yaml"), &shipped.stdout).unwrap();
    let shown = place.run_in(&project, &["policy", "show"]).expect_status(0);
    for words in [
        "protect-git (built in)",
        "workflow-frozen (workflow.yaml:",
        "(default.yaml:",
        ", .glasshouse/policy.yaml:",
    ] {
        assert!(shown.stdout.contains(words), "{words}: {shown:?}");
    }
    // What a copy of the shipped file has like it is told once, and what it has besides as well.
    let rules = |text: &str| text.lines().filter(|line| line.contains(" run-commands (")).count();
    assert_eq!(rules(&shown.stdout), 1, "{shown:?}");
    let more = "  - { name: more, match: { syscall: x.y }, action: deny }\nextension: |\n  export const evaluate = () => {}\n";
    std::fs::write(project.join(".glasshouse/policy.yaml"), format!("{}{more}", shipped.stdout))
        .unwrap();
    let shown = place.run_in(&project, &["policy", "show"]).expect_status(0).stdout;
    for words in ["more (.glasshouse/policy.yaml:", "extension (.glasshouse/policy.yaml:"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    std::fs::write(project.join(".glasshouse/policy.yaml"), &shipped.stdout).unwrap();
    // Looking does not begin a log.
    assert!(!place.home().join("log.db").exists());
    let rule = place.run_in(&project, &["policy", "show", "--json"]).expect_status(0).last();
    assert!(rule["name"].is_string() && rule["action"].is_string(), "{rule}");
}

/// `sandbox run` of a command that policy sends to a person is that person's own word, and says so.
#[test]
fn e2e_a_command_run_by_hand_records_who_agreed() {
    let check = |argv: &[&str], approvals: usize| {
        let place = Place::new();
        let mut arguments = vec!["sandbox", "run", "--"];
        arguments.extend(argv);
        place.run(&arguments).expect_status(0);
        let (_, events) = place.events();
        assert_eq!(count(&events, &Kind::ApprovalRequested), approvals, "{argv:?}");
        assert_eq!(count(&events, &Kind::ApprovalResolved), approvals, "{argv:?}");
    };
    check(&["rm", "-rf", "nothing"], 1);
    check(&["true"], 0);
}

#[test]
fn e2e_a_policy_is_tried_on_what_was_decided() {
    let place = Place::new();
    let dir = place.path("sample").display().to_string();
    place.run(&["demo", "--json", "--dir", &dir]).expect_status(0);
    let shipped = place.run(&["policy", "show", "--shipped"]).stdout;
    let candidate = place.path("candidate.yaml");
    let candidate_name = candidate.display().to_string();
    let simulate = |text: &str, more: &[&str]| {
        std::fs::write(&candidate, text).unwrap();
        let mut arguments = vec!["policy", "simulate", &candidate_name, "--json"];
        arguments.extend(more);
        place.run_in(std::path::Path::new(&dir), &arguments).expect_status(0)
    };
    // The same rules change nothing; what a person approved counts as what the rules said.
    let same = simulate(&shipped, &["--last", "100000"]).last();
    assert_eq!((&same["changed"], &same["breaking"]), (&0.into(), &0.into()), "{same}");
    let all = same["decisions"].as_u64().unwrap();
    assert!(all > 40, "{same}");
    let (session, events) = place.events();
    assert_eq!(simulate(&shipped, &["--session", session.as_str()]).last()["decisions"], all);
    assert_eq!(simulate(&shipped, &["--last", "3"]).last()["decisions"], 3);
    // Without models: every request is broken, and only those.
    let requests = count(&events, &Kind::ModelRequested);
    let no_model = format!(
        "{shipped}\n  - {{ name: no-models, match: {{ syscall: model.call }}, action: deny }}\n"
    );
    let changed = simulate(&no_model, &["--last", "100000"]);
    assert_eq!(changed.last()["breaking"], requests, "{changed:?}");
    let first: serde_json::Value =
        serde_json::from_str(changed.stdout.lines().next().unwrap()).unwrap();
    assert_eq!((&first["syscall"], &first["breaking"]), (&"model.call".into(), &true.into()));
    // Nothing was recorded by trying.
    assert_eq!(place.events().1.len(), events.len());
    // The failure: decisions of other directories counted, and a file was said to break those. Now: only those of
    // the same project do.
    let other = place.path("other");
    std::fs::create_dir_all(&other).unwrap();
    let elsewhere = ["policy", "simulate", &candidate_name, "--last", "100000"];
    let told = place.run_in(&other, &elsewhere).expect_status(0);
    let place_told = format!("0 decisions of sessions in {}, 0 differ", other.display());
    assert!(told.stderr.contains(&place_told), "{told:?}");
    std::fs::create_dir_all(other.join(".glasshouse")).unwrap();
    std::fs::write(other.join(".glasshouse/policy.yaml"), &no_model).unwrap();
    let digest = Digest::of(no_model.as_bytes()).to_string();
    place.run_in(&other, &["policy", "update", "--digest", &digest]).expect_status(0);
    // The control: in the project itself the phrase is asked for, and who asks says how to look.
    let own = std::path::Path::new(&dir);
    let update = ["policy", "update", &candidate_name, "--digest", &digest];
    let refused = place.run_in(own, &update).expect_status(4).stderr;
    for words in [
        dir.as_str(),
        "decisions of sessions in",
        "glasshouse policy simulate",
        "--confirm 'accept ",
    ] {
        assert!(refused.contains(words), "{words}: {refused}");
    }
    place.run(&["policy", "simulate", &candidate_name, "--session", "s_none"]).expect_status(10);
    place.run(&["policy", "simulate", "/nonexistent"]).expect_status(2);
}
