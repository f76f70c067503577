//! Folds over the events of a branch, and snapshots that spare folding from the first event.
//!
//! A snapshot is a cache and never the truth: it names the event that it stands at by hash, its fold by
//! name and version, and its own bytes by digest. Whatever does not fit is passed over, and the fold
//! begins further back, at the latest from the first event. A fork uses its ancestors' snapshots below
//! the point where it left them.

mod snapshots;

use glasshouse_model::{BranchId, Digest, Event, Seq};

use crate::append::Head;
use crate::chain::{Chain, PAGE};
use crate::error::Result;
use crate::log::Log;

pub(crate) use snapshots::Snapshots;

/// Events folded since the last snapshot after which another is written.
const SNAPSHOT_EVERY: u64 = 64;

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

/// A snapshot that is not what the events say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deviation {
    /// The branch.
    pub branch: BranchId,
    /// The event that it stands at.
    pub seq: Seq,
    /// Digest of the fresh fold.
    pub expected: Digest,
    /// Digest of the snapshot.
    pub found: Digest,
}

impl Log {
    /// Folds a branch up to its head, from a snapshot where one fits.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn project<P: Projection>(&self, branch: &BranchId) -> Result<P> {
        self.project_to(branch, Seq::MAX)
    }

    /// Folds a branch as it was after an event.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn project_to<P: Projection>(&self, branch: &BranchId, to: Seq) -> Result<P> {
        let shared = self.snapshots().and_then(Snapshots::share);
        let chain = self.chain(branch)?;
        let (mut state, mut at) = self.nearest(&chain, to)?;
        let begun = at.seq;
        fold(&chain, &mut state, &mut at, to)?;
        if shared.is_some() && at.seq - begun >= SNAPSHOT_EVERY {
            self.keep(branch, &state, at);
        }
        Ok(state)
    }

    /// Folds a branch as it was after an event from its first one, whatever snapshots there are: for what
    /// acts on the state.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn project_afresh<P: Projection>(&self, branch: &BranchId, to: Seq) -> Result<P> {
        let (mut state, mut at) = (P::default(), Head::EMPTY);
        fold(&self.chain(branch)?, &mut state, &mut at, to)?;
        Ok(state)
    }

    /// Compares each snapshot that a branch has of its own with a fresh fold. Those that differ are
    /// removed, and one is kept of the fresh fold instead. Those that would be passed over go as well.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn check_projection<P: Projection>(&self, branch: &BranchId) -> Result<Vec<Deviation>> {
        let Some(snapshots) = self.snapshots() else { return Ok(Vec::new()) };
        // Where nothing can be written nobody keeps a wrong one meanwhile.
        let _alone = snapshots.alone().ok();
        let chain = self.chain(branch)?;
        let (mut state, mut at) = (P::default(), Head::EMPTY);
        let mut deviations = Vec::new();
        for kept in snapshots.of(&fold_name::<P>(), branch) {
            fold(&chain, &mut state, &mut at, kept.seq)?;
            let Some((_, bytes)) = kept.read().filter(|(label, _)| label.stands_at(at)) else {
                kept.remove();
                continue;
            };
            let fresh = state.save().unwrap_or_default();
            if fresh != bytes {
                let (expected, found) = (Digest::of(&fresh), Digest::of(&bytes));
                kept.remove();
                let branch = branch.clone();
                deviations.push(Deviation { branch, seq: kept.seq, expected, found });
            }
        }
        if !deviations.is_empty() {
            fold(&chain, &mut state, &mut at, Seq::MAX)?;
            self.keep(branch, &state, at);
        }
        Ok(deviations)
    }

    /// The newest snapshot up to an event that fits, and the event it stands at; without one the
    /// beginning.
    fn nearest<P: Projection>(&self, chain: &Chain<'_>, to: Seq) -> Result<(P, Head)> {
        let snapshots = self.snapshots();
        for segment in chain.segments().iter().rev() {
            let upto = segment.upto.min(to);
            let kept = snapshots.map(|kept| kept.of(&fold_name::<P>(), &segment.branch));
            for kept in kept.unwrap_or_default().into_iter().rev() {
                if kept.seq > upto {
                    continue;
                }
                let Some((label, bytes)) = kept.read() else { continue };
                let stored = chain.records(kept.seq, 1)?;
                let at = stored.first().map(|record| Head { seq: record.seq, hash: record.hash });
                if let Some(at) = at.filter(|at| label.stands_at(*at))
                    && let Some(state) = P::load(&bytes)
                {
                    return Ok((state, at));
                }
            }
        }
        Ok((P::default(), Head::EMPTY))
    }

    /// Keeps a state. What cannot be kept is folded again.
    fn keep<P: Projection>(&self, branch: &BranchId, state: &P, at: Head) {
        if let (Some(snapshots), Some(bytes)) = (self.snapshots(), state.save()) {
            snapshots.keep(&fold_name::<P>(), branch, at, &bytes);
        }
    }
}

/// Folds what comes after `at`, up to an event, and moves it along.
fn fold<P: Projection>(chain: &Chain<'_>, state: &mut P, at: &mut Head, to: Seq) -> Result<()> {
    let to = to.min(chain.head().seq);
    while at.seq < to {
        let most = usize::try_from(to - at.seq).unwrap_or(PAGE).min(PAGE);
        let (events, defect) = chain.read(at.seq + 1, most)?;
        for event in &events {
            state.apply(event);
            *at = Head { seq: event.seq(), hash: event.hash };
        }
        if let Some(defect) = defect {
            return Err(defect);
        }
    }
    Ok(())
}

/// The directory's name of a fold: another version is another fold.
fn fold_name<P: Projection>() -> String {
    format!("{}-{}", P::NAME, P::VERSION)
}
