//! What every test needs: a host process on its own home, a workspace, and short commands.

pub(crate) use crate::skips::skipped;
use std::fs;
use std::path::{Path, PathBuf};

use glasshouse_sandbox::{
    Cancel, Command, HostConfig, OverlayDirs, RunResult, Sandbox, SandboxHost, SandboxSpec, Status,
    Stream, TemplateName,
};

/// Where a second run as another user finds its own copy of the host program.
pub(crate) const PROGRAM: &str = "GLASSHOUSE_TEST_PROGRAM";

/// The host program, which is also the attack program.
pub(crate) fn program() -> PathBuf {
    std::env::var_os(PROGRAM)
        .map_or_else(|| env!("CARGO_BIN_EXE_glasshouse-sandboxd").into(), PathBuf::from)
        .canonicalize()
        .unwrap()
}

/// As [`PROGRAM`], for the program of the escape suite.
pub(crate) const PROBE: &str = "GLASSHOUSE_TEST_PROBE";

/// The program that makes attempts.
pub(crate) fn probe() -> PathBuf {
    std::env::var_os(PROBE)
        .map_or_else(|| env!("CARGO_BIN_EXE_glasshouse-escape-probe").into(), PathBuf::from)
        .canonicalize()
        .unwrap()
}

/// Whether this is root of the machine, not only of a user namespace.
pub(crate) fn is_root() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap();
    rustix::process::geteuid().is_root() && map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// A home directory with a host process, and places for workspaces.
pub(crate) struct Home {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) host: SandboxHost,
}

impl Home {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = HostConfig { program: program(), home: directory.path().to_owned() };
        Self { host: SandboxHost::start(config).unwrap(), directory }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Layers of a workspace that holds `base.txt` and `dir/deep.txt`.
    pub(crate) fn layers(&self, name: &str) -> OverlayDirs {
        layers(&self.path(name))
    }

    pub(crate) fn spec(&self, name: &str) -> SandboxSpec {
        let mut spec = SandboxSpec::new(name, TemplateName::CodeExecutor.template());
        spec.overlay = Some(self.layers(name));
        spec
    }

    pub(crate) fn sandbox(&self, name: &str) -> Sandbox {
        self.host.create(&self.spec(name)).unwrap()
    }
}

pub(crate) fn layers(at: &Path) -> OverlayDirs {
    let dirs = OverlayDirs {
        lowers: vec![at.join("base")],
        upper: at.join("upper"),
        work: at.join("work"),
    };
    for path in [&dirs.lowers[0].join("dir"), &dirs.upper, &dirs.work] {
        fs::create_dir_all(path).unwrap();
    }
    fs::write(dirs.lowers[0].join("base.txt"), "base\n").unwrap();
    fs::write(dirs.lowers[0].join("dir/deep.txt"), "deep\n").unwrap();
    dirs
}

/// A finished command with its output.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) result: RunResult,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.result.status, Status::Exited(0), "{self:?}");
        self.out
    }
}

pub(crate) fn run(sandbox: &Sandbox, command: &Command) -> Ran {
    run_with(sandbox, command, &Cancel::new().unwrap())
}

pub(crate) fn run_with(sandbox: &Sandbox, command: &Command, cancel: &Cancel) -> Ran {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut sink = |stream, bytes: &[u8]| match stream {
        Stream::Stdout => out.extend_from_slice(bytes),
        Stream::Stderr => err.extend_from_slice(bytes),
    };
    let result = sandbox.run(command, &mut sink, cancel).unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ran { result, out: text(out), err: text(err) }
}

pub(crate) fn sh(script: &str) -> Command {
    Command::new(["sh", "-c", script])
}

pub(crate) fn shell(sandbox: &Sandbox, script: &str) -> Ran {
    run(sandbox, &sh(script))
}

pub(crate) fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// What the names of a living host process's groups start with.
pub(crate) fn group_prefix(host: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{host}/stat")).unwrap();
    // After the name, which may hold anything but ends with the last bracket.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    format!("glasshouse-{host}-{}-", fields.split(' ').nth(19).unwrap())
}

/// Groups anywhere whose names start so.
pub(crate) fn groups(prefix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut queue = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(directory) = queue.pop() {
        for path in entries(&directory) {
            if path.is_symlink() || !path.is_dir() {
                continue;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(prefix) {
                found.push(path.clone());
            }
            queue.push(path);
        }
    }
    found
}
