//! Telling other processes that a directory is in use, by a lock that ends with its holder.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::beneath::io_failed;
use crate::error::Result;

/// Keeps a directory from being swept while it lives. Many may hold one directory; a sweep needs it
/// alone.
#[derive(Debug)]
pub struct Hold(#[allow(dead_code, reason = "the open file is the lock")] File);

impl Hold {
    /// Makes the directory if it is missing, and holds it. Waits while a sweep is removing it.
    ///
    /// # Errors
    /// `workspace_io`.
    pub fn take(dir: &Path) -> Result<Self> {
        let fail = |e: std::io::Error| io_failed("cannot hold", &dir.display().to_string(), &e);
        loop {
            std::fs::create_dir_all(dir).map_err(fail)?;
            let file = match File::open(dir) {
                Ok(file) => file,
                // A sweep was quicker.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Err(fail(e)),
            };
            match file.lock_shared() {
                Ok(()) => {}
                // A file system without locks: a sweep cannot have it alone either, so it stays.
                Err(e) if e.kind() == std::io::ErrorKind::Unsupported => return Ok(Self(file)),
                Err(e) => return Err(fail(e)),
            }
            let here = file.metadata().map_err(fail)?;
            if dir
                .metadata()
                .is_ok_and(|there| there.ino() == here.ino() && there.dev() == here.dev())
            {
                return Ok(Self(file));
            }
        }
    }

    /// Holds an existing directory alone; none when anyone else holds it, when it cannot be locked, and
    /// when it is gone.
    ///
    /// # Errors
    /// `workspace_io` when it cannot be opened.
    pub fn alone(dir: &Path) -> Result<Option<Self>> {
        let fail = |e: std::io::Error| io_failed("cannot open", &dir.display().to_string(), &e);
        let file = match File::open(dir) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(fail(e)),
        };
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_needs_a_directory_alone() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("a/b");
        let (one, two) = (Hold::take(&at).unwrap(), Hold::take(&at).unwrap());
        assert!(Hold::alone(&at).unwrap().is_none());
        drop(one);
        assert!(Hold::alone(&at).unwrap().is_none());
        drop(two);
        assert!(Hold::alone(&at).unwrap().is_some());
    }

    #[test]
    fn a_directory_that_is_being_swept_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("a");
        std::fs::create_dir(&at).unwrap();
        let sweep = Hold::alone(&at).unwrap().unwrap();
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| Hold::take(&at).unwrap());
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!taken.is_finished());
            std::fs::remove_dir(&at).unwrap();
            drop(sweep);
            let _hold = taken.join().unwrap();
            assert!(at.is_dir());
            assert!(Hold::alone(&at).unwrap().is_none());
        });
    }
}
