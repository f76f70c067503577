//! Accepting a policy: the file in the project and the record of who accepted it, in one order.

use std::fs::TryLockError;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use glasshouse_log::CellWrite;
use glasshouse_model::body::{
    ApprovalRequested, ApprovalResolved, ApprovalSubject, GrantScope, PolicyChange, PolicyDecided,
};
use glasshouse_model::syscall::name;
use glasshouse_model::{Call, Decision, Digest, Draft, Effect, Kind, Principal, PrincipalKind};
use glasshouse_policy::Consent;

use super::decide::now_us;
use super::journal::Journal;
use super::rules::{
    ACCEPTED_SPACE, Accepted, PROJECT_POLICY, PolicyText, ProjectPolicy, cell_key, project_policy,
};
use super::start::put;
use super::{Kernel, in_place};
use crate::{Error, Result, codes};

/// How long an acceptance waits for another one, and how long before it looks again.
const ACCEPTING_LIMIT: Duration = Duration::from_secs(5);
const AGAIN_AFTER: Duration = Duration::from_millis(10);

impl Kernel {
    /// Lets a project's policy take the place of the shipped one in new sessions. The caller has
    /// shown `policy.text` to `approver`, a person, and asked.
    ///
    /// # Errors
    /// `policy_denied` when the approver is no person; `policy_changed`; `policy_busy`; the policy's load errors; the log's errors.
    pub fn accept_policy(&self, policy: &ProjectPolicy, approver: &Principal) -> Result<()> {
        if approver.kind != PrincipalKind::User || approver.tenant != *self.log.tenant() {
            return Err(Error::new(codes::POLICY_DENIED, "this policy cannot be accepted")
                .why("only a person accepts a policy"));
        }
        let text = PolicyText::new(PROJECT_POLICY, policy.text.clone(), Consent::Joint);
        // Also what cannot stand beside the tenant's would let no session begin.
        self.compile(&self.tenant_text().into_iter().chain([text]).collect::<Vec<_>>())?;
        // From here to the event of acceptance there is one at a time, so the file in place is the one that was
        // accepted last, whoever else accepts one meanwhile.
        let _turn = self.accepting()?;
        check_unchanged(policy)?;
        let previous = self.accepted(&policy.project)?.map(|last| last.digest);
        let _naming = self.log.naming()?;
        let journal = Journal::open(self)?;
        let mut call = Call::new(name::POLICY_UPDATE, approver.clone());
        call.session = Some(journal.session.clone());
        call.args_digest = Some(policy.digest);
        let decision = self.decide_branching(None, &call)?;
        let change = PolicyChange {
            project: policy.project.display().to_string(),
            previous,
            text: put(&self.log, policy.text.as_bytes())?,
        };
        let subject = Some(change.project.clone());
        let decided = PolicyDecided::new(None, call, subject, decision.clone());
        let mut drafts = vec![
            Draft::new(Kind::PolicyProposed, &change).by(approver.actor()),
            Draft::new(Kind::PolicyDecided, &decided),
        ];
        if decision.effect == Effect::Deny {
            journal.append(drafts)?;
            return Err(Error::new(codes::POLICY_DENIED, "this policy cannot be accepted")
                .why(decision.why()));
        }
        let asked = question(policy, previous, decision);
        drafts.push(Draft::new(Kind::ApprovalRequested, &asked));
        let approval = journal.append(drafts)?;
        let resolved = ApprovalResolved {
            approval,
            approved: true,
            approver: approver.actor(),
            code: "approved".to_owned(),
            expires_us: now_us(),
            scope: GrantScope::Call,
        };
        let (space, key, bytes) = accepted_cell(&change.project, policy.digest)?;
        let cell = CellWrite { space, key, expected_version: None, bytes: Some(bytes) };
        let drafts = vec![
            Draft::new(Kind::ApprovalResolved, &resolved),
            Draft::new(Kind::PolicyUpdated, &change).by(approver.actor()),
        ];
        // A file that is there and not accepted yet opens nothing, so it comes before the acceptance.
        if policy.is_new {
            install(&policy.project, &policy.text)?;
        }
        journal.append_with(drafts, vec![cell])?;
        self.log.sign_head()?;
        Ok(())
    }

    /// The right to accept a policy: one has it at a time, in this process or in another one, until the file is closed.
    fn accepting(&self) -> Result<std::fs::File> {
        let fail = |e: std::io::Error| {
            Error::new(codes::TURN_FAILED, "the lock of acceptances cannot be taken").why(e)
        };
        let path = self.home.join("run/policy.lock");
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(path);
        let file = file.map_err(fail)?;
        let begin = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(e)) => return Err(fail(e)),
                Err(TryLockError::WouldBlock) if begin.elapsed() > ACCEPTING_LIMIT => {
                    return Err(Error::new(codes::POLICY_BUSY, "the policy was not accepted")
                        .why("somebody else is accepting one, for longer than that takes"));
                }
                // Whoever has it tells nobody when it ends.
                Err(TryLockError::WouldBlock) => in_place(|| std::thread::sleep(AGAIN_AFTER)),
            }
        }
    }
}

/// What a person was asked, who has the text in front of them.
fn question(
    policy: &ProjectPolicy,
    previous: Option<Digest>,
    decision: Decision,
) -> ApprovalRequested {
    ApprovalRequested {
        subject: ApprovalSubject::Policy,
        call: None,
        tool: name::POLICY_UPDATE.to_owned(),
        // The text itself is the blob that the proposal names; it may be larger than an event.
        shown: format!("the policy {} ({} bytes)", policy.digest, policy.text.len()),
        reasons: decision.reasons,
        args_digest: policy.digest,
        policy_version: decision.policy_version,
        base: previous.unwrap_or(Digest::ZERO),
        offer: None,
        merge: None,
    }
}

/// Refuses to accept a file that is another one by now: somebody else's may have been put there.
fn check_unchanged(policy: &ProjectPolicy) -> Result<()> {
    let now = project_policy(&policy.project)?.map(|now| now.digest);
    if policy.is_new || now == Some(policy.digest) {
        return Ok(());
    }
    Err(Error::new(codes::POLICY_CHANGED, format!("{PROJECT_POLICY} is not what was read"))
        .why("it was changed while it was being accepted")
        .fix("read it again with `glasshouse policy update`, and accept what is there now"))
}

/// Puts a policy into a project, whole or not at all.
fn install(project: &Path, text: &str) -> Result<()> {
    let fail = |why: String| {
        Error::new(codes::INPUT_UNREADABLE, format!("cannot write {PROJECT_POLICY}")).why(why)
    };
    let dir = project.join(PROJECT_POLICY).parent().map(Path::to_path_buf).unwrap_or_default();
    match std::fs::symlink_metadata(&dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            std::fs::create_dir(&dir).map_err(|e| fail(e.to_string()))?;
        }
        Err(e) => return Err(fail(e.to_string())),
        // A link would put it somewhere else.
        Ok(meta) if !meta.is_dir() => return Err(fail("its directory is none".to_owned())),
        Ok(_) => {}
    }
    let temporary = dir.join(format!(".policy.{}", u64::from_le_bytes(super::start::random()?)));
    let written = || -> std::io::Result<()> {
        use std::io::Write as _;
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, project.join(PROJECT_POLICY))?;
        std::fs::File::open(&dir)?.sync_all()
    };
    written().map_err(|e| {
        let _ = std::fs::remove_file(&temporary);
        fail(e.to_string())
    })
}

/// Space, key and bytes of the cell that says what was accepted for a project.
pub(super) fn accepted_cell(project: &str, digest: Digest) -> Result<(String, String, Vec<u8>)> {
    let accepted = Accepted { project: project.to_owned(), digest };
    let bytes = serde_json::to_vec(&accepted)
        .map_err(|e| Error::new(codes::TURN_FAILED, "an acceptance cannot be written").why(e))?;
    Ok((ACCEPTED_SPACE.to_owned(), cell_key(Path::new(project)), bytes))
}
