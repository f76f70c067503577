//! What a command changed goes into the directory: decided path by path, and shown to a person first
//! where a rule wants that.

use std::collections::BTreeSet;
use std::path::Path;

use glasshouse_model::body::{
    ApprovalRequested, ApprovalSubject, MergeApplied, MergeFailed, PolicyDecided,
};
use glasshouse_model::syscall::name;
use glasshouse_model::{Call, CallId, Decision, Draft, Effect, Kind};
use glasshouse_sandbox::Status;
use glasshouse_sandbox::workspace::{Change, ChangeSet, Content};
use glasshouse_tools::sanitise::Masker;

use super::{OneCommand, OneResult, Ran, Record, Sealed};
use crate::Result;
use crate::driver::demands::{Place, decide_uncounted};
use crate::driver::merging::{as_change, said_of_change};
use crate::driver::people::{ReviewItem, Reviewer, Withdrawn};
use crate::driver::settled::Settled;
use crate::driver::start::put;
use crate::driver::workbench::Blobs;
use crate::driver::{Kernel, operation_id};
use crate::merge::{self, Authority, Input, OperationDir, Proposal};

impl Kernel {
    /// Merges what the command changed, where that was asked for and the command finished. The call
    /// itself is over by then: a merge that fails is an end of its own.
    pub(super) fn merge_finished(
        &self,
        record: &Record<'_>,
        (id, one): (CallId, &OneCommand),
        scratch: &Path,
        sealed: Sealed,
        reviewer: &dyn Reviewer,
    ) -> Result<OneResult> {
        let Sealed { ran, manifest } = sealed;
        let Ran { mut result, project, workspace, labels, masker, .. } = ran;
        let finished = matches!(result.run.status, Status::Exited(0));
        if !(one.merge && one.workspace.is_some() && finished) {
            return Ok(result);
        }
        let blobs = Blobs(self.log.clone());
        let merge = || -> Result<u64> {
            // Time went by since it was looked at.
            self.grounds.check(&project)?;
            let set = workspace.change_set(&manifest, &blobs)?;
            let input = Input { base: workspace.base(), set: &set, blobs: &blobs, commits: false };
            let proposal = match merge::propose(&project, input)? {
                merge::Proposed::Clean(proposal) => proposal,
                merge::Proposed::Conflict(found) => return Err(merge::conflict_error(&found)),
            };
            let reasons = record.decide_merge(id, &set, &labels)?;
            if !reasons.is_empty() {
                record.ask_merge((id, reasons), &set, (&proposal, &masker), reviewer)?;
            }
            self.grounds.check(&project)?;
            // Who asks for the merge of their own command means its deletions, too.
            let authority = Authority::Reviewed { binding: &proposal.binding, deletions: true };
            let operation = OperationDir::new(scratch, &operation_id(id.0))?;
            match merge::apply(&project, input, authority, &operation)? {
                merge::Outcome::Applied(applied) => {
                    Ok((applied.written.len() + applied.deleted.len()) as u64)
                }
                merge::Outcome::Conflict(found) => Err(merge::conflict_error(&found)),
            }
        };
        let merged = merge();
        let end = match &merged {
            Ok(files) => {
                Draft::new(Kind::MergeApplied, &MergeApplied { merge: id.0, files: *files })
            }
            Err(error) => {
                let code = error.code().to_owned();
                let body = MergeFailed { merge: id.0, code, message: error.to_string() };
                Draft::new(Kind::MergeFailed, &body)
            }
        };
        record.append(vec![end])?;
        result.merged = Some(merged?);
        Ok(result)
    }
}

impl Record<'_> {
    /// Decides every changed path; answers why a person has to look, if so.
    fn decide_merge(
        &self,
        id: CallId,
        set: &ChangeSet,
        labels: &BTreeSet<String>,
    ) -> Result<Vec<String>> {
        let mut drafts = Vec::new();
        let mut denied = None;
        let mut reasons = Vec::new();
        for content in set.changes.iter().flat_map(Change::contents) {
            let path = content.path;
            let (call, decision) = self.decide_path(content, labels);
            match decision.effect {
                Effect::Allow => {}
                Effect::RequireReview => {
                    let why = decision.reasons.iter();
                    reasons.extend(why.map(|reason| format!("{path}: {reason}")));
                }
                Effect::Deny => {
                    denied = Some((drafts.len(), format!("{path}: {}", decision.why())));
                }
            }
            let subject = Some(path.to_string());
            let body = PolicyDecided::new(Some(id), call, subject, decision);
            drafts.push(Draft::new(Kind::PolicyDecided, &body));
        }
        if drafts.is_empty() {
            return Ok(reasons);
        }
        let behind = drafts.len() - 1;
        let last = self.append(drafts)?;
        match denied {
            None => Ok(reasons),
            Some((at, why)) => {
                let seq = last.saturating_sub((behind - at) as u64);
                Err(self.journal.denied(seq, "the changes may not be merged", why))
            }
        }
    }

    /// Decides a path that is merged: as the merge that it is, and as the change of a file that it comes to. Of the
    /// second counts what a rule says itself: that none allows it forbids nothing to a person who merges.
    fn decide_path(&self, content: Content<'_>, labels: &BTreeSet<String>) -> (Call, Decision) {
        let mut call = Call::new(name::MERGE_APPLY, self.user.clone()).at(content.path.clone());
        call.size_bytes = content.size_bytes;
        call.session = Some(self.journal.session.clone());
        call.labels.clone_from(labels);
        let decision = decide_uncounted(&self.policy, &call, Place::Kernel);
        let change = as_change(&call, content);
        match said_of_change(&self.policy, &change) {
            Some(said) if said.effect > decision.effect => (change, said),
            _ => (call, decision),
        }
    }

    /// Shows the changes to a person; an error unless they agree.
    fn ask_merge(
        &self,
        (id, reasons): (CallId, Vec<String>),
        set: &ChangeSet,
        (proposal, masker): (&Proposal, &Masker),
        reviewer: &dyn Reviewer,
    ) -> Result<()> {
        let patch = masker.mask_str(&proposal.patch);
        let request = ApprovalRequested {
            subject: ApprovalSubject::Merge,
            call: Some(id),
            tool: "merge".to_owned(),
            shown: format!("{} files", set.changes.len()),
            reasons,
            args_digest: put(self.journal.log(), patch.as_bytes())?.blob,
            policy_version: self.policy.version(),
            base: set.base,
            offer: None,
            merge: None,
        };
        let approval = self.append(vec![Draft::new(Kind::ApprovalRequested, &request)])?;
        let reasons = request.reasons.clone();
        let withdrawn = Withdrawn::default();
        let item = ReviewItem { approval, request, patch: Some(patch), withdrawn };
        let settled = Settled::ask(reviewer, &item);
        self.append(vec![settled.draft(approval)])?;
        settled.check(&reasons)
    }
}
