//! The workspace of a branch and the live sandbox around it.
//!
//! Blocking; the driver calls it on threads of their own, one mutating call at a time.

mod files;
mod upkeep;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use glasshouse_log::Log;
use glasshouse_model::body::{BlobRef, SandboxEvent, SessionCreated, TestSetup, WorkspaceFrozen};
use glasshouse_model::{BranchId, CanonicalPath, ChangeClass, Digest, Draft, Kind, Seq};
use glasshouse_policy::Policy;
use glasshouse_sandbox::toolchain::ToolMount;
use glasshouse_sandbox::view::View;
use glasshouse_sandbox::workspace::{
    self, BlobStore, Change, ChangeKind, Entry, FrozenBase, Hold, Marks, Owner, Seal, SealManifest,
    Workspace, freeze, recall,
};
use glasshouse_sandbox::{
    Backend, Cancel, Command, Confined, RunResult, SandboxSpec, Stream, TemplateName, WritableMount,
};

pub(super) use self::files::content;
use super::grounds::Grounds;
use super::mounts::{CACHE_TARGET, environment, permitted, read_only, tools_of};
use super::network::{Network, Running};
use super::start::put;
use super::{Kernel, boxes, examined};
use crate::classify::{Classifier, Contents};
use crate::{Error, Result, codes};

/// The branch's cache, and the one that only validating test runs see.
const CACHE: &str = "cache";
const CLEAN_CACHE: &str = "cache-clean";
/// What the names of layers start with.
const LAYER: &str = "layer-";
/// Where merges keep their operation logs.
const MERGES: &str = "merges";

/// What an event tells of a sealed state.
#[derive(Clone)]
pub(super) struct Told {
    pub(super) manifest: BlobRef,
    /// Whether tests, and whether sources, differ from the base.
    pub(super) tests_changed: bool,
    pub(super) sources_changed: bool,
}

/// What a sandbox for validation finds in its cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NewCache {
    /// Nothing.
    Empty,
    /// What the validation before it left.
    Kept,
}

/// What freezing found.
pub(super) struct Frozen {
    pub(super) base: Digest,
    pub(super) files: u64,
    pub(super) head_commit: Option<String>,
}

/// One changed path.
pub(super) struct Write {
    pub(super) path: CanonicalPath,
    pub(super) class: ChangeClass,
    /// Whether nothing is there any more.
    pub(super) gone: bool,
    pub(super) size_bytes: Option<u64>,
}

/// A branch's files and where commands run on them.
pub(super) struct Workbench {
    backend: Arc<dyn Backend>,
    /// Which cache the next sandbox gets.
    cache: &'static str,
    blobs: Blobs,
    /// Says what was found when this machine was examined.
    machine: Log,
    project: PathBuf,
    grounds: Grounds,
    dir: PathBuf,
    bases: PathBuf,
    name: String,
    test: TestSetup,
    classifier: Classifier,
    /// Toolchains that the project needs and this user has.
    tools: Vec<ToolMount>,
    policy: Arc<Policy>,
    network: Network,
    /// What the next sandbox is made from.
    template: TemplateName,
    /// Whether a command reached the network since the driver last asked.
    reached: bool,
    open: Option<Open>,
    /// Events that happened since the driver last took them.
    events: Vec<Draft>,
    /// Keeps other processes from sweeping `dir`.
    _hold: Hold,
}

struct Open {
    workspace: Workspace,
    sealed: SealManifest,
    /// What an event told of `sealed`, if one did.
    told: Option<Told>,
    live: Option<Live>,
}

struct Live {
    sandbox: Arc<Box<dyn Confined>>,
    view: Arc<View>,
}

/// The log's blobs as the workspace's store.
#[derive(Clone)]
pub(super) struct Blobs(pub(super) Log);

impl BlobStore for Blobs {
    fn put(&self, bytes: &[u8]) -> glasshouse_sandbox::Result<Digest> {
        self.0.put_blob(bytes).map_err(|error| glasshouse_model::Fault::from(error).into())
    }

    fn get(&self, digest: &Digest) -> glasshouse_sandbox::Result<Vec<u8>> {
        self.0.blob(digest).map_err(|error| glasshouse_model::Fault::from(error).into())
    }
}

/// The state that a recorded manifest says.
pub(super) fn read_seal(bytes: &[u8]) -> Result<SealManifest> {
    serde_json::from_slice(bytes)
        .map_err(|e| Error::new(codes::LOG_UNREADABLE, "a seal cannot be read").why(e))
}

impl Workbench {
    /// A bench for a branch; nothing is frozen or started yet.
    pub(super) fn new(
        kernel: &Kernel,
        branch: &BranchId,
        created: &SessionCreated,
        policy: Arc<Policy>,
        network: Network,
    ) -> Result<Self> {
        let project = PathBuf::from(&created.project);
        kernel.grounds.check(&project)?;
        let dir = kernel.home.join("run").join(branch.as_str());
        Ok(Self {
            _hold: Hold::take(&dir)?,
            backend: kernel.backend()?,
            cache: CACHE,
            blobs: Blobs(kernel.log.clone()),
            machine: kernel.machine.clone(),
            tools: tools_of(&project),
            policy,
            network,
            template: TemplateName::CodeExecutor,
            reached: false,
            classifier: Classifier::new(&created.test.test_globs)?,
            project,
            grounds: kernel.grounds.clone(),
            dir,
            bases: kernel.home.join("cache").join("bases"),
            name: branch.as_str().to_owned(),
            test: created.test.clone(),
            open: None,
            events: Vec::new(),
        })
    }

    /// Copies the project into the cache and puts an empty layer above it.
    pub(super) fn freeze(&mut self, seq: Seq) -> Result<Frozen> {
        self.end_live(None);
        self.open = None;
        self.forget_work();
        let base = Arc::new(freeze(self.project()?, &self.bases, self.owner())?);
        let frozen = Frozen {
            base: base.digest,
            files: base.manifest.len() as u64,
            head_commit: base.git.as_ref().and_then(|git| git.head.clone()),
        };
        let dir = self.layer_dir(seq);
        let workspace = Workspace::create(base, &dir, marks())?;
        let sealed = workspace.unchanged();
        self.open = Some(Open { workspace, sealed, told: None, live: None });
        Ok(frozen)
    }

    /// Opens the layer of an earlier process and takes it back to its last seal. True when there was
    /// something to take back. A branch that was forked has no layer yet: its files are made from the
    /// frozen base and the seal.
    pub(super) fn reopen(
        &mut self,
        seq: Seq,
        frozen: &WorkspaceFrozen,
        manifest: Option<&[u8]>,
    ) -> Result<bool> {
        let dir = self.layer_dir(seq);
        let workspace = if dir.exists() {
            Workspace::open(&dir)?
        } else {
            let head = frozen.head_commit.clone();
            let base = recall(self.project()?, &self.bases, self.owner(), &frozen.base, head)?;
            Workspace::create(Arc::new(base), &dir, marks())?
        };
        if workspace.base().digest != frozen.base {
            return Err(Error::new(codes::LOG_UNREADABLE, "the workspace belongs to another base"));
        }
        let sealed = match manifest {
            None => workspace.unchanged(),
            Some(bytes) => read_seal(bytes)?,
        };
        // What cannot even be sealed goes as well.
        let found = workspace.seal(&self.blobs, &sealed);
        let differs = found.map_or(true, |found| !found.changed.is_empty());
        if differs {
            workspace.rollback(&sealed, &self.blobs)?;
        }
        self.open = Some(Open { workspace, sealed, told: None, live: None });
        Ok(differs)
    }

    fn layer_dir(&self, seq: Seq) -> PathBuf {
        self.dir.join(format!("{LAYER}{seq}"))
    }

    fn owner(&self) -> Owner {
        current_owner()
    }

    /// The project directory, for one use.
    ///
    /// # Errors
    /// As [`Grounds::check`]: it may lead elsewhere by now.
    pub(super) fn project(&self) -> Result<&Path> {
        self.grounds.check(&self.project)?;
        Ok(&self.project)
    }

    /// Whether a link that is merged may lead nowhere but into the project.
    pub(super) fn keeps_links_inside(&self) -> bool {
        self.grounds.are_fenced()
    }

    /// Where merges keep their operation logs.
    pub(super) fn operations(&self) -> PathBuf {
        self.dir.join(MERGES)
    }

    fn opened(&self) -> Result<&Open> {
        self.open
            .as_ref()
            .ok_or_else(|| Error::new(codes::TURN_FAILED, "the workspace is not frozen yet"))
    }

    fn opened_mut(&mut self) -> Result<&mut Open> {
        self.open
            .as_mut()
            .ok_or_else(|| Error::new(codes::TURN_FAILED, "the workspace is not frozen yet"))
    }

    /// The frozen base.
    pub(super) fn base(&self) -> Result<&Arc<FrozenBase>> {
        Ok(self.opened()?.workspace.base())
    }

    /// The last sealed state.
    pub(super) fn sealed(&self) -> Result<&SealManifest> {
        Ok(&self.opened()?.sealed)
    }

    /// The workspace.
    pub(super) fn workspace(&self) -> Result<&Workspace> {
        Ok(&self.opened()?.workspace)
    }

    /// The blob store.
    pub(super) fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    /// Events since the last call, for instance that a sandbox was made.
    pub(super) fn take_events(&mut self) -> Vec<Draft> {
        std::mem::take(&mut self.events)
    }

    /// How the sandbox isolates, for `tool.started`.
    pub(super) fn isolation(&mut self) -> Result<String> {
        Ok(self.live()?.sandbox.isolation())
    }

    /// What the sandbox sees.
    pub(super) fn view(&mut self) -> Result<&View> {
        Ok(&self.live()?.view)
    }

    /// The same, to be used without the lock.
    pub(super) fn shared_view(&mut self) -> Result<Arc<View>> {
        Ok(Arc::clone(&self.live()?.view))
    }

    fn live(&mut self) -> Result<&Live> {
        if self.opened()?.live.is_none() {
            let live = self.start()?;
            self.opened_mut()?.live = Some(live);
        }
        self.opened()?
            .live
            .as_ref()
            .ok_or_else(|| Error::new(codes::TURN_FAILED, "the sandbox did not start"))
    }

    fn start(&mut self) -> Result<Live> {
        let template = self.template.template();
        let has_network = template.network == glasshouse_sandbox::Network::Restricted;
        let mut spec = SandboxSpec::new(self.name.clone(), template);
        let cache = self.dir.join(self.cache);
        std::fs::create_dir_all(&cache).map_err(|e| {
            Error::new(codes::TURN_FAILED, "the cache directory cannot be made").why(e)
        })?;
        spec.overlay = Some(self.opened()?.workspace.overlay_dirs());
        let (tools, decided) = permitted(&self.policy, self.blobs.0.tenant(), &self.tools);
        self.events.extend(decided);
        spec.mounts = tools.iter().map(read_only).collect();
        spec.caches = vec![WritableMount { source: cache, target: PathBuf::from(CACHE_TARGET) }];
        spec.env = environment(&tools);
        if has_network {
            spec.env = self.network.environment(spec.env);
        }
        let mut event = self.named();
        examined::tell(&self.machine, &*self.backend)?;
        let egress = has_network.then(|| self.network.egress()).transpose()?;
        match self.backend.create(&spec, egress) {
            Ok(sandbox) => {
                event.isolation = Some(sandbox.isolation());
                event.attestation = Some(sandbox.attested());
                self.events.push(Draft::new(Kind::SandboxCreated, &event));
                let root = sandbox.root().try_clone_to_owned().map_err(|e| {
                    Error::new(codes::TURN_FAILED, "the workspace cannot be opened").why(e)
                })?;
                Ok(Live { view: Arc::new(View::new(root)?), sandbox: Arc::new(sandbox) })
            }
            Err(error) => {
                event.code = Some(error.code().to_owned());
                self.events.push(Draft::new(Kind::SandboxFailed, &event));
                Err(error.into())
            }
        }
    }

    /// What a seal changed, as writes: of a rename two, one for each path.
    pub(super) fn writes(
        &self,
        before: &SealManifest,
        after: &SealManifest,
        changed: &[Change],
    ) -> Result<Vec<Write>> {
        let mut writes = Vec::with_capacity(changed.len());
        for change in changed {
            for path in change.paths() {
                let moved_away = *path != change.path;
                let renamed_here = !moved_away && matches!(change.kind, ChangeKind::Renamed { .. });
                let old = if renamed_here { None } else { self.bytes_in(before, path)? };
                let new = if moved_away { None } else { self.bytes_in(after, path)? };
                let contents = Contents { old: old.as_deref(), new: new.as_deref() };
                let gone = moved_away || change.new.is_none();
                let size_bytes = match &change.new {
                    Some(Entry::File { size_bytes, .. }) if !gone => Some(*size_bytes),
                    _ => None,
                };
                let class = self.classifier.classify(path, change.ignored, &contents);
                writes.push(Write { path: path.clone(), class, gone, size_bytes });
            }
        }
        Ok(writes)
    }

    pub(super) const fn classifier(&self) -> &Classifier {
        &self.classifier
    }

    pub(super) fn bytes_in(
        &self,
        state: &SealManifest,
        path: &CanonicalPath,
    ) -> Result<Option<Vec<u8>>> {
        // Only Rust sources are classified by content; nothing else needs its bytes.
        if !Classifier::needs_content(path) {
            return Ok(None);
        }
        let base = self.base()?;
        if !state.entries.contains_key(path) && !state.removed.contains(path) {
            return match base.manifest.get(path.as_str()) {
                Some(Entry::File { .. }) => Ok(Some(base.read(path)?)),
                _ => Ok(None),
            };
        }
        let digest = state.entries.get(path).and_then(Entry::file_digest);
        Ok(digest.map(|digest| self.blobs.get(digest)).transpose()?)
    }

    /// What an event is to tell of a state. Most commands change nothing: then it was told before.
    pub(super) fn tell(&self, state: &SealManifest) -> Result<Told> {
        let open = self.opened()?;
        if let Some(told) = open.told.as_ref().filter(|_| *state == open.sealed) {
            return Ok(told.clone());
        }
        let (tests_changed, sources_changed) = self.differs(state)?;
        let manifest = put(&self.blobs.0, &manifest_bytes(state)?)?;
        Ok(Told { manifest, tests_changed, sources_changed })
    }

    /// Whether tests and whether sources differ from the base in a state.
    fn differs(&self, state: &SealManifest) -> Result<(bool, bool)> {
        let unchanged = self.workspace()?.unchanged();
        let changes = self.workspace()?.changes(&unchanged, state, &self.blobs)?;
        let writes = self.writes(&unchanged, state, &changes)?;
        let any =
            |classes: &[ChangeClass]| writes.iter().any(|write| classes.contains(&write.class));
        let tests = any(&[ChangeClass::Test, ChangeClass::Mixed]);
        Ok((tests, any(&[ChangeClass::Source, ChangeClass::Mixed])))
    }

    /// Every file of the sealed state.
    pub(super) fn whole(&self) -> Result<workspace::Manifest> {
        Ok(self.sealed()?.whole(&self.base()?.manifest))
    }

    /// Digests over the test files and over all other files of a state.
    pub(super) fn content_digests(&self, state: &SealManifest) -> Result<(Digest, Digest)> {
        let whole = state.whole(&self.base()?.manifest);
        let pick = |tests: bool| -> workspace::Manifest {
            whole
                .iter()
                .filter(|(path, _)| self.classifier.is_test_path(path) == tests)
                .map(|(path, entry)| (path.clone(), entry.clone()))
                .collect()
        };
        Ok((pick(true).digest(), pick(false).digest()))
    }

    /// Runs a command in the live sandbox; its connections are those of `running`.
    pub(super) fn run(
        &mut self,
        running: Running,
        command: &Command,
        sink: &mut dyn FnMut(Stream, &[u8]),
        cancel: &Cancel,
    ) -> Result<RunResult> {
        let sandbox = Arc::clone(&self.live()?.sandbox);
        self.network.begin(running);
        let ran = sandbox.run_live(command, glasshouse_sandbox::Live::default(), sink, cancel);
        self.reached |= self.network.end().reached;
        Ok(ran?)
    }

    /// Whether a command reached the network since the driver last asked for it.
    pub(super) const fn has_reached(&self) -> bool {
        self.reached
    }

    /// The same; from here on none has.
    pub(super) fn take_reached(&mut self) -> bool {
        std::mem::take(&mut self.reached)
    }

    /// Makes programs run in a sandbox of this template from now on, on the files as they are.
    pub(super) fn use_template(&mut self, template: TemplateName) {
        if self.template != template {
            self.end_live(None);
            self.template = template;
        }
    }

    /// Records the present state against the last sealed one.
    pub(super) fn seal(&mut self) -> Result<Seal> {
        let open = self.opened()?;
        let seal = open.workspace.seal(&self.blobs, &open.sealed)?;
        if seal.gave_back {
            // The mount goes on without the rights; the next one has them.
            self.end_live(None);
        }
        Ok(seal)
    }

    /// Makes a state the last sealed one; `told` is what an event tells of it, if one does.
    pub(super) fn accept(&mut self, manifest: SealManifest, told: Option<Told>) -> Result<()> {
        let open = self.opened_mut()?;
        (open.sealed, open.told) = (manifest, told);
        Ok(())
    }

    /// The sealed state with every test file as it was before; `None` when there was none or none was
    /// touched.
    pub(super) fn with_earlier_tests(&self) -> Result<Option<SealManifest>> {
        let is_test = |path: &CanonicalPath| self.classifier.is_test_path(path);
        if !self.base()?.manifest.iter().any(|(path, _)| is_test(path)) {
            return Ok(None);
        }
        let mut earlier = self.sealed()?.clone();
        earlier.entries.retain(|path, _| !is_test(path));
        earlier.removed.retain(|path| !is_test(path));
        Ok((earlier != *self.sealed()?).then_some(earlier))
    }

    /// Makes what the tests prove what would be merged: exactly the sealed content in a new sandbox,
    /// without ignored files, with plain modes, and with a cache that no earlier command could prepare.
    pub(super) fn start_anew(&mut self, new_cache: NewCache) -> Result<()> {
        let sealed = self.sealed()?.clone();
        let paths: Vec<_> = sealed.entries.keys().cloned().collect();
        let ignored = self.base()?.ignored(paths.iter())?;
        let mut kept = sealed;
        kept.entries.retain(|path, _| !ignored.contains(path));
        self.accept(kept, None)?;
        self.rollback()?;
        let cache = self.dir.join(CLEAN_CACHE);
        if new_cache == NewCache::Empty && cache.exists() {
            glasshouse_sandbox::remove_tree(&cache).map_err(|e| {
                Error::new(codes::TURN_FAILED, "the cache cannot be emptied").why(e)
            })?;
        }
        self.cache = CLEAN_CACHE;
        Ok(())
    }

    /// After a fault: the files as they were sealed, and a sandbox host that is alive.
    pub(super) fn take_back(&mut self, error: &Error) -> Result<()> {
        if error.is(glasshouse_sandbox::codes::SANDBOX_LOST) {
            self.end_live(Some(boxes::LOST));
            self.backend = self.backend.again()?;
        }
        self.rollback()
    }

    /// Ends the sandbox and takes the files back to the last sealed state.
    pub(super) fn rollback(&mut self) -> Result<()> {
        let open = self
            .open
            .as_mut()
            .ok_or_else(|| Error::new(codes::TURN_FAILED, "nothing to roll back"))?;
        let was_live = open.live.take().map(end).is_some();
        let rolled_back = open.workspace.rollback(&open.sealed, &self.blobs);
        if was_live {
            self.cache = CACHE;
            self.say_destroyed(None);
        }
        Ok(rolled_back?)
    }

    /// Ends the sandbox, if one lives; the files stay. `code` says why, where nobody wanted it.
    pub(super) fn end_live(&mut self, code: Option<&str>) {
        if let Some(live) = self.open.as_mut().and_then(|open| open.live.take()) {
            end(live);
            self.say_destroyed(code);
        }
    }

    fn say_destroyed(&mut self, code: Option<&str>) {
        self.events.push(boxes::ended(&self.named(), code));
    }

    /// The sandbox as events name it.
    fn named(&self) -> SandboxEvent {
        SandboxEvent {
            sandbox: self.name.clone(),
            template: self.template.as_str().to_owned(),
            isolation: None,
            code: None,
            attestation: None,
        }
    }

    /// How the project tests itself.
    pub(super) fn test(&self) -> &TestSetup {
        &self.test
    }
}

/// Ends a sandbox that nobody else holds: mutating calls run one at a time.
fn end(live: Live) {
    drop(live.view);
    if let Some(sandbox) = Arc::into_inner(live.sandbox) {
        // A sandbox that is gone already needs no end.
        let _ = sandbox.destroy();
    }
}

/// A state as it is stored.
pub(super) fn manifest_bytes(state: &SealManifest) -> Result<Vec<u8>> {
    serde_json::to_vec(state)
        .map_err(|e| Error::new(codes::TURN_FAILED, "a seal cannot be written").why(e))
}

/// Where the overlay keeps its marks: the native backend mounts with the rights of whoever runs it.
pub(super) fn marks() -> Marks {
    if rustix::process::geteuid().is_root() { Marks::Trusted } else { Marks::User }
}

/// Whoever runs Glasshouse owns the files of a workspace; inside they belong to the agent.
pub(super) fn current_owner() -> Owner {
    Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
}
