//! Grants as the log keeps them: given with an approval, counted with each use, taken back.
//!
//! A standing grant is a cell that is written with its `grant.issued`; its use counter is another cell,
//! written in the transaction of the act that uses it. A counter that changed in between refuses that
//! transaction, so what was taken back is not used once more.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use glasshouse_log::{CellWrite, Log};
use glasshouse_model::body::{
    GrantEnded, GrantIssued, GrantRule as Told, GrantScope, PolicyDecided, StandingTerms,
};
use glasshouse_model::{
    Actor, BranchId, Call, Digest, Draft, Event, Kind, Principal, PrincipalKind, Seq, SessionId,
};
use glasshouse_policy::{GrantId, GrantUse, REVOKED, Standing, UseCounters};
use glasshouse_sandbox::workspace::git::Git;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Kernel;
use super::decide::now_us;
use super::journal::Journal;
use super::rules::{carried_on, of_session};
use super::start::random;
use super::tried::test_setup_or_none;
use crate::session::CallPhase;
use crate::{Config, Error, Result, codes};

/// Cell space of the use counters of grants.
pub(super) const USES: &str = "grant_uses";
/// Cell space of the standing grants themselves.
pub(super) const GRANTS: &str = "grants";
/// Cells that are read at a time.
const PAGE: usize = 256;
/// How often a grant is taken back anew because it was used meanwhile.
const ATTEMPTS: usize = 100;

/// Content of a cell in [`GRANTS`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Kept {
    session: SessionId,
    branch: BranchId,
    issued_us: u64,
    terms: StandingTerms,
}

/// How a grant stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrantState {
    /// It can be used.
    Live,
    /// Its time is over.
    Expired,
    /// Its turn is over.
    TurnOver,
    /// Every use was made.
    UsedUp,
    /// It was taken back.
    Revoked,
    /// It was given under another policy than the one that decides there now.
    PolicyChanged,
    /// It was given for another repository than the one in that directory now.
    RepositoryChanged,
}

/// One grant, for lists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Grant")]
pub struct GrantRow {
    /// Its name.
    pub grant: GrantId,
    /// How it stands.
    pub state: GrantState,
    /// How far it reaches.
    pub scope: GrantScope,
    /// Which calls it is for, with examples; of an approval, what was approved.
    pub rule: Told,
    /// Uses so far.
    pub uses: u64,
    /// Most uses.
    pub max_uses: Option<u64>,
    /// First moment at which it is void, microseconds since 1970.
    pub expires_us: u64,
    /// Session in which it was given.
    pub session: SessionId,
    /// Branch in which it was given.
    pub branch: BranchId,
    /// Directory of the project, for the scope `workspace`.
    pub workspace: Option<String>,
    /// Who gave it.
    pub approver: Actor,
    /// When it was given, microseconds since 1970; 0 where only the event knows.
    pub issued_us: u64,
}

/// A new standing grant.
pub(super) struct NewGrant {
    pub(super) session: SessionId,
    pub(super) branch: BranchId,
    pub(super) terms: StandingTerms,
}

impl NewGrant {
    /// The event and the cell that make it.
    pub(super) fn issue(self) -> Result<(Draft, CellWrite)> {
        let id = GrantId::from_random(random()?);
        // Whatever cannot be used must not be given.
        Standing::new(id, self.terms.clone())?;
        let Self { session, branch, terms } = self;
        let operations = match &terms.rule.matching["syscall"] {
            serde_json::Value::String(one) => vec![one.clone()],
            many => many
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|name| name.as_str().map(str::to_owned))
                .collect(),
        };
        let body = GrantIssued {
            grant: id.to_string(),
            lifetime: "standing".to_owned(),
            holder: Actor { kind: PrincipalKind::Agent, id: "agent".to_owned() },
            operations,
            scope: terms.rule.matching.to_string(),
            max_uses: terms.max_uses,
            expires_us: Some(terms.expires_us),
            standing: Some(terms.clone()),
        };
        let draft = Draft::new(Kind::GrantIssued, &body).by(terms.approver.clone());
        let kept = Kept { session, branch, issued_us: now_us(), terms };
        let bytes = bytes_of(&kept)?;
        let cell = CellWrite {
            space: GRANTS.to_owned(),
            key: id.to_string(),
            expected_version: Some(0),
            bytes: Some(bytes),
        };
        Ok((draft, cell))
    }
}

/// Every standing grant of the log. One that cannot be read grants nothing.
pub(super) fn standing(log: &Log) -> Result<Vec<Standing>> {
    let kept = kept(log)?.into_iter();
    Ok(kept.filter_map(|(id, kept)| Standing::new(id, kept.terms).ok()).collect())
}

/// The cell of a grant as its event says; of the moment at which it was given the cell itself knows more.
pub(super) fn expected(
    log: &Log,
    event: &Event,
    grant: &str,
    terms: StandingTerms,
) -> Result<Vec<u8>> {
    let found = log.cell(GRANTS, grant)?;
    let (session, branch) = (event.header.session.clone(), event.header.branch.clone());
    let issued_us = event.header.time_us;
    let said = Kept { session, branch, issued_us, terms };
    if let Some(cell) = found
        && let Ok(kept) = serde_json::from_slice::<Kept>(&cell.bytes)
        && (Kept { issued_us, ..kept }) == said
    {
        return Ok(cell.bytes);
    }
    bytes_of(&said)
}

fn bytes_of(kept: &Kept) -> Result<Vec<u8>> {
    serde_json::to_vec(kept)
        .map_err(|e| Error::new(codes::TURN_FAILED, "a grant cannot be written").why(e))
}

fn kept(log: &Log) -> Result<Vec<(GrantId, Kept)>> {
    let mut found = Vec::new();
    let mut after = String::new();
    loop {
        let page = log.cells(GRANTS, &after, PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(found) };
        after.clone_from(last);
        found.extend(page.into_iter().filter_map(|(key, cell)| {
            Some((key.parse().ok()?, serde_json::from_slice(&cell.bytes).ok()?))
        }));
    }
}

/// The name of an approval as a grant: derived from where it was asked for, so that a replay and a
/// second process find the same counter.
pub(super) fn approval_grant(branch: &BranchId, approval: Seq) -> GrantId {
    let digest = Digest::of(format!("glasshouse/approval/{branch}/{approval}").as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&digest.as_bytes()[..16]);
    GrantId::from_random(id)
}

/// Use counters as the log keeps them, with the versions that were read.
pub(super) struct Counters<'a> {
    log: &'a Log,
    versions: RefCell<BTreeMap<GrantId, u64>>,
}

impl<'a> Counters<'a> {
    pub(super) fn new(log: &'a Log) -> Self {
        Self { log, versions: RefCell::default() }
    }

    /// The counter that must be stored together with the event of a use. If it is no longer what was
    /// read, that transaction is refused.
    pub(super) fn cell(&self, used: &GrantUse) -> CellWrite {
        let version = self.versions.borrow().get(&used.id).copied().unwrap_or(0);
        let (space, bytes) = use_counter(used.counter);
        let key = used.id.to_string();
        CellWrite { space, key, expected_version: Some(version), bytes: Some(bytes) }
    }
}

/// What the cell of a counter says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counted {
    uses: u64,
    ended: bool,
}

impl Counted {
    /// A cell that cannot be read is that of a grant that has ended.
    fn of(bytes: &[u8]) -> Self {
        let numbers: Vec<u64> =
            bytes.as_chunks().0.iter().map(|n| u64::from_be_bytes(*n)).collect();
        match (bytes.len(), numbers.as_slice()) {
            (8, [uses]) if *uses != REVOKED => Self { uses: *uses, ended: false },
            (16, [REVOKED, uses]) => Self { uses: *uses, ended: true },
            _ => Self { uses: 0, ended: true },
        }
    }
}

impl Counters<'_> {
    fn counted(&self, id: GrantId) -> Counted {
        match self.log.cell(USES, &id.to_string()) {
            Ok(None) => Counted { uses: 0, ended: false },
            Ok(Some(cell)) => {
                self.versions.borrow_mut().insert(id, cell.version);
                Counted::of(&cell.bytes)
            }
            Err(_) => Counted { uses: 0, ended: true },
        }
    }

    /// What ends a grant for good and keeps how often it was used; refused when it is used meanwhile.
    fn end(&self, id: GrantId) -> CellWrite {
        let uses = self.counted(id).uses;
        let version = self.versions.borrow().get(&id).copied().unwrap_or(0);
        let (space, bytes) = ended_counter(uses);
        let key = id.to_string();
        CellWrite { space, key, expected_version: Some(version), bytes: Some(bytes) }
    }

    /// The end of a grant whose time is over: no clock that goes back revives it.
    pub(super) fn expire(&self, id: GrantId) -> (Draft, CellWrite) {
        let reason = Some("its time is over".to_owned());
        let body = GrantEnded { grant: id.to_string(), reason };
        (Draft::new(Kind::GrantExpired, &body), self.end(id))
    }
}

impl UseCounters for Counters<'_> {
    fn stored(&self, id: GrantId) -> u64 {
        match self.counted(id) {
            Counted { ended: true, .. } => REVOKED,
            Counted { uses, .. } => uses,
        }
    }
}

/// Space and bytes of the cell of a grant that was used so often.
pub(super) fn use_counter(counter: u64) -> (String, Vec<u8>) {
    (USES.to_owned(), counter.to_be_bytes().to_vec())
}

/// The same of a grant that has ended after so many uses.
fn ended_counter(uses: u64) -> (String, Vec<u8>) {
    (USES.to_owned(), [REVOKED.to_be_bytes(), uses.to_be_bytes()].concat())
}

/// The cell of a grant that has ended, as its events say. Logs from before uses were kept say less, and are right.
pub(super) fn expected_end(log: &Log, grant: &str, uses: u64) -> Result<(String, Vec<u8>)> {
    let without_uses = use_counter(REVOKED);
    let found = log.cell(USES, grant)?;
    let is_old = found.is_some_and(|cell| cell.bytes == without_uses.1);
    Ok(if is_old { without_uses } else { ended_counter(uses) })
}

/// What tells the repository of a project from one that is made in its place: the file number of its `.git`, of the
/// directory itself where there is none, and when that was made. It is moved and its commits change, and it is the
/// same; copied, it is another.
pub(super) fn repository(project: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt as _;
    let git = Git::discover(project).ok()?;
    let git_dir = git.map_or_else(|| project.to_owned(), |git| git.work_tree().join(".git"));
    let git_dir = git_dir.symlink_metadata().ok()?;
    // Some file systems do not say when.
    let made = git_dir.created().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    Some(format!("{}-{}", git_dir.ino(), made.unwrap_or_default().as_nanos()))
}

fn is_of_another_repository(terms: &StandingTerms) -> bool {
    match (&terms.workspace, &terms.repository) {
        (Some(project), Some(given)) => repository(Path::new(project)).as_ref() != Some(given),
        _ => false,
    }
}

impl Kernel {
    /// Every grant that was given, the newest first: standing ones, and approvals that wait to be used.
    /// `config` is that of a session that would start in a project; where there is none, no session
    /// starts that could use a grant.
    ///
    /// # Errors
    /// What reading the log answers.
    pub fn grants(&self, config: impl Fn(&Path) -> Option<Config>) -> Result<Vec<GrantRow>> {
        let mut versions = BTreeMap::new();
        self.grant_rows(|terms| {
            let version = versions
                .entry((terms.branch.clone(), terms.workspace.clone()))
                .or_insert_with(|| self.version_for(terms, &config));
            *version == Some(terms.policy_version)
        })
    }

    /// The policy that decides where a grant can be used.
    fn version_for(
        &self,
        terms: &StandingTerms,
        config: impl Fn(&Path) -> Option<Config>,
    ) -> Option<Digest> {
        let policy = match (&terms.branch, &terms.workspace) {
            (Some(branch), _) => {
                let state = self.state_of(branch).ok()?;
                // One that rests decides as it will when it is carried on.
                let texts = match self.log.is_owned(branch).ok()? {
                    true => of_session(self, state.policy_in_force()),
                    false => carried_on(self, state.created.as_ref()?),
                };
                self.compile_to_look(&texts.ok()?)
            }
            (None, Some(project)) => {
                let project = Path::new(project);
                let test = test_setup_or_none(project, &config(project)?).ok()?;
                self.compile_to_look(&self.policy_texts(project, &test).ok()?)
            }
            (None, None) => return None,
        };
        policy.ok().map(|policy| policy.version())
    }

    fn grant_rows(
        &self,
        mut in_force: impl FnMut(&StandingTerms) -> bool,
    ) -> Result<Vec<GrantRow>> {
        let counters = Counters::new(&self.log);
        let mut rows = Vec::new();
        for (id, Kept { session, branch, issued_us, terms }) in kept(&self.log)? {
            let Counted { uses, ended } = counters.counted(id);
            let state = if now_us() >= terms.expires_us {
                // What ends a grant whose time is over writes the same counter.
                GrantState::Expired
            } else if ended {
                GrantState::Revoked
            } else if terms.max_uses.is_some_and(|most| uses >= most) {
                GrantState::UsedUp
            } else if self.turn_is_over(&terms)? {
                GrantState::TurnOver
            } else if is_of_another_repository(&terms) {
                GrantState::RepositoryChanged
            } else if in_force(&terms) {
                GrantState::Live
            } else {
                GrantState::PolicyChanged
            };
            rows.push(GrantRow {
                grant: id,
                state,
                scope: terms.scope,
                rule: terms.rule,
                uses,
                max_uses: terms.max_uses,
                expires_us: terms.expires_us,
                session,
                branch,
                workspace: terms.workspace,
                approver: terms.approver,
                issued_us,
            });
        }
        rows.extend(self.approvals_in_hand(&counters)?);
        rows.sort_by_key(|row| std::cmp::Reverse(row.issued_us));
        Ok(rows)
    }

    fn turn_is_over(&self, terms: &StandingTerms) -> Result<bool> {
        let (GrantScope::Turn, Some(branch)) = (terms.scope, &terms.branch) else {
            return Ok(false);
        };
        Ok(self.state_of(branch)?.turn != terms.turn)
    }

    /// One-use approvals whose call has not run.
    fn approvals_in_hand(&self, counters: &Counters<'_>) -> Result<Vec<GrantRow>> {
        let mut rows = Vec::new();
        for (session, branch, state) in self.branch_states()? {
            for call in &state.open_calls {
                let Some(CallPhase::Approved(approval)) = state.calls.get(call).map(|c| &c.phase)
                else {
                    continue;
                };
                let Some((request, resolved)) = state.granted.get(approval) else { continue };
                let id = approval_grant(&branch, *approval);
                let state = match counters.stored(id) {
                    REVOKED => GrantState::Revoked,
                    0 if now_us() >= resolved.expires_us => GrantState::Expired,
                    0 => GrantState::Live,
                    _ => GrantState::UsedUp,
                };
                let arguments = Told {
                    matching: serde_json::json!({ "call": call, "args_digest": request.args_digest }),
                    matches: vec![request.shown.clone()],
                    not_matches: Vec::new(),
                };
                rows.push(GrantRow {
                    grant: id,
                    state,
                    scope: GrantScope::Call,
                    rule: arguments,
                    uses: 0,
                    max_uses: Some(1),
                    expires_us: resolved.expires_us,
                    session: session.clone(),
                    branch: branch.clone(),
                    workspace: None,
                    approver: resolved.approver.clone(),
                    issued_us: 0,
                });
            }
        }
        Ok(rows)
    }

    /// The state of every branch that has a session of its own.
    pub(super) fn branch_states(
        &self,
    ) -> Result<Vec<(SessionId, BranchId, crate::session::State)>> {
        let mut states = Vec::new();
        for session in self.log.sessions()? {
            for row in self.log.branches(&session.session)? {
                // What cannot be folded can ask for nothing.
                let Ok(state) = self.state_of(&row.branch) else { continue };
                if state.created.is_some() {
                    states.push((session.session.clone(), row.branch, state));
                }
            }
        }
        Ok(states)
    }

    /// Takes a grant back, whoever holds it and wherever it is being used. Answers whether it was still
    /// there to be taken back.
    ///
    /// # Errors
    /// `grant_not_found`; `policy_denied` for whoever is no user; the log's errors.
    pub fn revoke_grant(&self, id: GrantId, by: &Principal, reason: Option<&str>) -> Result<bool> {
        let known = self.grant_rows(|_| true)?.into_iter().find(|row| row.grant == id);
        let known = known
            .ok_or_else(|| Error::new(codes::GRANT_NOT_FOUND, format!("there is no grant {id}")))?;
        let journal = Journal::open(self)?;
        let mut call = Call::new("grant.revoke", by.clone());
        call.session = Some(journal.session.clone());
        let decision = self.decide_branching(None, &call)?;
        let (allowed, why) = (decision.is_allowed(), decision.why());
        let decided = PolicyDecided::new(None, call, Some(id.to_string()), decision);
        let mut drafts = vec![Draft::new(Kind::PolicyDecided, &decided)];
        if !allowed {
            journal.append(drafts)?;
            return Err(Error::new(codes::POLICY_DENIED, "the grant was not taken back").why(why));
        }
        if known.state == GrantState::Revoked {
            journal.append(drafts)?;
            return Ok(false);
        }
        let ended = GrantEnded { grant: id.to_string(), reason: reason.map(str::to_owned) };
        drafts.push(Draft::new(Kind::GrantRevoked, &ended).by(by.actor()));
        let counters = Counters::new(&self.log);
        for attempt in 1.. {
            // A use that was made meanwhile counts.
            match journal.append_with(drafts.clone(), vec![counters.end(id)]) {
                Err(error)
                    if error.is(glasshouse_log::codes::CELL_CONFLICT) && attempt < ATTEMPTS => {}
                done => {
                    done?;
                    break;
                }
            }
        }
        self.log.sign_head()?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A grant that was taken back was told as never used: its counter was written over by the end. The end
    /// keeps it; cells of older logs have none, and what cannot be read gives no right.
    #[test]
    fn regression_the_end_of_a_grant_keeps_its_uses() {
        let check = |bytes: &[u8], uses: u64, ended: bool| {
            assert_eq!(Counted::of(bytes), Counted { uses, ended }, "{bytes:?}");
        };
        check(&use_counter(0).1, 0, false);
        check(&use_counter(7).1, 7, false);
        check(&use_counter(REVOKED).1, 0, true);
        check(&ended_counter(0).1, 0, true);
        check(&ended_counter(7).1, 7, true);
        check(b"", 0, true);
        check(&[0; 7], 0, true);
        check(&[0; 16], 0, true);
        check(&[0; 24], 0, true);
    }
}
