//! What people read holds: a page for every code, and a guide whose policies load.

use std::path::Path;

use glasshouse_model::{CanonicalPath, ChangeClass, Digest, Effect, SessionId};
use glasshouse_policy::{codes, default_source};

use crate::support::{call, compile, effect};

fn docs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[test]
fn every_code_has_its_page() {
    for code in codes::ALL {
        let path = docs().join("errors").join(format!("{}.md", code.name));
        let page = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(page.starts_with(&format!("# {}\n", code.name)), "{}", path.display());
        let lines = page.lines().count();
        assert!((5..=40).contains(&lines), "{}: {lines} lines", path.display());
    }
}

/// Each policy of a page loads with its examples and without warnings; answers how many there are.
fn load_all(page: &str) -> usize {
    let text = std::fs::read_to_string(docs().join(page)).unwrap();
    let blocks = text.split("```yaml\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks
        .map(|text| {
            let policy = compile(text).unwrap_or_else(|error| panic!("{page}: {error}\n{text}"));
            assert!(policy.warnings().is_empty(), "{page}: {:?}", policy.warnings());
        })
        .count()
}

#[test]
fn the_policies_of_the_guides_load() {
    assert!(load_all("policy.md") > 0);
    assert!(load_all("guides/policy.md") > 10);
}

/// The guide has an example for every key that a rule can have.
#[test]
fn the_guide_shows_every_condition_and_constraint() {
    let guide = std::fs::read_to_string(docs().join("guides/policy.md")).unwrap();
    let schema = glasshouse_policy::policy_schema();
    for keys in ["/$defs/conditions/properties", "/$defs/constraints/properties"] {
        for key in schema.pointer(keys).and_then(|keys| keys.as_object()).unwrap().keys() {
            assert!(guide.contains(&format!("{key}: ")), "{key}");
        }
    }
}

/// The starters load, hold their examples, and say nothing that they cannot mean.
#[test]
fn the_starter_policies_are_clean() {
    for name in ["strict", "explore", "debug"] {
        let path = docs().join(format!("../examples/policies/{name}.yaml"));
        let policy = compile(&std::fs::read_to_string(path).unwrap()).unwrap();
        let found = glasshouse_policy::lint(&policy);
        assert!(found.is_empty(), "{name}: {found:#?}");
        assert!(policy.example_count() >= 10, "{name}");
    }
}

/// The table of the call's members has each that rules in TypeScript can see, and no other.
#[test]
fn the_members_of_a_call_are_those_that_a_program_sees() {
    let mut whole = call(
        "{ syscall: x.y, caller: 'plugin:a', caller_tag: t, path: a, host_path: /a, state: idle, argv: a, \
         host: a.test, port: 1, method: GET, http_path: /a, size: 1, change: test, label: web, sandbox: s }",
    );
    whole.session = Some("s_8f2k".parse::<SessionId>().unwrap());
    whole.cwd = CanonicalPath::parse("a").ok();
    whole.http_query = Some("q".to_owned());
    whole.args_digest = Some(Digest::of(b"a"));
    whole.change = Some(ChangeClass::Test);
    let seen = serde_json::to_value(&whole).unwrap();
    let mut seen: Vec<String> = seen
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(name, value)| match value.as_object() {
            Some(inner) => inner.keys().map(|key| format!("{name}.{key}")).collect(),
            None => vec![name.clone()],
        })
        .collect();
    let page = std::fs::read_to_string(docs().join("policy.md")).unwrap();
    let table = page.split("| Member | Holds |").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = table.lines().filter_map(|line| line.split('|').nth(1));
    let mut told: Vec<String> =
        names.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
    seen.sort();
    told.sort();
    assert_eq!(told, seen);
}

/// The failure: the sample was said to add to the shipped rules, and accepted it was the whole policy, under which no
/// session runs. It says that it is a part; in its place it does what it says.
#[test]
fn the_sample_about_injection_is_a_part() {
    let part =
        std::fs::read_to_string(docs().join("../examples/web-injection/policy.yaml")).unwrap();
    assert!(part.starts_with("# A part of a policy"), "{part}");
    let (groups, rules) = part.split_once("capabilities:\n").unwrap();
    let whole = format!("{groups}{}\n{rules}", default_source().trim_end());
    let check = |text: &str, sketch: &str, expected: Effect| {
        assert_eq!(effect(&compile(text).unwrap(), sketch), expected, "{sketch}");
    };
    let asks = "{ syscall: model.call, caller: agent }";
    check(&part, asks, Effect::Deny);
    check(&whole, asks, Effect::Allow);
    let sends = |labels: &str| {
        format!(
            "{{ syscall: net.connect, caller: agent, host: reports.test, method: GET, label: [{labels}] }}"
        )
    };
    check(&whole, &sends("user, web"), Effect::Deny);
    check(&whole, &sends("user, repo"), Effect::Allow);
}
