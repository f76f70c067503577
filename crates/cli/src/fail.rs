//! How a failure ends a command: four labelled lines for people, one JSON line for programs.

use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

use serde_json::Value;

use crate::error::Error;

use crate::output;
use glasshouse_kernel::codes;

/// Tells the failure and gives the exit status it leads to.
pub(crate) fn report(error: &Error, json: bool) -> ExitCode {
    tell(error, json);
    ExitCode::from(error.exit().status())
}

/// Tells the failure.
pub(crate) fn tell(error: &Error, json: bool) {
    let report = error.report();
    if json {
        output::json_line(&serde_json::json!({ "error": report }));
    } else {
        // It may name files and repeat what a model wrote.
        let note = |line: String| output::note(&output::visible(&line, true));
        note(format!("error: {} [{}]", report.what, report.code));
        if !report.why.is_empty() {
            note(format!("  why: {}", report.why));
        }
        note(format!("  fix: {}", report.fix));
        for (key, value) in &report.context {
            facts(key, value).into_iter().for_each(&note);
        }
    }
}

/// A fact of an error, in lines for people; none where it says nothing.
fn facts(key: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) if items.iter().any(Value::is_object) => {
            let first = std::iter::once(format!("  {key}:"));
            first.chain(items.iter().map(|item| format!("    {}", in_words(item)))).collect()
        }
        value => match in_words(value) {
            told if told.is_empty() => Vec::new(),
            told => vec![format!("  {key}: {told}")],
        },
    }
}

/// A value without the signs of JSON. What is wrong with a part of an input has a code, a place, a text and a fix.
fn in_words(value: &Value) -> String {
    let list = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => list(items.iter().map(in_words).collect()),
        Value::Object(parts) if parts.contains_key("message") => {
            let part = |name: &str| parts.get(name).map(in_words).filter(|text| !text.is_empty());
            let of = |name: &str, before: &str, after: &str| {
                part(name).map_or_else(String::new, |text| format!("{before}{text}{after}"))
            };
            let mut message = part("message").unwrap_or_default();
            if let Some((line, column)) = part("line").zip(part("column")) {
                message = format!("{line}:{column}: {message}");
            }
            let (place, code) = (of("pointer", "", ": "), of("code", " [", "]"));
            format!("{place}{message}{code}{}", of("fix", "; fix: ", ""))
        }
        Value::Object(parts) => {
            list(parts.iter().map(|(name, part)| format!("{name} {}", in_words(part))).collect())
        }
        other => other.to_string(),
    }
}

/// Data that did not reach its file.
pub(crate) fn output_lost() -> Error {
    Error::new(codes::OUTPUT_LOST, "not all data was written").why("writing to stdout failed")
}

/// A file or directory that could not be made.
pub(crate) fn not_created(path: &Path, cause: &std::io::Error) -> Error {
    let what = format!("cannot write {}", path.display());
    // What a person can only mend by another name is theirs; the rest is the disk's.
    match cause.kind() {
        ErrorKind::AlreadyExists => {
            Error::new(codes::OUTPUT_EXISTS, what).why("something is there already")
        }
        ErrorKind::NotFound
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::InvalidFilename
        | ErrorKind::PermissionDenied
        | ErrorKind::ReadOnlyFilesystem => Error::new(codes::USAGE, what)
            .why(cause)
            .fix("name a place in a directory that is there and that you can write to"),
        _ => Error::new(codes::OUTPUT_LOST, what)
            .why(cause)
            .fix("free space where it is to be written, then run the command again"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{facts, not_created};

    /// The failure: people were shown the JSON of what programs read, empty lists with it.
    #[test]
    fn facts_are_told_in_words() {
        let check = |value: Value, expected: &[&str]| assert_eq!(facts("k", &value), expected);
        check(json!("s_1"), &["  k: s_1"]);
        check(json!(7), &["  k: 7"]);
        check(json!(["a", "b"]), &["  k: a, b"]);
        check(json!({ "a": 1, "b": "x" }), &["  k: a 1, b x"]);
        check(json!([]), &[]);
        check(Value::Null, &[]);
        let issue = json!({ "code": "plan_x", "pointer": "/root", "message": "no", "fix": "do" });
        check(json!([issue]), &["  k:", "    /root: no [plan_x]; fix: do"]);
        check(json!([{ "message": "no" }, { "a": [1, 2] }]), &["  k:", "    no", "    a 1, 2"]);
        // Each fault of a source has a place, not the first one only.
        let faults = [json!({ "message": "no", "line": 2, "column": 7, "code": "x" })];
        check(json!(faults), &["  k:", "    2:7: no [x]"]);
    }

    #[test]
    fn what_a_name_got_wrong_is_no_lack_of_space() {
        let check = |code: i32, expected: &str| {
            let cause = std::io::Error::from_raw_os_error(code);
            assert_eq!(not_created("x".as_ref(), &cause).code(), expected, "{cause}");
        };
        check(2, "usage");
        check(13, "usage");
        check(20, "usage");
        check(21, "usage");
        check(30, "usage");
        check(36, "usage");
        check(17, "output_exists");
        check(28, "output_lost");
        check(5, "output_lost");
    }
}
