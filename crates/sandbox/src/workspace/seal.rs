//! A workspace: one overlay layer above a frozen base, and the seals that record its states.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glasshouse_model::{CanonicalPath, Digest};
use rustix::fs::{AtFlags, Gid, Mode, Uid};
use serde::{Deserialize, Serialize};

use super::beneath::{Root, failed, io_failed};
use super::change::{Change, ChangeSet, Contents, between};
use super::freeze::{FrozenBase, GitState, Owner};
use super::upper::{Marks, Memory, Scanned, scan};
use super::{BlobStore, Manifest, SealManifest, restore};
use crate::codes;
use crate::error::{Error, Result};
use crate::spec::OverlayDirs;

/// Version of `workspace.json`.
const FORMAT: u32 = 1;
const RECORD: &str = "workspace.json";
const UPPER: &str = "upper";

/// A recorded state of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// The state, as its difference from the base. Every content it names is in the blob store.
    pub manifest: SealManifest,
    /// Digest of `manifest`.
    pub digest: Digest,
    /// What changed since the state the caller named.
    pub changed: Vec<Change>,
    /// Whether an owner got rights back that a command had taken away. A sandbox that has the layer mounted may go
    /// on without them: the next one has them.
    #[serde(skip)]
    pub gave_back: bool,
}

/// One branch's files. It holds nothing that cannot be made again from the base and a seal, so it is
/// not synced: after a power loss, [`Workspace::rollback`] to the last seal of the log.
#[derive(Debug)]
pub struct Workspace {
    dir: PathBuf,
    base: Arc<FrozenBase>,
    marks: Marks,
    memory: Mutex<Memory>,
    ignored: Mutex<HashMap<CanonicalPath, bool>>,
}

/// `workspace.json`: the base without its manifest, which lies beside the base.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: u32,
    project: PathBuf,
    base_dir: PathBuf,
    base: Digest,
    git: Option<GitState>,
    submodules: BTreeSet<CanonicalPath>,
    owner: Owner,
    marks: Marks,
}

impl Workspace {
    /// Makes an empty layer above a base in a new directory. Cost does not depend on the base's size.
    /// `marks` says how the backend will mount it.
    ///
    /// # Errors
    /// `workspace_io`, also when `dir` already is a workspace.
    pub fn create(base: Arc<FrozenBase>, dir: &Path, marks: Marks) -> Result<Self> {
        let text = dir.display().to_string();
        let io = |e: std::io::Error| io_failed("cannot make the workspace", &text, &e);
        if dir.join(RECORD).exists() {
            return Err(io(std::io::ErrorKind::AlreadyExists.into()));
        }
        std::fs::create_dir_all(dir).map_err(io)?;
        let workspace = Self {
            dir: dir.to_owned(),
            base,
            marks,
            memory: Mutex::default(),
            ignored: Mutex::default(),
        };
        workspace.make_owned(UPPER)?;
        workspace.make_owned("work")?;
        let base = &workspace.base;
        let record = Record {
            format: FORMAT,
            project: base.project.clone(),
            base_dir: base.dir.clone(),
            base: base.digest,
            git: base.git.clone(),
            submodules: base.submodules.clone(),
            owner: base.owner,
            marks,
        };
        let bytes = serde_json::to_vec(&record).map_err(|e| io(e.into()))?;
        let staged = dir.join("workspace.json.new");
        std::fs::write(&staged, bytes).map_err(io)?;
        std::fs::rename(&staged, dir.join(RECORD)).map_err(io)?;
        Ok(workspace)
    }

    /// Opens a workspace made earlier, with its base.
    ///
    /// # Errors
    /// `workspace_damaged` when its record or its base is not whole, `workspace_io`.
    pub fn open(dir: &Path) -> Result<Self> {
        let text = dir.display().to_string();
        let damaged = |why: &dyn std::fmt::Display| {
            Error::new(codes::WORKSPACE_DAMAGED, format!("cannot open the workspace `{text}`"))
                .why(why)
        };
        let read = |path: PathBuf| {
            std::fs::read(&path)
                .map_err(|e| io_failed("cannot read", &path.display().to_string(), &e))
        };
        let record: Record =
            serde_json::from_slice(&read(dir.join(RECORD))?).map_err(|e| damaged(&e))?;
        if record.format != FORMAT {
            return Err(damaged(&format!("its format is {}, ours is {FORMAT}", record.format)));
        }
        let beside = record.base_dir.with_file_name("manifest.json");
        let manifest: Manifest = serde_json::from_slice(&read(beside)?).map_err(|e| damaged(&e))?;
        if manifest.digest() != record.base {
            return Err(damaged(&"the base's manifest has another digest"));
        }
        let base = FrozenBase {
            project: record.project,
            dir: record.base_dir,
            digest: record.base,
            manifest,
            git: record.git,
            submodules: record.submodules,
            owner: record.owner,
            left_out: Vec::new(),
        };
        let workspace = Self {
            dir: dir.to_owned(),
            base: Arc::new(base),
            marks: record.marks,
            memory: Mutex::default(),
            ignored: Mutex::default(),
        };
        restore::clean_up(dir)?;
        Ok(workspace)
    }

    /// The base below the layer.
    #[must_use]
    pub fn base(&self) -> &Arc<FrozenBase> {
        &self.base
    }

    /// Where the overlay has to keep its marks, which says with which options it is mounted.
    #[must_use]
    pub const fn marks(&self) -> Marks {
        self.marks
    }

    /// What to mount.
    #[must_use]
    pub fn overlay_dirs(&self) -> OverlayDirs {
        OverlayDirs {
            lowers: vec![self.base.dir.clone()],
            upper: self.dir.join(UPPER),
            work: self.dir.join("work"),
        }
    }

    /// The state in which nothing is changed.
    #[must_use]
    pub fn unchanged(&self) -> SealManifest {
        SealManifest::unchanged(self.base.digest)
    }

    /// Records the present state: walks the layer, stores changed contents, and only then answers.
    /// `previous` is the state that `changed` is told against; `blobs` is the same store each time.
    ///
    /// Call it when no command of the workspace is running: a file that is being written is recorded
    /// as it was read.
    ///
    /// # Errors
    /// `path_unrepresentable`, `workspace_too_large`, `workspace_damaged`, `workspace_io`, `git_failed`,
    /// and what the blob store answers.
    pub fn seal(&self, blobs: &dyn BlobStore, previous: &SealManifest) -> Result<Seal> {
        self.check_base(previous)?;
        let upper = self.dir.join(UPPER);
        let Scanned { manifest, gave_back } =
            scan(&upper, self.marks, &self.base, blobs, &mut lock(&self.memory))?;
        let changed = self.changes(previous, &manifest, blobs)?;
        let digest = manifest.digest();
        Ok(Seal { manifest, digest, changed, gave_back })
    }

    /// What differs between two states of this base.
    ///
    /// # Errors
    /// `workspace_damaged` when a state belongs to another base, and as [`Workspace::seal`].
    pub fn changes(
        &self,
        old: &SealManifest,
        new: &SealManifest,
        blobs: &dyn BlobStore,
    ) -> Result<Vec<Change>> {
        self.check_base(old)?;
        self.check_base(new)?;
        let contents = Contents { base: &self.base, blobs };
        between(&contents, old, new, |paths| self.ignored(paths))
    }

    /// What a state would merge into the project.
    ///
    /// # Errors
    /// As [`Workspace::changes`].
    pub fn change_set(&self, state: &SealManifest, blobs: &dyn BlobStore) -> Result<ChangeSet> {
        let all = self.changes(&self.unchanged(), state, blobs)?;
        Ok(ChangeSet::new(self.base.digest, all))
    }

    /// Puts the layer back into an earlier state. Only while no sandbox has it mounted. The change is
    /// one rename: a crash leaves the old state or the new one, and a retry is harmless. Special
    /// files of the state are not made again.
    ///
    /// # Errors
    /// `workspace_damaged`, `workspace_io`, and what the blob store answers.
    pub fn rollback(&self, to: &SealManifest, blobs: &dyn BlobStore) -> Result<()> {
        self.check_base(to)?;
        restore::replace_upper(&self.dir, &self.base, to, blobs)?;
        *lock(&self.memory) = Memory::default();
        Ok(())
    }

    fn check_base(&self, state: &SealManifest) -> Result<()> {
        if state.base == self.base.digest {
            return Ok(());
        }
        Err(Error::new(codes::WORKSPACE_DAMAGED, "cannot use the recorded state").why(format!(
            "it is above base {}, this workspace is above {}",
            state.base, self.base.digest
        )))
    }

    /// Asks git once for each new path; a second seal with the same files starts no process.
    fn ignored(&self, paths: &[&CanonicalPath]) -> Result<BTreeSet<CanonicalPath>> {
        let mut known = lock(&self.ignored);
        let unknown: Vec<_> =
            paths.iter().copied().filter(|path| !known.contains_key(*path)).collect();
        let ignored = self.base.ignored(unknown.iter().copied())?;
        known.extend(unknown.into_iter().map(|path| (path.clone(), ignored.contains(path))));
        Ok(paths
            .iter()
            .filter(|path| known.get(**path) == Some(&true))
            .map(|path| (*path).clone())
            .collect())
    }

    fn make_owned(&self, name: &str) -> Result<()> {
        make_owned(&self.dir, name, self.base.owner)
    }
}

/// The base that the workspace in a directory is above; none when there is no workspace.
pub(super) fn base_dir_of(dir: &Path) -> Result<Option<PathBuf>> {
    let path = dir.join(RECORD);
    let fail = |e: std::io::Error| io_failed("cannot read", &path.display().to_string(), &e);
    let bytes = match std::fs::read(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(fail)?,
    };
    let record: Record = serde_json::from_slice(&bytes).map_err(|e| fail(e.into()))?;
    Ok(Some(record.base_dir))
}

/// Makes a directory of the layer, mode 755, given to the sandbox's user; an existing one is taken.
pub(super) fn make_owned(dir: &Path, name: &str, owner: Owner) -> Result<()> {
    let text = dir.join(name).display().to_string();
    let fail = |e| failed("cannot make", &text, e);
    let holder = Root::open(dir)?;
    let fd = holder.fd().as_fd();
    match rustix::fs::mkdirat(fd, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(e) => return Err(fail(e)),
    }
    rustix::fs::chmodat(fd, name, Mode::from_raw_mode(0o755), AtFlags::empty()).map_err(fail)?;
    let (uid, gid) = (Some(Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid)));
    rustix::fs::chownat(fd, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW).map_err(fail)
}

/// A lock whose holder failed guards only caches: what is in them is still true.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
