//! The log of one tenant: the handle that everything else holds.

mod events;
mod later;
mod opening;
mod proving;

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use glasshouse_model::body::LogErased;
use glasshouse_model::{BranchId, Digest, Draft, Event, Kind, Seq, SessionId, TenantId};

use crate::append::{Append, Appended, Cell, CellWrite, Head};
use crate::backup;
use crate::blobs::Blobs;
use crate::branch::{BranchRow, NewBranch, SessionRow, last_shared};
use crate::chain::Chain;
use crate::clock::Clock;
use crate::codes;
use crate::erase::{self, Erase, MAX_ERASED};
use crate::error::{Error, Result};
use crate::export::{self, ExportBlobs, Exported};
use crate::heads::Heads;
use crate::home::{FileLock, Home};
use crate::import::{self, Imported, NewImport};
use crate::keys::PublicKey;
use crate::lease::Lease;
use crate::merge::MergeBranch;
use crate::observe::{Observed, Observer};
use crate::owner::Owner;
use crate::projection::Snapshots;
use crate::record::Record;
use crate::signer::Signer;
use crate::store::{Leaf, Merge, Stats, Store};
use crate::subscription::{Bell, Follower, Subscription};

pub use self::events::Events;
pub use self::later::Later;
use self::later::Teller;
pub use self::opening::Options;

/// Branches remembered as proved; beyond, they are proved again.
const PROVED_BRANCHES: usize = 65_536;

/// The log of one tenant. Clones share everything; the last one to go signs a head and closes.
///
/// ```
/// use glasshouse_log::{Append, Log, NewBranch};
/// use glasshouse_model::{Draft, Kind, TenantId};
/// # let home = tempfile::tempdir().unwrap();
/// let log = Log::open(home.path(), &TenantId::local())?;
/// let (session, branch) = ("s_1".parse().unwrap(), "b_1".parse().unwrap());
/// # let (session, branch): (glasshouse_model::SessionId, glasshouse_model::BranchId) = (session, branch);
/// log.create_branch(NewBranch {
///     session: session.clone(),
///     branch: branch.clone(),
///     name: "main".to_owned(),
///     parent: None,
/// })?;
/// let event = Draft::new(Kind::SessionCreated, &serde_json::json!({"task": "demo"}));
/// let appended = log.append(Append::new(session, branch.clone(), vec![event]))?;
/// assert_eq!(appended.head.seq, 1);
/// assert_eq!(log.read(&branch, 1, 10)?, appended.events);
/// # Ok::<(), glasshouse_log::Error>(())
/// ```
#[derive(Clone)]
pub struct Log {
    inner: Arc<Inner>,
}

/// A log that others hold open, for as long as they do: who waits for something does not keep it from being
/// closed.
#[derive(Clone)]
pub struct HeldLog(Weak<Inner>);

impl HeldLog {
    /// The log, unless nobody holds it any more.
    #[must_use]
    pub fn get(&self) -> Option<Log> {
        self.0.upgrade().map(|inner| Log { inner })
    }
}

struct Inner {
    tenant: TenantId,
    store: Arc<dyn Store>,
    blobs: Blobs,
    heads: Arc<Heads>,
    public_key: Result<PublicKey>,
    clock: Arc<dyn Clock>,
    owner: Owner,
    /// Why nothing may be written: the log is less than its signed head says.
    refusal: Option<Error>,
    proved: Mutex<HashSet<BranchId>>,
    teller: Teller,
    observed: Observed,
    /// Where its files are; `None` in memory, and where nothing may be written.
    home: Option<Home>,
    signer: Option<Signer>,
    /// Where snapshots of folds are kept; `None` in memory.
    snapshots: Option<Snapshots>,
    /// Keeps others from exchanging the files. The last to go.
    _in_use: Option<FileLock>,
}

/// As [`Log::naming`] says; it ends with its owner.
#[derive(Debug)]
#[must_use = "it counts for as long as it is held"]
pub struct Naming {
    _lock: Option<FileLock>,
}

impl Log {
    /// Has somebody hear of each append and each read of events, through any handle on this log. False when somebody
    /// does already.
    pub fn observe(&self, observer: Arc<dyn Observer>) -> bool {
        self.inner.observed.by(observer)
    }

    /// The same for whoever waits, and does not hold it open.
    #[must_use]
    pub fn held(&self) -> HeldLog {
        HeldLog(Arc::downgrade(&self.inner))
    }

    /// The tenant.
    #[must_use]
    pub fn tenant(&self) -> &TenantId {
        &self.inner.tenant
    }

    /// Creates a branch. One without parent begins its session. `events` are its first own ones, stored
    /// in the same transaction: no branch is seen without them, and no lease is asked for, since
    /// nobody can own what does not exist yet.
    ///
    /// # Errors
    /// `branch_exists`, `branch_not_found`, `fork_out_of_range`, `fork_too_deep`,
    /// `append_invalid`; `log_corrupt` when the shared past does not prove itself; or a storage
    /// error.
    pub fn create_branch_with(&self, new: NewBranch, events: Vec<Draft>) -> Result<Appended> {
        self.inner.may_write()?;
        if let Some((parent, fork_seq)) = &new.parent
            && !self.inner.is_proved(parent)
        {
            self.chain(parent)?.prove(*fork_seq)?;
        }
        let appended = self.inner.store.create_branch(&new, events)?;
        // Its events so far are those that were just proved.
        self.inner.set_proved(new.branch);
        self.tell_stored();
        Ok(appended)
    }

    /// As [`Log::create_branch_with`], without events.
    ///
    /// # Errors
    /// As [`Log::create_branch_with`].
    pub fn create_branch(&self, new: NewBranch) -> Result<()> {
        self.create_branch_with(new, Vec::new()).map(drop)
    }

    /// Stores an append; durable when it returns.
    ///
    /// The first append to a branch proves the branch's events.
    ///
    /// # Errors
    /// `branch_not_found`, `branch_read_only`, `head_conflict`, `cell_conflict`, `lease_lost`,
    /// `session_owned`, `append_invalid`, `body_too_large`; `log_corrupt` when the branch does not
    /// prove itself; `storage_full`, `log_busy` (both can be retried), `log_failed` (nothing is
    /// written until the log is opened again), or another storage error.
    pub fn append(&self, append: Append) -> Result<Appended> {
        self.store_append(append, None)
    }

    /// Merges a branch into another: one event with two parents is stored, and the source takes no
    /// more events.
    ///
    /// # Errors
    /// As [`Log::append`]; `head_conflict` when either head is not the one that was named, with the
    /// actual one; `branch_read_only` when either branch has ended; `append_invalid` when there is
    /// nothing to merge, or the strategy is not possible.
    pub fn merge(&self, merge: MergeBranch) -> Result<Appended> {
        let (source, source_head) = (merge.source.clone(), merge.source_head);
        let source_epoch = merge.source_epoch;
        let stored = self.chain(&merge.source)?;
        let append =
            merge.clone().into_append(self.chain(&merge.target)?.segments(), stored.segments())?;
        self.store_append(append, Some(Merge { source, source_head, source_epoch }))
    }

    fn store_append(&self, append: Append, merge: Option<Merge>) -> Result<Appended> {
        let says = |kind: Kind| append.events.iter().any(|draft| draft.kind == kind);
        if says(Kind::LogErased) || (merge.is_none() && says(Kind::BranchMerged)) {
            return Err(Error::new(codes::APPEND_INVALID, "could not append")
                .why("what ends a branch or erases events is told by whoever does it"));
        }
        let branch = append.branch.clone();
        let store = || {
            self.prove_to_write(&append.branch)?;
            self.inner.store.append(append, merge)
        };
        let counted = |stored: &Appended| {
            let first = stored.events.first().map_or(stored.head.seq, Event::seq);
            (first, stored.events.len() as u64)
        };
        let appended = self.inner.observed.during(("append", &branch), store, counted)?;
        self.tell_stored();
        Ok(appended)
    }

    /// Lets only a branch be written to that proves itself.
    fn prove_to_write(&self, branch: &BranchId) -> Result<()> {
        self.inner.may_write()?;
        if !self.inner.is_proved(branch) {
            self.chain(branch)?.prove(Seq::MAX)?;
            self.inner.set_proved(branch.clone());
        }
        Ok(())
    }

    /// Tells those who wait for events that some were stored.
    fn tell_stored(&self) {
        self.inner.teller.tell();
    }

    /// Erases the bodies of events and blobs for good: an event of kind `log.erased` says which and
    /// why, headers and hashes stay, and so does every proof. Erased events read with the body
    /// `null`. What answers of models had used that event keeps.
    ///
    /// # Errors
    /// As [`Log::append`]; `event_not_found` for an event that its branch does not store itself;
    /// `append_invalid` for an event that records an erasure, or a limit.
    pub fn erase(&self, erase: Erase) -> Result<Appended> {
        erase.check()?;
        let Erase { session, branch, events, blobs, reason, actor, epoch } = erase;
        let (named, ranges) = erase::named(&events);
        let spent = erase::spent_by(self.inner.store.as_ref(), &events)?;
        let body = LogErased { events: named, ranges, blobs: blobs.clone(), spent, reason };
        let draft = Draft::new(Kind::LogErased, &body).by(actor);
        self.prove_to_write(&branch)?;
        let append = Append { epoch, ..Append::new(session, branch, vec![draft]) };
        let named: BTreeSet<_> = events.iter().map(|(branch, _)| branch.clone()).collect();
        // Before the event, so that no crash leaves a copy behind an erasure.
        let _no_copies = self.inner.home.as_ref().map(backup::forbid).transpose()?;
        self.forget_folds(&named)?;
        let appended = self.inner.store.erase(append, events, blobs)?;
        // And after it: somebody may have folded the bodies meanwhile.
        self.forget_folds(&named)?;
        self.inner.delete_erased_blobs()?;
        self.tell_stored();
        Ok(appended)
    }

    /// What the erasure says that stands at a position: who erased a record is [`Record::erased_by`]. `None` where
    /// there is none.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn erasure(&self, position: u64) -> Result<Option<LogErased>> {
        let leaf = self.inner.store.leaves(position, 1)?.pop();
        let Some(leaf) = leaf.filter(|leaf| leaf.position == position) else { return Ok(None) };
        let record = self.records(&leaf.branch, leaf.seq, 1)?.pop();
        Ok(record.as_ref().and_then(erase::said_by))
    }

    /// Removes what folds keep of branches, and of those that share a past with them.
    fn forget_folds(&self, branches: &BTreeSet<BranchId>) -> Result<()> {
        let Some(snapshots) = &self.inner.snapshots else { return Ok(()) };
        let _alone = snapshots.alone()?;
        let mut sessions = BTreeSet::new();
        for branch in branches {
            let Ok(row) = self.branch(branch) else { continue };
            if sessions.insert(row.session.clone()) {
                for row in self.branches(&row.session)? {
                    snapshots.forget(&row.branch)?;
                }
            }
        }
        Ok(())
    }

    /// Ends a branch without merging it.
    ///
    /// # Errors
    /// `branch_not_found` or a storage error.
    pub fn close_branch(&self, branch: &BranchId) -> Result<()> {
        self.inner.may_write()?;
        self.inner.store.close_branch(branch)
    }

    /// Events of a branch, its ancestors' included, from a sequence on: fewer than `limit` only at
    /// the head. Each is proved against the one before it.
    ///
    /// # Errors
    /// `branch_not_found`; `log_corrupt` naming the first bad event among them; or a storage error.
    pub fn read(&self, branch: &BranchId, from: Seq, limit: usize) -> Result<Vec<Event>> {
        let read = || match self.chain(branch)?.read(from, limit)? {
            (events, None) => Ok(events),
            (_, Some(error)) => Err(error),
        };
        self.inner.observed.during(("read", branch), read, |events| (from, events.len() as u64))
    }

    /// The stored bytes of events, proved; otherwise as [`Log::read`].
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn records(&self, branch: &BranchId, from: Seq, limit: usize) -> Result<Vec<Record>> {
        self.chain(branch)?.records(from, limit)
    }

    /// Events as lines of JSON in the shape of [`Event`], each with its sequence and its body as the
    /// bytes that were stored; otherwise as [`Log::read`]. No body is parsed. Fewer than `limit` may come
    /// where more follow: go on behind the last, until none comes.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn lines(&self, branch: &BranchId, from: Seq, limit: usize) -> Result<Vec<(Seq, String)>> {
        let read = || self.chain(branch)?.lines(from, limit);
        self.inner.observed.during(("read", branch), read, |lines| (from, lines.len() as u64))
    }

    /// The events that a branch stores itself, numbered from 1: for those who take a fork for a line
    /// of its own. Events of a session's first branch have the same number either way.
    ///
    /// # Errors
    /// As [`Log::read`].
    pub fn read_own(
        &self,
        branch: &BranchId,
        from: Seq,
        limit: usize,
    ) -> Result<Vec<(Seq, Event)>> {
        let base = self.branch(branch)?.base().seq;
        let events = self.read(branch, base.saturating_add(from.max(1)), limit)?;
        Ok(events.into_iter().map(|event| (event.seq() - base, event)).collect())
    }

    /// Follows a branch from a sequence on: first what is stored, then what comes. A clone of the
    /// log stays open while the subscription lives.
    ///
    /// # Errors
    /// `branch_not_found` or a storage error.
    pub fn subscribe(&self, branch: &BranchId, from: Seq) -> Result<Subscription> {
        self.branch(branch)?;
        Ok(Subscription::new(self.clone(), branch.clone(), from.max(1)))
    }

    /// Hears of every event that is stored from now on, by whichever process: for one who wakes many
    /// that wait, each for a branch of its own.
    ///
    /// # Errors
    /// A storage error.
    pub fn follow(&self) -> Result<Follower> {
        Ok(Follower::new(self.clone(), self.inner.store.tree()?.size))
    }

    pub(crate) fn leaves(&self, from_position: u64, limit: usize) -> Result<Vec<Leaf>> {
        self.inner.store.leaves(from_position, limit)
    }

    /// Why nothing may be written, if that is so.
    pub(crate) fn may_write(&self) -> Result<()> {
        self.inner.may_write()
    }

    /// Where its files are; `None` in memory, and where nothing may be written.
    pub(crate) fn home(&self) -> Option<&Home> {
        self.inner.home.as_ref()
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.inner.clock.as_ref()
    }

    /// Changes a cell of the log's own spaces.
    pub(crate) fn write_own_cell(&self, write: CellWrite) -> Result<()> {
        self.inner.store.write_cells(vec![write])
    }

    /// The newest events of all branches, at most so many.
    pub(crate) fn newest_leaves(&self, most: u64) -> Result<Vec<Leaf>> {
        let store = self.inner.store.as_ref();
        let from = store.tree()?.size.saturating_sub(most);
        store.leaves(from, usize::try_from(most).unwrap_or(usize::MAX))
    }

    /// Bytes that events and blobs take on the disk.
    ///
    /// # Errors
    /// A storage error.
    pub fn disk_bytes(&self) -> Result<u64> {
        Ok(self.stored_bytes()?.saturating_add(self.blob_bytes()?))
    }

    /// Bytes that events take in the store.
    pub(crate) fn stored_bytes(&self) -> Result<u64> {
        self.inner.store.bytes()
    }

    /// Bytes that blobs take on the disk.
    pub(crate) fn blob_bytes(&self) -> Result<u64> {
        self.inner.blobs.bytes()
    }

    pub(crate) fn snapshots(&self) -> Option<&Snapshots> {
        self.inner.snapshots.as_ref()
    }

    pub(crate) fn bell(&self) -> &Bell {
        self.inner.teller.bell()
    }

    /// All events of a branch, read page by page: what folds run over. A bad event ends it with an
    /// error after the events before it.
    #[must_use]
    pub fn events(&self, branch: &BranchId) -> Events {
        self.events_from(branch, 1)
    }

    /// As [`Log::events`], from a sequence on.
    #[must_use]
    pub fn events_from(&self, branch: &BranchId, from: Seq) -> Events {
        Events::new(self.clone(), branch.clone(), from)
    }

    /// The newest event of a branch.
    ///
    /// # Errors
    /// `branch_not_found` or a storage error.
    pub fn head(&self, branch: &BranchId) -> Result<Head> {
        self.inner.store.branch(branch).map(|row| row.head)
    }

    /// One branch.
    ///
    /// # Errors
    /// `branch_not_found` or a storage error.
    pub fn branch(&self, branch: &BranchId) -> Result<BranchRow> {
        self.inner.store.branch(branch)
    }

    /// Sequence of the last event that two branches share; 0 when there is none.
    ///
    /// # Errors
    /// `branch_not_found` or a storage error.
    pub fn last_shared(&self, one: &BranchId, other: &BranchId) -> Result<Seq> {
        Ok(last_shared(self.chain(one)?.segments(), self.chain(other)?.segments()))
    }

    /// The branches of a session in the order of their creation.
    ///
    /// # Errors
    /// A storage error.
    pub fn branches(&self, session: &SessionId) -> Result<Vec<BranchRow>> {
        self.inner.store.branches(Some(session))
    }

    /// Every session, the newest first.
    ///
    /// # Errors
    /// A storage error.
    pub fn sessions(&self) -> Result<Vec<SessionRow>> {
        self.inner.store.sessions()
    }

    /// A cell; `None` when it does not exist.
    ///
    /// # Errors
    /// A storage error.
    pub fn cell(&self, space: &str, key: &str) -> Result<Option<Cell>> {
        self.inner.store.cell(space, key)
    }

    /// The cells of a space by key, those after `after`, at most `limit`.
    ///
    /// # Errors
    /// A storage error.
    pub fn cells(&self, space: &str, after: &str, limit: usize) -> Result<Vec<(String, Cell)>> {
        self.inner.store.cells(space, after, limit)
    }

    /// Stores bytes by their digest; durable when it returns.
    ///
    /// # Errors
    /// `blob_too_large`, `storage_full`, or another storage error.
    pub fn put_blob(&self, bytes: &[u8]) -> Result<Digest> {
        self.inner.blobs.put(bytes)
    }

    /// Reads bytes by their digest.
    ///
    /// # Errors
    /// `blob_not_found`, `blob_corrupt`, or a storage error.
    pub fn blob(&self, digest: &Digest) -> Result<Vec<u8>> {
        self.inner.blobs.get(digest)
    }

    /// Whether a blob is there, whole or not.
    pub(crate) fn has_blob(&self, digest: &Digest) -> bool {
        self.inner.blobs.contains(digest)
    }

    /// Writes a session as lines of JSON that prove themselves: see [`check_export`]. `blobs` says which
    /// blobs go with it; those that are not there are passed over.
    ///
    /// [`check_export`]: crate::check_export
    ///
    /// # Errors
    /// `branch_not_found` when there is no such session, `log_corrupt`, or a storage error, also of
    /// `out`.
    pub fn export_session(
        &self,
        session: &SessionId,
        blobs: ExportBlobs,
        out: &mut dyn Write,
    ) -> Result<Exported> {
        export::write(self, session, blobs, out)
    }

    /// Takes in a session that another log exported: proved as [`check_export`] does before anything is
    /// stored, then stored with its hashes. It takes no events here, but it can be read and forked. A
    /// session of which everything is here already is left as it is.
    ///
    /// [`check_export`]: crate::check_export
    ///
    /// # Errors
    /// `export_invalid`; `session_exists` when other events are there under its id, `branch_exists`;
    /// `blob_not_found` for content that is neither in the file nor here; `tenant_mismatch`;
    /// `import_too_large`; or a storage error.
    pub fn import_session(&self, file: &mut std::fs::File, new: NewImport) -> Result<Imported> {
        self.inner.may_write()?;
        let _naming = self.naming()?;
        let imported = import::run(self, self.inner.store.as_ref(), file, new)?;
        self.tell_stored();
        Ok(imported)
    }

    /// Says that blobs are being stored which an event is about to name: while it is held, no blob goes because
    /// nobody names it. Who holds a lease says so by that.
    ///
    /// # Errors
    /// `log_busy` while a deletion looks up for long what nobody names; a storage error.
    pub fn naming(&self) -> Result<Naming> {
        let lock = self.inner.home.as_ref().map(Home::lock_naming).transpose()?;
        Ok(Naming { _lock: lock })
    }

    /// Copies the database as it is now to `backups/<number of events>.db` and keeps the newest
    /// [`KEPT_BACKUPS`](crate::KEPT_BACKUPS). Blobs, heads and keys are files that are only ever added: they need no
    /// copy to be restored beside it. An erasure removes all copies, since they hold what
    /// was erased.
    ///
    /// # Errors
    /// Why nothing may be written, `storage_full`, or another storage error.
    pub fn back_up(&self) -> Result<PathBuf> {
        self.inner.may_write()?;
        let Some(home) = &self.inner.home else {
            return Err(
                Error::new(codes::STORAGE_FAILED, "could not back up").why("the log is in memory")
            );
        };
        backup::make(self.inner.store.as_ref(), home)
    }

    /// As [`Log::back_up`], unless the newest backup is younger than an hour, holds all there is, or the
    /// log is larger than what is copied without being asked (256 MiB): what a session does at its end.
    ///
    /// # Errors
    /// As [`Log::back_up`].
    pub fn back_up_if_due(&self) -> Result<Option<PathBuf>> {
        self.inner.may_write()?;
        let Some(home) = &self.inner.home else { return Ok(None) };
        let store = self.inner.store.as_ref();
        if backup::is_due(store, home)? { backup::make(store, home).map(Some) } else { Ok(None) }
    }

    /// Takes the right to write to a branch.
    ///
    /// # Errors
    /// `session_owned` with the owner's `generation` while another holds it and is not gone; `log_busy` as
    /// [`Log::naming`]; or a storage error.
    pub fn acquire_lease(&self, branch: &BranchId) -> Result<Lease> {
        self.inner.may_write()?;
        // A deletion that found nobody at work may still be under way.
        let _naming = self.naming()?;
        let Inner { store, clock, owner, .. } = &*self.inner;
        Lease::acquire(Arc::clone(store), Arc::clone(clock), owner.clone(), branch)
    }

    /// Whether a process, this one included, works on a branch now.
    ///
    /// # Errors
    /// A storage error.
    pub fn is_owned(&self, branch: &BranchId) -> Result<bool> {
        let Inner { store, clock, owner, .. } = &*self.inner;
        Lease::is_held(&**store, &**clock, owner, branch)
    }

    /// Work done since the log was opened.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.inner.store.stats();
        stats.sync_ns += self.inner.blobs.sync_ns();
        stats
    }

    pub(crate) fn chain(&self, branch: &BranchId) -> Result<Chain<'_>> {
        Chain::of(self.inner.store.as_ref(), branch)
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Log({})", self.inner.tenant)
    }
}

impl Inner {
    /// Deletes the blobs that an erasure has named, also one that was cut short.
    fn delete_erased_blobs(&self) -> Result<()> {
        loop {
            let cells = self.store.cells(erase::SPACE, "", MAX_ERASED)?;
            if cells.is_empty() {
                return Ok(());
            }
            let mut done = Vec::with_capacity(cells.len());
            for (key, cell) in cells {
                if let Ok(digest) = key.parse() {
                    self.blobs.delete(&digest)?;
                }
                let expected_version = Some(cell.version);
                let space = erase::SPACE.to_owned();
                done.push(CellWrite { space, key, expected_version, bytes: None });
            }
            match self.store.write_cells(done) {
                // Another process has done the same, or has named one of them again.
                Err(error) if error.is(codes::CELL_CONFLICT) => {}
                other => other?,
            }
        }
    }

    fn may_write(&self) -> Result<()> {
        self.refusal.clone().map_or(Ok(()), Err)
    }

    fn is_proved(&self, branch: &BranchId) -> bool {
        self.proved.lock().unwrap_or_else(PoisonError::into_inner).contains(branch)
    }

    fn set_proved(&self, branch: BranchId) {
        let mut proved = self.proved.lock().unwrap_or_else(PoisonError::into_inner);
        if proved.len() >= PROVED_BRANCHES {
            proved.clear();
        }
        proved.insert(branch);
    }
}
