//! Connections: how many, how slow they may be, and how they end.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::count::Count;
use crate::lingering::{Lingering, until_told};
use crate::places::Places;
use crate::pulse::{Pulse, Touched, felt};
use crate::service::answer;
use crate::settings::Listening;
use crate::shared::Shared;
use crate::{Error, Result, codes};

/// Most headers of a request.
pub(crate) const MAX_HEADERS: usize = 64;
/// Most bytes of a request's line and headers together.
const MAX_HEADER_BYTES: usize = 32 << 10;
/// Longest that headers may take to come.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// Longest that a connection may take to agree on keys.
const KEYS_WITHIN: Duration = Duration::from_secs(10);
/// Most requests of one HTTP/2 connection at a time.
const MAX_AT_ONCE: u32 = 128;
/// How often an idle HTTP/2 connection is asked whether anybody is there, and how long for an answer.
const ASK_EVERY: Duration = Duration::from_secs(20);
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// Longest that connections may take to end.
const CLOSING_WITHIN: Duration = Duration::from_secs(2);
/// Wait after the system could not give a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Refuses to listen where others reach the server while it would give itself to them: without encryption,
/// unless that was asked for in so many words, or without anything that tells who asks.
///
/// # Errors
/// `listen_insecure`.
pub(crate) fn check(listening: &Listening, has_keys: bool) -> Result<()> {
    let refused = |why: &str| {
        let what = format!("cannot listen on {}", listening.listen);
        Err(Error::new(codes::LISTEN_INSECURE, what).why(why))
    };
    if listening.is_local() {
        return Ok(());
    }
    if listening.tls.is_none() && !listening.insecure_plaintext {
        return refused("others can reach it, and what goes over it is not encrypted");
    }
    if listening.jwt.is_none() && !has_keys {
        return refused(
            "others can reach it, and there is no key and no identity provider by which they are known",
        );
    }
    Ok(())
}

/// Listens on an address.
///
/// # Errors
/// `listen_failed`.
pub(crate) async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let fail = |e: std::io::Error| {
        Error::new(codes::LISTEN_FAILED, format!("cannot listen on {address}")).why(e)
    };
    let listener = TcpListener::bind(address).await.map_err(fail)?;
    let bound = listener.local_addr().map_err(fail)?;
    Ok((listener, bound))
}

/// Serves connections until told to stop; then each ends after the answer that it is giving.
pub(crate) async fn serve(
    listener: TcpListener,
    (shared, router): (Arc<Shared>, Router),
    tls: Option<TlsAcceptor>,
    mut stopping: watch::Receiver<bool>,
) {
    let places = Places::new();
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = stopping.changed() => break,
            // What ended is let go of.
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, peer, one)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // Who has their share already is hung up on.
        let Some(place) = places.give(one, peer) else { continue };
        let pulse = Pulse::new();
        let stream = Touched::new(stream, &pulse);
        let served = Served { shared: Arc::clone(&shared), router: router.clone(), peer, pulse };
        let (tls, stopping) = (tls.clone(), stopping.clone());
        connections.spawn(async move {
            match tls {
                None => served.plain(stream, stopping).await,
                Some(tls) => served.encrypted(&tls, stream, stopping).await,
            }
            drop(place);
        });
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(CLOSING_WITHIN, all).await;
}

async fn accept(
    listener: &TcpListener,
    places: &Places,
) -> Option<(TcpStream, IpAddr, OwnedSemaphorePermit)> {
    let one = places.wait().await?;
    let (stream, peer) = listener.accept().await.ok()?;
    // Events are small and should not wait for one another.
    let _ = stream.set_nodelay(true);
    Some((stream, peer.ip(), one))
}

/// What a connection is served with.
struct Served {
    shared: Arc<Shared>,
    router: Router,
    peer: IpAddr,
    pulse: Arc<Pulse>,
}

/// Serves a connection until it ends, the server does, or nothing happens on it any more. One that breaks is the
/// client's affair; what it asked for is in the log.
macro_rules! until_the_end {
    ($served:expr, $pulse:expr, $stopping:expr) => {{
        let mut served = std::pin::pin!($served);
        tokio::select! {
            _ = served.as_mut() => {}
            () = $pulse.still() => {
                served.as_mut().graceful_shutdown();
                // What its client does not take is dropped.
                let _ = tokio::time::timeout(CLOSING_WITHIN, served).await;
            }
            _ = $stopping.changed() => {
                served.as_mut().graceful_shutdown();
                let _ = served.await;
            }
        }
    }};
}

/// Serves HTTP/1.
async fn plain<F>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    pulse: &Pulse,
    respond: impl Fn(hyper::Request<hyper::body::Incoming>) -> F,
    mut stopping: watch::Receiver<bool>,
) where
    F: Future<Output = std::result::Result<axum::response::Response, Infallible>>,
{
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES);
    let answering = Count::default();
    let respond = service_fn(|request| {
        let (answer, responded) = (answering.one(), respond(request));
        async { Ok::<_, Infallible>(responded.await?.map(|body| until_told(body, answer))) }
    });
    let stream = TokioIo::new(Lingering::new(stream, answering.clone()));
    until_the_end!(builder.serve_connection(stream, respond), pulse, stopping);
}

impl Served {
    async fn plain(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        stopping: watch::Receiver<bool>,
    ) {
        plain(stream, &self.pulse, |request| self.answer(request), stopping).await;
    }

    async fn encrypted(
        self,
        tls: &TlsAcceptor,
        stream: Touched<TcpStream>,
        mut stopping: watch::Receiver<bool>,
    ) {
        let agreed = tokio::time::timeout(KEYS_WITHIN, tls.accept(stream)).await;
        let Ok(Ok(stream)) = agreed else { return };
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return self.plain(stream, stopping).await;
        }
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_AT_ONCE)
            .max_header_list_size(u32::try_from(MAX_HEADER_BYTES).unwrap_or(u32::MAX))
            .keep_alive_interval(ASK_EVERY)
            .keep_alive_timeout(ANSWER_WITHIN);
        let (pulse, served) = (Arc::clone(&self.pulse), Arc::new(self));
        let respond = service_fn(move |request| {
            let served = Arc::clone(&served);
            async move { served.answer(request).await }
        });
        let served = builder.serve_connection(TokioIo::new(stream), respond);
        until_the_end!(served, pulse, stopping);
    }

    async fn answer(
        &self,
        request: hyper::Request<hyper::body::Incoming>,
    ) -> std::result::Result<axum::response::Response, Infallible> {
        let _owed = self.pulse.owe();
        let request = request.map(axum::body::Body::new);
        let (shared, router) = (Arc::clone(&self.shared), self.router.clone());
        let response = answer(shared, router, self.peer, request).await;
        Ok(response.map(|body| felt(body, &self.pulse)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::TlsFiles;

    #[test]
    fn it_listens_where_others_reach_it_only_encrypted_and_knowing_who_asks() {
        let check = |address: &str, tls: bool, plaintext: bool, keys: bool, expected: bool| {
            let files = TlsFiles { certificate: "c.pem".into(), key: "k.pem".into() };
            let listening = Listening {
                listen: address.parse().unwrap(),
                tls: tls.then_some(files),
                insecure_plaintext: plaintext,
                ..Listening::default()
            };
            let found = super::check(&listening, keys).is_ok();
            assert_eq!(found, expected, "{address} {tls} {plaintext} {keys}");
        };
        check("127.0.0.1:0", false, false, false, true);
        check("[::1]:0", false, false, false, true);
        check("0.0.0.0:0", false, false, true, false);
        check("0.0.0.0:0", true, false, false, false);
        check("0.0.0.0:0", true, false, true, true);
        check("0.0.0.0:0", false, true, true, true);
        check("0.0.0.0:0", false, true, false, false);
        check("[::]:0", false, false, true, false);
        check("192.0.2.1:443", true, false, true, true);
    }

    use std::time::Duration;

    use axum::body::Body;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::time::Instant;

    /// How long a connection lasts, within an hour, on which so many requests are sent and so many bytes taken a minute.
    async fn lasts(requests: usize, taken: usize, answer: fn() -> Body) -> Option<Duration> {
        let (mut client, server) = tokio::io::duplex(4 << 10);
        let (_stop, stopping) = watch::channel(false);
        let served = tokio::spawn(async move {
            let pulse = Pulse::new();
            let respond = async |_| {
                let _owed = pulse.owe();
                Ok(axum::response::Response::new(felt(answer(), &pulse)))
            };
            plain(Touched::new(server, &pulse), &pulse, respond, stopping).await;
        });
        let asked = "GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(requests);
        client.write_all(asked.as_bytes()).await.unwrap();
        let began = Instant::now();
        let reading = tokio::spawn(async move {
            let mut bytes = vec![0; taken];
            loop {
                tokio::time::sleep(Duration::from_secs(60)).await;
                if taken > 0 && client.read_exact(&mut bytes).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        });
        let ended = tokio::time::timeout(Duration::from_secs(3_600), served).await;
        reading.abort();
        ended.is_ok().then(|| began.elapsed())
    }

    /// The failure: a client that asked for a few large answers and took none of them kept its connection for good; it
    /// needed no key for that. The mend: where nothing happens for two minutes the connection is ended, unless it is
    /// the server that has nothing to say.
    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_let_go() {
        let large = || Body::from(vec![b'x'; 1 << 20]);
        let silent = || {
            Body::new(http_body_util::StreamBody::new(futures_util::stream::pending::<
                std::result::Result<
                    hyper::body::Frame<axum::body::Bytes>,
                    std::convert::Infallible,
                >,
            >()))
        };
        let at_most = Duration::from_secs(125);
        for requests in [1, 12] {
            let lasted = lasts(requests, 0, large).await;
            assert!(lasted.is_some_and(|lasted| lasted < at_most), "{requests} {lasted:?}");
        }
        // The controls: one who takes it slowly, and one who is told nothing yet.
        assert_eq!(lasts(12, 4 << 10, large).await, None);
        assert_eq!(lasts(1, 0, silent).await, None);
        // Who has all that was asked for asks for more soon, or is let go at once.
        let lasted = lasts(1, 64, || Body::from("ok")).await;
        assert!(lasted.is_some_and(|lasted| lasted < Duration::from_secs(75)), "{lasted:?}");
    }
}
