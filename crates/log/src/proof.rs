//! Proofs that others can check without the log: that an event is in it, and that a later log
//! extends an earlier one. As RFC 6962 and RFC 9162 define them.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use glasshouse_model::event::SALT_BYTES;
use glasshouse_model::{BranchId, Digest, Seq};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::error::Result;
use crate::store::Store;
use crate::tree::{Tree, node};
use crate::verify::Broken;

/// Leaves read at a time.
const LEAF_PAGE: usize = 4096;

/// That an event is covered by a signed head, with everything that checking it needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EventProof {
    /// The branch that stores the event.
    pub branch: BranchId,
    /// Its sequence.
    pub seq: Seq,
    /// Index of its leaf: how many events of the tenant were committed before it.
    pub index: u64,
    /// Roots of the subtrees beside the way from leaf to root, the lowest first.
    #[serde(serialize_with = "as_base64")]
    #[schemars(with = "Vec<String>")]
    pub path: Vec<Digest>,
    /// The signed head that covers it.
    pub checkpoint: String,
    /// The log's verifier key. Who checks should know it from elsewhere.
    pub key: String,
    /// The event as it was hashed.
    pub event: ProvedEvent,
}

/// The hashed parts of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProvedEvent {
    /// Hash of the event before it.
    pub prev: Digest,
    /// Its hash.
    pub hash: Digest,
    /// The header's bytes.
    pub header: String,
    /// The body's salt in hexadecimal; `None` when the body was erased.
    pub salt: Option<String>,
    /// The body's bytes; `None` when it was erased.
    pub body: Option<String>,
}

impl ProvedEvent {
    /// The salt; `None` when the body was erased, or when it is no salt.
    pub(crate) fn salt_bytes(&self) -> Option<[u8; SALT_BYTES]> {
        let (pairs, rest) = self.salt.as_ref()?.as_bytes().as_chunks::<2>();
        let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        bytes.filter(|_| rest.is_empty())?.try_into().ok()
    }
}

impl EventProof {
    /// The proof as C2SP's tlog-proof has it: what other programs read.
    #[must_use]
    pub fn to_text(&self) -> String {
        let path: String = self.path.iter().map(|node| base64(node) + "\n").collect();
        format!("c2sp.org/tlog-proof@v1\nindex {}\n{path}\n{}", self.index, self.checkpoint)
    }
}

/// Whether one signed head extends another.
#[derive(Debug, Clone, PartialEq)]
pub enum Consistency {
    /// It does, and this proves it.
    Extends(Extension),
    /// Something of it does not prove itself; the first of it.
    Broken(Broken),
}

/// That the events of a signed head are the first events of a later one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Extension {
    /// Events that the earlier head covers.
    pub old_size: u64,
    /// Events that the later head covers.
    pub new_size: u64,
    /// The proof: roots of subtrees.
    #[serde(serialize_with = "as_base64")]
    pub path: Vec<Digest>,
    /// The earlier head.
    pub old: String,
    /// The later head.
    pub new: String,
    /// The log's verifier key. Who checks should know it from elsewhere.
    pub key: String,
}

impl Consistency {
    /// Whether the later head extends the earlier one.
    #[must_use]
    pub const fn is_ok(&self) -> bool {
        matches!(self, Self::Extends(_))
    }
}

impl Serialize for Consistency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Extends(rest) => crate::verify::Tagged { ok: true, rest }.serialize(serializer),
            Self::Broken(rest) => crate::verify::Tagged { ok: false, rest }.serialize(serializer),
        }
    }
}

fn base64(digest: &Digest) -> String {
    BASE64.encode(digest.as_bytes())
}

fn as_base64<S: Serializer>(path: &[Digest], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(path.iter().map(base64))
}

/// The path from a leaf to the root of the first `size` leaves.
pub(crate) fn inclusion(store: &dyn Store, index: u64, size: u64) -> Result<Vec<Digest>> {
    roots(store, &inclusion_ranges(index, size))
}

/// The proof that the first `new` leaves begin with the first `old`.
pub(crate) fn consistency(store: &dyn Store, old: u64, new: u64) -> Result<Vec<Digest>> {
    roots(store, &consistency_ranges(old, new))
}

/// PATH of RFC 6962, as ranges of leaves.
fn inclusion_ranges(index: u64, size: u64) -> Vec<Range<u64>> {
    let (mut path, mut part) = (Vec::new(), 0..size);
    while part.end - part.start > 1 {
        let middle = part.start + largest_power_below(part.end - part.start);
        let (left, right) = (part.start..middle, middle..part.end);
        let (inside, beside) = if index < middle { (left, right) } else { (right, left) };
        path.push(beside);
        part = inside;
    }
    path.reverse();
    path
}

/// PROOF of RFC 6962, as ranges of leaves.
fn consistency_ranges(old: u64, new: u64) -> Vec<Range<u64>> {
    if old == 0 || old >= new {
        return Vec::new();
    }
    let (mut path, mut part) = (Vec::new(), 0..new);
    while part.end > old {
        let middle = part.start + largest_power_below(part.end - part.start);
        let (left, right) = (part.start..middle, middle..part.end);
        let (inside, beside) = if old <= middle { (left, right) } else { (right, left) };
        path.push(beside);
        part = inside;
    }
    // The old tree itself is known to who checks, unless it is only a part of what is left.
    if part.start > 0 {
        path.push(part);
    }
    path.reverse();
    path
}

/// The largest power of two below a number above 1.
fn largest_power_below(number: u64) -> u64 {
    1 << (number - 1).ilog2()
}

/// Roots over ranges of leaves that do not overlap. Reads each leaf once.
fn roots(store: &dyn Store, ranges: &[Range<u64>]) -> Result<Vec<Digest>> {
    ranges
        .iter()
        .map(|range| {
            let mut tree = Tree::default();
            let mut next = range.start;
            while next < range.end {
                let left = usize::try_from(range.end - next).unwrap_or(usize::MAX);
                let leaves = store.leaves(next, left.min(LEAF_PAGE))?;
                if leaves.is_empty() {
                    break;
                }
                leaves.iter().for_each(|leaf| tree.push(&leaf.hash));
                next += u64::try_from(leaves.len()).unwrap_or(u64::MAX);
            }
            Ok(tree.root())
        })
        .collect()
}

/// Whether the path leads from an event's hash to the root: RFC 9162, 2.1.3.2.
#[must_use]
pub fn proves_inclusion(
    hash: &Digest,
    index: u64,
    size: u64,
    path: &[Digest],
    root: &Digest,
) -> bool {
    if index >= size {
        return false;
    }
    let (mut at, mut last, mut found) = (index, size - 1, crate::tree::leaf(hash));
    for beside in path {
        if last == 0 {
            return false;
        }
        if at & 1 == 1 || at == last {
            found = node(beside, &found);
            while at & 1 == 0 && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            found = node(&found, beside);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    last == 0 && found == *root
}

/// Whether the path leads from one root to another: RFC 9162, 2.1.4.2.
#[must_use]
pub fn proves_consistency(
    (old_size, old_root): (u64, &Digest),
    (new_size, new_root): (u64, &Digest),
    path: &[Digest],
) -> bool {
    if old_size == 0 {
        return path.is_empty() && *old_root == Digest::of(b"");
    }
    if old_size >= new_size {
        return old_size == new_size && path.is_empty() && old_root == new_root;
    }
    let own = old_size.is_power_of_two().then_some(old_root);
    let mut path = own.into_iter().chain(path);
    let (mut at, mut last) = (old_size - 1, new_size - 1);
    while at & 1 == 1 {
        (at, last) = (at >> 1, last >> 1);
    }
    let Some(first) = path.next() else { return false };
    let (mut old, mut new) = (*first, *first);
    for beside in path {
        if last == 0 {
            return false;
        }
        if at & 1 == 1 || at == last {
            (old, new) = (node(beside, &old), node(beside, &new));
            while at & 1 == 0 && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            new = node(&new, beside);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    last == 0 && old == *old_root && new == *new_root
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(count: u32) -> Vec<Digest> {
        (0..count).map(|n| Digest::of(&n.to_be_bytes())).collect()
    }

    fn root(hashes: &[Digest]) -> Digest {
        let mut tree = Tree::default();
        hashes.iter().for_each(|hash| tree.push(hash));
        tree.root()
    }

    fn path(hashes: &[Digest], ranges: &[Range<u64>]) -> Vec<Digest> {
        let at = |n: u64| usize::try_from(n).unwrap();
        ranges.iter().map(|range| root(&hashes[at(range.start)..at(range.end)])).collect()
    }

    #[test]
    fn every_leaf_of_every_small_tree_is_proved_and_no_other() {
        let hashes = hashes(40);
        for size in 1..=40_u64 {
            let all = &hashes[..usize::try_from(size).unwrap()];
            let root = root(all);
            for (index, hash) in (0..).zip(all) {
                let path = path(all, &inclusion_ranges(index, size));
                assert!(proves_inclusion(hash, index, size, &path, &root), "{index} of {size}");
                let other = Digest::of(b"other");
                assert!(!proves_inclusion(&other, index, size, &path, &root));
                assert!(!proves_inclusion(hash, index + 1, size, &path, &root) || size == 1);
                for cut in 0..path.len() {
                    assert!(!proves_inclusion(hash, index, size, &path[..cut], &root));
                    let mut changed = path.clone();
                    changed[cut] = other;
                    assert!(!proves_inclusion(hash, index, size, &changed, &root));
                }
                let long = [path.as_slice(), &[other]].concat();
                assert!(!proves_inclusion(hash, index, size, &long, &root));
            }
        }
    }

    #[test]
    fn every_small_tree_extends_every_smaller_one_and_no_other() {
        let hashes = hashes(40);
        let first = |count: u64| &hashes[..usize::try_from(count).unwrap()];
        for new in 0..=40_u64 {
            let new_root = root(first(new));
            for old in 0..=new {
                let old_root = root(first(old));
                let path = path(first(new), &consistency_ranges(old, new));
                let proves = |old_root: &Digest, path: &[Digest]| {
                    proves_consistency((old, old_root), (new, &new_root), path)
                };
                assert!(proves(&old_root, &path), "{old} of {new}");
                let other = Digest::of(b"other");
                assert!(!proves(&other, &path), "{old} of {new}");
                assert!(!proves(&old_root, &[path.as_slice(), &[other]].concat()));
                for cut in 0..path.len() {
                    assert!(!proves(&old_root, &path[..cut]), "{old} of {new}");
                    let mut changed = path.clone();
                    changed[cut] = other;
                    assert!(!proves(&old_root, &changed), "{old} of {new}");
                }
            }
        }
    }

    /// Sizes and positions of the examples in RFC 6962, 2.1.3.
    #[test]
    fn the_proofs_of_the_rfc_have_their_shape() {
        let check = |found: Vec<Range<u64>>, expected: &[(u64, u64)]| {
            let found: Vec<_> = found.iter().map(|range| (range.start, range.end)).collect();
            assert_eq!(found, expected);
        };
        check(inclusion_ranges(0, 7), &[(1, 2), (2, 4), (4, 7)]);
        check(inclusion_ranges(3, 7), &[(2, 3), (0, 2), (4, 7)]);
        check(inclusion_ranges(4, 7), &[(5, 6), (6, 7), (0, 4)]);
        check(inclusion_ranges(6, 7), &[(4, 6), (0, 4)]);
        check(consistency_ranges(3, 7), &[(2, 3), (3, 4), (0, 2), (4, 7)]);
        check(consistency_ranges(4, 7), &[(4, 7)]);
        check(consistency_ranges(6, 7), &[(4, 6), (6, 7), (0, 4)]);
    }
}
