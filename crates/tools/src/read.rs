//! The read-only tools, answered in process through a view.

mod search;

use glasshouse_model::{CanonicalPath, Digest};
use glasshouse_sandbox::view::{Kind, ResolvedPath, View, WalkSummary};

use crate::Arguments;
use crate::codes;
use crate::error::{Error, Result};

pub use search::{MAX_GREP_MATCHES, MAX_GREP_TOTAL_BYTES, MAX_LINE_BYTES};

/// Largest file that is read into memory. A larger one is no source text.
pub const MAX_FILE_BYTES: usize = 16 << 20;
/// Most bytes of an answer; behind them stands a mark that says how to go on.
pub const MAX_OUTPUT_BYTES: usize = 50 << 10;
/// Most paths of a list.
pub const MAX_LIST_ENTRIES: usize = 2_000;

/// The answer of a read-only tool, before masking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// What the model is to see. If something was left out, the last line is a mark in brackets
    /// that says what and how to get it.
    pub bytes: Vec<u8>,
    /// Whether something was left out.
    pub truncated: bool,
    /// `fs.read`: size of the whole file. Other tools: size of the answer.
    pub total_bytes: u64,
}

impl Output {
    /// An answer of lines with notes about what is missing.
    fn of_lines(mut bytes: Vec<u8>, notes: &Notes) -> Self {
        let total_bytes = bytes.len() as u64;
        let truncated = !notes.0.is_empty();
        if truncated {
            append_mark(&mut bytes, &notes.0.join("; "));
        }
        Self { bytes, truncated, total_bytes }
    }
}

/// Adds a line in brackets.
fn append_mark(bytes: &mut Vec<u8>, text: &str) {
    if bytes.last().is_some_and(|last| *last != b'\n') {
        bytes.push(b'\n');
    }
    bytes.extend_from_slice(format!("[{text}]\n").as_bytes());
}

/// What an answer leaves out, in words.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn add(&mut self, text: impl Into<String>) {
        self.0.push(text.into());
    }

    /// Adds `COUNT THINGS` if there are any.
    fn count(&mut self, count: usize, things: &str) {
        if count > 0 {
            self.add(format!("{count} {things}"));
        }
    }

    fn walk(&mut self, summary: WalkSummary) {
        if summary.truncated {
            self.add("the tree has too many entries; the rest was not visited");
        }
        self.count(summary.skipped_directories, "directories not entered (too deep or too large)");
        self.count(summary.unnameable, "names left out that no path can spell");
    }
}

/// Whether policy lets the caller see a path that a search or a listing came across: syscall and
/// real path. Without this, a rule against reading one file would be void, because a search of its
/// directory shows what is in it.
pub type Permit<'a> = &'a dyn Fn(&str, &CanonicalPath) -> bool;

/// Answers `fs.read`, `fs.list`, `fs.exists`, `search.grep` or `search.glob`.
///
/// `resolved` is the path that policy decided on, from [`Arguments::target`]; without it the target
/// is resolved here. `permit` is asked for every entry of a listing and every file of a search
/// (a file's content needs `fs.read` as well); what it refuses is left out and counted.
///
/// # Errors
/// Those of [`View::resolve`] and of reading; `not_utf8` with the `offset` of the first bad byte,
/// `file_too_large`, `line_out_of_range`, `invalid_pattern`; `invalid_arguments` for a tool that is
/// not answered in process.
pub fn read_tool(
    view: &View,
    arguments: &Arguments,
    resolved: Option<&ResolvedPath>,
    permit: Permit<'_>,
) -> Result<Output> {
    let own;
    let at = match (resolved, arguments.target()) {
        (Some(resolved), _) => resolved,
        (None, Some((text, intent))) => {
            own = view.resolve(text, intent)?;
            &own
        }
        (None, None) => return Err(not_in_process()),
    };
    match arguments {
        Arguments::FsRead { offset_line, limit_lines, .. } => {
            read_lines(at, offset_line.unwrap_or(1), *limit_lines)
        }
        Arguments::FsList { recursive, .. } => list(view, at, *recursive, permit),
        Arguments::FsExists { .. } => {
            Ok(Output::of_lines(format!("{}\n", at.exists()).into_bytes(), &Notes::default()))
        }
        Arguments::SearchGrep { pattern, glob, .. } => {
            search::grep(view, at, pattern, glob.as_deref(), permit)
        }
        Arguments::SearchGlob { pattern, .. } => search::glob(view, at, pattern, permit),
        _ => Err(not_in_process()),
    }
}

fn not_in_process() -> Error {
    Error::new(codes::INVALID_ARGUMENTS, "this tool is not answered in process")
        .fix("send it to the sandbox")
}

/// Some lines of a text file, at most [`MAX_OUTPUT_BYTES`] of them.
fn read_lines(at: &ResolvedPath, offset_line: u32, limit_lines: Option<u32>) -> Result<Output> {
    let path = at.canonical();
    let file = at.read(MAX_FILE_BYTES)?;
    if file.is_cut() {
        return Err(Error::new(codes::FILE_TOO_LARGE, format!("`{path}` is too large to read"))
            .why(format!("{} bytes; the limit is {MAX_FILE_BYTES}", file.total_bytes))
            .with("path", path.as_str())
            .with("total_bytes", file.total_bytes));
    }
    let text = std::str::from_utf8(&file.bytes).map_err(|error| {
        Error::new(codes::NOT_UTF8, format!("`{path}` is not UTF-8 text"))
            .why(format!("byte {} begins no valid character", error.valid_up_to()))
            .with("path", path.as_str())
            .with("offset", error.valid_up_to())
            .with("total_bytes", file.total_bytes)
            .with("digest", Digest::of(&file.bytes).to_string())
    })?;
    let from = start_of_line(text, offset_line).ok_or_else(|| {
        let lines = text.lines().count();
        Error::new(codes::LINE_OUT_OF_RANGE, format!("`{path}` has no line {offset_line}"))
            .why(format!("it has {lines} lines"))
            .with("path", path.as_str())
            .with("lines", lines)
    })?;
    let wanted = &text[from..];
    let end = limit_lines.and_then(|limit| start_of_line(wanted, limit.saturating_add(1)));
    let wanted = &wanted[..end.unwrap_or(wanted.len())];
    let shown = cut_at_line(wanted);
    let mut bytes = shown.as_bytes().to_vec();
    let truncated = shown.len() < text.len();
    if shown.len() < wanted.len() {
        let next = offset_line as usize + shown.matches('\n').count();
        let cut = wanted.len() - shown.len();
        append_mark(
            &mut bytes,
            &format!(
                "truncated: {cut} of {} bytes left out; go on with offset_line {next}",
                text.len()
            ),
        );
    }
    Ok(Output { bytes, truncated, total_bytes: file.total_bytes })
}

/// Where a line starts, lines counted from 1; `None` behind the last one. An empty text has one
/// line.
fn start_of_line(text: &str, line: u32) -> Option<usize> {
    let Some(breaks_before) = (line as usize).checked_sub(2) else { return Some(0) };
    let start = text.match_indices('\n').nth(breaks_before)?.0 + 1;
    (start < text.len()).then_some(start)
}

/// The longest prefix of whole lines that fits an answer; of a single long line, what fits.
fn cut_at_line(text: &str) -> &str {
    if text.len() <= MAX_OUTPUT_BYTES {
        return text;
    }
    let head = &text[..text.floor_char_boundary(MAX_OUTPUT_BYTES)];
    head.rfind('\n').map_or(head, |end| &head[..=end])
}

fn list(view: &View, at: &ResolvedPath, recursive: bool, permit: Permit<'_>) -> Result<Output> {
    let listing = view.list(at, recursive, MAX_LIST_ENTRIES)?;
    let mut text = String::new();
    let mut withheld = 0;
    for (path, kind) in &listing.entries {
        if !permit(glasshouse_model::syscall::name::FS_LIST, path) {
            withheld += 1;
            continue;
        }
        let suffix = match kind {
            Kind::Directory => "/",
            Kind::Link => " (link)",
            Kind::Special => " (special)",
            Kind::File | Kind::Absent => "",
        };
        text.push_str(&format!("{path}{suffix}\n"));
    }
    let mut notes = Notes::default();
    if listing.truncated {
        notes.add(format!("more than {MAX_LIST_ENTRIES} entries; list a subdirectory"));
    }
    notes.count(withheld, "entries withheld by policy");
    notes.walk(listing.summary);
    Ok(Output::of_lines(text.into_bytes(), &notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_start_where_they_start() {
        let check = |text: &str, line: u32, expected: Option<usize>| {
            assert_eq!(start_of_line(text, line), expected, "{text:?} {line}");
        };
        check("", 1, Some(0));
        check("", 2, None);
        check("a", 1, Some(0));
        check("a\n", 2, None);
        check("a\nb", 2, Some(2));
        check("a\n\nb", 2, Some(2));
        check("a\n\nb", 3, Some(3));
        check("a\nb", u32::MAX, None);
    }
}
