//! How many connections clients may have open: in total, and each client. A connection beyond that is closed at once, so that
//! what is left of the process's files and memory serves the others.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_model::{ClientAddress, Counts, Throttle};
use parking_lot::Mutex;
use prometheus::IntCounterVec;

use super::client_address::TrustedProxies;

/// The most connections of one client that is neither this machine nor a trusted proxy.
pub const MAX_PER_CLIENT: usize = 1_024;
/// The shortest time between two warnings about connections that were closed.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// The limits of one listener, and its open connections. All workers of the listener share it.
#[derive(Debug)]
pub struct Connections {
    max: usize,
    trusted_proxies: TrustedProxies,
    refused: IntCounterVec,
    warnings: Throttle,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    by_client: Counts<ClientAddress>,
}

/// An open connection. It counts until this is dropped.
#[derive(Debug)]
pub struct ConnectionPermit {
    connections: Arc<Connections>,
    /// The client that it counts for; none for this machine and for trusted proxies.
    client: Option<ClientAddress>,
}

/// The limit that a connection would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionLimit {
    /// The limit of all connections, `http.max_connections`.
    Total,
    /// The limit of one client's connections, [`MAX_PER_CLIENT`].
    Client,
}

impl ConnectionLimit {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Client => "client",
        }
    }
}

impl Connections {
    /// No connection is open. `refused` counts those that are refused, by limit.
    pub fn new(max: usize, trusted_proxies: TrustedProxies, refused: IntCounterVec) -> Arc<Self> {
        let warnings = Throttle::new(WARNING_INTERVAL);
        Arc::new(Self {
            max,
            trusted_proxies,
            refused,
            warnings,
            open: Mutex::default(),
        })
    }

    /// The most connections, in total.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Counts a connection from an address.
    ///
    /// # Errors
    /// The limit that it would exceed.
    pub fn admit(self: &Arc<Self>, peer: IpAddr) -> Result<ConnectionPermit, ConnectionLimit> {
        let client = self.counted_client(peer.to_canonical());
        self.count(client)
            .inspect_err(|limit| self.refused.with_label_values(&[limit.as_str()]).inc())?;
        Ok(ConnectionPermit {
            connections: Arc::clone(self),
            client,
        })
    }

    fn counted_client(&self, peer: IpAddr) -> Option<ClientAddress> {
        let exempt = peer.is_loopback() || self.trusted_proxies.contains(peer);
        (!exempt).then(|| ClientAddress::from(peer))
    }

    fn count(&self, client: Option<ClientAddress>) -> Result<(), ConnectionLimit> {
        let mut open = self.open.lock();
        if open.total >= self.max {
            self.warn(&format!(
                "{} connections are open, as many as may be",
                self.max
            ));
            return Err(ConnectionLimit::Total);
        }
        if client.is_some_and(|client| open.by_client.get(&client) >= MAX_PER_CLIENT) {
            self.warn(&format!(
                "a client has {MAX_PER_CLIENT} connections open, as many as it may"
            ));
            return Err(ConnectionLimit::Client);
        }
        open.total += 1;
        if let Some(client) = client {
            open.by_client.add(client);
        }
        Ok(())
    }

    /// Warns, but not for each of many connections.
    fn warn(&self, what: &str) {
        if self.warnings.allow(Instant::now()) {
            log::warn!("{what}; further ones are closed (http.max_connections)");
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = self.connections.open.lock();
        open.total -= 1;
        if let Some(client) = self.client {
            open.by_client.subtract(&client);
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus::Opts;

    use super::*;

    fn connections(max: usize) -> Arc<Connections> {
        let refused = IntCounterVec::new(Opts::new("refused", "refused"), &["limit"]).unwrap();
        Connections::new(
            max,
            TrustedProxies(vec!["10.0.0.0/8".parse().unwrap()]),
            refused,
        )
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_closed_connection_makes_room_for_another() {
        let connections = connections(2);
        let first = connections.admit(address("127.0.0.1")).unwrap();
        let _second = connections.admit(address("203.0.113.1")).unwrap();
        assert_eq!(
            connections.admit(address("203.0.113.2")).unwrap_err(),
            ConnectionLimit::Total
        );
        drop(first);
        connections.admit(address("203.0.113.2")).unwrap();
        assert_eq!(connections.refused.with_label_values(&["total"]).get(), 1);
    }

    #[test]
    fn a_client_has_1024_connections_and_others_have_theirs() {
        let connections = connections(100_000);
        let open = |text: &str| connections.admit(address(text));
        let mut held: Vec<_> = (0..1_024)
            .map(|host| open(&format!("2001:db8::{host:x}")).unwrap())
            .collect();
        assert_eq!(open("2001:db8::ffff").unwrap_err(), ConnectionLimit::Client);
        let _other = open("2001:db8:0:1::1").unwrap();
        held.pop();
        let _again = open("2001:db8::ffff").unwrap();
        drop(held);
        let open = connections.open.lock();
        assert_eq!((open.total, open.by_client.total()), (2, 2));
    }

    #[test]
    fn this_machine_and_trusted_proxies_have_only_the_total_limit() {
        let connections = connections(10_000);
        for peer in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.1.2.3"] {
            let held: Vec<_> = (0..1_100)
                .map(|_| connections.admit(address(peer)).unwrap())
                .collect();
            assert_eq!(held.len(), 1_100);
        }
        assert_eq!(connections.open.lock().total, 0);
    }
}
