//! What the last examination of a host found, kept for the sandboxes that are made on it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::BackendReport;
use crate::Level;

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

/// Name of this start of the machine.
fn boot() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
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
        Some(found) if found.boot == boot() => Some(found.level),
        Some(_) => None,
        None => Some(Level::Refused),
    }
}

/// Keeps what was found. A host on which no sandbox can be made at all keeps nothing: there the next
/// one fails by itself, or the cause is gone.
pub(super) fn keep(home: &Path, report: &BackendReport) {
    let made = report.probes.first().is_some_and(super::Probe::held);
    if !made {
        return;
    }
    let failed = report.probes.iter().filter(|probe| !probe.held());
    let found = Examination {
        level: report.level,
        boot: boot(),
        failed: failed.map(|probe| probe.name.clone()).collect(),
    };
    let beside = home.join(format!("examination.{}.new", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut out = fs::File::create(&beside)?;
        out.write_all(&serde_json::to_vec(&found)?)?;
        out.sync_all()?;
        fs::rename(&beside, file(home))
    };
    // The report itself is told whatever happens here.
    let _ = write();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Probe;

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
        let earlier = "{\"level\":\"refused\",\"boot\":\"another\",\"failed\":[]}";
        fs::write(file(home.path()), earlier).unwrap();
        assert_eq!(level(home.path()), None);
        for broken in ["", "{}", "{\"level\":\"best\",\"boot\":\"\",\"failed\":[]}"] {
            fs::write(file(home.path()), broken).unwrap();
            assert_eq!(level(home.path()), Some(Level::Refused), "{broken}");
        }
    }
}
