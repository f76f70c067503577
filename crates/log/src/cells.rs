//! What an event's header says of the cells that changed with it, so that cells are as provable as
//! events: each cell is as the newest event that names it says.

use std::collections::HashMap;

use glasshouse_model::{BranchId, Digest, Seq};
use serde::{Deserialize, Serialize};

use crate::append::{CellWrite, RESERVED_SPACE_PREFIX};
use crate::record::Record;

const TAG: &[u8] = b"glasshouse/cell/v1\0";
/// How the marks follow the other members of a header.
const MEMBER: &[u8] = b",\"cells\":[";

/// What became of one cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CellMark {
    /// Stands for space and key, which a header must not show: it is never erased.
    cell: Digest,
    version: u64,
    /// Digest of the bytes; `None` when the cell was deleted.
    bytes: Option<Digest>,
}

impl CellMark {
    pub(crate) fn new(space: &str, key: &str, version: u64, bytes: Option<&[u8]>) -> Self {
        let space_bytes = u64::try_from(space.len()).unwrap_or(u64::MAX).to_be_bytes();
        let parts = [TAG, &space_bytes, space.as_bytes(), key.as_bytes()];
        Self { cell: Digest::of_parts(&parts), version, bytes: bytes.map(Digest::of) }
    }

    /// The mark of a write, unless the cell is the log's own: those change without events.
    pub(crate) fn of_write(write: &CellWrite, version: u64) -> Option<Self> {
        let is_own = write.space.starts_with(RESERVED_SPACE_PREFIX);
        (!is_own).then(|| Self::new(&write.space, &write.key, version, write.bytes.as_deref()))
    }
}

/// Puts marks behind the other members of a header.
pub(crate) fn add_to_header(header: &mut Vec<u8>, marks: &[CellMark]) -> serde_json::Result<()> {
    if marks.is_empty() {
        return Ok(());
    }
    let list = serde_json::to_vec(marks)?;
    // A header is an object with members, so it ends in a brace that follows one.
    header.pop();
    header.extend_from_slice(&MEMBER[..MEMBER.len() - 1]);
    header.extend_from_slice(&list);
    header.push(b'}');
    Ok(())
}

/// Whether a header may have marks: it has, or a text in it looks like them.
pub(crate) fn are_marked(header: &[u8]) -> bool {
    memchr::memmem::find(header, MEMBER).is_some()
}

fn in_header(header: &[u8]) -> Vec<CellMark> {
    #[derive(Deserialize)]
    struct Anchors {
        #[serde(default)]
        cells: Vec<CellMark>,
    }
    // Few headers have marks, and looking for them is much faster than parsing.
    if !are_marked(header) {
        return Vec::new();
    }
    serde_json::from_slice::<Anchors>(header).map(|anchors| anchors.cells).unwrap_or_default()
}

/// A cell as it is stored, also a deleted one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCell {
    /// Its space.
    pub space: String,
    /// Its key.
    pub key: String,
    /// Its version.
    pub version: u64,
    /// Its bytes; `None` when it was deleted.
    pub bytes: Option<Vec<u8>>,
}

/// The event that changed a cell, and what it says of it.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) position: u64,
    pub(crate) branch: BranchId,
    pub(crate) seq: Seq,
    mark: CellMark,
}

/// Compares stored cells with what the events say. The cells are read before the events, so events
/// that came later may have changed a cell that is compared.
#[derive(Debug)]
pub(crate) struct CellProof {
    cells: Vec<(String, CellMark)>,
    /// Events that were there before the cells were read.
    settled: u64,
    /// By cell: the last settled change, and all later ones.
    changes: HashMap<Digest, Vec<Change>>,
}

/// A cell that is not as its event says.
#[derive(Debug)]
pub(crate) struct BadCell {
    pub(crate) changed: Option<Change>,
    pub(crate) expected: String,
    pub(crate) found: String,
}

impl CellProof {
    pub(crate) fn new(settled: u64) -> Self {
        Self { cells: Vec::new(), settled, changes: HashMap::new() }
    }

    /// Takes a stored cell.
    pub(crate) fn add(&mut self, cell: &StoredCell) {
        let StoredCell { space, key, version, bytes } = cell;
        if !space.starts_with(RESERVED_SPACE_PREFIX) {
            let mark = CellMark::new(space, key, *version, bytes.as_deref());
            self.cells.push((format!("{space}/{key}"), mark));
        }
    }

    /// Takes what an event says.
    pub(crate) fn note(&mut self, branch: &BranchId, record: &Record) {
        for mark in in_header(&record.header) {
            let (position, seq) = (record.position, record.seq);
            self.add_change(Change { position, branch: branch.clone(), seq, mark });
        }
    }

    /// Takes what another one was told. The order in which changes come does not matter.
    pub(crate) fn add_changes(&mut self, other: Self) {
        other.changes.into_values().flatten().for_each(|change| self.add_change(change));
    }

    fn add_change(&mut self, change: Change) {
        let (settled, position) = (self.settled, change.position);
        let changes = self.changes.entry(change.mark.cell).or_default();
        if position < settled {
            if changes.iter().any(|known| known.position < settled && known.position > position) {
                return;
            }
            changes.retain(|known| known.position >= settled);
        }
        changes.push(change);
    }

    /// The first cell that is not as any of its changes may have left it, by the event that changed it.
    pub(crate) fn first_bad(mut self) -> Option<BadCell> {
        let shown = |mark: &CellMark| {
            let bytes = mark.bytes.map_or_else(|| "no bytes".to_owned(), |bytes| bytes.to_string());
            format!("version {}, {bytes}", mark.version)
        };
        let mut bad = Vec::new();
        for (name, stored) in &self.cells {
            let changes = self.changes.remove(&stored.cell).unwrap_or_default();
            if changes.iter().any(|change| change.mark == *stored) {
                continue;
            }
            let changed = changes.into_iter().min_by_key(|change| change.position);
            let expected = match &changed {
                Some(change) => format!("cell {name} with {}", shown(&change.mark)),
                None => "cells that events name".to_owned(),
            };
            let found = format!("cell {name} with {}", shown(stored));
            bad.push(BadCell { changed, expected, found });
        }
        let settled = self.settled;
        let lost = self.changes.into_values().flatten().filter(|change| change.position < settled);
        bad.extend(lost.map(|change| BadCell {
            expected: format!("a cell with {}", shown(&change.mark)),
            found: "no such cell".to_owned(),
            changed: Some(change),
        }));
        bad.into_iter()
            .min_by_key(|bad| bad.changed.as_ref().map_or(u64::MAX, |change| change.position))
    }
}
