//! What is done with plans that are not kept: decided and recorded like everything else.

use std::cell::RefCell;

use glasshouse_log::{Append, Log};
use glasshouse_model::{BranchId, Draft};
use glasshouse_plan::{LANE_WITHOUT_CODE, Plan, ProfileName};

use super::{ATTEMPTS, Chosen, Coded, Home, Plans, denied, is_race};
use crate::{Error, Result, codes};

/// Whether showing a plan runs code: a source of its own, or modules.
#[must_use]
pub fn runs_code(plan: &Plan) -> bool {
    let has_modules = plan.imports().next().is_some() || !plan.component_modules().is_empty();
    plan.source().is_some() || has_modules || plan.lane() != LANE_WITHOUT_CODE
}

impl Plans {
    /// Runs the code of a plan that is not kept, with its initial state. The decision on it (`ui.render`) is
    /// durable before anything runs; nothing else is recorded.
    ///
    /// # Errors
    /// `policy_denied`; as a run of a plan that is kept; the log's errors.
    pub fn run_aside(&self, plan: &Plan, asked: ProfileName) -> Result<Option<Coded>> {
        let (decision, decided) = self.decide(None, Some(plan.id()));
        append_aside(&self.log, &RefCell::default(), &[decision])?;
        let constraints = decided.map_err(|why| denied(&why))?;
        let chosen = Chosen::new(asked, &constraints)?;
        self.coder.show(plan, &chosen.profile, (&self.cancel, &self.masker))
    }
}

/// Appends events that depend on nothing on the branch of the plans. The first of all bring the cell that
/// names it.
pub(super) fn append_aside(
    log: &Log,
    known: &RefCell<Option<Home>>,
    events: &[Draft],
) -> Result<()> {
    in_turn(log, || {
        let home = known.borrow_mut().take();
        let (home, cell) = match home.map_or_else(|| Home::known(log), |home| Ok(Some(home)))? {
            Some(home) => (home, None),
            None => Home::new(log).map(|(home, cell)| (home, Some(cell)))?,
        };
        let (session, branch) = (home.session.clone(), home.branch.clone());
        let made = cell.is_some().then(|| branch.clone());
        let cells = cell.into_iter().collect();
        let append = Append { cells, ..Append::new(session, branch, events.to_vec()) };
        let appended = log.append(append).map(|_| drop(known.replace(Some(home))));
        Ok((made, appended.map_err(Error::from)))
    })
}

/// Appends until no other writer comes first. An attempt answers the branch that it made, if it made one, and
/// what it led to.
pub(super) fn in_turn<T>(
    log: &Log,
    mut attempt: impl FnMut() -> Result<(Option<BranchId>, Result<T>)>,
) -> Result<T> {
    for _ in 0..ATTEMPTS {
        let (made, led_to) = attempt()?;
        if !led_to.as_ref().is_err_and(is_race) {
            return led_to;
        }
        if let Some(branch) = made {
            // Somebody else was first; their branch is the one.
            log.close_branch(&branch)?;
        }
    }
    Err(Error::new(codes::PLAN_CONFLICT, "the record did not get its turn"))
}
