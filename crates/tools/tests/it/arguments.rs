//! Case G3 and its kin: what a model sends is taken as it is meant or not at all.

use glasshouse_model::Report;
use glasshouse_tools::{Arguments, MAX_ARGUMENTS_BYTES, Registry, parse_arguments};
use proptest::prelude::*;
use serde_json::json;

fn refusal(tool: &str, raw: &str) -> Report {
    let report = parse_arguments(tool, raw).unwrap_err().report();
    assert_eq!(report.code, "invalid_arguments", "{raw}");
    assert_eq!(report.context["schema"]["type"], "object", "{raw}");
    report
}

#[test]
fn broken_json_is_refused_with_its_place() {
    let check = |raw: &str, line: u64, column: u64| {
        let report = refusal("fs.read", raw);
        let place = (&report.context["line"], &report.context["column"]);
        assert_eq!(place, (&json!(line), &json!(column)), "{raw:?}");
    };
    check(r#"{"path":"a"#, 1, 10);
    check("", 1, 1);
    check(" \n ", 1, 1);
    check(r#"{"path":"a"}{"path":"b"}"#, 1, 13);
    check(r#"{"path":"a"} x"#, 1, 14);
    check(r#"{"path":"a","path":"b"}"#, 1, 18);
    check("{\"path\":\n\"a\",}", 2, 5);
    check(r#"{path:"a"}"#, 1, 2);
    check("```json\n{}\n```", 1, 1);
}

#[test]
fn arguments_that_do_not_fit_are_refused_with_a_pointer() {
    let check = |tool: &str, raw: &str, pointer: &str, why: &str| {
        let report = refusal(tool, raw);
        assert_eq!(report.context["pointer"], pointer, "{raw}");
        assert!(report.why.contains(why), "{raw}: {}", report.why);
    };
    check("fs.read", "[]", "", "expected an object, found a list");
    check("fs.read", "null", "", "found null");
    check("fs.read", r#""path""#, "", "found a text");
    check("fs.read", "{}", "", "`path` is missing");
    check("fs.read", r#"{"path":null}"#, "/path", "expected a text, found null");
    check("fs.read", r#"{"path":1}"#, "/path", "expected a text, found a number");
    check("fs.read", r#"{"path":["a"]}"#, "/path", "found a list");
    check("fs.read", r#"{"path":"a","limit":3}"#, "/limit", "fields: limit_lines, offset_line");
    check("fs.read", r#"{"path":"a","offset_line":0}"#, "/offset_line", "less than 1");
    check("fs.read", r#"{"path":"a","offset_line":-1}"#, "/offset_line", "whole number");
    check("fs.read", r#"{"path":"a","offset_line":1.5}"#, "/offset_line", "whole number");
    check("fs.read", r#"{"path":"a","offset_line":"1"}"#, "/offset_line", "found a text");
    check("fs.list", r#"{"path":"a","recursive":"yes"}"#, "/recursive", "true or false");
    check("git.diff", r#"{"a/b~c":1}"#, "/a~1b~0c", "fields: none");
    check("fs.edit", r#"{"path":"a","old":"","new":""}"#, "/old", "fewer than 1");
    check("shell.run", "{}", "", "one of `argv` and `script`");
    check("shell.run", r#"{"argv":["a"],"script":"b"}"#, "/script", "exclude");
    check("shell.run", r#"{"argv":[]}"#, "/argv", "fewer than 1 items");
    check("shell.run", r#"{"argv":["a",1]}"#, "/argv/1", "expected a text");
    check("shell.run", r#"{"argv":[""]}"#, "/argv/0", "empty");
    check("shell.run", r#"{"argv":["a","\u0000"]}"#, "", "NUL");
    check("shell.run", r#"{"script":"a","timeout_ms":99999999999}"#, "/timeout_ms", "more than");
    check("ui.render", r#"{"plan":"x"}"#, "/plan", "expected an object");
    let long = format!(r#"{{"pattern":"{}"}}"#, "x".repeat(1001));
    check("search.glob", &long, "/pattern", "more than 1000 characters");
}

#[test]
fn nothing_sent_is_an_object_only_where_nothing_is_required() {
    for tool in Registry::builtin().specs(&|_| true) {
        let requires = tool.parameters.get("required").is_some();
        let shell = tool.name == "shell.run";
        assert_eq!(parse_arguments(&tool.name, "").is_ok(), !requires && !shell, "{}", tool.name);
    }
    assert_eq!(parse_arguments("git.diff", " ").unwrap(), Arguments::GitDiff {});
}

#[test]
fn an_optional_null_is_left_out() {
    let read = parse_arguments("fs.read", r#"{"path":"a","offset_line":null,"limit_lines":2}"#);
    let expected =
        Arguments::FsRead { path: "a".to_owned(), offset_line: None, limit_lines: Some(2) };
    assert_eq!(read.unwrap(), expected);
}

#[test]
fn sizes_and_names_are_bounded() {
    let content = "x".repeat(MAX_ARGUMENTS_BYTES);
    let report = refusal("fs.write", &format!(r#"{{"path":"a","content":"{content}"}}"#));
    assert!(report.why.contains("bytes"));
    let report = parse_arguments("fs.remove", "{}").unwrap_err().report();
    assert_eq!(report.code, "tool_unknown");
    assert!(report.context["available_tools"].as_array().unwrap().contains(&json!("fs.read")));
}

proptest! {
    /// Cutting a valid text anywhere never makes another valid one.
    #[test]
    fn a_cut_text_never_parses(path in "[a-z\"\\\\{}]{0,12}", content in "\\PC{0,20}", at in 0.0..1.0) {
        let whole = json!({ "path": path, "content": content }).to_string();
        prop_assert!(parse_arguments("fs.write", &whole).is_ok());
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a fraction")]
        let cut = whole.floor_char_boundary((whole.len() as f64 * at) as usize);
        prop_assert!(parse_arguments("fs.write", &whole[..cut]).is_err());
    }

    #[test]
    fn no_text_panics(raw in "[{}\\[\\]\",:a-z0-9\\\\. -]{0,40}") {
        for spec in Registry::builtin().specs(&|_| true) {
            let _ = parse_arguments(&spec.name, &raw);
        }
    }
}
