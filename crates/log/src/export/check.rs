//! Reading an export and proving that what it holds belongs together.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{BufRead, Read as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use glasshouse_model::body::{BranchMerged, LogErased};
use glasshouse_model::{BranchId, Digest, Kind, Seq, SessionId, TenantId};
use serde::de::DeserializeOwned;

use super::{Exported, ExportedEvent, Line, VERSION, next_digest};
use crate::blobs::MAX_BLOB_BYTES;
use crate::branch::{
    BranchState, MAX_BRANCH_NAME_BYTES, MAX_FORK_DEPTH, NewBranch, Segment, last_shared,
};
use crate::codes;
use crate::erase::Erasers;
use crate::error::{Error, Result};

/// Longest line that is read: the largest body with each of its bytes escaped, and its header.
pub const MAX_EXPORT_LINE_BYTES: u64 = 8 << 20;

/// What an export holds, in its order. Each was proved as far as the lines before it can tell; what only
/// the whole file tells is known at its end.
pub(crate) enum Item<'a> {
    /// The first line, and its bytes.
    Begin {
        tenant: TenantId,
        line: &'a [u8],
    },
    Branch {
        new: NewBranch,
        state: BranchState,
    },
    Event(ExportedEvent),
    /// Content that has its digest.
    Blob(Vec<u8>),
}

/// Reads what [`Log::export_session`] wrote and proves it: every event against the one before it,
/// forks against their parents, merges against the head of the branch that ended, erasures against the
/// events that say so, bodies against headers, blobs against their names, and the count and digest at
/// the end. An event that no log could read is bad, however right its hashes are.
///
/// That the events are those of the log is told by the signed head in the first line together with
/// proofs of the log ([`Log::prove`]); this proves that they belong together.
///
/// [`Log::export_session`]: crate::Log::export_session
/// [`Log::prove`]: crate::Log::prove
///
/// # Errors
/// `export_invalid` naming the first bad line, or a storage error.
pub fn check_export(input: impl BufRead) -> Result<Exported> {
    read(input, &mut |_| Ok(()))
}

/// Reads and proves an export, and shows each part of it.
///
/// # Errors
/// As [`check_export`], and what `visit` answers.
pub(crate) fn read(
    mut input: impl BufRead,
    visit: &mut dyn FnMut(Item<'_>) -> Result<()>,
) -> Result<Exported> {
    let mut reading = Reading::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        reading.at += 1;
        let read = (&mut input).take(MAX_EXPORT_LINE_BYTES).read_until(b'\n', &mut line);
        read.map_err(unreadable)?;
        if !line.ends_with(b"\n") {
            return Err(reading.bad("the export is cut, or a line is too long"));
        }
        let parsed = serde_json::from_slice(&line).map_err(|cause| reading.bad(cause))?;
        if let Line::End { events, blobs, digest } = parsed {
            let expected = Exported { events, blobs, digest, absent_blobs: 0 };
            let exported = reading.end(&expected)?;
            if !input.fill_buf().map_err(unreadable)?.is_empty() {
                reading.at += 1;
                return Err(reading.bad("something follows its end"));
            }
            return Ok(exported);
        }
        if let Some(item) = reading.take(parsed, &line)? {
            visit(item)?;
        }
        reading.digest = next_digest(&reading.digest, &line);
    }
}

fn unreadable(cause: std::io::Error) -> Error {
    Error::new(codes::STORAGE_FAILED, "could not read the export").why(cause)
}

struct Reading {
    digest: Digest,
    events: u64,
    blobs: u64,
    /// Number of the line that is read.
    at: u64,
    place: Option<(TenantId, SessionId)>,
    branches: HashMap<BranchId, ReadBranch>,
    /// The branch whose events are read.
    current: Option<BranchId>,
    names: HashSet<String>,
    /// Branches that events say were merged: the line, who says it, and what.
    merges: Vec<(u64, BranchId, BranchMerged)>,
    /// What events say was erased.
    erased: Erasers,
    bodiless: Vec<(u64, BranchId, Seq)>,
    /// The blob of which parts were read.
    part: Option<Part>,
    last_blob: Option<Digest>,
}

/// A branch as far as it was read.
struct ReadBranch {
    line: u64,
    parent: Option<BranchId>,
    state: BranchState,
    /// Sequence before its first own event.
    base: Seq,
    /// The hashes from there on.
    hashes: Vec<Digest>,
}

struct Part {
    digest: Digest,
    bytes: u64,
    content: Vec<u8>,
}

impl ReadBranch {
    fn head(&self) -> Seq {
        self.base + self.hashes.len() as u64 - 1
    }
}

impl Reading {
    fn new() -> Self {
        Self {
            digest: Digest::ZERO,
            events: 0,
            blobs: 0,
            at: 0,
            place: None,
            branches: HashMap::new(),
            current: None,
            names: HashSet::new(),
            merges: Vec::new(),
            erased: Erasers::default(),
            bodiless: Vec::new(),
            part: None,
            last_blob: None,
        }
    }

    fn bad(&self, why: impl std::fmt::Display) -> Error {
        bad_line(self.at, why)
    }

    fn take<'l>(&mut self, parsed: Line, line: &'l [u8]) -> Result<Option<Item<'l>>> {
        if self.part.is_some() && !matches!(parsed, Line::Blob { .. }) {
            return Err(self.bad("a blob before it is not whole"));
        }
        Ok(Some(match parsed {
            Line::Export { version: VERSION, tenant, session, .. } if self.at == 1 => {
                self.place = Some((tenant.clone(), session));
                Item::Begin { tenant, line }
            }
            _ if self.at == 1 => return Err(self.bad("it does not begin as an export")),
            Line::Export { .. } => return Err(self.bad("an export begins in another")),
            Line::Branch { .. } | Line::Event(_) if self.last_blob.is_some() => {
                return Err(self.bad("blobs come after all events"));
            }
            Line::Branch { branch, name, parent, state } => {
                let state = self.branch(&branch, &name, parent.as_ref(), &state)?;
                let session = self.place.as_ref().map(|(_, session)| session.clone());
                let session = session.ok_or_else(|| self.bad("it does not begin as an export"))?;
                Item::Branch { new: NewBranch { session, branch, name, parent }, state }
            }
            Line::Event(event) => {
                self.event(&event)?;
                Item::Event(event)
            }
            Line::Blob { digest, bytes, offset, data } => {
                return Ok(self.blob(digest, bytes, offset, &data)?.map(Item::Blob));
            }
            Line::End { .. } => return Err(self.bad("it ends here")),
        }))
    }

    fn branch(
        &mut self,
        branch: &BranchId,
        name: &str,
        parent: Option<&(BranchId, Seq)>,
        state: &str,
    ) -> Result<BranchState> {
        let state = BranchState::from_word(state)
            .ok_or_else(|| self.bad(format!("`{state}` is no branch state")))?;
        if name.is_empty()
            || name.len() > MAX_BRANCH_NAME_BYTES
            || name.chars().any(char::is_control)
        {
            return Err(self.bad("its name is none that a branch can have"));
        }
        if parent.is_none() && !self.branches.is_empty() {
            return Err(self.bad("a session has one first branch"));
        }
        let line = self.at;
        let read = match parent {
            None => ReadBranch { line, parent: None, state, base: 0, hashes: vec![Digest::ZERO] },
            Some((parent, seq)) => {
                let hash = self.hash(parent, *seq).filter(|_| *seq > 0);
                let hash = hash.ok_or_else(|| self.bad("its parent has no such event"))?;
                let parent = Some(parent.clone());
                ReadBranch { line, parent, state, base: *seq, hashes: vec![hash] }
            }
        };
        if !self.names.insert(name.to_owned()) {
            return Err(self.bad("another branch has its name"));
        }
        self.current = Some(branch.clone());
        if self.branches.insert(branch.clone(), read).is_some() {
            return Err(self.bad("the branch is there twice"));
        }
        if self.segments(branch).len() > MAX_FORK_DEPTH + 1 {
            return Err(self.bad(format!("it has more than {MAX_FORK_DEPTH} ancestors")));
        }
        Ok(state)
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

    fn event(&mut self, line: &ExportedEvent) -> Result<()> {
        let ExportedEvent { branch, seq, event } = line;
        if self.current.as_ref() != Some(branch) {
            return Err(self.bad("it does not stand among the events of its branch"));
        }
        let before = seq.checked_sub(1).and_then(|before| self.hash(branch, before));
        if before != Some(event.prev) {
            return Err(self.bad("it does not follow the event before it"));
        }
        let record = line.record().ok_or_else(|| self.bad("its salt is none"))?;
        let (tenant, session) =
            self.place.clone().ok_or_else(|| self.bad("it does not begin as an export"))?;
        // As a log reads it: nothing is sound that could not be read once it was taken in.
        let read = record.check_within(&session, branch, &event.prev);
        let header = read.map_err(|defect| self.bad(defect.text()))?.header;
        if header.tenant != tenant {
            return Err(self.bad("the header names another tenant"));
        }
        let proves_others = matches!(header.kind, Kind::BranchMerged | Kind::LogErased);
        if record.erased_by().is_none() {
            self.said(&header.kind, branch, &record.body)?;
        } else if proves_others {
            return Err(self.bad("others are proved by the body that is gone"));
        } else {
            self.bodiless.push((self.at, branch.clone(), *seq));
        }
        let added = self.branches.get_mut(branch).map(|line| {
            line.hashes.push(event.hash);
            line.head() == *seq
        });
        if added != Some(true) {
            return Err(self.bad("the event is there twice"));
        }
        self.events += 1;
        Ok(())
    }

    /// Remembers what an event says of others.
    fn said(&mut self, kind: &Kind, branch: &BranchId, body: &[u8]) -> Result<()> {
        fn parse<T: DeserializeOwned>(at: u64, body: &[u8]) -> Result<T> {
            serde_json::from_slice(body).map_err(|cause| bad_line(at, cause))
        }
        match kind {
            Kind::BranchMerged => {
                self.merges.push((self.at, branch.clone(), parse(self.at, body)?))
            }
            Kind::LogErased => {
                self.erased.add(&parse::<LogErased>(self.at, body)?, self.events);
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes a part of a blob; answers the blob that it made whole.
    fn blob(
        &mut self,
        digest: Digest,
        bytes: u64,
        offset: u64,
        data: &str,
    ) -> Result<Option<Vec<u8>>> {
        let mut part = match self.part.take() {
            Some(part) => part,
            None if bytes > MAX_BLOB_BYTES as u64 => {
                return Err(self.bad(format!("a blob has at most {MAX_BLOB_BYTES} bytes")));
            }
            None if self.last_blob.is_some_and(|last| last >= digest) => {
                return Err(self.bad("blobs stand in the order of their digests, each once"));
            }
            None => Part { digest, bytes, content: Vec::new() },
        };
        let is_next =
            part.digest == digest && part.bytes == bytes && part.content.len() as u64 == offset;
        let data = BASE64.decode(data).map_err(|cause| self.bad(cause))?;
        part.content.extend_from_slice(&data);
        let length = part.content.len() as u64;
        if !is_next || length > bytes || (data.is_empty() && bytes > 0) {
            return Err(self.bad("it is not the next part of the blob"));
        }
        self.last_blob = Some(digest);
        if length < bytes {
            self.part = Some(part);
            return Ok(None);
        }
        if Digest::of(&part.content) != digest {
            return Err(self.bad("the blob does not have the digest that names it"));
        }
        self.blobs += 1;
        Ok(Some(part.content))
    }

    fn end(&mut self, expected: &Exported) -> Result<Exported> {
        if self.at == 1 {
            return Err(self.bad("it does not begin as an export"));
        }
        if self.part.is_some() {
            return Err(self.bad("a blob before it is not whole"));
        }
        if self.branches.is_empty() {
            return Err(self.bad("it holds no branch"));
        }
        let (events, blobs, digest) = (self.events, self.blobs, self.digest);
        let exported = Exported { events, blobs, digest, absent_blobs: 0 };
        if exported != *expected {
            return Err(self.bad("count and digest are those of other lines"));
        }
        self.erased.settle();
        let unsaid =
            self.bodiless.iter().find(|(_, branch, seq)| self.erased.of(branch, *seq).is_none());
        if let Some((line, ..)) = unsaid {
            return Err(bad_line(*line, "its body is gone, and no event says that it was erased"));
        }
        self.check_merges()?;
        Ok(exported)
    }

    /// A merge names the head of the branch that it ended, and of each branch that ended so there is one.
    fn check_merges(&self) -> Result<()> {
        let mut ended = BTreeSet::new();
        for (line, target, said) in &self.merges {
            let source = self.branches.get(&said.source);
            let source = source.filter(|source| {
                source.state == BranchState::Merged
                    && source.head() == said.source_seq
                    && source.hashes.last() == Some(&said.source_hash)
                    && source.base < said.source_seq
            });
            if source.is_none() || !ended.insert(&said.source) {
                let why = format!("{} did not end there by this merge", said.source);
                return Err(bad_line(*line, why));
            }
            if last_shared(&self.segments(target), &self.segments(&said.source)) != said.base_seq {
                return Err(bad_line(*line, "the branches part at another event than it says"));
            }
        }
        let merged = self.branches.iter().filter(|(_, row)| row.state == BranchState::Merged);
        let unsaid = merged.filter(|(branch, _)| !ended.contains(branch));
        match unsaid.map(|(_, row)| row.line).min() {
            Some(line) => Err(bad_line(line, "no event says into which branch it was merged")),
            None => Ok(()),
        }
    }

    /// The ancestors of a branch and the branch itself, oldest first, each with the last event that it
    /// stores of them.
    fn segments(&self, branch: &BranchId) -> Vec<Segment> {
        let mut segments = Vec::new();
        let (mut next, mut upto) = (Some(branch), Seq::MAX);
        while let Some((branch, row)) = next.and_then(|id| self.branches.get_key_value(id)) {
            // A branch that was left before its first own event stores none of them.
            if segments.is_empty() || row.base < upto {
                segments.push(Segment { branch: branch.clone(), upto: upto.min(row.head()) });
            }
            (next, upto) = (row.parent.as_ref(), upto.min(row.base));
        }
        segments.reverse();
        segments
    }
}

fn bad_line(line: u64, why: impl std::fmt::Display) -> Error {
    Error::new(codes::EXPORT_INVALID, format!("line {line} of the export is bad"))
        .why(why)
        .with("line", line)
}
