//! What a change of the document changes in the view: the node it is in, and nothing else.

use serde_json::Value;

use super::{Bound, Lines, NODE_WORK_BYTES, Step, issue};
use crate::attributes::Showing;
use crate::change::{self, Pointer};
use crate::check::{NodeRules, too_many};
use crate::codes;
use crate::error::Error;
use crate::json::{Document, Members};
use crate::patch::{
    Content, Item, Items, NodeId, Patch, View, first_patches, item_patches, text_patch,
};
use crate::render::MAX_OUTPUT_BYTES;
use crate::report::{Issue, Report};
use crate::rules::Refusal;
use crate::rules::element::{self, ElementId};
use crate::rules::nesting::Around;
use crate::stream::text::Cursor;
use crate::template::{any_text, is_templated};
use crate::tree::{NodeKind, Tree};

/// Nodes that are ready to be shown.
#[derive(Default)]
struct Built {
    patches: Vec<Patch>,
    bound: Vec<(NodeId, Bound)>,
    bytes: usize,
    next: NodeId,
}

impl Lines<'_> {
    /// Brings the view to what the document holds at a place that changed.
    pub(super) fn show(&mut self, path: &Pointer, step: Step) -> Result<(), Issue> {
        let tokens = path.tokens();
        match tokens.first().map(String::as_str) {
            None => {
                self.read_state()?;
                self.rebuild(&Pointer::default().join("root"), None)
            }
            Some("state") => self.read_state(),
            Some("root") => self.show_in_tree(path, step),
            Some(_) => Ok(()),
        }
    }

    fn show_in_tree(&mut self, path: &Pointer, step: Step) -> Result<(), Issue> {
        let tokens = path.tokens();
        let mut at = 1;
        let mut id = self.view.root();
        loop {
            let node = path.first(at);
            let Some(here) = id.filter(|_| at < tokens.len()) else {
                return self.rebuild(&node, id);
            };
            let child = tokens.get(at + 1).filter(|_| tokens[at] == "children");
            let Some(index) = child.and_then(|token| crate::path::index(token)) else {
                return match tokens[at].as_str() {
                    "props" => self.show_properties(&node, here),
                    "value" => self.show_text(&node, here),
                    _ => self.rebuild(&node, id),
                };
            };
            if at + 2 == tokens.len() {
                return self.show_child(path, here, index, step);
            }
            id = self.child(here, index);
            at += 2;
        }
    }

    pub(super) fn child(&self, id: NodeId, index: usize) -> Option<NodeId> {
        self.view.shown(id)?.children.get(index).copied()
    }

    fn show_child(
        &mut self,
        path: &Pointer,
        parent: NodeId,
        index: usize,
        step: Step,
    ) -> Result<(), Issue> {
        let here = self.child(parent, index);
        let (gone, before) = match step {
            Step::Added => (None, here),
            Step::Removed => return self.commit(here, Built::default()),
            Step::Replaced => (here, self.child(parent, index + 1)),
        };
        let built = self.build(path, Some(parent), before, gone)?;
        self.commit(gone, built)
    }

    /// Shows a whole node anew, if the document still has it.
    fn rebuild(&mut self, path: &Pointer, id: Option<NodeId>) -> Result<(), Issue> {
        let id = if path.tokens().len() == 1 { self.view.root() } else { id };
        if change::find(&self.document, path).is_none() {
            return self.commit(id, Built::default());
        }
        let parent = id.and_then(|id| self.view.shown(id)).and_then(|node| node.parent);
        let behind = parent.and_then(|parent| {
            let siblings = &self.view.shown(parent)?.children;
            let at = siblings.iter().position(|sibling| Some(*sibling) == id)?;
            siblings.get(at + 1).copied()
        });
        let built = self.build(path, parent, behind, id)?;
        self.commit(id, built)
    }

    fn commit(&mut self, gone: Option<NodeId>, built: Built) -> Result<(), Issue> {
        let mut patches: Vec<Patch> = gone.map(|id| Patch::Del { id }).into_iter().collect();
        patches.extend(built.patches);
        self.shown_bytes += built.bytes;
        self.next = self.next.max(built.next);
        self.apply(patches)?;
        self.bound.extend(built.bound);
        if gone.is_some() {
            let view = &self.view;
            self.bound.retain(|id, _| view.shown(*id).is_some());
        }
        Ok(())
    }

    pub(super) fn apply(&mut self, patches: Vec<Patch>) -> Result<(), Issue> {
        self.view.apply(&patches).map_err(|error| issue(&error))?;
        self.patches.extend(patches);
        Ok(())
    }

    /// Refuses to show more than a page may hold.
    fn room_for(&mut self, bytes: usize) -> Result<(), Issue> {
        if self.shown_bytes + bytes > MAX_OUTPUT_BYTES {
            self.shown_bytes = self.view.value_bytes();
        }
        if self.shown_bytes + bytes <= MAX_OUTPUT_BYTES {
            return Ok(());
        }
        let error = Error::new(codes::OUTPUT_TOO_LARGE, "the shown text is too large");
        Err(issue(&error.why(format!("limit {MAX_OUTPUT_BYTES} bytes"))))
    }

    /// The patches that show a part of the document, if schema and policy let it be shown.
    fn build(
        &mut self,
        path: &Pointer,
        parent: Option<NodeId>,
        before: Option<NodeId>,
        gone: Option<NodeId>,
    ) -> Result<Built, Issue> {
        let (mut around, depth) = self.around(parent);
        let at = path.to_string();
        let document = self.parsed(path)?;
        let tree =
            Tree::read(document.root(), &at, self.limits.nodes).map_err(|error| issue(&error))?;
        let stays = self.view.node_count() - gone.map_or(0, |id| self.view.size_of(id));
        let count = stays + tree.entries.len();
        if count > self.profile.max_node_count {
            return Err(refused(at, Refusal::new(codes::TOO_LARGE, too_many(count, self.profile))));
        }
        let mut built = Built { next: self.next, ..Built::default() };
        let first = self.next;
        for (index, entry) in (0u32..).zip(&tree.entries) {
            let level = usize::from(entry.depth);
            around.truncate(level + 1);
            let outside = around.last().copied().unwrap_or_default();
            let pointer = || tree.pointer(index, &at);
            let refuse = |refusal| refused(pointer(), refusal);
            self.rules.depth(depth + level).map_err(refuse)?;
            let id = first + index;
            let name = entry.name_in(&document);
            let (node, items, inside) = match entry.kind {
                NodeKind::Component => return Err(refuse(NodeRules::component_in_stream())),
                NodeKind::Text => {
                    NodeRules::text(outside, name).map_err(refuse)?;
                    if is_templated(name) {
                        built.bound.push((id, Bound::Text(name.to_owned())));
                    }
                    (Content::Text(self.text(name)), Items::default(), outside)
                }
                NodeKind::Element => {
                    let row = self.rules.tag(name, entry.element).map_err(refuse)?;
                    NodeRules::nesting(outside, row).map_err(refuse)?;
                    let properties = entry.props_in(&document);
                    let items = self.items(row, properties.clone(), &pointer)?;
                    if properties.into_iter().flatten().any(|(_, it)| any_text(it, is_templated)) {
                        let props = pointer_of(&pointer())?.join("props");
                        built.bound.push((id, Bound::Properties(row, self.parsed(&props)?)));
                    }
                    (Content::Tag(row.name().into()), items, outside.inside(row))
                }
            };
            around.push(inside);
            built.bytes +=
                items.bytes + if let Content::Text(text) = &node { text.len() } else { 0 };
            let (above, before) =
                if level == 0 { (parent, before) } else { (Some(first + entry.parent), None) };
            built.patches.push(Patch::Ins { id, parent: above, before, node });
            first_patches(id, items.list, &mut built.patches);
            built.patches.push(Patch::Ready { id });
            built.next = id + 1;
            self.room_for(built.bytes)?;
        }
        Ok(built)
    }

    /// A part of the document in the form that rules read.
    fn parsed(&self, path: &Pointer) -> Result<Document, Issue> {
        let value = change::find(&self.document, path).unwrap_or(&Value::Null);
        Document::parse(&value.to_string(), &self.limits).map_err(|error| issue(&error))
    }

    /// What is around the children of a node, and how deep they are.
    fn around(&self, parent: Option<NodeId>) -> (Vec<Around>, usize) {
        let mut tags = Vec::new();
        let mut id = parent;
        while let Some(node) = id.and_then(|id| self.view.shown(id)) {
            if let Content::Tag(tag) = &node.content {
                tags.extend(element::find(tag));
            }
            id = node.parent;
        }
        let inside = tags.iter().rev().fold(Around::default(), |around, row| around.inside(*row));
        (vec![inside], tags.len())
    }

    fn items(
        &self,
        row: ElementId,
        properties: Option<Members<'_>>,
        node: &dyn Fn() -> String,
    ) -> Result<Items, Issue> {
        if let Some(properties) = &properties {
            let mut report = Report::new();
            self.rules.properties(row, properties, &|| format!("{}/props", node()), &mut report);
            if let Some(issue) = report.issues.into_iter().next() {
                return Err(issue);
            }
        }
        let mut items = Items::default();
        self.showing().show(row, properties, &mut items).map_err(|error| issue(&error))?;
        Ok(items)
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

    /// A text as it can be shown now.
    fn text(&self, raw: &str) -> String {
        let scope = self.state.as_ref().map(|state| self.context.scope(state));
        let mut text = String::new();
        Cursor::default().advance(raw, true, scope.as_ref(), &mut text);
        text
    }

    fn show_properties(&mut self, path: &Pointer, id: NodeId) -> Result<(), Issue> {
        let Some(shown) = self.view.shown(id) else { return Ok(()) };
        let Content::Tag(tag) = &shown.content else { return self.rebuild(path, Some(id)) };
        let Some(row) = element::find(tag) else { return Ok(()) };
        let props = path.join("props");
        if change::find(&self.document, &props).is_none_or(|props| !props.is_object()) {
            return self.rebuild(path, Some(id));
        }
        let document = self.parsed(&props)?;
        let properties = document.root().as_object();
        let items = self.items(row, properties, &|| path.to_string())?;
        self.room_for(items.bytes)?;
        let mut patches = Vec::new();
        item_patches(id, &shown_items(&self.view, id), &items.list, &mut patches);
        self.shown_bytes += items.bytes;
        self.apply(patches)?;
        if any_text(document.root(), is_templated) {
            self.bound.insert(id, Bound::Properties(row, document));
        } else {
            self.bound.remove(&id);
        }
        Ok(())
    }

    fn show_text(&mut self, path: &Pointer, id: NodeId) -> Result<(), Issue> {
        let parent = self.view.shown(id).and_then(|node| node.parent);
        let value = change::find(&self.document, &path.join("value")).and_then(Value::as_str);
        let (Some(raw), Some(Content::Text(old))) =
            (value, self.view.shown(id).map(|node| &node.content))
        else {
            return self.rebuild(path, Some(id));
        };
        let outside = self.around(parent).0.last().copied().unwrap_or_default();
        NodeRules::text(outside, raw).map_err(|refusal| refused(path.to_string(), refusal))?;
        let new = self.text(raw);
        let raw = raw.to_owned();
        let patch = text_patch(id, old, &new);
        self.room_for(new.len())?;
        self.shown_bytes += new.len();
        self.apply(patch.into_iter().collect())?;
        if is_templated(&raw) {
            self.bound.insert(id, Bound::Text(raw));
        } else {
            self.bound.remove(&id);
        }
        Ok(())
    }

    /// Reads the state again and shows what depends on it.
    pub(super) fn read_state(&mut self) -> Result<(), Issue> {
        let state = self.document.pointer("/state/initial").and_then(Value::as_object);
        if state == self.state.as_ref() {
            return Ok(());
        }
        let state = state.cloned();
        self.work(state.as_ref().map_or(0, |state| crate::size::of_members(state).bytes))?;
        let before = std::mem::replace(&mut self.state, state);
        let result = self.show_bound();
        if result.is_err() {
            self.state = before;
        }
        result
    }

    pub(super) fn show_bound(&mut self) -> Result<(), Issue> {
        let mut patches = Vec::new();
        let mut bytes = 0;
        for (id, bound) in &self.bound {
            let Some(shown) = self.view.shown(*id) else { continue };
            match (bound, &shown.content) {
                (Bound::Text(raw), Content::Text(old)) => {
                    let new = self.text(raw);
                    bytes += new.len();
                    patches.extend(text_patch(*id, old, &new));
                }
                (Bound::Properties(row, document), Content::Tag(_)) => {
                    let mut items = Items::default();
                    self.showing()
                        .show(*row, document.root().as_object(), &mut items)
                        .map_err(|error| issue(&error))?;
                    bytes += items.bytes;
                    item_patches(*id, &shown.items, &items.list, &mut patches);
                }
                _ => {}
            }
            if bytes > MAX_OUTPUT_BYTES {
                let error = Error::new(codes::OUTPUT_TOO_LARGE, "the shown text is too large");
                return Err(issue(&error));
            }
        }
        self.work(bytes + self.bound.len() * NODE_WORK_BYTES)?;
        self.room_for(bytes)?;
        self.shown_bytes += bytes;
        self.apply(patches)
    }
}

fn refused(pointer: String, refusal: Refusal) -> Issue {
    let Refusal { code, why } = refusal;
    Issue { code: code.name, pointer, message: why.into_owned(), fix: code.fix.to_owned() }
}

fn pointer_of(text: &str) -> Result<Pointer, Issue> {
    Pointer::parse(text).map_err(|error| issue(&error))
}

fn shown_items(view: &View, id: NodeId) -> Vec<Item> {
    view.shown(id).map(|node| node.items.clone()).unwrap_or_default()
}
