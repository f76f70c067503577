//! Accepted exceptions: `RULE SUBJECT [LIMIT]: REASON`, one a line.
//!
//! A subject that ends in `/` covers everything below. A limit is the size of a ratcheted thing: one
//! that grew is a finding again, and one that shrank asks for a lower limit.

use super::{ALLOW, Finding};
use crate::process::Failure;

/// One line of the file.
#[derive(Debug)]
pub(super) struct Entry {
    rule: String,
    subject: String,
    limit: Option<usize>,
    line: usize,
}

impl Entry {
    fn names(&self, finding: &Finding) -> bool {
        let subject = if self.subject.ends_with('/') {
            finding.subject.starts_with(&self.subject)
        } else {
            finding.subject == self.subject
        };
        subject && self.rule == finding.rule
    }

    fn covers(&self, finding: &Finding) -> bool {
        self.names(finding)
            && match (self.limit, finding.size) {
                (Some(limit), Some(size)) => size <= limit,
                (None, None) => true,
                _ => false,
            }
    }
}

pub(super) fn parse(text: &str) -> Result<Vec<Entry>, Failure> {
    let mut entries = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let line_number = index + 1;
        let entry = entry(line, line_number).ok_or_else(|| {
            Failure::new(format!("{ALLOW}:{line_number}: expected `RULE SUBJECT [LIMIT]: REASON`"))
        })?;
        entries.push(entry);
    }
    Ok(entries)
}

fn entry(text: &str, line: usize) -> Option<Entry> {
    let (head, reason) = text.split_once(": ")?;
    let mut words = head.split_whitespace();
    let (rule, subject) = (words.next()?.to_owned(), words.next()?.to_owned());
    let limit = match words.next() {
        Some(limit) => Some(limit.parse().ok()?),
        None => None,
    };
    let complete = words.next().is_none() && !reason.trim().is_empty();
    complete.then_some(Entry { rule, subject, limit, line })
}

/// Drops what is accepted, and adds a finding for each entry that accepts nothing or too much.
pub(super) fn apply(entries: Vec<Entry>, findings: Vec<Finding>) -> Vec<Finding> {
    let loose: Vec<Finding> = entries.iter().filter_map(|entry| loose(entry, &findings)).collect();
    let mut left: Vec<Finding> = findings
        .into_iter()
        .filter(|finding| !entries.iter().any(|entry| entry.covers(finding)))
        .collect();
    left.extend(loose);
    left
}

fn loose(entry: &Entry, findings: &[Finding]) -> Option<Finding> {
    let named: Vec<&Finding> = findings.iter().filter(|finding| entry.names(finding)).collect();
    let largest = named.iter().filter_map(|finding| finding.size).max();
    let advice = match (entry.limit, largest) {
        _ if named.is_empty() => "accepts nothing; remove it".to_owned(),
        (Some(limit), Some(size)) if size < limit => format!("can be lowered to {size}"),
        _ => return None,
    };
    let message = format!("`{} {}` {advice}", entry.rule, entry.subject);
    Some(Finding::new("loose-exception", ALLOW, entry.line, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(allow: &str, findings: &[Finding]) -> Vec<String> {
        let entries = parse(allow).expect("reads");
        apply(entries, findings.to_vec()).iter().map(|found| found.subject.clone()).collect()
    }

    #[test]
    fn an_exception_covers_its_rule_its_subject_and_sizes_up_to_its_limit() {
        let mark = Finding::new("marks", "web/out/a.js", 1, "m");
        let long = Finding::new("file-length", "a.rs", 0, "m").of_size(950);
        let both = [mark, long];
        for (allow, expected) in [
            ("", vec!["web/out/a.js", "a.rs"]),
            ("marks web/out/: built\nfile-length a.rs 950: a table", vec![]),
            ("marks web/out/a.js: built\nfile-length a.rs 960: a table", vec![ALLOW]),
            ("file-length a.rs 949: a table", vec!["web/out/a.js", "a.rs"]),
            ("file-length a.rs: a ratchet needs a limit", vec!["web/out/a.js", "a.rs"]),
            ("marks web/out: not a folder", vec!["web/out/a.js", "a.rs", ALLOW]),
            ("size web/out/a.js: other rule", vec!["web/out/a.js", "a.rs", ALLOW]),
        ] {
            assert_eq!(left(allow, &both), expected, "{allow}");
        }
    }

    #[test]
    fn a_line_without_a_reason_is_refused() {
        for line in
            ["marks a.rs", "marks a.rs: ", "marks: reason", "size a.rs many: r", "a b 1 2: r"]
        {
            let failure = parse(&format!("# head\n{line}\n")).expect_err(line);
            assert!(failure.to_string().contains(":2:"), "{failure}");
        }
    }
}
