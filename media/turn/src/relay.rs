//! The socket of an allocation, from which its datagrams reach a media worker.

use std::io;
use std::net::{IpAddr, SocketAddr};

use socket2::SockRef;
use tokio::net::UdpSocket;

/// The longest datagram that is relayed to a client whole. Those of WebRTC are shorter.
pub const MAX_DATAGRAM: usize = 4_000;

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
