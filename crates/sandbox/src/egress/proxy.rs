//! The proxy's life: one thread for each sandbox that may reach anything.

use std::collections::HashMap;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinSet, LocalSet};
use tokio_rustls::TlsConnector;

use super::exchange::serve;
use super::tls;
use super::{Denial, Egress, EgressRecord, Host};
use crate::owner::guard;
use crate::{Error, Result, codes};

/// Threads for what blocks: decisions, lookups, connecting.
const MAX_BLOCKING_THREADS: usize = 16;

/// How long the end waits for a decision or lookup that is under way.
const END_LIMIT: Duration = Duration::from_millis(200);

/// Who asks to settle waits for the answer, so more than one at a time is rare; the next ones wait to
/// ask.
const MAX_ASKED: usize = 1;

/// Pause after a failed accept, which means that descriptors are used up.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running proxy. When it is dropped every connection is closed and recorded.
#[derive(Debug)]
pub struct EgressProxy {
    /// Each message asks to settle; the end of the channel is the end of the proxy.
    settle: Option<mpsc::Sender<oneshot::Sender<()>>>,
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
        let tls = tls::connector(&egress.roots_pem)?;
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(true).map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(MAX_BLOCKING_THREADS)
            .thread_name("egress")
            .enable_all()
            .build()
            .map_err(failed)?;
        let again = listener.try_clone().map_err(failed)?;
        let (settle, mut asked) = mpsc::channel::<oneshot::Sender<()>>(MAX_ASKED);
        let work = Shared { egress, tls, hosts: Mutex::default() };
        let thread = std::thread::Builder::new().name("egress".into()).spawn(move || {
            let tasks = LocalSet::new();
            let accepting = async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                let mut accepting = Accepting::new(Rc::new(work));
                loop {
                    tokio::select! {
                        biased;
                        done = asked.recv() => match done {
                            Some(done) => {
                                accepting.settle(&again).await;
                                // Who asked may be gone.
                                let _ = done.send(());
                            }
                            None => return,
                        },
                        () = accepting.one(&listener) => {}
                    }
                }
            };
            tasks.block_on(&runtime, accepting);
            // Tasks end within the runtime: each still records its exchange.
            let guard = runtime.enter();
            drop(tasks);
            drop(guard);
            runtime.shutdown_timeout(END_LIMIT);
        });
        Ok(Self { settle: Some(settle), thread: Some(thread.map_err(failed)?) })
    }

    /// Ends every exchange, those included that wait to be accepted, and returns when each is
    /// recorded. New ones are served as before.
    pub fn settle(&self) {
        let (done, settled) = oneshot::channel();
        let asked = self.settle.as_ref().is_some_and(|settle| settle.blocking_send(done).is_ok());
        if asked {
            // A thread that is gone has nothing that runs.
            let _ = settled.blocking_recv();
        }
    }
}

impl Drop for EgressProxy {
    fn drop(&mut self) {
        drop(self.settle.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has ended the proxy, which is what was wanted.
            let _ = thread.join();
        }
    }
}

/// What accepts, and what it accepted.
struct Accepting {
    shared: Rc<Shared>,
    permits: Arc<Semaphore>,
    running: JoinSet<()>,
    exchanges: u64,
}

impl Accepting {
    fn new(shared: Rc<Shared>) -> Self {
        let permits = Arc::new(Semaphore::new(shared.egress.limits.max_connections));
        Self { shared, permits, running: JoinSet::new(), exchanges: 0 }
    }

    /// Accepts one connection and starts to serve it.
    async fn one(&mut self, listener: &tokio::net::TcpListener) {
        let most = self.shared.egress.limits.max_exchanges;
        // Who comes when all are taken waits in the socket's queue, at nobody's cost but its own.
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else { return };
        match listener.accept().await {
            Ok(_) if self.exchanges > most => {}
            Ok(_) if self.exchanges == most => {
                self.exchanges += 1;
                self.shared.egress.gate.record(&EgressRecord::refused(Denial::Limit));
            }
            Ok((stream, _)) => {
                self.exchanges += 1;
                while self.running.try_join_next().is_some() {}
                let served = serve(Rc::clone(&self.shared), stream);
                self.running.spawn_local(async move {
                    served.await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }

    /// See [`EgressProxy::settle`]. What was cut off is recorded as it stands.
    async fn settle(&mut self, listener: &TcpListener) {
        self.running.shutdown().await;
        // What was not read yet is never read; that somebody tried is recorded.
        while listener.accept().is_ok() {
            self.exchanges += 1;
            if self.exchanges <= self.shared.egress.limits.max_exchanges {
                self.shared.egress.gate.record(&EgressRecord::refused(Denial::Ended));
            }
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

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;
    use crate::egress::{EgressGate, EgressRequest, EgressVerdict};

    #[derive(Default)]
    struct Records(Mutex<Vec<Option<Denial>>>);

    impl EgressGate for Records {
        fn decide(&self, _: &EgressRequest) -> EgressVerdict {
            panic!("nothing was asked")
        }

        fn record(&self, record: &EgressRecord) {
            guard(&self.0).push(record.denial);
        }
    }

    /// The failure: a connection that was accepted just before its command ended was recorded by nobody.
    /// What records it began with its task, and a task that is ended before its first turn never begins.
    /// Now whoever is accepted is recorded, whatever becomes of its task.
    #[test]
    fn what_is_accepted_and_cut_off_at_once_is_recorded() {
        let records = Arc::new(Records::default());
        let egress = Egress::new(records.clone());
        let tls = tls::connector(&[]).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let again = listener.try_clone().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let address = listener.local_addr().unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let work = Shared { egress, tls, hosts: Mutex::default() };
            let mut accepting = Accepting::new(Rc::new(work));
            let accepted = TcpStream::connect(address).unwrap();
            accepting.one(&listener).await;
            let waits = TcpStream::connect(address).unwrap();
            accepting.settle(&again).await;
            drop((accepted, waits));
        });
        assert_eq!(*guard(&records.0), [Some(Denial::Ended); 2]);
    }
}
