//! Another backend than the native one: the kernel decides, records and seals all the same.

use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use glasshouse_kernel::{Cancel, Kernel, NoReviewer};
use glasshouse_model::Kind;
use glasshouse_sandbox::egress::Egress;
use glasshouse_sandbox::{
    Backend, Command, Confined, Level, Live, Result, RunResult, SandboxSpec, Status, Stream, Usage,
};

use crate::harness::{Place, assert_each_sandbox_ended_once, scripted};

/// Runs nothing: it says what it was asked to run, and writes files where the workspace keeps changes.
struct Fake {
    level: Level,
    /// What happened to its places, in order.
    told: Arc<Mutex<Vec<String>>>,
}

struct FakePlace {
    level: Level,
    root: File,
    upper: PathBuf,
    told: Arc<Mutex<Vec<String>>>,
}

/// The directory behind a descriptor.
fn opened(at: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", at.as_raw_fd()))
}

impl Backend for Fake {
    fn create(&self, spec: &SandboxSpec, egress: Option<Egress>) -> Result<Box<dyn Confined>> {
        let upper = spec.overlay.as_ref().unwrap().upper.clone();
        self.told.lock().unwrap().push(format!("made, network {}", egress.is_some()));
        let root = File::open(&upper).unwrap();
        Ok(Box::new(FakePlace { level: self.level, root, upper, told: Arc::clone(&self.told) }))
    }

    fn set_examined(&self, _level: Option<Level>) {}

    fn again(&self) -> Result<Arc<dyn Backend>> {
        unreachable!("it is never lost")
    }
}

impl Confined for FakePlace {
    fn isolation(&self) -> String {
        format!("fake:{}", self.level)
    }

    fn attested(&self) -> serde_json::Value {
        serde_json::json!({ "confines": "nothing" })
    }

    fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    fn run_live(
        &self,
        command: &Command,
        _live: Live<'_>,
        sink: &mut dyn FnMut(Stream, &[u8]),
        _cancel: &glasshouse_sandbox::Cancel,
    ) -> Result<RunResult> {
        let line = command.argv.join(" ");
        sink(Stream::Stdout, line.as_bytes());
        std::fs::write(self.upper.join("tests/made-by-a-command"), "x").unwrap();
        Ok(RunResult {
            status: Status::Exited(0),
            stdout_bytes: line.len() as u64,
            stderr_bytes: 0,
            background_processes: 0,
            usage: Usage { cpu_us: 7, memory_peak_bytes: 8 },
            duration_us: 9,
            paused_us: 0,
        })
    }

    fn write_file(&self, at: BorrowedFd<'_>, name: &str, bytes: &[u8], _mode: u32) -> Result<()> {
        std::fs::write(opened(at).join(name), bytes).unwrap();
        Ok(())
    }

    fn make_dir(&self, at: BorrowedFd<'_>, name: &str, _mode: u32) -> Result<()> {
        std::fs::create_dir(opened(at).join(name)).unwrap();
        Ok(())
    }

    fn destroy(self: Box<Self>) -> Result<()> {
        self.told.lock().unwrap().push("destroyed".to_owned());
        Ok(())
    }
}

const SCENARIO: &str = "
version: 1
steps:
  - emit: [ { call: { id: p, tool: plan.complete, args: { summary: 'look' } } } ]
  - emit: [ { call: { id: w, tool: fs.write, args: { path: tests/t_new.sh, content: 'exit 1' } } } ]
  - emit: [ { call: { id: r, tool: shell.run, args: { argv: [echo, hello] } } } ]
  - emit: [ { text: done } ]
  - emit: [ { text: done } ]
  - emit: [ { text: done } ]
  - emit: [ { text: done } ]
";

/// A session whose commands a fake confines, and what the log and the fake say of it.
fn session(level: Level) -> (Vec<glasshouse_model::Event>, Vec<String>) {
    let place = Place::new();
    let project = place.shell_project();
    let rule = "{ name: well-kept, match: { syscall: shell.run }, action: allow, \
                constraints: { min_isolation: no-cgroup } }";
    place.accept_rule(&project, rule);
    let told = Arc::new(Mutex::new(Vec::new()));
    let fake = Fake { level, told: Arc::clone(&told) };
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_glasshouse"));
    let kernel = Kernel::open(&place.home(), program).unwrap().with_backend(Arc::new(fake));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let new = scripted(&project, SCENARIO, Arc::new(NoReviewer));
    let mut session = runtime.block_on(kernel.start(new)).unwrap();
    let report = runtime.block_on(session.turn(Some("do it"), &Cancel::new().unwrap())).unwrap();
    // The work is not finished, and that is not what this is about.
    assert_eq!(report.isolation, Some(format!("fake:{level}")), "{report:?}");
    let branch = session.branch().clone();
    drop(session);
    let events = kernel.log().read(&branch, 1, 100_000).unwrap();
    let told = told.lock().unwrap().clone();
    (events, told)
}

#[test]
fn another_backend_confines_a_session_and_is_named_in_its_events() {
    let check = |level: Level, status: &str| {
        let (events, told) = session(level);
        assert_eq!(told, ["made, network false", "destroyed"]);
        assert_each_sandbox_ended_once(&events);
        let stamp = format!("fake:{level}");
        let created = events.iter().find(|e| *e.kind() == Kind::SandboxCreated).unwrap();
        assert_eq!(created.body["isolation"], *stamp);
        assert_eq!(created.body["attestation"]["confines"], "nothing");
        let ends: Vec<_> = events.iter().filter(|event| event.kind().ends_call()).collect();
        // A file was written through it, and sealed as any change is.
        assert_eq!(ends[1].body["status"], "completed", "{:?}", ends[1].body);
        assert_eq!(ends[1].body["isolation"], *stamp);
        let run = &ends[2].body;
        assert_eq!(run["status"], status, "{level}: {run}");
        let is_run = status == "completed";
        assert_eq!(run["text"].as_str().unwrap().contains("echo hello"), is_run, "{run}");
        assert_eq!(run["usage"]["cpu_us"].as_u64(), is_run.then_some(7), "{run}");
        assert_eq!(run["code"] == "isolation_too_weak", !is_run, "{run}");
        // What a command changed is a change of the branch, whoever ran it.
        let sealed = events.iter().filter(|event| {
            *event.kind() == Kind::WorkspaceSealed || *event.kind() == Kind::WorkspaceRolledBack
        });
        let text = format!("{:?}", sealed.map(|event| &event.body).collect::<Vec<_>>());
        assert_eq!(text.contains("made-by-a-command"), is_run, "{text}");
    };
    check(Level::Full, "completed");
    check(Level::NoCgroup, "completed");
    // A rule demands more than these give.
    check(Level::NoLayers, "denied");
    check(Level::NoLandlock, "denied");
}
