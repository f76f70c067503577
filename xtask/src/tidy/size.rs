//! Rules about length. A long file holds two ideas; a long function hides one.

use super::{File, Finding, Tree};

/// Above this a file is named, so that somebody looks for the second idea in it.
const FILE_LINES_SOFT: usize = 600;

/// Above this a file is refused.
const FILE_LINES_MAX: usize = 900;

/// A function should fit on one screen.
const FUNCTION_LINES_MAX: usize = 70;

/// What a program wrote begins so; nobody reads it from its beginning to its end.
const WRITTEN: &str = "// Written by `cargo xtask ";

const SOURCES: &[&str] = &["rs", "ts", "tsx"];

fn sources(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| file.has_extension(SOURCES))
}

/// Files stay below the ceilings.
pub(super) fn files(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in sources(tree).filter(|file| !file.text.starts_with(WRITTEN)) {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            let message = format!("{lines} lines, the ceiling is {FILE_LINES_MAX}");
            findings.push(Finding::new("file-length", &file.path, 0, message).of_size(lines));
        } else if lines > FILE_LINES_SOFT {
            let message = format!("{lines} lines; would two files read better?");
            findings.push(Finding::new("file-length-soft", &file.path, 0, message).only_told());
        }
    }
    findings
}

/// Functions stay below the ceiling, signature and closing brace included.
pub(super) fn functions(tree: &Tree) -> Vec<Finding> {
    let rust = tree.files.iter().filter(|file| file.has_extension(&["rs"]));
    let mut findings = Vec::new();
    for file in rust {
        for function in functions_in(&file.text) {
            if function.lines > FUNCTION_LINES_MAX {
                let subject = format!("{}:{}", file.path, function.name);
                let message = format!(
                    "{} lines from line {}, the ceiling is {FUNCTION_LINES_MAX}",
                    function.lines, function.start
                );
                let finding = Finding::new("function-length", &subject, 0, message);
                findings.push(finding.of_size(function.lines));
            }
        }
    }
    findings
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    start: usize,
    lines: usize,
}

/// Finds functions in formatted Rust: one starts on a line that declares it and ends on the first
/// later line that is a closing brace of the same indentation.
fn functions_in(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = declared(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let close = format!("{}}}", &line[..indent]);
        // A declaration without a body, or with one on its own line, has no such brace of its own.
        let body = lines[index..].iter().take_while(|line| !line.trim_end().ends_with(';'));
        if line.trim_end().ends_with('}') || body.take(FUNCTION_LINES_MAX).all(|l| !opens(l)) {
            continue;
        }
        if let Some(length) = lines[index + 1..].iter().position(|line| *line == close) {
            found.push(Function { name: name.to_owned(), start: index + 1, lines: length + 2 });
        }
    }
    found
}

fn opens(line: &str) -> bool {
    line.trim_end().ends_with('{')
}

/// The name of the function that a line declares.
fn declared(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    loop {
        let (word, after) = rest.split_once(' ')?;
        match word {
            "fn" => break rest = after,
            "pub" | "pub(crate)" | "pub(super)" | "const" | "async" | "unsafe" | "extern"
            | "\"C\"" | "default" => rest = after,
            _ => return None,
        }
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::super::tests::check_rule;
    use super::*;

    #[test]
    fn a_declaration_names_its_function() {
        for (line, expected) in [
            ("fn plain() {", Some("plain")),
            ("    pub(crate) async fn inner<T>(", Some("inner")),
            ("pub const unsafe extern \"C\" fn all() {", Some("all")),
            ("let f = |fn_name| {", None),
            ("// fn in words", None),
            ("impl Fn for fn() {", None),
            ("const NAME: &str = \"fn x() {\";", None),
        ] {
            assert_eq!(declared(line), expected, "{line}");
        }
    }

    #[test]
    fn functions_are_measured_to_their_own_brace() {
        let text = "trait T {\n    fn none(&self);\n    fn short() {}\n    fn some() {\n        if a \
                    {\n        }\n    }\n}\nfn last(\n    a: u8,\n) {\n}\n";
        let found: Vec<_> = functions_in(text)
            .iter()
            .map(|f| format!("{} {} {}", f.name, f.start, f.lines))
            .collect();
        assert_eq!(found, ["some 4 4", "last 9 4"]);
    }

    #[test]
    fn long_functions_and_files_are_found() {
        let function =
            |lines: usize| format!("fn long() {{\n{}}}\n", "    a();\n".repeat(lines - 2));
        check_rule(functions, &[("a.rs", &function(70))], &[]);
        check_rule(functions, &[("a.rs", &function(71))], &["a.rs:long:0"]);
        check_rule(files, &[("a.rs", &"//\n".repeat(600))], &[]);
        check_rule(files, &[("a.rs", &"//\n".repeat(901))], &["a.rs:0"]);
        check_rule(files, &[("a.md", &"//\n".repeat(901))], &[]);
        let written = format!("{WRITTEN}sdk`\n{}", "//\n".repeat(901));
        check_rule(files, &[("a.ts", &written)], &[]);
        let soft = files(&Tree::of(&[("a.rs", &"//\n".repeat(601))]));
        assert!(soft[0].warning && soft[0].size.is_none());
    }
}
