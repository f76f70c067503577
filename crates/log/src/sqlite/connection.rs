//! Connections: their settings, checked, and what their errors mean.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

use crate::codes;
use crate::error::{Error, Result};

/// How long a connection waits for another process's lock. Another writer holds it for one group's
/// sync; ten seconds is a disk in trouble.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Statements that each connection keeps prepared; more than there are in this crate.
const STATEMENTS: usize = 64;
/// `PRAGMA synchronous` of FULL: the write-ahead log is synced at every commit.
const SYNCHRONOUS_FULL: i64 = 2;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Write,
    /// Beside writers, in a directory where SQLite may make its side files.
    Read,
    /// As `Read`, to copy everything into another file.
    Copy,
    /// Of files beside which nothing can be made, and which therefore nobody writes.
    Still,
    /// As `Still`, of a file that is shorter than it says: what is left of it is read.
    Remains,
}

/// Opens an existing file.
///
/// # Errors
/// A storage error, also when a setting that durability rests on did not take effect.
pub(crate) fn open(path: &Path, vfs: Option<&str>, purpose: Use) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match (purpose, vfs) {
        (Use::Still | Use::Remains, _) => open_still(path),
        (_, Some(vfs)) => Connection::open_with_flags_and_vfs(path, flags, vfs),
        (_, None) => Connection::open_with_flags(path, flags),
    }
    .map_err(|cause| explain(&cause))?;
    configure(&connection, purpose).map_err(|cause| explain(&cause))??;
    Ok(connection)
}

/// Opens a file without locks and without shared memory. A write-ahead log beside it is read
/// through an index in memory, which SQLite makes only for a file that it has to itself.
fn open_still(path: &Path) -> rusqlite::Result<Connection> {
    let wal = beside(path, "-wal");
    let has_wal = wal.metadata().is_ok_and(|file| file.len() > 0);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if !has_wal {
        let flags = flags | OpenFlags::SQLITE_OPEN_URI;
        return Connection::open_with_flags(uri(path, "?immutable=1"), flags);
    }
    let connection = Connection::open_with_flags_and_vfs(path, flags, "unix-none")?;
    connection.pragma_update(None, "locking_mode", "exclusive")?;
    Ok(connection)
}

/// The name of a file as SQLite's URIs have it.
fn uri(path: &Path, query: &str) -> PathBuf {
    let mut uri = b"file:".to_vec();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => uri.push(*byte),
            _ => uri.extend(format!("%{byte:02x}").into_bytes()),
        }
    }
    uri.extend(query.as_bytes());
    PathBuf::from(OsString::from_vec(uri))
}

/// A file that SQLite keeps beside the database.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn configure(connection: &Connection, purpose: Use) -> rusqlite::Result<Result<()>> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // SQLite ignores a failed sync in the checkpoints it makes by itself, so the writer makes them.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // A statement keeps its plan whatever is bound to it; otherwise SQLite plans many of them anew
    // at each use, which costs more than running them.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    if purpose == Use::Remains {
        // Otherwise SQLite reads nothing of a file that lacks a part.
        connection.pragma_update(None, "writable_schema", true)?;
    }
    if purpose == Use::Copy {
        return Ok(Ok(()));
    }
    if purpose != Use::Write {
        connection.pragma_update(None, "query_only", true)?;
        return Ok(Ok(()));
    }
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    // What is erased is overwritten with zeros.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    let synchronous: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    if mode != "wal" || synchronous != SYNCHRONOUS_FULL {
        return Ok(Err(Error::new(codes::STORAGE_FAILED, "could not open the log").why(format!(
            "the file system gives journal mode {mode} and synchronous {synchronous}; the log \
             needs wal and {SYNCHRONOUS_FULL}"
        ))));
    }
    Ok(Ok(()))
}

/// Runs a checkpoint: copies the write-ahead log into the database and syncs it. A checkpoint that
/// others hold up is done by a later one.
pub(crate) fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<()> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
}

/// What an error of SQLite means to the caller.
pub(crate) fn explain(cause: &rusqlite::Error) -> Error {
    let (code, extended) = match cause {
        rusqlite::Error::SqliteFailure(failure, message)
            if failure.code == ErrorCode::Unknown
                && message.as_deref().is_some_and(|text| text.starts_with("no such ")) =>
        {
            // A table or a column of the log is not there.
            (ErrorCode::DatabaseCorrupt, 0)
        }
        rusqlite::Error::SqliteFailure(failure, _) => (failure.code, failure.extended_code),
        // A stored value has another type or range than was ever written, or a row is missing that
        // every log has.
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::QueryReturnedNoRows
        | rusqlite::Error::InvalidColumnType(..) => (ErrorCode::DatabaseCorrupt, 0),
        _ => (ErrorCode::Unknown, 0),
    };
    let (code, what) = match (code, extended) {
        (ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_SHMSIZE) => {
            (codes::STORAGE_FULL, "no space is left for the log")
        }
        (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => {
            (codes::LOG_BUSY, "the log is locked by another process")
        }
        (
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch,
            _,
        ) => (codes::LOG_CORRUPT, "the log's database is damaged"),
        _ => (codes::STORAGE_FAILED, "the log could not be read or written"),
    };
    Error::new(code, what).why(cause)
}
