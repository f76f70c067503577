//! From each earlier format of the tables to the next, one step at a time, each in a transaction of its
//! own. Before the first one the database is copied.

use std::fs;
use std::path::Path;

use rusqlite::{Connection, Transaction};

use super::connection::explain;
use super::queries;
use crate::backup;
use crate::error::Result;
use crate::home;

/// `PRAGMA user_version`: the version of the tables, and of what events say to the log itself.
pub(crate) const FORMAT: i64 = 2;
/// The oldest format that can be read, and brought to the present one.
pub(crate) const OLDEST: i64 = 1;

type Step = fn(&Transaction<'_>) -> rusqlite::Result<()>;

/// What makes format `OLDEST + n + 1` of format `OLDEST + n`.
const STEPS: &[Step] = &[erasures_may_name_ranges];

/// Format 2. The tables are the same; a program that knows only format 1 would take a body that was
/// erased as part of a range for one that was taken away.
fn erasures_may_name_ranges(_: &Transaction<'_>) -> rusqlite::Result<()> {
    Ok(())
}

/// Brings an older log to the present format.
pub(crate) fn migrate(connection: &Connection, path: &Path, format: i64) -> Result<()> {
    if format == FORMAT {
        return Ok(());
    }
    copy(connection, path)?;
    run(connection, format, STEPS).map_err(|cause| explain(&cause))
}

fn run(connection: &Connection, format: i64, steps: &[Step]) -> rusqlite::Result<()> {
    for (to, step) in (OLDEST + 1..).zip(steps).filter(|(to, _)| *to > format) {
        let transaction = connection.unchecked_transaction()?;
        step(&transaction)?;
        transaction.pragma_update(None, "user_version", to)?;
        transaction.commit()?;
    }
    Ok(())
}

/// Makes a backup of the log as it is.
fn copy(connection: &Connection, path: &Path) -> Result<()> {
    let directory = path.with_file_name(backup::DIRECTORY);
    home::create_directory(&directory)?;
    let tree = queries::tree(connection).map_err(|cause| explain(&cause))?;
    let events = tree.map_or(0, |(tree, _)| tree.size());
    let unfinished = directory.join(format!("{}.tmp", std::process::id()));
    let _ = fs::remove_file(&unfinished);
    drop(home::open_private(&unfinished)?);
    connection
        .execute("VACUUM INTO ?1", [unfinished.to_string_lossy()])
        .map_err(|cause| explain(&cause))?;
    home::rename_durably(&unfinished, &directory.join(backup::name_of(events)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(connection: &Connection) -> i64 {
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    }

    #[test]
    fn there_is_a_step_from_each_format_to_the_next() {
        assert_eq!(i64::try_from(STEPS.len()).unwrap(), FORMAT - OLDEST);
    }

    #[test]
    fn steps_run_in_order_and_one_that_fails_leaves_nothing() {
        const ADD: Step = |it| it.execute_batch("CREATE TABLE a (n); INSERT INTO a VALUES (1)");
        const CHANGE: Step = |it| it.execute_batch("UPDATE a SET n = n + 1");
        const FAIL: Step =
            |it| it.execute_batch("UPDATE a SET n = 9; INSERT INTO missing VALUES (1)");
        let check = |format: i64, steps: &[Step], expected: (i64, Option<i64>)| {
            let connection = Connection::open_in_memory().unwrap();
            connection.pragma_update(None, "user_version", format).unwrap();
            if format > 1 {
                ADD(&connection.unchecked_transaction().unwrap()).unwrap_or_default();
            }
            let _ = run(&connection, format, steps);
            let n = connection.query_row("SELECT n FROM a", [], |row| row.get(0)).ok();
            assert_eq!((version(&connection), n), expected, "from {format}");
        };
        check(1, &[ADD, CHANGE, CHANGE], (4, Some(3)));
        check(1, &[ADD, FAIL, CHANGE], (2, Some(1)));
        check(1, &[FAIL], (1, None));
        check(4, &[ADD, CHANGE, CHANGE], (4, None));
    }
}
