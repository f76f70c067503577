//! The tree: against the events in the order of their commits, and against each signed head.

use super::Broken;
use crate::checkpoint::SignedHead;
use crate::error::Result;
use crate::store::{Leaf, Store, TreeHead};
use crate::tree::Tree;

/// Leaves read at a time.
const LEAF_PAGE: usize = 4096;

/// What is wrong with the tree.
pub(super) struct TreeDefect {
    pub(super) broken: Broken,
    /// Where, when it is known for sure: an event that was moved away from there.
    pub(super) at: Option<u64>,
}

impl From<Broken> for TreeDefect {
    fn from(broken: Broken) -> Self {
        Self { broken, at: None }
    }
}

/// Recomputes the tree and compares it with the stored one and with each signed head.
pub(super) fn check_tree(
    store: &dyn Store,
    stored: &TreeHead,
    marks: &[SignedHead],
) -> Result<Option<TreeDefect>> {
    if let Some(newest) = marks.last()
        && newest.tree.size > stored.size
    {
        return super::cut_below(newest, stored, store).map(|broken| Some(broken.into()));
    }
    let mut tree = Tree::default();
    let mut marks = marks.iter().map(|head| &head.tree).peekable();
    let mut vouched = 0;
    loop {
        while let Some(mark) = marks.next_if(|mark| mark.size == tree.size()) {
            if mark.root != tree.root() {
                return first_unvouched(store, vouched, mark, &tree).map(|bad| Some(bad.into()));
            }
            vouched = mark.size;
        }
        if tree.size() == stored.size {
            break;
        }
        let leaves = store.leaves(tree.size(), LEAF_PAGE)?;
        if leaves.is_empty() {
            return Ok(Some(Broken::of_log("truncated", stored.size, tree.size()).into()));
        }
        for Leaf { position, branch, seq, hash } in leaves {
            if tree.size() == stored.size || marks.peek().is_some_and(|m| m.size == tree.size()) {
                break;
            }
            if position != tree.size() {
                let next = Leaf { position, branch, seq, hash };
                return out_of_place(store, stored.size, tree.size(), next).map(Some);
            }
            tree.push(&hash);
        }
    }
    if tree.root() != stored.root {
        return first_unvouched(store, vouched, stored, &tree).map(|bad| Some(bad.into()));
    }
    Ok(unknown_leaf(store, stored.size)?.map(TreeDefect::from))
}

/// A position without an event: the event that was moved behind all others is the one, if there is such;
/// else it is gone, and the next one is named.
fn out_of_place(store: &dyn Store, size: u64, gap: u64, next: Leaf) -> Result<TreeDefect> {
    let beyond = store.leaves(size, 1)?.pop().filter(|_| next.position < size);
    let is_moved = beyond.is_some() || next.position >= size;
    let Leaf { position, branch, seq, .. } = beyond.unwrap_or(next);
    let (expected, found) = (gap.into(), position.into());
    let broken =
        Broken { kind: "reordered", branch: Some(branch), seq: Some(seq), expected, found };
    Ok(TreeDefect { broken, at: is_moved.then_some(gap) })
}

/// Names the first event after those that a signed head vouches for.
fn first_unvouched(
    store: &dyn Store,
    vouched: u64,
    expected: &TreeHead,
    found: &Tree,
) -> Result<Broken> {
    let leaf = store.leaves(vouched, 1)?.pop();
    let (branch, seq) = leaf.map(|leaf| (leaf.branch, leaf.seq)).unzip();
    let (expected, found) = (expected.root.to_string().into(), found.root().to_string().into());
    Ok(Broken { kind: "hash_mismatch", branch, seq, expected, found })
}

/// An event that was put beside the tree. Events that were committed since the tree was read are
/// none, because the tree has grown with them.
fn unknown_leaf(store: &dyn Store, size: u64) -> Result<Option<Broken>> {
    let Some(last) = store.leaves(size, LEAF_PAGE)?.pop() else { return Ok(None) };
    let now = store.tree()?.size;
    Ok((last.position >= now).then(|| Broken {
        kind: "reordered",
        branch: Some(last.branch),
        seq: Some(last.seq),
        expected: now.into(),
        found: (last.position + 1).into(),
    }))
}
