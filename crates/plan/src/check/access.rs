//! Access: whether each field and picture says what it is to people who do not see it.
//!
//! These are remarks: a plan without them is shown, and its author is told.

use std::collections::HashSet;

use crate::codes;
use crate::json::{Json, Members};
use crate::plan::Plan;
use crate::report::Report;
use crate::rules::Refusal;
use crate::rules::element::ElementId;
use crate::tree::{Entry, NodeKind, Tree};

/// Properties that name a field by themselves.
const NAMES: [&str; 3] = ["aria-label", "aria-labelledby", "title"];
/// Input types that show their own words or nothing at all.
const NEEDS_NO_LABEL: [&str; 5] = ["hidden", "submit", "reset", "button", "image"];

pub(super) fn check(plan: &Plan, report: &mut Report) {
    let tree = plan.tree();
    let element = |entry: &Entry| entry.element.filter(|_| entry.kind == NodeKind::Element);
    let fields = ["input", "select", "textarea", "img"];
    let spoken = |entry: &Entry| element(entry).is_some_and(|it| fields.contains(&it.name()));
    if !tree.entries.iter().any(spoken) {
        return;
    }
    let mut labels = Labels { plan, wanted: HashSet::new() };
    for entry in &tree.entries {
        if element(entry).is_some_and(|it| it.name() == "label") {
            labels.wanted.extend(labels.text(*entry, "for").or(labels.text(*entry, "htmlFor")));
        }
    }
    for (index, entry) in (0u32..).zip(&tree.entries) {
        let Some(row) = element(entry) else { continue };
        let why = match row.name() {
            "img" if !labels.has(*entry, &["alt", "aria-label", "aria-labelledby"]) => {
                "a picture has alt, which is empty if it only decorates"
            }
            "input" | "select" | "textarea" if !labels.names(tree, *entry, row) => {
                "a field has a label, or aria-label"
            }
            _ => continue,
        };
        let at = || tree.pointer(index, "/root");
        report.note_at(at, Refusal::new(codes::LABEL_MISSING, why));
    }
}

struct Labels<'p> {
    plan: &'p Plan,
    /// Ids that labels name.
    wanted: HashSet<&'p str>,
}

impl<'p> Labels<'p> {
    fn props(&self, entry: Entry) -> impl Iterator<Item = (&'p str, Json<'p>)> + use<'p> {
        let members: Option<Members<'p>> = entry.props_in(self.plan.document());
        members.into_iter().flatten()
    }

    fn text(&self, entry: Entry, name: &str) -> Option<&'p str> {
        self.props(entry).find(|(key, _)| key.eq_ignore_ascii_case(name))?.1.as_text()
    }

    fn has(&self, entry: Entry, names: &[&str]) -> bool {
        self.props(entry).any(|(key, value)| {
            let blank = value.as_text().is_some_and(|text| text.trim().is_empty());
            names.iter().any(|name| key.eq_ignore_ascii_case(name) && (!blank || *name == "alt"))
        })
    }

    /// Whether a field is named: by itself, by a label around it, or by one that names its id.
    fn names(&self, tree: &Tree, entry: Entry, row: ElementId) -> bool {
        let kind = self.text(entry, "type").unwrap_or("text").to_ascii_lowercase();
        if row.name() == "input" && NEEDS_NO_LABEL.contains(&kind.as_str()) {
            return true;
        }
        let by_id = self.text(entry, "id").is_some_and(|id| self.wanted.contains(id));
        by_id || self.has(entry, &NAMES) || inside_label(tree, entry)
    }
}

fn inside_label(tree: &Tree, entry: Entry) -> bool {
    let mut entry = entry;
    while entry.depth > 0 {
        entry = tree.entries[entry.parent as usize];
        if entry.element.is_some_and(|row| row.name() == "label") {
            return true;
        }
    }
    false
}
