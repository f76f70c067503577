//! Rule about Markdown links: what they point at in the tree is there.

use super::{File, Finding, Tree};

/// Links to files and folders of the tree resolve.
pub(super) fn resolve(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.has_extension(&["md"])) {
        for (line, target) in links(file) {
            let path = target.split(['#', '?']).next().unwrap_or_default();
            let outside = path.is_empty() || path.contains(':');
            if outside || absolute(&file.path, path).is_some_and(|path| tree.holds(&path)) {
                continue;
            }
            findings.push(Finding::new(
                "link",
                &file.path,
                line,
                format!("`{target}` is not there"),
            ));
        }
    }
    findings
}

/// The targets of inline links outside code, with their lines.
fn links(file: &File) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in file.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        // Every other piece between backticks is code.
        for text in line.split('`').step_by(2) {
            let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            found.extend(targets.map(|target| (number, target.trim_matches(['<', '>']))));
        }
    }
    found
}

/// A path from the top of the tree for a link in a file; `None` when it leaves the tree.
fn absolute(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if link.starts_with('/') {
        parts.clear();
    }
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::check_rule;
    use super::*;

    #[test]
    fn links_resolve_from_where_they_stand() {
        for (text, expected) in [
            ("[a](b.md) and [c](../LICENSE)", &[][..]),
            ("[a](errors) [b](errors/) [c](errors/full.md#why)", &[]),
            ("[web](https://example.org/x) [mail](mailto:a@b) [here](#part)", &[]),
            ("[gone](c.md)", &["docs/a.md:1"]),
            ("one\n[out](../../x)", &["docs/a.md:2"]),
            ("`[code](gone.md)`", &[]),
            ("```\n[code](gone.md)\n```\n[a](gone.md)", &["docs/a.md:4"]),
            ("[`code`](gone.md)", &["docs/a.md:1"]),
        ] {
            let tree = [
                ("docs/a.md", text),
                ("docs/b.md", ""),
                ("LICENSE", ""),
                ("docs/errors/full.md", ""),
            ];
            check_rule(resolve, &tree, expected);
        }
    }
}
