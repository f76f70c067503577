//! The files of a branch as they were after any of its events, and what differs between two such states.

use std::path::Path;

use glasshouse_model::{BranchId, CanonicalPath, Seq};
use glasshouse_sandbox::workspace::{
    BlobStore as _, Change, Entry, FrozenBase, Manifest, SealManifest, differences, recall,
};

use super::workbench::{Blobs, current_owner, read_seal};
use super::{Kernel, recorder};
use crate::merge::{Tree, Version, unified};
use crate::session::State;
use crate::{Error, Result, codes};

/// A workspace of the past.
pub struct PastFiles {
    base: FrozenBase,
    whole: Manifest,
    blobs: Blobs,
}

impl Kernel {
    /// The files of a branch after an event: those that the last seal at or before it recorded.
    ///
    /// # Errors
    /// `no_workspace` when nothing was frozen yet, `fork_out_of_range` for an event that is not there,
    /// `base_gone`, or an error of the log.
    pub fn past_files(&self, branch: &BranchId, at: Option<Seq>) -> Result<PastFiles> {
        let head = self.log.head(branch)?.seq;
        if let Some(at) = at.filter(|at| *at == 0 || *at > head) {
            return Err(Error::new(
                glasshouse_log::codes::FORK_OUT_OF_RANGE,
                format!("{branch} has no event {at}"),
            )
            .why(format!("its events are 1 to {head}"))
            .with("head", head));
        }
        let state = self.log.project_to(branch, at.unwrap_or(Seq::MAX))?;
        let state: State = recorder::readable(branch, state)?;
        self.files_of(branch, &state)
    }

    /// The files that a state of a branch holds.
    pub(super) fn files_of(&self, branch: &BranchId, state: &State) -> Result<PastFiles> {
        let (Some(created), Some((_, frozen))) = (&state.created, &state.frozen) else {
            return Err(Error::new(codes::NO_WORKSPACE, format!("{branch} had no files there"))
                .why("no workspace was frozen yet"));
        };
        let bases = self.home.join("cache/bases");
        let project = Path::new(&created.project);
        // To be looked at only.
        self.grounds.check_there(project)?;
        let head = frozen.head_commit.clone();
        let base = recall(project, &bases, current_owner(), &frozen.base, head)?;
        let seal = match &state.seal {
            Some(seal) => read_seal(&self.log.blob(&seal.manifest.blob)?)?,
            None => SealManifest::unchanged(base.digest),
        };
        Ok(PastFiles { whole: seal.whole(&base.manifest), base, blobs: Blobs(self.log.clone()) })
    }
}

impl Tree for PastFiles {
    fn manifest(&self) -> &Manifest {
        &self.whole
    }

    fn bytes(&self, path: &CanonicalPath) -> Result<Vec<u8>> {
        Self::bytes(self, path)
    }
}

impl PastFiles {
    /// The base below them.
    pub(super) const fn base(&self) -> &FrozenBase {
        &self.base
    }

    /// The base alone, as if nothing had been changed.
    pub(super) fn unchanged(&self) -> Self {
        let (base, blobs) = (self.base.clone(), self.blobs.clone());
        Self { whole: base.manifest.clone(), base, blobs }
    }

    /// What is at each path, in path order.
    pub fn entries(&self) -> impl Iterator<Item = (&CanonicalPath, &Entry)> {
        self.whole.iter()
    }

    /// The bytes of a file; nothing for anything else.
    ///
    /// # Errors
    /// `path_not_found`; `blob_not_found` for content that was erased; `workspace_damaged`.
    pub fn bytes(&self, path: &CanonicalPath) -> Result<Vec<u8>> {
        let entry = self.whole.get(path.as_str()).ok_or_else(|| {
            Error::new(glasshouse_sandbox::codes::PATH_NOT_FOUND, format!("no file `{path}`"))
        })?;
        let Some(digest) = entry.file_digest() else { return Ok(Vec::new()) };
        let base = self.base.manifest.get(path.as_str()).and_then(Entry::file_digest);
        if base == Some(digest) { Ok(self.base.read(path)?) } else { Ok(self.blobs.get(digest)?) }
    }

    /// What differs in `other`, in path order; a file with the same content elsewhere was renamed.
    #[must_use]
    pub fn changes(&self, other: &Self) -> Vec<Change> {
        differences(&self.whole, &other.whole)
    }

    /// One change of [`PastFiles::changes`] as text that `git apply` reads.
    ///
    /// # Errors
    /// As [`PastFiles::bytes`].
    pub fn unified(&self, other: &Self, change: &Change) -> Result<String> {
        let from = change.paths().find(|path| **path != change.path).unwrap_or(&change.path);
        let (old, new) = (self.version(from)?, other.version(&change.path)?);
        let path = &change.path;
        Ok(unified(
            old.as_ref().map(|(entry, bytes)| Version { path: from, entry, bytes }),
            new.as_ref().map(|(entry, bytes)| Version { path, entry, bytes }),
        ))
    }

    fn version(&self, path: &CanonicalPath) -> Result<Option<(Entry, Vec<u8>)>> {
        let Some(entry) = self.whole.get(path.as_str()) else { return Ok(None) };
        Ok(Some((entry.clone(), self.bytes(path)?)))
    }
}
