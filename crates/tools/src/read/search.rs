//! `search.grep` and `search.glob`.

use glasshouse_model::CanonicalPath;
use glasshouse_model::syscall::name::{FS_READ, SEARCH_GLOB, SEARCH_GREP};
use glasshouse_sandbox::view::{FileBytes, Kind, ResolvedPath, View};
use globset::{GlobBuilder, GlobMatcher};
use regex::bytes::{Regex, RegexBuilder};

use super::{MAX_FILE_BYTES, MAX_LIST_ENTRIES, MAX_OUTPUT_BYTES, Notes, Output, Permit};
use crate::codes;
use crate::error::{Error, Result};

/// Most lines that one search shows.
pub const MAX_GREP_MATCHES: usize = 1_000;
/// Most bytes of files that one search looks at; at the speed of a line-wise search this is about
/// a second.
pub const MAX_GREP_TOTAL_BYTES: usize = 256 << 20;
/// Most bytes that are shown of one line; minified files have lines of megabytes.
pub const MAX_LINE_BYTES: usize = 500;
/// Memory for a compiled pattern: counted repetitions can ask for gigabytes.
const MAX_REGEX_BYTES: usize = 4 << 20;
/// Bytes at a file's start that decide whether it is binary, by a NUL among them.
const BINARY_PROBE_BYTES: usize = 8 << 10;
/// Most skipped binary files that are named.
const MAX_BINARY_NAMED: usize = 5;

pub(super) fn grep(
    view: &View,
    at: &ResolvedPath,
    pattern: &str,
    glob: Option<&str>,
    permit: Permit<'_>,
) -> Result<Output> {
    let regex = RegexBuilder::new(pattern)
        .size_limit(MAX_REGEX_BYTES)
        .dfa_size_limit(MAX_REGEX_BYTES)
        .build()
        .map_err(|error| {
            let parsed = regex_syntax::Parser::new().parse(pattern);
            let why = parsed
                .map_or_else(|fault| crate::sanitise::regex_fault(&fault), |_| error.to_string());
            invalid_pattern("regular expression", pattern, &why)
        })?;
    let mut search = Grep {
        regex,
        glob: glob.map(compile_glob).transpose()?,
        base: directory_of(at),
        permit,
        text: Vec::new(),
        matches: 0,
        budget_bytes: MAX_GREP_TOTAL_BYTES,
        full: false,
        withheld: 0,
        unread: 0,
        large: 0,
        binary: Vec::new(),
    };
    let mut notes = Notes::default();
    if at.kind() == Kind::Directory {
        let summary = view.walk(at, &mut |entry| {
            if entry.kind() == Kind::File && search.wants(entry.path()) {
                search.file(entry.path(), entry.read(MAX_FILE_BYTES));
            }
            !search.full
        })?;
        notes.walk(summary);
    } else {
        let bytes = at.read(MAX_FILE_BYTES)?;
        if search.wants(at.canonical()) {
            search.file(at.canonical(), Ok(bytes));
        }
    }
    Ok(search.finish(notes))
}

/// A search under way.
struct Grep<'a> {
    regex: Regex,
    glob: Option<GlobMatcher>,
    base: CanonicalPath,
    permit: Permit<'a>,
    text: Vec<u8>,
    matches: usize,
    budget_bytes: usize,
    full: bool,
    withheld: usize,
    unread: usize,
    large: usize,
    binary: Vec<CanonicalPath>,
}

impl Grep<'_> {
    fn wants(&mut self, path: &CanonicalPath) -> bool {
        if self.glob.as_ref().is_some_and(|glob| !glob.is_match(below(path, &self.base))) {
            return false;
        }
        let permitted = (self.permit)(SEARCH_GREP, path) && (self.permit)(FS_READ, path);
        self.withheld += usize::from(!permitted);
        permitted
    }

    fn file(&mut self, path: &CanonicalPath, read: glasshouse_sandbox::error::Result<FileBytes>) {
        let Ok(file) = read else {
            self.unread += 1;
            return;
        };
        if file.bytes[..file.bytes.len().min(BINARY_PROBE_BYTES)].contains(&0) {
            self.binary.push(path.clone());
            return;
        }
        if file.is_cut() {
            self.large += 1;
            return;
        }
        let Some(left) = self.budget_bytes.checked_sub(file.bytes.len()) else {
            self.full = true;
            return;
        };
        self.budget_bytes = left;
        let lines = file.bytes.strip_suffix(b"\n").unwrap_or(&file.bytes);
        for (index, line) in lines.split(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if self.regex.is_match(line) && !self.found(path, index + 1, line) {
                return;
            }
        }
    }

    /// Adds a line that matches; `false` if there is no room.
    fn found(&mut self, path: &CanonicalPath, number: usize, line: &[u8]) -> bool {
        let mut entry = format!("{path}:{number}:").into_bytes();
        entry.extend_from_slice(cut_line(line));
        if cut_line(line).len() < line.len() {
            entry.extend_from_slice("…".as_bytes());
        }
        entry.push(b'\n');
        if self.matches == MAX_GREP_MATCHES || self.text.len() + entry.len() > MAX_OUTPUT_BYTES {
            self.full = true;
            return false;
        }
        self.matches += 1;
        self.text.extend_from_slice(&entry);
        true
    }

    fn finish(self, mut notes: Notes) -> Output {
        if self.full {
            notes.add(format!(
                "stopped after {} matches; use a narrower pattern, path or glob",
                self.matches
            ));
        }
        if !self.binary.is_empty() {
            let named: Vec<&str> =
                self.binary.iter().take(MAX_BINARY_NAMED).map(CanonicalPath::as_str).collect();
            let more = if self.binary.len() > named.len() { ", …" } else { "" };
            let count = self.binary.len();
            notes.add(format!("{count} binary files skipped: {}{more}", named.join(", ")));
        }
        notes.count(self.large, &format!("files of more than {MAX_FILE_BYTES} bytes skipped"));
        notes.count(self.unread, "files that could not be read");
        notes.count(self.withheld, "files withheld by policy");
        Output::of_lines(self.text, &notes)
    }
}

/// The part of a line that is shown, cut between characters where it is UTF-8.
fn cut_line(line: &[u8]) -> &[u8] {
    let mut end = line.len().min(MAX_LINE_BYTES);
    while end < line.len() && end > 0 && line[end] & 0xC0 == 0x80 {
        end -= 1;
    }
    &line[..end]
}

pub(super) fn glob(
    view: &View,
    at: &ResolvedPath,
    pattern: &str,
    permit: Permit<'_>,
) -> Result<Output> {
    let glob = compile_glob(pattern)?;
    let mut paths: Vec<CanonicalPath> = Vec::new();
    let mut withheld = 0;
    let mut full = false;
    let summary = view.walk(at, &mut |entry| {
        let wanted = matches!(entry.kind(), Kind::File | Kind::Link);
        if wanted && glob.is_match(below(entry.path(), at.canonical())) {
            if !permit(SEARCH_GLOB, entry.path()) {
                withheld += 1;
            } else if paths.len() == MAX_LIST_ENTRIES {
                full = true;
            } else {
                paths.push(entry.path().clone());
            }
        }
        !full
    })?;
    let mut notes = Notes::default();
    if full {
        notes.add(format!("more than {MAX_LIST_ENTRIES} paths; use a narrower pattern"));
    }
    notes.count(withheld, "paths withheld by policy");
    notes.walk(summary);
    let text: String = paths.iter().map(|path| format!("{path}\n")).collect();
    Ok(Output::of_lines(text.into_bytes(), &notes))
}

/// The directory that a glob is relative to.
fn directory_of(at: &ResolvedPath) -> CanonicalPath {
    match at.kind() {
        Kind::Directory => at.canonical().clone(),
        _ => at.canonical().parent().unwrap_or_else(CanonicalPath::root),
    }
}

/// A path as seen from a directory above it.
fn below<'a>(path: &'a CanonicalPath, base: &CanonicalPath) -> &'a str {
    let text = path.as_str();
    if base.is_root() {
        return text;
    }
    text.strip_prefix(base.as_str()).and_then(|rest| rest.strip_prefix('/')).unwrap_or(text)
}

/// `*` and `?` stop at `/`; a pattern without `/` is looked for at any depth.
fn compile_glob(pattern: &str) -> Result<GlobMatcher> {
    let anchored = match pattern.contains('/') {
        true => pattern.trim_start_matches("./").to_owned(),
        false => format!("**/{pattern}"),
    };
    GlobBuilder::new(&anchored)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| invalid_pattern("glob", pattern, &error.kind().to_string()))
}

fn invalid_pattern(kind: &str, pattern: &str, why: &str) -> Error {
    Error::new(codes::INVALID_PATTERN, format!("the {kind} is not valid"))
        .why(why)
        .with("pattern", pattern)
}
