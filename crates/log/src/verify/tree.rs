//! The tree: against the events in the order of their commits, and against each signed head.

use super::Broken;
use crate::checkpoint::SignedHead;
use crate::error::Result;
use crate::store::{Leaf, Store, TreeHead};
use crate::tree::Tree;

/// Leaves read at a time.
const LEAF_PAGE: usize = 4096;

/// Recomputes the tree and compares it with the stored one and with each signed head.
pub(super) fn check_tree(
    store: &dyn Store,
    stored: &TreeHead,
    marks: &[SignedHead],
) -> Result<Option<Broken>> {
    if let Some(newest) = marks.last()
        && newest.tree.size > stored.size
    {
        return super::cut_below(newest, stored, store).map(Some);
    }
    let mut tree = Tree::default();
    let mut marks = marks.iter().map(|head| &head.tree).peekable();
    let mut vouched = 0;
    loop {
        while let Some(mark) = marks.next_if(|mark| mark.size == tree.size()) {
            if mark.root != tree.root() {
                return first_unvouched(store, vouched, mark, &tree).map(Some);
            }
            vouched = mark.size;
        }
        if tree.size() == stored.size {
            break;
        }
        let leaves = store.leaves(tree.size(), LEAF_PAGE)?;
        if leaves.is_empty() {
            return Ok(Some(Broken::of_log("truncated", stored.size, tree.size())));
        }
        for Leaf { position, branch, seq, hash } in leaves {
            if tree.size() == stored.size || marks.peek().is_some_and(|m| m.size == tree.size()) {
                break;
            }
            if position != tree.size() {
                let (expected, found) = (tree.size().into(), position.into());
                let (branch, seq) = (Some(branch), Some(seq));
                let kind = "reordered";
                return Ok(Some(Broken { kind, branch, seq, expected, found }));
            }
            tree.push(&hash);
        }
    }
    if tree.root() != stored.root {
        return first_unvouched(store, vouched, stored, &tree).map(Some);
    }
    unknown_leaf(store, stored.size)
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
