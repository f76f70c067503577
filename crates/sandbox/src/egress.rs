//! The only way out of a sandbox: a proxy that asks before it connects.
//!
//! The network of a sandbox is its own loopback and nothing else. Where a template has a network,
//! the first process opens one listening socket on that loopback and hands it out before it gives
//! up its rights; the proxy accepts there, on the owner's side. So nothing inside forwards
//! anything, and what does not speak to the proxy reaches nobody, name servers included.
//!
//! The proxy takes plain HTTP requests and tunnels for TLS. It decides nothing by itself: each
//! request is put to the [`EgressGate`], and each has one [`EgressRecord`] at its end.

mod address;
mod allow_list;
mod body;
mod denial;
mod exchange;
mod head;
mod hello;
mod host;
mod meter;
mod proxy;
mod secret;
mod tls;
mod tunnel;
mod upstream;
mod via;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

pub use allow_list::AllowList;
pub use denial::Denial;
pub use host::Host;
pub use proxy::EgressProxy;
pub use secret::{BoundSecret, PLACEHOLDER};
pub use tls::{client_config, connector as tls_connector};
pub use upstream::{Dialer, Resolver, System};
pub use via::ViaProxy;

/// Where commands find the proxy, on the loopback of their own network.
pub const PROXY_ADDRESS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3128);

/// The variables by which programs find a proxy. There is no one spelling that all of them read.
pub(crate) fn environment() -> Vec<(String, String)> {
    let proxy = format!("http://{PROXY_ADDRESS}");
    let own = "localhost,127.0.0.1,::1".to_owned();
    let variables = [
        ("HTTP_PROXY", &proxy),
        ("HTTPS_PROXY", &proxy),
        ("ALL_PROXY", &proxy),
        ("NO_PROXY", &own),
    ];
    variables
        .into_iter()
        .flat_map(|(name, value)| {
            [name.to_owned(), name.to_lowercase()].map(|n| (n, value.clone()))
        })
        .collect()
}

/// What a request wants, as far as the proxy can see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressRequest {
    /// The host.
    pub host: Host,
    /// The port that would be dialled.
    pub port: u16,
    /// The method; `CONNECT` for a tunnel.
    pub method: String,
    /// The path without its query; `None` for a tunnel.
    pub path: Option<String>,
    /// Whether the proxy itself would speak TLS, to send a secret.
    pub tls: bool,
}

/// The answer of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EgressVerdict {
    /// Connect.
    Allow,
    /// Refuse. An address that is no name has to be allowed by that very address; no pattern over
    /// names is meant to match one.
    Deny,
    /// Refuse, because a person would have to agree.
    Review,
}

/// The end of one request or tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressRecord {
    /// The host; `None` when the request could not be read so far.
    pub host: Option<Host>,
    /// The port; 0 when it could not be read.
    pub port: u16,
    /// The method; empty when it could not be read.
    pub method: String,
    /// The path without its query.
    pub path: Option<String>,
    /// The address that was dialled.
    pub address: Option<IpAddr>,
    /// Why it was refused or cut short; `None` when it went through.
    pub denial: Option<Denial>,
    /// Bytes to the outside, as counted behind the request's head.
    pub sent_bytes: u64,
    /// Bytes from there.
    pub received_bytes: u64,
    /// How long it lasted.
    pub duration_us: u64,
}

/// Decides about each request and takes what became of it. Both are called from the proxy's
/// threads; a gate that panics denies.
pub trait EgressGate: Send + Sync {
    /// Whether a request may go out.
    fn decide(&self, request: &EgressRequest) -> EgressVerdict;

    /// Takes the end of a request. Called before the refusal is answered.
    fn record(&self, record: &EgressRecord);
}

/// Limits of one sandbox's traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressLimits {
    /// Exchanges at one time; further ones wait to be accepted.
    pub max_connections: usize,
    /// Exchanges at one time with one host.
    pub max_per_host: usize,
    /// Exchanges in the life of a sandbox.
    pub max_exchanges: u64,
    /// Largest head of a request or an answer.
    pub max_head_bytes: usize,
    /// Most bytes of one exchange, both directions together.
    pub max_bytes: u64,
    /// How long a client may take for a whole head or handshake.
    pub head_ms: u64,
    /// Decision, lookup, connection and the proxy's own handshake together.
    pub connect_ms: u64,
    /// From a sent request to the head of its answer.
    pub answer_ms: u64,
    /// How long nothing may move.
    pub idle_ms: u64,
    /// The whole exchange.
    pub total_ms: u64,
}

impl Default for EgressLimits {
    fn default() -> Self {
        Self {
            max_connections: 64,
            max_per_host: 16,
            max_exchanges: 10_000,
            max_head_bytes: 32 << 10,
            max_bytes: 4 << 30,
            head_ms: 10_000,
            connect_ms: 20_000,
            answer_ms: 300_000,
            idle_ms: 60_000,
            total_ms: 1_800_000,
        }
    }
}

/// What a sandbox's proxy works with.
#[derive(Clone)]
pub struct Egress {
    /// Who decides.
    pub gate: Arc<dyn EgressGate>,
    /// Who looks names up.
    pub resolver: Arc<dyn Resolver>,
    /// Who connects.
    pub dialer: Arc<dyn Dialer>,
    /// Secrets that the sandbox may use without having them.
    pub secrets: Vec<BoundSecret>,
    /// Certificate authorities besides the public ones, as PEM; for the TLS that the proxy itself
    /// speaks.
    pub roots_pem: Vec<String>,
    /// Limits.
    pub limits: EgressLimits,
}

impl Egress {
    /// The host's network behind a gate.
    #[must_use]
    pub fn new(gate: Arc<dyn EgressGate>) -> Self {
        Self {
            gate,
            resolver: Arc::new(System),
            dialer: Arc::new(System),
            secrets: Vec::new(),
            roots_pem: Vec::new(),
            limits: EgressLimits::default(),
        }
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress")
            .field("secrets", &self.secrets)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
