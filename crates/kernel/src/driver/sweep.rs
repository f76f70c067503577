//! Removing what ended sessions left on disk: workspaces, caches and frozen bases.
//!
//! A session removes its own when it ends at rest. What a killed one left is found here. Only what
//! nobody needs goes: a branch whose session is at rest, or that no session knows, and that no process
//! holds; bases that no workspace is above. Unfinished work stays, however old it is.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, SystemTime};

use glasshouse_log::{Append, HeldLog, Log};
use glasshouse_model::BranchId;
use glasshouse_sandbox::SandboxHost;
use glasshouse_sandbox::workspace::{Hold, Keep, sweep_bases};

use super::{Kernel, boxes, recorder};
use crate::{Error, Result, codes};

/// Time between two sweeps that nobody asked for.
const SWEEP_EVERY: Duration = Duration::from_secs(3600);
/// Most branches whose log is read in one such sweep; the next one goes on with others.
const MAX_BRANCHES: usize = 64;
/// What the name of a branch's directory starts with.
const BRANCH: &str = "b_";
/// File whose time says when the last sweep was.
const STAMP: &str = "swept";

impl Kernel {
    /// Removes what ended sessions left and nobody uses; with `dry_run` only names it.
    ///
    /// # Errors
    /// When a directory cannot be read or removed, or the log cannot be read.
    pub fn sweep(&self, dry_run: bool) -> Result<Vec<PathBuf>> {
        sweep(&self.log, &self.home, usize::MAX, dry_run)
    }

    /// Sweeps unless that was done lately, and from then on every hour, on a thread that ends with this
    /// value. The end of the process may cut it off at any place. Idempotent.
    pub fn keep_swept(&self) {
        let start = || begin_sweeping(self.log.held(), self.home.clone(), self.sweeping.every);
        self.sweeping.thread.get_or_init(start);
    }

    /// With another time between two sweeps that nobody asked for.
    #[must_use]
    pub fn with_sweeps_every(mut self, every: Duration) -> Self {
        self.sweeping.every = every;
        self
    }
}

/// The sweeps that nobody asks for.
pub(super) struct Sweeping {
    every: Duration,
    /// Nothing is sent: the thread ends when this is gone.
    thread: OnceLock<Sender<()>>,
}

impl Default for Sweeping {
    fn default() -> Self {
        Self { every: SWEEP_EVERY, thread: OnceLock::new() }
    }
}

fn begin_sweeping(log: HeldLog, home: PathBuf, every: Duration) -> Sender<()> {
    let (kept, ended) = channel();
    std::thread::spawn(move || {
        let stamp = home.join("run").join(STAMP);
        loop {
            let swept = stamp.metadata().and_then(|meta| meta.modified()).ok();
            // One that lies in the future says nothing.
            let age = swept.and_then(|time| time.elapsed().ok()).unwrap_or(every);
            let mut rest = every.saturating_sub(age);
            if rest.is_zero() {
                let Some(log) = log.get() else { return };
                // First, so that of two processes that start at once only one sweeps.
                if std::fs::write(&stamp, b"").is_ok() {
                    sweep_all(&log, &home);
                }
                rest = every;
            }
            if ended.recv_timeout(rest) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    });
    kept
}

/// What cannot be removed stays, and `sandbox gc` says why.
fn sweep_all(log: &Log, home: &Path) {
    let _ = SandboxHost::gc(home, false);
    let _ = SandboxHost::gc_groups(false);
    let _ = sweep(log, home, MAX_BRANCHES, false);
}

fn sweep(log: &Log, home: &Path, max_branches: usize, dry_run: bool) -> Result<Vec<PathBuf>> {
    let run = home.join("run");
    let mut branches = branches(&run)?;
    branches.sort();
    let mut removed = Vec::new();
    for (_, dir, branch) in branches.into_iter().take(max_branches) {
        let Some(hold) = Hold::alone(&dir)? else { continue };
        if is_needed(log, &branch) {
            // The next sweep begins with those not looked at.
            let looked = std::fs::File::open(&dir).and_then(|f| f.set_modified(SystemTime::now()));
            drop((hold, looked));
            continue;
        }
        if !dry_run {
            // A log that does not take it now is told nothing: what is gone is gone.
            let _ = tell_lost(log, &branch);
            glasshouse_sandbox::remove_tree(&dir).map_err(|e| unusable(&dir, &e))?;
        }
        removed.push(dir);
    }
    removed.extend(sweep_bases(&home.join("cache/bases"), &run, Keep::default(), dry_run)?);
    Ok(removed)
}

/// Tells the end of a sandbox that went with a process that was killed.
fn tell_lost(log: &Log, branch: &BranchId) -> Result<()> {
    let mut state = recorder::fold(log, branch)?;
    let Some(lost) = boxes::lost(&state) else { return Ok(()) };
    let session = log.branch(branch)?.session;
    let lease = log.acquire_lease(branch)?;
    let events = recorder::expand(&mut state, (log.tenant(), &session, branch), vec![lost])?;
    let append = Append::new(session, branch.clone(), events);
    log.append(Append { epoch: Some(lease.epoch()), ..append })?;
    log.sign_head()?;
    Ok(())
}

/// Whether unfinished work is in a branch's directory, or may be.
fn is_needed(log: &Log, branch: &BranchId) -> bool {
    match recorder::fold(log, branch) {
        // Without a session it was one command; it is over when nobody holds its directory.
        Ok(state) => state.created.is_some() && (state.turn.is_some() || !state.base_is_stale()),
        Err(error) => error.code() != glasshouse_log::codes::BRANCH_NOT_FOUND.name,
    }
}

/// The directories of branches, with the time of their last change.
fn branches(run: &Path) -> Result<Vec<(SystemTime, PathBuf, BranchId)>> {
    let entries = match std::fs::read_dir(run) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|e| unusable(run, &e))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| unusable(run, &e))?;
        let name = entry.file_name();
        let branch = name.to_str().filter(|name| name.starts_with(BRANCH));
        let Some(branch) = branch.and_then(|name| name.parse().ok()) else { continue };
        if let Ok(meta) = entry.metadata()
            && meta.is_dir()
        {
            let changed = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            found.push((changed, entry.path(), branch));
        }
    }
    Ok(found)
}

fn unusable(path: &Path, error: &std::io::Error) -> Error {
    Error::new(codes::TURN_FAILED, format!("cannot sweep `{}`", path.display())).why(error)
}
