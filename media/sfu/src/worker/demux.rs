//! Which transport a datagram is for.

use std::collections::{HashMap, VecDeque};

use conclave_model::{ClientAddress, Counts};
use slotmap::SecondaryMap;
use str0m::ice::IceCreds;

use crate::transport::{Source, TransportKey};

/// The most addresses that are bound to one transport. A client has a few: one for each of its interfaces.
const SOURCES: usize = 16;

/// How many ICE credentials of a transport are valid: the present ones, and those that restarts have replaced.
const KNOWN: usize = 3;

/// Maps the addresses of clients, and the names in their STUN requests, to transports.
///
/// An address is bound to a transport by a STUN request that proves knowledge of the transport's password. A datagram from
/// an unknown address that is no such request is dropped without anything being kept of it.
#[derive(Debug, Default)]
pub struct Demux {
    by_source: HashMap<Source, TransportKey>,
    by_ufrag: HashMap<String, TransportKey>,
    bindings: SecondaryMap<TransportKey, Bindings>,
    /// The number of bound transports that are still in their handshake, by client.
    handshakes: Counts<ClientAddress>,
}

/// What leads to a transport.
#[derive(Debug)]
struct Bindings {
    /// The ICE credentials by which STUN requests find it: the present ones last, before them those that an ICE restart has replaced.
    /// These stay valid until the next restart, since the client uses them until it has the new ones.
    credentials: VecDeque<IceCreds>,
    /// The addresses that are bound to it, the newest last.
    sources: VecDeque<Source>,
    /// The client while the handshake with it is counted.
    handshake_with: Option<ClientAddress>,
}

impl Demux {
    /// Makes a transport known by its ICE credentials.
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

    /// Forgets a transport, with all that leads to it.
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

    /// Returns the transport that an address is bound to.
    pub fn by_source(&self, source: Source) -> Option<TransportKey> {
        self.by_source.get(&source).copied()
    }

    /// Returns the transport that has this user name fragment, and the password that belongs to it.
    pub fn by_ufrag(&self, ufrag: &str) -> Option<(TransportKey, &str)> {
        let transport = *self.by_ufrag.get(ufrag)?;
        let mut known = self.bindings.get(transport)?.credentials.iter();
        let credentials = known.find(|known| known.ufrag == ufrag)?;
        Some((transport, credentials.pass.as_str()))
    }

    /// Adds the ICE credentials with which the server restarts ICE.
    pub fn restart(&mut self, transport: TransportKey, credentials: IceCreds) {
        if let Some(bindings) = self.bindings.get_mut(transport) {
            self.by_ufrag.insert(credentials.ufrag.clone(), transport);
            bindings.credentials.push_back(credentials);
        }
    }

    /// Adds the ICE credentials that are valid after an offer of the client, if they are new, and forgets the oldest ones.
    pub fn renew(&mut self, transport: TransportKey, credentials: IceCreds) {
        let Some(bindings) = self.bindings.get_mut(transport) else {
            return;
        };
        if bindings.credentials.back() == Some(&credentials) {
            return;
        }
        self.by_ufrag.insert(credentials.ufrag.clone(), transport);
        bindings.credentials.push_back(credentials);
        if bindings.credentials.len() > KNOWN
            && let Some(oldest) = bindings.credentials.pop_front()
        {
            self.by_ufrag.remove(&oldest.ufrag);
        }
    }

    /// Binds an address to a transport, and to no other. The oldest address of the transport gives way if it has too many.
    pub fn bind(&mut self, source: Source, transport: TransportKey) {
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

    /// Unbinds an address.
    pub fn unbind(&mut self, source: Source) {
        let Some(transport) = self.by_source.remove(&source) else {
            return;
        };
        if let Some(bindings) = self.bindings.get_mut(transport) {
            bindings.sources.retain(|bound| *bound != source);
        }
    }

    /// Forgets an address, if it is bound to this transport.
    fn forget_source(&mut self, source: Source, transport: TransportKey) {
        if self.by_source(source) == Some(transport) {
            self.by_source.remove(&source);
        }
    }

    /// Counts the handshake of a transport with a client, unless it is counted. Returns `false` if so many clients of its address are in
    /// theirs.
    pub fn begin_handshake(
        &mut self,
        transport: TransportKey,
        client: ClientAddress,
        most: usize,
    ) -> bool {
        let Some(bindings) = self.bindings.get_mut(transport) else {
            return false;
        };
        if bindings.handshake_with.is_some() {
            return true;
        }
        if self.handshakes.get(&client) >= most {
            return false;
        }
        self.handshakes.add(client);
        bindings.handshake_with = Some(client);
        true
    }

    /// Ends the count of a transport's handshake.
    pub fn end_handshake(&mut self, transport: TransportKey) {
        let bindings = self.bindings.get_mut(transport);
        if let Some(client) = bindings.and_then(|bindings| bindings.handshake_with.take()) {
            self.handshakes.subtract(&client);
        }
    }

    /// Returns whether nothing is known.
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

    /// Two transports with their credentials.
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
        assert!(demux.begin_handshake(first, client, 1));
        assert!(demux.begin_handshake(first, client, 1), "it is counted");
        assert!(!demux.begin_handshake(second, client, 1));
        demux.end_handshake(first);
        assert!(demux.begin_handshake(second, client, 1));
    }

    #[test]
    fn nothing_is_left_of_a_transport_that_is_removed() {
        let (mut demux, transports, _) = two_transports();
        for (transport, port) in transports.into_iter().zip(5000..) {
            demux.restart(transport, IceCreds::new());
            demux.bind(source(port), transport);
            demux.begin_handshake(transport, ClientAddress::from(source(1).address.ip()), 2);
            demux.remove(transport);
        }
        assert!(demux.is_empty());
    }
}
