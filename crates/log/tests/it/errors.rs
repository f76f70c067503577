//! Each code has a page for people.

use std::fs;
use std::path::Path;

use glasshouse_log::codes;

#[test]
fn each_code_has_its_page() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    for code in codes::ALL {
        let page = fs::read_to_string(pages.join(format!("{}.md", code.name)))
            .unwrap_or_else(|cause| panic!("docs/errors/{}.md: {cause}", code.name));
        assert!(page.starts_with(&format!("# {}\n", code.name)), "{}", code.name);
        assert!((5..=20).contains(&page.lines().count()), "{}", code.name);
    }
}
