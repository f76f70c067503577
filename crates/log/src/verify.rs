//! Proving a whole log: every event against its chain, the tree against the events, and both
//! against the heads that were signed outside the database.

use glasshouse_model::event::event_hash;
use glasshouse_model::{BranchId, Digest, Seq};
use serde::Serialize;
use serde_json::Value;

use crate::branch::{BranchRow, ancestors_of_child};
use crate::chain::PAGE;
use crate::checkpoint::SignedHead;
use crate::codes;
use crate::error::Result;
use crate::heads::Heads;
use crate::keys::PublicKey;
use crate::record::{Defect, Record};
use crate::store::{Leaf, Store, TreeHead};
use crate::tree::Tree;

/// Leaves read at a time.
const LEAF_PAGE: usize = 4096;

/// What proving a log found.
#[derive(Debug, Clone, PartialEq)]
pub enum Verification {
    /// Every event proves itself and the signed head vouches for them.
    Sound(Sound),
    /// Something does not; the first of it.
    Broken(Broken),
}

/// A log that proves itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sound {
    /// Number of events.
    pub events: u64,
    /// Root of the tree over all of them.
    pub head: String,
    /// Root that the newest signed head vouches for.
    pub signed_head: String,
    /// Number of events that it covers.
    pub signed_events: u64,
}

/// The first thing that does not prove itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Broken {
    /// `hash_mismatch`, `truncated`, `reordered`, `missing_log` or `bad_signature`.
    pub kind: &'static str,
    /// Branch of the first bad event, when one event can be named.
    pub branch: Option<BranchId>,
    /// Its sequence.
    pub seq: Option<Seq>,
    /// What should be there: a hash, a place, or the sequence of the head.
    pub expected: Value,
    /// What is there.
    pub found: Value,
}

impl Verification {
    /// Whether the log proves itself.
    #[must_use]
    pub const fn is_ok(&self) -> bool {
        matches!(self, Self::Sound(_))
    }
}

impl Serialize for Verification {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Tagged<'a, T> {
            ok: bool,
            #[serde(flatten)]
            rest: &'a T,
        }
        match self {
            Self::Sound(rest) => Tagged { ok: true, rest }.serialize(serializer),
            Self::Broken(rest) => Tagged { ok: false, rest }.serialize(serializer),
        }
    }
}

impl Broken {
    fn of_log(kind: &'static str, expected: impl Into<Value>, found: impl Into<Value>) -> Self {
        Self { kind, branch: None, seq: None, expected: expected.into(), found: found.into() }
    }

    fn of_event(branch: &BranchId, seq: Seq, defect: &Defect) -> Self {
        let (kind, expected, found) = defect.parts();
        Self { kind, branch: Some(branch.clone()), seq: Some(seq), expected, found }
    }

    pub(crate) fn missing_log(expected: impl Into<Value>) -> Self {
        Self::of_log("missing_log", expected, "no log")
    }

    pub(crate) fn bad_signature(expected: impl Into<Value>, found: impl Into<Value>) -> Self {
        Self::of_log("bad_signature", expected, found)
    }
}

/// A log that is shorter than a signed head says.
pub(crate) fn cut_below(head: &SignedHead, tree: &TreeHead, store: &dyn Store) -> Result<Broken> {
    let newest = head.tree.newest.as_ref();
    if let Some((branch, signed)) = newest {
        let found = match store.branch(branch) {
            Ok(row) => row.head.seq,
            Err(error) if error.is(codes::BRANCH_NOT_FOUND) => 0,
            Err(error) => return Err(error),
        };
        if found < signed.seq {
            let defect = Defect::Missing { head: signed.seq, found };
            return Ok(Broken::of_event(branch, found + 1, &defect));
        }
    }
    Ok(Broken::of_log("truncated", head.tree.size, tree.size))
}

/// Proves a log.
///
/// The signed heads are read before the tree and the tree before the events, so a log that grows
/// meanwhile only has more than it must.
pub(crate) fn verify(
    store: &dyn Store,
    heads: &Heads,
    key: &Result<PublicKey>,
) -> Result<Verification> {
    let signed = signed_heads(heads, key)?;
    let tree = store.tree();
    if let Some(broken) = first_bad_event(store)? {
        return Ok(Verification::Broken(broken));
    }
    let tree = match tree {
        Err(error) if error.is(codes::LOG_CORRUPT) => {
            let broken = Broken::of_log("hash_mismatch", "the tree of the log", error.to_string());
            return Ok(Verification::Broken(broken));
        }
        tree => tree?,
    };
    let marks = signed.as_deref().unwrap_or_default();
    if let Some(broken) = check_tree(store, &tree, marks)? {
        return Ok(Verification::Broken(broken));
    }
    Ok(match signed {
        Err(broken) => Verification::Broken(broken),
        Ok(marks) => {
            let newest = marks.last().expect("a log has a signed head");
            Verification::Sound(Sound {
                events: tree.size,
                head: tree.root.to_string(),
                signed_head: newest.tree.root.to_string(),
                signed_events: newest.tree.size,
            })
        }
    })
}

/// Every signed head, smallest first; at least one.
fn signed_heads(heads: &Heads, key: &Result<PublicKey>) -> Result<Result<Vec<SignedHead>, Broken>> {
    let key = match key {
        Ok(key) => key,
        Err(error) => return Ok(Err(Broken::bad_signature("the log's key", error.to_string()))),
    };
    let Some(latest) = heads.latest()? else {
        return Ok(Err(Broken::bad_signature(key.name(), "no signed head")));
    };
    let mut signed = Vec::new();
    for (size, note) in heads.kept()? {
        match SignedHead::open(&note, key) {
            Ok(head) if head.tree.size == size => signed.push(head),
            Ok(head) => {
                let found = format!("heads/{size:020}.note covers {} events", head.tree.size);
                return Ok(Err(Broken::bad_signature(key.name(), found)));
            }
            Err(why) => {
                let found = format!("heads/{size:020}.note: {why}");
                return Ok(Err(Broken::bad_signature(key.name(), found)));
            }
        }
    }
    match SignedHead::open(&latest, key) {
        Ok(head) => signed.push(head),
        Err(why) => {
            let found = format!("heads/latest.note: {why}");
            return Ok(Err(Broken::bad_signature(key.name(), found)));
        }
    }
    signed.sort_by_key(|head| head.tree.size);
    Ok(Ok(signed))
}

/// The bad event that was committed first.
fn first_bad_event(store: &dyn Store) -> Result<Option<Broken>> {
    let mut first: Option<(u64, Broken)> = None;
    for row in store.branches(None)? {
        if let Some(found) = check_branch(store, &row)?
            && first.as_ref().is_none_or(|(position, _)| found.0 < *position)
        {
            first = Some(found);
        }
    }
    Ok(first.map(|(_, broken)| broken))
}

/// Proves a branch's own events. The number beside a bad one is about where it was committed.
fn check_branch(store: &dyn Store, row: &BranchRow) -> Result<Option<(u64, Broken)>> {
    let (branch, base) = (&row.branch, row.base());
    if let Some(defect) = check_fork(store, row)? {
        return Ok(Some((0, Broken::of_event(branch, base.seq + 1, &defect))));
    }
    let (mut last, mut after) = (base, 0);
    while last.seq < row.head.seq {
        let next = last.seq + 1;
        let bad = |defect: &Defect, at| Ok(Some((at, Broken::of_event(branch, next, defect))));
        let rows = match readable_rows(store, branch, next, row.head.seq)? {
            Ok(rows) => rows,
            Err(defect) => return bad(&defect, after),
        };
        if rows.first().is_none_or(|record| record.seq != next) {
            return bad(&Defect::Missing { head: row.head.seq, found: last.seq }, after);
        }
        for record in rows {
            if record.seq != last.seq + 1 {
                break;
            }
            if let Err(defect) = record.prove(branch, &last.hash) {
                let defect = explain(store, &record, &last.hash, defect)?;
                return Ok(Some((after, Broken::of_event(branch, record.seq, &defect))));
            }
            if let Some(defect) = record.belongs_elsewhere(&row.session) {
                return Ok(Some((after, Broken::of_event(branch, record.seq, &defect))));
            }
            if record.position < after {
                let defect = Defect::Place {
                    expected: format!("position {after} or later"),
                    found: format!("position {}", record.position),
                };
                return Ok(Some((record.position, Broken::of_event(branch, record.seq, &defect))));
            }
            after = record.position + 1;
            (last.seq, last.hash) = (record.seq, record.hash);
        }
    }
    if last != row.head {
        let (expected, found) = (row.head.hash.to_string(), last.hash.to_string());
        let defect = Defect::Hash { expected, found };
        return Ok(Some((after, Broken::of_event(branch, row.head.seq, &defect))));
    }
    Ok(None)
}

/// A page of rows; when the database cannot read it, as much of it as can be read, or the defect of
/// the row that cannot.
fn readable_rows(
    store: &dyn Store,
    branch: &BranchId,
    from: Seq,
    upto: Seq,
) -> Result<Result<Vec<Record>, Defect>> {
    for limit in [PAGE, 1] {
        match store.rows(branch, from, upto, limit) {
            Ok(rows) => return Ok(Ok(rows)),
            Err(error) if !error.is(codes::LOG_CORRUPT) => return Err(error),
            Err(_) => {}
        }
    }
    let expected = "an event that can be read".to_owned();
    Ok(Err(Defect::Hash { expected, found: "a damaged row".to_owned() }))
}

/// Checks what a branch says of its past.
fn check_fork(store: &dyn Store, row: &BranchRow) -> Result<Option<Defect>> {
    let Some(fork) = &row.fork else { return Ok(None) };
    let stored = store.ancestors(&row.branch)?;
    let parent = store.branch(&fork.parent)?;
    let past = if parent.fork.is_some() { store.ancestors(&fork.parent)? } else { Vec::new() };
    let expected = ancestors_of_child(&fork.parent, past, fork.seq)?;
    if stored != expected {
        let (expected, found) = (format!("{expected:?}"), format!("{stored:?}"));
        return Ok(Some(Defect::Place { expected, found }));
    }
    let owner = expected.last().expect("a fork has an ancestor");
    let shared = store.rows(&owner.branch, fork.seq, fork.seq, 1)?.pop();
    let found = shared.map(|record| record.hash);
    Ok((found != Some(fork.hash)).then(|| Defect::Hash {
        expected: fork.hash.to_string(),
        found: found.map_or_else(|| "no event".to_owned(), |hash| hash.to_string()),
    }))
}

/// Tells a record that stands in another's place from one whose bytes were damaged into naming
/// another place: in the second case that place holds its own record.
fn explain(store: &dyn Store, record: &Record, prev: &Digest, defect: Defect) -> Result<Defect> {
    let Defect::Place { found, .. } = &defect else { return Ok(defect) };
    let named = found.split_once('/').and_then(|(branch, seq)| {
        Some((branch.parse::<BranchId>().ok()?, seq.parse::<Seq>().ok()?))
    });
    let is_taken = match named {
        None => true,
        Some((branch, seq)) => match store.rows(&branch, seq, seq, 1) {
            Ok(rows) => rows.first().is_some_and(|record| record.names(&branch)),
            Err(error) if error.is(codes::BRANCH_NOT_FOUND) => true,
            Err(error) => return Err(error),
        },
    };
    let (expected, found) = (record.hash, event_hash(prev, &record.header));
    if is_taken && expected != found {
        return Ok(Defect::Hash { expected: expected.to_string(), found: found.to_string() });
    }
    Ok(defect)
}

/// Recomputes the tree and compares it with the stored one and with each signed head.
fn check_tree(
    store: &dyn Store,
    stored: &TreeHead,
    marks: &[SignedHead],
) -> Result<Option<Broken>> {
    if let Some(newest) = marks.last()
        && newest.tree.size > stored.size
    {
        return cut_below(newest, stored, store).map(Some);
    }
    let mut tree = Tree::default();
    let mut marks = marks.iter().map(|head| &head.tree).peekable();
    let mut vouched = 0;
    loop {
        while let Some(mark) = marks.next_if(|mark| mark.size == tree.size()) {
            if mark.root != tree.root() {
                return first_unvouched(store, vouched, mark, &tree).map(Some);
            }
            vouched = mark.size;
        }
        if tree.size() == stored.size {
            break;
        }
        let leaves = store.leaves(tree.size(), LEAF_PAGE)?;
        if leaves.is_empty() {
            return Ok(Some(Broken::of_log("truncated", stored.size, tree.size())));
        }
        for Leaf { position, branch, seq, hash } in leaves {
            if tree.size() == stored.size || marks.peek().is_some_and(|m| m.size == tree.size()) {
                break;
            }
            if position != tree.size() {
                let (expected, found) = (tree.size().into(), position.into());
                let (branch, seq) = (Some(branch), Some(seq));
                let kind = "reordered";
                return Ok(Some(Broken { kind, branch, seq, expected, found }));
            }
            tree.push(&hash);
        }
    }
    if tree.root() != stored.root {
        return first_unvouched(store, vouched, stored, &tree).map(Some);
    }
    unknown_leaf(store, stored.size)
}

/// Names the first event after those that a signed head vouches for.
fn first_unvouched(
    store: &dyn Store,
    vouched: u64,
    expected: &TreeHead,
    found: &Tree,
) -> Result<Broken> {
    let leaf = store.leaves(vouched, 1)?.pop();
    let (branch, seq) = leaf.map(|leaf| (leaf.branch, leaf.seq)).unzip();
    let (expected, found) = (expected.root.to_string().into(), found.root().to_string().into());
    Ok(Broken { kind: "hash_mismatch", branch, seq, expected, found })
}

/// An event that was put beside the tree. Events that were committed since the tree was read are
/// none, because the tree has grown with them.
fn unknown_leaf(store: &dyn Store, size: u64) -> Result<Option<Broken>> {
    let Some(last) = store.leaves(size, LEAF_PAGE)?.pop() else { return Ok(None) };
    let now = store.tree()?.size;
    Ok((last.position >= now).then(|| Broken {
        kind: "reordered",
        branch: Some(last.branch),
        seq: Some(last.seq),
        expected: now.into(),
        found: (last.position + 1).into(),
    }))
}
