//! What was meant by a key or a word that stands where nobody knows it.

use crate::source::conditions::MATCH_KEYS;
use crate::source::{CONSTRAINT_KEYS, EXAMPLE_KEYS, RULE_KEYS, TOP_KEYS};

/// Words that other tools have, and people write by habit, with ours.
const HABITS: [(&str, &str); 26] = [
    ("state", "state_machine_state"),
    ("taint", "label"),
    ("labels", "label"),
    ("rules", "capabilities"),
    ("policies", "capabilities"),
    ("path", "path_glob"),
    ("paths", "path_glob"),
    ("command", "argv_prefix"),
    ("cmd", "argv_prefix"),
    ("when", "match"),
    ("effect", "action"),
    ("decision", "action"),
    ("unless", "except"),
    ("description", "reason"),
    ("limits", "constraints"),
    ("hosts", "host"),
    ("ask", "require_review"),
    ("review", "require_review"),
    ("confirm", "require_review"),
    ("block", "deny"),
    ("forbid", "deny"),
    ("permit", "allow"),
    ("coding", "code_writing"),
    ("implementing", "code_writing"),
    ("explore", "exploring"),
    ("debug", "exploring"),
];

/// Keys of `match` that people write in a call, with those that a call has.
const OF_CALLS: [(&str, &str); 7] = [
    ("path_glob", "path"),
    ("paths", "path"),
    ("argv_prefix", "argv"),
    ("command", "argv"),
    ("size_over", "size"),
    ("plugin", "caller"),
    ("taint", "label"),
];

/// The key of a call for one of a rule.
pub(crate) fn of_call(key: &str) -> Option<&'static str> {
    OF_CALLS.iter().find(|(theirs, _)| *theirs == key).map(|(_, ours)| *ours)
}

/// The word of ours for one that other tools have.
pub(crate) fn habit(word: &str) -> Option<&'static str> {
    HABITS.iter().find(|(theirs, _)| *theirs == word).map(|(_, ours)| *ours)
}

/// The maps of a policy, as errors call them.
pub(super) const PARTS: [&str; 5] =
    ["a policy", "a rule", "the conditions of a rule", "constraints", "examples"];

const PLACES: [(&[&str], &str); 5] = [
    (MATCH_KEYS, "in `match`"),
    (CONSTRAINT_KEYS, "in `constraints`"),
    (RULE_KEYS, "in a rule, beside its `match`"),
    (EXAMPLE_KEYS, "in `examples`"),
    (TOP_KEYS, "at the top of the file"),
];

/// Every key of a policy.
pub(super) fn all() -> impl Iterator<Item = &'static str> {
    PLACES.iter().flat_map(|(keys, _)| keys.iter().copied())
}

/// Where a key of ours belongs, in words.
pub(super) fn place(key: &str) -> Option<&'static str> {
    PLACES.iter().find(|(keys, _)| keys.contains(&key)).map(|(_, place)| *place)
}
