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
//! - **The gate stands outside** (`gate`, `admit`): host, origin and who asks are checked before a path is looked at.
//!   A `Caller` can only be made there; the table of routes says which rights open which route.
//! - **A tenant is a log** (`shared`): handlers get one tenant's part of the server, so an id of another one is not
//!   there for them, and nobody has to compare tenants.
//! - **Keys and files are not here**: who starts the server gives it `Models`, and takes what an operator must know
//!   (`Operator`): the server itself prints nothing.
#![forbid(unsafe_code)]

mod admit;
mod ask;
mod auth;
mod body;
mod caller;
mod chat;
mod clock;
pub mod codes;
mod count;
mod desk;
mod error;
mod faults;
mod gate;
mod jwt;
mod keys;
mod lingering;
mod listen;
mod metrics;
mod models;
mod openapi;
mod page;
mod places;
mod pool;
mod problem;
mod pulse;
mod quota;
mod reply;
mod rights;
mod route;
mod routes;
mod service;
mod settings;
mod shapes;
mod shared;
mod stream;
mod tally;
mod telemetry;
mod throttle;
mod tide;
mod tls;
mod watching;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use glasshouse_kernel::{Cancel, Kernel};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use error::{Error, Result};
pub use faults::Operator;
pub use jwt::JwtSettings;
pub use models::{Connected, Models, Settings, Wanted};
pub use route::reference;
pub use settings::Listening;
pub use shared::home_of;
pub use telemetry::Telemetry;
pub use tls::TlsFiles;

/// Requests that are worked on at a time.
const WORKERS: usize = 16;
/// Requests that wait for a worker.
const MAX_WAITING: usize = 256;
/// How long running turns may go on after the server was told to stop, before they are stopped too.
const TURN_PATIENCE: Duration = Duration::from_secs(5);

/// A server that listens.
pub struct Server {
    address: SocketAddr,
    token_file: Option<PathBuf>,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    shared: Arc<shared::Shared>,
    ending: Cancel,
}

impl Server {
    /// Listens. Must be called within a multi-threaded runtime, which turns use too. `operator` is told of every
    /// answer that is a fault of ours.
    ///
    /// # Errors
    /// `listen_insecure` for an address that others can reach while nothing is encrypted, or nothing tells who
    /// asks; `tls_unusable`, `server_config_invalid`, `listen_failed`, `token_unusable`, `telemetry_invalid`; an
    /// error of the log.
    pub async fn start(
        kernel: Arc<Kernel>,
        home: &Path,
        models: Arc<dyn Models>,
        listening: Listening,
        telemetry: Option<Telemetry>,
        operator: Arc<dyn Operator>,
    ) -> Result<Self> {
        listening.check_hosts()?;
        let tls = listening.tls.as_ref().map(tls::acceptor).transpose()?;
        listen::check(&listening, has_keys(&kernel)?)?;
        let jwt = listening.jwt.clone().map(jwt::Jwt::new).transpose()?;
        // The token is for whoever sits at this machine.
        let token = listening.is_local().then(|| auth::Token::of_home(home)).transpose()?;
        let token_file = token.as_ref().map(|token| token.file().to_owned());
        let (listener, address) = listen::bind(listening.listen).await?;
        let (stop, stopping) = watch::channel(false);
        let ending = Cancel::new()?;
        let parts = shared::Parts {
            home: home.to_owned(),
            models,
            stopping: stopping.clone(),
            ending: ending.clone(),
            telemetry,
            faults: faults::Faults::new(operator),
            pool: Arc::new(pool::Pool::new(WORKERS, MAX_WAITING)),
            metrics: Arc::new(metrics::Metrics::new()),
            counted: Arc::default(),
        };
        let house = parts.service(kernel, home.to_owned())?;
        let gate = gate::Gate::new(address, &listening.hosts, listening.scheme());
        let rate = throttle::Rate::per_minute(listening.requests_per_minute);
        let shared = Arc::new(shared::Shared::new(house, parts, (gate, token, jwt), rate));
        let router = service::router(Arc::clone(&shared));
        let served = (Arc::clone(&shared), router);
        let serving = tokio::spawn(listen::serve(listener, served, tls, stopping));
        Ok(Self { address, token_file, stop, serving, shared, ending })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file with the token, where one counts.
    #[must_use]
    pub fn token_file(&self) -> Option<&Path> {
        self.token_file.as_deref()
    }

    /// Stops: no new turns, code of plans is ended, running turns come to rest or are stopped so that they can be
    /// carried on. What is asked meanwhile is answered, and streams tell of all that; then they say that they end, and
    /// nobody is listened to any more.
    pub async fn stop(self) {
        self.ending.cancel();
        let closing: Vec<_> = self
            .shared
            .all()
            .into_iter()
            .map(|service| tokio::task::spawn_blocking(move || service.desk.close(TURN_PATIENCE)))
            .collect();
        for closed in closing {
            let _ = closed.await;
        }
        let _ = self.stop.send(true);
        let _ = self.serving.await;
    }
}

/// Whether there is a key, of the installation or of a tenant that could be used.
fn has_keys(kernel: &Kernel) -> Result<bool> {
    let access = kernel.access()?;
    let now_us = clock::now_us();
    Ok(access.keys.values().any(|key| key.is_live(now_us))
        || access.tenants.values().any(|tenant| !tenant.is_disabled))
}
