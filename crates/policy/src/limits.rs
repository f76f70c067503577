//! Every limit of the crate, each with its reason.

/// Most rules in a source: far above any file written by people, and the compiled form of each stays in a
/// few megabytes.
pub const MAX_RULES: usize = 10_000;
/// Most YAML texts that make one policy: the workflow's, the tenant's, the project's, those of a session that is carried
/// on, and room. What one text may hold is said for each, so this bounds all of them together.
pub const MAX_SOURCES: usize = 16;
/// Largest policy text in bytes: [`MAX_RULES`] rules of some 400 bytes.
pub const MAX_SOURCE_BYTES: usize = 4 << 20;
/// Most values in one match key; a longer list is a data file, not a rule.
pub const MAX_LIST_ITEMS: usize = 1_000;
/// Most path patterns in a source after braces are expanded; bounds the index.
pub const MAX_PATTERNS: usize = 50_000;
/// Most characters of all path patterns of a source that stand in a name with a `*`: each may be tried at each
/// place of a name. So many take some 75 ms on the longest path; ten thousand patterns like `*_test.py` fit.
pub const MAX_STARRED_CHARS: usize = 100_000;
/// Most rules, starred characters and sought commands that one explanation looks at, each as often as it does: what
/// takes a decision long is tried on fewer calls, so that the answer comes in seconds.
pub const MAX_EXPLAINED: usize = 5_000_000;
/// Longest path pattern in bytes; a path component rarely exceeds 255.
pub const MAX_PATTERN_BYTES: usize = 512;
/// Longest name of a file in bytes, as Linux has it. A longer one is denied before patterns are tried: their
/// time grows with the name, and thousands of them on a name of 4 KB took most of a minute.
pub const MAX_FILE_NAME_BYTES: usize = 255;
/// Most patterns that one brace expression may stand for, since nesting multiplies.
pub const MAX_BRACE_EXPANSIONS: usize = 64;
/// Most patterns for secrets in a source; each is looked for in every output.
pub const MAX_SECRET_PATTERNS: usize = 64;
/// Longest pattern for secrets in bytes.
pub const MAX_SECRET_PATTERN_BYTES: usize = 512;
/// Longest name of a pattern for secrets in bytes: it takes the secret's place in a text.
pub const MAX_SECRET_NAME_BYTES: usize = 64;
/// Longest program of rules in TypeScript in bytes; a source has one.
pub const MAX_EXTENSION_BYTES: usize = 64 << 10;
/// Most other calls that rules in TypeScript are asked about for one explanation: each may take its whole time.
pub const MAX_TRIED_BY_EXTENSION: usize = 32;
/// Most `except` items of one rule; each is tried for each call the rule matches.
pub const MAX_EXCEPTS: usize = 64;
/// Most examples of one rule.
pub const MAX_EXAMPLES: usize = 64;
/// Most tests of one file: a machine may have written it.
pub const MAX_TESTS: usize = 10_000;
/// Longest rule name in bytes; names go into every decision event.
pub const MAX_NAME_BYTES: usize = 128;
/// Longest reason in bytes; reasons go into every decision event.
pub const MAX_REASON_BYTES: usize = 1_024;
/// Deepest nesting of a policy text: the format itself needs seven levels.
pub const MAX_YAML_DEPTH: usize = 16;
/// Most bytes of command text that are searched for hidden commands; a longer text counts as
/// holding anything.
pub const MAX_COMMAND_BYTES: usize = 64 << 10;
/// Deepest nesting of a shell script that is read; a deeper one counts as holding anything.
pub const MAX_SCRIPT_DEPTH: usize = 48;
/// Most built-in rules: few enough that a person can hold all of them in mind.
pub const MAX_BUILT_INS: usize = 10;
/// Most grants of which one is derived from the next.
pub const MAX_GRANT_DEPTH: usize = 8;
/// Most grants for calls like the one at hand that a question names, beside the last one that ended.
pub const MAX_TOLD_GRANTS: usize = 3;
/// Most recorded calls that a policy is learned from: each is decided again by what was learned.
pub const MAX_LEARNED: usize = 20_000;
/// Longest sandbox identity or syscall name in a sealed grant, in bytes.
pub const MAX_GRANT_FIELD_BYTES: usize = 255;
