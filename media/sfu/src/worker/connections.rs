//! Which transport a datagram is for.

use std::collections::HashMap;

use conclave_model::{ClientAddress, Counts};

use crate::transport::{Source, TransportKey};

/// Maps the addresses of clients, and the names in their STUN requests, to transports.
///
/// An address is bound to a transport by a STUN request that proves knowledge of the transport's password. A datagram from
/// an unknown address that is no such request is dropped without anything being kept of it.
#[derive(Debug, Default)]
pub struct Demux {
    by_source: HashMap<Source, TransportKey>,
    by_ufrag: HashMap<String, TransportKey>,
    /// The number of bound transports that are still in their handshake, by client.
    pub handshakes: Counts<ClientAddress>,
}

impl Demux {
    /// Returns the transport that an address is bound to.
    pub fn by_source(&self, source: Source) -> Option<TransportKey> {
        self.by_source.get(&source).copied()
    }

    /// Returns the transport that has this user name fragment.
    pub fn by_ufrag(&self, ufrag: &str) -> Option<TransportKey> {
        self.by_ufrag.get(ufrag).copied()
    }

    /// Makes a transport known by a user name fragment.
    pub fn add_ufrag(&mut self, ufrag: String, transport: TransportKey) {
        self.by_ufrag.insert(ufrag, transport);
    }

    /// Forgets a user name fragment.
    pub fn remove_ufrag(&mut self, ufrag: &str) {
        self.by_ufrag.remove(ufrag);
    }

    /// Binds an address to a transport. Returns the one that it was bound to before, if another.
    pub fn bind(&mut self, source: Source, transport: TransportKey) -> Option<TransportKey> {
        self.by_source
            .insert(source, transport)
            .filter(|before| *before != transport)
    }

    /// Unbinds an address, if it is bound to this transport.
    pub fn unbind(&mut self, source: Source, transport: TransportKey) {
        if self.by_source(source) == Some(transport) {
            self.by_source.remove(&source);
        }
    }

    /// Returns whether nothing is known.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.by_source.is_empty() && self.by_ufrag.is_empty() && self.handshakes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use slotmap::SlotMap;

    use super::*;

    #[test]
    fn an_address_that_moves_to_another_transport_is_not_unbound_by_the_old_one() {
        let mut keys = SlotMap::with_key();
        let (old, new) = (keys.insert(()), keys.insert(()));
        let address = Source {
            is_tcp: false,
            address: "192.0.2.1:5000".parse().unwrap(),
        };
        let mut demux = Demux::default();
        assert_eq!(demux.bind(address, old), None);
        assert_eq!(demux.bind(address, new), Some(old));
        demux.unbind(address, old);
        assert_eq!(demux.by_source(address), Some(new));
    }
}
