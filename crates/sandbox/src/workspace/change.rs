//! What changed between two states of a workspace.

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_model::{CanonicalPath, Digest};
use serde::{Deserialize, Serialize};

use super::freeze::FrozenBase;
use super::{BlobStore, Entry, Manifest, SealManifest, lines};
use crate::error::Result;

/// Least share of equal lines, in percent, for a removed and an added text to count as one renamed file.
const RENAME_LIKENESS_PERCENT: u64 = 60;
/// Most removed and most added files that are compared by content; beyond it only exact renames count.
const MAX_RENAME_CANDIDATES: usize = 20;
/// Largest file that is compared with others to find out whether it was renamed, in bytes.
const MAX_LIKENESS_BYTES: usize = 64 * 1024;

/// One changed path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The path; of a rename, the new one.
    pub path: CanonicalPath,
    /// What happened.
    #[serde(flatten)]
    pub kind: ChangeKind,
    /// What was there; of a rename, at the old path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Entry>,
    /// What is there now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Entry>,
    /// Whether either side is a file without lines.
    pub binary: bool,
    /// Lines added; zero for what has no lines.
    pub lines_added: u64,
    /// Lines removed; zero for what has no lines.
    pub lines_removed: u64,
    /// Whether the project's ignore rules exclude the path: it belongs to the workspace and is never
    /// merged.
    pub ignored: bool,
}

/// What happened to a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// Its content differs, and perhaps its mode.
    Modified,
    /// It is gone.
    Deleted,
    /// It is what was at another path, perhaps edited.
    Renamed {
        /// The other path, where nothing is now.
        from: CanonicalPath,
    },
    /// Only its executable bit differs.
    Mode,
    /// A link became another link, or a file became a link or the reverse.
    Symlink,
    /// It is a pipe, socket or device.
    Special,
}

impl ChangeKind {
    /// The word that is stored and shown.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::Renamed { .. } => "renamed",
            Self::Mode => "mode",
            Self::Symlink => "symlink",
            Self::Special => "special",
        }
    }
}

impl Change {
    /// Every path the change touches: of a rename both.
    pub fn paths(&self) -> impl Iterator<Item = &CanonicalPath> {
        let from = match &self.kind {
            ChangeKind::Renamed { from } => Some(from),
            _ => None,
        };
        std::iter::once(&self.path).chain(from)
    }

    /// What is at the same paths now.
    pub fn contents(&self) -> impl Iterator<Item = Content<'_>> {
        self.paths().map(|path| {
            let new = self.new.as_ref().filter(|_| *path == self.path);
            let size_bytes = match new {
                Some(Entry::File { size_bytes, .. }) => Some(*size_bytes),
                _ => None,
            };
            Content { path, size_bytes, is_gone: new.is_none() }
        })
    }
}

/// What a change leaves at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content<'a> {
    /// The path.
    pub path: &'a CanonicalPath,
    /// Length in bytes of the file that is there now.
    pub size_bytes: Option<u64>,
    /// Whether nothing is there any more.
    pub is_gone: bool,
}

/// What differs from the base and waits to be merged. Ignored files and empty directories are not
/// part of it, as in git.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeSet {
    /// Digest of the base's tree.
    pub base: Digest,
    /// The changes, by path.
    pub changes: Vec<Change>,
    /// New files that the project ignores; they stay in the workspace.
    pub ignored: Vec<CanonicalPath>,
}

impl ChangeSet {
    /// Keeps what can be merged out of all changes against the base.
    #[must_use]
    pub fn new(base: Digest, all: Vec<Change>) -> Self {
        let mut set = Self { base, changes: Vec::new(), ignored: Vec::new() };
        let is_nothing = |side: &Option<Entry>| matches!(side, None | Some(Entry::Dir));
        for change in all {
            if change.ignored {
                set.ignored.push(change.path);
            } else if !(is_nothing(&change.old) && is_nothing(&change.new)) {
                set.changes.push(change);
            }
        }
        set
    }
}

/// Answers contents of two states above one base.
pub(super) struct Contents<'a> {
    pub(super) base: &'a FrozenBase,
    pub(super) blobs: &'a dyn BlobStore,
}

impl Contents<'_> {
    /// The bytes of a regular file in a state; none for anything else.
    pub(super) fn read(
        &self,
        state: &SealManifest,
        path: &CanonicalPath,
    ) -> Result<Option<Vec<u8>>> {
        match state.entries.get(path) {
            Some(Entry::File { digest, .. }) => self.blobs.get(digest).map(Some),
            Some(_) => Ok(None),
            None if state.removed.contains(path) => Ok(None),
            None => match self.base.manifest.get(path.as_str()) {
                Some(Entry::File { .. }) => self.base.read(path).map(Some),
                _ => Ok(None),
            },
        }
    }
}

/// Compares two states, cost by what differs from the base in either. `ignored` answers which new
/// paths the project ignores.
pub(super) fn between(
    contents: &Contents<'_>,
    old: &SealManifest,
    new: &SealManifest,
    ignored: impl FnOnce(&[&CanonicalPath]) -> Result<BTreeSet<CanonicalPath>>,
) -> Result<Vec<Change>> {
    let base = &contents.base.manifest;
    let touched: BTreeSet<_> = [old, new]
        .into_iter()
        .flat_map(|state| state.entries.keys().chain(&state.removed))
        .collect();
    let mut changes = BTreeMap::new();
    for path in touched {
        let (was, is) = (old.get(base, path.as_str()), new.get(base, path.as_str()));
        if was != is {
            changes.insert(path.clone(), plain(path, was, is));
        }
    }
    let added: Vec<_> = changes
        .values()
        .filter(|change| change.old.is_none() && base.get(change.path.as_str()).is_none())
        .map(|change| &change.path)
        .collect();
    let ignored = ignored(&added)?;
    for change in changes.values_mut() {
        change.ignored = ignored.contains(&change.path);
    }
    pair_renames(contents, old, new, &mut changes)?;
    let mut changes: Vec<_> = changes.into_values().collect();
    for change in &mut changes {
        count_lines(contents, old, new, change)?;
    }
    Ok(changes)
}

/// What differs between two whole trees, without looking into contents: no lines are counted, and a
/// rename is a file that is gone where an equal one is new.
#[must_use]
pub fn differences(old: &Manifest, new: &Manifest) -> Vec<Change> {
    let paths: BTreeSet<_> = old.iter().chain(new.iter()).map(|(path, _)| path).collect();
    let sides = |path: &CanonicalPath| (old.get(path.as_str()), new.get(path.as_str()));
    let differing = paths.into_iter().filter(|path| sides(path).0 != sides(path).1);
    let plain = |path: &CanonicalPath| (path.clone(), plain(path, sides(path).0, sides(path).1));
    let mut changes: BTreeMap<_, _> = differing.map(plain).collect();
    let (mut removed, mut added) =
        (files(ChangeKind::Deleted, &changes), files(ChangeKind::Added, &changes));
    rename(equal(&mut removed, &mut added), &mut changes);
    changes.into_values().collect()
}

fn plain(path: &CanonicalPath, old: Option<&Entry>, new: Option<&Entry>) -> Change {
    let kind = match (old, new) {
        (_, Some(Entry::Special { .. })) => ChangeKind::Special,
        (_, None) => ChangeKind::Deleted,
        (None, _) => ChangeKind::Added,
        (Some(Entry::Dir), _) => ChangeKind::Added,
        (_, Some(Entry::Dir)) => ChangeKind::Deleted,
        (Some(Entry::File { digest: a, .. }), Some(Entry::File { digest: b, .. })) if a == b => {
            ChangeKind::Mode
        }
        (Some(Entry::File { .. } | Entry::Special { .. }), Some(Entry::File { .. })) => {
            ChangeKind::Modified
        }
        (Some(_), Some(_)) => ChangeKind::Symlink,
    };
    Change {
        path: path.clone(),
        kind,
        old: old.cloned(),
        new: new.cloned(),
        binary: false,
        lines_added: 0,
        lines_removed: 0,
        ignored: false,
    }
}

/// Joins a removed and an added file that are equal, or alike enough, into one rename. Each file is
/// used once; ties go to the first in path order, so the answer does not depend on chance.
fn pair_renames(
    contents: &Contents<'_>,
    old: &SealManifest,
    new: &SealManifest,
    changes: &mut BTreeMap<CanonicalPath, Change>,
) -> Result<()> {
    let mut removed = files(ChangeKind::Deleted, changes);
    let mut added = files(ChangeKind::Added, changes);
    let mut pairs = equal(&mut removed, &mut added);
    if removed.len() <= MAX_RENAME_CANDIDATES && added.len() <= MAX_RENAME_CANDIDATES {
        pairs.extend(alike(contents, old, new, removed, added)?);
    }
    rename(pairs, changes);
    Ok(())
}

/// The files that hold anything among removed or added paths.
fn files(
    wanted: ChangeKind,
    changes: &BTreeMap<CanonicalPath, Change>,
) -> Vec<(CanonicalPath, Digest)> {
    let side = |change: &Change| match wanted {
        ChangeKind::Deleted => change.old.clone(),
        _ => change.new.clone(),
    };
    let candidates = changes.values().filter(|change| change.kind == wanted && !change.ignored);
    candidates
        .filter_map(|change| match side(change) {
            Some(Entry::File { digest, size_bytes, .. }) if size_bytes > 0 => {
                Some((change.path.clone(), digest))
            }
            _ => None,
        })
        .collect()
}

/// Takes out the pairs of removed and added files with the same content.
fn equal(
    removed: &mut Vec<(CanonicalPath, Digest)>,
    added: &mut Vec<(CanonicalPath, Digest)>,
) -> Vec<(CanonicalPath, CanonicalPath)> {
    let mut pairs = Vec::new();
    added.retain(|(to, digest)| {
        let Some(index) = removed.iter().position(|(_, old)| old == digest) else { return true };
        pairs.push((removed.remove(index).0, to.clone()));
        false
    });
    pairs
}

fn rename(
    pairs: Vec<(CanonicalPath, CanonicalPath)>,
    changes: &mut BTreeMap<CanonicalPath, Change>,
) {
    for (from, to) in pairs {
        let gone = changes.remove(&from);
        if let Some(change) = changes.get_mut(&to) {
            change.kind = ChangeKind::Renamed { from };
            change.old = gone.and_then(|gone| gone.old);
        }
    }
}

fn alike(
    contents: &Contents<'_>,
    old: &SealManifest,
    new: &SealManifest,
    removed: Vec<(CanonicalPath, Digest)>,
    added: Vec<(CanonicalPath, Digest)>,
) -> Result<Vec<(CanonicalPath, CanonicalPath)>> {
    if removed.is_empty() || added.is_empty() {
        return Ok(Vec::new());
    }
    let texts = |state: &SealManifest, list: Vec<(CanonicalPath, Digest)>| -> Result<Vec<_>> {
        let mut texts = Vec::new();
        for (path, _) in list {
            let bytes = contents.read(state, &path)?.unwrap_or_default();
            // Comparing is quadratic in lines; a large file that moved and changed is two changes.
            if bytes.len() <= MAX_LIKENESS_BYTES && !lines::is_binary(&bytes) {
                texts.push((path, bytes));
            }
        }
        Ok(texts)
    };
    let (removed, added) = (texts(old, removed)?, texts(new, added)?);
    let mut scored = Vec::new();
    for (from, before) in &removed {
        for (to, after) in &added {
            let score = lines::likeness_percent(before, after);
            if score >= RENAME_LIKENESS_PERCENT {
                scored.push((std::cmp::Reverse(score), from, to));
            }
        }
    }
    scored.sort();
    let (mut used_from, mut used_to) = (BTreeSet::new(), BTreeSet::new());
    let mut pairs = Vec::new();
    for (_, from, to) in scored {
        if !used_from.contains(from) && !used_to.contains(to) {
            used_from.insert(from);
            used_to.insert(to);
            pairs.push((from.clone(), to.clone()));
        }
    }
    Ok(pairs)
}

fn count_lines(
    contents: &Contents<'_>,
    old: &SealManifest,
    new: &SealManifest,
    change: &mut Change,
) -> Result<()> {
    let old_path = change.paths().last().expect("a change has a path").clone();
    // Counting is for people who read; a generated tree of ignored files is not read.
    if change.ignored || matches!(change.kind, ChangeKind::Mode | ChangeKind::Special) {
        return Ok(());
    }
    let before = contents.read(old, &old_path)?;
    let after = contents.read(new, &change.path)?;
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    change.binary = lines::is_binary(&before) || lines::is_binary(&after);
    if !change.binary {
        (change.lines_added, change.lines_removed) = lines::count(&before, &after);
    }
    Ok(())
}
