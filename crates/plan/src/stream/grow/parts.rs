//! What is known of a node while it is being read, and of the place that is being read.

use crate::rules::element::ElementId;
use crate::rules::nesting::Around;
use crate::stream::text::Cursor;
use crate::tree::NodeKind;

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// A member of a node; the value is its bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeKey {
    Type = 1,
    Tag = 1 << 1,
    Value = 1 << 2,
    Props = 1 << 3,
    Children = 1 << 4,
    Module = 1 << 5,
    Export = 1 << 6,
}

const fn bits(keys: &[NodeKey]) -> u8 {
    let (mut bits, mut at) = (0, 0);
    while at < keys.len() {
        bits |= keys[at] as u8;
        at += 1;
    }
    bits
}

pub(super) const TEXT_KEYS: u8 = bits(&[NodeKey::Type, NodeKey::Value]);
pub(super) const ELEMENT_KEYS: u8 =
    bits(&[NodeKey::Type, NodeKey::Tag, NodeKey::Props, NodeKey::Children]);

impl NodeKey {
    pub(super) fn of(key: &str) -> Option<Self> {
        Some(match key {
            "type" => Self::Type,
            "tag" => Self::Tag,
            "value" => Self::Value,
            "props" => Self::Props,
            "children" => Self::Children,
            "module" => Self::Module,
            "exportName" => Self::Export,
            _ => return None,
        })
    }
}

/// A container whose members are looked at.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// The outermost object before its first key.
    Top,
    Plan(PlanKey),
    Node(u32, Option<NodeKey>),
    Children(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlanKey {
    Root,
    State,
    Other,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Growth {
    pub(super) parent: u32,
    pub(super) position: u32,
    pub(super) depth: u16,
    pub(super) first_child: u32,
    pub(super) last_child: u32,
    pub(super) next_sibling: u32,
    pub(super) children: u32,
    pub(super) seen: u8,
    pub(super) kind: Option<NodeKind>,
    pub(super) element: Option<ElementId>,
    /// Places on the tape; 0 while they are not there.
    pub(super) tag: u32,
    pub(super) value: u32,
    pub(super) props: u32,
    pub(super) around: Around,
    pub(super) text: Cursor,
    /// Bytes of the text that are known to be allowed where it stands.
    pub(super) allowed_bytes: usize,
    pub(super) shown: bool,
    pub(super) closed: bool,
}

impl Growth {
    /// A node of which nothing is known but what it is below.
    pub(super) fn below(parent: u32) -> Self {
        Self {
            parent,
            position: 0,
            depth: 0,
            first_child: NONE,
            last_child: NONE,
            next_sibling: NONE,
            children: 0,
            seen: 0,
            kind: None,
            element: None,
            tag: 0,
            value: 0,
            props: 0,
            around: Around::default(),
            text: Cursor::default(),
            allowed_bytes: 0,
            shown: false,
            closed: false,
        }
    }
}
