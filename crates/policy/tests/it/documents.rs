//! What people read holds: a page for every code, and a guide whose policies load.

use std::path::Path;

use glasshouse_policy::codes;

use crate::support::compile;

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
