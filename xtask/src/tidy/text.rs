//! Rules about characters and words: whitespace, marks of unfinished work, the author's machine.

use super::{File, Finding, Tree};

/// Formats whose syntax needs tabs, or whose context lines end in a space.
const OWN_WHITESPACE: &[&str] = &["patch", "diff", "go", "mk"];

/// No tabs, no spaces at the end of a line, no CR, and a newline at the end of the file.
pub(super) fn whitespace(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let mut add = |line, message| {
            findings.push(Finding::new("whitespace", &file.path, line, message));
        };
        let tabs_allowed = file.name() == "Makefile" || file.has_extension(OWN_WHITESPACE);
        let ends_allowed = file.has_extension(OWN_WHITESPACE);
        for (number, line) in file.text.split_terminator('\n').enumerate() {
            if line.ends_with('\r') {
                add(number + 1, "line ends in CR LF");
            } else if line.ends_with([' ', '\t']) && !ends_allowed {
                add(number + 1, "whitespace at the end of the line");
            }
            if line.contains('\t') && !tabs_allowed {
                add(number + 1, "tab");
            }
        }
        if !file.text.is_empty() && !file.text.ends_with('\n') {
            add(file.text.lines().count(), "no newline at the end of the file");
        }
    }
    findings
}

/// What nobody may leave behind. Written in pieces, so that this file does not hold them.
const MARKS: &[(&str, &str)] = &[
    (concat!("to", "do!("), "unfinished code"),
    (concat!("unimpl", "emented!("), "unfinished code"),
    (concat!("FIX", "ME"), "a promise nobody keeps"),
    (concat!("X", "XX"), "a promise nobody keeps"),
    (concat!("TO", "DO"), "a promise nobody keeps"),
    (concat!("db", "g!("), "output left from debugging"),
    (concat!("#[ign", "ore]"), "an ignored test needs `= \"reason\"`"),
    (concat!("assert!(", "true)"), "an assertion that cannot fail"),
];

const CODE: &[&str] = &["rs", "ts", "tsx", "js", "mjs", "py", "sh", "go", "toml", "yaml", "yml"];

/// No marks of unfinished work in code.
pub(super) fn marks(tree: &Tree) -> Vec<Finding> {
    let code = |file: &&File| file.has_extension(CODE);
    on_each_line(tree.files.iter().filter(code), "marks", |line| {
        let (mark, why) = MARKS.iter().find(|(mark, _)| holds_word(line, mark))?;
        Some(format!("`{mark}`: {why}"))
    })
}

/// Whether the line holds the mark as a word of its own. A mark's end may be punctuation.
fn holds_word(line: &str, mark: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(mark).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + mark.len()..].chars().next();
        let inside = before.is_some_and(is_word);
        !inside && (!mark.ends_with(is_word) || !after.is_some_and(is_word))
    })
}

/// First parts of absolute paths that exist only where somebody builds.
const BUILD_ROOTS: &[&str] = &["work", "farm"];

/// No path of the machine on which somebody wrote this.
pub(super) fn machine_paths(tree: &Tree) -> Vec<Finding> {
    on_each_line(tree.files.iter(), "machine-path", |line| {
        let root = BUILD_ROOTS.iter().find(|root| holds_path_below(line, root))?;
        Some(format!("a path below /{root} means something on one machine only"))
    })
}

/// Whether the line holds `/ROOT/` as the start of a path, not as a later part of one.
fn holds_path_below(line: &str, root: &str) -> bool {
    let needle = format!("/{root}/");
    line.match_indices(&needle).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.}])>*".contains(c))
    })
}

/// Where locked packages may come from: the public registries that everybody's client knows.
const PUBLIC_SOURCES: &[&str] = &[
    "registry+https://github.com/rust-lang/crates.io-index",
    "https://registry.npmjs.org/",
    "https://files.pythonhosted.org/",
    "https://pypi.org/simple",
];

/// No package comes from a mirror, and nothing configures one.
pub(super) fn registries(tree: &Tree) -> Vec<Finding> {
    let locks = ["Cargo.lock", "package-lock.json", "npm-shrinkwrap.json", "uv.lock"];
    let clients = [".npmrc", "pip.conf", "config.toml"];
    let mut findings = on_each_line(
        tree.files.iter().filter(|file| locks.contains(&file.name())),
        "registry",
        |line| {
            let source = ["source = \"", "\"resolved\": \"", "registry = \"", "url = \""]
                .iter()
                .find_map(|key| line.split_once(key))
                .and_then(|(_, rest)| rest.split('"').next())?;
            let public = PUBLIC_SOURCES.iter().any(|known| source.starts_with(known));
            (!public).then(|| format!("`{source}` is not a public registry"))
        },
    );
    findings.extend(on_each_line(
        tree.files.iter().filter(|file| clients.contains(&file.name())),
        "registry",
        |line| {
            let key = ["replace-with", "index-url", "registry=", "[registries"]
                .iter()
                .find(|key| line.contains(*key))?;
            Some(format!("`{key}` belongs in the configuration of a machine"))
        },
    ));
    findings
}

fn on_each_line<'a>(
    files: impl Iterator<Item = &'a File>,
    rule: &'static str,
    check: impl Fn(&str) -> Option<String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (number, line) in file.lines() {
            if let Some(message) = check(line) {
                findings.push(Finding::new(rule, &file.path, number, message));
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
    fn whitespace_is_plain() {
        for (path, text, expected) in [
            ("a.rs", "fn a() {}\n", &[][..]),
            ("a.rs", "", &[]),
            ("a.rs", "fn a() {} \n", &["a.rs:1"]),
            ("a.rs", "a\n\tb\n", &["a.rs:2"]),
            ("a.rs", "a\r\nb\n", &["a.rs:1"]),
            ("a.rs", "a\nb", &["a.rs:2"]),
            ("x/Makefile", "all:\n\ttrue\n", &[]),
            ("x/Makefile", "all: \n", &["x/Makefile:1"]),
            ("a.patch", " \n-\ta\n", &[]),
        ] {
            check_rule(whitespace, &[(path, text)], expected);
        }
    }

    #[test]
    fn marks_are_found_as_words_in_code() {
        let of = |pieces: &[&str]| pieces.concat();
        for (path, text, expected) in [
            ("a.rs", of(&["// FIX", "ME later"]), &["a.rs:1"][..]),
            ("a.rs", of(&["\n    to", "do!()"]), &["a.rs:2"]),
            ("a.sh", of(&["# TO", "DO: all"]), &["a.sh:1"]),
            ("a.rs", of(&["#[ign", "ore]"]), &["a.rs:1"]),
            ("a.rs", of(&["#[ign", "ore = \"an hour\"]"]), &[]),
            ("a.rs", of(&["mktemp(\"aX", "XXXX\")"]), &[]),
            ("a.rs", of(&["TO", "DOS"]), &[]),
            ("a.md", of(&["FIX", "ME"]), &[]),
        ] {
            check_rule(marks, &[(path, &text)], expected);
        }
    }

    #[test]
    fn machine_paths_are_found_at_the_start_of_a_path() {
        let path = ["/wo", "rk/x"].concat();
        for (text, expected) in [
            (format!("cd {path}"), &["a:1"][..]),
            (format!("\"{path}\""), &["a:1"]),
            (format!("upper{path}"), &[]),
            (format!("./a{path}"), &[]),
            ("/workspace/x".to_owned(), &[]),
        ] {
            check_rule(machine_paths, &[("a", &text)], expected);
        }
    }

    #[test]
    fn packages_come_from_public_registries() {
        for (path, text, expected) in [
            (
                "Cargo.lock",
                "source = \"registry+https://github.com/rust-lang/crates.io-index\"",
                &[][..],
            ),
            ("Cargo.lock", "source = \"registry+https://mirror.invalid/\"", &["Cargo.lock:1"]),
            (
                "w/package-lock.json",
                "\"resolved\": \"https://mirror.invalid/a.tgz\"",
                &["w/package-lock.json:1"],
            ),
            (
                "w/package-lock.json",
                "\"resolved\": \"https://registry.npmjs.org/a/-/a-1.tgz\"",
                &[],
            ),
            (".cargo/config.toml", "replace-with = \"mirror\"", &[".cargo/config.toml:1"]),
            ("docs/a.md", "replace-with", &[]),
        ] {
            check_rule(registries, &[(path, text)], expected);
        }
    }
}
