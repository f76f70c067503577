//! One path in three trees: what it was, what one side made of it, what the change set made of it.

use glasshouse_model::Digest;
use glasshouse_sandbox::workspace::{Entry, lines};

use super::conflict::ConflictKind;
use super::diff3;

/// A file or link and its bytes; a link has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) entry: Entry,
    pub(super) bytes: Vec<u8>,
}

impl Version {
    pub(super) fn file(executable: bool, bytes: Vec<u8>) -> Self {
        let (digest, size_bytes) = (Digest::of(&bytes), bytes.len() as u64);
        Self { entry: Entry::File { executable, digest, size_bytes }, bytes }
    }
}

/// Why two versions do not go together.
pub(super) type Refusal = (ConflictKind, Option<String>);

/// Brings what the change set did to `base` onto `side`. None stands for "not there".
pub(super) fn versions(
    base: Option<&Version>,
    side: Option<&Version>,
    new: Option<&Version>,
) -> Result<Option<Version>, Refusal> {
    let same =
        |a: Option<&Version>, b: Option<&Version>| a.map(|v| &v.entry) == b.map(|v| &v.entry);
    if same(side, new) || same(side, base) {
        return Ok(new.cloned());
    }
    let (base, side, new) = match (base, side, new) {
        (_, Some(_), None) => return Err((ConflictKind::ModifyDelete, None)),
        (None, ..) => return Err((ConflictKind::AddAdd, None)),
        (_, None, _) => return Err((ConflictKind::DeleteModify, None)),
        (Some(base), Some(side), Some(new)) => (base, side, new),
    };
    let (
        Entry::File { executable: was, digest: old, .. },
        Entry::File { executable: theirs, digest: current, .. },
        Entry::File { executable: ours, digest, .. },
    ) = (&base.entry, &side.entry, &new.entry)
    else {
        return Err((kind_of_types(&side.entry, &new.entry), None));
    };
    let executable = if ours == was { *theirs } else { *ours };
    let bytes = if current == old {
        new.bytes.clone()
    } else if digest == old || digest == current {
        side.bytes.clone()
    } else {
        texts(&base.bytes, &side.bytes, &new.bytes)?
    };
    Ok(Some(Version::file(executable, bytes)))
}

/// Merges three texts; what has no lines cannot be merged.
pub(super) fn texts(base: &[u8], side: &[u8], new: &[u8]) -> Result<Vec<u8>, Refusal> {
    if [base, side, new].into_iter().any(lines::is_binary) {
        return Err((ConflictKind::Binary, None));
    }
    diff3::merge(base, side, new).map_err(|overlaps| {
        let spot = |o: &diff3::Overlap| {
            format!("{}-{}", o.base.start + 1, o.base.end.max(o.base.start + 1))
        };
        let spots: Vec<_> = overlaps.iter().map(spot).collect();
        (ConflictKind::Content, Some(format!("lines {} of the base", spots.join(", "))))
    })
}

/// How two entries that are not both files conflict.
pub(super) fn kind_of_types(a: &Entry, b: &Entry) -> ConflictKind {
    if matches!(a, Entry::Symlink { .. }) || matches!(b, Entry::Symlink { .. }) {
        ConflictKind::Symlink
    } else {
        ConflictKind::DirectoryFile
    }
}
