//! Sends spans to a collector: OTLP over HTTP, in JSON. A collector that is away costs spans, never work.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::spans::Span;
use crate::{Error, Result, codes};

/// Most spans of one request.
const BATCH: usize = 512;
/// Most spans that wait.
const MAX_WAITING: usize = 8_192;
/// Longest that one request may take.
const WITHIN: Duration = Duration::from_secs(5);
/// First wait after a request that failed; it doubles.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest wait.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Most bytes of an answer that are read.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// Where spans go.
#[derive(Debug, Clone)]
pub struct Telemetry {
    /// A collector as `http://HOST:PORT`, with a path in front of `/v1/traces` where it has one.
    pub endpoint: String,
    /// Whether what was said, arguments and outputs are told, too.
    pub content: bool,
}

/// Sends.
pub(super) struct Exporter {
    authority: String,
    path: String,
    content: bool,
    waiting: VecDeque<Span>,
    sent: u64,
    dropped: u64,
    pause: Duration,
    again: Option<Instant>,
}

impl Exporter {
    /// To a collector.
    ///
    /// # Errors
    /// `telemetry_invalid`.
    pub(super) fn new(telemetry: Telemetry) -> Result<Self> {
        let Telemetry { endpoint, content } = telemetry;
        let invalid = |why: &str| {
            Error::new(codes::TELEMETRY_INVALID, format!("spans cannot be sent to {endpoint}"))
                .why(why)
        };
        let rest = endpoint.strip_prefix("http://");
        let rest = rest.ok_or_else(|| invalid("its address does not begin with http://"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let is_fine = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if authority.is_empty() || authority.contains('@') || !is_fine(rest) {
            return Err(invalid("it names no host"));
        }
        let authority = match authority.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => authority.to_owned(),
            _ => format!("{authority}:4318"),
        };
        let path = match path.trim_end_matches('/') {
            "" => "/v1/traces".to_owned(),
            path => format!("/{path}/v1/traces"),
        };
        Ok(Self {
            authority,
            path,
            content,
            waiting: VecDeque::new(),
            sent: 0,
            dropped: 0,
            pause: PAUSE,
            again: None,
        })
    }

    /// Whether texts are told.
    pub(super) const fn tells_content(&self) -> bool {
        self.content
    }

    /// Takes spans; where too many wait, the oldest go.
    pub(super) fn push(&mut self, spans: Vec<Span>) {
        self.waiting.extend(spans);
        while self.waiting.len() > MAX_WAITING {
            self.waiting.pop_front();
            self.dropped += 1;
        }
    }

    /// Counts what was dropped before it came here.
    pub(super) const fn drop_more(&mut self, dropped: u64) {
        self.dropped += dropped;
    }

    /// Sends what waits, and answers how many were sent and dropped since it was asked before.
    pub(super) fn flush(&mut self) -> (u64, u64) {
        let is_time = self.again.is_none_or(|again| Instant::now() >= again);
        while is_time && !self.waiting.is_empty() {
            let count = self.waiting.len().min(BATCH);
            let batch: Vec<Span> = self.waiting.iter().take(count).cloned().collect();
            match self.post(&request(&batch), WITHIN) {
                Ok(200..=299) => {
                    self.waiting.drain(..count);
                    self.sent += count as u64;
                    (self.pause, self.again) = (PAUSE, None);
                }
                // What it refuses for good is not sent again.
                Ok(400..=407 | 409..=428) => {
                    self.waiting.drain(..count);
                    self.dropped += count as u64;
                }
                Ok(_) | Err(_) => {
                    self.again = Some(Instant::now() + self.pause);
                    self.pause = (2 * self.pause).min(MAX_PAUSE);
                    break;
                }
            }
        }
        (std::mem::take(&mut self.sent), std::mem::take(&mut self.dropped))
    }

    fn post(&self, body: &str, within: Duration) -> std::io::Result<u16> {
        let address = self.authority.to_socket_addrs()?.next();
        let address = address.ok_or_else(|| std::io::Error::other("no address"))?;
        let until = Instant::now() + within;
        let mut stream = Bounded { stream: TcpStream::connect_timeout(&address, within)?, until };
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            self.path,
            self.authority,
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
        let line = String::from_utf8_lossy(&answer);
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        status.ok_or_else(|| std::io::Error::other("no HTTP answer"))
    }
}

/// A connection whose every step ends at one time, however many there are.
struct Bounded {
    stream: TcpStream,
    until: Instant,
}

impl Bounded {
    fn left(&self) -> std::io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(std::io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Bounded {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(into)
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

fn request(spans: &[Span]) -> String {
    let text = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
    let request: Value = json!({ "resourceSpans": [ {
        "resource": { "attributes": [
            text("service.name", "glasshouse"), text("service.version", env!("CARGO_PKG_VERSION")),
        ] },
        "scopeSpans": [ {
            "scope": { "name": "glasshouse", "version": env!("CARGO_PKG_VERSION") },
            "spans": spans,
        } ],
    } ] });
    request.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_has_an_address() {
        let check = |endpoint: &str, expected: Option<(&str, &str)>| {
            let made = Exporter::new(Telemetry { endpoint: endpoint.to_owned(), content: false });
            let made = made.ok().map(|made| (made.authority, made.path));
            let expected = expected.map(|(host, path)| (host.to_owned(), path.to_owned()));
            assert_eq!(made, expected, "{endpoint}");
        };
        check("http://localhost:4318", Some(("localhost:4318", "/v1/traces")));
        check("http://localhost", Some(("localhost:4318", "/v1/traces")));
        check("http://a.example:80/otlp/", Some(("a.example:80", "/otlp/v1/traces")));
        check("https://a.example", None);
        check("http://", None);
        check("http://user@a.example", None);
        check("http://a example", None);
    }

    /// A collector that says a little now and then holds the thread no longer than one that says nothing.
    #[test]
    fn an_answer_that_drips_is_not_waited_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let exporter = Exporter::new(Telemetry { endpoint, content: false }).unwrap();
        std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            while stream.write_all(b"H").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let began = Instant::now();
        assert!(exporter.post("{}", Duration::from_millis(200)).is_err());
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }

    /// A collector that is away costs the oldest spans, and no more memory than those that may wait.
    #[test]
    fn what_cannot_be_sent_is_bounded_and_counted() {
        let endpoint = "http://127.0.0.1:9".to_owned();
        let mut exporter = Exporter::new(Telemetry { endpoint, content: false }).unwrap();
        for _ in 0..MAX_WAITING / 100 + 2 {
            exporter.push(vec![json!({}); 100]);
        }
        let (sent, dropped) = exporter.flush();
        assert_eq!((sent, exporter.waiting.len()), (0, MAX_WAITING));
        let expected = (MAX_WAITING / 100 + 2) * 100 - MAX_WAITING;
        assert_eq!(usize::try_from(dropped).unwrap(), expected);
        assert!(exporter.again.is_some());
    }
}
