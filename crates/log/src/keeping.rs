//! How long events are kept in the log, and what happens to them then: old sessions move to archives
//! that prove themselves, and the oldest archives go when there is no room.
//!
//! Every step is durable before the next, and each can be done again: archive written and proved,
//! archive known, bodies erased, erasure known. So a crash in between loses nothing, and the next
//! rotation goes on where it was.

mod archive;
mod usage;

use std::path::PathBuf;
use std::time::Duration;

use glasshouse_model::body::LogArchiveDeleted;
use glasshouse_model::{Actor, BranchId, Draft, Kind, Seq, SessionId};
use serde::Serialize;

pub use self::archive::Archive;
use self::archive::{Archives, Known, Stage};
pub(crate) use self::archive::{SPACE as ARCHIVES, prove as prove_archives};
pub use self::usage::Usage;
use crate::backup;
use crate::branch::{BranchRow, BranchState, SessionRow};
use crate::chain::PAGE;
use crate::codes;
use crate::erase::{self, Erase, MAX_ERASED};
use crate::error::{Error, Result};
use crate::log::Log;
use crate::own::{is_own, own_session};

/// Days for which the events of an ended session stay in the log.
pub const RETENTION_DAYS: u64 = 90;
/// Bytes that events and archives may take together.
pub const MAX_LOG_BYTES: u64 = 10 << 30;
const DAY_SECONDS: u64 = 24 * 3_600;

/// How long and how much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeping {
    /// Age of its last event at which an ended session is archived.
    pub retention: Duration,
    /// Bytes for what is in the database, for the archives and for the blobs. No rotation removes a blob:
    /// sessions share them, and only all events of all sessions and archives tell whether one is still named.
    pub max_bytes: u64,
}

impl Keeping {
    /// So many days, and the usual size.
    #[must_use]
    pub const fn of_days(days: u64) -> Self {
        let seconds = days.saturating_mul(DAY_SECONDS);
        Self { retention: Duration::from_secs(seconds), max_bytes: MAX_LOG_BYTES }
    }
}

impl Default for Keeping {
    fn default() -> Self {
        Self::of_days(RETENTION_DAYS)
    }
}

/// What a rotation did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rotated {
    /// Sessions that were archived; of a dry run those that would be, without digest and size.
    pub archived: Vec<Archive>,
    /// Old sessions that stay, and why.
    pub left: Vec<Left>,
    /// Archives that were deleted for want of room.
    pub deleted: Vec<String>,
    /// What is in use now.
    pub usage: Usage,
    /// The backup that was made afterwards: erasing removes all that there were.
    pub backup: Option<PathBuf>,
}

/// A session that stays although it is old.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Left {
    /// The session.
    pub session: SessionId,
    /// Why.
    pub why: String,
}

impl Log {
    /// Archives old sessions, tells how full the log is, and deletes the oldest archives when it is
    /// more than full. `is_ended` says of an old session whether anybody still needs it as it is: its
    /// branches are closed for good. With `dry_run` nothing changes.
    ///
    /// # Errors
    /// Why nothing may be written, or a storage error; also of `is_ended`. What is wrong with one session
    /// only is told in [`Rotated::left`].
    pub fn rotate(
        &self,
        keeping: &Keeping,
        dry_run: bool,
        is_ended: &mut dyn FnMut(&SessionRow) -> Result<bool>,
    ) -> Result<Rotated> {
        self.may_write()?;
        let home = self.home().cloned().ok_or_else(|| {
            Error::new(codes::STORAGE_FAILED, "could not archive").why("the log is in memory")
        })?;
        let _one_at_a_time = home.lock_rotation()?;
        let archives = Archives::new(&home);
        let mut rotation = Rotation { log: self, archives, archived: Vec::new(), left: Vec::new() };
        let retention_us = u64::try_from(keeping.retention.as_micros()).unwrap_or(u64::MAX);
        let young_since = self.clock().now_us().saturating_sub(retention_us);
        let mut old = self.sessions()?;
        old.retain(|row| row.last_us < young_since && row.events > 0 && !is_own(&row.session));
        old.reverse();
        for row in old {
            rotation.visit(&row, dry_run, is_ended)?;
        }
        let Rotation { archives, archived, left, .. } = rotation;
        let blob_bytes = self.blob_bytes()?;
        let now = || usage::now(self, &archives, blob_bytes, keeping);
        if dry_run {
            let usage = now()?;
            return Ok(Rotated { archived, left, deleted: Vec::new(), usage, backup: None });
        }
        usage::tell(self, now()?)?;
        let deleted = self.delete_archives(&archives, &now)?;
        let usage = now()?;
        usage::settle(self, usage)?;
        let has_erased = !archived.is_empty();
        let backup =
            if has_erased && backup::is_small(&home) { Some(self.back_up()?) } else { None };
        Ok(Rotated { archived, left, deleted, usage, backup })
    }

    /// The archive of a session; `None` for one that is in the log.
    ///
    /// # Errors
    /// A storage error.
    pub fn archive_of(&self, session: &SessionId) -> Result<Option<Archive>> {
        let known = archive::known(self, session)?;
        Ok(known.filter(|known| known.stage != Stage::Written).map(|known| known.archive))
    }

    /// Deletes the oldest archives until there is room again; none where that cannot make room, because
    /// the rest alone takes more than there is.
    fn delete_archives(
        &self,
        archives: &Archives,
        now: &dyn Fn() -> Result<Usage>,
    ) -> Result<Vec<String>> {
        let mut deleted = Vec::new();
        let mut kept = archive::all(self)?;
        if now()?.without(archives.bytes(&kept)).is_over() {
            return Ok(deleted);
        }
        kept.retain(|known| known.stage == Stage::Erased);
        kept.sort_by(|one, other| one.archive.file.cmp(&other.archive.file));
        for mut known in kept {
            if !now()?.is_over() {
                break;
            }
            let Archive { file, bytes, digest, .. } = &known.archive;
            let body =
                LogArchiveDeleted { archive: file.clone(), bytes: *bytes, digest: Some(*digest) };
            let draft = Draft::new(Kind::LogArchiveDeleted, &body);
            self.note(draft, Some(format!("archive deleted {file}")))?;
            archives.delete(file)?;
            deleted.push(file.clone());
            known.stage = Stage::Deleted;
            archive::remember(self, &known)?;
        }
        Ok(deleted)
    }
}

struct Rotation<'l> {
    log: &'l Log,
    archives: Archives,
    archived: Vec<Archive>,
    left: Vec<Left>,
}

impl Rotation<'_> {
    /// Archives an old session unless something keeps it.
    fn visit(
        &mut self,
        row: &SessionRow,
        dry_run: bool,
        is_ended: &mut dyn FnMut(&SessionRow) -> Result<bool>,
    ) -> Result<()> {
        let known = archive::known(self.log, &row.session)?;
        if known.as_ref().is_some_and(|known| known.stage != Stage::Written) {
            return Ok(());
        }
        let outcome = self.may_go(row, known.as_ref(), is_ended).and_then(|why| match why {
            Some(why) => Ok(Err(why)),
            None if dry_run => Ok(Ok(Archive::planned(row))),
            None => self.archive(row, known),
        });
        match outcome {
            Ok(Ok(archive)) => self.archived.push(archive),
            Ok(Err(why)) => self.leave(row, why),
            // One session that cannot be read keeps no other in the log.
            Err(error) if error.is(codes::LOG_CORRUPT) || error.is(codes::EXPORT_INVALID) => {
                self.leave(row, error.to_string());
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn leave(&mut self, row: &SessionRow, why: String) {
        self.left.push(Left { session: row.session.clone(), why });
    }

    /// Why a session stays, if it does.
    fn may_go(
        &self,
        row: &SessionRow,
        known: Option<&Known>,
        is_ended: &mut dyn FnMut(&SessionRow) -> Result<bool>,
    ) -> Result<Option<String>> {
        for branch in self.log.branches(&row.session)? {
            if branch.state == BranchState::Open && self.log.is_owned(&branch.branch)? {
                return Ok(Some(format!("a process works on {}", branch.branch)));
            }
        }
        // One that was being archived has ended, and some of its bodies may be gone.
        if known.is_none() && !is_ended(row)? {
            return Ok(Some("it has not ended, or is kept for what it decided".to_owned()));
        }
        Ok(None)
    }

    /// Writes the archive, proves it, and erases the bodies that it holds; or why not.
    fn archive(
        &self,
        row: &SessionRow,
        known: Option<Known>,
    ) -> Result<std::result::Result<Archive, String>> {
        if !self.close(row)? {
            return Ok(Err("somebody went on with it".to_owned()));
        }
        let is_whole = |known: &Known| self.archives.check(&known.archive).is_ok();
        let mut known = match known {
            Some(known) if is_whole(&known) => known,
            Some(_) if self.has_erased(row)? => {
                return Ok(Err("its archive is damaged, and holds what was erased".to_owned()));
            }
            _ => {
                let archive = self.archives.write(self.log, row)?;
                Known { archive, stage: Stage::Written }
            }
        };
        archive::remember(self.log, &known)?;
        if !self.holds_all(&known.archive)? {
            // A fork that came before the archive was known is not in it.
            archive::forget(self.log, &row.session)?;
            self.archives.delete(&known.archive.file)?;
            return Ok(Err("somebody went on with it".to_owned()));
        }
        self.erase(row, &known.archive.file)?;
        known.stage = Stage::Erased;
        archive::remember(self.log, &known)?;
        Ok(Ok(known.archive))
    }

    /// Ends every branch of a session, so that nothing can be added to it any more. False when
    /// somebody added something meanwhile.
    fn close(&self, row: &SessionRow) -> Result<bool> {
        for branch in self.log.branches(&row.session)? {
            if branch.last_us > row.last_us {
                return Ok(false);
            }
            if branch.state != BranchState::Open {
                continue;
            }
            let lease = match self.log.acquire_lease(&branch.branch) {
                Err(error) if error.is(codes::SESSION_OWNED) => return Ok(false),
                other => other?,
            };
            if self.log.head(&branch.branch)? != branch.head {
                return Ok(false);
            }
            self.log.close_branch(&branch.branch)?;
            drop(lease);
        }
        Ok(true)
    }

    /// Whether an archive holds every event of its session, and no more can come: asked once the archive is
    /// known, since from then on nobody can fork.
    fn holds_all(&self, archive: &Archive) -> Result<bool> {
        let mut events = 0;
        for branch in self.log.branches(&archive.session)? {
            if branch.why_ended().is_none() {
                return Ok(false);
            }
            events += branch.head.seq - branch.base().seq;
        }
        Ok(events == archive.events)
    }

    /// Whether bodies of a session are gone from the log.
    fn has_erased(&self, row: &SessionRow) -> Result<bool> {
        for branch in self.log.branches(&row.session)? {
            for page in self.own_records(&branch) {
                if page?.iter().any(|record| record.erased_by().is_some()) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Erases the bodies of a session, so many at a time that no writer waits long.
    fn erase(&self, row: &SessionRow, file: &str) -> Result<()> {
        let mut batch = Vec::new();
        for branch in self.log.branches(&row.session)? {
            for page in self.own_records(&branch) {
                let whole = page?
                    .into_iter()
                    .filter(|record| record.erased_by().is_none() && !erase::is_kept(record));
                batch.extend(whole.map(|record| (branch.branch.clone(), record.seq)));
                while batch.len() >= MAX_ERASED {
                    let rest = batch.split_off(MAX_ERASED);
                    self.erase_batch(std::mem::replace(&mut batch, rest), file)?;
                }
            }
        }
        self.erase_batch(batch, file)
    }

    fn erase_batch(&self, events: Vec<(BranchId, Seq)>, file: &str) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let erase = Erase {
            session: own_session(),
            branch: self.log.own_branch()?,
            events,
            blobs: Vec::new(),
            reason: format!("archived as {file}"),
            actor: Actor::kernel(),
            epoch: None,
        };
        self.log.erase(erase).map(drop)
    }

    /// The records that a branch stores itself, page by page.
    fn own_records<'a>(
        &'a self,
        row: &'a BranchRow,
    ) -> impl Iterator<Item = Result<Vec<crate::record::Record>>> + 'a {
        let mut next = row.base().seq + 1;
        std::iter::from_fn(move || {
            if next > row.head.seq {
                return None;
            }
            let page = self.log.records(&row.branch, next, PAGE);
            next = match &page {
                Ok(records) if !records.is_empty() => next + records.len() as u64,
                _ => row.head.seq + 1,
            };
            Some(page)
        })
    }
}
