//! Coverage debt: what explored work takes from the part of the sources that tests run.
//!
//! Strict work sets the baseline. What is explored is measured against it when it is merged: a little less is
//! told to the person who looks, much less locks exploring until the coverage is back. Tests that are
//! written later pay, whoever writes them; exempt work costs nothing.

use glasshouse_model::body::{Coverage, DebtBefore, DebtUpdated};
use glasshouse_model::{DebtLevel, Mode};

use super::State;

/// Coverage below the baseline by more than this is told, in thousandths.
const WARN_BELOW_PERMILLE: u32 = 20;
/// Coverage below the baseline by more than this locks exploring, in thousandths.
const LOCK_BELOW_PERMILLE: u32 = 50;

/// How a commit's work was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// Tests first.
    Strict,
    /// Without.
    Explored,
    /// By an exemption.
    Exempt,
}

impl State {
    /// How the work under way is done.
    #[must_use]
    pub fn work(&self) -> Work {
        match (self.mode(), &self.exemption) {
            (Mode::Strict, None) => Work::Strict,
            (Mode::Strict, Some(_)) => Work::Exempt,
            (Mode::Explore | Mode::Debug, _) => Work::Explored,
        }
    }

    /// Coverage of exactly the content that is sealed now, if its passing run left a report.
    #[must_use]
    pub fn coverage(&self) -> Option<&Coverage> {
        self.green()?.evidence.coverage.as_ref().filter(|coverage| coverage.lines > 0)
    }
}

/// Coverage in thousandths, rounded down.
#[must_use]
pub fn permille(coverage: &Coverage) -> u32 {
    let part = u128::from(coverage.covered_lines.min(coverage.lines)) * 1000;
    u32::try_from(part / u128::from(coverage.lines.max(1))).unwrap_or(1000)
}

/// Thousandths as people read them.
#[must_use]
pub fn percent(permille: u32) -> String {
    format!("{}.{} %", permille / 10, permille % 10)
}

/// How a project's debt stands after a commit; `None` where the commit says nothing about it.
#[must_use]
pub fn after_commit(
    project: &str,
    before: Option<DebtBefore>,
    coverage: &Coverage,
    work: Work,
) -> Option<DebtUpdated> {
    let now = permille(coverage);
    let owes = before.as_ref().is_some_and(|before| before.level != DebtLevel::None);
    let (baseline, level) = match (&before, work) {
        // Only strict work says what is owed to begin with.
        (None, Work::Strict) => (now, DebtLevel::None),
        (None, Work::Explored | Work::Exempt) => return None,
        (Some(_), Work::Strict) if !owes => (now, DebtLevel::None),
        (Some(before), Work::Strict) if now >= before.baseline_permille => (now, DebtLevel::None),
        (Some(before), _) if now >= before.baseline_permille => {
            (before.baseline_permille, DebtLevel::None)
        }
        (Some(_), Work::Exempt) => return None,
        (Some(before), Work::Strict | Work::Explored) => {
            let missing = before.baseline_permille - now;
            let level = match before.level {
                DebtLevel::Locked => DebtLevel::Locked,
                _ if missing > LOCK_BELOW_PERMILLE => DebtLevel::Locked,
                _ if missing > WARN_BELOW_PERMILLE => DebtLevel::Warning,
                _ => DebtLevel::None,
            };
            (before.baseline_permille, level)
        }
    };
    if work == Work::Exempt && !owes {
        return None;
    }
    let wanted = (u128::from(baseline) * u128::from(coverage.lines)).div_ceil(1000);
    let owed = wanted.saturating_sub(u128::from(coverage.covered_lines));
    Some(DebtUpdated {
        project: project.to_owned(),
        carried: false,
        coverage_permille: now,
        baseline_permille: baseline,
        owed_lines: u64::try_from(owed).unwrap_or(u64::MAX),
        level,
        before,
    })
}

/// What an update leaves for the next one.
#[must_use]
pub const fn standing(debt: &DebtUpdated) -> DebtBefore {
    DebtBefore { baseline_permille: debt.baseline_permille, level: debt.level }
}

/// A debt in words.
#[must_use]
pub fn told(debt: &DebtUpdated) -> String {
    let (now, baseline) = (percent(debt.coverage_permille), percent(debt.baseline_permille));
    let owed = debt.owed_lines;
    let first = format!("{now} of the source lines are covered by tests, {baseline} were before");
    match debt.level {
        DebtLevel::None => first,
        DebtLevel::Warning => format!("{first}: tests for {owed} lines are owed"),
        DebtLevel::Locked => format!(
            "{first}: tests for {owed} lines are owed, and no session explores until strict work has \
             brought them"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One row: what was, how the work was done, what its tests covered of 1000 lines, what is.
    #[test]
    fn what_a_commit_does_to_the_debt() {
        use DebtLevel::{Locked, None as Free, Warning};
        let check = |was: Option<(u32, DebtLevel)>,
                     work,
                     covered,
                     is: Option<(u32, DebtLevel, u64)>| {
            let before =
                was.map(|(baseline_permille, level)| DebtBefore { baseline_permille, level });
            let coverage = Coverage { report: "r".to_owned(), lines: 1000, covered_lines: covered };
            let after = after_commit("/p", before.clone(), &coverage, work);
            let found =
                after.as_ref().map(|debt| (debt.baseline_permille, debt.level, debt.owed_lines));
            assert_eq!(found, is, "{was:?} {work:?} {covered}");
            assert!(after.is_none_or(|debt| debt.before == before && !debt.carried));
        };
        check(None, Work::Strict, 800, Some((800, Free, 0)));
        check(None, Work::Explored, 800, None);
        check(None, Work::Exempt, 800, None);
        // Strict work moves the baseline both ways while nothing is owed.
        check(Some((800, Free)), Work::Strict, 700, Some((700, Free, 0)));
        check(Some((800, Free)), Work::Strict, 900, Some((900, Free, 0)));
        // Exploring: two and five parts of a hundred are the bounds, and are still within.
        check(Some((800, Free)), Work::Explored, 780, Some((800, Free, 20)));
        check(Some((800, Free)), Work::Explored, 779, Some((800, Warning, 21)));
        check(Some((800, Free)), Work::Explored, 750, Some((800, Warning, 50)));
        check(Some((800, Free)), Work::Explored, 749, Some((800, Locked, 51)));
        check(Some((800, Free)), Work::Explored, 990, Some((800, Free, 0)));
        // What is owed is paid by tests, and by nothing else: strict work does not forgive it.
        check(Some((800, Warning)), Work::Strict, 790, Some((800, Free, 10)));
        check(Some((800, Warning)), Work::Strict, 770, Some((800, Warning, 30)));
        check(Some((800, Locked)), Work::Strict, 799, Some((800, Locked, 1)));
        check(Some((800, Locked)), Work::Strict, 800, Some((800, Free, 0)));
        check(Some((800, Locked)), Work::Strict, 850, Some((850, Free, 0)));
        check(Some((800, Locked)), Work::Explored, 799, Some((800, Locked, 1)));
        check(Some((800, Locked)), Work::Explored, 801, Some((800, Free, 0)));
        // Exempt work costs nothing, and may pay.
        check(Some((800, Free)), Work::Exempt, 100, None);
        check(Some((800, Free)), Work::Exempt, 900, None);
        check(Some((800, Warning)), Work::Exempt, 100, None);
        check(Some((800, Warning)), Work::Exempt, 800, Some((800, Free, 0)));
    }

    #[test]
    fn parts_are_rounded_down_and_never_above_the_whole() {
        let check = |covered_lines, lines, permille_is, words: &str| {
            let coverage = Coverage { report: String::new(), lines, covered_lines };
            assert_eq!(permille(&coverage), permille_is);
            assert_eq!(percent(permille_is), words);
        };
        check(2, 3, 666, "66.6 %");
        check(0, 3, 0, "0.0 %");
        check(3, 3, 1000, "100.0 %");
        check(5, 3, 1000, "100.0 %");
        check(0, 0, 0, "0.0 %");
        check(u64::MAX, u64::MAX, 1000, "100.0 %");
    }
}
