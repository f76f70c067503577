//! Commands that a person runs by hand: decided by the policy of the directory that they are shown.

use std::time::{Duration, Instant};

use crate::harness::Place;

/// The failure: `sandbox run` was decided by the shipped policy alone, whatever the project's said: a path that was denied was
/// merged, a command that was denied ran, and a secret of the project's own kind was kept unmasked.
#[test]
fn e2e_a_project_s_policy_binds_what_is_run_by_hand() {
    let check = |rule: &str, argv: &[&str], status: i32, code: Option<&str>| {
        let place = Place::new();
        let project = place.shell_project();
        place.accept_rule(&project, rule);
        let run = ["sandbox", "run", "--workspace", ".", "--merge", "--yes", "--json", "--"];
        let ran = place.run_in(&project, &[&run, argv].concat()).expect_status(status);
        assert_eq!(ran.last()["error"]["code"].as_str(), code, "{rule}: {ran:?}");
        (place, project)
    };
    let write = ["sh", "-c", "echo changed > src/tool.sh"];
    let text =
        |project: &std::path::Path| std::fs::read_to_string(project.join("src/tool.sh")).unwrap();
    let paths = "{ name: own, match: { syscall: merge.apply, path_glob: 'src/**' }, action: deny, reason: ours }";
    let (_place, project) = check(paths, &write, 3, Some("policy_denied"));
    assert_eq!(text(&project), "echo one\n");
    let size = "{ name: own, match: { syscall: merge.apply, size_over: 4 }, action: deny }";
    let (_place, project) = check(size, &write, 3, Some("policy_denied"));
    assert_eq!(text(&project), "echo one\n");
    let command =
        "{ name: own, match: { syscall: shell.run, argv_prefix: sh, caller: user }, action: deny }";
    let (place, _project) = check(command, &write, 3, Some("policy_denied"));
    // The record names this policy by its digest alone, and what would change it is not made up.
    let session = place.log().sessions().unwrap()[0].session.to_string();
    let explained = place.run(&["policy", "explain", "--session", &session, "--at", "2"]);
    let told = explained.expect_status(0).stdout;
    assert!(told.contains("own (.glasshouse/policy.yaml:"), "{told}");
    assert!(told.contains("no more of the policy than its digest"), "{told}");
    assert!(!told.contains("no rule of a file"), "{told}");
    // The control: what the rule is not about goes as before.
    let other =
        "{ name: own, match: { syscall: merge.apply, path_glob: 'docs/**' }, action: deny }";
    let (place, project) = check(other, &write, 0, None);
    assert_eq!(text(&project), "changed\n");
    // Without a directory it is no act in the project.
    place.accept_rule(&project, command);
    place.run_in(&project, &["sandbox", "run", "--", "sh", "-c", "true"]).expect_status(0);
}

/// The failure: a rule that denies `fs.write` of a path let a command by hand change it, since the merge is another syscall.
/// Now what a rule says itself of the change that a merge comes to holds; that none allows it forbids nothing.
#[test]
fn e2e_what_a_merge_by_hand_changes_is_decided_as_a_change() {
    let check = |conditions: &str, command: &str, status: i32| {
        let place = Place::new();
        let project = place.shell_project();
        let rule = format!("{{ name: own, match: {{ {conditions} }}, action: deny }}");
        place.accept_rule(&project, &rule);
        let run = ["sandbox", "run", "--workspace", ".", "--merge", "--yes", "--"];
        let ran = place.run_in(&project, &[&run[..], &["sh", "-c", command]].concat());
        assert_eq!(ran.status, Some(status), "{conditions}: {command}: {ran:?}");
        let text = std::fs::read_to_string(project.join("src/tool.sh")).unwrap_or_default();
        assert_eq!(text == "echo one\n", status != 0, "{conditions}: {command}");
    };
    let writes = "syscall: [fs.write, fs.edit, fs.delete], path_glob: 'src/**'";
    check(writes, "echo two > src/tool.sh", 3);
    check(writes, "rm src/tool.sh", 3);
    check(writes, "mv src/tool.sh other.sh", 3);
    check("syscall: fs.delete, path_glob: 'src/**'", "mv src/tool.sh other.sh", 3);
    check("syscall: fs.write, size_over: 3", "echo two > src/tool.sh", 3);
    // The controls: rules on other paths, other acts and other callers.
    check("syscall: [fs.write, fs.delete], path_glob: 'docs/**'", "echo two > src/tool.sh", 0);
    check("syscall: fs.delete, path_glob: 'src/**'", "echo two > src/tool.sh", 0);
    check("syscall: fs.write, path_glob: 'src/**', caller: agent", "echo two > src/tool.sh", 0);
}

/// A file that nobody accepted is obeyed where it is stricter.
#[test]
fn e2e_a_cloned_policy_may_forbid_what_is_run_by_hand_and_opens_nothing() {
    let place = Place::new();
    let project = place.shell_project();
    let own = project.join(".glasshouse/policy.yaml");
    let run = ["sandbox", "run", "--workspace", ".", "--", "true"];
    std::fs::write(&own, "capabilities: [{ name: all, match: {}, action: allow }]\n").unwrap();
    place.run_in(&project, &run).expect_status(0);
    std::fs::write(&own, "capabilities: []\n").unwrap();
    place.run_in(&project, &run).expect_status(3);
}

/// What an allowing rule demands is kept, or the command does not run.
#[test]
fn e2e_demands_of_the_project_hold_for_a_command_by_hand() {
    let check = |demand: &str, status: i32| {
        let place = Place::new();
        let project = place.shell_project();
        place.accept_rule(
            &project,
            &format!(
                "{{ name: by-hand, match: {{ syscall: shell.run, caller: user }}, action: allow, constraints: {demand} }}"
            ),
        );
        let begun = Instant::now();
        let run = ["sandbox", "run", "--workspace", ".", "--", "sleep", "60"];
        place.run_in(&project, &run).expect_status(status);
        assert!(begun.elapsed() < Duration::from_secs(50), "{demand}");
    };
    check("{ max_duration: 300ms }", 124);
    check("{ require_sandbox: integration-test }", 3);
    check("{ rate: 1/h }", 3);
}

/// The failure: only the shipped patterns masked what a command by hand printed.
#[test]
fn e2e_secrets_of_the_project_s_kind_are_not_kept() {
    let place = Place::new();
    let project = place.shell_project();
    let shipped = place.run(&["policy", "show", "--shipped"]).expect_status(0).stdout;
    let patterns = "secret_patterns: { ours: 'ours_[a-z]{8}' }\n";
    let kept = || {
        let log = place.log();
        let rows = log.sessions().unwrap();
        let events = log.read(&rows[0].main, 1, 1_000).unwrap();
        let end = events.iter().find(|event| event.kind().ends_call()).unwrap();
        let digest = end.body["output"]["blob"].as_str().unwrap().parse().unwrap();
        String::from_utf8(log.blob(&digest).unwrap()).unwrap()
    };
    let run = ["sandbox", "run", "--workspace", ".", "--", "echo", "ours_abcdefgh"];
    place.run_in(&project, &run).expect_status(0);
    assert_eq!(kept(), "ours_abcdefgh\n", "the control");
    place.accept_policy(&project, &format!("{patterns}{shipped}"));
    place.run_in(&project, &run).expect_status(0);
    assert_eq!(kept(), "[secret:ours]\n");
}
