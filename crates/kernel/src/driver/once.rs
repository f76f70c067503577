//! One command in one sandbox, for a person: decided, recorded and sealed like a call of an agent.

mod merging;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use glasshouse_model::body::{
    ApprovalRequested, ApprovalResolved, ApprovalSubject, BlobRef, CallEnd, CallStatus,
    ChangedPath, Egress, GrantScope, PolicyDecided, SandboxEvent, ToolProposed, ToolStarted,
    WorkspaceFrozen, WorkspaceSealed,
};
use glasshouse_model::each_once;
use glasshouse_model::syscall::name;
use glasshouse_model::{
    Call, CallId, CanonicalPath, Constraints, Digest, Draft, Effect, Kind, Principal, Seq,
};
use glasshouse_policy::Policy;
use glasshouse_sandbox::toolchain::ToolMount;
use glasshouse_sandbox::workspace::{Hold, SealManifest, Workspace, freeze};
use glasshouse_sandbox::{
    CallList, Cancel, Command, Confined, Live, RunResult, SandboxSpec, Status, Stream,
    TemplateName, WritableMount,
};

use glasshouse_tools::sanitise::{Masker, Secret};

use super::decide::now_us;
use super::demands::{Place, check_isolation, decide_uncounted};
use super::execute::{changed_path, used_by};
use super::journal::Journal;
use super::mounts::{CACHE_TARGET, environment, permitted, read_only, tools_of};
use super::network::{Network, Running, allowed_by_hand, to_the_log};
use super::people::Reviewer;
use super::rules::project_texts;
use super::start::put;
use super::workbench::{Blobs, current_owner, marks};
use super::{Kernel, boxes, examined};
use crate::session::{USER, WEB};
use crate::{Error, Result, codes};

/// What to run.
#[derive(Debug, Clone)]
pub struct OneCommand {
    /// Command and arguments.
    pub argv: Vec<String>,
    /// Directory that is seen as the workspace; it is copied.
    pub workspace: Option<PathBuf>,
    /// Unpacked image whose programs the command uses, instead of the host's.
    pub root: Option<PathBuf>,
    /// System calls, instead of those of the template's profile.
    pub calls: Option<CallList>,
    /// Limits.
    pub template: TemplateName,
    /// Hosts that the command may reach, as [`AllowList`] reads them; needs a template with a network.
    ///
    /// [`AllowList`]: glasshouse_sandbox::egress::AllowList
    pub allow_hosts: Vec<String>,
    /// Longest run, in milliseconds; the template's when absent.
    pub timeout_ms: Option<u64>,
    /// Environment on top of the sandbox's.
    pub env: Vec<(String, String)>,
    /// Working directory inside the workspace.
    pub cwd: CanonicalPath,
    /// Whether the changes go into the directory afterwards.
    pub merge: bool,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct OneResult {
    /// How the command ended.
    pub run: RunResult,
    /// Isolation reached.
    pub isolation: String,
    /// What it changed in its copy.
    pub changes: Vec<ChangedPath>,
    /// What it reached and what it was refused; the log has more than the first thousand.
    pub connections: Vec<Egress>,
    /// Everything it wrote to stdout.
    pub stdout: BlobRef,
    /// Everything it wrote to stderr.
    pub stderr: BlobRef,
    /// Sockets, pipes and devices of the directory, which the copy does not have.
    pub left_out: Vec<CanonicalPath>,
    /// How many files went into the directory; `None` when no merge was asked for or the command did
    /// not end with status 0.
    pub merged: Option<u64>,
}

/// What the person at a command holds.
pub struct Hands<'a> {
    /// The command's input and its terminal, which nothing keeps.
    pub live: Live<'a>,
    /// Gets the command's output as it comes.
    pub sink: &'a mut dyn FnMut(Stream, &[u8]),
    /// Ends the command.
    pub cancel: &'a Cancel,
    /// Is asked about a merge that a rule wants looked at.
    pub reviewer: &'a dyn Reviewer,
}

/// Most output that is kept of each stream.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;

impl Kernel {
    /// Runs one command in a new sandbox.
    ///
    /// # Errors
    /// `policy_denied` by the policy of the directory's project, or the shipped one without a directory; its load
    /// errors; what the sandbox answers, what the merge answers; `approval_needed` and `approval_rejected` for a merge that nobody agreed to.
    pub fn run_once(&self, one: &OneCommand, hands: Hands<'_>) -> Result<OneResult> {
        let reviewer = hands.reviewer;
        let _naming = self.log.naming()?;
        if let Some(dir) = &one.workspace {
            self.grounds.check(&super::start::canonical_project(dir)?)?;
        }
        let record = Record::open(self, one)?;
        let call = record.propose(one)?;
        let demanded = self.decide_once(&record, call, one)?;
        let scratch = self.home.join("run").join(record.journal.branch.as_str());
        let _hold = Hold::take(&scratch)?;
        let ran = self.run_decided(&record, (call, &demanded), one, &scratch, hands);
        if let Err(error) = &ran {
            let report = error.report();
            let body = end(call, CallStatus::Failed, Some(report.code), None, 0);
            record.append(vec![Draft::new(Kind::ToolFailed, &body)])?;
        }
        let result = ran
            .and_then(|ran| self.seal_finished(&record, call, ran))
            .and_then(|ran| self.merge_finished(&record, (call, one), &scratch, ran, reviewer));
        // Nothing refers to the copy any more; its sealed contents are in the blobs.
        let _ = glasshouse_sandbox::remove_tree(&scratch);
        self.log.sign_head()?;
        result
    }

    fn decide_once(
        &self,
        record: &Record<'_>,
        id: CallId,
        one: &OneCommand,
    ) -> Result<Constraints> {
        let mut call = Call::new(name::SHELL_RUN, record.user.clone());
        call.argv = Some(one.argv.clone());
        call.session = Some(record.journal.session.clone());
        let decision = decide_uncounted(&record.policy, &call, Place::to_be_made(one.template));
        let effect = decision.effect;
        let reasons = decision.reasons.clone();
        let policy_version = decision.policy_version;
        let demanded = decision.constraints.clone();
        let subject = Some(one.argv.join(" "));
        let body = PolicyDecided::new(Some(id), call, subject, decision);
        let mut drafts = vec![Draft::new(Kind::PolicyDecided, &body)];
        if effect == Effect::Deny {
            let body = end(id, CallStatus::Denied, Some("policy_denied".to_owned()), None, 0);
            drafts.push(Draft::new(Kind::ToolDenied, &body));
            // The end of the call is behind its decision.
            let seq = record.append(drafts)?.saturating_sub(1);
            let why = each_once(&reasons);
            return Err(record.journal.denied(seq, "the command may not run", why));
        }
        let shown = one.argv.join(" ");
        let asked = (effect == Effect::RequireReview).then(|| ApprovalRequested {
            subject: ApprovalSubject::Call,
            call: Some(id),
            tool: name::SHELL_RUN.to_owned(),
            args_digest: Digest::of(shown.as_bytes()),
            shown,
            reasons,
            policy_version,
            base: Digest::ZERO,
            offer: None,
            merge: None,
        });
        record.append_asked(drafts, asked)?;
        Ok(demanded)
    }

    /// Runs the command; what it wrote is kept when this answers.
    fn run_decided(
        &self,
        record: &Record<'_>,
        (id, demanded): (CallId, &Constraints),
        one: &OneCommand,
        scratch: &Path,
        hands: Hands<'_>,
    ) -> Result<Ran> {
        let Hands { live, sink, cancel, .. } = hands;
        // The person sees the command's own output; what is kept is masked like any other.
        let masker = Arc::new(self.masker_with(&record.policy, given(&one.env))?);
        let network = record.network(self, &masker);
        let Bench { project, workspace, sandbox } =
            self.set_up(record, (id, demanded), one, (scratch, &network))?;
        let started = Instant::now();
        let isolation = sandbox.isolation();
        let mut command = Command::new(one.argv.clone());
        let most_ms = [one.timeout_ms, demanded.max_duration_ms].into_iter().flatten().min();
        command.timeout_ms = most_ms.unwrap_or(0);
        command.output_limit_bytes = MAX_OUTPUT_BYTES;
        command.env.clone_from(&one.env);
        command.cwd = one.cwd.clone();
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut tee = |stream: Stream, bytes: &[u8]| {
            match stream {
                Stream::Stdout => stdout.extend_from_slice(bytes),
                Stream::Stderr => stderr.extend_from_slice(bytes),
            }
            sink(stream, bytes);
        };
        let labels = BTreeSet::from([USER.to_owned()]);
        network.begin(Running {
            call: id,
            state: None,
            labels: labels.clone(),
            isolation: isolation.clone(),
        });
        let ran = sandbox.run_live(&command, live, &mut tee, cancel);
        let used = network.end();
        // However the command ended, the sandbox is over.
        let run = record.over(one, ran, sandbox.destroy())?;
        let result = OneResult {
            run,
            isolation,
            changes: Vec::new(),
            connections: used.connections,
            left_out: workspace.base().left_out.clone(),
            stdout: put(&self.log, &masker.mask(&stdout))?,
            stderr: put(&self.log, &masker.mask(&stderr))?,
            merged: None,
        };
        let duration_us = super::model::elapsed_us(started);
        let reached = used.reached;
        Ok(Ran { result, duration_us, reached, project, workspace, labels, masker })
    }

    /// Seals what the command left and records its end. What it did is told also where what it left
    /// cannot be sealed: nothing that a command makes keeps its output out of the log.
    fn seal_finished(&self, record: &Record<'_>, id: CallId, mut ran: Ran) -> Result<Sealed> {
        let result = &mut ran.result;
        let (status, kind) = ended_as(&result.run.status);
        let exit_code =
            if let Status::Exited(code) = &result.run.status { Some(*code) } else { None };
        let mut body = CallEnd {
            isolation: Some(result.isolation.clone()),
            output: Some(result.stdout.clone()),
            background_processes: result.run.background_processes,
            usage: Some(used_by(&result.run)),
            ..end(id, status, None, exit_code, ran.duration_us)
        };
        let told = |drafts: Vec<Draft>| -> Result<()> {
            let label = |draft: Draft| if ran.reached { draft.label(WEB) } else { draft };
            record.append(drafts.into_iter().map(label).collect()).map(|_| ())
        };
        let blobs = Blobs(self.log.clone());
        let workspace = &ran.workspace;
        let seal = workspace.seal(&blobs, &workspace.unchanged()).map_err(Error::from);
        let kept = seal.and_then(|seal| {
            let manifest = serde_json::to_vec(&seal.manifest)
                .map_err(|e| Error::new(codes::TURN_FAILED, "a seal cannot be written").why(e))?;
            Ok((put(&self.log, &manifest)?, seal))
        });
        let (manifest, seal) = match kept {
            Ok(kept) => kept,
            Err(error) => {
                (body.status, body.code) = (CallStatus::Failed, Some(error.code().to_owned()));
                told(vec![Draft::new(Kind::ToolFailed, &body)])?;
                return Err(error);
            }
        };
        result.changes = seal.changed.iter().map(changed_path).collect();
        let sealed = WorkspaceSealed {
            call: id,
            manifest,
            changed: result.changes.iter().take(200).cloned().collect(),
            changed_total: result.changes.len() as u64,
            tests_changed: false,
            sources_changed: !result.changes.is_empty(),
        };
        told(vec![Draft::new(Kind::WorkspaceSealed, &sealed), Draft::new(kind, &body)])?;
        if ran.reached {
            ran.labels.insert(WEB.to_owned());
        }
        Ok(Sealed { ran, manifest: seal.manifest })
    }

    /// Freezes the directory, makes the sandbox, records both and that the command starts.
    fn set_up(
        &self,
        record: &Record<'_>,
        (id, demanded): (CallId, &Constraints),
        one: &OneCommand,
        (scratch, network): (&Path, &Network),
    ) -> Result<Bench> {
        let backend = self.backend()?;
        let made =
            |e: std::io::Error| Error::new(codes::TURN_FAILED, "a directory cannot be made").why(e);
        let project = match &one.workspace {
            Some(dir) => {
                let dir = super::start::canonical_project(dir)?;
                self.keep_apart(&dir)?;
                dir
            }
            None => {
                let empty = scratch.join("empty");
                std::fs::create_dir_all(&empty).map_err(made)?;
                empty
            }
        };
        let (root, tools) = self.mounts(record, one, &project)?;
        let base = Arc::new(freeze(&project, &self.home.join("cache/bases"), current_owner())?);
        let head_commit = base.git.as_ref().and_then(|git| git.head.clone());
        let files = base.manifest.len() as u64;
        let frozen = WorkspaceFrozen { base: base.digest, files, head_commit };
        let workspace = Workspace::create(base, &scratch.join("layer"), marks())?;
        let cache = scratch.join("cache");
        std::fs::create_dir_all(&cache).map_err(made)?;
        let mut spec = SandboxSpec::new(record.journal.branch.as_str(), one.template.template());
        spec.overlay = Some(workspace.overlay_dirs());
        spec.root = root;
        spec.calls.clone_from(&one.calls);
        spec.mounts = tools.iter().map(read_only).collect();
        spec.caches = vec![WritableMount { source: cache, target: PathBuf::from(CACHE_TARGET) }];
        spec.env = environment(&tools);
        examined::tell(&self.machine, &*backend)?;
        let has_network = !one.allow_hosts.is_empty();
        if has_network {
            spec.env = network.environment(spec.env);
        }
        let egress = has_network.then(|| network.egress()).transpose()?;
        let sandbox = record.made(one, &frozen, backend.create(&spec, egress))?;
        let isolation = sandbox.isolation();
        if let Err(error) = check_isolation(demanded, &isolation) {
            drop(sandbox);
            record.append(vec![boxes::ended(&record.sandbox(one), None)])?;
            return Err(error);
        }
        let started = ToolStarted { call: id, isolation };
        record.append(vec![Draft::new(Kind::ToolStarted, &started)])?;
        Ok(Bench { project, workspace, sandbox })
    }

    /// The system that the command sees and the toolchains in it, each mount decided and recorded.
    fn mounts(
        &self,
        record: &Record<'_>,
        one: &OneCommand,
        project: &Path,
    ) -> Result<(Option<PathBuf>, Vec<ToolMount>)> {
        let Some(root) = &one.root else {
            let (tools, drafts) = permitted(&record.policy, self.log.tenant(), &tools_of(project));
            record.append_mounts(drafts)?;
            return Ok((None, tools));
        };
        // The host's toolchains do not fit an image's libraries.
        let root = super::start::canonical_project(root)?;
        self.keep_apart(&root)?;
        let image = ToolMount {
            name: "root".to_owned(),
            source: root.clone(),
            target: PathBuf::from("/"),
            env: BTreeMap::new(),
            path: Vec::new(),
        };
        let (allowed, drafts) = permitted(&record.policy, self.log.tenant(), &[image]);
        record.append(drafts)?;
        if allowed.is_empty() {
            let what = format!("`{}` may not be the system of a sandbox", root.display());
            return Err(Error::new(codes::POLICY_DENIED, what)
                .why("a rule denies mounting it; the data directory with the log and its keys never is")
                .fix("name the directory of an unpacked image"));
        }
        Ok((Some(root), Vec::new()))
    }
}

/// A command that ran, and the copy that it changed.
struct Ran {
    result: OneResult,
    duration_us: u64,
    /// Whether it reached the network.
    reached: bool,
    project: PathBuf,
    workspace: Workspace,
    /// Taint of what the command changed.
    labels: BTreeSet<String>,
    masker: Arc<Masker>,
}

/// The same once its changes are sealed.
struct Sealed {
    ran: Ran,
    manifest: SealManifest,
}

/// A copy of a directory and the sandbox on it.
struct Bench {
    project: PathBuf,
    workspace: Workspace,
    sandbox: Box<dyn Confined>,
}

const fn ended_as(status: &Status) -> (CallStatus, Kind) {
    match status {
        Status::TimedOut => (CallStatus::TimedOut, Kind::ToolTimedOut),
        Status::Cancelled => (CallStatus::Cancelled, Kind::ToolCancelled),
        Status::LimitExceeded(_) => (CallStatus::Failed, Kind::ToolFailed),
        Status::Exited(_) | Status::Signaled(_) => (CallStatus::Completed, Kind::ToolCompleted),
    }
}

/// The values of variables as secrets, as far as one can be masked: a value that is too short occurs in
/// ordinary text by chance.
fn given(env: &[(String, String)]) -> Vec<Secret> {
    env.iter().filter_map(|(name, value)| Secret::new(name, value.as_bytes()).ok()).collect()
}

fn end(
    call: CallId,
    status: CallStatus,
    code: Option<String>,
    exit_code: Option<i32>,
    duration_us: u64,
) -> CallEnd {
    CallEnd {
        call,
        status,
        code,
        exit_code,
        duration_us,
        isolation: None,
        output: None,
        text: String::new(),
        truncated: false,
        background_processes: 0,
        usage: None,
        withheld: None,
    }
}

/// The command's journal and the policy that decides it.
struct Record<'a> {
    journal: Journal<'a>,
    policy: Arc<Policy>,
    /// Who asked for it.
    user: Principal,
}

impl<'a> Record<'a> {
    fn open(kernel: &'a Kernel, one: &OneCommand) -> Result<Self> {
        // In a project by the project's policy, as whatever else is done there.
        let own = one.workspace.as_deref().map(|dir| kernel.project_policy(dir)).transpose()?;
        let mut texts = project_texts(own.flatten().as_ref());
        texts.extend(kernel.tenant_text());
        if !one.allow_hosts.is_empty() {
            texts.push(allowed_by_hand(&one.allow_hosts)?);
        }
        let policy = Arc::new(kernel.compile(&texts)?);
        Ok(Self { journal: Journal::open(kernel)?, policy, user: kernel.person() })
    }

    /// Records what mounts were decided; there may be none.
    fn append_mounts(&self, decided: Vec<Draft>) -> Result<()> {
        if decided.is_empty() { Ok(()) } else { self.append(decided).map(|_| ()) }
    }

    /// The sandbox as events name it.
    fn sandbox(&self, one: &OneCommand) -> SandboxEvent {
        SandboxEvent {
            sandbox: self.journal.branch.to_string(),
            template: one.template.as_str().to_owned(),
            isolation: None,
            code: None,
            attestation: None,
        }
    }

    /// Records that a sandbox is over; answers what ran in it.
    fn over<T>(
        &self,
        one: &OneCommand,
        ran: glasshouse_sandbox::Result<T>,
        ended: glasshouse_sandbox::Result<()>,
    ) -> Result<T> {
        let lost = ran.as_ref().is_err_and(|e| e.is(glasshouse_sandbox::codes::SANDBOX_LOST));
        self.append(vec![boxes::ended(&self.sandbox(one), lost.then_some(boxes::LOST))])?;
        let run = ran?;
        ended?;
        Ok(run)
    }

    /// Records what was frozen, and whether a sandbox was made on it.
    fn made(
        &self,
        one: &OneCommand,
        frozen: &WorkspaceFrozen,
        made: glasshouse_sandbox::Result<Box<dyn Confined>>,
    ) -> Result<Box<dyn Confined>> {
        let mut event = self.sandbox(one);
        let kind = match &made {
            Ok(sandbox) => {
                event.isolation = Some(sandbox.isolation());
                event.attestation = Some(sandbox.attested());
                Kind::SandboxCreated
            }
            Err(error) => {
                event.code = Some(error.code().to_owned());
                Kind::SandboxFailed
            }
        };
        let frozen = Draft::new(Kind::WorkspaceFrozen, frozen);
        self.append(vec![frozen, Draft::new(kind, &event)])?;
        Ok(made?)
    }

    fn append(&self, events: Vec<Draft>) -> Result<Seq> {
        self.journal.append(events)
    }

    fn network(&self, kernel: &Kernel, masker: &Arc<Masker>) -> Network {
        let (session, branch) = (self.journal.session.clone(), self.journal.branch.clone());
        Network::new(
            (Arc::clone(&self.policy), Arc::clone(masker), Arc::default()),
            (self.user.clone(), session.clone()),
            kernel.network.clone(),
            to_the_log(kernel.log.clone(), session, branch),
        )
    }

    /// Appends events and, where a person has to agree, the question and its answer: who asks for a
    /// command is who would be asked.
    fn append_asked(&self, mut events: Vec<Draft>, asked: Option<ApprovalRequested>) -> Result<()> {
        let Some(asked) = asked else { return self.append(events).map(|_| ()) };
        events.push(Draft::new(Kind::ApprovalRequested, &asked));
        let approval = self.append(events)?;
        let resolved = ApprovalResolved {
            approval,
            approved: true,
            approver: self.user.actor(),
            code: "asked_for".to_owned(),
            expires_us: now_us(),
            scope: GrantScope::Call,
        };
        self.append(vec![Draft::new(Kind::ApprovalResolved, &resolved)]).map(|_| ())
    }

    fn propose(&self, one: &OneCommand) -> Result<CallId> {
        // Of a variable the name: its value may be a secret.
        let env: Vec<&str> = one.env.iter().map(|(name, _)| name.as_str()).collect();
        let mut arguments = serde_json::json!({ "argv": one.argv, "cwd": one.cwd });
        if !env.is_empty() {
            arguments["env"] = env.into();
        }
        if let Some(timeout_ms) = one.timeout_ms {
            arguments["timeout_ms"] = timeout_ms.into();
        }
        if !one.allow_hosts.is_empty() {
            arguments["allow_hosts"] = one.allow_hosts.clone().into();
        }
        if let Some(root) = &one.root {
            arguments["root"] = root.display().to_string().into();
        }
        if let Some(calls) = &one.calls {
            arguments["calls"] = serde_json::json!({
                "base": calls.base(), "allow": calls.allowed(), "deny": calls.denied(),
            });
        }
        let arguments = arguments.to_string();
        let body = ToolProposed {
            id: "cli".to_owned(),
            tool: name::SHELL_RUN.to_owned(),
            arguments,
            masked: false,
        };
        let user = self.user.actor();
        Ok(CallId(self.append(vec![Draft::new(Kind::ToolProposed, &body).by(user)])?))
    }
}
