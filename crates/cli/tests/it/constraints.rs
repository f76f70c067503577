//! What a rule demands of an act that it allows, from end to end.

use glasshouse_model::Kind;

use crate::harness::{Place, Ran, statuses};

/// Runs a scenario under the shipped policy and one more rule, which a person accepted.
fn run(place: &Place, rule: &str, scenario: &str) -> Ran {
    let project = place.shell_project();
    place.accept_rule(&project, rule);
    place.scenario(&project, scenario)
}

/// What runs in the kernel's own process has no isolation, so a rule that demands some denies it there.
#[test]
fn e2e_a_rule_demands_isolation_and_gets_it_or_nothing() {
    let scenario = |list: &str| {
        format!(
            "
version: 1
steps:
  - emit:
      - {{ call: {{ id: list, tool: fs.list, args: {{ path: src }} }} }}
      - {{ call: {{ id: run, tool: shell.run, args: {{ argv: [ls, src] }} }} }}
  - expect: {{ results: {{ list: {list}, run: completed }} }}
    emit: [ {{ text: done }} ]
"
        )
    };
    let check = |demand: &str, list: &str, code: Option<&str>| {
        let place = Place::new();
        let rule = format!(
            "{{ name: isolated, match: {{ syscall: [fs.list, shell.run] }}, action: allow{demand} }}"
        );
        run(&place, &rule, &scenario(list)).expect_status(0);
        let (session, events) = place.events();
        let end = events.iter().find(|event| event.kind().ends_call()).unwrap();
        assert_eq!(end.body["code"].as_str(), code, "{:?}", statuses(&events));
        place.run(&["session", "replay", session.as_str()]).expect_status(0);
    };
    // The least level that runs anything at all, so that the command passes on every machine.
    check(", constraints: { min_isolation: no-landlock }", "denied", Some("policy_denied"));
    check("", "completed", None);
}

/// Each call beyond the rate is denied, and says by which rule.
#[test]
fn e2e_a_rate_limits_how_often_a_call_is_made() {
    let scenario = |second: &str| {
        format!(
            "
version: 1
steps:
  - emit: [ {{ call: {{ id: a, tool: shell.run, args: {{ argv: [ls, src] }} }} }} ]
  - expect: {{ results: {{ a: completed }} }}
    emit: [ {{ call: {{ id: b, tool: shell.run, args: {{ argv: [ls, tests] }} }} }} ]
  - expect: {{ results: {{ b: {second} }} }}
    emit: [ {{ text: done }} ]
"
        )
    };
    let check = |rate: &str, second: &str| {
        let place = Place::new();
        let rule = format!(
            "{{ name: seldom, match: {{ syscall: shell.run }}, action: allow, constraints: {{ rate: {rate} }} }}"
        );
        run(&place, &rule, &scenario(second)).expect_status(0);
        let (session, events) = place.events();
        let said =
            events.iter().filter(|event| *event.kind() == Kind::PolicyDecided).any(|event| {
                event
                    .body
                    .to_string()
                    .contains("rule `seldom (.glasshouse/policy.yaml)` allows it once an hour")
            });
        assert_eq!(said, second == "denied");
        place.run(&["session", "replay", session.as_str()]).expect_status(0);
    };
    check("1/h", "denied");
    check("2/h", "completed");
}

/// The failure: a rule demanded a sandbox or an isolation of a merge or a request to a model, which the kernel makes
/// itself, and both were made; a merge had no size, so no rule about sizes held for it; and what a command wrote was held to no
/// demand at all.
#[test]
fn e2e_a_demand_that_cannot_be_kept_is_a_denial_wherever_it_is_made() {
    let scenario = "
version: 1
steps:
  - emit: [ { call: { id: plan, tool: plan.complete, args: { summary: s } } } ]
  - emit: [ { call: { id: test, tool: fs.write, args: { path: tests/t_two.sh, content: \"sh src/tool.sh | grep -q two\\n\" } } } ]
  - emit: [ { call: { id: red, tool: test.run, args: {} } } ]
  - emit: [ { call: { id: run, tool: shell.run, args: { script: 'echo echo two >> src/tool.sh' } } } ]
  - emit: [ { call: { id: green, tool: test.run, args: {} } } ]
  - emit: [ { call: { id: commit, tool: git.commit, args: { message: two } } } ]
  - emit: [ { text: done } ]
";
    // What was denied, and whether the project was changed.
    let check = |rule: &str, denied: &[&str], is_merged: bool| {
        let place = Place::new();
        run(&place, rule, scenario);
        let (session, events) = place.events();
        let decisions = events.iter().filter(|event| *event.kind() == Kind::PolicyDecided);
        let mut found: Vec<_> = decisions
            .filter(|event| event.body["decision"] == "deny")
            .map(|event| event.body["syscall"].as_str().unwrap().to_owned())
            .collect();
        found.dedup();
        assert_eq!(found, denied, "{rule}: {:?}", statuses(&events));
        let text = std::fs::read_to_string(place.path("project/src/tool.sh")).unwrap();
        assert_eq!(text.contains("two"), is_merged, "{rule}");
        place.run(&["session", "replay", session.as_str()]).expect_status(0);
    };
    let demand = |syscall: &str, more: &str, demand: &str| {
        format!(
            "{{ name: own, match: {{ syscall: {syscall}{more} }}, action: allow, constraints: {{ {demand} }} }}"
        )
    };
    for kept in ["min_isolation: no-landlock", "require_sandbox: code-executor", "max_duration: 1h"]
    {
        check(&demand("merge.apply", ", caller: agent", kept), &["merge.apply"], false);
        check(&demand("model.call", "", kept), &["model.call"], false);
    }
    check(&demand("merge.apply", ", caller: agent", "max_file_size: 4"), &["merge.apply"], false);
    let size = "{ name: own, match: { syscall: merge.apply, size_over: 4 }, action: deny }";
    check(size, &["merge.apply"], false);
    let network = "require_sandbox: integration-test";
    // Without the change there is nothing to commit.
    let both = ["fs.write", "git.commit"];
    check(&demand("fs.write", ", path_glob: 'src/**'", network), &both, false);
    // The controls.
    check(
        &demand("fs.write", ", path_glob: 'src/**'", "require_sandbox: code-executor"),
        &[],
        true,
    );
    check(&demand("merge.apply", ", caller: agent", "max_file_size: 4KiB"), &[], true);
    check(
        "{ name: own, match: { syscall: merge.apply, size_over: 4KiB }, action: deny }",
        &[],
        true,
    );
}
