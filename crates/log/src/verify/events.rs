//! The events: each against the one before it, against the fork it builds on, and against the blobs
//! it names.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use glasshouse_model::body::{
    BranchForked, BranchMerged, LogErased, NamedBlob, SessionImported, sealed_files,
};
use glasshouse_model::event::event_hash;
use glasshouse_model::{BranchId, Digest, Kind, Seq, SessionId};

use super::Broken;
use super::order::{Found, Gaps, Place, first_of};
use crate::append::Head;
use crate::blobs::{Blobs, named_in};
use crate::branch::{BranchRow, BranchState, Segment, ancestors_of_child, last_shared};
use crate::cells::{BadCell, CellProof};
use crate::chain::PAGE;
use crate::codes;
use crate::erase;
use crate::error::Result;
use crate::import;
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
    /// What the events of kind `log.erased` name, by their positions.
    erased: HashMap<u64, LogErased>,
    erased_blobs: HashSet<Digest>,
    /// Blobs that were erased in another log, or that did not come with an import, by the session that was
    /// imported: no other event is excused by that.
    erased_elsewhere: HashSet<(SessionId, Digest)>,
    not_brought: HashSet<(SessionId, Digest)>,
    /// What an erasure must account for: position, event, the position of who erased it.
    bodiless: Vec<(u64, Defect, (BranchId, Seq, u64))>,
    /// Blobs that are not there.
    missing: Vec<Missing>,
    /// Positions of events that do not prove themselves alone: what they say is not known.
    unsure: HashSet<u64>,
    /// Whether one of them may have recorded an erasure.
    may_have_erased: bool,
}

/// A blob that is not there, and an event that names it.
struct Missing {
    position: u64,
    session: SessionId,
    branch: BranchId,
    seq: Seq,
    digest: Digest,
    /// The manifest that names it, where the event does not.
    manifest: Option<Digest>,
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
    /// Blobs that did not come with an import.
    pub(super) missing: u64,
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
            erased: HashMap::new(),
            erased_blobs: HashSet::new(),
            erased_elsewhere: HashSet::new(),
            not_brought: HashSet::new(),
            bodiless: Vec::new(),
            missing: Vec::new(),
            unsure: HashSet::new(),
            may_have_erased: false,
        }
    }

    /// Number of blobs that were read and are there.
    pub(super) fn blobs(&self) -> u64 {
        count(self.seen.values().filter(|found| found.is_none()).count())
    }

    /// Number of events and blobs that are gone, each with an event that says so.
    pub(super) fn erasures(&self) -> Erasures {
        let gone = |digests: HashSet<&Digest>| {
            count(digests.into_iter().filter(|digest| !self.blobs.contains(digest)).count())
        };
        let elsewhere = self.erased_elsewhere.iter().map(|(_, digest)| digest);
        Erasures {
            events: count(self.bodiless.len()),
            blobs: gone(self.erased_blobs.iter().chain(elsewhere).collect()),
            missing: gone(self.not_brought.iter().map(|(_, digest)| digest).collect()),
        }
    }

    /// The bad event that was committed first, and where. Branches are proved side by side, at most
    /// `threads` at a time: what is found does not depend on how many.
    pub(super) fn first_bad(&mut self, threads: usize) -> Result<Option<(u64, Broken)>> {
        let rows = self.store.branches(None)?;
        let threads = threads.clamp(1, rows.len().max(1));
        let next = AtomicUsize::new(0);
        let mut found = if threads == 1 {
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
            proved.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect()
        };
        let is_whole = found.is_empty() && self.bodiless.is_empty() && self.missing.is_empty();
        let gaps = if is_whole { Gaps::default() } else { Gaps::read(self.store, self.settled)? };
        found.extend(self.unaccounted(&gaps));
        if found.is_empty() {
            found.extend(self.bad_merges(&rows));
            found.extend(self.bad_bases()?);
        }
        Ok(first_of(found, &gaps))
    }

    /// Proves branches until all are taken. Answers the first bad event of each.
    fn check_branches(&mut self, rows: &[BranchRow], next: &AtomicUsize) -> Result<Vec<Found>> {
        let mut all = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(row) = rows.get(index) else { return Ok(all) };
            let mut walk = Walk { row, last: row.base(), after: 0, last_at: None };
            if let Some((place, broken)) = self.check_branch(&mut walk)? {
                all.push(Found { place, branch: index, broken });
                self.note_rest(&walk)?;
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
        self.erased_elsewhere.extend(other.erased_elsewhere);
        self.not_brought.extend(other.not_brought);
        self.bodiless.extend(other.bodiless);
        self.missing.extend(other.missing);
        self.unsure.extend(other.unsure);
        self.may_have_erased |= other.may_have_erased;
    }

    /// Branches that were merged although no event says so, or go on although one does. Asked when every
    /// event proves itself: otherwise the missing one may be the bad one.
    fn bad_merges(&self, rows: &[BranchRow]) -> Vec<Found> {
        let bad = rows.iter().enumerate().filter_map(|(index, row)| {
            let shown = |state: &str, head: &Head| format!("{state} at {} {}", head.seq, head.hash);
            let found = shown(row.state.as_str(), &row.head);
            let (place, (branch, seq), expected) = match self.merged.get(&row.branch) {
                None if row.state == BranchState::Merged => (
                    Place::Unknown,
                    (row.branch.clone(), row.head.seq),
                    "an event that merges".to_owned(),
                ),
                Some(merged)
                    if merged.position < self.settled
                        && (row.state != BranchState::Merged || row.head != merged.head) =>
                {
                    let expected = shown(BranchState::Merged.as_str(), &merged.head);
                    (Place::At(merged.position), merged.by.clone(), expected)
                }
                _ => return None,
            };
            let (expected, found) = (
                format!("branch {} {expected}", row.branch),
                format!("branch {} {found}", row.branch),
            );
            let broken = Broken::of_event(&branch, seq, &Defect::Hash { expected, found });
            Some(Found { place, branch: index, broken })
        });
        bad.collect()
    }

    /// Merges of branches that part at another event than the merge says.
    fn bad_bases(&self) -> Result<Vec<Found>> {
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
                let broken = Broken::of_event(target, *seq, &defect);
                let place = Place::At(merged.position);
                bad.push(Found { place, branch: usize::MAX, broken });
            }
        }
        Ok(bad)
    }

    /// Bodies and blobs that are gone although no event says so. Where the event that might say so is bad
    /// or gone itself, that one is named and not they.
    fn unaccounted(&self, gaps: &Gaps) -> Vec<Found> {
        let is_excused = |(branch, seq, by): &(BranchId, Seq, u64)| {
            let said = self.erased.get(by).is_some_and(|said| erase::names(said, branch, *seq));
            said || self.unsure.contains(by) || gaps.contains(*by)
        };
        let bodies = self.bodiless.iter().filter(|(_, _, claim)| !is_excused(claim));
        let bodies = bodies
            .map(|(at, defect, (branch, seq, _))| (*at, Broken::of_event(branch, *seq, defect)));
        let are_known = !self.may_have_erased && gaps.is_empty();
        let is_lost = |lost: &&Missing| {
            let of_session = (lost.session.clone(), lost.digest);
            are_known
                && !self.erased_blobs.contains(&lost.digest)
                && !self.erased_elsewhere.contains(&of_session)
                && !self.not_brought.contains(&of_session)
                && !lost.manifest.is_some_and(|manifest| {
                    self.not_brought.contains(&(lost.session.clone(), manifest))
                })
        };
        let blobs = self.missing.iter().filter(is_lost).map(|lost| {
            let (expected, found) = (format!("blob {}", lost.digest), "no such blob".to_owned());
            let defect = Defect::Hash { expected, found };
            (lost.position, Broken::of_event(&lost.branch, lost.seq, &defect))
        });
        let first = bodies.chain(blobs).min_by_key(|(at, _)| *at);
        let first = first.map(|(at, broken)| Found { place: Place::At(at), branch: 0, broken });
        first.into_iter().collect()
    }

    /// The first cell that is not as the newest event says that names it. Asked when every event proves
    /// itself: otherwise the change that is missing may be a bad one's.
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
            if row.is_imported {
                let of_session = said.blobs.iter().map(|digest| (row.session.clone(), *digest));
                self.erased_elsewhere.extend(of_session);
            } else {
                self.erased_blobs.extend(said.blobs.iter().copied());
            }
            self.erased.insert(record.position, said);
        }
        if !row.is_imported {
            self.note_import(record);
        }
        if let Some(by) = record.erased_by() {
            let claim = (branch.clone(), record.seq, by);
            self.bodiless.push((record.position, Defect::without_body(record), claim));
        }
    }

    /// Remembers which blobs did not come with an import.
    fn note_import(&mut self, record: &Record) {
        let said: Option<SessionImported> = record.body_of(&Kind::SessionImported);
        let Some(SessionImported { imported, missing: Some(list), .. }) = said else { return };
        // A list that is not there is found as a blob that is missing.
        let list = self.blobs.get(&list.blob).unwrap_or_default();
        let listed = import::listed(&list).into_iter();
        self.not_brought.extend(listed.map(|digest| (imported.clone(), digest)));
    }

    /// The first blob of an event that is damaged, or the first file of a manifest that it names. One that
    /// is missing may have been erased.
    fn check_blobs(&mut self, row: &BranchRow, record: &Record) -> Result<Option<Defect>> {
        for NamedBlob { digest, is_manifest } in named_in(&record.header, &record.body) {
            if let Some(defect) = self.check_blob(row, record, digest, None)? {
                return Ok(Some(defect));
            }
            let is_there = self.seen.get(&digest).is_some_and(Option::is_none);
            if !is_manifest || !is_there {
                continue;
            }
            for file in sealed_files(&self.blobs.get(&digest)?) {
                if let Some(defect) = self.check_blob(row, record, file, Some(digest))? {
                    return Ok(Some(defect));
                }
            }
        }
        Ok(None)
    }

    fn check_blob(
        &mut self,
        row: &BranchRow,
        record: &Record,
        digest: Digest,
        manifest: Option<Digest>,
    ) -> Result<Option<Defect>> {
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
        let Some(found) = found else { return Ok(None) };
        if !found.is_empty() {
            return Ok(Some(Defect::Hash { expected: format!("blob {digest}"), found }));
        }
        let (session, branch) = (row.session.clone(), row.branch.clone());
        let (position, seq) = (record.position, record.seq);
        self.missing.push(Missing { position, session, branch, seq, digest, manifest });
        Ok(None)
    }

    /// Proves a branch's own events. Answers the first bad one, if there is one.
    fn check_branch(&mut self, walk: &mut Walk<'_>) -> Result<Option<(Place, Broken)>> {
        let (store, row) = (self.store, walk.row);
        match check_fork(store, row)? {
            Ok(after) => walk.after = after,
            Err(ForkDefect { defect, after, is_told_elsewhere }) => {
                walk.after = after;
                let seq = walk.last.seq + 1;
                let place = if is_told_elsewhere {
                    Place::Unknown
                } else {
                    place_of(store, &row.branch, seq, after)?
                };
                return Ok(Some((place, Broken::of_event(&row.branch, seq, &defect))));
            }
        }
        while walk.last.seq < row.head.seq {
            let next = walk.last.seq + 1;
            let rows = match readable_rows(store, &row.branch, next, row.head.seq)? {
                Ok(rows) => rows,
                Err(defect) => return walk.lost(store, &defect),
            };
            if rows.first().is_none_or(|record| record.seq != next) {
                let defect = Defect::Missing { head: row.head.seq, found: walk.last.seq };
                return walk.lost(store, &defect);
            }
            for record in rows {
                if record.seq != walk.last.seq + 1 {
                    break;
                }
                if let Some((place, defect)) = self.check_record(walk, &record)? {
                    return Ok(Some((place, Broken::of_event(&row.branch, record.seq, &defect))));
                }
                walk.step(&record);
            }
        }
        if walk.last == row.head {
            return self.beyond_head(walk);
        }
        let (expected, found) = (row.head.hash.to_string(), walk.last.hash.to_string());
        let broken = Broken::of_event(&row.branch, row.head.seq, &Defect::Hash { expected, found });
        Ok(Some((Place::At(walk.after.saturating_sub(1)), broken)))
    }

    /// Proves the next record of a branch and notes what it says.
    fn check_record(
        &mut self,
        walk: &Walk<'_>,
        record: &Record,
    ) -> Result<Option<(Place, Defect)>> {
        let Walk { row, last, after, last_at } = walk;
        let (branch, position) = (&row.branch, record.position);
        let defect = match record.prove(branch, &last.hash) {
            Err(defect) => Some(explain(self.store, record, &last.hash, defect)?),
            Ok(()) => record.belongs_elsewhere(&row.session),
        };
        if let Some(defect) = defect {
            return Ok(Some((claimed(*after, position), defect)));
        }
        if position < *after {
            let expected = format!("position {after} or later");
            let defect = Defect::Place { expected, found: format!("position {position}") };
            let place = match last_at {
                Some((before, last_position)) => Place::Crossing {
                    claimed: position,
                    last: (last.seq, *last_position),
                    after: *before,
                },
                None => Place::At(position),
            };
            return Ok(Some((place, defect)));
        }
        if let Some(defect) = other_fork(row, record) {
            return Ok(Some((Place::At(position), defect)));
        }
        self.note(row, record);
        let defect = self.check_blobs(row, record)?;
        Ok(defect.map(|defect| (Place::At(position), defect)))
    }

    /// An event behind the head of its branch. One that was stored since proving began is none.
    fn beyond_head(&self, walk: &Walk<'_>) -> Result<Option<(Place, Broken)>> {
        let (branch, head) = (&walk.row.branch, walk.row.head.seq);
        let rows = readable_rows(self.store, branch, head + 1, Seq::MAX)?.unwrap_or_default();
        let Some(record) = rows.into_iter().next() else { return Ok(None) };
        // A branch that has grown has a new head as well.
        if record.position >= self.settled || self.store.branch(branch)?.head.seq >= record.seq {
            return Ok(None);
        }
        let (expected, found) = (format!("{head} as the last"), format!("{branch}/{}", record.seq));
        let broken = Broken::of_event(branch, record.seq, &Defect::Place { expected, found });
        Ok(Some((claimed(walk.after, record.position), broken)))
    }

    /// Notes what the events behind a bad one say, as far as each proves itself: other branches may rest
    /// on them.
    fn note_rest(&mut self, walk: &Walk<'_>) -> Result<()> {
        let (branch, head) = (&walk.row.branch, walk.row.head.seq);
        let mut last = walk.last;
        while last.seq < head {
            let Ok(rows) = readable_rows(self.store, branch, last.seq + 1, head)? else {
                (self.may_have_erased, last.seq) = (true, last.seq + 1);
                continue;
            };
            if rows.is_empty() {
                break;
            }
            for record in rows {
                if record.prove(branch, &last.hash).is_ok() {
                    self.note(walk.row, &record);
                } else {
                    self.unsure.insert(record.position);
                    self.may_have_erased |= erase::may_say(&record);
                }
                last = Head { seq: record.seq, hash: record.hash };
            }
        }
        Ok(())
    }
}

/// How far a branch was proved.
struct Walk<'r> {
    row: &'r BranchRow,
    last: Head,
    /// The earliest position of the next event.
    after: u64,
    /// The earliest position of the last own event, and the one that it has.
    last_at: Option<(u64, u64)>,
}

impl Walk<'_> {
    fn step(&mut self, record: &Record) {
        self.last_at = Some((self.after, record.position));
        self.after = record.position + 1;
        self.last = Head { seq: record.seq, hash: record.hash };
    }

    /// The next event, which is not there or cannot be read.
    fn lost(&self, store: &dyn Store, defect: &Defect) -> Result<Option<(Place, Broken)>> {
        let (branch, next) = (&self.row.branch, self.last.seq + 1);
        let place = match store.position(branch, next) {
            Ok(Some(position)) => claimed(self.after, position),
            Err(error) if !error.is(codes::LOG_CORRUPT) => return Err(error),
            _ => Place::Lost { after: self.after },
        };
        Ok(Some((place, Broken::of_event(branch, next, defect))))
    }
}

/// What an event says of its branch's fork, where the branch's row says something else.
fn other_fork(row: &BranchRow, record: &Record) -> Option<Defect> {
    let said: BranchForked = record.body_of(&Kind::BranchForked)?;
    let told = |parent: &BranchId, seq: Seq, hash: &Digest, name: &str| {
        format!("a fork of {parent} at {seq} {hash} named {name}")
    };
    let expected = told(&said.parent, said.at_seq, &said.at_hash, &said.name);
    let found = match &row.fork {
        Some(fork) => told(&fork.parent, fork.seq, &fork.hash, &row.name),
        None => "a branch without parent".to_owned(),
    };
    (expected != found).then_some(Defect::Hash { expected, found })
}

/// The place of an event that says where it is.
const fn claimed(after: u64, position: u64) -> Place {
    if position < after {
        Place::Lost { after }
    } else {
        Place::Claimed { after, claimed: position }
    }
}

/// The place of a branch's own event.
fn place_of(store: &dyn Store, branch: &BranchId, seq: Seq, after: u64) -> Result<Place> {
    let rows = readable_rows(store, branch, seq, seq)?.unwrap_or_default();
    let row = rows.first().map(|record| claimed(after, record.position));
    Ok(row.unwrap_or(Place::Lost { after }))
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

/// What is wrong with a branch's past, and the earliest position of its own events.
struct ForkDefect {
    defect: Defect,
    after: u64,
    /// Whether the proof of another branch names it, and earlier.
    is_told_elsewhere: bool,
}

/// Checks what a branch says of its past. Answers the earliest position of its own events, or what
/// is wrong.
fn check_fork(store: &dyn Store, row: &BranchRow) -> Result<Result<u64, ForkDefect>> {
    let wrong = |defect, after| Ok(Err(ForkDefect { defect, after, is_told_elsewhere: false }));
    let stored = store.ancestors(&row.branch)?;
    let Some(fork) = &row.fork else {
        let (expected, found) = ("no ancestors".to_owned(), format!("{stored:?}"));
        let is_root = stored.is_empty();
        return if is_root { Ok(Ok(0)) } else { wrong(Defect::Place { expected, found }, 0) };
    };
    let parent = store.branch(&fork.parent)?;
    let past = if parent.fork.is_some() { store.ancestors(&fork.parent)? } else { Vec::new() };
    let expected = ancestors_of_child(&fork.parent, past, fork.seq)?;
    let owner = expected.last().expect("a fork has an ancestor");
    let shared = match readable_rows(store, &owner.branch, fork.seq, fork.seq)? {
        Ok(rows) => rows.into_iter().next(),
        // The owner's own proof names it, and it comes before.
        Err(_) => {
            let (defect, after) = (damaged_row(), 0);
            return Ok(Err(ForkDefect { defect, after, is_told_elsewhere: true }));
        }
    };
    let after = shared.as_ref().map_or(0, |record| record.position + 1);
    if stored != expected {
        let (expected, found) = (format!("{expected:?}"), format!("{stored:?}"));
        return wrong(Defect::Place { expected, found }, after);
    }
    let found = shared.map(|record| record.hash);
    if found == Some(fork.hash) {
        return Ok(Ok(after));
    }
    let expected = fork.hash.to_string();
    let found = found.map_or_else(|| "no event".to_owned(), |hash| hash.to_string());
    wrong(Defect::Hash { expected, found }, after)
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
