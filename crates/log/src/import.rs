//! Taking in a session that another log exported.
//!
//! Its events keep their bytes and hashes, so that they prove themselves here as they did there; as
//! leaves they join this log's tree in the order of the file. What they say of cells was true of the other
//! log, so no cell comes with them, and no branch that was imported takes another event.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufReader, Seek as _};

use glasshouse_model::body::{LogErased, SessionImported};
use glasshouse_model::{Actor, BranchId, Digest, Draft, Kind, Seq, SessionId};
use serde::{Deserialize, Serialize};

use crate::append::{Append, CellWrite};
use crate::blobs::named_in;
use crate::branch::{BranchRow, BranchState, NewBranch};
use crate::codes;
use crate::error::{Error, Result};
use crate::export::{Exported, ExportedEvent, Item, read};
use crate::log::Log;
use crate::record::Record;
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
    /// Whether anything was stored; not when all of it was here already.
    pub is_new: bool,
}

/// Where a session came from: content of a cell in [`SPACE`].
#[derive(Serialize, Deserialize)]
struct Origin {
    /// The export's first line.
    line: String,
    branches: u64,
    events: u64,
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
    let mut imported = Imported { session, branch, branches, exported, is_new: false };
    if heads.are_here(log)? {
        return Ok(imported);
    }
    if !log.branches(&imported.session)?.is_empty() {
        return Err(crate::rules::session_exists(&imported.session));
    }
    heads.check_blobs(log)?;
    let mut staged = Staged::default();
    if read(from_start()?, &mut |item| staged.visit(log, item))? != imported.exported {
        return Err(changed());
    }
    staged.settle_erasures()?;
    let append = told(&imported, staged.line, new.before, new.actor, &new.told)?;
    store.import(staged.branches, &new.told, append)?;
    imported.is_new = true;
    Ok(imported)
}

fn changed() -> Error {
    Error::new(codes::EXPORT_INVALID, "the export was changed while it was read")
}

/// The append that tells of an import, with the cell that remembers its origin.
fn told(
    imported: &Imported,
    line: String,
    before: Vec<Draft>,
    actor: Actor,
    place: &NewBranch,
) -> Result<Append> {
    let Exported { events, blobs, digest } = imported.exported;
    let branches = imported.branches;
    let body =
        SessionImported { imported: imported.session.clone(), branches, events, blobs, digest };
    let origin = serde_json::to_vec(&Origin { line, branches, events }).map_err(|cause| {
        Error::new(codes::EXPORT_INVALID, "the export's first line cannot be kept").why(cause)
    })?;
    let said = Draft::new(Kind::SessionImported, &body).by(actor);
    let events = before.into_iter().chain([said]).collect();
    Ok(Append {
        cells: vec![CellWrite {
            space: SPACE.to_owned(),
            key: imported.session.to_string(),
            expected_version: None,
            bytes: Some(origin),
        }],
        ..Append::new(place.session.clone(), place.branch.clone(), events)
    })
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
    /// Blobs that events name, that came with them, and that an event says were erased.
    named: BTreeSet<Digest>,
    brought: BTreeSet<Digest>,
    erased: BTreeSet<Digest>,
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
                let branch = self.branches.iter_mut().rfind(|(new, _)| new.branch == line.branch);
                if let Some((_, head)) = branch {
                    *head = Some((line.seq, line.event.hash));
                }
                let body = line.event.body.as_deref().unwrap_or_default();
                self.named.extend(named_in(body.as_bytes()));
                if line.event.header.contains(Kind::LogErased.as_str())
                    && let Ok(said) = serde_json::from_str::<LogErased>(body)
                {
                    self.erased.extend(said.blobs);
                }
                self.grow(line.event.header.len() + body.len())?;
            }
            Item::Blob(content) => {
                self.brought.insert(Digest::of(content));
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

    /// What events name has to be here too, else the log would not prove itself any more.
    fn check_blobs(&self, log: &Log) -> Result<()> {
        for digest in &self.named {
            if self.brought.contains(digest) || self.erased.contains(digest) {
                continue;
            }
            log.blob(digest).map_err(|error| {
                error
                    .why("the session's events name it, and the export does not hold it")
                    .fix("export the session with its blobs")
            })?;
        }
        Ok(())
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
    /// Who erased an event, by its place.
    erasers: HashMap<(BranchId, Seq), u64>,
}

impl Staged {
    fn visit(&mut self, log: &Log, item: Item<'_>) -> Result<()> {
        match item {
            Item::Begin { line, .. } => self.line = String::from_utf8_lossy(line).into_owned(),
            Item::Branch { new, state } => {
                self.branches.push(ImportedBranch { new, state, records: Vec::new() });
            }
            Item::Event(line) => self.event(line)?,
            // Durable before the events that name it.
            Item::Blob(content) => drop(log.put_blob(&content)?),
        }
        Ok(())
    }

    fn event(&mut self, line: ExportedEvent) -> Result<()> {
        let ExportedEvent { branch, seq, event } = line;
        let position = self.events;
        self.events += 1;
        let salt = event.salt_bytes().map(Vec::from).unwrap_or_default();
        let (header, body) = (event.header.into_bytes(), event.body.unwrap_or_default());
        let record =
            Record { seq, position, hash: event.hash, header, salt, body: body.into_bytes() };
        if let Some(said) = record.body_of::<LogErased>(&Kind::LogErased) {
            for erased in said.events {
                self.erasers.entry((erased.branch, erased.seq)).or_insert(position);
            }
        }
        let into = self.branches.iter_mut().rfind(|into| into.new.branch == branch);
        let into = into.ok_or_else(changed)?;
        into.records.push(ImportedRecord { record, erased_by: None });
        Ok(())
    }

    /// Points each event without a body at the event that says so.
    fn settle_erasures(&mut self) -> Result<()> {
        for ImportedBranch { new, records, .. } in &mut self.branches {
            for record in records.iter_mut().filter(|record| record.record.body.is_empty()) {
                let place = (new.branch.clone(), record.record.seq);
                let by = self.erasers.get(&place).copied().ok_or_else(changed)?;
                record.erased_by = Some(by);
            }
        }
        Ok(())
    }
}
