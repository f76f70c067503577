//! Which of several bad events was committed first, when some of them no longer tell their place.
//!
//! A row that is gone leaves a gap among the positions, and so does one that was moved behind all others.
//! An event lies after the one before it in its branch, so the first gap behind that is its own.

use glasshouse_model::{BranchId, Seq};

use super::Broken;
use crate::codes;
use crate::error::Result;
use crate::record::Defect;
use crate::store::Store;

/// Leaves read at a time.
const LEAF_PAGE: usize = 4_096;

/// What is known of the position of something bad.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// It is this.
    At(u64),
    /// Its row says `claimed`; if that is behind all others it was moved there from `after` or later.
    Claimed { after: u64, claimed: u64 },
    /// Its row is gone; it is not before `after`.
    Lost { after: u64 },
    /// The row says `claimed`, which is before that of the event before it, `last`. If that is behind all
    /// others, it was moved there from `after` or later.
    Crossing { claimed: u64, last: (Seq, u64), after: u64 },
    /// Nothing.
    Unknown,
}

/// A bad event, and the number of its branch in the order of creation.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) place: Place,
    pub(super) branch: usize,
    pub(super) broken: Broken,
}

/// Positions below the size of the tree that no row has.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// First and last of each, in order.
    ranges: Vec<(u64, u64)>,
    size: u64,
}

impl Gaps {
    /// Reads all positions; none are gaps where they cannot be read.
    pub(super) fn read(store: &dyn Store, size: u64) -> Result<Self> {
        let (mut ranges, mut next) = (Vec::new(), 0);
        while next < size {
            let leaves = match store.leaves(next, LEAF_PAGE) {
                Err(error) if error.is(codes::LOG_CORRUPT) => {
                    return Ok(Self { ranges: Vec::new(), size });
                }
                other => other?,
            };
            if leaves.is_empty() {
                break;
            }
            for leaf in leaves {
                if leaf.position > next {
                    ranges.push((next, leaf.position.min(size) - 1));
                }
                next = leaf.position + 1;
            }
        }
        if next < size {
            ranges.push((next, size - 1));
        }
        ranges.retain(|(first, last)| first <= last);
        Ok(Self { ranges, size })
    }

    pub(super) fn contains(&self, position: u64) -> bool {
        self.first_in(position, position.saturating_add(1)).is_some()
    }

    /// Whether every event has its row.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The first gap from a position on, before another.
    fn first_in(&self, from: u64, before: u64) -> Option<u64> {
        let at = self.ranges.partition_point(|(_, last)| *last < from);
        let gap = self.ranges.get(at)?.0.max(from);
        (gap < before).then_some(gap)
    }
}

/// The bad event that was committed first, and where; of two with one place that of the branch
/// created first.
pub(super) fn first_of(found: Vec<Found>, gaps: &Gaps) -> Option<(u64, Broken)> {
    let placed = found.into_iter().map(|found| resolve(found, gaps));
    placed.min_by_key(|(at, branch, _)| (*at, *branch)).map(|(at, _, broken)| (at, broken))
}

fn resolve(found: Found, gaps: &Gaps) -> (u64, usize, Broken) {
    let Found { place, branch, broken } = found;
    let at = match place {
        Place::At(position) => position,
        Place::Claimed { claimed, .. } if claimed < gaps.size => claimed,
        Place::Claimed { after, claimed } => gaps.first_in(after, claimed).unwrap_or(claimed),
        Place::Lost { after } => gaps.first_in(after, u64::MAX).unwrap_or(after),
        Place::Unknown => u64::MAX,
        Place::Crossing { claimed, last: (seq, last), after } => {
            match gaps.first_in(after, last).filter(|_| last >= gaps.size) {
                Some(gap) => return (gap, branch, moved(broken.branch, seq, gap, last)),
                None => claimed,
            }
        }
    };
    (at, branch, broken)
}

/// An event that stands at another position than it was committed at.
fn moved(branch: Option<BranchId>, seq: Seq, gap: u64, position: u64) -> Broken {
    let (expected, found) = (format!("position {gap}"), format!("position {position}"));
    let (kind, expected, found) = Defect::Place { expected, found }.parts();
    Broken { kind, branch, seq: Some(seq), expected, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(gaps: &[(u64, u64)], found: &[(Place, usize)], expected: (u64, &str)) {
        let gaps = Gaps { ranges: gaps.to_vec(), size: 20 };
        for turned in 0..found.len() {
            let mut order = found.to_vec();
            order.rotate_left(turned);
            let found = order.iter().map(|(place, branch)| {
                let id = format!("b_{branch}").parse().unwrap();
                let defect = Defect::Missing { head: 9, found: 8 };
                let broken = Broken::of_event(&id, 9, &defect);
                Found { place: place.clone(), branch: *branch, broken }
            });
            let (at, broken) = first_of(found.collect(), &gaps).unwrap();
            let named = format!("{} {}", broken.branch.unwrap(), broken.seq.unwrap());
            assert_eq!((at, &*named), expected, "{order:?}");
        }
    }

    /// What was named depended on which thread took which branch, and on how early the event before the
    /// bad one was.
    #[test]
    fn the_bad_event_that_was_committed_first_is_named() {
        use Place::{At, Claimed, Crossing, Lost, Unknown};
        check(&[], &[(At(3), 1), (At(3), 0)], (3, "b_0 9"));
        check(&[], &[(At(3), 7), (At(2), 9), (At(3), 1)], (2, "b_9 9"));
        let claims = Claimed { after: 1, claimed: 10 };
        check(&[], &[(claims.clone(), 0), (At(5), 1)], (5, "b_1 9"));
        check(&[(4, 4)], &[(claims, 0), (At(5), 1)], (5, "b_1 9"));
        let claims = Claimed { after: 1, claimed: 30 };
        check(&[(4, 4)], &[(claims.clone(), 0), (At(5), 1)], (4, "b_0 9"));
        check(&[(0, 0), (12, 14)], &[(claims, 0), (At(11), 1)], (11, "b_1 9"));
        check(&[(10, 10)], &[(Lost { after: 1 }, 0), (At(5), 1)], (5, "b_1 9"));
        check(&[(2, 10)], &[(Lost { after: 4 }, 0), (At(5), 1)], (4, "b_0 9"));
        check(&[], &[(Lost { after: 4 }, 0), (Unknown, 1)], (4, "b_0 9"));
        let crosses = Crossing { claimed: 6, last: (3, 100), after: 4 };
        check(&[(5, 5)], &[(crosses.clone(), 0), (At(6), 1)], (5, "b_0 3"));
        check(&[], &[(crosses, 0), (At(7), 1)], (6, "b_0 9"));
    }
}
