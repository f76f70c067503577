//! What proving a log asks of the tables that no hash covers.

use rusqlite::{Connection, OptionalExtension as _};

use super::queries::Sql;
use crate::lease;
use crate::store::Flaw;

/// What must be so, and a query for the first thing that is not.
const RULES: &[(&str, &str)] = &[
    ("one tenant", "SELECT count(*) || ' tenants' FROM tenant HAVING count(*) <> 1"),
    ("one tree", "SELECT count(*) || ' trees' FROM tree HAVING count(*) <> 1"),
    (
        "lineage of branches that exist",
        "SELECT 'lineage of branch ' || branch || ' from ' || ancestor FROM lineage \
         WHERE branch NOT IN (SELECT number FROM branch WHERE parent IS NOT NULL) \
         OR ancestor NOT IN (SELECT number FROM branch)",
    ),
    (
        "as many events as the branches name",
        "SELECT there || ' events, of which ' || named || ' are named' FROM ( \
             SELECT (SELECT count(*) FROM event) AS there, \
             (SELECT coalesce(sum(head_seq - fork_seq), 0) FROM branch) AS named) \
         WHERE there <> named",
    ),
    (
        "requests that name what they stored",
        "SELECT 'request `' || r.key || '` of ' || coalesce(b.id, 'no branch') \
         FROM request r LEFT JOIN branch b ON b.number = r.branch \
         LEFT JOIN event e ON e.place = (r.branch << 40 | r.head_seq) \
         WHERE b.id IS NULL OR r.first_seq > r.head_seq + 1 OR r.first_seq <= b.fork_seq \
         OR coalesce(e.hash, b.fork_hash) <> r.head_hash",
    ),
    (
        "cells with a version",
        "SELECT 'cell `' || space || '/' || key || '` version ' || version FROM cell \
         WHERE version < 1 OR space = '' OR key = ''",
    ),
];

/// The first thing that is not as the log writes it.
pub(crate) fn first_flaw(connection: &Connection) -> Sql<Option<Flaw>> {
    for (expected, query) in RULES {
        let found: Option<String> = connection.query_row(query, [], |row| row.get(0)).optional()?;
        if let Some(found) = found {
            return Ok(Some(Flaw { expected: (*expected).to_owned(), found }));
        }
    }
    if let Some(flaw) = first_bad_lease(connection)? {
        return Ok(Some(flaw));
    }
    let found: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    Ok((found != "ok").then(|| Flaw { expected: "a database without damage".to_owned(), found }))
}

fn first_bad_lease(connection: &Connection) -> Sql<Option<Flaw>> {
    let mut leases = connection.prepare("SELECT key, bytes FROM cell WHERE space = ?1")?;
    let mut rows = leases.query([lease::SPACE])?;
    while let Some(row) = rows.next()? {
        let branch: String = row.get(0)?;
        if lease::Fence::of_cell(row.get(1)?).is_err() {
            let found = format!("lease of {branch} that cannot be read");
            return Ok(Some(Flaw { expected: "leases that can be read".to_owned(), found }));
        }
    }
    Ok(None)
}
