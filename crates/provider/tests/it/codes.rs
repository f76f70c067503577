//! Every code has its page.

use std::collections::BTreeSet;
use std::path::Path;

use glasshouse_provider::codes;

#[test]
fn codes_are_unique_and_each_has_a_page() {
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    let mut names = BTreeSet::new();
    for code in codes::ALL {
        assert!(names.insert(code.name), "{} is there twice", code.name);
        assert!(!code.fix.is_empty(), "{}", code.name);
        let page = std::fs::read_to_string(pages.join(format!("{}.md", code.name)))
            .unwrap_or_else(|error| panic!("{}: {error}", code.name));
        assert_eq!(page.lines().next(), Some(format!("# {}", code.name).as_str()));
        let retry = if code.retryable { "Retried: yes" } else { "Retried: no" };
        assert!(page.contains(retry), "{}: `{retry}`", code.name);
    }
}
