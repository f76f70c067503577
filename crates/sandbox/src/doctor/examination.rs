//! What the last examination of a host found, kept for the sandboxes that are made on it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{BackendReport, Probe};
use crate::Level;
use crate::leftovers::boot_id;

/// Largest file that is read.
const MAX_BYTES: u64 = 64 << 10;

/// The file's content. Whoever can write it can only lower what sandboxes claim.
#[derive(Debug, Serialize, Deserialize)]
struct Examination {
    level: Level,
    /// Another start of the machine may be another kernel.
    boot: String,
    /// Claims that did not hold.
    failed: Vec<String>,
}

fn file(home: &Path) -> PathBuf {
    home.join("examination.json")
}

/// Where it is written before it takes its name.
fn beside(home: &Path) -> PathBuf {
    home.join(format!("examination.{}.new", std::process::id()))
}

/// The level of the last examination since the machine started; a file that cannot be read refuses.
pub(crate) fn level(home: &Path) -> Option<Level> {
    let meta = match fs::symlink_metadata(file(home)) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(_) => return Some(Level::Refused),
    };
    let read = || {
        let text = (meta.is_file() && meta.len() <= MAX_BYTES)
            .then(|| fs::read_to_string(file(home)).ok())
            .flatten()?;
        serde_json::from_str::<Examination>(&text).ok()
    };
    match read() {
        Some(found) if Some(&found.boot) == boot_id().as_ref() => Some(found.level),
        Some(_) => None,
        None => Some(Level::Refused),
    }
}

/// Keeps what was found. A host on which no sandbox can be made at all keeps nothing: there the next
/// one fails by itself, or the cause is gone. Answers whether it was kept: without that, sandboxes go
/// on claiming what they read back.
pub(super) fn keep(home: &Path, report: &BackendReport) -> Option<Probe> {
    let made = report.probes.first().is_some_and(Probe::held);
    if !made {
        return None;
    }
    let failed = report.probes.iter().filter(|probe| !probe.held());
    let found = Examination {
        level: report.level,
        boot: boot_id().unwrap_or_default(),
        failed: failed.map(|probe| probe.name.clone()).collect(),
    };
    let beside = beside(home);
    let write = || -> std::io::Result<()> {
        let mut out = fs::File::create(&beside)?;
        out.write_all(&serde_json::to_vec(&found)?)?;
        out.sync_all()?;
        fs::rename(&beside, file(home))
    };
    let failure = write().err().map(|error| {
        (
            format!("cannot write {}: {error}", file(home).display()),
            "make the data directory writable",
        )
    });
    Some(Probe::new("kept", "later sandboxes know what was found", failure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_holds_until_the_machine_starts_again() {
        let home = tempfile::tempdir().unwrap();
        let report = |level, failed: &[&str]| BackendReport {
            name: "native".to_owned(),
            level,
            probes: ["create", "network", "limits"]
                .map(|name| {
                    let failure =
                        failed.contains(&name).then(|| ("the attack succeeded".to_owned(), "x"));
                    Probe::new(name, "", failure)
                })
                .to_vec(),
        };
        assert_eq!(level(home.path()), None);
        keep(home.path(), &report(Level::Refused, &["create"]));
        assert_eq!(level(home.path()), None, "nothing was examined");
        keep(home.path(), &report(Level::Refused, &["network"]));
        assert_eq!(level(home.path()), Some(Level::Refused));
        keep(home.path(), &report(Level::NoCgroup, &["limits"]));
        assert_eq!(level(home.path()), Some(Level::NoCgroup));
        keep(home.path(), &report(Level::Full, &[]));
        assert_eq!(level(home.path()), Some(Level::Full));
        fs::create_dir(beside(home.path())).unwrap();
        let told = keep(home.path(), &report(Level::Full, &[])).unwrap();
        assert!(!told.held() && !told.remedy.is_empty(), "{told:?}");
        let earlier = "{\"level\":\"refused\",\"boot\":\"another\",\"failed\":[]}";
        fs::write(file(home.path()), earlier).unwrap();
        assert_eq!(level(home.path()), None);
        for broken in ["", "{}", "{\"level\":\"best\",\"boot\":\"\",\"failed\":[]}"] {
            fs::write(file(home.path()), broken).unwrap();
            assert_eq!(level(home.path()), Some(Level::Refused), "{broken}");
        }
    }
}
