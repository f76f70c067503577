//! Rules of the tree that no compiler knows. Each is a pure function from file texts to findings.
//!
//! What a rule cannot accept but a person can stands in `xtask/tidy-allow.txt` with a reason; sizes
//! there only go down, and an entry that nothing needs any more is itself a finding.

mod allow;
mod codes;
mod crates;
mod dependencies;
mod links;
mod manifest;
mod notes;
mod shown;
mod size;
mod text;

use std::fmt;

use crate::place::Place;
use crate::process::{Doing, Failure};

/// The file of accepted exceptions.
const ALLOW: &str = "xtask/tidy-allow.txt";

/// One file of the tree, with its path from the top.
struct File {
    path: String,
    text: String,
}

impl File {
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    fn has_extension(&self, wanted: &[&str]) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, extension)| wanted.contains(&extension))
    }

    /// The path's last part.
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// The text files of the repository.
struct Tree {
    files: Vec<File>,
    /// Paths of those that are no text, such as pictures.
    others: Vec<String>,
}

impl Tree {
    fn read(place: &Place) -> Result<Self, Failure> {
        let (mut files, mut others) = (Vec::new(), Vec::new());
        for path in place.files()? {
            let bytes = std::fs::read(place.root().join(&path))
                .doing(format_args!("could not read {path}"))?;
            // What is not text is not for these rules.
            if let Ok(text) = String::from_utf8(bytes)
                && !text.contains('\0')
            {
                files.push(File { path, text });
            } else {
                others.push(path);
            }
        }
        Ok(Self { files, others })
    }

    fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether a file or folder is there.
    fn holds(&self, path: &str) -> bool {
        let files = self.files.iter().map(|file| &file.path);
        files.chain(&self.others).any(|file| {
            file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| File { path: path.into(), text: text.into() };
        Self { files: files.iter().map(file).collect(), others: Vec::new() }
    }
}

/// Something a rule objects to.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    rule: &'static str,
    /// What is found faulty: a path, or a path and a name within.
    subject: String,
    /// Line to look at, from 1; 0 where a line says nothing.
    line: usize,
    /// What a ratchet compares with its limit.
    size: Option<usize>,
    message: String,
    /// Only told, never a failure.
    warning: bool,
}

impl Finding {
    fn new(rule: &'static str, subject: &str, line: usize, message: impl Into<String>) -> Self {
        let (subject, message) = (subject.to_owned(), message.into());
        Self { rule, subject, line, size: None, message, warning: false }
    }

    fn of_size(self, size: usize) -> Self {
        Self { size: Some(size), ..self }
    }

    fn only_told(self) -> Self {
        Self { warning: true, ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.subject)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {} [{}]", self.message, self.rule)
    }
}

type Rule = fn(&Tree) -> Vec<Finding>;

const RULES: &[Rule] = &[
    text::whitespace,
    text::marks,
    text::machine_paths,
    text::registries,
    size::files,
    size::functions,
    crates::roots,
    crates::module_files,
    crates::lints,
    codes::meanings,
    codes::pages,
    dependencies::lines,
    dependencies::unused,
    links::resolve,
    notes::names,
    shown::tests,
];

/// `cargo xtask tidy`.
pub(crate) fn command(place: &Place, arguments: &[String]) -> Result<(), Failure> {
    if let Some(argument) = arguments.first() {
        return Err(Failure::new(format!("`tidy` takes no arguments, not `{argument}`")));
    }
    let findings = check(&Tree::read(place)?)?;
    let (warnings, faults): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| finding.warning);
    for finding in &warnings {
        eprintln!("warning: {finding}");
    }
    for finding in &faults {
        eprintln!("error: {finding}");
    }
    if faults.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} untidy places; mend them, or accept one with a reason in {ALLOW}",
        faults.len()
    )))
}

/// Everything that the rules find and nobody accepted.
fn check(tree: &Tree) -> Result<Vec<Finding>, Failure> {
    let allowed = allow::parse(tree.get(ALLOW).map_or("", |file| &file.text))?;
    let findings = RULES.iter().flat_map(|rule| rule(tree)).collect();
    Ok(allow::apply(allowed, findings))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a rule over literals and compares `subject:line` of what it finds.
    pub(super) fn check_rule(rule: Rule, files: &[(&str, &str)], expected: &[&str]) {
        let findings = rule(&Tree::of(files));
        let found: Vec<String> =
            findings.iter().map(|found| format!("{}:{}", found.subject, found.line)).collect();
        assert_eq!(found, expected, "{files:?}: {findings:#?}");
    }

    #[test]
    fn the_repository_is_tidy() {
        let place = Place::find().expect("a repository");
        let tree = Tree::read(&place).expect("readable files");
        assert!(tree.files.len() > 10, "the tree was not read");
        let faults: Vec<String> = check(&tree)
            .expect("a readable list of exceptions")
            .iter()
            .filter(|finding| !finding.warning)
            .map(Finding::to_string)
            .collect();
        assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    }

    #[test]
    fn a_path_is_held_as_a_whole_only() {
        let tree = Tree::of(&[("docs/errors/full.md", "")]);
        for (path, held) in
            [("docs", true), ("docs/errors/full.md", true), ("doc", false), ("docs/err", false)]
        {
            assert_eq!(tree.holds(path), held, "{path}");
        }
    }
}
