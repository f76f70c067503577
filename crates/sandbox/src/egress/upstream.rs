//! From a request to a connection: decided, looked up once, checked, and dialled as checked.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use super::address::is_public;
use super::{Denial, EgressGate, EgressRequest, EgressVerdict, Host};

/// Most addresses of one name that are tried, and how long each may take to answer.
const MAX_DIALLED: usize = 4;
const DIAL_LIMIT: Duration = Duration::from_secs(5);

/// Turns names into addresses. Called once for each request.
pub trait Resolver: Send + Sync {
    /// Every address of a name.
    ///
    /// # Errors
    /// When the name has none, or nobody can be asked.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Opens connections to addresses that were checked.
pub trait Dialer: Send + Sync {
    /// A connection to exactly this address.
    ///
    /// # Errors
    /// When nothing answers there.
    fn dial(&self, address: SocketAddr) -> io::Result<TcpStream>;
}

/// The host's resolver and network.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl Resolver for System {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        // With its final dot a name is complete: no search domain of the host is tried behind it.
        let found = (format!("{name}."), 0).to_socket_addrs()?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

impl Dialer for System {
    fn dial(&self, address: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect_timeout(&address, DIAL_LIMIT)
    }
}

/// Asks the gate.
///
/// # Errors
/// Its refusal.
pub(crate) fn ask(gate: &dyn EgressGate, request: &EgressRequest) -> Result<(), Denial> {
    match (gate.decide(request), &request.host) {
        (EgressVerdict::Allow, _) => Ok(()),
        (EgressVerdict::Review, _) => Err(Denial::NeedsReview),
        (EgressVerdict::Deny, Host::Address(_)) => Err(Denial::IpLiteral),
        (EgressVerdict::Deny, Host::Name(_)) => Err(Denial::NotAllowed),
    }
}

/// Opens the connection that was allowed, as long as somebody still `wants` it.
///
/// There is one lookup, and what it answered is both checked and dialled, so a name that changes
/// its address in between changes nothing. One address that is not public refuses all of them: who
/// mixes them means the private one.
///
/// # Errors
/// [`Denial::Unresolvable`], [`Denial::PrivateAddress`], [`Denial::Unreachable`],
/// [`Denial::Ended`].
pub(crate) fn connect(
    resolver: &dyn Resolver,
    dialer: &dyn Dialer,
    (host, port): (&Host, u16),
    wants: &dyn Fn() -> bool,
) -> Result<(TcpStream, IpAddr), Denial> {
    if !wants() {
        return Err(Denial::Ended);
    }
    let addresses: BTreeSet<IpAddr> = match host {
        Host::Address(address) => BTreeSet::from([*address]),
        Host::Name(name) => {
            let found = resolver.resolve(name).map_err(|_| Denial::Unresolvable)?;
            found.into_iter().collect()
        }
    };
    if addresses.is_empty() {
        return Err(Denial::Unresolvable);
    }
    if !addresses.iter().all(|address| is_public(*address)) {
        return Err(Denial::PrivateAddress);
    }
    for address in addresses.into_iter().take(MAX_DIALLED) {
        if !wants() {
            return Err(Denial::Ended);
        }
        if let Ok(stream) = dialer.dial(SocketAddr::new(address, port)) {
            return Ok((stream, address));
        }
    }
    Err(Denial::Unreachable)
}
