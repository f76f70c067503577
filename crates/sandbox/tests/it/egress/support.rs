//! A proxy on a loopback port, sinks that stand for hosts, and a gate that tells what it was told.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use glasshouse_sandbox::egress::{
    AllowList, Denial, Dialer, Egress, EgressGate, EgressProxy, EgressRecord, EgressRequest,
    EgressVerdict, Resolver,
};

/// Longer than anything here takes; a test that waits so long fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// Two hosts and their addresses.
pub(crate) const HOSTS: [(&str, &str); 2] = [("a.test", "1.1.1.1"), ("b.test", "1.1.1.2")];

/// Lets pass what its list says and sends on every record.
pub(crate) struct Spy {
    list: AllowList,
    records: Mutex<Sender<EgressRecord>>,
    pub(crate) asked: Mutex<Vec<EgressRequest>>,
}

impl EgressGate for Spy {
    fn decide(&self, request: &EgressRequest) -> EgressVerdict {
        self.asked.lock().unwrap().push(request.clone());
        self.list.decide(request)
    }
    fn record(&self, record: &EgressRecord) {
        let _ = self.records.lock().unwrap().send(record.clone());
    }
}

/// Answers of a name, one list for each lookup; the last one again and again.
#[derive(Default)]
pub(crate) struct Names {
    answers: Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>>,
    pub(crate) lookups: AtomicUsize,
}

impl Names {
    pub(crate) fn set(&self, name: &str, answers: &[&[&str]]) {
        let read = |list: &&[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        let answers = answers.iter().map(read).collect();
        self.answers.lock().unwrap().insert(name.to_owned(), answers);
    }
}

impl Resolver for Names {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let list = answers.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(if list.len() > 1 { list.remove(0) } else { list[0].clone() })
    }
}

/// Maps addresses to sinks, and remembers what was dialled.
#[derive(Default)]
pub(crate) struct Lines {
    to: Mutex<BTreeMap<IpAddr, SocketAddr>>,
    pub(crate) dialled: Mutex<Vec<SocketAddr>>,
}

impl Lines {
    pub(crate) fn set(&self, address: &str, sink: &Sink) {
        self.to.lock().unwrap().insert(address.parse().unwrap(), sink.address);
    }
}

impl Dialer for Lines {
    fn dial(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.dialled.lock().unwrap().push(address);
        let to = self.to.lock().unwrap().get(&address.ip()).copied();
        TcpStream::connect(to.ok_or(io::ErrorKind::ConnectionRefused)?)
    }
}

/// A server on loopback; everything that a connection brought arrives at `received` at its end.
pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    received: Receiver<Vec<u8>>,
}

impl Sink {
    /// Serves each connection by `serve`, which answers what it read.
    pub(crate) fn new(serve: impl Fn(TcpStream) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, received) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                if sender.send(serve(stream)).is_err() {
                    break;
                }
            }
        });
        Self { address, received }
    }

    /// Answers the first request of each connection, then reads on to its end.
    pub(crate) fn http(answer: &'static str) -> Self {
        Self::new(move |mut stream| {
            let mut got = Vec::new();
            let mut piece = [0; 4096];
            while !is_whole(&got) {
                match stream.read(&mut piece) {
                    Ok(read @ 1..) => got.extend_from_slice(&piece[..read]),
                    _ => return got,
                }
            }
            let _ = stream.write_all(answer.as_bytes());
            let _ = stream.shutdown(Shutdown::Write);
            let _ = stream.read_to_end(&mut got);
            got
        })
    }

    /// Says `pong` to the first bytes of each connection, then reads on to its end.
    pub(crate) fn raw() -> Self {
        Self::new(|mut stream| {
            let mut got = vec![0; 4096];
            let read = stream.read(&mut got).unwrap_or(0);
            got.truncate(read);
            if read > 0 {
                let _ = stream.write_all(b"pong");
            }
            let _ = stream.read_to_end(&mut got);
            got
        })
    }

    /// What the next connection brought.
    #[track_caller]
    pub(crate) fn next(&self) -> String {
        let bytes = self.received.recv_timeout(PATIENCE).expect("nothing reached the sink");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The control: the same bytes sent here directly arrive. What arrived before them would be
    /// the answer instead, so this also shows that nothing did.
    #[track_caller]
    pub(crate) fn control(&self, bytes: &[u8]) {
        let mut direct = TcpStream::connect(self.address).unwrap();
        direct.write_all(bytes).unwrap();
        direct.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = direct.read_to_end(&mut answer);
        let got = self.received.recv_timeout(PATIENCE).expect("the control did not arrive");
        assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(bytes), "an earlier one");
    }
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    match head.split_once("content-length: ") {
        Some((_, rest)) => {
            let digits = rest.split("\r\n").next().unwrap_or_default();
            body.len() >= digits.parse().unwrap_or(0)
        }
        None => !head.contains("transfer-encoding: chunked") || body.ends_with("0\r\n\r\n"),
    }
}

/// A running proxy between tests and sinks.
pub(crate) struct Scene {
    pub(crate) proxy: Option<EgressProxy>,
    pub(crate) port: u16,
    pub(crate) gate: Arc<Spy>,
    pub(crate) names: Arc<Names>,
    pub(crate) lines: Arc<Lines>,
    records: Receiver<EgressRecord>,
}

impl Scene {
    pub(crate) fn new(allowed: &[&str]) -> Self {
        Self::with(allowed, |_| {})
    }

    pub(crate) fn with(allowed: &[&str], change: impl FnOnce(&mut Egress)) -> Self {
        let (sender, records) = channel();
        let gate = Arc::new(Spy {
            list: AllowList::parse(allowed.iter().copied()).unwrap(),
            records: Mutex::new(sender),
            asked: Mutex::default(),
        });
        let (names, lines) = (Arc::new(Names::default()), Arc::new(Lines::default()));
        for (name, address) in HOSTS {
            names.set(name, &[&[address]]);
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut egress = Egress::new(gate.clone());
        (egress.resolver, egress.dialer) = (names.clone(), lines.clone());
        change(&mut egress);
        let proxy = EgressProxy::start(listener.into(), egress).unwrap();
        Self { proxy: Some(proxy), port, gate, names, lines, records }
    }

    /// A scene in which `a.test` is this sink.
    pub(crate) fn to(allowed: &[&str], sink: &Sink) -> Self {
        let scene = Self::new(allowed);
        scene.lines.set("1.1.1.1", sink);
        scene
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes and reads the whole answer.
    pub(crate) fn ask(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        read_all(&mut stream)
    }

    #[track_caller]
    pub(crate) fn record(&self) -> EgressRecord {
        self.records.recv_timeout(PATIENCE).expect("no record")
    }

    /// A record that was made already.
    pub(crate) fn record_now(&self) -> Option<EgressRecord> {
        self.records.try_recv().ok()
    }

    /// The request is refused for this reason, by answer and by record.
    #[track_caller]
    pub(crate) fn refused(&self, bytes: &[u8], expected: Denial) {
        let shown = String::from_utf8_lossy(bytes);
        let answer = self.ask(bytes);
        assert!(
            answer.contains(&format!("X-Glasshouse-Denial: {expected}\r\n")),
            "{shown}: {answer}"
        );
        assert_eq!(self.record().denial, Some(expected), "{shown}");
    }

    /// Opens a tunnel; the proxy's answer was read.
    #[track_caller]
    pub(crate) fn tunnel(&self, authority: &str) -> TcpStream {
        let mut stream = self.connect();
        let head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = [0; 39];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 Connection established\r\n\r\n");
        stream
    }
}

/// Reads to the end; a reset is an end too.
pub(crate) fn read_all(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

pub(crate) fn get(url: &str) -> Vec<u8> {
    let authority = url.trim_start_matches("http://").split('/').next().unwrap();
    format!("GET {url} HTTP/1.1\r\nHost: {authority}\r\n\r\n").into_bytes()
}

/// A TLS client's first message, in one record, with these extensions besides the usual ones.
pub(crate) fn hello(name: Option<&str>, more: &[u16]) -> Vec<u8> {
    fn long(bytes: &[u8]) -> Vec<u8> {
        [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
    }
    let mut extensions = Vec::new();
    if let Some(name) = name {
        let list = long(&[vec![0], long(name.as_bytes())].concat());
        extensions.extend([vec![0, 0], long(&list)].concat());
    }
    for kind in more {
        extensions.extend([kind.to_be_bytes().to_vec(), long(&[0; 8])].concat());
    }
    let body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0], &long(&extensions)].concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[1], &length[1..], &body].concat();
    [vec![22, 3, 1], long(&message)].concat()
}

/// A server's hello that asks for another one of the client.
pub(crate) fn hello_again() -> Vec<u8> {
    // SHA-256 of `HelloRetryRequest`.
    let random = "cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c";
    let random = (0..64).step_by(2).map(|at| u8::from_str_radix(&random[at..at + 2], 16).unwrap());
    let body = [&[3, 3][..], &random.collect::<Vec<_>>(), &[0, 0x13, 1, 0, 0, 0]].concat();
    let length = u8::try_from(body.len()).unwrap();
    [&[22, 3, 3, 0, length + 4, 2, 0, 0, length][..], &body].concat()
}
