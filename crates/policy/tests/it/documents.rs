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

#[test]
fn the_policies_of_the_guide_load() {
    let guide = std::fs::read_to_string(docs().join("policy.md")).unwrap();
    let mut policies = 0;
    for block in guide.split("```yaml\n").skip(1) {
        let text = block.split("```").next().unwrap();
        let policy = compile(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(policy.warnings().is_empty(), "{:?}", policy.warnings());
        policies += 1;
    }
    assert!(policies > 0, "the guide shows a policy");
}
