//! Branches: lines of events that share the events before their fork.

use glasshouse_model::{BranchId, Digest, Seq, SessionId};

use crate::append::Head;
use crate::codes;
use crate::error::{Error, Result};

/// Most ancestors of a branch: a read visits each, and forks of forks beyond this are a loop of
/// some program, not the work of a person.
pub const MAX_FORK_DEPTH: usize = 64;
/// Longest branch name in bytes.
pub const MAX_BRANCH_NAME_BYTES: usize = 64;

/// A branch to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBranch {
    /// Its session. A branch without parent begins the session, so a session has one such branch.
    pub session: SessionId,
    /// Its id, unique in the tenant.
    pub branch: BranchId,
    /// Its name, unique in the session; `main` for the first.
    pub name: String,
    /// Parent and the sequence of the last event that both share.
    pub parent: Option<(BranchId, Seq)>,
}

/// Whether a branch takes events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BranchState {
    /// It does.
    Open,
    /// It was merged into another branch and never takes events again.
    Merged,
    /// It was given up and never takes events again.
    Closed,
}

impl BranchState {
    /// The word that is stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Merged => "merged",
            Self::Closed => "closed",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        [Self::Open, Self::Merged, Self::Closed].into_iter().find(|state| state.as_str() == word)
    }
}

/// Where a branch left its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fork {
    /// The parent.
    pub parent: BranchId,
    /// Sequence of the last shared event; the child goes on from the next.
    pub seq: Seq,
    /// Hash of that event, and `prev` of the child's first own event.
    pub hash: Digest,
}

/// A branch as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchRow {
    /// Its session.
    pub session: SessionId,
    /// Its id.
    pub branch: BranchId,
    /// Its name.
    pub name: String,
    /// Where it left its parent; `None` for a session's first branch.
    pub fork: Option<Fork>,
    /// Whether it takes events.
    pub state: BranchState,
    /// Whether it came from another log: it takes no events here, whatever its state says. A fork of it
    /// does.
    pub is_imported: bool,
    /// Its newest event, which may be the parent's at the fork.
    pub head: Head,
    /// When it was created, microseconds since 1970.
    pub created_us: u64,
    /// When it last took an event, microseconds since 1970.
    pub last_us: u64,
}

/// In front of the state of a branch that was imported, where states are stored.
const IMPORTED_PREFIX: &str = "imported_";

impl BranchRow {
    /// The state as it is stored.
    pub(crate) fn stored_state(&self) -> String {
        let prefix = if self.is_imported { IMPORTED_PREFIX } else { "" };
        format!("{prefix}{}", self.state.as_str())
    }

    /// Reads a stored state, and whether the branch was imported.
    pub(crate) fn state_of_stored(word: &str) -> Option<(BranchState, bool)> {
        let bare = word.strip_prefix(IMPORTED_PREFIX);
        Some((BranchState::from_word(bare.unwrap_or(word))?, bare.is_some()))
    }

    /// Why it takes no events; `None` while it does.
    #[must_use]
    pub fn why_ended(&self) -> Option<&'static str> {
        match self.state {
            _ if self.is_imported => Some("it was imported"),
            BranchState::Open => None,
            BranchState::Merged => Some("it is merged"),
            BranchState::Closed => Some("it is closed"),
        }
    }

    /// What stands before its first own event.
    #[must_use]
    pub fn base(&self) -> Head {
        self.fork.as_ref().map_or(Head::EMPTY, |fork| Head { seq: fork.seq, hash: fork.hash })
    }
}

/// A session as lists show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// The session.
    pub session: SessionId,
    /// Its first branch.
    pub main: BranchId,
    /// When it was created, microseconds since 1970.
    pub created_us: u64,
    /// When one of its branches last took an event, microseconds since 1970.
    pub last_us: u64,
    /// Events of all its branches, shared ones counted once.
    pub events: u64,
}

/// The part of a branch's events that one ancestor, or the branch itself, stores: those after the
/// segment before it, up to and with `upto`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The branch that stores them.
    pub branch: BranchId,
    /// Sequence of the last one.
    pub upto: Seq,
}

/// The ancestors of a child that leaves `parent` after `fork_seq`, oldest first. Each event of the
/// shared past belongs to exactly one of them, so reading needs no recursion.
///
/// # Errors
/// `fork_too_deep`.
pub(crate) fn ancestors_of_child(
    parent: &BranchId,
    parent_ancestors: Vec<Segment>,
    fork_seq: Seq,
) -> Result<Vec<Segment>> {
    let own = Segment { branch: parent.clone(), upto: Seq::MAX };
    let mut ancestors = Vec::new();
    let mut before = 0;
    for Segment { branch, upto } in parent_ancestors.into_iter().chain([own]) {
        if before >= fork_seq {
            break;
        }
        ancestors.push(Segment { branch, upto: upto.min(fork_seq) });
        before = upto;
    }
    if ancestors.len() > MAX_FORK_DEPTH {
        return Err(Error::new(codes::FORK_TOO_DEEP, format!("could not fork {parent}"))
            .why(format!("it has {MAX_FORK_DEPTH} ancestors, the most that reads walk")));
    }
    Ok(ancestors)
}

/// Sequence of the last event that two branches share, each given by its segments; 0 for none.
pub(crate) fn last_shared(one: &[Segment], other: &[Segment]) -> Seq {
    let pairs = one.iter().zip(other).take_while(|(one, other)| one.branch == other.branch);
    pairs.last().map_or(0, |(one, other)| one.upto.min(other.upto))
}

/// Checks that a fork point lies within the parent.
pub(crate) fn check_fork(parent: &BranchRow, fork_seq: Seq) -> Result<()> {
    let head = parent.head.seq;
    if fork_seq == 0 || fork_seq > head {
        return Err(Error::new(
            codes::FORK_OUT_OF_RANGE,
            format!("could not fork {} at {fork_seq}", parent.branch),
        )
        .why(format!("its events are 1 to {head}"))
        .with("head", head));
    }
    Ok(())
}

impl NewBranch {
    /// Checks what needs no store.
    pub(crate) fn check(&self) -> Result<()> {
        let bytes = self.name.len();
        if bytes == 0 || bytes > MAX_BRANCH_NAME_BYTES || self.name.chars().any(char::is_control) {
            return Err(Error::new(codes::APPEND_INVALID, "could not create a branch").why(
                format!("a name is 1 to {MAX_BRANCH_NAME_BYTES} bytes without control characters"),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(texts: &[(&str, Seq)]) -> Vec<Segment> {
        texts
            .iter()
            .map(|(branch, upto)| Segment { branch: branch.parse().unwrap(), upto: *upto })
            .collect()
    }

    #[test]
    fn a_child_inherits_only_the_past_before_its_fork() {
        let check = |past: &[(&str, Seq)], fork_seq: Seq, expected: &[(&str, Seq)]| {
            let parent = "b_p".parse().unwrap();
            let found = ancestors_of_child(&parent, segments(past), fork_seq).unwrap();
            assert_eq!(found, segments(expected), "{past:?} at {fork_seq}");
        };
        check(&[], 5, &[("b_p", 5)]);
        check(&[("b_a", 3)], 5, &[("b_a", 3), ("b_p", 5)]);
        check(&[("b_a", 3)], 3, &[("b_a", 3)]);
        check(&[("b_a", 3)], 2, &[("b_a", 2)]);
        check(&[("b_a", 3), ("b_b", 9)], 4, &[("b_a", 3), ("b_b", 4)]);
        check(&[("b_a", 3), ("b_b", 9)], 10, &[("b_a", 3), ("b_b", 9), ("b_p", 10)]);
    }

    #[test]
    fn branches_share_what_lies_before_they_part() {
        let check = |one: &[(&str, Seq)], other: &[(&str, Seq)], expected: Seq| {
            assert_eq!(last_shared(&segments(one), &segments(other)), expected);
            assert_eq!(last_shared(&segments(other), &segments(one)), expected);
        };
        check(&[("b_a", 9)], &[("b_a", 5), ("b_b", 7)], 5);
        check(&[("b_a", 4), ("b_c", 9)], &[("b_a", 5), ("b_b", 7)], 4);
        check(&[("b_a", 5), ("b_b", 9)], &[("b_a", 5), ("b_b", 7), ("b_c", 8)], 7);
        check(&[("b_a", 5)], &[("b_b", 7)], 0);
    }

    #[test]
    fn depth_is_bounded() {
        let past =
            |depth: u64| (1..=depth).map(|n| Segment { branch: "b_a".parse().unwrap(), upto: n });
        let parent = "b_p".parse().unwrap();
        let fits = u64::try_from(MAX_FORK_DEPTH).unwrap() - 1;
        assert!(ancestors_of_child(&parent, past(fits).collect(), fits + 1).is_ok());
        let error = ancestors_of_child(&parent, past(fits + 1).collect(), fits + 2).unwrap_err();
        assert_eq!(error.code(), "fork_too_deep");
    }
}
