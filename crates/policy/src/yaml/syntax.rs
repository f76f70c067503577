//! What is wrong with a text that is no YAML, where, and what to do about it.

use serde_saphyr::budget::BudgetBreach;

use crate::limits::MAX_YAML_DEPTH;

/// A fault of a text; `fix` is `None` where the one of the code says it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SyntaxFault {
    pub(super) line: u64,
    pub(super) column: u64,
    pub(super) why: String,
    pub(super) fix: Option<String>,
}

/// Words of the library that mean something to who programs with it, and what they say of a file.
const WORDS: [(&str, &str); 4] = [
    ("Option<", "a key of a map is nothing; write a text"),
    ("string scalar", "a key of a map is a list or a map; write a text"),
    ("non-finite float", "a number without a value or an end (`.nan`, `.inf`, one too large)"),
    ("configured policy", "a merge key (`<<`)"),
];

/// Words of the library, and what to do about the fault that they tell. Those that depend on the text are below.
const FIXES: [(&str, &str); 15] = [
    ("'-' must be followed", "write a space, and no tab, behind the dash"),
    ("unclosed quote", "close the quote, or remove it"),
    (
        "after single-quoted scalar",
        "write a quote inside single quotes twice ('it''s'), or use double quotes",
    ),
    (
        "after double-quoted scalar",
        "write a quote inside double quotes as \\\", or use single quotes",
    ),
    (
        "unknown escape",
        "write a backslash inside double quotes as \\\\, or use single quotes, in which it is itself",
    ),
    ("unclosed bracket", "close the bracket; quote a text that begins with one"),
    ("mismatched bracket", "close each bracket with its own kind; quote a text that holds one"),
    ("misplaced bracket", "remove the bracket, or quote a text that holds one"),
    ("placement of ':'", "close the bracket that was opened before this line"),
    (
        "expected ',' or",
        "put a comma between entries, and quote a text that holds a comma or a bracket",
    ),
    ("expected '-' indicator", "indent all keys of a map alike, and all `-` of a list alike"),
    ("simple key expected ':'", "write a colon and a blank behind the key"),
    ("a block scalar", "let the text begin in the line below `|` or `>`, indented"),
    ("unexpected character: `\\u", "remove the character"),
    ("unexpected character: `", "quote a text that begins so"),
];

pub(super) fn fault(text: &str, error: &serde_saphyr::Error) -> SyntaxFault {
    let (line, column) = error.location().map_or((1, 1), |at| (at.line(), at.column()));
    let why = why(error);
    if why.contains(" tab") || why.starts_with("tab") {
        return tab(text, line, column);
    }
    if is_colon(text, line, column) && is_second_colon(text, line, column) {
        return SyntaxFault {
            line,
            column,
            why: "a text without quotes holds a colon and a blank, which begin a value".to_owned(),
            fix: Some("quote the text".to_owned()),
        };
    }
    let fix = if why.starts_with("mapping values are not allowed") {
        Some("indent the key like the others of its map")
    } else {
        FIXES.iter().find(|(theirs, _)| why.contains(theirs)).map(|(_, fix)| *fix)
    };
    SyntaxFault { line, column, why, fix: fix.map(str::to_owned) }
}

/// The tab that the reader stopped for, which names the word before it or what stands behind it.
fn tab(text: &str, line: u64, column: u64) -> SyntaxFault {
    let lines = (1..).zip(text.lines()).filter(|(number, _)| *number >= line);
    let indented = lines.filter_map(|(number, words)| {
        let indent = words.len() - words.trim_start_matches([' ', '\t']).len();
        words[..indent].find('\t').map(|at| (number, at as u64 + 1))
    });
    let (line, column) = indented.into_iter().next().unwrap_or((line, column));
    let (why, fix) = ("a tab in the indentation".to_owned(), Some("indent with spaces".to_owned()));
    SyntaxFault { line, column, why, fix }
}

fn is_colon(text: &str, line: u64, column: u64) -> bool {
    before(text, line, column + 1).is_some_and(|begin| begin.ends_with(':'))
}

/// Whether the entry that a colon stands in has one before: `reason: note: x`.
fn is_second_colon(text: &str, line: u64, column: u64) -> bool {
    let Some(begin) = before(text, line, column) else { return false };
    let entry = begin.rsplit([',', '{', '[']).next().unwrap_or(&begin);
    entry.contains(": ") || entry.contains(":\t")
}

/// What stands in a line before a column.
fn before(text: &str, line: u64, column: u64) -> Option<String> {
    let line = text.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?)?;
    Some(line.chars().take(usize::try_from(column).ok()?.checked_sub(1)?).collect())
}

/// What is wrong, without the place, which is told before it.
fn why(error: &serde_saphyr::Error) -> String {
    match error.without_snippet() {
        serde_saphyr::Error::Budget { breach, .. } => match breach {
            BudgetBreach::MergeKeys { .. } => "a merge key (`<<`)".to_owned(),
            BudgetBreach::Documents { .. } => "more than one document in a file".to_owned(),
            BudgetBreach::Depth { .. } => format!("it nests deeper than {MAX_YAML_DEPTH} levels"),
            _ => "it is too large".to_owned(),
        },
        other => {
            let text = other.to_string();
            let ours = WORDS.iter().find(|(theirs, _)| text.contains(theirs));
            let place = text.rfind(" at line ");
            ours.map_or_else(
                || place.map_or(text.as_str(), |at| &text[..at]).to_owned(),
                |(_, ours)| (*ours).to_owned(),
            )
        }
    }
}
