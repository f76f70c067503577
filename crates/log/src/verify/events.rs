//! The events: each against the one before it, against the fork it builds on, and against the blobs
//! it names.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use glasshouse_model::body::BranchMerged;
use glasshouse_model::event::event_hash;
use glasshouse_model::{BranchId, Digest, Seq};

use super::Broken;
use crate::append::Head;
use crate::blobs::{Blobs, named_in};
use crate::branch::{BranchRow, BranchState, Segment, ancestors_of_child, last_shared};
use crate::cells::{BadCell, CellProof};
use crate::chain::PAGE;
use crate::codes;
use crate::erase;
use crate::error::Result;
use crate::merge;
use crate::record::{Defect, Record};
use crate::store::Store;

/// Proves events and remembers the blobs that they name.
pub(super) struct Events<'a> {
    store: &'a dyn Store,
    blobs: &'a Blobs,
    /// What reading each blob said.
    seen: HashMap<Digest, Option<String>>,
    cells: CellProof,
    /// Events that were there before proving began.
    settled: u64,
    /// What each `branch.merged` event says, by the branch that ended.
    merged: HashMap<BranchId, Merged>,
    /// What the events of kind `log.erased` name, events with the position of who says it.
    erased: HashSet<(BranchId, Seq, u64)>,
    erased_blobs: HashSet<Digest>,
    /// What an erasure must account for: position, event, the position of who erased it.
    bodiless: Vec<(u64, Defect, (BranchId, Seq, u64))>,
    /// Position, event and digest of blobs that are not there.
    missing: Vec<(u64, BranchId, Seq, Digest)>,
}

/// A bad event: about where it was committed, and the number of its branch in the order of creation.
#[derive(Debug)]
struct Found {
    position: u64,
    branch: usize,
    broken: Broken,
}

/// The one that is named, whoever found it and when.
fn first_of(found: impl Iterator<Item = Found>) -> Option<Found> {
    found.min_by_key(|found| (found.position, found.branch))
}

/// The end of a branch as an event tells it.
struct Merged {
    position: u64,
    by: (BranchId, Seq),
    head: Head,
    /// The last event that both branches share.
    base: Seq,
}

/// Erased things, for whom the rest is proved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Erasures {
    pub(super) events: u64,
    pub(super) blobs: u64,
}

impl<'a> Events<'a> {
    pub(super) fn new(
        store: &'a dyn Store,
        blobs: &'a Blobs,
        cells: CellProof,
        settled: u64,
    ) -> Self {
        Self {
            store,
            blobs,
            cells,
            settled,
            merged: HashMap::new(),
            seen: HashMap::new(),
            erased: HashSet::new(),
            erased_blobs: HashSet::new(),
            bodiless: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Number of blobs that were read and are there.
    pub(super) fn blobs(&self) -> u64 {
        count(self.seen.values().filter(|found| found.is_none()).count())
    }

    /// Number of events and blobs that are gone, each with an event that says so.
    pub(super) fn erasures(&self) -> Erasures {
        let gone = self.erased_blobs.iter().filter(|digest| !self.blobs.contains(digest));
        Erasures { events: count(self.bodiless.len()), blobs: count(gone.count()) }
    }

    /// The bad event that was committed first, as far as places tell; of two with one place that of the
    /// branch created first. Branches are proved side by side, at most `threads` at a time: what is
    /// found does not depend on how many.
    pub(super) fn first_bad(&mut self, threads: usize) -> Result<Option<Broken>> {
        let rows = self.store.branches(None)?;
        let threads = threads.clamp(1, rows.len().max(1));
        let next = AtomicUsize::new(0);
        let first = if threads == 1 {
            self.check_branches(&rows, &next)?
        } else {
            let (rows, next) = (&rows, &next);
            let proved = std::thread::scope(|scope| {
                let mut others = Vec::new();
                for _ in 1..threads {
                    let mut part = self.empty();
                    others.push(scope.spawn(move || {
                        let found = part.check_branches(rows, next);
                        (part, found)
                    }));
                }
                let mut proved = vec![self.check_branches(rows, next)];
                for other in others {
                    let (part, found) = match other.join() {
                        Ok(ended) => ended,
                        Err(panic) => std::panic::resume_unwind(panic),
                    };
                    self.add(part);
                    proved.push(found);
                }
                proved
            });
            let found = proved.into_iter().collect::<Result<Vec<_>>>()?;
            first_of(found.into_iter().flatten())
        };
        let first = first.map(|found| (found.position, found.broken));
        let unaccounted = self.first_unaccounted();
        let merge = self.first_bad_merge(&rows)?;
        let first = [first, unaccounted, merge].into_iter().flatten().min_by_key(|(at, _)| *at);
        Ok(first.map(|(_, broken)| broken))
    }

    /// Proves branches until all are taken. Answers the first bad event among them.
    fn check_branches(&mut self, rows: &[BranchRow], next: &AtomicUsize) -> Result<Option<Found>> {
        let mut first = None;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(row) = rows.get(index) else { return Ok(first) };
            if let Some((position, broken)) = self.check_branch(row)? {
                let found = Found { position, branch: index, broken };
                first = first_of(first.into_iter().chain([found]));
            }
        }
    }

    /// For another thread: what it finds is added to this.
    fn empty(&self) -> Self {
        Self::new(self.store, self.blobs, CellProof::new(self.settled), self.settled)
    }

    fn add(&mut self, other: Self) {
        self.seen.extend(other.seen);
        self.cells.add_changes(other.cells);
        other.merged.into_iter().for_each(|(source, merged)| self.note_merged(source, merged));
        self.erased.extend(other.erased);
        self.erased_blobs.extend(other.erased_blobs);
        self.bodiless.extend(other.bodiless);
        self.missing.extend(other.missing);
    }

    /// The first branch that was merged although no event says so, or goes on although one does.
    fn first_bad_merge(&self, rows: &[BranchRow]) -> Result<Option<(u64, Broken)>> {
        let mut bad = self.first_bad_base()?;
        bad.extend(rows.iter().filter_map(|row| {
            let shown = |state: &str, head: &Head| format!("{state} at {} {}", head.seq, head.hash);
            let found = shown(row.state.as_str(), &row.head);
            let (at, (branch, seq), expected) = match self.merged.get(&row.branch) {
                None if row.state == BranchState::Merged => (
                    u64::MAX,
                    (row.branch.clone(), row.head.seq),
                    "an event that merges".to_owned(),
                ),
                Some(merged)
                    if merged.position < self.settled
                        && (row.state != BranchState::Merged || row.head != merged.head) =>
                {
                    let expected = shown(BranchState::Merged.as_str(), &merged.head);
                    (merged.position, merged.by.clone(), expected)
                }
                _ => return None,
            };
            let (expected, found) = (
                format!("branch {} {expected}", row.branch),
                format!("branch {} {found}", row.branch),
            );
            Some((at, Broken::of_event(&branch, seq, &Defect::Hash { expected, found })))
        }));
        Ok(bad.into_iter().min_by_key(|(at, _)| *at))
    }

    /// Merges of branches that part at another event than the merge says.
    fn first_bad_base(&self) -> Result<Vec<(u64, Broken)>> {
        let mut bad = Vec::new();
        let segments = |branch: &BranchId| -> Result<Vec<Segment>> {
            let mut segments = self.store.ancestors(branch)?;
            segments.push(Segment { branch: branch.clone(), upto: Seq::MAX });
            Ok(segments)
        };
        for (source, merged) in &self.merged {
            let (target, seq) = &merged.by;
            let found = match segments(source) {
                // That there is no such branch is found elsewhere, or the event is newer than the tables.
                Err(error) if error.is(codes::BRANCH_NOT_FOUND) => continue,
                segments_of_source => last_shared(&segments(target)?, &segments_of_source?),
            };
            if found != merged.base {
                let (expected, found) =
                    (format!("parted at {}", merged.base), format!("parted at {found}"));
                let defect = Defect::Hash { expected, found };
                bad.push((merged.position, Broken::of_event(target, *seq, &defect)));
            }
        }
        Ok(bad)
    }

    /// The first body or blob that is gone although no event says so.
    fn first_unaccounted(&self) -> Option<(u64, Broken)> {
        let bodies = self.bodiless.iter().filter(|(_, _, claim)| !self.erased.contains(claim));
        let bodies = bodies
            .map(|(at, defect, (branch, seq, _))| (*at, Broken::of_event(branch, *seq, defect)));
        let blobs = self.missing.iter().filter(|lost| !self.erased_blobs.contains(&lost.3));
        let blobs = blobs.map(|(at, branch, seq, digest)| {
            let (expected, found) = (format!("blob {digest}"), "no such blob".to_owned());
            (*at, Broken::of_event(branch, *seq, &Defect::Hash { expected, found }))
        });
        bodies.chain(blobs).min_by_key(|(at, _)| *at)
    }

    /// The first cell that is not as the newest event says that names it.
    pub(super) fn first_bad_cell(self) -> Option<Broken> {
        let BadCell { changed, expected, found } = self.cells.first_bad()?;
        let (branch, seq) = changed.map(|change| (change.branch, change.seq)).unzip();
        let (expected, found) = (expected.into(), found.into());
        Some(Broken { kind: "hash_mismatch", branch, seq, expected, found })
    }

    /// A branch ends once: of two events that say so the one committed first counts.
    fn note_merged(&mut self, source: BranchId, merged: Merged) {
        match self.merged.entry(source) {
            Entry::Occupied(known) if known.get().position <= merged.position => {}
            Entry::Occupied(mut known) => drop(known.insert(merged)),
            Entry::Vacant(free) => drop(free.insert(merged)),
        }
    }

    /// Remembers what an event says of cells and erasures, and what of it is gone.
    fn note(&mut self, row: &BranchRow, record: &Record) {
        let branch = &row.branch;
        // What an imported event says of cells was said of another log's.
        if !row.is_imported {
            self.cells.note(branch, record);
        }
        if let Some(BranchMerged { source, source_seq: seq, source_hash: hash, base_seq, .. }) =
            merge::said_by(record)
        {
            let (position, by) = (record.position, (branch.clone(), record.seq));
            let (head, base) = (Head { seq, hash }, base_seq);
            self.note_merged(source, Merged { position, by, head, base });
        }
        if let Some(said) = erase::said_by(record) {
            let events = said.events.into_iter();
            self.erased.extend(events.map(|event| (event.branch, event.seq, record.position)));
            self.erased_blobs.extend(said.blobs);
        }
        if let Some(by) = record.erased_by() {
            let claim = (branch.clone(), record.seq, by);
            self.bodiless.push((record.position, Defect::without_body(record), claim));
        }
    }

    /// The first blob of an event that is damaged. One that is missing may have been erased.
    fn check_blobs(&mut self, branch: &BranchId, record: &Record) -> Result<Option<Defect>> {
        for digest in named_in(&record.body) {
            let found = match self.seen.get(&digest) {
                Some(found) => found.clone(),
                None => {
                    let found = match self.blobs.get(&digest) {
                        Ok(_) => None,
                        Err(error) if error.is(codes::BLOB_NOT_FOUND) => Some(String::new()),
                        Err(error) if error.is(codes::BLOB_CORRUPT) => Some(error.to_string()),
                        Err(error) => return Err(error),
                    };
                    self.seen.insert(digest, found.clone());
                    found
                }
            };
            let Some(found) = found else { continue };
            if found.is_empty() {
                self.missing.push((record.position, branch.clone(), record.seq, digest));
            } else {
                return Ok(Some(Defect::Hash { expected: format!("blob {digest}"), found }));
            }
        }
        Ok(None)
    }

    /// Proves a branch's own events. The number beside a bad one is about where it was committed.
    fn check_branch(&mut self, row: &BranchRow) -> Result<Option<(u64, Broken)>> {
        let store = self.store;
        let (branch, base) = (&row.branch, row.base());
        let mut after = match check_fork(store, row)? {
            Ok(after) => after,
            Err((defect, at)) => {
                return Ok(Some((at, Broken::of_event(branch, base.seq + 1, &defect))));
            }
        };
        let mut last = base;
        while last.seq < row.head.seq {
            let next = last.seq + 1;
            let lost = |defect: &Defect| {
                let at = match store.position(branch, next) {
                    Ok(Some(position)) => position,
                    Err(error) if !error.is(codes::LOG_CORRUPT) => return Err(error),
                    _ => after,
                };
                Ok(Some((at, Broken::of_event(branch, next, defect))))
            };
            let rows = match readable_rows(store, branch, next, row.head.seq)? {
                Ok(rows) => rows,
                Err(defect) => return lost(&defect),
            };
            if rows.first().is_none_or(|record| record.seq != next) {
                return lost(&Defect::Missing { head: row.head.seq, found: last.seq });
            }
            for record in rows {
                if record.seq != last.seq + 1 {
                    break;
                }
                if let Err(defect) = record.prove(branch, &last.hash) {
                    let defect = explain(store, &record, &last.hash, defect)?;
                    return Ok(Some((after, Broken::of_event(branch, record.seq, &defect))));
                }
                if let Some(defect) = record.belongs_elsewhere(&row.session) {
                    return Ok(Some((after, Broken::of_event(branch, record.seq, &defect))));
                }
                if record.position < after {
                    let defect = Defect::Place {
                        expected: format!("position {after} or later"),
                        found: format!("position {}", record.position),
                    };
                    return Ok(Some((
                        record.position,
                        Broken::of_event(branch, record.seq, &defect),
                    )));
                }
                self.note(row, &record);
                if let Some(defect) = self.check_blobs(branch, &record)? {
                    let broken = Broken::of_event(branch, record.seq, &defect);
                    return Ok(Some((record.position, broken)));
                }
                after = record.position + 1;
                (last.seq, last.hash) = (record.seq, record.hash);
            }
        }
        if last != row.head {
            let (expected, found) = (row.head.hash.to_string(), last.hash.to_string());
            let defect = Defect::Hash { expected, found };
            return Ok(Some((after, Broken::of_event(branch, row.head.seq, &defect))));
        }
        Ok(None)
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// A page of rows; when the database cannot read it, as much of it as can be read, or the defect of
/// the row that cannot.
fn readable_rows(
    store: &dyn Store,
    branch: &BranchId,
    from: Seq,
    upto: Seq,
) -> Result<Result<Vec<Record>, Defect>> {
    for limit in [PAGE, 1] {
        match store.rows(branch, from, upto, limit) {
            Ok(rows) => return Ok(Ok(rows)),
            Err(error) if !error.is(codes::LOG_CORRUPT) => return Err(error),
            Err(_) => {}
        }
    }
    Ok(Err(damaged_row()))
}

/// Checks what a branch says of its past. Answers the earliest position of its own events, or what
/// is wrong and about where that was committed.
fn check_fork(store: &dyn Store, row: &BranchRow) -> Result<Result<u64, (Defect, u64)>> {
    let stored = store.ancestors(&row.branch)?;
    let Some(fork) = &row.fork else {
        let (expected, found) = ("no ancestors".to_owned(), format!("{stored:?}"));
        let is_root = stored.is_empty();
        return Ok(if is_root { Ok(0) } else { Err((Defect::Place { expected, found }, 0)) });
    };
    let parent = store.branch(&fork.parent)?;
    let past = if parent.fork.is_some() { store.ancestors(&fork.parent)? } else { Vec::new() };
    let expected = ancestors_of_child(&fork.parent, past, fork.seq)?;
    let owner = expected.last().expect("a fork has an ancestor");
    let shared = match readable_rows(store, &owner.branch, fork.seq, fork.seq)? {
        Ok(rows) => rows.into_iter().next(),
        // The owner's own proof names it, and it comes before.
        Err(_) => return Ok(Err((damaged_row(), u64::MAX))),
    };
    let after = shared.as_ref().map_or(0, |record| record.position + 1);
    if stored != expected {
        let (expected, found) = (format!("{expected:?}"), format!("{stored:?}"));
        return Ok(Err((Defect::Place { expected, found }, after)));
    }
    let found = shared.map(|record| record.hash);
    if found == Some(fork.hash) {
        return Ok(Ok(after));
    }
    let expected = fork.hash.to_string();
    let found = found.map_or_else(|| "no event".to_owned(), |hash| hash.to_string());
    Ok(Err((Defect::Hash { expected, found }, after)))
}

fn damaged_row() -> Defect {
    let expected = "an event that can be read".to_owned();
    Defect::Hash { expected, found: "a damaged row".to_owned() }
}

/// Tells a record that stands in another's place from one whose bytes were damaged into naming
/// another place: in the second case that place holds its own record.
fn explain(store: &dyn Store, record: &Record, prev: &Digest, defect: Defect) -> Result<Defect> {
    let Defect::Place { found, .. } = &defect else { return Ok(defect) };
    let named = found.split_once('/').and_then(|(branch, seq)| {
        Some((branch.parse::<BranchId>().ok()?, seq.parse::<Seq>().ok()?))
    });
    let is_taken = match named {
        None => true,
        Some((branch, seq)) => match store.rows(&branch, seq, seq, 1) {
            Ok(rows) => rows.first().is_some_and(|record| record.names(&branch)),
            Err(error) if error.is(codes::BRANCH_NOT_FOUND) => true,
            Err(error) => return Err(error),
        },
    };
    let (expected, found) = (record.hash, event_hash(prev, &record.header));
    if is_taken && expected != found {
        return Ok(Defect::Hash { expected: expected.to_string(), found: found.to_string() });
    }
    Ok(defect)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Damage of a branch and of its fork may have one place; which was named depended on which thread
    /// took which branch.
    #[test]
    fn what_is_named_does_not_depend_on_who_found_it_first() {
        let check = |found: &[(u64, usize)], expected: (u64, usize)| {
            for turned in 0..found.len() {
                let mut order = found.to_vec();
                order.rotate_left(turned);
                let found = order.iter().map(|(position, branch)| Found {
                    position: *position,
                    branch: *branch,
                    broken: Broken::missing_log("nothing"),
                });
                let first = first_of(found).map(|first| (first.position, first.branch));
                assert_eq!(first, Some(expected), "{order:?}");
            }
        };
        check(&[(3, 0), (3, 1)], (3, 0));
        check(&[(3, 7), (2, 9), (3, 1)], (2, 9));
        check(&[(3, 7), (4, 0), (3, 1)], (3, 1));
    }
}
