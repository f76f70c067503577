//! Every error code this crate answers.

use glasshouse_model::{Code, Exit};

/// The text is no YAML, or YAML that a policy may not use (anchors, several documents).
pub const SYNTAX: Code = Code::new(
    "policy_syntax",
    Exit::Usage,
    false,
    "correct the YAML at the place named; tags, anchors, aliases and merge keys are not accepted",
);
/// A key nobody knows.
pub const UNKNOWN_KEY: Code = Code::new(
    "policy_unknown_key",
    Exit::Usage,
    false,
    "correct the key; a condition that is removed makes its rule match more",
);
/// A required key is absent.
pub const MISSING_KEY: Code =
    Code::new("policy_missing_key", Exit::Usage, false, "add the key that is named");
/// A value of the wrong type, or a word outside the list.
pub const BAD_VALUE: Code =
    Code::new("policy_bad_value", Exit::Usage, false, "write a value of the kind that is named");
/// A path pattern that can not be read, or that could never match.
pub const BAD_GLOB: Code = Code::new(
    "policy_bad_glob",
    Exit::Usage,
    false,
    "write a pattern relative to the workspace, such as `src/**` or `*.md`",
);
/// A size or a time without a known unit.
pub const BAD_UNIT: Code = Code::new(
    "policy_bad_unit",
    Exit::Usage,
    false,
    "sizes take KiB, MiB, GiB, KB, MB, GB or plain bytes; times take ms, s, m, h or d",
);
/// Two rules of one name.
pub const DUPLICATE_RULE: Code = Code::new(
    "policy_duplicate_rule",
    Exit::Usage,
    false,
    "rename one of the rules; decisions name rules, so a name stands for one rule",
);
/// A rule's own example does not hold.
pub const EXAMPLE_FAILED: Code = Code::new(
    "policy_example_failed",
    Exit::Usage,
    false,
    "correct the rule or the example: one of them says something else than was meant",
);
/// The file is written for another version of the format.
pub const VERSION_UNSUPPORTED: Code = Code::new(
    "policy_version_unsupported",
    Exit::Usage,
    false,
    "use `version: 1`, or a Glasshouse that knows the file's version",
);
/// A named limit was hit.
pub const LIMIT: Code = Code::new(
    "policy_limit",
    Exit::Usage,
    false,
    "shorten the policy: merge rules, or use fewer and wider patterns",
);
/// A path to protect is not absolute and canonical.
pub const PROTECTED_PATH: Code = Code::new(
    "policy_protected_path",
    Exit::Usage,
    false,
    "give absolute paths without `..`; resolve symbolic links first",
);
/// A sealed grant that can not be made or read.
pub const GRANT_MALFORMED: Code = Code::new(
    "grant_malformed",
    Exit::Usage,
    false,
    "ask for a new grant; a sealed grant is passed on byte for byte",
);
/// Bytes that claim to be a sealed grant and are not sealed with this key.
pub const GRANT_FORGED: Code = Code::new(
    "grant_forged",
    Exit::Denied,
    false,
    "ask for a new grant; grants end when Glasshouse restarts",
);
/// A derived grant that would permit more than the one it comes from.
pub const GRANT_WIDER: Code = Code::new(
    "grant_wider",
    Exit::Denied,
    false,
    "ask for less: a derived grant is narrower in every term",
);
/// A call written by a person that can not be read.
pub const CALL_MALFORMED: Code = Code::new(
    "call_malformed",
    Exit::Usage,
    false,
    "write a call as {\"syscall\":\"fs.write\",\"path\":\"src/a\"}",
);

/// All of them; each has a page in `docs/errors`.
pub const ALL: &[Code] = &[
    SYNTAX,
    UNKNOWN_KEY,
    MISSING_KEY,
    BAD_VALUE,
    BAD_GLOB,
    BAD_UNIT,
    DUPLICATE_RULE,
    EXAMPLE_FAILED,
    VERSION_UNSUPPORTED,
    LIMIT,
    PROTECTED_PATH,
    GRANT_MALFORMED,
    GRANT_FORGED,
    GRANT_WIDER,
    CALL_MALFORMED,
];
