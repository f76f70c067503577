//! The one thread that writes: takes what has arrived, stores it in one transaction, syncs once,
//! and answers everyone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use glasshouse_model::TenantId;
use rusqlite::Connection;

use super::connection::{checkpoint, explain};
use super::file::Identity;
use super::group::{Group, Known, Salts};
use super::queries::cached;
use super::queue::{Queue, Taken};
use crate::clock::Clock;
use crate::codes;
use crate::error::{Error, Result};
use crate::home::nanoseconds_since;
use crate::store::Stats;

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

/// Handle of the writing thread. Dropping it finishes what has arrived and closes the log.
pub(crate) struct Writer {
    queue: Arc<Queue<Job>>,
    thread: Option<JoinHandle<()>>,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    commits: AtomicU64,
    events: AtomicU64,
    sync_ns: AtomicU64,
    /// Operations that may wait for others and have not been answered.
    patient: AtomicU64,
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
        let queue = Arc::new(Queue::new());
        let counters = Arc::new(Counters::default());
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
            counters: Arc::clone(&counters),
        };
        match state.settle() {
            Err(error) if !error.is(codes::STORAGE_FULL) => return Err(error),
            _ => {}
        }
        let thread = std::thread::Builder::new()
            .name("log-writer".to_owned())
            .spawn({
                let queue = Arc::clone(&queue);
                move || state.run(&queue)
            })
            .map_err(|cause| {
                Error::new(codes::STORAGE_FAILED, "could not open the log").why(cause)
            })?;
        Ok(Self { queue, thread: Some(thread), counters })
    }

    /// Runs an operation in the next group and returns when its group is durable.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Group<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = sync_channel(1);
        // A caller that has gone away no longer needs the answer.
        let job = job(operation, move |outcome| drop(answer.send(outcome)));
        if !self.queue.push(job, None) {
            return Err(stopped());
        }
        answered.recv().map_err(|_| stopped())?
    }

    /// Runs an operation in a group that may wait `delay` for others. `stored` hears of it once the
    /// group is durable, on the thread that stores.
    pub(crate) fn submit_later<T: Send + 'static>(
        &self,
        delay: Duration,
        operation: impl FnOnce(&mut Group<'_>) -> Result<T> + Send + 'static,
        stored: impl FnOnce(Result<T>) + Send + 'static,
    ) -> Result<()> {
        let counters = Arc::clone(&self.counters);
        counters.patient.fetch_add(1, Ordering::SeqCst);
        let job = job(operation, move |outcome| {
            stored(outcome);
            counters.patient.fetch_sub(1, Ordering::SeqCst);
        });
        if self.queue.push(job, Some(delay)) { Ok(()) } else { Err(stopped()) }
    }

    /// Stores what waits for others.
    pub(crate) fn flush(&self) -> Result<()> {
        if self.counters.patient.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        self.submit(|_| Ok(()))
    }

    /// What was done since the log was opened.
    pub(crate) fn stats(&self) -> Stats {
        let Counters { commits, events, sync_ns, .. } = &*self.counters;
        Stats {
            commits: commits.load(Ordering::Relaxed),
            events: events.load(Ordering::Relaxed),
            sync_ns: sync_ns.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already answered every waiting caller with an error.
            let _ = thread.join();
        }
    }
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

/// Drops what waits when the thread ends.
struct Leaving<'q>(&'q Queue<Job>);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
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
    counters: Arc<Counters>,
}

impl State {
    fn run(mut self, queue: &Queue<Job>) {
        // Also when an operation panics: whoever waits then learns that nobody stores any more.
        let _leaving = Leaving(queue);
        loop {
            match queue.take(CHECKPOINT_EVERY) {
                Taken::Jobs(jobs) => self.store(jobs),
                Taken::Nothing => {
                    self.checkpoint_when_idle();
                    continue;
                }
                Taken::Closed => break,
            }
            self.checkpoint_when_due();
        }
        // Leaves one file where nobody else reads; what fails here, the next opening does.
        let _ = self.connection.busy_timeout(Duration::ZERO);
        let _ = self.checkpoint("PASSIVE").and_then(|()| self.checkpoint("TRUNCATE"));
    }

    /// Runs a group and answers all of it.
    fn store(&mut self, jobs: Vec<Job>) {
        let mut jobs = jobs.into_iter();
        let mut waiting = Vec::with_capacity(jobs.len());
        let committed = self.transact(&mut jobs, &mut waiting);
        for waiting in waiting {
            waiting(committed.clone());
        }
        if let Err(error) = committed {
            for job in jobs {
                job(Err(error.clone()))(Err(error.clone()));
            }
        }
    }

    fn transact(
        &mut self,
        jobs: &mut impl Iterator<Item = Job>,
        waiting: &mut Vec<Waiting>,
    ) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.settle()?;
        let outcome = self.run_statement("BEGIN IMMEDIATE").and_then(|()| {
            let (events, known) = self.fill(jobs, waiting)?;
            let started = Instant::now();
            self.run_statement("COMMIT")?;
            self.counters.sync_ns.fetch_add(nanoseconds_since(started), Ordering::Relaxed);
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
                self.counters.commits.fetch_add(1, Ordering::Relaxed);
                self.commits += 1;
                self.counters.events.fetch_add(events, Ordering::Relaxed);
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

    fn checkpoint_when_due(&mut self) {
        if self.has_erased {
            // What was erased is still in the write-ahead log. A reader that holds this up, or a
            // full disk, only makes it later: closing does it too.
            self.has_erased = self.checkpoint("TRUNCATE").is_err();
            return;
        }
        let pages = self.wal_pages.load(Ordering::Relaxed);
        let is_due =
            self.commits >= CHECKPOINT_COMMITS || self.checkpointed.elapsed() >= CHECKPOINT_EVERY;
        if pages < CHECKPOINT_PAGES && !is_due {
            self.checkpoint_at = CHECKPOINT_PAGES;
        } else if pages >= self.checkpoint_at || is_due {
            (self.commits, self.checkpointed) = (0, Instant::now());
            // While a reader holds it up, the next try is as far away as this one was.
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

fn stopped() -> Error {
    Error::new(codes::LOG_FAILED, "the log has stopped writing").why("its writing thread has ended")
}
