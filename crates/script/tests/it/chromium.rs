//! The lanes of browsers in a real one: the attack page with a server on loopback that serves the documents under
//! their headers and counts what arrives. Every way out fires in a page without defences.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use glasshouse_sandbox::Cancel;
use glasshouse_script::{
    Error, Finding, Found, GraphLimits, Integrity, Kind, Language, Library, Runtime, Source,
    Stores, Task,
};
use serde_json::{Value, json};

use crate::headless::{self, browser};
use crate::sink::{BARE, NEVER, Server, lanes, show};
use crate::skips::skipped;
use crate::support::{engine, host, task};

/// How often a page is shown until everything arrived.
const TRIES: usize = 3;
/// Ways that may leave a frame whatever its rules say. Versions before let all of them out; of 156.0.8078.108 none
/// leaves, and a frame stands still on WebRTC.
const RESIDUE: &[&str] = &["preconnect", "webrtc"];
/// The same, of those that a name can be asked for by.
const RESIDUE_OF_NAMES: &str = "dns-prefetch";
/// Kinds of ways out, one name of each: what has no name here may be left out by mistake.
const CLASSES: &[&str] = &[
    "fetch",
    "xhr",
    "beacon",
    "image",
    "stylesheet",
    "font",
    "websocket",
    "eventsource",
    "script",
    "import",
    "worker",
    "shared-worker",
    "service-worker",
    "frame",
    "object",
    "form",
    "popup",
    "video",
    "track",
    "vector-image",
    "ping",
    "prefetch",
    "speculation-rules",
    "preload",
    "manifest",
    "audio-worklet",
    "fetch-later",
    "webtransport",
    "dns-prefetch",
    "preconnect",
    "webrtc",
];
/// Time that the attack page gives an endless loop.
const LOOP_MS: f64 = 300.0;
/// By how much an endless loop may be late, on a machine with nothing else to do.
const LATE_MS: f64 = 50.0;

/// What may arrive of a lane by name.
fn residue_of(lane: &str) -> BTreeSet<String> {
    (lane != "sandbox-worker").then(|| RESIDUE_OF_NAMES.to_owned()).into_iter().collect()
}

/// The names in the attack's tables.
fn names(table: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(lanes().join("attack/channels.js")).unwrap();
    let begin = text.find(&format!("exports.{table} = {{")).unwrap();
    let rest = &text[begin..];
    let rest = &rest[..rest.find("\n};").unwrap()];
    let name = |line: &str| {
        let line = line.strip_prefix("  ").filter(|line| !line.starts_with(' '))?;
        let (name, value) = line.split_once(": ")?;
        value.starts_with('(').then(|| name.trim_matches('\'').to_owned())
    };
    rest.lines().filter_map(name).collect()
}

#[test]
fn d7_lanes_in_chromium_let_out_what_they_say() {
    let name = "chromium::d7_lanes_in_chromium_let_out_what_they_say";
    let Some(program) = browser() else { return skipped(name, headless::NONE) };
    let server = Server::open();
    check_control(program, &server);
    server.forget();
    let attack = server.address("index.html", &server.input("lane", None));
    let report = show(program, &server, &attack, &|| false).expect("the attack reports");
    let lanes = &report["lanes"];
    for lane in ["sandbox-worker", "sandbox-iframe", "standard"] {
        let hits = server.hits(&format!("lane-{lane}"));
        assert!(hits.is_subset(&residue_of(lane)), "of {lane}: {hits:?}");
    }
    let residue: BTreeSet<String> = RESIDUE.iter().map(|name| (*name).to_owned()).collect();
    let bare = server.hits("bare");
    assert!(bare.is_subset(&residue), "what stays: {bare:?}");
    let (anywhere, pages, workers) = (names("anywhere"), names("pages"), names("workers"));
    for (lane, tried) in [
        ("sandbox-worker", anywhere.union(&workers).count()),
        ("sandbox-iframe", anywhere.union(&pages).count()),
    ] {
        let node = &lanes[lane]["node"];
        assert_eq!(node["tried"].as_array().map(Vec::len), Some(tried), "{lane}: {}", lanes[lane]);
        assert_eq!(node["reads"], json!({}), "{lane}");
        assert_eq!(lanes[lane]["effective"], *lane);
    }
    assert_eq!(lanes["standard"]["effective"], "sandbox-iframe");
    for lane in ["sandbox-shadowrealm", "isolated-vm"] {
        assert_eq!(lanes[lane]["effective"], Value::Null);
        assert_eq!(lanes[lane]["error"]["code"], "plan_lane_unavailable", "{lane}");
    }
    check_answers(&report);
    check_odd(&report);
    check_floods(&report["flood"]);
}

/// H8: an option that is not known is refused by its name, before there is a frame.
fn check_odd(report: &Value) {
    let odd = &report["odd"];
    for (name, code, words) in [
        ("sandbox", "usage", "options: there is no `sandbox`"),
        ("allow", "usage", "options: there is no `allow`"),
        ("in_the_task", "usage", "what is run: there is no `sandbox`"),
        ("of_the_task", "usage", "task: there is no `networkHosts`"),
        ("limit", "usage", "limits: there is no `memory`"),
        ("endless", "usage", "limits: `time_ms` is out of bounds"),
        ("no_time", "usage", "limits: `time_ms` is out of bounds"),
        ("no_number", "usage", "limits: `time_ms` is out of bounds"),
        ("no_code", "usage", "`code` is no text"),
        ("nothing", "usage", "`code` is no text"),
        ("alive", "usage", "the code stays alive"),
        ("not_alive", "usage", "the code does not stay alive"),
        ("no_page", "plan_lane_unavailable", "the lane sandbox-worker is not in this browser"),
    ] {
        let (told, error) = (&odd[name], &odd[name]["error"]);
        assert_eq!(
            (&told["effective"], &told["frames"]),
            (&Value::Null, &json!(0)),
            "{name}: {told}"
        );
        assert_eq!(
            (&error["code"], &error["what"]),
            (&json!(code), &json!(words)),
            "{name}: {told}"
        );
        for part in ["why", "fix"] {
            assert!(error[part].as_str().is_some_and(|text| text.len() > 8), "{name}: {told}");
        }
    }
    assert!(report["even"]["node"].is_object(), "the control: {}", report["even"]);
}

/// The failure: a frame passed on every answer that nobody had asked for, and answered every question, however many.
/// Now: the first such answer ends the run, and questions are answered once in a tenth of a second.
fn check_floods(flood: &Value) {
    let answers = &flood["answers"];
    assert_eq!(
        (&answers["killed"], &answers["limit"]),
        (&json!("limit"), &json!("messages")),
        "{flood}"
    );
    for name in ["frame.html", "worker.html"] {
        let told = &flood["questions"][name];
        assert_eq!(told["last"], "made", "{name}: {flood}");
        let (pongs, ms) = (told["pongs"].as_f64().unwrap(), told["ms"].as_f64().unwrap());
        assert!(pongs >= 1.0 && pongs <= 2.0 + ms / 100.0, "{name}: {flood}");
    }
}

/// Ways that this browser does not have at all, in a page or a worker.
fn absent(of: &Value) -> Vec<String> {
    of["absent"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// Every way fires in a page, or in a worker of it, from which nothing is taken.
fn check_control(program: &str, server: &Server) {
    let (anywhere, pages, workers) = (names("anywhere"), names("pages"), names("workers"));
    let mut of_page = &anywhere | &pages;
    of_page.extend(names("alone"));
    let of_worker: BTreeSet<String> = anywhere.union(&workers).cloned().collect();
    for class in CLASSES {
        assert!(of_page.contains(*class), "{class} is not tried");
    }
    let missing = |report: &Value| {
        let mut fired = server.hits("open");
        let mut in_worker = server.hits("open-worker");
        for bare in server.hits("bare") {
            match bare.strip_suffix("-of-worker") {
                Some(name) => in_worker.insert(name.to_owned()),
                None => fired.insert(bare),
            };
        }
        fired.extend(absent(&report["page"]));
        in_worker.extend(absent(&report["worker"]));
        let of_page = of_page.difference(&fired);
        let all = of_page.chain(of_worker.difference(&in_worker)).cloned();
        all.collect::<Vec<String>>()
    };
    let mut input = server.input("open", None);
    input["patience_ms"] = json!(1_000);
    let open = server.address("control.html", &input);
    let mut report = Value::Null;
    for _ in 0..TRIES {
        report = show(program, server, &open, &|| false).expect("the control reports");
        if missing(&report).is_empty() {
            break;
        }
    }
    assert_eq!(missing(&report), [""; 0], "did not fire");
    for way in absent(&report["page"]) {
        skipped(&format!("chromium::control_of_{way}"), "this Chromium has no such way");
    }
    let read: BTreeSet<String> =
        report["page"]["reads"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(read, names("reads"), "{report}");
    for last in names("last") {
        let address = server.address("control.html", &server.input("open", Some(&last)));
        // Its place is gone with it, so it reports nothing; what arrives is what counts.
        let arrived = || server.hits("open").contains(&last);
        show(program, server, &address, &arrived);
        assert!(arrived(), "{last} did not fire");
    }
}

/// The worker lane alone lets nothing out, also of the ways that have no name in a request.
#[test]
fn d7_g1_the_worker_lane_in_chromium_opens_no_connection() {
    let name = "chromium::d7_g1_the_worker_lane_in_chromium_opens_no_connection";
    let Some(program) = browser() else { return skipped(name, headless::NONE) };
    let server = Server::open();
    let mut input = server.input("alone", None);
    input["lanes"] = json!(["sandbox-worker"]);
    input["loops"] = json!(["sandbox-worker", "sandbox-iframe"]);
    let attack = server.address("index.html", &input);
    let report = show(program, &server, &attack, &|| false).expect("the attack reports");
    assert_eq!(report["lanes"]["sandbox-worker"]["node"]["reads"], json!({}));
    assert_eq!(server.arrived.lock().unwrap().hits, BTreeSet::new());
    for lane in ["sandbox-worker", "sandbox-iframe"] {
        check_ends(&report["loops"][lane]);
    }
}

/// Endless loops end, and the page around them goes on. A machine that is busy is late sometimes; a lane that does
/// not end its code, or that stops the page, does so always.
fn check_ends(loops: &Value) {
    let runs = loops.as_array().unwrap();
    let least = |key: &str| {
        let all = runs.iter().map(|run| run[key].as_f64().unwrap_or(f64::MAX));
        all.fold(f64::MAX, f64::min)
    };
    assert!(least("run_ms") <= LOOP_MS + LATE_MS, "{runs:?}");
    assert!(least("page_waited_ms") < LOOP_MS / 2.0, "the page stood still: {runs:?}");
    for run in runs {
        assert_eq!(run["killed"], "deadline", "{run}");
        assert_eq!(run["limit"], "time", "{run}");
        assert_eq!(run["error"]["code"], "script_limit", "{run}");
    }
}

/// What comes back is data of the task alone.
fn check_answers(report: &Value) {
    let cancelled = &report["cancelled"];
    assert_eq!(cancelled["killed"], "cancelled", "{cancelled}");
    assert!(cancelled["run_ms"].as_f64().unwrap() < 1_000.0, "{cancelled}");
    let again = &report["again"];
    let told = |at: usize| (again[at]["killed"].as_str(), again[at]["stopped_before"].as_bool());
    assert_eq!(told(0), (Some("deadline"), None), "{again}");
    assert_eq!(told(1), (None, Some(true)), "{again}");
    assert_eq!(again[1]["effective"], Value::Null, "{again}");
    assert_eq!(told(2), (Some("deadline"), None), "{again}");
    assert!(again[3]["node"].is_object() && again[4]["node"].is_object(), "{again}");
    check_kept(&report["kept"]);
    let honest = &report["honest"];
    for run in &honest.as_array().unwrap()[1..] {
        assert_eq!(honest[0]["node"], run["node"], "{honest}");
    }
    assert_eq!(honest.as_array().map(Vec::len), Some(4));
    let text = honest[0]["node"]["value"].as_str().unwrap();
    assert!(text.starts_with("5,1790000000000,0."), "{text}");
    for (name, code) in [
        ("big", "script_limit"),
        ("none", "script_failed"),
        ("throws", "script_failed"),
        ("syntax", "script_failed"),
    ] {
        assert_eq!(report["bad"][name]["error"]["code"], code, "{name}: {}", report["bad"][name]);
    }
    // Code may post what it likes: it is its own answer, and as much data as any other.
    assert_eq!(report["bad"]["forged"]["node"]["value"], "forged");
}

/// What is remembered of code is code that was stopped, and no more of it than fits.
fn check_kept(kept: &Value) {
    for run in kept["together"].as_array().unwrap() {
        assert_eq!(run["node"]["value"], "slow", "{kept}");
    }
    assert_eq!(kept["left"], 0, "{kept}");
    assert!(kept["full"]["node"].is_object(), "{kept}");
    assert_eq!(kept["stopped"]["killed"], "deadline", "{kept}");
    // A hundred with its own, and what is not of lanes.
    assert_eq!(kept["many"], json!([101, true, false, true]), "{kept}");
    assert_eq!(kept["told"]["stopped_before"], true, "{kept}");
    // The failure: code was remembered by a sum of 64 bits that can be solved, so a hostile plan that looped blocked an
    // honest one of the same sum. The sum was made for speed. Now: it is the SHA-256 of the text.
    assert_eq!(kept["by_digest"], true, "{kept}");
}

/// Two modules that import each other.
struct Two;

impl Library for Two {
    fn get(&self, address: &str, attempt: usize) -> Result<Option<Found>, Error> {
        let code = match address.rsplit('/').next() {
            Some("a.js") => {
                "import { b, default as five } from './b.js'; export const a = () => b() + five + 'a';"
            }
            Some("b.js") => {
                "import * as a from './a.js'; export default 5; export function b() { return typeof a.a; }"
            }
            _ => return Ok(None),
        };
        let bytes = Arc::new(code.as_bytes().to_vec());
        let found = Found { address: address.to_owned(), kind: Kind::Script, bytes };
        Ok((attempt == 0).then_some(found))
    }
}

/// A source that is compiled here makes in a browser, under rules that allow no code out of text, what it makes on a server.
#[test]
fn d4_compiled_sources_in_chromium_make_what_they_make_on_a_server() {
    let name = "chromium::d4_compiled_sources_in_chromium_make_what_they_make_on_a_server";
    let Some(program) = browser() else { return skipped(name, headless::NONE) };
    let sources = [
        "export default ({ state }) => <b class='x'>{state.count}<i>{[1, 'a', null]}</i></b>",
        "enum E { A = 3 } export default async (): Promise<string> => [E.A, Date.now(), Math.random()].join()",
        "const f = () => 'hi'; export { f as default }; export const g = 1",
        "export default ['a', null, <p>x</p>]",
        "const data = [3, 1, 2]; export default () => <svg viewBox='0 0 30 30'>{data.map((n, at) =>
            <rect x={at * 10} y={30 - n * 10} width={8} height={n * 10}/>)}</svg>",
        "export default class { static toJSON() { return 'no'; } }",
        "import { a } from 'https://ga.jspm.io/npm:x@1.0.0/a.js'; export default () => a()",
        "export default () => import('https://ga.jspm.io/npm:x@1.0.0/b.js').then((it) => it.b() + it.default)",
        "import { h } from 'preact'; export default () => typeof h('b').type",
        "localStorage.a = 'x'; let e = 0; try { localStorage.b = 'x'.repeat(6e6) } catch (it) { e = it.name }
            export default () => [localStorage.a, e, Object.keys(sessionStorage).length].join()",
    ];
    let (mut codes, mut made) = (Vec::new(), Vec::new());
    let missing = "export default () => 'the default'; export const other = () => 'x'";
    for (code, export) in sources
        .map(|code| (code, "default"))
        .into_iter()
        .chain([(missing, "missing"), (missing, "other")])
    {
        let export = export.to_owned();
        let task = Task { export, or_default: true, ..task(Runtime::Renderify) };
        let worker = engine().worker(host()).unwrap();
        let (cancel, manifest) = (Cancel::new().unwrap(), BTreeMap::new());
        let runtime = Runtime::Renderify;
        let stores = Stores::of(["localStorage", "sessionStorage"]);
        let source = Source { code, language: Language::Tsx, runtime, manifest: &manifest, stores };
        let compiled = worker.compile(&source, &cancel).unwrap();
        let limits = GraphLimits::default();
        let finding = Finding { library: &Two, manifest: &manifest, limits, runtime };
        let graph = worker.graph(compiled.wants(), &finding, &cancel).unwrap();
        let whole = compiled.with(&graph);
        let text = worker.bundle(&whole, &cancel).unwrap();
        made.push(worker.call(&whole, &task, &cancel).unwrap().node.ok());
        for requested in ["sandbox-worker", "sandbox-iframe"] {
            let task = json!({"export": task.export, "input": task.input, "now_ms": task.now_ms, "seed": task.seed});
            codes.push((
                code,
                made.len() - 1,
                json!({"requested": requested, "code": text, "task": task}),
            ));
        }
    }
    let server = Server::open();
    let mut input = server.input("compiled", None);
    input["lanes"] = json!([]);
    input["loops"] = json!([]);
    input["codes"] = json!(true);
    server.arrived.lock().unwrap().codes = codes.iter().map(|(_, _, one)| one.clone()).collect();
    let page = server.address("index.html", &input);
    let report = show(program, &server, &page, &|| false).expect("the page reports");
    for (at, (code, of, one)) in codes.iter().enumerate() {
        let found = report["codes"][at].get("node").filter(|node| node.is_object());
        assert_eq!(
            found,
            made[*of].as_ref(),
            "{code} in {}: {}",
            one["requested"],
            report["codes"][at]
        );
    }
    assert!(made.iter().filter(|made| made.is_some()).count() >= 10, "{made:?}");
}

/// Components with state and handlers stay alive in the frame lane: what is clicked there changes what is there, and what then does
/// not answer any more is taken away.
#[test]
fn components_in_chromium_stay_alive_in_a_frame_of_their_own() {
    let name = "chromium::components_in_chromium_stay_alive_in_a_frame_of_their_own";
    let Some(program) = browser() else { return skipped(name, headless::NONE) };
    // Nothing comes out of the frame, so what is seen is that the third click never ends.
    let counter = |clicked: &str, then: &str| {
        format!(
            "import {{ useEffect, useRef, useState }} from 'preact/hooks';
             export default function Counter({{ state }}) {{
               const [n, set] = useState(state.count - 3), at = useRef(null);
               useEffect(() => {{ if (n < 3) at.current.click(); else if (at.current.textContent === '3') {{ {then} }} }}, [n]);
               return <button ref={{at}} onClick={{{clicked}}}>{{n}}</button>;
             }}"
        )
    };
    let (sets, ends) = ("() => set((it) => it + 1)", "for (;;) {}");
    let form = "import { useEffect, useRef } from 'preact/hooks';
        export default () => { const at = useRef(null); useEffect(() => at.current.click(), []);
          return <form onSubmit={() => { for (;;) {} }}><button ref={at}>x</button></form> }";
    let cases = [
        ("clicks that are heard", counter(sets, ends), "unresponsive"),
        ("what ends by itself", counter(sets, "set(4)"), "cancelled"),
        ("clicks that nobody hears", counter("'add'", ends), "cancelled"),
        ("a form, which is not sent", form.to_owned(), "cancelled"),
        ("a fault", "export default () => { throw new Error('on purpose') }".to_owned(), ""),
    ];
    let worker = engine().worker(host()).unwrap();
    let (cancel, manifest) = (Cancel::new().unwrap(), BTreeMap::new());
    let codes = cases.iter().map(|(_, code, _)| {
        let source = Source::new(code, Language::Tsx, Runtime::Preact, &manifest);
        let text =
            worker.bundle_alive(&worker.compile(&source, &cancel).unwrap(), &cancel).unwrap();
        let input = json!({"state": {"count": 3}, "look_ms": 6_000});
        json!({"requested": "sandbox-iframe", "code": text, "live": true, "task": {"input": input}})
    });
    let server = Server::open();
    let mut input = server.input("alive", None);
    (input["lanes"], input["loops"], input["codes"]) = (json!([]), json!([]), json!(true));
    server.arrived.lock().unwrap().codes = codes.collect();
    let page = server.address("index.html", &input);
    let report = show(program, &server, &page, &|| false).expect("the page reports");
    for (at, (what, _, end)) in cases.iter().enumerate() {
        let told = &report["codes"][at];
        assert_eq!(told["effective"], "sandbox-iframe", "{what}: {told}");
        if end.is_empty() {
            assert_eq!(told["error"]["code"], "script_failed", "{what}: {told}");
            continue;
        }
        assert_eq!(told["ended"]["killed"], *end, "{what}: {told}");
        assert_eq!(told["by_itself"], *end == "unresponsive", "{what}: {told}");
        assert_eq!(told["frames"], 0, "{what}: {told}");
    }
}

/// What is done to the page around, and how it ends: at which limit, or when the page takes it away.
const AROUND: &[(&str, &str, &str)] = &[
    ("top-message", "limit", "messages"),
    ("top-nothing", "limit", "messages"),
    ("top-flood", "limit", "messages"),
    ("top-from-a-frame", "cancelled", ""),
    ("parent-nothing", "limit", "messages"),
    ("parent-null", "limit", "messages"),
    ("asks", "cancelled", ""),
    ("focus", "cancelled", ""),
    ("focus-again", "limit", "focus"),
    ("focus-of-the-window", "cancelled", ""),
    ("autofocus", "cancelled", ""),
];

/// The failure: code in a frame spoke to the page, to other lanes and to its own shell in ways that nobody heard, until the page
/// stood still; and it took the keyboard from a field of the page. Only the port was watched. Now: whatever else a lane says ends it,
/// no lane hears another, and focus that nobody gave goes back.
#[test]
fn lanes_in_chromium_leave_the_page_around_them_alone() {
    let name = "chromium::lanes_in_chromium_leave_the_page_around_them_alone";
    let Some(program) = browser() else { return skipped(name, headless::NONE) };
    let server = Server::open();
    let mut input = server.input("around", None);
    (input["lanes"], input["loops"]) = (json!([]), json!([]));
    let all: BTreeSet<String> =
        names("around").into_iter().filter(|name| name != "listens").collect();
    assert_eq!(all, AROUND.iter().map(|(name, ..)| (*name).to_owned()).collect());
    input["around"] = AROUND.iter().map(|(name, _, limit)| (*name, !limit.is_empty())).collect();
    let page = server.address("index.html", &input);
    let report = show(program, &server, &page, &|| false).expect("the page reports");
    let around = &report["around"];
    for (name, end, limit) in AROUND {
        let told = &around[*name];
        assert_eq!(told["ended"]["killed"], *end, "{name}: {told}");
        assert_eq!(told["ended"]["limit"].as_str().unwrap_or_default(), *limit, "{name}: {told}");
        assert_eq!(told["is_own"], true, "{name}: {told}");
        assert!(told["page_waited_ms"].as_f64().unwrap() < 1_000.0, "{name}: {told}");
    }
    assert_eq!(around["asks"]["listens"]["killed"], "cancelled", "a lane heard another: {around}");
    assert_eq!(around["hidden"]["is_own"], true, "{around}");
    assert_eq!(around.as_object().unwrap().len(), all.len() + 1, "{around}");
}

fn of_header(part: &str) -> bool {
    part.starts_with("sandbox ") || part.starts_with("frame-ancestors ")
}

/// A server that knows nothing of headers lets out no more.
#[test]
fn lanes_in_chromium_let_nothing_out_without_their_headers() {
    let name = "chromium::lanes_in_chromium_let_nothing_out_without_their_headers";
    let Some(program) = browser() else { return skipped(name, headless::NONE) };
    let server = Server::open();
    let mut input = server.input("lane", None);
    input["lanes"] = json!(["sandbox-worker", "sandbox-iframe"]);
    input["loops"] = json!([]);
    input["base"] = json!(BARE);
    input["never"] = json!(NEVER);
    let attack = server.address("index.html", &input);
    let report = show(program, &server, &attack, &|| false).expect("the attack reports");
    for lane in ["sandbox-worker", "sandbox-iframe"] {
        let beyond = &server.hits(&format!("lane-{lane}")) - &residue_of(lane);
        assert_eq!(beyond, BTreeSet::new(), "of {lane}");
        let node = &report["lanes"][lane]["node"];
        let tried = node["tried"].as_array().map_or(0, Vec::len);
        assert!(tried >= names("anywhere").len(), "{lane}, the control: {}", report["lanes"][lane]);
        assert_eq!(node["reads"], json!({}), "{lane}");
    }
    // A document that does not come is not waited for.
    let never = &report["never"];
    assert_eq!(never["killed"], "unresponsive", "{never}");
    assert!(never["duration_ms"].as_f64().unwrap() < 15_000.0, "{never}");
    // Its code was never begun, so it was not stopped either.
    assert_eq!(never["kept"], 0, "{never}");
}

/// The headers allow exactly the scripts that are in the documents, and the documents say the same.
#[test]
fn the_headers_of_the_lanes_name_their_scripts() {
    let headers: Value =
        serde_json::from_slice(&std::fs::read(lanes().join("headers.json")).unwrap()).unwrap();
    for name in ["worker.html", "frame.html"] {
        let text = std::fs::read_to_string(lanes().join(name)).unwrap();
        let policy = headers[name]["Content-Security-Policy"].as_str().unwrap();
        let mut scripts = 0;
        for part in text.split("<script>").skip(1) {
            let script = part.split("</script>").next().unwrap();
            let listed: Vec<Integrity> = policy.split('\'').filter_map(Integrity::parse).collect();
            let of_script = listed.iter().filter(|one| one.holds(script.as_bytes()));
            let wanted = listed[0].same(script.as_bytes());
            assert_eq!(of_script.count(), 1, "{name}: script-src needs '{wanted}'");
            scripts += 1;
        }
        assert_eq!(policy.matches("'sha256-").count(), scripts, "{name}");
        // The document says the same of itself, but for what only a header can say.
        let own: Vec<&str> = policy.split("; ").filter(|part| !of_header(part)).collect();
        let meta =
            format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">", own.join("; "));
        let at = text.find(&meta).unwrap_or_else(|| panic!("{name} needs {meta}"));
        assert!(at < text.find("<script>").unwrap(), "{name}");
        for part in ["sandbox allow-scripts;", "default-src 'none';", "connect-src 'none';"] {
            assert!(policy.contains(part), "{name}: {part}");
        }
        for word in ["unsafe-eval", "allow-same-origin", "http:", "https:", " *"] {
            assert!(!policy.contains(word), "{name}: {word}");
        }
    }
}
