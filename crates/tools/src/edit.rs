//! `fs.edit`: an exact replacement, or an error that helps to get it right.
//!
//! Nothing fuzzy is ever applied: a near match is a hint in an error, because the wrong one of two
//! similar places is worse than another try.

use crate::Arguments;
use crate::codes;
use crate::error::{Error, Result};

/// Largest content an edit may produce.
pub const MAX_EDIT_RESULT_BYTES: usize = 16 << 20;
/// Most line numbers that an `ambiguous` error names.
const MAX_LINES_NAMED: usize = 10;
/// Most bytes of a line that are compared or shown for a hint.
const MAX_HINT_BYTES: usize = 200;
/// Most lines that are compared for a hint.
const MAX_HINT_LINES: usize = 50_000;

/// The content of a file after an `fs.edit`.
///
/// # Errors
/// - `text_not_found` with the nearest line (`line`, `nearest`) if the text is not there;
/// - `ambiguous` with the number of `matches` and their `lines` if it is there more than once,
///   (an overlap counts as well) and `replace_all` is not set;
/// - `no_change` if `old` and `new` are equal; `result_too_large` over [`MAX_EDIT_RESULT_BYTES`];
/// - `invalid_arguments` if the arguments are another tool's.
pub fn edit_text(old_content: &str, arguments: &Arguments) -> Result<String> {
    let Arguments::FsEdit { path, old, new, replace_all } = arguments else {
        return Err(Error::new(codes::INVALID_ARGUMENTS, "these are not arguments of `fs.edit`"));
    };
    if old.is_empty() {
        return Err(Error::new(codes::INVALID_ARGUMENTS, "the text to replace is empty")
            .with("pointer", "/old"));
    }
    if old == new {
        return Err(Error::new(codes::NO_CHANGE, format!("the edit of `{path}` changes nothing"))
            .why("`old` and `new` are equal"));
    }
    let count = old_content.matches(old.as_str()).count();
    if count == 0 {
        return Err(not_found(old_content, old, path));
    }
    if !replace_all {
        check_unique(old_content, old, path, count)?;
    }
    let size = old_content.len() - count * old.len() + count.saturating_mul(new.len());
    if size > MAX_EDIT_RESULT_BYTES {
        return Err(Error::new(
            codes::RESULT_TOO_LARGE,
            format!("`{path}` would become too large"),
        )
        .why(format!("{size} bytes; the limit is {MAX_EDIT_RESULT_BYTES}"))
        .with("path", path.as_str()));
    }
    Ok(old_content.replace(old.as_str(), new))
}

/// Refuses a text that occurs more than once. Overlapping occurrences count: `aa` is in `aaa` twice.
fn check_unique(content: &str, old: &str, path: &str, apart: usize) -> Result<()> {
    let first =
        content.find(old).map_or(0, |start| start + old.chars().next().map_or(0, char::len_utf8));
    let second = content[first..].find(old).map(|start| first + start);
    let Some(second) = second else { return Ok(()) };
    let line_of = |start: usize| 1 + content[..start].matches('\n').count();
    let starts = content.match_indices(old).map(|(start, _)| start);
    let lines: Vec<usize> = match apart {
        1 => starts.chain([second]).map(line_of).collect(),
        _ => starts.take(MAX_LINES_NAMED).map(line_of).collect(),
    };
    let matches = apart.max(2);
    Err(Error::new(codes::AMBIGUOUS, format!("the text to replace in `{path}` is not unique"))
        .why(format!("it occurs {matches} times"))
        .with("matches", matches)
        .with("lines", lines)
        .with("path", path))
}

fn not_found(content: &str, old: &str, path: &str) -> Error {
    let mut error =
        Error::new(codes::TEXT_NOT_FOUND, format!("the text to replace is not in `{path}`"))
            .with("path", path);
    if content.contains("\r\n")
        && !old.contains('\r')
        && content.replace("\r\n", "\n").contains(old)
    {
        error = error.why("the file ends its lines with CR LF and the text with LF");
    } else if squeezed(content).contains(&squeezed(old)) {
        error = error.why("the file has it with other white space");
    }
    match nearest_line(content, old) {
        Some((number, line)) => error.with("line", number).with("nearest", truncated(line)),
        None => error,
    }
}

/// The text with every run of white space as one space.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The line most like the first line of `old` that says anything, and its number from 1.
fn nearest_line<'a>(content: &'a str, old: &str) -> Option<(usize, &'a str)> {
    let wanted = pairs(old.lines().find(|line| !line.trim().is_empty())?);
    let mut best: Option<(u32, usize, &str)> = None;
    for (index, line) in content.lines().take(MAX_HINT_LINES).enumerate() {
        let score = similarity(&wanted, &pairs(line));
        if score > best.map_or(0, |(score, ..)| score) {
            best = Some((score, index + 1, line));
        }
    }
    best.map(|(_, number, line)| (number, line))
}

/// The sorted pairs of neighbouring bytes of a trimmed line.
fn pairs(line: &str) -> Vec<[u8; 2]> {
    let bytes = truncated(line.trim()).as_bytes();
    let mut pairs: Vec<[u8; 2]> = bytes.windows(2).map(|pair| [pair[0], pair[1]]).collect();
    pairs.sort_unstable();
    pairs
}

/// How much two sorted lists of pairs have in common, in thousandths (the Dice coefficient).
fn similarity(a: &[[u8; 2]], b: &[[u8; 2]]) -> u32 {
    let (mut i, mut j, mut common) = (0, 0, 0_u32);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        match x.cmp(y) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                (i, j, common) = (i + 1, j + 1, common + 1);
            }
        }
    }
    let total = u32::try_from(a.len() + b.len()).unwrap_or(u32::MAX);
    (2_000 * common).checked_div(total).unwrap_or(0)
}

fn truncated(line: &str) -> &str {
    &line[..line.floor_char_boundary(MAX_HINT_BYTES)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit(content: &str, old: &str, new: &str, replace_all: bool) -> Result<String> {
        let (path, old, new) = ("f".to_owned(), old.to_owned(), new.to_owned());
        edit_text(content, &Arguments::FsEdit { path, old, new, replace_all })
    }

    #[test]
    fn exact_replacements() {
        let check =
            |content: &str, old: &str, new: &str, all: bool, expected: Result<&str, &str>| {
                let result = edit(content, old, new, all);
                let seen = result.as_deref().map_err(Error::code);
                assert_eq!(seen, expected, "{content:?} {old:?} -> {new:?}");
            };
        check("a b c", "b", "x", false, Ok("a x c"));
        check("a b c", "b ", "", false, Ok("a c"));
        check("a b a", "a", "x", true, Ok("x b x"));
        check("one", "one", "x", true, Ok("x"));
        check("a b a", "a", "x", false, Err("ambiguous"));
        check("aaa", "aa", "x", false, Err("ambiguous"));
        check("aaa", "aa", "x", true, Ok("xa"));
        check("äää", "ää", "x", false, Err("ambiguous"));
        check("a", "b", "x", false, Err("text_not_found"));
        check("a", "b", "x", true, Err("text_not_found"));
        check("", "b", "x", false, Err("text_not_found"));
        check("A", "a", "x", false, Err("text_not_found"));
        check("a", "a", "a", false, Err("no_change"));
        check("a", "", "x", false, Err("invalid_arguments"));
        let big = "a".repeat(MAX_EDIT_RESULT_BYTES / 2 + 1);
        check(&big, "a", "xx", true, Err("result_too_large"));
    }

    /// Case H5: the same three lines twice.
    #[test]
    fn h5_equal_blocks_are_ambiguous_and_named() {
        let block = "if x {\n    y();\n}\n";
        let content = format!("{block}z\n{block}");
        let report = edit(&content, block, "", false).unwrap_err().report();
        assert_eq!(report.code, "ambiguous");
        assert_eq!(report.context["matches"], 2);
        assert_eq!(report.context["lines"], serde_json::json!([1, 5]));
    }

    #[test]
    fn a_miss_names_the_nearest_line_and_the_likely_reason() {
        let content = "fn main() {\n\tlet total = 1;\n}\n";
        let check = |content: &str, old: &str, line: Option<u64>, why: &str| {
            let report = edit(content, old, "x", false).unwrap_err().report();
            let seen = report.context.get("line").and_then(serde_json::Value::as_u64);
            assert_eq!(seen, line, "{old:?}");
            assert!(report.why.contains(why), "{}", report.why);
        };
        check(content, "let totl = 1;", Some(2), "");
        check(content, "    let total = 1;\n}", Some(2), "white space");
        check("a\r\nb\r\n", "a\nb", None, "CR LF");
        check("abc\r\nbcd\r\n", "abc\nbcd", Some(1), "CR LF");
        check("qqqq", "zzzz", None, "");
    }

    proptest! {
        #[test]
        fn a_unique_text_is_replaced_and_the_rest_kept(
            head in "[a-c\n]{0,30}", old in "[x-z]{1,9}", new in "[a-z\n]{0,9}", tail in "[a-c\n]{0,30}",
        ) {
            prop_assume!(old != new);
            let content = format!("{head}{old}{tail}");
            let edited = edit(&content, &old, &new, false).unwrap();
            prop_assert_eq!(edited, format!("{head}{new}{tail}"));
        }
    }
}
