//! A server of one's own, and a client that says exactly what a test wants.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::Place;

/// Longest that anything here may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Silence after which a stream counts as read.
const SILENCE: Duration = Duration::from_millis(400);
/// Most of a stream that is read.
const MAX_STREAM_BYTES: u64 = 1 << 20;

/// `glasshouse serve` on a free port.
pub(crate) struct Served {
    child: Child,
    pub(crate) address: String,
    pub(crate) token: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    /// The code of a problem; an empty one for anything else.
    pub(crate) fn code(&self) -> String {
        let is_problem = self.header("content-type") == Some("application/problem+json");
        let code = is_problem.then(|| self.json()["code"].as_str().map(str::to_owned)).flatten();
        code.unwrap_or_default()
    }
}

impl Served {
    pub(crate) fn new(place: &Place) -> Self {
        Self::at(place, "127.0.0.1:0")
    }

    /// With more arguments.
    pub(crate) fn with(place: &Place, arguments: &[&str]) -> Self {
        Self::on(place, "127.0.0.1:0", arguments)
    }

    pub(crate) fn at(place: &Place, address: &str) -> Self {
        Self::on(place, address, &[])
    }

    pub(crate) fn on(place: &Place, address: &str, arguments: &[&str]) -> Self {
        Self::begin(place, address, arguments, &[])
    }

    /// With more environment.
    pub(crate) fn with_environment(place: &Place, environment: &[(&str, &str)]) -> Self {
        Self::begin(place, "127.0.0.1:0", &[], environment)
    }

    pub(crate) fn begin(
        place: &Place,
        address: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Self {
        let arguments = [&["serve", "--listen", address][..], arguments].concat();
        let mut command: Command = place.command(&arguments);
        command.envs(environment.iter().copied());
        let log = std::fs::File::create(place.path("serve.stderr")).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ");
        let address = address.and_then(|url| url.split("://").nth(1)).unwrap_or_else(|| {
            let said = std::fs::read_to_string(place.path("serve.stderr")).unwrap_or_default();
            panic!("it said {line:?}\n{said}")
        });
        let address = address.to_owned();
        // Where others reach it there is none.
        let token = std::fs::read_to_string(place.home().join("server/token")).unwrap_or_default();
        Self { child, address, token: token.trim().to_owned() }
    }

    /// Sends bytes as they are and reads the answer.
    pub(crate) fn raw(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let (status, headers) = read_head(&mut reader);
        let is_stream =
            headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
        let body = if is_stream { read_stream(reader) } else { read_body(&headers, &mut reader) };
        Answer { status, headers, body }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A request with the token, more headers and a body.
    pub(crate) fn send(&self, line: &str, headers: &[(&str, &str)], body: Option<&str>) -> Answer {
        self.raw(&self.text(line, headers, body))
    }

    /// The same with another credential.
    pub(crate) fn send_as(
        &self,
        token: &str,
        line: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Answer {
        self.raw(&self.text_as(token, line, headers, body))
    }

    pub(crate) fn text(&self, line: &str, headers: &[(&str, &str)], body: Option<&str>) -> String {
        self.text_as(&self.token, line, headers, body)
    }

    pub(crate) fn text_as(
        &self,
        token: &str,
        line: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> String {
        let host = &self.address;
        let mut text =
            format!("{line} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = body {
            text.push_str(&format!(
                "content-type: application/json\r\ncontent-length: {}\r\n",
                body.len()
            ));
        }
        text.push_str("\r\n");
        text.push_str(body.unwrap_or_default());
        text
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path}"), &[], None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(&format!("POST {path}"), &[], Some(&body.to_string()))
    }

    /// Starts a session that plays a scenario on a project.
    pub(crate) fn session(&self, project: &Path, scenario: &str) -> String {
        let body = serde_json::json!({
            "project": project, "provider": "scripted", "model": "scripted", "scenario": scenario,
        });
        let answer = self.post("/v1/sessions", &body).expect(201);
        let view = answer.json();
        let session = view["session"].as_str().unwrap().to_owned();
        assert_eq!(answer.header("location"), Some(&*format!("/v1/sessions/{session}")));
        session
    }

    /// Starts a turn and answers its sequence.
    pub(crate) fn turn(&self, session: &str, message: &str) -> u64 {
        let body = serde_json::json!({ "message": message });
        let path = format!("/v1/sessions/{session}/turns");
        self.post(&path, &body).expect(202).json()["turn"].as_u64().unwrap()
    }

    /// Follows a stream.
    pub(crate) fn follow(&self, path: &str, headers: &[(&str, &str)]) -> Stream {
        self.following(&self.text(&format!("GET {path}"), headers, None))
    }

    /// Sends a body and follows the answer.
    pub(crate) fn post_stream(&self, path: &str, body: &Value) -> Stream {
        self.following(&self.text(&format!("POST {path}"), &[], Some(&body.to_string())))
    }

    /// The same with another credential.
    pub(crate) fn follow_as(&self, token: &str, path: &str) -> Stream {
        self.following(&self.text_as(token, &format!("GET {path}"), &[], None))
    }

    fn following(&self, request: &str) -> Stream {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let (status, headers) = read_head(&mut reader);
        assert_eq!(status, 200, "{headers:?}");
        Stream { chunks: Chunks { reader, left: 0 }, headers }
    }

    pub(crate) fn events_of(&self, session: &str) -> Stream {
        self.follow(&format!("/v1/sessions/{session}/events/stream"), &[])
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop and waits until it has.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.ended()
    }

    /// Waits until it has ended.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it did not stop");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_head(reader: &mut impl BufRead) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    (status, headers)
}

/// What a stream says before it is silent: what it is about to tell may take as long as it wants.
fn read_stream(reader: BufReader<TcpStream>) -> Vec<u8> {
    reader.get_ref().set_read_timeout(Some(SILENCE)).unwrap();
    let mut body = Vec::new();
    let _ = Chunks { reader, left: 0 }.take(MAX_STREAM_BYTES).read_to_end(&mut body);
    body
}

fn read_body(headers: &[(String, String)], reader: &mut impl BufRead) -> Vec<u8> {
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    body
}

/// The body of a chunked answer as one line of bytes.
struct Chunks {
    reader: BufReader<TcpStream>,
    left: usize,
}

impl Read for Chunks {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            let size = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
            if size == 0 {
                return Ok(0);
            }
            self.left = size;
        }
        let most = into.len().min(self.left);
        let read = self.reader.read(&mut into[..most])?;
        self.left -= read;
        if self.left == 0 {
            let mut end = [0; 2];
            self.reader.read_exact(&mut end)?;
        }
        Ok(read)
    }
}

/// Frames of a stream.
pub(crate) struct Stream {
    chunks: Chunks,
    pub(crate) headers: Vec<(String, String)>,
}

/// One frame with data.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: Option<u64>,
    pub(crate) event: Option<String>,
    pub(crate) data: Value,
}

impl Stream {
    /// The next line, comments too.
    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        loop {
            if self.chunks.read(&mut byte).ok()? == 0 {
                return None;
            }
            if byte[0] == b'\n' {
                return Some(String::from_utf8(line).unwrap());
            }
            line.push(byte[0]);
        }
    }

    /// Reads events 1 to `last`, each once and in order, without looking into them.
    pub(crate) fn ids_up_to(&mut self, last: u64) {
        let mut reader = BufReader::with_capacity(1 << 16, &mut self.chunks);
        let (mut next, mut line) = (1, String::new());
        while next <= last {
            line.clear();
            assert!(reader.read_line(&mut line).unwrap() > 0, "it ended before {next}");
            if let Some(id) = line.strip_prefix("id: ") {
                assert_eq!(id.trim().parse::<u64>().unwrap(), next);
                next += 1;
            }
        }
    }

    /// The data of the next line that has some.
    pub(crate) fn next_text(&mut self) -> Option<String> {
        loop {
            if let Some(data) = self.line()?.strip_prefix("data: ") {
                return Some(data.to_owned());
            }
        }
    }

    /// The next frame with data; `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        let (mut id, mut event, mut data) = (None, None, String::new());
        loop {
            let line = self.line()?;
            match line.split_once(": ") {
                Some(("id", value)) => id = Some(value.parse().unwrap()),
                Some(("event", value)) => event = Some(value.to_owned()),
                Some(("data", value)) => data.push_str(value),
                _ if line.is_empty() && !data.is_empty() => {
                    let data = serde_json::from_str(&data).unwrap();
                    return Some(Frame { id, event, data });
                }
                _ => {}
            }
        }
    }

    /// Frames up to the first of a kind.
    pub(crate) fn until(&mut self, kind: &str) -> Vec<Frame> {
        self.until_one(kind, |found| found == kind)
    }

    /// Frames up to the end of a turn.
    pub(crate) fn until_end(&mut self) -> Vec<Frame> {
        let ends = ["turn.completed", "turn.failed", "turn.cancelled", "turn.interrupted"];
        self.until_one("end", |found| ends.contains(&found))
    }

    fn until_one(&mut self, kind: &str, is_one: impl Fn(&str) -> bool) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next() {
            let is_it = frame.data["kind"].as_str().is_some_and(&is_one);
            frames.push(frame);
            if is_it {
                return frames;
            }
        }
        panic!("no {kind} came: {:?}", kinds(&frames));
    }
}

pub(crate) fn kinds(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.data["kind"].as_str().unwrap_or_default()).collect()
}
