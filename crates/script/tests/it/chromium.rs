//! The lanes of browsers in a real one: the attack page with a server on loopback that serves the documents under
//! their headers and counts what arrives. Every way out fires in a page without defences.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use glasshouse_sandbox::Cancel;
use glasshouse_script::{
    Error, Finding, Found, GraphLimits, Integrity, Kind, Language, Library, Runtime, Source,
    Stores, Task,
};
use serde_json::{Value, json};

use crate::headless::{self, Running, browser};
use crate::skips::skipped;
use crate::support::{engine, host, task};

const PATIENCE: Duration = Duration::from_secs(90);
/// Where the documents are without their headers.
const BARE: &str = "/bare/";
/// Where nothing answers.
const NEVER: &str = "/never/";
/// How often a page is shown until everything arrived.
const TRIES: usize = 3;
/// Ways that leave a frame whatever its rules say.
const RESIDUE: &[&str] = &["preconnect", "webrtc"];
/// Time that the attack page gives an endless loop.
const LOOP_MS: f64 = 300.0;
/// By how much an endless loop may be late, on a machine with nothing else to do.
const LATE_MS: f64 = 50.0;

fn lanes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/lanes")
}

/// What arrived.
#[derive(Debug, Default)]
struct Arrived {
    /// `RUN/NAME`.
    hits: BTreeSet<String>,
    reports: Vec<(String, Value)>,
    /// What the page is given to run.
    codes: Value,
}

struct Server {
    page: SocketAddr,
    sink: SocketAddr,
    preconnect: u16,
    stun: u16,
    arrived: Arc<Mutex<Arrived>>,
}

impl Server {
    fn open() -> Self {
        let arrived = Arc::new(Mutex::new(Arrived::default()));
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (page, sink, bare) = (listen(), listen(), listen());
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = Self {
            page: page.local_addr().unwrap(),
            sink: sink.local_addr().unwrap(),
            preconnect: bare.local_addr().unwrap().port(),
            stun: datagrams.local_addr().unwrap().port(),
            arrived: Arc::clone(&arrived),
        };
        for listener in [page, sink] {
            let seen = Arc::clone(&arrived);
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let seen = Arc::clone(&seen);
                    std::thread::spawn(move || serve(stream, &seen));
                }
            });
        }
        let seen = Arc::clone(&arrived);
        std::thread::spawn(move || {
            for _ in bare.incoming().flatten() {
                seen.lock().unwrap().hits.insert("bare/preconnect".to_owned());
            }
        });
        std::thread::spawn(move || {
            while datagrams.recv(&mut [0; 2048]).is_ok() {
                arrived.lock().unwrap().hits.insert("bare/webrtc".to_owned());
            }
        });
        server
    }

    /// What an attack is given.
    fn input(&self, run: &str, only: Option<&str>) -> Value {
        let mut input = json!({
            "sink": format!("http://{}", self.sink), "run": run,
            "ports": {"preconnect": self.preconnect, "stun": self.stun},
        });
        if let Some(only) = only {
            input["only"] = json!(only);
        }
        input
    }

    fn address(&self, page: &str, input: &Value) -> String {
        let spelled: String = input
            .to_string()
            .bytes()
            .map(|byte| match byte {
                b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
                byte => format!("%{byte:02X}"),
            })
            .collect();
        format!("http://{}/attack/{page}?input={spelled}", self.page)
    }

    /// Names that arrived in a run.
    fn hits(&self, run: &str) -> BTreeSet<String> {
        let arrived = self.arrived.lock().unwrap();
        let names = arrived.hits.iter().filter_map(|hit| hit.strip_prefix(run)?.strip_prefix('/'));
        names.map(str::to_owned).collect()
    }

    fn forget(&self) {
        self.arrived.lock().unwrap().hits.clear();
    }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Arrived>) {
    let Some((first, body)) = request(&mut stream) else { return };
    let path = first.split(' ').nth(1).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default().to_owned();
    if let Some(hit) = path.strip_prefix("/hit/") {
        seen.lock().unwrap().hits.insert(hit.to_owned());
    } else if let Some(run) = path.strip_prefix("/report/") {
        let value = serde_json::from_slice(&body).unwrap_or_default();
        seen.lock().unwrap().reports.push((run.to_owned(), value));
    }
    if path.starts_with(NEVER) {
        std::thread::sleep(PATIENCE);
        return;
    }
    let (status, headers, content) = match path.as_str() {
        "/codes" => ("200 OK", String::new(), seen.lock().unwrap().codes.to_string().into_bytes()),
        path => document(path),
    };
    let length = content.len();
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&content));
}

/// First line and body.
fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        text.extend_from_slice(&buffer[..read]);
        let Some(end) = text.windows(4).position(|end| end == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&text[..end]).into_owned();
        let length = head
            .lines()
            .find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok()
            })
            .unwrap_or(0);
        if text.len() >= end + 4 + length {
            let first = head.lines().next().unwrap_or_default().to_owned();
            return Some((first, text[end + 4..].to_vec()));
        }
    }
}

/// A file of the lanes under the headers that belong to it.
fn document(path: &str) -> (&'static str, String, Vec<u8>) {
    let is_bare = path.starts_with(BARE);
    let name = path.strip_prefix(BARE).unwrap_or(path).trim_start_matches('/');
    let Ok(content) = std::fs::read(lanes().join(name)) else {
        return ("404 Not Found", String::new(), Vec::new());
    };
    let kind = match Path::new(name).extension().and_then(|end| end.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        _ => "text/javascript; charset=utf-8",
    };
    let mut headers = format!("Content-Type: {kind}\r\n");
    if is_bare {
        return ("200 OK", headers, content);
    }
    let of = match name {
        "attack/index.html" => "host",
        name => name,
    };
    let all: Value =
        serde_json::from_slice(&std::fs::read(lanes().join("headers.json")).unwrap()).unwrap();
    for (key, value) in all[of].as_object().into_iter().flatten() {
        headers += &format!("{key}: {}\r\n", value.as_str().unwrap());
    }
    ("200 OK", headers, content)
}

/// Shows a page; answers its report, or nothing when something else came first.
fn show(program: &str, server: &Server, address: &str, came: &dyn Fn() -> bool) -> Option<Value> {
    // Frames without an origin have a process of their own for people; headless they must ask for it.
    let more = ["--disable-popup-blocking", "--enable-features=IsolateSandboxedIframes"];
    let running = Running::open(program, "", &more, address);
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE && !came() {
        if let Some((_, report)) = server.arrived.lock().unwrap().reports.pop() {
            // What was begun last may still be on its way.
            std::thread::sleep(Duration::from_millis(500));
            drop(running);
            return Some(report);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
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
    let mut report = Value::Null;
    // What is slow to arrive on a busy machine has three times to do so.
    for _ in 0..TRIES {
        report = show(program, &server, &attack, &|| false).expect("the attack reports");
        if server.hits("bare").len() >= RESIDUE.len() {
            break;
        }
    }
    let lanes = &report["lanes"];
    for lane in ["sandbox-worker", "sandbox-iframe", "standard"] {
        assert_eq!(server.hits(&format!("lane-{lane}")), BTreeSet::new(), "of {lane}");
    }
    let residue: BTreeSet<String> = RESIDUE.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(server.hits("bare"), residue, "what stays");
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
}

/// Every way fires in a page, or in a worker of it, from which nothing is taken.
fn check_control(program: &str, server: &Server) {
    let (anywhere, pages, workers) = (names("anywhere"), names("pages"), names("workers"));
    let of_page: BTreeSet<String> = anywhere.union(&pages).cloned().collect();
    let of_worker: BTreeSet<String> = anywhere.union(&workers).cloned().collect();
    assert!(of_page.len() >= 23, "{of_page:?}");
    let missing = || {
        let mut fired = server.hits("open");
        fired.extend(server.hits("bare"));
        let in_worker = server.hits("open-worker");
        let of_page = of_page.difference(&fired);
        let all = of_page.chain(of_worker.difference(&in_worker)).cloned();
        all.collect::<Vec<String>>()
    };
    let open = server.address("control.html", &server.input("open", None));
    let mut report = Value::Null;
    for _ in 0..TRIES {
        report = show(program, server, &open, &|| false).expect("the control reports");
        if missing().is_empty() {
            break;
        }
    }
    assert_eq!(missing(), [""; 0], "did not fire");
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
        assert_eq!(server.hits(&format!("lane-{lane}")), BTreeSet::new(), "of {lane}");
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
