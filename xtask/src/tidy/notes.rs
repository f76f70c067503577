//! Rule about release notes: one file for each change that a user sees.

use super::{Finding, Tree};

const FOLDER: &str = "release-notes/";

/// Notes are `unreleased/<words-like-this>.md`, releases `<version>.md`, and each has a title.
pub(super) fn names(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let Some(name) = file.path.strip_prefix(FOLDER) else { continue };
        let known = match name.strip_suffix(".md") {
            Some("README") => true,
            Some(stem) => stem.strip_prefix("unreleased/").map_or_else(|| version(stem), slug),
            None => false,
        };
        if !known {
            let message = "expected `unreleased/words-like-this.md` or `1.2.3.md`";
            findings.push(Finding::new("release-note", &file.path, 0, message));
        } else if !file.text.starts_with("# ") {
            let message = "a note starts with a title `# ...`";
            findings.push(Finding::new("release-note", &file.path, 1, message));
        }
    }
    findings
}

fn slug(text: &str) -> bool {
    let word = |word: &str| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    text.split('-').all(word)
}

fn version(text: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split('.').count() == 3 && text.split('.').all(number)
}

#[cfg(test)]
mod tests {
    use super::super::tests::check_rule;
    use super::*;

    #[test]
    fn notes_have_names_and_titles() {
        for (path, text, expected) in [
            ("release-notes/README.md", "# Notes\n", &[][..]),
            ("release-notes/unreleased/first-demo.md", "# A\n", &[]),
            ("release-notes/0.1.0.md", "# A\n", &[]),
            ("release-notes/0.1.md", "# A\n", &["release-notes/0.1.md:0"]),
            (
                "release-notes/unreleased/First.md",
                "# A\n",
                &["release-notes/unreleased/First.md:0"],
            ),
            ("release-notes/unreleased/a.txt", "# A\n", &["release-notes/unreleased/a.txt:0"]),
            ("release-notes/unreleased/a.md", "A\n", &["release-notes/unreleased/a.md:1"]),
        ] {
            check_rule(names, &[(path, text)], expected);
        }
    }
}
