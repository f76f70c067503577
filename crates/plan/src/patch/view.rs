//! The view: what patches lead to. This is the reference that other appliers must agree with.

use std::collections::{BTreeMap, HashMap};

use super::{AttributeValue, Content, Item, NodeId, Patch, What};
use crate::codes;
use crate::error::Error;
use crate::escape;
use crate::limits::MAX_NODES;
use crate::rules::element;

/// What is shown: a tree of named nodes.
///
/// ```
/// use glasshouse_plan::patch::{Patch, View};
/// let patches: Vec<Patch> = serde_json::from_str(
///     r#"[{"op":"ins","id":0,"node":{"tag":"p"}},
///         {"op":"ins","id":1,"parent":0,"node":{"text":"a <"}},
///         {"op":"text","id":1,"append":true,"value":" b"}]"#,
/// ).unwrap();
/// let mut view = View::default();
/// view.apply(&patches)?;
/// assert_eq!(view.markup(), "<p>a &lt; b</p>");
/// # Ok::<(), glasshouse_plan::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct View {
    nodes: HashMap<NodeId, Shown>,
    root: Option<NodeId>,
}

#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) parent: Option<NodeId>,
    pub(crate) children: Vec<NodeId>,
    pub(crate) content: Content,
    pub(crate) items: Vec<Item>,
    ready: bool,
}

fn invalid(what: &str, id: NodeId) -> Error {
    Error::new(codes::PATCH_INVALID, "a patch does not fit the view")
        .why(format!("node {id}: {what}"))
        .with("node", id)
}

/// Where a child stands, or would stand as the last one.
fn place(children: &[NodeId], before: Option<NodeId>) -> Result<usize, Error> {
    match before {
        None => Ok(children.len()),
        Some(before) => children
            .iter()
            .position(|child| *child == before)
            .ok_or_else(|| invalid("it is no child of this parent", before)),
    }
}

impl View {
    /// Applies patches in order.
    ///
    /// # Errors
    ///
    /// `plan_patch_invalid` at the first patch that does not fit; those before it are applied, so
    /// the view should be thrown away.
    pub fn apply(&mut self, patches: &[Patch]) -> Result<(), Error> {
        patches.iter().try_for_each(|patch| self.apply_one(patch))
    }

    fn apply_one(&mut self, patch: &Patch) -> Result<(), Error> {
        match patch {
            Patch::Ins { id, parent, before, node } => self.insert(*id, *parent, *before, node),
            Patch::Del { id } => self.delete(*id),
            Patch::Mov { id, before } => self.move_before(*id, *before),
            Patch::Text { id, append, value } => match &mut self.node(*id)?.content {
                Content::Text(text) => {
                    if !append {
                        text.clear();
                    }
                    text.push_str(value);
                    Ok(())
                }
                Content::Tag(_) => Err(invalid("it is not a text", *id)),
            },
            Patch::Attr { id, slot, name, value } => {
                let value = match value {
                    AttributeValue::Text(text) => Some(Some(text.clone())),
                    AttributeValue::Bare(true) => Some(None),
                    AttributeValue::Bare(false) | AttributeValue::Removed(()) => None,
                };
                let what = value.map(|value| What::Attribute { name: name.clone(), value });
                self.put(*id, *slot, what)
            }
            Patch::Prop { id, slot, dom_event, event } => {
                let what = event
                    .clone()
                    .map(|event| What::Binding { dom_event: dom_event.clone(), event });
                self.put(*id, *slot, what)
            }
            Patch::Ready { id } => {
                self.node(*id)?.ready = true;
                Ok(())
            }
        }
    }

    fn node(&mut self, id: NodeId) -> Result<&mut Shown, Error> {
        self.nodes.get_mut(&id).ok_or_else(|| invalid("it is not there", id))
    }

    fn insert(
        &mut self,
        id: NodeId,
        parent: Option<NodeId>,
        before: Option<NodeId>,
        node: &Content,
    ) -> Result<(), Error> {
        if self.nodes.contains_key(&id) {
            return Err(invalid("it is there already", id));
        }
        if self.nodes.len() >= MAX_NODES {
            return Err(invalid("the view is full", id));
        }
        match parent {
            None if self.root.is_some() => return Err(invalid("there is a root already", id)),
            None => self.root = Some(id),
            Some(parent) => {
                let above = self.node(parent)?;
                if matches!(above.content, Content::Text(_)) {
                    return Err(invalid("a text has no children", parent));
                }
                let at = place(&above.children, before)?;
                above.children.insert(at, id);
            }
        }
        let shown = Shown {
            parent,
            children: Vec::new(),
            content: node.clone(),
            items: Vec::new(),
            ready: false,
        };
        self.nodes.insert(id, shown);
        Ok(())
    }

    fn delete(&mut self, id: NodeId) -> Result<(), Error> {
        match self.node(id)?.parent {
            None => self.root = None,
            Some(parent) => self.node(parent)?.children.retain(|child| *child != id),
        }
        let mut gone = vec![id];
        while let Some(id) = gone.pop() {
            gone.extend(self.nodes.remove(&id).into_iter().flat_map(|node| node.children));
        }
        Ok(())
    }

    fn move_before(&mut self, id: NodeId, before: Option<NodeId>) -> Result<(), Error> {
        let parent = self.node(id)?.parent.ok_or_else(|| invalid("the root does not move", id))?;
        let siblings = &mut self.node(parent)?.children;
        let from = place(siblings, Some(id))?;
        siblings.remove(from);
        let at = place(siblings, before)?;
        siblings.insert(at, id);
        Ok(())
    }

    fn put(&mut self, id: NodeId, slot: u16, what: Option<What>) -> Result<(), Error> {
        let node = self.node(id)?;
        if matches!(node.content, Content::Text(_)) {
            return Err(invalid("a text has no properties", id));
        }
        let place = node.items.binary_search_by_key(&slot, |item| item.slot);
        match (place, what) {
            (Ok(at), Some(what)) => node.items[at].what = what,
            (Err(at), Some(what)) => node.items.insert(at, Item { slot, what }),
            (Ok(at), None) => drop(node.items.remove(at)),
            (Err(_), None) => return Err(invalid("there is no such property", id)),
        }
        Ok(())
    }

    /// How many nodes are shown.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// How many of them are complete.
    #[must_use]
    pub fn ready_count(&self) -> usize {
        self.nodes.values().filter(|node| node.ready).count()
    }

    /// How many of them are elements.
    #[must_use]
    pub fn element_count(&self) -> usize {
        self.nodes.values().filter(|node| matches!(node.content, Content::Tag(_))).count()
    }

    /// How many nodes a node is, itself included.
    pub(crate) fn size_of(&self, id: NodeId) -> usize {
        let mut open = vec![id];
        let mut size = 0;
        while let Some(node) = open.pop().and_then(|id| self.nodes.get(&id)) {
            size += 1;
            open.extend(&node.children);
        }
        size
    }

    /// Bytes of all texts, values and payloads.
    pub(crate) fn value_bytes(&self) -> usize {
        let item = |item: &Item| match &item.what {
            What::Attribute { name, value } => name.len() + value.as_ref().map_or(0, String::len),
            What::Binding { event, .. } => {
                event.payload().map_or(0, |payload| crate::size::of_members(payload).bytes)
            }
        };
        let node = |node: &Shown| match &node.content {
            Content::Text(text) => text.len(),
            Content::Tag(_) => node.items.iter().map(item).sum(),
        };
        self.nodes.values().map(node).sum()
    }

    /// A name behind every name in use.
    pub(super) fn next_id(&self) -> NodeId {
        self.nodes.keys().max().map_or(0, |id| id.saturating_add(1))
    }

    pub(crate) fn root(&self) -> Option<NodeId> {
        self.root
    }

    pub(crate) fn shown(&self, id: NodeId) -> Option<&Shown> {
        self.nodes.get(&id)
    }

    /// For each element with bindings, how many belong to elements that end before it does:
    /// children before parents, as [`render`](crate::render) numbers them.
    fn finished(&self) -> BTreeMap<NodeId, usize> {
        let mut finished = BTreeMap::new();
        let mut before = 0;
        let mut open: Vec<(NodeId, bool)> = self.root.iter().map(|root| (*root, false)).collect();
        while let Some((id, end)) = open.pop() {
            let Some(node) = self.nodes.get(&id) else { continue };
            if !end {
                open.push((id, true));
                open.extend(node.children.iter().rev().map(|child| (*child, false)));
                continue;
            }
            let bound = |item: &&Item| matches!(item.what, What::Binding { .. });
            let own = node.items.iter().filter(bound).count();
            if own > 0 {
                finished.insert(id, before);
                before += own;
            }
        }
        finished
    }

    /// The markup, as [`render`](crate::render) writes it.
    #[must_use]
    pub fn markup(&self) -> String {
        let mut writer = Markup { finished: self.finished(), ..Markup::default() };
        // Names of nodes to begin, and of elements to end.
        let mut open: Vec<(NodeId, bool)> = self.root.iter().map(|root| (*root, false)).collect();
        while let Some((id, end)) = open.pop() {
            let Some(node) = self.nodes.get(&id) else { continue };
            match &node.content {
                Content::Text(text) => writer.text(text),
                Content::Tag(tag) if end => writer.end(tag),
                Content::Tag(tag) => {
                    let void = writer.start(id, tag, &node.items);
                    if !void {
                        open.push((id, true));
                        open.extend(node.children.iter().rev().map(|child| (*child, false)));
                    }
                }
            }
        }
        writer.out
    }
}

#[derive(Default)]
struct Markup {
    out: String,
    finished: BTreeMap<NodeId, usize>,
    /// The next line break would be dropped by a parser, so it is written twice.
    line_break_dropped: bool,
}

impl Markup {
    fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if std::mem::take(&mut self.line_break_dropped) && text.starts_with('\n') {
            self.out.push('\n');
        }
        escape::push(&mut self.out, text);
    }

    /// Writes a start tag; true for an element without content.
    fn start(&mut self, id: NodeId, tag: &str, items: &[Item]) -> bool {
        let mut number = self.finished.get(&id).copied().unwrap_or(0);
        self.out.push('<');
        self.out.push_str(tag);
        for item in items {
            match &item.what {
                What::Attribute { name, value } => self.attribute(name, value.as_deref()),
                What::Binding { dom_event, .. } => {
                    number += 1;
                    let name = format!("data-glasshouse-event-{dom_event}");
                    self.attribute(&name, Some(&format!("evt_{number}")));
                }
            }
        }
        self.out.push('>');
        let row = element::find(tag);
        let has = |flag| row.is_some_and(|row| row.has(flag));
        self.line_break_dropped = has(element::DROPS_LINE_BREAK);
        has(element::VOID)
    }

    fn attribute(&mut self, name: &str, value: Option<&str>) {
        self.out.push(' ');
        self.out.push_str(name);
        if let Some(value) = value {
            self.out.push_str("=\"");
            escape::push(&mut self.out, value);
            self.out.push('"');
        }
    }

    fn end(&mut self, tag: &str) {
        self.out.push_str("</");
        self.out.push_str(tag);
        self.out.push('>');
        self.line_break_dropped = false;
    }
}
