//! Deleting a session: its bodies go, and the blobs that only it names. Headers and hashes stay, so every
//! proof does.
//!
//! A deleted session is an archived one whose archive is gone: whatever knows the one knows the other.
//! Each step is durable before the next and can be done again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;

use glasshouse_model::body::{LogArchiveDeleted, NamedBlob, sealed_files};
use glasshouse_model::{Actor, BranchId, Digest, Draft, Header, Kind, Seq, SessionId};
use serde::Serialize;

use super::archive::{self, Archive, Archives, Known, Stage};
use super::{MAX_ERASED, Rotation};
use crate::blobs::named_in;
use crate::branch::{BranchState, SessionRow};
use crate::codes;
use crate::erase::{self, Erase};
use crate::error::{Error, Result};
use crate::export::{Item, read as read_export};
use crate::log::Log;
use crate::own::{is_own, own_session};
use crate::record::Record;

/// What a deletion is about.
pub struct Forget<'a> {
    /// The session.
    pub session: SessionId,
    /// Why, for whoever reads the log later. It is never erased.
    pub reason: String,
    /// Who wants it.
    pub actor: Actor,
    /// Whether blobs stay.
    pub keep_blobs: bool,
    /// Kinds of events that others are folds over, and that stay whole.
    pub is_kept: &'a dyn Fn(&Kind) -> bool,
}

/// What a deletion did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Forgotten {
    /// Bodies that were erased.
    pub events: u64,
    /// Events that stay whole, because they are what gave somebody a right, or say what was erased.
    pub kept: u64,
    /// Blobs that were erased.
    pub blobs: u64,
}

impl Log {
    /// Whether a session was deleted, or its archive was.
    ///
    /// # Errors
    /// A storage error.
    pub fn is_forgotten(&self, session: &SessionId) -> Result<bool> {
        Ok(archive::known(self, session)?.is_some_and(|known| known.stage == Stage::Deleted))
    }

    /// Deletes a session for good. Doing it again changes nothing.
    ///
    /// # Errors
    /// `branch_not_found` for a session that is not there; `append_invalid` for the log's own; `session_owned`
    /// while a process works on it, and, unless blobs stay, while one works on any other, because then nobody can
    /// tell which blobs that one is about to name; why nothing may be written; a storage error.
    pub fn forget(&self, forget: &Forget<'_>) -> Result<Forgotten> {
        self.may_write()?;
        let session = &forget.session;
        let refused = |code| Error::new(code, format!("session {session} was not deleted"));
        if is_own(session) {
            return Err(refused(codes::APPEND_INVALID).why("the log's own says what was erased"));
        }
        let home = self.home().cloned();
        let home =
            home.ok_or_else(|| refused(codes::STORAGE_FAILED).why("the log is in memory"))?;
        let _one_at_a_time = home.lock_rotation()?;
        let rows = self.sessions()?;
        let row = rows.iter().find(|row| row.session == *session);
        let row = row
            .ok_or_else(|| Error::new(codes::BRANCH_NOT_FOUND, format!("no session {session}")))?;
        let archives = Archives::new(&home);
        let known = archive::known(self, session)?;
        if known.as_ref().is_some_and(|known| known.stage == Stage::Deleted) {
            return Ok(Forgotten::default());
        }
        let rotation = Rotation { log: self, archives, archived: Vec::new(), left: Vec::new() };
        if !rotation.close(row)? {
            return Err(refused(codes::SESSION_OWNED).why("somebody works on it"));
        }
        // Whoever stores a blob that is here already, and names it next, finds it here.
        let unnamed = (!forget.keep_blobs).then(|| home.lock_unnamed()).transpose()?;
        let blobs = match &unnamed {
            None => BTreeSet::new(),
            Some(None) => return Err(busy("blobs of plans, of an import or of a new session")),
            Some(Some(_alone)) => rotation.only_named_by(row, &rows)?,
        };
        let mut forgotten = Forgotten { blobs: blobs.len() as u64, ..Forgotten::default() };
        // Blobs first: a body that is gone names none, and the next try would not find them.
        let blobs: Vec<_> = blobs.into_iter().collect();
        for part in blobs.chunks(MAX_ERASED) {
            rotation.erase_named(Vec::new(), part.to_vec(), forget)?;
        }
        drop(unnamed);
        rotation.erase_bodies(row, forget, &mut forgotten)?;
        let archive = rotation.drop_archive(row, known)?;
        archive::remember(self, &Known { archive, stage: Stage::Deleted })?;
        Ok(forgotten)
    }
}

impl Rotation<'_> {
    fn erase_named(
        &self,
        events: Vec<(BranchId, Seq)>,
        blobs: Vec<Digest>,
        forget: &Forget<'_>,
    ) -> Result<()> {
        let (session, branch) = (own_session(), self.log.own_branch()?);
        let (reason, actor) = (forget.reason.clone(), forget.actor.clone());
        let erase = Erase { session, branch, events, blobs, reason, actor, epoch: None };
        self.log.erase(erase).map(drop)
    }

    fn erase_bodies(
        &self,
        row: &SessionRow,
        forget: &Forget<'_>,
        forgotten: &mut Forgotten,
    ) -> Result<()> {
        let mut batch = Vec::new();
        for branch in self.log.branches(&row.session)? {
            for page in self.own_records(&branch) {
                for record in page?.iter().filter(|record| record.erased_by().is_none()) {
                    if erase::is_kept(record)
                        || kind_of(record).is_some_and(|kind| (forget.is_kept)(&kind))
                    {
                        forgotten.kept += 1;
                        continue;
                    }
                    batch.push((branch.branch.clone(), record.seq));
                    if batch.len() == MAX_ERASED {
                        forgotten.events += batch.len() as u64;
                        self.erase_named(std::mem::take(&mut batch), Vec::new(), forget)?;
                    }
                }
            }
        }
        forgotten.events += batch.len() as u64;
        if batch.is_empty() { Ok(()) } else { self.erase_named(batch, Vec::new(), forget) }
    }

    /// Deletes the session's archive, if it has one.
    fn drop_archive(&self, row: &SessionRow, known: Option<Known>) -> Result<Archive> {
        let Some(Known { archive, .. }) = known else { return Ok(Archive::planned(row)) };
        let Archive { file, bytes, digest, .. } = &archive;
        let body =
            LogArchiveDeleted { archive: file.clone(), bytes: *bytes, digest: Some(*digest) };
        let draft = Draft::new(Kind::LogArchiveDeleted, &body);
        self.log.note(draft, Some(format!("archive deleted {file}")))?;
        self.archives.delete(file)?;
        Ok(archive)
    }

    /// The blobs that a session names and no other one does.
    fn only_named_by(&self, row: &SessionRow, rows: &[SessionRow]) -> Result<BTreeSet<Digest>> {
        let mut own = BTreeSet::new();
        self.named_by(row, &mut |digest| _ = own.insert(digest))?;
        self.check_alone(rows)?;
        for other in rows.iter().filter(|other| other.session != row.session) {
            if own.is_empty() {
                break;
            }
            self.named_by(other, &mut |digest| _ = own.remove(&digest))?;
        }
        // Nobody began meanwhile.
        self.check_alone(&self.log.sessions()?)?;
        own.retain(|digest| self.log.has_blob(digest));
        Ok(own)
    }

    /// Refuses while a process works on any session.
    fn check_alone(&self, rows: &[SessionRow]) -> Result<()> {
        for row in rows {
            for branch in self.log.branches(&row.session)? {
                if branch.state == BranchState::Open && self.log.is_owned(&branch.branch)? {
                    return Err(busy(&format!("blobs of session {}", row.session)));
                }
            }
        }
        Ok(())
    }

    /// Shows every blob that a session names, in the log or in its archive, and those that these name.
    fn named_by(&self, row: &SessionRow, show: &mut dyn FnMut(Digest)) -> Result<()> {
        // Whether each is a manifest.
        let mut named: BTreeMap<Digest, bool> = BTreeMap::new();
        let mut add = |blob: NamedBlob| *named.entry(blob.digest).or_default() |= blob.is_manifest;
        for branch in self.log.branches(&row.session)? {
            for page in self.own_records(&branch) {
                let page = page?;
                let blobs = page.iter().flat_map(|record| named_in(&record.header, &record.body));
                blobs.for_each(&mut add);
            }
        }
        // Also while a rotation that was cut short left some bodies in the log and some not.
        let archived = archive::known(self.log, &row.session)?;
        if let Some(known) = archived.filter(|known| known.stage != Stage::Deleted) {
            self.archives.blobs_of(&known.archive)?.into_iter().for_each(add);
        }
        for (digest, is_manifest) in named {
            show(digest);
            if !is_manifest {
                continue;
            }
            match self.log.blob(&digest) {
                Ok(bytes) => sealed_files(&bytes).into_iter().for_each(&mut *show),
                Err(error) if error.is(codes::BLOB_NOT_FOUND) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Archives {
    /// The blobs that an archive's events name.
    fn blobs_of(&self, archive: &Archive) -> Result<Vec<NamedBlob>> {
        let path = self.path(archive);
        let file = match File::open(&path) {
            // It was moved or deleted by hand: what it names nobody knows.
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::file("read", &path, &cause)
                    .fix("put the archive back, or delete the session without its blobs"));
            }
            file => file.map_err(|cause| Error::file("read", &path, &cause))?,
        };
        let mut named = Vec::new();
        read_export(BufReader::new(file), &mut |item| {
            if let Item::Event(line) = item
                && let Some(body) = &line.event.body
            {
                named.extend(named_in(line.event.header.as_bytes(), body.as_bytes()));
            }
            Ok(())
        })?;
        Ok(named)
    }
}

/// Why no blob goes for now.
fn busy(what: &str) -> Error {
    Error::new(codes::SESSION_OWNED, "blobs were not deleted")
        .why(format!("{what} are being stored, and an event may be about to name some"))
        .fix("retry when nothing runs, or delete the session without its blobs")
}

fn kind_of(record: &Record) -> Option<Kind> {
    serde_json::from_slice::<Header>(&record.header).ok().map(|header| header.kind)
}
