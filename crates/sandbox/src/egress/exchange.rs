//! One connection from inside: one request or one tunnel, from its first byte to its record.
//!
//! A connection carries one request. The next one comes on a connection of its own and is decided
//! anew, also when it is the same client following a redirect.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::io::{AsyncWriteExt as _, BufReader, split};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::body::{Target as BodyTarget, pass_on};
use super::head::{RequestHead, ResponseHead, Target, end_of};
use super::hello::alert;
use super::meter::{Direction, Meter};
use super::proxy::Shared;
use super::secret::{Mask, Use};
use super::tunnel::{Ends, read_hello};
use super::upstream::{ask, connect};
use super::{Denial, EgressRecord, EgressRequest};

/// Most informational answers (100, 103) before the real one.
const MAX_INFORMATIONAL: usize = 8;

/// What is still read from a client that was refused, so that it gets to read why.
const LINGER: Duration = Duration::from_millis(500);
const LINGER_BYTES: u64 = 64 << 10;

/// Answers of servers are longer than requests: cookies, policies.
const MAX_ANSWER_HEAD_BYTES: usize = 64 << 10;

/// What the client can be told at this point.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was answered: a refusal is an HTTP answer.
    Asked,
    /// The tunnel stands and carries nothing yet: a refusal is a TLS alert.
    Tunnel,
    /// The server's bytes are under way: a refusal is the end.
    Answering,
}

/// Serves one connection to its end. It is recorded also when it is cut off before anybody waits for that.
pub(crate) fn serve(shared: Rc<Shared>, stream: TcpStream) -> impl Future<Output = ()> {
    let exchange = Exchange {
        meter: Meter::new(shared.egress.limits.max_bytes),
        shared,
        stage: Cell::new(Stage::Asked),
        wanted: Arc::new(AtomicBool::new(true)),
        record: Some(EgressRecord { denial: None, ..EgressRecord::refused(Denial::Limit) }),
    };
    serve_as(exchange, stream)
}

async fn serve_as(mut exchange: Exchange, stream: TcpStream) {
    // Without it small pieces wait for each other.
    let _ = stream.set_nodelay(true);
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let limits = exchange.shared.egress.limits;
    let whole = exchange.run(&mut reader, &mut writer);
    let outcome = within(limits.total_ms, whole).await.and_then(|outcome| outcome);
    let target = exchange.target();
    // What broke off under way was allowed and went out; its counts say how far.
    let under_way = exchange.stage.get() == Stage::Answering;
    let broke_off = under_way && outcome == Err(Denial::Unreachable);
    exchange.finish(outcome.err().filter(|_| !broke_off));
    if let Err(denial) = outcome {
        let said = match exchange.stage.get() {
            Stage::Asked => denial.answer(&target).into_bytes(),
            Stage::Tunnel => alert(denial).to_vec(),
            Stage::Answering => Vec::new(),
        };
        let _ = timeout(LINGER, writer.write_all(&said)).await;
    }
    let _ = writer.shutdown().await;
    // Closing with unread bytes would reset the connection and take the answer with it.
    let mut rest = reader.take(LINGER_BYTES);
    let _ = timeout(LINGER, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
}

struct Exchange {
    shared: Rc<Shared>,
    meter: Meter,
    stage: Cell<Stage>,
    /// Whether a connection is still wanted; what connects runs on another thread.
    wanted: Arc<AtomicBool>,
    /// Taken when it is handed to the gate.
    record: Option<EgressRecord>,
}

impl Drop for Exchange {
    /// Cut off with the proxy: what stood is recorded as it stands.
    fn drop(&mut self) {
        self.wanted.store(false, Ordering::Release);
        let connected = self.record.as_ref().is_some_and(|record| record.address.is_some());
        self.finish((!connected).then_some(Denial::Ended));
    }
}

impl Exchange {
    fn finish(&mut self, denial: Option<Denial>) {
        let Some(mut record) = self.record.take() else { return };
        record.denial = denial;
        record.sent_bytes = self.meter.sent_bytes();
        record.received_bytes = self.meter.received_bytes();
        record.duration_us = self.meter.duration_us();
        self.shared.egress.gate.record(&record);
    }

    fn target(&self) -> String {
        let host = self.record.as_ref().and_then(|record| record.host.as_ref());
        host.map_or_else(|| "the request".to_owned(), ToString::to_string)
    }

    async fn run(
        &mut self,
        client: &mut BufReader<OwnedReadHalf>,
        out: &mut OwnedWriteHalf,
    ) -> Result<(), Denial> {
        let limits = self.shared.egress.limits;
        let bytes = within(limits.head_ms, read_head(client, limits.max_head_bytes)).await??;
        let head = RequestHead::parse(&bytes)?;
        if let Some(record) = &mut self.record {
            record.host = Some(head.host.clone());
            record.port = head.port;
            record.method.clone_from(&head.method);
            record.path = head.path().map(str::to_owned);
        }
        let shared = Rc::clone(&self.shared);
        let _place = shared.enter(&head.host)?;
        match head.target {
            Target::Tunnel => self.tunnel(&head, client, out).await,
            Target::Resource(_) => self.request(head, client, out).await,
        }
    }

    /// Has the request decided, away from the thread that serves.
    async fn ask(&mut self, head: &RequestHead, tls: bool) -> Result<(), Denial> {
        let gate = Arc::clone(&self.shared.egress.gate);
        let request = EgressRequest {
            host: head.host.clone(),
            port: head.port,
            method: head.method.clone(),
            path: head.path().map(str::to_owned),
            tls,
        };
        if let Some(record) = &mut self.record {
            record.port = head.port;
        }
        let work = spawn_blocking(move || ask(&*gate, &request));
        let limit_ms = self.shared.egress.limits.connect_ms;
        // A gate that panicked has allowed nothing.
        within(limit_ms, work).await?.map_err(|_| Denial::NotAllowed)?
    }

    /// Looks up and connects what was allowed.
    async fn connect(&mut self, head: &RequestHead) -> Result<TcpStream, Denial> {
        let egress = self.shared.egress.clone();
        let (host, port, wanted) = (head.host.clone(), head.port, Arc::clone(&self.wanted));
        let work = spawn_blocking(move || {
            let wants = || wanted.load(Ordering::Acquire);
            connect(&*egress.resolver, &*egress.dialer, (&host, port), &wants)
        });
        let limit_ms = self.shared.egress.limits.connect_ms;
        let connected = within(limit_ms, work).await;
        if connected.is_err() {
            self.wanted.store(false, Ordering::Release);
        }
        let (stream, address) = connected?.map_err(|_| Denial::Unreachable)??;
        if let Some(record) = &mut self.record {
            record.address = Some(address);
        }
        let opened = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
        let stream = opened.map_err(|_| Denial::Unreachable)?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    /// The client is told to speak as soon as its host is allowed, and nothing is connected before it
    /// has said for whom: a tunnel that is refused opens no connection.
    async fn tunnel(
        &mut self,
        head: &RequestHead,
        client: &mut BufReader<OwnedReadHalf>,
        out: &mut OwnedWriteHalf,
    ) -> Result<(), Denial> {
        let limits = self.shared.egress.limits;
        self.ask(head, false).await?;
        write(out, b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
        self.stage.set(Stage::Tunnel);
        let hello = within(limits.head_ms, read_hello(client, &head.host)).await??;
        let (server, to_server) = self.connect(head).await?.into_split();
        self.stage.set(Stage::Answering);
        self.meter.moved();
        let ends = Ends { client, to_client: out, server, to_server };
        tokio::select! {
            ended = ends.carry(&hello, &head.host, &self.meter) => ended,
            denial = self.meter.idle(Duration::from_millis(limits.idle_ms)) => Err(denial),
        }
    }

    async fn request(
        &mut self,
        mut head: RequestHead,
        client: &mut BufReader<OwnedReadHalf>,
        out: &mut OwnedWriteHalf,
    ) -> Result<(), Denial> {
        let shared = Rc::clone(&self.shared);
        let limits = shared.egress.limits;
        let used = Use::of(&shared.egress.secrets, &head);
        self.tell_misuse(&used, &head);
        let tls = !used.put_in.is_empty();
        used.fill(&mut head);
        self.ask(&head, tls).await?;
        let server = self.connect(&head).await?;
        let server: Box<dyn Stream> = if tls {
            let name =
                ServerName::try_from(head.host.to_string()).map_err(|_| Denial::Malformed)?;
            let shaken = within(limits.connect_ms, shared.tls.connect(name, server)).await?;
            Box::new(shaken.map_err(|_| Denial::Unreachable)?)
        } else {
            Box::new(server)
        };
        let (from_server, mut to_server) = split(server);
        let mut from_server = BufReader::new(from_server);
        if head.expects_continue() {
            write(out, b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        self.meter.moved();
        let sending = async {
            let bytes = head.rewritten();
            self.meter.add(Direction::Sent, bytes.len())?;
            write(&mut to_server, &bytes).await?;
            let target = BodyTarget {
                to: &mut to_server,
                direction: Direction::Sent,
                meter: &self.meter,
                mask: Mask::new(Vec::new()),
            };
            pass_on(client, target, head.framing).await
        };
        let failed = async {
            match sending.await {
                // The answer ends the exchange, not the request.
                Ok(()) => std::future::pending().await,
                Err(denial) => denial,
            }
        };
        let answer = self.answer(&head, &mut from_server, out, &used);
        tokio::select! {
            biased;
            ended = answer => ended,
            denial = failed => Err(denial),
            denial = self.stalled() => Err(denial),
        }
    }

    /// A server may think longer than an answer under way may pause.
    async fn stalled(&self) -> Denial {
        let limits = self.shared.egress.limits;
        let (idle, answer) =
            (Duration::from_millis(limits.idle_ms), Duration::from_millis(limits.answer_ms));
        loop {
            let limit = if self.stage.get() == Stage::Asked { answer.max(idle) } else { idle };
            let denial = self.meter.idle(limit).await;
            if self.stage.get() == Stage::Asked || limit == idle {
                return denial;
            }
        }
    }

    /// A placeholder on its way to a host that it does not belong to is told of. The request goes
    /// on: it carries a word, not the secret.
    fn tell_misuse(&self, used: &Use<'_>, head: &RequestHead) {
        let Some(denial) = used.denial() else { return };
        self.shared.egress.gate.record(&EgressRecord {
            host: Some(head.host.clone()),
            port: head.port,
            method: head.method.clone(),
            path: head.path().map(str::to_owned),
            ..EgressRecord::refused(denial)
        });
    }

    async fn answer<R: AsyncRead + Unpin>(
        &self,
        head: &RequestHead,
        from: &mut BufReader<R>,
        out: &mut OwnedWriteHalf,
        used: &Use<'_>,
    ) -> Result<(), Denial> {
        let mut informational = 0;
        let answer = loop {
            let bytes = read_head(from, MAX_ANSWER_HEAD_BYTES).await?;
            self.meter.add(Direction::Received, bytes.len())?;
            let answer = ResponseHead::parse(&bytes, &head.method)?;
            match answer.status {
                // Nobody asked for another protocol: the request for it was stripped.
                101 => return Err(Denial::Malformed),
                100..200 if informational < MAX_INFORMATIONAL => informational += 1,
                100..200 => return Err(Denial::Malformed),
                _ => break answer,
            }
        };
        let mut mask = used.mask();
        let mut bytes = mask.pass(&answer.rewritten());
        bytes.extend(mask.rest());
        self.stage.set(Stage::Answering);
        self.meter.moved();
        write(out, &bytes).await?;
        let target =
            BodyTarget { to: out, direction: Direction::Received, meter: &self.meter, mask };
        pass_on(from, target, answer.framing).await
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

async fn within<F: Future>(limit_ms: u64, work: F) -> Result<F::Output, Denial> {
    timeout(Duration::from_millis(limit_ms), work).await.map_err(|_| Denial::TimedOut)
}

async fn write<W: AsyncWrite + Unpin>(to: &mut W, bytes: &[u8]) -> Result<(), Denial> {
    let all = async {
        to.write_all(bytes).await?;
        to.flush().await
    };
    all.await.map_err(|_: io::Error| Denial::Unreachable)
}

/// Reads to the end of a head and not a byte further.
async fn read_head<R: AsyncBufRead + Unpin>(
    from: &mut R,
    max_bytes: usize,
) -> Result<Vec<u8>, Denial> {
    let mut head = Vec::new();
    loop {
        let there = from.fill_buf().await.map_err(|_| Denial::Unreachable)?;
        if there.is_empty() {
            return Err(if head.is_empty() { Denial::Unreachable } else { Denial::Malformed });
        }
        let (before, count) = (head.len(), there.len());
        head.extend_from_slice(there);
        let end = end_of(&head)?;
        from.consume(end.map_or(count, |end| end - before));
        if end.unwrap_or(head.len()) > max_bytes {
            return Err(Denial::TooLarge);
        }
        if let Some(end) = end {
            head.truncate(end);
            return Ok(head);
        }
    }
}
