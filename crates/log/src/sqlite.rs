//! The store on one machine: SQLite with a write-ahead log, synced at every commit.

mod audit;
mod connection;
mod file;
mod group;
mod migrations;
mod queries;
mod queue;
#[cfg(test)]
mod queue_tests;
mod schema;
mod sync;
mod wal;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use glasshouse_model::{BranchId, Digest, Draft, Seq, SessionId, TenantId};
use rusqlite::Connection;

pub(crate) use self::connection::beside;
pub(crate) use self::file::FileState;
pub(crate) use self::wal::{Tail, torn_tail};

use self::connection::{Use, explain};
use self::file::Identity;
use self::writer::Writer;
use crate::append::{Append, Appended, Cell, CellWrite, Prepared};
use crate::branch::{BranchRow, NewBranch, Segment, SessionRow};
use crate::cells::StoredCell;
use crate::clock::Clock;
use crate::codes;
use crate::error::{Error, Result};
use crate::home;
use crate::import::ImportedBranch;
use crate::record::Record;
use crate::rules;
use crate::store::{Flaw, Leaf, Merge, Stats, Store, Stored, TreeHead};

/// Reading connections that are kept open while nobody reads; more are opened when needed.
const IDLE_READERS: usize = 4;

pub(crate) struct Sqlite {
    path: PathBuf,
    vfs: Option<String>,
    reading: Use,
    identity: Arc<Identity>,
    readers: Mutex<Vec<Connection>>,
    /// `None` when the log is open for reading only.
    writer: Option<Writer>,
}

impl Sqlite {
    /// Opens a tenant's log, or makes it when the file is missing or has no tables.
    pub(crate) fn open(
        path: &Path,
        tenant: &TenantId,
        clock: Arc<dyn Clock>,
        vfs: Option<String>,
    ) -> Result<Self> {
        let is_new = !path.exists();
        drop(home::open_private(path)?);
        if is_new {
            home::sync_directory_of(path)?;
        }
        let connection = connection::open(path, vfs.as_deref(), Use::Write)?;
        schema::prepare(&connection, path, tenant)?;
        let identity = Arc::new(Identity::of(path));
        if !identity.has_wal() {
            // A read that failed while the mode was set leaves SQLite with a rollback journal although
            // it answered `wal`.
            return Err(Error::new(codes::STORAGE_FAILED, "could not open the log")
                .why("SQLite made no write-ahead log, although it was told to"));
        }
        let writer = Writer::start(connection, tenant.clone(), clock, Arc::clone(&identity))?;
        Ok(Self {
            path: path.to_owned(),
            vfs,
            reading: Use::Read,
            identity,
            readers: Mutex::new(Vec::new()),
            writer: Some(writer),
        })
    }

    /// Opens a log for reading only; makes and changes nothing. Where SQLite cannot make its side
    /// files, the log is read as it lies there. `None` for a file without tables.
    pub(crate) fn open_reading(path: &Path, tenant: &TenantId) -> Result<Option<Self>> {
        let attempt = |reading| {
            let connection = connection::open(path, None, reading)?;
            let is_empty = schema::is_empty(&connection)?;
            Ok((reading, connection, is_empty))
        };
        let (reading, connection, is_empty) = match attempt(Use::Read) {
            Err(error) if Error::is(&error, codes::STORAGE_FAILED) => attempt(Use::Still)?,
            other => other?,
        };
        if is_empty {
            return Ok(None);
        }
        let _format = schema::check(&connection, path, tenant)?;
        Ok(Some(Self::reader(path, reading, connection)))
    }

    /// Opens what is left of a log whose file was cut.
    pub(crate) fn open_remains(path: &Path) -> Result<Self> {
        let connection = connection::open(path, None, Use::Remains)?;
        Ok(Self::reader(path, Use::Remains, connection))
    }

    fn reader(path: &Path, reading: Use, connection: Connection) -> Self {
        Self {
            path: path.to_owned(),
            vfs: None,
            reading,
            identity: Arc::new(Identity::of(path)),
            readers: Mutex::new(vec![connection]),
            writer: None,
        }
    }

    fn writer(&self) -> Result<&Writer> {
        self.writer.as_ref().ok_or_else(|| {
            Error::new(codes::LOG_READ_ONLY, "could not write to the log")
                .why("it was opened for reading only")
        })
    }

    /// Whether a file is a log, as far as its tables tell.
    pub(crate) fn exists(path: &Path, vfs: Option<&str>) -> Result<bool> {
        if !path.exists() {
            return Ok(false);
        }
        Ok(!schema::is_empty(&connection::open(path, vfs, Use::Read)?)?)
    }

    fn with_reader<T>(&self, read: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let idle = || self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let pooled = idle().pop();
        let connection = match pooled {
            Some(connection) => connection,
            None => {
                self.identity.check_database()?;
                connection::open(&self.path, self.vfs.as_deref(), self.reading)?
            }
        };
        let outcome = read(&connection)?;
        // A connection that has met an error is not used again.
        let mut idle = idle();
        if idle.len() < IDLE_READERS {
            idle.push(connection);
        }
        Ok(outcome)
    }

    fn read<T>(&self, query: impl FnOnce(&Connection) -> queries::Sql<T>) -> Result<T> {
        self.with_reader(|connection| query(connection).map_err(|cause| explain(&cause)))
    }

    fn read_branch<T>(
        &self,
        branch: &BranchId,
        query: impl FnOnce(&Connection, i64, BranchRow) -> queries::Sql<T>,
    ) -> Result<T> {
        let found = self.read(|connection| {
            let Some((number, row)) = queries::branch(connection, branch)? else { return Ok(None) };
            query(connection, number, row).map(Some)
        })?;
        found.ok_or_else(|| rules::no_branch(branch))
    }
}

impl Store for Sqlite {
    fn create_branch(&self, new: &NewBranch, events: Vec<Draft>) -> Result<Appended> {
        new.check()?;
        let first = Prepared::first_of(new, events)?;
        let new = new.clone();
        self.writer()?.submit(move |group| {
            let head = group.create_branch(&new)?;
            match first {
                Some(first) => group.append(first, None),
                None => Ok(Appended { events: Vec::new(), head, replayed: false }),
            }
        })
    }

    fn append(&self, append: Append, merge: Option<Merge>) -> Result<Appended> {
        let request = Prepared::new(append)?;
        self.writer()?.submit(move |group| group.append(request, merge.as_ref()))
    }

    fn append_later(&self, append: Append, delay: Duration, stored: Stored) -> Result<()> {
        let request = Prepared::new(append)?;
        self.writer()?.submit_later(delay, move |group| group.append(request, None), stored)
    }

    fn flush(&self) -> Result<()> {
        self.writer()?.flush()
    }

    fn erase(
        &self,
        append: Append,
        events: Vec<(BranchId, Seq)>,
        blobs: Vec<Digest>,
    ) -> Result<Appended> {
        let request = Prepared::new(append)?;
        self.writer()?.submit(move |group| group.erase(request, &events, &blobs))
    }

    fn import(
        &self,
        branches: Vec<ImportedBranch>,
        told: &NewBranch,
        append: Append,
    ) -> Result<Appended> {
        let request = Prepared::new(append)?;
        let told = told.clone();
        self.writer()?.submit(move |group| group.import(branches, &told, request))
    }

    fn close_branch(&self, branch: &BranchId) -> Result<()> {
        let branch = branch.clone();
        self.writer()?.submit(move |group| group.close_branch(&branch))
    }

    fn write_cells(&self, writes: Vec<CellWrite>) -> Result<()> {
        self.writer()?.submit(move |group| group.write_cells(&writes).map(drop))
    }

    fn cell(&self, space: &str, key: &str) -> Result<Option<Cell>> {
        let stored = self.read(|connection| queries::cell(connection, space, key))?;
        Ok(stored.and_then(|(version, bytes)| Some(Cell { version, bytes: bytes? })))
    }

    fn cells(&self, space: &str, after: &str, limit: usize) -> Result<Vec<(String, Cell)>> {
        self.read(|connection| queries::cells(connection, space, after, limit))
    }

    fn stored_cells(&self, after: (&str, &str), limit: usize) -> Result<Vec<StoredCell>> {
        self.read(|connection| queries::stored_cells(connection, after, limit))
    }

    fn branch(&self, branch: &BranchId) -> Result<BranchRow> {
        self.read_branch(branch, |_, _, row| Ok(row))
    }

    fn branches(&self, session: Option<&SessionId>) -> Result<Vec<BranchRow>> {
        self.read(|connection| queries::branches(connection, session))
    }

    fn sessions(&self) -> Result<Vec<SessionRow>> {
        self.read(queries::sessions)
    }

    fn ancestors(&self, branch: &BranchId) -> Result<Vec<Segment>> {
        self.read_branch(branch, |connection, number, _| queries::ancestors(connection, number))
    }

    fn rows(&self, branch: &BranchId, from: Seq, upto: Seq, limit: usize) -> Result<Vec<Record>> {
        self.read_branch(branch, |connection, number, _| {
            queries::rows(connection, number, from, upto, limit)
        })
    }

    fn leaves(&self, from_position: u64, limit: usize) -> Result<Vec<Leaf>> {
        self.read(|connection| queries::leaves(connection, from_position, limit))
    }

    fn position(&self, branch: &BranchId, seq: Seq) -> Result<Option<u64>> {
        self.read_branch(branch, |connection, number, _| queries::position(connection, number, seq))
    }

    fn tree(&self) -> Result<TreeHead> {
        let stored = self.read(queries::tree)?;
        let (tree, newest) = stored.ok_or_else(group::damaged_tree)?;
        let newest = newest.map(|(_, branch, head)| (branch, head));
        Ok(TreeHead { size: tree.size(), root: tree.root(), newest })
    }

    fn flaw(&self, is_thorough: bool) -> Result<Option<Flaw>> {
        let shape = self.read(schema::first_foreign)?;
        if shape.is_some() || !is_thorough {
            return Ok(shape);
        }
        self.read(audit::first_flaw)
    }

    fn copy_to(&self, file: &Path) -> Result<()> {
        // A connection of its own: those for reading may not even write another file.
        let source = connection::open(&self.path, self.vfs.as_deref(), Use::Copy)?;
        source
            .execute("VACUUM INTO ?1", [file.to_string_lossy()])
            .map(drop)
            .map_err(|cause| explain(&cause))
    }

    fn bytes(&self) -> Result<u64> {
        self.read(queries::used_bytes)
    }

    fn stats(&self) -> Stats {
        self.writer.as_ref().map_or_else(Stats::default, Writer::stats)
    }
}
