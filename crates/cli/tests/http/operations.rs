//! What is told to those who watch: metrics that the dashboard and the alerts ask for, and spans.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{PATIENCE, Served};
use crate::harness::{Place, skipped};

const WORK: &str = "version: 1
steps:
  - emit: [ { call: { id: a, tool: fs.read, args: { path: ask1.txt } } }, { call: { id: b, tool: fs.read, args: { path: /etc/passwd } } } ]
  - emit: [ { reasoning: Hm. }, { text: The secret word is xylophone. } ]
  - emit: [ { error: { status: 400 } } ]
";
const ASKED: &str = "{ name: ask-reads, match: { syscall: fs.read, path_glob: 'ask*.txt' }, action: require_review, reason: ask first }";

fn operations() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operations")
}

/// A session with calls, a question, an answer and a failure.
fn work(place: &Place, served: &Served) -> String {
    let project = place.shell_project();
    std::fs::write(project.join("ask1.txt"), "secret\n").unwrap();
    place.accept_rule(&project, ASKED);
    let session = served.session(&project, WORK);
    let mut stream = served.events_of(&session);
    served.turn(&session, "say the word");
    stream.until("approval.requested");
    let asked = served.get("/v1/approvals").json();
    let one = &asked["approvals"][0];
    let path = format!("/v1/approvals/{}", one["approval"].as_str().unwrap());
    let answer = serde_json::json!({ "approved": true, "digest": one["args_digest"] });
    served.post(&path, &answer).expect(200);
    stream.until_end();
    served.turn(&session, "again");
    stream.until_end();
    session
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|ran| ran.status.success())
}

fn promtool(arguments: &[&str]) {
    let ran = Command::new("promtool").args(arguments).current_dir(operations()).output().unwrap();
    let told =
        String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{arguments:?}: {told}");
}

/// Prometheus on a free port.
struct Prometheus {
    child: Child,
    address: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn new(place: &Place, served: &Served) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let token = place.home().join("server/token");
        let config = format!(
            "global: {{ scrape_interval: 1s }}
scrape_configs:
  - job_name: glasshouse
    metrics_path: /v1/metrics
    authorization: {{ credentials_file: {} }}
    static_configs: [ {{ targets: [\"{}\"] }} ]
",
            token.display(),
            served.address
        );
        let file = place.path("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let log = std::fs::File::create(place.path("prometheus.stderr")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", place.path("tsdb").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, address }
    }

    /// What a query answers; nothing while it cannot be asked.
    fn ask(&self, query: &str) -> Vec<Value> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let request = format!(
            "GET /api/v1/query?query={encoded} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
            self.address
        );
        let mut answer = String::new();
        let Ok(mut stream) = TcpStream::connect(&self.address) else { return Vec::new() };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        if stream
            .write_all(request.as_bytes())
            .and_then(|()| stream.read_to_string(&mut answer))
            .is_err()
        {
            return Vec::new();
        }
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let Some(from) = body.find('{') else { return Vec::new() };
        let mut values = serde_json::Deserializer::from_str(&body[from..]).into_iter::<Value>();
        let Some(Ok(value)) = values.next() else { return Vec::new() };
        value["data"]["result"].as_array().cloned().unwrap_or_default()
    }
}

#[test]
fn alerts_hold_and_each_query_of_the_dashboard_has_data() {
    const TEST: &str = "alerts_hold_and_each_query_of_the_dashboard_has_data";
    if !is_there("promtool") || !is_there("prometheus") {
        return skipped(TEST, "prometheus is not installed");
    }
    promtool(&["check", "rules", "alerts.yaml"]);
    promtool(&["test", "rules", "alerts.test.yaml"]);
    let place = Place::new();
    let served = Served::new(&place);
    let prometheus = Prometheus::new(&place, &served);
    // The first values of counters must be seen before they grow.
    let wait = |query: &str| {
        let deadline = Instant::now() + PATIENCE;
        while prometheus.ask(query).is_empty() {
            let said = std::fs::read_to_string(place.path("prometheus.stderr")).unwrap_or_default();
            assert!(Instant::now() < deadline, "no data: {query}\n{said}");
            std::thread::sleep(Duration::from_millis(250));
        }
    };
    wait("up{job=\"glasshouse\"} == 1");
    let session = work(&place, &served);
    for _ in 0..3 {
        served.get(&format!("/v1/sessions/{session}")).expect(200);
    }
    let text = std::fs::read_to_string(operations().join("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() >= 15);
    for target in panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap()) {
        wait(&target["expr"].as_str().unwrap().replace("$__rate_interval", "1m"));
    }
    let metrics = served.get("/v1/metrics").expect(200).text();
    promtool_metrics(&metrics);
    for secret in [&*session, "xylophone", &served.token, "ask1"] {
        assert!(!metrics.contains(secret), "{secret}");
    }
}

fn promtool_metrics(metrics: &str) {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let ran = child.wait_with_output().unwrap();
    // Remarks about names have status 3.
    assert_ne!(ran.status.code(), Some(1), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// A collector that keeps what it is sent.
fn collector() -> (String, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let spans = Arc::<Mutex<Vec<Value>>>::default();
    let kept = Arc::clone(&spans);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
            let body = loop {
                let read = stream.read(&mut buffer).unwrap();
                text.extend_from_slice(&buffer[..read]);
                let Some(end) = text.windows(4).position(|end| end == b"\r\n\r\n") else {
                    continue;
                };
                let head = String::from_utf8_lossy(&text[..end]).into_owned();
                assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length.unwrap().parse().unwrap();
                if text.len() >= end + 4 + length {
                    break text[end + 4..].to_vec();
                }
            };
            let body: Value = serde_json::from_slice(&body).unwrap();
            let list =
                body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().clone();
            kept.lock().unwrap().extend(list);
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
                .unwrap();
        }
    });
    (address, spans)
}

fn attribute<'a>(span: &'a Value, key: &str) -> Option<&'a Value> {
    let found = span["attributes"].as_array()?.iter().find(|one| one["key"] == key)?;
    found["value"].as_object()?.values().next()
}

/// Requests, and what the log stored for a turn.
fn boundaries_are_told(spans: &[Value], turn: &Value) {
    let named = |name: &str| spans.iter().filter(|span| span["name"] == name).collect::<Vec<_>>();
    let posted = named("POST /v1/sessions/{session}/turns");
    assert_eq!(posted.len(), 2, "{spans:?}");
    for span in posted {
        let status = attribute(span, "http.response.status_code").unwrap();
        assert_eq!((span["kind"].as_u64(), status.as_str()), (Some(2), Some("202")), "{span}");
    }
    let appends = named("log append");
    let of_turn = |span: &&&Value| {
        (&span["traceId"], &span["parentSpanId"]) == (&turn["traceId"], &turn["spanId"])
    };
    assert!(appends.iter().filter(of_turn).count() > 5, "{appends:?}");
    assert!(appends.iter().all(|span| attribute(span, "glasshouse.events").is_some()));
}

#[test]
fn spans_tell_a_turn_and_texts_only_where_that_is_asked_for() {
    for content in [false, true] {
        let place = Place::new();
        let (endpoint, spans) = collector();
        let mut environment = vec![("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
        if content {
            environment.push(("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true"));
        }
        let served = Served::with_environment(&place, &environment);
        work(&place, &served);
        let deadline = Instant::now() + PATIENCE;
        let turns = || {
            let spans = spans.lock().unwrap();
            spans.iter().filter(|span| span["name"] == "invoke_agent glasshouse").count()
        };
        while turns() < 2 {
            assert!(Instant::now() < deadline, "{:?}", spans.lock().unwrap());
            std::thread::sleep(Duration::from_millis(50));
        }
        let spans = spans.lock().unwrap();
        let named =
            |name: &str| spans.iter().filter(|span| span["name"] == name).collect::<Vec<_>>();
        let turn = named("invoke_agent glasshouse")[0];
        let chats = named("chat scripted");
        assert_eq!(chats.len(), 3, "{spans:?}");
        assert_eq!(
            (&chats[0]["traceId"], &chats[0]["parentSpanId"]),
            (&turn["traceId"], &turn["spanId"])
        );
        assert!(attribute(chats[0], "gen_ai.usage.output_tokens").is_some(), "{}", chats[0]);
        assert_eq!(chats[2]["status"]["code"], 2, "{}", chats[2]);
        let reads = named("execute_tool fs.read");
        assert_eq!(reads.len(), 2);
        let denied = reads.iter().filter(|span| attribute(span, "error.type").is_some()).count();
        assert_eq!((denied, named("approval fs.read").len()), (1, 1));
        assert!(
            reads.iter().all(|span| span["events"][0]["name"] == "policy.decided"),
            "{reads:?}"
        );
        let all = serde_json::to_string(&*spans).unwrap();
        assert_eq!(all.contains("xylophone"), content, "{all}");
        assert_eq!(all.contains("/etc/passwd"), content, "{all}");
        assert!(!all.contains(&served.token));
        boundaries_are_told(&spans, turn);
    }
}

#[test]
fn a_collector_that_cannot_be_one_is_refused() {
    let place = Place::new();
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
    let ran = command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "https://a.example").output().unwrap();
    assert_eq!(ran.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("collector"), "{ran:?}");
}
