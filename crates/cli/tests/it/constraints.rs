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
    check(", constraints: { min_isolation: no-landlock }", "denied", Some("isolation_too_weak"));
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
