//! The read-only tools on a real directory.

use std::fs;
use std::path::Path;

use glasshouse_model::{CanonicalPath, Digest, Report};
use glasshouse_sandbox::view::View;
use glasshouse_tools::{
    MAX_FILE_BYTES, MAX_GREP_MATCHES, MAX_LIST_ENTRIES, MAX_OUTPUT_BYTES, Output, parse_arguments,
    read_tool,
};
use serde_json::json;

fn directory(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    dir
}

fn call_where(
    dir: &Path,
    tool: &str,
    arguments: &serde_json::Value,
    permit: &dyn Fn(&str, &CanonicalPath) -> bool,
) -> Result<Output, Box<Report>> {
    let view = View::new(fs::File::open(dir).unwrap().into()).unwrap();
    let arguments = parse_arguments(tool, &arguments.to_string()).unwrap();
    read_tool(&view, &arguments, None, permit).map_err(|error| Box::new(error.report()))
}

fn call(dir: &Path, tool: &str, arguments: &serde_json::Value) -> Result<Output, Box<Report>> {
    call_where(dir, tool, arguments, &|_, _| true)
}

fn text(dir: &Path, tool: &str, arguments: &serde_json::Value) -> String {
    String::from_utf8(call(dir, tool, arguments).unwrap().bytes).unwrap()
}

#[test]
fn files_are_read_by_line() {
    let dir = directory(&[("f", b"1\n2\n3\n4\n"), ("crlf", b"a\r\nb\r\n"), ("empty", b"")]);
    let check = |arguments: serde_json::Value, expected: &str, truncated: bool| {
        let output = call(dir.path(), "fs.read", &arguments).unwrap();
        assert_eq!(output.bytes, expected.as_bytes(), "{arguments}");
        assert_eq!(output.truncated, truncated, "{arguments}");
    };
    check(json!({"path": "f"}), "1\n2\n3\n4\n", false);
    check(json!({"path": "f", "offset_line": 3}), "3\n4\n", true);
    check(json!({"path": "f", "limit_lines": 2}), "1\n2\n", true);
    check(json!({"path": "f", "offset_line": 2, "limit_lines": 2}), "2\n3\n", true);
    check(json!({"path": "f", "offset_line": 4, "limit_lines": 9}), "4\n", true);
    check(json!({"path": "crlf"}), "a\r\nb\r\n", false);
    check(json!({"path": "empty"}), "", false);
    let report = call(dir.path(), "fs.read", &json!({"path": "f", "offset_line": 5})).unwrap_err();
    assert_eq!((report.code.as_str(), &report.context["lines"]), ("line_out_of_range", &json!(4)));
}

#[test]
fn long_files_are_cut_at_a_line_and_go_on_there() {
    let line = "x".repeat(99) + "\n";
    let content = line.repeat(1200);
    let dir = directory(&[("f", content.as_bytes())]);
    let (mut joined, mut next, mut rounds) = (String::new(), 1, 0);
    loop {
        let output =
            call(dir.path(), "fs.read", &json!({"path": "f", "offset_line": next})).unwrap();
        assert_eq!(output.total_bytes, content.len() as u64);
        let text = String::from_utf8(output.bytes).unwrap();
        rounds += 1;
        let Some((shown, mark)) = text.split_once('[') else {
            joined.push_str(&text);
            break;
        };
        assert!(shown.len() <= MAX_OUTPUT_BYTES && output.truncated);
        joined.push_str(shown);
        let number = mark.trim_end().trim_end_matches(']').rsplit(' ').next().unwrap();
        next = number.parse().unwrap();
    }
    assert_eq!((joined == content, rounds), (true, 3));
}

/// Case H1 for files: one long line whose cut falls inside a character.
#[test]
fn a_long_line_is_cut_between_characters() {
    let content = "a".repeat(MAX_OUTPUT_BYTES - 1) + &"─".repeat(10);
    let dir = directory(&[("f", content.as_bytes())]);
    let seen = text(dir.path(), "fs.read", &json!({"path": "f"}));
    assert!(seen.starts_with("aaaa") && seen.contains("[truncated: 30 of"), "{}", seen.len());
}

/// Case H4: the file is there, its bytes are as they were, and the error says where it breaks.
#[test]
fn h4_a_file_that_is_not_utf8_is_named_and_untouched() {
    let bytes = b"caf\xe9 au lait";
    let dir = directory(&[("latin", bytes)]);
    let report = call(dir.path(), "fs.read", &json!({"path": "latin"})).unwrap_err();
    assert_eq!(report.code, "not_utf8");
    assert_eq!(report.context["offset"], 3);
    assert_eq!(report.context["digest"], Digest::of(bytes).to_string());
    assert_eq!(fs::read(dir.path().join("latin")).unwrap(), bytes);
    assert_eq!(text(dir.path(), "fs.exists", &json!({"path": "latin"})), "true\n");
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let dir = directory(&[]);
    let file = fs::File::create(dir.path().join("big")).unwrap();
    file.set_len(MAX_FILE_BYTES as u64 + 1).unwrap();
    let report = call(dir.path(), "fs.read", &json!({"path": "big"})).unwrap_err();
    assert_eq!(report.code, "file_too_large");
}

#[test]
fn directories_are_listed() {
    let dir = directory(&[("b/c", b""), ("a", b""), ("b/d/e", b""), (".git/HEAD", b"")]);
    std::os::unix::fs::symlink("/etc", dir.path().join("l")).unwrap();
    let list = |arguments| text(dir.path(), "fs.list", &arguments);
    assert_eq!(list(json!({"path": "."})), "a\nb/\nl (link)\n");
    assert_eq!(list(json!({"path": "b", "recursive": true})), "b/c\nb/d/\nb/d/e\n");
    assert_eq!(
        call(dir.path(), "fs.list", &json!({"path": "a"})).unwrap_err().code,
        "not_a_directory"
    );

    for i in 0..=MAX_LIST_ENTRIES {
        fs::write(dir.path().join(format!("b/{i:05}")), "").unwrap();
    }
    let listed = list(json!({"path": "b"}));
    assert_eq!(listed.lines().count(), MAX_LIST_ENTRIES + 1);
    assert!(listed.ends_with("list a subdirectory]\n"));
}

#[test]
fn existence_is_true_or_false() {
    let dir = directory(&[("a/b", b"")]);
    let check = |path: &str, expected: &str| {
        assert_eq!(text(dir.path(), "fs.exists", &json!({"path": path})), expected, "{path}");
    };
    check("a", "true\n");
    check("a/b", "true\n");
    check("a/c", "false\n");
    check("a/b/c", "false\n");
    let report = call(dir.path(), "fs.exists", &json!({"path": "../a"})).unwrap_err();
    assert_eq!(report.code, "path_outside_workspace");
}

#[test]
fn contents_are_searched() {
    let dir = directory(&[
        ("src/a.rs", b"fn one() {}\r\nfn two() {}\n"),
        ("src/b.txt", b"fn three\n"),
        ("src/binary", b"fn \0 four"),
        ("latin", b"fn caf\xe9\n"),
        ("z.rs", b"nothing"),
        (".git/config", b"fn hidden"),
    ]);
    let grep = |arguments| call(dir.path(), "search.grep", &arguments).unwrap().bytes;
    let check = |arguments: serde_json::Value, expected: &str| {
        assert_eq!(String::from_utf8_lossy(&grep(arguments.clone())), expected, "{arguments}");
    };
    check(
        json!({"pattern": "^fn \\w+\\(\\) \\{\\}$", "glob": "*.rs"}),
        "src/a.rs:1:fn one() {}\nsrc/a.rs:2:fn two() {}\n",
    );
    check(
        json!({"pattern": "fn t", "path": "src"}),
        "src/a.rs:2:fn two() {}\nsrc/b.txt:1:fn three\n[1 binary files skipped: src/binary]\n",
    );
    check(json!({"pattern": "fn t", "path": "src", "glob": "b.*"}), "src/b.txt:1:fn three\n");
    check(json!({"pattern": "t", "path": "src/b.txt"}), "src/b.txt:1:fn three\n");
    check(json!({"pattern": "t", "path": "src/b.txt", "glob": "*.rs"}), "");
    check(
        json!({"pattern": "(?i)NOTHING"}),
        "z.rs:1:nothing\n[1 binary files skipped: src/binary]\n",
    );
    check(json!({"pattern": "zzz", "glob": "*.rs"}), "");
    assert_eq!(grep(json!({"pattern": "caf", "path": "latin"})), b"latin:1:fn caf\xe9\n");

    let report = call(dir.path(), "search.grep", &json!({"pattern": "a("})).unwrap_err();
    assert_eq!(report.code, "invalid_pattern");
    assert!(report.why.contains("unclosed group"), "{}", report.why);
    let report =
        call(dir.path(), "search.grep", &json!({"pattern": "(a{1000}){1000}"})).unwrap_err();
    assert_eq!(report.code, "invalid_pattern");
    let report =
        call(dir.path(), "search.grep", &json!({"pattern": "a", "path": "none"})).unwrap_err();
    assert_eq!(report.code, "path_not_found");
}

#[test]
fn searches_are_bounded() {
    let long = "─".repeat(1000) + "\n";
    let dir = directory(&[
        ("many", "x\n".repeat(MAX_GREP_MATCHES + 1).as_bytes()),
        ("long", long.as_bytes()),
    ]);
    let seen = text(dir.path(), "search.grep", &json!({"pattern": "x", "path": "many"}));
    assert_eq!(seen.lines().count(), MAX_GREP_MATCHES + 1);
    assert!(seen.contains("[stopped after 1000 matches"));
    let seen = text(dir.path(), "search.grep", &json!({"pattern": "─", "path": "long"}));
    assert!(seen.ends_with("─…\n") && seen.len() < 600, "{}", seen.len());
}

#[test]
fn names_are_searched() {
    let dir =
        directory(&[("a.rs", b""), ("src/b.rs", b""), ("src/d/c.rs", b""), ("src/x.txt", b"")]);
    let check = |arguments: serde_json::Value, expected: &str| {
        assert_eq!(text(dir.path(), "search.glob", &arguments), expected, "{arguments}");
    };
    check(json!({"pattern": "*.rs"}), "a.rs\nsrc/b.rs\nsrc/d/c.rs\n");
    check(json!({"pattern": "./*.rs"}), "a.rs\n");
    check(json!({"pattern": "src/*.rs"}), "src/b.rs\n");
    check(json!({"pattern": "src/**/*.{rs,txt}"}), "src/b.rs\nsrc/d/c.rs\nsrc/x.txt\n");
    check(json!({"pattern": "d/*", "path": "src"}), "src/d/c.rs\n");
    check(json!({"pattern": "[ab].rs"}), "a.rs\nsrc/b.rs\n");
    check(json!({"pattern": "none"}), "");
    let report = call(dir.path(), "search.glob", &json!({"pattern": "a[/b"})).unwrap_err();
    assert_eq!(report.code, "invalid_pattern");
}

/// A rule against reading a file holds for every tool that would show it; the control is the same
/// search without the rule.
#[test]
fn what_policy_withholds_is_not_shown() {
    let dir = directory(&[("a", b"key=1\n"), ("secrets/b", b"key=2\n"), ("link", b"")]);
    fs::remove_file(dir.path().join("link")).unwrap();
    std::os::unix::fs::symlink("secrets/b", dir.path().join("link")).unwrap();
    let permit = |syscall: &str, path: &CanonicalPath| {
        syscall != "fs.read" || !path.as_str().starts_with("secrets/")
    };
    let search = json!({"pattern": "key"});
    assert!(text(dir.path(), "search.grep", &search).contains("key=2"), "control");
    let seen = call_where(dir.path(), "search.grep", &search, &permit).unwrap();
    assert_eq!(seen.bytes, b"a:1:key=1\n[1 files withheld by policy]\n");
    assert!(seen.truncated);
    for path in ["secrets/b", "link"] {
        let search = json!({"pattern": "key", "path": path});
        let seen = call_where(dir.path(), "search.grep", &search, &permit).unwrap();
        assert_eq!(seen.bytes, b"[1 files withheld by policy]\n", "{path}");
    }
    let nothing = |_: &str, _: &CanonicalPath| false;
    for (tool, arguments) in [
        ("fs.list", json!({"path": ".", "recursive": true})),
        ("search.glob", json!({"pattern": "*"})),
    ] {
        let seen = call_where(dir.path(), tool, &arguments, &nothing).unwrap();
        let seen = String::from_utf8(seen.bytes).unwrap();
        assert!(seen.starts_with('[') && seen.contains("withheld by policy"), "{seen}");
    }
}

#[test]
fn only_read_tools_are_answered_here() {
    let dir = directory(&[]);
    for (tool, arguments) in [
        ("fs.write", json!({"path": "a", "content": ""})),
        ("shell.run", json!({"argv": ["true"]})),
        ("git.diff", json!({})),
    ] {
        assert_eq!(call(dir.path(), tool, &arguments).unwrap_err().code, "invalid_arguments");
    }
}
