//! One transaction that many appends share: each is checked against the state that the ones before
//! it left, and heads and tree are written once at the end.

use std::collections::HashMap;

use glasshouse_model::event::SALT_BYTES;
use glasshouse_model::{BranchId, Digest, Draft, Event, Seq, SessionId, TenantId};
use rusqlite::{Connection, params};

use super::connection::explain;
use super::queries::{self, cached};
use super::schema::{MAX_BRANCH_NUMBER, MAX_SEQ, integer, place};
use crate::append::{Appended, CellWrite, Head, Prepared};
use crate::branch::{BranchRow, BranchState, NewBranch, ancestors_of_child, check_fork};
use crate::cells::CellMark;
use crate::codes;
use crate::erase;
use crate::error::{Error, Result};
use crate::import::ImportedBranch;
use crate::keeping::ARCHIVES;
use crate::lease;
use crate::record::{Place, Record, seal};
use crate::rules;
use crate::store::Merge;
use crate::tree::Tree;

/// Branches that are known from one group to the next; beyond, they are read again.
const MAX_KNOWN_BRANCHES: usize = 4_096;
/// Salts are drawn from the operating system this many at a time.
const SALTS_PER_DRAW: usize = 256;

/// The state of the log inside a transaction.
pub(crate) struct Group<'c> {
    connection: &'c Connection,
    tenant: &'c TenantId,
    salts: &'c mut Salts,
    now_us: u64,
    known: Known,
    events: u64,
    erases: bool,
    trouble: Option<Error>,
}

/// What is known of the database after a commit, so that the next group need not
/// read it again. Void once another connection has written.
pub(crate) struct Known {
    /// SQLite's count of what other connections wrote.
    data_version: i64,
    tree: Tree,
    newest: Option<(i64, Head)>,
    branches: HashMap<BranchId, Touched>,
}

/// A branch that the group has looked at.
struct Touched {
    number: i64,
    row: BranchRow,
    /// Epoch and state of the branch's lease, read once: only the group itself could change it,
    /// and lease changes drop what was read.
    lease: Option<lease::Fence>,
    is_changed: bool,
}

impl<'c> Group<'c> {
    pub(crate) fn begin(
        connection: &'c Connection,
        tenant: &'c TenantId,
        salts: &'c mut Salts,
        now_us: u64,
        known: Option<Known>,
    ) -> Result<Self> {
        let data_version = sql(queries::data_version(connection))?;
        let known = match known.filter(|known| known.data_version == data_version) {
            Some(known) => known,
            None => {
                let (tree, newest) = sql(queries::tree(connection))?.ok_or_else(damaged_tree)?;
                let newest = newest.map(|(number, _, head)| (number, head));
                Known { data_version, tree, newest, branches: HashMap::new() }
            }
        };
        Ok(Self {
            connection,
            tenant,
            salts,
            now_us,
            known,
            events: 0,
            erases: false,
            trouble: None,
        })
    }

    /// What is known once the group is committed.
    pub(crate) fn into_known(mut self) -> Known {
        if self.known.branches.len() > MAX_KNOWN_BRANCHES {
            self.known.branches.clear();
        }
        self.known.branches.values_mut().for_each(|touched| touched.is_changed = false);
        self.known
    }

    /// Events stored so far.
    pub(crate) const fn events(&self) -> u64 {
        self.events
    }

    /// Whether bytes were erased that the write-ahead log still holds.
    pub(crate) const fn erases(&self) -> bool {
        self.erases
    }

    /// The storage error, if one happened, that makes going on pointless.
    pub(crate) fn trouble(&mut self) -> Option<Error> {
        self.trouble.take()
    }

    /// Runs one operation so that its failure leaves no trace in the group.
    pub(crate) fn attempt<T>(
        &mut self,
        operation: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let before = self.connection.total_changes();
        let outcome = operation(self);
        if let Err(error) = &outcome {
            // An operation looks at everything that can refuse it before it writes. What fails
            // later is the storage, and then the group is taken back as a whole.
            let storage = [codes::STORAGE_FULL, codes::STORAGE_FAILED, codes::LOG_BUSY];
            if storage.iter().any(|code| error.is(*code))
                || self.connection.total_changes() != before
                || self.connection.is_autocommit()
            {
                self.trouble = Some(error.clone());
            }
        }
        outcome
    }

    /// Stores one append.
    pub(crate) fn append(&mut self, request: Prepared, merge: Option<&Merge>) -> Result<Appended> {
        let Prepared { append, bodies } = request;
        let touched = self.touch(&append.branch)?;
        let number = touched.number;
        rules::check_session(&touched.row, &append.session)?;
        if let Some(key) = &append.idempotency_key
            && let Some(earlier) = self.replay(number, &append.branch, key)?
        {
            return Ok(earlier);
        }
        let head = self.check_append(&append.branch, append.epoch, append.expected_head)?;
        if let Some(merge) = merge {
            self.check_merge(&append.branch, merge)?;
        }
        let count = u64::try_from(bodies.len()).unwrap_or(u64::MAX);
        if head.seq.saturating_add(count) > MAX_SEQ {
            return Err(Error::new(codes::APPEND_INVALID, format!("{} is full", append.branch))
                .why(format!("a branch has at most {MAX_SEQ} events")));
        }
        let versions = self.write_cells(&append.cells)?;
        let cells = append.cells.iter().zip(versions);
        let cells: Vec<_> =
            cells.filter_map(|(write, version)| CellMark::of_write(write, version)).collect();
        let drafts = append.events.into_iter().zip(bodies);
        let events =
            self.store_events(number, head, (&append.session, &append.branch), drafts, &cells)?;
        let head = events.last().map_or(head, |event| Head { seq: event.seq(), hash: event.hash });
        if let Some(key) = &append.idempotency_key {
            self.remember(number, key, head.seq + 1 - count, head)?;
        }
        let (now_us, ends) = (self.now_us, merge.map(|merge| merge.source.clone()));
        let touched = self.touch(&append.branch)?;
        if !events.is_empty() {
            (touched.row.head, touched.row.last_us) = (head, now_us);
            touched.is_changed = true;
        }
        if let Some(source) = ends {
            let source = self.touch(&source)?;
            (source.row.state, source.is_changed) = (BranchState::Merged, true);
        }
        Ok(Appended { events, head, replayed: false })
    }

    /// Stores an append of one event that says what is erased, and erases it.
    pub(crate) fn erase(
        &mut self,
        request: Prepared,
        events: &[(BranchId, Seq)],
        blobs: &[Digest],
    ) -> Result<Appended> {
        // Everything that can be refused is looked at before the append changes the group.
        let mut places = Vec::with_capacity(events.len());
        for (branch, seq) in events {
            places.extend(self.place_to_erase(&request.append.session, branch, *seq)?);
        }
        let appended = self.append(request, None)?;
        let by = self.known.tree.size() - 1;
        for place in places {
            self.run(
                "UPDATE event SET salt = ?2, body = x'' WHERE place = ?1",
                params![place, by.to_be_bytes().as_slice()],
            )?;
        }
        self.write_cells(&blobs.iter().map(erase::cell_of).collect::<Vec<_>>())?;
        self.erases = true;
        Ok(appended)
    }

    /// Where an event lies whose body may be erased; `None` when that has been done.
    fn place_to_erase(
        &mut self,
        session: &SessionId,
        branch: &BranchId,
        seq: Seq,
    ) -> Result<Option<i64>> {
        let connection = self.connection;
        let touched = self.touch(branch)?;
        rules::check_erased_session(&touched.row, session)?;
        let number = touched.number;
        let record = sql(queries::rows(connection, number, seq, seq, 1))?.pop();
        let is_whole = rules::check_erase(branch, seq, record.as_ref())?;
        Ok(is_whole.then(|| place(number, seq)))
    }

    /// Creates a branch; answers its head.
    pub(crate) fn create_branch(&mut self, new: &NewBranch) -> Result<Head> {
        if sql(queries::last_branch_number(self.connection))? >= MAX_BRANCH_NUMBER {
            return Err(too_many_branches());
        }
        let taken = sql(queries::taken(self.connection, new))?;
        rules::check_new_branch(&new.branch, &new.name, new.parent.is_none(), &taken)?;
        let Some((parent, fork_seq)) = &new.parent else {
            self.insert_branch(new, None, Head::EMPTY)?;
            return Ok(Head::EMPTY);
        };
        let touched = self.touch(parent)?;
        rules::check_session(&touched.row, &new.session)?;
        check_fork(&touched.row, *fork_seq)?;
        let parent_number = touched.number;
        let archive = sql(queries::cell(self.connection, ARCHIVES, new.session.as_str()))?;
        rules::check_kept(&new.session, archive.and_then(|(_, bytes)| bytes).as_deref())?;
        let ancestors = sql(queries::ancestors(self.connection, parent_number))?;
        let ancestors = ancestors_of_child(parent, ancestors, *fork_seq)?;
        let owner = ancestors.last().expect("a fork within the parent has an ancestor");
        let owner_number = self.touch(&owner.branch)?.number;
        let row = sql(queries::rows(self.connection, owner_number, *fork_seq, *fork_seq, 1))?.pop();
        let hash = row.ok_or_else(|| lost_event(parent, *fork_seq))?.hash;
        let head = Head { seq: *fork_seq, hash };
        let number = self.insert_branch(new, Some(parent_number), head)?;
        for segment in ancestors {
            let ancestor = self.touch(&segment.branch)?.number;
            self.run(
                "INSERT INTO lineage (branch, upto_seq, ancestor) VALUES (?1, ?2, ?3)",
                params![number, integer(segment.upto), ancestor],
            )?;
        }
        Ok(head)
    }

    /// Stores a session that another log recorded, with its hashes, and in a session of its own what tells
    /// of it.
    pub(crate) fn import(
        &mut self,
        branches: Vec<ImportedBranch>,
        told: &NewBranch,
        request: Prepared,
    ) -> Result<Appended> {
        // What can be refused is looked at before anything is written.
        for branch in branches.iter().map(|branch| &branch.new.branch).chain([&told.branch]) {
            if sql(queries::branch(self.connection, branch))?.is_some() {
                return Err(rules::is_taken(branch));
            }
        }
        let session = branches.first().map(|first| &first.new.session);
        if let Some(session) = session
            && !sql(queries::branches(self.connection, Some(session)))?.is_empty()
        {
            return Err(rules::session_exists(session));
        }
        let numbers = i64::try_from(branches.len()).unwrap_or(i64::MAX).saturating_add(1);
        if sql(queries::last_branch_number(self.connection))? > MAX_BRANCH_NUMBER - numbers {
            return Err(too_many_branches());
        }
        let base = self.known.tree.size();
        for branch in branches {
            self.create_branch(&branch.new)?;
            let touched = self.touch(&branch.new.branch)?;
            let (number, mut head) = (touched.number, touched.row.head);
            for record in branch.records {
                let record = record.placed(base);
                self.insert_event(number, &record)?;
                self.known.tree.push(&record.hash);
                head = Head { seq: record.seq, hash: record.hash };
                self.known.newest = Some((number, head));
                self.events += 1;
            }
            let touched = self.touch(&branch.new.branch)?;
            (touched.row.head, touched.row.state) = (head, branch.state);
            (touched.row.is_imported, touched.is_changed) = (true, true);
        }
        self.create_branch(told)?;
        self.append(request, None)
    }

    /// Ends a branch.
    pub(crate) fn close_branch(&mut self, branch: &BranchId) -> Result<()> {
        let touched = self.touch(branch)?;
        if touched.row.why_ended().is_none() {
            (touched.row.state, touched.is_changed) = (BranchState::Closed, true);
        }
        Ok(())
    }

    /// Changes cells: all are compared before any is written. Answers their new versions.
    pub(crate) fn write_cells(&mut self, writes: &[CellWrite]) -> Result<Vec<u64>> {
        let mut versions = Vec::with_capacity(writes.len());
        for write in writes {
            versions.push(self.next_version(write)?);
        }
        for (write, version) in writes.iter().zip(&versions) {
            self.run(
                "INSERT INTO cell (space, key, version, bytes) VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT DO UPDATE SET version = excluded.version, bytes = excluded.bytes",
                params![write.space, write.key, integer(*version), write.bytes],
            )?;
            if write.space == lease::SPACE {
                self.known.branches.values_mut().for_each(|touched| touched.lease = None);
            }
        }
        Ok(versions)
    }

    /// Writes what the group's appends share.
    pub(crate) fn finish(&mut self) -> Result<()> {
        for touched in self.known.branches.values().filter(|touched| touched.is_changed) {
            let row = &touched.row;
            self.run(
                "UPDATE branch SET state = ?2, head_seq = ?3, head_hash = ?4, last_us = ?5 \
                 WHERE number = ?1",
                params![
                    touched.number,
                    row.stored_state(),
                    integer(row.head.seq),
                    row.head.hash.as_bytes().as_slice(),
                    integer(row.last_us)
                ],
            )?;
        }
        if let (true, Some((number, head))) = (self.events > 0, self.known.newest) {
            self.run(
                "UPDATE tree SET size = ?1, edge = ?2, branch = ?3, seq = ?4, hash = ?5",
                params![
                    integer(self.known.tree.size()),
                    self.known.tree.edge_bytes(),
                    number,
                    integer(head.seq),
                    head.hash.as_bytes().as_slice()
                ],
            )?;
        }
        Ok(())
    }

    /// The branch as the group has left it so far.
    fn touch(&mut self, branch: &BranchId) -> Result<&mut Touched> {
        if !self.known.branches.contains_key(branch) {
            let (number, row) = sql(queries::branch(self.connection, branch))?
                .ok_or_else(|| rules::no_branch(branch))?;
            let touched = Touched { number, row, lease: None, is_changed: false };
            self.known.branches.insert(branch.clone(), touched);
        }
        Ok(self.known.branches.get_mut(branch).expect("it was inserted when it was missing"))
    }

    /// The result of an earlier append with the same key.
    fn replay(&self, number: i64, branch: &BranchId, key: &str) -> Result<Option<Appended>> {
        let Some((first, head)) = sql(queries::request(self.connection, number, key))? else {
            return Ok(None);
        };
        let rows = sql(queries::rows(self.connection, number, first, head.seq, usize::MAX))?;
        let mut prev = sql(queries::hash_before(self.connection, number, first))?;
        let mut events = Vec::with_capacity(rows.len());
        for row in rows {
            let event = row.check(branch, &prev).map_err(|defect| defect.error(branch, row.seq))?;
            prev = event.hash;
            events.push(event);
        }
        Ok(Some(Appended { events, head, replayed: true }))
    }

    fn remember(&self, number: i64, key: &str, first_seq: Seq, head: Head) -> Result<()> {
        self.run(
            "INSERT INTO request (branch, key, first_seq, head_seq, head_hash) \
             VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                number,
                key,
                integer(first_seq),
                integer(head.seq),
                head.hash.as_bytes().as_slice()
            ],
        )
    }

    /// Checks that the branch takes this writer's events, and returns its head.
    fn check_append(
        &mut self,
        branch: &BranchId,
        epoch: Option<u64>,
        expected_head: Option<Seq>,
    ) -> Result<Head> {
        rules::check_open(&self.touch(branch)?.row, None)?;
        self.check_lease(branch, epoch)?;
        let touched = self.touch(branch)?;
        rules::check_open(&touched.row, expected_head)?;
        Ok(touched.row.head)
    }

    fn check_lease(&mut self, branch: &BranchId, epoch: Option<u64>) -> Result<()> {
        let connection = self.connection;
        let touched = self.touch(branch)?;
        if touched.lease.is_none() {
            let cell = sql(queries::cell(connection, lease::SPACE, branch.as_str()))?;
            touched.lease = Some(lease::Fence::of_cell(cell.and_then(|(_, bytes)| bytes))?);
        }
        touched.lease.as_ref().map_or(Ok(()), |fence| fence.check(branch, epoch))
    }

    fn check_merge(&mut self, target: &BranchId, merge: &Merge) -> Result<()> {
        let target = self.touch(target)?.row.clone();
        // Whoever owns the source is still at work on it.
        self.check_lease(&merge.source, merge.source_epoch)?;
        rules::check_merge(&target, &self.touch(&merge.source)?.row, merge)
    }

    /// The version of a cell after a write.
    fn next_version(&self, write: &CellWrite) -> Result<u64> {
        let stored = sql(queries::cell(self.connection, &write.space, &write.key))?;
        let (version, exists) =
            stored.map_or((0, false), |(version, bytes)| (version, bytes.is_some()));
        rules::next_version(write, version, exists)
    }

    fn store_events(
        &mut self,
        number: i64,
        head: Head,
        (session, branch): (&SessionId, &BranchId),
        mut drafts: impl ExactSizeIterator<Item = (Draft, Vec<u8>)>,
        cells: &[CellMark],
    ) -> Result<Vec<Event>> {
        let tenant = self.tenant;
        let place = Place { tenant, session, branch, time_us: self.now_us };
        let (mut seq, mut prev) = (head.seq, head.hash);
        let mut events = Vec::with_capacity(drafts.len());
        while let Some((draft, body)) = drafts.next() {
            seq += 1;
            let salt = self.salts.next()?;
            let at = (seq, self.known.tree.size(), prev);
            let cells = if drafts.len() == 0 { cells } else { &[] };
            let (record, event) = seal(draft, body, &place, at, salt, cells).map_err(|cause| {
                Error::new(codes::APPEND_INVALID, "could not append")
                    .why(format!("a header is no JSON: {cause}"))
            })?;
            self.insert_event(number, &record)?;
            self.known.tree.push(&record.hash);
            prev = record.hash;
            self.known.newest = Some((number, Head { seq, hash: prev }));
            self.events += 1;
            events.push(event);
        }
        Ok(events)
    }

    fn insert_event(&self, number: i64, record: &Record) -> Result<()> {
        self.run(
            "INSERT INTO event (place, position, hash, header, salt, body) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![
                place(number, record.seq),
                integer(record.position),
                record.hash.as_bytes().as_slice(),
                record.header,
                record.salt,
                record.body
            ],
        )
    }

    fn insert_branch(&self, new: &NewBranch, parent: Option<i64>, base: Head) -> Result<i64> {
        self.run(
            "INSERT INTO branch (id, session, name, parent, fork_seq, fork_hash, state, head_seq, \
             head_hash, created_us, last_us) VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'open', ?5, ?6, ?7, ?7)",
            params![
                new.branch.as_str(),
                new.session.as_str(),
                new.name,
                parent,
                integer(base.seq),
                base.hash.as_bytes().as_slice(),
                integer(self.now_us)
            ],
        )?;
        Ok(self.connection.last_insert_rowid())
    }

    fn run(&self, statement: &str, values: impl rusqlite::Params) -> Result<()> {
        sql(cached(self.connection, statement).and_then(|mut run| run.execute(values)))?;
        Ok(())
    }
}

/// Random bytes in front of bodies, drawn in bulk.
pub(crate) struct Salts {
    bytes: Vec<u8>,
}

impl Salts {
    pub(crate) const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    fn next(&mut self) -> Result<[u8; SALT_BYTES]> {
        if self.bytes.is_empty() {
            self.bytes.resize(SALT_BYTES * SALTS_PER_DRAW, 0);
            getrandom::fill(&mut self.bytes).map_err(|cause| {
                self.bytes.clear();
                Error::new(codes::STORAGE_FAILED, "could not append")
                    .why(format!("the operating system gave no random bytes: {cause}"))
            })?;
        }
        let rest = self.bytes.len() - SALT_BYTES;
        let mut salt = [0; SALT_BYTES];
        salt.copy_from_slice(&self.bytes[rest..]);
        self.bytes.truncate(rest);
        Ok(salt)
    }
}

fn sql<T>(result: queries::Sql<T>) -> Result<T> {
    result.map_err(|cause| explain(&cause))
}

fn too_many_branches() -> Error {
    Error::new(codes::APPEND_INVALID, "could not create a branch")
        .why(format!("a log has at most {MAX_BRANCH_NUMBER} branches"))
}

fn lost_event(branch: &BranchId, seq: Seq) -> Error {
    Error::new(codes::LOG_CORRUPT, format!("event {seq} of {branch} is missing"))
}

pub(crate) fn damaged_tree() -> Error {
    Error::new(codes::LOG_CORRUPT, "the log's tree cannot be read")
        .why("its right edge does not fit its size")
}
