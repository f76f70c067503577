//! Versions of plans: which number a plan gets when it is registered.
//!
//! A pure rule; the host keeps the records.

use std::collections::BTreeMap;

/// The highest version that JSON numbers hold exactly everywhere.
const MAX_VERSION: i64 = (1 << 53) - 1;

/// The number for new content: the one it asks for, or the one behind the highest if it is taken.
///
/// ```
/// use std::collections::BTreeMap;
/// use glasshouse_plan::registry::free_version;
/// let taken = BTreeMap::from([(1, "first"), (5, "second")]);
/// assert_eq!(free_version(&taken, 2), 2);
/// assert_eq!(free_version(&taken, 1), 6);
/// let taken = BTreeMap::from([(1, "first"), ((1 << 53) - 1, "last")]);
/// assert_eq!(free_version(&taken, 1), 2);
/// ```
#[must_use]
pub fn free_version<T>(taken: &BTreeMap<i64, T>, asked: i64) -> i64 {
    if !taken.contains_key(&asked) {
        return asked;
    }
    match taken.last_key_value() {
        Some((highest, _)) if *highest < MAX_VERSION => highest + 1,
        // Above the highest is no number that a reader takes.
        _ => (1..MAX_VERSION).find(|version| !taken.contains_key(version)).unwrap_or(asked),
    }
}
