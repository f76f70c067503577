//! Any interleaving of operations, on each store, against a model that is a list of lists.

use std::sync::Arc;

use glasshouse_log::{Append, BranchState, Erase, Log};
use glasshouse_model::{Actor, TenantId};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{ManualClock, branch, fork, merge, numbered, root, session};

#[derive(Debug, Clone)]
enum Step {
    Append { branch: u8, expected: Option<u8>, key: Option<u8> },
    Fork { parent: u8, at: u8 },
    Merge { source: u8, target: u8 },
    Close { branch: u8 },
    Erase { branch: u8, at: u8 },
    Read { branch: u8, from: u8, limit: u8 },
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
        2 => (small.clone(), 0..20_u8).prop_map(|(branch, at)| Step::Erase { branch, at }),
        3 => (small, 0..20_u8, 0..9_u8)
            .prop_map(|(branch, from, limit)| Step::Read { branch, from, limit }),
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

/// A log and its model; each step is accepted or refused by both alike.
struct Pair<'a> {
    log: &'a Log,
    model: &'a mut Model,
}

fn id(line: usize) -> String {
    format!("b_{line}")
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap()
}

impl Pair<'_> {
    fn run(&mut self, n: u64, step: &Step) {
        let at = |index: u8| usize::from(index) % self.model.lines.len();
        match *step {
            Step::Append { branch, expected, key } => self.append(n, at(branch), expected, key),
            Step::Fork { parent, at: seq } => self.fork(at(parent), usize::from(seq)),
            Step::Merge { source, target } => self.merge(at(source), at(target)),
            Step::Close { branch: line } => {
                let line = at(line);
                self.log.close_branch(&branch(&id(line))).unwrap();
                self.model.lines[line].state.get_or_insert(BranchState::Closed);
            }
            Step::Erase { branch, at: seq } => self.erase(n, at(branch), usize::from(seq)),
            Step::Read { branch, from, limit } => self.read(at(branch), from, limit),
            Step::Reopen => {}
        }
    }

    fn read(&self, line: usize, from: u8, limit: u8) {
        let (from, limit) = (usize::from(from), usize::from(limit));
        let entries = &self.model.lines[line].entries;
        let number = |entry: &usize| self.model.entries[*entry].number;
        let found = self.log.read(&branch(&id(line)), count(from), limit).unwrap();
        let found: Vec<_> = found.iter().map(|event| event.body["n"].as_u64()).collect();
        let expected: Vec<_> =
            entries.iter().skip(from.max(1) - 1).take(limit).map(number).collect();
        assert_eq!(found, expected, "b_{line} from {from}");
        let base = self.model.lines[line].parent.map_or(0, |(_, at)| at);
        let own = self.log.read_own(&branch(&id(line)), count(from), limit).unwrap();
        let own: Vec<_> = own.iter().map(|(seq, event)| (*seq, event.body["n"].as_u64())).collect();
        let expected = entries.iter().map(number).enumerate().skip(base);
        let expected: Vec<_> = expected
            .map(|(at, number)| (count(at + 1 - base), number))
            .skip(from.max(1) - 1)
            .take(limit)
            .collect();
        assert_eq!(own, expected, "b_{line} by itself from {from}");
    }

    fn append(&mut self, n: u64, line: usize, expected: Option<u8>, key: Option<u8>) {
        let length = count(self.model.lines[line].entries.len());
        let expected = expected.map(u64::from);
        let outcome = self.log.append(Append {
            expected_head: expected,
            idempotency_key: key.map(|key| format!("k{key}")),
            ..numbered(&id(line), n)
        });
        let keys = &self.model.lines[line].keys;
        let earlier = key.and_then(|key| keys.iter().find(|(known, _)| *known == key).copied());
        if let Some((_, entry)) = earlier {
            let again = outcome.unwrap();
            let number = again.events[0].body["n"].as_u64();
            assert_eq!((again.replayed, number), (true, self.model.entries[entry].number));
        } else if !self.model.is_open(line) {
            assert_eq!(outcome.unwrap_err().code(), "branch_read_only");
        } else if expected.is_some_and(|expected| expected != length) {
            let error = outcome.unwrap_err();
            assert_eq!(error.code(), "head_conflict");
            assert_eq!(error.report().context["head"], length);
        } else {
            assert_eq!(outcome.unwrap().head.seq, length + 1);
            self.model.push(line, Some(n), false);
            let entry = self.model.entries.len() - 1;
            self.model.lines[line].keys.extend(key.map(|key| (key, entry)));
        }
    }

    fn fork(&mut self, line: usize, at: usize) {
        let new = self.model.lines.len();
        let outcome = self.log.create_branch(fork(&id(new), &id(line), count(at)));
        let past = &self.model.lines[line].entries;
        if at == 0 || at > past.len() {
            assert_eq!(outcome.unwrap_err().code(), "fork_out_of_range");
            return;
        }
        outcome.unwrap();
        let (entries, parent) = (past[..at].to_vec(), Some((line, at)));
        self.model.lines.push(Line { entries, parent, ..Line::default() });
    }

    fn merge(&mut self, source: usize, target: usize) {
        let shared = self.model.shared(source, target);
        let length = |line: usize| self.model.lines[line].entries.len();
        let (from, into) = (length(source), length(target));
        let head = self.log.head(&branch(&id(source))).unwrap();
        let outcome = self.log.merge(merge(&id(source), head, &id(target), count(into)));
        if shared == 0 || from == shared {
            assert_eq!(outcome.unwrap_err().code(), "append_invalid");
        } else if !self.model.is_open(target) || !self.model.is_open(source) {
            assert_eq!(outcome.unwrap_err().code(), "branch_read_only");
        } else {
            outcome.unwrap();
            self.model.push(target, None, true);
            self.model.lines[source].state = Some(BranchState::Merged);
        }
    }

    fn erase(&mut self, n: u64, line: usize, seq: usize) {
        let outcome = self.log.erase(Erase {
            session: session("s_1"),
            branch: branch("b_0"),
            events: vec![(branch(&id(line)), count(seq))],
            blobs: Vec::new(),
            reason: format!("step {n}"),
            actor: Actor::kernel(),
            epoch: None,
        });
        let entries = &self.model.lines[line].entries;
        let entry = seq.checked_sub(1).and_then(|at| entries.get(at)).copied();
        match entry.filter(|entry| self.model.entries[*entry].owner == line) {
            None => assert_eq!(outcome.unwrap_err().code(), "event_not_found"),
            Some(entry) if self.model.entries[entry].is_kept => {
                assert_eq!(outcome.unwrap_err().code(), "append_invalid");
            }
            Some(_) if !self.model.is_open(0) => {
                assert_eq!(outcome.unwrap_err().code(), "branch_read_only");
            }
            Some(entry) => {
                outcome.unwrap();
                self.model.entries[entry].number = None;
                self.model.push(0, None, true);
            }
        }
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
            Pair { log: &log, model: &mut model }.run(n, step);
        }
        compare(&log, &model);
    }

    #[test]
    fn any_interleaving_in_memory_is_what_the_model_says(steps in steps()) {
        let log = Log::in_memory(&TenantId::local(), Arc::new(ManualClock::default())).unwrap();
        log.create_branch(root("s_1", "b_0")).unwrap();
        let mut model = Model { lines: vec![Line::default()], ..Model::default() };
        for (n, step) in (0..).zip(&steps) {
            Pair { log: &log, model: &mut model }.run(n, step);
        }
        compare(&log, &model);
    }
}
