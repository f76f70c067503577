//! Limits that hold while a plan is read, before memory is given to it.

/// Largest plan text. Model answers stay below a few hundred kilobytes; ten times that still
/// parses in a few milliseconds.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Deepest JSON nesting. A tree uses two levels a node, so this leaves room above the deepest
/// profile, and keeps the few recursive consumers (serde) far from the end of any stack.
pub const MAX_DEPTH: usize = 256;
/// Most JSON values: about seven a node for the most nodes.
pub const MAX_VALUES: usize = 400_000;
/// Most nodes in the tree; profiles allow far fewer.
pub const MAX_NODES: usize = 50_000;
/// Longest single string, so that one text cannot be the whole plan budget.
pub const MAX_STRING_BYTES: usize = 1024 * 1024;

/// What [`parse`](crate::parse) accepts at most. The defaults are the `MAX_*` constants, which are
/// also ceilings: a larger value is read as the ceiling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Text length in bytes.
    pub bytes: usize,
    /// JSON nesting: arrays and objects inside each other.
    pub depth: usize,
    /// JSON values, keys not counted.
    pub values: usize,
    /// Nodes below `root`, itself included.
    pub nodes: usize,
    /// One string or key after unescaping, in bytes.
    pub string_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: MAX_BYTES,
            depth: MAX_DEPTH,
            values: MAX_VALUES,
            nodes: MAX_NODES,
            string_bytes: MAX_STRING_BYTES,
        }
    }
}

impl Limits {
    /// The smaller of both in every limit.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        Self {
            bytes: self.bytes.min(other.bytes),
            depth: self.depth.min(other.depth),
            values: self.values.min(other.values),
            nodes: self.nodes.min(other.nodes),
            string_bytes: self.string_bytes.min(other.string_bytes),
        }
    }

    pub(crate) fn clamped(&self) -> Self {
        self.within(&Self::default())
    }
}
