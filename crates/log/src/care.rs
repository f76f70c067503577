//! What is looked after when a log is opened: bytes that are no log are set aside, and the newest
//! events are proved. Neither keeps a log from opening; both are told in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use glasshouse_model::body::{LogChainBroken, LogQuarantined};
use glasshouse_model::{Draft, Kind};

use crate::clock::Clock;
use crate::codes;
use crate::error::{Error, Result};
use crate::home::{self, Home};
use crate::log::Log;
use crate::sqlite::{Tail, torn_tail};
use crate::store::Leaf;

/// Files that are kept aside; the oldest go.
const MAX_QUARANTINED: usize = 16;
/// Newest events that are proved at an opening.
const MAX_PROVED: u64 = 256;
/// Longest time for it.
const LONGEST: Duration = Duration::from_millis(50);
const SUFFIX: &str = ".wal-tail";

/// Bytes that were set aside.
pub(crate) struct Quarantined {
    file: PathBuf,
    bytes: u64,
    tail: Tail,
}

/// Sets aside what stands behind the last transaction of the write-ahead log, unless it is only what
/// every process leaves that is killed while it writes. Nobody may be writing to the log.
pub(crate) fn quarantine(home: &Home, clock: &dyn Clock) -> Result<Option<Quarantined>> {
    match set_aside(home, clock) {
        // On a full disk the log still opens, so that it can be read and room be made.
        Err(error) if error.is(codes::STORAGE_FULL) => Ok(None),
        other => other,
    }
}

fn set_aside(home: &Home, clock: &dyn Clock) -> Result<Option<Quarantined>> {
    let (tail, bytes) = torn_tail(&home.write_ahead_log())?;
    if matches!(tail, Tail::None | Tail::Begun) {
        return Ok(None);
    }
    let directory = home.quarantine();
    home::create_directory(&directory)?;
    let file = directory.join(format!("{:020}{SUFFIX}", clock.now_us()));
    home::write_atomically(&file, &bytes)?;
    home::sync_directory_of(&directory)?;
    let mut kept = quarantined(home)?;
    kept.truncate(kept.len().saturating_sub(MAX_QUARANTINED));
    for old in kept {
        fs::remove_file(&old).map_err(|cause| Error::file("remove", &old, &cause))?;
    }
    let bytes = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    Ok(Some(Quarantined { file, bytes, tail }))
}

/// Files that were set aside, the oldest first.
pub(crate) fn quarantined(home: &Home) -> Result<Vec<PathBuf>> {
    let mut files = home::entries(&home.quarantine())?;
    files.retain(|path| path.to_string_lossy().ends_with(SUFFIX));
    files.sort_unstable();
    Ok(files)
}

/// The same by their names below the home.
pub(crate) fn quarantined_names(home: &Home) -> Result<Vec<String>> {
    Ok(quarantined(home)?.iter().map(|file| shown(file)).collect())
}

impl Log {
    /// Says in the log what was set aside, and which of the newest events do not prove themselves.
    pub(crate) fn tell_of_care(&self, set_aside: Option<Quarantined>) -> Result<()> {
        if let Some(Quarantined { file, bytes, tail }) = set_aside {
            let file = shown(&file);
            let reason = match tail {
                Tail::Torn => {
                    "the last write was cut short before anybody was told of it, or was damaged since"
                }
                _ => {
                    "bytes that no end of the program leaves: power was lost, or the file was changed"
                }
            };
            let reason = reason.to_owned();
            let body = LogQuarantined { file, bytes, reason };
            self.note(Draft::new(Kind::LogQuarantined, &body), None)?;
        }
        for broken in self.broken_tail()? {
            let key = broken
                .branch
                .as_ref()
                .map(|branch| format!("chain broken {branch} {}", broken.seq.unwrap_or_default()));
            self.note(Draft::new(Kind::LogChainBroken, &broken), key)?;
        }
        Ok(())
    }

    /// Those of the newest events that do not prove themselves, one of each branch.
    fn broken_tail(&self) -> Result<Vec<LogChainBroken>> {
        let deadline = Instant::now() + LONGEST;
        let mut broken: Vec<LogChainBroken> = Vec::new();
        for Leaf { branch, seq, .. } in self.newest_leaves(MAX_PROVED)? {
            if Instant::now() > deadline {
                break;
            }
            if broken.iter().any(|known| known.branch.as_ref() == Some(&branch)) {
                continue;
            }
            let Err(error) = self.read(&branch, seq, 1) else { continue };
            let report = error.report();
            let Some(kind) = report.context.get("kind").and_then(|kind| kind.as_str()) else {
                return Err(error.clone());
            };
            let (kind, branch) = (kind.to_owned(), Some(branch));
            broken.push(LogChainBroken { kind, branch, seq: Some(seq) });
        }
        Ok(broken)
    }
}

/// A file by its name below the home.
fn shown(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    format!("quarantine/{name}")
}
