//! Signed heads outside the database, so that a database that was cut, replaced or rolled back is
//! found out.
//!
//! `heads/latest.note` is the newest. Older ones stay as `heads/<size>.note`, thinned so that their
//! sizes grow by at least 1/64: some thousand files for any log, and a rewritten past is narrowed
//! down to that part of it.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::checkpoint::{MAX_NOTE_BYTES, SignedHead};
use crate::error::{Error, Result};
use crate::home::{self, FileLock};
use crate::keys::PublicKey;

/// Kept heads are at least this fraction of the log apart.
const KEPT_FRACTION: u64 = 64;

#[derive(Debug)]
pub(crate) enum Heads {
    /// Files in a directory.
    Kept { directory: PathBuf },
    /// Only the newest, of a log in memory, which nobody can change from outside.
    InMemory { latest: Mutex<Option<SignedHead>> },
}

impl Heads {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self::Kept { directory }
    }

    pub(crate) fn in_memory() -> Self {
        Self::InMemory { latest: Mutex::new(None) }
    }

    /// The newest note; `None` when none was ever written.
    pub(crate) fn latest(&self) -> Result<Option<String>> {
        match self {
            Self::Kept { directory } => read_note(&latest_path(directory)),
            Self::InMemory { latest } => {
                let latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(latest.as_ref().map(|head| head.note.clone()))
            }
        }
    }

    /// Kept notes with the size in their names, smallest first.
    pub(crate) fn kept(&self) -> Result<Vec<(u64, String)>> {
        let Self::Kept { directory } = self else { return Ok(Vec::new()) };
        let mut notes = Vec::new();
        for size in kept_sizes(directory)? {
            if let Some(note) = read_note(&kept_path(directory, size))? {
                notes.push((size, note));
            }
        }
        Ok(notes)
    }

    /// Makes a head the newest, unless another process has published a newer one.
    pub(crate) fn publish(&self, head: &SignedHead, key: &PublicKey) -> Result<()> {
        let directory = match self {
            Self::Kept { directory } => directory,
            Self::InMemory { latest } => {
                let mut latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
                if latest.as_ref().is_none_or(|latest| latest.tree.size < head.tree.size) {
                    *latest = Some(head.clone());
                }
                return Ok(());
            }
        };
        let _lock = FileLock::acquire(&directory.join("lock"))?;
        let size = head.tree.size;
        if let Some(current) = self.latest()?
            && let Ok(current) = SignedHead::open(&current, key)
            && current.tree.size >= size
        {
            return Ok(());
        }
        let last_kept = kept_sizes(directory)?.last().copied().unwrap_or(0);
        if size >= last_kept + (last_kept / KEPT_FRACTION).max(1) {
            home::write_atomically(&kept_path(directory, size), head.note.as_bytes())?;
        }
        home::write_atomically(&latest_path(directory), head.note.as_bytes())?;
        Ok(())
    }
}

/// Sets the heads aside that cover more than `events`: a person gave those events up.
pub(crate) fn give_up_beyond(directory: &Path, aside: &Path, events: u64) -> Result<()> {
    home::create_directory(aside)?;
    let _lock = FileLock::acquire(&directory.join("lock"))?;
    let beyond = kept_sizes(directory)?.into_iter().filter(|size| *size > events);
    let notes = beyond.map(|size| kept_path(directory, size)).chain([latest_path(directory)]);
    for note in notes.filter(|note| note.exists()) {
        let name = note.file_name().unwrap_or_default();
        home::rename_durably(&note, &aside.join(name))?;
    }
    Ok(())
}

fn kept_sizes(directory: &Path) -> Result<Vec<u64>> {
    let entries = match fs::read_dir(directory) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(|cause| Error::file("list", directory, &cause))?,
    };
    let mut sizes: Vec<u64> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".note")?.parse().ok())
        .collect();
    sizes.sort_unstable();
    Ok(sizes)
}

fn latest_path(directory: &Path) -> PathBuf {
    directory.join("latest.note")
}

fn kept_path(directory: &Path, size: u64) -> PathBuf {
    directory.join(format!("{size:020}.note"))
}

fn read_note(path: &Path) -> Result<Option<String>> {
    let fail = |cause: &io::Error| Error::file("read", path, cause);
    let file = match fs::File::open(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|cause| fail(&cause))?,
    };
    let limit = u64::try_from(MAX_NOTE_BYTES).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(|cause| fail(&cause))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use glasshouse_model::{Digest, TenantId};

    use super::*;
    use crate::append::Head;
    use crate::keys::HeadKey;
    use crate::store::TreeHead;

    fn signed(size: u64, key: &HeadKey) -> SignedHead {
        let newest = Some(("b_1".parse().unwrap(), Head { seq: size, hash: Digest::ZERO }));
        SignedHead::sign(TreeHead { size, root: Digest::of(&size.to_be_bytes()), newest }, key)
    }

    #[test]
    fn the_newest_head_wins_whoever_writes_last() {
        let dir = tempfile::tempdir().unwrap();
        let heads = Heads::new(dir.path().to_owned());
        let key = HeadKey::generate(&TenantId::local()).unwrap();
        for size in [5, 9, 7] {
            heads.publish(&signed(size, &key), key.public()).unwrap();
        }
        assert_eq!(heads.latest().unwrap(), Some(signed(9, &key).note));
    }

    #[test]
    fn kept_heads_thin_out() {
        let dir = tempfile::tempdir().unwrap();
        let heads = Heads::new(dir.path().to_owned());
        let key = HeadKey::generate(&TenantId::local()).unwrap();
        for size in (1..=8).chain([640, 645, 649, 650, 651]) {
            heads.publish(&signed(size, &key), key.public()).unwrap();
        }
        let sizes: Vec<u64> = heads.kept().unwrap().into_iter().map(|(size, _)| size).collect();
        assert_eq!(sizes, [1, 2, 3, 4, 5, 6, 7, 8, 640, 650]);
    }
}
