//! Any interleaving of operations, on each store, against a model that is a list of lists.

use std::sync::Arc;

use glasshouse_log::{Append, BranchState, Erase, Log, MergeBranch};
use glasshouse_model::body::MergeStrategy;
use glasshouse_model::{Actor, TenantId};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{ManualClock, branch, fork, numbered, root, session};

#[derive(Debug, Clone)]
enum Step {
    Append { branch: u8, expected: Option<u8>, key: Option<u8> },
    Fork { parent: u8, at: u8 },
    Merge { source: u8, target: u8 },
    Close { branch: u8 },
    Erase { branch: u8, at: u8 },
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let small = 0..6_u8;
    let step = prop_oneof![
        8 => (small.clone(), prop::option::weighted(0.2, 0..20_u8), prop::option::weighted(0.2, 0..3_u8))
            .prop_map(|(branch, expected, key)| Step::Append { branch, expected, key }),
        3 => (small.clone(), 0..20_u8).prop_map(|(parent, at)| Step::Fork { parent, at }),
        2 => (small.clone(), small.clone()).prop_map(|(source, target)| Step::Merge { source, target }),
        1 => small.clone().prop_map(|branch| Step::Close { branch }),
        2 => (small, 0..20_u8).prop_map(|(branch, at)| Step::Erase { branch, at }),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..40)
}

/// One event as the model has it: who owns it, its sequence there, and its number, erased or not.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Entry {
    owner: usize,
    number: Option<u64>,
    is_kept: bool,
}

#[derive(Default)]
struct Line {
    entries: Vec<usize>,
    state: Option<BranchState>,
    keys: Vec<(u8, usize)>,
    /// Length of the shared past with its parent, and the parent.
    parent: Option<(usize, usize)>,
}

#[derive(Default)]
struct Model {
    /// Every event that was ever stored.
    entries: Vec<Entry>,
    lines: Vec<Line>,
}

impl Model {
    fn push(&mut self, line: usize, number: Option<u64>, is_kept: bool) {
        self.entries.push(Entry { owner: line, number, is_kept });
        self.lines[line].entries.push(self.entries.len() - 1);
    }

    fn is_open(&self, line: usize) -> bool {
        self.lines[line].state.is_none()
    }

    /// How many events two lines share.
    fn shared(&self, one: usize, other: usize) -> usize {
        let (one, other) = (&self.lines[one].entries, &self.lines[other].entries);
        one.iter().zip(other).take_while(|(one, other)| one == other).count()
    }
}

/// Runs a step on the log and the model; both accept or refuse it alike.
fn run(log: &Log, model: &mut Model, n: u64, step: &Step) {
    let at = |index: u8| usize::from(index) % model.lines.len();
    let id = |line: usize| format!("b_{line}");
    let seq = |length: usize| u64::try_from(length).unwrap();
    match *step {
        Step::Append { branch, expected, key } => {
            let line = at(branch);
            let length = model.lines[line].entries.len();
            let append = Append {
                expected_head: expected.map(u64::from),
                idempotency_key: key.map(|key| format!("k{key}")),
                ..numbered(&id(line), n)
            };
            let outcome = log.append(append);
            let earlier = key.and_then(|key| {
                model.lines[line].keys.iter().find(|(known, _)| *known == key).copied()
            });
            if let Some((_, entry)) = earlier {
                let again = outcome.unwrap();
                let number = again.events[0].body["n"].as_u64();
                assert_eq!((again.replayed, number), (true, model.entries[entry].number));
            } else if !model.is_open(line) {
                assert_eq!(outcome.unwrap_err().code(), "branch_read_only");
            } else if expected.is_some_and(|expected| u64::from(expected) != seq(length)) {
                let error = outcome.unwrap_err();
                assert_eq!(error.code(), "head_conflict");
                assert_eq!(error.report().context["head"], seq(length));
            } else {
                assert_eq!(outcome.unwrap().head.seq, seq(length) + 1);
                model.push(line, Some(n), false);
                if let Some(key) = key {
                    let entry = model.entries.len() - 1;
                    model.lines[line].keys.push((key, entry));
                }
            }
        }
        Step::Fork { parent, at: fork_at } => {
            let (line, fork_at) = (at(parent), usize::from(fork_at));
            let new = model.lines.len();
            let outcome = log.create_branch(fork(&id(new), &id(line), seq(fork_at)));
            let past = &model.lines[line].entries;
            if fork_at == 0 || fork_at > past.len() {
                assert_eq!(outcome.unwrap_err().code(), "fork_out_of_range");
            } else {
                outcome.unwrap();
                let entries = past[..fork_at].to_vec();
                let parent = Some((line, fork_at));
                model.lines.push(Line { entries, parent, ..Line::default() });
            }
        }
        Step::Merge { source, target } => {
            let (source, target) = (at(source), at(target));
            let shared = model.shared(source, target);
            let (from, into) =
                (model.lines[source].entries.len(), model.lines[target].entries.len());
            let merge = MergeBranch {
                session: session("s_1"),
                target: branch(&id(target)),
                target_head: seq(into),
                source: branch(&id(source)),
                source_head: log.head(&branch(&id(source))).unwrap(),
                strategy: MergeStrategy::ThreeWay,
                resolved: Default::default(),
                actor: Actor::kernel(),
                events: Vec::new(),
                epoch: None,
                idempotency_key: None,
            };
            let outcome = log.merge(merge);
            if shared == 0 || from == shared {
                assert_eq!(outcome.unwrap_err().code(), "append_invalid");
            } else if !model.is_open(target) || !model.is_open(source) {
                assert_eq!(outcome.unwrap_err().code(), "branch_read_only");
            } else {
                outcome.unwrap();
                model.push(target, None, true);
                model.lines[source].state = Some(BranchState::Merged);
            }
        }
        Step::Close { branch: line } => {
            let line = at(line);
            log.close_branch(&branch(&id(line))).unwrap();
            model.lines[line].state.get_or_insert(BranchState::Closed);
        }
        Step::Erase { branch: line, at: erased } => {
            let (line, erased) = (at(line), usize::from(erased));
            let outcome = log.erase(Erase {
                session: session("s_1"),
                branch: branch("b_0"),
                events: vec![(branch(&id(line)), seq(erased))],
                blobs: Vec::new(),
                reason: format!("step {n}"),
                epoch: None,
            });
            let entry = erased.checked_sub(1).and_then(|at| model.lines[line].entries.get(at));
            let entry = entry.copied().filter(|entry| model.entries[*entry].owner == line);
            match entry {
                None => assert_eq!(outcome.unwrap_err().code(), "event_not_found"),
                Some(entry) if model.entries[entry].is_kept => {
                    assert_eq!(outcome.unwrap_err().code(), "append_invalid");
                }
                Some(_) if !model.is_open(0) => {
                    assert_eq!(outcome.unwrap_err().code(), "branch_read_only");
                }
                Some(entry) => {
                    outcome.unwrap();
                    model.entries[entry].number = None;
                    model.push(0, None, true);
                }
            }
        }
        Step::Reopen => {}
    }
}

fn compare(log: &Log, model: &Model) {
    for (index, line) in model.lines.iter().enumerate() {
        let id = branch(&format!("b_{index}"));
        let found: Vec<_> =
            log.events(&id).map(|event| event.unwrap().body["n"].as_u64()).collect();
        let expected: Vec<_> =
            line.entries.iter().map(|entry| model.entries[*entry].number).collect();
        assert_eq!(found, expected, "b_{index}");
        let row = log.branch(&id).unwrap();
        assert_eq!(row.state, line.state.unwrap_or(BranchState::Open), "b_{index}");
        let base = line.parent.map_or(0, |(_, at)| u64::try_from(at).unwrap());
        assert_eq!(row.base().seq, base);
    }
    log.sign_head().unwrap();
    let found = log.verify().unwrap();
    assert!(found.is_ok(), "{}", json!(found));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_interleaving_on_the_disk_is_what_the_model_says(steps in steps()) {
        let home = tempfile::tempdir().unwrap();
        let open = || Log::open(home.path(), &TenantId::local()).unwrap();
        let mut log = open();
        log.create_branch(root("s_1", "b_0")).unwrap();
        let mut model = Model { lines: vec![Line::default()], ..Model::default() };
        for (n, step) in (0..).zip(&steps) {
            if matches!(step, Step::Reopen) {
                drop(log);
                log = open();
            }
            run(&log, &mut model, n, step);
        }
        compare(&log, &model);
    }

    #[test]
    fn any_interleaving_in_memory_is_what_the_model_says(steps in steps()) {
        let log = Log::in_memory(&TenantId::local(), Arc::new(ManualClock::default())).unwrap();
        log.create_branch(root("s_1", "b_0")).unwrap();
        let mut model = Model { lines: vec![Line::default()], ..Model::default() };
        for (n, step) in (0..).zip(&steps) {
            run(&log, &mut model, n, step);
        }
        compare(&log, &model);
    }
}
