//! What the doctor tries, on what it made for that, and how the same attack succeeds without a sandbox.

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::host::{self, probe};
use crate::{Error, HostConfig, OverlayDirs, Result, codes, tree};

/// One attack.
pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) claim: &'static str,
    /// What the attack program is told.
    pub(super) arguments: Vec<String>,
    pub(super) control: Control,
}

/// The same attack where no sandbox contains it: without one that succeeds, a refusal may be the attack's own
/// fault.
pub(super) enum Control {
    /// No host refuses it: where it fails, the attack is broken.
    Certain(Vec<String>),
    /// Some hosts refuse it to everybody, or to this user. Then that is told.
    Possible(Vec<String>),
    /// There is none, and why.
    Absent(&'static str),
}

/// What a control showed of its attack.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// It works, or why that could not be shown.
    Told(String),
    /// It says nothing.
    Broken(String),
}

impl Control {
    /// Runs it, as whoever runs the doctor.
    pub(super) fn run(&self, config: &HostConfig) -> Shown {
        let (arguments, is_certain) = match self {
            Self::Certain(arguments) => (arguments, true),
            Self::Possible(arguments) => (arguments, false),
            Self::Absent(why) => return Shown::Told(format!("none: {why}")),
        };
        let ran = std::process::Command::new(&config.program)
            .args([host::ARGUMENT, "probe"])
            .args(arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        match ran {
            Ok(ran) => {
                judged(ran.status.code(), String::from_utf8_lossy(&ran.stdout).trim(), is_certain)
            }
            Err(error) => Shown::Broken(error.to_string()),
        }
    }
}

/// What the end of an attack outside says of it.
fn judged(code: Option<i32>, text: &str, is_certain: bool) -> Shown {
    match code {
        Some(probe::REACHED) => Shown::Told(REACHED.to_owned()),
        Some(probe::REFUSED) if !is_certain => {
            Shown::Told(format!("none: this host refuses it without a sandbox, too ({text})"))
        }
        Some(probe::REFUSED) => Shown::Broken(format!("it fails without a sandbox, too ({text})")),
        _ => Shown::Broken("it does not come to its end without a sandbox".to_owned()),
    }
}

/// What is told of a control that succeeded.
pub(super) const REACHED: &str = "reached";

/// What the attacks try to reach: all made for this purpose, so success harms nobody.
pub(super) struct Bait {
    directory: PathBuf,
    pub(super) layers: OverlayDirs,
    secret: PathBuf,
    tcp: TcpListener,
    name: String,
    _abstract: UnixListener,
}

impl Bait {
    pub(super) fn lay(home: &std::path::Path) -> Result<Self> {
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

    /// Every attack, in the order of the report.
    pub(super) fn attacks(&self) -> Vec<Attack> {
        [self.files(), self.processes(), Self::mounts(), self.network(), Self::calls()]
            .into_iter()
            .flatten()
            .collect()
    }

    fn files(&self) -> Vec<Attack> {
        let secret = self.secret.display().to_string();
        let beside = self.directory.join("planted").display().to_string();
        vec![
            same("read-secret", "a private file of the user cannot be read", &["read", &secret]),
            same("write-outside", "no file appears outside", &["write", &beside]),
            Attack {
                control: Control::Certain(words(&["write", &beside])),
                ..same(
                    "write-system",
                    "the system's programs cannot be changed",
                    &["write", "/usr/bin/planted"],
                )
            },
        ]
    }

    fn processes(&self) -> Vec<Attack> {
        let owner = std::process::id().to_string();
        let own = format!("/proc/{owner}/environ");
        vec![
            Attack {
                control: Control::Possible(words(&["read", &own])),
                ..same(
                    "first-process",
                    "the first process cannot be read",
                    &["read", "/proc/1/environ"],
                )
            },
            same("signal", "no process outside can be signalled", &["signal", &owner]),
            perhaps("trace", "no process can be traced", &["trace", &owner]),
            Attack {
                control: Control::Certain(words(&["inherited", "descriptors"])),
                ..same(
                    "descriptors",
                    "commands inherit nothing but standard streams",
                    &["descriptors"],
                )
            },
        ]
    }

    fn mounts() -> Vec<Attack> {
        vec![
            Attack {
                control: Control::Possible(words(&["apart", "mount"])),
                ..same("mount", "nothing can be mounted", &["mount"])
            },
            Attack {
                control: Control::Possible(words(&["apart", "device"])),
                ..same("device", "no device can be made", &["device", "/workspace/planted"])
            },
            perhaps(
                "kernel-settings",
                "no setting changes",
                &["write", "/proc/sys/kernel/hostname"],
            ),
        ]
    }

    fn network(&self) -> Vec<Attack> {
        let tcp = self.tcp.local_addr().map_or_else(|_| String::new(), |at| at.to_string());
        vec![
            same("network", "the host's loopback cannot be reached", &["connect", &tcp]),
            Attack {
                control: Control::Absent("it would ask somebody on the Internet"),
                ..same("dns", "no name server can be asked", &["connect", "1.1.1.1:53"])
            },
            same(
                "abstract-socket",
                "the host's abstract sockets cannot be reached",
                &["abstract", &self.name],
            ),
            perhaps("vsock", "the machine's host cannot be reached", &["socket", "40"]),
            perhaps("packet", "no raw network access", &["socket", "17"]),
        ]
    }

    fn calls() -> Vec<Attack> {
        let call = |name, claim, call| perhaps(name, claim, &["call", call]);
        vec![
            call("namespaces", "no new namespace", "unshare"),
            call("clone", "no new namespace by clone", "clone"),
            call("join-namespace", "no namespace is joined", "setns"),
            call("bpf", "no program is loaded into the kernel", "bpf"),
            call("keys", "the kernel's keys cannot be reached", "keyctl"),
            call("perf", "nothing is measured about others", "perf"),
            call("page-faults", "no page fault is held up", "userfaultfd"),
            call("handles", "no file is opened past its directories", "open_by_handle"),
            call("terminal", "nothing is typed into a terminal", "terminal"),
            call("io_uring", "no unfiltered system calls through io_uring", "io_uring"),
        ]
    }
}

/// An attack that succeeds on every host when nothing contains it.
fn same(name: &'static str, claim: &'static str, arguments: &[&str]) -> Attack {
    let arguments = words(arguments);
    Attack { name, claim, control: Control::Certain(arguments.clone()), arguments }
}

/// An attack that some hosts refuse to everybody.
fn perhaps(name: &'static str, claim: &'static str, arguments: &[&str]) -> Attack {
    let attack = same(name, claim, arguments);
    Attack { control: Control::Possible(attack.arguments.clone()), ..attack }
}

pub(super) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

impl Drop for Bait {
    fn drop(&mut self) {
        // Leftovers are harmless and below the run directory.
        let _ = tree::remove_tree(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_that_does_not_succeed_is_told_or_counts_against_the_attack() {
        let told = |text: &str| Shown::Told(text.to_owned());
        let broken = |text: &str| Shown::Broken(text.to_owned());
        assert_eq!(judged(Some(0), "reached", true), told("reached"));
        assert_eq!(judged(Some(0), "reached", false), told("reached"));
        let why = "none: this host refuses it without a sandbox, too (refused: x)";
        assert_eq!(judged(Some(1), "refused: x", false), told(why));
        let why = "it fails without a sandbox, too (refused: x)";
        assert_eq!(judged(Some(1), "refused: x", true), broken(why));
        for code in [Some(2), Some(101), None] {
            let why = "it does not come to its end without a sandbox";
            assert_eq!(judged(code, "", false), broken(why), "{code:?}");
        }
    }
}
