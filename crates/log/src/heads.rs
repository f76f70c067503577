//! Signed heads outside the database, so that a database that was cut, replaced or rolled back is
//! found out.
//!
//! `heads/latest.note` is the newest. Older ones stay as `heads/<size>.note`, thinned so that their
//! sizes grow by at least 1/64: some thousand files for any log, and a rewritten past is narrowed
//! down to that part of it.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::checkpoint::{MAX_NOTE_BYTES, SignedHead};
use crate::error::{Error, Result};
use crate::home::{self, FileLock};
use crate::keys::PublicKey;

/// Kept heads are at least this fraction of the log apart.
const KEPT_FRACTION: u64 = 64;

#[derive(Debug)]
pub(crate) struct Heads {
    directory: PathBuf,
}

impl Heads {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The newest note; `None` when none was ever written.
    pub(crate) fn latest(&self) -> Result<Option<String>> {
        read_note(&self.latest_path())
    }

    /// Kept notes with the size in their names, smallest first.
    pub(crate) fn kept(&self) -> Result<Vec<(u64, String)>> {
        let mut notes = Vec::new();
        for size in self.kept_sizes()? {
            if let Some(note) = read_note(&self.kept_path(size))? {
                notes.push((size, note));
            }
        }
        Ok(notes)
    }

    /// Makes a head the newest, unless another process has published a newer one.
    pub(crate) fn publish(&self, head: &SignedHead, key: &PublicKey) -> Result<()> {
        let _lock = FileLock::acquire(&self.directory.join("lock"))?;
        let size = head.tree.size;
        if let Some(current) = self.latest()?
            && let Ok(current) = SignedHead::open(&current, key)
            && current.tree.size >= size
        {
            return Ok(());
        }
        let last_kept = self.kept_sizes()?.last().copied().unwrap_or(0);
        if size >= last_kept + (last_kept / KEPT_FRACTION).max(1) {
            home::write_atomically(&self.kept_path(size), head.note.as_bytes())?;
        }
        home::write_atomically(&self.latest_path(), head.note.as_bytes())?;
        Ok(())
    }

    fn kept_sizes(&self) -> Result<Vec<u64>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(|cause| Error::file("list", &self.directory, &cause))?,
        };
        let mut sizes: Vec<u64> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| name.strip_suffix(".note")?.parse().ok())
            .collect();
        sizes.sort_unstable();
        Ok(sizes)
    }

    fn latest_path(&self) -> PathBuf {
        self.directory.join("latest.note")
    }

    fn kept_path(&self, size: u64) -> PathBuf {
        self.directory.join(format!("{size:020}.note"))
    }
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
