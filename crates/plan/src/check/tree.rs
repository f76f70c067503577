//! The tree: one loop over its nodes, asking the rule table about each.

use crate::codes;
use crate::guard::join;
use crate::json::{Json, Members};
use crate::made::{self, Made};
use crate::plan::Plan;
use crate::profile::Profile;
use crate::report::Report;
use crate::rules::attribute::{Attribute, Kind};
use crate::rules::element::{self, ElementId};
use crate::rules::nesting::Around;
use crate::rules::property::{self, MAX_PROPERTIES, Property};
use crate::rules::value::{self, Verdict};
use crate::rules::{Refusal, Scalar, event, inspect, style};
use crate::tree::{Entry, NodeKind};

pub(super) fn check(plan: &Plan, profile: &Profile, report: &mut Report) {
    let entries = &plan.tree().entries;
    if entries.len() > profile.max_node_count {
        let why = too_many(entries.len(), profile);
        report.refuse(codes::TOO_LARGE, || ("/root".to_owned(), why));
    }
    let mut pass = Pass {
        plan,
        rules: NodeRules {
            made: plan.made(),
            transitions: plan.transition_table(),
            ..NodeRules::new(profile, plan.may_hold_templates())
        },
        around: vec![Around::default()],
    };
    for (index, entry) in (0u32..).zip(entries) {
        pass.node(index, *entry, report);
    }
}

/// Why a tree has too many nodes for a profile.
pub(crate) fn too_many(nodes: usize, profile: &Profile) -> String {
    format!("{nodes} nodes, the profile allows {}", profile.max_node_count)
}

/// What a profile asks of single nodes.
pub(crate) struct NodeRules<'p> {
    profile: &'p Profile,
    blocked: Vec<ElementId>,
    templates: bool,
    made: Option<&'p Made>,
    /// The transitions of a plan that has some.
    transitions: Option<Json<'p>>,
}

impl<'p> NodeRules<'p> {
    /// Rules for a document in which any string could hold a template, or none can.
    pub(crate) fn new(profile: &'p Profile, templates: bool) -> Self {
        let tags = profile.blocked_tags.iter();
        let blocked = tags.filter_map(|tag| element::find(tag.trim())).collect();
        Self { profile, blocked, templates, made: None, transitions: None }
    }

    pub(crate) fn depth(&self, depth: usize) -> Result<(), Refusal> {
        if depth <= self.profile.max_tree_depth {
            return Ok(());
        }
        let max = self.profile.max_tree_depth;
        let why = format!("depth {depth}, the profile allows {max}");
        Err(Refusal::new(codes::TOO_DEEP, why))
    }

    pub(crate) fn text(around: Around, text: &str) -> Result<(), Refusal> {
        around.text(text).map_err(|why| Refusal::new(codes::NESTING_INVALID, why))
    }

    pub(crate) fn nesting(around: Around, element: ElementId) -> Result<(), Refusal> {
        around.element(element).map_err(|why| Refusal::new(codes::NESTING_INVALID, why))
    }

    /// What is around the children of a component, in whose place an element stands.
    pub(crate) fn component(around: Around) -> Result<Around, Refusal> {
        let place = element::placeholder();
        Self::nesting(around, place).map(|()| around.inside(place))
    }

    /// Why a view that grows holds no component: its place is kept only in a whole plan.
    pub(crate) fn component_in_stream() -> Refusal {
        Refusal::new(codes::COMPONENT_UNRESOLVED, "a view that grows shows no components")
    }

    /// The row of a tag, if it may be shown.
    pub(crate) fn tag(&self, tag: &str, row: Option<ElementId>) -> Result<ElementId, Refusal> {
        row.filter(|row| !self.blocked.contains(row)).ok_or_else(|| {
            let tag: String = tag.chars().take(64).collect();
            Refusal::new(codes::TAG_DENIED, format!("the element {tag:?} is not shown"))
        })
    }

    /// Checks the properties of an element; `props` gives their JSON Pointer.
    pub(crate) fn properties(
        &self,
        element: ElementId,
        properties: &Members<'_>,
        props: &dyn Fn() -> String,
        report: &mut Report,
    ) {
        let max = self.profile.max_props_per_node.min(MAX_PROPERTIES);
        if properties.len() > max {
            let why = format!("{} properties, limit {max}", properties.len());
            report.refuse_at(props, Refusal::new(codes::TOO_LARGE, why));
            return;
        }
        for (name, value) in properties.clone() {
            let pointer = || join(&props(), name);
            match property::read(element, properties, name, value, self.profile) {
                Property::Event(binding) => {
                    let known = |all: Json<'_>| all.get(binding.kind).is_some();
                    if !self.transitions.is_none_or(known) {
                        let name: String = binding.kind.chars().take(64).collect();
                        let why = format!("no transition is named {name:?}, so it changes nothing");
                        report.note_at(pointer, Refusal::new(codes::EVENT_UNKNOWN, why));
                    }
                }
                Property::Ignored(refusal) => {
                    let text = value.as_text().filter(|_| inspect::is_url_attribute(name));
                    let faults = text.map(|text| inspect::faults(name, text, self.profile));
                    match faults.filter(|faults| !faults.is_empty()) {
                        Some(faults) => {
                            faults.into_iter().for_each(|it| report.refuse_at(pointer, it));
                        }
                        None => report.note_at(pointer, refusal),
                    }
                }
                Property::Refused(refusal) => report.refuse_at(pointer, refusal),
                Property::Attribute(attribute) => match self.judge(&attribute, value) {
                    Verdict::Refuse(refusal) => {
                        self.refused(&attribute, value, pointer, refusal, report)
                    }
                    Verdict::Ignore(refusal) | Verdict::Partly(_, refusal) => {
                        report.note_at(pointer, refusal);
                    }
                    Verdict::Write(_) | Verdict::Bare | Verdict::Omit => {}
                },
            }
        }
    }

    /// Names what else is wrong with an element that is not shown: handlers and addresses.
    fn properties_of_denied(
        &self,
        properties: &Members<'_>,
        props: &dyn Fn() -> String,
        report: &mut Report,
    ) {
        for (name, value) in properties.clone().take(MAX_PROPERTIES) {
            let pointer = || join(&props(), name);
            if let event::Property::Handler(refusal) = event::read(name, value)
                && !self.profile.allow_inline_event_handlers
            {
                report.refuse_at(pointer, refusal);
            }
            let text = value.as_text().filter(|_| inspect::is_url_attribute(name));
            for fault in text.iter().flat_map(|text| inspect::faults(name, text, self.profile)) {
                report.refuse_at(pointer, fault);
            }
        }
    }

    /// Names what is wrong with each address of a refused attribute, or the attribute itself.
    fn refused(
        &self,
        attribute: &Attribute<'_>,
        value: Json<'_>,
        pointer: impl Fn() -> String,
        refusal: Refusal,
        report: &mut Report,
    ) {
        let denied = matches!(attribute.kind, Kind::Denied(_));
        let text = value.as_text().filter(|_| denied && inspect::is_url_attribute(&attribute.name));
        let faults = text.map(|text| inspect::faults(&attribute.name, text, self.profile));
        for fault in faults.iter().flatten() {
            report.refuse_at(&pointer, fault.clone());
        }
        if faults.is_none_or(|faults| faults.is_empty()) {
            report.refuse_at(pointer, refusal);
        }
    }

    fn judge<'a>(&self, attribute: &Attribute<'_>, value: Json<'a>) -> Verdict<'a> {
        if attribute.kind == Kind::Style
            && let Some(members) = value.as_object()
        {
            let scalars = members.map(|(name, value)| match value.as_text() {
                Some(text) if self.templates && made::is_template(self.made, text) => {
                    (name, Scalar::Text(style::literal(text).into()))
                }
                _ => (name, Scalar::of(value)),
            });
            return style::object(scalars).into_verdict();
        }
        match value.as_text() {
            Some(text) if self.templates && made::is_template(self.made, text) => {
                match value::judge_template(attribute, text, self.profile) {
                    Ok(()) => Verdict::Omit,
                    Err(refusal) => Verdict::Refuse(refusal),
                }
            }
            _ => made::judge(self.made, attribute, Scalar::of(value), false, self.profile),
        }
    }
}

struct Pass<'p> {
    plan: &'p Plan,
    rules: NodeRules<'p>,
    /// What is around the nodes of each depth on the way to the current one.
    around: Vec<Around>,
}

impl Pass<'_> {
    fn node(&mut self, index: u32, entry: Entry, report: &mut Report) {
        let depth = usize::from(entry.depth);
        let document = self.plan.document();
        let pointer = || self.plan.tree().pointer(index, "/root");
        match self.rules.depth(depth) {
            // What is in a node that is too deep is so, too, and counts; to name it would say nothing new.
            Err(_) if depth > self.rules.profile.max_tree_depth + 1 => {
                report.count(codes::TOO_DEEP)
            }
            told => told.unwrap_or_else(|refusal| report.refuse_at(pointer, refusal)),
        }
        let mut refuse = |refusal: Refusal| report.refuse_at(pointer, refusal);
        self.around.truncate(depth + 1);
        let around = self.around.last().copied().unwrap_or_default();
        let mut inside = around;
        match entry.kind {
            NodeKind::Text => {
                NodeRules::text(around, entry.name_in(document)).unwrap_or_else(refuse);
            }
            // What would run there is decided by its module and by the lane.
            NodeKind::Component => match NodeRules::component(around) {
                Ok(around) => inside = around,
                Err(refusal) => refuse(refusal),
            },
            NodeKind::Element => match self.rules.tag(entry.name_in(document), entry.element) {
                Err(refusal) => {
                    refuse(refusal);
                    if let Some(properties) = entry.props_in(document) {
                        let props = || format!("{}/props", pointer());
                        self.rules.properties_of_denied(&properties, &props, report);
                    }
                }
                Ok(element) => {
                    NodeRules::nesting(around, element).unwrap_or_else(refuse);
                    if let Some(properties) = entry.props_in(document) {
                        let props = || format!("{}/props", pointer());
                        self.rules.properties(element, &properties, &props, report);
                    }
                    inside = around.inside(element);
                }
            },
        }
        self.around.push(inside);
    }
}
