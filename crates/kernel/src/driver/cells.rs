//! Cells compared with the events that made them. A cell is an index: where it says something else, the
//! events are right, and an event says that it was made again.

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_log::{Cell, CellWrite, Log, SessionRow};
use glasshouse_model::body::{
    DebtUpdated, GrantEnded, GrantIssued, GrantUsed, LogRecovered, PolicyChange, SandboxExamined,
};
use glasshouse_model::{Digest, Draft, Event, Kind};
use serde::Serialize;

use super::decide::now_us;
use super::journal::Journal;
use super::{Kernel, accepting, debt, examined, grants, rules};
use crate::plans::{self, Runs};
use crate::{Error, Result, codes};

/// A cell by space and key.
type Name = (String, String);
/// What the events say; of cells that are not named nothing, or that there are none.
type Expected = BTreeMap<Name, Vec<u8>>;

/// How often cells are compared anew because somebody changed one meanwhile.
const ATTEMPTS: usize = 5;
/// Cells read at a time.
const PAGE: usize = 256;
/// Spaces whose cells give or take a right: one that no event made goes.
const RIGHTS: [&str; 4] = [rules::ACCEPTED_SPACE, grants::GRANTS, debt::SPACE, examined::SPACE];

/// Every space whose cells are compared.
const SPACES: [&str; 7] = [
    rules::ACCEPTED_SPACE,
    grants::GRANTS,
    grants::USES,
    plans::SPACE,
    plans::QUOTAS,
    debt::SPACE,
    examined::SPACE,
];

/// A cell that was not as the events say, and was made again or taken away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepairedCell {
    /// Its space.
    pub space: String,
    /// Its key.
    pub key: String,
    /// Digest of what the events say; absent when they say that there is none.
    pub expected: Option<Digest>,
    /// Digest of what was there; absent when the cell was gone.
    pub found: Option<Digest>,
}

impl Kernel {
    /// Compares what was accepted, given and used, what counts against quotas, and where the plans are
    /// with the events of all sessions, makes again what differs, and says so in an event.
    ///
    /// # Errors
    /// What reading the log answers, or a storage error.
    pub fn check_cells(&self) -> Result<Vec<RepairedCell>> {
        let mut repaired = Vec::new();
        for _ in 0..ATTEMPTS {
            if self.repair_cells(&mut repaired)? {
                if !repaired.is_empty() {
                    self.log.sign_head()?;
                }
                return Ok(repaired);
            }
        }
        Err(Error::new(codes::LOG_UNREADABLE, "the cells could not be compared")
            .why("others changed them all the time")
            .fix("try again while no session runs"))
    }

    /// False when somebody changed a cell that was to be repaired: it may be right by now.
    fn repair_cells(&self, repaired: &mut Vec<RepairedCell>) -> Result<bool> {
        // Read first: what changes while the events are folded has another version then.
        let before = present(&self.log)?;
        let expected = expected(&self.log)?;
        let spare = before
            .keys()
            .filter(|name| RIGHTS.contains(&name.0.as_str()) && !expected.contains_key(*name));
        let wanted = expected.iter().map(|(name, bytes)| (name, Some(bytes)));
        for (name, bytes) in wanted.chain(spare.map(|name| (name, None))) {
            let found = before.get(name);
            if found.map(|cell| &cell.bytes) == bytes {
                continue;
            }
            let (expected, digest) =
                (bytes.map(|b| Digest::of(b)), found.map(|c| Digest::of(&c.bytes)));
            let body = LogRecovered {
                what: format!("cell {}", name.0),
                branch: None,
                seq: None,
                expected,
                found: digest,
                detail: None,
            };
            let (space, key) = name.clone();
            let cell = CellWrite {
                space,
                key,
                expected_version: Some(found.map_or(0, |cell| cell.version)),
                bytes: bytes.cloned(),
            };
            let said = Draft::new(Kind::LogRecovered, &body);
            match Journal::open(self)?.append_with(vec![said], vec![cell]) {
                Err(error) if error.is(glasshouse_log::codes::CELL_CONFLICT) => return Ok(false),
                done => {
                    done?;
                }
            }
            let (space, key) = name.clone();
            repaired.push(RepairedCell { space, key, expected, found: digest });
        }
        Ok(true)
    }
}

/// Every cell that is compared.
fn present(log: &Log) -> Result<BTreeMap<Name, Cell>> {
    let mut cells = BTreeMap::new();
    for space in SPACES {
        let mut after = String::new();
        loop {
            let page = log.cells(space, &after, PAGE)?;
            let Some((last, _)) = page.last() else { break };
            after.clone_from(last);
            cells.extend(page.into_iter().map(|(key, cell)| ((space.to_owned(), key), cell)));
        }
    }
    Ok(cells)
}

/// What the events of all sessions say that this log recorded. Those of archived sessions say nothing any
/// more; what is looked up later keeps a session from being archived.
fn expected(log: &Log) -> Result<Expected> {
    let mut fold = Fold::default();
    for row in log.sessions()? {
        fold.session(log, &row)?;
    }
    let mut cells = Expected::new();
    for (project, (_, digest)) in fold.accepted {
        let (space, key, bytes) = accepting::accepted_cell(&project, digest)?;
        cells.insert((space, key), bytes);
    }
    for (_, debt) in fold.owed.into_values() {
        let (space, key, bytes) = debt::cell(&debt)?;
        cells.insert((space, key), bytes);
    }
    if let Some((_, found)) = fold.examined {
        let (space, key, bytes) = examined::cell(&found)?;
        cells.insert((space, key), bytes);
    }
    for (grant, bytes) in fold.given {
        cells.insert((grants::GRANTS.to_owned(), grant), bytes);
    }
    for grant in fold.ended {
        let uses = fold.used.remove(&grant).unwrap_or(0);
        let (space, bytes) = grants::expected_end(log, &grant, uses)?;
        cells.insert((space, grant), bytes);
    }
    for (grant, counter) in fold.used {
        let (space, bytes) = grants::use_counter(counter);
        cells.insert((space, grant), bytes);
    }
    if let Some((name, bytes)) = fold.plans {
        cells.insert(name, bytes);
    }
    if let Some((key, bytes)) = plans::expected_quota(log, &fold.runs, now_us())? {
        cells.insert((plans::QUOTAS.to_owned(), key), bytes);
    }
    Ok(cells)
}

#[derive(Default)]
struct Fold {
    /// By project: the position of the newest acceptance, and what was accepted.
    accepted: BTreeMap<String, (u64, Digest)>,
    /// By project: the position of the newest debt, and it.
    owed: BTreeMap<String, (u64, DebtUpdated)>,
    /// The position of the newest examination, and what it found.
    examined: Option<(u64, SandboxExamined)>,
    /// By standing grant: its cell.
    given: BTreeMap<String, Vec<u8>>,
    /// By grant: the largest counter.
    used: BTreeMap<String, u64>,
    /// Grants that can be used no more.
    ended: BTreeSet<String>,
    plans: Option<(Name, Vec<u8>)>,
    /// Runs of plans.
    runs: Runs,
}

impl Fold {
    fn session(&mut self, log: &Log, row: &SessionRow) -> Result<()> {
        for branch in log.branches(&row.session)? {
            if branch.is_imported {
                // It says what was so in another log; here it gives no right and takes none.
                continue;
            }
            let own = branch.base().seq + 1;
            let is_of_plans = branch.name == plans::BRANCH_NAME;
            for event in log.events_from(&branch.branch, own) {
                let event = event?;
                self.apply(log, &event)?;
                if is_of_plans {
                    self.runs.apply(&event);
                }
            }
            if is_of_plans && branch.head.seq > 0 {
                self.plans = Some(plans::place_cell(&row.session, &branch.branch)?);
            }
        }
        Ok(())
    }

    fn apply(&mut self, log: &Log, event: &Event) -> Result<()> {
        match event.kind() {
            Kind::PolicyUpdated => {
                let Ok(change) = event.body_as::<PolicyChange>() else { return Ok(()) };
                let position = position(log, event)?;
                let newest = self.accepted.entry(change.project).or_insert((0, Digest::ZERO));
                if position >= newest.0 {
                    *newest = (position, change.text.blob);
                }
            }
            Kind::DebtUpdated => {
                let Ok(debt) = event.body_as::<DebtUpdated>() else { return Ok(()) };
                let position = position(log, event)?;
                let known = self.owed.get(&debt.project).map_or(0, |(position, _)| *position);
                if !debt.carried && position >= known {
                    self.owed.insert(debt.project.clone(), (position, debt));
                }
            }
            Kind::SandboxExamined => {
                let Ok(found) = event.body_as() else { return Ok(()) };
                let position = position(log, event)?;
                if self.examined.as_ref().is_none_or(|newest| position >= newest.0) {
                    self.examined = Some((position, found));
                }
            }
            Kind::GrantIssued => {
                let Ok(GrantIssued { grant, standing: Some(terms), .. }) = event.body_as() else {
                    return Ok(());
                };
                self.given.insert(grant.clone(), grants::expected(log, event, &grant, terms)?);
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

/// Whether rights and limits are read from events of a kind, long after: they stay whole, for without one of them
/// what it took away would be given again.
pub(super) const fn decides_later(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::PolicyUpdated
            | Kind::DebtUpdated
            | Kind::SandboxExamined
            | Kind::GrantIssued
            | Kind::GrantUsed
            | Kind::GrantExpired
            | Kind::GrantRevoked
            | Kind::KeyCreated
            | Kind::KeyRevoked
            | Kind::TenantCreated
            | Kind::TenantUpdated
            | Kind::TenantDisabled
    )
}

/// Where an event is among all events of the log.
fn position(log: &Log, event: &Event) -> Result<u64> {
    let record = log.records(&event.header.branch, event.seq(), 1)?.pop();
    Ok(record.map_or(0, |record| record.position))
}
