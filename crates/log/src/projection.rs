//! Folds over the events of a branch, and snapshots that spare folding from the first event.
//!
//! A snapshot is a cache and never the truth: it names the event that it stands at by hash, its fold by
//! name and version, and its own bytes by digest. Whatever does not fit is passed over, and the fold
//! begins further back, at the latest from the first event. A fork uses its ancestors' snapshots below
//! the point where it left them.

use std::fs;
use std::path::{Path, PathBuf};

use glasshouse_model::{BranchId, Digest, Event, Seq};
use serde::{Deserialize, Serialize};

use crate::chain::PAGE;
use crate::error::Result;
use crate::home;
use crate::log::Log;

/// Events folded since the last snapshot after which another is written.
const SNAPSHOT_EVERY: u64 = 64;
/// Largest snapshot; a larger state is folded from further back each time.
const MAX_SNAPSHOT_BYTES: usize = 4 << 20;
/// Snapshots of one fold that are kept for a branch.
const KEPT: usize = 2;

/// A state that is a fold over a branch's events.
pub trait Projection: Default {
    /// Name of the fold: lower-case letters.
    const NAME: &'static str;
    /// Version of what it does and of its saved form; another one makes older snapshots void.
    const VERSION: u32;

    /// Folds the next event.
    fn apply(&mut self, event: &Event);

    /// The state as bytes; equal states have equal bytes. `None` for one that is not to be kept.
    fn save(&self) -> Option<Vec<u8>>;

    /// The state of saved bytes; `None` when they cannot be read.
    fn load(bytes: &[u8]) -> Option<Self>;
}

/// What comparing snapshots with fresh folds found for one branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deviation {
    /// The branch.
    pub branch: BranchId,
    /// The event that both stand at.
    pub seq: Seq,
    /// Digest of the fresh fold.
    pub expected: Digest,
    /// Digest of what the snapshots lead to.
    pub found: Digest,
}

#[derive(Serialize, Deserialize)]
struct Label {
    seq: Seq,
    hash: Digest,
    digest: Digest,
}

impl Log {
    /// Folds a branch up to its head.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn project<P: Projection>(&self, branch: &BranchId) -> Result<P> {
        let (mut state, begun) = self.nearest_snapshot(branch)?;
        let head = self.fold_from(branch, &mut state, begun)?;
        if head.is_some_and(|(seq, _)| seq - begun >= SNAPSHOT_EVERY) {
            self.keep_snapshot(branch, &state, head);
        }
        Ok(state)
    }

    /// Folds a branch from its first event, whatever snapshots there are.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn project_afresh<P: Projection>(&self, branch: &BranchId) -> Result<P> {
        let mut state = P::default();
        self.fold_from(branch, &mut state, 0)?;
        Ok(state)
    }

    /// Compares what a branch's snapshots lead to with a fresh fold. Those that lead elsewhere are
    /// removed and, where that may be, replaced.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn check_projection<P: Projection>(&self, branch: &BranchId) -> Result<Option<Deviation>> {
        let (mut kept, begun) = self.nearest_snapshot::<P>(branch)?;
        let head = self.fold_from(branch, &mut kept, begun)?;
        let fresh: P = self.project_afresh(branch)?;
        let (Some(expected), Some(found)) = (fresh.save(), kept.save()) else { return Ok(None) };
        if expected == found {
            return Ok(None);
        }
        for segment in self.segments(branch)? {
            for (_, path) in self.snapshots::<P>(&segment.branch) {
                let _ = fs::remove_file(path);
            }
        }
        self.keep_snapshot(branch, &fresh, head);
        let (expected, found) = (Digest::of(&expected), Digest::of(&found));
        let seq = self.head(branch)?.seq;
        Ok(Some(Deviation { branch: branch.clone(), seq, expected, found }))
    }

    /// Folds what comes after an event. Answers where the state then stands, if anything came.
    fn fold_from<P: Projection>(
        &self,
        branch: &BranchId,
        state: &mut P,
        after: Seq,
    ) -> Result<Option<(Seq, Digest)>> {
        let (mut seq, mut last) = (after, None);
        loop {
            let page = self.read(branch, seq + 1, PAGE)?;
            for event in &page {
                state.apply(event);
                (seq, last) = (event.seq(), Some((event.seq(), event.hash)));
            }
            if page.len() < PAGE {
                return Ok(last);
            }
        }
    }

    /// The newest snapshot that fits, and the event it stands at; the beginning without one.
    fn nearest_snapshot<P: Projection>(&self, branch: &BranchId) -> Result<(P, Seq)> {
        for segment in self.segments(branch)?.iter().rev() {
            for (seq, path) in self.snapshots::<P>(&segment.branch).into_iter().rev() {
                if seq > segment.upto {
                    continue;
                }
                let Some((label, bytes)) = read(&path) else { continue };
                let stored = self.records(branch, seq, 1)?;
                let stands = stored.first().is_some_and(|record| record.hash == label.hash);
                if label.seq == seq
                    && stands
                    && let Some(state) = P::load(&bytes)
                {
                    return Ok((state, seq));
                }
            }
        }
        Ok((P::default(), 0))
    }

    /// The snapshots of a branch, the oldest first.
    fn snapshots<P: Projection>(&self, branch: &BranchId) -> Vec<(Seq, PathBuf)> {
        let Some(directory) = self.snapshot_directory::<P>(branch) else { return Vec::new() };
        let entries = fs::read_dir(directory).into_iter().flatten().filter_map(|entry| {
            let entry = entry.ok()?;
            let seq = entry.file_name().to_str()?.strip_suffix(".snapshot")?.parse().ok()?;
            Some((seq, entry.path()))
        });
        let mut found: Vec<_> = entries.collect();
        found.sort_unstable();
        found
    }

    fn snapshot_directory<P: Projection>(&self, branch: &BranchId) -> Option<PathBuf> {
        let name = format!("{}-{}", P::NAME, P::VERSION);
        Some(self.snapshot_root()?.join(name).join(branch.as_str()))
    }

    /// Keeps a state. What cannot be kept is folded again.
    fn keep_snapshot<P: Projection>(
        &self,
        branch: &BranchId,
        state: &P,
        head: Option<(Seq, Digest)>,
    ) {
        let (Some((seq, hash)), Some(bytes)) = (head, state.save()) else { return };
        let Some(directory) = self.snapshot_directory::<P>(branch) else { return };
        if bytes.len() > MAX_SNAPSHOT_BYTES || home::create_directories(&directory).is_err() {
            return;
        }
        let label = Label { seq, hash, digest: Digest::of(&bytes) };
        let Ok(mut text) = serde_json::to_vec(&label) else { return };
        text.push(b'\n');
        text.extend_from_slice(&bytes);
        let path = directory.join(format!("{seq:020}.snapshot"));
        if home::write_unsynced(&path, &text).is_ok() {
            let kept = self.snapshots::<P>(branch);
            for (_, old) in kept.iter().rev().skip(KEPT) {
                let _ = fs::remove_file(old);
            }
        }
    }
}

fn read(path: &Path) -> Option<(Label, Vec<u8>)> {
    let limit = u64::try_from(MAX_SNAPSHOT_BYTES).ok()? + 1_024;
    if path.metadata().ok()?.len() > limit {
        return None;
    }
    let mut text = fs::read(path).ok()?;
    let end = memchr::memchr(b'\n', &text)?;
    let label: Label = serde_json::from_slice(&text[..end]).ok()?;
    let bytes = text.split_off(end + 1);
    (Digest::of(&bytes) == label.digest).then_some((label, bytes))
}
