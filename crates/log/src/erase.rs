//! Erasing bodies and blobs so that every proof stays: headers and hashes are kept, and an event
//! says what was erased.

use std::collections::{BTreeMap, HashMap};

use glasshouse_model::body::{
    EventRange, EventRef, LogErased, ModelCompleted, ModelRequested, Spent,
};
use glasshouse_model::{Actor, BranchId, Digest, Header, Kind, Seq, SessionId};
use serde::Deserialize;

use crate::append::CellWrite;
use crate::codes;
use crate::error::{Error, Result};
use crate::record::Record;
use crate::store::Store;

/// Space of the cells that name blobs which are still to be deleted.
pub(crate) const SPACE: &str = "log.erasing";
/// Most events and blobs in one erasure.
pub const MAX_ERASED: usize = 1024;
/// Longest reason in bytes.
pub const MAX_REASON_BYTES: usize = 1024;
/// Rows that are read at a time to see what answers of models used.
const PAGE: usize = 64;
/// Rows before an answer among which its request is sought.
const REQUEST_WITHIN: u64 = 256;
/// Longest name of a model, and of a kind of tokens, that is kept.
const MAX_MODEL_BYTES: usize = 128;
const MAX_KIND_BYTES: usize = 32;
/// Most kinds of tokens that are kept apart.
const MAX_TOKEN_KINDS: usize = 8;
/// What stands for the kinds that are not.
const OTHER_TOKENS: &str = "other";

/// What to erase. The event that says so goes to `branch`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erase {
    /// The session of everything that is named here, or the log's own, which may name any.
    pub session: SessionId,
    /// The branch whose next event records the erasure.
    pub branch: BranchId,
    /// Events whose bodies go, by the branch that stores them.
    pub events: Vec<(BranchId, Seq)>,
    /// Blobs that go, whoever names them.
    pub blobs: Vec<Digest>,
    /// Why, for whoever reads the log later. It is never erased.
    pub reason: String,
    /// Who wants it.
    pub actor: Actor,
    /// As in [`Append`](crate::Append).
    pub epoch: Option<u64>,
}

impl Erase {
    /// Whether it names something, not too much, and says why.
    ///
    /// # Errors
    /// `append_invalid`.
    pub fn check(&self) -> Result<()> {
        let invalid =
            |why: String| Err(Error::new(codes::APPEND_INVALID, "could not erase").why(why));
        let count = self.events.len() + self.blobs.len();
        if count == 0 || count > MAX_ERASED {
            return invalid(format!("{count} events and blobs are named, 1 to {MAX_ERASED}"));
        }
        if self.reason.is_empty() || self.reason.len() > MAX_REASON_BYTES {
            let bytes = self.reason.len();
            return invalid(format!("the reason has {bytes} bytes, 1 to {MAX_REASON_BYTES}"));
        }
        Ok(())
    }
}

/// The cell that remembers a blob until it is deleted.
pub(crate) fn cell_of(blob: &Digest) -> CellWrite {
    CellWrite {
        space: SPACE.to_owned(),
        key: blob.hex(),
        expected_version: None,
        bytes: Some(Vec::new()),
    }
}

/// What a `log.erased` event says; `None` for any other event.
pub(crate) fn said_by(record: &Record) -> Option<LogErased> {
    record.body_of(&Kind::LogErased)
}

/// Whether an event that does not prove itself may have been one that erases.
pub(crate) fn may_say(record: &Record) -> bool {
    let kind = Kind::LogErased;
    let is_other =
        serde_json::from_slice::<Header>(&record.header).is_ok_and(|header| header.kind != kind);
    !is_other
}

/// Whether an event stays whole: what it says, and nothing else, proves other events and branches.
pub(crate) fn is_kept(record: &Record) -> bool {
    #[derive(Deserialize)]
    struct Anchors {
        kind: Kind,
    }
    serde_json::from_slice(&record.header).is_ok_and(|Anchors { kind }| proves_others(&kind))
}

/// Whether what events of a kind say proves others.
pub(crate) const fn proves_others(kind: &Kind) -> bool {
    matches!(kind, Kind::LogErased | Kind::BranchMerged | Kind::SessionImported)
}

/// Whether the event that an erased one points at says that it was erased.
pub(crate) fn is_recorded(store: &dyn Store, by: u64, branch: &BranchId, seq: Seq) -> Result<bool> {
    let Some(leaf) = store.leaves(by, 1)?.pop().filter(|leaf| leaf.position == by) else {
        return Ok(false);
    };
    let record = store.rows(&leaf.branch, leaf.seq, leaf.seq, 1)?.pop();
    let said = record.as_ref().and_then(said_by);
    Ok(said.is_some_and(|said| names(&said, branch, seq)))
}

/// What an erasure's event says of events: those that follow one another as a range.
pub(crate) fn named(events: &[(BranchId, Seq)]) -> (Vec<EventRef>, Vec<EventRange>) {
    let mut sorted: Vec<_> = events.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let (mut single, mut ranges) = (Vec::new(), Vec::new());
    for run in sorted.chunk_by(|(branch, seq), (next, later)| branch == next && seq + 1 == *later) {
        let ((branch, from), (_, upto)) = (run[0], run[run.len() - 1]);
        if from == upto {
            single.push(EventRef { branch: branch.clone(), seq: *from });
        } else {
            ranges.push(EventRange { branch: branch.clone(), from: *from, upto: *upto });
        }
    }
    (single, ranges)
}

/// What the answers of models among events that are about to be erased used. Whoever counts what was used in a
/// day reads it here when the answers are gone.
pub(crate) fn spent_by(store: &dyn Store, events: &[(BranchId, Seq)]) -> Result<Vec<Spent>> {
    let (single, ranges) = named(events);
    let single = single.into_iter().map(|EventRef { branch, seq }| (branch, seq, seq));
    let ranges = ranges.into_iter().map(|EventRange { branch, from, upto }| (branch, from, upto));
    let mut spent = Vec::new();
    for (branch, from, upto) in single.chain(ranges) {
        let (mut next, mut model) = (from, None);
        while next <= upto {
            let rows = store.rows(&branch, next, upto, PAGE)?;
            let Some(last) = rows.last() else { break };
            next = last.seq + 1;
            for row in &rows {
                if let Some(asked) = row.body_of::<ModelRequested>(&Kind::ModelRequested) {
                    model = Some(asked.model);
                }
                let answer = row.body_of::<ModelCompleted>(&Kind::ModelCompleted);
                let Some(answer) = answer else { continue };
                if model.is_none() {
                    model = asked_before(store, &branch, row.seq)?;
                }
                spent.push(spent_of(branch.clone(), row.seq, model.clone(), answer));
            }
        }
    }
    Ok(spent)
}

/// The model of the last request before an event, as far as that can still be read.
fn asked_before(store: &dyn Store, branch: &BranchId, seq: Seq) -> Result<Option<String>> {
    let limit = usize::try_from(REQUEST_WITHIN).unwrap_or(usize::MAX);
    let rows = store.rows(branch, seq.saturating_sub(REQUEST_WITHIN), seq - 1, limit)?;
    let asked = rows.iter().rev().find(|row| is_of(row, &Kind::ModelRequested));
    let asked = asked.and_then(|row| row.body_of::<ModelRequested>(&Kind::ModelRequested));
    Ok(asked.map(|asked| asked.model))
}

fn is_of(record: &Record, kind: &Kind) -> bool {
    serde_json::from_slice::<Header>(&record.header).is_ok_and(|header| header.kind == *kind)
}

/// However a provider names things, what is kept has a bound: an erasure has room for all that it names.
fn spent_of(branch: BranchId, seq: Seq, model: Option<String>, answer: ModelCompleted) -> Spent {
    let is_text = |name: &str| !name.chars().any(char::is_control);
    let model = model.filter(|name| is_text(name));
    let model = model.map(|name| name[..name.floor_char_boundary(MAX_MODEL_BYTES)].to_owned());
    let mut tokens: BTreeMap<String, u64> = BTreeMap::new();
    for (kind, count) in answer.tokens {
        let is_short = kind.len() <= MAX_KIND_BYTES && is_text(&kind);
        let has_room = is_short && tokens.len() < MAX_TOKEN_KINDS;
        let kind = if has_room { kind } else { OTHER_TOKENS.to_owned() };
        let sum = tokens.entry(kind).or_default();
        *sum = sum.saturating_add(count);
    }
    let ModelCompleted { cost_micros, summary, .. } = answer;
    Spent { branch, seq, model, tokens, cost_micros, summary }
}

pub(crate) fn names(said: &LogErased, branch: &BranchId, seq: Seq) -> bool {
    let in_range =
        |range: &EventRange| range.branch == *branch && (range.from..=range.upto).contains(&seq);
    said.events.iter().any(|event| event.branch == *branch && event.seq == seq)
        || said.ranges.iter().any(in_range)
}

/// Who erased which event, where many erasures are known: however many there are and however much they
/// name, looking one up takes few steps.
#[derive(Default)]
pub(crate) struct Erasers {
    /// By branch: first and last sequence that are named, and by which erasure. Once settled, in the order
    /// of the first, and each with the last, and its erasure, of all up to it.
    named: HashMap<BranchId, Vec<(Seq, Seq, u64)>>,
}

impl Erasers {
    /// Adds what an erasure at a position says.
    pub(crate) fn add(&mut self, said: &LogErased, by: u64) {
        let single = said.events.iter().map(|event| (&event.branch, event.seq, event.seq));
        let ranges = said.ranges.iter().map(|range| (&range.branch, range.from, range.upto));
        for (branch, from, upto) in single.chain(ranges) {
            self.named.entry(branch.clone()).or_default().push((from, upto, by));
        }
    }

    /// Must come between adding and looking up.
    pub(crate) fn settle(&mut self) {
        for named in self.named.values_mut() {
            named.sort_unstable();
            let mut furthest = (0, 0);
            for (_, upto, by) in named {
                if *upto > furthest.0 {
                    furthest = (*upto, *by);
                }
                (*upto, *by) = furthest;
            }
        }
    }

    /// Position of an erasure that names an event.
    pub(crate) fn of(&self, branch: &BranchId, seq: Seq) -> Option<u64> {
        let named = self.named.get(branch)?;
        let begun = named.partition_point(|(from, ..)| *from <= seq);
        let (_, upto, by) = *named.get(begun.checked_sub(1)?)?;
        (seq <= upto).then_some(by)
    }

    /// The branches of which anything is named.
    pub(crate) fn branches(&self) -> impl Iterator<Item = &BranchId> {
        self.named.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_erased_an_event_is_found_among_many() {
        let said = |events: &[Seq], ranges: &[(Seq, Seq)]| LogErased {
            events: events
                .iter()
                .map(|seq| EventRef { branch: "b_1".parse().unwrap(), seq: *seq })
                .collect(),
            ranges: ranges
                .iter()
                .map(|(from, upto)| EventRange {
                    branch: "b_1".parse().unwrap(),
                    from: *from,
                    upto: *upto,
                })
                .collect(),
            blobs: Vec::new(),
            spent: Vec::new(),
            reason: "r".into(),
        };
        let mut erasers = Erasers::default();
        erasers.add(&said(&[3], &[(10, 90)]), 1);
        erasers.add(&said(&[20, 95], &[(12, 14)]), 2);
        erasers.add(&said(&[], &[(200, Seq::MAX), (50, 40)]), 3);
        erasers.settle();
        let check = |branch: &str, seq: Seq, expected: Option<u64>| {
            assert_eq!(erasers.of(&branch.parse().unwrap(), seq), expected, "{branch} {seq}");
        };
        check("b_1", 0, None);
        check("b_1", 2, None);
        check("b_1", 3, Some(1));
        check("b_1", 4, None);
        check("b_1", 10, Some(1));
        check("b_1", 90, Some(1));
        check("b_1", 91, None);
        check("b_1", 95, Some(2));
        check("b_1", 199, None);
        check("b_1", Seq::MAX, Some(3));
        check("b_2", 3, None);
    }

    #[test]
    fn neighbours_are_named_as_a_range() {
        let check = |events: &[(&str, Seq)], expected: &str| {
            let events: Vec<_> =
                events.iter().map(|(branch, seq)| (branch.parse().unwrap(), *seq)).collect();
            let (single, ranges) = named(&events);
            let single = single.iter().map(|event| format!("{}:{}", event.branch, event.seq));
            let ranges = ranges.iter().map(|r| format!("{}:{}-{}", r.branch, r.from, r.upto));
            let told: Vec<_> = single.chain(ranges).collect();
            assert_eq!(told.join(" "), expected);
        };
        check(&[("b_1", 3)], "b_1:3");
        check(&[("b_1", 3), ("b_1", 4), ("b_1", 5)], "b_1:3-5");
        check(&[("b_1", 4), ("b_1", 3), ("b_1", 3), ("b_1", 9)], "b_1:9 b_1:3-4");
        check(&[("b_1", 3), ("b_2", 4)], "b_1:3 b_2:4");
    }
}
