//! What becomes of each part of a branch's state when another branch is merged into it.
//!
//! One table says it. What a call did, what a person approved, what a test run showed and what was
//! granted belongs to the branch where it happened and never crosses; so a merge moves no workflow
//! forward. Files cross path by path, three-way; that is the work of `merge::trees`.

use std::collections::BTreeMap;

use glasshouse_model::Usage;
use serde_json::Value;

use super::{Item, State};

/// How the values of a key come together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeKind {
    /// What one side changed is taken; what both changed must be equal.
    EqualOrConflict,
    /// The same for each path of the workspace.
    ByPath,
    /// Everything of both.
    SetUnion,
    /// What the source has spent is counted beside what the target spends itself.
    CounterSum,
    /// What the source added comes after what the target has, in its order.
    OrderedAppend,
    /// The target's own stays.
    Never,
}

/// Every key of a [`State`], and the labels of its events.
pub const MERGE_KINDS: &[(&str, MergeKind)] = &[
    ("created", MergeKind::EqualOrConflict),
    // What was explored does not become test-first by a merge.
    ("mode", MergeKind::EqualOrConflict),
    ("exemption", MergeKind::EqualOrConflict),
    ("frozen", MergeKind::ByPath),
    ("seal", MergeKind::ByPath),
    ("labels", MergeKind::SetUnion),
    ("taint", MergeKind::SetUnion),
    ("usage", MergeKind::CounterSum),
    ("conversation", MergeKind::OrderedAppend),
    ("elsewhere", MergeKind::Never),
    ("conversation_seqs", MergeKind::Never),
    ("last_user_message", MergeKind::Never),
    ("summary", MergeKind::Never),
    ("summarising", MergeKind::Never),
    ("measured", MergeKind::Never),
    ("overflowed", MergeKind::Never),
    ("pins", MergeKind::Never),
    ("failures", MergeKind::Never),
    ("fallback", MergeKind::Never),
    ("reviewed", MergeKind::Never),
    ("head", MergeKind::Never),
    ("workflow", MergeKind::Never),
    ("turn", MergeKind::Never),
    ("last_turn", MergeKind::Never),
    ("calls", MergeKind::Never),
    ("open_calls", MergeKind::Never),
    ("model", MergeKind::Never),
    ("ordinal", MergeKind::Never),
    ("evidence", MergeKind::Never),
    ("red", MergeKind::Never),
    ("pending_approvals", MergeKind::Never),
    ("granted", MergeKind::Never),
    ("exemption_requests", MergeKind::Never),
    ("debt", MergeKind::Never),
    ("merge", MergeKind::Never),
    ("plan_summary", MergeKind::Never),
    ("committed", MergeKind::Never),
    ("reminders", MergeKind::Never),
    ("no_approver", MergeKind::Never),
    ("no_isolation", MergeKind::Never),
    ("isolation", MergeKind::Never),
    ("unreadable", MergeKind::Never),
];

/// What a merge brings to the target besides files and labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Joined {
    /// What the source spent on itself: a fork leaves what its parent had spent to its parent.
    pub usage: Usage,
    /// What was said there since.
    pub said: Vec<Item>,
    /// Keys that both sides changed differently.
    pub conflicts: Vec<&'static str>,
}

/// Joins the states of two branches, given that of the last event which both share.
///
/// # Errors
/// A state that is no JSON; there is none.
pub fn join(base: &State, target: &State, source: &State) -> Result<Joined, serde_json::Error> {
    let sides = [base, target, source].map(serde_json::to_value);
    let [base, target, source] = sides;
    let (base, target, source) = (base?, target?, source?);
    let mut joined = Joined::default();
    for (key, kind) in MERGE_KINDS {
        let (base, target, source) = (&base[*key], &target[*key], &source[*key]);
        match kind {
            MergeKind::EqualOrConflict if source == base || source == target => {}
            // Nothing that is decided so can be taken over by a merge yet: a side that changed it alone
            // is asked about as well.
            MergeKind::EqualOrConflict => joined.conflicts.push(key),
            MergeKind::CounterSum => joined.usage = serde_json::from_value(source.clone())?,
            MergeKind::OrderedAppend => {
                joined.said = serde_json::from_value(appended(base, source))?
            }
            MergeKind::ByPath | MergeKind::SetUnion | MergeKind::Never => {}
        }
    }
    Ok(joined)
}

/// The items after those that were there before.
fn appended(base: &Value, source: &Value) -> Value {
    let before = base.as_array().map_or(0, Vec::len);
    source.as_array().into_iter().flatten().skip(before).cloned().collect()
}

/// What `branch.merged` records of a [`Joined`].
pub(crate) fn recorded(joined: &Joined) -> Result<BTreeMap<String, Value>, serde_json::Error> {
    let mut resolved = BTreeMap::new();
    if joined.usage != Usage::default() {
        resolved.insert("usage".to_owned(), serde_json::to_value(joined.usage)?);
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A new part of the state says here how it is merged.
    #[test]
    fn every_key_of_the_state_has_a_merge_kind() {
        let state = serde_json::to_value(State::default()).unwrap();
        let mut keys: BTreeSet<_> = state.as_object().unwrap().keys().map(String::as_str).collect();
        // Labels are of events, not of the state.
        keys.insert("labels");
        let named: BTreeSet<_> = MERGE_KINDS.iter().map(|(key, _)| *key).collect();
        assert_eq!(named, keys);
        assert_eq!(MERGE_KINDS.len(), keys.len(), "each once");
    }

    fn state(spent: u64, said: &[&str], plan: &str) -> State {
        State {
            usage: Usage { tokens: spent, ..Usage::default() },
            conversation: said.iter().map(|text| Item::Message((*text).to_owned())).collect(),
            plan_summary: Some(plan.to_owned()),
            ..State::default()
        }
    }

    #[test]
    fn only_what_the_source_added_crosses() {
        let check = |source: &State, spent: u64, said: &[&str]| {
            let (base, target) = (state(10, &["a"], "p"), state(70, &["a", "x"], "q"));
            let joined = join(&base, &target, source).unwrap();
            let items: Vec<_> = said.iter().map(|text| Item::Message((*text).to_owned())).collect();
            assert_eq!((joined.usage.tokens, joined.said), (spent, items));
            assert!(joined.conflicts.is_empty(), "{:?}", joined.conflicts);
        };
        check(&state(0, &["a"], "p"), 0, &[]);
        check(&state(5, &["a", "b", "c"], "r"), 5, &["b", "c"]);
    }

    #[test]
    fn what_both_must_have_alike_is_a_conflict_when_it_differs() {
        let created =
            serde_json::from_value::<glasshouse_model::body::SessionCreated>(serde_json::json!({
                "mode": "strict", "project": "/p", "provider": "x", "model": "m", "budget": {},
                "test": { "argv": [], "kind": "shell", "test_globs": [], "source_globs": [] },
                "policy": [], "max_auto_merge_lines": 1, "program_version": "1",
            }));
        let other = State { created: Some(created.unwrap()), ..State::default() };
        let joined = join(&State::default(), &State::default(), &other).unwrap();
        assert_eq!(joined.conflicts, ["created"]);
        assert!(join(&State::default(), &other, &other).unwrap().conflicts.is_empty());
    }
}
