//! Versions of plans: which number a plan gets when it is registered.
//!
//! A pure rule; the host keeps the records.

use std::collections::BTreeMap;

/// The number for new content: the one it asks for, or the one behind the highest if it is taken.
///
/// ```
/// use std::collections::BTreeMap;
/// use glasshouse_plan::registry::free_version;
/// let taken = BTreeMap::from([(1, "first"), (5, "second")]);
/// assert_eq!(free_version(&taken, 2), 2);
/// assert_eq!(free_version(&taken, 1), 6);
/// ```
#[must_use]
pub fn free_version<T>(taken: &BTreeMap<i64, T>, asked: i64) -> i64 {
    match taken.last_key_value() {
        Some((highest, _)) if taken.contains_key(&asked) => highest.saturating_add(1),
        _ => asked,
    }
}
