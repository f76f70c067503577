//! The proxy's life: one thread for each sandbox that may reach anything.

use std::collections::HashMap;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::LocalSet;
use tokio_rustls::TlsConnector;

use super::exchange::serve;
use super::{Denial, Egress, EgressRecord, Host};
use crate::owner::guard;
use crate::{Error, Result, codes};

/// Threads for what blocks: decisions, lookups, connecting.
const MAX_BLOCKING_THREADS: usize = 16;

/// How long the end waits for a decision or lookup that is under way.
const END_LIMIT: Duration = Duration::from_millis(200);

/// Pause after a failed accept, which means that descriptors are used up.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running proxy. When it is dropped every connection is closed and recorded.
#[derive(Debug)]
pub struct EgressProxy {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What all exchanges of one sandbox share.
pub(crate) struct Shared {
    pub(crate) egress: Egress,
    pub(crate) tls: TlsConnector,
    hosts: Mutex<HashMap<Host, usize>>,
}

impl EgressProxy {
    /// Serves a listening TCP socket, wherever it was made.
    ///
    /// # Errors
    /// `egress_invalid` for an unusable root certificate, `sandbox_system`.
    pub fn start(listener: OwnedFd, egress: Egress) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::new(codes::SYSTEM, "cannot start the egress proxy").why(error)
        };
        let tls = tls_connector(&egress.roots_pem)?;
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(true).map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(MAX_BLOCKING_THREADS)
            .thread_name("egress")
            .enable_all()
            .build()
            .map_err(failed)?;
        let (stop, stopped) = oneshot::channel();
        let work = Shared { egress, tls, hosts: Mutex::default() };
        let thread = std::thread::Builder::new().name("egress".into()).spawn(move || {
            let tasks = LocalSet::new();
            let accepting = async {
                tokio::select! {
                    _ = stopped => {}
                    () = accept(listener, Rc::new(work)) => {}
                }
            };
            tasks.block_on(&runtime, accepting);
            // Tasks end within the runtime: each still records its exchange.
            let guard = runtime.enter();
            drop(tasks);
            drop(guard);
            runtime.shutdown_timeout(END_LIMIT);
        });
        Ok(Self { stop: Some(stop), thread: Some(thread.map_err(failed)?) })
    }
}

impl Drop for EgressProxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has ended the proxy, which is what was wanted.
            let _ = thread.join();
        }
    }
}

async fn accept(listener: TcpListener, shared: Rc<Shared>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let limits = shared.egress.limits;
    let permits = Arc::new(Semaphore::new(limits.max_connections));
    let mut exchanges = 0;
    loop {
        // Who comes when all are taken waits in the socket's queue, at nobody's cost but its own.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        match listener.accept().await {
            Ok(_) if exchanges > limits.max_exchanges => {}
            Ok(_) if exchanges == limits.max_exchanges => {
                exchanges += 1;
                shared.egress.gate.record(&EgressRecord::refused(Denial::Limit));
            }
            Ok((stream, _)) => {
                exchanges += 1;
                let shared = Rc::clone(&shared);
                tokio::task::spawn_local(async move {
                    serve(&shared, stream).await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

impl EgressRecord {
    /// Nothing is known but the refusal.
    pub(crate) const fn refused(denial: Denial) -> Self {
        Self {
            host: None,
            port: 0,
            method: String::new(),
            path: None,
            address: None,
            denial: Some(denial),
            sent_bytes: 0,
            received_bytes: 0,
            duration_us: 0,
        }
    }
}

/// A place among the exchanges with one host; given back when dropped.
pub(crate) struct Place<'a> {
    shared: &'a Shared,
    host: Host,
}

impl Shared {
    /// # Errors
    /// [`Denial::Limit`] when a host has as many exchanges as it may.
    pub(crate) fn enter(&self, host: &Host) -> std::result::Result<Place<'_>, Denial> {
        let mut hosts = guard(&self.hosts);
        let count = hosts.entry(host.clone()).or_default();
        if *count >= self.egress.limits.max_per_host {
            return Err(Denial::Limit);
        }
        *count += 1;
        Ok(Place { shared: self, host: host.clone() })
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut hosts = guard(&self.shared.hosts);
        if let Some(count) = hosts.get_mut(&self.host) {
            *count -= 1;
            if *count == 0 {
                hosts.remove(&self.host);
            }
        }
    }
}

fn tls_connector(roots_pem: &[String]) -> Result<TlsConnector> {
    let refuse = |why: &dyn std::fmt::Display| {
        Error::new(codes::EGRESS_INVALID, "a root certificate cannot be used").why(why)
    };
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for pem in roots_pem {
        let mut found = 0;
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            roots.add(certificate.map_err(|why| refuse(&why))?).map_err(|why| refuse(&why))?;
            found += 1;
        }
        if found == 0 {
            return Err(refuse(&"the PEM text holds no certificate"));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| refuse(&why))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
