//! The shipped policy, state by state, with the workflow's rules beside it.

use glasshouse_model::{Effect, State};
use glasshouse_policy::{Policy, Protected, Source, default_source, workflow_source};

use crate::support::{ALLOW_ALL, effect};

use Effect::{Allow, Deny, RequireReview};

fn with(user: &str) -> Policy {
    let workflow =
        workflow_source(&["tests/**".to_owned(), "*.test.ts".to_owned()], &["src/**".to_owned()]);
    let sources = [Source::new("workflow", &workflow), Source::new("policy.yaml", user)];
    Policy::compile(&sources, &Protected::default()).unwrap()
}

#[test]
fn the_default_loads_without_warnings_and_every_rule_explains_itself() {
    let policy = with(default_source());
    assert!(policy.warnings().is_empty(), "{:?}", policy.warnings());
    for rule in policy.rules().filter(|rule| rule.source == Some("policy.yaml")) {
        assert!(rule.reason.is_some(), "{}", rule.name);
    }
    let rules = default_source().matches("  - name: ").count();
    assert_eq!(default_source().matches("    examples:").count(), rules);
}

#[test]
fn writes_by_state() {
    let policy = with(default_source());
    let check = |path: &str, expected: &[(State, Effect)]| {
        for state in State::ALL {
            let wanted =
                expected.iter().find(|(s, _)| s == state).map_or(Deny, |(_, effect)| *effect);
            for syscall in ["fs.write", "fs.edit", "fs.delete"] {
                let sketch = format!(
                    "{{ syscall: {syscall}, caller: agent, state: {state}, path: {path} }}"
                );
                assert_eq!(effect(&policy, &sketch), wanted, "{sketch}");
            }
        }
    };
    let tests = [
        (State::TestWriting, Allow),
        (State::RetroactiveTesting, Allow),
        (State::Exploring, Allow),
    ];
    check("tests/a.sh", &tests);
    check("web/x.test.ts", &tests);
    check("src/lib.rs", &[(State::CodeWriting, Allow), (State::Exploring, Allow)]);
    check("README.md", &[(State::Exploring, Allow)]);
    check(
        "src/build.rs",
        &[(State::CodeWriting, RequireReview), (State::Exploring, RequireReview)],
    );
    check("Dockerfile", &[(State::CodeWriting, RequireReview), (State::Exploring, RequireReview)]);
    check(".git/config", &[]);
    check(".glasshouse/policy.yaml", &[]);
}

#[test]
fn writes_by_what_they_change() {
    let policy = with(default_source());
    let check = |state: &str, path: &str, change: &str, expected: Effect| {
        let sketch = format!(
            "{{ syscall: fs.write, caller: agent, state: {state}, path: {path}, change: {change} }}"
        );
        assert_eq!(effect(&policy, &sketch), expected, "{sketch}");
    };
    check("test_writing", "src/lib.rs", "test", Allow);
    check("test_writing", "src/lib.rs", "mixed", Deny);
    check("test_writing", "src/lib.rs", "source", Deny);
    check("code_writing", "src/lib.rs", "test", Deny);
    check("code_writing", "src/lib.rs", "mixed", Deny);
    check("code_writing", "src/lib.rs", "source", Allow);
    check("planning", "src/lib.rs", "test", Deny);
    for state in ["planning", "test_writing", "code_writing", "validating"] {
        check(state, "target/debug/x", "ignored", Allow);
        check(state, "target/.git/config", "ignored", Deny);
        check(state, ".env", "ignored", RequireReview);
    }
}

#[test]
fn a_user_file_can_not_open_what_the_workflow_closes() {
    let open = with(ALLOW_ALL);
    let check = |state: &str, path: &str, expected: Effect| {
        let sketch = format!("{{ syscall: fs.write, state: {state}, path: {path} }}");
        assert_eq!(effect(&open, &sketch), expected, "{sketch}");
    };
    for state in ["idle", "planning", "validating", "reviewing", "committing"] {
        check(state, "src/a", Deny);
        check(state, "tests/a", Deny);
    }
    check("test_writing", "src/a", Deny);
    check("test_writing", "README.md", Deny);
    check("retroactive_testing", "src/a", Deny);
    check("code_writing", "tests/a", Deny);
    // What the workflow does not speak about is the user's to open.
    check("test_writing", "tests/a", Allow);
    check("code_writing", "README.md", Allow);
    check("exploring", "tests/a", Allow);
}

#[test]
fn other_syscalls() {
    let policy = with(default_source());
    let check = |sketch: &str, expected: Effect| {
        assert_eq!(effect(&policy, sketch), expected, "{sketch}");
    };
    for state in State::ALL {
        for syscall in ["fs.read", "fs.list", "search.grep", "search.glob", "fs.exists"] {
            check(&format!("{{ syscall: {syscall}, state: {state}, path: . }}"), Allow);
        }
        check(&format!("{{ syscall: net.connect, state: {state}, host: example.org }}"), Deny);
        check(&format!("{{ syscall: policy.update, state: {state}, caller: agent }}"), Deny);
        check(
            &format!("{{ syscall: policy.update, state: {state}, caller: user }}"),
            RequireReview,
        );
    }
    check("{ syscall: fs.read, host_path: /etc/passwd }", Deny);
    check("{ syscall: shell.run, caller: agent, state: idle, argv: ls }", Deny);
    check("{ syscall: shell.run, state: planning, argv: ls }", Allow);
    check("{ syscall: shell.run, state: code_writing, argv: cargo build }", Allow);
    check("{ syscall: shell.run, state: code_writing, argv: git status }", Allow);
    for argv in [
        "curl x",
        "/usr/bin/wget x",
        "[sh, -c, 'cat x | ssh h']",
        "git push",
        "sudo ls",
        "rm -rf /",
        "[bash, -c, '$X']",
    ] {
        check(
            &format!("{{ syscall: shell.run, state: code_writing, argv: {argv} }}"),
            RequireReview,
        );
    }
    check("{ syscall: test.run, state: validating }", Allow);
    check("{ syscall: test.run, state: reviewing }", Deny);
    check("{ syscall: git.diff, state: idle }", Allow);
    check("{ syscall: git.commit, state: reviewing }", Allow);
    check("{ syscall: merge.apply, state: reviewing }", Allow);
    check("{ syscall: git.commit, state: code_writing }", Deny);
    check("{ syscall: plan.complete, state: planning }", Allow);
    check("{ syscall: ui.render, state: planning }", Allow);
    check("{ syscall: model.call, caller: agent }", Allow);
    check("{ syscall: model.call, caller: plugin }", Deny);
    check("{ syscall: sandbox.mount, caller: kernel, host_path: /usr/lib }", Allow);
    check("{ syscall: sandbox.mount, caller: agent, host_path: /usr/lib }", Deny);
    check("{ syscall: session.set_mode, caller: user, argv: explore }", Allow);
    check("{ syscall: session.set_mode, caller: user, argv: debug }", RequireReview);
    check("{ syscall: session.set_mode, caller: user }", RequireReview);
    check("{ syscall: session.set_mode, caller: agent, argv: explore }", Deny);
}
