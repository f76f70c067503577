//! Tests that could not run: each is declared with its reason, or the suite fails.
//!
//! A test that lacks something on the machine prints `skipped: NAME: REASON` on stderr, appends
//! `NAME: REASON` to the file that `GLASSHOUSE_SKIP_LOG` names, and returns.

use std::collections::BTreeMap;
use std::path::Path;

use crate::place::Place;
use crate::process::{Doing, Failure};

/// The variable that tells a test where to record that it skipped.
pub(crate) const LOG_VARIABLE: &str = "GLASSHOUSE_SKIP_LOG";

/// The file of declared skips.
const DECLARED: &str = "tests/skips.txt";

/// Skipped tests by name, with the reason.
pub(crate) type Skips = BTreeMap<String, String>;

/// Reads lines `NAME: REASON`; blank lines and lines that start with `#` are comments.
fn parse(text: &str, source: &str) -> Result<Skips, Failure> {
    let mut skips = Skips::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        // A test's name may hold `::`, so the separator is a colon and a space.
        let parts = line.split_once(": ").map(|(name, reason)| (name.trim(), reason.trim()));
        match parts {
            Some((name, reason)) if !name.is_empty() && !reason.is_empty() => {
                skips.insert(name.to_owned(), reason.to_owned());
            }
            _ => {
                let at = index + 1;
                return Err(Failure::new(format!("{source}:{at}: expected `NAME: REASON`")));
            }
        }
    }
    Ok(skips)
}

/// What skipped, as the file that [`LOG_VARIABLE`] named says; nothing where no test made it.
pub(crate) fn happened(log: &Path) -> Result<Skips, Failure> {
    match std::fs::read_to_string(log) {
        Ok(text) => parse(&text, "the log of skipped tests"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Skips::new()),
        Err(error) => Err(error).doing("could not read the log of skipped tests"),
    }
}

/// What is wrong with what skipped: a line for each that nobody declared.
pub(crate) fn faults(place: &Place, happened: &Skips) -> Result<Vec<String>, Failure> {
    let declared = std::fs::read_to_string(place.root().join(DECLARED))
        .doing(format_args!("could not read {DECLARED}"))?;
    let declared = parse(&declared, DECLARED)?;
    let line = |(name, reason)| format!("{DECLARED} does not declare the skip `{name}: {reason}`");
    Ok(undeclared(happened, &declared).into_iter().map(line).collect())
}

/// The skips that nobody declared.
fn undeclared<'a>(happened: &'a Skips, declared: &Skips) -> Vec<(&'a str, &'a str)> {
    happened
        .iter()
        .filter(|(name, _)| !declared.contains_key(*name))
        .map(|(name, reason)| (name.as_str(), reason.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skips(text: &str) -> Skips {
        parse(text, "here").expect("reads")
    }

    #[test]
    fn an_undeclared_skip_is_found_and_a_declared_one_may_run() {
        let declared = skips("# why\n\nlimits::by_cgroup: no cgroup delegation\nother: no kvm\n");
        let happened = skips("limits::by_cgroup: read-only\nnetwork::dns: no resolver\n");
        assert_eq!(undeclared(&happened, &declared), [("network::dns", "no resolver")]);
        assert_eq!(undeclared(&Skips::new(), &declared), []);
    }

    #[test]
    fn a_line_without_a_reason_is_refused_with_its_place() {
        for text in ["name", "name:", "name: ", ": reason", "a::b"] {
            let failure = parse(&format!("fine: yes\n{text}\n"), "here").expect_err(text);
            assert!(failure.to_string().starts_with("here:2:"), "{failure}");
        }
    }
}
