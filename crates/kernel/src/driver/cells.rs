//! Cells compared with the events that made them. A cell is an index: where it says something else, the
//! events are right, and an event says that it was made again.

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_log::{CellWrite, Log, SessionRow};
use glasshouse_model::body::{GrantEnded, GrantUsed, LogRecovered, PolicyChange};
use glasshouse_model::{Digest, Draft, Event, Kind};
use glasshouse_policy::REVOKED;
use serde::Serialize;

use super::journal::Journal;
use super::{Kernel, grants, rules};
use crate::{Result, plans};

/// By space and key: what the events say.
type Expected = BTreeMap<(String, String), Vec<u8>>;

/// A cell that was not as the events say, and was made again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepairedCell {
    /// Its space.
    pub space: String,
    /// Its key.
    pub key: String,
    /// Digest of what the events say.
    pub expected: Digest,
    /// Digest of what was there; absent when the cell was gone.
    pub found: Option<Digest>,
}

impl Kernel {
    /// Compares what was accepted, what was used and where the plans are with the events of all
    /// sessions, makes again what differs, and says so in an event.
    ///
    /// # Errors
    /// What reading the log answers, or a storage error.
    pub fn check_cells(&self) -> Result<Vec<RepairedCell>> {
        let mut repaired = Vec::new();
        for ((space, key), bytes) in expected(&self.log)? {
            let found = self.log.cell(&space, &key)?;
            if found.as_ref().is_some_and(|cell| cell.bytes == bytes) {
                continue;
            }
            let (expected, found) = (Digest::of(&bytes), found.map(|cell| Digest::of(&cell.bytes)));
            let body = LogRecovered {
                what: format!("cell {space}"),
                branch: None,
                seq: None,
                expected: Some(expected),
                found,
                detail: None,
            };
            let (space_name, key_name) = (space.clone(), key.clone());
            let cell = CellWrite { space, key, expected_version: None, bytes: Some(bytes) };
            let said = Draft::new(Kind::LogRecovered, &body);
            Journal::open(self)?.append_with(vec![said], vec![cell])?;
            repaired.push(RepairedCell { space: space_name, key: key_name, expected, found });
        }
        if !repaired.is_empty() {
            self.log.sign_head()?;
        }
        Ok(repaired)
    }
}

/// What the events of all sessions say that this log recorded. Those of archived sessions say nothing any
/// more, and so nothing of their cells is compared.
fn expected(log: &Log) -> Result<Expected> {
    let mut fold = Fold::default();
    for row in log.sessions()? {
        fold.session(log, &row)?;
    }
    let mut cells = Expected::new();
    for (project, (_, digest)) in fold.accepted {
        let (space, key, bytes) = rules::accepted_cell(&project, digest)?;
        cells.insert((space, key), bytes);
    }
    for (grant, counter) in fold.used {
        let (space, bytes) = grants::use_counter(counter);
        cells.insert((space, grant), bytes);
    }
    for grant in fold.ended {
        let (space, bytes) = grants::use_counter(REVOKED);
        cells.insert((space, grant), bytes);
    }
    if let Some(((space, key), bytes)) = fold.plans {
        cells.insert((space, key), bytes);
    }
    Ok(cells)
}

#[derive(Default)]
struct Fold {
    /// By project: the position of the newest acceptance, and what was accepted.
    accepted: BTreeMap<String, (u64, Digest)>,
    /// By grant: the largest counter.
    used: BTreeMap<String, u64>,
    /// Grants that can be used no more.
    ended: BTreeSet<String>,
    plans: Option<((String, String), Vec<u8>)>,
}

impl Fold {
    fn session(&mut self, log: &Log, row: &SessionRow) -> Result<()> {
        for branch in log.branches(&row.session)? {
            if branch.is_imported {
                // It says what was so in another log; here it gives no right and takes none.
                continue;
            }
            let own = branch.base().seq + 1;
            for event in log.events_from(&branch.branch, own) {
                self.apply(log, &event?)?;
            }
            if branch.name == plans::BRANCH_NAME && branch.head.seq > 0 {
                self.plans = Some(plans::place_cell(&row.session, &branch.branch)?);
            }
        }
        Ok(())
    }

    fn apply(&mut self, log: &Log, event: &Event) -> Result<()> {
        match event.kind() {
            Kind::PolicyUpdated => {
                let Ok(change) = event.body_as::<PolicyChange>() else { return Ok(()) };
                let record = log.records(&event.header.branch, event.seq(), 1)?.pop();
                let position = record.map_or(0, |record| record.position);
                let newest = self.accepted.entry(change.project).or_insert((0, Digest::ZERO));
                if position >= newest.0 {
                    *newest = (position, change.text.blob);
                }
            }
            Kind::GrantUsed => {
                let Ok(GrantUsed { grant, counter }) = event.body_as() else { return Ok(()) };
                let most = self.used.entry(grant).or_default();
                *most = counter.max(*most);
            }
            Kind::GrantRevoked | Kind::GrantExpired => {
                let Ok(GrantEnded { grant, .. }) = event.body_as() else { return Ok(()) };
                self.ended.insert(grant);
            }
            _ => {}
        }
        Ok(())
    }
}
