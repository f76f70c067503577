//! What `glasshouse ui render-plan` takes from start to end: the program is loaded, the plan read,
//! checked and shown, and where it is registered, recorded on disk.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs of each kind.
const RUNS: usize = 300;
/// Enough to see that it runs.
const SHORT_RUNS: usize = 5;
/// Set by `cargo xtask bench --short`.
const SHORT_VARIABLE: &str = "GLASSHOUSE_BENCH_SHORT";
/// The complete example of the guide.
const PLAN: &str = "../../docs/guides/plans/complete.json";
/// What a start may take when nothing is written, in milliseconds.
const BOUND_MS: f64 = 10.0;

struct Samples(Vec<Duration>);

impl Samples {
    fn at(&mut self, percent: usize) -> f64 {
        self.0.sort_unstable();
        let at = (self.0.len() * percent / 100).min(self.0.len() - 1);
        self.0[at].as_secs_f64() * 1e3
    }
}

fn run(home: &Path, more: &[&str]) -> Duration {
    let plan = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(PLAN);
    let mut command = Command::new(env!("CARGO_BIN_EXE_glasshouse"));
    command.args(["ui", "render-plan", "--profile", "balanced"]).arg(plan).args(more);
    command.current_dir(home).env("GLASSHOUSE_HOME", home.join("home"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status().expect("the program starts");
    let took = start.elapsed();

    assert!(status.success(), "the plan is not shown: {status}");
    took
}

fn main() {
    // `cargo test --benches` only asks whether it runs.
    let measured = std::env::args().any(|argument| argument == "--bench");
    let short = !measured || std::env::var_os(SHORT_VARIABLE).is_some();
    let runs = if short { SHORT_RUNS } else { RUNS };
    let home = tempfile::tempdir().expect("a directory for the data");
    let (mut shown, mut bare) = (Samples(Vec::new()), Samples(Vec::new()));
    let mut registered = Samples(Vec::new());
    for number in 0..runs {
        shown.0.push(run(home.path(), &["--no-register"]));
        let mut raw = Command::new("true");
        let start = Instant::now();
        raw.status().expect("the program starts");
        bare.0.push(start.elapsed());
        // The quota of a minute is 120 runs.
        if number < 100 {
            registered.0.push(run(home.path(), &[]));
        }
    }
    let median = shown.at(50);
    let ratio = median / BOUND_MS;
    let verdict = if ratio <= 1.0 { "ok" } else { "MISSED" };
    println!(
        "ui render-plan, start to end: {median:.2} ms (p99 {:.2}), `true` takes {:.2} ms; \
         ratio={ratio:.2} bound=1 {verdict}",
        shown.at(99),
        bare.at(50)
    );
    println!(
        "ui render-plan, registered on disk: {:.2} ms (p99 {:.2})",
        registered.at(50),
        registered.at(99)
    );
}
