//! Taking in a session that another log exported.
//!
//! Its events keep their bytes and hashes, so that they prove themselves here as they did there; as
//! leaves they join this log's tree in the order of the file. What they say of cells was true of the other
//! log, so no cell comes with them, and no branch that was imported takes another event.
//!
//! Blobs that events name and the file lacks are missing from then on: the event that tells of the import
//! names a list of them, so that nobody takes them for lost. The same session with its blobs, imported
//! later, brings them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Seek as _};

use glasshouse_model::body::{BlobRef, LogErased, SessionImported, sealed_files};
use glasshouse_model::{Actor, BranchId, Digest, Draft, Kind, Seq, SessionId};
use serde::{Deserialize, Serialize};

use crate::append::{Append, CellWrite};
use crate::blobs::named_in;
use crate::branch::{BranchRow, BranchState, NewBranch};
use crate::codes;
use crate::erase::Erasers;
use crate::error::{Error, Result};
use crate::export::{Exported, ExportedEvent, Item, read};
use crate::log::Log;
use crate::own::{is_reserved_branch, is_reserved_session};
use crate::record::Record;
use crate::rules;
use crate::store::Store;

/// Most bytes of events in one import: they are held in memory until all of them are stored at once.
pub const MAX_IMPORT_BYTES: usize = 256 << 20;
/// What a branch counts for beside its events.
const BRANCH_BYTES: usize = 1024;
/// Cells that hold where a session came from, by its id.
const SPACE: &str = "session.imported";

/// What an import records beside the session itself.
#[derive(Debug, Clone)]
pub struct NewImport {
    /// A new session for the event that tells of it.
    pub told: NewBranch,
    /// Events before that one: what allowed it.
    pub before: Vec<Draft>,
    /// Who imports.
    pub actor: Actor,
}

/// A session that was imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// The session.
    pub session: SessionId,
    /// Its first branch.
    pub branch: BranchId,
    /// Number of branches.
    pub branches: u64,
    /// What the file holds.
    #[serde(flatten)]
    pub exported: Exported,
    /// Whether its events were stored; not when all of them were here already.
    pub is_new: bool,
    /// Blobs that an earlier import lacked and this file brought.
    pub found_blobs: u64,
    /// Blobs that its events name and that are not here.
    pub missing_blobs: Vec<Digest>,
}

/// Where a session came from: content of a cell in [`SPACE`].
#[derive(Serialize, Deserialize)]
struct Origin {
    /// The export's first line.
    line: String,
    branches: u64,
    events: u64,
    /// The blob that lists what did not come with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    missing: Option<Digest>,
}

/// A branch to store with its own events.
pub struct ImportedBranch {
    pub(crate) new: NewBranch,
    pub(crate) state: BranchState,
    pub(crate) records: Vec<ImportedRecord>,
}

/// An event to store.
pub(crate) struct ImportedRecord {
    /// Its position is counted from the first event of the import.
    record: Record,
    /// Position, counted alike, of the event that says that its body was erased.
    erased_by: Option<u64>,
}

impl ImportedRecord {
    /// The record at its position in this log, which holds `base` events.
    pub(crate) fn placed(self, base: u64) -> Record {
        let mut record = self.record;
        record.position += base;
        if let Some(by) = self.erased_by {
            record.salt = (base + by).to_be_bytes().to_vec();
        }
        record
    }
}

/// Reads the file twice: nothing is stored before all of it was proved.
pub(crate) fn run(
    log: &Log,
    store: &dyn Store,
    file: &mut File,
    new: NewImport,
) -> Result<Imported> {
    let mut from_start = || -> Result<BufReader<File>> {
        let again = file.rewind().and_then(|()| file.try_clone());
        again.map(BufReader::new).map_err(|cause| {
            Error::new(codes::STORAGE_FAILED, "could not read the export").why(cause)
        })
    };
    let mut heads = Heads::default();
    let exported = read(from_start()?, &mut |item| heads.visit(log, &item))?;
    let first = heads.branches.first().map(|(new, _)| (new.session.clone(), new.branch.clone()));
    let Some((session, branch)) = first else { return Err(changed()) };
    let branches = heads.branches.len() as u64;
    let missing_blobs = Vec::new();
    let mut imported = Imported {
        session,
        branch,
        branches,
        exported,
        is_new: false,
        found_blobs: 0,
        missing_blobs,
    };
    if heads.are_here(log)? {
        if let Some(archive) = log.archive_of(&imported.session)? {
            let what = format!("could not import {}", imported.session);
            return Err(Error::new(codes::SESSION_ARCHIVED, what)
                .why(format!("it was here before, and went to {}", archive.file)));
        }
        let mut filling = Filling { log, named: &heads.named, missing: BTreeSet::new(), found: 0 };
        let lacked = lacked_by(log, &imported.session)?;
        if !lacked.is_empty() {
            filling.missing.extend(lacked.into_iter().filter(|digest| log.blob(digest).is_err()));
            if read(from_start()?, &mut |item| filling.visit(&item))? != imported.exported {
                return Err(changed());
            }
        }
        imported.found_blobs = filling.found;
        imported.missing_blobs = filling.missing.into_iter().collect();
        return Ok(imported);
    }
    heads.check_places(log)?;
    imported.missing_blobs = heads.missing_blobs(log)?;
    let mut staged = Staged::default();
    if read(from_start()?, &mut |item| staged.visit(log, item))? != imported.exported {
        return Err(changed());
    }
    staged.settle_erasures()?;
    let append = told(log, &imported, staged.line, new)?;
    store.import(staged.branches, &append.0, append.1)?;
    imported.is_new = true;
    Ok(imported)
}

/// Stores blobs that an earlier import lacked: those that it listed, and those that no event names, which
/// they name in turn. What else is not here was erased.
struct Filling<'a> {
    log: &'a Log,
    /// By events.
    named: &'a BTreeSet<Digest>,
    missing: BTreeSet<Digest>,
    found: u64,
}

impl Filling<'_> {
    fn visit(&mut self, item: &Item<'_>) -> Result<()> {
        let Item::Blob(content) = item else { return Ok(()) };
        let digest = Digest::of(content);
        let is_lacking = self.missing.remove(&digest) || !self.named.contains(&digest);
        if is_lacking && self.log.blob(&digest).is_err() {
            self.log.put_blob(content)?;
            self.found += 1;
        }
        Ok(())
    }
}

/// The blobs that did not come with an imported session.
fn lacked_by(log: &Log, session: &SessionId) -> Result<Vec<Digest>> {
    let cell = log.cell(SPACE, session.as_str())?;
    let origin = cell.and_then(|cell| serde_json::from_slice::<Origin>(&cell.bytes).ok());
    let Some(list) = origin.and_then(|origin| origin.missing) else { return Ok(Vec::new()) };
    Ok(listed(&log.blob(&list)?))
}

/// Digests, one a line.
pub(crate) fn listed(list: &[u8]) -> Vec<Digest> {
    let text = String::from_utf8_lossy(list);
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Stores a list of blobs; `None` for an empty one.
fn put_list(log: &Log, blobs: &[Digest]) -> Result<Option<BlobRef>> {
    if blobs.is_empty() {
        return Ok(None);
    }
    let list: String = blobs.iter().map(|digest| format!("{digest}\n")).collect();
    let blob = log.put_blob(list.as_bytes())?;
    Ok(Some(BlobRef { blob, bytes: list.len() as u64 }))
}

fn changed() -> Error {
    Error::new(codes::EXPORT_INVALID, "the export was changed while it was read")
}

/// The append that tells of an import, with the cell that remembers its origin, and where it goes.
fn told(
    log: &Log,
    imported: &Imported,
    line: String,
    new: NewImport,
) -> Result<(NewBranch, Append)> {
    let NewImport { told: place, before, actor } = new;
    let Exported { events, blobs, digest, .. } = imported.exported;
    let branches = imported.branches;
    let missing = put_list(log, &imported.missing_blobs)?;
    let list = missing.as_ref().map(|list| list.blob);
    let imported = imported.session.clone();
    let key = imported.to_string();
    let body = SessionImported { imported, branches, events, blobs, digest, missing };
    let origin = Origin { line, branches, events, missing: list };
    let origin = serde_json::to_vec(&origin).map_err(|cause| {
        Error::new(codes::EXPORT_INVALID, "the export's first line cannot be kept").why(cause)
    })?;
    let said = Draft::new(Kind::SessionImported, &body).by(actor);
    let events = before.into_iter().chain([said]).collect();
    let cell =
        CellWrite { space: SPACE.to_owned(), key, expected_version: None, bytes: Some(origin) };
    let (session, branch) = (place.session.clone(), place.branch.clone());
    Ok((place, Append { cells: vec![cell], ..Append::new(session, branch, events) }))
}

/// The first line of the export that a session came from, while the session is as it came.
pub(crate) fn origin_of(log: &Log, rows: &[BranchRow]) -> Result<Option<String>> {
    let Some(first) = rows.first().filter(|row| row.is_imported) else { return Ok(None) };
    let cell = log.cell(SPACE, first.session.as_str())?;
    let origin = cell.and_then(|cell| serde_json::from_slice::<Origin>(&cell.bytes).ok());
    let events: u64 = rows.iter().map(|row| row.head.seq - row.base().seq).sum();
    let as_it_came =
        |origin: &Origin| origin.branches == rows.len() as u64 && origin.events == events;
    Ok(origin.filter(as_it_came).map(|origin| origin.line))
}

/// What the file's branches are and where they end.
#[derive(Default)]
struct Heads {
    branches: Vec<(NewBranch, Option<(Seq, Digest)>)>,
    bytes: usize,
    /// Blobs that events name, those of them that are manifests, files that such a manifest names, what
    /// came with them, and what an event says was erased.
    named: BTreeSet<Digest>,
    manifests: BTreeSet<Digest>,
    sealed: BTreeSet<Digest>,
    brought: BTreeSet<Digest>,
    erased: BTreeSet<Digest>,
    erasers: Erasers,
}

impl Heads {
    fn visit(&mut self, log: &Log, item: &Item<'_>) -> Result<()> {
        match item {
            Item::Begin { tenant, .. } if tenant != log.tenant() => {
                return Err(Error::new(codes::TENANT_MISMATCH, "could not import the session")
                    .why(format!("it is of tenant `{tenant}`, not of `{}`", log.tenant())));
            }
            Item::Branch { new, .. } => {
                self.branches.push((new.clone(), None));
                self.grow(BRANCH_BYTES)?;
            }
            Item::Event(line) => {
                if let Some((_, head)) = self.branches.last_mut() {
                    *head = Some((line.seq, line.event.hash));
                }
                let body = line.event.body.as_deref().unwrap_or_default();
                for blob in named_in(line.event.header.as_bytes(), body.as_bytes()) {
                    self.named.insert(blob.digest);
                    self.manifests.extend(blob.is_manifest.then_some(blob.digest));
                }
                if line.event.header.contains(Kind::LogErased.as_str())
                    && let Ok(said) = serde_json::from_str::<LogErased>(body)
                {
                    self.erasers.add(&said, 0);
                    self.erased.extend(said.blobs);
                }
                self.grow(line.event.header.len() + body.len())?;
            }
            Item::Blob(content) => {
                let digest = Digest::of(content);
                if self.manifests.contains(&digest) {
                    self.sealed.extend(sealed_files(content));
                }
                self.brought.insert(digest);
            }
            Item::Begin { .. } => {}
        }
        Ok(())
    }

    fn grow(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        if self.bytes <= MAX_IMPORT_BYTES {
            return Ok(());
        }
        Err(Error::new(codes::IMPORT_TOO_LARGE, "could not import the session")
            .why(format!("its events have more than {MAX_IMPORT_BYTES} bytes"))
            .with("limit_bytes", MAX_IMPORT_BYTES))
    }

    /// Refuses what would stand in another's place: a session that is here, one that is looked up by its name, and
    /// erasures of what is not in the file.
    fn check_places(&self, log: &Log) -> Result<()> {
        for (new, _) in &self.branches {
            if is_reserved_session(&new.session) || !log.branches(&new.session)?.is_empty() {
                return Err(rules::session_exists(&new.session));
            }
            if is_reserved_branch(&new.branch) {
                return Err(rules::is_taken(&new.branch));
            }
        }
        let ours: BTreeSet<_> = self.branches.iter().map(|(new, _)| &new.branch).collect();
        match self.erasers.branches().find(|named| !ours.contains(named)) {
            Some(named) => Err(Error::new(codes::EXPORT_INVALID, "could not import the session")
                .why(format!("it says that events of {named} were erased, which is none of it"))),
            None => Ok(()),
        }
    }

    /// The blobs that events and their manifests name, that are neither in the file nor here, and that
    /// nobody erased.
    fn missing_blobs(&self, log: &Log) -> Result<Vec<Digest>> {
        let mut missing = Vec::new();
        let mut sealed = self.sealed.clone();
        for digest in &self.named {
            if let Some(content) = self.lacked(log, digest, &mut missing)?
                && self.manifests.contains(digest)
            {
                sealed.extend(sealed_files(&content));
            }
        }
        for digest in sealed.difference(&self.named) {
            self.lacked(log, digest, &mut missing)?;
        }
        Ok(missing)
    }

    /// Adds a blob to the missing ones if it is. What is here and not in the file is answered.
    fn lacked(
        &self,
        log: &Log,
        digest: &Digest,
        missing: &mut Vec<Digest>,
    ) -> Result<Option<Vec<u8>>> {
        if self.brought.contains(digest) || self.erased.contains(digest) {
            return Ok(None);
        }
        match log.blob(digest) {
            Err(error) if error.is(codes::BLOB_NOT_FOUND) => {
                missing.push(*digest);
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    /// Whether the log holds every event of the file. A head's hash proves all before it.
    fn are_here(&self, log: &Log) -> Result<bool> {
        for (new, head) in &self.branches {
            let row = match log.branch(&new.branch) {
                Err(error) if error.is(codes::BRANCH_NOT_FOUND) => return Ok(false),
                row => row?,
            };
            let parent = row.fork.as_ref().map(|fork| (fork.parent.clone(), fork.seq));
            if row.session != new.session || parent != new.parent {
                return Ok(false);
            }
            let Some((seq, hash)) = head else { continue };
            let there = log.records(&new.branch, *seq, 1)?;
            if there.first().map(|record| record.hash) != Some(*hash) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The file's events, to be stored at once.
#[derive(Default)]
struct Staged {
    line: String,
    branches: Vec<ImportedBranch>,
    events: u64,
    erasers: Erasers,
}

impl Staged {
    fn visit(&mut self, log: &Log, item: Item<'_>) -> Result<()> {
        match item {
            Item::Begin { line, .. } => self.line = String::from_utf8_lossy(line).into_owned(),
            Item::Branch { new, state } => {
                self.branches.push(ImportedBranch { new, state, records: Vec::new() });
            }
            Item::Event(line) => self.event(&line)?,
            // Durable before the events that name it.
            Item::Blob(content) => drop(log.put_blob(&content)?),
        }
        Ok(())
    }

    fn event(&mut self, line: &ExportedEvent) -> Result<()> {
        let position = self.events;
        self.events += 1;
        let record = Record { position, ..line.record().ok_or_else(changed)? };
        if let Some(said) = record.body_of::<LogErased>(&Kind::LogErased) {
            self.erasers.add(&said, position);
        }
        let into = self.branches.last_mut().filter(|into| into.new.branch == line.branch);
        let into = into.ok_or_else(changed)?;
        into.records.push(ImportedRecord { record, erased_by: None });
        Ok(())
    }

    /// Points each event without a body at the event that says so.
    fn settle_erasures(&mut self) -> Result<()> {
        self.erasers.settle();
        for ImportedBranch { new, records, .. } in &mut self.branches {
            for record in records.iter_mut().filter(|record| record.record.erased_by().is_some()) {
                let by = self.erasers.of(&new.branch, record.record.seq).ok_or_else(changed)?;
                record.erased_by = Some(by);
            }
        }
        Ok(())
    }
}
