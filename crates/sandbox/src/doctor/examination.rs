//! What an examination of a host found, for the sandboxes that are made on it.
//!
//! Whoever has a host examined records it where nobody can change it unseen, and tells each host process
//! ([`crate::SandboxHost::set_examined`]). Nothing of it is kept here: a file would be anybody's to better.

use serde::{Deserialize, Serialize};

use super::DoctorReport;
use crate::Level;
use crate::leftovers::boot_id;

/// What an examination found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Examination {
    /// The most that a sandbox may claim.
    pub level: Level,
    /// The start of the machine that was examined: another may be another kernel.
    pub boot: String,
    /// Claims that did not hold.
    pub failed: Vec<String>,
}

impl Examination {
    /// What a report says of sandboxes to come. None of a host on which no sandbox can be made at all:
    /// there the next one fails by itself, or the cause is gone.
    #[must_use]
    pub fn of(report: &DoctorReport) -> Option<Self> {
        let native = report.backends.first()?;
        native.probes.first().filter(|made| made.held())?;
        let failed = native.probes.iter().filter(|probe| !probe.held());
        Some(Self {
            level: native.level,
            boot: boot_id().unwrap_or_default(),
            failed: failed.map(|probe| probe.name.clone()).collect(),
        })
    }

    /// The most that a sandbox may claim now; none when the machine has started since. Where no start can be
    /// told from another, what was found goes on to hold.
    #[must_use]
    pub fn level_now(&self) -> Option<Level> {
        self.level_in(boot_id().as_deref())
    }

    fn level_in(&self, boot: Option<&str>) -> Option<Level> {
        let is_later = boot.is_some_and(|boot| !self.boot.is_empty() && boot != self.boot);
        (!is_later).then_some(self.level)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BackendReport, Probe};
    use super::*;

    #[test]
    fn what_was_found_holds_until_the_machine_starts_again() {
        let found = |level, failed: &[&str]| {
            let probe = |name: &&str| {
                let failure = failed.contains(name).then(|| ("it succeeded".to_owned(), "x"));
                Probe::new(name, "", failure)
            };
            let probes = ["create", "network", "limits"].iter().map(probe).collect();
            let native = BackendReport { name: "native".to_owned(), level, probes };
            Examination::of(&DoctorReport { level, backends: vec![native] })
        };
        assert_eq!(found(Level::Refused, &["create"]), None, "nothing was examined");
        for (level, failed) in [(Level::Refused, "network"), (Level::NoCgroup, "limits")] {
            let found = found(level, &[failed]).unwrap();
            assert_eq!((found.level_now(), &found.failed), (Some(level), &vec![failed.to_owned()]));
            let earlier = Examination { boot: "another".to_owned(), ..found };
            assert_eq!(earlier.level_now(), None);
            assert_eq!(earlier.level_in(None), Some(level));
            let unknown = Examination { boot: String::new(), ..earlier };
            assert_eq!(unknown.level_now(), Some(level));
        }
    }
}
