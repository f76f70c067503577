//! One stored event: bytes as they were written, and the checks that they still prove themselves.

use glasshouse_model::event::{EVENT_VERSION, SALT_BYTES, body_hash, event_hash};
use glasshouse_model::{BranchId, Digest, Draft, Event, Header, Kind, Seq, SessionId, TenantId};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::cells::{self, CellMark};
use crate::codes;
use crate::error::{Error, Result};
use crate::proof::ProvedEvent;

/// An event as it is stored. `header` and `body` are the bytes that were hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Sequence in the branch that owns the row.
    pub seq: Seq,
    /// Position in the tenant's commit order, from 0: the index of its leaf in the tree.
    pub position: u64,
    /// Hash of the event.
    pub hash: Digest,
    /// The header's bytes.
    pub header: Vec<u8>,
    /// The salt in front of the body; of an erased event see [`Record::erased_by`].
    pub salt: Vec<u8>,
    /// The body's bytes; none when it was erased.
    pub body: Vec<u8>,
}

/// What a header of ours begins with.
const FIRST_MEMBER: &[u8] = b"{\"v\":";
/// Bytes of a line besides its header and its body.
const MORE_BYTES: usize = 180;

/// Where new events go.
pub(crate) struct Place<'a> {
    pub(crate) tenant: &'a TenantId,
    pub(crate) session: &'a SessionId,
    pub(crate) branch: &'a BranchId,
    pub(crate) time_us: u64,
}

/// Gives a draft its place: the record to store and the event to return.
pub(crate) fn seal(
    draft: Draft,
    body: Vec<u8>,
    place: &Place<'_>,
    (seq, position, prev): (Seq, u64, Digest),
    salt: [u8; SALT_BYTES],
    cells: &[CellMark],
) -> Result<(Record, Event), serde_json::Error> {
    let header = Header {
        v: EVENT_VERSION,
        tenant: place.tenant.clone(),
        session: place.session.clone(),
        branch: place.branch.clone(),
        seq,
        time_us: place.time_us,
        kind: draft.kind,
        actor: draft.actor,
        cause: draft.cause,
        trace: draft.trace,
        labels: draft.labels,
        body_hash: body_hash(&salt, &body),
    };
    let mut bytes = serde_json::to_vec(&header)?;
    cells::add_to_header(&mut bytes, cells)?;
    let hash = event_hash(&prev, &bytes);
    let record = Record { seq, position, hash, header: bytes, salt: salt.to_vec(), body };
    Ok((record, Event { header, body: draft.body, prev, hash }))
}

/// Why a record does not prove itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Defect {
    /// Its bytes do not have the hash they should: `expected` is stored, `found` is computed.
    Hash { expected: String, found: String },
    /// It is the header of another place.
    Place { expected: String, found: String },
    /// It is not there, although the branch goes on to `head`.
    Missing { head: Seq, found: Seq },
}

impl Defect {
    /// An event without the body that its header names.
    pub(crate) fn without_body(record: &Record) -> Self {
        mismatch(&record.hash, "a body that was taken away without a record".to_owned())
    }

    /// The error of whoever needed the event.
    pub(crate) fn error(&self, branch: &BranchId, seq: Seq) -> Error {
        let (kind, expected, found) = self.parts();
        Error::new(codes::LOG_CORRUPT, format!("event {seq} of {branch} does not prove itself"))
            .why(self.text())
            .with("kind", kind)
            .with("branch", branch.as_str())
            .with("seq", seq)
            .with("expected", expected)
            .with("found", found)
    }

    /// What is wrong, in one line.
    pub(crate) fn text(&self) -> String {
        let (kind, expected, found) = self.parts();
        format!("{kind}: expected {expected}, found {found}")
    }

    /// The word for it, and what was expected and found.
    pub(crate) fn parts(&self) -> (&'static str, Value, Value) {
        match self {
            Self::Hash { expected, found } => {
                ("hash_mismatch", expected.as_str().into(), found.as_str().into())
            }
            Self::Place { expected, found } => {
                ("reordered", expected.as_str().into(), found.as_str().into())
            }
            Self::Missing { head, found } => ("truncated", (*head).into(), (*found).into()),
        }
    }
}

/// The parts of a header that proofs need. Ids hold no character that JSON escapes.
#[derive(Deserialize)]
struct Anchors<'a> {
    #[serde(borrow)]
    session: &'a str,
    #[serde(borrow)]
    branch: &'a str,
    seq: Seq,
    body_hash: Digest,
}

impl<'a> Anchors<'a> {
    fn of(header: &'a Header) -> Self {
        let (session, branch) = (header.session.as_str(), header.branch.as_str());
        Self { session, branch, seq: header.seq, body_hash: header.body_hash }
    }

    fn check_session(&self, session: &SessionId) -> Result<(), Defect> {
        if self.session == session.as_str() {
            return Ok(());
        }
        Err(Defect::Place { expected: session.to_string(), found: self.session.to_owned() })
    }
}

impl Record {
    /// Position of the event that says that this one's body was erased; `None` while it has one.
    #[must_use]
    pub fn erased_by(&self) -> Option<u64> {
        let by = self.salt.as_slice().try_into().ok().map(u64::from_be_bytes);
        by.filter(|_| self.body.is_empty())
    }

    /// Checks the record against its place and the hash before it. Of an erased event only the
    /// header can be checked; that the erasure is recorded is for who has the store.
    pub(crate) fn prove(&self, branch: &BranchId, prev: &Digest) -> Result<(), Defect> {
        self.compare(self.anchors().as_ref(), branch, prev)
    }

    /// As [`Record::prove`], and that it is of this session.
    pub(crate) fn prove_within(
        &self,
        session: &SessionId,
        branch: &BranchId,
        prev: &Digest,
    ) -> Result<(), Defect> {
        let anchors = self.anchors();
        anchors.as_ref().map_or(Ok(()), |anchors| anchors.check_session(session))?;
        self.compare(anchors.as_ref(), branch, prev)
    }

    fn anchors(&self) -> Option<Anchors<'_>> {
        serde_json::from_slice(&self.header).ok()
    }

    fn compare(
        &self,
        anchors: Option<&Anchors<'_>>,
        branch: &BranchId,
        prev: &Digest,
    ) -> Result<(), Defect> {
        let found = event_hash(prev, &self.header);
        if let Some(Anchors { branch: named, seq, .. }) = anchors
            && (*seq != self.seq || *named != branch.as_str())
        {
            let expected = format!("{branch}/{}", self.seq);
            return Err(Defect::Place { expected, found: format!("{named}/{seq}") });
        }
        if found != self.hash {
            return Err(mismatch(&self.hash, found.to_string()));
        }
        let Some(Anchors { body_hash: expected, .. }) = anchors else {
            return Err(mismatch(&self.hash, "a header that cannot be read".to_owned()));
        };
        if self.erased_by().is_some() {
            return Ok(());
        }
        let Ok(salt) = self.salt.as_slice().try_into() else {
            return Err(mismatch(expected, "a body without its salt".to_owned()));
        };
        let found = body_hash(salt, &self.body);
        if found != *expected {
            return Err(mismatch(expected, found.to_string()));
        }
        Ok(())
    }

    /// The hashed parts, for a proof.
    pub(crate) fn into_proved(self, prev: Digest) -> ProvedEvent {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let is_there = self.erased_by().is_none();
        ProvedEvent {
            prev,
            hash: self.hash,
            header: text(&self.header),
            salt: is_there.then(|| self.salt.iter().map(|byte| format!("{byte:02x}")).collect()),
            body: is_there.then(|| text(&self.body)),
        }
    }

    /// Proves and reads the event.
    pub(crate) fn check(&self, branch: &BranchId, prev: &Digest) -> Result<Event, Defect> {
        let header = self.readable_header(branch, prev)?;
        self.read(header, branch, prev)
    }

    /// As [`Record::check`], and that it is of this session.
    pub(crate) fn check_within(
        &self,
        session: &SessionId,
        branch: &BranchId,
        prev: &Digest,
    ) -> Result<Event, Defect> {
        let header = self.readable_header(branch, prev)?;
        Anchors::of(&header).check_session(session)?;
        self.read(header, branch, prev)
    }

    /// Proves the record and writes its event as JSON, the body as the bytes that were stored: other
    /// bytes would not have the digest that the event names. What a header says of cells is left out,
    /// as everywhere where events are shown.
    pub(crate) fn line_within(
        &self,
        session: &SessionId,
        branch: &BranchId,
        prev: &Digest,
    ) -> Result<String, Defect> {
        let unreadable = |what: &str| mismatch(&self.hash, format!("a {what} that cannot be read"));
        let body = match self.erased_by() {
            Some(_) => "null",
            None => std::str::from_utf8(&self.body).map_err(|_| unreadable("body"))?,
        };
        let line = match self.header_as_shown().zip(self.anchors()) {
            Some((header, anchors)) => {
                anchors.check_session(session)?;
                self.compare(Some(&anchors), branch, prev)?;
                self.line(header, body, prev)
            }
            None => {
                let header = self.readable_header(branch, prev)?;
                let anchors = Anchors::of(&header);
                anchors.check_session(session)?;
                self.compare(Some(&anchors), branch, prev)?;
                let header = serde_json::to_string(&header).map_err(|_| unreadable("header"))?;
                self.line(&header, body, prev)
            }
        };
        Ok(line)
    }

    /// The header's own bytes, where they are what is shown of it: as this program writes headers, and without marks
    /// of cells. Nearly all are, and need not be made again.
    fn header_as_shown(&self) -> Option<&str> {
        let is_ours = self.header.starts_with(FIRST_MEMBER)
            && self.header.ends_with(b"\"}")
            && !self.header.contains(&b'\n')
            && !cells::are_marked(&self.header);
        if is_ours { std::str::from_utf8(&self.header).ok() } else { None }
    }

    fn line(&self, header: &str, body: &str, prev: &Digest) -> String {
        let mut line = String::with_capacity(header.len() + body.len() + MORE_BYTES);
        // A header is an object with members, so its last byte is a brace that follows one.
        line.push_str(header.strip_suffix('}').unwrap_or(header));
        let parts = [
            ",\"body\":",
            body,
            ",\"prev\":\"",
            &prev.to_string(),
            "\",\"hash\":\"",
            &self.hash.to_string(),
            "\"}",
        ];
        parts.iter().for_each(|part| line.push_str(part));
        line
    }

    /// The whole header, which is parsed once; one that cannot be read says what is wrong with it.
    fn readable_header(&self, branch: &BranchId, prev: &Digest) -> Result<Header, Defect> {
        serde_json::from_slice(&self.header).map_err(|_| {
            let unreadable = || mismatch(&self.hash, "a header that cannot be read".to_owned());
            self.prove(branch, prev).err().unwrap_or_else(unreadable)
        })
    }

    fn read(&self, header: Header, branch: &BranchId, prev: &Digest) -> Result<Event, Defect> {
        self.compare(Some(&Anchors::of(&header)), branch, prev)?;
        let body = match self.erased_by() {
            Some(_) => Value::Null,
            None => serde_json::from_slice(&self.body)
                .map_err(|_| mismatch(&self.hash, "a body that cannot be read".to_owned()))?,
        };
        Ok(Event { header, body, prev: *prev, hash: self.hash })
    }

    /// The session that the header names, if it is not this one.
    pub(crate) fn belongs_elsewhere(&self, session: &SessionId) -> Option<Defect> {
        self.anchors()?.check_session(session).err()
    }

    /// What an event of a kind says; `None` for any other event, and for one that does not have the
    /// body which its header names.
    pub(crate) fn body_of<T: DeserializeOwned>(&self, kind: &Kind) -> Option<T> {
        #[derive(Deserialize)]
        struct Anchors {
            kind: Kind,
            body_hash: Digest,
        }
        // Most events are others, and looking for the word is much faster than parsing.
        memchr::memmem::find(&self.header, kind.as_str().as_bytes())?;
        let anchors: Anchors = serde_json::from_slice(&self.header).ok()?;
        let salt = self.salt.as_slice().try_into().ok()?;
        if anchors.kind != *kind || body_hash(salt, &self.body) != anchors.body_hash {
            return None;
        }
        serde_json::from_slice(&self.body).ok()
    }

    /// Whether the header names the place where the record is stored.
    pub(crate) fn names(&self, branch: &BranchId) -> bool {
        serde_json::from_slice::<Anchors<'_>>(&self.header)
            .is_ok_and(|anchors| anchors.seq == self.seq && anchors.branch == branch.as_str())
    }
}

fn mismatch(expected: &Digest, found: String) -> Defect {
    Defect::Hash { expected: expected.to_string(), found }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sealed(kind: &str, body: &str) -> (Record, Event, BranchId) {
        let branch: BranchId = "b_1".parse().unwrap();
        let place = Place {
            tenant: &TenantId::local(),
            session: &"s_1".parse().unwrap(),
            branch: &branch,
            time_us: 1_790_000_000_000_001,
        };
        let kind: Kind = kind.parse().unwrap();
        let mut draft = Draft::new(kind, &1).label("repo");
        draft.body = serde_json::from_str(body).unwrap();
        let prev = Digest::of(b"before");
        let at = (7, 41, prev);
        let (record, event) = seal(draft, body.into(), &place, at, [9; SALT_BYTES], &[]).unwrap();
        (record, event, branch)
    }

    #[test]
    fn what_was_sealed_reads_back_equal() {
        for kind in ["heartbeat", "later.happened"] {
            let (record, event, branch) = sealed(kind, r#"{"b":1,"a":[1.0e3,"\u00e9"]}"#);
            assert_eq!(
                record.body,
                r#"{"b":1,"a":[1.0e3,"\u00e9"]}"#.as_bytes(),
                "bytes as written"
            );
            assert_eq!(record.check(&branch, &Digest::of(b"before")), Ok(event));
        }
    }

    #[test]
    fn another_place_is_named() {
        let (mut record, _, branch) = sealed("heartbeat", "{}");
        let expected = Defect::Place { expected: "b_1/8".into(), found: "b_1/7".into() };
        record.seq = 8;
        assert_eq!(record.check(&branch, &Digest::of(b"before")), Err(expected));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn any_flipped_bit_is_found(field in 0..4_usize, at in 0..1_000_usize, bit in 0..8_u8) {
            let (mut record, _, branch) = sealed("tool.completed", r#"{"call":"c14"}"#);
            let flip = |bytes: &mut [u8]| {
                let at = at % bytes.len();
                bytes[at] ^= 1 << bit;
            };
            match field {
                0 => flip(&mut record.header),
                1 => flip(&mut record.salt),
                2 => flip(&mut record.body),
                _ => {
                    let mut hash = *record.hash.as_bytes();
                    flip(&mut hash);
                    record.hash = Digest::from_bytes(hash);
                }
            }
            prop_assert!(record.check(&branch, &Digest::of(b"before")).is_err());
        }
    }
}
