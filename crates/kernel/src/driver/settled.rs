//! What a person said to a merge, for the log and for whoever asked.

use glasshouse_model::body::{ApprovalResolved, GrantScope};
use glasshouse_model::{Actor, Draft, Kind, Seq, each_once};

use super::decide::now_us;
use super::people::{Answer, ReviewItem, Reviewer};
use crate::{Error, Result, codes};

/// An answer about one merge.
pub(super) struct Settled {
    approver: Actor,
    code: &'static str,
}

impl Settled {
    const APPROVED: &'static str = "approved";
    /// Before anything was shown.
    const IN_ADVANCE: &'static str = "approved_in_advance";
    const REJECTED: &'static str = "rejected";

    /// Asks, and waits for the answer.
    pub(super) fn ask(reviewer: &dyn Reviewer, item: &ReviewItem) -> Self {
        let code = match reviewer.review(item) {
            // Only this merge was asked about, whatever else the answer would allow.
            Answer::Approve | Answer::ApproveFor(_) if reviewer.is_in_advance() => Self::IN_ADVANCE,
            Answer::Approve | Answer::ApproveFor(_) => Self::APPROVED,
            Answer::Reject => Self::REJECTED,
            Answer::Nobody => codes::NO_APPROVER.name,
        };
        Self { approver: reviewer.approver(), code }
    }

    /// What somebody said to a question that was left for them.
    pub(super) const fn answered(approver: Actor, approved: bool) -> Self {
        Self { approver, code: if approved { Self::APPROVED } else { Self::REJECTED } }
    }

    pub(super) fn is_approved(&self) -> bool {
        matches!(self.code, Self::APPROVED | Self::IN_ADVANCE)
    }

    /// The answer to the question at `approval`.
    pub(super) fn draft(&self, approval: Seq) -> Draft {
        let body = ApprovalResolved {
            approval,
            approved: self.is_approved(),
            approver: self.approver.clone(),
            code: self.code.to_owned(),
            expires_us: now_us(),
            scope: GrantScope::Call,
        };
        Draft::new(Kind::ApprovalResolved, &body).by(self.approver.clone())
    }

    /// # Errors
    /// `approval_rejected` and `approval_needed`, unless somebody agreed.
    pub(super) fn check(&self, reasons: &[String]) -> Result<()> {
        match self.code {
            Self::APPROVED | Self::IN_ADVANCE => Ok(()),
            Self::REJECTED => Err(Error::new(codes::APPROVAL_REJECTED, "the merge was rejected")),
            _ => Err(Error::new(codes::APPROVAL_NEEDED, "nobody is there to approve the merge")
                .why(each_once(reasons))),
        }
    }
}
