//! The kernel over HTTP: sessions, turns, live events, approvals and proofs for other programs.
//!
//! Seams, decided first:
//!
//! - **A handler is thin.** It reads a request, makes one call of the kernel or the log, and tells the
//!   answer. Whatever would be a decision belongs to the kernel, so that a command and a route that do the
//!   same thing make the same call and leave the same events.
//! - **Every answer is a view**: a fold that the kernel or the log gives. The server keeps nothing but what
//!   cannot outlive it: connections, and the turns that run in this process.
//! - **One table of routes** is what is served, what the reference lists and what says who needs a token.
//! - **One bridge** (`pool`): connections never wait, the kernel does. Handlers are plain functions on a bounded
//!   number of threads; one request too many is refused with the time after which to come again. A turn
//!   has a thread of its own (`desk`).
//! - **A stream is a cursor** (`stream`): events are read from the log as the client takes them, so any length is
//!   replayed in one answer that goes on live, and a slow client is behind but misses nothing. One thread
//!   (`tide`) wakes all who wait. A client that leaves ends its stream and nothing else.
//! - **The gate stands outside** (`gate`, `auth`): host, origin and token are checked before a path is looked at. A
//!   `Caller` can only be made there.
//! - **Keys and files are not here**: who starts the server gives it `Models`.
#![forbid(unsafe_code)]

mod ask;
mod auth;
mod chat;
pub mod codes;
mod desk;
mod error;
mod gate;
mod listen;
mod metrics;
mod models;
mod openapi;
mod pool;
mod problem;
mod reply;
mod route;
mod routes;
mod service;
mod stream;
mod telemetry;
mod tide;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use glasshouse_kernel::Kernel;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use error::{Error, Result};
pub use models::{Connected, Models, Settings, Wanted};
pub use route::reference;
pub use telemetry::Telemetry;

/// Requests that are worked on at a time.
const WORKERS: usize = 16;
/// Requests that wait for a worker.
const MAX_WAITING: usize = 256;
/// How long running turns may go on after the server was told to stop, before they are stopped too.
const TURN_PATIENCE: Duration = Duration::from_secs(5);

/// A server that listens.
pub struct Server {
    address: SocketAddr,
    token_file: PathBuf,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    desk: Arc<desk::Desk>,
}

impl Server {
    /// Listens. Must be called within a multi-threaded runtime, which turns use too.
    ///
    /// # Errors
    /// `listen_insecure` for an address that others can reach; `listen_failed`; `token_unusable`;
    /// `telemetry_invalid`; an error of the log.
    pub async fn start(
        kernel: Arc<Kernel>,
        home: &Path,
        models: Arc<dyn Models>,
        address: SocketAddr,
        telemetry: Option<Telemetry>,
    ) -> Result<Self> {
        let token = auth::Token::of_home(home)?;
        let token_file = token.file().to_owned();
        let (listener, address) = listen::bind(address).await?;
        let (stop, stopping) = watch::channel(false);
        let desk = Arc::new(desk::Desk::new(Arc::clone(&kernel), models));
        let watcher = telemetry::Watcher::new(kernel.log(), telemetry)?;
        let streams = Arc::new(stream::Streams::new(kernel.log(), stopping.clone())?);
        let service = Arc::new_cyclic(|own| service::Service {
            own: own.clone(),
            kernel,
            home: home.to_owned(),
            desk: Arc::clone(&desk),
            streams,
            pool: pool::Pool::new(WORKERS, MAX_WAITING),
            gate: gate::Gate::of_loopback(address),
            token,
            metrics: metrics::Metrics::new(),
            watcher,
        });
        let router = service::router(Arc::clone(&service));
        let serving = tokio::spawn(listen::serve(listener, service, router, stopping));
        Ok(Self { address, token_file, stop, serving, desk })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file with the token.
    #[must_use]
    pub fn token_file(&self) -> &Path {
        &self.token_file
    }

    /// Stops: no new requests, streams end, running turns come to rest or are stopped so that they can be
    /// carried on.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        let desk = self.desk;
        let closing = tokio::task::spawn_blocking(move || desk.close(TURN_PATIENCE));
        let _ = self.serving.await;
        let _ = closing.await;
    }
}
