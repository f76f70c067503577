//! One HTTP/1.1 request over one connection of its own.
//!
//! A connection is never shared or kept: dropping the answer closes the socket, which is how a
//! cancelled request stops costing, and no request can hit a connection that went stale. Against
//! the seconds that a model takes the handshake does not count. Redirects are not followed, bodies
//! are not decompressed, proxies of the environment are not used.

mod endpoint;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use glasshouse_sandbox::egress::tls_connector;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

pub(crate) use endpoint::Endpoint;

use crate::{Error, codes};

/// Largest response head in bytes; real ones are below 4 KiB.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// How long each part of a request may take, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Looking up the name, connecting and the TLS handshake together.
    pub connect_ms: u64,
    /// From the sent request to the first byte of the answer's body. Long, because a local model
    /// reads the whole prompt first and a reasoning model thinks first.
    pub first_byte_ms: u64,
    /// Between two pieces of the body.
    pub idle_ms: u64,
    /// The whole request.
    pub total_ms: u64,
}

impl Default for Timeouts {
    /// 10 s, 5 min, 2 min and 30 min.
    fn default() -> Self {
        Self { connect_ms: 10_000, first_byte_ms: 300_000, idle_ms: 120_000, total_ms: 1_800_000 }
    }
}

/// Opens connections to one endpoint.
pub(crate) struct Transport {
    endpoint: Endpoint,
    tls: Option<TlsConnector>,
    timeouts: Timeouts,
    /// Whether an unencrypted connection may go to a public address.
    allow_public_plain_http: bool,
}

impl Transport {
    /// Sets the trust in certificates up; `roots_pem` are trusted besides the public authorities.
    ///
    /// # Errors
    /// `provider_config` when a certificate cannot be read.
    pub(crate) fn new(
        endpoint: Endpoint,
        roots_pem: &[String],
        timeouts: Timeouts,
        allow_public_plain_http: bool,
    ) -> Result<Self, Error> {
        let tls =
            endpoint.secure.then(|| tls_connector(roots_pem)).transpose().map_err(|error| {
                let report = error.report();
                Error::new(codes::PROVIDER_CONFIG, report.what).why(report.why)
            })?;
        Ok(Self { endpoint, tls, timeouts, allow_public_plain_http })
    }

    pub(crate) const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) const fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// Sends a POST to an operation below the base URL and waits for the head of the answer.
    ///
    /// # Errors
    /// `provider_unreachable`, `provider_untrusted`, `provider_insecure` or `provider_timeout`.
    pub(crate) async fn post(
        &self,
        operation: &str,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response, Error> {
        let limit = Duration::from_millis(self.timeouts.connect_ms);
        let stream = timeout(limit, self.connect())
            .await
            .map_err(|_| self.timed_out("no connection", self.timeouts.connect_ms))??;
        let lost =
            |why: hyper::Error| self.unreachable("the connection broke before the answer", why);
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(lost)?;
        let connection = Connection(tokio::spawn(async move {
            // What goes wrong here also reaches the reader of the answer.
            let _ = connection.await;
        }));
        let mut request = Request::post(format!("{}{operation}", self.endpoint.path))
            .body(Full::new(Bytes::from(body)))
            .map_err(|why| self.unreachable("the request cannot be written", why))?;
        *request.headers_mut() = headers;
        let first_byte_by = Instant::now() + Duration::from_millis(self.timeouts.first_byte_ms);
        let response = timeout_at(first_byte_by, sender.send_request(request))
            .await
            .map_err(|_| self.timed_out("no answer", self.timeouts.first_byte_ms))?
            .map_err(lost)?;
        let (head, body) = response.into_parts();
        Ok(Response {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
            first_byte_by: Some(first_byte_by),
            _connection: connection,
        })
    }

    /// The next piece of the body; `None` at its end.
    ///
    /// # Errors
    /// `provider_timeout` when it does not come in time, `stream_cut` when the body stops short.
    pub(crate) async fn next_piece(&self, response: &mut Response) -> Result<Option<Bytes>, Error> {
        let (by, late) = match response.first_byte_by.take() {
            Some(by) => (by, ("no answer", self.timeouts.first_byte_ms)),
            None => (
                Instant::now() + Duration::from_millis(self.timeouts.idle_ms),
                ("nothing more of the answer", self.timeouts.idle_ms),
            ),
        };
        loop {
            let frame = timeout_at(by, response.body.frame())
                .await
                .map_err(|_| self.timed_out(late.0, late.1))?;
            match frame {
                None => return Ok(None),
                // A frame that is no data holds trailers, which say nothing of interest.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Ok(Some(data)),
                    _ => {}
                },
                Some(Err(why)) => {
                    return Err(Error::new(
                        codes::STREAM_CUT,
                        format!("the answer of {} broke off", self.endpoint.authority),
                    )
                    .why(why));
                }
            }
        }
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, Error> {
        let tcp = self.connect_tcp().await?;
        // Small writes: a request is one burst, waiting to fill a packet only delays it.
        let _ = tcp.set_nodelay(true);
        let Some(tls) = &self.tls else { return Ok(Box::new(tcp)) };
        let name = ServerName::try_from(self.endpoint.host.clone())
            .map_err(|why| self.unreachable("its host is no name for a certificate", why))?;
        match tls.connect(name, tcp).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(why) if is_untrusted(&why) => Err(Error::new(
                codes::PROVIDER_UNTRUSTED,
                format!("{} shows a certificate that is not trusted", self.endpoint.authority),
            )
            .why(why)),
            Err(why) => Err(self.unreachable("the TLS handshake failed", why)),
        }
    }

    async fn connect_tcp(&self) -> Result<TcpStream, Error> {
        let Endpoint { host, port, .. } = &self.endpoint;
        let found = tokio::net::lookup_host((host.as_str(), *port))
            .await
            .map_err(|why| self.unreachable("its name is not known", why))?;
        // Each address but the last gets half of the time that is left, so one that swallows
        // packets leaves time for the others; the caller bounds the whole.
        let mut share = Duration::from_millis(self.timeouts.connect_ms);
        let mut addresses = found.filter(|address| self.may_dial(address)).peekable();
        let mut failure = None;
        while let Some(address) = addresses.next() {
            if addresses.peek().is_some() {
                share /= 2;
            }
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(why)) => failure = Some(why),
                Err(late) => failure = Some(late.into()),
            }
        }
        Err(match failure {
            Some(why) if why.kind() == io::ErrorKind::ConnectionRefused => {
                self.unreachable("nothing listens there", why)
            }
            Some(why) => self.unreachable("no connection", why),
            None => self.endpoint.insecure(),
        })
    }

    /// The address decides, not the name: a private name that resolves to a public address would
    /// send the key in the clear.
    fn may_dial(&self, address: &SocketAddr) -> bool {
        self.tls.is_some() || self.allow_public_plain_http || endpoint::is_private(address.ip())
    }

    fn unreachable(&self, what: &str, why: impl std::fmt::Display) -> Error {
        Error::new(
            codes::PROVIDER_UNREACHABLE,
            format!("cannot reach {}: {what}", self.endpoint.authority),
        )
        .why(why)
    }

    pub(crate) fn timed_out(&self, what: &str, limit_ms: u64) -> Error {
        Error::new(codes::PROVIDER_TIMEOUT, format!("{} took too long", self.endpoint.authority))
            .why(format!("{what} within {limit_ms} ms"))
            .with("limit_ms", limit_ms)
    }
}

/// A response whose body is still arriving; dropping it closes the connection.
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    /// Until when the first piece must come; taken once it is waited for.
    first_byte_by: Option<Instant>,
    _connection: Connection,
}

/// The task that moves bytes for a connection; it ends with its owner.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

fn is_untrusted(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_encryption_only_private_addresses_are_dialled() {
        let check = |base_url: &str, allow: bool, address: &str, expected: bool| {
            let endpoint = Endpoint::parse(base_url, "/chat/completions").unwrap();
            let transport = Transport::new(endpoint, &[], Timeouts::default(), allow).unwrap();
            let address = address.parse().unwrap();
            assert_eq!(transport.may_dial(&address), expected, "{base_url} {allow} {address}");
        };
        // A private-sounding name may resolve to either; the address counts.
        check("http://models.internal/v1", false, "10.0.0.7:80", true);
        check("http://models.internal/v1", false, "198.51.100.7:80", false);
        check("http://models.internal/v1", true, "198.51.100.7:80", true);
        check("https://models.internal/v1", false, "198.51.100.7:443", true);
        check("http://models.internal/v1", false, "169.254.169.254:80", false);
    }
}
