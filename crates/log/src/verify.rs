//! Proving a whole log: every event against its chain, the tree against the events, and both
//! against the heads that were signed outside the database.

mod events;
mod order;
mod tree;

use std::num::NonZeroUsize;

use glasshouse_model::{BranchId, Digest, Header, Seq};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use self::events::{Erasures, Events};
use self::tree::{TreeDefect, check_tree};
use crate::blobs::Blobs;
use crate::cells::CellProof;
use crate::checkpoint::SignedHead;
use crate::codes;
use crate::error::{Error, Result};
use crate::heads::Heads;
use crate::keys::PublicKey;
use crate::proof::{self, Consistency, Extension};
use crate::record::Defect;
use crate::store::{Flaw, Store, TreeHead};

/// Most threads that prove events: each has a connection and pages of events in memory.
const MAX_THREADS: usize = 8;
/// Cells read at a time.
const CELL_PAGE: usize = 512;

/// What proving a log found.
#[derive(Debug, Clone, PartialEq)]
pub enum Verification {
    /// Every event proves itself and the signed head vouches for them.
    Sound(Sound),
    /// Something does not; the first of it.
    Broken(Broken),
}

/// A log that proves itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "SoundLog")]
pub struct Sound {
    /// Number of events.
    pub events: u64,
    /// Root of the tree over all of them.
    pub head: String,
    /// Root that the newest signed head vouches for.
    pub signed_head: String,
    /// Number of events that it covers.
    pub signed_events: u64,
    /// Number of blobs that events name and that are there; each was read.
    pub blobs: u64,
    /// Number of events whose body was erased, as a later event says.
    pub erased_events: u64,
    /// Number of blobs that were erased, as an event says.
    pub erased_blobs: u64,
    /// Number of blobs that events of imported sessions name and that did not come with them.
    #[serde(skip_serializing_if = "is_zero")]
    pub missing_blobs: u64,
    /// Archives that are not where the log put them, although it did not delete them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_archives: Vec<String>,
    /// Files with bytes that were set aside because they are no log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quarantined: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
pub(crate) const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The first thing that does not prove itself.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "BrokenLog")]
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

/// A finding with its verdict in front.
#[derive(Serialize)]
pub(crate) struct Tagged<'a, T> {
    pub(crate) ok: bool,
    #[serde(flatten)]
    pub(crate) rest: &'a T,
}

/// The schema of [`Verification`].
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Told {
    /// Everything proves itself.
    Sound {
        /// True.
        ok: bool,
        #[serde(flatten)]
        rest: Sound,
    },
    /// Something does not.
    Broken {
        /// False.
        ok: bool,
        #[serde(flatten)]
        rest: Broken,
    },
}

impl JsonSchema for Verification {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Verification".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Told::json_schema(generator)
    }
}

impl Serialize for Verification {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Sound(rest) => Tagged { ok: true, rest }.serialize(serializer),
            Self::Broken(rest) => Tagged { ok: false, rest }.serialize(serializer),
        }
    }
}

impl Broken {
    pub(crate) fn of_log(
        kind: &'static str,
        expected: impl Into<Value>,
        found: impl Into<Value>,
    ) -> Self {
        Self { kind, branch: None, seq: None, expected: expected.into(), found: found.into() }
    }

    fn of_event(branch: &BranchId, seq: Seq, defect: &Defect) -> Self {
        let (kind, expected, found) = defect.parts();
        Self { kind, branch: Some(branch.clone()), seq: Some(seq), expected, found }
    }

    fn of_store(flaw: Flaw) -> Self {
        Self::of_log("hash_mismatch", flaw.expected, flaw.found)
    }

    /// A database that cannot be read; `first` is the oldest event that can be made out in it.
    pub(crate) fn unreadable(kind: &'static str, first: Option<Header>, error: &Error) -> Self {
        let (branch, seq) = first.map(|header| (header.branch, header.seq)).unzip();
        let (expected, found) = ("a database that can be read".into(), error.to_string().into());
        Self { kind, branch, seq, expected, found }
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

/// Which signed heads a store must agree with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All of them: it is the log.
    Whole,
    /// Those that cover no more than it holds: it is a copy of earlier.
    AsFarAsItGoes,
}

/// Proves a log, or a copy of one.
///
/// The signed heads are read before the tree and the tree before the events, so a log that grows
/// meanwhile only has more than it must.
pub(crate) fn verify(
    store: &dyn Store,
    blobs: &Blobs,
    heads: &Heads,
    key: &Result<PublicKey>,
    reach: Reach,
) -> Result<Verification> {
    let mut signed = signed_heads(heads, key)?;
    let tree = store.tree();
    if let (Reach::AsFarAsItGoes, Ok(marks), Ok(tree)) = (reach, &mut signed, &tree) {
        marks.retain(|head| head.tree.size <= tree.size);
    }
    let settled = tree.as_ref().map_or(0, |tree| tree.size);
    let mut cells = CellProof::new(settled);
    let cells_read = add_stored_cells(store, &mut cells);
    let mut events = Events::new(store, blobs, cells, settled);
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let marks = signed.as_deref().unwrap_or_default();
    // The tree is over hashes alone, so that it can be proved beside the events, which come first in
    // what is answered.
    let (bad, proved) = std::thread::scope(|scope| {
        let proving = scope.spawn(|| match &tree {
            Ok(tree) => check_tree(store, tree, marks),
            Err(_) => Ok(None),
        });
        let bad = events.first_bad(threads.min(MAX_THREADS));
        let proved = proving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (bad, proved)
    });
    if let Some((at, broken)) = bad? {
        // An event that proves itself and stands at another place than it was committed at.
        let moved = proved.ok().flatten().filter(|moved| moved.at.is_some_and(|place| place < at));
        return Ok(Verification::Broken(moved.map_or(broken, |moved| moved.broken)));
    }
    let tree = match tree {
        Err(error) if error.is(codes::LOG_CORRUPT) => {
            let broken = Broken::of_log("hash_mismatch", "the tree of the log", error.to_string());
            return Ok(Verification::Broken(broken));
        }
        tree => tree?,
    };
    if let Ok(Some(TreeDefect { broken, .. })) = proved {
        return Ok(Verification::Broken(broken));
    }
    if let Some(flaw) = store.flaw(true)? {
        return Ok(Verification::Broken(Broken::of_store(flaw)));
    }
    proved?;
    cells_read?;
    let (blobs, erased) = (events.blobs(), events.erasures());
    if let Some(broken) = events.first_bad_cell() {
        return Ok(Verification::Broken(broken));
    }
    Ok(match signed {
        Err(broken) => Verification::Broken(broken),
        // A log has one; a copy may be older than the oldest that is kept.
        Ok(marks) => Verification::Sound(sound(&tree, marks.last(), blobs, erased)),
    })
}

fn sound(tree: &TreeHead, newest: Option<&SignedHead>, blobs: u64, erased: Erasures) -> Sound {
    let newest = newest.map(|newest| &newest.tree);
    Sound {
        events: tree.size,
        head: tree.root.to_string(),
        signed_head: newest.map_or(Digest::ZERO, |newest| newest.root).to_string(),
        signed_events: newest.map_or(0, |newest| newest.size),
        blobs,
        erased_events: erased.events,
        erased_blobs: erased.blobs,
        missing_blobs: erased.missing,
        missing_archives: Vec::new(),
        quarantined: Vec::new(),
    }
}

/// Every cell, to be compared with what the events say.
fn add_stored_cells(store: &dyn Store, proof: &mut CellProof) -> Result<()> {
    let mut after = (String::new(), String::new());
    loop {
        let page = store.stored_cells((&after.0, &after.1), CELL_PAGE)?;
        page.iter().for_each(|cell| proof.add(cell));
        let Some(last) = page.into_iter().next_back() else { return Ok(()) };
        after = (last.space, last.key);
    }
}

/// Proves that the log extends a head, that a later head extends that, and that both are the
/// log's.
pub(crate) fn check_extension(
    store: &dyn Store,
    heads: &Heads,
    key: &Result<PublicKey>,
    old: &str,
    new: &str,
) -> Result<Consistency> {
    let broken = |broken| Ok(Consistency::Broken(broken));
    let mut marks = match signed_heads(heads, key)? {
        Ok(marks) => marks,
        Err(found) => return broken(found),
    };
    let key = key.as_ref().map_err(Clone::clone)?;
    let open = |name: &str, note: &str| {
        SignedHead::open(note, key)
            .map_err(|why| Broken::bad_signature(key.name(), format!("{name} head: {why}")))
    };
    let (old, new) = match (open("the old", old), open("the new", new)) {
        (Err(found), _) | (_, Err(found)) => return broken(found),
        (Ok(old), Ok(new)) => (old, new),
    };
    if old.tree.size > new.tree.size {
        return broken(Broken::of_log("truncated", old.tree.size, new.tree.size));
    }
    marks.extend([old.clone(), new.clone()]);
    marks.sort_by_key(|head| head.tree.size);
    if let Some(found) = check_tree(store, &store.tree()?, &marks)? {
        return broken(found.broken);
    }
    let (old_size, new_size) = (old.tree.size, new.tree.size);
    Ok(Consistency::Extends(Extension {
        old_size,
        new_size,
        path: proof::consistency(store, old_size, new_size)?,
        old: old.note,
        new: new.note,
        key: key.to_string(),
    }))
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
