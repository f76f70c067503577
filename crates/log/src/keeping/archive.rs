//! Archives as files, `archive/<day of the last event>/<session>.jsonl`, and what the log knows of them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Component, Path, PathBuf};

use glasshouse_model::{BranchId, Digest, SessionId};
use serde::{Deserialize, Serialize};

use crate::append::CellWrite;
use crate::branch::SessionRow;
use crate::codes;
use crate::error::{Error, Result};
use crate::export::{ExportBlobs, Exported, Item, check_export, read as read_export};
use crate::home::{self, Home};
use crate::log::Log;
use crate::store::Store;

/// Space of the cells that name archives, by session.
pub(crate) const SPACE: &str = "log.archive";
/// Cells read at a time.
const CELL_PAGE: usize = 512;
const DAY_US: u64 = 24 * 3_600 * 1_000_000;

/// A session outside the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archive {
    /// The session.
    pub session: SessionId,
    /// Its file below `archive/`.
    pub file: String,
    /// Number of events.
    pub events: u64,
    /// Length of the file.
    pub bytes: u64,
    /// Digest of its lines, as its last line names it.
    pub digest: Digest,
}

impl Archive {
    /// What an archive would be.
    pub(super) fn planned(row: &SessionRow) -> Self {
        let (session, file, events) = (row.session.clone(), file_of(row), row.events);
        Self { session, file, events, bytes: 0, digest: Digest::ZERO }
    }
}

/// How far an archive is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// It is there and proves itself; bodies may still be in the log.
    Written,
    /// The bodies are only in the archive.
    Erased,
    /// The archive is gone too.
    Deleted,
}

/// What the log knows of an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    #[serde(flatten)]
    pub(super) archive: Archive,
    pub(super) stage: Stage,
}

pub(super) fn known(log: &Log, session: &SessionId) -> Result<Option<Known>> {
    log.cell(SPACE, session.as_str())?.map(|cell| read(&cell.bytes)).transpose()
}

pub(super) fn all(log: &Log) -> Result<Vec<Known>> {
    let mut found = Vec::new();
    let mut after = String::new();
    loop {
        let page = log.cells(SPACE, &after, CELL_PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(found) };
        after.clone_from(last);
        for (_, cell) in &page {
            found.push(read(&cell.bytes)?);
        }
    }
}

/// From then on no branch of the session can be forked.
pub(super) fn remember(log: &Log, known: &Known) -> Result<()> {
    let bytes = serde_json::to_vec(known).map_err(|cause| {
        Error::new(codes::STORAGE_FAILED, "could not record an archive").why(cause)
    })?;
    write(log, &known.archive.session, Some(bytes))
}

/// Nothing is known of an archive any more.
pub(super) fn forget(log: &Log, session: &SessionId) -> Result<()> {
    write(log, session, None)
}

fn write(log: &Log, session: &SessionId, bytes: Option<Vec<u8>>) -> Result<()> {
    let (space, key) = (SPACE.to_owned(), session.to_string());
    log.write_own_cell(CellWrite { space, key, expected_version: None, bytes })
}

fn read(bytes: &[u8]) -> Result<Known> {
    let unreadable =
        || Error::new(codes::LOG_CORRUPT, "what is known of an archive cannot be read");
    let known: Known = serde_json::from_slice(bytes).map_err(|cause| unreadable().why(cause))?;
    // The file may be deleted some day: no cell that was changed by hand names another.
    let mut parts = Path::new(&known.archive.file).components();
    if parts.any(|part| !matches!(part, Component::Normal(_))) {
        return Err(unreadable().why(format!("`{}` is no file of it", known.archive.file)));
    }
    Ok(known)
}

/// What became of the archives that the log knows.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Files that are not there although the log did not delete them.
    pub(crate) missing: Vec<String>,
    /// The first one that is not what left the log, and why.
    pub(crate) bad: Option<(String, String)>,
}

/// Proves every archive against the headers that stayed in the log.
pub(crate) fn prove(store: &dyn Store, home: &Home) -> Result<Found> {
    let (root, mut found, mut after) = (home.archives(), Found::default(), String::new());
    loop {
        let page = store.cells(SPACE, &after, CELL_PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(found) };
        after.clone_from(last);
        for (_, cell) in &page {
            let Known { archive, stage } = read(&cell.bytes)?;
            if stage == Stage::Deleted {
                continue;
            }
            let file = match File::open(root.join(&archive.file)) {
                Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
                    found.missing.push(archive.file);
                    continue;
                }
                other => other.map_err(|cause| Error::file("read", &root, &cause))?,
            };
            let why = why_other(store, &archive.session, file)?;
            if let (Some(why), None) = (why, &found.bad) {
                found.bad = Some((archive.file, why));
            }
        }
    }
}

/// Why a file does not hold the events of a session, if so. A head's hash proves all before it.
fn why_other(store: &dyn Store, session: &SessionId, file: File) -> Result<Option<String>> {
    let mut heads: BTreeMap<BranchId, Option<Digest>> = BTreeMap::new();
    let read = read_export(BufReader::new(file), &mut |item| {
        match item {
            Item::Branch { new, .. } => drop(heads.insert(new.branch, None)),
            Item::Event(line) => drop(heads.insert(line.branch, Some(line.event.hash))),
            Item::Begin { .. } | Item::Blob(_) => {}
        }
        Ok(())
    });
    match read {
        Err(error) if error.is(codes::EXPORT_INVALID) => return Ok(Some(error.to_string())),
        other => {
            other?;
        }
    }
    for row in store.branches(Some(session))? {
        let has_own = row.head.seq > row.base().seq;
        if heads.remove(&row.branch) != Some(has_own.then_some(row.head.hash)) {
            return Ok(Some(format!("it holds other events of {} than the log had", row.branch)));
        }
    }
    Ok(heads.pop_first().map(|(branch, _)| format!("the log had no branch {branch}")))
}

/// The directory of archives.
pub(super) struct Archives {
    root: PathBuf,
}

impl Archives {
    pub(super) fn new(home: &Home) -> Self {
        Self { root: home.archives() }
    }

    /// Writes a session, and proves what was written from the disk.
    pub(super) fn write(&self, log: &Log, row: &SessionRow) -> Result<Archive> {
        let file = file_of(row);
        let path = self.root.join(&file);
        let day = path.parent().expect("an archive lies in the directory of its day");
        home::create_directories(day)?;
        home::sync_directory_of(day)?;
        home::sync_directory_of(&self.root)?;
        let unfinished = path.with_extension("jsonl.tmp");
        let _ = fs::remove_file(&unfinished);
        let written = write_to(log, &row.session, &unfinished);
        let put = written.and_then(|(exported, bytes)| {
            home::rename_durably(&unfinished, &path)?;
            Ok((exported, bytes))
        });
        let (Exported { events, digest, .. }, bytes) = put.inspect_err(|_| {
            // It holds space that a full disk needs; what stays is litter that the next one removes.
            let _ = fs::remove_file(&unfinished);
        })?;
        let archive = Archive { session: row.session.clone(), file, events, bytes, digest };
        self.check(&archive)?;
        Ok(archive)
    }

    /// Proves an archive: its lines, and that they are those that were written.
    pub(super) fn check(&self, archive: &Archive) -> Result<()> {
        let path = self.root.join(&archive.file);
        let file = File::open(&path).map_err(|cause| Error::file("read", &path, &cause))?;
        let found = check_export(BufReader::new(file))?;
        if (found.events, found.digest) != (archive.events, archive.digest) {
            let what = format!("{} is another archive", path.display());
            return Err(Error::new(codes::EXPORT_INVALID, what));
        }
        Ok(())
    }

    /// Deletes an archive; one that is gone already is no fault.
    pub(super) fn delete(&self, file: &str) -> Result<()> {
        let path = self.root.join(file);
        match fs::remove_file(&path) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::file("remove", &path, &cause));
            }
            _ => {}
        }
        if let Some(day) = path.parent() {
            // Only the last one of a day leaves an empty directory.
            let _ = fs::remove_dir(day);
        }
        Ok(())
    }

    /// Where an archive lies.
    pub(super) fn path(&self, archive: &Archive) -> PathBuf {
        self.root.join(&archive.file)
    }

    /// Bytes of all archives that are there.
    pub(super) fn bytes(&self, known: &[Known]) -> u64 {
        let there = known.iter().filter(|known| known.stage != Stage::Deleted);
        there.map(|known| known.archive.bytes).sum()
    }
}

fn write_to(log: &Log, session: &SessionId, path: &Path) -> Result<(Exported, u64)> {
    let failed = |cause: &std::io::Error| Error::file("write", path, cause);
    let mut out = BufWriter::new(home::open_private(path)?);
    let exported = log.export_session(session, ExportBlobs::None, &mut out)?;
    out.flush().map_err(|cause| failed(&cause))?;
    let file = out.into_inner().map_err(|cause| failed(cause.error()))?;
    let bytes = file.metadata().map_err(|cause| failed(&cause))?.len();
    Ok((exported, bytes))
}

/// The same for every try, so that one that was cut short is written over.
fn file_of(row: &SessionRow) -> String {
    format!("{}/{}.jsonl", day(row.last_us), row.session)
}

/// The day of a time, in the civil calendar.
fn day(time_us: u64) -> String {
    // Howard Hinnant's `civil_from_days`, with years that begin in March.
    let days = time_us / DAY_US + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{date:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        let check = |seconds: u64, expected: &str| assert_eq!(day(seconds * 1_000_000), expected);
        check(0, "1970-01-01");
        check(86_399, "1970-01-01");
        check(951_782_400, "2000-02-29");
        check(951_868_800, "2000-03-01");
        check(1_709_164_800, "2024-02-29");
        check(1_790_000_000, "2026-09-21");
        check(4_107_542_400, "2100-03-01");
    }
}
