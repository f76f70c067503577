//! What code may use, and what ends it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glasshouse_sandbox::Cancel;
use glasshouse_script::{
    Error, Finding, Found, GraphLimits, Kind, Library, Limit, Limits, Runtime, Task,
};

use crate::support::{element, ended, engine, host, made, ran, rendered, task, text};

/// How long a run with a limit of 200 ms may take on a machine that others load, too: what is tested here
/// is that it ends, the benchmark tells when.
const PATIENCE_US: u64 = 2_000_000;

fn short() -> Task {
    Task { limits: Limits { time_ms: 200, ..Limits::default() }, ..task(Runtime::Renderify) }
}

/// Runs a source that does not stop by itself; it must be gone soon after its limit, by itself or by
/// a kill.
fn check_stopped(code: &str, limits: &[Limit]) {
    let started = Instant::now();
    let (end, receipt) = ended(code, &short());
    let took = started.elapsed();
    assert_eq!(end, "script_limit", "{code}");
    let receipt = receipt.unwrap();
    assert!(receipt.limit.is_some_and(|limit| limits.contains(&limit)), "{code}: {receipt:?}");
    assert!(receipt.duration_us < PATIENCE_US, "{code}: {receipt:?}");
    // The rest is making sandboxes, on a machine that others use, too.
    assert!(took < Duration::from_secs(5), "{code}: {took:?}");
}

#[test]
fn g1_endless_code_ends_at_its_limit() {
    for code in [
        "export default () => { while (true) {} }",
        "while (true) {} export default 1",
        "export default () => { for (;;) { try { while (true) {} } catch {} } }",
        "export default () => { const f = () => { try { f() } finally { f() } }; f() }",
        "export default async () => { for (;;) await 0 }",
        "export default () => /(a+)+$/.test('a'.repeat(40) + 'b')",
        // One call that the engine never asks in: only a kill ends it.
        "export default () => { const s = 'a'.repeat(3e7); let n = 0; for (;;) n += s.indexOf('b') }",
        "export default () => new Array(1_000_000_000) + ''",
        "export default () => ({ toJSON() { for (;;) {} } })",
        "export default () => ({ get type() { for (;;) {} } })",
    ] {
        check_stopped(code, &[Limit::Time, Limit::Memory, Limit::Jobs]);
    }
}

#[test]
fn bombs_end_at_a_limit() {
    for code in [
        "export default () => { const a = []; for (;;) a.push(new Array(1000).fill(1)) }",
        "export default () => { let s = 'x'; for (;;) s += s }",
        "export default () => new Uint8Array(1 << 30).length",
        "export default () => { const f = (n: number): number => 1 + f(n + 1); return f(0) }",
        "export default () => JSON.parse('['.repeat(1e6))",
        "export default () => { let a: any = []; for (;;) a = [a, a] }",
        "export default () => { const p = () => Promise.resolve().then(p); return p() }",
        "export default () => { const a: any[] = []; for (;;) a.push(Symbol('x'.repeat(1000))) }",
        "export default () => 'x'.repeat(2 ** 29)",
        "export default () => new Map(function* () { let n = 0; for (;;) yield [n++, {}] as any }()).size",
    ] {
        let (end, receipt) = ended(code, &short());
        assert!(["script_limit", "script_failed"].contains(&end.as_str()), "{code}: {end}");
        assert!(receipt.unwrap().duration_us < PATIENCE_US, "{code}");
    }
}

#[test]
fn g2_honest_work_is_not_stopped_by_a_count() {
    let code = "export default () => { let n = 0; for (let i = 0; i < 10_001; i += 1) n += 1; return String(n) }";
    assert_eq!(made(code).unwrap(), text("10001"));
}

#[test]
fn what_code_makes_is_bounded() {
    let small = Task {
        limits: Limits { output_bytes: 10_000, ..Limits::default() },
        ..task(Runtime::Renderify)
    };
    for (size, want) in [(1_000, true), (20_000, false)] {
        let code = format!("export default () => 'x'.repeat({size})");
        let ran = ran(&code, &small).unwrap();
        assert_eq!(ran.node.is_ok(), want, "{size}");
        assert_eq!(ran.receipt.limit, (!want).then_some(Limit::Output), "{size}");
    }
    let deep = "export default () => { let n: any = <i/>; for (let i = 0; i < 100; i += 1) n = <b>{n}</b>; return n }";
    for end in [made(deep), rendered(deep)] {
        assert_eq!(end.unwrap_err().code(), "script_output_invalid");
    }
}

#[test]
fn steps_of_promises_are_counted() {
    let few = Task { limits: Limits { jobs: 10, ..Limits::default() }, ..task(Runtime::Renderify) };
    let (end, receipt) = ended(
        "export default async () => { for (let i = 0; i < 100; i += 1) await 0; return 'x' }",
        &few,
    );
    assert_eq!(end, "script_limit");
    assert_eq!(receipt.unwrap().limit, Some(Limit::Jobs));
}

/// The failure: each promise that was waited for had the whole count for itself.
#[test]
fn steps_of_promises_are_counted_for_the_whole_run() {
    let few = Task { limits: Limits { jobs: 40, ..Limits::default() }, ..task(Runtime::Renderify) };
    let steps = |count: u32| format!("for (let i = 0; i < {count}; i += 1) await 0;");
    for (first, second, want) in [(10, 10, None), (30, 30, Some(Limit::Jobs))] {
        let code = format!(
            "{} export default async () => {{ {} return 'x' }}",
            steps(first),
            steps(second)
        );
        assert_eq!(ran(&code, &few).unwrap().receipt.limit, want, "{first} {second}");
    }
}

/// The failure: code that threw nothing, or a text with the right words, was told to have reached a limit. Now
/// only the engine and the kernel tell one, and what code throws is what it threw.
#[test]
fn a_limit_is_not_what_code_says() {
    for (thrown, why) in [
        ("null", "a value of type null was thrown"),
        ("'out of memory'", "out of memory"),
        ("new Error('out of memory')", "Error: out of memory"),
        ("new Error('stack overflow')", "Error: stack overflow"),
        ("new RangeError('Maximum call stack size exceeded')", "RangeError: Maximum"),
        ("new Error('interrupted')", "Error: interrupted"),
        ("{ toString() { return 'out of memory' } }", "a value of type object was thrown"),
    ] {
        let code = format!("export default () => {{ throw {thrown} }}");
        let ran = ran(&code, &task(Runtime::Renderify)).unwrap();
        let error = ran.node.unwrap_err();
        assert_eq!((error.code(), ran.receipt.limit), ("script_failed", None), "{thrown}");
        assert!(error.report().why.contains(why), "{thrown}: {}", error.report().why);
    }
    // The control: code that does use it up reaches the limit, whatever it throws then.
    for code in [
        "export default () => { const a = []; for (;;) a.push(new Array(1000).fill(1)) }",
        "export default () => { const a = []; try { for (;;) a.push('x'.repeat(1e5)) } catch { throw null } }",
    ] {
        let (end, receipt) = ended(code, &task(Runtime::Renderify));
        assert_eq!(end, "script_limit", "{code}");
        assert_eq!(receipt.unwrap().limit, Some(Limit::Memory), "{code}");
    }
}

/// What is read of an error may be code: it has the time of the run and no more.
#[test]
fn an_error_that_is_read_is_still_in_time() {
    for thrown in [
        "{ get name() { for (;;) {} } }",
        "Object.defineProperty(new Error('x'), 'message', { get() { for (;;) {} } })",
        "Object.defineProperty(new Error('x'), 'name', { get() { throw new Error('y') } })",
        "new Error('x'.repeat(1e6))",
    ] {
        let (end, receipt) = ended(&format!("export default () => {{ throw {thrown} }}"), &short());
        assert!(["script_limit", "script_failed"].contains(&end.as_str()), "{thrown}: {end}");
        assert!(receipt.unwrap().duration_us < PATIENCE_US, "{thrown}");
    }
}

/// Few bytes make a tree that no reader by recursion survives; it is read where that ends nothing else.
#[test]
fn sources_that_break_the_compiler_break_a_process_only() {
    for part in
        ["!", "-", "a=>", "a?b:", "new ", "a.b+", "`${", "if(a)", "a=", "[a]+", "class A extends "]
    {
        let code = format!("var a: any, b: any; {}1", part.repeat(100_000));
        let (end, _) = ended(&code, &short());
        let known =
            ["script_source_invalid", "script_limit", "script_source_denied", "script_failed"];
        assert!(known.contains(&end.as_str()), "{part}: {end}");
    }
    assert_eq!(made("export default () => 'alive'").unwrap(), text("alive"));
}

#[test]
fn a_cancelled_run_is_over_and_says_so() {
    let worker = engine().worker(host()).unwrap();
    let cancel = Cancel::new().unwrap();
    let manifest = Default::default();
    let source = glasshouse_script::Source::new(
        "export default () => { while (true) {} }",
        glasshouse_script::Language::Js,
        Runtime::Renderify,
        &manifest,
    );
    let program = worker.compile(&source, &Cancel::new().unwrap()).unwrap();
    let later = cancel.clone();
    let canceller = std::thread::spawn(move || later.cancel());
    let long = Task { limits: Limits { time_ms: 20_000, ..Limits::default() }, ..short() };
    // Also when it comes before the code began.
    let ended = worker.run(&program, &long, &cancel);
    canceller.join().unwrap();
    if let Ok(ran) = ended {
        assert_eq!(ran.receipt.killed, Some("cancelled"));
        assert_eq!(ran.node.unwrap_err().code(), "script_failed");
        assert!(ran.receipt.duration_us < 10_000_000);
    }
}

#[test]
fn a_thousand_elements_are_no_trouble() {
    let code = "const Row = (p: { n: number }) => <li class='row'>{p.n}</li>;
        export default () => <ul>{Array.from({ length: 1000 }, (_, n) => <Row n={n}/>)}</ul>";
    let node = rendered(code).unwrap();
    assert_eq!(node["children"].as_array().unwrap().len(), 1000);
    let row = element("li", serde_json::json!({"class": "row"}), vec![text("999")]);
    assert_eq!(node["children"][999], row);
}

/// A worker that waited serves one plan: what that plan does is not there for the next, and when none
/// waits one is made.
#[test]
fn a_prepared_worker_serves_one_plan() {
    let engine = glasshouse_script::Engine::new();
    engine.prepare(host(), 2).unwrap();
    engine.prepare(host(), 2).unwrap();
    assert_eq!(engine.prepared(), 2);
    let (cancel, manifest) = (Cancel::new().unwrap(), Default::default());
    for (left, code, want) in [
        (1, "export default () => { const a = []; for (;;) a.push(new Array(1000).fill(1)) }", ""),
        (0, "export default () => 'x'", "x"),
        (0, "export default () => 'y'", "y"),
    ] {
        let source = glasshouse_script::Source::new(
            code,
            glasshouse_script::Language::Js,
            Runtime::Renderify,
            &manifest,
        );
        let worker = engine.worker(host()).unwrap();
        let program = worker.compile(&source, &cancel).unwrap();
        let ran = worker.run(&program, &short(), &cancel).unwrap();
        assert_eq!(ran.node.ok(), (!want.is_empty()).then(|| text(want)), "{code}");
        assert_eq!(engine.prepared(), left, "{code}");
    }
}

/// Hosts that are slow: each module comes late and leads to the next one, of so many.
struct Slow {
    modules: usize,
    bytes: usize,
    late: Duration,
    asked: std::cell::Cell<usize>,
}

impl Library for Slow {
    fn get(&self, address: &str, _: usize) -> Result<Option<Found>, Error> {
        self.asked.set(self.asked.get() + 1);
        std::thread::sleep(self.late);
        let at: usize = address.rsplit(['/', '.']).nth(1).unwrap().parse().unwrap();
        let next = if at + 1 < self.modules {
            format!("import './{}.js';", at + 1)
        } else {
            String::new()
        };
        let code = format!("{next}{}", " ".repeat(self.bytes));
        let (address, bytes) = (address.to_owned(), Arc::new(code.into_bytes()));
        Ok(Some(Found { address, kind: Kind::Script, bytes }))
    }
}

/// All modules of a graph together have a time and a size, whatever each of them has.
#[test]
fn a_graph_is_bounded_in_time_and_in_bytes() {
    let worker = engine().worker(host()).unwrap();
    let (cancel, manifest) = (Cancel::new().unwrap(), BTreeMap::new());
    let check = |slow: Slow, limits: GraphLimits, want: Result<usize, (&str, u64)>| {
        let runtime = Runtime::Renderify;
        let finding = Finding { library: &slow, manifest: &manifest, limits, runtime };
        let begun = Instant::now();
        let found = worker.graph(&["https://x.example/0.js".to_owned()], &finding, &cancel);
        let told = found.map(|graph| graph.nodes.len()).map_err(|error| {
            assert_eq!(error.code(), "script_module_limit", "{error}");
            let context = error.report().context;
            (context["limit"].as_str().unwrap().to_owned(), context["max"].as_u64().unwrap())
        });
        let want = want.map_err(|(limit, max)| (limit.to_owned(), max));
        assert_eq!(told, want, "{limits:?}");
        // What is over its limit asks for nothing more.
        assert!(slow.asked.get() < 20, "{} were asked for", slow.asked.get());
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    };
    let slow = |modules, bytes, late_ms| Slow {
        modules,
        bytes,
        late: Duration::from_millis(late_ms),
        asked: Default::default(),
    };
    let whole = GraphLimits::default();
    check(slow(3, 0, 0), whole, Ok(3));
    check(slow(40, 0, 100), GraphLimits { time_ms: 400, ..whole }, Err(("time_ms", 400)));
    check(slow(3, 1_000, 0), GraphLimits { bytes: 4_000, ..whole }, Ok(3));
    check(slow(40, 1_000, 0), GraphLimits { bytes: 4_000, ..whole }, Err(("bytes", 4_000)));
    check(slow(40, 0, 0), GraphLimits { modules: 5, ..whole }, Err(("modules", 5)));
    check(slow(40, 0, 0), GraphLimits { depth: 6, ..whole }, Err(("depth", 6)));
}
