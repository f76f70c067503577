//! The database as a file: whether it looks like one, and whether it is still the one that was
//! opened.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::connection::beside;
use crate::codes;
use crate::error::{Error, Result};

/// What every SQLite file begins with.
const MAGIC: &[u8] = b"SQLite format 3\0";
const HEADER_BYTES: usize = 100;

/// What a database file looks like from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileState {
    /// There is none, or it is empty.
    Missing,
    /// It does not begin as a database does.
    Unknown,
    /// It is shorter than it says.
    Cut,
    /// It may be whole.
    Database,
}

impl FileState {
    /// # Errors
    /// A storage error when the file is there but cannot be read.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let failed = |cause: &io::Error| Error::file("read", path, cause);
        let mut file = match File::open(path) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Self::Missing),
            other => other.map_err(|cause| failed(&cause))?,
        };
        let length = file.metadata().map_err(|cause| failed(&cause))?.len();
        let mut header = [0; HEADER_BYTES];
        match file.read_exact(&mut header) {
            Err(_) if length == 0 => return Ok(Self::Missing),
            Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => return Ok(Self::Cut),
            other => other.map_err(|cause| failed(&cause))?,
        }
        if !header.starts_with(MAGIC) {
            return Ok(Self::Unknown);
        }
        let page_bytes = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65_536,
            bytes => u64::from(bytes),
        };
        let pages = u32::from_be_bytes([header[28], header[29], header[30], header[31]]);
        let is_cut = length < page_bytes * u64::from(pages);
        Ok(if is_cut { Self::Cut } else { Self::Database })
    }
}

/// Which files the log was opened in. SQLite goes on writing to files that were deleted or
/// replaced, and what it writes there is lost.
#[derive(Debug)]
pub(crate) struct Identity {
    database: Tracked,
    wal: Tracked,
}

#[derive(Debug)]
struct Tracked {
    path: PathBuf,
    /// Device and number, once the file was seen.
    seen: OnceLock<(u64, u64)>,
}

impl Identity {
    /// Remembers a database and its write-ahead log, or the latter once it comes into being.
    pub(crate) fn of(path: &Path) -> Self {
        let tracked = |path: PathBuf| {
            let seen = number(&path).map_or_else(OnceLock::new, OnceLock::from);
            Tracked { path, seen }
        };
        Self { database: tracked(path.to_owned()), wal: tracked(beside(path, "-wal")) }
    }

    /// Whether the write-ahead log was there when the database was opened.
    pub(crate) fn has_wal(&self) -> bool {
        self.wal.seen.get().is_some()
    }

    /// # Errors
    /// `log_replaced`.
    pub(crate) fn check(&self) -> Result<()> {
        self.database.check()?;
        self.wal.check()
    }

    /// As [`Identity::check`], without the write-ahead log.
    pub(crate) fn check_database(&self) -> Result<()> {
        self.database.check()
    }
}

impl Tracked {
    fn check(&self) -> Result<()> {
        let why = match number(&self.path) {
            Some(now) if now == *self.seen.get_or_init(|| now) => return Ok(()),
            Some(_) => "it is another file now",
            None => "it is gone",
        };
        Err(Error::new(codes::LOG_REPLACED, format!("{} was taken away", self.path.display()))
            .why(why))
    }
}

fn number(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_apart_from_outside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let check = |bytes: Option<&[u8]>, expected: FileState| {
            if let Some(bytes) = bytes {
                fs::write(&path, bytes).unwrap();
            }
            assert_eq!(FileState::of(&path).unwrap(), expected);
        };
        check(None, FileState::Missing);
        check(Some(b""), FileState::Missing);
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE t (a); CREATE TABLE u (a);").unwrap();
        drop(connection);
        let whole = fs::read(&path).unwrap();
        check(Some(&whole), FileState::Database);
        check(Some(&whole[..whole.len() - 1]), FileState::Cut);
        check(Some(&whole[..50]), FileState::Cut);
        check(Some(&[7; 200]), FileState::Unknown);
    }

    #[test]
    fn another_file_in_the_same_place_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, away) = (dir.path().join("a.db"), dir.path().join("away"));
        fs::write(&path, "1").unwrap();
        let identity = Identity::of(&path);
        fs::write(beside(&path, "-wal"), "1").unwrap();
        identity.check().unwrap();
        fs::rename(&path, &away).unwrap();
        assert_eq!(identity.check().unwrap_err().code(), "log_replaced");
        fs::write(&path, "1").unwrap();
        assert_eq!(identity.check().unwrap_err().code(), "log_replaced");
        fs::rename(&away, &path).unwrap();
        identity.check().unwrap();
        fs::remove_file(beside(&path, "-wal")).unwrap();
        assert_eq!(identity.check().unwrap_err().code(), "log_replaced");
    }
}
