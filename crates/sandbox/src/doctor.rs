//! The doctor: builds a sandbox, attacks it, and says what held.

mod examination;
mod hosts;

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

pub use self::examination::Examination;
use crate::host::{self, probe};
use crate::tree;
use crate::{
    Cancel, Command, Error, HostConfig, Level, Limit, OverlayDirs, ReadOnlyMount, Result, Sandbox,
    SandboxHost, SandboxSpec, Status, TemplateName, codes,
};

/// Where the attack program is inside.
const ATTACKER: &str = "/opt/glasshouse/doctor";

/// What the doctor found. The serialised form is a contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorReport {
    /// Best level of any backend.
    pub level: Level,
    /// Each backend that was examined.
    pub backends: Vec<BackendReport>,
}

/// One backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendReport {
    /// Its name.
    pub name: String,
    /// The level it reached by measurement.
    pub level: Level,
    /// Each attack or measurement.
    pub probes: Vec<Probe>,
}

/// One claim and whether it held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Short name.
    pub name: String,
    /// What is claimed.
    pub claim: String,
    /// `held`, or what was found instead.
    pub result: String,
    /// What to do when it did not hold; empty when it did.
    pub remedy: String,
}

impl Probe {
    /// Whether the claim held.
    #[must_use]
    pub fn held(&self) -> bool {
        self.result == "held"
    }

    fn new(name: &str, claim: &str, failure: Option<(String, &str)>) -> Self {
        let (result, remedy) = failure.unwrap_or_else(|| ("held".to_owned(), ""));
        Self { name: name.to_owned(), claim: claim.to_owned(), result, remedy: remedy.to_owned() }
    }
}

/// Builds a sandbox in `config.home`, attacks it from inside and reports. Never fails: what goes
/// wrong is in the report, with level `refused`.
///
/// Sandboxes to come do not know what it found unless they are told: see [`Examination`].
#[must_use]
pub fn doctor(config: &HostConfig) -> DoctorReport {
    let mut native = examine(config).unwrap_or_else(|error| {
        let report = error.report();
        BackendReport {
            name: "native".to_owned(),
            level: Level::Refused,
            probes: vec![Probe::new(
                "create",
                "a sandbox can be made",
                Some((error.to_string(), &report.fix)),
            )],
        }
    });
    native.probes.extend(hosts::Facts::read().probes());
    DoctorReport { level: native.level, backends: vec![native] }
}

fn examine(config: &HostConfig) -> Result<BackendReport> {
    let host = SandboxHost::start(config.clone())?;
    let bait = Bait::lay(&config.home)?;
    let mut spec = SandboxSpec::new("doctor", TemplateName::CodeExecutor.template());
    spec.overlay = Some(bait.layers.clone());
    spec.mounts = vec![ReadOnlyMount {
        source: config.program.canonicalize().map_err(|error| {
            Error::new(codes::SYSTEM, "cannot find the host program").why(error)
        })?,
        target: ATTACKER.into(),
    }];
    let sandbox = host.create(&spec)?;
    let mut probes = vec![
        Probe::new("create", "a sandbox can be made", None),
        limits(&sandbox),
        landlock(&sandbox),
        layers(&sandbox),
    ];
    let broken = "do not run agents on this host; report it with the output of `uname -a`";
    let mut tight = true;
    for (name, claim, arguments) in bait.attacks() {
        let failure = attack(&sandbox, &arguments, None);
        tight &= failure.is_none();
        probes.push(Probe::new(name, claim, failure.map(|found| (found, broken))));
    }
    let mut level = if tight { sandbox.attestation().level() } else { Level::Refused };
    let ended = sandbox.destroy();
    // One that an attack ended has said enough.
    if tight {
        ended?;
    }
    for probe in measure_limits(&host, &spec)? {
        if !probe.held() {
            level = level.min(Level::NoCgroup);
        }
        probes.push(probe);
    }
    Ok(BackendReport { name: "native".to_owned(), level, probes })
}

/// Tries to use more than a small sandbox has.
fn measure_limits(host: &SandboxHost, like: &SandboxSpec) -> Result<[Probe; 2]> {
    let mut spec = like.clone();
    spec.id = "doctor-limits".to_owned();
    (spec.template.memory_bytes, spec.template.max_pids) = (64 << 20, 12);
    let sandbox = host.create(&spec)?;
    let remedy = "delegate the cgroup controllers `memory` and `pids` to this user";
    let texts = |words: [&str; 2]| words.map(str::to_owned);
    let processes = attack(&sandbox, &texts(["processes", "40"]), Some(Limit::Pids));
    let memory = attack(&sandbox, &texts(["memory", "268435456"]), Some(Limit::Memory));
    // The memory limit may have ended the first process too; both attacks have said what they found.
    let _ = sandbox.destroy();
    Ok([
        Probe::new(
            "memory-limit",
            "a command gets no more memory than its sandbox has",
            memory.map(|found| (found, remedy)),
        ),
        Probe::new(
            "process-limit",
            "a command gets no more processes than its sandbox has",
            processes.map(|found| (found, remedy)),
        ),
    ])
}

fn limits(sandbox: &Sandbox) -> Probe {
    let found = sandbox.attestation();
    let missing: Vec<&str> = [
        ("memory", found.cgroup.memory_bytes.is_none()),
        ("pids", found.cgroup.pids.is_none()),
        ("cpu", found.cgroup.cpu_millis.is_none()),
    ]
    .into_iter()
    .filter_map(|(name, missing)| missing.then_some(name))
    .collect();
    let failure = (!missing.is_empty()).then(|| (format!("no limit on {}", missing.join(", ")),
        "start it with delegated cgroups: `systemd-run --user --scope -p Delegate=yes glasshouse`"));
    Probe::new("limits", "memory, processes and processor time are limited as one", failure)
}

fn landlock(sandbox: &Sandbox) -> Probe {
    let failure = (sandbox.attestation().landlock_abi == 0).then(|| {
        ("Landlock is not in force".to_owned(), "add `landlock` to the kernel's `lsm=` list")
    });
    Probe::new("landlock", "file access is restricted a second time by Landlock", failure)
}

fn layers(sandbox: &Sandbox) -> Probe {
    let failure = (!sandbox.attestation().layered).then(|| {
        (
            "the kernel refuses an overlay of a system directory".to_owned(),
            "run it where `/usr` has no mounts below it, or as root; until then do not mount \
             directories with sockets of others",
        )
    });
    let claim = "locks, watches, pipes and sockets of the host's directories are the host's own";
    Probe::new("layers", claim, failure)
}

/// Runs one attack inside; `None` when it was refused, or ended by the limit that it tries to pass. An
/// attack that does not get to its end says nothing about what it attacks.
fn attack(sandbox: &Sandbox, arguments: &[String], expected: Option<Limit>) -> Option<String> {
    let fixed = [ATTACKER, host::ARGUMENT, "probe"].map(str::to_owned);
    let command = Command::new(fixed.into_iter().chain(arguments.iter().cloned()));
    let ran = Cancel::new().and_then(|cancel| sandbox.run(&command, &mut |_, _| {}, &cancel));
    match ran.map(|result| result.status) {
        Ok(Status::Exited(code)) if code == probe::REFUSED => None,
        Ok(Status::LimitExceeded(limit)) if Some(limit) == expected => None,
        Ok(Status::Exited(code)) if code == probe::REACHED => {
            Some("the attack succeeded".to_owned())
        }
        Ok(other) => Some(format!("not measured: the attack ended with {other:?}")),
        Err(error) => Some(format!("not measured: {error}")),
    }
}

/// What the attacks try to reach: all made for this purpose, so success harms nobody.
struct Bait {
    directory: PathBuf,
    layers: OverlayDirs,
    secret: PathBuf,
    tcp: TcpListener,
    name: String,
    _abstract: UnixListener,
}

impl Bait {
    fn lay(home: &Path) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::new(codes::SYSTEM, "cannot prepare the examination").why(error)
        };
        static EXAMINATIONS: AtomicU32 = AtomicU32::new(0);
        let number = EXAMINATIONS.fetch_add(1, Ordering::Relaxed);
        // Two may run at a time, and an abstract name is the whole machine's.
        let name = format!("glasshouse-doctor-{}-{number}", std::process::id());
        let directory = home.join("run").join(&name);
        let lower = directory.join("base");
        let layers = OverlayDirs {
            lowers: vec![lower.clone()],
            upper: directory.join("upper"),
            work: directory.join("work"),
        };
        for path in [&lower, &layers.upper, &layers.work] {
            fs::create_dir_all(path).map_err(failed)?;
        }
        let secret = directory.join("secret");
        fs::write(&secret, "bait").map_err(failed)?;
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let address = SocketAddr::from_abstract_name(&name).map_err(failed)?;
        Ok(Self {
            secret,
            tcp: TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?,
            _abstract: UnixListener::bind_addr(&address).map_err(failed)?,
            name,
            layers,
            directory,
        })
    }

    fn attacks(&self) -> Vec<(&'static str, &'static str, Vec<String>)> {
        let secret = self.secret.display().to_string();
        let beside = self.directory.join("planted").display().to_string();
        let owner = std::process::id().to_string();
        let tcp = self.tcp.local_addr().map_or_else(|_| String::new(), |at| at.to_string());
        let table: [(&str, &str, &[&str]); 25] = [
            ("read-secret", "a private file of the user cannot be read", &["read", &secret]),
            ("write-outside", "no file appears outside", &["write", &beside]),
            (
                "write-system",
                "the system's programs cannot be changed",
                &["write", "/usr/bin/planted"],
            ),
            ("first-process", "the first process cannot be read", &["read", "/proc/1/environ"]),
            ("signal", "no process outside can be signalled", &["signal", &owner]),
            ("trace", "no process can be traced", &["trace", &owner]),
            ("mount", "nothing can be mounted", &["mount"]),
            ("device", "no device can be made", &["device", "/workspace/planted"]),
            ("network", "the host's loopback cannot be reached", &["connect", &tcp]),
            (
                "abstract-socket",
                "the host's abstract sockets cannot be reached",
                &["abstract", &self.name],
            ),
            ("vsock", "the machine's host cannot be reached", &["socket", "40"]),
            ("packet", "no raw network access", &["socket", "17"]),
            ("namespaces", "no new namespace", &["call", "unshare"]),
            ("clone", "no new namespace by clone", &["call", "clone"]),
            ("join-namespace", "no namespace is joined", &["call", "setns"]),
            ("bpf", "no program is loaded into the kernel", &["call", "bpf"]),
            ("keys", "the kernel's keys cannot be reached", &["call", "keyctl"]),
            ("perf", "nothing is measured about others", &["call", "perf"]),
            ("page-faults", "no page fault is held up", &["call", "userfaultfd"]),
            ("handles", "no file is opened past its directories", &["call", "open_by_handle"]),
            ("terminal", "nothing is typed into a terminal", &["call", "terminal"]),
            ("kernel-settings", "no setting changes", &["write", "/proc/sys/kernel/hostname"]),
            ("dns", "no name server can be asked", &["connect", "1.1.1.1:53"]),
            ("io_uring", "no unfiltered system calls through io_uring", &["call", "io_uring"]),
            ("descriptors", "commands inherit nothing but standard streams", &["descriptors"]),
        ];
        table
            .into_iter()
            .map(|(name, claim, arguments)| {
                (name, claim, arguments.iter().map(|text| (*text).to_owned()).collect())
            })
            .collect()
    }
}

impl Drop for Bait {
    fn drop(&mut self) {
        // Leftovers are harmless and below the run directory.
        let _ = tree::remove_tree(&self.directory);
    }
}
