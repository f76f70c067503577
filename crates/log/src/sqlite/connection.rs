//! Connections: their settings, checked, and what their errors mean.

use std::path::Path;
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
    Read,
}

/// Opens an existing file.
///
/// # Errors
/// A storage error, also when a setting that durability rests on did not take effect.
pub(crate) fn open(path: &Path, vfs: Option<&str>, purpose: Use) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(path, flags, vfs),
        None => Connection::open_with_flags(path, flags),
    }
    .map_err(|cause| explain(&cause))?;
    configure(&connection, purpose).map_err(|cause| explain(&cause))??;
    Ok(connection)
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
    if purpose == Use::Read {
        connection.pragma_update(None, "query_only", true)?;
        return Ok(Ok(()));
    }
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
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
        rusqlite::Error::SqliteFailure(failure, _) => (failure.code, failure.extended_code),
        // A stored value has another type or range than was ever written.
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
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
