//! How many connections of RTMP encoders there may be, in all and from one address.

use std::net::IpAddr;
use std::sync::Arc;

use conclave_model::{ClientAddress, Counts};
use parking_lot::Mutex;

/// The most connections.
const CONNECTIONS: usize = 512;
/// The most connections from one address that is not a loopback address.
const CONNECTIONS_PER_ADDRESS: usize = 16;

/// Counts open connections of RTMP encoders, by network and in all.
#[derive(Debug, Clone, Default)]
pub struct ConnectionLimits(Arc<Mutex<Counts<ClientAddress>>>);

/// A connection that is counted until this is dropped.
#[derive(Debug)]
pub struct Permit {
    limits: ConnectionLimits,
    client: ClientAddress,
}

impl ConnectionLimits {
    /// Counts a connection; `None` if there are too many.
    pub fn admit(&self, address: IpAddr) -> Option<Permit> {
        let (client, is_local) = (
            ClientAddress::from(address),
            address.to_canonical().is_loopback(),
        );
        let mut counts = self.0.lock();
        if counts.total() >= CONNECTIONS
            || (counts.get(&client) >= CONNECTIONS_PER_ADDRESS && !is_local)
        {
            return None;
        }
        counts.add(client);
        Some(Permit {
            limits: self.clone(),
            client,
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limits.0.lock().subtract(&self.client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves S-79.
    #[test]
    fn connections_are_limited_by_network_and_in_all() {
        let limits = ConnectionLimits::default();
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut permits: Vec<_> = (1..=16)
            .map(|host| limits.admit(address(&format!("2001:db8::{host}"))).unwrap())
            .collect();
        assert!(limits.admit(address("2001:db8::ffff")).is_none());
        assert!(limits.admit(address("2001:db8:0:1::1")).is_some());
        permits.pop();
        permits.push(limits.admit(address("2001:db8::ffff")).unwrap());
        let local: Vec<_> = std::iter::from_fn(|| limits.admit(address("127.0.0.1"))).collect();
        assert_eq!(permits.len() + local.len(), CONNECTIONS);
        drop((permits, local));
        assert!(limits.0.lock().is_empty());
    }
}
