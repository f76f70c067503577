//! Sizes of plain values, measured without recursion.

use serde_json::{Map, Value};

/// What one value costs besides its text: its place in a container.
const VALUE_BYTES: usize = 16;

/// Size of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Approximate bytes in memory.
    pub(crate) bytes: usize,
    /// Containers inside each other.
    pub(crate) depth: usize,
    /// Most elements of one array.
    pub(crate) items: usize,
}

pub(crate) fn of(value: &Value) -> Size {
    let mut size = Size::default();
    let mut open = vec![(value, 1)];
    measure(&mut size, &mut open);
    size
}

pub(crate) fn of_members(members: &Map<String, Value>) -> Size {
    let mut size = Size { depth: 1, ..Size::default() };
    let mut open = Vec::new();
    add_members(members, 2, &mut size, &mut open);
    measure(&mut size, &mut open);
    size
}

fn measure(size: &mut Size, open: &mut Vec<(&Value, usize)>) {
    while let Some((value, depth)) = open.pop() {
        size.bytes += VALUE_BYTES;
        match value {
            Value::String(text) => size.bytes += text.len(),
            Value::Array(items) => {
                size.depth = size.depth.max(depth);
                size.items = size.items.max(items.len());
                open.extend(items.iter().map(|item| (item, depth + 1)));
            }
            Value::Object(members) => {
                size.depth = size.depth.max(depth);
                add_members(members, depth + 1, size, open);
            }
            _ => {}
        }
    }
}

fn add_members<'v>(
    members: &'v Map<String, Value>,
    depth: usize,
    size: &mut Size,
    open: &mut Vec<(&'v Value, usize)>,
) {
    for (key, member) in members {
        size.bytes += key.len() + VALUE_BYTES;
        open.push((member, depth));
    }
}
