//! Taking away what a branch does not need any more, and putting back what a command may not keep.

use glasshouse_model::CanonicalPath;
use glasshouse_sandbox::workspace::{Seal, SealManifest};

use super::{CACHE, CLEAN_CACHE, LAYER, MERGES, Workbench};
use crate::{Error, Result, codes};

impl Workbench {
    /// Ends the sandbox and removes everything that the branch has on disk outside the log.
    pub(in crate::driver) fn clear(&mut self) {
        self.end_live(None);
        self.open = None;
        // What stays is found by the next sweep.
        let _ = glasshouse_sandbox::remove_tree(&self.dir);
    }

    /// Removes earlier layers and merges: when new work begins, nothing refers to them any more, nor to
    /// what a freeze left that was not recorded.
    pub(super) fn forget_work(&self) {
        for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            if name == MERGES || name.starts_with(LAYER) {
                let _ = glasshouse_sandbox::remove_tree(&entry.path());
            }
        }
    }

    /// Takes the files back to the last sealed state and empties the caches.
    pub(in crate::driver) fn empty(&mut self) -> Result<()> {
        self.rollback()?;
        for cache in [CACHE, CLEAN_CACHE] {
            let cache = self.dir.join(cache);
            if cache.exists() {
                glasshouse_sandbox::remove_tree(&cache).map_err(|e| {
                    Error::new(codes::TURN_FAILED, "the cache cannot be emptied").why(e)
                })?;
            }
        }
        Ok(())
    }

    /// Gives some paths back the content they had in an earlier state, and seals the rest.
    pub(in crate::driver) fn put_back(
        &mut self,
        before: &SealManifest,
        seal: Seal,
        paths: &[CanonicalPath],
    ) -> Result<Seal> {
        let mut manifest = seal.manifest;
        for path in paths {
            manifest.entries.remove(path);
            manifest.removed.remove(path);
            if let Some(entry) = before.entries.get(path) {
                manifest.entries.insert(path.clone(), entry.clone());
            }
            if before.removed.contains(path) {
                manifest.removed.insert(path.clone());
            }
        }
        self.accept(manifest.clone(), None)?;
        self.rollback()?;
        let changed = self.workspace()?.changes(before, &manifest, &self.blobs)?;
        Ok(Seal { digest: manifest.digest(), manifest, changed, gave_back: false })
    }
}
