//! Explaining, checking and testing a policy from the command line.

use crate::harness::Place;

const RULES: &str = "
capabilities:
  - { name: docs, match: { syscall: fs.write, path_glob: 'docs/**' }, action: allow }
  - { name: web, match: { syscall: fs.write, label: web }, action: deny }
";

#[test]
fn e2e_policy_explain_names_lines_and_what_would_change_the_answer() {
    let place = Place::new();
    let project = place.shell_project();
    std::fs::write(project.join("p.yaml"), RULES).unwrap();
    let call = r#"{"syscall":"fs.write","path":"docs/a","label":"web"}"#;
    let explain = ["policy", "explain", "--policy", "p.yaml", "--call", call];
    let words = place.run_in(&project, &explain).expect_status(0);
    for line in ["deny    web (p.yaml:4)", "without the label web", "be allowed without web"] {
        assert!(words.stdout.contains(line), "{line}: {words:?}");
    }
    let json =
        place.run_in(&project, &[&explain[..], &["--json"]].concat()).expect_status(0).last();
    assert_eq!(json["decision"], "deny");
    assert_eq!(json["rules"][1]["line"], 4, "{json}");
    assert_eq!(json["other_call"][0]["set"][0]["to"], "without web");
    assert_eq!(json["other_rules"]["without"][0], "web");
    // Outside the workspace no rule is asked.
    let call = r#"{"syscall":"fs.read","path":"../x"}"#;
    let outside = place.run_in(&project, &["policy", "explain", "--call", call, "--json"]).last();
    assert_eq!(outside["rules"][0]["name"], "workspace-boundary");
    assert!(outside["other_rules"].is_null());
}

#[test]
fn e2e_policy_lint_and_test_answer_by_status() {
    let place = Place::new();
    let project = place.shell_project();
    let write = |name: &str, text: &str| std::fs::write(project.join(name), text).unwrap();
    write("p.yaml", RULES);
    let lint = |file: &str| place.run_in(&project, &["policy", "lint", file, "--json"]);
    assert_eq!(lint("p.yaml").expect_status(0).last()["warnings"], 0);
    write(
        "q.yaml",
        &format!("{RULES}  - {{ name: all, match: {{ path_glob: '**' }}, action: deny }}\n"),
    );
    let found = lint("q.yaml").expect_status(5);
    assert!(found.stdout.contains("unreachable_rule"), "{found:?}");
    // What is shipped is clean.
    place.run_in(&project, &["policy", "lint"]).expect_status(0);

    let test = |arguments: &[&str]| {
        place.run_in(
            &project,
            &[&["policy", "test", "--json", "--policy", "p.yaml"], arguments].concat(),
        )
    };
    assert_eq!(test(&[]).expect_status(0).last()["passed"], 0);
    let tests =
        "tests:\n  - { name: a, call: { syscall: fs.write, path: docs/a }, expect: EXPECT }\n";
    write(".glasshouse/policy.test.yaml", &tests.replace("EXPECT", "allow"));
    assert_eq!(test(&[]).expect_status(0).last()["passed"], 1);
    write("t.yaml", &tests.replace("EXPECT", "deny"));
    let failed = test(&["t.yaml"]).expect_status(5);
    assert!(failed.stdout.contains(r#""test":"a""#), "{failed:?}");
    assert_eq!(failed.last()["failed"], 1);
    write("t.yaml", "test: []");
    assert_eq!(test(&["t.yaml"]).expect_status(2).last()["error"]["code"], "policy_unknown_key");
}

#[test]
fn e2e_policy_schema_is_the_published_one() {
    let place = Place::new();
    let printed = place.run(&["policy", "schema"]).expect_status(0).stdout;
    assert_eq!(printed, include_str!("../../../../docs/reference/policy.schema.json"));
}
