//! Group commit: whoever leads takes what has arrived, stores it in one transaction, syncs once, and
//! answers everyone. Who leads is the [queue](super::queue)'s affair.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use glasshouse_model::TenantId;
use rusqlite::Connection;

use super::connection::{checkpoint, explain};
use super::file::Identity;
use super::group::{Group, Known, Salts};
use super::queries::cached;
use super::queue::{Entry, Queue};
use crate::clock::Clock;
use crate::codes;
use crate::error::{Error, Result};
use crate::home::nanoseconds_since;
use crate::store::Stats;

/// Most operations in one transaction: bounds how long the first of them waits for the others.
const MAX_GROUP: usize = 256;
/// Operations that wait for others and are company enough: the next one stores them.
const MAX_PATIENT: usize = 100;
/// Pages in the write-ahead log that cause a checkpoint: 8 MiB, about the size that a reopening
/// reads in some milliseconds.
const CHECKPOINT_PAGES: u32 = 2_000;
/// Commits after which the write-ahead log is copied, however short it is.
const CHECKPOINT_COMMITS: u64 = 1_000;
/// Time after which it is copied, busy or idle, if it holds anything.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(60);

/// An operation on its way: runs in the group or learns why it cannot, then hears of the commit.
type Job = Box<dyn FnOnce(Result<&mut Group<'_>>) -> Waiting + Send>;
/// An operation that ran and waits for its group's commit, or for the reason why there is none.
type Waiting = Box<dyn FnOnce(Result<()>) + Send>;

/// The writing side of a log. Dropping it closes the log.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Queue<Job>,
    /// Locked by who leads, so nobody ever waits here.
    state: Mutex<State>,
    care: Mutex<Care>,
    wanted: Condvar,
    counters: Counters,
    /// Operations that were left for others to store and have not been answered.
    patient: Arc<AtomicU64>,
}

/// Counts an operation that waits for others, until it is answered or nobody will answer it any more.
struct Patient(Arc<AtomicU64>);

impl Patient {
    fn one(all: &Arc<AtomicU64>) -> Self {
        all.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(all))
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What the keeper is waiting for.
#[derive(Default)]
struct Care {
    is_checkpoint_due: bool,
    is_closing: bool,
    /// When what was left is to be stored, if nobody comes before.
    store_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct Counters {
    commits: AtomicU64,
    events: AtomicU64,
    sync_ns: AtomicU64,
}

impl Writer {
    /// Starts the thread on a connection that is open for writing.
    pub(crate) fn start(
        mut connection: Connection,
        tenant: TenantId,
        clock: Arc<dyn Clock>,
        identity: Arc<Identity>,
    ) -> Result<Self> {
        let wal_pages = Arc::new(AtomicU32::new(0));
        let pages = Arc::clone(&wal_pages);
        connection
            .wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, count: i32| {
                pages.store(count.unsigned_abs(), Ordering::Relaxed);
                Ok(())
            }))
            .map_err(|cause| explain(&cause))?;
        let mut state = State {
            connection,
            tenant,
            clock,
            identity,
            salts: Salts::new(),
            known: None,
            failed: None,
            is_settled: false,
            wal_pages,
            has_erased: false,
            checkpoint_at: CHECKPOINT_PAGES,
            commits: 0,
            checkpointed: Instant::now(),
        };
        match state.settle() {
            Err(error) if !error.is(codes::STORAGE_FULL) => return Err(error),
            _ => {}
        }
        let shared = Arc::new(Shared {
            queue: Queue::new(),
            state: Mutex::new(state),
            care: Mutex::default(),
            wanted: Condvar::new(),
            counters: Counters::default(),
            patient: Arc::default(),
        });
        let kept = Arc::clone(&shared);
        let keeper = std::thread::Builder::new()
            .name("log-keeper".to_owned())
            .spawn(move || kept.keep())
            .map_err(|cause| {
                Error::new(codes::STORAGE_FAILED, "could not open the log").why(cause)
            })?;
        Ok(Self { shared, keeper: Some(keeper) })
    }

    /// Runs an operation in the next group and returns when its group is durable.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Group<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let seat = Arc::new(Mutex::new(None));
        let mine = Arc::clone(&seat);
        let job = job(operation, move |outcome| *lock(&mine) = Some(outcome));
        if let Some(lead) = self.shared.queue.enter(job) {
            self.shared.store(lead.take(MAX_GROUP));
        }
        let answer = lock(&seat).take();
        answer.unwrap_or_else(|| Err(stopped()))
    }

    /// Leaves an operation for others to store; after `delay` it is stored without them. `stored` hears
    /// of it once it is durable, on the thread that stores.
    pub(crate) fn submit_later<T: Send + 'static>(
        &self,
        delay: Duration,
        operation: impl FnOnce(&mut Group<'_>) -> Result<T> + Send + 'static,
        stored: impl FnOnce(Result<T>) + Send + 'static,
    ) -> Result<()> {
        let waits = Patient::one(&self.shared.patient);
        let job = job(operation, move |outcome| {
            stored(outcome);
            drop(waits);
        });
        let waiting = self.shared.queue.leave(job).ok_or_else(stopped)?;
        if waiting >= MAX_PATIENT {
            // What becomes of each, `stored` hears.
            let _ = self.flush();
        } else {
            self.shared.store_by(Instant::now() + delay);
        }
        Ok(())
    }

    /// Stores what was left for others.
    pub(crate) fn flush(&self) -> Result<()> {
        if self.shared.patient.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        // Whoever stores this stores them, or has done so before.
        self.submit(|_| Ok(()))
    }

    /// What was done since the log was opened.
    pub(crate) fn stats(&self) -> Stats {
        let Counters { commits, events, sync_ns } = &self.shared.counters;
        Stats {
            commits: commits.load(Ordering::Relaxed),
            events: events.load(Ordering::Relaxed),
            sync_ns: sync_ns.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // What fails here was acknowledged to nobody.
        let _ = self.flush();
        lock(&self.shared.care).is_closing = true;
        self.shared.wanted.notify_all();
        if let Some(keeper) = self.keeper.take() {
            // It ends at once or after the checkpoint that it is making; a panic of it has no one
            // to tell.
            let _ = keeper.join();
        }
        lock(&self.shared.state).close();
    }
}

impl Shared {
    /// Stores a group and answers all of it. Only who leads calls this.
    fn store(&self, entries: Vec<Entry<Job>>) {
        let Ok(mut state) = self.state.lock() else {
            // A leader panicked, so what the group left is unknown; the callers get no answer.
            return;
        };
        state.store(entries, &self.counters);
        if state.is_checkpoint_due() {
            lock(&self.care).is_checkpoint_due = true;
            self.wanted.notify_all();
        }
    }

    /// Has what was left stored at a moment, if nobody comes before.
    fn store_by(&self, moment: Instant) {
        let mut care = lock(&self.care);
        if care.store_at.is_none_or(|earlier| moment < earlier) {
            care.store_at = Some(moment);
            self.wanted.notify_all();
        }
    }

    /// Copies the write-ahead log into the database when it has grown, and when nothing has come for
    /// a while, so that no caller waits for it; and stores what was left when its time has come.
    fn keep(&self) {
        loop {
            let Some(task) = self.next_task() else { return };
            let Some(lead) = self.queue.lead() else { return };
            let entries = lead.take(MAX_GROUP);
            if entries.iter().any(Entry::has_job) {
                self.store(entries);
            }
            let Ok(mut state) = self.state.lock() else { return };
            match task {
                Task::Store => {}
                Task::CheckpointIfDue => state.checkpoint_when_due(),
                Task::CheckpointIfIdle => state.checkpoint_when_idle(),
            }
        }
    }

    /// Waits for something that the keeper has to do; nothing when the log closes.
    fn next_task(&self) -> Option<Task> {
        let idle_at = Instant::now() + CHECKPOINT_EVERY;
        let mut care = lock(&self.care);
        loop {
            if care.is_closing {
                return None;
            }
            if std::mem::take(&mut care.is_checkpoint_due) {
                return Some(Task::CheckpointIfDue);
            }
            let now = Instant::now();
            if care.store_at.is_some_and(|moment| moment <= now) {
                care.store_at = None;
                return Some(Task::Store);
            }
            if idle_at <= now {
                return Some(Task::CheckpointIfIdle);
            }
            let until = care.store_at.map_or(idle_at, |moment| moment.min(idle_at));
            let waited = self.wanted.wait_timeout(care, until.saturating_duration_since(now));
            care = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// What the keeper does next.
enum Task {
    Store,
    CheckpointIfDue,
    CheckpointIfIdle,
}

/// An operation and who hears of it, as a job. Without a commit even a refusal is void: it was decided
/// on a state that never came to be.
fn job<T: Send + 'static>(
    operation: impl FnOnce(&mut Group<'_>) -> Result<T> + Send + 'static,
    stored: impl FnOnce(Result<T>) + Send + 'static,
) -> Job {
    Box::new(move |group| {
        let outcome = group.and_then(|group| group.attempt(operation));
        Box::new(move |committed| stored(committed.and(outcome)))
    })
}

struct State {
    connection: Connection,
    tenant: TenantId,
    clock: Arc<dyn Clock>,
    identity: Arc<Identity>,
    salts: Salts,
    /// What the last commit left; `None` after a group that was taken back.
    known: Option<Known>,
    /// Set by the first failed commit or sync. What the disk holds is then unknown: the system may
    /// have dropped the unsynced pages and would report success the next time.
    failed: Option<Error>,
    /// Whether what earlier processes left in the write-ahead log is known to be durable.
    is_settled: bool,
    wal_pages: Arc<AtomicU32>,
    /// Whether the write-ahead log holds what was erased.
    has_erased: bool,
    /// Pages in the write-ahead log at which the next checkpoint is due.
    checkpoint_at: u32,
    /// Since the last checkpoint: commits, and when it was.
    commits: u64,
    checkpointed: Instant,
}

impl State {
    /// Runs a group and answers all of it.
    fn store(&mut self, mut entries: Vec<Entry<Job>>, counters: &Counters) {
        let mut jobs = entries.iter_mut().filter_map(Entry::take);
        let mut waiting = Vec::with_capacity(jobs.size_hint().1.unwrap_or(0));
        let committed = self.transact(&mut jobs, &mut waiting, counters);
        for waiting in waiting {
            waiting(committed.clone());
        }
        if let Err(error) = committed {
            for job in jobs {
                job(Err(error.clone()))(Err(error.clone()));
            }
        }
        if self.has_erased {
            // What was erased is still in the write-ahead log. A reader that holds this up, or a
            // full disk, only makes it later: closing does it too.
            self.has_erased = self.checkpoint("TRUNCATE").is_err();
        }
    }

    /// Leaves one file where nobody else reads; what fails here, the next opening does.
    fn close(&mut self) {
        let _ = self.connection.busy_timeout(Duration::ZERO);
        let _ = self.checkpoint("PASSIVE").and_then(|()| self.checkpoint("TRUNCATE"));
    }

    fn transact(
        &mut self,
        jobs: &mut impl Iterator<Item = Job>,
        waiting: &mut Vec<Waiting>,
        counters: &Counters,
    ) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.settle()?;
        let outcome = self.run_statement("BEGIN IMMEDIATE").and_then(|()| {
            let (events, known) = self.fill(jobs, waiting)?;
            let started = Instant::now();
            self.run_statement("COMMIT")?;
            counters.sync_ns.fetch_add(nanoseconds_since(started), Ordering::Relaxed);
            self.known = Some(known);
            Ok(events)
        });
        match outcome {
            Ok(events) => {
                // Nothing is acknowledged that went into files which are no longer the log.
                if let Err(error) = self.identity.check() {
                    self.failed = Some(error.clone());
                    return Err(error);
                }
                counters.commits.fetch_add(1, Ordering::Relaxed);
                self.commits += 1;
                counters.events.fetch_add(events, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(self.give_up(error)),
        }
    }

    /// Runs operations until all ran or the storage fails under one.
    fn fill(
        &mut self,
        jobs: &mut impl Iterator<Item = Job>,
        waiting: &mut Vec<Waiting>,
    ) -> Result<(u64, Known)> {
        let now_us = self.clock.now_us();
        let (connection, known) = (&self.connection, self.known.take());
        let mut group = Group::begin(connection, &self.tenant, &mut self.salts, now_us, known)?;
        for job in jobs {
            waiting.push(job(Ok(&mut group)));
            if let Some(error) = group.trouble() {
                return Err(error);
            }
        }
        group.finish()?;
        let (events, erases) = (group.events(), group.erases());
        self.has_erased |= erases;
        Ok((events, group.into_known()))
    }

    fn run_statement(&self, statement: &str) -> Result<()> {
        let run = cached(&self.connection, statement).and_then(|mut run| run.execute([]));
        run.map(|_| ()).map_err(|cause| explain(&cause))
    }

    /// Takes the group back. A full disk and a busy log can be cured; anything else ends writing.
    fn give_up(&mut self, error: Error) -> Error {
        let rolled_back =
            self.connection.is_autocommit() || self.connection.execute_batch("ROLLBACK").is_ok();
        let is_curable = error.is(codes::STORAGE_FULL) || error.is(codes::LOG_BUSY);
        if rolled_back && is_curable {
            return error;
        }
        self.fail(&error)
    }

    fn fail(&mut self, cause: &Error) -> Error {
        let error = Error::new(codes::LOG_FAILED, "the log has stopped writing").why(cause);
        self.failed = Some(error.clone());
        error
    }

    /// Whether the write-ahead log has grown enough, or is old enough, to be copied.
    fn is_checkpoint_due(&mut self) -> bool {
        let pages = self.wal_pages.load(Ordering::Relaxed);
        let is_late = self.is_late();
        if pages < CHECKPOINT_PAGES && !is_late {
            self.checkpoint_at = CHECKPOINT_PAGES;
        }
        pages >= self.checkpoint_at || is_late
    }

    fn is_late(&self) -> bool {
        self.commits >= CHECKPOINT_COMMITS || self.checkpointed.elapsed() >= CHECKPOINT_EVERY
    }

    fn checkpoint_when_due(&mut self) {
        if self.is_checkpoint_due() {
            (self.commits, self.checkpointed) = (0, Instant::now());
            // While a reader holds it up, the next try is as far away as this one was.
            let pages = self.wal_pages.load(Ordering::Relaxed);
            self.checkpoint_at = pages.saturating_add(CHECKPOINT_PAGES);
            // On a full disk the log grows on, as far as it can, until a later one succeeds.
            let _ = self.checkpoint("PASSIVE");
        }
    }

    /// Copies what is in the write-ahead log once nothing has come for a while, so that a log which
    /// is left open does not keep a long one.
    fn checkpoint_when_idle(&mut self) {
        if self.wal_pages.swap(0, Ordering::Relaxed) > 0 {
            // As in `checkpoint_when_due`.
            let _ = self.checkpoint("PASSIVE");
        }
    }

    /// Makes durable what an earlier process left. It may have written what it then failed to sync,
    /// which the system shows to every reader but may hold in memory only; events chained to that
    /// would be lost with it. Copying it into the database and syncing that settles it.
    fn settle(&mut self) -> Result<()> {
        if !self.is_settled {
            self.checkpoint("PASSIVE")?;
            self.is_settled = true;
        }
        Ok(())
    }

    /// Copies the write-ahead log into the database. Readers may hold up a part of it, which then a
    /// later one does.
    fn checkpoint(&mut self, mode: &str) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        match checkpoint(&self.connection, mode).map_err(|cause| explain(&cause)) {
            Err(error) if error.is(codes::LOG_BUSY) => Ok(()),
            Err(error) if error.is(codes::STORAGE_FULL) => Err(error),
            Err(error) => Err(self.fail(&error)),
            Ok(()) => Ok(()),
        }
    }
}

/// Locks what is never left half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stopped() -> Error {
    Error::new(codes::LOG_FAILED, "the log has stopped writing")
        .why("a fault in the program ended a group before it was answered")
}
