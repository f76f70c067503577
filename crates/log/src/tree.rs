//! The Merkle tree of RFC 6962 over event hashes in commit order, kept as its right edge.
//!
//! The right edge is the list of perfect subtrees that the leaves so far fill, largest first: one
//! for each set bit of the size. It is all that appending and computing the root need, so the whole
//! tree is never in memory and its state is at most 64 digests.

use glasshouse_model::Digest;

const LEAF: &[u8] = &[0];
const NODE: &[u8] = &[1];

/// The leaf of an event.
pub(crate) fn leaf(event_hash: &Digest) -> Digest {
    Digest::of_parts(&[LEAF, event_hash.as_bytes()])
}

/// The node over two others.
pub(crate) fn node(left: &Digest, right: &Digest) -> Digest {
    Digest::of_parts(&[NODE, left.as_bytes(), right.as_bytes()])
}

/// A tree of `size` leaves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Tree {
    size: u64,
    peaks: Vec<Digest>,
}

impl Tree {
    /// Number of leaves.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// Adds the next event's hash.
    pub(crate) fn push(&mut self, event_hash: &Digest) {
        let mut added = leaf(event_hash);
        let mut filled = self.size;
        while filled & 1 == 1 {
            let left = self.peaks.pop().expect("a set bit of the size has a peak");
            added = node(&left, &added);
            filled >>= 1;
        }
        self.peaks.push(added);
        self.size += 1;
    }

    /// The root that RFC 6962 defines; of no leaves, the hash of nothing.
    pub(crate) fn root(&self) -> Digest {
        let mut peaks = self.peaks.iter().rev();
        let Some(last) = peaks.next() else { return Digest::of(b"") };
        peaks.fold(*last, |right, left| node(left, &right))
    }

    /// The right edge as stored: the peaks, 32 bytes each.
    pub(crate) fn edge_bytes(&self) -> Vec<u8> {
        self.peaks.iter().flat_map(|peak| *peak.as_bytes()).collect()
    }

    /// Reads what [`Tree::edge_bytes`] wrote; `None` when the length does not fit the size.
    pub(crate) fn from_edge(size: u64, bytes: &[u8]) -> Option<Self> {
        let (chunks, rest) = bytes.as_chunks::<32>();
        let wanted = usize::try_from(size.count_ones()).ok()?;
        (rest.is_empty() && chunks.len() == wanted).then(|| Self {
            size,
            peaks: chunks.iter().map(|chunk| Digest::from_bytes(*chunk)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recursive definition of RFC 6962, section 2.1.
    fn defined(leaves: &[Digest]) -> Digest {
        match leaves {
            [] => Digest::of(b""),
            [leaf] => Digest::of_parts(&[LEAF, leaf.as_bytes()]),
            _ => {
                let split = leaves.len().next_power_of_two() / 2;
                let (left, right) = leaves.split_at(split);
                Digest::of_parts(&[NODE, defined(left).as_bytes(), defined(right).as_bytes()])
            }
        }
    }

    #[test]
    fn edge_and_definition_agree_at_every_size() {
        let leaves: Vec<_> = (0..130_u32).map(|n| Digest::of(&n.to_be_bytes())).collect();
        let mut tree = Tree::default();
        assert_eq!(tree.root(), defined(&[]));
        for (n, leaf) in leaves.iter().enumerate() {
            tree.push(leaf);
            assert_eq!(tree.root(), defined(&leaves[..=n]), "size {}", n + 1);
            let stored = Tree::from_edge(tree.size(), &tree.edge_bytes());
            assert_eq!(stored.as_ref(), Some(&tree));
        }
    }

    #[test]
    fn an_edge_of_another_length_is_refused() {
        assert!(Tree::from_edge(3, &[0; 32]).is_none());
        assert!(Tree::from_edge(1, &[0; 33]).is_none());
        assert!(Tree::from_edge(0, &[]).is_some());
    }
}
