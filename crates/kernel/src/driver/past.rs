//! The files of a branch as they were after any of its events, and what differs between two such states.

use std::path::Path;

use glasshouse_model::{BranchId, CanonicalPath, Seq};
use glasshouse_sandbox::workspace::{
    BlobStore as _, Change, Entry, FrozenBase, Manifest, SealManifest, differences, recall,
};

use super::workbench::{Blobs, current_owner, read_seal};
use super::{Kernel, recorder};
use crate::merge::{Version, unified};
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
        let (Some(created), Some((_, frozen))) = (&state.created, &state.frozen) else {
            return Err(Error::new(codes::NO_WORKSPACE, format!("{branch} had no files there"))
                .why("no workspace was frozen yet"));
        };
        let bases = self.home.join("cache/bases");
        let project = Path::new(&created.project);
        let head = frozen.head_commit.clone();
        let base = recall(project, &bases, current_owner(), &frozen.base, head)?;
        let seal = match &state.seal {
            Some(seal) => read_seal(&self.log.blob(&seal.manifest.blob)?)?,
            None => SealManifest::unchanged(base.digest),
        };
        Ok(PastFiles { whole: seal.whole(&base.manifest), base, blobs: Blobs(self.log.clone()) })
    }
}

impl PastFiles {
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

    /// What differs in `other`, in path order; a rename is a path that is gone and one that is new.
    #[must_use]
    pub fn changes(&self, other: &Self) -> Vec<Change> {
        differences(&self.whole, &other.whole)
    }

    /// The difference of one path as text that `git apply` reads.
    ///
    /// # Errors
    /// As [`PastFiles::bytes`].
    pub fn unified(&self, other: &Self, path: &CanonicalPath) -> Result<String> {
        let side = |files: &Self| -> Result<Option<(Entry, Vec<u8>)>> {
            let Some(entry) = files.whole.get(path.as_str()) else { return Ok(None) };
            Ok(Some((entry.clone(), files.bytes(path)?)))
        };
        let (old, new) = (side(self)?, side(other)?);
        Ok(unified(
            old.as_ref().map(|(entry, bytes)| Version { path, entry, bytes }),
            new.as_ref().map(|(entry, bytes)| Version { path, entry, bytes }),
        ))
    }
}
