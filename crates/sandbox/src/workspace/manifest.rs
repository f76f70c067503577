//! What a tree holds: path to entry, sorted, with a canonical byte form and digest.

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_model::{CanonicalPath, Digest};
use serde::{Deserialize, Serialize};

/// One thing in a tree. Of the mode only the executable bit counts, as in git.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    /// A regular file.
    File {
        /// Whether its owner may execute it.
        executable: bool,
        /// Digest of its bytes.
        digest: Digest,
        /// Length in bytes.
        size_bytes: u64,
    },
    /// A symbolic link; never followed.
    Symlink {
        /// Its text.
        target: String,
    },
    /// A directory with nothing in it. Others are implied by what they hold.
    Dir,
    /// Something that is no content: reported, never restored, never merged.
    Special {
        /// Which.
        what: SpecialKind,
    },
}

/// Kinds of file that are no content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpecialKind {
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A block or character device.
    Device,
}

impl Entry {
    /// The digest of a regular file's bytes.
    #[must_use]
    pub const fn file_digest(&self) -> Option<&Digest> {
        match self {
            Self::File { digest, .. } => Some(digest),
            _ => None,
        }
    }

    /// The mode git would record, in octal: `100644`, `100755` or `120000`; none for what git
    /// does not hold.
    #[must_use]
    pub const fn git_mode(&self) -> Option<&'static str> {
        match self {
            Self::File { executable: false, .. } => Some("100644"),
            Self::File { executable: true, .. } => Some("100755"),
            Self::Symlink { .. } => Some("120000"),
            Self::Dir | Self::Special { .. } => None,
        }
    }
}

/// A whole tree.
///
/// ```
/// use glasshouse_sandbox::workspace::{Entry, Manifest};
/// use glasshouse_model::CanonicalPath;
/// let mut tree = Manifest::default();
/// tree.insert(CanonicalPath::parse("link").unwrap(), Entry::Symlink { target: "a".into() });
/// assert_eq!(tree.digest(), serde_json::from_slice::<Manifest>(&tree.to_bytes()).unwrap().digest());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Manifest(BTreeMap<CanonicalPath, Entry>);

impl Manifest {
    /// Adds or replaces an entry.
    pub fn insert(&mut self, path: CanonicalPath, entry: Entry) {
        self.0.insert(path, entry);
    }

    /// What is at a path; none for directories that hold something.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.0.get(path)
    }

    /// All entries in path order.
    pub fn iter(&self) -> impl Iterator<Item = (&CanonicalPath, &Entry)> {
        self.0.iter()
    }

    /// The entries below a directory, without the directory itself; everything below the root.
    pub fn below(&self, dir: &CanonicalPath) -> impl Iterator<Item = (&CanonicalPath, &Entry)> {
        below(&self.0, dir)
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the tree is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The canonical bytes: equal trees have equal bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        canonical(self)
    }

    /// Digest of the canonical bytes, in its own domain.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of_parts(&[b"glasshouse/tree/1\0", &self.to_bytes()])
    }
}

impl FromIterator<(CanonicalPath, Entry)> for Manifest {
    fn from_iter<I: IntoIterator<Item = (CanonicalPath, Entry)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

/// A workspace's state, as its difference from the frozen base. Only true differences are in it: a
/// file that was touched but is equal again is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealManifest {
    /// Digest of the base's tree.
    pub base: Digest,
    /// Base paths that are no longer there and that `entries` does not replace.
    pub removed: BTreeSet<CanonicalPath>,
    /// What is new or different.
    pub entries: BTreeMap<CanonicalPath, Entry>,
}

impl SealManifest {
    /// The state in which nothing has been changed.
    #[must_use]
    pub const fn unchanged(base: Digest) -> Self {
        Self { base, removed: BTreeSet::new(), entries: BTreeMap::new() }
    }

    /// Whether the workspace equals its base.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.removed.is_empty() && self.entries.is_empty()
    }

    /// What the workspace holds at a path.
    #[must_use]
    pub fn get<'a>(&'a self, base: &'a Manifest, path: &str) -> Option<&'a Entry> {
        match self.entries.get(path) {
            Some(entry) => Some(entry),
            None if self.removed.contains(path) => None,
            None => base.get(path),
        }
    }

    /// The whole tree, base included.
    #[must_use]
    pub fn whole(&self, base: &Manifest) -> Manifest {
        let kept = base.iter().filter(|(path, _)| !self.removed.contains(*path));
        kept.chain(&self.entries).map(|(path, entry)| (path.clone(), entry.clone())).collect()
    }

    /// Whether anything is at or below a directory.
    pub(crate) fn occupies(&self, base: &Manifest, dir: &CanonicalPath) -> bool {
        self.entries.contains_key(dir)
            || below(&self.entries, dir).next().is_some()
            || (base.get(dir.as_str()).is_some() && !self.removed.contains(dir))
            || base.below(dir).any(|(path, _)| !self.removed.contains(path))
    }

    /// The canonical bytes: equal states above one base have equal bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        canonical(self)
    }

    /// Digest of the canonical bytes, in its own domain.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of_parts(&[b"glasshouse/seal/1\0", &self.to_bytes()])
    }
}

fn canonical(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("maps with text keys and plain values always serialise")
}

/// The part of a sorted map below a directory. `/` is followed by `0` in byte order, so `dir/` to
/// `dir0` holds exactly the descendants.
pub(crate) fn below<'a, V>(
    map: &'a BTreeMap<CanonicalPath, V>,
    dir: &CanonicalPath,
) -> impl Iterator<Item = (&'a CanonicalPath, &'a V)> {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let (from, to) = (format!("{dir}/"), format!("{dir}0"));
    let bounds = if dir.is_root() {
        (Unbounded, Unbounded)
    } else {
        (Included(from.as_str()), Excluded(to.as_str()))
    };
    map.range::<str, _>(bounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> CanonicalPath {
        CanonicalPath::parse(text).unwrap()
    }

    #[test]
    fn below_is_exactly_the_descendants() {
        let tree: Manifest = ["a", "a b", "a-b/c", "a.rs", "a/b", "a/b/c", "a0", "b/a/x"]
            .into_iter()
            .map(|text| (path(text), Entry::Dir))
            .collect();
        let check = |dir: &str, expected: &[&str]| {
            let found: Vec<_> =
                tree.below(&path(dir)).map(|(path, _)| path.as_str().to_owned()).collect();
            assert_eq!(found, expected, "{dir}");
        };
        check("a", &["a/b", "a/b/c"]);
        check("a/b", &["a/b/c"]);
        check("a-b", &["a-b/c"]);
        check("b", &["b/a/x"]);
        check("zz", &[]);
        assert_eq!(tree.below(&CanonicalPath::root()).count(), tree.len());
    }

    #[test]
    fn the_digest_depends_on_every_field() {
        let file = |executable, text: &[u8]| Entry::File {
            executable,
            digest: Digest::of(text),
            size_bytes: text.len() as u64,
        };
        let digest = |name: &str, entry: Entry| Manifest::from_iter([(path(name), entry)]).digest();
        let all = [
            digest("a", file(false, b"x")),
            digest("a", file(true, b"x")),
            digest("a", file(false, b"y")),
            digest("b", file(false, b"x")),
            digest("a", Entry::Symlink { target: "x".into() }),
            digest("a", Entry::Dir),
            Manifest::default().digest(),
        ];
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }
}
