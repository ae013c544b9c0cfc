//! The way to the media workers: their addresses, which are all that is relayed to, and the socket of an allocation, from which its
//! datagrams reach them.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};

use conclave_model::MediaAddress;
use socket2::SockRef;
use tokio::net::UdpSocket;

/// The longest datagram that is relayed to a client whole. Those of WebRTC are shorter.
pub const MAX_DATAGRAM: usize = 4_000;

/// The peers of all allocations.
#[derive(Debug, Default)]
pub struct Peers {
    bound: HashMap<SocketAddr, SocketAddr>,
    advertised: HashMap<SocketAddr, SocketAddr>,
    /// The first address of this machine of each family, IPv4 first.
    relayed: [Option<IpAddr>; 2],
}

impl Peers {
    /// Takes the sockets of the media workers. Of those that are advertised alike, behind one external address, the first is meant.
    pub fn new(addresses: &[MediaAddress]) -> Self {
        let mut peers = Self::default();
        for MediaAddress { bound, advertised } in addresses {
            peers.bound.entry(*advertised).or_insert(*bound);
            peers.advertised.insert(*bound, *advertised);
            peers.relayed[usize::from(bound.is_ipv6())].get_or_insert(bound.ip());
        }
        peers
    }

    /// Returns whether a media worker has this address, at any port.
    pub fn permits(&self, peer: IpAddr) -> bool {
        self.bound.keys().any(|advertised| advertised.ip() == peer)
    }

    /// Returns where to send what is for a peer; `None` if it is no media worker.
    pub fn bound(&self, peer: SocketAddr) -> Option<SocketAddr> {
        self.bound.get(&peer).copied()
    }

    /// Returns the peer that sends from an address of this machine; `None` if that is no media worker.
    pub fn advertised(&self, bound: SocketAddr) -> Option<SocketAddr> {
        self.advertised.get(&bound).copied()
    }

    /// Returns the address of this machine that is relayed from; `None` if no media worker has this family.
    pub fn relayed(&self, is_ipv6: bool) -> Option<IpAddr> {
        self.relayed[usize::from(is_ipv6)]
    }
}

/// The socket of a client's allocation, if it has one.
#[derive(Debug, Default)]
pub struct Relay(Option<UdpSocket>);

impl Relay {
    /// Opens a socket at an address of this machine; returns its port. The system chooses one. Must be called on a runtime.
    pub fn open(&mut self, address: IpAddr) -> io::Result<u16> {
        let socket = std::net::UdpSocket::bind((address, 0))?;
        socket.set_nonblocking(true)?;
        let socket = UdpSocket::from_std(socket)?;
        let port = socket.local_addr()?.port();
        self.0 = Some(socket);
        Ok(port)
    }

    /// Closes the socket.
    pub fn close(&mut self) {
        self.0 = None;
    }

    /// Takes the socket.
    pub fn take(&mut self) -> Option<UdpSocket> {
        self.0.take()
    }

    /// Sends a datagram. Returns whether it was taken: a socket that is busy loses it, as a network would.
    pub fn send(&self, payload: &[u8], to: SocketAddr) -> bool {
        self.0
            .as_ref()
            .is_some_and(|socket| send(socket, payload, to))
    }

    /// Receives a datagram: waits for ever if there is no socket.
    pub async fn receive(&self, buffer: &mut [u8]) -> (usize, SocketAddr) {
        match &self.0 {
            Some(socket) => receive(socket, buffer).await,
            None => std::future::pending().await,
        }
    }

    /// Receives a datagram that is there already.
    pub fn receive_now(&self, buffer: &mut [u8]) -> Option<(usize, SocketAddr)> {
        self.0.as_ref()?.try_recv_from(buffer).ok()
    }
}

/// Sends a datagram. Returns whether it was taken. The socket is asked itself: what the runtime knows of a new one is that it is busy.
pub fn send(socket: &UdpSocket, payload: &[u8], to: SocketAddr) -> bool {
    SockRef::from(socket).send_to(payload, &to.into()).is_ok()
}

/// Receives a datagram. An error of a datagram socket, such as a receiver that is gone, is over with the call.
pub async fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> (usize, SocketAddr) {
    loop {
        if let Ok(received) = socket.recv_from(buffer).await {
            return received;
        }
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
        let peers = Peers::new(&ports);
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
        assert_eq!(Peers::new(&ports[..2]).relayed(true), None);
    }
}
