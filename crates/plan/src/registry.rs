//! Versions of plans: which version number a plan gets when it is registered.
//!
//! Pure rules; the host keeps the records.

use std::collections::{BTreeMap, BTreeSet};

/// The version numbers that are taken, by plan.
///
/// ```
/// let mut versions = glasshouse_plan::registry::Versions::default();
/// assert_eq!(versions.assign("p", 1), 1);
/// assert_eq!(versions.assign("p", 1), 2);
/// assert_eq!(versions.latest("p"), Some(2));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Versions(BTreeMap<String, BTreeSet<i64>>);

impl Versions {
    /// Takes the number that a plan asks for, or the one behind the highest if it is taken. Numbers
    /// start at 1.
    pub fn assign(&mut self, plan_id: &str, asked: i64) -> i64 {
        let taken = self.0.entry(plan_id.trim().to_owned()).or_default();
        let asked = asked.max(1);
        let version = match taken.last() {
            Some(highest) if taken.contains(&asked) => highest.saturating_add(1),
            _ => asked,
        };
        taken.insert(version);
        version
    }

    /// The highest number of a plan.
    #[must_use]
    pub fn latest(&self, plan_id: &str) -> Option<i64> {
        self.0.get(plan_id.trim())?.last().copied()
    }

    /// Every plan with its numbers, in order.
    pub fn list(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = i64> + '_)> {
        self.0.iter().map(|(id, versions)| (id.as_str(), versions.iter().copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::Versions;

    #[test]
    fn a_taken_number_gives_the_one_behind_the_highest() {
        let mut versions = Versions::default();
        let assigned: Vec<i64> = [1, 1, 5, 5, 2, 2, 0, -3]
            .into_iter()
            .map(|asked| versions.assign("p", asked))
            .collect();
        assert_eq!(assigned, [1, 2, 5, 6, 7, 8, 9, 10]);
        assert_eq!(versions.assign("q", 3), 3);
        assert_eq!(versions.list().count(), 2);
    }
}
