//! Rule about tables of claims: the tests that a column "Shown by" names are there.

use super::{File, Finding, Tree};

/// Title of the column.
const COLUMN: &str = "Shown by";

/// Every name between backticks in such a column is a function of the tree, or a file of its tests.
pub(super) fn tests(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.has_extension(&["md"])) {
        for (line, name) in named(file) {
            if !is_there(tree, name) {
                let message = format!("no test is called `{name}`");
                findings.push(Finding::new("shown-by", &file.path, line, message));
            }
        }
    }
    findings
}

/// What the column names, with its lines.
fn named(file: &File) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut column = None;
    for (number, line) in file.lines() {
        if !line.starts_with('|') {
            column = None;
            continue;
        }
        let cells = || line.split('|').map(str::trim);
        column = column.or_else(|| cells().position(|cell| cell == COLUMN));
        if let Some(cell) = column.and_then(|column| cells().nth(column)) {
            found.extend(cell.split('`').skip(1).step_by(2).map(|name| (number, name)));
        }
    }
    found
}

fn is_there(tree: &Tree, name: &str) -> bool {
    let declared = format!("fn {}(", name.rsplit("::").next().unwrap_or(name));
    tree.files.iter().any(|file| match file.has_extension(&["rs"]) {
        true => file.text.contains(&declared),
        false => file.path.contains("/tests/") && file.name().split('.').next() == Some(name),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::check_rule;
    use super::*;

    #[test]
    fn tests_that_a_table_names_are_there() {
        let tree = |table: &'static str| {
            [
                ("docs/a.md", table),
                ("crates/a/tests/it/b.rs", "#[test]\nfn holds() {}\n"),
                ("crates/a/tests/cases/read-file.toml", ""),
            ]
        };
        for (table, expected) in [
            ("| Claim | Shown by |\n|---|---|\n| a | `holds` |\n", &[][..]),
            ("| Claim | Shown by |\n|---|---|\n| a | `b::holds`, in words |\n", &[]),
            ("| Claim | Shown by |\n|---|---|\n| a | `read-file` |\n", &[]),
            ("| Claim | Shown by |\n|---|---|\n| a | `hold` |\n", &["docs/a.md:3"]),
            ("| Shown by | Claim |\n|---|---|\n| `holds`, `gone` | `a` |\n", &["docs/a.md:3"]),
            // Other columns and other tables name what they like.
            ("| Claim | Shown by |\n|---|---|\n| `gone` | `holds` |\n", &[]),
            ("| Shown by |\n|---|\n\n| Other |\n|---|\n| `gone` |\n", &[]),
        ] {
            check_rule(tests, &tree(table), expected);
        }
    }
}
