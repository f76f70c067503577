//! A server on loopback that serves the lanes under their headers and counts what arrives, and a browser that shows a page of it.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::headless::Running;

const PATIENCE: Duration = Duration::from_secs(90);
/// Where the documents are without their headers.
pub(crate) const BARE: &str = "/bare/";
/// Where nothing answers.
pub(crate) const NEVER: &str = "/never/";
/// Names that are asked for, and not answered. What they are is `WAY.RUN` before this.
const NAMES: &str = "EXCLUDE *.sink.test, ";

pub(crate) fn lanes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/lanes")
}

/// What arrived.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    /// `RUN/NAME`.
    pub(crate) hits: BTreeSet<String>,
    reports: Vec<(String, Value)>,
    /// What the page is given to run.
    pub(crate) codes: Value,
}

pub(crate) struct Server {
    page: SocketAddr,
    sink: SocketAddr,
    /// Where connections and datagrams without a name arrive.
    ports: Value,
    pub(crate) arrived: Arc<Mutex<Arrived>>,
}

impl Server {
    pub(crate) fn open() -> Self {
        let arrived = Arc::new(Mutex::new(Arrived::default()));
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (page, sink) = (listen(), listen());
        let server = Self {
            page: page.local_addr().unwrap(),
            sink: sink.local_addr().unwrap(),
            ports: json!({
                "preconnect": connections(&arrived, "preconnect"),
                "stun": datagrams(&arrived, "webrtc"),
                "webtransport": datagrams(&arrived, "webtransport"),
                "webtransport_of_worker": datagrams(&arrived, "webtransport-of-worker"),
            }),
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
        server
    }

    /// What an attack is given.
    pub(crate) fn input(&self, run: &str, only: Option<&str>) -> Value {
        let mut input = json!({
            "sink": format!("http://{}", self.sink), "run": run,
            "ports": self.ports,
        });
        if let Some(only) = only {
            input["only"] = json!(only);
        }
        input
    }

    pub(crate) fn address(&self, page: &str, input: &Value) -> String {
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
    pub(crate) fn hits(&self, run: &str) -> BTreeSet<String> {
        let arrived = self.arrived.lock().unwrap();
        let names = arrived.hits.iter().filter_map(|hit| hit.strip_prefix(run)?.strip_prefix('/'));
        names.map(str::to_owned).collect()
    }

    pub(crate) fn forget(&self) {
        self.arrived.lock().unwrap().hits.clear();
    }
}

/// A port that notes every connection as `bare/NAME`.
fn connections(arrived: &Arc<Mutex<Arrived>>, name: &str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (seen, hit) = (Arc::clone(arrived), format!("bare/{name}"));
    std::thread::spawn(move || {
        for _ in listener.incoming().flatten() {
            seen.lock().unwrap().hits.insert(hit.clone());
        }
    });
    port
}

/// A port that notes every datagram as `bare/NAME`.
fn datagrams(arrived: &Arc<Mutex<Arrived>>, name: &str) -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let (seen, hit) = (Arc::clone(arrived), format!("bare/{name}"));
    std::thread::spawn(move || {
        while socket.recv(&mut [0; 2048]).is_ok() {
            seen.lock().unwrap().hits.insert(hit.clone());
        }
    });
    port
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
pub(crate) fn show(
    program: &str,
    server: &Server,
    address: &str,
    came: &dyn Fn() -> bool,
) -> Option<Value> {
    // Frames without an origin have a process of their own for people; headless they must ask for it.
    let more = ["--disable-popup-blocking", "--enable-features=IsolateSandboxedIframes"];
    let running = Running::open_noting(program, NAMES, &more, address);
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE && !came() {
        let last = server.arrived.lock().unwrap().reports.pop();
        if let Some((_, report)) = last {
            // What was begun last may still be on its way.
            std::thread::sleep(Duration::from_millis(500));
            asked_for(&running.noted(), &server.arrived);
            drop(running);
            return Some(report);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

/// Notes the names that a browser asked for as hits: `RUN/WAY`.
fn asked_for(notes: &str, arrived: &Mutex<Arrived>) {
    for rest in notes.split("\"host\":\"http://").skip(1) {
        let name = rest.split('"').next().and_then(|name| name.strip_suffix(".sink.test"));
        let Some((way, run)) = name.and_then(|name| name.split_once('.')) else { continue };
        arrived.lock().unwrap().hits.insert(format!("{run}/{way}"));
    }
}
