//! Connections: how many, how slow they may be, and how they end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::service::{Service, answer};
use crate::{Error, Result, codes};

/// Most connections at a time; more wait in the system's queue.
const MAX_CONNECTIONS: usize = 4_096;
/// Most headers of a request.
const MAX_HEADERS: usize = 64;
/// Most bytes of a request's line and headers together.
const MAX_HEADER_BYTES: usize = 32 << 10;
/// Longest that headers may take to come.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// Longest that connections may take to end.
const CLOSING_WITHIN: Duration = Duration::from_secs(2);
/// Wait after the system could not give a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Listens on an address that only this machine can reach.
///
/// # Errors
/// `listen_insecure`, `listen_failed`.
pub(crate) async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    if !address.ip().is_loopback() {
        return Err(Error::new(codes::LISTEN_INSECURE, format!("cannot listen on {address}"))
            .why("others can reach it, and what goes over it is not encrypted"));
    }
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
    service: Arc<Service>,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            _ = stopping.changed() => break,
            // What ended is let go of.
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, place)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (service, router, stopping) = (Arc::clone(&service), router.clone(), stopping.clone());
        connections.spawn(async move {
            connection(stream, service, router, stopping).await;
            drop(place);
        });
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(CLOSING_WITHIN, all).await;
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    let (stream, _) = listener.accept().await.ok()?;
    // Events are small and should not wait for one another.
    let _ = stream.set_nodelay(true);
    Some((stream, place))
}

async fn connection(
    stream: TcpStream,
    service: Arc<Service>,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) {
    let respond = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let (service, router) = (Arc::clone(&service), router.clone());
        async move {
            let request = request.map(axum::body::Body::new);
            Ok::<_, std::convert::Infallible>(answer(service, router, request).await)
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES);
    let mut served = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), respond));
    // A connection that breaks is the client's affair; what it asked for is in the log.
    tokio::select! {
        _ = served.as_mut() => {}
        _ = stopping.changed() => {
            served.as_mut().graceful_shutdown();
            let _ = served.await;
        }
    }
}
