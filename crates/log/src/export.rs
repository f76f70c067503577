//! A session as lines of JSON, with the bytes that were hashed, so that it can be kept elsewhere
//! and proves itself there.
//!
//! The first line names the session, the log's key and its newest signed head; then come branches,
//! each after its parent, with their own events in order; then, unless left out, the blobs; the last
//! line counts the events and holds the digest of all lines before.

mod check;

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use glasshouse_model::body::sealed_files;
use glasshouse_model::{BranchId, Digest, Seq, SessionId, TenantId};
use serde::{Deserialize, Serialize};

pub(crate) use self::check::{Item, read};
pub use self::check::{MAX_EXPORT_LINE_BYTES, check_export};

use crate::blobs::named_in;
use crate::branch::BranchRow;
use crate::chain::PAGE;
use crate::codes;
use crate::error::{Error, Result};
use crate::import;
use crate::log::Log;
use crate::proof::ProvedEvent;
use crate::record::Record;

/// Version of the lines.
const VERSION: u32 = 1;
/// Bytes of a blob in one line.
const BLOB_PART_BYTES: usize = 1 << 20;

/// What was written or read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// Number of events.
    pub events: u64,
    /// Number of blobs.
    pub blobs: u64,
    /// Digest of all lines but the last.
    pub digest: Digest,
    /// Number of blobs that were asked for and are not here: erased, or lost. What was read does not tell.
    #[serde(skip_serializing_if = "crate::verify::is_zero")]
    pub absent_blobs: u64,
}

/// Which blobs an export carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExportBlobs {
    /// None: the events alone prove themselves.
    #[default]
    None,
    /// Those that events name, and the files that manifests among them name.
    All,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Line {
    Export { version: u32, tenant: TenantId, session: SessionId, key: String, head: String },
    Branch { branch: BranchId, name: String, parent: Option<(BranchId, Seq)>, state: String },
    Event(ExportedEvent),
    Blob { digest: Digest, bytes: u64, offset: u64, data: String },
    End { events: u64, blobs: u64, digest: Digest },
}

#[derive(Serialize, Deserialize)]
pub(crate) struct ExportedEvent {
    pub(crate) branch: BranchId,
    pub(crate) seq: Seq,
    #[serde(flatten)]
    pub(crate) event: ProvedEvent,
}

impl ExportedEvent {
    /// The event as a log stores it, its position aside; of one whose body was erased, as if the first
    /// event of all said so. `None` when its salt is none.
    pub(crate) fn record(&self) -> Option<Record> {
        let ProvedEvent { hash, header, salt, body, .. } = &self.event;
        let (salt, body) = match (salt, body) {
            (None, None) => (0_u64.to_be_bytes().to_vec(), Vec::new()),
            (_, body) => (self.event.salt_bytes()?.to_vec(), body.as_ref()?.as_bytes().to_vec()),
        };
        let (hash, header) = (*hash, header.as_bytes().to_vec());
        Some(Record { seq: self.seq, position: 0, hash, header, salt, body })
    }
}

struct Writer<'w> {
    out: &'w mut dyn Write,
    digest: Digest,
    events: u64,
    blobs: u64,
    absent_blobs: u64,
    /// Blobs that events name, and those of them that are manifests.
    named: BTreeSet<Digest>,
    manifests: BTreeSet<Digest>,
}

impl<'w> Writer<'w> {
    fn new(out: &'w mut dyn Write) -> Self {
        let (named, manifests) = (BTreeSet::new(), BTreeSet::new());
        let (events, blobs, absent_blobs) = (0, 0, 0);
        Self { out, digest: Digest::ZERO, events, blobs, absent_blobs, named, manifests }
    }

    fn line(&mut self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_vec(line).map_err(|cause| failed(&cause))?;
        text.push(b'\n');
        self.text(&text)
    }

    fn text(&mut self, text: &[u8]) -> Result<()> {
        self.out.write_all(text).map_err(|cause| match cause.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Error::new(codes::STORAGE_FULL, "could not write the export").why(cause)
            }
            _ => failed(&cause),
        })?;
        self.digest = next_digest(&self.digest, text);
        Ok(())
    }
}

fn failed(cause: &dyn std::fmt::Display) -> Error {
    Error::new(codes::STORAGE_FAILED, "could not write the export").why(cause)
}

/// Digest of lines: of the digest before and the next line, so that reading needs no second pass.
fn next_digest(before: &Digest, line: &[u8]) -> Digest {
    Digest::of_parts(&[b"glasshouse/export/v1\0", before.as_bytes(), line])
}

/// Writes a session. `blobs` says which blobs go with it.
pub(crate) fn write(
    log: &Log,
    session: &SessionId,
    blobs: ExportBlobs,
    out: &mut dyn Write,
) -> Result<Exported> {
    let branches = log.branches(session)?;
    if branches.is_empty() {
        return Err(Error::new(codes::BRANCH_NOT_FOUND, format!("no session {session}")));
    }
    let mut writer = Writer::new(out);
    match import::origin_of(log, &branches)? {
        // The head that vouches for it is that of the log where it happened.
        Some(line) => writer.text(line.as_bytes())?,
        None => writer.line(&Line::Export {
            version: VERSION,
            tenant: log.tenant().clone(),
            session: session.clone(),
            key: log.public_key()?.to_string(),
            head: log.signed_head()?.note,
        })?,
    }
    for row in &branches {
        write_branch(log, row, &mut writer)?;
    }
    if blobs == ExportBlobs::All {
        write_blobs(log, &mut writer)?;
    }
    let Writer { events, blobs, absent_blobs, digest, .. } = writer;
    writer.line(&Line::End { events, blobs, digest })?;
    Ok(Exported { events, blobs, digest, absent_blobs })
}

fn write_branch(log: &Log, row: &BranchRow, writer: &mut Writer<'_>) -> Result<()> {
    let branch = row.branch.clone();
    writer.line(&Line::Branch {
        branch: branch.clone(),
        name: row.name.clone(),
        parent: row.fork.as_ref().map(|fork| (fork.parent.clone(), fork.seq)),
        state: row.state.as_str().to_owned(),
    })?;
    let (mut last, head) = (row.base(), row.head.seq);
    while last.seq < head {
        let records = log.records(&branch, last.seq + 1, PAGE)?;
        if records.is_empty() {
            break;
        }
        for record in records.into_iter().filter(|record| record.seq <= head) {
            let (seq, hash) = (record.seq, record.hash);
            for blob in named_in(&record.header, &record.body) {
                writer.named.insert(blob.digest);
                writer.manifests.extend(blob.is_manifest.then_some(blob.digest));
            }
            let event = record.into_proved(last.hash);
            writer.line(&Line::Event(ExportedEvent { branch: branch.clone(), seq, event }))?;
            (last.seq, last.hash) = (seq, hash);
            writer.events += 1;
        }
    }
    Ok(())
}

/// Writes the blobs in the order of their digests. Those that are not there were erased.
fn write_blobs(log: &Log, writer: &mut Writer<'_>) -> Result<()> {
    let content = |digest: &Digest| match log.blob(digest) {
        Err(error) if error.is(codes::BLOB_NOT_FOUND) => Ok(None),
        content => content.map(Some),
    };
    let mut all = std::mem::take(&mut writer.named);
    for digest in std::mem::take(&mut writer.manifests) {
        all.extend(content(&digest)?.iter().flat_map(|content| sealed_files(content)));
    }
    for digest in all {
        let Some(content) = content(&digest)? else {
            writer.absent_blobs += 1;
            continue;
        };
        let bytes = content.len() as u64;
        let mut offset = 0;
        // An empty blob is one part without data.
        let parts = content.chunks(BLOB_PART_BYTES).chain(content.is_empty().then_some(&[][..]));
        for part in parts {
            writer.line(&Line::Blob { digest, bytes, offset, data: BASE64.encode(part) })?;
            offset += part.len() as u64;
        }
        writer.blobs += 1;
    }
    Ok(())
}
