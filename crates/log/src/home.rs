//! The data directory of one tenant: where each file lives, with which rights, and how files are
//! replaced so that a crash leaves the old one or the new one.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::backup;
use crate::codes;
use crate::error::{Error, Result};

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Whom it is locked by says who may write to the log.
const IN_USE: &str = "run/log.lock";
const NAMING: &str = "run/naming.lock";
/// How long a deletion is waited for, and how often it is looked whether it is over.
const NAMING_PATIENCE: Duration = Duration::from_secs(30);
const NAMING_LOOK_EVERY: Duration = Duration::from_millis(20);
/// Suffix of files that are being written; whatever carries it may be deleted.
pub(crate) const TEMPORARY: &str = ".tmp";

/// A tenant's data directory.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    root: PathBuf,
}

impl Home {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Makes what is missing. Directories that the log owns are closed to everyone else; the root
    /// may be shared with other things and is only closed when it is made here.
    pub(crate) fn create(&self) -> Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(&self.root)
            .map_err(|cause| Error::file("create", &self.root, &cause))?;
        for name in ["blobs", "heads", "keys", "run", "cache"] {
            let path = self.root.join(name);
            create_directory(&path)?;
            fs::set_permissions(&path, Permissions::from_mode(DIRECTORY_MODE))
                .map_err(|cause| Error::file("close to others", &path, &cause))?;
        }
        Ok(())
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.root.join("log.db")
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }

    pub(crate) fn snapshots(&self) -> PathBuf {
        self.root.join("cache/snapshots")
    }

    pub(crate) fn backups(&self) -> PathBuf {
        self.root.join(backup::DIRECTORY)
    }

    /// The write-ahead log of the database.
    pub(crate) fn write_ahead_log(&self) -> PathBuf {
        self.root.join("log.db-wal")
    }

    /// Where bytes are set aside that are no log.
    pub(crate) fn quarantine(&self) -> PathBuf {
        self.root.join("quarantine")
    }

    pub(crate) fn archives(&self) -> PathBuf {
        self.root.join("archive")
    }

    /// Where a restore sets aside what it replaces.
    pub(crate) fn replaced(&self) -> PathBuf {
        self.root.join("replaced")
    }

    pub(crate) fn heads(&self) -> PathBuf {
        self.root.join("heads")
    }

    pub(crate) fn secret_key(&self) -> PathBuf {
        self.root.join("keys/head.ed25519")
    }

    pub(crate) fn public_key(&self) -> PathBuf {
        self.root.join("keys/head.pub")
    }

    /// A file that only a log leaves behind: keys, signed heads, blobs, the side files of its
    /// database. `None` in a home that never had a log.
    ///
    /// The database comes into being before any of them, so where one is and no database, there
    /// was a log.
    pub(crate) fn trace(&self) -> Result<Option<PathBuf>> {
        for side in ["log.db-wal", "log.db-shm"] {
            let path = self.root.join(side);
            if !self.database().exists() && exists(&path)? {
                return Ok(Some(path));
            }
        }
        for path in [self.secret_key(), self.public_key()] {
            if exists(&path)? {
                return Ok(Some(path));
            }
        }
        let note = first_entry(&self.heads(), |name| name.ends_with(".note"))?;
        Ok(match note {
            None => first_entry(&self.blobs(), |_| true)?,
            note => note,
        })
    }

    pub(crate) fn has_blobs(&self) -> Result<bool> {
        Ok(first_entry(&self.blobs(), |_| true)?.is_some())
    }

    /// Held by everyone who may write to the log.
    pub(crate) fn lock_in_use(&self) -> Result<FileLock> {
        FileLock::share(&self.root.join(IN_USE))
    }

    /// Held while the log's files are exchanged; `None` while somebody may write to them.
    pub(crate) fn lock_unused(&self) -> Result<Option<FileLock>> {
        FileLock::try_acquire(&self.root.join(IN_USE))
    }

    /// Held while a copy of the database is made, or while none may be.
    pub(crate) fn lock_copies(&self) -> Result<FileLock> {
        FileLock::acquire(&self.root.join("run/backup.lock"))
    }

    /// Held while old sessions are archived.
    pub(crate) fn lock_rotation(&self) -> Result<FileLock> {
        FileLock::acquire(&self.root.join("run/rotate.lock"))
    }

    /// Held by everyone who stores blobs that no lease tells of and that an event is about to name.
    /// `log_busy` when a deletion goes on for longer than anybody waits.
    pub(crate) fn lock_naming(&self) -> Result<FileLock> {
        let until = Instant::now() + NAMING_PATIENCE;
        loop {
            if let Some(lock) = FileLock::try_share(&self.root.join(NAMING))? {
                return Ok(lock);
            }
            if Instant::now() >= until {
                return Err(Error::new(codes::LOG_BUSY, "nothing can be stored for a moment")
                    .why("a session is being deleted, and what only it names is looked up"));
            }
            std::thread::sleep(NAMING_LOOK_EVERY);
        }
    }

    /// Held while blobs go that nobody names; `None` while somebody may be about to.
    pub(crate) fn lock_unnamed(&self) -> Result<Option<FileLock>> {
        FileLock::try_acquire(&self.root.join(NAMING))
    }

    /// Held while the home is opened, so that two processes do not both create it.
    pub(crate) fn lock_opening(&self) -> Result<FileLock> {
        FileLock::acquire(&self.root.join("run/open.lock"))
    }
}

fn exists(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|cause| Error::file("look for", path, &cause))
}

/// An entry of a directory, which may be missing.
fn first_entry(directory: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<Option<PathBuf>> {
    let failed = |cause: &std::io::Error| Error::file("list", directory, cause);
    let entries = match fs::read_dir(directory) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|cause| failed(&cause))?,
    };
    for entry in entries {
        let entry = entry.map_err(|cause| failed(&cause))?;
        if is_wanted(&entry.file_name().to_string_lossy()) {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// An exclusive lock on a file, released when dropped or when the process ends.
#[derive(Debug)]
pub(crate) struct FileLock {
    _file: File,
}

impl FileLock {
    pub(crate) fn acquire(path: &Path) -> Result<Self> {
        let file = open_private(path)?;
        file.lock().map_err(|cause| Error::file("lock", path, &cause))?;
        Ok(Self { _file: file })
    }

    /// Shared with others who do the same.
    fn share(path: &Path) -> Result<Self> {
        let file = open_private(path)?;
        file.lock_shared().map_err(|cause| Error::file("lock", path, &cause))?;
        Ok(Self { _file: file })
    }

    /// The same; `None` while somebody has it alone.
    pub(crate) fn try_share(path: &Path) -> Result<Option<Self>> {
        let file = open_private(path)?;
        match file.try_lock_shared() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(cause)) => Err(Error::file("lock", path, &cause)),
        }
    }

    /// `None` while anybody else has it, shared or not.
    fn try_acquire(path: &Path) -> Result<Option<Self>> {
        let file = open_private(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(cause)) => Err(Error::file("lock", path, &cause)),
        }
    }
}

/// Opens a file for reading and writing, made with our rights when it is missing.
pub(crate) fn open_private(path: &Path) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(path)
        .map_err(|cause| Error::file("open", path, &cause))
}

/// Makes a directory unless it exists.
pub(crate) fn create_directory(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(DIRECTORY_MODE).create(path) {
        Err(cause) if cause.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(Error::file("create", path, &cause))
        }
        _ => Ok(()),
    }
}

/// Makes a directory and those above it that are missing.
pub(crate) fn create_directories(path: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(DIRECTORY_MODE)
        .create(path)
        .map_err(|cause| Error::file("create", path, &cause))
}

/// As [`write_atomically`] for what may be lost: nothing is synced.
pub(crate) fn write_unsynced(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = temporary(path);
    let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|cause| {
        let _ = fs::remove_file(&temporary);
        Error::file("write", path, &cause)
    })
}

fn temporary(path: &Path) -> PathBuf {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    path.with_extension(format!("{}-{serial}{TEMPORARY}", std::process::id()))
}

/// What processes left that were killed while they replaced a file. The ones that are still at it are not
/// among them.
pub(crate) fn unfinished(path: &Path) -> Result<Vec<PathBuf>> {
    let directory = path.parent().expect("a file of the home has a directory");
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut found = entries(directory)?;
    found.retain(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let rest = name.strip_prefix(&*stem).and_then(|rest| rest.strip_prefix('.'));
        let writer = rest.and_then(|rest| rest.strip_suffix(TEMPORARY)?.split_once('-'));
        writer.is_some_and(|(process, _)| !Path::new("/proc").join(process).exists())
    });
    Ok(found)
}

/// What is in a directory; nothing when that is missing, or is none.
pub(crate) fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let failed = |cause: std::io::Error| Error::file("list", directory, &cause);
    let entries = match fs::read_dir(directory) {
        Err(cause) if matches!(cause.kind(), NotFound | NotADirectory) => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    entries.map(|entry| entry.map(|entry| entry.path()).map_err(failed)).collect()
}

/// Replaces a file: after a crash it holds the old bytes or the new ones, and after `Ok` the new
/// ones survive the loss of power. Answers the nanoseconds that syncs took.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<u64> {
    let temporary = temporary(path);
    let written = write_synced(&temporary, bytes).and_then(|sync_ns| {
        fs::rename(&temporary, path)?;
        Ok(sync_ns)
    });
    match written {
        Ok(sync_ns) => Ok(sync_ns + sync_directory_of(path)?),
        Err(cause) => {
            // A half-written file holds space that a full disk needs; if this fails too, it is only
            // litter that carries the suffix of temporary files.
            let _ = fs::remove_file(&temporary);
            Err(Error::file("write", path, &cause))
        }
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<u64> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)?;
    file.write_all(bytes)?;
    sync(&file)
}

/// Makes the entry of a new or renamed file durable. Answers the nanoseconds that took.
pub(crate) fn sync_directory_of(path: &Path) -> Result<u64> {
    let directory = path.parent().expect("a file of the home has a directory");
    File::open(directory)
        .and_then(|directory| sync(&directory))
        .map_err(|cause| Error::file("sync", directory, &cause))
}

/// Puts a finished file in its place; durable when it returns.
pub(crate) fn rename_durably(from: &Path, to: &Path) -> Result<()> {
    let renamed = File::open(from).and_then(|file| file.sync_all());
    renamed
        .and_then(|()| fs::rename(from, to))
        .map_err(|cause| Error::file("put in place", to, &cause))?;
    sync_directory_of(to)?;
    Ok(())
}

fn sync(file: &File) -> std::io::Result<u64> {
    let started = Instant::now();
    file.sync_all()?;
    Ok(nanoseconds_since(started))
}

/// Nanoseconds since `started`; enough for five centuries.
pub(crate) fn nanoseconds_since(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
