//! Merging: one event with two parents, after which the source is read only.

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_model::body::{BranchMerged, MergeStrategy};
use glasshouse_model::{Actor, BranchId, Draft, Kind, Seq, SessionId};
use serde_json::Value;

use crate::append::{Append, CellWrite, Head};
use crate::branch::{Segment, last_shared};
use crate::codes;
use crate::error::{Error, Result};
use crate::record::Record;

/// A merge of one branch into another.
#[derive(Debug, Clone)]
pub struct MergeBranch {
    /// The session of both.
    pub session: SessionId,
    /// The branch that goes on.
    pub target: BranchId,
    /// Its head as the merge saw it.
    pub target_head: Seq,
    /// The branch that ends.
    pub source: BranchId,
    /// Its head as the merge saw it.
    pub source_head: Head,
    /// How; `FastForward` only while the target has no event that the source does not share.
    pub strategy: MergeStrategy,
    /// The values that were decided on, by the key of the state that they are for.
    pub resolved: BTreeMap<String, Value>,
    /// Who merges.
    pub actor: Actor,
    /// Labels of the event: where what came over had come from.
    pub labels: BTreeSet<String>,
    /// Events before the merge in the same transaction: what allowed it.
    pub before: Vec<Draft>,
    /// Events that follow the merge in the same transaction.
    pub events: Vec<Draft>,
    /// Cells that change in the same transaction.
    pub cells: Vec<CellWrite>,
    /// Of the target's lease, as in [`Append`].
    pub epoch: Option<u64>,
    /// Of the source's lease, when whoever merges holds it; while another does, nothing is merged.
    pub source_epoch: Option<u64>,
    /// As in [`Append`].
    pub idempotency_key: Option<String>,
}

impl MergeBranch {
    /// The append that the merge is.
    pub(crate) fn into_append(self, target: &[Segment], source: &[Segment]) -> Result<Append> {
        let base_seq = last_shared(target, source);
        let invalid =
            |why: String| Err(Error::new(codes::APPEND_INVALID, "could not merge").why(why));
        if base_seq == 0 {
            return invalid("the branches share no event".to_owned());
        }
        if self.source_head.seq <= base_seq {
            return invalid(format!("{} has nothing that {} lacks", self.source, self.target));
        }
        if self.strategy == MergeStrategy::FastForward && self.target_head > base_seq {
            return invalid(format!(
                "{} has moved on from event {base_seq}, so this is no fast forward",
                self.target
            ));
        }
        if self.before.iter().chain(&self.events).any(|draft| draft.kind == Kind::BranchMerged) {
            return invalid("it ends more than one branch".to_owned());
        }
        let body = BranchMerged {
            source: self.source,
            source_seq: self.source_head.seq,
            source_hash: self.source_head.hash,
            base_seq,
            strategy: self.strategy,
            resolved: self.resolved,
        };
        let mut merged = Draft::new(Kind::BranchMerged, &body).by(self.actor);
        merged.labels = self.labels;
        let events = self.before.into_iter().chain([merged]).chain(self.events).collect();
        Ok(Append {
            expected_head: Some(self.target_head),
            epoch: self.epoch,
            cells: self.cells,
            idempotency_key: self.idempotency_key,
            ..Append::new(self.session, self.target, events)
        })
    }
}

/// What a `branch.merged` event says; `None` for any other event.
pub(crate) fn said_by(record: &Record) -> Option<BranchMerged> {
    record.body_of(&Kind::BranchMerged)
}
