//! Nesting: a tree is accepted only if an HTML parser rebuilds exactly that tree.
//!
//! What a parser would move or close early is refused, because then the page that is shown is not
//! the tree that was checked.

use super::element::{self, ElementId};

/// What is around a node.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Around {
    parent: Option<ElementId>,
    grandparent: Option<ElementId>,
    /// Facts about all ancestors.
    facts: u8,
}

const IN_PARAGRAPH: u8 = 1;
const IN_CONTROL: u8 = 1 << 1;
const IN_HEADING: u8 = 1 << 2;
const IN_FORM: u8 = 1 << 3;
const IN_LABEL: u8 = 1 << 4;

impl Around {
    /// What is around the children of `element`, which is itself inside `self`.
    pub(crate) fn inside(self, element: ElementId) -> Self {
        let mut facts = self.facts;
        if element.has(element::PARAGRAPH_BARRIER) {
            facts &= !IN_PARAGRAPH;
        }
        match element.name() {
            "p" => facts |= IN_PARAGRAPH,
            "form" => facts |= IN_FORM,
            "label" => facts |= IN_LABEL,
            _ if element.has(element::CONTROL_WITH_CONTENT) => facts |= IN_CONTROL,
            _ => {}
        }
        if element.has(element::HEADING) {
            facts |= IN_HEADING;
        }
        Self { parent: Some(element), grandparent: self.parent, facts }
    }

    /// Whether an element may stand here.
    pub(crate) fn element(self, element: ElementId) -> Result<(), &'static str> {
        self.with_parent(element)?;
        let name = element.name();
        let in_fact = |fact: u8| self.facts & fact != 0;
        if in_fact(IN_PARAGRAPH) && element.has(element::ENDS_PARAGRAPH) {
            return Err("this element ends the paragraph it is in");
        }
        let control = element.has(element::CONTROL | element::CONTROL_WITH_CONTENT);
        if in_fact(IN_CONTROL) && (control || name == "details") {
            return Err("controls do not nest");
        }
        if in_fact(IN_LABEL) && name == "label" {
            return Err("labels do not nest");
        }
        if in_fact(IN_HEADING) && element.has(element::HEADING) {
            return Err("headings do not nest");
        }
        if in_fact(IN_FORM) && name == "form" {
            return Err("forms do not nest");
        }
        Ok(())
    }

    fn with_parent(self, element: ElementId) -> Result<(), &'static str> {
        let rule = element.rule();
        let name = rule.name;
        let Some(parent) = self.parent else {
            let shape = element.has(element::DRAWING) && name != "svg";
            return if rule.parents.is_empty() && !shape {
                Ok(())
            } else {
                Err("this element needs its own parent around it")
            };
        };
        if parent.has(element::VOID) {
            return Err("the parent has no content");
        }
        if parent.has(element::TEXT_ONLY) {
            return Err("the parent holds text only");
        }
        if element.has(element::DRAWING) != parent.has(element::DRAWING) && name != "svg" {
            return Err("drawings hold shapes only, and shapes belong in a drawing");
        }
        if name == "svg" && parent.has(element::DRAWING) {
            return Err("drawings do not nest");
        }
        if !rule.parents.is_empty() && !rule.parents.contains(&parent.name()) {
            return Err("this element belongs directly inside another one");
        }
        let term = matches!(name, "dt" | "dd") && parent.name() == "div";
        if term && self.grandparent.is_none_or(|outer| outer.name() != "dl") {
            return Err("a term belongs in a list of terms");
        }
        let children = parent.rule().children;
        if !children.is_empty() && !children.contains(&name) {
            return Err("the parent holds other elements");
        }
        Ok(())
    }

    /// Whether a text may stand here. A text may where each of its parts may.
    pub(crate) fn text(self, text: &str) -> Result<(), &'static str> {
        let Some(parent) = self.parent else { return Ok(()) };
        if parent.has(element::VOID) {
            return Err("the parent has no content");
        }
        let is_blank = || text.bytes().all(|byte| matches!(byte, b' ' | b'\n' | b'\t'));
        if parent.has(element::NO_TEXT) && !is_blank() {
            return Err("the parent holds no text");
        }
        Ok(())
    }
}
