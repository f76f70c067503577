//! What writers ask for: events and cells in one transaction.

use std::collections::BTreeSet;

use glasshouse_model::event::{MAX_BODY_BYTES, MAX_LABELS};
use glasshouse_model::{BranchId, Digest, Draft, Event, Seq, SessionId};

use crate::branch::NewBranch;
use crate::codes;
use crate::error::{Error, Result};

/// Most events in one append: a turn's recovery closes some hundreds of calls at most, and one
/// append must not hold up the writers that share its group.
pub const MAX_EVENTS_PER_APPEND: usize = 1024;
/// Most cells written by one append.
pub const MAX_CELLS_PER_APPEND: usize = 256;
/// Largest cell: counters, leases and queue rows are small; anything larger is an event or a blob.
pub const MAX_CELL_BYTES: usize = 256 << 10;
/// Longest name of a cell space, cell key or idempotency key, in bytes.
pub const MAX_KEY_BYTES: usize = 256;
/// Cell spaces with this prefix belong to the log itself.
pub(crate) const RESERVED_SPACE_PREFIX: &str = "log.";

/// One transaction on a branch: all of it is stored, or nothing.
#[derive(Debug, Clone)]
pub struct Append {
    /// The branch's session.
    pub session: SessionId,
    /// Where the events go.
    pub branch: BranchId,
    /// The events in order, at least one.
    pub events: Vec<Draft>,
    /// The branch's head as the writer knows it; another head refuses the append with
    /// `head_conflict`.
    pub expected_head: Option<Seq>,
    /// Names the request within its branch: the same key again returns the first result and stores
    /// nothing, whatever else the request holds.
    pub idempotency_key: Option<String>,
    /// Epoch of the writer's [`Lease`](crate::Lease). While a session is leased, an append without
    /// epoch is refused with `session_owned` and one with an older epoch with `lease_lost`.
    pub epoch: Option<u64>,
    /// Cells that change with the events. The header of the last event says what became of them.
    pub cells: Vec<CellWrite>,
}

impl Append {
    /// An append without conditions or cells.
    #[must_use]
    pub const fn new(session: SessionId, branch: BranchId, events: Vec<Draft>) -> Self {
        Self {
            session,
            branch,
            events,
            expected_head: None,
            idempotency_key: None,
            epoch: None,
            cells: Vec::new(),
        }
    }
}

/// A change of one cell. A cell is a small versioned value beside the events (a use counter, a
/// lease, a queue row); the log does not look into its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellWrite {
    /// Space: what kind of cell. `log.` is reserved.
    pub space: String,
    /// Key within the space.
    pub key: String,
    /// The version the cell must have; `Some(0)`: it must not exist; `None`: whatever it is.
    pub expected_version: Option<u64>,
    /// New bytes; `None` deletes.
    pub bytes: Option<Vec<u8>>,
}

/// A stored cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Grows by one with each change, deletions included, and is never used twice for one key.
    pub version: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// The newest event of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Its sequence; 0 for a branch without events.
    pub seq: Seq,
    /// Its hash; [`Digest::ZERO`] for a branch without events.
    pub hash: Digest,
}

impl Head {
    /// The head of a branch without events.
    pub const EMPTY: Self = Self { seq: 0, hash: Digest::ZERO };
}

/// What an append did.
#[derive(Debug, Clone)]
pub struct Appended {
    /// The events with their places.
    pub events: Vec<Event>,
    /// The branch's head after them.
    pub head: Head,
    /// Whether an earlier append with the same idempotency key made this result.
    pub replayed: bool,
}

/// A draft whose body is serialised: what the writer needs, made before it is asked.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) append: Append,
    pub(crate) bodies: Vec<Vec<u8>>,
}

impl Prepared {
    /// Checks every limit and serialises the bodies.
    ///
    /// # Errors
    /// `append_invalid`, `body_too_large`.
    pub(crate) fn new(append: Append) -> Result<Self> {
        check_counts(&append)?;
        check_cells(&append.cells)?;
        if let Some(key) = &append.idempotency_key {
            check_key("idempotency key", key)?;
        }
        let bodies = append.events.iter().map(body_bytes).collect::<Result<_>>()?;
        Ok(Self { append, bodies })
    }

    /// The append of a new branch's first events; `None` when there are none.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub(crate) fn first_of(new: &NewBranch, events: Vec<Draft>) -> Result<Option<Self>> {
        if events.is_empty() {
            return Ok(None);
        }
        Self::new(Append::new(new.session.clone(), new.branch.clone(), events)).map(Some)
    }
}

fn check_counts(append: &Append) -> Result<()> {
    let (events, cells) = (append.events.len(), append.cells.len());
    if events == 0 {
        // The header of an event says what became of the cells; without one nobody could prove it.
        return Err(invalid("it holds no events"));
    }
    if events > MAX_EVENTS_PER_APPEND {
        return Err(invalid(&format!("{events} events, at most {MAX_EVENTS_PER_APPEND}")));
    }
    if cells > MAX_CELLS_PER_APPEND {
        return Err(invalid(&format!("{cells} cells, at most {MAX_CELLS_PER_APPEND}")));
    }
    Ok(())
}

fn check_cells(cells: &[CellWrite]) -> Result<()> {
    let mut named = BTreeSet::new();
    for cell in cells {
        if !named.insert((&cell.space, &cell.key)) {
            return Err(invalid(&format!("cell `{}/{}` is named twice", cell.space, cell.key)));
        }
        check_key("cell space", &cell.space)?;
        check_key("cell key", &cell.key)?;
        if cell.space.starts_with(RESERVED_SPACE_PREFIX) {
            return Err(invalid(&format!("cell space `{}` belongs to the log", cell.space)));
        }
        let bytes = cell.bytes.as_ref().map_or(0, Vec::len);
        if bytes > MAX_CELL_BYTES {
            return Err(invalid(&format!(
                "cell `{}/{}` has {bytes} bytes, at most {MAX_CELL_BYTES}",
                cell.space, cell.key
            )));
        }
    }
    Ok(())
}

fn check_key(what: &str, key: &str) -> Result<()> {
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        return Err(invalid(&format!("{what} has {} bytes, 1 to {MAX_KEY_BYTES}", key.len())));
    }
    Ok(())
}

fn body_bytes(draft: &Draft) -> Result<Vec<u8>> {
    if draft.labels.len() > MAX_LABELS {
        return Err(invalid(&format!("{} labels, at most {MAX_LABELS}", draft.labels.len())));
    }
    let bytes = serde_json::to_vec(&draft.body)
        .map_err(|cause| invalid(&format!("a body of {} is no JSON: {cause}", draft.kind)))?;
    if bytes.len() > MAX_BODY_BYTES {
        return Err(Error::new(codes::BODY_TOO_LARGE, format!("could not append {}", draft.kind))
            .why(format!("its body has {} bytes, at most {MAX_BODY_BYTES}", bytes.len()))
            .with("bytes", bytes.len())
            .with("limit_bytes", MAX_BODY_BYTES));
    }
    Ok(bytes)
}

fn invalid(why: &str) -> Error {
    Error::new(codes::APPEND_INVALID, "could not append").why(why)
}

#[cfg(test)]
mod tests {
    use glasshouse_model::Kind;

    use super::*;

    fn append() -> Append {
        let session = "s_1".parse().unwrap();
        Append::new(session, "b_1".parse().unwrap(), vec![Draft::new(Kind::Heartbeat, &1)])
    }

    fn cell(space: &str, key: &str, bytes: usize) -> CellWrite {
        let bytes = Some(vec![0; bytes]);
        CellWrite { space: space.into(), key: key.into(), expected_version: None, bytes }
    }

    #[test]
    fn each_limit_has_its_refusal() {
        let check = |change: &dyn Fn(&mut Append), expected: Option<&str>| {
            let mut request = append();
            change(&mut request);
            let code = Prepared::new(request).err().map(|error| error.code());
            assert_eq!(code, expected);
        };
        let invalid = Some("append_invalid");
        let long = "k".repeat(MAX_KEY_BYTES + 1);
        check(&|_| (), None);
        check(&|a| a.events.clear(), invalid);
        check(&|a| (a.events.clear(), a.cells.push(cell("s", "k", 1))).1, invalid);
        check(&|a| a.events = vec![a.events[0].clone(); MAX_EVENTS_PER_APPEND], None);
        check(&|a| a.events = vec![a.events[0].clone(); MAX_EVENTS_PER_APPEND + 1], invalid);
        check(&|a| a.cells = vec![cell("s", "k", 1); MAX_CELLS_PER_APPEND + 1], invalid);
        check(&|a| a.cells = vec![cell("s", "k", MAX_CELL_BYTES)], None);
        check(&|a| a.cells = vec![cell("s", "k", MAX_CELL_BYTES + 1)], invalid);
        check(&|a| a.cells = vec![cell("s", "k", 1), cell("s", "k", 2)], invalid);
        check(&|a| a.cells = vec![cell("log.lease", "k", 1)], invalid);
        check(&|a| a.cells = vec![cell("", "k", 1)], invalid);
        check(&|a| a.cells = vec![cell("s", &long, 1)], invalid);
        check(&|a| a.idempotency_key = Some(String::new()), invalid);
        check(&|a| a.idempotency_key = Some(long.clone()), invalid);
        check(&|a| a.events[0].labels = (0..65).map(|n| n.to_string()).collect(), invalid);
        let text = |bytes: usize| serde_json::Value::from("x".repeat(bytes));
        check(&|a| a.events[0].body = text(MAX_BODY_BYTES - 2), None);
        check(&|a| a.events[0].body = text(MAX_BODY_BYTES - 1), Some("body_too_large"));
    }
}
