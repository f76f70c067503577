//! Where a payload runs: in a sandbox, in bubblewrap's, or undefended.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use glasshouse_sandbox::{
    Cancel, Command, Limit, OverlayDirs, ReadOnlyMount, Sandbox, Status, TemplateName, host,
};

use super::attempt::Attempt;
use super::bait::{Bait, Inside};
use crate::support::*;

const PROBE: &str = "/opt/probe";
const DOCTOR: &str = "/opt/doctor";
const SHARED: &str = "/opt/shared";
const WORK: &str = "/workspace";

/// Exit status of a payload that was refused.
const REFUSED: i32 = 1;

/// How a payload ended.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Exit status; none when it was stopped, which is as good as refused.
    pub(super) status: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
}

impl Outcome {
    /// Whether the payload said that it was or was not refused. Anything else is a broken attempt.
    pub(super) fn is_measured(&self) -> bool {
        self.status.is_none_or(|status| status == 0 || status == REFUSED)
    }
}

/// The payload as an argument list of a seat.
fn argv(attempt: &Attempt, bait: &Bait, inside: &Inside<'_>, programs: [&str; 2]) -> Vec<String> {
    let [probe, doctor] = programs;
    let mut argv: Vec<String> =
        attempt.payload.iter().map(|part| bait.fill(part, inside)).collect();
    match argv[0].as_str() {
        "probe" => argv[0] = probe.to_owned(),
        "doctor" => {
            let start = [doctor, host::ARGUMENT, "probe"].map(str::to_owned);
            argv.splice(0..1, start);
        }
        _ => {}
    }
    argv
}

const INSIDE: Inside<'_> = Inside { work: WORK, shared: SHARED, first_process: Some("1") };

/// A sandbox of ours made for one attempt.
pub(super) struct Native {
    sandbox: Sandbox,
    upper: PathBuf,
}

impl Native {
    pub(super) fn new(home: &Home, attempt: &Attempt, bait: &Bait) -> Self {
        let mut spec = home.spec(&attempt.name);
        let dirs = OverlayDirs {
            lowers: vec![bait.path("base")],
            upper: bait.path("upper"),
            work: bait.path("scratch"),
        };
        for path in [&dirs.upper, &dirs.work] {
            std::fs::create_dir(path).unwrap();
        }
        let upper = dirs.upper.clone();
        spec.overlay = Some(dirs);
        spec.template = TemplateName::CodeExecutor.template();
        spec.template.seccomp = attempt.profile;
        spec.template.max_pids = 64;
        spec.template.memory_bytes = 256 << 20;
        spec.template.disk_bytes = 32 << 20;
        spec.template.max_duration_ms = 40_000;
        let mount = |source: PathBuf, target: &str| ReadOnlyMount {
            source: source.canonicalize().unwrap(),
            target: target.into(),
        };
        spec.mounts = vec![
            mount(probe(), PROBE),
            mount(program(), DOCTOR),
            mount(bait.path("shared"), SHARED),
        ];
        Self { sandbox: home.host.create(&spec).unwrap(), upper }
    }

    pub(super) fn run(&self, attempt: &Attempt, bait: &Bait) -> Outcome {
        let command = Command::new(argv(attempt, bait, &INSIDE, [PROBE, DOCTOR]));
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut sink = |stream, bytes: &[u8]| match stream {
            glasshouse_sandbox::Stream::Stdout => {
                out.extend_from_slice(bytes);
                if bytes.starts_with(b"ready") {
                    bait.stir();
                }
            }
            glasshouse_sandbox::Stream::Stderr => err.extend_from_slice(bytes),
        };
        let result = self.sandbox.run(&command, &mut sink, &Cancel::new().unwrap());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&out), text(&err));
        match result.map(|result| result.status) {
            Ok(Status::Exited(status)) => Outcome { status: Some(status), out, err },
            Ok(Status::Signaled(_) | Status::LimitExceeded(Limit::Memory)) => {
                Outcome { status: None, out, err }
            }
            Ok(Status::LimitExceeded(limit)) => {
                Outcome { status: None, out, err: format!("{err}stopped at a limit: {limit:?}") }
            }
            // Nothing that was measured.
            Ok(other) => Outcome { status: Some(99), out, err: format!("{err}{other:?}") },
            Err(error) => Outcome { status: Some(99), out, err: format!("{err}{error}") },
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.sandbox
            .run(&Command::new(["true"]), &mut |_, _| {}, &Cancel::new().unwrap())
            .is_ok_and(|result| result.status == Status::Exited(0))
    }

    pub(super) fn late(&self) -> bool {
        self.upper.join("late").exists()
    }
}

/// The same with bubblewrap. None where it is not installed.
pub(super) fn bubblewrap(attempt: &Attempt, bait: &Bait) -> Option<Outcome> {
    wrapped(bait, argv(attempt, bait, &INSIDE, [PROBE, DOCTOR]))
}

/// Whether bubblewrap makes sandboxes here at all: one that never starts refuses everything. None
/// where it is not installed.
pub(super) fn bubblewrap_starts(bait: &Bait) -> Option<Outcome> {
    wrapped(bait, vec!["true".to_owned()])
}

/// A command in a sandbox as tight as bubblewrap's manual makes one.
fn wrapped(bait: &Bait, command: Vec<String>) -> Option<Outcome> {
    let wrapper = Path::new("/usr/bin/bwrap");
    if !wrapper.exists() {
        return None;
    }
    let mut process = Process::new("timeout");
    process.args(["--signal=KILL", "40"]).arg(wrapper);
    process.args(["--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000"]);
    process.args(["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]);
    process.args(["--setenv", "PATH", "/usr/bin:/bin", "--ro-bind", "/usr", "/usr"]);
    for path in ["/bin", "/sbin", "/lib", "/lib64"] {
        if let Ok(target) = std::fs::read_link(path) {
            process.arg("--symlink").arg(target).arg(path);
        } else if Path::new(path).exists() {
            process.args(["--ro-bind", path, path]);
        }
    }
    process.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]);
    process.arg("--bind").arg(bait.path("work")).arg(WORK);
    process.arg("--ro-bind").arg(bait.path("shared")).arg(SHARED);
    process.arg("--ro-bind").arg(probe()).arg(PROBE);
    process.arg("--ro-bind").arg(program()).arg(DOCTOR);
    process.args(["--chdir", WORK, "--"]);
    process.args(command);
    Some(watched(process, bait))
}

/// The same payload without a sandbox, below what its file names.
pub(super) fn undefended(attempt: &Attempt, bait: &Bait) -> Outcome {
    let (work, shared) = (bait.path("work"), bait.path("shared"));
    let (work, shared) = (work.to_str().unwrap(), shared.to_str().unwrap());
    let here = Inside { work, shared, first_process: None };
    let mut process = Process::new("timeout");
    process.args(["--signal=KILL", "40"]);
    for (at, part) in attempt.control.iter().enumerate() {
        process.arg(bait.fill(part, &here));
        if at == 0 && part == "unshare" && !is_root() {
            process.arg("-Ur");
        }
    }
    let (probe, program) = (probe(), program());
    let programs = [probe.to_str().unwrap(), program.to_str().unwrap()];
    process.args(argv(attempt, bait, &here, programs));
    process.current_dir(work);
    watched(process, bait)
}

/// Runs a process to its end, and stirs when it says that it is ready.
fn watched(mut process: Process, bait: &Bait) -> Outcome {
    process.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = process.spawn().unwrap();
    let (mut out, mut err) = (Vec::new(), String::new());
    let mut stdout = child.stdout.take().unwrap();
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = stdout.read(&mut piece) {
        out.extend_from_slice(&piece[..read]);
        if piece[..read].starts_with(b"ready") {
            bait.stir();
        }
    }
    let mut stderr = Vec::new();
    child.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
    err.push_str(&String::from_utf8_lossy(&stderr));
    let status = child.wait().unwrap().code().filter(|status| *status < 128);
    Outcome { status, out: String::from_utf8_lossy(&out).into_owned(), err }
}
