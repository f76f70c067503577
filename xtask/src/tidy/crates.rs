//! Rules about crates: their roots, their modules, their lints.

use super::manifest::settings;
use super::{File, Finding, Tree};

/// Whether a path is the root of a library or program of ours.
fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts[..], ["crates", _, "src", "lib.rs" | "main.rs"] | ["xtask", "src", "main.rs"])
}

/// Each crate root says what the crate is for and forbids unsafe code.
pub(super) fn roots(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| is_root(&file.path)) {
        if !file.text.starts_with("//! ") {
            let message = "a crate root starts with `//!` and what the crate is for";
            findings.push(Finding::new("crate-doc", &file.path, 1, message));
        }
        if !file.lines().any(|(_, line)| line == "#![forbid(unsafe_code)]") {
            let message = "a crate root holds `#![forbid(unsafe_code)]`";
            findings.push(Finding::new("unsafe-code", &file.path, 1, message));
        }
    }
    findings
}

/// A module is `name.rs` beside `name/`.
pub(super) fn module_files(tree: &Tree) -> Vec<Finding> {
    let old = |file: &&File| file.name() == "mod.rs";
    let finding = |file: &File| {
        let folder = file.path.strip_suffix("/mod.rs").unwrap_or_default();
        Finding::new("module-file", &file.path, 0, format!("call it {folder}.rs"))
    };
    tree.files.iter().filter(old).map(finding).collect()
}

/// Every package uses the workspace's lints. One that cannot, because it needs unsafe code, repeats
/// them at the same levels.
pub(super) fn lints(tree: &Tree) -> Vec<Finding> {
    let Some(root) = tree.get("Cargo.toml") else { return Vec::new() };
    let shared: Vec<_> = settings(&root.text)
        .into_iter()
        .filter_map(|lint| Some((lint.table.strip_prefix("workspace.")?, lint.key, lint.value)))
        .filter(|(table, ..)| table.starts_with("lints"))
        .collect();
    let mut findings = Vec::new();
    for file in &tree.files {
        let ours = file.path.starts_with("crates/") || file.path.starts_with("xtask/");
        if !ours || file.name() != "Cargo.toml" {
            continue;
        }
        let own = settings(&file.text);
        if own.iter().any(|s| (s.table, s.key, s.value) == ("lints", "workspace", "true")) {
            continue;
        }
        let mut add =
            |line, message| findings.push(Finding::new("lints", &file.path, line, message));
        for &(table, key, value) in shared.iter().filter(|(_, key, _)| *key != "unsafe_code") {
            match own.iter().find(|lint| (lint.table, lint.key) == (table, key)) {
                None => add(0, format!("`{key}` of the workspace's lints is missing")),
                Some(lint) if lint.value != value => {
                    add(lint.line, format!("`{key}` is {value} in the workspace"));
                }
                Some(_) => {}
            }
        }
        for lint in own.iter().filter(|lint| lint.table.starts_with("lints")) {
            let known =
                shared.iter().any(|&(table, key, _)| (table, key) == (lint.table, lint.key));
            if !known && !lint.key.starts_with("unsafe_") {
                add(lint.line, format!("`{}` belongs in the workspace's lints", lint.key));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tests::check_rule;
    use super::*;

    #[test]
    fn a_root_needs_a_purpose_and_forbids_unsafe_code() {
        let good = "//! What it is for.\n#![forbid(unsafe_code)]\n";
        for (path, text, expected) in [
            ("crates/a/src/lib.rs", good, &[][..]),
            ("crates/a/src/lib.rs", "//! What.\n", &["crates/a/src/lib.rs:1"]),
            ("crates/a/src/lib.rs", "#![forbid(unsafe_code)]\n", &["crates/a/src/lib.rs:1"]),
            ("crates/a/src/other.rs", "", &[]),
            ("crates/a/src/bin/lib.rs", "", &[]),
            ("xtask/src/main.rs", "", &["xtask/src/main.rs:1", "xtask/src/main.rs:1"]),
        ] {
            check_rule(roots, &[(path, text)], expected);
        }
    }

    #[test]
    fn the_old_module_file_is_refused() {
        check_rule(module_files, &[("a/mod.rs", ""), ("a/modern.rs", "")], &["a/mod.rs:0"]);
    }

    #[test]
    fn lints_are_shared_or_equal() {
        let root = "[workspace.lints.rust]\nmissing_docs = \"warn\"\nunsafe_code = \"deny\"\n\
                    [workspace.lints.clippy]\ntodo = \"warn\"\n";
        let copied = "[lints.rust]\nmissing_docs = \"warn\"\n[lints.clippy]\ntodo = \"warn\"\n";
        for (text, expected) in [
            ("[lints]\nworkspace = true\n".to_owned(), &[][..]),
            (copied.to_owned(), &[]),
            (format!("{copied}[lints.rust]\nunsafe_op_in_unsafe_fn = \"warn\"\n"), &[]),
            (copied.replace("todo = \"warn\"\n", ""), &["crates/a/Cargo.toml:0"]),
            (copied.replace("todo = \"warn\"", "todo = \"allow\""), &["crates/a/Cargo.toml:4"]),
            (format!("{copied}dbg_macro = \"warn\"\n"), &["crates/a/Cargo.toml:5"]),
            (String::new(), &["crates/a/Cargo.toml:0", "crates/a/Cargo.toml:0"]),
        ] {
            check_rule(lints, &[("Cargo.toml", root), ("crates/a/Cargo.toml", &text)], expected);
        }
    }
}
