//! What an event costs: processor time alone and in groups, syncs, reads, forks.
//!
//! Processor time is measured in memory, so that no device time is in it; syncs on the disk of the
//! temporary directory, in turn with a raw `fdatasync` of 512 bytes, because disks change their
//! speed from one second to the next. Each line ends in what was measured over what it is measured
//! against, the bound, and whether it holds.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use glasshouse_log::{Append, Log, NewBranch};
use glasshouse_model::{BranchId, Digest, Draft, Kind, SessionId, TenantId};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

/// Body text that makes an event's stored size about 512 bytes with its header.
const PAD: &str =
    "0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0123456789";
/// About what such an event takes in the log, header and body.
const EVENT_BYTES: usize = 600;
/// Of that the body.
const BODY_BYTES: usize = 150;
const PAIRS: u64 = 500;
const WRITERS: u64 = 64;
const EVENTS_PER_WRITER: u64 = 200;
const EVENTS: u64 = 1_000_000;
const SESSIONS: u64 = 10_000;
const EVENTS_PER_SESSION: usize = 20;

type Section = (&'static str, fn(&Path, u64));

/// Parts that can be chosen by a word of their name after `--`.
const SECTIONS: &[Section] = &[
    ("disk", alone_on_the_disk),
    ("floor", floor_in_memory),
    ("alone", alone_in_memory),
    ("batches", in_batches),
    ("writers-on-disk", |_, scale| by_many_writers(&std::env::temp_dir(), "disk", scale)),
    ("writers-in-memory", |memory, scale| by_many_writers(memory, "memory", scale)),
    ("reads", reads),
    ("sessions", with_many_sessions),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` only asks whether it runs.
    let scale = if arguments.iter().any(|argument| argument == "--bench") { 1 } else { 100 };
    let temporary = std::env::temp_dir();
    let memory = Path::new("/dev/shm");
    let memory = if memory.is_dir() { memory } else { &temporary };
    let words: Vec<_> = arguments.iter().filter(|word| !word.starts_with("--")).collect();
    for (name, run) in SECTIONS {
        if words.is_empty() || words.iter().any(|word| name.contains(word.as_str())) {
            run(memory, scale);
        }
    }
}

fn line(text: &str, ratio: f64, bound: f64) {
    let verdict = if ratio <= bound { "ok" } else { "MISSED" };
    println!("{text} ratio={ratio:.2} bound={bound:.2} {verdict}");
}

struct Bench {
    _home: tempfile::TempDir,
    log: Log,
    session: SessionId,
    branch: BranchId,
}

impl Bench {
    fn new(directory: &Path) -> Self {
        let home = tempfile::tempdir_in(directory).expect("a temporary directory");
        let log = Log::open(home.path(), &TenantId::local()).expect("a new log");
        let session: SessionId = "s_bench".parse().expect("an id");
        let branch: BranchId = "b_bench".parse().expect("an id");
        log.create_branch(NewBranch {
            session: session.clone(),
            branch: branch.clone(),
            name: "main".to_owned(),
            parent: None,
        })
        .expect("a new branch");
        Self { _home: home, log, session, branch }
    }

    fn append(&self, events: u64) {
        let drafts =
            (0..events).map(|n| Draft::new(Kind::ToolCompleted, &json!({"n": n, "pad": PAD})));
        let append = Append::new(self.session.clone(), self.branch.clone(), drafts.collect());
        self.log.append(append).expect("an append");
    }
}

fn alone_on_the_disk(_memory: &Path, scale: u64) {
    let bench = Bench::new(&std::env::temp_dir());
    let mut raw = tempfile::tempfile().expect("a temporary file");
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS / scale {
        floor.push(timed(|| sync_raw(&mut raw)));
        ours.push(timed(|| bench.append(1)));
    }
    let (p99, ours, floor) =
        (quantile(&mut ours, 0.99), quantile(&mut ours, 0.5), quantile(&mut floor, 0.5));
    let text = format!(
        "append: {} us an event alone on the disk (p99 {}), {} us a raw fdatasync of 512 bytes,",
        ours.as_micros(),
        p99.as_micros(),
        floor.as_micros()
    );
    line(&text, ours.as_secs_f64() / floor.as_secs_f64(), 3.0);
}

fn sync_raw(file: &mut File) {
    file.write_all(&[7; 512]).and_then(|()| file.sync_data()).expect("a write");
}

fn alone_in_memory(memory: &Path, scale: u64) {
    let events = 20_000 / scale;
    let bench = Bench::new(memory);
    bench.append(1);
    let used = cpu(|| (0..events).for_each(|_| bench.append(1)));
    report_cpu("alone", used, events, 15.0);
}

/// What SQLite itself and hashing take for the same bytes, without threads, chain, tree or heads:
/// the part of an append that no code of ours can save on this machine.
fn floor_in_memory(memory: &Path, scale: u64) {
    let home = tempfile::tempdir_in(memory).expect("a temporary directory");
    let raw = rusqlite::Connection::open(home.path().join("raw.db")).expect("a database");
    raw.pragma_update(None, "journal_mode", "wal").expect("a setting");
    raw.pragma_update(None, "synchronous", "full").expect("a setting");
    raw.execute_batch("CREATE TABLE e (k INTEGER PRIMARY KEY, p INTEGER UNIQUE, b BLOB)")
        .expect("a table");
    let bytes = [7; EVENT_BYTES];
    let mut insert = raw.prepare("INSERT INTO e (p, b) VALUES (?1, ?2)").expect("a statement");
    let mut next = 0_i64;
    let mut store = |events: u64| {
        for _ in 0..events {
            next += 1;
            insert.execute((next, bytes.as_slice())).expect("an insert");
        }
    };
    let alone = 20_000 / scale;
    let used = cpu(|| store(alone));
    println!("floor: {:.1} us CPU per event alone in SQLite only", each_us(used, alone));
    let rounds = 1_000 / scale;
    let used = cpu(|| {
        for _ in 0..rounds {
            raw.execute_batch("BEGIN").expect("a transaction");
            store(64);
            raw.execute_batch("COMMIT").expect("a commit");
        }
    });
    println!(
        "floor: {:.1} us CPU per event in groups of 64 in SQLite only",
        each_us(used, rounds * 64)
    );
    let hashes = 100_000 / scale;
    let used = cpu(|| {
        for _ in 0..hashes {
            // Body, header, leaf and, on average, one node of the tree.
            for part in [BODY_BYTES, EVENT_BYTES - BODY_BYTES, 33, 65] {
                std::hint::black_box(Digest::of(std::hint::black_box(&bytes[..part])));
            }
        }
    });
    println!("floor: {:.1} us CPU per event for SHA-256 only", each_us(used, hashes));
}

fn in_batches(memory: &Path, scale: u64) {
    let bench = Bench::new(memory);
    bench.append(64);
    let rounds = 1_000 / scale;
    let used = cpu(|| (0..rounds).for_each(|_| bench.append(64)));
    report_cpu("in appends of 64", used, rounds * 64, 3.0);
}

fn report_cpu(how: &str, used: Duration, events: u64, bound_us: f64) {
    let each_us = each_us(used, events);
    line(
        &format!("append: {each_us:.1} us CPU per event {how}, promised {bound_us} us,"),
        each_us / bound_us,
        1.0,
    );
}

fn each_us(used: Duration, events: u64) -> f64 {
    used.as_secs_f64() * 1e6 / whole(events)
}

fn by_many_writers(directory: &Path, place: &str, scale: u64) {
    let bench = Bench::new(directory);
    bench.append(1);
    let before = bench.log.stats();
    let started = Instant::now();
    let used = cpu(|| {
        std::thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope
                    .spawn(|| (0..EVENTS_PER_WRITER.div_ceil(scale)).for_each(|_| bench.append(1)));
            }
        });
    });
    let seconds = started.elapsed().as_secs_f64();
    let after = bench.log.stats();
    let (events, commits) = (after.events - before.events, after.commits - before.commits);
    let text = format!(
        "append: {:.1} events a sync with {WRITERS} writers on {place} ({:.0} a second), promised 48,",
        whole(events) / whole(commits),
        whole(events) / seconds
    );
    line(&text, 48.0 * whole(commits) / whole(events), 1.0);
    report_cpu(&format!("with {WRITERS} writers on {place}"), used, events, 3.0);
}

fn reads(memory: &Path, scale: u64) {
    let events = EVENTS / scale;
    let bench = Bench::new(memory);
    let few = events / 10;
    (0..few / 1000).for_each(|_| bench.append(1000));
    let mut last: Vec<_> = (0..PAIRS)
        .map(|_| {
            timed(|| {
                let read = bench.log.read(&bench.branch, few, 1).expect("a read");
                assert_eq!(read.len(), 1);
            })
        })
        .collect();
    let (p99, last) = (quantile(&mut last, 0.99), quantile(&mut last, 0.5));
    let text = format!(
        "read: {} us the last of {few} events (p99 {}), promised 200 us,",
        last.as_micros(),
        p99.as_micros()
    );
    line(&text, last.as_secs_f64() / 200e-6, 1.0);

    (0..(events - few) / 1000).for_each(|_| bench.append(1000));
    let mut forks: Vec<_> = (0..50)
        .map(|n| {
            let new = NewBranch {
                session: bench.session.clone(),
                branch: format!("b_fork{n}").parse().expect("an id"),
                name: format!("fork{n}"),
                parent: Some((bench.branch.clone(), events)),
            };
            timed(|| bench.log.create_branch(new).expect("a fork"))
        })
        .collect();
    let fork = quantile(&mut forks, 0.5);
    let text = format!("fork: {} us at event {events}, promised 5000 us,", fork.as_micros());
    line(&text, fork.as_secs_f64() / 5e-3, 1.0);

    let mut seen = 0;
    let took = timed(|| {
        while seen < events {
            let page = bench.log.records(&bench.branch, seen + 1, 10_000).expect("a read");
            seen += u64::try_from(page.len()).expect("a length");
        }
    });
    rate("replay: proved", events, took, 500_000.0);
    let took = timed(|| {
        assert_eq!(
            bench.log.events(&bench.branch).filter(Result::is_ok).count(),
            usize::try_from(events).expect("a count")
        )
    });
    rate("replay: proved and decoded", events, took, 300_000.0);
    let took = timed(|| assert!(bench.log.verify().expect("a result").is_ok()));
    rate("verify: chain, tree and signed heads,", events, took, 300_000.0);
}

/// How soon a log with many sessions is there, and can be written to and listed.
fn with_many_sessions(memory: &Path, scale: u64) {
    let sessions = SESSIONS / scale;
    let home = tempfile::tempdir_in(memory).expect("a temporary directory");
    let open = || Log::open(home.path(), &TenantId::local()).expect("a log");
    let id = |n: u64| {
        (format!("s_{n}").parse().expect("an id"), format!("b_{n}").parse().expect("an id"))
    };
    let event = || Draft::new(Kind::Heartbeat, &json!({ "summary": PAD }));
    let log = open();
    for n in 0..sessions {
        let (session, branch) = id(n);
        let new = NewBranch { session, branch, name: "main".to_owned(), parent: None };
        log.create_branch_with(new, vec![event(); EVENTS_PER_SESSION]).expect("a session");
    }
    drop(log);
    let mut starts: Vec<_> = (0..20)
        .map(|n| {
            let (session, branch) = id(n % sessions);
            timed(|| {
                drop(open().append(Append::new(session, branch, vec![event()])).expect("an append"))
            })
        })
        .collect();
    let start = quantile(&mut starts, 0.5);
    let text = format!(
        "start: {:.1} ms to open a log with {sessions} sessions, append and close, promised 50 ms,",
        start.as_secs_f64() * 1e3
    );
    line(&text, start.as_secs_f64() / 50e-3, 1.0);
    let log = open();
    let mut lists: Vec<_> =
        (0..20).map(|_| timed(|| drop(log.sessions().expect("a list")))).collect();
    let list = quantile(&mut lists, 0.5);
    let text = format!(
        "list: {:.1} ms for {sessions} sessions, promised 50 ms,",
        list.as_secs_f64() * 1e3
    );
    line(&text, list.as_secs_f64() / 50e-3, 1.0);
}

fn rate(what: &str, events: u64, took: Duration, promised: f64) {
    let found = whole(events) / took.as_secs_f64();
    line(
        &format!("{what} {found:.0} events a second, promised {promised:.0},"),
        promised / found,
        1.0,
    );
}

fn timed(run: impl FnOnce()) -> Duration {
    let started = Instant::now();
    run();
    started.elapsed()
}

/// Processor time of all threads.
fn cpu(run: impl FnOnce()) -> Duration {
    let now = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Duration::new(
            u64::try_from(time.tv_sec).expect("time is positive"),
            u32::try_from(time.tv_nsec).expect("nanoseconds fit"),
        )
    };
    let started = now();
    run();
    now() - started
}

fn quantile(times: &mut [Duration], of: f64) -> Duration {
    times.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index of a short list"
    )]
    let at = (times.len() as f64 * of) as usize;
    times[at.min(times.len() - 1)]
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn whole(count: u64) -> f64 {
    count as f64
}
