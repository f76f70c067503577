//! Rules about dependencies: each is argued for, and none is only listed.

use std::collections::BTreeSet;

use super::manifest::dependencies;
use super::{File, Finding, Tree};

/// The page that says what each dependency is for.
const PAGE: &str = "docs/dependencies.md";

/// Packages of this repository need no argument.
const OURS: &str = "glasshouse-";

fn manifests(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| {
        let parts: Vec<&str> = file.path.split('/').collect();
        matches!(
            parts[..],
            ["Cargo.toml"] | ["crates" | "sdk", _, "Cargo.toml"] | ["xtask" | "fuzz", "Cargo.toml"]
        )
    })
}

/// Every dependency has a line on the page, and every line a dependency.
pub(super) fn lines(tree: &Tree) -> Vec<Finding> {
    let mut listed = Vec::new();
    for (number, line) in tree.get(PAGE).into_iter().flat_map(File::lines) {
        // The first cell of a row of the page's tables is the name between backticks.
        let name = line.strip_prefix("| `").and_then(|rest| rest.split_once('`'));
        listed.extend(name.map(|(name, _)| (number, name)));
    }
    let mut findings = Vec::new();
    let mut asked = BTreeSet::new();
    for file in manifests(tree) {
        for dependency in dependencies(&file.text) {
            let name = dependency.name;
            if name.starts_with(OURS) || !asked.insert(name) {
                continue;
            }
            if !listed.iter().any(|(_, known)| *known == name) {
                let message = format!("`{name}` has no line in {PAGE}");
                findings.push(Finding::new("dependency", &file.path, dependency.line, message));
            }
        }
    }
    for (index, (line, name)) in listed.iter().enumerate() {
        if !asked.contains(name) {
            findings.push(Finding::new(
                "dependency",
                PAGE,
                *line,
                format!("nothing uses `{name}`"),
            ));
        }
        if listed[..index].iter().any(|(_, known)| known == name) {
            findings.push(Finding::new("dependency", PAGE, *line, format!("`{name}` comes twice")));
        }
    }
    findings
}

/// Every dependency of the workspace is used by a member.
pub(super) fn unused(tree: &Tree) -> Vec<Finding> {
    let all = || manifests(tree).flat_map(|file| dependencies(&file.text));
    let used: BTreeSet<&str> =
        all().filter(|found| !found.of_workspace).map(|found| found.name).collect();
    all()
        .filter(|found| found.of_workspace && !used.contains(found.name))
        .map(|found| {
            let message = format!("no member uses `{}`", found.name);
            Finding::new("dependency", "Cargo.toml", found.line, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::check_rule;
    use super::*;

    const MEMBER: &str = "crates/a/Cargo.toml";

    #[test]
    fn the_page_and_the_manifests_match() {
        let member =
            (MEMBER, "[dependencies]\nserde.workspace = true\nglasshouse-b.workspace = true");
        for (page, expected) in [
            ("| `serde` | for what | why |\n", &[][..]),
            ("serde\n", &["crates/a/Cargo.toml:2"]),
            ("| `serde` | |\n| `tokio` | |\n", &["docs/dependencies.md:2"]),
            ("| `serde` | |\n| `serde` | |\n", &["docs/dependencies.md:2"]),
        ] {
            check_rule(lines, &[member, (PAGE, page)], expected);
        }
        let sample = ("examples/repos/a/Cargo.toml", "[dependencies]\nrand = \"1\"\n");
        check_rule(lines, &[sample], &[]);
    }

    #[test]
    fn a_dependency_of_the_workspace_has_a_user() {
        let root = ("Cargo.toml", "[workspace.dependencies]\nserde = \"1\"\n");
        let member = (MEMBER, "[dev-dependencies]\nserde.workspace = true\n");
        check_rule(unused, &[root, member], &[]);
        check_rule(unused, &[root], &["Cargo.toml:2"]);
    }
}
