//! A data directory, a project, and the program run on both.

pub(crate) use crate::skips::skipped;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glasshouse_log::{Log, SessionRow};
use glasshouse_model::{Event, Kind, SessionId, TenantId};
use serde_json::Value;
use tempfile::TempDir;

/// Longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes a test and code, and has them validated, which takes sandboxes of its own.
pub(crate) const COMMITS: &str = r#"
version: 1
steps:
  - emit: [ { call: { id: p, tool: plan.complete, args: { summary: "say two" } } } ]
  - emit:
      - { call: { id: w, tool: fs.write, args: { path: tests/t_two.sh, content: "sh src/tool.sh | grep -q two\n" } } }
      - { call: { id: red, tool: test.run, args: {} } }
  - emit:
      - { call: { id: e, tool: fs.edit, args: { path: src/tool.sh, old: "echo one\n", new: "echo one\necho two\n" } } }
      - { call: { id: green, tool: test.run, args: {} } }
  - emit: [ { call: { id: c, tool: git.commit, args: { message: "Say two" } } } ]
  - emit: [ { text: "done" } ]
"#;

/// A place of one's own for a test.
pub(crate) struct Place {
    dir: TempDir,
}

/// How the program ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn new(output: &Output) -> Self {
        Self {
            status: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The last line of stdout as JSON.
    pub(crate) fn last(&self) -> Value {
        let line = self.stdout.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    pub(crate) fn expect_status(self, status: i32) -> Self {
        assert_eq!(self.status, Some(status), "{self:?}");
        self
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::Builder::new().prefix("glasshouse-e2e-").tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// The project directory, made a git repository with these files.
    pub(crate) fn project(&self, files: &[(&str, &str)]) -> PathBuf {
        let project = self.path("project");
        for (path, content) in files {
            let file = project.join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, content).unwrap();
        }
        git(&project, &["init", "-q", "-b", "main"]);
        git(&project, &["add", "-A"]);
        git(&project, &["commit", "-q", "-m", "first"]);
        project
    }

    /// A project with one shell test that passes.
    pub(crate) fn shell_project(&self) -> PathBuf {
        self.project(&[
            ("src/tool.sh", "echo one\n"),
            ("tests/run.sh", "for t in tests/t_*.sh; do sh $t || exit 1; done\n"),
            ("tests/t_one.sh", "[ \"$(sh src/tool.sh | head -1)\" = one ]\n"),
            (
                ".glasshouse/config.yaml",
                "test: { command: [sh, tests/run.sh], globs: [\"tests/**\"] }\nsource: { globs: [\"src/**\"] }\n",
            ),
        ])
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_glasshouse"));
        command
            .args(arguments)
            .env("GLASSHOUSE_HOME", self.home())
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("NO_COLOR", "1")
            .env_remove("VIRTUAL_ENV")
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::new(&self.command(arguments).output().unwrap())
    }

    pub(crate) fn run_in(&self, dir: &Path, arguments: &[&str]) -> Ran {
        Ran::new(&self.command(arguments).current_dir(dir).output().unwrap())
    }

    /// Gives a project a policy, and accepts it as the person at this machine.
    pub(crate) fn accept_policy(&self, project: &Path, text: &str) {
        std::fs::create_dir_all(project.join(".glasshouse")).unwrap();
        std::fs::write(project.join(".glasshouse/policy.yaml"), text).unwrap();
        let digest = glasshouse_model::Digest::of(text.as_bytes()).to_string();
        self.run_in(project, &["policy", "update", "--digest", &digest]).expect_status(0);
    }

    /// The same with the shipped policy and one more rule, `{ name: …, match: …, action: … }`.
    pub(crate) fn accept_rule(&self, project: &Path, rule: &str) {
        let shipped = self.run(&["policy", "show", "--shipped"]).expect_status(0).stdout;
        self.accept_policy(project, &format!("{}\n  - {rule}\n", shipped.trim_end()));
    }

    /// Changes one letter of the first task in the database, as no program of ours does.
    pub(crate) fn damage_a_task(&self) {
        let database = self.home().join("log.db");
        let mut bytes = std::fs::read(&database).unwrap();
        let (from, to) = (b"\"text\":\"do it\"", b"\"text\":\"do IT\"");
        let at = bytes.windows(from.len()).position(|part| part == from).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to);
        std::fs::write(&database, bytes).unwrap();
    }

    /// Runs a scenario on the project.
    pub(crate) fn scenario(&self, project: &Path, yaml: &str) -> Ran {
        self.scenario_command(project, yaml).output().map(|output| Ran::new(&output)).unwrap()
    }

    pub(crate) fn scenario_command(&self, project: &Path, yaml: &str) -> Command {
        let file = self.path("scenario.yaml");
        std::fs::write(&file, yaml).unwrap();
        let file = file.display().to_string();
        let mut command = self.command(&["do it", "--scenario", &file, "--json"]);
        command.current_dir(project);
        command
    }

    /// Starts a command with its output in files, so that no pipe can block it.
    pub(crate) fn spawn(&self, mut command: Command) -> Running {
        let out = std::fs::File::create(self.path("stdout")).unwrap();
        let err = std::fs::File::create(self.path("stderr")).unwrap();
        Running { child: command.stdout(out).stderr(err).spawn().unwrap() }
    }

    pub(crate) fn log(&self) -> Log {
        Log::open(&self.home(), &TenantId::local()).unwrap()
    }

    /// The only session and its events.
    pub(crate) fn events(&self) -> (SessionId, Vec<Event>) {
        events(&self.log())
    }

    /// Waits until the log satisfies a condition.
    pub(crate) fn wait_for(&self, what: &str, condition: impl Fn(&[Event]) -> bool) -> SessionId {
        let deadline = Instant::now() + PATIENCE;
        let log = loop {
            if self.home().join("log.db").exists()
                && let Ok(log) = Log::open(&self.home(), &TenantId::local())
            {
                break log;
            }
            assert!(Instant::now() < deadline, "no log in time");
            std::thread::sleep(Duration::from_millis(2));
        };
        loop {
            if log.sessions().is_ok_and(|rows| rows.iter().any(is_of_an_agent)) {
                let (session, events) = events(&log);
                if condition(&events) {
                    return session;
                }
            }
            let stderr = std::fs::read_to_string(self.path("stderr")).unwrap_or_default();
            assert!(Instant::now() < deadline, "{what} did not happen in time\n{stderr}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Whether a session is not the log's own, in which it tells what it found after a kill.
fn is_of_an_agent(row: &SessionRow) -> bool {
    row.session.as_str() != "s_log"
}

fn events(log: &Log) -> (SessionId, Vec<Event>) {
    let rows = log.sessions().unwrap();
    let row = rows.iter().find(|row| is_of_an_agent(row)).expect("a session");
    let events = log.read(&row.main, 1, 100_000).unwrap();
    // What was published about bodies holds for everything that any test here does.
    for event in &events {
        let checked = glasshouse_model::body::check(event.kind(), &event.body);
        assert!(checked.is_ok(), "{} {}: {checked:?}", event.kind(), event.body);
    }
    (row.session.clone(), events)
}

/// A running program.
pub(crate) struct Running {
    pub(crate) child: Child,
}

impl Running {
    /// Waits for its end.
    pub(crate) fn wait(&mut self, limit: Duration) -> Option<i32> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "still running after {limit:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn kill_9(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn interrupt(&self) {
        let status =
            Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn git(dir: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@localhost"])
        .args(arguments)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) fn count(events: &[Event], kind: &Kind) -> usize {
    events.iter().filter(|event| event.kind() == kind).count()
}

/// Every proposed call has exactly one end, every turn exactly one.
pub(crate) fn assert_each_ended_once(events: &[Event]) {
    let proposed: Vec<String> = events
        .iter()
        .filter(|event| *event.kind() == Kind::ToolProposed)
        .map(|event| format!("c{}", event.seq()))
        .collect();
    for call in &proposed {
        let ends: Vec<_> = events
            .iter()
            .filter(|event| event.kind().ends_call() && event.body["call"] == call.as_str())
            .map(|event| event.kind().to_string())
            .collect();
        assert_eq!(ends.len(), 1, "{call} ended {ends:?}");
    }
    let ends = events.iter().filter(|event| event.kind().ends_turn()).count();
    assert_eq!(ends, count(events, &Kind::TurnStarted), "each turn ends once");
    assert_each_sandbox_ended_once(events);
}

/// Every sandbox that a branch made has exactly one end, before the next one is made. Those that its parent
/// made end there.
pub(crate) fn assert_each_sandbox_ended_once(events: &[Event]) {
    let mut is_open = false;
    let own = events.last().map(|event| &event.header.branch);
    for event in events.iter().filter(|event| Some(&event.header.branch) == own) {
        match event.kind() {
            Kind::SandboxCreated => assert!(!std::mem::replace(&mut is_open, true), "{event:?}"),
            Kind::SandboxDestroyed => assert!(std::mem::take(&mut is_open), "{event:?}"),
            _ => {}
        }
    }
    assert!(!is_open, "the last one has no end");
}

/// The status words of calls, by the model's id.
pub(crate) fn statuses(events: &[Event]) -> Vec<(String, String)> {
    events
        .iter()
        .filter(|event| *event.kind() == Kind::ToolProposed)
        .map(|event| {
            let call = format!("c{}", event.seq());
            let end =
                events.iter().find(|e| e.kind().ends_call() && e.body["call"] == call.as_str());
            let status = end.map_or("open", |end| end.body["status"].as_str().unwrap_or("?"));
            (event.body["id"].as_str().unwrap_or("?").to_owned(), status.to_owned())
        })
        .collect()
}

/// Processes below one, with the processor time that each has used, in hundredths of a second.
pub(crate) fn below(process: u32) -> Vec<(u32, u64)> {
    let stat = |entry: std::fs::DirEntry| -> Option<(u32, u32, u64)> {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let text = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let rest: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        Some((number, rest.get(1)?.parse().ok()?, rest.get(11)?.parse().ok()?))
    };
    let all: Vec<_> = std::fs::read_dir("/proc").unwrap().flatten().filter_map(stat).collect();
    let mut found = vec![(process, 0)];
    let mut next = 0;
    while let Some((parent, _)) = found.get(next).copied() {
        found.extend(all.iter().filter(|one| one.1 == parent).map(|one| (one.0, one.2)));
        next += 1;
    }
    found.split_off(1)
}

/// A session in which a scenario is the model.
pub(crate) fn scripted(
    project: &Path,
    scenario: &str,
    reviewer: Arc<dyn glasshouse_kernel::Reviewer>,
) -> glasshouse_kernel::NewSession {
    glasshouse_kernel::NewSession {
        project: project.to_owned(),
        config: glasshouse_kernel::Config::default(),
        provider: Arc::new(glasshouse_provider::Scripted::parse(scenario, "scenario").unwrap()),
        reviewer,
        observer: Arc::new(()),
        scenario: None,
        own_server: false,
        secrets: Vec::new(),
        request: None,
        by: None,
    }
}
