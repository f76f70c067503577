//! Walking a branch through its ancestors, proving every event against the one before it.

use glasshouse_model::{BranchId, Digest, Event, Seq, SessionId};

use crate::append::Head;
use crate::branch::Segment;
use crate::erase;
use crate::error::{Error, Result};
use crate::record::{Defect, Record};
use crate::store::Store;

/// Lines of one answer that are enough, in bytes; the longest events are a mebibyte.
const ENOUGH_BYTES: usize = 4 << 20;
/// Lines that are read before their bytes are counted; twice as many each time while they are short.
const LINES_STEP: usize = 16;

/// Events that are held in memory at a time when a whole branch is walked.
pub(crate) const PAGE: usize = 512;

/// A branch as a reader sees it: the rows of its ancestors, then its own.
pub(crate) struct Chain<'s> {
    store: &'s dyn Store,
    session: SessionId,
    head: Head,
    segments: Vec<Segment>,
}

impl<'s> Chain<'s> {
    pub(crate) fn of(store: &'s dyn Store, branch: &BranchId) -> Result<Self> {
        let row = store.branch(branch)?;
        let session = row.session.clone();
        let mut segments = if row.fork.is_some() { store.ancestors(branch)? } else { Vec::new() };
        segments.push(Segment { branch: branch.clone(), upto: row.head.seq });
        Ok(Self { store, session, head: row.head, segments })
    }

    /// Events from a sequence on, at most `limit`. They end early before a bad event, which is the
    /// error beside them.
    pub(crate) fn read(&self, from: Seq, limit: usize) -> Result<(Vec<Event>, Option<Error>)> {
        let mut events = Vec::new();
        let defect = self.walk(from, Seq::MAX, limit, |record, owner, prev| {
            events.push(record.check_within(&self.session, owner, prev)?);
            Ok(())
        })?;
        Ok((events, defect))
    }

    /// The stored bytes of events from a sequence on, at most `limit`.
    pub(crate) fn records(&self, from: Seq, limit: usize) -> Result<Vec<Record>> {
        let mut records = Vec::new();
        let defect = self.walk(from, Seq::MAX, limit, |record, owner, prev| {
            record.prove(owner, prev)?;
            records.push(record);
            Ok(())
        })?;
        defect.map_or(Ok(records), Err)
    }

    /// The same as lines of JSON in the shape of [`Event`], each body as the bytes that were stored.
    /// Fewer than asked for come once they are long.
    pub(crate) fn lines(&self, from: Seq, limit: usize) -> Result<Vec<(Seq, String)>> {
        let (mut lines, mut bytes, mut next) = (Vec::new(), 0, from);
        let mut step = LINES_STEP;
        while lines.len() < limit && bytes < ENOUGH_BYTES {
            let wanted = step.min(limit - lines.len());
            let before = lines.len();
            let defect = self.walk(next, Seq::MAX, wanted, |record, owner, prev| {
                let line = record.line_within(&self.session, owner, prev)?;
                bytes += line.len();
                next = record.seq + 1;
                lines.push((record.seq, line));
                Ok(())
            })?;
            if let Some(defect) = defect {
                return Err(defect);
            }
            if lines.len() - before < wanted {
                break;
            }
            // As many as there is room for, were they as long as those so far; each look has a cost of its own.
            let room = (ENOUGH_BYTES.saturating_sub(bytes)) / (bytes / lines.len()).max(1);
            step = (2 * step).min(room).max(LINES_STEP);
        }
        Ok(lines)
    }

    /// Proves the events up to and with a sequence.
    ///
    /// # Errors
    /// `log_corrupt` naming the first bad event, or a storage error.
    pub(crate) fn prove(&self, upto: Seq) -> Result<()> {
        let mut last = Head::EMPTY;
        let defect = self.walk(1, upto, usize::MAX, |record, owner, prev| {
            record.prove_within(&self.session, owner, prev)?;
            last = Head { seq: record.seq, hash: record.hash };
            Ok(())
        })?;
        if let Some(error) = defect {
            return Err(error);
        }
        if upto >= self.head.seq && last != self.head {
            let (expected, found) = (self.head.hash.to_string(), last.hash.to_string());
            let branch = &self.own().branch;
            return Err(Defect::Hash { expected, found }.error(branch, self.head.seq));
        }
        Ok(())
    }

    /// Its newest event.
    pub(crate) const fn head(&self) -> Head {
        self.head
    }

    /// The ancestors' parts and the own one.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The branch that stores an event of the chain.
    pub(crate) fn owner(&self, seq: Seq) -> &BranchId {
        let owner = self.segments.iter().find(|segment| seq <= segment.upto);
        &owner.unwrap_or_else(|| self.own()).branch
    }

    fn own(&self) -> &Segment {
        self.segments.last().expect("a chain has its own segment")
    }

    /// Visits records in order until one does not prove itself.
    fn walk(
        &self,
        from: Seq,
        upto: Seq,
        limit: usize,
        mut visit: impl FnMut(Record, &BranchId, &Digest) -> Result<(), Defect>,
    ) -> Result<Option<Error>> {
        let (mut next, upto) = (from.max(1), upto.min(self.head.seq));
        let mut left = limit;
        if next > upto {
            return Ok(None);
        }
        let mut prev = match self.hash_at(next - 1)? {
            Ok(hash) => hash,
            Err(error) => return Ok(Some(error)),
        };
        for segment in &self.segments {
            let end = segment.upto.min(upto);
            while next <= end && left > 0 {
                let rows = self.store.rows(&segment.branch, next, end, left.min(PAGE))?;
                if rows.is_empty() {
                    return Ok(Some(self.missing(segment, next)));
                }
                for record in rows {
                    if record.seq != next {
                        return Ok(Some(self.missing(segment, next)));
                    }
                    let (hash, owner) = (record.hash, &segment.branch);
                    if let Some(by) = record.erased_by()
                        && !erase::is_recorded(self.store, by, owner, next)?
                    {
                        return Ok(Some(Defect::without_body(&record).error(owner, next)));
                    }
                    if let Err(defect) = visit(record, owner, &prev) {
                        return Ok(Some(defect.error(owner, next)));
                    }
                    (prev, next, left) = (hash, next + 1, left - 1);
                }
            }
        }
        Ok(None)
    }

    /// The stored hash of an event of the chain; zeros before the first.
    fn hash_at(&self, seq: Seq) -> Result<Result<Digest, Error>> {
        if seq == 0 {
            return Ok(Ok(Digest::ZERO));
        }
        let segment = self.segments.iter().find(|segment| seq <= segment.upto);
        let segment = segment.expect("the sequence lies before the head");
        let row = self.store.rows(&segment.branch, seq, seq, 1)?.pop();
        Ok(row.map(|row| row.hash).ok_or_else(|| self.missing(segment, seq)))
    }

    fn missing(&self, segment: &Segment, seq: Seq) -> Error {
        Defect::Missing { head: self.head.seq, found: seq - 1 }.error(&segment.branch, seq)
    }
}
