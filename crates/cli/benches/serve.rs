//! What `glasshouse serve` takes: the time from its start to its first answer beside many stored sessions, and the
//! memory that it holds while nobody asks for anything, with and without tenants, and how fast it tells a long session.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use glasshouse_log::{Append, Log, NewBranch};
use glasshouse_model::{BranchId, Draft, Kind, SessionId, TenantId};

/// Sessions that are stored.
const SESSIONS: usize = 10_000;
/// Starts that are measured.
const STARTS: usize = 40;
/// Tenants that are opened.
const TENANTS: usize = 40;
/// Enough to see that it runs.
const SHORT: (usize, usize, usize) = (100, 3, 2);
/// Set by `cargo xtask bench --short`.
const SHORT_VARIABLE: &str = "GLASSHOUSE_BENCH_SHORT";
/// Names a program that is measured in the place of the one that was built with this benchmark.
const PROGRAM_VARIABLE: &str = "GLASSHOUSE_BENCH_PROGRAM";
/// Events of the session that is replayed, and how often it is.
const EVENTS: usize = 100_000;
const REPLAYS: usize = 11;
/// Enough to see that it runs.
const SHORT_EVENTS: (usize, usize) = (1_000, 2);
/// Session of those events.
const LONG: &str = "s_long000000";
/// Bound: events of 200 bytes in a second.
const REPLAYED_A_SECOND: f64 = 300_000.0;
/// Bounds: milliseconds to the first answer, MiB while idle.
const START_MS: f64 = 50.0;
const IDLE_MIB: f64 = 40.0;
/// Time after which a server that was asked nothing counts as idle.
const IDLE_AFTER: Duration = Duration::from_secs(2);

fn program() -> String {
    std::env::var(PROGRAM_VARIABLE).unwrap_or_else(|_| env!("CARGO_BIN_EXE_glasshouse").to_owned())
}

fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).current_dir(home).env("GLASSHOUSE_HOME", home.join("home"));
    command.env("XDG_CONFIG_HOME", home.join("config")).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

/// A server that answered once.
struct Served {
    child: Child,
    address: String,
    /// From its start to the first answer that came out of the log.
    took: Duration,
}

impl Served {
    fn start(home: &Path) -> Self {
        let began = Instant::now();
        let mut child = command(home, &["serve", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("it has an output");
        BufReader::new(out).read_line(&mut line).expect("it says where it listens");
        let address = line.trim().rsplit("//").next().unwrap_or_default().to_owned();
        let token = std::fs::read_to_string(home.join("home/server/token")).unwrap_or_default();
        let mut served = Self { child, address, took: Duration::ZERO };
        served.ask("/v1/sessions/s_0000000001/events", token.trim());
        served.took = began.elapsed();
        served
    }

    fn ask(&self, path: &str, token: &str) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let host = &self.address;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        )
        .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }

    /// Proportional share of memory, in MiB.
    fn memory_mib(&self) -> f64 {
        let file = format!("/proc/{}/smaps_rollup", self.child.id());
        let text = std::fs::read_to_string(file).expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).expect("a line");
        let kib: f64 = line.split_whitespace().next().and_then(|n| n.parse().ok()).expect("KiB");
        kib / 1024.0
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stores sessions of one event each.
fn fill(home: &Path, sessions: usize) {
    let log = Log::open(&home.join("home"), &TenantId::local()).expect("a log");
    for number in 0..sessions {
        let new = NewBranch {
            session: format!("s_{number:010}").parse().expect("an id"),
            branch: format!("b_{number:010}").parse().expect("an id"),
            name: "main".to_owned(),
            parent: None,
        };
        let event = Draft::new(Kind::Heartbeat, &serde_json::json!({ "n": number }));
        log.create_branch_with(new, vec![event]).expect("room");
    }
}

/// Makes tenants, each with a key.
fn tenants(home: &Path, count: usize) -> Vec<String> {
    let run = |arguments: &[&str]| {
        let ran = command(home, arguments).output().expect("the program starts");
        assert!(ran.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&ran.stdout).into_owned()
    };
    let make = |number: usize| {
        let name = format!("tenant{number}");
        run(&["tenants", "create", &name]);
        let made = run(&["keys", "create", "--tenant", &name, "--role", "viewer", "--json"]);
        let made: serde_json::Value = serde_json::from_str(made.trim()).expect("a key");
        made["text"].as_str().expect("its text").to_owned()
    };
    (0..count).map(make).collect()
}

/// Stores a session of many events with bodies of some 200 bytes.
fn fill_long(home: &Path, events: usize) {
    let log = Log::open(&home.join("home"), &TenantId::local()).expect("a log");
    let (session, branch): (SessionId, BranchId) =
        (LONG.parse().expect("an id"), "b_long000000".parse().expect("an id"));
    let new = NewBranch {
        session: session.clone(),
        branch: branch.clone(),
        name: "main".to_owned(),
        parent: None,
    };
    log.create_branch(new).expect("room");
    let body = serde_json::json!({ "text": "x".repeat(180) });
    for part in (0..events).collect::<Vec<_>>().chunks(500) {
        let drafts = part.iter().map(|_| Draft::new(Kind::Heartbeat, &body)).collect();
        log.append(Append::new(session.clone(), branch.clone(), drafts)).expect("room");
    }
}

/// Reads the whole session in one answer: events in a second.
fn replay(served: &Served, token: &str, events: usize) -> f64 {
    let mut stream = TcpStream::connect(&served.address).expect("it listens");
    let host = &served.address;
    let began = Instant::now();
    write!(
        stream,
        "GET /v1/sessions/{LONG}/events/stream HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\r\n"
    )
    .expect("it reads");
    // Frames end with an empty line, and no line within one is empty.
    let (mut frames, mut before, mut buffer) = (0, 0_u8, vec![0; 1 << 16]);
    // The answer's head and the frame with the time to wait end so, too.
    while frames < events + 1 {
        let length = stream.read(&mut buffer).expect("it goes on");
        assert!(length > 0, "it ended early");
        for byte in &buffer[..length] {
            frames += usize::from(*byte == b'\n' && before == b'\n');
            before = *byte;
        }
    }
    events as f64 / began.elapsed().as_secs_f64()
}

fn measure_replay(home: &Path, (events, replays): (usize, usize)) {
    fill_long(home, events);
    let served = Served::start(home);
    let token = std::fs::read_to_string(home.join("home/server/token")).expect("a token");
    let mut rates: Vec<f64> = (0..replays).map(|_| replay(&served, token.trim(), events)).collect();
    rates.sort_by(f64::total_cmp);
    let rate = rates[rates.len() / 2];
    let ratio = REPLAYED_A_SECOND / rate;
    println!(
        "serve, {events} events in one stream: {rate:.0} a second; ratio={ratio:.2} bound=1 {}",
        verdict(ratio)
    );
}

fn verdict(ratio: f64) -> &'static str {
    if ratio <= 1.0 { "ok" } else { "MISSED" }
}

fn main() {
    // `cargo test --benches` only asks whether it runs.
    let measured = std::env::args().any(|argument| argument == "--bench");
    let short = !measured || std::env::var_os(SHORT_VARIABLE).is_some();
    let (sessions, starts, opened) = if short { SHORT } else { (SESSIONS, STARTS, TENANTS) };
    let place = tempfile::tempdir().expect("a directory for the data");
    let home = place.path();
    fill(home, sessions);
    // The first one makes the token and the rest of the directory.
    drop(Served::start(home));
    let mut times: Vec<f64> =
        (0..starts).map(|_| Served::start(home).took.as_secs_f64() * 1e3).collect();
    times.sort_by(f64::total_cmp);
    let (best, median) = (times[0], times[times.len() / 2]);
    let p99 = times[(times.len() * 99).div_ceil(100) - 1];
    let ratio = median / START_MS;
    println!(
        "serve beside {sessions} sessions, start to first answer: {median:.1} ms \
         (best {best:.1}, p99 {p99:.1}); ratio={ratio:.2} bound=1 {}",
        verdict(ratio)
    );
    let keys = tenants(home, opened);
    let served = Served::start(home);
    std::thread::sleep(IDLE_AFTER);
    let alone = served.memory_mib();
    let ratio = alone / IDLE_MIB;
    println!(
        "serve, idle memory (PSS) beside {sessions} sessions: {alone:.1} MiB; \
         ratio={ratio:.2} bound=1 {}",
        verdict(ratio)
    );
    keys.iter().for_each(|key| served.ask("/v1/whoami", key));
    std::thread::sleep(IDLE_AFTER);
    let each = (served.memory_mib() - alone) / opened as f64;
    println!("serve, memory of a tenant that asked once: {:.0} KiB", each * 1024.0);
    drop(served);
    measure_replay(home, if short { SHORT_EVENTS } else { (EVENTS, REPLAYS) });
}
