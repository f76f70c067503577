//! Copies of the database beside it, the newest few.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::home;
use crate::store::Store;

/// Backups that are kept; an older one goes when a newer one is made.
pub const KEPT_BACKUPS: usize = 5;

const SUFFIX: &str = ".db";

/// Makes a backup and removes those beyond [`KEPT_BACKUPS`].
pub(crate) fn make(store: &dyn Store, directory: &Path) -> Result<PathBuf> {
    home::create_directory(directory)?;
    let path = directory.join(format!("{:020}{SUFFIX}", store.tree()?.size));
    let unfinished = directory.join(format!("{}.tmp", std::process::id()));
    // A copy that was cut short is litter; it would refuse the next one.
    let _ = fs::remove_file(&unfinished);
    drop(home::open_private(&unfinished)?);
    let made = store.copy_to(&unfinished).and_then(|()| home::rename_durably(&unfinished, &path));
    if let Err(error) = made {
        let _ = fs::remove_file(&unfinished);
        return Err(error);
    }
    remove_old(directory)?;
    Ok(path)
}

fn remove_old(directory: &Path) -> Result<()> {
    let failed = |cause: std::io::Error| Error::file("list", directory, &cause);
    let mut kept = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.to_string_lossy().ends_with(SUFFIX) {
            kept.push(path);
        }
    }
    kept.sort_unstable();
    for old in kept.iter().rev().skip(KEPT_BACKUPS) {
        fs::remove_file(old).map_err(|cause| Error::file("remove", old, &cause))?;
    }
    Ok(())
}
