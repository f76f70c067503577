//! Approvals: a person's yes to one act, void as soon as anything about the act is different.

use std::fmt;

use glasshouse_model::{BranchId, Call, CallId, Digest, Principal, PrincipalKind, SessionId};
use serde::{Deserialize, Serialize};

use crate::grant::{GrantId, GrantUse, UseCounters};

/// A one-use approval, as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// Its name; the key of its use counter.
    pub id: GrantId,
    /// Session of the call.
    pub session: SessionId,
    /// Branch of the call.
    pub branch: BranchId,
    /// The call.
    pub call: CallId,
    /// Its arguments, as [`Call::args_digest`].
    pub args_digest: Digest,
    /// Policy under which review was asked for.
    pub policy_version: Digest,
    /// Who said yes: a user of the caller's tenant.
    pub approver: Principal,
    /// Tree that the act starts from.
    pub base_tree: Digest,
    /// First moment at which it is void, in microseconds.
    pub expires_us: u64,
}

/// An approval presented for a call, with what the call itself does not carry.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalUse<'a> {
    /// The approval.
    pub approval: &'a Approval,
    /// Branch on which the call runs now.
    pub branch: &'a BranchId,
    /// The call that runs now.
    pub call: CallId,
    /// Tree that it starts from now.
    pub base_tree: &'a Digest,
}

/// Why an approval did not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalRefusal {
    /// Only users approve.
    NotAPerson,
    /// The approver belongs to another tenant.
    OtherTenant,
    /// Another session, or the call has none.
    OtherSession,
    /// Another branch.
    OtherBranch,
    /// Another call.
    OtherCall,
    /// The arguments changed, or the call has no digest of them.
    OtherArguments,
    /// The policy changed.
    OtherPolicy,
    /// The tree changed.
    OtherBase,
    /// It had expired when the evaluation began.
    Expired,
    /// It was used before, or revoked.
    Used,
}

impl fmt::Display for ApprovalRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAPerson => "the approval was not given by a person",
            Self::OtherTenant => "the approval was given by another tenant",
            Self::OtherSession => "the approval is for another session",
            Self::OtherBranch => "the approval is for another branch",
            Self::OtherCall => "the approval is for another call",
            Self::OtherArguments => "the arguments are not the approved ones",
            Self::OtherPolicy => "the policy changed after the approval",
            Self::OtherBase => "the files changed after the approval",
            Self::Expired => "the approval has expired",
            Self::Used => "the approval was used before, or was revoked",
        })
    }
}

impl ApprovalUse<'_> {
    /// Checks every binding and returns each one that does not hold.
    pub(crate) fn check(
        &self,
        call: &Call,
        now_us: u64,
        policy_version: &Digest,
        counters: &dyn UseCounters,
    ) -> Result<GrantUse, Vec<ApprovalRefusal>> {
        let approval = self.approval;
        let stored = counters.stored(approval.id);
        let refusals: Vec<ApprovalRefusal> = [
            (approval.approver.kind == PrincipalKind::User, ApprovalRefusal::NotAPerson),
            (approval.approver.tenant == call.caller.tenant, ApprovalRefusal::OtherTenant),
            (call.session.as_ref() == Some(&approval.session), ApprovalRefusal::OtherSession),
            (*self.branch == approval.branch, ApprovalRefusal::OtherBranch),
            (self.call == approval.call, ApprovalRefusal::OtherCall),
            (call.args_digest == Some(approval.args_digest), ApprovalRefusal::OtherArguments),
            (*policy_version == approval.policy_version, ApprovalRefusal::OtherPolicy),
            (*self.base_tree == approval.base_tree, ApprovalRefusal::OtherBase),
            (now_us < approval.expires_us, ApprovalRefusal::Expired),
            (stored == 0, ApprovalRefusal::Used),
        ]
        .into_iter()
        .filter_map(|(holds, refusal)| (!holds).then_some(refusal))
        .collect();
        if refusals.is_empty() {
            Ok(GrantUse { id: approval.id, stored, counter: 1 })
        } else {
            Err(refusals)
        }
    }
}
