//! What a call left in the workspace: sealed, each changed path decided, kept or taken back.

use std::collections::BTreeMap;

use glasshouse_model::body::{
    BlobRef, CallStatus, PolicyDecided, TestEvidence, WorkspaceRolledBack, WorkspaceSealed,
};
use glasshouse_model::syscall::name;
use glasshouse_model::{Call, CanonicalPath, ChangeClass, Draft, Effect, Fault, Kind};
use glasshouse_sandbox::workspace::{Seal, SealManifest};
use glasshouse_tools::Arguments;

use super::{DISK_FULL, End, Execution, NO_EXIT_CODE, changed_path};
use crate::classify::is_lock_file;
use crate::driver::decide::{confined, masked};
use crate::driver::demands::decide_uncounted;
use crate::driver::start::put;
use crate::driver::workbench::{Workbench, Write, manifest_bytes};
use crate::driver::{TaskEnd, failed_call, failure, lock};
use crate::session::{WEB, refusal};
use crate::{Error, Result, codes};

/// Most paths that one call may change: more is no edit, and each is decided and stored.
const MAX_CHANGED_PATHS: usize = 50_000;
/// Most changed paths that an event names; the manifest has all of them.
const MAX_NAMED_PATHS: usize = 200;
/// Most allowed paths of one kind that get an event each; beyond it they share one.
const MAX_SINGLE_DECISIONS: usize = 64;

impl Execution {
    /// A call that may change files: acted, sealed, every changed path decided, kept or taken back.
    /// Whatever goes wrong after the act takes everything back: nothing stays that was not judged.
    pub(super) fn mutate(&self) -> Result<TaskEnd> {
        let mut bench = lock(&self.workbench);
        let ran;
        let acted = match self.act(&mut bench) {
            Ok(end) => {
                ran = end;
                Ok(&ran)
            }
            Err(error) => Err(error),
        };
        let did = acted.as_ref().ok().copied();
        let settled = match acted {
            // It ended somewhere in the middle: what it left is the work of no whole command.
            Err(error) if error.is(glasshouse_sandbox::codes::SANDBOX_LOST) => Err(error),
            acted => self.settle(&mut bench, acted),
        };
        settled.or_else(|error| {
            let before = bench.sealed()?.clone();
            bench.take_back(&error)?;
            let mut drafts = bench.take_events();
            drafts.push(self.taken_back(self.seal_blob(&before)?, error.code(), None));
            drafts.push(self.end_badly(failure(self.id, &Fault::from(error)), did));
            Ok(drafts)
        })
    }

    fn settle(&self, bench: &mut Workbench, acted: Result<&End>) -> Result<TaskEnd> {
        let before = bench.sealed()?.clone();
        if let Ok(end) = &acted
            && end.code.as_deref() == Some(DISK_FULL)
        {
            // What filled the disk is stored nowhere else.
            bench.empty()?;
            let mut drafts = bench.take_events();
            drafts.push(self.taken_back(self.seal_blob(&before)?, DISK_FULL, None));
            drafts.push(self.end(end));
            return Ok(drafts);
        }
        let mut seal = bench.seal()?;
        if seal.changed.len() > MAX_CHANGED_PATHS {
            return Err(Error::new(codes::CHANGE_DENIED, "one call changed too many paths")
                .why(format!("{} changed; the limit is {MAX_CHANGED_PATHS}", seal.changed.len())));
        }
        let writes = bench.writes(&before, &seal.manifest, &seal.changed)?;
        let (mut drafts, mut refused) = self.judge(&writes, bench.has_reached())?;
        seal = self.spare_lock_files(bench, &before, seal, &mut refused, &mut drafts)?;
        if let Some(refused_change) = refused.into_iter().next() {
            bench.rollback()?;
            drafts.extend(bench.take_events());
            drafts.extend(self.rolled_back(&before, refused_change, acted.ok())?);
            return Ok(drafts);
        }
        let told = bench.tell(&seal.manifest)?;
        let (tests_changed, sources_changed) = (told.tests_changed, told.sources_changed);
        let body = WorkspaceSealed {
            call: self.id,
            manifest: told.manifest.clone(),
            changed: seal.changed.iter().take(MAX_NAMED_PATHS).map(changed_path).collect(),
            changed_total: seal.changed.len() as u64,
            tests_changed,
            sources_changed,
        };
        drafts.push(Draft::new(Kind::WorkspaceSealed, &body));
        if matches!(self.arguments, Arguments::TestRun { .. })
            && let Ok(end) = &acted
            && end.status == CallStatus::Completed
        {
            let digests = bench.content_digests(&seal.manifest)?;
            let verdict = end.verdict.as_ref();
            let body = TestEvidence {
                call: self.id,
                passed: verdict.is_some_and(|verdict| verdict.passed),
                ran: verdict.is_some_and(|verdict| verdict.ran),
                exit_code: end.exit_code.unwrap_or(NO_EXIT_CODE),
                tests: digests.0,
                sources: digests.1,
                tests_changed,
                sources_changed,
                earlier_exit_code: end.earlier_exit_code,
                coverage: end.coverage.clone(),
            };
            drafts.push(Draft::new(Kind::TestEvidence, &body));
        }
        bench.accept(seal.manifest, Some(told))?;
        drafts.push(match acted {
            Ok(end) => self.end(end),
            Err(error) => failed_call(self.id, &Fault::from(error)),
        });
        Ok(drafts)
    }

    /// What a test run does to a lock file says nothing about the tests, and is no edit of the agent: it
    /// alone goes back, and the run counts.
    fn spare_lock_files(
        &self,
        bench: &mut Workbench,
        before: &SealManifest,
        seal: Seal,
        refused: &mut Vec<RefusedChange>,
        drafts: &mut Vec<Draft>,
    ) -> Result<Seal> {
        if !matches!(self.arguments, Arguments::TestRun { .. })
            || refused.is_empty()
            || !refused.iter().all(|change| is_lock_file(&change.at))
        {
            return Ok(seal);
        }
        let paths: Vec<_> = refused.iter().map(|change| change.at.clone()).collect();
        let seal = bench.put_back(before, seal, &paths)?;
        drafts.extend(bench.take_events());
        let to = self.seal_blob(&seal.manifest)?;
        let back = |change| self.taken_back(to.clone(), "lock_file_put_back", Some(change));
        drafts.extend(refused.drain(..).map(back));
        Ok(seal)
    }

    /// The event that changes of this call went back.
    fn taken_back(&self, to: Option<BlobRef>, code: &str, change: Option<RefusedChange>) -> Draft {
        let (path, rules) = change.map_or((None, Vec::new()), |c| (Some(c.path), c.rules));
        let code = code.to_owned();
        let body = WorkspaceRolledBack { call: Some(self.id), to, code, path, rules };
        Draft::new(Kind::WorkspaceRolledBack, &body)
    }

    fn seal_blob(&self, state: &SealManifest) -> Result<Option<BlobRef>> {
        if state.is_unchanged() {
            return Ok(None);
        }
        Ok(Some(put(&self.log, &manifest_bytes(state)?)?))
    }

    /// Decides every changed path as a write. The second part are the changes that may not stay.
    /// Many allowed paths of one kind are told by one event with the list beside it.
    fn judge(&self, writes: &[Write], reached: bool) -> Result<(Vec<Draft>, Vec<RefusedChange>)> {
        let mut drafts = Vec::new();
        let mut refused = Vec::new();
        let mut allowed: BTreeMap<(&str, ChangeClass), Vec<PolicyDecided>> = BTreeMap::new();
        for write in writes {
            // The file that the call itself names was decided on before it was written.
            if self.path.as_ref() == Some(&write.path) {
                continue;
            }
            let syscall = if write.gone { name::FS_DELETE } else { name::FS_WRITE };
            let mut call = Call::new(syscall, self.agent.clone()).at(write.path.clone());
            call.session = Some(self.session.clone());
            call.state = Some(self.state.clone());
            call.size_bytes = write.size_bytes;
            call.change = Some(write.class);
            call.labels.clone_from(&self.labels);
            if reached {
                call.labels.insert(WEB.to_owned());
            }
            let decision = decide_uncounted(&self.policy, &call, self.place());
            let decision = confined(decision, &call, self.confines.as_ref());
            let may_stay = decision.effect == Effect::Allow;
            if !may_stay {
                refused.push(RefusedChange {
                    at: write.path.clone(),
                    path: self.masker.mask_str(write.path.as_str()),
                    rules: decision.rules.iter().map(|rule| rule.name.clone()).collect(),
                    reasons: decision.why(),
                    needs_review: decision.effect == Effect::RequireReview,
                });
            }
            let subject = Some(write.path.to_string());
            let body = PolicyDecided::new(Some(self.id), call, subject, decision);
            let body = masked(&self.masker, body);
            if may_stay {
                allowed.entry((syscall, write.class)).or_default().push(body);
            } else if drafts.len() < MAX_NAMED_PATHS {
                drafts.push(Draft::new(Kind::PolicyDecided, &body));
            }
        }
        for bodies in allowed.into_values() {
            drafts.extend(self.told(bodies)?);
        }
        Ok((drafts, refused))
    }

    fn told(&self, bodies: Vec<PolicyDecided>) -> Result<Vec<Draft>> {
        if bodies.len() <= MAX_SINGLE_DECISIONS {
            return Ok(bodies.iter().map(|body| Draft::new(Kind::PolicyDecided, body)).collect());
        }
        let paths: Vec<_> = bodies.iter().filter_map(|body| body.subject.as_deref()).collect();
        let list = put(&self.log, paths.join("\n").as_bytes())?;
        let count = bodies.len();
        let Some(mut body) = bodies.into_iter().next() else { return Ok(Vec::new()) };
        body.input = None;
        body.subject = Some(format!("{count} paths, listed in {}", list.blob));
        Ok(vec![Draft::new(Kind::PolicyDecided, &body)])
    }

    fn rolled_back(
        &self,
        before: &SealManifest,
        change: RefusedChange,
        did: Option<&End>,
    ) -> Result<Vec<Draft>> {
        let to = self.seal_blob(before)?;
        let code = codes::CHANGE_DENIED.name;
        let text = if change.needs_review {
            format!(
                "rolled back: the command changed `{}`, which needs a review: {}. Change that file with fs.write, \
                 which asks for it.",
                change.path, change.reasons
            )
        } else {
            format!("rolled back: the command changed `{}`: {}", change.path, change.reasons)
        };
        let rolled = self.taken_back(to, code, Some(change));
        let refusal = refusal(self.id, CallStatus::Denied, code, text);
        Ok(vec![rolled, self.end_badly(refusal, did)])
    }
}

/// A change that may not stay.
struct RefusedChange {
    at: CanonicalPath,
    /// As it may be told.
    path: String,
    rules: Vec<String>,
    reasons: String,
    needs_review: bool,
}
