//! `audit rotate`.

use glasshouse_log::{Log, Rotated};
use glasshouse_model::{Exit, TenantId};

use crate::error::Error;
use crate::{home, output};

/// Archives old sessions, or names those that would be.
pub(super) fn run(dry_run: bool, json: bool) -> Result<u8, Error> {
    // A home without a log is told so, not given one.
    drop(Log::open_read_only(&home::data_dir()?, &TenantId::local())?);
    let done = home::kernel()?.rotate(dry_run)?;
    if json {
        output::json_line(&done);
    } else {
        tell(&done, dry_run);
    }
    Ok(Exit::Done.status())
}

fn tell(done: &Rotated, dry_run: bool) {
    let Rotated { archived, left, deleted, usage, backup } = done;
    let verb = if dry_run { "would archive" } else { "archived" };
    for archive in archived {
        output::data(&format!("{verb} {} ({} events)", archive.file, archive.events));
    }
    for left in left {
        output::note(&format!("{} stays: {}", left.session, left.why));
    }
    for file in deleted {
        output::data(&format!("deleted {file}: the log was full"));
    }
    if archived.is_empty() && deleted.is_empty() {
        output::data("nothing to archive");
    }
    if let Some(backup) = backup {
        output::note(&format!("new backup: {}", backup.display()));
    }
    let (bytes, limit) = (usage.bytes, usage.limit_bytes);
    let (percent, blobs) = (usage.percent, usage.blob_bytes);
    output::note(&format!(
        "in use: {percent}% ({bytes} of {limit} bytes, {blobs} of them contents that no rotation removes)"
    ));
}
