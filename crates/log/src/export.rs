//! A session as lines of JSON, with the bytes that were hashed, so that it can be kept elsewhere
//! and proves itself there.
//!
//! The first line names the session, the log's key and its newest signed head; then come branches,
//! each after its parent, with their own events in order; the last line counts the events and holds
//! the digest of all lines before.

use std::collections::HashMap;
use std::io::{BufRead, Read as _, Write};

use glasshouse_model::event::{body_hash, event_hash};
use glasshouse_model::{BranchId, Digest, Seq, SessionId, TenantId};
use serde::{Deserialize, Serialize};

use crate::branch::BranchRow;
use crate::chain::PAGE;
use crate::codes;
use crate::error::{Error, Result};
use crate::log::Log;
use crate::proof::ProvedEvent;

/// Version of the lines.
const VERSION: u32 = 1;
/// Longest line that is read: the largest body with each of its bytes escaped, and its header.
const MAX_LINE_BYTES: u64 = 8 << 20;

/// What was written or read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// Number of events.
    pub events: u64,
    /// Digest of all lines but the last.
    pub digest: Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Export { version: u32, tenant: TenantId, session: SessionId, key: String, head: String },
    Branch { branch: BranchId, name: String, parent: Option<(BranchId, Seq)>, state: String },
    Event(ExportedEvent),
    End { events: u64, digest: Digest },
}

#[derive(Serialize, Deserialize)]
struct ExportedEvent {
    branch: BranchId,
    seq: Seq,
    #[serde(flatten)]
    event: ProvedEvent,
}

struct Writer<'w> {
    out: &'w mut dyn Write,
    digest: Digest,
    events: u64,
}

impl Writer<'_> {
    fn line(&mut self, line: &Line) -> Result<()> {
        let failed = |cause: &dyn std::fmt::Display| {
            Error::new(codes::STORAGE_FAILED, "could not write the export").why(cause)
        };
        let mut text = serde_json::to_vec(line).map_err(|cause| failed(&cause))?;
        text.push(b'\n');
        self.out.write_all(&text).map_err(|cause| failed(&cause))?;
        self.digest = next_digest(&self.digest, &text);
        Ok(())
    }
}

/// Digest of lines: of the digest before and the next line, so that reading needs no second pass.
fn next_digest(before: &Digest, line: &[u8]) -> Digest {
    Digest::of_parts(&[b"glasshouse/export/v1\0", before.as_bytes(), line])
}

/// Writes a session.
pub(crate) fn write(log: &Log, session: &SessionId, out: &mut dyn Write) -> Result<Exported> {
    let branches = log.branches(session)?;
    if branches.is_empty() {
        return Err(Error::new(codes::BRANCH_NOT_FOUND, format!("no session {session}")));
    }
    let mut writer = Writer { out, digest: Digest::ZERO, events: 0 };
    writer.line(&Line::Export {
        version: VERSION,
        tenant: log.tenant().clone(),
        session: session.clone(),
        key: log.public_key()?.to_string(),
        head: log.signed_head()?.note,
    })?;
    for row in &branches {
        write_branch(log, row, &mut writer)?;
    }
    let exported = Exported { events: writer.events, digest: writer.digest };
    writer.line(&Line::End { events: exported.events, digest: exported.digest })?;
    Ok(exported)
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
            let event = record.into_proved(last.hash);
            writer.line(&Line::Event(ExportedEvent { branch: branch.clone(), seq, event }))?;
            (last.seq, last.hash) = (seq, hash);
            writer.events += 1;
        }
    }
    Ok(())
}

/// Reads what [`Log::export_session`] wrote and proves it: every event against the one before it,
/// forks against their parents, bodies against headers, and the count and digest at the end.
///
/// That the events are those of the log is told by the signed head in the first line together with
/// proofs of the log ([`Log::prove`]); this proves that they belong together.
///
/// # Errors
/// `export_invalid` naming the first bad line, or a storage error.
pub fn check_export(mut input: impl BufRead) -> Result<Exported> {
    let mut reading = Reading { digest: Digest::ZERO, events: 0, branches: HashMap::new(), at: 0 };
    let mut line = Vec::new();
    loop {
        line.clear();
        reading.at += 1;
        let read = (&mut input).take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        read.map_err(|cause| {
            Error::new(codes::STORAGE_FAILED, "could not read the export").why(cause)
        })?;
        if !line.ends_with(b"\n") {
            return Err(reading.bad("the export is cut, or a line is too long"));
        }
        let parsed = serde_json::from_slice(&line).map_err(|cause| reading.bad(cause))?;
        match parsed {
            Line::Export { version: VERSION, .. } if reading.at == 1 => {}
            _ if reading.at == 1 => return Err(reading.bad("it does not begin as an export")),
            Line::Export { .. } => return Err(reading.bad("an export begins in another")),
            Line::Branch { branch, parent, .. } => reading.branch(branch, parent)?,
            Line::Event(event) => reading.event(event)?,
            Line::End { events, digest } => {
                let exported = Exported { events: reading.events, digest: reading.digest };
                if exported != (Exported { events, digest }) {
                    return Err(reading.bad("count and digest are those of other lines"));
                }
                return Ok(exported);
            }
        }
        reading.digest = next_digest(&reading.digest, &line);
    }
}

struct Reading {
    digest: Digest,
    events: u64,
    branches: HashMap<BranchId, ReadBranch>,
    at: u64,
}

/// A branch as far as it was read.
struct ReadBranch {
    parent: Option<BranchId>,
    /// Sequence before its first own event.
    base: Seq,
    /// The hashes from there on.
    hashes: Vec<Digest>,
}

impl Reading {
    fn bad(&self, why: impl std::fmt::Display) -> Error {
        Error::new(codes::EXPORT_INVALID, format!("line {} of the export is bad", self.at))
            .why(why)
            .with("line", self.at)
    }

    fn branch(&mut self, branch: BranchId, parent: Option<(BranchId, Seq)>) -> Result<()> {
        let line = match parent {
            None => ReadBranch { parent: None, base: 0, hashes: vec![Digest::ZERO] },
            Some((parent, seq)) => {
                let hash = self.hash(&parent, seq);
                let hash = hash.ok_or_else(|| self.bad("its parent has no such event"))?;
                ReadBranch { parent: Some(parent), base: seq, hashes: vec![hash] }
            }
        };
        match self.branches.insert(branch, line) {
            None => Ok(()),
            Some(_) => Err(self.bad("the branch is there twice")),
        }
    }

    /// Hash of an event of a branch, its ancestors' included.
    fn hash(&self, branch: &BranchId, seq: Seq) -> Option<Digest> {
        let mut line = self.branches.get(branch)?;
        // A parent was there before its child, so this ends.
        while seq < line.base {
            line = self.branches.get(line.parent.as_ref()?)?;
        }
        line.hashes.get(usize::try_from(seq - line.base).ok()?).copied()
    }

    fn event(&mut self, line: ExportedEvent) -> Result<()> {
        #[derive(Deserialize)]
        struct Anchors {
            branch: BranchId,
            seq: Seq,
            body_hash: Digest,
        }
        let ExportedEvent { branch, seq, event } = line;
        let before = seq.checked_sub(1).and_then(|before| self.hash(&branch, before));
        if before != Some(event.prev) {
            return Err(self.bad("it does not follow the event before it"));
        }
        if event_hash(&event.prev, event.header.as_bytes()) != event.hash {
            return Err(self.bad("the header does not have the event's hash"));
        }
        let anchors: Anchors =
            serde_json::from_str(&event.header).map_err(|cause| self.bad(cause))?;
        if anchors.branch != branch || anchors.seq != seq {
            return Err(self.bad("the header names another event"));
        }
        match (event.salt_bytes(), &event.body) {
            (Some(salt), Some(body)) if body_hash(&salt, body.as_bytes()) == anchors.body_hash => {}
            (None, None) if event.salt.is_none() => {}
            _ => return Err(self.bad("the body does not have the hash in the header")),
        }
        let added = self.branches.get_mut(&branch).map(|line| {
            line.hashes.push(event.hash);
            line.base + u64::try_from(line.hashes.len()).unwrap_or(u64::MAX) - 1 == seq
        });
        if added != Some(true) {
            return Err(self.bad("the event is there twice"));
        }
        self.events += 1;
        Ok(())
    }
}
