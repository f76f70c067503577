//! The documents for people name what the code has.

use std::fs;
use std::path::Path;

use glasshouse_tools::{Registry, codes};

fn docs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

#[test]
fn every_code_has_a_page() {
    for code in codes::ALL {
        let page = docs().join(format!("errors/{}.md", code.name));
        let text = fs::read_to_string(&page).unwrap_or_default();
        assert!(text.starts_with(&format!("# {}\n", code.name)), "{}", page.display());
    }
}

#[test]
fn every_tool_has_a_row() {
    let table = fs::read_to_string(docs().join("tools.md")).unwrap();
    for tool in Registry::builtin().tools() {
        assert_eq!(table.matches(&format!("\n| `{}` |", tool.name)).count(), 1, "{}", tool.name);
    }
}
