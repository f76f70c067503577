//! Content-addressed bytes beside the log: what is too large for an event.
//!
//! `blobs/<2 hex>/<62 hex>` holds a 13-byte header (magic, codec, length) and the content, stored
//! as it is or as an LZ4 block when that is smaller. The digest is over the content, not the file.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use glasshouse_model::body::{NamedBlob, named_blobs};
use glasshouse_model::{Digest, Kind};
use serde::Deserialize;

use crate::codes;
use crate::error::{Error, Result};
use crate::home;

/// Largest blob: it is held in memory once plain and once compressed.
pub const MAX_BLOB_BYTES: usize = 256 << 20;

const MAGIC: &[u8; 4] = b"GHB1";
const STORED: u8 = 0;
const LZ4: u8 = 1;
const HEADER_BYTES: usize = 13;

#[derive(Debug)]
pub(crate) struct Blobs {
    /// `None` for a log in memory: what it stores is in `held`.
    directory: Option<PathBuf>,
    held: Mutex<HashMap<Digest, Vec<u8>>>,
    sync_ns: AtomicU64,
}

impl Blobs {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory: Some(directory), ..Self::in_memory() }
    }

    pub(crate) fn in_memory() -> Self {
        Self { directory: None, held: Mutex::default(), sync_ns: AtomicU64::new(0) }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<Digest, Vec<u8>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time spent in syncs so far, in nanoseconds.
    pub(crate) fn sync_ns(&self) -> u64 {
        self.sync_ns.load(Ordering::Relaxed)
    }

    /// Stores bytes; durable when it returns. Storing what is there costs a read; storing what is
    /// there but damaged repairs it.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<Digest> {
        if bytes.len() > MAX_BLOB_BYTES {
            return Err(Error::new(codes::BLOB_TOO_LARGE, "could not store a blob")
                .why(format!("it has {} bytes, at most {MAX_BLOB_BYTES}", bytes.len()))
                .with("bytes", bytes.len())
                .with("limit_bytes", MAX_BLOB_BYTES));
        }
        let digest = Digest::of(bytes);
        if self.get(&digest).is_ok() {
            return Ok(digest);
        }
        let Some(path) = self.path(&digest) else {
            self.held().insert(digest, bytes.to_vec());
            return Ok(digest);
        };
        let directory = path.parent().expect("a blob's path has a directory");
        let mut sync_ns = 0;
        if !directory.exists() {
            home::create_directory(directory)?;
            sync_ns += home::sync_directory_of(directory)?;
        }
        sync_ns += home::write_atomically(&path, &encode(bytes))?;
        self.sync_ns.fetch_add(sync_ns, Ordering::Relaxed);
        Ok(digest)
    }

    /// Reads bytes and checks their digest.
    pub(crate) fn get(&self, digest: &Digest) -> Result<Vec<u8>> {
        let missing = || Error::new(codes::BLOB_NOT_FOUND, format!("no blob {digest}"));
        let Some(path) = self.path(digest) else {
            return self.held().get(digest).cloned().ok_or_else(missing);
        };
        let file = fs::read(&path).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => missing(),
            _ => Error::file("read", &path, &cause),
        })?;
        let bytes = decode(&file).map_err(|why| corrupt(digest, why))?;
        if Digest::of(&bytes) != *digest {
            return Err(corrupt(digest, "its bytes have another digest"));
        }
        Ok(bytes)
    }

    /// Whether a file of this digest is there, whole or not; also where that cannot be told.
    pub(crate) fn contains(&self, digest: &Digest) -> bool {
        let Some(path) = self.path(digest) else { return self.held().contains_key(digest) };
        !matches!(path.try_exists(), Ok(false))
    }

    /// Deletes bytes; durable when it returns. Deleting what is not there is done.
    pub(crate) fn delete(&self, digest: &Digest) -> Result<()> {
        let Some(path) = self.path(digest) else {
            self.held().remove(digest);
            return Ok(());
        };
        let mut is_gone = false;
        for file in home::unfinished(&path)?.iter().chain([&path]) {
            match fs::remove_file(file) {
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
                Err(cause) => return Err(Error::file("delete", file, &cause)),
                Ok(()) => is_gone = true,
            }
        }
        if is_gone {
            let sync_ns = home::sync_directory_of(&path)?;
            self.sync_ns.fetch_add(sync_ns, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let Some(root) = &self.directory else {
            return Ok(self.held().values().map(|bytes| bytes.len() as u64).sum());
        };
        let mut bytes = 0;
        for shard in home::entries(root)? {
            for file in home::entries(&shard)? {
                // One that went meanwhile takes nothing.
                bytes += file.symlink_metadata().map_or(0, |meta| meta.len());
            }
        }
        Ok(bytes)
    }

    fn path(&self, digest: &Digest) -> Option<PathBuf> {
        let hex = digest.hex();
        let (shard, rest) = hex.split_at(2);
        Some(self.directory.as_ref()?.join(Path::new(shard)).join(rest))
    }
}

/// The blobs that an event names; see [`named_blobs`].
pub(crate) fn named_in(header: &[u8], body: &[u8]) -> Vec<NamedBlob> {
    #[derive(Deserialize)]
    struct OfKind {
        kind: Kind,
    }
    // Most bodies name none, and looking for the key is much faster than parsing.
    if memchr::memmem::find(body, b"\"blob\"").is_none() {
        return Vec::new();
    }
    let kind = serde_json::from_slice::<OfKind>(header).map(|header| header.kind);
    kind.map_or_else(|_| Vec::new(), |kind| named_blobs(&kind, body))
}

fn encode(bytes: &[u8]) -> Vec<u8> {
    let packed = lz4_flex::block::compress(bytes);
    let (codec, content) =
        if packed.len() < bytes.len() { (LZ4, packed.as_slice()) } else { (STORED, bytes) };
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    [MAGIC.as_slice(), &[codec], &length.to_le_bytes(), content].concat()
}

fn decode(file: &[u8]) -> Result<Vec<u8>, &'static str> {
    let (header, content) = file.split_at_checked(HEADER_BYTES).ok_or("its file is cut")?;
    let length: [u8; 8] = header[5..].try_into().expect("the header has 13 bytes");
    let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
    if header[..4] != MAGIC[..] || length > MAX_BLOB_BYTES {
        return Err("its file has no valid header");
    }
    let bytes = match header[4] {
        STORED => content.to_vec(),
        LZ4 => {
            lz4_flex::block::decompress(content, length).map_err(|_| "it does not decompress")?
        }
        _ => return Err("its codec is unknown"),
    };
    if bytes.len() == length { Ok(bytes) } else { Err("its length is not what its file says") }
}

fn corrupt(digest: &Digest, why: &str) -> Error {
    Error::new(codes::BLOB_CORRUPT, format!("could not read blob {digest}")).why(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blobs() -> (tempfile::TempDir, Blobs) {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(dir.path().to_owned());
        (dir, blobs)
    }

    #[test]
    fn content_survives_and_shrinks_when_it_can() {
        let (_dir, blobs) = blobs();
        let check = |bytes: &[u8], smaller: bool| {
            let digest = blobs.put(bytes).unwrap();
            assert_eq!(digest, Digest::of(bytes));
            assert_eq!(blobs.get(&digest).unwrap(), bytes);
            let stored = fs::metadata(blobs.path(&digest).unwrap()).unwrap().len();
            assert_eq!(stored < u64::try_from(bytes.len()).unwrap(), smaller, "{stored}");
            assert_eq!(blobs.put(bytes).unwrap(), digest, "the same content again");
        };
        check(b"", false);
        check(b"abc", false);
        check(&vec![7; 100_000], true);
        let noise: Vec<u8> =
            (0..2_000_u32).flat_map(|n| *Digest::of(&n.to_le_bytes()).as_bytes()).collect();
        check(&noise, false);
    }

    #[test]
    fn damage_is_found_and_repaired_by_storing_again() {
        let (_dir, blobs) = blobs();
        let content = vec![7; 10_000];
        let digest = blobs.put(&content).unwrap();
        let path = blobs.path(&digest).unwrap();
        let good = fs::read(&path).unwrap();
        let check = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            assert_eq!(blobs.get(&digest).unwrap_err().code(), "blob_corrupt");
            blobs.put(&content).unwrap();
            assert_eq!(blobs.get(&digest).unwrap(), content);
        };
        check(b"");
        check(&good[..12]);
        check(&good[..good.len() - 1]);
        for at in [0, 4, 5, 12, 13, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            check(&bad);
        }
        check(&encode(b"another content"));
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let (_dir, blobs) = blobs();
        assert_eq!(blobs.get(&Digest::of(b"x")).unwrap_err().code(), "blob_not_found");
    }
}
