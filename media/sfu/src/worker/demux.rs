//! Mapping from datagrams to transports.

use std::collections::{HashMap, VecDeque};

use conclave_model::{ClientAddress, Counts};
use slotmap::SecondaryMap;
use str0m::ice::IceCreds;

use crate::transport::{Source, TransportKey};

/// Addresses that may be bound to one transport. A client has few: one for each network interface.
const SOURCES: usize = 16;

/// Valid ICE credentials per transport: the current ones, and those replaced by the last two restarts.
const KNOWN: usize = 3;

/// Mapping from client addresses, and from the user names in STUN requests, to transports.
///
/// An address is bound by a STUN request that proves knowledge of the transport's ICE password. Any other datagram from
/// an unknown address is dropped without keeping state.
#[derive(Debug, Default)]
pub struct Demux {
    by_source: HashMap<Source, TransportKey>,
    by_ufrag: HashMap<String, TransportKey>,
    bindings: SecondaryMap<TransportKey, Bindings>,
    /// Bound transports before the end of their handshake, counted by client address.
    handshakes: Counts<ClientAddress>,
}

/// A transport's credentials and addresses.
#[derive(Debug)]
struct Bindings {
    /// ICE credentials, newest last. After an ICE restart, the old ones stay valid for a while, since the client uses
    /// them until it receives the new ones.
    credentials: VecDeque<IceCreds>,
    /// Bound addresses, newest last.
    sources: VecDeque<Source>,
    /// Client address under which the handshake is counted.
    handshake_with: Option<ClientAddress>,
}

impl Demux {
    /// Adds a transport with its ICE credentials.
    pub fn add(&mut self, transport: TransportKey, credentials: IceCreds) {
        self.by_ufrag.insert(credentials.ufrag.clone(), transport);
        self.bindings.insert(
            transport,
            Bindings {
                credentials: VecDeque::from([credentials]),
                sources: VecDeque::new(),
                handshake_with: None,
            },
        );
    }

    /// Removes a transport with its credentials and addresses.
    pub fn remove(&mut self, transport: TransportKey) {
        self.end_handshake(transport);
        let Some(bindings) = self.bindings.remove(transport) else {
            return;
        };
        for credentials in &bindings.credentials {
            self.by_ufrag.remove(&credentials.ufrag);
        }
        for source in bindings.sources {
            self.forget_source(source, transport);
        }
    }

    /// Returns the transport to which an address is bound.
    pub fn by_source(&self, source: Source) -> Option<TransportKey> {
        self.by_source.get(&source).copied()
    }

    /// Returns the transport with this user name fragment, and the password for it.
    pub fn by_ufrag(&self, ufrag: &str) -> Option<(TransportKey, &str)> {
        let transport = *self.by_ufrag.get(ufrag)?;
        let mut known = self.bindings.get(transport)?.credentials.iter();
        // Each user name fragment has its own password: an old one must not be combined with a new one.
        let credentials = known.find(|known| known.ufrag == ufrag)?;
        Some((transport, credentials.pass.as_str()))
    }

    /// Adds the ICE credentials of a restart by the server.
    pub fn restart(&mut self, transport: TransportKey, credentials: IceCreds) {
        if let Some(bindings) = self.bindings.get_mut(transport) {
            self.by_ufrag.insert(credentials.ufrag.clone(), transport);
            bindings.credentials.push_back(credentials);
        }
    }

    /// Adds the current ICE credentials after a client's offer, if they are new, and removes the oldest ones.
    pub fn renew(&mut self, transport: TransportKey, credentials: IceCreds) {
        let Some(bindings) = self.bindings.get_mut(transport) else {
            return;
        };
        // Most offers do not restart ICE.
        if bindings.credentials.back() == Some(&credentials) {
            return;
        }
        self.by_ufrag.insert(credentials.ufrag.clone(), transport);
        bindings.credentials.push_back(credentials);
        // A client in a bad network may restart ICE again before the last restart is over.
        if bindings.credentials.len() > KNOWN
            && let Some(oldest) = bindings.credentials.pop_front()
        {
            self.by_ufrag.remove(&oldest.ufrag);
        }
    }

    /// Binds an address to this transport only. Beyond the limit, the transport's oldest address is unbound.
    pub fn bind(&mut self, source: Source, transport: TransportKey) {
        // A client behind NAT may get an address that another client had a moment ago.
        let before = self.by_source.insert(source, transport);
        if let Some(before) = before.filter(|before| *before != transport)
            && let Some(before) = self.bindings.get_mut(before)
        {
            before.sources.retain(|bound| *bound != source);
        }
        let Some(bindings) = self.bindings.get_mut(transport) else {
            return;
        };
        bindings.sources.push_back(source);
        if bindings.sources.len() > SOURCES
            && let Some(oldest) = bindings.sources.pop_front()
        {
            self.forget_source(oldest, transport);
        }
    }

    pub fn unbind(&mut self, source: Source) {
        let Some(transport) = self.by_source.remove(&source) else {
            return;
        };
        if let Some(bindings) = self.bindings.get_mut(transport) {
            bindings.sources.retain(|bound| *bound != source);
        }
    }

    /// Removes an address, unless it was bound to another transport meanwhile.
    fn forget_source(&mut self, source: Source, transport: TransportKey) {
        // Another transport may have been bound to it since.
        if self.by_source(source) == Some(transport) {
            self.by_source.remove(&source);
        }
    }

    /// Counts a transport's handshake, once. Returns false if the client's address has reached the limit.
    pub fn start_handshake(
        &mut self,
        transport: TransportKey,
        client: ClientAddress,
        most: usize,
    ) -> bool {
        let Some(bindings) = self.bindings.get_mut(transport) else {
            return false;
        };
        // A client may send from several addresses, but has one handshake per connection.
        if bindings.handshake_with.is_some() {
            return true;
        }
        // A DTLS handshake costs much CPU time, and every participant can start one.
        if self.handshakes.get(&client) >= most {
            return false;
        }
        self.handshakes.add(client);
        bindings.handshake_with = Some(client);
        true
    }

    /// Stops counting a transport's handshake.
    pub fn end_handshake(&mut self, transport: TransportKey) {
        let bindings = self.bindings.get_mut(transport);
        if let Some(client) = bindings.and_then(|bindings| bindings.handshake_with.take()) {
            self.handshakes.subtract(&client);
        }
    }

    /// Returns whether the mapping is empty.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.by_source.is_empty()
            && self.by_ufrag.is_empty()
            && self.bindings.is_empty()
            && self.handshakes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use slotmap::SlotMap;

    use super::*;

    /// Returns two transports with their credentials.
    fn two_transports() -> (Demux, [TransportKey; 2], [IceCreds; 2]) {
        let (mut keys, mut demux) = (SlotMap::with_key(), Demux::default());
        let transports = [keys.insert(()), keys.insert(())];
        let credentials = [IceCreds::new(), IceCreds::new()];
        for (transport, credentials) in transports.iter().zip(&credentials) {
            demux.add(*transport, credentials.clone());
        }
        (demux, transports, credentials)
    }

    fn source(port: u16) -> Source {
        Source {
            is_tcp: false,
            address: ([192, 0, 2, 1], port).into(),
        }
    }

    #[test]
    fn an_address_that_moves_to_another_transport_is_not_unbound_by_the_old_one() {
        let (mut demux, [old, new], _) = two_transports();
        demux.bind(source(5000), old);
        demux.bind(source(5000), new);
        demux.remove(old);
        assert_eq!(demux.by_source(source(5000)), Some(new));
        demux.unbind(source(5000));
        assert_eq!(demux.by_source(source(5000)), None);
    }

    #[test]
    fn the_oldest_address_of_a_transport_gives_way_to_a_new_one() {
        let (mut demux, [transport, _], _) = two_transports();
        let first = 5000;
        for port in first..=first + u16::try_from(SOURCES).unwrap() {
            demux.bind(source(port), transport);
        }
        assert_eq!(demux.by_source(source(first)), None);
        assert_eq!(demux.by_source(source(first + 1)), Some(transport));
    }

    #[test]
    fn replaced_credentials_are_valid_for_two_restarts_of_the_client() {
        let (mut demux, [transport, _], [first, _]) = two_transports();
        let known = |demux: &Demux, credentials: &IceCreds| {
            demux
                .by_ufrag(&credentials.ufrag)
                .map(|(transport, password)| (transport, password.to_owned()))
        };
        let of_first = Some((transport, first.pass.clone()));
        demux.renew(transport, first.clone());
        let later = [IceCreds::new(), IceCreds::new(), IceCreds::new()];
        demux.renew(transport, later[0].clone());
        demux.renew(transport, later[1].clone());
        assert_eq!(known(&demux, &first), of_first);
        demux.renew(transport, later[2].clone());
        assert_eq!(known(&demux, &first), None);
        assert_eq!(
            known(&demux, &later[2]),
            Some((transport, later[2].pass.clone()))
        );
    }

    #[test]
    fn handshakes_of_an_address_are_limited_until_they_end() {
        let (mut demux, [first, second], _) = two_transports();
        let client = ClientAddress::from(source(1).address.ip());
        assert!(demux.start_handshake(first, client, 1));
        assert!(demux.start_handshake(first, client, 1), "it is counted");
        assert!(!demux.start_handshake(second, client, 1));
        demux.end_handshake(first);
        assert!(demux.start_handshake(second, client, 1));
    }

    #[test]
    fn nothing_is_left_of_a_transport_that_is_removed() {
        let (mut demux, transports, _) = two_transports();
        for (transport, port) in transports.into_iter().zip(5000..) {
            demux.restart(transport, IceCreds::new());
            demux.bind(source(port), transport);
            demux.start_handshake(transport, ClientAddress::from(source(1).address.ip()), 2);
            demux.remove(transport);
        }
        assert!(demux.is_empty());
    }
}
