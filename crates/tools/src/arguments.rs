//! What a model asks a tool to do, typed.
//!
//! The enum is the one definition: its schema is what models are shown, and what they send is
//! checked against that same schema, so the two cannot drift apart.

mod json;
pub(crate) mod schema;

use std::collections::BTreeSet;

use glasshouse_model::{CanonicalPath, Digest, ExemptionCategory};
use glasshouse_sandbox::view::Intent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::codes;
use crate::error::{Error, Result};

/// Longest argument text, in bytes: a large source file fits twice, escaped.
pub const MAX_ARGUMENTS_BYTES: usize = 4 << 20;
/// Longest search pattern, in characters; a longer one is generated, not meant.
pub const MAX_PATTERN_CHARS: u32 = 1_000;
/// Longest time a command may ask for; the sandbox template may allow less.
pub const MAX_TIMEOUT_MS: u64 = 3_600_000;

/// The arguments of one tool call.
///
/// ```
/// use glasshouse_tools::{Arguments, parse_arguments};
///
/// let read = parse_arguments("fs.read", r#"{"path": "src/main.rs"}"#).unwrap();
/// assert!(matches!(&read, Arguments::FsRead { path, .. } if path == "src/main.rs"));
/// assert_eq!(parse_arguments("fs.read", "").unwrap_err().code(), "invalid_arguments");
/// assert_eq!(parse_arguments("git.diff", "").unwrap(), Arguments::GitDiff {});
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "tool", content = "arguments", deny_unknown_fields)]
pub enum Arguments {
    /// Read a text file.
    #[serde(rename = "fs.read")]
    FsRead {
        /// File to read, relative to the workspace.
        path: String,
        /// First line to return; lines count from 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "u32", range(min = 1))]
        offset_line: Option<u32>,
        /// Most lines to return.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "u32", range(min = 1))]
        limit_lines: Option<u32>,
    },
    /// List a directory.
    #[serde(rename = "fs.list")]
    FsList {
        /// Directory to list, relative to the workspace; `.` is its root.
        path: String,
        /// Whether to list everything below it.
        #[serde(default)]
        recursive: bool,
    },
    /// Ask whether a path exists.
    #[serde(rename = "fs.exists")]
    FsExists {
        /// Path to look for, relative to the workspace.
        path: String,
    },
    /// Search file contents.
    #[serde(rename = "search.grep")]
    SearchGrep {
        /// Regular expression, matched against each line.
        #[schemars(length(min = 1, max = MAX_PATTERN_CHARS))]
        pattern: String,
        /// File or directory to search; the whole workspace if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        path: Option<String>,
        /// Only files that match this glob, for example `*.rs` or `src/**/*.ts`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String", length(min = 1, max = MAX_PATTERN_CHARS))]
        glob: Option<String>,
    },
    /// Search file names.
    #[serde(rename = "search.glob")]
    SearchGlob {
        /// Glob; without a `/` it matches file names at any depth.
        #[schemars(length(min = 1, max = MAX_PATTERN_CHARS))]
        pattern: String,
        /// Directory to search; the whole workspace if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        path: Option<String>,
    },
    /// Create or replace a file.
    #[serde(rename = "fs.write")]
    FsWrite {
        /// File to write, relative to the workspace; missing directories are made.
        path: String,
        /// The whole new content.
        content: String,
    },
    /// Replace one text by another in a file.
    #[serde(rename = "fs.edit")]
    FsEdit {
        /// File to edit, relative to the workspace.
        path: String,
        /// Text to replace, exactly as it is in the file; it must be there once.
        #[schemars(length(min = 1))]
        old: String,
        /// Text to put in its place.
        new: String,
        /// Replace every occurrence instead of the only one.
        #[serde(default)]
        replace_all: bool,
    },
    /// Run a command in the sandbox.
    #[serde(rename = "shell.run")]
    ShellRun {
        /// Program and its arguments; give this or `script`, not both.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Vec<String>", length(min = 1, max = 1_024))]
        argv: Option<Vec<String>>,
        /// Text for `sh -c`; give this or `argv`, not both.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String", length(min = 1))]
        script: Option<String>,
        /// Directory to run in; the workspace root if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        cwd: Option<String>,
        /// Stop the command after this many milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "u64", range(min = 1, max = MAX_TIMEOUT_MS))]
        timeout_ms: Option<u64>,
    },
    /// Run the repository's tests.
    #[serde(rename = "test.run")]
    TestRun {
        /// Only tests whose name holds this text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String", length(min = 1, max = MAX_PATTERN_CHARS))]
        filter: Option<String>,
        /// Stop the tests after this many milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "u64", range(min = 1, max = MAX_TIMEOUT_MS))]
        timeout_ms: Option<u64>,
    },
    /// Show the change set.
    #[serde(rename = "git.diff")]
    GitDiff {},
    /// Propose the change set as a commit.
    #[serde(rename = "git.commit")]
    GitCommit {
        /// Commit message: a short first line, then why.
        #[schemars(length(min = 1, max = 10_000))]
        message: String,
    },
    /// Declare the plan of work complete.
    #[serde(rename = "plan.complete")]
    PlanComplete {
        /// What will be done, in a few sentences.
        #[schemars(length(min = 1, max = 10_000))]
        summary: String,
        /// The steps, in order.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Vec<String>", length(max = 100))]
        steps: Option<Vec<String>>,
    },
    /// Ask for files to be exempt from tests first.
    #[serde(rename = "workflow.request_exemption")]
    RequestExemption {
        /// `config_change`, `type_refactor`, `documentation` or `asset_update`.
        category: String,
        /// The files, each by its path; no others may be changed then.
        #[schemars(length(min = 1, max = 100))]
        affected_paths: Vec<String>,
        /// Why no test can fail before this change, for the person who decides.
        #[schemars(length(min = 1, max = 2_000))]
        reason: String,
    },
    /// Show the arguments of tools.
    #[serde(rename = "tools.load")]
    ToolsLoad {
        /// Names of the tools, for example `fs.write`.
        #[schemars(length(min = 1, max = 16))]
        names: Vec<String>,
    },
    /// Fetch a page from the web.
    #[serde(rename = "web.fetch")]
    WebFetch {
        /// Address, `https://` or `http://`.
        #[schemars(length(min = 1, max = 2_000))]
        url: String,
    },
    /// Show a generated interface.
    #[serde(rename = "ui.render")]
    UiRender {
        /// The plan document.
        #[schemars(with = "Map<String, Value>")]
        plan: Value,
    },
}

impl Arguments {
    /// The arguments as a JSON object; optional ones that were left out are absent.
    #[must_use]
    pub fn canonical_json(&self) -> Value {
        self.tagged()["arguments"].take()
    }

    /// Digest of tool name and arguments, independent of how the model spelt them: white space,
    /// key order, escapes and explicit `null` do not count. Approvals bind to it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(json::canonical_text(&self.tagged()).as_bytes())
    }

    /// The path that has to be resolved before the call is decided, and what for; `None` for tools
    /// that act on no single path.
    #[must_use]
    pub fn target(&self) -> Option<(&str, Intent)> {
        Some(match self {
            Self::FsRead { path, .. } => (path, Intent::Read),
            Self::FsList { path, .. } => (path, Intent::Directory),
            Self::FsExists { path } => (path, Intent::Any),
            Self::SearchGrep { path, .. } => (path.as_deref().unwrap_or("."), Intent::Any),
            Self::SearchGlob { path, .. } => (path.as_deref().unwrap_or("."), Intent::Directory),
            Self::FsWrite { path, .. } | Self::FsEdit { path, .. } => (path, Intent::Create),
            Self::ShellRun { cwd, .. } => (cwd.as_deref()?, Intent::Directory),
            Self::TestRun { .. }
            | Self::GitDiff {}
            | Self::GitCommit { .. }
            | Self::PlanComplete { .. }
            | Self::RequestExemption { .. }
            | Self::ToolsLoad { .. }
            | Self::WebFetch { .. }
            | Self::UiRender { .. } => return None,
        })
    }

    /// The program and arguments that `shell.run` executes; a script is `sh -c SCRIPT`. Of a request for an
    /// exemption its category and paths.
    #[must_use]
    pub fn argv(&self) -> Option<Vec<String>> {
        match self {
            Self::ShellRun { argv: Some(argv), .. } => Some(argv.clone()),
            Self::ShellRun { script: Some(script), .. } => {
                Some(vec!["sh".to_owned(), "-c".to_owned(), script.clone()])
            }
            Self::RequestExemption { category, affected_paths, .. } => {
                Some(std::iter::once(category).chain(affected_paths).cloned().collect())
            }
            _ => None,
        }
    }

    fn tagged(&self) -> Value {
        serde_json::to_value(self).expect("arguments are strings, numbers and JSON values")
    }

    /// What a schema that every provider accepts cannot say.
    fn check(&self) -> Result<(), Problem> {
        let fail = |pointer: &str, why: &str| {
            Err(Problem { pointer: pointer.to_owned(), why: why.to_owned() })
        };
        match self {
            Self::ShellRun { argv: None, script: None, .. } => {
                fail("", "one of `argv` and `script` is required")
            }
            Self::ShellRun { argv: Some(_), script: Some(_), .. } => {
                fail("/script", "`argv` and `script` exclude each other")
            }
            Self::ShellRun { argv: Some(argv), .. } if argv[0].is_empty() => {
                fail("/argv/0", "the program's name is empty")
            }
            Self::ShellRun { argv, script, .. }
                if argv.iter().flatten().chain(script).any(|text| text.contains('\0')) =>
            {
                fail("", "a NUL character cannot be passed to a program")
            }
            Self::RequestExemption { category, affected_paths, .. } => {
                if let Err(why) = category.parse::<ExemptionCategory>() {
                    return fail("/category", &why);
                }
                let mut seen = BTreeSet::new();
                for (at, path) in affected_paths.iter().enumerate() {
                    let why = match CanonicalPath::parse(path) {
                        Ok(path) if path.is_root() => "it names no file".to_owned(),
                        Ok(path) if seen.contains(&path) => "it stands twice".to_owned(),
                        Ok(path) => {
                            seen.insert(path);
                            continue;
                        }
                        Err(why) => why.to_string(),
                    };
                    return fail(&format!("/affected_paths/{at}"), &why);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// What is wrong with arguments that are valid JSON, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) pointer: String,
    pub(crate) why: String,
}

/// Reads the arguments that a model sent for a tool.
///
/// Strict: exactly one JSON object, no key twice, no unknown key, every value of its type and in
/// its range. A `null` counts as left out where leaving out is allowed, because some models are
/// made to send every key. An empty text is `{}` only for a tool that requires nothing.
///
/// # Errors
/// `tool_unknown`; `invalid_arguments` with the schema and either `line` and `column` of the place
/// where the JSON breaks or the `pointer` of the value that does not fit.
pub fn parse_arguments(tool: &str, raw: &str) -> Result<Arguments> {
    let schema = schema::of(tool).ok_or_else(|| {
        Error::new(codes::TOOL_UNKNOWN, format!("there is no tool `{tool}`"))
            .with("available_tools", schema::names().collect::<Vec<_>>())
    })?;
    let refuse = |why: &str| {
        Error::new(codes::INVALID_ARGUMENTS, format!("the arguments of `{tool}` are not valid"))
            .why(why)
            .with("tool", tool)
            .with("schema", schema.clone())
    };
    if raw.len() > MAX_ARGUMENTS_BYTES {
        return Err(refuse(&format!("longer than {MAX_ARGUMENTS_BYTES} bytes")));
    }
    let mut value = if raw.trim_ascii().is_empty() {
        if schema::required(schema).next().is_some() {
            return Err(refuse("the text is empty").with("line", 1).with("column", 1));
        }
        Value::Object(Map::new())
    } else {
        json::parse(raw)
            .map_err(|e| refuse(&e.why).with("line", e.line).with("column", e.column))?
    };
    // What no event could hold was replaced by a text that says so.
    if let Value::String(said) = &value
        && said.contains(REPLACED)
    {
        return Err(refuse(&format!("{said}; a larger file is written in parts")));
    }
    schema::drop_optional_nulls(schema, &mut value);
    let misfit = |problem: Problem| refuse(&problem.why).with("pointer", problem.pointer);
    schema::check(schema, &value).map_err(misfit)?;
    let tagged = serde_json::json!({ "tool": tool, "arguments": value });
    let arguments: Arguments =
        serde_json::from_value(tagged).map_err(|error| refuse(&error.to_string()))?;
    arguments.check().map_err(misfit)?;
    Ok(arguments)
}

/// Stands, between two numbers of bytes, in the text that takes the place of arguments which are too large to keep.
pub const REPLACED: &str = " bytes of arguments; the limit is ";

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that is too large for one call was told to be "an object, found a text".
    #[test]
    fn arguments_that_were_too_large_are_told_so() {
        let check = |raw: &str, expected: &str| {
            let error = parse_arguments("fs.write", raw).unwrap_err();
            assert!(error.to_string().contains(expected), "{raw}: {error}");
        };
        check(
            &format!("\"400000{REPLACED}262144\""),
            "limit is 262144; a larger file is written in parts",
        );
        check("\"text\"", "expected an object");
    }

    #[test]
    fn digests_ignore_spelling_and_see_meaning() {
        let digest = |tool: &str, raw: &str| parse_arguments(tool, raw).unwrap().digest();
        let base = digest("fs.list", r#"{"path":"a","recursive":false}"#);
        for same in [
            r#"{ "recursive" : false, "path" : "a" }"#,
            r#"{"path":"\u0061"}"#,
            r#"{"path":"a","recursive":null}"#,
        ] {
            assert_eq!(digest("fs.list", same), base, "{same}");
        }
        assert_ne!(digest("fs.list", r#"{"path":"b"}"#), base);
        assert_ne!(digest("fs.list", r#"{"path":"a","recursive":true}"#), base);
        assert_ne!(digest("fs.exists", r#"{"path":"a"}"#), digest("fs.read", r#"{"path":"a"}"#));
        let nested = |plan: &str| digest("ui.render", &format!(r#"{{"plan":{plan}}}"#));
        assert_eq!(
            nested(r#"{"b":1,"a":[{"d":2,"c":3}]}"#),
            nested(r#"{"a":[{"c":3,"d":2}],"b":1}"#)
        );
    }

    #[test]
    fn canonical_json_reads_back() {
        let arguments = parse_arguments("fs.edit", r#"{"path":"a","old":"x","new":""}"#).unwrap();
        let json = arguments.canonical_json();
        assert_eq!(
            json,
            serde_json::json!({ "path": "a", "old": "x", "new": "", "replace_all": false })
        );
        assert_eq!(parse_arguments("fs.edit", &json.to_string()).unwrap(), arguments);
    }

    #[test]
    fn a_script_runs_in_a_shell() {
        let argv = |raw: &str| parse_arguments("shell.run", raw).unwrap().argv();
        assert_eq!(argv(r#"{"argv":["ls","-l"]}"#), Some(vec!["ls".into(), "-l".into()]));
        assert_eq!(
            argv(r#"{"script":"a | b"}"#),
            Some(vec!["sh".into(), "-c".into(), "a | b".into()])
        );
        assert_eq!(parse_arguments("git.diff", "{}").unwrap().argv(), None);
    }
}
