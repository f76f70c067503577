//! From a change set to a commit: proposed with its diff and the reasons for a review, applied to the
//! project, committed. Each step is recorded, and each can be taken up again after a crash.

use std::sync::Arc;

use glasshouse_model::body::{
    CommitCreated, MergeApplied, MergeFailed, MergeProposed, PolicyDecided,
};
use glasshouse_model::syscall::name;
use glasshouse_model::{
    Call, CallId, CanonicalPath, Decision, Draft, Effect, Fault, Kind, Layer, Mode, RuleTrace, Seq,
    State,
};
use glasshouse_policy::{Heard, Policy, Request};
use glasshouse_sandbox::workspace::{Change, ChangeSet, Content, Entry};

use super::decide::{masked, now_us};
use super::demands::{Place, decide_uncounted};
use super::grounds::may_lead_out;
use super::start::put;
use super::workbench::Workbench;
use super::{Session, failed_call, lock, operation_id};
use crate::classify::{Contents, runner_names};
use crate::merge::{
    self, Author, Authority, Binding, CommitRequest, Committed, Input, OperationDir,
};
use crate::session::debt::Work;
use crate::session::{review_reasons, turn_failed};
use crate::{Error, Result, codes};

/// First line of a commit when nobody gave a message.
const DEFAULT_SUBJECT: &str = "Change made by an agent";
/// What a trailer says of a change that came without a test that failed before it.
const VERIFIED: &str = "Glasshouse-Verified:";
/// Longest first line of a derived message, in characters.
const MAX_SUBJECT_CHARS: usize = 72;

/// Name and mail address on the agent's commits.
const AUTHOR: (&str, &str) = ("Glasshouse agent", "agent@glasshouse.invalid");

/// What policy says of a merge's paths.
struct Judged {
    drafts: Vec<Draft>,
    review: Vec<String>,
    denied: Option<Fault>,
}

/// What a merge would do to the project as it is now.
struct Computed {
    proposal: merge::Proposal,
    manifest: Vec<u8>,
    base: glasshouse_model::Digest,
    set: ChangeSet,
    /// Tests that were there before and lose lines.
    weakened: Vec<CanonicalPath>,
    /// Changed files that the test command, its make target or its npm scripts name.
    runners: Vec<CanonicalPath>,
}

fn compute(bench: &Workbench, commits: bool) -> Result<Computed> {
    let state = bench.sealed()?;
    let set = bench.workspace()?.change_set(state, bench.blobs())?;
    if set.changes.is_empty() {
        return Err(Error::new(codes::NOTHING_TO_MERGE, "there is nothing to commit"));
    }
    let input = Input { base: bench.base()?, set: &set, blobs: bench.blobs(), commits };
    let proposal = match merge::propose(bench.project()?, input)? {
        merge::Proposed::Clean(proposal) => proposal,
        merge::Proposed::Conflict(conflicts) => {
            return Err(merge::conflict_error(&conflicts));
        }
    };
    let manifest = serde_json::to_vec(state)
        .map_err(|e| Error::new(codes::TURN_FAILED, "a seal cannot be written").why(e))?;
    let weakened = weakened(bench, &set)?;
    let runners = runners(bench, &set)?;
    Ok(Computed { proposal, manifest, base: bench.base()?.digest, set, weakened, runners })
}

/// Changed files that take part in running the tests: emptied, they make everything pass.
fn runners(bench: &Workbench, set: &ChangeSet) -> Result<Vec<CanonicalPath>> {
    let base = bench.base()?;
    let text = |name: &str| -> Result<String> {
        match (base.manifest.get(name), CanonicalPath::parse(name)) {
            (Some(Entry::File { .. }), Ok(path)) => {
                Ok(String::from_utf8_lossy(&base.read(&path)?).into_owned())
            }
            _ => Ok(String::new()),
        }
    };
    let makefiles = ["GNUmakefile", "makefile", "Makefile"].map(text);
    let makefiles = makefiles.into_iter().collect::<Result<Vec<_>>>()?;
    let named = runner_names(&bench.test().argv, &makefiles.join("\n"), &text("package.json")?);
    let changed = set.changes.iter().flat_map(Change::paths);
    Ok(changed.filter(|path| named.contains(path.as_str())).cloned().collect())
}

/// Changed files whose tests are no longer all there. Deleted files are told of anyway.
fn weakened(bench: &Workbench, set: &ChangeSet) -> Result<Vec<CanonicalPath>> {
    let (before, after) = (bench.workspace()?.unchanged(), bench.sealed()?);
    let mut found = Vec::new();
    for change in set.changes.iter().filter(|change| change.old.is_some() && change.new.is_some()) {
        let from = change.paths().find(|path| **path != change.path).unwrap_or(&change.path);
        let (old, new) = (bench.bytes_in(&before, from)?, bench.bytes_in(after, &change.path)?);
        let contents = Contents { old: old.as_deref(), new: new.as_deref() };
        let classifier = bench.classifier();
        if [from, &change.path]
            .into_iter()
            .any(|path| classifier.weakens(path, change.lines_removed, &contents))
        {
            found.push(change.path.clone());
        }
    }
    Ok(found)
}

/// The change set as a unified diff; empty when nothing differs.
pub(super) fn patch(bench: &Workbench) -> Result<String> {
    let set = bench.workspace()?.change_set(bench.sealed()?, bench.blobs())?;
    if set.changes.is_empty() {
        return Ok(String::new());
    }
    Ok(compute(bench, false)?.proposal.patch)
}

impl Session {
    /// Puts the sealed changes up for merging. `call` is the `git.commit` call that asks, if any.
    pub(super) async fn propose_merge(&mut self, call: Option<(CallId, String)>) -> Result<()> {
        let workbench = Arc::clone(&self.workbench);
        let proposal = tokio::task::spawn_blocking(move || compute(&lock(&workbench), true)).await;
        let proposal = proposal
            .map_err(|e| Error::new(codes::TURN_FAILED, "computing the change set failed").why(e));
        let (id, message) = match call {
            Some((id, message)) => (Some(id), message),
            None => (None, self.default_message()),
        };
        match proposal.and_then(|inner| inner) {
            Ok(proposal) => self.record_proposal(id, message, proposal).await,
            Err(error) => {
                let fault = Fault::from(error);
                let drafts = match id {
                    Some(id) => vec![failed_call(id, &fault)],
                    None => turn_failed(self.state(), fault.code().name, &fault.to_string()),
                };
                self.recorder.record(drafts).await
            }
        }
    }

    fn default_message(&self) -> String {
        let plan = self.state().plan_summary.clone().unwrap_or_default();
        let first: String =
            plan.lines().next().unwrap_or_default().chars().take(MAX_SUBJECT_CHARS).collect();
        if first.trim().is_empty() { DEFAULT_SUBJECT.to_owned() } else { first }
    }

    /// A message that says so where the work was not done test-first. What it says of that itself is not
    /// the agent's to say.
    fn marked(&self, message: String) -> String {
        let verified = match self.state().work() {
            Work::Strict => return message,
            Work::Explored => "no",
            Work::Exempt => "exempt",
        };
        let claims = |line: &&str| {
            let start = line.trim_start().get(..VERIFIED.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(VERIFIED))
        };
        let lines: Vec<_> = message.lines().filter(|line| !claims(line)).collect();
        let text = lines.join("\n");
        let text = if text.trim().is_empty() { DEFAULT_SUBJECT } else { text.trim_end() };
        format!("{text}\n\n{VERIFIED} {verified}")
    }

    async fn record_proposal(
        &mut self,
        id: Option<CallId>,
        message: String,
        computed: Computed,
    ) -> Result<()> {
        let Computed { proposal, manifest, base, set, weakened, runners } = computed;
        let Judged { mut drafts, mut review, denied } = self.judge_merge(id, &set);
        let owed = self.would_owe()?;
        if let Some(fault) = denied.or(owed.refused) {
            drafts.extend(match id {
                Some(id) => vec![failed_call(id, &fault)],
                None => turn_failed(self.state(), fault.code().name, &fault.to_string()),
            });
            return self.recorder.record(drafts).await;
        }
        review.extend(owed.reason);
        review.extend(self.unmet_criteria(&proposal, &set, &weakened));
        review
            .extend(runners.iter().map(|path| format!("{path} is part of how the tests are run")));
        if self.masker.mask_str(&proposal.patch) != proposal.patch {
            review.push("it holds a secret, or what looks like an access token".to_owned());
        }

        let log = self.recorder.log();
        let body = MergeProposed {
            call: id,
            message: self.masker.mask_str(&self.marked(message)),
            base,
            patch: put(log, proposal.patch.as_bytes())?,
            manifest: put(log, &manifest)?,
            changes: set.changes.iter().map(super::execute::changed_path).collect(),
            lines_added: set.changes.iter().map(|change| change.lines_added).sum(),
            lines_removed: set.changes.iter().map(|change| change.lines_removed).sum(),
            binding: serde_json::to_value(&proposal.binding).unwrap_or_default(),
            review_reasons: review,
            policy_version: self.policy.version(),
            evidence: self.state().green().map(|record| record.seq),
        };
        drafts.push(Draft::new(Kind::MergeProposed, &body));
        self.recorder.record(drafts).await
    }

    /// Decides every path of the change set as a merge.
    fn judge_merge(&self, id: Option<CallId>, set: &ChangeSet) -> Judged {
        let mut judged = Judged { drafts: Vec::new(), review: Vec::new(), denied: None };
        for content in set.changes.iter().flat_map(Change::contents) {
            let path = content.path;
            let mut call = Call::new(name::MERGE_APPLY, self.agent()).at(path.clone());
            call.size_bytes = content.size_bytes;
            call.session = Some(self.id().clone());
            call.state = Some(self.state().workflow().to_string());
            call.labels = self.state().taint.of_path(path.as_str());
            let mut decision = decide_uncounted(&self.policy, &call, Place::Kernel);
            // It was allowed when it was written; what was told since counts as well.
            let change = as_change(&call, content);
            if let Some(denied) = denied_since(&self.policy, &change) {
                (call, decision) = (change, denied);
            }
            match decision.effect {
                Effect::Allow => {}
                Effect::RequireReview => {
                    let reasons = review_reasons(&decision);
                    judged.review.extend(reasons.iter().map(|reason| format!("{path}: {reason}")));
                }
                Effect::Deny => {
                    let fault =
                        Fault::new(codes::CHANGE_DENIED, format!("`{path}` may not be merged"));
                    judged.denied = Some(fault.why(decision.why()));
                }
            }
            let body = PolicyDecided::new(id, call, Some(path.to_string()), decision);
            let body = masked(&self.masker, body);
            judged.drafts.push(Draft::new(Kind::PolicyDecided, &body));
        }
        let leads_out = |change: &&Change| match &change.new {
            Some(Entry::Symlink { target }) => may_lead_out(&change.path, target),
            _ => false,
        };
        if lock(&self.workbench).keeps_links_inside()
            && let Some(change) = set.changes.iter().find(leads_out)
        {
            let what = format!("`{}` may not be merged", change.path);
            let why = "it is a link that may lead out of the project, which a tenant's may not";
            judged.denied = Some(Fault::new(codes::CHANGE_DENIED, what).why(why));
        }
        judged
    }

    /// Why the change set is not merged without a person: tests pass on exactly this content, none of
    /// them lost a line, nothing is deleted, it is small, and all of it can be read in the diff and leads nowhere else.
    fn unmet_criteria(
        &self,
        proposal: &merge::Proposal,
        set: &ChangeSet,
        weakened: &[CanonicalPath],
    ) -> Vec<String> {
        let mut unmet = Vec::new();
        if self.is_imported {
            unmet.push("the session was imported".to_owned());
        }
        if self.state().mode() != Mode::Strict {
            unmet.push("it was explored: no test was seen failing before the change".to_owned());
        } else if let Some(exemption) = &self.state().exemption {
            let category = exemption.category;
            unmet.push(format!("it was exempt from tests first, as {category}"));
        }
        if self.state().green().is_none() {
            unmet.push("the tests were not seen passing on exactly this content".to_owned());
        }
        let earlier = self.state().green().and_then(|record| record.evidence.earlier_exit_code);
        if let Some(code) = earlier.filter(|code| *code != 0) {
            unmet.push(format!(
                "the tests as they were before do not pass on the new sources (exit {code})"
            ));
        }
        if !proposal.deletions.is_empty() {
            let paths: Vec<_> = proposal.deletions.iter().map(ToString::to_string).collect();
            unmet.push(format!("deletes {}", paths.join(", ")));
        }
        for path in weakened {
            unmet.push(format!("{path} loses lines of a test that was there"));
        }
        for change in &set.changes {
            if matches!(change.new, Some(Entry::Symlink { .. })) {
                unmet.push(format!("{} is a link", change.path));
            } else if change.binary {
                unmet.push(format!("{} has no lines to read", change.path));
            }
        }
        let limit = self.state().created.as_ref().map_or(0, |created| created.max_auto_merge_lines);
        let lines = proposal.lines_changed;
        if lines > limit {
            unmet.push(format!("{lines} lines change; {limit} are merged without a person"));
        }
        unmet
    }

    /// Writes the approved change set into the project.
    pub(super) async fn apply_merge(&mut self, merge: Seq) -> Result<()> {
        let Some(record) = self.state().merge.clone() else { return Ok(()) };
        let reviewed = !record.proposed.review_reasons.is_empty();
        let workbench = Arc::clone(&self.workbench);
        let result = tokio::task::spawn_blocking(move || {
            let bench = lock(&workbench);
            let set = bench.workspace()?.change_set(bench.sealed()?, bench.blobs())?;
            let input =
                Input { base: bench.base()?, set: &set, blobs: bench.blobs(), commits: true };
            let binding: Binding =
                serde_json::from_value(record.proposed.binding).map_err(|e| {
                    Error::new(codes::LOG_UNREADABLE, "the merge's binding cannot be read").why(e)
                })?;
            let authority = if reviewed {
                Authority::Reviewed { binding: &binding, deletions: true }
            } else {
                Authority::Automatic
            };
            let operation = OperationDir::new(&bench.operations(), &operation_id(merge))?;
            match merge::apply(bench.project()?, input, authority, &operation)? {
                merge::Outcome::Applied(applied) => {
                    Ok((applied.written.len() + applied.deleted.len()) as u64)
                }
                merge::Outcome::Conflict(conflicts) => Err(merge::conflict_error(&conflicts)),
            }
        })
        .await
        .map_err(|e| Error::new(codes::TURN_FAILED, "the merge broke down").why(e))
        .and_then(|inner| inner);
        let drafts = match result {
            Ok(files) => vec![Draft::new(Kind::MergeApplied, &MergeApplied { merge, files })],
            Err(error) => self.merge_failed(merge, &error),
        };
        self.recorder.record(drafts).await
    }

    /// Commits what was merged.
    pub(super) async fn commit(&mut self, merge: Seq) -> Result<()> {
        let Some(record) = self.state().merge.clone() else { return Ok(()) };
        let message = record.proposed.message.clone();
        let subject = message.lines().next().unwrap_or_default().to_owned();
        let workbench = Arc::clone(&self.workbench);
        let result = tokio::task::spawn_blocking(move || {
            let bench = lock(&workbench);
            let operation = OperationDir::new(&bench.operations(), &operation_id(merge))?;
            let author = Author { name: AUTHOR.0.to_owned(), email: AUTHOR.1.to_owned() };
            let time_s = now_us() / 1_000_000;
            let request =
                CommitRequest { operation: &operation, message: &message, author: &author, time_s };
            match merge::commit(bench.project()?, request)? {
                Committed::Commit { id, .. } => Ok((Some(id), false)),
                Committed::NothingToCommit => Ok((None, true)),
                Committed::NoRepository => Ok((None, false)),
            }
        })
        .await
        .map_err(|e| Error::new(codes::TURN_FAILED, "the commit broke down").why(e))
        .and_then(|inner| inner);
        let drafts = match result {
            Ok((commit, was_there)) => {
                let body = CommitCreated { merge, commit, was_there, subject };
                return self.record_commit(body).await;
            }
            Err(error) => self.merge_failed(merge, &error),
        };
        self.recorder.record(drafts).await
    }

    /// A merge that could not even be undone is not over: the turn ends, and when the session is
    /// resumed the merge is taken up where it stopped.
    fn merge_failed(&self, merge: Seq, error: &Error) -> Vec<Draft> {
        if error.is(codes::MERGE_INCOMPLETE) {
            return turn_failed(self.state(), error.code(), &error.to_string());
        }
        let body = MergeFailed { merge, code: error.code().to_owned(), message: error.to_string() };
        vec![Draft::new(Kind::MergeFailed, &body)]
    }
}

/// The change of a file that the merge of a path comes to.
pub(super) fn as_change(merge: &Call, content: Content<'_>) -> Call {
    let syscall = if content.is_gone { name::FS_DELETE } else { name::FS_WRITE };
    Call { syscall: syscall.into(), ..merge.clone() }
}

/// What a rule of a file says itself of the change of a file, if one does. That no rule allows it is not said by any, a
/// demand of one that allows was kept when it was written, and programs were asked then.
pub(super) fn said_of_change(policy: &Policy, change: &Call) -> Option<Decision> {
    let silent = Heard::default();
    let request = Request { extension: Some(&silent), ..Request::new(change, now_us()) };
    let decision = glasshouse_policy::decide(policy, &request).decision;
    let is_said = |rule: &RuleTrace| {
        policy.rules().any(|written| {
            let is_same = written.name == rule.name && written.source == rule.source.as_deref();
            is_same && rule.layer == Layer::File && written.action == decision.effect
        })
    };
    decision.rules.iter().any(is_said).then_some(decision)
}

/// The denial of what an agent wrote before and would merge now, where a rule says it in every state: which one the
/// workflow was in when the file was written does not count.
fn denied_since(policy: &Policy, change: &Call) -> Option<Decision> {
    let said =
        |change: &Call| said_of_change(policy, change).filter(|it| it.effect == Effect::Deny);
    let denied = said(change)?;
    let mut others =
        State::ALL.iter().map(|state| Call { state: Some(state.to_string()), ..change.clone() });
    others.all(|other| said(&other).is_some()).then_some(denied)
}
