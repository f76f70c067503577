//! Merges that wait for a person. The question is recorded in a session of its own, because a merge is bound to the
//! newest events of both branches, which a question on either would move; a cell lists it while it is open. No process
//! waits: whoever answers yes makes the merge. When a branch has moved on, the question is no more.

use glasshouse_log::CellWrite;
use glasshouse_model::body::{
    ApprovalRequested, ApprovalResolved, GrantScope, MergeAsked, TakenPath,
};
use glasshouse_model::{Digest, Draft, Kind, Principal};

use super::{Branches, How, Merging, NewMerge};
use crate::driver::Kernel;
use crate::driver::approvals::{ApprovalName, PendingApproval};
use crate::driver::decide::now_us;
use crate::driver::journal::Journal;
use crate::{Error, Result, codes};

/// Cell space of questions that are open.
const OPEN: &str = "merge.questions";
/// Cells that are read at a time.
const PAGE: usize = 100;

/// A question about a merge, with the version of its cell.
pub(in crate::driver) struct Question {
    pub(in crate::driver) pending: PendingApproval,
    asked: MergeAsked,
    version: u64,
}

impl Kernel {
    /// Merges a branch into another, as [`Kernel::merge`]; where a rule wants a person, the answer names the question
    /// that waits for one, and nothing is merged yet. Asking again for the same answers the same question.
    ///
    /// # Errors
    /// As [`Kernel::merge`], but for what nobody approved.
    pub fn request_merge(&self, new: &NewMerge) -> Result<Merging> {
        self.merging(new, &How::Leave)
    }

    /// Every question about a merge that can still be made.
    pub(in crate::driver) fn merge_questions(&self) -> Result<Vec<Question>> {
        let mut open = Vec::new();
        for (name, version) in self.question_names()? {
            open.extend(self.question(name, version)?);
        }
        Ok(open)
    }

    fn question_names(&self) -> Result<Vec<(ApprovalName, u64)>> {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let page = self.log.cells(OPEN, &after, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(found) };
            after.clone_from(last);
            found.extend(
                page.into_iter().filter_map(|(key, cell)| Some((key.parse().ok()?, cell.version))),
            );
        }
    }

    /// A question as its event has it; none where a branch has moved on or the event is gone.
    fn question(&self, name: ApprovalName, version: u64) -> Result<Option<Question>> {
        let events = self.log.read(&name.branch, name.seq, 1)?;
        let event = events.first().filter(|event| *event.kind() == Kind::ApprovalRequested);
        let request = event.and_then(|event| event.body_as::<ApprovalRequested>().ok());
        let asked_us = event.map_or(0, |event| event.header.time_us);
        let Some((request, asked)) = request.and_then(|request| {
            let asked = request.merge.clone()?;
            Some((request, asked))
        }) else {
            return Ok(None);
        };
        for (branch, seq) in [(&asked.source, asked.source_seq), (&asked.target, asked.target_seq)]
        {
            match self.log.branch(branch) {
                Ok(row) if row.head.seq == seq && row.why_ended().is_none() => {}
                Ok(_) => return Ok(None),
                Err(error) if error.is(glasshouse_log::codes::BRANCH_NOT_FOUND) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        let pending = PendingApproval {
            approval: name,
            session: asked.session.clone(),
            asked_us,
            running: false,
            answered: false,
            request,
            patch: None,
        };
        Ok(Some(Question { pending, asked, version }))
    }

    /// Leaves a question in a session of its own, or names the one that is there.
    pub(super) fn leave_question(
        &self,
        decided: Draft,
        request: ApprovalRequested,
        asked: MergeAsked,
    ) -> Result<ApprovalName> {
        let mut gone = Vec::new();
        for (name, version) in self.question_names()? {
            match self.question(name.clone(), version)? {
                Some(one) if one.pending.request.args_digest == request.args_digest => {
                    return Ok(name);
                }
                Some(_) => {}
                None => gone.push(closed(&name, version)),
            }
        }
        let journal = Journal::open(self)?;
        let head = self.log.branch(&journal.branch)?.head.seq;
        let name = ApprovalName { branch: journal.branch.clone(), seq: head + 2 };
        let request = ApprovalRequested { merge: Some(asked), ..request };
        let events = vec![decided, Draft::new(Kind::ApprovalRequested, &request)];
        gone.push(CellWrite {
            space: OPEN.to_owned(),
            key: name.to_string(),
            expected_version: Some(0),
            bytes: Some(Vec::new()),
        });
        journal.append_with(events, gone)?;
        self.log.sign_head()?;
        Ok(name)
    }

    /// Answers a question about a merge: after a yes it is made, as whoever asked for it.
    pub(in crate::driver) fn answer_merge(
        &self,
        question: &Question,
        approved: bool,
        approver: &Principal,
    ) -> Result<()> {
        if !approved {
            return self.tell_answer(question, false, approver, vec![question.closed()]);
        }
        let MergeAsked { session, source, target, take, by, .. } = question.asked.clone();
        let new = NewMerge {
            session,
            source: source.to_string(),
            into: Some(target.to_string()),
            take: take.into_iter().map(|TakenPath { path, side }| (path, side)).collect(),
            by: Some(by),
        };
        self.merging(&new, &How::Answered { question, approver })?;
        // The target's own events tell of the yes; whoever reads the question finds it here as well. A log that takes
        // nothing now says so to whatever comes next: the merge is made.
        let _ = self.tell_answer(question, true, approver, Vec::new());
        Ok(())
    }

    /// Records an answer where the question stands.
    fn tell_answer(
        &self,
        question: &Question,
        approved: bool,
        approver: &Principal,
        cells: Vec<CellWrite>,
    ) -> Result<()> {
        let name = &question.pending.approval;
        let session = self.log.branch(&name.branch)?.session;
        let resolved = resolved(name.seq, approved, approver).caused_by(name.seq);
        let journal = Journal::of(self, session, name.branch.clone());
        journal.append_with(vec![resolved], cells).map_err(overtaken)?;
        self.log.sign_head()?;
        Ok(())
    }
}

impl Question {
    /// The change that closes it: the first answer's alone can be stored.
    pub(super) fn closed(&self) -> CellWrite {
        closed(&self.pending.approval, self.version)
    }
}

/// What an answer ends with that another one was stored before.
pub(super) fn overtaken(error: impl Into<Error>) -> Error {
    let error = error.into();
    if error.is(glasshouse_log::codes::CELL_CONFLICT) {
        return Error::new(codes::APPROVAL_ANSWERED, "this was answered already");
    }
    error
}

/// What would be asked about.
pub(super) fn asked(branches: &Branches, new: &NewMerge, by: Principal) -> MergeAsked {
    let taken = |(path, side): &(String, _)| TakenPath { path: path.clone(), side: *side };
    MergeAsked {
        session: branches.session.clone(),
        source: branches.source.branch.clone(),
        source_seq: branches.source.head.seq,
        target: branches.target.branch.clone(),
        target_seq: branches.target.head.seq,
        take: new.take.iter().map(taken).collect(),
        by,
    }
}

/// Refuses a merge that is no longer what a person said yes to.
pub(super) fn check_same(question: &Question, digest: Digest) -> Result<()> {
    if question.pending.request.args_digest == digest {
        return Ok(());
    }
    Err(Error::new(codes::APPROVAL_MISMATCH, "the merge was not made")
        .why("its branches have moved on since it was asked for"))
}

/// An answer, as the event that tells it.
pub(super) fn resolved(approval: u64, approved: bool, approver: &Principal) -> Draft {
    let body = ApprovalResolved {
        approval,
        approved,
        approver: approver.actor(),
        code: if approved { "approved" } else { "rejected" }.to_owned(),
        expires_us: now_us(),
        scope: GrantScope::Call,
    };
    Draft::new(Kind::ApprovalResolved, &body).by(approver.actor())
}

fn closed(name: &ApprovalName, version: u64) -> CellWrite {
    CellWrite {
        space: OPEN.to_owned(),
        key: name.to_string(),
        expected_version: Some(version),
        bytes: None,
    }
}
