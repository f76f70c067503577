//! The node tree as a flat list in pre-order: walking it is a loop, however deep it is.

use std::borrow::Cow;

use crate::codes;
use crate::error::Error;
use crate::guard::{flaw, is_blank};
use crate::json::{Document, Items, Json, Members};
use crate::rules::element::{self, ElementId};
use crate::suggest::nearest;

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Text,
    Element,
    Component,
}

/// One node. Indexes point into the document's tape or into the list itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) kind: NodeKind,
    /// Row of the rule table; `None` for a tag that is not in it, and for other nodes.
    pub(crate) element: Option<ElementId>,
    /// Levels below the root, which has 0.
    pub(crate) depth: u16,
    /// Value of a text, tag of an element, module of a component.
    pub(crate) name: u32,
    /// Properties, 0 when there are none (the tape's first value is the document).
    props: u32,
    /// The node's own object.
    object: u32,
    /// The node it is in; the root is its own.
    pub(crate) parent: u32,
    /// Position among its siblings.
    position: u32,
    /// First entry behind the node's descendants.
    pub(crate) end: u32,
}

/// A checked tree.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) entries: Vec<Entry>,
}

/// Children that are still to be read.
struct Frame<'a> {
    rest: Items<'a>,
    parent: u32,
    position: u32,
}

impl Tree {
    /// Reads the tree below `root`, whose JSON Pointer is `at`.
    ///
    /// # Errors
    ///
    /// `plan_shape_invalid` at the first node that is wrong, `plan_too_large` above `max_nodes`.
    pub(crate) fn read(root: Json<'_>, at: &str, max_nodes: usize) -> Result<Self, Error> {
        let mut tree = Self { entries: Vec::new() };
        let mut open: Vec<Frame<'_>> = Vec::new();
        let children = tree.add(root, 0, 0, 0, at)?;
        open.extend(children.map(|rest| Frame { rest, parent: 0, position: 0 }));
        while let Some(frame) = open.last_mut() {
            let parent = frame.parent;
            let Some(child) = frame.rest.next() else {
                tree.entries[parent as usize].end = tree.len();
                open.pop();
                continue;
            };
            let position = frame.position;
            frame.position += 1;
            if tree.entries.len() >= max_nodes {
                return Err(Error::new(codes::TOO_LARGE, "the plan has too many nodes")
                    .why(format!("nodes: limit {max_nodes}"))
                    .with("limit", "nodes")
                    .with("max", max_nodes));
            }
            let depth = u16::try_from(open.len()).unwrap_or(u16::MAX);
            let index = tree.len();
            if let Some(rest) = tree.add(child, parent, position, depth, at)? {
                open.push(Frame { rest, parent: index, position: 0 });
            }
        }
        Ok(tree)
    }

    fn len(&self) -> u32 {
        u32::try_from(self.entries.len()).unwrap_or(u32::MAX)
    }

    /// Adds one node and answers its children, if it has any.
    fn add<'a>(
        &mut self,
        node: Json<'a>,
        parent: u32,
        position: u32,
        depth: u16,
        at: &str,
    ) -> Result<Option<Items<'a>>, Error> {
        let index = self.len();
        let mut entry = Entry {
            kind: NodeKind::Text,
            element: None,
            depth,
            name: 0,
            props: 0,
            object: node.index(),
            parent,
            position,
            end: index + 1,
        };
        self.entries.push(entry);
        match read_node(node, &mut entry) {
            Ok(children) => {
                self.entries[index as usize] = entry;
                Ok(children)
            }
            Err((member, why)) => {
                let mut pointer = self.pointer(index, at);
                if !member.is_empty() {
                    pointer.push('/');
                    pointer.push_str(member);
                }
                Err(flaw(&pointer, &why))
            }
        }
    }

    /// JSON Pointer of an entry, for a tree whose root is at `at`.
    pub(crate) fn pointer(&self, index: u32, at: &str) -> String {
        let mut positions = Vec::new();
        let mut index = index;
        while let Some(entry) = self.entries.get(index as usize)
            && entry.depth > 0
        {
            positions.push(entry.position);
            index = entry.parent;
        }
        let mut pointer = at.to_owned();
        for position in positions.iter().rev() {
            pointer.push_str("/children/");
            pointer.push_str(&position.to_string());
        }
        pointer
    }
}

/// Member that is wrong, and why.
type NodeFlaw = (&'static str, Cow<'static, str>);

/// Members of nodes of any type.
const MEMBERS: &[&str] = &["type", "value", "tag", "module", "exportName", "props", "children"];

fn wrong<T>(member: &'static str, why: &'static str) -> Result<T, NodeFlaw> {
    Err((member, why.into()))
}

/// A member that no node has.
fn unknown(name: &str) -> String {
    let known = nearest(name, MEMBERS);
    let name: String = name.chars().take(64).collect();
    match known {
        Some(meant) => format!("a node has no member {name:?}; did you mean `{meant}`?"),
        None => format!("a node has no member {name:?}; what is of an element goes into its props"),
    }
}

fn read_node<'a>(node: Json<'a>, entry: &mut Entry) -> Result<Option<Items<'a>>, NodeFlaw> {
    let members = node.as_object().ok_or(("", "a node is an object".into()))?;
    let mut parts = Parts::default();
    for (key, value) in members {
        match key {
            "type" => parts.kind = value.as_text(),
            "value" => parts.value = Some(value),
            "tag" => parts.tag = Some(value),
            "module" => parts.module = Some(value),
            "exportName" => parts.export = Some(value),
            "props" => parts.props = Some(value),
            "children" => parts.children = Some(value),
            _ => return Err(("", unknown(key).into())),
        }
    }
    match parts.kind {
        Some("text") => parts.text(entry),
        Some("element") => parts.element(entry),
        Some("component") => parts.component(entry),
        _ => wrong("type", "text, element or component is expected"),
    }
}

#[derive(Default)]
struct Parts<'a> {
    kind: Option<&'a str>,
    value: Option<Json<'a>>,
    tag: Option<Json<'a>>,
    module: Option<Json<'a>>,
    export: Option<Json<'a>>,
    props: Option<Json<'a>>,
    children: Option<Json<'a>>,
}

impl<'a> Parts<'a> {
    fn text(self, entry: &mut Entry) -> Result<Option<Items<'a>>, NodeFlaw> {
        if self.tag.or(self.module).or(self.export).or(self.props).or(self.children).is_some() {
            return wrong("", "a text has only type and value");
        }
        let value = self.value.filter(|value| value.as_text().is_some());
        entry.name = value.ok_or(("value", "a string is expected".into()))?.index();
        Ok(None)
    }

    fn element(self, entry: &mut Entry) -> Result<Option<Items<'a>>, NodeFlaw> {
        if self.value.or(self.module).or(self.export).is_some() {
            return wrong("", "an element has only type, tag, props and children");
        }
        let tag = self.tag.ok_or(("tag", "a tag is expected".into()))?;
        let name = tag.as_text().filter(|name| !is_blank(name));
        entry.kind = NodeKind::Element;
        entry.element = element::find(name.ok_or(("tag", "a tag is a string, not blank".into()))?);
        entry.name = tag.index();
        self.common(entry)
    }

    fn component(self, entry: &mut Entry) -> Result<Option<Items<'a>>, NodeFlaw> {
        if self.value.or(self.tag).is_some() {
            return wrong("", "a component has only type, module, exportName, props and children");
        }
        let named = |member: Json<'_>| member.as_text().is_some_and(|name| !is_blank(name));
        let module = self.module.filter(|module| named(*module));
        entry.name =
            module.ok_or(("module", "a string that is not blank is expected".into()))?.index();
        if self.export.is_some_and(|export| !named(export)) {
            return wrong("exportName", "a string that is not blank is expected");
        }
        entry.kind = NodeKind::Component;
        self.common(entry)
    }

    fn common(self, entry: &mut Entry) -> Result<Option<Items<'a>>, NodeFlaw> {
        if let Some(props) = self.props {
            props.as_object().ok_or(("props", "an object is expected".into()))?;
            entry.props = props.index();
        }
        let Some(children) = self.children else { return Ok(None) };
        children.as_array().ok_or(("children", "an array is expected".into())).map(Some)
    }
}

/// A node of a plan.
#[derive(Debug, Clone, Copy)]
pub enum Node<'a> {
    /// Text with templates.
    Text(Text<'a>),
    /// An HTML element.
    Element(Element<'a>),
    /// A component from a module.
    Component(Component<'a>),
}

/// Where a node is.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    document: &'a Document,
    tree: &'a Tree,
    index: u32,
}

impl<'a> Place<'a> {
    fn entry(self) -> &'a Entry {
        &self.tree.entries[self.index as usize]
    }

    fn name(self) -> &'a str {
        self.document.at(self.entry().name).as_text().unwrap_or_default()
    }

    fn props(self) -> Option<Members<'a>> {
        let props = self.entry().props;
        if props == 0 { None } else { self.document.at(props).as_object() }
    }

    fn children(self) -> impl Iterator<Item = Node<'a>> {
        let end = self.entry().end;
        let mut next = self.index + 1;
        std::iter::from_fn(move || {
            if next >= end {
                return None;
            }
            let place = Place { index: next, ..self };
            next = place.entry().end;
            Some(node(place))
        })
    }
}

fn node(place: Place<'_>) -> Node<'_> {
    match place.entry().kind {
        NodeKind::Text => Node::Text(Text(place)),
        NodeKind::Element => Node::Element(Element(place)),
        NodeKind::Component => Node::Component(Component(place)),
    }
}

pub(crate) fn node_at<'a>(document: &'a Document, tree: &'a Tree, index: u32) -> Node<'a> {
    node(Place { document, tree, index })
}

impl Node<'_> {
    fn place(&self) -> Place<'_> {
        match self {
            Self::Text(Text(place))
            | Self::Element(Element(place))
            | Self::Component(Component(place)) => *place,
        }
    }

    /// Levels below the root, which has 0.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.place().entry().depth.into()
    }

    /// JSON Pointer of the node in its plan.
    #[must_use]
    pub fn pointer(&self) -> String {
        let place = self.place();
        place.tree.pointer(place.index, "/root")
    }
}

/// A text node.
#[derive(Debug, Clone, Copy)]
pub struct Text<'a>(Place<'a>);

impl<'a> Text<'a> {
    /// The text as written, templates not resolved.
    #[must_use]
    pub fn value(self) -> &'a str {
        self.0.name()
    }
}

/// An element node.
#[derive(Debug, Clone, Copy)]
pub struct Element<'a>(Place<'a>);

impl<'a> Element<'a> {
    /// The tag as written.
    #[must_use]
    pub fn tag(self) -> &'a str {
        self.0.name()
    }

    /// The properties, if there are any.
    #[must_use]
    pub fn props(self) -> Option<Members<'a>> {
        self.0.props()
    }

    /// The children in order.
    pub fn children(self) -> impl Iterator<Item = Node<'a>> {
        self.0.children()
    }
}

/// A component node.
#[derive(Debug, Clone, Copy)]
pub struct Component<'a>(Place<'a>);

impl<'a> Component<'a> {
    /// The module specifier.
    #[must_use]
    pub fn module(self) -> &'a str {
        self.0.name()
    }

    /// The export, `default` unless it is named.
    #[must_use]
    pub fn export(self) -> &'a str {
        let object = self.0.document.at(self.0.entry().object);
        object.get("exportName").and_then(Json::as_text).unwrap_or("default")
    }

    /// The properties, if there are any.
    #[must_use]
    pub fn props(self) -> Option<Members<'a>> {
        self.0.props()
    }

    /// The children in order.
    pub fn children(self) -> impl Iterator<Item = Node<'a>> {
        self.0.children()
    }
}

impl Entry {
    pub(crate) fn props_in(self, document: &Document) -> Option<Members<'_>> {
        if self.props == 0 { None } else { document.at(self.props).as_object() }
    }

    pub(crate) fn name_in(self, document: &Document) -> &str {
        document.at(self.name).as_text().unwrap_or_default()
    }
}
