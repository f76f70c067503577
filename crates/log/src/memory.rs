//! The store in memory: for tests, simulations, and as the plain statement of what a store does.
//! Nothing of it survives the process.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use glasshouse_model::event::SALT_BYTES;
use glasshouse_model::{BranchId, Digest, Draft, Seq, SessionId, TenantId};

use crate::append::{Append, Appended, Cell, CellWrite, Head, Prepared};
use crate::branch::{
    BranchRow, BranchState, Fork, NewBranch, Segment, SessionRow, ancestors_of_child, check_fork,
};
use crate::cells::{CellMark, StoredCell};
use crate::clock::Clock;
use crate::codes;
use crate::erase;
use crate::error::{Error, Result};
use crate::import::ImportedBranch;
use crate::keeping::ARCHIVES;
use crate::lease::{self, Fence};
use crate::record::{Place, Record, seal};
use crate::rules::{self, Taken};
use crate::store::{Flaw, Leaf, Merge, Stats, Store, Stored, TreeHead};
use crate::tree::Tree;

/// All events of a tenant.
pub(crate) struct Memory {
    tenant: TenantId,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

/// By space and key: version and bytes, none of a deleted cell.
type Cells = BTreeMap<(String, String), (u64, Option<Vec<u8>>)>;

#[derive(Default)]
struct State {
    lines: HashMap<BranchId, Line>,
    /// In the order of their creation.
    order: Vec<BranchId>,
    leaves: Vec<Leaf>,
    tree: Tree,
    requests: HashMap<(BranchId, String), (Seq, Head)>,
    cells: Cells,
    stats: Stats,
}

/// A branch with the events that it stores itself.
struct Line {
    row: BranchRow,
    ancestors: Vec<Segment>,
    records: Vec<Record>,
}

impl Memory {
    pub(crate) fn new(tenant: TenantId, clock: Arc<dyn Clock>) -> Self {
        Self { tenant, clock, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores an append after everything that can refuse it.
    fn store(
        &self,
        state: &mut State,
        request: Prepared,
        merge: Option<&Merge>,
    ) -> Result<Appended> {
        let Prepared { append, bodies } = request;
        let row = state.line(&append.branch)?.row.clone();
        rules::check_session(&row, &append.session)?;
        if let Some(key) = &append.idempotency_key
            && let Some(earlier) = state.replay(&append.branch, key)?
        {
            return Ok(earlier);
        }
        rules::check_open(&row, None)?;
        state.fence(&append.branch)?.check(&append.branch, append.epoch)?;
        rules::check_open(&row, append.expected_head)?;
        if let Some(merge) = merge {
            state.fence(&merge.source)?.check(&merge.source, merge.source_epoch)?;
            rules::check_merge(&row, &state.line(&merge.source)?.row, merge)?;
        }
        let versions = state.next_versions(&append.cells)?;
        let marks = append.cells.iter().zip(&versions);
        let marks: Vec<_> =
            marks.filter_map(|(write, version)| CellMark::of_write(write, *version)).collect();
        let place = Place {
            tenant: &self.tenant,
            session: &append.session,
            branch: &append.branch,
            time_us: self.clock.now_us(),
        };
        let (mut head, mut sealed) = (row.head, Vec::with_capacity(bodies.len()));
        let mut drafts = append.events.into_iter().zip(bodies);
        while let Some((draft, body)) = drafts.next() {
            let marks = if drafts.len() == 0 { marks.as_slice() } else { &[] };
            let position = state.tree.size() + count(sealed.len());
            let at = (head.seq + 1, position, head.hash);
            let one = seal(draft, body, &place, at, salt()?, marks).map_err(|cause| {
                Error::new(codes::APPEND_INVALID, "could not append")
                    .why(format!("a header is no JSON: {cause}"))
            })?;
            head = Head { seq: one.0.seq, hash: one.0.hash };
            sealed.push(one);
        }
        state.write(append.cells, versions);
        if let Some(key) = append.idempotency_key {
            let first = head.seq + 1 - count(sealed.len());
            state.requests.insert((append.branch.clone(), key), (first, head));
        }
        state.stats.commits += 1;
        state.stats.events += count(sealed.len());
        let (records, events): (Vec<_>, Vec<_>) = sealed.into_iter().unzip();
        state.add(&append.branch, records, head, place.time_us)?;
        if let Some(merge) = merge {
            state.line_mut(&merge.source)?.row.state = BranchState::Merged;
        }
        Ok(Appended { events, head, replayed: false })
    }
}

impl State {
    fn line(&self, branch: &BranchId) -> Result<&Line> {
        self.lines.get(branch).ok_or_else(|| rules::no_branch(branch))
    }

    fn line_mut(&mut self, branch: &BranchId) -> Result<&mut Line> {
        self.lines.get_mut(branch).ok_or_else(|| rules::no_branch(branch))
    }

    fn fence(&self, branch: &BranchId) -> Result<Fence> {
        let cell = self.cells.get(&(lease::SPACE.to_owned(), branch.to_string()));
        Fence::of_cell(cell.and_then(|(_, bytes)| bytes.clone()))
    }

    fn replay(&self, branch: &BranchId, key: &str) -> Result<Option<Appended>> {
        let Some((first, head)) = self.requests.get(&(branch.clone(), key.to_owned())) else {
            return Ok(None);
        };
        let line = self.line(branch)?;
        let before = line.record(first - 1).map(|record| record.hash);
        let mut prev = before.unwrap_or_else(|| line.row.base().hash);
        let mut events = Vec::new();
        for record in line.rows(*first, head.seq) {
            let event = record.check(branch, &prev);
            let event = event.map_err(|defect| defect.error(branch, record.seq))?;
            prev = event.hash;
            events.push(event);
        }
        Ok(Some(Appended { events, head: *head, replayed: true }))
    }

    fn next_versions(&self, writes: &[CellWrite]) -> Result<Vec<u64>> {
        let next = |write: &CellWrite| {
            let stored = self.cells.get(&(write.space.clone(), write.key.clone()));
            let (version, exists) =
                stored.map_or((0, false), |(version, bytes)| (*version, bytes.is_some()));
            rules::next_version(write, version, exists)
        };
        writes.iter().map(next).collect()
    }

    fn write(&mut self, writes: Vec<CellWrite>, versions: Vec<u64>) {
        for (write, version) in writes.into_iter().zip(versions) {
            self.cells.insert((write.space, write.key), (version, write.bytes));
        }
    }

    fn add(
        &mut self,
        branch: &BranchId,
        records: Vec<Record>,
        head: Head,
        now_us: u64,
    ) -> Result<()> {
        for Record { seq, position, hash, .. } in &records {
            let (position, seq, hash) = (*position, *seq, *hash);
            self.leaves.push(Leaf { position, branch: branch.clone(), seq, hash });
            self.tree.push(&hash);
        }
        let line = self.line_mut(branch)?;
        line.records.extend(records);
        (line.row.head, line.row.last_us) = (head, now_us);
        Ok(())
    }
}

impl Line {
    fn record(&self, seq: Seq) -> Option<&Record> {
        let index = seq.checked_sub(self.row.base().seq + 1)?;
        self.records.get(usize::try_from(index).ok()?)
    }

    fn rows(&self, from: Seq, upto: Seq) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |record| (from..=upto).contains(&record.seq))
    }
}

impl Memory {
    /// Adds a branch without events.
    fn add_branch(&self, state: &mut State, new: &NewBranch) -> Result<Head> {
        new.check()?;
        let mut siblings =
            state.lines.values().map(|line| &line.row).filter(|row| row.session == new.session);
        let taken = Taken {
            id: state.lines.contains_key(&new.branch),
            name: siblings.clone().any(|row| row.name == new.name),
            root: siblings.any(|row| row.fork.is_none()),
        };
        rules::check_new_branch(&new.branch, &new.name, new.parent.is_none(), &taken)?;
        let (mut fork, mut ancestors) = (None, Vec::new());
        if let Some((parent, fork_seq)) = &new.parent {
            let line = state.line(parent)?;
            rules::check_session(&line.row, &new.session)?;
            check_fork(&line.row, *fork_seq)?;
            let archive = state.cells.get(&(ARCHIVES.to_owned(), new.session.to_string()));
            rules::check_kept(&new.session, archive.and_then(|(_, bytes)| bytes.as_deref()))?;
            ancestors = ancestors_of_child(parent, line.ancestors.clone(), *fork_seq)?;
            let owner = ancestors.last().expect("a fork within the parent has an ancestor");
            let shared = state.line(&owner.branch)?.record(*fork_seq);
            let hash = shared.expect("a branch has its events up to its head").hash;
            fork = Some(Fork { parent: parent.clone(), seq: *fork_seq, hash });
        }
        let now_us = self.clock.now_us();
        let mut row = BranchRow {
            session: new.session.clone(),
            branch: new.branch.clone(),
            name: new.name.clone(),
            fork,
            state: BranchState::Open,
            is_imported: false,
            head: Head::EMPTY,
            created_us: now_us,
            last_us: now_us,
        };
        row.head = row.base();
        let head = row.head;
        state.lines.insert(new.branch.clone(), Line { row, ancestors, records: Vec::new() });
        state.order.push(new.branch.clone());
        Ok(head)
    }
}

impl Store for Memory {
    fn create_branch(&self, new: &NewBranch, events: Vec<Draft>) -> Result<Appended> {
        new.check()?;
        let first = Prepared::first_of(new, events)?;
        let mut state = self.state();
        let head = self.add_branch(&mut state, new)?;
        match first {
            Some(first) => self.store(&mut state, first, None),
            None => Ok(Appended { events: Vec::new(), head, replayed: false }),
        }
    }

    fn import(
        &self,
        branches: Vec<ImportedBranch>,
        told: &NewBranch,
        append: Append,
    ) -> Result<Appended> {
        let request = Prepared::new(append)?;
        let mut state = self.state();
        for branch in branches.iter().map(|branch| &branch.new.branch).chain([&told.branch]) {
            if state.lines.contains_key(branch) {
                return Err(rules::is_taken(branch));
            }
        }
        let session = branches.first().map(|first| &first.new.session);
        if let Some(session) = session.filter(|id| !state.rows_of(Some(id)).is_empty()) {
            return Err(rules::session_exists(session));
        }
        let base = state.tree.size();
        for branch in branches {
            let mut head = self.add_branch(&mut state, &branch.new)?;
            let records: Vec<_> =
                branch.records.into_iter().map(|record| record.placed(base)).collect();
            if let Some(last) = records.last() {
                head = Head { seq: last.seq, hash: last.hash };
            }
            state.stats.events += count(records.len());
            state.add(&branch.new.branch, records, head, self.clock.now_us())?;
            let row = &mut state.line_mut(&branch.new.branch)?.row;
            (row.state, row.is_imported) = (branch.state, true);
        }
        self.add_branch(&mut state, told)?;
        self.store(&mut state, request, None)
    }

    fn append(&self, append: Append, merge: Option<Merge>) -> Result<Appended> {
        let request = Prepared::new(append)?;
        self.store(&mut self.state(), request, merge.as_ref())
    }

    fn append_later(&self, append: Append, _delay: Duration, stored: Stored) -> Result<()> {
        stored(self.append(append, None));
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn erase(
        &self,
        append: Append,
        events: Vec<(BranchId, Seq)>,
        blobs: Vec<Digest>,
    ) -> Result<Appended> {
        let request = Prepared::new(append)?;
        let mut state = self.state();
        let mut whole = Vec::with_capacity(events.len());
        for (branch, seq) in events {
            let line = state.line(&branch)?;
            rules::check_erased_session(&line.row, &request.append.session)?;
            if rules::check_erase(&branch, seq, line.record(seq))? {
                whole.push((branch, seq));
            }
        }
        let appended = self.store(&mut state, request, None)?;
        let by = state.tree.size() - 1;
        for (branch, seq) in whole {
            let records = &mut state.line_mut(&branch)?.records;
            if let Some(record) = records.iter_mut().find(|record| record.seq == seq) {
                (record.salt, record.body) = (by.to_be_bytes().to_vec(), Vec::new());
            }
        }
        let writes: Vec<_> = blobs.iter().map(erase::cell_of).collect();
        let versions = state.next_versions(&writes)?;
        state.write(writes, versions);
        Ok(appended)
    }

    fn close_branch(&self, branch: &BranchId) -> Result<()> {
        let mut state = self.state();
        let row = &mut state.line_mut(branch)?.row;
        if row.why_ended().is_none() {
            row.state = BranchState::Closed;
        }
        Ok(())
    }

    fn write_cells(&self, writes: Vec<CellWrite>) -> Result<()> {
        let mut state = self.state();
        let versions = state.next_versions(&writes)?;
        state.write(writes, versions);
        Ok(())
    }

    fn cell(&self, space: &str, key: &str) -> Result<Option<Cell>> {
        let state = self.state();
        let stored = state.cells.get(&(space.to_owned(), key.to_owned()));
        Ok(stored
            .and_then(|(version, bytes)| Some(Cell { version: *version, bytes: bytes.clone()? })))
    }

    fn cells(&self, space: &str, after: &str, limit: usize) -> Result<Vec<(String, Cell)>> {
        let state = self.state();
        let after = (space.to_owned(), after.to_owned());
        let later = state.cells.range((Bound::Excluded(after), Bound::Unbounded));
        let cells = later.take_while(|((stored, _), _)| stored == space);
        let cells = cells.filter_map(|((_, key), (version, bytes))| {
            Some((key.clone(), Cell { version: *version, bytes: bytes.clone()? }))
        });
        Ok(cells.take(limit).collect())
    }

    fn stored_cells(&self, after: (&str, &str), limit: usize) -> Result<Vec<StoredCell>> {
        let state = self.state();
        let after = (after.0.to_owned(), after.1.to_owned());
        let later = state.cells.range((Bound::Excluded(after), Bound::Unbounded)).take(limit);
        let cells = later.map(|((space, key), (version, bytes))| StoredCell {
            space: space.clone(),
            key: key.clone(),
            version: *version,
            bytes: bytes.clone(),
        });
        Ok(cells.collect())
    }

    fn branch(&self, branch: &BranchId) -> Result<BranchRow> {
        self.state().line(branch).map(|line| line.row.clone())
    }

    fn branches(&self, session: Option<&SessionId>) -> Result<Vec<BranchRow>> {
        Ok(self.state().rows_of(session))
    }

    fn sessions(&self) -> Result<Vec<SessionRow>> {
        let state = self.state();
        let rows = state.rows_of(None);
        let roots = rows.iter().rev().filter(|row| row.fork.is_none());
        let sessions = roots.map(|root| {
            let own = || rows.iter().filter(|row| row.session == root.session);
            SessionRow {
                session: root.session.clone(),
                main: root.branch.clone(),
                created_us: root.created_us,
                last_us: own().map(|row| row.last_us).max().unwrap_or(0),
                events: own().map(|row| row.head.seq - row.base().seq).sum(),
            }
        });
        Ok(sessions.collect())
    }

    fn ancestors(&self, branch: &BranchId) -> Result<Vec<Segment>> {
        self.state().line(branch).map(|line| line.ancestors.clone())
    }

    fn rows(&self, branch: &BranchId, from: Seq, upto: Seq, limit: usize) -> Result<Vec<Record>> {
        let state = self.state();
        Ok(state.line(branch)?.rows(from, upto).take(limit).cloned().collect())
    }

    fn leaves(&self, from_position: u64, limit: usize) -> Result<Vec<Leaf>> {
        let from = usize::try_from(from_position).unwrap_or(usize::MAX);
        Ok(self.state().leaves.iter().skip(from).take(limit).cloned().collect())
    }

    fn position(&self, branch: &BranchId, seq: Seq) -> Result<Option<u64>> {
        let state = self.state();
        Ok(state.line(branch)?.record(seq).map(|record| record.position))
    }

    fn tree(&self) -> Result<TreeHead> {
        let state = self.state();
        let newest = state.leaves.last();
        let newest =
            newest.map(|leaf| (leaf.branch.clone(), Head { seq: leaf.seq, hash: leaf.hash }));
        Ok(TreeHead { size: state.tree.size(), root: state.tree.root(), newest })
    }

    fn flaw(&self, _is_thorough: bool) -> Result<Option<Flaw>> {
        Ok(None)
    }

    fn copy_to(&self, _file: &Path) -> Result<()> {
        Err(Error::new(codes::STORAGE_FAILED, "could not back up").why("the log is in memory"))
    }

    fn bytes(&self) -> Result<u64> {
        let state = self.state();
        let records = state.lines.values().flat_map(|line| &line.records);
        Ok(records.map(|record| count(record.header.len() + record.body.len())).sum())
    }

    fn stats(&self) -> Stats {
        self.state().stats
    }
}

impl State {
    fn rows_of(&self, session: Option<&SessionId>) -> Vec<BranchRow> {
        let rows = self.order.iter().filter_map(|branch| self.lines.get(branch));
        let rows = rows.map(|line| &line.row);
        rows.filter(|row| session.is_none_or(|id| *id == row.session)).cloned().collect()
    }
}

fn salt() -> Result<[u8; SALT_BYTES]> {
    let mut salt = [0; SALT_BYTES];
    getrandom::fill(&mut salt).map_err(|cause| {
        Error::new(codes::STORAGE_FAILED, "could not append")
            .why(format!("the operating system gave no random bytes: {cause}"))
    })?;
    Ok(salt)
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
