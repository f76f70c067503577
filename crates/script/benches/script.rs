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

struct Place {
    host: SandboxHost,
    _home: tempfile::TempDir,
}

fn main() {
    let runs = std::env::args().skip(1).find_map(|text| text.parse().ok()).unwrap_or(RUNS);
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
    let endless = "export default () => { const s = 'a'.repeat(3e7); let n = 0; for (;;) n += s.indexOf('b') }";
    let mut late: Vec<u64> = (0..20)
        .map(|_| run_with(&place, &first, endless, 200).receipt.duration_us.saturating_sub(200_000))
        .collect();
    late.sort_unstable();
    println!("{:44} {:>9.3} ms", "killed after its deadline, worst of 20", late[19] as f64 / 1e3);
    node();
}

/// One call of a policy's rules: a worker that is kept, and a process for each call.
fn rules(place: &Place, engine: &Engine, runs: usize) {
    let manifest = BTreeMap::new();
    let code = "export function evaluate(call: any) {
        if (call.syscall === 'fs.write' && call.path.endsWith('.sql'))
            return { effect: 'require_review', reason: 'the schema changes' };
    }";
    let runtime = Runtime::Renderify;
    let source = Source { code, language: Language::Ts, runtime, manifest: &manifest };
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
    let source =
        Source { code, language: Language::Tsx, runtime: Runtime::Preact, manifest: &manifest };
    compile(&source).unwrap();
}

fn run(place: &Place, engine: &Engine, code: &str) -> Ran {
    let ran = run_with(place, engine, code, 5_000);
    assert!(ran.node.is_ok(), "{:?}", ran.node);
    ran
}

fn run_with(place: &Place, engine: &Engine, code: &str, time_ms: u64) -> Ran {
    let manifest = BTreeMap::new();
    let source =
        Source { code, language: Language::Tsx, runtime: Runtime::Preact, manifest: &manifest };
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
    let cancel = Cancel::new().unwrap();
    let worker = engine.worker(&place.host).unwrap();
    let program = worker.compile(&source, &cancel).unwrap();
    worker.run(&program, &task, &cancel).unwrap()
}

fn median(runs: usize, mut act: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let begun = Instant::now();
            act();
            begun.elapsed()
        })
        .collect();
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
fn node() {
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
