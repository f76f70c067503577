//! Merging a branch of a session into another.
//!
//! The states come together by one table ([`MERGE_KINDS`](crate::session::MERGE_KINDS)), the files path by
//! path, three-way. What does not go together is told and nothing is changed; a person may take one
//! branch's version. One event ends the source and brings to the target what crosses.

mod asked;
mod files;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use glasshouse_log::{BranchRow, Head, MergeBranch};
use glasshouse_model::body::{
    ApprovalRequested, ApprovalSubject, BranchMerged, ChangedPath, MergeSide, MergeStrategy,
    PolicyDecided, SessionCreated, TakenPath,
};
use glasshouse_model::syscall::name;
use glasshouse_model::{
    BranchId, Call, Decision, Digest, Draft, Effect, Kind, Layer, Principal, Seq, SessionId,
};
use glasshouse_policy::{Consent, Policy};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

pub(in crate::driver) use self::asked::Question;
use self::files::{Brought, Choice};
use self::words::{message_of, shown, told};
use super::Kernel;
use super::approvals::ApprovalName;
use super::demands::{Place, decide_uncounted};
use super::journal::Journal;
use super::people::{ReviewItem, Reviewer, Withdrawn};
use super::recorder::{expand, fold_to};
use super::rules::{project_texts_of, shipped};
use super::settled::Settled;
use crate::merge::{Conflict, conflict_error};
use crate::session::{State, decided_by_kernel, join, recorded};
use crate::{Error, Result, codes};

/// Most changed paths that an event or a message names.
const MAX_NAMED_PATHS: usize = 200;

/// What to merge.
#[derive(Debug, Clone)]
pub struct NewMerge {
    /// The session of both branches.
    pub session: SessionId,
    /// The branch that ends, by id or name.
    pub source: String,
    /// The branch that goes on; the main one when absent.
    pub into: Option<String>,
    /// Whose version of paths that do not go together is taken; an empty path stands for all.
    pub take: Vec<(String, MergeSide)>,
    /// Who merges; the person at this machine when absent.
    pub by: Option<Principal>,
}

/// A merge that was made, or what one would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Merging {
    /// The branch that ends.
    pub source: BranchId,
    /// The branch that goes on.
    pub target: BranchId,
    /// Sequence of the last event that both share.
    pub base: Seq,
    /// How.
    pub strategy: MergeStrategy,
    /// What changes in the target's files.
    pub changed: Vec<ChangedPath>,
    /// Paths that do not go together; none in a merge that was made.
    pub conflicts: Vec<Conflict>,
    /// Keys of the state that do not go together; none in a merge that was made.
    pub keys: Vec<&'static str>,
    /// Paths of which one version was taken.
    pub taken: Vec<TakenPath>,
    /// The target's newest event after it; absent while nothing was merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<Seq>,
    /// The question that a person answers before anything is merged; absent where none is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalName>,
}

/// Who says whether a merge is made, where a rule wants a person.
enum How<'a> {
    /// Somebody who is asked now.
    Here(&'a dyn Reviewer),
    /// Whoever answers later.
    Leave,
    /// Somebody who said yes.
    Answered { question: &'a Question, approver: &'a Principal },
}

/// What came of deciding a merge.
enum Allowed {
    /// It is made, and this is recorded before it.
    Now(Vec<Draft>),
    /// A person is asked first.
    Asked(ApprovalName),
}

/// Two branches as a merge sees them.
struct Branches {
    session: SessionId,
    source: BranchRow,
    target: BranchRow,
    /// The last event that both share, and the states there and at both heads.
    base_seq: Seq,
    base: State,
    source_state: State,
    target_state: State,
}

impl Branches {
    /// What is decided about merging them.
    fn call(&self, labels: BTreeSet<String>, by: Principal) -> Call {
        let mut call = Call::new(name::SESSION_MERGE, by);
        call.session = Some(self.session.clone());
        call.labels = labels;
        call
    }
}

/// What a merge brings.
struct Planned {
    merging: Merging,
    resolved: BTreeMap<String, Value>,
    labels: BTreeSet<String>,
    message: Option<String>,
}

impl Kernel {
    /// What a merge would do. Nothing is changed or recorded.
    ///
    /// # Errors
    /// As [`Kernel::merge`], but for conflicts, which are part of the answer, and for what policy says.
    pub fn preview_merge(&self, new: &NewMerge) -> Result<Merging> {
        Ok(self.plan_merge(&self.branches_of(new)?, new, false)?.merging)
    }

    /// Merges a branch into another, as whoever asks for it and under the shipped policy, which the session's
    /// own may only make stricter. `reviewer` is asked where a rule wants it.
    ///
    /// # Errors
    /// `merge_conflict` with `conflicts` and `keys`; `nothing_to_merge`; `turn_open` while a turn of either
    /// branch is not over; `session_owned` while another process works on one; `branch_read_only` when
    /// either has ended; `session_not_found`, `branch_unknown`, `policy_denied`, `approval_needed`,
    /// `approval_rejected`, `base_gone`, or an error of the log.
    pub fn merge(&self, new: &NewMerge, reviewer: &dyn Reviewer) -> Result<Merging> {
        self.merging(new, &How::Here(reviewer))
    }

    fn merging(&self, new: &NewMerge, how: &How<'_>) -> Result<Merging> {
        let rows = self.rows_of(new)?;
        // Both, so that neither moves until the merge is stored.
        let target = self.log.acquire_lease(&rows.1.branch)?;
        let source = self.log.acquire_lease(&rows.0.branch)?;
        let (branches, planned, allowed) = self.allowed(new, how)?;
        let by = self.who(new.by.as_ref());
        let before = match allowed {
            Allowed::Now(before) => before,
            Allowed::Asked(approval) => {
                return Ok(Merging { approval: Some(approval), ..planned.merging });
            }
        };
        // With the merge, so that of several answers one counts, and a yes is never without what it allowed.
        let cells = match how {
            How::Answered { question, .. } => vec![question.closed()],
            How::Here(_) | How::Leave => Vec::new(),
        };
        let Planned { mut merging, resolved, labels, message } = planned;
        let ask = MergeBranch {
            session: branches.session.clone(),
            target: branches.target.branch.clone(),
            target_head: branches.target.head.seq,
            source: branches.source.branch.clone(),
            source_head: branches.source.head,
            strategy: merging.strategy,
            resolved,
            actor: by.actor(),
            before,
            events: message.iter().map(|text| told(text, &labels, &by)).collect(),
            labels,
            epoch: Some(target.epoch()),
            source_epoch: Some(source.epoch()),
            cells,
            idempotency_key: None,
        };
        let ask = self.with_consequences(&branches, ask)?;
        let appended = self.log.merge(ask).map_err(asked::overtaken)?;
        self.log.sign_head()?;
        merging.head = Some(appended.head.seq);
        Ok(merging)
    }

    /// What a merge would do, and what came of deciding it.
    fn allowed(&self, new: &NewMerge, how: &How<'_>) -> Result<(Branches, Planned, Allowed)> {
        let branches = self.branches_of(new)?;
        let planned = self.plan_merge(&branches, new, true)?;
        refuse_conflicts(&planned.merging)?;
        let allowed = self.allow_merge((&branches, new), &planned, how)?;
        Ok((branches, planned, allowed))
    }

    fn rows_of(&self, new: &NewMerge) -> Result<(BranchRow, BranchRow)> {
        self.check_agents(&self.branch(&new.session, None)?)?;
        let source = self.branch(&new.session, Some(&new.source))?;
        let target = self.branch(&new.session, new.into.as_deref())?;
        for row in [&source, &target] {
            if let Some(why) = row.why_ended() {
                let code = glasshouse_log::codes::BRANCH_READ_ONLY;
                return Err(Error::new(code, format!("could not merge {}", row.branch)).why(why));
            }
        }
        if source.branch == target.branch {
            return Err(nothing_to_merge(&source, &target));
        }
        Ok((source, target))
    }

    fn branches_of(&self, new: &NewMerge) -> Result<Branches> {
        let (source, target) = self.rows_of(new)?;
        let base_seq = self.log.last_shared(&source.branch, &target.branch)?;
        if source.head.seq <= base_seq {
            return Err(nothing_to_merge(&source, &target));
        }
        let state = |row: &BranchRow| fold_to(&self.log, &row.branch, row.head.seq);
        let (source_state, target_state) = (state(&source)?, state(&target)?);
        check_at_rest(&source, &source_state, false)?;
        check_at_rest(&target, &target_state, true)?;
        let base = fold_to(&self.log, &target.branch, base_seq)?;
        let session = new.session.clone();
        Ok(Branches { session, source, target, base_seq, base, source_state, target_state })
    }

    /// Works out a merge. `keep` stores the contents that it makes.
    fn plan_merge(&self, branches: &Branches, new: &NewMerge, keep: bool) -> Result<Planned> {
        let Branches { source, target, base_seq, base, source_state, target_state, .. } = branches;
        let unreadable =
            |cause| Error::new(codes::LOG_UNREADABLE, "a state cannot be merged").why(cause);
        let joined = join(base, target_state, source_state).map_err(unreadable)?;
        let choice = Choice::new(&new.take)?;
        let Brought { workspace, changed, conflicts, taken } =
            self.join_files(branches, &choice, keep)?;
        choice.check_used(&conflicts, &taken)?;
        let mut resolved = recorded(&joined).map_err(unreadable)?;
        if let Some(workspace) = workspace {
            let workspace = serde_json::to_value(workspace).map_err(unreadable)?;
            resolved.insert("workspace".to_owned(), workspace);
        }
        let strategy = if target.head.seq == *base_seq {
            MergeStrategy::FastForward
        } else {
            MergeStrategy::ThreeWay
        };
        let message = message_of(&source.name, &changed, &joined.said);
        Ok(Planned {
            labels: self.labels_since(source, *base_seq)?,
            resolved,
            message,
            merging: Merging {
                source: source.branch.clone(),
                target: target.branch.clone(),
                base: *base_seq,
                strategy,
                changed,
                conflicts,
                keys: joined.conflicts,
                taken,
                head: None,
                approval: None,
            },
        })
    }

    /// Where everything came from that happened on a branch after an event.
    fn labels_since(&self, row: &BranchRow, base: Seq) -> Result<BTreeSet<String>> {
        let mut labels = BTreeSet::new();
        for event in self.log.events_from(&row.branch, base + 1) {
            let event = event?;
            if event.seq() > row.head.seq {
                break;
            }
            labels.extend(event.header.labels);
        }
        Ok(labels)
    }

    /// Decides the merge and, where a rule wants it, asks. Answers what is recorded before the merge.
    fn allow_merge(
        &self,
        (branches, new): (&Branches, &NewMerge),
        planned: &Planned,
        how: &How<'_>,
    ) -> Result<Allowed> {
        let Branches { source, target, target_state, .. } = branches;
        let shown = shown(&source.name, &target.name, &planned.merging);
        let by = self.who(new.by.as_ref());
        let mut call = branches.call(planned.labels.clone(), by.clone());
        call.args_digest = Some(digest_of(source.head, target.head, planned));
        let decision = self.decide_branching(target_state.created.as_ref(), &call)?;
        let subject = Some(format!("{} into {}", source.branch, target.branch));
        let args_digest = call.args_digest.unwrap_or(Digest::ZERO);
        let decided = PolicyDecided::new(None, call, subject, decision.clone());
        let decided = Draft::new(Kind::PolicyDecided, &decided);
        if let How::Answered { question, .. } = how {
            asked::check_same(question, args_digest)?;
        }
        match decision.effect {
            Effect::Allow => Ok(Allowed::Now(vec![decided])),
            Effect::Deny => {
                let journal = Journal::open(self)?;
                let seq = journal.append(vec![decided])?;
                let what = format!("{} may not be merged", source.branch);
                Err(journal.denied(seq, what, decision.why()))
            }
            Effect::RequireReview => {
                let base = target_state.frozen.as_ref().map_or(Digest::ZERO, |(_, own)| own.base);
                let request = ApprovalRequested {
                    subject: ApprovalSubject::Merge,
                    call: None,
                    tool: name::SESSION_MERGE.to_owned(),
                    shown,
                    reasons: decision.reasons,
                    args_digest,
                    policy_version: decision.policy_version,
                    base,
                    offer: None,
                    merge: None,
                };
                let head = target.head.seq;
                match how {
                    How::Here(reviewer) => {
                        let place = (&branches.session, head);
                        self.ask_merge(place, decided, request, *reviewer).map(Allowed::Now)
                    }
                    How::Leave => {
                        let asked = asked::asked(branches, new, by);
                        self.leave_question(decided, request, asked).map(Allowed::Asked)
                    }
                    How::Answered { approver, .. } => {
                        let requested = Draft::new(Kind::ApprovalRequested, &request);
                        let resolved = Settled::answered(approver.actor(), true).draft(head + 2);
                        Ok(Allowed::Now(vec![decided, requested, resolved]))
                    }
                }
            }
        }
    }

    /// Asks a person. A refusal is recorded in a session of its own: the branches are not touched.
    fn ask_merge(
        &self,
        (session, head): (&SessionId, Seq),
        decided: Draft,
        request: ApprovalRequested,
        reviewer: &dyn Reviewer,
    ) -> Result<Vec<Draft>> {
        let item = ReviewItem {
            approval: head + 2,
            request: request.clone(),
            patch: None,
            withdrawn: Withdrawn::default(),
        };
        let settled = Settled::ask(reviewer, &item);
        let asked = vec![decided, Draft::new(Kind::ApprovalRequested, &request)];
        if settled.is_approved() {
            return Ok(asked.into_iter().chain([settled.draft(head + 2)]).collect());
        }
        let journal = Journal::beside(self, session)?;
        let approval = journal.append(asked)?;
        journal.append(vec![settled.draft(approval)])?;
        settled.check(&request.reasons).map(|()| Vec::new())
    }

    /// Adds to a merge what its events imply for the target.
    fn with_consequences(&self, branches: &Branches, ask: MergeBranch) -> Result<MergeBranch> {
        let body = BranchMerged {
            source: ask.source.clone(),
            source_seq: ask.source_head.seq,
            source_hash: ask.source_head.hash,
            base_seq: branches.base_seq,
            strategy: ask.strategy,
            resolved: ask.resolved.clone(),
        };
        let merged = Draft::new(Kind::BranchMerged, &body).by(ask.actor.clone());
        let all = ask.before.iter().cloned().chain([merged]).chain(ask.events.iter().cloned());
        let mut state = branches.target_state.clone();
        let place = (self.log.tenant(), &ask.session, &ask.target);
        let mut before = expand(&mut state, place, all.collect())?;
        let at = before.iter().position(|draft| draft.kind == Kind::BranchMerged);
        let mut events = before.split_off(at.unwrap_or(before.len()));
        // The log makes that event itself.
        events.drain(..1.min(events.len()));
        Ok(MergeBranch { before, events, ..ask })
    }

    /// Decides what a person does with sessions, policies and grants: by the shipped policy. The tenant's rules, and
    /// those of the policy file that the session began with or that was accepted since, may be stricter; that they
    /// have none for this changes nothing.
    pub(super) fn decide_branching(
        &self,
        created: Option<&SessionCreated>,
        call: &Call,
    ) -> Result<Decision> {
        let of_project = created.map(|created| project_texts_of(self, created)).transpose()?;
        let own = of_project.unwrap_or_default().into_iter().chain(self.tenant_text());
        let own = own.map(|text| self.compile(&[text])).collect::<Result<Vec<_>>>()?;
        Ok(decide_beside(&self.compile(&[shipped(Consent::Joint)])?, &own, call))
    }
}

/// What the shipped policy says, or one of those beside it that says itself what is stricter.
pub(super) fn decide_beside(shipped: &Policy, own: &[Policy], call: &Call) -> Decision {
    let mut decision = decide_uncounted(shipped, call, Place::Kernel);
    for policy in own {
        let theirs = decide_uncounted(policy, call, Place::Kernel);
        // A denial by the kernel is one for what a rule of theirs demands.
        let is_said = decided_by_kernel(&theirs)
            || theirs
                .rules
                .iter()
                .any(|rule| is_own_word(rule.layer) && rule.action == theirs.effect);
        if is_said && theirs.effect > decision.effect {
            decision = theirs;
        }
    }
    decision
}

/// Whether a rule is one that somebody wrote into a policy file, as it stands or in TypeScript.
const fn is_own_word(layer: Layer) -> bool {
    matches!(layer, Layer::File | Layer::Extension)
}

/// A turn that is not over may still change the branch. What waits on the source ends with it; the target
/// would carry its calls on after what the merge brings.
fn check_at_rest(row: &BranchRow, state: &State, is_target: bool) -> Result<()> {
    let open = state.turn.is_some() || state.merge.is_some();
    if !open && (!is_target || state.open_calls.is_empty()) {
        return Ok(());
    }
    let what = format!("a turn of {} is not over", row.branch);
    Err(Error::new(codes::TURN_OPEN, what).with("branch", row.branch.as_str()))
}

fn nothing_to_merge(source: &BranchRow, target: &BranchRow) -> Error {
    let what = format!("{} has nothing that {} lacks", source.branch, target.branch);
    Error::new(codes::NOTHING_TO_MERGE, what)
        .fix("`glasshouse session show ID --branches` shows where branches parted")
}

fn refuse_conflicts(merging: &Merging) -> Result<()> {
    if merging.conflicts.is_empty() && merging.keys.is_empty() {
        return Ok(());
    }
    let keys = merging.keys.iter().map(|key| format!("{key}: both branches changed it"));
    let why = merging.conflicts.iter().map(ToString::to_string).chain(keys);
    Err(conflict_error(&merging.conflicts)
        .why(why.collect::<Vec<_>>().join("; "))
        .fix("take one branch's version with `--take source` or `--take target`, for all or for named paths")
        .with("keys", merging.keys.clone()))
}

/// What an approval binds to: both heads, and all that would come of them.
fn digest_of(source: Head, target: Head, planned: &Planned) -> Digest {
    let resolved = serde_json::to_vec(&planned.resolved).unwrap_or_default();
    Digest::of_parts(&[
        b"glasshouse/session-merge/1\0",
        source.hash.as_bytes(),
        target.hash.as_bytes(),
        &resolved,
    ])
}
