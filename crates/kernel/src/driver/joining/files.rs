//! The files of a merge.

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_model::body::{BlobRef, ChangedPath, MergeSide, MergedWorkspace, TakenPath};
use glasshouse_model::{CanonicalPath, ChangeClass};
use glasshouse_sandbox::workspace::{BlobStore as _, Entry, Manifest, SealManifest, differences};

use super::{Branches, MAX_NAMED_PATHS};
use crate::classify::{Classifier, Contents};
use crate::driver::Kernel;
use crate::driver::execute::changed_path;
use crate::driver::past::PastFiles;
use crate::driver::start::put;
use crate::driver::workbench::{Blobs, manifest_bytes};
use crate::merge::{Conflict, JoinedTrees, Origin, Tree as _, join_trees};
use crate::session::{SealRecord, State};
use crate::{Error, Result, codes};

/// What comes to the target's files.
#[derive(Default)]
pub(super) struct Brought {
    /// What is recorded; nothing when no file changes.
    pub(super) workspace: Option<MergedWorkspace>,
    pub(super) changed: Vec<ChangedPath>,
    pub(super) conflicts: Vec<Conflict>,
    pub(super) taken: Vec<TakenPath>,
}

/// Whose version of paths a person takes.
pub(super) struct Choice {
    all: Option<MergeSide>,
    paths: BTreeMap<CanonicalPath, MergeSide>,
}

impl Choice {
    pub(super) fn new(take: &[(String, MergeSide)]) -> Result<Self> {
        let mut choice = Self { all: None, paths: BTreeMap::new() };
        for (path, side) in take {
            if path.is_empty() {
                choice.all = Some(*side);
                continue;
            }
            let path = CanonicalPath::parse(path).map_err(|cause| {
                Error::new(codes::USAGE, format!("`{path}` names no file of a workspace"))
                    .why(cause)
            })?;
            choice.paths.insert(path, *side);
        }
        Ok(choice)
    }

    fn of(&self, path: &CanonicalPath) -> Option<MergeSide> {
        self.paths.get(path).copied().or(self.all)
    }

    /// A path that is named but is in no conflict was misread by whoever named it.
    pub(super) fn check_used(&self, conflicts: &[Conflict], taken: &[TakenPath]) -> Result<()> {
        let is_used = |path: &CanonicalPath| {
            taken.iter().any(|taken| taken.path == path.as_str())
                || conflicts.iter().any(|conflict| conflict.path == *path)
        };
        match self.paths.keys().find(|path| !is_used(path)) {
            None => Ok(()),
            Some(path) => {
                Err(Error::new(codes::USAGE, format!("nothing is to be taken of `{path}`"))
                    .why("both branches' versions of it go together"))
            }
        }
    }
}

/// Whether work goes on in a state's files.
fn is_live(state: &State) -> bool {
    !state.base_is_stale()
}

impl Kernel {
    /// Brings the source's files onto the target's. `keep` stores the contents that this makes; without it
    /// nothing is there to be recorded.
    pub(super) fn join_files(
        &self,
        branches: &Branches,
        choice: &Choice,
        keep: bool,
    ) -> Result<Brought> {
        let Branches { source_state: source, target_state: target, .. } = branches;
        let (true, Some((_, frozen)), Some(seal)) = (is_live(source), &source.frozen, &source.seal)
        else {
            // Whatever was done there is in the project already, or was given up.
            return Ok(Brought::default());
        };
        let source_files = self.files_of(&branches.source.branch, source)?;
        if !is_live(target) {
            let SealRecord { manifest, tests_changed, sources_changed } = seal.clone();
            let changed = changes(source_files.unchanged().manifest(), source_files.manifest());
            let workspace = (!changed.is_empty()).then(|| MergedWorkspace {
                frozen: frozen.clone(),
                manifest: Some(manifest),
                changed: changed.iter().take(MAX_NAMED_PATHS).cloned().collect(),
                changed_total: changed.len() as u64,
                tests_changed,
                sources_changed,
                taken: Vec::new(),
            });
            return Ok(Brought { workspace, changed, ..Brought::default() });
        }
        let target_files = self.files_of(&branches.target.branch, target)?;
        let base_files = self.base_files(branches, &source_files)?;
        let take = |path: &CanonicalPath| choice.of(path);
        let joined = join_trees(&base_files, &target_files, &source_files, &take)?;
        let taken = joined.taken.iter();
        let taken = taken.map(|(path, side)| TakenPath { path: path.to_string(), side: *side });
        let taken: Vec<_> = taken.collect();
        let whole = joined.entries.iter();
        let whole: Manifest =
            whole.map(|(path, (entry, _))| (path.clone(), entry.clone())).collect();
        let changed = changes(target_files.manifest(), &whole);
        if !keep || changed.is_empty() || !joined.conflicts.is_empty() {
            return Ok(Brought { workspace: None, changed, conflicts: joined.conflicts, taken });
        }
        let sides = (&target_files, &source_files);
        let mut workspace = self.keep_files(target, sides, &joined, &whole)?;
        workspace.changed = changed.iter().take(MAX_NAMED_PATHS).cloned().collect();
        workspace.changed_total = changed.len() as u64;
        workspace.taken.clone_from(&taken);
        Ok(Brought { workspace: Some(workspace), changed, conflicts: Vec::new(), taken })
    }

    /// Stores what the target's files become.
    fn keep_files(
        &self,
        target: &State,
        (target_files, source_files): (&PastFiles, &PastFiles),
        joined: &JoinedTrees,
        whole: &Manifest,
    ) -> Result<MergedWorkspace> {
        let seal = seal_of(target_files, whole);
        let blobs = Blobs(self.log.clone());
        for (path, (entry, origin)) in &joined.entries {
            if seal.entries.get(path) != Some(entry) || entry.file_digest().is_none() {
                continue;
            }
            match origin {
                Origin::Made(bytes) => drop(blobs.put(bytes)?),
                Origin::Side(MergeSide::Source) => drop(blobs.put(&source_files.bytes(path)?)?),
                // The target's own seal keeps them.
                Origin::Side(MergeSide::Target) => {}
            }
        }
        let classifier = classifier_of(target)?;
        let (tests_changed, sources_changed) = self.classes(target_files, &seal, &classifier)?;
        let frozen = target.frozen.as_ref().map(|(_, frozen)| frozen.clone());
        Ok(MergedWorkspace {
            frozen: frozen.ok_or_else(|| {
                Error::new(codes::NO_WORKSPACE, "the target has no files to merge into")
            })?,
            manifest: self.kept(&seal)?,
            changed: Vec::new(),
            changed_total: 0,
            tests_changed,
            sources_changed,
            taken: Vec::new(),
        })
    }

    fn kept(&self, seal: &SealManifest) -> Result<Option<BlobRef>> {
        if seal.is_unchanged() {
            return Ok(None);
        }
        put(&self.log, &manifest_bytes(seal)?).map(Some)
    }

    /// The files from which both branches went on. A source that froze the project anew went on from that.
    fn base_files(&self, branches: &Branches, source_files: &PastFiles) -> Result<PastFiles> {
        let Branches { base, source_state: source, target, .. } = branches;
        let same = match (&base.frozen, &source.frozen) {
            (Some((_, base)), Some((_, source))) => base.base == source.base,
            _ => false,
        };
        if same && is_live(base) {
            return self.files_of(&target.branch, base);
        }
        Ok(source_files.unchanged())
    }

    /// Whether tests and whether sources differ from the base in a state of the target.
    fn classes(
        &self,
        files: &PastFiles,
        seal: &SealManifest,
        classifier: &Classifier,
    ) -> Result<(bool, bool)> {
        let base = files.base();
        let paths: BTreeSet<_> = seal.entries.keys().chain(&seal.removed).collect();
        let new = paths.iter().copied().filter(|path| base.manifest.get(path.as_str()).is_none());
        let ignored = base.ignored(new)?;
        let (mut tests, mut sources) = (false, false);
        for path in paths {
            let needs = Classifier::needs_content(path);
            let old = match base.manifest.get(path.as_str()) {
                Some(Entry::File { .. }) if needs => Some(base.read(path)?),
                _ => None,
            };
            let digest = seal.entries.get(path).and_then(Entry::file_digest).filter(|_| needs);
            let new = digest.map(|digest| self.log.blob(digest)).transpose()?;
            let contents = Contents { old: old.as_deref(), new: new.as_deref() };
            match classifier.classify(path, ignored.contains(path), &contents) {
                ChangeClass::Test => tests = true,
                ChangeClass::Source => sources = true,
                ChangeClass::Mixed => (tests, sources) = (true, true),
                ChangeClass::Ignored => {}
            }
        }
        Ok((tests, sources))
    }
}

fn classifier_of(state: &State) -> Result<Classifier> {
    let globs = state.created.as_ref().map(|created| created.test.test_globs.as_slice());
    Classifier::new(globs.unwrap_or(&[]))
}

fn changes(old: &Manifest, new: &Manifest) -> Vec<ChangedPath> {
    differences(old, new).iter().map(changed_path).collect()
}

/// A whole tree as its difference from the base of files.
fn seal_of(files: &PastFiles, whole: &Manifest) -> SealManifest {
    let base = files.base();
    let differs =
        |(path, entry): &(&CanonicalPath, &Entry)| base.manifest.get(path.as_str()) != Some(*entry);
    let gone = |path: &&CanonicalPath| whole.get(path.as_str()).is_none();
    SealManifest {
        base: base.digest,
        entries: whole.iter().filter(differs).map(|(p, e)| (p.clone(), e.clone())).collect(),
        removed: base.manifest.iter().map(|(path, _)| path).filter(gone).cloned().collect(),
    }
}
