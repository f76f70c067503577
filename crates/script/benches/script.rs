//! What code of plans costs: medians in one run, and beside them Node.js rendering with the same files of
//! Preact, where there is one. Prints one line a figure.
//!
//! `cargo bench -p glasshouse-script [-- RUNS]`
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use glasshouse_sandbox::{Cancel, HostConfig, SandboxHost};
use glasshouse_script::{Engine, Language, Limits, Ran, Runtime, Source, Task, compile};

const RUNS: usize = 200;

const COUNTER: &str = "import { useState } from 'preact/hooks';
export default function Counter() {
  const [count, setCount] = useState(0);
  return <button onClick={() => setCount(c => c+1)}>Count: {count}</button>;
}";
const LIST: &str = "const Row = (p: { n: number }) => <li class='row'>{p.n}</li>;
export default () => <ul>{Array.from({ length: 1000 }, (_, n) => <Row n={n}/>)}</ul>";

/// One call that the engine never asks in.
const DEAF: &str =
    "export default () => { const s = 'a'.repeat(3e7); let n = 0; for (;;) n += s.indexOf('b') }";
/// What others do meanwhile.
const ATTACKS: &[&str] = &[
    "export default () => { for (;;) {} }",
    DEAF,
    "export default () => { const a = []; for (;;) { try { for (;;) a.push(new Array(1e5).fill(1)) } catch {} } }",
    "export default () => { for (;;) /(a+)+$/.test('a'.repeat(40) + 'b') }",
];

struct Place {
    host: SandboxHost,
    _home: tempfile::TempDir,
}

fn main() {
    let few = std::env::var_os("GLASSHOUSE_BENCH_SHORT").map(|_| 20);
    let asked = std::env::args().skip(1).find_map(|text| text.parse().ok());
    let runs = asked.or(few).unwrap_or(RUNS);
    let home = tempfile::tempdir().unwrap();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_glasshouse-scriptd"));
    let config = HostConfig { program, home: home.path().to_owned() };
    let place = Place { host: SandboxHost::start(config).unwrap(), _home: home };

    let large: String = std::iter::once(COUNTER.to_owned())
        .chain((0..200).map(|n| {
            format!("export const C{n} = (p: {{ a: number }}) =>\n  <p class='c'>\n    {{p.a}}\n  </p>;\n")
        }))
        .collect::<Vec<_>>()
        .join("\n");
    report("compile, 5 lines, in process", &median(runs, || compiled(COUNTER)));
    report("compile, 1,000 lines, in process", &median(runs, || compiled(&large)));

    let first = Engine::new();
    let begun = Instant::now();
    let ran = run(&place, &first, COUNTER);
    println!(
        "{:44} {:>9.3} ms",
        "first run of all: compile Preact and source",
        ms(begun.elapsed())
    );
    println!("isolation {}, engine {}", ran.receipt.isolation, ran.receipt.engine);
    let mut fresh = 0;
    report(
        "run of a new source",
        &median(runs, || {
            fresh += 1;
            run(&place, &first, &format!("{COUNTER}\nexport const n = {fresh}"));
        }),
    );
    report("run of a known source", &median(runs, || drop(run(&place, &first, COUNTER))));
    let inside = |code: &'static str| {
        let mut times: Vec<u64> =
            (0..runs).map(|_| run(&place, &first, code).receipt.duration_us).collect();
        times.sort_unstable();
        Duration::from_micros(times[times.len() / 2])
    };
    report("of it, the engine's process", &inside(COUNTER));
    report("1,000 elements, known source", &median(runs, || drop(run(&place, &first, LIST))));
    report("of it, the engine's process", &inside(LIST));
    report(
        "a worker made and ended",
        &median(runs, || {
            drop(first.worker(&place.host).unwrap());
        }),
    );
    rules(&place, &first, runs);
    prepared(&place, &first, runs);
    kills(&place, &first);
    neighbour(&place, &first, runs);
    node(&place, &first, runs);
}

/// A promise and how it is kept.
fn promise(what: &str, ratio: f64, bound: f64) {
    let verdict = if ratio <= bound { "ok" } else { "MISSED" };
    println!("{what}  ratio={ratio:.2} bound={bound} {verdict}");
}

/// A run on a worker that waited, beside one on a worker that is made for it.
fn prepared(place: &Place, engine: &Engine, runs: usize) {
    let (mut made, mut waiting) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        made.push(timed(|| drop(run(place, engine, COUNTER))));
        engine.prepare(&place.host, 1).unwrap();
        waiting.push(timed(|| drop(run(place, engine, COUNTER))));
    }
    let (made, waiting) = (middle(made), middle(waiting));
    let what = format!("run on a prepared worker {:.2} ms, made {:.2} ms", ms(waiting), ms(made));
    promise(&what, ms(waiting) / ms(made), 1.0);
}

/// How late code is ended that never looks at a clock.
fn kills(place: &Place, engine: &Engine) {
    let mut late: Vec<u64> = (0..20)
        .map(|_| run_with(place, engine, DEAF, 200).receipt.duration_us.saturating_sub(200_000))
        .collect();
    late.sort_unstable();
    let (middle, worst) = (late[10] as f64 / 1e3, late[19] as f64 / 1e3);
    promise(
        &format!("killed after a deadline, {middle:.1} ms late, worst of 20 {worst:.1} ms"),
        worst,
        100.0,
    );
}

/// What a neighbour's runs take while others attack for as long as they may, beside what they take alone.
fn neighbour(place: &Place, engine: &Engine, runs: usize) {
    let rounds = (runs / 20).max(ATTACKS.len());
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let one = |into: &mut Vec<Duration>| into.push(timed(|| drop(run(place, engine, COUNTER))));
    for round in 0..rounds {
        for _ in 0..100 {
            one(&mut alone);
        }
        std::thread::scope(|scope| {
            let attack = ATTACKS[round % ATTACKS.len()];
            let attacking = scope.spawn(move || {
                let ran = run_with(place, engine, attack, Limits::default().time_ms);
                assert!(ran.node.is_err(), "it ended by itself: {attack}");
            });
            while !attacking.is_finished() {
                one(&mut beside);
            }
        });
    }
    let (count, alone, beside) = (beside.len(), middle(alone), middle(beside));
    let what = format!(
        "neighbour of an attack, p50 of {count} runs {:.2} ms, alone {:.2} ms",
        ms(beside),
        ms(alone)
    );
    promise(&what, ms(beside) / ms(alone), 1.2);
}

/// One call of a policy's rules: a worker that is kept, and a process for each call.
fn rules(place: &Place, engine: &Engine, runs: usize) {
    let manifest = BTreeMap::new();
    let code = "export function evaluate(call: any) {
        if (call.syscall === 'fs.write' && call.path.endsWith('.sql'))
            return { effect: 'require_review', reason: 'the schema changes' };
    }";
    let runtime = Runtime::Renderify;
    let source = Source::new(code, Language::Ts, runtime, &manifest);
    let task = Task {
        export: "evaluate".to_owned(),
        or_default: false,
        makes: glasshouse_script::Makes::Data,
        runtime,
        input: serde_json::json!({"syscall": "fs.write", "path": "db/1.sql"}),
        now_ms: 0,
        seed: 1,
        limits: Limits { time_ms: 100, ..Limits::default() },
    };
    let cancel = Cancel::new().unwrap();
    let worker = engine.worker(&place.host).unwrap();
    let program = worker.compile(&source, &cancel).unwrap();
    let call = || worker.call(&program, &task, &cancel).unwrap().node.unwrap();
    assert_eq!(call()["effect"], "require_review");
    report("one call of rules in TypeScript", &median(runs, || drop(call())));
}

fn compiled(code: &str) {
    let manifest = BTreeMap::new();
    let source = Source::new(code, Language::Tsx, Runtime::Preact, &manifest);
    compile(&source).unwrap();
}

fn run(place: &Place, engine: &Engine, code: &str) -> Ran {
    let ran = run_with(place, engine, code, 5_000);
    assert!(ran.node.is_ok(), "{:?}", ran.node);
    ran
}

fn run_with(place: &Place, engine: &Engine, code: &str, time_ms: u64) -> Ran {
    let cancel = Cancel::new().unwrap();
    let manifest = BTreeMap::new();
    let source = Source::new(code, Language::Tsx, Runtime::Preact, &manifest);
    let task = Task {
        export: "default".to_owned(),
        or_default: false,
        makes: glasshouse_script::Makes::Node,
        runtime: Runtime::Preact,
        input: serde_json::json!({}),
        now_ms: 0,
        seed: 1,
        limits: Limits { time_ms, ..Limits::default() },
    };
    let worker = engine.worker(&place.host).unwrap();
    let program = worker.compile(&source, &cancel).unwrap();
    worker.run(&program, &task, &cancel).unwrap()
}

fn median(runs: usize, mut act: impl FnMut()) -> Duration {
    middle((0..runs).map(|_| timed(&mut act)).collect())
}

fn timed(mut act: impl FnMut()) -> Duration {
    let begun = Instant::now();
    act();
    begun.elapsed()
}

fn middle(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn report(name: &str, time: &Duration) {
    println!("{name:44} {:>9.3} ms", ms(*time));
}

/// Node.js, as one process per render and as renders in a process that is warm.
fn node(place: &Place, engine: &Engine, runs: usize) {
    let vendor = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("vendor");
    let work = tempfile::tempdir().unwrap();
    for (from, to) in [
        ("preact/preact.module.js", "preact/index.mjs"),
        ("preact-render-to-string/index.module.js", "preact-render-to-string/index.mjs"),
    ] {
        let to = work.path().join("node_modules").join(to);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(vendor.join(from), &to).unwrap();
        std::fs::write(
            to.with_file_name("package.json"),
            "{\"main\":\"index.mjs\",\"type\":\"module\"}",
        )
        .unwrap();
    }
    let script = "import { h } from 'preact'; import { renderToString } from 'preact-render-to-string';
        const Row = (p) => h('li', { class: 'row' }, p.n);
        const App = () => h('ul', null, Array.from({ length: 1000 }, (_, n) => h(Row, { n })));
        const one = () => { const t = performance.now(); renderToString(h(App)); return performance.now() - t };
        const first = one(); const times = Array.from({ length: 200 }, one).sort((a, b) => a - b);
        console.log(first.toFixed(3), times[100].toFixed(3));";
    std::fs::write(work.path().join("bench.mjs"), script).unwrap();
    pairs(place, engine, work.path(), runs.min(50));
    let begun = Instant::now();
    let output = Command::new("node").arg("bench.mjs").current_dir(work.path()).output();
    match output {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            let mut parts = text.split_whitespace();
            let mut next = || parts.next().unwrap_or("?").to_owned();
            println!("{:44} {:>9} ms", "node: 1,000 elements, first", next());
            println!("{:44} {:>9} ms", "node: 1,000 elements, warm", next());
            println!(
                "{:44} {:>9.3} ms",
                "node: its whole process with 201 renders",
                ms(begun.elapsed())
            );
        }
        _ => println!("node: not here"),
    }
}

/// One render in a sandbox of its own, beside one in a process of Node.js of its own, in turns.
fn pairs(place: &Place, engine: &Engine, work: &std::path::Path, pairs: usize) {
    let once =
        "import { h } from 'preact'; import { renderToString } from 'preact-render-to-string';
        const Row = (p) => h('li', { class: 'row' }, p.n);
        const App = () => h('ul', null, Array.from({ length: 1000 }, (_, n) => h(Row, { n })));
        if (renderToString(h(App)).length < 20000) process.exit(1);";
    std::fs::write(work.join("once.mjs"), once).unwrap();
    let there = |command: &mut Command| command.status().is_ok_and(|status| status.success());
    let one = || there(Command::new("node").arg("once.mjs").current_dir(work));
    if !one() {
        return;
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..pairs {
        ours.push(timed(|| drop(run(place, engine, LIST))));
        theirs.push(timed(|| assert!(one())));
    }
    let (ours, theirs) = (middle(ours), middle(theirs));
    let what = format!(
        "1,000 elements: a sandbox {:.1} ms, a process of node {:.1} ms",
        ms(ours),
        ms(theirs)
    );
    promise(&what, ms(ours) / ms(theirs), 1.0);
}
