//! Sandboxes: those that run, those of a session, and what ended ones left on the disk.

use std::path::PathBuf;

use glasshouse_kernel::codes;
use glasshouse_kernel::driver::SandboxRow;
use glasshouse_model::SessionId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ask::Ask;
use crate::page::{self, MOST, Order, Wanted};
use crate::reply::Reply;
use crate::service::{Service, used};
use crate::{Error, Result};

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "SandboxQuery")]
#[serde(deny_unknown_fields)]
pub(crate) struct Chosen {
    /// One of this session, an ended one too; without it one that runs now.
    session: Option<SessionId>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Sandboxes")]
pub(crate) struct List {
    sandboxes: Vec<SandboxRow>,
    /// Cursor of the next page; `null` on the last one.
    next: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "SandboxesQuery")]
#[serde(deny_unknown_fields)]
pub(crate) struct Listed {
    /// Those of this session, ended ones too; without it those that run now.
    session: Option<SessionId>,
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
    /// Most items of the page.
    #[schemars(range(min = 1, max = MOST))]
    limit: Option<usize>,
}

/// Sandboxes, oldest first.
pub(crate) fn list(service: &Service, ask: &Ask) -> Result<Reply> {
    let Listed { session, cursor, limit } = ask.query()?;
    session.as_ref().map_or(Ok(()), |session| ask.check_session(session))?;
    let wanted = Wanted { cursor: cursor.as_deref(), limit };
    let rows = service.kernel.sandboxes(session.as_ref())?;
    let place = |row: &SandboxRow| (row.created_us, format!("{}:{}", row.branch, row.seq));
    let page = page::page(rows, &wanted, Order::Rising, place)?;
    Ok(Reply::ok(&List { sandboxes: page.items, next: page.next }))
}

/// One sandbox; of several of a name the newest.
pub(crate) fn show(service: &Service, ask: &Ask) -> Result<Reply> {
    let Chosen { session } = ask.query()?;
    session.as_ref().map_or(Ok(()), |session| ask.check_session(session))?;
    let unknown =
        |text: &str| Error::new(codes::SANDBOX_NOT_FOUND, format!("there is no sandbox {text}"));
    let name: String = ask.part("sandbox", unknown)?;
    let rows = service.kernel.sandboxes(session.as_ref())?;
    let row = rows.iter().rev().find(|row| row.sandbox == name);
    Ok(Reply::ok(row.ok_or_else(|| unknown(&name))?))
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "SandboxSweep")]
#[serde(deny_unknown_fields)]
pub(crate) struct Sweep {
    /// Whether it is only told what would be removed.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SandboxesSwept")]
pub(crate) struct Swept {
    /// Whether it was only told.
    dry_run: bool,
    /// Directories.
    removed: Vec<PathBuf>,
}

/// Removes what ended sessions left and nobody uses.
pub(crate) fn sweep(service: &Service, ask: &Ask) -> Result<Reply> {
    let Sweep { dry_run } = ask.json_or_default()?;
    // Before it is done: what nobody can be told of is not done.
    service.kernel.tell_access(vec![used(ask.route, ask.principal()?)], None)?;
    let removed = service.kernel.sweep(dry_run)?;
    Ok(Reply::ok(&Swept { dry_run, removed }))
}
