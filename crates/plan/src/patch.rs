//! Patches: what changes in a view, as data.
//!
//! A view is what a person sees of a plan: nodes that passed schema and policy, nothing else. It is
//! never sent again as a whole; each change is a [`Patch`], patches travel in numbered [`Frame`]s,
//! and a [`Screen`] applies them. [`View::markup`] of what they lead to equals the markup of
//! [`render`](crate::render), byte for byte.

mod diff;
mod live;
mod screen;
mod view;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::attributes::Output;
use crate::error::Error;
use crate::event::Event;
use crate::rules::Refusal;

pub use diff::diff;
pub use live::Live;
pub use screen::{Accepted, Screen};
pub use view::View;

/// Name of a node in a view: its place in the order in which the plan's text begins its nodes. It
/// never changes while the node is shown, and is never given again.
pub type NodeId = u32;

/// One change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Patch {
    /// A node appears.
    Ins {
        /// Its name.
        id: NodeId,
        /// What it is below; the root has nothing above it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<NodeId>,
        /// The sibling that it comes before; without one it becomes the last child.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<NodeId>,
        /// What it is.
        node: Content,
    },
    /// A node and everything below it disappear.
    Del {
        /// Its name.
        id: NodeId,
    },
    /// A node moves among its siblings, with everything below it.
    Mov {
        /// Its name.
        id: NodeId,
        /// The sibling that it comes before; without one it becomes the last child.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<NodeId>,
    },
    /// A text grows at its end, or is replaced.
    Text {
        /// The text node.
        id: NodeId,
        /// Whether the value is added at the end.
        append: bool,
        /// The new text, or what is added.
        value: String,
    },
    /// An attribute gets a value or goes away.
    Attr {
        /// The element.
        id: NodeId,
        /// Where the attribute stands among the element's properties.
        slot: u16,
        /// Its name in HTML.
        name: String,
        /// Its value.
        value: AttributeValue,
    },
    /// An event binding is made or goes away.
    Prop {
        /// The element.
        id: NodeId,
        /// Where the binding stands among the element's properties.
        slot: u16,
        /// The browser's event, such as `click`.
        dom_event: String,
        /// The plan's event; nothing when the binding goes away.
        event: Option<Event>,
    },
    /// The node is complete: until the state changes no patch touches it again.
    Ready {
        /// Its name.
        id: NodeId,
    },
}

/// What a node is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// An element with this tag.
    Tag(Cow<'static, str>),
    /// A text.
    Text(String),
}

/// Value of an attribute: a text, `true` for a name alone, `null` for none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AttributeValue {
    /// The attribute has this value.
    Text(String),
    /// The attribute is there, without a value.
    Bare(bool),
    /// The attribute is not there.
    Removed(()),
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The whole plan is shown.
    Complete,
    /// The text broke off; what was shown so far stays.
    Incomplete,
    /// The plan is refused; nothing of it is shown any more.
    Refused,
}

/// Patches that belong together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frame {
    /// The run; a later run has a larger number.
    pub run: u64,
    /// Number of the frame in its run, from 0.
    pub seq: u64,
    /// What changes, in order.
    pub patches: Vec<Patch>,
    /// Set in the last frame of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
}

/// An attribute or a binding of an element.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Item {
    pub(crate) slot: u16,
    pub(crate) what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum What {
    Attribute { name: String, value: Option<String> },
    Binding { dom_event: String, event: Event },
}

impl Item {
    fn gone(&self, id: NodeId) -> Patch {
        let slot = self.slot;
        match &self.what {
            What::Attribute { name, .. } => {
                Patch::Attr { id, slot, name: name.clone(), value: AttributeValue::Removed(()) }
            }
            What::Binding { dom_event, .. } => {
                Patch::Prop { id, slot, dom_event: dom_event.clone(), event: None }
            }
        }
    }

    fn there(self, id: NodeId) -> Patch {
        let slot = self.slot;
        match self.what {
            What::Attribute { name, value } => {
                let value = value.map_or(AttributeValue::Bare(true), AttributeValue::Text);
                Patch::Attr { id, slot, name, value }
            }
            What::Binding { dom_event, event } => {
                Patch::Prop { id, slot, dom_event, event: Some(event) }
            }
        }
    }

    fn same_name(&self, other: &Self) -> bool {
        match (&self.what, &other.what) {
            (What::Attribute { name: a, .. }, What::Attribute { name: b, .. })
            | (What::Binding { dom_event: a, .. }, What::Binding { dom_event: b, .. }) => a == b,
            _ => false,
        }
    }
}

/// Collects what is shown of an element, in the order of slots.
#[derive(Debug, Default)]
pub(crate) struct Items {
    pub(crate) list: Vec<Item>,
    /// Bytes of values and payloads.
    pub(crate) bytes: usize,
}

impl Output for Items {
    fn attribute(&mut self, slot: u16, name: &str, value: Option<&str>) -> Result<(), Error> {
        self.bytes += name.len() + value.map_or(0, str::len);
        let what = What::Attribute { name: name.to_owned(), value: value.map(str::to_owned) };
        self.list.push(Item { slot, what });
        Ok(())
    }

    fn binding(
        &mut self,
        slot: u16,
        dom_event: String,
        event: Event,
        payload_bytes: usize,
    ) -> Result<(), Error> {
        self.bytes += dom_event.len() + payload_bytes;
        self.list.push(Item { slot, what: What::Binding { dom_event, event } });
        Ok(())
    }

    fn image_origin(&mut self, _: String) {}

    fn note(&mut self, _: &str, _: Refusal) {}
}

/// Patches that show the items of an element that has none yet.
pub(crate) fn first_patches(id: NodeId, items: Vec<Item>, patches: &mut Vec<Patch>) {
    patches.extend(items.into_iter().map(|item| item.there(id)));
}

/// Patches that lead from one list of items to another; both are in the order of slots.
pub(crate) fn item_patches(id: NodeId, old: &[Item], new: &[Item], patches: &mut Vec<Patch>) {
    let find =
        |list: &'_ [Item], slot: u16| list.binary_search_by_key(&slot, |item| item.slot).ok();
    for item in old {
        let kept = find(new, item.slot).is_some_and(|at| new[at].same_name(item));
        if !kept {
            patches.push(item.gone(id));
        }
    }
    for item in new {
        if find(old, item.slot).is_none_or(|at| old[at] != *item) {
            patches.push(item.clone().there(id));
        }
    }
}

/// The patch from one text to another, if they differ.
pub(crate) fn text_patch(id: NodeId, old: &str, new: &str) -> Option<Patch> {
    if old == new {
        return None;
    }
    Some(match new.strip_prefix(old) {
        Some(added) => Patch::Text { id, append: true, value: added.to_owned() },
        None => Patch::Text { id, append: false, value: new.to_owned() },
    })
}
