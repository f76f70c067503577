//! Every error code of this crate.

use glasshouse_model::{Code, Exit};

/// No tool has this name.
pub const TOOL_UNKNOWN: Code =
    Code::new("tool_unknown", Exit::Usage, false, "call one of the available tools");
/// The tool exists but may not be called now.
pub const TOOL_UNAVAILABLE: Code = Code::new(
    "tool_unavailable",
    Exit::Denied,
    false,
    "call one of the available tools, or bring the work into a state that allows this one",
);
/// The arguments are no valid JSON or do not fit the tool's schema.
pub const INVALID_ARGUMENTS: Code = Code::new(
    "invalid_arguments",
    Exit::Usage,
    false,
    "send one JSON object that fits the schema in the context",
);
/// A pattern that does not compile.
pub const INVALID_PATTERN: Code =
    Code::new("invalid_pattern", Exit::Usage, false, "correct the pattern at the named position");
/// A file that is not UTF-8 text.
pub const NOT_UTF8: Code = Code::new(
    "not_utf8",
    Exit::Usage,
    false,
    "inspect the file with a command in the sandbox; its bytes are unchanged",
);
/// A file too large to read as a whole.
pub const FILE_TOO_LARGE: Code = Code::new(
    "file_too_large",
    Exit::Usage,
    false,
    "search the file, or cut a part out of it with a command in the sandbox",
);
/// A line number behind the file's end.
pub const LINE_OUT_OF_RANGE: Code = Code::new(
    "line_out_of_range",
    Exit::Usage,
    false,
    "start at a line that the file has; the context tells how many there are",
);
/// The text to replace is not in the file.
pub const TEXT_NOT_FOUND: Code = Code::new(
    "text_not_found",
    Exit::NotFound,
    false,
    "read the file again and copy the text exactly, with its white space",
);
/// The text to replace is in the file more than once.
pub const AMBIGUOUS: Code = Code::new(
    "ambiguous",
    Exit::Conflict,
    false,
    "add lines around the text until it is unique, or set `replace_all`",
);
/// An edit that changes nothing.
pub const NO_CHANGE: Code =
    Code::new("no_change", Exit::Usage, false, "send a `new` that differs from `old`");
/// A result over its limit.
pub const RESULT_TOO_LARGE: Code =
    Code::new("result_too_large", Exit::Usage, false, "make the change in smaller parts");
/// A secret that cannot be masked safely.
pub const SECRET_UNUSABLE: Code = Code::new(
    "secret_unusable",
    Exit::Usage,
    false,
    "use a secret of 8 bytes to 8 KiB and a name of letters, digits, `_`, `-` and `.`",
);

/// An address that cannot be fetched.
pub const URL_INVALID: Code = Code::new(
    "url_invalid",
    Exit::Usage,
    false,
    "give an absolute address such as https://docs.example.org/page",
);
/// A page that did not come.
pub const FETCH_FAILED: Code = Code::new(
    "fetch_failed",
    Exit::Unfinished,
    true,
    "try again later, or another page; a host that the policy does not list is never reached",
);

/// All of them.
pub const ALL: &[Code] = &[
    TOOL_UNKNOWN,
    TOOL_UNAVAILABLE,
    INVALID_ARGUMENTS,
    INVALID_PATTERN,
    NOT_UTF8,
    FILE_TOO_LARGE,
    LINE_OUT_OF_RANGE,
    TEXT_NOT_FOUND,
    AMBIGUOUS,
    NO_CHANGE,
    RESULT_TOO_LARGE,
    SECRET_UNUSABLE,
    URL_INVALID,
    FETCH_FAILED,
];
