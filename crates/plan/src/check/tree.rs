//! The tree: one loop over its nodes, asking the rule table about each.

use crate::codes;
use crate::guard::join;
use crate::json::Json;
use crate::plan::Plan;
use crate::profile::Profile;
use crate::report::Report;
use crate::rules::attribute::{self, Attribute, Kind, Verdict};
use crate::rules::element::{self, ElementId};
use crate::rules::nesting::Around;
use crate::rules::property::{self, MAX_PROPERTIES, Property};
use crate::rules::{Refusal, Scalar, style};
use crate::template::is_templated;
use crate::tree::{Entry, NodeKind};

pub(super) fn check(plan: &Plan, profile: &Profile, report: &mut Report) {
    let entries = &plan.tree().entries;
    if entries.len() > profile.max_node_count {
        let why = format!("{} nodes, the profile allows {}", entries.len(), profile.max_node_count);
        report.refuse(codes::TOO_LARGE, || ("/root".to_owned(), why));
    }
    let blocked = profile.blocked_tags.iter().filter_map(|tag| element::find(tag.trim())).collect();
    let mut pass = Pass {
        plan,
        profile,
        blocked,
        templates: plan.document().may_hold_templates(),
        around: vec![Around::default()],
        too_deep: false,
    };
    for (index, entry) in (0u32..).zip(entries) {
        pass.node(index, *entry, report);
    }
}

struct Pass<'p> {
    plan: &'p Plan,
    profile: &'p Profile,
    blocked: Vec<ElementId>,
    templates: bool,
    /// What is around the nodes of each depth on the way to the current one.
    around: Vec<Around>,
    too_deep: bool,
}

impl Pass<'_> {
    fn node(&mut self, index: u32, entry: Entry, report: &mut Report) {
        let depth = usize::from(entry.depth);
        let pointer = || self.plan.tree().pointer(index, "/root");
        if depth > self.profile.max_tree_depth && !self.too_deep {
            // Named once: what is below it is too deep as well.
            self.too_deep = true;
            let why = format!("the profile allows depth {}", self.profile.max_tree_depth);
            report.refuse(codes::TOO_DEEP, || (pointer(), why));
        }
        self.around.truncate(depth + 1);
        let around = self.around.last().copied().unwrap_or_default();
        let mut inside = around;
        match entry.kind {
            NodeKind::Text => {
                let text = entry.name_in(self.plan.document());
                if let Err(why) = around.text(text) {
                    report.refuse_at(pointer, Refusal::new(codes::NESTING_INVALID, why));
                }
            }
            NodeKind::Component => {
                let why = "no engine for components is built";
                report.refuse_at(pointer, Refusal::new(codes::CODE_UNSUPPORTED, why));
            }
            NodeKind::Element => match entry.element.filter(|tag| !self.blocked.contains(tag)) {
                None => {
                    let tag: String =
                        entry.name_in(self.plan.document()).chars().take(64).collect();
                    let why = format!("the element {tag:?} is not shown");
                    report.refuse_at(pointer, Refusal::new(codes::TAG_DENIED, why));
                }
                Some(element) => {
                    if let Err(why) = around.element(element) {
                        report.refuse_at(pointer, Refusal::new(codes::NESTING_INVALID, why));
                    }
                    self.properties(index, entry, element, report);
                    inside = around.inside(element);
                }
            },
        }
        self.around.push(inside);
    }

    fn properties(&self, index: u32, entry: Entry, element: ElementId, report: &mut Report) {
        let Some(properties) = entry.props_in(self.plan.document()) else { return };
        let props = || format!("{}/props", self.plan.tree().pointer(index, "/root"));
        if properties.len() > MAX_PROPERTIES {
            let why = format!("{} properties, limit {MAX_PROPERTIES}", properties.len());
            report.refuse_at(props, Refusal::new(codes::TOO_LARGE, why));
            return;
        }
        for (name, value) in properties.clone() {
            let pointer = || join(&props(), name);
            match property::read(element, &properties, name, value, self.profile) {
                Property::Event(_) => {}
                Property::Ignored(refusal) => report.note_at(pointer, refusal),
                Property::Refused(refusal) => report.refuse_at(pointer, refusal),
                Property::Attribute(attribute) => match self.judge(&attribute, value) {
                    Verdict::Refuse(refusal) => report.refuse_at(pointer, refusal),
                    Verdict::Ignore(refusal) | Verdict::Partly(_, refusal) => {
                        report.note_at(pointer, refusal);
                    }
                    Verdict::Write(_) | Verdict::Bare | Verdict::Omit => {}
                },
            }
        }
    }

    fn judge<'a>(&self, attribute: &Attribute<'_>, value: Json<'a>) -> Verdict<'a> {
        if attribute.kind == Kind::Style
            && let Some(members) = value.as_object()
        {
            let scalars = members.map(|(name, value)| match value.as_text() {
                Some(text) if is_templated(text) => {
                    (name, Scalar::Text(style::literal(text).into()))
                }
                _ => (name, Scalar::of(value)),
            });
            return style::object(scalars).into_verdict();
        }
        match value.as_text() {
            Some(text) if self.templates && is_templated(text) => {
                match attribute::judge_template(attribute, text, self.profile) {
                    Ok(()) => Verdict::Omit,
                    Err(refusal) => Verdict::Refuse(refusal),
                }
            }
            _ => attribute::judge(attribute, Scalar::of(value), false, self.profile),
        }
    }
}
