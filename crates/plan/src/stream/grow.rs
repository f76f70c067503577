//! The growing tree: decides, while a plan is being read, which nodes can be shown.
//!
//! A node is shown when its tag is closed and passed the rules, below a parent that is shown. Its
//! text grows with the text that arrives; its properties appear together, when the last is closed
//! and all have passed. What reads a state that is not known yet waits for it.

mod parts;

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::attributes::Showing;
use crate::check::{NodeRules, too_many};
use crate::codes;
use crate::error::Error;
use crate::guard::{flaw, is_blank};
use crate::json::{Document, Interest, Json, Sink};
use crate::limits::Limits;
use crate::patch::{Content, Item, Items, NodeId, Patch, first_patches, item_patches};
use crate::profile::Profile;
use crate::render::{Context, MAX_OUTPUT_BYTES};
use crate::report::{Issue, Report};
use crate::rules::Refusal;
use crate::rules::element::{self, ElementId};
use crate::rules::nesting::Around;
use crate::tree::NodeKind;

use parts::{ELEMENT_KEYS, Growth, NONE, NodeKey, Place, PlanKey, TEXT_KEYS};

/// What stands where a plan was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Nothing tells yet.
    Unknown,
    Plan,
    /// A node without a plan around it.
    Node,
}

pub(super) struct Growing<'c> {
    rules: NodeRules<'c>,
    profile: &'c Profile,
    context: &'c Context<'c>,
    limits: Limits,
    form: Form,
    places: Vec<(u32, Place)>,
    nodes: Vec<Growth>,
    seen_plan_keys: u8,
    state: Option<Map<String, Value>>,
    /// Nodes with something that waits for the state; for elements, what is shown so far.
    waiting: Vec<NodeId>,
    partly_shown: HashMap<NodeId, Vec<Item>>,
    shown_bytes: usize,
    pub(super) patches: Vec<Patch>,
    /// Set once the plan cannot be accepted any more; from then on nothing is shown.
    refusal: Option<Issue>,
}

impl<'c> Growing<'c> {
    pub(super) fn new(profile: &'c Profile, context: &'c Context<'c>, limits: &Limits) -> Self {
        Self {
            rules: NodeRules::new(profile, true),
            profile,
            context,
            limits: limits.clamped(),
            form: Form::Unknown,
            places: Vec::with_capacity(32),
            nodes: Vec::new(),
            seen_plan_keys: 0,
            state: None,
            waiting: Vec::new(),
            partly_shown: HashMap::new(),
            shown_bytes: 0,
            patches: Vec::new(),
            refusal: None,
        }
    }

    /// What the text is, once enough of it is there to tell it from an example in a sentence.
    pub(super) fn form(&self) -> Form {
        match self.form {
            Form::Node if self.nodes.first().is_none_or(|root| root.kind.is_none()) => {
                Form::Unknown
            }
            form => form,
        }
    }

    /// Bytes of text and of values that are shown.
    pub(super) fn shown_bytes(&self) -> usize {
        self.shown_bytes
    }

    pub(super) fn refusal(&self) -> Option<&Issue> {
        self.refusal.as_ref()
    }

    /// Takes a node that cannot be accepted as the end of everything that is shown.
    pub(super) fn refuse(&mut self, report: Report) {
        self.refusal = report.issues.into_iter().next();
        self.patches.clear();
    }

    fn refuse_node(&mut self, node: u32, member: &str, refusal: Refusal) {
        let mut report = Report::new();
        report.refuse_at(|| self.pointer(node, member), refusal);
        self.refuse(report);
    }

    fn misshapen(&mut self, node: u32, member: &str, why: &str) {
        let pointer = self.pointer(node, member);
        self.refuse(Report::of(&flaw(&pointer, why)));
    }

    fn pointer(&self, node: u32, member: &str) -> String {
        let mut positions = Vec::new();
        let mut at = node;
        while let Some(growth) = self.nodes.get(at as usize)
            && growth.parent != NONE
        {
            positions.push(growth.position);
            at = growth.parent;
        }
        let mut pointer = "/root".to_owned();
        for position in positions.iter().rev() {
            pointer.push_str(&format!("/children/{position}"));
        }
        pointer.push_str(member);
        pointer
    }

    fn add_node(&mut self, parent: u32) -> Result<u32, Error> {
        let id = u32::try_from(self.nodes.len()).unwrap_or(NONE);
        if self.nodes.len() >= self.limits.nodes {
            let max = self.limits.nodes;
            return Err(Error::new(codes::TOO_LARGE, "the plan has too many nodes")
                .why(format!("nodes: limit {max}"))
                .with("limit", "nodes")
                .with("max", max));
        }
        let mut growth = Growth::below(parent);
        if let Some(above) = self.nodes.get_mut(parent as usize) {
            growth.position = above.children;
            growth.depth = above.depth.saturating_add(1);
            above.children += 1;
            let last = std::mem::replace(&mut above.last_child, id);
            if last == NONE {
                above.first_child = id;
            } else {
                self.nodes[last as usize].next_sibling = id;
            }
        }
        self.nodes.push(growth);
        if let Err(refusal) = self.rules.depth(growth.depth.into()) {
            self.refuse_node(id, "", refusal);
        } else if self.nodes.len() > self.profile.max_node_count {
            let why = too_many(self.nodes.len(), self.profile);
            self.refuse_node(0, "", Refusal::new(codes::TOO_LARGE, why));
        }
        Ok(id)
    }

    fn node_key(&mut self, node: u32, key: &str) -> Option<NodeKey> {
        let Some(key) = NodeKey::of(key) else {
            self.misshapen(node, "", "a node has a member that its type does not have");
            return None;
        };
        let growth = &mut self.nodes[node as usize];
        if growth.seen & key as u8 != 0 {
            let pointer = self.pointer(node, "");
            let twice = Error::new(codes::KEY_DUPLICATE, "a key appears twice").at(pointer);
            self.refuse(Report::of(&twice));
            return None;
        }
        growth.seen |= key as u8;
        self.fits(node);
        Some(key)
    }

    /// Refuses members that the node's type does not have.
    fn fits(&mut self, node: u32) {
        let growth = self.nodes[node as usize];
        let allowed = match growth.kind {
            Some(NodeKind::Text) => TEXT_KEYS,
            Some(NodeKind::Element) => ELEMENT_KEYS,
            Some(NodeKind::Component) | None => u8::MAX,
        };
        if growth.seen & !allowed != 0 {
            self.misshapen(node, "", "a node has a member that its type does not have");
        }
    }

    fn node_member(&mut self, document: &Document, node: u32, key: NodeKey, at: u32) {
        let value = document.at(at);
        let growth = &mut self.nodes[node as usize];
        match key {
            NodeKey::Type => {
                growth.kind = match value.as_text() {
                    Some("text") => Some(NodeKind::Text),
                    Some("element") => Some(NodeKind::Element),
                    Some("component") => {
                        return self.refuse_node(node, "", NodeRules::component_in_stream());
                    }
                    _ => {
                        let why = "text, element or component is expected";
                        return self.misshapen(node, "/type", why);
                    }
                };
                self.fits(node);
            }
            NodeKey::Tag => {
                let Some(tag) = value.as_text().filter(|tag| !is_blank(tag)) else {
                    return self.misshapen(node, "/tag", "a tag is a string, not blank");
                };
                growth.tag = at;
                match self.rules.tag(tag, element::find(tag)) {
                    Ok(element) => self.nodes[node as usize].element = Some(element),
                    Err(refusal) => return self.refuse_node(node, "", refusal),
                }
            }
            NodeKey::Value if value.as_text().is_none() => {
                return self.misshapen(node, "/value", "a string is expected");
            }
            NodeKey::Value => growth.value = at,
            NodeKey::Props if value.as_object().is_none() => {
                return self.misshapen(node, "/props", "an object is expected");
            }
            NodeKey::Props => {
                growth.props = at;
                if growth.shown {
                    self.show_properties(document, node);
                }
                return;
            }
            NodeKey::Children if value.as_array().is_none() => {
                return self.misshapen(node, "/children", "an array is expected");
            }
            NodeKey::Children | NodeKey::Module | NodeKey::Export => return,
        }
        if self.refusal.is_none() {
            self.show(document, node);
        }
    }

    fn close_node(&mut self, document: &Document, node: u32) {
        let growth = &mut self.nodes[node as usize];
        growth.closed = true;
        let growth = *growth;
        match growth.kind {
            None => return self.misshapen(node, "/type", "a type is expected"),
            Some(NodeKind::Element) if growth.tag == 0 => {
                return self.misshapen(node, "/tag", "a tag is expected");
            }
            Some(NodeKind::Text) if growth.value == 0 => {
                return self.misshapen(node, "/value", "a string is expected");
            }
            _ => {}
        }
        if growth.shown && growth.props == 0 {
            self.show_properties(document, node);
        } else {
            self.show(document, node);
        }
        if self.refusal.is_none() && self.nodes[node as usize].shown && !self.waits(node) {
            self.patches.push(Patch::Ready { id: node });
        }
    }

    fn waits(&self, node: u32) -> bool {
        self.nodes[node as usize].text.waits() || self.partly_shown.contains_key(&node)
    }

    /// Shows what can be shown of a node, and of those below it that waited for it.
    fn show(&mut self, document: &Document, node: u32) {
        let start = node;
        let mut open = vec![start];
        while let Some(node) = open.pop() {
            let growth = self.nodes[node as usize];
            let above = self.nodes.get(growth.parent as usize).copied();
            if above.is_some_and(|above| !above.shown) {
                continue;
            }
            let around = above.map(|above| above.around).unwrap_or_default();
            match (growth.kind, growth.element) {
                (Some(NodeKind::Text), _) if growth.value != 0 => {
                    let text = document.at(growth.value).as_text().unwrap_or_default();
                    self.show_text(node, around, text, true);
                }
                (Some(NodeKind::Element), Some(element)) if !growth.shown => {
                    // Nothing is below such an element, so it can wait for its properties.
                    if element.has(element::VOID) && !growth.closed {
                        continue;
                    }
                    self.show_element(document, node, element, around);
                    let mut below = self.nodes[node as usize].first_child;
                    let mut waited = Vec::new();
                    while let Some(child) = self.nodes.get(below as usize) {
                        waited.push(below);
                        below = child.next_sibling;
                    }
                    open.extend(waited.into_iter().rev());
                }
                _ => {}
            }
            if self.refusal.is_some() {
                return;
            }
            let growth = self.nodes[node as usize];
            let late = growth.shown && growth.closed && node != start;
            if late && !self.waits(node) {
                self.patches.push(Patch::Ready { id: node });
            }
        }
    }

    fn show_element(&mut self, document: &Document, node: u32, element: ElementId, around: Around) {
        if let Err(refusal) = NodeRules::nesting(around, element) {
            return self.refuse_node(node, "", refusal);
        }
        let growth = &mut self.nodes[node as usize];
        growth.around = around.inside(element);
        growth.shown = true;
        let parent = (growth.parent != NONE).then_some(growth.parent);
        let tag = Content::Tag(element.name().into());
        self.patches.push(Patch::Ins { id: node, parent, before: None, node: tag });
        self.show_properties(document, node);
    }

    /// Shows the properties that are closed, and those that every element of the kind has.
    fn show_properties(&mut self, document: &Document, node: u32) {
        let growth = self.nodes[node as usize];
        let Some(element) = growth.element else { return };
        let mut properties = None;
        if growth.props != 0 {
            properties = document.at(growth.props).as_object();
        } else if !growth.closed {
            return;
        }
        if let Some(properties) = &properties {
            let mut report = Report::new();
            let at = || self.pointer(node, "/props");
            self.rules.properties(element, properties, &at, &mut report);
            if !report.safe {
                return self.refuse(report);
            }
        }
        let mut items = Items::default();
        match self.showing().show(element, properties, &mut items) {
            Err(error) => self.refuse(Report::of(&error)),
            Ok(complete) => {
                self.count(items.bytes);
                match self.partly_shown.remove(&node) {
                    Some(before) => item_patches(node, &before, &items.list, &mut self.patches),
                    None if complete => first_patches(node, items.list, &mut self.patches),
                    None => {
                        item_patches(node, &[], &items.list, &mut self.patches);
                        self.partly_shown.insert(node, items.list);
                        self.waiting.push(node);
                    }
                }
            }
        }
    }

    fn showing(&self) -> Showing<'_> {
        Showing {
            profile: self.profile,
            surface: self.context.surface(),
            scope: self.state.as_ref().map(|state| self.context.scope(state)),
            templates: true,
            made: None,
        }
    }

    fn show_text(&mut self, node: u32, around: Around, text: &str, complete: bool) {
        // Where only blank text may stand, the whole text decides; each part is looked at once.
        let allowed_bytes = &mut self.nodes[node as usize].allowed_bytes;
        let part = text.get(*allowed_bytes..).unwrap_or(text);
        *allowed_bytes = text.len();
        if let Err(refusal) = NodeRules::text(around, part) {
            return self.refuse_node(node, "", refusal);
        }
        if !complete && NodeRules::text(around, "x").is_err() {
            return;
        }
        let growth = &mut self.nodes[node as usize];
        let scope = self.state.as_ref().map(|state| self.context.scope(state));
        let waited = growth.text.waits();
        let mut added = String::new();
        growth.text.advance(text, complete, scope.as_ref(), &mut added);
        let (first, parent) = (!growth.shown, growth.parent);
        growth.shown = true;
        let waits = growth.text.waits();
        self.count(added.len());
        if self.refusal.is_some() {
            return;
        }
        if waits && !waited {
            self.waiting.push(node);
        }
        if first {
            let parent = (parent != NONE).then_some(parent);
            let text = Content::Text(added);
            self.patches.push(Patch::Ins { id: node, parent, before: None, node: text });
        } else if !added.is_empty() {
            self.append(node, added);
        }
    }

    /// Adds to a text; patches that nobody has taken yet grow instead of becoming more.
    fn append(&mut self, node: u32, added: String) {
        match self.patches.last_mut() {
            Some(
                Patch::Text { id, append: true, value }
                | Patch::Ins { id, node: Content::Text(value), .. },
            ) if *id == node => value.push_str(&added),
            _ => self.patches.push(Patch::Text { id: node, append: true, value: added }),
        }
    }

    fn count(&mut self, bytes: usize) {
        self.shown_bytes += bytes;
        if self.shown_bytes > MAX_OUTPUT_BYTES {
            let error = Error::new(codes::OUTPUT_TOO_LARGE, "the shown text is too large")
                .why(format!("limit {MAX_OUTPUT_BYTES} bytes"));
            self.refuse(Report::of(&error));
        }
    }

    /// The state is known: everything that waited for it is shown.
    fn set_state(&mut self, document: &Document, state: Map<String, Value>) {
        self.state = Some(state);
        for node in std::mem::take(&mut self.waiting) {
            let growth = self.nodes[node as usize];
            match growth.kind {
                Some(NodeKind::Text) => {
                    let above = self.nodes.get(growth.parent as usize);
                    let around = above.map(|above| above.around).unwrap_or_default();
                    if growth.value != 0 {
                        let text = document.at(growth.value).as_text().unwrap_or_default();
                        self.show_text(node, around, text, true);
                    }
                }
                _ => self.show_properties(document, node),
            }
            if self.refusal.is_some() {
                return;
            }
            if growth.closed {
                self.patches.push(Patch::Ready { id: node });
            }
        }
    }

    fn plan_key(&mut self, key: &str) -> PlanKey {
        let key = match key {
            "root" => PlanKey::Root,
            "state" => PlanKey::State,
            _ => return PlanKey::Other,
        };
        let bit = if key == PlanKey::Root { 1 } else { 2 };
        if self.seen_plan_keys & bit != 0 {
            let twice = Error::new(codes::KEY_DUPLICATE, "a key appears twice");
            self.refuse(Report::of(&twice));
        }
        self.seen_plan_keys |= bit;
        key
    }

    fn plan_member(&mut self, document: &Document, key: PlanKey, at: u32) {
        let value = document.at(at);
        match key {
            PlanKey::Root if value.as_object().is_none() => {
                self.refuse(Report::of(&flaw("/root", "a node is an object")));
            }
            PlanKey::State => match value.get("initial").map(Json::to_value) {
                Some(Value::Object(state)) => self.set_state(document, state),
                _ => {
                    let error = flaw("/state/initial", "an object is expected");
                    self.refuse(Report::of(&error));
                }
            },
            PlanKey::Root | PlanKey::Other => {}
        }
    }
}

impl Sink for Growing<'_> {
    fn key(&mut self, key: &str) -> Result<(), Error> {
        if self.refusal.is_some() {
            return Ok(());
        }
        let Some((_, place)) = self.places.last().copied() else { return Ok(()) };
        let next = match place {
            Place::Top if NodeKey::of(key).is_some() => {
                self.form = Form::Node;
                let root = self.add_node(NONE)?;
                Place::Node(root, self.node_key(root, key))
            }
            Place::Top | Place::Plan(_) => {
                if matches!(key, "specVersion" | "root") {
                    self.form = Form::Plan;
                }
                Place::Plan(self.plan_key(key))
            }
            Place::Node(node, _) => Place::Node(node, self.node_key(node, key)),
            Place::Children(_) => place,
        };
        if let Some((_, place)) = self.places.last_mut() {
            *place = next;
        }
        Ok(())
    }

    fn open(&mut self, at: u32, object: bool) -> Result<Interest, Error> {
        if self.refusal.is_some() {
            return Ok(Interest::Whole);
        }
        let place = match (self.places.last().map(|(_, place)| *place), object) {
            (None, true) => Place::Top,
            (Some(Place::Plan(PlanKey::Root)), true) => Place::Node(self.add_node(NONE)?, None),
            (Some(Place::Node(node, Some(NodeKey::Children))), false) => Place::Children(node),
            (Some(Place::Children(parent)), true) => Place::Node(self.add_node(parent)?, None),
            _ => return Ok(Interest::Whole),
        };
        self.places.push((at, place));
        Ok(Interest::Members)
    }

    fn value(&mut self, document: &Document, at: u32) -> Result<(), Error> {
        let closing = self.places.last().is_some_and(|(opened, _)| *opened == at);
        if self.refusal.is_some() {
            if closing {
                self.places.pop();
            }
            return Ok(());
        }
        if closing && let Some((_, place)) = self.places.pop() {
            match place {
                Place::Node(node, _) => self.close_node(document, node),
                Place::Top | Place::Plan(_) if self.state.is_none() => {
                    self.set_state(document, Map::new());
                }
                Place::Top | Place::Plan(_) | Place::Children(_) => {}
            }
            if self.places.is_empty() && self.form == Form::Node && self.refusal.is_none() {
                self.set_state(document, Map::new());
            }
        }
        if self.refusal.is_some() {
            return Ok(());
        }
        match self.places.last().map(|(_, place)| *place) {
            Some(Place::Plan(key)) => self.plan_member(document, key, at),
            Some(Place::Node(node, Some(key))) => self.node_member(document, node, key, at),
            Some(Place::Children(parent)) if document.at(at).as_object().is_none() => {
                let position = self.nodes[parent as usize].children;
                let member = format!("/children/{position}");
                self.misshapen(parent, &member, "a node is an object");
            }
            _ => {}
        }
        Ok(())
    }

    fn partial(&mut self, so_far: &str) -> Result<(), Error> {
        if self.refusal.is_some() {
            return Ok(());
        }
        if let Some((_, Place::Node(node, Some(NodeKey::Value)))) = self.places.last() {
            let node = *node;
            let growth = &self.nodes[node as usize];
            let above = self.nodes.get(growth.parent as usize);
            if growth.kind == Some(NodeKind::Text) && above.is_none_or(|above| above.shown) {
                let around = above.map(|above| above.around).unwrap_or_default();
                self.show_text(node, around, so_far, false);
            }
        }
        Ok(())
    }
}
