//! Reading, shared by the readers' connections and the writer's transaction.

use glasshouse_model::{BranchId, Digest, Seq, SessionId};
use rusqlite::types::{Type, ValueRef};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, params};

use super::schema::{SEQ_BITS, digest, integer, number, place, split_place, word};
use crate::append::{Cell, Head};
use crate::branch::{BranchRow, BranchState, Fork, NewBranch, Segment, SessionRow};
use crate::cells::StoredCell;
use crate::record::Record;
use crate::rules::Taken;
use crate::store::Leaf;
use crate::tree::Tree;

pub(crate) type Sql<T> = rusqlite::Result<T>;

/// A query for branches with a condition.
macro_rules! branches_where {
    ($condition:literal) => {
        concat!(
            "SELECT b.number, b.session, b.id, b.name, p.id, b.fork_seq, b.fork_hash, b.state, \
             b.head_seq, b.head_hash, b.created_us, b.last_us \
             FROM branch b LEFT JOIN branch p ON p.number = b.parent WHERE ",
            $condition
        )
    };
}

fn branch_row(row: &Row<'_>) -> Sql<(i64, BranchRow)> {
    let fork = if row.get_ref(4)? == ValueRef::Null {
        None
    } else {
        Some(Fork { parent: word(row, 4)?, seq: number(row, 5)?, hash: digest(row, 6)? })
    };
    let (state, is_imported) = state(row, 7)?;
    let branch = BranchRow {
        session: word(row, 1)?,
        branch: word(row, 2)?,
        name: row.get(3)?,
        fork,
        state,
        is_imported,
        head: Head { seq: number(row, 8)?, hash: digest(row, 9)? },
        created_us: number(row, 10)?,
        last_us: number(row, 11)?,
    };
    Ok((row.get(0)?, branch))
}

fn state(row: &Row<'_>, column: usize) -> Sql<(BranchState, bool)> {
    let word = row.get_ref(column)?.as_str()?;
    BranchRow::state_of_stored(word).ok_or_else(|| {
        let cause = format!("`{word}` is no branch state");
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, cause.into())
    })
}

/// A branch and its number.
pub(crate) fn branch(connection: &Connection, branch: &BranchId) -> Sql<Option<(i64, BranchRow)>> {
    cached(connection, branches_where!("b.id = ?1"))?
        .query_row([branch.as_str()], branch_row)
        .optional()
}

/// The branches of one session, or all, by number.
pub(crate) fn branches(
    connection: &Connection,
    session: Option<&SessionId>,
) -> Sql<Vec<BranchRow>> {
    let row = |row: &Row<'_>| Ok(branch_row(row)?.1);
    match session {
        None => cached(connection, branches_where!("true ORDER BY b.number"))?
            .query_map([], row)?
            .collect(),
        Some(session) => cached(connection, branches_where!("b.session = ?1 ORDER BY b.number"))?
            .query_map([session.as_str()], row)?
            .collect(),
    }
}

/// What of a new branch is taken; however many branches there are, from indexes alone.
pub(crate) fn taken(connection: &Connection, new: &NewBranch) -> Sql<Taken> {
    let statement = "SELECT EXISTS (SELECT 1 FROM branch WHERE id = ?1), \
                     EXISTS (SELECT 1 FROM branch WHERE session = ?2 AND name = ?3), \
                     EXISTS (SELECT 1 FROM branch WHERE session = ?2 AND parent IS NULL)";
    cached(connection, statement)?
        .query_row([new.branch.as_str(), new.session.as_str(), new.name.as_str()], |row| {
            Ok(Taken { id: row.get(0)?, name: row.get(1)?, root: row.get(2)? })
        })
}

/// The largest number of a branch; 0 when there is none.
pub(crate) fn last_branch_number(connection: &Connection) -> Sql<i64> {
    cached(connection, "SELECT coalesce(max(number), 0) FROM branch")?
        .query_row([], |row| row.get(0))
}

/// SQLite's count of what other connections wrote, as this one has noticed it.
pub(crate) fn data_version(connection: &Connection) -> Sql<i64> {
    cached(connection, "PRAGMA data_version")?.query_row([], |row| row.get(0))
}

/// Sessions, the newest first.
pub(crate) fn sessions(connection: &Connection) -> Sql<Vec<SessionRow>> {
    let sql = "SELECT r.session, r.id, r.created_us, max(b.last_us), sum(b.head_seq - b.fork_seq) \
               FROM branch r JOIN branch b ON b.session = r.session WHERE r.parent IS NULL \
               GROUP BY r.number ORDER BY r.number DESC";
    cached(connection, sql)?
        .query_map([], |row| {
            Ok(SessionRow {
                session: word(row, 0)?,
                main: word(row, 1)?,
                created_us: number(row, 2)?,
                last_us: number(row, 3)?,
                events: number(row, 4)?,
            })
        })?
        .collect()
}

/// The ancestors of a branch, oldest first.
pub(crate) fn ancestors(connection: &Connection, branch_number: i64) -> Sql<Vec<Segment>> {
    let sql = "SELECT b.id, l.upto_seq FROM lineage l JOIN branch b ON b.number = l.ancestor \
               WHERE l.branch = ?1 ORDER BY l.upto_seq";
    cached(connection, sql)?
        .query_map([branch_number], |row| {
            Ok(Segment { branch: word(row, 0)?, upto: number(row, 1)? })
        })?
        .collect()
}

/// Rows that a branch stores itself.
pub(crate) fn rows(
    connection: &Connection,
    branch_number: i64,
    from: Seq,
    upto: Seq,
    limit: usize,
) -> Sql<Vec<Record>> {
    let sql = "SELECT place, position, hash, header, salt, body FROM event \
               WHERE place BETWEEN ?1 AND ?2 ORDER BY place LIMIT ?3";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    cached(connection, sql)?
        .query_map(params![place(branch_number, from), place(branch_number, upto), limit], record)?
        .collect()
}

fn record(row: &Row<'_>) -> Sql<Record> {
    Ok(Record {
        seq: split_place(row.get(0)?).1,
        position: number(row, 1)?,
        hash: digest(row, 2)?,
        header: row.get(3)?,
        salt: row.get(4)?,
        body: row.get(5)?,
    })
}

/// Hash of what stands before a sequence in a branch's own part: an own event or the fork's.
pub(crate) fn hash_before(connection: &Connection, branch_number: i64, seq: Seq) -> Sql<Digest> {
    let sql = "SELECT coalesce((SELECT hash FROM event WHERE place = ?2), fork_hash) \
               FROM branch WHERE number = ?1";
    cached(connection, sql)?
        .query_row(params![branch_number, place(branch_number, seq - 1)], |row| digest(row, 0))
}

/// What an idempotency key stored: its first sequence and the head after it.
pub(crate) fn request(
    connection: &Connection,
    branch_number: i64,
    key: &str,
) -> Sql<Option<(Seq, Head)>> {
    let sql = "SELECT first_seq, head_seq, head_hash FROM request WHERE branch = ?1 AND key = ?2";
    cached(connection, sql)?
        .query_row(params![branch_number, key], |row| {
            Ok((number(row, 0)?, Head { seq: number(row, 1)?, hash: digest(row, 2)? }))
        })
        .optional()
}

/// Events in commit order.
pub(crate) fn leaves(connection: &Connection, from_position: u64, limit: usize) -> Sql<Vec<Leaf>> {
    let sql = format!(
        "SELECT e.position, b.id, e.place, e.hash FROM event e \
         LEFT JOIN branch b ON b.number = e.place >> {SEQ_BITS} \
         WHERE e.position >= ?1 ORDER BY e.position LIMIT ?2"
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    cached(connection, &sql)?
        .query_map(params![integer(from_position), limit], |row| {
            Ok(Leaf {
                position: number(row, 0)?,
                branch: word(row, 1)?,
                seq: split_place(row.get(2)?).1,
                hash: digest(row, 3)?,
            })
        })?
        .collect()
}

/// The position of an event, from the index of positions alone. Reads all of that.
pub(crate) fn position(connection: &Connection, branch_number: i64, seq: Seq) -> Sql<Option<u64>> {
    // The sign keeps SQLite from looking the row up in its table.
    let sql = "SELECT position FROM event INDEXED BY event_position WHERE +place = ?1";
    cached(connection, sql)?.query_row([place(branch_number, seq)], |row| number(row, 0)).optional()
}

/// The tree and the number, id and head of the branch that holds its newest event. The outer
/// `None` stands for a right edge that does not fit its size.
#[expect(clippy::type_complexity, reason = "one row, read in two places")]
pub(crate) fn tree(connection: &Connection) -> Sql<Option<(Tree, Option<(i64, BranchId, Head)>)>> {
    let sql = "SELECT t.size, t.edge, t.branch, b.id, t.seq, t.hash \
               FROM tree t LEFT JOIN branch b ON b.number = t.branch";
    cached(connection, sql)?.query_row([], |row| {
        let edge: Vec<u8> = row.get(1)?;
        let Some(tree) = Tree::from_edge(number(row, 0)?, &edge) else { return Ok(None) };
        let newest = match row.get::<_, Option<i64>>(2)? {
            Some(branch_number) => {
                let head = Head { seq: number(row, 4)?, hash: digest(row, 5)? };
                Some((branch_number, word(row, 3)?, head))
            }
            None => None,
        };
        Ok(Some((tree, newest)))
    })
}

/// Bytes of the pages that hold something.
pub(crate) fn used_bytes(connection: &Connection) -> Sql<u64> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| number(row, 0));
    let pages = pragma("page_count")?.saturating_sub(pragma("freelist_count")?);
    Ok(pages.saturating_mul(pragma("page_size")?))
}

/// A cell's version and bytes; a deleted cell keeps its version.
pub(crate) fn cell(
    connection: &Connection,
    space: &str,
    key: &str,
) -> Sql<Option<(u64, Option<Vec<u8>>)>> {
    cached(connection, "SELECT version, bytes FROM cell WHERE space = ?1 AND key = ?2")?
        .query_row([space, key], |row| Ok((number(row, 0)?, row.get(1)?)))
        .optional()
}

/// The cells of a space after a key.
pub(crate) fn cells(
    connection: &Connection,
    space: &str,
    after: &str,
    limit: usize,
) -> Sql<Vec<(String, Cell)>> {
    let sql = "SELECT key, version, bytes FROM cell \
               WHERE space = ?1 AND key > ?2 AND bytes IS NOT NULL ORDER BY key LIMIT ?3";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    cached(connection, sql)?
        .query_map(params![space, after, limit], |row| {
            Ok((row.get(0)?, Cell { version: number(row, 1)?, bytes: row.get(2)? }))
        })?
        .collect()
}

/// Every cell after one, by space and key, also deleted ones.
pub(crate) fn stored_cells(
    connection: &Connection,
    after: (&str, &str),
    limit: usize,
) -> Sql<Vec<StoredCell>> {
    let sql = "SELECT space, key, version, bytes FROM cell WHERE (space, key) > (?1, ?2) \
               ORDER BY space, key LIMIT ?3";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    cached(connection, sql)?
        .query_map(params![after.0, after.1, limit], |row| {
            let (space, key) = (row.get(0)?, row.get(1)?);
            Ok(StoredCell { space, key, version: number(row, 2)?, bytes: row.get(3)? })
        })?
        .collect()
}

pub(crate) fn cached<'c>(connection: &'c Connection, sql: &str) -> Sql<CachedStatement<'c>> {
    connection.prepare_cached(sql)
}
