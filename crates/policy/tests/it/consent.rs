//! A policy file that nobody has accepted is obeyed where it is stricter, and opens nothing.

use glasshouse_model::Effect;
use glasshouse_policy::{Policy, Protected, Source, default_source, workflow_source};

use crate::support::{ALLOW_ALL, decision, effect};

/// The shipped policy and a project's file, as a session combines them.
fn session(project: &str, accepted: bool) -> Policy {
    let workflow = workflow_source(&["tests/**".to_owned()], &["src/**".to_owned()]);
    let workflow = Source::new("workflow.yaml", &workflow);
    let sources = if accepted {
        vec![workflow, Source::new("project.yaml", project)]
    } else {
        let shipped = Source::apart("default.yaml", default_source());
        vec![workflow, shipped, Source::apart("project.yaml", project)]
    };
    Policy::compile(&sources, &Protected::default()).unwrap()
}

const CURL: &str = "{ syscall: shell.run, state: code_writing, argv: [curl, x], caller: agent }";
const SOURCE: &str = "{ syscall: fs.write, state: code_writing, path: src/a, caller: agent }";
const MAKEFILE: &str = "{ syscall: merge.apply, state: committing, path: Makefile, caller: agent }";
const READ: &str = "{ syscall: fs.read, path: src/a, caller: agent }";

#[test]
fn a_cloned_repository_opens_nothing() {
    let check = |call: &str, shipped: Effect, once_accepted: Effect| {
        let none = session(default_source(), true);
        assert_eq!(effect(&none, call), shipped, "{call}");
        assert_eq!(effect(&session(ALLOW_ALL, false), call), shipped, "{call}");
        // The control: the same file opens the call once a person has accepted it.
        assert_eq!(effect(&session(ALLOW_ALL, true), call), once_accepted, "{call}");
    };
    check(CURL, Effect::RequireReview, Effect::Allow);
    check(MAKEFILE, Effect::RequireReview, Effect::Allow);
    check("{ syscall: net.connect, host: a.test, caller: agent }", Effect::Deny, Effect::Deny);
    check("{ syscall: model.call, caller: \"plugin:x\" }", Effect::Deny, Effect::Allow);
    // What the shipped policy allows is allowed by both.
    check(READ, Effect::Allow, Effect::Allow);
    check(SOURCE, Effect::Allow, Effect::Allow);
}

#[test]
fn what_a_file_forbids_holds_before_anybody_accepted_it() {
    let strict = "
capabilities:
  - { name: reads, match: { syscall: fs.read, path_glob: 'src/**' }, action: allow }
  - { name: no-secrets, match: { path_glob: '**/secret' }, action: deny }
  - { name: asked, match: { syscall: fs.list }, action: require_review }
";
    let check = |call: &str, expected: Effect| {
        assert_eq!(effect(&session(strict, false), call), expected, "{call}");
    };
    check(READ, Effect::Allow);
    check("{ syscall: fs.read, path: src/secret }", Effect::Deny);
    check("{ syscall: fs.list, path: src }", Effect::RequireReview);
    check("{ syscall: fs.read, path: docs/a }", Effect::Deny);
    check("{ syscall: model.call, caller: user }", Effect::Deny);
}

#[test]
fn the_silent_file_is_named() {
    let policy = session("capabilities: []\n", false);
    let decision = decision(&policy, READ);
    assert_eq!(decision.reasons.last().unwrap(), "no rule of project.yaml allows `fs.read` here");
}

/// The guide says to begin with a copy of the shipped file; its names are then those of the shipped
/// rules. Each file that needs its own consent is a whole policy, so that is no collision.
#[test]
fn regression_a_copy_of_the_shipped_file_loads_beside_it() {
    let policy = session(default_source(), false);
    assert_eq!(effect(&policy, READ), Effect::Allow);
    let sources = [Source::new("a", ALLOW_ALL), Source::apart("b", ALLOW_ALL)];
    let error = Policy::compile(&sources, &Protected::default()).unwrap_err();
    assert_eq!(error.code(), "policy_duplicate_rule");
}

#[test]
fn a_group_of_hosts_holds_a_host_only_when_every_file_says_so() {
    let check = |sources: &[Source<'_>], host: &str, expected: bool| {
        let policy = Policy::compile(sources, &Protected::default()).unwrap();
        assert_eq!(policy.group_holds("docs", host), expected, "{host}");
    };
    let (a, both) =
        ("network_whitelist: { docs: [a.test] }", "network_whitelist: { docs: [a.test, b.test] }");
    let apart = [Source::apart("one", a), Source::apart("two", both)];
    check(&apart, "a.test", true);
    check(&apart, "b.test", false);
    check(&[Source::apart("one", a), Source::apart("two", "")], "a.test", false);
}

/// What a built-in rule lets pass needs the consent of no file; what another source denies is told with that
/// denial alone.
#[test]
fn a_file_that_says_nothing_is_asked_only_where_its_consent_counts() {
    let policy = |own: &str, other: &str, joint: &str| {
        let sources = [
            Source::apart("own.yaml", own),
            Source::apart("other.yaml", other),
            Source::new("joint.yaml", joint),
        ];
        Policy::compile(&sources, &Protected::default()).unwrap()
    };
    let revokes = "capabilities: [{ name: a, match: { syscall: grant.revoke }, action: allow }]";
    let revoke = "{ syscall: grant.revoke, caller: user }";
    assert_eq!(effect(&policy(revokes, "", ""), revoke), Effect::Allow);
    // The control: without a built-in rule the other file's silence denies.
    let reads = "capabilities: [{ name: a, match: { syscall: fs.read }, action: allow }]";
    assert_eq!(effect(&policy(reads, "", ""), READ), Effect::Deny);
    let never = "capabilities: [{ name: never, match: { syscall: fs.read }, action: deny }]";
    let told = decision(&policy(reads, "", never), READ);
    let names: Vec<_> = told.rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!((told.effect, names), (Effect::Deny, vec!["a", "never"]));
}

/// Rules that were told since bind and open nothing.
#[test]
fn what_opens_nothing_denies_asks_and_demands() {
    let base = "
network_whitelist: { docs: [a.test] }
capabilities:
  - { name: reads, match: { syscall: fs.read }, action: allow }
  - { name: runs, match: { syscall: shell.run }, action: allow }
  - { name: asks, match: { syscall: fs.write }, action: require_review }
";
    let since = "
network_whitelist: { docs: [b.test] }
capabilities:
  - { name: reads, match: { syscall: fs.list }, action: allow }
  - { name: runs, match: { syscall: shell.run }, action: allow, constraints: { max_duration: 5s } }
  - { name: asks, match: { path_glob: 'asked/**' }, action: require_review }
  - { name: denies, match: { path_glob: 'secret/**' }, action: deny }
";
    let compile = |second: Source<'_>| {
        let sources = [Source::new("base.yaml", base), second];
        Policy::compile(&sources, &Protected::default()).unwrap()
    };
    let policy = compile(Source::stricter("since.yaml", since));
    let check =
        |call: &str, expected: Effect| assert_eq!(effect(&policy, call), expected, "{call}");
    check("{ syscall: fs.read, path: src/a }", Effect::Allow);
    check("{ syscall: fs.read, path: asked/a }", Effect::RequireReview);
    check("{ syscall: fs.read, path: secret/a }", Effect::Deny);
    check("{ syscall: fs.write, path: src/a }", Effect::RequireReview);
    check("{ syscall: fs.write, path: secret/a }", Effect::Deny);
    // Neither what it allows nor what it asks about opens anything.
    check("{ syscall: fs.list, path: src }", Effect::Deny);
    check("{ syscall: fs.delete, path: asked/a }", Effect::Deny);
    let run = "{ syscall: shell.run, argv: [make] }";
    assert_eq!(decision(&policy, run).constraints.max_duration_ms, Some(5_000));
    assert!(policy.group_holds("docs", "a.test") && !policy.group_holds("docs", "b.test"));
    // The control: as a joint source it opens, so its names have to differ, and its policy is another one.
    let renamed = ["reads", "runs", "asks", "docs"];
    let renamed = renamed
        .iter()
        .fold(since.to_owned(), |text, name| text.replace(name, &format!("{name}-too")));
    let joint = compile(Source::new("since.yaml", &renamed));
    assert_eq!(effect(&joint, "{ syscall: fs.list, path: src }"), Effect::Allow);
    assert_eq!(effect(&joint, "{ syscall: fs.delete, path: asked/a }"), Effect::RequireReview);
    let versions = [
        compile(Source::stricter("since.yaml", &renamed)).version(),
        compile(Source::apart("since.yaml", &renamed)).version(),
        joint.version(),
    ];
    assert_eq!(std::collections::BTreeSet::from(versions).len(), 3);
}
