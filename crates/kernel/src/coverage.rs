//! Reports of coverage that a test run leaves: lcov, and the JSON of istanbul.
//!
//! A report is written by programs that the agent may have written. It is read from a regular file beneath
//! the workspace, up to a limit, and only lines of sources that are there count; what it says is told and
//! measured, and gives no right.

use std::collections::BTreeMap;

use glasshouse_model::CanonicalPath;
use serde::Deserialize;

/// Largest report, in bytes.
pub const MAX_REPORT_BYTES: usize = 16 << 20;
/// Most files that a report may name.
const MAX_FILES: usize = 50_000;
/// Largest number of a line that counts; more is no source.
const MAX_LINE: u32 = 1_000_000;
/// Where reports are looked for when the project's configuration names none.
pub const REPORTS: [&str; 5] = [
    "lcov.info",
    "coverage/lcov.info",
    "coverage/coverage-final.json",
    "target/lcov.info",
    "target/coverage/lcov.info",
];

/// Lines that can run, and those that ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lines {
    /// Lines that can run.
    pub all: u64,
    /// Lines that ran.
    pub covered: u64,
}

/// By file: whether each line ran.
type Ran = BTreeMap<CanonicalPath, BTreeMap<u32, bool>>;

/// Reads a report in either form.
///
/// `roots` are the directories under which absolute paths are the workspace's; `is_source` tells which
/// files count, and `lines_of` how many lines such a file has: a line that it does not have counts for nothing,
/// covered or not.
///
/// # Errors
/// In words: what is wrong with it.
pub fn read_report(
    bytes: &[u8],
    roots: &[&str],
    is_source: &dyn Fn(&CanonicalPath) -> bool,
    lines_of: &dyn Fn(&CanonicalPath) -> u32,
) -> Result<Lines, String> {
    if bytes.len() > MAX_REPORT_BYTES {
        return Err(format!("it has more than {MAX_REPORT_BYTES} bytes"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "it is no UTF-8 text".to_owned())?;
    let locate = |name: &str| in_workspace(name, roots).filter(|path| is_source(path));
    let ran = match text.trim_start().starts_with('{') {
        true => istanbul(text, &locate)?,
        false => lcov(text, &locate)?,
    };
    let mut found = Lines::default();
    for (file, lines) in &ran {
        for ran in lines.range(..=lines_of(file)).map(|(_, ran)| ran) {
            found.all += 1;
            found.covered += u64::from(*ran);
        }
    }
    if found.all == 0 {
        return Err("it names no line of a source of this project".to_owned());
    }
    Ok(found)
}

/// Lines of a text.
#[must_use]
pub fn count_lines(text: &[u8]) -> u32 {
    let ends = text.iter().filter(|byte| **byte == b'\n').count();
    let is_open = text.last().is_some_and(|last| *last != b'\n');
    u32::try_from(ends + usize::from(is_open)).unwrap_or(u32::MAX)
}

/// A file's name in the workspace, if it is there.
fn in_workspace(name: &str, roots: &[&str]) -> Option<CanonicalPath> {
    let name = match name.starts_with('/') {
        true => roots.iter().find_map(|root| name.strip_prefix(root)?.strip_prefix('/'))?,
        false => name,
    };
    CanonicalPath::parse(name).ok()
}

fn hit(ran: &mut Ran, file: &CanonicalPath, line: u32, is_hit: bool) -> Result<(), String> {
    if line == 0 || line > MAX_LINE {
        return Err(format!("`{file}` has no line {line}"));
    }
    if !ran.contains_key(file) {
        if ran.len() >= MAX_FILES {
            return Err(format!("it names more than {MAX_FILES} files"));
        }
        ran.insert(file.clone(), BTreeMap::new());
    }
    if let Some(lines) = ran.get_mut(file) {
        *lines.entry(line).or_default() |= is_hit;
    }
    Ok(())
}

/// `SF:` begins a file, `DA:line,hits` are its lines, `end_of_record` ends it. Other records are sums and
/// parts of these.
fn lcov(text: &str, locate: &dyn Fn(&str) -> Option<CanonicalPath>) -> Result<Ran, String> {
    let mut ran = Ran::new();
    let (mut is_open, mut file) = (false, None);
    for (at, record) in text.lines().enumerate() {
        let wrong = |what: &str| format!("line {}: {what}", at + 1);
        match record.trim_end().split_once(':') {
            Some(("SF", name)) => (is_open, file) = (true, locate(name)),
            Some(("DA", rest)) => {
                if !is_open {
                    return Err(wrong("a line of no file"));
                }
                let mut parts = rest.split(',');
                let line = parts.next().and_then(|line| line.parse().ok());
                // Some tools write counts that are negative or have a fraction; none of them is zero.
                let hits = parts.next().filter(|hits| hits.parse::<f64>().is_ok());
                let (Some(line), Some(hits)) = (line, hits) else {
                    return Err(wrong("expected DA:LINE,COUNT"));
                };
                if let Some(file) = &file {
                    let is_hit = hits.parse::<f64>().is_ok_and(|hits| hits > 0.0);
                    hit(&mut ran, file, line, is_hit).map_err(|why| wrong(&why))?;
                }
            }
            None if record.trim() == "end_of_record" => (is_open, file) = (false, None),
            None if record.trim().is_empty() => {}
            None => return Err(wrong("this is no record of lcov")),
            Some(_) => {}
        }
    }
    if is_open { Err("it ends within a record".to_owned()) } else { Ok(ran) }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct IstanbulFile {
    statement_map: BTreeMap<String, Range>,
    s: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Range {
    start: Position,
}

#[derive(Deserialize)]
struct Position {
    line: u32,
}

/// One object of files; a line ran when a statement that begins on it did.
fn istanbul(text: &str, locate: &dyn Fn(&str) -> Option<CanonicalPath>) -> Result<Ran, String> {
    let files: BTreeMap<String, IstanbulFile> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut ran = Ran::new();
    for (name, report) in &files {
        let Some(file) = locate(name) else { continue };
        for (statement, range) in &report.statement_map {
            let count = report.s.get(statement).copied().unwrap_or(0);
            hit(&mut ran, &file, range.start.line, count > 0)?;
        }
    }
    Ok(ran)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOTS: [&str; 2] = ["/workspace", "/home/u/project"];

    fn read(text: &[u8]) -> Result<(u64, u64), String> {
        let is_source = |path: &CanonicalPath| ["src/a.js", "src/b.js"].contains(&path.as_str());
        read_report(text, &ROOTS, &is_source, &|_| 9).map(|lines| (lines.covered, lines.all))
    }

    #[test]
    fn reports_of_lcov() {
        let check = |text: &str, expected: Result<(u64, u64), &str>| match (
            read(text.as_bytes()),
            expected,
        ) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
            (Err(found), Err(why)) => assert!(found.contains(why), "{text}: {found}"),
            (found, expected) => panic!("{text}: {found:?} for {expected:?}"),
        };
        let one =
            "TN:t\nSF:src/a.js\nFN:1,f\nDA:1,2\nDA:2,0\nDA:3,1,c2ln\nLF:3\nLH:2\nend_of_record\n";
        check(one, Ok((2, 3)));
        // Two runs of one file: a line ran if it ran in either.
        check(&one.replace("DA:2,0", "DA:2,5").repeat(2), Ok((3, 3)));
        check(&(one.to_owned() + &one.replace("DA:2,0", "DA:2,5")), Ok((3, 3)));
        for name in
            ["/workspace/src/a.js", "./src/a.js", "/home/u/project/src/a.js", "x/../src/a.js"]
        {
            check(&one.replace("src/a.js", name), Ok((2, 3)));
        }
        // What lies outside, looks like the workspace, or is no source counts for nothing.
        for name in [
            "/etc/passwd",
            "/workspaces/src/a.js",
            "../src/a.js",
            "/src/a.js",
            "tests/t.js",
            "src/c.js",
            "",
        ] {
            let foreign = one.replace("src/a.js", name);
            check(&foreign, Err("names no line of a source"));
            check(&(foreign + one), Ok((2, 3)));
        }
        check(&one.replace('\n', "\r\n"), Ok((2, 3)));
        check("SF:src/a.js\nDA:1,-3\nDA:2,1e3\nend_of_record", Ok((1, 2)));
        check("", Err("names no line"));
        check("DA:1,1\n", Err("line 1: a line of no file"));
        check("SF:src/a.js\nDA:1\nend_of_record", Err("line 2: expected DA:LINE,COUNT"));
        check("SF:src/a.js\nDA:x,1\nend_of_record", Err("line 2: expected"));
        check("SF:src/a.js\nDA:0,1\nend_of_record", Err("no line 0"));
        check("SF:src/a.js\nDA:4294967295,1\nend_of_record", Err("no line 4294967295"));
        check("SF:src/a.js\nDA:1,1\n", Err("ends within a record"));
        check("<html>\n", Err("line 1: this is no record"));
    }

    #[test]
    fn reports_of_istanbul() {
        let file = |name: &str| {
            format!(
                r#"{{"{name}":{{"path":"{name}","statementMap":{{"0":{{"start":{{"line":1,"column":0}},"end":{{"line":1}}}},"1":{{"start":{{"line":2}}}},"2":{{"start":{{"line":2}}}},"3":{{"start":{{"line":9}}}}}},"s":{{"0":1,"1":0,"2":4}},"branchMap":{{}}}}}}"#
            )
        };
        assert_eq!(read(file("/workspace/src/a.js").as_bytes()), Ok((2, 3)));
        assert_eq!(read(file("src/b.js").as_bytes()), Ok((2, 3)));
        for text in
            [file("/other/src/a.js"), "{}".to_owned(), "{".to_owned(), "{\"a\":1}".to_owned()]
        {
            read(text.as_bytes()).unwrap_err();
        }
        read(&[b'['; 100_000]).unwrap_err();
        let deep = format!("{{\"src/a.js\":{}", "[".repeat(100_000));
        assert!(read(deep.as_bytes()).unwrap_err().contains("line 1"));
    }

    /// The failure: a million lines of a file with one counted, and covered ones hid what was owed.
    #[test]
    fn lines_that_a_file_does_not_have_count_for_nothing() {
        let check = |text: &[u8], records: &str, expected: Option<(u64, u64)>| {
            let report = format!("SF:src/a.js\n{records}end_of_record\n");
            let lines = |_: &CanonicalPath| count_lines(text);
            let found = read_report(report.as_bytes(), &ROOTS, &|_| true, &lines);
            assert_eq!(found.ok().map(|lines| (lines.covered, lines.all)), expected, "{records}");
        };
        let many: String = (1..=10_000).map(|line| format!("DA:{line},1\n")).collect();
        check(b"one\n", &many, Some((1, 1)));
        check(b"one\ntwo", &many, Some((2, 2)));
        check(b"one\n\n", &many, Some((2, 2)));
        check(b"one\n", "DA:1,0\nDA:2,1\n", Some((0, 1)));
        check(b"one\n", "DA:2,1\n", None);
        check(b"", &many, None);
    }

    #[test]
    fn a_report_is_bounded() {
        assert!(read(b"\xff\xfe").unwrap_err().contains("UTF-8"));
        let large = vec![b'\n'; MAX_REPORT_BYTES + 1];
        assert!(read(&large).unwrap_err().contains("more than"));
        let any = |_: &CanonicalPath| true;
        let files = |count: usize| {
            let text: String =
                (0..count).map(|n| format!("SF:{n}\nDA:1,1\nend_of_record\n")).collect();
            read_report(text.as_bytes(), &ROOTS, &any, &|_| 1)
        };
        assert_eq!(files(MAX_FILES).unwrap().all, MAX_FILES as u64);
        assert!(files(MAX_FILES + 1).unwrap_err().contains("files"));
    }
}
