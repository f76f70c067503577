//! The review queue: several questions at once, answered in any order, here or in another process.
//!
//! A question is an event of the branch. Its answer comes from the reviewer of the process that runs the
//! turn, or from another process, which leaves it in a cell together with an event of its own; the owner
//! of the branch takes it from there. Whoever answers first has answered.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Instant;

use glasshouse_log::{CellWrite, Log};
use glasshouse_model::body::{
    ApprovalAnswered, ApprovalRequested, ApprovalResolved, ApprovalSubject, GrantScope,
    StandingTerms,
};
use glasshouse_model::{
    Actor, BranchId, Call, Digest, Draft, Kind, Principal, PrincipalKind, Seq, SessionId,
};
use glasshouse_policy::GrantRule;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::decide::now_us;
use super::grants::{NewGrant, repository};
use super::journal::Journal;
use super::people::{Answer, ReviewItem, Wider, Withdrawn};
use super::{Kernel, Session, TaskEnd};
use crate::session::{CallPhase, MergePhase, State};
use crate::{Error, Result, codes};

/// How long an approval is good for.
const APPROVAL_LIFETIME_US: u64 = 10 * MINUTE_US;
const MINUTE_US: u64 = 60 * 1_000_000;
/// How long a wider answer holds unless the person says.
const SESSION_LIFETIME_US: u64 = 24 * 60 * MINUTE_US;
const WORKSPACE_LIFETIME_US: u64 = 30 * SESSION_LIFETIME_US;
/// Cell space of answers that the owner of a branch has not taken yet.
pub(super) const ANSWERS: &str = "approval.answers";
/// What stays in the place of an answer once the question is closed, so that none comes after it.
pub(super) const CLOSED: &[u8] = b"closed";
/// How often an answer is recorded anew when another one came first.
const ATTEMPTS: u8 = 4;

/// Names an approval: the branch that asks and the sequence of its question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalName {
    /// Branch.
    pub branch: BranchId,
    /// Sequence of `approval.requested`.
    pub seq: Seq,
}

impl fmt::Display for ApprovalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.branch, self.seq)
    }
}

impl FromStr for ApprovalName {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || format!("`{text}` is no approval; `glasshouse review list` names them");
        let (branch, seq) = text.split_once(':').ok_or_else(wrong)?;
        Ok(Self {
            branch: branch.parse().map_err(|_| wrong())?,
            seq: seq.parse().map_err(|_| wrong())?,
        })
    }
}

impl JsonSchema for ApprovalName {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ApprovalName".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^b_[0-9a-z]+:[0-9]+$" })
    }
}

impl Serialize for ApprovalName {
    fn serialize<S: serde::Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// A question that waits for an answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PendingApproval {
    /// Its name.
    pub approval: ApprovalName,
    /// Session that asks.
    pub session: SessionId,
    /// When it asked, microseconds since 1970.
    pub asked_us: u64,
    /// Whether a process runs that session now; else it goes on when it is resumed.
    pub running: bool,
    /// Whether it was answered, and the owner has not taken the answer yet.
    pub answered: bool,
    /// The question, with everything the person is shown.
    #[serde(flatten)]
    pub request: ApprovalRequested,
    /// The unified diff, for a merge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
}

impl PendingApproval {
    /// Where it stands among all, oldest first: it stays there while others come and go.
    #[must_use]
    pub fn place(&self) -> (u64, String) {
        (self.asked_us, self.approval.to_string())
    }
}

/// An answer of this process's reviewer.
pub(super) struct Answered {
    approval: Seq,
    answer: Answer,
    approver: Actor,
    /// When, microseconds since 1970.
    at_us: u64,
}

impl Answered {
    /// What another process left.
    fn of(left: ApprovalAnswered) -> Self {
        let answer = match (left.approved, left.scope) {
            (false, _) => Answer::Reject,
            (true, GrantScope::Call) => Answer::Approve,
            (true, scope) => Answer::ApproveFor(Wider {
                scope,
                rule: left.rule.map(|rule| rule.matching),
                lifetime_us: left.lifetime_us,
                max_uses: left.max_uses,
            }),
        };
        let (approver, at_us) = (left.approver, left.answered_us);
        Self { approval: left.approval, answer, approver, at_us }
    }
}

/// A question that is being asked.
#[derive(Default)]
struct Waiting {
    /// Tells the reviewer that nobody waits any more.
    withdrawn: Withdrawn,
    /// When nobody waits any more for an answer that comes through the log.
    until: Option<Instant>,
}

/// The questions that are being asked.
pub(super) struct Asked {
    waiting: BTreeMap<Seq, Waiting>,
    sender: UnboundedSender<Answered>,
    pub(super) answers: UnboundedReceiver<Answered>,
}

impl Asked {
    pub(super) fn new() -> Self {
        let (sender, answers) = unbounded_channel();
        Self { waiting: BTreeMap::new(), sender, answers }
    }

    /// Whether an answer may still come.
    pub(super) fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn withdraw(&mut self, approval: Seq) {
        if let Some(waiting) = self.waiting.remove(&approval) {
            waiting.withdrawn.set();
        }
    }
}

impl Drop for Asked {
    /// Nobody waits for an answer any more.
    fn drop(&mut self) {
        self.waiting.values().for_each(|waiting| waiting.withdrawn.set());
    }
}

impl Session {
    /// Asks this process's reviewer, once. An answer that lies ready is taken instead.
    pub(super) async fn ask(
        &mut self,
        tasks: &mut JoinSet<TaskEnd>,
        asked: &mut Asked,
        approval: Seq,
    ) -> Result<bool> {
        if asked.waiting.contains_key(&approval) {
            return Ok(false);
        }
        let Some(request) = self.state().pending_approvals.get(&approval).cloned() else {
            return Ok(false);
        };
        if let (Some(answered), _) = self.queued(approval, &request)? {
            self.resolve(asked, answered).await?;
            return Ok(true);
        }
        let (withdrawn, elsewhere) = (Withdrawn::default(), self.reviewer.elsewhere());
        let until = elsewhere.map(|limit| Instant::now() + limit);
        asked.waiting.insert(approval, Waiting { withdrawn: withdrawn.clone(), until });
        if elsewhere.is_some() {
            // Nobody is asked here, so no thread waits.
            return Ok(false);
        }
        let patch = patch_of(self.recorder.log(), &request);
        let item = ReviewItem { approval, request, patch, withdrawn };
        let reviewer = std::sync::Arc::clone(&self.reviewer);
        let sender = asked.sender.clone();
        tasks.spawn_blocking(move || {
            let (answer, approver) = (reviewer.review(&item), reviewer.approver());
            let answered = Answered { approval, answer, approver, at_us: now_us() };
            // A turn that is over hears no answers.
            let _ = sender.send(answered);
            TaskEnd::new()
        });
        Ok(false)
    }

    /// Takes the answers that other processes left.
    pub(super) async fn take_answers(&mut self, asked: &mut Asked) -> Result<()> {
        let waiting: Vec<Seq> = asked.waiting.keys().copied().collect();
        for approval in waiting {
            let Some(request) = self.state().pending_approvals.get(&approval).cloned() else {
                asked.withdraw(approval);
                continue;
            };
            let (left, _) = self.queued(approval, &request)?;
            let is_over =
                |waiting: &Waiting| waiting.until.is_some_and(|until| Instant::now() >= until);
            if let Some(answered) = left {
                self.resolve(asked, answered).await?;
            } else if asked.waiting.get(&approval).is_some_and(is_over) {
                let (answer, approver) = (Answer::Nobody, self.reviewer.approver());
                let nobody = Answered { approval, answer, approver, at_us: now_us() };
                self.resolve(asked, nobody).await?;
            }
        }
        Ok(())
    }

    /// The answer that another process left, and the write that closes its place. That write fails when an
    /// answer comes between: a question is closed once. What is no answer of a person of this tenant to
    /// exactly this question counts as none.
    fn queued(
        &self,
        approval: Seq,
        request: &ApprovalRequested,
    ) -> Result<(Option<Answered>, CellWrite)> {
        let name = ApprovalName { branch: self.branch().clone(), seq: approval };
        let cell = self.recorder.log().cell(ANSWERS, &name.to_string())?;
        let closing = CellWrite {
            space: ANSWERS.to_owned(),
            key: name.to_string(),
            expected_version: Some(cell.as_ref().map_or(0, |cell| cell.version)),
            bytes: Some(CLOSED.to_vec()),
        };
        let left = cell.and_then(|cell| serde_json::from_slice(&cell.bytes).ok());
        let is_for_it = |left: &ApprovalAnswered| {
            left.branch == name.branch
                && left.approval == approval
                && left.args_digest == request.args_digest
                && left.approver.kind == PrincipalKind::User
                && left.tenant == *self.recorder.log().tenant()
        };
        Ok((left.filter(is_for_it).map(Answered::of), closing))
    }

    /// Records an answer, unless the question is no longer open. One that another process left came first.
    pub(super) async fn resolve(&mut self, asked: &mut Asked, answered: Answered) -> Result<()> {
        let approval = answered.approval;
        asked.withdraw(approval);
        let mut answer = answered;
        for attempt in 1.. {
            let Some(request) = self.state().pending_approvals.get(&approval).cloned() else {
                return Ok(());
            };
            let (left, closing) = self.queued(approval, &request)?;
            answer = left.unwrap_or(answer);
            match self.record_answer(&request, &answer, closing).await {
                Err(error)
                    if error.is(glasshouse_log::codes::CELL_CONFLICT) && attempt < ATTEMPTS => {}
                recorded => return recorded,
            }
        }
        Ok(())
    }

    async fn record_answer(
        &mut self,
        request: &ApprovalRequested,
        answered: &Answered,
        closing: CellWrite,
    ) -> Result<()> {
        let Answered { approval, answer, approver, at_us } = answered;
        // Whoever implements `Reviewer`, an agent or a plugin never approves.
        let may_approve = approver.kind == PrincipalKind::User;
        let expires_us = at_us.saturating_add(APPROVAL_LIFETIME_US);
        let (approved, code) = match answer {
            Answer::Nobody => (false, "no_approver"),
            Answer::Reject => (false, "rejected"),
            Answer::Approve | Answer::ApproveFor(_) if !may_approve => (false, "rejected"),
            // Nobody ran the session while it was good.
            _ if now_us() >= expires_us => (false, codes::APPROVAL_EXPIRED.name),
            Answer::Approve | Answer::ApproveFor(_) => (true, "approved"),
        };
        let wider = match answer {
            // What makes no grant, as one that is good for no use, is an answer for the call alone.
            Answer::ApproveFor(wider) if approved => {
                self.widen(request, wider.clone(), approver).ok().flatten()
            }
            _ => None,
        };
        let scope = wider.as_ref().map_or(GrantScope::Call, |(scope, ..)| *scope);
        let body = ApprovalResolved {
            approval: *approval,
            approved,
            approver: approver.clone(),
            code: code.to_owned(),
            expires_us,
            scope,
        };
        let resolved = Draft::new(Kind::ApprovalResolved, &body).by(approver.clone());
        let mut drafts = vec![resolved.caused_by(*approval)];
        let mut cells = vec![closing];
        if let Some((_, draft, cell)) = wider {
            drafts.insert(0, draft.caused_by(*approval));
            cells.push(cell);
        }
        self.recorder.record_with(drafts, cells).await
    }

    /// The grant of an answer that reaches further than the call. A question without an offer is
    /// answered for its call alone.
    fn widen(
        &self,
        request: &ApprovalRequested,
        wider: Wider,
        approver: &Actor,
    ) -> Result<Option<(GrantScope, Draft, CellWrite)>> {
        let (Some(offer), Some(call)) = (&request.offer, self.input_of(request)) else {
            return Ok(None);
        };
        let matching = wider.rule.as_ref().unwrap_or(&offer.matching);
        let rule = GrantRule::parse(matching)?.told(&call);
        let lifetime_us = wider.lifetime_us.unwrap_or(match wider.scope {
            GrantScope::Workspace => WORKSPACE_LIFETIME_US,
            GrantScope::Call | GrantScope::Turn | GrantScope::Session => SESSION_LIFETIME_US,
        });
        let in_branch = matches!(wider.scope, GrantScope::Turn | GrantScope::Session);
        let created = self.state().created.as_ref();
        let workspace = created
            .filter(|_| wider.scope == GrantScope::Workspace)
            .map(|created| created.project.clone());
        let terms = StandingTerms {
            scope: wider.scope,
            tenant: self.recorder.log().tenant().clone(),
            branch: in_branch.then(|| self.branch().clone()),
            turn: self.state().turn.filter(|_| wider.scope == GrantScope::Turn),
            repository: workspace.as_ref().and_then(|project| repository(Path::new(project))),
            workspace,
            rule,
            labels: call.labels,
            policy_version: request.policy_version,
            approver: approver.clone(),
            max_uses: wider.max_uses,
            expires_us: now_us().saturating_add(lifetime_us),
            parent: None,
        };
        let grant = NewGrant { session: self.id().clone(), branch: self.branch().clone(), terms };
        grant.issue().map(|(draft, cell)| Some((wider.scope, draft, cell)))
    }

    /// The call that an approval is asked for, as it was decided on.
    fn input_of(&self, request: &ApprovalRequested) -> Option<Call> {
        self.state().reviewed.get(&request.call?).cloned()
    }
}

impl Kernel {
    /// Every question that waits for a person, oldest first.
    ///
    /// # Errors
    /// What reading the log answers.
    pub fn pending_approvals(&self) -> Result<Vec<PendingApproval>> {
        let mut pending = Vec::new();
        for (session, branch, state) in self.branch_states()? {
            for (seq, request) in
                state.pending_approvals.iter().filter(|(seq, _)| open(&state, **seq))
            {
                let approval = ApprovalName { branch: branch.clone(), seq: *seq };
                let asked = self.log.read(&branch, *seq, 1)?;
                pending.push(PendingApproval {
                    asked_us: asked.first().map_or(0, |event| event.header.time_us),
                    running: self.log.is_owned(&branch)?,
                    answered: self.log.cell(ANSWERS, &approval.to_string())?.is_some(),
                    approval,
                    session: session.clone(),
                    request: request.clone(),
                    patch: patch_of(&self.log, request),
                });
            }
        }
        pending.extend(self.merge_questions()?.into_iter().map(|question| question.pending));
        pending.sort_by_cached_key(PendingApproval::place);
        Ok(pending)
    }

    /// One of them.
    ///
    /// # Errors
    /// `approval_unknown` when nothing of that name waits.
    pub fn pending_approval(&self, name: &ApprovalName) -> Result<PendingApproval> {
        let mut pending = self.pending_approvals()?.into_iter();
        pending.find(|one| one.approval == *name).ok_or_else(|| unknown(name))
    }

    /// Leaves an answer for whoever runs, or will run, the branch that asks; a merge of branches that is asked for is
    /// made at once. `args_digest`, where given, is what the person saw.
    ///
    /// # Errors
    /// `approval_unknown`; `approval_forbidden` for whoever is no user of this tenant;
    /// `approval_mismatch` when something else is asked for; `approval_answered`; `grant_narrow` when a
    /// wider rule does not match the call at hand; of a merge as [`Kernel::merge`]; the log's errors.
    pub fn answer_approval(
        &self,
        name: &ApprovalName,
        answer: Answer,
        args_digest: Option<&Digest>,
        approver: &Principal,
    ) -> Result<PendingApproval> {
        // Who may not answer is not told what is asked.
        if approver.tenant != *self.log.tenant() {
            return Err(Error::new(codes::APPROVAL_UNKNOWN, format!("nothing asks for {name}")));
        }
        if approver.kind != PrincipalKind::User {
            return Err(Error::new(codes::APPROVAL_FORBIDDEN, "this cannot be answered")
                .why("only a person answers; agents and plugins never do"));
        }
        let pending = self.pending_approval(name)?;
        if args_digest.is_some_and(|seen| *seen != pending.request.args_digest) {
            return Err(Error::new(codes::APPROVAL_MISMATCH, "this was not answered")
                .why(format!("what is asked for has the digest {}", pending.request.args_digest)));
        }
        // Before anything is written: a refusal leaves nothing behind.
        if pending.answered {
            return Err(answered_already());
        }
        let (approved, wider) = match answer {
            Answer::Approve => (true, None),
            Answer::ApproveFor(wider) => (true, Some(wider)),
            Answer::Reject | Answer::Nobody => (false, None),
        };
        let rule = match &wider {
            Some(wider) => Some(self.wider_rule(&pending, wider)?),
            None => None,
        };
        if pending.request.merge.is_some() {
            return self.answer_merge_of(pending, approved, approver);
        }
        let body = ApprovalAnswered {
            branch: name.branch.clone(),
            approval: name.seq,
            args_digest: pending.request.args_digest,
            approved,
            approver: approver.actor(),
            tenant: approver.tenant.clone(),
            scope: wider.as_ref().map_or(GrantScope::Call, |wider| wider.scope),
            rule,
            lifetime_us: wider.as_ref().and_then(|wider| wider.lifetime_us),
            max_uses: wider.as_ref().and_then(|wider| wider.max_uses),
            answered_us: now_us(),
        };
        let cell = cell_of(name, &body)?;
        let journal = Journal::beside(self, &pending.session)?;
        let drafts = vec![Draft::new(Kind::ApprovalAnswered, &body).by(approver.actor())];
        match journal.append_with(drafts, vec![cell]) {
            Err(error) if error.is(glasshouse_log::codes::CELL_CONFLICT) => {
                // Taken meanwhile, or closed because its time was over: then nothing asks for it.
                self.pending_approval(name)?;
                Err(answered_already())
            }
            Err(error) => Err(error),
            Ok(_) => {
                self.log.sign_head()?;
                Ok(pending)
            }
        }
    }

    /// Answers a question about a merge of branches, which is made at once.
    fn answer_merge_of(
        &self,
        pending: PendingApproval,
        approved: bool,
        approver: &Principal,
    ) -> Result<PendingApproval> {
        let mut open = self.merge_questions()?.into_iter();
        let question = open.find(|one| one.pending.approval == pending.approval);
        let question = question.ok_or_else(|| unknown(&pending.approval))?;
        self.answer_merge(&question, approved, approver)?;
        Ok(pending)
    }

    /// The rule of a wider answer, checked against the call at hand, with calls that it matches.
    ///
    /// # Errors
    /// `grant_narrow` when it does not match the call, or what is asked for is approved once only;
    /// `grant_malformed`.
    pub fn wider_rule(
        &self,
        pending: &PendingApproval,
        wider: &Wider,
    ) -> Result<glasshouse_model::body::GrantRule> {
        let state = self.state_of(&pending.approval.branch)?;
        let call = pending.request.call.and_then(|call| state.reviewed.get(&call));
        let (Some(offer), Some(call)) = (&pending.request.offer, call) else {
            return Err(Error::new(codes::GRANT_NARROW, "this can only be approved once")
                .why("what a built-in rule or a merge asks for is looked at every time"));
        };
        let rule = GrantRule::parse(wider.rule.as_ref().unwrap_or(&offer.matching))?;
        if !rule.matches(call) {
            return Err(Error::new(codes::GRANT_NARROW, "the rule does not match this call")
                .why("it would allow others and not this one"));
        }
        Ok(rule.told(call))
    }
}

/// The cell in which an answer waits for the owner of the branch.
fn cell_of(name: &ApprovalName, body: &ApprovalAnswered) -> Result<CellWrite> {
    let bytes = serde_json::to_vec(body)
        .map_err(|e| Error::new(codes::TURN_FAILED, "an answer cannot be written").why(e))?;
    Ok(CellWrite {
        space: ANSWERS.to_owned(),
        key: name.to_string(),
        expected_version: Some(0),
        bytes: Some(bytes),
    })
}

fn answered_already() -> Error {
    Error::new(codes::APPROVAL_ANSWERED, "this was answered already")
        .why("another answer waits to be taken")
}

fn unknown(name: &ApprovalName) -> Error {
    Error::new(codes::APPROVAL_UNKNOWN, format!("nothing asks for the approval {name}"))
        .why("there is no such question, or it is answered, or its turn is over")
}

/// The diff that a question about a merge shows: what is asked for has its digest.
fn patch_of(log: &Log, request: &ApprovalRequested) -> Option<String> {
    match request.subject {
        ApprovalSubject::Merge => {
            let bytes = log.blob(&request.args_digest).ok()?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }
        ApprovalSubject::Call | ApprovalSubject::Policy => None,
    }
}

/// Whether a question still waits: its call or merge may have ended otherwise.
fn open(state: &State, seq: Seq) -> bool {
    let by_call = state.open_calls.iter().any(|call| {
        state.calls.get(call).is_some_and(|record| record.phase == CallPhase::InReview(seq))
    });
    let by_merge =
        state.merge.as_ref().is_some_and(|merge| merge.phase == MergePhase::InReview(Some(seq)));
    by_call || by_merge || state.mode_question() == Some(seq)
}
