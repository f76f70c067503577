//! What a decision takes when the policy's rules in TypeScript are asked, over what cannot be less: a question and
//! its answer between two threads over a socket.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glasshouse_kernel::extension::{EVALUATION_MS, ScriptExtension};
use glasshouse_model::{Call, Effect};
use glasshouse_policy::{CallSketch, Policy, Protected, Request, Source, decide};
use glasshouse_sandbox::{HostConfig, SandboxHost};
use glasshouse_script::Language;
use serde_json::json;

const CALLS: usize = 2_000;
/// Enough to see that it runs.
const SHORT_CALLS: usize = 20;
/// Set by `cargo xtask bench --short`.
const SHORT_VARIABLE: &str = "GLASSHOUSE_BENCH_SHORT";
/// How much of the time that a call may have (`EVALUATION_MS`) is promised to be enough.
const PROMISED: Duration = Duration::from_millis(EVALUATION_MS / 50);
const QUESTION_BYTES: usize = 256;

const RULES: &str = "
type Call = { syscall: string; path?: string };
export function evaluate(call: Call) {
  if (call.path?.endsWith('.sql')) return { effect: 'require_review', reason: 'the schema changes' };
  return { effect: 'allow', reason: 'nothing speaks against it' };
}";

fn main() {
    let measured = std::env::args().any(|argument| argument == "--bench");
    let short = !measured || std::env::var_os(SHORT_VARIABLE).is_some();
    let count = if short { SHORT_CALLS } else { CALLS };
    let home = tempfile::tempdir().expect("a temporary directory");
    let program = PathBuf::from(env!("CARGO_BIN_EXE_glasshouse"));
    let host = SandboxHost::start(HostConfig { program, home: home.path().to_owned() });
    let extension = host.map_err(|error| error.to_string()).and_then(|host| {
        ScriptExtension::start(Arc::new(host), RULES, Language::Ts).map_err(|e| e.to_string())
    });
    let extension = match extension {
        Ok(extension) => extension,
        Err(why) => {
            println!("skipped: a decision that asks rules in TypeScript: {why}");
            return;
        }
    };
    let text = "capabilities:\n  - { name: reads, match: { syscall: fs.read }, action: allow }\n";
    let policy = Policy::compile(&[Source::new("bench", text)], &Protected::default())
        .expect("the policy compiles")
        .served_by(Arc::new(extension));
    let calls: Vec<Call> = (0..count).map(call).collect();
    let (mut asked, mut floor) = (Vec::new(), Vec::new());
    let mut peer = echo();
    // In turns: a machine changes its speed from one second to the next.
    for call in &calls {
        let start = Instant::now();
        let verdict = decide(&policy, &Request::new(call, 0));
        asked.push(start.elapsed());
        let is_schema = call.path.as_ref().is_some_and(|path| path.as_str().ends_with(".sql"));
        let expected = if is_schema { Effect::RequireReview } else { Effect::Allow };
        assert_eq!(verdict.decision.effect, expected, "{:?}", verdict.decision);
        let start = Instant::now();
        round_trip(&mut peer);
        floor.push(start.elapsed());
    }
    report(&mut asked, &mut floor);
}

/// One in eight is about the schema.
fn call(number: usize) -> Call {
    let ending = if number.is_multiple_of(8) { "sql" } else { "rs" };
    let sketch = json!({ "syscall": "fs.read", "path": format!("src/{number}.{ending}") });
    let sketch: CallSketch = serde_json::from_value(sketch).expect("a call");
    sketch.into_call().expect("a call")
}

/// The other end of a socket, which gives back what it gets.
fn echo() -> UnixStream {
    let (here, mut there) = UnixStream::pair().expect("a pair of sockets");
    std::thread::spawn(move || {
        let mut question = [0; QUESTION_BYTES];
        while there.read_exact(&mut question).is_ok() && there.write_all(&question).is_ok() {}
    });
    here
}

fn round_trip(peer: &mut UnixStream) {
    let mut answer = [0; QUESTION_BYTES];
    peer.write_all(&answer).expect("the question is sent");
    peer.read_exact(&mut answer).expect("the answer comes");
}

fn report(asked: &mut [Duration], floor: &mut [Duration]) {
    asked.sort_unstable();
    floor.sort_unstable();
    let (median, p99) = (asked[asked.len() / 2], asked[asked.len() * 99 / 100]);
    let floor = floor[floor.len() / 2];
    let ratio = median.as_secs_f64() / PROMISED.as_secs_f64();
    let verdict = if ratio <= 1.0 { "ok" } else { "MISSED" };
    println!(
        "decision that asks rules in TypeScript: {:.0} us (p99 {:.0}), {:.1} x a round trip over a socket ({:.0} us), \
         n={}, ratio={ratio:.2} bound=1.00 {verdict}",
        median.as_secs_f64() * 1e6,
        p99.as_secs_f64() * 1e6,
        median.as_secs_f64() / floor.as_secs_f64(),
        floor.as_secs_f64() * 1e6,
        asked.len(),
    );
}
