//! `audit backup` and `audit restore`.

use std::path::PathBuf;

use glasshouse_kernel::codes;
use glasshouse_log::Log;
use glasshouse_model::{Exit, TenantId};

use crate::error::Error;
use crate::{home, input, output};

/// Makes a backup.
pub(super) fn make(json: bool) -> Result<u8, Error> {
    let home = home::data_dir()?;
    // A home without a log is told so, not given one.
    drop(Log::open_read_only(&home, &TenantId::local())?);
    let made = Log::open(&home, &TenantId::local())?.back_up()?;
    if json {
        output::json_line(&serde_json::json!({ "backup": made }));
    } else {
        output::data(&made.display().to_string());
    }
    Ok(Exit::Done.status())
}

/// Lists the backups, the oldest first.
pub(super) fn list(json: bool) -> Result<u8, Error> {
    let kept = glasshouse_log::backups(&home::data_dir()?)?;
    if kept.is_empty() && !json {
        output::note("no backups yet; `glasshouse audit backup` makes one");
    }
    for backup in kept {
        if json {
            output::json_line(&serde_json::json!({ "backup": backup }));
        } else {
            output::data(&backup.display().to_string());
        }
    }
    Ok(Exit::Done.status())
}

/// Puts a backup in the place of the log.
pub(super) fn restore(file: Option<PathBuf>, accept_loss: bool, json: bool) -> Result<u8, Error> {
    let home = home::data_dir()?;
    let newest = || glasshouse_log::backups(&home).map(|mut kept| kept.pop());
    let file = match file {
        Some(file) => {
            // A name that is none is no fault of the storage.
            input::open(&file, u64::MAX - 1)?;
            file
        }
        None => newest()?.ok_or_else(|| {
            Error::new(codes::INPUT_UNREADABLE, "there is no backup to restore")
                .why(format!("none is kept in {}", home.join("backups").display()))
                .fix("name a file")
        })?,
    };
    let done = glasshouse_log::restore(&home, &TenantId::local(), &file, accept_loss)?;
    if json {
        output::json_line(&done);
    } else {
        output::data(&format!("restored {} events from {}", done.events, file.display()));
        if done.lost_events > 0 {
            output::note(&format!("given up, and recorded: {} events", done.lost_events));
        }
        output::note(&format!("what was there before: {}", done.replaced.display()));
    }
    Ok(Exit::Done.status())
}
