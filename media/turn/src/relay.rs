//! Media workers' addresses, the only relay targets, and the allocations' sockets.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};

use conclave_model::MediaAddress;
use socket2::SockRef;
use tokio::net::UdpSocket;

/// Maximum length of a datagram that is relayed whole to a client. WebRTC datagrams are shorter.
pub const MAX_DATAGRAM: usize = 4_000;

/// Relay targets, shared by all allocations.
#[derive(Debug, Default)]
pub struct RelayPeers {
    /// Bound address by advertised address.
    bound: HashMap<SocketAddr, SocketAddr>,
    /// Advertised address by bound address.
    advertised: HashMap<SocketAddr, SocketAddr>,
    /// First local address per family, IPv4 first.
    relayed: [Option<IpAddr>; 2],
}

impl RelayPeers {
    /// Indexes the media workers' sockets. If several share an advertised address, packets to it go
    /// to the first one.
    pub fn new(addresses: &[MediaAddress]) -> Self {
        let mut peers = Self::default();
        for MediaAddress { bound, advertised } in addresses {
            // `or_insert`: behind one external address, the first socket wins.
            peers.bound.entry(*advertised).or_insert(*bound);
            // Clients only know advertised addresses, so packets from a bound one are mapped back.
            peers.advertised.insert(*bound, *advertised);
            // Relay sockets bind to a media worker's own address, so that relayed packets never leave the
            // machine.
            peers.relayed[usize::from(bound.is_ipv6())].get_or_insert(bound.ip());
        }
        peers
    }

    /// Returns whether a media worker advertises this address, at any port.
    pub fn permits(&self, peer: IpAddr) -> bool {
        self.bound.keys().any(|advertised| advertised.ip() == peer)
    }

    /// Returns the address to which packets for a peer are sent; `None` if the peer is not a media
    /// worker.
    pub fn bound(&self, peer: SocketAddr) -> Option<SocketAddr> {
        self.bound.get(&peer).copied()
    }

    /// Returns the peer that sends from a bound address; `None` if that is not a media worker's.
    pub fn advertised(&self, bound: SocketAddr) -> Option<SocketAddr> {
        self.advertised.get(&bound).copied()
    }

    /// Returns the local address for relay sockets; `None` if no media worker has this family.
    pub fn relayed(&self, is_ipv6: bool) -> Option<IpAddr> {
        self.relayed[usize::from(is_ipv6)]
    }
}

/// An allocation's socket, if there is one.
#[derive(Debug, Default)]
pub struct RelaySocket(Option<UdpSocket>);

impl RelaySocket {
    /// Opens a socket at a local address and returns its port, which the system chooses. Must be
    /// called within a runtime.
    pub fn open(&mut self, address: IpAddr) -> io::Result<u16> {
        // Not through tokio, whose bind is asynchronous; the session must know the port now.
        let socket = std::net::UdpSocket::bind((address, 0))?;
        socket.set_nonblocking(true)?;
        let socket = UdpSocket::from_std(socket)?;
        let port = socket.local_addr()?.port();
        self.0 = Some(socket);
        Ok(port)
    }

    pub fn close(&mut self) {
        self.0 = None;
    }

    pub fn take(&mut self) -> Option<UdpSocket> {
        self.0.take()
    }

    /// Sends a datagram. Returns whether it was sent: a busy socket drops it, as a network would.
    pub fn send(&self, payload: &[u8], to: SocketAddr) -> bool {
        self.0
            .as_ref()
            .is_some_and(|socket| send(socket, payload, to))
    }

    /// Receives a datagram; waits forever if there is no socket.
    pub async fn receive(&self, buffer: &mut [u8]) -> (usize, SocketAddr) {
        match &self.0 {
            Some(socket) => receive(socket, buffer).await,
            None => std::future::pending().await,
        }
    }

    /// Receives a datagram that has arrived already.
    pub fn receive_now(&self, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
        self.0.as_ref()?.try_recv_from(buffer).ok()
    }
}

/// Sends a datagram. Returns whether it was sent. Bypasses tokio, which treats a new socket as busy
/// until its first poll.
pub fn send(socket: &UdpSocket, payload: &[u8], to: SocketAddr) -> bool {
    // The socket is non-blocking, so a full send buffer drops the packet.
    SockRef::from(socket).send_to(payload, &to.into()).is_ok()
}

/// Receives a datagram. Skips errors, which concern an earlier send, such as one to an unreachable
/// receiver.
pub async fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> (usize, SocketAddr) {
    loop {
        if let Ok(received) = socket.recv_from(buffer).await {
            return received;
        }
        // So that repeated errors do not block the other tasks.
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_peer_is_known_by_its_advertised_address_and_reached_at_the_bound_one() {
        let port = |bound, advertised| MediaAddress {
            bound: address(bound),
            advertised: address(advertised),
        };
        let ports = [
            port("10.0.0.1:7882", "192.0.2.1:7882"),
            port("10.0.0.2:7882", "192.0.2.1:7882"),
            port("[fd00::1]:7882", "[fd00::1]:7882"),
        ];
        let peers = RelayPeers::new(&ports);
        assert_eq!(
            peers.bound(address("192.0.2.1:7882")),
            Some(address("10.0.0.1:7882"))
        );
        assert_eq!(
            peers.advertised(address("10.0.0.2:7882")),
            Some(address("192.0.2.1:7882"))
        );
        assert_eq!(peers.relayed(false), Some(address("10.0.0.1:0").ip()));
        assert_eq!(peers.relayed(true), Some(address("[fd00::1]:0").ip()));
        assert!(
            peers.permits(address("192.0.2.1:0").ip())
                && !peers.permits(address("10.0.0.1:0").ip())
        );
        for other in [
            "192.0.2.1:7883",
            "10.0.0.1:7882",
            "192.0.2.2:7882",
            "127.0.0.1:7882",
        ] {
            assert_eq!(peers.bound(address(other)), None, "{other}");
        }
        assert_eq!(RelayPeers::new(&ports[..2]).relayed(true), None);
    }
}
