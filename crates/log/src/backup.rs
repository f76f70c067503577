//! Copies of the database beside it, the newest few.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::home::{self, FileLock, Home};
use crate::restore;
use crate::store::Store;

/// Backups that are kept; an older one goes when a newer one is made.
pub const KEPT_BACKUPS: usize = 5;

/// Where they are, below the home.
pub(crate) const DIRECTORY: &str = "backups";
const SUFFIX: &str = ".db";
/// Largest database that is copied without being asked.
const MAX_UNASKED_BYTES: u64 = 256 << 20;
/// Time between two copies that nobody asked for.
const UNASKED_EVERY: Duration = Duration::from_secs(3600);

/// Makes a backup and removes those beyond [`KEPT_BACKUPS`].
pub(crate) fn make(store: &dyn Store, home: &Home) -> Result<PathBuf> {
    let directory = home.backups();
    home::create_directory(&directory)?;
    let path = directory.join(name_of(store.tree()?.size));
    // One at a time: two would write the same unfinished file.
    let _lock = home.lock_copies()?;
    // Copies that were cut short are litter as large as the log, and one would refuse the next.
    remove(&unfinished(&directory)?)?;
    let unfinished = directory.join(format!("{}{}", std::process::id(), home::TEMPORARY));
    drop(home::open_private(&unfinished)?);
    let made = store.copy_to(&unfinished).and_then(|()| home::rename_durably(&unfinished, &path));
    if let Err(error) = made {
        let _ = fs::remove_file(&unfinished);
        return Err(error);
    }
    remove_old(&directory)?;
    Ok(path)
}

/// Whether the database is copied without being asked.
pub(crate) fn is_small(home: &Home) -> bool {
    home.database().metadata().map_or(0, |file| file.len()) <= MAX_UNASKED_BYTES
}

/// Whether a session's end should make one.
pub(crate) fn is_due(store: &dyn Store, home: &Home) -> Result<bool> {
    let Some(newest) = list(&home.backups())?.pop() else { return Ok(is_small(home)) };
    let age = newest.metadata().and_then(|file| file.modified()).ok();
    let is_old = age.and_then(|time| time.elapsed().ok()).is_none_or(|age| age >= UNASKED_EVERY);
    let present = name_of(store.tree()?.size);
    let holds_all = newest.file_name().is_some_and(|name| *name == *present);
    Ok(is_old && !holds_all && is_small(home))
}

/// Backups, the oldest first.
pub(crate) fn list(directory: &Path) -> Result<Vec<PathBuf>> {
    files(directory, SUFFIX)
}

/// What killed processes left of backups.
fn unfinished(directory: &Path) -> Result<Vec<PathBuf>> {
    files(directory, home::TEMPORARY)
}

fn files(directory: &Path, suffix: &str) -> Result<Vec<PathBuf>> {
    let mut kept = home::entries(directory)?;
    kept.retain(|path| path.to_string_lossy().ends_with(suffix));
    kept.sort_unstable();
    Ok(kept)
}

/// Removes every copy of the database and of parts of it, and lets none be made while the answer lives: an erasure would
/// be undone by one.
pub(crate) fn forbid(home: &Home) -> Result<FileLock> {
    let lock = home.lock_copies()?;
    let backups = home.backups();
    remove(&list(&backups)?)?;
    remove(&unfinished(&backups)?)?;
    restore::forget(home)?;
    for directory in [home.replaced(), home.quarantine()] {
        match fs::remove_dir_all(&directory) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::file("remove", &directory, &cause));
            }
            _ => {}
        }
    }
    Ok(lock)
}

/// Moves the backups of events that are given up: by their names they would be newer than any that follows,
/// and would be kept in its place.
pub(crate) fn give_up_beyond(directory: &Path, aside: &Path, events: u64) -> Result<()> {
    let last = name_of(events);
    for backup in list(directory)? {
        let name = backup.file_name().unwrap_or_default();
        if *name > *last {
            home::create_directory(aside)?;
            home::rename_durably(&backup, &aside.join(name))?;
        }
    }
    Ok(())
}

fn remove_old(directory: &Path) -> Result<()> {
    let kept = list(directory)?;
    remove(&kept[..kept.len().saturating_sub(KEPT_BACKUPS)])
}

fn remove(backups: &[PathBuf]) -> Result<()> {
    for old in backups {
        fs::remove_file(old).map_err(|cause| Error::file("remove", old, &cause))?;
    }
    Ok(())
}

/// The name of a backup of so many events.
pub(crate) fn name_of(events: u64) -> String {
    format!("{events:020}{SUFFIX}")
}
