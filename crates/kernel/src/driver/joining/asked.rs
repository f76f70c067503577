//! Merges that wait for a person. The question is recorded in a session of its own, because a merge is bound to the
//! newest events of both branches, which a question on either would move; a cell by what is asked lists it while it is
//! open, so the same is asked once. No process waits: whoever answers yes makes the merge. When a branch has moved on,
//! the question is no more.

use std::sync::PoisonError;

use glasshouse_log::CellWrite;
use glasshouse_model::body::{ApprovalRequested, MergeAsked, TakenPath};
use glasshouse_model::{Digest, Draft, Effect, Kind, Principal};

use super::{Allowed, Branches, How, Merging, NewMerge};
use crate::driver::Kernel;
use crate::driver::approvals::{ApprovalName, PendingApproval};
use crate::driver::journal::Journal;
use crate::driver::settled::Settled;
use crate::{Error, Result, codes};

/// Cell space of questions that are open, by the digest of what is asked.
const OPEN: &str = "merge.questions";
/// Cells that are read at a time.
const PAGE: usize = 100;

/// The cell of a question: its key, its version, and where the question stands.
struct Place {
    key: String,
    version: u64,
    name: ApprovalName,
}

/// A question about a merge, with its cell.
pub(in crate::driver) struct Question {
    pub(in crate::driver) pending: PendingApproval,
    asked: MergeAsked,
    place: Place,
}

impl Kernel {
    /// Merges a branch into another, as [`Kernel::merge`]; where a rule wants a person, the answer names the question
    /// that waits for one, and nothing is merged yet. Asking again for the same answers the same question.
    ///
    /// # Errors
    /// As [`Kernel::merge`], but for what nobody approved.
    pub fn request_merge(&self, new: &NewMerge) -> Result<Merging> {
        // Under no lease: a question moves no branch, and whoever asks the same at the same moment is in nobody's way.
        if self.wants_person(new)?
            && let (_, planned, Allowed::Asked(approval)) = self.allowed(new, &How::Leave)?
        {
            return Ok(Merging { approval: Some(approval), ..planned.merging });
        }
        self.merging(new, &How::Leave)
    }

    /// Whether a person is asked about a merge, as far as can be told before it is planned.
    fn wants_person(&self, new: &NewMerge) -> Result<bool> {
        let branches = self.branches_of(new)?;
        let labels = self.labels_since(&branches.source, branches.base_seq)?;
        let by = self.who(new.by.as_ref());
        let created = branches.target_state.created.as_ref();
        let decision = self.decide_branching(created, &branches.call(labels, by))?;
        Ok(decision.effect == Effect::RequireReview)
    }

    /// Every question about a merge that can still be made.
    pub(in crate::driver) fn merge_questions(&self) -> Result<Vec<Question>> {
        let mut open = Vec::new();
        for place in self.questions_left()? {
            open.extend(self.question(place)?.ok());
        }
        Ok(open)
    }

    fn questions_left(&self) -> Result<Vec<Place>> {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let page = self.log.cells(OPEN, &after, PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(found) };
            after.clone_from(last);
            found.extend(page.into_iter().filter_map(|(key, cell)| {
                let name = std::str::from_utf8(&cell.bytes).ok()?.parse().ok()?;
                Some(Place { key, version: cell.version, name })
            }));
        }
    }

    /// A question as its event has it; only its place where a branch has moved on or the event is gone.
    fn question(&self, place: Place) -> Result<std::result::Result<Question, Place>> {
        let name = place.name.clone();
        let events = self.log.read(&name.branch, name.seq, 1)?;
        let event = events.first().filter(|event| *event.kind() == Kind::ApprovalRequested);
        let request = event.and_then(|event| event.body_as::<ApprovalRequested>().ok());
        let asked_us = event.map_or(0, |event| event.header.time_us);
        let Some((request, asked)) = request.and_then(|request| {
            let asked = request.merge.clone()?;
            Some((request, asked))
        }) else {
            return Ok(Err(place));
        };
        for (branch, seq) in [(&asked.source, asked.source_seq), (&asked.target, asked.target_seq)]
        {
            match self.log.branch(branch) {
                Ok(row) if row.head.seq == seq && row.why_ended().is_none() => {}
                Ok(_) => return Ok(Err(place)),
                Err(error) if error.is(glasshouse_log::codes::BRANCH_NOT_FOUND) => {
                    return Ok(Err(place));
                }
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
        Ok(Ok(Question { pending, asked, place }))
    }

    /// Leaves a question in a session of its own, or names the one that is there.
    pub(super) fn leave_question(
        &self,
        decided: Draft,
        request: ApprovalRequested,
        asked: MergeAsked,
    ) -> Result<ApprovalName> {
        // Guards nothing but this order: a panic in it leaves nothing half done.
        let _one_at_a_time = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        match self.store_question(&decided, &request, &asked) {
            // Another process left the same at the same moment.
            Err(error) if error.is(glasshouse_log::codes::CELL_CONFLICT) => {
                self.store_question(&decided, &request, &asked)
            }
            stored => stored,
        }
    }

    fn store_question(
        &self,
        decided: &Draft,
        request: &ApprovalRequested,
        asked: &MergeAsked,
    ) -> Result<ApprovalName> {
        let key = request.args_digest.to_string();
        let (mut writes, mut expected_version) = (Vec::new(), Some(0));
        for place in self.questions_left()? {
            match self.question(place)? {
                Ok(one) if one.place.key == key => return Ok(one.place.name),
                Err(gone) if gone.key == key => expected_version = Some(gone.version),
                Err(gone) => writes.push(gone.closed()),
                Ok(_) => {}
            }
        }
        let journal = Journal::beside(self, &asked.session)?;
        let head = self.log.branch(&journal.branch)?.head.seq;
        let name = ApprovalName { branch: journal.branch.clone(), seq: head + 2 };
        let request = ApprovalRequested { merge: Some(asked.clone()), ..request.clone() };
        let events = vec![decided.clone(), Draft::new(Kind::ApprovalRequested, &request)];
        let bytes = Some(name.to_string().into_bytes());
        writes.push(CellWrite { space: OPEN.to_owned(), key, expected_version, bytes });
        journal.append_with(events, writes)?;
        self.log.sign_head()?;
        // Who deletes a session looks for its questions once its branches have ended; what comes later is seen here.
        if let Some(why) = self.log.branch(&asked.source)?.why_ended() {
            self.forget_one_beside(&asked.session, journal.session, &self.person().actor())?;
            let code = glasshouse_log::codes::BRANCH_READ_ONLY;
            let what = format!("could not merge {}", asked.source);
            return Err(Error::new(code, what).why(why));
        }
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
            return self.tell_no(question, approver);
        }
        let MergeAsked { session, source, target, take, by, .. } = question.asked.clone();
        let new = NewMerge {
            session,
            source: source.to_string(),
            into: Some(target.to_string()),
            take: take.into_iter().map(|TakenPath { path, side }| (path, side)).collect(),
            by: Some(by),
        };
        // The yes stands before the merge, in the target, and nowhere else: an answer is told once.
        self.merging(&new, &How::Answered { question, approver }).map(drop)
    }

    /// Records a no where the question stands: it changes no branch.
    fn tell_no(&self, question: &Question, approver: &Principal) -> Result<()> {
        let name = &question.pending.approval;
        let session = self.log.branch(&name.branch)?.session;
        let answer = Settled::answered(approver.actor(), false);
        let resolved = answer.draft(name.seq).caused_by(name.seq);
        let journal = Journal::of(self, session, name.branch.clone());
        journal.append_with(vec![resolved], vec![question.closed()]).map_err(overtaken)?;
        self.log.sign_head()?;
        Ok(())
    }
}

impl Question {
    /// The change that closes it: the first answer's alone can be stored.
    pub(super) fn closed(&self) -> CellWrite {
        self.place.closed()
    }
}

impl Place {
    fn closed(&self) -> CellWrite {
        CellWrite {
            space: OPEN.to_owned(),
            key: self.key.clone(),
            expected_version: Some(self.version),
            bytes: None,
        }
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
