//! The doctor: builds a sandbox, attacks it, and says what held.

mod attacks;
mod examination;
mod hosts;

use serde::{Deserialize, Serialize};

use self::attacks::{Attack, Bait, REACHED, Shown, words};
pub use self::examination::Examination;
use crate::host::{self, probe};
use crate::{
    Cancel, Command, Error, HostConfig, Level, Limit, ReadOnlyMount, Result, Sandbox, SandboxHost,
    SandboxSpec, Status, TemplateName, codes,
};

/// What is said of an attack that got through.
const SUCCEEDED: &str = "the attack succeeded";
/// More processes, and more memory, than the small sandbox has; the usual one has more of both.
const MANY_PROCESSES: [&str; 2] = ["processes", "40"];
const MUCH_MEMORY: [&str; 2] = ["memory", "268435456"];

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
    /// Of an attack `reached` where the same one succeeded without what stops it, or why there is no such
    /// control here. Empty for what is read and not attacked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub control: String,
}

impl Probe {
    /// Whether the claim held.
    #[must_use]
    pub fn held(&self) -> bool {
        self.result == "held"
    }

    fn new(name: &str, claim: &str, failure: Option<(String, &str)>) -> Self {
        let (result, remedy) = failure.unwrap_or_else(|| ("held".to_owned(), ""));
        let control = String::new();
        Self {
            name: name.to_owned(),
            claim: claim.to_owned(),
            result,
            remedy: remedy.to_owned(),
            control,
        }
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
    for Attack { name, claim, arguments, control } in bait.attacks() {
        let failure = attack(&sandbox, &arguments, None);
        let (failure, control) = match (failure, control.run(config)) {
            (failure, Shown::Told(control)) => (failure, control),
            (Some(failure), Shown::Broken(why)) => (Some(failure), format!("none: {why}")),
            (None, Shown::Broken(why)) => (Some(format!("not measured: {why}")), String::new()),
        };
        tight &= failure.is_none();
        let probe = Probe::new(name, claim, failure.map(|found| (found, broken)));
        probes.push(Probe { control, ..probe });
    }
    let large = [&MANY_PROCESSES, &MUCH_MEMORY].map(|attack| uncontained(&sandbox, attack));
    let mut level = if tight { sandbox.attestation().level() } else { Level::Refused };
    let ended = sandbox.destroy();
    // One that an attack ended has said enough.
    if tight {
        ended?;
    }
    for probe in measure_limits(&host, &spec, large)? {
        if !probe.held() {
            level = level.min(Level::NoCgroup);
        }
        probes.push(probe);
    }
    Ok(BackendReport { name: "native".to_owned(), level, probes })
}

/// Tries to use more than a small sandbox has.
fn measure_limits(
    host: &SandboxHost,
    like: &SandboxSpec,
    [many, much]: [Shown; 2],
) -> Result<[Probe; 2]> {
    let mut spec = like.clone();
    spec.id = "doctor-limits".to_owned();
    (spec.template.memory_bytes, spec.template.max_pids) = (64 << 20, 12);
    let sandbox = host.create(&spec)?;
    let remedy = "delegate the cgroup controllers `memory` and `pids` to this user";
    let processes = attack(&sandbox, &words(&MANY_PROCESSES), Some(Limit::Pids));
    let memory = attack(&sandbox, &words(&MUCH_MEMORY), Some(Limit::Memory));
    // The memory limit may have ended the first process too; both attacks have said what they found.
    let _ = sandbox.destroy();
    let probe = |name, claim, failure: Option<String>, control| {
        let (failure, control) = match control {
            Shown::Told(control) => (failure, control),
            Shown::Broken(why) => {
                (Some(failure.unwrap_or_else(|| format!("not measured: {why}"))), String::new())
            }
        };
        Probe { control, ..Probe::new(name, claim, failure.map(|found| (found, remedy))) }
    };
    Ok([
        probe("memory-limit", "a command gets no more memory than its sandbox has", memory, much),
        probe(
            "process-limit",
            "a command gets no more processes than its sandbox has",
            processes,
            many,
        ),
    ])
}

/// The control of an attack on a limit: the same one in a sandbox whose limit is higher.
fn uncontained(sandbox: &Sandbox, words_of: &[&str]) -> Shown {
    match attack(sandbox, &words(words_of), None) {
        Some(found) if found == SUCCEEDED => Shown::Told(REACHED.to_owned()),
        Some(found) => Shown::Broken(found),
        None => Shown::Broken("it fails under a higher limit, too".to_owned()),
    }
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
        Ok(Status::Exited(code)) if code == probe::REACHED => Some(SUCCEEDED.to_owned()),
        Ok(other) => Some(format!("not measured: the attack ended with {other:?}")),
        Err(error) => Some(format!("not measured: {error}")),
    }
}
