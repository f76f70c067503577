//! The owner's side of the host process: start it, order sandboxes, clean up after dead ones.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use glasshouse_ipc::{Channel, handshake};
use glasshouse_model::CanonicalPath;

use crate::egress::{Egress, EgressProxy};
use crate::sandbox::Sandbox;
use crate::spec::{SandboxSpec, WORKSPACE};
use crate::template::Network;
use crate::wire::{Failure, FromHost, FromInit, Order, PROTOCOL, SERVICE, ToHost};
use crate::workspace::beneath::Root;
use crate::{Attestation, Error, Level, OverlayDirs, Result, codes, host, leftovers, tree};

/// How long creating may take: milliseconds as a rule, more on an overloaded machine.
const CREATE_LIMIT: Duration = Duration::from_secs(20);

/// How long the host process may take to end its sandboxes before it is killed; killing it ends
/// them as well.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Most directories that wait to be removed aside.
const MAX_CLEANINGS: usize = 256;

/// Where and as what the host process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostConfig {
    /// Absolute path of the program that enters [`host::main`] when its first argument is
    /// [`host::ARGUMENT`]. Given by the builder of the process, never by its environment.
    pub program: PathBuf,
    /// `$GLASSHOUSE_HOME`; `run/` below it is used and made if missing.
    pub home: PathBuf,
}

/// The process that makes sandboxes. Sandboxes keep it alive; when the last of them and this
/// value are gone it ends, and if the owner dies it ends everything.
#[derive(Debug)]
pub struct SandboxHost {
    link: Arc<Link>,
    config: HostConfig,
}

#[derive(Debug)]
pub(crate) struct Link {
    channel: Mutex<Option<Channel>>,
    child: Mutex<Child>,
    run_dir: PathBuf,
    /// What an examination found, for all sandboxes to come.
    examined: Mutex<Option<Level>>,
    cleaner: SyncSender<PathBuf>,
    tickets: AtomicU64,
}

impl SandboxHost {
    /// Removes what dead host processes left, then starts one.
    ///
    /// # Errors
    /// `sandbox_spec_invalid` for a relative program path, `isolation_unavailable`,
    /// `sandbox_system`, `sandbox_lost`.
    pub fn start(config: HostConfig) -> Result<Self> {
        if !config.program.is_absolute() {
            return Err(Error::new(codes::SPEC_INVALID, "the host program's path is relative"));
        }
        let run_dir = prepare_run_dir(&config)?;
        let swept = leftovers::sweep(&run_dir, false);
        swept.map_err(|error| system("remove what a dead host process left", &error))?;
        let lost = |error: glasshouse_ipc::Error| {
            Error::new(codes::SANDBOX_LOST, "the host process did not start")
                .why(error)
                .with("program", config.program.display().to_string())
        };
        let (mut ours, theirs) = Channel::pair().map_err(lost)?;
        let child = std::process::Command::new(&config.program)
            .arg(host::ARGUMENT)
            .env_clear()
            .current_dir("/")
            // Ctrl-C at a terminal reaches the terminal's whole process group. What it means is the
            // owner's to decide: the host ends when the owner's socket closes, and not before.
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                system("start the host process", &error)
                    .with("program", config.program.display().to_string())
            })?;
        handshake::ask(&mut ours, SERVICE, PROTOCOL).map_err(lost)?;
        ours.send(&ToHost::Start { run_dir: run_dir.clone() }, &[]).map_err(lost)?;
        match ours.receive_within(CREATE_LIMIT).map_err(lost)?.message {
            FromHost::Failed(failure) => return Err(explain(&failure)),
            FromHost::Done | FromHost::Created => {}
        }
        let link = Link {
            channel: Mutex::new(Some(ours)),
            child: Mutex::new(child),
            run_dir,
            examined: Mutex::new(None),
            cleaner: start_cleaner(),
            tickets: AtomicU64::new(0),
        };
        Ok(Self { link: Arc::new(link), config })
    }

    /// What it was started with.
    pub(crate) const fn config(&self) -> &HostConfig {
        &self.config
    }

    /// Makes a sandbox and waits until it is confined.
    ///
    /// # Errors
    /// `sandbox_spec_invalid`, `sandbox_mount_refused`, `isolation_unavailable` (a layer that may
    /// not be missing is), `sandbox_lost`, `sandbox_system`. Nothing is left behind.
    pub fn create(&self, spec: &SandboxSpec) -> Result<Sandbox> {
        self.make(spec, None)
    }

    /// Makes a sandbox whose commands reach what a gate lets through, by a proxy that ends with it.
    ///
    /// # Errors
    /// Those of [`SandboxHost::create`]; `sandbox_spec_invalid` for a template without network;
    /// `egress_invalid`.
    pub fn create_with_egress(&self, spec: &SandboxSpec, egress: Egress) -> Result<Sandbox> {
        if spec.template.network != Network::Restricted {
            return Err(Error::new(codes::SPEC_INVALID, "the sandbox cannot have a proxy")
                .why("its template has no network"));
        }
        self.make(spec, Some(egress))
    }

    fn make(&self, spec: &SandboxSpec, egress: Option<Egress>) -> Result<Sandbox> {
        spec.check()?;
        let prepare = |dirs| prepare_layers(dirs, spec);
        let (overlay, old) = match spec.overlay.clone().map(prepare).transpose()? {
            Some((layers, old)) => (Some(layers), old),
            None => (None, Vec::new()),
        };
        for path in old {
            // What finds no place in the queue is named again by the next mount of these layers.
            let _ = self.link.cleaner.try_send(path);
        }
        make_cache_points(spec)?;
        let ticket = self.link.tickets.fetch_add(1, Ordering::Relaxed);
        let order = Order {
            ticket,
            id: spec.id.clone(),
            template: spec.template.clone(),
            root: spec.root.clone(),
            calls: spec.calls.clone(),
            overlay,
            mounts: spec.mounts.clone(),
            caches: spec.caches.clone(),
            proxied: egress.is_some(),
        };
        let (ours, theirs) = Channel::pair().map_err(|error| lost(&error))?;
        let theirs = OwnedFd::from(theirs);
        let answer = self
            .link
            .ask(&ToHost::Create(Box::new(order)), &[std::os::fd::AsFd::as_fd(&theirs)])?;
        drop(theirs);
        let pidfd = match answer {
            (FromHost::Created, Some(pidfd)) => pidfd,
            (FromHost::Failed(failure), _) => return Err(explain(&failure)),
            _ => return Err(Error::new(codes::SANDBOX_LOST, "the host process answered nonsense")),
        };
        // From here the half-made sandbox is ended by dropping it.
        let mut half = Half { link: Arc::clone(&self.link), ticket, pidfd, channel: ours };
        let ready =
            half.channel.receive_within::<FromInit>(CREATE_LIMIT).map_err(|error| lost(&error))?;
        let mut given = ready.descriptors.into_iter();
        let nonsense = || Error::new(codes::SANDBOX_LOST, "the sandbox answered nonsense");
        match (ready.message, given.next()) {
            (FromInit::Ready(attestation), Some(root)) => {
                let attestation = judge(Attestation { examined: self.examined(), ..*attestation })?;
                let proxy = egress
                    .map(|egress| EgressProxy::start(given.next().ok_or_else(nonsense)?, egress))
                    .transpose()?;
                Ok(Sandbox::new(half, root, attestation, spec, proxy))
            }
            (FromInit::Failed(failure), _) => Err(explain(&failure)),
            _ => Err(nonsense()),
        }
    }

    /// Tells what an examination of this machine found: no sandbox made from now on claims more, and
    /// where an attack succeeded none is made.
    pub fn set_examined(&self, level: Option<Level>) {
        *guard(&self.link.examined) = level;
    }

    fn examined(&self) -> Option<Level> {
        *guard(&self.link.examined)
    }

    /// Removes what dead host processes left below `home`; with `dry_run` only names it.
    /// Live host processes and their sandboxes are not touched.
    ///
    /// # Errors
    /// `sandbox_system` when the run directory cannot be read.
    pub fn gc(home: &Path, dry_run: bool) -> Result<Vec<PathBuf>> {
        leftovers::sweep(&home.join("run"), dry_run)
            .map_err(|error| system("remove what a dead host process left", &error))
    }

    /// Removes the empty groups of dead host processes whose home is gone, wherever this process may;
    /// with `dry_run` only names them. Nothing is killed.
    #[must_use]
    pub fn gc_groups(dry_run: bool) -> Vec<PathBuf> {
        leftovers::sweep_unrecorded(dry_run)
    }

    /// Number of the host process, for diagnosis.
    #[must_use]
    pub fn pid(&self) -> u32 {
        guard(&self.link.child).id()
    }
}

/// A started sandbox that is not yet known to be confined; ended when dropped.
#[derive(Debug)]
pub(crate) struct Half {
    pub(crate) link: Arc<Link>,
    ticket: u64,
    pub(crate) pidfd: OwnedFd,
    pub(crate) channel: Channel,
}

impl Drop for Half {
    fn drop(&mut self) {
        // The error was reported by the explicit end, or there is nobody to report to; the host
        // process also notices the end by itself.
        let _ = self.end();
    }
}

impl Half {
    /// Kills the sandbox and has it collected. Idempotent.
    pub(crate) fn end(&self) -> Result<()> {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL);
        match self.link.ask(&ToHost::Reap { ticket: self.ticket }, &[])? {
            (FromHost::Done, _) => Ok(()),
            (FromHost::Failed(failure), _) => Err(explain(&failure)),
            (FromHost::Created, _) => {
                Err(Error::new(codes::SANDBOX_LOST, "the host process answered nonsense"))
            }
        }
    }
}

impl Link {
    fn ask(
        &self,
        message: &ToHost,
        descriptors: &[std::os::fd::BorrowedFd<'_>],
    ) -> Result<(FromHost, Option<OwnedFd>)> {
        let mut channel = guard(&self.channel);
        let Some(open) = channel.as_mut() else {
            return Err(Error::new(codes::SANDBOX_LOST, "the host process is gone"));
        };
        let answer = open
            .send(message, descriptors)
            .and_then(|()| open.receive_within::<FromHost>(CREATE_LIMIT));
        match answer {
            Ok(mut received) => Ok((received.message, received.descriptors.pop())),
            Err(error) => {
                // A late answer would be taken for the next one's: the link is of no use any more.
                *channel = None;
                Err(lost(&error))
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        guard(&self.channel).take();
        let mut child = guard(&self.child);
        let started = Instant::now();
        while matches!(child.try_wait(), Ok(None)) {
            if started.elapsed() > END_LIMIT {
                let _ = child.kill();
                let _ = child.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // After a clean end there is nothing; after a kill this removes the groups.
        let _ = leftovers::sweep(&self.run_dir, false);
    }
}

fn prepare_run_dir(config: &HostConfig) -> Result<PathBuf> {
    let run_dir = config.home.join("run");
    let failed = |error: std::io::Error| no_run_dir(&run_dir, &error);
    fs::create_dir_all(&run_dir).map_err(failed)?;
    let found = run_dir.canonicalize().map_err(failed)?;
    fs::set_permissions(&found, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    Ok(found)
}

/// A directory that cannot be made is another matter than a resource that is used up.
fn no_run_dir(run_dir: &Path, error: &std::io::Error) -> Error {
    use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    let action = format!("prepare the run directory {}", run_dir.display());
    match error.kind() {
        NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem => Error::new(
            codes::WORKSPACE_IO,
            format!("cannot {action}"),
        )
        .why(error)
        .fix("make it a directory that you can write to, or set GLASSHOUSE_HOME to one of your own")
        .with("path", run_dir.display().to_string()),
        _ => system(&action, error),
    }
}

/// Layers are Glasshouse's own directories, so links on the way to them are the user's choice.
///
/// Each mount gets a fresh directory inside `work`: the overlay would first remove what the last
/// one left, and removing directories takes some file systems milliseconds. The old ones are
/// returned, to be removed aside.
fn prepare_layers(dirs: OverlayDirs, spec: &SandboxSpec) -> Result<(OverlayDirs, Vec<PathBuf>)> {
    static MOUNTS: AtomicU64 = AtomicU64::new(0);
    let bad = |path: &Path, error: std::io::Error| {
        Error::new(codes::SPEC_INVALID, format!("no workspace layer at {}", path.display()))
            .why(error)
    };
    let canonical = |path: PathBuf| path.canonicalize().map_err(|error| bad(&path, error));
    let work = canonical(dirs.work)?;
    let old = fs::read_dir(&work).map_err(|error| bad(&work, error))?;
    let old = old.flatten().map(|entry| entry.path()).collect();
    let mount = MOUNTS.fetch_add(1, Ordering::Relaxed);
    let fresh = work.join(format!("{}-{}-{mount}", spec.id, std::process::id()));
    fs::create_dir(&fresh).map_err(|error| bad(&fresh, error))?;
    let mut lowers: Vec<_> = dirs.lowers.into_iter().map(canonical).collect::<Result<_>>()?;
    let points = fresh.with_extension("points");
    if make_mount_points(&points, spec).map_err(|error| bad(&points, error))? {
        lowers.push(points);
    }
    let layers = OverlayDirs { lowers, upper: canonical(dirs.upper)?, work: fresh };
    Ok((layers, old))
}

/// Makes an empty layer with a place for every mount inside the workspace; false when there is none.
///
/// At the bottom of the overlay such a place is there before anything is mounted on it. Made through
/// the overlay it would lie in the layer of changes, as an edit that nobody made, and root could not
/// make it there at all: through mounts whose owner is shifted, root is nobody.
fn make_mount_points(layer: &Path, spec: &SandboxSpec) -> std::io::Result<bool> {
    let mounts = spec.mounts.iter().map(|mount| (&mount.source, &mount.target));
    let caches = spec.caches.iter().map(|mount| (&mount.source, &mount.target));
    let mut any = false;
    for (source, target) in mounts.chain(caches) {
        let Ok(below) = target.strip_prefix(WORKSPACE) else { continue };
        any = true;
        // What is not there is refused where it is mounted.
        let is_file = source.symlink_metadata().is_ok_and(|found| found.is_file());
        let place = layer.join(below);
        make_open_directory(layer, if is_file { place.parent().unwrap_or(layer) } else { &place })?;
        if is_file {
            fs::File::create(&place)?;
        }
    }
    Ok(any)
}

/// Makes the place of each mount inside a cache, which root could not make there either. Commands write
/// to caches, so no link on the way is followed.
fn make_cache_points(spec: &SandboxSpec) -> Result<()> {
    for (cache, mount) in spec.caches.iter().flat_map(|c| spec.mounts.iter().map(move |m| (c, m))) {
        let Ok(below) = mount.target.strip_prefix(&cache.target) else { continue };
        let what = || format!("cannot mount at {}", mount.target.display());
        let refused = |why: Error| Error::new(codes::MOUNT_REFUSED, what()).why(why);
        // What holds a name in the place is the place itself.
        let name = below.join("name");
        let name = name.to_str().and_then(|text| CanonicalPath::parse(text).ok());
        let name = name.ok_or_else(|| Error::new(codes::SPEC_INVALID, what()))?;
        let cache = Root::open(&cache.source).map_err(refused)?;
        cache.make_holder(&name, None).map_err(refused)?;
    }
    Ok(())
}

/// Makes the directories from a layer's root down to one of it, readable for all whatever the umask.
fn make_open_directory(layer: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    to.ancestors()
        .take_while(|dir| dir.starts_with(layer))
        .try_for_each(|dir| fs::set_permissions(dir, fs::Permissions::from_mode(0o755)))
}

/// A thread that removes directories nobody waits for; it ends with the last sender.
fn start_cleaner() -> SyncSender<PathBuf> {
    let (sender, paths) = std::sync::mpsc::sync_channel::<PathBuf>(MAX_CLEANINGS);
    std::thread::spawn(move || {
        for path in paths {
            // What stays is empty, and the next mount of the same layers names it again.
            let _ = tree::remove_tree(&path);
        }
    });
    sender
}

/// Completes an attestation by what only the outside knows, and refuses a leaky sandbox.
fn judge(mut attestation: Attestation) -> Result<Attestation> {
    attestation.namespaces_shared = attestation
        .namespaces
        .iter()
        .filter(|(kind, inode)| host::namespace_inode(kind) == Some(**inode))
        .map(|(kind, _)| kind.clone())
        .collect();
    match attestation.missing() {
        None => Ok(attestation),
        Some(missing) => Err(Error::new(codes::ISOLATION_UNAVAILABLE, "the sandbox is not tight")
            .why(format!("{missing} is not in force"))
            .with("missing", missing)),
    }
}

/// Turns a failed step into what a person can act on.
pub(crate) fn explain(failure: &Failure) -> Error {
    let reason = std::io::Error::from_raw_os_error(failure.errno);
    let what = format!("cannot {}", failure.step);
    let error = match failure.errno {
        libc::ELOOP | libc::ENOENT | libc::ENOTDIR if failure.step.starts_with("mount ") => {
            Error::new(codes::MOUNT_REFUSED, what)
        }
        libc::EEXIST => Error::new(codes::SPEC_INVALID, what),
        libc::ESRCH => Error::new(codes::SANDBOX_LOST, what),
        libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::EAGAIN => {
            Error::new(codes::SYSTEM, what)
        }
        libc::ENOSPC | libc::EUSERS if failure.step.contains("namespace") => {
            Error::new(codes::ISOLATION_UNAVAILABLE, what)
                .fix("raise the limits below /proc/sys/user (max_*_namespaces)")
        }
        libc::EPERM | libc::EACCES if failure.step.contains("namespace") => {
            Error::new(codes::ISOLATION_UNAVAILABLE, what).fix(
                "allow unprivileged user namespaces (kernel.unprivileged_userns_clone=1, \
                 kernel.apparmor_restrict_unprivileged_userns=0), or run as root",
            )
        }
        libc::EINVAL if failure.step.starts_with("restrict the mount") => {
            Error::new(codes::ISOLATION_UNAVAILABLE, what)
                .fix("keep $GLASSHOUSE_HOME on ext4, xfs, btrfs or tmpfs (idmapped mounts)")
        }
        _ => Error::new(codes::ISOLATION_UNAVAILABLE, what),
    };
    let error = error.with("errno", failure.errno);
    if failure.errno == 0 { error } else { error.why(reason) }
}

pub(crate) fn lost(error: &glasshouse_ipc::Error) -> Error {
    Error::new(codes::SANDBOX_LOST, "the sandbox ended unexpectedly").why(error)
}

fn system(action: &str, error: &std::io::Error) -> Error {
    Error::new(codes::SYSTEM, format!("cannot {action}")).why(error)
}

/// A panic while holding one of these locks leaves no half-done change behind.
pub(crate) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
