//! Tables, and how the numbers of the log become SQLite's.
//!
//! Events are clustered by branch and sequence: both make up the integer key of their table. A
//! table without such a key would cluster as well, but SQLite keeps only a quarter page of each of
//! its rows in place and moves the rest of most events to pages of their own.

use std::collections::BTreeMap;
use std::path::Path;

use glasshouse_model::{Digest, Seq, TenantId};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::connection::explain;
use super::migrations::{self, FORMAT, OLDEST};
use crate::codes;
use crate::error::{Error, Result};
use crate::store::Flaw;

/// `PRAGMA application_id` of a log: "GHlg".
const APPLICATION_ID: i64 = 0x4748_6c67;
/// Versions that some later release may have; another one is damage.
const PLAUSIBLE_FORMATS: std::ops::RangeInclusive<i64> = 1..=1_000;
/// Bits of an event's key that hold the sequence; the branch's number stands above them.
pub(crate) const SEQ_BITS: u32 = 40;
/// Largest sequence: a million events a second reach it after twelve days on one branch.
pub(crate) const MAX_SEQ: Seq = (1 << SEQ_BITS) - 1;
/// Largest number of a branch: what is left of a positive 64-bit key.
pub(crate) const MAX_BRANCH_NUMBER: i64 = (1 << (63 - SEQ_BITS)) - 1;

const TABLES: &str = "
CREATE TABLE tenant (one INTEGER PRIMARY KEY CHECK (one = 1), name TEXT NOT NULL) STRICT;
CREATE TABLE branch (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    session TEXT NOT NULL,
    name TEXT NOT NULL,
    parent INTEGER REFERENCES branch (number),
    fork_seq INTEGER NOT NULL,
    fork_hash BLOB NOT NULL,
    state TEXT NOT NULL,
    head_seq INTEGER NOT NULL,
    head_hash BLOB NOT NULL,
    created_us INTEGER NOT NULL,
    last_us INTEGER NOT NULL,
    UNIQUE (session, name)
) STRICT;
CREATE UNIQUE INDEX branch_root ON branch (session) WHERE parent IS NULL;
CREATE TABLE lineage (
    branch INTEGER NOT NULL REFERENCES branch (number),
    upto_seq INTEGER NOT NULL,
    ancestor INTEGER NOT NULL REFERENCES branch (number),
    PRIMARY KEY (branch, upto_seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE event (
    place INTEGER PRIMARY KEY,
    position INTEGER NOT NULL,
    hash BLOB NOT NULL,
    header BLOB NOT NULL,
    salt BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX event_position ON event (position);
CREATE TABLE request (
    branch INTEGER NOT NULL REFERENCES branch (number),
    key TEXT NOT NULL,
    first_seq INTEGER NOT NULL,
    head_seq INTEGER NOT NULL,
    head_hash BLOB NOT NULL,
    PRIMARY KEY (branch, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE cell (
    space TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    bytes BLOB,
    PRIMARY KEY (space, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE tree (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    size INTEGER NOT NULL,
    edge BLOB NOT NULL,
    branch INTEGER REFERENCES branch (number),
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT;
";

/// Makes the tables of an empty file, or checks that a file is this tenant's log and brings it to the
/// present format.
///
/// # Errors
/// `log_format_unknown`, `tenant_mismatch`, or a storage error.
pub(crate) fn prepare(connection: &Connection, path: &Path, tenant: &TenantId) -> Result<()> {
    if is_empty(connection)? {
        return create(connection, tenant).map_err(|cause| explain(&cause));
    }
    let format = check(connection, path, tenant)?;
    migrations::migrate(connection, path, format)
}

/// Checks that a file is this tenant's log, of this or an earlier format; answers which.
///
/// # Errors
/// `log_format_unknown`, `tenant_mismatch`, or a storage error.
pub(crate) fn check(connection: &Connection, path: &Path, tenant: &TenantId) -> Result<i64> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let application = pragma("application_id").map_err(|cause| explain(&cause))?;
    let format = pragma("user_version").map_err(|cause| explain(&cause))?;
    if application != APPLICATION_ID || !(OLDEST..=FORMAT).contains(&format) {
        let is_plausible = application == APPLICATION_ID && PLAUSIBLE_FORMATS.contains(&format);
        if !is_plausible && first_foreign(connection).map_err(|cause| explain(&cause))?.is_none() {
            return Err(Error::new(codes::LOG_CORRUPT, "the log's database is damaged").why(
                format!(
                    "it has the tables of a log, but names its format {application:#x} {format}"
                ),
            ));
        }
        return Err(Error::new(
            codes::LOG_FORMAT_UNKNOWN,
            format!("could not open {}", path.display()),
        )
        .why(format!("its format is {application:#x} version {format}"))
        .with("format", format)
        .with("known_format", FORMAT));
    }
    let stored: Option<String> = connection
        .query_row("SELECT name FROM tenant", [], |row| row.get(0))
        .optional()
        .map_err(|cause| explain(&cause))?;
    if stored.as_deref() != Some(tenant.as_str()) {
        let stored = stored.unwrap_or_default();
        return Err(Error::new(
            codes::TENANT_MISMATCH,
            format!("could not open {}", path.display()),
        )
        .why(format!("it is the log of tenant `{stored}`, not of `{tenant}`")));
    }
    Ok(format)
}

/// Whether the file has no tables: it was never a log.
pub(crate) fn is_empty(connection: &Connection) -> Result<bool> {
    connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
        .map(|tables| tables == 0)
        .map_err(|cause| explain(&cause))
}

/// The first table, index, view or trigger that is not one of the log's, or not as the log makes it.
pub(crate) fn first_foreign(connection: &Connection) -> rusqlite::Result<Option<Flaw>> {
    let objects = |connection: &Connection| -> rusqlite::Result<BTreeMap<(String, String), _>> {
        connection
            .prepare("SELECT type, name, sql FROM sqlite_schema")?
            .query_map([], |row| {
                Ok(((row.get(0)?, row.get(1)?), row.get::<_, Option<String>>(2)?))
            })?
            .collect()
    };
    let known = Connection::open_in_memory()?;
    known.execute_batch(TABLES)?;
    let (known, found) = (objects(&known)?, objects(connection)?);
    let flaw = |expected: String, found: String| Ok(Some(Flaw { expected, found }));
    for ((kind, name), sql) in &found {
        match known.get(&(kind.clone(), name.clone())) {
            None => return flaw("only the log's own tables".into(), format!("{kind} `{name}`")),
            Some(known) if known != sql => {
                return flaw(format!("{kind} `{name}` as the log makes it"), "another".into());
            }
            Some(_) => {}
        }
    }
    match known.keys().find(|object| !found.contains_key(*object)) {
        Some((kind, name)) => flaw(format!("{kind} `{name}`"), "none".into()),
        None => Ok(None),
    }
}

fn create(connection: &Connection, tenant: &TenantId) -> rusqlite::Result<()> {
    let transaction = connection.unchecked_transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.execute("INSERT INTO tenant VALUES (1, ?1)", [tenant.as_str()])?;
    transaction.execute(
        "INSERT INTO tree VALUES (1, 0, x'', NULL, 0, ?1)",
        [Digest::ZERO.as_bytes().as_slice()],
    )?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()
}

/// The key of an event.
pub(crate) fn place(branch_number: i64, seq: Seq) -> i64 {
    debug_assert!((1..=MAX_BRANCH_NUMBER).contains(&branch_number));
    (branch_number << SEQ_BITS) | integer(seq.min(MAX_SEQ))
}

/// Branch number and sequence of a key.
pub(crate) fn split_place(place: i64) -> (i64, Seq) {
    (place >> SEQ_BITS, u64::try_from(place).unwrap_or(0) & MAX_SEQ)
}

/// A number as SQLite stores it. Times, sequences and sizes stay far below 2^63.
pub(crate) fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Reads what [`integer`] stored.
pub(crate) fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

/// Reads a digest.
pub(crate) fn digest(row: &Row<'_>, column: usize) -> rusqlite::Result<Digest> {
    row.get::<_, [u8; 32]>(column).map(Digest::from_bytes)
}

/// Reads an id or a word in its own shape.
pub(crate) fn word<T: std::str::FromStr>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    text.parse().map_err(|_| {
        let cause = format!("`{text}` is not in the shape of its column");
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, cause.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_events_by_branch_then_sequence() {
        let places = [(1, 0), (1, 1), (1, MAX_SEQ), (2, 0), (MAX_BRANCH_NUMBER, MAX_SEQ)];
        let keys: Vec<i64> = places.iter().map(|(branch, seq)| place(*branch, *seq)).collect();
        assert!(keys.is_sorted() && keys.iter().all(|key| *key > 0), "{keys:?}");
        for (key, expected) in keys.iter().zip(places) {
            assert_eq!(split_place(*key), expected);
        }
    }
}
