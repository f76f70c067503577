//! What the kernel adds to a tool call: from the proposal being durable to the call's end being
//! durable, less what the same command takes when it is started raw.
//!
//! The real kernel runs a scripted model on a small repository. Raw runs are taken in turn with the
//! calls, because a machine changes its speed from one second to the next. Time inside disk syncs is
//! taken out and told beside; because a commit's sync cannot be told from its writing, each promise
//! is also measured in memory, where a sync is free and nothing is taken out.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use glasshouse_kernel::config::{BudgetConfig, PROJECT_FILE};
use glasshouse_kernel::{Cancel, Config, Kernel, NewSession, NoReviewer, Notice, Observer};
use glasshouse_log::Log;
use glasshouse_model::Kind;
use glasshouse_model::body::{CallEnd, CallStatus, ToolProposed};
use glasshouse_provider::Scripted;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// Calls of each kind: enough for a steady median in seconds.
const CALLS: usize = 300;
/// Enough to see that it runs.
const SHORT_CALLS: usize = 10;
/// Set by `cargo xtask bench --short`.
const SHORT_VARIABLE: &str = "GLASSHOUSE_BENCH_SHORT";
/// A command that does nothing, so that all its time is overhead.
const PROGRAM: &str = "true";

/// What is promised of a kind of call, in microseconds.
const PROMISES: &[(&str, f64)] = &[
    ("fs.read", 100.0),
    ("command in a live sandbox", 500.0),
    ("call with a new sandbox", 3_000.0),
];
/// Measured beside them, without a promise.
const BESIDE: &[&str] = &["command taken back", "fs.write"];

fn main() {
    // `cargo test --benches` only asks whether it runs.
    let measured = std::env::args().any(|argument| argument == "--bench");
    let short = !measured || std::env::var_os(SHORT_VARIABLE).is_some();
    let calls = if short { SHORT_CALLS } else { CALLS };
    let temporary = std::env::temp_dir();
    let memory = Path::new("/dev/shm");
    for (name, place) in [("in memory", memory), ("on disk", &temporary)] {
        if !place.is_dir() {
            println!("skipped: overhead {name}: there is no {}", place.display());
            continue;
        }
        let samples = measure(place, calls);
        for (what, bound_us) in PROMISES {
            report(what, name, samples.get(what).map_or(&[], Vec::as_slice), Some(*bound_us));
        }
        for what in BESIDE {
            report(what, name, samples.get(what).map_or(&[], Vec::as_slice), None);
        }
    }
}

/// One call as it was measured.
#[derive(Debug, Clone, Copy)]
struct Sample {
    wall: Duration,
    sync: Duration,
    cpu: Duration,
    /// The same command started raw, just after; nothing for what is no command.
    raw: Duration,
}

type Samples = BTreeMap<&'static str, Vec<Sample>>;

fn report(what: &str, place: &str, samples: &[Sample], bound_us: Option<f64>) {
    let micros = |part: f64, of: fn(&Sample) -> Duration| {
        let mut sorted: Vec<_> =
            samples.iter().map(|sample| of(sample).as_secs_f64() * 1e6).collect();
        sorted.sort_by(f64::total_cmp);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an index of a short list"
        )]
        let at = (sorted.len() as f64 * part) as usize;
        sorted[at.min(sorted.len() - 1)]
    };
    // In memory a sync is free, and what a commit takes there is our own work.
    let work: fn(&Sample) -> Duration = match place {
        "in memory" => |sample| sample.wall,
        _ => |sample| sample.wall.saturating_sub(sample.sync),
    };
    let raw = micros(0.5, |sample| sample.raw);
    let added = micros(0.5, work) - raw;
    let mut text = format!(
        "{what} {place}: {added:.0} us added (p99 {:.0}), CPU {:.0}, raw {raw:.0}, syncs {:.0}, n={}",
        micros(0.99, work) - raw,
        micros(0.5, |sample| sample.cpu),
        micros(0.5, |sample| sample.sync),
        samples.len(),
    );
    if let Some(bound_us) = bound_us {
        let ratio = added / bound_us;
        let verdict = if ratio <= 1.0 { "ok" } else { "MISSED" };
        text.push_str(&format!(", promised {bound_us:.0}, ratio={ratio:.2} bound=1.00 {verdict}"));
    }
    println!("{text}");
}

/// Runs every scenario in a directory.
fn measure(place: &Path, calls: usize) -> Samples {
    let dir = tempfile::tempdir_in(place).expect("a temporary directory");
    let project = dir.path().join("project");
    repository(&project, calls);
    let program = Path::new(env!("CARGO_BIN_EXE_glasshouse"));
    let kernel = Kernel::open(&dir.path().join("home"), program).expect("a kernel");
    let mut samples = Samples::new();
    for scenario in [looking(calls), taken_back(calls), writing(calls)] {
        for (what, more) in run(&kernel, &project, &scenario) {
            samples.entry(what).or_default().extend(more);
        }
    }
    for what in PROMISES.iter().map(|(what, _)| what).chain(BESIDE) {
        let found = samples.get(what).map_or(0, Vec::len);
        assert!(found + 2 > calls, "{what}: {found} samples");
    }
    samples
}

/// A repository with a shell test, as small as one can be.
fn repository(project: &Path, calls: usize) {
    // Each is read once: what was read before is stored already.
    for number in 0..=calls {
        write(&project.join(read_path(number)), &format!("{number}\n{}", "echo one\n".repeat(100)));
    }
    for (path, text) in [
        ("src/tool.sh", "echo one\n"),
        ("tests/run.sh", "exit 0\n"),
        (PROJECT_FILE, "test: { command: [sh, tests/run.sh], globs: [\"tests/**\"] }\n"),
    ] {
        write(&project.join(path), text);
    }
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
        let status = Command::new("git")
            .current_dir(project)
            .args(identity)
            .args(arguments)
            .status()
            .expect("git runs");
        assert!(status.success(), "git {arguments:?}");
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "first"]);
}

fn write(file: &Path, text: &str) {
    std::fs::create_dir_all(file.parent().expect("a parent")).expect("a directory");
    std::fs::write(file, text).expect("a file");
}

fn read_path(number: usize) -> String {
    format!("src/part{number}.sh")
}

/// Reads and commands that change nothing, in turn.
fn looking(calls: usize) -> Vec<Value> {
    let pair = |number| {
        [
            step("fs.read", &json!({"path": read_path(number)})),
            step("shell.run", &json!({"argv": [PROGRAM]})),
        ]
    };
    // The first command's sandbox is new.
    (0..=calls).flat_map(pair).collect()
}

/// A command whose changes are denied ends its sandbox; the next one needs a new one.
fn taken_back(calls: usize) -> Vec<Value> {
    let denied = json!({"script": "echo two > src/tool.sh"});
    let pair = |_| [step("shell.run", &denied), step("shell.run", &json!({"argv": [PROGRAM]}))];
    (0..calls).flat_map(pair).collect()
}

/// Test files written one after another, each anew.
fn writing(calls: usize) -> Vec<Value> {
    let plan = step("plan.complete", &json!({"summary": "tests"}));
    let write = |number| {
        let path = format!("tests/t_{}.sh", number % 20);
        step("fs.write", &json!({"path": path, "content": format!("exit {number}\n")}))
    };
    std::iter::once(plan).chain((0..calls).map(write)).collect()
}

fn step(tool: &str, arguments: &Value) -> Value {
    json!({"emit": [{"call": {"id": "c", "tool": tool, "args": arguments}}]})
}

/// Runs one session and measures its calls.
fn run(kernel: &Kernel, project: &Path, steps: &[Value]) -> Samples {
    let mut steps = steps.to_vec();
    for (number, step) in steps.iter_mut().enumerate() {
        step["emit"][0]["call"]["id"] = json!(format!("c{number}"));
    }
    // The last words; a session with changes is reminded before it ends.
    steps.extend((0..3).map(|_| json!({"emit": [{"text": "Done."}]})));
    let scenario = json!({"version": 1, "steps": steps}).to_string();
    let watch = Arc::new(Watch { log: kernel.log().clone(), seen: Mutex::default() });
    let own = Config::read(&project.join(PROJECT_FILE)).expect("a configuration");
    let many = Some(1_000_000);
    let budget = BudgetConfig {
        calls: many,
        errors: many,
        tokens: Some(1 << 40),
        ..BudgetConfig::default()
    };
    // A summary in between would be another request than the scenario has.
    let window_tokens = Some(1 << 40);
    let config = Config { budget, window_tokens, ..own };
    let new = NewSession {
        project: project.to_owned(),
        config,
        provider: Arc::new(Scripted::parse(&scenario, "overhead").expect("a scenario")),
        reviewer: Arc::new(NoReviewer),
        observer: Arc::clone(&watch) as Arc<dyn Observer>,
        scenario: None,
        own_server: false,
        secrets: Vec::new(),
        request: None,
        by: None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let mut session = runtime.block_on(kernel.start(new)).expect("a session");
    let cancel = Cancel::new().expect("a switch");
    runtime.block_on(session.turn(Some("measure"), &cancel)).expect("a turn");
    let mut seen = watch.seen.lock().expect("nothing panicked");
    std::mem::take(&mut seen.samples)
}

/// Measures between the events of a call.
struct Watch {
    log: Log,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    open: Option<Open>,
    samples: Samples,
}

struct Open {
    tool: String,
    has_new_sandbox: bool,
    since: Instant,
    sync: Duration,
    cpu: Duration,
}

impl Observer for Watch {
    fn notice(&self, notice: Notice<'_>) {
        let Notice::Event(event) = notice else { return };
        let mut seen = self.seen.lock().expect("nothing panicked");
        match event.kind() {
            Kind::ToolProposed => {
                let tool = event.body_as::<ToolProposed>().expect("a body").tool;
                seen.open = Some(Open {
                    tool,
                    has_new_sandbox: false,
                    sync: self.sync(),
                    cpu: processor_time(),
                    since: Instant::now(),
                });
            }
            Kind::SandboxCreated => {
                if let Some(open) = &mut seen.open {
                    open.has_new_sandbox = true;
                }
            }
            kind if kind.ends_call() => {
                let (wall, cpu) = (Instant::now(), processor_time());
                let open = seen.open.take().expect("it was proposed");
                let end = event.body_as::<CallEnd>().expect("a body");
                let Some(what) = open.what(&end) else { return };
                let sample = Sample {
                    wall: wall - open.since,
                    sync: self.sync() - open.sync,
                    cpu: cpu - open.cpu,
                    raw: if open.tool == "shell.run" { raw() } else { Duration::ZERO },
                };
                seen.samples.entry(what).or_default().push(sample);
            }
            _ => {}
        }
    }
}

impl Watch {
    fn sync(&self) -> Duration {
        Duration::from_nanos(self.log.stats().sync_ns)
    }
}

impl Open {
    /// The kind that a call is measured as.
    fn what(&self, end: &CallEnd) -> Option<&'static str> {
        match (self.tool.as_str(), end.status, self.has_new_sandbox) {
            ("fs.read", CallStatus::Completed, false) => Some("fs.read"),
            ("shell.run", CallStatus::Completed, false) => Some("command in a live sandbox"),
            ("shell.run", CallStatus::Completed, true) => Some("call with a new sandbox"),
            ("shell.run", CallStatus::Denied, false) => Some("command taken back"),
            ("fs.write", CallStatus::Completed, false) => Some("fs.write"),
            ("fs.read" | "fs.write" | "plan.complete" | "shell.run", ..)
                if self.has_new_sandbox =>
            {
                None
            }
            ("plan.complete", CallStatus::Completed, _) => None,
            _ => panic!("{} ended as {end:?}", self.tool),
        }
    }
}

/// The program started as directly as it can be. The environment is inherited because otherwise the
/// standard library forks, which copies page tables and makes our next writes fault.
fn raw() -> Duration {
    let started = Instant::now();
    let status = Command::new(PROGRAM)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("it runs");
    let took = started.elapsed();
    assert!(status.success());
    took
}

/// Processor time of all threads of this process; the sandbox host and what runs in it are others.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).expect("time is positive"),
        u32::try_from(time.tv_nsec).expect("nanoseconds fit"),
    )
}
