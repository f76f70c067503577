//! Places for connections: so many in all, and of those a share for each address. Whoever takes all of theirs takes
//! nobody else's.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::admit::network;

/// Most connections at a time; more wait in the system's queue.
pub(crate) const MAX_CONNECTIONS: usize = 4_096;
/// Most of one address.
const MAX_OF_ONE: usize = MAX_CONNECTIONS / 4;
/// Most of this machine: a server that stands behind another one hears everybody from here.
const MAX_OF_THIS: usize = MAX_CONNECTIONS / 4 * 3;

/// The places of a server.
pub(crate) struct Places {
    all: Arc<Semaphore>,
    taken: Arc<Mutex<HashMap<String, usize>>>,
}

/// One place, until it is dropped.
pub(crate) struct Place {
    network: String,
    taken: Arc<Mutex<HashMap<String, usize>>>,
    _one: OwnedSemaphorePermit,
}

impl Places {
    pub(crate) fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(MAX_CONNECTIONS)), taken: Arc::default() }
    }

    /// Waits until there is a place at all.
    pub(crate) async fn wait(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.all).acquire_owned().await.ok()
    }

    /// Gives the place to an address; `None` where that has its share.
    pub(crate) fn give(&self, one: OwnedSemaphorePermit, peer: IpAddr) -> Option<Place> {
        let most = if peer.to_canonical().is_loopback() { MAX_OF_THIS } else { MAX_OF_ONE };
        let network = network(peer);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(network.clone()).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        Some(Place { network, taken: Arc::clone(&self.taken), _one: one })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = taken.get_mut(&self.network) else { return };
        *count -= 1;
        if *count == 0 {
            taken.remove(&self.network);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The failure: connections were counted in all only, so one address could hold every one of them.
    /// The mend: each address has a share, and what it gives back it has again.
    #[tokio::test]
    async fn no_address_has_all_places() {
        let places = Places::new();
        let mut held = Vec::new();
        let mut take = async |peer: &str, wanted: usize| {
            let mut given = 0;
            for _ in 0..wanted {
                let one = places.wait().await.unwrap();
                let Some(place) = places.give(one, peer.parse().unwrap()) else { break };
                held.push(place);
                given += 1;
            }
            given
        };
        assert_eq!(take("192.0.2.1", 4_096).await, 1_024);
        assert_eq!(take("::ffff:192.0.2.1", 1).await, 0, "the same one");
        assert_eq!(take("2001:db8::1", 600).await, 600);
        assert_eq!(take("2001:db8::2", 600).await, 424, "one network");
        assert_eq!(take("127.0.0.1", 1_500).await, 1_500);
        held.truncate(1);
        let one = places.wait().await.unwrap();
        assert!(places.give(one, "192.0.2.1".parse().unwrap()).is_some());
        assert_eq!(places.all.available_permits(), 4_095);
        drop(held);
        assert!(places.taken.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn this_machine_leaves_some_for_others() {
        let places = Places::new();
        let mut held = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            let one = places.wait().await.unwrap();
            held.extend(places.give(one, "127.0.0.1".parse().unwrap()));
        }
        assert_eq!(held.len(), 3_072);
    }
}
