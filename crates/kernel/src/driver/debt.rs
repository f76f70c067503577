//! A project's coverage debt between its sessions: what the newest commit said, kept in a cell that the
//! events make again.

use std::path::Path;

use glasshouse_log::{CellWrite, Log};
use glasshouse_model::body::{CommitCreated, DebtUpdated};
use glasshouse_model::{Decision, Digest, Draft, Fault, Kind, Mode};

use super::Session;
use super::decide::denied_by_kernel;
use crate::session::COVERAGE_DEBT;
use crate::session::debt::{self, Work};
use crate::{Error, Result, codes};

/// Cells with the last debt of each project.
pub(super) const SPACE: &str = "coverage.debt";
/// How often a commit is recorded anew because another session of the project committed meanwhile.
const ATTEMPTS: usize = 8;

/// What a merge would do to the debt, for whoever looks at it.
#[derive(Default)]
pub(super) struct Owed {
    /// Why a person should look.
    pub(super) reason: Option<String>,
    /// Why it cannot be merged at all.
    pub(super) refused: Option<Fault>,
}

/// Space, key and bytes of the cell of a debt.
pub(super) fn cell(debt: &DebtUpdated) -> Result<(String, String, Vec<u8>)> {
    let bytes = serde_json::to_vec(debt)
        .map_err(|e| Error::new(codes::TURN_FAILED, "a debt cannot be written").why(e))?;
    Ok((SPACE.to_owned(), key(&debt.project), bytes))
}

/// Paths can be longer than a key may be.
fn key(project: &str) -> String {
    Digest::of(Path::new(project).as_os_str().as_encoded_bytes()).to_string()
}

/// The last debt of a project, and the version of its cell.
fn known(log: &Log, project: &str) -> Result<(Option<DebtUpdated>, u64)> {
    let Some(cell) = log.cell(SPACE, &key(project))? else { return Ok((None, 0)) };
    let debt = serde_json::from_slice::<DebtUpdated>(&cell.bytes)
        .map_err(|e| Error::new(codes::LOG_UNREADABLE, "a debt cannot be read").why(e))?;
    Ok((Some(debt), cell.version))
}

/// What a new session is told of the debt that others left.
pub(super) fn carried(log: &Log, project: &str) -> Result<Option<Draft>> {
    let (known, _) = known(log, project)?;
    Ok(known.map(|debt| Draft::new(Kind::DebtUpdated, &DebtUpdated { carried: true, ..debt })))
}

impl Session {
    /// Nothing is explored while coverage is owed.
    pub(super) fn unless_locked(&self, decision: Decision, to: Mode) -> Decision {
        let owed = self.state().debt.as_ref().filter(|debt| debt.level.locks());
        match owed {
            Some(owed) if to == Mode::Explore => {
                denied_by_kernel(decision, COVERAGE_DEBT, debt::told(owed))
            }
            _ => decision,
        }
    }

    fn project(&self) -> &str {
        self.state().created.as_ref().map_or("", |created| &created.project)
    }

    /// What merging the change set would do to the debt.
    pub(super) fn would_owe(&self) -> Result<Owed> {
        if self.state().work() != Work::Explored {
            return Ok(Owed::default());
        }
        let (Some(before), _) = known(self.recorder.log(), self.project())? else {
            return Ok(Owed::default());
        };
        let was = debt::percent(before.baseline_permille);
        let after = self.state().coverage().and_then(|coverage| {
            debt::after_commit(
                self.project(),
                Some(debt::standing(&before)),
                coverage,
                Work::Explored,
            )
        });
        let reason = match &after {
            None => Some(format!(
                "the tests left no report of their coverage; {was} of the source lines were covered before"
            )),
            Some(after) if after.level.is_owed() => Some(debt::told(after)),
            Some(_) => None,
        };
        // Who explored before the lock cannot explore around it.
        let stays = after.is_none_or(|after| after.level.locks());
        let refused = (before.level.locks() && stays).then(|| {
            Fault::new(codes::COVERAGE_OWED, "what was explored is not merged")
                .why(reason.clone().unwrap_or_default())
        });
        Ok(Owed { reason, refused })
    }

    /// Records a commit with what it does to the debt.
    pub(super) async fn record_commit(&mut self, commit: CommitCreated) -> Result<()> {
        let commit = Draft::new(Kind::CommitCreated, &commit);
        for _ in 0..ATTEMPTS {
            let (debt, cells) = self.debt_of_commit()?;
            let drafts = debt.into_iter().chain([commit.clone()]).collect();
            match self.recorder.record_with(drafts, cells).await {
                Err(error) if error.is(glasshouse_log::codes::CELL_CONFLICT) => {}
                done => return done,
            }
        }
        // Others commit all the time; theirs is the newer word on the debt.
        self.recorder.record(vec![commit]).await
    }

    fn debt_of_commit(&self) -> Result<(Option<Draft>, Vec<CellWrite>)> {
        let Some(coverage) = self.state().coverage() else { return Ok((None, Vec::new())) };
        let (before, version) = known(self.recorder.log(), self.project())?;
        let before = before.as_ref().map(debt::standing);
        let Some(debt) = debt::after_commit(self.project(), before, coverage, self.state().work())
        else {
            return Ok((None, Vec::new()));
        };
        let (space, key, bytes) = cell(&debt)?;
        let cell = CellWrite { space, key, expected_version: Some(version), bytes: Some(bytes) };
        Ok((Some(Draft::new(Kind::DebtUpdated, &debt)), vec![cell]))
    }
}
