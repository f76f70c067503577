//! Rules about error codes: a page for each, a code for each page, one meaning for a name.

use super::{File, Finding, Tree};

/// Where the pages are.
const PAGES: &str = "docs/errors/";

/// First line of a table of codes.
const TABLE: &str = "codes! {";

/// A code as it stands in a crate's `codes.rs`.
#[derive(Debug, PartialEq, Eq)]
struct Defined<'a> {
    file: &'a str,
    line: usize,
    constant: &'a str,
    name: &'a str,
    /// Exit and whether it may be retried: what programs depend on.
    meaning: (&'a str, &'a str),
}

fn is_codes(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts[..], ["crates", _, "src", "codes.rs"])
}

fn defined(tree: &Tree) -> Vec<Defined<'_>> {
    tree.files.iter().filter(|file| is_codes(&file.path)).flat_map(defined_in).collect()
}

fn defined_in(file: &File) -> Vec<Defined<'_>> {
    let calls = file.text.match_indices("Code::new(").filter_map(|(at, _)| in_call(file, at));
    calls.chain(in_table(file)).collect()
}

/// `pub const NAME: Code = Code::new("name", exit, retryable, "fix")`.
fn in_call(file: &File, at: usize) -> Option<Defined<'_>> {
    let (before, after) = (&file.text[..at], &file.text[at..]);
    let constant = before.rsplit_once("const ")?.1.split(':').next()?.trim();
    let (_, arguments) = after.split_once('(')?;
    // A macro's body calls it with a variable; the literals stand in the macro's table.
    let (name, rest) = arguments.trim_start().strip_prefix('"')?.split_once('"')?;
    let mut words = rest.split(',').map(str::trim).filter(|word| !word.is_empty());
    let meaning = (words.next()?, words.next()?);
    let line = before.matches('\n').count() + 1;
    Some(Defined { file: &file.path, line, constant, name, meaning })
}

/// Rows `NAME = "name", exit, "fix";` of a macro that makes the constants and `ALL` together.
fn in_table(file: &File) -> impl Iterator<Item = Defined<'_>> {
    let rows = file.lines().skip_while(|(_, line)| *line != TABLE).take_while(|(_, l)| *l != "}");
    rows.filter_map(|(line, text)| {
        let (constant, rest) = text.trim_start().split_once(" = \"")?;
        let is_constant = constant.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        let (name, rest) = rest.split_once('"')?;
        let exit = rest.split(',').map(str::trim).find(|word| !word.is_empty())?;
        let meaning = (exit, "");
        is_constant.then_some(Defined { file: &file.path, line, constant, name, meaning })
    })
}

/// Codes are lower snake case, listed in `ALL`, and mean the same wherever two crates share one.
pub(super) fn meanings(tree: &Tree) -> Vec<Finding> {
    let all = defined(tree);
    let mut findings = Vec::new();
    for (index, code) in all.iter().enumerate() {
        let mut add = |message: String| {
            findings.push(Finding::new("error-code", code.file, code.line, message));
        };
        let snake = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if code.name.is_empty() || !code.name.chars().all(snake) {
            add(format!("`{}` is not lower snake case", code.name));
        }
        if !is_listed(tree, code) {
            add(format!("`{}` is not in `ALL`", code.constant));
        }
        if let Some(other) = all[..index].iter().find(|other| other.name == code.name) {
            if other.file == code.file {
                add(format!("`{}` is defined twice", code.name));
            } else if other.meaning != code.meaning {
                add(format!("`{}` has another exit or retry in {}", code.name, other.file));
            }
        }
    }
    findings
}

fn is_listed(tree: &Tree, code: &Defined<'_>) -> bool {
    let text = tree.get(code.file).map_or("", |file| &file.text);
    if text.lines().any(|line| line == TABLE) {
        return true;
    }
    let list = text.split_once("ALL: &[Code]").map_or("", |(_, rest)| rest);
    let list = list.split_once("];").map_or("", |(list, _)| list);
    list.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == code.constant)
}

/// Every code has a page, every page a code, and a page's title is its code.
pub(super) fn pages(tree: &Tree) -> Vec<Finding> {
    let all = defined(tree);
    let mut findings = Vec::new();
    for (index, code) in all.iter().enumerate() {
        let page = format!("{PAGES}{}.md", code.name);
        let first = !all[..index].iter().any(|other| other.name == code.name);
        if first && tree.get(&page).is_none() {
            let message = format!("`{}` has no page {page}", code.name);
            findings.push(Finding::new("error-page", code.file, code.line, message));
        }
    }
    for file in &tree.files {
        let Some(name) = file.path.strip_prefix(PAGES).and_then(|name| name.strip_suffix(".md"))
        else {
            continue;
        };
        if name == "README" {
            continue;
        }
        if !all.iter().any(|code| code.name == name) {
            let message = format!("no crate has a code `{name}`");
            findings.push(Finding::new("error-page", &file.path, 0, message));
        }
        if file.text.lines().next() != Some(&format!("# {name}")) {
            let message = format!("the title is `# {name}`");
            findings.push(Finding::new("error-page", &file.path, 1, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::tests::check_rule;
    use super::*;

    const A: &str = "crates/a/src/codes.rs";
    const B: &str = "crates/b/src/codes.rs";

    fn codes(body: &str, list: &str) -> String {
        format!("use x;\n{body}\npub const ALL: &[Code] = &[{list}];\n")
    }

    fn code(constant: &str, name: &str, exit: &str) -> String {
        format!(
            "pub const {constant}: Code = Code::new(\n    \"{name}\",\n    {exit}, true, \"f\");"
        )
    }

    #[test]
    fn a_code_is_read_as_rustfmt_leaves_it() {
        let text = codes(&code("FULL", "storage_full", "Exit::Storage"), "FULL");
        let tree = Tree::of(&[(A, &text)]);
        let meaning = ("Exit::Storage", "true");
        let expected =
            Defined { file: A, line: 2, constant: "FULL", name: "storage_full", meaning };
        assert_eq!(defined(&tree), [expected]);
    }

    #[test]
    fn codes_in_a_table_are_read() {
        let text = "macro_rules! codes {\n    ($name:ident) => { pub const $name: Code = \
                    Code::new($text); };\n}\ncodes! {\n    /// Why = \"not a row\".\n    FULL = \
                    \"full\", USAGE,\n        \"a fix = \\\"x\\\"\";\n}\n";
        let tree = Tree::of(&[(A, text)]);
        let names: Vec<_> = defined(&tree).iter().map(|code| (code.constant, code.name)).collect();
        assert_eq!(names, [("FULL", "full")]);
        assert_eq!(meanings(&tree), []);
    }

    #[test]
    fn a_name_has_one_meaning_and_is_listed() {
        let full = codes(&code("FULL", "full", "Exit::Storage"), "FULL");
        for (other, expected) in [
            (full.clone(), &[][..]),
            (full.replace("Exit::Storage", "Exit::Usage"), &["crates/b/src/codes.rs:2"]),
            (full.replace("[FULL]", "[FULLER]"), &["crates/b/src/codes.rs:2"]),
            (full.replace("\"full\"", "\"Full\""), &["crates/b/src/codes.rs:2"]),
        ] {
            check_rule(meanings, &[(A, &full), (B, &other)], expected);
        }
        let twice = [code("ONE", "full", "Exit::Usage"), code("TWO", "full", "Exit::Usage")];
        check_rule(meanings, &[(A, &codes(&twice.join("\n"), "ONE, TWO"))], &[&format!("{A}:5")]);
    }

    #[test]
    fn pages_and_codes_match() {
        let full = codes(&code("FULL", "full", "Exit::Storage"), "FULL");
        let page = ("docs/errors/full.md", "# full\n");
        check_rule(pages, &[(A, &full), page], &[]);
        check_rule(pages, &[(A, &full), (B, &full), page], &[]);
        check_rule(pages, &[(A, &full)], &[&format!("{A}:2")]);
        check_rule(pages, &[page, ("docs/errors/README.md", "")], &["docs/errors/full.md:0"]);
        let titled = ("docs/errors/full.md", "# Full\n");
        check_rule(pages, &[(A, &full), titled], &["docs/errors/full.md:1"]);
    }
}
