//! Reports: what is wrong with a plan, where, and what to do.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::{Code, Error};
use crate::rules::Refusal;

/// Most issues a report carries; a hostile plan can have one a node.
pub const MAX_ISSUES: usize = 50;

/// Most remarks about what is not shown; each import and component may have one.
pub const MAX_NOTES: usize = 256;

/// One thing that is wrong, or that is not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Issue {
    /// Stable code.
    pub code: &'static str,
    /// JSON Pointer of the place in the plan.
    pub pointer: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

/// Answer of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether the plan may be rendered.
    pub safe: bool,
    /// The first [`MAX_ISSUES`] reasons why not; what is inside of a node that is too deep is only counted.
    pub issues: Vec<Issue>,
    /// How many reasons there are.
    pub issue_count: usize,
    /// How many reasons of each code there are.
    #[serde(skip)]
    pub counts: BTreeMap<&'static str, usize>,
    /// The first [`MAX_NOTES`] parts that are harmless but will not be shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Issue>,
}

impl Report {
    pub(crate) fn new() -> Self {
        Self {
            safe: true,
            issues: Vec::new(),
            issue_count: 0,
            counts: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    /// The report of a text that could not be read as a plan.
    #[must_use]
    pub fn of(error: &Error) -> Self {
        let report = error.report();
        let message = if report.why.is_empty() {
            report.what
        } else {
            format!("{}: {}", report.what, report.why)
        };
        let pointer = error.pointer().to_owned();
        Self::of_issue(Issue { code: report.code, pointer, message, fix: report.fix })
    }

    pub(crate) fn of_issue(issue: Issue) -> Self {
        let counts = BTreeMap::from([(issue.code, 1)]);
        Self { safe: false, issues: vec![issue], issue_count: 1, counts, notes: Vec::new() }
    }

    /// Counts a reason to refuse that is not listed, because it follows from one that is.
    pub(crate) fn count(&mut self, code: Code) {
        self.safe = false;
        self.issue_count += 1;
        *self.counts.entry(code.name).or_default() += 1;
    }

    /// Adds a reason to refuse; its text is made only while there is room for it.
    pub(crate) fn refuse(&mut self, code: Code, place: impl FnOnce() -> (String, String)) {
        self.count(code);
        if self.issues.len() < MAX_ISSUES {
            self.issues.push(issue(code, place()));
        }
    }

    pub(crate) fn refuse_at(&mut self, pointer: impl FnOnce() -> String, refusal: Refusal) {
        self.refuse(refusal.code, || (pointer(), refusal.why.into_owned()));
    }

    /// Adds a reason to refuse that somebody else found, such as the compiler of the plan's source.
    pub fn refuse_for(&mut self, issue: Issue) {
        self.safe = false;
        self.issue_count += 1;
        *self.counts.entry(issue.code).or_default() += 1;
        if self.issues.len() < MAX_ISSUES {
            self.issues.push(issue);
        }
    }

    /// Adds a remark that is already written.
    pub fn note(&mut self, note: Issue) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(note);
        }
    }

    /// Adds a remark about something that is not shown.
    pub(crate) fn note_at(&mut self, pointer: impl FnOnce() -> String, refusal: Refusal) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(issue(refusal.code, (pointer(), refusal.why.into_owned())));
        }
    }
}

fn issue(code: Code, (pointer, message): (String, String)) -> Issue {
    Issue { code: code.name, pointer, message, fix: code.fix.to_owned() }
}
